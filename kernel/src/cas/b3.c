/* SPDX-License-Identifier: Apache-2.0 */
/* b3.c - hashes and content ids; contract in ron/cas/b3.h.
 *
 * Invariants:
 *   I1 one spelling per id: parse accepts exactly what format writes.
 *   I2 hash_many and hash_each give what hash gives. The side-by-side path relies on the
 *      specification: an input of one chunk (at most 1024 bytes) is one chain of compressions, a
 *      block each, whose last one carries the flags CHUNK_END and ROOT, and whose chaining value is
 *      the hash.
 *
 * Failure: a refused text leaves the output untouched. */
#include "ron/cas/b3.h"
#include "ron/base/hex.h"

#include <blake3.h>
#include <endian.h>

#include "ron/base/assert.h"

/* The library's own inner functions. Their header cannot be included here: it pulls in the
 * compiler's vector headers, which call the raw heap functions that banned.h forbids. A wrong
 * declaration would not pass test_b3__side_by_side. */
void blake3_hash_many(const uint8_t *const *inputs, size_t num_inputs, size_t blocks,
                      const uint32_t key[8], uint64_t counter, bool increment_counter,
                      uint8_t flags, uint8_t flags_start, uint8_t flags_end, uint8_t *out);
void blake3_compress_in_place(uint32_t cv[8], const uint8_t block[BLAKE3_BLOCK_LEN],
                              uint8_t block_len, uint64_t counter, uint8_t flags);

/* From the specification of BLAKE3: the flags of a compression and the initial chaining value. */
enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };

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

/* Whole blocks before the last one, which may be short. */
static size_t blocks_before_last(size_t len)
{
    return len == 0 ? 0 : (len - 1) / BLAKE3_BLOCK_LEN;
}

/* The last block: `*hash` is what came out of those before it, and becomes the hash. */
static void finish(const uint8_t *rest, size_t len, struct ron_b3 *hash)
{
    uint8_t block[BLAKE3_BLOCK_LEN] = {0};
    uint32_t cv[RON_B3_BYTES / 4];

    memcpy(block, rest, len);
    memcpy(cv, hash->bytes, sizeof cv);
    for (size_t i = 0; i < RON_ARRAY_LEN(cv); i++) {
        cv[i] = le32toh(cv[i]);
    }
    blake3_compress_in_place(cv, block, (uint8_t)len, 0, CHUNK_END | ROOT);
    for (size_t i = 0; i < RON_ARRAY_LEN(cv); i++) {
        cv[i] = htole32(cv[i]);
    }
    memcpy(hash->bytes, cv, sizeof cv);
}

void ron_b3_hash_each(const uint8_t *const *inputs, const size_t *lens, size_t count,
                      struct ron_b3 *ret_hashes)
{
    for (size_t i = 0, n; i < count; i += n) {
        size_t blocks = blocks_before_last(lens[i]);

        n = 1;
        if (blocks == 0 || lens[i] > BLAKE3_CHUNK_LEN) {
            ron_b3_hash(inputs[i], lens[i], &ret_hashes[i]);
            continue;
        }
        while (i + n < count && blocks_before_last(lens[i + n]) == blocks) {
            n++;
        }
        blake3_hash_many(inputs + i, n, blocks, IV, 0, false, 0, CHUNK_START, 0,
                         ret_hashes[i].bytes);
        for (size_t k = i; k < i + n; k++) {
            size_t done = blocks * BLAKE3_BLOCK_LEN;

            finish(inputs[k] + done, lens[k] - done, &ret_hashes[k]);
        }
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

/* ---- the tree under a hash ------------------------------------------------------------------- */

_Static_assert(RON_B3_CHUNK == BLAKE3_CHUNK_LEN, "a chunk");

static void store_cv(const uint32_t cv[8], struct ron_b3 *ret_cv)
{
    for (size_t i = 0; i < RON_B3_BYTES / 4; i++) {
        uint32_t word = htole32(cv[i]);

        memcpy(ret_cv->bytes + 4 * i, &word, sizeof word);
    }
}

void ron_b3_chunk(const void *bytes, size_t len, uint64_t number, bool root, struct ron_b3 *ret_cv)
{
    const uint8_t *at = bytes;
    uint8_t flags = CHUNK_START;
    uint32_t cv[8];

    RON_ASSERT(len <= BLAKE3_CHUNK_LEN);
    memcpy(cv, IV, sizeof cv);
    for (; len > BLAKE3_BLOCK_LEN; at += BLAKE3_BLOCK_LEN, len -= BLAKE3_BLOCK_LEN) {
        blake3_compress_in_place(cv, at, BLAKE3_BLOCK_LEN, number, flags);
        flags = 0;
    }
    {
        uint8_t block[BLAKE3_BLOCK_LEN] = {0};

        if (len > 0) {
            memcpy(block, at, len);
        }
        flags |= (uint8_t)(CHUNK_END | (root ? ROOT : 0));
        blake3_compress_in_place(cv, block, (uint8_t)len, number, flags);
    }
    store_cv(cv, ret_cv);
}

void ron_b3_chunks(const uint8_t *bytes, size_t count, uint64_t number, struct ron_b3 *ret_cvs)
{
    enum { SOME = 16 };
    const uint8_t *inputs[SOME];

    while (count > 0) {
        size_t n = RON_MIN(count, (size_t)SOME);

        for (size_t i = 0; i < n; i++) {
            inputs[i] = bytes + i * BLAKE3_CHUNK_LEN;
        }
        blake3_hash_many(inputs, n, BLAKE3_CHUNK_LEN / BLAKE3_BLOCK_LEN, IV, number, true, 0,
                         CHUNK_START, CHUNK_END, ret_cvs[0].bytes);
        bytes += n * BLAKE3_CHUNK_LEN;
        number += n;
        ret_cvs += n;
        count -= n;
    }
}

void ron_b3_parent(const struct ron_b3 *left, const struct ron_b3 *right, bool root,
                   struct ron_b3 *ret_cv)
{
    uint8_t block[BLAKE3_BLOCK_LEN];
    uint32_t cv[8];

    memcpy(block, left->bytes, RON_B3_BYTES);
    memcpy(block + RON_B3_BYTES, right->bytes, RON_B3_BYTES);
    memcpy(cv, IV, sizeof cv);
    blake3_compress_in_place(cv, block, BLAKE3_BLOCK_LEN, 0, (uint8_t)(PARENT | (root ? ROOT : 0)));
    store_cv(cv, ret_cv);
}

/* ---- content ids ----------------------------------------------------------------------------- */

bool ron_b3_parse_hex(const char *text, size_t len, struct ron_b3 *ret_id)
{
    struct ron_b3 id;

    if (!ron_unhex((struct ron_str){text, len}, RON_HEX_LOWER, id.bytes, RON_B3_BYTES)) {
        return false;
    }
    *ret_id = id;
    return true;
}

void ron_b3_format_hex(const struct ron_b3 *id, char ret_text[RON_B3_HEX_LEN])
{
    const uint64_t low = UINT64_C(0x0f0f0f0f0f0f0f0f);

    /* Four bytes at a time: their eight digits one to a byte, then each below ten is '0' on, the
     * others 'a' on. A tag is written for every answer. */
    for (size_t i = 0; i < RON_B3_BYTES; i += 4) {
        uint64_t x = (uint64_t)id->bytes[i] | (uint64_t)id->bytes[i + 1] << 16 |
                     (uint64_t)id->bytes[i + 2] << 32 | (uint64_t)id->bytes[i + 3] << 48;
        uint64_t digits = ((x >> 4) | (x << 8)) & low;
        uint64_t letters =
            ((digits + UINT64_C(0x0606060606060606)) >> 4) & UINT64_C(0x0101010101010101);

        digits += UINT64_C(0x3030303030303030) + letters * ('a' - '0' - 10);
        digits = htole64(digits);
        memcpy(ret_text + 2 * i, &digits, sizeof digits);
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
