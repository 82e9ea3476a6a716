/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: many threads ask one pack, and its successor, for tiles at once, and each gets the bytes
 * and the tag of its tile; nothing is left when the last one lets go.
 * Method: threads with a cache so small that blocks, leaves and tags are pushed out all the time;
 * half of them never wait, as loops do. Meant for the thread sanitizer. */
#include "unit/edge/pack_fixture.h"

#include "ron/base/assert.h"
#include "ron/sync/sync.h"

enum { THREADS = 4, TILES = 300, EACH = 150, ROUNDS = 4000 };

struct crowd {
    struct pk_world world;
    struct edg_pack *packs[2];
    struct edg_pmt_entry entries[TILES];
    uint8_t bytes[TILES * EACH];
    struct ron_b3 tags[TILES];
    struct ron_au32 next; /* number of the thread */
    struct ron_stat served;
};

/* Wrong bytes end the test from whatever thread they are seen on. */
static void look(struct crowd *c, size_t i, const struct edg_tile *t)
{
    uint8_t copy[EACH];
    size_t got = 0;

    RON_ASSERT(t->blob.length == EACH);
    RON_ASSERT(ron_b3_equal(&t->tag, &c->tags[i]));
    if (t->blob.bytes != NULL) {
        RON_ASSERT(memcmp(t->blob.bytes, c->bytes + i * EACH, EACH) == 0);
    } else {
        RON_ASSERT(c->world.env->disk->pread(c->world.env, t->blob.fd, copy, EACH, t->blob.offset,
                                             &got) == RON_OK);
        RON_ASSERT(got == EACH && memcmp(copy, c->bytes + i * EACH, EACH) == 0);
    }
    t->blob.release(t->blob.arg);
    ron_stat_add(&c->served, 1);
}

static void ask(void *arg)
{
    struct crowd *c = arg;
    uint32_t me = ron_au32_add(&c->next, 1);
    struct ron_rand rand;

    ron_rand_seed(&rand, support_seed() + me);
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = (size_t)ron_rand_below(&rand, TILES);
        struct edg_pack *p = edg_pack_ref(c->packs[round % 2]);
        struct edg_zxy at = {0};
        struct edg_tile t;
        enum ron_rc rc;

        RON_ASSERT(edg_tile_zxy(i, &at));
        rc = edg_pack_tile(p, at.z, at.x, at.y, &t, NULL);
        if (rc == RON_AGAIN && me % 2 == 0) {
            rc = edg_pack_tile_wait(p, at.z, at.x, at.y, &t, NULL);
            RON_ASSERT(rc == RON_OK);
        }
        RON_ASSERT(rc == RON_OK || rc == RON_AGAIN);
        edg_pack_unref(p);
        if (rc == RON_OK) {
            look(c, i, &t);
        }
    }
}

static void test_pack_threads__a_crowd_and_a_small_cache__each_its_tile(void **state)
{
    static const struct edg_pack_cache_opts tight = {
        .leaf_bytes_max = 4000, .tile_bytes_max = 6000, .tags_max = 32};
    static struct crowd c;
    struct ron_rand rand = support_rand();
    struct ron_thread *threads[THREADS] = {0};
    struct pk_spec s = {.internal = EDG_CODING_GZIP,
                        .tile_coding = EDG_CODING_NONE,
                        .zoom_max = 4,
                        .entries = c.entries,
                        .count = TILES,
                        .levels = 1,
                        .per_leaf = 40,
                        .tiles = c.bytes,
                        .tiles_len = sizeof c.bytes};

    (void)state;
    ron_rand_bytes(&rand, c.bytes, sizeof c.bytes);
    for (size_t i = 0; i < TILES; i++) {
        c.entries[i] =
            (struct edg_pmt_entry){.tile_id = i, .offset = i * EACH, .length = EACH, .run = 1};
        ron_b3_hash(c.bytes + i * EACH, EACH, &c.tags[i]);
    }
    pk_begin_with(&c.world, &tight);
    assert_int_equal(pk_mount(&c.world, &s, &c.packs[0]), RON_OK);
    assert_int_equal(pk_open(&c.world, "a.pmtiles", &c.packs[1]), RON_OK);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(
            ron_thread_start(
                &(struct ron_thread_opts){.name = "ask", .may_block = true, .main = ask, .arg = &c},
                &threads[i], NULL),
            RON_OK);
    }
    for (size_t i = 0; i < THREADS; i++) {
        ron_thread_join(threads[i]);
    }
    assert_true(ron_stat_get(&c.served) >= (uint64_t)THREADS / 2 * ROUNDS);
    edg_pack_unref(c.packs[0]);
    edg_pack_unref(c.packs[1]);
    pk_end(&c.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack_threads__a_crowd_and_a_small_cache__each_its_tile),
    };

    return cmocka_run_group_tests_name("pack_threads", tests, NULL, NULL);
}
