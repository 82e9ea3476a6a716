/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the content store on a disk that fails: a committed object is there after any crash, or is
 * found damaged; it is never served wrong; nothing half-written is ever visible; a full disk or a
 * failed sync fails the commit and harms nothing else.
 * Method: many lives of one machine per seed, power lost inside any disk operation or the process
 * killed, faults by swarm. The oracle is a table of numbers: which were acknowledged, which were
 * removed or may have been evicted. Objects follow from their numbers. In a second world three
 * fibers write, read and remove the same few objects at once. A store that acknowledges before its
 * folder is synced, or before its file is, must be caught. */
#include "sim/simtest.h"

#include "cas/cas_priv.h"
#include "model/weave/weave.h"
#include "ron/cas/cas.h"
#include "ron/sync/sync.h"
#include "support/rand.h"

enum {
    SEEDS = 600,
    FIBER_SEEDS = 300,
    LIVES = 4,
    NUMBERS = 24,
    STEPS = 40,
    LEN_MAX = 200000, /* small ones, and some that are served from their file */
    PIECE = 65536,
    ROOMY = 100000000, /* nothing is ever evicted */
    TIGHT = 300000,
};

enum promise { NEVER, MAYBE, MUST };

struct world {
    struct sim *sim;
    struct sim_host *host;
    const struct ron_env *env;
    struct ron_cas *store;
    uint64_t salt;
    uint64_t bytes_max;
    enum promise promise[NUMBERS];
    /* What was met, over all lives. */
    uint64_t commits;
    uint64_t served;
    uint64_t damaged;
};

static uint64_t all_commits;
static uint64_t all_served;
static uint64_t all_damaged;
static uint64_t all_refused;

static size_t object_of(const struct world *w, unsigned number, uint8_t bytes[LEN_MAX])
{
    struct ron_rand rand;
    size_t len;

    ron_rand_seed(&rand, w->salt + number);
    len = number % 8 == 7 ? (size_t)ron_rand_range(&rand, 70000, LEN_MAX)
                          : (size_t)ron_rand_below(&rand, 5000);
    ron_rand_bytes(&rand, bytes, len);
    return len;
}

static struct ron_b3 id_of(const struct world *w, unsigned number)
{
    static uint8_t bytes[LEN_MAX];
    struct ron_b3 id;

    ron_b3_hash(bytes, object_of(w, number, bytes), &id);
    return id;
}

static enum ron_rc write_object(struct world *w, unsigned number, struct ron_rand *rand)
{
    uint8_t *bytes = malloc(LEN_MAX);
    size_t len = object_of(w, number, bytes);
    struct ron_cas_writer *writer = NULL;
    struct ron_b3 want = id_of(w, number);
    struct ron_b3 id = {{0}};
    enum ron_rc rc =
        ron_cas_begin(w->store, &(struct ron_cas_write_opts){.expected = &want}, &writer, NULL);

    for (size_t at = 0; rc == RON_OK && at < len;) {
        size_t piece = RON_MIN((size_t)ron_rand_range(rand, 1, PIECE), len - at);

        rc = ron_cas_append(writer, bytes + at, piece, NULL);
        at += piece;
    }
    free(bytes);
    if (rc != RON_OK) {
        ron_cas_abort(writer);
        return rc;
    }
    rc = ron_cas_commit(writer, &id, NULL);
    SIM_CHECK(w->sim, rc != RON_OK || ron_b3_equal(&id, &want));
    return rc;
}

/* Whatever is handed out must be right. Rot that strikes a file after it was checked is the one
 * thing a store cannot see; the bytes of files are therefore compared with the disk's faults as
 * they were at the check: the caller has switched new rot off. */
static enum ron_rc read_object(struct world *w, unsigned number)
{
    uint8_t *want = malloc(LEN_MAX);
    uint8_t *got = malloc(LEN_MAX);
    size_t len = object_of(w, number, want);
    struct ron_b3 id = id_of(w, number);
    struct ron_cas_obj *obj = NULL;
    size_t n = 0;
    enum ron_rc rc = ron_cas_open(w->store, &id, &obj, NULL);

    if (rc == RON_OK) {
        SIM_CHECK(w->sim, ron_cas_obj_size(obj) == len);
        rc = ron_cas_read(obj, 0, got, len, &n);
        SIM_CHECK(w->sim, rc != RON_OK || (n == len && memcmp(got, want, len) == 0));
        w->served += rc == RON_OK;
        ron_cas_release(obj);
    }
    free(want);
    free(got);
    return rc;
}

/* ---- one after another ----------------------------------------------------------------------- */

static enum ron_rc start(struct world *w)
{
    struct ron_cas_opts opts = {.env = w->env,
                                .dir = "/data/cas",
                                .bytes_max = w->bytes_max,
                                .objects_max = 4096,
                                .open_max = 2,
                                .cache_bytes_max = 8192,
                                .free_floor_bytes = RON_CAS_NO_FLOOR};

    return ron_cas_new(&opts, &w->store, NULL);
}

/* Objects that went without being asked to: evicted, or found damaged. */
static uint64_t departures(struct world *w)
{
    struct ron_cas_stats stats;

    ron_cas_get_stats(w->store, &stats);
    return stats.evictions + stats.quarantined;
}

static void step(struct world *w, struct ron_rand *rand)
{
    unsigned number = (unsigned)ron_rand_below(rand, NUMBERS);
    uint64_t before = departures(w);
    struct ron_b3 id = id_of(w, number);
    bool written = false;
    enum ron_rc rc;

    switch (ron_rand_below(rand, 8)) {
    case 0:
        rc = ron_cas_remove(w->store, &id, NULL);
        /* Not in the index is no promise about the disk: a failed commit may have left it. */
        if (w->promise[number] == MUST) {
            w->promise[number] = MAYBE;
        }
        if (rc == RON_OK) {
            w->promise[number] = NEVER;
            SIM_CHECK(w->sim, read_object(w, number) != RON_OK);
        }
        break;
    case 1:
        RON_IGNORE(ron_cas_load(w->store, NULL, NULL, NULL)); /* may fail: works without */
        break;
    case 2:
        (void)ron_cas_scrub(w->store, 20000);
        break;
    case 3:
    case 4:
        rc = read_object(w, number);
        SIM_CHECK(w->sim, rc != RON_OK || w->promise[number] != NEVER);
        if (rc == RON_CORRUPT) {
            w->promise[number] = MAYBE;
        }
        break;
    default:
        rc = write_object(w, number, rand);
        w->commits += rc == RON_OK;
        all_refused += rc != RON_OK;
        /* A failed commit may leave the (right) object; it cannot take back an earlier one. */
        written = rc == RON_OK;
        if (written) {
            w->promise[number] = MUST;
        } else if (w->promise[number] == NEVER) {
            w->promise[number] = MAYBE;
        }
        break;
    }
    /* What is made room by may go although its removal is reported as failed. */
    if (departures(w) != before || (sim_env_is_dead(w->env) && w->bytes_max < ROOMY)) {
        for (unsigned i = 0; i < NUMBERS; i++) {
            bool stays = i == number && written;

            w->promise[i] = w->promise[i] == MUST && !stays ? MAYBE : w->promise[i];
        }
    }
}

static void live(struct world *w)
{
    struct ron_rand *rand = sim_rand(w->sim);

    for (int i = 0; i < STEPS && !sim_env_is_dead(w->env); i++) {
        step(w, rand);
    }
}

/* Every promise, on a disk that fails no more but keeps the damage it has. */
static bool judge(struct world *w)
{
    *sim_options(w->sim) = sim_opts_calm();
    w->env = sim_host_env(w->host);
    w->bytes_max = ROOMY; /* refilling shall not evict what is still to be looked at */
    SIM_CHECK(w->sim, start(w) == RON_OK);
    SIM_CHECK(w->sim, ron_cas_load(w->store, NULL, NULL, NULL) == RON_OK);
    for (unsigned i = 0; i < NUMBERS; i++) {
        enum ron_rc rc = read_object(w, i);
        bool lost = w->promise[i] == MUST && rc == RON_NOTFOUND;

        w->damaged += rc == RON_CORRUPT || rc == RON_IO;
        SIM_CHECK(w->sim, rc == RON_OK || rc == RON_NOTFOUND || rc == RON_CORRUPT || rc == RON_IO);
        SIM_CHECK(w->sim, rc != RON_OK || w->promise[i] != NEVER);
        if (lost) {
            return false;
        }
        /* A damaged one is refilled, and then it is there. */
        if (rc != RON_OK) {
            SIM_CHECK(w->sim, write_object(w, i, sim_rand(w->sim)) == RON_OK);
            SIM_CHECK(w->sim, read_object(w, i) == RON_OK);
        }
    }
    return true;
}

/* What a broken store would do. */
enum mistake { NONE, NO_FILE_SYNC, NO_FOLDER_SYNC };

static enum mistake mistake;
static struct ron_disk_ops lying_disk;
static const struct ron_disk_ops *true_disk;

static enum ron_rc lying_sync(const struct ron_env *env, int fd, bool data_only,
                              struct ron_err *err)
{
    return mistake == NO_FILE_SYNC ? RON_OK : true_disk->sync(env, fd, data_only, err);
}

static enum ron_rc lying_sync_dir(const struct ron_env *env, const char *path, struct ron_err *err)
{
    return mistake == NO_FOLDER_SYNC ? RON_OK : true_disk->sync_dir(env, path, err);
}

/* Puts the lying disk into an environment of the simulator, which is not to be copied. */
static void make_lie(const struct ron_env *env)
{
    struct ron_env *open_env = NULL;

    memcpy(&open_env, &env, sizeof open_env);
    true_disk = env->disk;
    lying_disk = *env->disk;
    lying_disk.sync = lying_sync;
    lying_disk.sync_dir = lying_sync_dir;
    open_env->disk = &lying_disk;
}

/* Returns whether all promises were kept. */
static bool run(uint64_t seed, const struct sim_opts *opts)
{
    struct world w = {.salt = seed * 1000};
    bool kept;

    w.sim = sim_new(seed, opts);
    w.host = sim_host_new(w.sim, "store");
    w.bytes_max = ron_rand_chance(sim_rand(w.sim), 1, 3) ? TIGHT : ROOMY;
    for (int i = 0; i < LIVES; i++) {
        uint64_t ops =
            ron_rand_range(sim_rand(w.sim), 1, ron_rand_chance(sim_rand(w.sim), 1, 2) ? 1000 : 60);
        w.env = sim_host_env(w.host);
        if (mistake != NONE) {
            make_lie(w.env);
        }
        sim_host_power_loss_in(w.host, ops);
        if (start(&w) == RON_OK) {
            live(&w);
            ron_cas_free(w.store);
        }
        if (!sim_env_is_dead(sim_host_env(w.host))) {
            sim_host_power_loss_in(w.host, 0);
            if (ron_rand_chance(sim_rand(w.sim), 1, 4)) {
                sim_host_kill(w.host);
            } else {
                sim_host_power_loss(w.host);
            }
        }
        (void)sim_host_boot(w.host);
    }
    kept = judge(&w);
    ron_cas_free(w.store);
    if (mistake == NONE) {
        SIM_CHECK(w.sim, kept);
    }
    all_commits += w.commits;
    all_served += w.served;
    all_damaged += w.damaged;
    sim_free(w.sim);
    return kept;
}

static void test_cas__any_crash_and_fault__kept_or_known_damaged(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    mistake = NONE;
    all_commits = all_served = all_damaged = all_refused = 0;
    for (uint64_t i = 0; i < SEEDS; i++) {
        /* Rot strikes what is read: once more than half of the bytes served from a file would be
         * struck after the check, there is nothing to compare. So rot comes by judge's reading of
         * what swarms left, and by the case below. */
        struct sim_opts opts = sim_opts_swarm(seed + i);

        opts.disk_rot_ppm = 0;
        (void)run(seed + i, &opts);
    }
    print_message("%llu commits, %llu refused, %llu served, %llu damaged\n",
                  (unsigned long long)all_commits, (unsigned long long)all_refused,
                  (unsigned long long)all_served, (unsigned long long)all_damaged);
    assert_true(all_commits > 1000);
    assert_true(all_served > 1000);
    assert_true(all_refused > 100);
}

static void test_cas__syncs_left_out__noticed(void **state)
{
    static const char *const names[] = {"", "no sync of files", "no sync of folders"};
    uint64_t seed = support_seed();

    (void)state;
    for (mistake = NO_FILE_SYNC; mistake <= NO_FOLDER_SYNC; mistake++) {
        unsigned caught = 0;

        for (uint64_t i = 0; i < 100; i++) {
            struct sim_opts opts = sim_opts_calm();

            opts.crash_drop_weight = 3;
            opts.crash_tear_weight = 1;
            opts.crash_keep_meta_ppm = 200000;
            all_damaged = 0;
            caught += !run(seed + i, &opts) || all_damaged > 0;
        }
        print_message("%s: caught by %u of 100 seeds\n", names[mistake], caught);
        assert_true(caught > 10);
    }
    mistake = NONE;
}

static void test_cas__bit_rot__never_served(void **state)
{
    uint64_t seed = support_seed();
    uint64_t damaged = 0;

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        const struct sim_opts calm = sim_opts_calm();
        struct world w = {.salt = seed + i, .bytes_max = ROOMY};
        struct ron_rand *rand;
        bool hit[NUMBERS] = {false};

        w.sim = sim_new(seed + i, &calm);
        rand = sim_rand(w.sim);
        w.host = sim_host_new(w.sim, "store");
        w.env = sim_host_env(w.host);
        SIM_CHECK(w.sim, start(&w) == RON_OK);
        for (unsigned n = 0; n < NUMBERS; n++) {
            SIM_CHECK(w.sim, write_object(&w, n, rand) == RON_OK);
        }
        ron_cas_free(w.store);
        for (unsigned n = 0; n < NUMBERS; n++) {
            struct ron_b3 id = id_of(&w, n);
            uint8_t *bytes = malloc(LEN_MAX);
            size_t len = object_of(&w, n, bytes);
            char hex[RON_B3_HEX_LEN];
            char path[128];

            free(bytes);
            ron_b3_format_hex(&id, hex);
            (void)snprintf(path, sizeof path, "/data/cas/objects/%.2s/%.2s/%.64s", hex, hex + 2,
                           hex);
            hit[n] = len > 0 && ron_rand_chance(rand, 1, 2);
            if (hit[n] && ron_rand_chance(rand, 1, 5)) {
                sim_disk_bad_sector(w.host, path, ron_rand_below(rand, len));
            } else if (hit[n]) {
                sim_disk_flip_bit(w.host, path, ron_rand_below(rand, len),
                                  (unsigned)ron_rand_below(rand, 8));
            }
        }
        SIM_CHECK(w.sim, start(&w) == RON_OK);
        if (ron_rand_chance(rand, 1, 2)) {
            SIM_CHECK(w.sim, ron_cas_load(w.store, NULL, NULL, NULL) == RON_OK);
        }
        for (unsigned n = 0; n < NUMBERS; n++) {
            enum ron_rc rc = read_object(&w, n);

            SIM_CHECK(w.sim, hit[n] ? rc == RON_CORRUPT || rc == RON_IO : rc == RON_OK);
            damaged += hit[n];
            SIM_CHECK(w.sim, write_object(&w, n, rand) == RON_OK);
            SIM_CHECK(w.sim, read_object(&w, n) == RON_OK);
        }
        ron_cas_free(w.store);
        sim_free(w.sim);
    }
    assert_true(damaged > 500);
}

/* ---- at once --------------------------------------------------------------------------------- */

enum { FIBERS = 3, FEW = 6, FIBER_STEPS = 25 };

struct fiber {
    struct world *w;
    struct ron_rand rand;
};

static void fiber_main(void *arg)
{
    struct fiber *f = arg;
    struct world *w = f->w;

    for (int i = 0; i < FIBER_STEPS; i++) {
        unsigned number = (unsigned)ron_rand_below(&f->rand, FEW);
        struct ron_b3 id = id_of(w, number);
        struct ron_cas_obj *obj = NULL;
        enum ron_rc rc;

        switch (ron_rand_below(&f->rand, 6)) {
        case 0:
            RON_IGNORE(ron_cas_remove(w->store, &id, NULL)); /* any outcome is fine */
            break;
        case 1:
            (void)ron_cas_scrub(w->store, 1000);
            break;
        case 2:
            rc = ron_cas_get(w->store, &id, &obj);
            ron_cas_release(rc == RON_OK ? obj : NULL);
            break;
        case 3:
            RON_IGNORE(ron_cas_load(w->store, NULL, NULL, NULL)); /* beside all others */
            break;
        case 4:
            rc = read_object(w, number);
            SIM_CHECK(w->sim, rc == RON_OK || rc == RON_NOTFOUND);
            break;
        default:
            rc = write_object(w, number, &f->rand);
            SIM_CHECK(w->sim, rc == RON_OK);
            w->commits++;
            break;
        }
    }
}

static void fiber_world(void *arg)
{
    static const char *const names[FIBERS] = {"one", "two", "three"};
    struct world *w = arg;
    const struct sim_opts calm = sim_opts_calm();
    struct fiber fiber[FIBERS];
    struct ron_thread *thread[FIBERS];
    struct ron_cas_stats stats;
    uint64_t total = 0;

    w->sim = sim_new(w->salt, &calm);
    w->host = sim_host_new(w->sim, "store");
    w->env = sim_host_env(w->host);
    SIM_CHECK(w->sim, start(w) == RON_OK);
    for (size_t i = 0; i < FIBERS; i++) {
        const struct ron_thread_opts opts = {
            .name = names[i], .may_block = true, .main = fiber_main, .arg = &fiber[i]};

        fiber[i] = (struct fiber){.w = w, .rand = ron_rand_fork(sim_rand(w->sim))};
        SIM_CHECK(w->sim, ron_thread_start(&opts, &thread[i], NULL) == RON_OK);
    }
    for (size_t i = 0; i < FIBERS; i++) {
        ron_thread_join(thread[i]);
    }
    /* The books agree with what is there. */
    SIM_CHECK(w->sim, ron_cas_load(w->store, NULL, NULL, NULL) == RON_OK);
    for (unsigned n = 0; n < FEW; n++) {
        uint8_t *bytes = malloc(LEN_MAX);

        total += read_object(w, n) == RON_OK ? object_of(w, n, bytes) : 0;
        free(bytes);
    }
    ron_cas_get_stats(w->store, &stats);
    SIM_CHECK(w->sim, w->bytes_max < ROOMY || stats.bytes == total);
    SIM_CHECK(w->sim, stats.quarantined == 0);
    SIM_CHECK(w->sim, stats.held == 0);
    ron_cas_free(w->store);
    sim_free(w->sim);
}

static void test_cas__same_objects_at_once__writers_agree(void **state)
{
    static struct weave_result result;
    uint64_t seed = support_seed();
    uint64_t commits = 0;

    (void)state;
    for (uint64_t i = 0; i < FIBER_SEEDS; i++) {
        struct world w = {.salt = seed + i, .bytes_max = i % 2 == 0 ? ROOMY : TIGHT};

        weave_run_seeded(fiber_world, &w, seed + i, NULL, &result);
        if (result.failed) {
            fail_msg("seed %llu: %s: %s", (unsigned long long)(seed + i), result.kind,
                     result.message);
        }
        commits += w.commits;
    }
    print_message("%llu commits at once\n", (unsigned long long)commits);
    assert_true(commits > FIBER_SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cas__any_crash_and_fault__kept_or_known_damaged),
        cmocka_unit_test(test_cas__syncs_left_out__noticed),
        cmocka_unit_test(test_cas__bit_rot__never_served),
        cmocka_unit_test(test_cas__same_objects_at_once__writers_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
