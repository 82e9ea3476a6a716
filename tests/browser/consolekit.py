# SPDX-License-Identifier: Apache-2.0
"""A console as a child process beside the services that it shows, and a browser that came in by a
link of it."""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import subprocess
import tempfile
import types
from pathlib import Path

import browserkit  # noqa: F401  (its path leads to the kits of services)
from edgekit import Edge
from httpkit import eventually
from interopkit import Interop, github
from ledgerkit import PROGRAM, Service
from rewarderkit import Rewarder, policy, snapshot
from walletkit import Wallet, new_ledger


def private(path, text):
    with open(path, "w", encoding="ascii",
              opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
        f.write(text + "\n")
    return path


def verifier_key(signing_key):
    """NAME+ID+BASE64 of the ledger's PRIVATE+KEY+NAME+ID+BASE64, the point computed by openssl."""
    name, number, seed = signing_key.strip().split("+", 2)[2].split("+", 2)
    der = bytes.fromhex("302e020100300506032b657004220420") + base64.b64decode(seed)[1:]
    public = subprocess.run(["openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER"],
                            input=der, check=True, capture_output=True).stdout[-32:]
    typed = b"\1" + public
    assert hashlib.sha256(name.encode() + b"\n" + typed).hexdigest()[:8] == number
    return f"{name}+{number}+{base64.b64encode(typed).decode()}"


class Console(Service):
    """`services` are objects of the kits by the name of their service; `write` gives operators the
    form of the wallet."""

    verb = "console"
    own = True

    def __init__(self, services, *options, write=True, expect=0):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-console-"))
        self.keys = self.folder / "console.keys"
        subprocess.run([PROGRAM, "cap", "key", "new", "--id", "c1", "--keys", str(self.keys)],
                       check=True, capture_output=True)
        more = []
        for name, service in services.items():
            more.append(f"--services.{name}.url=http://{service.addr}")
            if service.token:
                path = private(self.folder / name, service.token)
                more.append(f"--services.{name}.token_file={path}")
        if write and "wallet" in services:
            more.append(f"--services.wallet.write_token_file={self.folder / 'wallet'}")
        super().__init__(["--bind_addr=127.0.0.1:0", f"--auth.key_file={self.keys}",
                          "--log.format=json", "--limits.rate_per_second=0", *more, *options],
                         expect=expect)

    def mint(self, scope="console", aud="console"):
        return subprocess.run([PROGRAM, "cap", "mint", "--keys", str(self.keys), "--aud", aud,
                               "--scope", scope, "--ttl", "1h"], check=True, capture_output=True,
                              text=True).stdout.strip()

    def ask_raw(self, method, path, body=None, **headers):
        """(status, headers, bytes); header names with _ for -."""
        host, port = self.addr.rsplit(":", 1)
        c = http.client.HTTPConnection(host, int(port), timeout=20)
        c.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        r = c.getresponse()
        return r.status, r.headers, r.read()

    def link(self, role="operate"):
        status, _, body = self.ask_raw("POST", "/api/links", json.dumps({"role": role}),
                                       Authorization=f"Bearer {self.mint()}",
                                       Content_Type="application/json")
        assert status == 201, (status, body)
        return json.loads(body)["url"]

    @property
    def url(self):
        return f"http://{self.addr}"


def enter(browser, console, role="operate"):
    """Opens a link in the browser and waits for the first page."""
    browser.run("await page.goto(args.url);"
                "await page.waitForSelector('main [data-service]')", url=console.link(role))


def go(browser, page, selector):
    """Opens a page by its address and waits for what it shows."""
    browser.run("await page.evaluate(p => { location.hash = '#/' + p }, args.page);"
                "await page.waitForSelector(args.selector)", page=page, selector=selector)


HOOKS = """
[providers.github]
enabled = true
secret_env = "HOOK_SECRET"
"""


def deliveries():
    body = b'{"action":"opened"}'
    good = github(body, event="issues", delivery="d-good")
    return [(body, good), (body, good),
            (body, github(body, secret="of somebody else", delivery="d-forged"))]


@contextlib.contextmanager
def economy():
    """A small one behind a console: u:a has 100000, the epoch 2026-11 paid 40 payees, the edge has
    the sample pack `world`, GitHub delivered one good, one repeated and one forged event. The
    wallet lets 64 requests in."""
    with new_ledger() as ledger, Wallet(ledger, "--limits.inflight=64") as wallet, \
            Rewarder(ledger) as rewarder:
        pack = ledger.folder / "world.pmtiles"
        subprocess.run([PROGRAM, "edge", "sample", str(pack)], check=True, capture_output=True)
        wallet.issue("u:a", 100000)
        rows = [(f"acct_{i:02}", 1000 * (i + 1) ** 2, 400 * i, 60 * i) for i in range(40)]
        status, run = rewarder.compute(
            "2026-11", rewarder.request(snapshot(rows, 5000000), policy()))
        assert status == 200, (status, run)
        rewarder.settled("2026-11")
        with Edge(packs={"world": pack}) as edge, Interop(config=HOOKS) as interop:
            assert eventually(lambda: edge.get("/readyz").status == 200)
            for body, headers in deliveries():
                interop.call("POST", "/webhooks/github", body, token=None, **headers)
            services = {"ledger": ledger, "wallet": wallet, "rewarder": rewarder, "edge": edge,
                        "interop": interop}
            with Console(services, "--console.poll=250ms") as console:
                yield types.SimpleNamespace(console=console, **services)
