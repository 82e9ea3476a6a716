/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - what a reader of a failing schedule gets to see: steps, who waits for what, a crash.
 *
 * Place: called by engine.c; keeps nothing but the numbers given to objects without a name. */
#include <stdio.h>
#include <string.h>

#include "engine.h"

enum { LABELS_MAX = 256 };

static const void *labels[LABELS_MAX];
static uint32_t label_count;

void report_begin(void)
{
    label_count = 0;
}

/* Numbers objects in the order of their first appearance: the same in every replay, unlike
 * addresses. */
static uint32_t label_of(const void *obj)
{
    uint32_t i = 0;

    while (i < label_count && labels[i] != obj) {
        i++;
    }
    if (i == label_count && i < LABELS_MAX) {
        labels[label_count++] = obj;
    }
    return i;
}

void report_step(const struct weave_fiber *f, uint64_t step, const char *what, const void *obj,
                 const char *name)
{
    (void)fprintf(stderr, "  %5llu %4x  %-12s %s", (unsigned long long)step, strategy_depth(),
                  f->name, what);
    if (name != NULL) {
        (void)fprintf(stderr, " %s", name);
    } else if (obj != NULL) {
        (void)fprintf(stderr, " #%u", label_of(obj));
    }
    (void)fputc('\n', stderr);
}

void report_waiting(const struct weave_fiber *fibers, uint32_t count, char *text, size_t size)
{
    size_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && n < size; i++) {
        const struct weave_fiber *f = &fibers[i];
        int len = 0;

        if (f->state == WEAVE_WAITING) {
            len = snprintf(text + n, size - n, "%s%s waits for %s", n == 0 ? "" : ", ", f->name,
                           f->wait_what);
        } else if (f->state == WEAVE_READY) {
            len = snprintf(text + n, size - n, "%s%s wants lock %s", n == 0 ? "" : ", ", f->name,
                           f->gate_name);
        }
        n += len > 0 ? (size_t)len : 0;
    }
}

void report_crash(struct weave_result *ret, const char *kind, int signal_number, const char *name)
{
    /* No stdio here: the crash may have happened inside it. */
    static const char text[] = "signal ?? in fiber ";
    size_t n = sizeof text - 1;
    size_t name_len = strnlen(name, WEAVE_NAME_SIZE);

    memcpy(ret->message, text, n);
    ret->message[7] = (char)('0' + signal_number / 10 % 10);
    ret->message[8] = (char)('0' + signal_number % 10);
    memcpy(ret->message + n, name, name_len);
    ret->message[n + name_len] = '\0';
    memcpy(ret->kind, kind, strnlen(kind, sizeof ret->kind - 1) + 1);
    ret->failed = true;
}
