/* SPDX-License-Identifier: Apache-2.0 */
/* ron_faulty.c - the services as `ron` runs them, but with tasks that can be made to fail from
 * outside, for system tests of what a supervisor does then.
 *
 *     RON_FAULTY_SITE=handle RON_FAULTY_DIR=/path ron_faulty rewarder --...
 *
 * A file /path/worker-0.N, N from 0 to 9, makes one allocation of the function RON_FAULTY_SITE fail
 * in the task worker-0, and is gone then; so a test says exactly how often, however fast the
 * machine is. Everything besides is the program itself: the hook is that of the fault sweeps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ron/base/ctx.h"
#include "ron/base/fault.h"
#include "ron_edge.h"
#include "ron_ledger.h"
#include "ron_rewarder.h"
#include "ron_wallet.h"

enum { FILES = 10 };

/* Constant once threads run. */
static const char *site = "";
static const char *dir = "";

static bool fails(enum ron_fault_kind kind, const char *where)
{
    const char *task = ron_ctx_current()->task;
    char path[1024];

    if (kind != RON_FAULT_ALLOC || task == NULL || strcmp(where, site) != 0) {
        return false;
    }
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof path, "%s/%s.%d", dir, task, i);
        if (unlink(path) == 0) {
            return true;
        }
    }
    return false;
}

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
        {"ledger", &led_app}, {"wallet", &wal_app}, {"rewarder", &rew_app}, {"edge", &edg_app}};

    site = need("RON_FAULTY_SITE");
    dir = need("RON_FAULTY_DIR");
    ron_fault_hook = fails;
    for (size_t i = 0; argc > 1 && i < RON_ARRAY_LEN(services); i++) {
        if (strcmp(argv[1], services[i].verb) == 0) {
            return ron_app_main(services[i].app, argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr, "usage: ron_faulty ledger|wallet|rewarder|edge [--key=value]...\n");
    return 2;
}
