/* SPDX-License-Identifier: Apache-2.0 */
/* dirs.c - names and folders of a store on disk (docs/formats/cas.md).
 *
 * Place: cas; only disk ports are called. Blocking.
 *
 * Invariants:
 *   I1 a folder is taken as durable only after its parent was synced in this life: one that is
 *      merely seen may be in the page cache alone, left by a process that was killed.
 *   I2 a file in objects/ab/cd is an object when its name is 64 lowercase digits that begin with
 *      abcd, and it is a plain file; everything else is a stray and is left alone. So is what lies
 *      in tmp/ under other names than ours: somebody may have named the wrong folder.
 *   I3 nothing is removed before the lock is held: another process may live here.
 *
 * Threads: the bitmaps are atomic; two threads may make the same folder, and both sync. */
#include <stdio.h>
#include <string.h>

#include "cas/cas_priv.h"
#include "ron/base/assert.h"

static struct ron__cas_path path_fmt(const struct ron_cas *s, const char *name, const char *digits,
                                     int digit_count)
{
    struct ron__cas_path path;
    int len = snprintf(path.s, sizeof path.s, "%s/%s%.*s", s->dir, name, digit_count, digits);

    RON_ASSERT(len > 0 && (size_t)len < sizeof path.s); /* ron_cas_new has checked the length */
    return path;
}

struct ron__cas_path ron__cas_path_of(const struct ron_cas *s, const struct ron_b3 *id, int depth)
{
    char hex[RON_B3_HEX_LEN];
    char name[sizeof "objects/ab/cd/"];

    ron_b3_format_hex(id, hex);
    if (depth == RON__CAS_TOP) {
        (void)snprintf(name, sizeof name, "objects/%.2s", hex);
    } else {
        (void)snprintf(name, sizeof name, "objects/%.2s/%.2s%s", hex, hex + 2,
                       depth == RON__CAS_LEAF ? "" : "/");
    }
    return path_fmt(s, name, hex, depth == RON__CAS_FILE ? RON_B3_HEX_LEN : 0);
}

struct ron__cas_path ron__cas_path_quarantine(const struct ron_cas *s, const struct ron_b3 *id)
{
    char hex[RON_B3_HEX_LEN];

    ron_b3_format_hex(id, hex);
    return path_fmt(s, "quarantine/", hex, RON_B3_HEX_LEN);
}

struct ron__cas_path ron__cas_path_temp(const struct ron_cas *s, uint64_t number)
{
    char digits[RON__CAS_TEMP_DIGITS + 1];

    (void)snprintf(digits, sizeof digits, "%016llx", (unsigned long long)number);
    return path_fmt(s, "tmp/", digits, RON__CAS_TEMP_DIGITS);
}

struct ron__cas_path ron__cas_path_sub(const struct ron_cas *s, const char *name)
{
    return path_fmt(s, name, "", 0);
}

bool ron__cas_name_parse(const char *name, unsigned top, unsigned leaf, struct ron_b3 *ret_id)
{
    struct ron_b3 id;

    /* memchr-like bound: a longer name is no object, whatever its length. */
    if (strnlen(name, RON_B3_HEX_LEN + 1) != RON_B3_HEX_LEN ||
        !ron_b3_parse_hex(name, RON_B3_HEX_LEN, &id) || id.bytes[0] != top || id.bytes[1] != leaf) {
        return false;
    }
    *ret_id = id; /* keeps I2 */
    return true;
}

/* ---- start ----------------------------------------------------------------------------------- */

struct clearing {
    struct ron_cas *s;
    struct ron_err *err;
    enum ron_rc rc;
};

static bool clear_one(void *arg, const char *name, bool is_dir)
{
    struct clearing *c = arg;
    char path[RON_FILE_PATH_SIZE];
    int len;

    if (is_dir || strspn(name, "0123456789abcdef") != RON__CAS_TEMP_DIGITS ||
        name[RON__CAS_TEMP_DIGITS] != '\0') {
        ron_stat_add(&c->s->counts.strays, 1); /* I2 */
        return true;
    }
    len = snprintf(path, sizeof path, "%s/tmp/%s", c->s->dir, name);
    RON_ASSERT(len > 0 && (size_t)len < sizeof path);
    c->rc = c->s->env->disk->remove(c->s->env, path, NULL);
    if (c->rc != RON_OK && c->rc != RON_NOTFOUND) {
        (void)ron_err_set(c->err, c->rc, "content store: cannot remove %s", path);
        return false;
    }
    c->rc = RON_OK;
    return true;
}

static bool count_one(void *arg, const char *name, bool is_dir)
{
    struct ron_cas *s = arg;

    (void)name;
    (void)is_dir;
    return ron_au32_add(&s->quarantine_files, 1) + 1 < RON_CAS_QUARANTINE_MAX;
}

enum ron_rc ron__cas_quarantine_count(struct ron_cas *s, struct ron_err *err)
{
    ron_au32_store(&s->quarantine_files, 0);
    return s->env->disk->list(s->env, ron__cas_path_sub(s, "quarantine").s, count_one, s, err);
}

static enum ron_rc lock_folder(struct ron_cas *s, struct ron_err *err)
{
    const struct ron_disk_ops *disk = s->env->disk;
    enum ron_rc rc;

    RON_TRY(ron_mkdirs(s->env, s->dir, 0700, err));
    RON_TRY(disk->open(s->env, ron__cas_path_sub(s, "lock").s,
                       RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_PLAIN, 0600,
                       &s->lock_fd, err));
    rc = disk->lock(s->env, s->lock_fd, err);
    return rc == RON_AGAIN ? ron_err_set(err, RON_CONFLICT,
                                         "content store %s is in use by another process", s->dir)
                           : rc;
}

enum ron_rc ron__cas_dirs_open(struct ron_cas *s, struct ron_err *err)
{
    static const char *const names[] = {"objects", "tmp", "quarantine"};
    struct clearing clearing = {.s = s, .err = err, .rc = RON_OK};

    RON_TRY(lock_folder(s, err)); /* I3 */
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        RON_TRY(ron_mkdirs(s->env, ron__cas_path_sub(s, names[i]).s, 0700, err));
    }
    /* ron_mkdirs trusts what it finds; I1 does not. */
    RON_TRY(s->env->disk->sync_dir(s->env, s->dir, err));
    RON_TRY(s->env->disk->list(s->env, ron__cas_path_sub(s, "tmp").s, clear_one, &clearing, err));
    RON_TRY(clearing.rc);
    return ron__cas_quarantine_count(s, err);
}

/* ---- folders of objects ---------------------------------------------------------------------- */

static bool is_set(const struct ron_au32 *bits, unsigned i)
{
    return (ron_au32_load(&bits[i / 32]) >> (i % 32) & 1) != 0;
}

static void set(struct ron_au32 *bits, unsigned i)
{
    uint32_t old = ron_au32_load(&bits[i / 32]);

    while (!ron_au32_cas(&bits[i / 32], &old, old | 1u << (i % 32))) {
    }
}

static enum ron_rc make_one(struct ron_cas *s, const char *path, const char *parent,
                            struct ron_err *err)
{
    enum ron_rc rc = s->env->disk->mkdir(s->env, path, 0700, NULL);

    if (rc != RON_OK && rc != RON_EXISTS) {
        return ron_err_set(err, rc, "content store: cannot make %s", path);
    }
    return s->env->disk->sync_dir(s->env, parent, err);
}

enum ron_rc ron__cas_dirs_make(struct ron_cas *s, const struct ron_b3 *id, struct ron_err *err)
{
    unsigned top = id->bytes[0];
    unsigned leaf = top << 8 | id->bytes[1];
    struct ron__cas_path parent;

    if (is_set(s->leaf_known, leaf)) {
        return RON_OK;
    }
    parent = ron__cas_path_of(s, id, RON__CAS_TOP);
    if (!is_set(s->top_known, top)) {
        RON_TRY(make_one(s, parent.s, ron__cas_path_sub(s, "objects").s, err));
        set(s->top_known, top);
    }
    RON_TRY(make_one(s, ron__cas_path_of(s, id, RON__CAS_LEAF).s, parent.s, err));
    set(s->leaf_known, leaf); /* keeps I1 */
    return RON_OK;
}

void ron__cas_leaf_known(struct ron_cas *s, unsigned top, unsigned leaf)
{
    set(s->top_known, top);
    set(s->leaf_known, top << 8 | leaf);
}

enum ron_rc ron__cas_adopt(struct ron_cas *s, struct ron__cas_claim *c)
{
    struct ron_file_stat st;
    enum ron_rc rc =
        s->env->disk->stat_link(s->env, ron__cas_path_of(s, &c->entry->id, RON__CAS_FILE).s, &st);

    if (rc == RON_OK && !st.is_file) {
        ron_stat_add(&s->counts.strays, 1); /* I2 */
        rc = RON_NOTFOUND;
    }
    if (rc != RON_OK) {
        ron__cas_drop(s, c, false);
        return rc;
    }
    (void)ron_au64_add(&s->used, st.size_bytes);
    ron__cas_settle(s, c, NULL,
                    &(struct ron__cas_news){.size = st.size_bytes,
                                            .stamp_s = (uint32_t)(st.mtime_ms / RON_MS_PER_S)});
    return RON_OK;
}

bool ron__cas_is_there(const struct ron_cas *s, const struct ron__cas_claim *c)
{
    struct ron_file_stat st;
    enum ron_rc rc =
        s->env->disk->stat_link(s->env, ron__cas_path_of(s, &c->entry->id, RON__CAS_FILE).s, &st);

    return rc == RON_OK && st.is_file && st.size_bytes == c->entry->size;
}
