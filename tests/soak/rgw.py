#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Edges and bridges on one bucket of a real S3 server, Ceph RGW: the scenes of
tests/system/s3scenes.py, then load from many sides while the gateway is killed and comes back.
`./dev soak` installs the packages and runs it; without them it is skipped (77)."""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["RON_SOURCE_DIR"], "tests", "system"))

import rgwkit  # noqa: E402
import s3scenes  # noqa: E402
from httpkit import check, eventually, finish  # noqa: E402
from originkit import Origin  # noqa: E402
from rewarderkit import b3  # noqa: E402
from s3kit import Bucket  # noqa: E402

CHAOS_S = 60 if os.environ.get("RON_SOAK") else 15


def chaos(w, server):
    """Two bridges take objects while the gateway dies and comes back at random: every object that
    was acknowledged is in the bucket in the end, whole, and both serve it."""
    seed = int(os.environ.get("RON_SEED") or random.randrange(1 << 32))
    print(f"seed {seed}")
    rand = random.Random(seed)
    taken = []
    stop = threading.Event()

    def write(svc, seed):
        mine = random.Random(seed)
        while not stop.is_set():
            body = mine.randbytes(mine.choice((10, 5000, 300_000, 6 << 20)))
            try:
                if svc.put(body).status == 202:
                    taken.append(body)
            except OSError:
                pass
            time.sleep(0.05)

    with w.interop(timeout="3s") as one, w.interop(write="sync", timeout="3s") as two:
        threads = [threading.Thread(target=write, args=(svc, rand.random()))
                   for svc in (one, two) for _ in range(2)]
        for t in threads:
            t.start()
        until = time.monotonic() + CHAOS_S
        while time.monotonic() < until:
            time.sleep(rand.uniform(1, 4))
            how = rand.choice(("kill", "freeze"))
            getattr(server, how)()
            time.sleep(rand.uniform(0.5, 5))
            server.start() if how == "kill" else server.thaw()
        stop.set()
        for t in threads:
            t.join()
        check("chaos: objects were taken", len(taken) > 20, len(taken))
        check("chaos: nothing waits in the end",
              eventually(lambda: one.metric("s3_tier_backlog_objects") == 0, 120))
        check(f"chaos: all {len(taken)} are in the bucket, whole",
              all(w.has(b3(body)) == body for body in taken))
        check("chaos: none was lost", one.metric('s3_tier_writes_total{result="lost"}') == 0)
        check("chaos: both serve all of them", all(
            svc.get(f"/o/{b3(body)}").body == body for svc in (one, two) for body in taken))
        check("chaos: all is well again", s3scenes.well(one) and s3scenes.well(two))


def main():
    absent = rgwkit.missing()
    if absent:
        print("skipped: no " + ", ".join(absent) + " (Debian's radosgw ceph-mon ceph-osd "
              "ceph-common; ./dev soak installs them)")
        sys.exit(77)
    begun = time.monotonic()
    with rgwkit.Rgw() as server:
        print(f"Ceph RGW answers after {time.monotonic() - begun:.1f} s")
        view = Bucket(server.url, "ron-test", rgwkit.ACCESS, rgwkit.SECRET, rgwkit.REGION)
        view.create()
        w = s3scenes.World(server.url, view)
        origin = Origin()
        s3scenes.edges(w, origin)
        s3scenes.paths(w, origin)
        s3scenes.evicted(w, origin)
        s3scenes.bridges(w)
        s3scenes.damaged(w)
        s3scenes.purged(w, origin)
        s3scenes.refused(w)
        s3scenes.away(w, server)
        s3scenes.frozen(w, server)
        check("no upload was left behind", view.uploads() == 0, view.uploads())
        chaos(w, server)
        # A gateway that is dead cannot be told of an end: a rule of the bucket clears those away.
        print(f"uploads that the kills left behind: {view.uploads()}")
    finish()


main()
