#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The mailbox in PostgreSQL: nothing that was acknowledged is lost and nothing is applied twice,
whoever dies.

Method: senders and a consumer at work over HTTP while the bridge is killed (SIGKILL) and the
database is ended without a shutdown and started again, in turn. Senders keep their key when they
try again. In the end every message that a sender was promised was received, once per key, and none
after its acknowledgement was confirmed. Before that: a second bridge on the same tables is refused;
with the database away requests get a retryable error and /readyz says so; both end by themselves.
"""
import http.client
import json
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pgserver  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from interopkit import Interop  # noqa: E402

SENDERS = 4
ROUNDS = 3  # of a kill and a restart of the database
ROUND_S = 1.5


def post(svc, path, body, client=None):
    """(status, JSON), or (0, None) when there was no answer."""
    if svc.addr is None:  # between two lives
        return 0, None
    try:
        a = svc.call("POST", path, json.dumps(body), client=client)
        return a.status, a.json
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None


class Sender(threading.Thread):
    """Each message until it is accepted, always under its own key."""

    def __init__(self, svc, name, stop):
        super().__init__()
        self.svc, self.label, self.stop = svc, name, stop
        self.accepted, self.tries, self.refusals, self.wrong = [], 0, set(), []

    def run(self):
        n = 0
        while not self.stop.is_set():
            body = f"{self.label}-{n}"
            n += 1
            while True:
                self.tries += 1
                status, answer = post(self.svc, "/mailbox/load/send",
                                      {"messages": [{"body": body}], "key": body})
                if status == 200:
                    self.accepted.append(body)
                    break
                if status != 0:
                    self.refusals.add((status, answer["code"]))
                    if not answer["retryable"]:
                        self.wrong.append(answer)
                time.sleep(0.02)


class Consumer(threading.Thread):
    """Receives and acknowledges; what was confirmed must not come again."""

    def __init__(self, svc, done):
        super().__init__()
        self.svc, self.done = svc, done
        self.ids, self.confirmed, self.again = {}, set(), []

    def turn(self):
        status, answer = post(self.svc, "/mailbox/load/recv", {"max": 200, "visibility_ms": 1000})
        if status != 200:
            time.sleep(0.05)
            return -1
        got = answer["messages"]
        for m in got:
            if m["id"] in self.confirmed:
                self.again.append(m["id"])
            self.ids.setdefault(m["body"], set()).add(m["id"])
        if got:
            status, answer = post(self.svc, "/mailbox/load/ack",
                                  {"receipts": [m["receipt"] for m in got]})
            if status == 200:
                self.confirmed.update(m["id"] for m, result in zip(got, answer["results"])
                                      if result == "ok")
        return len(got)

    def run(self):
        while not self.done.is_set():
            if self.turn() == 0:
                time.sleep(0.01)


def ready(svc):
    try:
        return svc.get("/readyz", token=None).status == 200
    except (OSError, http.client.HTTPException):
        return False


def one_owner(svc, dsn):
    try:
        with Interop(f"--mailbox.dsn={dsn}"):
            check("a second bridge on the same tables is refused", False)
    except RuntimeError as e:
        check("a second bridge on the same tables is refused", "another process" in str(e), e)
    check("and the first one goes on", post(svc, "/mailbox/a/send",
                                            {"messages": [{"body": "x"}]})[0] == 200)


def away(svc, database):
    database.stop()
    status, answer = post(svc, "/mailbox/a/send", {"messages": [{"body": "y"}], "key": "y"})
    check("database away: a retryable error", status == 503 and answer["retryable"], answer)
    check("database away: not ready", eventually(lambda: not ready(svc), 5))
    a = svc.put(b"object")
    check("database away: what needs no mailbox goes on", a.status == 202, a.body)
    database.start()
    check("ready again by itself", eventually(lambda: ready(svc), 10))
    status, answer = post(svc, "/mailbox/a/send", {"messages": [{"body": "y"}], "key": "y"})
    check("sent", status == 200, answer)
    got = post(svc, "/mailbox/a/recv", {"max": 10})[1]["messages"]
    check("once", sorted(m["body"] for m in got) == ["x", "y"], got)


def load(svc, database):
    stop, done = threading.Event(), threading.Event()
    senders = [Sender(svc, f"s{i}", stop) for i in range(SENDERS)]
    consumer = Consumer(svc, done)
    for t in (*senders, consumer):
        t.start()
    for _ in range(ROUNDS):
        time.sleep(ROUND_S)
        svc.kill()
        svc.start()
        time.sleep(ROUND_S)
        database.stop()
        time.sleep(0.3)
        database.start()
    time.sleep(ROUND_S)
    stop.set()
    for t in senders:
        t.join()
    check("the mailbox is emptied in the end", eventually(
        lambda: json.loads(svc.get("/mailbox/load").body)["topics"][0]["bytes"] == 0, 30))
    done.set()
    consumer.join()
    promised = [b for t in senders for b in t.accepted]
    tries = sum(t.tries for t in senders)
    lost = [b for b in promised if b not in consumer.ids]
    twice = {b: ids for b, ids in consumer.ids.items() if len(ids) > 1}
    refusals = set().union(*(t.refusals for t in senders))
    check(f"{len(promised)} messages accepted in {tries} tries, none lost",
          len(promised) > 100 and not lost, lost[:5])
    check("none applied twice", not twice, list(twice.items())[:5])
    check("none delivered after its acknowledgement was confirmed", not consumer.again,
          consumer.again[:5])
    check(f"senders saw retryable errors alone: {sorted(refusals)}",
          not any(t.wrong for t in senders), [t.wrong[:2] for t in senders])


def main():
    if not pgserver.there():
        print("skipped: needs postgresql-15")
        sys.exit(77)
    database = pgserver.Cluster()
    try:
        dsn = pgserver.dsn(database)
        with Interop(f"--mailbox.dsn={dsn}", "--readiness.brownout_calls=1000000") as svc:
            one_owner(svc, dsn)
            away(svc, database)
            load(svc, database)
            check("no SQLite file", not list((svc.folder / "data").glob("mailbox*")))
        check("nothing of the connection string in the log",
              not any("dbname" in line for line in svc.lines))
    finally:
        database.remove()
    finish()


main()
