#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# wallet.sh - `./dev bench wallet`: wallet and ledger beside PostgreSQL behind a thin HTTP server,
# as Markdown on standard output. How it measures is in wallet_bench.py; its --help lists settings.
set -eu

: "${RON_BIN:?is set by ./dev bench}"
exec python3 -B "$(dirname -- "$0")/wallet_bench.py" "$@"
