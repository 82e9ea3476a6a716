# SPDX-License-Identifier: Apache-2.0
"""Whose a pause is, for `./dev bench ledger`: the service's own count of long syncs, the bare disk
under the same writes, and the same load with all files in memory."""
import os
import re
import shutil
import tempfile
import time

LONG_S = 0.08  # a bound of the service's histogram, below the aim
AIM_MS = 100
MEMORY = "/dev/shm"  # a file system in memory; its syncs cost nothing


def sync_buckets(ledger):
    """[(seconds, syncs of groups that took at most so long)], the last of them all."""
    text = ledger.get("/metrics", token=None)[1].decode()
    return [(float(bound.replace("+Inf", "inf")), int(count)) for bound, count in re.findall(
        r'^committer_batch_latency_seconds_bucket\{le="([^"]+)"\} (\d+)', text, re.M)]


def memory_takes(entries):
    """Whether a journal of so many entries fits into memory, with as much again left."""
    return os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > 2 * 300 * entries


def disk_pauses(count, size, seconds):
    """Seconds of each of `count` bare writes with their sync, spread over `seconds`, into a file
    that was filled with zeros before, as the log's segments are."""
    took, total = [], 1 << 30
    with tempfile.TemporaryDirectory() as t:
        fd = os.open(f"{t}/probe", os.O_RDWR | os.O_CREAT, 0o600)
        for i in range(total >> 20):
            os.pwrite(fd, b"\0" * (1 << 20), i << 20)
        os.fsync(fd)
        block, at, begin = b"x" * size, 0, time.monotonic()
        for i in range(count):
            time.sleep(max(0.0, begin + i * seconds / count - time.monotonic()))
            start = time.monotonic()
            os.pwrite(fd, block, at)
            os.fdatasync(fd)
            took.append(time.monotonic() - start)
            at = (at + size + 4095) & ~4095
            at = at if at + size <= total else 0
        os.close(fd)
    return took


def report(run, buckets, log_bytes, in_memory):
    """Of a large run: its longest request beside what the disk does alone."""
    syncs = buckets[-1][1]
    long_syncs = syncs - next(n for bound, n in buckets if bound >= LONG_S)
    bare = disk_pauses(syncs, log_bytes // syncs, run["seconds"])
    longest = run["max_us"] / 1000
    text = (f"Stalls: the longest request took {longest:.0f} ms (aim {AIM_MS}: "
            f"{'met' if longest <= AIM_MS else 'missed'}); {long_syncs} of {syncs} syncs of a "
            f"group took more than {LONG_S * 1000:.0f} ms. The bare disk, {log_bytes // syncs:,} "
            f"bytes written and synced as often and for as long with nothing beside it: longest "
            f"{max(bare) * 1000:.0f} ms, {sum(t > LONG_S for t in bare)} of more than "
            f"{LONG_S * 1000:.0f} ms.")
    if in_memory:
        text += (" With all files in memory, so that no disk can be waited for, the longest "
                 f"request took {in_memory['max_us'] / 1000:.0f} ms.")
    return text
