# SPDX-License-Identifier: Apache-2.0
"""PMTiles archives of chance: a writer, and a reader that shares nothing with the program."""
import gzip
import struct

HEADER = struct.Struct("<7sB8Q3Q6B4iB2i")
NONE, GZIP = 1, 2
TYPES = {1: "mvt", 2: "png", 3: "jpg", 4: "webp", 5: "avif"}


def tile_id(z, x, y):
    """The place of a tile on the Hilbert curve, behind all tiles of lower zooms."""
    base, d = ((1 << 2 * z) - 1) // 3, 0
    for level in range(z - 1, -1, -1):
        s = 1 << level
        rx, ry = int(x & s > 0), int(y & s > 0)
        d += s * s * ((3 * rx) ^ ry)
        if ry == 0:
            if rx == 1:
                x, y = s - 1 - x, s - 1 - y
            x, y = y, x
        x &= s - 1
        y &= s - 1
    return base + d


def _varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _directory(entries):
    """(id, run, length, offset) rows; a run of 0 names a leaf."""
    out, last, end = [_varint(len(entries))], 0, None
    for number, _, _, _ in entries:
        out.append(_varint(number - last))
        last = number
    out += [_varint(run) for _, run, _, _ in entries]
    out += [_varint(length) for _, _, length, _ in entries]
    for _, _, length, offset in entries:
        out.append(_varint(0 if offset == end else offset + 1))
        end = offset + length
    return b"".join(out)


class Pack:
    """An archive of chance. `tiles` is {(z, x, y): stored bytes}."""

    def __init__(self, rng, zoom_max=5):
        self.inside = rng.choice((NONE, GZIP))
        self.packed = rng.choice((NONE, GZIP))
        self.type = rng.choice(list(TYPES))
        self.zooms = sorted((rng.randint(0, zoom_max), rng.randint(0, zoom_max)))
        self.tiles = {}
        share = rng.choice((0.05, 0.4, 1.0))
        contents = [self._content(rng) for _ in range(rng.randint(1, 12))]
        for z in range(self.zooms[0], self.zooms[1] + 1):
            for x in range(1 << z):
                for y in range(1 << z):
                    if rng.random() < share:
                        self.tiles[z, x, y] = rng.choice(contents) if rng.random() < 0.6 \
                            else self._content(rng)
        if not self.tiles:
            self.tiles[self.zooms[0], 0, 0] = contents[0]
        self.bytes = self._write(rng)

    def _content(self, rng):
        data = rng.randbytes(rng.choice((1, 40, 700, 5000))) * rng.choice((1, 1, 3))
        return gzip.compress(data, 1, mtime=0) if self.packed == GZIP else data

    def _write(self, rng):
        data, where, rows = bytearray(), {}, []
        for number, content in sorted((tile_id(*k), v) for k, v in self.tiles.items()):
            if content not in where:
                where[content] = len(data)
                data += content
            offset = where[content]
            if rows and rows[-1][3] == offset and rows[-1][0] + rows[-1][1] == number:
                rows[-1][1] += 1
            else:
                rows.append([number, 1, len(content), offset])
        pack = gzip.compress if self.inside == GZIP else bytes
        leaves, root = b"", rows
        if rng.random() < 0.5 or len(pack(_directory(rows))) > 16000:
            per_leaf = rng.choice((1, 7, 100, 600))
            root = []
            for i in range(0, len(rows), per_leaf):
                leaf = pack(_directory(rows[i:i + per_leaf]))
                root.append((rows[i][0], 0, len(leaf), len(leaves)))
                leaves += leaf
            if len(pack(_directory(root))) > 16000:
                raise RuntimeError("a root of more than 16 KiB")
        packed_root, meta = pack(_directory(root)), pack(b'{"name":"chance"}')
        at = [127, 127 + len(packed_root), 0, 0]
        at[2] = at[1] + len(meta)
        at[3] = at[2] + len(leaves)
        head = HEADER.pack(b"PMTiles", 3, at[0], len(packed_root), at[1], len(meta), at[2],
                           len(leaves), at[3], len(data), len(self.tiles), len(rows), len(where),
                           1, self.inside, self.packed, self.type, *self.zooms,
                           -1800000000, -850000000, 1800000000, 850000000, self.zooms[0], 0, 0)
        return head + packed_root + meta + leaves + bytes(data)


def spoil(rng, data):
    """A copy with a few bytes changed, cut off, or longer; mostly in the head and the directories,
    where it matters."""
    out = bytearray(data)
    kind = rng.random()
    if kind < 0.15:
        return bytes(out[:rng.randrange(len(out))])
    if kind < 0.25:
        return bytes(out) + rng.randbytes(rng.randint(1, 500))
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(min(len(out), rng.choice((127, 127, 400, len(out)))))
        out[at] = rng.choice((0, 1, 127, 128, 255, out[at] ^ 1 << rng.randrange(8)))
    return bytes(out)


class Reader:
    """Looks tiles up as a client would. `get` raises ValueError, or what struct, gzip and zlib
    raise, for an archive that makes no sense."""

    def __init__(self, data):
        self.data = data
        f = HEADER.unpack_from(data)
        if f[0] != b"PMTiles" or f[1] != 3:
            raise ValueError("no archive")
        self.root, self.meta, self.leaves, self.tiles = ((f[i], f[i + 1]) for i in (2, 4, 6, 8))
        self.inside, self.packed, self.type = f[14], f[15], f[16]

    def _slice(self, offset, length):
        if offset + length > len(self.data):
            raise ValueError("outside the file")
        return self.data[offset:offset + length]

    def _rows(self, raw):
        if self.inside == GZIP:
            raw = gzip.decompress(raw)
        elif self.inside != NONE:
            raise ValueError("compressed in another way")
        at = 0

        def number():
            nonlocal at
            n = shift = 0
            while True:
                if at >= len(raw) or shift > 63:
                    raise ValueError("a number without an end")
                n |= (raw[at] & 127) << shift
                shift += 7
                at += 1
                if raw[at - 1] < 128:
                    return n

        count = number()
        if count > len(raw):
            raise ValueError("more rows than bytes")
        columns = [[number() for _ in range(count)] for _ in range(4)]
        rows, last, end = [], 0, 0
        for delta, run, length, offset in zip(*columns):
            last += delta
            end = end if offset == 0 and rows else offset - 1
            rows.append((last, run, length, end))
            end += length
        return rows

    def get(self, z, x, y):
        """The stored bytes, or None."""
        wanted, (offset, length) = tile_id(z, x, y), self.root
        for _ in range(4):
            rows = [r for r in self._rows(self._slice(offset, length)) if r[0] <= wanted]
            if not rows:
                return None
            first, run, length, offset = max(rows, key=lambda r: r[0])
            if run > 0:
                return self._slice(self.tiles[0] + offset, length) if wanted < first + run else None
            offset += self.leaves[0]
        raise ValueError("leaves without an end")
