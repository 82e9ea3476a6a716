/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/hilbert.h - tile ids of PMTiles: all zooms one after another, each along a Hilbert
 * curve.
 *
 * Place: edge; pure. id = (4^z - 1) / 3 + index on the curve, so z 0 is 0, z 1 is 1..4, and the
 * last tile of z 31 is EDG_TILE_ID_MAX, below 2^63. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ron/base/macros.h"

#define EDG_TILE_ID_MAX 6148914691236517204u /* (4^32 - 1) / 3 - 1 */

struct edg_zxy {
    uint8_t z;
    uint32_t x;
    uint32_t y;
};

/* False when z is above 31, or x or y is not below 2^z; wide arguments, as a path has them. */
RON_MUST_USE bool edg_tile_id(uint64_t z, uint64_t x, uint64_t y, uint64_t *ret_id);

/* False above EDG_TILE_ID_MAX. */
RON_MUST_USE bool edg_tile_zxy(uint64_t id, struct edg_zxy *ret_zxy);

/* The first id of a zoom, z at most 32: that of 32 is one more than the last tile. */
static inline uint64_t edg_zoom_first_id(uint32_t z)
{
    return z == 0 ? 0 : (UINT64_MAX >> (64 - 2 * z)) / 3;
}
