/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/mac.h - HMAC (RFC 2104) over SHA-1, SHA-256, SHA-384 and SHA-512 with prepared
 * keys.
 *
 * Place: interop, below the providers; pure. A key is kept as the two hash states behind its first
 * blocks, so a message costs its own blocks and two more, and the secret itself is not kept.
 * Messages come in pieces, so a base string is never put together.
 *
 * Nothing allocates or fails. A key is written once and then read by all threads; a running MAC
 * belongs to one thread. Whoever owns a key wipes it (ron_wipe) before its memory goes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IOP_MAC_BYTES_MAX = 64,   /* SHA-512 */
    IOP_MAC_STATE_WORDS = 27, /* the largest state of OpenSSL; checked at compile time */
};

/* X(NAME, "name in settings", "label of an audit record", bytes of the result) */
#define IOP_HASHES(X)                                                                              \
    X(SHA256, "sha256", "hmac-sha256", 32)                                                         \
    X(SHA1, "sha1", "hmac-sha1", 20)                                                               \
    X(SHA384, "sha384", "hmac-sha384", 48)                                                         \
    X(SHA512, "sha512", "hmac-sha512", 64)

enum iop_hash {
#define X(name, word, label, bytes) IOP_##name,
    IOP_HASHES(X)
#undef X
};

size_t iop_hash_bytes(enum iop_hash hash);
const char *iop_hash_label(enum iop_hash hash);

struct iop_mac_key {
    enum iop_hash hash;
    uint64_t _inner[IOP_MAC_STATE_WORDS];
    uint64_t _outer[IOP_MAC_STATE_WORDS];
};

/* A secret of any length but 0. */
void iop_mac_key_set(struct iop_mac_key *key, enum iop_hash hash, const void *secret, size_t len);

struct iop_mac {
    const struct iop_mac_key *key;
    uint64_t _state[IOP_MAC_STATE_WORDS];
};

void iop_mac_begin(struct iop_mac *mac, const struct iop_mac_key *key);
void iop_mac_add(struct iop_mac *mac, const void *bytes, size_t len);
/* Returns how many bytes of the result count. */
size_t iop_mac_end(struct iop_mac *mac, uint8_t ret_bytes[IOP_MAC_BYTES_MAX]);

/* A bare SHA-256, for the one provider that signs it (Twilio's bodySHA256). */
void iop_sha256(const void *bytes, size_t len, uint8_t ret_bytes[32]);

/* Whether two results are the same, in a time that depends on `len` alone. */
bool iop_same_bytes(const uint8_t *a, const uint8_t *b, size_t len);
