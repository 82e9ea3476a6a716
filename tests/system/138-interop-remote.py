#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A bridge whose mailbox and objects another service keeps: what is acknowledged is durable over
there, once, however many bridges share it; deadlines, retries, breaker and readiness when it is
slow, away or wrong.

The other service is a second `ron interop`, or a place of the test's that fails as it is told.
"""
import json
import re
import signal
import threading
import time

from baokit import check_slice
from httpkit import check, eventually, finish
from interopkit import SECRET, Interop, Place, github, stripe
from rewarderkit import b3

STRIPE = "whsec_of_the_tests"
SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ENV = {"STRIPE_SECRET": STRIPE, "SIGNING": SIGNING}
CONFIG = """
[providers.github]
enabled = true
secret_env = "HOOK_SECRET"

[providers.stripe]
enabled = true
secret_env = "STRIPE_SECRET"
"""
BIG = bytes((i * 31 + i // 997) % 256 for i in range(3 << 20))


def front(*options, config=CONFIG, mailbox="", storage="", token="", folder=None):
    """A bridge that uses `mailbox` and `storage` (URLs) with the token of the service there."""
    folder = folder or Interop.prepare()
    if token:
        for name in ("mailbox.token", "storage.token"):
            (folder / name).write_text(token + "\n", encoding="ascii")
            (folder / name).chmod(0o600)
        options += (f"--mailbox.token_file={folder / 'mailbox.token'}",
                    f"--storage.token_file={folder / 'storage.token'}")
    svc = Interop(f"--mailbox.url={mailbox}", f"--storage.url={storage}", *options, config=config,
                  env=ENV, folder=folder)
    svc.own = True
    return svc


def url_of(svc):
    return f"http://{svc.addr}"


def post(svc, body, **more):
    return svc.call("POST", "/webhooks/github", body, token=None, **{**github(body), **more})


def pay(svc, name):
    body = json.dumps({"id": name, "type": "paid"}).encode()
    return svc.call("POST", "/webhooks/stripe", body, token=None, **stripe(body, STRIPE))


def receive(svc, topic, **more):
    return svc.call("POST", f"/mailbox/{topic}/recv", json.dumps({"max": 100, **more})).json[
        "messages"]


# ---- a mailbox elsewhere -------------------------------------------------------------------------


def deliveries(home):
    with front(mailbox=url_of(home), token=home.token) as a:
        bodies = [b'{"n":1}', b"\xff\x00 no text", b"x" * (1 << 20)]
        answers = [post(a, x) for x in bodies]
        check("mailbox: deliveries are taken", [x.status for x in answers] == [202] * 3,
              [x.body for x in answers])
        check("mailbox: once", post(a, bodies[0]).json.get("duplicate") is True)
        check("mailbox: nothing is kept here", not list((a.folder / "data").glob("mailbox*")))
        with front(mailbox=url_of(home), token=home.token) as b:
            check("mailbox: once for all bridges that share it",
                  post(b, bodies[1]).json.get("duplicate") is True)
            got = receive(b, "webhook.github", visibility_ms=60000)
            got += receive(b, "webhook.github", visibility_ms=60000)  # what one answer cannot hold
            check("mailbox: received through another bridge, byte for byte", [
                m["head"]["b3"] for m in got] == [b3(x) for x in bodies] and
                got[0]["body"] == '{"n":1}', len(got))
            done = b.call("POST", "/mailbox/webhook.github/ack", json.dumps(
                {"receipts": [m["receipt"] for m in got] + ["999999999-1"]})).json
            check("mailbox: acknowledged through it", done == {
                "done": 3, "results": ["ok", "ok", "ok", "gone"]}, done)
        a.restart()
        check("mailbox: once after a restart", post(a, bodies[0]).json.get("duplicate") is True)
        a.call("POST", "/mailbox/t/send", json.dumps(
            {"messages": [{"body": "p"}, {"body_b64": "/w=="}], "key": "k"}))
        again = a.call("POST", "/mailbox/t/send", '{"messages":[{"body":"p"}],"key":"k"}').json
        check("mailbox: a sender's key", again["duplicate"] is True, again)
        got = receive(a, "t")
        check("mailbox: text and bytes",
              got[0]["body"] == "p" and got[1]["body_b64"] == "/w==", got)
        a.call("POST", "/mailbox/t/nack", json.dumps(
            {"receipts": [m["receipt"] for m in got], "dead": True, "reason": "no good"}))
        dead = a.call("GET", "/mailbox/t/dead").json["dead"]
        check("mailbox: dead letters", [m["reason"] for m in dead] == ["no good"] * 2 and
              a.call("GET", "/mailbox/t").json["topics"][0]["dead"] == 2, dead)
        check("mailbox: replay and purge",
              a.call("POST", "/mailbox/t/replay", json.dumps({"id": dead[0]["id"]})).json["done"]
              == 1 and a.call("POST", "/mailbox/t/purge").json["done"] == 1)
        check("mailbox: its topics", "t" in {t["topic"] for t in
              a.call("GET", "/mailbox").json["topics"]})
        check("mailbox: refusals come through", a.call("GET", "/mailbox/never").code ==
              "NOT_FOUND" and receive_code(a, visibility_ms=1) == "MALFORMED")


def receive_code(svc, **more):
    return svc.call("POST", "/mailbox/t/recv", json.dumps(more)).code


def actions(home):
    """The journal is kept over there, and acted on from here."""
    wallet, gone = Place(), Place((410, {}, b""))
    desk = Place((200, {"Content-Type": "application/json"}, b'{"token":"tok"}'))
    config = CONFIG + f"""
[rules.pay]
provider = "stripe"
action = "wallet"
to = "user/a"
amount = "1"

[rules.gone]
provider = "github"
action = "forward"
url = "{gone.url}/hook"
secret_env = "SIGNING"
allow_http = true
allow_private = true
"""
    options = (f"--wallet.url={wallet.url}", f"--passport.url={desk.url}")
    with front(*options, config=config, mailbox=url_of(home), token=home.token) as svc:
        check("journal: accepted", pay(svc, "evt_1").status == 202)
        check("journal: acted on", eventually(lambda: wallet.count() == 1))
        check("journal: struck off", eventually(lambda: all(
            t["ready"] + t["leased"] + t["delayed"] == 0 for t in
            home.call("GET", "/mailbox").json["topics"] if t["topic"] == ".remote.wallet")))
        check("journal: a duplicate is no second act", pay(svc, "evt_1").json["duplicate"] and
              wallet.count() == 1)
        a = post(svc, b'{"f":1}')
        check("switch: 410 switches a target off", a.status == 202 and eventually(
            lambda: svc.metric('interop_actions_total{action="forward",result="disabled"}') == 1))
        svc.restart()
        post(svc, b'{"f":2}')
        check("switch: it is remembered over there", eventually(
            lambda: svc.metric('interop_actions_total{action="forward",result="dead"}') >= 1) and
            gone.count() == 1, gone.count())
        check("switch: on again", svc.call("POST", "/forwards/gone/enable", b"").status == 200)
        post(svc, b'{"f":3}')
        check("switch: it is called again", eventually(lambda: gone.count() == 2))
    check("journal: not for who may only send and receive", home.call(
        "POST", "/mailbox/.remote.wallet/recv", "{}",
        token=home.mint_token("mailbox.send,mailbox.recv")).code == "SCOPE_MISMATCH")
    check("journal: nor in a batch", home.call(
        "POST", "/mailbox", '{"messages":[{"topic":".remote.wallet","body":"x"}]}',
        token=home.mint_token("mailbox.send")).code == "SCOPE_MISMATCH")
    for what, text in (("our own journal", '{"messages":[{"topic":".wallet","body":"x"}]}'),
                       ("no topic", '{"messages":[{"body":"x"}]}'),
                       ("a bad topic", '{"messages":[{"topic":"A","body":"x"}]}')):
        a = home.call("POST", "/mailbox", text)
        check(f"batch: {what} is MALFORMED", a.code == "MALFORMED", a.body)
    for place in (wallet, gone, desk):
        place.close()


def retries():
    """Three tries for what may be repeated, 50-100 and 200-400 ms apart; one for the rest."""
    times = []

    def busy(number, path, headers, body):
        times.append((time.monotonic(), path))
        return 503, {}, b'{"code":"DOWNSTREAM_UNAVAILABLE"}'

    place = Place(busy)
    with front(mailbox=place.url) as svc:
        a = post(svc, b'{"n":1}')
        check("retries: given up as DOWNSTREAM_UNAVAILABLE", (a.status, a.code) ==
              (503, "DOWNSTREAM_UNAVAILABLE"), a.body)
        at = [t for t, path in times if path == "/mailbox"]
        check("retries: three tries", len(at) == 3, len(at))
        waits = [(y - x) * 1000 for x, y in zip(at, at[1:])]
        check("retries: by the curve", 50 <= waits[0] < 300 and 200 <= waits[1] < 700, waits)
        check("retries: counted by what came of them",
              svc.metric('backoff_retries_total{svc="mailbox",op="put",result="retry"}') == 2 and
              svc.metric('backoff_retries_total{svc="mailbox",op="put",result="exhausted"}') == 1,
              [x for x in svc.get("/metrics", token=None).body.decode().splitlines()
               if x.startswith("backoff")])
        before = sum(p.endswith("/mailbox") for _, p in times)
        svc.call("POST", "/mailbox/t/send", '{"messages":[{"body":"x"}]}')
        check("retries: what is not idempotent has one try",
              sum(p.endswith("/mailbox") for _, p in times) == before + 1)
        check("retries: counted, too", svc.metric(
            'backoff_retries_total{svc="mailbox",op="put",result="not_idempotent"}') == 1)
    place.close()


def deadline_and_breaker():
    hold, calls = threading.Event(), []

    def slow(number, path, headers, body):
        calls.append(path)
        hold.wait(20)
        return 200, {"Content-Type": "application/json"}, \
            b'{"accepted":1,"duplicate":false,"first_id":"1"}' if path == "/mailbox" \
            else b'{"topics":[]}'

    place = Place(slow)
    with front("--timeouts.rpc=400ms", "--readiness.brownout_calls=1000", mailbox=place.url) as svc:
        began = time.monotonic()
        a = post(svc, b'{"n":1}', X_Corr_ID="late-1")
        took = time.monotonic() - began
        check("deadline: TIMEOUT when it has passed, all tries together", (a.status, a.code) ==
              (503, "TIMEOUT") and 0.35 <= took < 1.9, (took, a.body))
        check("deadline: the answer names operation and time",
              "mailbox" in a.json["message"] and "ms" in a.json["message"], a.body)
        check("deadline: counted by operation and peer",
              svc.metric('io_timeouts_total{op="put",peer="mailbox"}') >= 1)
        for n in range(6):
            post(svc, b'{"m":%d}' % n)
        check("breaker: open after five failures in a row",
              svc.metric('breaker_state{svc="mailbox"}') == 1)
        before, began = len(calls), time.monotonic()
        a = post(svc, b'{"n":2}')
        check("breaker: refused at once, nobody is called",
              (a.status, a.code) == (503, "DOWNSTREAM_UNAVAILABLE") and
              time.monotonic() - began < 0.3 and len(calls) == before, (a.body, len(calls), before))
        check("breaker: not ready, and why", eventually(lambda: svc.get(
            "/readyz", token=None).status == 503) and "mailbox_reachable" in svc.get(
                "/readyz", token=None).json["missing"], svc.get("/readyz", token=None).body)
        check("breaker: reads are", svc.get("/readyz?class=read", token=None).status == 200)
        hold.set()
        check("breaker: ready again without a request, by probes alone", eventually(
            lambda: svc.get("/readyz", token=None).status == 200, 40))
        check("breaker: closed", eventually(lambda: post(svc, b'{"n":3}').status == 202, 20))
    place.close()


def away(home):
    """The service over there stands still, and is killed, under a sender that repeats."""
    with front("--readiness.brownout_calls=100000", mailbox=url_of(home), token=home.token) as svc:
        taken, stop = set(), threading.Event()

        def send(number):
            n = 0
            while not stop.is_set():
                body = b'{"away":%d,"n":%d}' % (number, n)
                try:
                    good = post(svc, body).status == 202
                except OSError:
                    good = False
                if good:
                    taken.add(body)
                    n += 1

        threads = [threading.Thread(target=send, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        check("away: deliveries are taken", eventually(lambda: len(taken) > 50))
        home.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        home.process.send_signal(signal.SIGCONT)
        wanted = len(taken) + 50
        check("away: taken again after it stood still", eventually(lambda: len(taken) > wanted, 40))
        addr = home.addr
        home.kill()
        home.options.append(f"--bind_addr={addr}")
        home.start()
        wanted = len(taken) + 50
        check("away: and after it was killed", eventually(lambda: len(taken) > wanted, 40))
        stop.set()
        for t in threads:
            t.join()
        got, more = [], True
        while more:
            more = receive(home, "webhook.github", visibility_ms=600000)
            got += [m["body"].encode() for m in more]
        got = [x for x in got if b"away" in x]
        check(f"away: each of {len(taken)} once", len(got) == len(set(got)) and
              taken <= set(got), (len(got), len(set(got)), len(taken)))


def wrong_answers():
    """A mailbox that does not speak as it should is no mailbox."""
    answers = [b"", b"{", b"[]", b'{"accepted":1}', b'{"first_id":"x"}',
               b'{"accepted":1,"duplicate":false,"first_id":"0"}', b"\xff" * 100]
    place = Place(lambda n, *_: (200, {}, answers[n % len(answers)]))
    with front("--readiness.brownout_calls=100000", mailbox=place.url) as svc:
        codes = {post(svc, b'{"n":%d}' % n).code for n in range(len(answers) * 2)}
        check("wrong answers: nothing is acknowledged", codes <= {"DOWNSTREAM_UNAVAILABLE"}, codes)
        check("wrong answers: nothing is received", svc.call(
            "POST", "/mailbox/t/recv", "{}").code in ("DOWNSTREAM_UNAVAILABLE", 200))
    place.close()


# ---- objects elsewhere ---------------------------------------------------------------------------


def objects(home):
    with front(storage=url_of(home), token=home.token) as svc:
        for data in (b"small", b"", BIG):
            a = svc.put(data)
            check(f"storage: {len(data)} bytes are stored", a.status == 202 and
                  a.json["address"] == b3(data), a.body)
            check(f"storage: {len(data)} bytes are over there",
                  home.get("/o/" + b3(data)).body == data)
        calls = svc.metric('upstream_rpc_seconds_count{service="storage",op="put",outcome="ok"}')
        svc.put(BIG)
        check("storage: what is there is not sent again", svc.metric(
            'upstream_rpc_seconds_count{service="storage",op="put",outcome="ok"}') == calls)
    address = home.put(b"only there" * 1000).json["address"]
    with front(storage=url_of(home), token=home.token) as svc:
        a = svc.get("/o/" + b3(BIG))
        check("storage: a bridge that never saw it serves it", a.status == 200 and a.body == BIG)
        a = svc.get("/o/" + address, Range="bytes=5-9")
        check("storage: a part", a.status == 206 and a.body == b"there", a.body)
        a = svc.get(f"/o/{b3(BIG)}?proof=5000,10")
        check("storage: a proof", check_slice(b3(BIG), 5000, 10, a.body)[0] == BIG[5000:5010])
        check("storage: an object that is nowhere", svc.get("/o/b3:" + "1" * 64).code ==
              "NOT_FOUND")
        home.process.send_signal(signal.SIGSTOP)
        check("storage: what was fetched is served while it is away",
              svc.get("/o/" + b3(BIG)).body == BIG)
        a = svc.put(b"not now")
        check("storage: a put is not acknowledged then", (a.status, a.code) == (503, "TIMEOUT"),
              a.body)
        check("storage: told by readyz", eventually(
            lambda: "storage_reachable" in svc.get("/readyz", token=None).json.get("causes", {}),
            20), svc.get("/readyz", token=None).body)
        home.process.send_signal(signal.SIGCONT)
        check("storage: well again by itself", eventually(
            lambda: "storage_reachable" not in
            svc.get("/readyz", token=None).json.get("causes", {}), 40),
            svc.get("/readyz", token=None).body)
        check("storage: and taken", eventually(lambda: svc.put(b"not now").status == 202, 20))


def stalled():
    """A storage that takes connections and says nothing: TIMEOUT at the deadline of the call, with
    its operation and time, before the deadline of the request."""
    hold, stands_still = threading.Event(), ["/put"]

    def answer(number, path, headers, body):
        if path.startswith(tuple(stands_still)):
            hold.wait(20)
        return 404, {}, b""

    place = Place(answer)
    with front("--timeouts.rpc=400ms", "--timeouts.storage=400ms", "--timeouts.request=5s",
               "--readiness.brownout_calls=100000", storage=place.url) as svc:
        for op, call in (("put", lambda: svc.put(b"stalled")),
                         ("get", lambda: svc.get("/o/b3:" + "4" * 64))):
            began = time.monotonic()
            a = call()
            took = 1000 * (time.monotonic() - began)
            told = re.fullmatch(rf"storage {op}: no answer within (\d+) ms",
                                a.json.get("message", ""))
            check(f"stalled: {op} is TIMEOUT", (a.status, a.code) == (503, "TIMEOUT"), a.body)
            check(f"stalled: {op} names operation and time", told is not None and
                  300 <= int(told[1]) <= took < 4000, (took, a.body))
            check(f"stalled: {op} is counted by operation and peer", svc.metric(
                f'io_timeouts_total{{op="{op}",peer="storage"}}') >= 1)
            stands_still.append("/o/")
        a = svc.put(b"another")
        check("stalled: so it is when even the question for it is not answered",
              (a.status, a.code) == (503, "TIMEOUT") and "storage" in a.json["message"], a.body)
    hold.set()
    place.close()


def liars():
    """A storage that gives other bytes than the address, or names another address."""
    def lie(number, path, headers, body):
        if path == "/put":
            return 202, {}, b'{"address":"b3:' + b"2" * 64 + b'"}'
        return (404 if number == 1 else 200), {}, b"other bytes"

    place = Place(lie)
    with front("--readiness.brownout_calls=100000", storage=place.url) as svc:
        a = svc.put(b"mine")
        check("liar: another address is no success", (a.status, a.code) ==
              (503, "DOWNSTREAM_UNAVAILABLE"), a.body)
        address = "b3:" + "3" * 64
        for _ in range(2):
            a = svc.get("/o/" + address)
            check("liar: other bytes are never served", (a.status, a.code) ==
                  (503, "DOWNSTREAM_UNAVAILABLE") and b"other" not in a.body, a.body)
        check("liar: nor kept", svc.metric('cas_objects{store="objects"}') == 1)
    place.close()


def main():
    assert SECRET
    with Interop() as home:
        deliveries(home)
        actions(home)
        objects(home)
        away(home)
    retries()
    deadline_and_breaker()
    wrong_answers()
    stalled()
    liars()
    finish()


if __name__ == "__main__":
    main()
