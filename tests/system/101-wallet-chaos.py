#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it loads every core and measures deadlines.
"""Goal: whatever happens to the wallet or to its ledger, no payment is lost and none is made twice,
and clients are told in time.

Method: payers send operations of every kind. One that gets no word, or one that may come again,
sends the same request with the same key until the word is definite, and writes it down. Meanwhile
the ledger is stalled and killed, and the wallet killed and drained. In the end each receipt must
be in the ledger's export at its seq, nothing else may be there, every request again must give the
same bytes, and the balances must be those of the receipts. RON_SEED repeats a run's choices.
"""
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import PROGRAM  # noqa: E402
from walletkit import Wallet, new_key, new_ledger, receipt_good  # noqa: E402

SEED = int(os.environ.get("RON_SEED", "0")) or random.SystemRandom().getrandbits(32)
SHARED = [f"t:c/shared:{i}" for i in range(4)]
PAYERS = 8
KINDS = {"issue": "Mint", "transfer": "Transfer", "burn": "Burn", "hold": "Hold",
         "capture": "Capture", "release": "Release"}
rng = random.Random(SEED)


class Payer(threading.Thread):
    """Pays until it is told to end; the last payment is brought to its end, too."""

    def __init__(self, wallet, number):
        super().__init__()
        self.wallet, self.number = wallet, number
        self.rng = random.Random(rng.getrandbits(64))
        self.own = f"t:c/own:{number}"
        self.nonce = 0
        self.holds = []
        self.done = []  # [path, key, body, receipt or None]
        self.unknown = self.receipts = 0
        self.codes = {}
        self.ending = threading.Event()
        self.abandoned = False  # the test has failed, and nobody may ever answer
        self.connection = None

    def once(self, path, key, body):
        """(status, bytes), or None when there was no answer."""
        try:
            if self.connection is None:
                self.connection = self.wallet.connect()
            status, _, data = self.wallet.ask("POST", path, body, connection=self.connection,
                                              headers={"Idempotency-Key": key})
            return status, data
        except (OSError, http.client.HTTPException):
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            return None

    def until_definite(self, path, key, body):
        """The receipt, or None when it was refused for good."""
        while not self.abandoned:
            got = self.once(path, key, body)
            if got is None:
                self.unknown += 1
                self.ending.wait(0.01)  # nobody is there; a client that spins helps nobody
                continue
            if got[0] == 200:
                self.receipts += 1
                return got[1]
            word = json.loads(got[1])
            self.codes[word["code"]] = self.codes.get(word["code"], 0) + 1
            if not word["retryable"]:
                return None
            self.unknown += word["code"] == "TIMEOUT"
            self.ending.wait(0.01)
        return None

    def choose(self):
        amount = {"amount_minor": str(self.rng.randint(1, 9))}
        pick = self.rng.random()
        if pick < 0.1:
            return "issue", {"to": self.rng.choice(SHARED), **amount}
        if pick < 0.2:
            return "burn", {"from": self.rng.choice(SHARED), **amount}
        if pick < 0.5:
            pair = self.rng.sample(SHARED, 2)
            return "transfer", {"from": pair[0], "to": pair[1], **amount}
        if pick < 0.7:
            return "transfer", {"from": self.own, "to": self.rng.choice(SHARED),
                                "nonce": self.nonce + 1, **amount}
        if pick < 0.8:
            return "hold", {"from": self.own, "amount_minor": "10"}
        if pick < 0.9 and self.holds:
            op = self.rng.choice(("capture", "release"))
            to = {"to": self.rng.choice(SHARED)} if op == "capture" else {}
            return op, {"hold": self.holds.pop(), "from": self.own, **to, "amount_minor": "10"}
        return "batch", {"operations": [
            {"op": "transfer", "from": a, "to": b, "amount_minor": "1"}
            for a, b in (self.rng.sample(SHARED, 2) for _ in range(5))]}

    def run(self):
        while not self.ending.is_set():
            op, body = self.choose()
            request = [f"/v1/{op}", new_key("c"), json.dumps(body), None]
            self.done.append(request)
            request[3] = self.until_definite(*request[:3])
            if request[3] is not None and "nonce" in body:
                self.nonce += 1
            if request[3] is not None and op == "hold":
                self.holds.append(json.loads(request[3])["txid"])


class Crowd:
    """Payers for the length of a `with`."""

    everyone = []

    def __init__(self, wallet):
        self.payers = [Payer(wallet, len(Crowd.everyone) + i) for i in range(PAYERS)]
        Crowd.everyone += self.payers
        for p in self.payers:
            wallet.issue(p.own, 10 ** 6)

    def receipts(self):
        return sum(p.receipts for p in self.payers)

    def goes_on(self, name, more=100, seconds=30):
        """They get more receipts."""
        before = self.receipts()
        check(f"{name}: payments go on", eventually(
            lambda: self.receipts() > before + more, seconds), self.receipts() - before)

    def __enter__(self):
        for p in self.payers:
            p.start()
        return self

    def __exit__(self, kind, *_):
        for p in self.payers:
            p.abandoned = kind is not None
            p.ending.set()
        for p in self.payers:
            p.join()


# ---- what happens --------------------------------------------------------------------------------

def stall(wallet):
    """The ledger stands still for two seconds."""
    account = SHARED[0]
    path = f"/v1/balance?account={account}"
    with Crowd(wallet) as crowd:
        crowd.goes_on("before a stall")
        wallet.get(path)
        wallet.ledger.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        check("stall: readyz says 503", wallet.ready(False))
        print(f"stall: seen after {time.monotonic() - began:.2f} s")
        _, body = wallet.get("/readyz", token=None)
        check("stall: and that it is the ledger", body["missing"] == ["ledger"]
              and "ledger" in body["causes"], body)
        got, body = wallet.get("/readyz?class=read", token=None)
        check("stall: reads may still come here", got == 200 and body["ready"], (got, body))
        got, headers, data = wallet.post("issue", to=account, amount_minor="1")
        check("stall: a write is refused untried, with a time to come again", got == 503
              and json.loads(data)["code"] == "UPSTREAM_UNAVAILABLE" and headers["Retry-After"],
              (got, data))
        ages = []

        def age():
            got, b = wallet.get(path)
            ages.append((got, b.get("stale_ms")))
            return got == 200 and ages[-1][1] > ages[0][1]

        check("stall: a balance is told, with its growing age", eventually(age)
              and {g for g, _ in ages} == {200} and ages[0][1] > 250, ages[-3:])
        got, b = wallet.get(path + "&consistency=strong")
        check("stall: a strong read is refused", got == 503, (got, b))
        eventually(lambda: time.monotonic() > began + 2)
        wallet.ledger.process.send_signal(signal.SIGCONT)
        check("stall: ready again", wallet.ready(), wallet.lines[-5:])
        crowd.goes_on("after a stall")
    check("stall: the queue is empty and nothing is under way", eventually(
        lambda: wallet.metrics()['queue_depth{queue="work"}'] == 0
        and wallet.metrics()["worker_inflight"] == 0), wallet.metrics())
    m = wallet.metrics()
    check("stall: counted", m['io_timeouts_total{op="ledger_rpc",peer="ledger"}'] > 0
          and m['upstream_fail_total{svc="ledger"}'] > 0
          and sum(v for k, v in m.items() if k.startswith("backoff_retries_total")) > 0,
          {k: v for k, v in m.items() if "timeouts" in k or "upstream" in k or "backoff" in k})
    check("stall: balances are fresh again", eventually(
        lambda: wallet.get(path)[1]["stale_ms"] <= 250), wallet.get(path))


def kill_ledger(wallet):
    with Crowd(wallet) as crowd:
        for i in range(3):
            crowd.goes_on(f"ledger, kill {i}", more=rng.randint(20, 200))
            wallet.ledger.kill()
            wallet.ledger.start()
        check("ledger killed: ready again", wallet.ready(), wallet.lines[-5:])
        crowd.goes_on("ledger, after kills")


def kill_wallet(wallet):
    with Crowd(wallet) as crowd:
        for i in range(5):
            crowd.goes_on(f"wallet, kill {i}", more=rng.randint(20, 200))
            wallet.kill()
            wallet.start()
        check("wallet killed: ready again", wallet.ready(), wallet.lines[-5:])
        crowd.goes_on("wallet, after kills")


def drain_wallet(wallet):
    with Crowd(wallet) as crowd:
        for i in range(2):
            crowd.goes_on(f"wallet, drain {i}", more=50)
            code = wallet.stop()
            check("drain under load: ends with 0, which means in time", code == 0, code)
            aborted = [x for x in wallet.lines if "abort" in x]
            check("drain under load: nothing was cut off", not aborted, aborted)
            wallet.start()
        crowd.goes_on("wallet, after drains")


# ---- more than fits ------------------------------------------------------------------------------

def raw_requests(wallet, count, account):
    head = (f"POST /v1/issue HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer {wallet.token}\r\n"
            "Content-Type: application/json\r\n")
    for _ in range(count):
        body = json.dumps({"to": account, "amount_minor": "1", "idempotency_key": new_key("o")})
        yield f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def crowd_of_sockets(wallet, requests, between):
    """Sends each request on a connection of its own; `between` runs when all are sent. (status,
    headers, body) of each."""
    host, port = wallet.addr.rsplit(":", 1)
    sockets = [socket.create_connection((host, int(port)), 30) for _ in requests]
    for s, r in zip(sockets, requests):
        s.sendall(r)
    between(sockets)
    answers = []
    for s in sockets:
        r = http.client.HTTPResponse(s)
        r.begin()
        answers.append((r.status, r.headers, json.loads(r.read())))
        s.close()
    return answers


def overload(ledger):
    """More than the wallet takes: the rest is refused at once, and what was taken is done."""
    with Wallet(ledger, "--limits.inflight=64", "--upstreams.ledger_stall=10s",
                "--timeouts.rpc=5s", "--timeouts.request=60s") as wallet:
        requests = list(raw_requests(wallet, 256, "t:c/over"))

        def while_it_stands(sockets):
            # The ledger is still: 64 are under way, the others have their answers already.
            early = eventually(lambda: sum(has_bytes(s) for s in sockets) >= 256 - 64)
            check("overload: whoever does not fit is told at once", early)
            ledger.process.send_signal(signal.SIGCONT)

        ledger.process.send_signal(signal.SIGSTOP)
        answers = crowd_of_sockets(wallet, requests, while_it_stands)
        good = [a for a in answers if a[0] == 200]
        busy = [a for a in answers if a[0] == 429]
        check("overload: taken or 429 with a time to come again", len(good) + len(busy) == 256
              and len(busy) >= 256 - 64 and all(a[1]["Retry-After"] and a[2]["retryable"]
                                                for a in busy), (len(good), len(busy)))
        check("overload: what was taken is done, and nothing else", wallet.balance("t:c/over")
              == (len(good), 0), (wallet.balance("t:c/over"), len(good)))


def has_bytes(s):
    s.setblocking(False)
    try:
        return bool(s.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        s.settimeout(30)


def full_queue(ledger):
    """A queue of one place and one processor: what comes while it is taken is refused."""
    first = sorted(os.sched_getaffinity(0))[0]
    with Wallet(ledger, "--queues.work=1", prefix=("taskset", "-c", str(first))) as wallet:
        requests = list(raw_requests(wallet, 64, "t:c/queue"))
        wallet.process.send_signal(signal.SIGSTOP)  # so that all of them come at once
        answers = crowd_of_sockets(wallet, requests,
                                   lambda _: wallet.process.send_signal(signal.SIGCONT))
        good = [a for a in answers if a[0] == 200]
        busy = [a for a in answers if a[0] == 429 and a[2]["code"] == "BUSY"]
        m = wallet.metrics()
        counts = [m[f"busy_rejections_total{labels}"] for labels in (
            '{endpoint="/v1/issue",queue=""}', '{endpoint="",queue="work"}')]
        check("full queue: 429, nothing enqueued, counted", len(good) + len(busy) == 64
              and len(busy) > 0 and counts == [len(busy)] * 2
              and m['rejected_total{reason="busy"}'] == len(busy)
              and wallet.balance("t:c/queue") == (len(good), 0), (len(good), len(busy), counts))


# ---- the reckoning -------------------------------------------------------------------------------

def operations(request):
    """What a request asks for, as (op, body)."""
    path, _, body, _ = request
    body = json.loads(body)
    op = path.rpartition("/")[2]
    return [(o["op"], o) for o in body["operations"]] if op == "batch" else [(op, body)]


def apply(balances, op, o):
    amount = int(o["amount_minor"])
    for account, by in ((o.get("from"), {"transfer": -1, "burn": -1, "hold": -1, "release": 1}),
                        (o.get("to"), {"transfer": 1, "issue": 1, "capture": 1})):
        if account is not None:
            balances[account] = balances.get(account, 0) + amount * by.get(op, 0)


def reckon(wallet):
    requests = [r for p in Crowd.everyone for r in p.done]
    kept = [r for r in requests if r[3] is not None]
    entries = {e["id"]: e for e in export(wallet.ledger)}
    wrong, count, balances = [], 0, {p.own: 10 ** 6 for p in Crowd.everyone}
    for s in SHARED:
        balances[s] = 10 ** 5
    for request in kept:
        answer = json.loads(request[3])
        for (op, o), r in zip(operations(request), answer.get("receipts", [answer])):
            e = entries.get(r["txid"])
            count += 1
            apply(balances, op, o)
            account = o.get("from", o.get("to"))
            wanted = (r["ledger_seq_start"], KINDS[op], o["amount_minor"], account)
            if (e is None or (e["seq"], e["kind"], e["amount"], e["account"]) != wanted
                    or not receipt_good(json.dumps(r, separators=(",", ":")).encode())):
                wrong.append((r, e))
    check(f"{len(kept)} receipts of {len(requests)} requests: each in the ledger at its seq",
          not wrong and len(kept) > 1000, (len(kept), wrong[:3]))
    others = len(entries) - count
    check("nothing else is in the ledger", others == len(Crowd.everyone) + len(SHARED),
          (others, len(Crowd.everyone)))
    different = []
    connection = wallet.connect()
    for path, key, body, data in rng.sample(kept, min(len(kept), 1500)):
        got = wallet.ask("POST", path, body, headers={"Idempotency-Key": key},
                         connection=connection)
        if got[0] != 200 or got[2] != data:
            different.append((got[0], got[2], data))
    check("sent again: the same bytes", not different, different[:2])
    found = {a: wallet.ledger.balance(a)[0] for a in balances}
    check("balances: each receipt counted once", found == balances, [
        (a, found[a], balances[a]) for a in balances if found[a] != balances[a]])
    print(f"without a word: {sum(p.unknown for p in Crowd.everyone)}")
    codes = {}
    for p in Crowd.everyone:
        for code, n in p.codes.items():
            codes[code] = codes.get(code, 0) + n
    print(f"refusals: {codes}")
    check("refusals: only those that were to be expected", codes.keys() <= {
        "UPSTREAM_UNAVAILABLE", "TIMEOUT", "IN_PROGRESS", "INSUFFICIENT_FUNDS", "DRAINING", "BUSY",
        "NOT_FOUND", "NONCE_CONFLICT", "BACKPRESSURE"}, codes)


def export(ledger):
    status, _, data = ledger.ask("GET", "/export")
    rows = [json.loads(line) for line in data.splitlines()]
    check("export: whole", status == 200 and rows[-1]["type"] == "end", rows[-1:])
    return [{**e, "seq": r["seq"] + i} for r in rows if r["type"] == "batch"
            for i, e in enumerate(r["batch"])]


def main():
    print(f"seed {SEED}")
    with new_ledger() as ledger:
        with Wallet(ledger) as wallet:
            for a in SHARED:
                wallet.issue(a, 10 ** 5)
            stall(wallet)
            kill_ledger(wallet)
            kill_wallet(wallet)
            drain_wallet(wallet)
            wallet.ready()
            reckon(wallet)
        overload(ledger)
        full_queue(ledger)
        ledger.stop()
        judged = subprocess.run([str(Path(PROGRAM).with_name("ron-audit")), str(ledger.data)],
                                capture_output=True, text=True)
        check("ron-audit: the journal is good", judged.returncode == 0, judged.stdout)
    finish()


main()
