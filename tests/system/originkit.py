# SPDX-License-Identifier: Apache-2.0
"""An origin on loopback whose every answer the test decides and counts."""
import http.server
import threading


class Origin:
    """Answers by path: {path: (status, headers, body) or function(handler) that gives one, or None
    when it has answered itself}. Headers are a dict or a list of pairs. A GET that names the tag of
    the answer gets 304."""

    def __init__(self, tls=None):
        """`tls`: an ssl.SSLContext of a server."""
        self.answers = {}
        self.seen = []
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                with outer.lock:
                    outer.seen.append((self.path, dict(self.headers), self.command))
                self.body = self.take_body()
                answer = outer.answers.get(self.path, (404, {}, b"none"))
                if callable(answer):
                    answer = answer(self)
                if answer is None:
                    return
                status, headers, body = answer
                headers = list(headers.items()) if isinstance(headers, dict) else headers
                tag = dict(headers).get("ETag")
                if self.command == "GET" and tag and self.headers.get("If-None-Match") == tag:
                    status, body = 304, b""
                self.send_response(status)
                for k, v in headers:
                    self.send_header(k, v)
                if status not in (204, 304):
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer

            def take_body(self):
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                    return body
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))

            def date_time_string(self, timestamp=None):
                return outer.date or super().date_time_string(timestamp)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                pass  # an edge that stops leaves connections behind

        self.date = None
        self.server = Server(("127.0.0.1", 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self, path):
        with self.lock:
            return sum(p == path for p, *_ in self.seen)

    def last(self, path):
        with self.lock:
            return [h for p, h, _ in self.seen if p == path][-1]
