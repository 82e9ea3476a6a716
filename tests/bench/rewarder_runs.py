#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench rewarder`, the parts about whole runs, as Markdown.

count: instructions of a row in the calculus and in its check, by callgrind. Counted are those of
40,000 rows less those of 20,000, and from them those that make the rows. Without valgrind it is
left out, which is said.

run: `ron reward compute` over a snapshot of RON_BENCH_ROWS rows (1,000,000) as NDJSON: read,
sorted, hashed, computed, checked, written with tree and manifest, synced. And of ten times as many,
which come through a pipe. Memory is the largest resident size of the process.

stream: ten times as many rows sent to `ron rewarder` in pieces and computed there; the largest
resident size of the service afterwards.

settle: a rewarder beside a ledger, both on disk, joined by a Unix socket. A snapshot of as many
rows is sent by PUT and computed; then its settlement is asked for, and counts from that request
until the rewarder has noted the ledger's word for the last intent.

http: computes of 50,000 rows over HTTP, one after the other, each of another snapshot: PUT of the
rows and POST compute?wait=true together, until the manifest is there. Meanwhile 100 requests a
second ask for manifests. Once with settlements held back, once with each run settled while the next
is computed. The load generator shares the cores with both servers.

Parts run and settle repeat RON_BENCH_REPS times (3), large snapshots come once; shown are
medians with (smallest..largest). Settings: RON_BENCH_REPS, RON_BENCH_ROWS, RON_BENCH_COMPUTES (20)
of part http, RON_BENCH_DATA (folder for files, the usual temporary one), RON_BENCH_NOISE,
RON_BENCH_WAIT_S.
"""
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from benchkit import busy_s, cpu_s, setting, spread, wait_for_quiet  # noqa: E402
from httpkit import status_kib  # noqa: E402
from rewarderkit import Rewarder, policy  # noqa: E402
from walletkit import new_ledger  # noqa: E402

PROGRAM = os.environ["RON_BIN"]
BENCH = Path(os.environ.get("RON_BENCH_DIR", "build/release/bench"))
REPS = setting("REPS", 3)
ROWS = setting("ROWS", 1000000)
COMPUTES = setting("COMPUTES", 20)
COUNTED = 20000
HTTP_ROWS = 50000
GETS_PER_S = 100
AIM_S, AIM_MIB, AIM_LARGE_MIB, AIM_SETTLE, AIM_P95_MS = 3, 400, 1024, 200000, 500
POOL = 10 ** 15


def verdict(good):
    return "met" if good else "missed"


def lines(rows, pool=POOL):
    """A snapshot as NDJSON in pieces of bytes; accounts in an order that is not theirs."""
    rand = random.Random(1)
    ends = [f'","bytes_stored":{rand.getrandbits(40)},"bytes_served":{rand.getrandbits(36)},'
            f'"uptime_seconds":{rand.randrange(3600)}}}\n' for _ in range(997)]
    yield f'{{"produced_at_millis":1,"pool_minor_units":"{pool}"}}\n'.encode()
    step = 1000003  # a prime, so every number comes once
    for first in range(0, rows, 10000):
        yield "".join([f'{{"account":"t:{i % 64:02}/node:{i * step % rows:08}{ends[i % 997]}'
                       for i in range(first, min(rows, first + 10000))]).encode()


# ---- count ---------------------------------------------------------------------------------------

# kind, what is in it but does not count, text
KINDS = [("floor", "rows", "floor, weights 1, 1/4, 1, a pool below 2^64"),
         ("wide", "rows", "the same, a pool near 2^128: 256-bit products"),
         ("thirds", "rows", "weights 1/3, 2/7, 5/9: true divisions"),
         ("categories", "rows", "64 categories, half of them capped"),
         ("largest", "rows", "largest remainder"),
         ("check", "floor", "the check of a result of `floor`"),
         ("check-largest", "largest", "the check of a result of `largest`")]


def instructions(kind, rows):
    """Of one run of bench_rewarder."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                           BENCH / "bench_rewarder", "count", kind, str(rows)],
                          capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def count():
    """The table of part count."""
    print("\n### Instructions of a row (callgrind)\n")
    if not shutil.which("valgrind"):
        print("Left out: valgrind is missing.")
        return
    each = {kind: (instructions(kind, 2 * COUNTED) - instructions(kind, COUNTED)) / COUNTED
            for kind in ["rows", *[k[0] for k in KINDS]]}
    print("| policy | instructions a row |\n|---|---|")
    for kind, base, text in KINDS:
        print(f"| {text} | {each[kind] - each[base]:.0f} |")


# ---- run -----------------------------------------------------------------------------------------

def compute(folder, snapshot, feed=None):
    """(seconds, processor seconds, MiB) of one command; `feed` makes what it reads from a pipe."""
    out = tempfile.mkdtemp(dir=folder)
    begin = time.monotonic()
    with subprocess.Popen([PROGRAM, "reward", "compute", "--epoch", "bench", "--snapshot", snapshot,
                           "--policy", folder / "policy.json", "--out", out],
                          stdin=subprocess.PIPE if feed else None,
                          stdout=subprocess.DEVNULL) as child:
        if feed:
            for piece in feed:
                child.stdin.write(piece)
            child.stdin.close()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"ron reward compute: exit {child.returncode}")
    seconds = time.monotonic() - begin
    manifest = json.loads(Path(out, "bench", "run.json").read_text(encoding="utf-8"))
    shutil.rmtree(out)
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, manifest


def run():
    """The table of part run."""
    found, noise = [], []
    with tempfile.TemporaryDirectory(dir=os.environ.get("RON_BENCH_DATA")) as name:
        folder = Path(name)
        (folder / "policy.json").write_text(json.dumps(policy()), encoding="ascii")
        with open(folder / "rows", "wb") as f:
            f.writelines(lines(ROWS))
        for _ in range(REPS):
            wait_for_quiet()
            busy, begin = busy_s(), time.monotonic()
            found.append(compute(folder, folder / "rows"))
            noise.append(max(0, busy_s() - busy - found[-1][1]) / (time.monotonic() - begin))
        if {f[3]["payouts"]["count"] for f in found} != {ROWS}:
            sys.exit("not everybody is paid")
        large = compute(folder, "-", lines(10 * ROWS))
    seconds = [f[0] for f in found]
    mib = max(f[2] for f in found)
    print(f"\n### A run of {ROWS:,} rows: `ron reward compute`\n")
    print("| | found | aim | |\n|---|---|---|---|")
    print(f"| read, computed, checked, written and synced, s | {spread(seconds, 2)} | {AIM_S} | "
          f"{verdict(statistics.median(seconds) <= AIM_S)} |")
    print(f"| of that on the processor, s | {spread([f[1] for f in found], 2)} | | |")
    print(f"| largest memory, MiB | {mib:.0f} | {AIM_MIB} | {verdict(mib <= AIM_MIB)} |")
    print(f"| {10 * ROWS:,} rows through a pipe, largest memory, MiB | {large[2]:.0f} | "
          f"{AIM_LARGE_MIB} | {verdict(large[2] <= AIM_LARGE_MIB)} |")
    print(f"| the same on the processor, s | {large[1]:.1f} | | |")
    print(f"\n{REPS} repetitions; others used {spread(noise, 2)} of a core.")


# ---- settle --------------------------------------------------------------------------------------

@contextlib.contextmanager
def servers(*options):
    """A ledger and a rewarder beside it, both on disk."""
    ledger = new_ledger()
    try:
        r = Rewarder(ledger, *options)
        try:
            yield ledger, r
        finally:
            codes = r.stop(), ledger.stop()
    finally:
        ledger.stop()
        shutil.rmtree(ledger.folder, ignore_errors=True)
    if codes != (0, 0):
        sys.exit(f"rewarder and ledger ended with {codes}")


def put(r, rows, pool, connection=None, whole=True):
    """Sends a snapshot, at once or in pieces as they are made; its content id."""
    pieces = lines(rows, pool)
    status, _, data = r.ask("PUT", "/rewarder/inputs", b"".join(pieces) if whole else pieces,
                            headers={"Content-Type": "application/x-ndjson"},
                            connection=connection)
    if status != 201:
        sys.exit(f"PUT /rewarder/inputs: {status} {data}")
    return json.loads(data)["inputs_cid"]


def body_of(r, cid):
    document = policy()
    return json.dumps({"inputs_cid": cid, "policy_id": document["id"], "policy": document,
                       "policy_hash": r.policy_hash(document)})


def stream():
    """The table of part stream."""
    with servers("--rewarder.auto_emit=false") as (_, r):
        c = http.client.HTTPConnection(r.addr, timeout=600)
        begin = time.monotonic()
        cid = put(r, 10 * ROWS, POOL, c, whole=False)
        sent = time.monotonic() - begin
        status, _, data = r.ask("POST", "/rewarder/epochs/large/compute?wait=true", body_of(r, cid),
                                connection=c)
        if status != 200:
            sys.exit(f"compute: {status} {data}")
        took = time.monotonic() - begin - sent
        mib = status_kib(r.process.pid, "VmHWM") / 1024
        c.close()
    print(f"\n### {10 * ROWS:,} rows streamed to the service\n")
    print("| | found | aim | |\n|---|---|---|---|")
    print(f"| sent by one client, read, sorted and sealed, s | {sent:.1f} | | |")
    print(f"| computed, checked, written and synced, s | {took:.1f} | | |")
    print(f"| largest memory of the rewarder, MiB | {mib:.0f} | {AIM_LARGE_MIB} | "
          f"{verdict(mib <= AIM_LARGE_MIB)} |")


def settle_once():
    """(intents a second, processor us of each server an intent, MiB of the rewarder)."""
    with servers("--rewarder.auto_emit=false") as (ledger, r):
        status, m = r.compute("bench", json.loads(body_of(r, put(r, ROWS, POOL))))
        if status != 200:
            sys.exit(f"compute: {status} {m}")
        pids = [r.process.pid, ledger.process.pid]
        wait_for_quiet()
        before, busy = [cpu_s(p) for p in pids], busy_s()
        began_ms = time.time() * 1000
        r.ask("POST", "/rewarder/epochs/bench/emit", "")
        while (s := r.get("/rewarder/epochs/bench/settlement")[1])["state"] == "emitting":
            time.sleep(0.05)
        used = [cpu_s(p) - b for p, b in zip(pids, before)]
        seconds = (s["changed_millis"] - began_ms) / 1000
        if s["state"] != "emitted" or s["intents_done"] != ROWS or \
                s["ledger_seq_last"] - s["ledger_seq_first"] + 1 != ROWS:
            sys.exit(f"not settled: {s}")
        noise = max(0, busy_s() - busy - sum(used)) / seconds
        return ROWS / seconds, *[u / ROWS * 1e6 for u in used], status_kib(pids[0]) / 1024, noise


def settle():
    """The table of part settle."""
    found = [settle_once() for _ in range(REPS)]
    rates = [f[0] for f in found]
    print(f"\n### Settlement of {ROWS:,} intents: rewarder and ledger\n")
    print("| | found | aim | |\n|---|---|---|---|")
    print(f"| intents settled a second | {spread(rates, 0)} | {AIM_SETTLE:,} | "
          f"{verdict(statistics.median(rates) >= AIM_SETTLE)} |")
    print(f"| processor of the rewarder, us an intent | {spread([f[1] for f in found], 2)} | | |")
    print(f"| of the ledger, us an intent | {spread([f[2] for f in found], 2)} | | |")
    print(f"| memory of the rewarder, MiB | {max(f[3] for f in found):.0f} | | |")
    print(f"\n{REPS} repetitions; others, the one that asks among them, used "
          f"{spread([f[4] for f in found], 2)} of a core.")


# ---- http ----------------------------------------------------------------------------------------

class Readers(threading.Thread):
    """Asks for manifests at a steady rate until it is told to stop."""

    def __init__(self, r, epoch):
        super().__init__()
        self.r, self.epoch = r, epoch
        self.ms, self.bad, self.stop = [], 0, threading.Event()

    def run(self):
        c = http.client.HTTPConnection(self.r.addr)
        at = time.monotonic()
        while not self.stop.wait(max(0, at - time.monotonic())):
            begin = time.monotonic()
            status = self.r.ask("GET", f"/rewarder/epochs/{self.epoch}", connection=c)[0]
            self.ms.append((time.monotonic() - begin) * 1000)
            self.bad += status != 200
            at += 1 / GETS_PER_S
        c.close()


def computes(r, mark):
    """Milliseconds of each compute, and what the readers saw."""
    first = f"{mark}-first"
    r.ask("POST", f"/rewarder/epochs/{first}/compute?wait=true", body_of(r, put(r, 10, 1000)))
    c = http.client.HTTPConnection(r.addr)
    readers = Readers(r, first)
    readers.start()
    times, begin = [], time.monotonic()
    for i in range(COMPUTES):
        rows = b"".join(lines(HTTP_ROWS, POOL + i))
        at = time.monotonic()
        data = r.ask("PUT", "/rewarder/inputs", rows, connection=c,
                     headers={"Content-Type": "application/x-ndjson"})[2]
        status = r.ask("POST", f"/rewarder/epochs/{mark}-{i}/compute?wait=true",
                       body_of(r, json.loads(data)["inputs_cid"]), connection=c)[0]
        times.append((time.monotonic() - at) * 1000)
        if status != 200:
            sys.exit(f"compute: {status}")
    took = time.monotonic() - begin
    readers.stop.set()
    readers.join()
    c.close()
    if readers.bad:
        sys.exit(f"{readers.bad} manifests were not there")
    return times, readers.ms, len(readers.ms) / took


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


def over_http():
    """The table of part http."""
    print(f"\n### Computes of {HTTP_ROWS:,} rows over HTTP, {GETS_PER_S} manifests a second beside"
          "\n")
    print("| | p50 ms | p95 ms | max ms | manifests/s | their p50 ms | their p99 ms | aim | |\n"
          + "|---" * 9 + "|")
    for text, emits in (("settlements held back", "false"), ("each run settled", "true")):
        with servers(f"--rewarder.auto_emit={emits}") as (_, r):
            wait_for_quiet()
            times, gets, rate = computes(r, emits)
        p95 = quantile(times, 0.95)
        print(f"| {text} | {statistics.median(times):.0f} | {p95:.0f} | {max(times):.0f} | "
              f"{rate:.0f} | {statistics.median(gets):.2f} | {quantile(gets, 0.99):.1f} | "
              f"p95 {AIM_P95_MS} ms | {verdict(p95 <= AIM_P95_MS)} |")
    print(f"\n{COMPUTES} computes each, PUT and POST together.")


PARTS = {"count": count, "run": run, "stream": stream, "settle": settle, "http": over_http}


def main():
    """Parts by name."""
    if "--help" in sys.argv:
        print(__doc__)
        return
    for part in sys.argv[1:] or PARTS:
        if part not in PARTS:
            sys.exit(f"unknown part '{part}'; known: {' '.join(PARTS)}")
        PARTS[part]()


main()
