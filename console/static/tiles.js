// SPDX-License-Identifier: Apache-2.0
// A small map: vector tiles (MVT 2.1) decoded and drawn on a canvas, images drawn as they are. No
// style language: land and water, lines, points with their names. For a look at a pack, not for
// navigation.

// ---- protocol buffers ----------------------------------------------------------------------------

function reader(b) {
  let at = 0;
  const varint = () => {
    let n = 0;
    let m = 1;
    for (let i = 0; i < 10; i++) {
      const c = b[at++];
      n += (c & 127) * m;
      if (c < 128) return n;
      m *= 128;
    }
    throw new Error("a number that does not end");
  };
  return {
    more: () => at < b.length,
    varint,
    // [field, value]: a number, or the bytes of a piece
    next() {
      const key = varint();
      const wire = key & 7;
      if (wire === 0) return [key >>> 3, varint()];
      if (wire === 2) { const n = varint(); at += n; return [key >>> 3, b.subarray(at - n, at)]; }
      const n = wire === 5 ? 4 : 8;
      at += n;
      return [key >>> 3, b.subarray(at - n, at)];
    },
  };
}
const utf8 = new TextDecoder();
function value(b) {
  const r = reader(b);
  while (r.more()) {
    const [f, v] = r.next();
    if (f === 1) return utf8.decode(v);
    if (f === 4 || f === 5 || f === 7) return v;
  }
  return null;
}
function geometry(b) {
  const r = reader(b);
  const lines = [];
  let x = 0;
  let y = 0;
  const delta = () => { const n = r.varint(); return n % 2 ? -(n + 1) / 2 : n / 2; };
  while (r.more()) {
    const c = r.varint();
    let n = c >>> 3;
    if ((c & 7) === 7) { lines.at(-1).push(lines.at(-1)[0]); continue; }
    while (n-- > 0 && r.more()) {
      x += delta();
      y += delta();
      if ((c & 7) === 1) lines.push([[x, y]]);
      else lines.at(-1).push([x, y]);
    }
  }
  return lines;
}
function feature(b, keys, values) {
  const out = { type: 0, lines: [], tags: {} };
  const r = reader(b);
  while (r.more()) {
    const [f, v] = r.next();
    if (f === 2) {
      const t = reader(v);
      while (t.more()) { const k = t.varint(); out.tags[keys[k]] = values[t.varint()]; }
    } else if (f === 3) out.type = v;
    else if (f === 4) out.lines = geometry(v);
  }
  return out;
}
export function decode(bytes) {
  const layers = [];
  const r = reader(bytes);
  while (r.more()) {
    const [f, b] = r.next();
    if (f !== 3) continue;
    const layer = { name: "", extent: 4096, features: [] };
    const keys = [];
    const values = [];
    const raw = [];
    const l = reader(b);
    while (l.more()) {
      const [k, v] = l.next();
      if (k === 1) layer.name = utf8.decode(v);
      else if (k === 2) raw.push(v);
      else if (k === 3) keys.push(utf8.decode(v));
      else if (k === 4) values.push(value(v));
      else if (k === 5) layer.extent = v;
    }
    layer.features = raw.map((x) => feature(x, keys, values));
    layers.push(layer);
  }
  return layers;
}

// ---- the map -------------------------------------------------------------------------------------

const SIZE = 256;
const KEPT = 128;

// info: {min, max, ext, load(z, x, y) -> Promise<ArrayBuffer or null>}; view: {z, lon, lat}
export function map(canvas, info, view, told) {
  const tiles = new Map();
  const ctx = canvas.getContext("2d");
  // A canvas cannot read var(): the style engine says what a name is in the present theme.
  let palette = {};
  const css = (name) => {
    if (!palette[name]) { canvas.style.color = `var(${name})`; palette[name] = getComputedStyle(canvas).color; }
    return palette[name];
  };
  let alive = true;
  let due = false;
  const merc = (lat) => 0.5 - Math.log(Math.tan(Math.PI / 4 + (lat * Math.PI) / 360)) / (2 * Math.PI);
  let z = Math.min(info.max, Math.max(info.min, view.z));
  let cx = view.lon / 360 + 0.5;
  let cy = merc(Math.min(85, Math.max(-85, view.lat)));

  function want(tz, x, y) {
    const key = `${tz}/${x}/${y}`;
    if (!tiles.has(key)) {
      const t = { state: "wait" };
      tiles.set(key, t);
      if (tiles.size > KEPT) tiles.delete(tiles.keys().next().value);
      info.load(tz, x, y).then(async (b) => {
        if (b && info.image) t.image = await createImageBitmap(new Blob([b]));
        else if (b && b.byteLength) t.layers = decode(new Uint8Array(b));
        t.state = t.image || t.layers ? "there" : "none";
      }).catch(() => { t.state = "failed"; }).finally(redraw);
    }
    return tiles.get(key);
  }
  function drawTile(t, px, py, size, labels) {
    ctx.save();
    ctx.translate(px, py);
    ctx.beginPath();
    ctx.rect(0, 0, size, size);
    ctx.clip();
    if (t.image) ctx.drawImage(t.image, 0, 0, size, size);
    for (const l of t.layers || []) {
      const k = size / l.extent;
      const water = /water|ocean|sea/.test(l.name);
      for (const f of l.features) {
        ctx.beginPath();
        for (const line of f.lines) {
          line.forEach(([x, y], i) => (i ? ctx.lineTo(x * k, y * k) : ctx.moveTo(x * k, y * k)));
        }
        if (f.type === 3) {
          ctx.fillStyle = css(water ? "--water" : /build/.test(l.name) ? "--map-line" : "--land");
          ctx.fill("evenodd");
        } else if (f.type === 2) {
          ctx.strokeStyle = css(water ? "--s1" : "--map-line");
          ctx.lineWidth = /road|street/.test(l.name) ? 1.5 : 0.75;
          ctx.stroke();
        } else if (f.lines[0]) {
          const [x, y] = f.lines[0][0];
          labels.push([px + x * k, py + y * k, f.tags.name || f.tags["name:en"] || ""]);
        }
      }
    }
    ctx.restore();
  }
  function draw() {
    due = false;
    palette = {};
    if (!alive) return;
    const dpr = devicePixelRatio || 1;
    const w = canvas.clientWidth;
    const hgt = canvas.clientHeight;
    if (canvas.width !== Math.round(w * dpr)) { canvas.width = Math.round(w * dpr); canvas.height = Math.round(hgt * dpr); }
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.fillStyle = css("--water");
    ctx.fillRect(0, 0, w, hgt);
    const tz = Math.min(info.max, Math.max(info.min, Math.floor(z)));
    const n = 2 ** tz;
    const size = SIZE * 2 ** (z - tz);
    const x0 = cx * n - w / 2 / size;
    const y0 = cy * n - hgt / 2 / size;
    const labels = [];
    const count = { there: 0, none: 0, wait: 0, failed: 0 };
    for (let y = Math.max(0, Math.floor(y0)); y <= Math.min(n - 1, Math.floor(y0 + hgt / size)); y++) {
      for (let x = Math.floor(x0); x <= Math.floor(x0 + w / size); x++) {
        const t = want(tz, ((x % n) + n) % n, y);
        count[t.state]++;
        const px = Math.round((x - x0) * size);
        const py = Math.round((y - y0) * size);
        drawTile(t, px, py, Math.ceil(size), labels);
        if (info.grid) { ctx.strokeStyle = css("--bad"); ctx.strokeRect(px + 0.5, py + 0.5, size, size); ctx.fillStyle = css("--bad"); ctx.font = "11px system-ui"; ctx.fillText(`${tz}/${((x % n) + n) % n}/${y}`, px + 6, py + 14); }
      }
    }
    ctx.font = "12px system-ui";
    ctx.textAlign = "center";
    ctx.fillStyle = css("--map-text");
    for (const [x, y, name] of labels) if (name) ctx.fillText(String(name), x, y);
    ctx.textAlign = "start";
    canvas.dataset.there = count.there;
    canvas.dataset.waiting = count.wait;
    told({ z, ...count });
  }
  function redraw() { if (!due && alive) { due = true; requestAnimationFrame(draw); } }
  function zoom(by) { z = Math.min(info.max + 2, Math.max(info.min, z + by)); redraw(); }
  function move(dx, dy) {
    const world = SIZE * 2 ** z;
    cx = (((cx + dx / world) % 1) + 1) % 1;
    cy = Math.min(1, Math.max(0, cy + dy / world));
    redraw();
  }
  let last = null;
  canvas.addEventListener("pointerdown", (e) => { last = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", (e) => { if (last) { move(last[0] - e.clientX, last[1] - e.clientY); last = [e.clientX, e.clientY]; } });
  canvas.addEventListener("pointerup", () => { last = null; });
  canvas.addEventListener("wheel", (e) => { e.preventDefault(); zoom(-Math.sign(e.deltaY) * 0.5); }, { passive: false });
  canvas.addEventListener("keydown", (e) => {
    const way = { ArrowLeft: [-64, 0], ArrowRight: [64, 0], ArrowUp: [0, -64], ArrowDown: [0, 64] }[e.key];
    if (way) move(...way);
    else if (e.key === "+" || e.key === "=") zoom(1);
    else if (e.key === "-") zoom(-1);
    else return;
    e.preventDefault();
  });
  const seen = new ResizeObserver(redraw);
  seen.observe(canvas);
  redraw();
  return { zoom, redraw, grid(on) { info.grid = on; redraw(); }, stop() { alive = false; seen.disconnect(); } };
}
