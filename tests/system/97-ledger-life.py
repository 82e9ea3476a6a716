#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it holds tasks and measures deadlines.
"""Goal: sizes, identities and the end of a ledger are those of the specification: settings and
their defaults, how many tasks there are, what a peer on the Unix socket must be besides holding a
token, and what becomes of a drain when the committer is slow or stuck.

Method: settings are read back from the program and from /metrics. The committer's thread alone is
held with ptrace, as a disk that does not answer would hold it; where that is not allowed this part
is left out, and says so.
"""
import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import PROGRAM, Ledger, entry  # noqa: E402

ALICE, BOB = "t:life/u:alice", "t:life/u:bob"
CPUS = len(os.sched_getaffinity(0))
DEFAULTS = {"queues.ingress": "2000", "queues.prevalidator": "2000", "queues.commit": "1000",
            "limits.max_body_bytes": "1MiB", "timeouts.kms_ms": "1000",
            "timeouts.policy_ms": "800", "timeouts.wallet_ms": "1000",
            "retries.policy_guard.max_retries": "1", "retries.policy_guard.max_backoff": "150ms",
            "drain_deadline": "3s", "trace.sample_percent": "1"}
SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4


def metrics(ledger):
    text = ledger.get("/metrics", token=None)[1].decode()
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in text.splitlines()
                                     if line[:1] not in ("#", ""))}


# ---- settings ------------------------------------------------------------------------------------

def flat(text):
    """The keys of a TOML file as the program prints it."""
    found, section = {}, ""
    for line in text.splitlines():
        if m := re.match(r"\[([^\]]+)\]", line):
            section = m[1] + "."
        elif m := re.match(r'(\w+) = "?([^"#]*?)"?\s*(?:#.*)?$', line):
            found[section + m[1]] = m[2]
    return found


def settings():
    done = subprocess.run([PROGRAM, "ledger", "--engine.mode=amnesia", "--auth.key_file=/k",
                           "--amnesia.enabled=true", "--print-config"], capture_output=True,
                          text=True)
    found = flat(done.stdout)
    wrong = {k: found.get(k) for k, v in DEFAULTS.items() if found.get(k) != v}
    check("settings: defaults of the specification", done.returncode == 0 and not wrong,
          (wrong, done.stderr, done.stdout[:500]))
    for key in ("concurrency.sequencers", "concurrency.committers"):
        done = subprocess.run([PROGRAM, "ledger", f"--{key}=2", "--check-config"],
                              capture_output=True, text=True)
        check(f"settings: there is no {key}", done.returncode != 0 and key in done.stderr, done)
    with tempfile.TemporaryDirectory(prefix="ron-ledger-") as folder:
        for key in ("auth.key_file", "policy.file"):
            keys = Path(folder) / "cap.keys"
            subprocess.run([PROGRAM, "cap", "key", "new", "--id", "k1", "--keys", str(keys)],
                           capture_output=True)
            done = subprocess.run([PROGRAM, "ledger", "--bind_addr=127.0.0.1:0",
                                   f"--engine.data_dir={folder}/data", f"--uds.path={folder}/s",
                                   f"--auth.key_file={keys}", f"--{key}={folder}/absent"],
                                  capture_output=True, text=True, timeout=60)
            check(f"settings: a missing file is told with its key {key}", done.returncode == 1
                  and done.stderr.startswith(f"ron ledger: {key}: open {folder}/absent: "), done)


def no_key_is_made():
    """Under amnesia nothing is written, a key least of all."""
    with tempfile.TemporaryDirectory(prefix="ron-ledger-") as folder:
        keys, absent = Path(folder) / "cap.keys", Path(folder) / "signing.key"
        subprocess.run([PROGRAM, "cap", "key", "new", "--id", "k1", "--keys", str(keys)],
                       capture_output=True)
        try:
            done = subprocess.run([PROGRAM, "ledger", "--bind_addr=127.0.0.1:0",
                                   "--engine.mode=amnesia", "--amnesia.enabled=true",
                                   f"--uds.path={folder}/s", f"--auth.key_file={keys}",
                                   f"--signing.key_file={absent}", "--signing.origin=x.example"],
                                  capture_output=True, text=True, timeout=20)
            told = (done.returncode, done.stderr)
        except subprocess.TimeoutExpired:
            told = (None, "it runs")
        check("amnesia: an absent signing key is an error that names it", told[0] == 1
              and "signing.key_file" in told[1] and str(absent) in told[1], told)
        check("amnesia: and is not made", not absent.exists(), os.listdir(folder))


def tasks(name, expected, *options):
    with Ledger(*options) as ledger:
        def found():
            rows = metrics(ledger)
            return {k: rows.get(f'tasks_spawned_total{{kind="{k}"}}') for k in expected}

        # The first listener answers while the others are still being started.
        eventually(lambda: sum(found().values()) >= sum(expected.values()))
        check(f"tasks: {name}: {expected}", found() == expected, found())
        if not options:
            rows = metrics(ledger)
            sizes = {q: rows[f'queue_capacity{{queue="{q}"}}'] for q in
                     ("ingress", "preval", "commit")}
            check("queues: capacities of the specification",
                  sizes == {"ingress": 2000, "preval": 2000, "commit": 1000}, sizes)


# ---- peers ---------------------------------------------------------------------------------------

def peers():
    me = os.getuid()
    with Ledger(f"--auth.privileged_uids={me}") as ledger:
        status, body = ledger.ingest(entry("Mint", ALICE, 100), admin=True)
        check("peer: a listed user of the Unix socket mints with a token", status == 200, body)
        status, body = ledger.ingest(entry("Mint", ALICE, 100), admin=True, token=None)
        check("peer: not without a token", status == 401, body)
        status, body = ledger.ingest(entry("Mint", ALICE, 100))
        check("peer: the same token mints nothing over TCP", status == 401
              and body["reason"] == "unauth", body)
        status, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB))
        check("peer: what is not privileged goes on over TCP", status == 200, body)
        status, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB), query="?import=true")
        check("peer: an import is, over TCP", status == 401 and "ledger.import" in str(body), body)
        old = entry("Transfer", ALICE, 1, to=BOB, ts=1_600_000_000_000)
        status, body = ledger.ingest(old, query="?import=true", admin=True)
        check("peer: a listed user imports what is old", status == 200, body)
        status, body = ledger.ingest(entry("Mint", ALICE, 1), query="?import=true", admin=True,
                                     token=ledger.mint_token("ledger.import,ledger.transfer"))
        check("peer: but not what its token may not send", status == 403
              and "ledger.mint" in str(body), body)
    with Ledger(f"--auth.privileged_uids={me + 4321}") as ledger:
        status, body = ledger.ingest(entry("Mint", ALICE, 100), admin=True)
        check("peer: another user of the Unix socket mints nothing", status == 401, body)


# ---- a committer that hangs ----------------------------------------------------------------------

class Held:
    """The committer's thread, held; `with` lets it go again, or reaps it when the process ended."""

    def __init__(self, ledger):
        folder = Path(f"/proc/{ledger.process.pid}/task")
        self.tid = next(int(t.name) for t in folder.iterdir()
                        if (t / "comm").read_text(encoding="ascii").strip() == "committer")

    def __enter__(self):
        if libc.ptrace(SEIZE, self.tid, 0, 0) != 0 or libc.ptrace(INTERRUPT, self.tid, 0, 0) != 0:
            raise PermissionError(ctypes.get_errno(), "ptrace")
        os.waitpid(self.tid, WALL)

    def __exit__(self, *_):
        if libc.ptrace(DETACH, self.tid, 0, 0) != 0:
            os.waitpid(self.tid, WALL)


def offered(ledger, answers):
    """A transfer that waits for the committer."""
    thread = threading.Thread(target=lambda: answers.append(
        ledger.ingest(entry("Transfer", ALICE, 1, to=BOB), idem="held")))
    thread.start()
    eventually(lambda: metrics(ledger)['queue_depth{queue="commit"}'] == 1)
    return thread


def ready(ledger):
    return ledger.get("/readyz", token=None)


def slow_committer():
    with Ledger() as ledger:
        ledger.ingest(entry("Mint", ALICE, 100))
        answers = []
        with Held(ledger):
            thread = offered(ledger, answers)
            check("lag: not ready, and says why", eventually(
                lambda: ready(ledger)[0] == 503) and "committer_lag" in
                ready(ledger)[1]["causes"]["commit_queue"], ready(ledger))
            check("lag: reads go on", ledger.balance(ALICE) == (100, 0))
        thread.join()
        check("lag: answered when it goes on", answers[0][0] == 200, answers)
        check("lag: ready again", eventually(lambda: ready(ledger)[0] == 200), ready(ledger))
        with Held(ledger):
            ledger.process.send_signal(signal.SIGTERM)
            check("drain: begun", eventually(lambda: any('"draining"' in x
                                                         for x in ledger.lines)))
        check("drain: a committer that comes back in time ends with 0",
              ledger.process.wait(30) == 0)


def full_queue():
    with Ledger("--queues.commit=1") as ledger:
        ledger.ingest(entry("Mint", ALICE, 100))
        answers = []
        with Held(ledger):
            thread = offered(ledger, answers)
            check("pressure: not ready before the committer lags", eventually(
                lambda: ready(ledger)[0] == 503) and "commit_queue_high: 1 of 1" in
                ready(ledger)[1]["causes"]["commit_queue"], ready(ledger))
        thread.join()
        check("pressure: ready again", eventually(lambda: ready(ledger)[0] == 200)
              and answers[0][0] == 200, (ready(ledger), answers))


def stuck_committer():
    with Ledger("--drain_deadline=1s") as ledger:
        ledger.ingest(entry("Mint", ALICE, 100))
        answers = []
        with Held(ledger):
            thread = offered(ledger, answers)
            ledger.process.send_signal(signal.SIGTERM)
            check("stuck: ends although it hangs", eventually(lambda: any(
                '"stopped","seq":1' in x for x in ledger.lines)), ledger.lines[-5:])
        thread.join()
        check("stuck: exit 2, told as aborted and leaked", ledger.process.wait(30) == 2 and all(
            any(f'"event":"{e}"' in x for x in ledger.lines) for e in ("aborted", "leaked")),
            ledger.lines[-8:])
        check("stuck: the caller was not told yes", answers[0][0] == 503, answers)
        ledger.start()
        status, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB))
        check("stuck: starts in safe mode", status == 503 and body["reason"] == "safe_mode"
              and ledger.balance(ALICE) == (100, 0), body)
        status, body = ledger.admin("POST", "/resume", "")
        check("stuck: resumed by the operator after a verification", status == 200, body)
        check("stuck: the outcome is known", ledger.get("/outcome/held")[1]["outcome"] == "unknown")
        check("stuck: goes on", ledger.ingest(entry("Transfer", ALICE, 1, to=BOB))[0] == 200)


def main():
    settings()
    no_key_is_made()
    tasks("by default", {"prevalidator": max(2, CPUS // 2), "listener": max(1, CPUS // 4),
                         "sequencer": 1, "committer": 1})
    tasks("as asked", {"prevalidator": 5, "listener": 2, "sequencer": 1, "committer": 1},
          "--concurrency.prevalidators=5", "--concurrency.ingress_workers=2", "--workers=2")
    peers()
    try:
        slow_committer()
        full_queue()
        stuck_committer()
    except PermissionError:
        print("left out: a thread cannot be held here (ptrace)")
    finish()


main()
