/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ulid.c - any bytes as the text of a ULID, as its value, and as the clock of a generator.
 *
 * Oracle: a text that is read comes back as itself in upper case; a text that is refused leaves the
 * result untouched; sixteen bytes survive the way through text; a generator fed with any readings
 * and any randomness gives increasing values.
 */
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/ulid.h"
#include "support/ulid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes {
    const uint8_t *data;
    size_t size;
    size_t at;
};

/* The next byte of the input, over and over. */
static uint8_t next_byte(struct bytes *bytes)
{
    return bytes->data[bytes->at++ % bytes->size];
}

static void random_from_input(void *ctx, void *ret_bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)ret_bytes)[i] = next_byte(ctx);
    }
}

static void check_text(const char *text, size_t len)
{
    struct ron_ulid ulid;
    char back[RON_ULID_TEXT_SIZE];

    memset(&ulid, 0x5a, sizeof(ulid));
    if (ron_ulid_parse(text, len, &ulid) == RON_OK) {
        ron_ulid_format(&ulid, back);
        RON_ASSERT(len == RON_ULID_TEXT_LEN);
        for (size_t i = 0; i < len; i++) {
            RON_ASSERT(back[i] == (char)toupper((unsigned char)text[i]));
        }
    } else {
        for (size_t i = 0; i < RON_ULID_BYTES; i++) {
            RON_ASSERT(ulid.bytes[i] == 0x5a);
        }
    }
}

static void check_value(const uint8_t *value)
{
    struct ron_ulid ulid;
    struct ron_ulid back;
    char text[RON_ULID_TEXT_SIZE];

    memcpy(ulid.bytes, value, sizeof(ulid.bytes));
    ron_ulid_format(&ulid, text);
    RON_ASSERT(strlen(text) == RON_ULID_TEXT_LEN);
    RON_ASSERT(ron_ulid_parse(text, RON_ULID_TEXT_LEN, &back) == RON_OK);
    RON_ASSERT(ron_ulid_cmp(&ulid, &back) == 0);
    struct ron_ulid made = ron_ulid_make(ron_ulid_time_ms(&ulid), ulid.bytes + 6);

    RON_ASSERT(ron_ulid_cmp(&ulid, &made) == 0);
}

static void check_generator(const uint8_t *data, size_t size)
{
    struct bytes clock = {.data = data, .size = size};
    struct bytes noise = {.data = data, .size = size, .at = size / 2};
    struct ron_ulid_gen gen;
    struct ron_ulid last = {{0}};

    ron_ulid_gen_init(&gen, random_from_input, &noise);
    for (size_t i = 0; i < 64; i++) {
        uint64_t wall_ms = 0;
        unsigned shift = next_byte(&clock) % 64;

        wall_ms = (uint64_t)next_byte(&clock) << shift | next_byte(&clock);
        struct ron_ulid next = ron_ulid_gen_next(&gen, wall_ms);

        RON_ASSERT(i == 0 || ron_ulid_cmp(&last, &next) < 0);
        last = next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_text((const char *)data, size);
    if (size >= RON_ULID_BYTES) {
        check_value(data);
    }
    if (size > 0) {
        check_generator(data, size);
    }
    return 0;
}
