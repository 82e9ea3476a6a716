#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`ron doctor` names every fault of a set-up, and nothing that is none.

Method: a good set-up must have no finding; then each fault is made for real, alone, and must be
the one that is named; then all at once.
"""
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from httpkit import check, eventually, finish
from ledgerkit import PROGRAM
from upkit import Up, ron


def examine(data, *options):
    """(exit code, {check: [what was found]} of what failed, of what was warned of)."""
    code, out, err = ron("doctor", "--json", "--data", data, *options)
    rows = json.loads(out)["checks"]
    found = {"fail": {}, "warn": {}, "ok": {}}
    for row in rows:
        found[row["verdict"]].setdefault(row["check"], []).append(row["found"])
        if row["verdict"] == "fail":
            check(f"doctor: says what to do about '{row['found'][:60]}'", bool(row["todo"]), row)
    return code, found["fail"], found["warn"]


def names(what, data, kind, words, *options):
    """Doctor must fail with exactly this kind of finding, and say these words."""
    code, failed, _ = examine(data, *options)
    check(f"doctor: {what}", code == 1 and set(failed) == {kind} and
          any(all(w in text for w in words) for text in failed[kind]), (code, failed))


def with_changed(path, content):
    """Puts other content in a file; what brings the old one back."""
    old, mode = path.read_bytes(), path.stat().st_mode
    path.write_bytes(content)
    path.chmod(mode)
    return lambda: (path.write_bytes(old), path.chmod(mode))


def mint_expired(data):
    return subprocess.run([PROGRAM, "cap", "mint", "--keys", str(data / "cap.keys"), "--exp",
                           str(int(time.time()) - 100)], capture_output=True,
                          check=True).stdout


def at_rest(data, base):
    port = ("--port-base", base)
    code, failed, warned = examine(data, *port)
    check("doctor: a good set-up at rest has no finding", code == 0 and not failed and not warned,
          (failed, warned))
    (data / "cap.keys").chmod(0o644)
    code, failed, _ = examine(data, *port)
    check("doctor: permissions of the keys", code == 1 and "permissions" in failed, failed)
    (data / "cap.keys").chmod(0o600)
    undo = with_changed(data / "cap.keys", (data / "cap.keys").read_bytes()[:50])
    names("half-written keys", data, "keys", ["cap.keys"], *port)
    undo()
    undo = with_changed(data / "keys/attest.key", b"PRIVATE+KEY+rew")
    names("half-written signing key", data, "keys", ["attest.key"], *port)
    undo()
    undo = with_changed(data / "ledger/signing.key", b"PRIVATE+KEY+ron")
    names("half-written key of the ledger", data, "keys", ["ledger/signing.key"], *port)
    undo()
    undo = with_changed(data / "operator.token", mint_expired(data))
    names("expired token", data, "token", ["operator.token", "expired"], *port)
    undo()
    undo = with_changed(data / "tokens/wallet", b"bm90IGEgdG9rZW4\n")
    names("a token that is none", data, "token", ["tokens/wallet"], *port)
    undo()
    text = (data / "ron.json").read_text()
    undo = with_changed(data / "ron.json", re.sub('uuid":"....', 'uuid":"0000', text).encode())
    names("wrong ledger", data, "ledger", ["the directory to 0000"], *port)
    undo()
    undo = with_changed(data / "ron.json", b"{}")
    names("no identity", data, "ledger", ["ron.json"], *port)
    undo()
    later = time.time() + 86400
    os.utime(data / "ledger/checkpoint", (later, later))
    names("a clock that is behind", data, "clock", ["behind"], *port)
    os.utime(data / "ledger/checkpoint")
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", base + 300))
        s.listen()
        names("a port that is taken", data, "ports", [f"port {base + 300} for rewarder"], *port)
    check("doctor: nothing above has changed anything", examine(data, *port)[0] == 0)


def running(up):
    code, failed, warned = examine(up.data)
    check("doctor: a good system has no finding", code == 0 and not failed and not warned,
          (failed, warned))
    os.kill(up.pid("rewarder"), signal.SIGSTOP)
    names("a service that hangs", up.data, "service", ["rewarder does not answer"])
    os.kill(up.pid("rewarder"), signal.SIGCONT)
    check("doctor: and when it goes on", eventually(lambda: examine(up.data)[0] == 0))
    ledger = up.pid("ledger")
    os.kill(ledger, signal.SIGSTOP)
    # The wallet notices by itself that its ledger is silent; its cause must be told.
    told = []
    check("doctor: a service that is not ready, with its cause",
          eventually(lambda: told.append(examine(up.data)[1]) or
                     any("wallet is not ready" in t and "ledger" in t
                         for t in told[-1].get("service", [])), 30), told[-1:])
    os.kill(ledger, signal.SIGCONT)
    check("doctor: all is well again", eventually(lambda: examine(up.data)[0] == 0, 30))
    os.kill(up.pid("edge"), signal.SIGKILL)
    check("doctor: a service that was started again is a warning",
          eventually(lambda: "edge was started 2 times" in
                     examine(up.data)[2].get("service", []), 30))


def main():
    with tempfile.TemporaryDirectory() as folder:
        code, out, _ = ron("doctor", "--data", Path(folder) / "nothing")
        check("doctor: no directory", code == 1 and "is not a directory" in out and "ron up" in out,
              out)
        (Path(folder) / "ron-data").mkdir()
        code, failed, _ = examine(Path(folder) / "ron-data")
        check("doctor: an empty directory lacks keys and a ledger",
              code == 1 and {"keys", "ledger"} <= set(failed), failed)
    with Up() as up:
        up.ron("issue", "alice", "5")
        check("the checkpoint is written",
              eventually((up.data / "ledger/checkpoint").exists, 30))
        running(up)
        up.stop()
        at_rest(up.data, up.base)
        up.start()
        up.stop(signal.SIGKILL)
        _, _, warned = examine(up.data, "--port-base", up.base)
        check("doctor: a run that was killed", "was not shut down cleanly" in
              " ".join(warned.get("run file", [])), warned)
        up.start()
    finish()


if __name__ == "__main__":
    main()
