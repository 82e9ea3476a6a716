/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/roots.c - the roots publisher: its life, its task, and what a round does for each
 * subscriber.
 *
 * A round: take what is on the bus, tell on_root and the signer, then go through all subscribers.
 * Server-sent events are formatted once for all streams that stand at the same place, which is all
 * of them but the slow ones. */
#include "ledger/publish/roots.h"

#include "ledger/publish/roots_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/stream.h"

enum {
    /* O4: a round for few subscribers at most each 5 ms, which is far below the second after which
     * a root must be visible; beyond that 64 subscribers a millisecond, which is some percent of a
     * processor. */
    REST_MS = 5,
    SUBS_PER_MS = 64,
    SUB_BATCH = 64,
    EVENT_BYTES_MAX = 200,
};

_Static_assert(LED_ROOTS_BLOCK *EVENT_BYTES_MAX <= RON_HTTP_PIECE_BYTES, "a block is one write");

/* ---- life ------------------------------------------------------------------------------------ */

static void drop_sub(void *item, void *arg)
{
    struct led_root_sub *sub = item;

    ron_http_reply_fail(sub->reply, RON_HTTP_DRAINING);
    led__roots_sub_free(arg, sub);
}

void led__roots_sub_free(struct led_roots *r, struct led_root_sub *sub)
{
    ron_free(sub);
    (void)ron_au32_add(&r->sub_count, UINT32_MAX); /* minus one */
}

static enum ron_rc make_parts(struct led_roots *r, struct ron_err *err)
{
    r->subs = ron_alloc_array(r->opts.subs_max, sizeof(struct led_root_sub *));
    if (r->subs == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the roots publisher");
    }
    RON_TRY(ron_bus_new(&(struct ron_bus_opts){.registry = r->opts.registry,
                                               .name = "root_pub",
                                               .producers = "committer",
                                               .consumers = "roots",
                                               .capacity = LED_ROOTS_RING,
                                               .message_bytes = sizeof(struct led_root_event),
                                               .readers_max = 8}, /* us, and a few observers */
                        &r->bus, err));
    return ron_chan_new(
        &(struct ron_chan_opts){.registry = r->opts.registry,
                                .name = "subs",
                                .producers = "http",
                                .consumers = "roots",
                                .drop_text = "a subscriber without a place is answered 429",
                                .capacity = LED_ROOTS_SUBS_MAX,
                                .policy = RON_CHAN_REJECT,
                                .wake_batch = 1,
                                .drop = drop_sub,
                                .drop_arg = r},
        &r->subs_in, err);
}

enum ron_rc led_roots_new(const struct led_roots_opts *opts, struct led_roots **ret_roots,
                          struct ron_err *err)
{
    struct led_roots *r;
    enum ron_rc rc;

    if (opts->subs_max > LED_ROOTS_SUBS_MAX) {
        return ron_err_set(err, RON_LIMIT, "there are at most %d subscribers", LED_ROOTS_SUBS_MAX);
    }
    r = ron_alloc_zero(sizeof *r);
    if (r == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the roots publisher");
    }
    r->magic = LED_ROOTS_MAGIC;
    r->opts = *opts;
    r->opts.subs_max = opts->subs_max == 0 ? LED_ROOTS_SUBS_MAX : opts->subs_max;
    led__roots_ring_init(&r->ring, opts->head_seq);
    ron_buf_init(&r->block, RON_HTTP_PIECE_BYTES);
    rc = make_parts(r, err);
    if (rc != RON_OK) {
        led_roots_free(r);
        return rc;
    }
    *ret_roots = r;
    return RON_OK;
}

void led_roots_free(struct led_roots *r)
{
    if (r == NULL) {
        return;
    }
    RON_CHECK_MAGIC(r, LED_ROOTS_MAGIC);
    RON_ASSERT(r->subs_len == 0); /* the task's stop ends them */
    ron_chan_free(r->subs_in);
    led__roots_ring_done(&r->ring);
    ron_bus_free(r->bus);
    ron_buf_done(&r->block);
    ron_free(r->subs);
    r->magic = 0;
    ron_free(r);
}

struct ron_bus *led_roots_bus(struct led_roots *r)
{
    return r->bus;
}

void led_roots_publish(struct led_roots *r, const struct led_root_event *event)
{
    ron_stat_add(&r->published, 1);
    RON_IGNORE(ron_bus_publish(r->bus, event)); /* closed by nobody */
}

void led_roots_get_stats(const struct led_roots *r, struct led_roots_stats *ret_stats)
{
    *ret_stats = (struct led_roots_stats){.published = ron_stat_get(&r->published),
                                          .lagged = ron_stat_get(&r->lagged),
                                          .polls = ron_stat_get(&r->polls),
                                          .streams = ron_stat_get(&r->streams),
                                          .subs = ron_au32_load(&r->sub_count),
                                          .refused = ron_stat_get(&r->refused)};
}

static void collect(struct ron_scrape *scrape, void *arg)
{
    const struct led_roots *r = arg;

    ron_scrape_sample(scrape, ron_metrics_find(ron_scrape_metrics(scrape), "roots_published_total"),
                      ron_stat_get(&r->published), NULL, 0);
}

enum ron_rc led_roots_metrics(struct led_roots *r, struct ron_metrics *m, struct ron_err *err)
{
    struct ron_metric *family = NULL;

    RON_TRY(ron_metrics_declare(
        m,
        &(struct ron_metric_def){.name = "roots_published_total",
                                 .help = "Roots that the committer handed to the publisher",
                                 .type = RON_METRIC_COUNTER},
        &family, err));
    return ron_metrics_collector(m, collect, r, err);
}

void led_root_event_to_json(struct ron_buf *out, const struct led_root_event *event)
{
    static const char digits[] = "0123456789abcdef";
    char hex[2 * RON_TREE_HASH_BYTES];
    struct ron_json_writer json;

    for (size_t i = 0; i < RON_TREE_HASH_BYTES; i++) {
        hex[2 * i] = digits[event->root.bytes[i] >> 4];
        hex[2 * i + 1] = digits[event->root.bytes[i] & 15];
    }
    ron_json_begin(&json, out);
    ron_json_open(&json, NULL, '{');
    ron_json_u64(&json, "seq", event->seq);
    ron_json_str(&json, "root", (struct ron_str){.ptr = hex, .len = sizeof hex});
    ron_json_u64(&json, "ts", event->ts_ms);
    ron_json_close(&json, '}');
}

/* ---- what every root goes to ----------------------------------------------------------------- */

static void tell_all(struct led_roots *r, const struct led_root_view *view)
{
    struct led_root_event events[SUB_BATCH];
    size_t count;

    r->told = RON_MAX(r->told, view->first); /* what the bus has dropped is gone for all */
    while ((count = led__roots_ring_copy(&r->ring, r->told, events, SUB_BATCH)) > 0) {
        for (size_t i = 0; i < count && r->opts.on_root != NULL; i++) {
            r->opts.on_root(r->opts.arg, &events[i]);
        }
        r->told += count;
        if (r->opts.signer != NULL) {
            led_signer_set_head(r->opts.signer, events[count - 1].seq, &events[count - 1].root);
        }
    }
}

/* ---- one subscriber -------------------------------------------------------------------------- */

/* Whether it is over for the client: it left, or has everything with the head. A drain alone does
 * not end it (O5). */
static bool gone(struct led_root_sub *sub)
{
    return ron_http_reply_write(sub->reply, "", 0) == RON_CANCELLED;
}

static enum ron_rc begin_stream(struct led_roots *r, struct led_root_sub *sub)
{
    static const char hello[] = ": roots\nretry: 1000\n\n";

    ron_stat_bump(&r->streams, 1);
    if (sub->from_start) {
        sub->behind = led__roots_ring_find(&r->ring, sub->since, &sub->cursor) != RON_OK;
    }
    return ron_http_reply_write(sub->reply, hello, sizeof hello - 1);
}

/* False: it could not begin and is over. */
static bool begin(struct led_roots *r, struct led_root_sub *sub, uint64_t now_ms)
{
    struct ron_http_stream_opts o = {.status = 200,
                                     .content_type =
                                         sub->stream ? "text/event-stream" : "application/json",
                                     .length = RON_HTTP_UNKNOWN,
                                     .quiet = true,
                                     .waker = ron_task_waker(r->task)};

    sub->due_ms = now_ms + sub->wait_ms + 1; /* now was rounded down */
    ron_http_reply_add_header(sub->reply, "Cache-Control", RON_STR_LIT("no-cache"));
    if (sub->stream) { /* nginx would gather events otherwise */
        ron_http_reply_add_header(sub->reply, "X-Accel-Buffering", RON_STR_LIT("no"));
    }
    if (ron_http_reply_begin(sub->reply, &o) != RON_OK) {
        ron_stat_add(&r->refused, 1);
        ron_http_reply_fail(sub->reply, RON_HTTP_BUSY);
        return false;
    }
    if (sub->stream && begin_stream(r, sub) != RON_OK) {
        ron_http_reply_abort(sub->reply);
        return false;
    }
    ron_stat_bump(&r->polls, !sub->stream);
    return true;
}

/* The page of a poll: what there is, which may be nothing. Ends it. */
static void answer_poll(struct led_roots *r, struct led_root_sub *sub, uint64_t number, bool found)
{
    struct led_root_event events[LED_ROOTS_BLOCK];
    struct ron_buf page;
    size_t count = 0;
    enum ron_rc rc;

    if (found) {
        count = led__roots_ring_copy(&r->ring, number, events,
                                     RON_MIN((size_t)sub->limit, RON_ARRAY_LEN(events)));
    }
    ron_buf_init(&page, RON_HTTP_PIECE_BYTES);
    led_roots_page_write(&page, events, count, count > 0 ? events[count - 1].seq : sub->since);
    rc = ron_buf_error(&page);
    if (rc == RON_OK) {
        rc = ron_http_reply_write(sub->reply, ron_buf_data(&page), ron_buf_len(&page));
    }
    ron_buf_done(&page);
    if (rc == RON_OK || rc == RON_CANCELLED) {
        ron_http_reply_end(sub->reply);
    } else {
        ron_http_reply_abort(sub->reply);
    }
}

/* False: it is answered. */
static bool serve_poll(struct led_roots *r, struct led_root_sub *sub,
                       const struct led_root_view *view, uint64_t now_ms, bool last)
{
    uint64_t number = 0;
    bool found = led__roots_ring_find(&r->ring, sub->since, &number) == RON_OK;

    /* Overtaken (O2): an empty page; the next poll is served by the journal. */
    if (gone(sub) || !found || number < view->next || now_ms >= sub->due_ms || last) {
        answer_poll(r, sub, number, found);
        return false;
    }
    return true;
}

/* The events from `from` on as text in r->block; false when there is no memory or no event. */
static bool format_block(struct led_roots *r, uint64_t from)
{
    struct led_root_event events[LED_ROOTS_BLOCK];

    if (r->block_count > 0 && r->block_from == from) {
        return true;
    }
    r->block_from = from;
    r->block_count = led__roots_ring_copy(&r->ring, from, events, RON_ARRAY_LEN(events));
    ron_buf_clear(&r->block);
    for (size_t i = 0; i < r->block_count; i++) {
        RON_IGNORE(ron_buf_append_fmt(
            &r->block, "id: %llu\nevent: root\ndata: ", (unsigned long long)events[i].seq));
        led_root_event_to_json(&r->block, &events[i]);
        RON_IGNORE(ron_buf_append_text(&r->block, "\n\n"));
        r->block_last_seq = events[i].seq;
    }
    if (ron_buf_error(&r->block) != RON_OK) {
        r->block_count = 0;
    }
    return r->block_count > 0;
}

/* O3: the place of the stream is gone. */
static enum ron_rc tell_lagged(struct led_roots *r, struct led_root_sub *sub,
                               const struct led_root_view *view)
{
    char text[128];
    struct ron_buf out;

    ron_buf_init_over(&out, text, sizeof text);
    RON_IGNORE(ron_buf_append_fmt(&out, "event: lagged\ndata: {\"since\":%llu,\"until\":%llu}\n\n",
                                  (unsigned long long)sub->since,
                                  (unsigned long long)view->floor_seq));
    RON_TRY(ron_http_reply_write(sub->reply, ron_buf_data(&out), ron_buf_len(&out)));
    ron_stat_bump(&r->lagged, 1);
    sub->behind = false;
    sub->cursor = view->first;
    sub->since = view->floor_seq;
    return RON_OK;
}

/* Everything up to view->next, or until it has no room. */
static enum ron_rc send_events(struct led_roots *r, struct led_root_sub *sub,
                               const struct led_root_view *view, uint64_t now_ms)
{
    if (sub->behind || sub->cursor < view->first) {
        RON_TRY(tell_lagged(r, sub, view));
        sub->due_ms = now_ms + LED_ROOTS_BEAT_MS;
    }
    while (sub->cursor < view->next) {
        if (!format_block(r, sub->cursor)) {
            return RON_AGAIN; /* Overtaken in this moment, or no memory: the next round. */
        }
        RON_TRY(ron_http_reply_write(sub->reply, ron_buf_data(&r->block), ron_buf_len(&r->block)));
        sub->cursor += r->block_count;
        sub->since = r->block_last_seq;
        sub->due_ms = now_ms + LED_ROOTS_BEAT_MS;
    }
    return RON_OK;
}

/* False: it is over. */
static bool serve_stream(struct led_roots *r, struct led_root_sub *sub,
                         const struct led_root_view *view, uint64_t now_ms, bool last)
{
    static const char beat[] = ": beat\n\n";
    enum ron_rc rc = gone(sub) ? RON_CANCELLED : send_events(r, sub, view, now_ms);

    if (rc == RON_OK && now_ms >= sub->due_ms) {
        rc = ron_http_reply_write(sub->reply, beat, sizeof beat - 1);
        sub->due_ms = now_ms + LED_ROOTS_BEAT_MS;
    }
    if (rc == RON_OK && !last) {
        return true;
    }
    if (rc == RON_AGAIN && !last) {
        /* Its waker says when there is room; what cannot wait for that is tried again soon. */
        sub->due_ms = RON_MAX(sub->due_ms, now_ms + RON_MS_PER_S);
        return true;
    }
    if (rc == RON_OK || rc == RON_AGAIN || rc == RON_CANCELLED) {
        ron_http_reply_end(sub->reply); /* Who missed something comes back with Last-Event-ID. */
    } else {
        ron_http_reply_abort(sub->reply);
    }
    return false;
}

/* ---- the task -------------------------------------------------------------------------------- */

/* One round over all subscribers; with `last` they end. Returns when something is due. */
static uint64_t serve_all(struct led_roots *r, const struct led_root_view *view, uint64_t now_ms,
                          bool last)
{
    uint64_t due_ms = UINT64_MAX;
    uint32_t kept = 0;

    r->block_count = 0;
    for (uint32_t i = 0; i < r->subs_len; i++) {
        struct led_root_sub *sub = r->subs[i];
        bool stays = sub->stream ? serve_stream(r, sub, view, now_ms, last)
                                 : serve_poll(r, sub, view, now_ms, last);

        if (stays) {
            due_ms = RON_MIN(due_ms, sub->due_ms);
            r->subs[kept++] = sub;
        } else {
            led__roots_sub_free(r, sub);
        }
    }
    r->subs_len = kept;
    return due_ms;
}

static void round_of(struct led_roots *r, uint64_t now_ms, bool last)
{
    struct led_root_view view;
    uint64_t due_ms;

    if (last || now_ms >= r->rest_until) {
        bool found = led__roots_ring_catch_up(&r->ring) > 0;

        r->rest_until =
            found ? now_ms + RON_MAX((uint64_t)REST_MS, (uint64_t)r->subs_len / SUBS_PER_MS) : 0;
    }
    view = led__roots_ring_view(&r->ring);
    tell_all(r, &view);
    due_ms = serve_all(r, &view, now_ms, last);
    if (!last) {
        ron_task_wake_at(r->task, r->rest_until == 0 ? due_ms : RON_MIN(due_ms, r->rest_until));
    }
}

static enum ron_rc on_start(struct ron_task *t, void *arg)
{
    struct led_roots *r = arg;

    r->task = t;
    round_of(r, ron_task_now_ms(t), false); /* from here on the bus wakes us */
    return RON_OK;
}

static enum ron_rc on_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct led_roots *r = arg;
    uint64_t now_ms = ron_task_now_ms(t);

    for (size_t i = 0; i < count; i++) {
        struct led_root_sub *sub = items[i];

        RON_ASSERT(r->subs_len < r->opts.subs_max); /* sub_count */
        if (begin(r, sub, now_ms)) {
            r->subs[r->subs_len++] = sub;
        } else {
            led__roots_sub_free(r, sub);
        }
    }
    round_of(r, now_ms, false);
    return RON_OK;
}

static void on_stop(struct ron_task *t, void *arg)
{
    struct led_roots *r = arg;

    round_of(r, ron_task_now_ms(t), true); /* O5 */
}

enum ron_rc led_roots_attach(struct led_roots *r, struct ron_sup *sup, struct ron_err *err)
{
    RON_TRY(ron_sup_add(sup,
                        &(struct ron_task_def){.name = "roots",
                                               .kind = "publisher",
                                               .mode = RON_TASK_LOOP,
                                               .role = RON_ROLE_STAGE,
                                               .stage = LED_ROOTS_STAGE,
                                               .worker = RON_WORKER_ANY,
                                               .input = r->subs_in,
                                               .batch_max = SUB_BATCH,
                                               .start = on_start,
                                               .handle = on_handle,
                                               .stop = on_stop,
                                               .arg = r},
                        &r->task, err));
    return ron_bus_subscribe(r->bus, &r->ring.reader, ron_task_waker(r->task), err);
}
