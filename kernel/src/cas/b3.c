/* SPDX-License-Identifier: Apache-2.0 */
/* b3.c - hashes and content ids; contract in ron/cas/b3.h.
 *
 * Invariants:
 *   I1 one spelling per id: parse accepts exactly what format writes.
 *   I2 hash_many gives what hash gives. The side-by-side path relies on the specification: an
 *      input of one chunk (at most 1024 bytes) made of whole blocks is one chain of compressions
 *      whose last one carries the flags CHUNK_END and ROOT, and whose chaining value is the hash.
 *
 * Failure: a refused text leaves the output untouched. */
#include "ron/cas/b3.h"

#include <blake3.h>

#include "ron/base/assert.h"

/* The library's own inner function. Its header cannot be included here: it pulls in the compiler's
 * vector headers, which call the raw heap functions that banned.h forbids. A wrong declaration
 * would not pass test_b3__side_by_side. */
void blake3_hash_many(const uint8_t *const *inputs, size_t num_inputs, size_t blocks,
                      const uint32_t key[8], uint64_t counter, bool increment_counter,
                      uint8_t flags, uint8_t flags_start, uint8_t flags_end, uint8_t *out);

/* From the specification of BLAKE3: the flags of a compression and the initial chaining value. */
enum { CHUNK_START = 1, CHUNK_END = 2, ROOT = 8 };

static const uint32_t IV[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

_Static_assert(sizeof(blake3_hasher) <= sizeof(struct ron_b3_hasher), "the state fits");
_Static_assert(_Alignof(blake3_hasher) <= _Alignof(struct ron_b3_hasher), "and is aligned");
_Static_assert(RON_B3_BYTES == BLAKE3_OUT_LEN, "a hash");
_Static_assert(RON_B3_BYTES == BLAKE3_KEY_LEN, "a key");

static const char prefix[] = {'b', '3', ':'};

static blake3_hasher *state_of(struct ron_b3_hasher *h)
{
    return (blake3_hasher *)(void *)h->_state;
}

static const blake3_hasher *const_state_of(const struct ron_b3_hasher *h)
{
    return (const blake3_hasher *)(const void *)h->_state;
}

/* ---- hashing --------------------------------------------------------------------------------- */

void ron_b3_hash(const void *bytes, size_t len, struct ron_b3 *ret_hash)
{
    blake3_hasher h;

    blake3_hasher_init(&h);
    blake3_hasher_update(&h, bytes, len);
    blake3_hasher_finalize(&h, ret_hash->bytes, sizeof ret_hash->bytes);
}

void ron_b3_hash_many(const uint8_t *const *inputs, size_t count, size_t len,
                      struct ron_b3 *ret_hashes)
{
    _Static_assert(sizeof(struct ron_b3) == BLAKE3_OUT_LEN, "outputs lie side by side");
    if (len == 0 || len > BLAKE3_CHUNK_LEN || len % BLAKE3_BLOCK_LEN != 0) {
        for (size_t i = 0; i < count; i++) {
            ron_b3_hash(inputs[i], len, &ret_hashes[i]);
        }
        return;
    }
    if (count > 0) {
        blake3_hash_many(inputs, count, len / BLAKE3_BLOCK_LEN, IV, 0, false, 0, CHUNK_START,
                         CHUNK_END | ROOT, ret_hashes[0].bytes); /* keeps I2 */
    }
}

void ron_b3_init(struct ron_b3_hasher *h)
{
    blake3_hasher_init(state_of(h));
}

void ron_b3_init_keyed(struct ron_b3_hasher *h, const uint8_t key[RON_B3_BYTES])
{
    blake3_hasher_init_keyed(state_of(h), key);
}

void ron_b3_init_derive(struct ron_b3_hasher *h, const char *context)
{
    blake3_hasher_init_derive_key(state_of(h), context);
}

void ron_b3_update(struct ron_b3_hasher *h, const void *bytes, size_t len)
{
    RON_ASSERT(bytes != NULL || len == 0);
    blake3_hasher_update(state_of(h), bytes, len);
}

void ron_b3_final(const struct ron_b3_hasher *h, struct ron_b3 *ret_hash)
{
    blake3_hasher_finalize(const_state_of(h), ret_hash->bytes, sizeof ret_hash->bytes);
}

void ron_b3_final_long(const struct ron_b3_hasher *h, void *ret_bytes, size_t len)
{
    blake3_hasher_finalize(const_state_of(h), ret_bytes, len);
}

/* ---- content ids ----------------------------------------------------------------------------- */

/* 0..15, or -1. */
static int digit_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool ron_b3_parse_hex(const char *text, size_t len, struct ron_b3 *ret_id)
{
    struct ron_b3 id;

    if (len != RON_B3_HEX_LEN) {
        return false;
    }
    for (size_t i = 0; i < RON_B3_BYTES; i++) {
        int high = digit_value(text[2 * i]);
        int low = digit_value(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        id.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *ret_id = id;
    return true;
}

void ron_b3_format_hex(const struct ron_b3 *id, char ret_text[RON_B3_HEX_LEN])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < RON_B3_BYTES; i++) {
        ret_text[2 * i] = digits[id->bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[id->bytes[i] & 15];
    }
}

enum ron_rc ron_b3_parse(const char *text, size_t len, struct ron_b3 *ret_id, struct ron_err *err)
{
    if (len != RON_B3_ID_LEN) {
        return ron_err_set(err, RON_INVALID, "a content id has %d characters, not %zu",
                           (int)RON_B3_ID_LEN, len);
    }
    if (memcmp(text, prefix, sizeof prefix) != 0 ||
        !ron_b3_parse_hex(text + sizeof prefix, len - sizeof prefix, ret_id)) {
        return ron_err_set(err, RON_INVALID,
                           "a content id is b3: and 64 lowercase hexadecimal digits");
    }
    return RON_OK;
}

void ron_b3_format(const struct ron_b3 *id, char ret_text[RON_B3_ID_SIZE])
{
    memcpy(ret_text, prefix, sizeof prefix);
    ron_b3_format_hex(id, ret_text + sizeof prefix);
    ret_text[RON_B3_ID_LEN] = '\0';
}
