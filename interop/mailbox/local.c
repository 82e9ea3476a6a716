/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/local.c - the embedded mailbox as a task; contract in local.h.
 *
 * The writer's turn: take everything that waits in the channel, apply it (store.h), look at
 * the time, sleep until something comes or is due. While it syncs, the next group gathers in the
 * channel: the slower the disk, the larger the groups.
 *
 * Drain: the stop comes after all who submit have ended; the channel is closed, what is left in it
 * is applied, long polls are answered with nothing. */
#include "interop/mailbox/local.h"

#include "interop/mailbox/store.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    CAPACITY = 2048, /* requests under way at once: four times the service's inflight limit */
    SEEN_MAX = 1 << 22,
    TURN_MS = 1000, /* a turn at least this often: keys age without messages too */
};
#define SEEN_TTL_MS (UINT64_C(24) * 60 * 60 * 1000)
#define SEEN_KEEP_MS (UINT64_C(10) * 60 * 1000)

#define LOCAL_MAGIC 0x494c4f43u /* "ILOC" */

struct iop_box_local {
    uint32_t magic;
    struct iop_box box;
    const struct ron_env *env;
    struct ron_chan *chan;
    struct iop_store store;
    bool open;
    struct iop_op *batch[IOP_GROUP_MAX];
};

static enum ron_rc submit(struct iop_box *box, struct iop_op *op)
{
    struct iop_box_local *b = RON_CONTAINER_OF(box, struct iop_box_local, box);

    RON_CHECK_MAGIC(b, LOCAL_MAGIC);
    RON_ASSERT_MSG(op->done != NULL, "an operation is answered by `done`");
    RON_ASSERT(op->kind < IOP_OP_COUNT);
    op->magic = IOP_OP_MAGIC;
    return ron_chan_try_send(b->chan, op, NULL);
}

static void dispose(struct iop_box *box)
{
    iop_box_local_free(RON_CONTAINER_OF(box, struct iop_box_local, box));
}

static const struct iop_box_ops local_ops = {.name = "local", .submit = submit, .dispose = dispose};

/* Nobody will answer it any more. */
static void drop_op(void *item, void *arg)
{
    struct iop_op *op = RON_OBJ(item, struct iop_op, IOP_OP_MAGIC);

    (void)arg;
    op->magic = 0;
    op->rc = RON_CLOSED;
    op->why = "mailbox is closed";
    op->done(op);
}

enum ron_rc iop_box_local_new(const struct iop_box_local_opts *opts,
                              struct iop_box_local **ret_local, struct ron_err *err)
{
    struct iop_box_local *b = ron_alloc_zero(sizeof *b);
    enum ron_rc rc;

    if (b == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the mailbox");
    }
    b->magic = LOCAL_MAGIC;
    b->box.ops = &local_ops;
    b->env = opts->env;
    rc = ron_chan_new(
        &(struct ron_chan_opts){.registry = opts->registry,
                                .env = opts->env,
                                .name = "mailbox",
                                .producers = "http, workers, actions",
                                .consumers = "mailbox_writer",
                                .drop_text = "refused; the caller answers 429",
                                .capacity = opts->capacity != 0 ? opts->capacity : CAPACITY,
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_op},
        &b->chan, err);
    if (rc == RON_OK) {
        rc = iop_store_open(
            &b->store,
            &(struct iop_store_opts){
                .env = opts->env,
                .path = opts->path,
                .dsn = opts->dsn,
                .limits = opts->limits,
                .seen_max = opts->seen_max != 0 ? opts->seen_max : SEEN_MAX,
                .seen_ttl_ms = opts->seen_ttl_ms != 0 ? opts->seen_ttl_ms : SEEN_TTL_MS,
                .seen_keep_ms = opts->seen_keep_ms != 0 ? opts->seen_keep_ms : SEEN_KEEP_MS},
            err);
        b->open = rc == RON_OK;
    }
    if (rc != RON_OK) {
        iop_box_local_free(b);
        return rc;
    }
    *ret_local = b;
    return RON_OK;
}

void iop_box_local_free(struct iop_box_local *b)
{
    if (b == NULL) {
        return;
    }
    RON_CHECK_MAGIC(b, LOCAL_MAGIC);
    if (b->chan != NULL) {
        ron_chan_free(b->chan);
    }
    if (b->open) {
        iop_store_stop(&b->store);
        iop_store_close(&b->store);
    }
    b->magic = 0;
    ron_free(b);
}

/* ---- the task -------------------------------------------------------------------------------- */

/* One group, as it came out of the channel. */
static void apply(struct iop_box_local *b, size_t count)
{
    RON_ASSERT(count <= IOP_GROUP_MAX);
    for (size_t i = 0; i < count; i++) {
        RON_CHECK_MAGIC(b->batch[i], IOP_OP_MAGIC);
    }
    iop_store_apply(&b->store, b->batch, count);
}

static void drain(struct iop_box_local *b)
{
    size_t count = 0;

    (void)ron_chan_close(b->chan);
    while (ron_chan_try_recv_many(b->chan, (void **)b->batch, IOP_GROUP_MAX, &count) == RON_OK) {
        apply(b, count);
    }
    iop_store_stop(&b->store);
}

static enum ron_rc writer_run(struct ron_task *t, void *arg)
{
    struct iop_box_local *b = RON_OBJ(arg, struct iop_box_local, LOCAL_MAGIC);
    struct ron_watch *stop = ron_task_stop_watch(t);
    uint64_t seen = 0;

    while (ron_watch_get(stop, &seen) != RON_TASK_STOP) {
        uint64_t turn_ns = ron_deadline_after_ms(ron_mono_ns(), TURN_MS).at_ns;
        struct ron_deadline until = {RON_MIN(turn_ns, iop_store_next_ns(&b->store))};
        size_t count = 0;
        enum ron_rc rc = ron_chan_recv_or_changed(b->chan, stop, seen, true, (void **)b->batch,
                                                  IOP_GROUP_MAX, until, &count);

        if (rc == RON_CANCELLED) {
            break;
        }
        if (count > 0) {
            apply(b, count);
        }
        iop_store_tick(&b->store);
    }
    drain(b);
    return RON_OK;
}

enum ron_rc iop_box_local_add(struct iop_box_local *b, struct ron_sup *sup, uint32_t stage,
                              struct ron_err *err)
{
    return ron_sup_add(sup,
                       &(struct ron_task_def){.name = "mailbox_writer",
                                              .kind = "mailbox",
                                              .mode = RON_TASK_BLOCKING,
                                              .stage = stage,
                                              .restart = {.essential = true},
                                              .run = writer_run,
                                              .arg = b},
                       NULL, err);
}

struct iop_box *iop_box_local_box(struct iop_box_local *b)
{
    return &b->box;
}

struct iop_seen *iop_box_local_seen(struct iop_box_local *b)
{
    return b->store.seen;
}

const struct iop_box_counts *iop_box_local_counts(const struct iop_box_local *b)
{
    return &b->store.counts;
}
