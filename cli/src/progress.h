/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - how far long work is: a bar with rate and remaining time, on standard error, and
 * only when that is a terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cli_progress {
    const char *what; /* stands before the bar */
    const char *unit; /* "entries" */
    bool on;          /* a terminal */
    bool shown;
    uint64_t begin_ns;
    uint64_t drawn_ns;
};

void cli_progress_begin(struct cli_progress *p, const char *what, const char *unit);
/* `total` 0: not known. Draws at most ten times a second. */
void cli_progress_at(struct cli_progress *p, uint64_t done, uint64_t total);
/* Work that ends at a time, which must lie behind the begin. */
void cli_progress_until(struct cli_progress *p, uint64_t done, uint64_t end_ns);
/* Takes the line away. */
void cli_progress_end(struct cli_progress *p);
