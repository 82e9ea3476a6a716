#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# interop.sh - `./dev bench interop`: the bridge beside Debian's webhook, @octokit/webhooks, b3sum
# and nginx, as Markdown on standard output. How it measures is in interop_bench.py; its --help
# lists the settings.
set -eu

: "${RON_BIN:?is set by ./dev bench}" "${RON_BENCH_DIR:?is set by ./dev bench}"
exec python3 -B "$(dirname -- "$0")/interop_bench.py" "$@"
