#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links between documents lead somewhere: the file of every relative Markdown link exists."""
import re

from common import files, main, read

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def check(root):
    for path in files(root, ".md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", lambda m: re.sub(r"[^\n]", " ", m.group()),
                      read(root, path), flags=re.DOTALL)
        for number, line in enumerate(text.split("\n"), 1):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:|#", target):
                    continue
                if not (root / path.parent / target.partition("#")[0]).exists():
                    yield path, number, f"the link {target} leads nowhere"


CASES = [
    ("dead link", {"a.md": "see [b](docs/b.md)\n"}, "leads nowhere"),
    ("good link", {"docs/a.md": "see [b](../b.md#x)\n", "b.md": "x\n"}, None),
    ("outside and anchors", {"a.md": "[a](https://example.org/x) [b](#b)\n"}, None),
    ("code is no link", {"a.md": "`[a](b)`\n```\n[c](d)\n```\n"}, None),
]

if __name__ == "__main__":
    main(check, CASES)
