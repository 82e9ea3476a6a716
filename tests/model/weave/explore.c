/* SPDX-License-Identifier: Apache-2.0 */
/* explore.c - many schedules: the loop, the child process around it, shrinking, and the text of
 * tapes.
 *
 * Place: top of weave; called by the runners and tests.
 *
 * A crash must leave its tape behind, so the child process writes tape and result into memory that
 * it shares with its parent, and a signal handler on a stack of its own adds the last words. The
 * parent stays clean and can run as many children as shrinking needs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "ron/base/assert.h"

enum {
    EXIT_FAILED = 3, /* unlike anything a library or sanitizer exits with */
    /* Objects on the heap may get new addresses in each schedule; when what is shared still changes
     * after so many beginnings, all points are explored instead. */
    RESTARTS_MAX = 200,
    /* A schedule without any point runs for ever unnoticed; far above any run time budget. */
    HANG_S = 900,
    SIGNAL_STACK_BYTES = 64 * 1024,
};

static uint64_t now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static bool over_budget(const struct weave_opts *opts, const struct weave_result *ret,
                        uint64_t start_ms)
{
    if (opts->schedules_max != 0 && ret->schedules >= opts->schedules_max) {
        return true;
    }
    /* Asking the clock costs as much as some steps. */
    return opts->budget_s != 0 && ret->schedules % 64 == 0 &&
           now_ms() - start_ms >= (uint64_t)opts->budget_s * 1000;
}

void weave_explore(weave_body *body, void *arg, const struct weave_opts *opts,
                   struct weave_result *ret)
{
    struct weave_opts own = *opts;
    uint64_t start_ms = now_ms();
    uint32_t restarts = 0;

    ret->failed = false;
    ret->exhaustive = false;
    ret->kind[0] = '\0';
    ret->message[0] = '\0';
    ret->schedules = 0;
    ret->steps = 0;
    ret->seen = 0;
    ret->depth_max = 0;
    if (own.mode == WEAVE_REPLAY || own.mode == WEAVE_SIMULATE) {
        own.all_points = true; /* There is nothing to leave out of a single schedule. */
    }
    strategy_start(&own, &ret->tape);
    reduce_start();
    for (;;) {
        bool good;

        ret->schedules++; /* Before the run, so that it is right when a crash ends it. */
        good = engine_run(body, arg, &own, ret);
        ret->depth_max = RON_MAX(ret->depth_max, strategy_depth());
        if (!good) {
            break;
        }
        if (over_budget(&own, ret, start_ms)) {
            break;
        }
        if (reduce_changed() && own.mode == WEAVE_DFS) {
            own.all_points = ++restarts > RESTARTS_MAX;
            ret->schedules = 0;
            strategy_restart();
            continue;
        }
        if (!strategy_next()) {
            ret->exhaustive = own.mode == WEAVE_DFS;
            break;
        }
    }
    ret->elapsed_ms = now_ms() - start_ms;
}

void weave_run_seeded(weave_body *body, void *arg, uint64_t seed, const struct weave_opts *opts,
                      struct weave_result *ret)
{
    struct weave_opts own = {0};

    if (opts != NULL) {
        own = *opts;
    }
    own.mode = WEAVE_SIMULATE;
    own.seed = seed;
    weave_explore(body, arg, &own, ret);
}

/* ---- child process --------------------------------------------------------------------------- */

static void on_signal(int number)
{
    engine_record_crash(number == SIGALRM ? "hang" : "crash", number);
    _exit(EXIT_FAILED);
}

static void catch_signals(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGALRM};
    static char stack[SIGNAL_STACK_BYTES];
    stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK; /* The fiber's own stack may be the problem. */
    (void)sigaltstack(&ss, NULL);
    for (size_t i = 0; i < RON_ARRAY_LEN(numbers); i++) {
        (void)sigaction(numbers[i], &action, NULL);
    }
    (void)alarm(HANG_S);
}

void weave_explore_isolated(weave_body *body, void *arg, const struct weave_opts *opts, bool quiet,
                            struct weave_result *ret)
{
    struct weave_result *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t start_ms = now_ms();
    int status = 0;
    pid_t pid;

    RON_ASSERT(shared != MAP_FAILED);
    (void)fflush(NULL); /* Else the child would print what is buffered here once more. */
    pid = fork();
    RON_ASSERT(pid >= 0);
    if (pid == 0) {
        if (quiet && freopen("/dev/null", "w", stderr) == NULL) {
            _exit(1);
        }
        catch_signals();
        engine_exit_on_failure(EXIT_FAILED);
        weave_explore(body, arg, opts, shared);
        (void)fflush(NULL);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) != pid) {
    }
    *ret = *shared;
    (void)munmap(shared, sizeof *shared);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != EXIT_FAILED)) {
        ret->failed = true;
        (void)snprintf(ret->kind, sizeof ret->kind, "crash");
        (void)snprintf(ret->message, sizeof ret->message, "the child process ended with status %d",
                       status);
    }
    ret->elapsed_ms = now_ms() - start_ms;
}

/* ---- shrinking ------------------------------------------------------------------------------- */

static uint32_t count_picks(struct weave_tape *tape)
{
    uint32_t n = 0;

    while (tape->len > 0 && tape->pick[tape->len - 1] == 0) {
        tape->len--;
    }
    for (uint32_t i = 0; i < tape->len; i++) {
        n += tape->pick[i] != 0;
    }
    return n;
}

uint32_t weave_shrink(weave_body *body, void *arg, const struct weave_opts *opts,
                      uint32_t tries_max, struct weave_result *ret)
{
    static struct weave_tape tape;
    static struct weave_result attempt;
    struct weave_opts replay = *opts;
    uint32_t tries = 0;

    RON_ASSERT(ret->failed);
    tape = ret->tape;
    replay.mode = WEAVE_REPLAY;
    replay.tape = &tape;
    replay.trace = false;
    (void)count_picks(&tape);
    /* From the end, because what comes last tends to be what is needed least. */
    for (uint32_t at = tape.len; at > 0 && tries < tries_max; at--) {
        uint8_t was = tape.pick[at - 1];

        if (was == 0) {
            continue;
        }
        tries++;
        tape.pick[at - 1] = 0;
        weave_explore_isolated(body, arg, &replay, true, &attempt);
        if (!attempt.failed || strcmp(attempt.kind, ret->kind) != 0) {
            tape.pick[at - 1] = was;
        }
    }
    ret->tape = tape;
    return count_picks(&ret->tape);
}

/* ---- text of a tape -------------------------------------------------------------------------- */

bool weave_tape_format(const struct weave_tape *tape, char *buf, size_t size)
{
    size_t used = 0;

    RON_ASSERT(size > 0);
    buf[0] = '\0';
    for (uint32_t i = 0; i < tape->len; i++) {
        int n;

        if (tape->pick[i] == 0) {
            continue;
        }
        n = snprintf(buf + used, size - used, "%s%x:%x", used == 0 ? "" : ",", i, tape->pick[i]);
        if (n < 0 || (size_t)n >= size - used) {
            return false;
        }
        used += (size_t)n;
    }
    return true;
}

bool weave_tape_parse(const char *text, struct weave_tape *ret_tape)
{
    static struct weave_tape tape;
    const char *p = text;

    memset(&tape, 0, sizeof tape);
    while (*p != '\0') {
        char *end = NULL;
        unsigned long at = strtoul(p, &end, 16);
        unsigned long pick;

        if (end == p || *end != ':' || at >= WEAVE_TAPE_MAX || at < tape.len) {
            return false;
        }
        p = end + 1;
        pick = strtoul(p, &end, 16);
        if (end == p || pick == 0 || pick > UINT8_MAX || (*end != ',' && *end != '\0') ||
            (*end == ',' && end[1] == '\0')) {
            return false;
        }
        tape.pick[at] = (uint8_t)pick;
        tape.len = (uint32_t)at + 1;
        p = *end == ',' ? end + 1 : end;
    }
    *ret_tape = tape;
    return true;
}
