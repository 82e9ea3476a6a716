/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whatever the disk does, the index holds what a commit has made, or it is a fresh one; it
 * never misses a key that it answers for. A crash alone never costs a commit (X1).
 * Method: a life with flushes, merges and images on the simulated disk. Power is lost in each of
 * its disk operations in turn: before, within or after it, with writes that are kept, dropped or
 * torn. Then many lives per seed with all faults of the disk. The oracle is the number of the last
 * key. */
#include "sim/simtest.h"

#include "ledger/index/index.h"
#include "ron/base/alloc.h"

enum { SEEDS = 200, LIVES = 4, STEPS = 9, IMAGE_EVERY = 3, KEYS_MAX = 20000, CHUNK = 700 };

struct world {
    struct sim *sim;
    struct sim_host *host;
    struct led_index *ix;
    uint64_t acked;  /* every key up to it must be found */
    uint64_t handed; /* none behind it may be promised */
    uint64_t image;  /* of the last commit that was acknowledged */
    bool spoils;     /* this disk changes or loses bytes that were synced */
    uint64_t fresh;
};

static struct led_key key_of(uint64_t n)
{
    uint64_t state = n;

    return (struct led_key){.a = ron_splitmix64(&state), .b = n};
}

static struct ron_str text_of(uint64_t n, char text[24])
{
    return (struct ron_str){text, (size_t)snprintf(text, 24, "%020llu", (unsigned long long)n)};
}

static enum ron_rc see_chunk(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    const struct world *w = arg;
    const uint8_t *at = bytes;

    (void)err;
    SIM_CHECK(w->sim, len == CHUNK || len == 10);
    for (size_t i = 0; i < len; i++) {
        SIM_CHECK(w->sim, at[i] == at[0]);
    }
    return RON_OK;
}

static void check(struct world *w, const struct led_index_state *st)
{
    char text[24];

    SIM_CHECK(w->sim, st->applied_seq <= w->handed);
    SIM_CHECK(w->sim, w->spoils || (st->applied_seq >= w->acked && st->image_seq >= w->image));
    SIM_CHECK(w->sim, w->spoils || !st->fresh || w->acked == 0);
    for (uint64_t n = 1; n <= st->applied_seq; n += n % 7 == 0 ? 5 : 1) {
        uint64_t seqs[LED_INDEX_FOUND_MAX];
        bool found = false;
        size_t count = 0;
        enum ron_rc rc;

        SIM_CHECK(w->sim, led_index_maybe(w->ix, LED_INDEX_ID, key_of(n), text_of(n, text)));
        rc = led_index_find(w->ix, LED_INDEX_ID, key_of(n), seqs, &count, NULL);
        for (size_t i = 0; rc == RON_OK && i < count; i++) {
            found = found || seqs[i] == n;
        }
        SIM_CHECK(w->sim,
                  found || (rc != RON_OK && (w->spoils || sim_env_is_dead(sim_host_env(w->host)))));
    }
    if (st->image_seq != 0) {
        enum ron_rc rc = led_index_load_image(w->ix, see_chunk, w, NULL);

        SIM_CHECK(w->sim, rc == RON_OK || w->spoils || sim_env_is_dead(sim_host_env(w->host)));
    }
}

static bool start(struct world *w)
{
    struct led_index_opts opts = {.env = sim_host_env(w->host),
                                  .path = "/data/index",
                                  .run_entries = 64,
                                  .uuid = "sixteen bytes .."};
    struct led_index_state st;

    if (led_index_open(&opts, &w->ix, &st, NULL) != RON_OK) {
        w->ix = NULL;
        return false;
    }
    if (sim_env_is_dead(opts.env)) { /* what it found is of no account any more */
        return false;
    }
    check(w, &st);
    w->fresh += st.fresh;
    w->acked = st.applied_seq;
    w->image = st.image_seq;
    return true;
}

static enum ron_rc add_keys(struct world *w, uint64_t from, uint64_t to)
{
    char text[24];

    for (uint64_t n = from; n <= to; n++) {
        RON_TRY(led_index_add(w->ix, LED_INDEX_ID, key_of(n), text_of(n, text), n, NULL));
        if (n % 3 == 0) {
            RON_TRY(led_index_add_skip(w->ix, key_of(n % 5), n, NULL));
        }
    }
    return RON_OK;
}

static enum ron_rc step(struct world *w, uint64_t number)
{
    uint64_t to = w->acked + 1 + number * 37 % 150;
    struct ron_tree_hash root;
    uint8_t chunk[CHUNK];

    w->handed = RON_MAX(w->handed, to);
    RON_TRY(add_keys(w, w->acked + 1, to));
    if (number % IMAGE_EVERY == 0) {
        memset(chunk, (int)to, sizeof chunk);
        RON_TRY(led_index_put_image(w->ix, to, 0, chunk, sizeof chunk, false, NULL));
        RON_TRY(led_index_put_image(w->ix, to, 1, chunk, 10, true, NULL));
    }
    ron_tree_hash_empty(&root);
    RON_TRY(led_index_commit(w->ix, to, &root, NULL));
    if (!sim_env_is_dead(sim_host_env(w->host))) {
        w->acked = to;
        w->image = number % IMAGE_EVERY == 0 ? to : w->image;
    }
    return RON_OK;
}

static void live(struct world *w, uint64_t first)
{
    for (uint64_t i = 0; i < STEPS && w->acked < KEYS_MAX; i++) {
        if (step(w, first + i) != RON_OK) {
            SIM_CHECK(w->sim, sim_env_is_dead(sim_host_env(w->host)) ||
                                  led_index_applied(w->ix) == w->acked);
        }
        if (sim_env_is_dead(sim_host_env(w->host))) {
            return;
        }
    }
}

static void stop(struct world *w)
{
    led_index_close(w->ix);
    w->ix = NULL;
}

/* ---- power lost in each operation ------------------------------------------------------------ */

/* Two lives, power lost in operation `op` of them (0: never), a third that looks. Returns the
 * operations of the first two. */
static uint64_t lose_power_in(uint64_t op, uint64_t seed)
{
    struct sim_opts opts = sim_opts_calm();
    struct world w = {0};
    uint64_t ops;

    opts.crash_apply_weight = 1 + seed % 3;
    opts.crash_drop_weight = 1 + seed / 3 % 3;
    opts.crash_tear_weight = seed / 9 % 3;
    opts.crash_keep_meta_ppm = seed % 4 * 300000;
    w.sim = sim_new(seed, &opts);
    w.host = sim_host_new(w.sim, "ledger");
    sim_host_power_loss_in(w.host, op);
    for (uint64_t life = 0; life < 2; life++) {
        if (start(&w)) {
            live(&w, life * STEPS);
        }
        stop(&w);
        if (sim_env_is_dead(sim_host_env(w.host))) {
            break;
        }
    }
    ops = sim_host_disk_ops(w.host);
    sim_host_power_loss_in(w.host, 0);
    if (!sim_env_is_dead(sim_host_env(w.host))) {
        sim_host_power_loss(w.host);
    }
    for (uint64_t life = 0; life < 2; life++) {
        (void)sim_host_boot(w.host);
        SIM_CHECK(w.sim, start(&w));
        live(&w, 7 + life);
        stop(&w);
        sim_host_power_loss(w.host);
    }
    sim_free(w.sim);
    return ops;
}

static void test_led_index__power_lost_in_each_operation__costs_no_commit(void **state)
{
    uint64_t ops = lose_power_in(0, 1);

    (void)state;
    assert_true(ops > 100);
    for (uint64_t op = 1; op <= ops; op++) {
        (void)lose_power_in(op, op * 7919);
    }
    print_message("power lost in each of %llu operations\n", (unsigned long long)ops);
}

/* ---- all faults ------------------------------------------------------------------------------ */

static bool spoils(const struct sim_opts *o)
{
    return o->crash_misdirect_weight > 0 || o->crash_garble_weight > 0 || o->disk_rot_ppm > 0 ||
           o->disk_bad_sector_ppm > 0 || o->disk_sync_fail_ppm > 0;
}

static uint64_t run(uint64_t seed)
{
    struct sim_opts opts = sim_opts_swarm(seed);
    struct world w = {.spoils = spoils(&opts)};

    w.sim = sim_new(seed, &opts);
    w.host = sim_host_new(w.sim, "ledger");
    for (uint64_t life = 0; life < LIVES; life++) {
        struct ron_rand *rand = sim_rand(w.sim);

        if (ron_rand_chance(rand, 2, 3)) {
            sim_host_power_loss_in(w.host, ron_rand_range(rand, 1, 400));
        }
        if (start(&w)) {
            live(&w, ron_rand_below(rand, 100));
        }
        stop(&w);
        sim_host_power_loss_in(w.host, 0);
        if (!sim_env_is_dead(sim_host_env(w.host))) {
            if (ron_rand_chance(rand, 1, 2)) {
                sim_host_kill(w.host);
            } else {
                sim_host_power_loss(w.host);
            }
        }
        (void)sim_host_boot(w.host);
    }
    sim_free(w.sim);
    return w.fresh;
}

static void test_led_index__all_faults__an_earlier_commit_or_a_fresh_index(void **state)
{
    struct ron_rand rand = support_rand();
    uint64_t fresh = 0;

    (void)state;
    for (unsigned i = 0; i < SEEDS; i++) {
        fresh += run(ron_rand_u64(&rand));
    }
    print_message("%d seeds, %d lives each, %llu times a fresh index\n", SEEDS, LIVES,
                  (unsigned long long)fresh);
    assert_true(fresh > SEEDS); /* each begins with one, and damage makes more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_index__power_lost_in_each_operation__costs_no_commit),
        cmocka_unit_test(test_led_index__all_faults__an_earlier_commit_or_a_fresh_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
