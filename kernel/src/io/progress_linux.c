/* SPDX-License-Identifier: Apache-2.0 */
/* progress_linux.c - the contract is in progress.h. */
#include "ron/io/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/io_priv.h"
#include "ron/base/env.h"
#include "ron/base/macros.h"

enum {
    BAR = 24,
    NAME_MAX_SHOWN = 24, /* a longer line would wrap, and a wrapped line cannot be taken away */
    DRAW_MS = 100,
    AMOUNT_SIZE = 64,
};

void ron_progress_begin(struct ron_progress *p, const struct ron_env *env, const char *what,
                        const char *unit)
{
    *p = (struct ron_progress){.env = env,
                               .what = what,
                               .unit = unit,
                               .on = isatty(STDERR_FILENO) == 1,
                               .begin_ns = ron_env_now_ns(env)};
}

void ron_progress_phase(struct ron_progress *p, const char *phase, const char *unit, uint64_t from)
{
    if (p->phase != NULL && strcmp(p->phase, phase) == 0) {
        return;
    }
    p->phase = phase;
    p->unit = unit;
    p->from = from;
    p->full = false;
    p->begin_ns = ron_env_now_ns(p->env);
    p->drawn_ns = 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* "300 rows", or "1.5 MB"; a rate leaves the unit away. */
static void amount(const struct ron_progress *p, uint64_t n, bool rate, char ret[AMOUNT_SIZE])
{
    static const char *const sizes[] = {"kB", "MB", "GB", "TB"};
    uint64_t one = 1000;
    size_t i = 0;

    if (strcmp(p->unit, "bytes") != 0) {
        (void)snprintf(ret, AMOUNT_SIZE, "%" PRIu64 "%s%.*s", n, rate ? "" : " ", NAME_MAX_SHOWN,
                       rate ? "" : p->unit);
        return;
    }
    while (i + 1 < RON_ARRAY_LEN(sizes) && n >= one * 1000) {
        one *= 1000;
        i++;
    }
    (void)snprintf(ret, AMOUNT_SIZE, "%" PRIu64 ".%u %s", n / one, (unsigned)(n % one * 10 / one),
                   sizes[i]);
}

static uint64_t rate_of(const struct ron_progress *p, uint64_t done, uint64_t now_ns)
{
    uint64_t took_ms = (now_ns - p->begin_ns) / RON_NS_PER_MS;

    return took_ms == 0 || done < p->from ? 0 : (done - p->from) * RON_MS_PER_S / took_ms;
}

/* `at` of `total` is done, in the unit or in milliseconds. */
static size_t bar(const struct ron_progress *p, uint64_t at, uint64_t total, char *to, size_t size)
{
    static const char full[] = "########################";
    static const char rest[] = "........................";
    int filled = (int)(at * BAR / total);
    char whole[AMOUNT_SIZE];
    int len;

    _Static_assert(sizeof full == BAR + 1 && sizeof rest == BAR + 1, "as long as the bar");
    amount(p, total, false, whole);
    len = snprintf(to, size, " [%.*s%.*s] %3u%%%s%s", filled, full, BAR - filled, rest,
                   (unsigned)(at * 100 / total), p->end_ns == 0 ? " of " : "",
                   p->end_ns == 0 ? whole : "");
    return (size_t)len;
}

void ron_progress_text(const struct ron_progress *p, uint64_t done, uint64_t total, uint64_t now_ns,
                       char ret_text[RON_PROGRESS_SIZE])
{
    uint64_t rate = rate_of(p, done, now_ns);
    bool timed = p->end_ns > p->begin_ns;
    uint64_t whole = timed ? (p->end_ns - p->begin_ns) / RON_NS_PER_MS : total;
    uint64_t at = RON_MIN(timed ? (now_ns - p->begin_ns) / RON_NS_PER_MS : done, whole);
    uint64_t pace = timed ? RON_MS_PER_S : rate; /* of `at`, in a second */
    char word[AMOUNT_SIZE];
    size_t len;

    len = (size_t)snprintf(ret_text, RON_PROGRESS_SIZE, "%.*s%s%.*s", NAME_MAX_SHOWN, p->what,
                           p->phase != NULL ? ": " : "", NAME_MAX_SHOWN,
                           p->phase != NULL ? p->phase : "");
    if (whole > 0) {
        len += bar(p, at, whole, ret_text + len, RON_PROGRESS_SIZE - len);
    } else {
        amount(p, done, false, word);
        len += (size_t)snprintf(ret_text + len, RON_PROGRESS_SIZE - len, " %s", word);
    }
    amount(p, rate, true, word);
    len += (size_t)snprintf(ret_text + len, RON_PROGRESS_SIZE - len, ", %s%s%.*s/s", word,
                            timed ? " " : "", NAME_MAX_SHOWN, timed ? p->unit : "");
    if (whole > 0 && (pace > 0 || at == whole)) {
        uint64_t left_s = at == whole ? 0 : (whole - at) / pace;

        (void)snprintf(ret_text + len, RON_PROGRESS_SIZE - len, ", %" PRIu64 ":%02u left",
                       left_s / 60, (unsigned)(left_s % 60));
    }
}

/* ---- terminal -------------------------------------------------------------------------------- */

/* Whether it is time to draw: now and then, and once for the end, so that a bar ends full. */
static bool due(struct ron_progress *p, bool ends, uint64_t now_ns)
{
    bool last = ends && !p->full;

    p->full = ends;
    if (!last && p->drawn_ns != 0 && now_ns - p->drawn_ns < (uint64_t)DRAW_MS * RON_NS_PER_MS) {
        return false;
    }
    p->shown = true;
    p->drawn_ns = now_ns;
    return true;
}

void ron_progress_at(struct ron_progress *p, uint64_t done, uint64_t total)
{
    char text[RON_PROGRESS_SIZE];
    uint64_t now_ns;

    if (!p->on) {
        return;
    }
    now_ns = ron_env_now_ns(p->env);
    if (due(p, total > 0 && done >= total, now_ns)) {
        ron_progress_text(p, done, total, now_ns, text);
        fprintf(stderr, "\r\033[K%s", text);
        (void)fflush(stderr);
    }
}

void ron_progress_end(struct ron_progress *p)
{
    if (p->shown) {
        fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
        p->shown = false;
    }
}
