/* SPDX-License-Identifier: Apache-2.0 */
/* in.c - receive buffers and messages in pieces. Invariants C3 and C4 are in wire_priv.h.
 *
 * Memory: all of it is counted against opts.in_memory_max. Unused buffers are kept in a short list
 * per class and stay counted, so a busy worker does not touch the heap.
 * Failure: no memory is a refusal of the request that needed it, never more. */
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wire_priv.h"

/* A turn's worth of small requests; a batch of a thousand transfers; the largest frame. */
static const uint32_t class_bytes[OAP_IN_CLASSES] = {32768, 262144, RON_OAP_FRAME_MAX};
static const uint32_t class_kept[OAP_IN_CLASSES] = {OAP_IN_KEPT, 4, 2};

static bool charge(struct ron_oap_server *s, uint64_t bytes)
{
    if (ron_au64_add(&s->in_memory, bytes) + bytes > s->opts.in_memory_max) {
        (void)ron_au64_add(&s->in_memory, 0 - bytes); /* minus */
        return false;
    }
    return true;
}

static struct oap_in *in_get(struct oap_worker *w, uint32_t cls)
{
    struct oap_in *in = w->in_free[cls];
    size_t bytes = sizeof *in + class_bytes[cls];

    if (in != NULL) {
        w->in_free[cls] = in->next;
        w->in_free_count[cls]--;
    } else {
        if (!charge(w->server, bytes)) {
            return NULL;
        }
        in = ron_alloc(bytes);
        if (in == NULL) {
            (void)ron_au64_add(&w->server->in_memory, 0 - (uint64_t)bytes); /* minus */
            return NULL;
        }
        in->cls = cls;
        in->cap = class_bytes[cls];
    }
    in->next = NULL;
    in->refs = 1;
    return in;
}

static void in_free(struct oap_worker *w, struct oap_in *in)
{
    (void)ron_au64_add(&w->server->in_memory, 0 - (uint64_t)(sizeof *in + in->cap)); /* minus */
    ron_free(in);
}

void ron__oap_in_unref(struct oap_worker *w, struct oap_in *in)
{
    RON_ASSERT(in->refs > 0);
    if (--in->refs > 0) {
        return;
    }
    if (w->in_free_count[in->cls] < class_kept[in->cls]) {
        in->next = w->in_free[in->cls];
        w->in_free[in->cls] = in;
        w->in_free_count[in->cls]++;
    } else {
        in_free(w, in);
    }
}

void ron__oap_in_done(struct oap_worker *w)
{
    for (uint32_t cls = 0; cls < OAP_IN_CLASSES; cls++) {
        while (w->in_free[cls] != NULL) {
            struct oap_in *in = w->in_free[cls];

            w->in_free[cls] = in->next;
            in_free(w, in);
        }
        w->in_free_count[cls] = 0;
    }
}

void ron__oap_in_release(struct oap_conn *c)
{
    if (c->in != NULL) {
        /* The next buffer goes by what this one was used for: a large request must not make each
         * small one after it hold as much. */
        while (c->in_class > 0 && c->in_len <= class_bytes[c->in_class - 1]) {
            c->in_class--;
        }
        ron__oap_in_unref(c->w, c->in);
        c->in = NULL;
    }
    c->in_at = 0;
    c->in_len = 0;
    c->in_need = 0;
}

void ron__oap_in_rest(struct oap_conn *c)
{
    if (c->in->refs == 1 || c->in->cap - c->in_len < OAP_IN_ROOM_MIN) {
        ron__oap_in_release(c);
    }
}

bool ron__oap_in_room(struct oap_conn *c)
{
    struct oap_in *old = c->in;
    uint32_t have = c->in_len - c->in_at;
    uint32_t cls = old == NULL ? c->in_class : old->cls;
    struct oap_in *in;

    if (old != NULL && c->in_len < old->cap) {
        /* The rest of the frame fits, or the room is worth a read: what comes is small then. */
        if (c->in_at + c->in_need <= old->cap || c->in_need <= RON_OAP_HEADER_BYTES) {
            return true;
        }
    }
    if (old != NULL && old->refs == 1 && have < old->cap) {
        memmove(old->bytes, old->bytes + c->in_at, have);
        c->in_at = 0;
        c->in_len = have;
        return true;
    }
    while (class_bytes[cls] <= have) {
        cls++;
    }
    in = in_get(c->w, cls);
    if (in == NULL && old == NULL && cls > 0) {
        cls = 0; /* A hint only. */
        in = in_get(c->w, cls);
    }
    if (in == NULL) {
        return false;
    }
    if (old != NULL) {
        memcpy(in->bytes, old->bytes + c->in_at, have);
        ron__oap_in_unref(c->w, old);
    }
    c->in = in;
    c->in_class = cls;
    c->in_at = 0;
    c->in_len = have;
    return true;
}

/* ---- messages in pieces ---------------------------------------------------------------------- */

struct oap_part *ron__oap_part_new(struct oap_conn *c, const struct ron_oap_frame *f)
{
    struct ron_oap_server *s = c->w->server;
    struct oap_part *p;

    if (!charge(s, sizeof *p)) {
        return NULL;
    }
    p = ron_alloc_zero(sizeof *p);
    if (p == NULL) {
        (void)ron_au64_add(&s->in_memory, 0 - (uint64_t)sizeof *p); /* minus */
        return NULL;
    }
    p->charged = sizeof *p;
    p->start_ms = c->w->now_ms;
    p->head = (struct ron_oap_request){.app = f->head.app,
                                       .code = f->head.code,
                                       .flags = f->head.flags,
                                       .corr_id = f->head.corr_id,
                                       .tenant = f->head.tenant,
                                       .cap_len = f->head.cap_len};
    ron_buf_init(&p->bytes, s->opts.message_max + UINT16_MAX);
    return p;
}

bool ron__oap_part_add(struct oap_conn *c, struct oap_part *p, const void *bytes, size_t len)
{
    struct ron_oap_server *s = c->w->server;
    size_t cap = p->bytes.cap;

    if (ron_buf_append(&p->bytes, bytes, len) != RON_OK) {
        return false;
    }
    if (p->bytes.cap > cap) {
        uint64_t more = p->bytes.cap - cap;

        if (!charge(s, more)) {
            return false; /* The caller lets go of it at once. */
        }
        p->charged += more;
    }
    return true;
}

void ron__oap_part_free(struct oap_worker *w, struct oap_part *p)
{
    (void)ron_au64_add(&w->server->in_memory, 0 - p->charged); /* minus */
    ron_buf_done(&p->bytes);
    ron_free(p);
}
