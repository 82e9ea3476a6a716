/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/task/read.h - a read of the ledger, in one or more steps.
 *
 * Ownership: a read belongs to the function that runs its step; the client has it between
 * wlt_read_ask and the next step. Its end gives it back to the pool.
 * Threads: get and ask from any; steps run on the client's task. One short lock (rank leaf) guards
 * the pool. */
#pragma once

#include "wallet/core/core.h"
#include "wallet/core/ledger.h"
#include "wallet/job/job.h"

#define WLT_READ_MAGIC 0x57524541u /* "WREA" */

struct wlt_read;
/* The ledger's answer to the question before: looks at it and asks again (wlt_read_ask) or ends the
 * read (wlt_read_*). On the client's task; must not block. */
typedef void wlt_read_fn(struct wlt_read *r, const struct wlt_reply *reply);

/* All reads: where they go, and their pool. */
struct wlt_reads {
    struct wlt_site *site;
    struct wlt_core *core;
    struct wlt_ledger *ledger;
    struct ron_mutex lock; /* guards `idle` and `out` */
    struct wlt_read *idle;
    uint32_t out;
};

struct wlt_read {
    uint32_t magic;
    struct wlt_reads *of;
    struct ron_http_reply *reply;
    wlt_read_fn *then;
    struct ron_oap_ask ask;
    struct ron_buf payload;
    struct ron_buf answer;
    uint64_t sent_ms;
    enum wlt_op op;
    uint32_t which; /* of the ledgers, that was asked */
    struct ron_breaker_ticket breaker;
    /* What was asked for. */
    uint16_t account_len;
    uint16_t asset_len;
    uint16_t text_len;
    char account[WLT_ACCOUNT_MAX];
    char asset[WLT_ASSET_MAX];
    char text[LC_IDEM_ID_MAX + 1]; /* txid or key */
    char idem_id[LC_IDEM_ID_MAX + 1];
    struct wlt_key account_key;
    struct wlt_key pair_key;
    struct wlt_balance stale; /* what the cache had */
    uint64_t stale_true_ms;   /* as of when that was known to be true */
    bool has_stale;
    bool proof; /* the offline proof, not the receipt */
    char if_none_match[96];
    struct ron_buf kept;  /* an earlier answer that a later step needs */
    struct ron_str token; /* of the caller; a slice of the request, which stays until the answer */
    struct wlt_read *next;
};

/* `site` to `ledger` are set. */
void wlt_reads_init(struct wlt_reads *reads);
/* All reads are back in the pool. */
void wlt_reads_done(struct wlt_reads *reads);

/* NULL: none left, or no memory. */
struct wlt_read *wlt_read_get(struct wlt_reads *reads);
void wlt_read_put(struct wlt_read *r);

/* Sends r->payload as `code`; `then` is called with the outcome, perhaps at once. */
void wlt_read_ask(struct wlt_read *r, uint16_t code, wlt_read_fn *then);
/* Each of these ends the read. */
void wlt_read_answer(struct wlt_read *r, int status, const char *content_type);
void wlt_read_fail(struct wlt_read *r, const struct wlt_fault *fault);
/* What a call that brought no usable answer means. */
void wlt_read_failed(struct wlt_read *r, const struct wlt_reply *reply);
