/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/recover/recover.c - from the data directory to a ledger that can go on; the contract is in
 * recover.h.
 *
 * The log is opened twice. First for reading alone, at its end: that tells which ledger it is, and
 * how far it reaches, before the index is opened; later it finds what reversals undo. Then for
 * good, with the replay as visitor.
 *
 * One try ends in a state, in a failure, or in "not like this", and then the next try goes about
 * more carefully:
 *     derived files do not fit the log     throw them away, replay from the first entry on
 *     the index cannot be written          leave it as it is, remember its keys instead
 *     the log contradicts the image        leave the image, replay from the first entry on (R1)
 *     a replay finds damage                once more on one thread, which stops at the exact frame,
 *                                          and without writing to the index. If no damage is found
 *                                          then, something is wrong all the same (R2). */
#include "ledger/recover/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ledger/publish/sign.h"
#include "ledger/recover/recall.h"
#include "ledger/recover/replay.h"
#include "ron/io/file.h"

enum { TRIES_MAX = 5 }; /* one for each reason above, and the one that succeeds */

struct run {
    const struct led_recover_opts *opts;
    struct ron_err *err;
    char log_dir[RON_FILE_PATH_SIZE];
    char tree_dir[RON_FILE_PATH_SIZE];
    char index_path[RON_FILE_PATH_SIZE];
    char checkpoint_path[RON_FILE_PATH_SIZE];

    int guard_fd; /* holds the log's lock until the log itself takes it; -1: not held */

    /* How this try goes about it. */
    bool rebuild;
    bool fill_index;
    bool ignore_image;
    bool careful;         /* after damage */
    struct ron_err first; /* why */

    /* What it has found so far. */
    struct led_log *look_back; /* NULL: there is no log yet */
    struct led_log_head seen;  /* by look_back */
    enum led_damage seen_damage;
    enum ron_rc published_rc; /* of reading the published checkpoint */
    uint64_t published_size;
    struct ron_tree_hash published;
    bool passed_published; /* the replay has seen the entry at which it was published */
    struct ron_tree_hash root_there;
    struct led_index_state index;
    uint64_t image_seq;
    struct led_book *book; /* until the sequencer takes it */
    struct led_replay *replay;
    enum ron_rc visit_rc; /* why the replay stopped the log */
    struct led_replay_result done;
    struct led_recovered r;
};

/* What a try says: go on, or not like this. */
enum advice { FINE, DERIVED_BAD, INDEX_UNWRITABLE, IGNORE_IMAGE, BE_CAREFUL };

/* ---- paths ----------------------------------------------------------------------------------- */

static enum ron_rc make_paths(struct run *k)
{
    const struct led_recover_opts *o = k->opts;

    RON_TRY(led_path(o->dir, "log", k->log_dir, sizeof k->log_dir, k->err));
    RON_TRY(led_path(o->dir, "tree", k->tree_dir, sizeof k->tree_dir, k->err));
    RON_TRY(led_path(o->dir, "index", k->index_path, sizeof k->index_path, k->err));
    RON_TRY(led_path(o->dir, "checkpoint", k->checkpoint_path, sizeof k->checkpoint_path, k->err));
    if (o->dir[0] != '\0' && !o->read_only) {
        RON_TRY(ron_mkdirs(o->env, o->dir, 0700, k->err));
    }
    return RON_OK;
}

static struct led_log_opts log_opts(const struct run *k, bool read_only)
{
    return (struct led_log_opts){
        .env = k->opts->env,
        .dir = k->log_dir,
        .segment_bytes = k->opts->segment_bytes,
        .free_floor_bytes = k->opts->free_floor_bytes,
        .read_only = read_only,
        .torn_is_damage = k->opts->torn_is_damage && !read_only,
        .uuid = k->opts->uuid,
    };
}

/* ---- nobody else ---------------------------------------------------------------------------- */

/* Before anything derived is opened for writing, let alone thrown away: a directory on which a
 * ledger runs is left as it is (RON_AGAIN). Between drop_guard and the log's own lock another
 * process may come first; then the log refuses, and nothing was written here. */
static enum ron_rc take_guard(struct run *k)
{
    const struct ron_env *env = k->opts->env;
    char path[RON_FILE_PATH_SIZE];
    enum ron_rc rc;

    if (k->opts->read_only) {
        return RON_OK;
    }
    RON_TRY(led_path(k->log_dir, "lock", path, sizeof path, k->err));
    rc = env->disk->open(env, path, RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE, 0600,
                         &k->guard_fd, k->err);
    if (rc == RON_NOTFOUND) { /* no directory: no ledger was ever here */
        k->guard_fd = -1;
        return RON_OK;
    }
    RON_TRY(rc);
    rc = env->disk->lock(env, k->guard_fd, k->err);
    return rc == RON_AGAIN ? ron_err_set(k->err, rc, "a ledger is running on %s", k->opts->dir)
                           : rc;
}

static void drop_guard(struct run *k)
{
    if (k->guard_fd >= 0) {
        k->opts->env->disk->close(k->opts->env, k->guard_fd);
        k->guard_fd = -1;
    }
}

/* ---- what is there --------------------------------------------------------------------------- */

static enum ron_rc look_at_log(struct run *k)
{
    struct led_log_opts o = log_opts(k, true);
    struct led_log_report report = {0};
    enum ron_rc rc = led_log_open(&o, UINT64_MAX, NULL, NULL, &k->look_back, &report, k->err);

    if (rc == RON_NOTFOUND && !k->opts->read_only) {
        /* A new ledger: made now, so that the index knows whose it is. */
        o = log_opts(k, false);
        drop_guard(k);
        RON_TRY(led_log_open(&o, 0, NULL, NULL, &k->r.log, &k->r.report, k->err));
        led_log_head(k->r.log, &k->seen);
        return RON_OK;
    }
    RON_TRY(rc);
    led_log_head(k->look_back, &k->seen);
    k->seen_damage = report.damage;
    return RON_OK;
}

static enum ron_rc throw_away(struct run *k)
{
    if (!k->opts->index_in_memory) {
        RON_TRY(led_index_remove(k->opts->env, k->index_path, k->err));
    }
    k->r.rebuilt = true;
    return led_hashes_cut(k->r.hashes, 0, k->err);
}

static enum ron_rc open_hashes(struct run *k)
{
    const struct led_recover_opts *o = k->opts;
    enum ron_rc rc = led_hashes_open(o->env, k->tree_dir, o->read_only, &k->r.hashes, k->err);

    return rc == RON_NOTFOUND && o->read_only ? RON_OK : rc;
}

static enum ron_rc open_index(struct run *k, bool in_memory)
{
    struct led_index_opts o = {.env = k->opts->env, .path = in_memory ? NULL : k->index_path};

    memcpy(o.uuid, k->seen.uuid, sizeof o.uuid);
    return led_index_open(&o, &k->r.index, &k->index, k->err);
}

/* The index, when it does not know more than the log. Where the log is damaged, that is no wonder:
 * then the file is left alone. */
static enum ron_rc find_index(struct run *k, enum advice *ret_advice)
{
    static const uint8_t no_uuid[LED_UUID_SIZE];
    bool in_memory = k->opts->read_only || k->opts->index_in_memory ||
                     memcmp(k->seen.uuid, no_uuid, sizeof no_uuid) == 0;

    RON_TRY(open_index(k, in_memory));
    if (k->index.applied_seq <= k->seen.last_seq && k->index.image_seq <= k->seen.last_seq) {
        return RON_OK;
    }
    if (k->seen_damage == LED_DAMAGE_NONE) {
        *ret_advice = DERIVED_BAD;
        return RON_OK;
    }
    led_index_close(k->r.index);
    k->r.index = NULL;
    return open_index(k, true);
}

/* ---- the book -------------------------------------------------------------------------------- */

struct loading {
    struct led_book *book;
    bool done;
};

static enum ron_rc load_chunk(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    struct loading *l = arg;

    return led_book_load(l->book, bytes, len, &l->done, err);
}

/* Images do not hold them. */
static enum ron_rc recall_nonces(struct run *k, enum advice *ret_advice)
{
    struct led_recall_opts o = {
        .log = k->look_back,
        .book = k->book,
        .parallel = k->opts->parallel && !k->careful,
        .last_seq_guess = k->seen.last_seq,
        .progress = k->opts->progress,
        .progress_arg = k->opts->progress_arg,
    };
    enum ron_rc rc;

    memcpy(o.hash_key, k->index.hash_key, sizeof o.hash_key);
    rc = led_recall(&o, k->err);
    if (rc == RON_NOMEM) {
        return rc;
    }
    if (rc != RON_OK) { /* The replay of everything tells what is wrong with the log. */
        *ret_advice = IGNORE_IMAGE;
        return RON_OK;
    }
    k->image_seq = k->index.image_seq;
    return RON_OK;
}

static enum ron_rc make_book(struct run *k, enum advice *ret_advice)
{
    struct led_book_opts o = k->opts->book;
    struct loading l = {0};
    enum ron_rc rc;

    memcpy(o.hash_key, k->index.hash_key, sizeof o.hash_key);
    rc = led_book_new(&o, &k->book);
    if (rc != RON_OK) {
        return ron_err_set(k->err, rc, "the book cannot be made");
    }
    led_book_may_stall(k->book, true); /* nobody waits for an answer yet */
    if (k->index.image_seq == 0 || k->opts->verify_all || k->ignore_image) {
        return RON_OK;
    }
    l.book = k->book;
    rc = led_index_load_image(k->r.index, load_chunk, &l, k->err);
    if (rc == RON_NOMEM) {
        return rc;
    }
    if (rc != RON_OK || !l.done || led_book_committed_seq(k->book) != k->index.image_seq) {
        *ret_advice = DERIVED_BAD;
        return RON_OK;
    }
    return recall_nonces(k, ret_advice);
}

static enum ron_rc make_seq(struct run *k)
{
    struct led_seq_opts o = k->opts->seq;
    enum ron_rc rc;

    o.take_book = k->book;
    o.last_seq = k->image_seq;
    o.indexed_seq = k->index.applied_seq;
    memcpy(o.hash_key, k->index.hash_key, sizeof o.hash_key);
    rc = led_seq_new(&o, &k->r.seq);
    if (rc != RON_OK) {
        return ron_err_set(k->err, rc, "the sequencer cannot be made");
    }
    k->book = NULL;
    return RON_OK;
}

/* ---- the replay ------------------------------------------------------------------------------ */

static enum ron_rc visit(void *arg, const struct led_frame *frame, const char *where,
                         struct ron_err *err)
{
    struct run *k = arg;

    if (k->opts->read_only && frame->seq_first > k->seen.last_seq) {
        return RON_OK; /* written since: what it undoes may be as new, and look_back lacks it */
    }
    k->visit_rc = led_replay_frame(k->replay, frame, where, err);
    if (frame->entries > 0 && frame->seq_first + frame->entries - 1 == k->published_size) {
        k->passed_published = true;
        k->root_there = frame->new_root;
    }
    return k->visit_rc;
}

static bool lacks_means(enum ron_rc rc)
{
    return rc == RON_NOMEM || rc == RON_LIMIT || rc == RON_FULL;
}

/* What follows from a replay that failed as `said` tells. */
static enum ron_rc judge(struct run *k, const struct ron_err *said, enum advice *ret_advice)
{
    if (led_replay_derived_bad(k->replay) && !k->rebuild) {
        *ret_advice = DERIVED_BAD;
    } else if (led_replay_index_failed(k->replay) && said->rc != RON_NOMEM && k->fill_index) {
        *ret_advice = INDEX_UNWRITABLE;
    } else if (lacks_means(said->rc)) {
        return ron_err_set(k->err, said->rc, "%s", said->msg);
    } else if (k->image_seq > 0) {
        *ret_advice = IGNORE_IMAGE;
    } else if (!k->careful) {
        k->first = *said;
        *ret_advice = BE_CAREFUL;
    } else if (said->rc == RON_IO) {
        /* The disk fails again and again; the frame is good, and the book has half of it. */
        return ron_err_set(k->err, RON_IO, "%s", said->msg);
    }
    return RON_OK;
}

static enum ron_rc run_replay(struct run *k, enum advice *ret_advice)
{
    struct led_log_opts o = log_opts(k, k->opts->read_only);
    uint64_t from = RON_MIN(k->image_seq, k->index.applied_seq) + 1;
    struct led_log_report *report = &k->r.report;
    struct ron_err said = {0};

    if (k->r.log == NULL) {
        drop_guard(k);
        RON_TRY(led_log_open(&o, from, visit, k, &k->r.log, report, k->err));
    }
    if (report->damage == LED_DAMAGE_REPLAY) {
        (void)ron_err_set(&said, k->visit_rc, "%s", report->what);
        RON_TRY(judge(k, &said, ret_advice));
        if (*ret_advice != FINE) {
            return RON_OK;
        }
    }
    if (led_replay_end(k->replay, &k->done, &said) != RON_OK) {
        RON_TRY(judge(k, &said, ret_advice));
        return *ret_advice != FINE ? RON_OK : ron_err_set(k->err, said.rc, "%s", said.msg);
    }
    if (k->careful && report->damage == LED_DAMAGE_NONE) {
        report->damage = LED_DAMAGE_READ;
        (void)snprintf(report->where, sizeof report->where, "replay");
        (void)snprintf(report->what, sizeof report->what, "failed once, then not: %.80s",
                       k->first.msg);
    }
    return RON_OK;
}

static enum ron_rc replay(struct run *k, enum advice *ret_advice)
{
    bool sound = k->seen_damage == LED_DAMAGE_NONE && !k->careful;
    struct led_replay_opts o = {
        .seq = k->r.seq,
        .index = k->opts->read_only ? NULL : k->r.index,
        .hashes = k->opts->read_only ? NULL : k->r.hashes,
        .look_back = k->look_back,
        .image_seq = k->image_seq,
        .indexed_seq = k->index.applied_seq,
        .indexed_root = k->index.applied_root,
        .fill_index = k->fill_index && !k->opts->read_only && sound,
        .forget_when_full = k->opts->read_only || !sound,
        .parallel = k->opts->parallel && !k->careful,
        .last_seq_guess = k->seen.last_seq,
        .progress = k->opts->progress,
        .progress_arg = k->opts->progress_arg,
    };

    memcpy(o.hash_key, k->index.hash_key, sizeof o.hash_key);
    RON_TRY(led_replay_new(&o, &k->replay, k->err));
    return run_replay(k, ret_advice);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The tree at the last entry. The replay's, unless it saw no frame or was stopped by one. */
static enum ron_rc settle_tree(struct run *k, struct ron_tree *ret_tree, enum advice *ret_advice)
{
    struct led_log_head head;
    struct ron_tree_hash root;
    uint64_t stored;

    led_log_head(k->r.log, &head);
    stored = ron_tree_stored_count(head.last_seq);
    *ret_tree = k->done.tree;
    if (!k->done.started || k->done.tree.size != head.last_seq) {
        ron_tree_init(ret_tree);
        if (head.last_seq > 0 && (led_hashes_count(k->r.hashes) < stored ||
                                  ron_tree_load(led_hashes_store(k->r.hashes), head.last_seq,
                                                ret_tree, NULL) != RON_OK)) {
            *ret_advice = DERIVED_BAD;
            return RON_OK;
        }
    }
    ron_tree_root(ret_tree, &root);
    if ((head.last_seq > 0 && !ron_tree_hash_equal(&root, &head.root)) ||
        (head.last_seq > 0 && k->index.applied_seq == head.last_seq &&
         !ron_tree_hash_equal(&root, &k->index.applied_root))) {
        *ret_advice = DERIVED_BAD;
        return RON_OK;
    }
    return led_hashes_cut(k->r.hashes, stored, k->err);
}

static enum ron_rc make_commit(struct run *k, enum advice *ret_advice)
{
    struct led_commit_opts o = {.env = k->opts->env, .log = k->r.log};
    struct ron_tree tree;

    if (k->opts->read_only) {
        return RON_OK;
    }
    RON_TRY(settle_tree(k, &tree, ret_advice));
    if (*ret_advice != FINE) {
        return RON_OK;
    }
    o.hashes = led_hashes_store(k->r.hashes);
    o.tree = &tree;
    return led_commit_new(&o, &k->r.commit, k->err);
}

static void lacks(struct run *k, enum led_damage damage, const char *where, const char *what)
{
    struct led_log_report *report = &k->r.report;

    report->damage = damage;
    (void)snprintf(report->where, sizeof report->where, "%s", where);
    (void)snprintf(report->what, sizeof report->what, "%s", what);
}

static void lacks_checkpoint(struct run *k, const char *what)
{
    lacks(k, LED_DAMAGE_CHAIN, "checkpoint", what);
}

/* The log itself tells when all of it was replayed; the stored hashes tell too, but when they say
 * no they are made anew before they are believed, and where nothing may be written they are what is
 * wrong as long as the log says yes. */
static enum ron_rc compare_published(struct run *k, enum advice *ret_advice)
{
    struct ron_tree_hash root;
    enum ron_rc rc;

    if (k->passed_published && !ron_tree_hash_equal(&k->root_there, &k->published)) {
        lacks_checkpoint(k, "the published checkpoint is not one of this log");
        return RON_OK;
    }
    if (k->r.hashes == NULL) {
        return RON_OK;
    }
    rc = ron_tree_root_at(led_hashes_store(k->r.hashes), k->published_size, &root, k->err);
    if (rc == RON_NOMEM) {
        return rc;
    }
    if (rc == RON_OK && ron_tree_hash_equal(&root, &k->published)) {
        return RON_OK;
    }
    if (!k->rebuild && !k->opts->read_only) {
        *ret_advice = DERIVED_BAD;
    } else if (k->passed_published) {
        lacks(k, LED_DAMAGE_DERIVED, "tree",
              "the stored hashes are not those of the log; a rebuild makes them anew");
    } else {
        lacks_checkpoint(k, "the published checkpoint is not one of this log");
    }
    return RON_OK;
}

/* Read before the log is opened: a ledger that runs meanwhile publishes more than we have seen. */
static enum ron_rc read_published(struct run *k)
{
    k->published_rc = led_checkpoint_file_read(k->opts->env, k->checkpoint_path, &k->published_size,
                                               &k->published, k->err);
    return k->published_rc == RON_NOMEM ? RON_NOMEM : RON_OK;
}

/* The log must contain what was published: who lost that has lost more than a torn tail. */
static enum ron_rc check_published(struct run *k, enum advice *ret_advice)
{
    struct led_log_head head;

    if (k->r.report.damage != LED_DAMAGE_NONE) {
        return RON_OK;
    }
    led_log_head(k->r.log, &head);
    if (head.last_seq > 0 && head.first_seq > 1) { /* An image could hide it. */
        lacks(k, LED_DAMAGE_MISSING, "log", "the oldest segments are missing");
        return RON_OK;
    }
    if (k->published_rc == RON_NOTFOUND) {
        return RON_OK;
    }
    if (k->published_rc != RON_OK) {
        lacks_checkpoint(k, "the published checkpoint cannot be read");
    } else if (k->published_size > head.last_seq) {
        lacks_checkpoint(k, "the log ends before the published checkpoint");
    } else if (k->published_size > 0) {
        return compare_published(k, ret_advice);
    }
    return RON_OK;
}

/* ---- tries ----------------------------------------------------------------------------------- */

static enum ron_rc try_once(struct run *k, enum advice *ret_advice)
{
    RON_TRY(take_guard(k));
    RON_TRY(read_published(k));
    RON_TRY(look_at_log(k));
    RON_TRY(open_hashes(k));
    if (k->rebuild && !k->opts->read_only) {
        RON_TRY(throw_away(k));
    }
    RON_TRY(find_index(k, ret_advice));
    if (*ret_advice != FINE) {
        return RON_OK;
    }
    RON_TRY(make_book(k, ret_advice));
    if (*ret_advice != FINE) {
        return RON_OK;
    }
    RON_TRY(make_seq(k));
    RON_TRY(replay(k, ret_advice));
    if (*ret_advice != FINE) {
        return RON_OK;
    }
    RON_TRY(make_commit(k, ret_advice));
    if (*ret_advice != FINE) {
        return RON_OK;
    }
    RON_TRY(check_published(k, ret_advice));
    if (*ret_advice != FINE) {
        return RON_OK;
    }
    return led_mark_read(k->opts->env, k->opts->dir, &k->r.mark, k->err);
}

/* Gives up what the try still holds; all of it, or what is not part of the result. */
static void end_try(struct run *k, bool all)
{
    drop_guard(k);
    led_replay_free(k->replay);
    led_log_close(k->look_back);
    led_book_free(k->book);
    k->replay = NULL;
    k->look_back = NULL;
    k->book = NULL;
    if (all) {
        bool rebuilt = k->r.rebuilt;

        led_recovered_done(&k->r);
        k->r = (struct led_recovered){.rebuilt = rebuilt};
        k->index = (struct led_index_state){0};
        k->done = (struct led_replay_result){0};
        k->seen_damage = LED_DAMAGE_NONE;
        k->passed_published = false;
        k->visit_rc = RON_OK;
        k->image_seq = 0;
    }
}

static void take_advice(struct run *k, enum advice advice)
{
    k->rebuild = k->rebuild || advice == DERIVED_BAD;
    k->fill_index = k->fill_index && advice != INDEX_UNWRITABLE;
    k->ignore_image = k->ignore_image || advice == IGNORE_IMAGE;
    k->careful = k->careful || advice == BE_CAREFUL;
}

enum ron_rc led_recover(const struct led_recover_opts *opts, struct led_recovered *ret,
                        struct ron_err *err)
{
    struct run k = {
        .opts = opts, .err = err, .guard_fd = -1, .rebuild = opts->rebuild, .fill_index = true};
    uint64_t start_ns = ron_env_now_ns(opts->env);

    RON_TRY(led_check_import(opts->env, opts->dir, err));
    RON_TRY(make_paths(&k));
    for (int i = 0; i < TRIES_MAX; i++) {
        enum advice advice = FINE;
        enum ron_rc rc = try_once(&k, &advice);

        end_try(&k, rc != RON_OK || advice != FINE);
        if (rc != RON_OK) {
            return rc;
        }
        if (advice == FINE) {
            led_book_may_stall(led_seq_book_mut(k.r.seq), false);
            memcpy(k.r.hash_key, k.index.hash_key, sizeof k.r.hash_key);
            k.r.indexed_seq = led_index_applied(k.r.index);
            k.r.image_seq = k.image_seq;
            k.r.replayed = k.done.entries;
            k.r.took_ms = (ron_env_now_ns(opts->env) - start_ns) / 1000000;
            *ret = k.r;
            return RON_OK;
        }
        take_advice(&k, advice);
    }
    return ron_err_set(err, RON_CORRUPT, "derived files that were just made do not fit the log");
}

void led_recovered_done(struct led_recovered *r)
{
    led_commit_free(r->commit);
    led_seq_free(r->seq);
    led_index_close(r->index);
    led_hashes_close(r->hashes);
    led_log_close(r->log);
    *r = (struct led_recovered){0};
}
