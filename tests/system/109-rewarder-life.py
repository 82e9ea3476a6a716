#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it holds tasks and measures deadlines.
"""Goal: the rewarder's queues do what the specification says when they are full, runs end at their
deadline, a reload takes effect in place, uploads are stored whole or not at all, and a reader of
events that is too slow is told so.

Method: queues of one place, and the thread of the task behind each held with ptrace, so that no
result depends on the speed of the machine. Where ptrace is not allowed that part is left out, and
says so.
"""
import contextlib
import gzip
import json
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from holdkit import held  # noqa: E402
from httpkit import check, eventually, finish, missing, wrk  # noqa: E402
from rewarderkit import (Rewarder, b3, canonical, policy, shares, snapshot,  # noqa: E402
                         zstd_frame)
from walletkit import new_ledger  # noqa: E402

ROWS = [(f"t:life/n:{i}", 10 + i, i * 3, 1) for i in range(10)]
NAMES = ("queue_depth", "queue_dropped_total", "busy_rejections_total", "tasks_spawned_total",
         "tasks_aborted_total", "tasks_canceled_total", "io_timeouts_total",
         "backoff_retries_total", "service_restarts_total", "readyz_degraded", "bus_lagged_total",
         "quarantine_total", "dropped_results_total")


def state(r, epoch):
    return r.get(f"/rewarder/epochs/{epoch}/settlement")[1].get("state")


def total(r, name, *labels):
    return sum(v for k, v in r.metrics().items()
               if k.startswith(name) and all(x in k for x in labels))


def body(r, pool=10 ** 4):
    return r.request(snapshot(ROWS, pool), policy())


# ---- queues --------------------------------------------------------------------------------------

def full_work_req(ledger):
    with Rewarder(ledger, "--queues.work_req=1") as r:
        answers = []
        threads = [threading.Thread(target=lambda n=i: answers.append(
            r.compute(f"req-{n}", body(r), query=""))) for i in range(8)]
        with held(r, "scheduler"):
            for t in threads:
                t.start()
            # One waits, one may be in the hands of the scheduler.
            check("work_req: who does not fit is told at once", eventually(
                lambda: len(answers) >= 6), answers)
            check("work_req: 429 with a time to come again", all(
                (s, a["code"], a["retryable"]) == (429, "TOO_MANY_REQUESTS", True)
                for s, a in answers), answers)
        for t in threads:
            t.join()
        busy = [a for a in answers if a[0] == 429]
        check("work_req: the others are taken", len(busy) < 8 and
              {a[0] for a in answers} == {429, 202}, answers)
        check("work_req: counted by endpoint and by queue", total(
            r, "busy_rejections_total", 'endpoint="/rewarder') == len(busy) and total(
            r, "busy_rejections_total", 'queue="work_req"') == len(busy),
            {k: v for k, v in r.metrics().items() if k.startswith("busy")})


def full_work(ledger):
    with Rewarder(ledger, "--queues.work=1", "--concurrency.compute_workers=1") as r:
        with held(r, "worker-0"):
            answers = [r.compute(f"work-{i}", body(r), query="") for i in range(4)]
            refused = [a for a in answers if a[0] != 202]
            check("work: one waits, the rest is refused", 1 <= 4 - len(refused) <= 2 and all(
                (s, a["reason"], a["retryable"]) == (503, "backpressure", True)
                for s, a in refused), answers)
            status, view = r.get("/rewarder/epochs/work-0")
            check("work: GET tells how far a run is", status == 202 and view["status"] == "running"
                  and view["phase"] and view["rows_done"] <= view["rows"], (status, view))
            check("work: counted as dropped", total(r, "queue_dropped_total", 'queue="work"') ==
                  len(refused), r.metrics())
            check("work: an epoch that was refused is free", state(r, "work-3") is None, "")
            check("work: not ready", eventually(lambda: "queue_ok" in r.readyz()[1]["missing"]),
                  r.readyz())
            check("work: and the metric names the cause", total(
                r, "readyz_degraded", 'cause="queue_ok"') == 1,
                {k: v for k, v in r.metrics().items() if "degraded" in k})
        check("work: what was taken is settled", eventually(lambda: state(r, "work-0") ==
              "emitted"), state(r, "work-0"))
        check("work: and the refused may come again", r.compute("work-3", body(r))[0] == 200, "")
        check("work: ready again", eventually(lambda: r.readyz()[0] == 200), r.readyz())


def full_results(ledger):
    with Rewarder(ledger, "--queues.results=1", "--concurrency.compute_workers=1") as r:
        epochs = [f"res-{i}" for i in range(5)]
        with held(r, "artifact_writer"):
            answers = [r.compute(e, body(r), query="")[0] for e in epochs]
            check("results: runs are accepted", set(answers) == {202}, answers)
            check("results: the queue fills and the worker waits", eventually(
                lambda: r.metrics()['queue_depth{queue="results"}'] == 1 and
                r.metrics()['queue_depth{queue="work"}'] >= 2), r.metrics())
            check("results: nothing is sealed", {state(r, e) for e in epochs} <=
                  {"reserved", "computing"}, [state(r, e) for e in epochs])
        check("results: then all are settled", eventually(
            lambda: {state(r, e) for e in epochs} == {"emitted"}), [state(r, e) for e in epochs])
        check("results: none was dropped", r.metrics()["dropped_results_total"] == 0, "")


def full_intents(ledger):
    with Rewarder(ledger, "--queues.intents=1", "--timeouts.write=200ms",
                  "--concurrency.compute_workers=1") as r:
        epochs = [f"int-{i}" for i in range(3)]
        with held(r, "intent_emitter"):
            for e in epochs:
                r.compute(e, body(r))
            check("intents: a settlement that cannot be handed over quarantines its epoch",
                  eventually(lambda: state(r, "int-2") == "quarantined"), state(r, "int-2"))
            check("intents: counted", eventually(lambda: total(
                r, "reward_invariant_fail_total", 'kind="handover"') >= 1), r.metrics())
        status, _, data = r.ask("POST", "/rewarder/epochs/int-2/quarantine/release", "{}")
        check("intents: an operator releases it", status == 200, data)
        check("intents: and it is computed anew", r.compute("int-2", body(r))[0] == 200 and
              eventually(lambda: state(r, "int-2") == "emitted"), state(r, "int-2"))


# ---- deadlines -----------------------------------------------------------------------------------

def deadlines(ledger):
    with Rewarder(ledger, "--rewarder.epoch_duration=2s", "--concurrency.compute_workers=1") as r:
        with held(r, "worker-0"):
            began = time.monotonic()
            check("deadline: accepted", r.compute("late", body(r), query="")[0] == 202)
            eventually(lambda: time.monotonic() > began + 1.2)
        check("deadline: a run has half of an epoch", eventually(
            lambda: state(r, "late") is None), state(r, "late"))
        check("deadline: counted with op and peer", eventually(
            lambda: total(r, "io_timeouts_total", 'op="compute"', 'peer="worker"') == 1), "")
        check("deadline: GET says so", r.get("/rewarder/epochs/late")[1].get("code") == "TIMEOUT",
              r.get("/rewarder/epochs/late"))
        check("deadline: the epoch is free", r.compute("late", body(r))[0] == 200, "")
    with Rewarder(ledger, "--concurrency.compute_workers=1") as r:
        with held(r, "worker-0"):
            status, answer = r.compute("caller", body(r), headers={"Request-Timeout": "1"})
            check("deadline: the caller's counts when it is sooner", (status, answer["code"]) ==
                  (503, "TIMEOUT"), (status, answer))
        check("deadline: and ends the run", eventually(lambda: state(r, "caller") is None),
              state(r, "caller"))
    with Rewarder(ledger, "--timeouts.request=1s", "--concurrency.compute_workers=1") as r:
        with held(r, "worker-0"):
            began = time.monotonic()
            check("deadline: a patient caller's", r.compute(
                "patient", body(r), query="", headers={"Request-Timeout": "60"})[0] == 202)
            eventually(lambda: time.monotonic() > began + 1.3)
        check("deadline: is that of the run, not of the request", eventually(
            lambda: state(r, "patient") == "emitted"), state(r, "patient"))


# ---- events --------------------------------------------------------------------------------------

LUA = """
local n = 0
function request()
  n = n + 1
  return wrk.format("POST", "/rewarder/epochs/slow-" .. n .. "/compute?dry_run=true", {
    ["Authorization"] = "Bearer %s", ["Content-Type"] = "application/json"}, [==[%s]==])
end
"""


def slow_reader(ledger):
    """Who follows the events and does not read misses some, and is told how many; runs never
    wait."""
    if missing("wrk"):
        return
    with Rewarder(ledger, "--timeouts.write=60s") as r, \
            tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA % (r.token, json.dumps(body(r))))
        script.flush()
        host, port = r.addr.rsplit(":", 1)
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(30)
        s.connect((host, int(port)))
        with s:
            s.sendall(f"GET /rewarder/events HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer "
                      f"{r.token}\r\n\r\n".encode())
            check("events: a stream", s.recv(12) == b"HTTP/1.1 200")
            published, load = 0, None
            while published < 60_000:  # more than the system keeps for a reader, and 1024
                load = wrk(f"http://{r.addr}", 1, connections=16, script=script.name)
                published = r.metrics()['bus_published_total{bus="events"}']
                if load["errors"]:
                    break
            check("events: runs do not wait for who does not read", load["errors"] == 0,
                  load["text"])
            data, end = b"", time.monotonic() + 30
            while b"event: lagged" not in data and time.monotonic() < end:
                data = data[-200:] + s.recv(65536)
            check("events: it is told how many it missed, and they are counted",
                  b"event: lagged" in data and eventually(
                      lambda: r.metrics()['bus_lagged_total{bus="events"}'] > 1000), data[-300:])


# ---- reload and metrics --------------------------------------------------------------------------

def reloads(ledger):
    config = ledger.folder / "rewarder.toml"
    config.write_text("[rewarder]\nauto_emit = false\n", encoding="ascii")
    with Rewarder(ledger, f"--config={config}") as r:
        first = r.compute("conf", body(r, 77777))[1]
        check("reload: sealed, and not settled", state(r, "conf") == "sealed", state(r, "conf"))
        config.write_text("[rewarder]\nauto_emit = true\n[shard]\nshards = 7\n", encoding="ascii")
        r.process.send_signal(signal.SIGHUP)
        check("reload: settles in place", eventually(lambda: state(r, "conf") == "emitted"),
              state(r, "conf"))
        second = r.compute("conf2", body(r, 77777))[1]
        check("reload: another number of parts, the same payouts",
              first["payouts"] == second["payouts"], (first, second))
        text = r.ask("GET", "/metrics", token=None)[2].decode()
        absent = [n for n in NAMES if f"# TYPE {n} " not in text]
        check("metrics: the names of the specification", not absent, absent)
        there = r.metrics()
        check("metrics: depth of the queues", all(f'queue_depth{{queue="{q}"}}' in there
              for q in ("work", "results", "intents")), "")
        check("metrics: tasks by kind", there['tasks_spawned_total{kind="worker"}'] == 4, there)
        paid, _ = shares(ROWS, 77777)
        check("metrics: of the last run", there["reward_payout_total_minor"] == sum(paid.values()))


# ---- uploads -------------------------------------------------------------------------------------

def uploads(ledger):
    snap = snapshot(ROWS, 4242)
    cid, text = b3(canonical(snap)), json.dumps(snap).encode()
    with Rewarder(ledger) as r:
        host, port = r.addr.rsplit(":", 1)
        head = (f"PUT /rewarder/inputs HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer {r.token}\r\n"
                "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n")
        for told, sent in ((len(text) + 100, text), (len(text), text[:-20]), (2 ** 40, text)):
            with socket.create_connection((host, int(port)), 30) as c:
                c.sendall((head % told).encode() + sent)
                c.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    while c.recv(4096):
                        pass
        request = r.request(snap, policy(), inline=False)
        found = r.compute("up", request)
        check("upload: broken off or of another length, nothing is stored", found[0] == 404 and
              found[1]["reason"] == "inputs_missing", found)
        status, _, data = r.ask("PUT", "/rewarder/inputs", gzip.compress(text),
                                headers={"Content-Encoding": "gzip"})
        check("upload: gzip", status == 201 and json.loads(data)["inputs_cid"] == cid, data)
        check("upload: is computed", r.compute("up", request)[0] == 200, "")
        snap = snapshot(ROWS, 4343)
        frame = zstd_frame(json.dumps(snap).encode())
        status, _, data = r.ask("PUT", "/rewarder/inputs", frame[:-9],
                                headers={"Content-Encoding": "zstd"})
        check("upload: a zstd frame that is cut is refused", status == 400, (status, data))
        status, _, data = r.ask("PUT", "/rewarder/inputs", frame,
                                headers={"Content-Encoding": "zstd"})
        check("upload: zstd", status == 201 and json.loads(data)["inputs_cid"] ==
              b3(canonical(snap)), data)


# ---- policies ------------------------------------------------------------------------------------

def policy_dir(ledger):
    """Policies as files: those that are there at the start, and those a reload finds."""
    folder = ledger.folder / "policies"
    folder.mkdir()
    first, second = policy(id="policy:first"), policy(id="policy:second", weight_bps=5000)

    def known(r, p):
        return r.get(f"/rewarder/policy/{p['id']}?hash={r.policy_hash(p)}")[0] == 200

    def body_of(r, p):
        return {k: v for k, v in r.request(snapshot(ROWS, 999), p).items() if k != "policy"}

    (folder / "first.json").write_text(json.dumps(first), encoding="ascii")
    (folder / "broken.json").write_text("{", encoding="ascii")
    (folder / "notes.txt").write_text(json.dumps(second), encoding="ascii")
    with Rewarder(ledger, f"--rewarder.policy_dir={folder}") as r:
        check("policy_dir: read at the start", known(r, first), "")
        check("policy_dir: a run names it alone", r.compute("by-name", body_of(r, first))[0] == 200)
        told = [x for x in r.lines if "a policy was not loaded" in x]
        check("policy_dir: a broken one is told, and stops nothing", len(told) == 1 and
              "broken.json" in told[0], told)
        refused = r.compute("by-name-2", body_of(r, second))
        check("policy_dir: other files are not read", not known(r, second) and
              (refused[0], refused[1]["reason"]) == (404, "policy_missing"), refused)
        (folder / "second.json").write_text(json.dumps(second), encoding="ascii")
        r.process.send_signal(signal.SIGHUP)
        check("policy_dir: a reload reads new ones", eventually(lambda: known(r, second)), "")
        check("policy_dir: which then pay", r.compute("by-name-2", body_of(r, second))[0] == 200)


def main():
    with new_ledger() as ledger:
        reloads(ledger)
        uploads(ledger)
        policy_dir(ledger)
        slow_reader(ledger)
        try:
            full_work_req(ledger)
            full_work(ledger)
            full_results(ledger)
            full_intents(ledger)
            deadlines(ledger)
        except PermissionError:
            print("left out: a thread cannot be held here (ptrace)")
    finish()


main()
