/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/replica/lead_task_posix.c - the leader task: follow, claim, be heard of; the contract is
 * in lead.h.
 *
 * A round of a follower: read rows behind `at`, append each to the local log, put it through tree
 * and book (recover/replay.h) while the sequencer is kept away, publish. When nothing is left and
 * the leader is silent, claim. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ledger/core/metrics.h"
#include "ledger/guard/frozen.h"
#include "ledger/replica/lead_priv.h"

enum {
    POLL_MS = 20,         /* between two looks at an idle log, */
    BUSY_MS = 5,          /* and at one that grows */
    RETRY_MS = 200,       /* after the database failed */
    BEHIND_MAX = 1 << 17, /* entries that the index may lack: what the sequencer remembers */
    BEATS_PER_LEASE = 4,
    LOOKS_PER_LEASE = 32, /* of a follower, at when the leader was heard of */
};

/* ---- following ------------------------------------------------------------------------------- */

static enum ron_rc begin_replay(struct led_lead *l, struct ron_err *err)
{
    struct led_log_head head;
    struct led_replay_opts o = {
        .seq = l->engine->live.seq,
        .index = l->engine->live.index,
        .hashes = l->engine->live.hashes,
        .look_back = l->engine->live.log,
    };

    led_log_head(l->engine->live.log, &head);
    o.image_seq = head.last_seq;
    o.indexed_seq = head.last_seq;
    o.indexed_root = head.root;
    memcpy(o.hash_key, l->engine->hash_key, sizeof o.hash_key);
    return led_replay_new(&o, &l->replay, err);
}

/* The copy could not take what the database has: as when we lead, an operator sees to it. */
static enum ron_rc copy_failed(struct led_lead *l, enum ron_rc rc, struct ron_err *err)
{
    if (rc == RON_IO || rc == RON_LIMIT) {
        led_metrics_sync_failed(l->core->metrics);
    }
    led_engine_enter_safe(l->engine,
                          rc == RON_LIMIT     ? "disk full"
                          : rc == RON_CORRUPT ? "shared log"
                                              : "the copy of the shared log failed",
                          err->msg);
    return ron_err_set(err, RON_AGAIN, "this ledger is in safe mode");
}

/* Into the local log, then through tree and book. */
static enum ron_rc take_frame(struct led_lead *l, const struct led_frame *frame,
                              struct ron_err *err)
{
    struct led_head head = {.seq = frame->seq_first + frame->entries - 1, .ts_ms = frame->time_ms};
    enum ron_rc rc;

    if (l->replay == NULL) {
        RON_TRY(begin_replay(l, err));
    }
    led_log_set_epoch(l->engine->live.log, frame->epoch);
    rc = led_log_append(l->engine->live.log, frame, ron_buf_data(&l->frame), ron_buf_len(&l->frame),
                        err);
    rc = rc == RON_OK ? led_replay_frame(l->replay, frame, "database", err) : rc;
    if (rc != RON_OK) {
        return copy_failed(l, rc, err);
    }
    ron_au64_store(&l->latest_epoch, frame->epoch);
    head.root = frame->new_root;
    if (frame->entries > 0) {
        led_engine_publish(l->engine, l->publish, &head);
    }
    return RON_OK;
}

static enum ron_rc copy_frame(struct led_lead *l, const uint8_t *bytes, size_t len,
                              struct led_frame *ret_frame, struct ron_err *err)
{
    struct led_log_head head;
    size_t size = 0;

    ron_buf_clear(&l->frame);
    RON_TRY(ron_buf_append(&l->frame, bytes, len));
    if (led_frame_read(ron_buf_data(&l->frame), len, ret_frame, &size) != LED_FRAME_GOOD ||
        size != len || memcmp(ret_frame->uuid, l->uuid, sizeof l->uuid) != 0) {
        return ron_err_set(err, RON_CORRUPT, "a row of the database is no frame of this ledger");
    }
    led_log_head(l->engine->live.log, &head);
    if (ret_frame->epoch < head.last_epoch) {
        return ron_err_set(err, RON_CORRUPT, "a row of the database has an epoch that is over");
    }
    if (ret_frame->seq_first != head.last_seq + 1 ||
        !ron_tree_hash_equal(&ret_frame->prev_root, &head.root)) {
        return ron_err_set(err, RON_CORRUPT, "a row of the database does not stand behind ours");
    }
    return RON_OK;
}

/* Whether works of when we led are not taken back yet: they stand in the book and maybe not in the
 * log. Once they are, and while we follow, there are no new ones. The book must be ours. */
static bool owes(const struct led_lead *l)
{
    return led_seq_in_flight(l->engine->live.seq) > 0 || ron_au32_load(&l->news->abort_wanted) != 0;
}

static enum ron_rc see_row(void *arg, uint64_t slot, const uint8_t *bytes, size_t len,
                           struct ron_err *err)
{
    struct led_lead *l = RON_OBJ(arg, struct led_lead, LED_LEAD_MAGIC);
    struct led_frame frame;
    enum ron_rc rc;

    if (!led_engine_follow_book(l->engine)) {
        return ron_err_set(err, RON_AGAIN, "the journal is being opened anew");
    }
    if (owes(l)) {
        led_engine_leave_book(l->engine);
        return ron_err_set(err, RON_AGAIN, "works of when we led are being taken back");
    }
    rc = copy_frame(l, bytes, len, &frame, err);
    rc = rc == RON_OK ? take_frame(l, &frame, err) : rc;
    if (rc == RON_OK) {
        if (frame.epoch > l->at.epoch) { /* who has just claimed is not silent */
            l->claimed_ns = ron_env_now_ns(l->engine->env);
        }
        l->at = (struct led_pg_head){
            .slot = slot, .epoch = frame.epoch, .last_seq = frame.seq_first + frame.entries - 1};
        l->at.root = frame.new_root;
    }
    led_engine_leave_book(l->engine);
    return rc;
}

/* ---- claiming -------------------------------------------------------------------------------- */

static enum ron_rc empty_frame(struct led_lead *l, struct led_frame *ret_frame, struct ron_err *err)
{
    struct led_log_head head;
    struct led_frame f = {
        .epoch = l->at.epoch + 1, .seq_first = l->at.last_seq + 1, .entries = 0, .records = 0};
    enum ron_rc rc;

    led_log_head(l->engine->live.log, &head);
    f.time_ms = RON_MAX(head.time_ms, ron_env_wall_ms(l->engine->env));
    f.prev_root = l->at.root;
    f.new_root = l->at.root;
    memcpy(f.uuid, l->uuid, sizeof f.uuid);
    ron_buf_clear(&l->frame);
    rc = led_frame_begin(&l->frame);
    rc = rc == RON_OK ? led_frame_end(&l->frame, &f) : rc;
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "the frame of a new epoch cannot be built");
    }
    *ret_frame = f;
    return RON_OK;
}

/* The frame of our epoch is in the database: a committer over what was followed. */
static enum ron_rc take_over(struct led_lead *l, const struct led_frame *frame, struct ron_err *err)
{
    struct led_commit_opts o = {
        .env = l->engine->env, .log = l->engine->live.log, .sink = &l->sink};
    struct led_replay_result done;
    struct led_commit *commit = NULL;
    struct ron_tree tree;
    struct led_log_head head;

    RON_TRY(take_frame(l, frame, err));
    RON_TRY(led_replay_end(l->replay, &done, err));
    led_log_head(l->engine->live.log, &head);
    tree = done.tree;
    o.hashes = led_hashes_store(l->engine->live.hashes);
    o.tree = &tree;
    RON_TRY(led_commit_new(&o, &commit, err));
    led_commit_free(l->engine->live.commit);
    l->engine->live.commit = commit;
    led_replay_free(l->replay);
    l->replay = NULL;
    led__lead_set_hint(l, &(struct led_pg_place){0});
    if (!led_engine_set_leading(l->engine, true)) {
        return ron_err_set(err, RON_AGAIN, "safe mode came first");
    }
    l->caught_up = false; /* whatever comes after this reign, we have not read it */
    ron_need_set(l->need, RON_NEED_OK, "", 0);
    RON_LOG(l->core->log, WARN, "this ledger leads", RON_LOG_U64("epoch", frame->epoch),
            RON_LOG_U64("seq", head.last_seq));
    return RON_OK;
}

/* RON_CONFLICT: another one leads by now. */
static enum ron_rc say_we_lead(struct led_lead *l, struct ron_err *err)
{
    uint64_t now_ns = ron_env_now_ns(l->engine->env);

    l->beat_ns = now_ns;
    RON_TRY(led_pg_beat(l->tail, l->epoch, &l->place, err));
    ron_au64_store(&l->heard_ns, now_ns);
    return RON_OK;
}

static void fence_ended(struct led_work *w)
{
    /* Not the leader: the sequencer may end the work after it. */
    struct led_pipes *pipes = RON_OBJ(w->service, struct led_pipes, LED_PIPES_MAGIC);

    led_works_put(pipes->works, w);
}

/* We were overtaken and perhaps nobody writes to us: a key of our own is cancelled, whose frame is
 * refused by the log. Only the committer may step down (V3). */
static void meet_the_fence(struct led_lead *l)
{
    struct led_work *w = led_works_get(l->pipes->works, LED_ID_MAX);
    char key[64];
    int len = snprintf(key, sizeof key, "ron-epoch-%" PRIu64 "-is-over", l->epoch);

    if (w != NULL) { /* else somebody does write */
        w->service = l->pipes;
        w->done = fence_ended;
        w->received_ns = ron_env_now_ns(l->engine->env);
        w->deadline = ron_deadline_after_ms(w->received_ns, LED_LEAD_CALL_MS);
        led_pipes_cancel(l->pipes, l->engine, w, (struct ron_str){key, (size_t)len});
    }
}

/* RON_OK also when another one leads by now: the fence tells the committer. */
static enum ron_rc beat(struct led_lead *l, struct ron_err *err)
{
    enum ron_rc rc = say_we_lead(l, err);

    if (rc == RON_CONFLICT) {
        ron_need_set(l->need, RON_NEED_MISSING, "another ledger leads", 1);
        meet_the_fence(l);
        return RON_OK;
    }
    return rc;
}

static enum ron_rc tell_frozen(void *arg, struct ron_str account, struct ron_err *err)
{
    struct led_lead *l = RON_OBJ(arg, struct led_lead, LED_LEAD_MAGIC);

    return led_pg_freeze(l->tail, l->epoch, account, true, err);
}

/* Behind our first beat, with which the one before us cannot freeze any more. A database that never
 * heard of a frozen account gets the list of the ledger that was alone until now. */
static enum ron_rc read_frozen(struct led_lead *l, struct ron_buf *lines, struct ron_err *err)
{
    bool known = false;

    ron_buf_clear(lines);
    RON_TRY(led_pg_frozen(l->tail, lines, &known, err));
    if (known) {
        return RON_OK;
    }
    RON_TRY(led_frozen_each(l->gate->frozen, tell_frozen, l, err));
    return led_pg_frozen(l->tail, lines, &known, err);
}

static enum ron_rc follow_frozen(struct led_lead *l, struct ron_buf *lines, struct ron_err *err)
{
    uint32_t idle = 0;
    enum ron_rc rc;

    if (!ron_au32_cas(&l->gate->frozen_busy, &idle, 1)) {
        return ron_err_set(err, RON_AGAIN, "an account is being frozen");
    }
    rc = led_frozen_replace(l->gate->frozen, lines, led_seq_book_mut(l->engine->live.seq), err);
    ron_au32_store(&l->gate->frozen_busy, 0);
    return rc == RON_NOMEM || rc == RON_OK ? rc : copy_failed(l, rc, err);
}

/* The claim is in the database: nobody else appends from now on. */
static enum ron_rc begin_reign(struct led_lead *l, const struct led_pg_head *at,
                               const struct led_frame *frame, struct ron_buf *frozen,
                               struct ron_err *err)
{
    enum ron_rc rc;

    l->epoch = frame->epoch;
    rc = say_we_lead(l, err);
    if (rc == RON_CONFLICT) {
        return ron_err_set(err, RON_AGAIN, "another ledger was faster");
    }
    RON_TRY(rc);
    RON_TRY(read_frozen(l, frozen, err));
    if (!led_engine_follow_book(l->engine)) {
        return ron_err_set(err, RON_AGAIN, "the journal is being opened anew");
    }
    ron_au64_store(&l->heard_ns, 0); /* of an earlier time that we led */
    rc = follow_frozen(l, frozen, err);
    if (rc == RON_OK) {
        l->at = *at;
        rc = take_over(l, frame, err);
    }
    led_engine_leave_book(l->engine);
    return rc;
}

static enum ron_rc claim(struct led_lead *l, struct ron_err *err)
{
    struct led_pg_head at = l->at;
    struct led_frame frame = {0};
    struct ron_buf frozen;
    bool known = false;
    enum ron_rc rc;
    bool clean;

    if (!led_engine_follow_book(l->engine)) {
        return ron_err_set(err, RON_AGAIN, "the journal is being opened anew");
    }
    clean = !owes(l);
    led_engine_leave_book(l->engine);
    if (!clean) {
        return ron_err_set(err, RON_AGAIN, "works of when we led are being taken back");
    }
    ron_buf_init(&frozen, LED_FROZEN_BYTES_MAX);
    rc = led_pg_frozen(l->tail, &frozen, &known, err); /* who cannot read it must not lead */
    rc = rc == RON_OK ? empty_frame(l, &frame, err) : rc;
    if (rc == RON_OK) {
        rc = led_pg_append(l->append, &at, &frame, ron_buf_data(&l->frame), ron_buf_len(&l->frame),
                           err);
    }
    if (rc == RON_CONFLICT) {
        led_pg_drop(l->tail); /* of a server that did not show it, perhaps nobody's any more */
        rc = ron_err_set(err, RON_AGAIN, "another ledger was first");
    }
    /* What is not known to be in, or led to nothing here, is read like any row if it is. */
    rc = rc == RON_OK ? begin_reign(l, &at, &frame, &frozen, err) : rc;
    ron_buf_done(&frozen);
    RON_TRY(rc);
    return beat(l, err);
}

/* Whether nobody has been heard of for a lease. A database that does not answer tells nothing. */
static enum ron_rc leader_is_silent(struct led_lead *l, bool *ret_silent, struct ron_err *err)
{
    struct led_pg_lease lease = {0};
    enum ron_rc rc = led_pg_lease(l->tail, &lease, err);

    if (rc != RON_OK && rc != RON_NOTFOUND) {
        return rc;
    }
    led__lead_set_hint(l, &lease.place);
    *ret_silent = rc == RON_NOTFOUND || lease.epoch == 0 || lease.age_ms >= l->lease_ms;
    return RON_OK;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void tell_need(struct led_lead *l)
{
    char cause[RON_NEED_CAUSE_MAX + 1];
    struct led_pg_place leader = {0};

    if (!l->caught_up) {
        ron_need_set(l->need, RON_NEED_MISSING, "catching up with the shared log", 1);
        return;
    }
    RON_IGNORE(led_lead_hint(l, &leader));
    (void)snprintf(cause, sizeof cause, "follows %.90s",
                   leader.url[0] != '\0' ? leader.url : "a log");
    ron_need_set(l->need, RON_NEED_DEGRADED, cause, 0);
}

/* Another engine: it was made from the local log, so `at` is looked for again. */
static enum ron_rc new_engine(struct led_lead *l, struct ron_err *err)
{
    if (l->placed && l->generation == l->engine->generation) {
        return RON_OK;
    }
    led_replay_free(l->replay);
    l->replay = NULL;
    l->caught_up = false;
    l->placed = false;
    RON_TRY(led__lead_know(l, err));
    RON_TRY(led_lead_place(l, err));
    l->generation = l->engine->generation;
    return RON_OK;
}

/* *ret_wait_ms: until the next round. */
static enum ron_rc follow_round(struct led_lead *l, uint64_t *ret_wait_ms, struct ron_err *err)
{
    uint64_t now_ns = ron_env_now_ns(l->engine->env);
    uint64_t look_ms;
    uint64_t slot;
    size_t rows = 0;
    bool silent = false;

    RON_TRY(new_engine(l, err));
    if (ron_au64_load(&l->engine->durable_seq) >
        ron_au64_load(&l->news->indexed_seq) + BEHIND_MAX) {
        *ret_wait_ms = POLL_MS; /* The sequencer remembers what the index lacks, to a bound. */
        ron_need_set(l->need, RON_NEED_DEGRADED, "waits for the index, which is far behind", 1);
        return RON_OK;
    }
    slot = l->at.slot;
    RON_TRY(led_pg_read(l->tail, &slot, see_row, l, &rows, err));
    *ret_wait_ms = rows == LED_PG_READ_ROWS ? 0 : rows > 0 ? BUSY_MS : POLL_MS;
    l->caught_up = l->caught_up || rows < LED_PG_READ_ROWS;
    /* Who commits is not silent; still it is told now and then who that is. */
    look_ms = l->lease_ms / (rows > 0 ? BEATS_PER_LEASE : LOOKS_PER_LEASE);
    if (now_ns - l->looked_ns < look_ms * RON_NS_PER_MS) {
        return RON_OK;
    }
    l->looked_ns = now_ns;
    if (rows == 0) { /* else they stand behind it */
        RON_TRY(led_pg_holds(l->tail, &l->at, err));
    }
    RON_TRY(leader_is_silent(l, &silent, err));
    silent = silent && now_ns - l->claimed_ns >= l->lease_ms * RON_NS_PER_MS;
    tell_need(l);
    return silent && l->caught_up && rows == 0 ? claim(l, err) : RON_OK;
}

static enum ron_rc lead_round(struct led_lead *l, uint64_t *ret_wait_ms, struct ron_err *err)
{
    uint64_t now_ns = ron_env_now_ns(l->engine->env);

    *ret_wait_ms = POLL_MS;
    if (now_ns - l->beat_ns < l->lease_ms / BEATS_PER_LEASE * RON_NS_PER_MS) {
        return RON_OK;
    }
    return beat(l, err);
}

void led_lead_lost(struct led_lead *l, enum ron_rc rc, const struct ron_err *err)
{
    RON_LOG(
        l->core->log, ERROR, "this ledger follows from now on",
        RON_LOG_STR("cause", rc == RON_CONFLICT ? "another one leads" : "an append not settled"),
        RON_LOG_ERR(err));
    /* In this order: a sequencer that sees the wish to take back decides on nothing new, and one
     * that does not see it gives works the number of the reign that ends. */
    RON_IGNORE(led_engine_set_leading(l->engine, false));
    ron_need_set(l->need, RON_NEED_MISSING, "catching up with the shared log", 1);
    ron_au32_store(&l->news->abort_wanted, 1);
    (void)ron_au32_add(&l->news->reign, 1);
    led_news_wake(l->news);
}

/* What a round could not do. Damage of the log or a copy that does not fit is for an operator. */
static void round_failed(struct led_lead *l, enum ron_rc rc, const struct ron_err *err)
{
    if (rc == RON_AGAIN || rc == RON_TIMEOUT || rc == RON_CLOSED || rc == RON_NOMEM) {
        ron_need_set(l->need,
                     led_engine_mode(l->engine) == LED_RUNNING ? RON_NEED_OK : RON_NEED_MISSING,
                     err->msg, 1);
        return;
    }
    if (rc == RON_DENIED || rc == RON_INVALID || rc == RON_IO || rc == RON_EXISTS) {
        ron_need_set(l->need, RON_NEED_MISSING, err->msg, 5);
        RON_LOG(l->core->log, ERROR, "the shared log cannot be used", RON_LOG_ERR(err));
        return;
    }
    led_engine_enter_safe(l->engine, "shared log", err->msg);
}

static enum ron_rc lead_run(struct ron_task *t, void *arg)
{
    struct led_lead *l = RON_OBJ(arg, struct led_lead, LED_LEAD_MAGIC);
    struct ron_watch *stop = ron_task_stop_watch(t);
    uint64_t seen = 0;

    l->generation = l->engine->generation; /* placed by the build */
    while (ron_watch_get(stop, &seen) != RON_TASK_STOP) {
        struct ron_err err = {0};
        uint64_t wait_ms = RETRY_MS;
        enum led_mode mode = led_engine_mode(l->engine);
        uint64_t value = 0;
        enum ron_rc rc = RON_OK;

        if (mode == LED_FOLLOWING) {
            rc = follow_round(l, &wait_ms, &err);
        } else if (mode == LED_RUNNING) {
            rc = lead_round(l, &wait_ms, &err);
        }
        if (rc != RON_OK) {
            wait_ms = rc == RON_AGAIN ? POLL_MS : RETRY_MS;
            round_failed(l, rc, &err);
        }
        if (wait_ms > 0 && ron_watch_wait(stop, seen, ron_deadline_after_ms(ron_mono_ns(), wait_ms),
                                          &value, &seen) == RON_CANCELLED) {
            return RON_CANCELLED;
        }
    }
    return RON_OK;
}

enum ron_rc led_stage_lead_add(struct led_lead *l, struct ron_err *err)
{
    if (l == NULL) {
        return RON_OK;
    }
    return ron_sup_add(
        ron_app_sup(l->core->app),
        &(struct ron_task_def){.name = "leader",
                               .kind = "leader",
                               .mode = RON_TASK_BLOCKING,
                               .stage = 2, /* before the sequencer, whose book it uses */
                               .run = lead_run,
                               .arg = l},
        NULL, err);
}
