/* SPDX-License-Identifier: Apache-2.0 */
/* evict.c - the byte cap: counting, choosing what goes, free space of the disk.
 *
 * Place: cas. Who is evicted: the shards take turns; in a shard a hand moves over the slots, looks
 * at the next SAMPLE objects that may go, and the oldest of them goes. Age is the time since
 * the last use; for an object that was used again after it was written (WARM) it counts a quarter,
 * so that a flood of things asked for once does not wash away what is asked for often. This is the
 * LRU order to within the sample, without a list that every hit would have to change.
 * After a start the time of the last write (the file's mtime) stands for the last use: reading
 * leaves no trace on disk, so a restart costs no writes and forgets who was warm.
 *
 * Invariants:
 *   I1 used never exceeds bytes_max by a reservation (the load may start above; tend brings it
 *      down).
 *   I2 what is pinned, held or claimed does not go.
 *
 * Threads: any that may block. An eviction is not synced: after a crash the object may be back,
 * which is no harm.
 * Failure: RON_LIMIT when nothing may go, or the code of the removal that failed. */
#include "cas/cas_priv.h"
#include "ron/base/assert.h"

enum {
    SAMPLE = 16, /* as good as exact LRU to a few percent, says the literature on sampling */
};

/* ---- choosing -------------------------------------------------------------------------------- */

static bool may_go(const struct ron__cas_entry *e)
{
    return (e->flags & (RON__CAS_READY | RON__CAS_BUSY)) == RON__CAS_READY && e->pins == 0 &&
           (e->obj == NULL || e->obj->refs == 0); /* keeps I2 */
}

static uint32_t age_of(const struct ron__cas_entry *e, uint32_t now_s)
{
    uint32_t age_s = e->stamp_s < now_s ? now_s - e->stamp_s : 0; /* the wall may go back */

    return (e->flags & RON__CAS_WARM) != 0 ? age_s / 4 : age_s;
}

/* Under the lock. *left counts down the slots not yet looked at in this round. */
static struct ron__cas_entry *choose(struct ron__cas_shard *sh, uint32_t now_s, uint32_t *left)
{
    uint32_t looks = RON_MIN(*left, (uint32_t)RON__CAS_SLOTS_PER_LOCK);
    struct ron__cas_entry *best = NULL;
    unsigned seen = 0;

    while (looks > 0 && seen < SAMPLE) {
        struct ron__cas_entry *e;

        if (sh->hand >= sh->slots_used) {
            sh->hand = 0;
        }
        e = ron__cas_at(sh, sh->hand++);
        looks--;
        (*left)--;
        if (may_go(e)) {
            seen++;
            best = best == NULL || age_of(e, now_s) > age_of(best, now_s) ? e : best;
        }
    }
    return best;
}

/* One object of the shard. RON_NOTFOUND when none may go. */
static enum ron_rc evict_one(struct ron_cas *s, struct ron__cas_shard *sh, uint64_t *ret_bytes)
{
    uint32_t now_s = ron__cas_now_s(s);
    struct ron__cas_claim c = {.shard = sh};
    enum ron_rc rc = RON_OK;
    uint32_t left;
    uint64_t size;

    ron_mutex_lock(&sh->mu);
    left = sh->slots_used;
    while ((c.entry = choose(sh, now_s, &left)) == NULL && left > 0) {
        ron_mutex_unlock(&sh->mu); /* let hits through */
        ron_mutex_lock(&sh->mu);
    }
    if (c.entry == NULL) {
        ron_mutex_unlock(&sh->mu);
        return RON_NOTFOUND;
    }
    size = c.entry->size;
    if (s->on_disk) {
        c.entry->flags = (uint16_t)((c.entry->flags & ~RON__CAS_READY) | RON__CAS_BUSY);
        ron_mutex_unlock(&sh->mu);
        rc = s->env->disk->remove(s->env, ron__cas_path_of(s, &c.entry->id, RON__CAS_FILE).s, NULL);
        if (rc != RON_OK && rc != RON_NOTFOUND) {
            ron__cas_unclaim(&c, RON__CAS_READY, 0);
            return rc;
        }
        ron_mutex_lock(&sh->mu);
    }
    ron__cas_drop_unlock(s, &c, true);
    ron_stat_add(&s->counts.evictions, 1);
    ron_stat_add(&s->counts.evicted_bytes, size);
    *ret_bytes = size;
    return RON_OK;
}

/* One object of any shard. */
static enum ron_rc evict_any(struct ron_cas *s, uint64_t *ret_bytes)
{
    enum ron_rc rc = RON_NOTFOUND;

    for (uint32_t i = 0; i < s->shard_count; i++) {
        uint32_t turn = ron_au32_add(&s->evict_turn, 1);
        enum ron_rc one = evict_one(s, &s->shards[turn & (s->shard_count - 1)], ret_bytes);

        if (one == RON_OK) {
            return RON_OK;
        }
        rc = one == RON_NOTFOUND ? rc : one;
    }
    return rc;
}

void ron__cas_evict_bytes(struct ron_cas *s, uint64_t bytes)
{
    uint64_t freed = 0;
    uint64_t one = 0;

    while (freed < bytes && evict_any(s, &one) == RON_OK) {
        freed += one;
    }
}

/* ---- counting -------------------------------------------------------------------------------- */

enum ron_rc ron__cas_reserve(struct ron_cas *s, uint64_t bytes, struct ron_err *err)
{
    uint64_t used = ron_au64_load(&s->used);

    for (;;) {
        uint64_t freed = 0;
        enum ron_rc rc;

        if (bytes <= s->opts.bytes_max && used <= s->opts.bytes_max - bytes) {
            if (ron_au64_cas(&s->used, &used, used + bytes)) {
                return RON_OK; /* keeps I1 */
            }
            continue;
        }
        rc = bytes > s->opts.bytes_max ? RON_NOTFOUND : evict_any(s, &freed);
        if (rc != RON_OK) {
            rc = rc == RON_NOTFOUND ? RON_LIMIT : rc;
            return ron_err_set(err, rc, "content store: %llu of %llu bytes in use, none can go",
                               (unsigned long long)used, (unsigned long long)s->opts.bytes_max);
        }
        used = ron_au64_load(&s->used);
    }
}

void ron__cas_unreserve(struct ron_cas *s, uint64_t bytes)
{
    uint64_t old = ron_au64_add(&s->used, UINT64_MAX - bytes + 1);

    RON_ASSERT(old >= bytes);
}

enum ron_rc ron__cas_check_floor(struct ron_cas *s, uint64_t bytes, struct ron_err *err)
{
    uint64_t need = ron_sat_add_u64(s->opts.free_floor_bytes, bytes);

    if (!s->on_disk || s->opts.free_floor_bytes == RON_CAS_NO_FLOOR) {
        return RON_OK;
    }
    for (int round = 0; round < 2; round++) {
        uint64_t free_bytes = 0;
        enum ron_rc rc = s->env->disk->free_bytes(s->env, s->dir, &free_bytes);

        if (rc != RON_OK) {
            return ron_err_set(err, rc, "content store: free space is not known");
        }
        if (free_bytes >= need) {
            return RON_OK;
        }
        if (round == 0) {
            ron__cas_evict_bytes(s, need - free_bytes);
        }
    }
    return ron_err_set(err, RON_LIMIT, "content store: the disk would have less than %llu bytes",
                       (unsigned long long)s->opts.free_floor_bytes);
}

enum ron_rc ron__cas_evict_for(struct ron_cas *s, const struct ron_b3 *id)
{
    uint64_t bytes = 0;
    enum ron_rc rc = evict_one(s, ron__cas_shard_of(s, id), &bytes);

    return rc == RON_NOTFOUND ? RON_LIMIT : rc;
}

enum ron_rc ron__cas_claim_make(struct ron_cas *s, const struct ron_b3 *id,
                                struct ron__cas_claim *ret_claim, struct ron_err *err)
{
    enum ron_rc rc = RON_FULL;

    for (int i = 0; i < RON__CAS_FULL_TRIES && rc == RON_FULL; i++) {
        rc = ron__cas_claim(s, id, true, ret_claim, NULL);
        if (rc == RON_FULL) {
            enum ron_rc one = ron__cas_evict_for(s, id);

            rc = one == RON_OK ? rc : one;
        }
    }
    return rc == RON_OK ? rc : ron_err_set(err, rc, "content store: no entry for an object");
}
