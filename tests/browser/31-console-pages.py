#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: every page of the console shows what the services have, by mouse and by keyboard, and a
queue that fills is seen to fill.

Method: all services with something in them: an epoch of 40 payees, the sample pack, payments. The
ledger is stopped while the wallet is asked by many, so that requests wait in it.
"""
import json
import signal
import threading

from browserkit import Browser
from consolekit import economy, enter, go
from httpkit import check, finish

WAITING = 60  # requests that wait; the wallet lets 64 in


def text(browser, selector):
    return browser.run("return await page.locator(args.s).first().innerText()", s=selector)


def topology(browser, ledger, wallet):
    go(browser, "topology/ledger", "svg.topo [data-task=committer]")
    queues = browser.run("return await page.locator('svg.topo [data-queue]').evaluateAll("
                         "l => l.map(e => e.dataset.queue))")
    check("topology: the ledger's queues", {"ingress", "preval", "commit", "root_pub"} <=
          set(queues), queues)
    inside = browser.run("return await page.locator('svg.topo').evaluate(svg => {"
                         "const r = svg.getBoundingClientRect();"
                         "return [...svg.querySelectorAll('g')].every(g => { const b = "
                         "g.getBoundingClientRect(); return b.left >= r.left - 1 && b.right <= "
                         "r.right + 1 && b.bottom <= r.bottom + 1 }) })")
    check("topology: every box lies inside the picture", inside)
    go(browser, "topology/interop", "svg.topo [data-queue]")
    red = browser.run("return await page.locator('svg.topo .bad').count()")
    check("topology: nothing is red while all is well", red == 0, red)
    go(browser, "topology/wallet", "svg.topo [data-queue='http.inflight']")
    threads = [threading.Thread(target=wallet.transfer, args=("u:a", f"u:b{i}", 1))
               for i in range(WAITING)]
    ledger.process.send_signal(signal.SIGSTOP)
    try:
        for t in threads:
            t.start()
        browser.run("await page.waitForSelector(\"svg.topo [data-queue='http.inflight'].bad\")")
        check("topology: a queue that is nearly full turns red", True)
        browser.shot("console-topology-full")
        go(browser, "overview", "[data-service=wallet]:not([data-state=ready])")
        browser.shot("console-overview-full")
    finally:
        ledger.process.send_signal(signal.SIGCONT)
    for t in threads:
        t.join()
    most = browser.run("return await page.evaluate(async () => { const o = await (await fetch("
                       "'/api/overview')).json(); const i = o.columns.indexOf('fill'); return "
                       "Math.max(...o.services.find(s => s.svc === 'wallet').history.map("
                       "p => p[i])) })")
    check("overview: the fullest queue was nearly full, in thousandths", most > 850, most)
    go(browser, "topology/wallet", "svg.topo [data-queue='http.inflight']:not(.bad)")
    check("topology: and calms down again", True)


def rewards(browser):
    go(browser, "rewards", "tr[data-key='2026-11']")
    row = text(browser, "tr[data-key='2026-11']")
    check("rewards: the epoch and its state", "emitted" in row, row)
    go(browser, "rewards/2026-11", "button[aria-label='prove acct_07']")
    bars = browser.run("return await page.locator('rect.bar').count()")
    check("rewards: a distribution", bars >= 4, bars)
    browser.run("await page.click(\"button[aria-label='prove acct_07']\");"
                "await page.waitForSelector('#proof .note')")
    check("rewards: the proof of one payee leads to the root",
          text(browser, "#proof .note").startswith("Proven"), text(browser, "#proof"))
    browser.shot("console-rewards")


def edge_page(browser):
    go(browser, "edge", "canvas.map")
    browser.run("await page.waitForFunction(() => { const c = document.querySelector('canvas.map');"
                "return c.dataset.there > 0 && c.dataset.waiting === '0' })")
    picture = browser.shot("console-map", "canvas.map")
    colours = [c for c, n in picture.colours().items() if n > picture.width * picture.height / 50]
    check("edge: the map has land and water", len(colours) >= 2, colours)
    browser.run("await page.focus('canvas.map'); await page.keyboard.press('+');"
                "await page.keyboard.press('ArrowLeft');"
                "await page.waitForFunction(() => /zoom 2/.test(document.body.innerText))")
    check("edge: the map is moved by keys", True)


def interop_page(browser):
    go(browser, "interop", "tr[data-key='d-good']")
    rows = browser.run("return await page.locator('[aria-label=deliveries] tbody tr')"
                       ".allInnerTexts()")
    check("interop: three deliveries, newest first, each with its verdict and reason",
          [[w for w in ("accepted", "duplicate", "refused") if w in r] for r in rows] ==
          [["refused"], ["duplicate"], ["accepted"]], rows)
    check("interop: no brownout", "off" in text(browser, "main dd"))
    browser.run("await page.waitForSelector(\"tr[data-key='webhook.github']\")")
    row = text(browser, "tr[data-key='webhook.github']").split()
    check("interop: the topic of the provider, with what waits in it", row[:2] ==
          ["webhook.github", "1"], row)


def small_parts(browser, console):
    browser.run("await page.keyboard.press('Escape'); await page.evaluate(() => "
                "document.activeElement.blur()); await page.keyboard.press('1');"
                "await page.waitForSelector('[data-service]')")
    check("keyboard: a digit opens a page", text(browser, "h1") == "Overview")
    unnamed = browser.run(
        "const out = []; for (const p of args.pages) {"
        "await page.evaluate(p => { location.hash = '#/' + p }, p);"
        "await page.waitForFunction(() => document.querySelector('main h1') && "
        "!document.querySelector('main .wait'));"
        "out.push(...await page.evaluate(() => [...document.querySelectorAll("
        "'input,select,button,a')].filter(e => !(e.labels && e.labels.length) && "
        "!e.getAttribute('aria-label') && !e.innerText.trim() && !e.title && "
        "!e.querySelector('img[alt]')).map(e => e.outerHTML))) } return out",
        pages=["overview", "ledger", "wallet", "edge", "rewards", "interop",
               "topology/edge"])
    check("every field, button and link has a name", not unnamed, unnamed)
    total = browser.run("return await page.evaluate(() => performance.getEntriesByType('resource')"
                        ".filter(r => /static/.test(r.name)).reduce((n, r) => "
                        "n + r.decodedBodySize, 0))")
    check("all files together are below 150 KiB", 20000 < total < 150 * 1024, total)
    print(f"files: {total} bytes")
    status, _, _ = console.ask_raw("GET", "/api/ledger/head")
    check("without a session the API answers nobody", status == 401, status)
    status = browser.run("return await page.evaluate(async () => "
                         "(await fetch('/api/ledger/admin/status')).status)")
    check("what is not in the allow-list is not there", status == 404, status)
    browser.events.clear()


with economy() as it, Browser.open_or_skip(width=1280, height=900) as browser:
    enter(browser, it.console)
    topology(browser, it.ledger, it.wallet)
    rewards(browser)
    edge_page(browser)
    interop_page(browser)
    check("the pages complain about nothing", not browser.complaints(),
          json.dumps(browser.complaints()))
    small_parts(browser, it.console)
finish()
