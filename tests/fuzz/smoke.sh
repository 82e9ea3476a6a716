#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a libFuzzer target for RON_FUZZ_SECONDS. Without it: 30 s, or what a whole run of the tests
# sets, RON_FUZZ_BRIEF with `brief` and RON_FUZZ_FRONT otherwise. New inputs go to SCRATCH, faults
# to the folder `findings` of the build; the corpus of the tree is read only.
#
# usage: smoke.sh PROGRAM SCRATCH CORPUS [brief]
set -eu

[ $# -eq 3 ] || [ $# -eq 4 ] || {
    echo "usage: smoke.sh PROGRAM SCRATCH CORPUS [brief]" >&2
    exit 2
}
program=$1
scratch=$2
corpus=$3
findings=$(dirname -- "$(dirname -- "$program")")/findings
seconds=${RON_FUZZ_FRONT:-30}
[ "${4:-}" != brief ] || seconds=${RON_FUZZ_BRIEF:-30}
seconds=${RON_FUZZ_SECONDS:-$seconds}

# A target without stored inputs starts from nothing in every run; that is a mistake, not a choice.
[ -d "$corpus" ] || {
    echo "smoke.sh: $corpus does not exist: store a few good and bad inputs there" >&2
    exit 1
}
mkdir -p "$scratch" "$findings"

# RON_SEED repeats a run when it is a number libFuzzer takes; 0 lets it choose and print one.
seed=${RON_SEED:-0}
case $seed in
*[!0-9]* | ??????????*) seed=0 ;;
esac

exec "$program" -seed="$seed" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$findings/$(basename -- "$program")-" \
    "$scratch" "$corpus"
