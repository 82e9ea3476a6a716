#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cas.sh - the figures of the content store, as Markdown on standard output: `./dev bench cas`.
#
# Needs RON_BENCH_DIR. RON_BENCH_DATA is the folder to write to (/var/tmp), RON_BENCH_REPS the
# number of repetitions (11).
set -eu

bench=${RON_BENCH_DIR:?is set by ./dev bench}
count=4096

# instructions NAME COUNT: instructions of a whole run under callgrind.
instructions()
{
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$bench/bench_cas" --count "$1" "$2" 2>&1 | sed -n 's/.*Collected : *//p'
}

printf '## Content store benchmarks\n\n'
"$bench/bench_cas"
printf '### Instructions of one operation (callgrind)\n\n| operation | instructions |\n|---|---|\n'
for name in hit miss put hash64 hash64_many; do
    once=$(instructions "$name" "$count")
    twice=$(instructions "$name" $((2 * count)))
    printf '%s %s %s\n' "$once" "$twice" "$count" |
        awk -v name="$name" 'NF == 3 { printf "| %s | %.1f |\n", name, ($2 - $1) / $3 }
                             NF != 3 { printf "| %s | not counted |\n", name }'
done
