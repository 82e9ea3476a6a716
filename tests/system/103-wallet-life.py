#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it measures times.
"""Goal: a wallet as its operator meets it: settings that do what they say, a reload, the audit
stream, readiness, and metrics with the names of the specification.

Method: wallets with one setting changed each, beside one ledger.
"""
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish, h2load, missing, read_all  # noqa: E402
from ledgerkit import PROGRAM, entry  # noqa: E402
from walletkit import Wallet, new_key, new_ledger  # noqa: E402

SERIES = """
http_requests_total request_latency_seconds_count inflight_requests wallet_requests_total
wallet_rejects_total rejected_total idempotent_replays_total upstream_calls_total
upstream_latency_seconds_count circuit_open_total upstream_fail_total
wallet_conservation_checks_total wallet_nonce_conflicts_total queue_depth queue_dropped_total
busy_rejections_total worker_inflight tasks_spawned_total tasks_aborted_total tasks_canceled_total
io_timeouts_total backoff_retries_total bus_lagged_total service_restarts_total
""".split()
LABELLED = ['queue_depth{queue="work"}', 'queue_dropped_total{queue="work"}',
            'queue_dropped_total{queue="events"}',
            'bus_lagged_total{bus="events"}', 'bus_lagged_total{bus="ledger"}',
            'io_timeouts_total{op="ledger_rpc",peer="ledger"}',
            'tasks_spawned_total{kind="worker"}', 'tasks_spawned_total{kind="invalidator"}',
            'tasks_spawned_total{kind="ticker"}', 'upstream_fail_total{svc="ledger"}',
            'circuit_open_total{svc="ledger"}']


def observed(wallet, born):
    m = wallet.metrics()
    names = {name.partition("{")[0] for name in m}
    check("metrics: the names of the specification", not [n for n in SERIES if n not in names],
          [n for n in SERIES if n not in names])
    check("metrics: their labels", not [n for n in LABELLED if n not in m],
          [n for n in LABELLED if n not in m])
    check("metrics: retries of commits", any(n.startswith(
        'backoff_retries_total{svc="ledger",op="commit"') for n in m))
    wallet.issue("m/a", 5, key="m-1")
    calls = {n: v for n, v in wallet.metrics().items() if n.startswith("oap_client_calls_total")}
    check("metrics: calls by client and outcome", not any('client=""' in n for n in calls)
          and calls['oap_client_calls_total{client="ledger-0.calls",outcome="answered"}'] > 0,
          calls)
    before = wallet.metrics()
    for _ in range(3):
        wallet.issue("m/a", 5, key="m-1")
    wallet.issue("m/a", 6, key="m-1")
    after = wallet.metrics()
    check("metrics: replays and conflicts are counted", [
        after[n] - before[n] for n in ('idempotent_replays_total{op="issue"}',
                                       'wallet_rejects_total{reason="idempotency_conflict"}',
                                       'rejected_total{reason="idempotency_conflict"}')]
          == [3, 1, 1], (before, after))
    ticks = wallet.metrics()["metrics_ticks_total"]
    check("ticker: ticks", eventually(
        lambda: wallet.metrics()["metrics_ticks_total"] >= ticks + 2), ticks)
    ticks = wallet.metrics()["metrics_ticks_total"]
    lived = time.monotonic() - born
    check("ticker: not more often than each second", ticks <= lived + 1, (ticks, lived))
    _, topology = wallet.get("/debug/topology", token=None)
    queues = {q["name"]: q["capacity"] for q in topology["queues"]}
    buses = {b["name"]: b["capacity"] for b in topology["buses"]}
    check("topology: work 512, events and ledger bus 1024", queues["work"] == 512
          and (buses["events"], buses["ledger"]) == (1024, 1024), (queues, buses))
    for path, member in (("/healthz", "ok"), ("/readyz", "ready"), ("/version", "version")):
        got, body = wallet.get(path, token=None)
        check(f"{path}: answers without a token", got == 200 and body[member], body)


# ---- the audit stream ----------------------------------------------------------------------------

class Stream:
    """GET /v1/events, read line by line."""

    def __init__(self, wallet, token=None):
        self.connection = wallet.connect()
        self.connection.request("GET", "/v1/events", headers={
            "Authorization": f"Bearer {token or wallet.token}"})
        self.answer = self.connection.getresponse()

    def next(self):
        """(event, data) of the next event."""
        kind = None
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                return kind, json.loads(line[6:])

    def close(self):
        self.connection.close()


def events(wallet):
    stream = Stream(wallet)
    check("events: a stream", stream.answer.status == 200
          and stream.answer.headers["Content-Type"].startswith("text/event-stream"))
    _, r = wallet.issue("secret-name", 5, memo="secret-memo")
    kind, accepted = stream.next()
    check("events: an accepted write", kind == "accepted" and accepted["op"] == "issue"
          and accepted["txid"] == r["txid"], (kind, accepted))
    wallet.write("burn", from_="secret-name", amount_minor="50")
    kind, rejected = stream.next()
    check("events: a refused one, with its reason", kind == "rejected"
          and rejected["reason"] == "insufficient_funds", (kind, rejected))
    check("events: no account and no memo in it", "secret" not in json.dumps([accepted, rejected]))
    check("events: one account has one hash", accepted["account"] == rejected["account"]
          if "account" in accepted else True, accepted)
    for _ in range(2):
        wallet.issue("e/a", 1)
    check("events: in order", [stream.next()[1]["op"] for _ in range(2)] == ["issue"] * 2)
    stream.close()
    for later in range(-3, 30):  # the skew of clocks is 5 s: the first is good for another second
        exp = int(time.time()) + later
        short = Stream(wallet, wallet.mint_token("wallet.read", "--exp", str(exp)))
        if short.answer.status != 401:
            break
    check("events: the last one says that the token has ended",
          short.answer.status == 200 and (short.next(), short.answer.read()) ==
          (("expired", {}), b"\n"))
    short.close()
    got, body = wallet.get("/v1/events", token=wallet.mint_token("wallet.transfer"))
    check("events: needs wallet.read", got == 403, body)


def slow_reader(ledger):
    """A reader that does not read misses events, and is told how many; writers never wait."""
    if missing("h2load"):
        return
    with Wallet(ledger, "--timeouts.write=60s") as wallet, \
            tempfile.NamedTemporaryFile("w") as body:
        host, port = wallet.addr.rsplit(":", 1)
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(30)
        s.connect((host, int(port)))
        s.sendall(f"GET /v1/events HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer {wallet.token}"
                  "\r\n\r\n".encode())
        first = s.recv(100)
        wallet.issue("slow/a", 1, key="slow")
        body.write(json.dumps({"to": "slow/a", "amount_minor": "1"}))
        body.flush()
        rounds = [h2load(  # a repeated write is an event, too
            f"http://{wallet.addr}/v1/issue", 20000, 16, "-d", body.name, "-H",
            f"Authorization: Bearer {wallet.token}", "-H", "Content-Type: application/json",
            "-H", "Idempotency-Key: slow") for _ in range(5)]
        check("events: nobody waits for a reader that does not read", first
              and all(r["bad"] == 0 for r in rounds), [r["text"] for r in rounds])
        data = b""
        until = time.monotonic() + 20
        while b"event: lagged" not in data and time.monotonic() < until:
            data = data[-100:] + s.recv(65536)
        check("events: it is told how many it missed, and they are counted",
              b"event: lagged" in data
              and wallet.metrics()['bus_lagged_total{bus="events"}'] > 1000, data[-300:])
        s.close()


# ---- settings ------------------------------------------------------------------------------------

def limits(ledger):
    with Wallet(ledger, "--limits.max_body_bytes=256KiB", "--limits.decompress_ratio_cap=2",
                "--wallet.max_amount_per_op=100", "--wallet.daily_ceiling=150",
                "--wallet.max_account_total=1000", "--wallet.assets=roc,usd") as wallet:
        check("limits.max_body_bytes: one byte more is too much", wallet.ask(
            "POST", "/v1/issue", "x" * (256 * 1024 + 1))[0] == 413)
        body = gzip.compress(os.urandom(20000).hex().encode() + b" " * 120000)  # 7 times larger
        got, _, data = wallet.ask("POST", "/v1/issue", body, headers={"Content-Encoding": "gzip"})
        check("limits.decompress_ratio_cap: holds", (got, json.loads(data)["code"])
              == (413, "DECOMP_LIMIT"), data)
        got, body = wallet.issue("day/a", 101)
        check("wallet.max_amount_per_op: holds", (got, body["code"]) == (403, "LIMITS_EXCEEDED"))
        for _ in range(4):
            wallet.issue("day/a", 100)
        steps = [wallet.transfer("day/a", "day/b", 100)[0], wallet.transfer("day/a", "day/b", 51),
                 wallet.transfer("day/a", "day/b", 50)[0], wallet.transfer("day/a", "day/b", 1)]
        check("wallet.daily_ceiling: 150 a day and not one more", (steps[0], steps[2]) == (200, 200)
              and [(g, b["code"]) for g, b in (steps[1], steps[3])]
              == [(403, "LIMITS_EXCEEDED")] * 2, steps)
        wallet.restart()
        wallet.ready()
        got, body = wallet.transfer("day/a", "day/b", 1)
        check("wallet.daily_ceiling: a restart forgets nothing", (got, body["code"])
              == (403, "LIMITS_EXCEEDED"), body)
        for _ in range(10):
            got, body = wallet.issue("full/a", 100)
        check("wallet.max_account_total: up to it", got == 200, body)
        got, body = wallet.issue("full/a", 1)
        check("wallet.max_account_total: and no more", (got, body["code"])
              == (403, "LIMITS_EXCEEDED"), body)
        got, body = wallet.issue("set/a", 1, asset="eur")
        check("wallet.assets: others are refused", (got, body["code"]) == (403, "POLICY_DENIED"))
        check("wallet.assets: one of them", wallet.issue("set/a", 1, asset="usd")[0] == 200)


def said_to(wallet, text):
    """All that a connection of its own hears, until the wallet closes it."""
    host, port = wallet.addr.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 30) as s:
        try:
            s.sendall(text)
            return read_all(s)
        except OSError:
            return b""


def rates(ledger):
    with Wallet(ledger, "--limits.rate_per_second=1", "--limits.burst=3", "--wallet.workers=3",
                "--wallet.shards=1", "--wallet.staleness_window=1s") as wallet:
        c, got = wallet.connect(), []
        check("limits.rate_per_second and burst: three pass, then comes a 429", eventually(
            lambda: got.append(wallet.post("issue", to="set/a", amount_minor="1", connection=c)[0])
            or got[-1] == 429) and set(got[:-1]) == {200} and len(got) > 3, got)
        check("wallet.workers: three", wallet.metrics()['tasks_spawned_total{kind="worker"}'] == 3)


def slow_clients(ledger):
    """The times are far below the defaults, 5 s and 60 s."""
    with Wallet(ledger, "--timeouts.read=200ms", "--timeouts.idle=300ms") as wallet:
        answers = []
        # Who is slow to begin is idle, and hears nothing: it comes again.
        check("timeouts.read: a head that does not end is 408", eventually(
            lambda: answers.append(said_to(wallet, b"GET /healthz HT")) or answers[-1], 4)
            and answers[-1].startswith(b"HTTP/1.1 408"), answers)
        began = time.monotonic()
        said_to(wallet, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        check("timeouts.idle: an idle connection is closed", time.monotonic() - began < 25)


def connections(ledger):
    with Wallet(ledger, "--limits.connections=4") as wallet:
        first = wallet.connect()

        def count():
            """Of the connections that the wallet has, asked over one of them."""
            text = wallet.ask("GET", "/metrics", token=None, connection=first)[2].decode()
            return sum(float(line.rpartition(" ")[2]) for line in text.splitlines()
                       if line.startswith("http_connections{"))

        check("limits.connections: one is open", eventually(lambda: count() == 1), count())
        host, port = wallet.addr.rsplit(":", 1)
        kept = [socket.create_connection((host, int(port)), 30) for _ in range(3)]
        check("limits.connections: four are open", eventually(lambda: count() == 4), count())
        said = said_to(wallet, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        check("limits.connections: a fifth is refused", not said or b" 503 " in said, said)
        for s in [*kept, first]:
            s.close()


def upstream(ledger):
    """Retries and the breaker, against a ledger that stands still."""
    with Wallet(ledger, "--timeouts.rpc=100ms", "--retry.tries=2", "--retry.base=10ms",
                "--retry.max=20ms", "--retry.jitter=1ms", "--upstreams.ledger_stall=10s",
                "--circuit_breaker.failure_threshold=4", "--circuit_breaker.open_duration=300ms",
                "--circuit_breaker.half_open_max=2", "--drain_deadline=1s") as wallet:
        wallet.issue("up/a", 1)
        ledger.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        got, body = wallet.issue("up/a", 1, key="up-1")
        took = time.monotonic() - began
        check("retry and timeouts.rpc: two tries of 100 ms", (got, body["code"]) == (503, "TIMEOUT")
              and 0.2 <= took < 3, (got, body, took))  # three of a second are the default
        m = wallet.metrics()
        check("retry: counted", m['io_timeouts_total{op="ledger_rpc",peer="ledger"}'] >= 2, m)
        answers = []
        check("circuit_breaker: after four failures the ledger is not called", eventually(
            lambda: answers.append(wallet.issue("up/a", 1)[1]["code"])
            or answers[-1] == "UPSTREAM_UNAVAILABLE") and wallet.metrics()[
                'circuit_open_total{svc="ledger"}'] >= 1, answers)
        ledger.process.send_signal(signal.SIGCONT)
        check("circuit_breaker: closes again", eventually(
            lambda: wallet.issue("up/b", 1)[0] == 200))
        got, body = wallet.issue("up/a", 1, key="up-1")
        check("retry: the same request later is done once", got == 200, body)
    check("drain_deadline: was kept", wallet.process.returncode == 0)


def invalidator(ledger):
    """With a window of five seconds only the ledger's bus can bring news sooner."""
    with Wallet(ledger, "--wallet.staleness_window=5s") as wallet:
        path = "/v1/balance?account=bus/a"
        wallet.issue("bus/a", 5)
        wallet.get(path)
        hits = wallet.metrics()['wallet_cache_reads_total{result="hit"}']
        check("cache: serves", wallet.get(path)[1]["amount_minor"] == "5" and wallet.metrics()[
            'wallet_cache_reads_total{result="hit"}'] == hits + 1)
        ledger.ingest(entry("Mint", "bus/a", 7))
        check("ledger bus: what others change is seen within the window", eventually(
            lambda: wallet.get(path)[1]["amount_minor"] == "12", 4), wallet.get(path))


def tables(ledger):
    """Settings of the tables: what is forgotten is asked of the ledger, nothing else changes."""
    def reads(wallet):
        return sum(n for name, n in wallet.metrics().items()
                   if name.startswith('upstream_calls_total{svc="ledger",op="read"'))

    with Wallet(ledger, "--wallet.shards=1") as wallet:
        _, first = wallet.issue("ttl/a", 5, key="ttl-1")
        before = reads(wallet)
        check("idempotency_ttl: within it nobody asks the ledger",
              wallet.issue("ttl/a", 5, key="ttl-1") == (200, first)
              and reads(wallet) == before, (before, reads(wallet)))
    with Wallet(ledger, "--wallet.idempotency_ttl=1s", "--wallet.shards=1") as wallet:
        again = [wallet.issue("ttl/a", 5, key="ttl-1")]
        before = reads(wallet)

        def asked():
            again.append(wallet.issue("ttl/a", 5, key="ttl-1"))
            return reads(wallet) > before

        check("idempotency_ttl: after it the ledger is asked, and the receipt is the same",
              eventually(asked) and all(a == (200, first) for a in again), (before, again[-1]))
        path = "/v1/balance?account=ttl/a"
        check("shards: one does as well", wallet.get(path)[1]["amount_minor"] == "5")
    with Wallet(ledger, "--wallet.staleness_window=10ms") as wallet:
        wallet.get(path)
        before = reads(wallet)
        check("staleness_window: what is older is asked of the ledger again", eventually(
            lambda: wallet.get(path)[0] == 200 and reads(wallet) > before), (before, reads(wallet)))


def reload(ledger):
    with Wallet(ledger) as wallet:
        old = wallet.token
        subprocess.run([PROGRAM, "cap", "key", "new", "--id", "w2", "--keys", str(wallet.keys)],
                       check=True, capture_output=True)
        token = wallet.mint_token("wallet")
        check("reload: a token of the new key is not known yet", wallet.get(
            "/v1/balance?account=a", token=token)[0] == 401)
        wallet.process.send_signal(signal.SIGHUP)
        check("reload: then it is", eventually(lambda: wallet.get(
            "/v1/balance?account=a", token=token)[0] == 200))
        check("reload: and the old one, too", wallet.get("/v1/balance?account=a", token=old)[0]
              == 200)
        wallet.write_ledger_token("nonsense")
        wallet.process.send_signal(signal.SIGHUP)
        check("reload: a bad ledger token is told and not taken", eventually(lambda: any(
            "ledger token reload failed" in x for x in wallet.lines))
            and wallet.issue("r/a", 1)[0] == 200)
        wallet.write_ledger_token(ledger.mint_token("ledger.read"))
        wallet.process.send_signal(signal.SIGHUP)
        refused = eventually(lambda: wallet.issue("r/a", 1)[0] != 200)
        got, body = wallet.issue("r/a", 1)
        check("reload: a narrower ledger token narrows the wallet", refused and got in (403, 503),
              (got, body))
        wallet.write_ledger_token(ledger.mint_token("ledger"))
        wallet.process.send_signal(signal.SIGHUP)
        check("reload: a good one mends it", eventually(
            lambda: wallet.issue("r/a", 1)[0] == 200))


def refused_settings(ledger):
    for name, options in (
            ("no key file", ["--auth.key_file="]), ("no ledger", ["--upstreams.ledger_addr="]),
            ("a key file that is not there", ["--auth.key_file=/nonexistent"]),
            ("a ceiling of 0", ["--wallet.max_amount_per_op=0"]),
            ("a day below one operation", ["--wallet.daily_ceiling=5"]),
            ("a total below a day", ["--wallet.max_account_total=5"]),
            ("an amount that is none", ["--wallet.daily_ceiling=1e22"]),
            ("0 shards", ["--wallet.shards=0"]),
            ("a short ttl", ["--wallet.idempotency_ttl=500ms"]),
            ("a long ttl", ["--wallet.idempotency_ttl=73h"]),
            ("a window of 9 ms", ["--wallet.staleness_window=9ms"]),
            ("an unknown key", ["--wallet.colour=red"])):
        ran = subprocess.run([PROGRAM, "wallet", "--bind_addr=127.0.0.1:0",
                              f"--auth.key_file={ledger.folder / 'wallet.keys'}",
                              f"--upstreams.ledger_addr=unix:{ledger.oap}",
                              f"--upstreams.ledger_token_file={ledger.folder / 'wallet.token'}",
                              *options], capture_output=True, text=True, timeout=30)
        key = options[0][2:].partition("=")[0]
        check(f"settings: {name} is refused by name", ran.returncode != 0 and key in ran.stderr,
              (ran.returncode, ran.stderr))


def main():
    with new_ledger() as ledger:
        born = time.monotonic()
        with Wallet(ledger) as wallet:
            observed(wallet, born)
            events(wallet)
        slow_reader(ledger)
        limits(ledger)
        rates(ledger)
        slow_clients(ledger)
        connections(ledger)
        upstream(ledger)
        invalidator(ledger)
        tables(ledger)
        reload(ledger)
        refused_settings(ledger)
    finish()


main()
