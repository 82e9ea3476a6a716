#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: never a wrong or mixed byte, whatever happens around the edge: an origin that is slow,
fails, stops in the middle or changes what it has; a store that makes room all the time, is full, or
is damaged on disk; packs that are exchanged under load.

Method: clients that hash every body and compare it with the tag, and with what was ever offered
under that path; ranges are put together and hashed whole. What goes wrong is drawn from a seed,
which is printed and can be given as RON_SEED.
"""
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from edgekit import Edge, Origin  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from rewarderkit import b3  # noqa: E402

BASE = "/edge/assets/o/map/"
SEED = int(os.environ.get("RON_SEED") or random.SystemRandom().randrange(1 << 32))
PATHS, VERSIONS = 24, 6
REFUSALS = {429, 502, 503}


def body_of(path, version):
    """Bytes that belong to path and version, from 1 byte to about 150 KB."""
    key = hashlib.sha256(f"{path} {version}".encode("ascii")).digest()
    return random.Random(key).randbytes(1 + int.from_bytes(key[:3], "big") % 150000)


class Hostile(Origin):
    """Serves versions of a few paths, badly."""

    def __init__(self, seed):
        super().__init__()
        self.random, self.version, self.bad = random.Random(seed), 0, 0.2
        outer = self

        class Answers(dict):
            def get(self, path, default=None):
                return outer.answer
        self.answers = Answers()
        self.offered = {}  # tag of ours -> path, for every body of every version
        self.bodies = {}
        for path in range(PATHS):
            for version in range(VERSIONS):
                body = body_of(f"/p{path}", version)
                self.bodies[f"/p{path}", version] = body
                self.offered[f'"{b3(body)}"'] = f"/p{path}"

    def answer(self, handler):
        with self.lock:
            kind = self.random.choice(("slow", "500", "503", "cut", "chunks", "reset", "lie")) \
                if self.random.random() < self.bad else "good"
            version = self.version
        body = self.bodies[handler.path, version]
        headers = {"ETag": f'"v{version}"', "Cache-Control": "max-age=0"}
        if kind == "good":
            return 200, headers, body
        if kind in ("500", "503"):
            return int(kind), {}, b"broken"
        handler.close_connection = True
        if kind == "reset":
            handler.connection.close()
            return None
        handler.send_response(200)
        for name, value in headers.items():
            handler.send_header(name, value)
        if kind == "chunks":  # no last chunk
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            handler.wfile.write(b"%X\r\n%s\r\n" % (len(body), body))
        elif kind == "lie":  # the next version, but the length of this one
            other = self.bodies[handler.path, (version + 1) % VERSIONS]
            handler.send_header("Content-Length", str(len(body) + len(other)))
            handler.end_headers()
            handler.wfile.write(body + other[:len(other) // 2])
        elif kind == "slow":
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            for at in range(0, len(body), 1 + len(body) // 4):
                handler.wfile.write(body[at:at + 1 + len(body) // 4])
                handler.wfile.flush()
                time.sleep(0.01)  # the origin's slowness is what is played here
        else:
            handler.send_header("Content-Length", str(len(body) + 1))
            handler.end_headers()
            handler.wfile.write(body)
        return None


def edge_of(origin, *more, **keys):
    return Edge(f"--origins.map.url={origin.url}", "--origins.map.allow_http=true",
                "--origins.map.allow_private=true", "--timeouts.request=20s",
                "--edge.fill_timeout=20s", "--retry.live_fill.base=1ms", *more, **keys)


class Clients:
    """Ask at random and verify; `each` draws what is asked for and looks at the answer."""

    def __init__(self, edge, count, each):
        self.edge, self.ending = edge, threading.Event()
        self.wrong, self.statuses, self.lock = [], {}, threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(each, SEED + i))
                        for i in range(count)]
        for t in self.threads:
            t.start()

    def run(self, each, seed):
        draw, client = random.Random(seed), self.edge.client()
        while not self.ending.is_set():
            try:
                status, complaint = each(self.edge, client, draw)
            except Exception as e:  # pylint: disable=broad-except
                status, complaint = 0, repr(e)
            with self.lock:
                self.statuses[status] = self.statuses.get(status, 0) + 1
                if complaint:
                    self.wrong.append(complaint)
            if complaint:
                client = self.edge.client()

    def good(self):
        with self.lock:
            return self.statuses.get(200, 0) + self.statuses.get(206, 0)

    def end(self, name, more=REFUSALS):
        self.ending.set()
        for t in self.threads:
            t.join()
        check(f"{name}: never a wrong or mixed byte", not self.wrong, self.wrong[:3])
        check(f"{name}: answers are whole or refused with a type",
              set(self.statuses) <= {200, 206} | more, self.statuses)
        print(f"{name}: {self.statuses}")


# ---- a hostile origin ----------------------------------------------------------------------------

def whole_or_in_parts(origin):
    """A request for the whole, or for two parts, the second with If-Range."""
    def each(edge, client, draw):
        path = f"/p{draw.randrange(PATHS)}"
        if draw.random() < 0.5:
            a = edge.get(BASE + path[1:], client=client)
            body = a.body
        else:
            a = edge.get(BASE + path[1:], client=client, Range="bytes=0-499")
            body = a.body
            if a.status == 206 and a["Content-Range"] != f"bytes 0-{len(body) - 1}/{len(body)}":
                rest = edge.get(BASE + path[1:], client=client, Range="bytes=500-",
                                If_Range=a["ETag"])
                if rest.status in REFUSALS:
                    return rest.status, ""
                if rest.status == 206 and rest["ETag"] != a["ETag"]:
                    return 206, f"If-Range {a['ETag']} got a part of {rest['ETag']}"
                body = body + rest.body if rest.status == 206 else rest.body
                a = rest
        if a.status in (200, 206):
            if a["ETag"] != f'"{b3(body)}"':
                return a.status, f"{path}: {len(body)} bytes do not have the tag {a['ETag']}"
            if origin.offered.get(a["ETag"]) != path:
                return a.status, f"{path}: nobody offered {a['ETag']}"
        return a.status, ""
    return each


def hostile_origin():
    origin = Hostile(SEED)
    with edge_of(origin, "--edge.store_bytes=1MiB", "--concurrency.fill_workers=4") as edge:
        clients = Clients(edge, 6, whole_or_in_parts(origin))
        for version in range(1, VERSIONS):
            before = clients.good()
            # A run of failures opens the breaker: then refusals for a while.
            check(f"origin: version {version} and before are served", eventually(
                lambda b=before: clients.good() > b + 60, 60), clients.statuses)
            with origin.lock:
                origin.version = version
        clients.end("origin")
        check("origin: room was made all the while",
              edge.metric('cas_evictions_total{store="edge"}') > 20)
        check("origin: what had made room was fetched anew",
              edge.metric('edge_rejects_total{reason="storage"}') == 0)
        origin.bad = 0.0
        last = origin.bodies["/p0", VERSIONS - 1]
        check("origin: the last version when it is well again", eventually(
            lambda: edge.get(BASE + "p0").body == last))


# ---- the store -----------------------------------------------------------------------------------

def objects_in(folder, size):
    return [p for p in (folder / "data").rglob("*") if p.is_file() and p.stat().st_size == size]


def damaged_store():
    origin = Origin()
    body = random.Random(SEED).randbytes(70000)
    origin.answers["/x"] = (200, {"ETag": '"x"', "Cache-Control": "max-age=600"}, body)
    edge = edge_of(origin)
    with edge:
        check("damage: filled", edge.get(BASE + "x").body == body)
        edge.stop()
        found = objects_in(edge.folder, len(body))
        check("damage: one object on disk", len(found) == 1, found)
        with open(found[0], "r+b") as f:
            f.seek(40000)
            f.write(bytes([body[40000] ^ 1]))
        edge.start()
        answers = [edge.get("/cas/" + b3(body)), edge.get(BASE + "x"), edge.get(BASE + "x")]
        check("damage: one bit is enough, nothing of it is served", all(
            a.body == body if a.status == 200 else a.status in (404, 502) for a in answers),
            [(a.status, a.body[:100]) for a in answers])
        check("damage: refilled, and served again", eventually(
            lambda: edge.get(BASE + "x").status == 200) and edge.get(BASE + "x").body == body)
        a = edge.get("/cas/" + b3(body))
        check("damage: by its id, too", a.status == 200 and a.body == body, a.status)
        check("damage: counted", edge.metric('cas_quarantined_total{store="edge"}') == 1)


def full_disk(folder):
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=72m,mode=0700", "tmpfs", disk],
                             capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        print("left out: a full disk, because none can be mounted: " + mounted.stderr.strip())
        return
    origin = Hostile(SEED)
    origin.bad = 0.0
    try:
        with edge_of(origin, f"--edge.dir={disk / 'store'}") as edge:
            kept = origin.bodies["/p0", 0]
            a = edge.get(BASE + "p0")
            check("full: before", a.status == 200 and a.body == kept, (a.body, edge.lines[-3:]))
            ballast = disk / "ballast"
            with open(ballast, "wb", buffering=0) as f:
                try:
                    while True:
                        f.write(bytes(65536))
                except OSError:
                    pass
            clients = Clients(edge, 4, whole_or_in_parts(origin))
            check("full: refused for want of space", eventually(
                lambda: clients.statuses.get(503, 0) > 20, 30), clients.statuses)
            a = edge.get("/cas/" + b3(kept))
            check("full: what was there is served, or made room", a.status == 404 or
                  a.status == 200 and a.body == kept, a.status)
            check("full: counted", edge.metric('edge_cas_writes_total{status="error"}') > 0)
            ballast.unlink()
            before = clients.good()
            check("full: goes on when there is space", eventually(
                lambda: clients.good() > before + 100, 30), clients.statuses)
            clients.end("full")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


# ---- packs ---------------------------------------------------------------------------------------

def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def pack_of(version):
    """A PMTiles archive of zoom 0 to 2 whose tiles say where they belong; {z/x/y: tile} of some."""
    tiles = [body_of(f"tile {i}", version)[:20000] for i in range(21)]
    at, offsets = 0, []
    for t in tiles:
        offsets.append(at)
        at += len(t)
    root = bytes([21]) + bytes([0] + [1] * 20) + bytes([1] * 21) + \
        b"".join(varint(len(t)) for t in tiles) + bytes([1] + [0] * 20)
    start = 127 + len(root)
    numbers = (127, len(root), start, 2, start + 2, 0, start + 2, at, 21, 21, 21)
    head = b"PMTiles\x03" + b"".join(n.to_bytes(8, "little") for n in numbers)
    head += bytes([1, 1, 1, 2, 0, 2])
    head += b"".join(n.to_bytes(4, "little", signed=True) for n in
                     (-1800000000, -850000000, 1800000000, 850000000))
    head += bytes([0]) + bytes(8)
    # Tile ids 0, 1, 2, 3, 4 along the Hilbert curve.
    names = {"0/0/0": 0, "1/0/0": 1, "1/0/1": 2, "1/1/1": 3, "1/1/0": 4}
    return head + root + b"{}" + b"".join(tiles), {n: tiles[i] for n, i in names.items()}


def packs_under_load(folder):
    packs = [pack_of(v) for v in range(3)]
    path = folder / "live.pmtiles"

    def put(data):
        beside = folder / "beside"
        beside.write_bytes(data)
        os.replace(beside, path)
    put(packs[0][0])
    allowed = {n: {p[1][n] for p in packs} for n in packs[0][1]}

    def each(edge, client, draw):
        name = draw.choice(list(allowed))
        a = edge.get(f"/edge/assets/live/{name}.png", client=client)
        if a.status == 200 and (a.body not in allowed[name] or a["ETag"] != f'"{b3(a.body)}"'):
            return 200, f"{name}: {len(a.body)} bytes under {a['ETag']} are of no version"
        return a.status, ""

    with Edge(packs={"live": path}) as edge:
        check("packs: ready", eventually(lambda: edge.get("/readyz").status == 200))
        clients = Clients(edge, 4, each)
        for turn in range(1, 10):
            data, tiles = packs[turn % 3]
            put(data)
            edge.process.send_signal(signal.SIGHUP)
            check(f"packs: exchange {turn} is served", eventually(
                lambda t=tiles: edge.get("/edge/assets/live/0/0/0.png").body == t["0/0/0"]))
            before = clients.good()
            check(f"packs: asked for after exchange {turn}",
                  eventually(lambda b=before: clients.good() > b + 20))
        clients.end("packs", set())


def main():
    print(f"seed {SEED}")
    with tempfile.TemporaryDirectory(prefix="ron-chaos-") as name:
        hostile_origin()
        damaged_store()
        full_disk(Path(name))
        packs_under_load(Path(name))
    finish()


main()
