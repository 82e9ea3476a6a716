#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it measures deadlines.
"""Goal: every route of the wallet that needs the ledger answers at its deadline, the wallet's own
or the client's when that is sooner, within a tenth of it, and says TIMEOUT; what it began happens
once or not at all.

Method: the ledger stands still. All routes are asked at the same time, each on a connection of its
own, and timed from outside. None may answer early; who answers late may try twice more, because the
machine may be busy.
"""
import json
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from walletkit import Wallet, new_key, new_ledger  # noqa: E402

OWN_S, ROUNDS, TENTH = 2.0, 3, 1.1
ALICE, BOB = "t:late/a", "t:late/b"


def routes(txid):
    """name: (method, path, body)."""
    money = {"asset": "roc", "amount_minor": "1"}
    move = {"from": ALICE, "to": BOB, **money}
    return {
        "issue": ("POST", "/v1/issue", {"to": BOB, **money}),
        "transfer": ("POST", "/v1/transfer", move),
        "burn": ("POST", "/v1/burn", {"from": ALICE, **money}),
        "hold": ("POST", "/v1/hold", {"from": ALICE, **money}),
        "batch": ("POST", "/v1/batch", {"operations": [{"op": "transfer", **move}]}),
        "dry run": ("POST", "/v1/transfer?dry_run=true", move),
        "balance": ("GET", f"/v1/balance?account={ALICE}&consistency=strong", None),
        "history": ("GET", f"/v1/accounts/{ALICE}/history", None),
        "tx": ("GET", f"/v1/tx/{txid}", None),
        "receipt": ("GET", f"/v1/receipts/{txid}", None),
        "outcome": ("GET", f"/v1/outcome/x?op=transfer&account={ALICE}", None),
    }


class Ask(threading.Thread):
    def __init__(self, wallet, name, method, path, body, headers):
        super().__init__()
        self.wallet, self.name_of, self.answer, self.took = wallet, name, None, 0.0
        self.key = new_key("late")
        self.request = (method, path, None if body is None else json.dumps(body))
        self.headers = {**headers, **({"Idempotency-Key": self.key} if body is not None else {})}
        self.connection = wallet.connect()
        self.connection.connect()

    def run(self):
        began = time.monotonic()
        status, headers, data = self.wallet.ask(*self.request, headers=self.headers,
                                                connection=self.connection)
        self.took = time.monotonic() - began
        self.answer = (status, json.loads(data), headers.get("Retry-After"))


def one_round(wallet, all_routes, headers):
    asks = [Ask(wallet, name, *what, headers) for name, what in all_routes.items()]
    wallet.ledger.process.send_signal(signal.SIGSTOP)
    try:
        for a in asks:
            a.start()
        for a in asks:
            a.join()
    finally:
        wallet.ledger.process.send_signal(signal.SIGCONT)
    check("ready again", wallet.ready())
    return asks


def deadline(wallet, name, seconds, txid, headers):
    left, late, everybody = routes(txid), {}, []
    for _ in range(ROUNDS):
        asks = one_round(wallet, left, headers)
        everybody += asks
        late = {}
        for a in asks:
            status, body, again = a.answer
            check(f"{name}: {a.name_of}: 503 TIMEOUT, retryable, with Retry-After",
                  (status, body["code"], body["retryable"]) == (503, "TIMEOUT", True) and again,
                  a.answer)
            check(f"{name}: {a.name_of}: not before its time", a.took >= 0.98 * seconds, a.took)
            if a.took > TENTH * seconds:
                late[a.name_of] = a.took
        left = {n: w for n, w in left.items() if n in late}
        if not left:
            break
    check(f"{name}: all within a tenth of {seconds} s", not late, late)
    return everybody


def settle(wallet, asks):
    """The same requests once more: done once, whatever became of them before."""
    before = wallet.ledger.admin("GET", "/status")[1]["seq"]
    for a in asks:
        if "Idempotency-Key" not in a.headers or "dry_run" in a.request[1]:
            continue
        answers = []
        check(f"{a.name_of}: sent again it is done", eventually(lambda a=a, answers=answers: (
            answers.append(wallet.ask(*a.request, headers={"Idempotency-Key": a.key})) or
            answers[-1][0] == 200)), answers[-1:])
        same = wallet.ask(*a.request, headers={"Idempotency-Key": a.key})
        check(f"{a.name_of}: and once", same[2] == answers[-1][2], (same, answers[-1]))
    print(f"{wallet.ledger.admin('GET', '/status')[1]['seq'] - before} were done only now")


def main():
    with new_ledger() as ledger:
        # The stall is seen late and a call may take long, so that nothing but the deadline ends it.
        with Wallet(ledger, f"--timeouts.request={int(OWN_S)}s", "--timeouts.rpc=5s",
                    "--upstreams.ledger_stall=10s",
                    "--circuit_breaker.failure_threshold=1000") as wallet:
            wallet.issue(ALICE, 1000)
            txid = wallet.issue(BOB, 1)[1]["txid"]
            asks = deadline(wallet, "the wallet's", OWN_S, txid, {})
            asks += deadline(wallet, "the client's", 1.0, txid, {"Request-Timeout": "1"})
            settle(wallet, asks)
            paid = sum("/v1/transfer" == a.request[1] or "/v1/batch" == a.request[1] for a in asks)
            issued = sum("/v1/issue" == a.request[1] for a in asks)
            check("balances: each once", wallet.balance(BOB)[0] == 1 + paid + issued,
                  (wallet.balance(BOB), paid, issued))
    finish()


main()
