/* SPDX-License-Identifier: Apache-2.0 */
/* assert.c - the report of a failed assertion.
 *
 * Place: base. Runs when the program is known to be wrong, so it trusts as little as possible.
 * Invariants:
 *   I1. The report is built in one array on the stack and leaves with one write, so that reports of
 *       several threads do not mix.
 *   I2. No heap, no lock, no stdio stream. Formatting of the caller's own sentence goes through
 *       vsnprintf into an array; everything else is copied by hand.
 *   I3. Every text is cut to a stated length, so a report always has room for its last line.
 *   I4. It ends in a trap at this place, never in a return.
 */
#include "ron/base/assert.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "ron/base/build.h"
#include "ron/base/ctx.h"

/* 32 events of at most 116 bytes and a head of at most 1500 bytes fit. */
#define REPORT_SIZE 6144
#define TEXT_MAX 256
#define EVENT_TEXT_MAX 64

struct report {
    size_t len;
    char text[REPORT_SIZE];
};

static void put(struct report *report, const char *text, size_t len_max)
{
    const char *from = text != NULL ? text : "(null)";

    for (size_t i = 0; i < len_max && from[i] != '\0' && report->len < REPORT_SIZE; i++) {
        report->text[report->len++] = from[i];
    }
}

static void put_u64(struct report *report, uint64_t value)
{
    char digits[21]; /* 2^64 - 1 has 20 digits */
    size_t at = sizeof(digits) - 1;

    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    put(report, &digits[at], sizeof(digits));
}

static void put_events(struct report *report, const struct ron_ctx *ctx)
{
    uint64_t kept = RON_MIN(ctx->event_count, (uint64_t)RON_CTX_EVENTS);

    put(report, "  last events, newest last (", TEXT_MAX);
    put_u64(report, kept);
    put(report, " of ", TEXT_MAX);
    put_u64(report, ctx->event_count);
    put(report, "):\n", TEXT_MAX);
    for (uint64_t i = ctx->event_count - kept; i < ctx->event_count; i++) {
        const struct ron_ctx_event *event = &ctx->events[i % RON_CTX_EVENTS];

        put(report, "    ", TEXT_MAX);
        put(report, event->what, EVENT_TEXT_MAX);
        put(report, " a=", TEXT_MAX);
        put_u64(report, event->a);
        put(report, " b=", TEXT_MAX);
        put_u64(report, event->b);
        put(report, "\n", 1);
    }
}

/* why may be NULL. */
__attribute__((noreturn, cold)) static void fail(const char *expr, const char *file, int line,
                                                 const char *func, const char *why)
{
    struct report report;
    const struct ron_ctx *ctx = ron_ctx_current();

    report.len = 0;
    put(&report, "ron: assertion failed: ", TEXT_MAX);
    put(&report, expr, TEXT_MAX);
    put(&report, "\n  at ", TEXT_MAX);
    put(&report, file, TEXT_MAX);
    put(&report, ":", 1);
    put_u64(&report, (uint64_t)line);
    put(&report, " in ", TEXT_MAX);
    put(&report, func, TEXT_MAX);
    if (why != NULL) {
        put(&report, "\n  why: ", TEXT_MAX);
        put(&report, why, TEXT_MAX);
    }
    put(&report, "\n  thread ", TEXT_MAX);
    put(&report, ctx->thread[0] != '\0' ? ctx->thread : "-", RON_CTX_THREAD_SIZE);
    put(&report, ", task ", TEXT_MAX);
    put(&report, ctx->task != NULL ? ctx->task : "-", EVENT_TEXT_MAX);
    put(&report, ", version ", TEXT_MAX);
    put(&report, ron_version(), EVENT_TEXT_MAX);
    put(&report, ", build ", TEXT_MAX);
    put(&report, ron_build_id(), EVENT_TEXT_MAX);
    put(&report, "\n", 1);
    put_events(&report, ctx);

    /* Nothing sensible is left to do when even this fails. */
    ssize_t written = write(STDERR_FILENO, report.text, report.len);
    (void)written;
    __builtin_trap();
}

void ron_assert_fail(const char *expr, const char *file, int line, const char *func)
{
    fail(expr, file, line, func, NULL);
}

void ron_assert_fail_msg(const char *expr, const char *file, int line, const char *func,
                         const char *fmt, ...)
{
    char why[TEXT_MAX] = "";
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    fail(expr, file, line, func, why);
}
