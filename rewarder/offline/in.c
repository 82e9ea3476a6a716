/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/offline/in.c - inputs of the tools: pieces from wherever they come, unpacked, and read
 * as snapshots, policies, keys and options.
 *
 * Memory: one piece in, one piece out, and what the reader keeps. */
#include <string.h>

#include "rewarder/offline/priv.h"
#include "rewarder/run/manifest.h"
#include "ron/base/alloc.h"
#include "ron/base/hex.h"
#include "ron/base/secret.h"
#include "ron/http/inflate.h"
#include "ron/io/linux_env.h"
#include "ron/merkle/note_key.h"

enum {
    PIECE = 256 << 10,
    MAGIC_LEN = 4,
    /* A person named the file, so nothing but a slip is guarded against: what zstd makes of the
     * dullest snapshot stays below, a disk of zeros does not. */
    RATIO_MAX = 20000,
    WINDOW_LOG_MAX = RON_INFLATE_WINDOW_LOG_MAX,
};
#define UNPACKED_MAX ((uint64_t)1 << 38) /* 256 GiB: the most rows there can be, at 64 bytes */

static enum ron_rc in_file(const struct rwd_tool_in *in, enum ron_rc rc, struct ron_err *err)
{
    if (rc != RON_OK && err != NULL) {
        ron_err_prefix(err, "%s", in->name);
    }
    return rc;
}

/* ---- unpacking ------------------------------------------------------------------------------- */

struct pump {
    rwd__take_fn *take;
    void *arg;
    struct ron_inflate *z; /* NULL: as it is */
    uint8_t in[PIECE];
    uint8_t out[PIECE];
};

/* Which coding the first bytes tell of. */
static enum ron_rc begin(struct pump *p, size_t len, struct ron_err *err)
{
    static const uint8_t gzip[] = {0x1f, 0x8b};
    static const uint8_t zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    const struct ron_inflate_opts opts = {
        .out_max = UNPACKED_MAX, .ratio_max = RATIO_MAX, .window_log_max = WINDOW_LOG_MAX};
    bool is_gzip = len >= sizeof gzip && memcmp(p->in, gzip, sizeof gzip) == 0;
    bool is_zstd = len >= sizeof zstd && memcmp(p->in, zstd, sizeof zstd) == 0;

    if (!is_gzip && !is_zstd) {
        return RON_OK;
    }
    return ron_inflate_new(is_gzip ? RON_INFLATE_GZIP : RON_INFLATE_ZSTD, &opts, &p->z, err);
}

static enum ron_rc unpack(struct pump *p, size_t len, struct ron_err *err)
{
    const uint8_t *in = p->in;
    size_t got;

    do {
        size_t used = 0;
        enum ron_rc rc;

        got = 0;
        rc = ron_inflate_feed(p->z, in, len, &used, p->out, sizeof p->out, &got);
        if (rc != RON_OK) {
            return ron_err_set(err, rc,
                               rc == RON_LIMIT ? "unpacks to more than can be meant"
                                               : "is damaged: it does not unpack");
        }
        in += used;
        len -= used;
        RON_TRY(p->take(p->arg, p->out, got, err));
    } while (len > 0 || got == sizeof p->out);
    return RON_OK;
}

static enum ron_rc run_pump(struct pump *p, const struct rwd_tool_in *in, struct ron_err *err)
{
    size_t len = 0;
    size_t got = 1;

    while (len < MAGIC_LEN && got > 0) { /* a pipe may give a byte at a time */
        RON_TRY(in->read(in->arg, p->in + len, sizeof p->in - len, &got, err));
        len += got;
    }
    RON_TRY(begin(p, len, err));
    while (len > 0) {
        RON_TRY(p->z != NULL ? unpack(p, len, err) : p->take(p->arg, p->in, len, err));
        RON_TRY(in->read(in->arg, p->in, sizeof p->in, &len, err));
    }
    if (p->z != NULL && ron_inflate_end(p->z) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "is cut short: it does not unpack to its end");
    }
    return RON_OK;
}

enum ron_rc rwd__tool_pump(const struct rwd_tool_in *in, rwd__take_fn *take, void *arg,
                           struct ron_err *err)
{
    struct pump *p = ron_alloc(sizeof *p);
    enum ron_rc rc;

    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to read %s", in->name);
    }
    p->take = take;
    p->arg = arg;
    p->z = NULL;
    rc = run_pump(p, in, err);
    ron_inflate_free(p->z);
    ron_free(p);
    return in_file(in, rc, err);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static enum ron_rc take_text(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    struct ron_buf *buf = arg;
    enum ron_rc rc = ron_buf_append(buf, bytes, len);

    return rc == RON_OK ? rc : ron_err_set(err, rc, "has more than %zu bytes", buf->max);
}

enum ron_rc rwd__tool_text(const struct rwd_tool_in *in, struct ron_buf *buf, struct ron_err *err)
{
    return rwd__tool_pump(in, take_text, buf, err);
}

/* ---- snapshots ------------------------------------------------------------------------------- */

struct feeding {
    struct rwd_snapshot_reader *reader;
    struct rwd_progress *progress;
};

static enum ron_rc take_rows(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    struct feeding *f = arg;
    enum ron_rc rc = rwd_snapshot_feed(f->reader, bytes, len, err);

    if (f->progress != NULL) {
        ron_au64_store(&f->progress->rows_done, rwd_snapshot_rows_read(f->reader));
    }
    return rc;
}

enum ron_rc rwd__tool_snapshot(const struct rwd_tool_in *in, struct rwd_progress *progress,
                               struct rwd_snapshot *ret_snapshot, struct ron_err *err)
{
    const struct rwd_rows_opts no_limit = {0};
    struct feeding f = {.progress = progress};
    enum ron_rc rc;

    if (progress != NULL) {
        ron_au32_store(&progress->phase, RWD_PHASE_READING);
    }
    RON_TRY(rwd_snapshot_reader_new(RWD_FORM_ANY, &no_limit, &f.reader, err));
    rc = rwd__tool_pump(in, take_rows, &f, err);
    if (rc != RON_OK) {
        rwd_snapshot_reader_free(f.reader);
        return rc;
    }
    return in_file(in, rwd_snapshot_end(f.reader, ret_snapshot, err), err);
}

/* ---- policies and keys ----------------------------------------------------------------------- */

enum ron_rc rwd__tool_hex(const char *text, const char *name, uint8_t ret_bytes[32],
                          struct ron_err *err)
{
    return ron_unhex(ron_str_of(text), RON_HEX_LOWER, ret_bytes, 32)
               ? RON_OK
               : ron_err_set(err, RON_INVALID, "%s takes 64 lowercase hexadecimal digits, not '%s'",
                             name, text);
}

enum ron_rc rwd__tool_policy_key(const char *text, struct rwd_policy_key *ret_key,
                                 struct ron_err *err)
{
    enum ron_rc rc = rwd_policy_key_read(ron_str_of(text), ret_key, err);

    if (rc != RON_OK) {
        ron_err_prefix(err, "--policy-key");
    }
    return rc;
}

enum ron_rc rwd__tool_policy(const struct rwd_tool_in *in, const char *key_text,
                             struct rwd_policy_doc **ret_doc, struct ron_err *err)
{
    struct rwd_policy_key key;
    struct ron_buf text;
    enum ron_rc rc;

    if (key_text != NULL) {
        RON_TRY(rwd__tool_policy_key(key_text, &key, err));
    }
    ron_buf_init(&text, RWD_POLICY_TEXT_MAX);
    rc = rwd__tool_text(in, &text, err);
    if (rc == RON_OK) {
        rc = in_file(in,
                     rwd_policy_read(ron_buf_data(&text), ron_buf_len(&text), &key,
                                     key_text == NULL ? 0 : 1, ret_doc, err),
                     err);
    }
    ron_buf_done(&text);
    return rc;
}

enum ron_rc rwd__tool_attester(const char *path, struct rwd_attester *ret_attester,
                               struct ron_err *err)
{
    struct ron_note_signer signer;

    RON_TRY(ron_note_signer_load(ron_env_linux(), path, &signer, err));
    if (signer.key.name_len > RWD_KEY_ID_MAX || !rwd_policy_id_ok(ron_str_of(signer.key.name))) {
        ron_note_signer_done(&signer);
        return ron_err_set(err, RON_INVALID,
                           "%s: the name of the key is not 1 to %d of A-Z a-z 0-9 _ . : -", path,
                           (int)RWD_KEY_ID_MAX);
    }
    memcpy(ret_attester->key_id, signer.key.name, (size_t)signer.key.name_len + 1);
    memcpy(ret_attester->seed, signer.secret_key, sizeof ret_attester->seed);
    ron_note_signer_done(&signer);
    return RON_OK;
}
