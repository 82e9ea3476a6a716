#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: bodies that pass in pieces arrive whole with clients nobody here wrote, cost the server a
bounded amount of memory however large they are, and open streams do not stop a drain.

Method: curl uploads and downloads against `ron-fixture http`; hashes are compared with b3sum where
this machine has it; a client that stops reading and 64 event streams are raw sockets.
"""
import gzip
import hashlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from httpkit import Ron, check, eventually, finish, missing, status_kib

MIB = 1 << 20
SIZE = 128 * MIB


def curl(*arguments, **more):
    return subprocess.run(["curl", "-sS", "--max-time", "60", *arguments], capture_output=True,
                          **more)


def hash_of(path):
    if not shutil.which("b3sum"):
        return None
    return subprocess.run(["b3sum", path], capture_output=True, text=True).stdout.split()[0]


def upload(server, path, *more):
    r = curl("-X", "POST", "-T", path, *more, server.url + "/upload")
    return json.loads(r.stdout) if r.returncode == 0 and r.stdout else {"error": r.stderr}


def uploads(server, folder):
    path = str(Path(folder) / "large")
    block = os.urandom(MIB)
    with open(path, "wb") as f:
        for i in range(SIZE // MIB):
            f.write(block[i:] + block[:i])
    want = hash_of(path)
    before = status_kib(server.pid)
    for how in ((), ("-H", "Transfer-Encoding: chunked"), ("-H", "Expect: 100-continue")):
        got = upload(server, path, *how)
        check(f"curl uploads {SIZE // MIB} MiB {' '.join(how)}",
              got.get("bytes") == SIZE and want in (None, got.get("blake3")), got)
    grown = status_kib(server.pid) - before
    check("an upload is not kept in memory", grown < 16 * 1024, f"grew by {grown} KiB")
    small = Path(folder) / "small"
    small.write_bytes(gzip.compress(block[:200000]))
    got = upload(server, str(small), "-H", "Content-Encoding: gzip")
    check("a gzip body in pieces is decoded", got.get("bytes") == 200000, got)
    small.write_bytes(gzip.compress(bytes(64 * MIB)))
    r = curl("-X", "POST", "-T", str(small), "-H", "Content-Encoding: gzip",
             server.url + "/upload")
    check("a gzip bomb is 413 decompress_cap", b"decompress_cap" in r.stdout, r)
    r = curl("-X", "POST", "-T", str(small), "-H", "Content-Encoding: br", "-i",
             server.url + "/upload")
    check("an unknown coding is 415 and told what is known",
          b"415" in r.stdout and b"Accept-Encoding: gzip, zstd" in r.stdout, r)
    return path


def downloads(server, path):
    r = curl(server.url + "/file")
    check("curl downloads the file of 128 MiB by sendfile",
          hashlib.sha256(r.stdout).digest() == hashlib.sha256(Path(path).read_bytes()).digest(),
          r.stderr)
    r = curl(server.url + "/pieces/65536")
    check("curl downloads 64 MiB written in pieces by a task", len(r.stdout) == 64 * MIB, r.stderr)


def stopped_reader(server):
    s = server.connect()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    before = status_kib(server.pid)
    s.sendall(b"GET /pieces/1000000 HTTP/1.1\r\nHost: a\r\n\r\n")
    sent = server.counters()["bytes_out"]
    check("a stream whose client does not read stops",
          eventually(lambda: still(server, sent)), server.counters())
    grown = status_kib(server.pid) - before
    check("and holds its two pieces", grown < 4096, f"grew by {grown} KiB")
    s.close()
    check("and ends with its client", eventually(lambda: server.counters()["streams"] == 0),
          server.counters())


def still(server, sent):
    """Whether the server has begun to send, and sends no piece while we look twenty times; what it
    sends then are the looks' answers."""
    first = server.counters()["bytes_out"]
    for _ in range(20):
        last = server.counters()["bytes_out"]
    return first > sent + 65536 and last - first < 65536


def events(server):
    r = curl("-N", server.url + "/events?n=3")
    check("server-sent events with an end", r.stdout.count(b"data: tick\n\n") == 3, r)
    streams = []
    for _ in range(64):
        s = server.connect()
        s.sendall(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
        streams.append(s)
    check("64 event streams are open",
          eventually(lambda: server.counters()["streams"] == 64), server.counters())
    check("each gets events", all(b"text/event-stream" in s.recv(4096) for s in streams))
    streams[0].close()
    check("one that leaves is noticed",
          eventually(lambda: server.counters()["streams"] == 63), server.counters())
    server.stop()
    ends = 0
    for s in streams[1:]:
        data = b""
        while piece := s.recv(65536):
            data += piece
        ends += data.endswith(b"0\r\n\r\n")
    check("a drain ends all of them with the last chunk", ends == 63, ends)


if missing("curl"):
    finish()
with tempfile.TemporaryDirectory(prefix="ron-pipes-") as folder_name:
    with Ron("--workers", 2) as ron:
        large = uploads(ron, folder_name)
    with Ron("--workers", 2, "--file", large) as ron:
        downloads(ron, large)
        stopped_reader(ron)
        events(ron)
finish()
