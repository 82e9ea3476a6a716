#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Edges and bridges on one bucket of a strict stand-in that checks every signature and hash
itself, and then misbehaves: dies, hangs, cuts answers, lies about them, redirects, is busy.
`./dev soak` plays the same scenes against Ceph RGW."""
import os
import ssl
import subprocess
import time

import s3scenes
from httpkit import check, eventually, finish
from originkit import Origin
from rewarderkit import b3
from s3kit import Standin, key_of
from s3scenes import World, ill, ready, well

PROGRAM = os.environ["RON_BIN"]


class Server(Standin):
    """Can be away and come back with what it has, on its port."""

    frozen = False

    def kill(self):
        self.dead = True
        self.close()

    def start(self):
        kept = self.objects
        self.__init__(self.port)
        self.objects = kept

    def freeze(self):
        def hang(_):
            while self.frozen:
                time.sleep(0.05)

        self.frozen = True
        self.fault = hang

    def thaw(self):
        self.frozen = False
        self.fault = None


def hostile(w, server):
    """Answers that are not what they should be: never served, each counted as what it is."""
    body = os.urandom(20_000)
    key = key_of(b3(body), w.prefix)
    server.objects[key] = body
    tag = Standin.tag(body)

    def only(answer):
        return lambda h: answer if h.command == "GET" else None

    part = {"ETag": tag, "Content-Range": f"bytes 0-{len(body) - 1}/{len(body)}"}
    rows = [
        ("cut short", only((206, {**part, "Content-Length": str(len(body))}, body[:1000])),
         "unreachable"),
        ("fewer bytes than the range", only((206, part, body[:1000])), "malformed"),
        ("another range", only((206, {**part, "Content-Range": "bytes 5-19999/20000"}, body)),
         "malformed"),
        ("no range told", only((206, {"ETag": tag}, body)), "malformed"),
        ("a range that is no number", only((206, {**part, "Content-Range": "bytes a-b/c"}, body)),
         "malformed"),
        ("more than was asked for", only((200, {}, bytes(6 << 20))), "too_large"),
        ("redirect", only((307, {"Location": f"{server.url}/{server.bucket}/{key}"}, b"")),
         "redirect"),
        ("500", only((500, {}, b"<Error><Code>InternalError</Code></Error>")), "failed"),
        ("503", only((503, {}, b"<Error><Code>SlowDown</Code></Error>")), "throttled"),
        ("403", only((403, {}, b"<Error><Code>\x1b[31m</Code></Error>")), "denied"),
        ("no answer", lambda h: "drop" if h.command == "GET" else None, "unreachable"),
        ("not HTTP", only((299, {"Content-Length": "-5"}, b"")), "unreachable"),
    ]
    for name, fault, outcome in rows:
        with w.interop(timeout="3s") as svc:
            well(svc)
            server.fault = fault
            a = svc.get(f"/o/{b3(body)}")
            check(f"hostile, {name}: refused", a.status == 503, f"{a.status} {a.body[:200]}")
            line = f's3_requests_total{{op="get",outcome="{outcome}"}}'
            check(f"hostile, {name}: counted as {outcome}", svc.metric(line) == 1 or
                  name == "not HTTP", [x for x in svc.get("/metrics").body.decode().split("\n")
                                       if x.startswith("s3_requests_total")])
            server.fault = None
            check(f"hostile, {name}: then it is served",
                  eventually(lambda: svc.get(f"/o/{b3(body)}").body == body, 30))
            check(f"hostile, {name}: no control characters in the log",
                  not any("\\u001b" in x.lower() or "\x1b" in x for x in svc.lines))


def uploads_that_fail(w, server):
    """A multipart upload that breaks is aborted and done again; 200 with an error is no success."""
    body = os.urandom(11 << 20)
    state = {"n": 0}

    def part_fails(h):
        if "partNumber=2" in h.path and state["n"] < 3:
            state["n"] += 1
            return 500, {}, b"<Error><Code>InternalError</Code></Error>"
        return None

    server.fault = part_fails
    with w.interop() as svc:
        check("parts: taken", svc.put(body).status == 202)
        check("parts: it arrives in the end", w.arrives(b3(body), 60))
        check("parts: whole", w.has(b3(body)) == body)
        check("parts: the first upload was aborted", server.count("DELETE", "uploadId") == 1 and
              not server.parts)
        check("parts: counted as done again",
              svc.metric('s3_tier_writes_total{result="retried"}') >= 1)
    for name, answer in (("an error", b"<Error><Code>InternalError</Code></Error>"),
                         ("nothing", b""), ("no XML", b"<ETag><ETag>")):
        other = os.urandom(11 << 20)
        state["n"] = 0

        def complete_lies(h, answer=answer):
            if h.command == "POST" and "uploadId=" in h.path and state["n"] == 0:
                state["n"] = 1
                return 200, {}, answer
            return None

        server.fault = complete_lies
        with w.interop() as svc:
            svc.put(other)
            check(f"complete: 200 with {name} is no success",
                  eventually(lambda: svc.metric(
                      's3_requests_total{op="multipart_complete",outcome="malformed"}') == 1, 60))
            check(f"complete: after {name} it arrives all the same", w.arrives(b3(other), 60))
    server.fault = None


def full(w, server):
    """Too many wait: a bridge refuses, an edge goes on without the bucket."""
    origin = Origin()
    server.fault = lambda h: (503, {}, b"")
    with w.interop(backlog="3") as svc, w.edge(origin=origin, backlog="3") as edge:
        answers = [svc.put(os.urandom(10)).status for _ in range(5)]
        check("full: three wait, the others are refused", answers == [202] * 3 + [429] * 2, answers)
        for i in range(5):
            origin.answers[f"/{i}"] = (200, s3scenes.FRESH, os.urandom(100))
            check("full: the edge fills", edge.get(f"{s3scenes.LIVE}/{i}").status == 200)
        check("full: and counts what the bucket will not have",
              edge.metric('s3_tier_writes_total{result="dropped"}') == 2)
        server.fault = None
        check("full: then all is sent", eventually(
            lambda: svc.metric("s3_tier_backlog_objects") == 0 and
            edge.metric("s3_tier_backlog_objects") == 0, 60))
        check("full: and taken", svc.put(b"again").status == 202)


def settings(w):
    """What cannot be meant is refused at the start."""
    rows = [
        ("no bucket", {"bucket": ""}, "s3.bucket"),
        ("plain http", {"allow_http": "false"}, "s3.allow_http"),
        ("a path", {"endpoint": w.url + "/x"}, "without a path"),
        ("no secret", {"secret_key_file": None}, "secret_key"),
        ("two secrets", {"secret_key_env": "X"}, "secret_key"),
        ("no such file", {"secret_key_file": "/nonexistent"}, "/nonexistent"),
        ("a prefix that climbs", {"prefix": "../x"}, "s3.prefix"),
        ("no key", {"access_key": ""}, "s3.access_key"),
    ]
    for verb in ("edge", "interop"):
        for name, wrong, says in rows:
            done = subprocess.run([PROGRAM, verb, "--bind_addr=127.0.0.1:0",
                                   f"--{verb}.dir={w.folder}/x", *w.options(**wrong),
                                   *([f"--auth.key_file={w.folder}/keys"]
                                     if verb == "interop" else [])],
                                  capture_output=True, text=True, timeout=30)
            check(f"settings, {verb}, {name}: refused", done.returncode != 0 and
                  says in done.stderr, done.stderr[-500:])
            check(f"settings, {verb}, {name}: no secret told", w.view.secret not in done.stderr)
        done = subprocess.run([PROGRAM, verb, "--amnesia.enabled=true", *w.options()],
                              capture_output=True, text=True, timeout=30)
        check(f"settings, {verb}: amnesia writes nothing anywhere",
              done.returncode != 0 and "amnesia" in done.stderr, done.stderr[-500:])


def amnesia(w, server):
    """Amnesia reads the bucket into memory, and writes nothing: neither here nor there."""
    body = os.urandom(9 << 20)
    server.objects[key_of(b3(body), w.prefix)] = body
    puts = server.count("PUT")
    with w.interop("--amnesia.enabled=true", write="off") as svc:
        check("amnesia: served from the bucket", svc.get(f"/o/{b3(body)}").body == body)
        check("amnesia: an object of its own", svc.put(b"only here").status == 202)
        check("amnesia: no file", not (svc.folder / "data").exists())
        check("amnesia: not in the bucket", server.count("PUT") == puts)


def tls(w):
    """Over TLS with a certificate of our own: by its CA file, and not without."""
    cert, key = w.folder / "cert.pem", w.folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=s3",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = Standin(tls=context)
    url = server.url.replace("http:", "https:")
    with w.interop(endpoint=url, allow_http=None, ca_file=cert) as svc:
        check("tls: well", well(svc))
        check("tls: taken", svc.put(b"over TLS").status == 202)
        check("tls: arrives", eventually(
            lambda: server.objects.get(key_of(b3(b"over TLS"), w.prefix)) == b"over TLS"))
    with w.interop(endpoint=url, allow_http=None, timeout="3s") as svc:
        check("tls: a certificate that nobody vouches for is not believed",
              ill(svc) and "unreachable" in str(ready(svc)[2]), ready(svc))


def main():
    server = Server()
    w = World(server.url, server.view())
    origin = Origin()
    s3scenes.edges(w, origin)
    s3scenes.paths(w, origin)
    s3scenes.evicted(w, origin)
    s3scenes.bridges(w)
    s3scenes.damaged(w)
    s3scenes.purged(w, origin)
    s3scenes.refused(w)
    s3scenes.away(w, server)
    s3scenes.frozen(w, server)
    hostile(w, server)
    uploads_that_fail(w, server)
    full(w, server)
    amnesia(w, server)
    tls(w)
    settings(w)
    finish()


main()
