#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it kills workers under load and measures.
"""Goal: workers of the bridge that die under load with deliveries in their hands are started again;
no delivery is lost or taken twice, nobody is answered wrongly, reads go on; and a worker that dies
again and again ends the service, so that an outer supervisor starts it anew.

Method: ron_faulty, in which a worker finds no memory as often as this test says by files. The
provider is Twilio, with forms beyond what a worker keeps memory for, so that each delivery needs
some. Senders are at-least-once and send everything twice.
"""
import base64
import hashlib
import hmac
import json
import os
import socket
import threading
from pathlib import Path

from httpkit import check, eventually, finish
from interopkit import Interop

SECRET = "twilio of the tests"
CONFIG = """
[providers.twilio]
enabled = true
secret_env = "TWILIO_SECRET"
public_url = "https://hooks.example"
"""
SENDERS = 6
WORKERS = 4
ROUNDS = 3
PADDING = "x" * (70 << 10)
FAULTS = Path(os.environ["RON_BUILD_DIR"]) / "interop-faults"


def form(name):
    return f"Body={PADDING}&Sid={name}".encode()


def post(svc, name, client=None):
    text = "https://hooks.example/webhooks/twilioBody" + PADDING + "Sid" + name
    mac = base64.b64encode(hmac.new(SECRET.encode(), text.encode(), hashlib.sha1).digest())
    return svc.call("POST", "/webhooks/twilio", form(name), client=client, token=None,
                    Content_Type="application/x-www-form-urlencoded",
                    X_Twilio_Signature=mac.decode())


class Faulty(Interop):
    program = str(Path(os.environ["RON_BUILD_DIR"]) / "tests" / "ron_faulty")

    def __init__(self, *options, **more):
        super().__init__(f"--concurrency.workers={WORKERS}", "--auth.reads=open", *options,
                         config=CONFIG, env={"TWILIO_SECRET": SECRET,
                                             "RON_FAULTY_SITE": "has_scratch",
                                             "RON_FAULTY_DIR": str(FAULTS)}, **more)

    def restarts(self, number):
        return self.metric(f'service_restarts_total{{task="worker-{number}"}}')


def doom(number, times=1):
    for i in range(times):
        (FAULTS / f"worker-{number}.{i}").touch()


class Load:
    def __init__(self, svc):
        self.svc, self.ending = svc, threading.Event()
        self.taken, self.codes, self.lock = set(), {}, threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(SENDERS)]
        for t in self.threads:
            t.start()

    def run(self, number):
        client, n = self.svc.client(), 0
        while not self.ending.is_set():
            name, good = f"{number}-{n}", 0
            n += 1
            while good < 2 and not self.ending.is_set():  # at least once, and then once more
                a = post(self.svc, name, client)
                good += a.status == 202
                with self.lock:
                    self.codes[a.code] = self.codes.get(a.code, 0) + 1
                    if a.status == 202:
                        self.taken.add(name)

    def end(self):
        self.ending.set()
        for t in self.threads:
            t.join()


def received(svc):
    got, more = [], True
    while more:
        more = svc.call("POST", "/mailbox/webhook.twilio/recv",
                        json.dumps({"max": 50, "visibility_ms": 600000})).json["messages"]
        got += [m["body"].rsplit("Sid=", 1)[1] for m in more]
    return got


def die_under_load():
    with Faulty() as svc:
        address = svc.put(b"kept").json["address"]
        load = Load(svc)
        reads = True
        for number in range(1, ROUNDS + 1):
            for worker in (0, 1):
                doom(worker)
            check(f"death {number}: it came to both", eventually(
                lambda: not any(FAULTS.iterdir()), 60))
            check(f"death {number}: both are started again", eventually(
                lambda n=number: svc.restarts(0) == n and svc.restarts(1) == n, 60),
                (svc.restarts(0), svc.restarts(1)))
            reads = reads and svc.get("/o/" + address, token=None).body == b"kept" and \
                svc.get("/readyz?class=read", token=None).status == 200
        wanted = len(load.taken) + 20
        check("deaths: deliveries go on", eventually(lambda: len(load.taken) > wanted, 60))
        load.end()
        check("deaths: reads went on", reads)
        check("deaths: every answer was 202, or to come again", set(load.codes) <=
              {202, "BACKPRESSURE"}, load.codes)
        got = received(svc)
        check(f"deaths: each of {len(load.taken)} that were acknowledged is there",
              load.taken <= set(got), sorted(load.taken - set(got))[:5])
        check("deaths: none twice", len(got) == len(set(got)), len(got) - len(set(got)))
        check("deaths: healthy and ready", svc.get("/healthz", token=None).status == 200 and
              eventually(lambda: svc.get("/readyz", token=None).json.get("degraded") is False),
              svc.get("/readyz", token=None).body)
        print(f"deaths: {load.codes}")


def passed_on():
    """A delivery whose workers die is carried by the next; after three it is refused, and the
    sender's next try is taken."""
    with Faulty() as svc:
        for worker in range(WORKERS):
            doom(worker)
        a = post(svc, "thrice")
        check("thrice: to come again", (a.status, a.code) == (429, "BACKPRESSURE"), a.body)
        check("thrice: one death is left", sum(1 for _ in FAULTS.iterdir()) == WORKERS - 3)
        check("thrice: nothing was stored", svc.metric('mailbox_ops_total{op="put"}') == 0)
        a = post(svc, "thrice")
        check("thrice: taken then", a.status == 202 and "duplicate" not in a.json, a.body)
        for f in FAULTS.iterdir():
            f.unlink()


def crash_loop():
    """The sixth death within a minute is fatal: told by /healthz, drained, exit code 3."""
    with Faulty("--drain_deadline=3s", expect=3) as svc:
        health, ended = [], threading.Event()

        def watch():
            while not ended.is_set():
                try:
                    health.append(svc.get("/healthz", token=None).status)
                except OSError:
                    pass

        host, port = svc.addr.rsplit(":", 1)
        half = socket.create_connection((host, int(port)), 20)  # so that the drain takes a while
        half.sendall(f"POST /put HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {svc.token}\r\n"
                     "Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\nx"
                     .encode())
        watcher = threading.Thread(target=watch)
        watcher.start()
        for worker in range(WORKERS):
            doom(worker, 10)
        codes = []
        for n in range(200):
            try:
                codes.append(post(svc, f"loop-{n}").code)
            except OSError:
                break
        check("loop: the service ends by itself", svc.process.wait(60) == 3,
              svc.process.returncode)
        ended.set()
        watcher.join()
        half.close()
        check("loop: nothing was acknowledged wrongly", set(codes) <=
              {"BACKPRESSURE", "DRAINING", "TIMEOUT"}, set(codes))
        check("loop: /healthz told it", 503 in health, (set(health), len(health)))
        check("loop: and the log", any("worker-" in x and '"level":"error"' in x
                                       for x in svc.lines), svc.lines[-10:])
        for f in FAULTS.iterdir():
            f.unlink()


def main():
    FAULTS.mkdir(exist_ok=True)
    for old in FAULTS.iterdir():
        old.unlink()
    passed_on()
    die_under_load()
    crash_loop()
    finish()


if __name__ == "__main__":
    main()
