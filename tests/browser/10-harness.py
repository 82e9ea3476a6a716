#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: what the browser tests stand on tells the truth: values and errors come back, complaints of
pages are kept, strangers are stopped, a screenshot has the colours that the page drew.

Method: a page whose every fault is known, on a server of this test."""
import http.server
import threading

from browserkit import Browser, BrowserError, Picture
from httpkit import check, finish

PAGE = b"""<!doctype html><meta charset=utf-8><title>known faults</title>
<style>body{margin:0;background:#fff} #a,#b{position:absolute;width:100px;height:100px}
#a{left:0;top:0;background:#f00} #b{left:100px;top:0;background:#00f}</style>
<div id=a></div><div id=b></div><canvas id=c width=4 height=4></canvas>
<script src="/bad.js"></script><script>document.title = "must not run"</script>
<img src="http://192.0.2.1/stranger.png">"""
BAD = b"document.getElementById('c').dataset.gl = !!document.getElementById('c')" \
      b".getContext('webgl2'); console.error('told by the page'); throw new Error('thrown');"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = {"/": PAGE, "/bad.js": BAD}.get(self.path, b"")
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html" if self.path == "/" else "text/javascript")
        self.send_header("Content-Security-Policy",
                         "default-src 'self' http:; style-src 'unsafe-inline'")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"

with Browser.open_or_skip(width=400, height=300) as browser:
    print(f"chromium {browser.version}")
    check("a value comes back", browser.run("return args.a + 1", a=41) == 42)
    title = browser.run("await page.goto(args.url); return await page.title()", url=url)
    check("the page is there, and its inline script did not run", title == "known faults", title)
    try:
        browser.run("throw new Error('in the test')")
        check("an error in the test's code is one here", False)
    except BrowserError as e:
        check("an error in the test's code is one here", "in the test" in str(e), e)
    check("WebGL is there", browser.run("return await page.locator('#c').getAttribute('data-gl')")
          == "true")
    kinds = {k for k, _ in browser.events}
    check("complaints: thrown, told, against the policy, a stranger",
          kinds >= {"error", "console", "csp", "stranger"}, browser.events)
    check("complaints: the stranger is named", any("192.0.2.1" in text for _, text in
                                                  browser.complaints("stranger")))
    picture = browser.shot("harness")
    check("a picture: its size", (picture.width, picture.height) == (400, 300))
    colours = picture.colours()
    check("a picture: its colours", colours.get((255, 0, 0)) == 10000 and
          colours.get((0, 0, 255)) == 10000 and colours.get((255, 255, 255), 0) > 90000, colours)
    check("a picture: a part", set(picture.colours(0, 0, 100, 100)) == {(255, 0, 0)})
    try:
        Picture(b"no picture")
        check("a picture: bytes that are none", False)
    except ValueError:
        check("a picture: bytes that are none", True)
server.shutdown()
finish()
