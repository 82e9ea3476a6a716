/* SPDX-License-Identifier: Apache-2.0 */
/* signals_posix.c - the thread that takes signals.
 *
 * A thread of its own, because a second SIGTERM must work when every worker and the supervisor are
 * stuck. It is ended by a private real-time signal sent to it alone. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/task/signals.h"

struct ron_signals {
    struct ron_sup *sup;
    void (*on_hangup)(void *arg);
    void *arg;
    struct ron_thread *thread;
};

static int end_signal(void)
{
    return SIGRTMIN + 3; /* The first ones are used by some tools. */
}

static void watched(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    sigaddset(set, end_signal());
}

void ron_signals_block(void)
{
    sigset_t set;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int rc;

    watched(&set);
    rc = ron_thread_block_signals(&set);
    RON_ASSERT(rc == 0);
    rc = sigaction(SIGPIPE, &ignore, NULL);
    RON_ASSERT(rc == 0);
}

static void signals_main(void *arg)
{
    struct ron_signals *s = arg;
    bool stopping = false;
    sigset_t set;

    watched(&set);
    for (;;) {
        int signo = sigwaitinfo(&set, NULL);

        if (signo == end_signal()) {
            return;
        }
        if (signo == SIGINT || signo == SIGTERM) {
            if (stopping) {
                static const char text[] = "ron: second signal, exiting at once\n";
                (void)!write(STDERR_FILENO, text, sizeof text - 1);
                _exit(128 + signo);
            }
            stopping = true;
            ron_sup_request_stop(s->sup);
        } else if (signo == SIGHUP && s->on_hangup != NULL) {
            s->on_hangup(s->arg);
        }
    }
}

enum ron_rc ron_signals_start(struct ron_sup *sup, void (*on_hangup)(void *arg), void *arg,
                              struct ron_signals **ret_signals, struct ron_err *err)
{
    struct ron_signals *s = ron_alloc_zero(sizeof *s);
    enum ron_rc rc;

    if (s == NULL) {
        return ron_err_set(err, RON_NOMEM, "signals: no memory");
    }
    s->sup = sup;
    s->on_hangup = on_hangup;
    s->arg = arg;
    rc = ron_thread_start(
        &(struct ron_thread_opts){
            .name = "signals", .may_block = true, .main = signals_main, .arg = s},
        &s->thread, err);
    if (rc != RON_OK) {
        ron_free(s);
        return rc;
    }
    *ret_signals = s;
    return RON_OK;
}

void ron_signals_stop(struct ron_signals *s)
{
    if (s == NULL) {
        return;
    }
    ron_thread_signal(s->thread, end_signal());
    ron_thread_join(s->thread);
    ron_free(s);
}
