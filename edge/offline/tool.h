/* SPDX-License-Identifier: Apache-2.0 */
/* edge/offline/tool.h - what `ron edge` does with files, without a service: verify packs, take a
 * tile out of one, write the sample pack.
 *
 * Place: edge, for the program. Everything blocks. Results are texts, appended to `out`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/rc.h"

/* Told now and then how far the work is; total 0: not known. False cancels (RON_CANCELLED). */
struct edg_tool_watch {
    bool (*show)(void *arg, const char *phase, uint64_t done, uint64_t total);
    void *arg;
};

/* The longest report: findings and what the file says of itself. */
enum { EDG_TOOL_REPORT_MAX = 16384 };

/* Looks at a whole pack and reports, for people or as a line of JSON. `watch` may be NULL. RON_OK:
 * it was looked at, and `ret_good` says what came of it; else it could not be read. */
RON_MUST_USE enum ron_rc edg_tool_verify(const char *path, bool json, bool hash,
                                         const struct edg_tool_watch *watch, struct ron_buf *out,
                                         bool *ret_good, struct ron_err *err);

/* Appends the bytes of a tile as they are stored. RON_NOTFOUND. */
RON_MUST_USE enum ron_rc edg_tool_tile(const char *path, uint64_t z, uint64_t x, uint64_t y,
                                       struct ron_buf *out, struct ron_err *err);

/* The longest tile that is served. */
enum { EDG_TOOL_TILE_MAX = 16 << 20 };

/* Writes the sample pack, zooms 0 to 4 of the world. RON_EXISTS: a file is never replaced. */
RON_MUST_USE enum ron_rc edg_tool_sample(const char *path, struct ron_buf *out,
                                         struct ron_err *err);
