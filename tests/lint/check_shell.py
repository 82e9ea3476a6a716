#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shell scripts (*.sh and everything that starts with #!/bin/sh) pass shellcheck as POSIX shell."""
import json
import subprocess

from common import files, main


def first_line(path):
    with open(path, "rb") as file:
        return file.readline(64).strip()


def check(root):
    first = {path: first_line(root / path) for path in files(root) if path.suffix in ("", ".sh")}
    paths = [path for path in first if path.suffix == ".sh" or first[path] == b"#!/bin/sh"]
    for path in paths:
        if first[path] != b"#!/bin/sh":
            yield path, 1, "the first line is not #!/bin/sh"
    if not paths:
        return
    command = ["shellcheck", "--shell=sh", "--format=json1", *[p.as_posix() for p in paths]]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        yield paths[0], 0, f"shellcheck failed: {done.stderr.strip()}"
        return
    for comment in json.loads(done.stdout)["comments"]:
        yield comment["file"], comment["line"], f"SC{comment['code']}: {comment['message']}"


CASES = [
    ("unquoted", {"a.sh": "#!/bin/sh\nrm $1\n"}, "SC2086"),
    ("without suffix", {"run": "#!/bin/sh\nrm $1\n"}, "SC2086"),
    ("not POSIX", {"a.sh": "#!/bin/sh\n[[ -n x ]]\n"}, "SC3010"),
    ("another shell", {"a.sh": "#!/bin/bash\n:\n"}, "not #!/bin/sh"),
    ("good", {"a.sh": '#!/bin/sh\nrm "$1"\n', "data": "rm $1\n"}, None),
]

if __name__ == "__main__":
    main(check, CASES)
