/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/stage/admin.c - what an operator asks over the Unix socket: status, safe mode, verify,
 * resume, snapshot.
 *
 * Place: service, on a reader's thread: all of it may block, some of it for long. One long one at a
 * time (admin_busy); the others are answered 409. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ledger/stage/snapshot.h"
#include "ledger/stage/stage.h"
#include "ron/base/hex.h"

bool led_admin_takes(enum led_ask what)
{
    return what == LED_ASK_STATUS || what == LED_ASK_SAFE || what == LED_ASK_VERIFY ||
           what == LED_ASK_RESUME || what == LED_ASK_SNAPSHOT;
}

static const char *mode_name(enum led_mode mode)
{
    return mode == LED_RUNNING     ? "running"
           : mode == LED_FOLLOWING ? "following"
           : mode == LED_SAFE      ? "safe"
                                   : "swapping";
}

static void write_status(struct led_read_stage *st, struct ron_buf *out)
{
    struct led_head head;
    struct led_log_head log = {0};
    struct led_index_stats index = {0};
    struct led_works_stats works;
    struct ron_json_writer j;
    char hex[2 * RON_TREE_HASH_BYTES + 1];

    led_engine_head(st->engine, &head);
    led_works_stats(st->pipes->works, &works);
    if (led_engine_lease(st->engine)) {
        led_log_head(st->engine->live.log, &log);
        if (st->engine->live.index != NULL) {
            led_index_stats(st->engine->live.index, &index);
        }
        led_engine_unlease(st->engine);
    }
    ron_hex(head.root.bytes, RON_TREE_HASH_BYTES, hex);
    ron_json_begin(&j, out);
    ron_json_open(&j, NULL, '{');
    ron_json_text(&j, "mode", mode_name(led_engine_mode(st->engine)));
    ron_json_u64(&j, "seq", head.seq);
    ron_json_text(&j, "root", hex);
    ron_json_u64(&j, "ts", head.ts_ms);
    ron_json_u64(&j, "indexed_seq", ron_au64_load(&st->news->indexed_seq));
    ron_json_u64(&j, "epoch", log.epoch);
    ron_json_u64(&j, "segments", log.segments);
    ron_json_u64(&j, "log_bytes", log.bytes);
    ron_json_u64(&j, "index_keys", index.keys);
    ron_json_u64(&j, "works", works.out);
    ron_json_close(&j, '}');
}

static enum ron_rc verify(struct led_read_stage *st, struct ron_buf *out, struct ron_err *err)
{
    (void)ron_buf_append_text(out, "{");
    RON_TRY(led_engine_verify(st->engine, out, err));
    return ron_buf_append_text(out, "}");
}

static enum ron_rc resume(struct led_read_stage *st, struct ron_buf *out, struct ron_err *err)
{
    (void)ron_buf_append_text(out, "{");
    RON_TRY(led_engine_resume(st->engine, out, err));
    return ron_buf_append_text(out, ",\"mode\":\"running\"}");
}

/* {"dir":"/path"}: a directory that is not there yet. */
static enum ron_rc snapshot(struct led_read_stage *st, const struct led_query *q,
                            struct ron_buf *out, struct ron_err *err)
{
    char dir[LED_ASK_TEXT_MAX];
    struct led_snapshot_done done = {0};
    enum ron_rc rc;

    RON_TRY(led_snapshot_read_dir((struct ron_str){q->text, q->text_len}, dir, sizeof dir, err));
    if (st->engine->dir[0] == '\0') {
        return ron_err_set(err, RON_CONFLICT, "a ledger in memory has nothing to link");
    }
    if (!led_engine_lease(st->engine)) {
        return ron_err_set(err, RON_AGAIN, "the journal is being opened anew");
    }
    rc = led_snapshot(st->engine, st->publish->signer, dir, &done, err);
    led_engine_unlease(st->engine);
    RON_TRY(rc);
    return ron_buf_append_fmt(out, "{\"seq\":%" PRIu64 ",\"segments\":%" PRIu64 "}", done.seq,
                              done.segments);
}

static enum ron_rc act(struct led_read_stage *st, const struct led_query *q, struct ron_buf *out,
                       struct ron_err *err)
{
    switch ((int)q->ask) {
    case LED_ASK_STATUS:
        write_status(st, out);
        return RON_OK;
    case LED_ASK_SAFE:
        led_engine_enter_safe(st->engine, "operator", q->text_len > 0 ? q->text : "asked to");
        return ron_buf_append_text(out, "{\"mode\":\"safe\"}");
    case LED_ASK_VERIFY:
        return verify(st, out, err);
    case LED_ASK_RESUME:
        return resume(st, out, err);
    case LED_ASK_SNAPSHOT:
        return snapshot(st, q, out, err);
    default:
        return ron_err_set(err, RON_INTERNAL, "not a question for the operator");
    }
}

static bool is_long(enum led_ask what)
{
    return what == LED_ASK_VERIFY || what == LED_ASK_RESUME || what == LED_ASK_SNAPSHOT;
}

/* What keeps a journal from being verified or opened is never the fault of who asked. */
static enum led_reason reason_of(enum led_ask what, enum ron_rc rc)
{
    switch ((int)rc) {
    case RON_CONFLICT:
    case RON_EXISTS:
        return LED_REASON_CONFLICT;
    case RON_AGAIN:
        return LED_REASON_BUSY;
    case RON_CORRUPT:
        return LED_REASON_SAFE_MODE;
    case RON_INVALID:
    case RON_NOTFOUND: /* the parent of a snapshot's directory */
    case RON_DENIED:
        return what == LED_ASK_SNAPSHOT ? LED_REASON_INVALID : LED_REASON_SAFE_MODE;
    default:
        return what == LED_ASK_RESUME ? LED_REASON_SAFE_MODE : LED_REASON_INTERNAL;
    }
}

void led_admin_serve(struct led_read_stage *st, struct led_query *q)
{
    struct ron_buf *out = led_reply_body(&q->reply);
    struct ron_err err = {0};
    uint32_t idle = 0;
    enum ron_rc rc;

    if (is_long(q->ask) && !ron_au32_cas(&st->admin_busy, &idle, 1)) {
        led_query_refuse(st->pipes->queries, q, LED_REASON_CONFLICT,
                         "another long operation is under way");
        return;
    }
    rc = act(st, q, out, &err);
    if (is_long(q->ask)) {
        ron_au32_store(&st->admin_busy, 0);
    }
    if (rc == RON_OK) {
        led_query_answer(st->pipes->queries, q, 200, "application/json");
        return;
    }
    ron_buf_clear(out);
    led_query_refuse(st->pipes->queries, q, reason_of(q->ask, rc), err.msg);
}
