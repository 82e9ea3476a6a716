#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# scale.sh - `./dev bench scale`: ledgers on one log in PostgreSQL, beside the same database row by
# row, as Markdown on standard output. How it measures is in scale_bench.py.
set -eu

: "${RON_BIN:?is set by ./dev bench}"
exec python3 -B "$(dirname -- "$0")/scale_bench.py" "$@"
