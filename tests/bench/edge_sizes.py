# SPDX-License-Identifier: Apache-2.0
"""The sizes of `./dev bench edge`: memory while tiles of a large archive are served, the time
to verify a pack of 10,000 entries, and from the start of the process to readiness."""
import os
import random
import statistics
import subprocess
import time

from benchkit import spread
from edge_peers import QuietEdge, directory, pmtiles_head
from httpkit import eventually, status_kib

ENTRIES = 10000
LEAF = 1000  # entries of a leaf
LARGE_BYTES = 4 << 30
ZOOM = 7  # its tile ids begin at 5461 and are more than ten thousand
FIRST_ID = 5461
ASKED = 3000


def archive(path, tile_bytes, stride):
    """A valid archive of ENTRIES tiles whose bytes lie `stride` apart. Each begins with its number,
    so that all differ; the rest of it, and what lies between them, is a hole of the file."""
    rows = [(FIRST_ID + i, 1, tile_bytes, i * stride) for i in range(ENTRIES)]
    leaves = [directory(rows[i:i + LEAF]) for i in range(0, ENTRIES, LEAF)]
    at, root_rows = 0, []
    for number, leaf in enumerate(leaves):
        root_rows.append((rows[number * LEAF][0], 0, len(leaf), at))
        at += len(leaf)
    root = directory(root_rows)
    size = (ENTRIES - 1) * stride + tile_bytes
    head = pmtiles_head(len(root), at, size, ENTRIES, ZOOM, int(stride == tile_bytes))
    start = len(head) + len(root) + 2 + at
    with open(path, "wb") as f:
        f.write(head + root + b"{}" + b"".join(leaves))
        for i in range(ENTRIES):
            f.seek(start + i * stride)
            f.write(i.to_bytes(8, "big"))
        f.truncate(start + size)


def zxy(tile_id):
    """Along the Hilbert curve, as the specification of PMTiles has it."""
    z, before = 0, 0
    while tile_id >= before + (1 << (2 * z)):
        before += 1 << (2 * z)
        z += 1
    t, x, y, s = tile_id - before, 0, 0, 1
    while s < 1 << z:
        rx, ry = 1 & (t // 2), 1 & (t ^ (t // 2))
        if ry == 0:
            if rx == 1:
                x, y = s - 1 - x, s - 1 - y
            x, y = y, x
        x, y, t, s = x + s * rx, y + s * ry, t // 4, s * 2
    return z, x, y


def large(folder):
    path = folder / "large.pmtiles"
    archive(path, 24 * 1024, LARGE_BYTES // ENTRIES)
    with QuietEdge(packs={"large": path}) as edge:
        edge_ready = eventually(lambda: edge.get("/readyz").status == 200, 120)
        draw, client, peak = random.Random(1), edge.client(), 0
        for i in range(ASKED if edge_ready else 0):
            number = draw.randrange(ENTRIES)
            z, x, y = zxy(FIRST_ID + number)
            a = edge.get(f"/edge/assets/large/{z}/{x}/{y}.png", client=client)
            if a.status != 200 or a.body[:8] != number.to_bytes(8, "big") or \
                    len(a.body) != 24 * 1024:
                raise RuntimeError(f"tile {number}: {a.status}, {a.body[:20]}")
            if i % 100 == 0:
                peak = max(peak, status_kib(edge.process.pid))
        if not edge_ready:
            raise RuntimeError("the large archive is not served")
    return peak / 1024, path.stat().st_size / (1 << 30)


def verified(path):
    start = time.monotonic()
    done = subprocess.run([os.environ["RON_BIN"], "edge", "verify", str(path)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return time.monotonic() - start


def ready(path):
    """From the start of the process to the first 200 of readyz."""
    start = time.monotonic()
    with QuietEdge(packs={"made": path}) as edge:
        while edge.get("/readyz").status != 200:
            pass
        return time.monotonic() - start


def report(folder, reps):
    path = folder / "made.pmtiles"
    archive(path, 600, 600)
    rows = [("`ron edge verify`, a pack of 10,000 entries, s",
             [verified(path) for _ in range(reps)], 3, 0.2),
            ("from the start to ready with that pack, s", [ready(path) for _ in range(reps)], 3,
             0.1)]
    mib, gib = large(folder)
    rows.append((f"largest resident memory, {ASKED} tiles of an archive of {gib:.1f} GiB, MiB",
                 [mib], 1, 64))
    print("\n### Sizes\n\n| what | | aim | |\n|---|---|---|---|")
    for text, values, digits, aim in rows:
        print(f"| {text} | {spread(values, digits)} | {aim} | "
              f"{'met' if statistics.median(values) <= aim else 'missed'} |")
