/* SPDX-License-Identifier: Apache-2.0 */
/* edge/answer/site.h - from a representation to an answer, and what every answer needs to know of
 * the site it belongs to.
 *
 *     loop ---- found in memory or open ----> edg_answer
 *      +------- needs the disk (read.h) ----> reader ----> edg_answer, through the reply
 *
 * Ownership: a reply travels with its request, and the function that ends the request answers it.
 * Threads: a call on its loop, a reply anywhere. The site does not change after the start. */
#pragma once

#include "edge/answer/error.h"
#include "edge/answer/metrics.h"
#include "edge/conf.h"
#include "edge/files/files.h"
#include "edge/pack/pack.h"
#include "edge/rules/status.h"
#include "edge/stored/table.h"
#include "ron/app/app.h"
#include "ron/cas/cas.h"
#include "ron/http/select.h"

struct edg_metrics;
struct edg_reads;

enum { EDG_SITE_MAGIC = 0x65536974, EDG_EVENT_MAGIC = 0x65457674 }; /* "eSit", "eEvt" */

struct edg_site {
    uint32_t magic;
    struct ron_app *app;
    const struct ron_env *env;
    const struct ron_conf_snap *conf;
    struct ron_log *log;
    bool tile_204;
    bool hsts; /* security.hsts, and the listener speaks TLS */
    bool multipart;
    const char *cache_control;
    struct edg_metrics *metrics;
    struct ron_http_events *events; /* NULL: edge.events is off */
    struct edg_reads *reads;        /* the queues to the readers (read.h) */
};

/* Reads the settings that answers need. */
void edg_site_init(struct edg_site *s, struct ron_app *app, struct edg_reads *reads);

/* ---- what is answered ------------------------------------------------------------------------ */

/* A representation with its bytes. `blob.release` is called exactly once, whatever happens. */
struct edg_content {
    struct ron_http_blob blob; /* the whole */
    char tag[EDG_TAG_LEN + 1];
    uint64_t mtime_s; /* RON_HTTP_NO_MTIME: none */
    const char *type;
    const char *encoding;      /* NULL: identity */
    const char *cache_control; /* NULL or "": none */
    bool vary_encoding;
    enum edg_source source;
    const struct edg_extra *extra; /* NULL: none */
};

/* What a stored answer adds to its bytes. */
struct edg_extra {
    const struct edg_stored *stored;
    uint64_t age_s;
    struct edg_status status;
};

/* Where an answer goes: to the call of a handler or to a reply. */
struct edg_out {
    struct edg_site *site;
    struct ron_http_call *call;   /* one of the two */
    struct ron_http_reply *reply; /* given away by the answer */
    const struct ron_http_head *head;
    bool stored; /* the answer is an origin's: what pages may do with it is its own matter */
};

/* Answers with the content as conditions and ranges ask for; takes the blob. */
void edg_answer(struct edg_out *out, const struct edg_content *take_content);
/* Several ranges of it (answer/parts.c): to a reader, and there. Both take the content. */
void edg_parts_submit(struct edg_out *out, const struct edg_content *take_content);
void edg_parts_answer(struct edg_out *out, const struct edg_content *take_content,
                      const struct ron_http_selection *selection);
/* Whether the request is for several ranges, and those are wanted. */
bool edg_parts_asked(const struct edg_out *out);
/* The same of an object; without a reply its bytes must lie in one piece. */
void edg_answer_object(struct edg_out *out, struct ron_cas_obj *take_obj,
                       const struct edg_extra *extra);
/* Whether they do. */
bool edg_object_is_plain(const struct ron_cas_obj *obj);
void edg_fail(struct edg_out *out, enum edg_error error);
/* ron_http_refusal of the listener, with the edg_site. */
void edg_refusal(void *arg, struct ron_http_call *call, const struct ron_http_head *head,
                 const struct ron_http_error *error);
void edg_answer_text(struct edg_out *out, int status, const char *type, const struct ron_buf *body);
void edg_answer_empty(struct edg_out *out, int status);
/* What browsers are told besides the answer: no referrer, TLS only, and Access-Control-* with
 * Vary: Origin when the request's Origin is allowed. Once for each answer. */
void edg_add_site(struct edg_out *out);
/* The same for OPTIONS: which methods and headers it may use. */
void edg_add_preflight(struct edg_out *out);
/* "b3:" and the digits, as an entity tag without quotes. */
void edg_tag_of(const struct ron_b3 *id, char ret_tag[EDG_TAG_LEN + 1]);

/* ---- events ---------------------------------------------------------------------------------- */

/* One thing that happened; `what` is a constant. */
struct edg_event {
    uint32_t magic; /* filled in when it is told, as ts_ms and name */
    bool fill;      /* of an origin; else of a pack */
    uint32_t status;
    uint64_t bytes;
    uint64_t ts_ms;
    char name[EDG_PACK_NAME_MAX + 1];
    const char *what;
};

RON_MUST_USE enum ron_rc edg_events_add(struct edg_site *s, struct ron_err *err);
void edg_events_free(struct edg_site *s);
/* Any thread; never waits. */
void edg_events_tell(struct edg_site *s, const struct edg_event *event, const char *name);
void edg_events_http(struct ron_http_call *call, void *arg);
