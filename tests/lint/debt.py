# SPDX-License-Identifier: Apache-2.0
"""Findings that are known: a list CHECK_debt.txt lets them pass.

A line that nothing gives any more fails too, so a list only shrinks.
"""


def without_debt(root, check, findings, name=None):
    """The findings that are not in the list of `check`, and the lines of it that nothing gives."""
    page = root / "tests" / "lint" / f"{name or check}_debt.txt"
    owed = set()
    if page.exists():
        owed = {line for line in page.read_text(encoding="utf-8").splitlines()
                if line.startswith(f"{check}: ")}
    seen = set()
    for path, line, text in findings:
        known = f"{check}: {path}: {text}"
        seen.add(known)
        if known not in owed:
            yield path, line, text
    for known in sorted(owed - seen):
        yield page.relative_to(root), 0, f"nothing gives this any more, delete it: {known}"
