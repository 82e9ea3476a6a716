// SPDX-License-Identifier: Apache-2.0
// Ledger: recent entries, accounts, supply, roots, and receipts checked in this browser.
import { accountLink, card, count, empty, failed, h, hash, head, money, part, stat, table, when } from "./ui.js";
import { json, live, text } from "./live.js";
import { verifyReceipt } from "./verify.js";

const RECENT = 20;
const known = new Map(); // seq -> entry; entries never change
async function entry(seq) {
  if (!known.has(seq)) {
    known.set(seq, await json(`/ledger/entries/${seq}`));
    if (known.size > 500) known.delete(known.keys().next().value);
  }
  return known.get(seq);
}
const entryLink = (seq) => h("a", { href: `#/ledger/entry/${seq}` }, count(seq));
const entryRow = (e, more) => ({ key: e.seq, cells: [entryLink(e.seq), when(e.ts), e.kind, accountLink(e.account), e.to ? accountLink(e.to) : "", money(e.amount), e.asset, ...more] });
const ENTRY_COLUMNS = [["seq", "num"], "time", "kind", "account", "to", ["amount", "num"], "asset"];

// ---- receipts ------------------------------------------------------------------------------------

function save(name, content) {
  const url = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
function verdict(r) {
  const e = r.entry;
  return [
    r.good ? h("p", { class: "note ok", role: "status" }, h("b", {}, "Genuine. "), "The entry is in the ledger that signed this checkpoint.") :
      r.steps.some((x) => x.ok === false) ? h("p", { class: "note bad", role: "alert" }, h("b", {}, "Refused. "), r.steps.find((x) => x.ok === false).text, ".") :
        h("p", { class: "note warn", role: "status" }, h("b", {}, "Consistent, but not proven. "), "The entry leads to the root of the checkpoint; give the ledger's verifier key to check who signed it."),
    h("ul", { class: "steps" }, r.steps.map((x) => h("li", { class: x.ok ? "yes" : x.ok === null ? "skip-step" : "no" }, x.ok ? "\u2713" : x.ok === null ? "\u2013" : "\u2717", h("span", {}, x.text)))),
    e && !r.steps.some((x) => x.ok === false) && h("dl", { class: "rows" }, Object.entries({ kind: e.kind, amount: `${money(e.amount)} ${e.asset}`, account: e.account, to: e.to, memo: e.memo, id: e.id, time: new Date(e.ts).toISOString() })
      .filter(([, v]) => v).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
  ];
}
function verifier() {
  const out = h("div", { id: "verdict" });
  const key = h("input", { id: "vkey", name: "vkey", autocomplete: "off", spellcheck: "false", value: live.session.ledger_key || "", placeholder: "NAME+ID+BASE64" });
  let last = null;
  const check = async (content) => { last = content; out.replaceChildren(...verdict(await verifyReceipt(content, key.value.trim())).filter(Boolean)); };
  const file = h("input", { type: "file", id: "receipt-file", "aria-label": "receipt file", onchange: async () => { if (file.files[0]) check(await file.files[0].text()); } });
  const drop = h("div", {
    class: "drop", ondragover: (e) => { e.preventDefault(); drop.classList.add("over"); }, ondragleave: () => drop.classList.remove("over"),
    ondrop: async (e) => { e.preventDefault(); drop.classList.remove("over"); if (e.dataTransfer.files[0]) check(await e.dataTransfer.files[0].text()); },
  }, h("p", {}, h("b", {}, "Drop a receipt here"), " or choose a file"), file);
  key.addEventListener("change", () => { if (last) check(last); });
  const el = card("Check a receipt", h("p", {}, "Proof and signature are computed in this browser; the file goes nowhere."), drop,
    h("p", {}, ""), h("label", {}, "Verifier key of the ledger", key), h("p", {}, ""), out);
  el.check = check;
  return el;
}

// ---- pages ---------------------------------------------------------------------------------------

function searchForm() {
  const input = h("input", { name: "account", required: true, "aria-label": "account, entry number or id", placeholder: "account, seq or entry id", autocomplete: "off", spellcheck: "false" });
  return h("form", { class: "row", onsubmit: (e) => {
    e.preventDefault();
    const v = input.value.trim();
    if (v) location.hash = /^\d+$/.test(v) ? `#/ledger/entry/${v}` : /^tx_/.test(v) ? `#/ledger/id/${encodeURIComponent(v)}` : `#/ledger/account/${encodeURIComponent(v)}`;
  } }, input, h("button", {}, "Find"));
}

function main(root) {
  const heads = h("div", { class: "card" });
  const recent = h("div", {});
  const supply = h("div", {});
  const roots = h("div", {});
  let at = -1;
  root.append(head("Ledger", searchForm()), h("div", { class: "grid" }, heads),
    h("div", { class: "grid" }, card("Recent entries", recent)),
    h("div", { class: "grid cols-2" }, verifier(), h("div", {}, card("Supply", supply), h("p", {}, ""), card("Latest roots", roots))));
  const load = async () => {
    try {
      const top = await json("/ledger/head");
      heads.replaceChildren(h("dl", { class: "stats wide" }, stat("entries", count(top.seq)), stat("last commit", top.ts ? when(top.ts) : "\u2013"), h("div", {}, h("dt", {}, "root"), h("dd", {}, hash(top.root, 24)))));
      if (top.seq === at) return;
      const from = Math.max(1, top.seq - RECENT + 1);
      const seqs = [];
      for (let i = top.seq; i >= from; i--) seqs.push(i);
      const [rows, sup, rts] = await Promise.all([Promise.all(seqs.map(entry)), json("/ledger/supply"),
        json(`/ledger/roots?since=${Math.max(0, top.seq - 8)}&limit=8`)]);
      const fresh = at;
      at = top.seq;
      recent.replaceChildren(rows.length ? table(ENTRY_COLUMNS, rows.map((r) => ({ ...entryRow(r.entry, []), class: fresh >= 0 && r.entry.seq > fresh ? "new" : null })), "recent entries")
        : empty("No entries yet", "The first issue of an amount makes the first entry."));
      supply.replaceChildren(sup.assets.length ? table(["asset", ["in circulation", "num"]], sup.assets.map((a) => [a.asset, money(a.supply)]), "supply") : empty("Nothing was issued", ""));
      roots.replaceChildren(rts.roots.length ? table([["up to", "num"], "time", "root"], rts.roots.reverse().map((r) => [entryLink(r.seq), when(r.ts), hash(r.root, 20)]), "roots") : empty("No roots yet", ""));
    } catch (e) {
      at = -1;
      if (!recent.firstChild || e.status !== 401) recent.replaceChildren(failed(e, load));
    }
  };
  load();
  let due = 0;
  return live.on(() => { // the live stream says when there is something new
    const v = live.services.get("ledger");
    if (v && (v.x.head_seq !== at || v.state === "down") && Date.now() - due > 900) { due = Date.now(); load(); }
  });
}

function account(root, name) {
  const bal = h("div", {});
  const list = h("div", {});
  const more = h("p", {});
  const rows = [];
  let seen = -1;
  root.append(head("Account", searchForm()), h("div", { class: "grid" }, h("section", { class: "card" }, h("h2", { class: "mono" }, name), bal), card("History", list, more)));
  const path = `/ledger/accounts/${name.split("/").map(encodeURIComponent).join("/")}`;
  const page = async (before) => {
    const o = await json(`${path}/entries?limit=25${before ? `&before=${before}` : ""}`);
    if (!before) rows.length = 0;
    rows.push(...o.entries);
    list.replaceChildren(table([...ENTRY_COLUMNS, ["available", "num"], ["held", "num"]], rows.map((r) => entryRow(r.entry, [money(r.available), money(r.held)])), "history"));
    more.replaceChildren(...(o.next ? [h("button", { onclick: () => page(o.next) }, "Older entries")] : []));
  };
  const load = part(bal, async () => {
    const b = await json(`${path}/balances`).catch((e) => { if (e.status === 404) return null; throw e; });
    if (!b) {
      list.replaceChildren(empty("No history", ""));
      return empty("This account has no entries", "An account begins with its first entry.");
    }
    if (b.last_seq !== seen) { seen = b.last_seq; await page(); }
    return [b.frozen ? h("p", { class: "note warn" }, "This account is frozen.") : "", h("dl", { class: "stats wide" },
      b.balances.flatMap((x) => [stat(`${x.asset} available`, money(x.available)), ...(x.held !== "0" ? [stat(`${x.asset} held`, money(x.held))] : [])]), stat("last entry", entryLink(b.last_seq)))];
  });
  let at = null;
  return live.on(() => {
    const v = live.services.get("ledger");
    if (v && at !== null && v.x.head_seq !== at) load();
    at = v && v.x.head_seq;
  });
}

function oneEntry(root, load) {
  const box = h("div", {});
  const check = verifier();
  root.append(head("Entry", searchForm()), h("div", { class: "grid cols-2" }, card(null, box), check));
  part(box, async () => {
    const r = await load();
    const e = r.entry;
    const receipt = (then) => async (ev) => {
      ev.target.disabled = true;
      try { await then(await text(`/ledger/receipt/${e.seq}`)); } catch (x) { box.append(failed(x)); }
      ev.target.disabled = false;
    };
    return [h("h2", {}, `${e.kind} ${count(e.seq)}`), h("dl", { class: "rows" }, [["amount", `${money(e.amount)} ${e.asset}`], ["account", accountLink(e.account)], ["to", e.to && accountLink(e.to)], ["memo", e.memo], ["time", new Date(e.ts).toISOString()],
      ["id", h("span", { class: "mono" }, e.id)], ["under", `${e.kid}, ${e.capability_ref}`], ["idempotency", r.batch.idem_id && h("span", { class: "mono" }, r.batch.idem_id)], ["committed", `${when(r.commit.ts)}, entries ${r.commit.seq_start}\u2013${r.commit.seq_end}`], ["root", h("span", { class: "mono" }, r.commit.root)]]
      .filter(([, v]) => v).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
    h("p", {}, ""), h("div", { class: "row" },
      h("button", { class: "main", onclick: receipt((t) => check.check(t)) }, "Check the receipt here"),
      h("button", { onclick: receipt((t) => save(`receipt-${e.seq}.txt`, t)) }, "Save the receipt"))];
  });
  return null;
}

export default {
  title: "Ledger",
  render(root, [kind, name]) {
    if (kind === "account" && name) return account(root, name);
    if (kind === "entry" && /^\d+$/.test(name)) return oneEntry(root, () => entry(Number(name)));
    if (kind === "id" && name) return oneEntry(root, () => json(`/ledger/entries/by-id/${encodeURIComponent(name)}`));
    return main(root);
  },
};
