/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - lines, decimals and base64, in one spelling each. */
#include "ron/merkle/lines.h"

#include <sodium.h>

bool ron_line_next(struct ron_str *rest, struct ron_str *ret_line)
{
    const char *end = rest->len == 0 ? NULL : memchr(rest->ptr, '\n', rest->len);

    if (end == NULL) {
        return false;
    }
    ret_line->ptr = rest->ptr;
    ret_line->len = (size_t)(end - rest->ptr);
    rest->ptr = end + 1;
    rest->len -= ret_line->len + 1;
    return true;
}

bool ron_str_equal(struct ron_str a, struct ron_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool ron_str_skip(struct ron_str *s, struct ron_str word)
{
    if (s->len < word.len || memcmp(s->ptr, word.ptr, word.len) != 0) {
        return false;
    }
    s->ptr += word.len;
    s->len -= word.len;
    return true;
}

bool ron_str_cut(struct ron_str s, char mark, struct ron_str *ret_before,
                 struct ron_str *ret_behind)
{
    const char *at = s.len == 0 ? NULL : memchr(s.ptr, mark, s.len);

    if (at == NULL) {
        return false;
    }
    *ret_before = (struct ron_str){.ptr = s.ptr, .len = (size_t)(at - s.ptr)};
    *ret_behind = (struct ron_str){.ptr = at + 1, .len = s.len - ret_before->len - 1};
    return true;
}

bool ron_decimal_read(struct ron_str s, uint64_t max, uint64_t *ret_value)
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

bool ron_base64_read(struct ron_str s, uint8_t *ret_bytes, size_t room, size_t *ret_len)
{
    size_t len = 0;

    /* libsodium 1.0.18 takes every byte above 0x7f for a digit. */
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] > 0x7f) {
            return false;
        }
    }
    /* Without a pointer for the end the library insists on the whole text; it refuses white space,
     * missing padding and bits behind the last byte. */
    if (s.len == 0 || sodium_base642bin(ret_bytes, room, s.ptr, s.len, NULL, &len, NULL,
                                        sodium_base64_VARIANT_ORIGINAL) != 0) {
        return false;
    }
    *ret_len = len;
    return true;
}

enum ron_rc ron_base64_write(struct ron_buf *out, const void *bytes, size_t len)
{
    size_t size = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
    uint8_t *room;

    RON_TRY(ron_buf_reserve(out, size - 1, &room));
    /* The NUL falls on the byte that every buffer keeps for one. */
    (void)sodium_bin2base64((char *)room, size, bytes, len, sodium_base64_VARIANT_ORIGINAL);
    ron_buf_commit(out, size - 1);
    return RON_OK;
}

bool ron_tree_hash_read(struct ron_str s, struct ron_tree_hash *ret_hash)
{
    uint8_t bytes[RON_TREE_HASH_BYTES];
    size_t len;

    if (s.len != RON_TREE_HASH_TEXT_LEN || !ron_base64_read(s, bytes, sizeof bytes, &len) ||
        len != RON_TREE_HASH_BYTES) {
        return false;
    }
    memcpy(ret_hash->bytes, bytes, sizeof bytes);
    return true;
}

enum ron_rc ron_tree_hash_write(struct ron_buf *out, const struct ron_tree_hash *hash)
{
    return ron_base64_write(out, hash->bytes, RON_TREE_HASH_BYTES);
}

bool ron_text_valid(struct ron_str s)
{
    const char *end = s.ptr + s.len;

    for (const char *p = s.ptr; p < end;) {
        size_t len = ron_utf8_len(p, end);

        if (len == 0 || ((unsigned char)*p < 0x20 && *p != '\n')) {
            return false;
        }
        p += len;
    }
    return true;
}
