/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation, call of the system or port fails, the index gives a code, leaks
 * nothing, and stays what its last commit made it, for lookups and in the file.
 * Method: the fault sweep over whole lives of an index in memory and on disk. After each failed
 * step of the writer the state is compared with the last commit, and the step is tried again. */
#include "unit/ledger/index_fixture.h"

#include <fcntl.h>

enum { KEYS = 90, STEP = 30 };

static struct fixture *fix;
static unsigned lives;

static struct led_index_opts opts_of(bool on_disk)
{
    static char path[FIXTURE_PATH_SIZE];

    (void)snprintf(path, sizeof path, "%s/%u", fix->dir, lives);
    return (struct led_index_opts){.env = index_env(),
                                   .path = on_disk ? path : NULL,
                                   .run_entries = 16,
                                   .uuid = "sixteen bytes .."};
}

/* Only what cannot fail: no key of the last commit is hidden, none beyond it is promised. */
static void expect_committed(struct led_index *ix, uint64_t done)
{
    RON_ASSERT(led_index_applied(ix) == done);
    for (uint64_t n = 1; n <= done; n++) {
        RON_ASSERT(index_maybe(ix, n, true));
    }
}

static enum ron_rc see_nothing(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)arg;
    (void)bytes;
    (void)len;
    (void)err;
    return RON_OK;
}

static enum ron_rc write_step(struct led_index *ix, uint64_t from)
{
    static const uint8_t image[5000];
    struct ron_err err = {0};

    for (uint64_t n = from; n < from + STEP; n++) {
        struct index_key k;

        index_key_of(n, true, &k);
        RON_TRY(led_index_add(ix, LED_INDEX_ID, k.key, k.str, n, &err));
        RON_TRY(led_index_add_skip(ix, k.key, n, &err));
    }
    RON_TRY(led_index_put_image(ix, from, 0, image, sizeof image, false, &err));
    RON_TRY(led_index_put_image(ix, from, 1, image, 10, true, &err));
    return index_commit(ix, from + STEP - 1, &err);
}

static enum ron_rc write_all(struct led_index *ix)
{
    enum ron_rc first = RON_OK;

    for (uint64_t n = led_index_applied(ix) + 1; n < KEYS; n += STEP) {
        enum ron_rc rc = write_step(ix, n);

        if (rc != RON_OK) {
            first = first == RON_OK ? rc : first;
            expect_committed(ix, n - 1);
            rc = write_step(ix, n);
        }
        if (rc != RON_OK) {
            expect_committed(ix, n - 1);
            return first;
        }
        expect_committed(ix, n + STEP - 1);
    }
    return first;
}

static enum ron_rc read_some(struct led_index *ix)
{
    struct ron_err err = {0};

    for (uint64_t n = 1; n < led_index_applied(ix); n += 20) {
        uint64_t seqs[LED_INDEX_FOUND_MAX];
        struct index_key k;
        uint64_t seq = 0;
        size_t count = 0;

        index_key_of(n, true, &k);
        RON_TRY(led_index_find(ix, LED_INDEX_ID, k.key, seqs, &count, &err));
        RON_ASSERT(count == 1 && seqs[0] == n);
        RON_TRY(led_index_skip(ix, k.key, 1, &seq, &err));
        RON_ASSERT(seq == n);
    }
    return led_index_load_image(ix, see_nothing, NULL, &err);
}

static enum ron_rc life(struct led_index_opts *opts)
{
    struct led_index_state st;
    struct led_index *ix = NULL;
    struct ron_err err = {0};
    enum ron_rc rc;

    RON_TRY(led_index_open(opts, &ix, &st, &err));
    rc = write_all(ix);
    if (rc == RON_OK) {
        rc = read_some(ix);
    }
    if (rc == RON_OK && opts->path != NULL) {
        rc = led_index_copy(ix, fixture_path(fix, "copy"), &err);
        RON_ASSERT(rc != RON_OK || access(fixture_path(fix, "copy"), F_OK) == 0);
        index_erase(fixture_path(fix, "copy"));
    }
    led_index_close(ix);
    return rc;
}

static enum ron_rc life_in_memory(void *arg)
{
    struct led_index_opts opts = opts_of(false);

    (void)arg;
    return life(&opts);
}

/* The second life finds the file of the first, whatever became of that. */
static enum ron_rc life_on_disk(void *arg)
{
    struct led_index_opts opts;
    enum ron_rc rc;

    (void)arg;
    lives++;
    opts = opts_of(true);
    rc = life(&opts);
    if (rc == RON_OK) {
        struct led_index_state st;
        struct led_index *ix = NULL;
        struct ron_err err = {0};

        rc = led_index_open(&opts, &ix, &st, &err);
        if (rc == RON_OK) {
            /* Files that cannot be read are damaged: then there is a fresh one, and it says so. */
            RON_ASSERT(st.applied_seq == (st.fresh ? 0 : KEYS));
            rc = st.fresh ? RON_CORRUPT : read_some(ix);
            led_index_close(ix);
        }
    }
    index_erase(opts.path);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_led_index_faults__memory__sweep_is_clean, life_in_memory)
/* A file that is not needed any more and cannot be removed is no failure: the lives above look
 * whether what succeeded is there. */
SUPPORT_FAULT_SWEEP_TOLERANT(test_led_index_faults__disk__sweep_is_clean, life_on_disk)

static int setup(void **state)
{
    int rc = fixture_setup(state);

    fix = *state;
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_led_index_faults__memory__sweep_is_clean, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_led_index_faults__disk__sweep_is_clean, setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
