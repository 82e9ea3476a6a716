#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, with gcc and with clang, on threads and under the explorer.

A header that needs another one included first works by luck of order; the next reader has none.
"""
import subprocess
from concurrent.futures import ThreadPoolExecutor

from common import files, main
from rooms import TOPS, place

FLAGS = (
    "-std=gnu17 -fsyntax-only -x c -D_GNU_SOURCE -DRON_CHECKED=1 -Wall -Wextra -Wpedantic -Werror "
    "-Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wcast-qual -Wundef"
).split()
BUILDS = [("gcc", 0), ("clang", 0), ("gcc", 1)]


def compile_alone(root, path, compiler, model):
    """The first complaint of a compiler about a header alone, or None."""
    name = path.as_posix().removeprefix("kernel/include/")
    command = [compiler, *FLAGS, f"-DRON_MODEL={model}", "-iquote", str(root),
               f"-I{root / 'kernel' / 'include'}", "-"]
    # Twice: a header without a guard is caught as well.
    source = f'#include "{name}"\n' * 2 + "int ron_header_alone(void);\n"
    done = subprocess.run(command, input=source, text=True, capture_output=True, check=False,
                          cwd=root)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    return f"{compiler}, RON_MODEL={model}: {(lines or ['failed'])[0]}"


def is_public(path):
    here = place(path)
    if here is None:
        return path.as_posix().startswith("kernel/include/")
    return path.as_posix().removeprefix(f"{here.top}/") in TOPS[here.top]["public"]


def check(root):
    jobs = [
        (path, compiler, model)
        for path in files(root, ".h")
        if is_public(path)
        for compiler, model in BUILDS
    ]
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = pool.map(lambda job: compile_alone(root, *job), jobs)
        for (path, _, _), fault in zip(jobs, results):
            if fault:
                yield path, 0, fault


GUARD = "#pragma once\n"
A = "kernel/include/ron/base/a.h"
CASES = [
    ("needs another header first", {A: GUARD + "size_t a(void);\n"}, "unknown type name"),
    ("has no guard", {A: "struct a { int b; };\n"}, "redefinition"),
    ("has a warning", {A: GUARD + "int a();\n"}, "prototype"),
    ("breaks under the explorer only",
     {A: GUARD + "#if RON_MODEL\nsize_t a(void);\n#endif\n"}, "MODEL=1"),
    ("a public header of a service", {"ledger/ledger.h": GUARD + "size_t a(void);\n"},
     "unknown type name"),
    ("a private header of a service", {"ledger/svc.h": GUARD + "size_t a(void);\n"}, None),
    ("good", {A: GUARD + "#include <stddef.h>\nsize_t a(void);\n"}, None),
]

if __name__ == "__main__":
    main(check, CASES)
