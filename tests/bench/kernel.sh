#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kernel.sh - the figures of the kernel, as Markdown on standard output: `./dev bench kernel`.
#
# Needs RON_BENCH_DIR and RON_FIXTURE (the benchmarks and the program of the release build).
# RON_BENCH_REPS sets the number of repetitions (11). Takes about a minute; other work on the
# machine shows in the spread.
set -eu

bench=${RON_BENCH_DIR:?is set by ./dev bench}
: "${RON_FIXTURE:?is set by ./dev bench}"
# A multiple of 64, the batch of the operations that have one, and of the runs between two polls.
# Instructions repeat exactly, so this need not be long; the hops run on threads beside a
# supervisor that looks around now and then, so they get a longer run.
count=4096
hop_count=40960

# What the figures depend on, without naming the machine.
describe_machine()
{
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    printf 'Machine: %s, %s cores, Linux %s, load %s before the run.\n\n' \
        "${model:-unknown processor}" "$(nproc)" "$(uname -r)" "$(cut -d ' ' -f 1 /proc/loadavg)"
}

# status PID KEY: the number of a line of the process's status.
status()
{
    sed -n "s/^$2:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$1/status"
}

# The same figure for the program itself, once it says that it is up.
program_memory()
{
    said=$(mktemp)
    "$RON_FIXTURE" kernel --rate 0 --bind_addr 127.0.0.1:0 >"$said" 2>&1 &
    pid=$!
    tries=0
    until grep -q listening "$said" || [ "$tries" -eq 50 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    printf 'ron-fixture kernel --rate 0: %s KiB resident, %s of it private, %s files.\n\n' \
        "$(status "$pid" VmRSS)" "$(status "$pid" RssAnon)" "$(status "$pid" RssFile)"
    kill -TERM "$pid"
    wait "$pid" || printf 'It did not end well:\n\n%s\n\n' "$(cat "$said")"
    rm -f "$said"
}

# instructions NAME COUNT: instructions of a whole run under callgrind.
instructions()
{
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$bench/bench_kernel_count" "$1" "$2" 2>&1 | sed -n 's/.*Collected : *//p'
}

# The lines of `bench_kernel_count`, each with its count of instructions, as rows.
count_rows()
{
    while IFS="$(printf '\t')" read -r name text ns; do
        n=$count
        case $name in
        hop*) n=$hop_count ;;
        esac
        once=$(instructions "$name" "$n" </dev/null)
        twice=$(instructions "$name" $((2 * n)) </dev/null)
        printf '%s %s %s\n' "$once" "$twice" "$n" |
            awk -v text="$text" -v ns="$ns" \
                'NF == 3 { printf "| %s | %.1f | %s |\n", text, ($2 - $1) / $3, ns }
                 NF != 3 { printf "| %s | not counted | %s |\n", text, ns }'
    done
}

printf '## Kernel benchmarks\n\n'
describe_machine
"$bench/bench_kernel_chan"
"$bench/bench_kernel_hop"
"$bench/bench_kernel_wake"
"$bench/bench_kernel_lone"
"$bench/bench_kernel_idle"
program_memory

printf '### Instructions of one operation (callgrind, nobody waits)\n\n'
printf '| operation | instructions | processor ns |\n|---|---|---|\n'
timed=$("$bench/bench_kernel_count")
printf '%s\n' "$timed" | count_rows
