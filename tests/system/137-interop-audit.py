#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The audit trail of the bridge: one record for each decision, chained by hashes that Debian's
b3sum agrees with, in memory, in a file and on standard output, without anything secret; amnesia
leaves no file; a crash leaves a chain that goes on.
"""
import json
import os
import subprocess
import threading
import time

from httpkit import check, eventually, finish
from interopkit import SECRET, Interop, Place, beside_wallet, github, stripe
from ledgerkit import PROGRAM
from rewarderkit import b3

CONFIG = """
[providers.github]
enabled = true
secret_env = "HOOK_SECRET"
"""
WALLET = """
[providers.stripe]
enabled = true
secret_env = "STRIPE_SECRET"

[rules.credits]
provider = "stripe"
action = "wallet"
to = "user/a"
amount = "1"
"""
STRIPE = "whsec_of_the_tests"


def post(svc, body, **more):
    return svc.call("POST", "/webhooks/github", body, token=None, **{**github(body), **more})


def chain_holds(lines):
    """Each line hashes to what it says and follows the one before."""
    before = None
    for line in lines:
        head, tail = line[:-78], line[-78:]
        row = json.loads(line)
        if not tail.startswith(',"hash":"b3:') or b3(head.encode()) != row["hash"]:
            return False
        if before is not None and (row["prev"] != before["hash"] or
                                   row["seq"] != before["seq"] + 1):
            return False
        before = row
    return True


def rows_of(svc, limit=1000):
    a = svc.get(f"/audit?limit={limit}")
    return a.body.decode().splitlines()


def decisions(svc):
    """What is told of each kind of decision."""
    body = b'{"n":1}'
    post(svc, body, X_Corr_ID="audit-1")
    post(svc, body)
    post(svc, b'{"n":2}', **{"X-Hub-Signature-256": "sha256=" + "0" * 64})
    svc.call("POST", "/webhooks/nobody", body, token=None)
    address = svc.put(b"an object").json["address"]
    svc.put(b"x", token=None)
    svc.put_json(payload="%%%")
    svc.put(b"x", token=svc.mint_token("mailbox"))
    check("told: all of them arrive", eventually(lambda: len(rows_of(svc)) >= 8), rows_of(svc))
    lines = rows_of(svc)
    rows = [json.loads(x) for x in lines]
    kinds = [(r["action"], r["decision"], r.get("reason", "")) for r in rows]
    check("told: each decision once, in order", kinds == [
        ("webhook", "allow", "accepted"), ("webhook", "allow", "duplicate"),
        ("webhook", "deny", "UNAUTH"), ("webhook", "deny", "POLICY_BLOCKED"),
        ("put", "allow", ""), ("capability", "deny", "UNAUTH"), ("put", "deny", "MALFORMED"),
        ("capability", "deny", "SCOPE_MISMATCH")], kinds)
    first = rows[0]
    check("told: the hash of the body, how it was proven, by whom", first["b3"] == b3(body) and
          first["verified"] and first["sig_alg"] == "hmac-sha256" and first["corr_id"] == "audit-1"
          and first["provider"] == "github" and first["event"] == "push", first)
    check("told: the address without its host", first["addr"] == "127.0.0.x", first)
    check("told: a refused signature is not verified", rows[2]["verified"] is False and
          rows[2]["why"] == "signature_wrong", rows[2])
    check("told: the object", rows[4]["b3"] == address, rows[4])
    check("told: the capability that did not suffice, by its short id",
          rows[7].get("cap_id") and rows[7]["scope"] == "interop.put", rows[7])
    check("the chain holds", chain_holds(lines))
    check("a chain from which a line is missing does not", not chain_holds(lines[:2] + lines[3:]))
    check("counted", svc.metric('audit_emitted_total{sink="memory"}') == len(lines) and
          svc.metric("audit_drop_total") == 0)
    text = "\n".join(lines)
    check("nothing secret is in it", not any(
        s in text for s in (SECRET, "sha256=", svc.token, github(body)["X-Hub-Signature-256"])))
    check("the last ones alone", rows_of(svc, 1)[0] == rows_of(svc)[-1])
    check("not without a capability", svc.get("/audit", token=None).code == "UNAUTH")
    for limit in ("0", "x", "1025", "-1"):
        check(f"a limit of {limit} is MALFORMED", svc.get(f"/audit?limit={limit}").code ==
              "MALFORMED")
    check("memory: no file", not list(svc.folder.rglob("audit*")))


def verify_tool(path, lines):
    """`ron interop verify`: the file as it is, with a record changed, with one taken out, torn."""
    def tool(*words):
        return subprocess.run([PROGRAM, "interop", "verify", *words], capture_output=True,
                              text=True, check=False)

    told = tool(str(path), "--json")
    row = json.loads(told.stdout)
    check("verify: a good file, with its last hash", told.returncode == 0 and row["good"] and
          row["records"] == len(lines) and row["last_hash"] == json.loads(lines[-1])["hash"], row)
    check("verify: in words", "GOOD: the chain is intact" in tool(str(path)).stdout)
    other = path.with_suffix(".other")
    changed = lines[4].replace('"ts_ms":1', '"ts_ms":2')
    for name, bad in (("changed", lines[:4] + [changed] + lines[5:]),
                      ("taken out", lines[:4] + lines[5:])):
        other.write_text("\n".join(bad) + "\n", encoding="utf-8")
        told = tool(str(other))
        check(f"verify: a record that was {name} is found", told.returncode == 1 and
              "BAD: line 5:" in told.stdout, told.stdout)
    other.write_text("\n".join(lines) + "\n" + lines[-1][:40], encoding="utf-8")
    told = tool(str(other))
    check("verify: half a line at the end is told", told.returncode == 0 and
          "incomplete last line" in told.stdout, told.stdout)
    other.unlink()
    told = tool(str(other))
    check("verify: no such file", told.returncode == 1 and "No such file" in told.stderr,
          told.stderr)
    check("verify: no file named", tool().returncode == 2)


def to_a_file():
    with Interop("--audit.sink=file", config=CONFIG) as svc:
        path = svc.folder / "data" / "audit.jsonl"
        stop = threading.Event()

        def send(number):
            n = 0
            while not stop.is_set():
                try:
                    post(svc, b'{"t":%d,"n":%d}' % (number, n))
                    n += 1
                except (OSError, ValueError, AttributeError):
                    time.sleep(0.01)

        threads = [threading.Thread(target=send, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for _ in range(2):
            wanted = path.stat().st_size + 50000
            check("file: it grows", eventually(lambda w=wanted: path.stat().st_size > w, 60))
            svc.kill()
            with open(path, "a", encoding="ascii") as f:
                f.write('{"v":1,"seq":')  # as a crash in mid-write leaves it
            svc.start()
        check("file: deliveries go on", eventually(
            lambda: svc.metric('audit_emitted_total{sink="file"}') > 50))
        stop.set()
        for t in threads:
            t.join()
        taken = svc.metric('webhook_verify_total{provider="github",result="ok"}')
        svc.stop()
        lines = path.read_text(encoding="utf-8").splitlines()
        check("file: nobody else may read it", path.stat().st_mode & 0o777 == 0o600)
        check(f"file: one chain of {len(lines)} records over three lives", chain_holds(lines))
        verify_tool(path, lines)
        cuts = [json.loads(x) for x in lines if '"cut_bytes"' in x]
        check("file: what was cut off is told", [r["cut_bytes"] for r in cuts] == ["13", "13"],
              cuts)
        last = lines.index(next(x for x in reversed(lines) if '"cut_bytes"' in x))
        check("file: after a good end every delivery of that life is in it",
              sum('"action":"webhook"' in x for x in lines[last:]) >= taken)
        svc.start()


def to_standard_output():
    out = Interop.prepare() / "out"
    with Interop("--audit.sink=stdout", config=CONFIG, folder=out.parent,
                 prefix=("sh", "-c", f'exec "$0" "$@" > {out}')) as svc:
        svc.own = True
        post(svc, b"{}")
        check("stdout: a line", eventually(lambda: '"action":"webhook"' in out.read_text()))
        check("stdout: the chain holds", chain_holds(out.read_text().splitlines()))


def redacted():
    with Interop("--audit.redact=event,scope", config=CONFIG) as svc:
        post(svc, b"{}")
        check("redact: words of the settings", eventually(
            lambda: '"event":"[redacted]"' in "\n".join(rows_of(svc))), rows_of(svc))


def amnesia():
    with Interop("--amnesia.enabled=true", config=CONFIG) as svc:
        post(svc, b"{}")
        check("amnesia: in memory", eventually(lambda: len(rows_of(svc)) == 1))
        check("amnesia: no file", not list(svc.folder.rglob("audit*")))
    try:
        svc = Interop("--amnesia.enabled=true", "--audit.sink=file", config=CONFIG)
        svc.stop()
        svc.close()
        check("amnesia: a file is refused", False)
    except RuntimeError as e:
        check("amnesia: a file is refused and the key named", "audit.sink" in str(e), e)


def actions():
    """An action of the journal, tried again and carried out."""
    answers = {1: (503, {}, b"{}")}
    place = Place(lambda n, *_: answers.get(n, (200, {}, b"{}")))
    with beside_wallet(place, WALLET, {"STRIPE_SECRET": STRIPE}) as svc:
        body = b'{"id":"evt_1","type":"paid"}'
        svc.call("POST", "/webhooks/stripe", body, token=None, X_Corr_ID="pay-1",
                 **stripe(body, STRIPE))
        check("actions: carried out", eventually(
            lambda: any('"action":"issue"' in x and '"reason":"done"' in x for x in rows_of(svc))),
            rows_of(svc))
        rows = [json.loads(x) for x in rows_of(svc) if '"action":"issue"' in x]
        check("actions: with rule and the delivery's correlation", rows[-1]["rule"] == "credits" and
              rows[-1]["corr_id"] == "pay-1" and rows[-1]["provider"] == "stripe", rows)
    place.close()


def tampered():
    folder = Interop.prepare()
    with Interop("--audit.sink=file", config=CONFIG, folder=folder) as svc:
        post(svc, b"{}")
    path = folder / "data" / "audit.jsonl"
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    try:
        svc = Interop("--audit.sink=file", config=CONFIG, folder=folder)
        svc.stop()
        check("tampered: refused", False)
    except RuntimeError as e:
        check("tampered: not continued, and told", "record" in str(e), e)
    svc.own = True
    svc.close()


def main():
    os.umask(0o022)
    with Interop(config=CONFIG) as svc:
        decisions(svc)
    to_a_file()
    to_standard_output()
    redacted()
    amnesia()
    actions()
    tampered()
    finish()


if __name__ == "__main__":
    main()
