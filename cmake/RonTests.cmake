# SPDX-License-Identifier: Apache-2.0
# Tests: each kind listed in RON_TESTS has one block here. A test file gives one program and one
# ctest entry `<kind>.<name>` with the kind as its label; tests/README.md holds the table of kinds.
#
# Every entry has a timeout, and 77 as the exit code that means "skipped: this machine lacks what
# the test needs" (the test prints what).
include_guard(GLOBAL)

if(NOT RON_TESTS)
  return()
endif()
enable_testing()

find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
if(NOT CMOCKA_FOUND)
  message(FATAL_ERROR
    "cmocka is missing: apt-get install libcmocka-dev (or configure with -D RON_TESTS=)")
endif()
find_program(RON_PYTHON python3 REQUIRED)
find_program(RON_SH sh REQUIRED)

# Public corpora are not part of the tree: the folder that RON_CORPORA names when this is
# configured, or the default beside the tree. Tests that find theirs absent skip; `./dev test` names
# what was absent.
set(ron_corpora "${PROJECT_SOURCE_DIR}/../shared/data")
if(DEFINED ENV{RON_CORPORA} AND NOT "$ENV{RON_CORPORA}" STREQUAL "")
  set(ron_corpora "$ENV{RON_CORPORA}")
endif()

# A trap of ours is an assertion that must reach the test, hence handle_sigill=0.
set(ron_test_environment
  "ASAN_OPTIONS=handle_sigill=0:detect_leaks=1:abort_on_error=0"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1"
  "PYTHONDONTWRITEBYTECODE=1"
  "RON_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "RON_BUILD_DIR=${CMAKE_BINARY_DIR}"
  "RON_CORPORA=${ron_corpora}"
  "RON_FIXTURE=${CMAKE_BINARY_DIR}/tests/ron-fixture"
)

# ron_add_test(<label> <name> COMMAND ... [ENVIRONMENT ...] [SERIAL])
# SERIAL: the test uses every core itself or measures time, so nothing runs beside it.
function(ron_add_test label name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "SERIAL" "" "COMMAND;ENVIRONMENT")
  add_test(NAME "${label}.${name}" COMMAND ${arg_COMMAND}
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}")
  set_tests_properties("${label}.${name}" PROPERTIES
    LABELS "${label}"
    TIMEOUT ${RON_TEST_TIMEOUT_S}
    SKIP_RETURN_CODE 77
    RUN_SERIAL ${arg_SERIAL}
    ENVIRONMENT "${ron_test_environment};${arg_ENVIRONMENT}"
  )
endfunction()

# ron_name(<out> <file> <prefix>): tests/x/test_foo.c without folder, prefix and extension.
function(ron_name out file prefix)
  get_filename_component(stem "${file}" NAME_WLE)
  if(prefix)
    string(REGEX REPLACE "^${prefix}" "" stem "${stem}")
  endif()
  set(${out} "${stem}" PARENT_SCOPE)
endfunction()

# Helpers shared by tests (death tests, seeds, the fault sweep), with what every test program needs.
add_library(ron_test_base INTERFACE)
target_link_libraries(ron_test_base INTERFACE ron_services ron_audit PkgConfig::CMOCKA)
target_include_directories(ron_test_base INTERFACE
  "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/kernel/src")
ron_glob(ron_support_sources "tests/support/*.c")
if(ron_support_sources)
  add_library(ron_support STATIC ${ron_support_sources})
  target_link_libraries(ron_support PUBLIC ron_test_base)
endif()

# ron_test_program(<target> <source>... [LIBRARIES ...]): a program in <build>/tests.
function(ron_test_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES")
  add_executable(${target} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} $<TARGET_NAME_IF_EXISTS:ron_support>
    ron_test_base)
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endfunction()

# What scripts of system tests and benches drive: the kernel's fronts and its self-check pipeline.
# Compiled like a shipped program, because benches measure it; never installed.
if(RON_CLI)
  ron_glob(ron_fixture_sources "tests/fixture/*.c" "cli/base/args.c" "cli/base/verbs.c")
  add_executable(ron-fixture ${ron_fixture_sources})
  target_link_libraries(ron-fixture PRIVATE ron_product ron_kernel)
  target_include_directories(ron-fixture PRIVATE
    "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/kernel/src")
  set_target_properties(ron-fixture PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  ron_use_build_id(ron-fixture)
endif()

# ron_add_programs(<label> <pattern>... [LIBRARIES ...]): a program and a test per file test_*.c. A
# file below its kind, tests/unit/chan/test_bus.c, is the test unit.chan.bus; so is one in a room,
# tests/unit/ledger/book/test_apply.c the test unit.ledger.apply.
function(ron_add_programs label)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES")
  ron_glob(files ${arg_UNPARSED_ARGUMENTS})
  foreach(file IN LISTS files)
    ron_name(name "${file}" "test_")
    if(file MATCHES "/tests/unit/([^/]+)/")
      set(name "${CMAKE_MATCH_1}.${name}")
    endif()
    string(REPLACE "." "_" target "${label}_${name}")
    ron_test_program(${target} "${file}" LIBRARIES ${arg_LIBRARIES})
    ron_add_test(${label} "${name}" COMMAND ${target})
  endforeach()
endfunction()

# Scenarios are written once and run twice: explored on fibers (model), and on threads (stress).
# ron_add_scenarios(<label> <runner> [SERIAL])
function(ron_add_scenarios label runner)
  ron_glob(runner_source "${runner}")
  ron_glob(files "tests/scenario/scn_*.c")
  if(NOT runner_source)
    return()
  endif()
  foreach(file IN LISTS files)
    ron_name(name "${file}" "scn_")
    ron_test_program(${label}_${name} "${file}" "${runner_source}")
    ron_add_test(${label} "${name}" COMMAND ${label}_${name} ${ARGN})
  endforeach()
endfunction()

if("unit" IN_LIST RON_TESTS)
  ron_add_programs(unit "tests/unit/*/test_*.c" "tests/unit/*/*/test_*.c")
endif()

if("fault" IN_LIST RON_TESTS)
  ron_add_programs(fault "tests/fault/test_*.c")
endif()

if("stress" IN_LIST RON_TESTS)
  ron_add_scenarios(stress "tests/stress/run_threads.c" SERIAL)
endif()

if("model" IN_LIST RON_TESTS AND TARGET ron_weave)
  ron_add_scenarios(model "tests/model/run_weave.c")
  ron_add_programs(model "tests/model/test_*.c" "tests/model/weave/test_*.c")
endif()

if("spin" IN_LIST RON_TESTS)
  ron_glob(files "tests/model/spin/*.pml")
  foreach(file IN LISTS files)
    ron_name(name "${file}" "")
    ron_add_test(model "spin.${name}"
      COMMAND "${RON_SH}" "${PROJECT_SOURCE_DIR}/tests/model/spin/run.sh" "${name}")
  endforeach()
endif()

if("sim" IN_LIST RON_TESTS AND TARGET ron_weave)
  ron_glob(ron_sim_sources "tests/sim/sim_*.c")
  if(ron_sim_sources)
    add_library(ron_sim STATIC ${ron_sim_sources})
    target_link_libraries(ron_sim PUBLIC ron_test_base)
  endif()
  ron_add_programs(sim "tests/sim/test_*.c" LIBRARIES $<TARGET_NAME_IF_EXISTS:ron_sim>)
endif()

if("fuzz-smoke" IN_LIST RON_TESTS)
  # The oracle of fuzz_json; no part of the program uses it.
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
  # The oracle of fuzz_macaroon, likewise.
  pkg_check_modules(MACAROONS REQUIRED IMPORTED_TARGET libmacaroons)
  ron_glob(files "tests/fuzz/fuzz_*.c")
  # What any stranger reaches before a service has a say: these get more time in a whole run.
  set(strangers http_request http_chunked http_inflate http_uri http_range http_date toml json oap
      macaroon)
  foreach(file IN LISTS files)
    ron_name(name "${file}" "fuzz_")
    set(brief brief)
    if(name IN_LIST strangers)
      set(brief "")
    endif()
    set(corpus "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
    if(RON_FUZZER)
      # New inputs go to the build folder; the corpus in the tree only grows by hand.
      set(scratch "${CMAKE_BINARY_DIR}/corpus/${name}")
      file(MAKE_DIRECTORY "${scratch}" "${CMAKE_BINARY_DIR}/findings")
      ron_test_program(fuzz_${name} "${file}")
      target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
      ron_add_test(fuzz-smoke "${name}"
        COMMAND "${RON_SH}" "${PROJECT_SOURCE_DIR}/tests/fuzz/smoke.sh"
                $<TARGET_FILE:fuzz_${name}> "${scratch}" "${corpus}" ${brief})
    else()
      ron_test_program(fuzz_${name} "${file}" "${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.c")
      ron_add_test(fuzz-smoke "${name}" COMMAND fuzz_${name} "${corpus}")
    endif()
    target_link_libraries(fuzz_${name} PRIVATE PkgConfig::JANSSON PkgConfig::MACAROONS)
  endforeach()
endif()

# ron_add_system(<name> <interpreter> <file>): a script that drives the program from outside. Most
# of their time is waiting, so they run beside each other, except those that measure time, memory or
# the machine's capacity and say so by a line `# Alone: why`.
function(ron_add_system name interpreter file)
  set(serial "")
  file(STRINGS "${file}" alone REGEX "^# Alone: " LIMIT_COUNT 1)
  if(alone)
    set(serial SERIAL)
  endif()
  ron_add_test(system "${name}" COMMAND "${interpreter}" "${file}" ${serial}
    ENVIRONMENT "RON_BIN=${CMAKE_BINARY_DIR}/bin/ron")
endfunction()

if("system" IN_LIST RON_TESTS)
  ron_test_program(ron_faulty "tests/system/ron_faulty.c")
  target_link_options(ron_faulty PRIVATE -Wl,--wrap=ron_sup_add)
  ron_test_program(ron_hook "tests/system/ron_hook.c")
  ron_glob(files "tests/system/[0-9]*-*.sh" "tests/system/[0-9]*-*.py")
  foreach(file IN LISTS files)
    ron_name(name "${file}" "")
    set(interpreter "${RON_SH}")
    if(file MATCHES "\\.py$")
      set(interpreter "${RON_PYTHON}")
    endif()
    ron_add_system("${name}" "${interpreter}" "${file}")
  endforeach()
  # A million requests: 20 s on an idle machine, several times that on a busy one.
  set_tests_properties(system.44-http-load PROPERTIES TIMEOUT 400)
  # Some forty starts, and waits for a server that is away.
  set_tests_properties(system.160-s3 PROPERTIES TIMEOUT 300)
  # Two hundred kills with a start each: a minute or two.
  set_tests_properties(system.91-ledger-kill PROPERTIES TIMEOUT 600)
  # Some eighty kills, half of them under strace.
  set_tests_properties(system.107-rewarder-kill PROPERTIES TIMEOUT 600)
  # Databases and ledgers come and go: half a minute, more on a busy machine; a soak has its own.
  if(RON_TEST_TIMEOUT_S LESS 400)
    set_tests_properties(system.156-wallet-failover system.157-ledger-chaos
      system.158-ledger-pitfalls PROPERTIES TIMEOUT 400)
  endif()
endif()

# A real browser in front of the program.
if("browser" IN_LIST RON_TESTS)
  ron_glob(files "tests/browser/[0-9]*-*.py")
  foreach(file IN LISTS files)
    ron_name(name "${file}" "")
    ron_add_test(browser "${name}" COMMAND "${RON_PYTHON}" "${file}" SERIAL
      ENVIRONMENT "RON_BIN=${CMAKE_BINARY_DIR}/bin/ron")
  endforeach()
endif()

# The system tests that drive the whole program hard, in the builds that watch it from inside.
if("load" IN_LIST RON_TESTS)
  ron_add_test(system "44-http-load" SERIAL
    COMMAND "${RON_PYTHON}" "${PROJECT_SOURCE_DIR}/tests/system/44-http-load.py"
    ENVIRONMENT "RON_BIN=${CMAKE_BINARY_DIR}/bin/ron" "RON_LOAD_SANITIZED=1"
                "RON_LOAD_REQUESTS=100000")
  foreach(name IN ITEMS 88-ledger-guards 89-ledger-bad-input 90-ledger 94-ledger-isolation
          95-ledger-oap 86-ledger-pressure 98-ledger-operator 100-wallet 101-wallet-chaos
          102-wallet-recovery 127-edge-random 137-interop-audit 138-interop-remote
          156-wallet-failover)
    ron_add_system("${name}" "${RON_PYTHON}" "${PROJECT_SOURCE_DIR}/tests/system/${name}.py")
  endforeach()
endif()

if("lint" IN_LIST RON_TESTS)
  ron_glob(files "tests/lint/check_*.py")
  foreach(file IN LISTS files)
    ron_name(name "${file}" "check_")
    ron_add_test(lint "${name}" COMMAND "${RON_PYTHON}" "${file}")
    # A check that cannot fail is no check: each one proves on seeded violations that it can.
    ron_add_test(lint "${name}.selftest" COMMAND "${RON_PYTHON}" "${file}" --self-test)
  endforeach()
  # The first clang-tidy run in a fresh tree analyses every source, on all cores.
  set_tests_properties(lint.tidy PROPERTIES RUN_SERIAL TRUE TIMEOUT 1200)
endif()

# Benchmarks are no tests: they are built by the target ron_bench and run by `./dev bench`.
if("bench" IN_LIST RON_TESTS)
  # The yardstick of bench_json.
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
  # A comparison for docs/decisions.md; nothing else knows RocksDB.
  find_library(RON_ROCKSDB rocksdb)
  ron_glob(files "tests/bench/bench_*.c")
  if(NOT RON_ROCKSDB)
    list(FILTER files EXCLUDE REGEX "bench_led_rocksdb\\.c$")
  endif()
  add_custom_target(ron_bench)
  foreach(file IN LISTS files)
    ron_name(name "${file}" "")
    add_executable(${name} EXCLUDE_FROM_ALL "${file}")
    target_link_libraries(${name} PRIVATE ron_services ron_audit PkgConfig::JANSSON)
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
    add_dependencies(ron_bench ${name})
  endforeach()
  if(RON_ROCKSDB)
    target_link_libraries(bench_led_rocksdb PRIVATE "${RON_ROCKSDB}")
  endif()
endif()
