/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/mbt.h - MBTiles 1.3: tiles in a SQLite file.
 *
 * Place: edge, below pack.h. The file is opened read-only and immutable: no locks, no journal,
 * no other file is written. `tiles` and `metadata` may be tables or views. Rows are counted from
 * the south (TMS), so row = 2^z - 1 - y.
 *
 * SQLite reads the disk, so it is never used on a loop: a tile is copied once, on a thread that may
 * block, into the cache that all packs share, and lent from there. One handle for each such thread
 * (`readers`) is therefore enough, whatever the number of loops.
 *
 * A file is a stranger's program: views are code. So the schema is not trusted (no functions with
 * effects), nothing can be attached or loaded, values are bounded, memory mapping is off (a file
 * that shrinks gives an error, not a signal), and a statement that runs longer than STEPS_MAX steps
 * of the virtual machine is broken off (RON_LIMIT): about half a second.
 *
 * Threads: all functions block; any number of them at once, each waits for a free handle. */
#pragma once

#include "edge/pack/cache.h"
#include "edge/pack/hilbert.h"

struct edg_mbt;

enum { EDG_MBT_ZOOM_MAX = 30 }; /* columns and rows are 32-bit in too many tools for more */

/* Fills what `ret_info` has of zooms, bounds, centre and type, and appends the metadata as JSON. */
RON_MUST_USE enum ron_rc edg_mbt_open(const char *path, uint32_t readers,
                                      struct edg_pack_info *ret_info, struct ron_buf *metadata,
                                      struct edg_mbt **ret_mbt, struct ron_err *err);
void edg_mbt_close(struct edg_mbt *m); /* NULL does nothing */

/* A new block with the tile, or of length 0 when the file has none. */
RON_MUST_USE enum ron_rc edg_mbt_tile(struct edg_mbt *m, const struct edg_zxy *at,
                                      const struct edg__name *name, struct edg__block **ret_block,
                                      struct ron_err *err);

/* A handle of its own, hardened as above, for other queries; give it to sqlite3_close.
 * `db` is a struct sqlite3. */
RON_MUST_USE enum ron_rc edg__mbt_handle(const char *path, void **ret_db, struct ron_err *err);
