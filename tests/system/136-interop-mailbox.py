#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The mailbox over HTTP: what was sent is received until it is acknowledged, across a SIGKILL too;
limits, refusals, capabilities; long poll; dead letters; de-duplication by key.
"""
import base64
import json
import threading
import time

from httpkit import check, eventually, finish
from interopkit import Interop


def send(svc, topic, *messages, **more):
    return svc.call("POST", f"/mailbox/{topic}/send", json.dumps({"messages": messages, **more}))


def recv(svc, topic, **options):
    return svc.call("POST", f"/mailbox/{topic}/recv", json.dumps(options))


def answer(svc, verb, topic, receipts, **more):
    return svc.call("POST", f"/mailbox/{topic}/{verb}", json.dumps({"receipts": receipts, **more}))


def plain(svc):
    a = send(svc, "orders", {"body": "one", "head": {"n": 1}}, {"body": "two"},
             {"body_b64": base64.b64encode(b"\xff\x00").decode()})
    check("send: three at once", a.status == 200 and a.json["accepted"] == 3, a.body)
    a = recv(svc, "orders")
    got = a.json["messages"]
    check("recv: in order, text as text and bytes as base64", [m.get("body") for m in got] ==
          ["one", "two", None] and got[0]["head"] == {"n": 1} and got[2]["body_b64"] == "/wA=",
          a.body)
    check("recv: leased, so nobody else gets them", recv(svc, "orders").json["messages"] == [])
    stats = svc.call("GET", "/mailbox/orders").json["topics"][0]
    check("stats", stats["leased"] == 3 and stats["ready"] == 0 and stats["bytes"] > 0, stats)
    a = answer(svc, "ack", "orders", [m["receipt"] for m in got[:2]] + ["999999-1"])
    check("ack: each with its result", a.json == {"done": 2, "results": ["ok", "ok", "gone"]},
          a.body)
    a = answer(svc, "nack", "orders", [got[2]["receipt"]], delay_ms=0, reason="not now")
    check("nack: given back", a.json["done"] == 1, a.body)
    again = recv(svc, "orders", visibility_ms=250).json["messages"]
    check("received again, counted, with the reason", len(again) == 1 and again[0]["delivery"] == 2
          and again[0]["reason"] == "not now", again)
    a = answer(svc, "ack", "orders", [got[2]["receipt"]])
    check("an overtaken receipt has no effect", a.json["results"] == ["overtaken"], a.body)
    check("ack ends it", answer(svc, "ack", "orders", [again[0]["receipt"]]).json["done"] == 1)


def refused(svc):
    for what, a, code in (
            ("a bad topic", send(svc, "Bad", {"body": "x"}), "MALFORMED"),
            ("a journal's topic", send(svc, ".wallet", {"body": "x"}), "MALFORMED"),
            ("no messages", send(svc, "t"), "MALFORMED"),
            ("both bodies", send(svc, "t", {"body": "x", "body_b64": "eA=="}), "MALFORMED"),
            ("bad base64", send(svc, "t", {"body_b64": "e"}), "MALFORMED"),
            ("a head that is no object", send(svc, "t", {"head": [1]}), "MALFORMED"),
            ("an unknown member", send(svc, "t", {"body": "x", "b": 1}), "MALFORMED"),
            ("no JSON", svc.call("POST", "/mailbox/t/send", "{"), "MALFORMED"),
            ("too short a lease", recv(svc, "t", visibility_ms=1), "MALFORMED"),
            ("a bad receipt", answer(svc, "ack", "t", ["1"]), "MALFORMED"),
            ("an unknown topic", svc.call("GET", "/mailbox/never"), "NOT_FOUND"),
            ("no capability", svc.call("GET", "/mailbox", token=None), "UNAUTH")):
        check(f"refused: {what}", a.code == code, a.body)
    narrow = svc.mint_token("mailbox.send")
    check("a capability for sending does not receive",
          svc.call("POST", "/mailbox/t/recv", "{}", token=narrow).code == "SCOPE_MISMATCH")
    check("but sends", svc.call("POST", "/mailbox/t/send", '{"messages":[{"body":"x"}]}',
                                token=narrow).status == 200)


def long_poll(svc):
    began = time.monotonic()
    check("a long poll ends with nothing in time",
          recv(svc, "quiet", wait_ms=300).json["messages"] == [] and
          time.monotonic() - began >= 0.29)
    box = []
    thread = threading.Thread(target=lambda: box.append(recv(svc, "quiet", wait_ms=30000)))
    thread.start()
    send(svc, "quiet", {"body": "wake"})
    thread.join()
    check("a send answers a long poll",
          [m["body"] for m in box[0].json["messages"]] == ["wake"], box[0].body)


def dead(svc):
    send(svc, "poison", {"body": "p"}, {"body": "q"})
    receipts = [m["receipt"] for m in recv(svc, "poison").json["messages"]]
    answer(svc, "nack", "poison", receipts, dead=True, reason="cannot be read")
    a = svc.call("GET", "/mailbox/poison/dead")
    check("dead letters are listed", [m["body"] for m in a.json["dead"]] == ["p", "q"] and
          a.json["dead"][0]["reason"] == "cannot be read", a.body)
    first = a.json["dead"][0]["id"]
    check("listed after one", len(svc.call("GET", f"/mailbox/poison/dead?after={first}&limit=5")
                                  .json["dead"]) == 1)
    check("one is replayed", svc.call("POST", "/mailbox/poison/replay",
                                      json.dumps({"id": first})).json["done"] == 1)
    check("and received", [m["body"] for m in recv(svc, "poison").json["messages"]] == ["p"])
    check("the rest is purged", svc.call("POST", "/mailbox/poison/purge").json["done"] == 1)


def killed(svc):
    for _ in range(3):
        send(svc, "life", {"body": "x" * 4096}, key="same key")
    leased = recv(svc, "life").json["messages"]
    check("one key, one message", len(leased) == 1)
    many = [send(svc, "life", {"body": str(i)}).status for i in range(50)]
    svc.kill()
    svc.start()
    a = send(svc, "life", {"body": "x"}, key="same key")
    check("the key is remembered after a SIGKILL", a.json["duplicate"] is True, a.body)
    got = recv(svc, "life", max=1000).json["messages"]
    check("everything acknowledged to the sender is there, what was leased too",
          len(got) == many.count(200) + 1 and got[0]["id"] == leased[0]["id"], len(got))
    a = answer(svc, "ack", "life", [m["receipt"] for m in got])
    check("all of it acknowledged", a.json["done"] == len(got), a.body)


def limits():
    with Interop("--mailbox.topic_bytes=64KiB", "--mailbox.total_bytes=128KiB",
                 "--mailbox.max_deliveries=2") as svc:
        big = {"body": "x" * 40000}
        check("limits: it fits", send(svc, "a", big).status == 200)
        a = send(svc, "a", big)
        check("limits: a topic that is full is 429", (a.status, a.code) == (429, "BACKPRESSURE"),
              a.body)
        check("limits: others are not", send(svc, "b", big).status == 200 and
              send(svc, "c", big).status == 200)
        check("limits: until the whole is", send(svc, "d", big).code == "BACKPRESSURE")
        for _ in range(2):
            got = recv(svc, "a").json["messages"]
            answer(svc, "nack", "a", [m["receipt"] for m in got], delay_ms=0)
        check("limits: delivered as often as set, then a dead letter",
              recv(svc, "a").json["messages"] == [] and
              svc.call("GET", "/mailbox/a").json["topics"][0]["dead"] == 1)
        check("limits: room again after a purge", svc.call("POST", "/mailbox/a/purge").json["done"]
              == 1 and send(svc, "a", big).status == 200)


def topics():
    """Names come and go: those without messages make room, also for more than fit at once."""
    with Interop("--mailbox.topics=16") as svc:
        check("topics: one that is needed", send(svc, "needed", {"body": "x"}).status == 200)

        def used_once(name):
            if send(svc, name, {"body": "x"}).status != 200:
                return False
            got = recv(svc, name).json["messages"]
            return answer(svc, "ack", name, [m["receipt"] for m in got]).json["done"] == 1

        good = [eventually(lambda n=n: used_once(f"once.{n}")) for n in range(50)]
        check("topics: fifty more, one after the other", all(good), good)
        check("topics: bounded, and counted", 1 <= svc.metric("mailbox_topics") <= 16)
        svc.restart()
        check("topics: what has a message is there", svc.call(
            "GET", "/mailbox/needed").json["topics"][0]["ready"] == 1)
        for n in range(15):
            eventually(lambda n=n: send(svc, f"held.{n}", {"body": "x"}).status == 200)
        check("topics: with messages in all of them a new one is refused", eventually(
            lambda: svc.metric("mailbox_topics") == 16 and
            send(svc, "one.more", {"body": "x"}).code == "BACKPRESSURE"))


def main():
    with Interop() as svc:
        plain(svc)
        refused(svc)
        long_poll(svc)
        dead(svc)
        killed(svc)
    limits()
    topics()
    finish()


if __name__ == "__main__":
    main()
