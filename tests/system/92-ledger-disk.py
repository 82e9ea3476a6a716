#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a full disk closes the ledger for writing and loses nothing; it goes on when there is space
again and the operator says so.

Method: the data directory lies on a small file system of its own (tmpfs mounted in a namespace of
this test, so only root or a machine with user namespaces can run it; said and skipped otherwise).
Writes go on until the first refusal; then space is freed and the ledger resumed.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, finish  # noqa: E402
from ledgerkit import Ledger, entry  # noqa: E402

ALICE, BOB = "t:d/u:alice", "t:d/u:bob"


def fill(ledger):
    """Batches until one is refused; the refusal."""
    count = 0
    while count < 5000:
        status, body = ledger.ingest(*[entry("Transfer", ALICE, 1, to=BOB, memo="x" * 200)
                                       for _ in range(200)])
        if status != 200:
            return count, status, body
        count += 1
    return count, 0, None


def main():
    folder = Path(tempfile.mkdtemp(prefix="ron-full-"))
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=0700", "tmpfs", disk],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        print("skipped: a small file system cannot be mounted here: " + mounted.stderr.strip())
        sys.exit(77)
    try:
        run(disk)
    finally:
        subprocess.run(["umount", disk], check=True)
    finish()


def run(disk):
    ballast = disk / "ballast"
    ballast.write_bytes(b"\0" * (16 << 20))
    with Ledger("--engine.free_floor=4MiB", "--engine.segment_bytes=2MiB", folder=disk) as ledger:
        check("fund", ledger.ingest(entry("Mint", ALICE, 10 ** 12))[0] == 200)
        count, status, body = fill(ledger)
        check("full: refused with a type", count > 5 and status == 503
              and body["reason"] == "safe_mode" and body["retryable"], (count, status, body))
        before = (ledger.balance(ALICE), ledger.balance(BOB))
        check("full: what was acknowledged is there, nothing else",
              before[1][0] == count * 200, (count, before))
        metrics = ledger.get("/metrics", token=None)[1].decode()
        check("full: metrics tell", "\nledger_safe_mode 1" in metrics)
        status, ready = ledger.get("/readyz", token=None)
        check("full: not ready", status == 503, ready)
        status, found = ledger.admin("POST", "/resume", "")
        more, again, body = fill(ledger)
        check("full: resuming without space is in vain or short-lived", status in (200, 503)
              and more < 5 and again == 503 and body["reason"] == "safe_mode",
              (status, found, more, again, body))
        before = (ledger.balance(ALICE), ledger.balance(BOB))
        check("full: and loses nothing either", before[1][0] == (count + more) * 200,
              (more, before))
        ballast.unlink()
        if ledger.admin("GET", "/status")[1]["mode"] != "running":
            status, found = ledger.admin("POST", "/resume", "")
            check("space: resumed", status == 200, found)
        check("space: nothing was lost", (ledger.balance(ALICE), ledger.balance(BOB)) == before)
        status, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB))
        check("space: writes go on", status == 200, body)
        ledger.restart()
        check("space: the same after a restart", ledger.balance(BOB)[0] == before[1][0] + 1)


main()
