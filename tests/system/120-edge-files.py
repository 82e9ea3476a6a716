#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of the edge as their clients see them: tags, conditions, ranges, refusals, replacement,
origins, metrics. The bytes and their hashes are known here independently (Debian's b3sum)."""
import http.client
import os
import signal
import socket
import ssl
import subprocess
import tempfile

from edgekit import Edge
from httpkit import check, eventually, finish
from ledgerkit import PROGRAM
from rewarderkit import b3

BIG = bytes((i * 31 + i // 997) % 256 for i in range(1 << 20))
SMALL = b'{"hello":"world"}\n'
FILES = {"a.json": SMALL, "deep/er/page.html": b"<p>hi</p>", "big.bin": BIG, "empty": b"",
         "with space.txt": b"blank", ".hidden": b"secret", "dir/.git/config": b"secret"}
BASE = "/edge/assets/files/"


def tag(data):
    return f'"{b3(data)}"'


def basics(edge):
    a = edge.get(BASE + "a.json")
    check("a file: 200 with its bytes", a.status == 200 and a.body == SMALL, a.body)
    check("a file: the tag is the hash of its bytes", a["ETag"] == tag(SMALL), a["ETag"])
    check("a file: type, length, ranges, cache", (a["Content-Type"], a["Content-Length"],
          a["Accept-Ranges"], a["Cache-Control"]) ==
          ("application/json", str(len(SMALL)), "bytes", "public, max-age=300"), dict(a.headers))
    check("a file: when it was changed", a["Last-Modified"] is not None)
    a = edge.get(BASE + "big.bin")
    check("a large file: whole", a.status == 200 and a.body == BIG)
    check("a large file: its tag", a["ETag"] == tag(BIG))
    a = edge.get(BASE + "big.bin", method="HEAD")
    check("HEAD: the same head and no body", a.status == 200 and a.body == b"" and
          a["Content-Length"] == str(len(BIG)) and a["ETag"] == tag(BIG))
    a = edge.get(BASE + "empty")
    check("an empty file", a.status == 200 and a.body == b"" and a["ETag"] == tag(b""))
    a = edge.get(BASE + "with%20space.txt")
    check("an encoded name", a.status == 200 and a.body == b"blank")
    a = edge.get(BASE + "deep/er/page.html")
    check("a file in folders", a.status == 200 and a["Content-Type"] == "text/html; charset=utf-8")


def conditions(edge):
    t, other = tag(SMALL), '"b3:' + "0" * 64 + '"'
    modified = edge.get(BASE + "a.json")["Last-Modified"]
    rows = [
        ({"If_None_Match": t}, 304), ({"If_None_Match": "W/" + t}, 304),
        ({"If_None_Match": f"{other}, {t}"}, 304), ({"If_None_Match": "*"}, 304),
        ({"If_None_Match": other}, 200), ({"If_Match": t}, 200), ({"If_Match": "*"}, 200),
        ({"If_Match": other}, 412), ({"If_Match": "W/" + t}, 412),
        ({"If_Modified_Since": modified}, 304),
        ({"If_Modified_Since": "Sun, 06 Nov 1994 08:49:37 GMT"}, 200),
        ({"If_Unmodified_Since": "Sun, 06 Nov 1994 08:49:37 GMT"}, 412),
        ({"If_Unmodified_Since": modified}, 200),
        ({"If_None_Match": other, "If_Modified_Since": modified}, 200),
    ]
    for headers, status in rows:
        a = edge.get(BASE + "a.json", **headers)
        check(f"conditions: {headers} is {status}", a.status == status, a.status)
        if status == 304:
            check("conditions: a 304 has the tag and no body", a["ETag"] == t and a.body == b"")


def ranges(edge):
    n, t = len(BIG), tag(BIG)
    rows = [
        ("bytes=0-0", 0, 0), ("bytes=0-99", 0, 99), ("bytes=1000-65999", 1000, 65999),
        ("bytes=100-", 100, n - 1), ("bytes=-1", n - 1, n - 1), ("bytes=-100", n - 100, n - 1),
        (f"bytes={n - 1}-", n - 1, n - 1), (f"bytes=0-{n + 100}", 0, n - 1),
        (f"bytes=-{n + 5}", 0, n - 1),
    ]
    for value, first, last in rows:
        a = edge.get(BASE + "big.bin", Range=value)
        check(f"ranges: {value}", a.status == 206 and a.body == BIG[first:last + 1] and
              a["Content-Range"] == f"bytes {first}-{last}/{n}" and a["ETag"] == t,
              (a.status, a["Content-Range"], len(a.body)))
    for value in (f"bytes={n}-", "bytes=9999999999-0", "bytes=a-b", "bytes=-0", "bytes=5-2",
                  "bytes=", "bytes=1-2-3"):
        a = edge.get(BASE + "big.bin", Range=value)
        check(f"ranges: {value} is 416", a.status == 416 and
              a["Content-Range"] == f"bytes */{n}" and a["X-Reason"] == "invalid_range",
              (a.status, a["Content-Range"]))
    a = edge.get(BASE + "big.bin", Range="items=0-5")
    check("ranges: another unit is ignored", a.status == 200 and a.body == BIG)
    a = edge.get(BASE + "big.bin", Range="bytes=0-1,5-6")
    check("ranges: several get the whole", a.status == 200 and a.body == BIG)
    a = edge.get(BASE + "big.bin", Range="bytes=0-9", If_Range=t)
    check("ranges: If-Range with the tag", a.status == 206 and a.body == BIG[:10])
    for value in ('"b3:' + "1" * 64 + '"', "W/" + t, "Sun, 06 Nov 1994 08:49:37 GMT"):
        a = edge.get(BASE + "big.bin", Range="bytes=0-9", If_Range=value)
        check(f"ranges: If-Range {value[:12]} gets the whole", a.status == 200)
    a = edge.get(BASE + "empty", Range="bytes=0-")
    check("ranges: of nothing is 416", a.status == 416 and a["Content-Range"] == "bytes */0")
    a = edge.get(BASE + "big.bin", method="HEAD", Range="bytes=0-9")
    check("ranges: HEAD has none", a.status == 200 and a["Content-Length"] == str(n))


def refusals(edge):
    outside = edge.folder / "secret"
    outside.write_bytes(b"secret")
    os.symlink("../secret", edge.root / "link")
    os.mkfifo(edge.root / "pipe")
    for path in ("nothing", "deep", "deep/", "", ".hidden", "dir/.git/config", "..%2fsecret",
                 "%2e%2e/secret", "a.json/b", "a%2ejson%2f", "x" * 2000):
        a = edge.get(BASE + path)
        check(f"refused: '{path[:20]}'", a.status in (400, 403, 404) and b"secret" not in a.body,
              (a.status, a.body[:80]))
    a = edge.get(BASE + "link")
    check("refused: a link that leads out", a.status == 403 and a["X-Reason"] == "not_allowed")
    a = edge.get(BASE + "pipe")
    check("refused: a pipe", a.status == 403)
    check("refused: a broken escape", edge.get(BASE + "a%zz").status == 400)
    check("refused: dots as sent", edge.get("/edge/assets/files/../../etc/passwd").status in
          (400, 404))
    for method in ("POST", "PUT", "DELETE"):
        a = edge.get(BASE + "a.json", method=method)
        check(f"refused: {method} is 405 with Allow", a.status == 405 and "GET" in a["Allow"])
    with socket.create_connection(edge.addr.rsplit(":", 1), timeout=10) as s:
        s.sendall(b"OAP1" + bytes(60) + b"\n\n")
        check("refused: another protocol", s.recv(100).startswith(b"HTTP/1.1 400"))
    body = edge.get(BASE + "nothing").body
    check("refused: the envelope tells the reason", b'"reason":"not_found"' in body, body)


def replacement(edge):
    edge.put("turn.txt", b"one")
    first = edge.get(BASE + "turn.txt")
    edge.put("turn.txt", b"two!")
    check("a replaced file is served with its new tag",
          eventually(lambda: edge.get(BASE + "turn.txt").body == b"two!"))
    a = edge.get(BASE + "turn.txt", If_None_Match=first["ETag"])
    check("a replaced file: the old tag does not match", a.status == 200 and
          a["ETag"] == tag(b"two!"))
    os.unlink(edge.root / "turn.txt")
    check("a removed file is gone", eventually(lambda: edge.get(BASE + "turn.txt").status == 404))


def counted(edge):
    before = edge.metric('edge_rejects_total{reason="invalid_range"}')
    edge.get(BASE + "a.json", Range="bytes=99999-")
    check("counted: a refused range", edge.metric('edge_rejects_total{reason="invalid_range"}') ==
          before + 1)
    sent = edge.metric('queue_sent_total{queue="reads"}')
    hits = edge.metric('edge_cache_hits_total{kind="file",range="miss"}')
    client = edge.client()
    for _ in range(100):
        edge.get(BASE + "a.json", client=client)
    # The file may be looked at once a second, which is no request's wait.
    check("hits touch no queue", edge.metric('queue_sent_total{queue="reads"}') - sent < 20)
    check("counted: hits", edge.metric('edge_cache_hits_total{kind="file",range="miss"}') >=
          hits + 100)


def origins():
    with Edge("--cors.allow_origins=https://map.example,https://b.example",
              files={"a": b"a"}) as edge:
        a = edge.get(BASE + "a", Origin="https://map.example")
        check("origins: a listed one may read",
              a["Access-Control-Allow-Origin"] == "https://map.example" and
              "Origin" in a["Vary"] and "ETag" in a["Access-Control-Expose-Headers"])
        a = edge.get(BASE + "a", Origin="https://evil.example")
        check("origins: another may not", a["Access-Control-Allow-Origin"] is None)
    with Edge("--cors.allow_origins=*", files={"a": b"a"}) as edge:
        check("origins: all", edge.get(BASE + "a")["Access-Control-Allow-Origin"] == "*")


def browsers():
    """What every answer tells a browser, and what only one over TLS does."""
    with Edge("--edge.demo=true", files={"a": b"a"}) as edge:
        t = edge.get(BASE + "a")["ETag"]
        for what, status, a in (("a file", 200, edge.get(BASE + "a")),
                                ("not modified", 304, edge.get(BASE + "a", If_None_Match=t)),
                                ("a bad range", 416, edge.get(BASE + "a", Range="bytes=9-")),
                                ("nothing there", 404, edge.get(BASE + "b")),
                                ("the demo page", 200, edge.get("/"))):
            check(f"browsers: {what}: no referrer, said once, and nothing about TLS",
                  a.status == status and a.headers.get_all("Referrer-Policy") == ["no-referrer"] and
                  a["Strict-Transport-Security"] is None, (a.status, a.headers.items()))
    with tempfile.TemporaryDirectory() as t:
        cert, key = f"{t}/cert.pem", f"{t}/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days",
                        "2", "-subj", "/CN=edge", "-addext", "subjectAltName=IP:127.0.0.1"],
                       capture_output=True, check=True)
        trust = ssl.create_default_context(cafile=cert)
        for option, wanted in (("true", "max-age=31536000"), ("false", None)):
            with Edge(f"--tls.cert={cert}", f"--tls.key={key}", f"--security.hsts={option}",
                      files={"a": b"a"}) as edge:
                host, port = edge.addr.rsplit(":", 1)
                for path, status in (("a", 200), ("b", 404)):
                    client = http.client.HTTPSConnection(host, int(port), timeout=20, context=trust)
                    a = edge.get(BASE + path, client=client)
                    check(f"browsers: TLS, security.hsts={option}: {status}", a.status == status and
                          a["Strict-Transport-Security"] == wanted, a.headers.items())


def settings():
    for option, word in (("--cors.allow_origins=map.example", "cors.allow_origins"),
                         ("--edge.packs=nothing", "NAME=FILE"),
                         ("--edge.packs=a=/x,a=/y", "duplicate name 'a'"),
                         ("--edge.packs=files=/x", "'files' is reserved"),
                         ("--edge.files_dir=/nowhere/at/all", "edge.files_dir")):
        done = subprocess.run([PROGRAM, "edge", "--bind_addr=127.0.0.1:0", option],
                              capture_output=True, text=True, timeout=30)
        check(f"settings: {option} is refused and named", done.returncode == 1 and
              word in done.stderr, (done.returncode, done.stderr))


with Edge(files=FILES) as the_edge:
    basics(the_edge)
    conditions(the_edge)
    ranges(the_edge)
    refusals(the_edge)
    replacement(the_edge)
    counted(the_edge)
    check("it is ready", the_edge.get("/readyz").status == 200)
    the_edge.process.send_signal(signal.SIGHUP)
    check("a reload keeps it ready", eventually(lambda: the_edge.get("/readyz").status == 200))
origins()
browsers()
settings()
finish()
