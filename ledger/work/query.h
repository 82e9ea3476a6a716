/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/work/query.h - a question on its way: what is asked, and where the answer goes.
 *
 * Place: ledger. A front fills it in (front/ask.h) and hands it to the sequencer; the sequencer
 * answers, or adds what it knows and hands it on to the readers. The stage that answers gives the
 * query back to its pool.
 *
 * Rules:
 *   A2. A query has exactly one of reply.http, reply.oap and work, and is answered once. */
#pragma once

#include "ledger/work/work.h"
#include "ron/http/server.h"
#include "ron/wire/server.h"

enum {
    LED_ASK_TEXT_MAX = 512,     /* id, idem_id, path of a tile or snapshot */
    LED_SVC_QUERIES_MAX = 4096, /* asks under way: those queued, and a few more */
};

/* What somebody wants to know. The sequencer answers, or adds what it knows and hands it on to the
 * readers. */
enum led_ask {
    LED_ASK_BALANCES, /* account; a = at_seq or 0 */
    LED_ASK_SUPPLY,
    LED_ASK_HOLDS,       /* account */
    LED_ASK_HISTORY,     /* account; a = before or 0, limit */
    LED_ASK_DEBITS,      /* account; text = asset, a = before or 0, b = since */
    LED_ASK_ENTRY,       /* a = seq */
    LED_ASK_BY_ID,       /* text */
    LED_ASK_OUTCOME,     /* text = idem_id */
    LED_ASK_ROOTS,       /* a = since, limit: of the past, from the journal */
    LED_ASK_INCLUSION,   /* a = seq, b = size or 0 */
    LED_ASK_CONSISTENCY, /* a = from, b = to or 0 */
    LED_ASK_TILE,        /* text = path */
    LED_ASK_RECEIPT,     /* a = seq, b = witnesses */
    LED_ASK_HEAD,        /* answered by the front itself */
    LED_ASK_CHECKPOINT,  /* the same */
    LED_ASK_EXPORT,      /* a = from, b = to; limit = format */
    LED_ASK_FREEZE,      /* account, flag */
    LED_ASK_STATUS,      /* admin */
    LED_ASK_SAFE,        /* admin: enter safe mode; text says why */
    LED_ASK_VERIFY,      /* admin: the whole journal, beside everything else */
    LED_ASK_RESUME,      /* admin: leave safe mode */
    LED_ASK_SNAPSHOT,    /* admin: text = directory */
    LED_ASK_WORK,        /* a work that looks like a repetition, or reverses something */
};

/* An answer that a front owes. */
struct led_reply {
    struct ron_http_reply *http;
    struct ron_oap_reply *oap;
};

#define LED_QUERY_MAGIC UINT32_C(0x59514c52) /* "RLQY" */

struct led_query {
    uint32_t magic;
    enum led_ask ask;
    struct led_reply reply; /* empty with LED_ASK_WORK */
    struct led_work *work;
    uint64_t a;
    uint64_t b;
    uint32_t limit;
    bool flag;
    uint16_t account_len;
    uint16_t text_len;
    char account[LED_ACCOUNT_MAX];
    char text[LED_ASK_TEXT_MAX];
    /* Filled in by the sequencer. */
    struct ron_tree_hash durable_root;
    uint64_t durable_seq;                  /* nothing behind it is shown */
    uint64_t start_seq;                    /* newest entry of the account */
    bool in_flight;                        /* the key of LED_ASK_OUTCOME */
    uint64_t seqs[LED_SEQ_CANDIDATES_MAX]; /* of the key: too new for the index */
    size_t seq_count;
    struct led_query *next; /* in the pool */
};

/* Proofs and roots are for everybody; the rest needs the scope to read. */
bool led_ask_is_public(const struct led_query *q);

/* ---- replies --------------------------------------------------------------------------------- */

struct ron_buf *led_reply_body(const struct led_reply *r);
bool led_reply_cancelled(const struct led_reply *r);
/* The envelope of a reason; `detail` NULL: what the reason means. */
struct ron_http_error led_http_error(enum led_reason reason, const char *detail);
/* The same envelope in the words of the other front. */
struct ron_oap_error led_oap_error(const struct ron_http_error *e);

/* ---- the pool: work/query.c ----------------------------------------------------------------- */

struct led_queries;

RON_MUST_USE enum ron_rc led_queries_new(struct led_queries **ret_queries, struct ron_err *err);
void led_queries_free(struct led_queries *p);
struct led_query *led_query_get(struct led_queries *p); /* NULL: too many */
/* Makes it ask what `want` does, which need not be of a pool. */
void led_query_fill(struct led_query *q, const struct led_query *want);
void led_query_put(struct led_queries *p, struct led_query *q);
/* Answers with the envelope of a reason and gives the query back. */
void led_query_refuse(struct led_queries *p, struct led_query *q, enum led_reason reason,
                      const char *detail);
/* The body is in the reply's buffer: sends it as JSON and gives the query back. */
void led_query_answer(struct led_queries *p, struct led_query *q, int status, const char *type);
