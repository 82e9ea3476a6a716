/* SPDX-License-Identifier: Apache-2.0 */
/* works.h - works as a prevalidator would hand them on, for tests of the stages behind it.
 *
 * All works of a test are kept until works_drop, also ended ones, so that outcomes can be looked
 * at. Header only: the few programs that include it each use most of it. */
#pragma once

#include "support/support.h"

#include "ledger/pipeline/seq.h"
#include "ron/base/alloc.h"

#define WORKS_NOW UINT64_C(1700000000000)

enum { WORKS_MAX = 4096, WORKS_ARENA = 1 << 16 };

struct works {
    uint8_t hash_key[16];
    struct led_work *all[WORKS_MAX];
    size_t count;
    size_t ended;
    uint64_t serial;      /* for ids and nonces */
    uint64_t now_ms;      /* ts of entries */
    uint64_t checked_seq; /* what the index would have answered for */
    size_t arena_size;    /* 0: WORKS_ARENA */
};

static struct works works;

static inline struct ron_str works_str(const char *s)
{
    return (struct ron_str){s, strlen(s)};
}

static inline void works_begin(void)
{
    works = (struct works){.hash_key = "0123456789abcde", .now_ms = WORKS_NOW};
}

static inline void works_drop(void)
{
    for (size_t i = 0; i < works.count; i++) {
        ron_arena_done(&works.all[i]->arena);
        ron_free(works.all[i]);
    }
    works.count = 0;
}

static inline void works_done(struct led_work *w)
{
    works.ended++;
    w->reply = NULL; /* was answered */
}

/* An empty work; `reply` is not NULL until it ends. */
static inline struct led_work *works_new(void *arg)
{
    struct led_work *w = ron_alloc_zero(sizeof *w);

    (void)arg;
    RON_ASSERT(w != NULL && works.count < WORKS_MAX);
    w->magic = LED_WORK_MAGIC;
    w->done = works_done;
    w->reply = w;
    w->checked_seq = works.checked_seq;
    RON_ASSERT(ron_arena_init(&w->arena, works.arena_size != 0 ? works.arena_size : WORKS_ARENA) ==
               RON_OK);
    works.all[works.count++] = w;
    return w;
}

static inline struct led_entry works_entry(uint8_t kind, const char *account, const char *to,
                                           uint64_t amount)
{
    struct led_entry e = {.account = works_str(account),
                          .to = works_str(to),
                          .asset = works_str("roc"),
                          .kid = works_str("k"),
                          .capability_ref = works_str("c"),
                          .amount = ron_money_of(amount),
                          .ts_ms = works.now_ms,
                          .kind = kind,
                          .v = 1};

    works.serial++;
    memcpy(e.nonce, &works.serial, sizeof works.serial);
    return e;
}

/* The work of a batch; an entry without id gets the next one. Texts must outlive the test. */
static inline struct led_work *works_batch(const char *idem, const struct led_entry *entries,
                                           size_t count)
{
    struct led_work *w = works_new(NULL);
    struct ron_arena *a = &w->arena;
    struct led_entry *copy = ron_arena_alloc_array(a, count, sizeof *copy, 16);

    w->kind = LED_WORK_INGEST;
    w->flags = LED_APPLY_REVERSIBLE;
    w->leaves = ron_arena_alloc_array(a, count, sizeof *w->leaves, 8);
    w->hashes = ron_arena_alloc_array(a, count, sizeof *w->hashes, 8);
    w->preps = ron_arena_alloc_array(a, count, sizeof *w->preps, 8);
    w->links = ron_arena_alloc_array(a, count, sizeof *w->links, 16);
    for (size_t i = 0; i < count; i++) {
        struct led_refusal refusal;
        uint8_t *leaf;
        size_t size;

        copy[i] = entries[i];
        if (copy[i].id.len == 0) {
            char *id = ron_arena_alloc(a, 24, 1);

            RON_ASSERT(id != NULL);
            (void)snprintf(id, 24, "e%llu", (unsigned long long)++works.serial);
            copy[i].id = works_str(id);
        }
        RON_ASSERT_MSG(led_entry_check(&copy[i], LED_ORIGIN_CALLER, &refusal), "%s: %s",
                       refusal.member, refusal.detail);
        size = led_entry_size(&copy[i]);
        leaf = ron_arena_alloc(a, size, 1);
        RON_ASSERT(leaf != NULL);
        (void)led_entry_encode(&copy[i], leaf);
        w->leaves[i] = (struct ron_str){(const char *)leaf, size};
        ron_tree_hash_leaf(leaf, size, &w->hashes[i]);
        led_book_prepare(works.hash_key, &copy[i], &w->preps[i]);
    }
    w->batch = (struct led_batch){.entries = copy, .count = count};
    if (idem != NULL) {
        struct led_entry named = {.id = works_str(idem), .account = works_str("x")};
        struct led_prep prep = {0};

        led_book_prepare(works.hash_key, &named, &prep);
        w->batch.idem_id = named.id;
        w->idem = prep.id;
    }
    return w;
}

static inline struct led_work *works_one(const char *id, uint8_t kind, const char *account,
                                         const char *to, uint64_t amount)
{
    struct led_entry e = works_entry(kind, account, to, amount);

    if (id != NULL) {
        e.id = works_str(id);
    }
    return works_batch(NULL, &e, 1);
}

static inline struct led_work *works_mint(const char *account, uint64_t amount)
{
    return works_one(NULL, LED_KIND_MINT, account, "", amount);
}

static inline struct led_work *works_transfer(const char *from, const char *to, uint64_t amount)
{
    return works_one(NULL, LED_KIND_TRANSFER, from, to, amount);
}

static inline struct led_work *works_cancel(const char *idem)
{
    struct led_work *w = works_batch(idem, NULL, 0);

    w->kind = LED_WORK_CANCEL;
    return w;
}

/* The same request again, as a client that got no answer sends it. */
static inline struct led_work *works_again(const struct led_work *w, const char *idem)
{
    return works_batch(idem, w->batch.entries, w->batch.count);
}
