#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# rewarder.sh - `./dev bench rewarder`: the figures of the rewarder, as Markdown on standard output.
# Arguments choose parts: calc (rows a second of the calculus), count (its instructions), run (whole
# runs from files), stream (a large one sent to the service), settle (at a ledger), http (computes
# over HTTP), oz (public trees beside the npm package). How they are measured is in the heads of
# rewarder_runs.py and rewarder_bench.py.
set -eu

: "${RON_BIN:?is set by ./dev bench}"
: "${RON_BENCH_DIR:?is set by ./dev bench}"
[ $# -gt 0 ] || set -- calc count run stream settle http oz
for part in "$@"; do
    case $part in
    calc) "$RON_BENCH_DIR/bench_rewarder" calc ;;
    oz) python3 -B "$(dirname -- "$0")/rewarder_bench.py" "$part" ;;
    *) python3 -B "$(dirname -- "$0")/rewarder_runs.py" "$part" ;;
    esac
done
