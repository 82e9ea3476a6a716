/* SPDX-License-Identifier: Apache-2.0 */
/* interop/audit/audit.c - the audit trail on its way: from who emits to the sink; contract in
 * audit.h.
 *
 * Events are copied into records from a fixed pool, so emitting allocates nothing. The sink task
 * writes a batch with one write and syncs by time or by bytes. */
#include "interop/audit/audit.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/secret.h"
#include "ron/chan/chan.h"

enum {
    RECORDS = 2 * IOP_AUDIT_CAPACITY, /* in the channel, in the sink's hands, in emitters' hands */
    BATCH = 64,
    NAP_MS = 2, /* after a batch: who emits under load wakes nobody, and 512 fit into it */
    FILE_MODE = 0600,
    TEXTS = 9,
};

#define AUDIT_MAGIC 0x49415544u  /* "IAUD" */
#define RECORD_MAGIC 0x49524543u /* "IREC" */

struct record {
    uint32_t magic;
    struct ron_list_node node;
    uint64_t ts_ms;
    struct iop_audit_event event; /* its texts point into this record */
    struct ron_b3 b3;
    char texts[TEXTS + IOP_AUDIT_ATTRS][IOP_AUDIT_TEXT + 1];
};

struct iop_audit {
    uint32_t magic;
    struct iop_audit_opts opts;
    struct ron_chan *chan;
    struct ron_mutex pool_lock;
    struct ron_list pool;
    struct record *records;
    /* The sink's. */
    struct iop_audit_chain chain;
    int fd;
    uint64_t size; /* of the file */
    uint64_t unsynced;
    uint64_t synced_ns;
    uint64_t told_dropped;
    struct ron_buf lines;
    /* The ring. */
    struct ron_mutex ring_lock;
    struct ron_buf *ring;
    uint64_t ring_next;
    struct iop_audit_counts counts;
};

static const char *const redact_default[] = {"token", "authorization", "signature", "secret",
                                             "key",   "cookie",        "password",  NULL};

/* ---- emitting -------------------------------------------------------------------------------- */

static struct record *take_record(struct iop_audit *a)
{
    struct ron_list_node *node;

    ron_mutex_lock(&a->pool_lock);
    node = ron_list_pop_front(&a->pool);
    ron_mutex_unlock(&a->pool_lock);
    return node != NULL ? RON_LIST_ENTRY(node, struct record, node) : NULL;
}

static void give_record(struct iop_audit *a, struct record *r)
{
    RON_CHECK_MAGIC(r, RECORD_MAGIC);
    ron_mutex_lock(&a->pool_lock);
    ron_list_push_front(&a->pool, &r->node);
    ron_mutex_unlock(&a->pool_lock);
}

static struct ron_str keep(struct record *r, unsigned slot, struct ron_str text)
{
    size_t len = RON_MIN(text.len, (size_t)IOP_AUDIT_TEXT);

    RON_ASSERT(slot < RON_ARRAY_LEN(r->texts));
    if (len > 0) {
        memcpy(r->texts[slot], text.ptr, len);
    }
    r->texts[slot][len] = '\0';
    return (struct ron_str){r->texts[slot], len};
}

static const char *keep_text(struct record *r, unsigned slot, const char *text)
{
    return text == NULL ? NULL
                        : keep(r, slot, (struct ron_str){text, strnlen(text, IOP_AUDIT_TEXT)}).ptr;
}

static void fill(struct record *r, const struct iop_audit_event *e)
{
    struct iop_audit_event *to = &r->event;

    *to = *e;
    to->action = keep_text(r, 0, e->action);
    to->reason = keep_text(r, 1, e->reason);
    to->provider = keep_text(r, 2, e->provider);
    to->corr_id = keep_text(r, 3, e->corr_id);
    to->delivery = keep(r, 4, e->delivery);
    to->sig_alg = keep_text(r, 5, e->sig_alg);
    to->cap_id = keep_text(r, 6, e->cap_id);
    to->addr = keep_text(r, 7, e->addr);
    if (e->b3 != NULL) {
        r->b3 = *e->b3;
        to->b3 = &r->b3;
    }
    for (unsigned i = 0; i < IOP_AUDIT_ATTRS && e->attrs[i].name != NULL; i++) {
        to->attrs[i].value = keep(r, TEXTS + i, e->attrs[i].value);
    }
}

void iop_audit_emit(struct iop_audit *a, const struct iop_audit_event *event)
{
    struct record *r = take_record(a);
    void *evicted = NULL;

    if (r == NULL) {
        ron_stat_add(&a->counts.dropped, 1);
        return;
    }
    r->ts_ms = ron_env_wall_ms(a->opts.env);
    fill(r, event);
    if (ron_chan_try_send(a->chan, r, &evicted) != RON_OK) {
        evicted = r; /* closed: the service has ended */
    }
    if (evicted != NULL) {
        give_record(a, RON_OBJ(evicted, struct record, RECORD_MAGIC));
        ron_stat_add(&a->counts.dropped, 1);
    }
}

/* ---- the sink -------------------------------------------------------------------------------- */

static void remember(struct iop_audit *a, const char *line, size_t len)
{
    struct ron_buf *slot;

    ron_mutex_lock(&a->ring_lock);
    slot = &a->ring[a->ring_next++ % IOP_AUDIT_RING];
    ron_buf_clear(slot);
    RON_IGNORE(ron_buf_append(slot, line, len)); /* no memory: this line is not in the ring */
    ron_mutex_unlock(&a->ring_lock);
}

static void sync_file(struct iop_audit *a)
{
    struct ron_err err = {0};

    if (a->opts.sink == IOP_AUDIT_FILE && a->unsynced > 0) {
        if (a->opts.env->disk->sync(a->opts.env, a->fd, true, &err) != RON_OK) {
            ron_stat_add(&a->counts.failed, 1);
        }
        ron_stat_add(&a->counts.syncs, 1);
    }
    a->unsynced = 0;
    a->synced_ns = ron_env_now_ns(a->opts.env);
}

static enum ron_rc write_lines(struct iop_audit *a)
{
    const struct ron_disk_ops *disk = a->opts.env->disk;
    struct ron_err err = {0};
    size_t len = ron_buf_len(&a->lines);
    enum ron_rc rc = RON_OK;

    if (a->opts.sink == IOP_AUDIT_STDOUT) {
        ron_blocking_point("audit");
        rc = fwrite(ron_buf_data(&a->lines), 1, len, stdout) == len && fflush(stdout) == 0 ? RON_OK
                                                                                           : RON_IO;
    } else if (a->opts.sink == IOP_AUDIT_FILE) {
        rc = disk->pwrite(a->opts.env, a->fd, ron_buf_data(&a->lines), len, a->size, &err);
        if (rc == RON_OK) {
            a->size += len;
            a->unsynced += len;
        } else {
            /* Half a line may be there; the next write begins where this one did. */
            RON_IGNORE(disk->truncate(a->opts.env, a->fd, a->size, &err));
        }
    }
    return rc;
}

/* One write for all; when it fails the chain goes on as if they had been dropped. */
static void write_batch(struct iop_audit *a, void **items, size_t count)
{
    const char *const *redact = a->opts.redact[0] != NULL ? a->opts.redact : redact_default;
    struct iop_audit_chain before = a->chain;
    uint64_t dropped = ron_stat_get(&a->counts.dropped);
    uint64_t told = a->told_dropped;
    size_t good = 0;

    RON_ASSERT(count <= BATCH);
    RON_ASSERT_MSG(told <= dropped, "A1: more records were reported lost than were lost");
    ron_buf_clear(&a->lines);
    for (size_t i = 0; i < count; i++) {
        struct record *r = RON_OBJ(items[i], struct record, RECORD_MAGIC);
        enum ron_rc rc =
            iop_audit_line(&a->chain, r->ts_ms, dropped - told, &r->event, redact, &a->lines);

        if (rc == RON_OK) {
            good++;
            told = dropped;
        } else {
            ron_stat_add(&a->counts.failed, 1);
        }
        give_record(a, r);
    }
    if (good > 0 && write_lines(a) != RON_OK) {
        a->chain = before;
        ron_stat_add(&a->counts.failed, good);
        ron_stat_add(&a->counts.dropped, good);
        return;
    }
    a->told_dropped = told;
    ron_stat_add(&a->counts.emitted, good);
    for (const char *p = ron_buf_text(&a->lines), *end = p + ron_buf_len(&a->lines); p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));

        stop = stop != NULL ? stop + 1 : end;
        remember(a, p, (size_t)(stop - p));
        p = stop;
    }
}

static enum ron_rc sink_run(struct ron_task *t, void *arg)
{
    struct iop_audit *a = RON_OBJ(arg, struct iop_audit, AUDIT_MAGIC);
    struct ron_watch *stop = ron_task_stop_watch(t);
    void *items[BATCH];
    uint64_t value = 0;
    uint64_t seen = 0;
    size_t count = 0;

    a->synced_ns = ron_env_now_ns(a->opts.env);
    while (ron_watch_get(stop, &seen) != RON_TASK_STOP) {
        struct ron_deadline until = ron_deadline_after_ms(ron_mono_ns(), IOP_AUDIT_SYNC_MS);
        uint64_t due_ns = a->synced_ns + IOP_AUDIT_SYNC_MS * RON_NS_PER_MS;

        count = 0;
        if (ron_chan_recv_or_changed(a->chan, stop, seen, true, items, BATCH, until, &count) ==
            RON_CANCELLED) {
            break;
        }
        if (count > 0) {
            write_batch(a, items, count);
        }
        if (count > 0 && count < BATCH) {
            RON_IGNORE(ron_watch_wait(stop, seen, ron_deadline_after_ms(ron_mono_ns(), NAP_MS),
                                      &value, &seen));
        }
        if (a->unsynced >= IOP_AUDIT_SYNC_BYTES || ron_env_now_ns(a->opts.env) >= due_ns) {
            sync_file(a);
        }
    }
    (void)ron_chan_close(a->chan);
    while (ron_chan_try_recv_many(a->chan, items, BATCH, &count) == RON_OK) {
        write_batch(a, items, count);
    }
    sync_file(a);
    return RON_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The end of the file's chain: its last whole line; what follows it is cut. */
static enum ron_rc find_end(struct iop_audit *a, uint64_t *ret_cut, struct ron_err *err)
{
    const struct ron_env *env = a->opts.env;
    char tail[2 * IOP_AUDIT_LINE_MAX];
    size_t len = 0;
    size_t want;
    const char *last;
    const char *line;
    uint64_t from;

    RON_TRY(env->disk->size(env, a->fd, &a->size));
    want = (size_t)RON_MIN(a->size, (uint64_t)sizeof tail);
    from = a->size - want;
    RON_TRY(env->disk->pread(env, a->fd, tail, want, from, &len));
    last = memrchr(tail, '\n', len);
    if (last == NULL) {
        if (a->size >= IOP_AUDIT_LINE_MAX) {
            return ron_err_set(err, RON_CORRUPT, "%s is not an audit trail", a->opts.path);
        }
        *ret_cut = a->size;
        a->size = 0;
    } else {
        line = memrchr(tail, '\n', (size_t)(last - tail));
        line = line != NULL ? line + 1 : tail;
        RON_TRY(
            iop_audit_check(&a->chain, (struct ron_str){line, (size_t)(last - line)}, true, err));
        *ret_cut = len - (size_t)(last + 1 - tail);
        a->size -= *ret_cut;
    }
    return *ret_cut > 0 ? env->disk->truncate(env, a->fd, a->size, err) : RON_OK;
}

static enum ron_rc open_file(struct iop_audit *a, struct ron_err *err)
{
    const struct ron_env *env = a->opts.env;
    uint64_t cut = 0;
    char text[32];

    if (a->opts.amnesia) {
        return ron_err_set(err, RON_DENIED, "audit trail cannot be a file in amnesia mode");
    }
    RON_TRY(env->disk->open(env, a->opts.path, RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE,
                            FILE_MODE, &a->fd, err));
    RON_TRY(find_end(a, &cut, err));
    if (cut > 0) {
        int len = snprintf(text, sizeof text, "%llu", (unsigned long long)cut);

        iop_audit_emit(a, &(struct iop_audit_event){.action = "audit",
                                                    .allow = true,
                                                    .reason = "incomplete last line removed",
                                                    .attrs = {{"cut_bytes", {text, (size_t)len}}}});
    }
    return RON_OK;
}

static void drop_record(void *item, void *arg)
{
    give_record(RON_OBJ(arg, struct iop_audit, AUDIT_MAGIC),
                RON_OBJ(item, struct record, RECORD_MAGIC));
}

static enum ron_rc build(struct iop_audit *a, struct ron_err *err)
{
    a->records = ron_alloc_array(RECORDS, sizeof *a->records);
    a->ring = ron_alloc_array(IOP_AUDIT_RING, sizeof *a->ring);
    if (a->records == NULL || a->ring == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the audit trail");
    }
    for (size_t i = 0; i < RECORDS; i++) {
        a->records[i].magic = RECORD_MAGIC;
        ron_list_push_back(&a->pool, &a->records[i].node);
    }
    for (size_t i = 0; i < IOP_AUDIT_RING; i++) {
        ron_buf_init(&a->ring[i], IOP_AUDIT_LINE_MAX);
    }
    RON_TRY(ron_chan_new(&(struct ron_chan_opts){.registry = a->opts.registry,
                                                 .env = a->opts.env,
                                                 .name = "audit",
                                                 .producers = "http, workers, actions",
                                                 .consumers = "audit_sink",
                                                 .drop_text =
                                                     "the oldest record; audit_drop_total, and "
                                                     "the next record has the count",
                                                 .capacity = IOP_AUDIT_CAPACITY,
                                                 .policy = RON_CHAN_DROP_OLDEST,
                                                 .drop = drop_record,
                                                 .drop_arg = a},
                         &a->chan, err));
    return a->opts.sink == IOP_AUDIT_FILE ? open_file(a, err) : RON_OK;
}

enum ron_rc iop_audit_new(const struct iop_audit_opts *opts, struct iop_audit **ret_audit,
                          struct ron_err *err)
{
    struct iop_audit *a = ron_alloc_zero(sizeof *a);
    enum ron_rc rc;

    if (a == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the audit trail");
    }
    a->magic = AUDIT_MAGIC;
    a->opts = *opts;
    a->fd = -1;
    ron_mutex_init(&a->pool_lock, RON_RANK_LEAF, "audit_pool");
    ron_mutex_init(&a->ring_lock, RON_RANK_SHARED, "audit_ring");
    ron_list_init(&a->pool);
    ron_buf_init(&a->lines, (size_t)BATCH * IOP_AUDIT_LINE_MAX);
    rc = build(a, err);
    if (rc != RON_OK) {
        iop_audit_free(a);
        return rc;
    }
    *ret_audit = a;
    return RON_OK;
}

void iop_audit_free(struct iop_audit *a)
{
    if (a == NULL) {
        return;
    }
    RON_CHECK_MAGIC(a, AUDIT_MAGIC);
    if (a->chan != NULL) {
        ron_chan_free(a->chan);
    }
    if (a->fd >= 0) {
        a->opts.env->disk->close(a->opts.env, a->fd);
    }
    for (size_t i = 0; a->ring != NULL && i < IOP_AUDIT_RING; i++) {
        if (a->ring[i].memory != NULL) {
            ron_wipe(a->ring[i].memory, a->ring[i].cap);
        }
        ron_buf_done(&a->ring[i]);
    }
    ron_buf_done(&a->lines);
    ron_mutex_done(&a->ring_lock);
    ron_mutex_done(&a->pool_lock);
    ron_free(a->ring);
    ron_free(a->records);
    a->magic = 0;
    ron_free(a);
}

enum ron_rc iop_audit_add(struct iop_audit *a, struct ron_sup *sup, uint32_t stage,
                          struct ron_err *err)
{
    return ron_sup_add(sup,
                       &(struct ron_task_def){.name = "audit_sink",
                                              .kind = "audit",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = stage,
                                              .run = sink_run,
                                              .arg = a},
                       NULL, err);
}

const struct iop_audit_counts *iop_audit_get_counts(const struct iop_audit *a)
{
    return &a->counts;
}

enum ron_rc iop_audit_tail(struct iop_audit *a, uint32_t max, struct ron_buf *out)
{
    enum ron_rc rc = RON_OK;
    uint64_t count;

    RON_CHECK_MAGIC(a, AUDIT_MAGIC);
    ron_mutex_lock(&a->ring_lock);
    count = RON_MIN(RON_MIN(a->ring_next, (uint64_t)IOP_AUDIT_RING), (uint64_t)max);
    for (uint64_t i = a->ring_next - count; i < a->ring_next && rc == RON_OK; i++) {
        const struct ron_buf *slot = &a->ring[i % IOP_AUDIT_RING];

        rc = ron_buf_append(out, ron_buf_data(slot), ron_buf_len(slot));
    }
    ron_mutex_unlock(&a->ring_lock);
    return rc;
}
