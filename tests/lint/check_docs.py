#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/README.md lists every document, and the names that documents quote exist.

Documents are the Markdown files at the top, in docs/, and every README.md. In them, text in
backticks is checked when it has the form of
  a path      a/b.c, docs/guide/, *.toml ...: a file or folder of the tree, from the top, from the
              document's folder, or from a root that includes use (ROOTS); a lone b.c is found
              anywhere
  a verb      `ron VERB ...`, also as a command in a code block: a row of cli/base/verbs.h
  a setting   section.key, RON_SERVICE__KEY: a row of docs/reference
  a route     /path or METHOD /path: a path of api/*.yaml or a route in a C source
A dotted name may also be a string of a C source (scopes, spans, metrics). A path without a method
whose first segment no route has is not ours. Placeholders ({x}, <x>, NAME) match anything.
"""
import posixpath
import re

from common import files, main, read

LIST = "docs/README.md"
ROOTS = ["", "kernel/include/", "kernel/src/", "tests/", "docs/"]
CODE = ("c", "h", "py", "sh", "md", "toml", "yml", "yaml", "cmake", "pml", "js", "css", "html")
PATH = re.compile(rf"(?:\./)?[\w.*-]+(?:/[\w.*-]+)*(?:/|\.(?:{'|'.join(CODE)}))|docs/man/.*")
KEY = re.compile(r"[a-z][a-z0-9_]*(?:\.(?:[a-z0-9_]+|\*|<\w+>|[A-Z]+))+")
VARIABLE = re.compile(r"RON_[A-Z]+__[A-Z0-9_]+")
ROUTE = re.compile(r"((?:GET|HEAD|POST|PUT|DELETE) )?(/[^\s`]*)")
QUOTED = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"^(?:\$ |    )(ron(?: [a-z][a-z|-]*)+)")
# Names of files that look like settings: ledger.vkey, edge.yaml, run.json.
FILE_ENDS = CODE + ("json", "vkey", "token", "keys", "txt", "svg", "png", "log", "so", "service",
                    "deb", "pem", "db", "sock", "key", "mvt", "pmtiles", "mbtiles", "sqlite",
                    "jsonl", "example")
# Files that a program writes, described by a format: not of the tree. Folders of it, by their first
# segment, where that is a name of the tree too.
MADE = re.compile(r"(ron-data|build|log|ledger|tile|packs|files|keys|tokens|runs|run|inputs"
                  r"|s3-waiting|objects|[0-9a-f*]+)/")


def is_document(path):
    text = path.as_posix()
    return path.suffix == ".md" and (len(path.parts) == 1 or text.startswith("docs/")
                                     or path.name == "README.md")


# ---- what there is ------------------------------------------------------------------------------


def verbs_of(root):
    """All paths of verbs, and those that only have verbs below them."""
    page = root / "cli/base/verbs.h"
    rows = re.findall(r'\b([VG])\("([^"]+)"', page.read_text()) if page.exists() else []
    return {path for _, path in rows}, {path for kind, path in rows if kind == "G"}


def keys_of(root, paths):
    """Settings and their variables, of the generated pages; names between dots may be stars."""
    keys, variables = set(), set()
    for path in paths:
        if path.as_posix().startswith("docs/reference/"):
            for row in re.findall(r"^\| `([^`]+)` \|(.*)$", read(root, path), re.M):
                keys.add(row[0])
                variables.update(re.findall(r"`(RON_[^`]+)`", row[1].split("|")[0]))
    return keys, variables


def strings_of(root, paths):
    """Dotted names, routes and system headers in C sources."""
    names, routes, headers = set(), set(), set()
    for path in paths:
        if path.suffix in (".c", ".h"):
            text = read(root, path)
            headers.update(re.findall(r"#\s*include <([^>]+)>", text))
            names.update(re.findall(r'"([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+)"', text))
            routes.update(re.findall(r'"(/[a-zA-Z{][^"\s%]*)"', text))
    return names, routes, headers


def pattern(route):
    """A route as an expression: {path}, {account*} and {tile} take the rest or a segment."""
    parts = re.split(r"(\{[^}]*\})", route.rstrip("?"))
    return "".join(r".+" if p.startswith("{") else re.escape(p) for p in parts)


class Truth:
    def __init__(self, root):
        self.paths = files(root)
        self.names = {path.as_posix() for path in self.paths}
        self.bases = {path.name for path in self.paths}
        self.folders = {parent.as_posix() for path in self.paths for parent in path.parents}
        self.tops = {path.parts[0] for path in self.paths if len(path.parts) > 1}
        self.verbs, self.groups = verbs_of(root)
        self.keys, self.variables = keys_of(root, self.paths)
        self.sections = {key.split(".")[0] for key in self.keys if "." in key}
        self.strings, routes, headers = strings_of(root, self.paths)
        self.bases |= headers
        for path in self.paths:
            if path.parts[0] == "api" and path.suffix == ".yaml":
                routes |= set(re.findall(r"^  (/[^\s:]*):", read(root, path), re.M))
        self.routes = routes
        self.routes_match = [re.compile(pattern(route)) for route in routes]
        self.heads = {route.split("/")[1] for route in routes} - {""}


# ---- what is wrong with a quoted name -----------------------------------------------------------


def path_fault(truth, folder, text):
    if text.startswith("../"):
        place = posixpath.normpath(posixpath.join(folder, text))
        known = place in truth.names or place in truth.folders or place.startswith("..")
        return None if known or "*" in text else f"{text} does not exist"
    text = text.removeprefix("./")
    tails = [f"{root}{text}".rstrip("/") for root in ROOTS]
    while folder not in ("", "."):
        tails.append(f"{folder}/{text}".rstrip("/"))
        folder = folder.rpartition("/")[0]
    if "*" in text:
        wanted = re.compile("|".join(re.escape(t).replace(r"\*", "[^/]*") for t in tails))
        found = any(wanted.fullmatch(name) for name in truth.names | truth.folders)
    else:
        found = any(t in truth.names or t in truth.folders for t in tails)
    if found or ("/" not in text and text in truth.bases):
        return None
    first, slash, _ = text.partition("/")
    inner = "/" in text.rstrip("/") and any(t.rpartition("/")[0] in truth.folders for t in tails)
    if not slash:  # of lone names only sources must be ours
        return f"{text} does not exist" if re.search(r"^[a-z]\w*\.[ch]$", text) else None
    if first in truth.tops or first in ("src", "include") or (inner and not MADE.match(text)):
        return f"{text} does not exist"
    return None


def verb_fault(truth, text):
    words = re.split(r" (?=[^a-z])| -", text)[0].split()[1:]
    words = [word for word in words if re.fullmatch(r"[a-z][a-z|-]*", word)][:3]
    for first in words[0].split("|") if words else []:
        if first not in {verb.split()[0] for verb in truth.verbs}:
            return f"ron {first} is not a verb"
        path = first
        for word in words[1:]:
            below = {v.split()[len(path.split())] for v in truth.verbs if v.startswith(path + " ")}
            if not below:
                break
            for one in word.split("|"):
                if one not in below and (path in truth.groups or one not in ("is", "and")):
                    return f"ron {path} {one} is not a verb"
            path = f"{path} {word.split('|')[0]}"
    return None


def key_fault(truth, text):
    if text in truth.keys or text in truth.strings or text.split(".")[0] not in truth.sections:
        return None
    if text.rsplit(".", 1)[1] in FILE_ENDS:
        return None
    named = [re.sub(r"<\w+>|[A-Z]+", "*", text), text]
    for key in truth.keys:
        star = re.compile(re.escape(key).replace(r"\*", r"[\w*-]+"))
        if any(star.fullmatch(name) for name in named):
            return None
        if text.endswith(".*") and key.startswith(text[:-1]):
            return None
    return f"{text} is not a setting"


def route_fault(truth, method, text):
    path = re.split(r"[?#]", text)[0].removesuffix("...").rstrip("*.,")
    if not method and path.split("/")[1] not in truth.heads:
        return None
    plain = re.sub(r"\{[^}]*\}|<[^>]*>", "x", path)
    if any(match.fullmatch(plain) for match in truth.routes_match):
        return None
    if any(route.startswith(path.rstrip("/") + "/") for route in truth.routes):
        return None
    return f"{path} is not a route"


def fault(truth, folder, text):
    if VARIABLE.fullmatch(text):
        return None if text in truth.variables else f"{text} is not a variable of a setting"
    if re.match(r"ron [a-z]", text):
        return verb_fault(truth, text)
    if ROUTE.fullmatch(text):
        return route_fault(truth, *ROUTE.fullmatch(text).groups())
    if PATH.fullmatch(text):
        found = path_fault(truth, folder, text)
        if found or not KEY.fullmatch(text):
            return found
    if KEY.fullmatch(text):
        return key_fault(truth, text)
    return None


def name_faults(root, truth, path):
    fenced, generated = False, False
    for number, line in enumerate(read(root, path).split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
        if "<!-- generated:" in line:
            generated = "generated:begin" in line
        if generated:
            continue  # names of channels and tasks; a test compares them with the program
        command = COMMAND.match(line)
        if command:
            texts = [command.group(1)] if truth.verbs else []
        else:
            texts = [] if fenced else QUOTED.findall(line)
        for text in texts:
            wrong = fault(truth, path.parent.as_posix(), text.strip())
            if wrong:
                yield path, number, wrong


def list_faults(root, paths):
    if not (root / LIST).exists():
        yield LIST, 0, "does not exist"
        return
    links = re.findall(r"\]\(([^)#\s]+)", read(root, LIST))
    listed = {(root / "docs" / link).resolve() for link in links}
    for path in paths:
        text = path.as_posix()
        kind = path.suffix in (".md", ".1", ".yml", ".json")
        if kind and path.name != "README.md" and (
                text.startswith("docs/") or (len(path.parts) == 1 and path.suffix == ".md")):
            if (root / path).resolve() not in listed:
                yield LIST, 0, f"does not list {text}"


def check(root):
    truth = Truth(root)
    yield from list_faults(root, truth.paths)
    for path in truth.paths:
        if is_document(path):
            yield from name_faults(root, truth, path)


TREE = {
    "cli/base/verbs.h": 'V("up", f) V("ledger", f) V("ledger verify", f) G("cap", T) '
                        'V("cap mint", f)\n',
    "docs/reference/ledger.md": "| `engine.mode` | `RON_LEDGER__ENGINE__MODE` | x |\n"
                                "| `origins.*.url` | `RON_X__Y` | x |\n",
    "api/ledger.yaml": "paths:\n  /roots:\n  /proof/inclusion:\n  /receipt/{seq}:\n",
    "ledger/log/read.c": 'x = "ledger.read"; y = "engine.open";\n',
    "kernel/include/ron/base/rc.h": "x\n",
}


def seeded(text, path="docs/a.md", listed="[a](a.md) [r](reference/ledger.md)"):
    return {**TREE, LIST: f"{listed}\n", path: f"{text}\n"}


CASES = [
    ("all names exist", seeded(
        "`ledger/log/read.c` `ron/base/rc.h` `read.c` `ledger/` `ron up --x` `ron ledger verify` "
        "`engine.mode` `RON_LEDGER__ENGINE__MODE` `origins.map.url` `ledger.read` `GET /roots` "
        "`/receipt/{seq}` `POST /proof/...` `/etc/ron/x.toml` `tests.example` `ron-data/x.toml`"),
     None),
    ("no list", {"docs/a.md": "x\n"}, "docs/README.md:0: does not exist"),
    ("document not listed", seeded("x", listed="[r](reference/ledger.md)"), "not list docs/a.md"),
    ("top document not listed", seeded("x") | {"NEW.md": "x\n"}, "does not list NEW.md"),
    ("file that does not exist", seeded("`ledger/log/gone.c`"), "ledger/log/gone.c does not exist"),
    ("lone file that does not exist", seeded("see `gone.c`"), "gone.c does not exist"),
    ("header that does not exist", seeded("`ron/base/gone.h`"), "ron/base/gone.h does not exist"),
    ("folder that does not exist", seeded("`ledger/gone/`"), "ledger/gone/ does not exist"),
    ("generated parts are the program's", seeded(
        "<!-- generated:begin x -->\n`engine.gone`\n<!-- generated:end -->"), None),
    ("after a generated part", seeded(
        "<!-- generated:begin x -->\n<!-- generated:end -->\n`engine.gone`"), "not a setting"),
    ("manual page that does not exist", seeded("`docs/man/gone.1`"), "gone.1 does not exist"),
    ("system header", seeded("`a.h`") | {"ledger/a.c": "#include <a.h>\n"}, None),
    ("path of an old layout", seeded("`src/read.c`", "ledger/README.md"), "src/read.c does not"),
    ("path from the folder", seeded("`log/read.c`", "ledger/README.md", "[r](reference/ledger.md)"),
     None),
    ("path above the folder", seeded("`../log/gone.c`", "ledger/log/README.md"), "not exist"),
    ("path above the tree", seeded("`../../../shared/x.md`", "ledger/log/README.md"), None),
    ("pattern without a file", seeded("`ledger/log/x*.c`"), "ledger/log/x*.c does not exist"),
    ("verb that does not exist", seeded("`ron fly --now`"), "ron fly is not a verb"),
    ("inner verb that does not exist", seeded("`ron cap melt`"), "ron cap melt is not a verb"),
    ("alternative verb", seeded("`ron ledger verify|melt`"), "ron ledger melt is not a verb"),
    ("command in a block", seeded("```console\n$ ron fly\n```"), "a.md:2: ron fly is not a verb"),
    ("setting that does not exist", seeded("`engine.gone`"), "engine.gone is not a setting"),
    ("variable that does not exist", seeded("`RON_LEDGER__GONE`"), "not a variable"),
    ("route that does not exist", seeded("`GET /proof/gone`"), "/proof/gone is not a route"),
    ("route of an unknown head", seeded("`GET /gone`"), "/gone is not a route"),
    ("route without a method", seeded("`/proof/gone`"), "/proof/gone is not a route"),
]

if __name__ == "__main__":
    main(check, CASES)
