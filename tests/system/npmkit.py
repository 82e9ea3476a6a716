# SPDX-License-Identifier: Apache-2.0
"""Packages of npm that tests use as clients and peers: fetched on first use into the build folder,
never part of the program."""
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

BUILD = Path(os.environ.get("RON_BUILD_DIR", tempfile.gettempdir()))


def npm_folder(name, *packages, timeout=100):
    """The folder BUILD/npm-<name>, which has these packages ("pmtiles@4") in its node_modules, or
    None: then it is said what is missing."""
    folder = BUILD / f"npm-{name}"
    wanted = [folder / "node_modules" / p.rsplit("@", 1)[0] / "package.json" for p in packages]
    if not shutil.which("node") or not shutil.which("npm"):
        print("left out: node or npm is not installed")
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test may be fetching the same
        if not all(p.is_file() for p in wanted):
            try:
                subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
                                "--prefix", str(folder), *packages],
                               capture_output=True, timeout=timeout, check=False)
            except subprocess.TimeoutExpired:
                pass
    if not all(p.is_file() for p in wanted):
        print(f"left out: npm cannot install {' '.join(packages)} (no network?)")
        return None
    return folder
