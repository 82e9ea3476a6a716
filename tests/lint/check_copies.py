#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No private copies of what base offers: string comparison, hex digits, integers in byte layouts,
the keyed hash, and string literals as slices.

A copy drifts: ten hex decoders once disagreed about upper case. `ron/base/str.h`, `bytes.h`,
`hex.h` and `hash.h` have the one of each. audit/ is exempt, because it must be a second
implementation; so are tests, which need oracles of their own.
"""
import re

from common import code_lines, files, main, read

EXEMPT = ("audit", "tests")
BASE = ("kernel/src/base", "kernel/include/ron/base")

# A static function with its parameters, in code without comments and strings.
FUNCTION = re.compile(r"^static\s+[^;{}()=]*?\b(\w+)\s*\(([^;{}]*?)\)\s*\{", re.M | re.S)
MACRO = re.compile(r"^\s*#\s*define\s+STR\b", re.M)

NAMES = {
    "same": "ron_str_equal", "same_text": "ron_str_equal", "str_of": "ron_str_of",
    "hex_digit": "ron_hex_digit", "hex_value": "ron_hex_digit", "unhex": "ron_unhex",
    "siphash": "ron_hash",
}
INTEGER = re.compile(r"(put|get)_?u?(16|32|64)")
# put_u64 of a buffer writes decimals and that of a statement binds a column: other work.
BYTES = re.compile(r"\b(uint8_t|char|void)\s*\*|\breader\b")


def instead_of(name, params):
    if name in NAMES:
        return NAMES[name]
    found = INTEGER.fullmatch(name)
    if found and BYTES.search(params):
        return f"ron_{found.group(1)}_be{found.group(2)} or _le{found.group(2)}"
    return None


def check(root):
    for path in files(root, ".c", ".h"):
        if path.parts[0] in EXEMPT or path.as_posix().startswith(BASE):
            continue
        text = "\n".join(code_lines(read(root, path)))
        for found in FUNCTION.finditer(text):
            known = instead_of(found.group(1), found.group(2))
            if known:
                line = text.count("\n", 0, found.start(1)) + 1
                yield path, line, f"'{found.group(1)}' is a copy; base has {known}"
        for found in MACRO.finditer(text):
            line = text.count("\n", 0, found.end()) + 1
            yield path, line, "macro 'STR' is a copy; base has RON_STR_LIT"


F = "edge/fill/a.c"
COPY = "static bool same(struct ron_str a, struct ron_str b)\n{\n    return a.len == b.len;\n}\n"
CASES = [
    ("a comparison", {F: COPY}, "'same' is a copy; base has ron_str_equal"),
    ("in a header", {"edge/fill/a.h": COPY.replace("static", "static inline")}, "ron_str_equal"),
    ("in the kernel", {"kernel/src/http/a.c": COPY}, "ron_str_equal"),
    ("by another name", {F: COPY.replace("same", "same_text")}, "ron_str_equal"),
    ("a maker", {F: "static struct ron_str str_of(const char *t)\n{\n}\n"}, "ron_str_of"),
    ("a digit", {F: "static int hex_digit(char c)\n{\n}\n"}, "ron_hex_digit"),
    ("another digit", {F: "static unsigned hex_value(char c)\n{\n}\n"}, "ron_hex_digit"),
    ("a decoder", {F: "static bool unhex(const char *t, uint8_t *b,\n    size_t n)\n{\n}\n"},
     "ron_unhex"),
    ("a writer", {F: "static void put_u64(uint8_t *to, uint64_t v)\n{\n}\n"}, "ron_put_be64"),
    ("a short writer", {F: "static void put16(uint8_t *to, uint16_t v)\n{\n}\n"}, "ron_put_be16"),
    ("a reader", {F: "static uint32_t get_u32(const void *at)\n{\n}\n"}, "ron_get_be32"),
    ("a cursor", {F: "static uint32_t get_u32(struct reader *r)\n{\n}\n"}, "ron_get_be32"),
    ("the hash", {F: "static uint64_t siphash(const void *p, size_t n)\n{\n}\n"}, "ron_hash"),
    ("the macro", {F: "#define STR(x) ((struct ron_str){x, sizeof(x) - 1})\n"}, "RON_STR_LIT"),
    ("base itself", {"kernel/src/base/a.c": COPY}, None),
    ("the auditor", {"audit/base/a.c": COPY}, None),
    ("a test", {"tests/unit/edge/a.c": COPY}, None),
    ("a prototype", {F: "static bool same(struct ron_str a, struct ron_str b);\n"}, None),
    ("a call", {F: "static bool a(void)\n{\n    return same(b, c);\n}\n"}, None),
    ("a comment", {F: "/* static bool same(x)\n{ */\nint a;\n"}, None),
    ("decimals", {F: "static void put_u64(struct ron_buf *out, uint64_t v)\n{\n}\n"}, None),
    ("a column", {F: "static uint64_t get_u64(const struct use *u, int c)\n{\n}\n"}, None),
    ("longer names", {F: "static bool same_key(int a)\n{\n}\n#define RON_STR(x) #x\n"}, None),
]

if __name__ == "__main__":
    main(check, CASES)
