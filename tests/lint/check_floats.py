#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No floating point where money is shared: the folder rewarder/ computes with whole numbers only.

The same input must give the same bytes on every machine and with every compiler, and no amount may
be rounded by accident. So neither the types, nor constants, nor the functions for them stand there.
"""
import re

from common import code_lines, files, main, read

FOLDER = "rewarder"

RULES = [
    (re.compile(r"\b(float|double|_Float\w+|__float\w+|_Decimal\w+)\b"), "a floating type"),
    (re.compile(r"(?<![\w.])(\d+\.\d*|\.\d+|\d+(?=[eE][+-]?\d))([eE][+-]?\d+)?[fFlL]?(?![\w.])"),
     "a floating constant"),
    (re.compile(r"\b0[xX][\da-fA-F.]+[pP][+-]?\d+"), "a floating constant"),
    (re.compile(r"\b(strtod|strtof|strtold|atof|DBL_\w+|FLT_\w+|HUGE_VAL\w*)\b"),
     "a function or constant of floating numbers"),
]
HEADERS = re.compile(r"^\s*#\s*include\s*[<\"](math|tgmath|fenv|complex|float)\.h[>\"]")
# In a format: %f, %e, %g, %a with flags, width and precision. Small letters only: "%2F" is a
# percent-encoded character.
FORMAT = re.compile(r"(?<!%)(?:%%)*%[-+ #0']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?L?[aefg]")
STRINGS = re.compile(r'"(?:\\.|[^"\\\n])*"')


def check(root):
    for path in files(root, ".c", ".h"):
        if path.parts[0] != FOLDER:
            continue
        text = read(root, path)
        for no, line in enumerate(code_lines(text), 1):
            for pattern, what in RULES:
                found = pattern.search(line)
                if found:
                    yield path, no, f"{what} ('{found.group().strip()}'): whole numbers only"
        for no, line in enumerate(text.split("\n"), 1):
            if HEADERS.search(line):
                yield path, no, "a header of floating numbers: whole numbers only"
            if line.lstrip().startswith(("*", "/*", "//")):
                continue
            for string in STRINGS.findall(line):
                if FORMAT.search(string):
                    yield path, no, f"a format of floating numbers ({string}): whole numbers only"


F = "rewarder/calc/a.c"
CASES = [
    ("a double", {F: "static double a;\n"}, "a floating type"),
    ("a float parameter", {F: "int a(float b);\n"}, "a floating type"),
    ("a cast", {F: "int a = (int)((double)b / 2);\n"}, "a floating type"),
    ("a wide type", {F: "__float128 a;\n"}, "a floating type"),
    ("a constant", {F: "int a = b * 1.5;\n"}, "a floating constant"),
    ("a constant without a whole part", {F: "int a = b * .5;\n"}, "a floating constant"),
    ("a constant with an exponent", {F: "int a = 1e6;\n"}, "a floating constant"),
    ("a hexadecimal constant", {F: "int a = 0x1p10;\n"}, "a floating constant"),
    ("the header", {F: "#include <math.h>\n"}, "a header of floating"),
    ("a reader", {F: "int a = (int)strtod(b, 0);\n"}, "a function or constant"),
    ("a format", {F: 'int n = snprintf(t, 9, "%5.1f", x);\n'}, "a format of floating"),
    ("in a header", {"rewarder/calc/a.h": "double a(void);\n"}, "a floating type"),
    ("elsewhere", {"kernel/src/base/a.c": "double a = 1.5;\n"}, None),
    ("only spoken of", {F: "/* no float, no 1.5 */\nint a; // double\n"}, None),
    ("in a text", {F: 'const char *a = "1.5 double 100%";\n'}, None),
    ("whole numbers",
     {F: "int a = 0x1e5 + b.c + d[1].e;\nuint64_t f = UINT64_C(1) << 3;\n"
         'int n = snprintf(t, 9, "%d%% of %08x, 100%%f", x, y);\n'}, None),
    ("percent-encoding", {F: 'const char *a = "%2E%2F";\n'}, None),
]

if __name__ == "__main__":
    main(check, CASES)
