/* SPDX-License-Identifier: Apache-2.0 */
/* event.c - events to subscribers: one bus for the server, one reader per worker.
 *
 * Bounds: the bus keeps event_ring events; a worker that falls further behind loses some for all
 * its subscribers. A connection that does not read keeps at most subscriber_bytes; beyond that it
 * loses events alone. Both are told as LAGGED with the number missed, before the next event, or end
 * the connection, as lag_policy says; both are counted. Truth must therefore live elsewhere: a
 * laggard asks the app for the state again. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wire_priv.h"

enum ron_rc ron_oap_publish(struct ron_oap_server *s, uint16_t app, uint16_t code,
                            const void *payload, size_t len)
{
    union {
        struct oap_event e;
        uint8_t bytes[RON_BUS_MESSAGE_MAX];
    } room;

    RON_CHECK_MAGIC(s, OAP_SERVER_MAGIC);
    if (len > s->opts.event_bytes) {
        return RON_LIMIT;
    }
    memset(&room, 0, s->event_stride); /* The bus copies whole messages. */
    room.e.app = app;
    room.e.code = code;
    room.e.len = (uint32_t)len;
    if (len > 0) {
        memcpy(room.e.payload, payload, len);
    }
    return ron_bus_publish(s->bus, &room);
}

/* ---- who gets what --------------------------------------------------------------------------- */

/* Its place in opts.apps; app_count for none. */
static size_t app_place(const struct ron_oap_server *s, uint64_t app)
{
    size_t i = 0;

    while (i < s->opts.app_count && s->opts.apps[i].app != app) {
        i++;
    }
    return i;
}

bool ron_oap_has_subscribers(const struct ron_oap_server *s, uint16_t app)
{
    size_t i = app_place(s, app);

    return i < s->opts.app_count && ron_au32_load(&s->app_subscribers[i]) > 0;
}

static void count_subscriber(struct oap_conn *c, uint16_t app, bool on)
{
    struct ron_oap_server *s = c->w->server;

    (void)ron_au32_add(&s->app_subscribers[app_place(s, app)], on ? 1 : UINT32_MAX);
}

/* Its place in c->subs, or -1. */
static int place_of(const struct oap_conn *c, uint16_t app)
{
    for (uint32_t i = 0; i < c->sub_count; i++) {
        if (c->subs[i] == app) {
            return (int)i;
        }
    }
    return -1;
}

void ron__oap_unsubscribe_all(struct oap_conn *c)
{
    if (c->sub_count > 0) {
        ron_list_remove(&c->sub_link);
        ron_stat_set(&c->w->subscriber_count, ron_stat_get(&c->w->subscriber_count) - 1);
        for (uint32_t i = 0; i < c->sub_count; i++) {
            count_subscriber(c, c->subs[i], false);
        }
        c->sub_count = 0;
        c->missed = 0;
    }
}

static enum ron_oap_reason unsubscribe(struct oap_conn *c, uint16_t app)
{
    int i = place_of(c, app);

    if (i < 0) {
        return RON_OAP_NOT_FOUND;
    }
    if (c->sub_count == 1) {
        ron__oap_unsubscribe_all(c);
        return RON_OAP_NONE;
    }
    count_subscriber(c, app, false);
    c->missed -= c->missed_of[i];
    c->sub_count--;
    c->subs[i] = c->subs[c->sub_count];
    c->missed_of[i] = c->missed_of[c->sub_count];
    return RON_OAP_NONE;
}

enum ron_oap_reason ron__oap_subscribe(struct oap_conn *c, uint64_t app, bool on)
{
    if (app_place(c->w->server, app) == c->w->server->opts.app_count) {
        return RON_OAP_NOT_FOUND;
    }
    if (!on) {
        return unsubscribe(c, (uint16_t)app);
    }
    if (place_of(c, (uint16_t)app) >= 0) {
        return RON_OAP_NONE;
    }
    if (c->sub_count == OAP_SUBS_MAX) {
        return RON_OAP_BUSY;
    }
    if (c->sub_count == 0) {
        ron_list_push_back(&c->w->subscribers, &c->sub_link);
        ron_stat_bump(&c->w->subscriber_count, 1);
    }
    c->missed_of[c->sub_count] = 0;
    c->subs[c->sub_count++] = (uint16_t)app;
    count_subscriber(c, (uint16_t)app, true);
    return RON_OAP_NONE;
}

/* ---- delivery -------------------------------------------------------------------------------- */

static void lose(struct oap_conn *c, uint32_t place, uint64_t count)
{
    c->missed += count;
    c->missed_of[place] += count;
    if (c->w->server->opts.lag_policy == RON_OAP_LAG_DISCONNECT) {
        c->dead = true;
    }
}

void ron__oap_event_lag(struct oap_conn *c)
{
    if (c->missed == 0 || c->dead || c->state != OAP_OPEN) {
        return;
    }
    for (uint32_t i = 0; i < c->sub_count; i++) {
        char text[64];
        int len;

        if (c->missed_of[i] == 0) {
            continue;
        }
        len = snprintf(text, sizeof text, "{\"app\":%u,\"missed\":%" PRIu64 "}", c->subs[i],
                       c->missed_of[i]);
        c->missed_of[i] = 0;
        ron__oap_write(c,
                       &(struct ron_oap_head){.flags = RON_OAP_EVENT, .code = RON_OAP_CTL_LAGGED},
                       text, (size_t)len);
    }
    c->missed = 0;
}

static void deliver(struct oap_conn *c, const struct oap_event *e)
{
    int place = place_of(c, e->app);

    if (c->dead || c->closing || c->state != OAP_OPEN || place < 0) {
        return;
    }
    if (ron_out_len(&c->out) + ron_buf_len(&c->w->out) + e->len + RON_OAP_HEADER_BYTES >
            c->w->server->opts.subscriber_bytes ||
        (c->missed > 0 && ron_out_len(&c->out) > 0)) {
        lose(c, (uint32_t)place, 1);
        ron_stat_bump(&c->w->lagged, 1);
        return;
    }
    ron__oap_event_lag(c);
    ron_stat_bump(&c->w->events, 1);
    ron__oap_write(c,
                   &(struct ron_oap_head){.flags = RON_OAP_EVENT, .code = e->code, .app = e->app},
                   e->payload, e->len);
}

/* Each connection gets the whole batch with one system call. */
static void deliver_all(struct oap_worker *w, size_t count, uint64_t missed)
{
    RON_LIST_FOREACH_SAFE(node, &w->subscribers)
    {
        struct oap_conn *c = RON_LIST_ENTRY(node, struct oap_conn, sub_link);

        if (missed > 0) {
            /* Nobody knows of which app they were: each is told that it may have been its own. */
            for (uint32_t i = 0; i < c->sub_count; i++) {
                lose(c, i, missed);
            }
            ron_stat_bump(&w->lagged, missed);
        }
        for (size_t i = 0; i < count; i++) {
            deliver(c, (const struct oap_event *)(const void *)(w->event_room +
                                                                i * w->server->event_stride));
        }
        ron__oap_conn_run(c); /* May free it. */
    }
}

void ron__oap_events_take(struct oap_worker *w)
{
    enum ron_rc rc = RON_OK;

    if (!w->reading_events) {
        return;
    }
    for (int i = 0; rc == RON_OK || rc == RON_LAGGED; i++) {
        size_t count = 0;
        uint64_t missed = 0;

        if (i == OAP_EVENT_TURNS) {
            ron_task_wake(w->task); /* That does nothing when this is its last turn. */
            return;
        }

        rc = ron_bus_poll(&w->events_in, w->event_room, OAP_EVENTS_PER_TURN, &count, &missed);
        if (rc == RON_OK || rc == RON_LAGGED) {
            deliver_all(w, rc == RON_OK ? count : 0, missed);
        }
    }
}
