#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shell completion as a shell runs it, and the man pages as a formatter reads them.

Method: the script of `ron completion bash` is loaded into bash and asked by setting the variables
that bash sets; the others are compared with it verb by verb, and parsed by their shell where the
machine has it. Every man page goes through groff with all warnings on; one that is spoilt must be
noticed.
"""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from httpkit import check, finish, missing
from ledgerkit import PROGRAM
from upkit import ron

TREE = Path(__file__).resolve().parents[2]


def complete(script, *words):
    """What bash offers for the last of the words."""
    quoted = " ".join(f"'{w}'" for w in ("ron", *words))
    done = subprocess.run(
        ["bash", "-c", f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _ron; "
         'printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}"})
    check(f"bash: no complaint about {words}", done.stderr == "", done.stderr)
    return set(done.stdout.split())


def bash(folder):
    script = folder / "ron.bash"
    script.write_text(ron("completion", "bash")[1])
    check("bash: verbs by their beginning", complete(script, "tra") == {"transfer"})
    check("bash: verbs below a verb", {"mint", "show", "key"} <= complete(script, "cap", ""))
    check("bash: three words deep", complete(script, "cap", "key", "n") == {"new"})
    check("bash: options of a verb", {"--memo", "--key", "--json"} <=
          complete(script, "transfer", "--"))
    check("bash: options behind words", "--memo" in complete(script, "transfer", "a", "b", "--me"))
    check("bash: settings of a service", "--wallet.assets" in
          complete(script, "wallet", "--wallet.as"))
    check("bash: nothing below a verb that has none", complete(script, "balance", "zz") == set())
    check("bash: shellcheck has no complaint",
          missing("shellcheck") or subprocess.run(["shellcheck", "-s", "bash", str(script)],
                                                  check=False).returncode == 0)
    return complete(script, "")


def others(folder, verbs):
    for shell, command in (("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])):
        code, text, _ = ron("completion", shell)
        check(f"{shell}: has every verb", code == 0 and
              all(re.search(rf"\b{re.escape(v)}\b", text) for v in verbs), text[:500])
        if shutil.which(shell):
            script = folder / f"ron.{shell}"
            script.write_text(text)
            ran = subprocess.run([*command, str(script)], capture_output=True, text=True,
                                 check=False)
            check(f"{shell}: parses it", ran.returncode == 0, ran.stderr)
    code, _, err = ron("completion", "tcsh")
    check("another shell is told", code == 2 and "bash, zsh, fish" in err, err)


def complaints(page):
    return subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", str(page)],
                          capture_output=True, text=True, check=False).stderr


def man_pages(folder, verbs):
    if missing("groff"):
        return
    pages = sorted((TREE / "docs/man").glob("*.1"))
    check("man: there are pages", len(pages) >= 8, pages)
    for page in pages:
        said = complaints(page)
        check(f"man: {page.name} is good", said == "", said)
    spoilt = folder / "spoilt.1"
    spoilt.write_text((TREE / "docs/man/ron.1").read_text() + "\n.XY no such macro\n")
    check("man: a spoilt page is noticed", "XY" in complaints(spoilt))
    text = (TREE / "docs/man/ron.1").read_text().replace("\\-", "-")
    lacking = [v for v in verbs - {"help", "version"} if f'"ron {v}' not in text]
    check("man: ron(1) has every verb", not lacking, lacking)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        verbs = bash(folder)
        check("bash: offers all verbs", {"up", "doctor", "issue", "reward", "ledger"} <= verbs,
              verbs)
        others(folder, verbs)
        man_pages(folder, verbs)
    finish()


if __name__ == "__main__":
    main()
