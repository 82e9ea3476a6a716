#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: `ron reward` lets a stranger compute, check and prove a run, and lets nobody cheat.

Method: the program from outside. Names, commitment, tree and signature are recomputed here from
docs/formats/rewarder.md alone: BLAKE3 and RFC 6962 in a few lines of Python, Ed25519 by openssl.
Then the files are tampered with, and the program must say what differs.
"""
import gzip
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from rewarderkit import zstd_frame  # noqa: E402

PROGRAM = os.environ["RON_BIN"]
bad = 0

GOLDEN = (b'{"produced_at_millis":1,"pool_minor_units":"1000","contributions":['
          b'{"account":"acct_a","bytes_stored":100,"bytes_served":50,"uptime_seconds":10},'
          b'{"account":"acct_b","bytes_stored":200,"bytes_served":0,"uptime_seconds":20}]}')
GOLDEN_CID = "b3:81d428e1df7c29a8443467db8ed59ee2628ac43acd47c692fbc3c23ee495606d"
POLICY = {"v": 1, "id": "policy:v1", "version": 3, "funding_source": "creator_pool", "asset": "roc",
          "max_payout_minor_units": "1000000000", "min_payout_minor_units": "1",
          "weight_bps": 10000, "rounding": "floor", "residual": "unissued",
          "weights": {"bytes_stored": "1", "bytes_served": "1/4", "uptime_seconds": "1"}}


def check(name, good, detail=""):
    global bad
    print(("ok: " if good else "FAILED: ") + name + ("" if good else f"\n{detail}"))
    bad |= not good


def ron(*args, code=0, data=None):
    """Runs `ron reward`; standard output when it exits as expected, else a failed check."""
    done = subprocess.run([PROGRAM, "reward", *args], input=data, capture_output=True, timeout=60,
                          check=False)
    if done.returncode != code:
        check(f"ron reward {' '.join(args)} exits {code}", False,
              f"{done.returncode} {done.stderr.decode()}")
    return done.stdout if code == 0 else done.stderr.decode()


# ---- what the formats say, once more -------------------------------------------------------------

IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
      0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]


def b3_compress(cv, words, counter, length, flags):
    def mix(a, b, c, d, x, y):
        for add, left, right in ((x, 16, 12), (y, 8, 7)):
            s[a] = (s[a] + s[b] + add) & 0xFFFFFFFF
            s[d] ^= s[a]
            s[d] = (s[d] >> left | s[d] << (32 - left)) & 0xFFFFFFFF
            s[c] = (s[c] + s[d]) & 0xFFFFFFFF
            s[b] ^= s[c]
            s[b] = (s[b] >> right | s[b] << (32 - right)) & 0xFFFFFFFF

    s = cv + IV[:4] + [counter & 0xFFFFFFFF, counter >> 32, length, flags]
    m = words
    for _ in range(7):
        for i in range(4):
            mix(i, i + 4, i + 8, i + 12, m[2 * i], m[2 * i + 1])
        for i in range(4):
            mix(i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12, m[2 * i + 8], m[2 * i + 9])
        m = [m[i] for i in ORDER]
    return [s[i] ^ s[i + 8] for i in range(8)]


def b3_node(data, counter, root):
    if len(data) <= 1024:
        cv = IV
        blocks = [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
        for i, block in enumerate(blocks):
            words = [int.from_bytes(block.ljust(64, b"\0")[k:k + 4], "little")
                     for k in range(0, 64, 4)]
            last = i + 1 == len(blocks)
            flags = (1 if i == 0 else 0) | (2 if last else 0) | (8 if last and root else 0)
            cv = b3_compress(cv, words, counter, len(block), flags)
        return cv
    left = 1024
    while left * 2 < len(data):
        left *= 2
    first = b3_node(data[:left], counter, False)
    second = b3_node(data[left:], counter + left // 1024, False)
    return b3_compress(IV, first + second, 0, 64, 4 | (8 if root else 0))


def b3(data):
    return "b3:" + b"".join(w.to_bytes(4, "little") for w in b3_node(data, 0, True)).hex()


def leaf_hash(line):
    return hashlib.sha256(b"\0" + line).digest()


def tree_root(leaves):
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + tree_root(leaves[:k]) + tree_root(leaves[k:])).digest()


def included(leaf, index, count, hashes, root):
    """RFC 9162 section 2.1.3.2."""
    fn, sn, r = index, count - 1, leaf
    if index >= count:
        return False
    for h in hashes:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = hashlib.sha256(b"\1" + h + r).digest()
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = hashlib.sha256(b"\1" + r + h).digest()
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and r == root


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def commitment(manifest):
    part = {k: v for k, v in manifest.items() if k not in ("commitment", "proof", "attestation")}
    return b3(b"ron-reward-run/1\n" + compact(part).encode())


def openssl_verifies(public_key, message, signature):
    with tempfile.TemporaryDirectory() as d:
        # SubjectPublicKeyInfo of an Ed25519 key: a fixed head and the 32 bytes.
        der = bytes.fromhex("302a300506032b6570032100") + public_key
        for name, data in (("k", der), ("m", message), ("s", signature)):
            with open(os.path.join(d, name), "wb") as f:
                f.write(data)
        return subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER",
                               "-inkey", f"{d}/k", "-rawin", "-in", f"{d}/m", "-sigfile", f"{d}/s"],
                              capture_output=True, check=False).returncode == 0


# ---- files ---------------------------------------------------------------------------------------

work = tempfile.mkdtemp(prefix="ron-reward-")
os.chdir(work)


def write(name, data):
    with open(name, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def read(name):
    with open(name, "rb") as f:
        return f.read()


def usage(rows, pool):
    head = compact({"produced_at_millis": 7, "pool_minor_units": str(pool)})
    lines = [compact({"account": f"u:{i * 7919 % 1000003}", "bytes_stored": i % 977,
                      "bytes_served": i * 3, "uptime_seconds": 60}) for i in range(rows)]
    return "\n".join([head, *lines]) + "\n"


def args(run, snapshot="snap.json", policy="policy.json"):
    return ("--run", run, "--snapshot", snapshot, "--policy", policy)


def golden():
    write("snap.json", GOLDEN)
    write("policy.json", json.dumps(POLICY, indent=2))
    told = ron("key", "new", "run.key", "--key-id", "rewarder-2026").decode()
    public_key = told.split()[-1]
    check("a key file is private", stat.S_IMODE(os.stat("run.key").st_mode) == 0o600)
    check("a key file is never replaced", "there already" in ron("key", "new", "run.key", code=1))
    check("a key shows its public half", public_key in ron("key", "show", "run.key").decode())
    told = ron("compute", "--epoch", "interop-epoch-1", "--snapshot", "snap.json", "--policy",
               "policy.json", "--out", "runs", "--key", "run.key").decode()
    run = "runs/interop-epoch-1"
    manifest = json.loads(read(f"{run}/run.json"))
    lines = read(f"{run}/payouts.ndjson").splitlines()
    paid = [json.loads(line)["amount_minor_units"] for line in lines]
    check("the golden payouts", paid == ["356", "643"] and
          manifest["totals"]["residual_minor_units"] == "1", paid)
    check("the golden snapshot id", manifest["inputs_cid"] == GOLDEN_CID == b3(GOLDEN))
    check("the policy's hash", manifest["policy"]["hash"] == b3(compact(POLICY).encode()))
    check("the run key", manifest["run_key"] == b3("|".join(
        ("svc-rewarder|v1", "interop-epoch-1", manifest["policy"]["hash"], GOLDEN_CID)).encode()))
    check("the commitment", manifest["commitment"] == commitment(manifest) and
          read(f"{run}/commitment").decode() == manifest["commitment"] + "\n" and
          manifest["commitment"] in told, manifest["commitment"])
    check("the unit tests' commitment", manifest["commitment"] ==
          "b3:2ac5742bc2bceb7f5578e9a65730aa16af5ff02f69b088c8b81e8cf1edfc9710")
    check("the content id of the payouts",
          manifest["payouts"]["cid"] == b3(read(f"{run}/payouts.ndjson")))
    check("the root", manifest["payouts"]["root"] == tree_root([leaf_hash(x) for x in lines]).hex())
    check("the manifest is compact JSON", compact(manifest).encode() == read(f"{run}/run.json"))
    if shutil.which("openssl"):
        a = manifest["attestation"]
        text = f"ron-reward-commitment/1\n{a['key_id']}\n{manifest['commitment']}".encode()
        check("the attestation, by openssl", a["key_id"] == "rewarder-2026" and
              a["public_key"] == public_key and
              openssl_verifies(bytes.fromhex(public_key), text, bytes.fromhex(a["sig_ed25519"])))
    else:
        print("left out: openssl is not installed")
    ron("verify", *args(run), "--public-key", public_key)
    check("another key is refused", "attestation" in
          ron("verify", *args(run), "--public-key", "00" * 32, code=1))
    return public_key


def forms():
    """However the rows come, the run is the same."""
    text = usage(3000, 9_999_999)
    head, *rows = text.splitlines()
    rows.reverse()
    write("u.ndjson", text)
    write("reversed.ndjson", "\n".join([head, *rows]) + "\n")
    whole = json.loads(head)
    whole["contributions"] = [json.loads(row) for row in rows]
    write("u.json", json.dumps(whole))
    write("u.ndjson.gz", gzip.compress(text.encode()))
    write("u.ndjson.zst", zstd_frame(text.encode()))
    seen = set()
    for i, name in enumerate(("u.ndjson", "reversed.ndjson", "u.json", "u.ndjson.gz",
                              "u.ndjson.zst", "-")):
        data = gzip.compress(text.encode()) if name == "-" else None
        ron("compute", "--epoch", "same", "--snapshot", name, "--policy", "policy.json", "--out",
            f"out{i}", "--parts", str(1 + i), data=data)
        seen.add(tuple(read(f"out{i}/same/{f}") for f in sorted(os.listdir(f"out{i}/same"))))
    check("files, pipe, gzip, zstd, orders and parts give the same bytes", len(seen) == 1)
    canonical = {ron("snapshot", name) for name in ("u.ndjson", "u.json", "u.ndjson.zst")}
    check("one canonical form", len(canonical) == 1 and
          b3(canonical.pop()) == json.loads(read("out0/same/run.json"))["inputs_cid"])
    dry = ron("compute", "--epoch", "same", "--snapshot", "u.ndjson", "--policy", "policy.json",
              "--dry-run").decode()
    check("a dry run names the same commitment", read("out0/same/commitment").decode() in dry)
    ron("verify", *args("out0/same", "u.json"))
    write("cut.gz", read("u.ndjson.gz")[:-9])
    check("a file that is cut short", "cut.gz" in ron("snapshot", "cut.gz", code=1))


def proofs(public_key):
    write("big.ndjson", usage(300, 1_000_000))
    ron("compute", "--epoch", "2026:w46", "--snapshot", "big.ndjson", "--policy", "policy.json",
        "--out", "runs", "--key", "run.key")
    run = "runs/2026%3Aw46"
    manifest = json.loads(read(f"{run}/run.json"))
    lines = read(f"{run}/payouts.ndjson").splitlines()
    good = True
    for index in (0, 1, 127, 128, 255, 256, len(lines) - 1):
        payout = json.loads(lines[index])
        text = ron("proof", "--run", run, "--account", payout["account"])
        p = json.loads(text)
        line = compact({k: p[k] for k in ("account", "amount_minor_units", "score")}).encode()
        good &= line == lines[index] and p["index"] == index and p["manifest"] == manifest
        hashes = [bytes.fromhex(h) for h in p["hashes"]]
        good &= included(leaf_hash(line), index, p["count"], hashes,
                         bytes.fromhex(manifest["payouts"]["root"]))
        ron("check-proof", "-", "--public-key", public_key, data=text)
    check("proofs lead to the root by another verifier", good)
    write("proof.json", text)
    told = ron("check-proof", "proof.json").decode()
    check("a proof tells account and amount", payout["account"] in told and
          payout["amount_minor_units"] in told, told)
    for name, change in (
            ("amount", lambda p: p.update(amount_minor_units="1" + p["amount_minor_units"])),
            ("account", lambda p: p.update(account="thief")),
            ("index", lambda p: p.update(index=p["index"] - 1)),
            ("hash", lambda p: p["hashes"].reverse()),
            ("epoch", lambda p: p["manifest"].update(epoch_id="2026:w47")),
            ("attestation", lambda p: p["manifest"].update(attestation=None)),
            ("key id", lambda p: p["manifest"]["attestation"].update(key_id="somebody"))):
        p = json.loads(text)
        change(p)
        done = subprocess.run([PROGRAM, "reward", "check-proof", "-", "--public-key", public_key],
                              input=compact(p).encode(), capture_output=True, timeout=60,
                              check=False)
        check(f"another {name} in a proof is refused", done.returncode == 1, done)
    check("a blank in a proof is refused",
          "proof" in ron("check-proof", "-", code=1, data=text.replace(b",", b", ", 1)))
    check("who is not paid has no proof",
          "is not paid" in ron("proof", "--run", run, "--account", "nobody", code=1))


def tampering():
    run = "runs/interop-epoch-1"
    for name, what in (("run.json", b'"payout_minor_units":"999"'), ("commitment", b"b3:"),
                       ("payouts.ndjson", b"356"), ("payouts.index", b"\0\0"),
                       ("payouts.tree", None)):
        was = read(f"{run}/{name}")
        at = 5 if what is None else was.index(what) + len(what) - 2
        write(f"{run}/{name}", was[:at] + bytes([was[at] ^ 1]) + was[at + 1:])
        told = ron("verify", *args(run), code=1)
        # What a manifest that does not fit its commitment says is not told apart from damage.
        check(f"a changed {name} is named", name in told, told)
        write(f"{run}/{name}", was)
    ron("verify", *args(run))
    told = ron("verify", *args(run, "big.ndjson"), code=1)
    check("another snapshot is named", "the snapshot is b3:" in told, told)
    write("other.json", json.dumps({**POLICY, "version": 4}))
    told = ron("verify", *args(run, policy="other.json"), code=1)
    check("another policy is named", "the policy is b3:" in told, told)
    told = ron("compute", "--epoch", "interop-epoch-1", "--snapshot", "big.ndjson", "--policy",
               "policy.json", "--out", "runs", code=1)
    check("a folder of another run is left alone", "another run" in told, told)
    ron("compute", "--epoch", "interop-epoch-1", "--snapshot", "snap.json", "--policy",
        "policy.json", "--out", "runs")
    ron("verify", *args(run))


def carrying():
    write("carry.json", json.dumps({**POLICY, "residual": "carry"}))
    ron("compute", "--epoch", "c1", "--snapshot", "snap.json", "--policy", "carry.json", "--out",
        "runs")
    ron("compute", "--epoch", "c2", "--snapshot", "snap.json", "--policy", "carry.json", "--out",
        "runs", "--carry-run", "runs/c1", "--ledger-root", "ab" * 32, "--ledger-seq", "7")
    m = json.loads(read("runs/c2/run.json"))
    check("a residual is carried", m["carry"]["minor_units"] == "1" and
          m["totals"]["offered_minor_units"] == "1001" and m["ledger"]["seq"] == 7, m)
    ron("verify", *args("runs/c2", policy="carry.json"), "--carry-run", "runs/c1")
    ron("verify", *args("runs/c2", policy="carry.json"), "--carry-run", "runs/c2", code=1)
    told = ron("compute", "--epoch", "c3", "--snapshot", "snap.json", "--policy", "carry.json",
               "--out", "runs", "--carry-run", "runs/interop-epoch-1", code=1)
    check("what stays unissued is not carried", "not to be carried" in told, told)


def policies():
    bare = {**POLICY, "funding_source": "protocol_pool"}
    write("pool.json", json.dumps(bare))
    compute = ("compute", "--epoch", "p1", "--snapshot", "snap.json", "--out", "runs")
    check("a policy of the protocol's pool needs a signature",
          "signature" in ron(*compute, "--policy", "pool.json", code=1))
    ron("key", "new", "gov.key", "--key-id", "gov")
    public_key = ron("key", "show", "gov.key").decode().split()[-1]
    signed = ron("policy", "sign", "--key", "gov.key", "pool.json")
    write("signed.json", signed)
    check("only its own key makes it good",
          "not known" in ron(*compute, "--policy", "signed.json", code=1) and
          "not good" in ron(*compute, "--policy", "signed.json", "--policy-key",
                            "gov=" + "11" * 32, code=1))
    ron(*compute, "--policy", "signed.json", "--policy-key", f"gov={public_key}")
    m = json.loads(read("runs/p1/run.json"))
    check("the manifest says that it is signed", m["policy"]["signed"] is True and
          m["policy"]["hash"] == b3(compact(bare).encode()), m)
    told = ron("policy", "show", "signed.json").decode()
    check("a signed policy is shown", m["policy"]["hash"] in told and "not checked" in told, told)
    told = ron("policy", "show", "signed.json", "--policy-key", f"gov={public_key}").decode()
    check("and its signature checked", told.rstrip().endswith("gov"), told)
    doc = json.loads(signed)
    doc["policy"]["version"] = 9
    told = ron("policy", "show", "-", "--policy-key", f"gov={public_key}", code=1,
               data=json.dumps(doc).encode())
    check("a changed policy is refused", "not good" in told, told)
    os.chmod("gov.key", 0o644)
    check("a key that others may read is refused",
          "gov.key" in ron("policy", "sign", "--key", "gov.key", "pool.json", code=1))


def mistakes():
    for wrong in (("compute",), ("verify", "--run", "x"), ("proof",), ("check-proof",),
                  ("nonsense",), ("key",), ("key", "new"), ("policy", "sign", "policy.json"),
                  ("snapshot",), (),
                  ("compute", "--epochs", "x"), ("compute", "--parts", "0"),
                  ("compute", "--epoch", "x", "--snapshot", "-", "--policy", "-", "--out", "o"),
                  ("compute", "--epoch", "x", "--snapshot", "snap.json", "--policy", "policy.json",
                   "--out", "o", "--ledger-seq", "1")):
        ron(*wrong, code=2)
    for verb in (("compute",), ("verify",), ("proof",), ("check-proof",), ("key", "new"),
                 ("key", "show"), ("policy", "sign"), ("policy", "show"), ("snapshot",), ()):
        check(f"help of {' '.join(verb) or 'reward'}", b"usage: ron reward" in ron(*verb, "--help"))
    write("bad.json", GOLDEN.replace(b'"bytes_stored":200', b'"bytes_stored":-1'))
    told = ron("snapshot", "bad.json", code=1)
    check("a bad row is named", "bad.json" in told and "row 2" in told and "bytes_stored" in told,
          told)
    told = ron("compute", "--epoch", "a b", "--snapshot", "snap.json", "--policy", "policy.json",
               "--out", "runs", code=1)
    check("a bad epoch is named", "epoch" in told, told)
    write("bad-policy.json", json.dumps({**POLICY, "rounding": "up"}))
    told = ron("policy", "show", "bad-policy.json", code=1)
    check("a bad member of a policy is named", "bad-policy.json" in told and "rounding" in told,
          told)
    check("a missing file is named", "none.json" in ron("snapshot", "none.json", code=1))


def progress():
    """A terminal gets a bar, a pipe one line."""
    leader, follower = pty.openpty()
    done = subprocess.run([PROGRAM, "reward", "compute", "--epoch", "bar", "--snapshot",
                           "big.ndjson", "--policy", "policy.json", "--out", "runs"],
                          stdout=subprocess.PIPE, stderr=follower, timeout=60, check=False)
    os.close(follower)
    shown = b""
    try:
        while True:
            piece = os.read(leader, 65536)
            if not piece:
                break
            shown += piece
    except OSError:
        pass  # the end of a terminal nobody holds
    os.close(leader)
    check("a terminal sees a bar with rate and remaining time", done.returncode == 0 and re.search(
        rb"compute: sealed \[#+\] 100% of 300 rows, \d+/s, 0:00 left", shown), shown)


def killed():
    """A compute that is killed at any moment leaves no folder or the whole one."""
    write("large.ndjson", usage(200_000, 10 ** 12))
    compute = [PROGRAM, "reward", "compute", "--epoch", "k", "--snapshot", "large.ndjson",
               "--policy", "policy.json", "--out", "kill"]
    left = 0
    for _ in range(5):
        child = subprocess.Popen(compute, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None and not os.path.exists("kill/k.tmp"):
            pass  # until it has begun to write, or is done
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=60)
        left += os.path.exists("kill/k.tmp")
        if os.path.exists("kill/k"):
            ron("verify", *args("kill/k", "large.ndjson"))
            shutil.rmtree("kill/k")
    ron(*compute[2:])
    ron("verify", *args("kill/k", "large.ndjson"))
    check("nothing of a killed run is left in the end", os.listdir("kill") == ["k"],
          f"{os.listdir('kill')} after {left} unfinished")


try:
    key = golden()
    forms()
    proofs(key)
    tampering()
    carrying()
    policies()
    mistakes()
    progress()
    killed()
finally:
    os.chdir("/")
    shutil.rmtree(work, ignore_errors=True)
sys.exit(bad)
