/* SPDX-License-Identifier: Apache-2.0 */
/* edge/files/files.c - the table of open files.
 *
 * Invariants, in addition to F1-F3 of the header:
 *   I1 The table holds one reference to each of its entries. The function that takes an entry out
 *      of the table releases this reference.
 *   I2 references, lists and counters change under the lock of the shard; size, tag, bytes and
 *      descriptor of an entry never change after it was put in.
 *   I3 nothing is opened, read, closed or hashed under a lock. */
#include "edge/files/files.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/clock.h"
#include "ron/base/map.h"
#include "ron/base/str.h"
#include "ron/http/parse.h"
#include "ron/sync/sync.h"

enum { SHARDS = 16, PIECE = 256 * 1024 };

struct shard;

struct entry {
    struct edg_file file;
    struct shard *shard;
    struct ron_map_node node;
    struct entry *next; /* among those to be freed */
    uint32_t refs;
    bool checking; /* a caller was told to check the file */
    uint64_t checked_ms;
    struct ron_file_identity identity;
    uint8_t *memory; /* of `file.bytes` */
    char path[];
};

struct shard {
    struct ron_mutex mu;
    struct edg_files *files;
    struct ron_map map; /* by path, in order of use; its bytes are those kept in memory */
    struct edg_files_stats stats;
};

struct edg_files {
    const struct ron_env *env;
    int folder_fd;
    uint32_t entries_max; /* of a shard */
    uint64_t memory_max;  /* of a shard */
    uint64_t file_max;
    uint32_t check_ms;
    struct ron_hash_key key;
    struct shard shards[SHARDS];
};

static struct entry *entry_of(const struct ron_map_node *node)
{
    return RON_CONTAINER_OF((struct ron_map_node *)(uintptr_t)node, struct entry, node);
}

static bool entry_equal(const struct ron_map_node *node, const struct ron_map_key *key)
{
    return ron_str_is((struct ron_str){key->bytes, key->len}, entry_of(node)->path);
}

/* One entry more than the limit: the newest comes in before the oldest leaves. */
static enum ron_rc init_maps(struct edg_files *f, struct ron_err *err)
{
    struct ron_map_opts opts = {
        .entries_max = f->entries_max + 1, .reserve = f->entries_max + 1, .equal = entry_equal};
    enum ron_rc rc = RON_OK;

    for (size_t i = 0; rc == RON_OK && i < SHARDS; i++) {
        rc = ron_map_init(&f->shards[i].map, &opts, err);
    }
    for (size_t i = 0; rc != RON_OK && i < SHARDS; i++) {
        ron_map_done(&f->shards[i].map);
    }
    return rc;
}

enum ron_rc edg_files_new(const struct edg_files_opts *opts, struct edg_files **ret_files,
                          struct ron_err *err)
{
    struct edg_files *f = ron_alloc_zero(sizeof *f);
    uint32_t entries = opts->entries_max != 0 ? opts->entries_max : 4096;
    enum ron_rc rc;

    RON_ASSERT(opts->env != NULL);
    RON_ASSERT(opts->dir != NULL);
    if (f == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the file table");
    }
    f->env = opts->env;
    f->entries_max = (entries + SHARDS - 1) / SHARDS;
    f->memory_max = (opts->memory_max != 0 ? opts->memory_max : UINT64_C(32) << 20) / SHARDS;
    f->file_max = opts->file_max != 0 ? opts->file_max : UINT64_C(64) << 30;
    f->check_ms = opts->check_ms != 0 ? opts->check_ms : 1000;
    f->key = (struct ron_hash_key){f->env->rand_u64(f->env), f->env->rand_u64(f->env)};
    rc = ron_folder_open(opts->dir, &f->folder_fd, err);
    if (rc != RON_OK) {
        ron_free(f);
        return rc;
    }
    rc = init_maps(f, err);
    if (rc != RON_OK) {
        f->env->disk->close(f->env, f->folder_fd);
        ron_free(f);
        return rc;
    }
    for (size_t i = 0; i < SHARDS; i++) {
        f->shards[i].files = f;
        ron_mutex_init(&f->shards[i].mu, RON_RANK_SHARED, "edge.files");
    }
    *ret_files = f;
    return RON_OK;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void entry_free(const struct ron_env *env, struct entry *e)
{
    RON_ASSERT_MSG(e->refs == 0, "I1: only an entry without holders is freed");
    e->file.magic = 0;
    if (e->file.fd >= 0) {
        env->disk->close(env, e->file.fd);
    }
    ron_free(e->memory);
    ron_free(e);
}

/* With the lock held: true when the caller frees it after unlocking. */
static bool unref(struct entry *e)
{
    RON_ASSERT(e->refs > 0);
    return --e->refs == 0;
}

/* With the lock held: takes it out of the table, whose reference the caller has then. */
static void take_out(struct shard *sh, struct entry *e)
{
    ron_map_remove(&sh->map, &e->node);
}

/* With the lock held: NULL when it is not there. */
static struct entry *find(struct shard *sh, const struct ron_map_key *key)
{
    struct ron_map_node *node = ron_map_find(&sh->map, key);

    return node != NULL ? entry_of(node) : NULL;
}

static struct ron_map_key key_of(const struct edg_files *f, const char *path)
{
    return ron_map_key(f->key, path, strlen(path));
}

/* The map takes the low bits of the hash. */
static struct shard *shard_of(struct edg_files *f, const struct ron_map_key *key)
{
    return &f->shards[(key->hash >> 32) % SHARDS];
}

void edg_files_free(struct edg_files *f)
{
    if (f == NULL) {
        return;
    }
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *sh = &f->shards[i];

        RON_MAP_FOREACH_SAFE(node, &sh->map)
        {
            struct entry *e = entry_of(node);

            take_out(sh, e);
            RON_ASSERT_MSG(unref(e), "a handle of %s is still held", e->path);
            entry_free(f->env, e);
        }
        ron_map_done(&sh->map);
        ron_mutex_done(&sh->mu);
    }
    f->env->disk->close(f->env, f->folder_fd);
    ron_free(f);
}

void edg_file_release(const struct edg_file *file)
{
    struct entry *e = RON_CONTAINER_OF((struct edg_file *)(uintptr_t)file, struct entry, file);
    struct shard *sh = e->shard;
    bool last;

    RON_CHECK_MAGIC(file, EDG_FILE_MAGIC);
    ron_mutex_lock(&sh->mu);
    last = unref(e);
    ron_mutex_unlock(&sh->mu);
    if (last) {
        entry_free(sh->files->env, e);
    }
}

/* ---- get ------------------------------------------------------------------------------------- */

enum ron_rc edg_files_get(struct edg_files *f, const char *path, uint64_t now_ms,
                          const struct edg_file **ret_file, bool *ret_check)
{
    struct ron_map_key key = key_of(f, path);
    struct shard *sh = shard_of(f, &key);
    struct entry *e;
    uint64_t age_ms;

    ron_mutex_lock(&sh->mu);
    e = find(sh, &key);
    age_ms = e != NULL && now_ms > e->checked_ms ? now_ms - e->checked_ms : 0;
    /* One who looks again is enough while the age is told; a look that hangs does not freeze the
     * answer for ever. */
    if (e == NULL || age_ms > 2 * (uint64_t)f->check_ms) {
        ron_mutex_unlock(&sh->mu);
        return RON_AGAIN;
    }
    RON_ASSERT_MSG(e->refs > 0, "I1: the table holds what it contains");
    RON_ASSERT_MSG((e->file.bytes != NULL) == (e->file.fd < 0), "F1: bytes in memory, or a file");
    *ret_check = age_ms > f->check_ms && !e->checking;
    e->checking = e->checking || *ret_check;
    e->refs++;
    sh->stats.hits++;
    ron_map_touch(&sh->map, &e->node, now_ms);
    ron_mutex_unlock(&sh->mu);
    *ret_file = &e->file;
    return RON_OK;
}

/* ---- load ------------------------------------------------------------------------------------ */

/* Hashes the open file, and keeps its bytes when they are few. RON_AGAIN: it is not what it was. */
static enum ron_rc read_whole(const struct edg_files *f, struct entry *e, struct ron_b3 *ret_hash,
                              struct ron_err *err)
{
    struct ron_b3_hasher hasher;
    struct ron_file_identity after;
    bool small = e->file.size <= EDG_FILE_SMALL_MAX;
    size_t room = small ? (size_t)e->file.size : PIECE;
    uint8_t *piece = ron_alloc(room);
    uint64_t at = 0;
    enum ron_rc rc = RON_OK;

    if (piece == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to read a file");
    }
    RON_ASSERT(e->memory == NULL);
    e->memory = piece;
    ron_b3_init(&hasher);
    while (rc == RON_OK && at < e->file.size) {
        size_t want = (size_t)RON_MIN((uint64_t)room, e->file.size - at);
        size_t got = 0;

        rc = f->env->disk->pread(f->env, e->file.fd, piece, want, at, &got);
        if (rc != RON_OK) {
            return ron_err_set(err, rc, "read %s", e->path);
        }
        if (got < want) {
            return ron_err_set(err, RON_AGAIN, "%s was truncated while it was read", e->path);
        }
        ron_b3_update(&hasher, piece, got);
        at += got;
    }
    RON_ASSERT_MSG(at == e->file.size, "F1: the whole file is hashed");
    RON_TRY(ron_file_identity(e->file.fd, &after, err));
    if (!ron_file_identity_equal(&after, &e->identity)) {
        return ron_err_set(err, RON_AGAIN, "%s changed while it was read", e->path);
    }
    ron_b3_final(&hasher, ret_hash);
    if (!small) {
        ron_free(piece);
        e->memory = NULL;
    }
    return RON_OK;
}

static enum ron_rc make_entry(struct edg_files *f, const char *path, int fd,
                              const struct ron_file_identity *identity, struct entry **ret_entry,
                              struct ron_err *err)
{
    size_t len = strlen(path);
    struct entry *e = ron_alloc_zero(sizeof *e + len + 1);
    struct ron_b3 hash;
    enum ron_rc rc;

    if (e == NULL) {
        f->env->disk->close(f->env, fd);
        return ron_err_set(err, RON_NOMEM, "no memory for a file");
    }
    memcpy(e->path, path, len + 1);
    e->identity = *identity;
    e->file.magic = EDG_FILE_MAGIC;
    e->file.fd = fd;
    e->file.size = identity->size_bytes;
    e->file.mtime_s = identity->mtime_ns / RON_NS_PER_S;
    e->file.type = edg_type_of(path);
    rc = e->file.size > f->file_max
             ? ron_err_set(err, RON_LIMIT, "%s exceeds the file size limit", path)
             : read_whole(f, e, &hash, err);
    if (rc != RON_OK) {
        entry_free(f->env, e);
        return rc;
    }
    memcpy(e->file.tag, "b3:", 3);
    ron_b3_format_hex(&hash, e->file.tag + 3);
    if (e->memory != NULL) {
        e->file.bytes = e->memory;
        e->file.fd = -1;
        f->env->disk->close(f->env, fd);
    }
    *ret_entry = e;
    return RON_OK;
}

/* With the lock held: a chain of entries without holders, to be freed after unlocking. */
static struct entry *make_room(struct edg_files *f, struct shard *sh)
{
    struct entry *gone = NULL;

    RON_MAP_FOREACH_SAFE(node, &sh->map)
    {
        struct entry *e = entry_of(node);

        if ((ron_map_count(&sh->map) <= f->entries_max &&
             ron_map_bytes(&sh->map) <= f->memory_max) ||
            ron_map_count(&sh->map) == 1) { /* the newest stays */
            break;
        }
        take_out(sh, e);
        sh->stats.evictions++;
        if (unref(e)) {
            e->next = gone;
            gone = e;
        }
    }
    return gone;
}

/* Puts it in instead of an older one; the caller has one reference, the table another. */
static void put_in(struct edg_files *f, const struct ron_map_key *key, struct entry *e,
                   uint64_t now_ms)
{
    struct shard *sh = shard_of(f, key);
    struct entry *gone;
    struct entry *old;
    enum ron_rc rc;

    RON_ASSERT_MSG(e->refs == 0, "I1: a new entry has no holders yet");
    ron_mutex_lock(&sh->mu);
    old = find(sh, key);
    if (old != NULL) {
        take_out(sh, old);
        old = unref(old) ? old : NULL;
    }
    e->shard = sh;
    e->refs = 2;
    e->checked_ms = now_ms;
    e->node.bytes = e->memory != NULL ? (uint32_t)e->file.size : 0; /* EDG_FILE_SMALL_MAX */
    rc = ron_map_add(&sh->map, &e->node, key, now_ms);
    RON_ASSERT(rc == RON_OK);
    sh->stats.loads++;
    gone = make_room(f, sh);
    RON_ASSERT_MSG(ron_map_count(&sh->map) <= f->entries_max || ron_map_count(&sh->map) == 1,
                   "F3: a shard is bounded");
    ron_mutex_unlock(&sh->mu);
    if (old != NULL) {
        entry_free(f->env, old);
    }
    while (gone != NULL) {
        struct entry *next = gone->next;

        entry_free(f->env, gone);
        gone = next;
    }
}

/* A file that is gone is forgotten. */
static void forget(struct edg_files *f, const struct ron_map_key *key)
{
    struct shard *sh = shard_of(f, key);
    struct entry *e;

    ron_mutex_lock(&sh->mu);
    e = find(sh, key);
    if (e != NULL) {
        take_out(sh, e);
        e = unref(e) ? e : NULL;
    }
    ron_mutex_unlock(&sh->mu);
    if (e != NULL) {
        entry_free(f->env, e);
    }
}

/* The known entry, when the file on disk is still the same one. */
static struct entry *still_known(struct edg_files *f, const struct ron_map_key *key,
                                 const struct ron_file_identity *identity, uint64_t now_ms)
{
    struct shard *sh = shard_of(f, key);
    struct entry *e;

    ron_mutex_lock(&sh->mu);
    e = find(sh, key);
    if (e != NULL && ron_file_identity_equal(&e->identity, identity)) {
        e->checked_ms = now_ms;
        e->checking = false;
        e->refs++;
    } else {
        e = NULL;
    }
    ron_mutex_unlock(&sh->mu);
    return e;
}

enum ron_rc edg_files_load(struct edg_files *f, const char *path, uint64_t now_ms,
                           const struct edg_file **ret_file, struct ron_err *err)
{
    struct ron_map_key key = key_of(f, path);
    struct ron_file_identity identity;
    struct entry *e;
    int fd = -1;
    enum ron_rc rc = ron_folder_file(f->folder_fd, path, &fd, &identity, err);

    if (rc != RON_OK) {
        forget(f, &key);
        return rc;
    }
    e = still_known(f, &key, &identity, now_ms);
    if (e != NULL) {
        f->env->disk->close(f->env, fd);
    } else {
        RON_TRY(make_entry(f, path, fd, &identity, &e, err));
        RON_ASSERT(e != NULL);
        put_in(f, &key, e, now_ms);
    }
    *ret_file = &e->file;
    return RON_OK;
}

void edg_files_get_stats(struct edg_files *f, struct edg_files_stats *ret_stats)
{
    struct edg_files_stats sum = {0};

    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *sh = &f->shards[i];

        ron_mutex_lock(&sh->mu);
        sum.entries += ron_map_count(&sh->map);
        sum.memory_bytes += ron_map_bytes(&sh->map);
        sum.hits += sh->stats.hits;
        sum.loads += sh->stats.loads;
        sum.evictions += sh->stats.evictions;
        ron_mutex_unlock(&sh->mu);
    }
    *ret_stats = sum;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* Encoded, a slash is part of a name, and no name has one. */
static bool has_encoded_slash(struct ron_str text)
{
    for (size_t i = 0; i + 2 < text.len; i++) {
        if (text.ptr[i] == '%' && text.ptr[i + 1] == '2' &&
            (text.ptr[i + 2] == 'f' || text.ptr[i + 2] == 'F')) {
            return true;
        }
    }
    return false;
}

/* The first byte of a path, percent-decoded, and how many bytes encode it. A malformed escape is
 * taken literally. */
static char front_byte(struct ron_str path, size_t *ret_len)
{
    char byte = path.ptr[0];
    size_t len = 0;

    *ret_len = 1;
    if (byte == '%' && path.len >= 3 &&
        ron_http_percent_decode((struct ron_str){path.ptr, 3}, false, &byte, 1, &len) == RON_OK) {
        *ret_len = 3;
    }
    return byte;
}

bool edg_path_stays(struct ron_str path)
{
    size_t dots = 0;
    bool only = true; /* dots so far in this segment */
    bool name = true; /* not behind a semicolon */

    while (path.len > 0) {
        size_t len = 1;
        char byte = front_byte(path, &len);

        if (byte == '/' || byte == '\\') {
            if (only && (dots == 1 || dots == 2)) {
                return false;
            }
            dots = 0;
            only = true;
            name = true;
        } else if (byte == ';') {
            name = false;
        } else if (name) {
            dots += byte == '.';
            only = only && byte == '.';
        }
        path.ptr += len;
        path.len -= len;
    }
    return !only || (dots != 1 && dots != 2);
}

enum ron_rc edg_path_decode(struct ron_str text, char ret_path[EDG_PATH_MAX + 1])
{
    char path[EDG_PATH_MAX + 1];
    size_t len = 0;
    bool begin = true; /* of a segment */
    enum ron_rc rc = ron_http_percent_decode(text, false, path, EDG_PATH_MAX, &len);

    if (rc != RON_OK) {
        return rc == RON_LIMIT ? RON_NOTFOUND : rc;
    }
    for (size_t i = 0; i < len; i++) {
        if (begin && (path[i] == '/' || path[i] == '.')) {
            return RON_NOTFOUND;
        }
        begin = path[i] == '/';
    }
    if (begin || has_encoded_slash(text)) {
        return RON_NOTFOUND; /* begin: empty, or it ends with a slash */
    }
    path[len] = '\0';
    memcpy(ret_path, path, len + 1);
    return RON_OK;
}
