/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/index/check.c - is this LMDB file sound? Asked before LMDB opens it.
 *
 * LMDB maps its file and trusts every byte of it: a page number that a bad disk has changed makes
 * it read outside of the map, and the process dies, at each start again. An index is only derived,
 * so the right answer to a damaged one is a new one (X3). Our blobs have checksums, LMDB's own
 * pages have none. So this walks them all as LMDB would, with plain reads: about a page for each
 * 120 blobs and the head of each blob.
 *
 * Checked, of the newer of the two head pages (formats of LMDB 0.9 on 64 bits, little-endian;
 * docs/formats/ledger-index.md):
 *   C1. every page that can be reached is in the file, has its own number and the right kind, and
 *       is reached once;
 *   C2. in a page, places and sizes of the nodes fill it exactly; keys ascend through the tree; all
 *       leaves are at the depth that the head says, and all counts are as it says;
 *   C3. a list of free pages is ordered and names no page that is used; used and free pages
 *       together are all that were ever given out.
 *
 * Pure code over the ports; blocks. Failure: RON_CORRUPT says what is wrong first. */
#include "ledger/index/priv.h"

#include "ron/base/alloc.h"

enum {
    PAGE_HEAD = 16,
    NODE_HEAD = 8,
    META_BYTES = 136,
    DB_BYTES = 48,
    PAGE_MIN = 512,
    PAGE_MAX = 65536,
    DEPTH_MAX = 12, /* of a tree with two keys a page at least: more pages than a file can have */
    KEY_MAX = 511,
    /* Flags of a page, and of a node whose value lies on pages of its own. */
    IS_BRANCH = 1,
    IS_LEAF = 2,
    IS_OVERFLOW = 4,
    IS_META = 8,
    NODE_BIG = 1,
    /* What may be said of the databases: keys are numbers (the free list), no fixed address. */
    DB_NUMBERS = 8,
    META_FIXED = 1,
    /* Free pages that are read at a time. */
    FREE_CHUNK = 512,
};

static const uint64_t no_page = UINT64_MAX;

struct db {
    uint32_t pad; /* of the free list: bytes of a page */
    uint16_t flags;
    uint16_t depth;
    uint64_t branches;
    uint64_t leaves;
    uint64_t overflows;
    uint64_t entries;
    uint64_t root;
};
_Static_assert(sizeof(struct db) == DB_BYTES, "as LMDB lays it out");

struct meta {
    uint32_t magic;
    uint32_t version;
    uint64_t address;
    uint64_t map_bytes;
    struct db dbs[2]; /* the free list, the content */
    uint64_t last_page;
    uint64_t txn;
};
_Static_assert(sizeof(struct meta) == META_BYTES, "as LMDB lays it out");

struct frame {
    uint8_t *page;
    uint32_t keys;
    uint32_t next;
};

struct check {
    const struct ron_env *env;
    int fd;
    uint32_t page_bytes;
    uint64_t pages;     /* whole ones in the file */
    uint64_t last_page; /* that LMDB has ever given out */
    uint8_t *used;      /* a bit for each page of the file */
    uint64_t accounted; /* pages found used or free */
    struct frame stack[DEPTH_MAX];
    struct ron_err *err;
    /* Of the tree that is walked. */
    bool free_list;
    struct db seen;
    uint8_t key[KEY_MAX];
    size_t key_len;
};

static enum ron_rc wrong(struct check *c, const char *what, uint64_t page)
{
    return ron_err_set(c->err, RON_CORRUPT, "index: page %llu: %s", (unsigned long long)page, what);
}

static uint16_t load16(const uint8_t *at)
{
    uint16_t x;

    memcpy(&x, at, sizeof x);
    return x;
}

static enum ron_rc read_at(struct check *c, void *to, size_t len, uint64_t off)
{
    size_t got = 0;

    RON_TRY(c->env->disk->pread(c->env, c->fd, to, len, off, &got));
    return got == len ? RON_OK : wrong(c, "beyond the end", off / c->page_bytes);
}

/* C1: counts `count` pages from `page` on as used. */
static enum ron_rc use(struct check *c, uint64_t page, uint64_t count)
{
    if (page < 2 || count == 0 || page > c->last_page || count > c->last_page - page + 1 ||
        page >= c->pages || count > c->pages - page) {
        return wrong(c, "not in the file", page);
    }
    for (uint64_t i = page; i < page + count; i++) {
        if ((c->used[i / 8] >> (i % 8) & 1) != 0) {
            return wrong(c, "used twice", i);
        }
        c->used[i / 8] = (uint8_t)(c->used[i / 8] | 1u << (i % 8));
    }
    c->accounted += count;
    return RON_OK;
}

/* ---- free pages ------------------------------------------------------------------------------ */

/* C3: a list that lies at `off` in the file: how many, then the pages, greatest first. */
static enum ron_rc check_free(struct check *c, uint64_t off, uint64_t len)
{
    uint64_t chunk[FREE_CHUNK];
    uint64_t before = c->last_page + 1;
    uint64_t count;

    if (len < sizeof count) {
        return wrong(c, "a short list of free pages", off / c->page_bytes);
    }
    RON_TRY(read_at(c, &count, sizeof count, off));
    if (count > len / sizeof count - 1) {
        return wrong(c, "a long list of free pages", off / c->page_bytes);
    }
    for (uint64_t done = 0; done < count;) {
        size_t n = RON_MIN((size_t)(count - done), (size_t)FREE_CHUNK);

        RON_TRY(read_at(c, chunk, n * sizeof chunk[0], off + 8 + done * 8));
        for (size_t i = 0; i < n; i++) {
            if (chunk[i] >= before || chunk[i] < 2) {
                return wrong(c, "free pages out of order", off / c->page_bytes);
            }
            before = chunk[i];
            /* A page that was given out and back at once may lie behind the end. */
            if (before < c->pages) {
                RON_TRY(use(c, before, 1));
            } else {
                c->accounted++;
            }
        }
        done += n;
    }
    return RON_OK;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* C2: greater than all keys before it. */
static enum ron_rc check_key(struct check *c, const uint8_t *key, size_t len, uint64_t page)
{
    size_t common = RON_MIN(len, c->key_len);
    int order = memcmp(c->key, key, common);

    if (len == 0 || len > KEY_MAX || (c->free_list && len != 8)) {
        return wrong(c, "a key of impossible length", page);
    }
    if (c->free_list && c->key_len == 8) {
        order = led__load64(c->key) < led__load64(key) ? -1 : 1;
    }
    if (order > 0 || (order == 0 && c->key_len >= len)) {
        return wrong(c, "keys out of order", page);
    }
    memcpy(c->key, key, len);
    c->key_len = len;
    return RON_OK;
}

/* A value on pages of its own. */
static enum ron_rc check_big(struct check *c, uint64_t page, uint64_t len)
{
    uint64_t count = (PAGE_HEAD - 1 + len) / c->page_bytes + 1;
    uint8_t head[PAGE_HEAD];
    uint32_t pages;

    RON_TRY(use(c, page, count));
    RON_TRY(read_at(c, head, sizeof head, page * c->page_bytes));
    memcpy(&pages, head + 12, sizeof pages);
    if (led__load64(head) != page || load16(head + 10) != IS_OVERFLOW || pages != count) {
        return wrong(c, "not the value it should be", page);
    }
    c->seen.overflows += count;
    return c->free_list ? check_free(c, page * c->page_bytes + PAGE_HEAD, len) : RON_OK;
}

/* The bytes that node i takes, checked to lie in the page; 0: they do not. */
static uint32_t node_bytes(const struct check *c, const uint8_t *page, uint32_t i)
{
    uint32_t upper = load16(page + 14);
    uint32_t at = load16(page + PAGE_HEAD + 2 * (size_t)i);
    bool leaf = load16(page + 10) == IS_LEAF;
    const uint8_t *node = page + at;
    uint64_t bytes;

    if (at < upper || at % 2 != 0 || at + NODE_HEAD > c->page_bytes) {
        return 0;
    }
    bytes = NODE_HEAD + (uint64_t)load16(node + 6);
    if (leaf && (load16(node + 4) & ~NODE_BIG) != 0) {
        return 0;
    }
    if (leaf) {
        bytes += load16(node + 4) == NODE_BIG ? sizeof(uint64_t)
                                              : load16(node) | (uint64_t)load16(node + 2) << 16;
    }
    bytes = (bytes + 1) / 2 * 2;
    return bytes <= c->page_bytes - at ? (uint32_t)bytes : 0;
}

/* C1 and C2 of one page, which is read into the frame. */
static enum ron_rc enter(struct check *c, struct frame *f, uint64_t page, bool leaf)
{
    uint32_t lower;
    uint32_t upper;
    uint64_t bytes = 0;

    RON_TRY(use(c, page, 1));
    RON_TRY(read_at(c, f->page, c->page_bytes, page * c->page_bytes));
    lower = load16(f->page + 12);
    upper = load16(f->page + 14);
    if (led__load64(f->page) != page || load16(f->page + 10) != (leaf ? IS_LEAF : IS_BRANCH) ||
        lower < PAGE_HEAD || lower % 2 != 0 || lower > upper || upper > c->page_bytes) {
        return wrong(c, "not the page it should be", page);
    }
    f->keys = (lower - PAGE_HEAD) / 2;
    f->next = 0;
    for (uint32_t i = 0; i < f->keys; i++) {
        uint32_t n = node_bytes(c, f->page, i);

        if (n == 0) {
            return wrong(c, "a node outside of it", page);
        }
        bytes += n;
    }
    if (bytes != c->page_bytes - upper || f->keys < (leaf ? 1u : 2u)) {
        return wrong(c, "nodes that do not fill it", page);
    }
    return RON_OK;
}

static enum ron_rc check_leaf(struct check *c, const struct frame *f)
{
    uint64_t page = led__load64(f->page);

    for (uint32_t i = 0; i < f->keys; i++) {
        uint32_t at = load16(f->page + PAGE_HEAD + 2 * (size_t)i);
        const uint8_t *node = f->page + at;
        uint32_t key_len = load16(node + 6);
        uint64_t len = load16(node) | (uint64_t)load16(node + 2) << 16;

        RON_TRY(check_key(c, node + NODE_HEAD, key_len, page));
        if (load16(node + 4) == NODE_BIG) {
            RON_TRY(check_big(c, led__load64(node + NODE_HEAD + key_len), len));
        } else if (c->free_list) {
            RON_TRY(check_free(c, page * c->page_bytes + at + NODE_HEAD + key_len, len));
        }
        c->seen.entries++;
    }
    c->seen.leaves++;
    return RON_OK;
}

/* The next child of a branch. Its key is the smallest that may stand below: greater than all
 * before, and the keys below are not less; of the first child it is empty and says nothing. */
static enum ron_rc step_down(struct check *c, struct frame *f, uint64_t *ret_child)
{
    const uint8_t *node = f->page + load16(f->page + PAGE_HEAD + 2 * (size_t)f->next);
    uint32_t key_len = load16(node + 6);

    if (f->next == 0) {
        c->seen.branches++;
    } else {
        RON_TRY(check_key(c, node + NODE_HEAD, key_len, led__load64(f->page)));
        /* The leaf below may begin with the same key. */
        c->key_len--;
        if (c->free_list) {
            uint64_t less = led__load64(c->key) - 1;

            memcpy(c->key, &less, sizeof less);
            c->key_len = sizeof less;
        }
    }
    *ret_child = load16(node) | (uint64_t)load16(node + 2) << 16 | (uint64_t)load16(node + 4) << 32;
    f->next++;
    return RON_OK;
}

static enum ron_rc walk(struct check *c, const struct db *db, bool free_list)
{
    uint32_t depth = 0;
    uint64_t page = db->root;

    c->free_list = free_list;
    c->seen = (struct db){.pad = db->pad, .flags = db->flags, .depth = db->depth, .root = db->root};
    c->key_len = 0;
    if ((db->root == no_page) != (db->depth == 0) || db->depth > DEPTH_MAX) {
        return wrong(c, "a tree of impossible depth", db->root);
    }
    if (db->depth > 0) {
        RON_TRY(enter(c, &c->stack[depth++], page, db->depth == 1));
    }
    while (depth > 0) {
        struct frame *f = &c->stack[depth - 1];

        if (depth == db->depth) {
            RON_TRY(check_leaf(c, f));
            depth--;
        } else if (f->next == f->keys) {
            depth--;
        } else {
            RON_TRY(step_down(c, f, &page));
            RON_TRY(enter(c, &c->stack[depth], page, depth + 1 == db->depth));
            depth++;
        }
    }
    return memcmp(&c->seen, db, sizeof *db) == 0 ? RON_OK : wrong(c, "counts that are wrong", 0);
}

/* ---- the file -------------------------------------------------------------------------------- */

static enum ron_rc read_meta(struct check *c, uint64_t page, struct meta *ret_meta)
{
    uint8_t head[PAGE_HEAD + META_BYTES];

    RON_TRY(read_at(c, head, sizeof head, page * c->page_bytes));
    memcpy(ret_meta, head + PAGE_HEAD, sizeof *ret_meta);
    if (led__load64(head) != page || load16(head + 10) != IS_META ||
        ret_meta->magic != 0xBEEFC0DEu || ret_meta->version != 1 ||
        (ret_meta->dbs[0].flags & (META_FIXED | DB_NUMBERS)) != DB_NUMBERS ||
        ret_meta->dbs[1].flags != 0) {
        return wrong(c, "no head of LMDB", page);
    }
    return RON_OK;
}

static enum ron_rc check_file(struct check *c, uint64_t file_bytes)
{
    struct meta metas[2];
    const struct meta *meta;

    c->page_bytes = PAGE_MIN; /* until the head says more */
    if (file_bytes < UINT64_C(2) * PAGE_MIN) {
        return wrong(c, "a file without its heads", 0);
    }
    RON_TRY(read_meta(c, 0, &metas[0]));
    c->page_bytes = metas[0].dbs[0].pad;
    if (c->page_bytes < PAGE_MIN || c->page_bytes > PAGE_MAX ||
        (c->page_bytes & (c->page_bytes - 1)) != 0) {
        return wrong(c, "pages of impossible size", 0);
    }
    c->pages = file_bytes / c->page_bytes;
    RON_TRY(read_meta(c, 1, &metas[1]));
    meta = metas[0].txn < metas[1].txn ? &metas[1] : &metas[0];
    c->last_page = meta->last_page;
    if (meta->dbs[0].pad != c->page_bytes || meta->last_page < 1 ||
        meta->last_page > (UINT64_C(1) << 40)) {
        return wrong(c, "a head that cannot be", 1);
    }
    c->used = ron_alloc_zero(c->pages / 8 + 1);
    for (size_t i = 0; i < DEPTH_MAX; i++) {
        c->stack[i].page = ron_alloc(c->page_bytes);
        if (c->stack[i].page == NULL || c->used == NULL) {
            return RON_NOMEM;
        }
    }
    RON_TRY(walk(c, &meta->dbs[1], false));
    RON_TRY(walk(c, &meta->dbs[0], true));
    return c->accounted == c->last_page - 1 ? RON_OK : wrong(c, "pages are missing", c->last_page);
}

enum ron_rc led__lmdb_check(const struct ron_env *env, const char *path, struct ron_err *err)
{
    struct check c = {.env = env, .err = err};
    uint64_t bytes = 0;
    enum ron_rc rc = env->disk->open(env, path, RON_OPEN_READ | RON_OPEN_PLAIN, 0, &c.fd, err);

    if (rc != RON_OK) {
        return rc == RON_NOTFOUND ? RON_OK : rc;
    }
    rc = env->disk->size(env, c.fd, &bytes);
    if (rc == RON_OK && bytes > 0) {
        rc = check_file(&c, bytes);
    }
    env->disk->close(env, c.fd);
    for (size_t i = 0; i < DEPTH_MAX; i++) {
        ron_free(c.stack[i].page);
    }
    ron_free(c.used);
    return rc;
}
