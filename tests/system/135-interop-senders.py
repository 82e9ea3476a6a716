#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: what the providers' own libraries sign, we verify; what we sign, they verify.

Method: the npm packages @octokit/webhooks-methods, stripe, standardwebhooks, svix, twilio,
discord-interactions and @slack/bolt make requests (hooks.js), which ron_hook, the table of
providers by itself, must take, and refuse with a byte changed or an hour later. The same requests
go to a running bridge: taken once, known again also after a restart, and no signature of theirs is
in its files and log. What it forwards, and what ron_hook signs, the packages judge. Where npm or
its registry is missing the test is left out.
"""
import base64
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish  # noqa: E402
from interopkit import Interop, Place  # noqa: E402
from ledgerkit import PROGRAM  # noqa: E402
from npmkit import BUILD, npm_folder  # noqa: E402

HOOK = BUILD / "tests" / "ron_hook"
URL_BASE = "https://hooks.example.org"
PACKAGES = ["@octokit/webhooks-methods@6", "stripe@23", "standardwebhooks@1", "svix@1", "twilio@6",
            "discord-interactions@4", "@slack/bolt@5"]
SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
NOW = int(time.time() * 1000)
FORWARD_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def libraries(folder, verb, said):
    script = folder / "hooks.js"
    script.write_bytes((Path(__file__).resolve().parent / "hooks.js").read_bytes())
    run = subprocess.run(["node", str(script), verb], input=json.dumps(said), text=True,
                         capture_output=True, timeout=60, check=False)
    if run.returncode != 0:
        raise SystemExit(f"hooks.js {verb}: {run.stderr}")
    return json.loads(run.stdout)


def verify(request, now=NOW, body=None):
    """The label of the refusal, algorithm, id and event."""
    lines = "".join(f"{name}: {value}\n" for name, value in
                    [["Content-Type", request["type"]], *request["headers"]])
    text = lines.encode() + b"\n" + (request["body"].encode() if body is None else body)
    run = subprocess.run([HOOK, "verify", request["kind"], request["secret"], str(now), URL_BASE,
                          request["target"]], input=text, capture_output=True, check=True)
    return run.stdout.decode().split(" ")


def receive(folder):
    """The libraries send."""
    requests = libraries(folder, "send", {"now": NOW})
    check("requests of every library", len({r["note"] for r in requests}) == 8, len(requests))
    for request in requests:
        name = f"{request['note']}: {request['body'][:30]!r}"
        said = verify(request)
        check(f"{name} is verified", said[0] == "none", said)
        body = request["body"].encode()
        changed = body[:-1] + bytes([body[-1] ^ 1]) if body else b"x=1"
        check(f"{name} with another byte is refused", verify(request, body=changed)[0] in
              ("signature_wrong", "body_form"), said)
        if request["note"] not in ("octokit", "twilio form", "twilio body"):
            check(f"{name} is refused an hour later",
                  verify(request, now=NOW + 3600_000)[0] == "clock_skew")
    return requests


# ---- a running bridge ----------------------------------------------------------------------------


def settings(requests, place):
    secrets = {r["kind"]: r["secret"] for r in requests}
    config = "".join(f"""
[providers.{kind}]
enabled = true
secret_env = "SECRET_{kind.upper()}"
public_url = "{URL_BASE}"
""" for kind in secrets) + f"""
[rules.on]
provider = "github"
action = "forward"
url = "{place.url}/hook"
secret_env = "FORWARD"
allow_http = true
allow_private = true
"""
    env = {f"SECRET_{kind.upper()}": secret for kind, secret in secrets.items()}
    return config, {**env, "FORWARD": FORWARD_SECRET}


def post(svc, request, body=None):
    return svc.call("POST", request["target"], request["body"].encode() if body is None else body,
                    token=None, **{"Content-Type": request["type"], **dict(request["headers"])})


def signatures(request):
    """The signature of a request as text and as bytes."""
    value = next(v for k, v in request["headers"]
                 if "ignature" in k and "imestamp" not in k or "signature" in k)
    text = value.rsplit("=", 1)[-1] if value[-1] != "=" else value.split(",", 1)[-1]
    raw = bytes.fromhex(text) if set(text) <= set("0123456789abcdef") else \
        base64.b64decode(text + "=" * (-len(text) % 4))
    return [text.encode(), raw]


def search(svc, needles):
    """Files of the bridge, and its log, in which one of the needles is."""
    hits = [str(f) for f in svc.folder.rglob("*") if f.is_file() and
            any(n in f.read_bytes() for n in needles)]
    log = "\n".join(svc.lines).encode()
    return hits + ["the log" for n in needles if n in log]


def bridge(folder, requests):
    place = Place()
    config, env = settings(requests, place)
    with Interop(config=config, env=env) as svc:
        for request in requests:
            name = f"bridge: {request['note']}: {request['body'][:30]!r}"
            body = request["body"].encode()
            changed = body[:-1] + bytes([body[-1] ^ 1]) if body else b"x=1"
            a = post(svc, request, changed)
            check(f"{name} with another byte is refused", a.code in ("UNAUTH", "MALFORMED"), a.body)
            a = post(svc, request)
            check(f"{name} is accepted", a.status == 202 and "duplicate" not in a.json, a.body)
            a = post(svc, request)
            check(f"{name} again is known", a.status == 202 and a.json.get("duplicate") is True,
                  a.body)
        good = sum(1 for r in requests if r["kind"] == "github")
        check("bridge: forwards are sent", eventually(lambda: place.count() >= good), place.count())
        svc.restart()
        for request in requests:
            a = post(svc, request)
            check(f"bridge: {request['note']} is known after a restart",
                  a.status == 202 and a.json.get("duplicate") is True, a.body)
        needles = [n for r in requests for n in signatures(r)]
        check("bridge: its files and log are there to be searched", svc.lines and
              any(f.stat().st_size > 0 for f in (svc.folder / "data").rglob("*") if f.is_file()))
        found = search(svc, needles)
        check("bridge: no signature in its files and log", not found, found)
    forwarded = [{"kind": "standardwebhooks", "secret": FORWARD_SECRET, "note": "good",
                  "headers": [[k, v] for k, v in headers.items()], "body": body.decode()}
                 for _, headers, body in place.seen]
    said = libraries(folder, "receive", forwarded)
    check("the libraries accept what the bridge forwards", said and all(x is True for x in said),
          said)
    place.close()


# ---- what we send --------------------------------------------------------------------------------


def sign(kind, secret, body, content_type, target):
    run = subprocess.run([HOOK, "sign", kind, secret, str(NOW), URL_BASE + target, "msg_1",
                          content_type], input=body.encode(), capture_output=True, check=True)
    headers = [line.split(": ", 1) for line in run.stdout.decode().splitlines()]
    return {"kind": kind, "secret": secret, "target": target, "type": content_type,
            "headers": headers, "body": body, "note": "good"}


def send(folder):
    """We send, the libraries judge."""
    body = '{"id":"evt_1","object":"event","text":"\u00e4"}'
    json_type, form = "application/json", "application/x-www-form-urlencoded"
    good = [sign("github", "It's a Secret to Everybody", body, json_type, "/x"),
            sign("stripe", "whsec_of_a_stripe_endpoint", body, json_type, "/x"),
            sign("slack", "8f742231b10e8888abcd99yyyzzz85a5", body, json_type, "/x"),
            sign("standardwebhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", body, json_type,
                 "/x"),
            sign("twilio", "0123456789abcdef", "b=2&a=%2B1&c=x+y%0A", form, "/x?y=1"),
            sign("discord", SEED, body, json_type, "/x")]
    bad = [dict(r, body=r["body"].replace("1", "2", 1), note="changed") for r in good]
    said = libraries(folder, "receive", good + bad)
    for request, good_said, bad_said in zip(good, said, said[len(good):]):
        check(f"the libraries accept our {request['kind']}", good_said is True, good_said)
        check(f"and refuse it with another byte: {request['kind']}", bad_said is False, bad_said)


# ---- the guide -----------------------------------------------------------------------------------


def guide():
    """docs/guide/webhooks.md: its settings are good, its table has the kinds of the code."""
    tree = Path(__file__).resolve().parents[2]
    text = (tree / "docs/guide/webhooks.md").read_text(encoding="utf-8")
    header = (tree / "interop/provider/provider.h").read_text(encoding="utf-8")
    table = (tree / "interop/provider/table.c").read_text(encoding="utf-8")
    kinds = re.findall(r'X\(\w+, "(\w+)", "', header.split("define IOP_KINDS")[1].split("enum")[0])
    rows = {m[1]: m[0] for m in re.finditer(r"^\| `(\w+)` \|.*$", text, re.M)}
    check("guide: the kinds of the code", list(rows) == kinds, list(rows))
    names = [n for row in rows.values() for n in re.findall(r"`([\w-]*-[\w-]+|/[\w/]+)`", row)]
    unknown = [n for n in names if f'"{n}"' not in table]
    check("guide: headers and pointers of the code", len(names) > 25 and not unknown, unknown)
    settings_text = "\n".join(re.findall(r"```toml\n(.*?)```", text, re.S))
    variables = re.findall(r'secret_env(?:_next)? = "(\w+)"', settings_text)
    folder = Interop.prepare()
    token = folder / "wallet.token"
    subprocess.run([PROGRAM, "cap", "mint", "--keys", str(folder / "cap.keys"), "--aud", "wallet",
                    "--scope", "wallet.issue", "--out", str(token)], check=True,
                   capture_output=True)
    with Interop(config=settings_text.replace('"wallet.token"', f'"{token}"'), folder=folder,
                 env={v: f"the secret {v}" for v in variables}) as svc:
        a = svc.call("POST", "/webhooks/acme", b"{}", token=None)
        check("guide: its settings are good", a.code == "UNAUTH", a.body)
    shutil.rmtree(folder)


def main():
    guide()
    folder = npm_folder("webhooks", *PACKAGES)
    if folder is None:
        return 77
    bridge(folder, receive(folder))
    send(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
