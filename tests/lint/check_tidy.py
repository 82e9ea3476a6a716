#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over every source that the dev build compiles, by the checks of .clang-tidy.

The analysis takes seconds a file, so a file that passed is remembered in the build folder, by a
hash of itself, of all headers, of its command line and of the configuration. A change to any of
those has it checked anew. Tests are checked by the compilers and sanitizers only: what clang-tidy
says of cmocka macros is noise.
"""
import hashlib
import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import BUILD, ROOT, files, main

JOBS = max(1, os.cpu_count() or 1)
FINDING = re.compile(r"^(.*?):(\d+):\d+: (?:error|warning): (.*)$", re.MULTILINE)


# The analyser follows paths until it has seen that many states of a function; its own limit, three
# times that, takes three times as long and has found nothing more here.
STATES_MAX = 80000


def command_for(source, flags):
    # The build is gcc's; flags that clang does not know are no finding.
    return ["clang-tidy", "--quiet", f"--config-file={ROOT / '.clang-tidy'}", str(source), "--",
            *flags, "-Wno-unknown-warning-option",
            "-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={STATES_MAX}"]


def entries(root):
    """(source, flags) of what the build at hand compiles; of all C files in a seeded tree."""
    if root != ROOT:
        return [(root / path, ["-std=gnu17"]) for path in files(root, ".c")]
    found = []
    for entry in json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8")):
        source = Path(entry["file"])
        if root not in source.parents or (root / "tests") in source.parents:
            continue  # what a package brought as source is not ours to judge
        flags = []
        words = iter(shlex.split(entry["command"]))
        for word in words:
            if word in ("-include", "-isystem", "-iquote"):
                flags += [word, next(words)]
            elif re.match(r"-(D|I|std=|f(?!sanitize))", word):
                flags.append(word)
        found.append((source, flags))
    return found


def state_of(root):
    """Hash of what every file's result depends on."""
    state = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for path in files(root, ".h"):
        state.update((root / path).read_bytes())
    return state


def analyse(root, entry, state):
    source, flags = entry
    key = state.copy()
    key.update(source.read_bytes() + " ".join(flags).encode())
    stamp = BUILD / "tidy-passed" / key.hexdigest() if root == ROOT else None
    if stamp and stamp.exists():
        return []
    done = subprocess.run(command_for(source, flags), capture_output=True, text=True, check=False)
    found = [(Path(path), int(line), text) for path, line, text in FINDING.findall(done.stdout)]
    if done.returncode != 0 and not found:
        found = [(source, 0, f"clang-tidy failed: {done.stderr.strip()[-500:]}")]
    if stamp and not found:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()
    return found


def check(root):
    if root == ROOT and not (BUILD / "compile_commands.json").exists():
        yield BUILD, 0, "compile_commands.json is missing: run ./dev build dev"
        return
    state = state_of(root)
    seen = set()
    with ThreadPoolExecutor(max_workers=JOBS) as pool:
        for found in pool.map(lambda entry: analyse(root, entry, state), entries(root)):
            for path, line, text in found:
                if (path, line, text) not in seen:
                    seen.add((path, line, text))
                    path = path.relative_to(root) if path.is_relative_to(root) else path
                    yield path, line, text


CASES = [
    ("no braces", {"a.c": "int f(int a)\n{\n    if (a)\n        return 1;\n    return 0;\n}\n"},
     "readability-braces"),
    ("null dereference", {"a.c": "int f(void)\n{\n    int *p = 0;\n    return *p;\n}\n"},
     "core.NullDereference"),
    ("unsafe in threads",
     {"a.c": "#include <string.h>\nchar *f(void);\nchar *f(void)\n{\n    return strerror(1);\n}\n"},
     "concurrency-mt-unsafe"),
    ("good", {"a.c": "int f(int a);\nint f(int a)\n{\n    return a + 1;\n}\n"}, None),
]

if __name__ == "__main__":
    main(check, CASES)
