#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects of the bridge as their clients see them: /put as a stream and as JSON, /o whole, in parts
and under conditions, refusals, limits, memory, a kill in the middle. Bytes and their hashes are
known here independently (Debian's b3sum)."""
import base64
import gzip
import os
import socket

from baokit import check_slice
from httpkit import check, eventually, finish, status_kib
from interopkit import Interop
from rewarderkit import b3, zstd_frame

BIG = bytes((i * 31 + i // 997) % 256 for i in range(3 << 20))
SMALL = b"hello world"


def puts(svc):
    a = svc.put(SMALL)
    check("put: 202 with the address of the bytes", a.status == 202 and a.json["address"] ==
          "b3:d74981efa70a0c880b8d8c1985d075dbcbf679b99a5f9914e5aaf96b831a9e24", a.body)
    check("put: the correlation id is told", a.json["corr_id"] == a["X-Corr-ID"])
    a = svc.put(SMALL)
    check("put: the same bytes again are the same object", a.status == 202)
    a = svc.put(BIG)
    check("put: more than 1 MiB streams", a.status == 202 and a.json["address"] == b3(BIG), a.body)
    check("put: its pieces are counted", svc.metric('stream_chunks_total{route="/put"}') >= 48)
    a = svc.put(b"")
    check("put: no bytes are an object, too", a.status == 202 and a.json["address"] == b3(b""))
    text = os.urandom(1 << 20) * 2
    a = svc.put(gzip.compress(text), Content_Encoding="gzip")
    check("put: the address is that of the decoded bytes",
          a.status == 202 and a.json["address"] == b3(text), a.body)
    text = os.urandom(60000)
    a = svc.put(zstd_frame(text), Content_Encoding="zstd")
    check("put: zstd", a.status == 202 and a.json["address"] == b3(text), a.body)
    a = svc.put(gzip.compress(bytes(4 << 20)), Content_Encoding="gzip")
    check("put: a bomb is refused", a.code == "DECOMP_LIMIT", a.body)


def json_form(svc):
    def put(data, **meta):
        return svc.put_json(payload=base64.b64encode(data).decode(), **({"meta": meta} or {}))

    a = put(b"foobar")
    check("json: the published vector", a.status == 202 and a.json["address"] ==
          "b3:aa51dcd43d5c6c5203ee16906fd6b35db298b9b2e1de3fce81811d4806b76b7d", a.body)
    a = put(gzip.compress(b"foobar"), content_encoding="gzip", type="text/plain")
    check("json: a coded payload is decoded",
          a.status == 202 and a.json["address"] == b3(b"foobar"), a.body)
    rows = [
        ("no base64", svc.put_json(payload="%%%"), "MALFORMED"),
        ("base64 without padding", svc.put_json(payload="Zm9vYg"), "MALFORMED"),
        ("no payload", svc.put_json(meta={}), "MALFORMED"),
        ("an unknown member", svc.put_json(payload="", more=1), "MALFORMED"),
        ("an unknown member of meta", svc.put_json(payload="", meta={"x": 1}), "MALFORMED"),
        ("an unknown coding", put(b"x", content_encoding="br"), "MALFORMED"),
        ("damaged gzip", put(b"x" * 50, content_encoding="gzip"), "MALFORMED"),
        ("a bomb", put(gzip.compress(bytes(1 << 20)), content_encoding="gzip"), "DECOMP_LIMIT"),
        ("above 1 MiB", svc.put_json(payload="A" * (1 << 20)), "BODY_LIMIT"),
        ("another type", svc.call("POST", "/put", b"x", Content_Type="text/plain"), "MALFORMED"),
    ]
    for name, a, code in rows:
        check(f"json: {name} is {code}", a.code == code, a.body)


def reads(svc):
    address, n = b3(BIG), len(BIG)
    a = svc.get("/o/" + address)
    check("o: the bytes", a.status == 200 and a.body == BIG)
    check("o: the tag is the address", a["ETag"] == f'"{address}"')
    check("o: nothing in it is run", a["X-Content-Type-Options"] == "nosniff")
    a = svc.call("HEAD", "/o/" + address)
    check("o: HEAD", a.status == 200 and a.body == b"" and a["Content-Length"] == str(n))
    for value, first, last in [("bytes=0-0", 0, 0), ("bytes=1000-99999", 1000, 99999),
                               ("bytes=-100", n - 100, n - 1), (f"bytes={n - 1}-", n - 1, n - 1)]:
        a = svc.get("/o/" + address, Range=value)
        check(f"o: {value}", a.status == 206 and a.body == BIG[first:last + 1] and
              a["Content-Range"] == f"bytes {first}-{last}/{n}", a.status)
    rows = [({"Range": f"bytes={n}-"}, 416), ({"If_None_Match": f'"{address}"'}, 304),
            ({"If_Match": '"b3:0"'}, 412)]
    for headers, status in rows:
        a = svc.get("/o/" + address, **headers)
        check(f"o: {headers} is {status}", a.status == status, a.status)
    for name, path, code in [("short", "b3:deadbeef", "MALFORMED"),
                             ("upper case", address.upper(), "MALFORMED"),
                             ("no prefix", address[3:], "MALFORMED"),
                             ("unknown", "b3:" + "0" * 64, "NOT_FOUND")]:
        a = svc.get("/o/" + path)
        check(f"o: an address that is {name} is {code}", a.code == code, a.body)


def proven(address, start, length, data):
    try:
        return check_slice(address, start, length, data)
    except ValueError as e:
        return str(e), -1


def proofs(svc):
    """Slices, checked against the address by a reader of the test's own."""
    address, n = b3(BIG), len(BIG)
    for start, length in [(0, 1), (0, 1024), (1000, 100), (16384, 1), (70000, 40000), (n - 1, 1),
                          (n - 10, 1000), (n + 5, 1), (5, 0)]:
        a = svc.get(f"/o/{address}?proof={start},{length}")
        want = BIG[start:start + max(length, 1)] if start < n else BIG[-1:]
        check(f"proof: {start},{length} proves these bytes and the size", a.status == 200 and
              proven(address, start, length, a.body) == (want, n), (a.status, len(a.body)))
    a = svc.get(f"/o/{address}?proof=70000,100")
    check("proof: little more than the range itself", len(a.body) < 3000, len(a.body))
    spoiled = bytearray(a.body)
    spoiled[-1] ^= 1
    check("proof: a changed byte proves nothing",
          proven(address, 70000, 100, bytes(spoiled))[1] == -1)
    check("proof: nor does a slice of something else",
          proven(b3(SMALL), 70000, 100, a.body)[1] == -1)
    a = svc.get(f"/o/{b3(SMALL)}?proof=")
    check("proof: without numbers the whole", proven(b3(SMALL), 0, len(SMALL), a.body) ==
          (SMALL, len(SMALL)), a.body)
    a = svc.get(f"/o/{b3(b'')}?proof=")
    check("proof: of nothing", proven(b3(b""), 0, 1, a.body) == (b"", 0), a.body)
    a = svc.call("HEAD", f"/o/{address}?proof=0,1024")
    check("proof: HEAD tells its length", a.status == 200 and a.body == b"" and
          int(a["Content-Length"]) > 1024, a.status)
    for query in ("x", "1", "1,", ",1", "-1,1", "1,2,3", "99999999999999999999,1", "1,1&proof=1,1"):
        a = svc.get(f"/o/{address}?proof={query}")
        check(f"proof: {query} is MALFORMED", a.code == "MALFORMED", a.body[:100])
    check("proof: of an unknown object", svc.get("/o/b3:" + "0" * 64 + "?proof=").code ==
          "NOT_FOUND")
    check("proof: not without a capability",
          svc.get(f"/o/{address}?proof=", token=None).code == "UNAUTH")


def who_may(svc):
    for name, token, code in [
            ("no capability", None, "UNAUTH"), ("another scope", svc.mint_token("mailbox"),
                                                "SCOPE_MISMATCH"),
            ("another service", svc.mint_token("interop", aud="wallet"), "SCOPE_MISMATCH"),
            ("one that has expired", svc.mint_token("interop", "--exp", "1"), "EXPIRED_TOKEN")]:
        a = svc.put(SMALL, token=token)
        check(f"put: {name} is {code}", a.code == code, a.body)
        a = svc.get("/o/" + b3(SMALL), token=token)
        check(f"o: {name} is {code}", a.code == code, a.body)
        check(f"rejected_total counts {code}",
              svc.metric(f'rejected_total{{reason="{code}"}}') >= 2)


def put_in_part(svc, size, sent):
    """The head of a /put of `size` bytes and the first `sent` of them."""
    host, port = svc.addr.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), 20)
    s.sendall(f"POST /put HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {svc.token}\r\n"
              f"Content-Type: application/octet-stream\r\nContent-Length: {size}\r\n\r\n".encode())
    piece = bytes(1 << 20)
    while sent > 0:
        s.sendall(piece[:min(sent, len(piece))])
        sent -= len(piece)
    return s


def cut_short(svc):
    stored = svc.metric('cas_commits_total{store="objects"}')
    s = put_in_part(svc, 64 << 20, 8 << 20)
    check("a half object: it is being written",
          eventually(lambda: svc.metric('cas_writers{store="objects"}') == 1))
    s.close()
    check("a half object: nothing stays of it",
          eventually(lambda: svc.metric('cas_writers{store="objects"}') == 0) and
          svc.metric('cas_commits_total{store="objects"}') == stored)
    check("a half object: nothing is left on disk",
          not any((svc.folder / "data/objects/tmp").glob("*")))
    s = put_in_part(svc, 64 << 20, 8 << 20)
    check("a kill: it is being written",
          eventually(lambda: svc.metric('cas_writers{store="objects"}') == 1))
    svc.kill()
    s.close()
    svc.start()
    a = svc.get("/o/" + b3(BIG))
    check("a kill: what was acknowledged is there", a.status == 200 and a.body == BIG)
    check("a kill: nothing half-written is left",
          not any((svc.folder / "data/objects/tmp").glob("*")))


def large(svc):
    """Memory does not follow the size of an object."""
    size = 1 << 30
    before = status_kib(svc.process.pid)
    s = put_in_part(svc, size, size)
    answer = s.recv(65536)
    grown = status_kib(svc.process.pid, "VmHWM") - before
    s.close()
    check("1 GiB: stored", answer.startswith(b"HTTP/1.1 202"), answer[:300])
    check("1 GiB: memory stays flat", grown < 32 << 10, f"{grown} KiB")
    s = put_in_part(svc, (1 << 30) + 1, 0)
    check("more than 1 GiB is refused by its length",
          s.recv(65536).startswith(b"HTTP/1.1 413"))
    s.close()


def amnesia():
    with Interop("--amnesia.enabled=true", "--auth.reads=open") as svc:
        a = svc.put(BIG)
        check("amnesia: stored in memory", a.status == 202 and a.json["address"] == b3(BIG), a.body)
        a = svc.get("/o/" + b3(BIG), token=None)
        check("amnesia: read without a capability where that is allowed",
              a.status == 200 and a.body == BIG, a.status)
        a = svc.get("/o/" + b3(BIG), token=None, Range="bytes=5-1500000")
        check("amnesia: a part", a.status == 206 and a.body == BIG[5:1500001])
        a = svc.call("HEAD", "/o/" + b3(BIG), token=None)
        check("amnesia: HEAD", a.status == 200 and a["Content-Length"] == str(len(BIG)), a.status)
        a = svc.get(f"/o/{b3(BIG)}?proof=100000,2000", token=None)
        check("amnesia: a proof", proven(b3(BIG), 100000, 2000, a.body) ==
              (BIG[100000:102000], len(BIG)))
        check("amnesia: nothing on disk", not (svc.folder / "data").exists())


def main():
    with Interop() as svc:
        puts(svc)
        json_form(svc)
        reads(svc)
        proofs(svc)
        who_may(svc)
        large(svc)
        cut_short(svc)
    amnesia()
    finish()


if __name__ == "__main__":
    main()
