#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it measures deadlines.
"""Goal: the wallet finds its way back by itself, and strangers cannot shut it.

Method: the ledger stands still under many writers until the breaker is open, and goes on; from then
on nobody but writers comes. Clients with deadlines of a millisecond ask as often as they can. And
the ledger is replaced by an empty one behind a running wallet, which must forget the old one.
"""
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from walletkit import Wallet, new_ledger  # noqa: E402

OPEN = 'circuit_open_total{svc="ledger"}'
FAILED = 'upstream_fail_total{svc="ledger"}'


def writers_alone(ledger, wallet):
    """Nothing but writes, which are refused while the breaker is open, must not keep it so."""
    connections = [wallet.connect() for _ in range(40)]
    for c in connections:
        c.connect()
    os.kill(ledger.process.pid, signal.SIGSTOP)
    threads = [threading.Thread(target=lambda c=c: wallet.issue("a", 1, connection=c))
               for c in connections]
    for t in threads:
        t.start()
    opened = eventually(lambda: wallet.metrics()[OPEN] > 0, 20)
    os.kill(ledger.process.pid, signal.SIGCONT)
    for t in threads:
        t.join()
    check("the breaker has opened", opened)
    check("writes go through again", eventually(lambda: wallet.issue("a", 1)[0] == 200, 20))
    check("and it is ready", wallet.ready())


def short_deadlines(wallet):
    """What ends with the client's own deadline is not held against the ledger."""
    token = wallet.mint_token("wallet.read", "--account", "a")
    before = wallet.metrics()
    end = time.monotonic() + 3

    def ask():
        connection = wallet.connect()
        while time.monotonic() < end:
            wallet.ask("GET", "/v1/balance?account=a&consistency=strong", token=token,
                       connection=connection,
                       headers={"Deadline": str(int(time.time() * 1000) + 1)})

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    after = wallet.metrics()
    check("no failure is counted", after[FAILED] == before[FAILED], after[FAILED])
    check("writes go on", wallet.issue("a", 1)[0] == 200)


def another_journal(ledger, wallet):
    """Balances, nonces and receipts of the old ledger are not those of the new one."""
    wallet.issue("n", 100, key="first")
    for nonce in (1, 2):
        wallet.transfer("n", "m", 1, nonce=nonce)
    check("cached", wallet.balance("n", query="")[0] == 98)
    ledger.kill()
    shutil.rmtree(ledger.data)
    ledger.start()
    check("the other ledger is seen",
          eventually(lambda: any("journal replaced" in line for line in wallet.lines), 20))
    check("it is ready", wallet.ready())
    check("nothing is there", wallet.balance("n", query="")[0] == 0)
    status, receipt = wallet.issue("n", 100, key="first")
    check("a key is new", status == 200 and receipt["ledger_seq_end"] == 1, receipt)
    status, receipt = wallet.transfer("n", "m", 1, nonce=1)
    check("and nonces begin anew", status == 200, receipt)
    check("balances are the new ones", wallet.balance("n", query="")[0] == 99)


def main():
    with new_ledger() as ledger, Wallet(ledger) as wallet:
        writers_alone(ledger, wallet)
        short_deadlines(wallet)
        another_journal(ledger, wallet)
    finish()


main()
