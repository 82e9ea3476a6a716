/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/tier.c - a bucket behind the edge's store (ron/s3/tier.h), shared by many edges.
 *
 *     a read that the local store cannot serve ──s3_reads──► s3-reader-N: the bucket, then as ever
 *     an object of an origin, committed ──► edg_s3_stored ──► the bucket
 *
 * Readers of the bucket are tasks of their own: a slow server holds up nobody who asks for what is
 * here. A bucket that fails is a miss for whatever an origin has; for /cas it is a 503. */
#include "edge/fill/tier.h"

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
    return edg_shared_new(s, err);
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
