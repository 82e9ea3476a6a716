#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a ledger that dies at any system call of a commit, of its start or of its end comes back by
itself with all that it acknowledged, and applies what is sent again once.

Method: strace kills the process at the n-th of the calls that make something last or tell somebody
(writes, syncs, renames, what goes into sockets), for n = 1, 2, ... until a start, three commits and
a drain need no more of them. The segments are small, so that new ones are made on the way. After
each death a ledger without strace must be running (not in safe mode); every request again gets the
same bytes where it had an answer, and is applied otherwise. In the end the balance must be that of
the requests, each counted once, and `ron-audit` must find the journal good. Skipped without strace.
"""
import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import PROGRAM, Ledger, entry  # noqa: E402

CALLS = ("pwrite64,pwritev,write", "fdatasync", "fsync", "rename,renameat,renameat2",
         "ftruncate,fallocate", "sendto,sendmsg,writev", "unlink,unlinkat")
STEPS_MAX = 40  # of one kind in one thread; a start with three commits has fewer
ALICE, BOB = "t:s/u:alice", "t:s/u:bob"


class Steps:
    def __init__(self, ledger):
        self.ledger, self.paid, self.wrong, self.unsafe = ledger, 0, [], []

    def three(self):
        """Three commits of different sizes, as far as they get: [request, answer or None]."""
        sent = []
        for size in (1, 40, 3):
            batch = [entry("Transfer", ALICE, 1, to=BOB, memo="m" * 200) for _ in range(size)]
            sent.append([json.dumps({"batch": batch, "idem_id": "s-" + batch[0]["id"]}), None])
            self.paid += size
            try:
                status, _, data = self.ledger.ask("POST", "/ingest", sent[-1][0])
                sent[-1][1] = data if status == 200 else None
            except (OSError, http.client.HTTPException):
                break
        return sent

    def dies(self, calls, when):
        """One life under strace, which kills at the call; whether it came to that."""
        ledger, sent = self.ledger, []
        ledger.prefix = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", f"trace={calls}",
                         "-e", f"inject={calls}:signal=SIGKILL:when={when}"]
        try:
            ledger.start()
            sent = self.three()
        except RuntimeError:
            pass  # in the start already
        if not sent or sent[-1][1] is None:
            eventually(lambda: ledger.process.poll() is not None)
        elif ledger.process.poll() is None:  # nothing in the way: then to the end of a drain
            end_child(ledger.process)
        died = ledger.process.wait() != 0
        ledger.reader.join()
        ledger.prefix = []
        ledger.start()
        mode = ledger.admin("GET", "/status")[1]["mode"]
        if mode != "running":
            self.unsafe.append((calls, when, mode))
        for request, answer in sent:
            status, _, data = ledger.ask("POST", "/ingest", request)
            if status != 200 or answer not in (None, data):
                self.wrong.append((calls, when, answer, status, data))
        ledger.stop()
        return died


def end_child(tracer):
    """Asks what strace watches to end; strace ends with it, in the same way."""
    with contextlib.suppress(OSError, IndexError), open(
            f"/proc/{tracer.pid}/task/{tracer.pid}/children", encoding="ascii") as f:
        os.kill(int(f.read().split()[0]), signal.SIGTERM)


def main():
    if shutil.which("strace") is None:
        print("skipped: there is no strace")
        sys.exit(77)
    with Ledger("--engine.segment_bytes=64KiB") as ledger:
        check("fund", ledger.ingest(entry("Mint", ALICE, 10 ** 9))[0] == 200)
        ledger.stop()
        steps = Steps(ledger)
        for calls in CALLS:
            deaths, when = 0, 1
            while when <= STEPS_MAX and steps.dies(calls, when):
                deaths, when = deaths + 1, when + 1
            print(f"killed at {calls}: {deaths} times")
            check(f"killed at every {calls}: acknowledged is kept, repeated is the same",
                  not steps.wrong, steps.wrong[:2])
            check(f"killed at every {calls}: comes back by itself", not steps.unsafe,
                  steps.unsafe[:3])
            check(f"killed at every {calls}: to the last of them", when <= STEPS_MAX, when)
        ledger.start()
        check(f"{steps.paid} transfers: each once", ledger.balance(BOB)[0] == steps.paid,
              (ledger.balance(BOB), steps.paid))
        ledger.stop()
        judged = subprocess.run([str(Path(PROGRAM).with_name("ron-audit")), str(ledger.data)],
                                capture_output=True, text=True, check=False)
        check("ron-audit: good", judged.returncode == 0, judged.stdout + judged.stderr)
        ledger.start()
    finish()


main()
