#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: `ron edge verify`, `tile` and `sample` read packs as the public readers do, and say what is
wrong with a file.

Method: every archive of the corpus pmtiles and the sample, tile by tile, beside the npm package
pmtiles: stored bytes must be equal and missing tiles missing in both; the tiles of the sample are
decoded by the npm package @mapbox/vector-tile. MBTiles are made with Python's sqlite3, as tables
and as views. Sidecars come from b3sum where it is installed. Without node, npm or network the
packages are named and left out.
"""
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

PROGRAM = os.environ["RON_BIN"]
BUILD = os.environ.get("RON_BUILD_DIR", tempfile.gettempdir())
ARCHIVES = Path(os.environ["RON_CORPORA"]) / "pmtiles"
SEED = int(os.environ.get("RON_SEED", random.SystemRandom().randrange(1 << 32)))
PACKAGES = ["pmtiles@4", "@mapbox/vector-tile@1", "pbf@3"]

# Of each file: what the reader says of every tile and of as many ids between them. The cache has
# the usual decoder for directories; tiles are left as they are stored. A file that is refused has
# its error.
NODE = """
const fs = require("fs");
const zlib = require("zlib");
const crypto = require("crypto");
const { PMTiles, SharedPromiseCache, tileIdToZxy } = require("pmtiles");
const { VectorTile } = require("@mapbox/vector-tile");
const Pbf = require("pbf");
const asked = JSON.parse(fs.readFileSync(0, "utf8"));

async function look(path) {
  const bytes = fs.readFileSync(path);
  const source = { getKey: () => path, getBytes: async (offset, length) => ({
    data: bytes.buffer.slice(bytes.byteOffset + offset,
                             bytes.byteOffset + Math.min(offset + length, bytes.length)) }) };
  const cache = new SharedPromiseCache(100);
  const reader = new PMTiles(source, cache, async data => data);
  const header = await reader.getHeader();
  const root = await cache.getDirectory(source, header.rootDirectoryOffset,
                                        header.rootDirectoryLength, header);
  const tiles = [];
  const layers = {};
  for (const entry of root) {
    if (entry.runLength === 0) throw new Error("leaves are not expected here");
    for (let id = entry.tileId; id <= entry.tileId + entry.runLength; id++) {
      const [z, x, y] = tileIdToZxy(id);
      const tile = z > header.maxZoom ? undefined : await reader.getZxy(z, x, y);
      const data = tile && Buffer.from(tile.data);
      tiles.push([z, x, y, data ? crypto.createHash("sha256").update(data).digest("hex") : null]);
      if (data && asked.decode === path) {
        const vector = new VectorTile(new Pbf(zlib.gunzipSync(data)));
        for (const name of Object.keys(vector.layers)) {
          layers[name] = layers[name] || 0;
          for (let i = 0; i < vector.layers[name].length; i++) {
            const feature = vector.layers[name].feature(i);
            if (feature.loadGeometry().length !== 1) throw new Error("not one part");
            if (Object.keys(feature.properties).length === 0) throw new Error("no properties");
            layers[name]++;
          }
        }
      }
    }
  }
  return { tiles, layers, min: header.minZoom, max: header.maxZoom };
}

(async () => {
  const answers = {};
  for (const path of asked.files) {
    try { answers[path] = await look(path); } catch (e) { answers[path] = { error: String(e) }; }
  }
  console.log(JSON.stringify(answers));
})();
"""


def check(good, why):
    """Ends the test with a sentence."""
    if not good:
        raise AssertionError(why)


def ron(*args, code=0):
    """Runs `ron edge`; its standard output as bytes."""
    done = subprocess.run([PROGRAM, "edge", *map(str, args)], capture_output=True, timeout=60,
                          check=False)
    check(done.returncode == code, f"ron edge {' '.join(map(str, args))}: exit {done.returncode} "
          f"instead of {code}: {done.stdout[-300:]} {done.stderr[-300:]}")
    return done.stdout


def find_packages():
    """A command that has the npm packages, installed into the build folder on first use."""
    folder = os.path.join(BUILD, "npm-pmtiles")
    wanted = os.path.join(folder, "node_modules", "pmtiles")
    if not shutil.which("node") or not shutil.which("npm"):
        print("left out: node or npm is not installed")
        return None
    if not os.path.isdir(wanted):
        os.makedirs(folder, exist_ok=True)
        try:
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
                            "--prefix", folder, *PACKAGES],
                           capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            pass
    if not os.path.isdir(wanted):
        print("left out: the npm package pmtiles cannot be installed (no network?)")
        return None
    script = os.path.join(folder, "look.cjs")
    with open(script, "w", encoding="utf-8") as out:
        out.write(NODE)
    return ["node", script]


def beside_npm(node, sample):
    """Every tile of every archive, here and there."""
    files = [sample] + sorted(map(str, ARCHIVES.glob("*.pmtiles")))
    if len(files) == 1:
        print("left out: the corpus pmtiles is absent")
    done = subprocess.run(node, input=json.dumps({"files": files, "decode": sample}),
                          capture_output=True, text=True, timeout=100, check=False)
    check(done.returncode == 0, f"the package failed: {done.stderr[-300:]}")
    answers = json.loads(done.stdout)
    compared = 0
    for path in files:
        there = answers[path]
        report = json.loads(ron("verify", "--json", path, code=1 if "error" in there else 0))
        check(report["good"] == ("error" not in there), f"{path}: {report} against {there}")
        if "error" in there:
            check(report["faults"][0], f"{path}: refused without a reason")
            continue
        check((report["minzoom"], report["maxzoom"]) == (there["min"], there["max"]), path)
        for z, x, y, digest in there["tiles"]:
            mine = ron("tile", path, f"{z}/{x}/{y}", code=0 if digest else 1)
            check(digest is None or hashlib.sha256(mine).hexdigest() == digest,
                  f"{path} {z}/{x}/{y}: other bytes")
            compared += 1
    layers = answers[sample]["layers"]
    check(set(layers) == {"land", "graticule", "labels"} and layers["land"] > 100,
          f"the sample has {layers}")
    print(f"{compared} tiles of {len(files)} archives are as the npm package reads them")


def make_mbtiles(path, views, rand):
    """Random tiles, in tables or behind views; what z/x/y must give."""
    tiles = {}
    db = sqlite3.connect(path)
    db.executescript("CREATE TABLE metadata(name TEXT, value TEXT)")
    db.executemany("INSERT INTO metadata VALUES(?, ?)",
                   [("name", "t"), ("format", "pbf"), ("minzoom", "0"), ("maxzoom", "5"),
                    ("json", '{"vector_layers":[]}')])
    if views:
        db.executescript("CREATE TABLE images(id INTEGER PRIMARY KEY, tile_data BLOB);"
                         "CREATE TABLE map(zoom_level, tile_column, tile_row, id);"
                         "CREATE UNIQUE INDEX places ON map(zoom_level, tile_column, tile_row);"
                         "CREATE VIEW tiles AS SELECT zoom_level, tile_column, tile_row, tile_data"
                         " FROM map JOIN images USING(id)")
    else:
        db.executescript("CREATE TABLE tiles(zoom_level, tile_column, tile_row, tile_data);"
                         "CREATE UNIQUE INDEX places ON tiles(zoom_level, tile_column, tile_row)")
    for number in range(40):
        z = rand.randrange(6)
        x, y = rand.randrange(1 << z), rand.randrange(1 << z)
        if (z, x, y) in tiles:
            continue
        data = rand.randbytes(rand.randrange(1, 100000))
        tiles[z, x, y] = data
        row = (1 << z) - 1 - y
        if views:
            db.execute("INSERT INTO images VALUES(?, ?)", (number, data))
            db.execute("INSERT INTO map VALUES(?, ?, ?, ?)", (z, x, row, number))
        else:
            db.execute("INSERT INTO tiles VALUES(?, ?, ?, ?)", (z, x, row, data))
    db.commit()
    db.close()
    return tiles


def mbtiles(folder, rand):
    """Tables and views; then one that is damaged."""
    for views in (False, True):
        path = folder / f"views-{views}.mbtiles"
        tiles = make_mbtiles(path, views, rand)
        report = json.loads(ron("verify", "--json", path))
        check(report["tile_entries"] == len(tiles) and report["kind"] == "mbtiles", report)
        for (z, x, y), data in tiles.items():
            check(ron("tile", path, f"{z}/{x}/{y}") == data, f"{path} {z}/{x}/{y}: other bytes")
        missing = next((z, x, 0) for z in range(6) for x in range(1 << z)
                       if (z, x, 0) not in tiles)
        ron("tile", path, "/".join(map(str, missing)), code=1)
        check(sorted(p.name for p in folder.iterdir() if p.name.startswith(path.name)) ==
              [path.name], "something was written beside the file")
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM metadata WHERE name='format'")
    check(b"missing format" in ron("verify", path, code=1), "a file without a format is not told")


def sidecar(sample):
    """As b3sum writes it; then with other bytes."""
    if not shutil.which("b3sum"):
        print("left out: b3sum is not installed")
        return
    line = subprocess.run(["b3sum", sample], capture_output=True, check=True, timeout=60).stdout
    Path(sample + ".b3").write_bytes(line)
    report = json.loads(ron("verify", "--json", sample))
    check(report["sidecar"] == "good" and report["hash"] == "b3:" + line[:64].decode(), report)
    Path(sample + ".b3").write_bytes(b"0" * 64 + line[64:])
    check(b"sidecar" in ron("verify", sample, code=1), "other bytes than the sidecar's pass")
    os.remove(sample + ".b3")


def wrong_use(folder, sample):
    """Exit codes as the help tells them."""
    ron("verify", code=2)
    ron("verify", "--jsn", sample, code=2)
    ron("tile", sample, code=2)
    for place in ("0/0", "0/0/0/0", "a/b/c", "-1/0/0", "0/0/ 0", "99999999999999999999/0/0"):
        ron("tile", sample, place, code=2)
    ron("verify", folder / "not-there", code=1)
    ron("verify", folder, code=1)
    ron("sample", sample, code=1)  # never replaced
    check(ron("verify", sample, folder / "not-there", code=1).startswith(sample.encode()),
          "a file that is not there hides the others")


def main():
    """The whole."""
    print(f"RON_SEED={SEED}")
    rand = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sample = str(folder / "sample.pmtiles")
        again = str(folder / "again.pmtiles")
        ron("sample", sample)
        ron("sample", again)
        check(Path(sample).read_bytes() == Path(again).read_bytes(), "two samples differ")
        node = find_packages()
        if node:
            beside_npm(node, sample)
        mbtiles(folder, rand)
        sidecar(sample)
        wrong_use(folder, sample)


main()
