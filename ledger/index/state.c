/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/state.c - the blob that says what of the store counts, and how an index is read
 * back.
 *
 * Each commit writes the state anew: whose ledger, which key, up to which seq, image, and each run
 * with the part of it that counts. What the state does not name is left over from a crash and is
 * deleted at the next open. Layout: docs/formats/ledger-index.md.
 *
 * Reading back reads every piece: checksums are compared and the filters filled again, so damage is
 * found here, where a fresh index is the answer (X3).
 *
 * Threads: the writer's, or nobody else's yet. */
#include "ledger/index/priv.h"

#include "ron/base/alloc.h"
#include "ron/base/buf.h"
#include "ron/base/crc32c.h"

static const char state_magic[8] = {'R', 'O', 'N', 'I', 'D', 'X', '0', '1'};

/* Two trees of runs at 240 bytes are 150 KB; the state of a large index has some ten of them. */
enum { STATE_MAX = 256 * 1024 };

enum slice_flag { SLICE_MERGING = 1, SLICE_GROWING = 2 };

/* ---- writing --------------------------------------------------------------------------------- */

/* Failures of a buffer stick: looked at once at the end (ron_buf, B2). */
static void put32(struct ron_buf *buf, uint32_t x)
{
    (void)ron_buf_append(buf, &x, sizeof x);
}

static void put64(struct ron_buf *buf, uint64_t x)
{
    (void)ron_buf_append(buf, &x, sizeof x);
}

static void put_edges(struct ron_buf *buf, const struct led_edges edges[LED_KINDS])
{
    for (uint32_t kind = 0; kind < LED_KINDS; kind++) {
        put32(buf, edges[kind].any);
        for (size_t i = 0; i < LED_EDGE_WORDS; i++) {
            put64(buf, edges[kind].min.words[i]);
        }
        for (size_t i = 0; i < LED_EDGE_WORDS; i++) {
            put64(buf, edges[kind].max.words[i]);
        }
    }
}

static void put_slice(struct ron_buf *buf, const struct led_slice *slice)
{
    put64(buf, slice->run->id);
    put64(buf, slice->run->keys);
    put32(buf, slice->run->level);
    put32(buf, (slice->merging ? SLICE_MERGING : 0u) | (slice->growing ? SLICE_GROWING : 0u));
    put64(buf, slice->lo);
    put64(buf, slice->hi);
    put64(buf, slice->keys);
    put32(buf, slice->piece);
    put32(buf, slice->pieces);
    put_edges(buf, slice->run->edges);
}

enum ron_rc led__state_put(struct led_index *ix, struct ron_err *err)
{
    const struct led_state *state = &ix->state_next;
    const uint8_t *kept;
    struct ron_buf buf;
    enum ron_rc rc;

    ron_buf_init(&buf, STATE_MAX);
    (void)ron_buf_append(&buf, state_magic, sizeof state_magic);
    (void)ron_buf_append(&buf, ix->uuid, sizeof ix->uuid);
    (void)ron_buf_append(&buf, ix->hash_key, sizeof ix->hash_key);
    put64(&buf, state->applied_seq);
    (void)ron_buf_append(&buf, &state->applied_root, sizeof state->applied_root);
    put64(&buf, state->image_seq);
    put64(&buf, state->image_chunks);
    put64(&buf, state->run_next);
    for (uint32_t t = 0; t < LED_TREES; t++) {
        const struct led_next *next = &ix->next[t];

        put64(&buf, next->tail_blobs);
        put32(&buf, next->count);
        put32(&buf, next->slices.count);
        put_edges(&buf, next->edges);
        for (uint32_t i = 0; i < next->slices.count; i++) {
            put_slice(&buf, &next->slices.at[i]);
        }
    }
    put32(&buf, ron_crc32c(0, ron_buf_data(&buf), ron_buf_len(&buf)));
    rc = ron_buf_error(&buf);
    if (rc == RON_OK) {
        rc = ix->store->ops->put(ix->store, (struct led_blob_key){.kind = LED_BLOB_STATE},
                                 ron_buf_data(&buf), ron_buf_len(&buf), &kept, err);
    }
    ron_buf_done(&buf);
    return rc;
}

enum ron_rc led__tail_put(struct led_index *ix, uint32_t tree, struct ron_err *err)
{
    struct led_next *next = &ix->next[tree];
    uint32_t count = next->count - next->stored;
    uint8_t bytes[LED_PIECE_BYTES];

    RON_TRY(led__ents_reserve(ix, count));
    if (count > 0) {
        memcpy(ix->ents[0], next->tail->entries + next->stored, count * sizeof *ix->ents[0]);
        led__ents_sort(ix->ents[0], ix->ents[1], count);
    }
    for (uint32_t done = 0; done < count;) {
        const uint8_t *kept;
        size_t len;

        done += led__piece_encode(ix->ents[0] + done, count - done, bytes, &len);
        RON_TRY(ix->store->ops->put(ix->store,
                                    (struct led_blob_key){LED_BLOB_TAIL, tree, next->tail_blobs},
                                    bytes, len, &kept, err));
        next->tail_blobs++;
    }
    next->stored = next->count;
    return RON_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static void take(struct reader *r, void *to, size_t len)
{
    if (len > r->left) {
        r->bad = true;
        memset(to, 0, len);
        return;
    }
    memcpy(to, r->at, len);
    r->at += len;
    r->left -= len;
}

static uint32_t take32(struct reader *r)
{
    uint32_t x;

    take(r, &x, sizeof x);
    return x;
}

static uint64_t take64(struct reader *r)
{
    uint64_t x;

    take(r, &x, sizeof x);
    return x;
}

static void take_edges(struct reader *r, struct led_edges edges[LED_KINDS])
{
    for (uint32_t kind = 0; kind < LED_KINDS; kind++) {
        edges[kind].any = take32(r) != 0;
        for (size_t i = 0; i < LED_EDGE_WORDS; i++) {
            edges[kind].min.words[i] = take64(r);
        }
        for (size_t i = 0; i < LED_EDGE_WORDS; i++) {
            edges[kind].max.words[i] = take64(r);
        }
    }
}

static enum ron_rc corrupt(struct ron_err *err, const char *what)
{
    return ron_err_set(err, RON_CORRUPT, "index: %s", what);
}

/* Appends what of a piece counts to ents[0]. */
static enum ron_rc read_piece(struct led_index *ix, struct led_blob_key key, uint64_t lo,
                              size_t *used, struct led_ent *ret_first, struct ron_err *err)
{
    struct led_piece_view view;
    const uint8_t *bytes;
    size_t len;

    RON_TRY(ix->store->ops->get(ix->store, key, &bytes, &len, err));
    RON_TRY(led__piece_open(bytes, len, true, &view, err));
    RON_TRY(led__ents_reserve(ix, *used + view.count));
    *ret_first = led__piece_at(&view, 0);
    for (uint32_t i = led__piece_lower(&view, (struct led_ent){.hash = lo}); i < view.count; i++) {
        struct led_ent e = led__piece_at(&view, i);

        if (i > 0 && led__ent_less(e, led__piece_at(&view, i - 1))) {
            return corrupt(err, "a piece out of order");
        }
        ix->ents[0][(*used)++] = e;
    }
    return RON_OK;
}

/* Reads the pieces and fills the filter, always up to the last group that can be whole. */
static enum ron_rc fill_run(struct led_index *ix, struct led_slice *slice, struct ron_err *err)
{
    struct led_run *run = slice->run;
    struct led_filter *f = &run->filter;
    uint64_t group = led__filter_group_of(f, slice->lo);
    uint64_t end = slice->hi == UINT64_MAX ? f->groups : led__filter_group_of(f, slice->hi) + 1;
    size_t used = 0;

    for (uint32_t p = slice->piece; p < slice->pieces; p++) {
        uint64_t upto = end;
        size_t whole;

        RON_TRY(read_piece(ix, (struct led_blob_key){LED_BLOB_PIECE, run->id, p}, slice->lo, &used,
                           &run->pieces[p].first, err));
        if (p > slice->piece && !led__ent_less(run->pieces[p - 1].first, run->pieces[p].first)) {
            return corrupt(err, "pieces out of order");
        }
        if (p + 1 < slice->pieces) { /* a first piece may have nothing from `lo` on */
            upto = used > 0 ? led__filter_group_of(f, ix->ents[0][used - 1].hash) : group;
        }
        if (upto < group || (used > 0 && led__filter_group_of(f, ix->ents[0][0].hash) < group)) {
            return corrupt(err, "pieces out of order");
        }
        for (whole = used;
             whole > 0 && led__filter_group_of(f, ix->ents[0][whole - 1].hash) >= upto; whole--) {
        }
        if (slice->rests + whole > f->keys_max || upto > end ||
            (p + 1 == slice->pieces && whole != used)) {
            return corrupt(err, "a run with more than it announced");
        }
        slice->rests = led__filter_fill(f, group, upto, slice->rests, ix->ents[0], whole);
        group = upto;
        memmove(ix->ents[0], ix->ents[0] + whole, (used - whole) * sizeof *ix->ents[0]);
        used -= whole;
    }
    return RON_OK;
}

static enum ron_rc take_slice(struct led_index *ix, struct led_next *next, struct reader *r,
                              struct ron_err *err)
{
    struct led_slice slice = {0};
    uint64_t id = take64(r);
    uint64_t keys = take64(r);
    uint32_t level = take32(r);
    uint32_t flags = take32(r);

    slice.lo = take64(r);
    slice.hi = take64(r);
    slice.keys = take64(r);
    slice.piece = take32(r);
    slice.pieces = take32(r);
    slice.merging = (flags & SLICE_MERGING) != 0;
    slice.growing = (flags & SLICE_GROWING) != 0;
    if (r->bad || keys >= UINT32_MAX || level >= LED_LEVELS || slice.lo > slice.hi ||
        slice.piece > slice.pieces) {
        return corrupt(err, "a run that cannot be");
    }
    RON_TRY(led__run_new(id, level, keys, &slice.run));
    next->slices.at[next->slices.count++] = slice;
    take_edges(r, slice.run->edges);
    if (r->bad || slice.pieces > slice.run->pieces_max) {
        return corrupt(err, "a run with too many pieces");
    }
    return fill_run(ix, &next->slices.at[next->slices.count - 1], err);
}

static enum ron_rc take_tree(struct led_index *ix, uint32_t tree, struct reader *r,
                             struct ron_err *err)
{
    struct led_next *next = &ix->next[tree];
    uint64_t blobs = take64(r);
    uint32_t count = take32(r);
    uint32_t slices = take32(r);
    size_t used = 0;

    take_edges(r, next->edges);
    /* 2^24: more than any tail is made for, so that a wrong number asks for no gigabytes. */
    if (r->bad || slices > LED_SLICES_MAX || count > (1u << 24) || blobs > count) {
        return corrupt(err, "a tree that cannot be");
    }
    for (uint32_t i = 0; i < slices; i++) {
        RON_TRY(take_slice(ix, next, r, err));
    }
    for (uint64_t i = 0; i < blobs; i++) {
        struct led_ent first;

        RON_TRY(
            read_piece(ix, (struct led_blob_key){LED_BLOB_TAIL, tree, i}, 0, &used, &first, err));
    }
    if (used != count) {
        return corrupt(err, "a tail of another length");
    }
    /* It may have been written with longer tails than are asked for now. */
    RON_TRY(
        led__tail_new(RON_MAX(led__tail_cap(ix, tree), count), tree == LED_TREE_KEYS, &next->tail));
    if (count > 0) {
        memcpy(next->tail->entries, ix->ents[0], count * sizeof *ix->ents[0]);
    }
    next->count = count;
    next->stored = count;
    next->tail_blobs = blobs;
    return RON_OK;
}

/* ---- what is left over ----------------------------------------------------------------------- */

struct sweep {
    struct led_index *ix;
    struct led_blob_key *keys;
    size_t count;
    size_t cap;
    uint64_t chunks; /* of the image */
};

static bool piece_counts(const struct led_index *ix, struct led_blob_key key)
{
    for (uint32_t t = 0; t < LED_TREES; t++) {
        const struct led_slices *slices = &ix->next[t].slices;

        for (uint32_t i = 0; i < slices->count; i++) {
            if (slices->at[i].run->id == key.a) {
                return key.b >= slices->at[i].piece && key.b < slices->at[i].pieces;
            }
        }
    }
    return false;
}

static enum ron_rc sweep_see(void *arg, struct led_blob_key key, const uint8_t *bytes, size_t len,
                             struct ron_err *err)
{
    struct sweep *s = arg;
    const struct led_state *state = &s->ix->state_next;
    uint32_t sum;

    switch ((enum led_blob_kind)key.kind) {
    case LED_BLOB_STATE:
        return RON_OK;
    case LED_BLOB_TAIL:
        if (key.a < LED_TREES && key.b < s->ix->next[key.a].tail_blobs) {
            return RON_OK;
        }
        break;
    case LED_BLOB_PIECE:
        if (piece_counts(s->ix, key)) {
            return RON_OK;
        }
        break;
    case LED_BLOB_IMAGE:
        if (state->image_seq != 0 && key.a == state->image_seq && key.b < state->image_chunks) {
            if (len < sizeof sum) {
                return corrupt(err, "an image without its checksum");
            }
            memcpy(&sum, bytes, sizeof sum);
            s->chunks++;
            return sum == ron_crc32c(0, bytes + sizeof sum, len - sizeof sum)
                       ? RON_OK
                       : corrupt(err, "an image with a wrong checksum");
        }
        break;
    default:
        break;
    }
    if (s->count == s->cap) {
        size_t cap = RON_MAX(s->cap * 2, (size_t)64);
        struct led_blob_key *grown = ron_realloc_array(s->keys, cap, sizeof *grown);

        if (grown == NULL) {
            return RON_NOMEM;
        }
        s->keys = grown;
        s->cap = cap;
    }
    s->keys[s->count++] = key;
    return RON_OK;
}

static enum ron_rc sweep(struct led_index *ix, struct ron_err *err)
{
    struct sweep s = {.ix = ix};
    enum ron_rc rc = ix->store->ops->each(ix->store, sweep_see, &s, err);

    if (rc == RON_OK && s.chunks != ix->state_next.image_chunks) {
        rc = corrupt(err, "an image with missing chunks");
    }
    for (size_t i = 0; rc == RON_OK && i < s.count; i++) {
        rc = ix->store->ops->del(ix->store, s.keys[i], err);
    }
    if (rc == RON_OK && s.count > 0) {
        rc = ix->store->ops->commit(ix->store, err);
    }
    ron_free(s.keys);
    return rc;
}

enum ron_rc led__state_load(struct led_index *ix, struct ron_err *err)
{
    struct led_state *state = &ix->state_next;
    struct reader r = {0};
    RON_AUTO_FREE uint8_t *copy = NULL;
    const uint8_t *bytes;
    char magic[sizeof state_magic];
    uint8_t uuid[sizeof ix->uuid];
    size_t len;
    uint32_t sum;

    RON_TRY(ix->store->ops->get(ix->store, (struct led_blob_key){.kind = LED_BLOB_STATE}, &bytes,
                                &len, err));
    if (len < sizeof sum || len > STATE_MAX) {
        return corrupt(err, "a state of impossible size");
    }
    memcpy(&sum, bytes + len - sizeof sum, sizeof sum);
    if (sum != ron_crc32c(0, bytes, len - sizeof sum)) {
        return corrupt(err, "a state with a wrong checksum");
    }
    /* The store's bytes are ours only until the next call. */
    copy = ron_alloc(len);
    if (copy == NULL) {
        return RON_NOMEM;
    }
    memcpy(copy, bytes, len);
    r = (struct reader){.at = copy, .left = len - sizeof sum};
    take(&r, magic, sizeof magic);
    take(&r, uuid, sizeof uuid);
    if (memcmp(magic, state_magic, sizeof magic) != 0) {
        return corrupt(err, "another version");
    }
    if (memcmp(uuid, ix->uuid, sizeof uuid) != 0) {
        return corrupt(err, "of another ledger");
    }
    take(&r, ix->hash_key, sizeof ix->hash_key);
    state->applied_seq = take64(&r);
    take(&r, &state->applied_root, sizeof state->applied_root);
    state->image_seq = take64(&r);
    state->image_chunks = take64(&r);
    state->run_next = take64(&r);
    for (uint32_t t = 0; t < LED_TREES; t++) {
        RON_TRY(take_tree(ix, t, &r, err));
    }
    if (r.bad || r.left != 0) {
        return corrupt(err, "a state of another length");
    }
    RON_TRY(sweep(ix, err));
    ix->store->ops->abort(ix->store); /* reading, too, began a transaction */
    return RON_OK;
}
