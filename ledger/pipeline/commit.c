/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/commit.c - one frame, one sync, one new root for a group of works; the contract
 * is in commit.h.
 *
 * The tree of the group is built on a copy. Only when the log has the frame does the copy become
 * the tree, so that nothing has to be taken back. */
#include "ledger/pipeline/commit.h"

#include "ledger/pipeline/group.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { STORED_FIRST = 4096 }; /* hashes; grows to what the largest group needs */

struct led_commit {
    struct led_commit_opts opts;
    struct ron_tree tree;
    struct ron_tree_hash root; /* of tree */
    uint64_t time_ms;          /* of the last frame: frames never go back in time */
    bool broken;               /* C3 */

    struct ron_tree next; /* tree with the present group */
    struct led_group group;
    struct ron_buf frame;
    struct ron_tree_hash *stored; /* hashes of the present group, for the store */
    size_t stored_room;
};

enum ron_rc led_commit_new(const struct led_commit_opts *opts, struct led_commit **ret_commit,
                           struct ron_err *err)
{
    struct led_commit *c = ron_alloc_zero(sizeof *c);
    struct led_log_head head;

    if (c == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the committer");
    }
    led_log_head(opts->log, &head);
    RON_ASSERT_MSG(opts->tree->size == head.last_seq, "C4: the tree is not that of the log");
    c->opts = *opts;
    c->tree = *opts->tree;
    c->opts.tree = NULL;
    c->time_ms = head.time_ms;
    ron_tree_root(&c->tree, &c->root);
    RON_ASSERT_MSG(head.last_seq == 0 || ron_tree_hash_equal(&c->root, &head.root),
                   "C4: the root is not that of the log");
    ron_buf_init_aligned(&c->frame, LED_FRAME_MAX, RON_DIRECT_ALIGN);
    *ret_commit = c;
    return RON_OK;
}

void led_commit_free(struct led_commit *c)
{
    if (c == NULL) {
        return;
    }
    led_group_done(&c->group);
    ron_buf_done(&c->frame);
    ron_free(c->stored);
    ron_free(c);
}

const struct ron_tree *led_commit_tree(const struct led_commit *c)
{
    return &c->tree;
}

static size_t bytes_of(const struct led_work *w)
{
    size_t bytes = LED_RECORD_HEAD + w->batch.idem_id.len;

    for (size_t i = 0; i < w->batch.count; i++) {
        bytes += w->leaves[i].len;
    }
    return bytes;
}

size_t led_commit_gather(const struct led_commit *c, struct led_work *const *works, size_t count)
{
    size_t most = RON_MIN(count, (size_t)LED_GROUP_MAX);
    size_t bytes = 0;
    size_t taken = 0;

    (void)c;
    while (taken < most && bytes < LED_GROUP_BYTES) {
        bytes += bytes_of(works[taken++]);
    }
    return taken;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static enum ron_rc make_room(struct led_commit *c, size_t entries, struct ron_err *err)
{
    size_t need = 2 * entries + RON_TREE_LEVELS;
    size_t room = c->stored_room != 0 ? c->stored_room : STORED_FIRST;
    struct ron_tree_hash *stored;

    while (room < need) {
        room *= 2;
    }
    if (room == c->stored_room) {
        return RON_OK;
    }
    stored = ron_realloc_array(c->stored, room, sizeof *stored);
    if (stored == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the hashes of a group");
    }
    c->stored = stored;
    c->stored_room = room;
    return RON_OK;
}

/* Grows c->next by a work and leaves in it the root at its last entry. */
static enum ron_rc grow_tree(struct led_commit *c, struct led_work *w,
                             const struct ron_tree_hash *root, struct ron_err *err)
{
    uint64_t at = ron_tree_stored_count(c->next.size) - ron_tree_stored_count(c->tree.size);

    if (w->batch.count == 0) {
        w->root = *root;
        return RON_OK;
    }
    if (ron_tree_extend(&c->next, w->hashes, w->batch.count, c->stored + at) != RON_OK) {
        return ron_err_set(err, RON_CORRUPT, "the tree is full");
    }
    ron_tree_root(&c->next, &w->root);
    return RON_OK;
}

/* ---- the frame ------------------------------------------------------------------------------- */

static void add_work(struct ron_buf *out, const struct led_work *w)
{
    size_t at = ron_buf_len(out);
    unsigned flags = ((w->flags & LED_APPLY_IMPORT) != 0 ? LED_RECORD_IMPORT : 0) |
                     (w->kind == LED_WORK_EXPIRE ? LED_RECORD_OWN : 0);
    struct led_record record = {
        .kind = w->kind == LED_WORK_CANCEL ? LED_RECORD_CANCEL : LED_RECORD_BATCH,
        .flags = (uint16_t)flags,
        .count = (uint32_t)w->batch.count,
        .now_ms = w->now_ms,
        .seq_first = w->seq_first,
        .idem_id = w->batch.idem_id,
    };

    (void)led_frame_add_record(out, &record);
    for (size_t i = 0; i < w->batch.count; i++) {
        (void)led_frame_add_entry(out, w->leaves[i], &w->links[i]);
    }
    if (ron_buf_error(out) == RON_OK) {
        led_frame_end_record(out, at);
    }
}

/* The works are in c->frame. */
static enum ron_rc end_frame(struct led_commit *c, const struct ron_tree_hash *root, size_t count,
                             struct led_frame *ret_frame, struct ron_err *err)
{
    struct led_log_head head;
    struct led_frame frame = {
        .seq_first = c->tree.size + 1,
        .entries = (uint32_t)(c->next.size - c->tree.size),
        .records = (uint32_t)count,
        .prev_root = c->root,
        .new_root = *root,
    };
    enum ron_rc rc;

    led_log_head(c->opts.log, &head);
    frame.epoch = head.epoch;
    memcpy(frame.uuid, head.uuid, sizeof frame.uuid);
    /* A frame without entries leaves seq and root as they were: among frames of an epoch its time
     * tells it from the one before, wherever a copy of the log looks for its place. */
    frame.time_ms =
        RON_MAX(c->time_ms + (frame.entries == 0 ? 1 : 0), ron_env_wall_ms(c->opts.env));
    rc = led_frame_end(&c->frame, &frame);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "a frame of %zu works cannot be built", count);
    }
    *ret_frame = frame;
    return RON_OK;
}

/* ---- the group ------------------------------------------------------------------------------- */

static void tell_works(struct led_work **works, size_t count, uint64_t time_ms)
{
    for (size_t i = 0; i < count; i++) {
        struct led_work *w = works[i];

        w->result = w->kind == LED_WORK_CANCEL ? LED_RESULT_CANCELLED : LED_RESULT_COMMITTED;
        w->replayed = false;
        w->commit_ms = time_ms;
    }
}

/* Work by work, so that what is read of one is still near when the next step reads it. */
static enum ron_rc prepare_group(struct led_commit *c, struct led_work **works, size_t count,
                                 struct led_frame *ret_frame, struct ron_err *err)
{
    const struct ron_tree_hash *root = &c->root;
    size_t entries = 0;

    for (size_t i = 0; i < count; i++) {
        entries += works[i]->batch.count;
    }
    RON_TRY(led_group_begin(&c->group, entries, c->tree.size + 1, err));
    RON_TRY(make_room(c, entries, err));
    c->next = c->tree;
    ron_buf_clear(&c->frame);
    (void)led_frame_begin(&c->frame);
    for (size_t i = 0; i < count; i++) {
        RON_TRY(led_group_check(&c->group, works[i], err));
        RON_TRY(grow_tree(c, works[i], root, err));
        add_work(&c->frame, works[i]);
        root = &works[i]->root;
    }
    return end_frame(c, root, count, ret_frame, err);
}

/* The log has the frame: tree, store and works follow. */
static void finish_group(struct led_commit *c, struct led_work **works, size_t count,
                         const struct led_frame *frame, struct led_commit_done *ret_done)
{
    uint64_t first = ron_tree_stored_count(c->tree.size);
    uint64_t last = ron_tree_stored_count(c->next.size);
    const struct ron_tree_store *store = c->opts.hashes;

    if (last > first &&
        store->append(store->ctx, first, c->stored, (size_t)(last - first), NULL) != RON_OK) {
        c->broken = true;
    }
    c->tree = c->next;
    c->root = frame->new_root;
    c->time_ms = frame->time_ms;
    tell_works(works, count, frame->time_ms);
    ret_done->seq_first = frame->seq_first;
    ret_done->seq_last = c->tree.size;
    ret_done->entries = frame->entries;
    ret_done->time_ms = frame->time_ms;
    ret_done->root = frame->new_root;
    ret_done->bytes = ron_buf_len(&c->frame);
    ret_done->hashes_lost = c->broken;
}

enum ron_rc led_commit_group(struct led_commit *c, struct led_work **works, size_t count,
                             struct led_commit_done *ret_done, struct ron_err *err)
{
    struct led_frame frame = {0};
    uint64_t start_ns;
    enum ron_rc rc;

    RON_ASSERT(count > 0 && count <= LED_GROUP_MAX);
    if (c->broken) {
        return ron_err_set(err, RON_CLOSED, "the committer has failed before");
    }
    rc = prepare_group(c, works, count, &frame, err);
    start_ns = ron_env_now_ns(c->opts.env);
    if (rc == RON_OK && c->opts.sink != NULL) {
        rc = c->opts.sink->append(c->opts.sink->arg, &frame, ron_buf_data(&c->frame),
                                  ron_buf_len(&c->frame), err);
    }
    if (rc == RON_OK) {
        rc = led_log_append(c->opts.log, &frame, ron_buf_data(&c->frame), ron_buf_len(&c->frame),
                            err);
    }
    if (rc != RON_OK) {
        c->broken = rc != RON_LIMIT && rc != RON_NOMEM;
        return rc;
    }
    ret_done->sync_ns = ron_env_now_ns(c->opts.env) - start_ns;
    finish_group(c, works, count, &frame, ret_done);
    return RON_OK;
}
