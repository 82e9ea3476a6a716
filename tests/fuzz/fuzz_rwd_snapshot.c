/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: no text breaks the reader of snapshots; it takes exactly what the kernel's scanner and the
 * rules of the format take; pieces do not matter; what is taken has one canonical form.
 * Method: byte 0 chooses the form, byte 1 the length of the pieces; the rest is the text. Then
 *   the same text in pieces and whole: the same verdict and id;
 *   JSON form: the whole text through ron_json_scan with a table of all members is the oracle;
 *   taken: the canonical bytes are read again, to the same id, and are a fixed point;
 *   the text as one row: what the quick scan takes, the strict one takes with the same result. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rewarder/input/row_text.h"
#include "rewarder/input/snapshot.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 100000, ARENA_BYTES = 1 << 20 };

static enum ron_rc append_piece(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)err;
    return ron_buf_append(arg, bytes, len);
}

static enum ron_rc read_in_pieces(const char *text, size_t len, enum rwd_form form, size_t piece,
                                  struct rwd_snapshot *ret_snapshot, struct ron_err *err)
{
    struct rwd_snapshot_reader *r = NULL;

    RON_ASSERT(rwd_snapshot_reader_new(form, NULL, &r, NULL) == RON_OK);
    for (size_t at = 0; at < len; at += piece) {
        RON_IGNORE(rwd_snapshot_feed(r, text + at, RON_MIN(piece, len - at), NULL)); /* sticks */
    }
    return rwd_snapshot_end(r, ret_snapshot, err);
}

/* ---- the oracle ------------------------------------------------------------------------------ */

struct row {
    struct ron_str account;
    uint64_t bytes_stored;
    uint64_t bytes_served;
    uint64_t uptime_seconds;
    uint64_t present;
};
static const struct ron_json_field row_fields[] = {
    RON_JSON_FIELD(struct row, account, STRING, .required = true),
    RON_JSON_FIELD(struct row, bytes_stored, U64, .required = true),
    RON_JSON_FIELD(struct row, bytes_served, U64, .required = true),
    RON_JSON_FIELD(struct row, uptime_seconds, U64, .required = true),
};
static const struct ron_json_shape row_shape = RON_JSON_SHAPE(struct row, row_fields, present);

struct document {
    uint64_t produced_at_millis;
    struct ron_money pool_minor_units;
    struct ron_json_items contributions;
    uint64_t present;
};
static const struct ron_json_field fields[] = {
    RON_JSON_FIELD(struct document, produced_at_millis, U64, .required = true),
    RON_JSON_FIELD(struct document, pool_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct document, contributions, ARRAY, .required = true, .max = 4096,
                   .shape = &row_shape, .item_size = sizeof(struct row)),
};
static const struct ron_json_shape shape = RON_JSON_SHAPE(struct document, fields, present);

static struct ron_str trimmed(struct ron_str s)
{
    while (s.len > 0 && s.ptr[0] != '\0' && strchr(" \t\n\v\f\r", s.ptr[0]) != NULL) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && s.ptr[s.len - 1] != '\0' &&
           strchr(" \t\n\v\f\r", s.ptr[s.len - 1]) != NULL) {
        s.len--;
    }
    return s;
}

static bool accounts_ok(const struct document *d)
{
    const struct row *rows = d->contributions.items;

    for (size_t i = 0; i < d->contributions.count; i++) {
        struct ron_str a = trimmed(rows[i].account);

        if (!rwd_account_ok(a)) {
            return false;
        }
        for (size_t k = 0; k < i; k++) {
            struct ron_str b = trimmed(rows[k].account);

            if (a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0) {
                return false;
            }
        }
    }
    return true;
}

/* `s` is what the reader made of the text, if it took it. */
static void compare_with_oracle(const char *text, size_t len, enum ron_rc rc,
                                const struct rwd_snapshot *s)
{
    char *copy = malloc(len + 1);
    struct ron_arena arena;
    struct document d = {0};
    bool good;

    RON_ASSERT(copy != NULL && ron_arena_init(&arena, ARENA_BYTES) == RON_OK);
    memcpy(copy, text, len);
    good = ron_json_scan(copy, len, &shape, &arena, &d, NULL) == RON_OK && accounts_ok(&d);
    RON_ASSERT(good == (rc == RON_OK));
    if (good) {
        RON_ASSERT(d.produced_at_millis == s->produced_at_ms);
        RON_ASSERT(d.pool_minor_units.v == s->pool.v);
        RON_ASSERT(d.contributions.count == rwd_rows_count(s->rows));
    }
    ron_arena_done(&arena);
    free(copy);
}

/* ---- properties ------------------------------------------------------------------------------ */

static void reread(const struct rwd_snapshot *s)
{
    struct rwd_snapshot again;
    struct ron_buf bytes;
    struct ron_b3 hash;

    ron_buf_init(&bytes, 16 * TEXT_MAX);
    RON_ASSERT(rwd_snapshot_write(s, append_piece, &bytes, NULL) == RON_OK);
    ron_b3_hash(ron_buf_data(&bytes), ron_buf_len(&bytes), &hash);
    RON_ASSERT(ron_b3_equal(&hash, &s->cid));
    RON_ASSERT(rwd_snapshot_read(ron_buf_data(&bytes), ron_buf_len(&bytes), RWD_FORM_JSON, NULL,
                                 &again, NULL) == RON_OK);
    RON_ASSERT(ron_b3_equal(&again.cid, &s->cid));
    RON_ASSERT(rwd_rows_count(again.rows) == rwd_rows_count(s->rows));
    rwd_snapshot_done(&again);
    ron_buf_done(&bytes);
}

static void compare_row(const char *text, size_t len)
{
    char *copy = calloc(1, len + RWD__ROW_QUICK_ROOM);
    struct rwd__share quick;
    struct rwd__share strict;
    const char *end;

    RON_ASSERT(copy != NULL);
    memcpy(copy, text, len);
    end = copy[0] == '{' ? rwd__row_quick(copy, &quick) : NULL;
    if (end != NULL) {
        char *second = malloc((size_t)(end - copy));

        RON_ASSERT(second != NULL);
        memcpy(second, copy, (size_t)(end - copy));
        RON_ASSERT(rwd__row_strict(second, (size_t)(end - copy), &strict, NULL) == RON_OK);
        RON_ASSERT(strict.account.len == quick.account.len);
        RON_ASSERT(memcmp(strict.account.ptr, quick.account.ptr, quick.account.len) == 0);
        RON_ASSERT(memcmp(&strict.counters, &quick.counters, sizeof quick.counters) == 0);
        free(second);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rwd_snapshot whole = {0};
    struct rwd_snapshot cut = {0};
    struct ron_err whole_err = {0};
    struct ron_err cut_err = {0};
    const char *text = (const char *)data + 2;
    enum rwd_form form;
    enum ron_rc rc;

    if (size < 2 || size - 2 > TEXT_MAX) {
        return 0;
    }
    size -= 2;
    form = (enum rwd_form)(data[0] % 3);
    rc = rwd_snapshot_read(text, size, form, NULL, &whole, &whole_err);
    RON_ASSERT(rc == RON_OK || rc == RON_INVALID || rc == RON_LIMIT);
    RON_ASSERT(read_in_pieces(text, size, form, 1 + data[1] % 64, &cut, &cut_err) == rc);
    RON_ASSERT(strcmp(whole_err.msg, cut_err.msg) == 0);
    if (form == RWD_FORM_JSON && rc != RON_LIMIT) {
        compare_with_oracle(text, size, rc, &whole);
    }
    if (rc == RON_OK) {
        RON_ASSERT(ron_b3_equal(&whole.cid, &cut.cid));
        reread(&whole);
        rwd_snapshot_done(&whole);
        rwd_snapshot_done(&cut);
    }
    compare_row(text, size);
    return 0;
}
