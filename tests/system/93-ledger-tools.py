#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: what an operator can do to a ledger's directory keeps every promise: verify, rebuild,
export, import, snapshot, and an audit by the program that shares no code with the ledger. And the
document of the API and the ledger's routes are the same list.

Method: one ledger gets a life of every kind of entry over several segments. Then its directory is
taken apart and put together again in each way, and a ledger that starts on the result must have the
same root, balances and answers. api/ledger.yaml is asked line by line, its members are those of
real answers and its statuses those of wrong requests.
"""
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish, missing  # noqa: E402
from ledgerkit import PROGRAM, Ledger, entry  # noqa: E402

try:
    import yaml
except ImportError:
    print("skipped: this machine lacks python3-yaml")
    sys.exit(77)
from apikit import Document  # noqa: E402

SOURCE = Path(os.environ["RON_SOURCE_DIR"])
NAMES = ["t:demo/u:alice/w", "t:demo/u:bob/w", "t:demo/shop", "t:demo/u:carol"]
ALICE, BOB, SHOP, CAROL = NAMES


def tool(verb, folder, *options, **more):
    return subprocess.run([PROGRAM, "ledger", verb, "--dir", str(folder), *options],
                          capture_output=True, text=True, **more)


def audit(folder):
    return subprocess.run([str(Path(PROGRAM).with_name("ron-audit")), str(folder)],
                          capture_output=True, text=True)


def root_of(text):
    found = re.search(r"^root\s+([0-9a-f]{64})$", text, re.M)
    return found and found[1]


def state(ledger):
    head = ledger.admin("GET", "/status")[1]
    return {"seq": head["seq"], "root": head["root"], "supply": ledger.get("/supply")[1]["assets"],
            "balances": [ledger.get(f"/accounts/{a}/balances")[1].get("balances") for a in NAMES],
            "holds": [h["id"] for h in ledger.get(f"/accounts/{ALICE}/holds")[1]["holds"]]}


def live(ledger):
    """Every kind of entry, several segments, some keys; returns one request and its answer."""
    check("fund", ledger.ingest(entry("Mint", ALICE, 10 ** 9), entry("Mint", BOB, 10 ** 6),
                                entry("Mint", CAROL, 7, asset="gold"))[0] == 200)
    keep, spend = entry("Hold", ALICE, 300), entry("Hold", ALICE, 50)
    bad = [x for x in (
        ledger.ingest(keep, spend), ledger.ingest(entry("Capture", ALICE, 20, to=SHOP,
                                                        ref=spend["id"])),
        ledger.ingest(entry("Release", ALICE, 30, ref=spend["id"])),
        ledger.ingest(entry("Debit", ALICE, 9), entry("Credit", CAROL, 9)),
        ledger.ingest(entry("Burn", BOB, 1000))) if x[0] != 200]
    check("every kind accepted", not bad, bad)
    for n in range(40):
        batch = [entry("Transfer", ALICE, n + 1, to=BOB, memo="m" * 200) for _ in range(40)]
        status, body = ledger.ingest(*batch, idem=f"bulk-{n}")
        if status != 200:
            check("bulk", False, body)
    ledger.ask("POST", "/outcome/never/cancel", "")
    ledger.ask("POST", f"/accounts/{CAROL}/freeze", "")
    request = json.dumps({"batch": batch, "idem_id": f"bulk-{n}"})
    return request, ledger.ask("POST", "/ingest", request)[2]


def same(name, ledger, expected, request, answer, frozen=True):
    found = state(ledger)
    check(f"{name}: same root, balances, holds", found == expected, (found, expected))
    status, _, again = ledger.ask("POST", "/ingest", request)
    check(f"{name}: a repetition gets the same bytes", (status, again) == (200, answer),
          (status, again, answer))
    check(f"{name}: a cancelled key stays cancelled",
          ledger.get("/outcome/never")[1]["outcome"] == "cancelled")
    status, body = ledger.ingest(entry("Transfer", ALICE, 1, to=CAROL), query="?dry_run=true")
    check(f"{name}: what was frozen " + ("is" if frozen else "is not"),
          status == (403 if frozen else 200), body)
    status, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB))
    check(f"{name}: goes on behind it", status == 200 and body["seq_start"] == expected["seq"] + 1,
          body)


def second(first, name, data):
    """A ledger of its own over `data`, which becomes its data directory."""
    folder = first.folder / name
    folder.mkdir(exist_ok=True)
    shutil.copy(first.keys, folder / "cap.keys")
    if data != folder / "data":
        shutil.copytree(data, folder / "data")
    return Ledger("--engine.segment_bytes=256KiB", folder=folder)


def derived_files(ledger, expected, request, answer):
    good = tool("verify", ledger.data)
    check("verify: good, with the root", good.returncode == 0 and good.stdout.endswith("good\n")
          and root_of(good.stdout) == expected["root"], good)
    judged = audit(ledger.data)
    check("ron-audit: good, with the same root", judged.returncode == 0
          and root_of(judged.stdout) == expected["root"], judged.stdout + judged.stderr)
    for name, remade in (("rebuild", True), ("start without derived files", False),
                         ("zeros in stored hashes", False)):
        folder = ledger.folder / name.split()[0]
        shutil.copytree(ledger.data, folder / "data")
        if name.startswith("zeros"):
            with (folder / "data" / "tree" / "000000.hash").open("r+b") as f:
                f.write(b"\0" * 50000)
        else:
            for gone in ("index", "tree"):
                shutil.rmtree(folder / "data" / gone)
        if remade:
            made = tool("rebuild", folder / "data")
            check("rebuild: the same root", made.returncode == 0
                  and root_of(made.stdout) == expected["root"]
                  and (folder / "data" / "index").is_dir(), made)
        with second(ledger, folder.name, folder / "data") as other:
            same(name, other, expected, request, answer)


def exports(ledger, expected, request, answer):
    text = tool("export", ledger.data)
    lines = text.stdout.splitlines()
    end = json.loads(lines[-1])
    check("export: ends with seq and root", text.returncode == 0
          and (end["seq"], end["root"]) == (expected["seq"], expected["root"]), lines[-1:])
    folder = ledger.folder / "imported"
    folder.mkdir()
    made = tool("import", folder / "data", input=text.stdout)
    check("import: the same root", made.returncode == 0
          and root_of(made.stdout) == expected["root"], made)
    with second(ledger, "imported", folder / "data") as other:
        same("import", other, expected, request, answer, frozen=False)
    cut = tool("import", ledger.folder / "cut", input="\n".join(lines[:-1]) + "\n")
    check("import: a cut export is refused in one line", cut.returncode != 0
          and cut.stderr.count("\n") == 1, cut)
    unfinished(ledger, ledger.folder / "cut", text.stdout)
    inside = tool("export", ledger.data, "--to", "30").stdout  # a batch of 40 began before
    head, end = json.loads(inside.splitlines()[0]), json.loads(inside.splitlines()[-1])
    part = tool("import", ledger.folder / "part", input=inside)
    check("export: a range that ends inside a batch can be imported", part.returncode == 0
          and head["to"] == end["seq"] > 30 and root_of(part.stdout) == end["root"], (head, part))
    lines[2] = lines[2].replace('"amount":"', '"amount":"1', 1)
    bad = tool("import", ledger.folder / "bad", input="\n".join(lines) + "\n")
    check("import: a changed export is refused", bad.returncode != 0
          and bad.stderr.count("\n") == 1, bad)
    if not missing("hledger"):
        journal = tool("export", ledger.data, "--format", "hledger").stdout
        done = subprocess.run(["hledger", "-f", "-", "balance", "--flat", "-O", "csv",
                               "--layout=bare"], input=journal, capture_output=True, text=True)
        found = {(r["account"], r["commodity"]): int(r["balance"])
                 for r in csv.DictReader(io.StringIO(done.stdout)) if r["account"] != "total"}
        wanted = {}
        for account, balances in zip(NAMES, expected["balances"]):
            for b in balances:
                wanted[f"assets:{account}", b["asset"]] = int(b["available"])
                wanted[f"assets:{account}:%held", b["asset"]] = int(b["held"])
        wanted = {k: v for k, v in wanted.items() if v}
        check("hledger: the same balances", done.returncode == 0 and wanted.items() <= found.items()
              and all(a.startswith("equity:") for a, _ in found.keys() - wanted.keys()),
              (done.stderr, found, wanted))


def unfinished(ledger, folder, text):
    """After an import that failed nothing takes what it left for a ledger."""
    wanted = f"an import did not finish: remove the directory and import again: {folder}\n"
    for verb in ("verify", "rebuild", "export", "import"):
        done = tool(verb, folder, input=text)
        check(f"import not finished: {verb} says what to do", done.returncode == 1
              and done.stderr.endswith(wanted) and done.stderr.count("\n") == 1, done)
    options = [o for o in ledger.options if str(ledger.data) not in o]
    check("import not finished: the options were understood", len(options) < len(ledger.options))
    done = subprocess.run([PROGRAM, "ledger", *options, f"--engine.data_dir={folder}"],
                          capture_output=True, text=True, timeout=60)
    check("import not finished: a ledger does not start on it", done.returncode == 1
          and done.stderr.endswith(wanted), done.stderr)
    shutil.rmtree(folder)
    check("import not finished: removed, the import is fine",
          tool("import", folder, input=text).returncode == 0)


def damage(ledger):
    folder = ledger.folder / "damaged"
    shutil.copytree(ledger.data, folder)
    first = sorted((folder / "log").glob("*.seg"))[0]
    data = bytearray(first.read_bytes())
    data[6000] ^= 1
    first.write_bytes(data)
    for name, done in (("verify", tool("verify", folder)), ("rebuild", tool("rebuild", folder)),
                       ("export", tool("export", folder))):
        check(f"damage: {name} says where in one line", done.returncode == 1
              and done.stderr.count("\n") == 1 and first.name in done.stderr, done.stderr)
    judged = audit(folder)
    bad_tree(ledger)
    gap(ledger)
    check("damage: ron-audit finds it", judged.returncode == 1 and first.name in judged.stdout,
          judged.stdout)


def bad_tree(ledger):
    """The stored hashes are derived: the log is good, and verify says which of the two is not."""
    folder = ledger.folder / "bad-tree"
    shutil.copytree(ledger.data, folder)
    first = folder / "tree" / "000000.hash"
    first.write_bytes(bytes(first.stat().st_size))
    done = tool("verify", folder)
    check("tree: verify blames it, not the log", done.returncode == 1
          and "(derived): tree: the stored hashes" in done.stderr, done)
    check("tree: rebuild makes it anew", tool("rebuild", folder).returncode == 0
          and tool("verify", folder).returncode == 0)


def gap(ledger):
    """A segment is missing in the middle: what is before it is served, and nothing is written."""
    folder = ledger.folder / "gap"
    shutil.copytree(ledger.data, folder / "data")
    lost = sorted((folder / "data" / "log").glob("*.seg"))[1]
    first_lost = int(lost.stem.split("-")[1])
    lost.unlink()
    with second(ledger, "gap", folder / "data") as other:
        head = other.admin("GET", "/status")[1]
        check("gap: starts in safe mode with what is before it", head["mode"] == "safe"
              and head["seq"] == first_lost - 1, (head, first_lost))
        metrics = other.get("/metrics", token=None)[1].decode()
        check("gap: counted", "\nseq_gap_detected_total 1\n" in metrics
              and "\nledger_safe_mode 1\n" in metrics,
              re.findall("^(?:seq_gap|ledger_safe).*", metrics, re.M))
        status, body = other.ingest(entry("Transfer", ALICE, 1, to=BOB))
        check("gap: writes are refused", status == 503 and body["reason"] == "safe_mode", body)
        check("gap: reads go on", other.get("/entries/1")[0] == 200)
        status, body = other.admin("POST", "/resume", "")
        check("gap: no resuming over it", status == 503 and other.admin("GET", "/status")[1][
            "mode"] == "safe", body)


def snapshots(ledger, expected, request, answer):
    folder = ledger.folder / "snapshot"
    folder.mkdir()
    status, made = ledger.admin("POST", "/snapshot", json.dumps({"dir": str(folder / "data")}))
    check("snapshot: made", status == 200 and made["seq"] == expected["seq"]
          and made["segments"] > 1, made)
    status, body = ledger.admin("POST", "/snapshot", json.dumps({"dir": str(folder / "data")}))
    check("snapshot: not over another", status == 409, body)
    for text in ("", "{}", '{"dir":"relative"}', '{"dir":"/a","x":1}', '{"dir":7}'):
        status, body = ledger.admin("POST", "/snapshot", text)
        check(f"snapshot: {text!r} refused", status == 400 and body["reason"] == "invalid", body)
    with second(ledger, "snapshot", folder / "data") as other:
        same("snapshot", other, expected, request, answer)
        check("snapshot: the original is untouched", state(ledger) == expected)
    under_load(ledger)


def under_load(ledger):
    """A snapshot while batches go on: a state that the ledger had, not older than its answer."""
    stop, refusals = threading.Event(), []

    def load():
        while not stop.is_set():
            status, body = ledger.ingest(entry("Transfer", ALICE, 1, to=BOB, memo="x" * 200))
            if status != 200:
                refusals.append(body)

    workers = [threading.Thread(target=load) for _ in range(3)]
    for w in workers:
        w.start()
    folder = ledger.folder / "live"
    folder.mkdir()
    status, made = ledger.admin("POST", "/snapshot", json.dumps({"dir": str(folder / "data")}))
    stop.set()
    for w in workers:
        w.join()
    check("snapshot under load: made, nobody refused", status == 200 and not refusals,
          (made, refusals[:2]))
    with second(ledger, "live", folder / "data") as other:
        head = other.admin("GET", "/status")[1]
        roots = ledger.get(f"/roots?since={head['seq'] - 1}&limit=1")[1]["roots"]
        check("snapshot under load: a state that was", head["seq"] >= made["seq"]
              and [(r["seq"], r["root"]) for r in roots] == [(head["seq"], head["root"])],
              (made, head, roots))
    check("snapshot under load: ron-audit finds it good",
          audit(folder / "data").returncode == 0, audit(folder / "data").stdout)


def while_it_runs(ledger):
    before = state(ledger)
    for verb in ("rebuild", "import"):
        done = tool(verb, ledger.data, input="")
        check(f"{verb}: a running ledger is left alone", done.returncode == 1
              and done.stderr.count("\n") == 1 and "running" in done.stderr, done)
    again = subprocess.run([PROGRAM, "ledger", *ledger.options, f"--uds.path={ledger.folder}/s2"],
                           capture_output=True, text=True, timeout=60)
    check("a second ledger on the same directory does not start", again.returncode == 1
          and again.stderr == f"ron ledger: a ledger is running on {ledger.data}\n", again.stderr)
    status, proof = ledger.get("/proof/inclusion?seq=1")
    check("the running ledger noticed nothing", state(ledger) == before and status == 200, proof)
    for verb in ("verify", "export"):
        done = tool(verb, ledger.data)
        check(f"{verb}: may read beside a running ledger", done.returncode == 0, done.stderr)


def wrong_options(ledger):
    nowhere = ledger.folder / "nowhere"
    for name, code, done in (
        ("no directory", 2, subprocess.run([PROGRAM, "ledger", "verify"], capture_output=True,
                                           text=True)),
        ("a directory that is not there", 1, tool("verify", nowhere)),
        ("export from nowhere", 1, tool("export", nowhere)),
        ("rebuild of nothing", 1, tool("rebuild", nowhere)),
        ("unknown option", 2, tool("verify", ledger.data, "--colour=red")),
        ("unknown format", 2, tool("export", ledger.data, "--format=xml")),
        ("a seq that is no number", 2, tool("export", ledger.data, "--from=x")),
        ("a word too many", 2, tool("verify", ledger.data, "more")),
        ("unknown verb", 2, subprocess.run([PROGRAM, "ledger", "verfiy"], capture_output=True,
                                           text=True)),
        ("import that is no export", 2, tool("import", ledger.folder / "no", input="hello\n")),
        ("import of nothing", 2, tool("import", ledger.folder / "none", input="")),
    ):
        check(f"wrong: {name}: one line, exit {code}", done.returncode == code
              and done.stderr.count("\n") == 1 and done.stderr.startswith("ron ledger"), done)
    check("wrong: nothing was made", not nowhere.exists())
    empty = ledger.folder / "empty"
    empty.mkdir()
    for verb in ("verify", "export", "rebuild"):
        check(f"wrong: {verb} says what is missing", tool(verb, nowhere).stderr.endswith(
            f"no ledger in {nowhere}: there is no such directory\n") and tool(verb, empty)
              .stderr.endswith(f"no ledger in {empty}: it has no folder log\n"),
              (tool(verb, nowhere), tool(verb, empty)))


# ---- the document of the API ---------------------------------------------------------------------

def source_routes():
    text = (SOURCE / "ledger/front/routes.c").read_text(encoding="utf-8")
    return [(m[1].lower(), m[2], "RON_HTTP_ADMIN" in m[3])
            for m in re.finditer(r'\{RON_HTTP_(\w+), "([^"]+)",([^}]*)\}', text)]


def pattern(path):
    text = re.sub(r"\{\w+\*\}", "\0", path)
    text = re.sub(r"\{[^}]+\}", "\1", text)
    return re.escape(text).replace("\0", ".+").replace("\1", "[^/]+")


def members(ledger):
    """Answers of the main routes have exactly the members that api/ledger.yaml writes down."""
    doc = Document(SOURCE / "api" / "ledger.yaml")
    who, other = "t:api/u:who", "t:api/u:other"

    def held(method, path, url=None, body=None, status=200, **more):
        got, _, data = ledger.ask(method.upper(), url or path, body, **more)
        wrong = doc.wrong(json.loads(data), doc.schema(method, path, status), path) \
            if got == status else [(got, data)]
        check(f"api: {method.upper()} {url or path}: the members that are written", not wrong,
              wrong)

    def ingest(*rows, idem=None, status=200):
        held("post", "/ingest", None, json.dumps({"batch": rows, **(
            {"idem_id": idem} if idem else {})}), status)

    hold = entry("Hold", who, 9, expires=int(time.time() * 1000) + 600000)
    ingest(entry("Mint", who, 100), hold, idem="api-1")
    ingest(entry("Capture", who, 2, to=other, ref=hold["id"], memo="m"))
    ingest(entry("Transfer", who, 2, to=other, account_nonce=1))
    ingest(entry("Transfer", who, 1000, to=other), status=409)
    head = ledger.get("/head")[1]["seq"]
    held("post", "/outcome/{idem_id}/cancel", "/outcome/api-2/cancel", "")
    for key in ("api-1", "api-2", "api-3"):
        held("get", "/outcome/{idem_id}", f"/outcome/{key}")
    held("post", "/accounts/{account}/freeze", f"/accounts/{other}/freeze", "")
    for query in ("", f"?at_seq={head}"):
        held("get", "/accounts/{account}/balances", f"/accounts/{who}/balances{query}")
    for part in ("entries", "holds", "debits"):
        held("get", "/accounts/{account}/" + part, f"/accounts/{who}/{part}")
    for seq in (head - 3, head - 2, head):
        held("get", "/entries/{seq}", f"/entries/{seq}")
    held("get", "/entries/by-id/{id}", f"/entries/by-id/{hold['id']}")
    for path, query in (("/supply", ""), ("/roots", "?limit=5"), ("/head", ""),
                        ("/proof/inclusion", "?seq=2"), ("/proof/consistency", "?from=3")):
        held("get", path, path + query)
    held("get", "/entries/{seq}", "/entries/0", status=400)
    held("get", "/admin/status", admin=True)
    held("post", "/admin/verify", None, "", admin=True)
    held("post", "/admin/snapshot", None, json.dumps({"dir": str(ledger.folder / "api-snap")}),
         admin=True)
    held("post", "/admin/safe-mode", None, "a drill", admin=True)
    held("post", "/admin/resume", None, "", admin=True)
    of_several = {f"#/components/schemas/{x}" for x in (
        "Head.leads", "Head.epoch", "Head.leader", "Refusal.leader")}
    unseen = set(doc.unseen()) - of_several
    check("api: every member that is written came in an answer", not unseen, unseen)


def statuses(ledger):
    """What is wrong with a request is answered with a status that stands in api/ledger.yaml."""
    api = yaml.safe_load((SOURCE / "api" / "ledger.yaml").read_text(encoding="utf-8"))
    burn, x200 = ledger.mint_token("ledger.burn"), "x" * 200
    rows = [("get", "/checkpoint", "?witnesses=x", 400),
            ("get", "/checkpoint", "?witnesses=9", 404),
            ("post", "/checkpoint/cosignatures", "?size=x", 400),
            ("get", "/entries/{seq}", "0", 400), ("get", "/entries/{seq}", "99999999", 404),
            ("get", "/entries/by-id/{id}", x200, 400), ("get", "/outcome/{idem_id}", x200, 400),
            ("post", "/outcome/{idem_id}/cancel", x200, 400), ("get", "/roots", "?since=x", 400),
            ("get", "/roots/stream", "?since=x", 400), ("get", "/receipt/{seq}", "0", 400),
            ("get", "/receipt/{seq}", "99999999", 404), ("get", "/export", "?from=x", 400),
            ("get", "/proof/inclusion", "?seq=0", 400), ("get", "/tile/{path}", "x", 400),
            ("get", "/proof/consistency", "?from=9&to=3", 400),
            ("get", "/tile/{path}", "5/000", 404),
            ("get", "/proof/inclusion", "?seq=1&size=99999999", 404)]
    rows += [("get", f"/accounts/{{account}}/{part}", "%20", 400) for part in (
        "balances", "entries", "holds", "debits")]
    rows += [("get", f"/accounts/{{account}}/{part}", "nobody", 404) for part in (
        "balances", "entries", "debits")]
    rows += [("post", f"/accounts/{{account}}/{part}", "%20", 400) for part in (
        "freeze", "unfreeze")]
    rows = [(*row, ledger.token, "" if row[0] == "post" else None) for row in rows]
    for path, value in (("/entries/{seq}", "1"), ("/entries/by-id/{id}", "a"), ("/supply", ""),
                        ("/receipt/{seq}", "1"), ("/export", ""), ("/outcome/{idem_id}", "a"),
                        ("/tile/{path}", "entries/000.p/1"), ("/admin/status", ""),
                        ("/accounts/{account}/holds", ALICE)):
        rows += [("get", path, value, 401, None, None), ("get", path, value, 403, burn, None)]
    for path in ("verify", "snapshot", "resume", "safe-mode", "drain"):
        rows += [("post", f"/admin/{path}", "", 401, None, ""),
                 ("post", f"/admin/{path}", "", 403, burn, "")]
    rows += [("post", "/checkpoint/cosignatures", "", 413, None, "x" * 9000),
             ("post", "/admin/safe-mode", "", 413, ledger.token, "x" * 600),
             ("post", "/admin/snapshot", "", 400, ledger.token, "{}")]
    for method, path, value, status, token, body in rows:
        url = re.sub(r"\{\w+\}", value, path) if "{" in path else path + value
        got = ledger.ask(method.upper(), url, body, token=token,
                         admin=path.startswith("/admin"))[0]
        check(f"api: {method.upper()} {url[:40]} answers {status}, which is written", got == status
              and str(status) in api["paths"][path][method]["responses"], (url, got))
    silent = [(m, p, s) for p, ops in api["paths"].items() for m, op in ops.items()
              for s in ("429", "503") if s not in op["responses"]]
    check("api: what the listener may answer to everything is written everywhere", not silent,
          silent)


def document(ledger):
    api = yaml.safe_load((SOURCE / "api" / "ledger.yaml").read_text(encoding="utf-8"))
    written = [(method, path, op) for path, ops in api["paths"].items()
               for method, op in ops.items()]
    routes = source_routes()
    check("api: the source was understood", len(routes) > 20, routes)
    unwritten = [r for r in routes if not any(
        m == r[0] and re.fullmatch(pattern(r[1]), p) for m, p, _ in written)]
    check("api: every route stands in api/ledger.yaml", not unwritten, unwritten)
    unknown = [(m, p) for m, p, _ in written if not any(
        m == r[0] and re.fullmatch(pattern(r[1]), p) for r in routes)]
    check("api: every path of api/ledger.yaml is a route", not unknown, unknown)
    values = {"idem_id": "bulk-1", "account": ALICE, "seq": "1", "id": "none",
              "path": f"0/000.p/{min(state(ledger)['seq'] % 256 or 1, 255)}"}
    values["path"] = "0/000" if state(ledger)["seq"] >= 256 else values["path"]
    values["id"] = ledger.get(f"/accounts/{ALICE}/entries?limit=1")[1]["entries"][0]["entry"]["id"]
    last = {"/admin/drain": 3, "/admin/resume": 2, "/admin/safe-mode": 1}
    for method, path, op in sorted(written, key=lambda row: last.get(row[1], 0)):
        url = re.sub(r"\{(\w+)\}", lambda m: values[m[1]], path)
        wanted = [f"{p['name']}=1" for p in op.get("parameters", []) if p.get("required")
                  and p.get("in") == "query"]
        if wanted:
            url += "?" + "&".join(wanted)
        body = "" if method == "post" else None
        connection = ledger.connect(admin=path.startswith("/admin"))
        connection.request(method.upper(), url, body, {
            "Authorization": f"Bearer {ledger.token}",
            **({"Content-Type": "application/json"} if body is not None else {})})
        answer = connection.getresponse()
        connection.close()
        check(f"api: {method.upper()} {path} answers as written: {answer.status}",
              answer.status not in (404, 405) and str(answer.status) in op["responses"],
              (url, answer.status, sorted(op["responses"])))
    check("api: drained by the operator", eventually(
        lambda: ledger.process.poll() is not None), "still there")


def main():
    with Ledger("--engine.segment_bytes=256KiB") as ledger:
        request, answer = live(ledger)
        expected = state(ledger)
        while_it_runs(ledger)
        snapshots(ledger, expected, request, answer)
        expected = state(ledger)
        ledger.stop()
        derived_files(ledger, expected, request, answer)
        exports(ledger, expected, request, answer)
        damage(ledger)
        wrong_options(ledger)
        ledger.start()
        members(ledger)
        statuses(ledger)
        document(ledger)
    finish()


main()
