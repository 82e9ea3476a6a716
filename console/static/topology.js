// SPDX-License-Identifier: Apache-2.0
// Topology: the tasks and queues of a service as a graph, drawn from /debug/topology, live.
import { count, failed, h, head, pill, s, si, states, table, waiting } from "./ui.js";
import { titles } from "./overview.js";
import { every, json, live } from "./live.js";

const HIDE = new Set(["log"]);
const TARGET = "callers of the target"; // of a queue that is another server's
const OUTSIDE = new Set(["holders of replies", TARGET, "whoever publishes", "all"]);
const W = 120;
const GAP_X = 22;
const SMALLEST = 0.78; // of its natural width; below that the graph scrolls
const GAP_Y = 14;

// "reader-0", "reader-1" are one box "reader"; "readers", "reader-0..n" in a text mean that box.
const base = (name) => name.replace(/-\d+$/, "");
function boxOf(word, tasks) {
  const w = word.trim().replace(/-0\.\.n$/, "");
  for (const c of [w, base(w), w.replace(/s$/, ""), w.replace(/ies$/, "y")]) if (tasks.has(c)) return c;
  return null;
}

function model(t) {
  const tasks = new Map();
  for (const x of t.tasks) {
    const b = tasks.get(base(x.name)) || { id: base(x.name), kind: "task", list: [] };
    b.list.push(x);
    tasks.set(b.id, b);
  }
  const nodes = new Map([...tasks].map(([k, v]) => ["t:" + k, v]));
  const edges = [];
  const end = (words) => words.split(",").map((w) => {
    const b = boxOf(w, tasks);
    if (b) return "t:" + b;
    if (OUTSIDE.has(w.trim())) return null;
    const id = "o:" + w.trim();
    if (!nodes.has(id)) nodes.set(id, { id: w.trim(), kind: "out", list: [] });
    return id;
  }).filter(Boolean);
  for (const q of [...t.queues, ...t.buses]) {
    if (HIDE.has(q.name)) continue;
    const id = "q:" + q.name;
    nodes.set(id, { id: q.name, kind: "queue", q, bus: t.buses.includes(q) });
    for (const p of end(q.producers)) edges.push([p, id]);
    for (const c of end(q.consumers)) edges.push([id, c]);
  }
  return { nodes, edges };
}

// Longest path from the left; edges that would close a circle do not count, nor those into the
// listeners, where everything begins.
function layers({ nodes, edges }) {
  const next = new Map([...nodes.keys()].map((k) => [k, []]));
  const listens = (n) => n.kind === "task" && n.list.some((t) => t.consumers.startsWith("listener"));
  for (const [a, b] of edges) if (!listens(nodes.get(b))) next.get(a).push(b);
  const state = new Map();
  const back = new Set();
  const order = [];
  const visit = (n) => {
    state.set(n, 1);
    for (const m of next.get(n)) {
      if (state.get(m) === 1) back.add(n + ">" + m);
      else if (!state.has(m)) visit(m);
    }
    state.set(n, 2);
    order.unshift(n);
  };
  const into = new Set([...next.values()].flat());
  for (const n of [...nodes.keys()].sort((a, b) => into.has(a) - into.has(b))) if (!state.has(n)) visit(n);
  const rank = new Map(order.map((n) => [n, 0]));
  for (const n of order) {
    for (const m of next.get(n)) if (!back.has(n + ">" + m)) rank.set(m, Math.max(rank.get(m), rank.get(n) + 1));
  }
  return rank;
}

function place(g) {
  const linked = new Set(g.edges.flat());
  const rank = layers(g);
  const cols = [];
  for (const k of g.nodes.keys()) if (linked.has(k)) (cols[rank.get(k)] ||= []).push(k);
  const columns = cols.filter(Boolean);
  const at = new Map();
  columns.forEach((c) => c.forEach((k, i) => at.set(k, i)));
  for (let pass = 0; pass < 4; pass++) { // near to what a box is joined with
    for (const c of pass % 2 ? [...columns].reverse() : columns) {
      const want = new Map(c.map((k) => {
        const near = g.edges.flatMap(([a, b]) => (a === k ? [at.get(b)] : b === k ? [at.get(a)] : []));
        return [k, near.length ? near.reduce((x, y) => x + y, 0) / near.length : at.get(k)];
      }));
      c.sort((a, b) => want.get(a) - want.get(b)).forEach((k, i) => at.set(k, i));
    }
  }
  const tall = Math.max(...columns.map((c) => c.length));
  const H = 44;
  const pos = new Map();
  columns.forEach((c, x) => c.forEach((k, i) => {
    pos.set(k, { x: 8 + x * (W + GAP_X), y: 8 + i * (H + GAP_Y) + ((tall - c.length) * (H + GAP_Y)) / 2, h: H });
  }));
  return { pos, width: columns.length * (W + GAP_X) - GAP_X + 16, height: tall * (H + GAP_Y) + 4 };
}

const total = (q, names) => names.reduce((n, k) => n + (q.samples[k] || 0), 0);
// The state of a queue is open until it is closed; that of another server is its breaker's, which is
// closed while all is well.
function queueState(q, drops) {
  const fill = q.capacity ? q.depth / q.capacity : 0;
  return fill > 0.9 || (q.producers === TARGET ? q.state === "open" : q.state === "closed") ? "bad" : fill > 0.5 || drops > 0 ? "warn" : "";
}
function taskState(list) {
  const down = list.some((t) => !["up", "running", "ended"].includes(t.state));
  return down ? "bad" : list.some((t) => t.samples.service_restarts_total || t.samples.task_stuck_total) ? "warn" : "";
}

function draw(g, lay, rates) {
  const kids = g.edges.map(([a, b]) => {
    const p = lay.pos.get(a);
    const q = lay.pos.get(b);
    const x1 = p.x + W;
    const y1 = p.y + p.h / 2;
    const y2 = q.y + q.h / 2;
    const queue = g.nodes.get(a).q || g.nodes.get(b).q;
    const flow = (rates.get(queue.name) || 0) > 0 ? " flow" : "";
    const bend = q.x > p.x ? (q.x - x1) / 2 : 60;
    return s("path", { class: "edge" + flow, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${q.x - bend} ${y2} ${q.x} ${y2}` });
  });
  for (const [k, n] of g.nodes) {
    const p = lay.pos.get(k);
    if (!p) continue;
    const tr = { transform: `translate(${p.x} ${p.y})` };
    const name = (text) => s("text", { class: "name", x: 8, y: 18 }, text.length > 16 ? text.slice(0, 15) + "\u2026" : text);
    if (n.kind === "queue") {
      const lost = total(n.q, ["queue_dropped_total", "busy_rejections_total", "bus_lagged_total"]);
      const fill = n.bus || !n.q.capacity ? 0 : Math.min(1, n.q.depth / n.q.capacity);
      kids.push(s("g", { class: `queue ${n.bus ? "" : queueState(n.q, n.q.samples.queue_dropped_total || 0)}`, "data-queue": n.id, ...tr },
        s("title", {}, `${n.id}: ${n.q.depth} of ${n.q.capacity}; when full ${n.q.policy}: ${n.q.drop}`),
        s("rect", { class: "box", width: W, height: p.h, rx: 22 }),
        s("rect", { class: "fill", width: Math.max(fill > 0 ? 8 : 0, W * fill), height: p.h, rx: Math.min(22, Math.max(4, (W * fill) / 2)) }),
        s("text", { class: "name", x: 14, y: 18 }, n.id.length > 14 ? n.id.slice(0, 13) + "\u2026" : n.id),
        s("text", { x: 14, y: 34 }, n.bus ? `bus \u00b7 ${si(rates.get(n.id) || 0)}/s` : `${si(n.q.depth)} / ${si(n.q.capacity)} \u00b7 ${si(rates.get(n.id) || 0)}/s${lost ? ` \u00b7 ${si(lost)}!` : ""}`)));
    } else if (n.kind === "task") {
      const one = n.list[0];
      const restarts = n.list.reduce((x, t) => x + (t.samples.service_restarts_total || 0), 0);
      kids.push(s("g", { class: `task ${taskState(n.list)}`, "data-task": n.id, ...tr },
        s("title", {}, `${n.id}: ${one.consumers}; restart ${one.policy}; ${one.drop}`),
        s("rect", { width: W, height: p.h, rx: 6 }), name(n.id + (n.list.length > 1 ? ` \u00d7${n.list.length}` : "")),
        s("text", { x: 8, y: 34 }, restarts ? `${restarts} restarts` : one.consumers.split(",").pop().trim())));
    } else {
      kids.push(s("g", { class: "out", ...tr }, s("rect", { width: W, height: p.h, rx: 6 }), s("text", { x: 8, y: 26 }, n.id.length > 20 ? n.id.slice(0, 19) + "\u2026" : n.id)));
    }
  }
  const el = s("svg", { class: "topo", width: "100%", viewBox: `0 0 ${lay.width} ${lay.height}`, role: "img", "aria-label": "Tasks and queues; the tables below say the same" }, kids);
  el.style.minWidth = `${lay.width * SMALLEST}px`;
  el.style.maxWidth = `${lay.width}px`;
  return el;
}

function tables(t, rates) {
  return [
    h("section", { class: "card" }, h("h2", {}, "Queues"), table(
      ["queue", ["depth", "num"], ["most", "num"], ["room", "num"], ["per s", "num"], ["refused", "num"], ["dropped", "num"], "when full"],
      [...t.queues, ...t.buses].map((q) => [q.name, count(q.depth), count(q.samples.queue_depth_max || 0), count(q.capacity), si(rates.get(q.name) || 0),
        count(q.samples.busy_rejections_total || 0), count((q.samples.queue_dropped_total || 0) + (q.samples.bus_lagged_total || 0)), `${q.policy}: ${q.drop}`]), "queues")),
    h("section", { class: "card" }, h("h2", {}, "Tasks"), table(
      ["task", "state", "kind", ["handled", "num"], ["failed jobs", "num"], ["restarts", "num"], ["stuck", "num"], "drain"],
      t.tasks.map((x) => [x.name, pill(taskState([x]) || "ok", x.state), x.consumers, count(x.samples.task_handled_total || 0), count(x.samples.task_jobs_failed_total || 0),
        count(x.samples.service_restarts_total || 0), count(x.samples.task_stuck_total || 0), x.drop]), "tasks")),
  ];
}

export default {
  title: "Topology",
  render(root, [wanted]) {
    const names = [...live.services.keys()];
    const name = names.includes(wanted) ? wanted : names[0];
    const state = h("span", {});
    const box = h("div", { class: "scroll card", tabindex: "0", role: "region", "aria-label": "graph" }, waiting());
    const more = h("div", { class: "grid" });
    let before = null;
    let shape = "";
    let lay = null;
    root.append(head("Topology", h("div", { class: "tabs" }, names.map((n) =>
      h("button", { "aria-pressed": String(n === name), onclick: () => { location.hash = `#/topology/${n}`; } }, titles[n]))), state), box, h("p", {}, ""), more);
    const look = async () => {
      try {
        const t = await json(`/topology/${name}`);
        const now = performance.now();
        const rates = new Map();
        for (const q of [...t.queues, ...t.buses]) {
          const sent = q.samples.queue_sent_total ?? q.samples.bus_published_total ?? q.samples.http_requests_total ?? 0;
          const old = before && before.sent.get(q.name);
          if (old !== undefined && old !== null) rates.set(q.name, Math.max(0, (sent - old) / ((now - before.at) / 1000)));
          q.sent = sent;
        }
        before = { at: now, sent: new Map([...t.queues, ...t.buses].map((q) => [q.name, q.sent])) };
        const g = model(t);
        const key = [...g.nodes.keys()].join();
        if (key !== shape) { shape = key; lay = place(g); }
        box.replaceChildren(draw(g, lay, rates));
        more.replaceChildren(...tables(t, rates));
      } catch (e) {
        if (e.status !== 401) { box.replaceChildren(failed(e, look)); more.replaceChildren(); before = null; }
      }
    };
    const tell = () => {
      const v = live.services.get(name);
      if (!v) return;
      const breakers = Object.entries(v.breakers);
      state.replaceChildren(pill(...states[v.state]), " ", ...breakers.map(([n, st]) => pill(["ok", "bad", "warn"][st], `breaker ${n}: ${["closed", "open", "half open"][st]}`)));
    };
    look();
    tell();
    const stops = [every(live.pollMs, look), live.on(tell)];
    return () => stops.forEach((f) => f());
  },
};
