# SPDX-License-Identifier: Apache-2.0
"""Several ledgers on one log in PostgreSQL, for tests: a node, whom writers ask, payers that go
through a wallet, and a relay on loopback that cuts and delays the way to the database."""
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pgserver
from httpkit import check
from ledgerkit import PROGRAM, Ledger
from walletkit import new_key

AUDIT = os.path.join(os.path.dirname(PROGRAM), "ron-audit")


def until(what, limit_s=30):
    """The first true value of what() within the time, else the last one."""
    end = time.monotonic() + limit_s
    while True:
        try:
            got = what()
        except (OSError, http.client.HTTPException):
            got = None
        if got or time.monotonic() > end:
            return got
        time.sleep(0.02)


def make_keys(folder):
    """One ring of capability keys for all nodes."""
    subprocess.run([PROGRAM, "cap", "key", "new", "--id", "k1", "--keys", f"{folder}/cap.keys"],
                   check=True, capture_output=True)


class Node(Ledger):
    """One of several ledgers; all of a folder share the keys there."""

    def __init__(self, name, folder, dsn, *options, lease="1s", migrate=True):
        self.name = name
        home = Path(folder) / name
        home.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(Path(folder) / "cap.keys", home / "cap.keys")
        (home / "cap.keys").chmod(0o600)
        port = pgserver.free_port()
        super().__init__("--engine.sink=postgres", f"--postgres.dsn={dsn}",
                         f"--postgres.advertise=http://127.0.0.1:{port}",
                         f"--postgres.migrate={'true' if migrate else 'false'}",
                         f"--postgres.lease={lease}", "--postgres.append_deadline=20s",
                         f"--bind_addr=127.0.0.1:{port}", f"--oap.addr=unix:{home}/oap.sock",
                         *options, folder=home)

    def readyz(self):
        try:
            return self.get("/readyz", token=None)
        except (OSError, http.client.HTTPException):
            return 0, {}

    def leads(self):
        status, found = self.readyz()
        return status == 200 and not found["degraded"]

    def follows(self):
        status, found = self.readyz()
        return status == 200 and found.get("causes", {}).get(
            "shared_log", "").startswith("follows")

    def root(self):
        """Size and root of its checkpoint."""
        return self.ask("GET", "/checkpoint", token=None)[2].split(b"\n")[1:3]


class Group:
    """What a wallet or a rewarder beside several nodes is given instead of one ledger."""

    def __init__(self, folder, nodes):
        self.folder = Path(folder)
        self.nodes = nodes
        self.oap = ",unix:".join(str(n.oap) for n in nodes)  # the kits write the first "unix:"

    def mint_token(self, *arguments):
        return self.nodes[0].mint_token(*arguments)

    def leader(self):
        """The one that leads now; waits until there is one."""
        return until(lambda: next((n for n in self.nodes if n.process.poll() is None and
                                   n.leads()), None), 60)


def audit(name, node):
    done = subprocess.run([AUDIT, str(node.data)], capture_output=True, text=True)
    check(f"{name}: the auditor agrees about {node.name}", done.returncode == 0,
          done.stdout + done.stderr)


class Payer(threading.Thread):
    """Pays through a wallet, one payment after another; each is sent again with the same key until
    the word is definite. What was acknowledged is in `paid`: key -> receipt."""

    def __init__(self, wallet, number):
        super().__init__(daemon=True)
        self.wallet = wallet
        self.account = f"t:pay/{number}"
        self.paid = {}
        self.bodies = {}
        self.times = []  # when a payment was acknowledged
        self.again = {}  # code -> how often it was told to come again
        self.wrong = []  # what was not retryable
        self.lost = 0    # answers that never came
        self.halt = threading.Event()

    def pay(self, key):
        body = json.dumps({"from": "t:rich", "to": self.account, "amount_minor": "1"})
        self.bodies[key] = body
        end = time.monotonic() + 90
        while time.monotonic() < end:
            try:
                status, _, data = self.wallet.ask("POST", "/v1/transfer", body,
                                                  headers={"Idempotency-Key": key})
            except (OSError, http.client.HTTPException):
                self.lost += 1
                time.sleep(0.02)
                continue
            if status == 200:
                self.paid[key] = data
                self.times.append(time.monotonic())
                return
            word = json.loads(data)
            self.again[word["code"]] = self.again.get(word["code"], 0) + 1
            if not word["retryable"]:
                self.wrong.append((status, data))
                return
            time.sleep(0.02)
        self.wrong.append(("never", key))

    def run(self):
        while not self.halt.is_set():
            self.pay(new_key())
            self.halt.wait(0.02)


def longest_gap(payers, since):
    """The longest time after `since` in which no payment of anybody was acknowledged."""
    times = sorted([since] + [t for p in payers for t in p.times if t >= since])
    return max((b - a for a, b in zip(times, times[1:])), default=0.0)


class Relay:
    """A TCP relay on loopback: what the way to a server can do. `cut` ends all connections and
    takes no new ones, `delay_s` keeps every piece back, `deaf` takes bytes and passes none on."""

    def __init__(self, port):
        self.to = port
        self.delay_s = 0.0
        self.deaf = False
        self.is_cut = False
        self.pairs = set()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            try:
                if self.is_cut:
                    raise OSError
                two = socket.create_connection(("127.0.0.1", self.to), 2)
                two.settimeout(None)
            except OSError:
                one.close()
                continue
            with self.lock:
                self.pairs.add((one, two))
            for a, b in ((one, two), (two, one)):
                threading.Thread(target=self._pump, args=(a, b, (one, two)), daemon=True).start()

    def _pump(self, source, sink, pair):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if self.delay_s:
                    time.sleep(self.delay_s)
                while self.deaf:
                    time.sleep(0.01)
                sink.sendall(data)
        except OSError:
            pass
        self._end(pair)

    def _end(self, pair):
        with self.lock:
            self.pairs.discard(pair)
        for s in pair:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def cut(self):
        self.is_cut = True
        for pair in list(self.pairs):
            self._end(pair)

    def mend(self):
        self.is_cut = self.deaf = False
        self.delay_s = 0.0

    def close(self):
        self.listener.close()
        self.mend()
        self.cut()


def relayed_dsn(*relays):
    """Of servers behind relays, the one that takes writes."""
    hosts = ",".join("127.0.0.1" for _ in relays)
    ports = ",".join(str(r.port) for r in relays)
    return f"host={hosts} port={ports} user=postgres dbname=postgres connect_timeout=2"


def seeded():
    """(seed, generator): RON_SEED repeats the choices of a run."""
    seed = int(os.environ.get("RON_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"RON_SEED={seed}")
    return seed, random.Random(seed)
