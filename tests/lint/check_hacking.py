#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HACKING.md holds commands that exist, and all of them.

Each line of its code blocks must be `./dev VERB` with a verb that `./dev help` lists, or stand in
the table ALLOWED, which says where else it is exercised. Words after the verb are checked as
well where they name a preset or a fuzz target. And HACKING.md shows each verb of `./dev help`.
"""
import re
import subprocess

from common import main, read

PAGE = "HACKING.md"
# Commands that are not ./dev, and what runs them.
ALLOWED = {
    "ctest --preset dev -N": "./dev test prints it as the way to list names",
    "ctest --preset dev -R unit.chan -V": "./dev test runs ctest with the same preset",
}


def help_words(root):
    """The verbs and presets that ./dev help lists."""
    command = ["sh", str(root / "dev"), "help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    words = {"verbs": re.findall(r"^  ([a-z]+)", done.stdout, re.MULTILINE)}
    words["presets"] = re.findall(r"^presets: (.*)$", done.stdout, re.MULTILINE)[0].split()
    return words


def command_lines(text):
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            inside = not inside
        elif inside and line.strip() and not line.lstrip().startswith("#"):
            yield number, re.sub(r"\s+#.*$", "", line).strip()


def fault(root, command, known):
    if command in ALLOWED:
        return None
    words = [word for word in command.split() if not re.match(r"^[A-Z_]+=", word)]
    if words[0] != "./dev" or len(words) < 2:
        return "is neither a ./dev verb nor in the table of this check"
    if words[1] not in known["verbs"]:
        return f"`{words[1]}` is no verb of ./dev"
    if words[1] == "build" and words[2:] and words[2] not in known["presets"]:
        return f"`{words[2]}` is no preset"
    if words[1:3] == ["test", "-p"] and words[3] not in known["presets"]:
        return f"`{words[3]}` is no preset"
    if words[1] == "fuzz" and not (root / f"tests/fuzz/fuzz_{words[2]}.c").exists():
        return f"`{words[2]}` is no fuzz target"
    return None


def check(root):
    known = help_words(root)
    used = set()
    for number, command in command_lines(read(root, PAGE)):
        used.update(re.findall(r"\./dev (\w+)", command))
        text = fault(root, command, known)
        if text:
            yield PAGE, number, f"`{command}`: {text}"
    for verb in known["verbs"]:
        if verb not in used:
            yield PAGE, 0, f"./dev {verb} is not shown"


DEV = "echo '  build x'; echo '  test x'; echo '  fuzz x'; echo 'presets: dev asan'\n"


def seeded(block, fuzz="./dev fuzz money 5"):
    return {"dev": DEV, "tests/fuzz/fuzz_money.c": "", PAGE: f"# X\n```sh\n{block}{fuzz}\n```\n"}


CASES = [
    ("good", seeded("./dev build asan\n./dev test\n"), None),
    ("comments and settings are no words",
     seeded("# a\n./dev build # b\nRON_SEED=1 ./dev test -p asan unit\n"), None),
    ("unknown verb", seeded("./dev build\n./dev test\n./dev fly\n"), "`fly` is no verb"),
    ("unknown preset", seeded("./dev build gold\n./dev test\n"), "`gold` is no preset"),
    ("unknown preset of test", seeded("./dev build\n./dev test -p gold\n"), "`gold` is no preset"),
    ("foreign command", seeded("./dev build\n./dev test\nmake all\n"), "`make all`: is neither"),
    ("unknown fuzz target",
     seeded("./dev build\n./dev test\n", "./dev fuzz gold 5"), "no fuzz target"),
    ("verb not shown", seeded("./dev build\n"), "./dev test is not shown"),
]

if __name__ == "__main__":
    main(check, CASES)
