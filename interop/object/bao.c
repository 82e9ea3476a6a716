/* SPDX-License-Identifier: Apache-2.0 */
/* interop/object/bao.c - verified ranges; contract in bao.h.
 *
 * A subtree is named by its first chunk and how many chunks it has. Its left half has the largest
 * power of two of chunks that leaves something for the right. Groups of 16 chunks are subtrees of
 * their own whenever there is more than one, so above them the chaining values of groups suffice.
 * Recursion is bounded by the height of the tree (54). */
#include "interop/object/bao.h"

#include <endian.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { GROUP_CHUNKS = IOP_BAO_GROUP / IOP_BAO_CHUNK, GROUPS_FIRST = 64 };

_Static_assert((int)IOP_BAO_CHUNK == (int)RON_B3_CHUNK, "a chunk");

struct iop_bao {
    uint64_t len;
    uint64_t len_max;
    struct ron_b3 *groups; /* of whole groups, and after final of the last one too */
    size_t group_count;
    size_t group_room;
    uint8_t rest[IOP_BAO_GROUP]; /* of the group that is not whole yet */
    size_t rest_len;
    bool ended;
};

static uint64_t chunks_of(uint64_t len)
{
    return len == 0 ? 1 : (len - 1) / IOP_BAO_CHUNK + 1;
}

/* The largest power of two below `count`, which is at least 2. */
static uint64_t left_of(uint64_t count)
{
    RON_ASSERT(count >= 2);
    return UINT64_C(1) << (63 - __builtin_clzll(count - 1));
}

/* The root of some neighbouring subtrees of equal size (the last may be smaller). */
static struct ron_b3 join(const struct ron_b3 *cvs, uint64_t count, bool root)
{
    struct ron_b3 left;
    struct ron_b3 right;

    RON_ASSERT(count > 0);
    if (count == 1) {
        return cvs[0];
    }
    left = join(cvs, left_of(count), false);
    right = join(cvs + left_of(count), count - left_of(count), false);
    ron_b3_parent(&left, &right, root, &left);
    return left;
}

/* The chunks of at most a group of content. */
static uint64_t group_chunks(const uint8_t *bytes, size_t len, uint64_t number, bool only,
                             struct ron_b3 cvs[GROUP_CHUNKS])
{
    uint64_t count = chunks_of(len);
    size_t whole = len / IOP_BAO_CHUNK;

    RON_ASSERT_MSG(count <= GROUP_CHUNKS, "a group has at most 16 chunks");
    if (only && count == 1) {
        ron_b3_chunk(bytes, len, number, true, &cvs[0]);
        return 1;
    }
    ron_b3_chunks(bytes, whole, number, cvs);
    if (whole < count) {
        ron_b3_chunk(bytes + whole * IOP_BAO_CHUNK, len - whole * IOP_BAO_CHUNK, number + whole,
                     false, &cvs[whole]);
    }
    return count;
}

static struct ron_b3 group_cv(const uint8_t *bytes, size_t len, uint64_t number, bool only)
{
    struct ron_b3 cvs[GROUP_CHUNKS];
    uint64_t count = group_chunks(bytes, len, number, only, cvs);

    return join(cvs, count, only);
}

/* ---- the tree -------------------------------------------------------------------------------- */

enum ron_rc iop_bao_new(uint64_t len_max, struct iop_bao **ret_tree, struct ron_err *err)
{
    struct iop_bao *t = ron_alloc_zero(sizeof *t);

    if (t == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for the object's hash tree");
    }
    t->len_max = len_max;
    *ret_tree = t;
    return RON_OK;
}

void iop_bao_free(struct iop_bao *t)
{
    if (t != NULL) {
        ron_free(t->groups);
        ron_free(t);
    }
}

static enum ron_rc add_group(struct iop_bao *t, struct ron_b3 cv)
{
    if (t->group_count == t->group_room) {
        size_t room = t->group_room == 0 ? GROUPS_FIRST : 2 * t->group_room;
        struct ron_b3 *more = ron_realloc_array(t->groups, room, sizeof *more);

        if (more == NULL) {
            return RON_NOMEM;
        }
        t->groups = more;
        t->group_room = room;
    }
    RON_ASSERT_MSG(!t->ended, "O1: a finished tree does not grow");
    RON_ASSERT(t->group_count < t->group_room);
    t->groups[t->group_count++] = cv;
    return RON_OK;
}

enum ron_rc iop_bao_update(struct iop_bao *t, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    RON_ASSERT(!t->ended);
    RON_ASSERT(t->len <= t->len_max);
    if (len > t->len_max - t->len) {
        return RON_LIMIT;
    }
    while (len > 0) {
        size_t n;

        /* A whole group is hashed only when more follows: the last one may be the root. */
        if (t->rest_len == sizeof t->rest) {
            RON_TRY(add_group(t, group_cv(t->rest, sizeof t->rest,
                                          (uint64_t)t->group_count * GROUP_CHUNKS, false)));
            t->rest_len = 0;
        }
        n = RON_MIN(len, sizeof t->rest - t->rest_len);
        memcpy(t->rest + t->rest_len, at, n);
        t->rest_len += n;
        t->len += n;
        at += n;
        len -= n;
    }
    return RON_OK;
}

enum ron_rc iop_bao_final(struct iop_bao *t, struct ron_b3 *ret_root)
{
    if (!t->ended) {
        bool only = t->group_count == 0;

        RON_TRY(add_group(
            t, group_cv(t->rest, t->rest_len, (uint64_t)t->group_count * GROUP_CHUNKS, only)));
        t->ended = true;
    }
    RON_ASSERT(t->ended);
    RON_ASSERT_MSG(t->group_count > 0, "an empty object has one chunk");
    *ret_root = join(t->groups, t->group_count, true);
    return RON_OK;
}

uint64_t iop_bao_len(const struct iop_bao *t)
{
    return t->len;
}

size_t iop_bao_size(const struct iop_bao *t)
{
    return sizeof *t + t->group_room * sizeof *t->groups;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

struct range {
    uint64_t object_len;
    uint64_t start;
    uint64_t end;
};

/* What a range touches: at least one byte, and the last chunk when it begins behind the end. */
static struct range range_of(uint64_t object_len, uint64_t start, uint64_t len)
{
    struct range r = {.object_len = object_len, .start = start};

    if (start >= object_len) {
        r.start = object_len > 0 ? object_len - 1 : 0;
        len = 1;
    }
    len = RON_MAX(len, UINT64_C(1));
    r.end = len > UINT64_MAX - r.start ? UINT64_MAX : r.start + len;
    return r;
}

static bool touches(const struct range *r, uint64_t first, uint64_t count)
{
    uint64_t begin = first * IOP_BAO_CHUNK;
    uint64_t end = first + count >= chunks_of(r->object_len) ? RON_MAX(r->object_len, UINT64_C(1))
                                                             : (first + count) * IOP_BAO_CHUNK;

    return begin < r->end && r->start < end;
}

static size_t chunk_len(const struct range *r, uint64_t number)
{
    uint64_t left = r->object_len - number * IOP_BAO_CHUNK;

    return (size_t)RON_MIN(left, (uint64_t)IOP_BAO_CHUNK);
}

static uint64_t measure(const struct range *r, uint64_t first, uint64_t count)
{
    uint64_t left;

    if (!touches(r, first, count)) {
        return 0;
    }
    if (count == 1) {
        return chunk_len(r, first);
    }
    left = left_of(count);
    return IOP_BAO_PARENT + measure(r, first, left) + measure(r, first + left, count - left);
}

/* As measure, but a subtree inside of the range is counted by formula. */
static uint64_t measure_fast(const struct range *r, uint64_t first, uint64_t count)
{
    uint64_t begin = first * IOP_BAO_CHUNK;
    uint64_t end = RON_MIN((first + count) * IOP_BAO_CHUNK, r->object_len);
    uint64_t left;

    if (count > 1 && r->start <= begin && end <= r->end) {
        return (count - 1) * IOP_BAO_PARENT + (end - begin);
    }
    if (count == 1 || !touches(r, first, count)) {
        return measure(r, first, count);
    }
    left = left_of(count);
    return IOP_BAO_PARENT + measure_fast(r, first, left) +
           measure_fast(r, first + left, count - left);
}

uint64_t iop_bao_slice_len(uint64_t object_len, uint64_t start, uint64_t len)
{
    struct range r = range_of(object_len, start, len);

    return IOP_BAO_HEADER + measure_fast(&r, 0, chunks_of(object_len));
}

/* ---- a slice made ---------------------------------------------------------------------------- */

struct maker {
    const struct iop_bao *tree;
    struct range range;
    iop_bao_read_fn *read;
    void *read_arg;
    iop_bao_emit_fn *emit;
    void *emit_arg;
    struct ron_err *err;
    /* The group at hand. */
    uint8_t bytes[IOP_BAO_GROUP];
    struct ron_b3 cvs[GROUP_CHUNKS];
};

static enum ron_rc emit_parent(struct maker *m, const struct ron_b3 *left,
                               const struct ron_b3 *right)
{
    uint8_t node[IOP_BAO_PARENT];

    memcpy(node, left->bytes, RON_B3_BYTES);
    memcpy(node + RON_B3_BYTES, right->bytes, RON_B3_BYTES);
    return m->emit(m->emit_arg, node, sizeof node);
}

/* Inside of the group at hand, which begins at chunk `base`. */
static enum ron_rc make_inside(struct maker *m, uint64_t base, uint64_t first, uint64_t count)
{
    uint64_t half;
    struct ron_b3 left;
    struct ron_b3 right;

    if (!touches(&m->range, first, count)) {
        return RON_OK;
    }
    if (count == 1) {
        return m->emit(m->emit_arg, m->bytes + (first - base) * IOP_BAO_CHUNK,
                       chunk_len(&m->range, first));
    }
    half = left_of(count);
    left = join(m->cvs + (first - base), half, false);
    right = join(m->cvs + (first - base) + half, count - half, false);
    RON_TRY(emit_parent(m, &left, &right));
    RON_TRY(make_inside(m, base, first, half));
    return make_inside(m, base, first + half, count - half);
}

static enum ron_rc make_group(struct maker *m, uint64_t group)
{
    const struct iop_bao *t = m->tree;
    uint64_t off = group * IOP_BAO_GROUP;
    size_t len = (size_t)RON_MIN(t->len - off, (uint64_t)IOP_BAO_GROUP);
    uint64_t base = group * GROUP_CHUNKS;
    bool only = t->group_count == 1;
    struct ron_b3 cv;
    uint64_t count;

    if (len > 0) {
        RON_TRY(m->read(m->read_arg, off, m->bytes, len));
    }
    count = group_chunks(m->bytes, len, base, only, m->cvs);
    cv = join(m->cvs, count, only);
    if (!ron_b3_equal(&cv, &t->groups[group])) {
        return ron_err_set(m->err, RON_CORRUPT, "object content changed");
    }
    return make_inside(m, base, base, count);
}

/* A subtree of whole groups. */
static enum ron_rc make_groups(struct maker *m, uint64_t first, uint64_t count)
{
    const struct iop_bao *t = m->tree;
    struct ron_b3 left;
    struct ron_b3 right;
    uint64_t half;

    if (!touches(&m->range, first * GROUP_CHUNKS, count * GROUP_CHUNKS)) {
        return RON_OK;
    }
    if (count == 1) {
        return make_group(m, first);
    }
    half = left_of(count);
    left = join(t->groups + first, half, false);
    right = join(t->groups + first + half, count - half, false);
    RON_TRY(emit_parent(m, &left, &right));
    RON_TRY(make_groups(m, first, half));
    return make_groups(m, first + half, count - half);
}

enum ron_rc iop_bao_slice(const struct iop_bao *t, uint64_t start, uint64_t len,
                          iop_bao_read_fn *read, void *read_arg, iop_bao_emit_fn *emit,
                          void *emit_arg, struct ron_err *err)
{
    struct maker *m = ron_alloc(sizeof *m);
    uint64_t header = htole64(t->len);
    enum ron_rc rc;

    RON_ASSERT(t->ended);
    if (m == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for a slice");
    }
    m->tree = t;
    m->range = range_of(t->len, start, len);
    m->read = read;
    m->read_arg = read_arg;
    m->emit = emit;
    m->emit_arg = emit_arg;
    m->err = err;
    rc = emit(emit_arg, &header, sizeof header);
    if (rc == RON_OK) {
        rc = make_groups(m, 0, t->group_count);
    }
    ron_free(m);
    return rc;
}

/* ---- a slice checked ------------------------------------------------------------------------- */

struct checker {
    struct range range;
    uint64_t wanted_start; /* as asked, not widened */
    uint64_t wanted_end;
    const uint8_t *at;
    size_t left;
    iop_bao_content_fn *content;
    void *content_arg;
    struct ron_err *err;
};

static enum ron_rc wrong(struct checker *c, const char *why)
{
    return ron_err_set(c->err, RON_CORRUPT, "slice does not match the object: %s", why);
}

static const uint8_t *take(struct checker *c, size_t len)
{
    const uint8_t *p = c->at;

    if (c->left < len) {
        return NULL;
    }
    c->at += len;
    c->left -= len;
    return p;
}

static enum ron_rc check_chunk(struct checker *c, uint64_t number, bool root,
                               const struct ron_b3 *expected)
{
    size_t len = chunk_len(&c->range, number);
    const uint8_t *bytes = take(c, len);
    uint64_t off = number * IOP_BAO_CHUNK;
    uint64_t from = RON_MAX(off, c->wanted_start);
    uint64_t to = RON_MIN(off + len, c->wanted_end);
    struct ron_b3 cv;

    if (bytes == NULL) {
        return wrong(c, "truncated");
    }
    ron_b3_chunk(bytes, len, number, root, &cv);
    if (!ron_b3_equal(&cv, expected)) {
        return wrong(c, "chunk hash mismatch");
    }
    return from < to ? c->content(c->content_arg, from, bytes + (from - off), (size_t)(to - from))
                     : RON_OK;
}

static enum ron_rc check_tree(struct checker *c, uint64_t first, uint64_t count, bool root,
                              const struct ron_b3 *expected)
{
    const uint8_t *node;
    struct ron_b3 left;
    struct ron_b3 right;
    struct ron_b3 cv;
    uint64_t half;

    if (!touches(&c->range, first, count)) {
        return RON_OK;
    }
    if (count == 1) {
        return check_chunk(c, first, root, expected);
    }
    node = take(c, IOP_BAO_PARENT);
    if (node == NULL) {
        return wrong(c, "truncated");
    }
    memcpy(left.bytes, node, RON_B3_BYTES);
    memcpy(right.bytes, node + RON_B3_BYTES, RON_B3_BYTES);
    ron_b3_parent(&left, &right, root, &cv);
    if (!ron_b3_equal(&cv, expected)) {
        return wrong(c, "node hash mismatch");
    }
    half = left_of(count);
    RON_TRY(check_tree(c, first, half, false, &left));
    return check_tree(c, first + half, count - half, false, &right);
}

enum ron_rc iop_bao_check(const struct ron_b3 *root, uint64_t start, uint64_t len,
                          const void *slice, size_t slice_len, iop_bao_content_fn *content,
                          void *content_arg, uint64_t *ret_len, struct ron_err *err)
{
    struct checker c = {.wanted_start = start,
                        .wanted_end = len > UINT64_MAX - start ? UINT64_MAX : start + len,
                        .at = slice,
                        .left = slice_len,
                        .content = content,
                        .content_arg = content_arg,
                        .err = err};
    const uint8_t *header = take(&c, IOP_BAO_HEADER);
    uint64_t object_len;

    if (header == NULL) {
        return wrong(&c, "length is missing");
    }
    memcpy(&object_len, header, sizeof object_len);
    object_len = le64toh(object_len);
    c.range = range_of(object_len, start, len);
    RON_TRY(check_tree(&c, 0, chunks_of(object_len), true, root));
    if (c.left > 0) {
        return wrong(&c, "trailing bytes");
    }
    *ret_len = object_len;
    return RON_OK;
}
