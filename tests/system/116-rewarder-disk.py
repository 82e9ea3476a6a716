#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a disk without space for the rewarder's book, its sealed inputs and its artifacts refuses
new work with a type, loses nothing that was accepted, and when there is space again it goes on by
itself: each payee once.

Method: everything of the rewarder on a small file system (tmpfs) that is filled to the last page.
Skipped where mounting is not allowed. (Artifacts alone: 108-rewarder-chaos.)
"""
import contextlib
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from rewarderkit import Rewarder, b3, canonical, policy, shares, snapshot  # noqa: E402
from walletkit import new_ledger  # noqa: E402

POOL = 10 ** 5
RUNS = 12
SIZE = "size=96m,mode=0700"  # the store of inputs leaves 64 MiB free


def rows_of(name, count=30):
    return [(f"t:{name}/n:{i}", 10 + i, i * 3, 1) for i in range(count)]


def state(r, epoch):
    return r.get(f"/rewarder/epochs/{epoch}/settlement")[1].get("state")


def paid(r, name, times, count=30):
    one, _ = shares(rows_of(name, count), POOL)
    found = {a: r.ledger.balance(a)[0] for a, *_ in rows_of(name, count)}
    return {a: b for a, b in found.items() if b} == {a: x * times for a, x in one.items()}


def fill(disk):
    """To the last byte that it takes."""
    with open(disk / "ballast", "ab", buffering=0) as f:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    f.write(b"\0" * size)


def refused(answer):
    status, body = answer
    return (status, body.get("reason"), body.get("retryable")) == (503, "storage", True)


def inputs(r, disk):
    snap = snapshot(rows_of("new", 500), POOL)
    fill(disk)
    status, _, data = r.ask("PUT", "/rewarder/inputs", json.dumps(snap))
    check("inputs: an upload without room is refused with a type",
          refused((status, json.loads(data))), (status, data))
    inline = r.compute("new", r.request(snap, policy()))
    check("inputs: so is a snapshot that comes inline", refused(inline), inline)
    check("inputs: its epoch is free", r.get("/rewarder/epochs/new")[0] == 404, "")
    check("inputs: what is published is served", r.get("/rewarder/epochs/first")[0] == 200, "")
    (disk / "ballast").unlink()
    by_id = r.compute("new", r.request(snap, policy(), inline=False))
    check("inputs: nothing of it was stored", (by_id[0], by_id[1].get("reason")) ==
          (404, "inputs_missing"), by_id)
    check("inputs: with space they are taken", r.compute("new", r.request(snap, policy()))[0] ==
          200, "")
    check("inputs: settled", eventually(lambda: state(r, "new") == "emitted"), state(r, "new"))
    check("inputs: paid once", paid(r, "new", 1, 500))


def book(r, disk):
    """Runs of inputs that are stored, so that book and artifacts are what has no room."""
    snap = snapshot(rows_of("book"), POOL)
    status, _, data = r.ask("PUT", "/rewarder/inputs", json.dumps(snap))
    check("book: inputs are stored", status == 201 and json.loads(data)["inputs_cid"] ==
          b3(canonical(snap)), data)
    body = r.request(snap, policy(), inline=False)
    fill(disk)
    answers = [r.compute(f"book-{i}", body) for i in range(RUNS)]
    check("book: each run is refused with a type, or done", all(
        a[0] == 200 or refused(a) for a in answers), [a for a in answers if a[0] != 200][:3])
    check("book: some were refused", any(refused(a) for a in answers), answers)
    (disk / "ballast").unlink()
    again = [r.compute(f"book-{i}", body)[0] for i in range(RUNS)]
    check("book: with space each of them is done", set(again) == {200}, again)
    check("book: all are settled", eventually(
        lambda: {state(r, f"book-{i}") for i in range(RUNS)} == {"emitted"}),
        [state(r, f"book-{i}") for i in range(RUNS)])
    check("book: everybody is paid once for each", paid(r, "book", RUNS))


def settlements(r, disk):
    """Sealed before, settled on a full disk: what the book cannot note is asked of the ledger
    again under the same names."""
    snap = snapshot(rows_of("settle"), POOL)
    for i in range(RUNS):
        check(f"settlements: settle-{i} is sealed", r.compute(
            f"settle-{i}", r.request(snap, policy(residual="carry", id="held")))[0] == 200, "")
    fill(disk)
    r.settings("auto_emit = true\n")
    eventually(lambda: any(state(r, f"settle-{i}") != "sealed" for i in range(RUNS)) or any(
        "held up" in x or "cannot be read" in x for x in r.lines), 10)
    (disk / "ballast").unlink()
    check("settlements: all are settled when there is space", eventually(
        lambda: {state(r, f"settle-{i}") for i in range(RUNS)} == {"emitted"}, 60),
        [state(r, f"settle-{i}") for i in range(RUNS)])
    check("settlements: everybody is paid once for each", paid(r, "settle", RUNS))


class OnDisk(Rewarder):
    """With a file of settings beside it, so that a reload can change them."""

    def __init__(self, ledger, disk):
        self.config = ledger.folder / "rewarder.toml"
        self.config.write_text("", encoding="ascii")
        super().__init__(ledger, f"--config={self.config}", "--settlement.retry=200ms",
                         "--settlement.batch=5", dir=disk / "rewarder")

    def settings(self, text):
        self.config.write_text("[rewarder]\n" + text, encoding="ascii")
        before = sum('"reloaded"' in x for x in self.lines)
        self.process.send_signal(1)
        check("reloaded", eventually(
            lambda: sum('"reloaded"' in x for x in self.lines) > before))


def main():
    with new_ledger() as ledger:
        disk = ledger.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", SIZE, "tmpfs", disk],
                                 capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            print("skipped: a file system cannot be mounted here: " + mounted.stderr.strip())
            sys.exit(77)
        try:
            with OnDisk(ledger, disk) as r:
                check("first: a run", r.compute("first", r.request(
                    snapshot(rows_of("first"), POOL), policy()))[0] == 200, "")
                inputs(r, disk)
                book(r, disk)
                r.settings("auto_emit = false\n")
                settlements(r, disk)
                r.restart()
                check("a new life has it all", {state(r, f"{n}-{i}") for i in range(RUNS)
                      for n in ("book", "settle")} == {"emitted"})
        finally:
            subprocess.run(["umount", disk], check=True)
    finish()


main()
