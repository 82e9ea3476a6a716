/* SPDX-License-Identifier: Apache-2.0 */
/* scn_run.h - the part of scn.h that both runners share; included by each of them once. */
#pragma once

#include <string.h>

#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "scenario/scn.h"

static struct ron_thread *scn_threads[SCN_THREADS_MAX];
static uint32_t scn_thread_count;
static uint64_t scn_messages;
static uint32_t scn_rounds_done;

struct ron_thread *scn_spawn(const char *name, void (*fn)(void *), void *arg)
{
    struct ron_thread_opts opts = {.name = name, .may_block = true, .main = fn, .arg = arg};
    struct ron_thread *t = NULL;
    enum ron_rc rc;

    RON_ASSERT(scn_thread_count < SCN_THREADS_MAX);
    rc = ron_thread_start(&opts, &t, NULL);
    RON_ASSERT(rc == RON_OK);
    scn_threads[scn_thread_count++] = t;
    return t;
}

void scn_join(struct ron_thread *t)
{
    uint32_t i = 0;

    while (i < scn_thread_count && scn_threads[i] != t) {
        i++;
    }
    RON_ASSERT(i < scn_thread_count);
    scn_threads[i] = scn_threads[--scn_thread_count];
    ron_thread_join(t);
}

void scn_join_all(void)
{
    while (scn_thread_count > 0) {
        scn_join(scn_threads[scn_thread_count - 1]);
    }
}

uint32_t scn_round(void)
{
    return scn_rounds_done;
}

void scn_count(uint64_t messages)
{
    scn_messages += messages;
}

/* Before each run: an aborted one may have left its threads in the list. */
static void scn_begin(uint32_t round)
{
    scn_thread_count = 0;
    scn_rounds_done = round;
}

/* Whether the arguments name this scenario, or none. */
static bool scn_selected(const struct scn *scn, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], scn->name) == 0) {
            return true;
        }
    }
    return argc <= 1;
}
