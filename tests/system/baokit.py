# SPDX-License-Identifier: Apache-2.0
"""Checks a slice of bao against a content id, from the text of the BLAKE3 paper and of bao's
specification alone: no code of the project, no library."""
import struct

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
      0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
CHUNK = 1024
MASK = 0xFFFFFFFF


def _turn(x, n):
    return (x >> n | x << (32 - n)) & MASK


def _mix(v, a, b, c, d, x, y):
    v[a] = (v[a] + v[b] + x) & MASK
    v[d] = _turn(v[d] ^ v[a], 16)
    v[c] = (v[c] + v[d]) & MASK
    v[b] = _turn(v[b] ^ v[c], 12)
    v[a] = (v[a] + v[b] + y) & MASK
    v[d] = _turn(v[d] ^ v[a], 8)
    v[c] = (v[c] + v[d]) & MASK
    v[b] = _turn(v[b] ^ v[c], 7)


def _compress(chain, block, counter, flags):
    m = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    v = [*chain, *IV[:4], counter & MASK, counter >> 32, len(block), flags]
    for step in range(7):
        for i, (a, b, c, d) in enumerate(((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14),
                                          (3, 7, 11, 15), (0, 5, 10, 15), (1, 6, 11, 12),
                                          (2, 7, 8, 13), (3, 4, 9, 14))):
            _mix(v, a, b, c, d, m[2 * i], m[2 * i + 1])
        if step < 6:
            m = [m[k] for k in ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)]


def _chunk(data, number, root):
    blocks = [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
    chain = IV
    for i, block in enumerate(blocks):
        flags = (CHUNK_START if i == 0 else 0) | \
            (CHUNK_END | (ROOT if root else 0) if i == len(blocks) - 1 else 0)
        chain = _compress(chain, block, number, flags)
    return struct.pack("<8I", *chain)


def _parent(both, root):
    return struct.pack("<8I", *_compress(IV, both, 0, PARENT | (ROOT if root else 0)))


def check_slice(address, start, length, data):
    """The proven bytes and the length of the object; ValueError for what proves nothing."""
    size, at, out = struct.unpack("<Q", data[:8])[0], 8, bytearray()
    end = max(start + max(length, 1), start + 1)
    if start >= size:
        start, end = max(size - 1, 0), max(size, 1)

    def need(want, got):
        if want != got:
            raise ValueError("the slice does not fit the address")

    def walk(first, count, want, root):
        nonlocal at
        low, high = first * CHUNK, min((first + count) * CHUNK, size)
        if high <= start and size > 0 or low >= end:
            return
        if count == 1:
            piece = data[at:at + high - low]
            at += len(piece)
            need(want, _chunk(piece, first, root))
            out.extend(piece[max(start - low, 0):max(end - low, 0)])
            return
        both = data[at:at + 64]
        at += 64
        need(want, _parent(both, root))
        left = 1 << (count - 1).bit_length() - 1
        walk(first, left, both[:32], False)
        walk(first + left, count - left, both[32:], False)

    walk(0, max(1, -(-size // CHUNK)), bytes.fromhex(address.removeprefix("b3:")), True)
    if at != len(data):
        raise ValueError("the slice is longer than it should be")
    return bytes(out), size
