#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: each stage of a request is a span below the request's own, in every service, and what goes
to a collector is OTLP.

Method: all five services with every request traced and a collector; one request to each with a
traceparent of the caller, whose trace must then hold the front's span and, below it, one for each
stage; those of the ledger, asked over OAP, hang below its caller's. A stage that fails is exported
though nothing is sampled. The bodies are read with the protocol's own definitions from the npm
package @opentelemetry/otlp-transformer: every member must be a field there, and come back unchanged
from a round through protobuf. Without npm that is named and left out. (The stages of the ledger
have a test of their own, 96.)"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from edgekit import Edge, Origin  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from interopkit import Interop, github  # noqa: E402
from npmkit import npm_folder  # noqa: E402
from otlpkit import Collector, attributes  # noqa: E402
from rewarderkit import Rewarder, policy, snapshot  # noqa: E402
from walletkit import Wallet, new_ledger  # noqa: E402

CALLER = "00f067aa0ba902b7"
HOOKS = '[providers.github]\nenabled = true\nsecret_env = "HOOK_SECRET"\n'
NODE = r"""
const { opentelemetry } = require("@opentelemetry/otlp-transformer/build/src/generated/root");
const T = opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
const IDS = ["traceId", "spanId", "parentSpanId"];
const ids = (v, f) => Array.isArray(v) ? v.map(x => ids(x, f)) : v && typeof v === "object" &&
  !Buffer.isBuffer(v) && !(v instanceof Uint8Array) ? Object.fromEntries(Object.entries(v).map(
    ([k, x]) => [k, IDS.includes(k) ? f(x) : ids(x, f)])) : v;
const lost = (ours, theirs, path) => ours && typeof ours === "object" ?
  Object.keys(ours).flatMap(k => theirs && k in theirs ? lost(ours[k], theirs[k], path + "." + k)
    : [path + "." + k]) : String(ours) === String(theirs) ? [] : [path + "=" + theirs];
let spans = 0, wrong = [];
for (const body of JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"))) {
  const m = T.fromObject(ids(body, x => Buffer.from(x, "hex")));
  const bad = T.verify(m);
  if (bad) wrong.push(bad);
  const back = ids(T.toObject(T.decode(T.encode(m).finish()), { longs: String, enums: Number,
    defaults: true }), x => Buffer.from(x).toString("hex"));
  wrong = wrong.concat(lost(body, back, ""));
  for (const r of back.resourceSpans) for (const s of r.scopeSpans) spans += s.spans.length;
}
console.log(JSON.stringify({ spans, wrong: wrong.slice(0, 5) }));
"""


def trace_of(n):
    return f"4bf92f3577b34da6a3ce929d0e0e{n:04x}"


def parent(n, sampled=True):
    return f"00-{trace_of(n)}-{CALLER}-0{int(sampled)}"


def stages(collector, what, n, wanted):
    """The trace has the front's span below the caller's, and these below that; what other services
    add to it is left out."""
    def mine():
        return [s for s in collector.of(trace_of(n)) if what in s["service"]]

    names = {name for name, _ in wanted}
    check(f"{what}: every stage has a span", eventually(
        lambda: names < {s["name"] for s in mine()}), collector.of(trace_of(n)))
    spans = mine()
    front = [s for s in spans if s.get("parentSpanId") == CALLER]
    check(f"{what}: the front's is below the caller's", len(front) == 1, spans)
    for name, queue in wanted:
        mine = [s for s in spans if s["name"] == name]
        check(f"{what}: {name} is below the front's, with corr_id and queue",
              len(mine) == 1 and front and mine[0]["parentSpanId"] == front[0]["spanId"]
              and attributes(mine[0]) == {"corr_id": f"corr-{n}", "queue": queue}
              and int(mine[0]["startTimeUnixNano"]) <= int(mine[0]["endTimeUnixNano"]), mine)


def below(collector, what, caller):
    """The ledger's spans of a request over OAP hang below the caller's span."""
    def theirs():
        return [s for s in collector.of(caller["traceId"]) if "ledger" in s["service"]]

    steps = {"ingress", "prevalidator", "sequencer", "committer"}
    check(f"{what}: the ledger's spans are in the trace of its caller", eventually(
        lambda: steps | {"oap.ingest"} <= {s["name"] for s in theirs()}), theirs())
    request = [s for s in theirs() if s["name"] == "oap.ingest"]
    check(f"{what}: the request is below the caller's span",
          request and all(s["parentSpanId"] == caller["spanId"] for s in request), request)
    check(f"{what}: and its stages below the request", all(
        s["parentSpanId"] in [r["spanId"] for r in request]
        for s in theirs() if s["name"] in steps), theirs())


def money(collector):
    with new_ledger(*collector.options) as ledger:
        with Wallet(ledger, *collector.options) as wallet:
            headers = {"traceparent": parent(1), "X-Corr-ID": "corr-1"}
            status, got = wallet.issue("t:a", 1000, headers=headers)
            check("wallet: a write", status == 200, got)
            stages(collector, "wallet", 1, [("worker", "work")])
            below(collector, "wallet", next(
                s for s in collector.of(trace_of(1)) if s.get("parentSpanId") == CALLER))
        with Wallet(ledger, collector.options[0], "--trace.sample_percent=0",
                    "--circuit_breaker.failure_threshold=1000") as wallet:
            ledger.process.kill()
            ledger.process.wait()
            headers = {"traceparent": parent(2, False), "X-Corr-ID": "corr-2"}
            status, got = wallet.issue("t:a", 1, headers=headers)
            check("wallet: a failure", status >= 500, (status, got))
            check("wallet: is exported though nothing is sampled", eventually(
                lambda: any(s["name"] == "worker" and s["status"].get("code") == 2
                            for s in collector.of(trace_of(2)))), collector.of(trace_of(2)))
        ledger.start()
        with Rewarder(ledger, *collector.options) as rewarder:
            p = policy()
            body = rewarder.request(snapshot([("t:n1", 100, 50, 10)], 1000), p)
            status, got = rewarder.compute("spans-1", body, headers={
                "traceparent": parent(3), "X-Corr-ID": "corr-3"})
            check("rewarder: a run", status == 200, got)
            stages(collector, "rewarder", 3, [("scheduler", "work_req"), ("worker", "work"),
                                              ("artifact_writer", "results")])
            check("rewarder: a settlement has a trace of its own", eventually(
                lambda: any(attributes(s).get("epoch") == "spans-1"
                            for s in collector.named("intent_emitter"))))
            below(collector, "rewarder", next(
                s for s in collector.named("intent_emitter")
                if attributes(s).get("epoch") == "spans-1"))


def bytes_and_hooks(collector):
    origin = Origin()
    origin.answers["/a.bin"] = (200, {"ETag": '"1"'}, b"x" * 3000)
    with Edge(f"--origins.map.url={origin.url}", "--origins.map.allow_http=true",
              "--origins.map.allow_private=true", *collector.options) as edge:
        a = edge.get("/edge/assets/o/map/a.bin", traceparent=parent(4), X_Corr_ID="corr-4")
        check("edge: a fill", a.status == 200, a.status)
        stages(collector, "edge", 4, [("fill", "work")])
    with Interop(*collector.options, config=HOOKS) as bridge:
        data = b'{"a":1}'
        a = bridge.call("POST", "/webhooks/github", data, token=None, **{
            **github(data), "traceparent": parent(5), "X-Corr-ID": "corr-5"})
        check("interop: a delivery", a.status == 202, (a.status, a.body))
        stages(collector, "interop", 5, [("worker", "work")])


def definitions(collector):
    folder = npm_folder("otlp", "@opentelemetry/otlp-transformer@0.57")
    if folder is None:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump([json.loads(b) for b in collector.bodies], f)
        f.flush()
        (folder / "read.js").write_text(NODE, encoding="utf-8")
        done = subprocess.run(["node", str(folder / "read.js"), f.name], capture_output=True,
                              text=True, timeout=60, check=False)
    check("otlp: the package reads it", done.returncode == 0, done.stderr[-500:])
    got = json.loads(done.stdout or "{}")
    check(f"otlp: {got.get('spans')} spans, every member is a field of the protocol",
          got.get("spans") == len(collector.spans) and got.get("wrong") == [], got)


def main():
    collector = Collector()
    money(collector)
    bytes_and_hooks(collector)
    definitions(collector)
    collector.close()
    finish()


main()
