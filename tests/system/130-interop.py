#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Webhooks as their senders see them: accepted once and durably, refused with the specification's
codes, bounded, drained; and what an operator sees of them.

Signatures are made here with Python's hmac, bytes hashed by Debian's b3sum. Each refusal is checked
by its code, its status and its counter.
"""
import hashlib
import hmac
import os
import re
import signal
import socket
import threading
import time

from holdkit import held
from httpkit import check, eventually, finish
from interopkit import SECRET, Interop, github, stripe
from rewarderkit import b3

CONFIG = """
[providers.github]
enabled = true
secret_env = "HOOK_SECRET"

[providers.stripe]
enabled = true
secret_env = "STRIPE_SECRET"

[providers.slack]
enabled = true
secret_env = "SLACK_SECRET"

[providers.discord]
kind = "github"
secret_env = "HOOK_SECRET"

[providers.near]
enabled = true
kind = "github"
secret_env = "NEAR_SECRET"
allow_cidrs = ["192.0.2.0/24", "2001:db8::/32"]

[rules.issues]
provider = "github"
events = ["issues"]
when = ["/action = opened"]
action = "mailbox"
topic = "opened"
"""
ENV = {"STRIPE_SECRET": "whsec_of_the_tests", "SLACK_SECRET": "slack of the tests",
       "NEAR_SECRET": "another secret of the tests"}


def post(svc, provider, body, headers, **more):
    return svc.call("POST", "/webhooks/" + provider, body, token=None, **headers, **more)


def accepted(svc):
    body = b'{ "zen": "Keep it logically awesome.", "hook_id": 123 }'
    headers = github(body, delivery="11111111-2222-3333-4444-555555555555", event="ping")
    a = post(svc, "github", body, headers, X_Corr_ID="mine-1")
    check("accepted: 202, the correlation id, the hash of the bytes", a.status == 202 and a.json ==
          {"accepted": True, "corr_id": "mine-1",
           "b3": "b3:e6d823fb5b9a6593c8117628b4bd99ac3932a9a8077cd17c760bc7c2ee51bebc"}, a.body)
    a = post(svc, "github", body, headers)
    check("a duplicate: 202, told so", a.status == 202 and a.json["duplicate"] is True, a.body)
    body = b'{"id":"evt_1","type":"charge.succeeded"}'
    a = post(svc, "stripe", body, stripe(body, ENV["STRIPE_SECRET"]))
    check("stripe: accepted", a.status == 202 and a.json["b3"] == b3(body), a.body)
    a = post(svc, "stripe", body, stripe(body, ENV["STRIPE_SECRET"], at=int(time.time()) - 5))
    check("stripe: the same event signed anew is a duplicate",
          a.status == 202 and a.json.get("duplicate") is True, a.body)
    body = b'{"action":"opened","issue":{"id":1}}'
    a = post(svc, "github", body, github(body, event="issues"))
    check("a rule: accepted", a.status == 202, a.body)
    check("verified deliveries are counted",
          svc.metric('webhook_verify_total{provider="github",result="ok"}') == 3)
    check("duplicates are counted",
          svc.metric('interop_dedup_rejects_total{provider="github"}') == 1 and
          svc.metric('interop_dedup_rejects_total{provider="stripe"}') == 1)


def refused(svc):
    body = b'{"n":1}'
    good, now = github(body), int(time.time())
    late = stripe(body, ENV["STRIPE_SECRET"], at=now - 301)
    early = stripe(body, ENV["STRIPE_SECRET"], at=now + 330)
    rows = [
        ("no signature", "github", {"X-GitHub-Event": "push"}, 401, "UNAUTH"),
        ("another secret", "github", github(body, secret="not the secret"), 401, "UNAUTH"),
        ("other bytes", "github", github(b'{"n":2}'), 401, "UNAUTH"),
        ("a short signature", "github", {**good, "X-Hub-Signature-256": "sha256=00"}, 400,
         "MALFORMED"),
        ("an old time", "stripe", late, 401, "CLOCK_SKEW"),
        ("a time to come", "stripe", early, 401, "CLOCK_SKEW"),
        ("a packed body", "github", {**good, "Content-Encoding": "gzip"}, 400, "MALFORMED"),
        ("a provider that is off", "discord", good, 403, "POLICY_BLOCKED"),
        ("a provider that nobody knows", "nobody", good, 403, "POLICY_BLOCKED"),
        ("a delivery to another provider", "stripe", good, 401, "UNAUTH"),
        ("an address outside the provider's blocks", "near",
         github(body, secret=ENV["NEAR_SECRET"]), 400, "BAD_ORIGIN"),
    ]
    for name, provider, headers, status, code in rows:
        before = svc.metric(f'rejected_total{{reason="{code}"}}')
        a = post(svc, provider, body, headers)
        check(f"refused: {name} is {status} {code}", (a.status, a.code) == (status, code), a.body)
        check(f"refused: {name} is counted",
              svc.metric(f'rejected_total{{reason="{code}"}}') == before + 1)
    big = b"x" * ((1 << 20) + 1)
    a = post(svc, "github", big, github(big))
    check("refused: above 1 MiB is BODY_LIMIT", (a.status, a.code) == (413, "BODY_LIMIT"), a.body)
    full = b"x" * (1 << 20)
    a = post(svc, "github", full, github(full))
    check("accepted: exactly 1 MiB, and no JSON", a.status == 202, a.body)
    check("refused signatures are counted",
          svc.metric('webhook_verify_total{provider="github",result="fail"}') == 3)


def challenge(svc):
    body = b'{"type":"url_verification","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkv"}'
    at = str(int(time.time()))
    mac = hmac.new(ENV["SLACK_SECRET"].encode(), b"v0:%s:" % at.encode() + body,
                   hashlib.sha256).hexdigest()
    a = post(svc, "slack", body, {"X-Slack-Request-Timestamp": at,
                                  "X-Slack-Signature": "v0=" + mac,
                                  "Content-Type": "application/json"})
    check("challenge: it comes back", a.status == 200 and b"3eZbrw1aBm2rZ" in a.body, a.body)
    a = post(svc, "slack_webhook", body, {"X-Slack-Request-Timestamp": at,
                                          "X-Slack-Signature": "v0=" + mac})
    check("challenge: the specification's name of the route", a.status == 200, a.body)


def kept(svc):
    """github: ping, issues, 1 MiB; stripe: one. A duplicate and a challenge leave nothing."""
    check("mailbox: each accepted delivery is in it once",
          eventually(lambda: svc.metric('mailbox_ops_total{op="put"}') == 4 and
                     svc.metric('mailbox_messages{state="all"}') == 4))


def seen(svc):
    a = svc.get("/deliveries?limit=500")
    rows = a.json["deliveries"]
    check("deliveries: newest first, with verdicts and reasons",
          a.status == 200 and [r["ts"] for r in rows] == sorted((r["ts"] for r in rows),
                                                                reverse=True)
          and {"accepted", "duplicate", "challenge", "refused"} == {r["verdict"] for r in rows},
          rows)
    check("deliveries: why", {"signature_wrong", "clock_skew", "disabled", "peer"} <=
          {r["reason"] for r in rows}, {r["reason"] for r in rows})
    check("deliveries: of one provider", {r["provider"] for r in
          svc.get("/deliveries?provider=stripe").json["deliveries"]} == {"stripe"})
    check("deliveries: not without a capability",
          svc.get("/deliveries", token=None).code == "UNAUTH")
    check("deliveries: a limit that is none", svc.get("/deliveries?limit=0").code == "MALFORMED")
    data = b"".join(p.read_bytes() for p in (svc.folder / "data").rglob("*") if p.is_file())
    check("nothing of a signature or secret is on disk or in the log", not any(
        s.encode() in data or s in "\n".join(svc.lines) for s in
        (SECRET, "X-Hub-Signature", "sha256=", *ENV.values())))


def events(svc):
    host, port = svc.addr.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), 20)
    s.sendall(f"GET /v1/events?provider=github HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
              f"{svc.token}\r\n\r\n".encode())
    got = b""
    while b"interop events" not in got:
        got += s.recv(65536)
    body = os.urandom(20).hex().encode()
    post(svc, "github", body, github(body))
    while b"interop.webhook.accepted.v1" not in got or not got.endswith(b"\n\n\r\n"):
        piece = s.recv(65536)
        if not piece:
            break
        got += piece
    s.close()
    check("events: an accepted delivery is told", b3(body).encode() in got, got)
    check("events: not without a capability", svc.get("/v1/events", token=None).code == "UNAUTH")


def restart(svc):
    body = b'{ "zen": "Keep it logically awesome.", "hook_id": 123 }'
    svc.restart()
    a = post(svc, "github", body, github(body, delivery="11111111-2222-3333-4444-555555555555"))
    check("a replay after a restart is a duplicate", a.json.get("duplicate") is True, a.body)
    svc.kill()
    svc.start()
    a = post(svc, "github", body, github(body, delivery="66666666-2222-3333-4444-555555555555"))
    check("after a kill, too, and under another id that nobody signed",
          a.json.get("duplicate") is True, a.body)


def reload(svc):
    """A second live secret comes with a reload; a mistake leaves everything as it was."""
    body = os.urandom(8).hex().encode()
    check("reload: the next secret is not known yet",
          post(svc, "github", body, github(body, secret="the next secret")).code == "UNAUTH")
    svc.file.write_text(CONFIG.replace('secret_env = "HOOK_SECRET"\n',
                                       'secret_env = "HOOK_SECRET"\n'
                                       'secret_file_next = "%s"\n' % (svc.folder / "next"), 1))
    svc.process.send_signal(signal.SIGHUP)  # the file is not there
    check("reload: a missing file is told", eventually(
        lambda: any("policy reload failed" in x for x in svc.lines)), svc.lines[-5:])
    ready = svc.get("/readyz", token=None)
    check("reload: degraded, why, and still serving", ready.json["degraded"] and
          "policy_loaded" in ready.json["causes"] and
          post(svc, "github", body, github(body)).status == 202, ready.body)
    (svc.folder / "next").write_text("the next secret\n")
    os.chmod(svc.folder / "next", 0o600)
    svc.process.send_signal(signal.SIGHUP)
    check("reload: both secrets are live", eventually(
        lambda: post(svc, "github", b"[1]", github(b"[1]", secret="the next secret")).status
        == 202) and post(svc, "github", b"[2]", github(b"[2]")).status == 202)
    check("reload: nothing is missing any more", "policy_loaded" not in svc.get(
        "/readyz", token=None).json.get("causes", {}))


def limits():
    with Interop("--queues.work=1", "--limits.inflight=1", "--interop.server_names=hooks.example",
                 "--workers=1", config=CONFIG, env=ENV) as svc:
        body = b"{}"
        a = post(svc, "github", body, github(body), Host="evil.example")
        check("origin: another host is BAD_ORIGIN", (a.status, a.code) == (400, "BAD_ORIGIN"))
        a = post(svc, "github", body, github(body), Host="HOOKS.example:7500")
        check("origin: ours is taken", a.status == 202, a.body)
    with Interop(config=CONFIG, env=ENV, rate=500) as svc:
        c = svc.client()
        codes = [post(svc, "github", b"{}", {}, client=c).code for _ in range(700)]
        check("rate: beyond the burst it is RATE_LIMIT", codes.count("RATE_LIMIT") > 0 and
              250 <= codes.count("UNAUTH") < 700, codes.count("RATE_LIMIT"))


def full_queue():
    """A full `work` refuses what is new at once (429), counted; nothing that was taken is lost. The
    audit, which must not hold up anybody, drops its oldest instead: see unit.interop.audit."""
    with Interop("--queues.work=1", "--workers=1", "--concurrency.workers=1", config=CONFIG,
                 env=ENV) as svc:
        host, port = svc.addr.rsplit(":", 1)
        bodies = [b'{"crowd":%d}' % n for n in range(60)]
        crowd = [socket.create_connection((host, int(port)), 20) for _ in bodies]
        svc.process.send_signal(signal.SIGSTOP)  # so that all of them are there at once
        for s, body in zip(crowd, bodies):
            fields = "".join(f"{k}: {v}\r\n" for k, v in github(body).items())
            s.sendall(f"POST /webhooks/github HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: "
                      f"{len(body)}\r\n\r\n".encode() + body)
        svc.process.send_signal(signal.SIGCONT)
        answers = [s.recv(65536) for s in crowd]
        taken = [b for b, a in zip(bodies, answers) if a.startswith(b"HTTP/1.1 202")]
        busy = [a for a in answers if a.startswith(b"HTTP/1.1 429")]
        check("full: some are taken, the rest told 429", taken and busy and
              len(taken) + len(busy) == len(bodies), [a[:30] for a in answers])
        check("full: BACKPRESSURE, to come again", all(
            b'"code":"BACKPRESSURE"' in a and b"Retry-After: " in a for a in busy), busy[:1])
        check("full: counted", svc.metric(
            'busy_rejections_total{endpoint="",queue="work"}') == len(busy) and svc.metric(
                'busy_rejections_total{endpoint="/webhooks/{provider}",queue=""}') == len(busy),
            [x for x in svc.get("/metrics", token=None).body.decode().splitlines()
             if x.startswith("busy_rejections")])
        for s in crowd:
            s.close()
        again = [post(svc, "github", b, github(b)) for b in bodies]
        check("full: sent again all are taken, those before as duplicates",
              all(a.status == 202 for a in again) and
              sum("duplicate" in a.json for a in again) == len(taken))


def full_uploads():
    """A queue that is full makes the bridge not ready, by name; empty again it is."""
    with Interop("--concurrency.uploads=1", "--timeouts.request=5s", config=CONFIG,
                 env=ENV) as svc:
        def missing():
            return svc.get("/readyz", token=None).json.get("missing", [])

        host, port = svc.addr.rsplit(":", 1)
        check("queues: within limits", missing() == [])
        try:
            with held(svc, "upload-0"):
                crowd = [socket.create_connection((host, int(port)), 20) for _ in range(258)]
                for n, s in enumerate(crowd):
                    s.sendall(f"POST /put HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                              f"{svc.token}\r\nContent-Type: application/octet-stream\r\n"
                              f"Content-Length: 3\r\n\r\n{n:03}".encode())
                check("queues: `uploads` is full, and /readyz names it", eventually(
                    lambda: missing() == ["queues_within_limits"], 4), missing())
        except PermissionError:
            print("left out: ptrace is not allowed")
            return
        check("queues: ready when it is not", eventually(lambda: missing() == []), missing())
        for s in crowd:
            s.close()


def full_table():
    """All keys of deliveries are used and young: what is new is refused, what was taken known."""
    with Interop("--dedup.max_keys=1000", config=CONFIG, env=ENV) as svc:
        c = svc.client()
        bodies = [b'{"key":%d}' % n for n in range(1000)]
        taken = [post(svc, "github", b, github(b), client=c).status for b in bodies]
        check("keys: as many as the setting says are taken", set(taken) == {202}, set(taken))
        one_more = b'{"key":1000}'
        a = post(svc, "github", one_more, github(one_more), client=c)
        check("keys: one more is 429 and told why", (a.status, a.code) == (429, "BACKPRESSURE") and
              b"deduplication table is full" in a.body and a["Retry-After"] is not None, a.body)
        a = post(svc, "github", bodies[0], github(bodies[0]), client=c)
        check("keys: the oldest is known still", a.json.get("duplicate") is True, a.body)
        numbers = [svc.metric("interop_dedup_" + x) for x in
                   ("keys", "keys_max", "refused_total", "evicted_total")]
        check("keys: counted", numbers == [1000, 1000, 1, 0], numbers)
        svc.restart()
        a = post(svc, "github", one_more, github(one_more))
        check("keys: and so it is after a restart", a.status == 429 and
              svc.metric("interop_dedup_keys") == 1000, a.body)


def keep_reload():
    """A tolerance that outlives dedup.ttl is refused at a reload, and all stays as it was."""
    with Interop("--dedup.ttl=15m", config=CONFIG, env=ENV) as svc:
        svc.file.write_text(CONFIG.replace('"STRIPE_SECRET"', '"STRIPE_SECRET"\ntolerance = "8m"'))
        svc.process.send_signal(signal.SIGHUP)
        check("keep: a longer tolerance is told", eventually(
            lambda: any("longer than dedup.ttl" in x for x in svc.lines)), svc.lines[-5:])
        body, late = b'{"id":"evt_keep"}', int(time.time()) - 400
        a = post(svc, "stripe", body, stripe(body, ENV["STRIPE_SECRET"], late))
        check("keep: the old one is in force", a.code == "CLOCK_SKEW", a.body)
        svc.file.write_text(CONFIG.replace('"STRIPE_SECRET"', '"STRIPE_SECRET"\ntolerance = "7m"'))
        svc.process.send_signal(signal.SIGHUP)
        check("keep: one that dedup.ttl covers is taken", eventually(lambda: post(
            svc, "stripe", body, stripe(body, ENV["STRIPE_SECRET"], late)).status == 202))


def lagging():
    """Who watches and does not read misses the oldest, is told how many, and finds the state
    elsewhere; nobody waits for it."""
    with Interop("--queues.broadcast=8", "--timeouts.write=5m", config=CONFIG, env=ENV) as svc:
        host, port = svc.addr.rsplit(":", 1)
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(20)
        s.connect((host, int(port)))
        s.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {svc.token}\r\n"
                  "\r\n".encode())
        got = s.recv(100)

        def send():
            c = svc.client()
            for _ in range(1500):  # together some megabytes of events: more than fits on the way
                post(svc, "github", b"{}", github(b"{}"), client=c)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        last = b'{"last":1}'
        a = post(svc, "github", last, github(last))
        check("lagging: nobody waited for it", a.status == 202, a.body)
        told = None
        while told is None and len(got) < 1 << 26:
            got += s.recv(1 << 20)
            told = re.search(rb'event: lagged\ndata: {"missed":(\d+)}', got)
        missed = int(told[1])
        check("lagging: it is told how many it missed, and that is counted", missed > 0 and
              svc.metric('bus_lagged_total{bus="events"}') >= missed, missed)
        warning = re.compile(r'"level":"warn".*a reader of events lags.*"missed":[1-9]')
        check("lagging: the log warns of it, too", eventually(
            lambda: any(warning.search(x) for x in svc.lines)), svc.lines[-5:])
        rows = svc.get("/deliveries?limit=2").json["deliveries"]
        check("lagging: the state has what it missed", rows[0]["b3"] == b3(last), rows)
        s.close()


def drain():
    """What is under way is answered, what comes later is told that the service drains."""
    with Interop(config=CONFIG, env=ENV) as svc:
        statuses, stop = [], threading.Event()

        def send(number):
            c = svc.client()
            n = 0
            while not stop.is_set():
                body = b'{"thread":%d,"n":%d}' % (number, n)
                n += 1
                try:
                    a = post(svc, "github", body, github(body), client=c)
                    statuses.append(a.code if a.status >= 400 else a.status)
                except OSError:
                    c = svc.client()
                    if svc.process.poll() is not None:
                        return

        threads = [threading.Thread(target=send, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        check("drain: there is a load", eventually(lambda: statuses.count(202) > 50))
        svc.process.send_signal(signal.SIGTERM)
        svc.process.wait(30)
        stop.set()
        for t in threads:
            t.join()
        taken = statuses.count(202)
        check("drain: nothing but accepted and DRAINING", set(statuses) <= {202, "DRAINING"},
              set(statuses))
        check("drain: it ends well", svc.process.returncode == 0)
        svc.start()
        check("drain: all that was accepted is there",
              svc.metric('mailbox_messages{state="all"}') >= taken > 50)


def refuses_to_start():
    for name, options, config, word in [
            ("no secret", [], '[providers.github]\nenabled = true\n', "secret"),
            ("a secret of two providers", [], CONFIG +
             '\n[providers.twin]\nkind = "github"\nenabled = true\nsecret_env = "HOOK_SECRET"\n',
             "twin"),
            ("a request that lasts longer than 5 s", ["--timeouts.request=6s"], "", "5s"),
            ("a wallet rule without a wallet", [],
             '[rules.x]\naction = "wallet"\nto = "a"\namount = "1"\n', "wallet.url"),
            ("a replay that outlives dedup.ttl", ["--dedup.ttl=15m"],
             CONFIG.replace('"STRIPE_SECRET"', '"STRIPE_SECRET"\ntolerance = "8m"'),
             "providers.stripe.tolerance"),
            ("a brownout that outlives its window",
             ["--readiness.brownout_hold=6m", "--readiness.brownout_window=5m"], "",
             "readiness.brownout_hold"),
            ("a block of addresses that is none", [],
             '[providers.github]\nallow_cidrs = ["10.0.0.0/33"]\n', "allow_cidrs"),
    ]:
        try:
            svc = Interop(*options, config=config, env=ENV)
            svc.stop()
            svc.close()
            check(f"start: {name} is refused", False)
        except RuntimeError as e:
            check(f"start: {name} is refused and named", word in str(e), e)


def main():
    with Interop(config=CONFIG, env=ENV) as svc:
        accepted(svc)
        refused(svc)
        challenge(svc)
        kept(svc)
        seen(svc)
        events(svc)
        restart(svc)
        reload(svc)
    limits()
    full_queue()
    full_uploads()
    full_table()
    keep_reload()
    lagging()
    drain()
    refuses_to_start()
    finish()


if __name__ == "__main__":
    main()
