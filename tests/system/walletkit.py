# SPDX-License-Identifier: Apache-2.0
"""A wallet as a child process beside a ledger, and a small client that nobody of the wallet's code
has touched. Names and hashes of a receipt are recomputed here from its text alone.
"""
import http.client
import itertools
import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path

from httpkit import eventually
from ledgerkit import PROGRAM, Ledger, Service

LEDGER_SCOPES = "ledger.mint,ledger.burn,ledger.transfer,ledger.hold,ledger.read"
RECEIPT = ["txid", "op", "from", "to", "asset", "amount_minor", "nonce", "idem", "ts",
           "ledger_seq_start", "ledger_seq_end", "ledger_root", "settlement_status",
           "receipt_hash"]
_numbers = itertools.count(1)


def new_key(word="k"):
    """A key that nobody has used before."""
    return f"{word}-{os.getpid()}-{next(_numbers)}"


# ---- BLAKE3 of one chunk, from its paper ---------------------------------------------------------

_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
       0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_MIXES = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
          (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def _turn(x, by):
    return (x >> by | x << (32 - by)) & 0xFFFFFFFF


def _compress(cv, block, length, flags):
    m = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    v = [*cv, *_IV[:4], 0, 0, length, flags]
    for _ in range(7):
        for i, (a, b, c, d) in enumerate(_MIXES):
            for x, by_d, by_b in ((m[2 * i], 16, 12), (m[2 * i + 1], 8, 7)):
                v[a] = (v[a] + v[b] + x) & 0xFFFFFFFF
                v[d] = _turn(v[d] ^ v[a], by_d)
                v[c] = (v[c] + v[d]) & 0xFFFFFFFF
                v[b] = _turn(v[b] ^ v[c], by_b)
        m = [m[i] for i in _ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)]


def blake3(data):
    """Hexadecimal digits of up to 1024 bytes."""
    assert len(data) <= 1024, len(data)
    cv = _IV
    blocks = [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
    for i, block in enumerate(blocks):
        last = i == len(blocks) - 1
        cv = _compress(cv, block, len(block), (i == 0) | (last and 2 | 8))
    return struct.pack("<8I", *cv).hex()


def receipt_good(text):
    """Whether the bytes of a receipt are what they must be: members, order, hash."""
    head, _, tail = text.partition(b',"receipt_hash":"b3:')
    return list(json.loads(text)) == RECEIPT and tail == blake3(head + b"}").encode() + b'"}'


# ---- the wallet ----------------------------------------------------------------------------------

class Wallet(Service):
    """`ron wallet` beside a Ledger that has an OAP socket."""

    verb = "wallet"
    own = False  # everything is in the ledger's folder

    def __init__(self, ledger, *options, prefix=(), expect=0, ready=True):
        self.ledger = ledger
        self.folder = ledger.folder
        self.keys = self.folder / "wallet.keys"
        self.ledger_token = self.folder / "wallet.token"
        if not self.keys.exists():
            subprocess.run([PROGRAM, "cap", "key", "new", "--id", "w1", "--keys", str(self.keys)],
                           check=True, capture_output=True)
        if not self.ledger_token.exists():
            self.write_ledger_token(ledger.mint_token(LEDGER_SCOPES))
        self.token = self.mint_token("wallet")
        super().__init__(["--bind_addr=127.0.0.1:0", f"--auth.key_file={self.keys}",
                          f"--upstreams.ledger_addr=unix:{ledger.oap}",
                          f"--upstreams.ledger_token_file={self.ledger_token}",
                          "--log.format=json", "--limits.rate_per_second=0", *options],
                         prefix, expect)
        if ready and not self.ready():
            raise RuntimeError("the wallet is not ready:\n" + "\n".join(self.lines[-20:]))

    def write_ledger_token(self, text):
        with open(self.ledger_token, "w", encoding="ascii",
                  opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text + "\n")

    def ready(self, wanted=True, seconds=20):
        """Waits until /readyz says so."""
        return eventually(lambda: self.readyz() == (200 if wanted else 503), seconds)

    def readyz(self):
        try:
            return self.ask("GET", "/readyz", token=None)[0]
        except (OSError, http.client.HTTPException):
            return 0

    def mint_token(self, scopes, *options, aud="wallet"):
        return subprocess.run([PROGRAM, "cap", "mint", "--keys", str(self.keys), "--aud", aud,
                               "--scope", scopes, *options], check=True, capture_output=True,
                              text=True).stdout.strip()

    # ---- asking ----

    def post(self, op, key=None, query="", token="", headers=None, connection=None, **body):
        """(status, headers, bytes) of a write; a key of its own unless one is given. `from_`
        stands for `from`."""
        body = {k.rstrip("_"): v for k, v in body.items()}
        return self.ask("POST", f"/v1/{op}{query}", json.dumps(body), token=token,
                        headers={"Idempotency-Key": key or new_key(), **(headers or {})},
                        connection=connection)

    def write(self, op, **more):
        """(status, JSON) of a write."""
        status, _, data = self.post(op, **more)
        return status, json.loads(data)

    def issue(self, to, amount, **more):
        return self.write("issue", to=to, amount_minor=str(amount), **more)

    def transfer(self, from_, to, amount, **more):
        return self.write("transfer", from_=from_, to=to, amount_minor=str(amount), **more)

    def balance(self, account, asset="roc", query="&consistency=strong", **more):
        """(available, held)."""
        status, b = self.get(f"/v1/balance?account={account}&asset={asset}{query}", **more)
        assert status == 200, (status, b)
        return int(b["amount_minor"]), int(b["held_minor"])

    def metrics(self):
        """Samples of /metrics by name with labels."""
        _, _, text = self.ask("GET", "/metrics", token=None)
        rows = (line.rpartition(" ") for line in text.decode().splitlines() if line[:1] != "#")
        return {name: float(value) for name, _, value in rows}


def new_ledger(*options, **more):
    """A ledger with an OAP socket, in a folder of its own; the wallet beside it lives there too."""
    folder = Path(tempfile.mkdtemp(prefix="ron-wallet-"))
    ledger = Ledger(f"--oap.addr=unix:{folder / 'oap.sock'}", *options, folder=folder, **more)
    ledger.own = True
    return ledger
