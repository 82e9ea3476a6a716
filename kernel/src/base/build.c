/* SPDX-License-Identifier: Apache-2.0 */
/* build.c - version and build id. The only file that the build gives RON_BUILD_ID to. */
#include "ron/base/build.h"

#ifndef RON_BUILD_ID
#define RON_BUILD_ID "unknown"
#endif

/* The build may pass the version of its project file; this is the value for a build without one. */
#ifndef RON_VERSION
#define RON_VERSION "0.1.0"
#endif

const char *ron_version(void)
{
    return RON_VERSION;
}

const char *ron_build_id(void)
{
    return RON_BUILD_ID;
}
