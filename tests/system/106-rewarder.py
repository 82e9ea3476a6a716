#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the rewarder as its users meet it: a run is computed, published, proven and settled once;
every answer of the table of cases is the right one; bad requests change nothing.
Method: `ron rewarder` beside a real `ron ledger`; payouts are computed once more in Python and
compared with what is published and with the balances in the ledger."""
import json
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from holdkit import held_behind  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from rewarderkit import Rewarder, b3, canonical, policy, shares, snapshot  # noqa: E402
from walletkit import new_ledger  # noqa: E402

ROWS = [("acct_a", 100, 50, 10), ("acct_b", 200, 0, 20)]
POOL = 1000


def code(answer):
    return answer[0], answer[1].get("code"), answer[1].get("reason")


def refused_and_gone(r, other):
    """The scheduler stands still right behind its refusal."""
    try:
        with held_behind(r, "scheduler", lambda: r.compute("interop-epoch-1", other)) as said:
            found = r.get("/rewarder/epochs/interop-epoch-1")[0]
            check("who was refused does not see a run that is none", (said[0], found) == (409, 200),
                  (said, found))
    except PermissionError:
        print("left out: ptrace is not allowed")


def runs_and_settles(r):
    snap, p = snapshot(ROWS, POOL), policy()
    body = r.request(snap, p)
    status, m = r.compute("interop-epoch-1", body)
    check("golden: a run is sealed", status == 200 and m["status"] == "ok", (status, m))
    check("golden: the snapshot's id",
          m["inputs_cid"] ==
          "b3:81d428e1df7c29a8443467db8ed59ee2628ac43acd47c692fbc3c23ee495606d", m)
    t = m["totals"]
    check("golden: totals", (t["payout_minor_units"], t["residual_minor_units"]) == ("999", "1"), t)
    check("golden: payouts", r.payouts("interop-epoch-1") == {"acct_a": 356, "acct_b": 643}, "")
    done = r.settled("interop-epoch-1")
    check("it is settled", done["state"] == "emitted" and done["intents_done"] == 2, done)
    check("the ledger has paid", [r.ledger.balance(a)[0] for a in ("acct_a", "acct_b")] ==
          [356, 643], "")
    again = r.compute("interop-epoch-1", body)
    check("the same again is 200 with the same bytes", again == (200, m), again)
    check("and pays nobody twice", r.ledger.balance("acct_a")[0] == 356, "")
    shuffled = r.request(snapshot(ROWS[::-1], POOL), p)
    check("rows in another order are the same run",
          r.compute("interop-epoch-1", shuffled) == (200, m), "")
    other = r.compute("interop-epoch-1", r.request(snapshot(ROWS, 7), p))
    check("another run of the epoch is 409", code(other) == (409, "CONFLICT", "conflict"), other)
    status, proof = r.get("/rewarder/epochs/interop-epoch-1/payouts/acct_a")
    check("a payee has a proof", status == 200 and proof["amount_minor_units"] == "356", proof)
    status, manifest = r.get("/rewarder/epochs/interop-epoch-1")
    check("GET serves the manifest", (status, manifest) == (200, m), manifest)
    refused_and_gone(r, r.request(snapshot(ROWS, 7), p))
    status, known = r.get("/rewarder/policy/policy:v1")
    check("GET serves the policy", status == 200 and known == p, known)


def refuses(r):
    snap, p = snapshot(ROWS, POOL), policy()
    good = r.request(snap, p)
    cases = [
        ("no token", dict(token=None), good, (401, "UNAUTHENTICATED", "unauth")),
        ("another scope", dict(token=r.mint_token("rewarder.inspect")), good,
         (403, "UNAUTHORIZED", "scope")),
        ("another audience", dict(token=r.mint_token("rewarder.run", aud="wallet")), good,
         (403, "UNAUTHORIZED", "scope")),
        ("unknown member", {}, {**good, "tenant": "x"}, (400, "BAD_REQUEST", "schema")),
        ("no inputs_cid", {}, {k: v for k, v in good.items() if k != "inputs_cid"},
         (400, "BAD_REQUEST", "schema")),
        ("upper case in an id", {}, {**good, "policy_hash": good["policy_hash"].upper()},
         (400, "BAD_REQUEST", "schema")),
        ("another snapshot", {}, {**good, "inputs_cid": "b3:" + "0" * 64},
         (400, "BAD_REQUEST", "cid_mismatch")),
        ("another policy", {}, {**good, "policy_hash": "b3:" + "0" * 64},
         (400, "BAD_REQUEST", "policy_invalid")),
        ("a policy nobody knows", {}, {k: v for k, v in {**good, "policy_id": "none"}.items()
                                       if k != "policy"}, (404, "NOT_FOUND", "policy_missing")),
        ("inputs nobody knows", {}, {**{k: v for k, v in good.items() if k != "snapshot"},
                                     "inputs_cid": "b3:" + "1" * 64},
         (404, "NOT_FOUND", "inputs_missing")),
        ("a pool that is a number", {}, {**good, "snapshot": {**snap, "pool_minor_units": 1000}},
         (400, "BAD_REQUEST", "schema")),
        ("an account twice", {}, r.request(snapshot(ROWS + ROWS[:1], POOL), p),
         (400, "BAD_REQUEST", "schema")),
        ("an unsigned protocol pool", {}, r.request(snap, policy(funding_source="protocol_pool")),
         (400, "BAD_REQUEST", "policy_invalid")),
        ("an account that the ledger does not know", {}, r.request(snapshot(
            [("a.b", 1, 1, 1)], POOL), p), (400, "BAD_REQUEST", "schema")),
        ("an account that pays itself", {}, r.request(
            snapshot([("pool", 1, 1, 1)], POOL),
            policy(id="policy:pool", funding_account="pool")), (400, "BAD_REQUEST", "schema")),
        ("a residual from nowhere", {}, {**good, "carry_from": "nowhere"},
         (404, "NOT_FOUND", "not_found")),
    ]
    for name, how, body, wanted in cases:
        found = r.compute("bad", body, **how)
        check(f"refused: {name}", code(found) == wanted, found)
    check("refused: a bad epoch", code(r.compute("a%2Fb", good))[0] in (400, 404), "")
    check("refused: not JSON", r.compute("bad", good, headers={"Content-Type": "text/plain"})[0] ==
          415, "")
    check("nothing is left of them", r.get("/rewarder/epochs/bad/settlement")[0] == 404, "")
    # Not much above it: what is sent after a refusal is read on only so far.
    big = {**good, "notes": "x" * (1 << 20)}
    check("a body above the limit is 413", r.compute("bad", big)[0] == 413, "")


def takes_large_inputs(r):
    rows = [(f"node-{i:05}", i + 1, i * 7, i % 60) for i in range(20000)]
    snap, p = snapshot(rows, 10**12), policy()
    lines = [json.dumps({k: v for k, v in snap.items() if k != "contributions"})]
    lines += [json.dumps(c) for c in snap["contributions"]]
    status, _, data = r.ask("PUT", "/rewarder/inputs", "\n".join(lines) + "\n",
                            headers={"Content-Type": "application/x-ndjson"})
    stored = json.loads(data)
    check("a large snapshot is stored by its id", status == 201 and stored["rows"] == len(rows) and
          stored["inputs_cid"] == b3(canonical(snap)), stored)
    status, m = r.compute("large", r.request(snap, p, inline=False))
    wanted, residual = shares(rows, 10**12)
    check("and computed by it", status == 200 and
          m["totals"]["residual_minor_units"] == str(residual), m)
    check("with the payouts of plain integers", r.payouts("large") == wanted, "")
    r.settled("large")
    check("and settled", r.ledger.balance("node-00500")[0] == wanted["node-00500"], "")
    status, _, data = r.ask("PUT", "/rewarder/inputs", "{\"produced_at_millis\":1}\n{}\n",
                            headers={"Content-Type": "application/x-ndjson"})
    check("a bad upload names what is wrong", status == 400 and b"pool_minor_units" in data, data)


def dry_runs_lock_nothing(r):
    p = policy()
    body = r.request(snapshot(ROWS, 500), p, dry_run=True)
    status, m = r.compute("dry", body)
    check("a dry run answers", status == 200 and m["totals"]["pool_minor_units"] == "500", m)
    check("it is kept apart", r.get("/rewarder/epochs/dry")[0] == 404 and
          r.get("/rewarder/epochs/dry?dry_run=true") == (200, m), "")
    status, live = r.compute("dry", r.request(snapshot(ROWS, 600), p))
    check("and locks nothing", status == 200 and live["totals"]["pool_minor_units"] == "600", live)


def one_job_of_many_posts(r):
    body = r.request(snapshot(ROWS, 4321), policy())
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(r.compute("crowd", body, query="")))
               for _ in range(100)]
    before = r.metrics()['reward_runs_total{status="ok"}']
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    r.settled("crowd")
    after = r.metrics()['reward_runs_total{status="ok"}']
    check("a hundred posts are one job", after - before == 1, (before, after))
    check("all were answered 200 or 202", {a[0] for a in answers} <= {200, 202}, answers[:3])


def carries_and_quarantines(r):
    p = policy(id="policy:carry", residual="carry")
    status, one = r.compute("c1", r.request(snapshot(ROWS, POOL), p))
    check("a residual is carried", status == 200 and
          one["totals"]["residual_minor_units"] == "1", one)
    status, two = r.compute("c2", r.request(snapshot(ROWS, POOL, 2), p, carry_from="c1"))
    check("into the next epoch", status == 200 and
          two["totals"]["offered_minor_units"] == "1001", two)
    third = r.compute("c3", r.request(snapshot(ROWS, POOL, 3), p, carry_from="c1"))
    check("and only once", code(third)[:2] == (409, "CONFLICT"), third)
    before = r.metrics()["quarantine_total"]
    worst = r.compute("c4", r.request(snapshot(ROWS, 2**128 - 1, 4), p, carry_from="c2"))
    check("a sum above 128 bits is quarantined", code(worst) == (409, "QUARANTINED", "invariant"),
          worst)
    check("counted", eventually(lambda: r.metrics()["quarantine_total"] == before + 1), "")
    check("readiness tells it", r.readyz()[1]["degraded"] and
          r.readyz()[1]["causes"].get("quarantine"), r.readyz())
    s = r.get("/rewarder/epochs/c4/settlement")[1]
    check("and nothing is paid of it", s["state"] == "quarantined" and s["intents"] == 0, s)
    check("it does not go away by asking", r.compute("c4", r.request(
        snapshot(ROWS, 2**128 - 1, 4), p, carry_from="c2"))[0] == 409, "")
    status, _, data = r.ask("POST", "/rewarder/epochs/c4/quarantine/release", "{}",
                            token=r.mint_token("rewarder.run"))
    check("a release needs its own scope", status == 403, data)
    status, _, data = r.ask("POST", "/rewarder/epochs/c4/quarantine/release", "{}")
    check("an operator releases it", status == 200, data)
    check("readiness is whole again", eventually(lambda: not r.readyz()[1]["degraded"]), "")
    check("and the epoch is free", r.compute("c4", r.request(snapshot(ROWS, 10, 4), p))[0] == 200,
          "")


def names_the_ledgers_state(r):
    head = r.ledger.get("/head")[1]
    at = {"root": head["root"], "seq": head["seq"]}
    status, m = r.compute("stated", r.request(snapshot(ROWS, 77), policy(), ledger=at))
    check("the ledger's state that was named is in the manifest", status == 200 and
          m["ledger"] == at, m)
    check("and stays there", r.get("/rewarder/epochs/stated")[1]["ledger"] == at, "")
    status, m = r.compute("unstated", r.request(snapshot(ROWS, 77), policy()))
    check("without one it says null", status == 200 and m["ledger"] is None, m)
    for name, bad in (("no seq", {"root": at["root"]}), ("no root", {"seq": 1}),
                      ("capitals", {**at, "root": at["root"].upper()}),
                      ("a short root", {**at, "root": at["root"][2:]}),
                      ("a text as seq", {**at, "seq": "1"}), ("more", {**at, "x": 1})):
        found = r.compute("misstated", r.request(snapshot(ROWS, 77), policy(), ledger=bad))
        check(f"refused: the ledger's state: {name}", code(found) ==
              (400, "BAD_REQUEST", "schema"), found)


def tells_events(r):
    c = r.connect()
    c.request("GET", "/rewarder/events?epoch=told", headers={"Authorization": f"Bearer {r.token}"})
    answer = c.getresponse()
    check("events are a stream", answer.status == 200 and
          answer.headers["Content-Type"] == "text/event-stream", answer.status)
    check("greeted", answer.readline() == b": rewarder events\n", "")
    r.compute("not-told", r.request(snapshot(ROWS, 3), policy()))
    r.compute("told", r.request(snapshot(ROWS, 11), policy()))
    seen = []
    while not seen or seen[-1] != "emitted":
        line = answer.readline().decode().strip()
        if line.startswith("event: "):
            seen.append(line[7:])
    check("a run is told from start to end", seen[0] == "started" and "sealed" in seen, seen)
    c.close()


def writes_a_public_tree(r):
    payee = "0x" + "ab" * 20
    status, m = r.compute("claims", r.request(snapshot([(payee, 1, 0, 0), ("b", 3, 0, 0)], 100),
                                              policy()))
    tree = json.loads((r.dir / "artifacts" / "claims" / "openzeppelin.json").read_text())
    check("a run has its tree for the chain", status == 200 and tree["format"] == "standard-v1" and
          [v["value"] for v in tree["values"]] == [[payee, "25"]], (m, tree))


with new_ledger() as ledger, Rewarder(ledger, "--rewarder.openzeppelin_tree=true") as rewarder:
    writes_a_public_tree(rewarder)
    runs_and_settles(rewarder)
    refuses(rewarder)
    takes_large_inputs(rewarder)
    dry_runs_lock_nothing(rewarder)
    one_job_of_many_posts(rewarder)
    carries_and_quarantines(rewarder)
    names_the_ledgers_state(rewarder)
    tells_events(rewarder)
    listed = rewarder.get("/rewarder/epochs?state=emitted&limit=2")
    check("epochs are listed in pages", listed[0] == 200 and len(listed[1]["epochs"]) == 2 and
          listed[1]["next"] is not None, listed)
    check("ready", eventually(lambda: rewarder.readyz()[0] == 200), rewarder.readyz())
finish()
