# SPDX-License-Identifier: Apache-2.0
# The kernel as one library. Which module may use which is not a matter of linking but of includes,
# and tests/lint/check_includes.py checks those.
include_guard(GLOBAL)

ron_glob(ron_kernel_sources "kernel/src/*/*.c")
if(RON_MODEL)
  # Under the explorer the doors to the operating system are replaced: threads by fibers
  # (tests/model/weave), network and disk by the simulator (tests/sim).
  list(FILTER ron_kernel_sources EXCLUDE REGEX "_(posix|linux)\\.c$")
endif()
if(NOT ron_kernel_sources)
  message(FATAL_ERROR "no sources match kernel/src/*/*.c: is this a whole checkout?")
endif()

add_library(ron_kernel STATIC ${ron_kernel_sources})
target_link_libraries(ron_kernel PRIVATE ron_product PUBLIC ron_flags)
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
