/* SPDX-License-Identifier: Apache-2.0 */
/* client_in.c - what the server says: answers, also in pieces, events, HELLO.
 *
 * Place: wire, on the client's task, called by client_conn.c. Whatever does not fit the protocol
 * ends the connection: a stream that is out of step cannot be trusted with money. */
#include <string.h>

#include "client_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/json.h"
#include "wire/frame.h"

/* ---- answers --------------------------------------------------------------------------------- */

struct hello_answer {
    uint64_t present;
    uint64_t max_frame;
    uint64_t max_inflight;
    bool trace;
};

static bool scan(const struct ron_oap_frame *f, const struct ron_json_shape *shape, void *out)
{
    char text[1024];
    struct ron_json_error err;

    if (f->payload_len == 0 || f->payload_len >= sizeof text) {
        return false;
    }
    memcpy(text, f->payload, f->payload_len);
    text[f->payload_len] = '\0';
    return ron_json_scan(text, f->payload_len, shape, NULL, out, &err) == RON_OK;
}

/* ---- subscriptions --------------------------------------------------------------------------- */

static void subscribe(struct ron_oap_client *c, size_t i)
{
    uint16_t app = c->opts.subscribe[i];
    struct ron_str cap = {0};
    char room[32];
    struct ron_buf body;

    if (c->opts.subscribe_cap != NULL) {
        cap = c->opts.subscribe_cap(c->opts.arg, app);
    }
    if (RON_OAP_HEADER_BYTES + sizeof room + cap.len > c->frame_max || cap.len > UINT16_MAX) {
        cap.len = 0; /* the server cannot take it: let it say what it thinks without */
    }
    ron_buf_init_over(&body, room, sizeof room);
    (void)ron_buf_append_fmt(&body, "{\"app\":%u}", app);
    c->subs[i].corr_id = ron__oap_client_control(c, RON_OAP_CTL_SUBSCRIBE, cap, ron_buf_data(&body),
                                                 ron_buf_len(&body));
}

void ron__oap_client_resubscribe(struct ron_oap_client *c)
{
    if (c->state != OAP_C_READY || c->lost || c->resubscribe_ms == 0 ||
        c->now_ms < c->resubscribe_ms) {
        return;
    }
    c->resubscribe_ms = 0; /* the next refusal sets it */
    for (size_t i = 0; i < c->opts.subscribe_count; i++) {
        if (c->subs[i].refused && c->subs[i].corr_id == 0) {
            subscribe(c, i);
        }
    }
}

/* The answer to a request of the client itself. Who is let in late has missed what was told
 * meanwhile, which nobody counted. */
static void on_own_answer(struct ron_oap_client *c, const struct ron_oap_head *head,
                          const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < c->opts.subscribe_count; i++) {
        struct oap_csub *sub = &c->subs[i];
        bool late = sub->refused;

        if (sub->corr_id != head->corr_id) {
            continue;
        }
        sub->corr_id = 0;
        sub->refused = head->code != 200;
        if (sub->refused) {
            c->resubscribe_ms = c->now_ms + c->opts.resubscribe_ms;
            if (c->opts.on_refused != NULL) {
                c->opts.on_refused(c->opts.arg, c->opts.subscribe[i],
                                   ron_oap_envelope_reason(bytes, len));
            }
        } else if (late && c->opts.on_gap != NULL) {
            c->opts.on_gap(c->opts.arg, c->opts.subscribe[i], UINT64_MAX);
        }
        return;
    }
}

static void on_hello(struct ron_oap_client *c, const struct ron_oap_frame *f)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct hello_answer, max_frame, U64, .required = true),
        RON_JSON_FIELD(struct hello_answer, max_inflight, U64, .required = true),
        RON_JSON_FIELD(struct hello_answer, trace, BOOL, .required = false),
    };
    static const struct ron_json_shape shape = {.fields = fields,
                                                .count = RON_ARRAY_LEN(fields),
                                                .present_offset =
                                                    offsetof(struct hello_answer, present),
                                                .allow_unknown = true};
    struct hello_answer h = {0};

    if (f->head.code != 200 || !scan(f, &shape, &h) || h.max_frame < RON_OAP_FRAME_MIN ||
        h.max_inflight == 0) {
        ron__oap_client_lose(c, RON_DENIED);
        return;
    }
    c->frame_max = (uint32_t)RON_MIN(h.max_frame, (uint64_t)RON_OAP_FRAME_MAX);
    c->flow = (uint32_t)RON_MIN(h.max_inflight, (uint64_t)c->opts.inflight_max);
    c->takes_traces = h.trace;
    c->state = OAP_C_READY;
    c->failures = 0;
    c->ready_ms = c->now_ms;
    ron_stat_set(&c->n_connected, 1);
    c->resubscribe_ms = 0;
    for (size_t i = 0; i < c->opts.subscribe_count; i++) {
        c->subs[i] = (struct oap_csub){0};
        subscribe(c, i);
    }
}

static void finish_answer(struct ron_oap_client *c, struct ron_oap_ask *ask,
                          const struct ron_oap_head *head, const uint8_t *bytes, size_t len,
                          enum ron_rc rc)
{
    enum ron_oap_outcome outcome = RON_OAP_ANSWERED;

    ask->status = head->code;
    if (head->app == 0) {
        ask->refusal = ron_oap_envelope_reason(bytes, len);
        rc = ron_oap_reason_rc(ask->refusal);
        outcome = ron_oap_reason_done(ask->refusal) == RON_OAP_DONE_NO ? RON_OAP_REFUSED
                                                                       : RON_OAP_UNKNOWN;
    } else if (ask->answer_to != NULL) {
        size_t before = ron_buf_len(ask->answer_to);
        enum ron_rc kept = ron_buf_append(ask->answer_to, bytes, len);

        rc = rc == RON_OK ? kept : rc;
        ask->answer = ron_buf_data(ask->answer_to) + before;
        ask->answer_len = ron_buf_len(ask->answer_to) - before;
    } else {
        ask->answer = bytes;
        ask->answer_len = len;
    }
    ron__oap_ask_finish(c, ask, outcome, rc);
}

/* A piece of an answer; true when it is whole and *ret_bytes, *ret_len are set. */
static bool gather(struct oap_slot *s, const struct ron_oap_frame *f, const uint8_t **ret_bytes,
                   size_t *ret_len)
{
    unsigned piece = f->head.flags & RON_OAP_PIECE_MASK;

    if (!s->open && (piece == 0 || piece == RON_OAP_PIECE_MASK)) {
        *ret_bytes = f->payload;
        *ret_len = f->payload_len;
        return true;
    }
    if (!s->open) {
        s->open = true;
        s->of_app = f->head.app;
        s->of_code = f->head.code;
    }
    if (s->ask != NULL) {
        s->failed = ron_buf_append(&s->part, f->payload, f->payload_len) != RON_OK || s->failed;
    }
    *ret_bytes = ron_buf_data(&s->part);
    *ret_len = ron_buf_len(&s->part);
    return (piece & RON_OAP_END) != 0;
}

static void on_answer(struct ron_oap_client *c, const struct ron_oap_frame *f)
{
    struct oap_slot *s = &c->slots[f->head.corr_id & c->slot_mask];
    bool first = (f->head.flags & RON_OAP_START) != 0;
    bool last = (f->head.flags & RON_OAP_END) != 0;
    const uint8_t *bytes = NULL;
    struct ron_oap_ask *ask;
    size_t len = 0;
    enum ron_rc rc;
    bool own;

    if (!s->used || s->corr_id != f->head.corr_id || s->tenant != f->head.tenant) {
        ron_stat_bump(&c->n_strays, 1); /* A refusal of the connection as a whole is one too. */
        return;
    }
    if ((s->open ? first || s->of_app != f->head.app || s->of_code != f->head.code
                 : last && !first) ||
        (f->head.app != 0 && f->head.app != s->app)) {
        /* START within, END of nothing, pieces of two messages, the word of another app. */
        ron__oap_client_lose(c, RON_CORRUPT);
        return;
    }
    if (!gather(s, f, &bytes, &len)) {
        return;
    }
    if (c->state == OAP_C_HELLO) {
        if (f->head.corr_id != c->hello_corr) {
            ron__oap_client_lose(c, RON_CORRUPT);
            return;
        }
        ron__oap_slot_free(c, s);
        on_hello(c, f);
        return;
    }
    ask = s->ask;
    own = s->app == 0;
    rc = s->failed ? RON_LIMIT : RON_OK;
    s->ask = NULL;
    if (ask != NULL) {
        finish_answer(c, ask, &f->head, bytes, len, rc);
    } else if (own) {
        on_own_answer(c, &f->head, bytes, len);
    }
    ron__oap_slot_free(c, s);
}

struct lagged {
    uint64_t present;
    uint64_t app;
    uint64_t missed;
};

static void on_event(struct ron_oap_client *c, const struct ron_oap_frame *f)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct lagged, app, U64, .max = UINT16_MAX, .required = true),
        RON_JSON_FIELD(struct lagged, missed, U64, .required = true),
    };
    static const struct ron_json_shape shape = RON_JSON_SHAPE(struct lagged, fields, present);
    struct lagged lag = {0};

    if (f->head.app != 0) {
        ron_stat_bump(&c->n_events, 1);
        if (c->opts.on_event != NULL) {
            c->opts.on_event(c->opts.arg, f->head.app, f->head.code, f->payload, f->payload_len);
        }
    } else if (f->head.code == RON_OAP_CTL_DRAINING && c->state == OAP_C_READY) {
        c->state = OAP_C_LEAVING;
    } else if (f->head.code == RON_OAP_CTL_LAGGED && scan(f, &shape, &lag) &&
               c->opts.on_gap != NULL) {
        c->opts.on_gap(c->opts.arg, (uint16_t)lag.app, lag.missed);
    }
}

static void on_frame(struct ron_oap_client *c, const struct ron_oap_frame *f)
{
    if ((f->head.flags & ~(unsigned)RON_OAP_FLAGS_OFFERED) != 0) {
        ron__oap_client_lose(c, RON_CORRUPT); /* The bytes are not what they seem. */
        return;
    }
    switch (f->head.flags & RON_OAP_KIND_MASK) {
    case RON_OAP_RESP:
        on_answer(c, f);
        break;
    case RON_OAP_EVENT:
        on_event(c, f);
        break;
    default:
        ron__oap_client_lose(c, RON_CORRUPT); /* A server does not ask. */
        break;
    }
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Room for a frame of `need` bytes from in_at. */
static bool make_room(struct ron_oap_client *c, size_t need)
{
    size_t have = c->in_len - c->in_at;

    if (c->in_at > 0) {
        memmove(c->in, c->in + c->in_at, have);
        c->in_at = 0;
        c->in_len = have;
    }
    if (need > c->in_cap) {
        uint8_t *more = ron_realloc_array(c->in, need, 1);

        if (more == NULL) {
            return false;
        }
        c->in = more;
        c->in_cap = need;
    }
    return true;
}

static bool fill(struct ron_oap_client *c, size_t need)
{
    size_t got = 0;
    size_t room;
    enum ron_rc rc;

    if (!c->readable) {
        return false;
    }
    if (!make_room(c, need)) {
        ron__oap_client_lose(c, RON_NOMEM);
        return false;
    }
    room = c->in_cap - c->in_len;
    RON_ASSERT(room > 0);
    rc = c->env->net->read(c->env, c->io.fd, c->in + c->in_len, room, &got);
    if (rc != RON_OK) {
        c->readable = false;
        if (rc != RON_AGAIN) {
            ron__oap_client_lose(c, rc);
        }
        return false;
    }
    c->readable = got == room || c->hup;
    c->in_len += got;
    c->heard_ms = c->now_ms;
    return true;
}

bool ron__oap_client_read(struct ron_oap_client *c, size_t max)
{
    bool more = true;
    size_t frames = 0;

    while (more && !c->lost && frames < max) {
        size_t have = c->in_len - c->in_at;
        size_t need = RON_OAP_HEADER_BYTES;
        enum ron_oap_reason reason = RON_OAP_NONE;
        struct ron_oap_frame f;

        if (have == 0) {
            more = fill(c, need);
            continue;
        }
        switch (ron_oap_decode(c->in + c->in_at, have, RON_OAP_FRAME_MAX, &f, &need, &reason)) {
        case RON_OAP_STEP_MORE:
            more = fill(c, need);
            break;
        case RON_OAP_STEP_FRAME:
            on_frame(c, &f);
            c->in_at += f.frame_len;
            frames++;
            break;
        case RON_OAP_STEP_REFUSED:
            ron__oap_client_lose(c, RON_CORRUPT);
            break;
        }
    }
    return !c->lost && frames == max && (c->readable || c->in_len > c->in_at);
}
