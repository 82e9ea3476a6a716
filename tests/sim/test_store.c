/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a store written with care survives the simulated disk, and the usual mistakes do not go
 * unnoticed; so the simulator is neither too cruel nor too kind.
 * Method: an append-only log with chained checksums, many machine lives per seed, power lost inside
 * any disk operation. The oracle knows which records were acknowledged. Variants with one mistake
 * each must be caught. */
#include "sim/simtest.h"

#include "base/rand_priv.h"
#include "ron/io/file.h"

/* What the variant does wrong. */
enum mistake { NONE, ACK_BEFORE_SYNC, NO_SYNC_DIR, RETRY_SYNC, NO_CHECKSUM };

enum verdict { INTACT, LOST, WRONG };

enum {
    SEEDS = 1000,
    LIVES = 5,
    RECORDS_MAX = 400, /* of one seed: some lives without accident */
    RECORDS_PER_LIFE = 60,
    PAYLOAD_MAX = 1500, /* three sectors, so that records can be torn */
    FILE_BYTES_MAX = 1 << 20,
    HEADER_BYTES = 32,
};

/* On disk: chain, sequence, tag, length, then the payload, which is drawn from the tag. */
struct header {
    uint64_t chain; /* hash over the chain before and everything that follows here */
    uint64_t seq;
    uint64_t tag;
    uint64_t len;
};

_Static_assert(sizeof(struct header) == HEADER_BYTES, "no padding goes to disk");

struct store {
    struct sim *sim;
    struct sim_host *host;
    const struct ron_env *env;
    enum mistake mistake;
    int fd;
    uint64_t end; /* bytes */
    uint64_t chain;
    uint64_t count;
    /* The oracle. */
    uint64_t acked;                /* this many first records must be there */
    uint64_t tag[RECORDS_MAX + 1]; /* of each record that was handed in last under that number */
};

static uint64_t hash(uint64_t start, const void *data, size_t len)
{
    const uint8_t *at = data;

    for (size_t i = 0; i < len; i++) {
        start = (start ^ at[i]) * UINT64_C(0x100000001b3);
        start ^= start >> 29;
    }
    return start;
}

static size_t payload_of(uint64_t tag, uint8_t payload[PAYLOAD_MAX])
{
    struct ron_rand rand;
    size_t len;

    ron_rand_seed(&rand, tag);
    len = (size_t)ron_rand_range(&rand, 1, PAYLOAD_MAX);
    ron_rand_bytes(&rand, payload, len);
    return len;
}

static uint64_t chain_of(uint64_t before, const struct header *h, const uint8_t *payload)
{
    uint64_t sum = hash(before, &h->seq, sizeof *h - offsetof(struct header, seq));

    return hash(sum, payload, (size_t)h->len);
}

/* ---- recovery ---- */

/* Reads one record at `off`; false at the end of what is sound. */
static bool next_record(struct store *s, const uint8_t *file, size_t size, size_t off)
{
    struct header h;
    uint8_t expected[PAYLOAD_MAX];
    const uint8_t *payload = file + off + sizeof h;

    if (size - off < sizeof h) {
        return false;
    }
    memcpy(&h, file + off, sizeof h);
    if (h.seq != s->count + 1 || h.len > PAYLOAD_MAX || size - off - sizeof h < h.len) {
        return false;
    }
    if (s->mistake != NO_CHECKSUM && chain_of(s->chain, &h, payload) != h.chain) {
        return false;
    }
    s->count = h.seq;
    s->chain = h.chain;
    s->end = off + sizeof h + h.len;
    /* A record that was never handed in is worse than a lost one. */
    if (payload_of(h.tag, expected) != h.len || memcmp(expected, payload, (size_t)h.len) != 0) {
        s->tag[h.seq] = 0;
    } else if (h.seq > s->acked) {
        s->tag[h.seq] = h.tag;
    } else if (s->tag[h.seq] != h.tag) {
        s->tag[h.seq] = 0;
    }
    return true;
}

static enum ron_rc replay(struct store *s)
{
    struct ron_buf buf;
    enum ron_rc rc;
    size_t off = 0;

    ron_buf_init(&buf, FILE_BYTES_MAX);
    rc = ron_file_read_all(s->env, "/data/log", &buf, NULL);
    s->end = 0;
    s->chain = 1;
    s->count = 0;
    while (rc == RON_OK && s->count < RECORDS_MAX &&
           next_record(s, ron_buf_data(&buf), ron_buf_len(&buf), off)) {
        off = (size_t)s->end;
    }
    ron_buf_done(&buf);
    return rc;
}

static enum ron_rc start(struct store *s)
{
    const struct ron_disk_ops *disk = s->env->disk;

    s->fd = -1;
    RON_TRY(ron_mkdirs(s->env, "/data", 0700, NULL));
    RON_TRY(disk->open(s->env, "/data/log", RON_OPEN_READ | RON_OPEN_WRITE | RON_OPEN_CREATE, 0600,
                       &s->fd, NULL));
    if (s->mistake != NO_SYNC_DIR) {
        RON_TRY(disk->sync_dir(s->env, "/data", NULL));
    }
    RON_TRY(replay(s));
    RON_TRY(disk->truncate(s->env, s->fd, s->end, NULL));
    return disk->sync(s->env, s->fd, true, NULL);
}

/* ---- appending ---- */

static enum ron_rc append(struct store *s, uint64_t tag)
{
    uint8_t record[HEADER_BYTES + PAYLOAD_MAX];
    struct header h = {.seq = s->count + 1, .tag = tag};

    h.len = payload_of(tag, record + sizeof h);
    h.chain = chain_of(s->chain, &h, record + sizeof h);
    memcpy(record, &h, sizeof h);
    s->tag[h.seq] = tag;
    RON_TRY(s->env->disk->pwrite(s->env, s->fd, record, sizeof h + (size_t)h.len, s->end, NULL));
    s->count = h.seq;
    s->chain = h.chain;
    s->end += sizeof h + h.len;
    return RON_OK;
}

static enum ron_rc commit(struct store *s)
{
    enum ron_rc rc;

    if (s->mistake == ACK_BEFORE_SYNC) {
        s->acked = s->count;
    }
    rc = s->env->disk->sync(s->env, s->fd, true, NULL);
    if (rc != RON_OK && s->mistake == RETRY_SYNC) {
        rc = s->env->disk->sync(s->env, s->fd, true, NULL);
    }
    if (rc == RON_OK) {
        s->acked = s->count;
    }
    return rc;
}

/* Appends groups of records until something fails or the life is long enough. */
static void live(struct store *s)
{
    struct ron_rand *rand = sim_rand(s->sim);
    uint64_t last = RON_MIN(s->count + RECORDS_PER_LIFE, (uint64_t)RECORDS_MAX);
    enum ron_rc rc = RON_OK;

    while (rc == RON_OK && s->count < last) {
        uint64_t group = ron_rand_range(rand, 1, 4);
        for (uint64_t i = 0; i < group && rc == RON_OK && s->count < last; i++) {
            rc = append(s, ron_rand_u64(rand) | 1);
        }
        if (rc == RON_OK) {
            rc = commit(s);
        }
    }
}

static enum verdict check(const struct store *s, uint64_t acked_before)
{
    if (s->count < acked_before) {
        return LOST;
    }
    for (uint64_t i = 1; i <= s->count; i++) {
        if (s->tag[i] == 0) {
            return WRONG;
        }
    }
    return INTACT;
}

/* Several lives of one machine. After any failure the machine is switched off, because a failed
 * write or sync leaves nothing to rely on but what a fresh start finds. */
static uint64_t all_acked; /* over all runs, to show that something happened */

static enum verdict run(uint64_t seed, const struct sim_opts *opts, enum mistake mistake)
{
    struct store s = {.mistake = mistake};
    enum verdict verdict = INTACT;

    s.sim = sim_new(seed, opts);
    s.host = sim_host_new(s.sim, "store");
    for (int life = 0; life < LIVES && verdict == INTACT; life++) {
        s.env = sim_host_env(s.host);
        sim_host_power_loss_in(s.host, ron_rand_range(sim_rand(s.sim), 1, 80));
        if (start(&s) == RON_OK) {
            verdict = check(&s, s.acked);
            live(&s);
        }
        if (!sim_env_is_dead(s.env)) {
            sim_host_power_loss(s.host);
        }
        (void)sim_host_boot(s.host);
    }
    /* The last word: a start without accidents. */
    *sim_options(s.sim) = sim_opts_calm();
    s.env = sim_host_env(s.host);
    if (verdict == INTACT) {
        SIM_CHECK(s.sim, start(&s) == RON_OK);
        verdict = check(&s, s.acked);
    }
    if (mistake == NONE) {
        SIM_CHECK(s.sim, verdict == INTACT);
    }
    all_acked += s.acked;
    sim_free(s.sim);
    return verdict;
}

/* A swarm without the faults that no store of one copy can survive; those it must only notice. */
static struct sim_opts survivable(uint64_t seed)
{
    struct sim_opts opts = sim_opts_swarm(seed);

    opts.crash_misdirect_weight = 0;
    opts.disk_rot_ppm = 0;
    opts.disk_bad_sector_ppm = 0;
    return opts;
}

static void test_store__thousand_seeds_of_power_loss__keep_what_was_acknowledged(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct sim_opts opts = survivable(support_seed() + i);
        assert_int_equal(run(support_seed() + i, &opts, NONE), INTACT);
    }
    print_message("%llu records acknowledged in %d seeds\n", (unsigned long long)all_acked, SEEDS);
    assert_true(all_acked > SEEDS);
}

/* Seeds until the mistake shows. Any seed is as good as another, so the number is bounded
 * generously. */
static void check_caught(const char *name, enum mistake mistake, enum verdict expected)
{
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct sim_opts opts = survivable(support_seed() + i);
        enum verdict verdict = run(support_seed() + i, &opts, mistake);
        if (verdict != INTACT) {
            assert_int_equal(verdict, expected);
            print_message("%s: caught by seed %llu of this run\n", name, (unsigned long long)i + 1);
            return;
        }
    }
    fail_msg("%s was not caught in %d seeds", name, SEEDS);
}

static void test_store__seeded_mistakes__are_caught(void **state)
{
    (void)state;
    check_caught("acknowledged before the sync", ACK_BEFORE_SYNC, LOST);
    check_caught("directory not synced", NO_SYNC_DIR, LOST);
    check_caught("failed sync tried again", RETRY_SYNC, LOST);
    check_caught("no checksum", NO_CHECKSUM, WRONG);
}

static void test_store__damage_to_synced_bytes__is_never_taken_for_data(void **state)
{
    unsigned noticed = 0;

    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        struct sim_opts opts = survivable(support_seed() + i);
        struct store s = {.mistake = NONE};
        struct ron_file_stat st;

        opts.crash_misdirect_weight = 50;
        s.sim = sim_new(support_seed() + i, &opts);
        s.host = sim_host_new(s.sim, "store");
        s.env = sim_host_env(s.host);
        if (start(&s) == RON_OK) {
            live(&s);
        }
        sim_host_power_loss(s.host);
        s.env = sim_host_boot(s.host);
        *sim_options(s.sim) = sim_opts_calm();
        if (s.env->disk->stat(s.env, "/data/log", &st) == RON_OK && st.size_bytes > 0) {
            sim_disk_flip_bit(s.host, "/data/log", ron_rand_below(sim_rand(s.sim), st.size_bytes),
                              5);
        }
        SIM_CHECK(s.sim, start(&s) == RON_OK);
        SIM_CHECK(s.sim, check(&s, 0) == INTACT); /* shorter perhaps, but nothing invented */
        noticed += s.count < s.acked;
        sim_free(s.sim);
    }
    assert_in_range(noticed, 1, 200);
}

/* ron_file_replace is the other way to keep state: old or new, and new when it said so. */
static void test_store__power_lost_in_file_replace__leaves_old_or_new(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct sim_opts opts = survivable(support_seed() + i);
        struct sim *sim = sim_new(support_seed() + i, &opts);
        struct sim_host *host = sim_host_new(sim, "box");
        const struct ron_env *env = sim_host_env(host);
        uint8_t bytes[2][2000];
        struct ron_buf buf;
        int durable = -1; /* which content is known to be there */
        int last = -1;    /* which one was tried last */

        memset(bytes[0], 'o', sizeof bytes[0]);
        memset(bytes[1], 'n', sizeof bytes[1]);
        for (int round = 0; round < 2 && !sim_env_is_dead(env); round++) {
            sim_host_power_loss_in(host, ron_rand_range(sim_rand(sim), 1, 9));
            last = round;
            if (ron_file_replace(env, "/state", bytes[round], sizeof bytes[round], 0600, NULL) ==
                RON_OK) {
                durable = round;
            } else {
                break;
            }
        }
        if (!sim_env_is_dead(env)) {
            sim_host_power_loss(host);
        }
        *sim_options(sim) = sim_opts_calm();
        env = sim_host_boot(host);
        ron_buf_init(&buf, sizeof bytes[0]);
        if (ron_file_read_all(env, "/state", &buf, NULL) == RON_OK) {
            SIM_CHECK(sim, ron_buf_len(&buf) == sizeof bytes[0]);
            int found = ron_buf_data(&buf)[0] == 'n';
            SIM_CHECK(sim, memcmp(ron_buf_data(&buf), bytes[found], sizeof bytes[0]) == 0);
            SIM_CHECK(sim, found == durable || found == last);
        } else {
            SIM_CHECK(sim, durable == -1);
        }
        ron_buf_done(&buf);
        sim_free(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store__thousand_seeds_of_power_loss__keep_what_was_acknowledged),
        cmocka_unit_test(test_store__seeded_mistakes__are_caught),
        cmocka_unit_test(test_store__damage_to_synced_bytes__is_never_taken_for_data),
        cmocka_unit_test(test_store__power_lost_in_file_replace__leaves_old_or_new),
    };

    return cmocka_run_group_tests_name("sim.store", tests, NULL, NULL);
}
