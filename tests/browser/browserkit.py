# SPDX-License-Identifier: Apache-2.0
"""A real browser for tests: Debian's chromium, headless, driven through npm's playwright-core.

    with Browser() as b:
        b.run("await page.goto(args.url)", url=...)   # the body of an async JavaScript function
        assert b.run("return await page.title()") == "..."
        b.shot("map").colours()                       # build/browser/map.png, and its pixels

The test is Python, so it can start and kill services between two steps with the kits of
tests/system; what happens in the browser is JavaScript with playwright's `page`. Requests to other
than loopback never leave the machine. Without chromium, node, npm or network `Browser.open_or_skip`
ends the test with 77.
"""
import itertools
import json
import os
import queue
import shutil
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))  # the kits of services

from npmkit import BUILD, npm_folder  # noqa: E402  (after the path)

PLAYWRIGHT = "playwright-core@1"
SHOTS = BUILD / "browser"


class BrowserError(Exception):
    """The code in the browser threw; the text has playwright's reason."""


class Browser:
    """`scheme` is "light" or "dark". `events` keeps what pages complained about: (kind, text), kind
    one of error (thrown by a script), console, csp, failed (a request), stranger (a request to
    another machine, which was stopped)."""

    def __init__(self, folder, width=1024, height=768, scheme="light", timeout_s=30):
        self.events = []
        self.timeout_s = timeout_s
        self._ids = itertools.count(1)
        self._answers = queue.Queue()
        options = {"chromium": shutil.which("chromium"), "width": width, "height": height,
                   "scheme": scheme, "timeout_ms": timeout_s * 1000}
        self._process = subprocess.Popen(
            ["node", str(HERE / "driver.js"), json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "NODE_PATH": str(folder / "node_modules")})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.version = self._wait(0)

    @staticmethod
    def open_or_skip(**options):
        """A browser, or the end of the test with 77 and what is missing."""
        folder = npm_folder("browser", PLAYWRIGHT)
        if folder is None or not shutil.which("chromium"):
            print("skipped: this machine lacks chromium or the npm package playwright-core")
            sys.exit(77)
        return Browser(folder, **options)

    def _read(self):
        for line in self._process.stdout:
            told = json.loads(line)
            if "event" in told:
                self.events.append((told["event"], told["text"]))
            else:
                self._answers.put(told)
        self._answers.put(None)

    def _wait(self, number):
        try:
            told = self._answers.get(timeout=self.timeout_s + 30)
        except queue.Empty:
            told = None
        if told is None:
            raise BrowserError("the browser does not answer")
        if "error" in told:
            raise BrowserError(told["error"])
        assert told["id"] == number, told
        return told["value"]

    def run(self, code, **args):
        """The value (JSON) of an async function with this body, of page, args, context and
        browser; BrowserError when it throws."""
        number = next(self._ids)
        self._process.stdin.write(json.dumps({"id": number, "code": code, "args": args}) + "\n")
        self._process.stdin.flush()
        return self._wait(number)

    def shot(self, name, selector=None):
        """Saves build/<preset>/browser/<name>.png of the page or an element; its Picture."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        path = SHOTS / f"{name}.png"
        self.run("const what = args.selector ? page.locator(args.selector) : page;"
                 "await what.screenshot({path: args.path})", path=str(path), selector=selector)
        return Picture(path.read_bytes())

    def complaints(self, *kinds):
        """The events of these kinds, of all without any."""
        return [e for e in self.events if not kinds or e[0] in kinds]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()


class Picture:
    """The pixels of a PNG with 8 bits a channel, RGB or RGBA, as screenshots are."""

    def __init__(self, data):
        if data[:8] != b"\x89PNG\r\n\x1a\n":
            raise ValueError("this is no PNG")
        packed, at = b"", 8
        while at < len(data):
            size, kind = struct.unpack_from(">I4s", data, at)
            if kind == b"IHDR":
                self.width, self.height, bits, colour, _, _, lace = struct.unpack_from(
                    ">IIBBBBB", data, at + 8)
                if bits != 8 or colour not in (2, 6) or lace:
                    raise ValueError("a PNG of another kind than screenshots are")
                self.channels = 3 if colour == 2 else 4
            elif kind == b"IDAT":
                packed += data[at + 8:at + 8 + size]
            at += 12 + size
        self.rows = self._unfilter(zlib.decompress(packed))

    def _unfilter(self, raw):
        n, stride, rows = self.channels, self.width * self.channels, []
        above = bytearray(stride)
        for y in range(self.height):
            kind = raw[y * (stride + 1)]
            row = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
            for i in range(stride if kind else 0):
                left = row[i - n] if i >= n else 0
                up = above[i]
                if kind == 1:
                    guess = left
                elif kind == 2:
                    guess = up
                elif kind == 3:
                    guess = (left + up) // 2
                else:
                    corner = above[i - n] if i >= n else 0
                    p = left + up - corner
                    a, b, c = abs(p - left), abs(p - up), abs(p - corner)
                    guess = left if a <= b and a <= c else up if b <= c else corner
                row[i] = (row[i] + guess) & 255
            rows.append(row)
            above = row
        return rows

    def pixel(self, x, y):
        return tuple(self.rows[y][x * self.channels:x * self.channels + 3])

    def colours(self, left=0, top=0, right=None, bottom=None):
        """{(r, g, b): how many pixels} of a part."""
        counts = {}
        for y in range(top, self.height if bottom is None else bottom):
            for x in range(left, self.width if right is None else right):
                p = self.pixel(x, y)
                counts[p] = counts.get(p, 0) + 1
        return counts
