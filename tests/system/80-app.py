#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it measures times of a drain.
"""Goal: the frame of a service as an operator meets it: settings, reload, listeners, traces.

Method: run `ron-fixture kernel`, which is nothing but the frame and a pipeline, with files,
environment and flags; talk to its sockets; send signals; read its log; receive its traces.
"""
import http.client
import http.server
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = os.environ["RON_FIXTURE"]
bad = 0


def check(name, good, detail=""):
    global bad
    print(("ok: " if good else "FAILED: ") + name + ("" if good else f"\n{detail}"))
    bad |= not good


class Service:
    """A running `ron-fixture kernel`; its log is read by a thread, so that waiting has an end."""

    def __init__(self, *arguments, env=None, bind=("--bind_addr=127.0.0.1:0",)):
        self.lines = []
        self.news = threading.Condition()
        self.process = subprocess.Popen(
            [PROGRAM, "kernel", *bind, "--rate=0", "--log.format=json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        threading.Thread(target=self.read, daemon=True).start()
        line = self.wait("listening")
        self.addr = line["addr"] if line else None

    def read(self):
        for line in self.process.stderr:
            with self.news:
                self.lines.append(line)
                self.news.notify_all()

    def wait(self, text, after=0, seconds=20):
        """The first line behind `after` whose message holds the text."""
        end = time.monotonic() + seconds
        with self.news:
            while True:
                for line in self.lines[after:]:
                    record = json.loads(line)
                    if text in record.get("msg", ""):
                        return record
                left = end - time.monotonic()
                if left <= 0 or not self.news.wait(left):
                    return None

    def get(self, path, addr=None):
        host, port = (addr or self.addr).rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
        return self.process.returncode


def run(*arguments, env=None):
    return subprocess.run(
        [PROGRAM, "kernel", *arguments], capture_output=True, text=True, timeout=20,
        env={**os.environ, **(env or {})},
    )


def sources_and_their_order(folder):
    path = os.path.join(folder, "order.toml")
    with open(path, "w", encoding="utf-8") as f:
        f.write('rate = 1\nfail_every = 1\n[limits]\nrate_per_second = 1\n')
    out = run("--config", path, "--limits.rate_per_second=3", "--print-config",
              env={"RON_KERNEL__LIMITS__RATE_PER_SECOND": "2",
                   "RON_KERNEL__FAIL_EVERY": "2"}).stdout
    check("sources: flag over environment over file",
          re.search(r"^rate = 1$", out, re.M) and re.search(r"^fail_every = 2$", out, re.M)
          and re.search(r"\[limits\].*^rate_per_second = 3$", out, re.M | re.S), out)
    again = os.path.join(folder, "again.toml")
    with open(again, "w", encoding="utf-8") as f:
        f.write(out)
    second = run("--config", again, "--print-config")
    check("print-config: loading it gives the same", second.stdout == out, second.stdout)
    good = run("--config", again, "--check-config")
    check("check-config: good", good.returncode == 0 and "good" in good.stdout, good.stderr)


def wrong_settings(folder):
    path = os.path.join(folder, "wrong.toml")
    for text, message in (
        ("[limits]\nbrst = 1\n", 'wrong.toml:2:1: unknown key "limits.brst"; the nearest known is '
                                 '"limits.burst"'),
        ('drain_deadline = "9s"\n', "wrong.toml:1:18"),
        ("rate = \n", "wrong.toml:1:"),
    ):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        for mode in ("--check-config", "--print-topology=md"):
            out = run("--config", path, mode)
            check(f"wrong file, {mode}: {message}", out.returncode == 1 and message in out.stderr,
                  out.stderr)
    for arguments, message, code in (
        (["--config", os.path.join(folder, "none.toml")], "none.toml", 1),
        (["--confg", "x"], "did you mean --config?", 2),
        (["--limits.rate_per_second", "x"], "limits.rate_per_second", 1),
        (["--bind_addr=nonsense"], "nonsense", 1),
        (["--tls.cert=x.pem"], "tls.cert and tls.key must both be set", 1),
        (["--tls.client_auth=required", "--tls.cert=a", "--tls.key=b"], "belong together", 1),
        (["--uds.path=" + os.path.join(folder, "u", "s"), "--uds.allow_uids=bob"],
         "not a user id", 1),
        (["--trace.endpoint=ftp://host"], "begins with http", 1),
    ):
        out = run("--bind_addr=127.0.0.1:0", *arguments)
        check("wrong: " + " ".join(arguments[:1]), out.returncode == code and message in out.stderr
              and out.stderr.count("\n") == 1, out.stderr)
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    out = run(f"--bind_addr=127.0.0.1:{taken.getsockname()[1]}")
    check("wrong: the address is in use", out.returncode == 1 and "in use" in out.stderr,
          out.stderr)
    first = Service("--workers=2")
    out = run(f"--bind_addr={first.addr}", "--workers=2", "--stop_after=1s")
    check("wrong: another of us has the address", out.returncode == 1 and "in use" in out.stderr,
          out.stderr)
    check("wrong: the first one goes on", first.get("/healthz")[0] == 200 and first.stop() == 0)


def reload_changes_what_may_change(folder):
    path = os.path.join(folder, "live.toml")

    def write(text):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    write('[log]\nlevel = "info"\n[limits]\nrate_per_second = 0\n')
    service = Service("--config", path)
    check("reload: it comes up", service.addr, service.lines)
    seen = len(service.lines)
    write('[log]\nlevel = "debug"\n[limits]\nrate_per_second = 1\nburst = 1\nconnections = 7\n')
    service.process.send_signal(signal.SIGHUP)
    done = service.wait("reloaded", seen)
    changes = [json.loads(line).get("change", "") for line in service.lines[seen:]]
    check("reload: taken over, and what needs a restart is told",
          done and done["changed"] == 3 and done["needs_restart"] == 1, service.lines[seen:])
    check("reload: each difference is a line",
          any("limits.rate_per_second" in c for c in changes)
          and any("connections" in c for c in changes), changes)
    codes = [service.get("/nothing")[0] for _ in range(3)]
    check("reload: the new rate holds", codes[0] == 404 and 429 in codes[1:], codes)
    check("reload: health passes the gate", service.get("/healthz")[0] == 200)
    seen = len(service.lines)
    write('[log]\nlevle = "debug"\n')
    service.process.send_signal(signal.SIGHUP)
    refused = service.wait("reload refused", seen)
    check("reload: a mistake changes nothing and is told with its place",
          refused and "live.toml:2:1" in refused["error"] and "log.level" in refused["error"],
          service.lines[seen:])
    check("reload: the old settings still hold",
          429 in [service.get("/nothing")[0] for _ in range(3)])
    check("reload: exit 0", service.stop() == 0, service.lines)


def reload_moves_the_address(folder):
    path = os.path.join(folder, "moving.toml")

    def write(addr):
        with open(path, "w", encoding="utf-8") as f:
            f.write(f'bind_addr = "{addr}"\n')

    write("127.0.0.1:0")
    service = Service("--config", path, bind=())
    host, port = service.addr.rsplit(":", 1)
    kept = http.client.HTTPConnection(host, int(port), timeout=10)
    kept.request("GET", "/healthz")
    kept.getresponse().read()
    seen = len(service.lines)
    write("127.0.0.2:0")
    service.process.send_signal(signal.SIGHUP)
    moved = service.wait("moved", seen)
    check("move: told", moved and moved["addr"].startswith("127.0.0.2:"), service.lines[seen:])
    check("move: the new address answers", service.get("/healthz", moved["addr"])[0] == 200)

    def old_is_closed():
        try:
            service.get("/healthz")
            return False
        except ConnectionRefusedError:
            return True

    end = time.monotonic() + 20
    while not old_is_closed() and time.monotonic() < end:
        pass
    check("move: the old one takes nobody any more", old_is_closed())
    kept.request("GET", "/healthz")
    check("move: who was connected stays", kept.getresponse().status == 200)
    kept.close()
    seen = len(service.lines)
    write("127.0.0.1:99999")
    service.process.send_signal(signal.SIGHUP)
    refused = service.wait("reload refused", seen)
    check("move: an address that is none changes nothing",
          refused and "bind_addr" in refused["error"]
          and service.get("/healthz", moved["addr"])[0] == 200, service.lines[seen:])
    check("move: exit 0", service.stop() == 0, service.lines)


def listeners(folder):
    path = os.path.join(folder, "run", "kernel.sock")
    service = Service("--metrics_addr=127.0.0.1:0", f"--uds.path={path}")
    addrs = service.wait("listening").get("metrics_addr")
    check("listeners: the metrics address is told", addrs, service.lines)
    check("listeners: metrics on it", "build_info" in service.get("/metrics", addrs)[1])
    check("listeners: topology on the service port",
          "work" in service.get("/debug/topology")[1])
    check("listeners: socket 0600 in 0700",
          os.stat(path).st_mode & 0o777 == 0o600
          and os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700)
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(10)
    peer.connect(path)
    peer.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = b""
    while chunk := peer.recv(4096):
        answer += chunk
    check("listeners: ready over the Unix socket", b'"ready":true' in answer, answer)
    check("listeners: exit 0", service.stop() == 0, service.lines)


def make_certificate(folder, name):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
         "-keyout", os.path.join(folder, "key.pem"), "-out", os.path.join(folder, "cert.pem")],
        check=True, capture_output=True,
    )
    os.chmod(os.path.join(folder, "key.pem"), 0o600)


def served_name(addr):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    host, port = addr.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        with context.wrap_socket(raw) as tls:
            return tls.getpeercert(binary_form=True)


def certificates_are_read_anew(folder):
    path = os.path.join(folder, "tls.toml")

    def write(level):
        with open(path, "w", encoding="utf-8") as f:
            f.write(f'[tls]\ncert = "{folder}/cert.pem"\nkey = "{folder}/key.pem"\n'
                    f'[log]\nlevel = "{level}"\n')

    write("info")
    make_certificate(folder, "first")
    service = Service("--config", path)
    first = served_name(service.addr)
    make_certificate(folder, "second")
    seen = len(service.lines)
    service.process.send_signal(signal.SIGHUP)
    check("tls: reloaded", service.wait("reloaded", seen), service.lines)
    second = served_name(service.addr)
    check("tls: the new certificate is served", first != second)
    with open(os.path.join(folder, "key.pem"), "w", encoding="utf-8") as f:
        f.write("no key\n")
    write("debug")
    seen = len(service.lines)
    service.process.send_signal(signal.SIGHUP)
    check("tls: a broken key is refused", service.wait("reload refused", seen), service.lines)
    check("tls: the old pair is still served", served_name(service.addr) == second)
    check("tls: nothing else of that reload was taken over",
          not any("setting changed" in line for line in service.lines[seen:]), service.lines)
    make_certificate(folder, "third")
    seen = len(service.lines)
    service.process.send_signal(signal.SIGHUP)
    done = service.wait("reloaded", seen)
    check("tls: both are taken over once both are good",
          done and done["changed"] == 1 and served_name(service.addr) not in (first, second),
          service.lines[seen:])
    check("tls: exit 0", service.stop() == 0, service.lines)


class Collector(http.server.BaseHTTPRequestHandler):
    got = []
    news = threading.Condition()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with Collector.news:
            Collector.got.append((self.path, self.headers["Content-Type"], json.loads(body)))
            Collector.news.notify_all()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def spans_of(got):
    for _, _, body in got:
        for resource in body["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                yield from scope["spans"]


def traces_reach_a_collector():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    service = Service(f"--trace.endpoint=http://127.0.0.1:{server.server_port}",
                      "--trace.sample_percent=100")
    trace = "0af7651916cd43dd8448eb211c80319c"
    host, port = service.addr.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", "/version",
                       headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01",
                                "X-Corr-ID": "corr-1"})
    connection.getresponse().read()
    for path, parent in (("/nothing", f"00-{trace}-b7ad6b7169203332-01"),
                         ("/healthz", f"00-{trace.upper()}-b7ad6b7169203331-01"),
                         ("/healthz", "")):
        connection.request("GET", path, headers={"traceparent": parent})
        connection.getresponse().read()
    end = time.monotonic() + 20
    found = None
    with Collector.news:
        while len(list(spans_of(Collector.got))) < 3 and time.monotonic() < end:
            Collector.news.wait(1)
        spans = list(spans_of(Collector.got))
    found = next((s for s in spans if s["traceId"] == trace), None)
    others = [s for s in spans if s is not found]
    check("traces: a malformed traceparent begins a new trace, each its own",
          len(others) == 2 and others[0]["traceId"] != others[1]["traceId"]
          and not any(s.get("parentSpanId") for s in others)
          and len({s["spanId"] for s in spans}) == 3, spans)
    check("traces: what no route took is no span", len(spans) == 3, spans)
    check("traces: the request arrives as a span of the caller's trace", found, Collector.got)
    if found:
        attributes = {a["key"]: a["value"] for a in found["attributes"]}
        check("traces: child of the caller, a server span with route and status",
              found["parentSpanId"] == "b7ad6b7169203331" and found["kind"] == 2
              and attributes["http.route"]["stringValue"] == "/version"
              and attributes["http.response.status_code"]["intValue"] == "200"
              and attributes["corr_id"]["stringValue"] == "corr-1", found)
        path, kind, body = Collector.got[0]
        check("traces: posted as OTLP JSON",
              path == "/v1/traces" and kind == "application/json", (path, kind))
    check("traces: exit 0", service.stop() == 0, service.lines)
    server.shutdown()


with tempfile.TemporaryDirectory() as scratch:
    sources_and_their_order(scratch)
    wrong_settings(scratch)
    reload_changes_what_may_change(scratch)
    reload_moves_the_address(scratch)
    listeners(scratch)
    certificates_are_read_anew(scratch)
traces_reach_a_collector()
sys.exit(bad)
