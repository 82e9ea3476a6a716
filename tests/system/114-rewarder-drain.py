#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: a shutdown of the rewarder takes its steps in the order of the specification: readyz and
listener, scheduler, workers, writer, emitter; results are flushed until the deadline, and counted
when they are dropped; and results and settlements keep their order.

Method: the thread of one task is held with ptrace, so that the drain stands before it, and what has
ended and what has not is read from the names of the threads. Without ptrace all of it is left out.
"""
import json
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from holdkit import held, names_of, reap  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from rewarderkit import Rewarder, policy, shares, snapshot  # noqa: E402
from walletkit import new_ledger  # noqa: E402

POOL = 10 ** 5
STAGES = ("scheduler", "worker-0", "artifact_writer", "intent_emitter")


def rows_of(name):
    return [(f"t:{name}/n:{i}", 10 + i, i * 3, 1) for i in range(10)]


def body(r, name):
    return r.request(snapshot(rows_of(name), POOL), policy())


def state(r, epoch):
    return r.get(f"/rewarder/epochs/{epoch}/settlement")[1].get("state")


def paid_once(r, name, times):
    one, _ = shares(rows_of(name), POOL)
    found = {a: r.ledger.balance(a)[0] for a, *_ in rows_of(name)}
    return {a: b for a, b in found.items() if b} == {a: x * times for a, x in one.items()}


def settled(r, name, epochs):
    check(f"{name}: all of them are settled", eventually(
        lambda: {state(r, e) for e in epochs} == {"emitted"}), [state(r, e) for e in epochs])
    check(f"{name}: and everybody is paid once for each", paid_once(r, name, len(epochs)))


def asked(r, name, count):
    epochs = [f"{name}-{i}" for i in range(count)]
    answers = [r.compute(e, body(r, name), query="")[0] for e in epochs]
    check(f"{name}: runs are accepted", set(answers) == {202}, answers)
    return epochs


def sealed_files(r, epochs):
    return [(r.dir / "artifacts" / e / "run.json").exists() for e in epochs]


def ended(r):
    """Its exit code, when it was told to end before: a second signal would not let it drain."""
    code = r.process.wait(60)
    r.reader.join()
    return code


def said(r, **members):
    """Lines of the log with these members."""
    lines = [json.loads(x) for x in r.lines if x.startswith("{")]
    return [x for x in lines if members.items() <= x.items()]


# ---- the steps -----------------------------------------------------------------------------------

def stands_before(ledger, task):
    """The drain of a run in flight, with `task` held: everything before it has ended, nothing
    behind it."""
    name = "at-" + task.replace("_", "-")
    before = STAGES[:STAGES.index(task)]
    behind = STAGES[STAGES.index(task):]
    with Rewarder(ledger, "--drain_deadline=5s", "--concurrency.compute_workers=1") as r:
        with held(r, task):
            epochs = asked(r, name, 3) if task != "scheduler" else []
            if task == "artifact_writer":
                check(f"{name}: results wait", eventually(
                    lambda: r.metrics()['queue_depth{queue="results"}'] == 3), r.metrics())
            r.process.send_signal(signal.SIGTERM)
            check(f"{name}: readyz is 503 and says draining", eventually(
                lambda: r.readyz()[1].get("missing") == ["draining"]), r.readyz())
            status, _, data = r.ask("POST", "/rewarder/epochs/too-late/compute",
                                    json.dumps(body(r, "late")))
            check(f"{name}: new work is refused with 503 draining", status == 503 and
                  json.loads(data)["code"] == "DRAINING", data)
            check(f"{name}: what comes before has ended", eventually(
                lambda: not names_of(r) & set(before), 4), names_of(r))
            check(f"{name}: nothing behind it has", set(behind) <= names_of(r), names_of(r))
        check(f"{name}: then it ends with 0", ended(r) == 0, r.lines[-5:])
        check(f"{name}: and nothing was cut off", not said(r, event="aborted"), r.lines[-10:])
        check(f"{name}: what was in flight is sealed", all(sealed_files(r, epochs)),
              sealed_files(r, epochs))
        r.start()
        check(f"{name}: what came too late was never begun", r.get(
            "/rewarder/epochs/too-late")[0] == 404, r.get("/rewarder/epochs/too-late"))
        if epochs:
            settled(r, name, epochs)


# ---- results that nobody writes ------------------------------------------------------------------

def dropped_results(ledger):
    with Rewarder(ledger, "--drain_deadline=1s", "--concurrency.compute_workers=2") as r:
        with held(r, "artifact_writer") as tids:
            epochs = asked(r, "dropped", 5)
            check("dropped: results wait for the writer", eventually(
                lambda: r.metrics()['queue_depth{queue="results"}'] == 5), r.metrics())
            began = time.monotonic()
            r.process.send_signal(signal.SIGTERM)
            reap(tids[0])
            code = ended(r)
            took = time.monotonic() - began
        check("dropped: they had until the deadline", took >= 1, took)
        check("dropped: then the writer is aborted", code == 2 and
              said(r, event="aborted", name="artifact_writer"), (code, r.lines[-10:]))
        check("dropped: and what is left over is counted", said(r, dropped_results_total=5),
              r.lines[-10:])
        check("dropped: nothing of it is published", not any(sealed_files(r, epochs)),
              sealed_files(r, epochs))
        r.start()
        settled(r, "dropped", epochs)


# ---- order ---------------------------------------------------------------------------------------

def events_of(r, kind, epochs):
    """The epochs of these events in the order in which they are told. Events of other epochs, which
    may be told after their state is seen, are not looked at."""
    c = r.connect()
    c.request("GET", "/rewarder/events", headers={"Authorization": f"Bearer {r.token}"})
    answer = c.getresponse()
    told = {k: [] for k in kind}
    yield answer
    while any(len(t) < len(epochs) for t in told.values()):
        line = answer.readline().decode()
        assert line != "", "the stream of events has ended"
        if line.startswith("event: ") and line[7:].strip() in told:
            data = json.loads(answer.readline().decode().removeprefix("data: "))
            if data["epoch_id"] in epochs:
                told[line[7:].strip()].append(data["epoch_id"])
    c.close()
    yield told


def started(r, name):
    """A settlement before, so that the emitter has looked at what an earlier life left."""
    r.compute(f"{name}-before", body(r, name))
    check(f"{name}: settled before", eventually(lambda: state(r, f"{name}-before") == "emitted"))


def order(ledger):
    """One worker, queues of one place, and names against the alphabet."""
    epochs = [f"order-{c}" for c in "gfedcba"]
    with Rewarder(ledger, "--queues.results=1", "--concurrency.compute_workers=1") as r:
        started(r, "order")
        told = events_of(r, ("sealed", "emitted"), epochs)
        next(told)
        with held(r, "artifact_writer"):
            answers = [r.compute(e, body(r, "order"), query="")[0] for e in epochs]
            check("order: runs are accepted", set(answers) == {202}, answers)
            check("order: the worker waits for room", eventually(
                lambda: r.metrics()['queue_depth{queue="results"}'] == 1 and
                r.metrics()['queue_depth{queue="work"}'] == len(epochs) - 2), r.metrics())
        found = next(told)
        check("order: sealed as they were asked for", found["sealed"] == epochs, found)
        check("order: none was dropped", r.metrics()["dropped_results_total"] == 0)
        check("order: settled as they were sealed", found["emitted"] == epochs, found)
    epochs = [f"later-{c}" for c in "edcba"]
    with Rewarder(ledger, "--queues.intents=64", "--concurrency.compute_workers=1") as r:
        started(r, "later")
        told = events_of(r, ("emitted",), epochs)
        next(told)
        with held(r, "intent_emitter"):
            for e in epochs:
                check(f"order: {e} is sealed", r.compute(e, body(r, "order"))[0] == 200)
        found = next(told)
        check("order: settlements that waited keep it", found["emitted"] == epochs, found)


def main():
    with new_ledger() as ledger:
        try:
            for task in STAGES:
                stands_before(ledger, task)
            dropped_results(ledger)
            order(ledger)
        except PermissionError:
            print("left out: a thread cannot be held here (ptrace)")
    finish()


main()
