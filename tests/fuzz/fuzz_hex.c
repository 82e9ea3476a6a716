/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_hex.c - any bytes as hexadecimal and base64 text, and as the bytes to be written.
 *
 * Oracle: a text that is read gives bytes that are written as the same text (in the same case, or
 * without case for RON_HEX_ANY); bytes that are written are read again; nothing is written past the
 * room, and a room that is one byte too small is refused.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/hex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIZE_LIMIT = 4096 };

/* Each on the heap at its exact size, so that a sanitizer sees a step past the end. */
static void *room_of(size_t size)
{
    void *room = malloc(size > 0 ? size : 1);

    RON_ASSERT(room != NULL);
    return room;
}

static void check_hex_text(struct ron_str text, enum ron_hex_case allowed)
{
    size_t len = text.len / 2;
    uint8_t *bytes = room_of(len);
    char *back = room_of(2 * len + 1);
    bool valid = text.len % 2 == 0 && (text.len == 0 || ron_hex_valid(text, allowed));

    RON_ASSERT(ron_unhex(text, allowed, bytes, len) == valid);
    if (valid) {
        (allowed == RON_HEX_UPPER ? ron_hex_upper : ron_hex)(bytes, len, back);
        RON_ASSERT(allowed == RON_HEX_ANY ? ron_str_is_nocase(text, back) : ron_str_is(text, back));
    }
    free(bytes);
    free(back);
}

static void check_base64_text(struct ron_str text, enum ron_base64 form)
{
    size_t room = text.len / 4 * 3 + 3;
    uint8_t *bytes = room_of(room);
    size_t len = 0;

    if (ron_base64_read(text, form, bytes, room, &len)) {
        char *back = room_of(text.len);
        uint8_t *small = room_of(len - 1);

        RON_ASSERT(ron_base64_size(len, form) == text.len);
        ron_base64(bytes, len, form, back);
        RON_ASSERT(memcmp(back, text.ptr, text.len) == 0);
        RON_ASSERT(!ron_base64_read(text, form, small, len - 1, &len));
        free(back);
        free(small);
    }
    free(bytes);
}

static void check_bytes(const uint8_t *data, size_t size)
{
    char *text = room_of(2 * size + 1);
    uint8_t *back = room_of(size);
    size_t len = 0;

    ron_hex(data, size, text);
    RON_ASSERT(ron_unhex(ron_str_of(text), RON_HEX_LOWER, back, size));
    RON_ASSERT(memcmp(back, data, size) == 0);
    free(text);
    for (int form = RON_BASE64_PADDED; form <= RON_BASE64_URL; form++) {
        size_t need = ron_base64_size(size, (enum ron_base64)form);

        text = room_of(need);
        ron_base64(data, size, (enum ron_base64)form, text);
        RON_ASSERT(ron_base64_read((struct ron_str){text, need}, (enum ron_base64)form, back, size,
                                   &len) == (size > 0));
        RON_ASSERT(len == size && memcmp(back, data, size) == 0);
        free(text);
    }
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_str text = {(const char *)data, size};

    if (size > SIZE_LIMIT || data == NULL) {
        return 0;
    }
    check_hex_text(text, RON_HEX_LOWER);
    check_hex_text(text, RON_HEX_UPPER);
    check_hex_text(text, RON_HEX_ANY);
    check_base64_text(text, RON_BASE64_PADDED);
    check_base64_text(text, RON_BASE64_BARE);
    check_base64_text(text, RON_BASE64_URL);
    check_bytes(data, size);
    return 0;
}
