#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever happens around the rewarder, no payout is lost or made twice, and it says what is
wrong: a ledger that stands still or refuses, an account without funds, a full disk, a drain in the
middle of large runs, workers that hang, a life without a disk.

Method: `ron rewarder` beside a real `ron ledger`, which is stopped, starved or given a poor token;
artifacts on a small file system; threads of workers held with ptrace. Where mounting or ptrace is
not allowed that part is left out, and says so. Balances are compared with payouts computed here.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from holdkit import held  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import PROGRAM, entry  # noqa: E402
from rewarderkit import LEDGER_SCOPES, Rewarder, policy, shares, snapshot  # noqa: E402
from walletkit import new_ledger  # noqa: E402

MANY = 300_000  # rows of a large run


def rows_of(name, count=40):
    return [(f"t:{name}/n:{i}", 10 + i * 7 % 1000, i * 13 % 5000, i % 60) for i in range(count)]


def paid(r, rows):
    """The balances of the payees, those with none left out."""
    found = {a: r.ledger.balance(a)[0] for a, *_ in rows}
    return {a: b for a, b in found.items() if b != 0}


def missing(r, need):
    status, body = r.readyz()
    return status == 503 and need in body.get("missing", [])


def ready(r):
    return eventually(lambda: r.readyz()[0] == 200, 30)


def state(r, epoch):
    return r.get(f"/rewarder/epochs/{epoch}/settlement")[1]


def seen(r, epoch, wanted, seconds=30):
    """The settlement when it is first seen in that state, or the last one."""
    last = []
    eventually(lambda: last.append(state(r, epoch)) or last[-1].get("state") == wanted, seconds)
    return last[-1]


# ---- the ledger ----------------------------------------------------------------------------------

def stalled_ledger(ledger):
    rows = rows_of("stall")
    with Rewarder(ledger, "--timeouts.rpc=200ms", "--settlement.retry=200ms",
                  "--settlement.batch=10") as r:
        r.compute("before", r.request(snapshot(rows_of("before"), 10 ** 6), policy()))
        check("stall: settled before", seen(r, "before", "emitted")["state"] == "emitted")
        ledger.process.send_signal(signal.SIGSTOP)
        try:
            status, m = r.compute("stall", r.request(snapshot(rows, 10 ** 6), policy()))
            check("stall: the run is sealed all the same", status == 200 and m["status"] == "ok",
                  (status, m))
            s = seen(r, "stall", "withheld")
            check("stall: its settlement is withheld and says why", s["state"] == "withheld" and
                  s["reason"] and s["intents_done"] == 0, s)
            check("stall: not ready, for the ledger's sake", eventually(
                lambda: missing(r, "ledger_ok")) and r.readyz()[1]["causes"]["ledger_ok"] != "",
                r.readyz())
            check("stall: what is published is served", r.get("/rewarder/epochs/stall") ==
                  (200, m), "")
            check("stall: counted", eventually(
                lambda: (m1 := r.metrics())['io_timeouts_total{op="ledger_rpc",peer="ledger"}'] > 0
                and m1['ledger_retry_total{reason="unavailable"}'] >= 2) and
                r.metrics()["quarantine_total"] == 0, r.metrics())
        finally:
            ledger.process.send_signal(signal.SIGCONT)
        s = seen(r, "stall", "emitted")
        check("stall: settled when the ledger is back", s["state"] == "emitted", s)
        check("stall: everybody is paid once", paid(r, rows) == shares(rows, 10 ** 6)[0], "")
        check("stall: ready again", ready(r), r.readyz())


def write_token(r, scopes):
    r.ledger_token.write_text(r.ledger.mint_token(scopes) + "\n", encoding="ascii")


def reload(r):
    before = sum('"reloaded"' in x for x in r.lines)
    r.process.send_signal(signal.SIGHUP)
    return eventually(lambda: sum('"reloaded"' in x for x in r.lines) > before)


def refusing_ledger(ledger):
    rows = rows_of("refuse")
    with Rewarder(ledger) as r:
        write_token(r, "ledger.transfer,ledger.read")
        check("refusal: reloaded", reload(r))
        before = r.metrics()
        r.compute("refuse", r.request(snapshot(rows, 10 ** 6), policy()))
        s = seen(r, "refuse", "quarantined")
        check("refusal: the epoch is quarantined", s["state"] == "quarantined" and s["reason"], s)
        counters = ("quarantine_total", 'reward_invariant_fail_total{kind="ledger_refused"}')
        check("refusal: counted", eventually(
            lambda: [r.metrics()[k] - before[k] for k in counters] == [1, 1]), r.metrics())
        check("refusal: nobody is paid", paid(r, rows) == {}, "")
        status, _, data = r.ask("POST", "/rewarder/epochs/refuse/emit", "{}")
        check("refusal: emitting it is 409", status == 409, data)
        r.restart()
        check("refusal: a restart does not release it", seen(r, "refuse", "quarantined")["state"] ==
              "quarantined", "")
        write_token(r, LEDGER_SCOPES)
        check("refusal: reloaded again", reload(r))
        status, _, data = r.ask("POST", "/rewarder/epochs/refuse/quarantine/release", "{}")
        check("refusal: an operator releases it", status == 200 and
              json.loads(data)["settles_again"], data)
        check("refusal: then it settles", seen(r, "refuse", "emitted")["state"] == "emitted",
              state(r, "refuse"))
        check("refusal: everybody is paid once", paid(r, rows) == shares(rows, 10 ** 6)[0], "")


def no_funds(ledger):
    rows = rows_of("funds")
    wanted, _ = shares(rows, 10 ** 6)
    with Rewarder(ledger, "--settlement.retry=200ms", "--settlement.batch=10") as r:
        p = policy(id="policy:funded", funding_account="t:funds/pool")
        ledger.ingest(entry("Mint", "t:funds/pool", 5))
        r.compute("funds", r.request(snapshot(rows, 10 ** 6), p))
        s = seen(r, "funds", "withheld")
        check("funds: withheld without funds", s["state"] == "withheld" and "available" in
              s["reason"], s)
        check("funds: not ready", eventually(lambda: missing(r, "ledger_ok")), r.readyz())
        check("funds: nobody is paid", paid(r, rows) == {}, "")
        ledger.ingest(entry("Mint", "t:funds/pool", 10 ** 6))
        s = seen(r, "funds", "emitted")
        check("funds: settled when there are some", s["state"] == "emitted", s)
        check("funds: everybody is paid once, from them", paid(r, rows) == wanted and
              ledger.balance("t:funds/pool")[0] == 10 ** 6 + 5 - sum(wanted.values()), "")
        check("funds: ready again", ready(r), r.readyz())


# ---- the disk ------------------------------------------------------------------------------------

def full_disk(ledger):
    disk = ledger.folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", disk],
                             capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        print("left out: a small file system cannot be mounted here: " + mounted.stderr.strip())
        return
    try:
        rows = rows_of("disk", 2000)
        with Rewarder(ledger, f"--rewarder.artifact_dir={disk}/artifacts") as r:
            on_full_disk(r, disk, rows, r.request(snapshot(rows, 10 ** 6), policy()))
    finally:
        subprocess.run(["umount", disk], check=True)


def on_full_disk(r, disk, rows, body):
    with open(disk / "ballast", "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(b"\0" * 4096)
    status, answer = r.compute("disk", body)
    check("disk: a run that cannot be published is refused", (status, answer.get("reason")) ==
          (503, "storage") and answer["retryable"], (status, answer))
    check("disk: not ready, and says why", eventually(lambda: missing(r, "artifacts_ok")),
          r.readyz())
    check("disk: nothing is published", not (disk / "artifacts" / "disk").exists(), "")
    check("disk: nothing is paid, and the epoch is free", paid(r, rows[:20]) == {} and
          r.get("/rewarder/epochs/disk/settlement")[0] == 404, "")
    (disk / "ballast").unlink()
    status, m = r.compute("disk", body)
    check("disk: it goes on when there is space", status == 200 and m["status"] == "ok", m)
    check("disk: settled", seen(r, "disk", "emitted")["state"] == "emitted", state(r, "disk"))
    wanted, _ = shares(rows, 10 ** 6)
    check("disk: paid once", paid(r, rows[:20]) ==
          {a: wanted[a] for a, *_ in rows[:20] if a in wanted}, "")
    check("disk: ready again", ready(r), r.readyz())


# ---- drains --------------------------------------------------------------------------------------

def upload(r, rows, pool):
    head = json.dumps({"produced_at_millis": 1, "pool_minor_units": str(pool)})
    lines = [f'{{"account":"{a}","bytes_stored":{s},"bytes_served":{v},"uptime_seconds":{u}}}'
             for a, s, v, u in rows]
    text = "\n".join([head, *lines]) + "\n"
    status, _, data = r.ask("PUT", "/rewarder/inputs", text,
                            headers={"Content-Type": "application/x-ndjson"})
    check("drain: a large snapshot is stored", status == 201, data)
    return text, json.loads(data)["inputs_cid"]


def undisturbed(r, epoch, text, p):
    folder = r.folder / "undisturbed"
    folder.mkdir()
    (folder / "s.ndjson").write_text(text, encoding="ascii")
    (folder / "p.json").write_text(json.dumps(p), encoding="ascii")
    subprocess.run([PROGRAM, "reward", "compute", "--epoch", epoch, "--snapshot",
                    folder / "s.ndjson", "--policy", folder / "p.json", "--out", folder],
                   check=True, capture_output=True)
    return json.loads((folder / epoch / "run.json").read_bytes())["commitment"]


def drain_of_large_runs(ledger):
    """More than fits into the time of a drain: what is left over is done by the next life."""
    rows, p = rows_of("large", MANY), policy()
    with Rewarder(ledger, "--drain_deadline=1s", "--concurrency.compute_workers=1",
                  "--rewarder.auto_emit=false") as r:
        text, cid = upload(r, rows, 10 ** 9)
        body = {"inputs_cid": cid, "policy_id": p["id"], "policy_hash": r.policy_hash(p),
                "policy": p}
        epochs = [f"large-{i}" for i in range(8)]
        answers = [r.compute(e, body, query="")[0] for e in epochs]
        check("drain: large runs are accepted", set(answers) == {202}, answers)
        code = r.stop()
        # 2: the writer was in the middle of a file when the time was up.
        check("drain: it ends", code in (0, 2), r.lines[-5:])
        # From here on it has time to end in order.
        r.options[r.options.index("--drain_deadline=1s")] = "--drain_deadline=5s"
        r.start()
        good = [seen(r, e, "sealed", 60)["state"] == "sealed" for e in epochs]
        check("drain: the next life finishes all of them", all(good), good)
        # The book knows a moment before the manifest is at hand.
        eventually(lambda: r.get("/rewarder/epochs/large-7")[0] == 200)
        status, m = r.get("/rewarder/epochs/large-7")
        check("drain: as an undisturbed run", status == 200 and
              m["commitment"] == undisturbed(r, "large-7", text, p), m)
        r.ask("POST", "/rewarder/epochs/large-0/emit", "{}")
        seen(r, "large-0", "emitting")
        check("drain: a settlement is interrupted in order", r.stop() == 0, r.lines[-5:])
        r.start()
        s = seen(r, "large-0", "emitted", 60)
        check("drain: and goes on", s["state"] == "emitted" and s["intents_done"] == s["intents"],
              s)
        wanted, _ = shares(rows, 10 ** 9)
        check("drain: everybody is paid once", paid(r, rows[::3001]) ==
              {a: wanted[a] for a, *_ in rows[::3001] if a in wanted}, "")


def drain_under_load(ledger):
    rows, accepted = rows_of("load", 200), []
    with Rewarder(ledger, "--settlement.batch=10") as r:
        body = r.request(snapshot(rows, 10 ** 6), policy())

        def ask_for_runs(number):
            with contextlib.suppress(Exception):
                for i in range(1000):
                    status, _ = r.compute(f"load-{number}-{i}", body, query="")
                    if status == 202:
                        accepted.append(f"load-{number}-{i}")
                    elif status == 503:
                        return

        threads = [threading.Thread(target=ask_for_runs, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        eventually(lambda: len(accepted) > 40)
        check("load: a drain ends with 0", r.stop() == 0, r.lines[-5:])
        for t in threads:
            t.join()
        r.start()
        left = [e for e in accepted if seen(r, e, "emitted")["state"] != "emitted"]
        check(f"load: all of {len(accepted)} runs that were accepted are settled", not left, left)
        one, _ = shares(rows, 10 ** 6)
        others = [e["epoch_id"] for e in r.get("/rewarder/epochs?state=emitted&limit=1000")[1]
                  ["epochs"] if e["epoch_id"].startswith("load-")]
        check("load: and everybody is paid once for each", paid(r, rows) ==
              {a: x * len(others) for a, x in one.items()}, (len(others), len(accepted)))


# ---- workers that hang ---------------------------------------------------------------------------

def half_of_the_workers(ledger):
    rows = rows_of("half", 200)
    with Rewarder(ledger) as r:
        body = r.request(snapshot(rows, 10 ** 6), policy())
        epochs = [f"half-{i}" for i in range(40)]
        try:
            with held(r, "worker-0", "worker-1"):
                answers = [r.compute(e, body, query="")[0] for e in epochs]
                check("half: runs are accepted", set(answers) == {202}, answers)
                # A worker that hangs may have been given one run before.
                done = eventually(lambda: sum(state(r, e).get("state") == "emitted"
                                              for e in epochs) >= len(epochs) - 2, 30)
                check("half: the others do the work", done)
        except PermissionError:
            print("left out: threads cannot be held here (ptrace)")
            return
        left = [e for e in epochs if seen(r, e, "emitted")["state"] != "emitted"]
        check("half: then all of it is done", not left, left)
        commitments = {r.get(f"/rewarder/epochs/{e}")[1]["payouts"]["root"] for e in epochs}
        check("half: whoever computed it, the payouts are the same", len(commitments) == 1,
              commitments)
        one, _ = shares(rows, 10 ** 6)
        check("half: everybody is paid once for each", paid(r, rows) ==
              {a: x * len(epochs) for a, x in one.items()}, "")


# ---- amnesia -------------------------------------------------------------------------------------

def amnesia(ledger):
    rows = rows_of("forget")
    with Rewarder(ledger, "--settlement.batch=10", amnesia=True) as r:
        there = files(r)
        body = r.request(snapshot(rows, 10 ** 6), policy())
        status, m = r.compute("forget", body)
        check("amnesia: a run", status == 200, m)
        check("amnesia: settled", seen(r, "forget", "emitted")["state"] == "emitted", "")
        check("amnesia: no file anywhere", files(r) == there, files(r) - there)
        opened = {os.readlink(f) for f in Path(f"/proc/{r.process.pid}/fd").iterdir()}
        check("amnesia: none is open that has no name", not any(
            x.startswith("/") and "(deleted)" in x for x in opened), opened)
        r.restart()
        check("amnesia: a restart forgets", r.get("/rewarder/epochs/forget")[0] == 404, "")
        again = r.compute("forget", body)
        check("amnesia: the same run again is the same", again == (200, m), again)
        check("amnesia: settled again", seen(r, "forget", "emitted")["state"] == "emitted",
              state(r, "forget"))
        check("amnesia: and nobody is paid twice", paid(r, rows) == shares(rows, 10 ** 6)[0], "")
        r.restart()
        status, other = r.compute("forget", r.request(snapshot(rows, 10 ** 6 + 7), policy()))
        check("amnesia: another run of that epoch is computed", status == 200, other)
        s = seen(r, "forget", "quarantined")
        check("amnesia: but the ledger knows whose the epoch is", s["state"] == "quarantined" and
              "another run of the epoch" in s["reason"], s)
        check("amnesia: and nobody is paid by it", paid(r, rows) == shares(rows, 10 ** 6)[0], "")
        r.compute("forget-2", r.request(snapshot(rows_of("forget-2"), 10 ** 6 + 7), policy()))
        check("amnesia: another epoch is settled", seen(r, "forget-2", "emitted")["state"] ==
              "emitted", state(r, "forget-2"))


def amnesia_cut_short(ledger):
    """Killed with the first batch under way, and then asked for another run of the epoch: one of
    the two is paid, whole."""
    rows, kinds = rows_of("cut"), set()
    with Rewarder(ledger, "--settlement.batch=10", amnesia=True) as r:
        runs = [r.request(snapshot(rows, pool), policy()) for pool in (10 ** 6, 10 ** 6 + 7)]
        wanted = {a: 0 for a, *_ in rows}
        for number in range(4):
            epoch = f"cut-{number}"
            r.compute(f"{epoch}-before", r.request(snapshot([(f"t:{epoch}", 1, 1, 1)], 9),
                                                   policy()))
            seen(r, f"{epoch}-before", "emitted")  # there is a connection
            ledger.process.send_signal(signal.SIGSTOP)
            try:
                r.compute(epoch, runs[0])
                under_way = eventually(lambda: r.metrics()[
                    'oap_client_inflight{client="ledger.calls"}'] == 1)
                r.kill()
            finally:
                ledger.process.send_signal(signal.SIGCONT)
            r.start()
            r.compute(epoch, runs[1])
            eventually(lambda e=epoch: state(r, e).get("state") in ("emitted", "quarantined"))
            second = state(r, epoch)["state"] == "emitted"
            if not second:
                r.restart()
                r.compute(epoch, runs[0])
                seen(r, epoch, "emitted")
            kinds.add("the second" if second else "the first")
            for a, x in shares(rows, 10 ** 6 + 7 * second)[0].items():
                wanted[a] += x
            check(f"cut short {number}: one batch was under way, and one run is paid, whole",
                  under_way and paid(r, rows) == {a: x for a, x in wanted.items() if x},
                  state(r, epoch))
    print(f"cut short: paid were {kinds}")


def files(r):
    """All but the ledger's own, which go on."""
    return {str(f) for f in r.folder.rglob("*") if not f.is_relative_to(r.ledger.data)}


def main():
    with new_ledger() as ledger:
        amnesia(ledger)  # first: there is no folder yet
        amnesia_cut_short(ledger)
        stalled_ledger(ledger)
        refusing_ledger(ledger)
        no_funds(ledger)
        full_disk(ledger)
        half_of_the_workers(ledger)
        drain_under_load(ledger)
        drain_of_large_runs(ledger)
    finish()


main()
