# SPDX-License-Identifier: Apache-2.0
"""What edges and bridges on one bucket must do, whatever server has it: played against the strict
stand-in (160-s3.py) and against Ceph RGW (tests/soak/rgw.py)."""
import atexit
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from edgekit import Edge, Keys, purge
from httpkit import check, eventually
from interopkit import Interop
from rewarderkit import b3
from s3kit import key_of

LIVE = "/edge/assets/o/map"
FRESH = {"ETag": '"v1"', "Cache-Control": "max-age=600"}


class World:
    """A bucket somewhere, and how services are told of it. `view` looks into it from outside."""

    def __init__(self, url, view, prefix="ron/"):
        self.url, self.view, self.prefix = url, view, prefix
        self.folder = Path(tempfile.mkdtemp(prefix="ron-s3-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.secret = self.folder / "secret"
        self.secret.write_text(view.secret + "\n")
        self.secret.chmod(0o600)

    def options(self, write="queue", **more):
        keys = {"endpoint": self.url, "bucket": self.view.name, "region": self.view.region,
                "prefix": self.prefix, "access_key": self.view.access,
                "secret_key_file": self.secret, "allow_http": "true", "write": write,
                "part_bytes": "5MiB", **more}
        return [f"--s3.{k}={v}" for k, v in keys.items() if v is not None]

    def edge(self, *more, origin=None, write="queue", **s3):
        live = [f"--origins.map.url={origin.url}", "--origins.map.allow_http=true",
                "--origins.map.allow_private=true"] if origin else []
        return Edge(*self.options(write, **s3), *live, "--timeouts.request=30s", *more)

    def interop(self, *more, write="queue", folder=None, env=None, **s3):
        return Interop(*self.options(write, **s3), "--timeouts.request=5s", *more, folder=folder,
                       env=env)

    def has(self, identity):
        return self.view.get(key_of(identity, self.prefix))

    def arrives(self, identity, seconds=30):
        return eventually(lambda: self.has(identity) is not None, seconds)


def ready(svc):
    a = svc.get("/readyz")
    body = json.loads(a.body)
    return a.status, body["degraded"], body.get("causes", {})


def well(svc):
    return eventually(lambda: ready(svc)[:2] == (200, False), 60)


def ill(svc):
    return eventually(lambda: ready(svc)[:2] == (200, True) and "s3" in str(ready(svc)[2]), 60)


def edges(w, origin):
    """What one edge filled another one serves, without the origin."""
    data = os.urandom(200_000)
    large = os.urandom(12 << 20)  # three parts
    origin.answers["/a"] = (200, FRESH, data)
    origin.answers["/large"] = (200, FRESH, large)
    origin.answers["/none"] = (200, FRESH, b"")
    with w.edge(origin=origin) as one, w.edge() as two:
        for path, body in (("/a", data), ("/large", large), ("/none", b"")):
            check(f"edges: {path} is filled", one.get(LIVE + path).body == body)
            check(f"edges: {path} comes into the bucket", w.arrives(b3(body)))
            check(f"edges: {path} is whole there", w.has(b3(body)) == body)
        asked = len(origin.seen)
        for body in (data, large, b""):
            a = two.get(f"/cas/{b3(body)}")
            check(f"edges: another one has {len(body)} bytes from the bucket",
                  a.status == 200 and a.body == body and a["ETag"] == f'"{b3(body)}"', a.status)
        a = two.get(f"/cas/{b3(large)}", Range="bytes=6000000-6000099")
        check("edges: a part of it", a.status == 206 and a.body == large[6000000:6000100])
        check("edges: the origin was not asked", len(origin.seen) == asked)
        check("edges: what nobody has is 404", two.get(f"/cas/{b3(b'nobody')}").status == 404)
        check("edges: found and absent are counted",
              two.metric('s3_tier_reads_total{result="found"}') == 3 and
              two.metric('s3_tier_reads_total{result="absent"}') == 1)
        gets = two.metric('s3_requests_total{op="get",outcome="ok"}')
        two.get(f"/cas/{b3(data)}")
        check("edges: the second time it is local",
              two.metric('s3_requests_total{op="get",outcome="ok"}') == gets)
        check("edges: nothing waits",
              eventually(lambda: one.metric("s3_tier_backlog_objects") == 0))
        check("edges: the parts of uploads are counted",
              one.metric('s3_requests_total{op="multipart_part",outcome="ok"}') == 3)
        check("edges: no upload was left behind", w.view.uploads() == 0)


def paths(w, origin):
    """By path, too: a record in the bucket tells the second edge what the first one filled."""
    data = os.urandom(90_000)
    origin.answers["/shared/a?v=1"] = (200, {**FRESH, "Content-Type": "text/x-test",
                                             "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"},
                                       data)
    origin.answers["/shared/short"] = (200, {"ETag": '"s"', "Cache-Control": "max-age=0"}, b"s")
    origin.answers["/shared/private"] = (200, {"ETag": '"p"', "Cache-Control": "private"}, b"p")
    with w.edge(origin=origin) as one, w.edge(origin=origin) as two:
        a = one.get(LIVE + "/shared/a?v=1")
        check("paths: filled", a.body == data and "fwd=uri-miss" in a["Cache-Status"],
              a["Cache-Status"])
        check("paths: in the bucket", w.arrives(b3(data)))
        check("paths: told", eventually(
            lambda: one.metric('edge_shared_records_total{result="told"}') == 1))
        asked = len(origin.seen)
        b = two.get(LIVE + "/shared/a?v=1")
        check("paths: the second edge has it by its path", b.status == 200 and b.body == data)
        check("paths: with type, tag and date", all(a[k] == b[k] for k in (
            "Content-Type", "ETag", "Last-Modified")), b.headers)
        check("paths: it says where from", "bucket" in b["Cache-Status"], b["Cache-Status"])
        check("paths: the origin was not asked", len(origin.seen) == asked)
        check("paths: nor the next time, nor the bucket",
              two.get(LIVE + "/shared/a?v=1").body == data and len(origin.seen) == asked and
              two.metric('edge_shared_records_total{result="found"}') == 1)
        two.get(LIVE + "/shared/a?v=2")
        check("paths: another query is another path", len(origin.seen) == asked + 1)
        for path in ("/shared/short", "/shared/private"):
            one.get(LIVE + path)
            asked = len(origin.seen)
            two.get(LIVE + path)
            check(f"paths: {path} is not shared", len(origin.seen) == asked + 1)
    records = w.view.keys(w.prefix + "r/")
    check("paths: one record", len(records) >= 1, records)
    with w.edge(origin=origin) as three:
        asked = len(origin.seen)
        three.get(LIVE + "/shared/a?v=1", Cache_Control="no-cache")
        check("paths: no-cache asks the origin", len(origin.seen) == asked + 1)
    kept = {key: w.view.get(key) for key in records}
    for key, data_of in kept.items():
        w.view.put(key, data_of[:-40] + bytes(8) + data_of[-32:])
    with w.edge(origin=origin) as four:
        asked = len(origin.seen)
        check("paths: a damaged record is not used",
              four.get(LIVE + "/shared/a?v=1").body == data and len(origin.seen) == asked + 1 and
              four.metric('edge_shared_records_total{result="bad"}') == 1)
    some = list(kept.values())
    for key in kept:
        w.view.put(key, some[0] if kept[key] != some[0] else some[-1])
    if len(some) > 1:
        with w.edge(origin=origin) as five:
            asked = len(origin.seen)
            check("paths: nor one of another path",
                  five.get(LIVE + "/shared/a?v=1").body == data and
                  len(origin.seen) == asked + 1)
    for key in kept:
        w.view.delete(key)


def evicted(w, origin):
    """What made room in the local store comes back from the bucket, not from the origin."""
    body = os.urandom(400_000)
    origin.answers["/e"] = (200, FRESH, body)
    for i in range(4):
        origin.answers[f"/f{i}"] = (200, FRESH, os.urandom(400_000))
    with w.edge("--edge.store_bytes=1MiB", "--edge.object_bytes=1MiB", origin=origin) as edge:
        edge.get(LIVE + "/e")
        check("evicted: it is in the bucket", w.arrives(b3(body)))
        for i in range(4):
            eventually(lambda: edge.metric("s3_tier_backlog_objects") == 0)
            check(f"evicted: others come, {i}", edge.get(f"{LIVE}/f{i}").status == 200)
        check("evicted: nothing waits, so nothing is pinned",
              eventually(lambda: edge.metric("s3_tier_backlog_objects") == 0))
        check("evicted: it made room", edge.metric('cas_evictions_total{store="edge"}') >= 1)
        asked = origin.count("/e")
        found = edge.metric('s3_tier_reads_total{result="found"}')
        check("evicted: served again", edge.get(LIVE + "/e").body == body)
        check("evicted: from the bucket, not from the origin", origin.count("/e") == asked and
              edge.metric('s3_tier_reads_total{result="found"}') == found + 1)


def bridges(w):
    """/put on one bridge, /o on another; with sync at once."""
    large = os.urandom(11 << 20)
    with w.interop() as one, w.interop(write="sync") as two:
        for body in (b"hello bucket", large, b"\0"):
            a = one.put(body)
            check(f"bridges: {len(body)} bytes are taken", a.status == 202, a.body)
            check("bridges: and come into the bucket", w.arrives(b3(body)))
            a = two.get(f"/o/{b3(body)}")
            check("bridges: another one serves them", a.status == 200 and a.body == body, a.status)
        body = os.urandom(6 << 20)
        a = two.put(body)
        check("bridges: sync acknowledges what the bucket has",
              a.status == 202 and w.has(b3(body)) == body, a.body)
        a = two.put(body)
        check("bridges: the same again is there already", a.status == 202 and
              two.metric('s3_tier_writes_total{result="present"}') == 1)
        check("bridges: at the first it came", one.get(f"/o/{b3(body)}").body == body)
        check("bridges: what nobody has is 404",
              one.get(f"/o/{b3(b'nobody has this')}").status == 404)


def damaged(w):
    """Other bytes under an id are neither served nor kept, and the next write mends them."""
    body = os.urandom(100_000)
    key = key_of(b3(body), w.prefix)
    with w.interop() as one:
        one.put(body)
        check("damaged: in the bucket", w.arrives(b3(body)))
    for what, bad in (("other bytes", body[:-1] + bytes([body[-1] ^ 1])),
                      ("fewer bytes", body[:-1]), ("more bytes", body + b"x"), ("none", b"")):
        check(f"damaged: {what} are put there", w.view.put(key, bad) == 200)
        with w.interop() as svc:
            a = svc.get(f"/o/{b3(body)}")
            check(f"damaged: {what} are refused", a.status == 503, a.status)
            check(f"damaged: {what} are counted",
                  svc.metric('s3_tier_reads_total{result="mismatch"}') == 1)
            check(f"damaged: {what} are not kept", not any(
                p.is_file() for p in (svc.folder / "data" / "objects" / "objects").rglob("*")))
            check(f"damaged: {what} are told of",
                  eventually(lambda: any("not what its name says" in x for x in svc.lines)))
            svc.put(body)
            check(f"damaged: {what} are replaced by the next write",
                  eventually(lambda: w.has(b3(body)) == body))


def away(w, server):
    """The server dies: what is local is served, what is new waits, nothing is lost."""
    before = os.urandom(50_000)
    with w.interop(timeout="2s") as svc, w.interop(write="sync", timeout="2s") as sync, \
            w.edge(timeout="2s") as edge:
        svc.put(before)
        check("away: first it is in the bucket", w.arrives(b3(before)))
        check("away: all is well", well(svc) and well(sync) and well(edge))
        server.kill()
        waiting = [os.urandom(30_000) for _ in range(5)]
        for body in waiting:
            check("away: queue takes it", svc.put(body).status == 202)
            check("away: and serves it", svc.get(f"/o/{b3(body)}").body == body)
        check("away: what is local is served", svc.get(f"/o/{b3(before)}").body == before)
        a = sync.put(b"not now")
        check("away: sync refuses", a.status == 503 and a.code in ("DOWNSTREAM_UNAVAILABLE",
                                                                     "TIMEOUT"), a.body)
        a = edge.get(f"/cas/{b3(before)}")
        check("away: what is only there is 503", a.status == 503 and a["Retry-After"], a.status)
        check("away: degraded, and ready", ill(svc) and ill(sync) and ill(edge))
        check("away: they wait", svc.metric("s3_tier_backlog_objects") == 5,
              svc.metric("s3_tier_backlog_objects"))
        svc.kill()
        svc.start()
        check("away: after a kill they wait still",
              eventually(lambda: svc.metric("s3_tier_backlog_objects") == 5))
        check("away: and are served", svc.get(f"/o/{b3(waiting[0])}").body == waiting[0])
        server.start()
        check("away: the server is back, all of them arrive",
              all(w.arrives(b3(body), 90) for body in waiting))
        check("away: nothing waits",
              eventually(lambda: svc.metric("s3_tier_backlog_objects") == 0, 60))
        check("away: all is well again", well(svc) and well(sync) and well(edge))
        check("away: edge has it now", edge.get(f"/cas/{b3(before)}").body == before)
        check("away: sync takes it now", sync.put(b"now").status == 202)
        check("away: none was lost", svc.metric('s3_tier_writes_total{result="lost"}') == 0)


def frozen(w, server):
    """The server hangs: local reads do not wait for it, and a drain ends in time."""
    local = os.urandom(300_000)
    with w.interop(write="off", timeout="20s") as svc, w.edge(timeout="20s") as edge:
        check("frozen: read only keeps what is put here", svc.put(local).status == 202)
        server.freeze()
        try:
            absent = [svc.client() for _ in range(8)]
            for i, c in enumerate(absent):
                c.request("GET", f"/o/{b3(b'absent %d' % i)}",
                          headers={"Authorization": "Bearer " + svc.token})
            begun = time.monotonic()
            for _ in range(20):
                check("frozen: local reads go on", svc.get(f"/o/{b3(local)}").body == local)
            check("frozen: at once", time.monotonic() - begun < 5, time.monotonic() - begun)
            c = edge.client()
            c.request("GET", f"/cas/{b3(b'absent')}")
            begun = time.monotonic()
            svc.stop()
            check("frozen: a drain does not wait for the server", time.monotonic() - begun < 6,
                  time.monotonic() - begun)
        finally:
            server.thaw()


def refused(w):
    """Wrong keys: degraded with a cause, and never the secret in a log."""
    wrong = w.folder / "wrong"
    wrong.write_text("another secret that is wrong")
    wrong.chmod(0o600)
    with w.interop(secret_key_file=wrong) as svc:
        check("refused: degraded", ill(svc) and "denied" in str(ready(svc)[2]), ready(svc))
        check("refused: it takes objects", svc.put(b"kept here").status == 202)
        check("refused: and tells why they wait",
              eventually(lambda: any("s3 put: denied (status 403" in x for x in svc.lines)))
        check("refused: the secret is not told", not any("another secret" in x for x in svc.lines))
    with w.interop(secret_key_file=None, secret_key_env="BUCKET_SECRET",
                   env={"BUCKET_SECRET": w.view.secret}) as svc:
        check("refused: out of the environment it is right", well(svc))


def purged(w, origin):
    """A purge by id takes it out of the bucket."""
    body = os.urandom(1000)
    origin.answers["/p"] = (200, FRESH, body)
    keys = Keys(w.folder)
    token = keys.token("edge.purge")
    with w.edge(f"--auth.key_file={keys.file}", origin=origin) as edge:
        edge.get(LIVE + "/p")
        check("purged: in the bucket", w.arrives(b3(body)))
        status, said = purge(edge, token, id=b3(body))
        check("purged: 200", status == 200 and said["objects"] == 1)
        check("purged: out of the bucket", w.has(b3(body)) is None)
        check("purged: 404", edge.get(f"/cas/{b3(body)}").status == 404)
        for wish in ({"path": LIVE + "/p"}, {"prefix": LIVE + "/"}):
            edge.get(LIVE + "/p")
            check("purged: told", eventually(lambda: len(w.view.keys(w.prefix + "r/")) >= 1))
            asked = origin.count("/p")
            status, said = purge(edge, token, **wish)
            check(f"purged: {wish}", status == 200 and said["records"] >= 1)
            check("purged: then the origin is asked, not the bucket",
                  edge.get(LIVE + "/p").body == body and origin.count("/p") == asked + 1)
