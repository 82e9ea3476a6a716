#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the documents of the bridge say what it does.

Method: api/interop.yaml against the routes of the source, both ways, and against answers of a
running bridge, member by member; the tables of guide and API against interop/core/error.h; the
alert rules with promtool. (146-guides.py follows the guide itself.)
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from dockit import TREE, alert_rules  # noqa: E402
from httpkit import check, finish  # noqa: E402
from interopkit import Interop  # noqa: E402

try:
    import yaml
except ImportError:
    print("skipped: this machine lacks python3-yaml")
    sys.exit(77)

GUIDE = (TREE / "docs/guide/interop.md").read_text(encoding="utf-8")
API = yaml.safe_load((TREE / "api/interop.yaml").read_text(encoding="utf-8"))
SECRET = "It's a Secret to Everybody"


def routes():
    source = (TREE / "interop/front/routes.c").read_text(encoding="utf-8")
    there = {(m.lower(), p) for m, p in re.findall(r'\{RON_HTTP_(\w+), "([^"]+)"', source)}
    told = {(m, p) for p, row in API["paths"].items() for m in row
            if m in ("get", "post", "put", "delete")}
    check("API: every route is told, and no other", there == told and len(there) > 15,
          there ^ told)


def codes():
    rows = re.findall(r'X\((\w+), "([A-Z_]*)", (\d+), (?:true|false),',
                      (TREE / "interop/core/error.h").read_text(encoding="utf-8"))
    rows = [(code, status) for name, code, status in rows if name not in ("NONE", "NAME")]
    kernel = (TREE / "kernel/include/ron/http/reason.h").read_text(encoding="utf-8")
    known = {c for c, _ in rows} | set(re.findall(r'X\([A-Z_]+, \d+, "([A-Z_]+)"', kernel))
    known.discard("OK")
    enum = set(API["components"]["schemas"]["Error"]["properties"]["code"]["enum"])
    check("API: every code of the program is in the enum, and no other", enum == known,
          enum ^ known)
    table = {}
    for names, statuses in re.findall(r"^\| ([A-Z_, ]+) \| ([\d, ]+) \|", GUIDE, re.M):
        for name in names.split(", "):
            table[name] = set(statuses.split(", "))
    check("guide: the codes of the specification with their statuses", len(table) > 13 and all(
        (c, s) in rows for c, ss in table.items() for s in ss), table)


def shape(schema):
    return API["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema \
        else schema


def fits(value, schema):
    """Whether each member is told, and each that must be there is."""
    schema = shape(schema)
    if isinstance(value, dict) and "properties" in schema:
        return set(value) <= set(schema["properties"]) and \
            set(schema.get("required", [])) <= set(value) and \
            all(fits(v, schema["properties"][k]) for k, v in value.items())
    if isinstance(value, list) and "items" in schema:
        return all(fits(v, schema["items"]) for v in value)
    return True


def answers():
    config = '[providers.github]\nenabled = true\nsecret_env = "GITHUB_SECRET"\n'
    with Interop(config=config, env={"GITHUB_SECRET": SECRET}) as svc:
        address = svc.put(b"x").json["address"]
        rows = [("POST", "/put", "/put", b"y"), ("GET", f"/o/{address}", "/o/{addr}", None),
                ("POST", "/webhooks/github", "/webhooks/{provider}", b"{}"),
                ("GET", "/deliveries", "/deliveries", None), ("GET", "/audit", "/audit", None),
                ("POST", "/mailbox/t/send", "/mailbox/{topic}/send",
                 b'{"messages":[{"body":"a"},{"body_b64":"/w=="}],"key":"k"}'),
                ("POST", "/mailbox", "/mailbox", b'{"messages":[{"topic":"u","body":"a"}]}'),
                ("POST", "/switches", "/switches", b'{"name":"n","off":true,"reason":"r"}'),
                ("POST", "/mailbox/t/recv", "/mailbox/{topic}/recv", b'{"max_bytes":1000}'),
                ("POST", "/mailbox/t/ack", "/mailbox/{topic}/ack", b'{"receipts":["1-1"]}'),
                ("POST", "/mailbox/t/nack", "/mailbox/{topic}/nack",
                 b'{"receipts":["2-1"],"dead":true,"reason":"no"}'),
                ("GET", "/mailbox", "/mailbox", None),
                ("GET", "/mailbox/t", "/mailbox/{topic}", None),
                ("GET", "/mailbox/t/dead", "/mailbox/{topic}/dead", None),
                ("POST", "/mailbox/t/replay", "/mailbox/{topic}/replay", b"{}"),
                ("POST", "/mailbox/t/purge", "/mailbox/{topic}/purge", b"{}"),
                ("POST", "/forwards/none/enable", "/forwards/{rule}/enable", b"")]
        for method, path, template, body in rows:
            kind = {"Content_Type": "application/octet-stream"} if path == "/put" else {}
            a = svc.call(method, path, body, **kind)
            told = API["paths"][template][method.lower()]["responses"].get(str(a.status))
            check(f"API: {method} {template} may answer {a.status}", told is not None, a.body)
            told = API["components"]["responses"][told["$ref"].rsplit("/", 1)[1]] \
                if "$ref" in told else told
            schema = told.get("content", {}).get("application/json", {}).get("schema")
            if schema and a["Content-Type"].startswith("application/json"):
                check(f"API: {method} {template}: the answer has the members that are told",
                      fits(a.json, schema), a.body)


def alerts():
    calm = {'brownout_active{component="bridge"}': "0x40",
            'interop_actions_total{action="issue",result="dead"}': "0x40",
            "audit_drop_total": "0x40", 'interop_rule_actions_total{action="fault"}': "0x40"}
    names = ("InteropBrownout", "InteropActionsGivenUp", "InteropFaults", "InteropAuditDropped")
    alert_rules("nothing is wrong", calm, {n: None for n in names}, "20m")
    loud = {'brownout_active{component="bridge"}': "1x40",
            'interop_actions_total{action="issue",result="dead"}': "0x20 1x20",
            "audit_drop_total": "0x20 3x20",
            'interop_rule_actions_total{action="fault"}': "0x20 1x20"}
    alert_rules("each of them", loud, {
        "InteropBrownout": "severity: page, component: bridge",
        "InteropActionsGivenUp": "severity: page, action: issue, result: dead",
        "InteropFaults": "severity: warn, action: fault",
        "InteropAuditDropped": "severity: warn"}, "18m")


def main():
    routes()
    codes()
    answers()
    alerts()
    finish()


if __name__ == "__main__":
    main()
