#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench scale`: a ledger whose log is PostgreSQL, a follower, and a failover, as Markdown.

Method. One private PostgreSQL 15 with its defaults for durability and no standby. The ledger
(RON_BIN) commits into it: batches of 1,000 over OAP, and one transfer a request over HTTP from 64
connections. The peer is the same database with the schema of peer_pg/ under pgbench, row by
row, in the same repetition. Medians with (smallest..largest). Lag is the time from a leader's
answer to the same seq at a follower, asked each few milliseconds while the leader takes 100,000
transfers a second in batches. Failover is the time from SIGKILL of the leader to the next
acknowledged write, with the default lease; the killed one is started anew and follows before the
next. Row by row is measured right before and after each run of batches: the mean of both is beside
it.

Settings: RON_BENCH_REPS (3), RON_BENCH_SECONDS of a run (3), RON_BENCH_NOISE, RON_BENCH_WAIT_S."""
import http.client
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
PG = Path(__file__).resolve().parent / "peer_pg"
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

    def wait(self, degraded, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status, found = self.get("/readyz", token=None)
            if status == 200 and found["degraded"] == degraded:
                return
            time.sleep(0.02)
        raise RuntimeError("\n".join(self.lines[-5:]))

    def seq(self):
        """What is durable; not of a checkpoint, which may be a signed one of a moment ago."""
        return self.get("/head", token=None)[1]["seq"]


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
        last = leader.seq()
        while not over.is_set():
            seq, began = leader.seq(), time.monotonic()
            if seq == last:  # nothing new, so nothing to be late with
                continue
            last = seq
            while follower.seq() < seq and not over.is_set():
                time.sleep(0.002)
            found.append((time.monotonic() - began) * 1000)

    watcher = threading.Thread(target=watch)
    watcher.start()
    r = load(leader, "load", "oap", 4, 1000, seconds=SECONDS, rate=100)
    over.set()
    watcher.join()
    return r, sorted(found)


def lags(leader, follower):
    """A line about the lag, of as many runs as of the others."""
    rates, halves, worst, count = [], [], [], 0
    for _ in range(REPS):
        r, found = lag(leader, follower)
        rates.append(r["per_s"])
        halves.append(found[len(found) // 2])
        worst.append(found[min(len(found) - 1, int(len(found) * .99))])
        count += len(found)
        while follower.seq() < leader.seq():
            time.sleep(0.02)
    print(f"\nA follower beside a leader that takes {spread(rates, 0)} transfers a second: lag p50 "
          f"{spread(halves, 1)} ms, p99 {spread(worst, 1)} ms of {count} looks (aim 100 ms: "
          f"{'met' if statistics.median(worst) < 100 else 'missed'}).")


def failover(leader, follower):
    """Seconds from the kill to the next write that is acknowledged."""
    leader.kill()
    began = time.monotonic()
    while True:
        try:
            if follower.ingest(entry("Mint", "u:later", 1))[0] == 200:
                return time.monotonic() - began
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.01)


def failovers(leader, follower):
    """A line about them; who leads in the end, and who follows."""
    took = []
    for _ in range(REPS):
        took.append(failover(leader, follower))
        leader.start()
        leader.wait(True)
        leader, follower = follower, leader
    print(f"\nWrites again {spread(took, 1)} s after the leader was killed (lease 3 s; aim 5 s: "
          f"{'met' if statistics.median(took) < 5 else 'missed'}).")
    return leader, follower


def rows(leader, database):
    runs = {"batches of 1,000 over OAP, 8 connections": ("oap", 8, 1000, 300000, 20),
            "one transfer a request over HTTP, 64 connections": ("http", 64, 1, 10000, None)}
    found = {text: ([], []) for text in runs}
    for _ in range(REPS):
        for text, (front, connections, batch, _, _) in runs.items():
            before = row_by_row(database)
            found[text][0].append(load(leader, "load", front, connections, batch, SECONDS))
            found[text][1].append((before + row_by_row(database)) / 2)
    print("\n| workload | transfers/s | p50 us | p99 us | ledger us/transfer | beside row by row "
          "| aim | |\n|---|---|---|---|---|---|---|---|")
    for text, (_, _, _, aim, times) in runs.items():
        got, base = found[text]
        rate = [r["per_s"] for r in got]
        ratio = [a / b for a, b in zip(rate, base)]
        good = statistics.median(rate) >= aim and \
            (times is None or bool(ratio) and statistics.median(ratio) >= times)
        base_text = f" of {spread(base, 0)}/s" if base else ""
        print(f"| {text} | {spread(rate, 0)} | {statistics.median(r['p50_us'] for r in got):.0f} | "
              f"{statistics.median(r['p99_us'] for r in got):.0f} | "
              f"{spread([r['cpu_us'] for r in got], 2)} | "
              f"{'x ' + spread(ratio, 1) + base_text if ratio else ''} | {aim:,}/s"
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
        database.sql((PG / "schema.sql").read_text())
        leader = Node("a", folder, database)
        leader.wait(False)
        load(leader, "fund", "oap", 4, 1000)
        print(f"## Beyond one machine\n\n{REPS} repetitions of {SECONDS} s, {os.cpu_count()} cores "
              "for ledger, database and load alike.")
        rows(leader, database)
        follower = Node("b", folder, database)
        follower.wait(True)
        while follower.seq() < leader.seq():
            time.sleep(0.05)
        lags(leader, follower)
        leader, follower = failovers(leader, follower)
        print(f"\nOthers than the ledger, database included, used {spread(noise, 2)} of a core.")
        leader.stop()
        follower.stop()
    finally:
        database.remove()
        shutil.rmtree(folder, ignore_errors=True)


main()
