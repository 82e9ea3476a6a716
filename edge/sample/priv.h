/* SPDX-License-Identifier: Apache-2.0 */
/* edge/sample/priv.h - the parts of the sample: what is drawn, and tiles drawn of it.
 *
 * Coordinates are those of the one tile of zoom 0: 4096 to a side, Web Mercator, y downwards. At
 * zoom z they are multiplied by 2^z, so that every corner is exact at every zoom. */
#pragma once

#include "edge/pack/hilbert.h"
#include "edge/pack/pack.h"

enum { EDG__EXTENT = 4096, EDG__SHAPE_SPOTS_MAX = 128, EDG__TILE_BYTES = 256 * 1024 };

struct edg__spot {
    int32_t x, y;
};

/* A ring, clockwise on the screen, not closed. */
struct edg__shape {
    const char *name;
    const struct edg__spot *spots;
    size_t count;
};

struct edg__label {
    const char *name;
    struct edg__spot at;
    uint32_t rank; /* the zoom from which on it is there */
};

extern const struct edg__shape edg__shapes[];
extern const size_t edg__shape_count;
extern const struct edg__label edg__labels[];
extern const size_t edg__label_count;
/* Where the parallels 75, 60, ... -75 lie. */
extern const int32_t edg__parallels[];
extern const size_t edg__parallel_count;

/* Appends the vector tile; nothing when there is nothing in it. Fails as buffers do. */
RON_MUST_USE enum ron_rc edg__sample_tile(const struct edg_zxy *at, struct ron_buf *out);
