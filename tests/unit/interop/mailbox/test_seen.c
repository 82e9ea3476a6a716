/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the table of deliveries is exact: no key twice, none forgotten before its time, bounded.
 * Method: a long random run against a plain array; keys chosen to collide in the hash table. */
#include "interop/mailbox/seen.h"
#include "support/support.h"

enum { MODEL = 64, ENTRIES = 16, TTL = 1000, KEEP = 100 };

enum what { NONE, RESERVED, COMMITTED };
struct model {
    enum what what[MODEL];
    uint64_t at_ms[MODEL];
};

/* All share the low bits that the table looks at first. */
static struct iop_key key_of(unsigned i)
{
    struct iop_key k = {{0}};

    k.bytes[0] = (uint8_t)(i % 3);
    k.bytes[8] = (uint8_t)i;
    return k;
}

static struct iop_seen *make(uint32_t entries)
{
    struct iop_seen *s = NULL;

    assert_int_equal(
        iop_seen_new(
            &(struct iop_seen_opts){.entries_max = entries, .ttl_ms = TTL, .keep_ms = KEEP}, &s,
            NULL),
        RON_OK);
    return s;
}

static bool alive(const struct model *m, unsigned i, uint64_t now)
{
    return m->what[i] == RESERVED || (m->what[i] == COMMITTED && now - m->at_ms[i] <= TTL);
}

static void test_seen__random_run__as_the_model_says(void **state)
{
    struct ron_rand rand = support_rand();
    struct iop_seen *s = make(1000); /* never full: eviction is tested below */
    struct model m = {0};
    uint64_t now = 5000;

    (void)state;
    for (int step = 0; step < 200000; step++) {
        unsigned i = (unsigned)ron_rand_below(&rand, MODEL);
        struct iop_key key = key_of(i);
        enum what was;

        now += ron_rand_below(&rand, 8);
        was = alive(&m, i, now) ? m.what[i] : NONE;
        switch (ron_rand_below(&rand, 4)) {
        case 0:
            assert_int_equal(iop_seen_reserve(s, &key, now), was == NONE       ? RON_OK
                                                             : was == RESERVED ? RON_AGAIN
                                                                               : RON_EXISTS);
            if (was == NONE) {
                m.what[i] = RESERVED;
                m.at_ms[i] = now;
            }
            break;
        case 1:
            if (was == RESERVED) {
                iop_seen_commit(s, &key);
                m.what[i] = COMMITTED;
            }
            break;
        case 2:
            if (was == RESERVED) {
                iop_seen_release(s, &key);
                m.what[i] = NONE;
            }
            break;
        default:
            assert_int_equal(iop_seen_has(s, &key, now), was == COMMITTED);
            break;
        }
        if (step % 100 == 0) {
            (void)iop_seen_expire(s, now);
        }
    }
    iop_seen_free(s);
}

static void test_seen__full__oldest_goes_but_never_a_young_one(void **state)
{
    struct iop_seen *s = make(ENTRIES);
    struct iop_seen_stats stats;

    (void)state;
    for (unsigned i = 0; i < ENTRIES; i++) {
        struct iop_key key = key_of(i);

        assert_int_equal(iop_seen_reserve(s, &key, 1000 + i), RON_OK);
        iop_seen_commit(s, &key);
    }
    assert_int_equal(iop_seen_reserve(s, &(struct iop_key){{99}}, 1000 + KEEP - 1), RON_FULL);
    assert_true(iop_seen_has(s, &(struct iop_key){{0}}, 1000 + KEEP - 1));
    assert_int_equal(iop_seen_reserve(s, &(struct iop_key){{99}}, 1000 + KEEP), RON_OK);
    assert_false(iop_seen_has(s, &(struct iop_key){{0}}, 1000 + KEEP));
    iop_seen_get_stats(s, &stats);
    assert_int_equal(stats.evicted, 1);
    assert_int_equal(stats.refused, 1);
    assert_int_equal(stats.committed, ENTRIES - 1);
    assert_int_equal(stats.reserved, 1);
    iop_seen_free(s);
}

/* A window that grows while the service runs holds at once; one beyond the time of keys is cut. */
static void test_seen__keep_set_anew__holds_from_then_on(void **state)
{
    struct iop_seen *s = make(ENTRIES);
    struct iop_seen_stats stats;

    (void)state;
    for (unsigned i = 0; i < ENTRIES; i++) {
        struct iop_key key = key_of(i);

        assert_int_equal(iop_seen_load(s, &key, 1000), RON_OK);
    }
    iop_seen_set_keep(s, 3 * KEEP);
    assert_int_equal(iop_seen_reserve(s, &(struct iop_key){{99}}, 1000 + 2 * KEEP), RON_FULL);
    assert_int_equal(iop_seen_reserve(s, &(struct iop_key){{99}}, 1000 + 3 * KEEP), RON_OK);
    iop_seen_set_keep(s, 100 * TTL);
    assert_int_equal(iop_seen_reserve(s, &(struct iop_key){{98}}, 1000 + TTL - 1), RON_FULL);
    assert_int_equal(iop_seen_reserve(s, &(struct iop_key){{98}}, 1000 + TTL), RON_OK);
    iop_seen_get_stats(s, &stats);
    assert_int_equal(stats.refused, 2);
    assert_int_equal(stats.evicted, 2);
    iop_seen_free(s);
}

static void test_seen__loaded__the_newest_fit(void **state)
{
    struct iop_seen *s = make(ENTRIES);

    (void)state;
    for (unsigned i = 0; i < ENTRIES + 4; i++) {
        struct iop_key key = key_of(i);

        assert_int_equal(iop_seen_load(s, &key, 1000 + i), RON_OK);
        assert_int_equal(iop_seen_load(s, &key, 1000 + i), RON_EXISTS);
    }
    for (unsigned i = 0; i < ENTRIES + 4; i++) {
        struct iop_key key = key_of(i);

        assert_int_equal(iop_seen_has(s, &key, 1050), i >= 4);
    }
    iop_seen_free(s);
}

static void test_seen__key__depends_on_everything_and_the_secret(void **state)
{
    struct iop_seen *s = make(4);
    struct iop_seen_opts other = {
        .entries_max = 4, .ttl_ms = TTL, .keep_ms = KEEP, .secret = {1, 2, 3}};
    struct iop_seen *t = NULL;
    struct ron_b3 body = {{7}};
    struct iop_key keys[6];

    (void)state;
    assert_int_equal(iop_seen_new(&other, &t, NULL), RON_OK);
    iop_seen_key(s, (struct ron_str){"github", 6}, (struct ron_str){"1", 1}, &body, &keys[0]);
    iop_seen_key(s, (struct ron_str){"stripe", 6}, (struct ron_str){"1", 1}, &body, &keys[1]);
    iop_seen_key(s, (struct ron_str){"github", 6}, (struct ron_str){"2", 1}, &body, &keys[2]);
    iop_seen_key(s, (struct ron_str){"github", 6}, (struct ron_str){"", 0}, &body, &keys[3]);
    iop_seen_key(t, (struct ron_str){"github", 6}, (struct ron_str){"1", 1}, &body, &keys[4]);
    iop_seen_key(s, (struct ron_str){"github1", 7}, (struct ron_str){"", 0}, &body, &keys[5]);
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < i; k++) {
            assert_memory_not_equal(keys[i].bytes, keys[k].bytes, IOP_KEY_BYTES);
        }
    }
    iop_seen_key(s, (struct ron_str){"github", 6}, (struct ron_str){"1", 1}, NULL, &keys[1]);
    assert_memory_equal(keys[0].bytes, keys[1].bytes, IOP_KEY_BYTES);
    iop_seen_free(s);
    iop_seen_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seen__random_run__as_the_model_says),
        cmocka_unit_test(test_seen__full__oldest_goes_but_never_a_young_one),
        cmocka_unit_test(test_seen__keep_set_anew__holds_from_then_on),
        cmocka_unit_test(test_seen__loaded__the_newest_fit),
        cmocka_unit_test(test_seen__key__depends_on_everything_and_the_secret),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
