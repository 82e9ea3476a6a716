# SPDX-License-Identifier: Apache-2.0
# The kernel as one library. Which module may use which is not a matter of linking but of includes,
# and tests/lint/check_includes.py checks those.
include_guard(GLOBAL)

ron_glob(ron_kernel_sources "kernel/src/*/*.c" "kernel/src/*/*/*.c")
if(RON_MODEL)
  # Under the explorer the doors to the operating system are replaced: threads by fibers
  # (tests/model/weave), network and disk by the simulator (tests/sim).
  list(FILTER ron_kernel_sources EXCLUDE REGEX "_(posix|linux)\\.c$")
endif()
if(NOT ron_kernel_sources)
  message(FATAL_ERROR "no sources match kernel/src/*/*.c: is this a whole checkout?")
endif()

# Libraries of Debian packages. Their headers are system headers: our warnings are for our code.
find_package(PkgConfig REQUIRED)
pkg_check_modules(ron_ssl REQUIRED IMPORTED_TARGET openssl)
pkg_check_modules(ron_curl REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(ron_zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ron_zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(ron_brotli REQUIRED IMPORTED_TARGET libbrotlidec)
pkg_check_modules(ron_sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(ron_sqlite REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(ron_pq REQUIRED IMPORTED_TARGET libpq)

# BLAKE3 comes as source: Debian packs the official C and assembly inside the Rust package.
file(GLOB ron_blake3_dirs "/usr/share/cargo/registry/blake3-*/c")
if(NOT ron_blake3_dirs)
  message(FATAL_ERROR "no BLAKE3 sources found: install librust-blake3-dev")
endif()
list(SORT ron_blake3_dirs COMPARE NATURAL)
list(GET ron_blake3_dirs -1 ron_blake3_dir)
set(ron_blake3_sources blake3.c blake3_dispatch.c blake3_portable.c)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  enable_language(ASM)
  foreach(isa IN ITEMS sse2 sse41 avx2 avx512)
    list(APPEND ron_blake3_sources "blake3_${isa}_x86-64_unix.S")
  endforeach()
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  list(APPEND ron_blake3_sources blake3_neon.c)
endif()
list(TRANSFORM ron_blake3_sources PREPEND "${ron_blake3_dir}/")
# Not ours to warn about or to instrument: it is compiled as its authors ship it.
add_library(ron_blake3 STATIC ${ron_blake3_sources})
target_compile_options(ron_blake3 PRIVATE -O3 -w)
set_target_properties(ron_blake3 PROPERTIES POSITION_INDEPENDENT_CODE ON C_CLANG_TIDY "")
target_include_directories(ron_blake3 SYSTEM INTERFACE "${ron_blake3_dir}")

# What the product stands on: kernel and services alike.
add_library(ron_libraries INTERFACE)
target_link_libraries(ron_libraries INTERFACE ron_blake3
  PkgConfig::ron_ssl PkgConfig::ron_curl PkgConfig::ron_zlib PkgConfig::ron_zstd
  PkgConfig::ron_brotli
  PkgConfig::ron_sodium PkgConfig::ron_sqlite PkgConfig::ron_pq)

add_library(ron_kernel STATIC ${ron_kernel_sources})
target_link_libraries(ron_kernel PRIVATE ron_product ron_libraries PUBLIC ron_flags)
target_include_directories(ron_kernel
  PUBLIC "${PROJECT_SOURCE_DIR}/kernel/include"
  PRIVATE "${PROJECT_SOURCE_DIR}/kernel/src"
)
ron_use_build_id(ron_kernel)

if(RON_MODEL)
  ron_glob(ron_weave_sources "tests/model/weave/*.c")
  list(FILTER ron_weave_sources EXCLUDE REGEX "/test_[^/]*$")
  if(ron_weave_sources)
    # The kernel calls the explorer's sync, the explorer uses the kernel's base: a cycle on purpose.
    add_library(ron_weave STATIC ${ron_weave_sources})
    # It stands in for kernel/src/sync/*_posix.c, so it may read that module's private header.
    target_include_directories(ron_weave
      PUBLIC "${PROJECT_SOURCE_DIR}/tests" PRIVATE "${PROJECT_SOURCE_DIR}/kernel/src")
    target_link_libraries(ron_weave PUBLIC ron_kernel)
    target_link_libraries(ron_kernel PUBLIC ron_weave)
  endif()
endif()
