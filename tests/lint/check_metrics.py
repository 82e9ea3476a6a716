#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metric names have one table, kernel/include/ron/obs/names.h, and nothing drifts from it.

1. The table in docs/formats/metrics.md between generated:begin and generated:end is exactly what
   names.h gives; `--write` renews it.
2. What the kernel puts into registry rows (ron_reg_row_sample, RON_HTTP_COUNTERS, RON_OAP_COUNTERS)
   is in names.h.
3. Metrics in docs/ops/alerts.rules.yml are in names.h or in a table of definitions of a service
   (.name = "...", or rows X(field, TYPE, UNIT, "name", ...)).
"""
import re
import sys

from common import ROOT, files, main, read

NAMES = "kernel/include/ron/obs/names.h"
PAGE = "docs/formats/metrics.md"
RULES = "docs/ops/alerts.rules.yml"
BEGIN, END = "<!-- generated:begin -->\n", "<!-- generated:end -->"
TEXT = r'"((?:\\.|[^"\\])*)"'
ROW = re.compile(rf"^\s*X\((\w+), (\w+), (\w+), {TEXT}, {TEXT},\s*{TEXT}\)", re.MULTILINE)
SAMPLE = re.compile(rf"ron_reg_row_sample\(\s*\w+,\s*{TEXT}")
COUNTER = re.compile(rf"X\(\w+, {TEXT}, (?:NULL|\")")
BLOCK = re.compile(r"#define RON_(?:HTTP|OAP|OAP_CLIENT)_COUNTERS\(X\).*?\n\n", re.DOTALL)
DECLARED = re.compile(rf"(?:\.name = |X\(\w+, (?:COUNTER|GAUGE|HISTOGRAM), \w+, ){TEXT}")
SERVICES = ("ledger/", "wallet/", "rewarder/", "edge/", "interop/", "console/")
# Words of PromQL and label names that look like metrics but follow another grammar.
WORD = re.compile(r"(?<![\w\"{,.$])([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b(?!\s*=~?\")(?!\()")
FUNCTIONS = {"histogram_quantile", "group_left", "group_right", "avg_over_time", "max_over_time",
             "min_over_time"}


def table(root):
    text = re.sub(r"\s*\\\n", "\n", read(root, NAMES))
    return [match.groups() for match in ROW.finditer(text)]


def as_markdown(rows):
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for _, kind, _, name, labels, text in rows:
        shown = ", ".join(f"`{label}`" for label in labels.split(",") if label)
        text = text.replace('\\"', '"')
        lines.append(f"| `{name}` | {kind.lower()} | {shown} | {text} |")
    return "\n".join(lines) + "\n"


def split_page(text):
    head, _, rest = text.partition(BEGIN)
    body, _, tail = rest.partition(END)
    return head, body, tail


def produced(root):
    """(path, line, name) of each metric that the kernel puts into a registry row."""
    for path in files(root, ".c", ".h"):
        if path.parts[:1] != ("kernel",):
            continue
        text = read(root, path)
        hits = list(SAMPLE.finditer(text))
        block = BLOCK.search(text)
        if block:
            hits += list(COUNTER.finditer(text, block.start(), block.end()))
        for hit in hits:
            yield path, text.count("\n", 0, hit.start()) + 1, hit.group(1)


def rule_faults(root, known):
    for path in files(root, ".c", ".h"):
        if path.as_posix().startswith(SERVICES):
            known |= set(DECLARED.findall(read(root, path)))
    for number, line in enumerate(read(root, RULES).split("\n"), 1):
        match = re.match(r"\s*(?:- )?expr: (.*)|^\s{10,}(.*)", line)
        for word in WORD.findall(match.group(1) or match.group(2) or "") if match else []:
            if word not in FUNCTIONS and re.sub(r"_(bucket|sum|count)$", "", word) not in known:
                yield RULES, number, f"`{word}` is no declared metric"


def check(root):
    rows = table(root)
    known = {row[3] for row in rows}
    if not rows:
        yield NAMES, 0, "no rows found"
    if len(known) != len(rows):
        yield NAMES, 0, "a name stands twice"
    for path, number, name in produced(root):
        if name not in known:
            yield path, number, f"`{name}` is not in {NAMES}"
    if split_page(read(root, PAGE))[1] != as_markdown(rows):
        yield PAGE, 0, "the table differs from names.h: tests/lint/check_metrics.py --write"
    if (root / RULES).exists():
        yield from rule_faults(root, known)


ONE_ROW = 'X(A, COUNTER, ONE, "a_total", "x,y", "Help.") \\\n'
PAGE_OK = (f"# M\n{BEGIN}| metric | type | labels | meaning |\n|---|---|---|---|\n"
           f"| `a_total` | counter | `x`, `y` | Help. |\n{END}\n")
CASES = [
    ("good", {NAMES: ONE_ROW, PAGE: PAGE_OK}, None),
    ("a comment that shows the form is no row",
     {NAMES: ' * X(ID, TYPE, UNIT, "name", "labels", "help").\n' + ONE_ROW, PAGE: PAGE_OK}, None),
    ("page lacks a row", {NAMES: ONE_ROW + ONE_ROW.replace("a_total", "b_total"), PAGE: PAGE_OK},
     "the table differs"),
    ("name twice", {NAMES: ONE_ROW + ONE_ROW, PAGE: PAGE_OK}, "stands twice"),
    ("registry sample unknown",
     {NAMES: ONE_ROW, PAGE: PAGE_OK,
      "kernel/src/chan/x.c": 'ron_reg_row_sample(row, "b_total", "queue", false, 1);'},
     "`b_total` is not in"),
    ("http counter unknown",
     {NAMES: ONE_ROW, PAGE: PAGE_OK,
      "kernel/include/ron/http/x.h": '#define RON_HTTP_COUNTERS(X) \\\n X(f, "c_total", NULL)\n\n'},
     "`c_total` is not in"),
    ("rule with a known metric",
     {NAMES: ONE_ROW, PAGE: PAGE_OK, RULES: '  expr: rate(a_total{x="y_z"}[5m]) > 1\n'}, None),
    ("rule with a metric of a service",
     {NAMES: ONE_ROW, PAGE: PAGE_OK, RULES: "  expr: rate(s_total[5m]) > 1\n",
      "edge/src/m.c": '{.name = "s_total"}'}, None),
    ("rule with a metric of a service's table",
     {NAMES: ONE_ROW, PAGE: PAGE_OK, RULES: "  expr: rate(s_seconds_bucket[5m]) > 1\n",
      "ledger/src/m.c": 'X(f, HISTOGRAM, NS, "s_seconds", "", NULL, 0, "Help.")'}, None),
    ("rule with an unknown metric",
     {NAMES: ONE_ROW, PAGE: PAGE_OK, RULES: "  expr: rate(b_total[5m]) > 1\n"},
     "`b_total` is no declared metric"),
]

if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        page = ROOT / PAGE
        before, _, after = split_page(page.read_text(encoding="utf-8"))
        page.write_text(before + BEGIN + as_markdown(table(ROOT)) + END + after, encoding="utf-8")
    else:
        main(check, CASES)
