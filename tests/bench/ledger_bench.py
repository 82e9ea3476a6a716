#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench ledger`: the ledger (RON_BIN) beside PostgreSQL 15 and the bare disk, as Markdown.

Method. Every row is a workload. In each repetition each row runs once, the peers of a row in turn;
a ratio is taken inside one repetition; shown are medians with (smallest..largest). Durable means
synced before the answer, here and there. The load generator (bench_ledger, one thread) shares the
two cores with the server. Processor time is that of all threads of the server (schedstat) over the
entries. The end of the report says how busy others were.

PostgreSQL is started by this script in a directory of its own, with its defaults for durability and
the schema of peer_pg/; without the package postgresql-15 or root its rows are left
out, which is said.

The first large run is followed by its stalls: the longest request, beside the bare disk under as
many writes of that size in that time, and beside the same load with its files in memory. Proofs
are asked for at random, with the stored hashes in the system's cache and dropped from it, and as
root also with real-time priority, so that the ledger's own time is told from that in which the
machine ran something else.

The bare durable server peer_bare/server.c (one append and sync for all who wait, nothing else)
is built where its packages (node-llhttp, libjsmn-dev) are; both servers then get the same number
of requests a second, and the 99th percentiles are compared.

Settings: RON_BENCH_REPS (3), RON_BENCH_SECONDS of a run (3), RON_BENCH_ENTRIES of the large runs
(2000000; the specification asks for 20000000, and for a plot up to 100000000, which needs 25 GB of
disk), RON_BENCH_ACCOUNTS of them (1000000), RON_BENCH_STEPS of them (10), RON_BENCH_PLOT (a file
for the plot of their cost, as SVG; none), RON_BENCH_ROWS (comma list of row names and `yardstick`,
all), RON_BENCH_AGAINST (another `ron` program: the rows are run with both in turn, and nothing
else is), RON_BENCH_NOISE, RON_BENCH_WAIT_S.
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
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from benchkit import busy_s, children_s, cpu_s, setting, spread, wait_for_quiet  # noqa: E402
from httpkit import status_kib  # noqa: E402
import ledger_against  # noqa: E402
import ledger_proofs  # noqa: E402
import ledger_stalls  # noqa: E402
from ledgerkit import Ledger  # noqa: E402
from pgkit import PG, Postgres  # noqa: E402
from plotkit import fit, svg  # noqa: E402

REPS = setting("REPS", 3)
SECONDS = setting("SECONDS", 3)
ENTRIES = setting("ENTRIES", 2000000)
ACCOUNTS = setting("ACCOUNTS", 1000000)
ROWS = setting("ROWS", "")
STEPS = setting("STEPS", 10)  # of a large run
PLOT = setting("PLOT", "")
AGAINST = setting("AGAINST", "")
RATES = (5000, 20000)  # at which the bare server is the yardstick: well below what both can do
LOAD = str(Path(os.environ.get("RON_BENCH_DIR", "build/release/bench")) / "bench_ledger")
BARE = Path(__file__).resolve().parent / "peer_bare"
noise = []


# ---- contenders ----------------------------------------------------------------------------------

def folder_bytes(path):
    return sum(p.stat().st_blocks * 512 for p in Path(path).rglob("*") if p.is_file())


def unused_bytes(path):
    """Zeros behind the last frame, and the next segment: room that the log fills next."""
    found = 0
    for part in [*sorted(Path(path).rglob("*.seg"))[-1:], *Path(path).rglob("next.tmp")]:
        content = part.read_bytes()
        found += len(content) - len(content.rstrip(b"\0"))
    return found


def log_bytes(path):
    """Of all frames."""
    return folder_bytes(Path(path) / "log") - unused_bytes(path)


def settled_kib(pid, key="VmRSS"):
    """Resident memory once a burst is over: the ledger gives its memory back within two seconds."""
    time.sleep(3)
    return status_kib(pid, key)


class Ron:
    """One ledger over which all rows of a repetition run."""

    def __init__(self, accounts, where=None, program=Ledger.program):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-bench-", dir=where))
        kind = type("Ledger", (Ledger,), {"program": program})
        self.ledger = kind(f"--oap.addr=unix:{self.folder}/run/oap", "--limits.connections=4096",
                           "--limits.inflight=4096", "--engine.segment_bytes=64MiB",
                           folder=self.folder)
        self.ledger.start_s = 600  # a long journal takes its time
        self.pid = self.ledger.process.pid
        self.accounts = accounts
        self.run("fund", "oap", 4, 1000)

    def run(self, what, front, connections, batch, seconds=0, count=0, ids="time", hot=False,
            rate=0):
        address = self.ledger.addr if front == "http" else f"unix:{self.folder}/run/oap"
        wait_for_quiet()
        busy, cpu, mine, start = busy_s(), cpu_s(self.pid), children_s(), time.monotonic()
        done = subprocess.run([LOAD, what, front, address, self.ledger.token, str(self.accounts),
                               str(connections), str(batch), str(seconds), str(count), ids,
                               str(int(hot)), str(rate)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr + "\n".join(self.ledger.lines[-5:]))
        r = json.loads(done.stdout)
        cpu, mine = cpu_s(self.pid) - cpu, children_s() - mine
        noise.append(max(0.0, (busy_s() - busy - cpu - mine) / (time.monotonic() - start)))
        r["cpu_us"] = cpu / max(1, r["entries"]) * 1e6
        return r

    def stop(self):
        code = self.ledger.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        if code != 0:
            raise RuntimeError(f"the ledger ended with {code}")


class Bench(Postgres):
    """PostgreSQL under pgbench."""

    def run(self, script, connections, per):
        wait_for_quiet()
        with tempfile.TemporaryDirectory() as t:
            out = subprocess.run(["pgbench", *self.to, "-n", "-M", "prepared", "-f",
                                  PG / f"{script}.sql", "-c", str(connections), "-j", "2", "-T",
                                  str(SECONDS), "-l", f"--log-prefix={t}/l", "bench"],
                                 capture_output=True, text=True)
            took = sorted(int(line.split()[2]) for f in Path(t).glob("*")
                          for line in f.read_text().splitlines() if line.split()[2].isdigit())
        if not took:
            raise RuntimeError(out.stderr)
        self.rest()
        return {"per_s": len(took) * per / SECONDS, "p50_us": took[len(took) // 2],
                "p99_us": took[int(len(took) * .99)], "max_us": took[-1]}


def build_bare(name, program, *more):
    """Compiles a program of peer_bare/; False, with the compiler's word, where it cannot be."""
    done = subprocess.run(["gcc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", str(BARE / f"{name}.c"),
                           *more, "-o", str(program), "-lpthread"], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"peer_bare/{name}.c is not compared: it does not compile here:\n{done.stderr}")
    return done.returncode == 0


def llhttp():
    """Flags and sources of llhttp, which Debian packs as C inside node-llhttp."""
    listed = subprocess.run(["dpkg", "-L", "node-llhttp"], capture_output=True, text=True).stdout
    sources = re.findall(r"^\S*/(?:api|http|llhttp)\.c$", listed, re.MULTILINE)
    headers = re.findall(r"^(\S*)/llhttp/llhttp\.h$", listed, re.MULTILINE)
    return ["-w", *[f"-I{h}{sub}" for h in headers for sub in ("", "/llhttp")], *sources]


class Yardstick:
    """The bare durable server; `there` is False where it cannot be built."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-bare-"))
        self.there = build_bare("server", self.folder / "server", *llhttp())
        if not self.there:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen([self.folder / "server", str(self.port),
                                         self.folder / "file"], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while time.monotonic() < until:  # it fills its file with zeros first
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError("the bare server does not listen")

    def run(self, token, connections, rate):
        wait_for_quiet()
        done = subprocess.run([LOAD, "load", "bare", f"127.0.0.1:{self.port}", token, "10000",
                               str(connections), "1", str(SECONDS), "0", "time", "0", str(rate)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        return json.loads(done.stdout)

    def stop(self):
        if self.there:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


def disk_syncs():
    """Bare pwrite and fdatasync of 4 KiB into a zero-filled file, a second; None without gcc."""
    with tempfile.TemporaryDirectory() as t:
        if not build_bare("probe", f"{t}/probe"):
            return None
        return float(subprocess.run([f"{t}/probe", f"{t}/file", "4096", "6000"],
                                    capture_output=True, text=True, check=True).stdout)


# ---- rows ----------------------------------------------------------------------------------------

# name, text, how, peer, aim of the rate, aim of the ratio to the peer
SMALL = [
    ("http-64", "HTTP, one transfer a request, 64 connections", ("http", 64, 1),
     ("uniform", 32, 1), 35000, 6),
    ("http-64-hot", "HTTP, one transfer a request, 64 connections, hot account", ("http", 64, 1),
     ("hot", 32, 1), 35000, 25),
    ("http-256", "HTTP, one transfer a request, 256 connections", ("http", 256, 1), None, 55000,
     None),
    ("oap-64", "OAP over a Unix socket, one transfer a request, 64 connections", ("oap", 64, 1),
     None, 60000, None),
    ("oap-1", "OAP over a Unix socket, one connection, one transfer", ("oap", 1, 1), "disk", None,
     0.6),
    ("http-batch-50", "HTTP, batches of 50, 16 connections", ("http", 16, 50), None, 250000, None),
]
LARGE_CONNECTIONS = 16  # each with a batch under way: enough that a sync is never waited for
IN_MEMORY = "oap-batch-memory"
WITH_AIM = ("oap-batch", "oap-batch-hot")  # the others are reported
LARGE = [
    ("oap-batch", "OAP, batches of 1,000, 16 connections, ids by time", "time", False),
    ("oap-batch-random", "the same, random ids", "random", False),
    ("oap-batch-hot", "the same, hot account", "time", True),
    (IN_MEMORY, "the same, files in memory", "time", False),
]


def chosen(name):
    return not ROWS or name in ROWS.split(",")


def table(rows):
    print("\n| workload | transfers/s | p50 us | p99 us | max us | server us/transfer | beside the "
          "peer | aim | |\n|---|---|---|---|---|---|---|---|---|")
    for text, runs, ratios, rate_aim, ratio_aim in rows:
        met = (rate_aim is None or statistics.median(r["per_s"] for r in runs) >= rate_aim) and \
            (ratio_aim is None or not ratios or statistics.median(ratios) >= ratio_aim)
        aim = " and ".join(x for x in (f"{rate_aim:,}/s" if rate_aim else "",
                                       f"x {ratio_aim}" if ratio_aim else "") if x)
        print(f"| {text} | {spread([r['per_s'] for r in runs], 0)} | "
              f"{statistics.median(r['p50_us'] for r in runs):.0f} | "
              f"{statistics.median(r['p99_us'] for r in runs):.0f} | "
              f"{max(r['max_us'] for r in runs):.0f} | {spread([r['cpu_us'] for r in runs], 2)} | "
              f"{'x ' + spread(ratios, 2) if ratios else ''} | {aim} | "
              f"{('met' if met else 'missed') if aim else ''} |")


def small_rows(postgres):
    found = {name: ([], []) for name, *_ in SMALL}
    ron = Ron(10000)
    entries = 0
    try:
        rss = settled_kib(ron.pid)
        for repetition in range(REPS):
            for name, _, how, peer, _, _ in SMALL:
                if not chosen(name):
                    continue
                base = None
                if peer == "disk":
                    base = disk_syncs()
                elif peer and postgres.there:
                    base = postgres.run(*peer)["per_s"]
                r = ron.run("load", *how, seconds=SECONDS, hot="hot" in name)
                found[name][0].append(r)
                entries += r["entries"]
                if base:
                    found[name][1].append(r["per_s"] / base)
                print(f"{name} {repetition + 1}/{REPS}: {r['per_s']:.0f}/s", file=sys.stderr)
        later, private = settled_kib(ron.pid), status_kib(ron.pid, "RssAnon")
        gate(ron.ledger)
        latencies = yardstick_rows(ron) if chosen("yardstick") else []
    finally:
        ron.stop()
    table([(text, *found[name], rate, ratio) for name, text, _, _, rate, ratio in SMALL
           if found[name][0]])
    print_yardstick(latencies)
    print(f"\nResident memory with 10,000 accounts: {rss / 1024:.1f} MiB (aim 64: "
          f"{'met' if rss <= 65536 else 'missed'}). After these runs, {entries:,} entries later "
          f"and at rest: {later / 1024:.1f} MiB, of it {private / 1024:.1f} private and the rest "
          "files: the nonces of all entries of the horizon are remembered.")


def yardstick_rows(ron):
    """Both servers at the same rates over 64 connections: (rate, their p99s, ratios)."""
    bare = Yardstick()
    rows = []
    try:
        for rate in RATES if bare.there else ():
            pairs = [(ron.run("load", "http", 64, 1, seconds=SECONDS, rate=rate),
                      bare.run(ron.ledger.token, 64, rate)) for _ in range(REPS)]
            rows.append((rate, [r["p99_us"] for r, _ in pairs], [b["p99_us"] for _, b in pairs],
                         [r["p99_us"] / b["p99_us"] for r, b in pairs]))
            print(f"yardstick at {rate}/s", file=sys.stderr)
    finally:
        bare.stop()
    return rows


def print_yardstick(rows):
    if not rows:
        if chosen("yardstick"):
            print("\nThe bare durable server is not compared: its source or packages are missing.")
        return
    print("\n| requests/s over HTTP, 64 connections | p99 us | of the bare durable server | ratio "
          "| aim | |\n|---|---|---|---|---|---|")
    for rate, ours, bare, ratios in rows:
        print(f"| {rate} | {spread(ours, 0)} | {spread(bare, 0)} | x {spread(ratios, 2)} | x 2 | "
              f"{'met' if statistics.median(ratios) <= 2 else 'missed'} |")


missed = []  # of the gate: then the benchmark fails


def gate(ledger):
    """The service's own figures after the small runs, against the thresholds of its alerts."""
    text = ledger.get("/metrics", token=None)[1].decode()
    buckets = ledger_stalls.sync_buckets(ledger)
    p95 = next(bound for bound, count in buckets if count >= 0.95 * buckets[-1][1])
    depth = int(re.search(r'^queue_depth_max\{queue="commit"\} (\d+)', text, re.M)[1])
    capacity = int(re.search(r'^queue_capacity\{queue="commit"\} (\d+)', text, re.M)[1])
    refused = sum(int(n) for n in re.findall(
        r'^busy_rejections_total\{[^}]*queue="(?:ingress|batches)"[^}]*\} (\d+)', text, re.M))
    leaked = int(re.search(r"^tasks_leaked_total (\d+)", text, re.M)[1])
    print("\n| gate of the service's own figures | found | |\n|---|---|---|")
    for what, found, good in (
            ("95 of 100 syncs within 80 ms", f"{p95 * 1000:g} ms", p95 <= 0.08),
            ("commit queue below 80 % of its capacity", f"{depth} of {capacity}",
             depth < 0.8 * capacity),
            ("no request refused by a full ingress queue", f"{refused}", refused == 0),
            ("no task leaked", f"{leaked}", leaked == 0)):
        print(f"| {what} | {found} | {'met' if good else 'missed'} |")
        if not good:
            missed.append(what)


def large_rows(postgres):
    runs = {name: [] for name, *_ in LARGE}
    facts, growth, stall = {}, [], None
    for name, _, ids, hot in LARGE:
        if not chosen(name) or (name == IN_MEMORY and not ledger_stalls.memory_takes(ENTRIES)):
            continue
        ron = Ron(ACCOUNTS, ledger_stalls.MEMORY if name == IN_MEMORY else None)
        try:
            before = settled_kib(ron.pid, "RssAnon")
            parts = [ron.run("load", "oap", LARGE_CONNECTIONS, 1000, count=ENTRIES // STEPS,
                             ids=ids, hot=hot)
                     for _ in range(STEPS)]
            r = whole(parts)
            runs[name].append(r)
            if name == "oap-batch":
                growth = parts
                stall = (r, ledger_stalls.sync_buckets(ron.ledger), log_bytes(ron.ledger.data))
                facts = after_load(ron, before, r)
        finally:
            ron.stop()
        print(f"{name}: {r['per_s']:.0f}/s", file=sys.stderr)
    table([(text, runs[name], [], 1000000 if name in WITH_AIM else None, None)
           for name, text, _, _ in LARGE if runs[name]])
    if postgres.there and runs["oap-batch"]:
        peer = postgres.run("batch", 2, 1000)
        print(f"\nPostgreSQL in batches of 1,000: {peer['per_s']:.0f} transfers/s; the ledger x "
              f"{runs['oap-batch'][0]['per_s'] / peer['per_s']:.1f}.")
    print_growth(growth)
    if stall:
        facts["stall"] = ledger_stalls.report(*stall, next(iter(runs[IN_MEMORY]), None))
    for text in facts.values():
        print(f"\n{text}")


def against():
    """All chosen rows, beside another program."""
    rows = [{"name": name, "text": text, "accounts": 10000,
             "run": lambda ron, how=how, name=name: ron.run("load", *how, seconds=SECONDS,
                                                            hot="hot" in name)}
            for name, text, how, _, _, _ in SMALL if chosen(name)]
    rows += [{"name": name, "text": text, "accounts": ACCOUNTS,
              "run": lambda ron, ids=ids, hot=hot: ron.run("load", "oap", LARGE_CONNECTIONS, 1000,
                                                           count=ENTRIES, ids=ids, hot=hot)}
             for name, text, ids, hot in LARGE if chosen(name) and name != IN_MEMORY]
    ledger_against.compare(lambda row, program: Ron(row["accounts"], program=program), rows,
                           AGAINST, REPS)


def whole(parts):
    """One run out of its steps."""
    entries = sum(p["entries"] for p in parts)
    seconds = sum(p["seconds"] for p in parts)
    return {"entries": entries, "seconds": seconds, "per_s": entries / seconds,
            "p50_us": statistics.median(p["p50_us"] for p in parts),
            "p99_us": max(p["p99_us"] for p in parts), "max_us": max(p["max_us"] for p in parts),
            "cpu_us": sum(p["cpu_us"] * p["entries"] for p in parts) / entries}


def print_growth(parts):
    """How the cost of a transfer grows with the journal."""
    if not parts:
        return
    print("\n| entries in the journal | transfers/s | server us/transfer | p99 us | max us |"
          "\n|---|---|---|---|---|")
    at = ACCOUNTS
    points = []
    for p in parts:
        at += p["entries"]
        points.append((at, p["cpu_us"]))
        print(f"| {at:,} | {p['per_s']:.0f} | {p['cpu_us']:.2f} | {p['p99_us']:.0f} | "
              f"{p['max_us']:.0f} |")
    if len(points) > 1:
        a, b = fit(points)
        print(f"\nServer time a transfer, fitted: {a:.2f} us {b:+.3f} us for each doubling of the "
              "journal.")
    if PLOT and len(points) > 1:
        Path(PLOT).write_text(svg(points, "Cost of a transfer in batches of 1,000 over OAP",
                                  "entries in the journal", "server us/transfer"),
                              encoding="utf-8")


def after_load(ron, before_kib, r):
    """Disk, memory, proofs and recovery of what was written."""
    total = ACCOUNTS + r["entries"]
    while ron.ledger.admin("GET", "/status")[1]["indexed_seq"] < total:
        time.sleep(0.1)
    room = unused_bytes(ron.ledger.data) / total
    disk = folder_bytes(ron.ledger.data) / total - room
    proofs = ledger_proofs.report(LOAD, ron.ledger, ron.pid, total)
    rss = settled_kib(ron.pid, "RssAnon")
    start = time.monotonic()
    ron.ledger.restart()
    normal = time.monotonic() - start
    ron.pid = ron.ledger.process.pid
    ron.ledger.stop()
    out = subprocess.run([os.environ["RON_BIN"], "ledger", "rebuild", "--dir",
                          str(ron.ledger.data)], capture_output=True, text=True)
    whole = int(re.search(r"in (\d+) ms", out.stdout)[1]) / 1000
    ron.ledger.start()
    return {
        "disk": f"Disk: {disk:.0f} bytes a transfer, log, tree and index together (aim 250: "
                f"{'met' if disk <= 250 else 'missed'}), and {room:.0f} of room that the log has "
                "made ready.",
        "memory": f"Memory of the process with {ACCOUNTS:,} accounts: {before_kib / 1024:.0f} MiB "
                  f"before and {rss / 1024:.0f} MiB after the load; "
                  f"{before_kib * 1024 / ACCOUNTS:.0f} bytes an account before it (aim 200; ids "
                  "and nonces of the funding are included).",
        "proof": proofs,
        "recovery": f"Start after {total:,} entries: {normal:.1f} s as it was stopped; "
                    f"{whole:.1f} s without any derived file ({total / whole / 1e6:.2f} M "
                    "entries/s; aim 1 M/s).",
    }


def main():
    if "--help" in sys.argv:
        print(__doc__)
        return
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    print(f"## The ledger\n\nMachine: {model[1] if model else 'unknown processor'}, "
          f"{os.cpu_count()} cores, Linux {os.uname().release}. {REPS} repetitions of "
          f"{SECONDS} s; large runs {'' if AGAINST else 'once, '}{ENTRIES:,} transfers over "
          f"{ACCOUNTS:,} accounts.")
    if AGAINST:
        against()
        print(f"\nOthers used {spread(noise, 2)} of a core during the runs.")
        return
    postgres = Bench()
    try:
        if not postgres.there:
            print("\nPostgreSQL is not compared: package postgresql-15 or root is "
                  "missing.")
        if any(chosen(row[0]) for row in SMALL) or chosen("yardstick"):
            small_rows(postgres)
        if any(chosen(row[0]) for row in LARGE):
            large_rows(postgres)
        print(f"\nOthers used {spread(noise, 2)} of a core during the runs.")
    finally:
        postgres.stop()
    if missed:
        sys.exit("the ledger's own thresholds: " + "; ".join(missed))


main()
