#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it narrows memory.
"""Goal: a ledger that runs out of memory refuses requests and goes on; nothing is poisoned.

Method: the process may have little address space (prlimit), so that room for batches and accounts
runs out under a crowd of large batches. Every request must be answered 200 or refused with a type;
afterwards the same process is given room again and must go on as it does after a full disk: what
was refused is taken when it is asked again, and everything is there once. In memory mode, because
the index maps a large file otherwise; what was taken stays in memory there, so without new room
even a small request may rightly be refused for ever.
"""
import json
import resource
import shutil
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, finish, missing  # noqa: E402
from ledgerkit import Ledger, entry  # noqa: E402

THREADS, BATCHES, SIZE = 12, 6, 1000


def crowd(ledger, number, answers):
    for b in range(BATCHES):
        batch = [entry("Mint", f"t:m/u:{number}-{b}-{i}", 1, memo="m" * 200) for i in range(SIZE)]
        try:
            status, headers, data = ledger.ask("POST", "/ingest", json.dumps({"batch": batch}))
            answers.append((batch, status, headers.get("Retry-After"), json.loads(data)))
        except OSError as e:
            answers.append((batch, 0, None, {"error": repr(e)}))


def bounded(mib):
    """The command that bounds the address space; only the soft limit, which can be raised later."""
    return ("prlimit", f"--as={mib << 20}:")


def find_limit():
    """The least address space, in steps of 32 MiB, with which a ledger starts here."""
    for mib in range(128, 2048, 32):
        try:
            ledger = Ledger("--workers=1", amnesia=True, prefix=bounded(mib))
        except RuntimeError:
            continue
        ledger.stop()
        shutil.rmtree(ledger.folder)
        return mib
    return None


def supply_of(ledger):
    return sum(int(a["supply"]) for a in ledger.get("/supply")[1]["assets"])


def go_on(ledger, refused):
    """There is room again. A commit for which there was none has stopped writes, as on a full disk,
    until the operator lets them go on; without one they have never stopped. Whoever was refused
    asks again with the same entries: each is there once, whether or not it was before."""
    one = entry("Mint", "t:m/u:0-0-0", 1)
    answer = ledger.ingest(one)
    if answer[1].get("reason") == "safe_mode":
        resumed = ledger.admin("POST", "/resume", "")
        check("stopped by a failed commit, resumed after a verification", resumed[0] == 200,
              resumed)
        answer = ledger.ingest(one)
    check("with room again it takes a small request", answer[0] == 200,
          "\n".join([str(answer), *ledger.lines[-20:]]))
    again = [ledger.ingest(*batch) for batch in refused]
    check("and what it refused", all(a[0] == 200 for a in again),
          [a for a in again if a[0] != 200][:3])
    check("everything is there once", supply_of(ledger) == SIZE * THREADS * BATCHES + 1,
          supply_of(ledger))


def main():
    if missing("prlimit"):
        sys.exit(77)
    least = find_limit()
    check("there is a limit with which it starts", least is not None)
    with Ledger("--workers=1", amnesia=True, prefix=bounded(least + 24)) as ledger:
        answers = []
        threads = [threading.Thread(target=crowd, args=(ledger, i, answers))
                   for i in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        good = sum(a[1] == 200 for a in answers)
        typed = [a for a in answers if a[1] in (413, 429, 503) and "reason" in a[3]]
        check(f"{good} taken, {len(typed)} refused, each with a type",
              good + len(typed) == len(answers) == THREADS * BATCHES,
              [a[1:] for a in answers if a[1] != 200 and a not in typed])
        check("memory did run out", typed, good)
        check("the process is the same", ledger.process.poll() is None)
        hard = resource.prlimit(ledger.process.pid, resource.RLIMIT_AS)[1]
        resource.prlimit(ledger.process.pid, resource.RLIMIT_AS, (hard, hard))
        # A commit that failed, or an answer for which there was no memory, leaves it open.
        check("what was taken is there", supply_of(ledger) >= SIZE * good,
              (supply_of(ledger), good))
        go_on(ledger, [a[0] for a in typed])
    finish()


main()
