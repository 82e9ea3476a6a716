# SPDX-License-Identifier: Apache-2.0
"""A bridge as a child process, and plain requests to it."""
import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

from ledgerkit import PROGRAM, Service

SECRET = "a secret of the tests, long enough"


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def __getitem__(self, name):
        return self.headers[name]

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """Of a refusal; the status of anything else."""
        return self.json["code"] if self.status >= 400 else self.status


class Interop(Service):
    """`config` is TOML behind what every test needs; `folder` may be that of an earlier life."""

    verb = "interop"

    def __init__(self, *options, config="", env=None, folder=None, rate=0, expect=0, prefix=()):
        self.own = folder is None
        self.folder = Path(folder) if folder else self.prepare()
        self.keys = self.folder / "cap.keys"
        self.file = self.folder / "interop.toml"
        self.file.write_text(config, encoding="utf-8")
        self.environment = {**os.environ, "HOOK_SECRET": SECRET, **(env or {})}
        self.token = self.mint_token("interop,mailbox")
        super().__init__(["--config", str(self.file), "--bind_addr=127.0.0.1:0",
                          "--log.format=json", f"--limits.rate_per_second={rate}",
                          f"--interop.dir={self.folder / 'data'}",
                          f"--auth.key_file={self.keys}", *options], prefix=prefix, expect=expect)

    @staticmethod
    def prepare():
        """A new folder with a key file."""
        folder = Path(tempfile.mkdtemp(prefix="ron-interop-"))
        subprocess.run([PROGRAM, "cap", "key", "new", "--keys", str(folder / "cap.keys")],
                       check=True, capture_output=True)
        return folder

    def mint_token(self, scopes, *options, aud="interop"):
        return subprocess.run([PROGRAM, "cap", "mint", "--keys", str(self.keys), "--aud", aud,
                               "--scope", scopes, *options], check=True, capture_output=True,
                              text=True).stdout.strip()

    def client(self):
        host, port = self.addr.rsplit(":", 1)
        return http.client.HTTPConnection(host, int(port), timeout=30)

    def call(self, method, path, body=None, client=None, token="", **headers):
        """Header names with _ for -. token None: none."""
        fields = {k.replace("_", "-"): v for k, v in headers.items()}
        if token is not None:
            fields["Authorization"] = "Bearer " + (token or self.token)
        c = client or self.client()
        c.request(method, path, body=body, headers=fields)
        return Answer(c.getresponse())

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def put(self, data, **more):
        return self.call("POST", "/put", data, Content_Type="application/octet-stream", **more)

    def put_json(self, **members):
        return self.call("POST", "/put", json.dumps(members), Content_Type="application/json")

    def metric(self, line):
        """The value of a sample, by its text up to the value; 0 when it is not there."""
        for row in self.get("/metrics", token=None).body.decode().splitlines():
            if row.startswith(line + " "):
                return float(row.rsplit(" ", 1)[1])
        return 0.0

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def beside_wallet(place, config, env, *options):
    """A bridge whose wallet is a place of the test."""
    folder = Interop.prepare()
    token = subprocess.run([PROGRAM, "cap", "mint", "--keys", str(folder / "cap.keys"), "--aud",
                            "wallet", "--scope", "wallet"], check=True, capture_output=True,
                           text=True).stdout
    path = folder / "wallet.token"
    path.write_text(token, encoding="ascii")
    path.chmod(0o600)
    svc = Interop(f"--wallet.url={place.url}", f"--wallet.token_file={path}", *options,
                  config=config, env=env, folder=folder)
    svc.own = True
    return svc


# ---- senders -------------------------------------------------------------------------------------


def github(body, secret=SECRET, event="push", delivery=None):
    """Headers of a delivery of GitHub."""
    mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": "sha256=" + mac, "X-GitHub-Event": event,
            "X-GitHub-Delivery": delivery or str(uuid.uuid4()),
            "Content-Type": "application/json"}


def stripe(body, secret=SECRET, at=None):
    at = int(time.time()) if at is None else at
    mac = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={at},v1={mac}", "Content-Type": "application/json"}


def standard_webhook_good(headers, body, secret):
    """Whether a delivery is signed as Standard Webhooks say, computed here from their text."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    base = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(key, base, hashlib.sha256).digest()).decode()
    return f"v1,{mac}" in headers["webhook-signature"].split() and \
        abs(time.time() - int(headers["webhook-timestamp"])) < 60


# ---- a place that is called ----------------------------------------------------------------------


class Place:
    """An HTTP server on loopback that keeps what it was sent. `answer` decides: (status, headers,
    body), or a function of the request."""

    def __init__(self, answer=(200, {}, b"{}")):
        self.answer = answer
        self.seen = []
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                with outer.lock:
                    outer.seen.append((self.path, self.headers, body))
                    number = len(outer.seen)
                answer = outer.answer(number, self.path, self.headers, body) \
                    if callable(outer.answer) else outer.answer
                status, headers, data = answer
                self.send_response(status)
                for k, v in headers.items():
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_HEAD = do_POST

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                pass  # a bridge that stops leaves connections behind

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self):
        with self.lock:
            return len(self.seen)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
