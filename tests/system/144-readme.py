#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README and docs/guide/up.md are followed literally: every command of their console blocks is
run in the order it stands there, in an empty folder, and must print what the page shows.

Method: ids, hashes, times, ports and durations are replaced by names on both sides; nothing else.
A page that promises something else must be noticed.
"""
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from httpkit import check, eventually, finish
from ledgerkit import PROGRAM
from upkit import free_base

TREE = Path(__file__).resolve().parents[2]
VARIES = [(r"tx_[0-9a-f]{32}", "TXID"), (r"cli-[0-9A-Z]{26}", "KEY"),
          (r"/open/[0-9a-f.]+", "/open/LINK"),
          (r"\b[0-9a-f]{64}\b", "ROOT"), (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
          (r"ron-ledger/[0-9a-f]{32}", "ron-ledger/UUID"),
          (r"^(  )?message( +)\d+$", r"\1message\2N"), (r"receipt  \d+-1", "receipt  N-1"),
          (r"entries  \d+ to \d+", "entries  N to M"),  # credits by webhook come when they come
          (r"127\.0\.0\.1:\d+ +", "ADDR "), (r"127\.0\.0\.1:\d+/", "ADDR/"),
          (r"ready after \d+ ms, data in \S+", "ready after N ms, data in DATA")]


def plain(text):
    for pattern, name in VARIES:
        text = re.sub(pattern, name, text, flags=re.M)
    return text.rstrip("\n")


def steps(page):
    """(command, what the page shows) of all console blocks."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.S | re.M):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


def run(command, folder):
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True,
                          timeout=120, check=False, env=environment())
    return done.stdout + done.stderr


def environment():
    kept = {k: v for k, v in os.environ.items() if k not in ("RON_DATA", "RON_TOKEN_FILE")}
    return {**kept, "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}"}


def follow(page):
    """Runs the page; the first thing that is not as it says, or None."""
    folder = Path(tempfile.mkdtemp(prefix="ron-readme-"))
    commands = steps(page)
    up, wrong = None, None
    try:
        for command, shown in commands:
            if command == "ron up":
                log = open(folder / "up.log", "w+", encoding="utf-8")
                up = subprocess.Popen([PROGRAM, "up", "--port-base", str(free_base())], cwd=folder,
                                      stdout=log, stderr=subprocess.STDOUT, env=environment())
                eventually(lambda: "Ctrl-C" in (folder / "up.log").read_text() or
                           up.poll() is not None, 60)
                got = (folder / "up.log").read_text()
            else:
                got = run(command, folder)
                if command.startswith("ron reward show"):  # it is paid in the background
                    eventually(lambda command=command: "emitted" in run(command, folder), 30)
                    got = run(command, folder)
            if plain(got) != plain(shown):
                wrong = f"$ {command}\n{plain(got)}\n--- the page:\n{plain(shown)}"
                break
    finally:
        if up is not None and up.poll() is None:
            up.send_signal(signal.SIGINT)
        code = up.wait(60) if up is not None else None
        shutil.rmtree(folder, ignore_errors=True)
    if wrong is None and code != 0:
        wrong = f"ron up ended with {code}"
    return wrong


def main():
    page = (TREE / "README.md").read_text(encoding="utf-8")
    check("README: has a tour", len(steps(page)) >= 12, steps(page))
    wrong = follow(page)
    check("README: every command does what the page says", wrong is None, wrong)
    wrong = follow((TREE / "docs/guide/up.md").read_text(encoding="utf-8"))
    check("docs/guide/up.md: every command does what the page says", wrong is None, wrong)
    told = follow(page.replace("issued 500 roc", "issued 501 roc"))
    check("README: a page that says something else is noticed",
          told is not None and "501" in told, told)
    finish()


if __name__ == "__main__":
    main()
