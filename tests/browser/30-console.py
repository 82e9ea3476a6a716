#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: an operator can work with the console: come in by a link, pay and see it arrive, send it
again and see that nothing moved, check a receipt and see a changed one refused, and see a service
die and come back.

Method: ledger, wallet and edge as they are, a console, and Chromium. The receipt that is changed is
one of the ledger's with another digit in its entry, another proof, and another checkpoint.
"""
import base64
import json
import tempfile
from pathlib import Path

from browserkit import Browser
from consolekit import Console, enter, go, verifier_key
from edgekit import Edge
from httpkit import check, finish
from ledgerkit import PROGRAM  # noqa: F401
from walletkit import Wallet, new_ledger


def text(browser, selector):
    return browser.run("return await page.locator(args.s).first().innerText()", s=selector)


def fill_transfer(browser, **fields):
    for name, value in fields.items():
        browser.run("await page.fill(`input[name=${args.name}]`, args.value)", name=name,
                    value=value)


def coming_in(browser, console):
    link = console.link()
    status, headers, _ = console.ask_raw("GET", link[len(console.url):])
    cookie = headers["Set-Cookie"] or ""
    check("a link: opens and sets a cookie that scripts and other sites do not get",
          status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie, cookie)
    check("a link: opens once", console.ask_raw("GET", link[len(console.url):])[0] == 410)
    browser.run("await page.goto(args.url); await page.waitForSelector('.alone')", url=console.url)
    check("without a session there is a page that says what to do",
          "ron console link" in text(browser, "main"))
    browser.run("await page.goto(args.url)", url=link)
    check("a used link says so", "not valid" in text(browser, "h1"))
    browser.events.clear()  # the 401 and 410 of above
    enter(browser, console)
    check("a new link leads to the overview", text(browser, "h1") == "Overview" and
          text(browser, "nav a[aria-current=page]") == "Overview")
    kept = browser.run("await page.focus('nav a:nth-child(2)'); await page.waitForTimeout(2500);"
                       "return await page.evaluate(() => document.activeElement.innerText)")
    check("a link of the menu keeps the focus while the page lives", kept == "Topology", kept)
    states = browser.run("await page.waitForFunction(() => [...document.querySelectorAll("
                         "'[data-service]')].every(e => e.dataset.state === 'ready'));"
                         "return page.locator('[data-service]').count()")
    check("the three services are ready", states == 3, states)
    paint = browser.run("return performance.getEntriesByName ? await page.evaluate(() => "
                        "performance.getEntriesByType('paint').map(p => p.startTime)) : []")
    print(f"first paint after {paint} ms")


def paying(browser):
    go(browser, "wallet", "form")
    browser.run("await page.click('[data-op=issue]')")
    fill_transfer(browser, to="u:alice", amount_minor="1000")
    browser.run("await page.click('form button[type=submit]');"
                "await page.waitForSelector('#receipt.ok')")
    browser.run("await page.click('text=New key'); await page.click('[data-op=transfer]')")
    fill_transfer(browser, **{"from": "u:alice", "to": "u:bob", "amount_minor": "40",
                              "memo": "lunch"})
    browser.run("await page.click('form button[type=submit]');"
                "await page.waitForFunction(() => /40 roc/.test("
                "document.querySelector('#receipt').innerText))")
    check("a transfer: the form shows its entry", "Entry 2" in text(browser, "#receipt"),
          text(browser, "#receipt"))
    browser.run("await page.click('form button[type=submit]');"
                "await page.waitForSelector('#receipt.warn')")
    check("sent again with its key it gives the receipt again and moves nothing",
          "nothing was moved" in text(browser, "#receipt"))
    fill_transfer(browser, amount_minor="41")
    browser.run("await page.click('form button[type=submit]');"
                "await page.waitForSelector('.note.bad')")
    check("the same key with another amount is refused",
          "IDEMPOTENCY_CONFLICT" in text(browser, ".note.bad"))
    browser.shot("console-wallet")
    go(browser, "ledger/account/u%3Abob", "main dl dd")
    check("it has arrived: the account of the payee", "40" in text(browser, "main dl dd"))
    go(browser, "ledger", "tr[data-key='2']")
    row = text(browser, "tr[data-key='2']")
    check("it has arrived: the ledger's recent entries", "u:alice" in row and "u:bob" in row, row)


def change(receipt, what):
    """The receipt with one bit of a part changed; every line keeps its form."""
    lines = receipt.split("\n")
    at = {"entry": 1, "index": 2, "proof": 3, "root": lines.index("") + 3}[what]
    if what == "index":
        lines[at] = "index 0" if lines[at] != "index 0" else "index 1"
    else:
        word, _, b64 = lines[at].rpartition(" ")
        raw = bytearray(base64.b64decode(b64))
        raw[-1] ^= 1
        lines[at] = (word + " " if word else "") + base64.b64encode(raw).decode()
    return "\n".join(lines)


def verdict(browser, receipt, name):
    folder = Path(tempfile.mkdtemp())
    path = folder / "receipt.txt"
    path.write_text(receipt, encoding="utf-8")
    browser.run("await page.evaluate(() => document.querySelector('#verdict').replaceChildren());"
                "await page.setInputFiles('#receipt-file', args.path);"
                "await page.waitForSelector('#verdict .note')", path=str(path))
    path.unlink()
    folder.rmdir()
    return text(browser, "#verdict .note")


def receipts(browser, ledger, key):
    _, _, data = ledger.ask("GET", "/receipt/2")
    receipt = data.decode()
    go(browser, "ledger", "#receipt-file")
    said = verdict(browser, receipt, "plain")
    check("a receipt: without a key it is not called genuine", "not proven" in said, said)
    browser.run("await page.fill('#vkey', args.key)", key=key)
    said = verdict(browser, receipt, "good")
    check("a receipt: genuine", said.startswith("Genuine"), said)
    shown = text(browser, "#verdict")
    check("a receipt: shows what it says", "u:alice" in shown and "lunch" in shown, shown)
    browser.shot("console-receipt")
    for what in ("entry", "index", "proof", "root"):
        said = verdict(browser, change(receipt, what), what)
        check(f"a receipt with another {what}: refused", said.startswith("Refused"), said)
    browser.shot("console-receipt-refused")
    name, number, b64 = key.split("+", 2)
    other = bytearray(base64.b64decode(b64))
    other[5] ^= 1
    browser.run("await page.fill('#vkey', args.key)",
                key=f"{name}+{number}+{base64.b64encode(other).decode()}")
    said = verdict(browser, receipt, "key")
    check("a receipt under another key: refused", said.startswith("Refused"), said)
    go(browser, "ledger/entry/2", "button.main")
    browser.run("await page.fill('#vkey', args.key); await page.click('button.main');"
                "await page.waitForSelector('#verdict .note.ok')", key=key)
    check("an entry's own receipt is checked at a click", True)


def dying(browser, edge):
    go(browser, "overview", "[data-service=edge][data-state=ready]")
    addr = edge.addr
    edge.kill()
    browser.run("await page.waitForSelector('[data-service=edge][data-state=down]')")
    colour = browser.run("return await page.locator('[data-service=edge] .pill').evaluate("
                         "e => e.className)")
    check("a service that died turns red", "bad" in colour, colour)
    browser.shot("console-down")
    edge.options = [o for o in edge.options if not o.startswith("--bind_addr")]
    edge.options.append(f"--bind_addr={addr}")
    edge.start()
    browser.run("await page.waitForSelector('[data-service=edge][data-state=ready]')")
    check("and green when it is back", True)


def reading_only(console):
    with Browser.open_or_skip(width=1024, height=768) as b:
        enter(b, console, "read")
        go(b, "wallet", "form")
        check("a link to look: the form is shut", b.run(
            "return await page.locator('form button[type=submit]').isDisabled()"))
        status = b.run("return await page.evaluate(async () => (await fetch("
                       "'/api/wallet/v1/issue', {method: 'POST', body: '{}', headers: "
                       "{'Content-Type': 'application/json', 'X-Ron-Console': '1'}})).status)")
        check("a link to look: a write is refused by the console itself", status == 403, status)


with new_ledger() as ledger, Wallet(ledger) as wallet, Edge() as edge:
    with Console({"ledger": ledger, "wallet": wallet, "edge": edge},
                 "--console.poll=250ms") as console, \
            Browser.open_or_skip(width=1280, height=900) as browser:
        coming_in(browser, console)
        paying(browser)
        key = verifier_key((ledger.data / "signing.key").read_text(encoding="ascii"))
        receipts(browser, ledger, key)
        dying(browser, edge)
        left = [e for e in browser.events if "422" not in e[1]]  # the conflict that was wanted
        check("the pages complain about nothing", not left, json.dumps(left))
        reading_only(console)
finish()
