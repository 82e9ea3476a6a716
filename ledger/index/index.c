/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/index.c - the index as a whole: opening, adding, committing, images.
 *
 *     add ──► tail (not yet seen) ──full──► run (in the store's transaction) ──► merges
 *     commit ──► tail or run, images, state ──► store commits ──► lookups see it
 *
 * Order of a commit: everything that can fail, the new set included, is made ready; the store
 * commits; then the new set is published, the tail shown and applied_seq stored. So a failure
 * leaves the commit before, on disk and for lookups (X1), and who reads applied_seq and then looks
 * up finds every key up to it (X2).
 *
 * Threads: one writer. Failure: see index.h. */
#include "ledger/index/priv.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"

/* Keys of a run: 16 so that tests can have many levels, 2^20 so that a flush stays below 100 ms. */
enum { RUN_ENTRIES_MIN = 16, RUN_ENTRIES_MAX = 1 << 20, RUN_ENTRIES = 65536 };

/* ---- opening --------------------------------------------------------------------------------- */

/* Frees the runs and tail of a `next` that was never published. */
static void next_done(struct led_next *next)
{
    for (uint32_t i = 0; i < next->slices.count; i++) {
        led__run_free(next->slices.at[i].run);
    }
    led__tail_free(next->tail);
    memset(next, 0, sizeof *next);
}

static void stats_update(struct led_index *ix)
{
    uint64_t keys = 0;
    uint64_t runs = 0;
    uint64_t bytes = 0;

    for (uint32_t t = 0; t < LED_TREES; t++) {
        const struct led_next *now = &ix->now[t];

        keys += t == LED_TREE_KEYS ? now->count : 0;
        runs += now->slices.count;
        for (uint32_t i = 0; i < now->slices.count; i++) {
            const struct led_slice *slice = &now->slices.at[i];

            /* Entries of a growing run are still counted with its inputs. */
            keys += t == LED_TREE_KEYS && !slice->growing ? slice->cut.keys : 0;
            bytes += led__filter_bytes(&slice->run->filter);
        }
    }
    ron_stat_set(&ix->keys, keys);
    ron_stat_set(&ix->runs, runs);
    ron_stat_set(&ix->filter_bytes, bytes);
}

static enum ron_rc set_of_next(struct led_index *ix, struct led_set **ret_set)
{
    const struct led_slices *slices[LED_TREES];
    struct led_tail *tails[LED_TREES];

    for (uint32_t t = 0; t < LED_TREES; t++) {
        slices[t] = &ix->next[t].slices;
        tails[t] = ix->next[t].tail;
    }
    RON_TRY(led__set_new(slices, tails, ret_set));
    (*ret_set)->version = ix->version + 1;
    return RON_OK;
}

/* `next` is durable: lookups may see it. `take_set` is NULL when only tails have grown. */
static void show(struct led_index *ix, struct led_set *take_set)
{
    for (uint32_t t = 0; t < LED_TREES; t++) {
        led__tail_show(ix->next[t].tail, ix->next[t].count);
        ix->now[t] = ix->next[t];
    }
    ix->state = ix->state_next;
    if (take_set != NULL) {
        ix->version = take_set->version;
        led__sets_publish(ix->sets, take_set);
    }
    ron_au64_store(ix->applied, ix->state.applied_seq);
    stats_update(ix);
}

/* An index without content in the store. */
static enum ron_rc begin_fresh(struct led_index *ix, struct ron_err *err)
{
    for (size_t i = 0; i < sizeof ix->hash_key; i += sizeof(uint64_t)) {
        uint64_t random = ix->env->rand_u64(ix->env);

        memcpy(ix->hash_key + i, &random, sizeof random);
    }
    ix->state_next = (struct led_state){.run_next = 1};
    ron_tree_hash_empty(&ix->state_next.applied_root);
    for (uint32_t t = 0; t < LED_TREES; t++) {
        RON_TRY(led__tail_new(led__tail_cap(ix, t), t == LED_TREE_KEYS, &ix->next[t].tail));
    }
    RON_TRY(led__state_put(ix, err));
    return ix->store->ops->commit(ix->store, err);
}

static void forget_load(struct led_index *ix)
{
    for (uint32_t t = 0; t < LED_TREES; t++) {
        next_done(&ix->next[t]);
    }
    ix->store->ops->close(ix->store);
    ix->store = NULL;
}

static enum ron_rc open_store(struct led_index *ix, const struct led_index_opts *opts,
                              struct ron_err *err)
{
    if (opts->path == NULL) {
        return led__blobs_open_memory(&ix->store);
    }
    return led__blobs_open_files(opts, &ix->store, err);
}

/* X3: what is there and cannot be used makes room for a new one. */
static enum ron_rc throw_away(const struct led_index_opts *opts, struct ron_err *err)
{
    return led_index_remove(opts->env, opts->path, err);
}

static enum ron_rc load_or_begin(struct led_index *ix, const struct led_index_opts *opts,
                                 bool *ret_fresh, struct ron_err *err)
{
    struct ron_err why = {0};
    enum ron_rc rc = open_store(ix, opts, &why);

    if (rc == RON_OK && opts->path != NULL) {
        rc = led__state_load(ix, &why);
        if (rc == RON_OK) {
            *ret_fresh = false;
            return RON_OK;
        }
        forget_load(ix);
    }
    if (rc != RON_OK) {
        if (rc != RON_CORRUPT && rc != RON_NOTFOUND) {
            if (err != NULL) {
                *err = why;
            }
            return rc;
        }
        RON_TRY(throw_away(opts, err));
        RON_TRY(open_store(ix, opts, err));
    }
    *ret_fresh = true;
    return begin_fresh(ix, err);
}

static enum ron_rc open_into(struct led_index *ix, const struct led_index_opts *opts,
                             bool *ret_fresh, struct ron_err *err)
{
    struct led_set *set;

    ix->sets = ron_alloc_aligned(RON_CACHELINE, sizeof *ix->sets);
    ix->applied = ron_alloc_zero(sizeof *ix->applied);
    ix->false_alarms = ron_alloc_zero(sizeof *ix->false_alarms);
    if (ix->sets == NULL || ix->applied == NULL || ix->false_alarms == NULL) {
        return RON_NOMEM;
    }
    memset(ix->sets, 0, sizeof *ix->sets);
    RON_TRY(load_or_begin(ix, opts, ret_fresh, err));
    RON_TRY(set_of_next(ix, &set));
    show(ix, set);
    return RON_OK;
}

/* Earlier versions kept the index in one LMDB file. It held nothing that is not in the log, and the
 * new index is durable now. What cannot be removed is in nobody's way. */
static void remove_old_file(const struct led_index_opts *opts)
{
    static const char *const ends[] = {".mdb", ".mdb-lock"};

    for (size_t i = 0; opts->path != NULL && i < RON_ARRAY_LEN(ends); i++) {
        char path[RON_FILE_PATH_SIZE];

        if ((size_t)snprintf(path, sizeof path, "%s%s", opts->path, ends[i]) < sizeof path) {
            RON_IGNORE(opts->env->disk->remove(opts->env, path, NULL));
        }
    }
}

enum ron_rc led_index_open(const struct led_index_opts *opts, struct led_index **ret_index,
                           struct led_index_state *ret_state, struct ron_err *err)
{
    struct led_index *ix = ron_alloc_zero(sizeof *ix);
    uint32_t run = opts->run_entries == 0 ? RUN_ENTRIES : opts->run_entries;
    bool fresh = false;
    enum ron_rc rc;

    if (ix == NULL) {
        return RON_NOMEM;
    }
    ix->magic = LED_INDEX_MAGIC;
    ix->env = opts->env;
    ix->run_entries = RON_MIN(RON_MAX(run, (uint32_t)RUN_ENTRIES_MIN), (uint32_t)RUN_ENTRIES_MAX);
    memcpy(ix->uuid, opts->uuid, sizeof ix->uuid);
    rc = open_into(ix, opts, &fresh, err);
    if (rc != RON_OK) {
        led_index_close(ix);
        return rc;
    }
    remove_old_file(opts);
    *ret_state = (struct led_index_state){.applied_seq = ix->state.applied_seq,
                                          .applied_root = ix->state.applied_root,
                                          .image_seq = ix->state.image_seq,
                                          .fresh = fresh};
    memcpy(ret_state->hash_key, ix->hash_key, sizeof ix->hash_key);
    *ret_index = ix;
    return RON_OK;
}

/* ---- the writer ------------------------------------------------------------------------------ */

/* Back to the last commit. */
static enum ron_rc forget(struct led_index *ix, enum ron_rc rc)
{
    ix->store->ops->abort(ix->store);
    for (uint32_t t = 0; t < LED_TREES; t++) {
        if (ix->next[t].tail != ix->now[t].tail) {
            led__tail_free(ix->next[t].tail);
        }
        ix->next[t] = ix->now[t];
    }
    for (size_t i = 0; i < ix->fresh_count; i++) {
        led__run_free(ix->fresh[i]);
    }
    ix->fresh_count = 0;
    ix->garbage_count -= ix->garbage_new;
    ix->garbage_new = 0;
    ix->state_next = ix->state;
    return rc;
}

void led_index_close(struct led_index *ix)
{
    if (ix == NULL) {
        return;
    }
    RON_CHECK_MAGIC(ix, LED_INDEX_MAGIC);
    if (ix->version == 0) {
        /* Never published: nothing but `next` owns anything. */
        for (uint32_t t = 0; t < LED_TREES; t++) {
            next_done(&ix->next[t]);
        }
    } else {
        (void)forget(ix, RON_OK);
        ix->sets->now = LED_SETS_MAX;
        RON_ASSERT_MSG(led__sets_reclaim(ix->sets) == UINT64_MAX, "a lookup outlives its index");
    }
    if (ix->store != NULL) {
        ix->store->ops->close(ix->store);
    }
    ron_free(ix->sets);
    ron_free(ix->applied);
    ron_free(ix->false_alarms);
    ron_free(ix->fresh);
    ron_free(ix->garbage);
    ron_free(ix->ents[0]);
    ron_free(ix->ents[1]);
    ron_free(ix);
}

/* For one more in the tail, which is full. */
static enum ron_rc make_room(struct led_index *ix, uint32_t tree, struct ron_err *err)
{
    enum ron_rc rc = led__tree_flush(ix, tree, err);

    return rc == RON_OK ? rc : forget(ix, rc);
}

static enum ron_rc add(struct led_index *ix, uint32_t tree, struct led_ent entry,
                       struct ron_err *err)
{
    struct led_next *next = &ix->next[tree];

    RON_CHECK_MAGIC(ix, LED_INDEX_MAGIC);
    if (next->count == next->tail->cap) {
        RON_TRY(make_room(ix, tree, err));
    }
    next->tail->entries[next->count++] = entry;
    return RON_OK;
}

enum ron_rc led_index_add(struct led_index *ix, enum led_index_kind kind, struct led_key key,
                          struct ron_str text, uint64_t seq, struct ron_err *err)
{
    struct led_edge edge = led__edge_of(text);

    RON_TRY(add(ix, LED_TREE_KEYS, (struct led_ent){led__index_hash(kind, key), seq}, err));
    led__edges_add(&ix->next[LED_TREE_KEYS].edges[kind], &edge);
    return RON_OK;
}

enum ron_rc led_index_add_many(struct led_index *ix, enum led_index_kind kind,
                               const struct led_index_key *keys, size_t count,
                               const struct led_edges *edges, struct ron_err *err)
{
    struct led_next *next = &ix->next[LED_TREE_KEYS];

    RON_CHECK_MAGIC(ix, LED_INDEX_MAGIC);
    while (count > 0) {
        size_t here = RON_MIN(count, (size_t)(next->tail->cap - next->count));
        struct led_ent *to = next->tail->entries + next->count;

        for (size_t i = 0; i < here; i++) {
            to[i] = (struct led_ent){led__index_hash(kind, (struct led_key){.a = keys[i].key}),
                                     keys[i].seq};
        }
        if (here > 0) { /* Those of all: what is asked too often costs little. */
            led__edges_join(&next->edges[kind], edges);
        }
        next->count += (uint32_t)here;
        keys += here;
        count -= here;
        if (count > 0) {
            RON_TRY(make_room(ix, LED_TREE_KEYS, err));
        }
    }
    return RON_OK;
}

enum ron_rc led_index_add_skip(struct led_index *ix, struct led_key account, uint64_t seq,
                               struct ron_err *err)
{
    return add(ix, LED_TREE_SKIPS, (struct led_ent){led__index_hash(LED_INDEX_ID, account), seq},
               err);
}

/* Deletes pieces that no set uses; *ret_done entries of the list are then done with. */
static enum ron_rc drop_garbage(struct led_index *ix, size_t *ret_done, struct ron_err *err)
{
    uint64_t oldest = led__sets_reclaim(ix->sets);
    size_t i = 0;

    for (; i < ix->garbage_count && ix->garbage[i].version <= oldest; i++) {
        const struct led_garbage *g = &ix->garbage[i];

        for (uint32_t p = g->piece; p < g->piece_end; p++) {
            RON_TRY(ix->store->ops->del(ix->store, (struct led_blob_key){LED_BLOB_PIECE, g->run, p},
                                        err));
        }
    }
    *ret_done = i;
    return RON_OK;
}

static bool runs_changed(const struct led_index *ix)
{
    for (uint32_t t = 0; t < LED_TREES; t++) {
        if (ix->next[t].tail != ix->now[t].tail) {
            return true; /* every flush brings a new tail, and merges come with flushes alone */
        }
    }
    return false;
}

static enum ron_rc drop_image(struct led_index *ix, uint64_t seq, uint64_t chunks,
                              struct ron_err *err)
{
    for (uint64_t i = 0; i < chunks; i++) {
        RON_TRY(ix->store->ops->del(ix->store, (struct led_blob_key){LED_BLOB_IMAGE, seq, i}, err));
    }
    return RON_OK;
}

/* All of a commit that can fail. */
static enum ron_rc commit_try(struct led_index *ix, struct led_set **ret_set,
                              size_t *ret_garbage_done, struct ron_err *err)
{
    RON_TRY(drop_garbage(ix, ret_garbage_done, err));
    for (uint32_t t = 0; t < LED_TREES; t++) {
        /* Half a tail is worth a run: its keys are then not written twice. */
        if (ix->next[t].count >= led__tail_cap(ix, t) / 2) {
            RON_TRY(led__tree_flush(ix, t, err));
        } else {
            RON_TRY(led__tail_put(ix, t, err));
        }
    }
    if (ix->state_next.image_seq != ix->state.image_seq) {
        RON_TRY(drop_image(ix, ix->state.image_seq, ix->state.image_chunks, err));
    }
    RON_TRY(led__runs_settle(ix, err));
    RON_TRY(led__state_put(ix, err));
    if (runs_changed(ix)) {
        RON_TRY(set_of_next(ix, ret_set));
    }
    return ix->store->ops->commit(ix->store, err);
}

enum ron_rc led_index_commit(struct led_index *ix, uint64_t applied_seq,
                             const struct ron_tree_hash *root, struct ron_err *err)
{
    struct led_set *set = NULL;
    size_t garbage_done = 0;
    enum ron_rc rc;

    RON_CHECK_MAGIC(ix, LED_INDEX_MAGIC);
    ron_blocking_point("led_index_commit");
    ix->state_next.applied_seq = applied_seq;
    ix->state_next.applied_root = *root;
    rc = commit_try(ix, &set, &garbage_done, err);
    if (rc != RON_OK) {
        led__set_free(set);
        return forget(ix, rc);
    }
    show(ix, set);
    for (size_t i = 0; i < ix->fresh_count; i++) {
        /* Merged away in the commit that made it: no set ever held it. */
        if (ix->fresh[i]->refs == 0) {
            led__run_free(ix->fresh[i]);
        }
    }
    ix->fresh_count = 0;
    ix->garbage_new = 0;
    ix->garbage_count -= garbage_done;
    if (ix->garbage_count > 0) {
        memmove(ix->garbage, ix->garbage + garbage_done, ix->garbage_count * sizeof *ix->garbage);
    }
    (void)led__sets_reclaim(ix->sets);
    return RON_OK;
}

/* ---- images ---------------------------------------------------------------------------------- */

enum ron_rc led_index_put_image(struct led_index *ix, uint64_t seq, uint32_t chunk,
                                const void *bytes, size_t len, bool last, struct ron_err *err)
{
    struct led_state *state = &ix->state_next;
    const uint8_t *kept;
    uint8_t *blob;
    uint32_t sum;
    enum ron_rc rc;

    RON_CHECK_MAGIC(ix, LED_INDEX_MAGIC);
    if (seq == ix->state_next.image_seq && seq != 0) {
        return ron_err_set(err, RON_EXISTS, "the image at seq %llu is there",
                           (unsigned long long)seq);
    }
    if (seq == 0 || len > LED_INDEX_CHUNK_MAX ||
        (chunk > 0 && (seq != state->image_open || chunk != state->image_open_chunks))) {
        return ron_err_set(err, RON_INVALID, "chunk %u of an image at seq %llu is not the next one",
                           chunk, (unsigned long long)seq);
    }
    blob = ron_alloc(len + sizeof sum);
    if (blob == NULL) {
        return forget(ix, RON_NOMEM);
    }
    if (len > 0) {
        memcpy(blob + sizeof sum, bytes, len);
    }
    sum = led__chunk_sum(seq, chunk, blob + sizeof sum, len);
    memcpy(blob, &sum, sizeof sum);
    rc = RON_OK;
    if (chunk == 0 && state->image_open != 0) {
        /* One that was begun and not ended makes room. */
        rc = drop_image(ix, state->image_open, state->image_open_chunks, err);
    }
    if (rc == RON_OK) {
        rc = ix->store->ops->put(ix->store, (struct led_blob_key){LED_BLOB_IMAGE, seq, chunk}, blob,
                                 len + sizeof sum, &kept, err);
    }
    ron_free(blob);
    if (rc != RON_OK) {
        return forget(ix, rc);
    }
    state->image_open = last ? 0 : seq;
    state->image_open_chunks = chunk + 1u;
    if (last) {
        state->image_seq = seq;
        state->image_chunks = chunk + 1u;
    }
    return RON_OK;
}

enum ron_rc led_index_load_image(struct led_index *ix, led_index_see_chunk *see, void *arg,
                                 struct ron_err *err)
{
    RON_CHECK_MAGIC(ix, LED_INDEX_MAGIC);
    ron_blocking_point("led_index_load_image");
    if (ix->state.image_seq == 0) {
        return ron_err_set(err, RON_NOTFOUND, "the index has no image");
    }
    for (uint64_t i = 0; i < ix->state.image_chunks; i++) {
        const uint8_t *bytes;
        size_t len;

        RON_TRY(led__chunk_get(ix, ix->state.image_seq, i, &bytes, &len, err));
        RON_TRY(see(arg, bytes, len, err));
    }
    return RON_OK;
}

/* ---- the rest -------------------------------------------------------------------------------- */

enum ron_rc led_index_copy(struct led_index *ix, const char *path, struct ron_err *err)
{
    RON_CHECK_MAGIC(ix, LED_INDEX_MAGIC);
    ron_blocking_point("led_index_copy");
    return ix->store->ops->copy(ix->store, path, err);
}

void led_index_stats(const struct led_index *ix, struct led_index_stats *ret_stats)
{
    *ret_stats = (struct led_index_stats){
        .keys = ron_stat_get(&ix->keys),
        .runs = ron_stat_get(&ix->runs),
        .filter_bytes = ron_stat_get(&ix->filter_bytes),
        .file_bytes = ix->store->ops->bytes(ix->store),
        .false_alarms = ron_stat_get(ix->false_alarms),
    };
}
