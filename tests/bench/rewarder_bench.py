#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench rewarder`, the parts that run whole programs, as Markdown.

oz: a tree of 100,000 leaves (address, uint256) by `ron reward tree oz` and by the npm package
@openzeppelin/merkle-tree, in turn in each repetition. Of ours the whole command counts: reading the
CSV file, the tree, and the dump written and synced. Of the package only StandardMerkleTree.of
counts, which is the tree alone; what the dump takes on top is told apart. Both dumps must be equal
byte for byte. Memory is the largest resident size of each process. Without node, npm or network the
package is left out, which is said.

Settings: RON_BENCH_REPS (2), RON_BENCH_LEAVES (100000), RON_BENCH_DATA (folder for files, the usual
temporary one), RON_BENCH_NOISE, RON_BENCH_WAIT_S.
"""
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchkit import busy_s, setting, spread, wait_for_quiet

PROGRAM = os.environ["RON_BIN"]
BUILD = Path(PROGRAM).resolve().parents[1]
REPS = setting("REPS", 2)
LEAVES = setting("LEAVES", 100000)
AIM = 50

NODE = """
const { StandardMerkleTree } = require("@openzeppelin/merkle-tree");
const fs = require("fs");
const [from, to] = process.argv.slice(2);
const values = fs.readFileSync(from, "utf8").trim().split("\\n").map(line => line.split(","));
const begin = process.hrtime.bigint();
const tree = StandardMerkleTree.of(values, ["address", "uint256"]);
const built = process.hrtime.bigint();
fs.writeFileSync(to, JSON.stringify(tree.dump()));
const end = process.hrtime.bigint();
console.log(JSON.stringify({of: Number(built - begin) / 1e9, dump: Number(end - built) / 1e9,
  kib: process.resourceUsage().maxRSS}));
"""


def find_package():
    """The script beside the npm package, which is installed into the build folder on first use."""
    folder = BUILD / "npm-merkle-tree"
    package = folder / "node_modules" / "@openzeppelin" / "merkle-tree"
    if not shutil.which("node") or not shutil.which("npm"):
        return None
    if not package.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix",
                        folder, "@openzeppelin/merkle-tree@1"], capture_output=True, check=False)
    if not package.is_dir():
        return None
    script = folder / "bench.js"
    script.write_text(NODE, encoding="utf-8")
    return script


def ours(csv, out):
    """Seconds, KiB and processor seconds of one command."""
    with subprocess.Popen([PROGRAM, "reward", "tree", "oz", "--csv", csv, "--out", out],
                          stdout=subprocess.DEVNULL) as child:
        begin = time.monotonic()
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"ron reward tree oz: exit {child.returncode}")
    return seconds, used.ru_maxrss, used.ru_utime + used.ru_stime


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def oz():
    """The table of part oz."""
    script = find_package()
    rand = random.Random(1)
    mine, peers, ratios, noise = [], [], [], []
    with tempfile.TemporaryDirectory(dir=os.environ.get("RON_BENCH_DATA")) as name:
        csv, out, peer_out = (Path(name) / n for n in ("in.csv", "ours.json", "theirs.json"))
        csv.write_text("".join(f"0x{rand.randbytes(20).hex()},{rand.getrandbits(90)}\n"
                               for _ in range(LEAVES)))
        for rep in range(REPS + 1):
            wait_for_quiet()
            busy, begin = busy_s(), time.monotonic()
            got = ours(csv, out)
            noise.append((busy_s() - busy - got[2]) / (time.monotonic() - begin))
            if rep == 0:
                continue  # warms up
            mine.append(got)
            if script is not None:
                done = subprocess.run(["node", script, csv, peer_out], capture_output=True,
                                      text=True, check=True)
                peers.append(json.loads(done.stdout))
                ratios.append(peers[-1]["of"] / got[0])
                if digest(out) != digest(peer_out):
                    sys.exit("the two dumps differ")
    print(f"### OpenZeppelin tree of {LEAVES:,} leaves (address, uint256)\n")
    print("| | seconds | largest memory, MiB |\n|---|---|---|")
    print(f"| `ron reward tree oz`: CSV read, tree, dump written and synced | "
          f"{spread([m[0] for m in mine], 3)} | {max(m[1] for m in mine) / 1024:.0f} |")
    print(f"| of that on the processor | {spread([m[2] for m in mine], 3)} | |")
    if script is None:
        print("| the npm package | left out: node, npm or the network is missing | |")
    else:
        print(f"| `StandardMerkleTree.of` alone | {spread([p['of'] for p in peers], 2)} | "
              f"{max(p['kib'] for p in peers) / 1024:.0f} |")
        print(f"| its dump on top | {spread([p['dump'] for p in peers], 2)} | |")
        print(f"| ratio (aim {AIM}) | {spread(ratios, 0)} | |")
    print(f"\n{REPS} repetitions; others used {max(noise):.2f} of a core at most while ours ran."
          + (" Both dumps are equal, byte for byte.\n" if script is not None else "\n"))


PARTS = {"oz": oz}


def main():
    """Parts by name."""
    for part in sys.argv[1:] or PARTS:
        if part not in PARTS:
            sys.exit(f"unknown part '{part}'; known: {' '.join(PARTS)}")
        PARTS[part]()


if __name__ == "__main__":
    main()
