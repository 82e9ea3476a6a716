/* SPDX-License-Identifier: Apache-2.0 */
/* test_obs_faults.c - every allocation and system call of obs fails once, in turn.
 *
 * Goal: making things gives a clean error and no leak; recording goes on without what failed; a
 *   scrape either fails as a whole or is well-formed.
 * Method: the sweep of tests/support; a case is a whole life with some work in it.
 */
#include "support/support.h"

#include "ron/base/assert.h"
#include "ron/obs/collect.h"

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

SUPPORT_FAULT_SWEEP(test_obs_faults__metrics__clean_error_and_no_leak, metrics_life)
SUPPORT_FAULT_SWEEP_TOLERANT(test_obs_faults__scrape__whole_or_an_error, whole_life)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_obs_faults__metrics__clean_error_and_no_leak),
        cmocka_unit_test(test_obs_faults__scrape__whole_or_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
