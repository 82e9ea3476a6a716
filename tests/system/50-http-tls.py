#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: a thousand handshakes at once.
"""Goal: clients that nobody here wrote meet the TLS side of `ron-fixture http` and find what it
promises: versions, ALPN, client certificates, reload without a dropped connection, whole files for
slow readers, bounded handshakes.

Method: certificates made by the openssl program; openssl s_client, curl and Python's ssl as
clients; raw sockets for what no client would send.
"""
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path

from httpkit import Ron, check, eventually, finish, missing, raise_open_files, read_all

HALF_OPEN = 1000
LARGE = 3 << 20
READERS = 6
GET = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"


def openssl(*arguments, feed=b""):
    done = subprocess.run(["openssl", *map(str, arguments)], input=feed, capture_output=True,
                          timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


class Pki:
    """A folder with an authority, a server, two clients of it and one of somebody else."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.authority("ca")
        self.authority("other")
        self.issue("server", "ca", "localhost")
        self.issue("client", "ca", "wallet", "DNS:wallet.example,URI:spiffe://ron/wallet")
        self.issue("wrong", "other", "wallet")

    def __getitem__(self, name):
        return self.folder / name

    def authority(self, name):
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-keyout", self[f"{name}.key"], "-out", self[f"{name}.pem"], "-days", "2",
                 "-subj", f"/CN={name}")

    def issue(self, name, issuer, subject, names="DNS:localhost,IP:127.0.0.1", days="2"):
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-keyout", self[f"{name}.key"], "-out", self[f"{name}.csr"],
                 "-subj", f"/CN={subject}", "-addext", f"subjectAltName={names}")
        self.run("x509", "-req", "-in", self[f"{name}.csr"], "-CA", self[f"{issuer}.pem"], "-CAkey",
                 self[f"{issuer}.key"], "-out", self[f"{name}.pem"], "-days", days,
                 "-copy_extensions", "copyall")
        self[f"{name}.key"].chmod(0o600)

    def expired(self, name, subject):
        """Ended long ago: `openssl ca` takes dates."""
        (self.folder / "index.txt").write_text("", encoding="ascii")
        (self.folder / "ca.cnf").write_text(
            f"[ca]\ndefault_ca=x\n[x]\ndatabase={self.folder}/index.txt\nnew_certs_dir="
            f"{self.folder}\nserial={self.folder}/serial\ndefault_md=sha256\npolicy=p\n"
            "[p]\ncommonName=supplied\n", encoding="ascii")
        (self.folder / "serial").write_text("1001", encoding="ascii")
        self.issue(name, "ca", subject)
        self.run("ca", "-batch", "-config", self["ca.cnf"], "-cert", self["ca.pem"], "-keyfile",
                 self["ca.key"], "-in", self[f"{name}.csr"], "-out", self[f"{name}.pem"],
                 "-startdate", "20200101000000Z", "-enddate", "20200102000000Z", "-notext")

    @staticmethod
    def run(*arguments):
        code, said = openssl(*arguments)
        if code != 0:
            raise RuntimeError(f"openssl {arguments}: {said}")


class Tls(Ron):
    def __init__(self, pki, *arguments):
        self.pki = pki
        self.cert, self.key = pki["live.pem"], pki["live.key"]
        self.install("server")
        super().__init__("--tls-cert", self.cert, "--tls-key", self.key, *arguments)

    @property
    def url(self):
        return f"https://{self.host}:{self.port}"

    def install(self, name, key=None):
        """Each file replaced by rename, as tools that renew certificates do."""
        for source, target in ((f"{name}.pem", self.cert), (f"{key or name}.key", self.key)):
            fresh = target.with_suffix(".new")
            fresh.write_bytes(self.pki[source].read_bytes())
            fresh.chmod(0o600)
            fresh.rename(target)

    def context(self, client=None, lowest=ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=self.pki["ca.pem"])
        context.minimum_version = lowest
        if client:
            context.load_cert_chain(self.pki[f"{client}.pem"], self.pki[f"{client}.key"])
        return context

    def secure(self, **options):
        return self.context(**options).wrap_socket(self.connect(), server_hostname="localhost")

    def get(self, path):
        with self.secure() as s:
            body = ask(s, path)[1]
            s.unwrap()
            return body

    def tls(self):
        return self.counters()["tls"]

    def failures(self, reason):
        return self.tls()["failures"][reason]

    def curl(self, *arguments, path="/hello"):
        return subprocess.run(
            ["curl", "-sS", "--max-time", "20", "--cacert", str(self.pki["ca.pem"]),
             *map(str, arguments), self.url + path], capture_output=True, text=True, check=False)

    def s_client(self, *arguments, feed=b""):
        return openssl("s_client", "-connect", f"{self.host}:{self.port}", "-CAfile",
                       self.pki["ca.pem"], *arguments, feed=feed)

    def reload(self):
        """Sends SIGHUP and waits for what came of it; true when the new files are in use."""
        before = self.said().count("reload")
        self.process.send_signal(signal.SIGHUP)
        eventually(lambda: self.said().count("reload") > before)
        return "reloaded" in self.said().strip().splitlines()[-1]


def ask(s, path="/hello"):
    """One request on an open connection: (status, body)."""
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    data = b""
    while b"\r\n\r\n" not in data:
        piece = s.recv(65536)
        if not piece:
            raise EOFError(data)
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: (\d+)", head)[1])
    while len(body) < length:
        body += s.recv(65536)
    return int(head.split()[1]), body


def subject(s):
    return dict(pair[0] for pair in s.getpeercert()["subject"])["commonName"]


def refused(server, **options):
    """With TLS 1.3 a client learns of a refusal when it first reads."""
    try:
        with server.secure(**options) as s:
            ask(s)
        return False
    except (ssl.SSLError, EOFError, ConnectionError):
        return True


def versions_and_alpn(pki):
    with Tls(pki) as server:
        code, said = server.s_client("-tls1_2")
        check("s_client: TLS 1.2 is refused", code != 0 and "alert protocol version" in said, said)
        code, said = server.s_client("-tls1_3", "-alpn", "h2,http/1.1", "-verify_return_error")
        check("s_client: TLS 1.3, verified", code == 0 and "New, TLSv1.3" in said, said)
        check("s_client: ALPN is http/1.1", "ALPN protocol: http/1.1" in said, said)
        code, said = server.s_client("-alpn", "h2")
        check("s_client: h2 alone is refused", "no application protocol" in said, said)
        check("both are counted", server.failures("version") == 1 and server.failures("alpn") == 1,
              server.tls())
        metrics = server.get("/metrics").decode()
        check("the certificate's end is in the metrics",
              re.search(r'tls_certificate_expiry_seconds\{certificate="localhost"\} 1[67]\d{4}\b',
                        metrics), metrics)
        check("failures are in the metrics",
              'tls_handshake_failures_total{reason="version"} 1' in metrics, metrics)
        session = server.pki["session"]
        server.s_client("-sess_out", session, "-ign_eof",
                        feed=GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        _, said = server.s_client("-sess_in", session)
        check("s_client: a ticket resumes", "Reused, TLSv1.3" in said, said)
    with Tls(pki, "--tls12") as server:
        code, said = server.s_client("-tls1_2")
        check("s_client: TLS 1.2 where it is allowed", code == 0 and "New, TLSv1.2" in said, said)
        code, said = server.s_client("-tls1_2", feed=b"R\n")
        check("s_client: renegotiation is refused",
              "RENEGOTIATING" in said and "no renegotiation" in said, said)


def curl_and_python(pki):
    if missing("curl"):
        return
    with Tls(pki) as server:
        done = server.curl()
        check("curl: GET with the authority", done.returncode == 0 and "two hundred" in done.stdout,
              done)
        done = server.curl("-o", pki["got"], path="/bytes/5000000")
        check("curl: 5 MB", pki["got"].stat().st_size == 5000000, done)
        body = os.urandom(900000)
        pki["body"].write_bytes(body)
        server.curl("--data-binary", f"@{pki['body']}", "-o", pki["got"], path="/echo")
        check("curl: 900 kB echoed", pki["got"].read_bytes() == body)
        done = subprocess.run(["curl", "-sS", "--max-time", "20", server.url], check=False,
                              capture_output=True, text=True)
        check("curl: without the authority it refuses us", done.returncode == 60, done)
        split_records(server)
        half_closed(server)


def split_records(server):
    """A request in records of one byte, and those in segments of one byte."""
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = server.context().wrap_bio(inside, outside, server_hostname="localhost")
    got = b""
    with server.connect() as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def step(call):
            while True:
                try:
                    result = call()
                    break
                except ssl.SSLWantReadError:
                    flush()
                    inside.write(raw.recv(65536))
            flush()
            return result

        def flush():
            for byte in outside.read():
                raw.send(bytes([byte]))

        step(client.do_handshake)
        for byte in GET:
            client.write(bytes([byte]))
        flush()
        while b"two hundred" not in got:
            got += step(lambda: client.read(65536))
    check("python ssl: a record a byte, a segment a byte", got.startswith(b"HTTP/1.1 200"), got)


def half_closed(server):
    """FIN without close_notify after the request: the answer comes, the truncation is counted."""
    # Others that left without a close_notify have been counted when they are gone.
    check("no other connection is left", eventually(
        lambda: server.counters()["connections"] == 1), server.counters())
    before = server.tls()["truncated"]
    with server.secure() as s:
        s.sendall(GET)
        socket.socket.shutdown(s, socket.SHUT_WR)
        data = b""
        while piece := s.recv(65536):
            data += piece
    check("python ssl: answered after FIN, ended with close_notify",
          data.startswith(b"HTTP/1.1 200"), data)
    check("a FIN without close_notify is counted", server.tls()["truncated"] == before + 1,
          (before, server.tls()))


def client_certificates(pki):
    print_of = openssl("x509", "-in", pki["client.pem"], "-noout", "-fingerprint", "-sha256")[1]
    fingerprint = print_of.strip().split("=")[1].replace(":", "").lower()
    with Tls(pki, "--tls-client-ca", pki["ca.pem"]) as server:
        server.get = lambda path: ask(server.secure(client="client"), path)[1]
        peer = json.loads(server.get("/peer"))
        check("a client certificate is told to the handler",
              peer == {"common_name": "wallet", "sha256": fingerprint,
                       "names": ["wallet.example", "spiffe://ron/wallet"]}, peer)
        check("none is refused", refused(server))
        check("one of another authority is refused", refused(server, client="wrong"))
        check("both are counted", eventually(
            lambda: server.failures("no_certificate") == 1 and
            server.failures("certificate") == 1), server.tls())
        if not missing("curl"):
            done = server.curl("--cert", pki["client.pem"], "--key", pki["client.key"])
            check("curl: with its certificate", "two hundred" in done.stdout, done)
            done = server.curl()
            check("curl: without", done.returncode != 0 and "two hundred" not in done.stdout, done)
    with Tls(pki, "--tls-client-ca", pki["ca.pem"], "--tls-client", "optional") as server:
        check("optional: none is served", json.loads(server.get("/peer")) == {})
        check("optional: a wrong one is refused", refused(server, client="wrong"))


def reload_under_load(pki):
    pki.issue("second", "ca", "second")
    pki.expired("expired", "expired")
    with Tls(pki) as server:
        stop, served, errors = threading.Event(), [0] * 4, []

        def load(index):
            try:
                kept = server.secure()
                while not stop.is_set():
                    with server.secure() as s:
                        served[index] += ask(s)[0] == 200
                    served[index] += ask(kept)[0] == 200
                kept.close()
            except (OSError, EOFError) as error:
                errors.append(repr(error))

        threads = [threading.Thread(target=load, args=(i,)) for i in range(4)]
        old = server.secure()
        for thread in threads:
            thread.start()
        for turn in range(10):
            name = "second" if turn % 2 == 0 else "server"
            server.install(name)
            check(f"reload {turn + 1} of 10", server.reload(), server.said())
            wanted = sum(served) + 20
            eventually(lambda: sum(served) > wanted or errors)
        server.install("second")
        check("the last reload", server.reload(), server.said())
        stop.set()
        for thread in threads:
            thread.join()
        check("nobody's connection failed", not errors, errors)
        print(f"    {sum(served)} requests during 11 reloads")
        check("the connection from before goes on", ask(old)[0] == 200 and
              subject(old) == "localhost")
        with server.secure() as s:
            check("a new one gets the new certificate", subject(s) == "second", s.getpeercert())
        bad_reloads(server, old)


def bad_reloads(server, old):
    for what, install, words in (
            ("an expired certificate", ("expired",), "ended on 2020-01-02"),
            ("a key of another", ("server", "second"), "does not belong"),
    ):
        server.install(*install)
        check(f"{what} is not taken", not server.reload(), server.said())
        check(f"{what}: the message says why", words in server.said(), server.said())
        with server.secure() as s:
            check(f"{what}: the old one is served on", subject(s) == "second")
    server.install("server")
    server.key.chmod(0o644)
    check("a key for all to read is not taken", not server.reload(), server.said())
    check("a key for all to read: the remedy is named", "chmod 600" in server.said())
    server.key.chmod(0o600)
    check("put right, it is taken", server.reload(), server.said())
    check("the connection from before all that goes on", ask(old)[0] == 200)
    tls = server.tls()
    check("reloads are counted", (tls["reloads"], tls["reload_failures"]) == (12, 3), tls)


def taken_up(server, lost):
    """Whether every half-open handshake is under way or over. Who asks may have to give way himself
    while they come in, which is kept in `lost`."""
    try:
        tls = server.tls()
    except (EOFError, OSError) as e:
        lost.append(e)
        return False
    return tls["open"] + tls["failures"]["crowded"] + tls["failures"]["timeout"] >= HALF_OPEN


def strange_peers(pki):
    raise_open_files(4 * HALF_OPEN)
    with Tls(pki, "--connections", 2 * HALF_OPEN, "--read-timeout", "2000") as server:
        with server.connect() as s:
            s.sendall(GET)
            check("plain HTTP to the TLS port is closed without an answer", read_all(s) == b"")
        check("and counted", server.failures("not_tls") == 1)
        half = [server.connect() for _ in range(HALF_OPEN)]
        for i, s in enumerate(half):  # nothing; the start of a record; of a hello
            s.sendall((b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03")[i % 3])
        # While they still come in, one of ours may be the oldest and give way: that is the rule.
        lost = []
        check("the half-open ones are taken up", eventually(lambda: taken_up(server, lost)))
        good = 0
        for _ in range(50):
            with server.secure() as s:
                good += ask(s)[0] == 200
        check(f"{HALF_OPEN} half-open handshakes do not stop others", good == 50, good)
        check("the half-open ones are bounded", server.tls()["open"] <= 512, server.tls())
        ended = sum(read_end(s) for s in half)
        check("all of them are closed in time", ended == HALF_OPEN, ended)
        failures = server.tls()["failures"]
        over = failures["timeout"] + failures["crowded"] - HALF_OPEN
        check("timeouts and evictions add up", 0 <= over <= len(lost), (failures, lost))


def large_files(pki):
    """Many readers of one file at once through small windows, so that almost every record waits for
    room; they share the worker's buffers, and each must get its own bytes."""
    content = random.Random(20).randbytes(LARGE)
    path = pki["server.pem"].with_name("large")
    path.write_bytes(content)
    with Tls(pki, "--file", path, "--workers", 1, "--write-timeout", 20000) as server:
        readers = []
        for i in range(READERS):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(20)
            s.connect((server.host, server.port))
            s = server.context().wrap_socket(s, server_hostname="localhost")
            first = i * 12345
            s.sendall(f"GET /file HTTP/1.1\r\nHost: localhost\r\nRange: bytes={first}-\r\n\r\n"
                      .encode())
            readers.append((s, first, bytearray()))
        left = list(readers)
        while left:  # in turns, a little each
            for reader in list(left):
                s, first, data = reader
                data += s.recv(7000)
                head = data.find(b"\r\n\r\n")
                if head >= 0 and len(data) - head - 4 == LARGE - first:
                    left.remove(reader)
        right = sum(bytes(data).partition(b"\r\n\r\n")[2] == content[first:]
                    for _, first, data in readers)
        check(f"{READERS} slow readers of one file get their own bytes", right == READERS, right)
        for s, _, _ in readers:
            check("and go on with the connection", ask(s)[0] == 200)
            s.close()


def slow_peers(pki):
    """The head has its time over TLS as well, whether bytes or records come slowly."""
    with Tls(pki, "--read-timeout", "1000") as server:
        with server.secure() as s:
            s.sendall(b"GET /hello HTTP/1.1\r\n")
            check("half a head: told and closed", read_all(s).startswith(b"HTTP/1.1 408"))
        inner, outer = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = server.context().wrap_bio(inner, outer, server_hostname="localhost")
        with server.connect() as s:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    s.sendall(outer.read())
                    inner.write(s.recv(65536))
            s.sendall(outer.read())
            client.write(GET)
            record = outer.read()
            s.sendall(record[:-1])
            told = b""
            for piece in iter(lambda: s.recv(65536), b""):  # tickets, answer, close_notify, end
                inner.write(piece)
                try:
                    told += client.read(65536)
                except ssl.SSLWantReadError:
                    pass
            check("a record without its end: told and closed, not left to the idle timeout",
                  told.startswith(b"HTTP/1.1 408"), told)


def read_end(s):
    """Whether the server closes; an evicted peer may get a reset."""
    with s:
        try:
            return s.recv(4096) == b""
        except ConnectionResetError:
            return True


def bad_options(pki):
    program = os.environ["RON_FIXTURE"]
    for arguments, words in (
            (("--tls-cert", pki["server.pem"]), "key file"),
            (("--tls-client-ca", pki["ca.pem"]), "--tls-cert"),
            (("--tls-cert", pki["server.pem"], "--tls-key", pki["client.key"]), "does not belong"),
            (("--tls-cert", "/nonexistent", "--tls-key", pki["client.key"]), "/nonexistent"),
    ):
        done = subprocess.run([program, "http", "--listen", "127.0.0.1:0", *map(str, arguments)],
                              capture_output=True, text=True, timeout=20, check=False)
        check(f"refused at the start: {words}", done.returncode == 1 and words in done.stderr, done)


def main():
    if missing("openssl"):
        raise SystemExit(77)
    with tempfile.TemporaryDirectory(prefix="ron-tls-") as folder:
        pki = Pki(folder)
        for part in (bad_options, versions_and_alpn, curl_and_python, client_certificates,
                     reload_under_load, large_files, slow_peers, strange_peers):
            part(pki)
    finish()


main()
