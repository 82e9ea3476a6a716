#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it measures deadlines.
"""The edge's front as strangers meet it: what is let in, how each refusal looks, several ranges,
codings, other origins' pages, deadlines, a drain, and the settings under both of their names.

Method: a real edge each; every refusal of the specification is provoked, and its status, envelope
and edge_rejects_total{reason} must agree. curl plays the range matrix, its bodies compared with the
bytes that are known here. Origins are sockets of this test, so that what stands still stands still
as long as the test wants."""
import email
import gzip
import http.client
import http.server
import json
import re
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from edgekit import Answer, Edge, Origin
from httpkit import check, eventually, finish, missing
from ledgerkit import PROGRAM
from rewarderkit import b3

BIG = bytes((i * 31 + i // 997) % 256 for i in range(300_000))
BASE = "/edge/assets/files/"
TREE = Path(__file__).resolve().parents[2]
SCRATCH = Path(tempfile.mkdtemp(prefix="ron-rules-"))
TILE = b"a tile in plain bytes " * 50


def refused(edge, name, a, status, reason, label=None):
    """One refusal: its status, its envelope and the count under its label."""
    label = label or reason
    body = json.loads(a.body)
    check(f"refused: {name}: {status} {reason}", (a.status, body["reason"]) == (status, reason) and
          set(body) >= {"code", "message", "retryable", "corr_id"}, (a.status, a.body))
    check(f"refused: {name}: X-Reason repeats it", a.headers.get_all("X-Reason") == [reason],
          dict(a.headers))
    if status in (429, 503):
        check(f"refused: {name}: says when to come again", a["Retry-After"] is not None)
    check(f"refused: {name}: counted", eventually(
        lambda: edge.metric(f'edge_rejects_total{{reason="{label}"}}') >= 1),
        [x for x in edge.get("/metrics").body.decode().splitlines() if "edge_rejects" in x])


class Silent:
    """An origin that takes connections and says nothing until the test lets it."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.held = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while True:
            try:
                self.held.append(self.socket.accept()[0])
            except OSError:
                return

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread, which close alone does not
        self.thread.join()
        self.socket.close()
        for s in self.held:
            s.close()


class Weak(http.server.BaseHTTPRequestHandler):
    """An origin without strong tags, and with an object that is too large."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"x" * (4096 if self.path == "/large" else 10)
        self.send_response(200)
        self.send_header("ETag", '"s"' if self.path == "/large" else 'W/"w"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def origin_options(url):
    return (f"--origins.map.url={url}", "--origins.map.allow_http=true",
            "--origins.map.allow_private=true")


def by_policy():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Weak)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with Edge(*origin_options(url), "--edge.object_bytes=1KiB", "--origins.map.require_etag=true",
              "--limits.max_body_bytes=100KiB", files={"a": b"a"}) as edge:
        refused(edge, "an origin that is not named", edge.get("/edge/assets/o/evil/x"),
                403, "not_allowed")
        refused(edge, "an origin without a strong tag", edge.get("/edge/assets/o/map/weak"),
                502, "etag_invalid")
        refused(edge, "an object that is too large", edge.get("/edge/assets/o/map/large"),
                502, "body_cap")
        refused(edge, "a range outside", edge.get(BASE + "a", Range="bytes=5-"),
                416, "invalid_range")
        c = edge.client()
        c.request("GET", BASE + "a", body=b"y" * 200_000)
        refused(edge, "a body that is too large", Answer(c.getresponse()), 413, "too_large",
                "body_cap")
        c = edge.client()
        c.request("GET", BASE + "a", body=gzip.compress(bytes(90_000)),
                  headers={"Content-Encoding": "gzip"})
        refused(edge, "a body that unpacks too far", Answer(c.getresponse()), 413,
                "decompress_cap")
    with Edge("--timeouts.read=200ms", "--cors.allow_origins=*") as edge:
        for name, text in (("head", b""), ("body", b"Content-Length: 5\r\n\r\n")):
            host, port = edge.addr.rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=20) as s:
                s.sendall(f"GET {BASE}a HTTP/1.1\r\nHost: {edge.addr}\r\n".encode() + text)
                r = http.client.HTTPResponse(s)
                r.begin()
                a = Answer(r)
            refused(edge, f"a {name} that does not come", a, 408, "read_timeout", "timeout")
            check(f"refused: a {name} that does not come: any page may read that",
                  a["Access-Control-Allow-Origin"] == "*", dict(a.headers))
    with Edge(*origin_options(url), "--amnesia.enabled=true", "--edge.amnesia_bytes=0B",
              files={"a": b"a"}) as edge:
        refused(edge, "an origin, and nothing may be kept", edge.get("/edge/assets/o/map/weak"),
                503, "amnesia")
        check("amnesia: an object", edge.get("/cas/b3:" + "0" * 64).status == 503)
        check("amnesia: files are served", edge.get(BASE + "a").body == b"a")
        check("amnesia: nothing is on disk", not (edge.folder / "data").exists())
    with Edge(*origin_options(url), "--amnesia.enabled=true",
              "--origins.map.require_etag=false") as edge:
        check("amnesia: with memory it fills", edge.get("/edge/assets/o/map/weak").status == 200)
    server.shutdown()


def by_load():
    page = "https://map.example"
    with Edge("--limits.rate_per_second=5", "--limits.burst=5", f"--cors.allow_origins={page}",
              files={"a": b"a"}) as edge:
        for _ in range(12):
            last = edge.get(BASE + "a", Origin=page)
        refused(edge, "beyond the rate", last, 429, "rate_limit")
        check("rate: a page of another site can read it",
              last["Access-Control-Allow-Origin"] == page and
              "X-Reason" in last["Access-Control-Expose-Headers"], dict(last.headers))
    origin = Silent()
    with Edge(*origin_options(origin.url), "--ingress.max_inflight=2", "--ingress.timeout_secs=2",
              "--edge.fill_timeout=2s",  # no longer than the request: nobody is promised anything
              files={"a": b"a"}) as edge:
        clients = [edge.client() for _ in range(2)]
        for i, c in enumerate(clients):
            c.request("GET", f"/edge/assets/o/map/{i}")
        check("inflight: two wait", eventually(
            lambda: edge.metric('inflight_requests{route=""}') == 2))
        a = edge.get("/edge/assets/o/map/x")
        refused(edge, "a third in flight", a, 429, "busy", "rate_limit")
        check("inflight: hits are served on", edge.get(BASE + "a").status in (200, 429))
        begun = time.monotonic()
        answers = [c.getresponse() for c in clients]
        took = time.monotonic() - begun
        check("timeout: both are 503", [(r.status, r.headers["X-Reason"]) for r in answers] ==
              [(503, "timeout")] * 2, [dict(r.headers) for r in answers])
        check("timeout: within its time and what a busy machine adds", took < 8, took)
        check("timeout: counted", edge.metric('edge_rejects_total{reason="timeout"}') >= 2)
        origin.close()


def deadlines():
    origin = Silent()
    with Edge(*origin_options(origin.url), files={"a": b"a"}) as edge:
        begun = time.monotonic()
        a = edge.get("/edge/assets/o/map/d", Request_Timeout="soon")
        refused(edge, "a deadline that is no number", a, 400, "bad_deadline")
        begun = time.monotonic()
        a = edge.get("/edge/assets/o/map/d", Request_Timeout="1")
        took = time.monotonic() - begun
        check("deadline: Request-Timeout ends it", a.status == 202 and 0.9 < took < 4.5, took)
        begun = time.monotonic()
        a = edge.get("/edge/assets/o/map/e", Deadline=str(int(time.time() * 1000) + 500))
        took = time.monotonic() - begun
        check("deadline: Deadline ends it", a.status == 202 and took < 4.5, took)
        a = edge.get(BASE + "a", Deadline=str(int(time.time() * 1000) - 1000))
        refused(edge, "a deadline that has passed", a, 503, "timeout")
        check("deadline: a hit in time", edge.get(BASE + "a", Request_Timeout="2").status == 200)
        origin.close()


def drain():
    origin = Silent()
    edge = Edge(*origin_options(origin.url), "--drain_deadline=1s", "--edge.fill_timeout=20s",
                "--timeouts.request=20s", files={"a": b"a"}, expect=2)
    with edge:
        c, idle = edge.client(), edge.client()
        idle.connect()
        c.request("GET", "/edge/assets/o/map/hang")
        check("drain: a fill is under way", eventually(lambda: len(origin.held) == 1))
        begun = time.monotonic()
        edge.process.send_signal(signal.SIGTERM)
        r = c.getresponse()
        check("drain: who waits is answered", r.status in (502, 503), r.status)
        edge.process.wait(30)
        took = time.monotonic() - begun
        check("drain: the process ends soon after its deadline", took < 10, took)
        aborted = [json.loads(x) for x in edge.lines if '"event":"aborted"' in x]
        check("drain: the worker that hung is aborted and told of, and nobody else",
              [x["kind"] for x in aborted] == ["worker"], edge.lines[-10:])
    origin.close()


def drain_in_time():
    """A fill that is slow, but good, and ends before the drain does."""
    asked, release = threading.Event(), threading.Event()

    def slow(_handler):
        asked.set()
        release.wait(20)
        return 200, {"ETag": '"s"', "Cache-Control": "max-age=60"}, b"slow, but good"
    origin = Origin()
    origin.answers["/slow"] = slow
    with Edge(*origin_options(origin.url), "--drain_deadline=5s", "--timeouts.request=20s",
              "--edge.fill_timeout=20s") as edge:
        c = edge.client()
        c.request("GET", "/edge/assets/o/map/slow")
        check("drain: a slow fill is under way", asked.wait(20))
        edge.process.send_signal(signal.SIGTERM)
        check("drain: it has begun", eventually(
            lambda: any('"state":"draining"' in x for x in edge.lines)))
        release.set()
        r = c.getresponse()
        check("drain: who waits gets the bytes", (r.status, r.read()) == (200, b"slow, but good"),
              r.status)
        check("drain: nobody is aborted, nothing is left", edge.process.wait(30) == 0 and
              not any('"event":"aborted"' in x for x in edge.lines), edge.lines[-10:])


def parts(edge):
    for path, data, kind in ((BASE + "big.bin", BIG, "application/octet-stream"),
                             (BASE + "small.txt", BIG[:500], "text/plain; charset=utf-8")):
        a = edge.get(path, Range="bytes=0-9, 100-199, -5")
        message = email.message_from_bytes(b"Content-Type: " + a["Content-Type"].encode() +
                                           b"\r\n\r\n" + a.body)
        got = [(p["Content-Range"], p["Content-Type"], p.get_payload(decode=True))
               for p in message.get_payload()]
        n = len(data)
        want = [(f"bytes {f}-{e}/{n}", kind, data[f:e + 1])
                for f, e in ((0, 9), (100, 199), (n - 5, n - 1))]
        check(f"parts: {kind}: all three, with their places", a.status == 206 and got == want,
              (a.status, a["Content-Type"], got))
        check(f"parts: {kind}: the length is told", int(a["Content-Length"]) == len(a.body))
        check(f"parts: {kind}: the tag is of the whole", a["ETag"] == f'"{b3(data)}"')
    a = edge.get(BASE + "big.bin", Range="bytes=0-9,5-20,21-30")
    check("parts: ranges that meet are one", a.status == 206 and a.body == BIG[:31] and
          a["Content-Range"] == f"bytes 0-30/{len(BIG)}")
    a = edge.get(BASE + "big.bin", Range="bytes=0-9,50-59", If_Range='"b3:no"')
    check("parts: If-Range that does not match: the whole", a.status == 200 and a.body == BIG)
    a = edge.get(BASE + "big.bin", Range=f"bytes={len(BIG)}-,{len(BIG) + 5}-")
    check("parts: none inside is 416", a.status == 416)
    a = edge.get(BASE + "big.bin", Range="bytes=" + ",".join(f"{i}-{i}" for i in range(0, 400, 2)))
    check("parts: too many are 416", a.status == 416, a.status)
    a = edge.get(BASE + "big.bin", Range="bytes=0-70000,100000-250000")
    check("parts: larger than a piece", BIG[:70001] in a.body and BIG[100000:250001] in a.body)
    a = edge.get(BASE + "big.bin", "HEAD", Range="bytes=0-1,5-6")
    check("parts: HEAD has none", a.status == 200 and a["Content-Length"] == str(len(BIG)))


def curl_matrix(edge):
    if missing("curl"):
        return
    n = len(BIG)
    rows = [("0-0", 0, 0), ("0-99", 0, 99), ("100-", 100, n - 1), ("-1", n - 1, n - 1),
            ("-1000", n - 1000, n - 1), (f"{n - 1}-{n + 9}", n - 1, n - 1), ("65535-65536", 65535,
                                                                          65536)]
    url = f"http://{edge.addr}{BASE}big.bin"
    for text, first, last in rows:
        done = subprocess.run(["curl", "-sS", "-w", "%{stderr}%{http_code}", "-r", text, url],
                              capture_output=True, timeout=30, check=False)
        check(f"curl: -r {text}", done.stderr == b"206" and done.stdout == BIG[first:last + 1],
              done.stderr)
    done = subprocess.run(["curl", "-sS", "-w", "%{stderr}%{http_code}", "-r", f"{n}-", url],
                          capture_output=True, timeout=30, check=False)
    check("curl: beyond the end is 416", done.stderr == b"416", done.stderr)
    target = SCRATCH / "part"
    target.write_bytes(BIG[:12345])
    done = subprocess.run(["curl", "-sS", "-C", "-", "-o", str(target), url], capture_output=True,
                          timeout=30, check=False)
    check("curl: goes on where it stopped", target.read_bytes() == BIG, done.stderr)
    etag = SCRATCH / "etag"
    for want in (b"200", b"304"):
        done = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}",
                               "--etag-save", str(etag), "--etag-compare", str(etag), url],
                              capture_output=True, timeout=30, check=False)
        check(f"curl: by its kept tag {want.decode()}", done.stdout == want, done.stdout)


def mbtiles(path):
    db = sqlite3.connect(path)
    db.executescript("""create table metadata (name text, value text);
        create table tiles (zoom_level integer, tile_column integer, tile_row integer,
          tile_data blob);
        insert into metadata values ('name', 'v'), ('format', 'pbf'), ('minzoom', '0'),
          ('maxzoom', '1'), ('json', '{"vector_layers":[]}');""")
    db.execute("insert into tiles values (0, 0, 0, ?)", (gzip.compress(TILE),))
    db.execute("insert into tiles values (1, 0, 0, ?)", (gzip.compress(bytes(3 << 20)),))
    db.commit()
    db.close()
    return path


def codings():
    with Edge("--limits.max_decoded=1MiB", packs={"v": mbtiles(SCRATCH / "v.mbtiles")}) as edge:
        check("codings: ready", eventually(lambda: edge.get("/readyz").status == 200))
        packed = edge.get("/edge/assets/v/0/0/0.mvt", Accept_Encoding="gzip, br")
        check("codings: as stored for who takes it", packed["Content-Encoding"] == "gzip" and
              gzip.decompress(packed.body) == TILE and packed["ETag"] == f'"{b3(packed.body)}"')
        for value in ("identity", "br", "gzip;q=0", "identity, gzip;q=0.5"):
            plain = edge.get("/edge/assets/v/0/0/0.mvt", Accept_Encoding=value)
            check(f"codings: '{value}' gets plain bytes with their own tag", plain.status == 200 and
                  plain.body == TILE and plain["Content-Encoding"] is None and
                  plain["ETag"] == f'"{b3(TILE)}"', dict(plain.headers))
            check(f"codings: '{value}': Vary says so", "Accept-Encoding" in plain["Vary"] and
                  "Accept-Encoding" in packed["Vary"])
        a = edge.get("/edge/assets/v/0/0/0.mvt", Accept_Encoding="identity",
                     If_None_Match=f'"{b3(TILE)}"')
        check("codings: 304 by the tag of the plain bytes", a.status == 304)
        a = edge.get("/edge/assets/v/0/0/0.mvt", Accept_Encoding="identity", Range="bytes=2-5")
        check("codings: a range of the plain bytes", a.status == 206 and a.body == TILE[2:6])
        refused(edge, "a tile that unpacks too far",
                edge.get("/edge/assets/v/1/0/1.mvt", Accept_Encoding="identity"), 406,
                "decompress_cap")
        check("tiles: one that is not there is 204",
              edge.get("/edge/assets/v/1/1/1.mvt").status == 204)
    with Edge("--http.empty_tile_204=false", packs={"v": SCRATCH / "v.mbtiles"}) as edge:
        check("codings: ready", eventually(lambda: edge.get("/readyz").status == 200))
        check("tiles: or 404", edge.get("/edge/assets/v/1/1/1.mvt").status == 404)


def pages_of_others():
    with Edge("--cors.allow_origins=https://map.example", files={"a": b"a"}) as edge:
        ask = {"Origin": "https://map.example", "Access_Control_Request_Method": "GET",
               "Access_Control_Request_Headers": "if-none-match"}
        a = edge.get(BASE + "a", "OPTIONS", **ask)
        check("pages: asked before, answered with what is allowed", a.status == 204 and
              a["Access-Control-Allow-Origin"] == "https://map.example" and
              "If-None-Match" in a["Access-Control-Allow-Headers"] and
              a["Access-Control-Allow-Methods"] == "GET, HEAD" and "GET" in a["Allow"],
              dict(a.headers))
        ask["Origin"] = "https://evil.example"
        a = edge.get(BASE + "a", "OPTIONS", **ask)
        check("pages: another one is allowed nothing", a.status == 204 and
              a["Access-Control-Allow-Origin"] is None and
              a["Access-Control-Allow-Methods"] is None)
        a = edge.get(BASE + "none", Origin="https://map.example")
        check("pages: refusals can be read, too", a.status == 404 and
              a["Access-Control-Allow-Origin"] == "https://map.example")
        a = edge.get(BASE + "a", "OPTIONS")
        check("pages: OPTIONS without an origin", a.status == 204 and "GET" in a["Allow"])


def warm_hits(edge):
    """The specification wants 95 of 100 warm hits within 40 ms; the number is told."""
    client, times = edge.client(), []
    for i in range(400):
        begun = time.monotonic()
        a = edge.get(BASE + "big.bin", client=client, Range=f"bytes={i * 100}-{i * 100 + 16383}")
        times.append(time.monotonic() - begun)
        assert a.status == 206
    times.sort()
    print(f"warm hits: p50 {times[200] * 1000:.2f} ms, p95 {times[380] * 1000:.2f} ms")
    check("warm hits: half of them within that on any machine", times[200] < 0.04, times[200])


def settings():
    def printed(*options, env=None):
        done = subprocess.run([PROGRAM, "edge", "--print-config", *options], capture_output=True,
                              text=True, timeout=30, check=False, env=env)
        return done.stdout if done.returncode == 0 else done.stderr
    text = printed()
    for line in ('request = "5s"', "inflight = 512", "rate_per_second = 500",
                 'max_body_bytes = "1MiB"', "decompress_ratio_cap = 10", 'max_decoded = "10MiB"',
                 'drain_deadline = "3s"', "work = 512", 'idle = "1m"', 'fill_timeout = "5s"'):
        check(f"settings: default {line}", f"\n{line}\n" in text)
    text = printed("--ingress.timeout_secs=7", "--ingress.max_inflight=9", "--ingress.rps_limit=11",
                   "--ingress.body_bytes=2048", "--ingress.decompress_max_ratio=4",
                   "--ingress.decompress_abs_bytes=4096", "--retry.live_fill.base_ms=20",
                   "--retry.live_fill.max_ms=90", "--drain_deadline=2s", "--queues.work=3")
    for line in ('request = "7s"', "inflight = 9", "rate_per_second = 11",
                 'max_body_bytes = "2KiB"', "decompress_ratio_cap = 4", 'max_decoded = "4KiB"',
                 'base = "20ms"', 'max = "90ms"', 'drain_deadline = "2s"', "work = 3"):
        check(f"settings: overridden {line}", f"\n{line}\n" in text, text[-300:])
    check("settings: both names at once are refused", "both of its names" in
          printed("--ingress.max_inflight=9", "--limits.inflight=8"))


def events():
    """What happens, in its order, on the Unix socket alone."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Weak)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = SCRATCH / "live.mbtiles"
    path.write_bytes((SCRATCH / "v.mbtiles").read_bytes())
    sock = SCRATCH / "run" / "edge.sock"
    with Edge(*origin_options(f"http://127.0.0.1:{server.server_port}"), f"--uds.path={sock}",
              packs={"v": path}) as edge:
        check("events: ready", eventually(lambda: edge.get("/readyz").status == 200))
        check("events: not for strangers", edge.get("/edge/events").status == 404)
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        s.connect(str(sock))
        s.sendall(b"GET /edge/events HTTP/1.1\r\nHost: e\r\n\r\n")
        lines = s.makefile("rb")
        while b"edge events" not in lines.readline():
            pass

        def following():
            while not (line := lines.readline()).startswith(b"data: "):
                pass
            return json.loads(line[6:])
        edge.get("/edge/assets/o/map/large")
        got = following()
        check("events: a fill", (got["origin"], got["outcome"], got["status"]) ==
              ("map", "filled", 200) and got["bytes"] == 4096, got)
        edge.get("/edge/assets/o/map/weak")
        check("events: one that failed", following()["outcome"] == "failed")
        path.write_bytes(b"damaged")
        edge.process.send_signal(signal.SIGHUP)
        got = following()
        check("events: a pack that stays", (got["pack"], got["state"]) == ("v", "kept"), got)
        topology = json.loads(edge.get("/debug/topology").body)
        check("events: the bus keeps 1024 and drops the oldest", any(
            b["name"] == "events" and b["capacity"] == 1024 for b in topology["buses"]),
            topology["buses"])
        check("events: lag is counted", b'bus_lagged_total{bus="events"} 0' in
              edge.get("/metrics").body)
        s.close()
    server.shutdown()


def document():
    """Every route of api/edge.yaml is there, and answers with a status that stands there."""
    try:
        import yaml
    except ImportError:
        print("left out: python3-yaml is not installed")
        return
    api = yaml.safe_load((TREE / "api/edge.yaml").read_text(encoding="utf-8"))
    values = {"pack": "v", "z": "0", "x": "0", "y": "0", "ext": "mvt", "path": "a",
              "origin": "none", "id": "b3:" + "0" * 64}
    with Edge(packs={"v": SCRATCH / "v.mbtiles"}, files={"a": b"a"}) as edge:
        check("document: ready", eventually(lambda: edge.get("/readyz").status == 200))
        for path, methods in api["paths"].items():
            for method, operation in methods.items():
                url = re.sub(r"\{(\w+)\}", lambda m: values[m[1]], path)
                a = edge.get(url.replace("/ledger/a", "/ledger/checkpoint"), method.upper())
                known = path != "/edge/purge"  # without a key file it does not exist
                check(f"document: {method} {path}", str(a.status) in operation["responses"] or
                      (not known and a.status in (404, 405)), (url, a.status))
                if known:
                    check(f"document: {method} {path} is a route", a.status != 405 and
                          a["X-Corr-ID"] is not None)


by_policy()
by_load()
deadlines()
drain()
drain_in_time()
with Edge("--http.multipart_ranges=true", files={"big.bin": BIG, "small.txt": BIG[:500]}) as e:
    parts(e)
    curl_matrix(e)
    warm_hits(e)
codings()
pages_of_others()
events()
document()
settings()
finish()
