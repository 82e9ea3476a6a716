/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/find.c - lookups: led_index_maybe for loops, led_index_find and led_index_skip for
 * threads that may wait for the disk.
 *
 * A set stays pinned for the whole lookup, and the pieces it names stay in the store as long:
 * whatever is committed in between, its files stay open and their bytes unchanged.
 *
 * Threads: any. Failure: led_index_maybe has none; the others give codes of the store, RON_CORRUPT
 * for a damaged piece. */
#include "ledger/index/priv.h"

#include "ron/base/assert.h"

uint64_t led_index_applied(const struct led_index *ix)
{
    return ron_au64_load(ix->applied);
}

/* ---- filters --------------------------------------------------------------------------------- */

enum {
    SIDE_BY_SIDE = 16, /* runs that are asked at once, so that their cache misses overlap */
    AHEAD = 16,        /* ids of a batch whose slots of the tail are on their way */
};

struct ask {
    const struct led_filter *filter;
    const struct led_group *group;
    uint64_t part;
    uint16_t rest;
};

static inline struct ask ask_of(const struct led_filter *f, uint64_t hash)
{
    uint64_t left;
    uint64_t group = led__scale(hash, f->groups, &left);
    uint64_t part = led__scale(left, LED_GROUP_PARTS, &left);

    return (struct ask){
        .filter = f, .group = &f->group[group], .part = part, .rest = (uint16_t)(left >> 48)};
}

static inline uint32_t ask_begin(const struct ask *a)
{
    return a->group->base + (a->part == 0 ? 0 : a->group->upto[a->part - 1]);
}

static inline bool answer(const struct ask *a)
{
    const uint64_t ones = UINT64_C(0x0001000100010001);
    const uint16_t *rests = a->filter->rests;
    uint32_t end = a->group->base + a->group->upto[a->part];

    if (a->group->upto[LED_GROUP_PARTS - 1] == LED_GROUP_FULL) {
        return true;
    }
    /* Four at a time, nearly always once: a loop over two or three would be guessed wrong. */
    for (uint32_t i = ask_begin(a); i < end; i += 4) {
        uint64_t differ = led__load64(&rests[i]) ^ (a->rest * ones);

        if (end - i < 4) {
            differ |= UINT64_MAX << (16 * (end - i));
        }
        if (((differ - ones) & ~differ & (ones << 15)) != 0) {
            return true;
        }
    }
    return false;
}

static bool slice_maybe(const struct led_slice *slice, uint64_t hash)
{
    struct ask a;

    if (hash < slice->cut.lo || hash > slice->cut.hi || slice->cut.piece == slice->cut.pieces) {
        return false;
    }
    a = ask_of(&slice->run->filter, hash);
    return answer(&a);
}

static bool ask_all(struct ask *asks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        __builtin_prefetch(&asks[i].filter->rests[ask_begin(&asks[i])]);
    }
    for (size_t i = 0; i < count; i++) {
        if (answer(&asks[i])) {
            return true;
        }
    }
    return false;
}

static bool runs_maybe(const struct led_set_tree *tree, enum led_index_kind kind, uint64_t hash,
                       const struct led_edge *edge)
{
    struct ask asks[SIDE_BY_SIDE];
    size_t count = 0;

    for (uint32_t i = 0; i < tree->count; i++) {
        const struct led_slice *slice = &tree->slices[i];

        if (hash < slice->cut.lo || hash > slice->cut.hi ||
            !led__edges_hold(&slice->run->edges[kind], edge)) {
            continue;
        }
        asks[count] = ask_of(&slice->run->filter, hash);
        __builtin_prefetch(asks[count].group);
        if (++count == SIDE_BY_SIDE) {
            if (ask_all(asks, count)) {
                return true;
            }
            count = 0;
        }
    }
    return ask_all(asks, count);
}

static bool set_maybe(const struct led_set *set, enum led_index_kind kind, uint64_t hash,
                      struct ron_str text)
{
    const struct led_set_tree *tree = &set->trees[LED_TREE_KEYS];
    struct led_edge edge;

    if (led__tail_has(tree->tail, hash)) {
        return true;
    }
    edge = led__edge_of(text);
    return led__edges_hold(&set->edges[kind], &edge) && runs_maybe(tree, kind, hash, &edge);
}

bool led_index_maybe(const struct led_index *ix, enum led_index_kind kind, struct led_key key,
                     struct ron_str text)
{
    struct led_pin pin = led__sets_pin(ix->sets);
    bool maybe = set_maybe(pin.set, kind, led__index_hash(kind, key), text);

    led__sets_unpin(ix->sets, pin);
    return maybe;
}

bool led_index_maybe_ids(const struct led_index *ix, const struct led_entry *entries,
                         const struct led_prep *preps, size_t count)
{
    struct led_pin pin = led__sets_pin(ix->sets);
    const struct led_tail *tail = pin.set->trees[LED_TREE_KEYS].tail;
    bool maybe = false;

    for (size_t i = 0; i < RON_MIN(count, (size_t)AHEAD); i++) {
        led__tail_prefetch(tail, led__index_hash(LED_INDEX_ID, preps[i].id));
    }
    for (size_t i = 0; i < count && !maybe; i++) {
        if (i + AHEAD < count) {
            led__tail_prefetch(tail, led__index_hash(LED_INDEX_ID, preps[i + AHEAD].id));
        }
        maybe = set_maybe(pin.set, LED_INDEX_ID, led__index_hash(LED_INDEX_ID, preps[i].id),
                          entries[i].id);
    }
    led__sets_unpin(ix->sets, pin);
    return maybe;
}

/* ---- entries --------------------------------------------------------------------------------- */

struct found {
    uint64_t seqs[LED_INDEX_FOUND_MAX];
    size_t count;
};

/* The smallest ones stay, each once. */
static void found_add(struct found *f, uint64_t seq)
{
    size_t at = f->count;

    while (at > 0 && f->seqs[at - 1] >= seq) {
        at--;
    }
    if (at == LED_INDEX_FOUND_MAX || (at < f->count && f->seqs[at] == seq)) {
        return;
    }
    f->count = RON_MIN(f->count + 1, (size_t)LED_INDEX_FOUND_MAX);
    memmove(&f->seqs[at + 1], &f->seqs[at], (f->count - at - 1) * sizeof f->seqs[0]);
    f->seqs[at] = seq;
}

/* `room` has the bytes where the store keeps none in memory. */
static enum ron_rc look_piece(const struct led_index *ix, const struct led_slice *slice, uint32_t p,
                              uint8_t room[LED_PIECE_BYTES], struct led_piece_view *ret_view,
                              struct ron_err *err)
{
    const struct led_run *run = slice->run;
    const struct led_piece_at *at = &run->pieces[p];

    if (at->kept != NULL) {
        return led__piece_open(at->kept, at->kept_len, false, 0, ret_view, err);
    }
    RON_TRY(ix->store->ops->read(ix->store, run->file, p, room, err));
    return led__piece_open(room, LED_PIECE_BYTES, true, led__piece_seed(run->mark, run->id, p),
                           ret_view, err);
}

/* Entries of `want.hash` in a run from want.seq on, at most LED_INDEX_FOUND_MAX. */
static enum ron_rc look_run(const struct led_index *ix, const struct led_slice *slice,
                            struct led_ent want, struct found *found, struct ron_err *err)
{
    uint8_t room[LED_PIECE_BYTES];
    size_t seen = 0;

    if (!slice_maybe(slice, want.hash)) {
        return RON_OK;
    }
    for (uint32_t p = led__slice_piece(slice, want); p < slice->cut.pieces; p++) {
        struct led_piece_view view;

        if (slice->run->pieces[p].first.hash > want.hash) {
            return RON_OK;
        }
        RON_TRY(look_piece(ix, slice, p, room, &view, err));
        for (uint32_t i = led__piece_lower(&view, want); i < view.count; i++) {
            struct led_ent e = led__piece_at(&view, i);

            if (e.hash != want.hash || seen++ == LED_INDEX_FOUND_MAX) {
                return RON_OK;
            }
            found_add(found, e.seq);
        }
    }
    return RON_OK;
}

static void look_tail(const struct led_tail *tail, struct led_ent want, struct found *found)
{
    if (tail->slots == NULL) {
        uint64_t seen = ron_au64_load(&tail->seen);

        for (uint64_t i = 0; i < seen; i++) {
            if (tail->entries[i].hash == want.hash && tail->entries[i].seq >= want.seq) {
                found_add(found, tail->entries[i].seq);
            }
        }
        return;
    }
    for (uint32_t at = (uint32_t)want.hash & tail->slot_mask;; at = (at + 1) & tail->slot_mask) {
        uint64_t slot = ron_au64_load(&tail->slots[at]);
        const struct led_ent *e;

        if (slot == 0) {
            return;
        }
        e = &tail->entries[(uint32_t)slot - 1];
        if (slot >> 32 == want.hash >> 32 && e->hash == want.hash) {
            found_add(found, e->seq);
        }
    }
}

static enum ron_rc look_tree(struct led_index *ix, uint32_t tree, struct led_ent want,
                             struct found *found, struct ron_err *err)
{
    struct led_pin pin = led__sets_pin(ix->sets);
    const struct led_set_tree *t = &pin.set->trees[tree];
    enum ron_rc rc = RON_OK;

    look_tail(t->tail, want, found);
    for (uint32_t i = 0; rc == RON_OK && i < t->count; i++) {
        rc = look_run(ix, &t->slices[i], want, found, err);
    }
    led__sets_unpin(ix->sets, pin);
    return rc;
}

enum ron_rc led_index_find(struct led_index *ix, enum led_index_kind kind, struct led_key key,
                           uint64_t ret_seqs[LED_INDEX_FOUND_MAX], size_t *ret_count,
                           struct ron_err *err)
{
    struct led_ent want = {.hash = led__index_hash(kind, key)};
    struct found found = {0};

    RON_CHECK_MAGIC(ix, LED_INDEX_MAGIC);
    ron_blocking_point("led_index_find");
    RON_TRY(look_tree(ix, LED_TREE_KEYS, want, &found, err));
    if (found.count == 0) {
        ron_stat_add(ix->false_alarms, 1);
    }
    memcpy(ret_seqs, found.seqs, found.count * sizeof found.seqs[0]);
    *ret_count = found.count;
    return RON_OK;
}

enum ron_rc led_index_skip(struct led_index *ix, struct led_key account, uint64_t seq,
                           uint64_t *ret_seq, struct ron_err *err)
{
    struct led_ent want = {.hash = led__index_hash(LED_INDEX_ID, account), .seq = seq};
    struct found found = {0};

    RON_CHECK_MAGIC(ix, LED_INDEX_MAGIC);
    ron_blocking_point("led_index_skip");
    RON_TRY(look_tree(ix, LED_TREE_SKIPS, want, &found, err));
    if (found.count == 0) {
        return RON_NOTFOUND;
    }
    *ret_seq = found.seqs[0];
    return RON_OK;
}
