#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ledger.sh - `./dev bench ledger`: the ledger beside PostgreSQL and the bare disk, as Markdown on
# standard output. How it measures is in ledger_bench.py; its --help lists the settings.
set -eu

: "${RON_BIN:?is set by ./dev bench}"
exec python3 -B "$(dirname -- "$0")/ledger_bench.py" "$@"
