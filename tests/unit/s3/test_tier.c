/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: rules R1 to R6 of ron/s3/tier.h. Method: a store in a temporary folder, a bucket on raw
 * sockets, and both looked at from outside. */
#include "unit/s3/tier_fixture.h"

#include <ftw.h>

static char *folder(void)
{
    static char name[64];

    (void)snprintf(name, sizeof name, "/tmp/ron-tier-XXXXXX");
    assert_non_null(mkdtemp(name));
    return name;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void unfolder(const char *name)
{
    (void)nftw(name, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool is_here(struct tx *x, const struct ron_b3 *id)
{
    struct ron_cas_obj *obj = NULL;
    enum ron_rc rc = ron_cas_open(x->store, id, &obj, NULL);

    ron_cas_release(obj);
    return rc == RON_OK;
}

static bool is_degraded(struct tx *x)
{
    struct ron_readiness readiness;
    struct ron_buf out;

    ron_buf_init(&out, RON_READY_BODY_MAX);
    ron_needs_write_ready(x->needs, false, &out, &readiness);
    ron_buf_done(&out);
    return readiness.ready && readiness.degraded;
}

#define NEVER ron_deadline_never()

static void test_tier__queue__brings_it_to_the_bucket_and_unpins(void **state)
{
    struct pail *pail = pail_open();
    const char *dir = folder();
    struct tx *x = tx_open(pail, dir, true, NULL);
    struct ron_b3 id;

    (void)state;
    assert_int_equal(tx_write(x, "hello", 5, &id), RON_OK);
    fx_until(tx_arrived(x, &id, "hello", 5));
    fx_until(tx_metric(x, "s3_tier_backlog_objects") == 0);
    assert_int_equal(tx_metric(x, "s3_tier_backlog_bytes"), 0);
    assert_int_equal(tx_files(dir), 0);
    assert_int_equal(ron_cas_unpin(x->store, &id), RON_NOTFOUND);
    assert_int_equal(tx_write(x, "hello", 5, &id), RON_OK); /* once more: it is there */
    fx_until(tx_metric(x, "s3_tier_writes_total{result=\"present\"}") == 1);
    tx_close(x);
    unfolder(dir);
    pail_close(pail);
}

static void test_tier__server_away__waits_over_a_restart(void **state)
{
    struct pail *pail = pail_open();
    const char *dir = folder();
    struct tx *x = tx_open(pail, dir, true, NULL);
    struct ron_b3 ids[5];

    (void)state;
    pail_misbehave(pail, pail_say_503, UINT64_MAX);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(tx_write(x, &"abcde"[i], 1, &ids[i]), RON_OK);
        assert_true(is_here(x, &ids[i])); /* R1 */
    }
    fx_until(tx_metric(x, "s3_tier_writes_total{result=\"retried\"}") > 0);
    assert_int_equal(tx_metric(x, "s3_tier_backlog_objects"), 5);
    assert_int_equal(tx_metric(x, "s3_tier_backlog_bytes"), 5);
    fx_until(is_degraded(x));
    tx_close(x);
    assert_int_equal(tx_files(dir), 5);
    pail_misbehave(pail, NULL, 0);
    x = tx_open(pail, dir, true, NULL);
    for (size_t i = 0; i < 5; i++) {
        fx_until(tx_arrived(x, &ids[i], &"abcde"[i], 1));
    }
    fx_until(tx_metric(x, "s3_tier_backlog_objects") == 0 && tx_files(dir) == 0);
    fx_until(!is_degraded(x));
    assert_int_equal(tx_metric(x, "s3_tier_backlog_bytes"), 0);
    assert_int_equal(ron_cas_unpin(x->store, &ids[0]), RON_NOTFOUND);
    assert_int_equal(tx_metric(x, "s3_tier_writes_total{result=\"lost\"}"), 0);
    tx_close(x);
    unfolder(dir);
    pail_close(pail);
}

static void test_tier__object_gone_before_its_upload__is_counted_as_lost(void **state)
{
    struct pail *pail = pail_open();
    const char *dir = folder();
    struct tx *x = tx_open(pail, dir, true, NULL);
    struct ron_b3 id;

    (void)state;
    pail_misbehave(pail, pail_say_503, UINT64_MAX);
    assert_int_equal(tx_write(x, "gone", 4, &id), RON_OK);
    fx_until(tx_metric(x, "s3_tier_writes_total{result=\"retried\"}") > 0);
    assert_int_equal(ron_cas_remove(x->store, &id, NULL), RON_OK);
    pail_misbehave(pail, NULL, 0);
    fx_until(tx_metric(x, "s3_tier_writes_total{result=\"lost\"}") == 1);
    fx_until(tx_files(dir) == 0);
    assert_int_equal(tx_metric(x, "s3_tier_backlog_objects"), 0);
    assert_int_equal(tx_metric(x, "s3_tier_backlog_bytes"), 0);
    tx_close(x);
    unfolder(dir);
    pail_close(pail);
}

static void test_tier__too_many_wait__keep_refuses_and_a_cache_drops(void **state)
{
    static const char *const few[] = {"s3.backlog=2", NULL};
    struct pail *pail = pail_open();

    (void)state;
    pail_misbehave(pail, pail_say_503, UINT64_MAX);
    for (int keep = 0; keep < 2; keep++) {
        const char *dir = folder();
        struct tx *x = tx_open(pail, dir, keep == 1, few);
        struct ron_b3 id;

        assert_int_equal(tx_write(x, "1", 1, &id), RON_OK);
        assert_int_equal(tx_write(x, "2", 1, &id), RON_OK);
        assert_int_equal(tx_write(x, "2", 1, &id), keep == 1 ? RON_FULL : RON_OK);
        assert_int_equal(tx_write(x, "3", 1, &id), keep == 1 ? RON_FULL : RON_OK);
        assert_int_equal(tx_files(dir), 2);
        if (keep == 0) {
            assert_true(is_here(x, &id));
            assert_int_equal(ron_cas_unpin(x->store, &id), RON_NOTFOUND);
            assert_true(tx_metric(x, "s3_tier_writes_total{result=\"dropped\"}") >= 1);
        }
        tx_close(x);
        unfolder(dir);
    }
    pail_close(pail);
}

static void test_tier__sync__acknowledges_what_the_bucket_has(void **state)
{
    static const char *const sync[] = {"s3.write=sync", NULL};
    struct pail *pail = pail_open();
    const char *dir = folder();
    struct tx *x = tx_open(pail, dir, true, sync);
    size_t large = 6 << 20;
    uint8_t *bytes = calloc(1, large);
    struct ron_b3 id;

    (void)state;
    assert_non_null(bytes);
    assert_int_equal(tx_write(x, bytes, large, &id), RON_OK);
    assert_true(tx_arrived(x, &id, bytes, large));
    pail_misbehave(pail, pail_say_503, UINT64_MAX);
    assert_int_equal(tx_write(x, "no", 2, &id), RON_AGAIN);
    assert_int_equal(tx_metric(x, "s3_tier_writes_total{result=\"failed\"}"), 1);
    assert_int_equal(ron_cas_unpin(x->store, &id), RON_NOTFOUND);
    assert_int_equal(tx_files(dir), 0);
    tx_close(x);
    free(bytes);
    unfolder(dir);
    pail_close(pail);
}

static void test_tier__fetch__checks_before_it_stores(void **state)
{
    struct pail *pail = pail_open();
    const char *dir = folder();
    struct tx *x = tx_open(pail, dir, true, NULL);
    size_t large = (11 << 20) + 3;
    uint8_t *bytes = malloc(large);
    struct ron_b3 id;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 7, large);
    ron_b3_hash(bytes, large, &id);
    assert_int_equal(ron_tier_fetch(x->tier, &id, NEVER, &x->err), RON_NOTFOUND);
    tx_place(x, &id, bytes, large - 1);
    assert_int_equal(ron_tier_fetch(x->tier, &id, NEVER, &x->err), RON_CORRUPT);
    bytes[large / 2]++;
    tx_place(x, &id, bytes, large);
    assert_int_equal(ron_tier_fetch(x->tier, &id, NEVER, &x->err), RON_CORRUPT);
    assert_false(is_here(x, &id));
    assert_int_equal(tx_metric(x, "s3_tier_reads_total{result=\"mismatch\"}"), 2);
    bytes[large / 2]--;
    assert_int_equal(tx_write(x, bytes, large, &id), RON_OK); /* mends it: no condition is sent */
    fx_until(tx_arrived(x, &id, bytes, large));
    fx_until(tx_metric(x, "s3_tier_backlog_objects") == 0);
    assert_int_equal(ron_cas_remove(x->store, &id, NULL), RON_OK);
    assert_int_equal(ron_tier_fetch(x->tier, &id, NEVER, &x->err), RON_OK);
    assert_true(is_here(x, &id));
    ron_b3_hash("", 0, &id);
    tx_place(x, &id, "", 0);
    assert_int_equal(ron_tier_fetch(x->tier, &id, NEVER, &x->err), RON_OK);
    assert_true(is_here(x, &id));
    assert_int_equal(ron_tier_remove(x->tier, &id, &x->err), RON_OK);
    assert_int_equal(ron_tier_fetch(x->tier, &id, NEVER, &x->err), RON_NOTFOUND);
    pail_misbehave(pail, pail_say_503, UINT64_MAX);
    assert_int_equal(ron_tier_fetch(x->tier, &id, NEVER, &x->err), RON_AGAIN);
    assert_int_equal(tx_metric(x, "s3_tier_reads_total{result=\"failed\"}"), 1);
    tx_close(x);
    free(bytes);
    unfolder(dir);
    pail_close(pail);
}

struct reader {
    struct tx *x;
    struct ron_b3 id;
    struct ron_au32 good;
};

static void read_it(void *arg)
{
    struct reader *r = arg;
    struct ron_err err = {0};

    (void)ron_au32_add(&r->good, ron_tier_fetch(r->x->tier, &r->id, NEVER, &err) == RON_OK ? 1 : 0);
}

static void test_tier__many_fetch_the_same__one_asks(void **state)
{
    struct pail *pail = pail_open();
    const char *dir = folder();
    struct tx *x = tx_open(pail, dir, true, NULL);
    struct reader r = {.x = x};
    struct ron_thread *threads[8];
    size_t large = 5 << 20; /* one part */
    uint8_t *bytes = calloc(1, large);

    (void)state;
    assert_non_null(bytes);
    ron_b3_hash(bytes, large, &r.id);
    tx_place(x, &r.id, bytes, large);
    for (size_t i = 0; i < RON_ARRAY_LEN(threads); i++) {
        assert_int_equal(ron_thread_start(&(struct ron_thread_opts){.name = "reads",
                                                                    .may_block = true,
                                                                    .stack_bytes = 1 << 20,
                                                                    .main = read_it,
                                                                    .arg = &r},
                                          &threads[i], NULL),
                         RON_OK);
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(threads); i++) {
        ron_thread_join(threads[i]);
    }
    assert_int_equal(ron_au32_load(&r.good), RON_ARRAY_LEN(threads));
    assert_true(is_here(x, &r.id));
    assert_true(tx_metric(x, "s3_tier_reads_total{result=\"found\"}") <= RON_ARRAY_LEN(threads));
    tx_close(x);
    free(bytes);
    unfolder(dir);
    pail_close(pail);
}

static void test_tier__write_off__reads_only(void **state)
{
    static const char *const off[] = {"s3.write=off", NULL};
    struct pail *pail = pail_open();
    const char *dir = folder();
    struct tx *x = tx_open(pail, dir, true, off);
    uint64_t before;
    struct ron_b3 id;

    (void)state;
    fx_until(pail_requests(pail) > 0); /* the first look whether it is there */
    before = pail_requests(pail);
    assert_false(ron_tier_pins(x->tier));
    assert_int_equal(tx_write(x, "here only", 9, &id), RON_OK);
    assert_int_equal(ron_tier_remove(x->tier, &id, &x->err), RON_OK);
    assert_int_equal(pail_requests(pail), before);
    ron_b3_hash("there", 5, &id);
    tx_place(x, &id, "there", 5);
    assert_int_equal(ron_tier_fetch(x->tier, &id, NEVER, &x->err), RON_OK);
    tx_close(x);
    unfolder(dir);
    pail_close(pail);
}

static void test_tier__none__does_nothing(void **state)
{
    struct ron_err err = {0};
    struct ron_b3 id = {0};

    (void)state;
    assert_int_equal(ron_tier_admit(NULL, &err), RON_OK);
    assert_false(ron_tier_pins(NULL));
    assert_false(ron_tier_writes(NULL));
    assert_int_equal(ron_tier_stored(NULL, &id, NEVER, &err), RON_OK);
    assert_int_equal(ron_tier_fetch(NULL, &id, NEVER, &err), RON_NOTFOUND);
    assert_int_equal(ron_tier_fetches(NULL), 0);
    assert_null(ron_tier_s3(NULL));
    ron_tier_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tier__queue__brings_it_to_the_bucket_and_unpins),
        cmocka_unit_test(test_tier__server_away__waits_over_a_restart),
        cmocka_unit_test(test_tier__object_gone_before_its_upload__is_counted_as_lost),
        cmocka_unit_test(test_tier__too_many_wait__keep_refuses_and_a_cache_drops),
        cmocka_unit_test(test_tier__sync__acknowledges_what_the_bucket_has),
        cmocka_unit_test(test_tier__fetch__checks_before_it_stores),
        cmocka_unit_test(test_tier__many_fetch_the_same__one_asks),
        cmocka_unit_test(test_tier__write_off__reads_only),
        cmocka_unit_test(test_tier__none__does_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
