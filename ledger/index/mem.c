/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/mem.c - the store of an index in memory: a sorted array of blobs.
 *
 * For the simulator and for ledgers that leave nothing on disk. Changes wait in a list until the
 * commit, which makes a new array of the old one and the list in one pass; so an abort forgets the
 * list, and a commit that finds no memory changes nothing.
 *
 * Threads: the writer's alone. Lookups get the bytes through the pointers that `put` gave out, and
 * the writer deletes a blob only when no lookup can use it (set.c). Nothing is read back, so the
 * ports for that (open_run, tidy, read) are absent. */
#include "ledger/index/priv.h"

#include "ron/base/alloc.h"

struct blob {
    struct led_blob_key key;
    uint8_t *bytes; /* NULL in a change: delete */
    size_t len;
    size_t order; /* among changes of one key the last counts */
};

struct mem_blobs {
    struct led_blobs base;
    struct blob *blobs; /* committed, sorted */
    size_t count;
    struct blob *changes;
    size_t change_count;
    size_t change_cap;
    struct ron_stat bytes;
};

static struct mem_blobs *mem_of(struct led_blobs *s)
{
    return RON_CONTAINER_OF(s, struct mem_blobs, base);
}

static int compare_keys(const struct led_blob_key *x, const struct led_blob_key *y)
{
    if (x->kind != y->kind) {
        return x->kind < y->kind ? -1 : 1;
    }
    if (x->a != y->a) {
        return x->a < y->a ? -1 : 1;
    }
    return x->b < y->b ? -1 : x->b > y->b;
}

static int compare(const void *x, const void *y)
{
    const struct blob *a = x;
    const struct blob *b = y;
    int order = compare_keys(&a->key, &b->key);

    return order != 0 ? order : a->order < b->order ? -1 : 1;
}

static enum ron_rc change(struct mem_blobs *m, struct blob blob)
{
    if (m->change_count == m->change_cap) {
        size_t cap = RON_MAX(m->change_cap * 2, (size_t)64);
        struct blob *grown = ron_realloc_array(m->changes, cap, sizeof *grown);

        if (grown == NULL) {
            return RON_NOMEM;
        }
        m->changes = grown;
        m->change_cap = cap;
    }
    blob.order = m->change_count;
    m->changes[m->change_count++] = blob;
    return RON_OK;
}

static enum ron_rc mem_put(struct led_blobs *s, struct led_blob_key key, const void *bytes,
                           size_t len, const uint8_t **ret_kept, struct ron_err *err)
{
    struct blob blob = {.key = key, .bytes = ron_alloc(len), .len = len};

    (void)err;
    if (blob.bytes == NULL) {
        return RON_NOMEM;
    }
    if (len > 0) {
        memcpy(blob.bytes, bytes, len);
    }
    if (change(mem_of(s), blob) != RON_OK) {
        ron_free(blob.bytes);
        return RON_NOMEM;
    }
    *ret_kept = blob.bytes;
    return RON_OK;
}

static enum ron_rc mem_del(struct led_blobs *s, struct led_blob_key key, struct ron_err *err)
{
    (void)err;
    return change(mem_of(s), (struct blob){.key = key});
}

static enum ron_rc mem_get(struct led_blobs *s, struct led_blob_key key, const uint8_t **ret_bytes,
                           size_t *ret_len, struct ron_err *err)
{
    struct mem_blobs *m = mem_of(s);
    const struct blob *found = NULL;
    size_t lo = 0;
    size_t hi = m->count;

    for (size_t i = m->change_count; i > 0 && found == NULL; i--) {
        if (compare_keys(&m->changes[i - 1].key, &key) == 0) {
            found = &m->changes[i - 1];
        }
    }
    while (found == NULL && lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = compare_keys(&m->blobs[mid].key, &key);

        if (order == 0) {
            found = &m->blobs[mid];
        } else if (order < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    if (found == NULL || found->bytes == NULL) {
        return ron_err_set(err, RON_NOTFOUND, "no such blob in the index");
    }
    *ret_bytes = found->bytes;
    *ret_len = found->len;
    return RON_OK;
}

/* One pass over both: the changes win. */
static enum ron_rc mem_commit(struct led_blobs *s, struct ron_err *err)
{
    struct mem_blobs *m = mem_of(s);
    struct blob *made = ron_alloc_array(m->count + m->change_count + 1, sizeof *made);
    size_t count = 0;
    size_t bytes = 0;
    size_t i = 0;

    (void)err;
    if (made == NULL) {
        m->base.ops->abort(s);
        return RON_NOMEM;
    }
    if (m->change_count > 0) {
        qsort(m->changes, m->change_count, sizeof *m->changes, compare);
    }
    for (size_t k = 0; k < m->change_count; k++) {
        const struct blob *c = &m->changes[k];

        if (k + 1 < m->change_count && compare_keys(&c->key, &c[1].key) == 0) {
            ron_free(c->bytes);
            continue;
        }
        for (; i < m->count && compare_keys(&m->blobs[i].key, &c->key) < 0; i++) {
            made[count++] = m->blobs[i];
        }
        if (i < m->count && compare_keys(&m->blobs[i].key, &c->key) == 0) {
            ron_free(m->blobs[i++].bytes);
        }
        if (c->bytes != NULL) {
            made[count++] = *c;
        }
    }
    for (; i < m->count; i++) {
        made[count++] = m->blobs[i];
    }
    for (size_t k = 0; k < count; k++) {
        bytes += made[k].len + sizeof *made;
    }
    ron_free(m->blobs);
    m->blobs = made;
    m->count = count;
    m->change_count = 0;
    ron_stat_set(&m->bytes, bytes);
    return RON_OK;
}

static void mem_abort(struct led_blobs *s)
{
    struct mem_blobs *m = mem_of(s);

    for (size_t i = 0; i < m->change_count; i++) {
        ron_free(m->changes[i].bytes);
    }
    m->change_count = 0;
}

static enum ron_rc mem_make_run(struct led_blobs *s, uint64_t run, bool whole,
                                const struct led_run_file **ret_file, struct ron_err *err)
{
    (void)s;
    (void)run;
    (void)whole;
    (void)err;
    *ret_file = NULL;
    return RON_OK;
}

static struct led_place mem_place(struct led_blobs *s, uint64_t run)
{
    (void)s;
    (void)run;
    return (struct led_place){0};
}

static enum ron_rc mem_sync_run(struct led_blobs *s, uint64_t run, struct ron_err *err)
{
    (void)s;
    (void)run;
    (void)err;
    return RON_OK;
}

static enum ron_rc mem_copy(struct led_blobs *s, const char *path, struct ron_err *err)
{
    (void)s;
    (void)path;
    return ron_err_set(err, RON_INVALID, "the index is in memory and cannot be copied to a file");
}

static uint64_t mem_bytes(const struct led_blobs *s)
{
    return ron_stat_get(&((const struct mem_blobs *)s)->bytes);
}

static void mem_close(struct led_blobs *s)
{
    struct mem_blobs *m = mem_of(s);

    mem_abort(s);
    for (size_t i = 0; i < m->count; i++) {
        ron_free(m->blobs[i].bytes);
    }
    ron_free(m->blobs);
    ron_free(m->changes);
    ron_free(m);
}

enum ron_rc led__blobs_open_memory(struct led_blobs **ret_store)
{
    static const struct led_blobs_ops ops = {
        .put = mem_put,
        .del = mem_del,
        .get = mem_get,
        .commit = mem_commit,
        .abort = mem_abort,
        .make_run = mem_make_run,
        .place = mem_place,
        .sync_run = mem_sync_run,
        .copy = mem_copy,
        .bytes = mem_bytes,
        .close = mem_close,
    };
    struct mem_blobs *m = ron_alloc_zero(sizeof *m);

    if (m == NULL) {
        return RON_NOMEM;
    }
    m->base.ops = &ops;
    *ret_store = &m->base;
    return RON_OK;
}
