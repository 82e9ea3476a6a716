#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: load tools on every core.
"""Goal: clients nobody here wrote reuse connections, stream, ask and load as they do elsewhere, and
every answer is counted; slowhttptest cannot take the service from others.

Method: curl, Python's http.client, node's fetch, wrk, h2load and slowhttptest against `ron-fixture
http`; a client this machine lacks is named and left out. What the clients say is compared with the
server's own counters.
"""
import http.client
import json
import os
import re
import subprocess
import tempfile
import threading
from pathlib import Path

from httpkit import Ron, check, eventually, finish, h2load, missing, wrk

TRANSFER = json.dumps({"idempotency_key": "k-1", "debit_account": "a", "credit_account": "b",
                       "amount": "12", "currency": "USD", "memo": "m"})

NODE = r"""
const base = process.argv[1];
const assert = require('node:assert');
(async () => {
  for (let i = 0; i < 200; i++) {
    const r = await fetch(base + '/hello');
    assert.strictEqual(r.status, 200);
    assert.strictEqual((await r.text()).length, 200);
  }
  await Promise.all(Array.from({length: 50}, async (_, i) => {
    const body = 'x'.repeat(1000 * i);
    const r = await fetch(base + (i % 2 ? '/echo' : '/late'), {method: 'POST', body});
    assert.strictEqual(r.status, 200);
    assert.strictEqual(await r.text(), body);
  }));
  const pieces = new ReadableStream({
    start(c) { for (let i = 0; i < 10; i++) c.enqueue(new Uint8Array(5000)); c.close(); }});
  let r = await fetch(base + '/echo', {method: 'POST', body: pieces, duplex: 'half'});
  assert.strictEqual((await r.arrayBuffer()).byteLength, 50000);
  r = await fetch(base + '/stream/500');
  assert.strictEqual((await r.text()).split('\n').length, 501);
  r = await fetch(base + '/bytes/77', {method: 'HEAD'});
  assert.strictEqual(r.headers.get('content-length'), '77');
  r = await fetch(base + '/none');
  assert.strictEqual((await r.json()).reason, 'not_found');
  const gone = new AbortController();
  const never = fetch(base + '/never', {signal: gone.signal});
  setTimeout(() => gone.abort(), 50);
  await assert.rejects(never, {name: 'AbortError'});
})().catch(e => { console.error(e); process.exit(1); });
"""


def curl(*arguments):
    return subprocess.run(["curl", "-sS", "--max-time", "20", *arguments], capture_output=True)


def with_curl(server):
    if missing("curl"):
        return
    accepted = server.counters()["accepted"]
    r = curl("-w", "%{num_connects} ", "-o", "/dev/null", f"{server.url}/hello",
             *["-o", "/dev/null", f"{server.url}/hello"] * 9)
    check("curl: ten requests, one connection", r.stdout == b"1 " + b"0 " * 9, r.stdout)
    # The counters were asked for on a connection of their own, twice.
    check("curl: the server saw one, too", server.counters()["accepted"] == accepted + 2)
    r = curl("-I", f"{server.url}/bytes/4096")
    check("curl: HEAD", b"Content-Length: 4096\r\n" in r.stdout and r.returncode == 0, r.stdout)
    r = curl("-X", "POST", "-H", "Transfer-Encoding: chunked", "--data-binary", "@-",
             "-w", "%{http_code}", "-d", "abc", f"{server.url}/echo")
    check("curl: chunked upload", r.stdout.endswith(b"abc200"), r.stdout + r.stderr)
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder) / "body"
        body.write_bytes(b"x" * 300000)
        r = curl("-v", "-H", "Expect: 100-continue", "-T", str(body), "-X", "POST",
                 "--expect100-timeout", "15", "-o", "/dev/null", "-w", "%{time_total}",
                 f"{server.url}/echo")
        check("curl: 100-continue is sent, so that it need not wait",
              b"< HTTP/1.1 100 Continue" in r.stderr and float(r.stdout) < 10, r.stderr)
        body.write_bytes(b"x" * (2 << 20))
        r = curl("-v", "-H", "Expect: 100-continue", "-T", str(body), "-X", "POST",
                 "-w", "%{http_code} %{size_upload}", "-o", "/dev/null", f"{server.url}/echo")
        check("curl: a body too large is refused before it is sent",
              r.stdout == b"413 0" and b"100 Continue" not in r.stderr, r.stdout)
    r = curl("-w", "%{http_code}", "-d", TRANSFER, f"{server.url}/json")
    check("curl: JSON", r.stdout.endswith(b"200"), r.stdout)
    r = curl("-w", "%{http_code}", "-d", TRANSFER.replace('"12"', "12"), f"{server.url}/json-late")
    check("curl: a JSON number for money is refused", r.stdout.endswith(b"400"), r.stdout)


def ranges_and_conditions(folder):
    """A file of the system, whole, in parts, and resumed by curl; and not sent again."""
    if missing("curl"):
        return
    path = Path(folder) / "file"
    data = os.urandom(3_000_001)
    path.write_bytes(data)
    with Ron("--file", path) as server:
        url = f"{server.url}/file"
        check("curl: the whole file", curl(url).stdout == data)
        for name, ask, want in (("first bytes", "0-99", data[:100]),
                                ("last bytes", "-500", data[-500:]),
                                ("from the middle on", "1500000-", data[1500000:]),
                                ("over the end", "3000000-9000000", data[3000000:])):
            r = curl("-r", ask, "-w", "%{http_code}", url)
            check(f"curl: range, {name}", r.stdout == want + b"206", r.stdout[-200:])
        r = curl("-r", "4000000-", "-o", "/dev/null", "-w", "%{http_code}", "-D", "-", url)
        check("curl: range outside", b"416" in r.stdout and b"bytes */3000001" in r.stdout,
              r.stdout)
        part = Path(folder) / "part"
        part.write_bytes(data[:1234567])
        r = curl("-C", "-", "-o", str(part), url)
        check("curl: a broken download is resumed", part.read_bytes() == data, r.stderr)
        tag = Path(folder) / "tag"
        curl("--etag-save", str(tag), "-o", "/dev/null", url)
        r = curl("--etag-compare", str(tag), "-w", "%{http_code} %{size_download}", url)
        check("curl: not sent again when its tag is known", r.stdout == b"304 0", r.stdout)
        r = curl("-z", str(path), "-w", "%{http_code}", "-o", "/dev/null", url)
        check("curl: nor when it is not newer", r.stdout == b"304", r.stdout)
        r = curl("-r", "0-9", "-H", 'If-Range: "another"', url)
        check("curl: If-Range of another file gives all of it", r.stdout == data)
        r = curl("-I", url)
        check("curl: HEAD of a file", b"Content-Length: 3000001" in r.stdout, r.stdout)
        r = curl("--parallel", "--parallel-immediate", *[url] * 10)
        check("curl: ten at once", len(r.stdout) == 10 * len(data), len(r.stdout))


def with_http_client(server):
    c = server.client()
    for i in range(500):
        path = ("/hello", "/bytes/3000", "/stream/20", "/name/x")[i % 4]
        c.request("GET", path)
        r = c.getresponse()
        r.read()
        if r.status != 200 or r.will_close:
            check("http.client", False, f"{path}: {r.status}")
            return
    check("http.client: 500 requests of four kinds on one connection", True)
    c.request("POST", "/echo", body=b"x", headers={"Connection": "close"})
    r = c.getresponse()
    check("http.client: Connection: close is kept", r.read() == b"x" and r.will_close)


def with_node(server):
    if missing("node"):
        return
    before = server.counters()["accepted"]
    r = subprocess.run(["node", "-e", NODE, server.url], capture_output=True, text=True)
    check("node: fetch", r.returncode == 0, r.stdout + r.stderr)
    # Fifty at once open that many; the 200 in a row and the rest reuse them.
    opened = server.counters()["accepted"] - before
    check("node: connections are reused", opened <= 60, opened)
    check("node: the abandoned request is given back",
          eventually(lambda: server.counters()["inflight"] == 0))


def with_load(server):
    folder = tempfile.TemporaryDirectory()
    with folder:
        body = Path(folder.name) / "transfer.json"
        body.write_text(TRANSFER, encoding="ascii")
        script = Path(folder.name) / "post.lua"
        script.write_text(f"wrk.method = 'POST'\nwrk.body = [[{TRANSFER}]]\n", encoding="ascii")
        if not missing("wrk"):
            for name, path, lua in (("GET", "/hello", None), ("JSON", "/json", script),
                                    ("JSON by a task", "/json-late", script)):
                before = server.counters()["requests"]
                r = wrk(server.url + path, 1, 64, 2, lua)
                # wrk goes while requests are under way, so the server may have seen 64 more.
                seen = server.counters()["requests"] - before - 1
                check(f"wrk: {name}, {r['rps']:.0f}/s, no error", r["errors"] == 0
                      and 0 <= seen - r["requests"] <= 64, f"{seen} seen\n{r['text']}")
        if not missing("h2load"):
            # What wrk left on its connections is still being counted until they are closed.
            check("wrk: its connections are closed",
                  eventually(lambda: server.counters()["connections"] == 1), server.counters())
            for path, extra in (("/hello", []), ("/json-late", ["-d", str(body)]),
                                ("/bytes/16384", []), ("/stream/30", [])):
                before = server.counters()
                r = h2load(server.url + path, 10000, 50, *extra)
                after = server.counters()
                check(f"h2load: 10000 of {path} are 2xx, and counted", r["bad"] == 0
                      and after["requests"] - before["requests"] == 10001, r["text"])


class Bystander(threading.Thread):
    """A client that asks on while others are slow; its errors are counted."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.over = threading.Event()
        self.good = 0
        self.errors = []

    def run(self):
        c = self.server.client()
        while not self.over.is_set():
            try:
                c.request("GET", "/hello")
                r = c.getresponse()
                body = r.read()
                if r.status == 200 and len(body) == 200:
                    self.good += 1
                else:
                    self.errors.append(r.status)
            except (OSError, http.client.HTTPException) as e:
                self.errors.append(e)
                c = self.server.client()
            self.over.wait(0.002)


def slow(server, name, counter, connections, *arguments):
    before = server.counters()
    other = Bystander(server)
    other.start()
    try:
        r = subprocess.run(["slowhttptest", "-c", str(connections), "-r", "200", "-l", "6", "-p",
                            "3", "-v", "1", *arguments], capture_output=True, text=True,
                           env={**os.environ, "TERM": "dumb"})
    finally:
        other.over.set()
        other.join()
    after = server.counters()
    check(f"slowhttptest, {name}: others go on ({other.good} answers, {len(other.errors)} errors)",
          other.good > 50 and not other.errors, other.errors)
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", r.stdout)
    found = re.findall(r"service available:\s*(\w+)", text)
    check(f"slowhttptest, {name}: it finds the service available",
          found and set(found) == {"YES"}, text)
    cut = after[counter] - before[counter]
    check(f"slowhttptest, {name}: all {connections} were cut for {counter}",
          cut == connections, f"{cut}\n{text[-1500:]}")
    check(f"slowhttptest, {name}: none is left",
          eventually(lambda: server.counters()["connections"] == 1), server.counters())


def with_slowhttptest():
    if missing("slowhttptest"):
        return
    # Short times, so that the tool sees all its connections cut long before its own end.
    with Ron("--read-timeout", 1500, "--write-timeout", 1500) as server:
        slow(server, "slow header", "read_timeouts", 200, "-H", "-i", "1", "-u",
             f"{server.url}/hello")
        slow(server, "slow body", "read_timeouts", 200, "-B", "-i", "1", "-s", "8192", "-x",
             "10", "-u", f"{server.url}/echo")
        # More than the system takes for a peer; together less than the server's cap of 64 MiB.
        slow(server, "slow read", "write_timeouts", 100, "-X", "-n", "1", "-w", "64", "-y", "128",
             "-z", "16", "-k", "1", "-u", f"{server.url}/bytes/500000")


with Ron() as the_server:
    with_curl(the_server)
    with_http_client(the_server)
    with_node(the_server)
    with_load(the_server)
with tempfile.TemporaryDirectory() as the_folder:
    ranges_and_conditions(the_folder)
with_slowhttptest()
finish()
