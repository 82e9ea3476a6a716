# SPDX-License-Identifier: Apache-2.0
"""A client of the ledger's binary front, written from docs/formats/ledger-oap.md and
ledger-entry.md: batches packed by hand over the frames of oapkit.py.
"""
import base64
import struct

from oapkit import END, REQ, RESP, START, Peer, pack

APP, CHANGES_APP = 0x4C45, 0x4C43
INGEST, READ, CANCEL_KEY = 1, 2, 3
COMMIT, CHANGES = 1, 1
KINDS = ["Mint", "Burn", "Credit", "Debit", "Transfer", "Hold", "Capture", "Release", "Reverse"]


def text(size, value):
    data = value.encode()
    return len(data).to_bytes(size, "big") + data


def binary(e):
    """Canonical bytes of an entry without account_nonce and memo."""
    to, ref, expires = e.get("to"), e.get("ref"), e.get("expires")
    present = (1 if to else 0) | (2 if ref else 0) | (8 if expires else 0)
    return (struct.pack(">HBBQ", 1, KINDS.index(e["kind"]) + 1, present, e["ts"])
            + int(e["amount"]).to_bytes(16, "big") + base64.b64decode(e["nonce"])
            + (struct.pack(">Q", expires) if expires else b"")
            + text(1, e["id"]) + text(2, e["account"]) + (text(2, to) if to else b"")
            + text(1, e.get("asset", "roc")) + (text(1, ref) if ref else b"")
            + text(1, e["kid"]) + text(1, e["capability_ref"]))


def batch(entries, idem="", flags=0):
    rows = [binary(e) for e in entries]
    return (struct.pack(">HB", 1, flags) + text(1, idem) + len(rows).to_bytes(4, "big")
            + b"".join(len(r).to_bytes(2, "big") + r for r in rows))


class Sender(Peer):
    def post(self, code, corr, payload, app=APP, cap=b""):
        flags = REQ | START | END if cap else REQ  # only a first piece carries a capability
        self.send(pack(flags, code, app, corr=corr, cap=cap, payload=payload))

    def ask(self, code, payload, cap=b"", corr=7, app=APP):
        """(status, payload) of one request, on a connection without others under way."""
        self.post(code, corr, payload, app, cap)
        frame = self.next()
        data = frame.payload
        assert frame.flags & RESP and frame.corr == corr, frame
        if frame.flags & START:
            while not frame.flags & END:
                frame = self.next()
                data += frame.payload
        return frame.code, data


def done(answer):
    """(state, replayed, seq_first, seq_last, root, commit_ts) of a status 200."""
    return struct.unpack(">BBQQ32sQ", answer.payload)
