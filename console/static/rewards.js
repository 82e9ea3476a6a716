// SPDX-License-Identifier: Apache-2.0
// Rewards: epochs and their states, the payouts of one with their distribution, and the proof of a
// payee, which is checked in this browser.
import { accountLink, card, count, empty, failed, h, hash, head, money, part, pill, stat, table, when } from "./ui.js";
import { bars } from "./chart.js";
import { json, live, text } from "./live.js";
import { hex, leafHash, rootOf, unhex } from "./verify.js";

const KIND = { emitted: "ok", sealed: "ok", computing: "", reserved: "", emitting: "warn", withheld: "warn", quarantined: "bad", retired: "" };
const SHOWN = 200;

async function epochs() {
  const all = [];
  let after = "";
  do {
    const page = await json(`/rewarder/rewarder/epochs?limit=500${after ? `&after=${encodeURIComponent(after)}` : ""}`);
    all.push(...page.epochs);
    after = page.next;
  } while (after && all.length < 2000);
  return all.sort((a, b) => b.changed_millis - a.changed_millis);
}

function list(root) {
  const box = h("div", {});
  const stats = h("div", { class: "card" });
  root.append(head("Rewards"), h("div", { class: "grid" }, stats), card("Epochs", box));
  const load = part(box, async () => {
    const all = await epochs();
    return all.length ? table(["epoch", "state", ["paid", "num"], ["entries", "num"], "changed"],
      all.map((e) => ({ key: e.epoch_id, cells: [h("a", { href: `#/rewards/${encodeURIComponent(e.epoch_id)}` }, e.epoch_id), pill(KIND[e.state] || "", e.state), money(e.payout_minor_units), count(e.intents), when(e.changed_millis)] })), "epochs")
      : empty("No epochs yet", "An epoch appears here as soon as its payouts are asked for.");
  });
  let before = "";
  const tell = () => {
    const v = live.services.get("rewarder");
    stats.replaceChildren(h("dl", { class: "stats wide" }, stat("runs", count(v.x.runs_ok)), stat("entries settled", count(v.x.intents)), stat("withheld", count(v.x.withheld)), stat("quarantines", count(v.x.quarantines))));
    const key = JSON.stringify(v.x);
    if (before && key !== before) load();
    before = key;
  };
  tell();
  return live.on(tell);
}

// The payouts in steps of equal width on a scale of doublings: rewards are rarely even.
function distribution(rows) {
  const logs = rows.map((r) => Math.log2(Number(r.amount_minor_units)));
  const lo = Math.floor(Math.min(...logs));
  const hi = Math.max(lo + 1, Math.ceil(Math.max(...logs) + 1e-9));
  const n = Math.min(16, Math.max(4, (hi - lo) * 2));
  const steps = Array.from({ length: n }, () => 0);
  for (const l of logs) steps[Math.min(n - 1, Math.floor(((l - lo) / (hi - lo)) * n))]++;
  const at = (i) => 2 ** (lo + ((hi - lo) * i) / n);
  const say = (v) => (v >= 1e6 ? `${(v / 1e6).toPrecision(2)}M` : v >= 1e4 ? `${Math.round(v / 1e3)}k` : String(Math.round(v)));
  return bars("payees by amount", steps.map((value, i) => ({ value, label: say(at(i)), title: `${value} payees from ${say(at(i))} to ${say(at(i + 1))}` })), (v) => (Number.isInteger(v) ? count(v) : ""));
}

async function proofNode(epoch, account) {
  const p = await json(`/rewarder/rewarder/epochs/${encodeURIComponent(epoch)}/payouts/${account.split("/").map(encodeURIComponent).join("/")}`);
  const line = `{"account":${JSON.stringify(p.account)},"amount_minor_units":"${p.amount_minor_units}","score":"${p.score}"}`;
  let good = false;
  try {
    const root = await rootOf(await leafHash(new TextEncoder().encode(line)), p.index, p.count, p.hashes.map(unhex));
    good = hex(root) === p.root && p.root === p.manifest.payouts.root && p.account === account && p.count === p.manifest.payouts.count;
  } catch { good = false; }
  return h("div", { id: "proof" }, h("p", { class: `note ${good ? "ok" : "bad"}`, role: "status" }, h("b", {}, good ? "Proven. " : "Not proven. "), good ? `Line ${p.index + 1} of ${count(p.count)}: ${p.hashes.length} hashes lead to the root of the run.` : "The hashes do not lead to the root of the run."),
    h("dl", { class: "rows" }, [["account", accountLink(p.account)], ["paid", money(p.amount_minor_units)], ["score", money(p.score)], ["root", hash(p.root, 32)], ["commitment", hash(p.commitment, 32)], ["attested by", p.manifest.attestation ? p.manifest.attestation.key_id : "nobody"]].flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
    h("p", { class: "legend" }, "Computed in this browser. The attestation is checked by ", h("code", {}, "ron reward check-proof"), "."));
}

function one(root, id) {
  const top = h("div", {});
  const plot = h("div", {});
  const pay = h("div", {});
  const proof = h("div", {}, empty("Proof of a payee", "Choose a payee in the table."));
  const path = `/rewarder/rewarder/epochs/${encodeURIComponent(id)}`;
  root.append(head(`Epoch ${id}`, h("a", { href: "#/rewards" }, "All epochs")), h("div", { class: "grid" }, card(null, top)), h("div", { class: "grid cols-2" }, card("Distribution", plot), card("Proof", proof)), card("Payouts", pay));
  const prove = async (account) => {
    try { proof.replaceChildren(await proofNode(id, account)); proof.scrollIntoView({ block: "nearest" }); } catch (e) { proof.replaceChildren(failed(e)); }
  };
  const load = part(top, async () => {
    const [st, m] = await Promise.all([json(`${path}/settlement`), json(path).catch(() => null)]);
    const done = st.intents ? Math.floor((st.intents_done / st.intents) * 100) : 100;
    return [h("p", {}, pill(KIND[st.state] || "", st.state), st.reason ? ` ${st.reason}` : ""), h("dl", { class: "stats wide" },
      stat("paid", money(st.payout_minor_units)), stat("not paid", money(st.residual_minor_units)), stat("settled", `${done} %`, `${count(st.intents_done)} of ${count(st.intents)}`),
      m && m.totals && stat("pool", money(m.totals.pool_minor_units)), m && m.policy && stat("policy", m.policy.id, m.policy.signed ? "signed" : "not signed"),
      st.ledger_seq_first && h("div", {}, h("dt", {}, "ledger entries"), h("dd", {}, h("a", { href: `#/ledger/entry/${st.ledger_seq_first}` }, `${count(st.ledger_seq_first)}\u2013${count(st.ledger_seq_last)}`)))),
    m && m.commitment ? h("p", { class: "legend" }, "commitment ", h("span", { class: "mono" }, m.commitment)) : ""];
  });
  part(pay, async () => {
    const rows = (await text(`${path}/payouts`)).split("\n").filter(Boolean).map((l) => JSON.parse(l));
    plot.replaceChildren(rows.length ? distribution(rows) : empty("Nobody was paid", ""));
    const sorted = [...rows].sort((a, b) => (BigInt(b.amount_minor_units) > BigInt(a.amount_minor_units) ? 1 : -1));
    return [table(["account", ["amount", "num"], ["score", "num"], ""], sorted.slice(0, SHOWN).map((r) => [accountLink(r.account), money(r.amount_minor_units), money(r.score), h("button", { onclick: () => prove(r.account), "aria-label": `prove ${r.account}` }, "Prove")]), "payouts"),
      rows.length > SHOWN ? h("p", { class: "legend" }, `The ${SHOWN} largest of ${count(rows.length)}.`) : ""];
  });
  let before = null;
  return live.on(() => {
    const v = live.services.get("rewarder");
    if (before !== null && v.x.intents !== before) load();
    before = v.x.intents;
  });
}

export default { title: "Rewards", render: (root, [id]) => (id ? one(root, id) : list(root)) };
