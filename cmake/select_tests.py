#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Choose tests of a build by label or by name.

usage: ctest --show-only=json-v1 | select_tests.py LABELS WORD...

LABELS is the blank-separated list of all labels. A WORD among them takes the tests with that label;
any other is a regular expression searched in the names. Prints one ctest -R expression that matches
exactly the chosen tests, and nothing when there are none. Exit code 2: a WORD is no regular
expression.
"""
import json
import re
import sys


def labels_of(test):
    for prop in test.get("properties", []):
        if prop["name"] == "LABELS":
            return prop["value"]
    return []


def chosen(tests, known_labels, words):
    patterns = [re.compile(word) for word in words if word not in known_labels]
    labels = known_labels & set(words)
    for test in tests:
        if labels & set(labels_of(test)) or any(p.search(test["name"]) for p in patterns):
            yield test["name"]


def main(argv):
    if len(argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        names = sorted(chosen(json.load(sys.stdin)["tests"], set(argv[1].split()), argv[2:]))
    except re.error as error:
        print(f"not a regular expression: {error.pattern!r}: {error.msg}", file=sys.stderr)
        return 2
    if names:
        # ctest's expressions know no backslash escapes; a bracket takes a dot or plus literally.
        print("^(" + "|".join(re.sub(r"[.+*?()^$|]", r"[\g<0>]", n) for n in names) + ")$")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
