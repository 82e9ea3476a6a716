# SPDX-License-Identifier: Apache-2.0
# Compile and link flags, carried by two interface targets:
#   ron_flags    for every target of the tree, tests included
#   ron_product  for what ships (kernel, services, command line): ron_flags and stricter rules
include_guard(GLOBAL)

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # gnu17: cleanup attribute, statement expressions, 128-bit integers

find_package(Threads REQUIRED)

add_library(ron_flags INTERFACE)
target_link_libraries(ron_flags INTERFACE Threads::Threads)
target_compile_definitions(ron_flags INTERFACE
  _GNU_SOURCE
  RON_CHECKED=${RON_CHECKED}
  RON_MODEL=${RON_MODEL}
)
target_compile_options(ron_flags INTERFACE
  -Wall -Wextra -Wpedantic -Werror
  -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -Wcast-qual -Wformat=2 -Wundef -Wswitch-enum
  # Frames stay whole, so that a sanitizer report or a profile shows every caller.
  -fno-omit-frame-pointer
  # Assertions name files as they lie in the tree, whatever machine built them.
  "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/="
  # Includes of the product name the path from the root: "ledger/book/book.h".
  "SHELL:-iquote ${PROJECT_SOURCE_DIR}"
)
if(NOT RON_SANITIZE STREQUAL "")
  target_compile_options(ron_flags INTERFACE
    -fsanitize=${RON_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(ron_flags INTERFACE -fsanitize=${RON_SANITIZE})
endif()
if(RON_FUZZER)
  # Everything is instrumented for coverage; only the targets link libFuzzer's main.
  target_compile_options(ron_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(ron_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(RON_COVERAGE)
  target_compile_options(ron_flags INTERFACE --coverage)
  target_link_options(ron_flags INTERFACE --coverage)
endif()
if(RON_HARDEN)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  target_compile_options(ron_flags INTERFACE
    -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fPIE)
  target_link_options(ron_flags INTERFACE -pie -Wl,-z,relro,-z,now -Wl,-z,noexecstack)
endif()

# Some three hundred test programs are linked in every build; gold takes a third of the time of the
# usual linker, and lld a third of it for programs with sanitizers. What ships is linked as the
# distribution does.
find_program(RON_GOLD ld.gold)
find_program(RON_LLD ld.lld)
if(RON_LLD AND CMAKE_C_COMPILER_ID STREQUAL "Clang")
  target_link_options(ron_flags INTERFACE -fuse-ld=lld)
elseif(RON_GOLD AND NOT RON_HARDEN AND NOT RON_SANITIZE MATCHES "address")
  # With the address sanitizer gold warns of a symbol of its runtime in every program.
  target_link_options(ron_flags INTERFACE -fuse-ld=gold)
endif()

# Sources that ship get the list of banned functions before their first line. The pattern makes the
# build configure itself anew when the header appears.
add_library(ron_product INTERFACE)
target_link_libraries(ron_product INTERFACE ron_flags)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND RON_SANITIZE STREQUAL "" AND NOT RON_COVERAGE)
  # Not for tests, which check with cmocka what gcc cannot see; nor for instrumented code, which
  # confuses gcc's value tracking into false reports.
  target_compile_options(ron_product INTERFACE -Wnull-dereference)
endif()
file(GLOB ron_banned_header CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/kernel/include/ron/base/banned.h")
if(ron_banned_header)
  target_compile_options(ron_product INTERFACE "SHELL:-include ron/base/banned.h")
  target_include_directories(ron_product INTERFACE "${PROJECT_SOURCE_DIR}/kernel/include")
else()
  message(STATUS "ron/base/banned.h is absent: banned functions are not checked")
endif()

# ron_glob(<out> <pattern>...): files under the project by pattern, sorted, tracked by the build.
function(ron_glob out)
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/")
  file(GLOB found CONFIGURE_DEPENDS ${ARGN})
  list(SORT found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
