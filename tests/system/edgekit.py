# SPDX-License-Identifier: Apache-2.0
"""An edge as a child process, plain requests to it, and an origin whose answers a test decides."""
import http.client
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from ledgerkit import PROGRAM, Service


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def __getitem__(self, name):
        return self.headers[name]


class Edge(Service):
    """`files` are {path: bytes} of its folder, `packs` are {name: path}."""

    verb = "edge"

    def __init__(self, *options, files=None, packs=None, expect=0, prefix=()):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-edge-"))
        self.own = True
        self.root = self.folder / "files"
        self.root.mkdir()
        for path, data in (files or {}).items():
            self.put(path, data)
        more = [f"--edge.files_dir={self.root}", f"--edge.dir={self.folder / 'data'}"]
        if packs:
            more.append("--edge.packs=" + ",".join(f"{n}={p}" for n, p in packs.items()))
        super().__init__(["--bind_addr=127.0.0.1:0", "--log.format=json",
                          "--limits.rate_per_second=0", *more, *options],
                         prefix=prefix, expect=expect)

    def put(self, path, data):
        """Beside and renamed, as it must be done with files that are served."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = self.folder / "new"
        beside.write_bytes(data)
        os.replace(beside, target)

    def client(self):
        host, port = self.addr.rsplit(":", 1)
        return http.client.HTTPConnection(host, int(port), timeout=20)

    def get(self, path, method="GET", client=None, **headers):
        """Header names with _ for -."""
        c = client or self.client()
        c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        return Answer(c.getresponse())

    def memory(self):
        """The most memory it had at once, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def metric(self, line):
        """The value of a sample, by its text up to the value; 0 when it is not there."""
        for row in self.get("/metrics").body.decode().splitlines():
            if row.startswith(line + " "):
                return float(row.rsplit(" ", 1)[1])
        return 0.0

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Keys:
    """Capabilities for an edge with auth.key_file."""

    def __init__(self, folder):
        self.file = folder / "keys"
        subprocess.run([PROGRAM, "cap", "key", "new", "--id", "k1", "--keys", self.file],
                       check=True, capture_output=True)

    def token(self, scope):
        out = self.file.with_name("token-" + scope)
        subprocess.run([PROGRAM, "cap", "mint", "--keys", self.file, "--aud", "edge", "--scope",
                        scope, "--ttl", "1h", "--out", out], check=True, capture_output=True)
        return out.read_text().strip()


def purge(edge, token, **wish):
    """(status, what it says)."""
    c = edge.client()
    c.request("POST", "/edge/purge", body=json.dumps(wish),
              headers={"Content-Type": "application/json",
                       **({"Authorization": f"Bearer {token}"} if token else {})})
    r = c.getresponse()
    return r.status, json.loads(r.read())


class Origin:
    """Answers by path: {path: function(handler) or (status, headers, body)}."""

    def __init__(self):
        self.answers = {}
        self.seen = []
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                with outer.lock:
                    outer.seen.append((self.path, dict(self.headers)))
                answer = outer.answers.get(self.path, (404, {}, b"none"))
                if callable(answer):
                    answer = answer(self)
                if answer is None:
                    return
                status, headers, body = answer
                if headers.get("ETag") and self.headers.get("If-None-Match") == headers["ETag"]:
                    status, body = 304, b""
                self.send_response(status)
                for k, v in headers.items():
                    self.send_header(k, v)
                if status != 304:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                pass  # an edge that stops leaves connections behind

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self, path):
        with self.lock:
            return sum(p == path for p, _ in self.seen)

    def last(self, path):
        with self.lock:
            return [h for p, h in self.seen if p == path][-1]
