/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/reader.c - the reader: its frame and map, entries by seq and id, pages of roots. */
#include "ledger/read/priv.h"

#include <stdarg.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"

enum ron_rc led_reader_new(const struct led_reader_opts *opts, struct led_reader **ret_reader)
{
    struct led_reader *r = ron_alloc_zero(sizeof *r);

    if (r == NULL) {
        return RON_NOMEM;
    }
    r->opts = *opts;
    if (r->opts.steps_max == 0) {
        r->opts.steps_max = LED_READ_STEPS;
    }
    ron_buf_init(&r->room, LED_FRAME_MAX);
    *ret_reader = r;
    return RON_OK;
}

void led_reader_free(struct led_reader *r)
{
    if (r == NULL) {
        return;
    }
    ron_buf_done(&r->room);
    ron_free(r->entries);
    ron_free(r->records);
    ron_free(r);
}

void led_reader_set_head(struct led_reader *r, uint64_t last_seq, const struct ron_tree_hash *root)
{
    r->last_seq = last_seq;
    r->root = *root;
}

/* ---- failures -------------------------------------------------------------------------------- */

struct ron_err *led__read_err(struct led_reader *r, struct ron_err *err)
{
    if (err != NULL) {
        return err;
    }
    r->spare = (struct ron_err){0};
    return &r->spare;
}

enum ron_rc led__read_checked(struct led_reader *r, enum ron_rc rc, struct ron_err *err)
{
    if ((rc == RON_CORRUPT || rc == RON_IO) && r->opts.damaged != NULL) {
        r->opts.damaged(r->opts.arg, rc, err);
    }
    return rc;
}

enum ron_rc led__read_damage(struct led_reader *r, struct ron_err *err, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    RON_IGNORE(ron_err_vset_at(err, __func__, RON_CORRUPT, 0, fmt, args));
    va_end(args);
    return led__read_checked(r, RON_CORRUPT, err);
}

enum ron_rc led__read_finish(struct led_reader *r, struct ron_buf *out, size_t mark, enum ron_rc rc,
                             struct ron_err *err)
{
    if (rc == RON_OK && ron_buf_error(out) != RON_OK) {
        rc = ron_err_set(err, ron_buf_error(out), "the answer does not fit");
    }
    if (rc != RON_OK) {
        out->len = mark;
        r->has_frame = r->has_frame && rc != RON_CORRUPT;
    }
    return rc;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Room for the map of the present frame. Counts are bounded by the length of a frame. */
static enum ron_rc reserve_map(struct led_reader *r, struct ron_err *err)
{
    void *grown;

    if (r->frame.entries > r->entries_cap) {
        grown = ron_realloc_array(r->entries, r->frame.entries, sizeof *r->entries);
        if (grown == NULL) {
            return ron_err_set(err, RON_NOMEM, "no memory for the map of a frame");
        }
        r->entries = grown;
        r->entries_cap = r->frame.entries;
    }
    if (r->frame.records > r->records_cap) {
        grown = ron_realloc_array(r->records, r->frame.records, sizeof *r->records);
        if (grown == NULL) {
            return ron_err_set(err, RON_NOMEM, "no memory for the map of a frame");
        }
        r->records = grown;
        r->records_cap = r->frame.records;
    }
    return RON_OK;
}

/* Notes where records and entries begin. False when they are not what the frame's head says. */
static bool map_frame(struct led_reader *r)
{
    const struct led_frame *f = &r->frame;
    struct led_cursor records;
    struct led_cursor entries;
    struct led_record record;
    struct led_stored stored;
    uint32_t entry_count = 0;
    uint32_t record_count = 0;
    bool bad = false;

    led_records(f, &records);
    for (;;) {
        uint32_t at = (uint32_t)(records.at - f->payload);

        if (!led_records_next(&records, &record, &bad)) {
            break;
        }
        if (record_count == f->records) {
            return false;
        }
        r->records[record_count++] = (struct led_read_record){.at = at, .first = entry_count};
        led_entries(&record, &entries);
        for (;;) {
            at = (uint32_t)(entries.at - f->payload);
            if (!led_entries_next(&entries, &stored, &bad)) {
                break;
            }
            if (entry_count == f->entries) {
                return false;
            }
            r->entries[entry_count++] = at;
        }
        if (bad) {
            return false;
        }
    }
    return !bad && entry_count == f->entries && record_count == f->records;
}

static enum ron_rc load_frame(struct led_reader *r, uint64_t seq, struct ron_err *err)
{
    enum ron_rc rc;

    if (r->has_frame && seq >= r->frame.seq_first && seq - r->frame.seq_first < r->frame.entries) {
        return RON_OK;
    }
    r->has_frame = false;
    ron_buf_clear(&r->room);
    rc = led_log_read(r->opts.log, seq, &r->room, &r->frame, err);
    if (rc != RON_OK) {
        return led__read_checked(r, rc, err);
    }
    RON_TRY(reserve_map(r, err));
    if (!map_frame(r)) {
        return led__read_damage(r, err, "the frame that holds entry %llu is not well formed",
                                (unsigned long long)seq);
    }
    r->has_frame = true;
    return RON_OK;
}

/* The record that holds entry `idx` of the frame: the last one that begins at or before it. Records
 * without entries begin where the next one does, and stand before it. */
static void find_record(const struct led_reader *r, uint32_t idx, struct led_record *ret)
{
    const struct led_frame *f = &r->frame;
    size_t low = 0;
    size_t high = f->records;
    struct led_cursor cursor;
    bool bad = false;
    bool found;

    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;

        if (r->records[mid].first <= idx) {
            low = mid;
        } else {
            high = mid;
        }
    }
    cursor = (struct led_cursor){.at = f->payload + r->records[low].at,
                                 .end = f->payload + f->payload_len,
                                 .seq = f->seq_first + r->records[low].first,
                                 .left = 1};
    found = led_records_next(&cursor, ret, &bad);
    RON_ASSERT(found && !bad); /* map_frame has read it */
}

static void find_entry(const struct led_reader *r, uint32_t idx, struct led_stored *ret)
{
    const struct led_frame *f = &r->frame;
    struct led_cursor cursor = {.at = f->payload + r->entries[idx],
                                .end = f->payload + f->payload_len,
                                .seq = f->seq_first + idx,
                                .left = 1};
    bool bad = false;
    bool found = led_entries_next(&cursor, ret, &bad);

    RON_ASSERT(found && !bad); /* map_frame has read it */
}

enum ron_rc led__read_stored(struct led_reader *r, uint64_t seq, struct led_found *ret,
                             struct ron_err *err)
{
    struct led_refusal refusal = {0};
    uint32_t idx;

    if (seq == 0) {
        return ron_err_set(err, RON_INVALID, "entries are counted from 1");
    }
    RON_TRY(load_frame(r, seq, err));
    idx = (uint32_t)(seq - r->frame.seq_first);
    find_entry(r, idx, &ret->stored);
    find_record(r, idx, &ret->record);
    ret->frame = r->frame;
    if (!led_entry_decode((const uint8_t *)ret->stored.leaf.ptr, ret->stored.leaf.len,
                          LED_ORIGIN_LEDGER, &ret->entry, &refusal)) {
        r->has_frame = false;
        return led__read_damage(r, err, "entry %llu breaks a rule: %s: %s", (unsigned long long)seq,
                                refusal.member, refusal.detail);
    }
    return RON_OK;
}

enum ron_rc led_read_at(struct led_reader *r, uint64_t seq, struct led_found *ret,
                        struct ron_err *err)
{
    struct led_found found = {0};

    err = led__read_err(r, err);
    if (seq > r->last_seq) {
        return ron_err_set(err, RON_NOTFOUND, "the last entry is %llu",
                           (unsigned long long)r->last_seq);
    }
    RON_TRY(led__read_stored(r, seq, &found, err));
    *ret = found;
    return RON_OK;
}

/* ---- by id ----------------------------------------------------------------------------------- */

struct led_key led__read_key(const struct led_reader *r, struct ron_str text)
{
    struct led_prep prep;

    led_book_prepare(r->opts.hash_key, &(const struct led_entry){.account = text}, &prep);
    return prep.account;
}

enum ron_rc led__read_indexed(struct led_reader *r, enum led_index_kind kind, struct ron_str text,
                              uint64_t ret_seqs[LED_INDEX_FOUND_MAX], size_t *ret_count,
                              struct ron_err *err)
{
    struct led_key key;

    *ret_count = 0;
    if (r->opts.index == NULL) {
        return RON_OK;
    }
    key = led__read_key(r, text);
    if (!led_index_maybe(r->opts.index, kind, key, text)) {
        return RON_OK;
    }
    return led_index_find(r->opts.index, kind, key, ret_seqs, ret_count, err);
}

/* The first of these seqs whose entry has the id; 0: none. */
static enum ron_rc match_id(struct led_reader *r, struct ron_str id, const uint64_t *seqs,
                            size_t count, uint64_t *ret_seq, struct ron_err *err)
{
    struct led_found found;

    *ret_seq = 0;
    for (size_t i = 0; i < count; i++) {
        if (seqs[i] == 0 || seqs[i] > r->last_seq) {
            continue;
        }
        RON_TRY(led__read_stored(r, seqs[i], &found, err));
        if (ron_str_equal(found.entry.id, id)) {
            *ret_seq = seqs[i];
            break;
        }
    }
    return RON_OK;
}

enum ron_rc led_read_find(struct led_reader *r, struct ron_str id, struct led_candidates candidates,
                          uint64_t *ret_seq, struct ron_err *err)
{
    uint64_t indexed[LED_INDEX_FOUND_MAX];
    size_t count = 0;
    uint64_t seq = 0;

    err = led__read_err(r, err);
    if (!led_token_valid(id)) {
        return ron_err_set(err, RON_INVALID, "an id has 1-128 printable ASCII characters");
    }
    RON_TRY(match_id(r, id, candidates.seqs, candidates.count, &seq, err));
    if (seq == 0) {
        RON_TRY(led__read_indexed(r, LED_INDEX_ID, id, indexed, &count, err));
        RON_TRY(match_id(r, id, indexed, count, &seq, err));
    }
    if (seq == 0) {
        return ron_err_set(err, RON_NOTFOUND, "no entry has that id");
    }
    *ret_seq = seq;
    return RON_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void led__read_json_hash(struct ron_json_writer *w, const char *name,
                         const struct ron_tree_hash *hash)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * RON_TREE_HASH_BYTES];

    for (size_t i = 0; i < RON_TREE_HASH_BYTES; i++) {
        text[2 * i] = digits[hash->bytes[i] >> 4];
        text[2 * i + 1] = digits[hash->bytes[i] & 15];
    }
    ron_json_str(w, name, (struct ron_str){text, sizeof text});
}

static void write_side(struct ron_json_writer *w, const char *name, const struct led_side *side)
{
    ron_json_open(w, name, '{');
    ron_json_u64(w, "prev_seq", side->prev_seq);
    ron_json_money(w, "available", side->available);
    ron_json_money(w, "held", side->held);
    ron_json_close(w, '}');
}

static void write_found(struct ron_json_writer *w, const struct led_found *found)
{
    const struct led_record *record = &found->record;
    const struct led_frame *frame = &found->frame;

    ron_json_open(w, NULL, '{');
    led_entry_to_json(w, "entry", &found->entry, found->stored.seq);
    ron_json_open(w, "links", '{');
    write_side(w, "account", &found->stored.links.account);
    if (found->stored.links.has_to) {
        write_side(w, "to", &found->stored.links.to);
    }
    ron_json_close(w, '}');
    ron_json_open(w, "batch", '{');
    ron_json_u64(w, "seq_start", record->seq_first);
    ron_json_u64(w, "seq_end", record->seq_first + record->count - 1);
    ron_json_u64(w, "ts", record->now_ms);
    if (record->idem_id.len != 0) {
        ron_json_str(w, "idem_id", record->idem_id);
    }
    ron_json_bool(w, "imported", (record->flags & LED_RECORD_IMPORT) != 0);
    ron_json_close(w, '}');
    ron_json_open(w, "commit", '{');
    ron_json_u64(w, "seq_start", frame->seq_first);
    ron_json_u64(w, "seq_end", frame->seq_first + frame->entries - 1);
    ron_json_u64(w, "ts", frame->time_ms);
    led__read_json_hash(w, "root", &frame->new_root);
    ron_json_close(w, '}');
    ron_json_close(w, '}');
}

enum ron_rc led_read_entry(struct led_reader *r, uint64_t seq, struct ron_buf *out,
                           struct ron_err *err)
{
    size_t mark = ron_buf_len(out);
    struct ron_json_writer w;
    struct led_found found = {0};

    err = led__read_err(r, err);
    RON_TRY(led_read_at(r, seq, &found, err));
    ron_json_begin(&w, out);
    write_found(&w, &found);
    return led__read_finish(r, out, mark, RON_OK, err);
}

enum ron_rc led_read_entry_by_id(struct led_reader *r, struct ron_str id,
                                 struct led_candidates candidates, struct ron_buf *out,
                                 struct ron_err *err)
{
    uint64_t seq = 0;

    err = led__read_err(r, err);
    RON_TRY(led_read_find(r, id, candidates, &seq, err));
    return led_read_entry(r, seq, out, err);
}

/* ---- roots ----------------------------------------------------------------------------------- */

struct roots {
    struct ron_json_writer w;
    uint64_t last_seq; /* of the head */
    uint64_t next;
    uint32_t left;
    bool full;
};

static enum ron_rc see_root(void *arg, const struct led_frame *frame, const char *where,
                            struct ron_err *err)
{
    struct roots *page = arg;
    uint64_t seq = frame->seq_first + frame->entries - 1;

    (void)where;
    if (frame->entries == 0) {
        return RON_OK;
    }
    if (page->left == 0 || seq > page->last_seq) {
        page->full = true;
        return ron_err_set(err, RON_CANCELLED, "the page is full");
    }
    page->left--;
    page->next = seq;
    ron_json_open(&page->w, NULL, '{');
    ron_json_u64(&page->w, "seq", seq);
    led__read_json_hash(&page->w, "root", &frame->new_root);
    ron_json_u64(&page->w, "ts", frame->time_ms);
    ron_json_close(&page->w, '}');
    return RON_OK;
}

enum ron_rc led_read_roots(struct led_reader *r, uint64_t since, uint32_t limit,
                           struct ron_buf *out, struct ron_err *err)
{
    struct roots page = {.last_seq = r->last_seq, .next = since, .left = limit};
    struct ron_err scan_err = {0};
    size_t mark = ron_buf_len(out);
    enum ron_rc rc = RON_OK;

    err = led__read_err(r, err);
    if (limit == 0 || limit > LED_PAGE_MAX) {
        return ron_err_set(err, RON_INVALID, "limit is 1 to %d", LED_PAGE_MAX);
    }
    ron_json_begin(&page.w, out);
    ron_json_open(&page.w, NULL, '{');
    ron_json_open(&page.w, "roots", '[');
    if (since < r->last_seq) {
        rc = led_log_scan(r->opts.log, since + 1, r->last_seq, see_root, &page, &scan_err);
    }
    if (rc != RON_OK && !page.full) {
        *err = scan_err;
        return led__read_finish(r, out, mark, led__read_checked(r, rc, err), err);
    }
    ron_json_close(&page.w, ']');
    ron_json_u64(&page.w, "next", page.next);
    ron_json_close(&page.w, '}');
    return led__read_finish(r, out, mark, RON_OK, err);
}
