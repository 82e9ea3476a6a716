/* SPDX-License-Identifier: Apache-2.0 */
/* run_weave.c - runs the scenarios of one file under the schedule explorer.
 *
 *   program [NAME...]            all scenarios of the file, or the named ones
 *   RON_TAPE=NAME/TAPE program   replays one schedule of scenario NAME and prints every step
 *   RON_WEAVE_BOUND=N            preemption bound, default 2
 *   RON_WEAVE_BUDGET_S=S         give up on a scenario after S seconds, default 100
 *   RON_WEAVE_UNLOCK=1           points after unlocks from the start (weave/README.md says why)
 *   RON_WEAVE_FULL=1             without reduction (reduce.c): slower, the same findings
 *   RON_SOAK=1                   bound 3 with unlocks, then random schedules from RON_SEED, each
 *                                until the budget ends
 *
 * A scenario passes when every schedule within the bound was run and none failed. One that the
 * budget cuts short fails too, unless a bound above the default was asked for: then what was
 * explored is reported.
 *
 * Exit code: 0 all passed, 1 otherwise, 2 for a mistake in the arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/weave/weave.h"
#include "scenario/scn_run.h"

enum {
    BOUND_DEFAULT = 2, /* most concurrency bugs show with two preemptions or fewer */
    /* Below the timeout of a test, far above the few seconds a scenario takes. */
    BUDGET_DEFAULT_S = 100,
    /* Quick scenarios are explored further: with a point after each unlock too, which costs about
     * three times as much, and without any bound for a short while. */
    UNLOCKS_IF_BELOW_MS = 2000,
    UNBOUNDED_IF_BELOW_MS = 200,
    UNBOUNDED_BUDGET_S = 1,
    SHRINK_TRIES_MAX = 300,
    TAPE_TEXT_MAX = 1 << 16,
};

static struct weave_result result;
static struct weave_tape tape;
static char tape_text[TAPE_TEXT_MAX];

bool scn_is_model(void)
{
    return true;
}

void scn_calm(bool calm)
{
    weave_calm(calm);
}

void scn_saw(uint32_t mark)
{
    weave_saw(mark);
}

void scn_fail(const char *expr, const char *file, int line)
{
    const char *base = strrchr(file, '/');

    weave_fail("check", "%s (%s:%d)", expr, base != NULL ? base + 1 : file, line);
}

/* The body's argument is a plain pointer; it goes through an integer because it stays constant. */
static void *scn_arg(const struct scn *scn)
{
    return (void *)(uintptr_t)scn;
}

static void run_body(void *arg)
{
    const struct scn *scn = arg;

    scn_begin(0);
    scn->body();
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end = NULL;
    unsigned long long value;

    if (text == NULL || *text == '\0') {
        return otherwise;
    }
    value = strtoull(text, &end, 0);
    if (*end != '\0') {
        (void)fprintf(stderr, "%s=%s is not a number\n", name, text);
        exit(2);
    }
    return value;
}

static struct weave_opts options_for(const struct scn *scn)
{
    bool soak = env_number("RON_SOAK", 0) != 0;

    return (struct weave_opts){
        .mode = WEAVE_DFS,
        .preemptions_max =
            (uint32_t)env_number("RON_WEAVE_BOUND", soak ? BOUND_DEFAULT + 1 : BOUND_DEFAULT),
        .spurious_max = scn->no_spurious != NULL ? 0 : 1,
        .timeouts_max = scn->timeouts_max,
        .budget_s = (uint32_t)env_number("RON_WEAVE_BUDGET_S", BUDGET_DEFAULT_S),
        .unlock_points = env_number("RON_WEAVE_UNLOCK", soak) != 0,
        .all_points = env_number("RON_WEAVE_FULL", 0) != 0,
        .seed = env_number("RON_SEED", 1),
    };
}

static void print_seconds(uint64_t elapsed_ms)
{
    (void)printf("%llu.%02llu s", (unsigned long long)(elapsed_ms / 1000),
                 (unsigned long long)(elapsed_ms % 1000 / 10));
}

/* Runs the tape in ret->tape with every step printed. */
static void replay(const struct scn *scn, struct weave_result *ret)
{
    struct weave_opts opts = options_for(scn);

    tape = ret->tape;
    opts.mode = WEAVE_REPLAY;
    opts.tape = &tape;
    opts.trace = true;
    weave_explore_isolated(run_body, scn_arg(scn), &opts, false, ret);
}

static void report_failure(const struct scn *scn, const struct weave_opts *opts,
                           const char *program)
{
    uint32_t picks;

    (void)printf("scenario %s: FAILED on schedule %llu: %s: %s\n", scn->name,
                 (unsigned long long)result.schedules, result.kind, result.message);
    picks = weave_shrink(run_body, scn_arg(scn), opts, SHRINK_TRIES_MAX, &result);
    if (!weave_tape_format(&result.tape, tape_text, sizeof tape_text)) {
        (void)snprintf(tape_text, sizeof tape_text, "(too long)");
    }
    (void)printf("the simplest schedule found differs from the dull one in %u places; its steps:\n",
                 picks);
    replay(scn, &result);
    (void)printf("replay: RON_TAPE=%s/%s %s\n", scn->name, tape_text, program);
}

/* A search that never meets what the scenario is about proves nothing. */
static bool saw_everything(const struct scn *scn)
{
    bool all = true;

    for (uint32_t i = 0; i < SCN_MARKS_MAX && scn->must_see[i] != NULL; i++) {
        if ((result.seen & (UINT64_C(1) << i)) == 0) {
            (void)printf("scenario %s: FAILED: no schedule has shown: %s\n", scn->name,
                         scn->must_see[i]);
            all = false;
        }
    }
    return all;
}

/* Explores with the given options and prints the line of the result. `bound` is its text for the
 * bounds. */
static bool explore_with(const struct scn *scn, const struct weave_opts *opts, const char *bound,
                         const char *if_cut_short, const char *program)
{
    weave_explore_isolated(run_body, scn_arg(scn), opts, false, &result);
    if (result.failed) {
        report_failure(scn, opts, program);
        return false;
    }
    (void)printf("scenario %s: %llu schedules, max depth %u, %s, ", scn->name,
                 (unsigned long long)result.schedules, result.depth_max, bound);
    print_seconds(result.elapsed_ms);
    (void)printf(", %s\n", result.exhaustive ? "exhaustive" : if_cut_short);
    return true;
}

static bool explore(const struct scn *scn, const char *program)
{
    struct weave_opts opts = options_for(scn);
    bool deep = opts.preemptions_max > BOUND_DEFAULT;
    uint64_t first_ms;
    char bound[32];

    (void)snprintf(bound, sizeof bound, "bound %u%s", opts.preemptions_max,
                   opts.unlock_points ? " with unlocks" : "");
    if (!explore_with(scn, &opts, bound,
                      deep ? "bounded by budget" : "NOT COMPLETE within the budget", program)) {
        return false;
    }
    if (!result.exhaustive) {
        return deep;
    }
    if (!saw_everything(scn)) {
        return false;
    }
    first_ms = result.elapsed_ms;
    if (!opts.unlock_points && first_ms < UNLOCKS_IF_BELOW_MS) {
        opts.unlock_points = true;
        if (!explore_with(scn, &opts, "bound 2 with unlocks", "bounded by budget", program)) {
            return false;
        }
    }
    if (first_ms < UNBOUNDED_IF_BELOW_MS) {
        opts = options_for(scn);
        opts.preemptions_max = UINT32_MAX;
        opts.budget_s = UNBOUNDED_BUDGET_S;
        return explore_with(scn, &opts, "no bound", "bounded by budget", program);
    }
    return true;
}

/* Random schedules beyond the bound, by priorities, for the time that is left in a soak. */
static bool soak(const struct scn *scn, const char *program)
{
    struct weave_opts opts = options_for(scn);

    opts.mode = WEAVE_PCT;
    opts.pct_depth = 5;
    weave_explore_isolated(run_body, scn_arg(scn), &opts, false, &result);
    if (result.failed) {
        report_failure(scn, &opts, program);
        return false;
    }
    (void)printf("scenario %s: %llu random schedules, seed %llu, max depth %u, ", scn->name,
                 (unsigned long long)result.schedules, (unsigned long long)opts.seed,
                 result.depth_max);
    print_seconds(result.elapsed_ms);
    (void)printf("\n");
    return true;
}

/* RON_TAPE=NAME/TAPE. */
static int replay_tape(const char *text)
{
    const char *slash = strchr(text, '/');

    for (const struct scn *scn = scn_list; slash != NULL && scn->name != NULL; scn++) {
        if (strlen(scn->name) != (size_t)(slash - text) ||
            strncmp(scn->name, text, (size_t)(slash - text)) != 0) {
            continue;
        }
        if (!weave_tape_parse(slash + 1, &result.tape)) {
            break;
        }
        replay(scn, &result);
        (void)printf("scenario %s: the tape %s%s%s%s\n", scn->name,
                     result.failed ? "fails: " : "passes", result.kind, result.failed ? ": " : "",
                     result.message);
        return result.failed ? 1 : 0;
    }
    (void)fprintf(stderr, "RON_TAPE=%s: want NAME/TAPE with a scenario of this program\n", text);
    return 2;
}

int main(int argc, char **argv)
{
    const char *text = getenv("RON_TAPE");
    bool good = true;
    uint32_t count = 0;

    if (text != NULL) {
        return replay_tape(text);
    }
    for (const struct scn *scn = scn_list; scn->name != NULL; scn++) {
        if (!scn_selected(scn, argc, argv)) {
            continue;
        }
        count++;
        good = explore(scn, argv[0]) && good;
        if (env_number("RON_SOAK", 0) != 0) {
            good = soak(scn, argv[0]) && good;
        }
        (void)fflush(stdout);
    }
    if (count == 0) {
        (void)fprintf(stderr, "no such scenario in this program\n");
        return 2;
    }
    return good ? 0 : 1;
}
