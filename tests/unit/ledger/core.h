/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - sequencer, committer, log, tree and index as one ledger without threads, for tests: what
 * the service's tasks do between the stages is done here step by step. Header only. */
#pragma once

#include "unit/io/fixture.h"
#include "unit/ledger/works.h"

#include "ledger/index/follow.h"
#include "ledger/pipeline/preval.h"
#include "ledger/recover/recover.h"

struct core {
    struct led_recover_opts opts;
    struct led_recovered r;
    bool open;
    struct led_work *out[2 * LED_WINDOW_MAX];
    char dir[FIXTURE_PATH_SIZE];
};

static struct core core;

/* What must come back after any recovery. */
struct core_state {
    uint8_t digest[32];
    struct ron_tree_hash root;
    uint64_t last_seq;
};

static inline void core_begin(const struct ron_env *env, const char *dir)
{
    core = (struct core){0};
    (void)snprintf(core.dir, sizeof core.dir, "%s", dir);
    core.opts = (struct led_recover_opts){
        .env = env,
        .dir = core.dir,
        .segment_bytes = 64 << 10,
        .book = {.batch_max = 64, .undo_max = 4096},
        .seq = {.own_work = works_new},
    };
}

static inline void core_open(void)
{
    struct ron_err err = {0};
    enum ron_rc rc = led_recover(&core.opts, &core.r, &err);

    if (rc != RON_OK) {
        fail_msg("recovery: %s: %s", ron_rc_name(rc), err.msg);
    }
    core.open = true;
    memcpy(works.hash_key, core.r.hash_key, sizeof works.hash_key);
    works.checked_seq = core.r.indexed_seq;
}

static inline void core_close(void)
{
    if (core.open) {
        led_recovered_done(&core.r);
        core.open = false;
    }
}

static inline void core_state(struct core_state *ret)
{
    struct led_log_head head;

    led_log_head(core.r.log, &head);
    ret->root = head.root;
    ret->last_seq = head.last_seq;
    led_book_digest(led_seq_book(core.r.seq), ret->digest);
}

static inline void core_expect(const struct core_state *expected)
{
    struct core_state now;

    core_state(&now);
    assert_int_equal(now.last_seq, expected->last_seq);
    assert_int_equal(led_seq_last(core.r.seq), expected->last_seq);
    assert_memory_equal(&now.root, &expected->root, sizeof now.root);
    assert_memory_equal(now.digest, expected->digest, sizeof now.digest);
    assert_null(led_book_audit(led_seq_book(core.r.seq)));
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The record of the frame that begins at `seq_first`, or that cancels the idem_id. */
static inline bool core_find_record(struct led_frame *frame, const struct led_work *w, uint64_t seq,
                                    struct led_record *ret)
{
    struct led_cursor records;
    bool bad = false;

    led_records(frame, &records);
    while (led_records_next(&records, ret, &bad)) {
        bool cancels = ret->kind == LED_RECORD_CANCEL && ret->idem_id.len == w->batch.idem_id.len &&
                       memcmp(ret->idem_id.ptr, w->batch.idem_id.ptr, ret->idem_id.len) == 0;

        if (cancels || (seq >= ret->seq_first && seq < ret->seq_first + ret->count)) {
            return true;
        }
    }
    return false;
}

static inline bool core_same_batch(const struct led_record *record, const struct led_work *w)
{
    struct led_cursor entries;
    struct led_stored stored;
    bool bad = false;
    size_t i = 0;

    led_entries(record, &entries);
    while (led_entries_next(&entries, &stored, &bad)) {
        if (i == w->batch.count || stored.leaf.len != w->leaves[i].len ||
            memcmp(stored.leaf.ptr, w->leaves[i].ptr, stored.leaf.len) != 0) {
            return false;
        }
        i++;
    }
    return i == w->batch.count;
}

struct core_look {
    struct led_work *w;
    uint64_t seq;
    bool found;
};

static inline enum ron_rc core_look_at(void *arg, const struct led_frame *frame, const char *where,
                                       struct ron_err *err)
{
    struct core_look *look = arg;
    struct led_work *w = look->w;
    struct led_frame copy = *frame;
    struct led_record record;

    (void)where;
    (void)err;
    if (look->found || !core_find_record(&copy, w, look->seq, &record)) {
        return RON_OK;
    }
    look->found = true;
    if (record.kind == LED_RECORD_CANCEL && w->kind == LED_WORK_CANCEL) {
        w->result = LED_RESULT_CANCELLED;
        w->replayed = true;
    } else if (record.kind == LED_RECORD_CANCEL || w->kind == LED_WORK_CANCEL) {
        led_work_refuse(w, LED_REASON_CONFLICT, "idem_id", "cancelled or committed");
    } else if (core_same_batch(&record, w)) {
        w->result = LED_RESULT_COMMITTED;
        w->replayed = true;
        w->seq_first = record.seq_first;
        w->seq_last = record.seq_first + record.count - 1;
        RON_ASSERT(ron_tree_root_at(led_hashes_store(core.r.hashes), w->seq_last, &w->root, NULL) ==
                   RON_OK);
    } else {
        led_work_refuse(w, LED_REASON_IDEM_MISMATCH, "", "another body");
    }
    return RON_OK;
}

/* What the readers do with a work that shares a key with the journal at `seq`. */
static inline void core_look_up(struct led_work *w, uint64_t seq)
{
    struct core_look look = {.w = w, .seq = seq};

    assert_int_equal(
        led_log_scan(core.r.log, seq > 1 ? seq - 1 : 1, seq, core_look_at, &look, NULL), RON_OK);
    assert_true(look.found);
    led_work_done(w);
}

/* ---- running --------------------------------------------------------------------------------- */

/* One window, one group. RON_OK, or what the committer said: then the works are still open. */
static inline enum ron_rc core_window(struct led_work **list, size_t count)
{
    size_t made = led_seq_window(core.r.seq, list, count, works.now_ms, 1000, core.out);
    struct led_work *group[2 * LED_WINDOW_MAX];
    struct led_commit_done done;
    size_t given = 0;

    for (size_t i = 0; i < made; i++) {
        struct led_work *w = core.out[i];

        if (w->fate == LED_FATE_COMMIT) {
            group[given++] = w;
        } else if (w->fate == LED_FATE_DONE) {
            led_work_done(w);
        } else {
            assert_int_equal(w->fate, LED_FATE_LOOK_UP);
            core_look_up(w, w->found_seq);
        }
    }
    if (given > 0) {
        RON_TRY(led_commit_group(core.r.commit, group, given, &done, NULL));
        led_seq_committed(core.r.seq, given);
        for (size_t i = 0; i < given; i++) {
            led_work_done(group[i]);
        }
    }
    return RON_OK;
}

static inline struct led_work *core_run(struct led_work *w)
{
    assert_int_equal(core_window(&w, 1), RON_OK);
    return w;
}

static inline struct led_work *core_commit(struct led_work *w)
{
    core_run(w);
    if (w->result != LED_RESULT_COMMITTED) {
        fail_msg("refused: %s: %s", w->refusals.items[0].member, w->refusals.items[0].detail);
    }
    return w;
}

/* ---- the indexer ----------------------------------------------------------------------------- */

static inline enum ron_rc core_follow(void *arg, const struct led_frame *frame, const char *where,
                                      struct ron_err *err)
{
    (void)arg;
    (void)where;
    return led_follow_frame(core.r.index, core.r.hash_key, frame, led_index_applied(core.r.index),
                            err);
}

/* Brings the index to the end of the log; with an image of the book when asked for. */
static inline void core_index(bool with_image)
{
    struct led_log_head head;
    struct ron_err err = {0};
    struct led_image_chunk chunk = {0};
    uint64_t seq;

    led_log_head(core.r.log, &head);
    assert_int_equal(led_log_scan(core.r.log, led_index_applied(core.r.index) + 1, head.last_seq,
                                  core_follow, NULL, &err),
                     RON_OK);
    if (with_image) {
        struct led_book *book = led_seq_book_mut(core.r.seq);

        assert_int_equal(led_book_image_begin(book, &seq), RON_OK);
        do {
            assert_int_equal(led_book_image_step(book, &chunk), RON_OK);
            if (chunk.take_bytes != NULL) {
                assert_int_equal(led_index_put_image(core.r.index, chunk.seq, chunk.number,
                                                     chunk.take_bytes, chunk.len, chunk.last, &err),
                                 RON_OK);
                ron_free(chunk.take_bytes);
            }
        } while (chunk.take_bytes == NULL || !chunk.last);
        led_book_image_end(book);
        assert_int_equal(led_hashes_sync(core.r.hashes, &err), RON_OK);
    }
    assert_int_equal(led_index_commit(core.r.index, head.last_seq, &head.root, &err), RON_OK);
    led_seq_indexed(core.r.seq, head.last_seq);
    works.checked_seq = head.last_seq;
}

/* ---- random work ----------------------------------------------------------------------------- */

static const char *const core_names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

/* Holds and entries that can be referred to. */
struct core_past {
    struct led_work *holds[16];
    struct led_work *moves[16];
};

static struct core_past core_past;

static inline struct led_work *core_random_work(struct ron_rand *rand)
{
    const char *from = core_names[ron_rand_below(rand, 8)];
    const char *to = core_names[ron_rand_below(rand, 8)];
    uint64_t amount = 1 + ron_rand_below(rand, 50);
    struct led_work *past = NULL;
    struct led_entry e;
    struct led_work *w;

    switch (ron_rand_below(rand, 8)) {
    case 0:
        return works_mint(from, amount * 10);
    case 1:
        e = works_entry(LED_KIND_HOLD, from, "", amount);
        e.expires_ms = works.now_ms + 1 + ron_rand_below(rand, 40);
        w = works_batch(NULL, &e, 1);
        core_past.holds[ron_rand_below(rand, 16)] = w;
        return w;
    case 2:
        past = core_past.holds[ron_rand_below(rand, 16)];
        break;
    case 3:
        past = core_past.moves[ron_rand_below(rand, 16)];
        break;
    default:
        break;
    }
    if (past != NULL) {
        const struct led_entry *of = &past->batch.entries[0];
        const struct led_entry **originals;

        e = *of;
        e.id.len = 0;
        e.to.len = 0;
        e.kind = of->kind == LED_KIND_HOLD ? LED_KIND_RELEASE : LED_KIND_REVERSE;
        e.ref = of->id;
        e.expires_ms = 0;
        e.ts_ms = works.now_ms;
        e.amount.v = 1 + e.amount.v / 3;
        works.serial++;
        memcpy(e.nonce, &works.serial, sizeof works.serial);
        w = works_batch(NULL, &e, 1);
        originals = ron_arena_alloc_array(&w->arena, 1, sizeof *originals, 8);
        originals[0] =
            e.kind == LED_KIND_REVERSE && past->result == LED_RESULT_COMMITTED ? of : NULL;
        w->originals = originals;
        return w;
    }
    if (from == to) {
        return works_one(NULL, LED_KIND_BURN, from, "", amount);
    }
    w = works_transfer(from, to, amount);
    core_past.moves[ron_rand_below(rand, 16)] = w;
    return w;
}

/* So many windows of a few works each; some are refused, some cancel keys. */
static inline void core_random(struct ron_rand *rand, int windows)
{
    for (int i = 0; i < windows; i++) {
        struct led_work *list[8];
        size_t count = ron_rand_below(rand, 9);

        works.now_ms += ron_rand_below(rand, 5);
        for (size_t n = 0; n < count; n++) {
            list[n] = core_random_work(rand);
        }
        if (count > 0 && ron_rand_below(rand, 8) == 0) {
            char *key = ron_arena_alloc(&list[0]->arena, 24, 1);

            (void)snprintf(key, 24, "cancel-%llu", (unsigned long long)works.serial);
            list[count - 1] = works_cancel(key);
        }
        assert_int_equal(core_window(list, count), RON_OK);
    }
}

/* ---- setup and teardown of a test ------------------------------------------------------------ */

/* An open ledger without entries in a folder of its own. */
static inline int core_setup_on(void **state, const struct ron_env *env)
{
    if (fixture_setup(state) != 0) {
        return -1;
    }
    works_begin();
    core_past = (struct core_past){0};
    core_begin(env, fixture_path(*state, "data"));
    core_open();
    return 0;
}

static inline int core_setup(void **state)
{
    return core_setup_on(state, ron_env_linux());
}

static inline int core_teardown(void **state)
{
    core_close();
    works_drop();
    return fixture_teardown(state);
}
