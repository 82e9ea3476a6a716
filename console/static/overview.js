// SPDX-License-Identifier: Apache-2.0
// Overview: every service with its state and causes, and what they do together.
import { card, count, empty, h, head, micros, pill, si, span, stat, states, bytes } from "./ui.js";
import { chart, spark } from "./chart.js";
import { live } from "./live.js";

export const colours = { ledger: "c1", wallet: "c2", rewarder: "c3", edge: "c4", interop: "c5" };
export const titles = { ledger: "Ledger", wallet: "Wallet", rewarder: "Rewarder", edge: "Edge", interop: "Interop" };

function causes(v) {
  const list = Object.entries(v.causes);
  if (v.state === "down") list.push(["no answer", `from ${v.url}`]);
  return list.length ? h("ul", { class: "causes" }, list.map(([k, c]) => h("li", {}, h("b", {}, k.replaceAll("_", " ")), ": ", c))) : null;
}

function serviceCard(name) {
  const line = spark();
  const body = h("div", {});
  const el = h("section", { class: "card", "data-service": name, "aria-label": titles[name] }, body, line);
  el.draw = () => {
    const v = live.services.get(name);
    const [kind, text] = states[v.state];
    const up = v.state !== "down" && v.state !== "unknown";
    const get = (c) => live.value(v, c);
    const none = "\u2013";
    const open = Object.entries(v.breakers).filter(([, state]) => state);
    el.dataset.state = v.state;
    body.replaceChildren(
      h("header", {}, h("h2", {}, h("a", { href: `#/topology/${name}` }, titles[name])), pill(kind, text)),
      h("dl", { class: "stats" },
        stat(name === "ledger" ? "entries" : "requests", up ? si(get("ops") / 1000) : none, up && "/s"),
        stat("latency", up && get("mean_us") ? micros(get("mean_us")) : none),
        stat("waiting", up ? si(get("depth")) : none),
        stat("refused", up ? si(get("busy") / 1000) : none, up && "/s"),
        stat("processor", up ? (get("cpu") / 10).toFixed(1) : none, up && "%"),
        stat("memory", up ? bytes(get("rss_kib") * 1024) : none)),
      causes(v) || "",
      open.length ? h("ul", { class: "causes" }, open.map(([n, st]) => h("li", {}, h("b", {}, "breaker "), n, st === 1 ? " is open" : " is half open"))) : "",
      up && get("fill") >= 100 ? h("p", { class: "legend" }, `fullest queue: ${v.fullest}, ${(get("fill") / 10).toFixed(0)} %`) : "",
      v.restarts ? h("p", { class: "legend" }, `${count(v.restarts)} task restarts`) : "",
      h("p", { class: "legend" }, v.since ? `${text} for ${span(Date.now() - v.since)}` : ""));
    line.draw(live.series(v, "ops"));
  };
  return el;
}

export default {
  title: "Overview",
  render(root) {
    const names = [...live.services.keys()];
    if (!names.length) {
      root.append(head("Overview"), card(null, empty("No services", "This console was started without the address of a service: set services.NAME.url.")));
      return null;
    }
    const series = (column, by) => () => names.map((n) => ({
      name: titles[n], colour: colours[n],
      points: live.series(live.services.get(n), column).map(([t, v]) => [t, v === null ? null : v / by]),
    }));
    const cards = names.map(serviceCard);
    const sum = h("span", { class: "legend" });
    const charts = [
      chart("Throughput, per second", series("ops", 1000), si, 5),
      chart("Latency, mean", series("mean_us", 1), micros, 1000),
      chart("Fullest queue", series("fill", 10), (v) => `${v.toFixed(0)} %`, 20),
      chart("Refused for want of room, per second", series("busy", 1000), si, 5),
    ];
    root.append(head("Overview", sum), h("div", { class: "grid cols-5" }, cards), h("div", { class: "grid pairs" }, charts));
    const draw = () => {
      for (const c of [...cards, ...charts]) c.draw();
      const ready = names.filter((n) => ["ready", "degraded"].includes(live.services.get(n).state)).length;
      sum.replaceChildren(pill(ready === names.length ? "ok" : "bad", `${ready} of ${names.length} services ready`));
    };
    draw();
    return live.on(draw);
  },
};
