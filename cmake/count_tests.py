#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the tests of a ctest run from its JUnit file.

usage: count_tests.py FILE CTEST_EXIT_CODE

Prints `passed failed skipped` on the first line and each failed test on a line of its own. A file
that is missing or cannot be read counts as one failure named `(no report)`: a run that leaves no
report has not shown anything. So does a ctest that failed although all its tests passed.
"""
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


def count(path, ctest_exit):
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    names = []
    try:
        cases = list(ET.parse(path).getroot().iter("testcase"))
    except (OSError, ET.ParseError):
        cases = []
        ctest_exit = ctest_exit or 1
    for case in cases:
        result = outcome(case)
        totals[result] += 1
        if result == "failed":
            names.append(case.get("name", "?"))
    if ctest_exit != 0 and totals["failed"] == 0:
        totals["failed"] = 1
        names.append("(no report)" if not cases else f"(ctest exit code {ctest_exit})")
    return totals, names


def main(argv):
    if len(argv) != 3 or not argv[2].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    totals, names = count(argv[1], int(argv[2]))
    print(totals["passed"], totals["failed"], totals["skipped"])
    for name in names:
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
