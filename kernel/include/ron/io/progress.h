/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - how far long work is: a bar with rate and remaining time, on standard error, and
 * only when that is a terminal.
 *
 *     ron_progress_begin(&p, env, "import", "bytes");
 *     ron_progress_at(&p, done, total);               import [####....] 50% of 8.0 MB, ...
 *     ron_progress_phase(&p, "checking", "rows", 0);  the next part, counted and timed anew
 *     ron_progress_end(&p);                           takes the line away
 *
 * Threads: one at a time. Nothing here fails: what cannot be drawn is left out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ron_env;

enum { RON_PROGRESS_SIZE = 256 }; /* more than four names of 24, the bar and five numbers */

struct ron_progress {
    const struct ron_env *env;
    const char *what;  /* stands before the bar */
    const char *phase; /* behind it; NULL: the work has one part */
    const char *unit;  /* "entries"; "bytes" are shown as kB, MB, GB */
    bool on;           /* a terminal */
    bool shown;
    bool full;         /* the end of this phase was drawn */
    uint64_t begin_ns; /* of the phase */
    uint64_t from;     /* the count that the phase began with */
    uint64_t end_ns;   /* of work that ends at a time, set by its owner; 0: a count ends it */
    uint64_t drawn_ns;
};

/* The strings must live as long as `p`. */
void ron_progress_begin(struct ron_progress *p, const struct ron_env *env, const char *what,
                        const char *unit);
/* Nothing happens while the phase stays the same, so it may be called before each `at`. */
void ron_progress_phase(struct ron_progress *p, const char *phase, const char *unit, uint64_t from);
/* `total` 0: not known, or `end_ns` decides. Draws at most ten times a second, and the end. */
void ron_progress_at(struct ron_progress *p, uint64_t done, uint64_t total);
void ron_progress_end(struct ron_progress *p);
