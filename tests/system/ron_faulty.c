/* SPDX-License-Identifier: Apache-2.0 */
/* ron_faulty.c - the services as `ron` runs them, but with tasks that can be made to fail from
 * outside, for system tests of what a supervisor does then.
 *
 *     RON_FAULTY_SITE=handle RON_FAULTY_DIR=/path ron_faulty rewarder --...
 *
 * A file /path/worker-0.N, N from 0 to 9, makes one allocation of the function RON_FAULTY_SITE fail
 * in the task worker-0, and is gone then; so a test says exactly how often, however fast the
 * machine is. Everything besides is the program itself: the hook is that of the fault sweeps.
 *
 * RON_FAULTY_SITE=turn is for tasks that no failure of an allocation can end: the task fails after
 * a turn in which it took something from its queue. For that the linker leads ron_sup_add here
 * (--wrap), and every task gets a handler that calls its own one first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "edge/edge.h"
#include "interop/interop.h"
#include "ledger/ledger.h"
#include "rewarder/rewarder.h"
#include "ron/base/ctx.h"
#include "ron/base/fault.h"
#include "ron/task/supervisor.h"
#include "wallet/wallet.h"

enum { FILES = 10, TASKS_MAX = 64 };

/* Constant once threads run. */
static const char *site = "";
static const char *dir = "";

/* Whether a file says that this task is to fail; the file is gone then. */
static bool doomed(const char *task)
{
    char path[1024];

    for (int i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof path, "%s/%s.%d", dir, task, i);
        if (unlink(path) == 0) {
            return true;
        }
    }
    return false;
}

static bool fails(enum ron_fault_kind kind, const char *where)
{
    const char *task = ron_ctx_current()->task;

    return kind == RON_FAULT_ALLOC && task != NULL && strcmp(where, site) == 0 && doomed(task);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* The tasks' own handlers, by name. Filled before the tasks start. */
static struct {
    const char *name;
    enum ron_rc (*handle)(struct ron_task *t, void *arg, void **items, size_t count);
} handlers[TASKS_MAX];
static size_t handler_count;

static enum ron_rc one_turn(struct ron_task *t, void *arg, void **items, size_t count)
{
    const char *task = ron_ctx_current()->task;
    enum ron_rc rc = RON_INTERNAL;

    for (size_t i = 0; i < handler_count; i++) {
        if (strcmp(handlers[i].name, task) == 0) {
            rc = handlers[i].handle(t, arg, items, count);
            break;
        }
    }
    return rc == RON_OK && count > 0 && doomed(task) ? RON_NOMEM : rc;
}

/* The linker's names for what is called as ron_sup_add, and for the true one. */
enum ron_rc __real_ron_sup_add(struct ron_sup *sup, const struct ron_task_def *def, /* NOLINT */
                               struct ron_task **ret_task, struct ron_err *err);
enum ron_rc __wrap_ron_sup_add(struct ron_sup *sup, const struct ron_task_def *def, /* NOLINT */
                               struct ron_task **ret_task, struct ron_err *err);

enum ron_rc __wrap_ron_sup_add(struct ron_sup *sup, const struct ron_task_def *def, /* NOLINT */
                               struct ron_task **ret_task, struct ron_err *err)
{
    struct ron_task_def changed = *def;

    if (strcmp(site, "turn") != 0 || def->handle == NULL) {
        return __real_ron_sup_add(sup, def, ret_task, err);
    }
    if (handler_count == TASKS_MAX) {
        return ron_err_set(err, RON_LIMIT, "ron_faulty knows %d tasks", TASKS_MAX);
    }
    handlers[handler_count].name = def->name;
    handlers[handler_count++].handle = def->handle;
    changed.handle = one_turn;
    return __real_ron_sup_add(sup, &changed, ret_task, err);
}

/* ---- life ------------------------------------------------------------------------------------ */

static const char *need(const char *name)
{
    const char *value = getenv(name);

    if (value == NULL) {
        (void)fprintf(stderr, "ron_faulty: %s is not set\n", name);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *verb;
        const struct ron_app_def *app;
    } services[] = {
        {"ledger", &led_app}, {"wallet", &wlt_app},  {"rewarder", &rwd_app},
        {"edge", &edg_app},   {"interop", &iop_app},
    };

    site = need("RON_FAULTY_SITE");
    dir = need("RON_FAULTY_DIR");
    ron_fault_hook = fails;
    for (size_t i = 0; argc > 1 && i < RON_ARRAY_LEN(services); i++) {
        if (strcmp(argv[1], services[i].verb) == 0) {
            return ron_app_main(services[i].app, argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr,
                  "usage: ron_faulty ledger|wallet|rewarder|edge|interop [--key=value]...\n");
    return 2;
}
