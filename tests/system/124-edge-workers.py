#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it measures the time to recover under load.
"""Goal: fill workers of the edge that die under load are started again; readyz is degraded while
misses are shed and clear within a second of the relaunch; no request is lost, no byte is wrong, and
hits are served throughout.

Method: ron_faulty, in which a worker finds no memory as often as this test says by files. Half of
the workers die together, again and again, under clients that ask for what nobody asked for before
and verify every byte; the queue is short, so that misses are refused meanwhile.
"""
import datetime
import json
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from edgekit import Edge, Origin  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from rewarderkit import b3  # noqa: E402

BASE = "/edge/assets/o/map/"
HALF = ("worker-0", "worker-1")
ROUNDS = 3
CLIENTS = 12


def body_of(path):
    return (path * 400).encode("ascii")


class Faulty(Edge):
    program = str(Path(os.environ["RON_BUILD_DIR"]) / "tests" / "ron_faulty")

    def __init__(self, origin, faults):
        self.faults = faults
        self.environment = {**os.environ, "RON_FAULTY_SITE": "start",
                            "RON_FAULTY_DIR": str(faults)}
        super().__init__(f"--origins.map.url={origin.url}", "--origins.map.allow_http=true",
                         "--origins.map.allow_private=true", "--concurrency.fill_workers=4",
                         "--queues.work=4", "--timeouts.request=20s", "--edge.fill_timeout=20s",
                         "--limits.inflight=256")

    def doom(self, task, times=1):
        for i in range(times):
            (self.faults / f"{task}.{i}").touch()

    def readyz(self):
        a = self.get("/readyz")
        return a.status, json.loads(a.body)

    def restarts(self, task):
        return self.metric(f'service_restarts_total{{task="{task}"}}')


class Load:
    """Clients that ask for new paths all the time, and one that asks for a hit."""

    def __init__(self, edge):
        self.edge, self.ending, self.lock = edge, threading.Event(), threading.Lock()
        self.answers, self.wrong, self.number = {}, [], 0
        self.threads = [threading.Thread(target=self.run, args=(i == 0,)) for i in range(CLIENTS)]
        for t in self.threads:
            t.start()

    def run(self, hits):
        client = self.edge.client()
        while not self.ending.is_set():
            with self.lock:
                self.number += 1
                path = "hit" if hits else f"new-{self.number}"
            a = self.edge.get(BASE + path, client=client)
            good = a.body == body_of("/" + path) and a["ETag"] == f'"{b3(a.body)}"'
            with self.lock:
                key = ("hit" if hits else "miss", a.status)
                self.answers[key] = self.answers.get(key, 0) + 1
                if a.status == 200 and not good or a.status not in (200, 429):
                    self.wrong.append((path, a.status, a.body[:200]))

    def end(self):
        self.ending.set()
        for t in self.threads:
            t.join()


class Watcher(threading.Thread):
    """Looks at readyz all the time, and keeps every answer with its time."""

    def __init__(self, edge):
        super().__init__()
        self.edge, self.seen, self.ending = edge, [], threading.Event()
        self.start()

    def run(self):
        while not self.ending.is_set():
            status, body = self.edge.readyz()
            self.seen.append((time.time(), status, body["degraded"], frozenset(
                body.get("causes", {}))))

    def first_without(self, tasks, since):
        """When readyz named none of these tasks any more; None: not yet."""
        return next((at for at, _, _, causes in list(self.seen)
                     if at >= since and not causes & set(tasks)), None)

    def end(self):
        self.ending.set()
        self.join()
        return {s[1:] for s in self.seen}


def deaths(edge, task):
    """When the task died, and when it was to be started again, each time, by the clock of the
    log."""
    rows = [json.loads(x) for x in edge.lines
            if '"event":"restarting"' in x and f'"name":"{task}"' in x]
    died = [datetime.datetime.fromisoformat(r["ts"].replace("Z", "+00:00")).timestamp()
            for r in rows]
    return [(at, at + r["delay_ms"] / 1000) for at, r in zip(died, rows)]


def half_of_the_workers(edge):
    for left in edge.faults.iterdir():
        left.unlink()
    check("a hit is there", edge.get(BASE + "hit").status == 200)
    # Who died of what is behind us may not be back yet, and would be counted below.
    check("all workers are there", eventually(lambda: not edge.readyz()[1]["degraded"]))
    before = {t: edge.restarts(t) for t in HALF}
    load, watcher = Load(edge), Watcher(edge)
    times = []
    for number in range(1, ROUNDS + 1):
        for task in HALF:
            edge.doom(task)
        check(f"half: death {number} came to both under load",
              eventually(lambda: not any(edge.faults.iterdir()), 60))
        check(f"half: both are started again, {number}", eventually(
            lambda n=number: all(edge.restarts(t) == before[t] + n for t in HALF), 60))
        died, again = zip(*(deaths(edge, t)[-1] for t in HALF))
        check(f"half: readyz names none of them any more, under the same load, {number}",
              eventually(lambda a=max(again): watcher.first_without(HALF, a) is not None))
        back = watcher.first_without(HALF, max(again)) or time.time()
        times.append((max(again) - min(died), back - max(again)))
    load.end()
    start = time.monotonic()
    clear = eventually(lambda: not edge.readyz()[1]["degraded"])
    took = time.monotonic() - start
    seen = watcher.end()
    check("half: back within a second of the relaunch, under load",
          all(x[1] < 1.0 for x in times), times)
    check("half: readyz is clear within a second of the load's end", clear and took < 1.0, took)
    check("half: readyz was degraded for the sake of those workers", any(
        degraded and causes & set(HALF) for _, degraded, causes in seen), seen)
    check("half: and for the queue that shed load", any(
        degraded and "fill_queue" in causes for _, degraded, causes in seen), seen)
    check("half: the service was ready throughout", {s for s, *_ in seen} == {200}, seen)
    check("half: every answer was right, or 429", not load.wrong, load.wrong[:3])
    check("half: misses were served and shed, hits were all served",
          load.answers.get(("miss", 200), 0) > 0 and load.answers.get(("miss", 429), 0) > 0 and
          load.answers.get(("hit", 200), 0) > 0 and ("hit", 429) not in load.answers, load.answers)
    print(f"half: {load.answers}; clear {took * 1e3:.0f} ms after the load")
    for wait, back in times:
        print(f"half: relaunched {wait * 1e3:.0f} ms after the first death, ready "
              f"{back * 1e3:.0f} ms later")


def death_three_times(edge, origin):
    """A fill that three workers die with is refused; with two it is served."""
    for task in ("worker-0", "worker-1", "worker-2", "worker-3"):
        edge.doom(task, 1)
    a = edge.get(BASE + "thrice")
    check("thrice: refused with a type", (a.status, a["X-Reason"]) == (429, "rate_limit"),
          (a.status, a.body))
    check("thrice: nobody asked the origin", origin.count("/thrice") == 0)
    check("thrice: one death is left", sum(1 for _ in edge.faults.iterdir()) == 1)
    check("thrice: those who died are back", eventually(
        lambda: not edge.readyz()[1]["degraded"]), edge.readyz())
    a = edge.get(BASE + "thrice")
    check("thrice: asked again it is served", a.status == 200 and a.body == body_of("/thrice"))
    check("thrice: once", origin.count("/thrice") == 1)


def main():
    origin = Origin()
    # A fill takes a while, so that the crowd of misses is more than four workers and the queue.
    pause = threading.Event()

    class Anything(dict):
        def get(self, path, default=None):
            pause.wait(0.02)
            return 200, {"ETag": f'"{b3(body_of(path))}"', "Cache-Control": "max-age=600"}, \
                body_of(path)

    origin.answers = Anything()
    folder = Path(os.environ["RON_BUILD_DIR"]) / "edge-faults"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    with Faulty(origin, folder) as edge:
        death_three_times(edge, origin)
        half_of_the_workers(edge)
        names = [(t / "comm").read_text(encoding="ascii").strip()
                 for t in Path(f"/proc/{edge.process.pid}/task").iterdir()]
        check("leaks: a thread for each worker and no more", sorted(
            n for n in names if n.startswith("worker")) == [f"worker-{i}" for i in range(4)], names)
    finish()


main()
