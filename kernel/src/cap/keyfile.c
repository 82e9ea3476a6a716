/* SPDX-License-Identifier: Apache-2.0 */
/* keyfile.c - the key file: reading it whole or not at all, adding and retiring keys.
 *
 * Place: cap; layout in docs/formats/keys.md:
 *
 *     ron-cap-keys 1
 *     key ID CREATED HEX
 *     ...
 *     end COUNT SUM
 *
 * Invariants
 *   I1 secrets stand in stack buffers that are wiped before their function returns, and in the
 *      snapshot (keys.c); never in a message.
 *   I2 one writer at a time: `<path>.lock` is locked around read, change and replace. The system
 *      lets go of it when its owner ends, so it is never stale. The file itself stays: whoever
 *      removed it would leave two that each believe to hold the lock.
 *
 * Failure: nothing is retried; the file is old or new (ron_file_replace). */
#include <blake3.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "cap/cap_priv.h"
#include "cap/cap_testing.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/file.h"

enum {
    /* 32 keys of at most 124 bytes and two short lines. */
    FILE_MAX = 8192,
    SUM_DIGITS = 16, /* against damage, not against malice */
};

static const char file_head[] = "ron-cap-keys 1\n";

/* The content of a file, secrets included. */
struct draft {
    uint32_t count;
    struct ron_cap_key_info info[RON_CAP_KEYS_MAX];
    uint8_t secret[RON_CAP_KEYS_MAX][RON_CAP_KEY_BYTES];
};

static void draft_wipe(struct draft *d)
{
    sodium_memzero(d, sizeof *d);
}

static void sum_of(const char *text, size_t len, char ret_sum[SUM_DIGITS + 1])
{
    blake3_hasher h;
    uint8_t hash[SUM_DIGITS / 2];

    blake3_hasher_init(&h);
    blake3_hasher_update(&h, text, len);
    blake3_hasher_finalize(&h, hash, sizeof hash);
    (void)sodium_bin2hex(ret_sum, SUM_DIGITS + 1, hash, sizeof hash);
    sodium_memzero(&h, sizeof h);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The next word of a line, which ends at one blank or with the line. */
static struct ron_str word(struct ron_str *line)
{
    const char *blank = line->len == 0 ? NULL : memchr(line->ptr, ' ', line->len);
    struct ron_str w = *line;

    if (blank == NULL) {
        *line = (struct ron_str){.ptr = line->ptr + line->len};
        return w;
    }
    w.len = (size_t)(blank - line->ptr);
    *line = (struct ron_str){.ptr = blank + 1, .len = line->len - w.len - 1};
    return w;
}

static bool number(struct ron_str s, uint64_t *ret_number)
{
    uint64_t n = 0;

    if (s.len == 0 || s.len > 19 || (s.len > 1 && s.ptr[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
        n = n * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    *ret_number = n;
    return true;
}

static bool secret_of(struct ron_str hex, uint8_t ret_secret[RON_CAP_KEY_BYTES])
{
    size_t len = 0;

    for (size_t i = 0; i < hex.len; i++) {
        if (hex.ptr[i] >= 'A' && hex.ptr[i] <= 'F') {
            return false; /* one text for one key */
        }
    }
    return hex.len == (size_t)2 * RON_CAP_KEY_BYTES &&
           sodium_hex2bin(ret_secret, RON_CAP_KEY_BYTES, hex.ptr, hex.len, NULL, &len, NULL) == 0 &&
           len == RON_CAP_KEY_BYTES;
}

static bool has_id(const struct draft *d, struct ron_str id)
{
    for (size_t i = 0; i < d->count; i++) {
        if (ron_str_is(id, d->info[i].id)) {
            return true;
        }
    }
    return false;
}

static void set_id(struct ron_cap_key_info *info, struct ron_str id)
{
    memcpy(info->id, id.ptr, id.len);
    info->id[id.len] = '\0';
}

static const char *read_key(struct draft *d, struct ron_str line)
{
    struct ron_str id = word(&line);
    struct ron_str created = word(&line);

    if (d->count == RON_CAP_KEYS_MAX) {
        return "too many keys";
    }
    if (!ron_cap_key_id_valid(id)) {
        return "the id of a key must be 1-32 of a-z 0-9 _ -";
    }
    if (has_id(d, id)) {
        return "the id of a key stands twice";
    }
    if (!number(created, &d->info[d->count].created_s)) {
        return "the date of a key must be Unix seconds";
    }
    if (!secret_of(line, d->secret[d->count])) {
        return "a key must be 64 lower-case hex digits";
    }
    set_id(&d->info[d->count], id);
    d->count++;
    return NULL;
}

static const char *read_end(const struct draft *d, struct ron_str line, const char *text,
                            size_t text_len)
{
    char sum[SUM_DIGITS + 1];
    uint64_t count = 0;

    sum_of(text, text_len, sum);
    if (!number(word(&line), &count) || count != d->count) {
        return "the number of keys is not that of the last line";
    }
    if (!ron_str_is(line, sum)) {
        return "the checksum does not fit: the file is damaged or was edited";
    }
    return d->count == 0 ? "there is no key" : NULL;
}

/* Fills a draft; NULL or what is wrong in line *ret_line. */
static const char *read_text(const char *text, size_t len, struct draft *d, size_t *ret_line)
{
    size_t at = 0;

    *ret_line = 0;
    while (at < len) {
        const char *feed = memchr(text + at, '\n', len - at);
        struct ron_str line = {.ptr = text + at};
        size_t start = at;
        const char *wrong = NULL;
        struct ron_str first;

        *ret_line += 1;
        if (feed == NULL) {
            return "the file is cut off";
        }
        line.len = (size_t)(feed - line.ptr);
        at += line.len + 1;
        if (*ret_line == 1) {
            if (at != sizeof file_head - 1 || memcmp(text, file_head, at) != 0) {
                return "this is not a key file of version 1";
            }
            continue;
        }
        first = word(&line);
        if (ron_str_is(first, "end")) {
            wrong = read_end(d, line, text, start);
            return wrong == NULL && at != len ? "there is something behind the last line" : wrong;
        }
        wrong = ron_str_is(first, "key") ? read_key(d, line) : "a line must begin with key or end";
        if (wrong != NULL) {
            return wrong;
        }
    }
    return "the file is cut off";
}

static enum ron_rc draft_parse(const char *text, size_t len, struct draft *d, struct ron_err *err)
{
    size_t line = 0;
    const char *wrong = read_text(text, len, d, &line);

    return wrong == NULL ? RON_OK : ron_err_set(err, RON_CORRUPT, "line %zu: %s", line, wrong);
}

/* K1 */
static enum ron_rc draft_load(const struct ron_env *env, const char *path, struct draft *d,
                              struct ron_err *err)
{
    char text[FILE_MAX];
    size_t len = 0;
    enum ron_rc rc = ron_file_read_private(env, path, text, sizeof text, &len, err);

    if (rc == RON_OK) {
        rc = draft_parse(text, len, d, err);
        if (rc != RON_OK && err != NULL) {
            ron_err_prefix(err, "%s", path);
        }
    }
    sodium_memzero(text, sizeof text); /* I1 */
    return rc;
}

static enum ron_rc freeze(const struct draft *d, struct ron_cap_keys **ret_keys,
                          struct ron_err *err)
{
    struct ron_cap_keys *keys = ron__cap_keys_new(err);

    if (keys == NULL) {
        return RON_NOMEM;
    }
    keys->count = d->count;
    for (size_t i = 0; i < d->count; i++) {
        keys->keys[i].info = d->info[i];
        ron_cap_root(d->secret[i], RON_CAP_KEY_BYTES, keys->keys[i].root);
    }
    *ret_keys = keys;
    return RON_OK;
}

enum ron_rc ron_cap_keys_parse(const char *text, size_t len, struct ron_cap_keys **ret_keys,
                               struct ron_err *err)
{
    struct draft d = {0};
    enum ron_rc rc = draft_parse(text, len, &d, err);

    if (rc == RON_OK) {
        rc = freeze(&d, ret_keys, err);
    }
    draft_wipe(&d);
    return rc;
}

enum ron_rc ron_cap_keyfile_load(const struct ron_env *env, const char *path,
                                 struct ron_cap_keys **ret_keys, struct ron_err *err)
{
    struct draft d = {0};
    enum ron_rc rc = draft_load(env, path, &d, err);

    if (rc == RON_OK) {
        rc = freeze(&d, ret_keys, err);
    }
    draft_wipe(&d);
    return rc;
}

/* ---- changing -------------------------------------------------------------------------------- */

static enum ron_rc draft_store(const struct ron_env *env, const char *path, const struct draft *d,
                               struct ron_err *err)
{
    char memory[FILE_MAX];
    char hex[2 * RON_CAP_KEY_BYTES + 1];
    char sum[SUM_DIGITS + 1];
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init_over(&text, memory, sizeof memory);
    ron_buf_append_text(&text, file_head);
    for (size_t i = 0; i < d->count; i++) {
        (void)sodium_bin2hex(hex, sizeof hex, d->secret[i], RON_CAP_KEY_BYTES);
        ron_buf_append_fmt(&text, "key %s %" PRIu64 " %s\n", d->info[i].id, d->info[i].created_s,
                           hex);
    }
    sum_of((const char *)ron_buf_data(&text), ron_buf_len(&text), sum);
    ron_buf_append_fmt(&text, "end %u %s\n", (unsigned)d->count, sum);
    RON_ASSERT(ron_buf_error(&text) == RON_OK); /* FILE_MAX holds RON_CAP_KEYS_MAX keys */
    rc = ron_file_replace(env, path, ron_buf_data(&text), ron_buf_len(&text), 0600, err);
    sodium_memzero(memory, sizeof memory); /* I1 */
    sodium_memzero(hex, sizeof hex);
    return rc;
}

/* I2. *ret_fd is the lock until it is closed. */
static enum ron_rc lock_take(const struct ron_env *env, const char *path, int *ret_fd,
                             struct ron_err *err)
{
    char name[RON_FILE_PATH_SIZE];
    int len = snprintf(name, sizeof name, "%s.lock", path);
    int fd = -1;
    enum ron_rc rc;

    if (len < 0 || (size_t)len >= sizeof name) {
        return ron_err_set(err, RON_LIMIT, "path of %zu bytes is too long", strlen(path));
    }
    RON_TRY(env->disk->open(env, name, RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &fd, err));
    rc = env->disk->lock(env, fd, err);
    if (rc != RON_OK) {
        env->disk->close(env, fd);
        return rc == RON_AGAIN
                   ? ron_err_set(err, rc, "another process is changing %s; try again", path)
                   : rc;
    }
    *ret_fd = fd;
    return RON_OK;
}

static enum ron_rc add_key(const struct ron_env *env, struct draft *d, struct ron_str id,
                           struct ron_err *err)
{
    struct ron_cap_key_info *info = &d->info[d->count];
    uint64_t number_of_id = env->rand_u64(env);

    if (d->count == RON_CAP_KEYS_MAX) {
        return ron_err_set(err, RON_LIMIT, "there are %d keys already; retire one first",
                           (int)RON_CAP_KEYS_MAX);
    }
    if (id.len == 0) {
        (void)snprintf(info->id, sizeof info->id, "k%016" PRIx64, number_of_id);
        id = (struct ron_str){.ptr = info->id, .len = strlen(info->id)};
    } else if (!ron_cap_key_id_valid(id)) {
        return ron_err_set(err, RON_INVALID, "the id of a key must be 1-32 of a-z 0-9 _ -");
    }
    if (has_id(d, id)) {
        return ron_err_set(err, RON_EXISTS, "there is a key '%.*s' already", (int)id.len, id.ptr);
    }
    memmove(info->id, id.ptr, id.len);
    info->id[id.len] = '\0';
    info->created_s = ron_env_wall_ms(env) / RON_MS_PER_S;
    ron__cap_random(env, d->secret[d->count], RON_CAP_KEY_BYTES);
    d->count++;
    return RON_OK;
}

enum ron_rc ron_cap_keyfile_add(const struct ron_env *env, const char *path, struct ron_str id,
                                struct ron_cap_key_info *ret_info, struct ron_err *err)
{
    int lock = -1;
    struct draft d = {0};
    struct ron_err load_err = {0};
    enum ron_rc rc;

    RON_TRY(lock_take(env, path, &lock, err));
    rc = draft_load(env, path, &d, &load_err);
    if (rc == RON_NOTFOUND) {
        rc = RON_OK;
    } else if (rc != RON_OK) {
        (void)ron_err_set(err, rc, "%s", load_err.msg);
    }
    RON_GOTO(rc, out);
    RON_GOTO(add_key(env, &d, id, err), out);
    RON_GOTO(draft_store(env, path, &d, err), out);
    *ret_info = d.info[d.count - 1];
out:
    draft_wipe(&d);
    env->disk->close(env, lock);
    return rc;
}

static enum ron_rc drop_key(struct draft *d, struct ron_str id, struct ron_err *err)
{
    size_t i = 0;

    while (i < d->count && !ron_str_is(id, d->info[i].id)) {
        i++;
    }
    if (i == d->count) {
        return ron_err_set(err, RON_NOTFOUND, "there is no key '%.*s'",
                           (int)RON_MIN(id.len, (size_t)RON_CAP_KEY_ID_MAX), id.ptr);
    }
    if (d->count == 1) {
        return ron_err_set(err, RON_CONFLICT, "this is the only key; add a new one first");
    }
    d->count--;
    memmove(&d->info[i], &d->info[i + 1], (d->count - i) * sizeof d->info[0]);
    memmove(d->secret[i], d->secret[i + 1], (d->count - i) * sizeof d->secret[0]);
    return RON_OK;
}

enum ron_rc ron_cap_keyfile_retire(const struct ron_env *env, const char *path, struct ron_str id,
                                   struct ron_err *err)
{
    int lock = -1;
    struct draft d = {0};
    enum ron_rc rc;

    RON_TRY(lock_take(env, path, &lock, err));
    RON_GOTO(draft_load(env, path, &d, err), out);
    RON_GOTO(drop_key(&d, id, err), out);
    RON_GOTO(draft_store(env, path, &d, err), out);
out:
    draft_wipe(&d);
    env->disk->close(env, lock);
    return rc;
}
