/* SPDX-License-Identifier: Apache-2.0 */
/* care.c - filling the index after a start, the scrub, and the task that does both.
 *
 * Place: cas; blocking.
 *
 * Invariants:
 *   I1 the load changes no object: it only learns names, sizes and times. An id that is in the
 *      index already (written meanwhile) is left as it is.
 *   I2 a folder is marked durable only after the folder above it was synced by this load.
 *
 * Memory: RON_CAS_INDEX_BYTES per object; a listing is never kept.
 * Failure: a folder that cannot be listed ends the load with its code; the index stays incomplete,
 * and everything works by looking at the disk. Its task ends and is restarted by its policy. */
#include <stdio.h>
#include <string.h>

#include "cas/cas_priv.h"
#include "ron/base/assert.h"

/* ---- load ------------------------------------------------------------------------------------ */

struct load {
    struct ron_cas *s;
    bool (*stop)(void *arg);
    void *arg;
    unsigned top;
    unsigned leaf;
    bool leaves[256];
    enum ron_rc rc;
};

/* Two digits in lower case, or -1. */
static int byte_of_name(const char *name)
{
    static const char digits[] = "0123456789abcdef";
    const char *high = name[0] == '\0' ? NULL : strchr(digits, name[0]);
    const char *low = high == NULL || name[1] == '\0' ? NULL : strchr(digits, name[1]);

    return low == NULL || name[2] != '\0' ? -1 : (int)((high - digits) * 16 + (low - digits));
}

static bool leaf_seen(void *arg, const char *name, bool is_dir)
{
    struct load *l = arg;
    int byte = byte_of_name(name);

    if (!is_dir || byte < 0) {
        ron_stat_add(&l->s->counts.strays, 1);
    } else {
        l->leaves[byte] = true;
    }
    return true;
}

/* An entry that somebody is still making may go again, with the file left: it does not count. */
static bool is_indexed(struct ron_cas *s, const struct ron_b3 *id)
{
    struct ron__cas_shard *sh = ron__cas_shard_of(s, id);
    const struct ron__cas_entry *e;
    bool found;

    ron_mutex_lock(&sh->mu);
    e = ron__cas_find(s, sh, id);
    found = e != NULL && (e->flags & (RON__CAS_READY | RON__CAS_BAD)) != 0;
    ron_mutex_unlock(&sh->mu);
    return found;
}

static bool object_seen(void *arg, const char *name, bool is_dir)
{
    struct load *l = arg;
    struct ron__cas_claim c;
    struct ron_b3 id;

    if (is_dir || !ron__cas_name_parse(name, l->top, l->leaf, &id)) {
        ron_stat_add(&l->s->counts.strays, 1);
        return true;
    }
    if (is_indexed(l->s, &id)) {
        return true; /* keeps I1 */
    }
    l->rc = ron__cas_claim_make(l->s, &id, &c, NULL);
    if (l->rc == RON_OK && !c.fresh) {
        ron__cas_unclaim(&c, 0, 0);
    } else if (l->rc == RON_OK) {
        l->rc = ron__cas_adopt(l->s, &c);
        l->rc = l->rc == RON_NOTFOUND ? RON_OK : l->rc; /* removed meanwhile */
    }
    return l->rc == RON_OK;
}

static enum ron_rc load_top(struct load *l, struct ron_err *err)
{
    struct ron_cas *s = l->s;
    const struct ron_disk_ops *disk = s->env->disk;
    struct ron_b3 id = {.bytes = {(uint8_t)l->top}};
    struct ron__cas_path top = ron__cas_path_of(s, &id, RON__CAS_TOP);
    enum ron_rc rc;

    memset(l->leaves, 0, sizeof l->leaves);
    rc = disk->list(s->env, top.s, leaf_seen, l, NULL);
    if (rc == RON_NOTFOUND) {
        return RON_OK;
    }
    if (rc == RON_INVALID) { /* no folder */
        ron_stat_add(&s->counts.strays, 1);
        return RON_OK;
    }
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "content store: cannot list %s", top.s);
    }
    RON_TRY(disk->sync_dir(s->env, top.s, err));
    for (l->leaf = 0; l->leaf < 256; l->leaf++) {
        if (!l->leaves[l->leaf]) {
            continue;
        }
        if (l->stop != NULL && l->stop(l->arg)) {
            return ron_err_set(err, RON_CANCELLED, "content store: the load was stopped");
        }
        ron__cas_leaf_known(s, l->top, l->leaf); /* keeps I2 */
        id.bytes[1] = (uint8_t)l->leaf;
        RON_TRY(disk->list(s->env, ron__cas_path_of(s, &id, RON__CAS_LEAF).s, object_seen, l, err));
        if (l->rc != RON_OK) {
            return ron_err_set(err, l->rc, "content store: cannot take in the objects of %s",
                               top.s);
        }
    }
    return RON_OK;
}

enum ron_rc ron_cas_load(struct ron_cas *s, bool (*stop)(void *arg), void *arg, struct ron_err *err)
{
    struct load l = {.s = s, .stop = stop, .arg = arg, .rc = RON_OK};

    RON_CHECK_MAGIC(s, RON__CAS_MAGIC);
    if (ron_cas_loaded(s)) {
        return RON_OK;
    }
    RON_TRY(s->env->disk->sync_dir(s->env, ron__cas_path_sub(s, "objects").s, err));
    for (l.top = 0; l.top < 256; l.top++) {
        RON_TRY(load_top(&l, err));
    }
    ron_au32_store(&s->loaded, 1);
    return RON_OK;
}

bool ron_cas_loaded(const struct ron_cas *s)
{
    return ron_au32_load(&s->loaded) != 0;
}

/* ---- scrub ----------------------------------------------------------------------------------- */

/* Claims the next object of the shard's round. False when the round has ended. */
static bool scrub_next(struct ron__cas_shard *sh, struct ron__cas_claim *ret_claim)
{
    bool found = false;
    uint32_t looks = 0;

    ron_mutex_lock(&sh->mu);
    while (!found && sh->scrub_hand < sh->slots_used) {
        struct ron__cas_entry *e = ron__cas_at(sh, sh->scrub_hand++);

        if (++looks % RON__CAS_SLOTS_PER_LOCK == 0) {
            ron_mutex_unlock(&sh->mu); /* let hits through */
            ron_mutex_lock(&sh->mu);
        }

        if ((e->flags & (RON__CAS_READY | RON__CAS_BUSY)) == RON__CAS_READY) {
            e->flags |= RON__CAS_BUSY;
            *ret_claim = (struct ron__cas_claim){.shard = sh, .entry = e, .flags = e->flags};
            found = true;
        }
    }
    if (!found) {
        sh->scrub_hand = 0;
    }
    ron_mutex_unlock(&sh->mu);
    return found;
}

static void scrub_one(struct ron_cas *s, struct ron__cas_claim *c)
{
    enum ron_rc rc = ron__cas_fetch(s, c, true, NULL, NULL);

    if (rc == RON_CORRUPT) {
        ron__cas_quarantine(s, c);
    } else if (rc == RON_NOTFOUND) {
        ron__cas_drop(s, c, true);
    } else if (rc == RON_OK) {
        ron__cas_unclaim(c, RON__CAS_VERIFIED, 0);
    } else {
        ron_stat_add(&s->counts.read_errors, 1);
        ron__cas_unclaim(c, 0, rc == RON_IO ? RON__CAS_VERIFIED : 0);
    }
}

uint64_t ron_cas_scrub(struct ron_cas *s, uint64_t budget_bytes)
{
    uint64_t done = 0;
    uint32_t ends = 0;

    RON_CHECK_MAGIC(s, RON__CAS_MAGIC);
    /* Stops when every shard has ended its round; a first end may have been left by the last call,
     * so that one without a result is followed by a whole round. */
    while (s->on_disk && done < RON_MAX(budget_bytes, UINT64_C(1)) &&
           ends < s->shard_count + (done == 0)) {
        struct ron__cas_claim c;
        uint32_t turn = ron_au32_load(&s->scrub_turn);

        if (scrub_next(&s->shards[turn & (s->shard_count - 1)], &c)) {
            done += c.entry->size;
            scrub_one(s, &c);
        } else {
            (void)ron_au32_add(&s->scrub_turn, 1);
            ends++;
        }
    }
    ron_stat_add(&s->counts.scrubbed_bytes, done);
    return done;
}

/* ---- the task -------------------------------------------------------------------------------- */

void ron_cas_tend(struct ron_cas *s)
{
    uint64_t used = ron_au64_load(&s->used);

    RON_CHECK_MAGIC(s, RON__CAS_MAGIC);
    (void)ron__cas_now_s(s); /* the clock of the hits */
    ron__cas_bury(s);
    if (used > s->opts.bytes_max) {
        ron__cas_evict_bytes(s, used - s->opts.bytes_max);
    }
}

static bool task_stops(void *arg)
{
    return ron_watch_value(arg) == RON_TASK_STOP;
}

static enum ron_rc task_run(struct ron_task *t, void *arg)
{
    struct ron_cas *s = arg;
    struct ron_watch *stop = ron_task_stop_watch(t);
    struct ron_err err = {0};
    uint64_t version = 0;
    uint64_t value = ron_watch_get(stop, &version);
    uint64_t debt_bytes = 0; /* scrubbed beyond what the rate allows: a large object at once */
    enum ron_rc rc = ron_cas_load(s, task_stops, stop, &err);

    if (rc != RON_OK && rc != RON_CANCELLED) {
        ron_task_set_error(t, &err);
        return rc;
    }
    while (value != RON_TASK_STOP) {
        struct ron_deadline next = ron_deadline_after_ms(ron_mono_ns(), RON_MS_PER_S);

        ron_cas_tend(s);
        if (s->opts.scrub_bytes_per_s > debt_bytes) {
            debt_bytes += ron_cas_scrub(s, s->opts.scrub_bytes_per_s - debt_bytes);
        }
        debt_bytes -= RON_MIN(debt_bytes, s->opts.scrub_bytes_per_s);
        rc = ron_watch_wait(stop, version, next, &value, &version);
        if (rc == RON_CANCELLED) {
            break;
        }
    }
    return RON_OK;
}

struct ron_task_def ron_cas_task(struct ron_cas *s)
{
    return (struct ron_task_def){
        .name = "cas",
        .kind = "cas",
        .mode = RON_TASK_BLOCKING,
        .role = RON_ROLE_STAGE,
        .run = task_run,
        .arg = s,
    };
}
