#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rooms of rooms.toml hold for calls as they do for includes, and each can be seen whole.

1. A function that a file names is defined in its own room or in an earlier one, however its header
   was reached; so no cycle of calls crosses rooms. Functions are found in the sources, so that
   this needs no build.
2. A folder below a service has a row in rooms.toml, and a README.md of 8 to 60 lines.
3. A room has at most 24 sources.
4. A struct in a header of a service has at most 32 members.
"""
import re

from common import code_lines, files, main, read
from debt import without_debt
from rooms import TOPS, place

SOURCES_MAX = 24
MEMBERS_MAX = 32
README_LINES = (8, 60)
# A definition, as the formatter leaves it: the name before the first bracket of a line in column 0,
# and a brace in column 0 before the next blank line or semicolon.
HEAD = re.compile(r"^(?!static\b|typedef\b|#|\s)[A-Za-z_][\w\s*]*?\b(\w+)\(")
# A struct may have the name of a function: `struct ron_http_head` is no use of ron_http_head().
WORD = re.compile(r"(?<!struct )(?<!enum )(?<!union )\b[a-z_][a-z0-9_]*_[a-z0-9_]*\b")
STRUCT = re.compile(r"^struct (\w+) \{")


def defined(lines):
    """Names of the functions with external linkage that these lines define."""
    for number, line in enumerate(lines):
        match = HEAD.match(line)
        if not match:
            continue
        for after in lines[number:number + 12]:
            if after.startswith("{"):
                yield match.group(1)
                break
            if after.rstrip().endswith(";") or not after.strip():
                break


def call_faults(sources):
    """Names that are defined in a later room; sources is path -> lines of code."""
    homes = {}
    for path, lines in sources.items():
        if path.suffix == ".c":
            for name in defined(lines):
                homes[name] = path
    for path, lines in sources.items():
        here = place(path)
        told = set()
        for number, line in enumerate(lines, 1):
            for name in WORD.findall(line):
                home = homes.get(name)
                if home is None or name in told:
                    continue
                there = place(home)
                if there.top == here.top and there.rank > here.rank and path.suffix == ".c":
                    told.add(name)
                    yield path, number, (f"room {here.room} must not use {name}: {home} is in "
                                         f"{there.room}, which comes after it")


def member_faults(path, lines):
    start, count = None, 0
    for number, line in enumerate(lines, 1):
        if STRUCT.match(line):
            start, count = number, 0
        elif line.startswith("}") and start:
            if count > MEMBERS_MAX:
                name = STRUCT.match(lines[start - 1]).group(1)
                yield path, start, f"struct {name} has {count} members, {MEMBERS_MAX} at most"
            start = None
        elif start and line.rstrip().endswith(";"):
            count += 1


def room_faults(root, paths):
    rooms = {}
    for path in paths:
        here = place(path)
        if here and path.suffix in (".c", ".h"):
            folder = here.top if here.room == "." else f"{here.top}/{here.room}"
            rooms.setdefault(folder, []).append(here)
    for folder, places in sorted(rooms.items()):
        if places[0].rank < 0:
            yield folder, 0, "no row in tests/lint/rooms.toml"
        if len(places) > SOURCES_MAX:
            yield folder, 0, f"{len(places)} sources, {SOURCES_MAX} at most"
        readme = root / folder / "README.md"
        if not readme.exists():
            yield folder, 0, "no README.md"
        elif places[0].room != ".":
            count = len(read(root, readme.relative_to(root)).splitlines())
            if not README_LINES[0] <= count <= README_LINES[1]:
                yield f"{folder}/README.md", 0, (f"{count} lines; a room is told in "
                                                 f"{README_LINES[0]} to {README_LINES[1]}")


def every_fault(root):
    paths = files(root, ".c", ".h")
    sources = {path: code_lines(read(root, path)) for path in paths if place(path)}
    yield from call_faults(sources)
    for path, lines in sources.items():
        if path.suffix == ".h" and not path.as_posix().startswith("kernel/"):
            yield from member_faults(path, lines)
    yield from room_faults(root, paths)


def check(root):
    yield from without_debt(root, "rooms", every_fault(root), "rooms")


R = {f"{folder}/README.md": "x\n" * 10 for folder in
     ("ledger", "ledger/entry", "ledger/book", "ledger/log", "kernel/src/http/tls",
      "kernel/src/http/ops")}
APPLY = "int led_apply(int a)\n{\n    return a;\n}\n"
CASES = [
    ("a debt that was paid",
     {"tests/lint/rooms_debt.txt": "rooms: ledger/a.c: an old finding\n"}, "delete it"),
    ("an earlier room is fine",
     {**R, "ledger/entry/a.c": APPLY, "ledger/book/b.c": "int y = led_apply(1);\n"}, None),
    ("a call to a later room", {**R, "ledger/book/a.c": APPLY,
                                "ledger/entry/b.c": "int x(void)\n{\n    led_apply(1);\n}\n"},
     "room entry must not use led_apply: ledger/book/a.c is in book"),
    ("a pointer to a function of a later room",
     {**R, "ledger/book/a.c": APPLY, "ledger/entry/b.c": "int (*f)(int) = led_apply;\n"},
     "must not use led_apply"),
    ("a definition over several lines",
     {**R, "ledger/book/a.c": "struct x *led_apply(int a,\n                    int b)\n{\n}\n",
      "ledger/entry/b.c": "int y = led_apply(1, 2);\n"}, "must not use led_apply"),
    ("a declaration is no definition",
     {**R, "ledger/book/a.c": "int led_apply(int a);\n", "ledger/entry/b.c": "led_apply(1);\n"},
     None),
    ("a comment is no call", {**R, "ledger/book/a.c": APPLY,
                              "ledger/entry/b.c": "/* led_apply */\n"}, None),
    ("a struct with the name of a function",
     {**R, "ledger/book/a.c": APPLY, "ledger/entry/b.c": "struct led_apply *a;\n"}, None),
    ("a static function is nobody else's",
     {**R, "ledger/book/a.c": "static " + APPLY, "ledger/entry/b.c": "led_apply(1);\n"}, None),
    ("a later room of the HTTP module",
     {**R, "kernel/src/http/ops/a.c": "int ron__ops(void)\n{\n}\n",
      "kernel/src/http/tls/b.c": "ron__ops();\n"}, "room tls must not use ron__ops"),
    ("a folder without a row", {**R, "ledger/attic/README.md": "x\n" * 10,
                                "ledger/attic/a.c": "\n"}, "no row in"),
    ("a room without a README", {"ledger/README.md": "x\n" * 10, "ledger/log/a.c": "\n"},
     "ledger/log:0: no README.md"),
    ("a README of one line", {**R, "ledger/log/a.c": "\n", "ledger/log/README.md": "x\n"},
     "1 lines; a room is told"),
    ("too many sources", {**R, **{f"ledger/log/a{n}.c": "\n" for n in range(25)}},
     "25 sources, 24 at most"),
    ("as many as may be", {**R, **{f"ledger/log/a{n}.c": "\n" for n in range(24)}}, None),
    ("a struct with too many members",
     {**R, "ledger/log/a.h": "struct big {\n" + "    int a;\n" * 33 + "};\n"},
     "struct big has 33 members"),
    ("a struct that fits", {**R, "ledger/log/a.h": "struct big {\n" + "    int a;\n" * 32 + "};\n"},
     None),
]

if __name__ == "__main__":
    main(check, CASES)
