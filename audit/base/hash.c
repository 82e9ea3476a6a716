/* SPDX-License-Identifier: Apache-2.0 */
/* audit/base/hash.c - leaf and node hashes, the right edge of the tree, inclusion proofs.
 *
 * OpenSSL's SHA256_* are called "deprecated" in favour of EVP, which costs several times the
 * hashing of a short message; they are part of its stable interface and used in this file alone.
 * Short messages are padded here and given to the block function: 0x80, zeros, and the length in
 * bits as 8 big-endian bytes, up to a multiple of 64 bytes. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "audit/base/hash.h"

#include <openssl/sha.h>

#include "ron/base/assert.h"

enum {
    BLOCK = 64,
    PADDING_MIN = 9,
    SHORT_BLOCKS = 4, /* an entry of usual length fits; longer ones take the slower way */
    SHORT_MAX = SHORT_BLOCKS * BLOCK - PADDING_MIN,
};

/* `m` holds a message of len <= SHORT_MAX bytes, with room for its padding. */
static void hash_padded(uint8_t *m, size_t len, struct aud_hash *ret)
{
    static const SHA_LONG initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    size_t blocks = (len + PADDING_MIN + BLOCK - 1) / BLOCK;
    size_t bits = len * 8;
    SHA256_CTX c;

    memset(m + len, 0, blocks * BLOCK - len);
    m[len] = 0x80;
    m[blocks * BLOCK - 2] = (uint8_t)(bits >> 8);
    m[blocks * BLOCK - 1] = (uint8_t)bits;
    memcpy(c.h, initial, sizeof initial);
    for (size_t i = 0; i < blocks; i++) {
        SHA256_Transform(&c, m + i * BLOCK);
    }
    for (size_t i = 0; i < 8; i++) {
        uint32_t word = __builtin_bswap32(c.h[i]);

        memcpy(ret->bytes + 4 * i, &word, sizeof word);
    }
}

void aud_hash_two(const void *a, size_t a_len, const void *b, size_t b_len, struct aud_hash *ret)
{
    SHA256_CTX c;
    int ok = SHA256_Init(&c);

    ok &= SHA256_Update(&c, a, a_len);
    ok &= SHA256_Update(&c, b, b_len);
    ok &= SHA256_Final(ret->bytes, &c);
    /* They fail for other digest lengths only. */
    RON_ASSERT(ok == 1);
}

void aud_hash_leaf(const void *data, size_t len, struct aud_hash *ret)
{
    uint8_t m[SHORT_BLOCKS * BLOCK];

    m[0] = 0;
    if (1 + len > SHORT_MAX) {
        aud_hash_two(m, 1, data, len, ret);
        return;
    }
    memcpy(m + 1, data, len);
    hash_padded(m, 1 + len, ret);
}

static void hash_node(const struct aud_hash *left, const struct aud_hash *right,
                      struct aud_hash *ret)
{
    uint8_t m[2 * BLOCK];

    m[0] = 1;
    memcpy(m + 1, left->bytes, AUD_HASH_BYTES);
    memcpy(m + 1 + AUD_HASH_BYTES, right->bytes, AUD_HASH_BYTES);
    hash_padded(m, 1 + 2 * AUD_HASH_BYTES, ret);
}

/* ---- the tree -------------------------------------------------------------------------------- */

void aud_tree_add(struct aud_tree *tree, const struct aud_hash *leaf)
{
    RON_ASSERT(tree->depth < AUD_TREE_DEPTH);
    tree->edge[tree->depth++] = *leaf;
    /* A leaf completes as many subtrees as the size has trailing ones. */
    for (uint64_t size = tree->size; (size & 1) != 0; size >>= 1) {
        tree->depth--;
        hash_node(&tree->edge[tree->depth - 1], &tree->edge[tree->depth],
                  &tree->edge[tree->depth - 1]);
    }
    tree->size++;
}

void aud_tree_root(const struct aud_tree *tree, struct aud_hash *ret)
{
    struct aud_hash root;
    unsigned at = tree->depth;

    if (at == 0) {
        aud_hash_two("", 0, "", 0, ret);
        return;
    }
    root = tree->edge[--at];
    while (at > 0) {
        hash_node(&tree->edge[--at], &root, &root);
    }
    *ret = root;
}

bool aud_inclusion(const struct aud_hash *leaf, uint64_t index, uint64_t size,
                   const struct aud_hash *proof, size_t count, const struct aud_hash *root)
{
    struct aud_hash r = *leaf;
    uint64_t fn = index;
    uint64_t sn = size - 1;

    if (index >= size) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (sn == 0) {
            return false;
        }
        if ((fn & 1) != 0 || fn == sn) {
            hash_node(&proof[i], &r, &r);
            while ((fn & 1) == 0 && fn != 0) {
                fn >>= 1;
                sn >>= 1;
            }
        } else {
            hash_node(&r, &proof[i], &r);
        }
        fn >>= 1;
        sn >>= 1;
    }
    return sn == 0 && aud_hash_equal(&r, root);
}

void aud_hex(const uint8_t *bytes, size_t len, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        ret_text[2 * i] = digits[bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_text[2 * len] = '\0';
}
