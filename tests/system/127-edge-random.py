#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever archive somebody puts under the edge, under load and while it changes, it answers
with that archive's bytes or with a refusal, and lives. The asan and tsan builds run it too.

Method: archives of chance (packkit.py: leaves, runs, shared contents, both compressions) and copies
with changed, missing or additional bytes behind one edge. Clients ask for tiles, gaps, ranges and
documents all the time, while rounds of new archives come by rename and SIGHUP. Every answer must be
what a reader that shares nothing with the program finds in one of the versions that were given; in
between each archive that is served is read whole, every tile and every gap. RON_SEED repeats the
choices of a run."""
import gzip
import json
import os
import random
import shutil
import signal
import tempfile
import threading
import zlib
from pathlib import Path

from edgekit import Edge
from httpkit import check, eventually, finish
from packkit import GZIP, TYPES, Pack, Reader, spoil

SEED = int(os.environ.get("RON_SEED") or 0) or random.SystemRandom().getrandbits(32)
ROUNDS = 60 if os.environ.get("RON_SOAK") else 5
PACKS = 12
CLIENTS = 4
NO_SENSE = (ValueError, EOFError, OSError, IndexError, OverflowError, zlib.error)


class Version:
    """Bytes that were put in place, and what can be said of a tile of theirs."""

    def __init__(self, data, good):
        self.data, self.good = data, good
        try:
            self.reader = Reader(data)
        except Exception:  # of the reader's own making: a head too short, no number
            self.reader = None

    def ext(self):
        return TYPES.get(self.reader.type, "mvt") if self.reader else "mvt"

    def allows(self, key, answer):
        """Whether the answer is what this version has there."""
        try:
            stored = self.reader.get(*key) if self.reader else None
        except NO_SENSE:
            return answer.status != 200
        if stored is None or answer.status != 200:
            return stored is None and answer.status in (204, 404)
        if answer["Content-Encoding"] or answer.body == stored:
            return answer.body == stored
        try:
            return self.reader.packed == GZIP and gzip.decompress(stored) == answer.body
        except NO_SENSE:
            return False


class Packs:
    """Names, their files, and all versions that may be served under each."""

    def __init__(self, rng, folder):
        self.rng, self.folder, self.versions = rng, folder, {}
        for i in range(PACKS):
            self.put(f"p{i}")

    def path(self, name):
        return self.folder / f"{name}.pmtiles"

    def put(self, name):
        pack = Pack(self.rng)
        good = self.rng.random() < 0.5
        version = Version(pack.bytes if good else spoil(self.rng, pack.bytes), good)
        self.versions.setdefault(name, []).append(version)
        beside = self.folder / "beside"
        beside.write_bytes(version.data)
        os.replace(beside, self.path(name))


def a_key(rng):
    z = rng.randint(0, 6)
    return z, rng.randrange(1 << z), rng.randrange(1 << z)


def tile(edge, client, name, key, ext, encoding):
    return edge.get(f"/edge/assets/{name}/{key[0]}/{key[1]}/{key[2]}.{ext}", client=client,
                    Accept_Encoding=encoding)


class Client(threading.Thread):
    """Asks at random until told to stop."""

    def __init__(self, edge, packs, seed):
        super().__init__()
        self.edge, self.packs, self.rng = edge, packs, random.Random(seed)
        self.over, self.wrong, self.count = threading.Event(), [], {}

    def run(self):
        client = self.edge.client()
        while not self.over.is_set() and len(self.wrong) < 5:
            try:
                self.ask(client)
            except Exception as e:  # an edge that is gone, above all
                self.wrong.append(repr(e))

    def saw(self, answer, good, what):
        self.count[answer.status] = self.count.get(answer.status, 0) + 1
        if not good:
            self.wrong.append((what, answer.status, answer["X-Reason"], len(answer.body)))

    def ask(self, client):
        rng = self.rng
        name = rng.choice(list(self.packs.versions))
        versions = list(self.packs.versions[name])
        kind = rng.random()
        if kind < 0.75:
            key, ext = a_key(rng), rng.choice(versions).ext()
            a = tile(self.edge, client, name, key, ext, rng.choice(("gzip", "identity")))
            # Between the list of versions and the answer there may have been another one.
            versions = list(self.packs.versions[name])
            self.saw(a, a.status != 200 or any(v.allows(key, a) for v in versions), (name, key))
        elif kind < 0.9:
            size = max(len(versions[-1].data), 1)
            first = rng.randrange(size)
            last = first + rng.choice((0, 126, 3000))
            a = self.edge.get(f"/edge/assets/{name}.pmtiles", client=client,
                              Range=f"bytes={first}-{last}")
            versions = list(self.packs.versions[name])
            self.saw(a, a.status != 206 or any(a.body == v.data[first:last + 1] for v in versions),
                     (name, first, last))
        else:
            a = self.edge.get(f"/edge/assets/{name}.json", client=client)
            self.saw(a, a.status != 200 or json.loads(a.body)["tilejson"] == "3.0.0", name)


def served(edge, packs, name):
    """The version that is served; None: none is, or none of ours."""
    a = edge.get(f"/edge/assets/{name}.pmtiles")
    if a.status == 503:
        return None
    return next((v for v in reversed(packs.versions[name]) if v.data == a.body), None)


def read_whole(edge, packs, rng):
    """Every pack: which version, and is all of it right. (accepted, refused) of the spoiled."""
    accepted = refused = tiles = 0
    for name, versions in packs.versions.items():
        version = served(edge, packs, name)
        if version is None:
            check(f"{name}: none is served, and none of them was good",
                  not any(v.good for v in versions), edge.get(f"/edge/assets/{name}.json").body)
        elif version.reader is None:
            check(f"{name}: bytes that are no archive are not served", False)
        else:
            check(f"{name}: the newest that is good, or one that came later",
                  not any(v.good for v in versions[versions.index(version) + 1:]))
            client, wrong = edge.client(), []
            keys = [(z, x, y) for z in range(5) for x in range(1 << z) for y in range(1 << z)]
            for key in rng.sample(keys, 120):
                a = tile(edge, client, name, key, version.ext(), "gzip")
                tiles += a.status == 200
                if not version.allows(key, a):
                    wrong.append((key, a.status, a["X-Reason"]))
            check(f"{name}: every tile and every gap is that of the file", not wrong or
                  not version.good and all(w[1] != 200 for w in wrong), wrong[:3])
        if not versions[-1].good:
            accepted += version is versions[-1]
            refused += version is not versions[-1]
        del versions[:versions.index(version) if version else 0]
    return accepted, refused, tiles


def looked_at(edge):
    return sum(edge.metric(f'edge_pack_loads_total{{result="{r}"}}') for r in ("ok", "failed"))


def reload_all(edge):
    """Lets the edge look at the files, and waits until what it found is served: the second look
    begins behind that."""
    for more in (PACKS, 1):
        before = looked_at(edge)
        edge.process.send_signal(signal.SIGHUP)
        check("reload: the files are looked at",
              eventually(lambda: looked_at(edge) >= before + more, 60), looked_at(edge))


def main():
    print(f"RON_SEED={SEED}")
    rng = random.Random(SEED)
    folder = Path(tempfile.mkdtemp(prefix="ron-chance-"))
    packs = Packs(rng, folder)
    with Edge(packs={n: packs.path(n) for n in packs.versions}) as edge:
        check("begin: looked at", eventually(lambda: looked_at(edge) >= PACKS, 60))
        clients = [Client(edge, packs, SEED + i) for i in range(CLIENTS)]
        for c in clients:
            c.start()
        sums = [0, 0, 0]
        for turn in range(ROUNDS):
            for name in rng.sample(list(packs.versions), PACKS * 2 // 3 if turn else 0):
                packs.put(name)
            reload_all(edge)
            sums = [a + b for a, b in zip(sums, read_whole(edge, packs, rng))]
        for c in clients:
            c.over.set()
        for c in clients:
            c.join(60)
        wrong = [w for c in clients for w in c.wrong]
        check("load: every answer was one of an archive that was given", not wrong, wrong[:3])
        count = {}
        for c in clients:
            for status, n in c.count.items():
                count[status] = count.get(status, 0) + n
        check("load: tiles and ranges were served", count.get(200, 0) > 0 and
              count.get(206, 0) > 0, count)
        check("load: the edge still answers", edge.get("/healthz").status == 200)
        print(f"answers under load: {count}; of spoiled archives {sums[0]} make sense and are "
              f"served, {sums[1]} are refused; {sums[2]} tiles compared at rest")
        check("spoiled: some were refused", sums[1] > 0, sums)
    shutil.rmtree(folder, ignore_errors=True)
    finish()


main()
