# SPDX-License-Identifier: Apache-2.0
# One library per service folder that has sources: ron_ledger from ledger/src/*.c, and so on. A
# service knows the kernel and no other service (tests/lint/check_includes.py); the program and the
# tests link all of them through ron_services.
include_guard(GLOBAL)

add_library(ron_services INTERFACE)
target_link_libraries(ron_services INTERFACE ron_kernel)
foreach(service IN ITEMS ledger wallet rewarder edge interop)
  ron_glob(ron_service_sources "${service}/src/*.c")
  if(RON_MODEL)
    list(FILTER ron_service_sources EXCLUDE REGEX "_(posix|linux)\\.c$")
  endif()
  if(ron_service_sources)
    add_library(ron_${service} STATIC ${ron_service_sources})
    target_link_libraries(ron_${service} PRIVATE ron_product ron_libraries PUBLIC ron_kernel)
    # Their names begin with the prefix of the service (led_tree.h), so all may stand side by side.
    target_include_directories(ron_${service} PUBLIC "${PROJECT_SOURCE_DIR}/${service}/src")
    target_link_libraries(ron_services INTERFACE ron_${service})
  endif()
endforeach()
