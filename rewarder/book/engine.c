/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/engine.c - what the two engines of the book share: claiming the connection, values,
 * checksums, opening. Contract in priv.h and book.h. */
#include "rewarder/book/priv.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- statements ------------------------------------------------------------------------------ */

struct rwd__use rwd__ask(struct rwd_book *b, enum rwd__statement statement)
{
    struct rwd__use u = {.book = b, .statement = statement, .next = 1};

    b->engine->ask(&u);
    return u;
}

void rwd__put_text(struct rwd__use *u, struct ron_str text)
{
    u->book->engine->put(u, RWD__TEXT, text.ptr, text.len, 0);
}

void rwd__put_bytes(struct rwd__use *u, const void *bytes, size_t len)
{
    u->book->engine->put(u, RWD__BYTES, bytes, len, 0);
}

void rwd__put_u64(struct rwd__use *u, uint64_t value)
{
    u->book->engine->put(u, RWD__INT, NULL, 0, value);
}

void rwd__put_null(struct rwd__use *u)
{
    u->book->engine->put(u, RWD__NULL, NULL, 0, 0);
}

enum ron_rc rwd__row(struct rwd__use *u, bool *ret_row, struct ron_err *err)
{
    return u->book->engine->row(u, ret_row, err);
}

void rwd__end(struct rwd__use *u)
{
    u->book->engine->end(u);
}

enum ron_rc rwd__run(struct rwd__use *u, uint64_t *ret_changes, struct ron_err *err)
{
    bool row = false;
    enum ron_rc rc = rwd__row(u, &row, err);

    if (rc == RON_OK && ret_changes != NULL) {
        *ret_changes = u->book->engine->changes(u);
    }
    rwd__end(u);
    return rc;
}

uint64_t rwd__get_u64(const struct rwd__use *u, int column)
{
    return u->book->engine->get_u64(u, column);
}

struct ron_str rwd__get_str(const struct rwd__use *u, int column)
{
    return u->book->engine->get_str(u, column);
}

enum ron_rc rwd__get_text(const struct rwd__use *u, int column, char *ret_text, size_t size,
                          struct ron_err *err)
{
    struct ron_str text = rwd__get_str(u, column);

    if (text.len >= size || (text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL)) {
        return ron_err_set(err, RON_CORRUPT, "book: a text of %zu bytes where %zu fit", text.len,
                           size - 1);
    }
    if (text.len > 0) {
        memcpy(ret_text, text.ptr, text.len);
    }
    ret_text[text.len] = '\0';
    return RON_OK;
}

enum ron_rc rwd__get_bytes(const struct rwd__use *u, int column, void *ret_bytes, size_t len,
                           struct ron_err *err)
{
    struct ron_str bytes = rwd__get_str(u, column);

    if (bytes.len != len) {
        return ron_err_set(err, RON_CORRUPT, "book: %zu bytes where %zu belong", bytes.len, len);
    }
    memcpy(ret_bytes, bytes.ptr, len);
    return RON_OK;
}

enum ron_rc rwd__get_whole(const struct rwd__use *u, int column, struct ron_err *err)
{
    if (rwd__get_u64(u, column) != 1) {
        return ron_err_set(err, RON_CORRUPT, "book: a row is not what was written");
    }
    return RON_OK;
}

/* ---- checksums ------------------------------------------------------------------------------- */

void rwd__sum_add(struct ron_b3_hasher *h, enum rwd__kind kind, const void *bytes, size_t len,
                  uint64_t number)
{
    uint8_t head[9] = {(uint8_t)kind};

    number = kind == RWD__TEXT || kind == RWD__BYTES ? len : number;
    for (int byte = 0; byte < 8; byte++) {
        head[1 + byte] = (uint8_t)(number >> (56 - 8 * byte));
    }
    ron_b3_update(h, head, sizeof head);
    ron_b3_update(h, len > 0 ? bytes : "", len);
}

uint64_t rwd__sum_end(struct ron_b3_hasher *h)
{
    struct ron_b3 hash;
    uint64_t sum = 0;

    ron_b3_final(h, &hash);
    for (int byte = 0; byte < RWD__SUM_BYTES; byte++) {
        sum = sum << 8 | hash.bytes[byte];
    }
    return sum;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void claim(struct rwd_book *b)
{
    ron_blocking_point("rwd_book");
    ron_mutex_lock(&b->lock);
    while (b->taken) {
        /* Each call is a short transaction and always gives the connection back. */
        (void)ron_cond_wait_until(&b->free, &b->lock, ron_deadline_never());
    }
    b->taken = true;
    ron_mutex_unlock(&b->lock);
}

static void unclaim(struct rwd_book *b)
{
    ron_mutex_lock(&b->lock);
    b->taken = false;
    ron_cond_signal(&b->free);
    ron_mutex_unlock(&b->lock);
}

enum ron_rc rwd__book_begin(struct rwd_book *b, bool writes, struct ron_err *err)
{
    enum ron_rc rc;

    claim(b);
    rc = b->engine->begin(b, writes, err);
    if (rc != RON_OK) {
        unclaim(b);
    }
    return rc;
}

enum ron_rc rwd__book_end(struct rwd_book *b, enum ron_rc rc, struct ron_err *err)
{
    if (b->engine->within(b)) {
        if (rc == RON_OK) {
            rc = b->engine->commit(b, err);
        }
        if (rc != RON_OK && b->engine->within(b)) {
            b->engine->rollback(b);
        }
    }
    unclaim(b);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

enum ron_rc rwd_book_open_with(const struct rwd_book_opts *opts, struct rwd_book **ret_book,
                               struct ron_err *err)
{
    struct rwd_book *b = ron_alloc_zero(sizeof *b);
    enum ron_rc rc;

    ron_blocking_point("rwd_book_open");
    if (b == NULL) {
        return ron_err_set(err, RON_NOMEM, "book: no memory");
    }
    ron_mutex_init(&b->lock, RON_RANK_SHARED, "rwd_book");
    ron_cond_init(&b->free);
    rc = opts->dsn != NULL ? rwd__open_pg(b, opts, err)
                           : rwd__open_sqlite(b, opts->env, opts->path, err);
    if (rc != RON_OK) {
        rwd_book_close(b);
        return rc;
    }
    *ret_book = b;
    return RON_OK;
}

enum ron_rc rwd_book_open(const struct ron_env *env, const char *path, struct rwd_book **ret_book,
                          struct ron_err *err)
{
    return rwd_book_open_with(&(struct rwd_book_opts){.env = env, .path = path}, ret_book, err);
}

void rwd_book_close(struct rwd_book *b)
{
    if (b == NULL) {
        return;
    }
    RON_ASSERT(!b->taken);
    ron_blocking_point("rwd_book_close");
    if (b->engine != NULL) { /* it may have failed before it had one */
        b->engine->close(b);
    }
    ron_cond_done(&b->free);
    ron_mutex_done(&b->lock);
    ron_free(b);
}
