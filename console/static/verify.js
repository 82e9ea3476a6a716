// SPDX-License-Identifier: Apache-2.0
// Checks a receipt of the ledger in this browser alone: nothing here asks the server. The formats
// are in docs/formats/ledger-proofs.md (C2SP tlog-proof, signed-note) and ledger-entry.md.

const HASHES_MAX = 64;
const RECEIPT_MAX = 524288;
const KINDS = ["", "Mint", "Burn", "Credit", "Debit", "Transfer", "Hold", "Capture", "Release", "Reverse", "Expire"];
const enc = new TextEncoder();

function unbase64(text) {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)) throw new Error("base64 that is not canonical");
  const out = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  if (btoa(String.fromCharCode(...out)) !== text) throw new Error("base64 that is not canonical");
  return out;
}
export const hex = (b) => [...b].map((x) => x.toString(16).padStart(2, "0")).join("");
export const unhex = (t) => Uint8Array.from(t.match(/../g) || [], (x) => parseInt(x, 16));
const join = (...parts) => {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) { out.set(p, at); at += p.length; }
  return out;
};
const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
async function sha256(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", join(...parts)));
}
export const leafHash = (data) => sha256(Uint8Array.of(0), data);

// RFC 9162 section 2.1.3.2; sizes up to 2^53.
export async function rootOf(leaf, index, size, path) {
  if (!(index >= 0 && index < size)) throw new Error("the index lies outside the tree");
  let fn = BigInt(index);
  let sn = BigInt(size) - 1n;
  let r = leaf;
  for (const p of path) {
    if (sn === 0n) throw new Error("the proof is too long");
    if ((fn & 1n) === 1n || fn === sn) {
      r = await sha256(Uint8Array.of(1), p, r);
      while ((fn & 1n) === 0n && fn !== 0n) { fn >>= 1n; sn >>= 1n; }
    } else {
      r = await sha256(Uint8Array.of(1), r, p);
    }
    fn >>= 1n;
    sn >>= 1n;
  }
  if (sn !== 0n) throw new Error("the proof is too short");
  return r;
}

// NAME+ID+BASE64(type, key)
export async function readKey(text) {
  const m = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(text.trim());
  if (!m) throw new Error("a verifier key is NAME+ID+BASE64 on one line");
  const raw = unbase64(m[3]);
  if (raw[0] !== 1 || raw.length !== 33) throw new Error("not an Ed25519 key");
  const id = (await sha256(enc.encode(m[1]), Uint8Array.of(10, 1), raw.slice(1))).slice(0, 4);
  if (hex(id) !== m[2]) throw new Error("the id of the key does not belong to it");
  return { name: m[1], id, key: raw.slice(1) };
}

const num = (t) => { if (!/^(0|[1-9]\d{0,15})$/.test(t)) throw new Error(`'${t}' is no number`); return Number(t); };

export function parseReceipt(text) {
  if (text.length > RECEIPT_MAX) throw new Error("longer than a receipt can be");
  const cut = text.indexOf("\n\n");
  if (cut < 0) throw new Error("no checkpoint in it");
  const lines = text.slice(0, cut).split("\n");
  if (lines.shift() !== "c2sp.org/tlog-proof@v1") throw new Error("it does not begin with c2sp.org/tlog-proof@v1");
  if (!lines[0] || !lines[0].startsWith("extra ")) throw new Error("it has no entry (extra)");
  const data = unbase64(lines.shift().slice(6));
  if (!lines[0] || !lines[0].startsWith("index ")) throw new Error("it has no index");
  const index = num(lines.shift().slice(6));
  const path = lines.map(unbase64);
  if (path.length > HASHES_MAX || path.some((p) => p.length !== 32)) throw new Error("a hash of the proof is damaged");
  const note = text.slice(cut + 2);
  const end = note.lastIndexOf("\n\n");
  if (end < 0) throw new Error("the checkpoint is not signed");
  const signed = note.slice(0, end + 1);
  const [origin, size, root] = signed.split("\n");
  const sigs = note.slice(end + 2).split("\n").filter(Boolean).map((l) => {
    const m = /^\u2014 (\S+) (\S+)$/.exec(l);
    if (!m) throw new Error("a signature line is damaged");
    const raw = unbase64(m[2]);
    return { name: m[1], id: raw.slice(0, 4), sig: raw.slice(4) };
  });
  return { data, index, path, signed, origin, size: num(size), root: unbase64(root || ""), sigs };
}

// The entry inside; what a person wants to compare.
export function readEntry(b) {
  const v = new DataView(b.buffer, b.byteOffset, b.length);
  const has = v.getUint8(3);
  let at = 44;
  const dec = new TextDecoder("utf-8", { fatal: true });
  const take = (wide) => {
    const n = wide ? v.getUint16(at) : v.getUint8(at);
    at += wide ? 2 : 1;
    if (at + n > b.length) throw new Error("the entry is cut off");
    at += n;
    return dec.decode(b.subarray(at - n, at));
  };
  const e = {
    kind: KINDS[v.getUint8(2)] || `kind ${v.getUint8(2)}`, ts: Number(v.getBigUint64(4)),
    amount: ((v.getBigUint64(12) << 64n) | v.getBigUint64(20)).toString(),
  };
  if (has & 4) at += 8;
  if (has & 8) at += 8;
  e.id = take(false);
  e.account = take(true);
  if (has & 1) e.to = take(true);
  e.asset = take(false);
  if (has & 2) e.ref = take(false);
  e.kid = take(false);
  e.by = take(false);
  if (has & 16) e.memo = take(true);
  if (at !== b.length) throw new Error("there are bytes behind the entry");
  return e;
}

// All steps, in order: {ok: true | false | null (not done), text}. Stops at the first that fails.
export async function verifyReceipt(text, keyText) {
  const steps = [];
  const step = (ok, t) => steps.push({ ok, text: t });
  const out = { steps, good: false, signed: false };
  if (!globalThis.crypto || !crypto.subtle) {
    step(false, "This browser computes hashes only on https or localhost");
    return out;
  }
  try {
    const r = parseReceipt(text);
    out.receipt = r;
    out.entry = readEntry(r.data);
    step(true, `It is a receipt of entry ${r.index + 1} in a tree of ${r.size}`);
    const root = await rootOf(await leafHash(r.data), r.index, r.size, r.path);
    if (!same(root, r.root)) throw new Error("The proof does not lead from the entry to the root of the checkpoint: entry or proof was changed");
    step(true, `${r.path.length === 1 ? "1 hash leads" : `${r.path.length} hashes lead`} from the entry to the root ${hex(root).slice(0, 16)}\u2026`);
    if (!keyText) {
      step(null, "No verifier key is known, so the signature of the checkpoint was not checked");
      return out;
    }
    const k = await readKey(keyText);
    if (k.name !== r.origin) throw new Error(`The checkpoint is of ${r.origin}, the key of ${k.name}`);
    const mine = r.sigs.filter((x) => x.name === k.name && same(x.id, k.id));
    if (mine.length !== 1) throw new Error("The checkpoint is not signed with this key");
    const key = await crypto.subtle.importKey("raw", k.key, { name: "Ed25519" }, false, ["verify"]);
    if (!(await crypto.subtle.verify({ name: "Ed25519" }, key, mine[0].sig, enc.encode(r.signed)))) {
      throw new Error("The signature of the checkpoint is wrong");
    }
    step(true, `The checkpoint is signed by ${k.name}`);
    out.good = out.signed = true;
  } catch (e) {
    step(false, e.message);
  }
  return out;
}
