#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench edge`: the edge (RON_BIN) beside Debian's nginx, which serves the same bytes as
plain files with open_file_cache, beside Debian's Varnish in front of the same origin, and beside
the npm package tileserver-gl-light with the same pack, as Markdown.

Method: as `./dev bench http`: every row is a workload with both servers; in each repetition each is
started anew, in random order, warmed for a second and loaded by wrk over 64 keep-alive connections,
the server on core 0 with one thread, wrk on core 1. The main figure is processor time a request:
on-CPU time of all threads of the server over the requests. Ratios are taken inside one repetition;
shown are medians with (smallest..largest). What others used of a core during the runs is told.

An answer that refuses, or a connection that fails, ends the whole with an error.

At equal load h2load asks each for the same number of requests a second (p95, p99 of its log), for a
tile, a file, one that is not modified and a range. Then the sizes of edge_sizes.py: a
multi-gigabyte archive, a pack of 10,000 entries, the start.

Both send a tag, a date and the same caching headers. Settings: RON_BENCH_REPS (5),
RON_BENCH_SECONDS of a run (3), RON_BENCH_ROWS (comma list of row names, all), RON_BENCH_NOISE,
RON_BENCH_WAIT_S, RON_BENCH_TRIES.
"""
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

import edge_sizes
from benchkit import NOISE, TRIES, busy_s, children_s, cpu_s, setting, spread, wait_for_quiet
from edge_peers import THERE, Files, RonEdge, TileServer, Varnish, one_tile_pack
from httpkit import nginx_version, status_kib, wrk

REPS = setting("REPS", 5)
SECONDS = setting("SECONDS", 3)
ROWS = setting("ROWS", "")
CONNECTIONS = 64
TILE_BYTES = 24 * 1024
PACED_RATE, PACED_CONNECTIONS = 4000, 16  # requests a second: well below what one core can do

# name, text, peer, path at the edge, path at the peer, request headers, status, aims: processor,
# rate
TABLE = [
    ("tile", "a tile of 24 KiB", "nginx", "world/0/0/0.png", "tile.png", {}, 200, 0.9, 1.0),
    ("small", "a file of 1 KiB", "nginx", "files/small.html", "small.html", {}, 200, 1.0, 1.0),
    ("304", "a file of 1 KiB, not modified", "nginx", "files/small.html", "small.html", "tag", 304,
     1.0, 1.0),
    ("range", "16 KiB of a file of 1 MiB", "nginx", "files/large.bin", "large.bin",
     {"Range": "bytes=500000-516383"}, 206, 0.9, 1.0),
    ("hit", "a stored answer of 24 KiB", "varnish", "o/map/tile.png", "tile.png", {}, 200, 0.67,
     1.5),
    ("tileserver", "a tile of 24 KiB", "tileserver", "world/0/0/0.png", "data/world/0/0/0.png", {},
     200, 0.02, 50.0),
]
ALSO = ["paced", "sizes"]


def server_of(kind, folder, origin):
    return {"ron": lambda: RonEdge(folder, origin), "nginx": lambda: Files(folder),
            "varnish": lambda: Varnish(origin), "tileserver": lambda: TileServer(folder)}[kind]()


# ---- measuring -----------------------------------------------------------------------------------

def headers_for(url, row):
    """The headers of the row; what it must be answered was tried before."""
    headers = dict(row[5]) if row[5] != "tag" else {}
    get = ["curl", "-s", "-o", "/dev/null", "-D", "-"]
    if row[5] == "tag":
        head = subprocess.run([*get, url], capture_output=True, text=True, check=True).stdout
        headers = {"If-None-Match": re.search(r"(?mi)^etag: (.*?)\r?$", head)[1]}
    more = [x for k, v in headers.items() for x in ("-H", f"{k}: {v}")]
    head = subprocess.run([*get, *more, url], capture_output=True, text=True, check=True).stdout
    if f" {row[6]} " not in head.splitlines()[0] + " ":
        raise RuntimeError(f"{url}: {head}")
    return headers


def script_for(url, row, folder):
    """The headers of the row as a script of wrk."""
    script = folder / "headers.lua"
    script.write_text("".join(f"wrk.headers['{k}'] = '{v}'\n"
                              for k, v in headers_for(url, row).items()), encoding="ascii")
    return script


def measure(row, kind, folder, origin):
    with server_of(kind, folder, origin) as server:
        url = server.url(row[3] if kind == "ron" else row[4])
        script = script_for(url, row, folder)
        wrk(url, 1, CONNECTIONS, 1, script, THERE)
        best = None
        for _ in range(TRIES):
            wait_for_quiet()
            busy, cpu, own, start = busy_s(), cpu_s(server.pid), children_s(), time.monotonic()
            r = wrk(url, SECONDS, CONNECTIONS, 1, script, THERE)
            if r["errors"] > 0:
                raise RuntimeError(f"{kind}, {row[0]}: {r['errors']} errors:\n{r['text']}")
            wall, own, cpu = time.monotonic() - start, children_s() - own, cpu_s(server.pid) - cpu
            found = {"rps": r["rps"], "p50": r["p50_us"], "p99": r["p99_us"],
                     "cpu": cpu / r["requests"] * 1e6, "kib": status_kib(server.pid),
                     "noise": max(0.0, (busy_s() - busy - own - cpu) / wall)}
            best = found if best is None or found["noise"] < best["noise"] else best
            if best["noise"] < NOISE:
                break
    return best


def paced(row, kind, folder):
    """Times of requests at a given rate, of which the first second warms."""
    log = folder / "paced.log"
    log.unlink(missing_ok=True)
    with server_of(kind, folder, None) as server:
        url = server.url(row[3] if kind == "ron" else row[4])
        more = [x for k, v in headers_for(url, row).items() for x in ("-H", f"{k}: {v}")]
        subprocess.run([*THERE, "h2load", "--h1", "-t1", f"-c{PACED_CONNECTIONS}",
                        f"--rps={PACED_RATE // PACED_CONNECTIONS}", f"-D{SECONDS + 1}",
                        f"--log-file={log}", *more, url], capture_output=True, check=True)
    rows = [list(map(int, x.split())) for x in log.read_text(encoding="ascii").splitlines()]
    begin = min(r[0] for r in rows) + 1000000
    times = sorted(r[2] for r in rows if r[0] >= begin)
    if any(r[1] != row[6] for r in rows) or len(times) < PACED_RATE * SECONDS // 2:
        raise RuntimeError(f"{kind}, {row[0]} at {PACED_RATE}/s: {len(times)} answers")
    return {"p95": times[len(times) * 95 // 100], "p99": times[len(times) * 99 // 100]}


# ---- the report ----------------------------------------------------------------------------------

def print_row(row, runs):
    peer = row[2]
    cpu = [r["ron"]["cpu"] / r[peer]["cpu"] for r in runs]
    rate = [r["ron"]["rps"] / r[peer]["rps"] for r in runs]
    good = statistics.median(cpu) <= row[7] and statistics.median(rate) >= row[8]
    digits = 3 if row[7] < 0.1 else 2
    cells = [row[1], peer, spread([r["ron"]["cpu"] for r in runs], 2),
             spread([r[peer]["cpu"] for r in runs], 2), f"x {spread(cpu, digits)}",
             spread([r["ron"]["rps"] for r in runs], 0), f"x {spread(rate, 2)}",
             f"{statistics.median(r['ron']['p99'] for r in runs):.0f} and "
             f"{statistics.median(r[peer]['p99'] for r in runs):.0f}",
             f"x {row[7]:.2f} and x {row[8]:.2f}", "met" if good else "missed"]
    print(f"| {' | '.join(cells)} |")


def print_paced(folder):
    chosen = [r for r in TABLE if r[2] == "nginx"]
    runs = {r[0]: [{k: paced(r, k, folder) for k in random.sample(["ron", "nginx"], 2)}
                   for _ in range(REPS)] for r in chosen}
    print(f"\n### At {PACED_RATE} requests a second, {PACED_CONNECTIONS} connections\n\n"
          "| request | | edge, us | nginx, us | aim | |\n|---|---|---|---|---|---|")
    for row in chosen:
        for key in ("p95", "p99"):
            ours = [r["ron"][key] for r in runs[row[0]]]
            theirs = [r["nginx"][key] for r in runs[row[0]]]
            limit = 40000 if key == "p95" else statistics.median(theirs)
            print(f"| {row[1]} | {key} | {spread(ours, 0)} | {spread(theirs, 0)} | "
                  f"{'40 ms' if key == 'p95' else 'no worse'} | "
                  f"{'met' if statistics.median(ours) <= limit else 'missed'} |")


def chosen_rows():
    names = [r[0] for r in TABLE] + ALSO
    wanted = ROWS.split(",") if ROWS else names
    for name in wanted:
        if name not in names:
            sys.exit(f"RON_BENCH_ROWS has no '{name}'; known: {' '.join(names)}")
    if "hit" in wanted and not shutil.which("varnishd"):
        print("left out: varnishd is not there", file=sys.stderr)
        wanted = [w for w in wanted if w != "hit"]
    if "tileserver" in wanted and not TileServer.install():
        print("left out: tileserver-gl-light cannot be installed (node, npm or its registry)",
              file=sys.stderr)
        wanted = [w for w in wanted if w != "tileserver"]
    return wanted


def make_folder(folder):
    folder.chmod(0o755)
    (folder / "www").mkdir()
    tile = random.Random(1).randbytes(TILE_BYTES)
    (folder / "www" / "tile.png").write_bytes(tile)
    (folder / "www" / "small.html").write_bytes(b"x" * 1024)
    (folder / "www" / "large.bin").write_bytes(random.Random(2).randbytes(1 << 20))
    one_tile_pack(folder / "world.pmtiles", tile)


def print_table(chosen, folder):
    runs = {r[0]: [] for r in chosen}
    with Files(folder, ()) as origin:
        for repetition in range(REPS):
            for row in chosen:
                runs[row[0]].append({
                    k: measure(row, k, folder, origin if row[0] == "hit" or k == "varnish"
                               else None) for k in random.sample(["ron", row[2]], 2)})
                print(f"repetition {repetition + 1} of {REPS}: {row[0]} "
                      f"{ {k: round(r['cpu'], 2) for k, r in runs[row[0]][-1].items()} }",
                      file=sys.stderr, flush=True)
    noise = [r["noise"] for rows in runs.values() for run in rows for r in run.values()]
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="ascii"))
    also = f", Varnish {Varnish.version()}" if any(r[2] == "varnish" for r in chosen) else ""
    print(f"## The edge beside nginx {nginx_version()}{also}\n\n"
          f"Machine: {model[1] if model else 'unknown processor'}, {os.cpu_count()} cores, "
          f"Linux {os.uname().release}. {REPS} repetitions of {SECONDS} s, {CONNECTIONS} "
          f"connections. Others used {spread(noise, 2)} of a core during the runs.\n\n"
          "| request | peer | edge, processor us | peer | ratio | edge, requests/s | ratio | "
          "p99 us, edge and peer | aims | |\n|---|---|---|---|---|---|---|---|---|---|")
    for row in chosen:
        print_row(row, runs[row[0]])
    kib = statistics.median(r["ron"]["kib"] for rows in runs.values() for r in rows)
    print(f"\nResident memory of the edge: {kib / 1024:.1f} MiB.")


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return
    wanted = chosen_rows()
    chosen = [r for r in TABLE if r[0] in wanted]
    with tempfile.TemporaryDirectory(prefix="ron-bench-") as name:
        make_folder(Path(name))
        if chosen:
            print_table(chosen, Path(name))
        if "paced" in wanted:
            print_paced(Path(name))
        if "sizes" in wanted:
            edge_sizes.report(Path(name), REPS)


main()
