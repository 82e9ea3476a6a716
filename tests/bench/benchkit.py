# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of whole servers share: settings, processor time of a server, the noise of
others, medians with their spread."""
import glob
import os
import resource
import statistics
import time
from pathlib import Path


def setting(name, default):
    return type(default)(os.environ.get(f"RON_BENCH_{name}") or default)


NOISE = setting("NOISE", 0.12)
WAIT_S = setting("WAIT_S", 60.0)
TRIES = setting("TRIES", 4)


def family(pid):
    """The process and its descendants: nginx works in children."""
    found = [pid]
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            found += [p for k in Path(path).read_text().split() for p in family(int(k))]
        except OSError:
            pass
    return found


def cpu_s(pid):
    total = 0
    for p in family(pid):
        for path in glob.glob(f"/proc/{p}/task/*/schedstat"):
            try:
                total += int(Path(path).read_text().split()[0])
            except OSError:
                pass
    return total / 1e9


def busy_s():
    """Processor seconds of everybody since the machine started."""
    v = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / os.sysconf("SC_CLK_TCK")


def wait_for_quiet():
    """Whether others came to use less than NOISE of a core within WAIT_S."""
    until = time.monotonic() + WAIT_S
    while True:
        before, start = busy_s(), time.monotonic()
        time.sleep(0.4)
        if (busy_s() - before) / (time.monotonic() - start) < NOISE:
            return True
        if time.monotonic() > until:
            return False


def children_s():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} " \
           f"({min(values):.{digits}f}..{max(values):.{digits}f})"
