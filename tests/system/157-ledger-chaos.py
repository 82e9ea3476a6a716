#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: leases count on a machine that goes on.
"""Goal: three ledgers on one log, a database with a synchronous standby and a wallet before them,
while everything fails in random order: nothing that was acknowledged is lost, nothing is done
twice, and in the end all of it works again.

Method: payers go through the wallet and send each payment with the same key until the word is
definite. One or two faults at a time, drawn at random: the leader or a follower killed or standing
still, the database standing still, crashed, or failed over to its standby (of which a new standby
is made), the standby gone or standing still, and the way to the database cut, slow or deaf, for all
ledgers or for one alone (a relay on loopback between each ledger and each server). Then everything
is mended: every receipt must be in the log once and nothing else, all copies and the database have
the same root, and the auditor agrees. About 15 s of faults; with RON_SOAK=1 (`./dev soak`) 5
minutes. RON_SEED repeats a run's choices."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pgserver  # noqa: E402
from httpkit import check, finish  # noqa: E402
from sharedkit import (Group, Node, Payer, Relay, audit, longest_gap, make_keys,  # noqa: E402
                       relayed_dsn, seeded, until)
from walletkit import Wallet  # noqa: E402

SECONDS = 300 if os.environ.get("RON_SOAK") else 15
PAYERS = 6


class Databases:
    """A primary and a standby that commits wait for, each behind a relay for each ledger. Which is
    which changes; the relays, and so the connection strings of the ledgers, do not."""

    def __init__(self, names):
        self.primary = pgserver.Cluster()
        self.standby = pgserver.Cluster(self.primary)
        self.relays = {(n, id(c)): Relay(c.port) for n in names
                       for c in (self.primary, self.standby)}
        self.names, self.failovers = names, 0

    def dsn(self, name):
        return relayed_dsn(*self.ways(name))

    def ways(self, name=None):
        return [r for (n, _), r in list(self.relays.items()) if name in (None, n)]

    def in_step(self):
        """Whether the standby has all that the primary has; commits wait for it then."""
        return self.primary.sql(
            "SELECT count(*) FROM pg_stat_replication WHERE state='streaming' AND "
            "sync_state='sync' AND flush_lsn>=pg_current_wal_flush_lsn()") == "1"

    def fail_over(self):
        if not until(self.in_step, 10):
            return
        old, new = self.primary, self.standby
        freed = {n: self.relays.pop((n, id(old))) for n in self.names}
        old.stop()
        new.promote()
        self.primary = new
        self.standby = pgserver.Cluster(new)
        for name, relay in freed.items():
            relay.to = self.standby.port
            self.relays[name, id(self.standby)] = relay
        old.remove()
        self.failovers += 1

    def remove(self):
        for relay in self.ways():
            relay.close()
        self.standby.remove()
        self.primary.remove()


def family(cluster):
    """The server and its children."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(cluster.pid)], capture_output=True,
                           text=True).stdout.split()
    return [cluster.pid, *map(int, found)]


def tell(pids, what):
    for pid in pids:
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            pass


def started(cluster):
    """Starts it; a child that outlived its server for a moment keeps the shared memory busy."""
    for left in range(20, -1, -1):
        try:
            cluster.start()
            return
        except RuntimeError:
            if left == 0:
                raise
            time.sleep(0.5)


class Chaos:
    """Faults; each is a generator that does harm up to its yield and mends behind it."""

    def __init__(self, rng, group, databases):
        self.rng, self.group, self.db = rng, group, databases
        self.count = {}

    def a_node(self, leads):
        found = [n for n in self.group.nodes if n.process.poll() is None]
        leaders = [n for n in found if n.leads()]
        others = [n for n in found if n not in leaders]
        return self.rng.choice((leaders if leads else others) or found)

    def _kill(self, node):
        node.kill()
        yield
        node.start()

    def _stop(self, node):
        pid = node.process.pid
        os.kill(pid, signal.SIGSTOP)
        yield
        os.kill(pid, signal.SIGCONT)

    def leader_killed(self):
        yield from self._kill(self.a_node(True))

    def leader_stands_still(self):
        yield from self._stop(self.a_node(True))

    def follower_killed(self):
        yield from self._kill(self.a_node(False))

    def follower_stands_still(self):
        yield from self._stop(self.a_node(False))

    def _still(self, cluster):
        pids = family(cluster)
        tell(pids, signal.SIGSTOP)
        yield
        tell(pids, signal.SIGCONT)

    def database_stands_still(self):
        yield from self._still(self.db.primary)

    def _crash(self, cluster):
        tell(family(cluster), signal.SIGKILL)  # the server first, so that it makes no more children
        tell(family(cluster), signal.SIGKILL)
        yield
        started(cluster)

    def database_crashes(self):
        yield from self._crash(self.db.primary)

    def standby_stands_still(self):
        yield from self._still(self.db.standby)

    def standby_crashes(self):
        yield from self._crash(self.db.standby)

    def database_fails_over(self):
        self.db.fail_over()
        yield

    def ways(self):
        """Of all ledgers, of the leader alone, or of a follower alone."""
        whose = self.rng.choice(("all", "leader", "leader", "follower"))
        return self.db.ways(None if whose == "all" else self.a_node(whose == "leader").name)

    def way_cut(self):
        for relay in self.ways():
            relay.cut()
        yield
        self.mend()

    def way_slow(self):
        for relay in self.ways():
            relay.delay_s = self.rng.uniform(0.02, 0.3)
        yield
        self.mend()

    def way_deaf(self):
        for relay in self.ways():
            relay.deaf = True
        yield
        self.mend()

    def mend(self):
        for relay in self.db.ways():
            relay.mend()

    # Two at a time only of what does not take the other's ground away.
    LEDGERS = ["leader_killed", "leader_stands_still", "follower_killed", "follower_stands_still"]
    WAYS = ["way_cut", "way_slow", "way_deaf"]
    DATABASES = ["database_stands_still", "database_crashes", "standby_stands_still",
                 "standby_crashes", "database_fails_over"]

    def draw(self):
        """One or two of different kinds; all kinds come once before any comes again."""
        if not getattr(self, "bag", None):
            self.bag = self.LEDGERS + self.WAYS + self.DATABASES
            self.rng.shuffle(self.bag)
        names = [self.bag.pop()]
        if names[0] in self.DATABASES and self.rng.random() < 0.4:
            names.append(self.rng.choice(self.LEDGERS))
        elif names[0] in self.LEDGERS and self.rng.random() < 0.4:
            names.append(self.rng.choice(self.WAYS))
        return names

    def round(self):
        names = self.draw()
        print("fault:", " and ".join(names), flush=True)
        faults = [getattr(self, name)() for name in names]
        for f in faults:
            next(f)
        time.sleep(self.rng.uniform(0.2, 2.0))
        # A ledger that is started needs the others to be there again, or a copy of the log.
        for f in [f for name, f in zip(names, faults) if name not in self.LEDGERS] + \
                [f for name, f in zip(names, faults) if name in self.LEDGERS]:
            next(f, None)
        for name in names:
            self.count[name] = self.count.get(name, 0) + 1
        time.sleep(self.rng.uniform(0.1, 0.8))


def all_same(group, databases, payers, wallet):
    nodes = group.nodes
    leader = group.leader()
    check("end: somebody leads", leader is not None, [n.lines[-5:] for n in nodes])
    for n in nodes:
        check(f"end: {n.name} leads or follows", until(lambda n=n: n.leads() or n.follows(), 60),
              n.lines[-10:])
    for p in payers:
        p.halt.set()
    for p in payers:
        p.join(100)
    wrong = [w for p in payers for w in p.wrong]
    check("payers: saw only errors that may be retried", not wrong, wrong[:3])
    leader = group.leader()
    check("end: the same root everywhere",
          until(lambda: len({tuple(n.root()) for n in nodes}) == 1, 60),
          [(n.name, n.root(), n.get("/readyz"), n.lines[-12:]) for n in nodes])
    gaps = databases.primary.sql("SELECT count(*)-1-max(slot) FROM ron.ledger_log")
    check("database: slots without a gap", gaps == "0", gaps)
    head = databases.primary.sql("SELECT encode(root,'hex') FROM ron.ledger_log "
                                 "ORDER BY slot DESC LIMIT 1")
    check("database: the same root", leader.get("/head")[1]["root"] == head, head)
    rows = [json.loads(line) for line in leader.ask("GET", "/export")[2].splitlines()]
    entries = [e for row in rows if row["type"] == "batch" for e in row["batch"]]
    paid = [e["id"] for e in entries if e["kind"] == "Transfer"]
    receipts = {json.loads(r)["txid"] for p in payers for r in p.paid.values()}
    check("log: every receipt is there", receipts <= set(paid), len(receipts - set(paid)))
    check("log: nothing twice", len(paid) == len(set(paid)), len(paid) - len(set(paid)))
    check("log: nothing else", len(paid) == len(receipts), (len(paid), len(receipts)))
    for p in payers:
        until(lambda p=p: wallet.balance(p.account) == (len(p.paid), 0), 10)
        check(f"balance of {p.account}", wallet.balance(p.account) == (len(p.paid), 0),
              (wallet.balance(p.account), len(p.paid)))


def main():
    if not pgserver.there():
        print("skipped: needs postgresql-15")
        sys.exit(77)
    _, rng = seeded()
    folder = tempfile.mkdtemp(prefix="ron-chaos-")
    make_keys(folder)
    databases = Databases("abc")
    nodes = []
    try:
        for name in "abc":
            nodes.append(Node(name, folder, databases.dsn(name)))
        group = Group(folder, nodes)
        check("begin: somebody leads", group.leader() is not None)
        with Wallet(group, "--circuit_breaker.open_duration=500ms") as wallet:
            status, got = wallet.issue("t:rich", 10**9)
            check("begin: the wallet works", status == 200, got)
            payers = [Payer(wallet, i) for i in range(PAYERS)]
            for p in payers:
                p.start()
            chaos = Chaos(rng, group, databases)
            began = time.monotonic()
            while time.monotonic() < began + SECONDS:
                chaos.round()
            chaos.mend()
            all_same(group, databases, payers, wallet)
            print(f"{sum(chaos.count.values())} faults in {time.monotonic() - began:.0f} s, "
                  f"{databases.failovers} failovers of the database, "
                  f"{sum(len(p.paid) for p in payers)} payments, no write for "
                  f"{longest_gap(payers, began):.1f} s at most: {chaos.count}")
        for node in nodes:
            check(f"{node.name}: ends with 0", node.stop() == 0, node.lines[-10:])
            audit("end", node)
    finally:
        for node in nodes:
            if node.process.poll() is None:
                tell([node.process.pid], signal.SIGCONT)
                node.kill()
        databases.remove()
        shutil.rmtree(folder, ignore_errors=True)
    finish()


main()
