/* SPDX-License-Identifier: Apache-2.0 */
/* cli/up/child.c - a service of `ron up` as a task: its process is the task's state.
 *
 * start begins the process, or waits for the ledger; handle fails when the process has ended, so
 * that the supervisor's rules for tasks decide what happens next; may_stop asks it to drain and
 * waits for its end; stop kills what is still there. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/up/up.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"

/* ---- what it says ---------------------------------------------------------------------------- */

static void whole_line(struct up_service *s, const char *text, size_t len)
{
    if (!s->was_ready) {
        up_tail_keep(s, text, len);
    }
    up_log_line(s->up, up_level_of(text, len), text, len);
}

static void take_text(struct up_service *s, const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t n = end != NULL ? (size_t)(end - text) : len;
        size_t room = sizeof s->line - s->line_len;

        memcpy(s->line + s->line_len, text,
               RON_MIN(n, room)); /* the rest of a longer line is cut */
        s->line_len += RON_MIN(n, room);
        if (end == NULL) {
            return;
        }
        whole_line(s, s->line, s->line_len);
        s->line_len = 0;
        text = end + 1;
        len -= n + 1;
    }
}

/* All that is there; false at the end of the stream. */
static bool read_output(struct up_service *s)
{
    char bytes[8192];
    size_t n = 0;
    enum ron_rc rc = RON_OK;

    /* So much that a child that never stops writing does not hold up the others. */
    for (int turn = 0; turn < 16 && rc == RON_OK; turn++) {
        rc = ron_child_read(&s->child, bytes, sizeof bytes, &n);
        if (rc == RON_OK) {
            take_text(s, bytes, n);
        }
    }
    return rc != RON_CLOSED;
}

static void out_ready(struct ron_io *io, uint32_t events)
{
    struct up_service *s = RON_CONTAINER_OF(io, struct up_service, out_io);

    (void)events;
    if (!read_output(s)) {
        ron_io_forget(io);
    }
}

static void end_ready(struct ron_io *io, uint32_t events)
{
    struct up_service *s = RON_CONTAINER_OF(io, struct up_service, end_io);

    (void)events;
    if (ron_child_reap(&s->child, false, &s->end)) {
        ron_io_forget(io);
        (void)read_output(s); /* its last words */
        s->ended = true;
        ron_task_wake(s->task);
    }
}

/* ---- its life -------------------------------------------------------------------------------- */

static enum ron_rc begin(struct up_service *s)
{
    struct ron_err err = {0};
    enum ron_rc rc;

    s->ended = false;
    s->told_to_stop = false;
    s->line_len = 0;
    rc = ron_child_start(s->argv.args, s->up->data, &s->child, &err);
    if (rc == RON_OK) {
        s->out_io = (struct ron_io){.fd = s->child.out_fd, .ready = out_ready};
        s->end_io = (struct ron_io){.fd = s->child.pid_fd, .ready = end_ready};
        rc = ron_io_watch(s->task, &s->out_io, RON_IO_READ);
        if (rc == RON_OK) {
            rc = ron_io_watch(s->task, &s->end_io, RON_IO_READ);
        }
    }
    if (rc != RON_OK) {
        up_say(s->up, UP_ERROR, "cannot start %s: %s", s->row->name, err.msg);
        ron_task_set_error(s->task, &err);
        return rc;
    }
    s->starts++;
    s->state = UP_STATE_STARTING;
    s->cause[0] = '\0';
    up_watch_changed(s->up);
    return RON_OK;
}

static bool must_wait(const struct up_service *s)
{
    const struct up *up = s->up;

    if (s == &up->services[UP_CONSOLE]) {
        return up->services[UP_LEDGER].on && !up->progress.verifier_told;
    }
    return s->row->after_ledger && !up->progress.ledger_known;
}

static enum ron_rc child_start(struct ron_task *t, void *arg)
{
    struct up_service *s = RON_OBJ(arg, struct up_service, UP_SERVICE_MAGIC);

    s->task = t;
    if (must_wait(s)) {
        s->state = UP_STATE_WAITING;
        return RON_OK;
    }
    return begin(s);
}

/* The words for how it ended. */
static void describe_end(const struct up_service *s, char *text, size_t size)
{
    if (s->end.signal != 0) {
        const char *name = sigdescr_np(s->end.signal);

        (void)snprintf(text, size, "was killed by signal %d (%s)", s->end.signal,
                       name != NULL ? name : "unknown");
    } else {
        (void)snprintf(text, size, "exited with status %d", s->end.code);
    }
}

/* A service that never came up does not come up by trying again: say why, and stop. */
static void never_came_up(struct up_service *s, const char *how)
{
    struct ron_buf text;

    if (s->up->failed) {
        return;
    }
    ron_buf_init(&text, UP_TAIL_MAX * (UP_LINE_MAX + 8) + 1024);
    for (size_t i = 0; i < s->tail_count; i++) {
        ron_buf_append_fmt(&text, "  | %s\n", s->tail[i]);
    }
    fprintf(stderr, "ron up: %s did not start: it %s; last output:\n%s", s->row->name, how,
            ron_buf_text(&text));
    ron_buf_done(&text);
    up_fail(s->up);
}

static enum ron_rc child_handle(struct ron_task *t, void *arg, void **items, size_t count)
{
    struct up_service *s = RON_OBJ(arg, struct up_service, UP_SERVICE_MAGIC);
    char how[96];

    (void)items;
    (void)count;
    if (s->state == UP_STATE_WAITING && !must_wait(s) && !ron_task_stopping(t)) {
        return begin(s);
    }
    if (!s->ended || ron_task_stopping(t)) {
        return RON_OK;
    }
    describe_end(s, how, sizeof how);
    s->state = UP_STATE_DOWN;
    (void)snprintf(s->cause, sizeof s->cause, "%s", how);
    up_say(s->up, UP_ERROR, "%s %s", s->row->name, how);
    up_watch_changed(s->up);
    if (!s->was_ready) {
        never_came_up(s, how);
    }
    ron_task_set_error(t, &(struct ron_err){.rc = RON_CLOSED, .where = __func__, .msg = ""});
    return RON_CLOSED;
}

static bool child_may_stop(struct ron_task *t, void *arg)
{
    struct up_service *s = RON_OBJ(arg, struct up_service, UP_SERVICE_MAGIC);

    (void)t;
    if (s->child.pid == 0) {
        if (s->told_to_stop && s->end.code != 0) {
            char how[96];

            describe_end(s, how, sizeof how);
            up_say(s->up, UP_WARN, "%s %s", s->row->name, how);
        }
        return true;
    }
    if (!s->told_to_stop) {
        s->told_to_stop = true;
        ron_child_signal(&s->child, SIGTERM);
    }
    return false;
}

static void child_stop(struct ron_task *t, void *arg)
{
    struct up_service *s = RON_OBJ(arg, struct up_service, UP_SERVICE_MAGIC);

    (void)t;
    if (s->child.out_fd >= 0) {
        ron_io_forget(&s->out_io);
        ron_io_forget(&s->end_io);
        ron_child_done(&s->child);
    }
    if (s->state != UP_STATE_DOWN) {
        s->state = UP_STATE_OFF;
    }
}

void up_child_go(struct up *up)
{
    for (int i = 0; i < UP_SERVICE_COUNT; i++) {
        if (up->services[i].on && up->services[i].state == UP_STATE_WAITING) {
            ron_task_wake(up->services[i].task);
        }
    }
}

enum ron_rc up_child_add(struct up *up, struct up_service *s, struct ron_err *err)
{
    return ron_sup_add(
        up->sup,
        &(struct ron_task_def){
            .name = s->row->name,
            .kind = "service",
            .mode = RON_TASK_LOOP,
            .worker = 0,
            .stage = s->row->stage,
            .restart = {.when = RON_RESTART_ON_FAILURE, .essential = s->row == &up_rows[UP_LEDGER]},
            .start = child_start,
            .handle = child_handle,
            .may_stop = child_may_stop,
            .stop = child_stop,
            .arg = s},
        &s->task, err);
}
