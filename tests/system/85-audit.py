#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: `ron-audit` as an auditor uses it: verdicts, exit codes, reports, receipts, progress.

Method: journals, checkpoints and receipts that journalkit.py writes from the published formats,
signed by openssl; each is broken in one place. The rules themselves are tried in unit.audit.
"""
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from journalkit import SECTOR, Journal, Signer, receipt, sample

PROGRAM = str(Path(os.environ["RON_BIN"]).parent / "ron-audit")
bad = 0


def expect(what, got, wanted):
    global bad
    if got != wanted:
        print(f"FAILED: {what}\n  wanted {wanted!r}\n  got    {got!r}")
        bad += 1


def run(*args, **more):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, check=False,
                          timeout=60, **more)


def audit(*args):
    """(exit code, the JSON report)."""
    done = run("--json", *args)
    expect(f"{args}: standard error", done.stderr, "")
    return done.returncode, json.loads(done.stdout)


def good_journal(folder):
    sample().write(folder)
    done = run(folder)
    expect("good: code", (done.returncode, done.stderr), (0, ""))
    for words in ("GOOD: every rule holds", "entries      7, batches 5, last seq 7", "readings 1"):
        expect(f"good: says {words!r}", words in done.stdout, True)
    expect("good and quiet", (run("--quiet", folder).stdout, run("-h").returncode), ("", 0))
    code, report = audit("--balances", folder)
    expect("good: report", (code, report["good"], report["findings"]), (0, True, []))
    expect("good: assets", report["assets"],
           [{"asset": "roc", "supply": "995", "sum": "995", "held": "0"},
            {"asset": "gold", "supply": "7", "sum": "7", "held": "0"}])
    expect("good: balances",
           [(b["account"], b["asset"], b["available"]) for b in report["balances"]],
           [("alice", "roc", "680"), ("bob", "gold", "7"), ("bob", "roc", "250"),
            ("carol", "roc", "65")])
    expect("to: quiet balances", run("--to", 3, "--quiet", "--balances", folder).stdout,
           "alice roc 700 0\nbob roc 250 0\ncarol roc 50 0\n")


def broken_journals(folder):
    journal = sample()
    leaf, links = journal.batches[3][0]
    journal.batches[3][0] = leaf, links[:-1] + bytes([links[-1] + 1])
    path = journal.write(folder)
    code, report = audit(folder)
    finding = report["findings"][0]
    expect("link: code", (code, report["good"]), (1, False))
    expect("link: finding", (finding["rule"], finding["seq"], finding["file"]),
           ("link_balance", 6, path.name))
    text = run("--quiet", folder)
    expect("link: text", (text.returncode, "rule link_balance" in text.stdout), (1, True))
    expect("link: from a later entry on", audit("--from", 7, folder)[1]["findings_total"], 1)

    made = Journal().add(("Mint", "a", 5)).add(("Credit", "b", 1))
    made.write(folder)
    rules = {f["rule"] for f in audit(folder)[1]["findings"]}
    expect("made from nothing", rules, {"sums", "supply"})

    spent = Journal().add(("Mint", "a", 5))
    spent.balances["a", "roc"] = 100
    spent.add(("Transfer", "a", 6, "b"))
    spent.write(folder)
    expect("overdraft", "funds" in {f["rule"] for f in audit(folder)[1]["findings"]}, True)


def damaged_files(folder):
    path = sample().write(folder)
    data = bytearray(path.read_bytes())
    data[4096 + 200] ^= 1
    path.write_bytes(data)
    code, report = audit(folder)
    expect("flipped byte", (code, report["findings"][0]["rule"], report["damaged"]),
           (1, "frame", True))
    path = sample().write(folder)
    end = 4096 + sum(map(len, sample().frames()))
    data = bytearray(path.read_bytes())
    data[end + SECTOR:end + SECTOR + 4] = b"torn"
    path.write_bytes(data)
    code, report = audit(folder)
    expect("torn tail", (code, report["torn_bytes"]), (0, 2 * SECTOR))
    path.write_bytes(bytes(100))
    expect("no segment", audit(folder)[1]["findings"][0]["rule"], "segment")


def checkpoints(folder, keys):
    signer = Signer(keys, "ledger.example/main")
    journal = sample()
    journal.write(folder)
    (folder / "checkpoint").write_text(signer.checkpoint(journal.leaves))
    kept = keys / "kept"
    kept.write_text(signer.checkpoint(journal.leaves[:3]))
    key = keys / "vkey"
    key.write_text(signer.vkey() + "\n")
    code, report = audit("--key", key, "--checkpoint", kept, folder)
    expect("checkpoints", (code, [(c["size"], c["in_journal"], c["signature"])
                                  for c in report["checkpoints"]]),
           (0, [(7, True, "good"), (3, True, "good")]))
    expect("no key", audit(folder)[1]["checkpoints"][0]["signature"], "unchecked")
    rewritten = Journal().add(("Mint", "alice", 1001))
    for batch in sample().batches[1:]:
        rewritten.batches.append(batch)
        rewritten.leaves += [leaf for leaf, _ in batch]
    rewritten.write(folder)
    code, report = audit("--key", signer.vkey(), folder)
    expect("history rewritten", (code, "checkpoint" in {f["rule"] for f in report["findings"]}),
           (1, True))
    return signer


def receipts(keys, signer):
    leaves = sample().leaves
    path = keys / "receipt"
    entry = keys / "entry"
    entry.write_bytes(leaves[2])
    path.write_text(receipt(signer, leaves, 2, False))
    done = run("--key", signer.vkey(), "--receipt", path, "--entry", entry)
    expect("receipt", (done.returncode, "GOOD: the entry is in the ledger" in done.stdout),
           (0, True))
    done = run("--unsigned", "--receipt", path, "--entry", entry)
    expect("the arithmetic alone", (done.returncode, "UNSIGNED" in done.stdout), (0, True))
    done = run("--receipt", path, "--entry", entry)
    expect("receipt without key", (done.returncode, "GOOD" in done.stdout, "--key" in done.stdout),
           (1, False, True))
    done = run("--quiet", "--receipt", path, "--entry", entry)
    expect("receipt without key, quietly", (done.returncode, "--key" in done.stdout), (1, True))
    code, report = audit("--receipt", path, "--entry", entry)
    expect("receipt without key, as JSON", (code, report["good"], report["signature"]),
           (1, False, "unchecked"))
    done = run("--unsigned", "--key", signer.vkey(), "--receipt", path)
    expect("unsigned, and a key", (done.returncode, "without --key" in done.stderr), (2, True))
    entry.write_bytes(leaves[3])
    code, report = audit("--key", signer.vkey(), "--receipt", path, "--entry", entry)
    expect("receipt of another entry", (code, report["findings"][0]["rule"]), (1, "receipt"))
    path.write_text("no receipt at all\n")
    done = run("--key", signer.vkey(), "--receipt", path)
    expect("a file that is no receipt", (done.returncode, "another first line" in done.stdout,
                                         "root" in done.stdout.split("found")[-1]),
           (1, True, False))
    path.write_text(receipt(signer, leaves, 2, True))
    code, report = audit("--key", signer.vkey(), "--receipt", path)
    expect("receipt with its entry", (code, report["good"], report["seq"]), (0, True, 3))
    other = Signer(keys, "ledger.example/main")
    code, report = audit("--key", other.vkey(), "--receipt", path)
    expect("receipt of another key", (code, report["signature"]), (1, "bad"))


def misuse(folder):
    for args, words in [
        ((), "a directory or --receipt is needed"),
        (("--quit", folder), "did you mean '--quiet'"),
        ((folder, folder), "one directory at a time"),
        (("--receipt", "x", folder), "not both"),
        (("--entry", "x", folder), "--entry goes with --receipt"),
        (("--unsigned", folder), "--unsigned goes with --receipt, without --key"),
        (("--from", 5, "--to", 4, folder), "--from is above --to"),
        (("--to", "0", folder), "takes a whole number"),
        (("--to", "5x", folder), "takes a whole number"),
        (("--key", "a+b+c", folder), "no verifier key"),
        (("--key", folder / "absent", folder), "--key"),
        (("--json=1", folder), "takes no value"),
        (("--from",), "needs a value"),
    ]:
        done = run(*args)
        expect(f"{args}: code", (done.returncode, done.stdout), (2, ""))
        expect(f"{args}: says", words in done.stderr, True)
    done = run(folder / "absent")
    expect("no journal", (done.returncode, done.stdout), (3, ""))
    expect("no journal: says why", "No such file" in done.stderr, True)
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([PROGRAM, str(folder)], stdout=full, stderr=subprocess.PIPE,
                              text=True, check=False, timeout=60)
    expect("report lost", (done.returncode, "could not be written" in done.stderr), (3, True))
    done = run("--version")
    expect("version", (done.returncode, done.stdout.startswith("ron-audit ")), (0, True))


def progress(folder):
    expect("no bar without a terminal", run(folder).stderr, "")
    master, slave = pty.openpty()
    done = subprocess.run([PROGRAM, str(folder)], stdout=subprocess.DEVNULL,
                          stderr=slave, check=False, timeout=60)
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    wanted = r"audit: auditing \[#+\] 100% of [\d.]+ kB, [\d.]+ [kM]B/s, 0:00 left"
    expect("a bar on a terminal", (done.returncode, bool(re.search(wanted, shown))), (0, True))


def main():
    if not os.path.exists(PROGRAM):
        print(f"FAILED: {PROGRAM} is not there")
        return 1
    if shutil.which("openssl") is None:
        print("skipped: openssl is not there")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        keys = Path(name) / "keys"
        keys.mkdir()
        good_journal(folder)
        progress(folder)
        misuse(folder)
        broken_journals(folder)
        damaged_files(folder)
        receipts(keys, checkpoints(folder, keys))
    print("ron-audit: all as expected" if bad == 0 else f"ron-audit: {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
