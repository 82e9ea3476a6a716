#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the edge talks to the origins of its settings and to nobody else, whatever an origin, a
client, a name server or a setting says; and to an origin over TLS only with a certificate that the
authority of its setting has signed for that name.

Method: two servers on loopback, an origin and a trap that nobody may reach; names by a file of
hosts in a mount namespace of the edge's own; Debian's nginx as TLS origin with certificates of an
authority made here.
"""
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from edgekit import Edge, Origin  # noqa: E402
from httpkit import Nginx, check, finish, missing  # noqa: E402
from rewarderkit import b3  # noqa: E402

BASE = "/edge/assets/o/map/"
BODY = b"what the origin has" * 100


def edge_of(url, *more, **keys):
    return Edge(f"--origins.map.url={url}", "--retry.live_fill.max_retries=0",
                "--timeouts.request=20s", "--edge.fill_timeout=20s", *more, **keys)


def refused(a):
    return a.status == 403 and a["X-Reason"] == "not_allowed"


class Trap(Origin):
    """Whoever connects has been tricked."""

    def __init__(self):
        super().__init__()
        self.answers = {}
        self.port = self.server.server_address[1]

    def untouched(self, name):
        check(f"{name}: the trap was not asked", not self.seen, self.seen)
        self.seen.clear()


# ---- redirects -----------------------------------------------------------------------------------

def redirects(origin, trap):
    port, here = trap.port, origin.server.server_address[1]
    away = {
        "another address": f"http://127.0.0.2:{port}/x",
        "another port": f"http://127.0.0.1:{port}/x",
        "a name of the same address": f"http://localhost:{here}/x",
        "a name of another port": f"http://localhost:{port}/x",
        "userinfo that looks like the origin": f"http://127.0.0.1:{here}@127.0.0.1:{port}/x",
        "a fragment that looks like the origin": f"http://127.0.0.1:{port}#@127.0.0.1:{here}/x",
        "a backslash before the origin": f"http://127.0.0.1:{port}\\@127.0.0.1:{here}/x",
        "the address as a number": f"http://2130706433:{port}/x",
        "the address in octal": f"http://0177.0.0.1:{port}/x",
        "the address in hexadecimal": f"http://0x7f000001:{port}/x",
        "a short address": f"http://127.1:{port}/x",
        "the address mapped into IPv6": f"http://[::ffff:127.0.0.1]:{port}/x",
        "the address mapped, in hexadecimal": f"http://[::ffff:7f00:1]:{port}/x",
        "IPv6 loopback": f"http://[::1]:{port}/x",
        "no address": f"http://0.0.0.0:{port}/x",
        "the cloud's metadata": "http://169.254.169.254/latest/meta-data/",
        "no scheme": f"//127.0.0.1:{port}/x",
        "a file": "file:///etc/passwd",
        "gopher": f"gopher://127.0.0.1:{port}/_x",
        "dict": f"dict://127.0.0.1:{port}/x",
        "ftp": f"ftp://127.0.0.1:{port}/x",
        "data": "data:text/plain,x",
        "blanks": f" http://127.0.0.1:{port}/x",
        "a line break": f"http://127.0.0.1:{port}/x\tHost: y",
    }
    with edge_of(origin.url, "--origins.map.allow_http=true", "--origins.map.allow_private=true") \
            as edge:
        for number, (name, location) in enumerate(away.items()):
            origin.answers[f"/away{number}"] = (302, {"Location": location}, b"")
            a = edge.get(BASE + f"away{number}")
            check(f"a redirect to {name}: refused, nothing of it served", a.status in (403, 502) and
                  b"root:" not in a.body, (a.status, a["X-Reason"], a.body))
            trap.untouched(f"a redirect to {name}")
        ok = (200, {"ETag": '"v"', "Cache-Control": "max-age=60"}, BODY)
        origin.answers["/target"] = ok
        origin.answers["/same"] = (302, {"Location": f"{origin.url}/target"}, b"")
        check("a redirect within the origin: followed", edge.get(BASE + "same").body == BODY)
        for i in range(6):
            origin.answers[f"/chain{i}"] = (302, {"Location": f"{origin.url}/chain{i + 1}"}, b"")
        check("a chain of redirects: refused", refused(edge.get(BASE + "chain0")))
        check("a chain of redirects: not followed to its end", origin.count("/chain4") == 0)
        check("counted", edge.metric('edge_rejects_total{reason="not_allowed"}') >= 1)


# ---- settings and names --------------------------------------------------------------------------

def starts(url, *more):
    """The edge with this origin, or None when it does not start because of it."""
    try:
        return edge_of(url, *more)
    except RuntimeError as e:
        check(f"{url}: what is told is its setting", "origins.map" in str(e), e)
        return None


def settings(trap):
    """Each is refused at the start, or at the first request; the trap never hears of it."""
    port = trap.port
    for url in (f"ftp://127.0.0.1:{port}", f"file://127.0.0.1:{port}/etc", "gopher://127.0.0.1:70",
                f"http://user@127.0.0.1:{port}", f"http://user:pw@127.0.0.1:{port}",
                f"http://127.0.0.1:{port}?x", f"http://127.0.0.1:{port}#x", "http://",
                "http://127.0.0.1:0", "http://127.0.0.1:99999"):
        edge = starts(url, "--origins.map.allow_http=true", "--origins.map.allow_private=true")
        if edge is not None:
            with edge:
                a = edge.get(BASE + "x")
                check(f"{url}: nothing is served", a.status in (403, 502), (a.status, a.body))
        else:
            check(f"{url}: the edge does not start", True)
        trap.untouched(url)
    edge = starts(f"http://127.0.0.1:{port}")
    check("http without allow_http: the edge does not start", edge is None)


def literals(trap):
    """Allowed to use http, not to reach private addresses."""
    for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "10.0.0.1",
                 "192.168.0.1", "172.16.0.1", "169.254.169.254", "[fd00::1]", "[fe80::1]",
                 "100.64.0.1", "[64:ff9b::7f00:1]", "2130706433", "017700000001", "0x7f000001",
                 "127.1", "0x7f.0.0.1", "0177.0.0.1"):
        edge = starts(f"http://{host}:{trap.port}", "--origins.map.allow_http=true")
        if edge is not None:
            with edge:
                a = edge.get(BASE + "x")
                check(f"{host} without allow_private: refused", refused(a), (a.status, a.body))
        else:
            check(f"{host}: the edge does not start", True)
        trap.untouched(host)


def names(trap, folder):
    """Names that stand for private addresses, as a hostile name server gives them."""
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 internal.test\n169.254.169.254 metadata.test\n10.1.2.3 ten.test\n"
                     "::ffff:127.0.0.1 mapped.test\n::1 six.test\n0.0.0.0 zero.test\n",
                     encoding="ascii")
    if subprocess.run(["unshare", "-m", "mount", "--bind", hosts, "/etc/hosts"],
                      capture_output=True, check=False).returncode != 0:
        print("left out: names, because this machine has no mount namespaces for us")
        return
    prefix = ["unshare", "-m", "sh", "-c",
              f'mount --bind "{hosts}" /etc/hosts && exec "$0" "$@"']
    for name in ("internal", "metadata", "ten", "mapped", "six", "zero"):
        with edge_of(f"http://{name}.test:{trap.port}", "--origins.map.allow_http=true",
                     prefix=prefix) as edge:
            a = edge.get(BASE + "x")
            check(f"{name}.test stands for a private address: refused", refused(a),
                  (a.status, a["X-Reason"], a.body))
        trap.untouched(name)


# ---- paths ---------------------------------------------------------------------------------------

def raw(edge, target):
    """The status of a request with exactly this target."""
    return whole(edge, target)[0]


def whole(edge, target):
    """The same, and the whole answer."""
    host, port = edge.addr.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as s:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: {edge.addr}\r\nConnection: close\r\n\r\n"
                  .encode("latin-1"))
        answer = b""
        while piece := s.recv(65536):
            answer += piece
    return int(answer.split(b" ", 2)[1]), answer


# Each leads out of its folder for somebody: as it is, decoded, or to a server of another habit.
OUT = ("../secret", "a/../../secret", "%2e%2e/secret", ".%2e/secret", "..%2fsecret",
       "%2e%2e%2fsecret", "a%2f..%2f..%2fsecret", "a/..%2F../secret", "a/%2e%2e/%2E%2E/secret",
       "..;/secret", "\\..\\secret", "%5c..%5csecret", "..%5csecret")


def folder_of(root):
    """The folder of a real server that decodes before it looks: what leads out is never sent."""
    (root / "public").mkdir(parents=True)
    (root / "secret").write_bytes(b"the secret")
    (root / "public" / "open").write_bytes(b"open")
    for path in (root, root / "public"):
        path.chmod(0o755)
    root.parent.chmod(0o755)
    with Nginx(f"    root {root};\n    location / {{ }}\n") as nginx:
        url = f"http://127.0.0.1:{nginx.port}"
        with socket.create_connection(("127.0.0.1", nginx.port), timeout=20) as s:
            s.sendall(b"GET /public/..%2fsecret HTTP/1.0\r\n\r\n")
            check("this server would give it away", b"the secret" in s.makefile("rb").read())
        here = ("--origins.map.allow_http=true", "--origins.map.allow_private=true")
        with edge_of(url + "/public", *here) as edge:
            check("what is in the folder is served", edge.get(BASE + "open").body == b"open")
            for path in OUT:
                status, answer = whole(edge, BASE + path)
                check(f"folder: {path} is refused, nothing of it served",
                      status == 400 and b"the secret" not in answer, (status, answer))
        with edge_of(url, *here, "--gateway.origin=map", "--gateway.prefix=/public") as edge:
            check("gateway: what is below its prefix is served",
                  edge.get("/public/open").body == b"open")
            for path in OUT:
                status, answer = whole(edge, "/public/" + path)
                check(f"gateway: {path} is refused, nothing of it served",
                      status == 400 and b"the secret" not in answer, (status, answer))


def paths(origin, trap):
    """The origin is a folder of a host; nobody gets out of it."""
    port = trap.port
    origin.answers["/secret"] = (200, {"ETag": '"s"'}, b"secret")
    with edge_of(origin.url + "/public", "--origins.map.allow_http=true",
                 "--origins.map.allow_private=true") as edge:
        before = len(origin.seen)
        for path in OUT:
            raw(edge, BASE + path)
            check(f"path {path}: never sent", len(origin.seen) == before, origin.seen[before:])
        for path in (f"@127.0.0.1:{port}/x", f"//127.0.0.1:{port}/x", f":{port}/x",
                     f"http://127.0.0.1:{port}/x", f"%00@127.0.0.1:{port}", "a%0d%0aHost:%20x/y"):
            status = raw(edge, BASE + path)
            seen = [p for p, _ in origin.seen[before:]]
            check(f"path {path}: {status}, within the folder", status != 200 and
                  all(p.startswith("/public/") for p in seen), seen)
            hosts = {h["Host"] for _, h in origin.seen[before:]}
            check(f"path {path}: no other host is named",
                  hosts <= {origin.url.removeprefix("http://")}, hosts)
            before = len(origin.seen)
            trap.untouched(f"path {path}")


# ---- TLS -----------------------------------------------------------------------------------------

class Authority:
    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.cert = folder / f"{name}.pem"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-keyout", folder / f"{name}.key", "-out", self.cert, "-days", "2",
                     "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
                     "-addext", "keyUsage=critical,keyCertSign")

    @staticmethod
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=True)

    def sign(self, name, alt):
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        more, cert = self.folder / f"{name}.ext", self.folder / f"{name}.pem"
        more.write_text(f"subjectAltName={alt}\n", encoding="ascii")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        self.openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey",
                     self.folder / f"{self.name}.key", "-CAcreateserial", "-days", "2", "-out",
                     cert, "-extfile", more)
        return f"    ssl_certificate {cert};\n    ssl_certificate_key {key};\n"


def tls(folder):
    good, other = Authority(folder, "good"), Authority(folder, "other")
    www = folder / "www"
    www.mkdir()
    www.chmod(0o755)
    folder.chmod(0o755)
    (www / "file.bin").write_bytes(BODY)
    serve = f"    root {www};\n"
    here = ("--origins.map.allow_private=true", f"--origins.map.ca_file={good.cert}")
    with Nginx(good.sign("right", "IP:127.0.0.1") + serve + f"""
    location = /down {{ return 302 http://127.0.0.1:1/file.bin; }}
    location = /around {{ return 302 https://127.0.0.1:$server_port/file.bin; }}
""", tls=True) as nginx:
        url = f"https://127.0.0.1:{nginx.port}"
        with edge_of(url, *here) as edge:
            a = edge.get(BASE + "file.bin")
            check("TLS: a certificate of the authority: served and hashed", a.status == 200 and
                  a.body == BODY and a["ETag"] == f'"{b3(BODY)}"', (a.status, a.body[:200]))
            a = edge.get(BASE + "down")
            check("TLS: a redirect to http is refused", refused(a), (a.status, a.body))
            check("TLS: one to the same host is followed", edge.get(BASE + "around").body == BODY)
        for name, more in {"the system's authorities": here[:1], "another authority":
                           (here[0], f"--origins.map.ca_file={other.cert}")}.items():
            with edge_of(url, *more) as edge:
                a = edge.get(BASE + "file.bin")
                check(f"TLS: by {name} it is not trusted", a.status == 502 and BODY not in a.body,
                      (a.status, a.body))
    for name, block in {"another name": good.sign("wrong", "DNS:elsewhere.test"),
                        "another authority": other.sign("foreign", "IP:127.0.0.1")}.items():
        with Nginx(block + serve, tls=True) as nginx, \
                edge_of(f"https://127.0.0.1:{nginx.port}", *here) as edge:
            a = edge.get(BASE + "file.bin")
            check(f"TLS: a certificate of {name} is refused", a.status == 502 and
                  BODY not in a.body, (a.status, a.body))


def main():
    if missing("nginx", "openssl"):
        sys.exit(77)
    os.environ["http_proxy"] = "http://127.0.0.1:1"  # what the environment says is no setting
    origin, trap = Origin(), Trap()
    with tempfile.TemporaryDirectory(prefix="ron-ssrf-") as name:
        redirects(origin, trap)
        settings(trap)
        literals(trap)
        names(trap, Path(name))
        paths(origin, trap)
        folder_of(Path(name) / "site")
        tls(Path(name))
    finish()


main()
