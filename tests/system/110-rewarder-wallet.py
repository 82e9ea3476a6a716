#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a rewarder that settles through the wallet pays each payout once, also through a wallet
that is gone for a while and through a kill of its own.
Method: ledger, wallet and rewarder as processes; balances in the ledger against payouts computed in
Python."""
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from rewarderkit import Rewarder, policy, shares, snapshot  # noqa: E402
from walletkit import Wallet, new_ledger  # noqa: E402

ROWS = [(f"t:1/node-{i:03}", 1000 + i, i * 3, i % 7) for i in range(150)]


def paid(ledger, wanted):
    return {a: ledger.balance(a.replace("/", "%2F"))[0] for a in wanted} == wanted


def main(ledger, wallet):
    with Rewarder(ledger, "--settlement.retry=100ms", wallet=wallet) as r:
        wanted, _ = shares(ROWS, 10**9)
        status, m = r.compute("one", r.request(snapshot(ROWS, 10**9), policy()))
        check("a run is sealed", status == 200, m)
        done = r.settled("one")
        check("each payout is a request", done["batches"] == len(wanted) == done["intents"], done)
        check("and paid", paid(ledger, wanted), "")

        wallet.process.send_signal(signal.SIGSTOP)
        r.compute("two", r.request(snapshot(ROWS, 2 * 10**9), policy()))
        held = r.settled("two", "withheld")
        check("a wallet that does not answer withholds", held["state"] == "withheld", held)
        r.kill()
        wallet.process.send_signal(signal.SIGCONT)
        r.start()
        done = r.settled("two")
        twice = {a: x + y for (a, x), y in zip(wanted.items(),
                                               shares(ROWS, 2 * 10**9)[0].values())}
        check("the next life settles it", done["state"] == "emitted", done)
        check("and nobody is paid twice", paid(ledger, twice), "")

        fund = policy(id="policy:fund", funding_account="fund")
        r.compute("three", r.request(snapshot(ROWS[:3], 300), fund))
        held = r.settled("three", "withheld")
        check("an empty fund withholds", held["state"] == "withheld", held)
        check("the wallet fills it", wallet.issue("fund", 1000)[0] == 200, "")
        check("then it is paid", r.settled("three")["state"] == "emitted", "")
        check("out of the fund", eventually(lambda: ledger.balance("fund")[0] < 1000), "")


with new_ledger() as led, Wallet(led) as wal:
    main(led, wal)
finish()
