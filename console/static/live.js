// SPDX-License-Identifier: Apache-2.0
// What the pages know: calls to the console, the session, and the live state of all services, which
// comes as server-sent events, one look per second for everybody.

export class ApiError extends Error {
  constructor(status, body) {
    super(body && body.message ? body.message : `the console answered ${status}`);
    this.status = status;
    this.code = body && body.code;
    this.reason = body && body.reason;
  }
}

export async function call(path, opts = {}) {
  let r;
  try {
    r = await fetch("/api" + path, { credentials: "same-origin", cache: "no-store", ...opts });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw Object.assign(new Error("the console itself does not answer"), { title: "No connection." });
  }
  if (r.status === 401) location.hash = "#/enter";
  if (!r.ok) throw new ApiError(r.status, await r.json().catch(() => null));
  return r;
}
export const json = async (path, opts) => (await call(path, opts)).json();
export const text = async (path, opts) => (await call(path, opts)).text();

// A write: JSON, with the header that only a page of this console can send.
export const post = (path, body, headers) =>
  call(path, {
    method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "X-Ron-Console": "1", ...headers },
  });
export const leave = () => call("/session", { method: "DELETE", headers: { "X-Ron-Console": "1" } });

export const HISTORY = 120;
export const live = {
  session: null, services: new Map(), columns: [], connected: false, pollMs: 1000,
  _subs: new Set(), _due: false,
  on(fn) { this._subs.add(fn); return () => this._subs.delete(fn); },
  // Many events of one look are one repaint.
  tell() {
    if (this._due) return;
    this._due = true;
    requestAnimationFrame(() => { this._due = false; for (const fn of this._subs) fn(); });
  },
  has(name) { return this.services.has(name); },
  value(svc, column) { return svc.p[this.columns.indexOf(column)] || 0; },
  series(svc, column) {
    const i = this.columns.indexOf(column);
    return svc.history.map((p) => [p[0], p[1] ? p[i] : null]);
  },
};

async function overview() {
  const o = await json("/overview");
  live.columns = o.columns;
  live.pollMs = o.poll_ms;
  live.services = new Map(o.services.map((v) => [v.svc, v]));
  live.tell();
}

let source = null;
export async function connect() {
  live.session = await json("/session");
  await overview();
  source = new EventSource("/api/live");
  source.addEventListener("open", () => {
    const again = !live.connected && live.since;
    live.connected = live.since = true;
    if (again) overview().catch(() => {});
    live.tell();
  });
  source.addEventListener("error", () => {
    live.connected = false;
    live.tell();
    if (source.readyState === EventSource.CLOSED) json("/session").catch(() => {});
  });
  source.addEventListener("expired", () => { source.close(); location.hash = "#/enter"; });
  source.addEventListener("service", (e) => {
    const v = JSON.parse(e.data);
    const old = live.services.get(v.svc);
    if (!old) return;
    v.url = old.url;
    v.history = old.history;
    v.history.push(v.p);
    if (v.history.length > HISTORY) v.history.shift();
    live.services.set(v.svc, v);
    live.tell();
  });
}
// A page that nobody sees does not ask.
export function every(ms, fn) {
  const run = () => { if (!document.hidden) fn(); };
  const t = setInterval(run, ms);
  return () => clearInterval(t);
}
