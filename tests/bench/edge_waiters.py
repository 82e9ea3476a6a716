#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Part of `./dev bench edge`: 200 clients ask for one thing that the edge does not have, of an
origin that answers after 300 ms. How many requests reach the origin, and when the last client has
its answer. As Markdown.

Method: origin and clients are one loop in this process, so that no thread of it waits for another;
all connections are open before the first request is sent. The origin's time is from the first
request of a client to the moment when it has sent its answer. Repetitions: RON_BENCH_REPS (5)."""
import selectors
import socket
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from benchkit import setting, spread  # noqa: E402
from edgekit import Edge  # noqa: E402
from httpkit import eventually  # noqa: E402

REPS = setting("REPS", 5)
CLIENTS, DELAY_S, BODY = 200, 0.3, b"x" * 24 * 1024
ANSWER = (b"HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nCache-Control: max-age=60\r\n"
          b"Content-Length: %d\r\n\r\n" % len(BODY)) + BODY


class Loop:
    """The origin and its clients."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.door = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.door.getsockname()[1]}"
        self.selector.register(self.door, selectors.EVENT_READ, self.accept)
        self.due = []
        self.asked = 0

    def accept(self, door):
        self.selector.register(door.accept()[0], selectors.EVENT_READ, self.serve)

    def serve(self, s):
        data = s.recv(65536)
        if not data:
            self.selector.unregister(s)
            s.close()
        elif b"\r\n\r\n" in data:
            self.asked += 1
            self.due.append((time.monotonic() + DELAY_S, s))

    def turn(self):
        now = time.monotonic()
        for at, s in [d for d in self.due if d[0] <= now]:
            self.due.remove((at, s))
            s.sendall(ANSWER)
            self.sent = time.monotonic()
        wait = min((at for at, _ in self.due), default=now + 0.05) - time.monotonic()
        for key, _ in self.selector.select(max(wait, 0)):
            key.data(key.fileobj)

    def run(self, addr, path):
        """(requests at the origin, its time, time of the slowest client)."""
        host, port = addr.rsplit(":", 1)
        waiting = {}
        slowest = 0.0

        def read(s):
            nonlocal slowest
            waiting[s] += len(s.recv(1 << 20))
            if waiting[s] >= len(BODY) + 200:
                slowest = max(slowest, time.monotonic() - start)
                self.selector.unregister(s)
                s.close()
                del waiting[s]

        for _ in range(CLIENTS):
            s = socket.create_connection((host, int(port)))
            waiting[s] = 0
            self.selector.register(s, selectors.EVENT_READ, read)
        self.asked = 0
        request = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        start = time.monotonic()
        for s in list(waiting):
            s.sendall(request)
        while waiting:
            self.turn()
        return self.asked, self.sent - start, slowest


def main():
    loop = Loop()
    rows = []
    with Edge(f"--origins.app.url={loop.url}", "--origins.app.allow_http=true",
              "--origins.app.allow_private=true", "--gateway.origin=app") as edge:
        if not eventually(lambda: edge.get("/readyz").status == 200):
            sys.exit("the edge is not ready")
        for kind, base in (("live fill", "/edge/assets/o/app/"), ("gateway", "/")):
            runs = [loop.run(edge.addr, f"{base}{kind[0]}{i}") for i in range(REPS)]
            rows.append((kind, runs))
    print(f"\n## {CLIENTS} clients wait for one answer of an origin that takes "
          f"{DELAY_S * 1e3:.0f} ms\n\n"
          "| way | requests at the origin | origin had answered, ms | slowest client, ms | "
          "behind the origin, ms | aim: 1, and 30 ms |\n|---|---|---|---|---|---|")
    for kind, runs in rows:
        behind = [(slow - origin) * 1e3 for _, origin, slow in runs]
        good = all(asked == 1 for asked, *_ in runs) and statistics.median(behind) <= 30
        print(f"| {kind} | {max(asked for asked, *_ in runs)} | "
              f"{spread([o * 1e3 for _, o, _ in runs], 0)} | "
              f"{spread([s * 1e3 for *_, s in runs], 0)} | {spread(behind, 1)} | "
              f"{'met' if good else 'missed'} |")


main()
