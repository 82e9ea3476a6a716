#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it loads every core.
"""The bridge when things break: SIGKILL under load, a wallet that fails or is slow, senders that
dawdle.

The sender is at-least-once and sends everything twice. Whatever was answered 202 must be acted on
exactly once afterwards: a wallet of the test's, which honours idempotency keys as the real one
does, keeps the sum. A burst of 5xx, and a wallet that is slow, close the bridges (503
BACKPRESSURE), leave reads green, and are over by themselves, with requests and without.
"""
import json
import random
import socket
import threading
import time

from holdkit import held
from httpkit import check, eventually, finish
from interopkit import Interop, Place, beside_wallet, stripe

SECRET = "whsec_of_the_tests"
CONFIG = """
[providers.stripe]
enabled = true
secret_env = "STRIPE_SECRET"

[rules.credits]
provider = "stripe"
events = ["paid"]
action = "wallet"
to = "{/to}"
amount = "{/amount}"
"""
PLAIN = CONFIG[:CONFIG.index("[rules")]
ENV = {"STRIPE_SECRET": SECRET}
SENDERS = 6


class Books:
    """A wallet: each key has its effect once, and the same answer each time."""

    def __init__(self):
        self.paid = {}
        self.lock = threading.Lock()
        self.status = 200
        self.delay = 0.0
        self.place = Place(self.answer)

    def answer(self, number, path, headers, body):
        time.sleep(self.delay)
        if self.status != 200:
            return self.status, {}, b"{}"
        want = json.loads(body)
        with self.lock:
            self.paid.setdefault(headers["Idempotency-Key"], (want["to"], want["amount_minor"]))
        return 200, {}, b"{}"

    def by_account(self):
        with self.lock:
            rows = list(self.paid.values())
        return sorted(rows), len(rows)


def event(name):
    return json.dumps({"id": name, "type": "paid", "to": f"user/{name}", "amount": 5}).encode()


def post(svc, body, client=None):
    return svc.call("POST", "/webhooks/stripe", body, client=client, token=None,
                    **stripe(body, SECRET))


def kills():
    """Six senders send 2x; the process is killed and started again meanwhile."""
    books = Books()
    taken, stop = set(), threading.Event()

    def send(number):
        n = 0
        while not stop.is_set():
            name = f"evt_{number}_{n}"
            n += 1
            good = 0
            while good < 2 and not stop.is_set():  # at least once, and then once more
                try:
                    a = post(svc, event(name))
                    good += a.status == 202
                    if a.status == 202:
                        taken.add(name)
                except (OSError, ValueError, AttributeError):
                    pass  # it is being killed or started

    with beside_wallet(books.place, CONFIG, ENV) as svc:
        threads = [threading.Thread(target=send, args=(i,)) for i in range(SENDERS)]
        for t in threads:
            t.start()
        for life in range(3):
            wanted = len(taken) + 60
            eventually(lambda: len(taken) >= wanted, 30)
            svc.kill()
            svc.start()
        wanted = len(taken) + 60
        check("kills: deliveries are taken in each life", eventually(lambda: len(taken) >= wanted))
        stop.set()
        for t in threads:
            t.join()
        want = sorted((f"user/{name}", "5") for name in taken)
        done = eventually(lambda: len(books.by_account()[0]) >= len(want), 60)
        rows, count = books.by_account()
        check(f"kills: each of {len(want)} that were acknowledged is paid", done and
              set(want) <= set(rows), sorted(set(want) - set(rows))[:5])
        check("kills: none twice", len(set(rows)) == count, count)
        check("kills: what is left to do is nothing", eventually(
            lambda: svc.metric('mailbox_messages{state="all"}') == 0, 30))
    books.place.close()


OPTIONS = ["--readiness.brownout_calls=5", "--readiness.brownout_hold=400ms",
           "--readiness.brownout_window=2s", "--auth.reads=open"]
PROBES = "--readiness.brownout_probe=20ms"


def brownout(name, cause, break_it, mend_it, *more):
    books = Books()
    with beside_wallet(books.place, CONFIG, ENV, *OPTIONS, PROBES, *more) as svc:
        address = svc.put(b"kept").json["address"]
        break_it(books)
        numbers = iter(range(10**6))

        def ask():
            a = post(svc, event(f"{cause}_{next(numbers)}"))
            return a.code

        check(f"{name}: bridges give way", eventually(lambda: ask() == "BACKPRESSURE", 60))
        a = post(svc, event("more"))
        while a.status == 202:  # a probe
            a = post(svc, event("more"))
        check(f"{name}: 503 with Retry-After", a.status == 503 and int(a["Retry-After"]) >= 1 and
              a.json["retryable"], a.body)
        check(f"{name}: /put gives way, too", eventually(
            lambda: svc.put(b"x").code == "BACKPRESSURE"))
        check(f"{name}: it is told", svc.metric('brownout_active{component="bridge"}') == 1 and
              svc.metric('rejected_total{reason="BACKPRESSURE"}') >= 1)
        ready = svc.get("/readyz", token=None)
        check(f"{name}: not ready, and why", ready.status == 503 and
              "brownout_bridge" in ready.json["missing"], ready.body)
        check(f"{name}: reads are", svc.get("/readyz?class=read", token=None).status == 200 and
              svc.get("/o/" + address, token=None).body == b"kept")
        check(f"{name}: alive", svc.get("/healthz", token=None).status == 200)
        mend_it(books)
        check(f"{name}: it ends by itself", eventually(lambda: ask() == 202 and svc.metric(
            'brownout_active{component="bridge"}') == 0, 90))
        check(f"{name}: ready again", eventually(
            lambda: svc.get("/readyz", token=None).status == 200))
        check(f"{name}: what was taken is paid in the end", eventually(
            lambda: svc.metric('mailbox_messages{state="all"}') == 0, 60))
    books.place.close()


def silence():
    """Nobody is sent to a bridge that is not ready, so no call can show that all is well: it is
    ready again by itself, and the next calls decide."""
    delay = [0.15]

    def answer(number, path, headers, body):
        time.sleep(delay[0])
        return 200, {}, b""  # to HEAD: it is there already

    place = Place(answer)
    numbers = iter(range(10**6))
    active = 'brownout_active{component="bridge"}'

    def put(svc):
        return svc.put(b"object %d" % next(numbers)).code

    def ready(svc):
        return svc.get("/readyz", token=None).status == 200

    with Interop(f"--storage.url={place.url}", "--readiness.upstream_p95=100ms",
                 "--readiness.brownout_error_ppm=1000000", "--readiness.brownout_probe=10s",
                 *OPTIONS, env=ENV) as svc:
        check("silence: a slow storage closes the bridges", eventually(
            lambda: put(svc) == "BACKPRESSURE", 30) and not ready(svc))
        calls = place.count()
        check("silence: ready again without a call", eventually(lambda: ready(svc), 30) and
              svc.metric(active) == 0 and place.count() == calls, (place.count(), calls))
        check("silence: the next calls are slow, and close them again", eventually(
            lambda: put(svc) == "BACKPRESSURE", 30) and 5 <= place.count() - calls < 50,
            place.count() - calls)
        delay[0] = 0.0
        check("silence: ready once more", eventually(lambda: ready(svc), 30))
        codes = {put(svc) for _ in range(20)}
        check("silence: and so it stays when they are well", codes == {202} and not eventually(
            lambda: svc.metric(active) == 1, 0.5), codes)
    place.close()


def failing(books):
    books.status = 500


def well(books):
    books.status = 200
    books.delay = 0.0


def slow(books):
    books.delay = 0.15


def slowloris():
    """Senders that bring a byte now and then hold no worker, and are cut off."""
    with Interop("--timeouts.read=300ms", "--limits.connections=64", config=PLAIN,
                 env=ENV) as svc:
        host, port = svc.addr.rsplit(":", 1)
        idle = [socket.create_connection((host, int(port)), 20) for _ in range(30)]
        for s in idle:
            s.sendall(b"POST /webhooks/stripe HTTP/1.1\r\nHost: x\r\nContent-Le")
        slow_bodies = [socket.create_connection((host, int(port)), 20) for _ in range(10)]
        for s in slow_bodies:
            s.sendall(b"POST /webhooks/stripe HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx")
        check("slowloris: others are served", post(svc, event("x")).status == 202)
        answers = [s.recv(1000)[:12] for s in idle + slow_bodies]
        check("slowloris: each is told 408 and cut off",
              answers.count(b"HTTP/1.1 408") == 40, answers)
        counted = svc.metric('io_timeouts_total{op="read",peer=""}')
        check("slowloris: counted", counted == 40, counted)


def stuck():
    """A mailbox that stands still: TIMEOUT at the deadline of the request, no sooner and not much
    later; nothing was lost or done twice when it goes on."""
    with Interop("--timeouts.request=500ms", config=PLAIN, env=ENV) as svc:
        check("stuck: served before", post(svc, event("a")).status == 202)
        try:
            with held(svc, "mailbox_writer"):
                began = time.monotonic()
                a = post(svc, event("b"))
                took = time.monotonic() - began
                check("stuck: 503 TIMEOUT, to come again", (a.status, a.code) == (503, "TIMEOUT")
                      and a.json["retryable"] and a["Retry-After"] is not None, a.body)
                check("stuck: at the deadline", 0.49 <= took < 5, took)
        except PermissionError:
            print("left out: ptrace is not allowed")
            return
        a = post(svc, event("b"))
        check("stuck: it was taken after all, once", a.status == 202 and
              a.json.get("duplicate") is True, a.body)
        check("stuck: two messages in all", svc.metric('mailbox_messages{state="all"}') == 2)


def main():
    random.seed(1)
    kills()
    brownout("a burst of 5xx", "errors", failing, well)
    brownout("a slow wallet", "slow", slow, well, "--readiness.upstream_p95=100ms",
             "--readiness.brownout_error_ppm=1000000")
    silence()
    slowloris()
    stuck()
    finish()


if __name__ == "__main__":
    main()
