#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A ledger read through the edge: auditors that read the whole log over and over reach the ledger
once for each tile, and prove every byte.

Method: a real ledger with 700 entries behind an edge with an origin of kind `ledger`. Each auditor
takes checkpoint, tiles and bundles from the edge, recomputes the root with hashlib, and Go's
sumdb/tlog proves the same tiles once more (named and left out without golang). What reached the
ledger is counted by its own metrics."""
import base64
import concurrent.futures
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from edgekit import Edge, Keys, purge
from httpkit import check, eventually, finish
from ledgerkit import Ledger, entry
from npmkit import BUILD

TREE = Path(__file__).resolve().parent
ENTRIES, AUDITORS = 700, 12
BASE = "/edge/assets/ledger"


def index_path(n):
    text = f"{n % 1000:03d}"
    while n >= 1000:
        n //= 1000
        text = f"x{n % 1000:03d}/" + text
    return text


def tile_paths(size):
    """Of all levels, as tlog-tiles names them; (level, path)."""
    level = 0
    while size > 0:
        for n in range((size + 255) // 256):
            width = min(256, size - 256 * n)
            yield level, f"tile/{level}/{index_path(n)}" + ("" if width == 256 else f".p/{width}")
        size //= 256
        level += 1


def root_of(leaves):
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + root_of(leaves[:split]) + root_of(leaves[split:])).digest()


def unbundle(data):
    out = []
    while data:
        n = int.from_bytes(data[:2], "big")
        out.append(data[2:2 + n])
        data = data[2 + n:]
    return out


def audit(edge):
    """(size, root, {path: bytes}); raises when anything is not as it must be."""
    client = edge.client()

    def get(path):
        a = edge.get(f"{BASE}/{path}", client=client)
        assert a.status == 200, (path, a.status, a.body)
        return a
    lines = get("checkpoint").body.decode().split("\n")
    size, root = int(lines[1]), lines[2]
    files = {path: get(path).body for _, path in tile_paths(size)}
    hashes = b"".join(files[p] for level, p in tile_paths(size) if level == 0)
    leaves = [hashes[i:i + 32] for i in range(0, len(hashes), 32)]
    assert len(leaves) == size, (len(leaves), size)
    assert base64.b64encode(root_of(leaves)).decode() == root
    entries = []
    for level, path in tile_paths(size):
        if level == 0:
            entries += unbundle(get(path.replace("tile/0/", "tile/entries/")).body)
    assert [hashlib.sha256(b"\x00" + e).digest() for e in entries] == leaves
    return size, root, files, leaves


def asked(ledger, route):
    """Requests that the ledger has answered on a route."""
    _, _, body = ledger.ask("GET", "/metrics")
    return sum(float(x.rsplit(" ", 1)[1]) for x in body.decode().splitlines()
               if x.startswith("http_requests_total{") and f'route="{route}"' in x)


def fill(ledger, count):
    for at in range(0, count, 100):
        n = min(100, count - at)
        status, answer = ledger.ingest(*[entry("Mint", f"acc_{i % 7}", 1 + i) for i in range(n)])
        assert status == 200, answer


def go_auditor(folder, size, root, leaves):
    if not Path("/usr/share/gocode/src/golang.org/x/mod").is_dir() or \
            subprocess.run(["sh", "-c", "command -v go"], capture_output=True,
                           check=False).returncode != 0:
        print("left out: golang-go and golang-golang-x-mod-dev are not installed")
        return
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": "",
           "GOCACHE": str(BUILD / "go-cache"), "HOME": str(BUILD)}
    program = folder / "auditor"
    done = subprocess.run(["go", "build", "-o", str(program), str(TREE / "auditor.go")], env=env,
                          capture_output=True, text=True, timeout=110, check=False)
    check("go: the auditor is built", done.returncode == 0, done.stderr)
    done = subprocess.run([str(program), str(folder), str(size), root], capture_output=True,
                          text=True, timeout=60, check=False)
    check("go: every leaf is proven against the checkpoint", done.returncode == 0 and
          done.stdout.split() == [base64.b64encode(x).decode() for x in leaves], done.stderr)
    # A tile below the root: Debian's x/mod passes over full tiles whose parent it has already read
    # for the root; those are covered by the root that is recomputed here from all leaves.
    spoilt = folder / "tile" / "0" / "002.p" / f"{ENTRIES % 256}"
    data = spoilt.read_bytes()
    spoilt.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    done = subprocess.run([str(program), str(folder), str(size), root], capture_output=True,
                          text=True, timeout=60, check=False)
    check("go: a changed tile is refused", done.returncode != 0)


def options(ledger, folder, *more):
    token = folder / "token"
    token.write_text(ledger.mint_token("ledger.read") + "\n")
    token.chmod(0o600)
    return (f"--origins.ledger.url=http://{ledger.addr}", "--origins.ledger.kind=ledger",
            "--origins.ledger.allow_http=true", "--origins.ledger.allow_private=true",
            "--timeouts.request=30s", "--edge.fill_timeout=30s",
            f"--origins.ledger.token_file={token}", *more)


def purged(edge, ledger, token):
    """By the short path as by the long one; nothing else is asked for again."""
    before = asked(ledger, "/tile/{path*}")
    for wish in ({"path": f"{BASE}/tile/0/000"}, {"path": "/edge/assets/o/ledger/tile/0/000"},
                 {"prefix": f"{BASE}/tile/0/00"}):
        status, said = purge(edge, token, **wish)
        wanted = 3 if "prefix" in wish else 1
        check(f"purge: {wish}", status == 200 and said["records"] == wanted, (status, said))
        for path in ("000", "001", f"002.p/{ENTRIES % 256}"):
            edge.get(f"{BASE}/tile/0/{path}")
    check("purge: the ledger was asked for what was purged", asked(ledger, "/tile/{path*}") ==
          before + 1 + 1 + 3)
    status, said = purge(edge, token, path="/edge/assets/ledger")
    check("purge: a path that is none of the origin's means nothing", status == 200 and
          said["records"] == 0, (status, said))


def many_auditors(ledger, folder):
    keys = Keys(folder)
    with Edge(*options(ledger, folder, "--origins.ledger.entries=true",
                       f"--auth.key_file={keys.file}",
                       "--origins.ledger.checkpoint_ttl=1h")) as edge:
        before = asked(ledger, "/tile/{path*}"), asked(ledger, "/checkpoint")
        with concurrent.futures.ThreadPoolExecutor(AUDITORS) as pool:
            results = list(pool.map(lambda _: audit(edge), range(AUDITORS)))
        size, root, files, leaves = results[0]
        check("auditors: each proved the whole log", all(r == results[0] for r in results) and
              size == ENTRIES)
        bundles = sum(1 for level, _ in tile_paths(size) if level == 0)
        after = asked(ledger, "/tile/{path*}"), asked(ledger, "/checkpoint")
        print(f"auditors: {AUDITORS} x {len(files) + bundles} tiles and bundles; the ledger "
              f"answered {after[0] - before[0]:.0f}, and {after[1] - before[1]:.0f} checkpoints")
        check("auditors: the ledger was asked once for each tile and bundle",
              after[0] - before[0] == len(files) + bundles, (before, after))
        check("auditors: and once for the checkpoint", after[1] - before[1] == 1, (before, after))
        for path in ("tile/0/000", "tile/0/002.p/188", "tile/entries/000"):
            a = edge.get(f"{BASE}/{path}")
            check(f"times: {path} never changes", "immutable" in (a["Cache-Control"] or "") and
                  "hit" in a["Cache-Status"] and a["ETag"].startswith('"b3:'), dict(a.headers))
        a = edge.get(f"{BASE}/checkpoint")
        check("times: the checkpoint is kept for its time", a["Cache-Control"] ==
              "public, max-age=3600" and "hit" in a["Cache-Status"], dict(a.headers))
        same = edge.get("/edge/assets/o/ledger/tile/0/000")
        check("paths: the long one is the same", same.body == files["tile/0/000"])
        for path in ("accounts/acct1/balances", "entries/1", "export", "tile/0/000?x=1",
                     "tile/00/000", "tile/0/%30%30%30", "healthz", "metrics", "supply"):
            a = edge.get(f"{BASE}/{path}")
            check(f"paths: {path} is not served", (a.status, a["X-Reason"]) == (403, "not_allowed"),
                  a.status)
        for path, data in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        go_auditor(folder, size, root, leaves)
        purged(edge, ledger, keys.token("edge.purge"))
        ledger.kill()
        check("outage: what is stored is proven without the ledger", audit(edge)[0] == ENTRIES)
        ledger.start()


def growing_log(ledger, folder):
    """The checkpoint moves on, and bundles stay with the ledger unless the settings say so."""
    with Edge(*options(ledger, folder, f"--origins.ledger.url=http://{ledger.addr}",
                       "--origins.ledger.checkpoint_ttl=1s")) as edge:
        a = edge.get(f"{BASE}/checkpoint")
        check("growth: the head", a.status == 200 and
              a.body.decode().split("\n")[1] == str(ENTRIES), a.body)
        a = edge.get(f"{BASE}/tile/entries/000")
        check("growth: entries are not served by default", a.status == 403, a.status)
        missing = edge.get(f"{BASE}/tile/0/002.p/189")
        check("growth: a tile that is not there yet", missing.status == 404, missing.status)
        fill(ledger, 1)
        check("growth: a new head is told soon", eventually(
            lambda: edge.get(f"{BASE}/checkpoint").body.decode().split("\n")[1] ==
            str(ENTRIES + 1)))
        check("growth: and its tile is there", eventually(
            lambda: edge.get(f"{BASE}/tile/0/002.p/189").status == 200))


with tempfile.TemporaryDirectory(prefix="ron-edge-ledger-") as scratch, Ledger() as the_ledger:
    fill(the_ledger, ENTRIES)
    many_auditors(the_ledger, Path(scratch))
    growing_log(the_ledger, Path(scratch))
finish()
