/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/payouts.c - writing the payouts of a run, and comparing files with what would be
 * written.
 *
 * Lines are made in rounds of RWD__ROUND payouts: a round is hashed at once, for the content id and
 * for the tree, and handed to three sinks. A sink writes its file, compares it, or does nothing
 * (dry run); so all three give the same names by the same code.
 *
 * Failure: the first one ends it; files are closed on every way out and nothing is retried. */
#include "rewarder/run/payouts_priv.h"

#include <inttypes.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

const char *const rwd__payouts_files[RWD__PAYOUTS_FILES] = {
    [RWD__LINES] = "payouts.ndjson", [RWD__INDEX] = "payouts.index", [RWD__TREE] = "payouts.tree"};

/* ---- sinks ----------------------------------------------------------------------------------- */

enum { SINK_BYTES = 256 << 10 }; /* few calls of the system, and it fits the second cache */

enum sink_mode { SINK_NONE, SINK_WRITE, SINK_COMPARE };

struct sink {
    const struct ron_env *env;
    enum sink_mode mode;
    int fd;
    uint64_t off; /* of the first byte in buf */
    size_t len;
    uint64_t rows; /* ends of line before `off`, for messages */
    const char *name;
    uint8_t *buf;
    uint8_t *there; /* COMPARE: what the file says */
};

static uint64_t count_lines(const uint8_t *bytes, size_t len)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < len; i++) {
        lines += bytes[i] == '\n';
    }
    return lines;
}

static enum ron_rc sink_differs(const struct sink *s, size_t at, struct ron_err *err)
{
    if (s->name == rwd__payouts_files[RWD__LINES]) {
        return ron_err_set(err, RON_CONFLICT, "%s differs at byte %" PRIu64 ", line %" PRIu64,
                           s->name, s->off + at, s->rows + count_lines(s->buf, at) + 1);
    }
    return ron_err_set(err, RON_CONFLICT, "%s differs at byte %" PRIu64, s->name, s->off + at);
}

static enum ron_rc sink_compare(struct sink *s, struct ron_err *err)
{
    size_t got = 0;
    size_t at = 0;

    if (s->env->disk->pread(s->env, s->fd, s->there, s->len, s->off, &got) != RON_OK) {
        return ron_err_set(err, RON_IO, "%s cannot be read", s->name);
    }
    while (at < got && s->there[at] == s->buf[at]) {
        at++;
    }
    return at == s->len ? RON_OK : sink_differs(s, at, err);
}

static enum ron_rc sink_flush(struct sink *s, struct ron_err *err)
{
    if (s->len == 0) {
        return RON_OK;
    }
    if (s->mode == SINK_WRITE) {
        RON_TRY(s->env->disk->pwrite(s->env, s->fd, s->buf, s->len, s->off, err));
    } else {
        RON_TRY(sink_compare(s, err));
        s->rows += count_lines(s->buf, s->len);
    }
    s->off += s->len;
    s->len = 0;
    return RON_OK;
}

static enum ron_rc sink_put(struct sink *s, const void *bytes, size_t len, struct ron_err *err)
{
    if (s->mode == SINK_NONE) {
        return RON_OK;
    }
    RON_ASSERT(len <= SINK_BYTES);
    if (s->len + len > SINK_BYTES) {
        RON_TRY(sink_flush(s, err));
    }
    memcpy(s->buf + s->len, bytes, len);
    s->len += len;
    return RON_OK;
}

static enum ron_rc sink_open(struct sink *s, const struct rwd_payouts_opts *o, enum sink_mode mode,
                             const char *name, struct ron_err *err)
{
    uint32_t flags = mode == SINK_WRITE ? RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_EXCL
                                        : RON_OPEN_READ | RON_OPEN_PLAIN;
    char path[RON_FILE_PATH_SIZE];

    *s = (struct sink){.env = o->env, .mode = mode, .fd = -1, .name = name};
    if (mode == SINK_NONE) {
        return RON_OK;
    }
    RON_TRY(rwd__path(path, o->dir, name, err));
    s->buf = ron_alloc(SINK_BYTES);
    s->there = mode == SINK_COMPARE ? ron_alloc(SINK_BYTES) : NULL;
    if (s->buf == NULL || (mode == SINK_COMPARE && s->there == NULL)) {
        return ron_err_set(err, RON_NOMEM, "no memory to write %s", name);
    }
    return o->env->disk->open(o->env, path, flags, RWD__FILE_MODE, &s->fd, err);
}

static enum ron_rc sink_end(struct sink *s, struct ron_err *err)
{
    uint64_t size = 0;

    if (s->mode == SINK_NONE) {
        return RON_OK;
    }
    RON_TRY(sink_flush(s, err));
    if (s->mode == SINK_WRITE) {
        return s->env->disk->sync(s->env, s->fd, false, err);
    }
    if (s->env->disk->size(s->env, s->fd, &size) != RON_OK) {
        return ron_err_set(err, RON_IO, "%s cannot be read", s->name);
    }
    return size == s->off
               ? RON_OK
               : ron_err_set(err, RON_CONFLICT, "%s goes on behind its end at byte %" PRIu64,
                             s->name, s->off);
}

static void sink_done(struct sink *s)
{
    if (s->fd >= 0) {
        s->env->disk->close(s->env, s->fd);
    }
    ron_free(s->buf);
    ron_free(s->there);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

struct maker {
    struct sink sinks[RWD__PAYOUTS_FILES];
    struct ron_tree tree;
    struct ron_b3_hasher hasher;
    uint64_t bytes; /* of lines so far */
    struct ron_money total;
    struct ron_err *err;
    /* One round. */
    char text[RWD__ROUND * RWD_LINE_MAX];
    struct ron_str lines[RWD__ROUND];
    struct ron_tree_hash leaves[RWD__ROUND];
    uint8_t places[RWD__ROUND * RWD__PLACE_BYTES];
};

static enum ron_rc put_hashes(void *ctx, uint64_t first, const struct ron_tree_hash *hashes,
                              size_t count, struct ron_err *err)
{
    struct maker *m = ctx;

    (void)first; /* no append fails and is tried again */
    return sink_put(&m->sinks[RWD__TREE], hashes, count * sizeof *hashes, err);
}

static enum ron_rc make_round(struct maker *m, const struct rwd_result *result, uint64_t first,
                              size_t count)
{
    const struct ron_tree_store store = {.ctx = m, .append = put_hashes};
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        struct rwd_payout payout;
        char *line = m->text + len;

        rwd_result_payout(result, first + i, &payout);
        m->lines[i] = (struct ron_str){.ptr = line, .len = rwd_payout_line(&payout, line)};
        line[m->lines[i].len] = '\n';
        rwd__place_put(m->places + i * RWD__PLACE_BYTES, m->bytes + len);
        len += m->lines[i].len + 1;
        if (ron_money_add(m->total, payout.amount, &m->total) != RON_MONEY_OK) {
            return ron_err_set(m->err, RON_LIMIT, "the payouts add up to more than 128 bits");
        }
    }
    m->bytes += len;
    ron_b3_update(&m->hasher, m->text, len);
    ron_tree_hash_leaves(m->lines, count, m->leaves);
    RON_TRY(sink_put(&m->sinks[RWD__LINES], m->text, len, m->err));
    RON_TRY(sink_put(&m->sinks[RWD__INDEX], m->places, count * RWD__PLACE_BYTES, m->err));
    return ron_tree_append(&m->tree, &store, m->leaves, count, m->err);
}

static enum ron_rc make_all(struct maker *m, const struct rwd_payouts_opts *o,
                            const struct rwd_result *result, uint64_t count)
{
    for (uint64_t first = 0; first < count; first += RWD__ROUND) {
        size_t n = (size_t)RON_MIN(count - first, (uint64_t)RWD__ROUND);

        if (o->cancelled != NULL && ron_au32_load(o->cancelled) != 0) {
            return ron_err_set(m->err, RON_CANCELLED, "stopped while payouts were written");
        }
        RON_TRY(make_round(m, result, first, n));
        if (o->done_rows != NULL) {
            ron_au64_add(o->done_rows, n);
        }
    }
    rwd__place_put(m->places, m->bytes);
    RON_TRY(sink_put(&m->sinks[RWD__INDEX], m->places, RWD__PLACE_BYTES, m->err));
    for (size_t i = 0; i < RWD__PAYOUTS_FILES; i++) {
        RON_TRY(sink_end(&m->sinks[i], m->err));
    }
    return RON_OK;
}

static enum ron_rc make(const struct rwd_payouts_opts *o, enum sink_mode mode,
                        const struct rwd_result *result, struct rwd_payouts_sum *ret_sum,
                        struct ron_err *err)
{
    uint64_t count = rwd_result_totals(result)->paid_accounts;
    struct maker *m = ron_alloc_zero(sizeof *m);
    enum ron_rc rc = RON_OK;
    size_t opened = 0;

    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to write payouts");
    }
    m->err = err;
    ron_tree_init(&m->tree);
    ron_b3_init(&m->hasher);
    while (rc == RON_OK && opened < RWD__PAYOUTS_FILES) {
        rc = sink_open(&m->sinks[opened], o, mode, rwd__payouts_files[opened], err);
        opened++;
    }
    if (rc == RON_OK) {
        rc = make_all(m, o, result, count);
    }
    for (size_t i = 0; i < opened; i++) {
        sink_done(&m->sinks[i]);
    }
    if (rc == RON_OK) {
        *ret_sum = (struct rwd_payouts_sum){.count = count, .total = m->total};
        ron_b3_final(&m->hasher, &ret_sum->cid);
        ron_tree_root(&m->tree, &ret_sum->root);
    }
    ron_free(m);
    return rc;
}

enum ron_rc rwd_payouts_write(const struct rwd_payouts_opts *opts, const struct rwd_result *result,
                              struct rwd_payouts_sum *ret_sum, struct ron_err *err)
{
    return make(opts, opts->dir == NULL ? SINK_NONE : SINK_WRITE, result, ret_sum, err);
}

enum ron_rc rwd_payouts_compare(const struct rwd_payouts_opts *opts,
                                const struct rwd_result *result, struct rwd_payouts_sum *ret_sum,
                                struct ron_err *err)
{
    RON_ASSERT(opts->dir != NULL);
    return make(opts, SINK_COMPARE, result, ret_sum, err);
}
