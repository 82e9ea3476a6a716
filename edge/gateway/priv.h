/* SPDX-License-Identifier: Apache-2.0 */
/* edge/gateway/priv.h - the record of the gateway; private to its files. */
#pragma once

#include "edge/gateway/gateway.h"

enum {
    EDG_PASSES_MAX = 2048, /* calls that pass through at once; inflight and streams bound them */
    EDG_MARKS = 4096,
    EDG_MARK_S = 10,                /* how long a target is known not to be kept */
    EDG_GATEWAY_MAGIC = 0x65477779, /* "eGwy" */
};

struct edg_pass;

struct edg_gateway {
    uint32_t magic;
    struct edg_site *site;
    struct edg_fills *fills;
    struct edg_store *store;
    const struct edg_origin *origin;
    const char *authority; /* of its URL */
    struct ron_http_client *client;
    struct ron_http_target *target;
    struct ron_str host; /* empty: all */
    bool pass_host;
    const char *port; /* that needs no mention in Host, with its colon */
    uint64_t object_max;
    uint64_t seed; /* so that clients cannot choose which targets share a mark */
    char below[1024];
    char above[1024];
    struct ron_au64 marks[EDG_MARKS]; /* hash and second of its end */
    struct ron_mutex passes_mu;       /* guards the three below */
    struct edg_pass *passes_free;
    struct edg_pass *passes_made; /* all */
    uint32_t pass_count;          /* that exist */
};
