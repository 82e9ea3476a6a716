#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the kernel as a process drains on a signal, loses nothing, and says how it went.

Method: start `ron-fixture kernel` in its variants, wait for lines it prints, send signals, compare
exit codes and the final line of counts.
"""
import os
import re
import signal
import subprocess
import sys

PROGRAM = os.environ["RON_FIXTURE"]
COUNTS = re.compile(
    r"offered (\d+) = refused (\d+) \+ handled (\d+) \+ failed (\d+) \+ left (\d+); "
    r"observed (\d+), missed (\d+); "
    r"tasks spawned (\d+), aborted (\d+), leaked (\d+); (.*)"
)
NAMES = (
    "offered",
    "refused",
    "handled",
    "failed",
    "left",
    "observed",
    "missed",
    "spawned",
    "aborted",
    "leaked",
)
bad = 0


def check(name, good, detail=""):
    global bad
    print(("ok: " if good else "FAILED: ") + name + ("" if good else f"\n{detail}"))
    bad |= not good


def counts(text):
    match = COUNTS.search(text)
    return (
        dict(zip(NAMES, map(int, match.groups()[:10])), verdict=match.group(11))
        if match
        else None
    )


def finish(process, timeout=30):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def start(*arguments):
    return subprocess.Popen(
        [PROGRAM, "kernel", "--bind_addr", "127.0.0.1:0", "--log.level", "debug", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_line(process, text):
    """Whether a line of the log with that text came; the lines before it are gone."""
    return any(text in line for line in process.stderr)


def drains_on(signo):
    process = start("--rate", "20000")
    check(f"{signo.name}: it comes up", wait_line(process, "progress"))
    process.send_signal(signo)
    code, out, err = finish(process)
    c = counts(out)
    check(
        f"{signo.name}: exit 0 and nothing lost",
        code == 0 and c and c["verdict"] == "nothing lost",
        out + err,
    )
    check(
        f"{signo.name}: the counts add up",
        c
        and c["offered"] == c["refused"] + c["handled"] + c["failed"] + c["left"]
        and c["handled"] > 0,
        out,
    )
    check(
        f"{signo.name}: no task leaked or aborted",
        c and c["leaked"] == 0 and c["aborted"] == 0,
        out,
    )
    order = re.findall(r"a task ended well .*name=(\S+)", err)
    stages = [
        1
        if n.startswith("worker") or n == "clerk"
        else {"sink": 2, "auditor": 2, "observer": 3, "reporter": 4}.get(n, 5)
        for n in order
    ]
    check(
        f"{signo.name}: stages end in order, the listeners last",
        stages == sorted(stages) and len(stages) >= 7,
        err,
    )


def second_signal_exits_at_once():
    # A worker hangs, so the drain cannot end before its deadline of five seconds.
    process = start("--rate", "20000", "--hang-after", "10", "--drain-deadline", "5s")
    check("second signal: it comes up", wait_line(process, "progress"))
    process.send_signal(signal.SIGTERM)
    check("second signal: it drains", wait_line(process, "draining"))
    process.send_signal(signal.SIGTERM)
    code, out, err = finish(process, timeout=4)
    check("second signal: exits at once with 128 + 15", code == 128 + 15, f"{code}\n{out}{err}")


def hanging_worker_is_aborted():
    code, out, err = finish(
        start(
            "--rate", "20000", "--stop-after", "1s", "--hang-after", "10", "--drain-deadline", "1s"
        )
    )
    c = counts(out)
    check("hang: exit 2", code == 2, f"{code}\n{out}{err}")
    check(
        "hang: counted as aborted and leaked", c and c["aborted"] >= 1 and c["leaked"] == 1, out
    )
    check("hang: the leaked task is named", re.search("event=leaked name=worker", err), err)


def failing_workers_are_restarted():
    code, out, err = finish(start("--rate", "5000", "--stop-after", "3s", "--fail-every", "2000"))
    c = counts(out)
    delays = [
        int(d)
        for d in re.findall(
            r"event=restarting name=worker-\d+ kind=worker rc=RON_INTERNAL delay_ms=(\d+)", err
        )
    ]
    check(
        "chaos: nothing lost; exit 0, or 2 when the stop found every worker down",
        c and c["verdict"] != "LOST MESSAGES" and code == (2 if c["left"] else 0),
        out + err,
    )
    check("chaos: workers were restarted", c and c["spawned"] > 8 and delays, out + err)
    check(
        "chaos: first delays are 100-200 ms, none above 5 s",
        delays and 100 <= delays[0] <= 200 and max(delays) <= 5000,
        str(delays),
    )
    check("chaos: no task leaked", c and c["leaked"] == 0, out)


def crash_loop_escalates():
    # Every message fails, so the worker fails as soon as it is restarted; the limit is five.
    code, out, err = finish(
        start("--rate", "1000", "--stop-after", "9s", "--pipeline", "1", "--fail-every", "1"),
        timeout=60,
    )
    restarts = err.count("event=restarting name=worker-0")
    check(
        "crash loop: five restarts, then it stays down",
        restarts == 5 and "event=escalated name=worker-0" in err,
        err,
    )
    check(
        "crash loop: the service goes on without it",
        code == (2 if counts(out)["left"] else 0) and counts(out)["handled"] > 0,
        out + err,
    )


def idle_memory():
    process = start("--rate", "0")
    check("idle: it comes up", wait_line(process, "listening"))
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        kib = {n: int(v.split()[0]) for n, v in (line.split(":", 1) for line in status)
               if n in ("VmRSS", "RssAnon")}
    process.send_signal(signal.SIGINT)
    code, out, _ = finish(process)
    # Pages of libraries are shared by all services of a machine; what counts is our own.
    check(f"idle: {kib['RssAnon']} KiB of its own below 4 MiB, {kib['VmRSS']} resident in all",
          kib["RssAnon"] < 4096 and code == 0, out)


def wrong_use():
    for arguments, text in (
        (["kernle"], "did you mean 'ron-fixture kernel'?"),
        (["kernel", "--worker", "3"], "did you mean --workers?"),
        (["kernel", "--rate"], "needs a value"),
        (["kernel", "--print-topology", "xml"], "takes md or json"),
        (["kernel", "stray"], "unexpected word"),
    ):
        run = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=20)
        check(
            "wrong use: ron-fixture " + " ".join(arguments),
            run.returncode == 2 and text in run.stderr,
            run.stderr,
        )


drains_on(signal.SIGINT)
drains_on(signal.SIGTERM)
second_signal_exits_at_once()
hanging_worker_is_aborted()
failing_workers_are_restarted()
crash_loop_escalates()
idle_memory()
wrong_use()
sys.exit(bad)
