#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it loads every core and weighs memory.
"""Goal: the whole server under load loses nothing and breaks nothing: a million requests leave its
memory where it was and are all counted, clients that vanish at any moment leave nothing behind, and
TLS changes none of it.

Method: h2load in counted blocks, resident memory after each; then wrk beside clients that reset,
abandon, pipeline and dawdle at random (RON_SEED repeats their choices). The release program serves
RON_LOAD_REQUESTS = 1,000,000 (ten times that with RON_SOAK); the same test drives the programs of
the asan and tsan builds with fewer, where any report, leaks at the end included, fails it.
"""
import json
import os
import random
import socket
import struct
import subprocess
import tempfile
import threading
from pathlib import Path

from httpkit import Ron, check, eventually, finish, h2load, missing, status_kib, wrk

SANITIZED = bool(os.environ.get("RON_LOAD_SANITIZED"))
SOAK = bool(os.environ.get("RON_SOAK"))
TOTAL = int(os.environ.get("RON_LOAD_REQUESTS") or (10_000_000 if SOAK else 1_000_000))
BLOCKS = 10
# Growth from the second block to the last. A leak of one byte a request would be twice that and
# more; the memory of a server that settles grew by 80 KiB in four million requests, by 128 in one.
GROWTH_MAX_KIB = max(384, TOTAL // 10 * 8 // 10240)
SECONDS = 30 if SOAK else 4
SEED = int(os.environ.get("RON_SEED") or random.SystemRandom().randrange(1 << 31))
TRANSFER = json.dumps({"idempotency_key": "k-1", "debit_account": "a", "credit_account": "b",
                       "amount": "12", "currency": "USD", "memo": "m"})
# Path and share of the requests; those with a body are POST.
MIX = (("/hello", 5, False), ("/json", 2, True), ("/json-late", 2, True), ("/stream/20", 1, False))


def steady(server, body):
    """Blocks of counted requests."""
    memory = []
    before = server.counters()["requests"]
    sent = 0
    for _ in range(BLOCKS):
        for path, share, post in MIX:
            n = TOTAL // BLOCKS * share // 10
            r = h2load(server.url + path, n, 64, *(["-d", str(body)] if post else []))
            sent += n
            if r["bad"] != 0:
                check(f"load: every answer of {path} is 2xx", False, r["text"])
                return
        memory.append(status_kib(server.pid))
    seen = server.counters()["requests"] - before - 1
    check(f"load: {sent} requests, all 2xx and all counted", seen == sent, seen)
    print(f"memory after each tenth, KiB: {memory}")
    if not SANITIZED:  # a sanitizer keeps freed memory on purpose, and looks for leaks itself
        check(f"load: memory has grown by less than {GROWTH_MAX_KIB} KiB since the second tenth",
              memory[-1] - memory[1] < GROWTH_MAX_KIB, memory)


def vanish(s):
    """Resets the connection."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


class Rabble(threading.Thread):
    """One client that does what clients do: badly, at random, until told to stop."""

    POST = (b"POST /%s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n")

    def __init__(self, server, seed):
        super().__init__()
        self.server = server
        self.random = random.Random(seed)
        self.over = threading.Event()
        self.error = None
        self.done = 0

    def run(self):
        acts = (self.reset_in_head, self.reset_in_body, self.abandon_late, self.abandon_never,
                self.pipeline, self.half_close, self.nonsense, self.unread_answer)
        try:
            while not self.over.is_set():
                with self.server.connect() as s:
                    self.random.choice(acts)(s)
                self.done += 1
        except AssertionError as e:
            self.error = e
        except OSError as e:
            self.error = e

    def reset_in_head(self, s):
        s.sendall(b"GET /hello HTTP/1.1\r\nHost: a\r\nX: y"[:self.random.randrange(1, 36)])
        vanish(s)

    def reset_in_body(self, s):
        s.sendall(self.POST % (b"echo", 200000) + b"x" * self.random.randrange(100000))
        vanish(s)

    def abandon_late(self, s):
        n = self.random.randrange(60000)
        s.sendall(self.POST % (b"late", n) + b"x" * n)
        vanish(s)

    def abandon_never(self, s):
        s.sendall(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n")
        if self.random.random() < 0.5:
            vanish(s)

    def pipeline(self, s):
        n = self.random.randrange(1, 40)
        one = b"GET /bytes/%d HTTP/1.1\r\nHost: a\r\n\r\n" % self.random.randrange(5000)
        last = b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        s.sendall(one * n + last)
        data = b""
        while piece := s.recv(65536):
            data += piece
        assert data.count(b"HTTP/1.1 200 ") == n + 1, data[-300:]

    def half_close(self, s):
        s.sendall(self.POST % (b"json-late", len(TRANSFER)) + TRANSFER.encode())
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass

    def nonsense(self, s):
        s.sendall(self.random.randbytes(self.random.randrange(1, 300)) + b"\r\n\r\n")
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            pass  # more came than the server wanted to read

    def unread_answer(self, s):
        s.sendall(b"GET /bytes/3000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        s.recv(1000)
        vanish(s)


def chaos(server, script):
    print(f"seed {SEED}")
    rabble = [Rabble(server, SEED + i) for i in range(4)]
    for r in rabble:
        r.start()
    try:
        runs = [wrk(server.url + path, SECONDS // 2, 32, 1, lua)
                for path, lua in (("/hello", None), ("/json-late", script))]
    finally:
        for r in rabble:
            r.over.set()
        for r in rabble:
            r.join()
    errors = [r.error for r in rabble if r.error]
    check(f"chaos: {sum(r.done for r in rabble)} bad clients were dealt with", not errors, errors)
    for run in runs:
        check(f"chaos: beside them {run['requests']} good requests, no error", run["errors"] == 0,
              run["text"])
    check("chaos: nothing is left of them", eventually(
        lambda: (c := server.counters())["inflight"] == 0 and c["connections"] == 1),
        server.counters())


def over_tls(folder, body):
    """The same through TLS, where every connection has a state of OpenSSL's beside ours."""
    cert, key = Path(folder) / "cert.pem", Path(folder) / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    key.chmod(0o600)
    with Ron("--tls-cert", cert, "--tls-key", key) as server:
        url = f"https://{server.host}:{server.port}"
        for path, extra in (("/hello", []), ("/json-late", ["-d", str(body)]),
                            ("/bytes/16384", [])):
            n = max(64, TOTAL // 50)
            r = h2load(url + path, n, 32, *extra)
            check(f"TLS: {n} of {path} are 2xx", r["bad"] == 0, r["text"])
        # As many connections as requests: handshakes are what is repeated.
        r = h2load(f"{url}/hello", 300, 300)
        check("TLS: 300 connections at once", r["bad"] == 0, r["text"])


if not missing("wrk", "h2load", "openssl"):
    with tempfile.TemporaryDirectory() as folder, Ron() as the_server:
        transfer = Path(folder) / "transfer.json"
        transfer.write_text(TRANSFER, encoding="ascii")
        post = Path(folder) / "post.lua"
        post.write_text(f"wrk.method = 'POST'\nwrk.body = [[{TRANSFER}]]\n", encoding="ascii")
        steady(the_server, transfer)
        chaos(the_server, post)
        over_tls(folder, transfer)
finish()
