// SPDX-License-Identifier: Apache-2.0
// The demo map of the edge: a choice of its packs, drawn by MapLibre GL where the edge was given it
// (edge.demo_dir), else by plain.js. Both tell the same things: state, place, tiles.
import { PlainMap } from "/demo/plain.js";

const $ = (id) => document.getElementById(id);
const tiles = { asked: 0, got: 0, absent: 0, bytes: 0 };

function say(text) {
  $("note").textContent = text;
}

export function tell(what, count = 1) {
  tiles[what] += count;
  const kib = Math.round(tiles.bytes / 1024);
  $("tiles").textContent = `${tiles.got} of ${tiles.asked}` + (kib ? `, ${kib} KiB` : "");
}

function state(text) {
  document.body.dataset.state = text;
}

function place(lon, lat, zoom) {
  const ew = lon < 0 ? "W" : "E", ns = lat < 0 ? "S" : "N";
  $("place").textContent = `${Math.abs(lat).toFixed(2)}° ${ns}, ${Math.abs(lon).toFixed(2)}° ${ew}, `
    + `zoom ${zoom.toFixed(1)}`;
}

function load(url, tag) {
  return new Promise((good, bad) => {
    const e = document.createElement(tag);
    if (tag === "link") { e.rel = "stylesheet"; e.href = url; } else { e.src = url; }
    e.onload = good;
    e.onerror = () => bad(new Error(`cannot load ${url}`));
    document.head.append(e);
  });
}

// A style for any pack: polygons filled, lines drawn, points as dots, by the layers it tells of.
function styleOf(doc, dark) {
  const c = dark
    ? { sea: "#12232c", land: "#2d4038", line: "#4d656f", dot: "#e0b050" }
    : { sea: "#d7e6ee", land: "#f3efe4", line: "#9fb4bd", dot: "#b0522d" };
  const raster = /\.(png|jpe?g|webp|avif)$/.test(doc.tiles[0]);
  const layers = [{ id: "sea", type: "background", paint: { "background-color": c.sea } }];
  if (raster) {
    layers.push({ id: "raster", type: "raster", source: "pack" });
  }
  for (const { id } of raster ? [] : doc.vector_layers || []) {
    const base = { source: "pack", "source-layer": id };
    const kind = (k) => ["==", ["geometry-type"], k];
    layers.push({ ...base, id: `${id}-fill`, type: "fill", filter: kind("Polygon"),
                  paint: { "fill-color": c.land, "fill-outline-color": c.line } });
    layers.push({ ...base, id: `${id}-line`, type: "line", filter: kind("LineString"),
                  paint: { "line-color": c.line, "line-width": 1 } });
    layers.push({ ...base, id: `${id}-dot`, type: "circle", filter: kind("Point"),
                  paint: { "circle-color": c.dot, "circle-radius": 3 } });
  }
  const source = { type: raster ? "raster" : "vector", tiles: doc.tiles, minzoom: doc.minzoom,
                   maxzoom: doc.maxzoom, bounds: doc.bounds };
  if (raster) { source.tileSize = 256; }
  return { version: 8, sources: { pack: source }, layers };
}

class LibreMap {
  constructor(where, doc, dark) {
    maplibregl.setWorkerUrl("/demo/maplibre-gl-csp-worker.js");
    const [lon, lat, zoom] = doc.center || [0, 0, doc.minzoom];
    this.map = new maplibregl.Map({ container: where, style: styleOf(doc, dark), center: [lon, lat],
                                    zoom, attributionControl: false,
                                    canvasContextAttributes: { preserveDrawingBuffer: true } });
    const moved = () => {
      const at = this.map.getCenter();
      place(at.lng, at.lat, this.map.getZoom());
    };
    this.map.on("move", moved);
    this.map.on("idle", () => state("idle"));
    this.map.on("movestart", () => state("moving"));
    this.map.on("error", (e) => say(e.error ? e.error.message : "map error"));
    this.map.on("sourcedataloading", (e) => e.tile && tell("asked"));
    this.map.on("sourcedata", (e) => e.tile && e.tile.state === "loaded" && tell("got"));
    moved();
  }
  zoomBy(steps) { this.map.zoomTo(this.map.getZoom() + steps, { duration: 0 }); }
  remove() { this.map.remove(); }
}

async function show(name, conf) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  state("loading");
  say("");
  Object.assign(tiles, { asked: 0, got: 0, absent: 0, bytes: 0 });
  const answer = await fetch(`/edge/assets/${encodeURIComponent(name)}.json`);
  if (!answer.ok) {
    throw new Error(`pack ${name} is not served (status ${answer.status})`);
  }
  const doc = await answer.json();
  const Drawer = conf.maplibre ? LibreMap : PlainMap;
  return new Drawer($("map"), doc, dark, { tell, state, place, say });
}

async function main() {
  const conf = await (await fetch("/demo/config.json")).json();
  const { packs } = await (await fetch("/edge/packs")).json();
  let map = null;
  if (packs.length === 0) {
    throw new Error("no packs are served yet");
  }
  if (conf.maplibre) {
    await Promise.all([load("/demo/maplibre-gl.css", "link"),
                       load("/demo/maplibre-gl-csp.js", "script")]);
  }
  $("drawer").textContent = conf.maplibre ? `MapLibre GL ${maplibregl.getVersion()}` : "this page";
  for (const { name } of packs) {
    $("pack").append(new Option(name, name));
  }
  const choose = async () => {
    if (map) { map.remove(); }
    map = null;
    map = await show($("pack").value, conf);
  };
  $("pack").addEventListener("change", () => choose().catch((e) => fail(e)));
  $("in").addEventListener("click", () => map && map.zoomBy(1));
  $("out").addEventListener("click", () => map && map.zoomBy(-1));
  await choose();
}

function fail(e) {
  state("failed");
  say(e.message);
}

main().catch(fail);
