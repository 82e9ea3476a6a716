// SPDX-License-Identifier: Apache-2.0
// Interop: what came in from outside with its verdict, the mailbox, and whether it sheds load.
import { bytes, card, count, empty, h, head, part, pill, si, stat, table, when } from "./ui.js";
import { every, json, live } from "./live.js";

const text = (v) => (v === null || v === undefined ? "" : String(v));
const KIND = { accepted: "ok", duplicate: "warn", challenge: "" };

export default {
  title: "Interop",
  render(root) {
    const stats = h("div", { class: "card" });
    const list = h("div", {});
    const box = h("dl", { class: "stats wide" });
    const topics = h("div", {});
    root.append(head("Interop"), h("div", { class: "grid" }, stats), h("div", { class: "grid" }, card("Recent deliveries", list), card("Mailbox", box, h("p", {}, ""), topics)));
    const deliveries = part(list, async () => {
      const rows = (await json("/interop/deliveries?limit=20")).deliveries;
      return rows.length ? table(["time", "provider", "event", "delivery", "verdict", "reason", ["took", "num"]],
        rows.map((d) => ({ key: d.delivery, cells: [when(d.ts), d.provider, text(d.event), h("span", { class: "mono", title: text(d.corr_id) }, text(d.delivery)), pill(KIND[d.verdict] ?? "bad", d.verdict), d.verdict === "accepted" ? "" : text(d.reason), `${count(d.took_us)} \u00b5s`] })), "deliveries")
        : empty("No deliveries yet", "Point a provider's webhook at /webhooks/PROVIDER, or send a sample: ron webhook send demo_github.");
    });
    // Topics with a leading dot are the bridge's journal: actions that are being done.
    const boxes = part(topics, async () => {
      const rows = (await json("/interop/mailbox")).topics;
      return rows.length ? table(["topic", ["ready", "num"], ["delayed", "num"], ["leased", "num"], ["dead", "num"], ["size", "num"], "oldest"],
        rows.map((t) => ({ key: t.topic, cells: [h("span", { class: "mono" }, t.topic), count(t.ready), count(t.delayed), count(t.leased), t.dead ? pill("warn", count(t.dead)) : "0", bytes(t.bytes), t.oldest_ms ? when(t.oldest_ms) : ""] })), "topics")
        : empty("No topics yet", "Accepted deliveries wait here, and what is sent with: ron mailbox send TOPIC TEXT.");
    });
    let before = "";
    const tell = () => {
      const v = live.services.get("interop");
      const x = v.x;
      stats.replaceChildren(h("dl", { class: "stats wide" }, h("div", {}, h("dt", {}, "brownout"), h("dd", {}, x.brownout ? pill("bad", "shedding load") : pill("ok", "off"))), stat("requests", si(live.value(v, "ops") / 1000), "/s"),
        stat("signatures good", count(x.verified), `of ${count(x.checked)}`), stat("duplicates", count(x.duplicates)), stat("actions", count(x.actions))));
      box.replaceChildren(stat("messages", count(x.mailbox)), stat("dead letters", count(x.dead)), stat("size", bytes(x.mailbox_bytes)));
      const key = JSON.stringify(x);
      if (before && key !== before) { deliveries(); boxes(); }
      before = key;
    };
    tell();
    const stops = [every(5000, deliveries), every(5000, boxes), live.on(tell)];
    return () => stops.forEach((f) => f());
  },
};
