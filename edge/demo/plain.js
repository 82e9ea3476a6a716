// SPDX-License-Identifier: Apache-2.0
// A small map of tiles on a canvas, for the demo page where no MapLibre is: vector tiles (MVT 2)
// and pictures, dragged and zoomed by pointer, wheel and keys. Tiles are kept within KEEP.
const SIZE = 256, KEEP = 128;

// ---- protobuf and vector tiles ----

class Reader {
  constructor(bytes) { this.b = bytes; this.at = 0; this.end = bytes.length; }
  varint() {
    let n = 0, shift = 1;
    for (;;) {
      if (this.at >= this.end) { throw new Error("truncated tile"); }
      const c = this.b[this.at++];
      n += (c & 127) * shift;
      if (c < 128) { return n; }
      shift *= 128;
    }
  }
  bytes() {
    const len = this.varint();
    if (this.at + len > this.end) { throw new Error("truncated tile"); }
    this.at += len;
    return this.b.subarray(this.at - len, this.at);
  }
  skip(wire) {
    if (wire === 0) { this.varint(); } else if (wire === 1) { this.at += 8; }
    else if (wire === 2) { this.bytes(); } else if (wire === 5) { this.at += 4; }
    else { throw new Error("unsupported tile encoding"); }
  }
  fields(table) {
    while (this.at < this.end) {
      const key = this.varint(), take = table[key >>> 3];
      if (take) { take(this); } else { this.skip(key & 7); }
    }
  }
}

const text = (r) => new TextDecoder().decode(r.bytes());

function readFeature(r) {
  const f = { type: 0, tags: [], geometry: null };
  new Reader(r.bytes()).fields({
    2: (x) => { const p = new Reader(x.bytes()); while (p.at < p.end) { f.tags.push(p.varint()); } },
    3: (x) => { f.type = x.varint(); },
    4: (x) => { f.geometry = x.bytes(); },
  });
  return f;
}

function readLayer(r) {
  const layer = { name: "", extent: 4096, features: [], keys: [], values: [] };
  new Reader(r.bytes()).fields({
    1: (x) => { layer.name = text(x); },
    2: (x) => { layer.features.push(readFeature(x)); },
    3: (x) => { layer.keys.push(text(x)); },
    4: (x) => {
      let value = null;
      new Reader(x.bytes()).fields({ 1: (v) => { value = text(v); } });
      layer.values.push(value);
    },
    5: (x) => { layer.extent = x.varint(); },
  });
  return layer;
}

export function readTile(bytes) {
  const layers = [];
  new Reader(bytes).fields({ 3: (r) => layers.push(readLayer(r)) });
  return layers;
}

// Calls move(x, y), line(x, y) and close() in the units of the tile.
function walk(geometry, move, line, close) {
  const r = new Reader(geometry);
  const zig = (n) => (n % 2 ? -(n + 1) / 2 : n / 2);
  let x = 0, y = 0;
  while (r.at < r.end) {
    const command = r.varint(), kind = command & 7;
    for (let n = command >>> 3; n > 0; n--) {
      if (kind === 7) { close(); continue; }
      x += zig(r.varint());
      y += zig(r.varint());
      (kind === 1 ? move : line)(x, y);
    }
  }
}

// ---- the map ----

export class PlainMap {
  constructor(where, doc, dark, page) {
    this.doc = doc;
    this.page = page;
    this.colours = dark
      ? { sea: "#12232c", land: "#2d4038", line: "#4d656f", text: "#cfdde3" }
      : { sea: "#d7e6ee", land: "#f3efe4", line: "#9fb4bd", text: "#3a4a52" };
    this.raster = /\.(png|jpe?g|webp|avif)$/.test(doc.tiles[0]);
    this.kept = new Map();
    this.where = where;
    this.canvas = document.createElement("canvas");
    this.canvas.className = "plain";
    where.append(this.canvas);
    const [lon, lat, zoom] = doc.center || [0, 0, doc.minzoom];
    this.zoom = Math.max(doc.minzoom, Math.min(zoom + 1, doc.maxzoom));
    this.x = (lon + 180) / 360;
    this.y = 0.5 - Math.asinh(Math.tan(lat * Math.PI / 180)) / (2 * Math.PI);
    this.listen();
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(where);
  }

  listen() {
    this.stop = new AbortController();
    const on = (what, f, more) =>
      this.where.addEventListener(what, f, { signal: this.stop.signal, ...more });
    let last = null;
    on("pointerdown", (e) => { last = e; this.canvas.setPointerCapture(e.pointerId); });
    on("pointermove", (e) => {
      if (last && e.buttons) {
        this.moveBy(last.clientX - e.clientX, last.clientY - e.clientY);
        last = e;
      }
    });
    on("pointerup", () => { last = null; });
    on("wheel", (e) => { e.preventDefault(); this.zoomBy(e.deltaY < 0 ? 0.5 : -0.5); },
       { passive: false });
    on("keydown", (e) => {
      const step = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60],
                     ArrowDown: [0, 60] }[e.key];
      if (step) { e.preventDefault(); this.moveBy(...step); }
      if (e.key === "+") { this.zoomBy(1); }
      if (e.key === "-") { this.zoomBy(-1); }
    });
  }

  moveBy(dx, dy) {
    const world = SIZE * 2 ** this.zoom;
    this.x = ((this.x + dx / world) % 1 + 1) % 1;
    this.y = Math.max(0, Math.min(1, this.y + dy / world));
    this.draw();
  }

  zoomBy(steps) {
    this.zoom = Math.max(this.doc.minzoom, Math.min(this.doc.maxzoom + 2, this.zoom + steps));
    this.draw();
  }

  // The tile, or undefined while it is fetched; null when there is none.
  tile(z, x, y) {
    const key = `${z}/${x}/${y}`;
    if (this.kept.has(key)) { return this.kept.get(key); }
    if (this.kept.size >= KEEP) { this.kept.delete(this.kept.keys().next().value); }
    this.kept.set(key, undefined);
    this.page.tell("asked");
    this.fetch(key, this.doc.tiles[0].replace("{z}", z).replace("{x}", x).replace("{y}", y));
    return undefined;
  }

  async fetch(key, url) {
    let value = null;
    try {
      const answer = await fetch(new URL(url).pathname, { signal: this.stop.signal });
      if (answer.status === 200) {
        const blob = await answer.blob();
        this.page.tell("bytes", blob.size);
        value = this.raster ? await createImageBitmap(blob)
                            : readTile(new Uint8Array(await blob.arrayBuffer()));
      } else if (answer.status !== 204 && answer.status !== 404) {
        throw new Error(`tile ${key}: ${answer.status}`);
      }
    } catch (e) {
      if (this.stop.signal.aborted) { return; }
      this.page.say(e.message);
    }
    this.page.tell(value ? "got" : "absent");
    this.kept.set(key, value);
    this.draw();
  }

  draw() {
    const ratio = devicePixelRatio || 1;
    const w = this.where.clientWidth, h = this.where.clientHeight;
    if (this.canvas.width !== w * ratio || this.canvas.height !== h * ratio) {
      this.canvas.width = w * ratio;
      this.canvas.height = h * ratio;
    }
    const c = this.canvas.getContext("2d");
    const z = Math.max(this.doc.minzoom, Math.min(this.doc.maxzoom, Math.round(this.zoom)));
    const side = SIZE * 2 ** (this.zoom - z), n = 2 ** z;
    const left = this.x * n - w / side / 2, top = this.y * n - h / side / 2;
    let waiting = 0;
    const seen = [];
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = this.colours.sea;
    c.fillRect(0, 0, w, h);
    for (let row = Math.floor(top); row < top + h / side; row++) {
      for (let col = Math.floor(left); col < left + w / side && row >= 0 && row < n; col++) {
        const t = this.tile(z, ((col % n) + n) % n, row);
        waiting += t === undefined;
        if (t) { seen.push([t, (col - left) * side, (row - top) * side]); }
      }
    }
    for (const [t, x, y] of seen) { this.paint(c, t, x, y, side); }
    for (const [t, x, y] of this.raster ? [] : seen) { this.label(c, t, x, y, side); }
    const lat = Math.atan(Math.sinh(Math.PI * (1 - 2 * this.y))) * 180 / Math.PI;
    this.page.place(this.x * 360 - 180, lat, this.zoom);
    this.page.state(waiting ? "moving" : "idle");
  }

  paint(c, t, x, y, side) {
    if (this.raster) {
      c.drawImage(t, x, y, side + 0.5, side + 0.5);
      return;
    }
    c.save();
    c.beginPath();
    c.rect(x, y, side + 0.5, side + 0.5);
    c.clip();
    for (const layer of t) {
      const k = side / layer.extent;
      for (const f of layer.features) {
        if (f.type !== 2 && f.type !== 3) { continue; }
        c.beginPath();
        walk(f.geometry, (a, b) => c.moveTo(x + a * k, y + b * k),
             (a, b) => c.lineTo(x + a * k, y + b * k), () => c.closePath());
        c.strokeStyle = this.colours.line;
        c.lineWidth = f.type === 3 ? 1 : 0.5;
        if (f.type === 3) {
          c.fillStyle = this.colours.land;
          c.fill("evenodd");
        }
        c.stroke();
      }
    }
    c.restore();
  }

  label(c, t, x, y, side) {
    c.font = "12px system-ui, sans-serif";
    c.textAlign = "center";
    c.lineWidth = 3;
    for (const layer of t) {
      const k = side / layer.extent;
      for (const f of layer.features) {
        const at = layer.keys.indexOf("name");
        const pair = f.tags.findIndex((tag, i) => i % 2 === 0 && tag === at);
        const name = f.type === 1 && pair >= 0 ? layer.values[f.tags[pair + 1]] : null;
        walk(f.type === 1 ? f.geometry : new Uint8Array(0), (a, b) => {
          if (a < 0 || b < 0 || a >= layer.extent || b >= layer.extent) { return; }
          c.fillStyle = this.colours.text;
          c.strokeStyle = this.colours.land;
          if (name) {
            c.strokeText(name, x + a * k, y + b * k);
            c.fillText(name, x + a * k, y + b * k);
          } else {
            c.fillRect(x + a * k - 1.5, y + b * k - 1.5, 3, 3);
          }
        }, () => {}, () => {});
      }
    }
  }

  remove() {
    this.stop.abort();
    this.resized.disconnect();
    this.canvas.remove();
  }
}
