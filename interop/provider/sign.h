/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/sign.h - the sender's side of the table of providers: the headers that make a
 * request theirs.
 *
 * Place: interop; pure. For deliveries that we forward (Standard Webhooks), for `ron webhook send`
 * and for tests. The same rows and the same base string as the receiving side, so the two cannot
 * drift apart; that they are the providers' own is what the tests with their libraries show.
 *
 * Threads: a signer is made once and then read by all. Nothing allocates. */
#pragma once

#include "interop/provider/provider.h"

enum {
    IOP_SIGNED_FIELDS = 8,
    IOP_SIGNED_NAME_MAX = 72,
    IOP_SIGNED_VALUE_MAX = 512,
};

struct iop_signed_field {
    char name[IOP_SIGNED_NAME_MAX];
    char value[IOP_SIGNED_VALUE_MAX];
};

struct iop_signed {
    size_t count;
    struct iop_signed_field fields[IOP_SIGNED_FIELDS];
};

/* A key that signs: an HMAC key, or an Ed25519 key with its secret half. iop_signer_done wipes. */
struct iop_signer {
    struct iop_provider provider; /* without keys: the row and its base string */
    enum iop_alg alg;
    struct iop_mac_key mac;
    uint8_t secret_key[64];
};

/* Ed25519: Standard Webhooks "whsk_" + base64 of seed or seed and public key; Discord 64 hex digits
 * of the seed. HMAC: as iop_provider_add_key. RON_INVALID; no message quotes the secret. */
RON_MUST_USE enum ron_rc iop_signer_init(struct iop_signer *s, const struct iop_scheme *scheme,
                                         const void *secret, size_t len, struct ron_err *err);
void iop_signer_done(struct iop_signer *s);

struct iop_to_sign {
    struct ron_str id;    /* where the scheme has one in a header */
    struct ron_str event; /* likewise */
    int64_t now_unix_ms;
    struct ron_str url; /* whole, for schemes that sign it */
    const void *body;
    size_t len;
    bool form;     /* the body is a form */
    void *scratch; /* len + IOP_SCRATCH_EXTRA bytes; not needed by HMAC schemes without {form} */
    size_t scratch_size;
};

/* RON_INVALID: an id, event or form that the scheme cannot carry. */
RON_MUST_USE enum ron_rc iop_sign(const struct iop_signer *s, const struct iop_to_sign *what,
                                  struct iop_signed *ret_signed, struct ron_err *err);
