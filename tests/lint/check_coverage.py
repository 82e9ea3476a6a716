#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/coverage.md names, for every requirement, what proves it; and what it names exists.

The page holds Markdown tables `| id | status | proof | requirement |`:
  id      K-01 and so on; each family runs from 01 without a gap and no id stands twice
  status  `built`, or `planned: AREA`
  proof   comma-separated; a built row needs at least one
            test:NAME    a test function, a ctest name, or a scenario
            bench:NAME   a benchmark of tests/bench
            doc:PATH     a document, with #anchor if wanted
            gate:NAME    a preset, a lint test, or a script
  requirement  in one sentence
"""
import json
import re

from common import files, main, read

PAGE = "docs/coverage.md"
# Requirements are appended, never dropped or renumbered, so each family has at least this many.
FAMILY_MIN = {"K": 72, "L": 66, "W": 38, "R": 39, "E": 41, "N": 43}
ID = re.compile(r"^[A-Z]-\d{2,3}$")
ROW = re.compile(r"^\|\s*([A-Z]-\d+)\s*\|(.*)\|\s*$")


def rows(text):
    """(line, id, [cells after the id]) of every table row that starts with an id."""
    for number, line in enumerate(text.split("\n"), 1):
        match = ROW.match(line)
        if match:
            yield number, match.group(1), [cell.strip() for cell in match.group(2).split("|")]


def id_faults(page_rows):
    seen = {}
    for number, name, _ in page_rows:
        if not ID.match(name):
            yield PAGE, number, f"{name} is no id"
        if name in seen:
            yield PAGE, number, f"{name} stands twice, first in line {seen[name]}"
        seen.setdefault(name, number)
    wanted = set()
    for family in sorted({name[0] for name in seen} | set(FAMILY_MIN)):
        numbers = [int(name[2:]) for name in seen if name[0] == family]
        last = max(numbers + [FAMILY_MIN.get(family, 0)])
        wanted |= {f"{family}-{number:02d}" for number in range(1, last + 1)}
    for name in sorted(wanted - set(seen)):
        yield PAGE, 0, f"{name} is missing"
    for name in sorted(set(seen) - wanted):
        yield PAGE, seen[name], f"{name} is not in the list of requirements"


# Folder, pattern and prefix of the files that are one ctest entry each; cmake/RonTests.cmake.
CTESTS = [
    ("unit", r"tests/unit/(\w+)/(?:\w+/)?test_(\w+)\.c"),
    ("fault", r"tests/fault/test_(\w+)\.c"),
    ("model", r"tests/scenario/scn_(\w+)\.c"),
    ("stress", r"tests/scenario/scn_(\w+)\.c"),
    ("model", r"tests/model/(?:weave/)?test_(\w+)\.c"),
    ("model.spin", r"tests/model/spin/(\w+)\.pml"),
    ("sim", r"tests/sim/test_(\w+)\.c"),
    ("fuzz-smoke", r"tests/fuzz/fuzz_(\w+)\.c"),
    ("system", r"tests/system/(\d{2,3}-[\w-]+)\.(?:sh|py)"),
    ("browser", r"tests/browser/(\d{2,3}-[\w-]+)\.py"),
    ("lint", r"tests/lint/check_(\w+)\.py"),
]


def known_tests(root):
    names = set()
    for path in files(root, ".c", ".py", ".sh", ".pml"):
        for kind, pattern in CTESTS:
            match = re.fullmatch(pattern, path.as_posix())
            if match:
                names.add(".".join([kind, *match.groups()]))
        if path.parts[0] == "tests" and path.suffix == ".c":
            text = read(root, path)
            names |= set(re.findall(r"^static void (test_\w+)\(void \*\*", text, re.MULTILINE))
            if path.parts[1] == "scenario":
                names |= {path.stem, path.stem.removeprefix("scn_")}
                names |= set(re.findall(r'\{\.name = "([^"]+)",\s*\.body', text))
    return names


def presets(root):
    if not (root / "CMakePresets.json").exists():
        return set()
    return {p["name"] for p in json.loads(read(root, "CMakePresets.json"))["configurePresets"]}


def proof_fault(root, item, tests):
    """What is wrong with one proof, or None."""
    kind, _, name = item.partition(":")
    if kind == "test":
        good = name in tests
    elif kind == "bench":
        base = root / "tests" / "bench"
        good = (base / f"{name}.sh").exists() or (base / f"bench_{name}.c").exists()
    elif kind == "doc":
        good = (root / name.partition("#")[0]).is_file()
    elif kind == "gate":
        good = name in presets(root) or name in tests or (root / name).is_file()
    else:
        return f"`{item}` is none of test:, bench:, doc:, gate:"
    return None if name and good else f"`{item}` does not exist"


def row_faults(root, number, name, cells, tests):
    if len(cells) != 3 or not cells[2]:
        yield PAGE, number, f"{name}: a row is | id | status | proof | requirement |"
        return
    status, proof, _ = cells
    items = [item.strip().strip("`") for item in proof.split(",") if item.strip() not in ("", "-")]
    if status != "built" and not re.match(r"^planned: \S", status):
        yield PAGE, number, f"{name}: status `{status}` is neither `built` nor `planned: AREA`"
    if status == "built" and not items:
        yield PAGE, number, f"{name}: built, but nothing proves it"
    for item in items:
        fault = proof_fault(root, item, tests)
        if fault:
            yield PAGE, number, f"{name}: {fault}"


def check(root):
    if not (root / PAGE).exists():
        yield PAGE, 0, "does not exist"
        return
    page_rows = list(rows(read(root, PAGE)))
    yield from id_faults(page_rows)
    tests = known_tests(root)
    for number, name, cells in page_rows:
        yield from row_faults(root, number, name, cells, tests)


def page(changes=None, extra=""):
    """A whole good page, with some rows replaced and text appended."""
    names = [f"{f}-{n:02d}" for f, last in FAMILY_MIN.items() for n in range(1, last + 1)]
    table = {name: "planned: later | - |" for name in names} | (changes or {})
    text = "".join(f"| {name} | {rest} text |\n" for name, rest in table.items() if rest)
    return {PAGE: "| id | status | proof | requirement |\n|---|---|---|---|\n" + text + extra}


TEST = {"tests/unit/chan/test_queue.c": "static void test_queue__full__busy(void **state)\n{\n}\n"}
SCENARIO = {"tests/scenario/scn_close.c": '{.name = "close_twice", .body = f},\n.name = "queue"\n'}
CASES = [
    ("no page", {}, "does not exist"),
    ("all planned", page(), None),
    ("missing id", page({"K-72": None}), "K-72 is missing"),
    ("missing id in the middle", page({"N-03": None}), "N-03 is missing"),
    ("id twice", page(extra="| K-01 | planned: x | - | text |\n"), "K-01 stands twice"),
    ("unknown id", page(extra="| Q-07 | planned: x | - | text |\n"), "Q-01 is missing"),
    ("no requirement", page({"K-02": None}, "| K-02 | planned: x | - |\n"), "a row is"),
    ("bad status", page({"K-01": "done | - |"}), "neither `built` nor"),
    ("built without proof", page({"K-01": "built | - |"}), "nothing proves it"),
    ("test that does not exist", page({"K-01": "built | test:test_x__y__z |"}), "does not exist"),
    ("test function", page({"K-01": "built | test:test_queue__full__busy |"}) | TEST, None),
    ("ctest name", page({"K-01": "built | `test:unit.chan.queue` |"}) | TEST, None),
    ("scenario", page({"K-01": "built | test:close_twice, test:model.close |"}) | SCENARIO, None),
    ("name that is no scenario", page({"K-01": "built | test:queue |"}) | SCENARIO, "not exist"),
    ("doc that does not exist", page({"K-01": "built | doc:docs/no.md#x |"}), "does not exist"),
    ("bench that does not exist", page({"K-01": "built | bench:no |"}), "does not exist"),
    ("gate that does not exist", page({"K-01": "built | gate:no |"}), "does not exist"),
    ("unknown kind of proof", page({"K-01": "built | hope:x |"}), "none of test:"),
    ("planned rows are checked too", page({"K-01": "planned: io | test:no |"}), "does not exist"),
]

if __name__ == "__main__":
    main(check, CASES)
