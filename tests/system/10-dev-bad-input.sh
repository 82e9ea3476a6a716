#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Goal: ./dev refuses wrong use with a message that helps, and never guesses.
# Method: run it with wrong words, and with stand-ins for dpkg-query, id, sudo and apt-get at the
# head of PATH that play a machine without packages; each case checks exit code and output.
set -eu

dev=${RON_SOURCE_DIR:?run this through ./dev test system}/dev
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

# expect CODE TEXT COMMAND...: the command ends with this code, and its output holds the text.
expect()
{
    code=$1
    text=$2
    shift 2
    got=0
    "$@" >"$tmp/out" 2>&1 </dev/null || got=$?
    if [ "$got" -eq "$code" ] && grep -qF -- "$text" "$tmp/out"; then
        echo "ok: $*"
    else
        echo "FAILED: $*"
        echo "  wanted exit code $code and: $text"
        echo "  got exit code $got and:"
        sed 's/^/  | /' "$tmp/out"
        bad=1
    fi
}

# stand_in NAME LINE...: a program of that name in the folder that goes before PATH.
stand_in()
{
    mkdir -p "$tmp/bin"
    name=$1
    shift
    printf '#!/bin/sh\n' >"$tmp/bin/$name"
    printf '%s\n' "$@" >>"$tmp/bin/$name"
    chmod +x "$tmp/bin/$name"
}

# Wrong words: exit 2, the nearest right word, and nothing is built or installed.
expect 2 "unknown verb 'tset'; nearest: test" "$dev" tset
expect 2 "unknown verb 'biuld'; nearest: build" "$dev" biuld
expect 2 "which verb?" "$dev"
expect 2 "usage: ./dev VERB" "$dev" ""
expect 2 "unknown verb 'up build'" "$dev" "up build"
expect 2 "unknown preset 'relaese'; nearest: release" "$dev" build relaese
expect 2 "unknown preset 'gold'" "$dev" test -p gold
expect 2 "needs a preset" "$dev" test -p
expect 2 "unknown option of test: '--fast'" "$dev" test --fast
expect 2 "an empty test name" "$dev" test ""
expect 2 "takes a target and seconds" "$dev" fuzz
expect 2 "unknown fuzz target 'nothing'" "$dev" fuzz nothing 5
expect 2 "unknown benchmark 'nothing'" "$dev" bench nothing
expect 2 "takes no argument" "$dev" clean all
expect 2 "takes no argument" "$dev" soak 3
expect 2 "RON_JOBS must be a number" env RON_JOBS=many "$dev" help
expect 2 "RON_FUZZ_SECONDS must be a number" env RON_FUZZ_SECONDS=-1 "$dev" help
for target in "$RON_SOURCE_DIR"/tests/fuzz/fuzz_*.c; do
    [ -e "$target" ] || continue
    target=$(basename "$target" .c)
    for seconds in 0 -5 ten 1e3 99999999999 ""; do
        expect 2 "seconds must be a number" "$dev" fuzz "$target" "$seconds"
    done
    break
done

# Right words from another folder, through a link, and with an empty environment.
ln -s "$dev" "$tmp/linked-dev"
cd "$tmp"
expect 0 "usage: ./dev VERB" ./linked-dev help
expect 0 "usage: ./dev VERB" env -i "$dev" --help

# Packages are missing and the user may not install: the exact command, exit 3, nothing else.
stand_in dpkg-query 'exit 1'
stand_in id 'echo 1000'
stand_in sudo 'exit 1'
stand_in apt-get "echo \"\$*\" >>'$tmp/apt-calls'"
line="apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev cmake"
expect 3 "$line" env PATH="$tmp/bin:$PATH" "$dev" build
expect 3 "libcmocka-dev" env PATH="$tmp/bin:$PATH" "$dev" test unit
[ ! -e "$tmp/apt-calls" ] || {
    echo "FAILED: apt-get was called without the right to"
    bad=1
}

# One package missing: the command names that one alone.
# shellcheck disable=SC2016
stand_in dpkg-query 'for p; do :; done; [ "$p" != ninja-build ] || exit 1; printf installed'
expect 3 "--no-install-recommends ninja-build" env PATH="$tmp/bin:$PATH" "$dev" build
if grep -q 'gcc' "$tmp/out"; then
    echo "FAILED: an installed package is asked for"
    bad=1
fi

# Root, but the installation fails: what apt-get said is shown, exit 3.
stand_in id 'echo 0'
stand_in apt-get "echo \"\$*\" >>'$tmp/apt-calls'" 'echo "E: no such package"; exit 100'
expect 3 "E: no such package" env PATH="$tmp/bin:$PATH" "$dev" build
printf 'update\ninstall -y --no-install-recommends ninja-build\n' >"$tmp/wanted"
if ! cmp -s "$tmp/wanted" "$tmp/apt-calls"; then
    echo "FAILED: apt-get was called as follows"
    cat "$tmp/apt-calls"
    bad=1
fi

exit "$bad"
