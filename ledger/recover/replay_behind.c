/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/replay_behind.c - prepared frames through the book: the applying step of a replay;
 * the contract is in replay.h. */
#include <inttypes.h>
#include <string.h>

#include "ledger/index/follow.h"
#include "ledger/pipeline/preval.h"
#include "ledger/recover/replay_job.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"

enum {
    COMMIT_EVERY = 1 << 18, /* keys: far below what the table of recent keys holds */
    CANDIDATES_MAX = 8,
    /* A batch of reversals only: their pointers and the leaves of what they undo. Pages that are
     * not touched cost nothing. */
    ARENA_BYTES = LED_BATCH_BIN_MAX * (LED_ENTRY_BYTES_MAX + 256),
};

enum ron_rc led__behind_init(struct led__behind *b, const struct led_replay_opts *opts,
                             struct ron_err *err)
{
    *b = (struct led__behind){.opts = opts, .indexed_seq = opts->indexed_seq};
    ron_buf_init(&b->room, LED_FRAME_MAX);
    if (ron_arena_init(&b->arena, ARENA_BYTES) != RON_OK) {
        return ron_err_set(err, RON_NOMEM, "no memory for a replay");
    }
    return RON_OK;
}

void led__behind_done(struct led__behind *b)
{
    ron_free(b->links);
    ron_arena_done(&b->arena);
    ron_buf_done(&b->room);
}

/* Hands on what the index answered, noting a failure as its own. */
static enum ron_rc of_index(struct led__behind *b, enum ron_rc rc)
{
    b->index_failed = b->index_failed || rc != RON_OK;
    return rc;
}

/* ---- what a Reverse undoes ------------------------------------------------------------------- */

/* The leaf of the entry `seq` in the frame that holds it. */
static enum ron_rc read_leaf(struct led__behind *b, uint64_t seq, struct ron_str *ret_leaf,
                             struct ron_err *err)
{
    struct led_frame frame;
    struct led_cursor records;
    struct led_record record;
    struct led_cursor entries;
    struct led_stored stored;
    bool bad = false;

    RON_TRY(led_log_read(b->opts->look_back, seq, &b->room, &frame, err));
    led_records(&frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        led_entries(&record, &entries);
        while (led_entries_next(&entries, &stored, &bad)) {
            if (stored.seq == seq) {
                *ret_leaf = stored.leaf;
                return RON_OK;
            }
        }
    }
    return ron_err_set(err, RON_CORRUPT, "entry %" PRIu64 " is not in its frame", seq);
}

/* Whether the entry at `seq` has the id; then *ret_entry is a copy in the arena. */
static enum ron_rc try_candidate(struct led__behind *b, uint64_t seq, struct ron_str id,
                                 const struct led_entry **ret_entry, struct ron_err *err)
{
    struct led_entry *entry = RON_ARENA_NEW(&b->arena, struct led_entry);
    struct led_refusal refusal;
    struct ron_str leaf = {0};
    const char *copy;
    enum ron_rc rc = read_leaf(b, seq, &leaf, err);

    if (rc == RON_NOTFOUND) { /* a tombstone at the end is found at the seq behind it */
        return RON_OK;
    }
    RON_TRY(rc);
    copy = ron_arena_dup(&b->arena, leaf.ptr, leaf.len);
    if (entry == NULL || copy == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for what is undone");
    }
    if (!led_entry_decode((const uint8_t *)copy, leaf.len, LED_ORIGIN_LEDGER, entry, &refusal)) {
        return ron_err_set(err, RON_CORRUPT, "entry %" PRIu64 ": %s", seq, refusal.detail);
    }
    if (ron_str_equal(entry->id, id)) {
        *ret_entry = entry;
    }
    return RON_OK;
}

/* A walk back through the entries of an account. */
struct walk {
    struct ron_str account;
    struct ron_str id; /* that is looked for */
    uint64_t seq;      /* of an entry that touched the account; 0: it was the first */
    uint64_t found;    /* 0: not yet */
};

/* What touched the account before that entry did. Only `the_one`, of which the walk knows, may be a
 * Reverse that touches it as the `to` of what it undoes: its own bytes do not tell. */
static bool goes_on_at(const struct walk *k, const struct led_entry *entry,
                       const struct led_links *links, bool the_one, uint64_t *ret_seq)
{
    if (ron_str_equal(entry->account, k->account)) {
        *ret_seq = links->account.prev_seq;
        return true;
    }
    *ret_seq = links->to.prev_seq;
    return links->has_to && (the_one || ron_str_equal(entry->to, k->account));
}

/* All of a frame up to k->seq; then k->seq lies before the frame, or nearer to its beginning. */
static enum ron_rc walk_frame(struct led__behind *b, struct walk *k, struct ron_err *err)
{
    uint64_t from = k->seq;
    bool knows = false;
    struct led_frame frame;
    struct led_cursor records;
    struct led_record record;
    struct led_cursor entries;
    struct led_stored stored;
    struct led_refusal refusal;
    struct led_entry entry;
    bool bad = false;

    RON_TRY(led_log_read(b->opts->look_back, from, &b->room, &frame, err));
    led_records(&frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        led_entries(&record, &entries);
        while (led_entries_next(&entries, &stored, &bad) && stored.seq <= from) {
            if (!led_entry_decode((const uint8_t *)stored.leaf.ptr, stored.leaf.len,
                                  LED_ORIGIN_LEDGER, &entry, &refusal)) {
                return ron_err_set(err, RON_CORRUPT, "entry %" PRIu64 ": %s", stored.seq,
                                   refusal.detail);
            }
            if (ron_str_equal(entry.id, k->id)) {
                k->found = stored.seq;
                return RON_OK;
            }
            knows = knows || goes_on_at(k, &entry, &stored.links, stored.seq == from, &k->seq);
        }
    }
    return knows && k->seq < from
               ? RON_OK
               : ron_err_set(err, RON_CORRUPT, "the history of entry %" PRIu64 " ends", from);
}

/* For keys that nobody remembers: an entry and the Reverse of it are of one account. Reads each
 * frame that touches the account about once, and needs no more memory the longer the journal. */
static enum ron_rc walk_back(struct led__behind *b, const struct led_entry *reverse,
                             const struct led_entry **ret_entry, struct ron_err *err)
{
    struct walk k = {.account = reverse->account, .id = reverse->ref};
    struct led_account account = {0};

    if (led_book_account(led_seq_book(b->opts->seq), k.account, LED_COMMITTED, &account)) {
        k.seq = account.last_seq;
    }
    while (k.seq != 0 && k.found == 0) {
        RON_TRY(walk_frame(b, &k, err));
    }
    return k.found != 0 ? try_candidate(b, k.found, k.id, ret_entry, err) : RON_OK;
}

static enum ron_rc find_original(struct led__behind *b, struct led_key key, struct ron_str id,
                                 const struct led_entry **ret_entry, struct ron_err *err)
{
    uint64_t seqs[CANDIDATES_MAX + LED_INDEX_FOUND_MAX];
    size_t count = led_seq_candidates(b->opts->seq, key, seqs, CANDIDATES_MAX);
    size_t more = 0;

    *ret_entry = NULL;
    if (b->opts->index != NULL) {
        RON_TRY(of_index(
            b, led_index_find(b->opts->index, LED_INDEX_ID, key, seqs + count, &more, err)));
    }
    for (size_t i = 0; i < count + more && *ret_entry == NULL; i++) {
        RON_TRY(try_candidate(b, seqs[i], id, ret_entry, err));
    }
    return RON_OK;
}

/* Whether the i-th entry of a batch undoes one that stands before it in the batch. */
static bool undoes_its_own(const struct led_prep *preps, size_t i)
{
    for (size_t at = i; at-- > 0;) {
        if (preps[at].id.a == preps[i].ref.a && preps[at].id.b == preps[i].ref.b) {
            return true;
        }
    }
    return false;
}

/* NULL when the batch reverses nothing. What it reverses of itself the book finds. */
static enum ron_rc find_originals(struct led__behind *b, const struct led_entry *entries,
                                  const struct led_prep *preps, size_t count,
                                  const struct led_entry ***ret, struct ron_err *err)
{
    const struct led_entry **list = NULL;

    *ret = NULL;
    for (size_t i = 0; i < count; i++) {
        if (entries[i].kind != LED_KIND_REVERSE) {
            continue;
        }
        if (list == NULL) {
            ron_arena_clear(&b->arena);
            list = ron_arena_alloc_array(&b->arena, count, sizeof(void *), _Alignof(void *));
            if (list == NULL) {
                return ron_err_set(err, RON_NOMEM, "no memory for what is undone");
            }
            *ret = list;
        }
        RON_TRY(find_original(b, preps[i].ref, entries[i].ref, &list[i], err));
        if (list[i] == NULL && b->opts->forget_when_full && !undoes_its_own(preps, i)) {
            RON_TRY(walk_back(b, &entries[i], &list[i], err));
        }
    }
    return RON_OK;
}

/* ---- batches --------------------------------------------------------------------------------- */

static bool same_side(const struct led_side *x, const struct led_side *y)
{
    return x->prev_seq == y->prev_seq && x->available.v == y->available.v && x->held.v == y->held.v;
}

static bool same_links(const struct led_links *x, const struct led_links *y)
{
    return same_side(&x->account, &y->account) && x->has_to == y->has_to &&
           (!x->has_to || same_side(&x->to, &y->to));
}

static enum ron_rc make_room(struct led__behind *b, size_t count, struct ron_err *err)
{
    struct led_links *links;
    size_t room = RON_MAX(b->links_room, (size_t)LED__JOB_ENTRIES);

    while (room < count) {
        room *= 2;
    }
    if (room == b->links_room) {
        return RON_OK;
    }
    links = ron_realloc_array(b->links, room, sizeof *links);
    if (links == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to replay a batch");
    }
    b->links = links;
    b->links_room = room;
    return RON_OK;
}

static enum ron_rc apply_batch(struct led__behind *b, const struct led__job *job,
                               const struct led__replay_record *r, struct ron_err *err)
{
    struct led_book *book = led_seq_book_mut(b->opts->seq);
    const struct led_record *record = &r->record;
    struct led_apply in = {
        .entries = &job->entries[r->entry],
        .preps = &job->preps[r->entry],
        .count = record->count,
        .now_ms = record->now_ms,
        .seq_first = record->seq_first,
        .flags = LED_APPLY_REPLAY,
    };
    const struct led_entry **originals;
    struct led_outcome outcome;
    enum ron_rc rc;

    RON_TRY(make_room(b, in.count, err));
    RON_TRY(find_originals(b, in.entries, in.preps, in.count, &originals, err));
    in.originals = originals;
    in.ret_links = b->links;
    rc = led_book_apply(book, &in, &outcome);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "the book does not take the batch of %" PRIu64,
                           record->seq_first);
    }
    if (!outcome.accepted) {
        return ron_err_set(err, RON_CORRUPT, "the book refuses entry %" PRIu64 ": %s: %s",
                           record->seq_first + outcome.refusal.idx,
                           led_reason_name(outcome.refusal.reason), outcome.refusal.detail);
    }
    for (size_t i = 0; i < in.count; i++) {
        if (!same_links(&b->links[i], &job->links[r->entry + i])) {
            led_book_abort(book);
            return ron_err_set(err, RON_CORRUPT, "the links of entry %" PRIu64 " are wrong",
                               record->seq_first + i);
        }
    }
    (void)led_book_commit(book);
    b->entries += in.count;
    return RON_OK;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static enum ron_rc remember(struct led__behind *b, struct led_key key, uint64_t seq, bool tombstone,
                            struct ron_err *err)
{
    enum ron_rc rc = led_seq_remember(b->opts->seq, key, seq, tombstone);

    if (rc == RON_FULL && b->opts->forget_when_full) {
        led_seq_forget_oldest(b->opts->seq); /* Most reversals undo something young. */
        rc = led_seq_remember(b->opts->seq, key, seq, tombstone);
    }
    return rc == RON_OK ? RON_OK : ron_err_set(err, rc, "recent keys cannot be kept");
}

static enum ron_rc remember_idem(struct led__behind *b, const struct led_record *record,
                                 struct ron_err *err)
{
    struct led_key key;

    if (record->idem_id.len == 0) {
        return RON_OK;
    }
    key = led_idem_key(b->opts->hash_key, record->idem_id);
    if (b->opts->fill_index) {
        b->keys++;
        RON_TRY(of_index(
            b, led_follow_idem(b->opts->index, key, record->idem_id, record->seq_first, err)));
    }
    return remember(b, key, record->seq_first, record->kind == LED_RECORD_CANCEL, err);
}

static enum ron_rc remember_keys(struct led__behind *b, const struct led__job *job,
                                 const struct led__replay_record *r, struct ron_err *err)
{
    const struct led_record *record = &r->record;

    if (record->seq_first > b->indexed_seq) {
        RON_TRY(remember_idem(b, record, err));
    }
    for (size_t i = 0; i < record->count; i++) {
        const struct led_prep *prep = &job->preps[r->entry + i];
        uint64_t seq = record->seq_first + i;

        if (seq <= b->indexed_seq) {
            continue;
        }
        if (b->opts->fill_index) {
            b->keys++;
            RON_TRY(of_index(
                b, led_follow_entry(b->opts->index, &job->entries[r->entry + i], prep, seq, err)));
        }
        RON_TRY(remember(b, prep->id, seq, false, err));
    }
    return RON_OK;
}

static enum ron_rc commit_index(struct led__behind *b, uint64_t seq,
                                const struct ron_tree_hash *root, struct ron_err *err)
{
    RON_TRY(of_index(b, led_index_commit(b->opts->index, seq, root, err)));
    b->indexed_seq = seq;
    b->keys = 0;
    led_seq_indexed(b->opts->seq, seq);
    return RON_OK;
}

enum ron_rc led__behind_end(struct led__behind *b, const struct ron_tree *tree, struct ron_err *err)
{
    struct ron_tree_hash root;

    if (!b->opts->fill_index || b->keys == 0) {
        return RON_OK;
    }
    ron_tree_root(tree, &root);
    return commit_index(b, tree->size, &root, err);
}

/* ---- records --------------------------------------------------------------------------------- */

static enum ron_rc apply_record(struct led__behind *b, const struct led__job *job,
                                const struct led__replay_record *r, struct ron_err *err)
{
    const struct led_record *record = &r->record;
    uint64_t seq_last = record->seq_first + record->count - 1;

    if (record->count > 0 && seq_last > b->opts->image_seq) {
        if (record->seq_first <= b->opts->image_seq) {
            b->derived_bad = true;
            return ron_err_set(err, RON_CORRUPT, "the image ends inside a batch");
        }
        RON_TRY(apply_batch(b, job, r, err));
    }
    /* The table of recent keys needs the book's seq to tell what is durable. */
    led_seq_replayed(b->opts->seq, RON_MAX(seq_last, led_seq_last(b->opts->seq)), record->now_ms);
    return remember_keys(b, job, r, err);
}

enum ron_rc led__job_apply(struct led__behind *b, struct led__job *job, struct ron_err *err)
{
    size_t at = 0;

    for (size_t i = 0; i < job->frame_count; i++) {
        const struct led_frame *frame = &job->frames[i];

        for (uint32_t n = 0; n < frame->records; n++) {
            enum ron_rc rc = apply_record(b, job, &job->records[at++], err);

            if (rc != RON_OK) {
                return rc;
            }
        }
        if (b->keys >= COMMIT_EVERY) {
            RON_TRY(commit_index(b, frame->seq_first + frame->entries - 1, &frame->new_root, err));
        }
    }
    if (b->opts->progress != NULL) {
        b->opts->progress(b->opts->progress_arg, led_seq_last(b->opts->seq),
                          b->opts->last_seq_guess);
    }
    return RON_OK;
}
