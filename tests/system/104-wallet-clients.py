#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: what a person pastes from the guide works, clients that are generated from api/wallet.yaml
work, and the documents say what the code does.

Method: the commands of docs/guide/wallet.md in an empty folder; a client for node made of
api/wallet.yaml by openapi-typescript and openapi-fetch, checked by the TypeScript compiler and run;
wrk with a Lua script that pays; the tables of guide and API against wallet/call/reason.h; the
alert rules with promtool. A client that this machine lacks is named and left out.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from dockit import TREE, alert_rules, errors, run_guide  # noqa: E402
from httpkit import check, finish, free_port, missing, wrk  # noqa: E402
from ledgerkit import PROGRAM  # noqa: E402
from walletkit import Wallet, new_ledger, receipt_good  # noqa: E402

BUILD = Path(PROGRAM).resolve().parents[1]
GUIDE = (TREE / "docs/guide/wallet.md").read_text(encoding="utf-8")
API = TREE / "api/wallet.yaml"

# Types are half of the test: what the document does not allow is marked and must not compile.
CLIENT = """
import createClient from "openapi-fetch";
import type { paths } from "./wallet";

const [base, token] = process.argv.slice(2);
const client = createClient<paths>({baseUrl: base!, headers: {Authorization: `Bearer ${token}`}});
function same(got: unknown, want: unknown) {
  if (JSON.stringify(got) !== JSON.stringify(want))
    throw new Error(`${JSON.stringify(got)} instead of ${JSON.stringify(want)}`);
}
async function main() {
  const key = (k: string) => ({header: {"Idempotency-Key": k}});
  const issue = await client.POST("/v1/issue", {
    params: key("n-1"), body: {to: "node/a", asset: "roc", amount_minor: "1000"}});
  same(issue.data?.settlement_status, "accepted");
  const body = {from: "node/a", to: "node/b", asset: "roc", amount_minor: "1"};
  const all = await Promise.all(Array.from({length: 200}, (_, i) =>
    client.POST("/v1/transfer", {params: key(`n-t-${i}`), body})));
  same(all.filter(r => r.response.status === 200).length, 200);
  const again = await client.POST("/v1/transfer", {params: key("n-t-7"), body});
  same(again.data, all[7]!.data);
  same(again.response.headers.get("Idempotent-Replayed"), "true");
  const wrong = await client.POST("/v1/transfer", {
    params: key("n-t-7"), body: {...body, amount_minor: "2"}});
  same(wrong.error?.code, "IDEMPOTENCY_CONFLICT");
  const poor = await client.POST("/v1/burn", {
    params: key("n-p"), body: {from: "node/b", asset: "roc", amount_minor: "1000000"}});
  same([poor.error?.code, poor.error?.retryable], ["INSUFFICIENT_FUNDS", false]);
  const dry = await client.POST("/v1/burn", {
    params: {...key("n-d"), query: {dry_run: true}},
    body: {from: "node/b", asset: "roc", amount_minor: "1"}});
  same(dry.data?.settlement_status, "dry_run");
  const batch = await client.POST("/v1/batch", {params: key("n-b"), body: {
    operations: [{op: "transfer", ...body}, {op: "burn", from: "node/b", asset: "roc",
                                             amount_minor: "1"}]}});
  same(batch.data?.receipts.map(r => r.op), ["transfer", "burn"]);
  const balance = await client.GET("/v1/balance", {
    params: {query: {account: "node/b", consistency: "strong"}}});
  same(balance.data?.amount_minor, "200");
  const tx = await client.GET("/v1/tx/{txid}", {params: {path: {txid: issue.data!.txid}}});
  same(tx.data, issue.data);
  const history = await client.GET("/v1/accounts/{account}/history", {
    params: {path: {account: "node/b"}, query: {limit: 3}}});
  same(history.data?.entries.length, 3);
  const outcome = await client.GET("/v1/outcome/{key}", {
    params: {path: {key: "n-1"}, query: {op: "issue", account: "node/a"}}});
  same(outcome.data?.outcome, "committed");
  const cancel = await client.POST("/v1/outcome/{key}/cancel", {
    params: {path: {key: "n-never"}, query: {op: "issue", account: "node/a"}}});
  same(cancel.data?.outcome, "cancelled");
  const none = await fetch(`${base}/v1/balance?account=a`);
  same([none.status, none.headers.get("WWW-Authenticate")], [401, "Bearer"]);
  type Body = paths["/v1/issue"]["post"]["requestBody"]["content"]["application/json"];
  // @ts-expect-error an amount is a string
  const number: Body = {to: "a", asset: "roc", amount_minor: 5};
  void number;
}
main().catch(e => { console.error(e); process.exit(1); });
"""

LUA = """
local n, id = 0, ""
local count = 0
function setup(thread) count = count + 1; thread:set("number", count) end
function init(args) token = args[1]; mark = args[2] end
function request()
  n = n + 1
  return wrk.format("POST", "/v1/transfer", {
    ["Authorization"] = "Bearer " .. token, ["Content-Type"] = "application/json",
    ["Idempotency-Key"] = "wrk-" .. number .. "-" .. n},
    '{"from":"lua/' .. n % 64 .. '","to":"lua/' .. (n + 1) % 64 .. '","amount_minor":"1"}')
end
"""


def guide():
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        said = run_guide(GUIDE, {"127.0.0.1:7100": port}, {
            "RON_LEDGER__BIND_ADDR": "127.0.0.1:0",
            "RON_WALLET__BIND_ADDR": f"127.0.0.1:{port}"}, folder)
        receipt = Path(folder) / "receipt.json"
        check("guide: and does what it says", '"amount_minor":"460"' in said[0] and receipt.exists()
              and receipt_good(receipt.read_bytes()), said)


def documents():
    enum = re.search(r"code: \{type: string, enum: \[([^\]]*)\]",
                     API.read_text(encoding="utf-8"))[1].split(", ")
    errors(GUIDE, "wallet/call/reason.h", enum)


def node(wallet):
    if missing("node", "npm"):
        return
    folder = BUILD / "npm-openapi"
    packages = {"openapi-typescript": "7", "openapi-fetch": "0.13", "typescript": "5",
                "@types/node": "20"}
    if not all((folder / "node_modules" / p).is_dir() for p in packages):
        folder.mkdir(exist_ok=True)
        try:
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
                            "--prefix", str(folder), *[f"{p}@{v}" for p, v in packages.items()]],
                           capture_output=True, timeout=90, check=False)
        except subprocess.TimeoutExpired:
            pass
    if not all((folder / "node_modules" / p).is_dir() for p in packages):
        print("left out: the npm packages cannot be installed (no network?)")
        return
    programs = folder / "node_modules" / ".bin"
    made = subprocess.run([str(programs / "openapi-typescript"), str(API), "-o",
                           str(folder / "wallet.d.ts")], capture_output=True, text=True)
    check("node: openapi-typescript makes a client", made.returncode == 0, made)
    (folder / "pay.ts").write_text(CLIENT, encoding="utf-8")
    built = subprocess.run([str(programs / "tsc"), "--strict", "--noUncheckedIndexedAccess",
                            "--target", "es2022", "--module", "node16", "--moduleResolution",
                            "node16", "--skipLibCheck", "--types", "node", "pay.ts"],
                           cwd=folder, capture_output=True, text=True)
    check("node: its types fit what is sent", built.returncode == 0, built.stdout)
    ran = subprocess.run(["node", str(folder / "pay.js"), f"http://{wallet.addr}", wallet.token],
                         capture_output=True, text=True, timeout=60)
    check("node: the generated client pays", ran.returncode == 0, ran.stderr)


def load(wallet):
    if missing("wrk"):
        return
    for i in range(64):
        wallet.issue(f"lua/{i}", 10 ** 6)
    before = wallet.metrics()['wallet_requests_total{op="transfer"}']
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA.replace("args[1]", json.dumps(wallet.token)))
        script.flush()
        seen = wrk(f"http://{wallet.addr}", 2, connections=32, script=script.name)
    made = wallet.metrics()['wallet_requests_total{op="transfer"}'] - before
    total = sum(wallet.balance(f"lua/{i}")[0] for i in range(64))
    check("wrk: payments without an error, counted on both sides", seen["errors"] == 0
          and seen["requests"] > 100 and seen["requests"] <= made <= seen["requests"] + 32
          and total == 64 * 10 ** 6, (seen["text"], made, total))
    print(f"wrk: {seen['rps']:.0f} payments/s, p99 {seen['p99_us'] / 1000:.1f} ms")


# ---- alerts --------------------------------------------------------------------------------------

# Name, labels, and above which depth of the queue; 0: whenever something is bad.
ALERTS = [("WalletQueueLong", "severity: warn, queue: work", 400),
          ("WalletQueueFull", "severity: page, queue: work", 480),
          ("WalletNotConserved", "severity: page, outcome: fail", 0),
          ("WalletLedgerDown", "severity: page, cause: ledger", 0),
          ("WalletLedgerTimeouts", "severity: warn, op: ledger_rpc, peer: ledger", 0)]


def alerts():
    """At and above each limit; and the same figures of another service, whose queue has the same
    name."""
    for depth, bad, service in ((481, 1, "wallet"), (480, 1, "wallet"), (400, 0, "wallet"),
                                (481, 1, "rewarder")):
        series = {'queue_depth{queue="work"}': f"{depth}x20",
                  'busy_rejections_total{endpoint="",queue="work"}':
                      f"0+{1530 if bad else 1500}x20",
                  'wallet_conservation_checks_total{outcome="fail"}':
                      f"0+{bad if service == 'wallet' else 0}x20",
                  'readyz_degraded{cause="ledger"}': f"{bad}x20",
                  'io_timeouts_total{op="ledger_rpc",peer="ledger"}': f"0+{60 if bad else 30}x20",
                  f'build_info{{service="{service}",version="1",build="b"}}': "1x20"}
        wanted = {name: labels if service == "wallet" and (depth > above if above else bad)
                  else None for name, labels, above in ALERTS}
        alert_rules(f"those of a {service} with a queue of {depth}", series, wanted, "9m")


def main():
    documents()
    alerts()
    guide()
    with new_ledger() as ledger, Wallet(ledger) as wallet:
        node(wallet)
        load(wallet)
    finish()


main()
