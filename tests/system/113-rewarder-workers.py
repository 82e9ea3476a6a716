#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: workers of the rewarder that die under load are started again after a while that grows;
readyz says so, and what a dying worker held is computed by another: the same bytes, paid once.

Method: ron_faulty, in which a worker finds no memory as often as this test says by files. Half of
the workers die together, five times, under load; then one dies until the supervisor leaves it; and
a run meets death three times and is refused.
"""
import json
import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from rewarderkit import Rewarder, policy, shares, snapshot  # noqa: E402
from walletkit import new_ledger  # noqa: E402

ROWS = [(f"t:workers/n:{i}", 10 + i * 7, i * 13, i % 60) for i in range(50)]
POOL = 10 ** 6
HALF = ("worker-0", "worker-1")
ROUNDS = 5  # restarts in a minute that are no reason to leave a task down


class Faulty(Rewarder):
    program = str(Path(os.environ["RON_BUILD_DIR"]) / "tests" / "ron_faulty")

    def __init__(self, ledger, *options):
        self.faults = ledger.folder / "faults"
        self.faults.mkdir(exist_ok=True)
        self.environment = {**os.environ, "RON_FAULTY_SITE": "handle",
                            "RON_FAULTY_DIR": str(self.faults)}
        super().__init__(ledger, *options)

    def doom(self, task, times=1):
        for i in range(times):
            (self.faults / f"{task}.{i}").touch()

    def doomed(self):
        return any(self.faults.iterdir())

    def restarts(self, task):
        return self.metrics().get(f'service_restarts_total{{task="{task}"}}', 0)

    def delays(self, task):
        """Of the restarts of a task, from the log."""
        lines = [json.loads(x) for x in self.lines if "restarting" in x]
        return [x["delay_ms"] for x in lines if x["name"] == task]


class Watcher(threading.Thread):
    """Looks at readyz all the time, and keeps each answer that differs from the one before."""

    def __init__(self, r):
        super().__init__()
        self.r, self.seen, self.ending = r, [], threading.Event()
        self.start()

    def run(self):
        while not self.ending.is_set():
            status, body = self.r.readyz()
            now = (status, body.get("degraded"), tuple(sorted(body.get("causes", {}))))
            if not self.seen or self.seen[-1] != now:
                self.seen.append(now)

    def end(self):
        self.ending.set()
        self.join()
        return self.seen


def state(r, epoch):
    return r.get(f"/rewarder/epochs/{epoch}/settlement")[1].get("state")


def settle_all(r, name, epochs, body):
    """Each is settled in the end; of whoever was refused with a type, when it is asked again."""
    refused = 0
    for e in epochs:
        eventually(lambda e=e: state(r, e) in ("emitted", None), 60)
        if state(r, e) is None:
            answer = r.get(f"/rewarder/epochs/{e}")[1]
            check(f"{e}: refused with a type", (answer.get("reason"), answer.get("retryable")) ==
                  ("busy", True), answer)
            refused += 1
            r.compute(e, body)
            eventually(lambda e=e: state(r, e) == "emitted", 60)
    left = [e for e in epochs if state(r, e) != "emitted"]
    check(f"{name}: all of {len(epochs)} runs are settled, {refused} of them asked for again",
          not left, left)


def half_of_the_workers(r):
    body = r.request(snapshot(ROWS, POOL), policy())
    epochs, answers, watcher = [], set(), Watcher(r)

    def ask():
        epochs.append(f"half-{len(epochs)}")
        answers.add(r.compute(epochs[-1], body, query="")[0])

    for number in range(1, ROUNDS + 1):
        for task in HALF:
            r.doom(task)
        check(f"half: death {number} came to both under load", eventually(
            lambda: ask() or not r.doomed(), 60))
        check(f"half: both are started again, {number}", eventually(
            lambda: ask() or all(r.restarts(t) == number for t in HALF), 60))
    check("half: every run was accepted meanwhile", answers == {202}, answers)
    settle_all(r, "half", epochs, body)
    check("half: ready, and not degraded", eventually(
        lambda: r.readyz()[0] == 200 and not r.readyz()[1]["degraded"]), r.readyz())
    seen = watcher.end()
    check("half: readyz was degraded for the sake of those workers", any(
        degraded and set(causes) & set(HALF) for _, degraded, causes in seen), seen)
    check("half: and clear between", seen[-1] == (200, False, ()), seen)
    check("half: the service was ready throughout", {s for s, *_ in seen} == {200}, seen)
    bad = [(t, n, d) for t in HALF for n, d in enumerate(r.delays(t))
           if not 100 <= d <= 200 << n]
    check("half: after 100-200 ms first, and later up to twice as long each time", not bad and
          [len(r.delays(t)) for t in HALF] == [ROUNDS] * 2, [r.delays(t) for t in HALF])
    roots = {r.get(f"/rewarder/epochs/{e}")[1]["payouts"]["root"] for e in epochs}
    check("half: whoever computed it, the payouts are the same", len(roots) == 1, roots)
    one, _ = shares(ROWS, POOL)
    found = {a: r.ledger.balance(a)[0] for a, *_ in ROWS}
    check("half: everybody is paid once for each", {a: b for a, b in found.items() if b} ==
          {a: x * len(epochs) for a, x in one.items()}, found)


def no_leaks(r):
    names = [(t / "comm").read_text(encoding="ascii").strip()
             for t in Path(f"/proc/{r.process.pid}/task").iterdir()]
    m = r.metrics()
    check("leaks: a thread for each worker and no more", sorted(
        n for n in names if n.startswith("worker")) == [f"worker-{i}" for i in range(4)], names)
    check("leaks: none is counted", m.get("tasks_leaked_total", 0) == 0 and
          m['tasks_aborted_total{kind="worker"}'] == 0, m)


def one_worker_for_good(r):
    """Too many deaths in a minute: it stays down, and the others go on."""
    body = r.request(snapshot(ROWS, POOL), policy())
    count = 0

    def is_down():
        return r.readyz()[0] == 503

    while not is_down() and count < 500:
        if not r.doomed():
            r.doom("worker-0")
        r.compute(f"good-{count}", body, query="")
        count += 1
    status, answer = r.readyz()
    check("for good: readyz is 503 and names it", status == 503 and
          answer["missing"] == ["worker-0"], answer)
    status, m = r.compute("good-more", body)
    check("for good: the others compute", status == 200, m)
    settle_all(r, "for good", [f"good-{i}" for i in range(count)], body)


def death_three_times(ledger):
    with Faulty(ledger, "--concurrency.compute_workers=1") as r:
        body = r.request(snapshot(ROWS, POOL), policy())
        r.doom("worker-0", 3)
        status, answer = r.compute("thrice", body)
        check("thrice: the run is refused with a type", (status, answer.get("reason"),
              answer.get("retryable")) == (429, "busy", True), (status, answer))
        check("thrice: three workers died of it", eventually(
            lambda: r.restarts("worker-0") == 3), r.metrics())
        r.doom("worker-0", 2)
        status, m = r.compute("thrice", body)
        check("thrice: asked again, two deaths do no harm", status == 200 and m["status"] == "ok",
              m)


def main():
    with new_ledger() as ledger:
        with Faulty(ledger) as r:
            half_of_the_workers(r)
            no_leaks(r)
            one_worker_for_good(r)
            r.restart()
            check("a new life is ready", eventually(lambda: r.readyz()[0] == 200), r.readyz())
        death_three_times(ledger)
    finish()


main()
