# SPDX-License-Identifier: Apache-2.0
"""The contenders of `./dev bench interop`: the bridge, Debian's webhook (adnanh), and the
middleware of the npm package @octokit/webhooks, each as a child process on core 0 that verifies the
same deliveries of GitHub; and nginx with the same object as a file."""
import http.client
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
os.environ.setdefault("RON_BUILD_DIR", str(Path(os.environ["RON_BIN"]).resolve().parents[1]))
from httpkit import Child, Nginx, eventually, free_port  # noqa: E402
from interopkit import Interop  # noqa: E402
from npmkit import npm_folder  # noqa: E402

SECRET = "It's a Secret to Everybody"
HERE, THERE = (["taskset", "-c", "0"], ["taskset", "-c", "1"]) if (os.cpu_count() or 1) > 1 \
    else ([], [])
CONFIG = """
[providers.github]
enabled = true
secret_env = "HOOK_SECRET"
"""


def answers(port, path):
    try:
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        c.request("GET", path)
        c.getresponse().read()
        return True
    except OSError:
        return False


class Ron(Interop):
    """One executor thread on the core of the peers, everything durable on the disk of `data`."""

    path, good, bad = "/webhooks/github", "202", "401"

    def __init__(self, data):
        folder = Path(tempfile.mkdtemp(prefix="ron-bench-", dir=data))
        made = Interop.prepare()
        shutil.copytree(made, folder, dirs_exist_ok=True)
        shutil.rmtree(made)
        super().__init__("--workers=1", "--auth.reads=open", config=CONFIG,
                         env={"HOOK_SECRET": SECRET}, folder=folder, prefix=HERE)
        self.pid = self.process.pid

    def __exit__(self, kind, value, trace):
        self.stop()
        self.close()


class Webhook(Child):
    """Debian's webhook: verifies and runs a command, here one that does nothing."""

    path, good, bad = "/hooks/bench", "200", "500"  # a wrong signature is an error of its rules

    def __init__(self):
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="ron-webhook-"))
        hooks = self.folder / "hooks.json"
        hooks.write_text(json.dumps([{
            "id": "bench", "execute-command": "/bin/true",
            "trigger-rule": {"match": {"type": "payload-hmac-sha256", "secret": SECRET, "parameter":
                                       {"source": "header", "name": "X-Hub-Signature-256"}}}}]),
            encoding="ascii")
        super().__init__([*HERE, "webhook", "-hooks", str(hooks), "-ip", "127.0.0.1", "-port",
                          str(self.port)])
        self.addr = f"127.0.0.1:{self.port}"
        if not eventually(lambda: answers(self.port, "/")):
            raise RuntimeError(f"webhook did not start:\n{self.said()}")

    def ended(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def there():
        return shutil.which("webhook") is not None


class Octokit(Child):
    """The middleware of @octokit/webhooks on node's own HTTP server, with a handler that does
    nothing. Answers get a length, as the load generator wants it."""

    path, good, bad = "/api/github/webhooks", "200", "400"
    PROGRAM = """
import {createServer} from "node:http";
import {Webhooks, createNodeMiddleware} from "@octokit/webhooks";
const hooks = new Webhooks({secret: process.env.SECRET, log: {debug() {}, info() {}, warn() {},
                                                              error() {}}});
hooks.on("push", () => {});
const handle = createNodeMiddleware(hooks);
createServer((request, response) => {
    const end = response.end.bind(response), head = response.writeHead.bind(response);
    let status = 0, fields = {};
    response.writeHead = (s, f) => { status = s; fields = f || {}; return response; };
    response.end = (text = "") => {
        head(status || response.statusCode, {...fields, "Content-Length":
                                             Buffer.byteLength(text)});
        return end(text);
    };
    handle(request, response);
}).listen(Number(process.env.PORT), "127.0.0.1");
"""

    def __init__(self):
        self.port = free_port()
        program = npm_folder("octokit", "@octokit/webhooks@13") / "server.mjs"
        program.write_text(self.PROGRAM, encoding="ascii")
        super().__init__([*HERE, "env", f"SECRET={SECRET}", f"PORT={self.port}", "node",
                          str(program)])
        self.addr = f"127.0.0.1:{self.port}"
        if not eventually(lambda: answers(self.port, self.path), 60):
            raise RuntimeError(f"@octokit/webhooks did not start:\n{self.said()}")

    @staticmethod
    def there():
        return npm_folder("octokit", "@octokit/webhooks@13") is not None


class File(Nginx):
    """An object as a plain file."""

    def __init__(self, folder):
        super().__init__(f"""
    root {folder};
    add_header Cache-Control "private, max-age=31536000, immutable";
    default_type application/octet-stream;
""", 1, list(HERE))
        self.addr = f"127.0.0.1:{self.port}"
