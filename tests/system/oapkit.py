# SPDX-License-Identifier: Apache-2.0
"""A client of OAP/1 written from docs/formats/oap.md alone: frames packed by hand with struct, over
TCP or a Unix socket. No C of this project is shared with this file.
"""
import socket
import struct
from typing import NamedTuple

REQ, RESP, EVENT, START, END, ACK_REQ, COMP, E2E = (1 << n for n in range(8))
HELLO, PING, CANCEL, SUBSCRIBE, UNSUBSCRIBE, DRAINING, LAGGED, TRACE = range(8)
HEADER = struct.Struct(">IHHHH16sHQ")
FRAME_MAX = 1 << 20


class Frame(NamedTuple):
    flags: int
    code: int
    app: int
    tenant: int
    corr: int
    payload: bytes


def pack(flags=REQ, code=0, app=0, tenant=0, corr=1, cap=b"", payload=b"", **lies):
    """A frame; `lies` (length, ver, cap_len) stand in the header instead of the truth."""
    length = lies.get("length", HEADER.size + len(cap) + len(payload))
    return HEADER.pack(length, lies.get("ver", 1), flags, code, app, tenant.to_bytes(16, "big"),
                       lies.get("cap_len", len(cap)), corr) + cap + payload


class Peer:
    """A connection to `host:port` or `unix:/path`."""

    def __init__(self, addr):
        if addr.startswith("unix:"):
            self.s = socket.socket(socket.AF_UNIX)
            self.s.settimeout(30)
            self.s.connect(addr[5:])
        else:
            host, _, port = addr.rpartition(":")
            self.s = socket.create_connection((host, int(port)), timeout=30)
            self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def send(self, *frames):
        self.s.sendall(b"".join(frames))

    def exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.s.recv(n - len(data))
            if not more:
                return None
            data += more
        return data

    def next(self):
        """The next Frame, or None at the server's FIN."""
        head = self.exactly(HEADER.size)
        if head is None:
            return None
        length, ver, flags, code, app, tenant, cap_len, corr = HEADER.unpack(head)
        assert ver == 1 and cap_len == 0 and length <= FRAME_MAX, head
        return Frame(flags, code, app, int.from_bytes(tenant, "big"), corr,
                     self.exactly(length - HEADER.size))
