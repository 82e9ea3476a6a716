#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the edge stores: purged by whom it may, over restarts, damaged, evicted, and never on disk
under amnesia. An origin on loopback counts what it is asked for."""
import concurrent.futures
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from edgekit import Edge, Keys, purge
from httpkit import check, eventually, finish
from originkit import Origin
from rewarderkit import b3

PROGRAM = os.environ["RON_BIN"]
LIVE = "/edge/assets/o/map"
FRESH = {"ETag": '"v1"', "Cache-Control": "max-age=600"}


def edge_of(origin, *more, folder=None):
    return Edge(f"--origins.map.url={origin.url}", "--origins.map.allow_http=true",
                "--origins.map.allow_private=true", "--gateway.origin=map",
                "--timeouts.request=30s",  # a slow machine is not what is tested here
                *([f"--edge.dir={folder}"] if folder else []), *more)


def purges(origin, keys):
    token = keys.token("edge.purge")
    for path in ("/a", "/b/1", "/b/2", "/c"):
        origin.answers[path] = (200, FRESH, path.encode() * 100)
    with edge_of(origin, f"--auth.key_file={keys.file}") as edge:
        for _ in range(2):
            for path in ("/a", "/b/1", "/b/2", "/c"):
                edge.get(LIVE + path)
                edge.get(path)
        check("purge: two lives of each, one request a life", origin.count("/b/1") == 2)
        check("purge: without a token 401", purge(edge, None, path="/a")[0] == 401)
        check("purge: with another scope 403", purge(edge, keys.token("edge.read"),
                                                     path="/a")[0] == 403)
        for wrong in ({}, {"path": "/a", "id": "b3:" + "0" * 64}, {"id": "x"}, {"path": "a"},
                      {"other": 1}):
            check(f"purge: {wrong} is 400", purge(edge, token, **wrong)[0] == 400)
        check("purge: a path", purge(edge, token, path=LIVE + "/a") ==
              (200, {"records": 1, "objects": 0}))
        edge.get(LIVE + "/a")
        edge.get("/a")
        check("purge: it is asked for again, the gateway's own is not", origin.count("/a") == 3)
        edge.get("/b/1", Host="other.example")
        check("purge: a prefix of the gateway, of every host",
              purge(edge, token, prefix="/b/")[1]["records"] == 3)
        edge.get("/b/1")
        edge.get(LIVE + "/b/1")
        check("purge: again", origin.count("/b/1") == 4)
        edge.get("/b/1", Host="other.example")
        check("purge: a path of the gateway, of every host",
              purge(edge, token, path="/b/1")[1]["records"] == 2)
        identity = b3(b"/c" * 100)
        check("purge: the bytes", purge(edge, token, id=identity) ==
              (200, {"records": 0, "objects": 1}))
        check("purge: they are gone", edge.get("/cas/" + identity).status == 404)
        check("purge: and filled again where they are wanted",
              edge.get("/c").body == b"/c" * 100 and origin.count("/c") == 3 and
              edge.get("/cas/" + identity).status == 200)
        for words, told in (([LIVE + "/b/2"], {"records": 1, "objects": 0}),
                            (["--prefix", LIVE + "/b"], {"records": 1, "objects": 0}),
                            ([identity], {"records": 0, "objects": 1})):
            token_file = str(keys.file.with_name("token-edge.purge"))
            done = subprocess.run([PROGRAM, "edge", "purge", "--json", *words], capture_output=True,
                                  text=True, check=False,
                                  env={**os.environ, "RON_EDGE_URL": f"http://{edge.addr}",
                                       "RON_TOKEN_FILE": token_file})
            check(f"ron edge purge {words[0][:20]}", done.returncode == 0 and
                  json.loads(done.stdout) == told,
                  done.stdout + done.stderr)
        check("purge: nothing there", purge(edge, token, path="/none")[1]["records"] == 0)
        check("purge: counted", edge.metric('edge_purges_total{kind="path"}') == 4)
        asked, release = threading.Event(), threading.Event()

        def slow(_handler):
            asked.set()
            release.wait(20)
            return 200, FRESH, b"old"
        for path in (LIVE + "/slow", "/slow"):
            origin.answers["/slow"] = slow
            asked.clear()
            release.clear()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                first = pool.submit(edge.get, path)
                asked.wait(20)
                purge(edge, token, path=path)
                release.set()
                check("purge: a fill under way is answered", first.result().body == b"old")
            origin.answers["/slow"] = (200, FRESH, b"new")
            check("purge: but not kept", edge.get(path).body == b"new")
    with edge_of(origin) as edge:
        c = edge.client()
        c.request("POST", "/edge/purge", body="{}")
        check("purge: without keys there is no such route", c.getresponse().status == 404)


def restarts(origin, folder):
    origin.answers["/page"] = (200, {**FRESH, "Vary": "Accept-Language", "X-A": "1"}, b"page" * 50)
    origin.answers["/tile"] = (200, FRESH, b"tile" * 50)
    with edge_of(origin, folder=folder) as edge:
        edge.get("/page", Accept_Language="de", Host="a.example")
        edge.get(LIVE + "/tile")
    index = folder / "stored.idx"
    check("restart: the index is kept", index.exists() and index.stat().st_mode & 0o777 == 0o600)
    kept = index.read_bytes()
    with edge_of(origin, folder=folder) as edge:
        check("restart: it is taken at the start", not index.exists())
        a = edge.get("/page", Accept_Language="de", Host="a.example")
        check("restart: stored answers are still there", (a.status, a.body, a["X-A"], a["ETag"]) ==
              (200, b"page" * 50, "1", '"v1"') and "; hit" in a["Cache-Status"] and
              edge.get(LIVE + "/tile").body == b"tile" * 50 and
              (origin.count("/page"), origin.count("/tile")) == (1, 1))
        check("restart: their age goes on", int(a["Age"]) >= 0)
        edge.kill()
        edge.expect = -9
    with edge_of(origin, folder=folder) as edge:
        check("after a kill: asked for anew, never an older index",
              edge.get("/page", Accept_Language="de", Host="a.example").status == 200 and
              origin.count("/page") == 2)
    for name, data in (("cut", kept[:-1]), ("bit", kept[:40] + b"\xff" + kept[41:]), ("none", b"")):
        index.write_bytes(data)
        with edge_of(origin, folder=folder) as edge:
            edge.get(LIVE + "/tile")
            check(f"restart: a damaged index ({name}) is left alone", not index.exists() and
                  edge.get("/readyz").status == 200)
    check("restart: and costs one request each", origin.count("/tile") == 4, origin.count("/tile"))


def damage(origin, folder):
    """Every stored byte is checked: a flipped one is never served, and costs a request."""
    bodies = {"/small": os.urandom(5000), "/large": os.urandom(300000)}
    for path, body in bodies.items():
        origin.answers[path] = (200, FRESH, body)
    with edge_of(origin, folder=folder) as edge:
        for path in bodies:
            edge.get(path, Host="a.example")
            edge.get(LIVE + path)
    for path, body in bodies.items():
        name = b3(body)[3:]
        files = [p for p in folder.rglob("*") if p.is_file() and name.endswith(p.name)]
        check(f"damage: {path}: its file", len(files) == 1, files)
        data = bytearray(body)
        data[len(data) // 2] ^= 1
        files[0].chmod(0o600)
        files[0].write_bytes(data)
    with edge_of(origin, folder=folder) as edge:
        for path, body in bodies.items():
            a = edge.get(path, Range="bytes=0-99999", Host="a.example")
            check(f"damage: {path}: filled again", a.body == body[:100000], a.status)
            check(f"damage: {path}: for both", edge.get(LIVE + path).body == body)
            check(f"damage: {path}: one more request of each way at most",
                  origin.count(path) in (3, 4), origin.count(path))
        check("damage: set aside and counted", edge.metric(
            'cas_quarantined_total{store="edge"}') == 2 and
            len(list((folder / "store" / "quarantine").iterdir())) == 2)


def one_writer(origin):
    """Two targets with the same bytes, filled at once: one object."""
    body = os.urandom(100000)
    both = threading.Barrier(2)

    def same(_handler):
        both.wait(20)
        return 200, FRESH, body
    origin.answers["/x1"] = origin.answers["/x2"] = same
    with edge_of(origin) as edge, concurrent.futures.ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda p: edge.get(LIVE + p).body, ("/x1", "/x2")))
        check("one writer: both answered", got == [body, body])
        check("one writer: one object", edge.metric('cas_objects{store="edge"}') == 1 and
              edge.metric('cas_commits_total{store="edge"}') == 1 and
              edge.metric('cas_duplicates_total{store="edge"}') == 1)


def retries(origin):
    """Exact waits without jitter; a stalled origin ends at the deadline, counted as fill."""
    times = []

    def busy(_handler):
        times.append(time.monotonic())
        return 503, {}, b""
    origin.answers["/busy"] = busy
    stall = threading.Event()
    origin.answers["/stall"] = lambda _h: stall.wait(20) and None
    with edge_of(origin, "--retry.live_fill.jitter=false", "--retry.live_fill.base=200ms",
                 "--retry.live_fill.max=300ms", "--edge.fill_timeout=30s") as edge:
        edge.get(LIVE + "/busy")
        waits = [b - a for a, b in zip(times, times[1:])]
        check("retries: 200 ms, then 300 and not 400", len(waits) == 2 and waits[0] >= 0.2 and
              waits[1] >= 0.3, waits)
        check("retries: counted", edge.metric(
            'backoff_retries_total{svc="map",op="live_fill",result="retry"}') == 2)
    with edge_of(origin, "--edge.fill_timeout=1s") as edge:  # its breaker has not seen the others
        a = edge.get(LIVE + "/stall")
        check("stalled: 503 timeout", (a.status, a["X-Reason"]) == (503, "timeout"), a.status)
        check("stalled: counted", edge.metric('io_timeouts_total{op="fill",peer="map"}') >= 1)
        stall.set()


def late_jobs(origin):
    """A fill whose time passed while it waited for a worker is answered and not begun."""
    asked, release = threading.Event(), threading.Event()

    def hold(_handler):
        asked.set()
        release.wait(20)
        return 200, FRESH, b"held"
    origin.answers["/held"] = hold
    origin.answers["/late"] = (200, FRESH, b"late")
    with edge_of(origin, "--concurrency.fill_workers=1", "--edge.fill_timeout=100ms") as edge, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(edge.get, "/held")  # the gateway's calls have a time of their own
        asked.wait(20)
        begun = time.monotonic()
        late = pool.submit(edge.get, LIVE + "/late")
        check("late: it waits", eventually(lambda: edge.metric('queue_depth{queue="work"}') == 1))
        eventually(lambda: time.monotonic() > begun + 1)
        release.set()
        check("late: 503 timeout", (late.result().status, late.result()["X-Reason"]) ==
              (503, "timeout"), late.result().status)
        check("late: the one before is answered", first.result().body == b"held")
        check("late: the origin never saw it", origin.count("/late") == 0)


def trusted(folder):
    """An origin with HTTPS: filled when its certificate is of the authority that is set."""
    for name in ("good", "other"):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=origin",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / f"{name}.key",
                        "-out", folder / f"{name}.pem"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "good.pem", folder / "good.key")
    origin = Origin(tls=context)
    origin.answers["/t"] = (200, FRESH, b"over TLS")
    for name, status in (("good", 200), ("other", 502)):
        with Edge(f"--origins.map.url={origin.url}", "--origins.map.allow_private=true",
                  f"--origins.map.ca_file={folder / name}.pem", "--timeouts.request=30s") as edge:
            a = edge.get(LIVE + "/t")
            check(f"HTTPS: authority {name}: {status}", a.status == status, a.status)
    check("HTTPS: asked once", origin.count("/t") == 1)


def amnesia(origin):
    with edge_of(origin, "--amnesia.enabled=true") as edge:
        for path in ("/small", "/large"):
            body = origin.answers[path][2]
            check(f"amnesia: {path}", edge.get(path).body == body and
                  edge.get(path, Range="bytes=10-99").body == body[10:100])
        folder = edge.folder
        edge.stop()
        check("amnesia: nothing on disk, not even at the end", not (folder / "data").exists())


the_origin = Origin()
scratch = Path(tempfile.mkdtemp(prefix="ron-store-"))
the_keys = Keys(scratch)
purges(the_origin, the_keys)
restarts(the_origin, scratch / "restarts")
damage(the_origin, scratch / "damage")
one_writer(the_origin)
retries(the_origin)
late_jobs(the_origin)
trusted(scratch)
amnesia(the_origin)
shutil.rmtree(scratch)
finish()
