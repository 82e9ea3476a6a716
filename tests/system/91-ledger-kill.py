#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: nothing acknowledged is lost and nothing is applied twice, however the process dies.

Method: clients send transfers with keys of their own and write down every acknowledgement; the
ledger is killed with SIGKILL at a random moment, RON_KILLS times (200). After each start every
request of the last round is sent again: an acknowledged one must get the same bytes, one without an
answer is settled by this. At the end the balances must be those of the requests, each counted once,
and `ron-audit` (when it is built) must find the journal good.
"""
import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, finish  # noqa: E402
from ledgerkit import PROGRAM, Ledger, entry  # noqa: E402

KILLS = int(os.environ.get("RON_KILLS", "200"))
SEED = int(os.environ.get("RON_SEED", "0")) or random.SystemRandom().getrandbits(32)
ACCOUNTS = [f"t:k/u:{i}" for i in range(8)]
THREADS = 4
rng = random.Random(SEED)


class Client(threading.Thread):
    """Sends until the ledger is gone; remembers each request and, when it came, its answer."""

    def __init__(self, ledger, number):
        super().__init__()
        self.ledger, self.rng = ledger, random.Random(rng.getrandbits(64))
        self.number, self.sent = number, []

    def run(self):
        connection = self.ledger.connect()
        try:
            while True:
                debit, credit = self.rng.sample(ACCOUNTS, 2)
                batch = [entry("Transfer", debit, self.rng.randint(1, 5), to=credit)
                         for _ in range(self.rng.choice((1, 1, 1, 5, 40)))]
                body = json.dumps({"batch": batch, "idem_id": "k-" + batch[0]["id"]})
                self.sent.append([batch, body, None])
                status, _, data = self.ledger.ask("POST", "/ingest", body, connection=connection)
                if status == 200:
                    self.sent[-1][2] = data
                else:
                    return
        except (OSError, http.client.HTTPException):
            return


def settle(ledger, sent):
    """Sends everything again; what had an answer must get the same one."""
    connection = ledger.connect()
    different = []
    for request in sent:
        status, _, data = ledger.ask("POST", "/ingest", request[1], connection=connection)
        if status != 200 or (request[2] is not None and data != request[2]):
            different.append((request[2], status, data))
    return different


def main():
    print(f"seed {SEED}, {KILLS} kills")
    ledger = Ledger()
    check("fund", ledger.ingest(*[entry("Mint", a, 10 ** 9) for a in ACCOUNTS])[0] == 200)
    expected = {a: 10 ** 9 for a in ACCOUNTS}
    acknowledged = unanswered = rounds_bad = 0
    for _ in range(KILLS):
        clients = [Client(ledger, i) for i in range(THREADS)]
        for c in clients:
            c.start()
        time.sleep(rng.uniform(0.005, 0.12))  # the moment of death is the test's own choice
        ledger.kill()
        for c in clients:
            c.join()
        ledger.start()
        sent = [r for c in clients for r in c.sent]
        acknowledged += sum(r[2] is not None for r in sent)
        unanswered += sum(r[2] is None for r in sent)
        different = settle(ledger, sent)
        rounds_bad += not check_quietly(different)
        for batch, _, _ in sent:
            for e in batch:
                expected[e["account"]] -= int(e["amount"])
                expected[e["to"]] += int(e["amount"])
    check(f"{acknowledged} acknowledged requests kept, {unanswered} without answer settled",
          rounds_bad == 0 and acknowledged > KILLS, rounds_bad)
    found = {a: ledger.balance(a)[0] for a in ACCOUNTS}
    check("balances: every request counted once", found == expected, (found, expected))
    torn = sum("torn_bytes" in x and not '"torn_bytes":0' in x for x in ledger.lines)
    print(f"torn tails cut: {torn}")
    check("ends with 0", ledger.stop() == 0, ledger.lines[-5:])
    verify = subprocess.run([PROGRAM, "ledger", "verify", "--dir", str(ledger.data)],
                            capture_output=True, text=True)
    check("verify: good", verify.returncode == 0, verify.stdout + verify.stderr)
    audit = Path(PROGRAM).with_name("ron-audit")
    if audit.exists():
        judged = subprocess.run([str(audit), str(ledger.data)], capture_output=True, text=True)
        check("ron-audit: good", judged.returncode == 0, judged.stdout + judged.stderr)
    with ledger:
        ledger.start()
        check("starts once more", ledger.balance(ACCOUNTS[0])[0] == expected[ACCOUNTS[0]])
    finish()


def check_quietly(different):
    return not different or check("the same answers after a kill", False, different[:3])


main()
