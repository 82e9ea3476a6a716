#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: the guards of a ledger as an operator sets them up: a policy file with limits, freezes and
residency that a reload reads anew, remote guards that are asked and whose silence is no yes,
privileged scopes bound to client certificates, and witnesses who cosign checkpoints.

Method: whole ledgers. The remote services are a server of Python's that says what it is told to;
certificates and the witness's Ed25519 key are made, and its signatures too, by the openssl program.
"""
import base64
import hashlib
import http.client
import http.server
import json
import os
import signal
import socketserver
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from httpkit import check, eventually, finish, missing  # noqa: E402
from ledgerkit import PROGRAM, Ledger, entry  # noqa: E402

EU, US, BAD, TOWN = "t:eu/u:a", "t:us/u:b", "t:bad/u:c", "t:town/u:d"
POLICY = """v = 1
freeze = ["t:bad"]
[[limit]]
account = "t:eu"
max_amount = "%d"
[[limit]]
account = "t:eu"
kinds = ["Burn"]
deny = true
[[residency]]
account = "t:eu"
tag = "eu"
[[residency]]
account = "t:us"
tag = "us"
[[residency_pass]]
from = "eu"
to = "us"
"""


def refused(ledger, name, status, reason, *entries, detail="", **more):
    before = ledger.get("/head")[1]
    got, body = ledger.ingest(*entries, **more)
    check(f"{name}: {status} {reason}", got == status and body["reason"] == reason
          and detail in json.dumps(body), (got, body))
    after = ledger.get("/head")[1]
    check(f"{name}: changes nothing", (before["seq"], before["root"]) ==
          (after["seq"], after["root"]), (before, after))


def taken(ledger, name, *entries, **more):
    status, body = ledger.ingest(*entries, **more)
    check(f"{name}: taken", status == 200, body)


def reload(ledger, said):
    before = sum(f'"{said}"' in x for x in ledger.lines)
    ledger.process.send_signal(signal.SIGHUP)
    return eventually(lambda: sum(f'"{said}"' in x for x in ledger.lines) > before)


# ---- the policy file -----------------------------------------------------------------------------

def policy_file():
    with tempfile.TemporaryDirectory(prefix="ron-guard-") as folder:
        path = Path(folder) / "policy.toml"
        path.write_text("v = 1\n", encoding="ascii")
        with Ledger(f"--policy.file={path}", folder=folder) as ledger:
            taken(ledger, "policy: before it has rules", *[
                entry("Mint", a, 1000) for a in (EU, US, BAD, TOWN)])
            taken(ledger, "policy: and across borders", entry("Transfer", US, 500, to=EU))
            path.write_text(POLICY % 100, encoding="ascii")
            check("policy: a reload reads it", reload(ledger, "reloaded"), ledger.lines[-3:])
            refused(ledger, "policy: above the ceiling", 403, "policy_denied",
                    entry("Transfer", EU, 101, to="t:eu/u:z"), detail="amount")
            taken(ledger, "policy: at the ceiling", entry("Transfer", EU, 100, to="t:eu/u:z"))
            refused(ledger, "policy: a kind that is denied", 403, "policy_denied",
                    entry("Burn", EU, 1), detail="kind")
            refused(ledger, "policy: frozen by the file", 403, "policy_denied",
                    entry("Transfer", BAD, 1, to=TOWN), detail="account")
            refused(ledger, "residency: back over the border", 403, "policy_denied",
                    entry("Transfer", US, 1, to=EU), detail="to")
            refused(ledger, "residency: out of it", 403, "policy_denied",
                    entry("Transfer", EU, 1, to=TOWN), detail="to")
            refused(ledger, "residency: in two steps of a batch", 403, "policy_denied",
                    entry("Debit", US, 1), entry("Credit", EU, 1))
            hold = entry("Hold", US, 5)
            taken(ledger, "residency: a hold at home", hold)
            refused(ledger, "residency: a capture over the border", 403, "policy_denied",
                    entry("Capture", US, 5, to=EU, ref=hold["id"]))
            taken(ledger, "residency: where a pass leads", entry("Transfer", EU, 1, to=US))
            path.write_text(POLICY % 100 + "colour = 1\n", encoding="ascii")
            check("policy: a broken file is refused, with its place", reload(
                ledger, "the policy was not reloaded") and any(
                    "policy.toml:19:1: unknown key" in x for x in ledger.lines), ledger.lines[-5:])
            refused(ledger, "policy: and the old one holds", 403, "policy_denied",
                    entry("Burn", EU, 1))
            path.write_text(POLICY % 7, encoding="ascii")
            check("policy: mended", reload(ledger, "reloaded"))
            refused(ledger, "policy: the new one holds", 403, "policy_denied",
                    entry("Transfer", EU, 8, to=US))


# ---- remote guards -------------------------------------------------------------------------------

class Guard(http.server.BaseHTTPRequestHandler):
    """Says yes, no, an error, or nothing until it is let go; keeps what it was asked."""

    says, asked, shown, go = {}, [], [], threading.Event()

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Guard.asked.append(question)
        Guard.shown.append((question["op"], self.headers["Authorization"]))
        status, answer = Guard.says.get(question["op"], (200, {"ok": True}))
        if status == 0:
            Guard.go.wait(60)
            status = 200
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def metric(ledger, name):
    rows = ledger.get("/metrics", token=None)[1].decode().splitlines()
    return sum(float(x.rsplit(" ", 1)[1]) for x in rows if x.startswith(name))


def vouched_beside(ledger):
    """Requests that are no writes do not wait for the KMS: they are told to come again."""
    def freeze(token):
        status, _, data = ledger.ask("POST", f"/accounts/{EU}/freeze", token=token)
        return status, json.loads(data).get("reason")
    unknown = ledger.mint_token("ledger.freeze", "--max", "78")
    Guard.says = {"kms_verify": (200, {"ok": False})}
    check("remote: a freeze is told to come again", freeze(unknown) == (429, "busy"),
          freeze(unknown))
    check("remote: and hears the KMS's no", eventually(lambda: freeze(unknown) == (401, "unauth")),
          freeze(unknown))
    Guard.says = {}
    other = ledger.mint_token("ledger.freeze", "--max", "79")
    check("remote: or its yes", eventually(lambda: freeze(other)[0] == 200), freeze(other))
    check("remote: and back", ledger.ask("POST", f"/accounts/{EU}/unfreeze",
                                         token=other)[0] == 200)


def operator(ledger):
    """Over the Unix socket, too, nobody is an operator by being there."""
    def ask(path, token):
        status, _, data = ledger.ask("POST", path, token=token, admin=True)
        return status, json.loads(data).get("reason")
    check("remote: an operator without a token", ask("/admin/safe-mode", None) == (401, "unauth"),
          ask("/admin/safe-mode", None))
    reader = ledger.mint_token("ledger.read")
    check("remote: or with another one", eventually(
        lambda: ask("/admin/drain", reader) == (403, "cap_invalid")), ask("/admin/drain", reader))
    Guard.says = {"kms_verify": (200, {"ok": False})}
    forged = ledger.mint_token("ledger.admin", "--max", "80")
    check("remote: or one that the KMS does not know", eventually(
        lambda: ask("/admin/safe-mode", forged) == (401, "unauth")),
        ask("/admin/safe-mode", forged))
    Guard.says = {}
    check("remote: stops nothing", ledger.ingest(entry("Mint", EU, 1))[0] == 200)
    status = eventually(lambda: ledger.admin("GET", "/status")[0] == 200)
    check("remote: the operator's own is asked for and works", status)


def remote_and_bound():
    """Peers are bound where a KMS verifies, too."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Ledger(f"--kms.url=http://127.0.0.1:{server.server_port}/kms", "--auth.key_file=",
                "--auth.reads=open", f"--auth.privileged_uids={os.getuid() + 4321}") as ledger:
        check("remote: an operator who is not listed", eventually(
            lambda: ledger.admin("POST", "/safe-mode")[0] == 401),
            ledger.admin("POST", "/safe-mode"))
        check("remote: gets nothing", ledger.admin("GET", "/status")[0] == 401)
    server.shutdown()


def remote():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with Ledger(f"--kms.url={url}/kms", f"--policy.url={url}/policy", f"--wallet.url={url}/wallet",
                "--auth.key_file=", "--auth.reads=open", "--timeouts.policy_ms=300",
                "--timeouts.wallet_ms=300") as ledger:
        taken(ledger, "remote: three yes", entry("Mint", EU, 1000), headers={
            "X-Corr-ID": "corr-9"})
        ops = [q["op"] for q in Guard.asked]
        check("remote: each is asked once, in order", ops == ["kms_verify", "policy_guard",
                                                             "double_spend"], ops)
        check("remote: they are told the request's name", all(q["corr_id"] == "corr-9"
                                                              for q in Guard.asked), Guard.asked)
        check("remote: only the KMS sees the token", [ledger.token in json.dumps(q) for q in
                                                      Guard.asked] == [True, False, False])
        Guard.says = {"policy_guard": (200, {"ok": False, "reasons": [
            {"idx": 0, "reason": "policy_denied", "detail": "not on Sundays"}]})}
        refused(ledger, "remote: the policy guard's no", 403, "policy_denied",
                entry("Mint", EU, 1), detail="not on Sundays")
        Guard.says = {"policy_guard": (403, {})}
        asked = len(Guard.asked)
        refused(ledger, "remote: a 4xx of it", 403, "policy_denied", entry("Mint", EU, 1))
        check("remote: is not asked again", len(Guard.asked) == asked + 1, Guard.asked[asked:])
        Guard.says = {"policy_guard": (429, {})}
        refused(ledger, "remote: a guard that is busy", 429, "busy", entry("Mint", EU, 1))
        Guard.says = {"policy_guard": (404, {})}
        for _ in range(2):
            refused(ledger, "remote: a URL that is wrong", 500, "internal", entry("Mint", EU, 1))
        told = [x for x in ledger.lines if "does not take our questions" in x]
        check("remote: is logged, not each time", len(told) == 1
              and '"policy"' in told[0] and "404" in told[0], told)
        Guard.says = {"double_spend": (200, {"ok": False, "reasons": [
            {"idx": 0, "reason": "insufficient_funds", "detail": "spent elsewhere"}]})}
        refused(ledger, "remote: the double-spend check's no", 409, "insufficient_funds",
                entry("Mint", EU, 1), detail="spent elsewhere")
        unknown = ledger.mint_token("ledger.mint", "--max", "77")
        Guard.says = {"kms_verify": (200, {"ok": False})}
        refused(ledger, "remote: the KMS's no", 401, "unauth", entry("Mint", EU, 1), token=unknown)
        vouched_beside(ledger)
        operator(ledger)
        Guard.says = {"double_spend": (500, {})}
        asked = len(Guard.asked)
        refused(ledger, "remote: 5xx", 503, "timeout", entry("Mint", EU, 1))
        tries = [q["op"] for q in Guard.asked[asked:]].count("double_spend")
        check("remote: 5xx is tried once more", tries == 2, Guard.asked[asked:])
        Guard.says = {"policy_guard": (0, {"ok": True})}
        timeouts = metric(ledger, 'io_timeouts_total{op="policy_guard"')
        refused(ledger, "remote: silence is no yes", 503, "timeout", entry("Mint", EU, 1))
        check("remote: silence is counted", metric(
            ledger, 'io_timeouts_total{op="policy_guard"') > timeouts)
        Guard.go.set()
        Guard.says = {"policy_guard": (500, {})}
        for _ in range(8):
            ledger.ingest(entry("Mint", EU, 1))
        asked = len(Guard.asked)
        refused(ledger, "remote: breaker open", 503, "timeout", entry("Mint", EU, 1))
        check("remote: then nobody is asked", len(Guard.asked) == asked
              and metric(ledger, "breaker_refused_total") > 0, Guard.asked[asked:])
        check("remote: readyz names it", eventually(
            lambda: "policy guard" in str(ledger.get("/readyz", token=None)[1])))
        Guard.says = {}
        check("remote: and it closes by itself", eventually(
            lambda: ledger.ingest(entry("Mint", EU, 1))[0] == 200))
    server.shutdown()


# ---- client certificates -------------------------------------------------------------------------

def openssl(*arguments, feed=b""):
    return subprocess.run(["openssl", *map(str, arguments)], input=feed, capture_output=True,
                          check=True, timeout=60).stdout


def issue(folder, name, subject):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            folder / f"{name}.key", "-out", folder / f"{name}.csr", "-subj", f"/CN={subject}",
            "-addext", f"subjectAltName=DNS:{subject},IP:127.0.0.1")
    openssl("x509", "-req", "-in", folder / f"{name}.csr", "-CA", folder / "ca.pem", "-CAkey",
            folder / "ca.key", "-out", folder / f"{name}.pem", "-days", "2", "-copy_extensions",
            "copyall")
    (folder / f"{name}.key").chmod(0o600)


def make_authority(folder):
    """ca.pem and the ledger's or a guard's server.pem."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", folder / "ca.key", "-out", folder / "ca.pem", "-days", "2", "-subj",
            "/CN=ca")
    issue(folder, "server", "localhost")


class TlsLedger(Ledger):
    """Asks with the client certificate `shows`, or with none."""

    shows = None

    def connect(self, admin=False):
        if admin:
            return super().connect(True)
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if self.shows is not None:
            context.load_cert_chain(self.folder / f"{self.shows}.pem",
                                    self.folder / f"{self.shows}.key")
        host, port = self.addr.rsplit(":", 1)
        return http.client.HTTPSConnection(host, int(port), timeout=30, context=context)


def certificates():
    with tempfile.TemporaryDirectory(prefix="ron-guard-") as name:
        folder = Path(name)
        make_authority(folder)
        issue(folder, "mint", "mint.example")
        issue(folder, "other", "other.example")
        with TlsLedger(f"--tls.cert={folder}/server.pem", f"--tls.key={folder}/server.key",
                       f"--tls.client_ca={folder}/ca.pem", "--tls.client_auth=optional",
                       "--auth.privileged_names=dns:mint.example", folder=folder) as ledger:
            ledger.shows = "mint"
            taken(ledger, "certificate: the listed name mints", entry("Mint", EU, 100))
            status, _, data = ledger.ask("POST", f"/accounts/{BAD}/freeze", "")
            check("certificate: and freezes", status == 200, data)
            refused(ledger, "certificate: not without a token", 401, "unauth",
                    entry("Mint", EU, 1), token=None)
            for shows in ("other", None):
                ledger.shows = shows
                refused(ledger, f"certificate {shows}: the same token mints nothing", 401,
                        "unauth", entry("Mint", EU, 1))
                status, _, data = ledger.ask("POST", f"/accounts/{BAD}/unfreeze", "")
                check(f"certificate {shows}: nor unfreezes", status == 401, (status, data))
                taken(ledger, f"certificate {shows}: what is not privileged goes on",
                      entry("Transfer", EU, 1, to=US))


# ---- remote guards that ask who asks them --------------------------------------------------------

class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def ends_at_start(name, folder, *options, said):
    done = subprocess.run([PROGRAM, "ledger", "--bind_addr=127.0.0.1:0", "--engine.mode=amnesia",
                           "--amnesia.enabled=true", f"--uds.path={folder}/s",
                           f"--auth.key_file={folder}/cap.keys", *options], capture_output=True,
                          text=True, timeout=60)
    check(f"guards: {name}", done.returncode in (1, 2) and said in done.stderr, done)


def guarded_guards():
    with tempfile.TemporaryDirectory(prefix="ron-guard-") as name:
        folder = Path(name)
        make_authority(folder)
        issue(folder, "ours", "ledger.example")
        token = folder / "policy.token"
        token.write_text("secret-of-ours\n", encoding="ascii")
        token.chmod(0o600)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        context.verify_mode = ssl.CERT_REQUIRED
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guard)
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        serve(server)
        beside = serve(UnixServer(f"{folder}/wallet.sock", Guard))
        url = f"--policy.url=https://localhost:{server.server_port}/policy"
        shown = [f"--policy.cert_file={folder}/ours.pem", f"--policy.key_file={folder}/ours.key"]
        wallet = ["--wallet.url=http://wallet.example/ask", f"--wallet.socket={folder}/wallet.sock"]
        Guard.says, Guard.shown[:] = {}, []
        with Ledger(url, *shown, *wallet, f"--policy.ca_file={folder}/ca.pem",
                    f"--policy.token_file={token}", folder=folder) as ledger:
            taken(ledger, "guards: over TLS with a certificate, and a Unix socket",
                  entry("Mint", EU, 1))
            check("guards: each is shown its own token", Guard.shown == [
                ("policy_guard", "Bearer secret-of-ours"), ("double_spend", None)], Guard.shown)
        for left_out, options in (("authority", shown), ("certificate", [
                f"--policy.ca_file={folder}/ca.pem"])):
            with Ledger(url, *options) as ledger:
                refused(ledger, f"guards: without the {left_out}", 503, "timeout",
                        entry("Mint", EU, 1))
        server.shutdown()
        beside.shutdown()
        ends_at_start("a token without a URL", folder, f"--wallet.token_file={token}",
                      said="wallet.token_file needs wallet.url")
        ends_at_start("a certificate without its key", folder, url, shown[0],
                      said="policy.cert_file and policy.key_file go together")
        ends_at_start("a token that is not there", folder, url,
                      f"--policy.token_file={folder}/absent", said="policy.token_file: open")
        token.chmod(0o644)
        ends_at_start("a token for everybody", folder, url, f"--policy.token_file={token}",
                      said="policy.token_file: ")
        token.chmod(0o600)
        token.write_text("two words\n", encoding="ascii")
        ends_at_start("a token that is none", folder, url, f"--policy.token_file={token}",
                      said="one line of printable characters")


# ---- witnesses -----------------------------------------------------------------------------------

class Witness:
    """Cosigns as C2SP tlog-cosignature says."""

    def __init__(self, folder, name):
        self.name, self.key = name, folder / f"{name}.ed25519"
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.key)
        public = openssl("pkey", "-in", self.key, "-pubout", "-outform", "DER")[-32:]
        self.id = hashlib.sha256(name.encode() + b"\n\x04" + public).digest()[:4]
        self.vkey = "+".join((name, self.id.hex(), base64.b64encode(b"\x04" + public).decode()))

    def cosign(self, text, at):
        """The signature line for the text of a checkpoint."""
        told = self.key.with_suffix(".told")
        told.write_bytes(b"cosignature/v1\ntime %d\n" % at + text)
        made = openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.key, "-in", told)
        data = base64.b64encode(self.id + struct.pack(">Q", at) + made)
        return "\u2014 ".encode() + self.name.encode() + b" " + data + b"\n"


def audit(*words):
    program = str(Path(PROGRAM).with_name("ron-audit"))
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True)


def witnesses():
    with tempfile.TemporaryDirectory(prefix="ron-guard-") as name:
        folder = Path(name)
        first, stranger = Witness(folder, "w1.example"), Witness(folder, "w2.example")
        with Ledger(f"--signing.witnesses={first.vkey}", "--audit.root_emit_interval=100ms",
                    folder=folder) as ledger:
            taken(ledger, "witness: something to sign", entry("Mint", EU, 100))
            check("witness: none has signed yet", ledger.get("/checkpoint?witnesses=1")[0] == 404)
            check("witness: its checkpoint is published", eventually(
                lambda: b"\n1\n" in ledger.get("/checkpoint?witnesses=0")[1]))
            note = ledger.get("/checkpoint?witnesses=0")[1]
            text = note[:note.index(b"\n\n") + 1]

            def bring(line):
                status, _, data = ledger.ask("POST", "/checkpoint/cosignatures", note + line,
                                             headers={"Content-Type": "text/plain"})
                return status, data

            status, data = bring(stranger.cosign(text, 1_800_000_000))
            check("witness: a stranger's is refused", status == 403 and b"unknown_witness" in data,
                  (status, data))
            good = first.cosign(text, 1_800_000_000)
            status, data = bring(first.cosign(text.replace(b"\n1\n", b"\n2\n"), 1_800_000_000))
            check("witness: one of another text is refused", 400 <= status < 500, (status, data))
            check("witness: none of these is attached",
                  ledger.get("/checkpoint?witnesses=1")[0] == 404)
            status, data = bring(stranger.cosign(text, 1_800_000_000) + good)
            check("witness: the good one is taken, the stranger's beside it is passed over",
                  status == 200 and json.loads(data) == {"taken": 1}, (status, data))
            found = ledger.get("/checkpoint?witnesses=1")
            check("witness: and attached", found[0] == 200 and found[1].startswith(text)
                  and good in found[1], found)
            status, data = bring(good)
            check("witness: not twice", status == 409 and b"already_signed" in data, (status, data))
            ledger.restart()
            check("witness: kept over a restart", good in ledger.get("/checkpoint?witnesses=1")[1])
            witnessed(ledger, folder, first, good)


def witnessed(ledger, folder, witness, line):
    """The ledger goes on; what the witness signed is still to be had."""
    taken(ledger, "witness: something newer", entry("Mint", EU, 5))
    check("witness: a newer checkpoint is published", eventually(
        lambda: b"\n2\n" in ledger.get("/checkpoint?witnesses=0")[1]))
    path = folder / "receipt"
    for target, wanted in (("/receipt/1", 1), ("/receipt/1?witnesses=0", 1),
                           ("/receipt/1?witnesses=1", 0)):
        path.write_bytes(ledger.get(target)[1])
        done = audit("--unsigned", "--witness", witness.vkey, "--receipt", path)
        check(f"witness: {target} is {'not ' * wanted}cosigned", done.returncode == wanted, done)
    check("witness: the receipt has that very line", line in path.read_bytes())
    for target, wanted in (("/receipt/2?witnesses=1", 404), ("/receipt/1?witnesses=2", 404),
                           ("/receipt/1?witnesses=x", 400), ("/receipt/9?witnesses=1", 404)):
        status, body = ledger.get(target)
        check(f"witness: {target}: {wanted}", status == wanted and body["reason"] == (
            "not_found" if wanted == 404 else "invalid"), (status, body))
    done = audit("--witness", witness.vkey, ledger.data)
    check("witness: ron-audit finds what it signed, though the newest has no cosignature",
          done.returncode == 0 and line not in (ledger.data / "checkpoint").read_bytes(), done)
    copy = folder / "copy"
    status, body = ledger.admin("POST", "/snapshot", json.dumps({"dir": str(copy)}))
    done = audit("--witness", witness.vkey, copy)
    check("witness: in a snapshot, too", status == 200 and done.returncode == 0, (body, done))
    (ledger.data / "checkpoint.cosigned").rename(folder / "away")
    done = audit("--witness", witness.vkey, ledger.data)
    check("witness: without that file the newest is asked for it", done.returncode == 1
          and "a cosignature of w1.example" in done.stdout, done)
    (folder / "away").rename(ledger.data / "checkpoint.cosigned")


def settings():
    """What cannot work is said before anything is opened, with its setting."""
    for name, said, *options in (
        ("two verifiers", "kms.url or with auth.key_file", "--kms.url=http://127.0.0.1:9/",
         "--auth.key_file=k", "--auth.reads=open"),
        ("a verdict that reads would wait for", "auth.reads", "--kms.url=http://127.0.0.1:9/"),
    ):
        done = subprocess.run([PROGRAM, "ledger", "--engine.mode=amnesia", "--check-config",
                               "--amnesia.enabled=true", *options], capture_output=True, text=True)
        check(f"settings: {name}", done.returncode == 1 and said in done.stderr
              and done.stderr.count("\n") == 1, done)
    with tempfile.TemporaryDirectory(prefix="ron-guard-") as folder:
        keys = Path(folder) / "k"
        subprocess.run([PROGRAM, "cap", "key", "new", "--id", "k1", "--keys", keys], check=True,
                       capture_output=True)
        done = subprocess.run([PROGRAM, "ledger", "--engine.mode=amnesia", "--amnesia.enabled=true",
                               "--bind_addr=127.0.0.1:0", f"--auth.key_file={keys}",
                               "--auth.privileged_names=mint.example"], capture_output=True,
                              text=True, timeout=60)
        check("settings: a name of no kind", done.returncode == 1 and done.stderr.startswith(
            "ron ledger: auth.privileged_names: 'mint.example': begins with"), done)


def main():
    settings()
    policy_file()
    remote()
    remote_and_bound()
    if missing("openssl"):
        print("left out: certificates and witnesses, there is no openssl")
    else:
        certificates()
        guarded_guards()
        witnesses()
    finish()


main()
