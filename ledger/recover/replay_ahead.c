/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/replay_ahead.c - frames taken apart and put into the tree: the preparing step of a
 * replay; the contract is in replay.h. */
#include <inttypes.h>
#include <string.h>

#include "ledger/recover/replay_job.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- jobs ------------------------------------------------------------------------------------ */

enum ron_rc led__job_init(struct led__job *job)
{
    *job = (struct led__job){0};
    ron_buf_init(&job->bytes, 2 * (size_t)LED_FRAME_MAX);
    job->frames = ron_alloc_array(LED__JOB_FRAMES, sizeof *job->frames);
    return job->frames == NULL ? RON_NOMEM : RON_OK;
}

void led__job_done(struct led__job *job)
{
    ron_buf_done(&job->bytes);
    ron_free(job->frames);
    ron_free(job->records);
    ron_free(job->entries);
    ron_free(job->links);
    ron_free(job->preps);
    ron_free(job->hashes);
    ron_free(job->stored);
}

void led__job_clear(struct led__job *job)
{
    ron_buf_clear(&job->bytes);
    job->frame_count = 0;
    job->record_count = 0;
    job->entry_count = 0;
    job->rc = RON_OK;
    job->err = (struct ron_err){0};
}

bool led__job_full(const struct led__job *job)
{
    return job->entry_count >= LED__JOB_ENTRIES || ron_buf_len(&job->bytes) >= LED__JOB_BYTES ||
           job->frame_count == LED__JOB_FRAMES;
}

enum ron_rc led__job_add(struct led__job *job, const struct led_frame *frame, struct ron_err *err)
{
    enum ron_rc rc = ron_buf_append(&job->bytes, frame->payload, frame->payload_len);

    if (rc != RON_OK) {
        return ron_err_set(err, rc, "no memory to replay a frame");
    }
    RON_ASSERT(job->frame_count < LED__JOB_FRAMES);
    job->frames[job->frame_count++] = *frame;
    /* Counted, so that the job is seen to be full; preparing counts anew. */
    job->entry_count += frame->entries;
    job->record_count += frame->records;
    return RON_OK;
}

static bool grow(void **column, size_t count, size_t size)
{
    void *grown = ron_realloc_array(*column, count, size);

    if (grown != NULL) {
        *column = grown;
    }
    return grown != NULL;
}

static enum ron_rc make_room(struct led__job *job, struct ron_err *err)
{
    size_t room = RON_MAX(job->room, (size_t)LED__JOB_ENTRIES);
    size_t records = RON_MAX(job->record_room, (size_t)LED__JOB_FRAMES);

    while (room < job->entry_count) {
        room *= 2;
    }
    while (records < job->record_count) {
        records *= 2;
    }
    if (records != job->record_room) {
        if (!grow((void **)&job->records, records, sizeof *job->records)) {
            return ron_err_set(err, RON_NOMEM, "no memory to replay a frame");
        }
        job->record_room = records;
    }
    if (room != job->room) {
        if (!grow((void **)&job->entries, room, sizeof *job->entries) ||
            !grow((void **)&job->links, room, sizeof *job->links) ||
            !grow((void **)&job->preps, room, sizeof *job->preps) ||
            !grow((void **)&job->hashes, room, sizeof *job->hashes) ||
            !grow((void **)&job->stored, 2 * room + RON_TREE_LEVELS, sizeof *job->stored)) {
            return ron_err_set(err, RON_NOMEM, "no memory to replay a frame");
        }
        job->room = room;
    }
    return RON_OK;
}

/* ---- entries --------------------------------------------------------------------------------- */

static enum ron_rc decode_entry(const struct led__ahead *a, struct led__job *job,
                                const struct led_stored *stored, struct ron_err *err)
{
    size_t at = job->entry_count;
    const uint8_t *leaf = (const uint8_t *)stored->leaf.ptr;
    struct led_refusal refusal;

    if (!led_entry_decode(leaf, stored->leaf.len, LED_ORIGIN_LEDGER, &job->entries[at], &refusal)) {
        return ron_err_set(err, RON_CORRUPT, "entry %" PRIu64 ": %s: %s", stored->seq,
                           refusal.member, refusal.detail);
    }
    ron_tree_hash_leaf(leaf, stored->leaf.len, &job->hashes[at]);
    led_book_prepare(a->opts->hash_key, &job->entries[at], &job->preps[at]);
    job->links[at] = stored->links;
    job->entry_count++;
    return RON_OK;
}

static enum ron_rc decode_frame(const struct led__ahead *a, struct led__job *job,
                                const struct led_frame *frame, struct ron_err *err)
{
    struct led_cursor records;
    struct led_record record;
    struct led_cursor entries;
    struct led_stored stored;
    size_t first = job->entry_count;
    bool bad = false;

    led_records(frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        job->records[job->record_count++] =
            (struct led__replay_record){.record = record, .entry = job->entry_count};
        led_entries(&record, &entries);
        while (led_entries_next(&entries, &stored, &bad)) {
            RON_TRY(decode_entry(a, job, &stored, err));
        }
    }
    if (bad || job->entry_count - first != frame->entries) {
        return ron_err_set(err, RON_CORRUPT, "frame of %" PRIu64 ": no writer makes such records",
                           frame->seq_first);
    }
    return RON_OK;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* The tree before the first frame: from the stored hashes, which that frame must confirm (Y2). */
static enum ron_rc start_tree(struct led__ahead *a, const struct led_frame *frame,
                              struct ron_err *err)
{
    uint64_t size = frame->seq_first - 1;
    uint64_t stored = ron_tree_stored_count(size);
    struct led_hashes *hashes = a->opts->hashes;
    uint64_t known = RON_MIN(a->opts->image_seq, a->opts->indexed_seq);
    struct ron_tree_hash root;

    if (size > known) {
        return ron_err_set(err, RON_CORRUPT, "entries before %" PRIu64 " are missing",
                           frame->seq_first);
    }
    ron_tree_init(&a->tree);
    if (size > 0) {
        a->derived_bad = true;
        if (hashes == NULL || led_hashes_count(hashes) < stored) {
            return ron_err_set(err, RON_CORRUPT, "stored hashes are missing");
        }
        RON_TRY(ron_tree_load(led_hashes_store(hashes), size, &a->tree, err));
    }
    ron_tree_root(&a->tree, &root);
    if (!ron_tree_hash_equal(&root, &frame->prev_root)) {
        return ron_err_set(err, RON_CORRUPT, "the root before entry %" PRIu64 " is another",
                           frame->seq_first);
    }
    a->derived_bad = false;
    if (hashes != NULL && led_hashes_count(hashes) > stored) {
        RON_TRY(led_hashes_cut(hashes, stored, err));
    }
    a->started = true;
    return RON_OK;
}

/* Y2: the root that the index was made for, when its seq lies in this frame or right before. */
static enum ron_rc compare_index(struct led__ahead *a, const struct led__job *job,
                                 const struct led_frame *frame, size_t first, struct ron_err *err)
{
    uint64_t seq = a->opts->indexed_seq;
    struct ron_tree tree;
    struct ron_tree_hash root;

    if (a->index_compared || seq == 0 || seq + 1 < frame->seq_first ||
        seq >= frame->seq_first + frame->entries) {
        return RON_OK;
    }
    tree = a->tree;
    RON_TRY(
        ron_tree_extend(&tree, &job->hashes[first], (size_t)(seq + 1 - frame->seq_first), NULL));
    ron_tree_root(&tree, &root);
    if (!ron_tree_hash_equal(&root, &a->opts->indexed_root)) {
        a->derived_bad = true;
        return ron_err_set(err, RON_CORRUPT, "the index is of another journal");
    }
    a->index_compared = true;
    return RON_OK;
}

static enum ron_rc grow_tree(struct led__ahead *a, struct led__job *job,
                             const struct led_frame *frame, size_t first, uint64_t stored_at,
                             struct ron_err *err)
{
    struct ron_tree_hash root;

    if (a->tree.size + 1 != frame->seq_first) {
        return ron_err_set(err, RON_CORRUPT, "entries before %" PRIu64 " are missing",
                           frame->seq_first);
    }
    RON_TRY(compare_index(a, job, frame, first, err));
    if (ron_tree_extend(&a->tree, &job->hashes[first], frame->entries, job->stored + stored_at) !=
        RON_OK) {
        return ron_err_set(err, RON_CORRUPT, "the tree is full");
    }
    ron_tree_root(&a->tree, &root);
    if (!ron_tree_hash_equal(&root, &frame->new_root)) {
        return ron_err_set(err, RON_CORRUPT, "the root of the frame of %" PRIu64 " is another",
                           frame->seq_first);
    }
    return RON_OK;
}

static enum ron_rc prepare_frames(struct led__ahead *a, struct led__job *job, struct ron_err *err)
{
    const uint8_t *payload = ron_buf_data(&job->bytes);
    uint64_t place;
    size_t stored;

    if (!a->started) {
        RON_TRY(start_tree(a, &job->frames[0], err));
    }
    place = ron_tree_stored_count(a->tree.size);
    for (size_t i = 0; i < job->frame_count; i++) {
        struct led_frame *frame = &job->frames[i];
        size_t first = job->entry_count;

        frame->payload = payload;
        payload += frame->payload_len;
        RON_TRY(decode_frame(a, job, frame, err));
        RON_TRY(grow_tree(a, job, frame, first, ron_tree_stored_count(a->tree.size) - place, err));
    }
    stored = (size_t)(ron_tree_stored_count(a->tree.size) - place);
    if (a->opts->hashes != NULL && stored > 0) {
        const struct ron_tree_store *store = led_hashes_store(a->opts->hashes);

        RON_TRY(store->append(store->ctx, place, job->stored, stored, err));
    }
    return RON_OK;
}

enum ron_rc led__job_prepare(struct led__ahead *a, struct led__job *job, struct ron_err *err)
{
    RON_TRY(make_room(job, err));
    job->entry_count = 0;
    job->record_count = 0;
    return prepare_frames(a, job, err);
}
