#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a wallet does what its documents say, over HTTP, as a stranger would use it.

Method: a wallet beside a ledger. Every route of api/wallet.yaml is asked; a repeated key gives the
same bytes whatever has happened in between; every refusal is typed and changes nothing; receipts
are recomputed from their text and verified by a program that shares no code with the wallet.
"""
import gzip
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import PROGRAM, ending_soon  # noqa: E402
from walletkit import Wallet, new_key, new_ledger, receipt_good  # noqa: E402

ALICE, BOB, SHOP = "t:demo/u:alice", "t:demo/u:bob", "t:demo/shop"
ERROR = ["code", "message", "retryable", "corr_id", "reason"]
AUDIT = str(Path(PROGRAM).with_name("ron-audit"))


def value(wallet):
    """What must not change when something is refused."""
    return [wallet.ledger.get("/supply")[1], wallet.ledger.get("/roots?since=0&limit=1000")[1]]


def refused(wallet, name, status, code, op, before=None, **more):
    before = before or value(wallet)
    got, headers, data = wallet.post(op, **more)
    body = json.loads(data)
    check(f"refused: {name}", got == status and body["code"] == code and list(body)[:5] == ERROR
          and headers["X-Corr-ID"] == body["corr_id"] and value(wallet) == before, (got, body))
    return body


def fill(wallet, account, amount):
    """Brings an account to this balance."""
    have = wallet.balance(account)[0]
    if have < amount:
        wallet.issue(account, amount - have)
    elif have > amount:
        wallet.write("burn", from_=account, amount_minor=str(have - amount))


# ---- operations ----------------------------------------------------------------------------------

def black_box(wallet):
    """The expectations of the specification, 7.4."""
    a, b = "bb/a", "bb/b"
    got, first = wallet.issue(a, 100, key="bb-issue")
    check("issue: seq 1", got == 200 and first["ledger_seq_start"] == 1, first)
    one = wallet.post("transfer", key="bb-move", from_=a, to=b, amount_minor="40", nonce=1)
    check("transfer: 60 and 40", one[0] == 200 and wallet.balance(a) == (60, 0)
          and wallet.balance(b) == (40, 0) and receipt_good(one[2]), one[2])
    again = wallet.post("transfer", key="bb-move", from_=a, to=b, amount_minor="40", nonce=1)
    check("the same key again: the same bytes, and it says so", again[0] == 200
          and again[2] == one[2] and again[1]["Idempotent-Replayed"] == "true"
          and one[1]["Idempotent-Replayed"] is None, (one, again))
    refused(wallet, "a new key with a used nonce", 409, "NONCE_CONFLICT", "transfer", from_=a, to=b,
            amount_minor="1", nonce=1)
    refused(wallet, "a nonce beyond the next", 409, "NONCE_CONFLICT", "transfer", from_=a, to=b,
            amount_minor="1", nonce=3)
    refused(wallet, "issue: the same key, another amount", 422, "IDEMPOTENCY_CONFLICT", "issue",
            key="bb-issue", to=a, amount_minor="101")
    fill(wallet, a, 100)
    got, _ = wallet.write("burn", from_=a, amount_minor="30")
    check("burn: 30 of 100 leave 70", got == 200 and wallet.balance(a) == (70, 0))
    fill(wallet, a, 10)
    refused(wallet, "burn 11 of 10", 409, "INSUFFICIENT_FUNDS", "burn", from_=a, amount_minor="11")
    fill(wallet, a, 100)
    fill(wallet, b, 1)
    got, hold = wallet.write("hold", from_=a, amount_minor="70")
    check("hold: 70 of 100 set aside", got == 200 and wallet.balance(a) == (30, 70), hold)
    got, _ = wallet.write("capture", hold=hold["txid"], from_=a, to=b, amount_minor="40")
    check("capture: in part", got == 200 and wallet.balance(b) == (41, 0)
          and wallet.balance(a) == (30, 30))
    refused(wallet, "capture more than the hold has left", 409, "INSUFFICIENT_FUNDS", "capture",
            hold=hold["txid"], from_=a, to=b, amount_minor="31")
    got, _ = wallet.write("release", hold=hold["txid"], from_=a, amount_minor="30")
    check("release: the rest is available again", got == 200 and wallet.balance(a) == (60, 0))
    refused(wallet, "capture of a hold that is used up", 404, "NOT_FOUND", "capture",
            hold=hold["txid"], from_=a, to=b, amount_minor="1")
    got, short = ending_soon(lambda at_ms: wallet.write("hold", from_=a, amount_minor="5",
                                                        expires_at=at_ms))
    check("hold with an end: comes back by itself", got == 200
          and eventually(lambda: wallet.balance(a) == (60, 0)), short)


def batches(wallet):
    fill(wallet, ALICE, 1000)
    fill(wallet, BOB, 0)
    moves = [{"op": "transfer", "from": ALICE, "to": BOB, "amount_minor": "10"} for _ in range(50)]
    got, headers, data = wallet.post("batch", key="batch-1", operations=moves)
    all_of_it = json.loads(data)
    check("batch: fifty transfers", got == 200 and all_of_it["count"] == 50 and list(all_of_it) == [
        "count", "ledger_seq_start", "ledger_seq_end", "ledger_root", "ts", "receipts"]
          and all_of_it["ledger_seq_end"] - all_of_it["ledger_seq_start"] == 49
          and wallet.balance(BOB) == (500, 0), data[:300])
    check("batch: each receipt is whole", len({r["txid"] for r in all_of_it["receipts"]}) == 50
          and all(receipt_good(json.dumps(r, separators=(",", ":")).encode())
                  for r in all_of_it["receipts"]))
    again = wallet.post("batch", key="batch-1", operations=moves)
    check("batch: again the same bytes", again[2] == data and again[1]["Idempotent-Replayed"])
    one = all_of_it["receipts"][7]
    check("batch: one of them by its txid", wallet.get(f"/v1/tx/{one['txid']}") == (200, one))
    refused(wallet, "batch: all or nothing", 409, "INSUFFICIENT_FUNDS", "batch", operations=[
        {"op": "issue", "to": SHOP, "amount_minor": "5"},
        {"op": "burn", "from": SHOP, "amount_minor": "10000"}])
    got, mixed = wallet.write("batch", operations=[
        {"op": "issue", "to": "fresh/1", "amount_minor": "9"},
        {"op": "transfer", "from": "fresh/1", "to": "fresh/2", "amount_minor": "4"},
        {"op": "burn", "from": "fresh/2", "amount_minor": "4"}])
    check("batch: in the order of the request", got == 200
          and wallet.balance("fresh/1") == (5, 0) and wallet.balance("fresh/2") == (0, 0), mixed)
    for name, bad in (("empty", []), ("1025", moves[:1] * 1025), ("not a list", {}),
                      ("a key within", [{**moves[0], "idempotency_key": "x"}]),
                      ("unknown op", [{**moves[0], "op": "gift"}])):
        refused(wallet, f"batch: {name}", 400, "BAD_REQUEST", "batch", operations=bad)


def dry_runs(wallet):
    fill(wallet, ALICE, 1000)
    _, hold = wallet.write("hold", from_=ALICE, amount_minor="10")
    bodies = {"issue": {"to": ALICE}, "transfer": {"from": ALICE, "to": BOB},
              "burn": {"from": ALICE}, "hold": {"from": ALICE},
              "capture": {"from": ALICE, "to": BOB, "hold": hold["txid"]},
              "release": {"from": ALICE, "hold": hold["txid"]}}
    before = value(wallet)
    for op, body in bodies.items():
        key = new_key("dry")
        got, r = wallet.write(op, key=key, query="?dry_run=true", amount_minor="3", **body)
        check(f"dry run: {op}", got == 200 and r["settlement_status"] == "dry_run"
              and [r[x] for x in ("ts", "ledger_seq_start", "ledger_seq_end", "ledger_root")]
              == [None] * 4 and value(wallet) == before, (got, r))
        got, real = wallet.write(op, key=key, amount_minor="3", **body)
        check(f"dry run: the same key is free for the real {op}", got == 200
              and real["txid"] == r["txid"] and real["settlement_status"] == "accepted", real)
        before = value(wallet)
    got, r = wallet.write("batch", query="?dry_run=true", operations=[
        {"op": "burn", "from": ALICE, "amount_minor": "1"}])
    check("dry run: batch", got == 200 and r["ledger_seq_start"] is None
          and value(wallet) == before, r)
    refused(wallet, "dry run without the money", 409, "INSUFFICIENT_FUNDS", "burn",
            query="?dry_run=true", from_=ALICE, amount_minor="99999999")
    refused(wallet, "dry run: neither true nor false", 400, "BAD_REQUEST", "burn",
            query="?dry_run=1", from_=ALICE, amount_minor="1")


# ---- keys ----------------------------------------------------------------------------------------

def racing(wallet):
    """Sixteen bodies race on one key; then sixteen equal ones on another."""
    fill(wallet, ALICE, 10000)
    fill(wallet, BOB, 0)
    for name, amount in (("other bodies", lambda i: i + 1), ("the same body", lambda i: 7)):
        key, got, before = new_key("race"), [], wallet.balance(BOB)[0]
        threads = [threading.Thread(target=lambda i=i: got.append(wallet.post(
            "transfer", key=key, from_=ALICE, to=BOB, amount_minor=str(amount(i)))))
            for i in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        good = [g for g in got if g[0] == 200]
        codes = {json.loads(g[2])["code"] for g in got if g[0] != 200}
        moved = wallet.balance(BOB)[0] - before
        check(f"race on one key, {name}: one effect", good and len({g[2] for g in good}) == 1
              and moved == int(json.loads(good[0][2])["amount_minor"])
              and codes <= {"IN_PROGRESS", "IDEMPOTENCY_CONFLICT"}, (codes, moved, len(good)))
        waits = [g for g in got if g[0] == 409]
        check(f"race on one key, {name}: who comes too early may come again",
              all(g[1]["Retry-After"] and json.loads(g[2])["retryable"] for g in waits))


def keys(wallet):
    fill(wallet, ALICE, 1000)
    fill(wallet, BOB, 1000)
    move = {"from_": ALICE, "to": BOB, "amount_minor": "1"}
    first = wallet.post("transfer", key="matrix-1", memo="lunch", **move)
    check("key: in quotes it is the same", wallet.post(
        "transfer", key='"matrix-1"', memo="lunch", **move)[2] == first[2])
    check("key: in the body it is the same", wallet.post(
        "transfer", headers={"Idempotency-Key": None}, idempotency_key="matrix-1", memo="lunch",
        **move)[2] == first[2])
    check("key: in both it is the same", wallet.post(
        "transfer", key="matrix-1", idempotency_key="matrix-1", memo="lunch", **move)[2]
        == first[2])
    check("key: asset by name or by default is the same", wallet.post(
        "transfer", key="matrix-1", asset="roc", memo="lunch", **move)[2] == first[2])
    refused(wallet, "key: header and body differ", 400, "BAD_REQUEST", "transfer", key="a",
            idempotency_key="b", **move)
    refused(wallet, "key: missing", 400, "BAD_REQUEST", "transfer",
            headers={"Idempotency-Key": None}, **move)
    for name, key in (("of 65 bytes", "k" * 65), ("with a blank", "a b"), ("with a slash", "a/b"),
                      ("of quotes alone", '""'), ("of other letters", "\u00e4")):
        refused(wallet, f"key: {name}", 400, "BAD_REQUEST", "transfer", key=key, **move)
    got, _ = wallet.write("transfer", key="k" * 64, **move)
    check("key: of 64 bytes", got == 200)
    for name, body in (("memo", {"memo": "dinner"}), ("no memo", {}),
                       ("amount", {"memo": "lunch", "amount_minor": "2"}),
                       ("payee", {"memo": "lunch", "to": SHOP}),
                       ("nonce", {"memo": "lunch", "nonce": 1}),
                       ("asset", {"memo": "lunch", "asset": "usd"})):
        refused(wallet, f"key: bound to the {name}", 422, "IDEMPOTENCY_CONFLICT", "transfer",
                key="matrix-1", **{**move, **body})
    got, other = wallet.write("burn", key="matrix-1", from_=ALICE, amount_minor="1")
    check("key: another operation has its own", got == 200
          and other["txid"] != json.loads(first[2])["txid"], other)
    got, other = wallet.transfer(BOB, ALICE, 1, key="matrix-1")
    check("key: another account has its own", got == 200, other)
    got, _ = wallet.transfer("poor/1", BOB, 5, key="corrected")
    check("key: refused for funds", got == 409)
    wallet.issue("poor/1", 5)
    got, later = wallet.transfer("poor/1", BOB, 5, key="corrected")
    check("key: free again after a refusal", got == 200, later)
    got, _ = wallet.transfer("poor/2", BOB, 5, key="corrected")
    got2, later = wallet.write("transfer", key="corrected", from_="poor/2", to=BOB,
                               amount_minor="5")
    check("key: refused again and again", got == got2 == 409, later)
    wallet.issue("poor/2", 3)
    got, later = wallet.transfer("poor/2", BOB, 3, key="corrected")
    check("key: a corrected request after a refusal", got == 200, later)


def lost_reply(wallet):
    """A client that is gone before the answer sends the same again."""
    fill(wallet, ALICE, 1000)
    fill(wallet, BOB, 0)
    body = json.dumps({"from": ALICE, "to": BOB, "amount_minor": "5", "nonce": None})
    for i in range(20):
        head = {"Authorization": f"Bearer {wallet.token}", "Content-Type": "application/json",
                "Idempotency-Key": f"lost-{i}"}
        c = wallet.connect()
        c.request("POST", "/v1/transfer", body, head)
        c.close()  # without reading
    good = []
    for i in range(20):
        answers = []
        eventually(lambda: answers.append(wallet.ask(
            "POST", "/v1/transfer", body, headers={"Idempotency-Key": f"lost-{i}"}))
            or answers[-1][0] != 409)
        good.append(answers[-1][0] == 200)
    check("lost answers: each is there, and once", all(good) and wallet.balance(BOB) == (100, 0),
          (good, wallet.balance(BOB)))


def replays(wallet, when, kept):
    """Everything in `kept` again: the same bytes."""
    for (op, key, body), data in kept.items():
        got = wallet.post(op, key=key, **json.loads(body))
        check(f"{op} again {when}: the same bytes", got[0] == 200 and got[2] == data
              and got[1]["Idempotent-Replayed"] == "true", (got[0], got[2], data))
        refused(wallet, f"{op} again {when} with another body", 422, "IDEMPOTENCY_CONFLICT", op,
                key=key, **({**json.loads(body), "memo": "other"} if op != "batch" else
                            {"operations": json.loads(body)["operations"][:1]}))


def make_kept(wallet):
    """One of each operation, with the bytes of its receipt."""
    kept = {}
    fill(wallet, ALICE, 1000)

    def write(op, **body):
        key = new_key("kept")
        got, _, data = wallet.post(op, key=key, **body)
        check(f"kept: {op}", got == 200, data)
        kept[(op, key, json.dumps(body))] = data
        return json.loads(data)

    write("issue", to=ALICE, amount_minor="50", memo="pay \u20ac \"quoted\"")
    write("transfer", **{"from": ALICE}, to=BOB, amount_minor="5", nonce=None)
    hold = write("hold", **{"from": ALICE}, amount_minor="20",
                 expires_at=int(time.time() * 1000) + 3600_000)["txid"]
    write("capture", **{"from": ALICE}, to=BOB, amount_minor="5", hold=hold)
    write("release", **{"from": ALICE}, amount_minor="5", hold=hold)
    write("burn", **{"from": ALICE}, amount_minor="5")
    write("batch", operations=[{"op": "issue", "to": "kept/1", "amount_minor": "3"},
                               {"op": "burn", "from": "kept/1", "amount_minor": "3"}])
    return kept


# ---- refusals ------------------------------------------------------------------------------------

def bad_input(wallet):
    fill(wallet, ALICE, 1000)
    good = {"from": ALICE, "to": BOB, "amount_minor": "1"}
    before = value(wallet)
    for name in ("settlement_status", "finality", "checkpoint", "state_root", "receipt_root",
                 "validator_signature", "anchor", "bridge_txid", "amount", "ts", "txid"):
        refused(wallet, f"a body with {name}", 400, "BAD_REQUEST", "transfer", before,
                **{**good, name: "x"})
    for name, change in (
            ("amount as a number", {"amount_minor": 5}), ("amount +5", {"amount_minor": "+5"}),
            ("amount 007", {"amount_minor": "007"}), ("amount 0", {"amount_minor": "0"}),
            ("amount -1", {"amount_minor": "-1"}), ("amount 1.0", {"amount_minor": "1.0"}),
            ("amount 1e3", {"amount_minor": "1e3"}), ("amount empty", {"amount_minor": ""}),
            ("amount 2^128", {"amount_minor": str(2 ** 128)}),
            ("amount missing", {"amount_minor": None}), ("to missing", {"to": None}),
            ("to oneself", {"to": ALICE}), ("account empty", {"to": ""}),
            ("account of 257", {"to": "a" * 257}), ("account with a blank", {"to": "a b"}),
            ("account as a number", {"to": 7}), ("asset in capitals", {"asset": "ROC"}),
            ("asset of 33", {"asset": "r" * 33}), ("nonce 0", {"nonce": 0}),
            ("nonce as a string", {"nonce": "1"}), ("nonce 1.5", {"nonce": 1.5}),
            ("nonce 2^64", {"nonce": 2 ** 64}), ("memo of 257 bytes", {"memo": "m" * 257}),
            ("memo with a newline", {"memo": "a\nb"}), ("hold in a transfer", {"hold": "tx_1"}),
            ("expires_at in a transfer", {"expires_at": 1})):
        refused(wallet, name, 400, "BAD_REQUEST", "transfer", before, **{**good, **change})
    refused(wallet, "issue with from", 400, "BAD_REQUEST", "issue", before, **good)
    refused(wallet, "issue with a nonce", 400, "BAD_REQUEST", "issue", before, to=ALICE,
            amount_minor="1", nonce=1)
    refused(wallet, "amount above the ceiling", 403, "LIMITS_EXCEEDED", "issue", before, to=ALICE,
            amount_minor=str(10 ** 20 + 1))
    refused(wallet, "capture of an unknown hold", 404, "NOT_FOUND", "capture", before,
            hold="tx_" + "0" * 32, **good)
    raw = json.dumps(good).encode()
    twice = raw[:-1] + b',"to":"other"}'
    for name, status, code, body, headers in (
            ("a member twice", 400, "BAD_REQUEST", twice, {}),
            ("no JSON", 400, "BAD_REQUEST", b"from=alice", {}), ("nothing", 400, "BAD_REQUEST",
                                                                 b"", {}),
            ("a list", 400, "BAD_REQUEST", b"[]", {}), ("two values", 400, "BAD_REQUEST",
                                                        raw + b"{}", {}),
            ("bytes that are not UTF-8", 400, "BAD_REQUEST", raw[:-2] + b'\xff"}', {}),
            ("nested 10,000 deep", 400, "BAD_REQUEST", b"[" * 10000, {}),
            ("a form", 415, "UNSUPPORTED_MEDIA_TYPE", raw,
             {"Content-Type": "application/x-www-form-urlencoded"}),
            ("text", 415, "UNSUPPORTED_MEDIA_TYPE", raw, {"Content-Type": "text/plain"}),
            ("no content type", 415, "UNSUPPORTED_MEDIA_TYPE", raw, {"Content-Type": None}),
            ("1 MiB and one byte", 413, "BODY_LIMIT", raw.ljust(2 ** 20 + 1), {}),
            ("gzip that is none", 400, "MALFORMED", raw, {"Content-Encoding": "gzip"}),
            ("gzip that grows 1000 times", 413, "DECOMP_LIMIT", gzip.compress(b" " * 900000),
             {"Content-Encoding": "gzip"}),
            ("an unknown coding", 415, "UNSUPPORTED_CODING", raw, {"Content-Encoding": "zip"})):
        status_got, _, data = wallet.ask("POST", "/v1/transfer", body,
                                         headers={"Idempotency-Key": new_key(), **headers})
        got = json.loads(data)
        check(f"refused: {name}", status_got == status and got["code"] == code
              and list(got)[:5] == ERROR and value(wallet) == before, (status_got, got))
    for name, headers, body in (("1 MiB", {}, raw.ljust(2 ** 20)),
                                ("gzip", {"Content-Encoding": "gzip"}, gzip.compress(raw)),
                                ("a charset", {"Content-Type": "application/json; charset=utf-8"},
                                 raw)):
        got, _, data = wallet.ask("POST", "/v1/transfer", body,
                                  headers={"Idempotency-Key": new_key(), **headers})
        check(f"taken: {name}", got == 200, data)
    for method, path, want in (("GET", "/v1/transfer", 405), ("DELETE", "/v1/balance", 405),
                               ("POST", "/v1/gift", 404), ("GET", "/v1/", 404),
                               ("POST", "/v1/outcome/x", 404), ("PUT", "/v1/issue", 405)):
        got, headers, data = wallet.ask(method, path, "{}" if method != "GET" else None)
        check(f"{method} {path}: {want}", got == want and json.loads(data)["code"]
              and (want == 404 or headers["Allow"]), (got, data))


def capabilities(wallet):
    fill(wallet, ALICE, 1000)
    fill(wallet, BOB, 1000)
    move = {"from": ALICE, "to": BOB, "amount_minor": "5"}
    before = value(wallet)
    mint = wallet.mint_token
    narrow = subprocess.run([PROGRAM, "cap", "attenuate", "--in", "-", "--max", "4"],
                            input=mint("wallet.transfer", "--account", ALICE), text=True,
                            capture_output=True, check=True).stdout.strip()
    stranger = wallet.ledger.mint_token("wallet")
    soon = mint("wallet", "--exp", str(int(time.time()) - 6))
    for name, status, token in (
            ("none", 401, None), ("nonsense", 401, "abc"), ("of the ledger", 401, stranger),
            ("cut", 401, mint("wallet")[:-3]), ("expired", 401, soon),
            ("for another service", 403, mint("wallet", aud="ledger")),
            ("that reads only", 403, mint("wallet.read")),
            ("for burning", 403, mint("wallet.burn")),
            ("for holding", 403, mint("wallet.hold")),
            ("for the payee's account", 403, mint("wallet.transfer", "--account", BOB)),
            ("for another asset", 403, mint("wallet.transfer", "--asset", "usd")),
            ("up to less", 403, mint("wallet.transfer", "--max", "4")),
            ("attenuated to less", 403, narrow)):
        got, headers, data = wallet.post("transfer", token=token, **move)
        body = json.loads(data)
        code = {401: "UNAUTHORIZED", 403: "FORBIDDEN"}[status]
        check(f"token {name}: {status}", (got, body["code"]) == (status, code)
              and value(wallet) == before and (status == 403 or headers["WWW-Authenticate"]),
              (got, body, headers.items()))
    check("a caller without a token learns nothing about the body", wallet.ask(
        "POST", "/v1/transfer", "{", token=None)[0] == 401)
    got, r = wallet.transfer(ALICE, BOB, 4, token=narrow)
    check("token attenuated: within it is enough", got == 200, r)
    got, r = wallet.write("issue", to=ALICE, amount_minor="1",
                          token=mint("wallet.issue", "--account", ALICE))
    check("token for an issue: the credited account counts", got == 200, r)
    token = mint("wallet.transfer", "--account", ALICE)
    got, hold = wallet.write("hold", from_=ALICE, amount_minor="9", token=token)
    got2, r2 = wallet.write("capture", hold=hold.get("txid"), from_=ALICE, to=BOB,
                            amount_minor="4", token=token)
    got3, r3 = wallet.write("release", hold=hold.get("txid"), from_=ALICE, amount_minor="5",
                            token=token)
    check("token for transfers: holds, captures and releases too", (got, got2, got3)
          == (200, 200, 200), (hold, r2, r3))
    refused(wallet, "batch: a token that covers one account of two", 403, "FORBIDDEN", "batch",
            token=token, operations=[{"op": "transfer", **move}, {
                "op": "transfer", "from": BOB, "to": ALICE, "amount_minor": "1"}])
    reads = mint("wallet.read", "--account", ALICE)
    txid = wallet.transfer(BOB, SHOP, 1, key="bobs")[1]["txid"]
    for path, own in ((f"/v1/balance?account={ALICE}", True), (f"/v1/balance?account={BOB}", False),
                      (f"/v1/accounts/{ALICE}/history", True),
                      (f"/v1/accounts/{BOB}/history", False),
                      (f"/v1/outcome/bobs?op=transfer&account={BOB}", False),
                      (f"/v1/outcome/bobs?op=transfer&account={ALICE}", True),
                      (f"/v1/tx/{txid}", False), (f"/v1/receipts/{txid}", False),
                      ("/v1/events", False)):
        got, body = wallet.get(path, token=reads)
        check(f"token of one account: {path.split('?')[0]} {'may' if own else 'may not'}",
              got == (200 if own else 403), (got, body))


# ---- reads ---------------------------------------------------------------------------------------

def loads(wallet):
    """How often the ledger was asked for what is not in the cache, or not fresh there."""
    return sum(n for name, n in wallet.metrics().items()
               if name.startswith('upstream_calls_total{svc="ledger",op="read"'))


def balances(wallet):
    a = "reads/a"
    _, nobody = wallet.get(f"/v1/balance?account={a}")
    check("balance: nobody has nothing", list(nobody) == [
        "account", "asset", "amount_minor", "held_minor", "as_of_seq", "stale_ms"]
          and (nobody["amount_minor"], nobody["held_minor"]) == ("0", "0"), nobody)
    wallet.issue(a, 10)
    path = f"/v1/balance?account={a}"
    got, headers, data = wallet.ask("GET", path)
    tag = headers["ETag"]
    check("balance: with a tag, for one caller", got == 200 and tag
          and headers["Cache-Control"] == "private, no-cache", headers.items())
    got, headers, data = wallet.ask("GET", path, headers={"If-None-Match": f'"x", {tag}'})
    check("balance: 304 for who has it", (got, data, headers["ETag"]) == (304, b"", tag))
    got, headers, data = wallet.ask("GET", path + "&consistency=strong",
                                    headers={"If-None-Match": tag})
    check("balance: 304 from the ledger, too", (got, data) == (304, b""), (got, data))
    wallet.issue(a, 1)
    got, headers, data = wallet.ask("GET", path + "&consistency=strong",
                                    headers={"If-None-Match": tag})
    check("balance: a new tag after a change", got == 200 and headers["ETag"] != tag
          and json.loads(data)["amount_minor"] == "11", data)
    wrong = 0
    for i in range(50):  # each write is seen at once by who made it
        wallet.issue(a, 1)
        wrong += json.loads(wallet.ask("GET", path)[2])["amount_minor"] != str(12 + i)
    check("balance: a client sees its own writes, cached or not", wrong == 0, wrong)
    hits = wallet.metrics()['wallet_cache_reads_total{result="hit"}']
    old = max(wallet.get(path)[1]["stale_ms"] for _ in range(50))
    check("balance: from the cache, and fresh", old <= 250 and wallet.metrics()[
        'wallet_cache_reads_total{result="hit"}'] >= hits + 40, old)
    wallet.issue("reads/other", 1)  # who does not hear the ledger's changes knows nothing now
    asked = loads(wallet)
    time.sleep(0.6)
    old = wallet.get(path)[1]["stale_ms"]
    check("balance: what the ledger's changes do not name stays fresh", old <= 250
          and loads(wallet) == asked, (old, asked, loads(wallet)))
    got, body = wallet.get("/v1/balance?account=reads%2Fa")
    check("balance: percent-encoded", got == 200 and body["account"] == a, body)
    for query in ("", "?account=", "?account=a%20b", f"?account={a}&account={a}",
                  f"?account={a}&colour=red", f"?account={a}&consistency=weak",
                  f"?account={a}&asset=R%20C", "?account=" + "a" * 257):
        got, body = wallet.get("/v1/balance" + query)
        check(f"balance: refused {query[:40]!r}", (got, body["code"]) == (400, "BAD_REQUEST"), body)


def histories(wallet):
    a = "t:h/a"
    for i in range(5):
        wallet.issue(a, i + 1)
    _, page = wallet.get(f"/v1/accounts/{a}/history?limit=2")
    check("history: newest first", [e["entry"]["amount"] for e in page["entries"]] == ["5", "4"]
          and page["next"], page)
    _, rest = wallet.get(f"/v1/accounts/{a.replace('/', '%2F')}/history?before={page['next']}")
    check("history: the next page", [e["entry"]["amount"] for e in rest["entries"]]
          == ["3", "2", "1"] and rest["next"] is None, rest)
    for path, want in (("t:h/none/history", 404), (f"{a}/history?limit=0", 400),
                       (f"{a}/history?limit=x", 400), (f"{a}/history?before=-1", 400),
                       (f"{a}/history?colour=1", 400), (f"{a}/nothing", 404)):
        got, body = wallet.get(f"/v1/accounts/{path}")
        check(f"history: {path} is {want}", got == want and body["code"], (got, body))


def receipts(wallet, kept):
    path = wallet.folder / "receipt"

    def judge(proof):
        path.write_bytes(proof)
        return subprocess.run([AUDIT, "--unsigned", "--receipt", str(path)], capture_output=True,
                              text=True)

    for (op, _, _), data in kept.items():
        one = json.loads(data) if op != "batch" else json.loads(data)["receipts"][1]
        got, _, again = wallet.ask("GET", f"/v1/tx/{one['txid']}")
        check(f"tx: {op} has the bytes of the write's answer", got == 200 and (
            again == data if op != "batch" else json.loads(again) == one), (again, data))
        got, headers, proof = wallet.ask("GET", f"/v1/receipts/{one['txid']}")
        judged = judge(proof)
        check(f"receipt: {op} is good for ron-audit", got == 200 and judged.returncode == 0
              and headers["Content-Type"].startswith("text/plain"), judged)
        judged = judge(proof.replace(b"\nindex ", b"\nindex 1"))
        check(f"receipt: {op} for another place is not", judged.returncode == 1, judged)
    for txid, want in (("tx_" + "0" * 32, 404), ("tx_1", 404), ("e-1", 404)):
        for route in ("tx", "receipts"):
            got, body = wallet.get(f"/v1/{route}/{txid}")
            check(f"{route}: no {txid[:6]}", (got, body["code"]) == (want, "NOT_FOUND"), body)


def outcomes(wallet):
    got, r = wallet.issue("o/a", 5, key="o-1")
    _, o = wallet.get("/v1/outcome/o-1?op=issue&account=o/a")
    check("outcome: committed, with the seqs of the receipt", o == {
        "idempotency_key": "o-1", "op": "issue", "account": "o/a", "outcome": "committed",
        **{k: r[k] for k in ("ledger_seq_start", "ledger_seq_end", "ledger_root", "ts")}}, (o, r))
    for options, may in ((("--asset", "roc"), 200), (("--account", "o/"), 200),
                         (("--account", "p/"), 403)):
        got, body = wallet.get("/v1/outcome/o-1?op=issue&account=o/a",
                               token=wallet.mint_token("wallet.read", *options))
        check(f"outcome: {may} with {' '.join(options)}", got == may, body)
    for path in ("o-2?op=issue&account=o/a", "o-1?op=burn&account=o/a", "o-1?op=issue&account=o/b",
                 "o-1?op=batch&account=o/a"):
        _, o = wallet.get(f"/v1/outcome/{path}")
        check(f"outcome: {path} is unknown", o["outcome"] == "unknown", o)
    got, _, data = wallet.ask("POST", "/v1/outcome/o-3/cancel?op=issue&account=o/a")
    check("cancel: a key that was never sent", got == 200
          and json.loads(data)["outcome"] == "cancelled", data)
    refused(wallet, "a cancelled key", 422, "IDEMPOTENCY_CONFLICT", "issue", key="o-3", to="o/a",
            amount_minor="5")
    check("outcome: cancelled", wallet.get("/v1/outcome/o-3?op=issue&account=o/a")[1]["outcome"]
          == "cancelled")
    got, _, data = wallet.ask("POST", "/v1/outcome/o-1/cancel?op=issue&account=o/a")
    check("cancel: too late", (got, json.loads(data)["code"]) == (409, "CONFLICT"), data)
    for token, want in (("wallet.read", 403), ("wallet.burn", 403), ("wallet.issue", 200)):
        got, _, data = wallet.ask("POST", "/v1/outcome/o-4/cancel?op=issue&account=o/a",
                                  token=wallet.mint_token(token))
        check(f"cancel: with {token} {want}", got == want, data)
    for path in ("o-1", "o-1?op=issue", "o-1?account=o/a", "o-1?op=gift&account=o/a",
                 "a%20b?op=issue&account=o/a", "k" * 65 + "?op=issue&account=o/a"):
        got, body = wallet.get(f"/v1/outcome/{path}")
        check(f"outcome: refused {path[:30]}", (got, body["code"]) == (400, "BAD_REQUEST"), body)


def conserved(wallet):
    """What the ledger has at the end, by a program of its own."""
    _, supply = wallet.ledger.get("/supply")
    m = wallet.metrics()
    check("conservation: every answer accounted for every operation", m[
        'wallet_conservation_checks_total{outcome="fail"}'] == 0 and m[
        'wallet_conservation_checks_total{outcome="pass"}'] > 100)
    wallet.ledger.stop()
    judged = subprocess.run([AUDIT, str(wallet.ledger.data)], capture_output=True, text=True)
    check("ron-audit: the journal is good", judged.returncode == 0, judged.stdout)
    print(supply)


def main():
    with new_ledger() as ledger, Wallet(ledger) as wallet:
        black_box(wallet)
        batches(wallet)
        dry_runs(wallet)
        keys(wallet)
        racing(wallet)
        lost_reply(wallet)
        bad_input(wallet)
        capabilities(wallet)
        balances(wallet)
        histories(wallet)
        outcomes(wallet)
        kept = make_kept(wallet)
        replays(wallet, "at once", kept)
        receipts(wallet, kept)
        wallet.restart()
        wallet.ready()
        replays(wallet, "after a restart of the wallet", kept)
        receipts(wallet, kept)
        ledger.restart()
        wallet.ready(False, seconds=1)
        wallet.ready()
        replays(wallet, "after a restart of the ledger", kept)
        wallet.stop()
        with Wallet(ledger, "--wallet.idempotency_bytes=64KiB", "--wallet.shards=1") as small:
            for i in range(300):
                small.issue("evict/a", 1)
            check("eviction: answers made room", small.metrics()[
                "wallet_idempotency_evicted_total"] > 0)
            replays(small, "after eviction", kept)
            conserved(small)
    finish()


main()
