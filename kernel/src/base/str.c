/* SPDX-License-Identifier: Apache-2.0 */
/* str.c - the string functions with a loop; contract in str.h. */
#include "ron/base/str.h"

bool ron_str_equal_nocase(struct ron_str a, struct ron_str b)
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

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct ron_str ron_str_trim(struct ron_str s)
{
    while (s.len > 0 && is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

bool ron_str_cut(struct ron_str s, char mark, struct ron_str *ret_before, struct ron_str *ret_after)
{
    const char *at = s.len == 0 ? NULL : memchr(s.ptr, mark, s.len);

    if (at == NULL) {
        return false;
    }
    *ret_before = (struct ron_str){.ptr = s.ptr, .len = (size_t)(at - s.ptr)};
    *ret_after = (struct ron_str){.ptr = at + 1, .len = s.len - (size_t)(at - s.ptr) - 1};
    return true;
}

bool ron_str_line(struct ron_str *rest, struct ron_str *ret_line)
{
    struct ron_str text = *rest;

    return ron_str_cut(text, '\n', ret_line, rest);
}

bool ron_str_u64(struct ron_str s, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (s.len == 0 || (s.ptr[0] == '0' && s.len > 1)) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.ptr[i] - '0';

        if (digit > 9 || digit > max || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}
