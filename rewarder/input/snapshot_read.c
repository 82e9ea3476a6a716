/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/snapshot_read.c - reading a snapshot in pieces.
 *
 * The text is cut where rows begin and end, and nothing more: what is outside of rows is collected
 * as the head, a document of two or three members with an empty array in place of the rows, and
 * each row is a text of its own. The kernel's scanner then reads head and rows, so what JSON is is
 * said there alone.
 *
 *     {"produced_at_millis":1,"contributions":[ {...} , {...} ],"pool_minor_units":"7"}
 *     |--------------- head -----------------| |row|   |row|  |--------- head --------|
 *
 *                                      HEAD --'['--> ROW_OR_END --'{'--> ROW
 *     START --'{'--> HEAD                ^                 |              |
 *                     |                  +------']'--------+------ AFTER_ROW <--+
 *                     +--'}', JSON---> END                             ','
 *                     |                                                 v
 *                     +--'}', NDJSON-> LINES --'{'--> ROW --> LINES    ROW_NEXT --'{'--> ROW
 *
 * A row that lies whole in a piece and has the usual shape is taken from there (row_text.h);
 * any other is collected first.
 *
 * Invariants:
 *   I1. A collected text is at most RWD_ROW_TEXT_MAX bytes, space outside of strings counted as one
 *       byte however long it is.
 *   I2. While rows are read, the head's text so far has been scanned: the array is that of
 *       "contributions".
 *   I3. After a failure nothing is read any more.
 *
 * Failure: `rc` and `err` keep the first one. */
#include <string.h>

#include "rewarder/input/row_text.h"
#include "rewarder/input/snapshot.h"
#include "rewarder/input/snapshot_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

enum state { START, HEAD, ROW_OR_END, ROW_NEXT, ROW, AFTER_ROW, LINES, END };

/* One object that is being collected. */
struct object {
    size_t len;
    uint32_t depth;
    bool in_string;
    bool escaped;
    bool space;                      /* passed and not yet written */
    bool newline;                    /* outside of strings */
    char text[RWD_ROW_TEXT_MAX + 2]; /* two brackets may be put behind it */
};

_Static_assert(RWD_ROW_TEXT_MAX >= (int)RWD__ROW_QUICK_ROOM, "a collected row can be read quickly");

struct rwd_snapshot_reader {
    enum state state;
    enum rwd_form form;
    bool newline; /* LINES: since the last object */
    uint64_t produced_at_ms;
    struct ron_money pool;
    struct rwd_rows *rows;
    struct ron_stat rows_read;
    enum ron_rc rc;
    struct ron_err err;
    struct object head;
    struct object row;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---- failures -------------------------------------------------------------------------------- */

static enum ron_rc row_failed(struct rwd_snapshot_reader *r, struct ron_err *err)
{
    ron_err_prefix(err, "row %llu", (unsigned long long)rwd_rows_count(r->rows) + 1);
    return err->rc;
}

static enum ron_rc row_refused(struct rwd_snapshot_reader *r, const char *why, struct ron_err *err)
{
    (void)ron_err_set(err, RON_INVALID, "%s", why);
    return row_failed(r, err);
}

/* ---- collecting ------------------------------------------------------------------------------ */

enum taken { MORE, WHOLE, ARRAY, TOO_LONG };

static void object_begin(struct object *o)
{
    o->len = 0;
    o->depth = 0;
    o->in_string = o->escaped = o->space = o->newline = false;
}

/* Depth and strings, by one byte. */
static void object_follow(struct object *o, char c)
{
    if (o->in_string) {
        if (o->escaped) {
            o->escaped = false;
        } else if (c == '\\') {
            o->escaped = true;
        } else if (c == '"') {
            o->in_string = false;
        }
    } else if (c == '"') {
        o->in_string = true;
    } else if (c == '{' || c == '[') {
        o->depth++;
    } else if (c == '}' || c == ']') {
        o->depth--;
    }
}

/* Takes bytes from *p on, of which the first of all is '{'. Stops behind the end of the object, and
 * with `arrays` behind the '[' of an array that is the value of a member. */
static enum taken object_take(struct object *o, const char **p, const char *end, bool arrays)
{
    while (*p < end) {
        char c = *(*p)++;

        if (!o->in_string && is_space(c)) {
            o->space = true;
            o->newline = o->newline || c == '\n';
            continue;
        }
        if (o->len + 2 > RWD_ROW_TEXT_MAX) {
            return TOO_LONG; /* I1 */
        }
        if (o->space) {
            o->text[o->len++] = ' ';
            o->space = false;
        }
        o->text[o->len++] = c;
        object_follow(o, c);
        if (o->depth == 0) {
            return WHOLE;
        }
        if (arrays && c == '[' && o->depth == 2 && !o->in_string) {
            return ARRAY;
        }
    }
    return MORE;
}

/* ---- the head -------------------------------------------------------------------------------- */

struct head {
    uint64_t produced_at_millis;
    struct ron_money pool_minor_units;
    struct ron_str contributions;
    uint64_t present;
};

#define HEAD_FIELDS(required_)                                                                     \
    {                                                                                              \
        RON_JSON_FIELD(struct head, produced_at_millis, U64, .required = (required_)),             \
            RON_JSON_FIELD(struct head, pool_minor_units, MONEY, .required = (required_)),         \
            RON_JSON_FIELD(struct head, contributions, RAW, .required = false),                    \
    }
enum { HAS_CONTRIBUTIONS = 4 }; /* the bit of the third field */
static const struct ron_json_field whole_fields[] = HEAD_FIELDS(true);
static const struct ron_json_field part_fields[] = HEAD_FIELDS(false);
static const struct ron_json_shape whole_head = RON_JSON_SHAPE(struct head, whole_fields, present);
static const struct ron_json_shape part_head = RON_JSON_SHAPE(struct head, part_fields, present);

/* An array begins in the head: it is that of contributions, or the text is refused (I2). */
static enum ron_rc head_array(struct rwd_snapshot_reader *r, struct ron_err *err)
{
    struct ron_json_error json_err = {0};
    struct object *o = &r->head;
    struct head head = {0};
    char *text = r->row.text; /* free until the first row */

    memcpy(text, o->text, o->len);
    text[o->len] = ']';
    text[o->len + 1] = '}';
    if (ron_json_scan(text, o->len + 2, &part_head, NULL, &head, &json_err) != RON_OK) {
        return rwd__json_failed(&json_err, err);
    }
    if (r->form == RWD_FORM_NDJSON) {
        return ron_err_set(err, RON_INVALID, "contributions: unknown member");
    }
    r->form = RWD_FORM_JSON;
    r->state = ROW_OR_END;
    return RON_OK;
}

/* The head is whole; tells the form if it is not known yet. */
static enum ron_rc head_whole(struct rwd_snapshot_reader *r, struct ron_err *err)
{
    struct ron_json_error json_err = {0};
    struct head head = {0};
    bool has_rows;

    if (ron_json_scan(r->head.text, r->head.len, &whole_head, NULL, &head, &json_err) != RON_OK) {
        return rwd__json_failed(&json_err, err);
    }
    has_rows = (head.present & HAS_CONTRIBUTIONS) != 0;
    if (r->form == RWD_FORM_ANY) {
        r->form = has_rows ? RWD_FORM_JSON : RWD_FORM_NDJSON;
    }
    if (r->form == RWD_FORM_JSON) {
        if (!has_rows || head.contributions.ptr[0] != '[') {
            return ron_err_set(err, RON_INVALID, "contributions: %s",
                               has_rows ? "an array is expected" : "the member is missing");
        }
        r->state = END;
    } else {
        if (has_rows || r->head.newline) {
            return ron_err_set(err, RON_INVALID, "%s",
                               has_rows ? "contributions: unknown member"
                                        : "the first object stands on one line");
        }
        r->state = LINES;
        r->newline = false;
    }
    r->produced_at_ms = head.produced_at_millis;
    r->pool = head.pool_minor_units;
    return RON_OK;
}

static enum ron_rc take_head(struct rwd_snapshot_reader *r, const char **p, const char *end,
                             struct ron_err *err)
{
    switch (object_take(&r->head, p, end, true)) {
    case MORE:
        return RON_OK;
    case WHOLE:
        return head_whole(r, err);
    case ARRAY:
        return head_array(r, err);
    case TOO_LONG:
        return ron_err_set(err, RON_LIMIT, "there are more than %d bytes beside the rows",
                           (int)RWD_ROW_TEXT_MAX);
    }
    RON_UNREACHABLE();
}

/* ---- rows ------------------------------------------------------------------------------------ */

static enum ron_rc add_row(struct rwd_snapshot_reader *r, const struct rwd__share *row,
                           struct ron_err *err)
{
    if (RON_UNLIKELY(rwd_rows_add(r->rows, row->account, &row->counters, err) != RON_OK)) {
        return row_failed(r, err);
    }
    ron_stat_set(&r->rows_read, rwd_rows_count(r->rows));
    r->state = r->form == RWD_FORM_JSON ? AFTER_ROW : LINES;
    r->newline = false;
    return RON_OK;
}

/* A collected row. */
static enum ron_rc row_whole(struct rwd_snapshot_reader *r, struct ron_err *err)
{
    struct object *o = &r->row;
    struct rwd__share row;

    if (r->form == RWD_FORM_NDJSON && o->newline) {
        return row_refused(r, "a row stands on one line", err);
    }
    if (rwd__row_quick(o->text, &row) != o->text + o->len &&
        rwd__row_strict(o->text, o->len, &row, err) != RON_OK) {
        return row_failed(r, err);
    }
    return add_row(r, &row, err);
}

static enum ron_rc take_row(struct rwd_snapshot_reader *r, const char **p, const char *end,
                            struct ron_err *err)
{
    switch (object_take(&r->row, p, end, false)) {
    case WHOLE:
        return row_whole(r, err);
    case TOO_LONG:
        (void)ron_err_set(err, RON_LIMIT, "there are more than %d bytes", (int)RWD_ROW_TEXT_MAX);
        return row_failed(r, err);
    case MORE:
    case ARRAY:
        return RON_OK;
    }
    RON_UNREACHABLE();
}

/* At the first byte of a row. */
static enum ron_rc begin_row(struct rwd_snapshot_reader *r, const char **p, const char *end,
                             struct ron_err *err)
{
    if (**p != '{') {
        return row_refused(r, "an object is expected", err);
    }
    if (RON_LIKELY(end - *p >= RWD__ROW_QUICK_ROOM)) {
        struct rwd__share row;
        const char *next = rwd__row_quick(*p, &row);

        if (RON_LIKELY(next != NULL)) {
            *p = next;
            return add_row(r, &row, err);
        }
    }
    object_begin(&r->row);
    r->state = ROW;
    return RON_OK;
}

static enum ron_rc end_rows(struct rwd_snapshot_reader *r, const char **p)
{
    struct object *o = &r->head;

    (*p)++;
    o->text[o->len++] = ']'; /* instead of the one that head_array put behind its copy */
    o->depth--;
    r->state = HEAD;
    return RON_OK;
}

static enum ron_rc begin_line(struct rwd_snapshot_reader *r, const char **p, const char *end,
                              struct ron_err *err)
{
    if (!r->newline) {
        return row_refused(r, "a row begins on a new line", err);
    }
    return begin_row(r, p, end, err);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* One step at a byte that is no space, in any state but HEAD and ROW. */
static enum ron_rc take_token(struct rwd_snapshot_reader *r, const char **p, const char *end,
                              struct ron_err *err)
{
    switch (r->state) {
    case START:
        if (**p != '{') {
            return ron_err_set(err, RON_INVALID, "an object is expected");
        }
        object_begin(&r->head);
        r->state = HEAD;
        return RON_OK;
    case ROW_OR_END:
        return **p == ']' ? end_rows(r, p) : begin_row(r, p, end, err);
    case ROW_NEXT:
        return begin_row(r, p, end, err);
    case AFTER_ROW:
        if (**p == ',') {
            (*p)++;
            r->state = ROW_NEXT;
            return RON_OK;
        }
        return **p == ']' ? end_rows(r, p)
                          : row_refused(r, "',' or ']' is expected before it", err);
    case LINES:
        return begin_line(r, p, end, err);
    case END:
        return ron_err_set(err, RON_INVALID, "there are bytes behind the end");
    case HEAD:
    case ROW:
        break;
    }
    RON_UNREACHABLE();
}

static enum ron_rc take_bytes(struct rwd_snapshot_reader *r, const char *p, const char *end,
                              struct ron_err *err)
{
    while (p < end) {
        if (r->state == HEAD) {
            RON_TRY(take_head(r, &p, end, err));
        } else if (r->state == ROW) {
            RON_TRY(take_row(r, &p, end, err));
        } else if (is_space(*p)) {
            r->newline = r->newline || *p == '\n';
            p++;
        } else {
            RON_TRY(take_token(r, &p, end, err));
        }
    }
    return RON_OK;
}

/* ---- the reader ------------------------------------------------------------------------------ */

enum ron_rc rwd_snapshot_reader_new(enum rwd_form form, const struct rwd_rows_opts *opts,
                                    struct rwd_snapshot_reader **ret_reader, struct ron_err *err)
{
    struct rwd_snapshot_reader *r = ron_alloc_zero(sizeof *r);
    enum ron_rc rc;

    if (r == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to read a snapshot");
    }
    r->form = form;
    rc = rwd_rows_new(opts, &r->rows, err);
    if (rc != RON_OK) {
        ron_free(r);
        return rc;
    }
    *ret_reader = r;
    return RON_OK;
}

void rwd_snapshot_reader_free(struct rwd_snapshot_reader *r)
{
    if (r != NULL) {
        rwd_rows_free(r->rows);
        ron_free(r);
    }
}

/* Tells the failure that stuck. */
static enum ron_rc tell(const struct rwd_snapshot_reader *r, struct ron_err *err)
{
    if (r->rc != RON_OK && err != NULL) {
        *err = r->err;
    }
    return r->rc;
}

enum ron_rc rwd_snapshot_feed(struct rwd_snapshot_reader *r, const void *bytes, size_t len,
                              struct ron_err *err)
{
    if (r->rc == RON_OK && len > 0) {
        const char *p = bytes;

        r->rc = take_bytes(r, p, p + len, &r->err);
    }
    return tell(r, err);
}

static enum ron_rc finish(struct rwd_snapshot_reader *r, struct rwd_snapshot *ret_snapshot,
                          struct ron_err *err)
{
    struct rwd_snapshot s = {.rows = r->rows};
    enum ron_rc rc;

    RON_TRY(tell(r, err));
    if (r->state != END && r->state != LINES) {
        return ron_err_set(err, RON_INVALID, "the text ends too early, after %llu rows",
                           (unsigned long long)rwd_rows_count(r->rows));
    }
    rc = rwd_rows_seal(r->rows, err);
    if (rc != RON_OK) {
        if (rc == RON_EXISTS) { /* what is sent twice in one text is a malformed text */
            rc = RON_INVALID;
            if (err != NULL) {
                err->rc = rc;
            }
        }
        return rc;
    }
    s.produced_at_ms = r->produced_at_ms;
    s.pool = r->pool;
    RON_TRY(rwd__snapshot_name(&s, err));
    *ret_snapshot = s;
    r->rows = NULL;
    return RON_OK;
}

enum ron_rc rwd_snapshot_end(struct rwd_snapshot_reader *take_r, struct rwd_snapshot *ret_snapshot,
                             struct ron_err *err)
{
    enum ron_rc rc = finish(take_r, ret_snapshot, err);

    rwd_snapshot_reader_free(take_r);
    return rc;
}

uint64_t rwd_snapshot_rows_read(const struct rwd_snapshot_reader *r)
{
    return ron_stat_get(&r->rows_read);
}

enum ron_rc rwd_snapshot_read(const void *bytes, size_t len, enum rwd_form form,
                              const struct rwd_rows_opts *opts, struct rwd_snapshot *ret_snapshot,
                              struct ron_err *err)
{
    struct rwd_snapshot_reader *r = NULL;

    RON_TRY(rwd_snapshot_reader_new(form, opts, &r, err));
    RON_ASSERT(r != NULL);
    RON_IGNORE(rwd_snapshot_feed(r, bytes, len, NULL)); /* the first failure sticks */
    return rwd_snapshot_end(r, ret_snapshot, err);
}
