#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What verified deliveries set off: money in an account of a real ledger through a real wallet, and
forwards to places outside.

A payment of Stripe becomes credits, once, also when it is sent twice and through a wallet that is
away for a while. The capability that goes out covers that one operation and a minute. A forward is
signed as Standard Webhooks say, tried again, honours Retry-After, and is switched off by 410.
"""
import json
import os
import signal
import subprocess
import time

from httpkit import check, eventually, finish
from interopkit import Interop, Place, beside_wallet, github, standard_webhook_good, stripe
from ledgerkit import PROGRAM
from walletkit import Wallet, new_ledger

STRIPE = "whsec_of_the_tests"
SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PAYMENT = """
[providers.stripe]
enabled = true
secret_env = "STRIPE_SECRET"

[providers.github]
enabled = true
secret_env = "HOOK_SECRET"

[rules.credits]
provider = "stripe"
events = ["payment_intent.succeeded"]
when = ["/data/object/currency = usd"]
action = "wallet"
op = "issue"
to = "user/{/data/object/metadata/user}"
asset = "roc"
amount = "{/data/object/amount_received}"
"""
ENV = {"STRIPE_SECRET": STRIPE, "SIGNING": SIGNING}


def token_file(folder, name, text):
    path = folder / name
    path.write_text(text + "\n", encoding="ascii")
    os.chmod(path, 0o600)
    return path


def payment(number, user="alice", amount=1250, **more):
    return json.dumps({"id": f"evt_{number}", "type": "payment_intent.succeeded", "data": {
        "object": {"id": f"pi_{number}", "currency": "usd", "amount_received": amount,
                   "metadata": {"user": user}, **more}}}).encode()


def pay(svc, body):
    return svc.call("POST", "/webhooks/stripe", body, token=None, **stripe(body, STRIPE))


def credits():
    with new_ledger() as ledger, Wallet(ledger) as wallet:
        token = token_file(ledger.folder, "interop.token", wallet.mint_token("wallet.issue"))
        with Interop(f"--wallet.url=http://{wallet.addr}", f"--wallet.token_file={token}",
                     config=PAYMENT, env=ENV) as svc:
            alice = "user%2Falice"
            check("a payment is accepted", pay(svc, payment(1)).status == 202)
            check("and is credits in the account",
                  eventually(lambda: ledger.balance(alice)[0] == 1250), ledger.balance(alice))
            a = pay(svc, payment(1))
            check("the same event again is a duplicate", a.json.get("duplicate") is True, a.body)
            check("another one is more credits", pay(svc, payment(2, amount=750)).status == 202 and
                  eventually(lambda: ledger.balance(alice)[0] == 2000), ledger.balance(alice))
            check("another currency is no credits", pay(svc, payment(3, currency="eur")).status
                  == 202)
            check("no user: it is taken, and goes to the faults",
                  pay(svc, payment(4, metadata={})).status == 202 and
                  svc.metric('interop_rule_actions_total{action="fault"}') == 1)
            wallet.process.send_signal(signal.SIGSTOP)
            check("a wallet that stands still: accepted all the same",
                  pay(svc, payment(5, user="bob", amount=7)).status == 202)
            check("it is attempted", eventually(
                lambda: svc.metric('interop_actions_total{action="issue",result="retry"}') >= 1))
            svc.kill()
            wallet.process.send_signal(signal.SIGCONT)
            svc.start()
            check("after a kill and a wait it is paid, once",
                  eventually(lambda: ledger.balance("user%2Fbob")[0] == 7),
                  ledger.balance("user%2Fbob"))
            check("nothing is left to do", eventually(
                lambda: svc.metric('mailbox_ops_total{op="acked"}') >= 1))
            check("and alice was not paid again", ledger.balance(alice)[0] == 2000)


def capability():
    """What goes out, as a wallet of the test's sees it."""
    answers = {1: (401, {}, b"{}"), 2: (409, {}, b'{"retryable":true}')}
    place = Place(lambda n, *_: answers.get(n, (200, {}, b"{}")))
    with beside_wallet(place, PAYMENT, ENV) as svc:
        before = int(time.time())
        check("capability: accepted", pay(svc, payment(9, user="carol", amount=99)).status == 202)
        check("capability: 401 and a 409 that says so are tried again",
              eventually(lambda: place.count() == 3), place.seen)
        path, headers, body = place.seen[-1]
        check("the wallet's request", path == "/v1/issue" and json.loads(body) ==
              {"to": "user/carol", "asset": "roc", "amount_minor": "99"}, body)
        check("one key for all attempts",
              len({h["Idempotency-Key"] for _, h, _ in place.seen}) == 1 and
              len(headers["Idempotency-Key"]) <= 64)
        token = token_file(svc.folder, "shown", headers["Authorization"].removeprefix("Bearer "))
        shown = subprocess.run([PROGRAM, "cap", "show", "--json", "--in", str(token)],
                               capture_output=True, text=True, check=True).stdout
        for word in ("scope = wallet.issue", "account = user/carol", "asset = roc", "max = 99"):
            check(f"the capability says {word}", word in shown, shown)
        ends = [int(w.split('"')[0]) for w in shown.split("exp = ")[1:]]
        check("and ends within a minute", ends and before <= min(ends) <= before + 70, shown)
        check("capabilities are counted",
              svc.metric('capabilities_issued_total{scope="wallet.issue"}') == 3)
        check("done", eventually(
            lambda: svc.metric('interop_actions_total{action="issue",result="done"}') == 1))
    place.close()


def passport():
    """Capabilities of a passport service: asked once for each attempt."""
    answers = {1: (503, {}, b"{}")}
    desk = Place(lambda n, *_: answers.get(n, (200, {"Content-Type": "application/json"},
                                               b'{"token":"tok-%d","kid":"k"}' % n)))
    wallet = Place()
    with Interop(f"--wallet.url={wallet.url}", f"--passport.url={desk.url}", config=PAYMENT,
                 env=ENV) as svc:
        check("passport: nothing is missing before",
              not svc.get("/readyz", token=None).json["degraded"])
        check("passport: accepted", pay(svc, payment(1)).status == 202)
        check("passport: away, and /readyz names it", eventually(
            lambda: desk.count() == 1 and "passport_reachable" in svc.get(
                "/readyz", token=None).json.get("causes", {})),
            svc.get("/readyz", token=None).body)
        check("passport: the wallet gets what was issued", eventually(lambda: wallet.count() == 1)
              and wallet.seen[0][1]["Authorization"] == "Bearer tok-2", wallet.seen)
        path, _, body = desk.seen[1]
        asked = json.loads(body)
        check("passport: what was asked for", path == "/v1/passport/issue" and asked["ttl_s"] <= 60
              and asked["audience"] == "svc-wallet" and "max = 1250" in asked["caveats"], asked)
        check("passport: never asked twice for one attempt", desk.count() == 2)
        check("passport: back, and no longer named", eventually(
            lambda: "passport_reachable" not in svc.get("/readyz", token=None).json.get(
                "causes", {})), svc.get("/readyz", token=None).body)
    desk.close()
    wallet.close()


def forwards():
    later = {1: (503, {"Retry-After": "1"}, b""), 2: (200, {}, b"")}
    good = Place(lambda n, *_: later.get(n, (204, {}, b"")))
    gone = Place((410, {}, b""))
    inside = Place((200, {}, b""))
    here = inside.url.replace("127.0.0.1", "localhost")
    config = PAYMENT.replace("wallet", "mailbox").replace('op = "issue"', 'topic = "paid"') + f"""
[rules.good]
provider = "github"
events = ["push"]
action = "forward"
url = "{good.url}/hook"
secret_env = "SIGNING"
allow_http = true
allow_private = true

[rules.gone]
provider = "github"
events = ["star"]
action = "forward"
url = "{gone.url}/hook"
secret_env = "SIGNING"
allow_http = true
allow_private = true

[rules.beside]
provider = "github"
events = ["watch"]
action = "forward"
url = "{here}/beside"
secret_env = "SIGNING"
allow_http = true
allow_private = true

[rules.inside]
provider = "github"
events = ["fork"]
action = "forward"
url = "{here}/inside"
secret_env = "SIGNING"
allow_http = true
"""
    with Interop(config=config, env=ENV) as svc:
        def send(body, event):
            return svc.call("POST", "/webhooks/github", body, token=None,
                            **github(body, event=event)).status

        body = b'{"ref":"refs/heads/main"}'
        check("forward: accepted", send(body, "push") == 202)
        check("forward: to a target that is gone, accepted", send(b'{"starred":1}', "star") == 202)
        check("forward: to this host, accepted", send(b'{"fork":1}', "fork") == 202)
        check("forward: 410 switches the target off", eventually(
            lambda: svc.metric('interop_actions_total{action="forward",result="disabled"}') == 1))
        check("forward: nothing more is sent to it", send(b'{"starred":2}', "star") == 202 and
              eventually(lambda: svc.metric(
                  'interop_actions_total{action="forward",result="dead"}') >= 1) and
              gone.count() == 1)
        check("forward: not without a capability", svc.call(
            "POST", "/forwards/gone/enable", b"", token=svc.mint_token("interop.put")).code ==
            "SCOPE_MISMATCH")
        a = svc.call("POST", "/forwards/gone/enable", b"")
        check("forward: an operator switches it on", a.status == 200, a.body)
        check("forward: no rule of that name",
              svc.call("POST", "/forwards/none/enable", b"").code == "NOT_FOUND")
        gone.answer = (200, {}, b"")
        check("forward: then it is sent to", send(b'{"starred":3}', "star") == 202 and
              eventually(lambda: gone.count() == 2))
        dead = svc.call("GET", "/mailbox/.forward/dead").json["dead"]
        check("forward: what died is told, with why", len(dead) >= 2 and
              {"target is disabled"} <= {d.get("reason") for d in dead}, dead)
        check("forward: the journal is for operators alone", svc.call(
            "POST", "/mailbox/.forward/recv", "{}").code == "MALFORMED" and svc.call(
                "GET", "/mailbox/.forward/dead", token=svc.mint_token("mailbox.recv")).code ==
            "SCOPE_MISMATCH")
        a = svc.call("POST", "/mailbox/.forward/replay", json.dumps(
            {"id": next(d["id"] for d in dead if d["reason"] == "target is disabled")}))
        check("forward: replayed, it is sent", a.json == {"done": 1} and
              eventually(lambda: gone.count() == 3), a.body)
        check("forward: 503 is tried again", eventually(lambda: good.count() == 2, 30), good.seen)
        ids = {h["webhook-id"] for _, h, _ in good.seen}
        check("forward: under the same id, with the same bytes",
              len(ids) == 1 and all(b == body for _, _, b in good.seen), ids)
        check("forward: signed as Standard Webhooks say",
              all(standard_webhook_good(h, b, SIGNING) for _, h, b in good.seen))
        check("forward: done", eventually(lambda: svc.metric(
            'interop_actions_total{action="forward",result="done"}') == 3))
        check("a rule to the mailbox", pay(svc, payment(1)).status == 202)
        private(svc, send, inside, config)
    good.close()
    gone.close()
    inside.close()


def private(svc, send, inside, config):
    """A rule reaches this host when it says so itself: not because another rule for the same host
    does, and not any longer when a reload has taken the word back."""
    def arrived(path, body):
        with inside.lock:
            return (path, body) in [(p, b) for p, _, b in inside.seen]

    def denied(rule):
        return len([x for x in svc.lines if f'"rule":"{rule}","status":0,"why":"denied_address"'
                    in x])

    check("private: a rule that may, does", send(b'{"watch":1}', "watch") == 202 and
          eventually(lambda: arrived("/beside", b'{"watch":1}')))
    check("private: one that may not was tried and refused", eventually(
        lambda: denied("inside") >= 1), svc.lines[-5:])
    check("private: and never came", not any(p == "/inside" for p, _, _ in inside.seen))
    head, beside, after = config.partition("[rules.beside]")
    swapped = head + beside + after.replace("allow_private = true\n", "") + "allow_private = true\n"
    svc.file.write_text(swapped, encoding="utf-8")
    svc.process.send_signal(signal.SIGHUP)
    check("private: a reload allows it", eventually(
        lambda: send(b'{"fork":%d}' % time.monotonic_ns(), "fork") == 202 and
        any(p == "/inside" for p, _, _ in inside.seen), 30))
    was = denied("beside")
    check("private: and forbids it", send(b'{"watch":2}', "watch") == 202 and
          eventually(lambda: denied("beside") > was) and
          not arrived("/beside", b'{"watch":2}'))


def main():
    credits()
    capability()
    passport()
    forwards()
    finish()


if __name__ == "__main__":
    main()
