#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it measures the time of a failover under load.
"""Two ledgers on one log in PostgreSQL: one leads, the other follows and takes over.

A real primary with a standby that commits wait for. Looked at: what a follower serves and refuses;
a leader that is killed, one that is stopped and goes on later (it is fenced), a standby that is
promoted under load; that accounts stay frozen through all that, that nothing acknowledged is lost
or doubled, that both copies and the database say the same, and that the auditor agrees. A ledger of
files with the same entries has the same root. Times to recover are printed."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pgserver  # noqa: E402
from httpkit import check, finish  # noqa: E402
from ledgerkit import entry  # noqa: E402
from sharedkit import Node, audit, make_keys, until  # noqa: E402


class Writer(threading.Thread):
    """Transfers, one after another, to whoever leads; each with a key of its own, sent again with
    the same key until somebody says yes or no."""

    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes = nodes
        self.acknowledged = {}  # id -> amount
        self.refused = []
        self.longest_s = 0.0
        self.halt = threading.Event()

    def send(self, e):
        """Whether it was acknowledged."""
        body = json.dumps({"batch": [e], "idem_id": "i-" + e["id"]})
        began = time.monotonic()
        while time.monotonic() - began < 60:
            for node in self.nodes:
                try:
                    status, _, data = node.ask("POST", "/ingest", body)
                except OSError:
                    continue
                if status == 200:
                    self.longest_s = max(self.longest_s, time.monotonic() - began)
                    return True
                if not json.loads(data)["retryable"]:
                    self.refused.append((status, data))
                    return False
            time.sleep(0.01)
        self.refused.append(("never", e["id"]))
        return False

    def run(self):
        while not self.halt.is_set():
            e = entry("Transfer", "u:rich", 1, to="u:poor")
            if self.send(e):
                self.acknowledged[e["id"]] = 1

    def end(self):
        self.halt.set()
        self.join(90)
        return len(self.acknowledged)


def follow_and_refuse(a, b):
    status, got = a.ingest(entry("Mint", "u:rich", 1000000))
    check("leader: commits", status == 200, got)
    check("follower: has the balance", until(lambda: b.balance("u:rich") == (1000000, 0)),
          b.balance("u:rich"))
    status, headers, data = b.ask("POST", "/ingest", json.dumps(
        {"batch": [entry("Mint", "u:rich", 1)]}))
    check("follower: refuses writes with 421", status == 421 and
          json.loads(data)["code"] == "NOT_LEADER", data)
    check("follower: and says who leads", headers["Ron-Leader"] == f"http://{a.addr}",
          dict(headers))
    check("both: the same root", until(lambda: a.root() == b.root()), (a.root(), b.root()))
    status, found = b.get("/entries/1")
    check("follower: entries", status == 200 and found["entry"]["account"] == "u:rich", found)


def check_all(name, nodes, database, writer, before):
    sent = len(writer.acknowledged)
    check(f"{name}: no write was refused for good", not writer.refused, writer.refused[:3])
    check(f"{name}: nothing lost, nothing doubled",
          until(lambda: all(n.balance("u:poor") == (before + sent, 0) for n in nodes)),
          (before + sent, [n.balance("u:poor") for n in nodes]))
    check(f"{name}: the same root everywhere", until(lambda: nodes[0].root() == nodes[-1].root()),
          [n.root() for n in nodes])
    slots = database.sql("SELECT count(*)-1-max(slot) FROM ron.ledger_log")
    check(f"{name}: slots without a gap", slots == "0", slots)
    return before + sent


def set_frozen(node, account, frozen):
    return node.ask("POST", f"/accounts/{account}/{'freeze' if frozen else 'unfreeze'}")


def is_refused(node, account):
    """Whether it is frozen for the ledger that leads."""
    status, got = node.ingest(entry("Transfer", account, 1, to="u:ice"))
    return status == 403 and "frozen" in json.dumps(got), (status, got)


def freeze(a, b):
    """An account that the leader a froze; b is told only by the database."""
    for account in ("u:frozen", "u:thawed"):
        a.ingest(entry("Mint", account, 50))
        status, _, got = set_frozen(a, account, True)
        check("freeze: the leader does", status == 200, (status, got))
    status, headers, got = set_frozen(b, "u:other", True)
    check("freeze: a follower sends to the leader", status == 421 and
          headers["Ron-Leader"] == f"http://{a.addr}", (status, got))
    check("freeze: the leader refuses its entries", *is_refused(a, "u:frozen"))
    status, _, got = set_frozen(a, "u:thawed", False)
    check("freeze: and lets go of one", status == 200 and not is_refused(a, "u:thawed")[0], got)


def still_frozen(name, leader):
    check(f"{name}: who leads now refuses a frozen account", *is_refused(leader, "u:frozen"))
    check(f"{name}: and not one that was let go", not is_refused(leader, "u:thawed")[0],
          is_refused(leader, "u:thawed")[1])


def takeover(a, b, database, before):
    """The leader is killed."""
    writer = Writer([a, b])
    writer.start()
    until(lambda: len(writer.acknowledged) > 50)
    a.kill()
    began = time.monotonic()
    check("killed: the other leads", until(b.leads))
    print(f"leads {time.monotonic() - began:.1f} s after the kill")
    still_frozen("killed", b)
    check("killed: who leads now freezes another, perhaps in a moment", until(
        lambda: set_frozen(b, "u:late", True)[0] == 200), b.lines[-5:])
    more = len(writer.acknowledged) + 50
    until(lambda: len(writer.acknowledged) > more)
    writer.end()
    print(f"killed: a writer waited {writer.longest_s:.1f} s at most")
    a.start()
    check("killed: comes back as a follower", until(a.follows))
    return check_all("killed", [a, b], database, writer, before)


def fenced(a, b, database, before):
    """The leader b stands still, a takes over, b goes on: two that think that they lead."""
    writer = Writer([a, b])
    os.kill(b.process.pid, signal.SIGSTOP)
    check("fenced: the other leads", until(a.leads))
    os.kill(b.process.pid, signal.SIGCONT)
    status, got = b.ingest(entry("Transfer", "u:rich", 1, to="u:poor"))
    check("fenced: who led before cannot commit", status in (421, 503) and got["retryable"],
          (status, got))
    said = [b.leads() for _ in range(50)]  # from now on until it follows, and then
    check("fenced: who was refused is not taken for the leader", not any(said), said)
    check("fenced: it follows", until(b.follows))
    still_frozen("fenced", a)
    a.ingest(entry("Mint", "u:late", 5))
    check("fenced: also what the other froze while it was away", *is_refused(a, "u:late"))
    writer.start()
    until(lambda: len(writer.acknowledged) > 50)
    writer.end()
    return check_all("fenced", [a, b], database, writer, before)


def promoted(nodes, primary, standby, before):
    """The database fails over under load."""
    writer = Writer(nodes)
    writer.start()
    until(lambda: len(writer.acknowledged) > 50)
    primary.stop()
    standby.promote()
    standby.sql("ALTER SYSTEM RESET synchronous_standby_names")
    standby.sql("SELECT pg_reload_conf()")
    more = len(writer.acknowledged) + 50
    check("promoted: writes go on", until(lambda: len(writer.acknowledged) > more, 60),
          [n.lines[-5:] for n in nodes])
    writer.end()
    print(f"promoted: a writer waited {writer.longest_s:.1f} s at most")
    return check_all("promoted", nodes, standby, writer, before)


def same_as_files(node):
    """An export of the shared log, imported into a ledger of files."""
    export = node.ask("GET", "/export?format=ndjson")[2]
    folder = Path(tempfile.mkdtemp(prefix="ron-shared-"))
    done = subprocess.run([os.environ["RON_BIN"], "ledger", "import", "--dir", f"{folder}/data"],
                          input=export, capture_output=True)
    check("files: the same entries give the same root", done.returncode == 0,
          done.stdout + done.stderr)
    shutil.rmtree(folder)


def main():
    if not pgserver.there():
        print("skipped: needs postgresql-15")
        sys.exit(77)
    folder = tempfile.mkdtemp(prefix="ron-shared-")
    make_keys(folder)
    primary = pgserver.Cluster()
    standby = pgserver.Cluster(primary)
    try:
        dsn = pgserver.dsn(primary, standby)
        with Node("a", folder, dsn) as a:
            check("alone: leads", until(a.leads), a.lines[-10:])
            with Node("b", folder, dsn) as b:
                check("second: follows", until(b.follows), b.lines[-10:])
                follow_and_refuse(a, b)
                freeze(a, b)
                total = takeover(a, b, primary, 0)
                total = fenced(a, b, primary, total)
                total = promoted([a, b], primary, standby, total)
                same_as_files(a if a.leads() else b)
        for node in (a, b):
            audit("end", node)
    finally:
        standby.remove()
        primary.remove()
        shutil.rmtree(folder, ignore_errors=True)
    finish()


main()
