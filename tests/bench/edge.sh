#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# edge.sh - `./dev bench edge`: the edge beside nginx, Varnish and tileserver-gl-light, as
# Markdown on standard output. How it measures is in edge_bench.py; its --help lists the settings.
set -eu

: "${RON_BIN:?is set by ./dev bench}"
python3 -B "$(dirname -- "$0")/edge_bench.py" "$@"
[ $# -gt 0 ] || exec python3 -B "$(dirname -- "$0")/edge_waiters.py"
