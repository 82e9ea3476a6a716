#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House rules that a formatter does not know.

Size: a C file over 800 lines, a function over 90 or a line over 100 columns fails; a function over
70 gives a warning. Every source starts with its licence. No tabs, no trailing blanks. Every folder
with sources has a README.md. No leftover markers of unfinished work, no path of one machine.
"""
import re

from common import files, main, read

FILE_LINES_MAX = 800
FUNCTION_LINES_WARN = 70
FUNCTION_LINES_MAX = 90
COLUMNS_MAX = 100
SOURCES = {".c", ".h", ".py", ".sh", ".cmake", ".pml"}
TEXTS = SOURCES | {".md", ".json", ".yml", ".txt"}
# Files that are sources without a telling suffix.
NAMED_SOURCES = {"dev", ".ci/run", "CMakeLists.txt", ".clang-format", ".clang-tidy"}
# Folders that mirror others and are described by the README.md named here.
MIRRORS = {
    "kernel/include/ron/": "kernel/README.md",
    "tests/unit/": "tests/unit/README.md",
    "tests/fuzz/corpus/": "tests/fuzz/README.md",
}
# Written in pieces, so that this file passes its own check.
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~$}/-])/(wo" r"rk|fa" r"rm|ro" r"ot|ho" r"me|Us" r"ers)/")


def is_source(path):
    return path.suffix in SOURCES or path.as_posix() in NAMED_SOURCES


def line_faults(path, lines):
    # Rows of a table and prose in Markdown wrap softly; everything else is read in an editor.
    wide_ok = not is_source(path)
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX and not wide_ok:
            yield path, number, f"{len(line)} columns, {COLUMNS_MAX} at most"
        if "\t" in line:
            yield path, number, "a tab"
        if line != line.rstrip():
            yield path, number, "trailing blanks"
        if LEFTOVER.search(line):
            yield path, number, "a marker of unfinished work: do it, or open an issue"
        if MACHINE_PATH.search(line):
            yield path, number, "a path of one machine"


def function_faults(path, lines):
    """Functions by their braces in column 0, as the formatter leaves them."""
    start = 0
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start:
            length = number - start - 1
            if length > FUNCTION_LINES_MAX:
                yield path, start, f"a function of {length} lines, {FUNCTION_LINES_MAX} at most"
            elif length > FUNCTION_LINES_WARN:
                yield path, start, f"warning: a function of {length} lines; aim below 70"
            start = 0


def folder_faults(sources, readmes):
    for folder in sorted({path.parent.as_posix() for path in sources}):
        if folder.startswith(".") and folder != ".":
            continue  # what a tool wants where it wants it
        if folder == ".":
            wanted = "README.md"
        else:
            mirrored = [m for m in MIRRORS if f"{folder}/".startswith(m) and f"{folder}/" != m]
            wanted = MIRRORS[mirrored[0]] if mirrored else f"{folder}/README.md"
        if wanted not in readmes:
            yield folder, 0, f"has sources but no README.md ({wanted})"


def check(root):
    paths = files(root)
    sources = [path for path in paths if is_source(path)]
    for path in paths:
        if path.suffix not in TEXTS and not is_source(path):
            continue
        if path.as_posix().startswith("tests/fuzz/corpus/"):
            continue
        lines = read(root, path).split("\n")
        yield from line_faults(path, lines)
        if is_source(path):
            if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
                yield path, 1, "the first lines do not name the licence"
        if path.suffix in (".c", ".h"):
            if len(lines) - 1 > FILE_LINES_MAX:
                yield path, 0, f"{len(lines) - 1} lines, {FILE_LINES_MAX} at most"
            yield from function_faults(path, lines)
    readmes = {path.as_posix() for path in paths if path.name == "README.md"}
    yield from folder_faults(sources, readmes)


HEAD = "/* SPDX-License-Identifier: Apache-2.0 */\n"
README = {"README.md": "x\n", "kernel/src/base/README.md": "x\n"}


def seeded(text, path="kernel/src/base/a.c"):
    return {**README, path: text}


def function(count):
    return HEAD + "void f(void)\n{\n" + "    x();\n" * count + "}\n"


CASES = [
    ("file too long", seeded(HEAD + "int x;\n" * FILE_LINES_MAX), "801 lines"),
    ("file just short enough", seeded(HEAD + "int x;\n" * (FILE_LINES_MAX - 1)), None),
    ("function too long", seeded(function(91)), "a function of 91 lines"),
    ("function longish", seeded(function(71)), "warning: a function of 71 lines"),
    ("function fine", seeded(function(70)), None),
    ("line too long", seeded(HEAD + "/*" + "x" * 97 + "*/\n"), "101 columns"),
    ("line fits", seeded(HEAD + "/*" + "x" * 96 + "*/\n"), None),
    ("tab", seeded(HEAD + "\tint x;\n"), "a tab"),
    ("trailing blank", seeded(HEAD + "int x; \n"), "trailing blanks"),
    ("no licence", seeded("int x;\n"), "do not name the licence"),
    ("licence after #!", seeded("#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n", "a.sh"),
     None),
    ("no README", {"README.md": "x\n", "cli/verb/a.c": HEAD}, "no README.md (cli/verb/README.md)"),
    ("mirrored folder", {**README, "kernel/include/ron/base/a.h": HEAD}, "(kernel/README.md)"),
    ("mirrored folder, described",
     {**README, "kernel/README.md": "x\n", "kernel/include/ron/base/a.h": HEAD}, None),
    ("leftover marker", seeded(HEAD + "/* TO" "DO: x */\n"), "unfinished work"),
    ("machine path", seeded("see /ro" "ot/x.txt\n", "docs/a.md"), "a path of one machine"),
    ("relative path is none", seeded("see src/ro" "ot/x and $HOME/ro" "ot/x\n", "docs/a.md"), None),
]

if __name__ == "__main__":
    main(check, CASES)
