# SPDX-License-Identifier: Apache-2.0
"""A rewarder as a child process beside a ledger, and what a client of it needs: snapshots, their
content id, policies, and a calculus written down here once more in plain Python integers.
"""
import http.client
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from httpkit import eventually
from ledgerkit import PROGRAM, Service

LEDGER_SCOPES = "ledger.mint,ledger.transfer,ledger.read"
ALL_SCOPES = "rewarder.run,rewarder.inspect,rewarder.quarantine"


# ---- snapshots and policies ----------------------------------------------------------------------

def snapshot(rows, pool, produced_at=1):
    """The JSON form. `rows` are (account, stored, served, uptime)."""
    return {"produced_at_millis": produced_at, "pool_minor_units": str(pool),
            "contributions": [{"account": a, "bytes_stored": s, "bytes_served": v,
                               "uptime_seconds": u} for a, s, v, u in rows]}


def canonical(snap):
    rows = sorted(snap["contributions"], key=lambda r: r["account"].strip().encode())
    rows = [{"account": r["account"].strip(), "bytes_stored": r["bytes_stored"],
             "bytes_served": r["bytes_served"], "uptime_seconds": r["uptime_seconds"]}
            for r in rows]
    return json.dumps({"produced_at_millis": snap["produced_at_millis"],
                       "pool_minor_units": snap["pool_minor_units"], "contributions": rows},
                      separators=(",", ":"), ensure_ascii=False).encode()


def b3(data):
    """The content id of some bytes, by Debian's b3sum."""
    out = subprocess.run(["b3sum", "--no-names"], input=data, check=True, capture_output=True)
    return "b3:" + out.stdout.decode().split()[0]


def zstd_frame(data):
    """Stored blocks in one frame: what every zstd reader takes, without a library."""
    out = bytes.fromhex("28b52ffd") + bytes([0x00, 0x58])  # no checksum; a window of 2 MiB
    pieces = [data[i:i + 65536] for i in range(0, len(data), 65536)] or [b""]
    for i, piece in enumerate(pieces):
        out += (len(piece) << 3 | (i + 1 == len(pieces))).to_bytes(3, "little") + piece
    return out


def shares(rows, pool, minimum=1):
    """What the default policy pays: ({account: amount}, residual)."""
    raw = {a: s + v // 4 + u for a, s, v, u in rows}
    total = sum(raw.values())
    paid = {a: pool * r // total for a, r in raw.items() if total}
    paid = {a: x for a, x in paid.items() if x >= max(minimum, 1)}
    return paid, pool - sum(paid.values())


def policy(**more):
    made = {"v": 1, "id": "policy:v1", "version": 1, "funding_source": "creator_pool",
            "asset": "roc", "max_payout_minor_units": str(2**128 - 1),
            "min_payout_minor_units": "1", "weight_bps": 10000, "rounding": "floor",
            "residual": "unissued",
            "weights": {"bytes_stored": "1", "bytes_served": "1/4", "uptime_seconds": "1"}}
    return {**made, **more}


# ---- the rewarder --------------------------------------------------------------------------------

class Rewarder(Service):
    """`ron rewarder` beside a Ledger that has an OAP socket; its files are in the ledger's
    folder."""

    verb = "rewarder"
    own = False

    def __init__(self, ledger, *options, prefix=(), expect=0, amnesia=False, wallet=None,
                 dir=None):
        self.ledger = ledger
        self.folder = ledger.folder
        self.keys = self.folder / "rewarder.keys"
        self.ledger_token = self.folder / "rewarder.token"
        self.dir = dir or self.folder / "rewarder"
        if not self.keys.exists():
            subprocess.run([PROGRAM, "cap", "key", "new", "--id", "r1", "--keys", str(self.keys)],
                           check=True, capture_output=True)
        if wallet is None:
            self.write_token(self.ledger_token, ledger.mint_token(LEDGER_SCOPES))
            pays = [f"--upstreams.ledger_addr=unix:{ledger.oap}",
                    f"--upstreams.ledger_token_file={self.ledger_token}"]
        else:
            token = self.folder / "rewarder-wallet.token"
            self.write_token(token, wallet.mint_token("wallet.issue,wallet.transfer"))
            pays = ["--settlement.target=wallet", f"--upstreams.wallet_url=http://{wallet.addr}",
                    f"--upstreams.wallet_token_file={token}"]
        self.token = self.mint_token(ALL_SCOPES)
        where = ["--amnesia.enabled=true"] if amnesia else [f"--rewarder.dir={self.dir}"]
        super().__init__(["--bind_addr=127.0.0.1:0", f"--auth.key_file={self.keys}",
                          "--log.format=json", "--limits.rate_per_second=0", *pays, *where,
                          *options], prefix, expect)

    def write_token(self, path, text):
        if not path.exists():
            with open(path, "w", encoding="ascii",
                      opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
                f.write(text + "\n")

    def mint_token(self, scopes, *options, aud="rewarder"):
        return subprocess.run([PROGRAM, "cap", "mint", "--keys", str(self.keys), "--aud", aud,
                               "--scope", scopes, *options], check=True, capture_output=True,
                              text=True).stdout.strip()

    def readyz(self):
        """(status, JSON)."""
        try:
            status, _, body = self.ask("GET", "/readyz", token=None)
            return status, json.loads(body)
        except (OSError, http.client.HTTPException):
            return 0, {}

    def metrics(self):
        _, _, text = self.ask("GET", "/metrics", token=None)
        rows = (line.rpartition(" ") for line in text.decode().splitlines() if line[:1] != "#")
        return {name: float(value) for name, _, value in rows}

    # ---- runs ----

    def policy_hash(self, document):
        """Content id of a policy's canonical bytes, which for ours is plain compact JSON."""
        return b3(json.dumps(document, separators=(",", ":")).encode())

    def request(self, snap, document, inline=True, **more):
        body = {"inputs_cid": b3(canonical(snap)), "policy_id": document["id"],
                "policy_hash": self.policy_hash(document), "policy": document, **more}
        if inline:
            body["snapshot"] = snap
        return body

    def compute(self, epoch, body, query="?wait=true", token="", headers=None):
        """(status, JSON) of POST compute."""
        status, _, data = self.ask("POST", f"/rewarder/epochs/{epoch}/compute{query}",
                                   json.dumps(body), token=token, headers=headers)
        return status, json.loads(data)

    def settled(self, epoch, state="emitted", seconds=30):
        """Waits for the state; the settlement."""
        eventually(lambda: self.get(f"/rewarder/epochs/{epoch}/settlement")[1]
                   .get("state") == state, seconds)
        return self.get(f"/rewarder/epochs/{epoch}/settlement")[1]

    def payouts(self, epoch):
        status, _, data = self.ask("GET", f"/rewarder/epochs/{epoch}/payouts")
        assert status == 200, (status, data)
        return {p["account"]: int(p["amount_minor_units"])
                for p in map(json.loads, data.decode().splitlines())}
