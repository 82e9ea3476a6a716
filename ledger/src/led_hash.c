/* SPDX-License-Identifier: Apache-2.0 */
/* led_hash.c - leaf and node hashes over the block function of OpenSSL.
 *
 * The functions SHA256_* are called "deprecated" by OpenSSL 3 in favour of EVP, whose cost per call
 * is the reason to stay with them; they are part of its stable interface until a next major version
 * and are used in this file alone.
 *
 * H1. A block is 64 bytes; the padding is 0x80, zeros, and the length in bits as 8 big-endian
 *     bytes. A message of up to 55 bytes is one block, of up to 119 bytes two. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "led_hash.h"

#include <openssl/sha.h>

#include "ron/base/assert.h"

enum {
    BLOCK = 64,
    PADDING_MIN = 9,                         /* the byte 0x80 and the length */
    SHORT_MAX = 2 * BLOCK - PADDING_MIN - 1, /* bytes of a leaf that fits two blocks (H1) */
    NODE_LEN = 1 + 2 * LED_HASH_BYTES,
};

_Static_assert(NODE_LEN > BLOCK - PADDING_MIN && NODE_LEN <= SHORT_MAX + 1, "a node is two blocks");

static void start(SHA256_CTX *c)
{
    static const SHA_LONG initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(c->h, initial, sizeof initial);
}

static void finish(const SHA256_CTX *c, struct led_hash *ret_hash)
{
    for (size_t i = 0; i < 8; i++) {
        uint32_t word = __builtin_bswap32(c->h[i]);

        memcpy(ret_hash->bytes + 4 * i, &word, sizeof word);
    }
}

void led_hash_empty(struct led_hash *ret_hash)
{
    led_hash_pieces(NULL, 0, ret_hash);
}

void led_hash_leaf(const void *data, size_t len, struct led_hash *ret_hash)
{
    static const uint8_t prefix = 0;
    SHA256_CTX c;
    uint8_t m[2 * BLOCK];
    size_t blocks;

    if (len > SHORT_MAX) {
        const struct led_piece pieces[] = {{&prefix, 1}, {data, len}};

        led_hash_pieces(pieces, 2, ret_hash);
        return;
    }
    blocks = 1 + len + PADDING_MIN <= BLOCK ? 1 : 2;
    memset(m, 0, blocks * BLOCK);
    if (len > 0) {
        memcpy(m + 1, data, len);
    }
    m[1 + len] = 0x80;
    m[blocks * BLOCK - 2] = (uint8_t)(((1 + len) * 8) >> 8);
    m[blocks * BLOCK - 1] = (uint8_t)((1 + len) * 8);
    start(&c);
    SHA256_Transform(&c, m);
    if (blocks == 2) {
        SHA256_Transform(&c, m + BLOCK);
    }
    finish(&c, ret_hash);
}

/* `m` holds the constant part of a node's two blocks. */
static void node_into(uint8_t m[2 * BLOCK], const struct led_hash *left,
                      const struct led_hash *right, struct led_hash *ret_hash)
{
    SHA256_CTX c;

    memcpy(m + 1, left->bytes, LED_HASH_BYTES);
    memcpy(m + 1 + LED_HASH_BYTES, right->bytes, LED_HASH_BYTES);
    start(&c);
    SHA256_Transform(&c, m);
    SHA256_Transform(&c, m + BLOCK);
    finish(&c, ret_hash);
}

static void node_frame(uint8_t m[2 * BLOCK])
{
    memset(m, 0, (size_t)2 * BLOCK);
    m[0] = 1;
    m[NODE_LEN] = 0x80;
    m[2 * BLOCK - 2] = (NODE_LEN * 8) >> 8;
    m[2 * BLOCK - 1] = (NODE_LEN * 8) & 0xff;
}

void led_hash_node(const struct led_hash *left, const struct led_hash *right,
                   struct led_hash *ret_hash)
{
    uint8_t m[2 * BLOCK];

    node_frame(m);
    node_into(m, left, right, ret_hash);
}

void led_hash_nodes(const struct led_hash *pairs, size_t count, struct led_hash *ret_hashes)
{
    uint8_t m[2 * BLOCK];

    node_frame(m);
    /* In place is safe: the result i <= 2i is written after its pair was copied into `m`. */
    for (size_t i = 0; i < count; i++) {
        node_into(m, &pairs[2 * i], &pairs[2 * i + 1], &ret_hashes[i]);
    }
}

void led_hash_pieces(const struct led_piece *pieces, size_t count, struct led_hash *ret_hash)
{
    SHA256_CTX c;
    int ok = SHA256_Init(&c);

    for (size_t i = 0; i < count; i++) {
        ok &= SHA256_Update(&c, pieces[i].bytes, pieces[i].len);
    }
    ok &= SHA256_Final(ret_hash->bytes, &c);
    /* They fail for other digest lengths only. */
    RON_ASSERT(ok == 1);
}
