/* SPDX-License-Identifier: Apache-2.0 */
/* rate.c - a token bucket per client address, refilled continuously.
 *
 * A bucket is one number: the time at which it will be full again. Taking a token moves that time
 * one token into the future; when it would then lie further ahead than an empty bucket needs to
 * fill, there is no token. So the refill costs nothing, has no steps, and all workers share the
 * bucket with one compare-and-set.
 *
 * A connection refers to its client's bucket for its whole life, so the table is searched once per
 * connection. Buckets without a connection are kept, oldest first in line for reuse: who reconnects
 * finds the same bucket. There are twice as many as connections, so one that nobody refers to
 * always exists. An IPv6 client is its /64, which is what one subscriber is given. */
#include <string.h>

#include "http_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { BUCKETS_PER_CLIENT = 2 };

enum ron_rc ron__http_rate_init(struct http_rate *r, uint32_t rate_per_s, uint32_t burst,
                                uint32_t clients_max)
{
    uint32_t chains = 16;

    *r = (struct http_rate){0};
    if (rate_per_s == 0) {
        return RON_OK;
    }
    r->token_ns = RON_MAX(RON_NS_PER_S / rate_per_s, UINT64_C(1));
    r->full_ns = r->token_ns * burst;
    r->bucket_count = clients_max * BUCKETS_PER_CLIENT;
    while (chains < r->bucket_count) {
        chains *= 2;
    }
    r->chain_mask = chains - 1;
    r->buckets = ron_alloc_array(r->bucket_count, sizeof *r->buckets);
    r->chains = ron_alloc_array(chains, sizeof *r->chains);
    if (r->buckets == NULL || r->chains == NULL) {
        ron_free(r->buckets);
        ron_free(r->chains);
        *r = (struct http_rate){0};
        return RON_NOMEM;
    }
    for (uint32_t i = 0; i < chains; i++) {
        ron_list_init(&r->chains[i]);
    }
    ron_list_init(&r->idle);
    ron_mutex_init(&r->mu, RON_RANK_LEAF, "http-rate");
    return RON_OK;
}

void ron__http_rate_done(struct http_rate *r)
{
    if (r->token_ns != 0) {
        ron_mutex_done(&r->mu);
        ron_free(r->buckets);
        ron_free(r->chains);
    }
    *r = (struct http_rate){0};
}

static struct ron_list *chain_of(struct http_rate *r, const uint8_t key[HTTP_KEY_BYTES])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < HTTP_KEY_BYTES; i++) {
        hash = (hash ^ key[i]) * UINT64_C(0x100000001b3);
    }
    return &r->chains[(hash ^ hash >> 32) & r->chain_mask];
}

/* With the lock held. */
static struct http_bucket *find(struct ron_list *chain, const uint8_t key[HTTP_KEY_BYTES])
{
    RON_LIST_FOREACH(node, chain)
    {
        struct http_bucket *b = RON_LIST_ENTRY(node, struct http_bucket, hashed);
        if (memcmp(b->key, key, HTTP_KEY_BYTES) == 0) {
            return b;
        }
    }
    return NULL;
}

/* With the lock held: a bucket that nobody refers to, full. */
static struct http_bucket *take_unused(struct http_rate *r)
{
    struct ron_list_node *oldest;
    struct http_bucket *b;

    if (r->fresh < r->bucket_count) {
        return &r->buckets[r->fresh++];
    }
    oldest = ron_list_pop_front(&r->idle);
    RON_ASSERT(oldest != NULL); /* twice as many as connections */
    b = RON_LIST_ENTRY(oldest, struct http_bucket, idle);
    ron_list_remove(&b->hashed);
    ron_au64_store(&b->full_at_ns, 0);
    return b;
}

struct http_bucket *ron__http_rate_ref(struct http_rate *r, const uint8_t key[HTTP_KEY_BYTES])
{
    struct http_bucket *b;
    struct ron_list *chain;

    if (r->token_ns == 0) {
        return NULL;
    }
    chain = chain_of(r, key);
    ron_mutex_lock(&r->mu);
    b = find(chain, key);
    if (b == NULL) {
        b = take_unused(r);
        memcpy(b->key, key, HTTP_KEY_BYTES);
        ron_list_push_back(chain, &b->hashed);
    } else if (b->refs == 0) {
        ron_list_remove(&b->idle);
    }
    b->refs++;
    ron_mutex_unlock(&r->mu);
    return b;
}

void ron__http_rate_unref(struct http_rate *r, struct http_bucket *b)
{
    if (b == NULL) {
        return;
    }
    ron_mutex_lock(&r->mu);
    RON_ASSERT(b->refs > 0);
    b->refs--;
    if (b->refs == 0) {
        ron_list_push_back(&r->idle, &b->idle);
    }
    ron_mutex_unlock(&r->mu);
}

uint64_t ron__http_rate_take(const struct http_rate *r, struct http_bucket *b, uint64_t now_ns)
{
    uint64_t seen;

    if (b == NULL) {
        return 0;
    }
    seen = ron_au64_load(&b->full_at_ns);
    for (;;) {
        uint64_t next = RON_MAX(seen, now_ns) + r->token_ns;

        if (next > now_ns + r->full_ns) {
            return next - now_ns - r->full_ns;
        }
        if (ron_au64_cas(&b->full_at_ns, &seen, next)) {
            return 0;
        }
    }
}
