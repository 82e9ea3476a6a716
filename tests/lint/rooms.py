# SPDX-License-Identifier: Apache-2.0
"""rooms.toml, read once, and where a file stands in it; shared by the checks of rooms."""
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
