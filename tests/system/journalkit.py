# SPDX-License-Identifier: Apache-2.0
"""Journals, checkpoints and receipts of a ledger, written from docs/formats alone.

A third hand beside the ledger's writer and the auditor's reader. Balances are folded here too; a
test may change anything before it is written. `python3 journalkit.py FOLDER` writes the seeds of
the fuzz target audit_log.
"""
import base64
import hashlib
import struct
import subprocess
import sys
from pathlib import Path

SECTOR = 512
SEGMENT = 64 << 10
NOW = 1700000000000
UUID = bytes(range(16))
KINDS = {"Mint": 1, "Burn": 2, "Credit": 3, "Debit": 4, "Transfer": 5}

CRC_TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    CRC_TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


# ---- tree ----------------------------------------------------------------------------------------


def leaf_hash(data):
    return hashlib.sha256(b"\0" + data).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def split(count):
    """The largest power of two below count."""
    return 1 << (count - 1).bit_length() - 1


def root_of(hashes):
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    k = split(len(hashes))
    return node_hash(root_of(hashes[:k]), root_of(hashes[k:]))


def inclusion(index, hashes):
    if len(hashes) == 1:
        return []
    k = split(len(hashes))
    if index < k:
        return inclusion(index, hashes[:k]) + [root_of(hashes[k:])]
    return inclusion(index - k, hashes[k:]) + [root_of(hashes[:k])]


# ---- entries -------------------------------------------------------------------------------------


def short(text):
    return bytes([len(text)]) + text.encode()


def long(text):
    return struct.pack(">H", len(text)) + text.encode()


def entry(seq, kind, account, amount, to="", asset="roc"):
    """The canonical bytes."""
    head = struct.pack(">HBBQ", 1, KINDS[kind], 1 if to else 0, NOW)
    body = amount.to_bytes(16, "big") + seq.to_bytes(16, "big")
    body += short(f"id-{seq}") + long(account) + (long(to) if to else b"")
    return head + body + short(asset) + short("k1") + short("c1")


def varint(v):
    out = b""
    while v >= 128:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


class Journal:
    """Entries with their links; a batch is a frame of its own."""

    def __init__(self):
        self.balances = {}
        self.last = {}
        self.leaves = []
        self.batches = []  # [(leaf, links)]

    def touch(self, seq, account, asset, change):
        key = account, asset
        self.balances[key] = self.balances.get(key, 0) + change
        side = varint(self.last.get(account, 0)) + varint(self.balances[key])
        self.last[account] = seq
        return side

    def add(self, *entries):
        """(kind, account, amount[, to[, asset]]) each; all of them are one batch."""
        batch = []
        for kind, account, amount, *more in entries:
            seq = len(self.leaves) + 1
            to = more[0] if more else ""
            asset = more[1] if len(more) > 1 else "roc"
            leaf = entry(seq, kind, account, amount, to, asset)
            sign = 1 if kind in ("Mint", "Credit") else -1
            links = self.touch(seq, account, asset, sign * amount)
            if to:
                links += self.touch(seq, to, asset, amount)
            self.leaves.append(leaf)
            batch.append((leaf, bytes([1 if to else 0]) + links))
        self.batches.append(batch)
        return self

    def frames(self):
        hashes = [leaf_hash(leaf) for leaf in self.leaves]
        seq = 1
        for batch in self.batches:
            body = b"".join(struct.pack(">H", len(leaf)) + leaf + links for leaf, links in batch)
            record = struct.pack(">BBHIQII", 1, 0, 0, len(batch), NOW, len(body), 0) + body
            after = seq - 1 + len(batch)
            yield frame(record, seq, len(batch), root_of(hashes[: seq - 1]),
                        root_of(hashes[:after]))
            seq = after + 1

    def segment(self):
        data = segment_head() + b"".join(self.frames())
        return data + bytes(SEGMENT - len(data))

    def write(self, folder):
        log = Path(folder) / "log"
        log.mkdir(parents=True, exist_ok=True)
        path = log / f"{1:08}-{1:020}.seg"
        path.write_bytes(self.segment())
        return path


def frame(payload, seq, entries, prev_root, new_root):
    size = -(-(136 + len(payload) + 8) // SECTOR) * SECTOR
    body = payload + bytes(size - 136 - len(payload) - 8)
    head = b"RONF" + struct.pack(">HHII", 1, 0, size, len(payload)) + UUID
    head += struct.pack(">QQIIQ", 1, seq, entries, 1, NOW) + prev_root + new_root
    head += struct.pack(">I", crc32c(body))
    check = struct.pack(">I", crc32c(head))
    return head + check + body + check + b"RONe"


def segment_head():
    head = b"RONS" + struct.pack(">HH", 1, 0) + UUID + struct.pack(">QQ", 1, 1)
    head += root_of([]) + struct.pack(">QQ", NOW, SEGMENT)
    return (head + struct.pack(">I", crc32c(head))).ljust(4096, b"\0")


# ---- checkpoints and receipts --------------------------------------------------------------------


class Signer:
    """An Ed25519 key of openssl's."""

    def __init__(self, folder, name):
        self.name = name
        self.pem = Path(folder) / "key.pem"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", self.pem],
                       check=True, capture_output=True)
        public = subprocess.run(["openssl", "pkey", "-in", self.pem, "-pubout", "-outform", "DER"],
                                check=True, capture_output=True).stdout[-32:]
        self.typed = b"\1" + public
        self.id = hashlib.sha256(name.encode() + b"\n" + self.typed).digest()[:4]

    def vkey(self):
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(self.typed).decode()}"

    def note(self, text):
        message = self.pem.with_suffix(".text")
        message.write_text(text)
        signature = subprocess.run(
            ["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.pem, "-in", message],
            check=True, capture_output=True).stdout
        line = base64.b64encode(self.id + signature).decode()
        return f"{text}\n\u2014 {self.name} {line}\n"

    def checkpoint(self, leaves):
        root = base64.b64encode(root_of([leaf_hash(leaf) for leaf in leaves])).decode()
        return self.note(f"{self.name}\n{len(leaves)}\n{root}\n")


def receipt(signer, leaves, index, with_entry):
    lines = ["c2sp.org/tlog-proof@v1"]
    if with_entry:
        lines.append("extra " + base64.b64encode(leaves[index]).decode())
    lines.append(f"index {index}")
    proof = inclusion(index, [leaf_hash(leaf) for leaf in leaves])
    lines += [base64.b64encode(node).decode() for node in proof]
    return "\n".join(lines) + "\n\n" + signer.checkpoint(leaves)


def sample():
    """Some accounts, two assets, credits and debits."""
    return (Journal()
            .add(("Mint", "alice", 1000))
            .add(("Transfer", "alice", 300, "bob"), ("Transfer", "bob", 50, "carol"))
            .add(("Debit", "alice", 20), ("Credit", "carol", 20))
            .add(("Mint", "bob", 7, "", "gold"))
            .add(("Burn", "carol", 5)))


def write_seeds(folder):
    folder = Path(folder)
    journal = sample()
    signer = Signer(folder, "ledger.example/main")
    frames = list(journal.frames())
    length = struct.unpack(">I", frames[1][12:16])[0]
    seeds = {
        "records": b"r\1" + frames[1][136:136 + length],
        "frame": b"f" + frames[0],
        "segment": b"s" + segment_head(),
        "note": b"n" + signer.checkpoint(journal.leaves).encode(),
        "key": b"k" + signer.vkey().encode(),
        "receipt": b"p" + receipt(signer, journal.leaves, 2, True).encode(),
        "json": b'j{"id":"a","ts":1,"kind":"Mint","account":"b","amount":"5","nonce":'
                b'"AAECAwQFBgcICQoLDA0ODw==","v":1,"kid":"k","capability_ref":"c"}',
    }
    for name, data in seeds.items():
        (folder / name).write_bytes(data)
    for left in ("key.pem", "key.text"):
        (folder / left).unlink()


if __name__ == "__main__":
    write_seeds(sys.argv[1])
