#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: however and whenever the rewarder dies, what was accepted is settled, every payee is paid
once, and what is published is to the byte what an undisturbed run publishes.

Method: three ways to die. At every step: strace kills the process at the n-th of the calls that
make something last or leave the process (rename, fsync, fdatasync, what goes into sockets, every
fourth pwrite64), until a whole run needs no more of them; without strace this part is left out. At
random moments under a load of runs. While the ledger stands still with batches under way. In the
end the ledger's export and balances must hold each payout of each epoch once and nothing else, and
the published folders must be those that `ron reward compute` makes. RON_SEED repeats the choices
of a run.
"""
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import PROGRAM  # noqa: E402
from rewarderkit import Rewarder, policy, shares, snapshot  # noqa: E402
from walletkit import new_ledger  # noqa: E402

SEED = int(os.environ.get("RON_SEED", "0")) or random.SystemRandom().getrandbits(32)
KILLS = int(os.environ.get("RON_KILLS", "30"))  # at random moments
STALLS = 4
STEPS_MAX = 60  # of one kind in one thread; a run that has more fails, for it was not tried whole
# The calls, and which of them: pages and log of the book are many, and each is followed by a sync.
CALLS = {"rename": 1, "fsync": 1, "fdatasync": 1, "sendto,sendmsg,writev": 1, "pwrite64": 4}
FILES = {"run.json", "commitment", "payouts.ndjson", "payouts.index", "payouts.tree"}
rng = random.Random(SEED)


class Runs:
    """All epochs that were asked for: {epoch: (rows, pool, body)}."""

    def __init__(self, rewarder):
        self.rewarder, self.asked = rewarder, {}
        self.policy = policy()
        self.shapes = []
        for count in (1, 7, 60, 400):
            rows = [(f"t:k/n:{i}", 10 + i * 7 % 1000, i * 13 % 5000, i % 60) for i in range(count)]
            pool = 10 ** 6 + count
            self.shapes.append((rows, pool, rewarder.request(snapshot(rows, pool), self.policy)))

    def new(self, shape=None):
        epoch = f"k:{len(self.asked)}"
        self.asked[epoch] = rng.choice(self.shapes) if shape is None else self.shapes[shape]
        return epoch

    def send(self, epoch, connection=None):
        """The status, or None when there was no answer."""
        try:
            status, _, data = self.rewarder.ask("POST", f"/rewarder/epochs/{epoch}/compute",
                                                json.dumps(self.asked[epoch][2]),
                                                connection=connection)
            return status, data
        except (OSError, http.client.HTTPException):
            return None, b""

    def again(self, epochs):
        """Sends them again; what is neither 200 nor 202 is wrong."""
        wrong = [(e, s) for e, s in ((e, self.send(e)) for e in epochs) if s[0] not in (200, 202)]
        return not wrong or check("a run that was sent before is known", False, wrong[:3])

    def all_emitted(self, seconds=30):
        listed = {}

        def done():
            listed.clear()
            after = ""
            while after is not None:
                page = self.rewarder.get("/rewarder/epochs?limit=1000" +
                                         (f"&after={after}" if after else ""))[1]
                listed.update((e["epoch_id"], e["state"]) for e in page["epochs"])
                after = page["next"]
            return listed.keys() == self.asked.keys() and set(listed.values()) <= {"emitted"}

        good = eventually(done, seconds)
        return good or check("all runs are emitted in the end", False, [
            (e, listed.get(e)) for e in self.asked if listed.get(e) != "emitted"][:5])

    def folders_whole(self):
        """What is published is whole or is not there."""
        wrong = []
        for folder in (self.rewarder.dir / "artifacts").iterdir():
            if folder.suffix != ".tmp" and {f.name for f in folder.iterdir()} != FILES:
                wrong.append((folder.name, sorted(f.name for f in folder.iterdir())))
        return not wrong or check("published folders are whole", False, wrong[:3])


# ---- at every step -------------------------------------------------------------------------------

def dies(runs, calls, when):
    """One run under strace, which kills at the call; whether it came to that."""
    r = runs.rewarder
    r.prefix = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", f"trace={calls}",
                "-e", f"inject={calls}:signal=SIGKILL:when={when}"]
    epoch = runs.new(2)
    try:
        r.start()
        runs.send(epoch)
        eventually(lambda: r.process.poll() is not None or emitted(r, epoch), 20)
    except RuntimeError:
        pass  # in the start already
    died = not kill_child(r.process)
    r.process.wait()
    r.reader.join()
    r.prefix = []
    r.start()
    runs.again([epoch])
    return died


def kill_child(tracer):
    """Kills what strace watches, which then ends too; false: there is nobody any more."""
    try:
        with open(f"/proc/{tracer.pid}/task/{tracer.pid}/children", encoding="ascii") as f:
            os.kill(int(f.read().split()[0]), signal.SIGKILL)
            return True
    except (OSError, IndexError):
        return False


def emitted(r, epoch):
    try:
        return r.get(f"/rewarder/epochs/{epoch}/settlement")[1].get("state") == "emitted"
    except (OSError, http.client.HTTPException):
        return False


def at_every_step(runs):
    if shutil.which("strace") is None:
        print("left out: kills at every step, there is no strace")
        return
    r = runs.rewarder
    for calls, stride in CALLS.items():
        when = 1
        deaths = 0
        good = True
        r.kill()
        while when <= STEPS_MAX and dies(runs, calls, when):
            when += stride
            deaths += 1
            good = good and runs.folders_whole()
            r.kill()
        good = good and runs.all_emitted()
        check(f"killed at every {calls}: {deaths} times, to the last, all settled",
              good and deaths > 0 and when <= STEPS_MAX, (deaths, when))


# ---- at random moments ---------------------------------------------------------------------------

class Client(threading.Thread):
    """Asks for runs until the rewarder is gone."""

    def __init__(self, runs):
        super().__init__()
        self.runs, self.sent, self.accepted = runs, [], 0

    def run(self):
        connection = self.runs.rewarder.connect()
        while len(self.sent) < 12:
            self.sent.append(self.runs.new())
            status, _ = self.runs.send(self.sent[-1], connection)
            if status is None:
                return
            self.accepted += status == 202


def at_random(runs):
    r = runs.rewarder
    accepted = sent = 0
    good = True
    for _ in range(KILLS):
        client = Client(runs)
        client.start()
        time.sleep(rng.uniform(0.002, 0.12))  # the moment of death is the test's own choice
        r.kill()
        client.join()
        good = good and runs.folders_whole()
        r.start()
        good = runs.again(client.sent) and good
        accepted += client.accepted
        sent += len(client.sent)
    good = runs.all_emitted() and good
    check(f"{KILLS} kills: {accepted} accepted of {sent} runs, all settled", good and accepted > 0,
          (accepted, sent))


# ---- while the ledger stands still ---------------------------------------------------------------

def while_it_stands(runs):
    r, good = runs.rewarder, True
    for _ in range(STALLS):
        epochs = [runs.new(3) for _ in range(3)]
        r.ledger.process.send_signal(signal.SIGSTOP)
        for e in epochs:
            runs.send(e)
        under_way = eventually(lambda: any(  # which is first is up to the workers
            r.get(f"/rewarder/epochs/{e}/settlement")[1].get("state") == "emitting"
            for e in epochs))
        r.kill()
        r.ledger.process.send_signal(signal.SIGCONT)
        r.start()
        good = runs.again(epochs) and under_way and good
    good = runs.all_emitted() and good
    check(f"{STALLS} kills with batches under way: all settled", good, under_way)


# ---- the reckoning -------------------------------------------------------------------------------

def export(ledger):
    status, _, data = ledger.ask("GET", "/export")
    rows = [json.loads(line) for line in data.splitlines()]
    check("export: whole", status == 200 and rows[-1]["type"] == "end", rows[-1:])
    return [e for r in rows if r["type"] == "batch" for e in r["batch"]]


def reckon(runs):
    wanted, balances = {}, {}
    for epoch, (rows, pool, _) in runs.asked.items():
        for account, amount in shares(rows, pool)[0].items():
            wanted[f"svc-rewarder:{epoch}", account] = str(amount)
            balances[account] = balances.get(account, 0) + amount
    entries = export(runs.rewarder.ledger)
    found = {(e["memo"], e["account"]): e["amount"] for e in entries}
    check(f"{len(entries)} entries of {len(runs.asked)} epochs: each payee once, nothing else",
          len(entries) == len(found) and found == wanted, (len(entries), len(found), len(wanted)))
    there = {a: runs.rewarder.ledger.balance(a)[0] for a in balances}
    check("balances: every payout once", there == balances, [
        (a, there[a], b) for a, b in balances.items() if there[a] != b][:3])


def same_as_undisturbed(runs):
    folder = runs.rewarder.folder / "undisturbed"
    folder.mkdir()
    (folder / "policy.json").write_text(json.dumps(runs.policy), encoding="ascii")
    different = []
    epochs = rng.sample(sorted(runs.asked), min(len(runs.asked), 100))
    for epoch in epochs:
        rows, pool, _ = runs.asked[epoch]
        (folder / "snapshot.json").write_text(json.dumps(snapshot(rows, pool)), encoding="ascii")
        subprocess.run([PROGRAM, "reward", "compute", "--epoch", epoch, "--snapshot",
                        folder / "snapshot.json", "--policy", folder / "policy.json", "--out",
                        folder], check=True, capture_output=True)
        name = epoch.replace(":", "%3A")
        published = runs.rewarder.dir / "artifacts" / name
        if any((folder / name / f).read_bytes() != (published / f).read_bytes() for f in FILES):
            different.append(epoch)
    check(f"{len(epochs)} published folders are those of an undisturbed run", not different,
          different)


def main():
    print(f"seed {SEED}")
    with new_ledger() as ledger:
        with Rewarder(ledger, "--settlement.batch=50", "--settlement.retry=100ms",
                      "--concurrency.io_inflight=4") as rewarder:
            runs = Runs(rewarder)
            at_every_step(runs)
            at_random(runs)
            while_it_stands(runs)
            reckon(runs)
            same_as_undisturbed(runs)
            quarantined = rewarder.get("/rewarder/epochs?state=quarantined")[1]["epochs"]
            check("no epoch was quarantined", quarantined == [], quarantined)
    finish()


main()
