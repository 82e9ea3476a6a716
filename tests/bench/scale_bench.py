#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench scale`: a ledger whose log is PostgreSQL, a follower, and a failover, as Markdown.

Method. One private PostgreSQL 15 with its defaults for durability and no standby. The ledger
(RON_BIN) commits into it: batches of 1,000 over OAP, and one transfer a request over HTTP from 64
connections. The peer is the same database with the schema of ../shared/lab/pg under pgbench, row by
row, in the same repetition. Medians with (smallest..largest). Lag is the time from a leader's
answer to the same seq at a follower, asked each few milliseconds while the leader takes 100,000
transfers a second in batches. Failover is the time from SIGKILL of the leader to the next
acknowledged write.

Settings: RON_BENCH_REPS (3), RON_BENCH_SECONDS of a run (3), RON_BENCH_NOISE, RON_BENCH_WAIT_S."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import pgserver  # noqa: E402
from benchkit import busy_s, children_s, cpu_s, setting, spread, wait_for_quiet  # noqa: E402
from ledgerkit import Ledger, entry  # noqa: E402

REPS = setting("REPS", 3)
SECONDS = setting("SECONDS", 3)
ACCOUNTS = 10000
LOAD = str(Path(os.environ.get("RON_BENCH_DIR", "build/release/bench")) / "bench_ledger")
PG = Path(__file__).resolve().parents[3] / "shared" / "lab" / "pg"
noise = []


class Node(Ledger):
    def __init__(self, name, folder, database):
        home = Path(folder) / name
        home.mkdir(mode=0o700)
        shutil.copy(Path(folder) / "cap.keys", home / "cap.keys")
        port = pgserver.free_port()
        super().__init__("--engine.sink=postgres", f"--postgres.dsn={pgserver.dsn(database)}",
                         f"--postgres.advertise=http://127.0.0.1:{port}",
                         "--postgres.migrate=true", f"--bind_addr=127.0.0.1:{port}",
                         f"--oap.addr=unix:{home}/oap", "--limits.connections=4096",
                         "--limits.inflight=4096", "--engine.segment_bytes=64MiB", folder=home)
        self.oap_addr = f"unix:{home}/oap"

    def wait(self, degraded):
        while True:
            status, found = self.get("/readyz", token=None)
            if status == 200 and found["degraded"] == degraded:
                return
            time.sleep(0.02)

    def seq(self):
        return int(self.ask("GET", "/checkpoint", token=None)[2].split(b"\n")[1])


def load(node, what, front, connections, batch, seconds=0, rate=0):
    address = node.addr if front == "http" else node.oap_addr
    wait_for_quiet()
    busy, cpu, mine, start = busy_s(), cpu_s(node.process.pid), children_s(), time.monotonic()
    done = subprocess.run([LOAD, what, front, address, node.token, str(ACCOUNTS), str(connections),
                           str(batch), str(seconds), "0", "time", "0", str(rate)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr + "\n".join(node.lines[-5:]))
    r = json.loads(done.stdout)
    cpu, mine = cpu_s(node.process.pid) - cpu, children_s() - mine
    r["cpu_us"] = cpu / max(1, r["entries"]) * 1e6
    r["noise"] = max(0.0, (busy_s() - busy - cpu - mine) / (time.monotonic() - start))
    return r


def row_by_row(database):
    out = subprocess.run(["pgbench", "-h", "127.0.0.1", "-p", str(database.port), "-U", "postgres",
                          "-n", "-M", "prepared", "-f", PG / "uniform.sql", "-c", "64", "-j", "2",
                          "-T", str(SECONDS), "postgres"], capture_output=True, text=True)
    for line in out.stdout.splitlines():
        if line.startswith("tps = "):
            return float(line.split()[2])
    raise RuntimeError(out.stderr)


def lag(leader, follower):
    """Milliseconds from an answer of the leader to the same seq at the follower."""
    found = []
    over = threading.Event()

    def watch():
        while not over.is_set():
            seq, began = leader.seq(), time.monotonic()
            while follower.seq() < seq and not over.is_set():
                time.sleep(0.002)
            found.append((time.monotonic() - began) * 1000)

    watcher = threading.Thread(target=watch)
    watcher.start()
    r = load(leader, "load", "oap", 4, 1000, seconds=SECONDS, rate=100)
    over.set()
    watcher.join()
    found.sort()
    return r, found


def failover(leader, follower):
    """Seconds from the kill to the next write that is acknowledged."""
    leader.kill()
    began = time.monotonic()
    while True:
        try:
            if follower.ingest(entry("Mint", "u:later", 1))[0] == 200:
                return time.monotonic() - began
        except OSError:
            pass
        time.sleep(0.01)


def rows(leader, database, peer):
    runs = {"batches of 1,000 over OAP, 8 connections": ("oap", 8, 1000, 300000, 20),
            "one transfer a request over HTTP, 64 connections": ("http", 64, 1, 10000, None)}
    found = {text: ([], []) for text in runs}
    for _ in range(REPS):
        for text, (front, connections, batch, _, _) in runs.items():
            found[text][0].append(load(leader, "load", front, connections, batch, SECONDS))
            if peer:
                found[text][1].append(row_by_row(database))
    print("\n| workload | transfers/s | p50 us | p99 us | ledger us/transfer | beside row by row "
          "| aim | |\n|---|---|---|---|---|---|---|---|")
    for text, (_, _, _, aim, times) in runs.items():
        got, base = found[text]
        rate = [r["per_s"] for r in got]
        ratio = [a / b for a, b in zip(rate, base)]
        good = statistics.median(rate) >= aim and \
            (times is None or not ratio or statistics.median(ratio) >= times)
        print(f"| {text} | {spread(rate, 0)} | {statistics.median(r['p50_us'] for r in got):.0f} | "
              f"{statistics.median(r['p99_us'] for r in got):.0f} | "
              f"{spread([r['cpu_us'] for r in got], 2)} | "
              f"{'x ' + spread(ratio, 1) if ratio else ''} | {aim:,}/s"
              f"{f' and x {times}' if times else ''} | {'met' if good else 'missed'} |")
        noise.extend(r["noise"] for r in got)


def main():
    if not pgserver.there():
        sys.exit("needs postgresql-15")
    folder = tempfile.mkdtemp(prefix="ron-scale-")
    subprocess.run([os.environ["RON_BIN"], "cap", "key", "new", "--id", "k1", "--keys",
                    f"{folder}/cap.keys"], check=True, capture_output=True)
    database = pgserver.Cluster()
    try:
        peer = (PG / "schema.sql").exists()
        if peer:
            database.sql((PG / "schema.sql").read_text())
        leader = Node("a", folder, database)
        leader.wait(False)
        load(leader, "fund", "oap", 4, 1000)
        print(f"## Beyond one machine\n\n{REPS} repetitions of {SECONDS} s, {os.cpu_count()} cores "
              "for ledger, database and load alike.")
        rows(leader, database, peer)
        follower = Node("b", folder, database)
        follower.wait(True)
        while follower.seq() < leader.seq():
            time.sleep(0.05)
        r, late = lag(leader, follower)
        print(f"\nA follower beside a leader that takes {r['per_s']:.0f} transfers a second: lag "
              f"p50 {late[len(late) // 2]:.0f} ms, p99 {late[int(len(late) * .99)]:.0f} ms of "
              f"{len(late)} (aim 100).")
        took = failover(leader, follower)
        print(f"\nWrites again {took:.1f} s after the leader was killed (lease 3 s; aim 5 s).")
        print(f"\nOthers than the ledger, database included, used {spread(noise, 2)} of a core.")
        follower.stop()
    finally:
        database.remove()
        shutil.rmtree(folder, ignore_errors=True)


main()
