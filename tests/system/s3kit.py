# SPDX-License-Identifier: Apache-2.0
"""S3 for tests, written from its documents and not from our code: signatures, a small client, and a
strict server that checks every signature, hash and condition, and misbehaves on demand."""
import datetime
import hashlib
import hmac
import http.client
import http.server
import re
import threading
import time
import urllib.parse

EMPTY = hashlib.sha256(b"").hexdigest()


def encode(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def signature(secret, date, region, method, path, query, headers, signed, payload):
    """Signature Version 4; `query` is a list of pairs, decoded; header names in small letters."""
    def mac(key, text):
        return hmac.new(key, text.encode(), hashlib.sha256).digest()

    pairs = sorted((encode(k), encode(v)) for k, v in query)
    canonical = "\n".join([
        method, encode(path, "/"), "&".join(f"{k}={v}" for k, v in pairs),
        "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed),
        ";".join(signed), payload])
    scope = f"{date[:8]}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for step in (date[:8], region, "s3", "aws4_request"):
        key = mac(key, step)
    return scope, mac(key, text).hex()


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")


class Bucket:
    """What is in a bucket, as another client sees it."""

    def __init__(self, url, name, access, secret, region):
        self.host = url.split("://")[1]
        self.name, self.access, self.secret, self.region = name, access, secret, region

    def call(self, method, key="", body=b"", query=()):
        path = f"/{self.name}/{key}" if key else f"/{self.name}"
        date = now()
        headers = {"host": self.host, "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
                   "x-amz-date": date}
        names = sorted(headers)
        scope, sign = signature(self.secret, date, self.region, method, path, query, headers,
                                names, headers["x-amz-content-sha256"])
        headers["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, "
                                    f"SignedHeaders={';'.join(names)}, Signature={sign}")
        c = http.client.HTTPConnection(self.host, timeout=30)
        target = encode(path, "/") + ("?" + urllib.parse.urlencode(query) if query else "")
        c.request(method, target, body=body, headers=headers)
        r = c.getresponse()
        return r.status, r.read()

    def create(self):
        status, body = self.call("PUT")
        if status != 200:
            raise RuntimeError(f"the bucket cannot be made: {status} {body[:300]}")

    def keys(self, prefix=""):
        status, body = self.call("GET", query=[("prefix", prefix)])
        if status != 200:
            raise RuntimeError(f"the bucket cannot be listed: {status} {body[:300]}")
        return re.findall(r"<Key>([^<]*)</Key>", body.decode())

    def get(self, key):
        """Its bytes, or None."""
        status, body = self.call("GET", key)
        return body if status == 200 else None

    def put(self, key, body):
        return self.call("PUT", key, body)[0]

    def delete(self, key):
        return self.call("DELETE", key)[0]

    def uploads(self):
        """Multipart uploads that were neither completed nor aborted."""
        return self.call("GET", query=[("uploads", "")])[1].decode().count("<UploadId>")


def key_of(identity, prefix=""):
    digits = identity.removeprefix("b3:")
    return f"{prefix}o/{digits[:2]}/{digits}"


# ---- the strict server ---------------------------------------------------------------------------

class Refusal(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


class Standin:
    """One bucket in memory. `fault` is a function of the handler: None, or an answer
    (status, headers, body) instead of the true one, or "drop" to close without one."""

    access, secret, region, bucket = "STANDINKEY1", "standin/secret+1234567890", "test-1", "shared"

    def __init__(self, port=0, tls=None):
        """`tls`: an ssl.SSLContext of a server."""
        self.objects = {}
        self.parts = {}
        self.seen = []  # (method, key, query)
        self.fault = None
        self.dead = False
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                outer.handle(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def view(self):
        return Bucket(self.url, self.bucket, self.access, self.secret, self.region)

    def count(self, method, part=""):
        with self.lock:
            return sum(m == method and part in f"{k}?{q}" for m, k, q in self.seen)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    # ---- one request ----

    def handle(self, h):
        if self.dead:  # on a connection from before
            h.close_connection = True
            return
        body = h.rfile.read(int(h.headers.get("Content-Length") or 0))
        parts = urllib.parse.urlsplit(h.path)
        query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
        path = urllib.parse.unquote(parts.path)
        key = path.removeprefix(f"/{self.bucket}").removeprefix("/")
        with self.lock:
            self.seen.append((h.command, key, parts.query))
        fault = self.fault(h) if self.fault else None
        if fault == "drop":
            h.close_connection = True
            return
        if fault is None:
            try:
                self.check(h, path, parts, query, body)
                fault = self.answer(h, key, dict(query), body)
            except Refusal as no:
                fault = (no.status, {"Content-Type": "application/xml"},
                         f"<?xml version='1.0'?><Error><Code>{no.code}</Code></Error>".encode())
        status, headers, out = fault
        h.send_response(status)
        for name, value in headers.items():
            h.send_header(name, value)
        if "Content-Length" not in headers and status != 204:
            h.send_header("Content-Length", str(len(out)))
        h.end_headers()
        if h.command != "HEAD":
            h.wfile.write(out)
        if len(out) != int(headers.get("Content-Length", len(out))):
            h.close_connection = True

    def check(self, h, path, parts, query, body):
        """Every rule of a signed request; the query must be sent as it is signed."""
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request,"
                             r" ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})",
                             h.headers.get("Authorization", ""))
        headers = {k.lower(): v for k, v in h.headers.items()}
        date = headers.get("x-amz-date", "")
        payload = headers.get("x-amz-content-sha256", "")
        if not found or found[1] != self.access or found[2] != date[:8] or found[3] != self.region:
            raise Refusal(403, "AccessDenied")
        then = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(
            tzinfo=datetime.timezone.utc).timestamp()
        if abs(then - time.time()) > 900:
            raise Refusal(403, "RequestTimeTooSkewed")
        signed = found[4].split(";")
        must = {"host", "x-amz-date", "x-amz-content-sha256"} | \
            {name for name in ("range", "if-none-match", "if-match") if name in headers}
        if signed != sorted(signed) or not must <= set(signed):
            raise Refusal(403, "AccessDenied")
        canonical = "&".join(f"{encode(k)}={encode(v)}" for k, v in sorted(query))
        if parts.query != canonical or parts.path != encode(path, "/"):
            raise Refusal(403, "NotCanonical")
        if signature(self.secret, date, self.region, h.command, path, query, headers, signed,
                     payload)[1] != found[5]:
            raise Refusal(403, "SignatureDoesNotMatch")
        if hashlib.sha256(body).hexdigest() != payload:
            raise Refusal(400, "XAmzContentSHA256Mismatch")
        if not path.startswith(f"/{self.bucket}"):
            raise Refusal(404, "NoSuchBucket")

    def answer(self, h, key, query, body):
        with self.lock:
            if h.command in ("GET", "HEAD"):
                return self.read(h, key, query)
            if h.command == "DELETE":
                self.parts.pop(query.get("uploadId"), None) if "uploadId" in query else \
                    self.objects.pop(key, None)
                return 204, {}, b""
            if h.command == "PUT" and "uploadId" in query:
                return self.put_part(query, body)
            if h.command == "POST":
                return self.post(h, key, query, body)
            self.absent(h, key)
            self.objects[key] = body
            return 200, {"ETag": self.tag(body)}, b""

    @staticmethod
    def tag(body):
        return '"%s"' % hashlib.md5(body).hexdigest()

    def absent(self, h, key):
        if h.headers.get("If-None-Match") == "*" and key in self.objects:
            raise Refusal(412, "PreconditionFailed")

    def read(self, h, key, query):
        if key == "":
            rows = "".join(f"<Contents><Key>{k}</Key></Contents>" for k in sorted(self.objects)
                           if k.startswith(query.get("prefix", "")))
            return 200, {}, f"<ListBucketResult>{rows}</ListBucketResult>".encode()
        if key not in self.objects:
            raise Refusal(404, "NoSuchKey")
        body = self.objects[key]
        headers = {"ETag": self.tag(body), "Accept-Ranges": "bytes"}
        if h.headers.get("If-Match") not in (None, headers["ETag"]):
            raise Refusal(412, "PreconditionFailed")
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", h.headers.get("Range", ""))
        if not found:
            return 200, headers, body
        first, last = int(found[1]), min(int(found[2]), len(body) - 1)
        if first >= len(body):
            raise Refusal(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        return 206, headers, body[first:last + 1]

    def put_part(self, query, body):
        upload = self.parts.get(query["uploadId"])
        if upload is None:
            raise Refusal(404, "NoSuchUpload")
        upload[int(query["partNumber"])] = body
        return 200, {"ETag": self.tag(body)}, b""

    def post(self, h, key, query, body):
        if "uploads" in query:
            name = f"up/{len(self.seen)}+="  # characters that must be encoded
            self.parts[name] = {}
            return 200, {}, (f"<InitiateMultipartUploadResult><Key>{key}</Key><UploadId>{name}"
                             "</UploadId></InitiateMultipartUploadResult>").encode()
        upload = self.parts.get(query.get("uploadId"))
        if upload is None:
            raise Refusal(404, "NoSuchUpload")
        self.absent(h, key)
        rows = re.findall(r"<Part><PartNumber>(\d+)</PartNumber><ETag>([^<]*)</ETag></Part>",
                          body.decode())
        if [int(n) for n, _ in rows] != sorted(upload) or \
                any(self.tag(upload[int(n)]) != e.replace("&quot;", '"') for n, e in rows):
            raise Refusal(400, "InvalidPart")
        if any(len(upload[n]) < 5 << 20 for n in sorted(upload)[:-1]):
            raise Refusal(400, "EntityTooSmall")
        whole = b"".join(upload[n] for n in sorted(upload))
        self.objects[key] = whole
        self.parts.pop(query["uploadId"])
        return 200, {}, (f"<CompleteMultipartUploadResult><Key>{key}</Key><ETag>&quot;"
                         f"{hashlib.md5(whole).hexdigest()}-{len(upload)}&quot;</ETag>"
                         "</CompleteMultipartUploadResult>").encode()
