#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line against a running system: what verbs print, for people and as JSON, their exit
codes, and how they find the system.

Method: golden texts in which what differs from run to run (ids, keys, times, paths, ports) is
replaced by a name; a receipt is changed by one byte and must be refused.
"""
import json
import os
import pty
import re
import signal
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from httpkit import check, eventually, finish
from ledgerkit import PROGRAM
from upkit import Up, ron

PLAIN = [(r"tx_[0-9a-f]{32}", "TXID"), (r"cli-[0-9A-Z]{26}", "KEY"), (r"\b[0-9a-f]{64}\b", "ROOT"),
         (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"), (r'"(ts|commit_ts)":\d+', r'"\1":N'),
         (r"127\.0\.0\.1:\d+", "ADDR"), (r"b3:ROOT", "HASH"), (r'"stale_ms":\d+', '"stale_ms":N'),
         (r'"[0-9A-Za-z+/]{22}=="', "NONCE"), (r"wallet:[0-9a-f]{8}", "REF")]


def plain(text):
    for pattern, name in PLAIN:
        text = re.sub(pattern, name, text)
    return text


def golden(name, got, wanted, code=0):
    """(exit code, standard output, standard error) against the text that is wanted."""
    text = plain(got[1] + got[2])
    check(f"golden: {name}", got[0] == code and text == wanted, f"{got[0]}\n{text}")


def money(up):
    golden("issue", up.ron("issue", "alice", "500", "--memo", "pay"),
           "issued 500 roc to alice\n  txid  TXID\n  key   KEY\n  entry 1\n")
    golden("transfer", up.ron("transfer", "alice", "bob", "40", "--key", "lunch-1"),
           "transferred 40 roc from alice to bob\n  txid  TXID\n  key   lunch-1\n  entry 2\n")
    first = up.ron("transfer", "alice", "bob", "40", "--key", "lunch-1", "--json")
    again = up.ron("transfer", "alice", "bob", "40", "--key", "lunch-1", "--json")
    check("transfer: the same key gives the same bytes", first[1] == again[1] and first[0] == 0)
    golden("transfer, json", first,
           '{"txid":"TXID","op":"transfer","from":"alice","to":"bob","asset":"roc",'
           '"amount_minor":"40","nonce":null,"idem":"lunch-1","ts":N,"ledger_seq_start":2,'
           '"ledger_seq_end":2,"ledger_root":"ROOT","settlement_status":"accepted",'
           '"receipt_hash":"HASH"}\n')
    golden("balance", up.ron("balance", "alice"), "alice has 460 roc (entry 2)\n")
    golden("balance, json", up.ron("balance", "bob", "--json"),
           '{"account":"bob","asset":"roc","amount_minor":"40","held_minor":"0","as_of_seq":2,'
           '"stale_ms":N}\n')
    hold = up.json("hold", "alice", "100", "--expires", "1h")["txid"]
    golden("balance with a hold", up.ron("balance", "alice"),
           "alice has 360 roc, and 100 held (entry 3)\n")
    golden("capture", up.ron("capture", hold, "alice", "hotel", "80"),
           "captured 80 roc from alice to hotel\n  txid  TXID\n  key   KEY\n  entry 4\n")
    golden("release", up.ron("release", hold, "alice", "20"),
           "released 20 roc from alice\n  txid  TXID\n  key   KEY\n  entry 5\n")
    golden("burn", up.ron("burn", "bob", "5"),
           "burnt 5 roc from bob\n  txid  TXID\n  key   KEY\n  entry 6\n")
    golden("dry run", up.ron("burn", "bob", "5", "--dry-run"),
           "burnt 5 roc from bob\n  txid  TXID\n  key   KEY\n  nothing was changed: dry_run\n")
    golden("history", up.ron("history", "bob"),
           "entry    time                 kind              amount asset       available  with\n"
           "6        TIME Burn                   5 roc                35  \n"
           "2        TIME Transfer              40 roc                40  from alice\n")
    golden("tx", up.ron("tx", hold),
           "committed: 100 roc from alice\n  txid  TXID\n  key   KEY\n  entry 3\n")
    golden("root", up.ron("root"), "entry 6\nroot  ROOT\ntime  TIME\n")
    check("root, json: what the ledger says", up.json("root")["seq"] == 6)


def refusals(up):
    golden("too much", up.ron("transfer", "alice", "bob", "4000"),
           "ron transfer: more than is available (INSUFFICIENT_FUNDS)\n", 1)
    code, out, err = up.ron("transfer", "alice", "bob", "4000", "--json")
    check("too much, json: the envelope is on standard error",
          code == 1 and out == "" and json.loads(err)["code"] == "INSUFFICIENT_FUNDS", err)
    golden("no amount", up.ron("issue", "alice", "1.5"),
           "ron issue: invalid amount '1.5': expected a whole number above 0, in minor units\n", 2)
    golden("too few words", up.ron("transfer", "alice", "40"),
           "ron transfer: usage: ron transfer FROM TO AMOUNT; see 'ron transfer --help'\n", 2)
    golden("unknown verb", ron("transfr"),
           "ron: unknown verb 'transfr'; did you mean 'ron transfer'?\n", 2)
    golden("unknown option", ron("transfer", "--memmo=x"),
           "ron transfer: unknown option '--memmo'; did you mean '--memo'?\n", 2)
    code, _, err = up.ron("tx", "tx_" + "0" * 32)
    check("unknown txid: exit 1", code == 1 and "NOT_FOUND" in err, err)
    narrow = up.folder / "narrow.token"
    made = subprocess.run([PROGRAM, "cap", "attenuate", "--in", str(up.data / "operator.token"),
                           "--aud", "wallet", "--scope", "wallet.read", "--out", str(narrow)],
                          capture_output=True, text=True, check=False)
    check("a narrower token is made from the operator's", made.returncode == 0, made.stderr)
    code, out, _ = up.ron("balance", "alice", "--token-file", narrow)
    check("narrow token: may read", code == 0, out)
    code, _, err = up.ron("issue", "alice", "5", "--token-file", narrow)
    check("narrow token: may not issue, exit 5", code == 5 and "scope" in err, (code, err))
    narrow.chmod(0o644)
    code, _, err = up.ron("balance", "alice", "--token-file", narrow)
    check("a token that others may read is not used", code == 1 and "chmod 600" in err, err)


def finding(up):
    deep = up.folder / "a" / "b"
    deep.mkdir(parents=True)
    code, out, err = ron("balance", "alice", cwd=deep, env={"RON_DATA": ""})
    check("the system is found from a folder below", code == 0, err)
    code, _, err = ron("balance", "alice", cwd="/", env={"RON_DATA": ""})
    check("elsewhere it is not, exit 4, and how to start one is told",
          code == 4 and "ron up" in err, err)
    code, out, err = ron("balance", "alice", cwd="/",
                         env={"RON_DATA": "", "RON_WALLET_URL": up.url("wallet"),
                              "RON_TOKEN_FILE": str(up.data / "operator.token")})
    check("without ron up: the environment names service and token", code == 0, err)
    os.kill(up.pid("wallet"), signal.SIGSTOP)
    code, out, _ = up.ron("status")
    check("status: a service that hangs is told, exit 1",
          code == 1 and re.search(r"wallet .*no answer", out), out)
    os.kill(up.pid("wallet"), signal.SIGCONT)
    check("status: and when it goes on", up.all_ready())


def proofs(up):
    txid = up.json("issue", "carol", "7")["txid"]
    receipt = up.folder / "receipt.txt"
    code, _, err = up.ron("receipt", txid, "--out", receipt)
    check("receipt: is written", code == 0 and receipt.exists(), err)
    code, out, err = ron("verify", receipt)
    check("verify: without a key it is not called good", code == 1 and "--key" in out,
          (code, out, err))
    code, out, err = ron("verify", receipt, "--unsigned")
    check("verify: offline, by the auditor", code == 0 and "carol" in out and "UNSIGNED" in out,
          (out, err))
    code, out, err = up.ron("verify", receipt)
    check("verify: signed, by the key that ron up keeps", code == 0 and "signature    good" in out,
          (out, err))
    text = receipt.read_text()
    spot = text.index("extra ") + 40
    receipt.write_text(text[:spot] + ("A" if text[spot] != "A" else "B") + text[spot + 1:])
    code, out, err = ron("verify", receipt)
    check("verify: a changed byte is refused", code == 1, (code, out, err))
    code, out, err = up.ron("audit", "--json")
    check("audit: the journal of the running ledger is good", code == 0 and json.loads(out), err)
    journal = up.folder / "journal.ndjson"
    code, _, err = up.ron("export", "--out", journal)
    check("export: the journal", code == 0 and '"carol"' in journal.read_text(), err)
    other = up.folder / "other-data"
    code, out, err = ron("import", journal, "--into", other)
    root = up.json("root")["root"]
    check("import: into another directory, with the same root", code == 0 and root in out,
          (out, err))


def mailbox(up):
    golden("mailbox send", up.ron("mailbox", "send", "builds", "release 7 is out", "--key", "r7"),
           "sent to builds\n  message  1\n  key      r7\n")
    golden("mailbox send again", up.ron("mailbox", "send", "builds", "release 7 is out", "--key",
                                        "r7"),
           "already sent with this key; nothing was added to builds\n")
    data = up.folder / "bytes.bin"
    data.write_bytes(b"\xff\x00\x1b[31m")
    code, _, err = up.ron("mailbox", "send", "builds", "--file", data, "--head", '{"kind":"bin"}')
    check("mailbox send: any bytes of a file", code == 0, err)
    golden("mailbox recv", up.ron("mailbox", "recv", "builds", "--lease", "1h"),
           "message 1\n  receipt  1-1\n  sent     TIME, delivery 1\n  body     release 7 is out\n"
           'message 2\n  receipt  2-1\n  sent     TIME, delivery 1\n  head     {"kind":"bin"}\n'
           "  body     /wAbWzMxbQ== (base64)\n")
    golden("mailbox recv, nothing left", up.ron("mailbox", "recv", "builds"),
           "nothing to receive in builds\n")
    golden("mailbox ack", up.ron("mailbox", "ack", "builds", "1-1"), "1 acknowledged\n")
    golden("mailbox ack of what is gone", up.ron("mailbox", "ack", "builds", "1-1"),
           "0 acknowledged\n"
           "ron mailbox ack: 1-1: message not found; it was already acknowledged\n", 1)
    golden("mailbox nack", up.ron("mailbox", "nack", "builds", "2-1", "--dead", "--reason", "why"),
           "1 moved to the dead letters\n")
    golden("mailbox dead", up.ron("mailbox", "dead", "builds"),
           "message 2\n  sent     TIME, deliveries 1\n  reason   why\n"
           '  head     {"kind":"bin"}\n  body     /wAbWzMxbQ== (base64)\n')
    golden("mailbox dead, replay", up.ron("mailbox", "dead", "builds", "--replay"),
           "1 replayed\n")
    got = up.json("mailbox", "recv", "builds", "--ack", "--wait", "5s")
    check("mailbox recv, json and ended at once", [m["id"] for m in got["messages"]] == ["2"], got)
    topics = up.json("mailbox", "list")["topics"]
    check("mailbox list: nothing is left", all(t["ready"] + t["leased"] + t["dead"] == 0
                                               for t in topics if t["topic"] == "builds"), topics)
    late = threading.Timer(1.5, lambda: up.ron("mailbox", "send", "later", "there"))
    late.start()
    code, out, _ = up.ron("mailbox", "recv", "later", "--wait", "20s", "--ack")
    late.join()
    check("mailbox recv: waits for the first", code == 0 and "body     there" in out, out)
    code, _, err = up.ron("mailbox", "send", "No Topic", "x")
    check("mailbox: invalid topic, exit 1", code == 1 and "invalid topic" in err, (code, err))
    code, _, err = up.ron("mailbox", "send", "builds")
    check("mailbox send: without a message, exit 2", code == 2 and "--file" in err, (code, err))
    code, _, err = up.ron("mailbox", "dead", "builds", "--id", "1")
    check("mailbox dead: an id alone, exit 2", code == 2 and "--replay" in err, (code, err))


def packs(up):
    golden("edge packs", up.ron("edge", "packs"),
           "pack                     kind     tiles    zooms        bytes\n"
           "world                    pmtiles  mvt        0-4        78949\n")
    golden("edge packs, json", up.ron("edge", "packs", "--json"),
           '{"packs":[{"name":"world","kind":"pmtiles","tiles":"mvt","zoom_min":0,"zoom_max":4,'
           '"bytes":78949}]}\n')
    golden("edge packs, a word too many", up.ron("edge", "packs", "world"),
           "ron edge packs: 'world' is not an option; see 'ron edge packs --help'\n", 2)
    code, _, err = ron("edge", "packs", env={"RON_DATA": "", "RON_EDGE_URL": "http://127.0.0.1:1",
                                             "RON_TOKEN_FILE": str(up.data / "operator.token")},
                       cwd="/")
    check("edge packs: nobody answers, exit 4", code == 4 and "does not answer" in err, (code, err))


def webhooks(up):
    code, out, err = up.ron("webhook", "send", "demo_github", "--id", "d1")
    check("webhook: taken with the secret that ron up made", code == 0 and
          json.loads(out)["accepted"] is True, (out, err))
    code, _, err = up.ron("webhook", "send", "demo_github", "--broken")
    check("webhook: one that was changed is refused, exit 5", code == 5 and "UNAUTH" in err, err)
    before = int(up.json("balance", "alice")["amount_minor"])
    code, _, err = up.ron("webhook", "send", "demo_stripe", "--id", "evt_1")
    check("webhook: a payment becomes credits", code == 0 and eventually(
        lambda: int(up.json("balance", "alice")["amount_minor"]) == before + 2000, 20), err)
    check("webhook: its event waits in the mailbox", any(
        t["topic"] == "webhook.demo_github" and t["ready"] == 1
        for t in up.json("mailbox", "list")["topics"]), up.json("mailbox", "list"))
    code, _, err = up.ron("webhook", "send", "github")
    check("webhook: without a secret, exit 2", code == 2 and "--secret-file" in err, err)
    code, out, _ = up.ron("demo", "--steps", "50", "--pace", "200")
    check("demo: payments, a card, a push, a forgery, an epoch", code == 0 and all(
        w in out for w in ("pays by card", "a push", "forged webhook", "epoch demo-0")), out)
    check("demo: its epoch is paid", eventually(
        lambda: "emitted" in up.ron("reward", "show", "demo-0")[1], 30))


def on_terminal(up, *words):
    """What a command writes on standard error when that is a terminal."""
    ours, theirs = pty.openpty()
    ran = subprocess.Popen([PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=theirs,
                           env={**os.environ, "RON_DATA": str(up.data)})
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 4096):
            said += piece
    except OSError:  # the terminal's way to say that nobody writes any more
        pass
    os.close(ours)
    return ran.wait(60), said.decode()


def bars(up):
    code, said = on_terminal(up, "bench", "--seconds", "2")
    check("bench: a bar with rate and remaining time on a terminal", code == 0 and
          re.search(r"bench \[#*\.*\] +\d+%, \d+ transfers/s, 0:0\d left", said), said[-300:])
    check("bench: the bar is taken away", said.endswith("\r\033[K"), said[-40:])
    code, said = on_terminal(up, "demo", "--steps", "30", "--pace", "20", "--quiet")
    check("demo: a bar with rate and remaining time", code == 0 and
          re.search(r"demo \[.*\] +\d+% of 30 steps, \d+/s, 0:0\d left", said), said[-300:])
    code, out, err = up.ron("bench", "--seconds", "1")
    check("bench: three lines, and no bar without a terminal", code == 0 and err == "" and
          re.match(r"transfers +\d+ in \d+ ms, \d+ per second\nlatency +p50", out), (out, err))


KEPT_BYTES = 16 << 20  # the longest answer that a command keeps in memory
BAR = r": {} \[#*\.*\] +\d+% of [\d.]+ {}, [\d.]+(?: [kMG]B)?/s, \d+:\d\d left"


def offline_bars(up):
    """Long work on files: the same bar for all of it, on a terminal only. The journal is the one
    that the bench has made long."""
    journal = up.folder / "long.ndjson"
    ledger = up.folder / "long-data" / "ledger"
    world = up.folder / "world.pmtiles"
    made = [ron("edge", "sample", world)]
    while len(made) < 20 and (not journal.exists() or journal.stat().st_size <= KEPT_BYTES):
        made += [up.ron("bench", "--seconds", "2"), up.ron("export", "--out", journal)]
    check("export: a journal that is longer than any answer that is kept",
          all(code == 0 for code, _, _ in made) and journal.stat().st_size > KEPT_BYTES, made)
    for phase, unit, words in (
            ("reading", "[kM]B", ("import", journal, "--into", up.folder / "long-data")),
            ("checking", "entries", ("ledger", "verify", "--dir", ledger)),
            ("checking", "entries", ("ledger", "rebuild", "--dir", ledger)),
            ("writing", "entries", ("ledger", "export", "--dir", ledger)),
            ("auditing", "[kM]B", ("audit", ledger)),
            ("hash", "kB", ("edge", "verify", "--hash", world))):
        name = " ".join(map(str, words[:2] if words[0] in ("ledger", "edge") else words[:1]))
        code, said = on_terminal(up, *map(str, words))
        check(f"{name}: a bar with rate and remaining time on a terminal", code == 0 and
              re.search(BAR.format(phase, unit), said), said[-300:])
        check(f"{name}: the bar is taken away", said.rfind("\r\033[K") > said.rfind("left"),
              said[-40:])
    for words in (("ledger", "verify", "--dir", ledger), ("edge", "verify", "--hash", world)):
        code, _, err = ron(*words)
        check(f"{words[0]} {words[1]}: no bar without a terminal", code == 0 and err == "", err)
    ours, theirs = pty.openpty()
    code = subprocess.run([PROGRAM, "ledger", "export", "--dir", ledger, "--to", "2"],
                          stdout=theirs, stderr=theirs, timeout=60, check=False).returncode
    os.close(theirs)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    check("ledger export: no bar over a text on the same terminal", code == 0 and "left" not in said
          and '"seq":2' in said, said)


def looking(up):
    status = up.json("status")
    check("status, json: every service is ready", status["ready"] and
          all(s["state"] == "ready" for s in status["services"]), status)
    code, out, _ = up.ron("topology", "wallet")
    check("topology: queues and tasks of a service", code == 0 and "work" in out and
          "worker-0" in out, out)
    everything = up.json("topology")
    check("topology, json: of all", set(everything) == {s["name"] for s in status["services"]})
    code, out, _ = up.ron("logs", "--service", "wallet", "--lines", "3")
    check("logs: of one service", code == 0 and out and
          all(" wallet" in line for line in out.splitlines()), out)
    code, out, _ = up.ron("logs", "--level", "warn")
    check("logs: of a level", not re.search(r"Z INFO ", out), out)
    code, out, _ = up.ron("logs", "--json", "--lines", "1000")
    check("logs, json: an object a line", all(json.loads(x)["level"] for x in out.splitlines()))
    check("no colour where there is no terminal", "\033" not in out)
    followed = subprocess.Popen([PROGRAM, "logs", "--follow", "--lines", "1"], text=True,
                                stdout=subprocess.PIPE, env={**os.environ,
                                                             "RON_DATA": str(up.data)})
    os.kill(up.pid("edge"), signal.SIGHUP)
    seen = []
    check("logs: goes on with what comes",
          eventually(lambda: "edge" in (seen.append(followed.stdout.readline()) or seen[-1]), 20),
          seen)
    followed.kill()
    followed.wait()


def has_example(text, path):
    """The text ends with examples, of which the first is of this verb or of one below it."""
    return re.search(rf"^examples?:\n  (?:.*[|(])?ron {path}\b.*\n(?:  .*\n)*\Z", text, re.M)


def helps():
    """Every level explains itself, with an example of its own."""
    code, out, _ = ron("help")
    check("help: lists the verbs", code == 0 and "transfer" in out and "ron VERB --help" in out)
    check("help: with examples", has_example(out, ""), out)
    code, text, _ = ron("completion", "bash")
    paths = {""}
    for path, words in re.findall(r"^    '([a-z -]*)'\) echo '([^']*)' ;;$", text, re.M):
        paths |= {f"{path} {w}".strip() for w in words.split()}
    check("help: the table is large", code == 0 and len(paths) > 50, sorted(paths))
    for path in sorted(paths - {"", "help"}):
        code, out, err = ron(*path.split(), "--help")
        check(f"help of {path}", code == 0 and out.startswith(f"usage: ron {path}") and not err,
              (code, out, err))
        check(f"help of {path}: with an example", has_example(out, path), out)
        same = ron("help", *path.split())
        check(f"help of {path}: the same by `ron help`", same[1] == out)


def main():
    with Up() as up:
        money(up)
        refusals(up)
        proofs(up)
        mailbox(up)
        packs(up)
        webhooks(up)
        bars(up)
        offline_bars(up)
        finding(up)
        looking(up)
    with tempfile.TemporaryDirectory() as folder:
        code, _, err = ron("status", data=Path(folder))
        check("no system: exit 4", code == 4 and "ron up" in err, err)
        shutil.rmtree(folder)
        os.mkdir(folder)
    helps()
    finish()


if __name__ == "__main__":
    main()
