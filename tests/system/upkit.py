# SPDX-License-Identifier: Apache-2.0
"""`ron up` as a child in a directory of its own, and the command line that finds it there."""
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

from httpkit import SANITIZER_REPORT, check, eventually
from ledgerkit import PROGRAM

OFFSETS = (0, 100, 200, 210, 300, 400, 500)
START_S = 60  # that a start may take on a busy machine


def free_base():
    """A --port-base all of whose ports are free now."""
    while True:
        base = random.randrange(20000, 60000, 7)
        sockets = [socket.socket() for _ in OFFSETS]
        try:
            for s, offset in zip(sockets, OFFSETS):
                s.bind(("127.0.0.1", base + offset))
            return base
        except OSError:
            pass
        finally:
            for s in sockets:
                s.close()


def ron(*words, data=None, cwd=None, text=None, env=None, seconds=60):
    """(exit code, standard output, standard error) of one command."""
    settings = {**os.environ, **({"RON_DATA": str(data)} if data else {}), **(env or {})}
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, input=text,
                          cwd=cwd, env=settings, timeout=seconds, check=False)
    return done.returncode, done.stdout, done.stderr


class Up:
    """A running system; `with` ends it with Ctrl-C and checks that all drained."""

    def __init__(self, *options, folder=None, base=None, wait=True):
        self.own = folder is None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="ron-up-"))
        self.data = self.folder / "ron-data"
        self.base = base or free_base()
        self.options = options
        self.start(wait)

    def start(self, wait=True):
        self.told = None
        self.lines = []
        self.errors = []
        ready = threading.Event()
        self.process = subprocess.Popen(
            [PROGRAM, "up", "--data", str(self.data), "--port-base", str(self.base), "--json",
             *self.options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.readers = [
            threading.Thread(target=self._read, args=(ready,), daemon=True),
            threading.Thread(target=self._read_errors, daemon=True)]
        for reader in self.readers:
            reader.start()
        if wait and (not ready.wait(START_S) or self.told is None):
            self.process.kill()
            raise RuntimeError("ron up did not get ready:\n" + "\n".join(self.lines + self.errors))

    def _read(self, ready):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith('{"data"'):
                self.told = json.loads(line)
                ready.set()
        ready.set()

    def _read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line.rstrip("\n"))

    def stop(self, signo=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(signo)
        code = self.process.wait(60)
        for reader in self.readers:
            reader.join()
        return code

    def ron(self, *words, **more):
        return ron(*words, data=self.data, **more)

    def json(self, *words, **more):
        """What a command prints with --json."""
        code, out, err = self.ron(*words, "--json", **more)
        return json.loads(out) if code == 0 else (code, out, err)

    def pid(self, name):
        rows = json.loads((self.data / "run.json").read_text())["services"]
        return next(r["pid"] for r in rows if r["name"] == name)

    def url(self, name):
        return next(s["url"] for s in self.told["services"] if s["name"] == name)

    def log(self):
        return (self.data / "log" / "ron.log").read_text(encoding="utf-8")

    def all_ready(self, seconds=START_S):
        return eventually(lambda: self.ron("status")[0] == 0, seconds)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        code = self.stop()
        if kind is None:
            check("ron up: Ctrl-C drains everything and exits 0", code == 0,
                  f"{code}\n" + "\n".join(self.lines[-20:] + self.errors))
            check("ron up: no report of a sanitizer",
                  not any(SANITIZER_REPORT.search(x) for x in self.lines + self.errors),
                  "\n".join(self.lines[-60:]))
        else:
            print("\n".join(self.lines[-40:] + self.errors))
        if self.own:
            shutil.rmtree(self.folder, ignore_errors=True)
