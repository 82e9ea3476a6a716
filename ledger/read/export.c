/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/export.c - pulling an export: frames off the log, records, entries, pieces of text;
 * NDJSON.
 *
 *     BEGIN --head line--> RECORDS <--next record, end of it--> ENTRIES
 *                             |
 *                             +--no more frames, last line--> OVER
 *
 * Frames are taken off the log some hundreds at a time, because a scan reads ahead. One without
 * entries (tombstones alone) has no seq of its own: it is known by how many of them stand before
 * the next entry. */
#include "ledger/read/export_priv.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

bool led_export_format_parse(struct ron_str name, enum led_export_format *ret_format)
{
    if (ron_str_is(name, "ndjson")) {
        *ret_format = LED_EXPORT_NDJSON;
    } else if (ron_str_is(name, "hledger") || ron_str_is(name, "ledger")) {
        *ret_format = LED_EXPORT_HLEDGER;
    } else if (ron_str_is(name, "beancount")) {
        *ret_format = LED_EXPORT_BEANCOUNT;
    } else {
        return false;
    }
    return true;
}

const char *led_export_content_type(enum led_export_format format)
{
    return format == LED_EXPORT_NDJSON ? "application/x-ndjson" : "text/plain; charset=utf-8";
}

enum ron_rc led_export_new(const struct led_export_opts *opts, struct led_export **ret_export,
                           struct ron_err *err)
{
    uint64_t head = opts->reader->last_seq;
    uint64_t from = RON_MAX(opts->from_seq, (uint64_t)1);
    uint64_t to = opts->to_seq == 0 ? head : opts->to_seq;
    struct led_export *ex;

    if (to > head) {
        return ron_err_set(err, RON_NOTFOUND, "the last entry is %llu", (unsigned long long)head);
    }
    if (from > to + 1) {
        return ron_err_set(err, RON_INVALID, "the range ends before it begins");
    }
    ex = ron_alloc_zero(sizeof *ex);
    if (ex == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for an export");
    }
    ex->opts = *opts;
    ex->opts.from_seq = from;
    ex->opts.to_seq = to;
    ex->r = opts->reader;
    ex->next_seq = from;
    ex->last_seq = from - 1;
    ron_buf_init(&ex->bytes, LED_EXPORT_GATHER + LED_FRAME_MAX);
    ron_buf_init(&ex->out, LED_EXPORT_PENDING);
    *ret_export = ex;
    return RON_OK;
}

void led_export_free(struct led_export *ex)
{
    if (ex == NULL) {
        return;
    }
    ron_buf_done(&ex->bytes);
    ron_buf_done(&ex->out);
    ron_free(ex);
}

/* ---- frames ---------------------------------------------------------------------------------- */

struct taking {
    struct led_export *ex;
    uint64_t passed; /* frames without entries that were taken before */
    bool enough;
};

static enum ron_rc take_frame(void *arg, const struct led_frame *frame, const char *where,
                              struct ron_err *err)
{
    struct taking *t = arg;
    struct led_export *ex = t->ex;

    (void)where;
    if (frame->entries == 0 && frame->seq_first == ex->next_seq && t->passed < ex->empties) {
        t->passed++;
        return RON_OK;
    }
    if (frame->entries > 0 && frame->seq_first > ex->opts.to_seq) {
        t->enough = true;
        return ron_err_set(err, RON_CANCELLED, "behind the range");
    }
    ex->frames[ex->frame_count].frame = *frame;
    ex->frames[ex->frame_count].payload_at = ron_buf_len(&ex->bytes);
    if (ron_buf_append(&ex->bytes, frame->payload, frame->payload_len) != RON_OK) {
        return ron_err_set(err, ron_buf_error(&ex->bytes), "no room for a frame");
    }
    ex->frame_count++;
    if (frame->entries == 0 && frame->seq_first == ex->next_seq) {
        ex->empties++;
        t->passed++;
    } else {
        ex->next_seq = frame->seq_first + frame->entries;
        ex->empties = frame->entries == 0 ? 1 : 0;
        t->passed = ex->empties;
    }
    if (ex->frame_count == LED_EXPORT_FRAMES || ron_buf_len(&ex->bytes) >= LED_EXPORT_GATHER) {
        t->enough = true;
        return ron_err_set(err, RON_CANCELLED, "enough for now");
    }
    return RON_OK;
}

/* Takes more frames off the log; none at the end. */
static enum ron_rc take_frames(struct led_export *ex, struct ron_err *err)
{
    struct taking t = {.ex = ex};
    struct ron_err scan_err = {0};
    enum ron_rc rc;

    ex->frame_count = 0;
    ex->frame_next = 0;
    ron_buf_clear(&ex->bytes);
    /* One further than the last entry: tombstones may stand behind it. */
    rc =
        led_log_scan(ex->r->opts.log, ex->next_seq, ex->opts.to_seq + 1, take_frame, &t, &scan_err);
    if (rc == RON_OK || t.enough) {
        return RON_OK;
    }
    *err = scan_err;
    return led__read_checked(ex->r, rc, err);
}

static bool wanted(const struct led_export *ex, const struct led_record *record)
{
    if (record->kind == LED_RECORD_CANCEL) {
        return ex->opts.format == LED_EXPORT_NDJSON && record->seq_first >= ex->opts.from_seq &&
               record->seq_first <= ex->opts.to_seq + 1;
    }
    return record->seq_first >= ex->opts.from_seq && record->seq_first <= ex->opts.to_seq;
}

/* The next record of the range; false at the end. */
static enum ron_rc next_record(struct led_export *ex, bool *ret_found, struct ron_err *err)
{
    bool bad = false;

    for (;;) {
        while (led_records_next(&ex->records, &ex->record, &bad)) {
            if (wanted(ex, &ex->record)) {
                *ret_found = true;
                return RON_OK;
            }
        }
        if (bad) {
            return led__read_damage(ex->r, err, "a record behind entry %llu is not well formed",
                                    (unsigned long long)ex->last_seq);
        }
        if (ex->frame_next == ex->frame_count) {
            RON_TRY(take_frames(ex, err));
            if (ex->frame_count == 0) {
                *ret_found = false;
                return RON_OK;
            }
        }
        ex->frame = ex->frames[ex->frame_next].frame;
        ex->frame.payload = ron_buf_data(&ex->bytes) + ex->frames[ex->frame_next].payload_at;
        ex->frame_next++;
        led_records(&ex->frame, &ex->records);
    }
}

/* ---- NDJSON ---------------------------------------------------------------------------------- */

static void end_line(struct led_export *ex)
{
    ron_json_close(&ex->w, '}');
    RON_IGNORE(ron_buf_append_byte(&ex->out, '\n')); /* sticks */
}

static void begin_line(struct led_export *ex, const char *type)
{
    ron_json_begin(&ex->w, &ex->out);
    ron_json_open(&ex->w, NULL, '{');
    ron_json_text(&ex->w, "type", type);
}

static void json_begin(struct led_export *ex)
{
    static const char digits[] = "0123456789abcdef";
    struct led_log_head head;
    char uuid[2 * LED_UUID_SIZE];

    led_log_head(ex->r->opts.log, &head);
    for (size_t i = 0; i < LED_UUID_SIZE; i++) {
        uuid[2 * i] = digits[head.uuid[i] >> 4];
        uuid[2 * i + 1] = digits[head.uuid[i] & 15];
    }
    begin_line(ex, "ledger");
    ron_json_u64(&ex->w, "version", LED_VERSION);
    ron_json_str(&ex->w, "uuid", (struct ron_str){uuid, sizeof uuid});
    ron_json_u64(&ex->w, "from", ex->opts.from_seq);
    ron_json_u64(&ex->w, "to", ex->opts.to_seq);
    end_line(ex);
}

static void json_record(struct led_export *ex)
{
    const struct led_record *record = &ex->record;
    bool cancel = record->kind == LED_RECORD_CANCEL;

    begin_line(ex, cancel ? "cancel" : "batch");
    ron_json_u64(&ex->w, "seq", record->seq_first);
    ron_json_u64(&ex->w, "ts", record->now_ms);
    ron_json_u64(&ex->w, "commit_ts", ex->frame.time_ms);
    if (record->idem_id.len != 0) {
        ron_json_str(&ex->w, "idem_id", record->idem_id);
    }
    if ((record->flags & LED_RECORD_IMPORT) != 0) {
        ron_json_bool(&ex->w, "imported", true);
    }
    if ((record->flags & LED_RECORD_OWN) != 0) {
        ron_json_bool(&ex->w, "own", true);
    }
    if (!cancel) {
        ron_json_open(&ex->w, "batch", '[');
    }
}

static enum ron_rc json_end(struct led_export *ex, struct ron_err *err)
{
    struct ron_tree_hash root;

    RON_TRY(led_read_root(ex->r, ex->last_seq, &root, err));
    begin_line(ex, "end");
    ron_json_u64(&ex->w, "seq", ex->last_seq);
    led__read_json_hash(&ex->w, "root", &root);
    ron_json_u64(&ex->w, "batches", ex->batch_count);
    ron_json_u64(&ex->w, "entries", ex->entry_count);
    ron_json_u64(&ex->w, "cancels", ex->cancel_count);
    end_line(ex);
    return RON_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static enum ron_rc step_record(struct led_export *ex, struct ron_err *err)
{
    bool found = false;

    RON_TRY(next_record(ex, &found, err));
    if (!found) {
        ex->state = LED_EXPORT_OVER;
        return ex->opts.format == LED_EXPORT_NDJSON ? json_end(ex, err) : RON_OK;
    }
    if (ex->opts.format == LED_EXPORT_NDJSON) {
        json_record(ex);
    }
    if (ex->record.kind == LED_RECORD_CANCEL) {
        ex->cancel_count++;
        end_line(ex);
        return RON_OK;
    }
    ex->batch_count++;
    led_entries(&ex->record, &ex->entries);
    ex->state = LED_EXPORT_ENTRIES;
    return RON_OK;
}

static enum ron_rc step_entry(struct led_export *ex, struct ron_err *err)
{
    struct led_refusal refusal = {0};
    struct led_stored stored;
    struct led_entry entry;
    bool bad = false;

    if (!led_entries_next(&ex->entries, &stored, &bad)) {
        if (bad) {
            return led__read_damage(ex->r, err, "the entry behind %llu is not well formed",
                                    (unsigned long long)ex->last_seq);
        }
        if (ex->opts.format == LED_EXPORT_NDJSON) {
            ron_json_close(&ex->w, ']');
            end_line(ex);
        }
        ex->state = LED_EXPORT_RECORDS;
        return RON_OK;
    }
    if (!led_entry_decode((const uint8_t *)stored.leaf.ptr, stored.leaf.len, LED_ORIGIN_LEDGER,
                          &entry, &refusal)) {
        return led__read_damage(ex->r, err, "entry %llu breaks a rule: %s: %s",
                                (unsigned long long)stored.seq, refusal.member, refusal.detail);
    }
    ex->last_seq = stored.seq;
    ex->entry_count++;
    if (ex->opts.format == LED_EXPORT_NDJSON) {
        led_entry_to_json(&ex->w, NULL, &entry, 0);
        return RON_OK;
    }
    return led__export_text_entry(ex, stored.seq, &entry, &stored.links, err);
}

/* The range ends with the last batch that begins in it: with its last entry, or, when none does,
 * before it begins. So the first line and the last one agree wherever `to` lies. */
static enum ron_rc settle_end(struct led_export *ex, struct ron_err *err)
{
    struct led_found found;

    if (ex->opts.to_seq < ex->opts.from_seq) {
        return RON_OK;
    }
    RON_TRY(led_read_at(ex->r, ex->opts.to_seq, &found, err));
    ex->opts.to_seq = found.record.seq_first < ex->opts.from_seq
                          ? ex->opts.from_seq - 1
                          : found.record.seq_first + found.record.count - 1;
    return RON_OK;
}

static enum ron_rc step(struct led_export *ex, struct ron_err *err)
{
    switch (ex->state) {
    case LED_EXPORT_BEGIN:
        RON_TRY(settle_end(ex, err));
        if (ex->opts.format == LED_EXPORT_NDJSON) {
            json_begin(ex);
        } else {
            led__export_text_begin(ex);
        }
        ex->state = LED_EXPORT_RECORDS;
        return RON_OK;
    case LED_EXPORT_RECORDS:
        return step_record(ex, err);
    case LED_EXPORT_ENTRIES:
        return step_entry(ex, err);
    case LED_EXPORT_OVER:
        break;
    }
    RON_UNREACHABLE();
}

enum ron_rc led_export_next(struct led_export *ex, void *piece, size_t size, size_t *ret_len,
                            struct ron_err *err)
{
    size_t len;

    while (ex->rc == RON_OK && ron_buf_len(&ex->out) < RON_MIN(size, (size_t)LED_EXPORT_PIECE) &&
           ex->state != LED_EXPORT_OVER) {
        ex->rc = step(ex, &ex->err);
        if (ex->rc == RON_OK && ron_buf_error(&ex->out) != RON_OK) {
            ex->rc = ron_err_set(&ex->err, ron_buf_error(&ex->out), "no room for the text");
        }
    }
    if (ex->rc != RON_OK) {
        if (err != NULL) {
            *err = ex->err;
        }
        return ex->rc;
    }
    len = RON_MIN(size, ron_buf_len(&ex->out));
    memcpy(piece, ron_buf_data(&ex->out), len);
    ron_buf_consume(&ex->out, len);
    *ret_len = len;
    return RON_OK;
}

void led_export_at(const struct led_export *ex, uint64_t *ret_seq, uint64_t *ret_last_seq)
{
    *ret_seq = ex->last_seq;
    *ret_last_seq = ex->opts.to_seq;
}
