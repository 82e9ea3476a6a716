# SPDX-License-Identifier: Apache-2.0
"""A ledger as a child process, and a small client that nobody of the ledger's code has touched: it
makes entries as JSON, sends them with http.client and keeps what was acknowledged.
"""
import base64
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from httpkit import SANITIZER_REPORT, check

PROGRAM = os.environ["RON_BIN"]
ALL_SCOPES = ("ledger.mint,ledger.burn,ledger.transfer,ledger.hold,ledger.reverse,ledger.freeze,"
              "ledger.admin,ledger.import,ledger.read")
_numbers = itertools.count(1)


def entry(kind, account, amount, **more):
    """An entry that nobody has sent before; members given in `more` win."""
    n = next(_numbers)
    made = {"id": f"e-{os.getpid()}-{n}", "ts": int(time.time() * 1000), "kind": kind,
            "account": account, "amount": str(amount),
            "nonce": base64.b64encode(n.to_bytes(8, "big") + os.urandom(8)).decode(),
            "v": 1, "kid": "k1", "capability_ref": "c1", **more}
    return {k: v for k, v in made.items() if v is not None}


def ending_soon(send):
    """What `send` got for something that ends by itself at the time (ms) it is given: as soon as a
    busy machine lets it arrive before its end."""
    for ahead_ms in (300, 1000, 3000, 10000):
        got = send(int(time.time() * 1000) + ahead_ms)
        if got[0] == 200:
            break
    return got


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


class Service:
    """`ron <verb>` as a child that tells its address in its log; `with` stops it and checks how it
    ended. `folder` and `own` (it is removed at the end) belong to the subclass."""

    verb = ""
    token = None  # of requests that name none
    socket = None  # of the administrator
    start_s = 60  # that a start may take
    program = PROGRAM
    environment = None  # that of this process

    def __init__(self, options, prefix=(), expect=0):
        self.options = list(options)
        self.prefix = list(prefix)
        self.expect = expect
        self.lines = []
        self.start()

    # ---- life ----

    def start(self):
        self.addr = None
        self.process = subprocess.Popen([*self.prefix, self.program, self.verb, *self.options],
                                        stderr=subprocess.PIPE, text=True, env=self.environment)
        ready = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(self.process, ready), daemon=True)
        self.reader.start()
        if not ready.wait(self.start_s) or self.addr is None:
            raise RuntimeError(f"the {self.verb} did not start:\n" + "\n".join(self.lines[-20:]))

    def _read(self, process, ready):
        for line in process.stderr:
            self.lines.append(line.rstrip("\n"))
            found = re.search(r'"addr":"([^"]+)"', line)
            if found and self.addr is None:
                self.addr = found[1]
                ready.set()
        ready.set()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.reader.join()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.reader.join()
        return code

    def restart(self):
        self.stop()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        code = self.stop()
        if kind is None:
            check(f"{self.verb}: ends with {self.expect}", code == self.expect,
                  f"{code}\n" + "\n".join(self.lines[-20:]))
            check(f"{self.verb}: no report of a sanitizer",
                  not any(SANITIZER_REPORT.search(x) for x in self.lines),
                  "\n".join(self.lines[-60:]))
        else:
            print("\n".join(self.lines[-40:]))
        if self.own:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- asking ----

    def connect(self, admin=False):
        if admin:
            return UnixConnection(str(self.socket))
        addr = self.addr
        if addr is None:
            raise ConnectionRefusedError(f"the {self.verb} is being started")
        host, port = addr.rsplit(":", 1)
        return http.client.HTTPConnection(host, int(port), timeout=30)

    def ask(self, method, path, body=None, token="", headers=None, admin=False, connection=None):
        """(status, headers, body as bytes); token "" is the one that may do everything."""
        c = connection or self.connect(admin)
        sent = {"Content-Type": "application/json"} if body is not None else {}
        if token is not None:
            sent["Authorization"] = f"Bearer {token or self.token}"
        sent.update(headers or {})
        c.request(method, path, body, {k: v for k, v in sent.items() if v is not None})
        r = c.getresponse()
        data = r.read()
        if connection is None:
            c.close()
        return r.status, r.headers, data

    def get(self, path, **more):
        """(status, JSON or text)."""
        status, headers, data = self.ask("GET", path, **more)
        return status, json.loads(data) if "json" in headers.get("Content-Type", "") else data


class Ledger(Service):
    """`ron ledger` over a directory of its own."""

    verb = "ledger"

    def __init__(self, *options, folder=None, prefix=(), amnesia=False, expect=0):
        self.own = folder is None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="ron-ledger-"))
        self.data = self.folder / "data"
        self.keys = self.folder / "cap.keys"
        self.socket = self.folder / "run" / "admin.sock"
        self.oap = self.folder / "oap.sock"
        if not self.keys.exists():
            subprocess.run([PROGRAM, "cap", "key", "new", "--id", "k1", "--keys", str(self.keys)],
                           check=True, capture_output=True)
        settings = ["--bind_addr=127.0.0.1:0", f"--auth.key_file={self.keys}",
                    f"--uds.path={self.socket}", "--log.format=json",
                    "--limits.rate_per_second=0", "--engine.segment_bytes=4MiB",
                    "--engine.free_floor=0B"]
        settings += ["--engine.mode=amnesia", "--amnesia.enabled=true"] if amnesia else \
            [f"--engine.data_dir={self.data}"]
        self.token = self.mint_token(ALL_SCOPES)
        super().__init__([*settings, *options], prefix, expect)

    def mint_token(self, scopes, *options):
        return subprocess.run([PROGRAM, "cap", "mint", "--keys", str(self.keys), "--aud", "ledger",
                               "--scope", scopes, *options], check=True, capture_output=True,
                              text=True).stdout.strip()

    def ingest(self, *entries, idem=None, query="", **more):
        """(status, JSON) of a batch."""
        body = {"batch": list(entries)}
        if idem is not None:
            body["idem_id"] = idem
        status, _, data = self.ask("POST", "/ingest" + query, json.dumps(body), **more)
        return status, json.loads(data)

    def admin(self, method, path, body=None):
        status, _, data = self.ask(method, "/admin" + path, body, admin=True)
        return status, json.loads(data)

    def balance(self, account, asset="roc"):
        status, found = self.get(f"/accounts/{account}/balances")
        if status != 200:
            return (0, 0)
        for b in found["balances"]:
            if b["asset"] == asset:
                return (int(b["available"]), int(b["held"]))
        return (0, 0)
