#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""C files are laid out as .clang-format says; `./dev fmt` puts them right."""
import re
import subprocess

from common import ROOT, files, main

BATCH = 50  # files per process: short command lines, and few processes


def check(root):
    paths = files(root, ".c", ".h")
    style = f"--style=file:{ROOT / '.clang-format'}"
    for start in range(0, len(paths), BATCH):
        batch = [path.as_posix() for path in paths[start:start + BATCH]]
        command = ["clang-format", "--dry-run", "-Werror", "--ferror-limit=1", style, *batch]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        found = re.findall(r"^(.*?):(\d+):\d+: error: ", done.stderr, re.MULTILINE)
        for path, line in found:
            yield path, int(line), "not laid out by .clang-format: run ./dev fmt"
        if done.returncode != 0 and not found:
            yield batch[0], 0, f"clang-format failed: {done.stderr.strip()}"


CASES = [
    ("brace on the wrong line", {"a.c": "int f(void) {\n    return 0;\n}\n"}, "run ./dev fmt"),
    ("tab and blanks", {"a.h": "struct a {\n\tint  b;\n};\n"}, "run ./dev fmt"),
    ("good", {"a.c": "int f(void)\n{\n    return 0;\n}\n"}, None),
]

if __name__ == "__main__":
    main(check, CASES)
