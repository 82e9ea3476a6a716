/* SPDX-License-Identifier: Apache-2.0 */
/* tier_read.c - an object out of the bucket into the local store.
 *
 * In pieces of one part, each a request of its own with its own tries: memory is bounded, a broken
 * connection costs one piece, and no callback of the network writes to the disk. Pieces belong
 * together by the entity tag of the first. The store hashes what it takes and compares at the
 * commit (R2); until then nothing is visible. */
#include <string.h>

#include "ron/base/assert.h"
#include "s3_priv.h"
#include "tier_priv.h"

/* All pieces behind the first, which is in `got`. */
static enum ron_rc take_rest(struct ron_tier *t, const char *key, struct ron_s3_got *got,
                             struct ron_cas_writer *w, struct ron_deadline deadline,
                             struct ron_err *err)
{
    uint64_t part = ron_s3_part_bytes(t->s3);
    uint64_t total = got->total;
    uint64_t off = got->bytes.len;
    char etag[RON_S3_ETAG_MAX + 1];
    enum ron_rc rc = ron_cas_append(w, got->bytes.ptr, got->bytes.len, err);

    memcpy(etag, got->etag, sizeof etag);
    ron_s3_got_done(got);
    while (rc == RON_OK && off < total) {
        if (ron__s3_stopping(t->s3)) {
            return ron_err_set(err, RON_CANCELLED, "s3: the service is ending");
        }
        RON_TRY(ron_s3_get(t->s3, key, off, part, etag, deadline, got, err));
        if (got->total != total || got->bytes.len == 0) {
            rc = ron_err_set(err, RON_CORRUPT, "s3: the object changed while it was read");
        } else {
            rc = ron_cas_append(w, got->bytes.ptr, got->bytes.len, err);
        }
        off += got->bytes.len;
        ron_s3_got_done(got);
    }
    return rc;
}

static enum ron_rc fetch(struct ron_tier *t, const struct ron_b3 *id, struct ron_deadline deadline,
                         struct ron_err *err)
{
    struct ron_cas_writer *w = NULL;
    struct ron_s3_got got;
    struct ron_b3 stored;
    char key[RON_TIER_KEY_SIZE];
    enum ron_rc rc;

    ron_tier_key(id, key);
    RON_TRY(ron_s3_get(t->s3, key, 0, ron_s3_part_bytes(t->s3), NULL, deadline, &got, err));
    rc = ron_cas_begin(t->opts.store,
                       &(struct ron_cas_write_opts){.size_hint = got.total, .expected = id}, &w,
                       err);
    if (rc == RON_OK) {
        rc = take_rest(t, key, &got, w, deadline, err);
        if (rc == RON_OK) {
            rc = ron_cas_commit(w, &stored, err);
        } else {
            ron_cas_abort(w);
        }
    }
    ron_s3_got_done(&got);
    return rc;
}

static enum ron_rc lead(struct ron_tier *t, const struct ron_b3 *id, struct ron_deadline deadline,
                        struct ron_err *err)
{
    enum ron_rc rc = fetch(t, id, deadline, err);
    char text[RON_B3_ID_SIZE];

    /* Only the store's word counts as a mismatch; an answer that makes no sense is a failure. */
    rc = rc == RON_CORRUPT ? RON_IO : rc == RON_CONFLICT ? RON_CORRUPT : ron__tier_rc(rc);
    ron_counter_add(t->reads[rc == RON_OK         ? RON__TIER_READ_FOUND
                             : rc == RON_NOTFOUND ? RON__TIER_READ_ABSENT
                             : rc == RON_CORRUPT  ? RON__TIER_READ_MISMATCH
                                                  : RON__TIER_READ_FAILED],
                    1);
    if (rc == RON_CORRUPT) {
        ron__tier_bad_add(t, id);
        ron_b3_format(id, text);
        RON_LOG(t->opts.log, ERROR, "an object of the bucket is not what its name says",
                RON_LOG_STR("id", text), RON_LOG_ERR(err));
    }
    return rc;
}

enum ron_rc ron_tier_fetch(struct ron_tier *t, const struct ron_b3 *id,
                           struct ron_deadline deadline, struct ron_err *err)
{
    struct ron_flight_ticket ticket;
    struct ron_flight_news news = {0};
    enum ron_flight_role role;
    enum ron_rc rc;

    if (t == NULL) {
        return ron_err_set(err, RON_NOTFOUND, "there is no second tier");
    }
    RON_CHECK_MAGIC(t, RON__TIER_MAGIC);
    rc = ron_flight_join(t->flights, id->bytes, sizeof id->bytes, &ticket, &role);
    if (rc != RON_OK) {
        return ron_err_set(err, rc, "too many reads of the bucket");
    }
    if (role == RON_FLIGHT_LEADER) {
        rc = lead(t, id, deadline, err);
        if (rc == RON_OK) {
            ron_flight_finish(&ticket, t); /* nothing to hand over: it is in the store */
        } else {
            ron_flight_fail(&ticket, rc);
        }
    } else {
        rc = ron_flight_wait(&ticket, deadline, &news);
        if (rc == RON_OK && news.event != RON_FLIGHT_DONE) {
            rc = news.failure;
        }
        if (rc != RON_OK) {
            (void)ron_err_set(err, rc, "s3: the read that was shared failed");
        }
    }
    ron_flight_leave(&ticket);
    return rc;
}
