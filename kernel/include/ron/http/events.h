/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - a bus that people may watch: server-sent events, one task for all streams.
 *
 *     anybody --publish--> bus (drop oldest) --task--> stream, stream, ...
 *
 * A view, not a record: whoever reads too slowly is told how many events it missed ("lagged") and
 * goes on with what is there; publishers never wait. A quiet stream gets a comment line now and
 * then, so that nobody in between closes it. A stream ends when its client goes, when the
 * permission it was opened with ends ("expired"), and when a drain begins.
 *
 * Life: ron_http_events_new in a service's build, before the supervisor runs; free after it ended.
 * Threads: publish from anywhere; join inside a handler. */
#pragma once

#include "ron/chan/bus.h"
#include "ron/http/stream.h"

enum {
    RON_HTTP_EVENTS_TOPIC_MAX = 159, /* bytes of a stream's topic */
    RON_HTTP_EVENT_BYTES_MAX = 1024, /* of one event as text */
};

/* Appends one event ("event: x\ndata: {...}\n\n"); false: this stream does not want it. `topic` is
 * what the stream was joined with, perhaps "". */
typedef bool ron_http_event_fn(struct ron_buf *out, const void *message, const char *topic);

struct ron_http_events_opts {
    struct ron_registry *registry;
    const struct ron_env *env;
    struct ron_sup *sup;
    struct ron_log *log;   /* readers that lag are warned of, once a second at most; NULL: not */
    const char *bus_name;  /* in the registry and the label of bus_lagged_total */
    const char *chan_name; /* of the queue of streams that begin */
    const char *task_name;
    const char *producers;
    uint32_t capacity;      /* of the bus */
    uint32_t message_bytes; /* of a message */
    uint32_t streams_max;   /* at once; one more is refused */
    uint32_t stage;         /* of the task in a drain */
    const char *greeting;   /* a comment: "wallet events" */
    ron_http_event_fn *format;
};

struct ron_http_events;

RON_MUST_USE enum ron_rc ron_http_events_new(const struct ron_http_events_opts *opts,
                                             struct ron_http_events **ret_events,
                                             struct ron_err *err);
/* After the supervisor ended and before its registry does. NULL is fine. */
void ron_http_events_free(struct ron_http_events *v);

/* Never waits. */
void ron_http_events_publish(struct ron_http_events *v, const void *message);
/* Whether anybody watches: who would have to make an expensive message may ask. */
bool ron_http_events_watched(const struct ron_http_events *v);
/* Makes a stream of the call; the caller has checked that it may. `until_wall_ms` is when that
 * ends; UINT64_MAX never. RON_OK: the call is answered. RON_FULL (streams_max, or the inflight
 * gate), RON_CLOSED (draining), RON_NOMEM, RON_LIMIT (topic too long): the caller answers. */
RON_MUST_USE enum ron_rc ron_http_events_join(struct ron_http_events *v, struct ron_http_call *call,
                                              struct ron_str topic, uint64_t until_wall_ms);
