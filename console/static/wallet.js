// SPDX-License-Identifier: Apache-2.0
// Wallet: issue, transfer and burn, with the idempotency key in sight: sent again, a request gives
// the same receipt and moves nothing.
import { accountLink, card, count, h, head, money, si, stat, table, when } from "./ui.js";
import { json, live, post } from "./live.js";

const OPS = { transfer: "Transfer", issue: "Issue", burn: "Burn" };
const newKey = () => `con-${Date.now().toString(36)}-${[...crypto.getRandomValues(new Uint8Array(5))].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
const done = []; // of this tab

function receipt(r, replayed) {
  return h("div", { class: `note ${replayed ? "warn" : "ok"}`, role: "status", id: "receipt" },
    h("p", {}, h("b", {}, replayed ? "Known already. " : "Done. "), replayed ? "This key was used with the same request: here is its receipt again, and nothing was moved." : `Entry ${r.ledger_seq_end} of the ledger.`),
    h("dl", { class: "rows" }, [["amount", `${money(r.amount_minor)} ${r.asset}`], ["from", r.from && accountLink(r.from)], ["to", r.to && accountLink(r.to)], ["time", when(r.ts)],
      ["entry", h("a", { href: `#/ledger/entry/${r.ledger_seq_end}` }, count(r.ledger_seq_end))], ["txid", h("span", { class: "mono" }, r.txid)], ["key", h("span", { class: "mono" }, r.idem)]]
      .filter(([, v]) => v).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])));
}

export default {
  title: "Wallet",
  render(root, [wanted]) {
    let op = OPS[wanted] ? wanted : "transfer";
    const may = live.session.may_write;
    const out = h("div", {});
    const stats = h("div", { class: "card" });
    const list = h("div", {});
    const balance = h("small", { class: "legend" });
    const field = (name, label, props) => h("label", { "data-field": name }, label, h("input", { name, autocomplete: "off", spellcheck: "false", disabled: !may, ...props }));
    const account = { required: true, maxlength: 256, pattern: "[A-Za-z0-9:\\/_\\-]+", title: "letters, digits and : / - _" };
    const from = field("from", "From", account);
    const to = field("to", "To", account);
    const amount = field("amount_minor", "Amount, in minor units", { required: true, inputmode: "numeric", pattern: "[1-9][0-9]{0,38}", title: "a whole number above 0" });
    const asset = field("asset", "Asset", { required: true, value: "roc", pattern: "[a-z][a-z0-9._\\-]{0,31}" });
    const memo = field("memo", "Memo (optional)", { maxlength: 256 });
    const key = field("key", "Idempotency key", { required: true, value: newKey(), pattern: "[A-Za-z0-9._:\\-]{1,64}" });
    const val = (f) => f.querySelector("input").value.trim();
    const send = h("button", { class: "main", type: "submit", disabled: !may }, "");
    const tabs = h("div", { class: "tabs", role: "group", "aria-label": "operation" }, Object.entries(OPS).map(([id, title]) => h("button", { type: "button", "data-op": id, onclick: () => choose(id) }, title)));
    const form = h("form", { onsubmit: submit }, tabs, from, balance, to, h("div", { class: "row" }, amount, asset), memo,
      h("div", { class: "row" }, key, h("button", { type: "button", disabled: !may, onclick: () => { key.querySelector("input").value = newKey(); } }, "New key")),
      h("p", { class: "legend" }, "The same key with the same request is never carried out twice. Keep it to try again after a failure."), h("div", {}, send));

    function choose(id) {
      op = id;
      for (const b of tabs.children) b.setAttribute("aria-pressed", String(b.dataset.op === op));
      for (const [f, show] of [[from, op !== "issue"], [to, op !== "burn"]]) { f.hidden = !show; f.querySelector("input").disabled = !show || !may; }
      balance.hidden = op === "issue";
      send.textContent = OPS[op];
    }
    async function submit(e) {
      e.preventDefault();
      send.disabled = true;
      const body = { asset: val(asset), amount_minor: val(amount), ...(op !== "issue" && { from: val(from) }), ...(op !== "burn" && { to: val(to) }), ...(val(memo) && { memo: val(memo) }) };
      try {
        const r = await post(`/wallet/v1/${op}`, body, { "Idempotency-Key": val(key) });
        const got = await r.json();
        const replayed = r.headers.get("Idempotent-Replayed") === "true";
        out.replaceChildren(receipt(got, replayed));
        done.unshift({ ...got, replayed });
        done.length = Math.min(done.length, 20);
        drawDone();
        lookBalance();
      } catch (x) {
        out.replaceChildren(h("div", { class: "note bad", role: "alert" }, h("p", {}, h("b", {}, `${x.code || "Failed"}. `), x.message),
          h("p", {}, x.code === "IDEMPOTENCY_CONFLICT" ? "Nothing was moved. Another request needs a new key." : "If you do not know whether it was carried out, send it again with the same key.")));
      }
      send.disabled = !may;
    }
    async function lookBalance() {
      balance.textContent = "";
      if (!val(from) || op === "issue") return;
      const b = await json(`/wallet/v1/balance?account=${encodeURIComponent(val(from))}&asset=${encodeURIComponent(val(asset))}`).catch(() => null);
      balance.textContent = b ? `${money(b.amount_minor)} ${val(asset)} available` : "";
    }
    from.querySelector("input").addEventListener("change", lookBalance);
    function drawDone() {
      list.replaceChildren(done.length ? table(["time", "what", "from", "to", ["amount", "num"], "asset", "result"],
        done.map((r) => [when(r.ts), r.op, r.from ? accountLink(r.from) : "", r.to ? accountLink(r.to) : "", money(r.amount_minor), r.asset, r.replayed ? "replayed" : h("a", { href: `#/ledger/entry/${r.ledger_seq_end}` }, `entry ${count(r.ledger_seq_end)}`)]), "done")
        : h("p", { class: "legend" }, "What you do here is listed here until the tab is closed. The ledger keeps it for good."));
    }
    const tell = () => {
      const v = live.services.get("wallet");
      stats.replaceChildren(h("dl", { class: "stats wide" }, stat("requests", si(live.value(v, "ops") / 1000), "/s"), stat("all so far", count(v.x.requests)), stat("rejected", count(v.x.rejects)), stat("replayed", count(v.x.replays)), stat("keys kept", count(v.x.idem_kept))));
    };
    choose(op);
    drawDone();
    tell();
    root.append(head("Wallet"), may ? "" : h("p", { class: "note" }, h("b", {}, "Read only. "), live.session.role === "operate" ? "This console was started without services.wallet.write_token_file." : "This session came by a link to look; an operator's link may also write."),
      h("div", { class: "grid" }, stats), h("div", { class: "grid cols-2" }, card("Move value", form), h("div", {}, out, card("Done in this tab", list))));
    return live.on(tell);
  },
};
