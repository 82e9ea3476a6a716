# SPDX-License-Identifier: Apache-2.0
"""What the system tests of both fronts and `./dev bench http` share: our server and nginx as child
processes on free loopback ports, the load tools nobody here wrote, and the verdict of a run.

A server is stopped and must drain when its `with` block ends; what it wrote to stderr is shown when
it did not. Nothing here sleeps but `eventually`, which looks at a condition until it holds.
"""
import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SANITIZER_REPORT = re.compile(r"(Address|Thread|Leak|UndefinedBehavior)Sanitizer|runtime error:")
_bad = 0


def check(name, good, detail=""):
    """One line of the verdict; what was got follows when it is not good."""
    global _bad
    print(f"ok: {name}" if good else f"FAILED: {name}\n{detail}", flush=True)
    _bad |= not good
    return good


def finish():
    sys.exit(1 if _bad else 0)


def missing(*commands):
    """Whether one of the commands is not on this machine; says which, once."""
    absent = [c for c in commands if not shutil.which(c)]
    if absent:
        print(f"skipped: this machine lacks {' '.join(absent)}")
    return bool(absent)


def eventually(condition, seconds=20):
    """Looks until the condition holds; false when it did not in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def raise_open_files(wanted):
    """Raises the limit of this process and its children; the limit that holds then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
        except (ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def status_kib(pid, key="VmRSS"):
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(rf"^{key}:\s+(\d+) kB", text, re.M)[1])


def read_all(s):
    """All bytes up to the peer's FIN; a reset is an exception."""
    data = b""
    while piece := s.recv(65536):
        data += piece
    return data


class Child:
    """A server process on host:port; subclasses start it."""

    host = "127.0.0.1"
    port = 0

    def __init__(self, command):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.pid = self.process.pid
        self.told = False

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def connect(self, source=None, timeout=20):
        return socket.create_connection(
            (self.host, self.port), timeout, source_address=(source, 0) if source else None)

    def client(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=20)

    def get(self, path):
        c = self.client()
        c.request("GET", path)
        body = c.getresponse().read()
        c.close()
        return body

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def stop(self):
        if not self.told:  # a second signal would end it at once
            self.told = True
            self.process.send_signal(signal.SIGTERM)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        finally:
            self.ended()
            self.log.close()

    def ended(self):
        pass


class Ron(Child):
    """`ron-fixture http`, or another of its verbs, with these options. `quiet`: a bad end is an
    exception instead of a verdict."""

    def __init__(self, *arguments, prefix=(), program=None, quiet=False, verb="http",
                 listen="127.0.0.1:0"):
        self.quiet = quiet
        program = program or os.environ["RON_FIXTURE"]
        super().__init__([*prefix, program, verb, "--listen", listen, *map(str, arguments)])
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{program} did not start:\n{self.said()}")
        self.addr = line.split()[-1]
        if not self.addr.startswith("unix:"):
            self.host, _, port = self.addr.rpartition(":")
            self.port = int(port)

    def counters(self):
        return json.loads(self.get("/counters"))

    def ended(self):
        said = self.said()
        if self.quiet:
            if self.process.returncode != 0:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{said}")
            return
        check("the server drains and exits 0", self.process.returncode == 0,
              f"{self.process.returncode}\n{said}")
        check("no sanitizer has anything to report", not SANITIZER_REPORT.search(said), said)


def free_port():
    """For a server that cannot pick one itself. Not of those that the system gives to connections,
    which come and go: it is still free when that server binds it."""
    range_of = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    first = int(range_of.split()[0])
    for port in random.sample(range(max(1024, first - 20000), first), 100):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise RuntimeError("no free port")


class Nginx(Child):
    """`server` is the inside of the server block. The temporary folder holds everything it writes;
    {folder} in the configuration is its name."""

    def __init__(self, server, workers=1, prefix=(), tls=False):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-nginx-"))
        self.port = free_port()
        temporary = "".join(f"  {kind}_temp_path {self.folder}/{kind};\n" for kind in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (self.folder / "nginx.conf").write_text(f"""
worker_processes {workers};
daemon off;
pid {self.folder}/pid;
error_log {self.folder}/error.log crit;
{"user root;" if os.getuid() == 0 else ""}
worker_rlimit_nofile 16384;
events {{ worker_connections 12000; }}
http {{
  access_log off; server_tokens off; etag on; sendfile on; tcp_nopush on; tcp_nodelay on;
  keepalive_timeout 65; keepalive_requests 100000000;
  open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;
{temporary}  server {{
    listen 127.0.0.1:{self.port} {"ssl " if tls else ""}reuseport backlog=4096;
{server.replace("{folder}", str(self.folder))}
  }}
}}
""", encoding="ascii")
        super().__init__([*prefix, "nginx", "-p", f"{self.folder}/", "-c",
                          f"{self.folder}/nginx.conf", "-e", f"{self.folder}/error.log"])
        if not eventually(self.answers):
            raise RuntimeError(f"nginx did not start:\n{self.said()}")

    def answers(self):
        try:
            self.connect().close()
            return True
        except OSError:
            return False

    def ended(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def nginx_version():
    text = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr
    return text.strip().rpartition("/")[2]


# ---- load tools ----------------------------------------------------------------------------------

_US = {"us": 1, "ms": 1e3, "s": 1e6, "m": 6e7}


def _us(text):
    m = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text)
    return float(m[1]) * _US[m[2]]


def wrk(url, seconds, connections=64, threads=1, script=None, prefix=()):
    """One run: requests, rate, p50 and p99 in microseconds, and errors of any kind."""
    command = [*prefix, "wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}", "--latency"]
    run = subprocess.run([*command, *(["-s", str(script)] if script else []), url],
                         capture_output=True, text=True)
    text = run.stdout
    if run.returncode != 0 or "requests in" not in text:
        raise RuntimeError(f"wrk failed:\n{text}{run.stderr}")
    errors = sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", text)))
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return {"requests": int(re.search(r"(\d+) requests in", text)[1]),
            "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
            "p50_us": _us(re.search(r"^\s+50%\s+(\S+)", text, re.M)[1]),
            "p99_us": _us(re.search(r"^\s+99%\s+(\S+)", text, re.M)[1]),
            "errors": errors + (int(refused[1]) if refused else 0),
            "text": text}


def h2load(url, requests, connections=64, *arguments):
    """A counted run over HTTP/1.1: how many answers were 2xx, and how many of anything else."""
    text = subprocess.run(["h2load", "--h1", "-t1", f"-n{requests}", f"-c{connections}", *arguments,
                           url], capture_output=True, text=True, check=True).stdout
    done = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text)
    codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", text)
    good = int(codes[1])
    return {"good": good, "bad": requests - min(good, int(done[1])), "text": text}
