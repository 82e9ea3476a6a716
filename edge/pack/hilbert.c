/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/hilbert.c - the curve, one bit of x and y at a time. */
#include "edge/pack/hilbert.h"

#include "ron/base/assert.h"

enum { ZOOM_MAX = 31 };

/* Turns the square of side s as its quadrant asks; only bits below s matter afterwards, so that the
 * borrow of the subtraction does no harm. */
static inline void turn(uint32_t s, bool right, bool up, uint32_t *x, uint32_t *y)
{
    if (!up) {
        uint32_t old_x = *x;

        if (right) {
            old_x = s - 1 - old_x;
            *y = s - 1 - *y;
        }
        *x = *y;
        *y = old_x;
    }
}

bool edg_tile_id(uint64_t z, uint64_t x, uint64_t y, uint64_t *ret_id)
{
    uint64_t index = 0;
    uint32_t at_x = (uint32_t)x;
    uint32_t at_y = (uint32_t)y;

    if (z > ZOOM_MAX || x >> z != 0 || y >> z != 0) {
        return false;
    }
    for (uint32_t bit = (uint32_t)z; bit-- > 0;) {
        uint32_t s = (uint32_t)1 << bit;
        bool right = (at_x & s) != 0;
        bool up = (at_y & s) != 0;

        index = index << 2 | ((right ? 3u : 0u) ^ (up ? 1u : 0u));
        turn(s, right, up, &at_x, &at_y);
    }
    RON_ASSERT_MSG(index >> (2 * z) == 0, "an index lies inside its zoom");
    *ret_id = edg_zoom_first_id((uint32_t)z) + index;
    return true;
}

bool edg_tile_zxy(uint64_t id, struct edg_zxy *ret_zxy)
{
    uint32_t z;
    uint64_t index;
    uint32_t x = 0;
    uint32_t y = 0;

    if (id > EDG_TILE_ID_MAX) {
        return false;
    }
    /* 3 * id + 1 lies in [4^z, 4^(z+1)) and below 2^64. */
    z = (63u - (uint32_t)__builtin_clzll(3 * id + 1)) / 2;
    index = id - edg_zoom_first_id(z);
    for (uint32_t bit = 0; bit < z; bit++) {
        bool right = (index & 2) != 0;
        bool up = ((index & 1) != 0) != right;
        uint32_t s = (uint32_t)1 << bit;

        turn(s, right, up, &x, &y);
        x += right ? s : 0;
        y += up ? s : 0;
        index >>= 2;
    }
    RON_ASSERT(z <= ZOOM_MAX && x >> z == 0 && y >> z == 0);
    *ret_zxy = (struct edg_zxy){.z = (uint8_t)z, .x = x, .y = y};
    return true;
}
