/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/state.c - the blob that says what of the store counts, and how an index is read
 * back.
 *
 * Each commit writes the whole state: whose ledger, which key, up to which seq, image, and each run
 * with the part of it that is durable. What the state does not name is left over from a crash and
 * is removed at the next open. Layout: docs/formats/ledger-index.md.
 *
 * Reading back reads every piece: checksums are compared and the filters filled again, so damage is
 * found here, where a fresh index is the answer (X3).
 *
 * Threads: the writer's, or nobody else's yet. */
#include "ledger/index/priv.h"

#include "ron/base/alloc.h"
#include "ron/base/buf.h"
#include "ron/base/crc32c.h"

static const char state_magic[8] = {'R', 'O', 'N', 'I', 'D', 'X', '0', '2'};

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

static void put_slice(struct ron_buf *buf, const struct led_slice *slice, struct led_place place)
{
    const struct led_cut *cut = &slice->durable;

    put64(buf, slice->run->id);
    put64(buf, slice->run->mark);
    put64(buf, place.journal);
    put64(buf, place.base);
    put64(buf, slice->run->keys);
    put32(buf, slice->run->level);
    put32(buf, (slice->merging ? SLICE_MERGING : 0u) | (slice->growing ? SLICE_GROWING : 0u));
    put64(buf, cut->lo);
    put64(buf, cut->hi);
    put64(buf, cut->keys);
    put32(buf, cut->piece);
    put32(buf, cut->pieces);
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
            const struct led_slice *slice = &next->slices.at[i];

            put_slice(&buf, slice, ix->store->ops->place(ix->store, slice->run->id));
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

        done += led__piece_encode(ix->ents[0] + done, count - done, 0, bytes, &len);
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
static enum ron_rc read_piece(struct led_index *ix, struct led_blob_key key, uint32_t seed,
                              uint64_t lo, size_t *used, struct led_ent *ret_first,
                              struct ron_err *err)
{
    struct led_piece_view view;
    const uint8_t *bytes;
    size_t len;

    RON_TRY(ix->store->ops->get(ix->store, key, &bytes, &len, err));
    RON_TRY(led__piece_open(bytes, len, true, seed, &view, err));
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
    uint64_t group = led__filter_group_of(f, slice->cut.lo);
    uint64_t end =
        slice->cut.hi == UINT64_MAX ? f->groups : led__filter_group_of(f, slice->cut.hi) + 1;
    size_t used = 0;

    for (uint32_t p = slice->cut.piece; p < slice->cut.pieces; p++) {
        uint64_t upto = end;
        size_t whole;

        RON_TRY(read_piece(ix, (struct led_blob_key){LED_BLOB_PIECE, run->id, p},
                           led__piece_seed(run->mark, run->id, p), slice->cut.lo, &used,
                           &run->pieces[p].first, err));
        if (p > slice->cut.piece &&
            !led__ent_less(run->pieces[p - 1].first, run->pieces[p].first)) {
            return corrupt(err, "pieces out of order");
        }
        if (p + 1 < slice->cut.pieces) { /* a first piece may have nothing from `lo` on */
            upto = used > 0 ? led__filter_group_of(f, ix->ents[0][used - 1].hash) : group;
        }
        if (upto < group || (used > 0 && led__filter_group_of(f, ix->ents[0][0].hash) < group)) {
            return corrupt(err, "pieces out of order");
        }
        for (whole = used;
             whole > 0 && led__filter_group_of(f, ix->ents[0][whole - 1].hash) >= upto; whole--) {
        }
        if (slice->rests + whole > f->keys_max || upto > end ||
            (p + 1 == slice->cut.pieces && whole != used)) {
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
    uint64_t mark = take64(r);
    struct led_place place = {.journal = take64(r), .base = take64(r)};
    uint64_t keys = take64(r);
    uint32_t level = take32(r);
    uint32_t flags = take32(r);

    slice.cut.lo = take64(r);
    slice.cut.hi = take64(r);
    slice.cut.keys = take64(r);
    slice.cut.piece = take32(r);
    slice.cut.pieces = take32(r);
    slice.merging = (flags & SLICE_MERGING) != 0;
    slice.growing = (flags & SLICE_GROWING) != 0;
    slice.synced = !slice.growing;
    slice.durable = slice.cut;
    if (r->bad || keys >= UINT32_MAX || level >= LED_LEVELS || slice.cut.lo > slice.cut.hi ||
        slice.cut.piece > slice.cut.pieces) {
        return corrupt(err, "a run that cannot be");
    }
    RON_TRY(led__run_new(id, level, keys, &slice.run));
    next->slices.at[next->slices.count++] = slice;
    slice.run->mark = mark;
    take_edges(r, slice.run->edges);
    if (r->bad || slice.cut.pieces > slice.run->pieces_max) {
        return corrupt(err, "a run with too many pieces");
    }
    RON_TRY(
        ix->store->ops->open_run(ix->store, id, place, slice.cut.pieces, &slice.run->file, err));
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

        RON_TRY(read_piece(ix, (struct led_blob_key){LED_BLOB_TAIL, tree, i}, 0, 0, &used, &first,
                           err));
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

/* ---- the image ------------------------------------------------------------------------------- */

enum ron_rc led__chunk_get(struct led_index *ix, uint64_t seq, uint64_t chunk,
                           const uint8_t **ret_bytes, size_t *ret_len, struct ron_err *err)
{
    struct led_blob_key key = {LED_BLOB_IMAGE, seq, chunk};
    const uint8_t *bytes;
    size_t len;
    uint32_t sum;
    enum ron_rc rc = ix->store->ops->get(ix->store, key, &bytes, &len, err);

    if (rc == RON_NOTFOUND) {
        return corrupt(err, "an image with missing chunks");
    }
    RON_TRY(rc);
    if (len < sizeof sum) {
        return corrupt(err, "an image without its checksum");
    }
    memcpy(&sum, bytes, sizeof sum);
    bytes += sizeof sum;
    len -= sizeof sum;
    if (sum != led__chunk_sum(seq, chunk, bytes, len)) {
        return corrupt(err, "an image with a wrong checksum");
    }
    *ret_bytes = bytes;
    *ret_len = len;
    return RON_OK;
}

uint32_t led__chunk_sum(uint64_t seq, uint64_t chunk, const void *bytes, size_t len)
{
    uint64_t where[2] = {seq, chunk};

    return ron_crc32c(ron_crc32c(0, where, sizeof where), bytes, len);
}

static enum ron_rc check_image(struct led_index *ix, struct ron_err *err)
{
    const struct led_state *state = &ix->state_next;
    const uint8_t *bytes;
    size_t len;

    for (uint64_t i = 0; state->image_seq != 0 && i < state->image_chunks; i++) {
        RON_TRY(led__chunk_get(ix, state->image_seq, i, &bytes, &len, err));
    }
    return RON_OK;
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
    RON_TRY(check_image(ix, err));
    return ix->store->ops->tidy(ix->store, state->image_seq, err);
}
