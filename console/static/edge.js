// SPDX-License-Identifier: Apache-2.0
// Edge: hit ratio, fills, and a look at each pack.
import { bytes, card, count, empty, h, head, part, si, stat } from "./ui.js";
import { chart } from "./chart.js";
import { call, json, live } from "./live.js";
import { map } from "./tiles.js";

const IMAGES = new Set(["png", "jpg", "jpeg", "webp", "avif"]);

function showPack(box, pack, j) {
  const canvas = h("canvas", { class: "map", tabindex: "0", role: "img", "aria-label": `map of ${pack}; arrows move, plus and minus zoom` });
  const line = h("span", { class: "legend" });
  const ext = /\{y\}\.(\w+)/.exec(j.tiles[0])[1];
  const info = {
    min: j.minzoom || 0, max: j.maxzoom ?? 14, image: IMAGES.has(ext),
    load: async (z, x, y) => {
      const r = await call(`/edge/edge/assets/${encodeURIComponent(pack)}/${z}/${x}/${y}.${ext}`);
      return r.status === 204 ? null : r.arrayBuffer();
    },
  };
  const [lon, lat, z] = j.center || [0, 20, info.min + 1];
  const m = map(canvas, info, { lon, lat, z: Math.max(z || 0, Math.min(info.max, info.min + 1)) },
    (t) => { line.textContent = `zoom ${t.z.toFixed(1)}, ${t.there} tiles drawn${t.none ? `, ${t.none} empty` : ""}${t.wait ? `, ${t.wait} loading` : ""}${t.failed ? `, ${t.failed} failed` : ""}`; });
  const grid = h("button", { "aria-pressed": "false", onclick: () => { const on = grid.getAttribute("aria-pressed") !== "true"; grid.setAttribute("aria-pressed", String(on)); m.grid(on); } }, "Tile grid");
  box.replaceChildren(
    h("div", { class: "row" }, h("div", { class: "tabs" }, h("button", { onclick: () => m.zoom(1), "aria-label": "zoom in" }, "+"), h("button", { onclick: () => m.zoom(-1), "aria-label": "zoom out" }, "\u2212"), grid), line),
    h("p", {}, ""), canvas,
    h("p", { class: "legend" }, `${j.name || pack}: zooms ${info.min} to ${info.max}, ${ext} tiles`, j.vector_layers ? `, layers ${j.vector_layers.map((l) => l.id).join(", ")}` : "", j.attribution ? ` \u00b7 ${j.attribution.replace(/<[^>]*>/g, "")}` : ""));
  return m;
}

export default {
  title: "Edge",
  render(root, [wanted]) {
    const stats = h("div", { class: "card" });
    const tabs = h("div", { class: "tabs" });
    const box = h("div", {});
    let shown = null;
    const points = { hits: [], misses: [], fills: [] };
    let before = null;
    const plot = chart("Served and missed, per second", () => [
      { name: "served", colour: "c3", points: points.hits }, { name: "misses", colour: "c2", points: points.misses }, { name: "fills", colour: "c1", points: points.fills }], si, 5);
    root.append(head("Edge"), h("div", { class: "grid" }, stats), h("div", { class: "grid cols-2" }, card("Packs", tabs, h("p", {}, ""), box), plot));
    part(box, async () => {
      const o = await json("/edge/edge/packs");
      if (!o.packs.length) return empty("No packs", "Start the edge with edge.packs=NAME=FILE; 'ron edge sample' writes a small one.");
      const open = async (name) => {
        for (const b of tabs.children) b.setAttribute("aria-pressed", String(b.textContent === name));
        if (shown) shown.stop();
        shown = showPack(box, name, await json(`/edge/edge/assets/${encodeURIComponent(name)}.json`));
      };
      tabs.replaceChildren(...o.packs.map((p) => h("button", { onclick: () => open(p.name), title: p.bytes ? bytes(p.bytes) : "" }, p.name)));
      await open(o.packs.some((p) => p.name === wanted) ? wanted : o.packs[0].name);
      return null;
    });
    const tell = () => {
      const v = live.services.get("edge");
      const x = v.x;
      const t = v.p[0];
      if (before && t > before.t) {
        for (const k of Object.keys(points)) {
          points[k].push([t, Math.max(0, (x[k] - before.x[k]) / ((t - before.t) / 1000))]);
          if (points[k].length > 120) points[k].shift();
        }
      }
      if (!before || t > before.t) before = { t, x };
      // What had to be read or filled first is counted as a miss, and as served when it is answered.
      const hits = Math.max(0, x.hits - x.misses);
      stats.replaceChildren(h("dl", { class: "stats wide" }, stat("hit ratio", x.hits ? `${((hits / x.hits) * 100).toFixed(1)} %` : "\u2013"), stat("served", count(x.hits)), stat("misses", count(x.misses)), stat("live fills", count(x.fills), x.fills ? `${count(x.fills_ok)} good` : ""),
        stat("shared fills", count(x.collapsed)), stat("sent", bytes(x.bytes_out)), stat("packs", count(x.packs), x.packs_failed ? `${x.packs_failed} failed` : "")));
      plot.draw();
    };
    tell();
    const off = live.on(tell);
    return () => { off(); if (shown) shown.stop(); };
  },
};
