#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a folder that test_export_peers.c wrote and compares balances with those of others.

journal.hledger is summed up by hledger and by ledger, journal.beancount by beancount, which must
also take part.beancount, an export from the middle on. Their account
and commodity names are turned back into ours by the rules of docs/formats/ledger-export.md, written
here a second time. balances.tsv holds what the model of the test says: account, asset, available,
held. Prints "ok" and what was compared."""

import csv
import io
import re
import subprocess
import sys
from pathlib import Path

folder = Path(sys.argv[1])


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def want():
    balances = {}
    for line in (folder / "balances.tsv").read_text().splitlines():
        account, asset, available, held = line.split("\t")
        for part, amount in (("available", int(available)), ("held", int(held))):
            if amount != 0:
                balances[account, part, asset] = amount
                supply = ("supply", "", asset)
                balances[supply] = balances.get(supply, 0) - amount
    return balances


def plain_hledger(name):
    """assets:NAME[:%held] or equity:supply; %3A is a colon."""
    if name.startswith("equity:"):
        return name[len("equity:"):], ""
    account, part = name[len("assets:"):], "available"
    if account.endswith(":%held"):
        account, part = account[:-len(":%held")], "held"
    return account.replace("%3A", ":"), part


def plain_beancount(name):
    """Assets:A..., a part behind ':' begins with C, behind '/' with S; a dash escapes."""
    if name.startswith("Equity:"):
        return name[len("Equity:"):].lower(), ""
    parts = name.split(":")[1:]
    part = "available"
    if parts[-1] == "Held":
        parts, part = parts[:-1], "held"
    text = ""
    for each in parts:
        text += {"A": "", "C": ":", "S": "/"}[each[0]]
        text += re.sub("-(.)", lambda m: {"-": "-", "u": "_"}[m.group(1)], each[1:])
    return text, part


def compare(peer, got):
    got = {key: amount for key, amount in got.items() if amount != 0}
    expected = want()
    if got != expected:
        for key in sorted(set(got) | set(expected), key=str):
            if got.get(key) != expected.get(key):
                print(f"{peer}: {key}: {got.get(key)}, ours {expected.get(key)}")
        sys.exit(1)
    return len(got)


def hledger():
    run("hledger", "-f", folder / "journal.hledger", "check", "balancednoautoconversion")
    text = run("hledger", "-f", folder / "journal.hledger", "balance", "--flat", "--no-total",
               "--layout=bare", "-O", "csv")
    got = {}
    for row in csv.DictReader(io.StringIO(text)):
        got[(*plain_hledger(row["account"]), row["commodity"])] = int(row["balance"])
    return compare("hledger", got)


def ledger():
    got = {}
    for asset in sorted({key[2] for key in want()}):
        text = run("ledger", "--args-only", "-f", folder / "journal.hledger", "balance", "--flat",
                   "--no-total", "--limit", f'commodity =~ /^"?{re.escape(asset)}"?$/', "--format",
                   "%(account)\t%(quantity(scrub(display_amount)))\n")
        for line in text.splitlines():
            account, amount = line.split("\t")
            got[(*plain_hledger(account), asset)] = int(amount)
    return compare("ledger", got)


def beancount():
    from beancount import loader
    from beancount.core import data, realization

    for name in ("part.beancount", "journal.beancount"):
        entries, errors, _ = loader.load_file(str(folder / name))
        if errors or not entries:
            sys.exit(f"beancount: {name}: {errors[:3]}")
    assets = {}
    for entry in data.filter_txns(entries):
        for posting in entry.postings:
            name = posting.units.currency
            assets[name] = entry.meta.get("asset") or re.sub("'0$", "", name).lower()
    got = {}
    for real in realization.iter_children(realization.realize(entries)):
        for position in real.balance:
            key = (*plain_beancount(real.account), assets[position.units.currency])
            got[key] = int(position.units.number)
    return compare("beancount", got)


print("ok:", ", ".join(f"{peer.__name__} {peer()}" for peer in (hledger, ledger, beancount)))
