#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every page of docs/concurrency says who answers for it, and shows topology and shutdown.

The head is a block between two lines `---` with owner, msrv (the oldest compilers that must build
it) and last-reviewed (a date). The sections Topology and Shutdown each hold a mermaid diagram and
prose. With --report-age the pages not reviewed for 90 days are listed; that is a reminder and never
fails, because no test may depend on today's date.
"""
import datetime
import re
import sys

from common import ROOT, main, read

FOLDER = "docs/concurrency"
REVIEW_DAYS = 90
FIELDS = ("owner", "msrv", "last-reviewed")
SECTIONS = ("Topology", "Shutdown")


def pages(root):
    folder = root / FOLDER
    return [p.relative_to(root) for p in sorted(folder.glob("*.md")) if p.name != "README.md"]


def head(text):
    """The fields of the head block, empty without one."""
    match = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if not match:
        return {}
    pairs = (line.partition(":") for line in match.group(1).split("\n"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def reviewed(fields):
    try:
        return datetime.date.fromisoformat(fields.get("last-reviewed", ""))
    except ValueError:
        return None


def section(text, name):
    """The text below the heading that holds the name, up to the next of its level; None without."""
    match = re.search(rf"^(#+) [^\n]*\b{name}\b[^\n]*\n", text, re.MULTILINE)
    if not match:
        return None
    rest = text[match.end():]
    level = len(match.group(1))
    end = re.search(rf"^#{{1,{level}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def check(root):
    found = pages(root)
    if not found:
        yield FOLDER, 0, "has no page"
    for path in found:
        text = read(root, path)
        fields = head(text)
        for name in FIELDS:
            if not fields.get(name):
                yield path, 1, f"the head has no {name}"
        if fields.get("last-reviewed") and not reviewed(fields):
            yield path, 1, f"last-reviewed `{fields['last-reviewed']}` is no date like 2025-01-31"
        for name in SECTIONS:
            body = section(text, name)
            if body is None:
                yield path, 0, f"has no section {name}"
                continue
            if "```mermaid\n" not in body:
                yield path, 0, f"section {name} has no mermaid diagram"
            prose = re.sub(r"```.*?```", "", body, flags=re.DOTALL)
            if len(re.findall(r"\w+", prose)) < 10:
                yield path, 0, f"section {name} does not say in words what the diagram shows"


def report_age():
    today = datetime.date.today()
    for path in pages(ROOT):
        date = reviewed(head(read(ROOT, path)))
        days = (today - date).days if date else 0
        if days > REVIEW_DAYS:
            print(f"{path}: last reviewed {days} days ago; {REVIEW_DAYS} is the rule")


def page(fields="owner: a\nmsrv: gcc 12, clang 14\nlast-reviewed: 2025-01-31", topology=None):
    diagram = "```mermaid\nflowchart LR\n  a --> b\n```\n"
    words = "The listener hands each request to a worker and waits for the reply.\n"
    text = topology if topology is not None else f"## Topology\n{diagram}{words}"
    return {f"{FOLDER}/kernel.md": f"---\n{fields}\n---\n# X\n{text}## Shutdown\n{diagram}{words}"}


CASES = [
    ("good", page(), None),
    ("no page", {"docs/concurrency/README.md": "x\n"}, "has no page"),
    ("no head", {f"{FOLDER}/a.md": "# X\n"}, "the head has no owner"),
    ("no owner", page("msrv: gcc 12\nlast-reviewed: 2025-01-31"), "the head has no owner"),
    ("no compilers", page("owner: a\nlast-reviewed: 2025-01-31"), "the head has no msrv"),
    ("bad date", page("owner: a\nmsrv: b\nlast-reviewed: May 2025"), "is no date"),
    ("no section", page(topology=""), "has no section Topology"),
    ("no diagram", page(topology="## Topology\nwords\n"), "Topology has no mermaid"),
    ("no words", page(topology="## Topology\n```mermaid\na\n```\n"), "does not say in words"),
]

if __name__ == "__main__":
    if sys.argv[1:] == ["--report-age"]:
        report_age()
    else:
        main(check, CASES)
