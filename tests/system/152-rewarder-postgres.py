#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rewarder with its book in PostgreSQL: every payee is paid once, whoever dies.

Method: runs are asked for while the rewarder is killed (SIGKILL) at random moments and the database
is ended without a shutdown and started again. Every epoch that was asked for is settled in the end,
and the ledger's export holds each payout of each epoch once and nothing else. Besides: a second
rewarder on the same book is refused, a run whose seal fails goes on when the book is back, and
nothing of the book is on the rewarder's disk. RON_SEED repeats the choices of a run.
"""
import http.client
import json
import os
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pgserver  # noqa: E402
from holdkit import held  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from rewarderkit import Rewarder, policy, shares, snapshot  # noqa: E402
from walletkit import new_ledger  # noqa: E402

SEED = int(os.environ.get("RON_SEED", "0")) or random.SystemRandom().getrandbits(32)
KILLS = 8
RESTARTS = 4
rng = random.Random(SEED)


class Runs:
    def __init__(self, rewarder):
        self.rewarder, self.policy, self.asked = rewarder, policy(), {}

    def new(self):
        count = rng.choice((1, 7, 60, 400))
        rows = [(f"t:k/n:{i}", 10 + i * 7 % 1000, i * 13 % 5000, i % 60) for i in range(count)]
        pool = 10 ** 6 + count
        epoch = f"p:{len(self.asked)}"
        self.asked[epoch] = (rows, pool,
                             self.rewarder.request(snapshot(rows, pool), self.policy))
        return epoch

    def send(self, epoch):
        """The status, 0 when there was no answer."""
        try:
            return self.rewarder.ask("POST", f"/rewarder/epochs/{epoch}/compute",
                                     json.dumps(self.asked[epoch][2]))[0]
        except (OSError, http.client.HTTPException):
            return 0

    def insist(self, epochs):
        """Until each is taken: a request is the same however often it is sent."""
        return all(eventually(lambda: self.send(e) in (200, 202), 30) for e in epochs)

    def states(self):
        found, after = {}, ""
        try:
            while after is not None:
                page = self.rewarder.get("/rewarder/epochs?limit=1000" +
                                         (f"&after={after}" if after else ""))[1]
                found.update((e["epoch_id"], e["state"]) for e in page["epochs"])
                after = page["next"]
        except (OSError, http.client.HTTPException, KeyError):
            return {}
        return found

    def settled(self, seconds=60):
        """By itself: a run that failed while the book was away is taken up when it is back."""
        return eventually(lambda: all(self.states().get(e) == "emitted" for e in self.asked),
                          seconds)


def kills(runs):
    r, good = runs.rewarder, True
    for _ in range(KILLS):
        epochs = [runs.new() for _ in range(3)]
        for e in epochs:
            runs.send(e)
        time.sleep(rng.uniform(0.0, 0.15))  # the moment of death is the test's own choice
        r.kill()
        r.start()
        good = runs.insist(epochs) and good
    good = runs.settled() and good
    check(f"{KILLS} kills: all settled", good, runs.states())


def restarts(runs, database):
    good = True
    for _ in range(RESTARTS):
        epochs = [runs.new() for _ in range(3)]
        for e in epochs:
            runs.send(e)
        time.sleep(rng.uniform(0.0, 0.15))
        database.stop()
        runs.send(runs.new())
        time.sleep(0.5)
        database.start()
        good = runs.insist(runs.asked) and good
    good = runs.settled() and good
    check(f"{RESTARTS} ends of the database: all settled", good, runs.states())


def book_away_at_the_seal(runs, database):
    """A run that was accepted cannot be sealed, nor its epoch be given back: when the book is there
    again it goes on without anybody asking."""
    r, epoch = runs.rewarder, runs.new()

    def logged(text):
        return any(text in line and epoch in line for line in r.lines)
    try:
        with held(r, "artifact_writer"):
            check("away: the run is accepted", runs.send(epoch) == 202)
            check("away: and computed", eventually(
                lambda: runs.states().get(epoch) == "computing"), runs.states())
            database.stop()
    except PermissionError:
        print("left out: ptrace is not allowed")
        database.start()
        return
    check("away: it cannot be sealed", eventually(
        lambda: logged("a run could not be sealed"), 30), r.lines[-5:])
    check("away: nor given back", eventually(
        lambda: logged("an epoch could not be given back"), 30), r.lines[-5:])
    database.start()
    check("away: it is settled by itself", runs.settled(), (runs.states(), r.lines[-5:]))
    check("away: having been taken up again", logged("a run is taken up again"))


def export(ledger):
    status, _, data = ledger.ask("GET", "/export")
    rows = [json.loads(line) for line in data.splitlines()]
    check("export: whole", status == 200 and rows[-1]["type"] == "end", rows[-1:])
    return [e for r in rows if r["type"] == "batch" for e in r["batch"]]


def reckon(runs):
    wanted = {(f"svc-rewarder:{epoch}", account): str(amount)
              for epoch, (rows, pool, _) in runs.asked.items()
              for account, amount in shares(rows, pool)[0].items()}
    entries = export(runs.rewarder.ledger)
    found = {(e["memo"], e["account"]): e["amount"] for e in entries}
    check(f"{len(entries)} entries of {len(runs.asked)} epochs: each payee once, nothing else",
          len(entries) == len(found) and found == wanted, (len(entries), len(found), len(wanted)))


def one_owner(rewarder, ledger, dsn):
    try:
        with Rewarder(ledger, f"--book.dsn={dsn}", dir=rewarder.folder / "second"):
            check("a second rewarder on the same book is refused", False)
    except RuntimeError as e:
        check("a second rewarder on the same book is refused", "another process" in str(e), e)


def main():
    if not pgserver.there():
        print("skipped: needs postgresql-15")
        sys.exit(77)
    print(f"seed {SEED}")
    database = pgserver.Cluster()
    try:
        dsn = pgserver.dsn(database)
        with new_ledger() as ledger:
            with Rewarder(ledger, f"--book.dsn={dsn}", "--settlement.batch=50",
                          "--settlement.retry=100ms", "--concurrency.io_inflight=4") as rewarder:
                runs = Runs(rewarder)
                one_owner(rewarder, ledger, dsn)
                kills(runs)
                restarts(runs, database)
                book_away_at_the_seal(runs, database)
                reckon(runs)
                check("no epoch was quarantined",
                      rewarder.get("/rewarder/epochs?state=quarantined")[1]["epochs"] == [])
                check("no book on the disk", not list(rewarder.dir.glob("book*")))
    finally:
        database.remove()
    finish()


main()
