/* SPDX-License-Identifier: Apache-2.0 */
/* edge/serve/packs.h - the packs in force, and the verifier task that opens and checks them.
 *
 *     start, reload --reloads(1)--> verifier: open, verify, hash, then swap the set
 *
 * Threads: get and list from anywhere; only the verifier changes the set. Drain stage: 1. */
#pragma once

#include "edge/answer/site.h"
#include "ron/obs/health.h"
#include "ron/sync/sync.h"

enum {
    EDG_PACKS_MAX = 65,           /* 64 of the settings, and that of the demo */
    EDG_PACKS_MAGIC = 0x65506b73, /* "ePks" */
};

/* The packs of one configuration; immutable once it is in force. */
struct edg_pack_set {
    size_t count;
    struct edg_pack *packs[EDG_PACKS_MAX];
    size_t bad_count; /* those that cannot be served */
    char bad[EDG_PACKS_MAX][EDG_PACK_NAME_MAX + 1];
};

struct edg_packs {
    uint32_t magic;
    struct edg_site *site;
    const char *sample; /* path of the demo's pack; NULL: there is no demo */
    struct edg_pack_cache *cache;
    struct ron_mutex mu; /* guards `set` */
    struct edg_pack_set *set;
    struct ron_task *verifier;
    const char *verified; /* the pack that is being verified, of the verifier alone */
    uint64_t verified_percent;
    uint64_t verified_told_ms;
    struct ron_chan *reloads; /* wishes to look at the packs again */
    struct ron_need *need;
};

/* NAME=FILE; RON_INVALID says what is wrong. */
RON_MUST_USE enum ron_rc edg_packs_check(const struct ron_conf_snap *conf, struct ron_err *err);
void edg_packs_init(struct edg_packs *packs, struct edg_site *site);
/* The need, so that the edge is not ready before the first verification. */
RON_MUST_USE enum ron_rc edg_packs_open(struct edg_packs *packs, struct ron_err *err);
/* Adds the verifier; the packs come with its first turn. */
RON_MUST_USE enum ron_rc edg_packs_add(struct edg_packs *packs, const char *sample,
                                       struct ron_err *err);
void edg_packs_reload(struct edg_packs *packs);
void edg_packs_free(struct edg_packs *packs);

/* The pack of that name with a reference, or NULL and why not. Never blocks. */
struct edg_pack *edg_packs_get(struct edg_packs *packs, struct ron_str name,
                               enum edg_error *ret_error);
/* All of them, each with a reference; returns how many. */
size_t edg_packs_list(struct edg_packs *packs, struct edg_pack *ret_packs[EDG_PACKS_MAX]);
