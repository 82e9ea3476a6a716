/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/payouts_priv.h - what the files that write and read payouts share: names and
 * layouts. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "rewarder/run/payouts.h"
#include "ron/io/file.h"

enum {
    RWD__ROUND = RON_TREE_CHUNK, /* payouts taken at once; what the tree takes at once */
    RWD__PLACE_BYTES = 8,
    RWD__FILE_MODE = 0640, /* who may read the folder may read the run: it is meant to be shown */
};

enum rwd__payouts_file { RWD__LINES, RWD__INDEX, RWD__TREE, RWD__PAYOUTS_FILES };
extern const char *const rwd__payouts_files[RWD__PAYOUTS_FILES];

static inline void rwd__place_put(uint8_t *bytes, uint64_t place)
{
    for (unsigned i = 0; i < RWD__PLACE_BYTES; i++) {
        bytes[i] = (uint8_t)(place >> (56 - 8 * i));
    }
}

static inline uint64_t rwd__place_get(const uint8_t *bytes)
{
    uint64_t place = 0;

    for (unsigned i = 0; i < RWD__PLACE_BYTES; i++) {
        place = place << 8 | bytes[i];
    }
    return place;
}

static inline enum ron_rc rwd__path(char ret_path[RON_FILE_PATH_SIZE], const char *dir,
                                    const char *name, struct ron_err *err)
{
    int len = snprintf(ret_path, RON_FILE_PATH_SIZE, "%s/%s", dir, name);

    return len > 0 && len < RON_FILE_PATH_SIZE
               ? RON_OK
               : ron_err_set(err, RON_LIMIT, "a path of %zu bytes is too long",
                             strlen(dir) + strlen(name) + 1);
}
