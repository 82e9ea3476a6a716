/* SPDX-License-Identifier: Apache-2.0 */
/* build.h - what this program is.
 *
 * The build system gives RON_BUILD_ID to build.c only, so that a new id recompiles one file. Both
 * functions return static text and are safe anywhere, including in the assertion report.
 */
#pragma once

/* Semantic version of the source tree. */
const char *ron_version(void);

/* Identifies the exact source and build; "unknown" when the build system gave none. */
const char *ron_build_id(void);
