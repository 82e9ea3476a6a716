#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A function is as public as its callers need, and has a caller in the product.

1. A function that kernel/include/ron declares is used by the product outside its own module; used
   by its module alone it belongs into a header of kernel/src, used by nobody it goes (or becomes
   test code).
2. A function that a header of a service, the client, the auditor or the command line declares is
   used by the product outside the file that defines it.
A use is the name in code, so a pointer to the function counts. `unused_debt.txt` lists what is
known; it only shrinks.
"""
import re

from common import code_lines, files, main, read
from debt import without_debt

TOPS = ("ledger", "wallet", "rewarder", "edge", "interop", "console", "client", "audit", "cli")
# A declaration or definition as the formatter leaves it: in column 0, a name before a bracket.
DECLARED = re.compile(r"^(?!static\b|typedef\b|#|\s|extern \")(?:[A-Za-z_][\w\s*]*?[\s*])"
                      r"(?<!struct )(\w+)\(", re.MULTILINE)
ATTRIBUTE = re.compile(r"__attribute__\(\([^;{]*?\)\)\s*")
WORD = re.compile(r"(?<!struct )(?<!enum )\b[a-z_]\w*\b")
NOT_NAMES = {"if", "for", "while", "switch", "return", "sizeof", "RON_PRINTF"}


def module(path):
    """Where a name is at home: a module of the kernel, or the file's path without its suffix."""
    parts = path.parts
    if parts[:3] == ("kernel", "include", "ron"):
        return f"kernel/{parts[3]}"
    if parts[:2] == ("kernel", "src"):
        return f"kernel/{parts[2]}"
    return path.as_posix()


def declared(text):
    """(line, name) of each function that a header declares without defining it."""
    for match in DECLARED.finditer(text):
        name = match.group(1)
        end = len(text)
        for mark in ";{":
            found = text.find(mark, match.end())
            end = min(end, found if found >= 0 else end)
        if name.islower() and name not in NOT_NAMES and text[end:end + 1] == ";":
            yield text.count("\n", 0, match.start(1)) + 1, name


def every_fault(root):
    codes = {}
    for path in files(root, ".c", ".h"):
        if path.parts[0] in TOPS or path.parts[0] == "kernel":
            codes[path] = ATTRIBUTE.sub("", "\n".join(code_lines(read(root, path))))
    # name -> files that mention it
    uses = {}
    for path, text in codes.items():
        for name in set(WORD.findall(text)):
            uses.setdefault(name, set()).add(path)
    defines = {}
    for path, text in codes.items():
        if path.suffix == ".c":
            for match in DECLARED.finditer(text):
                rest = text[match.end():]
                if 0 <= rest.find("{") < (rest.find(";") if ";" in rest else len(rest)):
                    defines.setdefault(match.group(1), set()).add(path)
    for path, text in codes.items():
        if path.suffix != ".h":
            continue
        public = path.as_posix().startswith("kernel/include/ron/")
        if path.parts[0] == "kernel" and not public:
            continue
        for line, name in declared(text):
            homes = defines.get(name, set())
            users = uses.get(name, set()) - homes - {path}
            if not users:
                inside = any(len(re.findall(rf"\b{name}\b", codes[home])) > 1 for home in homes)
                inside = inside or len(re.findall(rf"\b{name}\b", text)) > 1
                if not inside:
                    yield path, line, f"{name} has no caller in the product"
                elif not public:
                    yield path, line, f"{name} is used by its own file alone: make it static"
                elif len(re.findall(rf"\b{name}\b", text)) == 1:
                    yield path, line, f"{name} is used by its own module alone: make it private"
            elif public and all(module(user) == module(path) and user.suffix == ".c" or
                                module(user) == module(path) and
                                user.as_posix().startswith("kernel/src/") for user in users):
                if len(re.findall(rf"\b{name}\b", text)) == 1:
                    yield path, line, f"{name} is used by its own module alone: make it private"


def check(root):
    yield from without_debt(root, "unused", every_fault(root))


H = "kernel/include/ron/chan/a.h"
C = "kernel/src/chan/a.c"
DEF = "int ron_a(int b)\n{\n    return b;\n}\n"
CASES = [
    ("a debt that was paid",
     {"tests/lint/unused_debt.txt": "unused: kernel/a.h: an old finding\n"}, "delete it"),
    ("used by nobody", {H: "int ron_a(int b);\n", C: DEF}, "ron_a has no caller in the product"),
    ("used by a test alone", {H: "int ron_a(int b);\n", C: DEF,
                              "tests/unit/chan/test_a.c": "int x = ron_a(1);\n"},
     "has no caller in the product"),
    ("used by its module alone",
     {H: "int ron_a(int b);\n", C: DEF, "kernel/src/chan/b.c": "int x = ron_a(1);\n"},
     "own module alone"),
    ("used by its own file alone",
     {H: "int ron_a(int b);\n", C: DEF + "int x = ron_a(1);\n"}, "own module alone"),
    ("used by another module",
     {H: "int ron_a(int b);\n", C: DEF, "kernel/src/task/b.c": "int x = ron_a(1);\n"}, None),
    ("used by a service",
     {H: "int ron_a(int b);\n", C: DEF, "ledger/book/b.c": "f = ron_a;\n"}, None),
    ("used by an inline function of its header",
     {H: "int ron_a(int b);\nstatic inline int ron_b(void)\n{\n    return ron_a(1);\n}\n", C: DEF},
     None),
    ("named in a comment is no use",
     {H: "int ron_a(int b);\n", C: DEF, "ledger/book/b.c": "/* ron_a */\n"}, "no caller"),
    ("with attributes",
     {H: "__attribute__((cold)) void ron_a(int b);\n", C: "void ron_a(int b)\n{\n}\n"},
     "ron_a has no caller"),
    ("a function of a service that nobody calls",
     {"ledger/log/a.h": "struct x *led_a(int b);\n", "ledger/log/a.c": "struct x *led_a(int b)\n"
      "{\n}\n"}, "led_a has no caller"),
    ("a function of a service for its own file",
     {"ledger/log/a.h": "int led_a(int b);\n",
      "ledger/log/a.c": "int led_a(int b)\n{\n}\nint x = led_a(1);\n"}, "make it static"),
    ("a function of a service with a caller",
     {"ledger/log/a.h": "int led_a(int b);\n", "ledger/log/a.c": "int led_a(int b)\n{\n}\n",
      "ledger/svc.c": "int x = led_a(1);\n"}, None),
]

if __name__ == "__main__":
    main(check, CASES)
