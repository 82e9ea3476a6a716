/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/origins.h - the origins of the settings ([origins.NAME]).
 *
 * No other server is ever contacted: ron/http/client.h checks host, address and each redirect.
 *
 * Threads: opened at the start, then read by all. */
#pragma once

#include "edge/conf.h"
#include "edge/origin/origin.h"

struct edg_origins {
    struct ron_http_client *client;
    size_t count;
    struct edg_origin at[EDG_ORIGINS_MAX];
    struct ron_app_tokens tokens[EDG_ORIGINS_MAX];
};

/* RON_INVALID names the setting. */
RON_MUST_USE enum ron_rc edg_origins_check(const struct ron_conf_snap *conf, struct ron_err *err);
/* Adds the client's task. Nothing to do without origins. */
RON_MUST_USE enum ron_rc edg_origins_open(struct edg_origins *o, struct ron_app *app,
                                          const struct ron_conf_snap *conf, uint64_t object_max,
                                          struct ron_err *err);
void edg_origins_close(struct edg_origins *o);
/* A target of a client for the origin of a section: its host, the addresses it may reach and the
 * authorities it trusts; the rest is `like`. */
RON_MUST_USE enum ron_rc edg_origin_target(struct ron_http_client *client,
                                           const struct ron_conf_snap *conf, uint32_t section,
                                           const struct ron_http_target_opts *like,
                                           struct ron_http_target **ret_target,
                                           struct ron_err *err);
/* NULL when there is none of that name. */
const struct edg_origin *edg_origins_find(const struct edg_origins *o, struct ron_str name,
                                          uint32_t *ret_index);
