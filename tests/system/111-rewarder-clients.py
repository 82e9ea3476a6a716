#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: what a person pastes from the guide of the rewarder works, and the documents say what the
program does.

Method: the commands of docs/guide/rewarder.md in an empty folder; api/rewarder.yaml against the
routes of the source, both ways, and against the answers of a running rewarder, member by member;
the tables of guide and API against rewarder/core/error.h; the alert rules with promtool.
"""
import json
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from dockit import TREE, alert_rules, errors, run_guide  # noqa: E402
from httpkit import check, eventually, finish, free_port  # noqa: E402
from rewarderkit import Rewarder, policy, snapshot  # noqa: E402
from walletkit import new_ledger  # noqa: E402

try:
    import yaml
except ImportError:
    print("skipped: this machine lacks python3-yaml")
    sys.exit(77)

GUIDE = (TREE / "docs/guide/rewarder.md").read_text(encoding="utf-8")
API = yaml.safe_load((TREE / "api/rewarder.yaml").read_text(encoding="utf-8"))
ROWS = [("acct_a", 100, 50, 10), ("t:1/acct_b", 200, 0, 20)]


def guide():
    rewarder, ledger = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        out, err = run_guide(GUIDE, {"127.0.0.1:7300": rewarder, "127.0.0.1:5082": ledger}, {
            "RON_LEDGER__BIND_ADDR": f"127.0.0.1:{ledger}",
            "RON_REWARDER__BIND_ADDR": f"127.0.0.1:{rewarder}"}, folder)

        def said(name):
            path = Path(folder) / name
            return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

        check("guide: the golden payouts, settled", '"amount_minor_units":"356"' in out and
              said("run.json").get("totals", {}).get("residual_minor_units") == "1" and
              said("settled.json").get("intents_done") == 2, (out, err))
        check("guide: a quarantine and its end", said("held.json").get("state") == "quarantined" and
              said("paid.json").get("state") == "emitted", (said("held.json"), said("paid.json")))


# ---- documents -----------------------------------------------------------------------------------

def tables():
    errors(GUIDE, "rewarder/core/error.h",
           API["components"]["schemas"]["Error"]["properties"]["code"]["enum"])
    states = re.search(r"define RWD_STATES\(X\)(.*?)\nenum",
                       (TREE / "rewarder/book/book.h").read_text(encoding="utf-8"), re.S)
    check("API: the states are those of the book", states is not None and
          re.findall(r'"(\w+)"', states[1]) == API["components"]["schemas"]["State"]["enum"],
          states)


def routes():
    text = (TREE / "rewarder/front/routes.c").read_text(encoding="utf-8")
    found = {(m[1].lower(), re.sub(r"\*\}", "}", m[2]))
             for m in re.finditer(r'\{RON_HTTP_(\w+), "([^"]+)"', text)}
    written = {(method, path) for path, ops in API["paths"].items() for method in ops}
    check("API: the routes of the source and no other", found == written and len(found) > 10,
          (found - written, written - found))


def resolved(part):
    if "$ref" not in part:
        return part
    at = API
    for name in part["$ref"].split("/")[1:]:
        at = at[name]
    return resolved(at)


KINDS = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool,
         "null": type(None)}


def fits(schema, value, where="$"):
    """Why a value is not what the schema says; "" when it is. The words that the document uses."""
    schema = resolved(schema)
    if "oneOf" in schema:
        whys = [fits(one, value, where) for one in schema["oneOf"]]
        return "" if whys.count("") == 1 else "; ".join(whys)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(type(value) is KINDS[kind] for kind in kinds):
        return f"{where}: {value!r} is no {kinds}"
    if value is None:
        return ""
    if "enum" in schema and value not in schema["enum"] or schema.get("const", value) != value:
        return f"{where}: {value!r}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return f"{where}: {value!r} breaks {schema['pattern']}"
    whys = []
    if isinstance(value, list):
        whys = [fits(schema["items"], v, f"{where}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, dict):
        whys = [f"{where}: {k} is missing" for k in schema["required"] if k not in value]
        whys += [f"{where}: {k} is not described" for k in value if k not in schema["properties"]]
        whys += [fits(schema["properties"][k], v, f"{where}.{k}") for k, v in value.items()
                 if k in schema["properties"]]
    return "; ".join(w for w in whys if w)


def answers(r):
    """A call of each kind; whatever comes back must stand in the document."""
    snap, document = snapshot(ROWS, 1000), policy()
    run = json.dumps(r.request(snap, document))
    carry = policy(id="carry", residual="carry")
    other = json.dumps(r.request(snapshot(ROWS, 5), document))
    worst = json.dumps(r.request(snapshot(ROWS, 2**128 - 1), carry, carry_from="c1"))
    compute, epoch = "/rewarder/epochs/{epoch}/compute", "/rewarder/epochs/{epoch}"
    release = f"{epoch}/quarantine/release"
    names = {"epoch": "e1", "account": "t:1/acct_b", "id": "policy:v1"}
    # status wanted, method, path of the document, query, body, names, headers
    calls = [
        (201, "put", "/rewarder/inputs", "", json.dumps(snap), {}, {}),
        (400, "put", "/rewarder/inputs", "", "{}", {}, {}),
        (415, "put", "/rewarder/inputs", "", "{}", {}, {"Content-Type": "text/plain"}),
        (200, "post", compute, "?wait=true", run, {}, {}),
        (200, "post", compute, "?wait=true&dry_run=true", run, {}, {}),
        (400, "post", compute, "?wait=perhaps", run, {}, {}),
        (400, "post", compute, "", "{", {}, {}),
        (401, "post", compute, "", run, {}, {"Authorization": None}),
        (404, "post", compute, "", json.dumps({**json.loads(run), "carry_from": "none"}),
         {"epoch": "e2"}, {}),
        (409, "post", compute, "?wait=true", other, {}, {}),
        (413, "post", compute, "", " " * 100000, {}, {}),
        (415, "post", compute, "", run, {}, {"Content-Type": "text/plain"}),
        (200, "post", compute, "?wait=true", json.dumps(r.request(snap, carry)), {"epoch": "c1"},
         {}),
        (409, "post", compute, "?wait=true", worst, {"epoch": "c3"}, {}),
        (200, "post", release, "", "", {"epoch": "c3"}, {}),
        (409, "post", compute, "?wait=true", worst, {"epoch": "c2"}, {}),
        (200, "get", epoch, "", None, {}, {}),
        (200, "get", epoch, "?dry_run=true", None, {}, {}),
        (404, "get", epoch, "", None, {"epoch": "none"}, {}),
        (200, "get", epoch, "", None, {"epoch": "c2"}, {}),
        (200, "get", f"{epoch}/settlement", "", None, {}, {}),
        (200, "get", f"{epoch}/settlement", "", None, {"epoch": "c2"}, {}),
        (404, "get", f"{epoch}/settlement", "", None, {"epoch": "none"}, {}),
        (200, "get", f"{epoch}/payouts", "", None, {}, {}),
        (409, "get", f"{epoch}/payouts", "", None, {"epoch": "c2"}, {}),
        (200, "get", f"{epoch}/payouts/{{account}}", "", None, {}, {}),
        (404, "get", f"{epoch}/payouts/{{account}}", "", None, {"account": "nobody"}, {}),
        (200, "post", f"{epoch}/emit", "", "", {}, {}),
        (404, "post", f"{epoch}/emit", "", "", {"epoch": "none"}, {}),
        (409, "post", f"{epoch}/emit", "", "", {"epoch": "c2"}, {}),
        (409, "post", release, "", "", {}, {}),
        (200, "get", "/rewarder/epochs", "?limit=1&state=emitted", None, {}, {}),
        (400, "get", "/rewarder/epochs", "?limit=0", None, {}, {}),
        (200, "get", "/rewarder/policy/{id}", "", None, {}, {}),
        (400, "get", "/rewarder/policy/{id}", "?hash=b3:1", None, {}, {}),
        (404, "get", "/rewarder/policy/{id}", "", None, {"id": "none"}, {}),
        (401, "get", "/rewarder/events", "", None, {}, {"Authorization": None}),
    ]
    for wanted, method, path, query, body, more, headers in calls:
        if path == f"{epoch}/emit" and not more:
            r.settled("e1")
        url = re.sub(r"\{(\w+)\}", lambda m, n={**names, **more}: n[m[1]], path) + query
        status, got, data = r.ask(method.upper(), url, body, headers=headers)
        told = API["paths"][path][method]["responses"].get(str(status), {})
        kind = got.get("Content-Type", "")
        schema = resolved(told).get("content", {}).get(kind, {}).get("schema")
        why = "not described" if schema is None else \
            fits(schema, json.loads(data)) if kind == "application/json" else ""
        check(f"API: {method.upper()} {url} is {status} as written",
              status == wanted and not why and "X-Corr-ID" in got, (status, kind, why, data[:500]))


def manifests(r):
    """Of a good run and of a quarantined one, from the files of an earlier life."""
    told = [r.get(f"/rewarder/epochs/{e}") for e in ("e1", "c2")]
    check("a quarantined run has its manifest", [m["status"] for _, m in told] ==
          ["ok", "quarantined"], told)
    r.stop()
    r.start()
    again = [r.get(f"/rewarder/epochs/{e}") for e in ("e1", "c2")]
    check("manifests are the same after a restart", told == again, again)
    r.ask("POST", "/rewarder/epochs/c2/quarantine/release", "")
    gone = r.get("/rewarder/epochs/c2")
    check("a release forgets a run without a result", gone[0] == 404, gone)


def queued(r):
    """202, and what GET tells of a run that has no end yet."""
    status, view = r.compute("slow", r.request(snapshot(ROWS, 9), policy()), query="")
    schema = API["components"]["schemas"]["Progress"]
    check("API: 202 is as written", status == 202 and not fits(schema, view),
          (status, view, fits(schema, view)))
    check("API: and ends", eventually(lambda: r.get("/rewarder/epochs/slow")[0] == 200), "")


def retired(r):
    """Long after its settlement: its files are gone, and it is not forgotten."""
    body = r.request(snapshot(ROWS, 1000), policy())
    r.stop()
    r.options.append("--rewarder.retain_runs=1s")
    r.start()
    check("an old epoch retires",
          eventually(lambda: r.get("/rewarder/epochs/e1")[1].get("code") == "GONE"), "")
    for path in ("/rewarder/epochs/e1", "/rewarder/epochs/e1/payouts",
                 "/rewarder/epochs/e1/payouts/acct_a"):
        check(f"API: {path} is 410 then", r.get(path)[0] == 410, r.get(path))
    again = r.compute("e1", body)
    check("the same run is 410", again[0] == 410 and again[1]["reason"] == "retired", again)
    other = r.compute("e1", r.request(snapshot(ROWS, 77), policy()))
    check("another run is 409", other[0] == 409 and other[1]["reason"] == "conflict", other)
    told = r.get("/rewarder/epochs/e1/settlement")
    why = fits(API["components"]["schemas"]["Settlement"], told[1])
    check("its settlement is told", told[0] == 200 and told[1]["state"] == "retired" and
          told[1]["intents_done"] == 2 and not why, (told, why))


# ---- alerts --------------------------------------------------------------------------------------

ALERTS = {"RewarderQuarantine": "severity: page",
          "RewarderInvariant": "severity: page, kind: conservation",
          "RewarderWithheld": "severity: warn", "RewarderWithheldLong": "severity: page",
          "RewarderRunsFailing": "severity: warn", "RewarderResultsDropped": "severity: warn"}


def alerts():
    for bad in (0, 1):
        once = "0x10 1x70" if bad else "0x80"
        series = {"quarantine_total": once,
                  'reward_invariant_fail_total{kind="conservation"}': once,
                  "reward_withheld_epochs": f"{bad}x80",
                  'reward_runs_total{status="ok"}': "0+100x80",
                  'reward_runs_total{status="fail"}': f"0+{10 if bad else 1}x80",
                  "dropped_results_total": once}
        alert_rules(f"those of a rewarder in {'trouble' if bad else 'order'}", series,
                    {name: labels if bad else None for name, labels in ALERTS.items()}, "35m")


def main():
    tables()
    routes()
    alerts()
    guide()
    # Less than a server reads on after its refusal, so that the refusal always arrives.
    limit = "--limits.max_body_bytes=64KiB"
    with new_ledger() as ledger, Rewarder(ledger, limit) as rewarder:
        answers(rewarder)
        manifests(rewarder)
        queued(rewarder)
        retired(rewarder)
    finish()


main()
