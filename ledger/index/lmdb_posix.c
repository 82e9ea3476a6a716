/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/lmdb_posix.c - the store of an index in one LMDB file.
 *
 * One database, keys of 17 bytes: kind, a, b, the numbers big-endian, so that LMDB's order of bytes
 * is that of the numbers. LMDB makes its own system calls, which is why this is the one file of the
 * ledger beside the ports; every call that may wait for the disk says so (ron_blocking_point).
 *
 * A commit writes the changed pages, syncs, writes the head page and syncs again; no page that the
 * last commit uses is overwritten. So a crash at any moment leaves the last commit (X1). LMDB
 * trusts its pages, therefore led__lmdb_check looks at all of them before LMDB does.
 *
 * Threads: the transaction of the writer begins with its first call and belongs to that thread
 * until commit or abort. Views are of any thread (MDB_NOTLS) and short.
 * Failure: map or disk full RON_LIMIT, the rest RON_IO; the transaction is then ended by the caller
 * (abort). Faults for tests are asked for before each call of LMDB. */
#include "ledger/index/priv.h"

#include <errno.h>
#include <lmdb.h>

#include "ron/base/alloc.h"
#include "ron/base/fault.h"

enum {
    KEY_BYTES = 17,
    FILE_MODE = 0600,
    /* Views at a time: threads that may look up. */
    VIEWS_MAX = RON_THREADS_MAX,
};

/* Programs of the thread sanitizer have 1.5 TiB for everything, and the kernel puts things where it
 * likes. gcc tells of it by a macro, clang by a feature. */
#if defined(__SANITIZE_THREAD__)
#define MAP_BITS 36
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAP_BITS 36
#endif
#endif
#ifndef MAP_BITS
#define MAP_BITS 40
#endif
static const uint64_t map_default = UINT64_C(1) << MAP_BITS;

struct lmdb_blobs {
    struct led_blobs base;
    const struct ron_env *ports;
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *txn; /* the writer's; NULL: none */
};

static struct lmdb_blobs *lmdb_of(struct led_blobs *s)
{
    return RON_CONTAINER_OF(s, struct lmdb_blobs, base);
}

static enum ron_rc failed(struct ron_err *err, const char *what, int code)
{
    switch (code) {
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
    case MDB_READERS_FULL:
    case ENOSPC:
    case EDQUOT:
        return ron_err_set(err, RON_LIMIT, "index: %s: %s", what, mdb_strerror(code));
    case ENOMEM:
        return ron_err_set(err, RON_NOMEM, "index: %s: %s", what, mdb_strerror(code));
    case MDB_NOTFOUND:
        return ron_err_set(err, RON_NOTFOUND, "index: %s: no such blob", what);
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
        return ron_err_set(err, RON_CORRUPT, "index: %s: %s", what, mdb_strerror(code));
    default:
        /* LMDB's own codes are negative, those of the system positive. */
        return ron_err_set_sys(err, RON_IO, code > 0 ? code : 0, "index: %s: %s", what,
                               mdb_strerror(code));
    }
}

/* What a full or failing disk would make LMDB answer. */
#define LMDB_TRY(what, call)                                                                       \
    do {                                                                                           \
        int lmdb_code_ = RON_FAULT(RON_FAULT_SYSCALL, what) ? ENOSPC : (call);                     \
        if (lmdb_code_ != MDB_SUCCESS) {                                                           \
            return failed(err, what, lmdb_code_);                                                  \
        }                                                                                          \
    } while (0)

static void key_bytes(struct led_blob_key key, uint8_t bytes[KEY_BYTES])
{
    uint64_t a = __builtin_bswap64(key.a);
    uint64_t b = __builtin_bswap64(key.b);

    bytes[0] = key.kind;
    memcpy(bytes + 1, &a, sizeof a);
    memcpy(bytes + 9, &b, sizeof b);
}

static struct led_blob_key key_of(const uint8_t bytes[KEY_BYTES])
{
    struct led_blob_key key = {.kind = bytes[0]};

    memcpy(&key.a, bytes + 1, sizeof key.a);
    memcpy(&key.b, bytes + 9, sizeof key.b);
    key.a = __builtin_bswap64(key.a);
    key.b = __builtin_bswap64(key.b);
    return key;
}

/* ---- the writer ------------------------------------------------------------------------------ */

static enum ron_rc begin(struct lmdb_blobs *l, struct ron_err *err)
{
    if (l->txn == NULL) {
        ron_blocking_point("mdb_txn_begin");
        LMDB_TRY("mdb_txn_begin", mdb_txn_begin(l->env, NULL, 0, &l->txn));
    }
    return RON_OK;
}

static enum ron_rc lmdb_put(struct led_blobs *s, struct led_blob_key key, const void *bytes,
                            size_t len, const uint8_t **ret_kept, struct ron_err *err)
{
    struct lmdb_blobs *l = lmdb_of(s);
    uint8_t text[KEY_BYTES];
    MDB_val k = {.mv_size = sizeof text, .mv_data = text};
    MDB_val v = {.mv_size = len};

    RON_TRY(begin(l, err));
    key_bytes(key, text);
    LMDB_TRY("mdb_put", mdb_put(l->txn, l->dbi, &k, &v, MDB_RESERVE));
    if (len > 0) {
        memcpy(v.mv_data, bytes, len);
    }
    *ret_kept = NULL;
    return RON_OK;
}

static enum ron_rc lmdb_del(struct led_blobs *s, struct led_blob_key key, struct ron_err *err)
{
    struct lmdb_blobs *l = lmdb_of(s);
    uint8_t text[KEY_BYTES];
    MDB_val k = {.mv_size = sizeof text, .mv_data = text};
    int code;

    RON_TRY(begin(l, err));
    key_bytes(key, text);
    code = RON_FAULT(RON_FAULT_SYSCALL, "mdb_del") ? ENOSPC : mdb_del(l->txn, l->dbi, &k, NULL);
    return code == MDB_SUCCESS || code == MDB_NOTFOUND ? RON_OK : failed(err, "mdb_del", code);
}

static enum ron_rc get_in(MDB_txn *txn, MDB_dbi dbi, struct led_blob_key key,
                          const uint8_t **ret_bytes, size_t *ret_len, struct ron_err *err)
{
    uint8_t text[KEY_BYTES];
    MDB_val k = {.mv_size = sizeof text, .mv_data = text};
    MDB_val v;

    key_bytes(key, text);
    LMDB_TRY("mdb_get", mdb_get(txn, dbi, &k, &v));
    *ret_bytes = v.mv_data;
    *ret_len = v.mv_size;
    return RON_OK;
}

static enum ron_rc lmdb_get(struct led_blobs *s, struct led_blob_key key, const uint8_t **ret_bytes,
                            size_t *ret_len, struct ron_err *err)
{
    struct lmdb_blobs *l = lmdb_of(s);

    RON_TRY(begin(l, err));
    return get_in(l->txn, l->dbi, key, ret_bytes, ret_len, err);
}

static void lmdb_abort(struct led_blobs *s)
{
    struct lmdb_blobs *l = lmdb_of(s);

    if (l->txn != NULL) {
        mdb_txn_abort(l->txn);
        l->txn = NULL;
    }
}

static enum ron_rc lmdb_commit(struct led_blobs *s, struct ron_err *err)
{
    struct lmdb_blobs *l = lmdb_of(s);
    MDB_txn *txn;

    RON_TRY(begin(l, err));
    ron_blocking_point("mdb_txn_commit");
    if (RON_FAULT(RON_FAULT_SYSCALL, "mdb_txn_commit")) {
        lmdb_abort(s);
        return failed(err, "mdb_txn_commit", EIO);
    }
    /* Gone after the call, whatever comes of it. */
    txn = RON_TAKE(l->txn);
    {
        int code = mdb_txn_commit(txn);

        return code == MDB_SUCCESS ? RON_OK : failed(err, "mdb_txn_commit", code);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum ron_rc each_in(struct lmdb_blobs *l, led_blob_see *see, void *arg, MDB_cursor **cursor,
                           struct ron_err *err)
{
    MDB_val k;
    MDB_val v;
    int code;

    LMDB_TRY("mdb_cursor_open", mdb_cursor_open(l->txn, l->dbi, cursor));
    for (code = mdb_cursor_get(*cursor, &k, &v, MDB_FIRST); code == MDB_SUCCESS;
         code = mdb_cursor_get(*cursor, &k, &v, MDB_NEXT)) {
        if (k.mv_size != KEY_BYTES) {
            return ron_err_set(err, RON_CORRUPT, "index: a key of another length");
        }
        RON_TRY(see(arg, key_of(k.mv_data), v.mv_data, v.mv_size, err));
    }
    return code == MDB_NOTFOUND ? RON_OK : failed(err, "mdb_cursor_get", code);
}

static enum ron_rc lmdb_each(struct led_blobs *s, led_blob_see *see, void *arg, struct ron_err *err)
{
    struct lmdb_blobs *l = lmdb_of(s);
    MDB_cursor *cursor = NULL;
    enum ron_rc rc;

    RON_TRY(begin(l, err));
    rc = each_in(l, see, arg, &cursor, err);
    if (cursor != NULL) {
        mdb_cursor_close(cursor);
    }
    return rc;
}

static enum ron_rc lmdb_view(struct led_blobs *s, struct led_blob_view *ret_view,
                             struct ron_err *err)
{
    MDB_txn *txn;

    ron_blocking_point("mdb_txn_begin");
    LMDB_TRY("mdb_txn_begin", mdb_txn_begin(lmdb_of(s)->env, NULL, MDB_RDONLY, &txn));
    *ret_view = (struct led_blob_view){.store = s, .txn = txn};
    return RON_OK;
}

static enum ron_rc lmdb_view_get(const struct led_blob_view *view, struct led_blob_key key,
                                 const uint8_t **ret_bytes, size_t *ret_len, struct ron_err *err)
{
    return get_in(view->txn, lmdb_of(view->store)->dbi, key, ret_bytes, ret_len, err);
}

static void lmdb_view_done(struct led_blob_view *view)
{
    mdb_txn_abort(view->txn);
    view->txn = NULL;
}

static enum ron_rc copy_to(struct lmdb_blobs *l, int fd, struct ron_err *err)
{
    ron_blocking_point("mdb_env_copyfd2");
    /* Without the pages that nobody uses. */
    LMDB_TRY("mdb_env_copyfd2", mdb_env_copyfd2(l->env, fd, MDB_CP_COMPACT));
    return l->ports->disk->sync(l->ports, fd, false, err);
}

/* LMDB would make the file readable for all, so it is made here. */
static enum ron_rc lmdb_copy(struct led_blobs *s, const char *path, struct ron_err *err)
{
    struct lmdb_blobs *l = lmdb_of(s);
    const struct ron_disk_ops *disk = l->ports->disk;
    enum ron_rc rc;
    int fd;

    RON_TRY(disk->open(l->ports, path, RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_EXCL, FILE_MODE,
                       &fd, err));
    rc = copy_to(l, fd, err);
    disk->close(l->ports, fd);
    if (rc != RON_OK) {
        RON_IGNORE(disk->remove(l->ports, path, NULL)); /* half a copy; the failure is told */
    }
    return rc;
}

static uint64_t lmdb_bytes(const struct led_blobs *s)
{
    const struct lmdb_blobs *l = (const struct lmdb_blobs *)s;
    MDB_envinfo info;
    MDB_stat stat;

    return mdb_env_info(l->env, &info) == MDB_SUCCESS && mdb_env_stat(l->env, &stat) == MDB_SUCCESS
               ? (uint64_t)(info.me_last_pgno + 1) * stat.ms_psize
               : 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void lmdb_close(struct led_blobs *s)
{
    struct lmdb_blobs *l = lmdb_of(s);

    lmdb_abort(s);
    if (l->env != NULL) {
        mdb_env_close(l->env);
    }
    ron_free(l);
}

static enum ron_rc open_env(struct lmdb_blobs *l, const struct led_index_opts *opts,
                            struct ron_err *err)
{
    uint64_t map = opts->map_bytes == 0 ? map_default : opts->map_bytes;

    LMDB_TRY("mdb_env_create", mdb_env_create(&l->env));
    LMDB_TRY("mdb_env_set_mapsize", mdb_env_set_mapsize(l->env, map));
    LMDB_TRY("mdb_env_set_maxreaders", mdb_env_set_maxreaders(l->env, VIEWS_MAX));
    LMDB_TRY("mdb_env_open", mdb_env_open(l->env, opts->path, MDB_NOSUBDIR | MDB_NOTLS, FILE_MODE));
    RON_TRY(begin(l, err));
    LMDB_TRY("mdb_dbi_open", mdb_dbi_open(l->txn, NULL, 0, &l->dbi));
    return l->base.ops->commit(&l->base, err);
}

enum ron_rc led__blobs_open_lmdb(const struct led_index_opts *opts, struct led_blobs **ret_store,
                                 struct ron_err *err)
{
    static const struct led_blobs_ops ops = {
        .put = lmdb_put,
        .del = lmdb_del,
        .get = lmdb_get,
        .commit = lmdb_commit,
        .abort = lmdb_abort,
        .each = lmdb_each,
        .view = lmdb_view,
        .view_get = lmdb_view_get,
        .view_done = lmdb_view_done,
        .copy = lmdb_copy,
        .bytes = lmdb_bytes,
        .close = lmdb_close,
    };
    struct lmdb_blobs *l = ron_alloc_zero(sizeof *l);
    enum ron_rc rc;

    if (l == NULL) {
        return RON_NOMEM;
    }
    l->base.ops = &ops;
    l->ports = opts->env;
    ron_blocking_point("mdb_env_open");
    rc = led__lmdb_check(opts->env, opts->path, err);
    if (rc == RON_OK) {
        rc = open_env(l, opts, err);
    }
    if (rc != RON_OK) {
        lmdb_close(&l->base);
        return rc;
    }
    *ret_store = &l->base;
    return RON_OK;
}
