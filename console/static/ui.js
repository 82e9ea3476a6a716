// SPDX-License-Identifier: Apache-2.0
// Small things that all pages are made of: elements, numbers as text, and the four states of a part
// of a page (waiting, empty, failed, filled). Text always goes in as text, never as markup.

function fill(el, props, kids) {
  for (const [k, v] of Object.entries(props || {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) el.addEventListener(k.slice(2), v);
    else if (k === "class") el.setAttribute("class", v);
    else el.setAttribute(k, v === true ? "" : v);
  }
  el.append(...kids.flat(9).filter((x) => x !== null && x !== undefined && x !== false));
  return el;
}
export const h = (tag, props, ...kids) => fill(document.createElement(tag), props, kids);
export const s = (tag, props, ...kids) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, kids);

// ---- numbers -------------------------------------------------------------------------------------

const plain = new Intl.NumberFormat("en");
export const count = (n) => plain.format(n);
// Amounts are decimal texts of up to 39 digits: never a JavaScript number.
export const money = (text) => String(text).replace(/\B(?=(\d{3})+$)/g, "\u202f");
export function si(n) {
  const steps = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];
  for (const [by, unit] of steps) {
    if (n >= by) return (n / (unit === "k" ? 1e3 : by)).toPrecision(3).replace(/\.?0+$/, "") + unit;
  }
  return n >= 100 || Number.isInteger(n) ? count(Math.round(n)) : n.toFixed(n < 10 ? 1 : 0);
}
export function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
}
export const micros = (us) =>
  us >= 1e6 ? `${(us / 1e6).toFixed(1)} s` : us >= 1e4 ? `${Math.round(us / 1e3)} ms` :
    us >= 1e3 ? `${(us / 1e3).toFixed(1)} ms` : `${us} \u00b5s`;
export function span(ms) {
  const sec = Math.max(0, Math.round(ms / 1000));
  if (sec < 60) return `${sec} s`;
  if (sec < 3600) return `${Math.floor(sec / 60)} min`;
  return sec < 86400 ? `${Math.floor(sec / 3600)} h ${Math.floor(sec % 3600 / 60)} min` : `${Math.floor(sec / 86400)} d`;
}
export const when = (ms) => {
  if (!ms) return "";
  const d = new Date(ms);
  const day = d.toDateString() === new Date().toDateString() ? "" : d.toISOString().slice(0, 10) + " ";
  return day + d.toTimeString().slice(0, 8);
};
export const short = (text, n = 12) => (text.length > n ? text.slice(0, n) + "\u2026" : text);

// ---- parts ---------------------------------------------------------------------------------------

export const head = (title, ...right) =>
  h("div", { class: "head" }, h("h1", {}, title), h("span", { class: "grow" }), ...right);
export const card = (title, ...kids) =>
  h("section", { class: "card" }, title && h("h2", {}, title), ...kids);
export const waiting = () => h("div", { class: "wait", role: "status", "aria-label": "loading" });
export const empty = (title, text) => h("div", { class: "empty" }, h("b", {}, title), text);
export const failed = (e, again) =>
  h("div", { class: "note bad", role: "alert" }, h("p", {}, h("b", {}, e.title || "This could not be loaded. "), " ", e.message),
    again && h("button", { onclick: again }, "Try again"));
export const pill = (kind, text) => h("span", { class: `pill ${kind}` }, text);
export const stat = (name, value, unit) =>
  h("div", {}, h("dt", {}, name), h("dd", { title: String(value) }, value, unit && h("small", {}, " " + unit)));
export const hash = (text, n = 16) => h("span", { class: "mono", title: text }, short(text, n));

// columns: [["title", "num"], ...]; rows: arrays of texts or nodes.
export function table(columns, rows, name) {
  const cls = columns.map((c) => (Array.isArray(c) ? c[1] : null));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map((c, i) => h("th", { scope: "col", class: cls[i] }, Array.isArray(c) ? c[0] : c)))),
      h("tbody", {}, rows.map((r) => {
        const cells = r.cells || r;
        return h("tr", { class: r.class, "data-key": r.key }, cells.map((v, i) => h("td", { class: cls[i] }, v)));
      }))));
}

export const states = {
  ready: ["ok", "ready"], degraded: ["warn", "degraded"], not_ready: ["warn", "not ready"],
  down: ["bad", "down"], unknown: ["", "asking"],
};
export const accountLink = (name) =>
  h("a", { href: `#/ledger/account/${encodeURIComponent(name)}`, class: "mono" }, name);

// Fills `box` with what `load` gives, with its states in between. Returns the function that loads.
export function part(box, load) {
  const run = async () => {
    if (!box.firstChild) box.replaceChildren(waiting());
    try {
      const node = await load();
      if (node) box.replaceChildren(...[node].flat());
    } catch (e) {
      if (e.name !== "AbortError") box.replaceChildren(failed(e, run));
    }
  };
  run();
  return run;
}
