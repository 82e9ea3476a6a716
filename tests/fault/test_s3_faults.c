/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a tier that cannot be made leaves nothing behind; when memory, disk and network fail under
 * a running one, every call still ends, nothing wrong is stored here or there, and it works
 * afterwards. Method: a sweep over making; and a run in which one call in sixteen fails. */
#include "base/rand_priv.h"
#include "s3/tier_priv.h"
#include "unit/s3/tier_fixture.h"

#include <ftw.h>
#include <sys/stat.h>

enum { ROUNDS = 40 };

static char dir[] = "/tmp/ron-s3-faults-XXXXXX";
static struct pail *pail;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static bool (*inner_hook)(enum ron_fault_kind, const char *);
static struct ron_thread *maker;

/* Workers of the fixture go on; a series or shard of metrics that cannot be made is no failure. */
static bool only_the_maker(enum ron_fault_kind kind, const char *site)
{
    return ron_thread_self() == maker && strcmp(site, "make_series") != 0 &&
           strcmp(site, "make_shard") != 0 && inner_hook(kind, site);
}

/* Made and taken down, without running; the fixture itself does not fail. */
static enum ron_rc make_and_free(void *arg)
{
    bool (*hook)(enum ron_fault_kind, const char *) = ron_fault_hook;
    struct tx *x = calloc(1, sizeof *x);
    enum ron_rc rc;

    (void)arg;
    RON_ASSERT(x != NULL);
    ron_fault_hook = NULL;
    x->fx = fx_open(1);
    inner_hook = hook;
    maker = ron_thread_self();
    ron_fault_hook = hook != NULL ? only_the_maker : NULL;
    rc = tx_try(x, pail, dir, true, NULL);
    ron_fault_hook = NULL;
    tx_free(x);
    ron_fault_hook = hook;
    return rc;
}

SUPPORT_FAULT_SWEEP(test_s3__each_step_of_making_a_tier_fails__nothing_left, make_and_free)

static bool fail_some(enum ron_fault_kind kind, const char *site)
{
    static struct ron_au64 calls;

    (void)kind;
    return strcmp(site, "epoll_wait") != 0 && strcmp(site, "calloc") != 0 &&
           (ron_au64_add(&calls, 1) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % 16 == 0;
}

static void test_s3__calls_fail_at_random__nothing_wrong_is_kept(void **state)
{
    struct tx *x = tx_open(pail, dir, true, NULL);
    struct ron_b3 taken[ROUNDS];
    uint8_t bodies[ROUNDS][100];
    size_t count = 0;
    struct ron_rand rand = support_rand();

    (void)state;
    ron_fault_hook = fail_some;
    for (size_t i = 0; i < ROUNDS; i++) {
        char key[RON_TIER_KEY_SIZE];
        char path[300];
        struct ron_b3 id;

        for (size_t j = 0; j < sizeof bodies[0]; j++) {
            bodies[count][j] = (uint8_t)ron_rand_u64(&rand);
        }
        if (tx_write(x, bodies[count], sizeof bodies[0], &id) == RON_OK) {
            taken[count++] = id;
        }
        ron_b3_hash(&i, sizeof i, &id);
        tx_place(x, &id, &i, sizeof i);
        if (ron_tier_fetch(x->tier, &id, ron_deadline_never(), &x->err) == RON_OK) {
            struct ron_cas_obj *obj = NULL;

            if (ron_cas_open(x->store, &id, &obj, &x->err) == RON_OK) {
                assert_int_equal(ron_cas_obj_size(obj), sizeof i);
            }
            ron_cas_release(obj);
        }
        ron_tier_key(&id, key); /* the bucket of the test is small */
        (void)snprintf(path, sizeof path, "/bucket/pre/%s", key);
        (void)pthread_mutex_lock(&pail->mu);
        pail_drop(pail, path, false);
        (void)pthread_mutex_unlock(&pail->mu);
    }
    ron_fault_hook = NULL;
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        fx_until(tx_arrived(x, &taken[i], bodies[i], sizeof bodies[0]));
    }
    fx_until(tx_metric(x, "s3_tier_backlog_objects") == 0);
    assert_int_equal(tx_metric(x, "s3_tier_writes_total{result=\"lost\"}"), 0);
    tx_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s3__each_step_of_making_a_tier_fails__nothing_left),
        cmocka_unit_test(test_s3__calls_fail_at_random__nothing_wrong_is_kept),
    };
    int failed;

    if (mkdtemp(dir) == NULL) {
        return 1;
    }
    pail = pail_open();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    pail_close(pail);
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return failed;
}
