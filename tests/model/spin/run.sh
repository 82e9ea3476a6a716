#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Checks the Spin models of this folder: every property of the correct model is proved over its
# whole state space, and every seeded mutant must be found. A mutant that passes is a failure: it
# would mean that the model cannot see the mistake it was written to see.
#
# Usage: run.sh [MODEL]        MODEL is a file name without .pml; all models without it.
#
# What to check stands in the head comment of each model, one line a check:
#   @prove safety [-DX...]                  assertions, invariants, invalid end states
#   @prove ltl NAME [-DX...]                the ltl formula NAME, under weak fairness
#   @catch MUTANT safety REASON [-DX...]    MUTANT_<MUTANT> must fail by REASON:
#                                           assertion or deadlock
#   @catch MUTANT ltl NAME [-DX...]         MUTANT_<MUTANT> must break the formula NAME
# A safety proof without -D also fails when a statement of the model is never reached (monitor
# excepted): what cannot happen in the model is not proved by it.
#
# With RON_BRIEF, which a whole run of the tests sets, only the proofs run: a mutant changes nothing
# that the proofs do not change too. `./dev test spin` and `./dev soak` check the mutants.
#
# Ends with 0 when all went as the table says, 1 on any surprise, 2 on wrong use.

set -eu

# Deeper than any model here (the deepest needs some 3,000 steps); a search that hits it fails.
depth_max=100000
# 2^20 slots to begin with: enough for most runs and quick to clear; the verifier enlarges it.
hash_bits=20
# Three times what the largest model needs; a model that grows past it fails instead of swapping.
memory_mib=1024

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

usage()
{
    echo "usage: run.sh [MODEL]" >&2
    echo "models:$(for f in "$here"/*.pml; do printf ' %s' "$(basename "$f" .pml)"; done)" >&2
    exit 2
}

[ $# -le 1 ] || usage
if [ $# -eq 1 ]; then
    case $1 in
    '' | *[!a-z_]*) usage ;;
    esac
    [ -f "$here/$1.pml" ] || usage
    models=$1
else
    models=$(for f in "$here"/*.pml; do basename "$f" .pml; done)
fi

for tool in spin gcc; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "run.sh: $tool is not installed (Debian: apt-get install $tool)" >&2
        exit 1
    fi
done

tmp=$(mktemp -d "${TMPDIR:-/tmp}/ron-spin.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
cd "$tmp"

checks=0
surprises=0

# Prints one line of the table: outcome, what was checked, states explored, remark.
line()
{
    printf '%-7s %-64s %8s states  %s\n' "$1" "$2" "$3" "$4"
}

# Something is not as the table says: show why, and remember.
surprise()
{
    surprises=$((surprises + 1))
    line FAILED "$1" "$2" "$3"
    sed 's/^/    | /' out
}

# Builds and runs the verifier: explore LEVEL MODEL KIND FORMULA [-D...]; its output goes to ./out.
# LEVEL is the optimisation: 1 for a proof; 0 for a mutant, whose search is over before an optimiser
# would pay for itself. KIND safety leaves out the claims and the cycle search, which is faster and
# checks all the rest. KIND ltl defines LIVENESS, by which a model leaves out its monitor (fairness
# makes a copy of the state space for each process); NFAIR=3 is room for ten processes.
explore()
{
    level=$1
    model=$2
    kind=$3
    formula=$4
    shift 4
    rm -rf work
    mkdir work
    (
        cd work
        if [ "$kind" = safety ]; then
            spin -a "$@" "$here/$model.pml" || exit 1
            gcc "-O$level" -w -DMEMLIM=$memory_mib -DSAFETY -DNOCLAIM -o pan pan.c || exit 1
            ./pan -m$depth_max -w$hash_bits
        else
            spin -a -DLIVENESS "$@" "$here/$model.pml" || exit 1
            gcc "-O$level" -w -DMEMLIM=$memory_mib -DNFAIR=3 -o pan pan.c || exit 1
            ./pan -a -f -N "$formula" -m$depth_max -w$hash_bits
        fi
    ) >out 2>&1 || echo "run.sh: spin, gcc or pan ended with an error" >>out
}

states()
{
    n=$(awk '/states, stored/ { print $1; exit }' out)
    echo "${n:-0}"
}

# The first complaint of the verifier, without its "pan:1: " and the depth.
complaint()
{
    sed -n 's/^pan:[0-9]*: \(.*\) (at depth [0-9]*)$/\1/p' out | head -n 1
}

# Statements that no run executes, except in monitor (which must stay silent), the claims (not in
# use here) and the ends of endless loops.
unreached()
{
    awk '/^unreached in / { skip = ($0 ~ /proctype monitor$/ || $0 ~ /claim/); next }
         /, state [0-9]+, / && !skip && !/"-end-"/ { print }' out
}

# The whole state space was searched and nothing was wrong.
whole_space_is_clean()
{
    grep -q 'errors: 0' out &&
        ! grep -q -e 'max search depth too small' -e 'Search not completed' -e '^run.sh:' \
            -e '^error:' -e 'out of memory' out
}

# prove MODEL KIND FORMULA [-D...]
prove()
{
    prove_kind=$2
    explore 1 "$@"
    what="$1: $2${3:+ $3}"
    shift 3
    what="$what${1:+ $*}"
    checks=$((checks + 1))
    if ! whole_space_is_clean; then
        surprise "$what" "$(states)" "not proved: $(complaint)"
    elif [ "$prove_kind" = safety ] && [ $# -eq 0 ] && [ -n "$(unreached)" ]; then
        surprise "$what" "$(states)" "proved, but part of the model is never reached"
    else
        line proved "$what" "$(states)" ""
    fi
}

# catch MODEL MUTANT KIND EXPECTED [-D...]; EXPECTED is a reason or the name of a formula.
catch()
{
    what="$1: mutant $2 by $3"
    [ "$3" = safety ] || what="$what $4"
    catch_model=$1
    catch_mutant=$2
    catch_kind=$3
    catch_expected=$4
    shift 4
    what="$what${1:+ $*}"
    case $catch_kind-$catch_expected in
    safety-assertion) pattern='assertion violated' ;;
    safety-deadlock) pattern='invalid end state' ;;
    ltl-*) pattern='acceptance cycle' ;;
    *)
        echo "run.sh: $catch_model.pml: unknown reason '$catch_expected'" >&2
        exit 2
        ;;
    esac
    if ! grep -q "MUTANT_$catch_mutant\$" "$here/$catch_model.pml"; then
        echo "run.sh: $catch_model.pml has no MUTANT_$catch_mutant" >&2
        exit 2
    fi
    explore 0 "$catch_model" "$catch_kind" "$catch_expected" "-DMUTANT_$catch_mutant" "$@"
    checks=$((checks + 1))
    case $(complaint) in
    "$pattern"*) line found "$what" "$(states)" "$(complaint | cut -c1-60)" ;;
    '')
        if whole_space_is_clean; then
            surprise "$what" "$(states)" "the mutant passed"
        else
            surprise "$what" "$(states)" "not checked"
        fi
        ;;
    *) surprise "$what" "$(states)" "found by another reason: $(complaint)" ;;
    esac
}

# One line of a model's table. The words are split on purpose: none holds a blank or a wildcard.
check()
{
    model_name=$1
    verb=$2
    shift 2
    case $verb in
    @prove)
        kind=$1
        shift
        name=
        if [ "$kind" = ltl ]; then
            name=$1
            shift
        fi
        prove "$model_name" "$kind" "$name" "$@"
        ;;
    @catch) [ -n "${RON_BRIEF:-}" ] || catch "$model_name" "$@" ;;
    *)
        echo "run.sh: $model_name.pml: unknown check '$verb'" >&2
        exit 2
        ;;
    esac
}

for m in $models; do
    sed -n 's/^ \* \(@[a-z]* .*\)$/\1/p' "$here/$m.pml" >"table.$m"
    if ! grep -q '^@prove' "table.$m"; then
        echo "run.sh: $m.pml has no @prove line" >&2
        exit 2
    fi
    # A mutant that no line names would rot unseen.
    sed -n 's/.*MUTANT_\([A-Z_]*\)$/\1/p' "$here/$m.pml" | sort -u >"mutants.$m"
    while read -r mutant; do
        if ! grep -q "^@catch $mutant " "table.$m"; then
            echo "run.sh: $m.pml: no @catch line for MUTANT_$mutant" >&2
            exit 2
        fi
    done <"mutants.$m"
    while read -r words; do
        # shellcheck disable=SC2086
        check "$m" $words
    done <"table.$m"
done

echo "spin: $checks checks, $surprises surprises"
[ "$surprises" -eq 0 ]
