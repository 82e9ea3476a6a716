/* SPDX-License-Identifier: Apache-2.0 */
/* edge/fill/tier.h - a bucket behind the edge's store, shared by many edges; all functions do
 * nothing without one (`store->tier` NULL).
 *
 * tier.c has the objects, shared.c which of them a path has. */
#pragma once

#include "edge/fill/fills.h"

/* ---- objects --------------------------------------------------------------------------------- */

/* The tier; nothing without [s3]. After the store. */
RON_MUST_USE enum ron_rc edg_s3_open(const struct edg_site *site, struct edg_store *store,
                                     uint64_t store_bytes, struct ron_err *err);
/* On a reader of the bucket: brings an object into the local store. */
enum ron_rc edg_s3_bring(const struct edg_site *site, struct edg_store *store,
                         const struct ron_b3 *id);
/* After the commit of an object of an origin: the bucket is to have it, too. What goes wrong is
 * logged; the object can be had again. */
void edg_s3_stored(const struct edg_site *site, struct edg_store *store, const struct ron_b3 *id,
                   struct ron_deadline deadline);

/* ---- records of paths ------------------------------------------------------------------------ */

/* RON_NOMEM. */
RON_MUST_USE enum ron_rc edg_shared_new(struct edg_fills *fills, struct ron_err *err);
void edg_shared_free(struct edg_fills *fills);
/* A fresh record of the bucket for the target, in the table already, its bytes in the local store;
 * or NULL. Blocking, for a second at most before its bytes are fetched. */
const struct edg_stored *edg_shared_find(struct edg_fills *fills, const struct edg_fill *f);
/* Tells the others. Blocking, for a second at most. */
void edg_shared_tell(struct edg_fills *fills, const struct edg_stored *record);
/* Forgets a target, or with `prefix` all that begin so, as far as this edge goes. Blocking. */
void edg_shared_purge(struct edg_fills *fills, uint32_t origin, struct ron_str target, bool prefix);
