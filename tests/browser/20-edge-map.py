#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The edge's demo page in a real browser: maps that are drawn, by MapLibre GL and by the page
itself, from tiles of the edge and from nowhere else.

Method: a real edge with its built-in sample pack, and where it is there a public pack of pictures.
The page must come to rest, show several tiles in several colours, differ after a zoom and between
packs, and complain about nothing; its policy must be strict. MapLibre comes from npm into the build
folder, and is named and left out where npm cannot fetch it."""
import os
from pathlib import Path

from browserkit import Browser
from edgekit import Edge
from httpkit import check, eventually, finish
from npmkit import npm_folder

DATA = Path(os.environ["RON_CORPORA"]) / "pmtiles"
TONER = DATA / "stamen_toner-raster-CC-BY+ODbL_z3.pmtiles"


def rest(browser):
    browser.run("await page.waitForFunction(() => ['idle', 'failed'].includes("
                "document.body.dataset.state))")
    return browser.run("return await page.evaluate(() => document.body.dataset.state)")


def quarters(picture):
    """The colours of the four quarters of a picture, the panel left out by its place."""
    w, h = picture.width, picture.height
    return [set(picture.colours(x, y, x + 200, y + 150))
            for x, y in ((w // 2 - 220, 20), (w - 260, 20), (w // 2 - 220, h - 200),
                         (w - 300, h - 220))]


def look(browser, edge, drawer, name):
    asked = []
    browser.run("await page.goto(args.url)", url=f"http://{edge.addr}/")
    check(f"{drawer}: the page comes to rest", rest(browser) == "idle",
          browser.run("return await page.locator('#note').textContent()"))
    drawn = browser.run("return await page.locator('#drawer').textContent()")
    check(f"{drawer}: it says who draws", drawer in drawn, drawn)
    first = browser.shot(f"edge-{name}")
    colours = first.colours()
    common = [c for c, n in colours.items() if n > 2000]
    check(f"{drawer}: land and sea, not a blank", len(common) >= 2 and len(colours) > 20,
          (len(colours), common))
    check(f"{drawer}: something in every quarter",
          sum(len(q) > 1 for q in quarters(first)) >= 3, [len(q) for q in quarters(first)])
    asked = browser.run("return await page.evaluate(() => performance.getEntriesByType('resource')"
                        ".map((e) => e.name).filter((n) => /\\/sample\\/\\d/.test(n)).length)")
    got = browser.run("return await page.locator('#tiles').textContent()")
    check(f"{drawer}: several tiles were drawn", asked >= 4 or int(got.split()[0]) >= 4,
          (asked, got))
    browser.run("await page.click('#in')")
    check(f"{drawer}: after a zoom it rests again", rest(browser) == "idle")
    check(f"{drawer}: and shows something else",
          eventually(lambda: browser.shot(f"edge-{name}-zoomed").rows != first.rows))
    return first


def complaints(browser, drawer):
    # WebGL in software is slow to read back from, which chromium tells as a warning.
    found = [e for e in browser.events if "GPU stall" not in e[1] and "GL Driver" not in e[1]]
    check(f"{drawer}: nothing is complained about, nothing from elsewhere", not found, found[:5])


def policy(edge):
    a = edge.get("/")
    text = a["Content-Security-Policy"]
    check("policy: from here alone, nothing inline", a.status == 200 and
          "default-src 'none'" in text and "unsafe" not in text and "http" not in text, text)
    check("policy: not in frames, not sniffed", "frame-ancestors 'none'" in text and
          a["X-Content-Type-Options"] == "nosniff")
    check("policy: pages are asked for by their tag",
          edge.get("/", If_None_Match=a["ETag"]).status == 304)
    for path in ("/demo/none.js", "/demo/..%2fsecret", "/demo/maplibre-gl.js"):
        check(f"policy: {path} is not there", edge.get(path).status in (400, 404))


with Browser.open_or_skip(width=1024, height=768) as the_browser:
    packs = {"toner": TONER} if TONER.is_file() else {}
    with Edge("--edge.demo=true", "--amnesia.enabled=true", packs=packs) as the_edge:
        check("plain: ready", eventually(lambda: the_edge.get("/readyz").status == 200))
        policy(the_edge)
        plain = look(the_browser, the_edge, "this page", "plain")
        if packs:
            the_browser.run("await page.selectOption('#pack', 'toner')")
            check("plain: a pack of pictures", rest(the_browser) == "idle")
            check("plain: which looks different", the_browser.shot("edge-plain-toner").rows !=
                  plain.rows)
        the_browser.run("await page.focus('#map'); await page.keyboard.press('ArrowRight')")
        complaints(the_browser, "plain")
    folder = npm_folder("maplibre", "maplibre-gl@5")
    if folder is not None:
        library = folder / "node_modules" / "maplibre-gl" / "dist"
        with Edge("--edge.demo=true", f"--edge.demo_dir={library}", packs=packs) as the_edge:
            check("maplibre: ready", eventually(lambda: the_edge.get("/readyz").status == 200))
            look(the_browser, the_edge, "MapLibre GL", "maplibre")
            if packs:
                the_browser.run("await page.selectOption('#pack', 'toner')")
                check("maplibre: a pack of pictures", rest(the_browser) == "idle")
                the_browser.shot("edge-maplibre-toner")
            complaints(the_browser, "maplibre")
with Edge() as the_edge:
    check("without edge.demo there is no page", the_edge.get("/").status == 404 and
          the_edge.get("/demo/demo.js").status == 404)
finish()
