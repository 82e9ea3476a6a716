/* SPDX-License-Identifier: Apache-2.0 */
/* ulid.c - ULID text and generator. The rules U1 to U3 are in the header.
 *
 * Place: base. No clock and no randomness of its own: both are handed in.
 *
 * Layout: bytes 0..5 time in milliseconds, big endian; bytes 6..15 random. As text the 128 bits
 * are preceded by two zero bits, which makes 26 digits of five bits; hence the first is at most 7.
 */
#include "ron/base/ulid.h"

#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/wide.h"

#define TIME_BYTES 6

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

struct ron_ulid ron_ulid_make(uint64_t time_ms, const uint8_t random[RON_ULID_RANDOM_BYTES])
{
    struct ron_ulid ulid;
    uint64_t time_left = RON_MIN(time_ms, RON_ULID_TIME_MAX_MS);

    for (size_t i = TIME_BYTES; i-- > 0;) {
        ulid.bytes[i] = (uint8_t)time_left;
        time_left >>= 8;
    }
    memcpy(ulid.bytes + TIME_BYTES, random, RON_ULID_RANDOM_BYTES);
    return ulid;
}

void ron_ulid_format(const struct ron_ulid *ulid, char ret_text[RON_ULID_TEXT_SIZE])
{
    uint64_t high = 0;
    uint64_t low = 0;
    uint64_t middle;

    for (size_t i = 0; i < 8; i++) {
        high = high << 8 | ulid->bytes[i];
        low = low << 8 | ulid->bytes[8 + i];
    }
    /* Twelve digits of the low word, one of both, and thirteen of the high one: in words of the
     * machine, because every request writes one. */
    middle = low >> 60 | high << 4;
    ret_text[RON_ULID_TEXT_LEN] = '\0';
    for (size_t i = 0; i < 12; i++) {
        ret_text[25 - i] = alphabet[low >> (5 * i) & 31];
    }
    ret_text[13] = alphabet[middle & 31];
    for (size_t i = 0; i < 12; i++) {
        ret_text[12 - i] = alphabet[high >> (1 + 5 * i) & 31];
    }
    ret_text[0] = alphabet[high >> 61];
}

void ron_ulid_gen_init(struct ron_ulid_gen *gen, ron_ulid_random_fn *random, void *random_ctx)
{
    RON_ASSERT(random != NULL);
    *gen = (struct ron_ulid_gen){.random = random, .random_ctx = random_ctx};
}

/* Adds one to the random part; false when it was all ones, and is all zeros now. */
static bool increment(uint8_t random[RON_ULID_RANDOM_BYTES])
{
    for (size_t i = RON_ULID_RANDOM_BYTES; i-- > 0;) {
        if (++random[i] != 0) {
            return true;
        }
    }
    return false;
}

static void start_ms(struct ron_ulid_gen *gen, uint64_t time_ms)
{
    gen->started = true;
    gen->last_ms = time_ms;
    gen->random(gen->random_ctx, gen->last_random, RON_ULID_RANDOM_BYTES);
    if (time_ms == RON_ULID_TIME_MAX_MS) {
        /* There is no later millisecond to move on to: leave 2^79 increments for this one. */
        gen->last_random[0] &= 0x7f;
    }
}

struct ron_ulid ron_ulid_gen_next(struct ron_ulid_gen *gen, uint64_t wall_ms)
{
    uint64_t time_ms = RON_MIN(wall_ms, RON_ULID_TIME_MAX_MS);

    if (!gen->started || time_ms > gen->last_ms) {
        start_ms(gen, time_ms);
    } else if (!increment(gen->last_random)) {
        RON_ASSERT_MSG(gen->last_ms < RON_ULID_TIME_MAX_MS, "2^79 identifiers were made");
        gen->ahead_count++;
        start_ms(gen, gen->last_ms + 1);
    }
    return ron_ulid_make(gen->last_ms, gen->last_random);
}
