#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guides that start services by themselves are followed literally: docs/guide/edge.md, interop.md
and console.md, every shell command in its order, in an empty folder.

Method: one shell runs all blocks of a page with other ports; a command that fails ends it. What
the page promises is looked for in what was printed and written. That every page of docs/guide with
commands is run by some test is checked, too."""
import json
import re
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from dockit import TREE, alert_rules, run_guide
from httpkit import check, finish, free_port, missing

GUIDE = TREE / "docs/guide"


def page(name):
    return (GUIDE / name).read_text(encoding="utf-8")


def edge():
    port, front, app = free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        text = page("edge.md").replace("--directory app 8000", f"--directory app {app}")
        out, _ = run_guide(text, {"127.0.0.1:7400": port, "127.0.0.1:7401": front,
                                  "127.0.0.1:8000": app}, {
            "RON_EDGE__BIND_ADDR": f"127.0.0.1:{port}"}, folder)
        told = Path(folder)
        check("edge: the file and the tags", "<p>hello</p>" in out and "\n200\n304\n" in out, out)
        check("edge: the gateway answers from its store", "Cache-Status: ron-edge; hit" in out and
              out.rstrip().endswith("<p>an application</p>") and
              (told / "app.log").read_text(encoding="ascii").count("GET /page.html") == 1, out)
        check("edge: a tile and the head of the archive", (told / "tile.mvt").stat().st_size > 100
              and (told / "head.bin").read_bytes()[:7] == b"PMTiles")


def interop():
    ports = [free_port() for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        out, _ = run_guide(page("interop.md"), {"127.0.0.1:7500": ports[0],
                                                "127.0.0.1:7100": ports[1]}, {
            "RON_INTEROP__BIND_ADDR": f"127.0.0.1:{ports[0]}",
            "RON_WALLET__BIND_ADDR": f"127.0.0.1:{ports[1]}",
            "RON_LEDGER__BIND_ADDR": f"127.0.0.1:{ports[2]}"}, folder)
        check("interop: the first delivery is taken and listed", '"accepted":true' in out and
              '"verdict":"accepted"' in out, out)
        check("interop: it waits in the mailbox and is ended", "webhook.github" in out and
              "Hello, World!" in out and "1 acknowledged" in out, out)
        check("interop: the payment became credits", '"amount_minor":"2000"' in out, out)
        check("interop: an object has an address", (Path(folder) / "put.json").stat().st_size > 60)


def console():
    ports = [free_port(), free_port()]
    with tempfile.TemporaryDirectory() as folder:
        run_guide(page("console.md"), {"127.0.0.1:7000": ports[0], "127.0.0.1:5082": ports[1]}, {
            "RON_CONSOLE__BIND_ADDR": f"127.0.0.1:{ports[0]}",
            "RON_LEDGER__BIND_ADDR": f"127.0.0.1:{ports[1]}"}, folder)
        link = json.loads((Path(folder) / "link.json").read_text())
        check("console: the link leads into it", f"127.0.0.1:{ports[0]}/open/" in link["url"],
              link)


def operations():
    """The scrape settings of docs/ops/metrics.md, and rules of edge, bridge and console that fire
    and that do not."""
    if missing("promtool"):
        return
    text = (TREE / "docs/ops/metrics.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "prometheus.yml").write_text(
            re.search(r"^```yaml\n(.*?)^```$", text, re.S | re.M)[1])
        shutil.copy(TREE / "docs/ops/alerts.rules.yml", folder)
        done = subprocess.run(["promtool", "check", "config", str(Path(folder) / "prometheus.yml")],
                              capture_output=True, text=True, check=False)
        check("metrics.md: promtool accepts the settings and the rules", done.returncode == 0,
              done.stdout + done.stderr)
    alert_rules("packs, fills, store of the edge", {
        'edge_packs{state="failed"}': "1x60",
        'edge_live_fill_attempts_total{host="map"}': "0+10x60",
        'edge_live_fill_success_total{host="map"}': "0+2x60",
        'edge_live_fill_attempts_total{host="good"}': "0+10x60",
        'edge_live_fill_success_total{host="good"}': "0+10x60",
        'edge_cas_writes_total{status="error"}': "0x60",
    }, {"EdgePackFailed": "severity: warn, state: failed", "EdgeFillsFailing":
        "severity: warn, host: map", "EdgeStoreFailing": None, "EdgeCorrupt": None}, "25m")
    alert_rules("brownout, signatures, mailbox of the bridge", {
        'brownout_active{component="bridge"}': "1x80",
        'webhook_verify_total{provider="stripe",result="ok"}': "0+10x80",
        'webhook_verify_total{provider="stripe",result="fail"}': "0+10x80",
        'webhook_verify_total{provider="github",result="ok"}': "0+10x80",
        'webhook_verify_total{provider="github",result="fail"}': "0+1x80",
        'mailbox_messages{state="dead"}': "0x80",
        'mailbox_messages{state="all"}': "500+1x80",
    }, {"InteropBrownout": "severity: page, component: bridge", "InteropSignaturesWrong":
        "severity: warn, provider: stripe", "InteropDeadLetters": None,
        "InteropMailboxGrowing": None}, "35m")
    alert_rules("links of the console", {'console_links_total{result="refused"}': "0+5x40"},
                {"ConsoleLinksRefused": "severity: warn, result: refused"}, "15m")


def every_guide_is_run():
    tests = "".join(p.read_text(encoding="utf-8") for p in (TREE / "tests/system").glob("*.py"))
    blocks = {p.name: re.findall(r"^```(?:sh|console)$", p.read_text(encoding="utf-8"), re.M)
              for p in GUIDE.glob("*.md")}
    forgotten = [name for name, found in blocks.items()
                 if found and f"guide/{name}" not in tests and f'page("{name}")' not in tests]
    check("every guide with commands is run by a test", not forgotten, forgotten)
    check("most guides have commands", sum(bool(x) for x in blocks.values()) >= 6, blocks)


every_guide_is_run()
edge()
interop()
console()
operations()
finish()
