/* SPDX-License-Identifier: Apache-2.0 */
/* edge/serve/serve.h - routes and readers: from a path to an answer.
 *
 *     http --hit--> answer, on the loop: packs and files that are in memory or open
 *      |
 *      +--reads--> reader-N: what needs the disk first, then the same answer
 *      |      +--s3_reads--> s3-reader-N: what the bucket may have
 *      +--miss, live or gateway--> fill/fills.h
 *
 * Threads: routes on loops, readers on their own tasks (drain stage 1). Built before the first
 * request and not changed afterwards. */
#pragma once

#include "edge/answer/read.h"
#include "edge/fill/fills.h"
#include "edge/gateway/gateway.h"
#include "edge/serve/packs.h"
#include "ron/app/auth.h"

enum {
    EDG_READERS_MAX = 64,
    EDG_FETCHES_MAX = 64,
    EDG_ROUTES_MAX = 32,
    EDG_SERVE_MAGIC = 0x65537276, /* "eSrv" */
};

struct edg_demo;

struct edg_serve {
    uint32_t magic;
    struct edg_site *site;
    struct edg_store *store;
    struct edg_fills *fills;
    struct edg_packs *packs;
    struct edg_gateway *gateway; /* NULL: there is none */
    struct edg_files *files;     /* NULL: none are served */
    struct ron_app_auth *auth;   /* NULL: purges are not allowed */
    struct edg_demo *demo;       /* NULL: none */
    char reader_names[EDG_READERS_MAX][24];
    char s3_reader_names[EDG_FETCHES_MAX][24];
    struct ron_http_route routes[EDG_ROUTES_MAX];
    size_t route_count;
};

/* Hands the routes to the app; after everything that they use. */
void edg_routes_fill(struct edg_serve *s);

/* The queues to the readers, then the readers. Those of the bucket: nothing without a tier. */
RON_MUST_USE enum ron_rc edg_reads_open(struct edg_serve *s, struct ron_err *err);
RON_MUST_USE enum ron_rc edg_readers_add(struct edg_serve *s, struct ron_err *err);
RON_MUST_USE enum ron_rc edg_s3_readers_add(struct edg_serve *s, struct ron_err *err);
/* Answers what is left in the queues. */
void edg_reads_free(struct edg_reads *reads);

/* From open things to what is answered; each takes its handle. */
struct edg_content edg_content_of_file(const struct edg_site *site,
                                       const struct edg_file *take_file);
struct edg_content edg_content_of_tile(const struct edg_site *site,
                                       const struct edg_tile *take_tile);
/* Whether the client takes a tile in the coding in which it is stored. */
bool edg_takes_tile(const struct ron_http_head *head, const struct edg_tile *tile);
/* A tile that is not there. */
void edg_answer_no_tile(struct edg_out *out, const struct edg_pack *pack);

/* Appends the route of purges; how many there are then. */
size_t edg_purge_routes(struct edg_serve *s, struct ron_http_route *rows, size_t count);
/* The work of a purge, on a reader. */
void edg_purge(struct edg_serve *s, const struct edg_read *r, struct edg_out *out);
