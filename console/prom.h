/* SPDX-License-Identifier: Apache-2.0 */
/* console/prom.h - reads the text of /metrics (Prometheus exposition format), sample by sample.
 *
 * Place: console; pure, allocates nothing. Lines that are no samples (comments, and whatever is
 * malformed) are skipped: the text comes from services, but a console must not fall over one.
 *
 * Threads: pure. Slices lie in the text. */
#pragma once

#include <stdbool.h>

#include "ron/base/json.h"

struct con_prom_sample {
    struct ron_str name;
    struct ron_str labels; /* between the braces, as written; empty without */
    double value;
};

/* The next sample of `rest`, which moves on; false at the end. */
bool con_prom_next(struct ron_str *rest, struct con_prom_sample *ret_sample);
/* The value of a label, still escaped; false when it is not there. */
bool con_prom_label(struct ron_str labels, const char *name, struct ron_str *ret_value);
