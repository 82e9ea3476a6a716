#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Live fill of the edge: an origin on loopback whose every answer the test decides and counts.

One request reaches the origin for many that wait; answers are kept as long as they are fresh,
asked for anew with their validators, served stale where that is allowed, and never served when they
are damaged, cut off, too large, without a strong tag or from a host that is not on the list."""
import concurrent.futures
import json
import threading
import time

from edgekit import Edge, Origin
from httpkit import check, eventually, finish
from originkit import Origin
from rewarderkit import b3

BASE = "/edge/assets/o/map/"


def edge_of(origin, *more):
    return Edge(f"--origins.map.url={origin.url}", "--origins.map.allow_http=true",
                "--origins.map.allow_private=true", "--limits.inflight=1024",
                # A slow machine is not what is tested here.
                "--timeouts.request=30s", "--edge.fill_timeout=30s", *more)


def basics(origin, edge):
    body = bytes(range(256)) * 1000
    origin.answers["/a.bin?x=1"] = (200, {"ETag": '"v1"', "Cache-Control": "max-age=60",
                                          "Content-Type": "text/x-test"}, body)
    a = edge.get(BASE + "a.bin?x=1")
    check("fill: 200 with the bytes", a.status == 200 and a.body == body)
    check("fill: our tag, its type, its freshness", (a["ETag"], a["Content-Type"],
          a["Cache-Control"]) == (f'"{b3(body)}"', "text/x-test", "max-age=60"), dict(a.headers))
    check("fill: Cache-Status tells it", "fwd=uri-miss" in a["Cache-Status"] and
          "stored" in a["Cache-Status"], a["Cache-Status"])
    sent = origin.last("/a.bin?x=1")
    check("fill: identity is asked for", sent["Accept-Encoding"] == "identity", sent)
    a = edge.get(BASE + "a.bin?x=1", Cookie="secret=1", Authorization="Bearer x")
    check("hit: no second request", a.body == body and origin.count("/a.bin?x=1") == 1)
    check("hit: Age and Cache-Status", a["Age"] is not None and "; hit" in a["Cache-Status"],
          a["Cache-Status"])
    check("hit: nothing of a client reached the origin", "Cookie" not in sent)
    a = edge.get(BASE + "a.bin?x=1", Range="bytes=1000-1999")
    check("hit: a range of the stored whole", a.status == 206 and a.body == body[1000:2000])
    a = edge.get(BASE + "a.bin?x=1", If_None_Match=f'"{b3(body)}"')
    check("hit: 304 by our tag", a.status == 304)
    a = edge.get("/cas/" + b3(body))
    check("the object by its id", a.status == 200 and a.body == body and
          "immutable" in a["Cache-Control"])
    check("an object that is not there", edge.get("/cas/b3:" + "0" * 64).status == 404)
    check("an id that is none", edge.get("/cas/sha256:00").status == 400)
    check("an origin that is not named", edge.get("/edge/assets/o/other/a").status == 403)


def freshness(origin, edge):
    origin.answers["/stale"] = (200, {"ETag": '"s"', "Cache-Control": "max-age=0"}, b"stale")
    edge.get(BASE + "stale")
    a = edge.get(BASE + "stale")
    check("stale: asked for anew with its validator", origin.count("/stale") == 2 and
          origin.last("/stale").get("If-None-Match") == '"s"' and a.body == b"stale")
    check("stale: Cache-Status tells it", "fwd=stale" in a["Cache-Status"] and
          "fwd-status=304" in a["Cache-Status"], a["Cache-Status"])
    origin.answers["/stale"] = (200, {"ETag": '"t"', "Cache-Control": "max-age=0"}, b"changed")
    check("stale: a changed one is served", edge.get(BASE + "stale").body == b"changed")
    origin.answers["/private"] = (200, {"ETag": '"p"', "Cache-Control": "private"}, b"mine")
    edge.get(BASE + "private")
    edge.get(BASE + "private")
    check("private: not kept", origin.count("/private") == 2)
    a = edge.get(BASE + "never", Cache_Control="only-if-cached")
    check("only-if-cached: 504", a.status == 504 and origin.count("/never") == 0)
    edge.get(BASE + "absent")
    a = edge.get(BASE + "absent")
    check("absent: 404, remembered", a.status == 404 and origin.count("/absent") == 1,
          origin.count("/absent"))
    origin.answers["/tagged"] = (404, {"ETag": '"n"', "Cache-Control": "max-age=0"}, b"no")
    got = [edge.get(BASE + "tagged") for _ in range(3)]
    check("absent: what has a tag is asked for by it, and a 304 means that it is still absent",
          [a.status for a in got] == [404] * 3 and
          origin.last("/tagged").get("If-None-Match") == '"n"' and origin.count("/tagged") == 3,
          [(a.status, a.body) for a in got])
    origin.answers["/tagged"] = (200, {"ETag": '"y"', "Cache-Control": "max-age=60"}, b"here")
    check("absent: until it is there", edge.get(BASE + "tagged").body == b"here")


def errors(origin, edge):
    """Failures of the origin come last: five in a row open its breaker."""
    origin.answers["/weak"] = (200, {"ETag": 'W/"w"'}, b"weak")
    a = edge.get(BASE + "weak")
    check("no strong tag: refused", a.status == 502 and a["X-Reason"] == "etag_invalid")
    origin.answers["/large"] = (200, {"ETag": '"l"'}, bytes(200000))
    a = edge.get(BASE + "large")
    check("too large: refused", a.status == 502 and a["X-Reason"] == "body_cap",
          (a.status, a["X-Reason"]))

    def cut(handler):
        handler.send_response(200)
        handler.send_header("ETag", '"c"')
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"only this")
        handler.wfile.flush()
        handler.connection.close()
        handler.close_connection = True
    origin.answers["/cut"] = cut
    a = edge.get(BASE + "cut")
    check("cut off: refused, nothing of it served", a.status == 502 and b"only" not in a.body)
    origin.answers["/away"] = (302, {"Location": "http://127.0.0.2:1/x"}, b"")
    a = edge.get(BASE + "away")
    check("a redirect off the list: refused", a.status == 403 and a["X-Reason"] == "not_allowed",
          (a.status, a["X-Reason"]))
    origin.answers["/kept"] = (200, {"ETag": '"k"', "Cache-Control":
                                     "max-age=0, stale-if-error=60"}, b"kept")
    edge.get(BASE + "kept")
    origin.answers["/kept"] = (500, {}, b"broken")
    a = edge.get(BASE + "kept")
    check("stale-if-error: the kept one", a.status == 200 and a.body == b"kept", a.status)
    origin.answers["/500"] = (500, {}, b"broken")
    a = edge.get(BASE + "500")
    check("500: once, and 502", a.status == 502 and origin.count("/500") == 1 and
          a["X-Reason"] == "upstream", (a.status, origin.count("/500")))
    origin.answers["/503"] = (503, {}, b"busy")
    a = edge.get(BASE + "503")
    check("503: three tries", a.status == 502 and origin.count("/503") == 3,
          (a.status, origin.count("/503")))
    check("counted: refusals", edge.metric('edge_rejects_total{reason="etag_invalid"}') == 1 and
          edge.metric('edge_rejects_total{reason="body_cap"}') == 1)
    check("counted: retries", edge.metric(
        'backoff_retries_total{svc="map",op="live_fill",result="retry"}') >= 2)


def many_wait(origin, edge):
    release = threading.Event()

    def slow(_handler):
        release.wait(20)
        return 200, {"ETag": '"m"', "Cache-Control": "max-age=60"}, b"for all"
    origin.answers["/many"] = slow
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        asked = [pool.submit(edge.get, BASE + "many") for _ in range(200)]
        check("many: all wait", eventually(
            lambda: edge.metric('inflight_requests{route="/edge/assets/{path*}"}') >= 200 or
            edge.metric("edge_fill_collapsed_total") >= 199),
            edge.metric("edge_fill_collapsed_total"))
        start = time.monotonic()
        release.set()
        answers = [f.result() for f in asked]
        took = time.monotonic() - start
    check("many: one request reached the origin", origin.count("/many") == 1,
          origin.count("/many"))
    check("many: all got it", all(a.status == 200 and a.body == b"for all" for a in answers))
    check("many: one was the first, the others shared it",
          sum("collapsed" in a["Cache-Status"] for a in answers) == 199)
    print(f"many: 200 answers within {took * 1e3:.0f} ms of the origin's")


def full_queue(origin):
    release = threading.Event()

    def hold(_handler):
        release.wait(20)
        return 200, {"ETag": '"h"'}, b"held"
    with edge_of(origin, "--concurrency.fill_workers=1", "--queues.work=2") as edge:
        for i in range(8):
            origin.answers[f"/hold{i}"] = hold
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            first = pool.submit(edge.get, BASE + "hold0")
            check("full: the worker is busy", eventually(lambda: origin.count("/hold0") == 1))
            rest = [pool.submit(edge.get, BASE + f"hold{i}") for i in (1, 2)]
            check("full: two wait",
                  eventually(lambda: edge.metric('queue_depth{queue="work"}') == 2))
            a = edge.get(BASE + "hold3")
            check("full: the next is 429", a.status == 429 and a["Retry-After"] is not None and
                  a["X-Reason"] == "rate_limit", a.status)
            a = edge.get(BASE + "hold1", Request_Timeout="1")
            check("full: readyz is degraded", json.loads(edge.get("/readyz").body)["degraded"])
            check("full: one that has less time than its fill is told 202", a.status == 202,
                  a.status)
            release.set()
            done = [f.result() for f in (first, *rest)]
            check("full: what was taken is finished", all(a.status == 200 for a in done),
                  [a.status for a in done])
        check("full: readyz is clear again",
              eventually(lambda: not json.loads(edge.get("/readyz").body)["degraded"]))
        rows = [x for x in edge.get("/metrics").body.decode().splitlines()
                if x.startswith("busy_rejections_total{") and not x.endswith(" 0")]
        check("full: counted once for its queue and once for its endpoint", sorted(rows) ==
              ['busy_rejections_total{endpoint="",queue="work"} 1',
               'busy_rejections_total{endpoint="/edge/assets",queue=""} 1'], rows)
        check("full: nobody was asked for the refused one", origin.count("/hold3") == 0)


def late(origin):
    """Who has less time than the fill is told so in time; the fill goes on for the others."""
    release = threading.Event()
    body = b"late " * 1000

    def slow(_handler):
        release.wait(20)
        return 200, {"ETag": '"l"', "Cache-Control": "max-age=60"}, body
    with edge_of(origin, "--cors.allow_origins=https://map.example") as edge, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        origin.answers["/late"] = slow
        timeouts = edge.metric('edge_rejects_total{reason="timeout"}')
        begun = time.monotonic()
        a = edge.get(BASE + "late", Request_Timeout="1", Origin="https://map.example")
        took = time.monotonic() - begun
        check("late: 202 that says when to come back", a.status == 202 and
              a["X-Reason"] == "filling" and a["Retry-After"] == "1" and
              b'"retryable":true' in a.body, (a.status, a.body))
        check("late: before the client's time is over", 0.5 < took < 1, took)
        check("late: readable by pages that may read", a["Access-Control-Allow-Origin"] ==
              "https://map.example", dict(a.headers))
        check("late: no tag, and nothing that could be kept", a["ETag"] is None and
              a["Cache-Control"] is None, dict(a.headers))
        waiter = pool.submit(edge.get, BASE + "late")
        check("late: HEAD too", edge.get(BASE + "late", method="HEAD",
                                         Request_Timeout="0.3").status == 202)
        check("late: with no time at all, too", edge.get(BASE + "late",
                                                         Request_Timeout="0.02").status == 202)
        check("late: counted, and not as refused", edge.metric("edge_fill_late_total") == 3 and
              edge.metric('edge_rejects_total{reason="timeout"}') == timeouts,
              edge.metric("edge_fill_late_total"))
        release.set()
        a = waiter.result()
        check("late: who has the time gets the bytes", a.status == 200 and a.body == body)
        a = edge.get(BASE + "late", Range="bytes=5-9", Request_Timeout="1")
        check("late: who comes back gets them from the store, asked for once",
              a.status == 206 and a.body == b"late " and a["ETag"] == f'"{b3(body)}"' and
              "; hit" in a["Cache-Status"] and origin.count("/late") == 1, (a.status, a.headers))


def refused_settings(origin):
    with Edge(f"--origins.map.url={origin.url}", "--origins.map.allow_http=true") as edge:
        a = edge.get(BASE + "a")
        check("a private address is refused", a.status == 403 and a["X-Reason"] == "not_allowed",
              (a.status, a.body))


def without_disk(origin):
    body = bytes(range(256)) * 200
    origin.answers["/ram"] = (200, {"ETag": '"r"', "Cache-Control": "max-age=60"}, body)
    with edge_of(origin, "--amnesia.enabled=true") as edge:
        check("amnesia: filled", edge.get(BASE + "ram").body == body)
        a = edge.get(BASE + "ram", Range="bytes=100-49999")
        check("amnesia: served from memory", a.status == 206 and a.body == body[100:50000])
        check("amnesia: nothing on disk", not (edge.folder / "data").exists())


the_origin = Origin()
with edge_of(the_origin, "--edge.object_bytes=300KB") as the_edge:
    basics(the_origin, the_edge)
    freshness(the_origin, the_edge)
    many_wait(the_origin, the_edge)
with edge_of(the_origin, "--edge.object_bytes=100KB") as the_edge:
    errors(the_origin, the_edge)
full_queue(the_origin)
late(the_origin)
refused_settings(the_origin)
without_disk(the_origin)
ASKED = {"/a.bin?x=1", "/stale", "/private", "/absent", "/many", "/weak", "/large", "/cut", "/away",
         "/kept", "/500", "/503", "/hold0", "/hold1", "/hold2", "/late",
         "/ram", "/tagged"}
check("the origin saw nothing that nobody asked for", {p for p, *_ in the_origin.seen} == ASKED,
      {p for p, *_ in the_origin.seen} ^ ASKED)
finish()
