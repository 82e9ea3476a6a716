/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/roots_http.c - GET /roots and GET /roots/stream; forms in
 * docs/formats/ledger-roots.md.
 *
 * A page is answered at once, on the worker, from the ring. Who has to wait is handed to the task
 * with its reply; there are at most subs_max of them, and no reply is taken for one more. */
#include "ledger/publish/roots_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/conf/value.h"

enum {
    PAGE_DEFAULT = 100,
    /* 1000 roots of at most 140 bytes, and what is around them. */
    PAGE_BYTES_MAX = 160 * 1024,
    TAKE = 64, /* events of one turn at the ring: 3 KiB of stack */
};

struct ask {
    uint64_t since;
    bool has_since;
    uint32_t limit;
    uint32_t wait_ms;
};

/* ---- reading the request --------------------------------------------------------------------- */

static void fail_param(struct ron_http_call *call, const char *message)
{
    ron_http_fail_with(
        call, &(struct ron_http_error){
                  .status = 400, .code = "MALFORMED", .message = message, .reason = "invalid"});
}

/* RON_OK also without the parameter: *ret_value is as it was. */
static enum ron_rc number_of(struct ron_str query, const char *name, uint64_t *ret_value,
                             bool *ret_there)
{
    char room[24];
    struct ron_str text;
    enum ron_rc rc = ron_http_query_get(query, name, room, sizeof room, &text);

    *ret_there = rc == RON_OK;
    if (rc == RON_NOTFOUND) {
        return RON_OK;
    }
    return rc == RON_OK ? ron_http_parse_u64(text, ret_value) : rc;
}

/* What the client itself waits for at most. */
static uint64_t patience_ms(const struct led_roots *r, const struct ron_http_head *head)
{
    uint64_t left_ms = head->timeout_ms;

    if (head->deadline_unix_ms != UINT64_MAX) {
        uint64_t now_ms = ron_env_wall_ms(r->opts.env);

        left_ms = RON_MIN(left_ms, head->deadline_unix_ms > now_ms ? head->deadline_unix_ms - now_ms
                                                                   : UINT64_C(0));
    }
    return left_ms;
}

/* NULL, or what is wrong. */
static const char *read_ask(const struct led_roots *r, const struct ron_http_head *head,
                            struct ask *ret)
{
    char room[32];
    struct ron_str text;
    uint64_t limit = PAGE_DEFAULT;
    int64_t wait_ms = 0;
    bool there;
    enum ron_rc rc;

    if (number_of(head->query, "since", &ret->since, &ret->has_since) != RON_OK) {
        return "since is one number";
    }
    if (number_of(head->query, "limit", &limit, &there) != RON_OK || limit == 0 ||
        limit > LED_ROOTS_PAGE_MAX) {
        return "limit is a number from 1 to 1000";
    }
    rc = ron_http_query_get(head->query, "wait", room, sizeof room, &text);
    if (rc == RON_OK) {
        rc = ron_conf_parse_duration(text.ptr, text.len, &wait_ms, NULL);
    }
    if ((rc != RON_OK && rc != RON_NOTFOUND) || wait_ms < 0 || wait_ms > LED_ROOTS_WAIT_MAX_MS) {
        return "wait is a duration of at most 60s";
    }
    ret->limit = (uint32_t)limit;
    ret->wait_ms = (uint32_t)RON_MIN((uint64_t)wait_ms, patience_ms(r, head));
    return NULL;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void page_open(struct ron_buf *out)
{
    RON_IGNORE(ron_buf_append_text(out, "{\"roots\":["));
}

static void page_add(struct ron_buf *out, const struct led_root_event *events, size_t count,
                     bool first)
{
    for (size_t i = 0; i < count; i++) {
        if (!first || i > 0) {
            RON_IGNORE(ron_buf_append_byte(out, ','));
        }
        led_root_event_to_json(out, &events[i]);
    }
}

static void page_close(struct ron_buf *out, uint64_t next)
{
    RON_IGNORE(ron_buf_append_fmt(out, "],\"next\":%llu}", (unsigned long long)next));
}

void led_roots_page_write(struct ron_buf *out, const struct led_root_event *events, size_t count,
                          uint64_t next)
{
    page_open(out);
    page_add(out, events, count, true);
    page_close(out, next);
}

/* The page from `number` on; what is overtaken meanwhile is left for the next one. */
static void answer_page(struct led_roots *r, struct ron_http_call *call, const struct ask *ask,
                        uint64_t number)
{
    struct led_root_event events[TAKE];
    struct ron_buf page;
    uint64_t next = ask->since;
    uint32_t left = ask->limit;
    size_t count;

    ron_buf_init(&page, PAGE_BYTES_MAX);
    page_open(&page);
    while (left > 0 && (count = led__roots_ring_copy(&r->ring, number, events,
                                                     RON_MIN((size_t)left, (size_t)TAKE))) > 0) {
        page_add(&page, events, count, left == ask->limit);
        next = events[count - 1].seq;
        number += count;
        left -= (uint32_t)count;
    }
    page_close(&page, next);
    if (ron_buf_error(&page) != RON_OK) {
        ron_http_fail(call, RON_HTTP_MEMORY);
    } else {
        ron_http_add_header(call, "Cache-Control", RON_STR_LIT("no-cache"));
        ron_http_answer(call, 200, "application/json", ron_buf_data(&page), ron_buf_len(&page));
    }
    ron_buf_done(&page);
}

/* ---- handing over ---------------------------------------------------------------------------- */

/* RON_FULL, RON_CLOSED, RON_NOMEM: nothing was taken, the caller answers. */
static enum ron_rc hand_over(struct led_roots *r, struct ron_http_call *call,
                             const struct led_root_sub *with)
{
    struct led_root_sub *sub;
    enum ron_rc rc;

    if (ron_au32_add(&r->sub_count, 1) >= r->opts.subs_max) {
        (void)ron_au32_add(&r->sub_count, UINT32_MAX); /* minus one */
        return RON_FULL;
    }
    sub = ron_alloc(sizeof *sub);
    if (sub == NULL) {
        (void)ron_au32_add(&r->sub_count, UINT32_MAX); /* minus one */
        return RON_NOMEM;
    }
    *sub = *with;
    rc = ron_http_defer(call, &sub->reply);
    if (rc == RON_OK) {
        rc = ron_chan_try_send(r->subs_in, sub, NULL);
        if (rc != RON_OK) {
            ron_http_undefer(call, sub->reply);
        }
    }
    if (rc != RON_OK) {
        led__roots_sub_free(r, sub);
    }
    return rc;
}

static void subscribe(struct led_roots *r, struct ron_http_call *call,
                      const struct led_root_sub *with)
{
    enum ron_rc rc = hand_over(r, call, with);

    if (rc != RON_OK) {
        ron_stat_add(&r->refused, 1);
        ron_http_fail(call, rc == RON_CLOSED  ? RON_HTTP_DRAINING
                            : rc == RON_NOMEM ? RON_HTTP_MEMORY
                                              : RON_HTTP_BUSY);
    }
}

void led_roots_http_get(struct ron_http_call *call, void *arg)
{
    struct led_roots *r = arg;
    struct ask ask = {0};
    uint64_t number = 0;
    const char *wrong = read_ask(r, ron_http_head(call), &ask);

    RON_CHECK_MAGIC(r, LED_ROOTS_MAGIC);
    if (wrong != NULL) {
        fail_param(call, wrong);
        return;
    }
    (void)led__roots_ring_catch_up(&r->ring); /* O1 */
    if (led__roots_ring_find(&r->ring, ask.since, &number) != RON_OK) {
        r->opts.older(r->opts.arg, call, ask.since, ask.limit);
    } else if (number < led__roots_ring_view(&r->ring).next || ask.wait_ms == 0) {
        answer_page(r, call, &ask, number);
    } else {
        subscribe(
            r, call,
            &(struct led_root_sub){.since = ask.since, .limit = ask.limit, .wait_ms = ask.wait_ms});
    }
}

void led_roots_http_stream(struct ron_http_call *call, void *arg)
{
    struct led_roots *r = arg;
    const struct ron_http_head *head = ron_http_head(call);
    struct led_root_sub sub = {.stream = true, .wait_ms = LED_ROOTS_BEAT_MS};
    struct ron_str last_id;
    enum ron_rc rc;

    RON_CHECK_MAGIC(r, LED_ROOTS_MAGIC);
    if (number_of(head->query, "since", &sub.since, &sub.from_start) != RON_OK) {
        fail_param(call, "since is one number");
        return;
    }
    /* A browser comes back to the same address with the id of the last event that it got. */
    rc = ron_http_field_get(head, "Last-Event-ID", &last_id);
    if (rc == RON_OK) {
        rc = ron_http_parse_u64(last_id, &sub.since);
        sub.from_start = true;
    }
    if (rc != RON_OK && rc != RON_NOTFOUND) {
        fail_param(call, "Last-Event-ID is one number");
        return;
    }
    if (!sub.from_start) { /* from now on: what was published before is no news (O1) */
        struct led_root_view view;

        (void)led__roots_ring_catch_up(&r->ring);
        view = led__roots_ring_view(&r->ring);
        sub.cursor = view.next;
        sub.since = view.head_seq;
    }
    subscribe(r, call, &sub);
}
