/* SPDX-License-Identifier: Apache-2.0 */
/* edge/sample/sample.h - a small pack of the world, made of numbers in the source, so that a fresh
 * installation has a map to show.
 *
 * Place: edge, behind `ron edge sample`; its archive is a PMTiles v3 of zooms 0 to 4 with vector
 * tiles: layers `land` (polygons, `name`), `graticule` (lines, `degrees`) and `labels` (points,
 * `name`, `rank`). Clustered, tiles and directories in gzip.
 *
 * The same bytes on every machine and with every build: whole numbers only, nothing from the clock,
 * and gzip with stored blocks, so that no compressor's version shows.
 *
 * Threads: pure. */
#pragma once

#include "edge/pack/pack.h"

enum { EDG_SAMPLE_BYTES_MAX = 4 << 20, EDG_SAMPLE_ZOOM_MAX = 4 };

/* Appends the whole archive. RON_NOMEM; RON_LIMIT when `out` does not take it. */
RON_MUST_USE enum ron_rc edg_sample_build(struct ron_buf *out, struct ron_err *err);
