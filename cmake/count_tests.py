#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the tests of a ctest run from its JUnit file.

usage: count_tests.py FILE CTEST_EXIT_CODE [SECOND_FILE]
       count_tests.py --slowest COUNT FILE...

Prints `passed failed skipped` on the first line and each failed test on a line of its own. With the
report of a second run, a test that failed first and passed there counts as passed and is named as
`unsteady:NAME`. A file
that is missing or cannot be read counts as one failure named `(no report)`: a run that leaves no
report has not shown anything. So does a ctest that failed although all its tests passed.

With --slowest it prints the tests of all reports that took longest, one `SECONDS STAGE:NAME` a
line; the stage is the file's name up to `-tests.xml`.
"""
import os
import sys
import xml.etree.ElementTree as ET


def outcome(case):
    """Say passed, failed or skipped for one <testcase>."""
    status = case.get("status", "")
    if status == "run":
        return "passed"
    skipped = case.find("skipped")
    # Only the agreed exit code is a skip; "notrun" for any other reason, such as a missing program,
    # is a failure.
    if status == "notrun" and skipped is not None:
        if skipped.get("message", "").startswith("SKIP_"):
            return "skipped"
    return "failed"


def cases_of(path):
    """The <testcase>s of a report; none of one that cannot be read."""
    try:
        return list(ET.parse(path).getroot().iter("testcase"))
    except (OSError, ET.ParseError):
        return []


def count(path, ctest_exit, second):
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    names = []
    cases = cases_of(path)
    again = cases_of(second) if second else []
    mended = {c.get("name") for c in again if outcome(c) == "passed"}
    if not cases:
        ctest_exit = ctest_exit or 1
    for case in cases:
        result = outcome(case)
        name = case.get("name", "?")
        if result == "failed" and name in mended:
            result = "passed"
            ctest_exit = 0
            names.append(f"unsteady:{name}")
        elif result == "failed":
            names.append(name)
        totals[result] += 1
    if ctest_exit != 0 and totals["failed"] == 0:
        totals["failed"] = 1
        names.append("(no report)" if not cases else f"(ctest exit code {ctest_exit})")
    return totals, names


def slowest(most, paths):
    rows = []
    for path in paths:
        stage = os.path.basename(path).removesuffix("-tests.xml")
        rows += [(float(c.get("time") or 0), f"{stage}:{c.get('name', '?')}")
                 for c in cases_of(path)]
    return sorted(rows, reverse=True)[:most]


def main(argv):
    if len(argv) >= 4 and argv[1] == "--slowest" and argv[2].isdigit():
        for seconds, name in slowest(int(argv[2]), argv[3:]):
            print(f"{seconds:.0f} {name}")
        return 0
    if len(argv) not in (3, 4) or not argv[2].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    totals, names = count(argv[1], int(argv[2]), argv[3] if len(argv) == 4 else None)
    print(totals["passed"], totals["failed"], totals["skipped"])
    for name in names:
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
