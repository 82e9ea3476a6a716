#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: clients that work on the same accounts at the same time see one ledger that does one thing
after the other, in an order that agrees with their clocks (strict serializability).

Method: eight clients with a connection each send transfers, holds, captures and releases over four
accounts and read balances; each notes when it asked, when it was answered, and what. Then the
export gives the order that the ledger claims. Checked without any code of the ledger: every
accepted batch is in it exactly once and no refused one; a batch answered before another was sent
comes before it; a read shows the balances at some point between its beginning and its end; a
refusal for lack of funds was true at such a point; no balance is ever below zero and the sum never
changes.
"""
import bisect
import json
import os
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, finish  # noqa: E402
from ledgerkit import Ledger, entry  # noqa: E402

SEED = int(os.environ.get("RON_SEED", "0")) or random.SystemRandom().getrandbits(32)
SECONDS = float(os.environ.get("RON_SECONDS", "6"))
ACCOUNTS = [f"t:iso/u:{i}" for i in range(4)]
CLIENTS, EACH = 8, 500


class Client(threading.Thread):
    def __init__(self, ledger, rng, holds, until):
        super().__init__()
        self.ledger, self.rng, self.holds, self.until = ledger, rng, holds, until
        self.connection = ledger.connect()
        self.writes, self.reads = [], []  # (asked, answered, status, body, batch or account)

    def run(self):
        while time.monotonic() < self.until:
            if self.rng.random() < 0.35:
                self.read()
            else:
                self.write(self.choose())

    def choose(self):
        """A batch; holds of everybody are everybody's, so captures and releases collide."""
        here, there = self.rng.sample(ACCOUNTS, 2)
        what = self.rng.random()
        if what < 0.15:
            return [entry("Hold", here, self.rng.randint(1, 120))]
        if what < 0.45 and self.holds:
            hold = self.rng.choice(self.holds[-30:])
            amount = self.rng.randint(1, int(hold["amount"]))
            more = {"to": there} if hold["account"] != there else {}
            kind = "Capture" if more and self.rng.random() < 0.5 else "Release"
            return [entry(kind, hold["account"], amount, ref=hold["id"],
                          **(more if kind == "Capture" else {}))]
        return [entry("Transfer", here, self.rng.randint(1, 200), to=there)
                for _ in range(self.rng.choice((1, 1, 1, 3)))]

    def write(self, batch):
        body = json.dumps({"batch": batch, "idem_id": "i-" + batch[0]["id"]})
        asked = time.monotonic_ns()
        status, _, data = self.ledger.ask("POST", "/ingest", body, connection=self.connection)
        self.writes.append((asked, time.monotonic_ns(), status, json.loads(data), batch))
        if status == 200 and batch[0]["kind"] == "Hold":
            self.holds.append(batch[0])

    def read(self):
        account = self.rng.choice(ACCOUNTS)
        asked = time.monotonic_ns()
        status, found = self.ledger.get(f"/accounts/{account}/balances",
                                        connection=self.connection)
        self.reads.append((asked, time.monotonic_ns(), status, found, account))


# ---- the export as the total order ---------------------------------------------------------------

def fold(lines):
    """{seq at the end of a batch: {account: [available, held]}}, batches by key, faults."""
    now, holds = {a: [0, 0] for a in ACCOUNTS}, {}
    states, batches, faults = {0: {a: (0, 0) for a in ACCOUNTS}}, {}, []
    for line in lines:
        if line["type"] != "batch":
            continue
        for e in line["batch"]:
            amount, account = int(e["amount"]), now[e["account"]]
            if e["kind"] == "Mint":
                account[0] += amount
            elif e["kind"] == "Transfer":
                account[0] -= amount
                now[e["to"]][0] += amount
            else:
                hold = e["id"] if e["kind"] == "Hold" else e["ref"]
                sign = 1 if e["kind"] == "Hold" else -1
                holds[hold] = holds.get(hold, 0) + sign * amount
                account[1] += sign * amount
                if e["kind"] == "Capture":
                    now[e["to"]][0] += amount
                else:
                    account[0] -= sign * amount
            if min(account) < 0 or min(holds.values(), default=0) < 0:
                faults.append(("below zero", line["seq"], e, account))
        last = line["seq"] + len(line["batch"]) - 1
        states[last] = {a: tuple(b) for a, b in now.items()}
        if sum(map(sum, now.values())) != EACH * len(ACCOUNTS):
            faults.append(("sum", line["seq"]))
        key = line.get("idem_id")
        if key in batches:
            faults.append(("twice", key))
        batches[key] = line
    return states, batches, faults


class Order:
    """What clocks say about seqs: answers before a moment bound from below, requests after it from
    above."""

    def __init__(self, writes, last_seq):
        by_answer = sorted((w[1], w[3]["seq_end"]) for w in writes)
        self.answers = [t for t, _ in by_answer]
        self.highest = []
        for _, seq in by_answer:
            self.highest.append(max(seq, self.highest[-1] if self.highest else 0))
        by_request = sorted((w[0], w[3]["seq_start"]) for w in writes)
        self.requests = [t for t, _ in by_request]
        self.lowest = []
        for _, seq in reversed(by_request):
            self.lowest.append(min(seq, self.lowest[-1] if self.lowest else last_seq + 1))
        self.lowest.reverse()
        self.last_seq = last_seq

    def bounds(self, asked, answered):
        before = bisect.bisect_left(self.answers, asked)
        after = bisect.bisect_right(self.requests, answered)
        return (self.highest[before - 1] if before else len(ACCOUNTS),
                self.lowest[after] - 1 if after < len(self.lowest) else self.last_seq)


def judge_writes(order, done, refused, batches, states, seqs):
    absent = [w for w in done if batches.get("i-" + w[4][0]["id"], {}).get("seq")
              != w[3]["seq_start"] or batches["i-" + w[4][0]["id"]]["batch"][0]["id"]
              != w[4][0]["id"]]
    check(f"{len(done)} accepted batches: each in the export once, at its seq", not absent
          and len(batches) == len(done) + 1, (absent[:2], len(batches)))
    ghosts = [w for w in refused if "i-" + w[4][0]["id"] in batches]
    check(f"{len(refused)} refused batches: none in the export", not ghosts, ghosts[:2])
    late = [w for w in done if not order.bounds(w[0], w[1])[0] < w[3]["seq_start"]
            or not w[3]["seq_end"] <= order.bounds(w[0], w[1])[1]]
    check("order of the export agrees with the clients' clocks", not late, late[:3])
    liars = []
    for w in refused:
        if w[3]["reason"] == "insufficient_funds" and len(w[4]) == 1 \
                and w[4][0]["kind"] in ("Transfer", "Hold"):
            low, high = order.bounds(w[0], w[1])
            points = seqs[bisect.bisect_left(seqs, low):bisect.bisect_right(seqs, high)]
            e = w[4][0]
            if not any(states[s][e["account"]][0] < int(e["amount"]) for s in points):
                liars.append((w, low, high))
    check("every lack of funds was true at some point", not liars, liars[:2])


def judge_reads(order, reads, states):
    bad, newest, ended = [], 0, []
    for asked, answered, status, found, account in sorted(reads):
        low, high = order.bounds(asked, answered)
        # An asset of which nothing is left is not listed.
        asset = found["balances"][0] if found["balances"] else {"available": 0, "held": 0}
        shown = (int(asset["available"]), int(asset["held"]))
        while ended and ended[0][0] < asked:
            newest = max(newest, ended.pop(0)[1])
        bisect.insort(ended, (answered, found["seq"]))
        if status != 200 or not max(low, newest) <= found["seq"] <= high \
                or states.get(found["seq"], {}).get(account) != shown:
            bad.append((found, low, newest, high, states.get(found["seq"])))
    check(f"{len(reads)} reads: each the balance at one point of its time", not bad, bad[:3])


def main():
    print(f"seed {SEED}, {SECONDS} s")
    rng = random.Random(SEED)
    with Ledger() as ledger:
        check("fund", ledger.ingest(*[entry("Mint", a, EACH) for a in ACCOUNTS])[0] == 200)
        holds, until = [], time.monotonic() + SECONDS
        clients = [Client(ledger, random.Random(rng.getrandbits(64)), holds, until)
                   for _ in range(CLIENTS)]
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        status, _, data = ledger.ask("GET", "/export")
        lines = [json.loads(x) for x in data.splitlines()]
        check("export: whole", status == 200 and lines[-1]["type"] == "end", lines[-1:])
        states, batches, faults = fold(lines)
        check("never below zero, the sum never changes, no key twice", not faults, faults[:3])
        writes = [w for c in clients for w in c.writes]
        done = [w for w in writes if w[2] == 200]
        refused = [w for w in writes if w[2] != 200]
        reasons = {w[3]["reason"] for w in refused}
        check("refusals are about funds and holds alone",
              reasons <= {"insufficient_funds", "not_found", "conflict"}, reasons)
        order = Order(done, lines[-1]["seq"])
        judge_writes(order, done, refused, batches, states, sorted(states))
        judge_reads(order, [r for c in clients for r in c.reads], states)
        check("enough was tried", len(done) > 100 and "insufficient_funds" in reasons
              and len(batches) < lines[-1]["seq"], (len(done), reasons))
    finish()


main()
