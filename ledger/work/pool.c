/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/work/pool.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

enum {
    CLASSES = 4,
    SLACK = 8192, /* for what readers add: entries that a few reversals refer to */
};

static const size_t class_bytes[CLASSES] = {
    32 << 10,                     /* a transfer or a few */
    256 << 10, 2 << 20, 12 << 20, /* a frame of 1 MiB of the shortest entries needs 8 */
};
/* Idle works kept: 16, 16, 16 and 24 MiB at most, if all their pages were touched. */
static const uint32_t class_idle[CLASSES] = {512, 64, 8, 2};

struct held {
    struct led_work work; /* first: what callers see */
    uint32_t class;
};

struct led_works {
    struct ron_mutex lock;
    struct led_work *idle[CLASSES];
    uint32_t idle_count[CLASSES];
    uint32_t idle_least[CLASSES]; /* since the last trim */
    struct led_works_stats stats;
};

enum ron_rc led_works_new(struct led_works **ret_works, struct ron_err *err)
{
    struct led_works *p = ron_alloc_zero(sizeof *p);

    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the pool of works");
    }
    ron_mutex_init(&p->lock, RON_RANK_LEAF, "ledger.works");
    *ret_works = p;
    return RON_OK;
}

static void destroy(struct led_work *w)
{
    ron_arena_done(&w->arena);
    ron_free(w);
}

void led_works_free(struct led_works *p)
{
    if (p == NULL) {
        return;
    }
    RON_ASSERT(p->stats.out == 0);
    for (size_t i = 0; i < CLASSES; i++) {
        while (p->idle[i] != NULL) {
            struct led_work *w = p->idle[i];

            p->idle[i] = w->next;
            destroy(w);
        }
    }
    ron_mutex_done(&p->lock);
    ron_free(p);
}

/* CLASSES when none is large enough. */
static uint32_t class_of(size_t arena_bytes)
{
    uint32_t class = 0;

    while (class < CLASSES && class_bytes[class] < arena_bytes + SLACK) {
        class ++;
    }
    return class;
}

static struct led_work *make(uint32_t class)
{
    struct held *h = ron_alloc_zero(sizeof *h);

    if (h == NULL) {
        return NULL;
    }
    if (ron_arena_init(&h->work.arena, class_bytes[class]) != RON_OK) {
        ron_free(h);
        return NULL;
    }
    h->class = class;
    return &h->work;
}

/* An idle one of the class, or room for a new one. */
static bool admit(struct led_works *p, uint32_t class, struct led_work **ret_idle, bool *ret_lone)
{
    bool ok;

    ron_mutex_lock(&p->lock);
    *ret_lone = p->stats.out == 0;
    ok = p->stats.out_bytes + class_bytes[class] <= LED_WORKS_MAX;
    if (ok) {
        p->stats.out++;
        p->stats.out_bytes += class_bytes[class];
        *ret_idle = p->idle[class];
        if (*ret_idle != NULL) {
            p->idle[class] = (*ret_idle)->next;
            p->idle_count[class]--;
            p->idle_least[class] = RON_MIN(p->idle_least[class], p->idle_count[class]);
            p->stats.idle--;
        }
    } else {
        p->stats.refused++;
    }
    ron_mutex_unlock(&p->lock);
    return ok;
}

static void leave(struct led_works *p, uint32_t class)
{
    p->stats.out--;
    p->stats.out_bytes -= class_bytes[class];
}

struct led_work *led_works_get(struct led_works *p, size_t arena_bytes)
{
    uint32_t class = class_of(arena_bytes);
    struct led_work *w = NULL;
    bool lone = false;

    if (class == CLASSES || !admit(p, class, &w, &lone)) {
        return NULL;
    }
    if (w == NULL) {
        w = make(class);
        if (w == NULL) {
            ron_mutex_lock(&p->lock);
            leave(p, class);
            p->stats.refused++;
            ron_mutex_unlock(&p->lock);
            return NULL;
        }
    }
    w->magic = LED_WORK_MAGIC;
    w->lone = lone;
    w->next = NULL;
    return w;
}

_Static_assert(offsetof(struct led_work, refusals) + sizeof(struct led_refusals) ==
                   sizeof(struct led_work),
               "nothing stands behind the refusals");

/* Zero but for its memory (W2); its large arrays are in the arena. The refusals are most of it and
 * seldom used, so only those that were are wiped. */
static void wipe(struct led_work *w)
{
    struct ron_arena arena = w->arena;

    ron_arena_clear(&arena);
    memset(w->refusals.items, 0, w->refusals.count * sizeof w->refusals.items[0]);
    memset(w, 0, offsetof(struct led_work, refusals.items));
    w->refusals.count = 0;
    w->arena = arena;
}

void led_works_put(struct led_works *p, struct led_work *w)
{
    uint32_t class = ((struct held *)w)->class;
    bool keep;

    RON_ASSERT(w->magic == LED_WORK_MAGIC);
    wipe(w);
    ron_mutex_lock(&p->lock);
    leave(p, class);
    keep = p->idle_count[class] < class_idle[class];
    if (keep) {
        w->next = p->idle[class];
        p->idle[class] = w;
        p->idle_count[class]++;
        p->stats.idle++;
    }
    ron_mutex_unlock(&p->lock);
    if (!keep) {
        destroy(w);
    }
}

void led_works_trim(struct led_works *p)
{
    struct led_work *unused = NULL;

    ron_mutex_lock(&p->lock);
    for (size_t i = 0; i < CLASSES; i++) {
        for (; p->idle_least[i] > 0; p->idle_least[i]--) {
            struct led_work *w = p->idle[i];

            p->idle[i] = w->next;
            p->idle_count[i]--;
            p->stats.idle--;
            w->next = unused;
            unused = w;
        }
        p->idle_least[i] = p->idle_count[i];
    }
    ron_mutex_unlock(&p->lock);
    while (unused != NULL) {
        struct led_work *next = unused->next;

        destroy(unused);
        unused = next;
    }
}

void led_works_stats(struct led_works *p, struct led_works_stats *ret_stats)
{
    ron_mutex_lock(&p->lock);
    *ret_stats = p->stats;
    ron_mutex_unlock(&p->lock);
}
