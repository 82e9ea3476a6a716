#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: tokens of `ron cap` are macaroons to others, and theirs are to us; secrets stay secret.

Method: the program makes keys and tokens; libraries that nobody here wrote verify and narrow them,
and the program verifies what comes back. Debian's pymacaroons speaks v1 and v2, the npm package
`macaroon` v2 only (its v1 reader is missing). What is not there is said and left out; with neither,
the test is skipped.
"""
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["RON_BIN"]
BUILD = os.environ.get("RON_BUILD_DIR", ".")
bad = 0

# Reads {"do", "key", "token", "caveats"} from standard input and prints the token that it made, or
# the verdict. One text for each library, the same questions.
PYTHON = r"""
import json, sys
from pymacaroons import Macaroon, MACAROON_V1, MACAROON_V2, Verifier
from pymacaroons.exceptions import MacaroonInvalidSignatureException
q = json.load(sys.stdin)
key = bytes.fromhex(q["key"])
if q["do"] == "mint":
    m = Macaroon(location="elsewhere", identifier=q["id"], key=key,
                 version=MACAROON_V2 if q["form"] == "v2" else MACAROON_V1)
else:
    m = Macaroon.deserialize(q["token"])
if q["do"] == "verify":
    v = Verifier()
    v.satisfy_general(lambda predicate: predicate in q["caveats"])
    try:
        print("good" if v.verify(m, key) else "bad")
    except MacaroonInvalidSignatureException:
        print("bad")
else:
    for caveat in q["caveats"]:
        m.add_first_party_caveat(caveat)
    if q.get("third"):
        m.add_third_party_caveat("http://elsewhere/", "a shared key", "who is it")
    print(m.serialize())
"""
NODE = r"""
const m = require('macaroon');
const q = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const key = Uint8Array.from(Buffer.from(q.key, 'hex'));
// The package's own export fails above 200 bytes (its buffer grows beyond all bounds); the same
// fields come out of its JSON export.
function fields(parts) {
  return Buffer.concat(parts.map(([type, value]) => {
    if (type === 0) return Buffer.from([0]);
    const b = Buffer.from(value);
    const size = b.length < 128 ? [b.length] : [b.length & 127 | 128, b.length >> 7];
    return Buffer.concat([Buffer.from([type, ...size]), b]);
  }));
}
function exported(t) {
  try {
    return Buffer.from(t.exportBinary());
  } catch (e) {
    const j = t.exportJSON();
    const parts = [[1, j.l], [2, j.i], [0]];
    for (const c of j.c) parts.push([2, c.i], [0]);
    parts.push([0], [6, Buffer.from(j.s64, 'base64url')]);
    return Buffer.concat([Buffer.from([2]), fields(parts)]);
  }
}
const t = q.do === 'mint' ? m.newMacaroon({identifier: q.id, location: 'elsewhere', rootKey: key})
                          : m.importMacaroon(q.token);
if (q.do === 'verify') {
  try {
    t.verify(key, c => q.caveats.includes(c) ? null : 'does not hold', []);
    console.log('good');
  } catch (e) {
    console.log('bad');
  }
} else {
  for (const c of q.caveats) t.addFirstPartyCaveat(c);
  console.log(exported(t).toString('base64url'));
}
"""


def check(name, good, detail=""):
    global bad
    print(("ok: " if good else "FAILED: ") + name + ("" if good else f"\n{detail}"))
    bad |= not good


def ron(*args, token=None, code=0):
    """Runs `ron cap`; the token goes through standard input. Returns standard output."""
    done = subprocess.run([PROGRAM, "cap", *args], input=token, text=True, capture_output=True,
                          timeout=60, check=False)
    if done.returncode != code:
        check(f"ron cap {' '.join(args)} exits {code}", False, f"{done.returncode} {done.stderr}")
    return done.stdout.strip() if code == 0 else done.stderr


def ask(command, **question):
    done = subprocess.run(command, input=json.dumps(question), text=True, capture_output=True,
                          timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else "failed: " + done.stderr


def find_python():
    """A command that has pymacaroons: this interpreter or Debian's own."""
    for interpreter in (sys.executable, "/usr/bin/python3"):
        probe = [interpreter, "-c", "import pymacaroons"]
        if os.path.exists(interpreter) and subprocess.run(
                probe, capture_output=True, check=False).returncode == 0:
            return [interpreter, "-c", PYTHON]
    print("left out: pymacaroons is not installed (python3-pymacaroons)")
    return None


def find_node():
    """A command that has the npm package, installed into the build folder on first use."""
    folder = os.path.join(BUILD, "npm-macaroon")
    if not shutil.which("node") or not shutil.which("npm"):
        print("left out: node or npm is not installed")
        return None
    if not os.path.isdir(os.path.join(folder, "node_modules", "macaroon")):
        os.makedirs(folder, exist_ok=True)
        try:
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
                            "--prefix", folder, "macaroon@3"], capture_output=True, timeout=60,
                           check=False)
        except subprocess.TimeoutExpired:
            pass
    if not os.path.isdir(os.path.join(folder, "node_modules", "macaroon")):
        print("left out: the npm package macaroon cannot be installed (no network?)")
        return None
    script = os.path.join(folder, "ask.js")
    with open(script, "w", encoding="utf-8") as out:
        out.write(NODE)
    return ["node", script]


def secret_of(keys):
    """(id, hex) of the newest key."""
    with open(keys, encoding="ascii") as text:
        words = [line.split() for line in text if line.startswith("key ")][-1]
    return words[1], words[3]


def other_library(name, command, form, keys):
    kid, key = secret_of(keys)
    caveats = ["aud = wallet", "scope = wallet.transfer", "max = 1000", "exp = 1999999999"]
    token = ron("mint", "--keys", keys, "--aud", "wallet", "--scope", "wallet.transfer", "--max",
                "1000", "--exp", "1999999999", "--format", form)
    verdict = ask(command, do="verify", key=key, token=token, caveats=caveats)
    check(f"{name} {form}: verifies ours", verdict == "good", verdict)
    verdict = ask(command, do="verify", key=key, token=token, caveats=caveats[1:])
    check(f"{name} {form}: a caveat that does not hold is seen there", verdict == "bad", verdict)
    verdict = ask(command, do="verify", key="00" * 32, token=token, caveats=caveats)
    check(f"{name} {form}: another key is seen there", verdict == "bad", verdict)

    narrow = ask(command, do="narrow", key=key, token=token, caveats=["max = 10", "asset = roc"])
    shown = json.loads(ron("show", "--keys", keys, "--json", token=narrow))
    texts = [c["text"] for c in shown["token"]["caveats"]]
    check(f"{name} {form}: what it narrowed comes back good",
          shown["signature"] == "ok" and sorted(texts) == sorted(caveats + ["max = 10",
                                                                           "asset = roc"]), shown)
    again = ron("attenuate", "--tenant", "acme", token=narrow)
    verdict = ask(command, do="verify", key=key, token=again, caveats=texts + ["tenant = acme"])
    check(f"{name} {form}: and narrowed once more by us is good there", verdict == "good", verdict)

    made = ask(command, do="mint", key=key, id=f"ron1.{kid}.made-elsewhere", form=form,
               caveats=["aud = ledger"])
    shown = json.loads(ron("show", "--keys", keys, "--json", token=made))
    check(f"{name} {form}: what it minted is good here",
          shown["signature"] == "ok" and shown["token"]["form"] == form, shown)
    forged = ask(command, do="mint", key="11" * 32, id=f"ron1.{kid}.forged", form=form, caveats=[])
    ron("show", "--keys", keys, token=forged, code=1)


def keys_and_files(folder, keys):
    first = ron("key", "new", "--keys", keys, "--id", "first")
    check("key new prints the id", first == "first", first)
    mode = stat.S_IMODE(os.stat(keys).st_mode)
    check("the key file has mode 0600", mode == 0o600, oct(mode))
    listed = json.loads(ron("key", "list", "--keys", keys, "--json"))
    check("key list names it and no secret",
          listed[0]["id"] == "first" and set(listed[0]) == {"id", "created", "mints"}, listed)

    before = ron("mint", "--keys", keys)
    second = ron("key", "new", "--keys", keys)
    after = ron("mint", "--keys", keys)
    ids = [json.loads(ron("show", "--json", token=t))["token"]["key"] for t in (before, after)]
    check("the newest key mints", ids == ["first", second], ids)
    ron("show", "--keys", keys, token=before)
    ron("key", "retire", "--keys", keys, "--id", "first")
    said = ron("show", "--keys", keys, token=before, code=1)
    check("a retired key's token is void and the message shows no token", before not in said, said)
    ron("show", "--keys", keys, token=after)
    said = ron("key", "retire", "--keys", keys, "--id", second, code=1)
    check("the only key cannot be retired", "only key" in said, said)

    os.chmod(keys, 0o640)
    said = ron("mint", "--keys", keys, code=1)
    check("a key file open to others is refused", "chmod 600" in said, said)
    os.chmod(keys, 0o600)
    with open(keys, encoding="ascii") as text:
        whole = text.read()
    half = os.path.join(folder, "half.keys")
    with open(os.open(half, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as out:
        out.write(whole[: len(whole) // 2])
    said = ron("mint", "--keys", half, code=1)
    check("half a key file is refused and not shown",
          "cut off" in said and secret_of(keys)[1][:16] not in said, said)

    path = os.path.join(folder, "t.token")
    ron("mint", "--keys", keys, "--ttl", "15m", "--out", path)
    mode = stat.S_IMODE(os.stat(path).st_mode)
    check("a token goes into a private file", mode == 0o600, oct(mode))
    caveat = json.loads(ron("show", "--in", path, "--json"))["token"]["caveats"][0]["text"]
    left = int(caveat.removeprefix("exp = ")) - time.time()
    check("--ttl 15m is 15 minutes from now", 880 < left <= 900, caveat)


def places(folder, keys):
    """Pipes, links and devices where people put files."""
    token = ron("mint", "--keys", keys)
    path = os.path.join(folder, "in.token")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as out:
        out.write(f" {token}\r\n")
    shown = ron("show", "--in", path)
    check("blanks around a token are left out", "identifier" in shown, shown)
    shown = ron("show", "--in", "/dev/stdin", token=token)
    check("a token comes through a pipe with a name", "identifier" in shown, shown)
    shown = ron("show", "--in", "-", token=token)
    check("- is standard input", "identifier" in shown, shown)
    said = ron("show", token="\n", code=1)
    check("nothing at all is told apart from a bad token", "no token in" in said, said)
    again = ron("mint", "--keys", keys, "--out", "-")
    check("- is standard output", len(again) > 100 and not os.path.exists("-"), again)

    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe, 0o600)
    said = ron("mint", "--keys", keys, "--out", pipe, code=1)
    check("a token does not replace a pipe",
          "not a regular file" in said and stat.S_ISFIFO(os.stat(pipe).st_mode), said)
    said = ron("mint", "--keys", pipe, code=1)
    check("a pipe is no key file and nobody waits for it", "not a regular file" in said, said)
    said = ron("mint", "--keys", os.path.join(folder, "none"), code=1)
    check("a missing key file tells how to make one", "ron cap key new" in said, said)

    link = os.path.join(folder, "link.keys")
    os.symlink(keys, link)
    ron("key", "new", "--keys", link, "--id", "by-link")
    ids = [k["id"] for k in json.loads(ron("key", "list", "--keys", keys, "--json"))]
    check("a change through a link reaches the file",
          os.path.islink(link) and ids[-1] == "by-link", ids)
    ron("key", "retire", "--keys", link, "--id", "by-link")
    ids = [k["id"] for k in json.loads(ron("key", "list", "--keys", keys, "--json"))]
    check("so does a retirement", os.path.islink(link) and "by-link" not in ids, ids)

    shown = [ron("show", token=ron("mint", "--keys", keys, *when)) for when in
             (("--exp", "1900000000"), ("--exp", "1000000000"), ("--ttl", "never"))]
    check("the end is shown as a date", "expires     2030-03-17T17:46:40Z" in shown[0] and
          "expired     2001-09-09T01:46:40Z" in shown[1] and "expires     never" in shown[2], shown)


def refusals(keys, python):
    token = ron("mint", "--keys", keys)
    said = ron("attenuate", "--max", "ten", token=token, code=2)
    check("a caveat that is not well formed is named, and what it takes",
          "max = ten" in said and "whole number" in said, said)
    ron("attenuate", token=token, code=2)
    ron("mint", "--keys", keys, "--ttl", "1 hour", code=2)
    ron("mint", "--keys", keys, "--ttl", "1h", "--exp", "5", code=2)
    said = ron("mnt", code=2)
    check("a slip of the finger finds the verb", "mint" in said, said)
    said = ron("show", token="{\"v\":2}", code=1)
    check("a JSON macaroon is refused by name", "JSON" in said, said)
    ron("show", token="garbage!", code=1)
    ron("show", token="A" * 9000, code=1)
    shown = ron("show", token=token)
    check("a listing has no signature",
          "signature" not in shown and token[-43:] not in shown, shown)
    if python:
        kid, key = secret_of(keys)
        third = ask(python, do="mint", key=key, id=f"ron1.{kid}.x", form="v1", caveats=[],
                    third=True)
        said = ron("show", token=third, code=1)
        check("a third-party caveat is refused by name", "third-party" in said, said)


def main():
    python = find_python()
    node = find_node()
    with tempfile.TemporaryDirectory() as folder:
        keys = os.path.join(folder, "made", "cap.keys")
        keys_and_files(folder, keys)
        places(folder, keys)
        refusals(keys, python)
        if python:
            other_library("pymacaroons", python, "v1", keys)
            other_library("pymacaroons", python, "v2", keys)
        if node:
            other_library("npm macaroon", node, "v2", keys)
    if bad:
        return 1
    return 0 if python or node else 77


sys.exit(main())
