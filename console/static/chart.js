// SPDX-License-Identifier: Apache-2.0
// Line charts over the last two minutes, sparklines and bars, as SVG.
import { h, s } from "./ui.js";

const SPAN = 120000;

function ceiling(max) {
  if (max <= 0) return 1;
  const p = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 4, 6, 10].map((m) => m * p).find((v) => v >= max);
}
// A gap where the service did not answer.
function line(points, x, y) {
  let d = "";
  let pen = false;
  for (const [t, v] of points) {
    if (v === null) { pen = false; continue; }
    d += `${pen ? "L" : "M"}${x(t).toFixed(1)} ${y(v).toFixed(1)}`;
    pen = true;
  }
  return d;
}

// series: () => [{name, colour, points: [[t, value or null], ...]}]; show: value -> text.
export function chart(title, series, show, floor = 0) {
  let W = 640;
  const H = 176;
  const L = 56;
  const B = 20;
  const T = 8;
  const el = s("svg", { class: "chart", role: "img" });
  const legend = h("div", { class: "legend" });
  let at = null;
  function draw() {
    const all = series();
    const now = Date.now();
    const from = now - SPAN;
    W = Math.max(260, el.clientWidth || 640); // one unit is one pixel, so text keeps its size
    el.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const top = ceiling(Math.max(floor, ...all.flatMap((q) => q.points.map((p) => (p[0] > from && p[1]) || 0))));
    const x = (t) => L + Math.max(0, (t - from) / SPAN) * (W - L - 4);
    const y = (v) => T + (1 - v / top) * (H - T - B);
    const kids = [];
    for (let i = 0; i <= 4; i++) {
      const v = (top * i) / 4;
      kids.push(s("line", { class: "axis", x1: L, x2: W - 4, y1: y(v), y2: y(v) }));
      if (i % 2 === 0) kids.push(s("text", { x: L - 6, y: y(v) + 4, "text-anchor": "end" }, show(v)));
    }
    for (const [ms, label, anchor] of [[SPAN, "2 min ago", "start"], [SPAN / 2, "1 min", "middle"], [0, "now", "end"]]) {
      kids.push(s("text", { x: x(now - ms), y: H - 5, "text-anchor": anchor }, label));
    }
    for (const q of all) {
      kids.push(s("path", { class: `series ${q.colour}`, d: line(q.points.filter((p) => p[0] > from), x, y) }));
    }
    const pick = at === null ? null : from + at * SPAN;
    if (pick !== null) kids.push(s("line", { class: "cross", x1: x(pick), x2: x(pick), y1: T, y2: H - B }));
    el.replaceChildren(...kids);
    const told = all.map((q) => {
      const near = pick === null ? q.points.at(-1) :
        q.points.reduce((a, p) => (!a || Math.abs(p[0] - pick) < Math.abs(a[0] - pick) ? p : a), null);
      const v = near && near[1] !== null ? show(near[1]) : "\u2013";
      return h("span", {}, h("i", { class: q.colour }), q.name, " ", h("b", {}, v));
    });
    legend.replaceChildren(...told);
    el.setAttribute("aria-label", `${title}: ` + all.map((q) => `${q.name} ${q.points.length ? show(q.points.at(-1)[1] || 0) : "no data"}`).join(", "));
  }
  el.addEventListener("pointermove", (e) => {
    const r = el.getBoundingClientRect();
    const px = ((e.clientX - r.left) / r.width) * W;
    at = Math.min(1, Math.max(0, (px - L) / (W - L - 4)));
    draw();
  });
  el.addEventListener("pointerleave", () => { at = null; draw(); });
  const node = h("section", { class: "card" }, h("h2", {}, title), el, legend);
  node.draw = draw;
  return node;
}

export function spark() {
  const path = s("path", {});
  const el = s("svg", { class: "spark", viewBox: "0 0 120 24", preserveAspectRatio: "none", "aria-hidden": "true" }, path);
  el.draw = (points) => {
    const now = Date.now();
    const top = Math.max(1, ...points.map((p) => p[1] || 0));
    path.setAttribute("d", line(points.filter((p) => p[0] > now - SPAN),
      (t) => ((t - now + SPAN) / SPAN) * 120, (v) => 22 - (v / top) * 20));
  };
  return el;
}

// bars: [{label, value, title}]
export function bars(title, list, show) {
  const W = Math.min(640, innerWidth - 60);
  const H = 170;
  const top = ceiling(Math.max(1, ...list.map((b) => b.value)));
  const w = (W - 50) / Math.max(1, list.length);
  const kids = [0, 0.5, 1].map((f) => [
    s("line", { class: "axis", x1: 46, x2: W, y1: 140 - f * 130, y2: 140 - f * 130 }),
    s("text", { x: 40, y: 144 - f * 130, "text-anchor": "end" }, show(top * f))]);
  list.forEach((b, i) => {
    const len = (b.value / top) * 130;
    kids.push(s("rect", { class: "bar", x: 48 + i * w, y: 140 - len, width: Math.max(1, w - 3), height: len, rx: 2 }, s("title", {}, b.title)));
    if (list.length <= 12 || i % Math.ceil(list.length / (W / 80)) === 0) {
      kids.push(s("text", { x: 48 + i * w + w / 2, y: 158, "text-anchor": "middle" }, b.label));
    }
  });
  return s("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title }, kids.flat(2));
}
