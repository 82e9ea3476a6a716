#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench wallet`: wallet and ledger (RON_BIN, joined by a Unix socket) beside PostgreSQL 15
behind a thin HTTP server in Go (peer_wallet/main.go), as Markdown.

Method. Every row is a workload. In each repetition each row runs once, wallet and peer in turn; a
ratio is taken inside one repetition; shown are medians with (smallest..largest). Durable means
synced before the answer, here and there; both get the same requests. The load generator
(bench_wallet, one thread) shares the cores with the servers. Processor time is that of all threads
of a process (schedstat) over the transfers. Before the rows every account is touched once, because
the wallet then reads its debits of the day; what that costs is told apart. The end of the report
says how busy others were.

Rows with a rate are paced: requests are due at equal distances, whatever the server does, and the
time of each counts from when it was due; what a stall keeps waiting is in the figure. The others
are closed loops: each connection sends as soon as it is answered, so the servers are always full,
and a latency there is the number of connections over the rate.

Overload: a wallet that takes 64 requests in at once gets three times as many clients; one that is
answered 429 comes again after 10 ms, far sooner than Retry-After says. (A rate of three times the
capacity cannot be sent and refused by the same two cores that are needed for the capacity; so it is
also done with a wallet that is given a rate of 15,000 a second, to which three times that come.)
Accepted requests are compared with those of 64 clients; the ledger is asked afterwards whether
every accepted transfer is there.

Without postgresql-15, root, go or pgx the peer is left out, which is
said. Settings: RON_BENCH_REPS (3), RON_BENCH_SECONDS of a run (3), RON_BENCH_ROWS (comma list of
row names, `overload` and `touched`; all), RON_BENCH_NOISE, RON_BENCH_WAIT_S.
"""
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from benchkit import busy_s, children_s, cpu_s, setting, spread, wait_for_quiet  # noqa: E402
from httpkit import status_kib  # noqa: E402
from ledgerkit import Ledger  # noqa: E402
from pgkit import Postgres  # noqa: E402

REPS = setting("REPS", 3)
SECONDS = setting("SECONDS", 3)
ROWS = setting("ROWS", "")
ACCOUNTS = 10000  # as many as the peer's schema has
TOUCHED = 100000
LIMIT = 15000  # requests/s of the second overload: three times that leaves the machine room
CLIENTS = 64  # of the overload, times three
PROGRAM = os.environ["RON_BIN"]
BENCH = Path(os.environ.get("RON_BENCH_DIR", "build/release/bench"))
noise = []

# name, text, what, connections, hot, rate of a paced row, whether the peer has it, aims: rate,
# ratio, p99 in us
TABLE = [
    ("http-64", "one transfer a request, 64 connections", "transfer", 64, 0, 0, True, 25000, 4,
     10000),
    ("paced-64", "25,000 transfers a second, 64 connections", "transfer", 64, 0, 25000, False,
     25000, None, 10000),
    ("http-256", "one transfer a request, 256 connections", "transfer", 256, 0, 0, True, 35000, 4,
     10000),
    ("paced-256", "35,000 transfers a second, 256 connections", "transfer", 256, 0, 35000, False,
     35000, None, 10000),
    ("http-64-hot", "the same, 64 connections, hot account", "transfer", 64, 1, 0, True, 25000, 15,
     10000),
    ("http-256-hot", "the same, 256 connections, hot account", "transfer", 256, 1, 0, True, 35000,
     15, 10000),
    ("balance", "balance reads, 64 connections", "balance", 64, 0, 0, True, 70000, None, None),
    ("batch-50", "`/v1/batch` of 50, 16 connections", "batch", 16, 0, 0, False, 150000, None,
     None),
]
KEPT = 0.99  # of its rate a paced row keeps; the run ends with the last answer, so never all


def chosen(name):
    return not ROWS or name in ROWS.split(",")


def load(what, addr, token, pids, connections, seconds=0, count=0, hot=0, pause_ms=0,
         rate=0, accounts=ACCOUNTS):
    """One run; `cpu_us` is processor time of each of `pids` over what was done."""
    wait_for_quiet()
    busy, mine, start = busy_s(), children_s(), time.monotonic()
    before = [cpu_s(p) for p in pids]
    done = subprocess.run([BENCH / "bench_wallet", what, addr, token, str(accounts),
                           str(connections), str(seconds), str(count), str(hot), str(pause_ms),
                           str(rate)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    r = json.loads(done.stdout)
    used = [cpu_s(p) - b for p, b in zip(pids, before)]
    noise.append(max(0.0, (busy_s() - busy - sum(used) - (children_s() - mine)) /
                     (time.monotonic() - start)))
    r["cpu_us"] = [u / max(1, r["done"]) * 1e6 for u in used]
    return r


# ---- contenders ----------------------------------------------------------------------------------

class Ron:
    """A ledger and a wallet before it."""

    def __init__(self, accounts, *options):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-bench-"))
        self.ledger = Ledger(f"--oap.addr=unix:{self.folder}/run/oap",
                             "--engine.segment_bytes=64MiB", folder=self.folder)
        token_file = self.folder / "ledger.token"
        token_file.touch(0o600)
        token_file.write_text(self.ledger.token)
        keys = self.folder / "wallet.keys"
        self.cap("key", "new", "--id", "w1", "--keys", keys)
        self.token = self.cap("mint", "--keys", keys, "--aud", "wallet", "--scope", "wallet")
        self.addr = None
        self.process = subprocess.Popen(
            [PROGRAM, "wallet", "--bind_addr=127.0.0.1:0", f"--auth.key_file={keys}",
             f"--upstreams.ledger_addr=unix:{self.folder}/run/oap", "--limits.rate_per_second=0",
             f"--upstreams.ledger_token_file={token_file}", "--log.format=json", *options],
            stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        if not self.ready.wait(30):
            raise RuntimeError("the wallet does not start:\n" + "\n".join(self.lines[-10:]))
        self.pids = [self.process.pid, self.ledger.process.pid]
        subprocess.run([BENCH / "bench_ledger", "fund", "oap", f"unix:{self.folder}/run/oap",
                        self.ledger.token, str(accounts), "4", "1000", "0", "0", "time", "0"],
                       check=True, capture_output=True)

    @staticmethod
    def cap(*words):
        return subprocess.run([PROGRAM, "cap", *words], check=True, capture_output=True,
                              text=True).stdout.strip()

    def read_log(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            found = re.search(r'"addr":"([^"]+)"', line)
            if found:
                self.addr = found[1]
            if "ledger connected" in line:
                self.ready.set()

    def run(self, what, connections, **more):
        return load(what, self.addr, self.token, self.pids, connections, **more)

    def stop(self):
        self.process.terminate()
        codes = self.process.wait(60), self.ledger.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        if codes != (0, 0):
            raise RuntimeError(f"wallet and ledger ended with {codes}")


class Peer:
    """PostgreSQL and the server before it; `there` is False where one of them is missing."""

    def __init__(self):
        self.postgres = Postgres()
        self.there = self.postgres.there and self.build()
        if not self.there:
            return
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.addr = "127.0.0.1:%d" % probe.getsockname()[1]
        # 32 connections: where PostgreSQL is fastest with two cores.
        self.process = subprocess.Popen([self.server, self.addr, str(self.postgres.folder), "32"])
        self.pids = [self.process.pid, self.postgres.pid]
        host, port = self.addr.split(":")
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("the peer does not listen")

    def build(self):
        """With Debian's packages alone: nothing is fetched."""
        self.folder = Path(tempfile.mkdtemp(prefix="ron-peer-"))
        self.server = self.folder / "peer"
        try:
            built = subprocess.run(
                ["go", "build", "-o", self.server,
                 Path(__file__).resolve().parent / "peer_wallet" / "main.go"],
                env={**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode",
                     "GOCACHE": str(self.folder / "cache")}, capture_output=True, text=True)
        except FileNotFoundError:
            return False
        return built.returncode == 0

    def run(self, what, connections, **more):
        r = load(what, self.addr, "none", self.pids, connections, **more)
        self.postgres.rest()
        return r

    def stop(self):
        if self.there:
            self.process.kill()
            self.process.wait()
        if self.postgres.there:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.postgres.stop()


# ---- rows ----------------------------------------------------------------------------------------

def verdict(good):
    return "met" if good else "missed"


def rows(ron, peer):
    found = {name: [] for name, *_ in TABLE}
    peers = {name: [] for name, *_ in TABLE}
    for repetition in range(REPS):
        for name, _, what, connections, hot, rate, with_peer, *_ in TABLE:
            if not chosen(name):
                continue
            if with_peer and peer.there:
                peers[name].append(peer.run(what, connections, seconds=SECONDS, hot=hot))
            found[name].append(ron.run(what, connections, seconds=SECONDS, hot=hot, rate=rate))
            print(f"{name} {repetition + 1}/{REPS}: {found[name][-1]['per_s']:.0f}/s",
                  file=sys.stderr)
    return found, peers


def print_rows(found, peers):
    print("\n| workload | operations/s | p50 us | p99 us | max us | wallet us each | ledger us each"
          " | peer/s | peer p99 us | beside the peer | aim | |\n" + "|---" * 12 + "|")
    for name, text, _, _, _, paced, _, rate_aim, ratio_aim, p99_aim in TABLE:
        runs, others = found[name], peers[name]
        if not runs:
            continue
        ratios = [r["per_s"] / p["per_s"] for r, p in zip(runs, others)]
        p99 = statistics.median(r["p99_us"] for r in runs)
        enough = rate_aim * (KEPT if paced else 1)
        good = statistics.median(r["per_s"] for r in runs) >= enough and \
            (not p99_aim or p99 <= p99_aim) and \
            (not ratio_aim or not ratios or statistics.median(ratios) >= ratio_aim)
        aim = f"{rate_aim:,}/s" + (f", p99 {p99_aim:,} us" if p99_aim else "") + \
            (f", x {ratio_aim}" if ratio_aim else "")
        peer_text = f"{spread([p['per_s'] for p in others], 0)} | " \
                    f"{statistics.median(p['p99_us'] for p in others):.0f} | " \
                    f"x {spread(ratios, 2)}" if others else " | | "
        print(f"| {text} | {spread([r['per_s'] for r in runs], 0)} | "
              f"{statistics.median(r['p50_us'] for r in runs):.0f} | {p99:.0f} | "
              f"{max(r['max_us'] for r in runs):.0f} | "
              f"{spread([r['cpu_us'][0] for r in runs], 1)} | "
              f"{spread([r['cpu_us'][1] for r in runs], 1)} | {peer_text} | {aim} | "
              f"{verdict(good)} |")


def head_seq(ron):
    return ron.ledger.get("/head")[1]["seq"]


def overload(what, pause_ms, calm_rate, *options):
    """Three times the clients that it has room for, or three times the rate that it is given."""
    ron = Ron(ACCOUNTS, *options)
    try:
        if calm_rate:
            ron.run("transfer", CLIENTS, seconds=1, rate=calm_rate)
        else:
            ron.run("transfer", CLIENTS, count=ACCOUNTS)
        first = head_seq(ron)
        calm, runs = [], []
        for _ in range(REPS):
            calm.append(ron.run("transfer", CLIENTS, seconds=SECONDS, rate=calm_rate))
            runs.append(ron.run("flood", 3 * CLIENTS, seconds=SECONDS, pause_ms=pause_ms))
        last = head_seq(ron)
    finally:
        ron.stop()
    print_overload(what, calm, runs, last - first)


def print_overload(what, calm, runs, committed):
    lost = sum(r["done"] for r in calm + runs) - committed
    ratio = statistics.median(r["p99_us"] for r in runs) / \
        statistics.median(r["p99_us"] for r in calm)
    print(f"\n| overload: {what} | found | aim | |\n|---|---|---|---|")
    print(f"| requests/s that came | {spread([r['offered_per_s'] for r in runs], 0)} | | |")
    times = [r["offered_per_s"] / r["per_s"] for r in runs]
    print(f"| accepted/s, beside {spread([r['per_s'] for r in calm], 0)} of {CLIENTS} clients | "
          f"{spread([r['per_s'] for r in runs], 0)}; x {spread(times, 1)} of that came | | |")
    print(f"| p99 of accepted, us | {spread([r['p99_us'] for r in runs], 0)}, x {ratio:.2f} of "
          f"{spread([r['p99_us'] for r in calm], 0)} | x 2 | {verdict(ratio <= 2)} |")
    refused = [r["refused_p99_us"] for r in runs]
    print(f"| p99 of 429, us; p50 {spread([r['refused_p50_us'] for r in runs], 0)} | "
          f"{spread(refused, 0)} | 2,000 | {verdict(statistics.median(refused) <= 2000)} |")
    print(f"| accepted transfers that the ledger does not have | {lost} | 0 | "
          f"{verdict(lost == 0)} |")


def touched():
    """Memory when many accounts have been used, and what the first use of an account costs."""
    ron = Ron(TOUCHED)
    try:
        before = status_kib(ron.pids[0])
        first = ron.run("transfer", 256, count=TOUCHED, accounts=TOUCHED)
        ron.run("balance", 64, count=TOUCHED, accounts=TOUCHED)
        rss = status_kib(ron.pids[0])
    finally:
        ron.stop()
    print(f"\nResident memory of the wallet: {before / 1024:.1f} MiB at the start, "
          f"{rss / 1024:.1f} MiB with {TOUCHED:,} accounts paid from and read "
          f"(aim 48: {verdict(rss <= 49152)}).")
    print(f"\nFirst transfer of an account on a day, which asks the ledger for its debits: "
          f"{first['per_s']:.0f}/s over 256 connections, wallet {first['cpu_us'][0]:.1f} us and "
          f"ledger {first['cpu_us'][1]:.1f} us each.")


def main():
    if "--help" in sys.argv:
        print(__doc__)
        return
    peer = Peer()
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        print(f"## The wallet\n\nMachine: {model[1] if model else 'unknown processor'}, "
              f"{os.cpu_count()} cores, Linux {os.uname().release}. {REPS} repetitions of "
              f"{SECONDS} s, {ACCOUNTS:,} accounts.")
        if not peer.there:
            print("\nPostgreSQL is not compared: a package or root is missing.")
        if any(chosen(row[0]) for row in TABLE):
            ron = Ron(ACCOUNTS)
            try:
                ron.run("transfer", 64, count=ACCOUNTS)
                print_rows(*rows(ron, peer))
            finally:
                ron.stop()
        if chosen("overload"):
            overload("three times the clients", 10, 0, f"--limits.inflight={CLIENTS}")
            overload(f"three times its rate of {LIMIT:,} requests/s", 5, LIMIT * 8 // 10,
                     f"--limits.rate_per_second={LIMIT}", f"--limits.burst={LIMIT // 5}")
        if chosen("touched"):
            touched()
        print(f"\nOthers used {spread(noise, 2)} of a core during the runs.")
    finally:
        peer.stop()


main()
