#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: clients that nobody here wrote get from `ron-fixture http` what HTTP promises, and every
smuggling shape of the corpus is refused and closed.

Method: curl and Python's http.client for the good cases; raw sockets for the corpus (the name of a
file says its verdict), for slow peers and for the drain.
"""
import concurrent.futures
import http.client
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from httpkit import Ron, check, finish, read_all

CORPUS = Path(os.environ["RON_SOURCE_DIR"]) / "tests" / "fuzz" / "corpus"
STATUS = {"method": 501, "version": 505, "uri_long": 414, "headers_many": 431, "head_large": 431,
          "expect": 417, "too_large": 413}


def curl(*arguments):
    return subprocess.run(["curl", "-sS", "--max-time", "20", *arguments], capture_output=True)


def good_clients(server):
    c = http.client.HTTPConnection(server.host, server.port, timeout=20)
    for _ in range(50):
        c.request("GET", "/hello", headers={"X-Corr-ID": "me-1"})
        r = c.getresponse()
        body = r.read()
        if r.status != 200 or len(body) != 200 or r.headers["X-Corr-ID"] != "me-1":
            check("http.client: 50 requests on one connection", False, f"{r.status} {body}")
            break
    else:
        check("http.client: 50 requests on one connection", True)
    c.request("POST", "/late", body=b"x" * 100000)
    check("http.client: a body through another task", c.getresponse().read() == b"x" * 100000)
    c.request("POST", "/echo", body=iter([b"ab", b"c" * 5000]), encode_chunked=True,
              headers={"Transfer-Encoding": "chunked"})
    check("http.client: chunked", c.getresponse().read() == b"ab" + b"c" * 5000)
    c.request("HEAD", "/bytes/1234")
    r = c.getresponse()
    check("http.client: HEAD", r.read() == b"" and r.headers["Content-Length"] == "1234")
    c.request("GET", "/stream/1000")
    check("http.client: a stream", c.getresponse().read().count(b"\n") == 1000)
    c.request("GET", "/name/a%20b%C3%A9")
    check("http.client: a decoded parameter", c.getresponse().read() == "a b\u00e9".encode())
    c.request("GET", "/none")
    envelope = json.loads(c.getresponse().read())
    check("the envelope", list(envelope) == ["code", "message", "retryable", "corr_id", "reason"],
          envelope)
    c.close()
    if not shutil.which("curl"):
        print("skipped: no curl")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "body"
        path.write_bytes(os.urandom(1 << 20))
        for name, extra in (("length", []), ("chunked", ["-H", "Transfer-Encoding: chunked"]),
                            ("expect", ["-H", "Expect: 100-continue"])):
            for route in ("echo", "late"):
                r = curl("-X", "POST", *extra, "-T", str(path), f"{server.url}/{route}")
                check(f"curl: 1 MiB, {name}, /{route}", r.stdout == path.read_bytes(), r.stderr)
        path.write_bytes(b"x" * ((1 << 20) + 1))
        r = curl("-X", "POST", "-T", str(path), "-w", "%{http_code}", f"{server.url}/echo")
        check("curl: one byte too many is 413", r.stdout.endswith(b"413"), r.stdout + r.stderr)
    r = curl("-0", "-w", "%{http_code}", f"{server.url}/stream/3")
    check("curl: HTTP/1.0", r.stdout.endswith(b"200") and b"line 2" in r.stdout, r.stdout)
    r = curl("--parallel", *[f"{server.url}/bytes/100000"] * 20)
    check("curl: 20 in parallel", len(r.stdout) == 20 * 100000, r.stderr)


def send_shape(server, request):
    with server.connect() as s:
        s.sendall(request)
        return read_all(s)


def smuggling_shapes(server):
    before = server.counters()["rejected"]
    expected = {}
    for path in sorted((CORPUS / "http_request").glob("refuse.*")):
        reason = path.name.split(".")[1]
        answer = send_shape(server, path.read_bytes())
        status = STATUS.get(reason, 400)
        one = answer.startswith(b"HTTP/1.1 %d " % status) and answer.count(b"\r\nDate: ") == 1
        good = one and b'"reason":"%s"' % reason.encode() in answer
        expected[reason] = expected.get(reason, 0) + 1
        if not good:
            check(path.name, False, answer)
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    for path in sorted((CORPUS / "http_chunked").glob("refuse.*")):
        reason = path.name.split(".")[1]
        if reason == "too_large":
            continue  # the limit of the corpus is smaller than the server's
        answer = send_shape(server, head + path.read_bytes()[1:])
        good = answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"\r\nDate: ") == 1
        expected[reason] = expected.get(reason, 0) + 1
        if not good or b'"reason":"%s"' % reason.encode() not in answer:
            check(path.name, False, answer)
    after = server.counters()["rejected"]
    counted = {r: after[r] - before[r] for r in expected}
    check(f"{sum(expected.values())} shapes refused, closed and counted", counted == expected,
          f"{counted}\n{expected}")


def accepted_shapes(server):
    for path in sorted((CORPUS / "http_chunked").glob("accept.*")):
        data = path.read_bytes()[1:]
        with server.connect() as s:
            s.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                      b"Connection: close\r\n\r\n" + data)
            answer = read_all(s)
        if not answer.startswith(b"HTTP/1.1 200 "):
            check(path.name, False, answer)


def slow_peers():
    with Ron("--read-timeout", "500", "--idle-timeout", "60000") as server:
        slow = [server.connect() for _ in range(200)]
        for i, s in enumerate(slow):
            s.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\nX: " if i % 2 else
                      b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
        c = http.client.HTTPConnection(server.host, server.port, timeout=20)
        good = 0
        for _ in range(100):
            c.request("GET", "/hello")
            good += c.getresponse().read() != b""
        check("200 slow peers do not stop the others", good == 100)
        answers = [read_all(s) for s in slow]
        check("slow peers are told 408 and closed",
              all(a.startswith(b"HTTP/1.1 408 ") for a in answers), answers[0])
        for s in slow:
            s.close()


def gates():
    with Ron("--rate", "10", "--burst", "5", "--inflight", "3") as server:
        c = http.client.HTTPConnection(server.host, server.port, timeout=20)
        statuses = []
        for _ in range(20):
            c.request("GET", "/hello")
            r = c.getresponse()
            statuses.append((r.status, r.headers["Retry-After"]))
            r.read()
        check("rate: a burst of 5, then 429 with Retry-After",
              [s for s, _ in statuses[:5]] == [200] * 5 and statuses[5] == (429, "1"), statuses)
    with Ron("--inflight", "3", "--request-timeout", "3000") as server:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            def never(_):
                c = http.client.HTTPConnection(server.host, server.port, timeout=20)
                c.request("GET", "/never")
                return c.getresponse().status
            held = [pool.submit(never, i) for i in range(3)]
            while server.counters()["inflight"] < 3:
                pass
            c = http.client.HTTPConnection(server.host, server.port, timeout=20)
            c.request("POST", "/late", body=b"x")
            r = c.getresponse()
            body = r.read()
            check("inflight: 429 BACKPRESSURE", r.status == 429 and b"BACKPRESSURE" in body, body)
            c.request("GET", "/hello")
            check("inflight: what is answered at once goes on", c.getresponse().status == 200)
            check("deadline: 503", [f.result() for f in held] == [503] * 3)


def drain():
    with Ron("--request-timeout", "20000") as server:
        idle = server.connect()
        idle.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
        while b"}" not in idle.recv(4096):
            pass
        waiting = server.connect()
        waiting.sendall(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n")
        while server.counters()["inflight"] < 1:
            pass
        server.stop()
        check("drain: an idle connection ends with FIN", read_all(idle) == b"")
        answer = read_all(waiting)
        check("drain: what waits is answered, then FIN",
              answer.startswith(b"HTTP/1.1 503 ") and b"draining" in answer, answer)


with Ron() as the_server:
    good_clients(the_server)
    smuggling_shapes(the_server)
    accepted_shapes(the_server)
slow_peers()
gates()
drain()
finish()
