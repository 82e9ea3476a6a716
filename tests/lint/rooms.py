# SPDX-License-Identifier: Apache-2.0
"""rooms.toml, read once, and where a file stands in it; shared by the checks of rooms.

rooms_debt.txt lists findings that are known: they pass, and a line that nothing gives any more
fails, so the list only shrinks.
"""
import tomllib
from collections import namedtuple
from pathlib import Path

TOPS = tomllib.loads((Path(__file__).with_name("rooms.toml")).read_text(encoding="utf-8"))
# top: the row of rooms.toml; room: the folder below it, "." for the service's own; rank: its place
# in the order (len(rooms) for "."), -1 for a folder without a row; name: the rest of the path.
Place = namedtuple("Place", "top room rank name")


def place(path):
    """The place of a file of the product, or None where no order is declared."""
    text = path.as_posix()
    for top, row in TOPS.items():
        if not text.startswith(f"{top}/"):
            continue
        rest = text[len(top) + 1:].split("/")
        if len(rest) == 1:
            return Place(top, ".", len(row["rooms"]), rest[0])
        rank = row["rooms"].index(rest[0]) if rest[0] in row["rooms"] else -1
        return Place(top, rest[0], rank, "/".join(rest[1:]))
    return None


def without_debt(root, check, findings):
    """The findings that are not in rooms_debt.txt, and the lines of it that nothing gives."""
    page = root / "tests" / "lint" / "rooms_debt.txt"
    owed = set()
    if page.exists():
        owed = {line for line in page.read_text(encoding="utf-8").splitlines()
                if line.startswith(f"{check}: ")}
    seen = set()
    for path, line, text in findings:
        known = f"{check}: {path}: {text}"
        seen.add(known)
        if known not in owed:
            yield path, line, text
    for known in sorted(owed - seen):
        yield page.relative_to(root), 0, f"nothing gives this any more, delete it: {known}"
