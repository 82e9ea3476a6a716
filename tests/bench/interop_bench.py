#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench interop`: the bridge (RON_BIN) beside Debian's webhook (adnanh) and the middleware
of the npm package @octokit/webhooks, beside b3sum and beside Debian's nginx, as Markdown.

Deliveries: 4 KiB of GitHub, each signed and different, over 64 connections with one under way each
(bench_interop). The bridge verifies, de-duplicates, stores durably and then answers; the peers
verify and answer. In each repetition each contender is started anew, in random order, warmed for a
second and loaded, the server on core 0, the load on core 1. Processor time is that of all threads
of the server and its children a request. Ratios are taken inside one repetition; shown are medians
with (smallest..largest). What others used of a core during the runs is told.

Objects: 64 MiB through POST /put beside `tee FILE | b3sum; sync FILE`, which hashes and writes the
same bytes; 1 MiB through GET /o beside nginx, by wrk over 64 connections. Mailbox: send, receive
and acknowledge of 100 messages of 1 KiB at a time, each synced (bench_iop_box).

Settings: RON_BENCH_REPS (5), RON_BENCH_SECONDS of a run (2), RON_BENCH_ROWS (comma list of
deliveries, refused, put, object, mailbox; all), RON_BENCH_DATA (folder to write to, /var/tmp),
RON_BENCH_NOISE, RON_BENCH_WAIT_S (for a quiet machine, all waits together, 60), RON_BENCH_TRIES
(1). About four minutes, and the waits.
"""
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
import time
from pathlib import Path

import benchkit
from benchkit import NOISE, busy_s, children_s, cpu_s, setting, spread
from interop_peers import SECRET, THERE, File, Octokit, Ron, Webhook
from httpkit import nginx_version, status_kib, wrk  # noqa: E402 (behind interop_peers: its path)

REPS = setting("REPS", 5)
SECONDS = setting("SECONDS", 2)
ROWS = setting("ROWS", "")
DATA = setting("DATA", "/var/tmp")
TRIES = setting("TRIES", 1)
CONNECTIONS, BYTES = 64, 4096
NAMES = ("deliveries", "refused", "put", "object", "mailbox")
PUT_BYTES, OBJECT_BYTES = 64 << 20, 1 << 20
LOAD = str(Path(os.environ["RON_BENCH_DIR"]) / "bench_interop")
BOX = str(Path(os.environ["RON_BENCH_DIR"]) / "bench_iop_box")
# What a row must reach: requests a second, p99 in us.
AIM_TAKEN, STRETCH_TAKEN, AIM_P99, AIM_REFUSED = 20000, 35000, 20000, 40000
AIM_PUT, AIM_OBJECT, AIM_BOX = 0.6, 1.0, 30000


def wait_for_quiet():
    """As all benches do, but with one allowance for the whole run: it ends unattended."""
    start = time.monotonic()
    benchkit.wait_for_quiet()
    benchkit.WAIT_S = max(0.0, benchkit.WAIT_S - (time.monotonic() - start))


def contender(name):
    return {"ron": lambda: Ron(DATA), "webhook": Webhook, "octokit": Octokit}[name]()


def deliveries(server, kind, seconds):
    text = subprocess.run([*THERE, LOAD, kind, server.addr, server.path, SECRET, str(BYTES),
                           str(CONNECTIONS), str(seconds),
                           server.good if kind == "good" else server.bad],
                          capture_output=True, text=True, check=False)
    if text.returncode != 0:
        raise RuntimeError(f"bench_interop failed: {text.stdout}{text.stderr}")
    return json.loads(text.stdout)


def quiet(measure):
    """The run with the least noise of TRIES, or the first that is quiet enough."""
    best = None
    for _ in range(TRIES):
        wait_for_quiet()
        found = measure()
        best = found if best is None or found["noise"] < best["noise"] else best
        if best["noise"] < NOISE:
            break
    return best


def measured(pid, run):
    """What `run` gives, with processor time of the server and the noise of others."""
    busy, cpu, own, start = busy_s(), cpu_s(pid), children_s(), time.monotonic()
    found = run()
    wall, own, cpu = time.monotonic() - start, children_s() - own, cpu_s(pid) - cpu
    return {**found, "cpu_s": cpu, "noise": max(0.0, (busy_s() - busy - own - cpu) / wall)}


def load_row(name, kind):
    with contender(name) as server:
        deliveries(server, kind, 1)
        r = quiet(lambda: measured(server.pid, lambda: deliveries(server, kind, SECONDS)))
        return {"per_s": r["per_s"], "p99": r["p99_us"], "cpu": r["cpu_s"] / r["done"] * 1e6,
                "noise": r["noise"], "kib": status_kib(server.pid)}


# ---- objects -------------------------------------------------------------------------------------


def put_once(server, data):
    host, port = server.addr.rsplit(":", 1)
    c = http.client.HTTPConnection(host, int(port), timeout=60)
    start = time.monotonic()
    c.request("POST", "/put", data, {"Authorization": "Bearer " + server.token,
                                     "Content-Type": "application/octet-stream"})
    a = c.getresponse()
    a.read()
    if a.status != 202:
        raise RuntimeError(f"/put answered {a.status}")
    return {"s": time.monotonic() - start}


def put_row(folder):
    """Seconds of the bridge and of b3sum for the same new bytes, in random order."""
    data = bytearray(random.Random(1).randbytes(PUT_BYTES))
    took = {}
    source, out = folder / "source", folder / "out"
    for name in random.sample(["ron", "b3sum"], 2):
        data[:16] = os.urandom(16)  # what is stored already would not be written
        wait_for_quiet()
        if name == "ron":
            with Ron(DATA) as server:
                put_once(server, bytes(data[:1 << 20]))
                r = measured(server.pid, lambda: put_once(server, bytes(data)))
                took["ron"], took["cpu"], took["noise"] = r["s"], r["cpu_s"], r["noise"]
        else:
            source.write_bytes(data)
            start = time.monotonic()
            subprocess.run(["sh", "-c", f"tee {out} <{source} | b3sum >{folder}/hash; sync {out}"],
                           check=True)
            took["b3sum"] = time.monotonic() - start
            out.unlink()
    return took


def object_row(folder):
    data = random.Random(2).randbytes(OBJECT_BYTES)
    (folder / "object").write_bytes(data)
    rows = {}
    for name in random.sample(["ron", "nginx"], 2):
        with (Ron(DATA) if name == "ron" else File(folder)) as server:
            path = "/object"
            if name == "ron":
                host, port = server.addr.rsplit(":", 1)
                c = http.client.HTTPConnection(host, int(port), timeout=60)
                c.request("POST", "/put", data, {"Authorization": "Bearer " + server.token,
                                                 "Content-Type": "application/octet-stream"})
                path = "/o/" + json.loads(c.getresponse().read())["address"]
            url = f"http://{server.addr}{path}"
            wrk(url, 1, CONNECTIONS, 1, None, THERE)
            r = quiet(lambda s=server, u=url: measured(
                s.pid, lambda: wrk(u, SECONDS, CONNECTIONS, 1, None, THERE)))
            if r["errors"]:
                raise RuntimeError(f"{url}: {r['text']}")
            rows[name] = {"per_s": r["rps"], "p99": r["p99_us"], "noise": r["noise"],
                          "cpu": r["cpu_s"] / r["requests"] * 1e6}
    return rows


def box_row(folder):
    wait_for_quiet()
    text = subprocess.run([BOX, str(folder), str(SECONDS)], capture_output=True, text=True,
                          check=True).stdout
    return {k: float(v) for k, v in re.findall(r"^(\S+)\t([\d.]+)", text, re.M)}


# ---- the report ----------------------------------------------------------------------------------


def met(good):
    return "met" if good else "missed"


def print_load(title, kind, runs, names):
    print(f"\n### {title}\n\n| | requests/s | times the peer | p99, us | processor, us a request | "
          "aim | |\n|---|---|---|---|---|---|---|")
    for name in names:
        rate = [r[name]["per_s"] for r in runs]
        ratio = "" if name == "ron" else "x " + spread(
            [r["ron"]["per_s"] / r[name]["per_s"] for r in runs], 1)
        aim, verdict = "", ""
        if name == "ron" and kind == "good":
            p99 = statistics.median(r["ron"]["p99"] for r in runs)
            aim = f">= {AIM_TAKEN}/s, p99 <= {AIM_P99 // 1000} ms; stretch {STRETCH_TAKEN}/s"
            verdict = met(statistics.median(rate) >= AIM_TAKEN and p99 <= AIM_P99)
            if statistics.median(rate) >= STRETCH_TAKEN:
                verdict += ", stretch too"
        elif name == "ron":
            aim, verdict = f">= {AIM_REFUSED}/s", met(statistics.median(rate) >= AIM_REFUSED)
        print(f"| {name} | {spread(rate, 0)} | {ratio} | "
              f"{spread([r[name]['p99'] for r in runs], 0)} | "
              f"{spread([r[name]['cpu'] for r in runs], 1)} | {aim} | {verdict} |")


def print_put(runs):
    mib = PUT_BYTES >> 20
    ratio = [r["b3sum"] / r["ron"] for r in runs]
    print("\n### POST /put of 64 MiB, hashed and durable\n\n| | MiB/s | times b3sum's | aim | |\n"
          "|---|---|---|---|---|")
    print(f"| ron | {spread([mib / r['ron'] for r in runs], 0)} | x {spread(ratio, 2)} | "
          f">= x {AIM_PUT:.2f} | {met(statistics.median(ratio) >= AIM_PUT)} |")
    print(f"| tee, b3sum, sync | {spread([mib / r['b3sum'] for r in runs], 0)} | | | |")
    print("\nProcessor time of the bridge: "
          f"{spread([r['cpu'] / mib * 1e3 for r in runs], 2)} ms a MiB.")


def print_object(runs):
    ratio = [r["ron"]["per_s"] / r["nginx"]["per_s"] for r in runs]
    print(f"\n### GET /o of 1 MiB beside nginx {nginx_version()}\n\n| | requests/s | times nginx's "
          "| p99, us | processor, us a request | aim | |\n|---|---|---|---|---|---|---|")
    for name in ("ron", "nginx"):
        mine = name == "ron"
        print(f"| {name} | {spread([r[name]['per_s'] for r in runs], 0)} | "
              f"{'x ' + spread(ratio, 2) if mine else ''} | "
              f"{spread([r[name]['p99'] for r in runs], 0)} | "
              f"{spread([r[name]['cpu'] for r in runs], 1)} | "
              f"{f'>= x {AIM_OBJECT:.2f}' if mine else ''} | "
              f"{met(statistics.median(ratio) >= AIM_OBJECT) if mine else ''} |")


def print_box(runs):
    print("\n### The mailbox by itself, durable\n\n| | messages/s | aim | |\n|---|---|---|---|")
    for name in runs[0]:
        values = [r[name] for r in runs]
        mine = name == "cycle-100"
        print(f"| {name} | {spread(values, 0)} | {f'>= {AIM_BOX}/s' if mine else ''} | "
              f"{met(statistics.median(values) >= AIM_BOX) if mine else ''} |")


def chosen():
    wanted = ROWS.split(",") if ROWS else list(NAMES)
    for name in wanted:
        if name not in NAMES:
            sys.exit(f"RON_BENCH_ROWS has no '{name}'; known: {' '.join(NAMES)}")
    peers = ["ron"]
    for name, kind, why in (("webhook", Webhook, "Debian's package webhook is not installed"),
                            ("octokit", Octokit, "@octokit/webhooks cannot be installed")):
        if kind.there():
            peers.append(name)
        else:
            print(f"left out: {why}", file=sys.stderr)
    return wanted, peers


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return
    wanted, peers = chosen()
    runs = {name: [] for name in wanted}
    folder = Path(tempfile.mkdtemp(prefix="ron-bench-", dir=DATA))
    folder.chmod(0o755)
    try:
        for repetition in range(REPS):
            for name in wanted:
                kind = {"deliveries": "good", "refused": "bad"}.get(name)
                runs[name].append(
                    {p: load_row(p, kind) for p in random.sample(peers, len(peers))} if kind else
                    put_row(folder) if name == "put" else
                    object_row(folder) if name == "object" else box_row(folder))
                print(f"repetition {repetition + 1} of {REPS}: {name}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    noise = [r["noise"] for n in wanted for run in runs[n] for r in (run, *run.values())
             if isinstance(r, dict) and "noise" in r] or [0.0]
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="ascii"))
    print("## The bridge beside its peers\n\n"
          f"Machine: {model[1] if model else 'unknown processor'}, {os.cpu_count()} cores, "
          f"Linux {os.uname().release}. {REPS} repetitions of {SECONDS} s, {CONNECTIONS} "
          f"connections, server on one core. Others used {spread(noise, 2)} of a core during the "
          "runs.")
    if "deliveries" in wanted:
        print_load("Deliveries of 4 KiB: verified, de-duplicated, durable (peers: verified)",
                   "good", runs["deliveries"], peers)
        kib = statistics.median(r["ron"]["kib"] for r in runs["deliveries"])
        print(f"\nResident memory of the bridge: {kib / 1024:.1f} MiB.")
    if "refused" in wanted:
        print_load("Deliveries with a wrong signature: refused", "bad", runs["refused"], peers)
    for name, show in (("put", print_put), ("object", print_object), ("mailbox", print_box)):
        if name in wanted:
            show(runs[name])


main()
