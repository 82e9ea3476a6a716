#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs of the edge as map clients see them.

Method: public archives (the corpus pmtiles, named and left out without it) behind a real edge.
The npm package `pmtiles` reads each archive by range through the edge and gives every tile inside
its bounds and zooms; the edge's own tiles must be the same bytes. Damaged archives are refused by
themselves, each with its reason. Packs are swapped by SIGHUP under load, and every answer must hash
to its tag and be one of the two packs' tiles, never a mixture. Without node, npm or network the
package is named and left out."""
import json
import math
import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import tempfile
import threading
from pathlib import Path

from edgekit import Edge
from httpkit import check, eventually, finish
from npmkit import npm_folder
from rewarderkit import b3

TREE = Path(__file__).resolve().parents[2]
DATA = Path(os.environ["RON_CORPORA"]) / "pmtiles"
SCRATCH = Path(tempfile.mkdtemp(prefix="ron-packs-"))

GOOD = {"one": "test_fixture_1.pmtiles", "two": "test_fixture_2.pmtiles",
        "mlt": "test_fixture_mlt.pmtiles", "toner": "stamen_toner-raster-CC-BY+ODbL_z3.pmtiles",
        "whitney": "usgs-mt-whitney-8-15-webp-512.pmtiles"}
BAD = {"empty": "empty.pmtiles", "invalid": "invalid.pmtiles", "v4": "invalid_v4.pmtiles"}

# For each archive: every tile inside bounds and zooms, by range and from the edge's own path.
NODE = """
const { PMTiles } = require("pmtiles");
const [base, names] = JSON.parse(process.argv[2]);
const col = (lon, z) => Math.floor((lon + 180) / 360 * 2 ** z);
const row = (lat, z) => { const r = lat * Math.PI / 180;
  return Math.floor((1 - Math.asinh(Math.tan(r)) / Math.PI) / 2 * 2 ** z); };
const clamp = (n, z) => Math.min(Math.max(n, 0), 2 ** z - 1);
(async () => {
  const out = {};
  for (const [name, ext] of names) {
    const p = new PMTiles(`${base}/${name}.pmtiles`);
    const h = await p.getHeader();
    const r = out[name] = { zooms: [h.minZoom, h.maxZoom], same: 0, different: [], absent: 0 };
    for (let z = h.minZoom; z <= h.maxZoom; z++) {
      for (let x = clamp(col(h.minLon, z), z); x <= clamp(col(h.maxLon, z), z); x++) {
        for (let y = clamp(row(h.maxLat, z), z); y <= clamp(row(h.minLat, z), z); y++) {
          if (r.same + r.absent > 3000) continue;
          const theirs = await p.getZxy(z, x, y);
          const ours = await fetch(`${base}/${name}/${z}/${x}/${y}.${ext}`);
          const body = Buffer.from(await ours.arrayBuffer());
          if (theirs === undefined) {
            if (ours.status === 204 || ours.status === 404) r.absent++;
            else r.different.push([z, x, y, ours.status]);
          } else if (ours.status === 200 && body.equals(Buffer.from(theirs.data))) r.same++;
          else r.different.push([z, x, y, ours.status, body.length]);
        }
      }
    }
  }
  console.log(JSON.stringify(out));
})();
"""


def npm_reader():
    """A command that has the npm package, installed into the build folder on first use."""
    folder = npm_folder("pmtiles", "pmtiles@4")
    if folder is None:
        return None
    script = folder / "ask.js"
    script.write_text(NODE, encoding="utf-8")
    return ["node", str(script)]


def ready(edge):
    return eventually(lambda: edge.get("/readyz").status == 200)


def public_archives():
    with Edge(packs={n: DATA / f for n, f in GOOD.items()}) as edge:
        check("public: all are verified and ready", ready(edge), edge.get("/readyz").body)
        exts = {}
        for name, file in GOOD.items():
            whole = (DATA / file).read_bytes()
            a = edge.get(f"/edge/assets/{name}.pmtiles")
            check(f"public: {name} as an archive", a.status == 200 and a.body == whole and
                  a["ETag"] == f'"{b3(whole)}"' and a["Content-Type"] == "application/vnd.pmtiles")
            a = edge.get(f"/edge/assets/{name}.pmtiles", Range="bytes=0-126")
            check(f"public: {name} by range", a.status == 206 and a.body == whole[:127])
            doc = json.loads(edge.get(f"/edge/assets/{name}.json").body)
            check(f"public: {name} has TileJSON", doc["tilejson"] == "3.0.0" and
                  doc["tiles"][0].startswith(f"http://{edge.addr}/edge/assets/{name}/{{z}}"), doc)
            exts[name] = doc["tiles"][0].rsplit(".", 1)[1]
        for path in ("one/0/0/0.png", "one/32/0/0.mvt", "one/0/0/0", "one/0/0/00.mvt",
                     "one/-1/0/0.mvt", "none/0/0/0.mvt", "one.mbtiles", "none.json"):
            a = edge.get(f"/edge/assets/{path}")
            check(f"public: {path} is not there", a.status in (204, 404), a.status)
        node = npm_reader()
        if node is not None:
            base = f"http://{edge.addr}/edge/assets"
            done = subprocess.run([*node, json.dumps([base, list(exts.items())])], timeout=300,
                                  capture_output=True, text=True, check=False)
            check("npm: it reads", done.returncode == 0, done.stderr[-500:])
            for name, r in json.loads(done.stdout or "{}").items():
                print(f"npm: {name}: {r}")
                # The fixture of MapLibre tiles has an empty box as its bounds, and nothing in it.
                check(f"npm: {name}: every tile is the same", not r["different"] and
                      (r["same"] > 0 or name == "mlt"), r["different"][:3])


def tiles_and_tags():
    with Edge(packs={"whitney": DATA / GOOD["whitney"]}) as edge:
        check("tags: ready", ready(edge))
        doc = json.loads(edge.get("/edge/assets/whitney.json").body)
        z = doc["minzoom"]
        found = next((f"whitney/{z}/{x}/{y}.webp" for x in range(2**z) for y in range(2**z)
                      if edge.get(f"/edge/assets/whitney/{z}/{x}/{y}.webp").status == 200), None) \
            if z < 4 else first_tile(edge, doc, z)
        a = edge.get(f"/edge/assets/{found}")
        check("tags: a tile has the hash of its bytes", a["ETag"] == f'"{b3(a.body)}"', found)
        a = edge.get(f"/edge/assets/{found}", If_None_Match=a["ETag"])
        check("tags: and is 304 by it", a.status == 304 and a.body == b"")
        sent = edge.metric('queue_sent_total{queue="reads"}')
        client = edge.client()
        for _ in range(50):
            edge.get(f"/edge/assets/{found}", client=client)
        check("tags: hits touch no queue",
              edge.metric('queue_sent_total{queue="reads"}') == sent)


def first_tile(edge, doc, z):
    """The tile under the centre of the pack."""
    lon, lat = doc["center"][0], doc["center"][1]
    x = int((lon + 180) / 360 * 2**z)
    y = int((1 - math.asinh(math.tan(math.radians(lat))) / math.pi) / 2 * 2**z)
    return f"whitney/{z}/{x}/{y}.webp"


def damaged_archives():
    for name, file in BAD.items():
        with Edge(packs={name: DATA / file, "good": DATA / GOOD["one"]}) as edge:
            check(f"damaged: {name} is told",
                  eventually(lambda: any("pack load failed" in x for x in edge.lines)))
            check(f"damaged: {name}: the good one is served",
                  eventually(lambda: edge.get("/edge/assets/good.json").status == 200))
            a = edge.get("/readyz")
            doc = json.loads(a.body)
            check(f"damaged: {name}: ready and degraded, with the cause", a.status == 200 and
                  doc["degraded"] and file in doc["causes"]["packs_verified"], a.body)
            a = edge.get(f"/edge/assets/{name}.json")
            check(f"damaged: {name}: it is not", (a.status, a["X-Reason"]) ==
                  (503, "pack_damaged"), a.status)
    with Edge("--edge.packs_required=v4", packs={"v4": DATA / BAD["v4"]}) as edge:
        check("damaged: one that is required",
              eventually(lambda: any("pack load failed" in x for x in edge.lines)))
        a = edge.get("/readyz")
        check("damaged: required: not ready", a.status == 503 and b"packs_verified" in a.body,
              a.body)


def mbtiles():
    path = SCRATCH / "made.mbtiles"
    db = sqlite3.connect(path)
    db.executescript("""
        create table metadata (name text, value text);
        create table images (id integer primary key, data blob);
        create table map (z integer, x integer, y integer, id integer);
        create view tiles as select z as zoom_level, x as tile_column, y as tile_row,
          data as tile_data from map join images using (id);
        insert into metadata values ('name', 'made'), ('format', 'png'), ('minzoom', '0'),
          ('maxzoom', '1'), ('bounds', '-180,-85,180,85');""")
    db.execute("insert into images values (1, ?), (2, ?)", (b"\x89PNG one", b"\x89PNG two"))
    db.executemany("insert into map values (?, ?, ?, ?)",
                   [(0, 0, 0, 1), (1, 0, 0, 1), (1, 1, 1, 2)])
    db.commit()
    db.close()
    with Edge(packs={"made": path}) as edge:
        check("mbtiles: ready", ready(edge), edge.lines[-5:])
        for tile, body in (("0/0/0", b"\x89PNG one"), ("1/0/1", b"\x89PNG one"),
                           ("1/1/0", b"\x89PNG two")):  # its rows count from the south
            a = edge.get(f"/edge/assets/made/{tile}.png")
            check(f"mbtiles: {tile}", a.status == 200 and a.body == body and
                  a["Content-Type"] == "image/png" and a["ETag"] == f'"{b3(body)}"',
                  (a.status, a.body))
        check("mbtiles: what is not there", edge.get("/edge/assets/made/1/0/0.png").status == 404)


def swapped_under_load():
    one, two = (DATA / GOOD["toner"]).read_bytes(), (DATA / GOOD["whitney"]).read_bytes()
    path = SCRATCH / "live.pmtiles"

    def put(data):
        beside = SCRATCH / "beside"
        beside.write_bytes(data)
        os.replace(beside, path)
    put(one)
    known = {f'"{b3(one)}"': one, f'"{b3(two)}"': two}
    with Edge(packs={"live": path}) as edge:
        check("swap: ready", ready(edge))
        stop, wrong, seen = threading.Event(), [], set()

        def read():
            client = edge.client()
            while not stop.is_set():
                a = edge.get("/edge/assets/live.pmtiles", client=client, Range="bytes=1000-99999")
                seen.add(a["ETag"])
                if a.status != 206 or a.body != known[a["ETag"]][1000:100000]:
                    wrong.append((a.status, a["ETag"]))
        readers = [threading.Thread(target=read) for _ in range(4)]
        for r in readers:
            r.start()
        for turn in range(6):
            data = two if turn % 2 == 0 else one
            put(data)
            edge.process.send_signal(signal.SIGHUP)
            check(f"swap: {turn + 1} is served", eventually(
                lambda: edge.get("/edge/assets/live.pmtiles", "HEAD")["ETag"] == f'"{b3(data)}"'))
        put(one[:5000])  # cut off
        edge.process.send_signal(signal.SIGHUP)
        check("swap: a damaged one is refused",
              eventually(lambda: any("serving the previous version" in x for x in edge.lines)))
        a = edge.get("/edge/assets/live.json")
        check("swap: and the old one is served on", a.status == 200)
        check("swap: which is told", eventually(
            lambda: json.loads(edge.get("/readyz").body)["degraded"]))
        stop.set()
        for r in readers:
            r.join()
        check("swap: never a wrong or mixed byte", not wrong, wrong[:3])
        check("swap: both were seen", len(seen) == 2, seen)


def progress():
    """A pack that takes a while, because it has a hole of gigabytes to be hashed: readyz tells how
    far that is at the start, the log after a reload, when nobody waits for it."""
    pack = SCRATCH / "slow.pmtiles"
    size = 3 << 30
    root = bytes([1, 0, 1, 4, 1])  # one tile, 0/0/0: its run, length and offset + 1
    at = 127 + len(root)
    head = b"PMTiles\x03" + struct.pack("<QQQQQQQQQQQ", 127, len(root), at, 2, at + 2, 0, at + 2,
                                        size, 1, 1, 1) + bytes([1, 1, 1, 2, 0, 0])
    head += struct.pack("<iiiibii", -1800000000, -850000000, 1800000000, 850000000, 0, 0, 0)
    with open(pack, "wb") as f:
        f.write(head + root + b"{}tile")
        f.truncate(at + 2 + size)
    with Edge(packs={"slow": pack}) as edge:
        def cause():
            return json.loads(edge.get("/readyz").body).get("causes", {}).get("packs_verified", "")
        check("progress: readyz tells it at the start",
              eventually(lambda: re.fullmatch(r"verifying slow: hash, \d+ %", cause())), cause())
        check("progress: ready in the end", ready(edge), edge.get("/readyz").body)
        edge.process.send_signal(signal.SIGHUP)

        def told():
            return [x for x in map(json.loads, edge.lines)
                    if x["msg"] == "pack verification in progress"]
        check("progress: the log tells it after a reload", eventually(told) and
              (told()[0]["pack"], told()[0]["phase"]) == ("slow", "hash"), edge.lines[-5:])
        a = edge.get("/readyz")
        check("progress: while readyz is clear, and the pack is served", a.status == 200 and
              not json.loads(a.body)["degraded"] and
              edge.get("/edge/assets/slow/0/0/0.png").body == b"tile", a.body)
    pack.unlink()


def tilejson():
    """A representation like the others, and one that names tiles where clients find them."""
    pack, config = SCRATCH / "sample.pmtiles", SCRATCH / "edge.toml"
    subprocess.run([os.environ["RON_BIN"], "edge", "sample", pack], check=True, capture_output=True)
    path = "/edge/assets/sample.json"
    config.write_text("")
    with Edge(f"--config={config}", packs={"sample": pack}) as edge:
        check("TileJSON: ready", ready(edge))
        a = edge.get(path)
        check("TileJSON: a strong tag of its bytes, and how long it may be kept",
              a["ETag"] == f'"{b3(a.body)}"' and a["Content-Type"] == "application/json" and
              a["Cache-Control"] == edge.get("/edge/assets/sample/0/0/0.mvt")["Cache-Control"] and
              a["Cache-Control"], dict(a.headers))
        h = edge.get(path, method="HEAD")
        check("TileJSON: HEAD", (h.status, h.body, h["ETag"], h["Content-Length"]) ==
              (200, b"", a["ETag"], str(len(a.body))), dict(h.headers))
        n = edge.get(path, If_None_Match=a["ETag"])
        check("TileJSON: 304 by its tag", (n.status, n.body, n["ETag"]) == (304, b"", a["ETag"]))
        r = edge.get(path, Range="bytes=0-9")
        check("TileJSON: a range", (r.status, r.body) == (206, a.body[:10]))
        check("TileJSON: as the request names us",
              json.loads(edge.get(path, Host="a.example").body)["tiles"] ==
              ["http://a.example/edge/assets/sample/{z}/{x}/{y}.mvt"])
        config.write_text('[edge]\npublic_url = "https://map.example/base"\n')
        edge.process.send_signal(signal.SIGHUP)
        check("TileJSON: as edge.public_url says, after a reload", eventually(
            lambda: json.loads(edge.get(path).body)["tiles"] ==
            ["https://map.example/base/edge/assets/sample/{z}/{x}/{y}.mvt"]), edge.get(path).body)
        check("TileJSON: which is another tag", edge.get(path, If_None_Match=a["ETag"]).status ==
              200)
    for wrong in ("map.example", "ftp://map.example", "https://", "https:///x", "https://a/",
                  "https://a?x", "https://a/{z}", 'https://a"b', "https://user@a"):
        try:
            with Edge(f"--edge.public_url={wrong}"):
                told = ""
        except RuntimeError as e:
            told = str(e)
        check(f"TileJSON: {wrong} is no public URL", "edge.public_url" in told, told)


if DATA.is_dir():
    public_archives()
    tiles_and_tags()
    damaged_archives()
    swapped_under_load()
else:
    print("left out: the corpus pmtiles is absent")
mbtiles()
tilejson()
progress()
shutil.rmtree(SCRATCH, ignore_errors=True)
finish()
