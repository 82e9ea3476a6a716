# SPDX-License-Identifier: Apache-2.0
# Script of the target ron_build_id: write HEADER with the project's VERSION and the id of the
# checkout SOURCE_DIR: its commit, whatever tags it has. The file is left alone when nothing
# changed, so nothing is recompiled.
set(id "unknown")
find_program(git git)
if(git)
  execute_process(
    COMMAND "${git}" describe --always --dirty --abbrev=12 "--exclude=*"
    WORKING_DIRECTORY "${SOURCE_DIR}"
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET RESULT_VARIABLE failed
  )
  if(NOT failed AND described MATCHES "^[A-Za-z0-9._+-]+$")
    set(id "${described}")
  endif()
endif()
file(CONFIGURE OUTPUT "${HEADER}" @ONLY
  CONTENT "#define RON_VERSION \"${VERSION}\"\n#define RON_BUILD_ID \"${id}\"\n")
