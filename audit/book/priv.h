/* SPDX-License-Identifier: Apache-2.0 */
/* audit/book/priv.h - records of the auditor's book, shared by aud_book*.c alone. */
#pragma once

#include "audit/book/book.h"
#include "ron/base/money.h"

/* An open hold; given back when nothing remains. */
struct aud__hold {
    struct aud_key key;
    ron_u128 remaining;
    uint64_t expires_ms; /* 0: never */
    uint64_t seq;        /* of the Hold */
    uint32_t account;    /* ref */
    uint32_t asset;      /* index */
    uint32_t next_free;
    char id[AUD_ID_MAX];
};

/* An entry that some Reverse names; `seq` is 0 until it was met. */
struct aud__original {
    struct aud_key key;
    ron_u128 amount;
    ron_u128 reversed;
    uint64_t seq;
    uint32_t account; /* ref */
    uint32_t to;      /* ref, 0 = none */
    uint32_t asset;   /* index */
    uint8_t kind;
    char id[];
};

/* Finds or makes. */
RON_MUST_USE enum ron_rc aud__account(struct aud_book *b, uint64_t print, struct ron_str name,
                                      struct aud_acct **ret_acct, uint32_t *ret_ref);
RON_MUST_USE enum ron_rc aud__asset(struct aud_book *b, struct ron_str name, uint32_t *ret_index);
RON_MUST_USE enum ron_rc aud__line(struct aud_book *b, struct aud_acct *acct, uint32_t asset,
                                   struct aud_line **ret_line);
