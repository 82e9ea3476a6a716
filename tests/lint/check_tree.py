#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree in ARCHITECTURE.md is the tree on disk.

The section "The tree" holds an indented block. A line names one or more paths, separated by single
spaces, and describes them after two or more spaces; deeper indentation means "inside the path
above". Each path must exist. The block must list every folder and every document (*.md) at the top
of the project, and all folders inside a folder of which it lists any. The folders of a service
must be listed in the room order of rooms.toml.
"""
import re

from common import files, main, read
from rooms import TOPS as ROOMS

PAGE = "ARCHITECTURE.md"
TITLE = "## The tree"


def block(text):
    """(line number, indentation, names) of each line of the block."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("## "):
            inside = line == TITLE
        elif inside and line.startswith("    ") and line.strip():
            names = re.split(r"  +", line.strip())[0].split(" ")
            yield number, len(line) - len(line.lstrip()), names


def listed(text):
    """(line number, path) of each path of the block, in order."""
    parents = [(0, "")]
    for number, indent, names in block(text):
        while parents[-1][0] >= indent:
            parents.pop()
        for name in names:
            yield number, parents[-1][1] + name
        parents.append((indent, parents[-1][1] + names[-1].rstrip("/") + "/"))


def folders_of(paths):
    """The visible folders of the tree, each with a slash at its end."""
    found = set()
    for path in paths:
        for parent in path.parents:
            name = parent.as_posix()
            if name != "." and not any(part.startswith(".") for part in parent.parts):
                found.add(name + "/")
    return found


def order_faults(places):
    for top, rooms in ROOMS.items():
        wanted = [room for room in rooms["rooms"] if f"{top}/{room}/" in places]
        got = sorted(wanted, key=lambda room, top=top: places[f"{top}/{room}/"])
        if got != wanted:
            first = next(g for g, w in zip(got, wanted) if g != w)
            yield PAGE, places[f"{top}/{first}/"][0], (
                f"{top}/{first}/ is not in the order of rooms.toml: {' '.join(wanted)}")


def check(root):
    paths = files(root)
    folders = folders_of(paths)
    places = {}
    for place, (number, path) in enumerate(listed(read(root, PAGE))):
        places[path] = (number, place)
        if not (root / path).exists():
            yield PAGE, number, f"{path} does not exist"
        elif path.endswith("/") != (root / path).is_dir():
            yield PAGE, number, f"{path}: folders end with a slash, files do not"
    if not places:
        yield PAGE, 0, f"has no section '{TITLE}' with an indented block"
    parents = {""} | {path.rstrip("/").rpartition("/")[0] + "/" for path in places if "/" in
                      path.rstrip("/")}
    for folder in sorted(folders):
        above = folder.rstrip("/").rpartition("/")
        if above[0] + above[1] in parents and folder not in places:
            yield PAGE, 0, f"the tree does not list {folder}"
    for path in paths:
        if path.suffix == ".md" and len(path.parts) == 1 and path.name not in places:
            yield PAGE, 0, f"the tree does not list {path}"
    yield from order_faults(places)


def seeded(lines, *more):
    page = "# A\n\n## The tree\n\n" + "".join(f"    {line}\n" for line in lines) + "\nText.\n"
    return {PAGE: page, "docs/a/b.md": "x\n", "docs/c/d.md": "x\n", **{m: "x\n" for m in more}}


GOOD = ["ARCHITECTURE.md", "docs/        for people", "  a/ c/"]
WALLET = ["wallet/call/a.c", "wallet/table/a.c"]
CASES = [
    ("good", seeded(GOOD), None),
    ("no inner folder listed", seeded(GOOD[:2]), None),
    ("no block", {PAGE: "# A\n"}, "has no section"),
    ("path that does not exist", seeded(GOOD + ["gone/"]), "gone/ does not exist"),
    ("inner path that does not exist", seeded(GOOD + ["  e/"]), "docs/e/ does not exist"),
    ("folder without a slash", seeded(["ARCHITECTURE.md", "docs"]), "end with a slash"),
    ("top folder not listed", seeded(GOOD, "new/a.c"), "does not list new/"),
    ("inner folder not listed", seeded(GOOD, "docs/e/f.md"), "does not list docs/e/"),
    ("document not listed", seeded(GOOD, "NEW.md"), "does not list NEW.md"),
    ("hidden folders are free", seeded(GOOD, ".ci/run"), None),
    ("rooms in order", seeded(GOOD + ["wallet/", "  call/", "  table/"], *WALLET), None),
    ("rooms in another order", seeded(GOOD + ["wallet/", "  table/ call/"], *WALLET),
     "not in the order of rooms.toml"),
]

if __name__ == "__main__":
    main(check, CASES)
