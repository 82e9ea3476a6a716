/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/run.c - runs: written from a tail, merged eight to one, a step at a time.
 *
 * Invariants:
 *   N1. A run that is not growing answers from `lo` on for all hashes; a growing one up to `hi`,
 *       the end of a group of its filter; its inputs from there on.
 *   N2. A step writes whole groups, so groups and pieces that lookups may ask for never change.
 *   N3. For each key flushed, each level merges LED_MERGE_RATE keys. A merge of eight runs is done
 *       when two more have come, so a level holds at most ten runs and a growing one.
 *
 * Threads: the writer's. Failure: any code; the caller forgets `next` (priv.h). */
#include "ledger/index/priv.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum ron_rc led__run_new(uint64_t id, uint32_t level, uint64_t keys, struct led_run **ret_run)
{
    struct led_run *run = ron_alloc_zero(sizeof *run);
    uint64_t steps;

    if (run == NULL) {
        return RON_NOMEM;
    }
    run->id = id;
    run->level = level;
    run->keys = keys;
    if (led__filter_init(&run->filter, keys) != RON_OK) {
        led__run_free(run);
        return RON_NOMEM;
    }
    steps = run->filter.groups / LED_STEP_GROUPS + 1;
    /* Each step may leave one piece that is not full. */
    run->pieces_max = (uint32_t)(keys / LED_PIECE_KEYS_LEAST + steps + 1);
    run->pieces = ron_alloc_array(run->pieces_max, sizeof *run->pieces);
    if (run->pieces == NULL) {
        led__run_free(run);
        return RON_NOMEM;
    }
    *ret_run = run;
    return RON_OK;
}

void led__run_free(struct led_run *run)
{
    if (run != NULL) {
        led__filter_done(&run->filter);
        ron_free(run->pieces);
        ron_free(run);
    }
}

enum ron_rc led__ents_reserve(struct led_index *ix, size_t count)
{
    size_t cap = RON_MAX(count, ix->ents_cap * 2);

    if (count <= ix->ents_cap) {
        return RON_OK;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(ix->ents); i++) {
        struct led_ent *grown = ron_realloc_array(ix->ents[i], cap, sizeof *grown);

        if (grown == NULL) {
            return RON_NOMEM;
        }
        ix->ents[i] = grown;
    }
    ix->ents_cap = cap;
    return RON_OK;
}

uint32_t led__tail_cap(const struct led_index *ix, uint32_t tree)
{
    /* Skip points are scanned, and there are fewer of them. */
    return tree == LED_TREE_KEYS ? ix->run_entries : RON_MAX(ix->run_entries / 16, 16u);
}

uint32_t led__slice_piece(const struct led_slice *slice, struct led_ent want)
{
    uint32_t lo = slice->cut.piece;
    uint32_t hi = slice->cut.pieces;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (led__ent_less(want, slice->run->pieces[mid].first)) {
            hi = mid;
        } else {
            lo = mid;
        }
    }
    return lo;
}

static enum ron_rc garbage_add(struct led_index *ix, uint64_t run, uint32_t piece, uint32_t end)
{
    if (piece >= end) {
        return RON_OK;
    }
    if (ix->garbage_count == ix->garbage_cap) {
        size_t cap = RON_MAX(ix->garbage_cap * 2, (size_t)64);
        struct led_garbage *grown = ron_realloc_array(ix->garbage, cap, sizeof *grown);

        if (grown == NULL) {
            return RON_NOMEM;
        }
        ix->garbage = grown;
        ix->garbage_cap = cap;
    }
    ix->garbage[ix->garbage_count++] = (struct led_garbage){
        .version = ix->version + 1, .run = run, .piece = piece, .piece_end = end};
    ix->garbage_new++;
    return RON_OK;
}

/* A run that the writer must not forget until the commit ends. */
static enum ron_rc fresh_run(struct led_index *ix, uint32_t level, uint64_t keys,
                             struct led_run **ret_run, struct ron_err *err)
{
    if (ix->fresh_count == ix->fresh_cap) {
        size_t cap = RON_MAX(ix->fresh_cap * 2, (size_t)16);
        struct led_run **grown = ron_realloc_array(ix->fresh, cap, sizeof(void *));

        if (grown == NULL) {
            return RON_NOMEM;
        }
        ix->fresh = grown;
        ix->fresh_cap = cap;
    }
    RON_TRY(led__run_new(ix->state_next.run_next, level, keys, ret_run));
    (*ret_run)->mark = ix->env->rand_u64(ix->env);
    ix->state_next.run_next++;
    ix->fresh[ix->fresh_count++] = *ret_run;
    /* A run of level 0 is written at once, those of merges over many commits. */
    return ix->store->ops->make_run(ix->store, (*ret_run)->id, level == 0, &(*ret_run)->file, err);
}

/* Appends the sorted entries to the run: pieces, and the groups of the filter up to group_end. */
static enum ron_rc append(struct led_index *ix, struct led_slice *slice, uint64_t group,
                          uint64_t group_end, const struct led_ent *entries, size_t count,
                          struct ron_err *err)
{
    struct led_run *run = slice->run;
    uint8_t bytes[LED_PIECE_BYTES];

    slice->rests = led__filter_fill(&run->filter, group, group_end, slice->rests, entries, count);
    slice->cut.keys += count;
    while (count > 0) {
        size_t len;
        uint32_t seed = led__piece_seed(run->mark, run->id, slice->cut.pieces);
        uint32_t n = led__piece_encode(entries, count, seed, bytes, &len);
        struct led_piece_at *at = &run->pieces[slice->cut.pieces];

        RON_ASSERT(slice->cut.pieces < run->pieces_max);
        at->first = entries[0];
        at->kept_len = len;
        RON_TRY(ix->store->ops->put(
            ix->store, (struct led_blob_key){LED_BLOB_PIECE, run->id, slice->cut.pieces}, bytes,
            len, &at->kept, err));
        slice->cut.pieces++;
        entries += n;
        count -= n;
    }
    return RON_OK;
}

/* Drops entries that are equal to the one before. */
static size_t unique(struct led_ent *entries, size_t count)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        if (n == 0 || led__ent_less(entries[n - 1], entries[i])) {
            entries[n++] = entries[i];
        }
    }
    return n;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* What a level merges: places of the inputs in the slices, and of the output. */
struct merge {
    uint32_t inputs[LED_FANOUT];
    uint32_t input_count;
    uint32_t out;
    bool active;
};

static struct merge merge_of(const struct led_slices *slices, uint32_t level)
{
    struct merge m = {0};

    for (uint32_t i = 0; i < slices->count; i++) {
        const struct led_slice *slice = &slices->at[i];

        if (slice->run->level == level && slice->merging) {
            RON_ASSERT(m.input_count < LED_FANOUT);
            m.inputs[m.input_count++] = i;
        }
        if (slice->run->level == level + 1 && slice->growing) {
            m.out = i;
            m.active = true;
        }
    }
    return m;
}

/* Begins a merge of the eight oldest whole runs of the level, if there are as many. */
static enum ron_rc merge_begin(struct led_index *ix, struct led_slices *slices, uint32_t level,
                               struct merge *m, struct ron_err *err)
{
    struct led_run *run;
    uint64_t keys = 0;

    m->input_count = 0;
    for (uint32_t i = 0; i < slices->count && m->input_count < LED_FANOUT; i++) {
        if (slices->at[i].run->level == level && !slices->at[i].growing) {
            m->inputs[m->input_count++] = i;
            keys += slices->at[i].cut.keys;
        }
    }
    /* The filter counts with 32 bits; beyond that runs stay as they are. */
    if (m->input_count < LED_FANOUT || keys >= UINT32_MAX || level + 1 >= LED_LEVELS ||
        slices->count == LED_SLICES_MAX) {
        return RON_OK;
    }
    RON_TRY(fresh_run(ix, level + 1, keys, &run, err));
    for (uint32_t i = 0; i < LED_FANOUT; i++) {
        struct led_slice *input = &slices->at[m->inputs[i]];

        input->merging = true;
        input->durable = input->cut;
        for (uint32_t kind = 0; kind < LED_KINDS; kind++) {
            led__edges_join(&run->edges[kind], &input->run->edges[kind]);
        }
    }
    m->out = slices->count;
    slices->at[slices->count++] = (struct led_slice){.run = run, .growing = true};
    m->active = true;
    return RON_OK;
}

/* Appends the entries of [from, last] of a run to ents[0], which has `used`. */
static enum ron_rc gather(struct led_index *ix, const struct led_slice *slice, uint64_t from,
                          uint64_t last, size_t *used, struct ron_err *err)
{
    struct led_ent want = {.hash = from};

    for (uint32_t p = led__slice_piece(slice, want); p < slice->cut.pieces; p++) {
        struct led_piece_view view;
        const uint8_t *bytes;
        size_t len;

        if (slice->run->pieces[p].first.hash > last) {
            return RON_OK;
        }
        bytes = slice->run->pieces[p].kept;
        len = slice->run->pieces[p].kept_len;
        if (bytes == NULL) {
            RON_TRY(ix->store->ops->get(ix->store,
                                        (struct led_blob_key){LED_BLOB_PIECE, slice->run->id, p},
                                        &bytes, &len, err));
        }
        RON_TRY(led__piece_open(bytes, len, slice->run->pieces[p].kept == NULL,
                                led__piece_seed(slice->run->mark, slice->run->id, p), &view, err));
        RON_TRY(led__ents_reserve(ix, *used + view.count));
        for (uint32_t i = led__piece_lower(&view, want); i < view.count; i++) {
            struct led_ent e = led__piece_at(&view, i);

            if (e.hash > last) {
                return RON_OK;
            }
            ix->ents[0][(*used)++] = e;
        }
    }
    return RON_OK;
}

static void merge_two(const struct led_ent *x, const struct led_ent *x_end, const struct led_ent *y,
                      const struct led_ent *y_end, struct led_ent *to)
{
    while (x < x_end && y < y_end) {
        /* Which one comes cannot be guessed, so it must be no branch: one comparison of 128 bits,
         * and a mask. */
        uint64_t second = ((ron_u128)y->hash << 64 | y->seq) < ((ron_u128)x->hash << 64 | x->seq);
        uint64_t mask = 0 - second;

        to->hash = (x->hash & ~mask) | (y->hash & mask);
        to->seq = (x->seq & ~mask) | (y->seq & mask);
        to++;
        y += second;
        x += 1 - second;
    }
    memcpy(to, x, (size_t)(x_end - x) * sizeof *to);
    to += x_end - x;
    memcpy(to, y, (size_t)(y_end - y) * sizeof *to);
}

/* Merges eight sorted parts, two by two, in three passes; the result is in ents[1]. */
static void merge_parts(struct led_index *ix, const size_t bounds[LED_FANOUT + 1])
{
    struct led_ent *from = ix->ents[0];
    struct led_ent *to = ix->ents[1];

    for (size_t width = 1; width < LED_FANOUT; width *= 2) {
        struct led_ent *done = to;

        for (size_t i = 0; i < LED_FANOUT; i += 2 * width) {
            merge_two(from + bounds[i], from + bounds[i + width], from + bounds[i + width],
                      from + bounds[i + 2 * width], to + bounds[i]);
        }
        to = from;
        from = done;
    }
}

static enum ron_rc merge_end(struct led_index *ix, struct led_slices *slices, const struct merge *m)
{
    struct led_slice *out = &slices->at[m->out];
    uint32_t kept = 0;

    out->growing = false;
    for (uint32_t i = 0; i < m->input_count; i++) {
        const struct led_slice *input = &slices->at[m->inputs[i]];

        RON_TRY(garbage_add(ix, input->run->id, input->cut.piece, input->cut.pieces));
    }
    for (uint32_t i = 0, k = 0; i < slices->count; i++) {
        if (k < m->input_count && m->inputs[k] == i) {
            k++;
        } else {
            slices->at[kept++] = slices->at[i];
        }
    }
    slices->count = kept;
    return RON_OK;
}

/* One step: some groups of the output, from where the inputs stand. */
static enum ron_rc merge_step(struct led_index *ix, struct led_slices *slices,
                              const struct merge *m, uint64_t *ret_keys, struct ron_err *err)
{
    struct led_slice *out = &slices->at[m->out];
    struct led_filter *filter = &out->run->filter;
    uint64_t from = slices->at[m->inputs[0]].cut.lo;
    uint64_t group = led__filter_group_of(filter, from);
    uint64_t group_end = RON_MIN(group + LED_STEP_GROUPS, filter->groups);
    bool end = group_end == filter->groups;
    uint64_t last = end ? UINT64_MAX : led__filter_group_start(filter, group_end) - 1;
    size_t bounds[LED_FANOUT + 1] = {0};
    size_t used = 0;

    for (uint32_t i = 0; i < LED_FANOUT; i++) {
        RON_TRY(gather(ix, &slices->at[m->inputs[i]], from, last, &used, err));
        bounds[i + 1] = used;
    }
    *ret_keys = used;
    merge_parts(ix, bounds);
    RON_TRY(append(ix, out, group, group_end, ix->ents[1], unique(ix->ents[1], used), err));
    out->cut.hi = last;
    if (end) {
        return merge_end(ix, slices, m);
    }
    for (uint32_t i = 0; i < LED_FANOUT; i++) {
        struct led_slice *input = &slices->at[m->inputs[i]];
        uint32_t piece = led__slice_piece(input, (struct led_ent){.hash = last + 1});

        RON_TRY(garbage_add(ix, input->run->id, input->cut.piece, piece));
        input->cut.piece = piece;
        input->cut.lo = last + 1;
    }
    return RON_OK;
}

/* The share of `keys` new ones in the merges of all levels (N3). */
static enum ron_rc merge_share(struct led_index *ix, uint32_t tree, uint64_t keys,
                               struct ron_err *err)
{
    struct led_slices *slices = &ix->next[tree].slices;

    for (uint32_t level = 0; level + 1 < LED_LEVELS; level++) {
        uint64_t share = keys * LED_MERGE_RATE;

        for (uint64_t done = 0; done < share;) {
            struct merge m = merge_of(slices, level);
            uint64_t step = 0;

            if (!m.active) {
                RON_TRY(merge_begin(ix, slices, level, &m, err));
            }
            if (!m.active) {
                break;
            }
            RON_TRY(merge_step(ix, slices, &m, &step, err));
            done += step + 1;
        }
    }
    return RON_OK;
}

/* ---- syncing --------------------------------------------------------------------------------- */

static enum ron_rc settle_slice(struct led_index *ix, struct led_slice *slice, struct ron_err *err)
{
    RON_TRY(ix->store->ops->sync_run(ix->store, slice->run->id, err));
    slice->synced = !slice->growing;
    slice->durable = slice->cut;
    return RON_OK;
}

/* The output of a merge and where its inputs stand belong together. */
static enum ron_rc settle_merge(struct led_index *ix, struct led_slices *slices,
                                const struct merge *m, struct ron_err *err)
{
    struct led_slice *out = &slices->at[m->out];

    if (out->cut.pieces - out->durable.pieces < LED_SYNC_PIECES) {
        return RON_OK;
    }
    RON_TRY(settle_slice(ix, out, err));
    for (uint32_t i = 0; i < m->input_count; i++) {
        slices->at[m->inputs[i]].durable = slices->at[m->inputs[i]].cut;
    }
    return RON_OK;
}

enum ron_rc led__runs_settle(struct led_index *ix, struct ron_err *err)
{
    for (uint32_t t = 0; t < LED_TREES; t++) {
        struct led_slices *slices = &ix->next[t].slices;

        for (uint32_t i = 0; i < slices->count; i++) {
            struct led_slice *slice = &slices->at[i];
            struct led_cut durable = slice->durable;

            if (!slice->growing && !slice->synced) {
                RON_TRY(settle_slice(ix, slice, err));
                if (slice->merging) { /* its merge has its own pace */
                    slice->durable = durable;
                }
            }
        }
        for (uint32_t level = 0; level + 1 < LED_LEVELS; level++) {
            struct merge m = merge_of(slices, level);

            if (m.active) {
                RON_TRY(settle_merge(ix, slices, &m, err));
            }
        }
    }
    return RON_OK;
}

/* ---- flushing -------------------------------------------------------------------------------- */

enum ron_rc led__tree_flush(struct led_index *ix, uint32_t tree, struct ron_err *err)
{
    struct led_next *next = &ix->next[tree];
    struct led_slice slice = {.cut.hi = UINT64_MAX};
    struct led_tail *tail;
    size_t count = next->count;

    if (count == 0) {
        return RON_OK;
    }
    if (next->slices.count == LED_SLICES_MAX) {
        return ron_err_set(err, RON_LIMIT, "the index has %u runs", next->slices.count);
    }
    RON_TRY(led__ents_reserve(ix, count));
    memcpy(ix->ents[0], next->tail->entries, count * sizeof *ix->ents[0]);
    led__ents_sort(ix->ents[0], ix->ents[1], count);
    count = unique(ix->ents[0], count);
    RON_TRY(fresh_run(ix, 0, count, &slice.run, err));
    memcpy(slice.run->edges, next->edges, sizeof next->edges);
    RON_TRY(append(ix, &slice, 0, slice.run->filter.groups, ix->ents[0], count, err));
    for (uint64_t i = 0; i < next->tail_blobs; i++) {
        RON_TRY(ix->store->ops->del(ix->store, (struct led_blob_key){LED_BLOB_TAIL, tree, i}, err));
    }
    RON_TRY(led__tail_new(led__tail_cap(ix, tree), tree == LED_TREE_KEYS, &tail));
    if (next->tail != ix->now[tree].tail) {
        led__tail_free(next->tail);
    }
    next->slices.at[next->slices.count++] = slice;
    next->tail = tail;
    next->count = 0;
    next->stored = 0;
    next->tail_blobs = 0;
    memset(next->edges, 0, sizeof next->edges);
    return merge_share(ix, tree, count, err);
}
