#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The edge in front of an application: an origin on loopback whose every answer the test decides.

Stored answers are given as the origin said, shared only where they may be, forgotten when something
was written; everything else passes through both ways, in pieces."""
import concurrent.futures
import hashlib
import os
import socket
import threading

from edgekit import Edge
from httpkit import check, eventually, finish
from originkit import Origin

FRESH = {"ETag": '"v1"', "Cache-Control": "max-age=60"}
COUNTED = ('edge_rejects_total{reason="invalid_range"}',
           'edge_rejects_total{reason="precondition"}',
           'edge_range_requests_total{result="416"}',
           'edge_cache_hits_total{kind="gateway",range="miss"}')


def gateway(origin, *more, **kwargs):
    return Edge(f"--origins.app.url={origin.url}", "--origins.app.allow_http=true",
                "--origins.app.allow_private=true", "--gateway.origin=app",
                "--limits.inflight=1024",
                # A slow machine is not what is tested here.
                "--timeouts.request=30s", "--edge.fill_timeout=30s", *more, **kwargs)


def send(edge, method, path, body=None, **headers):
    c = edge.client()
    c.request(method, path, body=body, encode_chunked=callable(getattr(body, "__next__", None)),
              headers={k.replace("_", "-"): v for k, v in headers.items()})
    r = c.getresponse()
    return r, r.read()


def basics(origin, edge):
    origin.date = "Tue, 01 Jan 2030 00:00:00 GMT"  # ahead of us: no age of its own
    origin.answers["/page?q=1"] = (200, [*FRESH.items(), ("Set-Cookie", "a=1"),
                                         ("Set-Cookie", "b=2"), ("Connection", "X-Hop"),
                                         ("X-Hop", "1"),
                                         ("Content-Type", "text/x")], b"0123456789")
    a = edge.get("/page?q=1", Cookie="who=me", Authorization_X="1", Connection="X-Mine", X_Mine="2")
    check("miss: the answer as it is", (a.status, a.body, a["ETag"], a["Content-Type"]) ==
          (200, b"0123456789", '"v1"', "text/x"), dict(a.headers))
    check("miss: told and stored", "fwd=uri-miss" in a["Cache-Status"] and
          "stored" in a["Cache-Status"], a["Cache-Status"])
    check("fields of the connection end here", a["X-Hop"] is None and
          a.headers.get_all("Set-Cookie") == ["a=1", "b=2"], dict(a.headers))
    sent = origin.last("/page?q=1")
    check("the client's fields go on, but for those of its connection", sent.get("Cookie") ==
          "who=me" and "X-Mine" not in sent and sent["Via"] == "1.1 ron-edge", sent)
    check("the client's host goes on", sent["Host"] == edge.addr, sent)
    a = edge.get("/page?q=1")
    check("hit: no second request", origin.count("/page?q=1") == 1 and a.body == b"0123456789")
    check("hit: date of the origin, age of ours, Via", (a["Date"], a["Age"], a["Via"]) ==
          (origin.date, "0", "1.1 ron-edge") and "; hit" in a["Cache-Status"], dict(a.headers))
    origin.date = None
    a = edge.get("/page?q=1", Range="bytes=2-4")
    check("hit: a range of the stored whole", (a.status, a.body, a["Content-Range"]) ==
          (206, b"234", "bytes 2-4/10"))
    check("hit: 304 by the origin's tag", edge.get("/page?q=1", If_None_Match='"v1"').status == 304)
    before = [edge.metric(x) for x in COUNTED]
    check("hit: a range outside, another tag", edge.get("/page?q=1", Range="bytes=99-").status ==
          416 and edge.get("/page?q=1", If_Match='"other"').status == 412)
    check("hit: which are counted as what they are", [edge.metric(x) for x in COUNTED] ==
          [before[0] + 1, before[1] + 1, before[2] + 1, before[3]], before)
    a = edge.get("/page?q=1", method="HEAD")
    check("hit: HEAD", (a.status, a["Content-Length"], a.body) == (200, "10", b""))
    origin.answers["/gone"] = (410, {"Cache-Control": "max-age=60"}, b"it was here")
    edge.get("/gone")
    a = edge.get("/gone")
    check("an error is kept with its status and body", (a.status, a.body) == (410, b"it was here")
          and origin.count("/gone") == 1)
    origin.answers["/empty"] = (204, {"Cache-Control": "max-age=60"}, b"")
    edge.get("/empty")
    check("an answer without a body is kept", edge.get("/empty").status == 204 and
          origin.count("/empty") == 1)
    origin.answers["/moved"] = (302, {"Location": "/x"}, b"")
    a = edge.get("/moved")
    check("a redirect is passed on, not followed", (a.status, a["Location"]) == (302, "/x") and
          origin.count("/x") == 0)
    check("only-if-cached: 504", edge.get("/new", Cache_Control="only-if-cached").status == 504)
    check("a loop is broken", edge.get("/page?q=1", Via="1.1 ron-edge").status == 508)
    check("what the edge serves itself is not passed on", edge.get("/edge/assets/x").status == 404
          and send(edge, "POST", "/edge/assets/x")[0].status == 404)


def coding(origin, edge):
    origin.answers["/packed"] = lambda h: (
        (200, {**FRESH, "Content-Encoding": "gzip"}, b"packed") if "gzip" in
        h.headers.get("Accept-Encoding", "") else (200, FRESH, b"plain"))
    check("coded for who takes it", edge.get("/packed", Accept_Encoding="gzip").body == b"packed")
    check("and not for others, though the origin forgot Vary",
          edge.get("/packed", Accept_Encoding="identity").body == b"plain")


def freshness(origin, edge):
    origin.answers["/stale"] = (200, {"ETag": '"s"', "Cache-Control": "max-age=0"}, b"one")
    edge.get("/stale")
    a = edge.get("/stale", If_None_Match='"other"', Cookie="c=1")
    check("stale: asked for with our validator, answered whole", a.body == b"one" and
          origin.last("/stale")["If-None-Match"] == '"s"' and
          origin.last("/stale")["Cookie"] == "c=1" and
          "fwd-status=304" in a["Cache-Status"], a["Cache-Status"])
    origin.answers["/kept"] = (200, {"Cache-Control": "max-age=0, stale-if-error=60"}, b"kept")
    edge.get("/kept")
    origin.answers["/kept"] = (503, {}, b"down")
    a = edge.get("/kept")
    check("stale-if-error", a.body == b"kept" and "stale-if-error" in a["Cache-Status"])
    check("but not for who wants it fresh",
          edge.get("/kept", Cache_Control="no-cache").status == 503)
    origin.answers["/behind"] = (200, {"Cache-Control": "max-age=0, stale-while-revalidate=60"},
                                 b"1")
    edge.get("/behind")
    origin.answers["/behind"] = (200, {"Cache-Control": "max-age=60"}, b"2")
    check("stale-while-revalidate: at once", edge.get("/behind").body == b"1")
    check("and then the new one", eventually(lambda: edge.get("/behind").body == b"2") and
          origin.count("/behind") == 2)
    origin.answers["/head"] = (200, {"ETag": '"h"', "Cache-Control": "max-age=0"}, b"head")
    edge.get("/head")
    origin.answers["/head"] = (200, {"ETag": '"h"', "Cache-Control": "max-age=60"}, b"head")
    check("HEAD goes on", edge.get("/head", method="HEAD").status == 200 and
          origin.seen[-1][2] == "HEAD")
    check("and freshens what is stored", edge.get("/head").body == b"head" and
          origin.count("/head") == 2)


def writes(origin, edge):
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        for path in ("/doc", "/other", "/third"):
            origin.answers[path] = (200, FRESH, method.encode())
            edge.get(path)
            edge.get(path)
        before = origin.count("/doc")
        origin.answers["/doc"] = (201, {"Location": "/other", "Content-Location": "third"}, b"done")
        r, body = send(edge, method, "/doc", b"new" * 1000, X_Key="7")
        check(f"{method}: passed on", (r.status, body) == (201, b"done") and
              origin.seen[-1][2] == method and origin.last("/doc")["X-Key"] == "7" and
              "fwd=method" in r.headers["Cache-Status"])
        origin.answers["/doc"] = (200, FRESH, b"after")
        origin.answers["/other"] = origin.answers["/third"] = (200, FRESH, b"after")
        check(f"{method}: what was stored is gone, what it names as well",
              [edge.get(p).body for p in ("/doc", "/other", "/third")] == [b"after"] * 3 and
              origin.count("/doc") == before + 2)
    edge.get("/doc")
    origin.answers["/doc"] = (500, {}, b"failed")
    send(edge, "PUT", "/doc", b"x")
    check("a write that failed changes nothing", edge.get("/doc").body == b"after")
    origin.answers["/opt"] = (204, {"Allow": "GET"}, b"")
    check("OPTIONS: passed on", send(edge, "OPTIONS", "/opt")[0].headers["Allow"] == "GET")


def write_during_fill(origin, edge):
    asked, release = threading.Event(), threading.Event()

    def slow(_handler):
        asked.set()
        release.wait(20)
        return 200, FRESH, b"before"
    origin.answers["/race"] = slow
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(edge.get, "/race")
        asked.wait(20)
        origin.answers["/race"] = (200, FRESH, b"after")
        send(edge, "PUT", "/race", b"x")
        check("after a write nobody joins an older fill", edge.get("/race").body == b"after")
        release.set()
        check("who asked before gets what there was", first.result().body == b"before")
    check("which is not kept", edge.get("/race").body != b"before")


def private(origin, edge):
    """What is one client's is never another's, however many ask at once."""
    release = threading.Event()

    def mine(handler):
        release.wait(20)
        return 200, {"Cache-Control": "private"}, handler.headers["Cookie"].encode()
    origin.answers["/mine"] = mine
    origin.answers["/auth"] = lambda h: (200, {"Cache-Control": "max-age=60"},
                                         (h.headers.get("Authorization") or "-").encode())
    origin.answers["/lang"] = lambda h: (release.wait(20), (
        200, {**FRESH, "Vary": "Accept-Language"}, h.headers["Accept-Language"].encode()))[1]
    with concurrent.futures.ThreadPoolExecutor(60) as pool:
        own = [pool.submit(edge.get, "/mine", Cookie=f"u={i}") for i in range(20)]
        lang = [pool.submit(edge.get, "/lang", Accept_Language=("de", "en")[i % 2])
                for i in range(40)]
        eventually(lambda: edge.metric("edge_fill_collapsed_total") >= 58)
        release.set()
        check("private: each its own", [f.result().body for f in own] ==
              [f"u={i}".encode() for i in range(20)])
        check("Vary: each its variant", [f.result().body for f in lang] == [b"de", b"en"] * 20)
    check("Vary: one call a variant", origin.count("/lang") == 2, origin.count("/lang"))
    check("Authorization: not shared", [edge.get("/auth", Authorization=x).body for x in "ab"] +
          [edge.get("/auth").body] == [b"a", b"b", b"-"])


def flood(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(100 << 20))
    handler.send_header("Cache-Control", "no-store")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(bytes(1 << 20))


def others_meanwhile(origin):
    """While a large object is written and hashed, what is stored is answered."""
    large = bytes(range(256)) * (1 << 18)  # 64 MiB
    origin.answers["/large"] = (200, FRESH, large)
    origin.answers["/little"] = (200, FRESH, b"little")
    with gateway(origin, "--edge.object_bytes=100MiB") as edge, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        edge.get("/little")
        fill = pool.submit(edge.get, "/large")
        c, hits = edge.client(), 0
        while not fill.done():
            hits += edge.get("/little", client=c).body == b"little"
        check("a large fill keeps no hit waiting", fill.result().body == large and hits >= 20, hits)


def streams(origin, edge):
    large = os.urandom(6 << 20)
    origin.answers["/up"] = lambda h: (200, {}, hashlib.sha256(h.body).hexdigest().encode())
    digest = hashlib.sha256(large).hexdigest().encode()
    check("a large body up", send(edge, "POST", "/up", large)[1] == digest)
    pieces = (large[i:i + 100000] for i in range(0, len(large), 100000))
    check("in chunks", send(edge, "PUT", "/up", pieces)[1] == digest)
    origin.answers["/down"] = (200, {"Cache-Control": "no-store"}, large)
    check("a large answer that is not kept", edge.get("/down").body == large)
    origin.answers["/big"] = (200, FRESH, large)
    check("one that is larger than an object may be passes", edge.get("/big").body == large and
          edge.get("/big").body == large and origin.count("/big") == 2)

    def chunks(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Cache-Control", "max-age=60")
        handler.end_headers()
        for i in range(0, len(large), 65536):
            piece = large[i:i + 65536]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\nX-Trailer: 1\r\n\r\n")
    origin.answers["/chunks"] = chunks
    check("and so does one that says so only when it comes", edge.get("/chunks").body == large)
    origin.answers["/flood"] = flood
    before = edge.memory()
    c = edge.client()
    c.request("GET", "/flood")
    r = c.getresponse()
    got = sum(len(x) for x in iter(lambda: r.read(1 << 16), b""))
    check("100 MiB pass with little memory", got == 100 << 20 and edge.memory() - before < 16 << 20,
          (got, edge.memory() - before))
    flow = threading.Event()

    def events(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(b"data: 1\n\n")
        handler.wfile.flush()
        flow.wait(20)
        handler.wfile.write(b"data: 2\n\n")
        handler.close_connection = True
    origin.answers["/events"] = events
    c = edge.client()
    c.request("GET", "/events")
    r = c.getresponse()
    check("pieces come as they are made", r.read(9) == b"data: 1\n\n")
    flow.set()
    check("to the end", r.read() == b"data: 2\n\n")


def failures(origin, edge):
    def cut(control):
        def answer(handler):
            handler.send_response(200)
            handler.send_header("Cache-Control", control)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b"only this")
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
        return answer
    origin.answers["/cut"] = cut("max-age=60")
    a = edge.get("/cut")
    check("cut off: nothing of what would be kept is served", a.status == 502 and
          b"only" not in a.body)
    origin.answers["/cut2"] = cut("no-store")
    try:
        edge.get("/cut2")
        seen = False
    except OSError:
        seen = True
    except Exception as e:  # http.client.IncompleteRead
        seen = "IncompleteRead" in type(e).__name__
    check("cut off: who streams sees that it was not all", seen)
    s = socket.create_connection(edge.addr.rsplit(":", 1))
    s.sendall(b"POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000)
    s.close()
    check("a client that goes away leaves nothing behind", eventually(
        lambda: edge.metric('inflight_requests{route=""}') == 0 and
        edge.get("/up").status == 200))


def store(origin):
    with gateway(origin, "--edge.store_bytes=1MiB", "--edge.object_bytes=200KB") as edge:
        bodies = {f"/o{i}": os.urandom(150000) for i in range(20)}
        for path, body in bodies.items():
            origin.answers[path] = (200, FRESH, body)
        for _ in range(2):
            for path, body in bodies.items():
                a = edge.get(path)
                check(f"evicted or not: {path}", a.status == 200 and a.body == body, a.status)
        check("the cap holds", edge.metric('cas_bytes{store="edge"}') <= 1 << 20 and
              edge.metric('cas_evictions_total{store="edge"}') > 0)


def hosts_apart(origin):
    """An origin that answers by Host: nobody gets, joins or loses what is another host's."""
    release, slow = threading.Event(), threading.Event()

    def by_host(handler):
        slow.set()
        release.wait(20)
        return 200, FRESH, handler.headers["Host"].encode()

    def asked():
        return origin.count("/tenant")
    names = ("a.example", "b.example", "a.example:8080")
    with gateway(origin, "--concurrency.fill_workers=16") as edge, \
            concurrent.futures.ThreadPoolExecutor(30) as pool:
        origin.answers["/tenant"] = by_host
        first = pool.submit(edge.get, "/tenant", Host=names[0])
        slow.wait(20)
        rest = [pool.submit(edge.get, "/tenant", Host=names[i % 3]) for i in range(1, 30)]
        eventually(lambda: asked() == 3)
        release.set()
        check("hosts: who waits gets the answer of its own", [f.result().body.decode() for f in
              (first, *rest)] == [names[i % 3] for i in range(30)])
        check("hosts: one call each", asked() == 3, asked())
        check("hosts: stored apart", [edge.get("/tenant", Host=n).body.decode() for n in names] ==
              list(names) and asked() == 3)
        a = edge.get("/tenant", Host="A.Example:80")
        check("hosts: letters and the usual port are no other host", a.body == b"a.example" and
              "; hit" in a["Cache-Status"], a["Cache-Status"])
        edge.get("/tenant2", Host="A.Example:80")
        check("hosts: the origin sees the spelling under which it is stored",
              origin.last("/tenant2")["Host"] == "a.example", origin.last("/tenant2"))
        origin.answers["/tenant"] = (200, FRESH, b"after")
        send(edge, "PUT", "/tenant", b"x", Host="b.example")
        check("hosts: a write is of its host", [edge.get("/tenant", Host=n).body for n in names] ==
              [b"a.example", b"after", b"a.example:8080"])
        check("hosts: a name that cannot be", edge.get("/tenant", Host="h" * 300).status == 400)


def hosts(origin):
    origin.answers["/app/x"] = (200, FRESH, b"x")
    with gateway(origin, "--gateway.prefix=/app", "--gateway.host=app.example",
                 "--gateway.pass_host=false") as edge:
        check("its host and prefix", edge.get("/app/x", Host="app.example").body == b"x")
        check("the origin's own host is sent", origin.last("/app/x")["Host"] in origin.url)
        check("another host", edge.get("/app/x", Host="other.example").status == 404)
        check("another path", edge.get("/x", Host="app.example").status == 404)
    origin.answers["/fixed"] = lambda h: (200, FRESH, h.headers["Host"].encode())
    with gateway(origin, "--gateway.pass_host=false") as edge:
        check("a host that is not told divides nothing",
              edge.get("/fixed", Host="a.example").body == edge.get("/fixed", Host="b").body and
              origin.count("/fixed") == 1)


the_origin = Origin()
with gateway(the_origin, "--edge.object_bytes=4MiB", "--limits.max_body_bytes=16MiB",
             "--concurrency.fill_workers=16") as the_edge:
    basics(the_origin, the_edge)
    coding(the_origin, the_edge)
    freshness(the_origin, the_edge)
    writes(the_origin, the_edge)
    write_during_fill(the_origin, the_edge)
    private(the_origin, the_edge)
    streams(the_origin, the_edge)
    failures(the_origin, the_edge)
others_meanwhile(the_origin)
store(the_origin)
hosts_apart(the_origin)
hosts(the_origin)
finish()
