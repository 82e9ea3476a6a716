# SPDX-License-Identifier: Apache-2.0
# The program `ron`, at <build>/bin/ron.
include_guard(GLOBAL)

if(RON_CLI)
  ron_glob(ron_cli_sources "cli/*.c" "cli/*/*.c")
  if(ron_cli_sources)
    add_executable(ron ${ron_cli_sources})
    target_link_libraries(ron PRIVATE ron_product ron_services)
    ron_use_build_id(ron)
  else()
    message(STATUS "cli has no sources: the program ron is left out")
  endif()
endif()
