#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the binary front reads what HTTP reads, byte for byte, and cancels a key as HTTP does; and
who follows the changes of accounts misses none.

Method: frames packed by hand (ledgeroap.py). Every target that both fronts serve is asked on both,
with good and bad names and with capabilities that allow less. Then random batches of every kind of
entry, reversals and holds that expire among them, while a listener collects the names that events
tell; what each commit must have named is worked out from the export.
"""
import json
import os
import random
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import Ledger, ending_soon, entry  # noqa: E402
from ledgeroap import (APP, CANCEL_KEY, CHANGES, CHANGES_APP, INGEST, READ, Sender,  # noqa: E402
                       batch)
from oapkit import EVENT, LAGGED, SUBSCRIBE, UNSUBSCRIBE  # noqa: E402

ALICE, BOB = "t:oap/u:alice", "t:oap/u:bob/w"


# ---- reads ---------------------------------------------------------------------------------------


def normal(data):
    """A body without what belongs to the request alone."""
    try:
        found = json.loads(data)
    except ValueError:
        return data
    if isinstance(found, dict) and found.pop("corr_id", None) is not None:
        return json.dumps(found)
    return data


def both(ledger, peer, target, token=None):
    token = ledger.token if token is None else token
    http = ledger.ask("GET", target, token=token or None)
    oap = peer.ask(READ, target.encode(), cap=token.encode())
    check(f"read: {target[:70]}{'' if token == ledger.token else ' (less)'}: {http[0]} on both",
          oap[0] == http[0] and normal(oap[1]) == normal(http[2]), (http, oap))
    return http[0], http[2]


def reads(ledger, peer):
    ledger.ingest(entry("Mint", ALICE, 1000), entry("Mint", ALICE, 50, asset="usd"), idem="fund")
    for n in range(40):
        ledger.ingest(entry("Transfer", ALICE, 1, to=BOB, id=f"id/{n} x"), idem=f"key #{n}")
    ledger.ingest(entry("Hold", ALICE, 5, id="hold-1"))
    alice, bob = quote(ALICE, safe=""), quote(BOB, safe="")
    good = [f"/accounts/{alice}/balances", f"/accounts/{bob}/balances?at_seq=9",
            f"/accounts/{ALICE}/entries?limit=7", f"/accounts/{bob}/entries?before=20",
            f"/accounts/{alice}/holds", f"/accounts/{alice}/debits",
            f"/accounts/{bob}/debits?asset=usd&since=5", "/entries/3", "/supply", "/head",
            "/entries/by-id/" + quote("id/3 x", safe=""), "/outcome/" + quote("key #3", safe=""),
            "/outcome/never", "/proof/inclusion?seq=3", "/proof/consistency?from=3&to=20",
            "/tile/0/000.p/40", "/tile/entries/000.p/40", "/receipt/3", "/checkpoint"]
    for target in good:
        status, _ = both(ledger, peer, target)
        check(f"read: {target[:70]} is there", status == 200, status)
    for target in ("/nothing", "/entries/9999", "/entries/0", "/entries/x",
                   "/accounts/a%20b/balances", "/accounts/nobody/balances",
                   "/accounts/nobody/debits", f"/accounts/{alice}/entries?limit=0",
                   f"/accounts/{alice}/balances?at_seq=9999",
                   f"/accounts/{alice}/debits?asset=NO", "/proof/inclusion?seq=9999",
                   "/tile/9/999", "/receipt/9999", "/checkpoint?witnesses=x",
                   "/entries/by-id/none"):
        status, _ = both(ledger, peer, target)
        check(f"read: {target[:70]} is refused", status in (400, 404), status)
    less = ledger.mint_token("ledger.read", "--account", BOB)
    check("read: another account", both(ledger, peer, good[0], less)[0] == 403)
    check("read: the own account", both(ledger, peer, good[1], less)[0] == 200)
    for target in good:
        status, _ = both(ledger, peer, target, "")
        public = target.startswith(("/proof", "/tile/0", "/checkpoint", "/head"))
        check(f"read: {target[:70]} without capability", status == (200 if public else 401), status)
    cap = ledger.token.encode()
    for target in ("/roots?since=0", "/roots/stream", "/export", "/admin/status", "/metrics"):
        status, data = peer.ask(READ, target.encode(), cap=cap)
        check(f"read: {target} is HTTP's alone", status == 404
              and json.loads(data)["reason"] == "not_found", (status, data))
    for target in (b"", b"head", b"/he ad", b"/a\0b", b"/\xff", b"/%4", b"/" + b"a" * 4096):
        status, data = peer.ask(READ, target, cap=cap)
        check(f"read: {target[:9]} is no target", status == 400
              and json.loads(data)["reason"] == "invalid", (status, data))
    long_pages(ledger, peer, alice)


def long_pages(ledger, peer, alice):
    for _ in range(3):
        ledger.ingest(*[entry("Transfer", ALICE, 1, to=BOB, memo="m" * 200) for _ in range(300)])
    http = ledger.ask("GET", f"/accounts/{alice}/entries?limit=900")[2]
    oap = peer.ask(READ, f"/accounts/{alice}/entries?limit=900".encode(), cap=ledger.token.encode())
    check(f"read: a page of {len(http) >> 10} KiB, in pieces", oap == (200, http), len(oap[1]))
    head = json.loads(peer.ask(READ, b"/head")[1])
    status = ledger.admin("GET", "/status")[1]
    check("head: seq and root of the ledger", head["seq"] == status["seq"]
          and head["root"] == status["root"], (head, status))


def caching(ledger, bundles, paths):
    """What never changes says so; bundles are for others' caches only where reads are open."""
    for path in paths:
        shared = "public" if "entries" not in path else bundles
        status, headers, _ = ledger.ask("GET", path)
        check(f"cache: {path}: {shared}", status == 200 and headers.get_all("Cache-Control") == [
            f"{shared}, max-age=31536000, immutable"], (status, headers.items()))
    for path in ("/tile/0/999", "/tile/entries/999", "/tile/0/x", "/head"):
        status, headers, _ = ledger.ask("GET", path)
        check(f"cache: {path}: nothing of the kind",
              "immutable" not in (headers["Cache-Control"] or ""), (status, headers.items()))


def debits(ledger, peer):
    """Sums against the history."""
    rows, before = [], ""
    while before is not None:
        page = ledger.get(f"/accounts/{ALICE}/entries?limit=1000{before}")[1]
        rows += page["entries"]
        before = None if page["next"] is None else f"&before={page['next']}"
    times = sorted({r["commit_ts"] for r in rows})
    for since in (0, times[1], times[len(times) // 2], times[-1], times[-1] + 1):
        want = sum(int(r["entry"]["amount"]) for r in rows
                   if r["side"] == "account" and r["entry"]["asset"] == "roc"
                   and r["commit_ts"] >= since
                   and r["entry"]["kind"] in ("Transfer", "Burn", "Debit", "Capture"))
        found = json.loads(peer.ask(
            READ, f"/accounts/{quote(ALICE, safe='')}/debits?asset=roc&since={since}".encode(),
            cap=ledger.token.encode())[1])
        check(f"debits: {want} in {len(rows)} entries", found == {
            "account": ALICE, "asset": "roc", "since": since, "debited": str(want), "next": None},
            found)


# ---- cancel --------------------------------------------------------------------------------------


def cancel(ledger, peer):
    cap = ledger.token.encode()
    for again in range(2):
        status, data = peer.ask(CANCEL_KEY, b"gone", cap=cap)
        check(f"cancel: {again}", status == 200 and json.loads(data) == {
            "idem_id": "gone", "outcome": "cancelled"}, (status, data))
    check("cancel: HTTP knows", ledger.get("/outcome/gone")[1]["outcome"] == "cancelled")
    status, data = peer.ask(INGEST, batch([entry("Transfer", ALICE, 1, to=BOB)], "gone"), cap=cap)
    check("cancel: the key can never commit", status == 409
          and json.loads(data)["reason"] == "conflict", (status, data))
    status, data = peer.ask(CANCEL_KEY, b"fund", cap=cap)
    check("cancel: what is committed stays", status == 409
          and json.loads(data)["reason"] == "conflict", (status, data))
    for name, payload, token, want in (
        ("nothing", b"", cap, (400, "invalid")), ("too long", b"x" * 129, cap, (400, "invalid")),
        ("no capability", b"k", b"", (401, "unauth")),
        ("only reading", b"k", ledger.mint_token("ledger.read").encode(), (403, "cap_invalid")),
    ):
        status, data = peer.ask(CANCEL_KEY, payload, cap=token)
        check(f"cancel: {name}: {want}", (status, json.loads(data)["reason"]) == want,
              (status, data))
    check("cancel: none of these was", ledger.get("/outcome/k")[1]["outcome"] == "unknown")


# ---- changes -------------------------------------------------------------------------------------


def names(payload):
    """(seq, last, accounts) of an event of changes."""
    seq, last, count = struct.unpack(">QBH", payload[:11])
    at, found = 11, []
    for _ in range(count):
        size = int.from_bytes(payload[at:at + 2], "big")
        found.append(payload[at + 2:at + 2 + size].decode())
        at += 2 + size
    assert at == len(payload) <= 4000, payload
    return seq, last, found


def subscribe(ledger, peer, code=SUBSCRIBE):
    cap = ledger.token.encode() if code == SUBSCRIBE else b""  # leaving needs none
    status, data = peer.ask(code, json.dumps({"app": CHANGES_APP}).encode(), cap=cap, app=0)
    check(f"changes: control {code}", status == 200, (status, data))


def who_may_hear(ledger, address):
    """The names of accounts are for who may read them; roots are for everybody."""
    peer, names_of = Sender(address), json.dumps({"app": CHANGES_APP}).encode()
    for name, token in (("no capability", ""), ("nonsense", "abc"),
                        ("only writing", ledger.mint_token("ledger.transfer")),
                        ("one account", ledger.mint_token("ledger.read", "--account", ALICE))):
        status, data = peer.ask(SUBSCRIBE, names_of, cap=token.encode(), app=0)
        check(f"changes: {name}: refused, and the connection stays", status == 403
              and json.loads(data)["reason"] == "forbidden", (status, data))
    status, data = peer.ask(SUBSCRIBE, json.dumps({"app": APP}).encode(), app=0)
    check("commit events need no capability", (status, data) == (200, b"{}"), (status, data))
    ledger.ingest(entry("Mint", ALICE, 1))
    frame = peer.next()
    check("and are all that is told", frame.flags == EVENT and frame.app == APP
          and "root" in json.loads(frame.payload), frame)
    status, data = Sender(address).ask(SUBSCRIBE, names_of, app=0,
                                       cap=ledger.mint_token("ledger.read").encode())
    check("changes: ledger.read is enough", (status, data) == (200, b"{}"), (status, data))


def open_reads(folder):
    address = f"unix:{folder}/oap/s"
    with Ledger(f"--oap.addr={address}", "--auth.reads=open", folder=folder) as ledger:
        ledger.ingest(entry("Mint", ALICE, 1))
        caching(ledger, "public", ("/tile/0/000.p/1", "/tile/entries/000.p/1"))
        status, data = Sender(address).ask(SUBSCRIBE, json.dumps({"app": CHANGES_APP}).encode(),
                                           app=0)
        check("changes: open where reads are", (status, data) == (200, b"{}"), (status, data))


def hear(peer, until):
    """The names of each commit, up to the one that has `until` as its last entry."""
    told, pieces, seq, over = {}, 0, 0, False
    while not over or seq < until:
        frame = peer.next()
        assert frame.flags == EVENT and frame.app == CHANGES_APP and frame.code == CHANGES, frame
        seq, over, found = names(frame.payload)
        told.setdefault(seq, set()).update(found)
        pieces += 1
    return told, pieces


def expected(ledger, seqs):
    """What each of these commits must have named, from the export."""
    lines = [json.loads(x) for x in ledger.ask("GET", "/export")[2].decode().splitlines()]
    entries = [e for x in lines if x["type"] == "batch" for e in x["batch"]]
    by_id = {e["id"]: e for e in entries}
    want, ends = {s: set() for s in seqs}, sorted(seqs)
    for number, e in enumerate(entries, 1):
        if number > ends[-1]:
            break
        commit = next(s for s in ends if s >= number)
        want[commit] |= {e["account"], e.get("to", e["account"])}
        if e["kind"] == "Reverse":
            want[commit].add(by_id[e["ref"]].get("to", e["account"]))
    return want, entries


def random_batch(accounts, holds, paid):
    rows = []
    for _ in range(random.randint(1, 40)):
        a, b = random.sample(accounts, 2)
        kind = random.choice(["Transfer"] * 6 + ["Mint", "Burn", "Hold", "Capture", "Release",
                                                 "Reverse"])
        if kind == "Transfer":
            rows.append(entry(kind, a, 1, to=b))
            paid.append(rows[-1])
        elif kind in ("Mint", "Burn"):
            rows.append(entry(kind, a, 1))
        elif kind == "Hold":
            rows.append(entry(kind, a, 1))
            holds.append(rows[-1])
        elif kind == "Reverse" and paid:
            e = paid.pop(random.randrange(len(paid)))
            rows.append(entry(kind, e["account"], 1, ref=e["id"]))
        elif kind in ("Capture", "Release") and holds:
            e = holds.pop(random.randrange(len(holds)))
            to = b if b != e["account"] else a
            rows.append(entry(kind, e["account"], 1, ref=e["id"],
                              **({"to": to} if kind == "Capture" else {})))
    return rows


def events_beside_commits(ledger):
    """Events on the binary front that are not those of commits."""
    buses = {b["name"]: b["samples"]["bus_published_total"]
             for b in json.loads(ledger.ask("GET", "/debug/topology")[2])["buses"]}
    return buses["oap.events"] - buses["root_pub"]


def changes(ledger, address):
    listener, sender = Sender(address), Sender(address)
    cap = ledger.token.encode()
    status, _ = sender.ask(1, b"", cap=cap, app=CHANGES_APP)
    check("changes: the app takes no requests", status == 404, status)
    accounts = [f"t:c/u:{n}/{'w' * (n % 60)}" for n in range(300)]
    status, data = sender.ask(INGEST, batch([entry("Mint", a, 10 ** 6) for a in accounts]), cap=cap)
    check("changes: funded before anybody listens", status == 200, (status, data))
    check("changes: while nobody listens none are made", eventually(
        lambda: events_beside_commits(ledger) == 0), events_beside_commits(ledger))
    start = json.loads(sender.ask(READ, b"/head")[1])["seq"]
    subscribe(ledger, listener)
    holds, paid, accepted = [], [], 0
    for _ in range(60):
        rows = random_batch(accounts, holds, paid)
        if rows:
            accepted += sender.ask(INGEST, batch(rows), cap=cap)[0] == 200
    ending_soon(lambda at_ms: sender.ask(INGEST, batch(
        [entry("Hold", accounts[n], 1, expires=at_ms) for n in range(9)]), cap=cap))
    whole = [entry("Transfer", accounts[n], 1, to=accounts[n + 1]) for n in range(299)]
    sender.ask(INGEST, batch(whole), cap=cap)
    check("changes: the holds expire", eventually(lambda: b'"Expire"' in ledger.ask(
        "GET", f"/accounts/{quote(accounts[8], safe='')}/entries?limit=1")[2]), "none did")
    head = json.loads(sender.ask(READ, b"/head")[1])["seq"]
    told, pieces = hear(listener, head)
    want, entries = expected(ledger, [start, *told])
    want.pop(start)
    wrong = [s for s in told if told[s] != want[s]]
    kinds = {e["kind"] for e in entries[start:]}
    check(f"changes: {len(told)} commits in {pieces} events named exactly their accounts", not wrong
          and pieces > len(told), [(s, told[s] ^ want[s]) for s in wrong[:3]])
    check("changes: every kind of entry was there", kinds >= {
        "Transfer", "Mint", "Burn", "Hold", "Capture", "Release", "Reverse", "Expire"}
        and accepted > 40, (kinds, accepted))
    subscribe(ledger, listener, UNSUBSCRIBE)
    sender.ask(INGEST, batch([entry("Mint", accounts[0], 1)]), cap=cap)
    status, data = listener.ask(READ, b"/head")
    check("changes: who has unsubscribed hears no more", status == 200, (status, data))
    check("changes: and none are made", eventually(
        lambda: events_beside_commits(ledger) == pieces), (events_beside_commits(ledger), pieces))
    lag(ledger, listener, sender, accounts)


def lag(ledger, listener, sender, accounts):
    """A subscriber that does not read is told that it missed something."""
    subscribe(ledger, listener)
    cap, rows = ledger.token.encode(), 0
    gone = threading.Event()

    def load():
        while not gone.is_set():
            sender.ask(INGEST, batch([entry("Transfer", accounts[n], 1, to=accounts[n + 1])
                                      for n in range(299)]), cap=cap)

    worker = threading.Thread(target=load)
    worker.start()
    check("changes: some were lost for one that does not read", eventually(
        lambda: any(x.startswith("bus_lagged_total") and "oap" in x and not x.endswith(" 0")
                    for x in ledger.ask("GET", "/metrics")[2].decode().splitlines()), 60), "none")
    frame = listener.next()
    while frame.flags & EVENT and frame.app == CHANGES_APP:
        rows += 1
        frame = listener.next()
    gone.set()
    worker.join()
    check(f"changes: LAGGED after {rows} events", frame.flags == EVENT and frame.app == 0
          and frame.code == LAGGED and json.loads(frame.payload)["app"] == CHANGES_APP
          and json.loads(frame.payload)["missed"] > 0, frame)


# ---- how many entries ----------------------------------------------------------------------------


def bound():
    with tempfile.TemporaryDirectory(prefix="ron-oap-") as folder:
        address = f"unix:{folder}/oap/s"
        with Ledger(f"--oap.addr={address}", "--engine.batch_max_entries=2",
                    folder=folder) as ledger:
            status, body = ledger.ingest(*[entry("Mint", ALICE, 1) for _ in range(3)])
            check("bound: three entries over HTTP where two are allowed", status == 413
                  and body["reason"] == "too_large" and "at most 2" in str(body), body)
            check("bound: change nothing", ledger.get("/head")[1]["seq"] == 0)
            status, body = ledger.ingest(*[entry("Mint", ALICE, 1) for _ in range(2)])
            check("bound: two", status == 200, body)
            status, data = Sender(address).ask(
                INGEST, batch([entry("Mint", ALICE, 1) for _ in range(3)]),
                cap=ledger.token.encode())
            check("bound: over OAP the frame is the bound", status == 200, data)


def main():
    seed = int(os.environ.get("RON_SEED", time.time_ns()))
    print(f"seed: RON_SEED={seed} repeats this run")
    random.seed(seed)
    with tempfile.TemporaryDirectory(prefix="ron-oap-") as folder:
        address = f"unix:{folder}/oap/s"
        with Ledger(f"--oap.addr={address}", "--governance.reversible_bridges=allow",
                    folder=folder) as ledger:
            peer = Sender(address)
            reads(ledger, peer)
            caching(ledger, "private", ("/tile/0/000", "/tile/0/000.p/7", "/tile/1/000.p/3",
                                        "/tile/entries/000", "/tile/entries/000.p/7"))
            debits(ledger, peer)
            cancel(ledger, peer)
            changes(ledger, address)
            who_may_hear(ledger, address)
    bound()
    with tempfile.TemporaryDirectory(prefix="ron-oap-") as folder:
        open_reads(folder)
    finish()


main()
