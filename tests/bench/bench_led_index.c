/* SPDX-License-Identifier: Apache-2.0 */
/* bench_led_index.c - what a key costs in the index: added and committed, looked for, in memory and
 * on disk.
 *
 * 20 million ids go into an index on disk in commits of 50,000, with an idempotency key for each
 * thousand and a skip point for each 128; the texts grow with time or are random. Then new ids are
 * looked for, a thousand at a time as a batch does it, and old ones found. Building is one run, for
 * it ends with one size; lookups are repeated, figures are median (min..max).
 * `bench_led_index N` builds with N million keys. The files lie in TMPDIR or /tmp. */
#include <inttypes.h>

#include "bench/bench.h"
#include "ledger/index/index.h"
#include "ron/base/rand.h"
#include "ron/io/linux_env.h"

enum { COMMIT_KEYS = 50000, BATCH = 1000, LOOKS = 200000, FINDS = 20000, TEXT = 26 };

struct item {
    struct led_key key;
    char text[TEXT];
};

struct build {
    const char *name;
    bool ordered;
    uint64_t keys;
    double add_ns, cpu_ns, commit_ms_max, open_ms, disk_bytes, filter_bytes, alarms;
    uint64_t runs;
    struct bench_series maybe_ns, batch_ns, find_ns;
};

static struct item items[COMMIT_KEYS];

/* Id n: 26 characters, the first that differ belong to the time when ordered. */
static void item_of(const struct build *b, uint64_t n, struct item *item)
{
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    uint64_t state = n;
    uint64_t left;

    item->key.a = ron_splitmix64(&state);
    item->key.b = ron_splitmix64(&state);
    left = b->ordered ? UINT64_C(1) << 60 | n << 14 : item->key.b;
    for (size_t i = 0; i < 13; i++, left <<= 5) {
        item->text[i] = digits[left >> 59];
        item->text[13 + i] = digits[(item->key.a >> (4 * i)) & 31];
    }
}

static struct ron_str text_of(const struct item *item)
{
    return (struct ron_str){item->text, TEXT};
}

static void build(struct build *b, struct led_index *ix)
{
    struct ron_tree_hash root;
    struct ron_err err = {0};
    uint64_t wall = 0;
    uint64_t cpu = 0;

    ron_tree_hash_empty(&root);
    for (uint64_t n = 0; n < b->keys; n += COMMIT_KEYS) {
        uint64_t before[2];
        uint64_t commit;

        for (uint64_t i = 0; i < COMMIT_KEYS; i++) {
            item_of(b, n + i, &items[i]);
        }
        before[0] = bench_now_ns();
        before[1] = bench_cpu_ns();
        for (uint64_t i = 0; i < COMMIT_KEYS; i++) {
            BENCH_OK(
                led_index_add(ix, LED_INDEX_ID, items[i].key, text_of(&items[i]), n + i + 1, &err));
            if (i % 1000 == 0) {
                BENCH_OK(led_index_add(ix, LED_INDEX_IDEM, items[i].key, text_of(&items[i]),
                                       n + i + 1, &err));
            }
            if (i % 128 == 0) {
                BENCH_OK(led_index_add_skip(ix, items[i].key, n + i + 1, &err));
            }
        }
        commit = bench_now_ns();
        BENCH_OK(led_index_commit(ix, n + COMMIT_KEYS, &root, &err));
        b->commit_ms_max = RON_MAX(b->commit_ms_max, (double)(bench_now_ns() - commit) / 1e6);
        wall += bench_now_ns() - before[0];
        cpu += bench_cpu_ns() - before[1];
    }
    b->add_ns = (double)wall / (double)b->keys;
    b->cpu_ns = (double)cpu / (double)b->keys;
}

/* New ids, a batch at a time. */
static void look(struct build *b, struct led_index *ix, bool keep)
{
    static uint64_t next;
    static struct led_entry entries[BATCH];
    static struct led_prep preps[BATCH];
    uint64_t spent = 0;
    uint64_t together = 0;
    uint64_t alarms = 0;

    for (uint64_t done = 0; done < LOOKS; done += BATCH) {
        bool half = done % (2 * (uint64_t)BATCH) == 0; /* New ids for each: no cache knows them. */
        uint64_t before;

        for (uint64_t i = 0; i < BATCH; i++) {
            item_of(b, b->keys + next++, &items[i]);
            entries[i].id = text_of(&items[i]);
            preps[i].id = items[i].key;
        }
        before = bench_cpu_ns();
        for (uint64_t i = 0; half && i < BATCH; i++) {
            alarms += led_index_maybe(ix, LED_INDEX_ID, items[i].key, entries[i].id);
        }
        spent += bench_cpu_ns() - before;
        before = bench_cpu_ns();
        (void)(half || led_index_maybe_ids(ix, entries, preps, BATCH));
        together += bench_cpu_ns() - before;
    }
    if (keep) {
        bench_add(&b->maybe_ns, 2 * (double)spent / LOOKS);
        bench_add(&b->batch_ns, 2 * (double)together / LOOKS);
        b->alarms += 2 * (double)alarms / LOOKS;
    }
}

static void find(struct build *b, struct led_index *ix, bool keep)
{
    struct ron_err err = {0};
    struct ron_rand rand;
    uint64_t spent = 0;

    ron_rand_seed(&rand, b->find_ns.n);
    for (uint64_t done = 0; done < FINDS; done++) {
        uint64_t n = ron_rand_below(&rand, b->keys);
        uint64_t seqs[LED_INDEX_FOUND_MAX];
        size_t count = 0;
        uint64_t before;

        item_of(b, n, &items[0]);
        before = bench_now_ns();
        BENCH_OK(led_index_find(ix, LED_INDEX_ID, items[0].key, seqs, &count, &err));
        spent += bench_now_ns() - before;
        BENCH_TRUE(count == 1 && seqs[0] == n + 1);
    }
    if (keep) {
        bench_add(&b->find_ns, (double)spent / FINDS);
    }
}

static void run(struct build *b)
{
    const char *tmp = getenv("TMPDIR");
    char dir[256];
    char path[300];
    struct led_index_opts opts = {.env = ron_env_linux(), .path = path};
    struct led_index_state state;
    struct led_index_stats stats;
    struct led_index *ix;
    struct ron_err err = {0};
    uint64_t before;
    size_t reps = bench_reps();

    (void)snprintf(dir, sizeof dir, "%s/ron-bench-XXXXXX", tmp != NULL ? tmp : "/tmp");
    BENCH_TRUE(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof path, "%s/index", dir);
    BENCH_OK(led_index_open(&opts, &ix, &state, &err));
    build(b, ix);
    for (size_t rep = 0; rep <= reps; rep++) {
        look(b, ix, rep > 0);
        find(b, ix, rep > 0);
    }
    b->alarms /= (double)reps;
    led_index_stats(ix, &stats);
    b->disk_bytes = (double)stats.file_bytes / (double)stats.keys;
    b->filter_bytes = (double)stats.filter_bytes / (double)stats.keys;
    b->runs = stats.runs;
    led_index_close(ix);
    before = bench_now_ns();
    BENCH_OK(led_index_open(&opts, &ix, &state, &err));
    b->open_ms = (double)(bench_now_ns() - before) / 1e6;
    BENCH_TRUE(!state.fresh && state.applied_seq == b->keys);
    led_index_close(ix);
    BENCH_OK(led_index_remove(opts.env, path, &err));
    (void)rmdir(path);
    (void)rmdir(dir);
}

int main(int argc, char **argv)
{
    uint64_t millions = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    struct build builds[] = {
        {.name = "ordered by time", .ordered = true, .keys = millions * 1000000},
        {.name = "random", .keys = millions * 1000000},
    };
    struct bench_noise noise = bench_noise_now();

    BENCH_TRUE(millions >= 1 && millions <= 1000);
    printf("Index of %" PRIu64 " million ids on disk, commits of %d, durable\n\n", millions,
           COMMIT_KEYS);
    printf("| ids | add, ns | of that processor | longest commit, ms | runs | new: maybe, ns | "
           "in a batch | wrong alarms | old: find, ns | disk, bytes | filter, bytes | open, ms |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < RON_ARRAY_LEN(builds); i++) {
        struct build *b = &builds[i];

        run(b);
        printf("| %s | %.0f | %.0f | %.1f | %" PRIu64
               " | %s | %s | %.1e | %s | %.1f | %.1f | %.0f |\n",
               b->name, b->add_ns, b->cpu_ns, b->commit_ms_max, b->runs,
               bench_span(&b->maybe_ns, 0).s, bench_span(&b->batch_ns, 0).s, b->alarms,
               bench_span(&b->find_ns, 0).s, b->disk_bytes, b->filter_bytes, b->open_ms);
    }
    printf("\nAims per key: added <= 100 ns, new and ordered <= 150 ns, new and random <= 500 ns, "
           "disk <= 16 bytes.\n");
    bench_noise_print(noise);
    return 0;
}
