#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: what an operator does to a running ledger disturbs nobody: every request gets one answer,
what was acknowledged stays, and a step that fails leaves a ledger that still reads.

Method: writers send while safe mode is entered and left again and again, and while the journal is
verified; a client that reads nothing holds an export while others read, the ledger is resumed and
stopped; a resume fails because the index cannot be opened.
"""
import json
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import Ledger, entry  # noqa: E402

ALICE, BOB = "t:o/u:alice", "t:o/u:bob"


class Writers:
    """Threads that send transfers of one, some of them twice at the same time."""

    def __init__(self, ledger, count=4):
        self.ledger, self.over = ledger, threading.Event()
        self.sent, self.lost, self.other = {}, [], []
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(count)]

    def _run(self, which):
        c = self.ledger.connect()
        number = 0
        while not self.over.is_set():
            number += 1
            # Two threads share a key, so that one waits behind the other.
            key = f"op-{which // 2}-{number}"
            e = self.sent.setdefault(key, entry("Transfer", ALICE, 1, to=BOB))
            try:
                status, _, data = self.ledger.ask(
                    "POST", "/ingest", json.dumps({"batch": [e], "idem_id": key}), connection=c)
            except OSError as error:
                self.lost.append((key, error))
                c = self.ledger.connect()
                continue
            if status not in (200, 503):
                self.other.append((key, status, data))

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()


def committed(ledger, writers):
    """How many keys the ledger says it has committed."""
    return sum(ledger.get(f"/outcome/{k}")[1]["outcome"] == "committed" for k in writers.sent)


def under_load(ledger):
    before = ledger.balance(BOB)[0]
    with Writers(ledger) as writers:
        answers = []
        for _ in range(12):
            time.sleep(0.03)
            answers.append(ledger.admin("POST", "/safe-mode", "drill")[0])
            answers.append(ledger.admin("POST", "/resume", "")[0])
        check("load: safe mode and back, many times", set(answers) == {200}, answers)
        answers = []
        for _ in range(6):
            time.sleep(0.2)
            answers.append(ledger.admin("POST", "/verify", ""))
        check("load: a journal that grows verifies", all(a[0] == 200 for a in answers), answers)
    check("load: every request was answered", not writers.lost, writers.lost[:3])
    check("load: answers are yes or stopped", not writers.other, writers.other[:3])
    check("load: each key moved one, once",
          ledger.balance(BOB)[0] - before == committed(ledger, writers),
          (before, ledger.balance(BOB), committed(ledger, writers)))
    check("load: nothing is left in the pipeline", eventually(
        lambda: ledger.admin("GET", "/status")[1]["works"] == 0), ledger.admin("GET", "/status"))


def fill(ledger):
    """Enough for an export that no buffer holds."""
    for _ in range(40):
        batch = [entry("Transfer", ALICE, 1, to=BOB, memo="m" * 256) for _ in range(500)]
        if ledger.ingest(*batch)[0] != 200:
            return False
    return True


def hold_export(ledger):
    """A client that asks for everything and reads nothing."""
    host, port = ledger.addr.rsplit(":", 1)
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect((host, int(port)))
    s.sendall(f"GET /export HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ledger.token}\r\n\r\n"
              .encode())
    s.settimeout(10)
    check("export: begins", s.recv(12) == b"HTTP/1.1 200")
    return s


def exports(ledger):
    check("export: enough to send", fill(ledger))
    with hold_export(ledger):
        began = time.monotonic()
        status, body = ledger.get("/export?to=3")
        check("export: a second one is refused while there are two readers",
              status == 429 and body["reason"] == "busy", (status, body))
        check("export: others read meanwhile", ledger.get("/entries/3")[0] == 200
              and time.monotonic() - began < 2, time.monotonic() - began)
        ledger.admin("POST", "/safe-mode", "drill")
        status, found = ledger.admin("POST", "/resume", "")
        check("export: does not keep the ledger from being resumed", status == 200, found)
    with hold_export(ledger):
        code = ledger.stop()
        check("export: does not hold up a drain", code == 0, (code, ledger.lines[-5:]))
        ledger.start()
    status, found = ledger.admin("GET", "/status")
    check("export: running after the restart", found["mode"] == "running", found)


def failed_resume(ledger):
    """The journal verifies, but then the directory cannot be opened anew."""
    e = entry("Transfer", ALICE, 1, to=BOB)
    check("no index: one more before", ledger.ingest(e)[0] == 200)
    ledger.get(f"/entries/by-id/{e['id']}")
    ledger.admin("POST", "/safe-mode", "drill")
    index = ledger.data / "index"
    aside = ledger.data / "index.aside"
    index.rename(aside)
    index.write_text("x")
    for _ in range(2):
        status, found = ledger.admin("POST", "/resume", "")
        check("no index: not resumed", status == 503, (status, found))
    for path in ("/entries/3", f"/entries/by-id/{e['id']}", f"/accounts/{BOB}/entries?limit=2",
                 "/proof/inclusion?seq=3", "/outcome/none"):
        status, _ = ledger.get(path)
        check(f"no index: still answers {path.split('?')[0]}", status in (200, 404, 503), status)
    check("no index: balances are told", ledger.balance(BOB)[0] > 0)
    index.unlink()
    aside.rename(index)
    status, found = ledger.admin("POST", "/resume", "")
    check("index back: resumed", status == 200, (status, found))
    check("index back: found again", ledger.get(f"/entries/by-id/{e['id']}")[0] == 200)
    check("index back: writes go on", ledger.ingest(entry("Transfer", ALICE, 1, to=BOB))[0] == 200)


def main():
    with Ledger() as ledger:
        check("fund", ledger.ingest(entry("Mint", ALICE, 10 ** 12))[0] == 200)
        under_load(ledger)
        exports(ledger)
        failed_resume(ledger)
    finish()


main()
