/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/book/policies_posix.c - the policy documents of the book.
 *
 * Place: rewarder. A document is found by its hash, or as the newest version of its id; an id and
 * version name one document for ever. */
#include "rewarder/book/priv.h"

struct kept {
    bool there;
    bool same;
    bool is_signed;
};

static enum ron_rc look(struct rwd_book *b, const struct rwd_policy *p, struct kept *ret_kept,
                        struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__POLICY_VERSION);
    struct ron_b3 hash = {0};
    enum ron_rc rc;

    *ret_kept = (struct kept){0};
    ron_sql_put_text(&u, p->id);
    ron_sql_put_u64(&u, p->version);
    rc = rwd__row(&u, &ret_kept->there, err);
    if (rc == RON_OK && ret_kept->there) {
        rc = ron_sql_get_bytes(&u, 0, hash.bytes, sizeof hash.bytes, err);
        ret_kept->same = ron_b3_equal(&hash, &p->hash);
        ret_kept->is_signed = ron_sql_get_u64(&u, 1) != 0;
    }
    ron_sql_done(&u);
    return rc;
}

static enum ron_rc check_room(struct rwd_book *b, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__POLICY_COUNT);
    uint64_t count = 0;
    bool row = false;
    enum ron_rc rc = rwd__row(&u, &row, err);

    if (rc == RON_OK) {
        count = ron_sql_get_u64(&u, 0);
    }
    ron_sql_done(&u);
    if (rc == RON_OK && count >= RWD_BOOK_POLICIES_MAX) {
        rc = ron_err_set(err, RON_LIMIT, "the book has %llu policies", (unsigned long long)count);
    }
    return rc;
}

static enum ron_rc put(struct rwd_book *b, const struct rwd_policy *p, struct ron_str document,
                       uint64_t now_ms, struct ron_err *err)
{
    struct ron_sql_use u = ron_sql_use(b->sql, RWD__POLICY_ADD);
    struct ron_sql_use drop = ron_sql_use(b->sql, RWD__POLICY_DROP);
    struct kept kept;

    RON_TRY(look(b, p, &kept, err));
    if (kept.there && !kept.same) {
        return ron_err_set(err, RON_CONFLICT, "policy %.*s has another version %llu",
                           (int)p->id.len, p->id.ptr, (unsigned long long)p->version);
    }
    if (kept.there && (kept.is_signed || !p->is_signed)) {
        return RON_OK;
    }
    if (kept.there) {
        ron_sql_put_bytes(&drop, p->hash.bytes, sizeof p->hash.bytes);
        RON_TRY(rwd__run(&drop, NULL, err));
    }
    RON_TRY(check_room(b, err));
    ron_sql_put_bytes(&u, p->hash.bytes, sizeof p->hash.bytes);
    ron_sql_put_text(&u, p->id);
    ron_sql_put_u64(&u, p->version);
    ron_sql_put_u64(&u, p->is_signed);
    ron_sql_put_bytes(&u, document.ptr, document.len);
    ron_sql_put_u64(&u, now_ms);
    return rwd__run(&u, NULL, err);
}

enum ron_rc rwd_book_policy_put(struct rwd_book *b, const struct rwd_policy_doc *doc,
                                uint64_t now_ms, struct ron_err *err)
{
    const struct rwd_policy *p = rwd_policy_of(doc);
    struct ron_buf text;
    enum ron_rc rc;

    /* Numbers of SQLite have a sign. */
    if (p->version > INT64_MAX) {
        return ron_err_set(err, RON_INVALID, "version: above 2^63 - 1");
    }
    ron_buf_init(&text, RWD_POLICY_TEXT_MAX);
    rc = rwd_policy_write(doc, &text);
    if (rc != RON_OK) {
        rc = ron_err_set(err, rc, "policy: it does not fit %d bytes", RWD_POLICY_TEXT_MAX);
    } else {
        rc = rwd__book_begin(b, true, err);
    }
    if (rc == RON_OK) {
        struct ron_str document = {(const char *)ron_buf_data(&text), ron_buf_len(&text)};

        rc = rwd__book_end(b, put(b, p, document, now_ms, err), err);
    }
    ron_buf_done(&text);
    return rc;
}

static enum ron_rc get(struct rwd_book *b, struct ron_str id, const struct ron_b3 *hash,
                       struct ron_buf *out, struct ron_err *err)
{
    struct ron_sql_use u =
        ron_sql_use(b->sql, hash != NULL ? RWD__POLICY_HASH : RWD__POLICY_NEWEST);
    bool row = false;
    enum ron_rc rc;

    ron_sql_put_text(&u, id);
    if (hash != NULL) {
        ron_sql_put_bytes(&u, hash->bytes, sizeof hash->bytes);
    }
    rc = rwd__row(&u, &row, err);
    if (rc == RON_OK && !row) {
        rc = ron_err_set(err, RON_NOTFOUND, "no policy %.*s", (int)id.len, id.ptr);
    }
    if (rc == RON_OK) {
        rc = ron_sql_get_whole(&u, err);
    }
    if (rc == RON_OK) {
        struct ron_str text = ron_sql_get_str(&u, 0);

        rc = ron_buf_append(out, text.ptr, text.len);
    }
    ron_sql_done(&u);
    return rc;
}

enum ron_rc rwd_book_policy_get(struct rwd_book *b, struct ron_str id, const struct ron_b3 *hash,
                                struct ron_buf *out, struct ron_err *err)
{
    RON_TRY(rwd__book_begin(b, false, err));
    return rwd__book_end(b, get(b, id, hash, out, err), err);
}
