/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/tier.c - a bucket behind the edge's store (ron/s3/tier.h), shared by many edges.
 *
 *     a read that the local store cannot serve ──s3_reads──► s3-reader-N: the bucket, then as ever
 *     an object of an origin, committed ──► edg_s3_stored ──► the bucket
 *
 * Readers of the bucket are tasks of their own: a slow server holds up nobody who asks for what is
 * here. A bucket that fails is a miss for whatever an origin has; for /cas it is a 503. */
#include <stdio.h>

#include "edge/fill/tier.h"
#include "ron/base/alloc.h"

static void drop_read(void *item, void *arg)
{
    edg_read_drop(arg, item, EDG_ERROR_DRAINING);
}

static enum ron_rc handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    (void)t;
    for (size_t i = 0; i < count; i++) {
        edg_read_take(arg, items[i]);
    }
    return RON_OK;
}

static enum ron_rc add_readers(struct edg_svc *s, struct ron_err *err)
{
    uint32_t count = ron_tier_fetches(s->tier);

    RON_TRY(ron_chan_new(
        &(struct ron_chan_opts){.registry = ron_app_registry(s->app),
                                .env = s->env,
                                .name = "s3_reads",
                                .producers = "http, readers",
                                .consumers = "s3-readers",
                                .drop_text = "answered 429 rate_limit; busy_rejections_total",
                                .capacity = (uint32_t)ron_conf_int(s->conf, EDG_Q_READS),
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_read,
                                .drop_arg = s},
        &s->s3_reads, err));
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(s->s3_reader_names[i], sizeof s->s3_reader_names[i], "s3-reader-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(s->app),
                            &(struct ron_task_def){.name = s->s3_reader_names[i],
                                                   .kind = "reader",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 1,
                                                   .input = s->s3_reads,
                                                   .batch_max = 1,
                                                   .handle = handle,
                                                   .arg = s},
                            NULL, err));
    }
    return RON_OK;
}

enum ron_rc edg_s3_open(struct edg_svc *s, uint64_t store_bytes, struct ron_err *err)
{
    RON_TRY(ron_tier_new(
        &(struct ron_tier_opts){.env = s->env,
                                .registry = ron_app_registry(s->app),
                                .sup = ron_app_sup(s->app),
                                .metrics = ron_app_metrics(s->app),
                                .needs = ron_app_needs(s->app),
                                .log = s->log,
                                .conf = s->conf,
                                .environ = ron_app_environ(s->app),
                                .store = s->store,
                                .store_bytes = store_bytes,
                                .dir = s->amnesia ? NULL : ron_conf_str(s->conf, EDG_DIR).text,
                                .stage = 2},
        &s->tier, err));
    if (s->tier == NULL) {
        return RON_OK;
    }
    RON_TRY(edg_shared_new(s, err));
    return add_readers(s, err);
}

void edg_s3_pass(struct edg_svc *s, struct edg_read *take_read)
{
    enum ron_rc rc;

    take_read->deep = true;
    rc = ron_chan_try_send(s->s3_reads, take_read, NULL);
    if (rc != RON_OK) {
        edg_read_drop(s, take_read, rc == RON_CLOSED ? EDG_ERROR_DRAINING : EDG_ERROR_BUSY);
    }
}

enum ron_rc edg_s3_bring(struct edg_svc *s, const struct edg_read *r)
{
    const struct ron_b3 *id = r->kind == EDG_READ_STORED ? &r->stored->id : &r->id;
    struct ron_err err = {0};
    enum ron_rc rc = ron_tier_fetch(s->tier, id, ron_deadline_never(), &err);

    if (rc != RON_OK && rc != RON_NOTFOUND && rc != RON_CORRUPT) { /* that one was told */
        RON_LOG(s->log, WARN, "the bucket could not be read", RON_LOG_ERR(&err));
    }
    return rc;
}

void edg_s3_stored(struct edg_svc *s, const struct ron_b3 *id, struct ron_deadline deadline)
{
    struct ron_err err = {0};

    if (ron_tier_stored(s->tier, id, deadline, &err) != RON_OK) {
        RON_LOG(s->log, WARN, "an object did not reach the bucket", RON_LOG_ERR(&err));
    }
}
