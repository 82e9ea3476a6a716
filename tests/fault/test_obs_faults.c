/* SPDX-License-Identifier: Apache-2.0 */
/* test_obs_faults.c - every allocation and system call of obs fails once, in turn.
 *
 * Goal: making things gives a clean error and no leak; recording goes on without what failed; a
 *   scrape either fails as a whole or is well-formed.
 * Method: the sweep of tests/support; a case is a whole life with some work in it.
 */
#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/io/linux_env.h"
#include "ron/obs/collect.h"
#include "ron/obs/health.h"
#include "ron/obs/log.h"
#include "ron/obs/trace.h"

static enum ron_rc metrics_life(void *arg)
{
    struct ron_metrics *m = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = ron_metrics_new(NULL, &m, &err);

    (void)arg;
    if (rc != RON_OK) {
        RON_ASSERT(m == NULL);
        RON_ASSERT(err.rc == rc);
        return rc;
    }
    ron_metrics_free(m);
    return RON_OK;
}

static enum ron_rc scrape_life(void *arg)
{
    struct ron_metrics *m = arg;
    struct ron_series *s = ron_metric_series(ron_metrics_name(m, RON_M_REJECTED), "new");
    struct ron_buf out;
    enum ron_rc rc;

    ron_counter_add(s, 1);
    ron_buf_init(&out, RON_METRIC_TEXT_MAX);
    rc = ron_metrics_write(m, &out);
    if (rc == RON_OK) {
        RON_ASSERT(strncmp(ron_buf_text(&out), "# HELP ", 7) == 0);
        RON_ASSERT(ron_buf_data(&out)[ron_buf_len(&out) - 1] == '\n');
    }
    ron_buf_done(&out);
    return rc;
}

static enum ron_rc whole_life(void *arg)
{
    struct ron_registry *reg = NULL;
    struct ron_metrics *m = NULL;
    enum ron_rc rc;

    (void)arg;
    RON_TRY(ron_registry_new(&reg, NULL));
    rc = ron_metrics_new(NULL, &m, NULL);
    if (rc == RON_OK) {
        RON_IGNORE(ron_collect_registry(m, reg, NULL)); /* the first collectors always fit */
        RON_IGNORE(ron_collect_process(m, NULL));
        rc = scrape_life(m);
        ron_metrics_free(m);
    }
    ron_registry_free(reg);
    return rc;
}

static enum ron_rc drop_line(void *arg, const char *line, size_t len)
{
    (void)arg;
    RON_ASSERT(line[len - 1] == '\n');
    return RON_FAULT(RON_FAULT_SYSCALL, "write") ? RON_IO : RON_OK;
}

static enum ron_rc log_work(struct ron_registry *reg)
{
    struct ron_log *log = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = ron_log_new(&(struct ron_log_opts){.env = ron_env_linux(),
                                                        .registry = reg,
                                                        .service = "s",
                                                        .level = RON_LOG_INFO,
                                                        .write = drop_line},
                                 &log, &err);

    if (rc != RON_OK) {
        RON_ASSERT(err.rc == rc);
        return rc;
    }
    rc = ron_log_start(log, &err);
    RON_LOG(log, INFO, "line", RON_LOG_U64("n", 1)); /* never fails, started or not */
    ron_log_stop(log);
    ron_log_free(log);
    return rc;
}

static enum ron_rc no_send(void *arg, const char *type, const void *body, size_t len,
                           struct ron_deadline deadline)
{
    (void)arg;
    (void)type;
    (void)body;
    (void)len;
    (void)deadline;
    return RON_OK;
}

static enum ron_rc trace_work(struct ron_registry *reg)
{
    struct ron_tracer *t = NULL;
    struct ron_span span;

    RON_TRY(ron_tracer_new(&(struct ron_tracer_opts){.env = ron_env_linux(),
                                                     .registry = reg,
                                                     .service = "s",
                                                     .sample_percent = 100,
                                                     .send = no_send},
                           &t, NULL));
    ron_span_start(t, &span, "s", RON_SPAN_INTERNAL, NULL);
    ron_span_end(&span); /* without memory it is counted as dropped */
    ron_tracer_free(t);
    return RON_OK;
}

static enum ron_rc with_registry(void *arg, enum ron_rc (*work)(struct ron_registry *))
{
    struct ron_registry *reg = NULL;
    enum ron_rc rc;

    (void)arg;
    RON_TRY(ron_registry_new(&reg, NULL));
    rc = work(reg);
    ron_registry_free(reg);
    return rc;
}

static enum ron_rc log_life(void *arg)
{
    return with_registry(arg, log_work);
}

static enum ron_rc trace_life(void *arg)
{
    return with_registry(arg, trace_work);
}

static enum ron_rc needs_life(void *arg)
{
    struct ron_needs *needs = NULL;

    (void)arg;
    RON_TRY(ron_needs_new(NULL, &needs, NULL));
    ron_needs_free(needs);
    return RON_OK;
}

static enum ron_rc secret_life(void *arg)
{
    struct ron_secret s = {0};

    (void)arg;
    RON_TRY(ron_secret_set(&s, "x", 1));
    ron_secret_done(&s);
    return RON_OK;
}

SUPPORT_FAULT_SWEEP_TOLERANT(test_obs_faults__log__lines_never_fail, log_life)
SUPPORT_FAULT_SWEEP_TOLERANT(test_obs_faults__trace__spans_never_fail, trace_life)
SUPPORT_FAULT_SWEEP(test_obs_faults__needs__clean_error_and_no_leak, needs_life)
SUPPORT_FAULT_SWEEP(test_obs_faults__secret__clean_error_and_no_leak, secret_life)
SUPPORT_FAULT_SWEEP(test_obs_faults__metrics__clean_error_and_no_leak, metrics_life)
SUPPORT_FAULT_SWEEP_TOLERANT(test_obs_faults__scrape__whole_or_an_error, whole_life)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_obs_faults__metrics__clean_error_and_no_leak),
        cmocka_unit_test(test_obs_faults__scrape__whole_or_an_error),
        cmocka_unit_test(test_obs_faults__log__lines_never_fail),
        cmocka_unit_test(test_obs_faults__trace__spans_never_fail),
        cmocka_unit_test(test_obs_faults__needs__clean_error_and_no_leak),
        cmocka_unit_test(test_obs_faults__secret__clean_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
