# SPDX-License-Identifier: Apache-2.0
# The auditor: the library ron_audit for its tests, and the program <build>/bin/ron-audit. It stands
# on the kernel alone. That it knows nothing of the ledger's code is its point, and
# tests/lint/check_includes.py sees to it.
include_guard(GLOBAL)

ron_glob(ron_audit_sources "audit/*.c" "audit/*/*.c")
list(FILTER ron_audit_sources EXCLUDE REGEX "/main\\.c$")
add_library(ron_audit STATIC ${ron_audit_sources})
target_link_libraries(ron_audit PRIVATE ron_product ron_libraries PUBLIC ron_kernel)

if(RON_CLI)
  add_executable(ron-audit "${PROJECT_SOURCE_DIR}/audit/main.c")
  target_link_libraries(ron-audit PRIVATE ron_product ron_libraries ron_audit)
  install(TARGETS ron-audit RUNTIME)
  install(FILES "${PROJECT_SOURCE_DIR}/docs/man/ron-audit.1" TYPE MAN RENAME man1/ron-audit.1)
endif()
