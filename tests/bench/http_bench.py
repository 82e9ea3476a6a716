#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench http`: our HTTP server (RON_FIXTURE) beside Debian's nginx, as Markdown.

Method. Every row is a workload with two or three contenders. In each repetition each contender is
started anew, in random order, warmed for a second and loaded by wrk with keep-alive connections.
One server thread: server on core 0, wrk on core 1. Two: nothing is pinned, and wrk has two threads.
The main figure is processor time a request: on-CPU time of all threads of the server (schedstat)
over the requests, because wrk itself is nearly saturated. Ratios are taken inside one repetition;
shown are medians with (smallest..largest).

Before each run the machine must be quiet: other processes below RON_BENCH_NOISE of one core, else
it waits, up to RON_BENCH_WAIT_S. What others used during a run is measured too; a noisy run is
repeated, up to RON_BENCH_TRIES, and the quietest counts. The end of the report says how busy others
were.

Settings: RON_BENCH_REPS (5), RON_BENCH_SECONDS of a run (3), RON_BENCH_NOISE (0.12),
RON_BENCH_WAIT_S (60), RON_BENCH_TRIES (4), RON_BENCH_ROWS (comma list of row names, all).
"""
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from benchkit import NOISE, TRIES, busy_s, children_s, cpu_s, family, setting, spread, \
    wait_for_quiet  # noqa: E402
from httpkit import Nginx, Ron, h2load, nginx_version, raise_open_files, status_kib, \
    wrk  # noqa: E402


REPS = setting("REPS", 5)
SECONDS = setting("SECONDS", 3)
ROWS = setting("ROWS", "")
CONNECTIONS = 64
IDLE = 10000
COUNTED = 3000  # requests of the shorter callgrind run
FILE_BYTES = 16384

TRANSFER = json.dumps({
    "idempotency_key": "018f3c5e-7b1a-7c2d-9e4f-5a6b7c8d9e0f",
    "debit_account": "acct_000000000123456789", "credit_account": "acct_000000000987654321",
    "amount": "123456789", "currency": "USD", "memo": ""}, separators=(",", ":"))
TRANSFER = TRANSFER[:-2] + "z" * (250 - len(TRANSFER)) + '"}'
assert len(TRANSFER) == 250


# ---- contenders ----------------------------------------------------------------------------------

def nginx_server(folder, tls):
    """The same bodies and headers as ours: X-Corr-ID is made anew for each answer here too."""
    answer = (Path(folder) / "answer").read_text(encoding="ascii")
    return f"""
    default_type application/json;
    root {folder}/www;
    add_header X-Corr-ID $request_id;
    {f"ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;" if tls else ""}
    {"ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;" if tls else ""}
    location = /hello {{ return 200 '{answer}'; }}
    location = /json {{ return 200 '{answer}'; }}
    location = /file {{ }}
"""


class Contender:
    """One way to serve one workload: which server, with what arguments, at which path."""

    def __init__(self, name, kind, path, post=False, tls=False):
        self.name, self.kind, self.path, self.post, self.tls = name, kind, path, post, tls

    def start(self, folder, threads, prefix=()):
        if self.kind == "nginx":
            return Nginx(nginx_server(folder, self.tls), threads, prefix, self.tls)
        extra = tls_options(folder) if self.tls else []
        extra += ["--file", f"{folder}/www/file"]
        # All limits are on; this rate nobody reaches.
        return Ron("--workers", threads, "--rate", "100000000", *extra, prefix=prefix, quiet=True)

    def url(self, server):
        return f"http{'s' if self.tls else ''}://{server.host}:{server.port}{self.path}"


_help = subprocess.run([os.environ["RON_FIXTURE"], "http", "--help"], capture_output=True,
                       text=True).stdout


def tls_options(folder):
    return ["--tls-cert", f"{folder}/cert.pem", "--tls-key", f"{folder}/key.pem"]


def ron_has(option):
    return f"--{option}" in _help


class Row:
    def __init__(self, name, text, threads, aim, contenders):
        self.name, self.text, self.threads, self.aim = name, text, threads, aim
        self.contenders = contenders  # the first is what the others are compared with
        self.runs = []                # a dictionary by contender for each repetition


def rows():
    def pair(path, peer="/hello", tls=False):
        return [Contender("nginx", "nginx", peer, tls=tls), Contender("ron", "ron", path, tls=tls)]

    def files(path, tls=False):
        return [*pair(path, path, tls), Contender("ron, from memory", "ron", "/bytes/16384",
                                                  tls=tls)]
    json_rows = [Contender("ron, inline", "ron", "/json", True),
                 Contender("ron, by a task", "ron", "/json-late", True),
                 Contender("nginx, unread", "nginx", "/json", True)]
    found = []
    for threads in (1, 2):
        n = f"{threads} thread{'s' if threads > 1 else ''}"
        found += [
            Row(f"small-{threads}", f"GET, 200 bytes of JSON, {n}", threads, ("cpu", 1.0),
                pair("/hello")),
            Row(f"file-{threads}", f"GET, 16 KiB, {n}", threads, ("cpu", 0.85),
                files("/file")),
            Row(f"json-{threads}", f"POST, 250 bytes of JSON, {n}", threads, ("rps", 0.90),
                json_rows)]
    if ron_has("tls-cert"):
        found += [Row("tls-small-1", "GET, 200 bytes, TLS 1.3, 1 thread", 1, ("cpu", 1.0),
                      pair("/hello", tls=True)),
                  Row("tls-file-1", "GET, 16 KiB, TLS 1.3, 1 thread", 1, ("cpu", 1.0),
                      files("/file", tls=True))]
    names = [r.name for r in found] + ["memory", "instructions"]
    wanted = ROWS.split(",") if ROWS else names
    for name in wanted:
        if name not in names:
            sys.exit(f"RON_BENCH_ROWS has no '{name}'; known: {' '.join(names)}")
    return [r for r in found if r.name in wanted]


# ---- measuring -----------------------------------------------------------------------------------

def measure_once(contender, server, threads, script, prefix):
    busy, cpu, wrk_cpu, start = busy_s(), cpu_s(server.pid), children_s(), time.monotonic()
    r = wrk(contender.url(server), SECONDS, CONNECTIONS, threads, script, prefix)
    wall = time.monotonic() - start
    wrk_cpu, cpu = children_s() - wrk_cpu, cpu_s(server.pid) - cpu
    if r["errors"]:
        raise RuntimeError(f"{contender.name}: {r['text']}")
    return {"rps": r["rps"], "p50": r["p50_us"], "p99": r["p99_us"],
            "cpu": cpu / r["requests"] * 1e6, "wrk": wrk_cpu / r["requests"] * 1e6,
            "noise": max(0.0, (busy_s() - busy - wrk_cpu - cpu) / wall)}


def measure(row, contender, folder):
    pinned = row.threads == 1 and (os.cpu_count() or 1) > 1
    here, there = (["taskset", "-c", "0"], ["taskset", "-c", "1"]) if pinned else ([], [])
    script = Path(folder) / "post.lua" if contender.post else None
    with contender.start(folder, row.threads, here) as server:
        wrk(contender.url(server), 1, CONNECTIONS, row.threads, script, there)
        best = None
        for _ in range(TRIES):
            wait_for_quiet()
            r = measure_once(contender, server, row.threads, script, there)
            best = r if best is None or r["noise"] < best["noise"] else best
            if best["noise"] < NOISE:
                break
    return best


def idle_memory(contender, folder):
    """(KiB before, KiB with IDLE connections that have each got an answer), of all processes."""
    def memory(server):
        return sum(status_kib(p, "RssAnon") for p in family(server.pid))
    if contender.kind == "nginx":
        server = contender.start(folder, 1)
    else:
        server = Ron("--workers", 1, "--connections", IDLE + 100, quiet=True)
    with server:
        server.get(contender.path)
        before = memory(server)
        crowd = []
        for i in range(IDLE):
            s = socket.socket()
            s.bind((f"127.0.0.{2 + i % 8}", 0))
            s.settimeout(20)
            s.connect((server.host, server.port))
            s.sendall(f"GET {contender.path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            crowd.append(s)
        for s in crowd:
            while not s.recv(65536).endswith(b'"}'):
                pass
        after = memory(server)
        rss = sum(status_kib(p) for p in family(server.pid))
        for s in crowd:
            s.close()
    return before, after, rss


def collected(command, url_of, count, extra):
    """Instructions of a whole run under callgrind that answers `count` requests."""
    with tempfile.TemporaryFile("w+") as log:
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            h2load(url_of(p), count, 8, *extra)
        finally:
            p.terminate()
            p.communicate(timeout=60)
        log.seek(0)
        found = re.search(r"Collected : (\d+)", log.read())
    return int(found[1])


def instructions(contender, folder):
    """Instructions of one request: the difference of two runs, so that start and end cancel."""
    extra = ["-d", f"{folder}/transfer.json"] if contender.post else []
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    ron = [*valgrind, os.environ["RON_FIXTURE"], "http", "--listen", "127.0.0.1:0",
           "--workers", "1", "--file", f"{folder}/www/file"]

    def started(p):
        return f"http://{p.stdout.readline().split()[-1]}{contender.path}"
    once = collected(ron, started, COUNTED, extra)
    return (collected(ron, started, 2 * COUNTED, extra) - once) / COUNTED


# ---- the report ----------------------------------------------------------------------------------

def print_row(row):
    base = row.contenders[0].name
    print(f"\n### {row.text}\n")
    print(f"| server | processor us/request | x {base} | requests/s | x {base} | p50 us | p99 us |"
          "\n|---|---|---|---|---|---|---|")
    for c in row.contenders:
        mine = [r[c.name] for r in row.runs]
        cells = [c.name, spread([r["cpu"] for r in mine], 2),
                 spread([r[c.name]["cpu"] / r[base]["cpu"] for r in row.runs], 2),
                 spread([r["rps"] for r in mine], 0),
                 spread([r[c.name]["rps"] / r[base]["rps"] for r in row.runs], 2),
                 f"{statistics.median(r['p50'] for r in mine):.0f}",
                 f"{statistics.median(r['p99'] for r in mine):.0f}"]
        print(f"| {' | '.join(cells)} |")


def verdict(row):
    """One line of the table of aims."""
    key, aim = row.aim
    base, other = row.contenders[0].name, row.contenders[1].name
    ratios = [r[other][key] / r[base][key] for r in row.runs]
    good = statistics.median(ratios) <= aim if key == "cpu" else statistics.median(ratios) >= aim
    what = f"processor time at most x {aim:.2f} of nginx" if key == "cpu" else \
        f"by a task at least x {aim:.2f} of the throughput inline"
    return f"| {row.text}: {what} | x {spread(ratios, 2)} | {'met' if good else 'missed'} |"


def prepare(folder):
    with Ron(quiet=True) as server:
        (folder / "answer").write_bytes(server.get("/hello"))
    (folder / "www").mkdir()
    (folder / "www" / "file").write_bytes(b"x" * FILE_BYTES)
    for path in (folder, folder / "www"):
        path.chmod(0o755)
    (folder / "transfer.json").write_text(TRANSFER, encoding="ascii")
    (folder / "post.lua").write_text(
        "wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\n"
        f"wrk.body = [[{TRANSFER}]]\n", encoding="ascii")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")],
                   check=True, capture_output=True)


def print_memory(folder):
    raise_open_files(IDLE + 500)
    print(f"\n### Memory of {IDLE} idle keep-alive connections, one thread\n\n"
          "| server | private KiB before | with them | bytes each | resident KiB in all |\n"
          "|---|---|---|---|---|")
    for c in (Contender("nginx", "nginx", "/hello"), Contender("ron", "ron", "/hello")):
        before, after, rss = idle_memory(c, folder)
        print(f"| {c.name} | {before} | {after} | {(after - before) * 1024 / IDLE:.0f} | {rss} |")


def print_instructions(folder):
    print("\n### Instructions of one request (callgrind, our server, one thread, 8 connections)\n\n"
          "| request | instructions |\n|---|---|")
    for text, path, post in (("GET, 200 bytes", "/hello", False),
                             ("GET, 16 KiB from memory", "/bytes/16384", False),
                             ("GET, 16 KiB file", "/file", False),
                             ("POST, 250 bytes of JSON, inline", "/json", True),
                             ("POST, 250 bytes of JSON, by a task", "/json-late", True)):
        print(f"| {text} | {instructions(Contender('ron', 'ron', path, post), folder):.0f} |")


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return
    chosen = rows()
    with tempfile.TemporaryDirectory(prefix="ron-bench-") as name:
        folder = Path(name)
        prepare(folder)
        for repetition in range(REPS):
            for row in chosen:
                row.runs.append({c.name: measure(row, c, folder)
                                 for c in random.sample(row.contenders, len(row.contenders))})
                print(f"repetition {repetition + 1} of {REPS}: {row.name} "
                      f"{ {n: round(r['cpu'], 2) for n, r in row.runs[-1].items()} }",
                      file=sys.stderr, flush=True)
        noise = [r["noise"] for row in chosen for run in row.runs for r in run.values()] or [0.0]
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        print(f"## HTTP server beside nginx {nginx_version()}\n\n"
              f"Machine: {model[1] if model else 'unknown processor'}, {os.cpu_count()} cores, "
              f"Linux {os.uname().release}. {REPS} repetitions of {SECONDS} s, {CONNECTIONS} "
              f"connections. Others used {spread(noise, 2)} of a core during the runs.\n\n"
              "| aim | ratio | |\n|---|---|---|")
        print("\n".join(verdict(row) for row in chosen))
        for row in chosen:
            print_row(row)
        if not ROWS or "memory" in ROWS.split(","):
            print_memory(folder)
        if not ROWS or "instructions" in ROWS.split(","):
            print_instructions(folder)


main()
