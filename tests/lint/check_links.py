#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links between documents are not dangling: the file of every relative Markdown link exists, and so
does the heading that its #anchor names."""
import re

from common import files, main, read

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def without_code(text):
    return re.sub(r"```.*?```|`[^`\n]*`", lambda m: re.sub(r"[^\n]", " ", m.group()), text,
                  flags=re.DOTALL)


def anchors(text):
    """The anchors of a page's headings, as the hosts of repositories make them."""
    found = set()
    for title in re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M):
        found.add(re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-"))
    return found


def check(root):
    for path in files(root, ".md"):
        for number, line in enumerate(without_code(read(root, path)).split("\n"), 1):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                page = root / path.parent / name if name else root / path
                if not page.exists():
                    yield path, number, f"the link {target} leads nowhere"
                elif anchor and page.suffix == ".md" and anchor not in anchors(
                        page.read_text(encoding="utf-8")):
                    yield path, number, f"the link {target}: no heading #{anchor}"


CASES = [
    ("dead link", {"a.md": "see [b](docs/b.md)\n"}, "leads nowhere"),
    ("good link", {"docs/a.md": "see [b](../b.md#x-y)\n", "b.md": "# X, y\n"}, None),
    ("dead anchor", {"docs/a.md": "see [b](../b.md#z)\n", "b.md": "# X\n"}, "no heading #z"),
    ("dead anchor of the page itself", {"a.md": "# A\n\n[b](#b)\n"}, "no heading #b"),
    ("heading in a code block", {"a.md": "[b](#b)\n```\n# b\n```\n"}, "no heading #b"),
    ("outside and anchors", {"a.md": "# B\n\n[a](https://example.org/x#y) [b](#b)\n"}, None),
    ("code is not a link", {"a.md": "`[a](b)`\n```\n[c](d)\n```\n"}, None),
]

if __name__ == "__main__":
    main(check, CASES)
