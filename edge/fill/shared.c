/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/shared.c - which bytes a path of an origin has, in the bucket that edges share.
 *
 * A record (bytes as in docs/formats/edge-index.md, with one origin and one record) lies under
 * "r/" HH "/" and the 64 digits of BLAKE3(name NUL url NUL target). The edge that filled writes it;
 * one that knows nothing of the path looks for it before it asks the origin. It is a shortcut and
 * never more: what is missing, stale, damaged, of another origin or purged here is as if it were
 * not there. A writer of the bucket is trusted like an origin; the bytes themselves are
 * still checked against their id. Only live fills: what a gateway keeps depends on its clients.
 *
 * A purge of a path removes its record. For a prefix, and for records that an edge with older
 * news writes afterwards, this edge remembers when it was purged: records of answers from before
 * are not used. Too many such memories become one for all paths. */
#include <stdio.h>
#include <string.h>

#include "edge/fill/tier.h"
#include "edge/stored/index.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    RECORD_MAX = 256 * 1024,
    PATIENCE_MS = 1000, /* a fill has 5 s, and the origin is the next one to ask */
    SKEW_MS = 60000,    /* clocks of edges */
    KEY_SIZE = 72,
    PURGES_MAX = 64,  /* then they become one for all paths */
    PREFIX_MAX = 256, /* of a longer one this much counts */
};

/* When what was purged here. */
struct edg_shared {
    struct ron_mutex mu; /* guards what follows */
    uint64_t all_ms;     /* records from before are not used, whatever their path */
    size_t next;
    struct {
        uint64_t at_ms;
        struct ron_b3 origin;
        size_t len;
        char prefix[PREFIX_MAX];
    } purges[PURGES_MAX];
};

enum ron_rc edg_shared_new(struct edg_fills *fills, struct ron_err *err)
{
    fills->shared = ron_alloc_zero(sizeof *fills->shared);
    if (fills->shared == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the purge history");
    }
    ron_mutex_init(&fills->shared->mu, RON_RANK_LEAF, "edge.shared");
    return RON_OK;
}

void edg_shared_free(struct edg_fills *fills)
{
    if (fills->shared != NULL) {
        ron_mutex_done(&fills->shared->mu);
        ron_free(fills->shared);
    }
}

static struct ron_deadline patience(struct edg_fills *fills)
{
    return ron_deadline_after_ms(ron_env_now_ns(fills->site->env), PATIENCE_MS);
}

static struct edg_index_origin origin_of(struct edg_fills *fills, uint32_t origin)
{
    RON_ASSERT_MSG(origin < fills->origins.count, "only origins of [origins] are shared");
    return (struct edg_index_origin){fills->origins.at[origin].name, fills->origins.at[origin].url,
                                     origin};
}

static void origin_hash(struct edg_fills *fills, uint32_t origin, struct ron_str target,
                        struct ron_b3 *ret)
{
    struct edg_index_origin o = origin_of(fills, origin);
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    ron_b3_update(&h, o.name, strlen(o.name) + 1);
    ron_b3_update(&h, o.url, strlen(o.url) + 1);
    ron_b3_update(&h, target.ptr, target.len);
    ron_b3_final(&h, ret);
}

static void key_of(struct edg_fills *fills, uint32_t origin, struct ron_str target,
                   char ret[KEY_SIZE])
{
    char hex[RON_B3_HEX_LEN];
    struct ron_b3 hash;

    origin_hash(fills, origin, target, &hash);
    ron_b3_format_hex(&hash, hex);
    (void)snprintf(ret, KEY_SIZE, "r/%.2s/%.*s", hex, (int)sizeof hex, hex);
}

/* ---- purges ---------------------------------------------------------------------------------- */

static void remember(struct edg_fills *fills, const struct ron_b3 *origin, struct ron_str prefix)
{
    struct edg_shared *m = fills->shared;
    uint64_t now_ms = ron_env_wall_ms(fills->site->env);

    ron_mutex_lock(&m->mu);
    RON_ASSERT(m->next < PURGES_MAX);
    prefix.len = RON_MIN(prefix.len, (size_t)PREFIX_MAX); /* more than was asked for, never less */
    m->all_ms = RON_MAX(m->all_ms, m->purges[m->next].at_ms); /* 0 while there is room */
    m->purges[m->next].at_ms = now_ms;
    m->purges[m->next].origin = *origin;
    m->purges[m->next].len = prefix.len;
    memcpy(m->purges[m->next].prefix, prefix.ptr, prefix.len);
    m->next = (m->next + 1) % PURGES_MAX;
    ron_mutex_unlock(&m->mu);
}

static bool is_purged(struct edg_fills *fills, const struct ron_b3 *origin,
                      const struct edg_stored *record)
{
    struct edg_shared *m = fills->shared;
    uint64_t born_ms = record->life.response_ms;
    bool purged;

    ron_mutex_lock(&m->mu);
    purged = born_ms <= m->all_ms;
    for (size_t i = 0; i < PURGES_MAX && !purged; i++) {
        purged = born_ms <= m->purges[i].at_ms && ron_b3_equal(&m->purges[i].origin, origin) &&
                 record->target.len >= m->purges[i].len &&
                 memcmp(record->target.ptr, m->purges[i].prefix, m->purges[i].len) == 0;
    }
    ron_mutex_unlock(&m->mu);
    return purged;
}

void edg_shared_purge(struct edg_fills *fills, uint32_t origin, struct ron_str target, bool prefix)
{
    struct ron_err err = {0};
    struct ron_b3 hash;
    char key[KEY_SIZE];

    if (fills->store->tier == NULL || origin >= fills->origins.count) {
        return;
    }
    origin_hash(fills, origin, (struct ron_str){"", 0}, &hash);
    remember(fills, &hash, target);
    if (!prefix && ron_tier_writes(fills->store->tier)) {
        key_of(fills, origin, target, key);
        if (ron_s3_delete(ron_tier_s3(fills->store->tier), key, patience(fills), &err) != RON_OK) {
            RON_LOG(fills->site->log, WARN, "bucket record removal failed", RON_LOG_ERR(&err));
        }
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool fields_are_sound(struct edg_fields f)
{
    for (size_t i = 0; i < f.count; i++) {
        if (!ron_http_is_token(f.at[i].name) || !ron_http_is_value(f.at[i].value)) {
            return false;
        }
    }
    return true;
}

/* What of the record may be used: a label, and with "found" the record as ours. */
static const char *judge(struct edg_fills *fills, const struct edg_fill *f, struct ron_str bytes,
                         const struct edg_stored **ret_record)
{
    struct edg_index_origin origin = origin_of(fills, f->want.origin);
    struct edg_index_opts opts = {.origins = &origin, .origin_count = 1};
    struct ron_http_field fields[EDG_STORED_FIELDS_MAX];
    uint64_t now_ms = ron_env_wall_ms(fills->site->env);
    const struct edg_stored *made;
    struct edg_stored like;
    struct ron_err err = {0};
    struct ron_b3 hash;
    struct edg_ask ask;
    struct edg_use use;
    bool keep = false;

    if (edg_index_unpack(&opts, bytes.ptr, bytes.len, &like, fields, &err) != RON_OK ||
        like.status != 200 || like.target.len != f->want.target.len ||
        memcmp(like.target.ptr, f->want.target.ptr, like.target.len) != 0 ||
        !fields_are_sound(like.fields) || like.life.response_ms > now_ms + SKEW_MS) {
        return "bad";
    }
    origin_hash(fills, f->want.origin, (struct ron_str){"", 0}, &hash);
    if (is_purged(fills, &hash, &like)) {
        return "purged";
    }
    edg_ask_read(RON_HTTP_GET, (struct edg_fields){0}, &ask);
    edg_use(&like.life, &ask, now_ms, &use);
    if (use.verdict != EDG_FRESH) {
        return "stale";
    }
    like.vary = (struct ron_str){"", 0}; /* computed again from the fields */
    like.key = (struct ron_str){"", 0};
    made = edg_record_make(fills->site, like, edg_origin_request(), like.fields, &keep);
    if (made == NULL || !keep) {
        edg_stored_unref(made);
        return "bad";
    }
    *ret_record = made;
    return "found";
}

/* Whether its bytes are here, or could be brought. */
static bool bring(struct edg_fills *fills, const struct edg_stored *record,
                  struct ron_deadline deadline)
{
    struct ron_cas_obj *obj = NULL;
    struct ron_err err = {0};
    bool here = ron_cas_open(fills->store->cas, &record->id, &obj, &err) == RON_OK ||
                (ron_tier_fetch(fills->store->tier, &record->id, deadline, &err) == RON_OK &&
                 ron_cas_open(fills->store->cas, &record->id, &obj, &err) == RON_OK);

    here = here && ron_cas_obj_size(obj) == record->size;
    ron_cas_release(obj);
    return here;
}

const struct edg_stored *edg_shared_find(struct edg_fills *fills, const struct edg_fill *f)
{
    const struct edg_stored *record = NULL;
    const char *result = "absent";
    struct ron_s3_got got;
    struct ron_err err = {0};
    char key[KEY_SIZE];
    enum ron_rc rc;

    RON_ASSERT_MSG(fills->store->tier != NULL, "a shared fill has a bucket");
    RON_ASSERT(fills->shared != NULL);
    key_of(fills, f->want.origin, f->want.target, key);
    rc = ron_s3_get(ron_tier_s3(fills->store->tier), key, 0, RECORD_MAX, NULL,
                    ron_deadline_min(patience(fills), f->deadline), &got, &err);
    if (rc == RON_OK) {
        result = judge(fills, f, got.bytes, &record);
        ron_s3_got_done(&got);
    } else if (rc != RON_NOTFOUND) {
        result = "failed";
    }
    if (record != NULL && !bring(fills, record, f->deadline)) {
        edg_stored_unref(record);
        record = NULL;
        result = "absent";
    }
    edg_count_of(fills->site, EDG_M_SHARED, result, 1);
    if (record != NULL) {
        (void)edg_table_put(fills->store->table, edg_stored_ref(record));
    }
    return record;
}

/* ---- telling --------------------------------------------------------------------------------- */

void edg_shared_tell(struct edg_fills *fills, const struct edg_stored *record)
{
    struct edg_index_origin origin;
    struct edg_index_opts opts = {.origins = &origin, .origin_count = 1};
    struct ron_err err = {0};
    struct ron_buf bytes;
    char key[KEY_SIZE];
    enum ron_rc rc;

    if (!ron_tier_writes(fills->store->tier) || record->status != 200 || record->life.no_cache ||
        edg_life_ttl_s(&record->life, ron_env_wall_ms(fills->site->env)) <= 0) {
        return;
    }
    origin = origin_of(fills, record->origin);
    ron_buf_init(&bytes, RECORD_MAX);
    rc = edg_index_pack(&opts, record, &bytes);
    if (rc == RON_OK) {
        key_of(fills, record->origin, record->target, key);
        rc = ron_s3_put(ron_tier_s3(fills->store->tier), key, ron_buf_data(&bytes),
                        ron_buf_len(&bytes), 0, patience(fills), &err);
    }
    ron_buf_done(&bytes);
    edg_count_of(fills->site, EDG_M_SHARED, rc == RON_OK ? "told" : "untold", 1);
}
