#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: what an operator's tools see of a running service: promtool accepts /metrics without a
remark, the counters say what happened, readiness falls before the listener stops, the topology is
JSON, log lines and spans are what their pages say, the alert rules fire when they should.

Method: `ron-fixture http` as a process, promtool (package prometheus) and Python's JSON reader;
spans are checked field by field against the rules of OTLP's JSON encoding.
"""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = os.environ["RON_FIXTURE"]
SOURCE = Path(os.environ["RON_SOURCE_DIR"])
RULES = SOURCE / "docs" / "ops" / "alerts.rules.yml"
bad = 0


def check(name, good, detail=""):
    global bad
    print(f"ok: {name}" if good else f"FAILED: {name}\n{detail}")
    bad |= not good


def get(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer, body


def samples(text):
    rows = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            assert name not in rows, f"twice: {name}"
            rows[name] = float(value)
    return rows


def promtool(*arguments, text=None):
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True,
                          check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def check_metrics(port):
    for path in ("/hello", "/hello", "/name/abc", "/nowhere", "/fail"):
        get(port, path)
    get(port, "/hello", "HEAD")
    answer, text = get(port, "/metrics")
    check("content type of /metrics",
          answer.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
    code, said = promtool("check", "metrics", text=text)
    check("promtool accepts /metrics without a remark", code == 0 and said == "", said)
    rows = samples(text)
    wanted = {
        'http_requests_total{route="/hello",method="GET",status="200"}': 2,
        'http_requests_total{route="/hello",method="HEAD",status="200"}': 1,
        'http_requests_total{route="/name/{text}",method="GET",status="200"}': 1,
        'http_requests_total{route="unmatched",method="GET",status="404"}': 1,
        'http_requests_total{route="/fail",method="GET",status="409"}': 1,
        'request_latency_seconds_count{route="/hello",method="GET"}': 3,
        'rejected_total{reason="conflict"}': 1,
        'rejected_total{reason="not_found"}': 1,
        'queue_capacity{queue="late"}': 512,
        "health_ready": 1,
        "tasks_leaked_total": 0,
        "metrics_samples_dropped_total": 0,
    }
    for name, value in wanted.items():
        check(f"{name} is {value}", rows.get(name) == value, rows.get(name))
    status = Path(f"/proc/{PROCESS.pid}/status").read_text(encoding="ascii")
    rss = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
    seen = rows["process_resident_memory_bytes"] / 1024
    check("resident memory is what /proc says", abs(seen - rss) < 4096, f"{seen} {rss}")
    fds = len(os.listdir(f"/proc/{PROCESS.pid}/fd"))
    check("descriptors are what /proc says", abs(rows["process_open_fds"] - fds) <= 2, fds)


def check_bodies(port):
    answer, text = get(port, "/readyz")
    check("/readyz when ready", answer.status == 200 and
          text == '{"ready":true,"degraded":false,"missing":[],"retry_after":0}', text)
    answer, text = get(port, "/healthz")
    check("/healthz", answer.status == 200 and json.loads(text) == {"ok": True, "state": "running"},
          text)
    answer, text = get(port, "/version")
    version = json.loads(text)
    check("/version", answer.status == 200 and
          sorted(version) == ["build", "name", "service", "version"], text)
    said = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=False)
    check("/version says what --version says", version["version"] in said.stdout, said.stdout)
    answer, text = get(port, "/debug/topology")
    rows = json.loads(text)
    check("/debug/topology lists the queue and the tasks", answer.status == 200 and
          "late" in [q["name"] for q in rows["queues"]] and
          "answers" in [t["name"] for t in rows["tasks"]], text[:500])


def probe(port, path):
    """As a balancer does: a connection that was still idle when its worker began to drain is closed
    without an answer, and the next one gets it."""
    while True:
        try:
            return get(port, path)
        except http.client.RemoteDisconnected:
            continue


def check_drain(port):
    """A stage takes two seconds to end; probes on new connections see the drain meanwhile."""
    PROCESS.send_signal(signal.SIGTERM)
    while True:  # the signal is on its way
        answer, text = probe(port, "/readyz")
        if answer.status != 200:
            break
    body = json.loads(text)
    check("/readyz says draining while the listener still answers",
          answer.status == 503 and body["ready"] is False and body["missing"] == ["draining"] and
          answer.getheader("Retry-After") == str(body["retry_after"]), text)
    answer, text = probe(port, "/hello")
    while answer.status == 200:  # the listeners are told next
        answer, text = probe(port, "/hello")
    check("work is refused meanwhile", answer.status == 503 and
          json.loads(text)["code"] == "DRAINING", text)
    answer, text = probe(port, "/healthz")
    check("/healthz stays good in a drain", answer.status == 200, text)
    check("/metrics answers in a drain", "health_ready 0\n" in probe(port, "/metrics")[1])
    PROCESS.communicate(timeout=20)
    check("it drains and exits 0", PROCESS.returncode == 0, PROCESS.returncode)


def check_log(lines):
    rows = [json.loads(line) for line in lines]
    check("every log line is a JSON object with the fixed members", rows and all(
        {"ts", "level", "service", "msg"} <= set(row) and row["service"] == "http" and
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["ts"]) for row in rows), lines)
    states = [row["state"] for row in rows if "state" in row]
    check("the log tells the life of the supervisor", states == ["running", "draining", "stopped"],
          states)
    started = {row["name"] for row in rows if row.get("event") == "started"}
    check("and of its tasks", {"answers", "hold", "trace"} <= started, started)


def span_faults(span):
    """What breaks a rule of OTLP's JSON: hex ids, 64-bit integers as strings, enums as numbers."""
    def is_hex(name, digits):
        return re.fullmatch(f"[0-9a-f]{{{digits}}}", span[name]) and set(span[name]) != {"0"}

    start, end = span["startTimeUnixNano"], span["endTimeUnixNano"]
    rules = {
        "traceId": is_hex("traceId", 32),
        "spanId": is_hex("spanId", 16),
        "parentSpanId": "parentSpanId" not in span or is_hex("parentSpanId", 16),
        "kind": span["kind"] == 2,
        "times are strings of digits": isinstance(start, str) and start.isdigit() and
                                       isinstance(end, str) and end.isdigit(),
        "times in order": int(start) <= int(end) and abs(int(end) / 1e9 - time.time()) < 600,
        "attributes": all(set(a) == {"key", "value"} and len(a["value"]) == 1 and
                          isinstance(next(iter(a["value"].values())), str) and
                          next(iter(a["value"])) in ("stringValue", "intValue")
                          for a in span["attributes"]),
        "status": span["status"] == {} or span["status"]["code"] == 2,
        "known members": set(span) <= {
            "traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano",
            "endTimeUnixNano", "attributes", "droppedAttributesCount", "status"},
    }
    return [name for name, good in rules.items() if not good]


def make_spans(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    for number in range(3):
        connection.request("POST", "/late", body=b"x" * number, headers={
            "traceparent": f"00-4bf92f3577b34da6a3ce929d0e0e473{number}-00f067aa0ba902b7-01",
            "X-Corr-ID": f"corr-{number}"})
        connection.getresponse().read()
    connection.close()


def check_spans(path):
    bodies = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    spans = []
    for body in bodies:
        resource, = body["resourceSpans"]
        names = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
        check("the resource names the service", names["service.name"] == {"stringValue": "http"})
        scope, = resource["scopeSpans"]
        spans += scope["spans"]
    check("each span of the callers that sample is there once",
          sorted(s["traceId"][-1] for s in spans) == ["0", "1", "2"], spans)
    check("spans keep the rules of OTLP", not any(map(span_faults, spans)),
          list(map(span_faults, spans)))
    check("they continue the caller's trace",
          {s["parentSpanId"] for s in spans} == {"00f067aa0ba902b7"}, spans)
    texts = sorted(a["value"]["stringValue"] for s in spans for a in s["attributes"]
                   if a["key"] == "corr_id")
    check("they carry the correlation ids", texts == ["corr-0", "corr-1", "corr-2"], texts)
    numbers = sorted(a["value"]["intValue"] for s in spans for a in s["attributes"]
                     if a["key"] == "body_bytes")
    check("and numbers as strings", numbers == ["0", "1", "2"], numbers)


RULE_TESTS = """
rule_files: [{rules}]
evaluation_interval: 30s
tests:
  - interval: 30s
    input_series:
      - series: 'queue_depth{{queue="work"}}'
        values: '500x20'
      - series: 'queue_capacity{{queue="work"}}'
        values: '512x20'
      - series: 'queue_depth{{queue="calm"}}'
        values: '3x20'
      - series: 'queue_capacity{{queue="calm"}}'
        values: '512x20'
      - series: 'queue_dropped_total{{queue="audit"}}'
        values: '0+30x20'
      - series: 'tasks_leaked_total{{}}'
        values: '0x10 1x10'
      - series: 'busy_rejections_total{{endpoint="/v1/transfer",queue=""}}'
        values: '0+3000x20'
    alert_rule_test:
      - eval_time: 8m
        alertname: QueueNearlyFull
        exp_alerts:
          - exp_labels: {{severity: page, queue: work}}
      - eval_time: 1m
        alertname: QueueNearlyFull
        exp_alerts: []
      - eval_time: 8m
        alertname: QueueDropping
        exp_alerts:
          - exp_labels: {{severity: warn, queue: audit}}
      - eval_time: 2m
        alertname: TaskLeaked
        exp_alerts: []
      - eval_time: 8m
        alertname: TaskLeaked
        exp_alerts:
          - exp_labels: {{severity: page}}
      - eval_time: 8m
        alertname: BusyRejections
        exp_alerts:
          - exp_labels: {{severity: warn, endpoint: /v1/transfer}}
"""


def check_rules():
    code, said = promtool("check", "rules", str(RULES))
    check("promtool accepts the alert rules", code == 0, said)
    with tempfile.TemporaryDirectory() as folder:
        # Annotations are for people; the rules are tested without them.
        plain = "\n".join(line for line in RULES.read_text(encoding="utf-8").splitlines()
                          if not line.lstrip().startswith(("annotations:", "summary:")))
        (Path(folder) / "plain.yml").write_text(plain, encoding="utf-8")
        (Path(folder) / "tests.yml").write_text(RULE_TESTS.format(rules="plain.yml"),
                                                encoding="utf-8")
        code, said = promtool("test", "rules", str(Path(folder) / "tests.yml"))
    check("the rules fire when they should and only then", code == 0, said)


if shutil.which("promtool") is None:
    print("skipped: no promtool (package prometheus)")
    sys.exit(77)
FOLDER = tempfile.TemporaryDirectory()
TRACES = Path(FOLDER.name) / "traces"
LOG = Path(FOLDER.name) / "log"
with LOG.open("w", encoding="utf-8") as log:
    PROCESS = subprocess.Popen(
        [PROGRAM, "http", "--listen", "127.0.0.1:0", "--drain-hold", "2000", "--log", "json",
         "--trace", str(TRACES)], stdout=subprocess.PIPE, stderr=log, text=True)
try:
    PORT = int(PROCESS.stdout.readline().split()[-1].rpartition(":")[2])
    check_metrics(PORT)
    check_bodies(PORT)
    make_spans(PORT)
    check_drain(PORT)
    check_log(LOG.read_text(encoding="utf-8").splitlines())
    check_spans(TRACES)
finally:
    if PROCESS.poll() is None:
        PROCESS.kill()
    FOLDER.cleanup()
check_rules()
sys.exit(1 if bad else 0)
