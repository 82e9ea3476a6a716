#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# http.sh - `./dev bench http`: our HTTP server beside Debian's nginx, as Markdown on standard
# output. How it measures is in http_bench.py; http_bench.py --help lists the settings.
set -eu

: "${RON_FIXTURE:?is set by ./dev bench}"
exec python3 -B "$(dirname -- "$0")/http_bench.py"
