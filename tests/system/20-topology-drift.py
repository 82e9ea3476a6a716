#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the tables in docs/concurrency are what the program says of itself.

Method: run the command named in each generated:begin mark and compare its output with the text up
to generated:end; then prove on a changed copy that a difference is noticed.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["RON_SOURCE_DIR"])
PROGRAM = os.environ["RON_BIN"]
BLOCK = re.compile(
    r"<!-- generated:begin ron ([^\n]*) -->\n(.*?)<!-- generated:end -->", re.DOTALL
)


def drifted(text):
    """The commands whose output differs from what the page shows."""
    for arguments, shown in BLOCK.findall(text):
        run = subprocess.run(
            [PROGRAM, *shlex.split(arguments)], capture_output=True, text=True, check=True
        )
        if run.stdout != shown:
            yield "ron " + arguments


def main():
    bad = 0
    blocks = 0
    for page in sorted((SOURCE / "docs/concurrency").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        blocks += len(BLOCK.findall(text))
        for command in drifted(text):
            print(f"FAILED: {page.name} differs from the output of: {command}")
            bad = 1
    if blocks == 0:
        print("FAILED: no page has a generated table")
        bad = 1
    text = (SOURCE / "docs/concurrency/kernel.md").read_text(encoding="utf-8")
    changed = text.replace("| `work` | queue | 512 |", "| `work` | queue | 513 |")
    if changed == text or not list(drifted(changed)):
        print("FAILED: a changed capacity is not noticed")
        bad = 1
    print(f"{blocks} generated tables compared")
    return bad


if __name__ == "__main__":
    sys.exit(main())
