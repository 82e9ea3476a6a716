# SPDX-License-Identifier: Apache-2.0
"""Another `ron` beside this one: what a change of the program did, told from what the machine did.

Machines drift by a third within minutes, so runs of one day and the next, or of one program after
the other, say nothing. Here both run each row in each repetition, each on a ledger of its own, and
who begins changes; ratios are taken inside a repetition."""
import os
import statistics
import sys
from pathlib import Path

from benchkit import spread


def run_once(start, row, program):
    ron = start(row, program)
    try:
        runs = Path(f"/proc/{ron.pid}/exe").resolve()
        if runs != Path(program).resolve():
            raise RuntimeError(f"{runs} runs, not {program}")
        return row["run"](ron)
    finally:
        ron.stop()


def compare(start, rows, other, reps):
    """`start(row, program)` gives a ledger, `row["run"]` loads it."""
    this = os.environ["RON_BIN"]
    print(f"\nBeside {other}, in turn, {reps} repetitions.\n\n| workload | transfers/s | of the "
          "other | rate beside it | processor time beside it |\n|---|---|---|---|---|")
    for row in rows:
        found = {this: [], other: []}
        for repetition in range(reps):
            for program in (this, other) if repetition % 2 == 0 else (other, this):
                found[program].append(run_once(start, row, program))
            print(f"{row['name']} {repetition + 1}/{reps}", file=sys.stderr)
        pairs = list(zip(found[this], found[other]))
        print(f"| {row['text']} | {statistics.median(r['per_s'] for r in found[this]):.0f} | "
              f"{statistics.median(r['per_s'] for r in found[other]):.0f} | "
              f"x {spread([a['per_s'] / b['per_s'] for a, b in pairs], 2)} | "
              f"x {spread([a['cpu_us'] / b['cpu_us'] for a, b in pairs], 2)} |", flush=True)
