/* SPDX-License-Identifier: Apache-2.0 */
/* str.c - cuts and decimals; contract in str.h. */
#include "ron/base/str.h"

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
