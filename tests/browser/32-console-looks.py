#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: every page is whole in light and dark, on a wide and on a small screen, and complains about
nothing.

Method: each page of a console over a small economy, opened in Chromium; its pictures stay in the
build folder (console-light-*.png, console-dark-*.png), to be looked at after a change.
"""
from browserkit import Browser
from consolekit import economy, enter, go
from httpkit import check, finish


def looks(console):
    pages = [("overview", "[data-service]"), ("topology/ledger", "svg.topo g"),
             ("ledger", "tbody tr"), ("ledger/account/u%3Aa", "main dl dd"), ("wallet", "form"),
             ("rewards", "tbody tr"), ("rewards/2026-11", "button[aria-label^=prove]"),
             ("edge", "canvas.map[data-waiting='0']"), ("interop", "tbody tr")]
    for scheme, width, height in (("light", 1280, 900), ("dark", 390, 844)):
        with Browser.open_or_skip(width=width, height=height, scheme=scheme) as b:
            enter(b, console)
            wide, hidden = [], []
            for page, selector in pages:
                go(b, page, selector)
                name = page.replace("/", "-").replace("%3A", "")
                b.shot(f"console-{scheme}-{name}")
                over = b.run("return await page.evaluate(() => "
                             "document.documentElement.scrollWidth - innerWidth)")
                wide += [(page, over)] if over > 0 else []
                seen = b.run("return await page.evaluate(() => { const n = document.querySelector("
                             "'#nav').getBoundingClientRect(), a = document.querySelector("
                             "'#nav [aria-current]').getBoundingClientRect(); return a.left >= "
                             "n.left - 1 && a.right <= n.right + 1 })")
                hidden += [] if seen else [page]
            check(f"{scheme}, {width} wide: no page is wider than the screen", not wide, wide)
            check(f"{scheme}: the menu shows where one is", not hidden, hidden)
            check(f"{scheme}: no complaints", not b.complaints(), b.complaints())


with economy() as it:
    looks(it.console)
finish()
