/* SPDX-License-Identifier: Apache-2.0 */
/* run_threads.c - runs the scenarios of one file on real threads.
 *
 *   program [NAME...]     all scenarios of the file, or the named ones
 *   RON_SOAK=1            ten times as many rounds
 *
 * The explorer (tests/model) shows that every order of operations is good, for a handful of
 * messages and a machine where each operation is seen by all at once. This runner adds what it
 * leaves out: a million messages, the real mutexes, futexes and atomics, and in the tsan build a
 * proof for the executed schedules that every access was ordered.
 *
 * A hang is reported with the scenario's name instead of being left to the timeout of the test.
 * Exit code: 0 all passed, 1 otherwise, 2 for a mistake in the arguments. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scenario/scn_run.h"

enum {
    HANG_S =
        110, /* below the timeout of a test; a scenario takes some seconds, with sanitizer too */
    SOAK_FACTOR = 10,
};

static const char *running = "?";

bool scn_is_model(void)
{
    return false;
}

void scn_calm(bool calm)
{
    (void)calm; /* Threads cannot be calmed. */
}

void scn_saw(uint32_t mark)
{
    (void)mark; /* What happens here is chance. */
}

void scn_fail(const char *expr, const char *file, int line)
{
    (void)fprintf(stderr, "stress %s: FAILED: %s (%s:%d)\n", running, expr, file, line);
    abort();
}

static void on_alarm(int number)
{
    static const char text[] = ": no end, probably a lost wake-up\n";

    (void)number;
    /* Nothing can be done about a failed write here. */
    RON_IGNORE(write(STDERR_FILENO, running, strlen(running)));
    RON_IGNORE(write(STDERR_FILENO, text, sizeof text - 1));
    _exit(1);
}

static bool run(const struct scn *scn)
{
    bool soak = getenv("RON_SOAK") != NULL && strcmp(getenv("RON_SOAK"), "0") != 0;
    uint32_t rounds = (scn->stress_rounds != 0 ? scn->stress_rounds : 1) * (soak ? SOAK_FACTOR : 1);
    uint64_t start_ns = ron_mono_ns();
    uint64_t ms;

    running = scn->name;
    scn_messages = 0;
    (void)alarm(soak ? HANG_S * SOAK_FACTOR : HANG_S);
    for (uint32_t i = 0; i < rounds; i++) {
        scn_begin(i);
        scn->body();
    }
    (void)alarm(0);
    ms = (ron_mono_ns() - start_ns) / RON_NS_PER_MS;
    (void)printf("stress %s: %u rounds, %llu messages, %llu.%02llu s\n", scn->name, rounds,
                 (unsigned long long)scn_messages, (unsigned long long)(ms / 1000),
                 (unsigned long long)(ms % 1000 / 10));
    (void)fflush(stdout);
    if (scn_messages < scn->stress_messages) {
        (void)printf("stress %s: FAILED: fewer than %llu messages\n", scn->name,
                     (unsigned long long)scn->stress_messages);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    bool good = true;
    uint32_t count = 0;

    (void)signal(SIGALRM, on_alarm);
    for (const struct scn *scn = scn_list; scn->name != NULL; scn++) {
        if (!scn_selected(scn, argc, argv)) {
            continue;
        }
        count++;
        good = run(scn) && good;
    }
    if (count == 0) {
        (void)fprintf(stderr, "no such scenario in this program\n");
        return 2;
    }
    return good ? 0 : 1;
}
