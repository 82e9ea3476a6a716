# SPDX-License-Identifier: Apache-2.0
# One library per service folder that has sources: ron_ledger from ledger/*.c and its rooms
# ledger/*/*.c, and so on. A service knows the kernel and no other service
# (tests/lint/check_includes.py); the program and the tests link all of them through ron_services.
include_guard(GLOBAL)

# How services speak with the ledger; above the kernel, below all of them but the ledger itself.
ron_glob(ron_client_sources "client/*.c")
add_library(ron_client STATIC ${ron_client_sources})
target_link_libraries(ron_client PRIVATE ron_product ron_libraries PUBLIC ron_kernel)

add_library(ron_services INTERFACE)
target_link_libraries(ron_services INTERFACE ron_kernel)
foreach(service IN ITEMS ledger wallet rewarder edge interop console)
  ron_glob(ron_service_sources "${service}/*.c" "${service}/*/*.c")
  if(RON_MODEL)
    list(FILTER ron_service_sources EXCLUDE REGEX "_(posix|linux)\\.c$")
  endif()
  if(ron_service_sources)
    add_library(ron_${service} STATIC ${ron_service_sources})
    target_link_libraries(ron_${service} PRIVATE ron_product ron_libraries PUBLIC ron_kernel)
    if(NOT service STREQUAL "ledger")
      target_link_libraries(ron_${service} PUBLIC ron_client)
    endif()
    target_link_libraries(ron_services INTERFACE ron_${service})
  endif()
endforeach()

# The files of the edge's demo page lie inside the program (edge/serve/demo.c takes them in).
if(TARGET ron_edge)
  file(GLOB ron_edge_demo CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/edge/demo/*")
  ron_glob(ron_edge_demo_source "edge/*/demo.c")
  set_source_files_properties(${ron_edge_demo_source} PROPERTIES
    COMPILE_DEFINITIONS "EDG_DEMO_DIR=\"${PROJECT_SOURCE_DIR}/edge/demo\""
    OBJECT_DEPENDS "${ron_edge_demo}")
endif()

# So do those of the console (console/assets.c).
if(TARGET ron_console)
  file(GLOB ron_console_static CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/console/static/*")
  ron_glob(ron_console_assets "console/assets.c")
  set_source_files_properties(${ron_console_assets} PROPERTIES
    COMPILE_DEFINITIONS "CON_STATIC_DIR=\"${PROJECT_SOURCE_DIR}/console/static\""
    OBJECT_DEPENDS "${ron_console_static}")
endif()
