#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a stranger's client, written from docs/formats/oap.md alone, gets from `ron-fixture oap`
what the page promises: answers out of order, pieces, events, and a typed refusal for every wrong
frame.

Method: frames packed by hand (oapkit.py), over TCP and a Unix socket. No C of this project is
shared with this file.
"""
import json
import os
import socket
import struct
import tempfile
from pathlib import Path

import oapkit
from httpkit import Ron, check, finish
from oapkit import (ACK_REQ, CANCEL, COMP, DRAINING, END, EVENT, HEADER, HELLO, PING, REQ, RESP,
                    START, SUBSCRIBE, UNSUBSCRIBE)

APP, ALWAYS = 100, 101
ECHO, LATE, NEVER, BYTES, FAIL, PUBLISH, COUNTERS = range(1, 8)


def frame(flags=REQ, code=0, app=APP, **more):
    return oapkit.pack(flags, code, app, **{"tenant": 7, **more})


class Server(Ron):
    def __init__(self, *arguments, listen="127.0.0.1:0"):
        super().__init__(*arguments, verb="oap", listen=listen)


class Peer(oapkit.Peer):
    def __init__(self, server):
        super().__init__(server.addr)

    def ask(self, code, payload=b"", **more):
        self.send(frame(code=code, payload=payload, **more))
        return self.next()


def reason(answer):
    return json.loads(answer[5])["reason"] if answer else "closed"


def good_cases(server):
    with Peer(server) as p:
        vector = bytes.fromhex("000000360001000100000000000000000000000000000000000000aa0000000000"
                               "000000002a7b227561223a2273646b2f302e31227d")
        check("the packer agrees with the published vector",
              frame(tenant=0xAA, corr=42, app=0, payload=b'{"ua":"sdk/0.1"}') == vector)
        p.send(vector)
        a = p.next()
        h = json.loads(a[5])
        check("HELLO is answered", a[:5] == (RESP, 200, 0, 0xAA, 42) and h["max_inflight"] == 64 and
              h["max_frame"] == 1 << 20 and h["versions"] == [1], a)
        check("it lists the flags it offers", h["flags_supported"] == 0x9F, a)
        a = p.ask(ECHO, b"hello", corr=2**64 - 1, tenant=2**128 - 1)
        check("echo, with the largest ids", a == (RESP, 200, APP, 2**128 - 1, 2**64 - 1, b"hello"),
              a)
        p.send(frame(code=NEVER, corr=10), frame(code=LATE, corr=11, payload=b"late"),
               frame(code=ECHO, corr=12, payload=b"now"))
        got = {x[4]: x[5] for x in (p.next(), p.next())}
        check("answers come out of order", got == {11: b"late", 12: b"now"}, got)
        p.send(frame(EVENT, CANCEL, 0, corr=10))
        a = p.next()
        check("CANCEL reaches the holder", a[4] == 10 and reason(a) == "draining", a)
        p.send(frame(REQ | START, ECHO, corr=20, cap=b"cap", payload=b"a"),
               frame(corr=21, code=ECHO), frame(REQ, ECHO, corr=20, payload=b"b"),
               frame(REQ | END, ECHO, corr=20, payload=b"c"))
        check("whole messages between pieces", p.next()[4:] == (21, b""))
        check("pieces are joined", p.next()[4:] == (20, b"abc"))
        a = p.ask(FAIL)
        check("an app's error has its app id", a[1:3] == (409, APP) and reason(a) == "conflict", a)
        vector = bytes.fromhex("000000290001000900000064000000000000000000000000000000cc00030000"
                               "000000000063636170")
        check("the packer agrees with the second vector", vector ==
              frame(REQ | START, tenant=0xCC, corr=99, cap=b"cap"))
    with Peer(server) as p:
        stream = b"".join(frame(code=LATE, corr=n, payload=bytes([n]) * n) for n in range(1, 20))
        for byte in stream:
            p.send(bytes([byte]))
        got = sorted((x[4], x[5]) for x in (p.next() for _ in range(1, 20)))
        check("bytes one by one", got == [(n, bytes([n]) * n) for n in range(1, 20)], got)
    with Peer(server) as p:
        big = os.urandom((1 << 20) - HEADER.size)
        check("a frame of exactly 1 MiB", p.ask(ECHO, big)[5] == big)
        p.send(frame(code=BYTES, corr=5, payload=b"3000000"))
        pieces = [p.next()]
        while not pieces[-1][0] & END:
            pieces.append(p.next())
        check("a long answer in pieces of 64 KiB", pieces[0][0] == RESP | START and
              all(x[0] == RESP for x in pieces[1:-1]) and sum(len(x[5]) for x in pieces) == 3000000
              and max(len(x[5]) for x in pieces) == 65536)


# (name, bytes, reason, whether the connection is closed)
WRONG = [
    ("frame of 1 MiB and one byte", frame(length=(1 << 20) + 1), "frame_oversize", True),
    ("length 2^32-1", frame(length=2**32 - 1), "frame_oversize", True),
    ("length 0", frame(length=0), "bad_length", True),
    ("length 37", frame(length=37), "bad_length", True),
    ("length below 38 + cap_len", frame(REQ | START, cap=b"cap", length=40), "bad_length", True),
    ("cap_len longer than the frame", frame(REQ | START, cap_len=500), "bad_length", True),
    ("capability without START", frame(cap=b"cap"), "bad_capability", True),
    ("version 0", frame(ver=0), "bad_version", True),
    ("version 2", frame(ver=2), "bad_version", True),
    ("the other byte order", struct.pack("<IHHHH16sHQ", 38, 1, 1, 1, APP, b"", 0, 1),
     "frame_oversize", True),
    ("HTTP", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "frame_oversize", True),
    ("unknown flag 0x100", frame(REQ | 0x100), "unknown_flags", True),
    ("unknown flag 0x8000", frame(REQ | 0x8000), "unknown_flags", True),
    ("no kind", frame(START), "bad_kind", True),
    ("request and event", frame(REQ | EVENT), "bad_kind", True),
    ("an event of a client", frame(EVENT), "bad_kind", True),
    ("a response to the server", frame(RESP), "bad_order", True),
    ("END of nothing", frame(REQ | END), "bad_order", True),
    ("START twice", frame(REQ | START, ECHO) * 2, "bad_order", True),
    ("another code within a message", frame(REQ | START, ECHO) + frame(REQ, LATE), "bad_order",
     True),
    ("control in pieces", frame(REQ | START, HELLO, 0), "bad_order", True),
    ("five messages in pieces", b"".join(frame(REQ | START, ECHO, corr=n) for n in range(5)),
     "pieces", True),
    ("HELLO that is no JSON", frame(app=0, payload=b"{"), "bad_hello", True),
    ("HELLO with a tiny max_frame", frame(app=0, payload=b'{"max_frame":100}'), "bad_hello", True),
    ("compressed", frame(REQ | COMP, ECHO), "unsupported", False),
    ("wants an acknowledgement", frame(REQ | ACK_REQ, ECHO), "unsupported", False),
    ("unknown app", frame(app=9), "not_found", False),
    ("unknown code", frame(code=99), "not_found", False),
    ("unknown control code", frame(code=99, app=0), "not_found", False),
    ("SUBSCRIBE to nothing", frame(code=SUBSCRIBE, app=0), "bad_control", False),
    ("SUBSCRIBE to an unknown app", frame(code=SUBSCRIBE, app=0, payload=b'{"app":9}'), "not_found",
     False),
]


def wrong_frames(server):
    for name, data, want, closed in WRONG:
        with Peer(server) as p:
            p.send(data)
            a = p.next()
            good = a is not None and a[0] == RESP and a[2] == 0 and reason(a) == want
            if closed:
                end = p.next()
            else:
                end = p.ask(ECHO, b"still", corr=77)
                end = None if end[4:] == (77, b"still") else end
            check(f"{name}: {want}", good and end is None, (a, end))


def leavers(server):
    for cut in (1, 4, 20, 37, 38, 41):
        with Peer(server) as p:
            p.send(frame(REQ | START, LATE, cap=b"cap", payload=b"xyz")[:cut])
    for _ in range(50):
        with Peer(server) as p:
            p.send(frame(code=LATE), frame(code=NEVER), frame(REQ | START, LATE), frame()[:10])
    with Peer(server) as p:
        check("half frames and early leavers hurt nobody", p.ask(ECHO, b"alive")[5] == b"alive")
        counters = json.loads(p.ask(COUNTERS)[5])
        while counters["inflight"] or counters["connections"] > 1:
            counters = json.loads(p.ask(COUNTERS)[5])
        check("nothing is left in flight", counters["disconnects"] >= 50, counters)
    with Peer(server) as p:
        p.send(frame(code=LATE, corr=3, payload=b"then FIN"))
        p.s.shutdown(socket.SHUT_WR)
        check("who only closes its own side still gets its answer",
              p.next()[4:] == (3, b"then FIN"))
        check("and then the end", p.next() is None)


def limits():
    with Server("--flow", "3", "--read-timeout", "60", "--request-timeout", "200",
                "--frame-max", "4096") as server:
        with Peer(server) as p:
            p.send(*(frame(code=NEVER, corr=n) for n in range(5)))
            got = sorted((x[4], x[1], reason(x)) for x in (p.next() for _ in range(5)))
            check("over the flow limit 429, the others 503 in time", got ==
                  [(0, 503, "timeout"), (1, 503, "timeout"), (2, 503, "timeout"), (3, 429, "flow"),
                   (4, 429, "flow")], got)
            check("the connection lives on", p.ask(ECHO, b"x")[5] == b"x")
        with Peer(server) as p:
            p.send(frame()[:30])
            a = p.next()
            check("half a header: 408", a and a[1] == 408 and reason(a) == "read_timeout", a)
            check("and closed", p.next() is None)
        with Peer(server) as p:
            p.send(frame(payload=b"x" * 4096))
            check("above the frame limit of this server", reason(p.next()) == "frame_oversize")
    with Server("--connections", "1") as server, Peer(server) as p:
        check("one connection", p.ask(ECHO, b"x")[5] == b"x")
        with Peer(server) as q:
            check("the second is told", reason(q.next()) == "connections" and q.next() is None)


def events(server):
    with Peer(server) as a, Peer(server) as b:
        check("subscribed", a.ask(SUBSCRIBE, b'{"app":100}', app=0)[1] == 200)
        for n in range(20):
            check_quiet = b.ask(PUBLISH, str(n).encode())
            assert check_quiet[1] == 200, check_quiet
        got = [a.next() for _ in range(20)]
        check("events in order", [x[5] for x in got] == [str(n).encode() for n in range(20)] and
              all(x[:3] == (EVENT, PUBLISH, APP) for x in got), got)
        a.send(frame(code=UNSUBSCRIBE, app=0, corr=9, payload=b'{"app":100}'))
        check("unsubscribed", a.next()[4] == 9)
        b.ask(PUBLISH, b"unheard")
        check("nothing more comes", a.ask(PING, b"?", app=0)[5] == b"?")


def drain():
    with Server() as server, Peer(server) as p, Peer(server) as q:
        p.ask(HELLO, b'{"ua":"drain"}', app=0)
        q.ask(ECHO, b"no hello")
        server.stop()
        a = p.next()
        check("DRAINING is told", a[:3] == (EVENT, DRAINING, 0), a)
        check("who said no HELLO is closed", q.next() is None)
        while p.next() is not None:
            pass
        check("the end is a FIN", True)


def unix():
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder) / "run"
        with Server(listen=f"unix:{inner}/s") as server:
            check("socket 0600 in a folder 0700", (inner / "s").stat().st_mode & 0o777 == 0o600 and
                  inner.stat().st_mode & 0o777 == 0o700)
            peers = [Peer(server) for _ in range(40)]
            for n, p in enumerate(peers):
                p.send(frame(code=LATE, corr=n))
            check("forty connections", [p.next()[4] for p in peers] == list(range(40)))
            for p in peers:
                p.s.close()
            wrong_frames(server)
        with Server("--allow-uid", str(os.getuid() + 12345), listen=f"unix:{inner}/t") as server:
            with Peer(server) as p:
                check("another user is denied", reason(p.next()) == "denied" and p.next() is None)


with Server() as shared:
    good_cases(shared)
    wrong_frames(shared)
    leavers(shared)
    events(shared)
limits()
drain()
unix()
finish()
