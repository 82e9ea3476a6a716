/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/mac.c - HMAC over the hash functions of OpenSSL.
 *
 * The functions SHA*_Update are called "deprecated" by OpenSSL 3 in favour of EVP, which takes an
 * allocation per copy of a state; see kernel/src/merkle/hash.c, which stays with them for the same
 * reason. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "interop/provider/mac.h"

#include <openssl/sha.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/secret.h"

enum { BLOCK_MAX = SHA512_CBLOCK };

_Static_assert(sizeof(SHA_CTX) <= IOP_MAC_STATE_WORDS * sizeof(uint64_t) &&
                   sizeof(SHA256_CTX) <= IOP_MAC_STATE_WORDS * sizeof(uint64_t) &&
                   sizeof(SHA512_CTX) <= IOP_MAC_STATE_WORDS * sizeof(uint64_t),
               "a state has room for each hash");
_Static_assert(_Alignof(SHA512_CTX) <= _Alignof(uint64_t), "and its alignment");

size_t iop_hash_bytes(enum iop_hash hash)
{
    switch (hash) {
#define X(name, word, label, bytes)                                                                \
    case IOP_##name:                                                                               \
        return bytes;
        IOP_HASHES(X)
#undef X
    }
    RON_UNREACHABLE();
}

const char *iop_hash_label(enum iop_hash hash)
{
    switch (hash) {
#define X(name, word, label, bytes)                                                                \
    case IOP_##name:                                                                               \
        return label;
        IOP_HASHES(X)
#undef X
    }
    RON_UNREACHABLE();
}

static size_t block_bytes(enum iop_hash hash)
{
    return hash == IOP_SHA1 || hash == IOP_SHA256 ? SHA256_CBLOCK : SHA512_CBLOCK;
}

static void start(enum iop_hash hash, void *state)
{
    switch (hash) {
    case IOP_SHA1:
        (void)SHA1_Init(state);
        return;
    case IOP_SHA256:
        (void)SHA256_Init(state);
        return;
    case IOP_SHA384:
        (void)SHA384_Init(state);
        return;
    case IOP_SHA512:
        (void)SHA512_Init(state);
        return;
    }
    RON_UNREACHABLE();
}

static void add(enum iop_hash hash, void *state, const void *bytes, size_t len)
{
    switch (hash) {
    case IOP_SHA1:
        (void)SHA1_Update(state, bytes, len);
        return;
    case IOP_SHA256:
        (void)SHA256_Update(state, bytes, len);
        return;
    case IOP_SHA384:
        (void)SHA384_Update(state, bytes, len);
        return;
    case IOP_SHA512:
        (void)SHA512_Update(state, bytes, len);
        return;
    }
    RON_UNREACHABLE();
}

static void finish(enum iop_hash hash, void *state, uint8_t ret_bytes[IOP_MAC_BYTES_MAX])
{
    switch (hash) {
    case IOP_SHA1:
        (void)SHA1_Final(ret_bytes, state);
        return;
    case IOP_SHA256:
        (void)SHA256_Final(ret_bytes, state);
        return;
    case IOP_SHA384:
        (void)SHA384_Final(ret_bytes, state);
        return;
    case IOP_SHA512:
        (void)SHA512_Final(ret_bytes, state);
        return;
    }
    RON_UNREACHABLE();
}

/* The state behind one block of the key xor `pad`. */
static void prepare(enum iop_hash hash, uint64_t *state, const uint8_t block[BLOCK_MAX],
                    uint8_t pad)
{
    uint8_t mixed[BLOCK_MAX];

    for (size_t i = 0; i < block_bytes(hash); i++) {
        mixed[i] = block[i] ^ pad;
    }
    memset(state, 0, IOP_MAC_STATE_WORDS * sizeof *state);
    start(hash, state);
    add(hash, state, mixed, block_bytes(hash));
    ron_wipe(mixed, sizeof mixed);
}

void iop_mac_key_set(struct iop_mac_key *key, enum iop_hash hash, const void *secret, size_t len)
{
    uint8_t block[BLOCK_MAX] = {0};

    RON_ASSERT_MSG(len > 0, "a key is not empty");
    RON_ASSERT(block_bytes(hash) <= sizeof block);
    key->hash = hash;
    if (len > block_bytes(hash)) {
        uint64_t state[IOP_MAC_STATE_WORDS];

        start(hash, state);
        add(hash, state, secret, len);
        finish(hash, state, block);
        ron_wipe(state, sizeof state);
    } else {
        memcpy(block, secret, len);
    }
    prepare(hash, key->_inner, block, 0x36);
    prepare(hash, key->_outer, block, 0x5c);
    ron_wipe(block, sizeof block);
}

void iop_mac_begin(struct iop_mac *mac, const struct iop_mac_key *key)
{
    RON_ASSERT(key != NULL);
    mac->key = key;
    memcpy(mac->_state, key->_inner, sizeof mac->_state);
}

void iop_mac_add(struct iop_mac *mac, const void *bytes, size_t len)
{
    if (len > 0) {
        add(mac->key->hash, mac->_state, bytes, len);
    }
}

size_t iop_mac_end(struct iop_mac *mac, uint8_t ret_bytes[IOP_MAC_BYTES_MAX])
{
    enum iop_hash hash = mac->key->hash;
    size_t len = iop_hash_bytes(hash);

    RON_ASSERT(len <= IOP_MAC_BYTES_MAX);
    finish(hash, mac->_state, ret_bytes);
    memcpy(mac->_state, mac->key->_outer, sizeof mac->_state);
    add(hash, mac->_state, ret_bytes, len);
    finish(hash, mac->_state, ret_bytes);
    return len;
}

void iop_sha256(const void *bytes, size_t len, uint8_t ret_bytes[32])
{
    SHA256_CTX state;

    (void)SHA256_Init(&state);
    (void)SHA256_Update(&state, len > 0 ? bytes : "", len);
    (void)SHA256_Final(ret_bytes, &state);
}

bool iop_same_bytes(const uint8_t *a, const uint8_t *b, size_t len)
{
    const volatile uint8_t *x = a;
    const volatile uint8_t *y = b;
    uint8_t differs = 0;

    for (size_t i = 0; i < len; i++) {
        differs |= (uint8_t)(x[i] ^ y[i]);
    }
    return differs == 0;
}
