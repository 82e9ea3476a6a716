// SPDX-License-Identifier: Apache-2.0
// The frame: which page, the navigation, the theme, and the way in.
import { failed, h, span, states, waiting } from "./ui.js";
import { connect, leave, live } from "./live.js";
import overview from "./overview.js";

// The others are loaded when they are opened.
const pages = {
  overview: ["Overview", async () => overview],
  topology: ["Topology", async () => (await import("./topology.js")).default],
  ledger: ["Ledger", async () => (await import("./ledger.js")).default, "ledger"],
  wallet: ["Wallet", async () => (await import("./wallet.js")).default, "wallet"],
  rewards: ["Rewards", async () => (await import("./rewards.js")).default, "rewarder"],
  edge: ["Edge", async () => (await import("./edge.js")).default, "edge"],
  interop: ["Interop", async () => (await import("./interop.js")).default, "interop"],
};
const main = document.getElementById("main");
const nav = document.getElementById("nav");
const status = document.getElementById("status");
let stop = null;
let turn = 0;

const where = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
const shown = () => Object.entries(pages).filter(([, p]) => !p[2] || live.has(p[2]));

let drawn = "";
function drawNav() {
  const at = pages[where()[0]] ? where()[0] : "overview"; // as go() does
  const key = at + shown().map(([id, p]) => `${id}${p[2] ? live.services.get(p[2]).state : ""}`);
  if (key === drawn && nav.firstChild) return; // a link that has the focus keeps it
  drawn = key;
  nav.replaceChildren(...shown().map(([id, [title, , svc]]) => h("a", { href: `#/${id}`, "aria-current": at === id ? "page" : null },
    title, svc ? h("span", { class: `dot ${states[live.services.get(svc).state][0]}`, title: states[live.services.get(svc).state][1] }) : null)));
  const here = nav.querySelector("[aria-current]");
  if (here) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2; // small screens
}

function dark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
function theme(next) {
  if (next) { document.documentElement.dataset.theme = next; localStorage.setItem("theme", next); }
}
let told = "";
function drawStatus() {
  const who = live.session.may_write ? "operator" : live.session.role === "operate" ? "operator, no write token" : "read only";
  const text = `${live.connected}${who}${dark()}`;
  if (text === told) return; // a live region speaks only when something changed
  told = text;
  status.replaceChildren(
    h("span", { class: `pill ${live.connected ? "ok" : "warn"}` }, live.connected ? "live" : "reconnecting"),
    h("span", { class: "long", title: `until ${new Date(live.session.until_ms).toLocaleString("en")}` }, `${who}, ${span(live.session.until_ms - Date.now())} left`),
    h("button", { onclick: () => { theme(dark() ? "light" : "dark"); told = ""; drawStatus(); } }, dark() ? "Light" : "Dark"),
    h("button", { class: "long", onclick: async () => { await leave().catch(() => {}); location.hash = "#/enter"; } }, "Sign out"));
}

function enter() {
  nav.replaceChildren();
  status.replaceChildren();
  document.title = "ron console";
  main.replaceChildren(h("div", { class: "alone" }, h("h1", {}, "This browser has no session"),
    h("p", {}, "The console is opened by a link that works once. Whoever runs the system can make one:"),
    h("p", {}, h("code", {}, "ron console link")),
    h("p", {}, "and ", h("code", {}, "ron up"), " prints one when it starts. Sessions end after some hours and when the console restarts.")));
}

async function go() {
  const [id, ...rest] = where();
  const mine = ++turn;
  if (stop) stop();
  stop = null;
  if (id === "enter") { enter(); return; }
  if (!live.session) { await start(); return; }
  const page = pages[id] && (!pages[id][2] || live.has(pages[id][2])) ? pages[id] : pages.overview;
  drawNav();
  drawStatus();
  main.replaceChildren(waiting());
  try {
    const p = await page[1]();
    if (mine !== turn) return;
    document.title = `${p.title} - ron console`;
    main.replaceChildren();
    stop = p.render(main, rest) || null;
  } catch (e) {
    main.replaceChildren(failed(e, go));
  }
}

async function start() {
  main.replaceChildren(waiting());
  try {
    await connect();
    live.on(() => { if (where()[0] !== "enter") { drawNav(); drawStatus(); } });
    go();
  } catch (e) {
    if (e.status === 401) enter();
    else main.replaceChildren(failed(e, start));
  }
}

theme(localStorage.getItem("theme"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { told = ""; if (live.session) drawStatus(); });
addEventListener("hashchange", () => { go(); main.focus({ preventScroll: true }); scrollTo(0, 0); });
// Digits open pages: 1 overview, 2 topology, ...
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) || !live.session) return;
  const page = /^[1-9]$/.test(e.key) && shown()[Number(e.key) - 1];
  if (page) location.hash = `#/${page[0]}`;
});
start();
