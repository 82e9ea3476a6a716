#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Alone: it runs builds of its own and counts on their order.
#
# Goal: `./dev test` counts every stage, whatever fails in the lane that builds behind the tests,
# and leaves no process behind when it is stopped.
# Method: a tree that holds the script and little else, with stand-ins for dpkg-query, cmake and
# ctest at the head of PATH. A preset named by BROKEN does not build, one named by ENDLESS never
# ends; ctest refuses to run what is not built, and reports two tests. One of them fails in the
# preset named by FAILING, with what it says in SAID, and in a second run too with STEADY; it is
# called NAME.
set -eu

source=${RON_SOURCE_DIR:?run this through ./dev test system}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

verdict()
{
    if [ "$1" -eq 0 ]; then
        echo "ok: $2"
    else
        echo "FAILED: $2"
        sed 's/^/  | /' "$tmp/out"
        bad=1
    fi
}

# expect NAME CODE TEXT...: the last run ended with this code, and its output holds the texts.
expect()
{
    name=$1
    wrong=0
    [ "$got" -eq "$2" ] || wrong=1
    shift 2
    for text; do
        grep -qF -- "$text" "$tmp/out" || wrong=1
    done
    verdict "$wrong" "$name"
}

run()
{
    got=0
    rm -rf "$tmp/tree/build"
    env PATH="$tmp/bin:$PATH" "$@" "$tmp/tree/dev" test >"$tmp/out" 2>&1 </dev/null || got=$?
}

mkdir -p "$tmp/tree/cmake" "$tmp/tree/tests/lint" "$tmp/bin"
cp "$source/dev" "$tmp/tree/dev"
cp "$source/cmake/count_tests.py" "$tmp/tree/cmake/"
cat >"$tmp/tree/tests/lint/check_tidy.py" <<'TXT'
import os
import sys

print("a finding")
sys.exit(int(os.environ.get("TIDY", "0")))
TXT
cat >"$tmp/bin/dpkg-query" <<'TXT'
#!/bin/sh
echo installed
TXT
cat >"$tmp/bin/cmake" <<'TXT'
#!/bin/sh
if [ "$1" = --preset ]; then
    mkdir -p "build/$2"
    exit 0
fi
[ "$3" != "${BROKEN:-}" ] || {
    echo "x.c:1: a mistake"
    exit 1
}
[ "$3" != "${ENDLESS:-}" ] || {
    echo $$ >"$PID_FILE"
    exec sleep 1000
}
touch "build/$3/built"
TXT
cat >"$tmp/bin/ctest" <<'TXT'
#!/bin/sh
[ "$1" = --preset ] && [ -e "build/$2/built" ] || exit 9
[ ! -e /proc/self/fd/3 ] || exit 8
preset=$2
again=0
NAME=${NAME:-system.b}
while [ "$1" != --output-junit ]; do
    [ "$1$2" != "-R^($NAME)\$" ] || again=1
    shift
done
case='<testcase name="a" status="run"/>'
if [ "$preset" = "${FAILING:-}" ] && [ "$again$STEADY" != 1 ]; then
    echo "$SAID"
    echo "<testsuite>$case<testcase name=\"$NAME\" status=\"fail\"/></testsuite>" >"$2"
    exit 8
fi
echo "<testsuite>$case<testcase name=\"$NAME\" status=\"run\"/></testsuite>" >"$2"
TXT
chmod +x "$tmp/bin/dpkg-query" "$tmp/bin/cmake" "$tmp/bin/ctest"

# lint and five presets with two tests each, tidy as one.
run env
expect "all good" 0 "13 passed, 0 failed"
run env BROKEN=asan
expect "a preset does not build: said with its text, the others run" 1 \
    "x.c:1: a mistake" "failed: asan:(build)" "11 passed, 1 failed"
run env TIDY=1
expect "clang-tidy has findings" 1 "a finding" "failed: tidy:(findings)" "12 passed, 1 failed"

run env FAILING=release SAID="too slow" STEADY=1
expect "a test fails, and again" 1 "too slow" "failed: release:system.b" "12 passed, 1 failed"
run env FAILING=release SAID="too slow" STEADY=
expect "a system test fails once: it passes, and is named" 0 "too slow" \
    "unsteady, failed once and passed alone: release:system.b" "13 passed, 0 failed"
run env FAILING=asan SAID="wrong" STEADY= NAME=unit.b
expect "any other test has one try" 1 "wrong" "failed: asan:unit.b" "12 passed, 1 failed"
run env FAILING=tsan SAID="WARNING: ThreadSanitizer: data race" STEADY=
expect "what a sanitizer reports has one try" 1 "data race" "failed: tsan:system.b" \
    "12 passed, 1 failed"

# Stopped in the middle of a build: nothing goes on.
pid_file=$tmp/pid
env PATH="$tmp/bin:$PATH" ENDLESS=tsan PID_FILE="$pid_file" "$tmp/tree/dev" test >"$tmp/out" 2>&1 \
    </dev/null &
dev_pid=$!
tries=0
until grep -q 'tsan *building' "$tmp/out" && [ -s "$pid_file" ] || [ "$tries" -eq 600 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
kill -TERM "$dev_pid"
got=0
wait "$dev_pid" || got=$?
expect "stopped: exit code of the signal" 143
tries=0
while [ -e "/proc/$(cat "$pid_file")/cmdline" ] && [ "$tries" -lt 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
wrong=0
[ ! -e "/proc/$(cat "$pid_file")/cmdline" ] || wrong=1
verdict "$wrong" "stopped: the build behind it is gone"

exit "$bad"
