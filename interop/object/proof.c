/* SPDX-License-Identifier: Apache-2.0 */
/* interop/object/proof.c - GET /o/{addr}?proof=START,LENGTH: a range with what proves it against
 * the address alone (bao.h, docs/formats/interop-slice.md); `proof=` without numbers is the whole
 * object.
 *
 * Place: service; on a reader. A slice needs the chaining values of the whole object, which are
 * computed from its bytes when first asked for (as fast as they can be read) and kept for the last
 * objects: 32 bytes for 16 KiB of content.
 *
 * Threads: readers; the table has a lock of rank shared, held for a lookup. A tree is built and
 * read without it. */
#include <stdio.h>
#include <string.h>

#include "interop/object/bao.h"
#include "interop/object/objects.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/http/stream.h"

enum {
    TREES = 16,
    TREE_KEEP_MAX = 4 << 20, /* of an object of 2 GiB; larger ones are computed each time */
    PIECE = 65536,
};

struct tree {
    struct iop_bao *bao;
    struct ron_b3 id;
    uint32_t users;
    uint64_t used; /* the larger, the later */
};

struct iop_proofs {
    struct ron_mutex mu; /* guards all below */
    uint64_t turn;
    struct tree at[TREES];
};

enum ron_rc iop_proofs_new(struct iop_objects *o, struct ron_err *err)
{
    o->proofs = ron_alloc_zero(sizeof *o->proofs);
    if (o->proofs == NULL) {
        return ron_err_set(err, RON_NOMEM, "out of memory for object proofs");
    }
    ron_mutex_init(&o->proofs->mu, RON_RANK_SHARED, "interop.proofs");
    return RON_OK;
}

void iop_proofs_free(struct iop_objects *o)
{
    if (o->proofs == NULL) {
        return;
    }
    for (size_t i = 0; i < TREES; i++) {
        iop_bao_free(o->proofs->at[i].bao);
    }
    ron_mutex_done(&o->proofs->mu);
    ron_free(o->proofs);
    o->proofs = NULL;
}

/* ---- trees ----------------------------------------------------------------------------------- */

static enum ron_rc read_content(void *arg, uint64_t off, void *buf, size_t len)
{
    size_t got = 0;

    while (len > 0) {
        RON_TRY(ron_cas_read(arg, off, buf, len, &got));
        if (got == 0) {
            return RON_IO;
        }
        off += got;
        buf = (char *)buf + got;
        len -= got;
    }
    return RON_OK;
}

/* RON_CANCELLED when nobody waits for it any more. */
static enum ron_rc build(const struct ron_cas_obj *obj, struct ron_http_reply *reply,
                         struct iop_bao **ret, struct ron_err *err)
{
    uint64_t size = ron_cas_obj_size(obj);
    uint8_t *piece = ron_alloc(PIECE);
    struct iop_bao *t = NULL;
    struct ron_b3 root;
    enum ron_rc rc = piece != NULL ? iop_bao_new(size, &t, err) : RON_NOMEM;

    for (uint64_t at = 0; rc == RON_OK && at < size;) {
        size_t len = (size_t)RON_MIN(size - at, (uint64_t)PIECE);

        rc = read_content((void *)(uintptr_t)obj, at, piece, len);
        if (rc == RON_OK) {
            rc = ron_http_reply_cancelled(reply) ? RON_CANCELLED : iop_bao_update(t, piece, len);
        }
        at += len;
    }
    ron_free(piece);
    if (rc == RON_OK) {
        rc = iop_bao_final(t, &root);
    }
    if (rc == RON_OK && !ron_b3_equal(&root, ron_cas_obj_id(obj))) {
        ron_cas_suspect(obj);
        rc = ron_err_set(err, RON_CORRUPT, "object content does not match its address");
    }
    if (rc != RON_OK) {
        iop_bao_free(t);
        return rc;
    }
    *ret = t;
    return RON_OK;
}

static struct tree *find(struct iop_proofs *p, const struct ron_b3 *id)
{
    struct tree *found = NULL;

    ron_mutex_lock(&p->mu);
    for (size_t i = 0; i < TREES && found == NULL; i++) {
        if (p->at[i].bao != NULL && ron_b3_equal(&p->at[i].id, id)) {
            found = &p->at[i];
            found->users++;
            found->used = ++p->turn;
        }
    }
    ron_mutex_unlock(&p->mu);
    return found;
}

/* Puts it in place of what was not used for longest. NULL: everything is in use, or it is too
 * large, and it stays with the caller. */
static struct tree *keep(struct iop_proofs *p, const struct ron_b3 *id, struct iop_bao *bao)
{
    struct iop_bao *old = NULL;
    struct tree *place = NULL;

    if (iop_bao_size(bao) > TREE_KEEP_MAX) {
        return NULL;
    }
    ron_mutex_lock(&p->mu);
    for (size_t i = 0; i < TREES; i++) {
        struct tree *t = &p->at[i];

        if (t->users == 0 && (place == NULL || t->used < place->used)) {
            place = t;
        }
    }
    if (place != NULL) {
        RON_ASSERT_MSG(place->users == 0, "a tree in use stays");
        old = place->bao;
        *place = (struct tree){.bao = bao, .id = *id, .users = 1, .used = ++p->turn};
    }
    ron_mutex_unlock(&p->mu);
    iop_bao_free(old);
    return place;
}

static void give_back(struct iop_proofs *p, struct tree *t)
{
    ron_mutex_lock(&p->mu);
    RON_ASSERT_MSG(t->users > 0, "a tree that is given back was in use");
    t->users--;
    ron_mutex_unlock(&p->mu);
}

/* ---- the answer ------------------------------------------------------------------------------ */

#define WRITER_MAGIC 0x49575249u /* "IWRI" */

struct writer {
    uint32_t magic;
    struct ron_http_reply *reply;
    struct ron_deadline deadline;
};

static enum ron_rc emit(void *arg, const void *bytes, size_t len)
{
    const struct writer *w = RON_OBJ(arg, const struct writer, WRITER_MAGIC);
    const char *p = bytes;

    while (len > 0) {
        size_t n = RON_MIN(len, (size_t)RON_HTTP_PIECE_BYTES);

        RON_TRY(ron_http_reply_write_wait(w->reply, p, n, w->deadline));
        p += n;
        len -= n;
    }
    return RON_OK;
}

static void send_slice(struct iop_objects *o, const struct iop_read *r,
                       const struct ron_cas_obj *obj, const struct iop_bao *tree)
{
    uint64_t size = ron_cas_obj_size(obj);
    uint64_t start = r->proof_start;
    uint64_t len = RON_MIN(r->proof_len, size); /* more proves no more */
    struct writer w = {
        .magic = WRITER_MAGIC, .reply = r->reply, .deadline = ron_http_reply_deadline(r->reply)};
    struct ron_err err = {0};
    enum ron_rc rc;

    (void)ron_http_reply_add_header(r->reply, "Cache-Control",
                                    (struct ron_str){"private, max-age=31536000, immutable", 36});
    (void)ron_http_reply_add_header(r->reply, "X-Content-Type-Options",
                                    (struct ron_str){"nosniff", 7});
    rc = ron_http_reply_begin(
        r->reply, &(struct ron_http_stream_opts){.status = 200,
                                                 .content_type = "application/octet-stream",
                                                 .length = iop_bao_slice_len(size, start, len)});
    if (rc != RON_OK) {
        iop_reply_fail(r->reply, IOP_ERROR_BUSY, NULL);
        return;
    }
    if (r->head->method != RON_HTTP_HEAD) {
        rc = iop_bao_slice(tree, start, len, read_content, (void *)(uintptr_t)obj, emit, &w, &err);
    }
    if (rc == RON_OK) {
        ron_http_reply_end(r->reply);
        return;
    }
    if (rc == RON_CORRUPT) {
        ron_cas_suspect(obj);
        RON_LOG(o->core->log, ERROR, "object corrupt", RON_LOG_ERR(&err));
    }
    ron_http_reply_abort(r->reply);
}

void iop_proof_answer(struct iop_objects *o, const struct iop_read *r, struct ron_cas_obj *take_obj)
{
    struct ron_cas_obj *obj = take_obj;
    struct tree *t = find(o->proofs, ron_cas_obj_id(obj));
    struct iop_bao *own = NULL;
    struct ron_err err = {0};

    if (t == NULL) {
        enum ron_rc rc = build(obj, r->reply, &own, &err);

        if (rc != RON_OK) {
            iop_reply_fail(r->reply, iop_error_of(rc), err.msg);
            ron_cas_release(obj);
            return;
        }
        t = keep(o->proofs, ron_cas_obj_id(obj), own);
    }
    send_slice(o, r, obj, t != NULL ? t->bao : own);
    if (t != NULL) {
        give_back(o->proofs, t);
    } else {
        iop_bao_free(own);
    }
    ron_cas_release(obj);
}

/* ---- the query ------------------------------------------------------------------------------- */

enum ron_rc iop_proof_query(struct ron_str query, uint64_t *ret_start, uint64_t *ret_len)
{
    char room[48];
    struct ron_str text = {0};
    const char *comma;

    *ret_start = 0;
    *ret_len = UINT64_MAX;
    RON_TRY(ron_http_query_get(query, "proof", room, sizeof room, &text));
    if (text.len == 0) {
        return RON_OK;
    }
    comma = memchr(text.ptr, ',', text.len);
    if (comma == NULL ||
        ron_http_parse_u64((struct ron_str){text.ptr, (size_t)(comma - text.ptr)}, ret_start) !=
            RON_OK ||
        ron_http_parse_u64((struct ron_str){comma + 1, text.len - (size_t)(comma + 1 - text.ptr)},
                           ret_len) != RON_OK) {
        return RON_INVALID;
    }
    return RON_OK;
}
