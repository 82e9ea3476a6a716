#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: no shape of request smuggling gets a second request past `ron-fixture http`, and how
Debian's nginx reads the same bytes is on record.

Method: every shape of tests/system/smuggling/shapes.txt and every refusal of the fuzz corpora is
sent on a connection of its own. Ours must answer once, with the expected status and reason, and
close; nothing of the hidden request may be served. nginx's verdicts and ours are the table in
docs/formats/http-smuggling.md, which must be what this test sees: `--write` writes it anew.
"""
import os
import re
import sys
from pathlib import Path

from httpkit import Nginx, Ron, check, finish, missing, nginx_version, read_all

ROOT = Path(os.environ.get("RON_SOURCE_DIR") or Path(__file__).resolve().parents[2])
SHAPES = ROOT / "tests" / "system" / "smuggling" / "shapes.txt"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
PAGE = ROOT / "docs" / "formats" / "http-smuggling.md"
NEXT = b"GET /name/SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
# Reasons of the parser whose status is not 400.
STATUS = {"method": 501, "version": 505, "uri_long": 414, "headers_many": 431, "head_large": 431,
          "expect": 417, "too_large": 413}
NGINX = """
    default_type text/plain;
    lingering_timeout 200ms;
    location / { return 200 "plain"; }
    location = /name/SMUGGLED { return 200 "SMUGGLED"; }
"""
HEAD = """# Request smuggling: how ron and nginx read ambiguous requests

Made and checked by `tests/system/43-http-smuggling.py`; `--write` rewrites it. The bytes are in
`tests/system/smuggling/shapes.txt`; rows named `request/...` and `chunked/...` are the refusals of
the fuzz corpora in `tests/fuzz/corpus/`. Most shapes are followed by a whole second request, the
one an attacker wants hidden.

The columns hold the status of every answer to the bytes, with our reason. "hidden" means that the
second request was served, which is right only if everybody on the way agrees where it begins;
"none" that the connection ended without an answer; "body" that an answer came without a head. Ours
closes after every refusal.

nginx is version {version} as packed by Debian, with locations that answer themselves. Where its
column shows 200 and ours does not, a proxy of that kind would pass the bytes on, and the strict
server behind it refuses them. With another version of nginx the test prints what differs.

| shape | ron | nginx |
|---|---|---|
"""


def unescape(text):
    """The escapes of shapes.txt; anything else stands for itself."""
    def one(match):
        code = match[1]
        return chr(int(code[1:], 16)) if code[0] == "x" else {
            "r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\"}[code]
    return re.sub(r"\\(x[0-9a-f]{2}|[rnt0\\])", one, text).encode("latin-1")


def read_shapes():
    """(name, expected, bytes); expected is (status, reason), or a list of statuses served."""
    shapes = []
    for line in SHAPES.read_text(encoding="ascii").split("\n"):
        if line.startswith("#") or not line:
            continue
        if match := re.fullmatch(r"\[(\S+)\] (?:serves ([\d ]+)|(\d+) (\w+))", line):
            served = match[2] and [int(s) for s in match[2].split()]
            shapes.append([match[1], served or (int(match[3]), match[4]), b""])
        elif line == "@next":
            shapes[-1][2] += NEXT
        elif line.startswith("@times "):
            _, count, text = line.split(" ", 2)
            shapes[-1][2] += unescape(text) * int(count)
        else:
            shapes[-1][2] += unescape(line)
    for path in sorted((CORPUS / "http_request").glob("refuse.*")):
        reason = path.name.split(".")[1]
        shapes.append([f"request/{path.name[7:]}", (STATUS.get(reason, 400), reason),
                       path.read_bytes()])
    for path in sorted((CORPUS / "http_chunked").glob("refuse.*")):
        reason = path.name.split(".")[1]
        if reason != "too_large":  # the limit of that corpus is smaller than the server's
            shapes.append([f"chunked/{path.name[7:]}", (400, reason),
                           CHUNKED + path.read_bytes()[1:] + NEXT])
    return shapes


def statuses(answer):
    return [int(s) for s in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


def ours(server, name, expected, request):
    """Judges our server, which must close by itself; the cell of the table."""
    with server.connect(timeout=8) as s:
        s.sendall(request)
        try:
            answer = read_all(s)
        except TimeoutError:
            answer = b"it did not close"
    got = statuses(answer)
    reason = re.search(rb'"reason":"(\w+)"', answer)
    reason = reason[1].decode() if reason else ""
    if isinstance(expected, list):
        good = got == expected
    else:
        good = got == [expected[0]] and reason == expected[1] and b"SMUGGLED" not in answer \
            and b"\r\nConnection: close\r\n" in answer
    if not good:
        check(name, False, f"wanted {expected}, got {answer[:600]}")
    return good, " ".join([", ".join(map(str, got)), *([f"`{reason}`"] if reason else [])])


def theirs(server, request):
    """nginx is told that nothing follows, so that it ends the connection when it has read all."""
    with server.connect() as s:
        try:
            s.sendall(request)
            s.shutdown(1)
        except OSError:
            pass  # it has closed already; its answer is still there
        answer = b""
        try:
            while piece := s.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    got = statuses(answer)
    text = ", ".join(map(str, got)) or ("body" if answer else "none")
    return text + (" hidden" if answer.endswith(b"SMUGGLED") else "")


def rows_of(page):
    return dict(re.findall(r"^\| (\S+) \| (.*) \|$", page, re.M))


def compare(rows, version):
    """The page against what was seen. Another nginx may differ, ours may not."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    known = rows_of(page)
    same = version is not None and f"version {version} " in page
    seen = dict(rows)
    if not same:  # only our column counts
        other = [f"{n}: {seen[n]} (page: {known[n]})" for n in seen if n in known
                 and version is not None and seen[n] != known[n]]
        print(f"nginx {version} is not the one of the page; it differs in {len(other)}", *other,
              sep="\n")
        known, seen = ({n: v.split(" | ")[0] for n, v in d.items()} for d in (known, seen))
    known.pop("shape", None)
    known.pop("|---", None)
    differs = [f"{n}: {seen.get(n)}; the page: {known.get(n)}" for n in sorted({*seen, *known})
               if seen.get(n) != known.get(n)]
    check("docs/formats/http-smuggling.md says what was seen (else --write)", not differs,
          "\n".join(differs))


def main():
    shapes = read_shapes()
    check("no name stands twice", len({s[0] for s in shapes}) == len(shapes))
    rows, refused = [], 0
    version = None if missing("nginx") else nginx_version()
    nginx = Nginx(NGINX) if version else None
    try:
        with Ron() as server:
            good = True
            for name, expected, request in shapes:
                verdict, cell = ours(server, name, expected, request)
                good &= verdict
                refused += not isinstance(expected, list)
                rows.append((name, f"{cell} | {theirs(nginx, request) if nginx else ''}"))
            check(f"{len(shapes)} shapes: {refused} refused once and closed, the rest read in one "
                  "way", good)
            rejected = sum(server.counters()["rejected"].values())
            check("every refusal is counted", rejected == refused, rejected)
    finally:
        if nginx:
            nginx.__exit__()
    if "--write" in sys.argv:
        PAGE.write_text(HEAD.format(version=version) + "".join(
            f"| {name} | {cells} |\n" for name, cells in rows), encoding="utf-8")
    compare(rows, version)
    finish()


if __name__ == "__main__":
    main()
