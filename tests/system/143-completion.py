#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shell completion as a shell runs it, and the man pages as a formatter reads them.

Method: every script is parsed by its shell. The script of `ron completion bash` is then loaded into
bash and asked by setting the variables that bash sets; fish completes a command line itself; zsh
is compared with bash verb by verb. Every man page goes through groff with all warnings on. A
script and a page that are spoilt must be noticed. What the machine lacks is named and left out.
"""
import os
import re
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


def parse(shell, script):
    """What the shell says of a script that it only parses, and its exit status."""
    ran = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def syntax(folder, verbs):
    for shell in ("bash", "zsh", "fish"):
        code, text, _ = ron("completion", shell)
        check(f"{shell}: has every verb", code == 0 and
              all(re.search(rf"\b{re.escape(v)}\b", text) for v in verbs), text[:500])
        if missing(shell):
            continue
        script = folder / f"ron.{shell}"
        script.write_text(text)
        code, said = parse(shell, script)
        check(f"{shell}: parses it without a remark", code == 0 and said == "", said)
        script.write_text(text.replace("'", "", 1))
        check(f"{shell}: a script that lacks a quote is noticed", parse(shell, script)[0] != 0)


def offered_by_fish(folder, line):
    """The words and descriptions that fish offers for a command line."""
    script = folder / "loaded.fish"
    script.write_text(ron("completion", "fish")[1])
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}"})
    check(f"fish: no complaint about '{line}'", done.stderr == "", done.stderr)
    return dict(row.partition("\t")[::2] for row in done.stdout.splitlines())


def fish(folder, verbs):
    if missing("fish"):
        return
    offered = offered_by_fish(folder, "ron ")
    check("fish: offers all verbs", verbs <= set(offered), verbs - set(offered))
    check("fish: describes them", offered.get("doctor", "") != "", offered)
    check("fish: verbs below a verb", {"mint", "show", "key"} <=
          set(offered_by_fish(folder, "ron cap ")))
    check("fish: an apostrophe in a description", any(
        "'" in text for text in offered_by_fish(folder, "ron reward tree ").values()))
    check("fish: options of a verb", "--memo" in offered_by_fish(folder, "ron transfer --me"))


def others():
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
        syntax(folder, verbs)
        fish(folder, verbs)
        others()
        man_pages(folder, verbs)
    finish()


if __name__ == "__main__":
    main()
