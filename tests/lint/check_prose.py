#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""English as an engineer writes it: turns of phrase that native readers stumble over.

Documents (Markdown at the top, in docs/, and every README.md) must be free of the patterns of the
table IDIOMS. Code blocks, text in backticks and generated parts do not count.

C sources still have many of them, in comments and in strings, and messages with other faults
(MESSAGES). Their numbers are kept per folder in prose.toml: more fail, fewer give a warning until
`--write` has written the new numbers, which it does while their sum does not rise (code may move
from folder to folder). `--list FOLDER` prints the places.

A waiver is a comment on the line with its reason: <!-- prose: quotation -->, /* prose: ... */.
"""
import re
import sys
import tomllib
from pathlib import Path

from common import ROOT, files, main, read

LIMITS = "tests/lint/prose.toml"
FOLDERS = ["kernel", "ledger", "client", "wallet", "rewarder", "edge", "interop", "console", "cli",
           "audit", "tests"]
# (expression, what to write instead)
IDIOMS = [
    (r"(?<!here )\b(?:is|are|was|were) no (?!longer|more|less|better|worse|later|earlier)[a-z]",
     "'is no': write 'is not a', or what was expected"),
    (r"(?<!-)\bstands?\b(?!-)", "'stands': write is, appears, is listed, represents"),
    (r"\banew\b", "'anew': write re-, again, from scratch"),
    (r"\b(?:nobody|somebody|whoever|whom)\b", "name the actor"),
    (r"(?:^|[.;:|(*] ?)who [a-z]", "a clause that begins with 'who': name the actor"),
    (r"\b(?:to|for|by|of|from|with|than|and) who\b", "'who' without a noun: name the actor"),
    (r"\bin a second\b(?! (?:reading|pass|process|step|file|thread))",
     "'in a second': write per second"),
    (r"\bbeside\b", "'beside': write next to, with, compared with, besides"),
    (r"\bso many\b", "'so many': say how many"),
    (r"\bsuch\.", "'such.': repeat the noun"),
]
IDIOMS = [(re.compile(rule, re.IGNORECASE), text) for rule, text in IDIOMS]
# Calls whose first string is a message for people: (function, fault of its text, what it is).
MESSAGES = [
    (re.compile(r"\bron_err_\w+\([^\";]*\"((?:[^\"\\]|\\.)*)\""),
     re.compile(r"^[A-Z][a-z]|[^.]\.$"),
     "an error begins in lower case and ends without a full stop"),
    (re.compile(r"\b(?:RON_LOG|ron_log)\w*\([^\";]*\"((?:[^\"\\]|\\.)*)\""),
     re.compile(r"^(?:a|an|the) "), "a log text begins without an article"),
]
WAIVER = re.compile(r"(?:<!--|/\*|//|#) prose: \w")
PIECE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)


def idioms(text):
    """What is wrong with a text, one for each place."""
    for rule, advice in IDIOMS:
        for _ in rule.finditer(text):
            yield advice


# ---- documents ----------------------------------------------------------------------------------


def is_document(path):
    return path.suffix == ".md" and (len(path.parts) == 1 or path.parts[0] == "docs"
                                     or path.name == "README.md")


def document_faults(root, path):
    fenced = generated = False
    for number, line in enumerate(read(root, path).split("\n"), 1):
        if "<!-- generated:" in line:
            generated = "generated:begin" in line
        if line.startswith("```"):
            fenced = not fenced
        if fenced or generated or line.startswith("    ") or WAIVER.search(line):
            continue
        plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "`x`", line)
        for advice in idioms(plain.lstrip("-# ")):
            yield path, number, advice


# ---- sources ------------------------------------------------------------------------------------


def source_faults(text):
    """(line, kind, advice) of a C source; kind is comments or strings."""
    waived = {n for n, line in enumerate(text.split("\n"), 1) if WAIVER.search(line)}
    for match in PIECE.finditer(text):
        kind = "strings" if match.group().startswith('"') else "comments"
        first = text.count("\n", 0, match.start()) + 1
        for offset, line in enumerate(match.group().split("\n")):
            if first + offset not in waived:
                for advice in idioms(line.lstrip('/* "')):
                    yield first + offset, kind, advice
    for call, fault, advice in MESSAGES:
        for match in call.finditer(text):
            number = text.count("\n", 0, match.start(1)) + 1
            if fault.search(match.group(1)) and number not in waived:
                yield number, "strings", advice


def sources(root, folder):
    if not (root / folder).is_dir():
        return
    for path in files(root / folder, ".c", ".h"):
        if path.parts[0] != "fuzz" or "corpus" not in path.parts:
            for fault in source_faults(read(root / folder, path)):
                yield (f"{folder}/{path}", *fault)


def counts(root):
    found = {}
    for folder in FOLDERS:
        found[folder] = {"comments": 0, "strings": 0}
        for _, _, kind, _ in sources(root, folder):
            found[folder][kind] += 1
    return found


def limits_of(root):
    page = root / LIMITS
    return tomllib.loads(page.read_text(encoding="utf-8")) if page.exists() else {}


def ratchet_faults(root):
    limits = limits_of(root)
    for folder, kinds in counts(root).items():
        for kind, count in kinds.items():
            limit = limits.get(folder, {}).get(kind, 0)
            if count > limit:
                yield LIMITS, 0, (f"{folder}: {count} idioms in {kind}, {limit} at most; "
                                  f"check_prose.py --list {folder}")
            elif count < limit:
                yield LIMITS, 0, (f"warning: {folder}: {count} idioms in {kind}, down from "
                                  f"{limit}; run check_prose.py --write")


def check(root):
    for path in files(root, ".md"):
        if is_document(path):
            yield from document_faults(root, path)
    yield from ratchet_faults(root)


# ---- the two other uses -------------------------------------------------------------------------

HEAD = """# SPDX-License-Identifier: Apache-2.0
# Idioms in C sources, per folder; they may only fall. Written by check_prose.py --write.
"""


def write(root):
    """Writes the present numbers, unless a sum over all folders would rise."""
    found, old = counts(root), limits_of(root)
    for kind in ("comments", "strings"):
        now, then = (sum(x.get(kind, 0) for x in table.values()) for table in (found, old))
        if old and now > then:
            sys.exit(f"{LIMITS}: {kind} rise from {then} to {now}")
    text = HEAD
    for folder, kinds in found.items():
        text += f"\n[{folder}]\n" + "".join(f"{kind} = {n}\n" for kind, n in kinds.items())
    (root / LIMITS).write_text(text, encoding="utf-8")


def seeded(text, path="docs/a.md"):
    return {path: f"{text}\n"}


def source(text, limit):
    return {"ledger/a.c": text + "\n", LIMITS: f"[ledger]\ncomments = {limit}\nstrings = {limit}\n"}


CASES = [
    ("plain English", seeded("There is no index. It is no longer used, besides. Understand it."),
     None),
    ("is no", seeded("That is no receipt."), "'is no'"),
    ("stands", seeded("The header stands first."), "'stands'"),
    ("stand-in", seeded("A stand-in for the server."), None),
    ("anew", seeded("It is read anew."), "'anew'"),
    ("nobody", seeded("nobody waits"), "name the actor"),
    ("headless who", seeded("Stop. Who asks is refused."), "begins with 'who'"),
    ("headless who in a cell", seeded("| who asks | 403 |"), "begins with 'who'"),
    ("who without a noun", seeded("It is told to who asks."), "without a noun"),
    ("who with a noun", seeded("Clients who ask are answered; people who read it, too."), None),
    ("in a second", seeded("5 in a second"), "per second"),
    ("beside", seeded("beside it"), "'beside'"),
    ("so many", seeded("so many, then end"), "'so many'"),
    ("such", seeded("It is counted as such."), "'such.'"),
    ("line of a finding", seeded("x\n\nanew"), "docs/a.md:3"),
    ("README of a folder", seeded("anew", "ledger/log/README.md"), "'anew'"),
    ("other Markdown is free", seeded("anew", "tests/fuzz/x.md"), None),
    ("code is free", seeded("`anew`\n```\nanew\n```\n    anew"), None),
    ("generated parts are free",
     seeded("<!-- generated:begin x -->\nanew\n<!-- generated:end -->"), None),
    ("after a generated part",
     seeded("<!-- generated:begin x -->\n<!-- generated:end -->\nanew"), "'anew'"),
    ("waiver", seeded("anew <!-- prose: quotation of the specification -->"), None),
    ("waiver without a reason", seeded("anew <!-- prose: -->"), "'anew'"),
    ("comments within the limit", source("/* anew, and\n * beside it */", 2) | {
        LIMITS: "[ledger]\ncomments = 2\nstrings = 0\n"}, None),
    ("comments above the limit", source("/* anew, and\n * beside it */", 1),
     "2 idioms in comments"),
    ("a second reading", seeded("found in a second reading"), None),
    ("strings above the limit", source('f("read anew");', 0), "1 idioms in strings"),
    ("identifiers are free", source("int anew = beside;", 0), None),
    ("waiver in C", source('f("anew"); /* prose: name of a test */', 0), None),
    ("fewer than the limit", source("x", 3), "warning: ledger: 0 idioms in comments"),
    ("error with a full stop", source('ron_err_set(err, "cannot open.");', 0), "1 idioms in str"),
    ("error with a capital", source('ron_err_set(err, "Cannot open");', 0), "1 idioms in strings"),
    ("error in good form", source('ron_err_set(err, "cannot open %s", x);', 0), None),
    ("log text with an article", source('ron_log_info(l, "the disk is full");', 0), "1 idioms"),
]

if __name__ == "__main__":
    if sys.argv[1:2] == ["--list"] and len(sys.argv) == 3:
        for place in sources(ROOT, sys.argv[2]):
            print(f"{place[0]}:{place[1]}: {place[2]}: {place[3]}")
    elif sys.argv[1:] == ["--write"]:
        write(Path(ROOT))
    else:
        main(check, CASES)
