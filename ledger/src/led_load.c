/* SPDX-License-Identifier: Apache-2.0 */
#include "led_load.h"

#include <inttypes.h>

#include "led_hashes.h"
#include "led_import.h"
#include "led_read.h"
#include "ron/base/alloc.h"

struct led_load {
    struct led_recovered *eng;
    struct led_import *import;
    struct led_reader *reader;             /* for what reversals refer to */
    struct led_work *group[LED_GROUP_MAX]; /* sequenced, not yet durable */
    size_t count;
    uint64_t entries; /* in the group */
    bool over;
};

enum { GROUP_ENTRIES = 4096 }; /* one sync for so many */

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

enum ron_rc led_load_new(struct led_recovered *engine, struct led_load **ret_load,
                         struct ron_err *err)
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
    l->eng = engine;
    rc = led_import_new(engine->hash_key, &l->import);
    if (rc == RON_OK) {
        rc = led_reader_new(&(struct led_reader_opts){.log = engine->log,
                                                      .hashes = led_hashes_store(engine->hashes)},
                            &l->reader);
    }
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
    ron_free(l);
}

/* ---- the pipeline, by hand ------------------------------------------------------------------- */

static enum ron_rc commit(struct led_load *l, struct ron_err *err)
{
    size_t done = 0;

    while (done < l->count) {
        size_t n = led_commit_gather(l->eng->commit, l->group + done, l->count - done);
        struct led_commit_done report;
        enum ron_rc rc = led_commit_group(l->eng->commit, l->group + done, n, &report, err);

        if (rc != RON_OK) {
            return rc;
        }
        led_seq_committed(l->eng->seq, n);
        led_reader_set_head(l->reader, report.seq_last, &report.root);
        done += n;
    }
    for (size_t i = 0; i < l->count; i++) {
        release(l->group[i]);
    }
    l->count = 0;
    l->entries = 0;
    return RON_OK;
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

/* Where recent originals stand: without an index the sequencer's table must do. */
static enum ron_rc fetch_originals(struct led_load *l, struct led_work *w, struct ron_err *err)
{
    uint64_t seqs[8];
    size_t count = 0;

    RON_TRY(commit(l, err)); /* What it refers to must be readable. */
    for (size_t i = 0; i < w->batch.count && count < RON_ARRAY_LEN(seqs); i++) {
        if (w->batch.entries[i].kind == LED_KIND_REVERSE &&
            led_seq_find(l->eng->seq, w->preps[i].ref, &seqs[count]) == LED_KNOWN_COMMITTED) {
            count++;
        }
    }
    return led_read_originals(l->reader, w, (struct led_candidates){seqs, count}, err);
}

/* One window for one work. */
static enum ron_rc sequence(struct led_load *l, struct led_work *w, struct ron_err *err)
{
    struct led_work *out[2 * LED_WINDOW_MAX];
    size_t n = led_seq_window(l->eng->seq, &w, 1, w->now_ms, 1, out);

    if (n == 0) { /* Kept: no room in the book until a commit. */
        enum ron_rc rc = commit(l, err);

        n = rc == RON_OK ? led_seq_window(l->eng->seq, NULL, 0, w->now_ms, 1, out) : 0;
        if (n == 0) {
            led_seq_end(l->eng->seq); /* It forgets the work, which the caller frees. */
            return rc != RON_OK ? rc
                                : ron_err_set(err, RON_LIMIT, "the file has more ids than fit");
        }
    }
    if (n != 1 || out[0]->fate != LED_FATE_COMMIT) {
        const struct led_refusal *why = &w->refusals.items[0];

        return ron_err_set(err, RON_CONFLICT, "a batch of the file is refused: %s: %s",
                           w->refusals.count > 0 ? led_reason_name(why->reason) : "repeated",
                           w->refusals.count > 0 ? why->detail : "its keys are in the journal");
    }
    l->group[l->count++] = w;
    l->entries += w->batch.count;
    return l->count == LED_GROUP_MAX || l->entries >= GROUP_ENTRIES ? commit(l, err) : RON_OK;
}

static enum ron_rc take(struct led_load *l, struct led_work *w, struct ron_err *err)
{
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
            return RON_OK;
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
    return RON_OK;
}
