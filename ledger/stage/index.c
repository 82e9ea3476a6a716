/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/index.c - the indexer as a task: what may lag behind the journal, and chores of the
 * disk.
 *
 * Place: service; a blocking task. Follows the head: takes keys from the committer's feed, or reads
 * the log from where the index ends, and commits them; makes the next segment ready; syncs the
 * stored hashes; stores chunks of an image of the book; saves the signed checkpoint.
 *
 * The index may lag by seconds. What it does not know yet, the sequencer remembers; when that table
 * is full the sequencer pushes back (pipeline/seq.h). */
#include "ledger/index/follow.h"
#include "ledger/index/hashes.h"
#include "ledger/stage/stage.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    INDEX_BATCH = 65536,  /* entries between two commits of the index */
    INDEX_EVERY_MS = 100, /* how often the feed is looked at */
    /* Least entries between two images for each account that they copy: a start replays at most so
     * many, some microseconds an account. */
    IMAGE_ENTRIES_PER_ACCOUNT = 4,
};

/* A commit of the index syncs its file, beside the committer's syncs: twice a second at most, or
 * when a batch is full. */
#define SETTLE_EVERY_NS (500 * RON_NS_PER_MS)
#define TRIM_EVERY_NS (1000 * RON_NS_PER_MS)

struct indexer {
    struct led_index_stage *st;
    uint32_t generation; /* of the engine that the numbers are of */
    uint64_t applied;    /* added to the index, committed or not */
    uint64_t committed;
    struct ron_tree_hash root; /* at `applied` */
    uint64_t image_asked;      /* seq at which an image was asked for last */
    uint64_t late;             /* segments of this log that were counted */
    bool chunks;               /* of an image, not yet committed */
    uint64_t settled_ns;
    uint64_t trimmed_ns;
    uint64_t trimmed_at; /* `applied` then */
    uint32_t trims;      /* to do: something was added since memory was given back last */
    bool ending;         /* the last round */
    bool bad;            /* the last round failed */
};

/* ---- following the log ----------------------------------------------------------------------- */

static enum ron_rc add_frame(void *arg, const struct led_frame *frame, const char *where,
                             struct ron_err *err)
{
    struct indexer *x = arg;

    (void)where;
    RON_TRY(led_follow_frame(x->st->engine->live.index, x->st->engine->hash_key, frame, x->applied,
                             err));
    x->applied = frame->seq_first + frame->entries - 1;
    x->root = frame->new_root;
    return RON_OK;
}

/* The stored hashes are synced first: a replay may begin at an image that this commit completes. */
static enum ron_rc settle(struct indexer *x, struct ron_err *err)
{
    struct led_index_stage *st = x->st;

    if (x->committed == x->applied && !x->chunks) {
        return RON_OK;
    }
    RON_TRY(led_hashes_sync(st->engine->live.hashes, err));
    RON_TRY(led_index_commit(st->engine->live.index, x->applied, &x->root, err));
    x->committed = x->applied;
    x->chunks = false;
    x->settled_ns = ron_env_now_ns(st->engine->env);
    ron_au64_store(&st->news->indexed_seq, x->applied);
    led_news_wake(st->news);
    return RON_OK;
}

static enum ron_rc follow(struct indexer *x, uint64_t head, struct ron_err *err)
{
    struct led_index_stage *st = x->st;

    while (x->applied < head) {
        uint64_t to = RON_MIN(head, x->applied + INDEX_BATCH);

        RON_TRY(led_log_scan(st->engine->live.log, x->applied + 1, to, add_frame, x, err));
        if (x->applied - x->committed >= INDEX_BATCH) {
            RON_TRY(settle(x, err));
        }
    }
    return RON_OK;
}

/* What the committer handed over. What is missing before a block is read from the log; a block of
 * an engine that was replaced, or that was read already, is passed over. */
static enum ron_rc take_feed(struct indexer *x, const struct led_feed_block *b, struct ron_err *err)
{
    for (; b != NULL; b = b->next) {
        if (b->seq_last < b->seq_first ? b->seq_first <= x->applied : b->seq_last <= x->applied) {
            continue;
        }
        if (b->seq_first != x->applied + 1) {
            RON_TRY(follow(x, b->seq_first - 1, err));
        }
        RON_TRY(led_feed_index(b, x->st->engine->live.index, err));
        x->applied = b->seq_last;
        x->root = b->root;
        if (x->applied - x->committed >= INDEX_BATCH) {
            RON_TRY(settle(x, err));
        }
    }
    return RON_OK;
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Chunks of an image, as the sequencer makes them. One that does not follow the last is of an
 * image that was given up; the index begins anew with chunk 0. */
static enum ron_rc take_chunks(struct indexer *x, void **items, size_t count, struct ron_err *err)
{
    struct led_index_stage *st = x->st;
    enum ron_rc rc = RON_OK;

    for (size_t i = 0; i < count; i++) {
        struct led_image_chunk *c = items[i];

        if (rc == RON_OK) {
            rc = led_index_put_image(st->engine->live.index, c->seq, c->number, c->take_bytes,
                                     c->len, c->last, err);
            rc = rc == RON_EXISTS ? RON_OK : rc; /* nothing was written since the last one */
            x->chunks = true;
        }
        ron_free(c->take_bytes);
        ron_free(c);
    }
    return rc;
}

/* Asks for an image when enough was written since the last one. Enough is also some entries for
 * each account of that image: so images cost each entry the same, and little, however large the
 * book has grown. */
static void want_image(struct indexer *x)
{
    struct led_index_stage *st = x->st;
    uint64_t every = RON_MAX((uint64_t)ron_conf_int(st->core->conf, LED_IMAGE_EVERY),
                             IMAGE_ENTRIES_PER_ACCOUNT * ron_au64_load(&st->news->image_accounts));

    if (x->committed >= x->image_asked + every) {
        x->image_asked = x->committed;
        ron_au32_store(&st->news->image_wanted, 1);
        led_news_wake(st->news);
    }
}

/* ---- chores ---------------------------------------------------------------------------------- */

/* The next segment, ahead of time: zero-filling it takes long. */
static enum ron_rc prepare_segment(struct led_index_stage *st, struct ron_err *err)
{
    enum ron_rc rc;

    if ((led_engine_mode(st->engine) != LED_RUNNING &&
         led_engine_mode(st->engine) != LED_FOLLOWING) ||
        !led_log_wants_segment(st->engine->live.log)) {
        return RON_OK;
    }
    rc = led_log_prepare(st->engine->live.log, err);
    if (rc == RON_LIMIT) {
        ron_need_set(st->need_disk, RON_NEED_DEGRADED, err->msg, 30);
        return RON_OK; /* The committer says no when the present segment is full. */
    }
    if (rc == RON_OK) {
        ron_need_set(st->need_disk, RON_NEED_OK, "", 0);
    }
    return rc;
}

/* Memory for the book to grow into: finding a huge page may take milliseconds. */
static void make_blocks(struct led_index_stage *st)
{
    uint32_t wanted = RON_MIN(ron_au32_load(&st->news->blocks_wanted), (uint32_t)LED_NEWS_BLOCKS);

    for (uint32_t i = 0; i < wanted; i++) {
        if (ron_aptr_load(&st->news->blocks[i]) == NULL) {
            ron_aptr_store(&st->news->blocks[i],
                           led_book_make_block()); /* NULL: the book helps itself */
        }
    }
    if (wanted > 0) {
        led_news_wake(st->news);
    }
}

/* Memory of a burst that is over: unused works each second, the rest after a second without
 * entries, and what the sequencer gave back meanwhile after another. */
static void trim(struct indexer *x)
{
    uint64_t now_ns = ron_env_now_ns(x->st->engine->env);

    if (now_ns - x->trimmed_ns < TRIM_EVERY_NS) {
        return;
    }
    x->trimmed_ns = now_ns;
    led_works_trim(x->st->pipes->works);
    if (x->applied != x->trimmed_at) {
        x->trimmed_at = x->applied;
        x->trims = 2;
    } else if (x->trims > 0) {
        x->trims--;
        ron_au32_store(&x->st->news->at_rest, 1);
        led_news_wake(x->st->news);
        ron_alloc_trim();
    }
}

static void save_checkpoint(struct led_index_stage *st)
{
    struct ron_err err = {0};

    if (led_signer_save_due(st->publish->signer, &err) != RON_OK) {
        RON_LOG(st->core->log, WARN, "the signed checkpoint could not be saved", RON_LOG_ERR(&err));
    }
}

static enum ron_rc one_round(struct indexer *x, struct ron_err *err)
{
    struct led_index_stage *st = x->st;
    struct led_feed_block *blocks;
    struct led_log_head log;
    struct led_head head;
    uint64_t durable;
    enum ron_rc rc;

    if (x->generation != st->engine->generation) {
        x->generation = st->engine->generation;
        x->applied = st->engine->live.indexed_seq;
        x->committed = x->applied;
        x->image_asked = st->engine->live.image_seq;
        led_log_head(st->engine->live.log, &log);
        x->late = log.late;
        led_engine_head(st->engine, &head);
        if (head.seq == x->applied) { /* else the next frame says it */
            x->root = head.root;
        }
    }
    durable =
        ron_au64_load(&st->engine->durable_seq); /* What it counts was fed before it was set. */
    blocks = led_feed_take(st->pipes->feed);
    rc = take_feed(x, blocks, err);
    led_feed_drop(blocks);
    RON_TRY(rc);
    RON_TRY(follow(x, durable, err));
    if (x->chunks || x->ending ||
        ron_env_now_ns(st->engine->env) - x->settled_ns >= SETTLE_EVERY_NS) {
        RON_TRY(settle(x, err));
    }
    want_image(x);
    led_log_head(st->engine->live.log, &log);
    ron_au64_store(&st->news->log_bytes, log.bytes);
    (void)ron_au64_add(&st->news->segments_late, log.late - x->late);
    x->late = log.late;
    return prepare_segment(st, err);
}

/* A round that fails is tried again: nothing here is the truth. Damage of the log is another
 * matter. */
static void round_failed(struct indexer *x, enum ron_rc rc, struct ron_err *err)
{
    struct led_index_stage *st = x->st;

    if (err->rc == RON_OK) { /* a step deep below ran out of memory and says only that */
        RON_IGNORE(ron_err_set(err, rc, "%s", ron_rc_doc(rc)));
    }

    x->applied =
        led_index_applied(st->engine->live.index); /* What was not committed is forgotten. */
    x->committed = x->applied;
    x->chunks = false;
    RON_LOG(st->core->log, WARN, "the indexer failed", RON_LOG_ERR(err));
    ron_need_set(st->need_index, RON_NEED_DEGRADED, err->msg, 5);
    if (rc == RON_CORRUPT) {
        led_engine_enter_safe(st->engine, "the journal is damaged", err->msg);
    }
}

static void work(struct indexer *x, void **items, size_t count)
{
    struct led_index_stage *st = x->st;
    struct ron_err err = {0};
    enum ron_rc rc;

    rc = take_chunks(x, items, count, &err);
    rc = rc == RON_OK ? one_round(x, &err) : rc;
    if (rc != RON_OK) {
        round_failed(x, rc, &err);
    } else if (x->bad) {
        ron_need_set(st->need_index, RON_NEED_OK, "", 0);
    }
    x->bad = rc != RON_OK;
}

static void drop_chunks(void **items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ron_free(((struct led_image_chunk *)items[i])->take_bytes);
        ron_free(items[i]);
    }
}

/* There is no index while the engine is replaced, nor after that has failed. */
static void take_turn(struct indexer *x, void **chunks, size_t count)
{
    struct led_index_stage *st = x->st;
    bool leased = led_engine_lease(st->engine);

    if (leased && st->engine->live.index != NULL) {
        work(x, chunks, count);
    } else {
        drop_chunks(chunks, count);
    }
    if (leased) {
        led_engine_unlease(st->engine);
    }
}

static enum ron_rc index_run(struct ron_task *t, void *arg)
{
    struct led_index_stage *st = RON_OBJ(arg, struct led_index_stage, LED_INDEX_STAGE_MAGIC);
    struct indexer x = {.st = st};
    struct ron_watch *stop = ron_task_stop_watch(t);
    uint64_t seen = 0;
    void *chunks[16];
    size_t count = 0;

    for (;;) {
        uint64_t value = ron_watch_get(stop, &seen);
        enum ron_rc rc;

        x.ending = value == RON_TASK_STOP;
        take_turn(&x, chunks, count);
        make_blocks(st);
        trim(&x);
        save_checkpoint(st);
        if (value == RON_TASK_STOP) {
            return RON_OK; /* after a last round */
        }
        count = 0;
        rc = ron_chan_recv_or_changed(st->pipes->images, stop, seen, false, chunks,
                                      RON_ARRAY_LEN(chunks),
                                      ron_deadline_after_ms(ron_mono_ns(), INDEX_EVERY_MS), &count);
        if (rc == RON_CANCELLED) {
            return rc;
        }
    }
}

enum ron_rc led_stage_index_add(struct led_index_stage *st, struct ron_err *err)
{
    st->magic = LED_INDEX_STAGE_MAGIC;
    return ron_sup_add(ron_app_sup(st->core->app),
                       &(struct ron_task_def){.name = "indexer",
                                              .kind = "indexer",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = 5,
                                              .run = index_run,
                                              .arg = st},
                       NULL, err);
}
