/* SPDX-License-Identifier: Apache-2.0 */
/* edge/stored/store.h - what the edge keeps: objects by content id, and the table of cached
 * responses that refer to them.
 *
 * Threads: made at the start; its parts have locks of their own. */
#pragma once

#include "edge/stored/table.h"
#include "ron/cas/cas.h"
#include "ron/http/ops.h"
#include "ron/s3/tier.h"

struct edg_store {
    bool amnesia;
    struct ron_cas *cas; /* NULL: there are neither origins nor a bucket */
    struct ron_ops_cas cas_metrics;
    struct ron_tier *tier;   /* NULL: there is no bucket behind the store */
    struct edg_table *table; /* NULL: there are no origins */
    bool index_taken;        /* the file is gone: what is in the table must be written */
};
