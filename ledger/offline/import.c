/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/offline/import.c - lines of an export into works; the contract is in import.h.
 *
 * A line is scanned twice: first its own members, with the batch kept as raw text; then the batch
 * by the reader of requests, for which the bytes around that text are made into {"batch": and }. A
 * member takes at least that many bytes before and behind its value, so nothing else is hit. */
#include "ledger/offline/import.h"

#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"

struct led_import {
    uint8_t hash_key[16];
    struct ron_buf in;
    size_t searched; /* bytes of `in` without a newline */
    uint64_t line;   /* number of the last line taken */
    bool has_head;
    bool has_end;
    bool broken;
    struct led_import_end so_far; /* root: at the end */
    uint64_t to;                  /* what the head promised */
};

struct line {
    struct ron_str type;
    uint64_t version;
    struct ron_str uuid;
    uint64_t from;
    uint64_t to;
    uint64_t seq;
    uint64_t ts;
    uint64_t commit_ts;
    struct ron_str idem_id;
    bool imported;
    bool own;
    struct ron_str batch;
    struct ron_str root;
    uint64_t batches;
    uint64_t entries;
    uint64_t cancels;
    uint64_t present;
};

enum {
    HAS_TYPE = 1 << 0,
    HAS_VERSION = 1 << 1,
    HAS_UUID = 1 << 2,
    HAS_FROM = 1 << 3,
    HAS_TO = 1 << 4,
    HAS_SEQ = 1 << 5,
    HAS_TS = 1 << 6,
    HAS_COMMIT_TS = 1 << 7,
    HAS_IDEM_ID = 1 << 8,
    HAS_IMPORTED = 1 << 9,
    HAS_OWN = 1 << 10,
    HAS_BATCH = 1 << 11,
    HAS_ROOT = 1 << 12,
    HAS_BATCHES = 1 << 13,
    HAS_ENTRIES = 1 << 14,
    HAS_CANCELS = 1 << 15,

    HEAD = HAS_TYPE | HAS_VERSION | HAS_UUID | HAS_FROM | HAS_TO,
    RECORD = HAS_TYPE | HAS_SEQ | HAS_TS | HAS_COMMIT_TS,
    END = HAS_TYPE | HAS_SEQ | HAS_ROOT | HAS_BATCHES | HAS_ENTRIES | HAS_CANCELS,
};

/* In the order of the bits. */
static const struct ron_json_field fields[] = {
    RON_JSON_FIELD(struct line, type, STRING, .required = true),
    RON_JSON_FIELD(struct line, version, U64, .max = 0),
    RON_JSON_FIELD(struct line, uuid, STRING, .max = 32),
    RON_JSON_FIELD(struct line, from, U64, .max = 0),
    RON_JSON_FIELD(struct line, to, U64, .max = 0),
    RON_JSON_FIELD(struct line, seq, U64, .max = 0),
    RON_JSON_FIELD(struct line, ts, U64, .max = LED_TIME_MAX_MS),
    RON_JSON_FIELD(struct line, commit_ts, U64, .max = LED_TIME_MAX_MS),
    RON_JSON_FIELD(struct line, idem_id, STRING, .max = LED_ID_MAX),
    RON_JSON_FIELD(struct line, imported, BOOL, .max = 0),
    RON_JSON_FIELD(struct line, own, BOOL, .max = 0),
    RON_JSON_FIELD(struct line, batch, RAW, .max = 0),
    RON_JSON_FIELD(struct line, root, STRING, .max = 64),
    RON_JSON_FIELD(struct line, batches, U64, .max = 0),
    RON_JSON_FIELD(struct line, entries, U64, .max = 0),
    RON_JSON_FIELD(struct line, cancels, U64, .max = 0),
};
static const struct ron_json_shape shape = RON_JSON_SHAPE(struct line, fields, present);

enum ron_rc led_import_new(const uint8_t hash_key[16], struct led_import **ret_import)
{
    struct led_import *imp = ron_alloc_zero(sizeof *imp);

    if (imp == NULL) {
        return RON_NOMEM;
    }
    memcpy(imp->hash_key, hash_key, sizeof imp->hash_key);
    ron_buf_init(&imp->in, (size_t)2 * LED_IMPORT_LINE_MAX);
    *ret_import = imp;
    return RON_OK;
}

void led_import_free(struct led_import *imp)
{
    if (imp == NULL) {
        return;
    }
    ron_buf_done(&imp->in);
    ron_free(imp);
}

static enum ron_rc invalid(struct led_import *imp, struct ron_err *err, const char *what,
                           const char *detail)
{
    imp->broken = true;
    return ron_err_set(err, RON_INVALID, "line %llu: %s%s%s", (unsigned long long)imp->line, what,
                       what[0] != '\0' && detail[0] != '\0' ? ": " : "", detail);
}

/* Length of the first line, without its newline; SIZE_MAX when there is no whole one. */
static size_t line_length(const struct led_import *imp)
{
    const uint8_t *data = ron_buf_data(&imp->in);
    const uint8_t *end = NULL;

    if (ron_buf_len(&imp->in) > imp->searched) {
        end = memchr(data + imp->searched, '\n', ron_buf_len(&imp->in) - imp->searched);
    }
    return end == NULL ? SIZE_MAX : (size_t)(end - data);
}

enum ron_rc led_import_push(struct led_import *imp, const void *bytes, size_t len,
                            struct ron_err *err)
{
    if (line_length(imp) == SIZE_MAX) {
        imp->searched = ron_buf_len(&imp->in);
        if (imp->searched > LED_IMPORT_LINE_MAX) {
            imp->line++;
            imp->broken = true;
            return ron_err_set(err, RON_LIMIT, "line %llu has more than %d bytes",
                               (unsigned long long)imp->line, LED_IMPORT_LINE_MAX);
        }
    }
    if (ron_buf_append(&imp->in, bytes, len) != RON_OK) {
        enum ron_rc rc = ron_buf_error(&imp->in);

        imp->broken = true;
        return ron_err_set(err, rc, "no room for %zu more bytes: take the lines first", len);
    }
    return RON_OK;
}

/* ---- works ----------------------------------------------------------------------------------- */

/* The shortest entry of a line has more bytes than this; so a line tells how many there may be. */
enum { ENTRY_TEXT_MIN = 100 };

size_t led_import_arena_size(const struct led_import *imp)
{
    size_t len = line_length(imp);
    size_t entries;

    if (len == SIZE_MAX) {
        return 0;
    }
    entries = RON_MIN(len / ENTRY_TEXT_MIN + 1, (size_t)LED_BATCH_BIN_MAX);
    /* The line, what it is scanned into, leaves that are shorter than their JSON, and the arrays
     * with a NUL or some alignment each. */
    return 2 * len + led_batch_json_long_arena_size(entries) +
           entries * (sizeof(struct ron_str) + sizeof(struct ron_tree_hash) +
                      sizeof(struct led_prep) + sizeof(struct led_links) + LED_ENTRY_BYTES_MIN) +
           1024;
}

static enum ron_rc no_room(struct led_import *imp, struct ron_err *err)
{
    imp->broken = true;
    return ron_err_set(err, RON_LIMIT, "line %llu: the arena of the work is too small",
                       (unsigned long long)imp->line);
}

static enum ron_rc fill_arrays(struct led_import *imp, struct led_work *w, struct ron_err *err)
{
    size_t count = w->batch.count;
    struct ron_arena *arena = &w->arena;
    size_t total = 0;
    uint8_t *bytes;

    for (size_t i = 0; i < count; i++) {
        total += led_entry_size(&w->batch.entries[i]);
    }
    bytes = ron_arena_alloc(arena, total, 1);
    w->leaves = ron_arena_alloc_array(arena, count, sizeof *w->leaves, _Alignof(struct ron_str));
    w->hashes = ron_arena_alloc_array(arena, count, sizeof *w->hashes, 1);
    w->preps = ron_arena_alloc_array(arena, count, sizeof *w->preps, _Alignof(struct led_prep));
    w->links = ron_arena_alloc_array(arena, count, sizeof *w->links, _Alignof(struct led_links));
    if (ron_arena_overflowed(arena)) {
        return no_room(imp, err);
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t *end = led_entry_encode(&w->batch.entries[i], bytes);

        w->leaves[i] = (struct ron_str){(const char *)bytes, (size_t)(end - bytes)};
        ron_tree_hash_leaf(bytes, (size_t)(end - bytes), &w->hashes[i]);
        led_book_prepare(imp->hash_key, &w->batch.entries[i], &w->preps[i]);
        /* Told apart from other bodies in flight by any mix of the leaf hashes. */
        w->body_print = w->body_print * UINT64_C(0x9e3779b97f4a7c15) ^
                        ((uint64_t)w->hashes[i].bytes[0] << 56 | w->hashes[i].bytes[7]);
        bytes = end;
    }
    return RON_OK;
}

static void fill_idem(const struct led_import *imp, struct led_work *w, struct ron_str idem_id)
{
    struct led_prep prep;

    w->batch.idem_id = idem_id;
    if (idem_id.len != 0) {
        led_book_prepare(imp->hash_key, &(const struct led_entry){.id = idem_id}, &prep);
        w->idem = prep.id;
    }
}

static enum ron_rc fill_batch(struct led_import *imp, char *text, const struct line *line,
                              struct led_work *w, struct ron_err *err)
{
    static const char before[] = "{\"batch\":";
    enum led_origin origin = line->own ? LED_ORIGIN_LEDGER : LED_ORIGIN_CALLER;
    struct led_refusals refusals;
    char what[64];

    text += (line->batch.ptr - text) - (ptrdiff_t)(sizeof before - 1);
    memcpy(text, before, sizeof before - 1);
    text[sizeof before - 1 + line->batch.len] = '}';
    if (!led_batch_from_json_long(text, sizeof before + line->batch.len, origin, &w->arena,
                                  &w->batch, &refusals)) {
        (void)snprintf(what, sizeof what, "entry %u: %s", refusals.items[0].idx,
                       refusals.items[0].member);
        return invalid(imp, err, what, refusals.items[0].detail);
    }
    return fill_arrays(imp, w, err);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static enum ron_rc read_head(struct led_import *imp, const struct line *line, struct ron_err *err)
{
    if (line->present != HEAD) {
        return invalid(imp, err, "no head of an export", "");
    }
    if (line->version != LED_VERSION) {
        return invalid(imp, err, "version", "must be 1");
    }
    if (line->from != 1) {
        return invalid(imp, err, "from", "only an export from the first entry on can be imported");
    }
    imp->to = line->to;
    imp->has_head = true;
    return RON_OK;
}

static bool read_root(struct ron_str text, struct ron_tree_hash *ret_root)
{
    if (text.len != (size_t)2 * RON_TREE_HASH_BYTES) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        unsigned digit;

        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (unsigned)(c - 'a') + 10;
        } else {
            return false;
        }
        ret_root->bytes[i / 2] =
            (uint8_t)(i % 2 == 0 ? digit << 4 : ret_root->bytes[i / 2] | digit);
    }
    return true;
}

static enum ron_rc read_end(struct led_import *imp, const struct line *line, struct ron_err *err)
{
    const struct led_import_end *so_far = &imp->so_far;
    struct ron_tree_hash root;

    if (line->present != END || !read_root(line->root, &root)) {
        return invalid(imp, err, "no end of an export", "");
    }
    if (line->seq != so_far->seq_last || line->seq != imp->to || line->batches != so_far->batches ||
        line->entries != so_far->entries || line->cancels != so_far->cancels) {
        return invalid(imp, err, "the end", "other numbers than the lines before");
    }
    imp->so_far.root = root;
    imp->has_end = true;
    return RON_OK;
}

static enum ron_rc read_record(struct led_import *imp, char *text, const struct line *line,
                               struct led_work *w, struct ron_err *err)
{
    bool cancel = ron_str_is(line->type, "cancel");
    uint64_t must = cancel ? RECORD | HAS_IDEM_ID : RECORD | HAS_BATCH;
    uint64_t may = must | HAS_IMPORTED | (cancel ? 0 : HAS_IDEM_ID | HAS_OWN);

    if (!cancel && !ron_str_is(line->type, "batch")) {
        return invalid(imp, err, "type", "ledger, batch, cancel or end");
    }
    if ((line->present & must) != must || (line->present & ~may) != 0) {
        return invalid(imp, err, "a member is missing or has no place here", "");
    }
    if (line->seq != imp->so_far.seq_last + 1) {
        return invalid(imp, err, "seq", "does not follow the line before");
    }
    if ((line->present & HAS_IDEM_ID) != 0 && !led_token_valid(line->idem_id)) {
        return invalid(imp, err, "idem_id", "1-128 printable ASCII characters");
    }
    w->magic = LED_WORK_MAGIC;
    /* It was allowed then. */
    w->flags = LED_APPLY_IMPORT | LED_APPLY_REVERSIBLE | LED_APPLY_NONCE_AGAIN;
    w->now_ms = line->ts;
    w->kind = LED_WORK_CANCEL;
    if (cancel) {
        imp->so_far.cancels++;
    } else {
        w->kind = line->own ? LED_WORK_EXPIRE : LED_WORK_INGEST;
        RON_TRY(fill_batch(imp, text, line, w, err));
        imp->so_far.batches++;
        imp->so_far.entries += w->batch.count;
        imp->so_far.seq_last += w->batch.count;
    }
    fill_idem(imp, w, line->idem_id);
    return RON_OK;
}

static enum ron_rc read_line(struct led_import *imp, char *text, size_t len, struct led_work *w,
                             enum led_import_step *ret_step, struct ron_err *err)
{
    struct line line = {0};
    struct ron_json_error json_err = {0};

    if (imp->has_end) {
        return invalid(imp, err, "something follows the end", "");
    }
    if (ron_json_scan(text, len, &shape, &w->arena, &line, &json_err) != RON_OK) {
        return invalid(imp, err, json_err.field, json_err.reason);
    }
    *ret_step = LED_IMPORT_MORE;
    if (!imp->has_head) {
        return ron_str_is(line.type, "ledger") ? read_head(imp, &line, err)
                                               : invalid(imp, err, "no head of an export", "");
    }
    if (ron_str_is(line.type, "end")) {
        *ret_step = LED_IMPORT_END;
        return read_end(imp, &line, err);
    }
    *ret_step = LED_IMPORT_WORK;
    return read_record(imp, text, &line, w, err);
}

enum ron_rc led_import_next(struct led_import *imp, struct led_work *w,
                            enum led_import_step *ret_step, struct ron_err *err)
{
    enum led_import_step step = LED_IMPORT_MORE;
    size_t len = line_length(imp);
    char *text;

    if (imp->broken) {
        return ron_err_set(err, RON_INVALID, "the import ended at line %llu",
                           (unsigned long long)imp->line);
    }
    if (len != SIZE_MAX) {
        imp->line++;
        text = ron_arena_dup(&w->arena, ron_buf_data(&imp->in), len);
        if (text == NULL) {
            return no_room(imp, err);
        }
        ron_buf_consume(&imp->in, len + 1);
        imp->searched = 0;
        RON_TRY(read_line(imp, text, len, w, &step, err));
    }
    *ret_step = step;
    return RON_OK;
}

enum ron_rc led_import_end(const struct led_import *imp, struct led_import_end *ret,
                           struct ron_err *err)
{
    if (!imp->has_end || imp->broken) {
        return ron_err_set(err, RON_NOTFOUND, "the file was cut, or did not end with its end");
    }
    *ret = imp->so_far;
    return RON_OK;
}
