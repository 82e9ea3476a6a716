/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/engine.c - the engine: leases, its replacement, and the durable head; the contract is
 * in engine.h. */
#include "ledger/core/engine.h"

#include <string.h>

#include "ledger/guard/frozen.h"
#include "ron/base/assert.h"

/* ---- leases ---------------------------------------------------------------------------------- */

bool led_engine_lease(struct led_engine *e)
{
    bool ok;

    ron_mutex_lock(&e->lock);
    ok = led_engine_mode(e) != LED_SWAPPING;
    e->leases += ok;
    ron_mutex_unlock(&e->lock);
    return ok;
}

void led_engine_unlease(struct led_engine *e)
{
    ron_mutex_lock(&e->lock);
    RON_ASSERT(e->leases > 0);
    if (--e->leases == 0) {
        ron_cond_broadcast(&e->idle);
    }
    ron_mutex_unlock(&e->lock);
}

/* ---- the book: two tasks may use it, one at a time ------------------------------------------- */

bool led_engine_take_book(struct led_engine *e)
{
    bool ok;

    ron_mutex_lock(&e->lock);
    ok = led_engine_mode(e) != LED_SWAPPING && !e->book_followed;
    e->leases += ok;
    e->book_read = ok;
    ron_mutex_unlock(&e->lock);
    return ok;
}

void led_engine_give_book(struct led_engine *e)
{
    ron_mutex_lock(&e->lock);
    RON_ASSERT(e->leases > 0 && e->book_read);
    e->leases--;
    e->book_read = false;
    if (e->leases == 0 || e->shared) {
        ron_cond_broadcast(&e->idle);
    }
    ron_mutex_unlock(&e->lock);
}

bool led_engine_follow_book(struct led_engine *e)
{
    bool ok;

    ron_mutex_lock(&e->lock);
    while (e->book_read) { /* a round of the sequencer, which waits for nothing */
        (void)ron_cond_wait_until(&e->idle, &e->lock, ron_deadline_never());
    }
    ok = led_engine_mode(e) != LED_SWAPPING;
    e->leases += ok;
    e->book_followed = ok;
    ron_mutex_unlock(&e->lock);
    return ok;
}

void led_engine_leave_book(struct led_engine *e)
{
    ron_mutex_lock(&e->lock);
    RON_ASSERT(e->leases > 0 && e->book_followed);
    e->leases--;
    e->book_followed = false;
    ron_cond_broadcast(&e->idle);
    ron_mutex_unlock(&e->lock);
    led_news_wake(e->news);
}

bool led_engine_set_leading(struct led_engine *e, bool leading)
{
    enum led_mode from = leading ? LED_FOLLOWING : LED_RUNNING;
    bool ok;

    ron_mutex_lock(&e->lock);
    ok = led_engine_mode(e) == from;
    if (ok) {
        ron_au32_store(&e->mode, leading ? LED_RUNNING : LED_FOLLOWING);
    }
    ron_mutex_unlock(&e->lock);
    return ok;
}

bool led_engine_has(const struct led_engine *e, struct led_work *w)
{
    if (w->generation == 0) {
        w->generation = e->generation;
    }
    return w->generation == e->generation;
}

/* ---- a new engine, the head ------------------------------------------------------------------ */

enum ron_rc led_engine_made(struct led_engine *e, struct ron_err *err)
{
    struct led_log_head head;
    uint32_t leases;

    ron_mutex_lock(&e->lock);
    leases = e->leases;
    ron_mutex_unlock(&e->lock);
    RON_ASSERT_MSG(leases == 0, "S2: the engine is replaced while no lease is out");
    led_log_head(e->live.log, &head);
    memcpy(e->hash_key, e->live.hash_key, sizeof e->hash_key);
    e->preval.index = e->live.index;
    e->preval.hash_key = e->hash_key;
    e->generation++;
    ron_mutex_lock(&e->head_lock);
    e->head_root = head.root;
    e->head_ms = head.time_ms;
    ron_au64_store(&e->durable_seq, head.last_seq);
    ron_mutex_unlock(&e->head_lock);
    ron_au64_store(&e->news->durable_works, 0);
    ron_au32_store(&e->news->abort_wanted, 0);
    ron_au64_store(&e->news->indexed_seq, e->live.indexed_seq);
    ron_au64_store(&e->news->log_bytes, head.bytes);
    led_feed_drop(led_feed_take(e->feed)); /* its keys are hashed for the engine before */
    return led_frozen_apply(e->frozen, led_seq_book_mut(e->live.seq), err);
}

void led_engine_head(struct led_engine *e, struct led_head *ret_head)
{
    ron_mutex_lock(&e->head_lock);
    *ret_head = (struct led_head){.seq = ron_au64_load(&e->durable_seq), .ts_ms = e->head_ms};
    ret_head->root = e->head_root;
    ron_mutex_unlock(&e->head_lock);
}

void led_engine_publish(struct led_engine *e, struct led_publish *p, const struct led_head *head)
{
    struct led_root_event event = {.seq = head->seq, .ts_ms = head->ts_ms};

    event.root = head->root;
    ron_mutex_lock(&e->head_lock);
    e->head_root = head->root;
    e->head_ms = head->ts_ms;
    ron_au64_store(&e->durable_seq, head->seq);
    ron_mutex_unlock(&e->head_lock);
    led_roots_publish(p->roots, &event);
}
