/* SPDX-License-Identifier: Apache-2.0 */
/* oneshot.c - a reply slot that either side may leave first.
 *
 * Place: beside chan.c. One small allocation per request; the slot is freed by whoever leaves last.
 *
 * States of the answering side: PENDING -> ANSWERED (ron_oneshot_answer) or DROPPED
 * (ron_oneshot_drop). The asker is PRESENT until ron_oneshot_leave. Invariants:
 *   I1 a value is owned by the answerer until ANSWERED, then by the slot, then by the asker who
 *      took it.
 *   I2 the slot lives until the answerer has left its state PENDING and the asker is gone.
 * Guards: all fields by mu; `asker_gone` is also readable without it. */
#include "ron/chan/oneshot.h"

#include "chan/chan_testing.h"
#include "lot.h"
#include "ron/base/alloc.h"

enum { ONESHOT_MAGIC = 0x6f6e6531 };

struct ron_oneshot {
    uint32_t magic;
    enum { PENDING, ANSWERED, DROPPED } answer;
    void *value; /* non-NULL while the slot owns one */
    void (*drop_value)(void *value);
    struct ron_mutex mu;
    struct ron_lot lot;
    struct ron_wait_node node; /* of a polling asker */
    struct ron_au32 asker_gone;
};

enum ron_rc ron_oneshot_new(void (*drop_value)(void *value), struct ron_oneshot **ret_slot)
{
    struct ron_oneshot *s = ron_alloc_zero(sizeof *s);

    if (s == NULL) {
        return RON_NOMEM;
    }
    RON_ASSERT(drop_value != NULL);
    s->magic = ONESHOT_MAGIC;
    s->answer = PENDING;
    s->drop_value = drop_value;
    ron_mutex_init(&s->mu, RON_RANK_ONESHOT, "oneshot");
    ron__lot_init(&s->lot);
    *ret_slot = s;
    return RON_OK;
}

static void destroy(struct ron_oneshot *s)
{
    if (s->value != NULL) {
        s->drop_value(s->value);
    }
    RON_ASSERT(ron__lot_idle(&s->lot));
    ron_mutex_done(&s->mu);
    s->magic = 0;
    ron_free(s);
}

/* The answering side leaves. RON_CANCELLED: nobody waits, the value was not taken. */
static enum ron_rc finish(struct ron_oneshot *s, int answer, void *value)
{
    struct ron_wake wake;
    bool gone;

    RON_ASSERT(s->magic == ONESHOT_MAGIC);
    ron_mutex_lock(&s->mu);
    RON_ASSERT_MSG(s->answer == PENDING, "a reply slot is answered or dropped once");
    s->answer = answer == ANSWERED ? ANSWERED : DROPPED;
    gone = ron_au32_load(&s->asker_gone) != 0;
    if (!gone) {
        s->value = value;
    }
    /* The waiter is taken out under the lock; its thread or task outlives the slot, so the wake-up
     * itself needs nothing of the slot, which the asker may free as soon as the lock is
     * released. */
    wake = ron__lot_take(&s->lot);
    ron_mutex_unlock(&s->mu);
    if (gone) {
        destroy(s);
        return RON_CANCELLED;
    }
    ron__wake(wake);
    return RON_OK;
}

enum ron_rc ron_oneshot_answer(struct ron_oneshot *s, void *value)
{
    RON_ASSERT(value != NULL);
    return finish(s, ANSWERED, value);
}

void ron_oneshot_drop(struct ron_oneshot *s)
{
    (void)finish(s, DROPPED, NULL); /* There is no value to keep. */
}

bool ron_oneshot_abandoned(const struct ron_oneshot *s)
{
    return ron_au32_load(&s->asker_gone) != 0;
}

/* `waker` is that of a polling asker, NULL for a waiting thread. It is set under the lock, because
 * the answerer may be reading the one of the last look. */
static enum ron_rc look(struct ron_oneshot *s, struct ron_wait_node *node, struct ron_waker *waker,
                        void **ret_value)
{
    enum ron_rc rc = RON_AGAIN;

    RON_ASSERT(s->magic == ONESHOT_MAGIC);
    ron_mutex_lock(&s->mu);
    ron__lot_leave(&s->lot, node);
    ron__lot_leave(&s->lot, &s->node); /* A wait takes the place of the poll before it. */
    node->_waker = waker;
    if (s->answer == ANSWERED && s->value != NULL) {
        *ret_value = RON_TAKE(s->value); /* I1 */
        rc = RON_OK;
    } else if (s->answer != PENDING) {
        rc = RON_CLOSED; /* Dropped, or taken before. */
    } else {
        ron__lot_enter(&s->lot, node);
    }
    ron_mutex_unlock(&s->mu);
    return rc;
}

enum ron_rc ron_oneshot_poll(struct ron_oneshot *s, struct ron_waker *waker, void **ret_value)
{
    return look(s, &s->node, waker, ret_value);
}

enum ron_rc ron_oneshot_wait(struct ron_oneshot *s, struct ron_deadline deadline, void **ret_value)
{
    struct ron_wait_node node;
    enum ron_rc waited = RON_OK;
    enum ron_rc rc;

    ron_blocking_point("oneshot");
    ron_wait_node_init(&node, NULL);
    for (;;) {
        rc = look(s, &node, NULL, ret_value);
        if (rc != RON_AGAIN || waited != RON_OK) {
            break;
        }
        waited = ron_park_until(deadline, "oneshot");
    }
    if (rc == RON_AGAIN) {
        ron_mutex_lock(&s->mu);
        ron__lot_leave(&s->lot, &node);
        ron_mutex_unlock(&s->mu);
        rc = waited;
    }
    return rc;
}

void ron_oneshot_leave(struct ron_oneshot *s)
{
    bool last;

    RON_ASSERT(s->magic == ONESHOT_MAGIC);
    ron_mutex_lock(&s->mu);
    RON_ASSERT(ron_au32_load(&s->asker_gone) == 0);
    ron__lot_leave(&s->lot, &s->node);
    ron_au32_store(&s->asker_gone, 1);
    last = s->answer != PENDING;
    ron_mutex_unlock(&s->mu);
    if (last) {
        destroy(s);
    }
}
