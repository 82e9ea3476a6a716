/* SPDX-License-Identifier: Apache-2.0 */
/* tier_write.c - objects on their way to the bucket.
 *
 *     ron_tier_stored ──► DIR/<file> ──► chan ──► uploader-N ──► bucket ──► file removed
 *                            ▲                      │ failed: stays in the folder, `deferred`
 *                            └──── sweeper ◄────────┘ (and at the start, and when chan was full)
 *
 * The folder is the queue that counts; the channel only tells the uploaders of it sooner. The
 * sweeper looks into the folder when something was deferred, waiting twice as long after each time
 * that did not help, and asks a server that did not work whether it does again. */
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"
#include "s3/s3_priv.h"
#include "tier_priv.h"

enum {
    SWEEP_FIRST_MS = 1000,
    SWEEP_MAX_MS = 30000,
    PROBE_MS = 2000,
    TICK_MS = 250,
};

/* ---- the folder ------------------------------------------------------------------------------ */

/* The name tells the size, so that the figures are right without the object. */
static void path_of(const struct ron_tier *t, const struct ron__tier_job *job,
                    char ret[RON__TIER_PATH_SIZE])
{
    char hex[RON_B3_HEX_LEN];

    ron_b3_format_hex(&job->id, hex);
    (void)snprintf(ret, RON__TIER_PATH_SIZE, "%s/%.*s-%llu-%llu", t->folder, (int)sizeof hex, hex,
                   (unsigned long long)job->size, (unsigned long long)job->life);
}

static bool name_read(const char *name, struct ron__tier_job *ret_job)
{
    const char *size = name + RON_B3_HEX_LEN + 1;
    const char *life;

    if (strlen(name) < RON_B3_HEX_LEN + 4 || name[RON_B3_HEX_LEN] != '-' ||
        !ron_b3_parse_hex(name, RON_B3_HEX_LEN, &ret_job->id)) {
        return false;
    }
    life = strchr(size, '-');
    return life != NULL &&
           ron_http_parse_u64((struct ron_str){size, (size_t)(life - size)}, &ret_job->size) ==
               RON_OK &&
           ron_http_parse_u64((struct ron_str){life + 1, strlen(life + 1)}, &ret_job->life) ==
               RON_OK;
}

/* RON_EXISTS: it waits already. */
static enum ron_rc mark(struct ron_tier *t, const struct ron__tier_job *job, struct ron_err *err)
{
    const struct ron_env *env = t->opts.env;
    char path[RON__TIER_PATH_SIZE];
    int fd = -1;

    path_of(t, job, path);
    RON_TRY(env->disk->open(env, path, RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_EXCL, 0600, &fd,
                            err));
    env->disk->close(env, fd);
    if (t->opts.keep && env->disk->sync_dir(env, t->folder, err) != RON_OK) {
        RON_IGNORE(env->disk->remove(env, path, NULL));
        return RON_IO;
    }
    return RON_OK;
}

/* Whether it waited: then the pin was given back, and the figures are right again. */
static bool unmark(struct ron_tier *t, const struct ron__tier_job *job)
{
    char path[RON__TIER_PATH_SIZE];
    struct ron_err err = {0};

    path_of(t, job, path);
    if (t->opts.env->disk->remove(t->opts.env, path, &err) != RON_OK) {
        return false;
    }
    (void)ron_cas_unpin(t->opts.store, &job->id);
    (void)ron_au64_add(&t->backlog, UINT64_MAX); /* minus one */
    (void)ron_au64_add(&t->backlog_bytes, 0 - job->size);
    return true;
}

static bool marked(struct ron_tier *t, const struct ron__tier_job *job)
{
    char path[RON__TIER_PATH_SIZE];
    struct ron_file_stat st;

    path_of(t, job, path);
    return t->opts.env->disk->stat_link(t->opts.env, path, &st) == RON_OK;
}

/* To an uploader, or later. */
static void enqueue(struct ron_tier *t, const struct ron__tier_job *job)
{
    struct ron__tier_job *copy = ron_alloc(sizeof *copy);

    if (copy != NULL) {
        *copy = *job;
        if (ron_chan_try_send(t->chan, copy, NULL) == RON_OK) {
            return;
        }
        ron_free(copy);
    }
    (void)ron_au64_add(&t->deferred, 1);
}

/* ---- one upload ------------------------------------------------------------------------------ */

struct source {
    struct ron_cas_obj *obj;
    struct ron_watch *stop; /* NULL: nobody stops it */
};

static enum ron_rc read_object(void *arg, uint64_t off, void *buf, size_t len, struct ron_err *err)
{
    struct source *s = arg;
    size_t got = 0;

    if (s->stop != NULL && ron_watch_value(s->stop) == RON_TASK_STOP) {
        return ron_err_set(err, RON_CANCELLED, "s3: the task is ending");
    }
    if (ron_cas_read(s->obj, off, buf, len, &got) != RON_OK || got != len) {
        return ron_err_set(err, RON_IO, "an object for the bucket cannot be read");
    }
    return RON_OK;
}

/* RON_OK: the bucket has it. RON_NOTFOUND: the local store does not. */
static enum ron_rc upload(struct ron_tier *t, const struct ron_b3 *id, struct ron_watch *stop,
                          struct ron_deadline deadline, struct ron_err *err)
{
    struct source source = {.stop = stop};
    char key[RON_TIER_KEY_SIZE];
    bool bad = ron__tier_bad_has(t, id);
    enum ron_rc rc = ron_cas_open(t->opts.store, id, &source.obj, err);

    if (rc != RON_OK) {
        return rc == RON_CORRUPT ? RON_NOTFOUND : rc;
    }
    ron_tier_key(id, key);
    rc = ron_s3_put_object(t->s3, key, ron_cas_obj_size(source.obj), read_object, &source,
                           bad ? 0 : (uint32_t)RON_S3_IF_ABSENT, deadline, err);
    ron_cas_release(source.obj);
    if (rc == RON_OK || rc == RON_EXISTS) {
        ron_counter_add(t->writes[rc == RON_OK ? RON__TIER_WRITE_STORED : RON__TIER_WRITE_PRESENT],
                        1);
        ron__tier_bad_drop(t, id);
        return RON_OK;
    }
    /* An upload that the server does not know is its failure; RON_NOTFOUND is for our own loss. */
    return rc == RON_NOTFOUND ? RON_IO : rc;
}

static void lose(struct ron_tier *t, const struct ron__tier_job *job)
{
    char text[RON_B3_ID_SIZE];

    if (unmark(t, job)) {
        ron_b3_format(&job->id, text);
        ron_counter_add(t->writes[RON__TIER_WRITE_LOST], 1);
        RON_LOG(t->opts.log, ERROR, "an object is gone that the bucket did not have yet",
                RON_LOG_STR("id", text));
    }
}

static void take_job(struct ron_tier *t, const struct ron__tier_job *job, struct ron_watch *stop)
{
    struct ron_err err = {0};
    enum ron_rc rc;

    if (!marked(t, job)) {
        return; /* another uploader was faster */
    }
    rc = upload(t, &job->id, stop, ron_deadline_never(), &err);
    if (rc == RON_OK) {
        (void)unmark(t, job);
    } else if (rc == RON_NOTFOUND) {
        lose(t, job);
    } else if (rc != RON_CANCELLED) {
        ron_counter_add(t->writes[RON__TIER_WRITE_RETRIED], 1);
        (void)ron_au64_add(&t->deferred, 1);
        if (rc != RON_AGAIN) { /* With the breaker open each of them would say the same. */
            RON_LOG(t->opts.log, WARN, "an upload failed and is done again", RON_LOG_ERR(&err));
        }
    }
}

static enum ron_rc uploader_run(struct ron_task *task, void *arg)
{
    struct ron_tier *t = arg;
    struct ron_watch *stop = ron_task_stop_watch(task);
    uint64_t seen = 0;

    while (ron_watch_get(stop, &seen) != RON_TASK_STOP) {
        struct ron__tier_job *job = NULL;
        size_t count = 0;
        enum ron_rc rc = ron_chan_recv_or_changed(t->chan, stop, seen, false, (void **)&job, 1,
                                                  ron_deadline_never(), &count);

        if (rc == RON_CANCELLED || rc == RON_CLOSED) {
            break;
        }
        if (count > 0) {
            take_job(t, job, stop);
            ron_free(job);
        }
    }
    return RON_OK;
}

/* ---- the sweeper ----------------------------------------------------------------------------- */

struct sweep {
    struct ron_tier *t;
    struct ron_watch *stop;
    bool first; /* of this life: pins are not there yet */
};

/* The first time: its pin and its place in the figures. False: the object is gone. */
static bool adopt(struct ron_tier *t, const struct ron__tier_job *job)
{
    (void)ron_au64_add(&t->backlog, 1);
    (void)ron_au64_add(&t->backlog_bytes, job->size);
    if (ron_cas_pin(t->opts.store, &job->id) == RON_NOTFOUND) {
        lose(t, job);
        return false;
    }
    return true;
}

static bool sweep_one(void *arg, const char *name, bool is_dir)
{
    struct sweep *w = arg;
    struct ron__tier_job job;

    if (ron_watch_value(w->stop) == RON_TASK_STOP) {
        return false;
    }
    if (is_dir || !name_read(name, &job)) {
        return true;
    }
    if (w->first && (job.life == w->t->life || !adopt(w->t, &job))) {
        return true; /* it is on its way, or gone */
    }
    enqueue(w->t, &job);
    return true;
}

static void sweep(struct sweep *w)
{
    struct ron_tier *t = w->t;
    struct ron_err err = {0};

    if (!w->first) { /* The first one leaves alone what this life has deferred already. */
        ron_au64_store(&t->deferred, 0);
    }
    if (t->opts.env->disk->list(t->opts.env, t->folder, sweep_one, w, &err) != RON_OK) {
        (void)ron_au64_add(&t->deferred, 1); /* look again */
        RON_LOG(t->opts.log, ERROR, "the folder of waiting objects cannot be read",
                RON_LOG_ERR(&err));
    }
    w->first = false;
}

static void probe(struct ron_tier *t)
{
    struct ron_err err = {0};
    uint64_t size = 0;

    RON_IGNORE(ron_s3_head(t->s3, "probe", ron_deadline_never(), &size, &err));
}

static bool queue_is_idle(const struct ron_tier *t)
{
    struct ron_chan_stats stats;

    ron_chan_get_stats(t->chan, &stats);
    return stats.depth == 0;
}

static enum ron_rc sweeper_run(struct ron_task *task, void *arg)
{
    struct ron_tier *t = arg;
    struct ron_watch *stop = ron_task_stop_watch(task);
    struct sweep w = {.t = t, .stop = stop, .first = true};
    uint64_t wait_ms = SWEEP_FIRST_MS;
    uint64_t sweep_ms = 0;
    uint64_t probe_ms = 0;
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(stop, &seen);

    while (value != RON_TASK_STOP) {
        uint64_t now_ms = ron_env_now_ns(t->opts.env) / RON_NS_PER_MS;
        bool well = ron_au32_load(&t->need_outcome) == (uint32_t)RON_S3_IS_OK;

        if (probe_ms == 0 || (!well && now_ms >= probe_ms)) {
            probe(t);
            probe_ms = now_ms + PROBE_MS;
        }
        if (t->chan != NULL && w.first && ron_cas_loaded(t->opts.store)) {
            sweep(&w);
        } else if (t->chan != NULL && !w.first && ron_au64_load(&t->deferred) > 0 &&
                   now_ms >= sweep_ms && queue_is_idle(t)) {
            sweep(&w);
            wait_ms = well ? SWEEP_FIRST_MS : RON_MIN(2 * wait_ms, (uint64_t)SWEEP_MAX_MS);
            sweep_ms = now_ms + wait_ms;
        }
        if (ron_watch_wait(stop, seen, ron_deadline_after_ms(ron_mono_ns(), TICK_MS), &value,
                           &seen) == RON_CANCELLED) {
            break;
        }
    }
    return RON_OK;
}

enum ron_rc ron__tier_sweeper_add(struct ron_tier *t, struct ron_err *err)
{
    return ron_sup_add(t->opts.sup,
                       &(struct ron_task_def){.name = "s3-sweeper",
                                              .kind = "s3",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = t->opts.stage,
                                              .run = sweeper_run,
                                              .arg = t},
                       NULL, err);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void drop_job(void *item, void *arg)
{
    (void)arg; /* its file is still in the folder */
    ron_free(item);
}

enum ron_rc ron__tier_queue_new(struct ron_tier *t, uint32_t uploads, struct ron_err *err)
{
    char path[RON__TIER_PATH_SIZE];
    int len = snprintf(path, sizeof path, "%s/s3-waiting", t->opts.dir);

    if (len <= 0 || (size_t)len >= sizeof path - RON_B3_HEX_LEN - 1) {
        return ron_err_set(err, RON_LIMIT, "the path of the waiting objects is too long");
    }
    t->folder = ron_strdup(path);
    if (t->folder == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the S3 tier");
    }
    RON_TRY(ron_mkdirs(t->opts.env, path, 0700, err));
    RON_TRY(ron_chan_new(
        &(struct ron_chan_opts){.registry = t->opts.registry,
                                .env = t->opts.env,
                                .name = "s3_uploads",
                                .producers = "writers, s3-sweeper",
                                .consumers = "s3-uploader",
                                .drop_text = "stays in the folder s3-waiting; the sweeper sends "
                                             "it again",
                                .capacity = RON_TIER_QUEUE,
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_job,
                                .drop_arg = t},
        &t->chan, err));
    for (uint32_t i = 0; i < uploads; i++) {
        (void)snprintf(t->names[i], sizeof t->names[i], "s3-uploader-%u", i);
        RON_TRY(ron_sup_add(t->opts.sup,
                            &(struct ron_task_def){.name = t->names[i],
                                                   .kind = "s3",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = t->opts.stage,
                                                   .run = uploader_run,
                                                   .arg = t},
                            NULL, err));
    }
    return RON_OK;
}

void ron__tier_queue_free(struct ron_tier *t)
{
    if (t->chan != NULL) {
        ron_chan_free(t->chan);
    }
    ron_free(t->folder);
}

/* ---- for writers ----------------------------------------------------------------------------- */

static bool is_full(struct ron_tier *t)
{
    return ron_au64_load(&t->backlog) >= t->backlog_max ||
           ron_au64_load(&t->backlog_bytes) >= t->backlog_bytes_max;
}

enum ron_rc ron_tier_admit(struct ron_tier *t, struct ron_err *err)
{
    return t != NULL && t->opts.keep && t->write == RON_TIER_WRITE_QUEUE && is_full(t)
               ? ron_err_set(err, RON_FULL, "too many objects wait for the bucket")
               : RON_OK;
}

bool ron_tier_pins(const struct ron_tier *t)
{
    return ron_tier_writes(t);
}

static enum ron_rc store_now(struct ron_tier *t, const struct ron_b3 *id,
                             struct ron_deadline deadline, struct ron_err *err)
{
    enum ron_rc rc = upload(t, id, NULL, deadline, err);

    (void)ron_cas_unpin(t->opts.store, id);
    if (rc != RON_OK) {
        ron_counter_add(t->writes[RON__TIER_WRITE_FAILED], 1);
    }
    return rc == RON_NOTFOUND ? RON_IO : ron__tier_rc(rc);
}

/* The bytes of an object that is pinned. */
static uint64_t size_of(struct ron_tier *t, const struct ron_b3 *id)
{
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};
    uint64_t size = 0;

    if (ron_cas_open(t->opts.store, id, &obj, &err) == RON_OK) {
        size = ron_cas_obj_size(obj);
        ron_cas_release(obj);
    }
    return size;
}

enum ron_rc ron_tier_stored(struct ron_tier *t, const struct ron_b3 *id,
                            struct ron_deadline deadline, struct ron_err *err)
{
    struct ron__tier_job job = {.id = *id, .life = t != NULL ? t->life : 0};
    enum ron_rc rc;

    if (!ron_tier_writes(t)) {
        return RON_OK;
    }
    RON_CHECK_MAGIC(t, RON__TIER_MAGIC);
    if (t->write == RON_TIER_WRITE_SYNC) {
        return store_now(t, id, deadline, err);
    }
    if (!t->opts.keep && is_full(t)) {
        (void)ron_cas_unpin(t->opts.store, id);
        ron_counter_add(t->writes[RON__TIER_WRITE_DROPPED], 1);
        return RON_OK;
    }
    job.size = size_of(t, id);
    (void)ron_au64_add(&t->backlog, 1);
    (void)ron_au64_add(&t->backlog_bytes, job.size);
    rc = mark(t, &job, err);
    if (rc == RON_OK) {
        enqueue(t, &job);
        return RON_OK;
    }
    (void)ron_cas_unpin(t->opts.store, id);
    (void)ron_au64_add(&t->backlog, UINT64_MAX); /* minus one */
    (void)ron_au64_add(&t->backlog_bytes, 0 - job.size);
    if (rc == RON_EXISTS) {
        return RON_OK; /* It waits already. */
    }
    ron_counter_add(t->writes[RON__TIER_WRITE_FAILED], 1);
    return rc;
}

enum ron_rc ron_tier_remove(struct ron_tier *t, const struct ron_b3 *id, struct ron_err *err)
{
    struct ron__tier_job job = {.id = *id, .life = t->life};
    char key[RON_TIER_KEY_SIZE];
    enum ron_rc rc;

    RON_CHECK_MAGIC(t, RON__TIER_MAGIC);
    job.size = t->chan != NULL ? size_of(t, id) : 0;
    rc = ron_cas_remove(t->opts.store, id, err); /* first, so that nobody uploads it again */
    if ((rc != RON_OK && rc != RON_NOTFOUND) || !ron_tier_writes(t)) {
        return rc;
    }
    if (t->chan != NULL) {
        (void)unmark(t, &job);
    }
    ron_tier_key(id, key);
    if (ron_s3_delete(t->s3, key, ron_deadline_never(), err) != RON_OK) {
        return RON_IO;
    }
    ron__tier_bad_drop(t, id);
    return rc;
}
