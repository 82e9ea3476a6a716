/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/chars.h - classes of bytes in HTTP text; private to http. */
#pragma once

#include <stdint.h>

enum {
    CH_TOKEN = 1,   /* tchar of RFC 9110 */
    CH_URI = 2,     /* path and query of RFC 3986, '%' included */
    CH_HOST = 4,    /* reg-name of RFC 3986 without '%' */
    CH_CORR = 8,    /* [A-Za-z0-9._-] */
    CH_QUOTED = 16, /* qdtext of RFC 9110, obs-text excluded */
};
extern const uint8_t ron__http_char[256];
