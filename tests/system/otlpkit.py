# SPDX-License-Identifier: Apache-2.0
"""A collector that takes OTLP over HTTP, for tests of traces."""
import http.server
import json
import threading


class Collector:
    """`spans` are those of all bodies, each with its service as "service"."""

    def __init__(self):
        self.spans, self.bodies, outer = [], [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                data = self.rfile.read(int(self.headers["Content-Length"]))
                outer.take(data)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.options = (f"--trace.endpoint=http://127.0.0.1:{self.server.server_port}",
                        "--trace.sample_percent=100")

    def take(self, data):
        self.bodies.append(data)
        for resource in json.loads(data)["resourceSpans"]:
            service = next(a["value"]["stringValue"] for a in resource["resource"]["attributes"]
                           if a["key"] == "service.name")
            for scope in resource["scopeSpans"]:
                self.spans += [{**span, "service": service} for span in scope["spans"]]

    def of(self, trace):
        return [s for s in self.spans if s["traceId"] == trace]

    def named(self, name):
        return [s for s in self.spans if s["name"] == name]

    def close(self):
        self.server.shutdown()


def attributes(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}
