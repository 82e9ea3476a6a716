# SPDX-License-Identifier: Apache-2.0
"""How long inclusion proofs take, for `./dev bench ledger`: entries at random, from memory and from
the disk, beside /healthz on the same connection at the same moments."""
import json
import os
import subprocess
from pathlib import Path

AIM_US = 1000
WARM, COLD = 20000, 2000


def drop_from_memory(folder):
    """Takes the stored hashes out of the system's cache."""
    for path in Path(folder).glob("tree/*.hash"):
        fd = os.open(path, os.O_RDWR)
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def bring_into_memory(folder):
    for path in Path(folder).glob("tree/*.hash"):
        path.read_bytes()


def set_policy(pid, policy, priority):
    """Of all threads of a process; False where that is not allowed."""
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))
    except PermissionError:
        return False
    return True


def prove(load, ledger, entries, count, first=None):
    done = subprocess.run([load, "prove", ledger.addr, ledger.token, str(entries), str(count),
                           str(AIM_US)], capture_output=True, text=True, preexec_fn=first)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return json.loads(done.stdout)


def urgent_proofs(load, ledger, pid, entries):
    """The same before all other work of the machine, as only root may ask; None for others."""
    if not set_policy(pid, os.SCHED_FIFO, 1):
        return None
    try:
        return prove(load, ledger, entries, WARM,
                     lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
    finally:
        set_policy(pid, os.SCHED_OTHER, 0)


def report(load, ledger, pid, entries):
    """A table of what was measured."""
    bring_into_memory(ledger.data)
    rows = [("hashes in memory", prove(load, ledger, entries, WARM)),
            ("the same, before all other work (SCHED_FIFO)",
             urgent_proofs(load, ledger, pid, entries))]
    drop_from_memory(ledger.data)
    rows.append(("hashes on the disk only", prove(load, ledger, entries, COLD)))
    text = ("| inclusion proof over HTTP, one at a time | p50 us | p99 us | p99.9 us | max us | "
            f"above {AIM_US:,} us | /healthz between them: p99.9 us, max us, above |\n"
            "|---|---|---|---|---|---|---|")
    for name, r in rows:
        if r is None:
            continue
        p, h = r["proof"], r["health"]
        text += (f"\n| {name} | {p['p50_us']:.0f} | {p['p99_us']:.0f} | {p['p999_us']:.0f} | "
                 f"{p['max_us']:.0f} | {p['above']} of {r['count']:,} | {h['p999_us']:.0f}, "
                 f"{h['max_us']:.0f}, {h['above']} |")
    return text
