# SPDX-License-Identifier: Apache-2.0
# The build id (the commit, with -dirty after changes, or "unknown" outside a checkout) reaches the
# code as the macro RON_BUILD_ID. It changes with every commit, so it is not a compiler flag: a
# generated header holds it, is rewritten only when the id changes, and is put before those sources
# alone that use the macro.
include_guard(GLOBAL)

set(ron_build_id_folder "${CMAKE_BINARY_DIR}/gen")
set(ron_build_id_header "${ron_build_id_folder}/ron_build_id.h")
add_custom_target(ron_build_id
  COMMAND "${CMAKE_COMMAND}" -D "SOURCE_DIR=${PROJECT_SOURCE_DIR}"
          -D "HEADER=${ron_build_id_header}" -D "VERSION=${PROJECT_VERSION}"
          -P "${PROJECT_SOURCE_DIR}/cmake/build_id.cmake"
  BYPRODUCTS "${ron_build_id_header}"
  COMMENT "Build id"
  VERBATIM
)

# ron_use_build_id(<target>): give RON_BUILD_ID to those sources of the target that name it.
function(ron_use_build_id target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    file(STRINGS "${source}" uses REGEX "RON_BUILD_ID" LIMIT_COUNT 1)
    if(uses)
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -include ron_build_id.h)
      set_property(SOURCE "${source}" APPEND PROPERTY INCLUDE_DIRECTORIES "${ron_build_id_folder}")
      set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${ron_build_id_header}")
    endif()
  endforeach()
  add_dependencies(${target} ron_build_id)
endfunction()
