# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: programs, manual pages, units, settings, API documents.
include_guard(GLOBAL)

if(RON_CLI)
  install(TARGETS ron RUNTIME)
  file(GLOB ron_manuals CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/man/*.1")
  list(FILTER ron_manuals EXCLUDE REGEX "/ron-audit\\.1$")
  foreach(page IN LISTS ron_manuals)
    get_filename_component(name "${page}" NAME)
    install(FILES "${page}" TYPE MAN RENAME "man1/${name}")
  endforeach()
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/packaging/systemd/" DESTINATION lib/systemd/system)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/packaging/etc/" DESTINATION /etc/ron)
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/packaging/ron-setup" DESTINATION lib/ron)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/api/" DESTINATION share/doc/ron/api
    FILES_MATCHING PATTERN "*.yaml")
  install(FILES "${PROJECT_SOURCE_DIR}/docs/ops/alerts.rules.yml" DESTINATION share/doc/ron)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/doc/ron RENAME copyright)
endif()
