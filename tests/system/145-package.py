#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it builds the package.
"""What an installation consists of: staged into a folder, looked at, and run from there.

The files of `cmake --install`; that every unit is one that systemd accepts and scores as well
sandboxed; that the settings it installs are settings of the program; that every service has a unit,
settings and a manual page; that programs, manual pages and changelog name one version, that of the
project file. `./dev package` packs the same files."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from httpkit import check, finish

SOURCE = Path(os.environ["RON_SOURCE_DIR"])
BUILD = Path(os.environ["RON_BIN"]).parents[1]
SERVICES = ["console", "edge", "interop", "ledger", "rewarder", "wallet"]
SCORE_MAX = 2.5  # of systemd: 0 is a closed box, 10 none at all


def staged(folder):
    done = subprocess.run(["cmake", "--install", str(BUILD), "--prefix", "/usr"],
                          env={**os.environ, "DESTDIR": str(folder)}, capture_output=True,
                          text=True)
    check("cmake --install", done.returncode == 0, done.stdout + done.stderr)
    missing = [path for path in [
        "usr/bin/ron", "usr/bin/ron-audit", "usr/lib/ron/ron-setup", "usr/share/doc/ron/copyright",
        "usr/share/man/man1/ron.1",
        *[f"usr/share/man/man1/ron-{s}.1" for s in SERVICES],
        *[f"usr/lib/systemd/system/ron-{s}.service" for s in SERVICES],
        *[f"etc/ron/{s}.toml" for s in SERVICES]] if not (folder / path).exists()]
    check("nothing is missing", not missing, missing)


def versions(folder):
    """The version is written once, in CMakeLists.txt; whatever repeats it agrees."""
    project = (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8")
    version = re.search(r"^project\(ron VERSION (\d+\.\d+\.\d+) ", project, re.M)[1]
    for program, words in (("ron", ["--version"]), ("ron", ["version"]),
                           ("ron-audit", ["--version"])):
        done = subprocess.run([folder / "usr/bin" / program, *words], capture_output=True,
                              text=True)
        check(f"{program} {words[0]}: {version} and the build id",
              re.fullmatch(rf"{program} {re.escape(version)} \([A-Za-z0-9._+-]+\)\n", done.stdout),
              done.stdout)
    others = [page.name for page in (folder / "usr/share/man/man1").glob("*.1")
              if f'"ron {version}"' not in page.read_text(encoding="utf-8").split("\n")[1]]
    check(f"manual pages: {version}", not others, others)
    changelog = (SOURCE / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[([^]]+)\]", changelog, re.M)
    check(f"changelog: {version}", newest and newest[1] == version, newest)
    fixtures = [str(path) for path in folder.rglob("*fixture*")]
    check("no test program is installed", not fixtures, fixtures)


def programs(folder):
    ron = folder / "usr/bin/ron"
    done = subprocess.run([ron, "--version"], capture_output=True, text=True)
    check("the installed program runs", done.returncode == 0, done.stdout + done.stderr)
    for s in SERVICES:
        done = subprocess.run([ron, s, "--config", folder / f"etc/ron/{s}.toml", "--print-config"],
                              capture_output=True, text=True)
        check(f"{s}: its settings are settings", done.returncode == 0, done.stderr)


def units(folder):
    if not shutil.which("systemd-analyze"):
        print("skipped: no systemd-analyze")
        return
    for s in SERVICES:
        unit = folder / f"usr/lib/systemd/system/ron-{s}.service"
        text = unit.read_text()
        program = str(folder / "usr/bin/ron")
        trial = folder / f"ron-{s}.service"
        trial.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.M)
                         .replace("/usr/bin/ron", program))
        done = subprocess.run(["systemd-analyze", "verify", str(trial)], capture_output=True,
                              text=True)
        said = [line for line in (done.stdout + done.stderr).splitlines() if f"ron-{s}" in line]
        check(f"{s}: systemd accepts the unit", not said, said)
        done = subprocess.run(["systemd-analyze", "security", "--offline=true",
                               f"--threshold={int(SCORE_MAX * 10)}", str(trial)],
                              capture_output=True, text=True)
        score = re.search(r"Overall exposure level[^:]*: ([0-9.]+)", done.stdout)
        check(f"{s}: exposure {score[1] if score else '?'} of 10, at most {SCORE_MAX}",
              score and float(score[1]) <= SCORE_MAX, done.stdout[-1500:] + done.stderr)


folder = Path(tempfile.mkdtemp(prefix="ron-install-"))
try:
    staged(folder)
    versions(folder)
    programs(folder)
    units(folder)
finally:
    shutil.rmtree(folder, ignore_errors=True)
finish()
