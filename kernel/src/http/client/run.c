/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/client/run.c - the client's task: sockets and times of libcurl on the worker's
 * poller and wheel, and the way of a fetch from one try to the next. States and F1-F4 are in
 * priv.h.
 *
 * Every try has a timer of ours beside libcurl's: a transfer that waits for a free connection is
 * not timed by libcurl at all, and a deadline must hold there too. */
#include <stdio.h>
#include <string.h>

#include "http/client/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

static void begin_try(struct ron_http_fetch *f);
static void harvest(struct ron_http_client *c);

static uint64_t now_ns(const struct ron_http_client *c)
{
    return ron_env_now_ns(c->opts.env);
}

/* The first whole millisecond at which `at_ns` has passed (the wheel never fires early). */
static void arm(struct ron_http_client *c, struct ron_timer *timer, uint64_t at_ns)
{
    ron_task_timer_arm(c->task, timer, at_ns / RON_NS_PER_MS + (at_ns % RON_NS_PER_MS != 0));
}

/* ---- sockets and time ------------------------------------------------------------------------ */

struct sock {
    struct ron_io io;
    struct ron_http_client *client;
};

static void act(struct ron_http_client *c, curl_socket_t fd, int events)
{
    int running = 0;

    /* Without memory it does nothing; the timers of the tries still end them. */
    (void)curl_multi_socket_action(c->multi, fd, events, &running);
    harvest(c);
}

static void on_ready(struct ron_io *io, uint32_t events)
{
    struct sock *s = RON_CONTAINER_OF(io, struct sock, io);

    /* The record may be freed inside; HUP is what a read will find out. */
    act(s->client, io->fd,
        ((events & (RON_IO_READ | RON_IO_HUP)) != 0 ? CURL_CSELECT_IN : 0) |
            ((events & RON_IO_WRITE) != 0 ? CURL_CSELECT_OUT : 0) |
            ((events & RON_IO_ERR) != 0 ? CURL_CSELECT_ERR : 0));
}

static void sock_drop(struct sock *s)
{
    if (s != NULL) {
        ron_io_forget(&s->io);
        ron_free(s);
    }
}

/* libcurl's wish for a descriptor. When it cannot be granted, the try runs into its timer: a
 * failure told from here would end all transfers of the handle. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *sockp)
{
    struct ron_http_client *c = arg;
    struct sock *s = sockp;
    uint32_t events =
        (what == CURL_POLL_IN || what == CURL_POLL_INOUT ? (uint32_t)RON_IO_READ : 0) |
        (what == CURL_POLL_OUT || what == CURL_POLL_INOUT ? (uint32_t)RON_IO_WRITE : 0);

    (void)easy;
    if (events == 0) {
        sock_drop(s);
        (void)curl_multi_assign(c->multi, fd, NULL);
        return 0;
    }
    if (s == NULL) {
        s = ron_alloc_zero(sizeof *s);
        if (s == NULL) {
            return 0;
        }
        *s = (struct sock){.io = {.fd = fd, .ready = on_ready}, .client = c};
        (void)curl_multi_assign(c->multi, fd, s);
    }
    RON_IGNORE(ron_io_watch(c->task, &s->io, events));
    return 0;
}

static void on_curl_timer(struct ron_timer *timer)
{
    act(RON_CONTAINER_OF(timer, struct ron_http_client, timer), CURL_SOCKET_TIMEOUT, 0);
}

/* Rounded up: libcurl does not ask again for a time at which it was called too early. */
static int on_timeout(CURLM *multi, long timeout_ms, void *arg)
{
    struct ron_http_client *c = arg;

    (void)multi;
    if (timeout_ms < 0) {
        ron_task_timer_cancel(c->task, &c->timer);
    } else {
        arm(c, &c->timer, now_ns(c) + ((uint64_t)timeout_ms + (timeout_ms > 0)) * RON_NS_PER_MS);
    }
    return 0;
}

/* ---- the end of a fetch ---------------------------------------------------------------------- */

/* Takes the handle back (F2). */
static void leave_curl(struct ron_http_fetch *f)
{
    struct ron_http_client *c = f->target->client;

    ron_task_timer_cancel(c->task, &f->timer);
    if (f->easy != NULL) {
        (void)curl_multi_remove_handle(c->multi, f->easy);
        ron__http_easy_put(c, f->easy);
        f->easy = NULL;
    }
    curl_slist_free_all(f->slist);
    f->slist = NULL;
}

static void note_result(struct ron_http_fetch *f, enum ron_http_fetch_reason reason, enum ron_rc rc)
{
    struct ron_http_fetch_result *r = &f->result;

    r->reason = reason;
    r->rc = rc;
    r->took_ms = (now_ns(f->target->client) - f->started_ns) / RON_NS_PER_MS;
    r->body = (struct ron_str){(const char *)ron_buf_data(&f->body_in), ron_buf_len(&f->body_in)};
    r->message[0] = '\0';
    if (reason == RON_HTTP_FETCH_STATUS) {
        (void)snprintf(r->message, sizeof r->message, "%s: status %d", f->target->opts.name,
                       r->status);
    } else if (rc != RON_OK) {
        (void)snprintf(r->message, sizeof r->message, "%s: %s%s%.120s", f->target->opts.name,
                       ron_http_fetch_reason_label(reason), f->curl_text[0] != '\0' ? ": " : "",
                       f->curl_text);
    }
}

/* Ends it (H1). The handle has been taken back. */
static void finish(struct ron_http_fetch *f, enum ron_http_fetch_reason reason, enum ron_rc rc)
{
    struct ron_http_target *t = f->target;
    struct ron_http_client *c = t->client;

    RON_ASSERT(f->state != FETCH_ENDED);
    RON_ASSERT(f->easy == NULL);
    note_result(f, reason, rc);
    f->state = FETCH_ENDED;
    if (ron_list_linked(&f->active)) {
        ron_list_remove(&f->active);
    }
    ron_mutex_lock(&c->mu);
    f->ended = true; /* F4 */
    if (ron_list_linked(&f->inbox)) {
        ron_list_remove(&f->inbox);
    }
    ron_mutex_unlock(&c->mu);
    ron_stat_bump(&t->ops[f->opts.op].ended[reason], 1);
    ron_gate_leave(&c->gate);
    ron_gate_leave(&t->gate);
    if (f->opts.done_chan != NULL) {
        ron_chan_send_reserved(f->opts.done_chan, f);
    } else {
        f->opts.done(f, f->opts.arg);
    }
    ron__http_fetch_unref(f);
}

/* Ends it before its time. */
static void abandon(struct ron_http_fetch *f, enum ron_http_fetch_reason reason, enum ron_rc rc)
{
    bool running = f->state == FETCH_RUNNING;

    if (f->state != FETCH_NEW) {
        leave_curl(f);
    }
    if (running && f->target->has_breaker) {
        ron_breaker_report(&f->target->breaker, f->ticket, RON_CALL_VOID); /* F3 */
    }
    finish(f, reason, rc);
}

/* ---- between two tries ----------------------------------------------------------------------- */

static bool is_answer(enum ron_http_fetch_reason reason)
{
    return reason == RON_HTTP_FETCH_ANSWERED || reason == RON_HTTP_FETCH_STATUS;
}

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static bool same_origin(const struct http_url *a, const struct http_url *b)
{
    return a->https == b->https && a->addr.port == b->addr.port && a->addr.kind == b->addr.kind &&
           memcmp(a->addr.ip, b->addr.ip, sizeof a->addr.ip) == 0 &&
           strcmp(a->addr.text, b->addr.text) == 0;
}

/* Points the fetch to where the answer says. ANSWERED: go on; anything else: it ends so. */
static enum ron_http_fetch_reason redirect(struct ron_http_fetch *f, const char *location)
{
    struct http_url url;
    struct ron_err err = {0};
    size_t len = strlen(location);

    if (++f->redirects > f->target->opts.redirects_max) {
        return RON_HTTP_FETCH_REDIRECTS;
    }
    if (ron__http_url_check(f->target, (struct ron_str){location, len}, &url, &err) != RON_OK) {
        (void)snprintf(f->curl_text, sizeof f->curl_text, "redirect: %s", err.msg);
        return RON_HTTP_FETCH_DENIED_HOST;
    }
    f->foreign = f->foreign || !same_origin(&f->origin, &url);
    ron_buf_clear(&f->url);
    return ron_buf_append(&f->url, location, len) == RON_OK ? RON_HTTP_FETCH_ANSWERED
                                                            : RON_HTTP_FETCH_MEMORY;
}

static enum ron_rc rc_of(enum ron_http_fetch_reason reason, int status, CURLcode code)
{
    static const enum ron_rc codes[] = {
#define X(name, label, rc, doc) rc,
        RON_HTTP_FETCH_REASONS(X)
#undef X
    };

    if (reason == RON_HTTP_FETCH_STATUS) {
        return ron__http_rc_of_status(status);
    }
    /* A handshake that broke off says nothing about trust. */
    return code == CURLE_SSL_CONNECT_ERROR && reason == RON_HTTP_FETCH_TLS ? RON_CLOSED
                                                                           : codes[reason];
}

static void retry_or_finish(struct ron_http_fetch *f, enum ron_http_fetch_reason reason,
                            enum ron_rc rc)
{
    struct ron_http_client *c = f->target->client;
    bool answered = is_answer(reason);
    struct ron_attempt attempt = {
        .rc = answered ? RON_OK : rc,
        .status = f->result.status,
        .retry_after_ms =
            answered ? ron__http_retry_after_ms(f, ron_env_wall_ms(c->opts.env) / RON_MS_PER_S)
                     : 0};
    uint64_t wait_ns = 0;
    uint64_t now = now_ns(c);

    f->retry.idempotent = f->retry.idempotent && !f->sunk && !f->source_used;
    f->result.retry = ron_retry_next(&f->retry, &attempt, now, &wait_ns);
    if (f->result.retry != RON_VERDICT_AGAIN) {
        finish(f, reason, rc);
        return;
    }
    f->state = FETCH_WAITING;
    arm(c, &f->timer, now + wait_ns);
}

/* A try is over; `code` is libcurl's, or that of our timer. */
static void end_try(struct ron_http_fetch *f, CURLcode code)
{
    struct ron_http_target *t = f->target;
    enum ron_http_fetch_reason reason;
    enum ron_http_fetch_reason moved = RON_HTTP_FETCH_STATUS;
    char *location = NULL;
    long status = 0;
    enum ron_rc rc;

    RON_ASSERT(f->state == FETCH_RUNNING);
    (void)curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
    f->result.status = (int)status;
    reason = ron__http_reason_of(f, code);
    rc = rc_of(reason, f->result.status, code);
    ron_stat_bump(&t->ops[f->opts.op].io_timeouts, rc == RON_TIMEOUT && !is_answer(reason));
    if (t->has_breaker) {
        ron_breaker_report(&t->breaker, f->ticket,
                           ron_call_result_of(is_answer(reason) ? RON_OK : rc, f->result.status));
    }
    if (is_answer(reason) && t->opts.redirects_max > 0 && is_redirect(f->result.status) &&
        (f->opts.method == RON_HTTP_GET || f->opts.method == RON_HTTP_HEAD)) {
        (void)curl_easy_getinfo(f->easy, CURLINFO_REDIRECT_URL, &location);
        if (location != NULL) {
            moved = redirect(f, location); /* the text lives in the handle */
        }
    }
    leave_curl(f);
    f->state = FETCH_WAITING;
    if (moved == RON_HTTP_FETCH_ANSWERED) {
        begin_try(f);
    } else if (moved != RON_HTTP_FETCH_STATUS) {
        finish(f, moved, rc_of(moved, 0, CURLE_OK));
    } else {
        retry_or_finish(f, reason, rc);
    }
}

static void on_fetch_timer(struct ron_timer *timer)
{
    struct ron_http_fetch *f = RON_CONTAINER_OF(timer, struct ron_http_fetch, timer);
    struct ron_http_client *c = f->target->client;

    if (f->state == FETCH_RUNNING) {
        (void)snprintf(f->curl_text, sizeof f->curl_text, "its time is over");
        end_try(f, CURLE_OPERATION_TIMEDOUT);
    } else {
        begin_try(f);
    }
    harvest(c);
}

static void arm_try(struct ron_http_fetch *f, uint64_t now)
{
    struct ron_deadline end = ron_deadline_after_ms(now, f->target->opts.try_timeout_ms);

    arm(f->target->client, &f->timer, ron_deadline_min(f->deadline, end).at_ns);
}

void ron__http_fetch_moved(struct ron_http_fetch *f)
{
    if (f->opts.patient) {
        arm_try(f, now_ns(f->target->client));
    }
}

static void begin_try(struct ron_http_fetch *f)
{
    struct ron_http_target *t = f->target;
    struct ron_http_client *c = t->client;
    uint64_t now = now_ns(c);

    if (ron_deadline_expired(f->deadline, now)) {
        ron_stat_bump(&t->ops[f->opts.op].io_timeouts, 1);
        f->result.retry = RON_VERDICT_LATE;
        finish(f, RON_HTTP_FETCH_TIMEOUT_TOTAL, RON_TIMEOUT);
        return;
    }
    if (t->has_breaker && ron_breaker_admit(&t->breaker, &f->ticket, NULL) != RON_OK) {
        finish(f, RON_HTTP_FETCH_BREAKER_OPEN, RON_AGAIN);
        return;
    }
    f->state = FETCH_RUNNING;
    f->result.tries++;
    ron_stat_bump(&t->ops[f->opts.op].tries, 1);
    f->easy = ron__http_easy_get(c);
    if (f->easy == NULL || !ron__http_easy_prepare(f)) {
        abandon(f, RON_HTTP_FETCH_MEMORY, RON_NOMEM);
        return;
    }
    arm_try(f, now);
    if (curl_multi_add_handle(c->multi, f->easy) != CURLM_OK) {
        abandon(f, RON_HTTP_FETCH_MEMORY, RON_NOMEM);
    }
}

/* What libcurl has finished. Ending a fetch calls its owner, who may start others: they wait in the
 * inbox, so this loop ends. */
static void harvest(struct ron_http_client *c)
{
    CURLMsg *msg;
    int left = 0;

    while ((msg = curl_multi_info_read(c->multi, &left)) != NULL) {
        struct ron_http_fetch *f = NULL;
        CURLcode code = msg->data.result;

        if (msg->msg == CURLMSG_DONE &&
            curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &f) == CURLE_OK && f != NULL) {
            RON_CHECK_MAGIC(f, FETCH_MAGIC);
            end_try(f, code);
        }
    }
}

/* ---- the task -------------------------------------------------------------------------------- */

/* The next fetch of the inbox and what is asked of it; NULL when it is empty. */
static struct ron_http_fetch *take(struct ron_http_client *c, uint32_t *ret_asked)
{
    struct ron_list_node *node;
    struct ron_http_fetch *f = NULL;

    ron_mutex_lock(&c->mu);
    node = ron_list_pop_front(&c->inbox);
    if (node != NULL) {
        f = RON_LIST_ENTRY(node, struct ron_http_fetch, inbox);
        *ret_asked = f->asked;
        f->asked = 0;
    }
    ron_mutex_unlock(&c->mu);
    return f;
}

enum ron_rc ron__http_client_handle(struct ron_task *task, void *arg, void **items, size_t count)
{
    struct ron_http_client *c = arg;
    struct ron_http_fetch *f;
    uint32_t asked = 0;

    (void)task;
    (void)items;
    (void)count;
    RON_CHECK_MAGIC(c, CLIENT_MAGIC);
    ron_single_writer_check(&c->owner, "http_client");
    while ((f = take(c, &asked)) != NULL) {
        if ((asked & ASK_CANCEL) != 0) {
            abandon(f, RON_HTTP_FETCH_CANCELLED, RON_CANCELLED);
        } else if ((asked & ASK_START) != 0) {
            ron_timer_init(&f->timer, on_fetch_timer);
            ron_list_push_back(&c->active, &f->active);
            begin_try(f);
        } else if (f->state == FETCH_RUNNING) {
            (void)curl_easy_pause(f->easy, CURLPAUSE_CONT);
        }
    }
    harvest(c);
    return RON_OK;
}

enum ron_rc ron__http_client_start(struct ron_task *task, void *arg)
{
    struct ron_http_client *c = arg;
    CURLMcode code = CURLM_OK;

    RON_CHECK_MAGIC(c, CLIENT_MAGIC);
    ron_single_writer_release(&c->owner); /* a restart may come with another task */
    ron_rand_seed(&c->rand, c->opts.env->rand_u64(c->opts.env));
    ron_timer_init(&c->timer, on_curl_timer);
    c->multi = curl_multi_init();
    if (c->multi == NULL) {
        return RON_NOMEM;
    }
    ron_mutex_lock(&c->mu);
    c->task = task;
    c->closed = false;
    ron_mutex_unlock(&c->mu);
#define SET(option, value)                                                                         \
    (code = code != CURLM_OK ? code : curl_multi_setopt(c->multi, (option), (value)))
    SET(CURLMOPT_SOCKETFUNCTION, on_socket);
    SET(CURLMOPT_SOCKETDATA, c);
    SET(CURLMOPT_TIMERFUNCTION, on_timeout);
    SET(CURLMOPT_TIMERDATA, c);
    SET(CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    SET(CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)c->opts.connections_max);
    SET(CURLMOPT_MAXCONNECTS, (long)c->opts.connections_max);
    SET(CURLMOPT_MAX_HOST_CONNECTIONS, (long)c->opts.host_connections_max);
#undef SET
    return code == CURLM_OK ? RON_OK : RON_NOMEM;
}

void ron__http_client_drop_all(struct ron_http_client *c)
{
    struct ron_list_node *node;
    struct ron_http_fetch *f;
    uint32_t asked = 0;

    while ((node = ron_list_front(&c->active)) != NULL) {
        abandon(RON_LIST_ENTRY(node, struct ron_http_fetch, active), RON_HTTP_FETCH_CANCELLED,
                RON_CANCELLED);
    }
    while ((f = take(c, &asked)) != NULL) {
        abandon(f, RON_HTTP_FETCH_CANCELLED, RON_CANCELLED);
    }
}

void ron__http_client_stop(struct ron_task *task, void *arg)
{
    struct ron_http_client *c = arg;

    (void)task;
    ron_mutex_lock(&c->mu);
    c->closed = true;
    ron_mutex_unlock(&c->mu);
    ron__http_client_drop_all(c);
    if (c->multi == NULL) {
        return;
    }
    while (c->idle_count > 0) {
        curl_easy_cleanup(c->idle[--c->idle_count]);
    }
    (void)curl_multi_cleanup(
        c->multi); /* closes what is idle; asks for its sockets to be dropped */
    c->multi = NULL;
    if (ron_timer_armed(&c->timer)) {
        ron_task_timer_cancel(c->task, &c->timer);
    }
    ron_mutex_lock(&c->mu);
    c->task = NULL;
    ron_mutex_unlock(&c->mu);
}
