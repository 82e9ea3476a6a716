# SPDX-License-Identifier: Apache-2.0
"""The contenders of `./dev bench edge`: the edge, Debian's nginx and Varnish, and the npm package
tileserver-gl-light, each as a child process on core 0 that serves the same bytes."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from edgekit import Edge  # noqa: E402
from httpkit import Child, Nginx, eventually, free_port  # noqa: E402

BUILD = Path(os.environ["RON_BIN"]).resolve().parents[2]
CACHE = "public, max-age=300"
HERE, THERE = (["taskset", "-c", "0"], ["taskset", "-c", "1"]) if (os.cpu_count() or 1) > 1 \
    else ([], [])


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def pmtiles_head(root_len, leaves_len, tiles_len, count, zoom_max, clustered=1):
    """The header of an archive: root, metadata {}, leaves, tiles, nothing compressed, PNG."""
    at = 127 + root_len
    head = b"PMTiles\x03" + struct.pack("<QQQQQQQQQQQ", 127, root_len, at, 2, at + 2, leaves_len,
                                        at + 2 + leaves_len, tiles_len, count, count, count)
    head += bytes([clustered, 1, 1, 2, 0, zoom_max])
    return head + struct.pack("<iiiibii", -1800000000, -850000000, 1800000000, 850000000, 0, 0, 0)


def directory(rows):
    """Rows of (tile id, run, length, offset), sorted by id."""
    ids = [b - a for a, b in zip([0] + [r[0] for r in rows], [r[0] for r in rows])]
    return b"".join(map(varint, [len(rows), *ids, *(r[1] for r in rows), *(r[2] for r in rows),
                                 *(r[3] + 1 for r in rows)]))


def one_tile_pack(path, tile):
    """An archive with a tile at 0/0/0."""
    root = directory([(0, 1, len(tile), 0)])
    path.write_bytes(pmtiles_head(len(root), 0, len(tile), 1, 0) + root + b"{}" + tile)


class QuietEdge(Edge):
    """One that says nothing on the way into a report; how it ended still counts."""

    def __exit__(self, kind, value, trace):
        code = self.stop()
        self.close()
        if kind is None and code != self.expect:
            raise RuntimeError(f"the edge ended with {code}:\n" + "\n".join(self.lines[-20:]))


class RonEdge(QuietEdge):
    def __init__(self, folder, origin=None):
        more = [f"--origins.map.url=http://127.0.0.1:{origin.port}",
                "--origins.map.allow_http=true", "--origins.map.allow_private=true"] \
            if origin else []
        super().__init__("--workers=1", f"--http.cache_control={CACHE}", *more,
                         packs={"world": folder / "world.pmtiles"},
                         files={n: (folder / "www" / n).read_bytes()
                                for n in ("small.html", "large.bin")}, prefix=HERE)
        if not eventually(lambda: self.get("/readyz").status == 200):
            raise RuntimeError("the edge is not ready")
        self.pid = self.process.pid

    def url(self, path):
        return f"http://{self.addr}/edge/assets/{path}"


class Files(Nginx):
    """The same bytes as plain files; `prefix` is empty for one that is an origin."""

    def __init__(self, folder, prefix=tuple(HERE)):
        super().__init__(f"""
    root {folder}/www;
    add_header X-Corr-ID $request_id;
    add_header Referrer-Policy no-referrer;
    add_header Cache-Control "{CACHE}";
    types {{ image/png png; text/html html; application/octet-stream bin; }}
""", 1, list(prefix))

    def url(self, path):
        return f"http://{self.host}:{self.port}/{path}"


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as a:
            return a.status == 200
    except (OSError, urllib.error.URLError):
        return False


class Varnish(Child):
    """In front of an origin, with its defaults but for one pool of threads, as it has one core."""

    def __init__(self, origin):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-varnish-"))
        self.folder.chmod(0o755)
        self.port = free_port()
        super().__init__([*HERE, "varnishd", "-F", "-n", str(self.folder), "-a",
                          f"127.0.0.1:{self.port}", "-b", f"127.0.0.1:{origin.port}", "-s",
                          "malloc,64m", "-p", "thread_pools=1"])
        if not eventually(lambda: answers(self.url("tile.png"))):
            raise RuntimeError(f"varnish did not start:\n{self.said()}")

    def url(self, path):
        return f"http://{self.host}:{self.port}/{path}"

    def ended(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def version():
        text = subprocess.run(["varnishd", "-V"], capture_output=True, text=True, check=True)
        return (text.stderr + text.stdout).split("varnish-", 1)[1].split(" ", 1)[0]


class TileServer(Child):
    folder = BUILD / "npm-tileserver"

    def __init__(self, folder):
        self.port = free_port()
        config = folder / "tileserver.json"
        config.write_text(json.dumps({"options": {"paths": {"root": str(folder), "pmtiles":
                                                            str(folder)}},
                                      "data": {"world": {"pmtiles": "world.pmtiles"}}}),
                          encoding="ascii")
        super().__init__([*HERE, "node", str(self.program()), "-c", str(config), "-p",
                          str(self.port), "-b", "127.0.0.1", "-s"])
        if not eventually(lambda: answers(self.url("data/world/0/0/0.png")), 60):
            raise RuntimeError(f"tileserver-gl-light did not start:\n{self.said()}")

    def url(self, path):
        return f"http://{self.host}:{self.port}/{path}"

    @classmethod
    def program(cls):
        return cls.folder / "node_modules" / "tileserver-gl-light" / "src" / "main.js"

    @classmethod
    def install(cls):
        """Whether it is there: node, npm and its registry are needed once."""
        if not shutil.which("node") or not shutil.which("npm"):
            return False
        if not cls.program().exists():
            cls.folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix",
                            str(cls.folder), "tileserver-gl-light@5"], capture_output=True,
                           check=False)
        return cls.program().exists()
