/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/chars.h - classes of bytes in HTTP text; private to http. */
#pragma once

#include "ron/base/json.h"

enum {
    CH_TOKEN = 1,   /* tchar of RFC 9110 */
    CH_URI = 2,     /* path and query of RFC 3986, '%' included */
    CH_HOST = 4,    /* reg-name of RFC 3986 without '%' */
    CH_CORR = 8,    /* [A-Za-z0-9._-] */
    CH_QUOTED = 16, /* qdtext of RFC 9110, obs-text excluded */
};
extern const uint8_t ron__http_char[256];

static inline bool ron__http_is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static inline char ron__http_lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c + ('a' - 'A'));
    }
    return c;
}

/* Whether text is `word` (given in lower case) in any case. */
static inline bool ron__http_is_word(struct ron_str text, const char *word)
{
    size_t i = 0;

    while (i < text.len && word[i] != '\0' && ron__http_lower(text.ptr[i]) == word[i]) {
        i++;
    }
    return i == text.len && word[i] == '\0';
}

/* The same for a name in any case on both sides. */
static inline bool ron__http_same_name(struct ron_str text, struct ron_str name)
{
    size_t i = 0;

    if (text.len != name.len) {
        return false;
    }
    while (i < text.len && ron__http_lower(text.ptr[i]) == ron__http_lower(name.ptr[i])) {
        i++;
    }
    return i == text.len;
}

/* Without the blanks (OWS) at both ends. */
static inline struct ron_str ron__http_trim(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t')) {
        from++;
    }
    while (from < to && (to[-1] == ' ' || to[-1] == '\t')) {
        to--;
    }
    return (struct ron_str){from, (size_t)(to - from)};
}
