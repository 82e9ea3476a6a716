#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: leases count on a machine that goes on.
"""Goal: what is known to go wrong with a log in PostgreSQL does not go wrong here. The table in
docs/formats/ledger-postgres.md says which test looks at which pitfall; these are the ones that need
whole ledgers.

Method: real servers and ledgers. A database that was put back, or is another one; rows that were
changed or are missing; sessions that are ended, a server process that dies, no server at all; a
pool of connections by pgbouncer in transaction mode; SERIALIZABLE as the default; a role that may
insert and read alone; a disk under the local copy that is full (tmpfs, where mounting is
allowed)."""
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
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import entry  # noqa: E402
from sharedkit import Node, audit, make_keys, until  # noqa: E402

POOLER = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"


def pay(node, count, account="u:a"):
    """Commits them one by one; how many were acknowledged."""
    return sum(node.ingest(entry("Mint", account, 1))[0] == 200 for _ in range(count))


def in_safe_mode(node):
    status, found = node.readyz()
    return status == 503 and "safe_mode" in found.get("missing", [])


def start_fails(node):
    """What it says when it does not start; "" when it does."""
    try:
        node.start()
    except RuntimeError as e:
        return str(e)
    node.stop()
    return ""


def sessions_and_locks(folder, database):
    """3 and 4: sessions come and go, and neither leading nor the numbers hang on them."""
    with Node("a", folder, pgserver.dsn(database)) as a:
        check("sessions: leads", until(a.leads), a.lines[-5:])
        before = database.sql("SELECT max(epoch) FROM ron.ledger_log")
        done = 0
        for _ in range(5):
            done += pay(a, 5)
            database.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                         "application_name LIKE 'ron-ledger%'")
        check("sessions: ended under it, and all was committed", done == 25 and
              until(lambda: a.balance("u:a") == (25, 0)), (done, a.balance("u:a")))
        check("sessions: it leads as before",
              database.sql("SELECT max(epoch) FROM ron.ledger_log") == before and until(a.leads))
        check("locks: none is advisory", database.sql(
            "SELECT count(*) FROM pg_locks WHERE locktype='advisory'") == "0")
        check("numbers: no sequence, no gap", database.sql(
            "SELECT (SELECT count(*) FROM pg_sequences WHERE schemaname='ron')::text||' '||"
            "(SELECT count(*)-1-max(slot) FROM ron.ledger_log)") == "0 0")
        # 7: a server process that dies takes the others with it, as a PANIC does.
        pay(a, 1)
        victim = int(database.sql("SELECT pid FROM pg_stat_activity WHERE application_name LIKE "
                                  "'ron-ledger log%' LIMIT 1"))
        os.kill(victim, signal.SIGABRT)
        check("panic: the server recovers and writes go on", until(lambda: pay(a, 1) == 1, 30),
              a.lines[-5:])


def no_database(folder, database):
    """Reads and recovery need no database; writes say that they may come again."""
    dsn = pgserver.dsn(database)
    with Node("a", folder, dsn) as a:
        check("away: leads first", until(a.leads))
        wanted = a.balance("u:a")
        a.stop()
        database.stop("fast")
        a.start()
        check("away: starts from its copy", a.balance("u:a") == wanted, a.balance("u:a"))
        status, found = a.readyz()
        check("away: is not ready", status == 503 and "shared_log" in found["missing"], found)
        status, got = a.ingest(entry("Mint", "u:a", 1))
        check("away: refuses writes, retryable", status == 421 and got["retryable"], (status, got))
        database.start()
        check("away: leads when the database is back", until(a.leads, 40), a.lines[-5:])
        check("away: and commits", pay(a, 1) == 1)
    fresh = Path(folder) / "fresh"
    database.stop("fast")
    try:
        Node("fresh", folder, dsn)
        check("away: without a copy it does not start", False)
    except RuntimeError as e:
        check("away: without a copy it does not start", "no connection to the database" in str(e),
              str(e)[-300:])
    database.start()
    shutil.rmtree(fresh, ignore_errors=True)


def put_back_under_a_follower(folder):
    """2: the same while it runs: a follower whose last row is gone, with nothing behind it."""
    database = pgserver.Cluster()
    try:
        with Node("i", folder, pgserver.dsn(database)) as i:
            check("put back beside: leads", until(i.leads, 40), i.lines[-5:])
            with Node("j", folder, pgserver.dsn(database), lease="60s") as j:
                check("put back beside: the other follows", until(j.follows, 40), j.readyz())
                done = pay(i, 3)
                check("put back beside: it has all", until(
                    lambda: j.balance("u:a") == (done, 0), 20), j.balance("u:a"))
                i.kill()
                database.sql("DELETE FROM ron.ledger_log WHERE slot=(SELECT max(slot) FROM "
                             "ron.ledger_log)")
                check("put back beside: the follower stops with an alarm",
                      until(lambda: in_safe_mode(j), 20), j.readyz())
                i.start()
                check("put back beside: so does the one that comes back",
                      until(lambda: in_safe_mode(i), 20), i.readyz())
    finally:
        database.remove()


def put_back(folder, database):
    """2: the database lacks what was acknowledged here. Then 10: it is another cluster."""
    with Node("b", folder, pgserver.dsn(database)) as b:
        check("put back: leads", until(b.leads, 40), b.lines[-5:])
        check("put back: commits", pay(b, 3) == 3)
        b.stop()
        database.sql("DELETE FROM ron.ledger_log WHERE slot=(SELECT max(slot) FROM "
                     "ron.ledger_log)")
        b.start()
        check("put back: stops with an alarm", until(lambda: in_safe_mode(b)), b.readyz())
        check("put back: says why", any("shared log lacks" in x for x in b.lines), b.lines[-5:])
        status, got = b.ingest(entry("Mint", "u:a", 1))
        check("put back: takes no write", status == 503, (status, got))
        b.expect = 0
    other = pgserver.Cluster()
    try:
        with Node("c", folder, pgserver.dsn(other)) as c:
            check("another: a ledger of its own", until(c.leads))
            pay(c, 2)
            c.stop()
            c.options = [x.replace(f"port={other.port}", f"port={database.port}")
                         for x in c.options]
            said = start_fails(c)
            check("another: refuses the other database", "of another ledger" in said, said[-400:])
            c.options = [x.replace(f"port={database.port}", f"port={other.port}")
                         for x in c.options]
            c.start()
            check("another: and goes on with its own", until(c.leads))
    finally:
        other.remove()


def tampered(folder):
    """6: a follower believes nothing that it cannot verify."""
    database = pgserver.Cluster()
    try:
        with Node("d", folder, pgserver.dsn(database)) as d:
            until(d.leads)
            pay(d, 6)
        keep = "CREATE TABLE keep AS SELECT * FROM ron.ledger_log WHERE slot=4"
        back = "DELETE FROM ron.ledger_log WHERE slot=4; INSERT INTO ron.ledger_log SELECT * " \
               "FROM keep"
        database.sql(keep)
        for name, harm in (
                ("a bit", "UPDATE ron.ledger_log SET frame=set_byte(frame,200,"
                          "get_byte(frame,200)#1) WHERE slot=4"),
                ("another frame", "UPDATE ron.ledger_log SET frame=(SELECT frame FROM "
                                  "ron.ledger_log WHERE slot=3) WHERE slot=4"),
                ("a missing row", "DELETE FROM ron.ledger_log WHERE slot=4")):
            database.sql(harm)
            home = Path(folder) / "e"
            with Node("e", folder, pgserver.dsn(database)) as e:
                check(f"tampered ({name}): a follower stops", until(lambda: in_safe_mode(e)),
                      e.readyz())
                check(f"tampered ({name}): and shows nothing of it",
                      e.balance("u:a")[0] <= 2, e.balance("u:a"))
            database.sql(back)
            shutil.rmtree(home)
        with Node("e", folder, pgserver.dsn(database)) as e:
            check("tampered: mended, it follows or leads", until(lambda: e.leads() or e.follows()))
            check("tampered: and has all", until(lambda: e.balance("u:a") == (6, 0)))
        shutil.rmtree(Path(folder) / "d")
        shutil.rmtree(Path(folder) / "e")
    finally:
        database.remove()


class Pooler:
    """pgbouncer in transaction mode, with two server sessions for all."""

    def __init__(self, database):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-pool-"))
        self.port = pgserver.free_port()
        (self.folder / "users").write_text('"ledger" ""\n')
        (self.folder / "ini").write_text(f"""[databases]
postgres = host=127.0.0.1 port={database.port} dbname=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {self.folder}/users
pool_mode = transaction
default_pool_size = 2
logfile = {self.folder}/log
""")
        user = ["--user", "postgres"] if os.getuid() == 0 else []
        shutil.chown(self.folder, "postgres") if user else None
        self.process = subprocess.Popen([POOLER, "-q", *user, str(self.folder / "ini")],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def pooled(folder):
    """5, 9 and the rights: two ledgers through one pool, as a role that may little, with
    SERIALIZABLE as the default of the database."""
    database = pgserver.Cluster()
    pooler = None
    try:
        with Node("f", folder, pgserver.dsn(database)) as f:  # makes the schema
            until(f.leads)
        database.sql("CREATE ROLE ledger LOGIN")
        database.sql("GRANT USAGE ON SCHEMA ron TO ledger; GRANT SELECT,INSERT ON ron.ledger_log "
                     "TO ledger; GRANT SELECT,INSERT,UPDATE ON ron.ledger_leader,ron.ledger_frozen "
                     "TO ledger")
        database.sql("ALTER DATABASE postgres SET default_transaction_isolation='serializable'")
        if os.path.exists(POOLER):
            pooler = Pooler(database)
            port = pooler.port
        else:
            print("pgbouncer is not installed: without a pool")
            port = database.port
        dsn = f"host=127.0.0.1 port={port} user=ledger dbname=postgres"
        check("pool: answers", eventually(lambda: subprocess.run(
            ["psql", "-At", "-c", "SELECT 1", dsn], capture_output=True).returncode == 0, 10))
        if pooler is not None and subprocess.run(["psql", "-At", "-c", "SHOW "
                                                  "transaction_isolation", dsn],
                                                 capture_output=True, text=True
                                                 ).stdout.strip() != "serializable":
            check("pool: SERIALIZABLE is the default", False)
        with Node("f", folder, dsn, migrate=False) as f, \
                Node("g", folder, dsn, migrate=False) as g:
            nodes = [f, g]
            leader = until(lambda: next((n for n in nodes if n.leads()), None), 40)
            other = f if leader is g else g
            check("pool: one leads, one follows", leader and until(other.follows),
                  [n.lines[-5:] for n in nodes])
            check("pool: commits", pay(leader, 20) == 20)
            os.kill(leader.process.pid, signal.SIGSTOP)
            check("pool: the other takes over", until(other.leads), other.lines[-5:])
            check("pool: and commits", pay(other, 5) == 5)
            os.kill(leader.process.pid, signal.SIGCONT)
            check("pool: who led before is fenced and follows, though nobody writes to it",
                  until(leader.follows), leader.lines[-5:])
            check("pool: nothing lost, nothing doubled",
                  until(lambda: all(n.balance("u:a") == (25, 0) for n in nodes)),
                  [n.balance("u:a") for n in nodes])
        audit("pool", f)
        audit("pool", g)
    finally:
        if pooler is not None:
            pooler.stop()
        database.remove()


def fill(path):
    """Until nothing more fits."""
    with open(path, "wb") as f:
        try:
            while True:
                f.write(b"x" * 65536)
                f.flush()
        except OSError:
            pass


def full_disk_of_a_follower(folder, database, h, filler):
    """The leader, whose disk has room, goes on; the follower says that it does not."""
    with Node("k", folder, pgserver.dsn(database)) as k:
        h.stop()  # it resigns, so the other one leads
        check("disk: the other leads", until(k.leads, 40), k.readyz())
        h.start()
        check("disk: it follows", until(h.follows, 40), h.readyz())
        fill(filler)
        end = time.monotonic() + 60
        while time.monotonic() < end and not in_safe_mode(h):
            k.ingest(*[entry("Mint", "u:a", 1, memo="m" * 200) for _ in range(500)])
        check("disk: a full one stops a follower", in_safe_mode(h), h.readyz())
        check("disk: and the leader goes on", pay(k, 2) == 2 and k.leads(), k.readyz())
        h.stop()


def full_disk(folder):
    """7: what cannot be written to the local copy stops the ledger, and is in the database."""
    disk = Path(folder) / "h"
    disk.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=0700", "tmpfs",
                              str(disk)], capture_output=True, text=True)
    if mounted.returncode != 0:
        print("left out: a small file system cannot be mounted here: " + mounted.stderr.strip())
        return
    database = pgserver.Cluster()
    h = None
    try:
        h = Node("h", folder, pgserver.dsn(database), "--engine.segment_bytes=4MiB")
        check("disk: leads", until(h.leads))
        done = pay(h, 3)
        filler = disk / "filler"
        fill(filler)
        end = time.monotonic() + 60
        while time.monotonic() < end and not in_safe_mode(h):
            status, _ = h.ingest(*[entry("Mint", "u:a", 1, memo="m" * 200) for _ in range(500)])
            done += 500 if status == 200 else 0
        check("disk: a full one stops the ledger", in_safe_mode(h), h.readyz())
        rows = int(database.sql("SELECT sum(entries) FROM ron.ledger_log"))
        check("disk: what was acknowledged is in the database", rows >= done, (rows, done))
        h.stop()
        filler.unlink()
        shutil.rmtree(h.data)
        h.start()
        check("disk: an empty directory is filled from the database",
              until(lambda: h.leads() and h.balance("u:a") == (rows, 0), 40),
              (h.balance("u:a"), rows))
        full_disk_of_a_follower(folder, database, h, filler)
    finally:
        if h is not None and h.process.poll() is None:
            h.stop()
        subprocess.run(["umount", str(disk)])
        database.remove()


def main():
    if not pgserver.there():
        print("skipped: needs postgresql-15")
        sys.exit(77)
    folder = tempfile.mkdtemp(prefix="ron-pitfalls-")
    make_keys(folder)
    database = pgserver.Cluster()
    try:
        sessions_and_locks(folder, database)
        no_database(folder, database)
        put_back(folder, database)
        put_back_under_a_follower(folder)
        tampered(folder)
        pooled(folder)
        full_disk(folder)
    finally:
        database.remove()
        shutil.rmtree(folder, ignore_errors=True)
    finish()


main()
