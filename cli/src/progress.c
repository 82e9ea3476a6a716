/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - the contract is in progress.h. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "ron/base/env.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"

enum { BAR = 24, DRAW_MS = 100 };

void cli_progress_begin(struct cli_progress *p, const char *what, const char *unit)
{
    *p = (struct cli_progress){.what = what,
                               .unit = unit,
                               .on = isatty(STDERR_FILENO) == 1,
                               .begin_ns = ron_env_now_ns(ron_env_linux())};
}

/* Whether it is time to draw. */
static bool due(struct cli_progress *p, uint64_t now_ns)
{
    if (!p->on || (p->shown && now_ns - p->drawn_ns < (uint64_t)DRAW_MS * RON_NS_PER_MS)) {
        return false;
    }
    p->shown = true;
    p->drawn_ns = now_ns;
    return true;
}

static uint64_t rate_of(const struct cli_progress *p, uint64_t done, uint64_t now_ns)
{
    uint64_t took_ms = (now_ns - p->begin_ns) / RON_NS_PER_MS;

    return took_ms == 0 ? 0 : done * RON_MS_PER_S / took_ms;
}

/* `at` of `total` is done; UINT64_MAX seconds left are not known. */
static void draw(const struct cli_progress *p, uint64_t at, uint64_t total, uint64_t rate,
                 uint64_t left_s)
{
    static const char full[] = "########################";
    static const char rest[] = "........................";
    int filled = (int)(at * BAR / total);

    _Static_assert(sizeof full == BAR + 1 && sizeof rest == BAR + 1, "as long as the bar");
    fprintf(stderr, "\r\033[K%s [%.*s%.*s] %3u%%, %" PRIu64 " %s/s", p->what, filled, full,
            BAR - filled, rest, (unsigned)(at * 100 / total), rate, p->unit);
    if (left_s != UINT64_MAX) {
        fprintf(stderr, ", %" PRIu64 ":%02u left", left_s / 60, (unsigned)(left_s % 60));
    }
    (void)fflush(stderr);
}

void cli_progress_at(struct cli_progress *p, uint64_t done, uint64_t total)
{
    uint64_t now_ns = ron_env_now_ns(ron_env_linux());
    uint64_t rate = rate_of(p, done, now_ns);
    uint64_t at = RON_MIN(done, total);

    if (!due(p, now_ns)) {
        return;
    }
    if (total == 0) {
        fprintf(stderr, "\r\033[K%s %" PRIu64 " %s, %" PRIu64 "/s", p->what, done, p->unit, rate);
        (void)fflush(stderr);
    } else {
        draw(p, at, total, rate, rate > 0 ? (total - at) / rate : UINT64_MAX);
    }
}

void cli_progress_until(struct cli_progress *p, uint64_t done, uint64_t end_ns)
{
    uint64_t now_ns = ron_env_now_ns(ron_env_linux());
    uint64_t total_ms = (end_ns - p->begin_ns) / RON_NS_PER_MS;
    uint64_t at_ms = RON_MIN((now_ns - p->begin_ns) / RON_NS_PER_MS, total_ms);

    if (total_ms > 0 && due(p, now_ns)) {
        draw(p, at_ms, total_ms, rate_of(p, done, now_ns), (total_ms - at_ms) / RON_MS_PER_S);
    }
}

void cli_progress_end(struct cli_progress *p)
{
    if (p->shown) {
        fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
    }
}
