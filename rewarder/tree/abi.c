/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/abi.c - the encoding of abi.h. */
#include "rewarder/tree/abi.h"

#include <string.h>

#include "ron/base/assert.h"

/* ---- types ----------------------------------------------------------------------------------- */

/* The number behind a prefix, without leading zeros; 0 when there is none. */
static uint32_t number_behind(struct ron_str name, const char *prefix)
{
    size_t skip = strlen(prefix);
    uint32_t n = 0;

    if (name.len <= skip || name.len > skip + 3 || memcmp(name.ptr, prefix, skip) != 0 ||
        name.ptr[skip] == '0') {
        return 0;
    }
    for (size_t i = skip; i < name.len; i++) {
        if (name.ptr[i] < '0' || name.ptr[i] > '9') {
            return 0;
        }
        n = n * 10 + (uint32_t)(name.ptr[i] - '0');
    }
    return n;
}

static bool type_of(struct ron_str name, struct rwd_abi_type *ret_type)
{
    static const struct {
        const char *name;
        enum rwd_abi_kind kind;
    } plain[] = {{"address", RWD_ABI_ADDRESS},
                 {"bool", RWD_ABI_BOOL},
                 {"bytes", RWD_ABI_BYTES},
                 {"string", RWD_ABI_STRING}};
    uint32_t bits = number_behind(name, "uint");
    uint32_t bytes = number_behind(name, "bytes");

    *ret_type = (struct rwd_abi_type){0};
    if (bits >= 8 && bits <= 256 && bits % 8 == 0) {
        ret_type->kind = RWD_ABI_UINT;
        ret_type->bytes = bits / 8;
    } else if (bytes >= 1 && bytes <= RWD_ABI_WORD) {
        ret_type->kind = RWD_ABI_FIXED;
        ret_type->bytes = bytes;
    } else {
        size_t i = 0;

        while (i < RON_ARRAY_LEN(plain) && !ron_str_is(name, plain[i].name)) {
            i++;
        }
        if (i == RON_ARRAY_LEN(plain)) {
            return false;
        }
        ret_type->kind = plain[i].kind;
    }
    memcpy(ret_type->name, name.ptr, name.len);
    return true;
}

static bool is_dynamic(const struct rwd_abi_type *type)
{
    return type->kind == RWD_ABI_BYTES || type->kind == RWD_ABI_STRING;
}

enum ron_rc rwd_abi_init(struct rwd_abi *abi, const struct ron_str *names, size_t count,
                         struct ron_err *err)
{
    struct rwd_abi made = {.count = count};

    if (count == 0 || count > RWD_ABI_TYPES_MAX) {
        return ron_err_set(err, RON_LIMIT, "a leaf has 1 to %d values, not %zu", RWD_ABI_TYPES_MAX,
                           count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!type_of(names[i], &made.types[i])) {
            return ron_err_set(err, RON_INVALID,
                               "type '%.*s' is none of address, uint8..uint256, bool, "
                               "bytes1..bytes32, bytes, string",
                               (int)RON_MIN(names[i].len, (size_t)32), names[i].ptr);
        }
        made.has_dynamic = made.has_dynamic || is_dynamic(&made.types[i]);
    }
    *abi = made;
    return RON_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* "0x" and 1 to 64 digits as a number. */
static bool hex_number(struct ron_str text, uint8_t ret_word[RWD_ABI_WORD])
{
    char padded[2 + 2 * RWD_ABI_WORD];
    size_t len = text.len - 2;

    if (text.len < 3 || len > (size_t)2 * RWD_ABI_WORD) {
        return false;
    }
    memset(padded, '0', sizeof padded);
    padded[1] = 'x';
    memcpy(padded + sizeof padded - len, text.ptr + 2, len);
    return rwd_hex_get((struct ron_str){padded, sizeof padded}, ret_word, RWD_ABI_WORD);
}

static bool number_word(const struct rwd_abi_type *type, struct ron_str text,
                        uint8_t ret_word[RWD_ABI_WORD])
{
    bool hex = text.len > 2 && text.ptr[0] == '0' && text.ptr[1] == 'x';
    uint8_t above = 0;

    if (!(hex ? hex_number(text, ret_word) : rwd_u256_get(text, ret_word))) {
        return false;
    }
    for (size_t i = 0; i < RWD_ABI_WORD - type->bytes; i++) {
        above |= ret_word[i];
    }
    return above == 0;
}

enum ron_rc rwd_abi_word(const struct rwd_abi_type *type, struct ron_str text,
                         uint8_t ret_word[RWD_ABI_WORD])
{
    uint8_t word[RWD_ABI_WORD] = {0};
    bool good = false;

    switch (type->kind) {
    case RWD_ABI_ADDRESS:
        good = rwd_hex_get(text, word + RWD_ABI_WORD - RWD_ADDRESS_BYTES, RWD_ADDRESS_BYTES);
        break;
    case RWD_ABI_UINT:
        good = number_word(type, text, word);
        break;
    case RWD_ABI_BOOL:
        word[RWD_ABI_WORD - 1] = ron_str_is(text, "true") ? 1 : 0;
        good = word[RWD_ABI_WORD - 1] == 1 || ron_str_is(text, "false");
        break;
    case RWD_ABI_FIXED:
        good = rwd_hex_get(text, word, type->bytes);
        break;
    case RWD_ABI_BYTES:
    case RWD_ABI_STRING:
        RON_ASSERT_MSG(false, "bytes and strings have no word");
        break;
    }
    if (!good) {
        return RON_INVALID;
    }
    memcpy(ret_word, word, sizeof word);
    return RON_OK;
}

static void size_word(size_t size, uint8_t word[RWD_ABI_WORD])
{
    memset(word, 0, RWD_ABI_WORD);
    for (size_t i = 0; i < sizeof size; i++) {
        word[RWD_ABI_WORD - 1 - i] = (uint8_t)(size >> (8 * i));
    }
}

/* Bytes of content of a dynamic value. */
static size_t content_len(const struct rwd_abi_type *type, struct ron_str text)
{
    return type->kind == RWD_ABI_STRING ? text.len : text.len < 2 ? 0 : text.len / 2 - 1;
}

static bool is_utf8(struct ron_str text)
{
    size_t n = 1;

    for (size_t at = 0; at < text.len && n > 0; at += n) {
        n = ron_utf8_len(text.ptr + at, text.ptr + text.len);
    }
    return n > 0;
}

/* Length, content, zeros to the next word. */
static enum ron_rc put_content(const struct rwd_abi_type *type, struct ron_str text,
                               struct ron_buf *out)
{
    size_t len = content_len(type, text);
    size_t padded = (len + RWD_ABI_WORD - 1) / RWD_ABI_WORD * RWD_ABI_WORD;
    uint8_t *to = NULL;

    if (len > RWD_ABI_VALUE_MAX) {
        return RON_LIMIT;
    }
    RON_TRY(ron_buf_reserve(out, RWD_ABI_WORD + padded, &to));
    memset(to, 0, RWD_ABI_WORD + padded);
    size_word(len, to);
    if (type->kind == RWD_ABI_STRING) {
        if (!is_utf8(text)) {
            return RON_INVALID;
        }
        if (len > 0) {
            memcpy(to + RWD_ABI_WORD, text.ptr, len);
        }
    } else if (!rwd_hex_get(text, to + RWD_ABI_WORD, len)) {
        return RON_INVALID;
    }
    ron_buf_commit(out, RWD_ABI_WORD + padded);
    return RON_OK;
}

static enum ron_rc bad_value(const struct rwd_abi *abi, size_t i, struct ron_str text,
                             enum ron_rc rc, struct ron_err *err)
{
    return ron_err_set(err, rc, "value %zu is no %s: '%.*s'", i + 1, abi->types[i].name,
                       (int)RON_MIN(text.len, (size_t)64), text.len != 0 ? text.ptr : "");
}

enum ron_rc rwd_abi_encode(const struct rwd_abi *abi, const struct ron_str *texts,
                           struct ron_buf *out, struct ron_err *err)
{
    size_t offset = abi->count * RWD_ABI_WORD;

    for (size_t i = 0; i < abi->count; i++) {
        const struct rwd_abi_type *type = &abi->types[i];
        uint8_t word[RWD_ABI_WORD];
        enum ron_rc rc = RON_OK;

        if (is_dynamic(type)) {
            size_t len = content_len(type, texts[i]);

            size_word(offset, word);
            offset += RWD_ABI_WORD + (len + RWD_ABI_WORD - 1) / RWD_ABI_WORD * RWD_ABI_WORD;
        } else {
            rc = rwd_abi_word(type, texts[i], word);
        }
        if (rc != RON_OK) {
            return bad_value(abi, i, texts[i], rc, err);
        }
        if (ron_buf_append(out, word, sizeof word) != RON_OK) {
            return ron_err_set(err, ron_buf_error(out), "no memory for a leaf");
        }
    }
    for (size_t i = 0; i < abi->count; i++) {
        enum ron_rc rc =
            is_dynamic(&abi->types[i]) ? put_content(&abi->types[i], texts[i], out) : RON_OK;

        if (rc != RON_OK) {
            return bad_value(abi, i, texts[i], rc, err);
        }
    }
    return RON_OK;
}
