#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metric names have one table, kernel/include/ron/obs/names.h, and nothing drifts from it.

1. The table in docs/formats/metrics.md between generated:begin and generated:end is exactly what
   names.h gives; `--write` renews it.
2. What the kernel puts into registry rows (ron_reg_row_sample, RON_HTTP_COUNTERS, RON_OAP_COUNTERS)
   is in names.h.
3. Metrics in docs/ops/alerts.rules.yml and in the queries of docs/ops/grafana.json are in names.h
   or in a table of definitions of a service (.name = "...", or rows X(field, TYPE, UNIT, "name",
   ...)).
"""
import json
import re
import sys

from common import ROOT, files, main, read

NAMES = "kernel/include/ron/obs/names.h"
PAGE = "docs/formats/metrics.md"
RULES = "docs/ops/alerts.rules.yml"
BOARD = "docs/ops/grafana.json"
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
LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")


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


def of_services(root):
    return {name for path in files(root, ".c", ".h") if path.as_posix().startswith(SERVICES)
            for name in DECLARED.findall(read(root, path))}


def unknown(query, known):
    query = LABELS.sub("", query)
    return [word for word in WORD.findall(query) if word not in FUNCTIONS and
            re.sub(r"_(bucket|sum|count)$", "", word) not in known]


def rule_faults(root, known):
    for number, line in enumerate(read(root, RULES).split("\n"), 1):
        match = re.match(r"\s*(?:- )?expr: (.*)|^\s{10,}(.*)", line)
        for word in unknown(match.group(1) or match.group(2) or "", known) if match else []:
            yield RULES, number, f"`{word}` is no declared metric"


def queries(node):
    """Every query below a node of the board."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if key == "expr":
            yield value
        elif isinstance(value, (dict, list)):
            yield from queries(value)


def board_faults(root, known):
    try:
        found = list(queries(json.loads(read(root, BOARD))))
    except ValueError as err:
        yield BOARD, 0, f"no JSON: {err}"
        return
    if not found:
        yield BOARD, 0, "it asks for nothing"
    for query in found:
        for word in unknown(query, known):
            yield BOARD, 0, f"`{word}` is no declared metric, in: {query}"


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
    known |= of_services(root)
    if (root / RULES).exists():
        yield from rule_faults(root, known)
    if (root / BOARD).exists():
        yield from board_faults(root, known)


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
      "edge/answer/m.c": '{.name = "s_total"}'}, None),
    ("rule with a metric of a service's table",
     {NAMES: ONE_ROW, PAGE: PAGE_OK, RULES: "  expr: rate(s_seconds_bucket[5m]) > 1\n",
      "ledger/core/m.c": 'X(f, HISTOGRAM, NS, "s_seconds", "", NULL, 0, "Help.")'}, None),
    ("rule with an unknown metric",
     {NAMES: ONE_ROW, PAGE: PAGE_OK, RULES: "  expr: rate(b_total[5m]) > 1\n"},
     "`b_total` is no declared metric"),
    ("board with known metrics",
     {NAMES: ONE_ROW, PAGE: PAGE_OK, "edge/answer/m.c": '{.name = "s_seconds"}', BOARD:
      '{"panels":[{"targets":[{"expr":"sum by (job_name) (rate(a_total[1m]))"},'
      '{"expr":"histogram_quantile(0.9, rate(s_seconds_bucket[5m]))"}]}]}'}, None),
    ("board with an unknown metric",
     {NAMES: ONE_ROW, PAGE: PAGE_OK, BOARD:
      '{"panels":[{"targets":[{"expr":"a_total"},{"expr":"rate(b_total[1m])"}]}]}'},
     "`b_total` is no declared metric, in: rate(b_total[1m])"),
    ("board without a query", {NAMES: ONE_ROW, PAGE: PAGE_OK, BOARD: '{"panels":[]}'},
     "asks for nothing"),
    ("board that is cut", {NAMES: ONE_ROW, PAGE: PAGE_OK, BOARD: '{"panels":['}, "no JSON"),
]

if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        page = ROOT / PAGE
        before, _, after = split_page(page.read_text(encoding="utf-8"))
        page.write_text(before + BEGIN + as_markdown(table(ROOT)) + END + after, encoding="utf-8")
    else:
        main(check, CASES)
