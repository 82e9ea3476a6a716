#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it kills workers under load and measures.
"""Goal: workers of the wallet that die under load are started again, and what a dying worker held
is neither lost nor done twice: every payment gets its answer, and each receipt is in the ledger
once.

Method: ron_faulty, in which a worker's turn ends with a failure as often as this test says by files
(nothing in the wallet can make it fail otherwise). Payers send all the time and repeat what got no
word. All workers die together, five times; then one dies once too often and the wallet ends; and
one dies just before a drain.
"""
import http.client
import json
import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from walletkit import Wallet, new_key, new_ledger, receipt_good  # noqa: E402

WORKERS = ("worker-0", "worker-1")
PAYERS = 8
ROUNDS = 5  # restarts in a minute that are no reason to leave a task down
BANK = "t:w/bank"


class Faulty(Wallet):
    program = str(Path(os.environ["RON_BUILD_DIR"]) / "tests" / "ron_faulty")

    def __init__(self, ledger, *options):
        self.faults = ledger.folder / "faults"
        self.faults.mkdir(exist_ok=True)
        self.environment = {**os.environ, "RON_FAULTY_SITE": "turn",
                            "RON_FAULTY_DIR": str(self.faults)}
        super().__init__(ledger, "--wallet.workers=2", *options)

    def doom(self, task):
        (self.faults / f"{task}.0").touch()

    def doomed(self):
        return any(self.faults.iterdir())

    def restarts(self, task):
        return self.metrics().get(f'service_restarts_total{{task="{task}"}}', 0)


class Payer(threading.Thread):
    """Pays one by one, each until the word is definite."""

    def __init__(self, wallet, number):
        super().__init__()
        self.wallet, self.to = wallet, f"t:w/payee:{number}"
        self.receipts, self.refused, self.again = [], [], 0
        self.ending = threading.Event()

    def run(self):
        connection = None
        while not self.ending.is_set():
            key = new_key("p")
            while True:
                try:
                    connection = connection or self.wallet.connect()
                    status, _, data = self.wallet.post("transfer", key=key, from_=BANK, to=self.to,
                                                       amount_minor="1", connection=connection)
                except (OSError, http.client.HTTPException):
                    connection = None
                    status, data = 0, b'{"retryable":true}'
                if status == 200:
                    self.receipts.append((key, data))
                elif json.loads(data)["retryable"]:
                    self.again += 1
                    self.ending.wait(0.005)  # also while it ends: this one is brought to its end
                    continue
                else:
                    self.refused.append(data)
                break


class Crowd:
    def __init__(self, wallet):
        self.wallet = wallet
        self.payers = [Payer(wallet, i) for i in range(PAYERS)]

    def paid(self):
        return sum(len(p.receipts) for p in self.payers)

    def goes_on(self, name, more=50):
        before = self.paid()
        check(f"{name}: payments go on", eventually(lambda: self.paid() > before + more, 40),
              self.paid() - before)

    def __enter__(self):
        for p in self.payers:
            p.start()
        return self

    def __exit__(self, *_):
        for p in self.payers:
            p.ending.set()
        for p in self.payers:
            p.join()


def reckon(wallet, crowds):
    receipts = [r for c in crowds for p in c.payers for r in p.receipts]
    refused = [r for c in crowds for p in c.payers for r in p.refused]
    again = sum(p.again for c in crowds for p in c.payers)
    check(f"{len(receipts)} payments, {again} repetitions: none was refused for good", not refused
          and len(receipts) > 200, refused[:3])
    rows = [json.loads(x) for x in wallet.ledger.ask("GET", "/export")[2].splitlines()]
    entries = {e["id"]: e for r in rows if r["type"] == "batch" for e in r["batch"]
               if e["kind"] == "Transfer"}
    names = [json.loads(data)["txid"] for _, data in receipts]
    check("each receipt is in the ledger, and nothing else is", len(names) == len(set(names))
          and set(names) == entries.keys() and all(receipt_good(d) for _, d in receipts),
          (len(names), len(entries)))
    found = sum(wallet.ledger.balance(f"t:w/payee:{i}")[0] for i in range(PAYERS))
    check("balances: each once", found == len(receipts), (found, len(receipts)))
    m = wallet.metrics()
    check("nothing is under way", eventually(lambda: wallet.metrics()["worker_inflight"] == 0), m)
    check("no task is lost", m.get("tasks_leaked_total", 0) == 0
          and m['tasks_aborted_total{kind="worker"}'] == 0, m)


def all_of_them(wallet):
    with Crowd(wallet) as crowd:
        crowd.goes_on("all workers, before")
        for number in range(1, ROUNDS + 1):
            for task in WORKERS:
                wallet.doom(task)
            check(f"all workers: death {number} came under load", eventually(
                lambda: not wallet.doomed()))
            check(f"all workers: started again, {number}", eventually(
                lambda: all(wallet.restarts(t) == number for t in WORKERS)), wallet.lines[-3:])
            crowd.goes_on(f"all workers, after death {number}")
    check("all workers: ready, and not degraded", eventually(
        lambda: not wallet.get("/readyz", token=None)[1]["degraded"]))
    return crowd


def one_for_good(wallet):
    """Too many deaths in a minute: nobody else can take up what it holds, so the wallet ends, and
    its next life asks the ledger."""
    with Crowd(wallet) as crowd:

        def over():
            if not wallet.doomed():
                wallet.doom(WORKERS[0])
            return wallet.process.poll() is not None

        check("for good: too many deaths, and the wallet ends", eventually(over, 60))
        code = wallet.process.wait()
        wallet.reader.join()
        check("for good: with 3, and says why", code == 3 and any(
            "essential task" in x for x in wallet.lines), (code, wallet.lines[-5:]))
        for file in wallet.faults.iterdir():
            file.unlink()
        wallet.start()
        check("for good: ready again", wallet.ready())
        crowd.goes_on("for good: the next life")
    return crowd


def before_a_drain(wallet):
    """A worker that is down when the drain begins: what it holds is answered, too."""
    with Crowd(wallet) as crowd:
        crowd.goes_on("drain, before")
        wallet.doom(WORKERS[0])
        check("drain: a death", eventually(lambda: not wallet.doomed()))
        code = wallet.stop()
        check("drain: ends with 0", code == 0, (code, wallet.lines[-5:]))
        wallet.start()
        check("drain: ready again", wallet.ready())
        crowd.goes_on("drain, after")
    return crowd


def main():
    with new_ledger() as ledger:
        with Faulty(ledger) as wallet:
            wallet.issue(BANK, 10 ** 9)
            crowds = [all_of_them(wallet)]
            reckon(wallet, crowds)
            crowds.append(one_for_good(wallet))
            reckon(wallet, crowds)
            crowds.append(before_a_drain(wallet))
            reckon(wallet, crowds)
    finish()


main()
