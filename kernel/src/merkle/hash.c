/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c - leaf and node hashes over the block function of OpenSSL.
 *
 * The functions SHA256_* are called "deprecated" by OpenSSL 3 in favour of EVP, whose cost per call
 * is the reason to stay with them; they are part of its stable interface until a next major version
 * and are used here and in interop/provider/mac.c alone.
 *
 * H1. A block is 64 bytes; the padding is 0x80, zeros, and the length in bits as 8 big-endian
 *     bytes. A message of n bytes takes (n + 9) / 64 blocks, rounded up. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "ron/merkle/hash.h"

#include <openssl/sha.h>

#include "merkle/hash_priv.h"
#include "ron/sync/sync.h"

enum {
    BLOCK = RON_TREE_HASH_BLOCK,
    PADDING_MIN = 9,  /* the byte 0x80 and the length */
    SHORT_BLOCKS = 4, /* a leaf of so many is padded here; a transfer has two or three */
    SHORT_MAX = SHORT_BLOCKS * BLOCK - PADDING_MIN - 1, /* bytes of such a leaf (H1) */
    NODE_LEN = 1 + 2 * RON_TREE_HASH_BYTES,
    NODE_BLOCKS = 2,
};

_Static_assert(NODE_LEN > BLOCK - PADDING_MIN && NODE_LEN <= NODE_BLOCKS * BLOCK - PADDING_MIN,
               "a node is two blocks");

/* Asked of the processor once: a virtual machine makes the question slow. */
static bool has_pair(void)
{
    enum { UNKNOWN, NO, YES };
    static struct ron_au32 known;
    uint32_t answer = ron_au32_load(&known);

    if (RON_UNLIKELY(answer == UNKNOWN)) {
        answer = ron__tree_hash_has_pair() ? YES : NO;
        ron_au32_store(&known, answer);
    }
    return answer == YES;
}

static void start(SHA256_CTX *c)
{
    static const SHA_LONG initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(c->h, initial, sizeof initial);
}

static void finish(const SHA256_CTX *c, struct ron_tree_hash *ret_hash)
{
    for (size_t i = 0; i < 8; i++) {
        uint32_t word = __builtin_bswap32(c->h[i]);

        memcpy(ret_hash->bytes + 4 * i, &word, sizeof word);
    }
}

void ron_tree_hash_empty(struct ron_tree_hash *ret_hash)
{
    ron_tree_hash_pieces(NULL, 0, ret_hash);
}

static size_t leaf_blocks(size_t len)
{
    return (1 + len + PADDING_MIN + BLOCK - 1) / BLOCK;
}

/* Lays out a leaf of at most SHORT_MAX bytes (H1). */
static void leaf_pad(uint8_t m[SHORT_BLOCKS * BLOCK], const void *data, size_t len)
{
    size_t end = leaf_blocks(len) * BLOCK;

    m[0] = 0;
    if (len > 0) {
        memcpy(m + 1, data, len);
    }
    m[1 + len] = 0x80;
    memset(m + 2 + len, 0, end - 2 - len);
    m[end - 2] = (uint8_t)(((1 + len) * 8) >> 8);
    m[end - 1] = (uint8_t)((1 + len) * 8);
}

void ron_tree_hash_leaf(const void *data, size_t len, struct ron_tree_hash *ret_hash)
{
    static const uint8_t prefix = 0;
    SHA256_CTX c;
    uint8_t m[SHORT_BLOCKS * BLOCK];

    if (len > SHORT_MAX) {
        const struct ron_tree_piece pieces[] = {{&prefix, 1}, {data, len}};

        ron_tree_hash_pieces(pieces, 2, ret_hash);
        return;
    }
    leaf_pad(m, data, len);
    start(&c);
    for (size_t i = 0; i < leaf_blocks(len); i++) {
        SHA256_Transform(&c, m + i * BLOCK);
    }
    finish(&c, ret_hash);
}

/* Two messages of `blocks` blocks each. */
static void hash_two(const uint8_t *a, const uint8_t *b, size_t blocks, struct ron_tree_hash *ret_a,
                     struct ron_tree_hash *ret_b)
{
    SHA256_CTX c[2];

    start(&c[0]);
    start(&c[1]);
    ron__tree_hash_pair(c[0].h, c[1].h, a, b, blocks);
    finish(&c[0], ret_a);
    finish(&c[1], ret_b);
}

void ron_tree_hash_leaves(const struct ron_str *leaves, size_t count,
                          struct ron_tree_hash *ret_hashes)
{
    bool pairs = has_pair();
    size_t i = 0;

    while (i < count) {
        size_t blocks = leaf_blocks(leaves[i].len);
        uint8_t m[2][SHORT_BLOCKS * BLOCK];

        if (!pairs || i + 1 == count || blocks > SHORT_BLOCKS ||
            leaf_blocks(leaves[i + 1].len) != blocks) {
            ron_tree_hash_leaf(leaves[i].ptr, leaves[i].len, &ret_hashes[i]);
            i++;
            continue;
        }
        leaf_pad(m[0], leaves[i].ptr, leaves[i].len);
        leaf_pad(m[1], leaves[i + 1].ptr, leaves[i + 1].len);
        hash_two(m[0], m[1], blocks, &ret_hashes[i], &ret_hashes[i + 1]);
        i += 2;
    }
}

/* The constant part of a node's two blocks. */
static void node_frame(uint8_t m[NODE_BLOCKS * BLOCK])
{
    memset(m, 0, (size_t)NODE_BLOCKS * BLOCK);
    m[0] = 1;
    m[NODE_LEN] = 0x80;
    m[NODE_BLOCKS * BLOCK - 2] = (NODE_LEN * 8) >> 8;
    m[NODE_BLOCKS * BLOCK - 1] = (NODE_LEN * 8) & 0xff;
}

static void node_fill(uint8_t m[NODE_BLOCKS * BLOCK], const struct ron_tree_hash *left,
                      const struct ron_tree_hash *right)
{
    memcpy(m + 1, left->bytes, RON_TREE_HASH_BYTES);
    memcpy(m + 1 + RON_TREE_HASH_BYTES, right->bytes, RON_TREE_HASH_BYTES);
}

static void node_hash(const uint8_t m[NODE_BLOCKS * BLOCK], struct ron_tree_hash *ret_hash)
{
    SHA256_CTX c;

    start(&c);
    SHA256_Transform(&c, m);
    SHA256_Transform(&c, m + BLOCK);
    finish(&c, ret_hash);
}

void ron_tree_hash_node(const struct ron_tree_hash *left, const struct ron_tree_hash *right,
                        struct ron_tree_hash *ret_hash)
{
    uint8_t m[NODE_BLOCKS * BLOCK];

    node_frame(m);
    node_fill(m, left, right);
    node_hash(m, ret_hash);
}

void ron_tree_hash_nodes(const struct ron_tree_hash *pairs, size_t count,
                         struct ron_tree_hash *ret_hashes)
{
    uint8_t m[2][NODE_BLOCKS * BLOCK];
    size_t i = 0;

    node_frame(m[0]);
    node_frame(m[1]);
    /* In place is safe: results i and i + 1 are written after the pairs up to 2i + 3 were copied
     * into `m`, and lie before what is still to be read. */
    for (; has_pair() && i + 2 <= count; i += 2) {
        node_fill(m[0], &pairs[2 * i], &pairs[2 * i + 1]);
        node_fill(m[1], &pairs[2 * i + 2], &pairs[2 * i + 3]);
        hash_two(m[0], m[1], NODE_BLOCKS, &ret_hashes[i], &ret_hashes[i + 1]);
    }
    for (; i < count; i++) {
        node_fill(m[0], &pairs[2 * i], &pairs[2 * i + 1]);
        node_hash(m[0], &ret_hashes[i]);
    }
}

void ron_tree_hash_pieces(const struct ron_tree_piece *pieces, size_t count,
                          struct ron_tree_hash *ret_hash)
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
