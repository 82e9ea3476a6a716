/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/tier.c - a bucket behind the edge's store (ron/s3/tier.h), shared by many edges.
 *
 *     a read that the local store cannot serve ──s3_reads──► s3-reader-N: the bucket, then as ever
 *     an object of an origin, committed ──► edg_s3_stored ──► the bucket
 *
 * Readers of the bucket are tasks of their own: a slow server does not delay requests for local
 * content. A bucket that fails is a miss for whatever an origin has; for /cas it is a 503. */
#include "edge/fill/tier.h"

#include "ron/base/assert.h"

enum ron_rc edg_s3_open(const struct edg_site *site, struct edg_store *store, uint64_t store_bytes,
                        struct ron_err *err)
{
    const char *dir = ron_conf_str(site->conf, EDG_DIR).text;

    return ron_tier_new(&(struct ron_tier_opts){.env = site->env,
                                                .registry = ron_app_registry(site->app),
                                                .sup = ron_app_sup(site->app),
                                                .metrics = ron_app_metrics(site->app),
                                                .needs = ron_app_needs(site->app),
                                                .log = site->log,
                                                .conf = site->conf,
                                                .environ = ron_app_environ(site->app),
                                                .store = store->cas,
                                                .store_bytes = store_bytes,
                                                .dir = store->amnesia ? NULL : dir,
                                                .stage = 2},
                        &store->tier, err);
}

enum ron_rc edg_s3_bring(const struct edg_site *site, struct edg_store *store,
                         const struct ron_b3 *id)
{
    struct ron_err err = {0};
    enum ron_rc rc;

    RON_ASSERT_MSG(store->tier != NULL, "deep reads need a bucket");
    rc = ron_tier_fetch(store->tier, id, ron_deadline_never(), &err);
    if (rc != RON_OK && rc != RON_NOTFOUND && rc != RON_CORRUPT) { /* that one was told */
        RON_LOG(site->log, WARN, "bucket read failed", RON_LOG_ERR(&err));
    }
    return rc;
}

void edg_s3_stored(const struct edg_site *site, struct edg_store *store, const struct ron_b3 *id,
                   struct ron_deadline deadline)
{
    struct ron_err err = {0};

    if (ron_tier_stored(store->tier, id, deadline, &err) != RON_OK) {
        RON_LOG(site->log, WARN, "bucket upload failed", RON_LOG_ERR(&err));
    }
}
