#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a ledger under more load than it takes says so to everybody it turns away, loses nothing
that it accepted, and goes on; and it is stopped in the middle of load without loss.

Method: queues of one or two places and more clients than that. Every answer is 200, or 429 or 503
with a reason and, over HTTP, Retry-After; counters and answers must agree, and the balances must be
those of the accepted batches. A client of the binary front, packed by hand
(ledgeroap.py), sends batches and follows the commit events.
At last SIGTERM comes under load.
"""
import http.client
import json
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import Ledger, entry  # noqa: E402
from ledgeroap import APP, COMMIT, INGEST, Sender, batch, done  # noqa: E402
from oapkit import EVENT, FRAME_MAX, REQ, RESP, SUBSCRIBE, Peer, pack  # noqa: E402

ALICE, BOB = "t:load/u:alice", "t:load/u:bob"
CLIENTS, ROUNDS, FUND = 24, 60, 10 ** 9
BUSY = {429: {"busy"}, 503: {"busy", "draining"}}


class Client(threading.Thread):
    """Sends transfers of 1 until told to stop or the ledger is gone; keeps every request."""

    def __init__(self, ledger, over=None):
        super().__init__()
        self.ledger, self.over = ledger, over or threading.Event()
        self.answers, self.accepted, self.open = [], [], None

    def run(self):
        connection = self.ledger.connect()
        try:
            while not self.over.is_set():
                e = entry("Transfer", ALICE, 1, to=BOB)
                self.open = json.dumps({"batch": [e], "idem_id": "p-" + e["id"]})
                status, headers, data = self.ledger.ask("POST", "/ingest", self.open,
                                                        connection=connection)
                self.answers.append((status, headers.get("Retry-After"), json.loads(data)))
                if status == 200:
                    self.accepted.append((self.open, data))
                self.open = None
        except (OSError, http.client.HTTPException):
            return


def metrics(ledger):
    rows = {}
    for line in ledger.get("/metrics", token=None)[1].decode().splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            rows[name] = float(value)
    return rows


def untyped(answers):
    return [a for a in answers if a[0] != 200 and not (
        a[2].get("reason") in BUSY.get(a[0], ()) and a[2]["retryable"] and a[2].get("code")
        and a[1] is not None and int(a[1]) >= 0)]


def all_at_once(ledger, clients):
    """Holds the ledger until each of them has a request before it."""
    ledger.process.send_signal(signal.SIGSTOP)
    try:
        eventually(lambda: all(c.open for c in clients))
    finally:
        ledger.process.send_signal(signal.SIGCONT)


def burst(name, status, *options):
    """Clients in a crowd before narrow queues, until one was answered so, and one taken; what they
    were told, and the ledger's numbers."""
    with Ledger(*options) as ledger:
        check(f"{name}: fund", ledger.ingest(entry("Mint", ALICE, FUND))[0] == 200)
        over = threading.Event()
        clients = [Client(ledger, over) for _ in range(CLIENTS)]
        for c in clients:
            c.start()
        try:
            for _ in range(ROUNDS):
                all_at_once(ledger, clients)
                if eventually(lambda: {200, status} <= {
                        a[0] for c in clients for a in list(c.answers)}, 1):
                    break
        finally:
            over.set()
        for c in clients:
            c.join()
        answers = [a for c in clients for a in c.answers]
        good = sum(a[0] == 200 for a in answers)
        turned = len(answers) - good
        check(f"{name}: {good} accepted, {turned} turned away: each with type and Retry-After",
              good > 0 and not untyped(answers), untyped(answers)[:3])
        check(f"{name}: the balance is that of the accepted", ledger.balance(BOB)[0] == good,
              (ledger.balance(BOB), good))
        check(f"{name}: nobody waits any more", eventually(lambda: not any(
            metrics(ledger)[f'queue_depth{{queue="{q}"}}'] for q in
            ("ingress", "preval", "commit"))), metrics(ledger))
        rows = metrics(ledger)
        check(f"{name}: no task is lost", rows["tasks_leaked_total"] == 0, rows)
        status, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB))
        check(f"{name}: goes on", status == 200, body)
        return turned, rows, answers


def pressure():
    count = 'busy_rejections_total{endpoint="",queue="%s"}'
    turned, rows, answers = burst("narrow commit queue", 503, "--queues.commit=1")
    check("narrow commit queue: 503, counted for the queue", turned > 0
          and rows[count % "commit"] == sum(a[0] == 503 for a in answers)
          and {a[0] for a in answers} <= {200, 503},
          (turned, rows[count % "commit"], {a[0] for a in answers}))
    turned, rows, answers = burst("narrow preval queue", 429,
                                  "--queues.prevalidator=1", "--queues.commit=1")
    dropped = rows['drops_total{queue="preval"}']
    check("narrow preval queue: who was displaced is counted and told 429",
          dropped == sum(a[0] == 429 for a in answers) > 0, (dropped, turned))
    turned, rows, answers = burst("narrow ingress", 200, "--queues.ingress=1",
                                  "--concurrency.prevalidators=1")
    check("narrow ingress: 429 for each that was counted",
          rows[count % "ingress"] == sum(a[0] == 429 for a in answers), (turned, rows))
    turned, rows, answers = burst("few in flight", 429, "--limits.inflight=2")
    check("few in flight: 429", turned > 0 and {a[0] for a in answers} == {200, 429}
          and rows['busy_rejections_total{endpoint="/ingest",queue=""}'] == turned,
          (turned, [r for r in rows.items() if "busy" in r[0] and r[1]]))


# ---- the binary front ----------------------------------------------------------------------------


def binary_front():
    folder = tempfile.TemporaryDirectory(prefix="ron-oap-")
    path = Path(folder.name) / "oap" / "s"
    with folder, Ledger(f"--oap.addr=unix:{path}", "--oap.flow=32", folder=folder.name) as ledger:
        cap = ledger.token.encode()
        listener, sender = Sender(f"unix:{path}"), Sender(f"unix:{path}")
        listener.post(SUBSCRIBE, 1, json.dumps({"app": APP}).encode(), app=0)
        check("oap: subscribed", listener.next()[:2] == (RESP, 200))
        sender.post(INGEST, 1, batch([entry("Mint", ALICE, FUND)]), cap=cap)
        answer = sender.next()
        check("oap: a binary batch is durable", answer[:5] == (RESP, 200, APP, 0, 1)
              and done(answer)[:4] == (1, 0, 1, 1), answer)
        works = [batch([entry("Transfer", ALICE, 1, to=BOB) for _ in range(100)], f"o-{n}")
                 for n in range(30)]
        for n, work in enumerate(works):
            sender.post(INGEST, 100 + n, work, cap=cap)
        answers = sorted((sender.next() for _ in works), key=lambda a: a.corr)
        check("oap: thirty batches on their way at once, all durable",
              [a.corr for a in answers] == list(range(100, 130))
              and all(a.code == 200 for a in answers), [a[:5] for a in answers])
        sender.post(INGEST, 7, works[3], cap=cap)
        again = sender.next()
        check("oap: a repetition gets the same, marked", done(again) ==
              (1, 1, *done(answers[3])[2:]), (again, answers[3]))
        outcome = ledger.get("/outcome/o-3")[1]
        check("oap: the time of the commit is the one that the ledger tells later",
              done(again)[5] == outcome["ts"] and done(again)[4].hex() == outcome["new_root"],
              (done(again), outcome))
        refusals(ledger, sender, cap)
        large = Peer(f"unix:{path}")
        large.send(pack(REQ, INGEST, APP, corr=60, length=FRAME_MAX + 1))
        answer = large.next()
        check("oap: a frame above 1 MiB is refused and the connection closed",
              json.loads(answer.payload)["reason"] == "frame_oversize"
              and large.next() is None, answer)
        head = ledger.admin("GET", "/status")[1]
        events = [listener.next()]
        while json.loads(events[-1].payload)["seq"] < head["seq"]:
            events.append(listener.next())
        rows = [json.loads(e.payload) for e in events]
        seqs = [r["seq"] for r in rows]
        roots = {r["seq"]: r["root"] for r in
                 ledger.get("/roots?since=0&limit=1000")[1]["roots"]}
        check(f"oap: {len(events)} commit events, in order, with the roots that were published",
              all(e[:3] == (EVENT, COMMIT, APP) for e in events) and seqs == sorted(set(seqs))
              and all(roots[r["seq"]] == r["root"] for r in rows)
              and rows[-1]["root"] == head["root"], (rows[-3:], head))
        check("oap: balances", ledger.balance(BOB)[0] == 3000, ledger.balance(BOB))


def refusals(ledger, sender, cap):
    good = batch([entry("Transfer", ALICE, 1, to=BOB)])
    broken = bytearray(good)
    broken[1] = 9
    for name, payload, token, status, reason in (
        ("no capability", good, b"", 401, "unauth"),
        ("a broken capability", good, cap[:-6] + b"AAAAAA", 401, "unauth"),
        ("half a batch", good[:-9], cap, 400, "invalid"),
        ("bytes behind it", good + b"x", cap, 400, "invalid"),
        ("unknown version", bytes(broken), cap, 400, "invalid"),
        ("no entry", batch([]), cap, 400, "invalid"),
        ("more than there is", batch([entry("Transfer", BOB, FUND, to=ALICE)]), cap, 409,
         "insufficient_funds"),
    ):
        sender.post(INGEST, 50, payload, cap=token)
        answer = sender.next()
        body = json.loads(answer.payload)
        check(f"oap: {name}: {status} {reason}", answer.code == status and body["reason"] == reason
              and body["accepted"] is False, answer)
    sender.post(99, 51, b"", cap=cap)
    check("oap: unknown code", sender.next().code == 404)
    before = ledger.balance(BOB)
    sender.post(INGEST, 52, batch([entry("Transfer", ALICE, 1, to=BOB)], flags=1), cap=cap)
    answer = sender.next()
    check("oap: dry run changes nothing", answer.code == 200 and done(answer)[:4] == (2, 0, 0, 0)
          and done(answer)[5] == 0 and ledger.balance(BOB) == before, answer)


# ---- the end under load --------------------------------------------------------------------------

def stopped_under_load():
    ledger = Ledger("--engine.segment_bytes=256KiB")
    check("stop: fund", ledger.ingest(entry("Mint", ALICE, FUND))[0] == 200)
    rounds, accepted, unanswered = 4, [], []
    for number in range(rounds):
        clients = [Client(ledger) for _ in range(8)]
        for c in clients:
            c.start()
        while sum(len(c.accepted) for c in clients) < 20 + 20 * number:
            time.sleep(0.001)  # the moment is the test's own choice
        code = ledger.stop()
        for c in clients:
            c.join()
        answers = [a for c in clients for a in c.answers]
        check(f"stop {number}: exit 0 with {len(answers)} answers, each typed", code == 0
              and not untyped(answers), (code, untyped(answers)[:3], ledger.lines[-5:]))
        accepted += [a for c in clients for a in c.accepted]
        unanswered += [c.open for c in clients if c.open]
        ledger.start()
    with ledger:
        connection = ledger.connect()
        differ = [a for a in accepted if ledger.ask("POST", "/ingest", a[0],
                                                    connection=connection)[2] != a[1]]
        check(f"stop: {len(accepted)} accepted batches are there, with the same answers",
              not differ, differ[:2])
        committed = sum(ledger.get("/outcome/" + json.loads(u)["idem_id"])[1]["outcome"]
                        == "committed" for u in unanswered)
        check("stop: nothing else happened", ledger.balance(BOB)[0] == len(accepted) + committed,
              (ledger.balance(BOB), len(accepted), committed))
        print(f"without answer: {len(unanswered)}, of them committed: {committed}")


def main():
    pressure()
    binary_front()
    stopped_under_load()
    finish()


main()
