/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/snapshot_write.c - the canonical bytes of a snapshot, and their hash.
 *
 * Invariants:
 *   I1. All pieces but the last have PIECE_BYTES: BLAKE3 then works on whole subtrees side by side.
 *   I2. Before each step the buffer has room for one more row.
 *
 * Failure: RON_NOMEM for the one buffer, and what the caller's `write` returns. */
#include <string.h>

#include "rewarder/input/snapshot.h"
#include "rewarder/input/snapshot_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    PIECE_BYTES = 65536,
    STEP_MAX = 512, /* the longest row has 285 bytes, the members before the rows 120 */
};

struct out {
    struct ron_buf buf;
    rwd_write_fn *write;
    void *arg;
};

/* Hands a whole piece over once there is one: I1, I2. */
static enum ron_rc flush_piece(struct out *o, struct ron_err *err)
{
    RON_ASSERT(ron_buf_error(&o->buf) == RON_OK);
    if (ron_buf_len(&o->buf) < PIECE_BYTES) {
        return RON_OK;
    }
    RON_TRY(o->write(o->arg, ron_buf_data(&o->buf), PIECE_BYTES, err));
    ron_buf_consume(&o->buf, PIECE_BYTES);
    return RON_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A snapshot has millions of rows of one shape without anything to escape: text and digits are put
 * down directly, without the steps of a general writer. */
#define PUT_TEXT(to, text) put_bytes((to), (text), sizeof(text) - 1)
static inline char *put_bytes(char *to, const char *bytes, size_t len)
{
    memcpy(to, bytes, len);
    return to + len;
}

static inline char *put_number(char *to, uint64_t value)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "6869707172737475767778798081828384858687888990919293949596979899";
    char digits[20];
    size_t at = sizeof digits;

    for (; value >= 10; value /= 100) {
        at -= 2;
        memcpy(digits + at, pairs + value % 100 * 2, 2);
    }
    /* What is left is the first digit, or nothing, or all of a number below 10. */
    if (value > 0 || at == sizeof digits) {
        digits[--at] = (char)('0' + value);
    }
    return put_bytes(to, digits + at, sizeof digits - at);
}

static char *put_row(char *to, struct ron_str account, const struct rwd_counters *c)
{
    to = PUT_TEXT(to, "{\"account\":\"");
    to = put_bytes(to, account.ptr, account.len);
    to = PUT_TEXT(to, "\",\"bytes_stored\":");
    to = put_number(to, c->bytes_stored);
    to = PUT_TEXT(to, ",\"bytes_served\":");
    to = put_number(to, c->bytes_served);
    to = PUT_TEXT(to, ",\"uptime_seconds\":");
    to = put_number(to, c->uptime_seconds);
    return PUT_TEXT(to, "}");
}

static enum ron_rc write_rows(struct out *o, const struct rwd_rows *rows, struct ron_err *err)
{
    uint64_t count = rwd_rows_count(rows);

    for (uint64_t i = 0; i < count; i++) {
        uint8_t *room = NULL;
        char *begin;
        char *to;

        RON_TRY(ron_buf_reserve(&o->buf, STEP_MAX, &room)); /* I2: it is there */
        begin = to = (char *)room;
        if (i > 0) {
            *to++ = ',';
        }
        to = put_row(to, rwd_rows_account(rows, i), rwd_rows_counters(rows, i));
        ron_buf_commit(&o->buf, (size_t)(to - begin));
        RON_TRY(flush_piece(o, err));
    }
    return RON_OK;
}

enum ron_rc rwd_snapshot_write(const struct rwd_snapshot *snapshot, rwd_write_fn *write, void *arg,
                               struct ron_err *err)
{
    enum { MEMORY = PIECE_BYTES + STEP_MAX + 1 }; /* a buffer keeps a byte for itself */
    RON_AUTO_FREE uint8_t *memory = ron_alloc(MEMORY);
    struct out o = {.write = write, .arg = arg};
    struct ron_json_writer w;

    if (memory == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to write a snapshot");
    }
    ron_buf_init_over(&o.buf, memory, MEMORY);
    ron_json_begin(&w, &o.buf);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "produced_at_millis", snapshot->produced_at_ms);
    ron_json_money(&w, "pool_minor_units", snapshot->pool);
    ron_json_open(&w, "contributions", '[');
    RON_TRY(write_rows(&o, snapshot->rows, err));
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    RON_TRY(flush_piece(&o, err));
    return ron_buf_len(&o.buf) == 0 ? RON_OK
                                    : write(arg, ron_buf_data(&o.buf), ron_buf_len(&o.buf), err);
}

static enum ron_rc hash_piece(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)err;
    ron_b3_update(arg, bytes, len);
    return RON_OK;
}

enum ron_rc rwd__snapshot_name(struct rwd_snapshot *snapshot, struct ron_err *err)
{
    struct ron_b3_hasher h;

    ron_b3_init(&h);
    RON_TRY(rwd_snapshot_write(snapshot, hash_piece, &h, err));
    ron_b3_final(&h, &snapshot->cid);
    return RON_OK;
}

void rwd_snapshot_done(struct rwd_snapshot *snapshot)
{
    rwd_rows_free(snapshot->rows);
    memset(snapshot, 0, sizeof *snapshot);
}
