/* SPDX-License-Identifier: Apache-2.0 */
/* interop/front/mailbox.c - the mailbox over HTTP: send, recv with long poll, ack, nack, stats,
 * dead letters, replay, purge.
 *
 * Place: service. A handler reads the request into an operation, defers the reply, and submits; the
 * mailbox's writer answers after its commit. Nothing here blocks. Topics of this service's own
 * journal (a leading dot) can be looked at and their dead letters replayed or purged, and nothing
 * else; those below ".remote." are the journal of bridges that keep theirs here (mailbox/remote.h),
 * for holders of the scope mailbox.journal.
 *
 * Ownership: a `box_call` belongs to its operation from submit on and is freed when it is answered.
 * The text of the request is copied once, because reading JSON changes it. */
#include <stdio.h>
#include <string.h>

#include "interop/front/front.h"
#include "ron/base/alloc.h"
#include "ron/base/arena.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/base/str.h"

enum {
    RECV_DEFAULT = 10,
    RECV_BYTES = 4 << 20, /* of bodies in one answer; as text at most six times that */
    VISIBILITY_DEFAULT_MS = 30000,
    LIST_BYTES = 1 << 20,
    MARGIN_MS = 250, /* a long poll ends this long before its request would time out */
    KEY_MAX = 128,
};

#define BOX_CALL_MAGIC 0x49424f43u /* "IBOC" */

struct box_call {
    uint32_t magic;
    struct iop_front *front;
    struct iop_op op;
    struct ron_http_reply *reply;
    uint64_t began_ns;
    char topic[IOP_TOPIC_MAX + 1];
    struct iop_msg *msgs;         /* send */
    struct iop_receipt *receipts; /* ack, nack */
    enum ron_rc *rcs;
    struct ron_arena arena;
    char text[]; /* of the request */
};

/* ---- answers --------------------------------------------------------------------------------- */

static void write_bytes(struct ron_json_writer *j, const char *text_name, const char *bytes_name,
                        struct ron_str bytes)
{
    const char *p = bytes.ptr;
    const char *end = bytes.ptr + bytes.len;
    struct ron_buf encoded;

    while (p < end) {
        size_t n = ron_utf8_len(p, end);

        if (n == 0) {
            break;
        }
        p += n;
    }
    if (p == end) {
        ron_json_str(j, text_name, bytes);
        return;
    }
    ron_buf_init(&encoded, bytes.len * 2 + 8);
    if (ron_base64_write(&encoded, bytes.ptr, bytes.len) == RON_OK) {
        ron_json_str(j, bytes_name,
                     (struct ron_str){ron_buf_text(&encoded), ron_buf_len(&encoded)});
    }
    ron_buf_done(&encoded);
}

static void write_id(struct ron_json_writer *j, const char *name, uint64_t id)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)id);
    ron_json_text(j, name, text); /* as text: it does not fit a number of JavaScript */
}

static void write_got(struct ron_json_writer *j, const struct iop_got *got, bool receipt)
{
    char text[IOP_RECEIPT_SIZE];

    ron_json_open(j, NULL, '{');
    write_id(j, "id", got->receipt.id);
    if (receipt) {
        iop_receipt_format(got->receipt, text);
        ron_json_text(j, "receipt", text);
    }
    ron_json_u64(j, receipt ? "delivery" : "deliveries", got->receipt.delivery);
    ron_json_u64(j, "sent_ms", got->sent_ms);
    if (got->head.len > 0) {
        ron_json_raw(j, "head", got->head);
    }
    write_bytes(j, "body", "body_b64", got->body);
    if (got->reason.len > 0) {
        write_bytes(j, "reason", "reason_b64", got->reason);
    }
    ron_json_close(j, '}');
}

static void write_stats(struct ron_json_writer *j, const struct iop_topic_stats *t)
{
    ron_json_open(j, NULL, '{');
    ron_json_text(j, "topic", t->name);
    ron_json_u64(j, "ready", t->ready);
    ron_json_u64(j, "delayed", t->delayed);
    ron_json_u64(j, "leased", t->leased);
    ron_json_u64(j, "dead", t->dead);
    ron_json_u64(j, "bytes", t->bytes);
    ron_json_u64(j, "oldest_ms", t->oldest_ms);
    ron_json_close(j, '}');
}

static void write_acks(struct ron_json_writer *j, const struct box_call *c)
{
    ron_json_u64(j, "done", c->op.ack.ret_done);
    ron_json_open(j, "results", '[');
    for (uint32_t i = 0; i < c->op.ack.count; i++) {
        ron_json_text(j, NULL,
                      c->rcs[i] == RON_OK         ? "ok"
                      : c->rcs[i] == RON_NOTFOUND ? "gone"
                                                  : "overtaken");
    }
    ron_json_close(j, ']');
}

static void write_answer(struct ron_json_writer *j, const struct box_call *c)
{
    const struct iop_op *op = &c->op;

    switch (op->kind) {
    case IOP_OP_PUT:
        ron_json_u64(j, "accepted", op->put.duplicate ? 0 : op->put.count);
        ron_json_bool(j, "duplicate", op->put.duplicate);
        if (!op->put.duplicate) {
            write_id(j, "first_id", op->put.first_id);
        }
        break;
    case IOP_OP_RECV:
        ron_json_open(j, "messages", '[');
        for (uint32_t i = 0; i < op->recv.count; i++) {
            write_got(j, &op->recv.got[i], true);
        }
        ron_json_close(j, ']');
        break;
    case IOP_OP_ACK:
    case IOP_OP_NACK:
        write_acks(j, c);
        break;
    case IOP_OP_DEAD:
        ron_json_open(j, "dead", '[');
        for (uint32_t i = 0; i < op->dead.count; i++) {
            write_got(j, &op->dead.got[i], false);
        }
        ron_json_close(j, ']');
        break;
    case IOP_OP_REPLAY:
    case IOP_OP_PURGE:
        ron_json_u64(j, "done", op->dead.count);
        break;
    case IOP_OP_STATS:
        ron_json_open(j, "topics", '[');
        for (uint32_t i = 0; i < op->stats.count; i++) {
            write_stats(j, &op->stats.rows[i]);
        }
        ron_json_close(j, ']');
        break;
    case IOP_OP_TARGET:
        ron_json_bool(j, "off", op->target.off);
        break;
    case IOP_OP_COUNT:
        break;
    }
}

static void call_free(struct box_call *c)
{
    c->magic = 0;
    iop_op_done(&c->op);
    ron_arena_done(&c->arena);
    ron_free(c);
}

/* On the writer's thread, or on the loop when it could not be submitted. */
static void answer(struct iop_op *op)
{
    struct box_call *c = RON_OBJ(op->arg, struct box_call, BOX_CALL_MAGIC);
    struct ron_json_writer j;
    char detail[80];

    if (op->rc == RON_OK) {
        ron_json_begin(&j, ron_http_reply_body(c->reply));
        ron_json_open(&j, NULL, '{');
        write_answer(&j, c);
        ron_json_close(&j, '}');
        ron_http_reply_send(c->reply, 200, "application/json");
    } else if (op->rc == RON_LIMIT) {
        iop_reply_fail(c->reply, IOP_ERROR_BODY_LIMIT, op->why);
    } else if (op->rc == RON_INVALID) {
        iop_reply_fail(c->reply, IOP_ERROR_MALFORMED, op->why);
    } else if (op->rc == RON_NOTFOUND) {
        iop_reply_fail(c->reply, IOP_ERROR_NOT_FOUND, op->why);
    } else if (op->rc == RON_FULL) {
        iop_reply_fail(c->reply, IOP_ERROR_BUSY, op->why);
    } else if (op->rc == RON_CLOSED) {
        iop_reply_fail(c->reply, IOP_ERROR_DRAINING, NULL);
    } else if (op->rc == RON_TIMEOUT) {
        (void)snprintf(detail, sizeof detail, "mailbox %s: no answer within %llu ms",
                       iop_op_name(op->kind),
                       (unsigned long long)((ron_env_now_ns(c->front->core->env) - c->began_ns) /
                                            RON_NS_PER_MS));
        iop_reply_fail(c->reply, IOP_ERROR_TIMEOUT, detail);
    } else {
        iop_reply_fail(c->reply, IOP_ERROR_DOWNSTREAM, op->why);
    }
    call_free(c);
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool is_remote_journal(struct ron_str topic)
{
    return topic.len > sizeof IOP_REMOTE_JOURNAL - 1 &&
           memcmp(topic.ptr, IOP_REMOTE_JOURNAL, sizeof IOP_REMOTE_JOURNAL - 1) == 0 &&
           iop_topic_internal(topic);
}

/* An operator may see what waits in the journal, and give what died another try. */
static bool is_for_operators(enum iop_op_kind kind)
{
    return kind == IOP_OP_STATS || kind == IOP_OP_DEAD || kind == IOP_OP_REPLAY ||
           kind == IOP_OP_PURGE;
}

/* A call with a copy of its text, or NULL: it has been answered. */
static struct box_call *begin(void *arg, struct ron_http_call *call, enum iop_op_kind kind,
                              const char *scope, bool has_topic, size_t arena_bytes)
{
    struct iop_front *f = RON_OBJ(arg, struct iop_front, IOP_FRONT_MAGIC);
    struct ron_str body = ron_http_body(call);
    struct ron_str topic = has_topic ? ron_http_param(call, 0) : (struct ron_str){"", 0};
    bool operators = is_for_operators(kind) && iop_topic_internal(topic);
    bool journal = !operators && is_remote_journal(topic);
    struct box_call *c;

    if (!iop_allowed(f->core, call, journal ? "mailbox.journal" : scope, NULL)) {
        return NULL;
    }
    c = ron_alloc(sizeof *c + body.len + 1);
    if (c == NULL) {
        ron_http_fail(call, RON_HTTP_MEMORY);
        return NULL;
    }
    memset(c, 0, sizeof *c);
    c->magic = BOX_CALL_MAGIC;
    c->front = f;
    c->began_ns = ron_env_now_ns(f->core->env);
    c->op = (struct iop_op){.kind = kind, .done = answer, .arg = c};
    if (body.len > 0) {
        memcpy(c->text, body.ptr, body.len);
    }
    c->text[body.len] = '\0';
    if (has_topic) {
        if (!journal && !operators && !iop_topic_valid(topic)) {
            iop_fail(call, IOP_ERROR_MALFORMED,
                     "invalid topic; expected [a-z0-9][a-z0-9._-]*, at most 64");
            call_free(c);
            return NULL;
        }
        memcpy(c->topic, topic.ptr, topic.len);
    }
    if (arena_bytes > 0 && ron_arena_init(&c->arena, arena_bytes) != RON_OK) {
        ron_http_fail(call, RON_HTTP_MEMORY);
        call_free(c);
        return NULL;
    }
    return c;
}

static void refuse(struct ron_http_call *call, struct box_call *c, const char *field,
                   const char *why)
{
    char detail[224];

    (void)snprintf(detail, sizeof detail, "%s%s%s", field, field[0] != '\0' ? ": " : "", why);
    iop_fail(call, IOP_ERROR_MALFORMED, detail);
    call_free(c);
}

static void submit(struct ron_http_call *call, struct box_call *c)
{
    enum ron_rc rc = ron_http_defer(call, &c->reply);

    if (rc != RON_OK) {
        ron_http_fail(call, RON_HTTP_BUSY);
        call_free(c);
        return;
    }
    rc = iop_box_submit(c->front->mail->box, &c->op);
    if (rc != RON_OK) {
        ron_http_undefer(call, c->reply);
        iop_fail(call, rc == RON_CLOSED ? IOP_ERROR_DRAINING : IOP_ERROR_BUSY, NULL);
        call_free(c);
    }
}

/* The body of a request that may be empty: all members have defaults. */
static bool scan(struct ron_http_call *call, struct box_call *c, const struct ron_json_shape *shape,
                 void *out)
{
    struct ron_json_error bad = {0};
    size_t len = ron_http_body(call).len;

    if (len == 0) {
        return true;
    }
    if (ron_json_scan(c->text, len, shape, &c->arena, out, &bad) != RON_OK) {
        refuse(call, c, bad.field, bad.reason);
        return false;
    }
    return true;
}

/* ---- send ------------------------------------------------------------------------------------ */

struct in_msg {
    struct ron_str body;
    struct ron_str body_b64;
    struct ron_str head;
    uint64_t delay_ms;
    struct ron_str topic; /* of a batch */
    uint64_t present;
};
static const struct ron_json_field msg_fields[] = {
    RON_JSON_FIELD(struct in_msg, topic, STRING, .required = true, .max = IOP_TOPIC_MAX),
    RON_JSON_FIELD(struct in_msg, body, STRING, .required = false),
    RON_JSON_FIELD(struct in_msg, body_b64, STRING, .required = false),
    RON_JSON_FIELD(struct in_msg, head, RAW, .required = false),
    RON_JSON_FIELD(struct in_msg, delay_ms, U64, .required = false),
};
static const struct ron_json_shape batch_msg_shape =
    RON_JSON_SHAPE(struct in_msg, msg_fields, present);
/* A message to the topic of the path has none of its own. */
static const struct ron_json_shape msg_shape = {.fields = msg_fields + 1,
                                                .count = RON_ARRAY_LEN(msg_fields) - 1,
                                                .present_offset = offsetof(struct in_msg, present)};

struct in_send {
    struct ron_json_items messages;
    struct ron_str key;
    uint64_t present;
};
static const struct ron_json_field send_fields[] = {
    RON_JSON_FIELD(struct in_send, messages, ARRAY, .required = true, .max = IOP_PUT_MAX,
                   .item_size = sizeof(struct in_msg), .shape = &msg_shape),
    RON_JSON_FIELD(struct in_send, key, STRING, .required = false, .max = KEY_MAX),
};
static const struct ron_json_shape send_shape =
    RON_JSON_SHAPE(struct in_send, send_fields, present);
static const struct ron_json_field batch_fields[] = {
    RON_JSON_FIELD(struct in_send, messages, ARRAY, .required = true, .max = IOP_PUT_MAX,
                   .item_size = sizeof(struct in_msg), .shape = &batch_msg_shape),
    RON_JSON_FIELD(struct in_send, key, STRING, .required = false, .max = KEY_MAX),
};
static const struct ron_json_shape batch_shape =
    RON_JSON_SHAPE(struct in_send, batch_fields, present);

/* NULL, or what is wrong. */
static const char *take_msg(struct box_call *c, const struct in_msg *in, struct iop_msg *out)
{
    *out = (struct iop_msg){.topic = in->topic.len > 0 ? in->topic : ron_str_of(c->topic),
                            .head = in->head,
                            .body = in->body,
                            .delay_ms = in->delay_ms};
    if (in->topic.len > 0 && !iop_topic_valid(in->topic) && !is_remote_journal(in->topic)) {
        return "invalid topic; expected [a-z0-9][a-z0-9._-]*, at most 64";
    }
    if (in->body.ptr != NULL && in->body_b64.ptr != NULL) {
        return "body and body_b64 are mutually exclusive";
    }
    if (in->body_b64.len > 0) {
        size_t len = 0;
        /* In place: it only gets shorter. */
        uint8_t *room = (uint8_t *)(uintptr_t)in->body_b64.ptr;

        if (!ron_base64_read(in->body_b64, RON_BASE64_PADDED, room, in->body_b64.len, &len)) {
            return "body_b64: invalid base64";
        }
        out->body = (struct ron_str){(const char *)room, len};
    }
    if (in->head.len > 0 && in->head.ptr[0] != '{') {
        return "head: expected an object";
    }
    return NULL;
}

/* To the topic of the path, or each message to its own: all or none. */
static void send_http(struct ron_http_call *call, void *arg, bool batch)
{
    struct box_call *c =
        begin(arg, call, IOP_OP_PUT, "mailbox.send", !batch,
              (IOP_PUT_MAX + 1) * (sizeof(struct in_msg) + sizeof(struct iop_msg)));
    struct in_send in = {0};
    const struct in_msg *items;
    bool journal = false;

    if (c == NULL) {
        return;
    }
    if (ron_http_body(call).len == 0) {
        refuse(call, c, "messages", "missing");
        return;
    }
    if (!scan(call, c, batch ? &batch_shape : &send_shape, &in)) {
        return;
    }
    items = in.messages.items;
    c->msgs = ron_arena_alloc_array(&c->arena, in.messages.count + 1, sizeof *c->msgs,
                                    _Alignof(struct iop_msg));
    for (size_t i = 0; i < in.messages.count; i++) {
        const char *wrong = c->msgs != NULL ? take_msg(c, &items[i], &c->msgs[i]) : "too many";

        if (wrong != NULL) {
            refuse(call, c, "messages", wrong);
            return;
        }
        journal = journal || is_remote_journal(items[i].topic);
    }
    if (journal && !iop_allowed(c->front->core, call, "mailbox.journal", NULL)) {
        call_free(c);
        return;
    }
    c->op.put.msgs = c->msgs;
    c->op.put.count = (uint32_t)in.messages.count;
    if (in.key.len > 0) {
        char name[16 + IOP_TOPIC_MAX];

        /* No provider has such a name: keys of senders and of deliveries cannot meet. */
        (void)snprintf(name, sizeof name, "mailbox/%s", c->topic);
        iop_key_make(c->front->mail, ron_str_of(name), in.key, NULL, &c->op.put.key);
        c->op.put.has_key = true;
    }
    submit(call, c);
}

void iop_box_send_http(struct ron_http_call *call, void *arg)
{
    send_http(call, arg, false);
}

void iop_box_batch_http(struct ron_http_call *call, void *arg)
{
    send_http(call, arg, true);
}

/* ---- recv ------------------------------------------------------------------------------------ */

struct in_recv {
    uint64_t max;
    uint64_t max_bytes;
    uint64_t visibility_ms;
    uint64_t wait_ms;
    uint64_t present;
};
static const struct ron_json_field recv_fields[] = {
    RON_JSON_FIELD(struct in_recv, max, U64, .required = false, .max = IOP_RECV_MAX),
    RON_JSON_FIELD(struct in_recv, max_bytes, U64, .required = false, .max = RECV_BYTES),
    RON_JSON_FIELD(struct in_recv, visibility_ms, U64, .required = false,
                   .max = IOP_VISIBILITY_MAX_MS),
    RON_JSON_FIELD(struct in_recv, wait_ms, U64, .required = false, .max = IOP_WAIT_MAX_MS),
};
static const struct ron_json_shape recv_shape =
    RON_JSON_SHAPE(struct in_recv, recv_fields, present);

void iop_box_recv_http(struct ron_http_call *call, void *arg)
{
    struct box_call *c = begin(arg, call, IOP_OP_RECV, "mailbox.recv", true, 0);
    struct in_recv in = {
        .max = RECV_DEFAULT, .max_bytes = RECV_BYTES, .visibility_ms = VISIBILITY_DEFAULT_MS};
    uint64_t left_ms;

    if (c == NULL || !scan(call, c, &recv_shape, &in)) {
        return;
    }
    left_ms = ron_deadline_left_ms(ron_http_deadline(call), ron_env_now_ns(c->front->core->env));
    left_ms = left_ms > MARGIN_MS ? left_ms - MARGIN_MS : 0;
    c->op.recv.topic = ron_str_of(c->topic);
    c->op.recv.max = (uint32_t)in.max;
    c->op.recv.max_bytes = (uint32_t)in.max_bytes;
    c->op.recv.visibility_ms = (uint32_t)in.visibility_ms;
    c->op.recv.wait_ms = (uint32_t)RON_MIN(in.wait_ms, left_ms);
    submit(call, c);
}

/* ---- ack, nack ------------------------------------------------------------------------------- */

struct in_ack {
    struct ron_json_items receipts;
    uint64_t delay_ms;
    bool dead;
    struct ron_str reason;
    uint64_t present;
};
static const struct ron_json_field ack_fields[] = {
    RON_JSON_FIELD(struct in_ack, receipts, STRINGS, .required = true, .max = IOP_RECEIPTS_MAX),
    RON_JSON_FIELD(struct in_ack, delay_ms, U64, .required = false),
    RON_JSON_FIELD(struct in_ack, dead, BOOL, .required = false),
    RON_JSON_FIELD(struct in_ack, reason, STRING, .required = false, .max = IOP_REASON_MAX),
};
/* An ack has the receipts alone. */
static const struct ron_json_shape ack_shape = {
    .fields = ack_fields, .count = 1, .present_offset = offsetof(struct in_ack, present)};
static const struct ron_json_shape nack_shape = RON_JSON_SHAPE(struct in_ack, ack_fields, present);

static void ack_http(struct ron_http_call *call, void *arg, enum iop_op_kind kind)
{
    struct box_call *c =
        begin(arg, call, kind, "mailbox.recv", true,
              (IOP_RECEIPTS_MAX + 2) *
                  (sizeof(struct ron_str) + sizeof(struct iop_receipt) + sizeof(enum ron_rc)));
    struct in_ack in = {.delay_ms = IOP_DELAY_AUTO};
    const struct ron_str *texts;

    if (c == NULL) {
        return;
    }
    if (ron_http_body(call).len == 0) {
        refuse(call, c, "receipts", "missing");
        return;
    }
    if (!scan(call, c, kind == IOP_OP_ACK ? &ack_shape : &nack_shape, &in)) {
        return;
    }
    texts = in.receipts.items;
    c->receipts = ron_arena_alloc_array(&c->arena, in.receipts.count + 1, sizeof *c->receipts,
                                        _Alignof(struct iop_receipt));
    c->rcs = ron_arena_alloc_array(&c->arena, in.receipts.count + 1, sizeof *c->rcs,
                                   _Alignof(enum ron_rc));
    for (size_t i = 0; i < in.receipts.count; i++) {
        if (c->receipts == NULL || c->rcs == NULL ||
            !iop_receipt_parse(texts[i], &c->receipts[i])) {
            refuse(call, c, "receipts", "invalid receipt handle");
            return;
        }
    }
    c->op.ack.topic = ron_str_of(c->topic);
    c->op.ack.receipts = c->receipts;
    c->op.ack.rcs = c->rcs;
    c->op.ack.count = (uint32_t)in.receipts.count;
    c->op.ack.delay_ms = in.delay_ms;
    c->op.ack.dead = in.dead;
    c->op.ack.reason = in.reason.ptr != NULL ? in.reason : (struct ron_str){"", 0};
    submit(call, c);
}

void iop_box_ack_http(struct ron_http_call *call, void *arg)
{
    ack_http(call, arg, IOP_OP_ACK);
}

void iop_box_nack_http(struct ron_http_call *call, void *arg)
{
    ack_http(call, arg, IOP_OP_NACK);
}

/* ---- looking, dead letters ------------------------------------------------------------------- */

void iop_box_stats_http(struct ron_http_call *call, void *arg)
{
    struct box_call *c = begin(arg, call, IOP_OP_STATS, "mailbox.inspect", true, 0);

    if (c != NULL) {
        c->op.stats.topic = ron_str_of(c->topic);
        submit(call, c);
    }
}

/* All topics, those of the journal too: how much waits to be done. */
void iop_box_topics_http(struct ron_http_call *call, void *arg)
{
    struct box_call *c = begin(arg, call, IOP_OP_STATS, "mailbox.inspect", false, 0);

    if (c != NULL) {
        submit(call, c);
    }
}

/* A number of the query; false: it is there and no number. */
static bool query_u64(struct ron_http_call *call, const char *name, uint64_t *value)
{
    char room[24];
    struct ron_str text = {0};
    enum ron_rc rc = ron_http_query_get(ron_http_head(call)->query, name, room, sizeof room, &text);
    uint64_t sum = 0;

    if (rc == RON_NOTFOUND) {
        return true;
    }
    if (rc != RON_OK || text.len == 0 || text.len > 18) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        sum = sum * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *value = sum;
    return true;
}

void iop_box_dead_http(struct ron_http_call *call, void *arg)
{
    struct box_call *c = begin(arg, call, IOP_OP_DEAD, "mailbox.admin", true, 0);
    uint64_t after = 0;
    uint64_t limit = 100;

    if (c == NULL) {
        return;
    }
    if (!query_u64(call, "after", &after) || !query_u64(call, "limit", &limit) ||
        limit > IOP_LIST_MAX) {
        refuse(call, c, "", "expected numbers for after and limit, limit at most 1000");
        return;
    }
    c->op.dead.topic = ron_str_of(c->topic);
    c->op.dead.after_id = after;
    c->op.dead.max = (uint32_t)limit;
    c->op.dead.max_bytes = LIST_BYTES;
    submit(call, c);
}

struct in_dead {
    struct ron_str id;
    uint64_t present;
};
static const struct ron_json_field dead_fields[] = {
    RON_JSON_FIELD(struct in_dead, id, STRING, .required = false, .max = 20),
};
static const struct ron_json_shape dead_shape =
    RON_JSON_SHAPE(struct in_dead, dead_fields, present);

static void dead_http(struct ron_http_call *call, void *arg, enum iop_op_kind kind)
{
    struct box_call *c = begin(arg, call, kind, "mailbox.admin", true, 0);
    struct in_dead in = {0};

    if (c == NULL || !scan(call, c, &dead_shape, &in)) {
        return;
    }
    if (in.id.len > 0) {
        struct iop_receipt r;
        char text[IOP_RECEIPT_SIZE];

        (void)snprintf(text, sizeof text, "%.*s-1", (int)in.id.len, in.id.ptr);
        if (!iop_receipt_parse(ron_str_of(text), &r)) {
            refuse(call, c, "id", "invalid message id");
            return;
        }
        c->op.dead.id = r.id;
    }
    c->op.dead.topic = ron_str_of(c->topic);
    submit(call, c);
}

void iop_box_replay_http(struct ron_http_call *call, void *arg)
{
    dead_http(call, arg, IOP_OP_REPLAY);
}

void iop_box_purge_http(struct ron_http_call *call, void *arg)
{
    dead_http(call, arg, IOP_OP_PURGE);
}

/* ---- switches -------------------------------------------------------------------------------- */

struct in_switch {
    struct ron_str name;
    bool off;
    struct ron_str reason;
    uint64_t present;
};
static const struct ron_json_field switch_fields[] = {
    RON_JSON_FIELD(struct in_switch, name, STRING, .required = true, .max = IOP_TARGET_MAX),
    RON_JSON_FIELD(struct in_switch, off, BOOL, .required = false),
    RON_JSON_FIELD(struct in_switch, reason, STRING, .required = false, .max = IOP_REASON_MAX),
};
static const struct ron_json_shape switch_shape =
    RON_JSON_SHAPE(struct in_switch, switch_fields, present);
enum { SWITCH_OFF = 1 }; /* its place among the fields */

/* Asks whether a place to forward to is switched off, or with `off` switches it. For bridges that
 * keep their journal here; a name of theirs cannot be one of ours. */
void iop_box_switch_http(struct ron_http_call *call, void *arg)
{
    struct box_call *c = begin(arg, call, IOP_OP_TARGET, "mailbox.journal", false,
                               sizeof IOP_REMOTE_JOURNAL + IOP_TARGET_MAX);
    struct in_switch in = {0};
    char *name;

    if (c == NULL) {
        return;
    }
    if (ron_http_body(call).len == 0) {
        refuse(call, c, "name", "missing");
        return;
    }
    if (!scan(call, c, &switch_shape, &in)) {
        return;
    }
    name = ron_arena_alloc(&c->arena, sizeof IOP_REMOTE_JOURNAL + in.name.len, 1);
    if (name == NULL || in.name.len == 0 ||
        in.name.len + sizeof IOP_REMOTE_JOURNAL - 1 > IOP_TARGET_MAX) {
        refuse(call, c, "name", "expected 1 to 120 bytes");
        return;
    }
    (void)snprintf(name, sizeof IOP_REMOTE_JOURNAL + in.name.len, "%s%.*s", IOP_REMOTE_JOURNAL,
                   (int)in.name.len, in.name.ptr);
    c->op.target.name = ron_str_of(name);
    c->op.target.set = (in.present >> SWITCH_OFF & 1) != 0;
    c->op.target.off = in.off;
    c->op.target.reason = in.reason.ptr != NULL ? in.reason : (struct ron_str){"", 0};
    submit(call, c);
}
