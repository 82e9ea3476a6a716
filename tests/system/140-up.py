#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it measures the time of a start.
"""`ron up`: all services ready, supervised, drained in order, resumed; and what it says when it
cannot start.

Method: the program as a child with a directory and ports of its own; children are killed by their
number in the run file; each way not to start is set up for real.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from httpkit import check, eventually, finish, status_kib
from ledgerkit import PROGRAM
from upkit import Up, free_base, ron

READY_MS = []
SERVICES = {"ledger", "wallet", "rewarder", "edge", "interop", "console"}


def first_start(up):
    told = up.told
    names = {s["name"] for s in told["services"]}
    check("start: all services of the program are ready",
          SERVICES == names and all(s["state"] == "ready" for s in told["services"]), told)
    print(f"ready after {told['ready_ms']} ms")
    READY_MS.append(told["ready_ms"])
    vkey = (up.data / "ledger.vkey").read_text()
    check("start: the ledger's public key is kept for whoever checks receipts",
          re.fullmatch(r"ron-ledger/[0-9a-f]{32}\+[0-9a-f]{8}\+\S{44}\n", vkey), vkey)
    wide = [str(p) for p in up.data.rglob("*") if p.suffix in {".keys", ".key", ".token"}
            or p.parent.name == "tokens" if p.is_file() and p.stat().st_mode & 0o077]
    check("start: keys and tokens are for their owner alone", not wide, wide)
    check("start: so is the run file", (up.data / "run.json").stat().st_mode & 0o777 == 0o600)
    run = json.loads((up.data / "run.json").read_text())
    check("start: the run file names the process and the ledger",
          run["pid"] == up.process.pid and re.fullmatch("[0-9a-f]{32}", run["ledger_uuid"]), run)
    rss = sum(status_kib(s["pid"]) for s in run["services"])
    print(f"resident: {rss / 1024:.0f} MiB in {len(run['services'])} services")
    check("start: all services together rest below 120 MiB", rss < 120 * 1024, rss)


def killed_child(up):
    code, _, err = up.ron("issue", "alice", "500", "--key", "a")
    check("before: money is there", code == 0, err)
    for name in ("wallet", "ledger", "edge"):
        old = up.pid(name)
        os.kill(old, signal.SIGKILL)
        check(f"kill {name}: it comes back as another process",
              eventually(lambda old=old, name=name: up.pid(name) not in (0, old), 30))
        check(f"kill {name}: the system is ready again", up.all_ready())
    check("kill: the log says so", "wallet was killed by signal 9" in up.log() and
          "restarting wallet in" in up.log())
    code, out, err = up.ron("balance", "alice")
    check("kill: nothing acknowledged was lost", code == 0 and "alice has 500 roc" in out,
          (out, err))


CONSOLE_SCOPES = {"ledger.read", "wallet.read", "rewarder.inspect", "interop.inspect",
                  "mailbox.inspect"}


def status_of(url, token, method="GET"):
    """The status of a request under a capability."""
    asked = urllib.request.Request(url, method=method, data=b"x" if method == "POST" else None,
                                   headers={"Authorization": f"Bearer {token.read_text().strip()}"})
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as err:
        return err.code


def least_privilege(up):
    """The capability that the console reads with may look, and nothing else."""
    token = up.data / "tokens/console"
    code, out, err = ron("cap", "show", "--in", token)
    found = re.search(r"scope = (\S+)", out)
    check("console: its token has the scopes of its pages", code == 0 and found and
          set(found[1].split(",")) == CONSOLE_SCOPES, (out, err))
    looks = [status_of(up.url("interop") + path, token) for path in ("/deliveries", "/mailbox")]
    check("console: it may look at the bridge", looks == [200, 200], looks)
    acts = [status_of(up.url("interop") + "/put", token, "POST"),
            status_of(up.url("interop") + "/audit", token)]
    check("console: it may neither store there nor read the trail", acts == [403, 403], acts)
    for words in (("edge", "purge", "/x"), ("issue", "alice", "5")):
        code, _, err = up.ron(*words, "--token-file", token)
        check(f"console: it may not {words[0]}", code == 5, (code, err))


def wide_token(folder, base):
    """A token of an older program that gave away more is replaced by the next start."""
    with tempfile.TemporaryDirectory() as other:
        wide = Path(other) / "wide"
        code, _, err = ron("cap", "mint", "--keys", Path(folder) / "ron-data/cap.keys", "--scope",
                           "ledger.read,edge,interop", "--ttl", "365d", "--out", wide)
        check("a wide token is made", code == 0, err)
        shutil.copy(wide, Path(folder) / "ron-data/tokens/console")
    kept = (Path(folder) / "ron-data/tokens/wallet").read_bytes()
    with Up(folder=folder, base=base) as up:
        least_privilege(up)
        check("other tokens stay as they are", (up.data / "tokens/wallet").read_bytes() == kept)


AGAIN = "restarting wallet in"


def kill_each_start(up, name, times):
    """Kills a service as soon as it has come up, so often; how often it did come up."""
    old = 0
    for turn in range(times):
        if not eventually(lambda old=old: up.pid(name) not in (0, old), 30):
            return turn
        old = up.pid(name)
        os.kill(old, signal.SIGKILL)
    return times


def keeps_ending(folder, base):
    """A service that ends more than five times in a minute is given up, and only then."""
    with Up("--only", "wallet", folder=folder, base=base) as up:
        before = up.log().count(AGAIN)
        check("wallet: five ends in a minute are mended", kill_each_start(up, "wallet", 5) == 5 and
              up.all_ready() and "stays down" not in up.log(), up.log()[-2000:])
        os.kill(up.pid("wallet"), signal.SIGKILL)
        said = ("wallet exited more than five times in a minute and stays down; "
                "see `ron logs --service wallet`, then restart with `ron down` and `ron up`")
        check("wallet: the sixth is not, and what to do is told",
              eventually(lambda: said in up.log(), 30), up.log()[-2000:])
        code, out, _ = up.ron("status")
        check("wallet: status names it as down, and the ledger as ready", code == 1 and
              re.search(r"wallet .*down", out) and re.search(r"ledger .*ready", out), (code, out))
        code, _, err = up.ron("root")
        check("wallet: the ledger goes on", code == 0, err)
        starts = up.log().count(AGAIN) - before
        check("wallet: it was started again five times and no more", starts == 5, starts)
        code, _, err = up.ron("down")
        check("wallet: `ron down` ends it as told", code == 0 and up.stop() == 0, err)
        up.start()
        check("wallet: and `ron up` starts it again", up.all_ready())
    up = Up("--only", "wallet", folder=folder, base=base)
    wallet = up.pid("wallet")
    check("ledger: it came up each time", kill_each_start(up, "ledger", 6) == 6, up.log()[-2000:])
    itself = eventually(lambda: up.process.poll() is not None, 60)
    code = up.stop()
    check("ledger: everything ends by itself, with exit 3", itself and code == 3,
          (code, up.errors))
    check("ledger: what to do is told", any(
        "the ledger exited more than five times in a minute" in x and "`ron logs --service ledger`"
        in x and "`ron doctor`" in x for x in up.errors), up.errors)
    check("ledger: nothing is left of it", wallet > 0 and not alive(wallet) and
          not (up.data / "run.json").exists(), wallet)
    with Up("--only", "wallet", folder=folder, base=base) as up:
        code, out, err = up.ron("balance", "alice")
        check("ledger: the next start goes on where it was", code == 0 and "alice has 500" in out,
              (out, err))


def drain_order(folder, base):
    with Up(folder=folder, base=base) as up:
        services = {s["name"] for s in up.told["services"]}
        code = up.stop()
        check("drain: exit 0", code == 0, up.errors)
        order = [name for name in re.findall(r" INFO +(\w+): the supervisor entered a state "
                                             r"state=stopped", up.log()) if name in services]
        order = order[-len(services):]
        check("drain: every service drained, the wallet behind the doors and the ledger last",
              set(order) == services and order[-2:] == ["wallet", "ledger"] and
              order[-3] == "rewarder", order)
        check("drain: the run file is gone", not (up.data / "run.json").exists())
        up.start()
        READY_MS.append(up.told["ready_ms"])
        code, out, _ = up.ron("balance", "alice")
        check("second start: it goes on where it was", code == 0 and "alice has 500" in out, out)
        before = (up.data / "cap.keys").read_bytes()
        up.stop(signal.SIGTERM)
        up.start()
        check("third start: the same keys", (up.data / "cap.keys").read_bytes() == before)


def killed_up(folder, base):
    """SIGKILL of `ron up` itself: its children drain by themselves, the next start goes on."""
    up = Up(folder=folder, base=base)
    pids = [s["pid"] for s in json.loads((up.data / "run.json").read_text())["services"]]
    up.stop(signal.SIGKILL)
    code, _, err = ron("status", data=up.data)
    check("killed: status says that nothing runs", code == 4 and "nothing is running" in err, err)
    up.start()
    check("killed: the next start says so and goes on",
          any("was not shut down cleanly" in x for x in up.errors), up.errors)
    check("killed: no child of the former run is left", not any(alive(p) for p in pids))
    code, out, _ = up.ron("balance", "alice")
    check("killed: nothing was lost", code == 0 and "alice has 500" in out, out)
    with up:
        pass


def alive(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return Path(PROGRAM).name.encode() in f.read()
    except OSError:
        return False


def fails(name, folder, base, wanted, *options):
    """`ron up` must end with 1 and say all of `wanted`."""
    done = subprocess.run([PROGRAM, "up", "--data", str(Path(folder) / "ron-data"), "--port-base",
                           str(base), *options], capture_output=True, text=True, timeout=60,
                          check=False)
    check(f"{name}: exit 1 and says what to do",
          done.returncode == 1 and all(w in done.stderr for w in wanted),
          (done.returncode, done.stderr))


def cannot_start(folder, base):
    data = Path(folder) / "ron-data"
    with Up(folder=folder, base=base) as up:
        fails("second ron up", folder, free_base(), ["already running", "ron status", "ron down"])
        code, out, err = up.ron("status")
        check("second ron up: the first one is found as before", code == 0, (code, out, err))
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", base + 100))
        s.listen()
        fails("port in use", folder, base,
              [f"port {base + 100} for wallet: already in use", "--port-base"])
    whole = (data / "cap.keys").read_text()
    (data / "cap.keys").write_text(whole[:40])
    fails("half-written keys", folder, base,
          ["cannot use key file cap.keys", "restore it", "invalid"])
    (data / "cap.keys").write_text(whole)
    (data / "cap.keys").chmod(0o644)
    fails("keys open to others", folder, base, ["chmod 0600"])
    (data / "cap.keys").chmod(0o600)
    board = (data / "keys/board.key").read_text()
    (data / "keys/board.key").write_text(board[:20])
    fails("half-written signing key", folder, base, ["cannot use key file keys/board.key"])
    (data / "keys/board.key").write_text(board)
    identity = (data / "ron.json").read_text()
    (data / "ron.json").write_text(re.sub(r'uuid":"....', 'uuid":"0000', identity))
    fails("wrong ledger", folder, base, ["this directory belongs to ledger 0000",
                                         "--adopt-ledger"])
    with Up("--adopt-ledger", folder=folder, base=base) as up:
        check("adopted: the directory has the ledger that is there",
              (up.data / "ron.json").read_text() == identity)


def ledger_key(folder, base):
    """The ledger's own key, which no start can make anew."""
    key = Path(folder) / "ron-data/ledger/signing.key"
    whole = key.read_text()
    key.write_text(whole[:20])
    fails("half-written key of the ledger", folder, base, ["cannot use key file ledger/signing.key",
                                                           "restore it from a backup"])
    key.unlink()
    fails("lost key of the ledger", folder, base, ["cannot use key file ledger/signing.key",
                                                   "restore it from a backup"])
    key.write_text(whole)
    key.chmod(0o600)


def unwritable():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ron-data").write_text("a file, no directory")
        fails("not a directory", folder, free_base(), ["cannot use data directory", "--data"])
    if os.geteuid() == 0:
        fails("unwritable directory", "/proc", free_base(), ["cannot use data directory", "--data"])
    else:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o500)
            fails("unwritable directory", folder, free_base(),
                  ["cannot use data directory", "--data"])
            os.chmod(folder, 0o700)


def settings(folder, base):
    config = Path(folder) / "ron.toml"
    config.write_text('[wallet]\nwallet.assets = ["gold"]\n[wallet.limits]\nmax_uri = "1KiB"\n')
    with Up("--config", str(config), "--only", "wallet", folder=folder, base=base) as up:
        check("only: the wallet and what it needs",
              {s["name"] for s in up.told["services"]} == {"ledger", "wallet"}, up.told)
        code, _, err = up.ron("issue", "alice", "5")
        check("config: a setting reaches its service", code == 5 and "POLICY_DENIED" in err,
              (code, err))
        code, out, _ = up.ron("issue", "alice", "5", "--asset", "gold")
        check("config: and allows the rest", code == 0, out)
        code, out, _ = up.ron("down")
        check("down: stops it and waits", code == 0 and up.stop() == 0, out)
    config.write_text("[walet]\nx = 1\n")
    code, _, err = ron("up", "--config", config, "--data", Path(folder) / "ron-data",
                       "--port-base", base)
    check("config: an unknown section is told", code == 2 and "[wallet]" in err, err)
    config.write_text("[wallet]\nlimits.rate = 1\n")
    fails("config: an unknown setting ends the start", folder, base,
          ["wallet did not start", "unknown", "limits.rate"], "--config", str(config))
    code, _, err = ron("up", "--only", "walet")
    check("only: an unknown service is told", code == 2 and "did you mean 'wallet'" in err, err)


def main():
    folder = tempfile.mkdtemp(prefix="ron-up-")
    base = free_base()
    with Up(folder=folder, base=base) as up:
        first_start(up)
        least_privilege(up)
        killed_child(up)
    wide_token(folder, base)
    drain_order(folder, base)
    killed_up(folder, base)
    keeps_ending(folder, base)
    cannot_start(folder, base)
    ledger_key(folder, base)
    unwritable()
    settings(folder, base)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"all ready after {READY_MS} ms; the best of them counts, as the machine has other work")
    check("start: all services are ready within a second", min(READY_MS) < 1000, READY_MS)
    finish()


if __name__ == "__main__":
    main()
