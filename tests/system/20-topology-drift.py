#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the generated parts of the documents are what the program says of itself.

Method: run the command named in each generated:begin mark of docs/ and compare its output with the
text up to generated:end; then prove on a changed copy that a difference is noticed. Commands run in
a folder with a key file `cap.keys` and a token `ledger.token`, which some services open first.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["RON_SOURCE_DIR"])
PROGRAM = os.environ["RON_BIN"]
PROGRAMS = {"ron": PROGRAM, "ron-fixture": os.environ["RON_FIXTURE"]}
BLOCK = re.compile(
    r"<!-- generated:begin (ron|ron-fixture) ([^\n]*) -->\n(.*?)<!-- generated:end -->", re.DOTALL
)
ROFF_BLOCK = re.compile(
    r"\.\\\" generated:begin (ron|ron-fixture) ([^\n]*)\n(.*?)\.\\\" generated:end", re.DOTALL
)


def blocks_of(text):
    return BLOCK.findall(text) + ROFF_BLOCK.findall(text)


def make_keys(folder):
    for words in (
        "key new --keys cap.keys",
        "mint --keys cap.keys --aud ledger --scope ledger.read --out ledger.token",
    ):
        subprocess.run(
            [PROGRAM, "cap", *words.split()], cwd=folder, capture_output=True, check=True
        )


def drifted(text, folder):
    """The commands whose output differs from what the page shows."""
    for name, arguments, shown in blocks_of(text):
        run = subprocess.run(
            [PROGRAMS[name], *shlex.split(arguments)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        if run.stdout != shown:
            yield f"{name} {arguments}"


def main(folder):
    bad = 0
    blocks = 0
    make_keys(folder)
    docs = SOURCE / "docs"
    for page in sorted([*docs.glob("**/*.md"), *docs.glob("man/*.1")]):
        text = page.read_text(encoding="utf-8")
        blocks += len(blocks_of(text))
        for command in drifted(text, folder):
            print(f"FAILED: {page.name} differs from the output of: {command}")
            bad = 1
    if blocks < 9:
        print("FAILED: topology, reference and man page of a service are not all generated")
        bad = 1
    text = (SOURCE / "docs/concurrency/kernel.md").read_text(encoding="utf-8")
    changed = text.replace("| `work` | queue | 512 |", "| `work` | queue | 513 |")
    if changed == text or not list(drifted(changed, folder)):
        print("FAILED: a changed capacity is not noticed")
        bad = 1
    print(f"{blocks} generated parts compared")
    return bad


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        sys.exit(main(made))
