/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/read.c - the readers as tasks: everything that needs the journal's files.
 *
 * Place: service; blocking tasks on the channel "reads", each with a led_reader of its own. They
 * see what was durable when the sequencer passed the question on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ledger/core/metrics.h"
#include "ledger/guard/frozen.h"
#include "ledger/index/hashes.h"
#include "ledger/read/export.h"
#include "ledger/stage/stage.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/stream.h"

enum { EXPORT_LOOK_MS = 200 }; /* how often an export that waits looks whether it should end */

#define READING_MAGIC UINT32_C(0x47524c52) /* "RLRG" */

struct led_reading {
    uint32_t magic;
    struct led_read_stage *st;
    struct ron_task *task;
    struct led_reader *reader;
    uint32_t generation;           /* of the engine that the reader is over */
    const struct led_index *index; /* of it: a swap that failed has closed it */
};

static const char json[] = "application/json";

/* ---- a reader over the present engine -------------------------------------------------------- */

static void damaged(void *arg, enum ron_rc rc, const struct ron_err *err)
{
    struct led_read_stage *st = RON_OBJ(arg, struct led_read_stage, LED_READ_STAGE_MAGIC);

    if (rc == RON_CORRUPT) {
        led_metrics_gap(st->core->metrics);
    }
    led_engine_enter_safe(st->engine,
                          rc == RON_CORRUPT ? "the journal is damaged" : "the disk cannot read",
                          err->msg);
}

static enum ron_rc fresh_reader(struct led_reading *rd)
{
    struct led_read_stage *st = rd->st;
    struct led_reader_opts o = {.log = st->engine->live.log,
                                .index = st->engine->live.index,
                                .hashes = led_hashes_store(st->engine->live.hashes),
                                .damaged = damaged,
                                .arg = st};

    if (rd->reader != NULL && rd->generation == st->engine->generation &&
        rd->index == st->engine->live.index) {
        return RON_OK;
    }
    led_reader_free(rd->reader);
    rd->reader = NULL;
    memcpy(o.hash_key, st->engine->hash_key, sizeof o.hash_key);
    RON_TRY(led_reader_new(&o, &rd->reader));
    rd->generation = st->engine->generation;
    rd->index = st->engine->live.index;
    return RON_OK;
}

/* ---- works ----------------------------------------------------------------------------------- */

/* Compares a work with the journal, fetches what its reversals refer to, and sends it on. */
static void look_up(struct led_reading *rd, struct led_query *q)
{
    struct led_read_stage *st = rd->st;
    struct led_work *w = q->work;
    enum led_repeat repeat = LED_REPEAT_NEW;
    struct ron_err err = {0};
    enum ron_rc rc = RON_OK;

    if ((w->look_up & (LED_LOOK_ID | LED_LOOK_IDEM)) != 0 || w->fate == LED_FATE_LOOK_UP) {
        rc = led_read_repeat(rd->reader, w, &repeat, &err);
    }
    if (rc == RON_OK && repeat == LED_REPEAT_NEW && (w->look_up & LED_LOOK_ORIGINAL) != 0) {
        rc = led_read_originals(rd->reader, w, (struct led_candidates){0}, &err);
    }
    led_query_put(st->pipes->queries, q);
    if (rc != RON_OK) {
        bool later = rc == RON_NOMEM || rc == RON_LIMIT || rc == RON_AGAIN;

        led_work_refuse(w, later ? LED_REASON_BUSY : LED_REASON_SAFE_MODE, "",
                        later ? "not at this moment; try again" : "the journal could not be read");
        led_work_done(w);
    } else if (repeat == LED_REPEAT_DONE) {
        led_work_done(w);
    } else {
        w->look_up = 0;
        w->fate = LED_FATE_NONE;
        led_pipes_validated(st->pipes, w);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void failed(struct led_read_stage *st, struct led_query *q, enum ron_rc rc,
                   const struct ron_err *err)
{
    enum led_reason reason = rc == RON_NOTFOUND                   ? LED_REASON_NOT_FOUND
                             : rc == RON_INVALID                  ? LED_REASON_INVALID
                             : rc == RON_LIMIT                    ? LED_REASON_TOO_LARGE
                             : rc == RON_AGAIN || rc == RON_NOMEM ? LED_REASON_BUSY
                             : rc == RON_CONFLICT                 ? LED_REASON_CONFLICT
                             : rc == RON_CORRUPT || rc == RON_IO  ? LED_REASON_SAFE_MODE
                             : rc == RON_CLOSED                   ? LED_REASON_NOT_LEADER
                                                                  : LED_REASON_INTERNAL;

    led_query_refuse(st->pipes->queries, q, reason, err->msg[0] != '\0' ? err->msg : NULL);
}

/* V4 of replica/lead.h: that it is not here means nothing where the log may go on without us. */
static enum ron_rc absent(const struct led_reading *rd, enum ron_rc rc, struct ron_err *err)
{
    return led_lead_sure(rd->st->lead)
               ? rc
               : ron_err_set(err, RON_CLOSED, "it is not known here, and another ledger may lead");
}

static enum ron_rc write_outcome(struct led_reading *rd, struct led_query *q, struct ron_buf *out,
                                 struct ron_err *err)
{
    struct ron_str idem = {q->text, q->text_len};
    struct led_key_outcome outcome = {0};

    RON_TRY(led_read_outcome(rd->reader, idem, (struct led_candidates){q->seqs, q->seq_count},
                             &outcome, err));
    if (outcome.state == LED_KEY_UNKNOWN && q->in_flight) {
        struct ron_json_writer j;

        ron_json_begin(&j, out);
        ron_json_open(&j, NULL, '{');
        ron_json_str(&j, "idem_id", idem);
        ron_json_text(&j, "outcome", "in_flight");
        ron_json_close(&j, '}');
        return RON_OK;
    }
    if (outcome.state == LED_KEY_UNKNOWN) {
        RON_TRY(absent(rd, RON_OK, err));
    }
    led_key_outcome_to_json(out, idem, &outcome);
    return RON_OK;
}

/* Of the head, or with b witnesses the newest that they signed and that has the entry. */
static enum ron_rc write_checkpoint(struct led_read_stage *st, const struct led_query *q,
                                    struct ron_buf *out, struct ron_err *err)
{
    if (q->b > 0) {
        return led_signer_covering(st->publish->signer, q->b, q->a, q->durable_seq, out, err);
    }
    return led_signer_checkpoint(st->publish->signer, q->durable_seq, &q->durable_root, out, err);
}

static enum ron_rc write_receipt(struct led_reading *rd, struct led_query *q, struct ron_buf *out,
                                 struct ron_err *err)
{
    struct ron_buf note;
    enum ron_rc rc;

    ron_buf_init(&note, LED_NOTE_BYTES_MAX);
    rc = write_checkpoint(rd->st, q, &note, err);
    if (rc == RON_OK) {
        rc = led_read_receipt(
            rd->reader, q->a,
            (struct ron_str){(const char *)ron_buf_data(&note), ron_buf_len(&note)}, out, err);
    }
    ron_buf_done(&note);
    return rc;
}

/* The book has it already; this makes it last. */
static enum ron_rc write_frozen(struct led_read_stage *st, const struct led_query *q,
                                struct ron_buf *out, struct ron_err *err)
{
    struct ron_str account = {q->account, q->account_len};
    uint32_t idle = 0;
    enum ron_rc rc;

    if (!ron_au32_cas(&st->gate->frozen_busy, &idle, 1)) {
        return ron_err_set(err, RON_AGAIN, "another account is being frozen; try again");
    }
    rc = led_lead_freeze(st->lead, account, q->flag, err);
    rc = rc == RON_OK ? led_frozen_set(st->gate->frozen, account, q->flag, err) : rc;
    ron_au32_store(&st->gate->frozen_busy, 0);
    RON_TRY(rc);
    return ron_buf_append_text(out, q->flag ? "{\"frozen\":true}" : "{\"frozen\":false}");
}

static enum ron_rc write_answer(struct led_reading *rd, struct led_query *q, struct ron_buf *out,
                                const char **ret_type, struct ron_err *err)
{
    struct led_account_query account = {.account = {q->account, q->account_len},
                                        .last_seq = q->start_seq,
                                        .before = q->a,
                                        .at_seq = q->a,
                                        .limit = q->limit};
    struct ron_str text = {q->text, q->text_len};
    struct led_candidates found = {q->seqs, q->seq_count};
    enum ron_rc rc;

    *ret_type = json;
    switch ((int)q->ask) {
    case LED_ASK_BALANCES:
        return led_read_balances(rd->reader, &account, out, err);
    case LED_ASK_HISTORY:
        return led_read_history(rd->reader, &account, out, err);
    case LED_ASK_DEBITS:
        account.asset = text;
        account.since_ms = q->b;
        return led_read_debits(rd->reader, &account, out, err);
    case LED_ASK_ENTRY:
        return led_read_entry(rd->reader, q->a, out, err);
    case LED_ASK_BY_ID:
        rc = led_read_entry_by_id(rd->reader, text, found, out, err);
        return rc == RON_NOTFOUND ? absent(rd, rc, err) : rc;
    case LED_ASK_OUTCOME:
        return write_outcome(rd, q, out, err);
    case LED_ASK_ROOTS:
        return led_read_roots(rd->reader, q->a, q->limit, out, err);
    case LED_ASK_INCLUSION:
        return led_read_inclusion(rd->reader, q->a, q->b, out, err);
    case LED_ASK_CONSISTENCY:
        return led_read_consistency(rd->reader, q->a, q->b, out, err);
    case LED_ASK_RECEIPT:
        *ret_type = "text/plain; charset=utf-8";
        return write_receipt(rd, q, out, err);
    case LED_ASK_FREEZE:
        return write_frozen(rd->st, q, out, err);
    case LED_ASK_TILE:
        *ret_type = "application/octet-stream";
        return led_read_tile(rd->reader, text, out, err);
    default:
        return ron_err_set(err, RON_INTERNAL, "no reader for this question");
    }
}

/* ---- export ---------------------------------------------------------------------------------- */

/* An export takes its reader for as long as the client takes to read; one is kept for the others
 * where there are two. */
static bool begin_export(struct led_read_stage *st)
{
    uint32_t readers = (uint32_t)ron_conf_int(st->core->conf, LED_READERS);

    if (ron_au32_add(&st->exports, 1) < RON_MAX(1U, readers - 1)) {
        return true;
    }
    (void)ron_au32_add(&st->exports, UINT32_MAX); /* one less */
    return false;
}

/* Somebody who reads slowly holds up neither a drain nor the operator. */
static enum ron_rc write_piece(const struct led_reading *rd, struct ron_http_reply *reply,
                               const char *piece, size_t len)
{
    enum ron_rc rc = RON_TIMEOUT;

    while (rc == RON_TIMEOUT) {
        if (ron_task_stopping(rd->task) || led_engine_mode(rd->st->engine) == LED_SWAPPING) {
            return RON_CANCELLED;
        }
        rc = ron_http_reply_write_wait(reply, piece, len,
                                       ron_deadline_after_ms(ron_mono_ns(), EXPORT_LOOK_MS));
    }
    return rc;
}

static void export(struct led_reading *rd, struct led_query *q)
{
    struct led_read_stage *st = rd->st;
    struct ron_http_reply *reply = q->reply.http;
    struct led_export *x = NULL;
    struct ron_err err = {0};
    struct led_export_opts o = {.reader = rd->reader,
                                .format = (enum led_export_format)q->limit,
                                .from_seq = q->a,
                                .to_seq = q->b};
    enum ron_rc rc = led_export_new(&o, &x, &err);
    char *piece = NULL;

    if (rc != RON_OK) {
        failed(st, q, rc, &err);
        return;
    }
    piece = ron_alloc(LED_EXPORT_PIECE);
    if (piece == NULL ||
        ron_http_reply_begin(
            reply, &(struct ron_http_stream_opts){.status = 200,
                                                  .content_type = led_export_content_type(o.format),
                                                  .length = RON_HTTP_UNKNOWN}) != RON_OK) {
        ron_free(piece);
        led_export_free(x);
        led_query_refuse(st->pipes->queries, q, LED_REASON_BUSY, "too many exports are under way");
        return;
    }
    led_query_put(st->pipes->queries, q);
    for (;;) {
        size_t len = 0;

        rc = led_export_next(x, piece, LED_EXPORT_PIECE, &len, &err);
        if (rc != RON_OK || len == 0) {
            break;
        }
        rc = write_piece(rd, reply, piece, len);
        if (rc != RON_OK) {
            break;
        }
    }
    if (rc == RON_OK) {
        ron_http_reply_end(reply);
    } else {
        ron_http_reply_abort(reply);
    }
    ron_free(piece);
    led_export_free(x);
}

/* A tile never changes, a partial one neither: it is of one width. Bundles hold the entries, which
 * are not for everybody unless reads are open: no cache that others use may keep them. */
static void say_immutable(const struct led_read_stage *st, const struct led_query *q)
{
    bool shared = led_ask_is_public(q) || st->reads_open;

    if (q->reply.http != NULL) {
        RON_IGNORE(ron_http_reply_add_header(
            q->reply.http, "Cache-Control",
            shared ? RON_STR_LIT("public, max-age=31536000, immutable")
                   : RON_STR_LIT("private, max-age=31536000, immutable")));
    }
}

/* ---- the tasks ------------------------------------------------------------------------------- */

static void serve(struct led_reading *rd, struct led_query *q)
{
    struct led_read_stage *st = rd->st;
    const char *type = json;
    struct ron_err err = {0};
    struct ron_buf *out;
    enum ron_rc rc;

    led_reader_set_head(rd->reader, q->durable_seq, &q->durable_root);
    if (q->ask == LED_ASK_WORK) {
        look_up(rd, q);
        return;
    }
    if (led_reply_cancelled(&q->reply)) {
        led_query_refuse(st->pipes->queries, q, LED_REASON_TIMEOUT, NULL);
        return;
    }
    if (q->ask == LED_ASK_EXPORT) {
        if (!begin_export(st)) {
            led_query_refuse(st->pipes->queries, q, LED_REASON_BUSY,
                             "too many exports are under way");
            return;
        }
        export(rd, q);
        (void)ron_au32_add(&st->exports, UINT32_MAX); /* one less */
        return;
    }
    out = led_reply_body(&q->reply);
    rc = write_answer(rd, q, out, &type, &err);
    if (rc != RON_OK) {
        failed(st, q, rc, &err);
        return;
    }
    if (q->ask == LED_ASK_TILE) {
        say_immutable(st, q);
    }
    led_query_answer(st->pipes->queries, q, 200, type);
}

static enum ron_rc read_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct led_reading *rd = RON_OBJ(arg, struct led_reading, READING_MAGIC);
    struct led_read_stage *st = rd->st;

    rd->task = t;
    for (size_t i = 0; i < count; i++) {
        struct led_query *q = RON_OBJ(items[i], struct led_query, LED_QUERY_MAGIC);

        if (led_admin_takes(q->ask)) {
            led_admin_serve(st, q); /* It takes leases itself, or replaces the engine. */
            continue;
        }
        if (!led_engine_lease(st->engine)) {
            led_query_refuse(st->pipes->queries, q, LED_REASON_SAFE_MODE,
                             "the journal is being opened anew");
            continue;
        }
        if (fresh_reader(rd) != RON_OK) {
            led_query_refuse(st->pipes->queries, q, LED_REASON_BUSY, "no memory for a reader");
        } else {
            serve(rd, q);
        }
        led_engine_unlease(st->engine);
    }
    return RON_OK;
}

static void read_stop(struct ron_task *t, void *arg)
{
    struct led_reading *rd = RON_OBJ(arg, struct led_reading, READING_MAGIC);

    (void)t;
    led_reader_free(rd->reader);
    rd->reader = NULL;
}

enum ron_rc led_stage_read_add(struct led_read_stage *st, struct ron_err *err)
{
    uint32_t count = (uint32_t)ron_conf_int(st->core->conf, LED_READERS);

    st->magic = LED_READ_STAGE_MAGIC;
    st->readings = ron_alloc_array(count, sizeof *st->readings);
    if (st->readings == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the readers");
    }
    for (uint32_t i = 0; i < count; i++) {
        char *name = st->names[i];

        st->readings[i].magic = READING_MAGIC;
        st->readings[i].st = st;
        (void)snprintf(name, sizeof st->names[0], "reader-%u", i);
        RON_TRY(ron_sup_add(ron_app_sup(st->core->app),
                            &(struct ron_task_def){.name = name,
                                                   .kind = "reader",
                                                   .mode = RON_TASK_BLOCKING,
                                                   .stage = 2,
                                                   .input = st->pipes->reads,
                                                   .batch_max = 1,
                                                   .handle = read_handle,
                                                   .stop = read_stop,
                                                   .arg = &st->readings[i]},
                            NULL, err));
    }
    return RON_OK;
}

void led_stage_read_free(struct led_read_stage *st)
{
    ron_free(st->readings);
    st->readings = NULL;
}
