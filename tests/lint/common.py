# SPDX-License-Identifier: Apache-2.0
"""What the checks of this folder share: the file list, reading C, reporting, and the self-test.

A check is a function `check(root)` that yields findings `(path, line, text)` about the tree at
`root`; `line` is 0 for a finding about a whole file, and a text that starts with "warning:" does
not fail the check. `main` runs it on this project; with --self-test it runs the seeded cases
instead, each a small tree with the finding it must give (or None for a tree that must pass).
"""
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(os.environ.get("RON_SOURCE_DIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("RON_BUILD_DIR") or ROOT / "build" / "dev")
SKIPPED_FOLDERS = {".git", "build", "ron-data", "__pycache__"}


def files(root, *suffixes):
    """All files below root (as paths relative to it), sorted; with suffixes only those."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS]
        for name in names:
            path = (Path(folder) / name).relative_to(root)
            if not suffixes or path.suffix in suffixes:
                found.append(path)
    return sorted(found)


def read(root, path):
    return (root / path).read_text(encoding="utf-8", errors="replace")


_NOISE = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""", re.DOTALL | re.VERBOSE
)


def code_lines(text):
    """Lines of C with comments, strings and characters blanked, so that only code is searched."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    return _NOISE.sub(blank, text).split("\n")


def report(findings):
    """Print findings; return whether any of them fails the check."""
    failed = False
    for path, line, text in findings:
        where = f"{path}:{line}" if line else f"{path}"
        print(f"{where}: {text}")
        failed = failed or not text.startswith("warning:")
    return failed


def self_test(check, cases):
    """Run the seeded cases; return whether the check missed one."""
    missed = 0
    for name, tree, wanted in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, text in tree.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            texts = [f"{path}:{line}: {text}" for path, line, text in check(root)]
        if wanted is None:
            good = not texts
        else:
            good = any(wanted in text for text in texts)
        print(f"{'ok' if good else 'MISSED'}: {name}")
        if not good:
            missed += 1
            print(f"  wanted: {wanted}\n  got: {texts}")
    print(f"{len(cases)} cases, {missed} missed")
    return missed > 0


def main(check, cases):
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(1 if self_test(check, cases) else 0)
    if sys.argv[1:]:
        print(f"usage: {sys.argv[0]} [--self-test]", file=sys.stderr)
        sys.exit(2)
    sys.exit(1 if report(check(ROOT)) else 0)
