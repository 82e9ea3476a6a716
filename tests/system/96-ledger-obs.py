#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: what operators see of a ledger: every metric of the specification is there from the start,
promtool has nothing to say about them, the alert rules fire at the specification's thresholds and
not before, and each stage of a request is a span below the caller's.

Method: promtool (package prometheus) on /metrics of a running ledger and on docs/ops with made-up
series; a collector that takes OTLP over HTTP.
"""
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from ledgerkit import Ledger, entry  # noqa: E402
from ledgeroap import INGEST, Sender, batch  # noqa: E402
from oapkit import EVENT, TRACE, pack  # noqa: E402
from otlpkit import Collector, attributes  # noqa: E402
from walletkit import new_ledger  # noqa: E402

RULES = Path(os.environ["RON_SOURCE_DIR"]) / "docs" / "ops" / "alerts.rules.yml"
ALICE, BOB = "t:obs/u:alice", "t:obs/u:bob"
NAMES = """queue_depth{queue="ingress"} queue_depth{queue="preval"} queue_depth{queue="commit"}
queue_capacity{queue="commit"} busy_rejections_total{endpoint="",queue="ingress"}
busy_rejections_total{endpoint="",queue="commit"} drops_total{queue="preval"} tasks_leaked_total
prevalidator_duration_seconds_count sequencer_batch_size_count
committer_batch_latency_seconds_count committer_batch_latency_seconds_bucket{le="0.08"}
ledger_commit_latency_seconds_count roots_published_total ledger_safe_mode seq_gap_detected_total
wal_fsync_fail_total io_timeouts_total{op="read",peer=""} auth_failures_total{peer="tcp"}
rejected_total{reason="insufficient_funds"} rejected_total{reason="safe_mode"} ledger_entries_total
ledger_head_seq health_ready readyz_degraded{cause="disk_space"}
service_restarts_total{task="committer"} cap_checks_total{result="hit"}
cap_checks_total{result="miss"} cap_keys limiter_clients{limiter="http"}""".split()


def promtool(*arguments, text=None):
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True,
                          check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def samples(ledger):
    text = ledger.get("/metrics", token=None)[1].decode()
    rows = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] not in ("#", ""))
    return text, {k: float(v) for k, v in rows.items()}


def names(ledger):
    text, rows = samples(ledger)
    code, said = promtool("check", "metrics", text=text)
    check("metrics: promtool has nothing to say", code == 0 and said == "", said)
    absent = [n for n in NAMES if n not in rows]
    check("metrics: every name of the specification before the first request", not absent, absent)
    check("metrics: nothing is refused for being good", 'rejected_total{reason="ok"}' not in rows)
    tasks = json.dumps(ledger.get("/debug/topology")[1])
    wanted = {"prevalidator-0", "prevalidator-1", "sequencer", "committer", "roots", "health"}
    check("topology: every task of the specification, one sequencer, one committer",
          all(f'"name": "{t}"' in tasks for t in wanted) and rows[
              'tasks_spawned_total{kind="sequencer"}'] == 1 == rows[
              'tasks_spawned_total{kind="committer"}'], tasks[:2000])
    three = [entry("Mint", ALICE, 100) for _ in range(3)]
    ledger.ingest(*three)
    ledger.ingest(entry("Transfer", ALICE, 1000, to=BOB))
    ledger.ingest(*three)  # a repetition, which the readers answer: its entries count no more
    wanted = {"ledger_entries_total": 3, "prevalidator_duration_seconds_count": 3,
              "sequencer_batch_size_count": 2, "sequencer_batch_size_sum": 4,
              "roots_published_total": 1,
              "committer_batch_latency_seconds_count": 1,
              'rejected_total{reason="insufficient_funds"}': 1}
    check("metrics: what happened is counted", eventually(  # some of it after the answer
        lambda: wanted.items() <= samples(ledger)[1].items()), samples(ledger)[1])


class Guard(http.server.BaseHTTPRequestHandler):
    """A remote guard that takes its time."""

    takes_s, ok = 0.02, True

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.takes_s)
        data = json.dumps({"ok": Guard.ok}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def prevalidation_counts():
    """Each request counts once, however often a prevalidator had to do with it, and takes as long
    as its guards do."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with Ledger(f"--policy.url={url}/policy", f"--wallet.url={url}/wallet") as ledger:
        done = [ledger.ingest(entry("Mint", ALICE, 1))[0] for _ in range(10)]
        Guard.ok = False
        done.append(ledger.ingest(entry("Mint", ALICE, 1))[0])
        rows = samples(ledger)[1]
        count, total = (rows[f"prevalidator_duration_seconds_{x}"] for x in ("count", "sum"))
        check("metrics: prevalidation of each request once, of one that a guard refused too",
              done == [200] * 10 + [403] and count == 11, (done, count))
        check("metrics: prevalidation takes as long as the guards",
              total >= (10 * 2 + 1) * Guard.takes_s, total)
    server.shutdown()


# ---- spans ---------------------------------------------------------------------------------------

def offer(ledger, trace, sampled, entries, corr="corr-7"):
    return ledger.ingest(*entries, headers={
        "traceparent": f"00-{trace}-00f067aa0ba902b7-0{int(sampled)}", "X-Corr-ID": corr})


def over_oap(ledger, collector):
    """A request over OAP has the same spans: below those of a caller that tells its trace, else
    in a trace of its own."""
    of_trace = collector.of
    told, before = "4bf92f3577b34da6a3ce929d0e0e4734", len(collector.named("oap.ingest"))
    client = Sender(f"unix:{ledger.folder}/oap.sock")
    client.send(pack(EVENT, TRACE, 0, corr=9, payload=bytes.fromhex(
        told + "00f067aa0ba902b7" + "01")))
    status, _ = client.ask(INGEST, batch([entry("Mint", ALICE, 1)]), ledger.token.encode(), corr=9)
    check("spans: accepted over OAP", status == 200, status)
    eventually(lambda: len(of_trace(told)) >= 5)
    request = [s for s in of_trace(told) if s["name"] == "oap.ingest"]
    check("spans: over OAP below the caller's", len(request) == 1 and len(of_trace(told)) == 5
          and request[0]["parentSpanId"] == "00f067aa0ba902b7" and request[0]["kind"] == 2
          and attributes(request[0]) == {"corr_id": "0000000000000009", "status": "200"}
          and all(s["parentSpanId"] == request[0]["spanId"] for s in of_trace(told)
                  if s["name"] != "oap.ingest"), of_trace(told))
    status, _ = client.ask(INGEST, batch([entry("Mint", ALICE, 1)]), ledger.token.encode())
    eventually(lambda: len(collector.named("oap.ingest")) >= before + 2)
    alone = collector.named("oap.ingest")[-1]
    check("spans: who tells no trace has one of its own", status == 200
          and "parentSpanId" not in alone and alone["traceId"] != told
          and eventually(lambda: len(of_trace(alone["traceId"])) == 5), of_trace(alone["traceId"]))
    client.s.close()


def spans():
    collector = Collector()
    of_trace = collector.of
    with new_ledger(*collector.options) as ledger:
        trace, two = "4bf92f3577b34da6a3ce929d0e0e4736", [entry("Mint", ALICE, 100),
                                                          entry("Mint", BOB, 5)]
        check("spans: accepted", offer(ledger, trace, True, two)[0] == 200)
        eventually(lambda: len(of_trace(trace)) >= 5)
        found = {s["name"]: s for s in of_trace(trace)}
        stages = ("ingress", "prevalidator", "sequencer", "committer")
        front = [s for s in of_trace(trace) if s["name"] not in stages]
        check("spans: the front's below the caller's, one for each stage below that",
              len(front) == 1 and front[0]["parentSpanId"] == "00f067aa0ba902b7"
              and set(stages) <= found.keys() and len(of_trace(trace)) == 5
              and all(found[s]["parentSpanId"] == front[0]["spanId"] for s in stages),
              of_trace(trace))
        a = attributes(found.get("ingress", {"attributes": []}))
        check("spans: attributes of ingress", a == {"corr_id": "corr-7", "queue": "ingress"}, a)
        for stage, queue in zip(stages[1:], ("ingress", "preval", "commit")):
            a = attributes(found[stage]) if stage in found else {}
            wanted = {"corr_id": "corr-7", "queue": queue, "batch_size": "2",
                      "entry_id": two[0]["id"], "kid": "k1", "capability_ref": "c1"}
            if stage != "prevalidator":
                wanted["seq"] = "1"
            check(f"spans: attributes of {stage}", wanted.items() <= a.items(), a)
        large = "4bf92f3577b34da6a3ce929d0e0e4735"
        check("spans: a large batch is accepted", offer(ledger, large, True, [
            entry("Mint", ALICE, 1) for _ in range(200)])[0] == 200)
        eventually(lambda: len(of_trace(large)) >= 5)
        queues = [attributes(s)["queue"] for s in of_trace(large) if s["name"] == "prevalidator"]
        check("spans: a large batch takes the queue of its own", queues == ["batches"], queues)
        over_oap(ledger, collector)
        check("spans: no token in them", ledger.token not in json.dumps(collector.spans))
    with Ledger(collector.options[0], "--trace.sample_percent=0") as ledger:
        quiet = "4bf92f3577b34da6a3ce929d0e0e4737"
        offer(ledger, quiet, False, [entry("Mint", ALICE, 1)])
        ledger.admin("POST", "/safe-mode", "drill")
        safe = "4bf92f3577b34da6a3ce929d0e0e4738"
        check("spans: refused in safe mode", offer(ledger, safe, False,
                                                   [entry("Mint", ALICE, 1)])[0] == 503)
        check("spans: all of them while safe mode is on",
              eventually(lambda: of_trace(safe)), collector.spans[-3:])
        check("spans: none of those before", not of_trace(quiet), of_trace(quiet))
    collector.close()


# ---- alerts --------------------------------------------------------------------------------------

RULE_TESTS = """
rule_files: [plain.yml]
evaluation_interval: 30s
tests:
  - interval: 30s
    input_series:
      - series: 'committer_batch_latency_seconds_bucket{le="0.04"}'
        values: '0+10x40'
      - series: 'committer_batch_latency_seconds_bucket{le="0.08"}'
        values: '0+%(fast)dx40'
      - series: 'committer_batch_latency_seconds_bucket{le="0.15"}'
        values: '0+100x40'
      - series: 'committer_batch_latency_seconds_bucket{le="+Inf"}'
        values: '0+100x40'
      - series: 'queue_depth{queue="commit"}'
        values: '%(depth)dx40'
      - series: 'queue_capacity{queue="commit"}'
        values: '1000x40'
      - series: 'busy_rejections_total{endpoint="",queue="ingress"}'
        values: '0+%(refused)dx40'
      - series: 'busy_rejections_total{endpoint="",queue="commit"}'
        values: '0+%(bad)dx40'
      - series: 'drops_total{queue="preval"}'
        values: '0+%(bad)dx40'
      - series: 'tasks_leaked_total'
        values: '%(bad)dx40'
      - series: 'ledger_safe_mode'
        values: '%(bad)dx40'
      - series: 'seq_gap_detected_total'
        values: '0+%(bad)dx40'
      - series: 'wal_fsync_fail_total'
        values: '0+%(bad)dx40'
      - series: 'readyz_degraded{cause="disk_space"}'
        values: '%(bad)dx40'
      - series: 'io_timeouts_total{op="kms_verify",peer="kms"}'
        values: '0+%(bad)dx40'
    alert_rule_test:
"""
ALERTS = [("LedgerCommitSlow", "warn", "", 4), ("LedgerCommitQueueFull", "page",
                                               "queue: commit", 1),
          ("LedgerIngressRejecting", "warn", "queue: ingress", 0),
          ("LedgerCommitBackpressure", "warn", "queue: commit", 0),
          ("LedgerCommitBackpressureSustained", "page", "queue: commit", 4),
          ("LedgerGuardTimeouts", "warn", "op: kms_verify", 1),
          ("LedgerDropping", "warn", "queue: preval", 1), ("TaskLeaked", "page", "", None),
          ("LedgerSafeMode", "page", "", None), ("LedgerSeqGap", "page", "", None),
          ("LedgerSyncFailed", "page", "", None),
          ("LedgerDiskSpace", "page", "cause: disk_space", None)]


def rule_tests(bad):
    """Just over every threshold, or at it."""
    text = RULE_TESTS % {"fast": 94 if bad else 96, "depth": 801 if bad else 800,
                         "refused": 1530 if bad else 1500, "bad": int(bad)}
    for name, severity, labels, not_before in ALERTS:
        times = [(18, bad)] + ([(not_before, False)] if not_before is not None else [])
        for minutes, fires in times:
            text += f"      - eval_time: {minutes}m\n        alertname: {name}\n"
            text += "        exp_alerts:" + (
                f"\n          - exp_labels: {{severity: {severity}, {labels}}}\n" if fires else
                " []\n")
    return text


def alerts():
    code, said = promtool("check", "rules", str(RULES))
    check("alerts: promtool accepts the rules", code == 0, said)
    for bad in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            # Annotations are for people; the rules are tested without them.
            plain = "\n".join(line for line in RULES.read_text(encoding="utf-8").splitlines()
                              if not line.lstrip().startswith(("annotations:", "summary:")))
            (Path(folder) / "plain.yml").write_text(plain, encoding="utf-8")
            (Path(folder) / "tests.yml").write_text(rule_tests(bad), encoding="utf-8")
            code, said = promtool("test", "rules", str(Path(folder) / "tests.yml"))
        check("alerts: all fire just above their thresholds, in their time" if bad else
              "alerts: none fires at its threshold", code == 0, said)


def main():
    if shutil.which("promtool") is None:
        print("skipped: no promtool (package prometheus)")
        sys.exit(77)
    with Ledger() as ledger:
        names(ledger)
    prevalidation_counts()
    spans()
    alerts()
    finish()


main()
