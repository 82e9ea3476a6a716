/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/offline/load.h"

#include <inttypes.h>
#include <string.h>

#include "ledger/index/follow.h"
#include "ledger/index/hashes.h"
#include "ledger/offline/import.h"
#include "ledger/pipeline/preval.h"
#include "ledger/read/reader.h"
#include "ron/base/alloc.h"

enum {
    GROUP_ENTRIES = 4096,   /* one sync for so many */
    COMMIT_EVERY = 1 << 18, /* keys of the index: far below what the table of recent keys holds */
    CANDIDATES_MAX = 8,     /* places at which an id may stand, but for those of the index */
    /* A batch of reversals only: their pointers and the leaves of what they undo. Pages that are
     * not touched cost nothing. */
    ARENA_BYTES = LED_BATCH_BIN_MAX * (LED_ENTRY_BYTES_MAX + 256),
};

struct led_load {
    const struct ron_env *env;
    const char *dir;
    struct led_recovered *eng;
    struct led_import *import;
    struct led_reader *reader;             /* for what is in the journal already */
    struct ron_arena originals;            /* of the reversals of a batch */
    struct led_work *group[LED_GROUP_MAX]; /* sequenced, not yet durable */
    size_t count;
    uint64_t entries; /* in the group */
    uint64_t keys;    /* added to the index since its last commit */
    bool marked;      /* the directory, as one that is not finished */
    bool over;
};

/* Refused works stay with who offered them; the refusal is read from the work. */
static void note_end(struct led_work *w)
{
    (void)w;
}

static void release(struct led_work *w)
{
    ron_arena_done(&w->arena);
    ron_free(w);
}

static enum ron_rc make_parts(struct led_load *l)
{
    struct led_reader_opts o = {
        .log = l->eng->log,
        .index = l->eng->index,
        .hashes = led_hashes_store(l->eng->hashes),
    };

    memcpy(o.hash_key, l->eng->hash_key, sizeof o.hash_key);
    RON_TRY(led_import_new(l->eng->hash_key, &l->import));
    RON_TRY(ron_arena_init(&l->originals, ARENA_BYTES));
    return led_reader_new(&o, &l->reader);
}

enum ron_rc led_load_new(const struct ron_env *env, const char *dir, struct led_recovered *engine,
                         struct led_load **ret_load, struct ron_err *err)
{
    struct led_load *l;
    struct led_log_head head;
    enum ron_rc rc;

    led_log_head(engine->log, &head);
    if (head.last_seq != 0) {
        return ron_err_set(err, RON_CONFLICT, "the ledger is not empty: it has %" PRIu64 " entries",
                           head.last_seq);
    }
    l = ron_alloc_zero(sizeof *l);
    if (l == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the import");
    }
    l->env = env;
    l->dir = dir;
    l->eng = engine;
    rc = make_parts(l);
    if (rc != RON_OK) {
        led_load_free(l);
        return ron_err_set(err, rc, "no memory for the import");
    }
    *ret_load = l;
    return RON_OK;
}

void led_load_free(struct led_load *l)
{
    if (l == NULL) {
        return;
    }
    for (size_t i = 0; i < l->count; i++) {
        release(l->group[i]);
    }
    if (l->count > 0) {
        led_seq_abort(l->eng->seq);
    }
    led_reader_free(l->reader);
    led_import_free(l->import);
    ron_arena_done(&l->originals);
    ron_free(l);
}

/* ---- the pipeline, by hand ------------------------------------------------------------------- */

/* The keys of a durable work, into the index. */
static enum ron_rc add_keys(struct led_load *l, const struct led_work *w, struct ron_err *err)
{
    struct led_index *index = l->eng->index;

    RON_TRY(led_follow_idem(index, w->idem, w->batch.idem_id, w->seq_first, err));
    for (size_t i = 0; i < w->batch.count; i++) {
        RON_TRY(led_follow_entry(index, &w->batch.entries[i], &w->preps[i], w->seq_first + i, err));
    }
    l->keys += w->batch.count + 1;
    return RON_OK;
}

/* The index has all that is durable, so that the sequencer need not remember it. */
static enum ron_rc commit_index(struct led_load *l, struct ron_err *err)
{
    struct led_log_head head;

    if (l->keys == 0) {
        return RON_OK;
    }
    led_log_head(l->eng->log, &head);
    RON_TRY(led_index_commit(l->eng->index, head.last_seq, &head.root, err));
    led_seq_indexed(l->eng->seq, head.last_seq);
    l->keys = 0;
    return RON_OK;
}

/* Before the first entry: what is there from now on is a part of a ledger until the root agrees. */
static enum ron_rc mark(struct led_load *l, struct ron_err *err)
{
    if (!l->marked) {
        RON_TRY(led_mark_import(l->env, l->dir, err));
        l->marked = true;
    }
    return RON_OK;
}

static enum ron_rc commit(struct led_load *l, struct ron_err *err)
{
    size_t done = 0;

    while (done < l->count) {
        size_t n = led_commit_gather(l->eng->commit, l->group + done, l->count - done);
        struct led_commit_done report;

        RON_TRY(mark(l, err));
        RON_TRY(led_commit_group(l->eng->commit, l->group + done, n, &report, err));
        led_seq_committed(l->eng->seq, n);
        led_reader_set_head(l->reader, report.seq_last, &report.root);
        done += n;
    }
    for (size_t i = 0; i < l->count; i++) {
        RON_TRY(add_keys(l, l->group[i], err));
    }
    for (size_t i = 0; i < l->count; i++) {
        release(l->group[i]);
    }
    l->count = 0;
    l->entries = 0;
    return l->keys >= COMMIT_EVERY ? commit_index(l, err) : RON_OK;
}

static bool reverses(const struct led_work *w)
{
    for (size_t i = 0; i < w->batch.count; i++) {
        if (w->batch.entries[i].kind == LED_KIND_REVERSE) {
            return true;
        }
    }
    return false;
}

/* The entry that `ref` names, if it is in the journal: NULL when it stands in the same batch, or
 * nowhere; the book knows. */
static enum ron_rc fetch_original(struct led_load *l, struct led_key key, struct ron_str ref,
                                  const struct led_entry **ret_entry, struct ron_err *err)
{
    uint64_t seqs[CANDIDATES_MAX];
    struct led_candidates candidates = {
        seqs, led_seq_candidates(l->eng->seq, key, seqs, RON_ARRAY_LEN(seqs))};
    struct led_refusal refusal;
    struct led_found found;
    struct led_entry *entry;
    const char *leaf;
    uint64_t seq = 0;
    enum ron_rc rc = led_read_find(l->reader, ref, candidates, &seq, err);

    *ret_entry = NULL;
    if (rc == RON_NOTFOUND) {
        return RON_OK;
    }
    RON_TRY(rc);
    RON_TRY(led_read_at(l->reader, seq, &found, err));
    leaf = ron_arena_dup(&l->originals, found.stored.leaf.ptr, found.stored.leaf.len);
    entry = RON_ARENA_NEW(&l->originals, struct led_entry);
    if (leaf == NULL || entry == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for what is undone");
    }
    if (!led_entry_decode((const uint8_t *)leaf, found.stored.leaf.len, LED_ORIGIN_LEDGER, entry,
                          &refusal)) {
        return ron_err_set(err, RON_CORRUPT, "entry %" PRIu64 ": %s", seq, refusal.detail);
    }
    *ret_entry = entry;
    return RON_OK;
}

static enum ron_rc fetch_originals(struct led_load *l, struct led_work *w, struct ron_err *err)
{
    const struct led_entry **originals;

    /* What it refers to must be readable, and who has originals in the arena be gone. */
    RON_TRY(commit(l, err));
    ron_arena_clear(&l->originals);
    originals =
        ron_arena_alloc_array(&l->originals, w->batch.count, sizeof(void *), _Alignof(void *));
    if (originals == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for what is undone");
    }
    for (size_t i = 0; i < w->batch.count; i++) {
        const struct led_entry *e = &w->batch.entries[i];

        if (e->kind == LED_KIND_REVERSE) {
            RON_TRY(fetch_original(l, w->preps[i].ref, e->ref, &originals[i], err));
        }
    }
    w->originals = originals;
    return RON_OK;
}

static enum ron_rc refused(const struct led_work *w, struct ron_err *err)
{
    const struct led_refusal *why = &w->refusals.items[0];

    return ron_err_set(err, RON_CONFLICT, "a batch of the file is refused: %s: %s",
                       w->refusals.count > 0 ? led_reason_name(why->reason) : "repeated",
                       w->refusals.count > 0 ? why->detail : "its keys are in the journal");
}

/* Whether the index knows one of its keys; the sequencer remembers those that it lacks. */
static enum ron_rc look_up(struct led_load *l, struct led_work *w, struct ron_err *err)
{
    enum led_repeat repeat = LED_REPEAT_NEW;

    w->look_up = 0;
    led_preval_look_up(l->eng->index, w);
    if (w->look_up != 0) {
        RON_TRY(led_read_repeat(l->reader, w, &repeat, err));
    }
    return repeat == LED_REPEAT_NEW ? RON_OK : refused(w, err);
}

/* One window for one work. */
static enum ron_rc sequence(struct led_load *l, struct led_work *w, struct ron_err *err)
{
    struct led_work *out[2 * LED_WINDOW_MAX];
    size_t n = led_seq_window(l->eng->seq, &w, 1, w->now_ms, 1, out);

    if (n == 0) { /* Kept: no room until a commit, of the log or of the index. */
        enum ron_rc rc = commit(l, err);

        rc = rc == RON_OK ? commit_index(l, err) : rc;
        rc = rc == RON_OK ? look_up(l, w, err) : rc; /* The sequencer forgot what the index has. */
        n = rc == RON_OK ? led_seq_window(l->eng->seq, NULL, 0, w->now_ms, 1, out) : 0;
        if (n == 0) {
            led_seq_end(l->eng->seq); /* It forgets the work, which the caller frees. */
            return rc != RON_OK ? rc : ron_err_set(err, RON_LIMIT, "a batch has no room");
        }
    }
    if (n != 1 || out[0]->fate != LED_FATE_COMMIT) {
        return refused(w, err);
    }
    l->group[l->count++] = w;
    l->entries += w->batch.count;
    return RON_OK;
}

/* When RON_OK, the group has the work. */
static enum ron_rc take(struct led_load *l, struct led_work *w, struct ron_err *err)
{
    RON_TRY(look_up(l, w, err));
    if (reverses(w)) {
        RON_TRY(fetch_originals(l, w, err));
    }
    return sequence(l, w, err);
}

static enum ron_rc next_line(struct led_load *l, bool *ret_more, struct ron_err *err)
{
    size_t arena = led_import_arena_size(l->import);
    struct led_work *w;
    enum led_import_step step = LED_IMPORT_MORE;
    enum ron_rc rc;

    *ret_more = arena > 0;
    if (!*ret_more) {
        return RON_OK;
    }
    w = ron_alloc_zero(sizeof *w);
    if (w == NULL || ron_arena_init(&w->arena, arena) != RON_OK) {
        ron_free(w);
        return ron_err_set(err, RON_NOMEM, "no memory for a batch");
    }
    w->magic = LED_WORK_MAGIC;
    w->done = note_end;
    rc = led_import_next(l->import, w, &step, err);
    if (rc == RON_OK && step == LED_IMPORT_WORK) {
        rc = take(l, w, err);
        if (rc == RON_OK) {
            bool full = l->count == LED_GROUP_MAX || l->entries >= GROUP_ENTRIES;

            return full ? commit(l, err) : RON_OK;
        }
    }
    l->over = l->over || step == LED_IMPORT_END;
    release(w);
    return rc;
}

enum ron_rc led_load_push(struct led_load *l, const void *bytes, size_t len, struct ron_err *err)
{
    bool more = true;

    RON_TRY(led_import_push(l->import, bytes, len, err));
    while (more) {
        RON_TRY(next_line(l, &more, err));
    }
    return RON_OK;
}

enum ron_rc led_load_end(struct led_load *l, struct ron_err *err)
{
    struct led_import_end end;
    struct led_log_head head;

    RON_TRY(commit(l, err));
    if (!l->over || led_import_end(l->import, &end, err) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "the file was cut: its last line is missing");
    }
    led_log_head(l->eng->log, &head);
    if (head.last_seq != end.seq_last || !ron_tree_hash_equal(&head.root, &end.root)) {
        return ron_err_set(err, RON_CORRUPT, "the root differs from that of the file");
    }
    RON_TRY(commit_index(l, err));
    return led_unmark_import(l->env, l->dir, err);
}
