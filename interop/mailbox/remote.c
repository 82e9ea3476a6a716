/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/remote.c - operations of the mailbox as calls, and answers back; contract in
 * remote.h. Nothing here blocks. */
#include "interop/mailbox/remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/arena.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"

enum {
    ALIGN = 16,
    RECV_BYTES = 1 << 20, /* of bodies that are asked for at once */
    BODY_MAX = 64 << 20,  /* of a request: eight deliveries of 1 MiB, all escaped */
    URL_MAX = 1024 + IOP_TOPIC_MAX + 64,
};

const char *const iop_box_http_ops[IOP_OP_COUNT] = {
#define X(name, text) [IOP_OP_##name] = (text),
    IOP_OPS(X)
#undef X
};

struct box {
    struct iop_box box;
    struct iop_box_http_opts opts;
    struct ron_stat broken; /* 1: the last call failed */
};

static struct box *of(struct iop_box *box)
{
    return RON_CONTAINER_OF(box, struct box, box);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A journal topic of ours has another name there. */
static struct ron_str name_there(struct ron_str topic, char room[IOP_TOPIC_MAX + 16])
{
    int len;

    if (topic.len == 0 || topic.ptr[0] != '.') {
        return topic;
    }
    len = snprintf(room, IOP_TOPIC_MAX + 16, "%s%.*s", IOP_REMOTE_JOURNAL, (int)topic.len - 1,
                   topic.ptr + 1);
    return (struct ron_str){room, (size_t)len};
}

static bool is_text(struct ron_str bytes)
{
    const char *end = bytes.ptr + bytes.len;

    for (const char *p = bytes.ptr; p < end;) {
        size_t n = ron_utf8_len(p, end);

        if (n == 0) {
            return false;
        }
        p += n;
    }
    return true;
}

static enum ron_rc write_bytes(struct ron_json_writer *j, struct ron_str bytes)
{
    struct ron_buf encoded;
    enum ron_rc rc = RON_OK;

    if (is_text(bytes)) {
        ron_json_str(j, "body", bytes);
        return RON_OK;
    }
    ron_buf_init(&encoded, bytes.len * 2 + 8);
    rc = ron_base64_write(&encoded, bytes.ptr, bytes.len);
    if (rc == RON_OK) {
        ron_json_str(j, "body_b64",
                     (struct ron_str){ron_buf_text(&encoded), ron_buf_len(&encoded)});
    }
    ron_buf_done(&encoded);
    return rc;
}

static enum ron_rc write_put(struct ron_json_writer *j, const struct iop_op *op)
{
    char room[IOP_TOPIC_MAX + 16];
    char key[2 * IOP_KEY_BYTES + 1];

    ron_json_open(j, "messages", '[');
    for (uint32_t i = 0; i < op->put.count; i++) {
        const struct iop_msg *m = &op->put.msgs[i];

        ron_json_open(j, NULL, '{');
        ron_json_str(j, "topic", name_there(m->topic, room));
        if (m->head.len > 0) {
            ron_json_raw(j, "head", m->head);
        }
        if (m->delay_ms > 0) {
            ron_json_u64(j, "delay_ms", m->delay_ms);
        }
        RON_TRY(write_bytes(j, m->body));
        ron_json_close(j, '}');
    }
    ron_json_close(j, ']');
    if (op->put.has_key) {
        ron_hex(op->put.key.bytes, IOP_KEY_BYTES, key);
        ron_json_text(j, "key", key);
    }
    return RON_OK;
}

static void write_ack(struct ron_json_writer *j, const struct iop_op *op)
{
    char text[IOP_RECEIPT_SIZE];

    ron_json_open(j, "receipts", '[');
    for (uint32_t i = 0; i < op->ack.count; i++) {
        iop_receipt_format(op->ack.receipts[i], text);
        ron_json_text(j, NULL, text);
    }
    ron_json_close(j, ']');
    if (op->kind == IOP_OP_NACK) {
        if (op->ack.delay_ms != IOP_DELAY_AUTO) {
            ron_json_u64(j, "delay_ms", op->ack.delay_ms);
        }
        ron_json_bool(j, "dead", op->ack.dead);
        if (op->ack.reason.len > 0 && is_text(op->ack.reason)) {
            ron_json_str(j, "reason", op->ack.reason);
        }
    }
}

static enum ron_rc write_request(const struct box *b, const struct iop_op *op, struct ron_buf *out)
{
    struct ron_json_writer j;
    char id[24];

    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    switch (op->kind) {
    case IOP_OP_PUT:
        RON_TRY(write_put(&j, op));
        break;
    case IOP_OP_RECV:
        ron_json_u64(&j, "max", op->recv.max);
        ron_json_u64(&j, "max_bytes", RON_MIN(op->recv.max_bytes, (uint32_t)RECV_BYTES));
        ron_json_u64(&j, "visibility_ms", op->recv.visibility_ms);
        ron_json_u64(&j, "wait_ms", RON_MIN(op->recv.wait_ms, b->opts.wait_max_ms));
        break;
    case IOP_OP_ACK:
    case IOP_OP_NACK:
        write_ack(&j, op);
        break;
    case IOP_OP_REPLAY:
    case IOP_OP_PURGE:
        if (op->dead.id != 0) {
            (void)snprintf(id, sizeof id, "%" PRIu64, op->dead.id);
            ron_json_text(&j, "id", id);
        }
        break;
    case IOP_OP_TARGET:
        ron_json_str(&j, "name", op->target.name);
        if (op->target.set) {
            ron_json_bool(&j, "off", op->target.off);
            ron_json_str(&j, "reason", op->target.reason);
        }
        break;
    case IOP_OP_DEAD:
    case IOP_OP_STATS:
    case IOP_OP_COUNT:
        break;
    }
    ron_json_close(&j, '}');
    return ron_buf_error(out);
}

/* Where an operation goes; whether with a body. */
static bool write_url(const struct box *b, const struct iop_op *op, char url[URL_MAX])
{
    char room[IOP_TOPIC_MAX + 16];
    struct ron_str topic = {"", 0};

    switch (op->kind) {
    case IOP_OP_PUT:
        (void)snprintf(url, URL_MAX, "%s/mailbox", b->opts.url);
        return true;
    case IOP_OP_TARGET:
        (void)snprintf(url, URL_MAX, "%s/switches", b->opts.url);
        return true;
    case IOP_OP_STATS:
        topic = name_there(op->stats.topic, room);
        (void)snprintf(url, URL_MAX, "%s/mailbox%s%.*s", b->opts.url, topic.len > 0 ? "/" : "",
                       (int)topic.len, topic.ptr);
        return false;
    case IOP_OP_DEAD:
        topic = name_there(op->dead.topic, room);
        (void)snprintf(url, URL_MAX, "%s/mailbox/%.*s/dead?after=%" PRIu64 "&limit=%u", b->opts.url,
                       (int)topic.len, topic.ptr, op->dead.after_id, op->dead.max);
        return false;
    case IOP_OP_RECV:
        topic = name_there(op->recv.topic, room);
        break;
    case IOP_OP_ACK:
    case IOP_OP_NACK:
        topic = name_there(op->ack.topic, room);
        break;
    case IOP_OP_REPLAY:
    case IOP_OP_PURGE:
    case IOP_OP_COUNT:
        topic = name_there(op->dead.topic, room);
        break;
    }
    (void)snprintf(url, URL_MAX, "%s/mailbox/%.*s/%s", b->opts.url, (int)topic.len, topic.ptr,
                   iop_op_name(op->kind));
    return true;
}

static bool may_repeat(const struct iop_op *op)
{
    return (op->kind == IOP_OP_PUT && op->put.has_key) || op->kind == IOP_OP_ACK ||
           op->kind == IOP_OP_TARGET;
}

/* ---- answers --------------------------------------------------------------------------------- */

struct in_got {
    struct ron_str id;
    struct ron_str receipt;
    uint64_t delivery;
    uint64_t deliveries;
    uint64_t sent_ms;
    struct ron_str head;
    struct ron_str body;
    struct ron_str body_b64;
    struct ron_str reason;
    struct ron_str reason_b64;
    uint64_t present;
};
static const struct ron_json_field got_fields[] = {
    RON_JSON_FIELD(struct in_got, id, STRING, .required = true),
    RON_JSON_FIELD(struct in_got, receipt, STRING, .required = false),
    RON_JSON_FIELD(struct in_got, delivery, U64, .required = false, .max = UINT32_MAX),
    RON_JSON_FIELD(struct in_got, deliveries, U64, .required = false, .max = UINT32_MAX),
    RON_JSON_FIELD(struct in_got, sent_ms, U64, .required = true),
    RON_JSON_FIELD(struct in_got, head, RAW, .required = false),
    RON_JSON_FIELD(struct in_got, body, STRING, .required = false),
    RON_JSON_FIELD(struct in_got, body_b64, STRING, .required = false),
    RON_JSON_FIELD(struct in_got, reason, STRING, .required = false),
    RON_JSON_FIELD(struct in_got, reason_b64, STRING, .required = false),
};
static const struct ron_json_shape got_shape = RON_JSON_SHAPE(struct in_got, got_fields, present);

struct in_stats {
    struct ron_str topic;
    uint64_t ready;
    uint64_t delayed;
    uint64_t leased;
    uint64_t dead;
    uint64_t bytes;
    uint64_t oldest_ms;
    uint64_t present;
};
static const struct ron_json_field stats_fields[] = {
    RON_JSON_FIELD(struct in_stats, topic, STRING, .required = true, .max = IOP_TOPIC_MAX),
    RON_JSON_FIELD(struct in_stats, ready, U64, .required = true),
    RON_JSON_FIELD(struct in_stats, delayed, U64, .required = true),
    RON_JSON_FIELD(struct in_stats, leased, U64, .required = true),
    RON_JSON_FIELD(struct in_stats, dead, U64, .required = true),
    RON_JSON_FIELD(struct in_stats, bytes, U64, .required = true),
    RON_JSON_FIELD(struct in_stats, oldest_ms, U64, .required = true),
};
static const struct ron_json_shape stats_shape =
    RON_JSON_SHAPE(struct in_stats, stats_fields, present);

/* Every answer, whatever was asked; what is not asked for is not looked at. */
struct in_answer {
    uint64_t accepted;
    bool duplicate;
    struct ron_str first_id;
    struct ron_json_items messages;
    struct ron_json_items dead;
    struct ron_json_items topics;
    struct ron_json_items results;
    uint64_t done;
    bool off;
    uint64_t present;
};
static const struct ron_json_field answer_fields[] = {
    RON_JSON_FIELD(struct in_answer, accepted, U64, .required = false),
    RON_JSON_FIELD(struct in_answer, duplicate, BOOL, .required = false),
    RON_JSON_FIELD(struct in_answer, first_id, STRING, .required = false),
    RON_JSON_FIELD(struct in_answer, messages, ARRAY, .required = false, .max = IOP_RECV_MAX,
                   .item_size = sizeof(struct in_got), .shape = &got_shape),
    RON_JSON_FIELD(struct in_answer, dead, ARRAY, .required = false, .max = IOP_LIST_MAX,
                   .item_size = sizeof(struct in_got), .shape = &got_shape),
    RON_JSON_FIELD(struct in_answer, topics, ARRAY, .required = false, .max = IOP_LIST_MAX,
                   .item_size = sizeof(struct in_stats), .shape = &stats_shape),
    RON_JSON_FIELD(struct in_answer, results, STRINGS, .required = false, .max = IOP_RECEIPTS_MAX),
    RON_JSON_FIELD(struct in_answer, done, U64, .required = false, .max = UINT32_MAX),
    RON_JSON_FIELD(struct in_answer, off, BOOL, .required = false),
};
static const struct ron_json_shape answer_shape = {
    .fields = answer_fields,
    .count = RON_ARRAY_LEN(answer_fields),
    .present_offset = offsetof(struct in_answer, present),
    .allow_unknown = true, /* a newer mailbox may say more */
};
enum { ARENA_BYTES = (IOP_RECV_MAX + 1) * (int)(sizeof(struct in_got) + 64) };

static bool read_id(struct ron_str text, uint64_t *ret)
{
    return ron_http_parse_u64(text, ret) == RON_OK && *ret > 0 && *ret <= INT64_MAX;
}

/* Bytes that came as text or as base64, which gets shorter in its place. */
static bool bytes_of(struct ron_str text, struct ron_str encoded, struct ron_str *ret)
{
    size_t len = 0;

    *ret = text.ptr != NULL ? text : (struct ron_str){"", 0};
    if (encoded.len > 0) {
        uint8_t *room = (uint8_t *)(uintptr_t)encoded.ptr;

        if (!ron_base64_read(encoded, RON_BASE64_PADDED, room, encoded.len, &len)) {
            return false;
        }
        *ret = (struct ron_str){(const char *)room, len};
    }
    return true;
}

static bool read_got(const struct in_got *in, bool receipt, struct iop_got *out)
{
    *out = (struct iop_got){.sent_ms = in->sent_ms,
                            .head = in->head.ptr != NULL ? in->head : (struct ron_str){"", 0}};
    if (receipt) {
        if (!iop_receipt_parse(in->receipt, &out->receipt)) {
            return false;
        }
    } else {
        if (!read_id(in->id, &out->receipt.id)) {
            return false;
        }
        out->receipt.delivery = (uint32_t)in->deliveries;
    }
    return bytes_of(in->body, in->body_b64, &out->body) &&
           bytes_of(in->reason, in->reason_b64, &out->reason);
}

static bool read_gots(const struct ron_json_items *items, bool receipt, struct iop_got *out)
{
    const struct in_got *in = items->items;

    for (size_t i = 0; i < items->count; i++) {
        if (!read_got(&in[i], receipt, &out[i])) {
            return false;
        }
    }
    return true;
}

static bool read_acks(const struct ron_json_items *results, struct iop_op *op)
{
    const struct ron_str *in = results->items;

    if (results->count != op->ack.count) {
        return false;
    }
    for (size_t i = 0; op->ack.rcs != NULL && i < results->count; i++) {
        op->ack.rcs[i] = ron_str_is(in[i], "ok")     ? RON_OK
                         : ron_str_is(in[i], "gone") ? RON_NOTFOUND
                                                     : RON_CONFLICT;
    }
    return true;
}

static bool read_stats(const struct ron_json_items *topics, struct iop_topic_stats *out)
{
    const struct in_stats *in = topics->items;

    for (size_t i = 0; i < topics->count; i++) {
        out[i] = (struct iop_topic_stats){.ready = in[i].ready,
                                          .delayed = in[i].delayed,
                                          .leased = in[i].leased,
                                          .dead = in[i].dead,
                                          .bytes = in[i].bytes,
                                          .oldest_ms = in[i].oldest_ms};
        memcpy(out[i].name, in[i].topic.ptr, in[i].topic.len);
    }
    return true;
}

/* What the answer means. `rows` has room for as many rows as came. */
static bool read_answer(const struct in_answer *in, struct iop_op *op, void *rows)
{
    switch (op->kind) {
    case IOP_OP_PUT:
        op->put.duplicate = in->duplicate;
        op->put.first_id = 0;
        return in->duplicate || read_id(in->first_id, &op->put.first_id);
    case IOP_OP_RECV:
        op->recv.got = rows;
        op->recv.count = (uint32_t)in->messages.count;
        return read_gots(&in->messages, true, rows);
    case IOP_OP_ACK:
    case IOP_OP_NACK:
        op->ack.ret_done = (uint32_t)in->done;
        return read_acks(&in->results, op);
    case IOP_OP_DEAD:
        op->dead.got = rows;
        op->dead.count = (uint32_t)in->dead.count;
        return read_gots(&in->dead, false, rows);
    case IOP_OP_REPLAY:
    case IOP_OP_PURGE:
        op->dead.count = (uint32_t)in->done;
        return true;
    case IOP_OP_STATS:
        op->stats.rows = rows;
        op->stats.count = (uint32_t)in->topics.count;
        return read_stats(&in->topics, rows);
    case IOP_OP_TARGET:
        op->target.off = in->off;
        return true;
    case IOP_OP_COUNT:
        break;
    }
    return false;
}

/* One block for the operation: room for the rows, then the text that they point into. */
enum ron_rc iop_box_http_read(struct iop_op *op, struct ron_str body)
{
    size_t row = RON_MAX(sizeof(struct iop_got), sizeof(struct iop_topic_stats));
    size_t rows = op->kind == IOP_OP_RECV ? RON_MIN(op->recv.max, (uint32_t)IOP_RECV_MAX)
                  : op->kind == IOP_OP_DEAD || op->kind == IOP_OP_STATS ? (size_t)IOP_LIST_MAX
                                                                        : 0;
    struct in_answer in = {0};
    struct ron_json_error why = {0};
    struct ron_arena arena = {0};
    uint8_t *room = NULL;
    enum ron_rc rc;

    iop_op_done(op);
    ron_buf_init_aligned(&op->room, rows * row + body.len + 1, ALIGN);
    RON_TRY(ron_buf_reserve(&op->room, rows * row + body.len + 1, &room));
    memcpy(room + rows * row, body.ptr, body.len);
    RON_TRY(ron_arena_init(&arena, ARENA_BYTES));
    rc = ron_json_scan((char *)room + rows * row, body.len, &answer_shape, &arena, &in, &why);
    if (rc == RON_OK && (in.messages.count > rows || in.dead.count > rows ||
                         in.topics.count > rows || !read_answer(&in, op, room))) {
        rc = RON_CORRUPT;
    }
    ron_arena_done(&arena);
    return rc == RON_OK || rc == RON_NOMEM ? rc : RON_CORRUPT;
}

/* A failure of the other side, told as the embedded mailbox would tell it; who we are (401, 403) is
 * a mistake of the settings and no fault of who asks. */
static enum ron_rc code_of(const struct ron_http_fetch_result *r, const char **ret_why)
{
    switch (r->status) {
    case 0:
        *ret_why = "mailbox is not responding";
        return r->rc == RON_CANCELLED                      ? RON_CLOSED
               : r->rc == RON_TIMEOUT || r->rc == RON_FULL ? r->rc
                                                           : RON_IO;
    case 400:
        *ret_why = "mailbox refused the request";
        return RON_INVALID;
    case 404:
        *ret_why = "topic or dead letter not found";
        return RON_NOTFOUND;
    case 413:
        *ret_why = "message too large for the mailbox";
        return RON_LIMIT;
    case 429:
        *ret_why = "mailbox is full or busy";
        return RON_FULL;
    default:
        *ret_why = "mailbox failed";
        return RON_IO;
    }
}

static void ended(struct ron_http_fetch *f, void *arg)
{
    const struct ron_http_fetch_result *r = ron_http_fetch_result(f);
    struct iop_op *op = RON_OBJ(arg, struct iop_op, IOP_OP_MAGIC);
    struct box *b = op->_first;

    op->why = "";
    op->rc = r->status == 200 ? iop_box_http_read(op, r->body) : code_of(r, &op->why);
    if (r->status == 200 && op->rc != RON_OK) {
        op->why = "unexpected response from the mailbox";
        iop_op_done(op);
    }
    ron_stat_set(&b->broken, r->status == 0 || r->status >= 500 || r->status == 401 ||
                                 r->status == 403 || op->rc == RON_CORRUPT);
    ron_http_fetch_release(f);
    op->magic = 0;
    op->done(op);
}

/* ---- the interface --------------------------------------------------------------------------- */

static enum ron_rc submit(struct iop_box *box, struct iop_op *op)
{
    struct box *b = of(box);
    const struct ron_app_token *token = ron_app_tokens_get(b->opts.token);
    struct ron_http_fetch_header headers[2] = {{"Content-Type", {"application/json", 16}}};
    struct ron_http_fetch *f = NULL;
    struct ron_err err = {0};
    struct ron_buf body;
    char url[URL_MAX];
    char bearer[RON_CAP_TEXT_MAX + 16];
    size_t count = 1;
    bool post = write_url(b, op, url);
    enum ron_rc rc;

    if (token != NULL) {
        int len =
            snprintf(bearer, sizeof bearer, "Bearer %.*s", (int)token->text.len, token->text.ptr);

        headers[count++] = (struct ron_http_fetch_header){"Authorization", {bearer, (size_t)len}};
    }
    ron_buf_init(&body, BODY_MAX);
    rc = post ? write_request(b, op, &body) : RON_OK;
    op->magic = IOP_OP_MAGIC;
    op->_first = b;
    if (rc == RON_OK) {
        rc = ron_http_fetch_start(
            b->opts.target,
            &(struct ron_http_fetch_opts){
                .method = post ? RON_HTTP_POST : RON_HTTP_GET,
                .url = url,
                .op = (uint32_t)op->kind,
                .headers = headers,
                .header_count = count,
                .body = post ? (struct ron_str){ron_buf_text(&body), ron_buf_len(&body)}
                             : (struct ron_str){0},
                .idempotent = may_repeat(op),
                .done = ended,
                .arg = op},
            &f, &err);
    }
    ron_buf_done(&body);
    return rc == RON_OK || rc == RON_CLOSED ? rc : RON_FULL;
}

static void dispose(struct iop_box *box)
{
    ron_free(of(box));
}

static const struct iop_box_ops http_ops = {.name = "http", .submit = submit, .dispose = dispose};

enum ron_rc iop_box_http_new(const struct iop_box_http_opts *opts, struct iop_box **ret_box,
                             struct ron_err *err)
{
    struct box *b = ron_alloc_zero(sizeof *b);

    if (b == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the mailbox");
    }
    b->box.ops = &http_ops;
    b->opts = *opts;
    *ret_box = &b->box;
    return RON_OK;
}

bool iop_box_http_broken(struct iop_box *box)
{
    return ron_stat_get(&of(box)->broken) != 0;
}

void iop_box_http_key(struct ron_str name, struct ron_str id, const struct ron_b3 *body,
                      struct iop_key *ret_key)
{
    struct ron_b3_hasher h;
    struct ron_b3 hash;
    uint8_t lens[2] = {(uint8_t)name.len, (uint8_t)id.len};

    RON_ASSERT(name.len <= UINT8_MAX);
    RON_ASSERT(id.len <= UINT8_MAX);
    ron_b3_init(&h);
    ron_b3_update(&h, lens, sizeof lens);
    ron_b3_update(&h, name.ptr, name.len);
    ron_b3_update(&h, id.ptr, id.len);
    if (body != NULL) {
        ron_b3_update(&h, body->bytes, sizeof body->bytes);
    }
    ron_b3_final(&h, &hash);
    memcpy(ret_key->bytes, hash.bytes, sizeof ret_key->bytes);
}
