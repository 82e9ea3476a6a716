/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - latest value with a version.
 *
 * Place: beside chan.c, on the same waiting lots. The value and version are also kept in atomics so
 * that probes read them without the lock; a reader that needs the pair to match takes the lock.
 *
 * Invariants:
 *   I1 version rises by one with each set and never falls.
 *   I2 a waiter is in the lot only if, under the lock, its `seen` equalled the version: a set that
 *      comes later finds it there. So the last value cannot be missed.
 * Threads: any number of readers; one writing task at a time (last write wins if there were
 * two). */
#include "ron/chan/watch.h"

#include "chan/chan_priv.h"
#include "lot.h"
#include "ron/base/alloc.h"

enum { WATCH_MAGIC = 0x77617463 };

struct ron_watch {
    uint32_t magic;
    const char *name;
    struct ron_registry *registry;
    struct ron_reg_entry entry;
    struct ron_mutex mu;
    struct ron_lot lot;      /* guarded by mu */
    struct ron_au64 value;   /* written under mu */
    struct ron_au64 version; /* written under mu, after value */
    struct ron_stat sets;
};

static void fill_row(struct ron_reg_entry *e, struct ron_reg_row *row)
{
    const struct ron_watch *w = RON_CONTAINER_OF(e, struct ron_watch, entry);

    row->state = "open";
    row->depth = 1;
    ron_reg_row_sample(row, "watch_sets_total", "watch", false, ron_stat_get(&w->sets));
}

enum ron_rc ron_watch_new(const struct ron_watch_opts *opts, struct ron_watch **ret_watch,
                          struct ron_err *err)
{
    struct ron_watch *w = ron_alloc_zero(sizeof *w);
    enum ron_rc rc;

    if (w == NULL) {
        return ron_err_set(err, RON_NOMEM, "watch '%s': no memory", opts->name);
    }
    w->magic = WATCH_MAGIC;
    w->name = opts->name;
    w->registry = opts->registry;
    ron__lot_init(&w->lot);
    ron_mutex_init(&w->mu, RON_RANK_WATCH, opts->name);
    ron_au64_store(&w->value, opts->value);
    ron_au64_store(&w->version, 1);
    rc = ron_registry_add(w->registry, &w->entry, RON_REG_WATCH,
                          &(struct ron_reg_desc){.name = opts->name,
                                                 .policy = "last_write_wins",
                                                 .producers = opts->producers,
                                                 .consumers = opts->consumers,
                                                 .drop = "older values are replaced",
                                                 .capacity = 1},
                          fill_row, err);
    if (rc != RON_OK) {
        ron_mutex_done(&w->mu);
        ron_free(w);
        return rc;
    }
    *ret_watch = w;
    return RON_OK;
}

void ron_watch_free(struct ron_watch *w)
{
    if (w == NULL) {
        return;
    }
    RON_ASSERT(w->magic == WATCH_MAGIC);
    ron_registry_remove(w->registry, &w->entry);
    RON_ASSERT(ron__lot_idle(&w->lot));
    ron_mutex_done(&w->mu);
    w->magic = 0;
    ron_free(w);
}

void ron_watch_set(struct ron_watch *w, uint64_t value)
{
    ron_mutex_lock(&w->mu);
    ron_au64_store(&w->value, value);
    ron_au64_add(&w->version, 1);
    ron_stat_bump(&w->sets, 1);
    ron__lot_wake_all(&w->lot, &w->mu);
    ron_mutex_unlock(&w->mu);
}

uint64_t ron_watch_value(const struct ron_watch *w)
{
    return ron_au64_load(&w->value);
}

uint64_t ron_watch_get(struct ron_watch *w, uint64_t *ret_version)
{
    uint64_t value;

    ron_mutex_lock(&w->mu);
    value = ron_au64_load(&w->value);
    *ret_version = ron_au64_load(&w->version);
    ron_mutex_unlock(&w->mu);
    return value;
}

enum ron_rc ron_watch_poll(struct ron_watch *w, uint64_t seen, struct ron_wait_node *node,
                           uint64_t *ret_value, uint64_t *ret_version)
{
    enum ron_rc rc = RON_AGAIN;
    uint64_t version;

    ron_mutex_lock(&w->mu);
    ron__lot_leave(&w->lot, node);
    version = ron_au64_load(&w->version);
    if (version != seen) {
        *ret_value = ron_au64_load(&w->value);
        *ret_version = version;
        rc = RON_OK;
    } else {
        ron__lot_enter(&w->lot, node);
    }
    ron_mutex_unlock(&w->mu);
    return rc;
}

enum ron_rc ron_watch_wait(struct ron_watch *w, uint64_t seen, struct ron_deadline deadline,
                           uint64_t *ret_value, uint64_t *ret_version)
{
    struct ron_wait_node node;
    enum ron_rc waited = RON_OK;
    enum ron_rc rc;

    ron_blocking_point(w->name);
    ron_wait_node_init(&node, NULL);
    for (;;) {
        rc = ron_watch_poll(w, seen, &node, ret_value, ret_version);
        if (rc == RON_OK || waited != RON_OK) {
            break;
        }
        waited = ron_park_until(deadline, w->name);
    }
    ron_watch_forget(w, &node);
    return rc == RON_OK ? RON_OK : waited;
}

void ron_watch_forget(struct ron_watch *w, struct ron_wait_node *node)
{
    ron_mutex_lock(&w->mu);
    ron__lot_leave(&w->lot, node);
    ron_mutex_unlock(&w->mu);
}
