#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it measures times.
"""Goal: the settings of the specification do what they say, by default and overridden:
concurrency.compute_workers and io_inflight, the timeouts of reads, writes, idle connections and of
calls to the ledger, limits.max_body_bytes, drain_deadline, rewarder.epoch_duration.

Method: the defaults are those the program prints; the effect of each is seen from outside. Tasks
are held with ptrace and the ledger with SIGSTOP, so that what is waited for is there for certain;
times are compared with lower bounds, a tick less than the setting, or with each other, because the
machine may be slow.
"""
import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from holdkit import held, names_of, reap  # noqa: E402
from httpkit import check, eventually, finish, read_all  # noqa: E402
from ledgerkit import PROGRAM  # noqa: E402
from rewarderkit import Rewarder, policy, shares, snapshot  # noqa: E402
from walletkit import new_ledger  # noqa: E402

ROWS = [(f"t:set/n:{i}", 10 + i, i * 3, 1) for i in range(100)]
POOL = 10 ** 5
DEFAULTS = {"concurrency.compute_workers": "4", "concurrency.io_inflight": "64",
            "timeouts.read": '"5s"', "timeouts.write": '"5s"', "timeouts.idle": '"60s"',
            "timeouts.rpc": '"0s"', "limits.max_body_bytes": '"1MiB"', "drain_deadline": '"3s"',
            "rewarder.epoch_duration": '"1h"'}


def body(r, rows=ROWS):
    return r.request(snapshot(rows, POOL), policy())


def state(r, epoch):
    return r.get(f"/rewarder/epochs/{epoch}/settlement")[1].get("state")


def raw(r, text):
    host, port = r.addr.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), 60)
    s.sendall(text)
    return s


# ---- defaults ------------------------------------------------------------------------------------

def printed(r):
    """The settings in force of such a rewarder, by name; of durations and sizes the value that the
    program writes."""
    text = subprocess.run([PROGRAM, "rewarder", "--print-config", *r.options], check=True,
                          capture_output=True, text=True).stdout
    found, table = {}, ""
    for line in text.splitlines():
        if head := re.fullmatch(r"\[(.+)\]", line.strip()):
            table = head[1] + "."
        elif pair := re.match(r"([a-z_]+) = (\S+)", line):
            found[table + pair[1]] = pair[2]
    return found


def same(a, b):
    """Durations and sizes may be written in more than one way."""
    units = {"ms": 1, "s": 1000, "m": 60000, "h": 3600000, "KiB": 1 << 10, "MiB": 1 << 20, "": 1}

    def value(text):
        number, unit = re.fullmatch(r'"?(\d+)([A-Za-z]*)"?', text).groups()
        return int(number) * units[unit]
    return value(a) == value(b)


def defaults(r):
    there = printed(r)
    wrong = {k: there.get(k) for k, v in DEFAULTS.items() if k not in there or
             not same(v, there[k])}
    check("defaults: as the specification has them", not wrong, wrong)


def connected(r, name):
    """A settlement before, so that there is a connection to the ledger."""
    r.compute(f"{name}-before", body(r, [(f"t:{name}/before", 1, 1, 1)]))
    check(f"{name}: settled before", eventually(lambda: state(r, f"{name}-before") == "emitted"),
          state(r, f"{name}-before"))


# ---- concurrency ---------------------------------------------------------------------------------

def compute_workers(ledger, count, *options):
    """With the writer held each worker has a run that it cannot get rid of."""
    with Rewarder(ledger, "--queues.results=1", *options) as r:
        if not options:
            defaults(r)
        name = f"compute_workers {count}"
        check(f"{name}: as many tasks", eventually(
            lambda: {n for n in names_of(r) if n.startswith("worker-")} ==
            {f"worker-{i}" for i in range(count)}), names_of(r))
        epochs = [f"workers-{count}-{i}" for i in range(8)]
        with held(r, "artifact_writer"):
            for e in epochs:
                r.compute(e, body(r), query="")
            check(f"{name}: so many runs at once, and no more", eventually(
                lambda: r.metrics()['queue_depth{queue="results"}'] == 1 and
                r.metrics()['queue_depth{queue="work"}'] == len(epochs) - 1 - count), r.metrics())
        check(f"{name}: all are settled", eventually(
            lambda: {state(r, e) for e in epochs} == {"emitted"}), "")


def io_inflight(ledger, count, *options):
    """Batches of one payout each; a ledger that stands still answers none."""
    with Rewarder(ledger, "--settlement.batch=1", "--timeouts.read=60s", *options) as r:
        name = f"io_inflight {count}"
        connected(r, f"inflight-{count}")
        ledger.process.send_signal(signal.SIGSTOP)
        try:
            r.compute(f"inflight-{count}", body(r))
            gauge = 'oap_client_inflight{client="ledger.calls"}'
            check(f"{name}: so many batches are under way", eventually(
                lambda: r.metrics()[gauge] == count), r.metrics()[gauge])
        finally:
            ledger.process.send_signal(signal.SIGCONT)
        check(f"{name}: and all are settled", eventually(
            lambda: state(r, f"inflight-{count}") == "emitted"), state(r, f"inflight-{count}"))


# ---- calls to the ledger -------------------------------------------------------------------------

def upstream_timeout(ledger, name, at_least_ms, *options):
    """Three tries that the ledger does not answer. Each takes its whole timeout, and a wrong one of
    a minute would not end in time."""
    rows = [(f"t:{name}", 1, 1, 1)]
    with Rewarder(ledger, "--settlement.retry=1h", *options) as r:
        connected(r, name)
        before = r.metrics()
        ledger.process.send_signal(signal.SIGSTOP)
        try:
            r.compute(name, body(r, rows))
            check(f"{name}: withheld after three tries", eventually(
                lambda: state(r, name) == "withheld", 50), state(r, name))
        finally:
            ledger.process.send_signal(signal.SIGCONT)
        m = r.metrics()
        took = [m[k] - before[k] for k in ("ledger_emit_latency_seconds_sum",
                                           "ledger_emit_latency_seconds_count")]
        check(f"{name}: each took {at_least_ms} ms", took[1] == 3 and
              took[0] >= 3 * 0.9 * at_least_ms / 1000, took)
        check(f"{name}: counted with op and peer", m[
            'io_timeouts_total{op="ledger_rpc",peer="ledger"}'] == 3, m)
        r.restart()  # it takes up what was withheld
        check(f"{name}: paid once", eventually(lambda: state(r, name) == "emitted") and
              ledger.balance(rows[0][0])[0] == shares(rows, POOL)[0][rows[0][0]], state(r, name))


# ---- the front -----------------------------------------------------------------------------------

def slow_peers(ledger):
    head = b"GET /healthz HTTP/1.1\r\nHost: r\r\n\r\n"
    with Rewarder(ledger, "--timeouts.read=400ms", "--timeouts.idle=500ms") as r:
        began = time.monotonic()
        with raw(r, head[:10]) as s:
            check("timeouts.read: a head that does not end is 408", read_all(s).startswith(
                b"HTTP/1.1 408") and time.monotonic() - began >= 0.3)
        began = time.monotonic()
        with raw(r, head) as s:
            answer = read_all(s)
            check("timeouts.idle: an idle connection is closed after its answer", answer.startswith(
                b"HTTP/1.1 200") and time.monotonic() - began >= 0.4, answer)
    with Rewarder(ledger) as r:
        with raw(r, head[:10]) as slow, raw(r, head) as idle:
            eventually(lambda: idle.recv(1, socket.MSG_PEEK))
            time_was = time.monotonic()
            eventually(lambda: time.monotonic() > time_was + 1)
            slow.sendall(head[10:])
            check("timeouts.read: by default a second is not too long", slow.recv(
                12) == b"HTTP/1.1 200")
            read_answer(idle)
            idle.sendall(head)
            check("timeouts.idle: nor is one between requests", idle.recv(12) == b"HTTP/1.1 200")


def read_answer(s):
    """Takes a whole answer with a known length from the connection."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += s.recv(1)
    length = int(re.search(rb"(?i)content-length: (\d+)", got)[1])
    while length > 0:
        length -= len(s.recv(length))


def deaf_reader(ledger):
    """A list of payouts larger than what the system holds for a peer that takes nothing."""
    rows = [(f"t:deaf/a-long-name-that-takes-room-in-the-answer:{i}", 10 + i, i, 1)
            for i in range(60_000)]
    head = (json.dumps({"produced_at_millis": 1, "pool_minor_units": str(10 ** 9)}) + "\n" +
            "".join(f'{{"account":"{a}","bytes_stored":{s},"bytes_served":{v},'
                    f'"uptime_seconds":{u}}}\n' for a, s, v, u in rows))
    with Rewarder(ledger, "--timeouts.write=300ms", "--rewarder.auto_emit=false") as r:
        status, _, data = r.ask("PUT", "/rewarder/inputs", head,
                                headers={"Content-Type": "application/x-ndjson"})
        p = policy()
        status, m = r.compute("deaf", {"inputs_cid": json.loads(data)["inputs_cid"],
                                       "policy_id": p["id"], "policy_hash": r.policy_hash(p),
                                       "policy": p})
        check("timeouts.write: a run with much to tell", status == 200, m)
        before = r.metrics()['io_timeouts_total{op="write",peer=""}']
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        host, port = r.addr.rsplit(":", 1)
        s.connect((host, int(port)))
        with s:
            s.sendall(f"GET /rewarder/epochs/deaf/payouts HTTP/1.1\r\nHost: r\r\n"
                      f"Authorization: Bearer {r.token}\r\n\r\n".encode())
            check("timeouts.write: who takes nothing is cut off", eventually(
                lambda: r.metrics()['io_timeouts_total{op="write",peer=""}'] == before + 1, 60),
                r.metrics())


def body_limit(ledger, limit, *options):
    """The limit itself is no refusal of the front, one byte more is."""
    with Rewarder(ledger, *options) as r:
        sent = {n: r.ask("POST", "/rewarder/epochs/body/compute", b" " * n)[0]
                for n in (limit, limit + 1)}
        check(f"limits.max_body_bytes {limit}: one more is 413", sent ==
              {limit: 400, limit + 1: 413}, sent)


# ---- ends ----------------------------------------------------------------------------------------

def drain_deadline(ledger, seconds, *options):
    """How long a drain waits for a writer that is held."""
    with Rewarder(ledger, *options) as r:
        with held(r, "artifact_writer") as tids:
            r.compute(f"deadline-{seconds}", body(r), query="")
            check("drain_deadline: a result waits", eventually(
                lambda: r.metrics()['queue_depth{queue="results"}'] == 1), r.metrics())
            began = time.monotonic()
            r.process.send_signal(signal.SIGTERM)
            reap(tids[0])
            r.process.wait(60)
            took = time.monotonic() - began
        check(f"drain_deadline {seconds}: waits that long", took >= seconds, took)
        r.start()
        check("drain_deadline: the next life settles it", eventually(
            lambda: state(r, f"deadline-{seconds}") == "emitted"), "")
    return took


def epoch_duration(ledger):
    """A run has half of an epoch: the same wait is too long for one of two seconds, and nothing for
    the default."""
    for name, options in (("short", ["--rewarder.epoch_duration=2s"]), ("default", [])):
        with Rewarder(ledger, "--concurrency.compute_workers=1", *options) as r:
            with held(r, "worker-0"):
                r.compute(f"epoch-{name}", body(r), query="")
                began = time.monotonic()
                eventually(lambda: time.monotonic() > began + 1.2)
            if options:
                check("rewarder.epoch_duration: half of it is over", eventually(lambda: r.get(
                    f"/rewarder/epochs/epoch-{name}")[1].get("code") == "TIMEOUT"), "")
            else:
                check("rewarder.epoch_duration: by default the run has time", eventually(
                    lambda: state(r, f"epoch-{name}") == "emitted"), "")


def main():
    with new_ledger() as ledger:
        slow_peers(ledger)
        body_limit(ledger, 1 << 20)
        body_limit(ledger, 3000, "--limits.max_body_bytes=3000B")
        io_inflight(ledger, 64)
        io_inflight(ledger, 3, "--concurrency.io_inflight=3")
        upstream_timeout(ledger, "read-timeout", 1000, "--timeouts.read=1s")
        upstream_timeout(ledger, "stricter", 1000, "--timeouts.read=60s", "--timeouts.rpc=1s")
        upstream_timeout(ledger, "laxer", 1000, "--timeouts.read=1s", "--timeouts.rpc=60s")
        try:
            compute_workers(ledger, 4)
            compute_workers(ledger, 2, "--concurrency.compute_workers=2")
            epoch_duration(ledger)
            short = drain_deadline(ledger, 1, "--drain_deadline=1s")
            drain_deadline(ledger, 3)
            long = drain_deadline(ledger, 5, "--drain_deadline=5s")
            check("drain_deadline: the shorter is the shorter", short < long, (short, long))
        except PermissionError:
            print("left out: a thread cannot be held here (ptrace)")
        deaf_reader(ledger)  # last: what it leaves would be settled by others
    finish()


main()
