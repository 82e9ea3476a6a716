#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a ledger does what its documents say, over HTTP, as a stranger would use it.

Method: one ledger on disk and one in memory get the same entries. Every route of api/ledger.yaml is
asked; refusals have typed answers and change nothing (the specification's whole list of bad input:
89-ledger-bad-input.py); a restart changes nothing either.
"""
import base64
import json
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import Ledger, ending_soon, entry  # noqa: E402

ALICE, BOB, SHOP = "t:demo/u:alice/w", "t:demo/u:bob/w", "t:demo/shop"
ROOT = re.compile(r"^[0-9a-f]{64}$")


def value(ledger):
    """What must not change when something is refused."""
    return [ledger.get("/supply")[1], ledger.balance(ALICE), ledger.balance(BOB),
            ledger.get("/roots?since=0&limit=1000")[1]["next"]]


def refused(ledger, name, status, reason, *entries, before=None, **more):
    before = before or value(ledger)
    got, body = ledger.ingest(*entries, **more)
    check(f"refused: {name}", got == status and body.get("reason") == reason
          and {"code", "message", "retryable", "corr_id"} <= body.keys()
          and value(ledger) == before, (got, body))
    if "accepted" in body:  # what never came to a prevalidator has the plain envelope
        head = ledger.get("/head")[1]
        check(f"refused: {name}: the root is that of the head", body["new_root"] == head["root"],
              (body, head))
    return body


def life(ledger):
    got, body = ledger.ingest(entry("Mint", ALICE, 1000), entry("Mint", BOB, 50))
    check("mint: accepted with seqs and root", got == 200 and body["accepted"]
          and (body["seq_start"], body["seq_end"]) == (1, 2) and ROOT.match(body["new_root"])
          and body["reasons"] == [], body)
    got, body = ledger.ingest(entry("Transfer", ALICE, 100, to=BOB, memo="for lunch"))
    check("transfer: moves", got == 200 and ledger.balance(ALICE) == (900, 0)
          and ledger.balance(BOB) == (150, 0), body)
    hold = entry("Hold", ALICE, 300)
    got, _ = ledger.ingest(hold)
    check("hold: sets aside", got == 200 and ledger.balance(ALICE) == (600, 300))
    got, _ = ledger.ingest(entry("Capture", ALICE, 100, to=SHOP, ref=hold["id"]))
    check("capture: in part", got == 200 and ledger.balance(ALICE) == (600, 200)
          and ledger.balance(SHOP) == (100, 0))
    got, found = ledger.get(f"/accounts/{ALICE}/holds")
    check("holds: what remains is told", got == 200 and [
        (h["id"], h["remaining"]) for h in found["holds"]] == [(hold["id"], "200")], found)
    got, _ = ledger.ingest(entry("Release", ALICE, 200, ref=hold["id"]))
    check("release: available again", got == 200 and ledger.balance(ALICE) == (800, 0))
    got, _ = ledger.ingest(entry("Debit", ALICE, 30), entry("Credit", BOB, 30))
    check("debit and credit: balance within the batch", got == 200
          and ledger.balance(BOB) == (180, 0))
    got, _ = ledger.ingest(entry("Burn", BOB, 80))
    check("burn: supply shrinks", got == 200 and ledger.get("/supply")[1]["assets"]
          == [{"asset": "roc", "supply": "970"}], ledger.get("/supply"))
    got, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB), query="?dry_run=true")
    check("dry run: accepted and nothing happens", got == 200 and body["accepted"]
          and ledger.balance(ALICE) == (770, 0), body)
    got, _ = ending_soon(lambda at_ms: ledger.ingest(entry("Hold", ALICE, 70, expires=at_ms)))
    check("hold with expiry: released by the ledger itself", got == 200 and eventually(
        lambda: ledger.balance(ALICE) == (770, 0)), ledger.balance(ALICE))
    return hold


def repetitions(ledger):
    e = entry("Transfer", ALICE, 5, to=BOB)
    first = ledger.ask("POST", "/ingest", json.dumps({"batch": [e], "idem_id": "lunch-1"}))
    again = ledger.ask("POST", "/ingest", json.dumps({"batch": [e], "idem_id": "lunch-1"}))
    check("repeated: the same bytes", first[0] == again[0] == 200 and first[2] == again[2]
          and again[1]["Idempotent-Replayed"] == "true", (first, again))
    third = ledger.ask("POST", "/ingest", json.dumps({"batch": [e]}))
    check("repeated without its idem_id: another request, and not applied again", third[0] == 409
          and json.loads(third[2])["reason"] == "idem_mismatch", third)
    e = entry("Transfer", ALICE, 5, to=BOB)
    pair = [ledger.ask("POST", "/ingest", json.dumps({"batch": [e]})) for _ in range(2)]
    check("repeated, both without idem_id: the same bytes by its id", pair[0][0] == 200
          and pair[0][2] == pair[1][2], pair)
    refused(ledger, "same idem_id, other body", 409, "idem_mismatch",
            entry("Transfer", ALICE, 6, to=BOB), idem="lunch-1")
    refused(ledger, "same id, other body", 409, "idem_mismatch",
            entry("Transfer", ALICE, 6, to=BOB, id=e["id"]))
    refused(ledger, "same nonce, other body", 409, "idem_mismatch",
            entry("Transfer", ALICE, 7, to=BOB, nonce=e["nonce"]))
    got, found = ledger.get("/outcome/lunch-1")
    check("outcome: committed", got == 200 and found["outcome"] == "committed", found)
    got, found = ledger.get("/outcome/never-sent")
    check("outcome: unknown", got == 200 and found["outcome"] == "unknown", found)
    status, _, data = ledger.ask("POST", "/outcome/never-sent/cancel", "")
    check("cancel: taken", status == 200 and json.loads(data)["outcome"] == "cancelled", data)
    refused(ledger, "cancelled key", 409, "conflict", entry("Transfer", ALICE, 1, to=BOB),
            idem="never-sent")
    got, found = ledger.get("/outcome/never-sent")
    check("outcome: cancelled", found["outcome"] == "cancelled", found)
    status, _, data = ledger.ask("POST", "/outcome/lunch-1/cancel", "")
    check("cancel: a committed key stays", status == 409, data)


def just_now(ledger):
    """What was acknowledged is found at once, also where the index, which runs behind, has it not
    yet: nothing here waits between an answer and the next question."""
    ledger.ingest(entry("Mint", ALICE, 10000))
    for count in (9, 1024):
        paid = [entry("Transfer", ALICE, 1, to=BOB) for _ in range(count)]
        status, body = ledger.ingest(*paid)
        undo = [entry("Reverse", ALICE, 1, ref=e["id"]) for e in paid]
        got, found = ledger.ingest(*undo)
        check(f"just now: {count} entries are reversed by one batch", status == got == 200,
              (body, found))
    ids = ["just-1", "just-2"]
    status, body = ledger.ingest(*(entry("Transfer", ALICE, 1, to=BOB, id=i) for i in ids),
                                 idem=ids[1])
    got, found = ledger.get(f"/entries/by-id/{ids[1]}")
    check("just now: an id that is the idem_id of its batch too", status == got == 200
          and found["entry"]["id"] == ids[1], (body, found))
    got, found = ledger.ingest(entry("Reverse", ALICE, 1, ref=ids[1]))
    check("just now: such an entry is reversed", got == 200, found)
    ledger.ingest(entry("Transfer", ALICE, 1, to=BOB, id="just-3"))
    status, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB), idem="just-3")
    got, found = ledger.get("/outcome/just-3")
    check("just now: an idem_id that an older entry has as its id", status == got == 200
          and found["outcome"] == "committed" and found["seq_start"] == body["seq_start"],
          (body, found))


def cancelled_id(ledger):
    """A key that was cancelled is no idem_id for ever; as the id of an entry it is as good as any
    other, and as unique."""
    status, _, data = ledger.ask("POST", "/outcome/foo/cancel", "")
    e = entry("Transfer", ALICE, 1, to=BOB, id="foo")
    first = ledger.ask("POST", "/ingest", json.dumps({"batch": [e]}))
    check("cancelled key: an entry may have it as its id", status == first[0] == 200,
          (data, first))
    again = ledger.ask("POST", "/ingest", json.dumps({"batch": [e]}))
    check("cancelled key: repeated, the same bytes", again[0] == 200 and again[2] == first[2],
          again)
    refused(ledger, "the id of a cancelled key, other body", 409, "idem_mismatch",
            entry("Transfer", ALICE, 2, to=BOB, id="foo"))
    refused(ledger, "cancelled key, after an entry with that id", 409, "conflict",
            entry("Transfer", ALICE, 1, to=BOB), idem="foo")
    got, found = ledger.get("/outcome/foo")
    check("cancelled key: stays cancelled", got == 200 and found["outcome"] == "cancelled", found)


def bad_input(ledger, hold):
    good = entry("Transfer", ALICE, 1, to=BOB)
    for name, status, reason, e in (
        ("unknown member", 400, "invalid", {**good, "colour": "red"}),
        ("unknown kind", 400, "unknown_kind", {**good, "kind": "Gift"}),
        ("amount with a zero in front", 400, "invalid", {**good, "amount": "01"}),
        ("amount with a sign", 400, "invalid", {**good, "amount": "-1"}),
        ("amount as a number", 400, "invalid", {**good, "amount": 1}),
        ("amount zero", 400, "invalid", {**good, "amount": "0"}),
        ("amount above 128 bits", 400, "invalid", {**good, "amount": str(2 ** 128)}),
        ("asset in capitals", 400, "invalid", {**good, "asset": "ROC"}),
        ("to oneself", 400, "invalid", {**good, "to": ALICE}),
        ("capture without ref", 400, "invalid", entry("Capture", ALICE, 1, to=BOB)),
        ("nonce that is not base64", 400, "invalid", {**good, "nonce": "!!"}),
        ("ts long ago", 400, "invalid", {**good, "ts": 1}),
        ("ts in the future", 400, "invalid", {**good, "ts": int(time.time() * 1000) + 60000}),
        ("more than there is", 409, "insufficient_funds",
         entry("Transfer", ALICE, 10 ** 9, to=BOB)),
        ("another asset than one has", 409, "insufficient_funds",
         entry("Transfer", ALICE, 1, to=BOB, asset="gold")),
        ("capture of a hold that is over", 404, "not_found",
         entry("Capture", ALICE, 1, to=BOB, ref=hold["id"])),
        ("account_nonce out of turn", 409, "nonce_conflict",
         entry("Transfer", ALICE, 1, to=BOB, account_nonce=99)),
        ("reversal while disabled", 403, "policy_denied",
         entry("Reverse", ALICE, 1, ref=hold["id"])),
        ("the ledger's own kind", 400, "unknown_kind", entry("Expire", ALICE, 1, ref=hold["id"])),
    ):
        refused(ledger, name, status, reason, e)
    refused(ledger, "debit without credit", 400, "invalid", entry("Debit", ALICE, 1))
    refused(ledger, "an id twice in a batch", 409, "conflict", good,
            {**entry("Transfer", ALICE, 1, to=BOB), "id": good["id"]})
    body = refused(ledger, "second of two", 409, "insufficient_funds",
                   entry("Transfer", ALICE, 1, to=BOB), entry("Transfer", BOB, 10 ** 9, to=ALICE))
    check("refused: which entry", body["reasons"][0]["idx"] == 1, body)
    refused(ledger, "1025 entries", 413, "too_large",
            *[entry("Transfer", ALICE, 1, to=BOB) for _ in range(1025)])
    status, _, data = ledger.ask("POST", "/ingest", b"x" * (1 << 20) + b"y")
    check("refused: body above 1 MiB", status == 413, data)
    status, _, data = ledger.ask("POST", "/ingest", "{}", headers={"Content-Type": "text/plain"})
    check("refused: wrong content type", status == 415, data)
    for text in ("", "{", "[]", '{"batch":[]}', '{"batch":[1]}', '{"batch":[{}],"x":1}'):
        status, _, data = ledger.ask("POST", "/ingest", text)
        check(f"refused: {text!r}", status == 400, data)


def capabilities(ledger):
    e = entry("Transfer", ALICE, 2, to=BOB)
    other = ledger.mint_token("ledger.transfer", "--account", "t:other")
    small = ledger.mint_token("ledger.transfer", "--max", "1")
    past = ledger.mint_token("ledger.transfer", "--exp", "1000000000")
    mint_only = ledger.mint_token("ledger.mint")
    elsewhere = ledger.token.replace(ledger.token[-8:], "AAAAAAAA")
    refused(ledger, "no token", 401, "unauth", e, token=None)
    refused(ledger, "a broken token", 401, "unauth", e, token=elsewhere)
    refused(ledger, "an expired token", 401, "unauth", e, token=past)
    refused(ledger, "another account", 403, "cap_invalid", e, token=other)
    refused(ledger, "above the token's ceiling", 403, "cap_invalid", e, token=small)
    refused(ledger, "another scope", 403, "cap_invalid", e, token=mint_only)
    status, body = ledger.get("/supply", token=None)
    check("reading needs a capability", status == 401, body)
    status, body = ledger.get(f"/accounts/{ALICE}/balances", token=mint_only)
    check("reading needs the scope", status == 403, body)
    status, body = ledger.get("/receipt/1", token=None)
    check("a receipt holds its entry, so it needs a capability too", status == 401, body)
    status, body = ledger.get("/roots", token=None)
    check("roots are public", status == 200, body)


def reading(ledger):
    status, page = ledger.get(f"/accounts/{ALICE}/entries?limit=3")
    seqs = [e["entry"]["seq"] for e in page["entries"]]
    check("history: newest first", status == 200 and len(seqs) == 3
          and seqs == sorted(seqs, reverse=True), page)
    rest = []
    while page["next"] is not None:
        page = ledger.get(f"/accounts/{ALICE}/entries?limit=100&before={page['next']}")[1]
        rest += [e["entry"]["seq"] for e in page["entries"]]
    check("history: pages meet", rest and max(rest) < min(seqs) and 1 in rest, rest)
    status, found = ledger.get(f"/accounts/{ALICE}/balances?at_seq=3")
    check("balance at a seq", status == 200 and found["balances"][0]["available"] == "900", found)
    status, one = ledger.get("/entries/3")
    check("entry by seq", status == 200 and "for lunch" in json.dumps(one), one)
    given = re.search(r'"id": ?"(e-[^"]+)"', json.dumps(one))[1]
    status, same = ledger.get(f"/entries/by-id/{given}")
    check("entry by id", status == 200 and same == one, same)
    for path in ("/entries/99999", "/entries/by-id/none", "/accounts/nobody/balances",
                 "/receipt/99999", "/accounts/x/other"):
        check(f"not found: {path}", ledger.get(path)[0] == 404, ledger.get(path))
    for path in ("/entries/0", "/entries/x", "/accounts/%00/balances",
                 f"/accounts/{ALICE}/entries?limit=0",
                 "/roots?since=x", "/proof/inclusion?seq=x", "/export?format=xml"):
        check(f"malformed: {path}", ledger.get(path)[0] == 400, ledger.get(path))
    status, proof = ledger.get("/proof/inclusion?seq=3")
    check("inclusion proof", status == 200, proof)
    status, proof = ledger.get("/proof/consistency?from=2")
    check("consistency proof", status == 200, proof)
    status, note = ledger.get("/checkpoint")
    check("checkpoint: a signed note",
          status == 200 and b"\n\n\xe2\x80\x94 ron-ledger/" in note, note)
    status, receipt = ledger.get("/receipt/3")
    check("receipt", status == 200 and receipt.startswith(b"c2sp.org/tlog-proof@v1"), receipt)
    status, tile = ledger.get(f"/tile/0/000.p/{value(ledger)[3]}")
    check("tile", status == 200 and len(tile) % 32 == 0, tile)
    status, text = ledger.get("/export?format=hledger")
    check("export", status == 200 and b"roc" in text.lower(), text[:200])


def freezing(ledger):
    status, _, data = ledger.ask("POST", f"/accounts/{BOB}/freeze", "")
    check("freeze", status == 200, data)
    refused(ledger, "frozen account", 403, "policy_denied", entry("Transfer", BOB, 1, to=ALICE))
    refused(ledger, "to a frozen account", 403, "policy_denied",
            entry("Transfer", ALICE, 1, to=BOB))
    ledger.restart()
    refused(ledger, "frozen after a restart", 403, "policy_denied",
            entry("Transfer", BOB, 1, to=ALICE))
    status, _, data = ledger.ask("POST", f"/accounts/{BOB}/unfreeze", "")
    got, _ = ledger.ingest(entry("Transfer", BOB, 1, to=ALICE))
    check("unfreeze", status == 200 and got == 200, data)


def operator(ledger):
    status, found = ledger.admin("GET", "/status")
    check("status", status == 200 and found["mode"] == "running", found)
    status, _ = ledger.get("/admin/status")
    check("admin routes are not there over TCP", status == 404)
    before = value(ledger)
    status, found = ledger.admin("POST", "/safe-mode", "drill")
    check("safe mode: entered", status == 200, found)
    refused(ledger, "safe mode", 503, "safe_mode", entry("Transfer", ALICE, 1, to=BOB),
            before=before)
    check("safe mode: reads go on", value(ledger) == before)
    status, found = ledger.get("/readyz", token=None)
    check("safe mode: not ready, and says why", status == 503 and "safe_mode" in found["missing"],
          found)
    metrics = ledger.get("/metrics", token=None)[1].decode()
    check("safe mode: gauge", "\nledger_safe_mode 1" in metrics, metrics[:300])
    ledger.restart()
    refused(ledger, "safe mode survives a restart", 503, "safe_mode",
            entry("Transfer", ALICE, 1, to=BOB), before=before)
    status, found = ledger.admin("POST", "/resume", "")
    check("resume: after a full verification", status == 200 and found["mode"] == "running", found)
    got, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB))
    check("resume: writes go on", got == 200, body)
    status, found = ledger.admin("POST", "/resume", "")
    check("resume: not twice", status == 409, found)


def same_after_restart(ledger):
    before = value(ledger)
    roots = ledger.get("/roots?since=0&limit=1000")[1]
    ledger.restart()
    after = ledger.get("/roots?since=0&limit=1000")[1]
    check("restart: the same state and roots", value(ledger) == before
          and after["roots"][-1]["root"] == roots["roots"][-1]["root"], (before, value(ledger)))
    e = entry("Transfer", ALICE, 1, to=BOB)
    first = ledger.ask("POST", "/ingest", json.dumps({"batch": [e], "idem_id": "r-1"}))
    ledger.restart()
    again = ledger.ask("POST", "/ingest", json.dumps({"batch": [e], "idem_id": "r-1"}))
    check("restart: a repetition gets the same bytes", first[2] == again[2], (first, again))


def no_trace(folder):
    with Ledger(amnesia=True) as ledger:
        ledger.ingest(entry("Mint", ALICE, 10))
        check("amnesia: works", ledger.balance(ALICE) == (10, 0))
        files = [p for p in ledger.folder.rglob("*") if p.is_file()]
        check("amnesia: no file but the keys it was given",
              all(p.name.startswith("cap.keys") for p in files), files)


def main():
    with Ledger() as ledger:
        hold = life(ledger)
        repetitions(ledger)
        cancelled_id(ledger)
        bad_input(ledger, hold)
        capabilities(ledger)
        reading(ledger)
        freezing(ledger)
        operator(ledger)
        same_after_restart(ledger)
        data = sorted(p.name for p in ledger.data.iterdir())
        open_ones = [str(p) for p in ledger.data.rglob("*") if p.stat().st_mode & 0o077]
        check("files: private", not open_ones, (open_ones, data))
    with Ledger("--governance.reversible_bridges=allow") as ledger:
        just_now(ledger)
    no_trace(None)
    finish()


main()
