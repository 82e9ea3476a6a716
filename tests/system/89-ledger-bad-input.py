#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: each bad input of the specification's list has a typed answer of its own and changes
nothing: no seq, no root, no balance, no hold, no supply, no outcome of its key.

Method: one ledger with both fronts. A case is what is sent and what must come back; around each the
whole state is compared. What the binary front can say too is sent there as well. For draining the
committer's thread is held with ptrace, so that there is time to ask; where that is not allowed this
part is left out, and says so.
"""
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from holdkit import held  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import ALL_SCOPES, PROGRAM, Ledger, ending_soon, entry  # noqa: E402
from ledgeroap import INGEST, Sender, batch  # noqa: E402
from oapkit import FRAME_MAX, REQ, pack  # noqa: E402

ALICE, BOB, CAROL, MAX = "t:bad/u:alice", "t:bad/u:bob", "t:bad/u:carol", 2 ** 128 - 1
ENVELOPE = {"code", "message", "retryable", "corr_id", "reason"}
NAMES = "bad-%d"


def state(ledger):
    head = ledger.admin("GET", "/status")[1]
    asked = [ledger.get(f"/accounts/{a}/{what}")[1] for a in (ALICE, BOB, CAROL)
             for what in ("balances", "holds")]
    return [head["seq"], head["root"], ledger.get("/supply")[1], *[
        {k: v for k, v in a.items() if k != "corr_id"} for a in asked]]


class Cases:
    """Counts them, so that each has a key of its own."""

    def __init__(self, ledger):
        self.ledger, self.count = ledger, 0

    def key(self):
        self.count += 1
        return NAMES % self.count

    def told(self, name, wanted, got, before, key=None, outcome="unknown"):
        status, body = got
        check(f"{name}: {wanted[0]} {wanted[1]}", (status, body.get("reason")) == wanted
              and ENVELOPE <= body.keys() and body["message"], got)
        check(f"{name}: changes nothing", state(self.ledger) == before, state(self.ledger))
        if key is not None:
            found = self.ledger.get(f"/outcome/{key}")[1]["outcome"]
            check(f"{name}: nothing is kept under its key", found == outcome, found)

    def http(self, name, status, reason, *entries, **more):
        before, key = state(self.ledger), self.key()
        self.told(name, (status, reason), self.ledger.ingest(*entries, idem=key, **more), before,
                  key)
        return self

    def oap(self, name, status, reason, *entries, cap=None):
        before, key = state(self.ledger), self.key()
        with Sender(f"unix:{self.ledger.oap}") as s:
            got, data = s.ask(INGEST, batch(entries, key),
                              self.ledger.token.encode() if cap is None else cap)
        found = json.loads(data)
        check(f"{name} (OAP): {status} {reason}", (got, found.get("reason")) == (status, reason),
              (got, found))
        check(f"{name} (OAP): changes nothing", state(self.ledger) == before, "")
        outcome = self.ledger.get(f"/outcome/{key}")[1]["outcome"]
        check(f"{name} (OAP): nothing is kept under its key", outcome == "unknown", outcome)

    def both(self, name, status, reason, make):
        self.http(name, status, reason, *make())
        self.oap(name, status, reason, *make())


def transfer(**more):
    return {**entry("Transfer", ALICE, 1, to=BOB), **more}


# ---- the entry -----------------------------------------------------------------------------------

def members_and_amounts(c):
    c.http("unknown member", 400, "invalid", {**transfer(), "colour": "red"})
    c.http("unknown kind", 400, "unknown_kind", {**transfer(), "kind": "Gift"})
    c.http("kind in another case", 400, "unknown_kind", {**transfer(), "kind": "transfer"})
    for amount in ("01", "00", "+1", "1.0", "1e3", " 1", "1 ", "", "0x1", "1,000", "\u0661", 1, 1.0,
                   None, True, ["1"]):
        e = transfer()
        e["amount"] = amount
        c.http(f"non-canonical amount {amount!r}", 400, "invalid", e)
    c.both("zero", 400, "invalid", lambda: [transfer(amount="0")])
    for amount in ("-1", "-0", "\u22121"):
        c.http(f"negative-looking amount {amount!r}", 400, "invalid", transfer(amount=amount))
    c.http("amount above 128 bits", 400, "invalid", transfer(amount=str(MAX + 1)))
    c.http("amount of 10,000 digits", 400, "invalid", transfer(amount="9" * 10000))
    # Mallory's way to a wrap: the supply is near the top and grows once more.
    got, body = c.ledger.ingest(entry("Mint", CAROL, MAX - 5, asset="near"))
    check("overflow: the supply is near the top", got == 200, body)
    c.both("overflow of a balance", 409, "conflict", lambda: [
        entry("Mint", CAROL, 6, asset="near")])
    c.both("overflow of the supply", 409, "conflict", lambda: [
        entry("Mint", BOB, 6, asset="near")])
    c.both("overflow within a batch", 409, "conflict", lambda: [
        entry("Mint", BOB, 3, asset="near"), entry("Mint", BOB, 3, asset="near")])


def assets_and_accounts(c):
    for asset in ("ROC", "", "9x", "a" * 33, "r c"):
        c.http(f"wrong asset {asset!r}", 400, "invalid", transfer(asset=asset))
    c.both("asset that the account has none of", 409, "insufficient_funds", lambda: [
        transfer(asset="gold")])
    c.both("self-transfer", 400, "invalid", lambda: [transfer(to=ALICE)])
    c.http("account with a blank", 400, "invalid", transfer(to="a b"))
    for kind in ("Capture", "Release", "Reverse"):
        more = {"to": BOB} if kind == "Capture" else {}
        c.both(f"missing ref of {kind}", 400, "invalid",
               lambda kind=kind, more=more: [entry(kind, ALICE, 1, **more)])
    c.http("ref where there is none", 400, "invalid", transfer(ref="x"))
    c.both("ref to nothing", 404, "not_found", lambda: [
        entry("Release", ALICE, 1, ref="nothing-of-the-kind")])


def holds(c):
    ledger = c.ledger
    hold = entry("Hold", ALICE, 10)
    check("hold: made", ledger.ingest(hold)[0] == 200)
    c.both("capture beyond the hold", 409, "insufficient_funds", lambda: [
        entry("Capture", ALICE, 11, to=BOB, ref=hold["id"])])
    c.both("release beyond the hold", 409, "insufficient_funds", lambda: [
        entry("Release", ALICE, 11, ref=hold["id"])])
    c.both("captures that go beyond it together", 409, "insufficient_funds", lambda: [
        entry("Capture", ALICE, 6, to=BOB, ref=hold["id"]) for _ in range(2)])
    c.both("capture of another asset than was held", 409, "conflict", lambda: [
        entry("Capture", ALICE, 1, to=BOB, ref=hold["id"], asset="gold")])
    c.both("capture of somebody else's hold", 409, "conflict", lambda: [
        entry("Capture", BOB, 1, to=CAROL, ref=hold["id"])])
    check("hold: all of it is still there", ledger.ingest(
        entry("Capture", ALICE, 10, to=BOB, ref=hold["id"]))[0] == 200)
    made = []

    def short(at_ms):
        made.append(entry("Hold", ALICE, 9, expires=at_ms))
        return ledger.ingest(made[-1])

    check("expiring hold: made", ending_soon(short)[0] == 200)
    check("expiring hold: over", eventually(
        lambda: ledger.get(f"/accounts/{ALICE}/holds")[1]["holds"] == []))
    for kind, more in (("Capture", {"to": BOB}), ("Release", {})):
        c.both(f"expired hold: {kind}", 404, "not_found", lambda kind=kind, more=more: [
            entry(kind, ALICE, 1, ref=made[-1]["id"], **more)])
    c.http("hold that has expired when it comes", 400, "invalid", (e := entry("Hold", ALICE, 1)) | {
        "expires": e["ts"] - 1})


def reversals(c):
    paid = entry("Transfer", ALICE, 10, to=BOB)
    check("reversal: something to undo", c.ledger.ingest(paid)[0] == 200)
    c.both("reversal beyond the entry", 409, "conflict", lambda: [
        entry("Reverse", ALICE, 11, ref=paid["id"])])
    undo = entry("Reverse", ALICE, 10, ref=paid["id"])
    status, body = c.ledger.ingest(undo)
    check("reversal: done once", status == 200, body)
    c.both("reversed twice", 409, "conflict", lambda: [entry("Reverse", ALICE, 10, ref=paid["id"])])
    c.both("reversed twice, by a little", 409, "conflict", lambda: [
        entry("Reverse", ALICE, 1, ref=paid["id"])])
    c.both("reversal of a reversal", 409, "conflict", lambda: [
        entry("Reverse", ALICE, 10, ref=undo["id"])])


def repetitions(c):
    first = transfer()
    check("repetition: the first", c.ledger.ingest(first, idem="first")[0] == 200)
    c.both("nonce reuse with another body", 409, "idem_mismatch", lambda: [
        transfer(amount="2", nonce=first["nonce"])])
    c.both("id reuse with another body", 409, "idem_mismatch", lambda: [
        transfer(amount="2", id=first["id"])])
    before = state(c.ledger)
    c.told("key reuse with another body", (409, "idem_mismatch"),
           c.ledger.ingest(transfer(amount="2"), idem="first"), before, "first", "committed")
    c.http("account_nonce out of turn", 409, "nonce_conflict", transfer(account_nonce=99))


# ---- the batch and the request -------------------------------------------------------------------

def sizes_and_types(c):
    ledger = c.ledger
    c.http("batch too long", 413, "too_large", *[transfer() for _ in range(1025)])
    c.both("empty batch", 400, "invalid", list)
    c.both("bad one at the end of a batch", 409, "insufficient_funds", lambda: [
        transfer(), transfer(), entry("Transfer", BOB, 10 ** 12, to=ALICE)])
    before = state(ledger)
    for name, wanted, body, headers in (
        ("body too large", (413, "too_large"), b"{" + b" " * (1 << 20), {}),
        ("wrong content type", (415, "content_type"), json.dumps({"batch": [transfer()]}),
         {"Content-Type": "text/plain"}),
        ("no content type", (415, "content_type"), json.dumps({"batch": [transfer()]}),
         {"Content-Type": None}),
        ("unknown coding", (415, "content_coding"), b"x", {"Content-Encoding": "compress"}),
        ("not JSON", (400, "invalid"), b"batch=1", {}),
        ("a member twice", (400, "invalid"), b'{"batch":[],"batch":[]}', {}),
        ("no UTF-8", (400, "invalid"), b'{"batch":[{"id":"\xff"}]}', {}),
    ):
        status, _, data = ledger.ask("POST", "/ingest", body, headers=headers)
        c.told(name, wanted, (status, json.loads(data)), before)


def tokens(c):
    ledger = c.ledger

    def narrowed(*options):
        return subprocess.run([PROGRAM, "cap", "attenuate", *options], input=ledger.token,
                              check=True, capture_output=True, text=True).stdout.strip()

    def other(*options, keys=None):
        return subprocess.run([PROGRAM, "cap", "mint", "--keys", str(keys or ledger.keys),
                               "--scope", ALL_SCOPES, *options], check=True, capture_output=True,
                              text=True).stdout.strip()

    keys = ledger.folder / "other.keys"
    subprocess.run([PROGRAM, "cap", "key", "new", "--id", "k1", "--keys", str(keys)], check=True,
                   capture_output=True)
    for name, status, reason, token in (
        ("no token", 401, "unauth", ""),
        ("expired token", 401, "unauth", other("--aud", "ledger", "--exp", "1000000000")),
        ("attenuated until it expired", 401, "unauth", narrowed("--exp", "1000000000")),
        ("attenuated to another account", 403, "cap_invalid", narrowed("--account", "t:other")),
        ("attenuated below the amount", 403, "cap_invalid", narrowed("--max", "0")),
        ("attenuated to another asset", 403, "cap_invalid", narrowed("--asset", "gold")),
        ("attenuated to reading", 403, "cap_invalid", narrowed("--scope", "ledger.read")),
        ("wrong-audience token", 403, "cap_invalid", other("--aud", "wallet")),
        ("attenuated to another audience", 403, "cap_invalid", narrowed("--aud", "wallet")),
        ("token of another key", 401, "unauth", other("--aud", "ledger", keys=keys)),
        ("token with a byte changed", 401, "unauth", ledger.token[:-9] + (
            "B" if ledger.token[-9] == "A" else "A") + ledger.token[-8:]),
    ):
        c.http(name, status, reason, transfer(), token=token or None)
        c.oap(name, status, reason, transfer(), cap=token.encode())


def frames(c):
    ledger = c.ledger
    before = state(ledger)
    with Sender(f"unix:{ledger.oap}") as s:
        s.send(pack(REQ, INGEST, 0x4C45, length=FRAME_MAX + 1))
        answer = s.next()
        check("frame longer than 1 MiB: told, and the connection ends", json.loads(answer.payload)[
            "reason"] == "frame_oversize" and s.next() is None, answer)
    whole = pack(REQ, INGEST, 0x4C45, payload=batch([transfer()], "half"))
    for cut in (1, 37, 38, len(whole) // 2, len(whole) - 1):
        with Sender(f"unix:{ledger.oap}") as s:
            s.send(whole[:cut])
            s.s.shutdown(1)
            rest = s.s.recv(4096)
            check(f"half a frame, {cut} bytes and an end: never an answer of yes",
                  rest == b"" or b'"accepted":true' not in rest, rest)
    with Sender(f"unix:{ledger.oap}") as s:
        s.send(whole[:-1])
        answer = s.next()  # timeouts.read
        check("half a frame and silence: told, and the connection ends", answer is not None
              and json.loads(answer.payload)["reason"] == "read_timeout" and s.next() is None,
              answer)
    check("frames: change nothing", state(ledger) == before, state(ledger))
    check("frames: nothing is kept under the key",
          ledger.get("/outcome/half")[1]["outcome"] == "unknown")


# ---- the ledger's own state ----------------------------------------------------------------------

def closed(c):
    ledger = c.ledger
    check("freeze", ledger.ask("POST", f"/accounts/{BOB}/freeze", "")[0] == 200)
    c.both("frozen account gives", 403, "policy_denied", lambda: [
        entry("Transfer", BOB, 1, to=ALICE)])
    c.both("frozen account receives", 403, "policy_denied", lambda: [transfer()])
    check("unfreeze", ledger.ask("POST", f"/accounts/{BOB}/unfreeze", "")[0] == 200)
    check("safe mode", ledger.admin("POST", "/safe-mode", "drill")[0] == 200)
    c.both("safe mode", 503, "safe_mode", lambda: [transfer()])
    check("resume", ledger.admin("POST", "/resume", "")[0] == 200)


def draining(c):
    """The drain waits for a batch that the committer has."""
    ledger = c.ledger
    before = ledger.admin("GET", "/status")[1]
    oap = Sender(f"unix:{ledger.oap}")
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(
        ledger.ingest(transfer(), idem="taken")))
    try:
        with held(ledger, "committer"):
            waiting.start()
            eventually(lambda: b'\nqueue_depth{queue="commit"} 1\n' in ledger.ask(
                "GET", "/metrics", token=None)[2])
            ledger.process.send_signal(signal.SIGTERM)
            check("draining: begun", eventually(lambda: any('"draining"' in x
                                                            for x in ledger.lines)))
            status, headers, data = ledger.ask("POST", "/ingest", json.dumps(
                {"batch": [transfer()], "idem_id": "late"}))
            check("draining: 503 draining with Retry-After", status == 503 and json.loads(data)[
                "reason"] == "draining" and headers["Retry-After"] is not None, (status, data))
            frame = None
            with contextlib.suppress(OSError):  # a connection that nobody used is closed
                oap.post(INGEST, 7, batch([transfer()], "late-too"), cap=ledger.token.encode())
                frame = oap.next()
                while frame is not None and frame.corr != 7:
                    frame = oap.next()
            check("draining (OAP): refused, or nobody there any more", frame is None or (
                frame.code == 503 and json.loads(frame.payload)["reason"] == "draining"), frame)
    except PermissionError:
        print("left out: a thread cannot be held here (ptrace)")
        return
    waiting.join()
    check("draining: ends with 0", ledger.process.wait(60) == 0)
    check("draining: what was taken before is answered", answers[0][0] == 200, answers)
    ledger.reader.join()
    ledger.start()
    after = ledger.admin("GET", "/status")[1]
    check("draining: nothing else happened", after["seq"] == before["seq"] + 1
          and {ledger.get(f"/outcome/{k}")[1]["outcome"] for k in ("late", "late-too")} ==
          {"unknown"}, (before, after))


def main():
    with tempfile.TemporaryDirectory(prefix="ron-bad-") as folder:
        path = Path(folder) / "oap.sock"
        with Ledger(f"--oap.addr=unix:{path}", "--governance.reversible_bridges=require-cap",
                    "--timeouts.read=1s", "--drain_deadline=5s", folder=folder) as ledger:
            check("fund", ledger.ingest(entry("Mint", ALICE, 1000),
                                        entry("Mint", BOB, 1000))[0] == 200)
            c = Cases(ledger)
            for part in (members_and_amounts, assets_and_accounts, holds, reversals, repetitions,
                         sizes_and_types, tokens, frames, closed, draining):
                part(c)
            check("after all of them the ledger goes on", ledger.ingest(transfer())[0] == 200)
            print(f"{c.count} cases with a key")
    finish()


main()
