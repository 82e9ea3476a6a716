/* SPDX-License-Identifier: Apache-2.0 */
/* str.h - a slice of text, and the comparisons, cuts and numbers that every module needs.
 *
 * Place: base; needs the C library alone. It replaces the private comparisons of each module.
 *
 * Contract:
 *   S1. A ron_str is a pointer and a length. It owns nothing, need not end in NUL and may contain
 *       any byte. The text outlives the slice; the owner of the text sees to that.
 *   S2. {NULL, 0} is an empty text. Every function here accepts it, and no function passes NULL to
 *       memcmp or memchr.
 *   S3. Functions that cut return slices of their input. Nothing is copied or allocated.
 *   S4. Case folding is ASCII only: 'A' to 'Z'. Other bytes compare as they are, whatever the
 *       locale.
 *   S5. A `ret_` result is written on success only, and may be the input itself.
 * None of this takes constant time; compare secrets with sodium_memcmp or ron_secret_equal.
 *
 * Pure functions; any thread. Comparisons are inline: the HTTP parser compares each header name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ron_str {
    const char *ptr;
    size_t len;
};

/* A literal as a string: an expression, and an initialiser for static tables. */
#define RON_STR_LIT(literal) ((struct ron_str){.ptr = (literal), .len = sizeof(literal) - 1})
#define RON_STR_INIT(literal)                                                                      \
    {                                                                                              \
        .ptr = (literal), .len = sizeof(literal) - 1                                               \
    }

/* NULL gives the empty string. */
static inline struct ron_str ron_str_of(const char *text)
{
    return (struct ron_str){text, text != NULL ? strlen(text) : 0};
}

static inline bool ron_str_equal(struct ron_str a, struct ron_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* `text` is not NULL; with a literal its length is known to the compiler. */
static inline bool ron_str_is(struct ron_str s, const char *text)
{
    return ron_str_equal(s, (struct ron_str){text, strlen(text)});
}

/* By bytes, a prefix before the longer text: negative, 0, positive. */
static inline int ron_str_compare(struct ron_str a, struct ron_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len == 0 ? 0 : memcmp(a.ptr, b.ptr, len);

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* 'A' to 'Z' in lower case, other bytes as they are. */
static inline char ron_lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    return c;
}

static inline bool ron_str_equal_nocase(struct ron_str a, struct ron_str b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (ron_lower(a.ptr[i]) != ron_lower(b.ptr[i])) {
            return false;
        }
    }
    return true;
}

static inline bool ron_str_is_nocase(struct ron_str s, const char *text)
{
    return ron_str_equal_nocase(s, (struct ron_str){text, strlen(text)});
}

static inline bool ron_str_starts(struct ron_str s, struct ron_str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

static inline bool ron_str_ends(struct ron_str s, struct ron_str suffix)
{
    return s.len >= suffix.len &&
           (suffix.len == 0 || memcmp(s.ptr + s.len - suffix.len, suffix.ptr, suffix.len) == 0);
}

/* Removes `prefix` from the front; false, with `s` unchanged, if `s` does not start with it. */
static inline bool ron_str_skip(struct ron_str *s, struct ron_str prefix)
{
    if (!ron_str_starts(*s, prefix)) {
        return false;
    }
    if (prefix.len > 0) { /* S2: no arithmetic on NULL */
        s->ptr += prefix.len;
        s->len -= prefix.len;
    }
    return true;
}

/* Without blanks and tabs at either end. Line ends stay: whether they are allowed is a matter of
 * the format that is read. */
static inline struct ron_str ron_str_trim(struct ron_str s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t')) {
        s.len--;
    }
    return s;
}

/* Splits `s` at the first `mark`, which is in neither part. False if there is no mark. */
bool ron_str_cut(struct ron_str s, char mark, struct ron_str *ret_before,
                 struct ron_str *ret_after);

/* Takes the first line off `rest`, without its newline. False if no newline is left. */
bool ron_str_line(struct ron_str *rest, struct ron_str *ret_line);

/* Canonical decimal: digits only, no leading zero, at most `max`. */
bool ron_str_u64(struct ron_str s, uint64_t max, uint64_t *ret_value);
