/* SPDX-License-Identifier: Apache-2.0 */
/* bench_led_rocksdb.c - the load of bench_led_index on RocksDB, for comparison: why the ledger's
 * index has a store of its own is in docs/decisions.md.
 *
 * The same ids in the same commits: each is a batch of puts (hash of 8 bytes, big-endian, and seq)
 * with a synced write-ahead log. Ten bits a key of filter, blocks of 4 KiB, no compression (hashes
 * do not compress), 64 MiB of block cache, two background threads: figures of a careful setup, not
 * of the defaults. Built where librocksdb-dev is; no part of the product links it.
 * `bench_led_rocksdb N` builds with N million keys. The files lie in TMPDIR or /tmp. */
#include <inttypes.h>
#include <rocksdb/c.h>
#include <sys/resource.h>

#include "bench/bench.h"
#include "ron/base/rand.h"

enum { COMMIT_KEYS = 50000, LOOKS = 200000, FINDS = 20000, CACHE = 64 << 20, TEXT_MAX = 300 };

struct rocks {
    char path[TEXT_MAX];
    rocksdb_options_t *options;
    rocksdb_t *db;
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
};

static void must(char *error)
{
    if (error != NULL) {
        (void)fprintf(stderr, "rocksdb: %s\n", error);
        exit(1);
    }
}

/* As key n of bench_led_index has it. */
static uint64_t key_of(uint64_t n)
{
    uint64_t state = n;

    return __builtin_bswap64(ron_splitmix64(&state));
}

static void open_db(struct rocks *r)
{
    char *error = NULL;

    r->db = rocksdb_open(r->options, r->path, &error);
    must(error);
}

static void setup(struct rocks *r)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();

    r->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(r->options, 1);
    rocksdb_options_increase_parallelism(r->options, 2);
    rocksdb_options_set_compression(r->options, rocksdb_no_compression);
    rocksdb_block_based_options_set_filter_policy(table,
                                                  rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(CACHE));
    rocksdb_options_set_block_based_table_factory(r->options, table);
    r->read = rocksdb_readoptions_create();
    r->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(r->write, 1);
    open_db(r);
}

static void build(struct rocks *r, uint64_t keys, double *ret_ns, double *ret_cpu_ns,
                  double *ret_commit_ms)
{
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    uint64_t wall = bench_now_ns();
    uint64_t cpu = bench_cpu_ns();
    char *error = NULL;

    for (uint64_t n = 0; n < keys; n += COMMIT_KEYS) {
        uint64_t before;

        rocksdb_writebatch_clear(batch);
        for (uint64_t i = n; i < n + COMMIT_KEYS; i++) {
            uint64_t key = key_of(i);
            uint64_t seq = i + 1;

            rocksdb_writebatch_put(batch, (const char *)&key, sizeof key, (const char *)&seq,
                                   sizeof seq);
        }
        before = bench_now_ns();
        rocksdb_write(r->db, r->write, batch, &error);
        must(error);
        *ret_commit_ms = RON_MAX(*ret_commit_ms, (double)(bench_now_ns() - before) / 1e6);
    }
    *ret_ns = (double)(bench_now_ns() - wall) / (double)keys;
    *ret_cpu_ns = (double)(bench_cpu_ns() - cpu) / (double)keys;
    rocksdb_writebatch_destroy(batch);
}

static bool find(struct rocks *r, uint64_t n)
{
    uint64_t key = key_of(n);
    char *error = NULL;
    rocksdb_pinnableslice_t *found =
        rocksdb_get_pinned(r->db, r->read, (const char *)&key, sizeof key, &error);

    must(error);
    if (found != NULL) {
        rocksdb_pinnableslice_destroy(found);
    }
    return found != NULL;
}

static double look(struct rocks *r, uint64_t keys, bool old, uint64_t count)
{
    static uint64_t next;
    struct ron_rand rand;
    uint64_t spent;

    ron_rand_seed(&rand, next++);
    spent = bench_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n = ron_rand_below(&rand, keys);

        BENCH_TRUE(find(r, old ? n : keys + n) == old);
    }
    return (double)(bench_now_ns() - spent) / (double)count;
}

static double property(struct rocks *r, const char *name)
{
    char *text = rocksdb_property_value(r->db, name);
    double value = text != NULL ? strtod(text, NULL) : 0;

    free(text);
    return value;
}

int main(int argc, char **argv)
{
    uint64_t millions = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t keys = millions * 1000000;
    const char *tmp = getenv("TMPDIR");
    struct bench_noise noise = bench_noise_now();
    struct bench_series new_ns = {0};
    struct bench_series old_ns = {0};
    struct rocks r = {0};
    struct rusage use;
    double add_ns = 0;
    double cpu_ns = 0;
    double commit_ms = 0;
    double disk;
    uint64_t before;
    char *error = NULL;

    BENCH_TRUE(millions >= 1 && millions <= 1000);
    (void)snprintf(r.path, sizeof r.path, "%s/ron-bench-XXXXXX", tmp != NULL ? tmp : "/tmp");
    BENCH_TRUE(mkdtemp(r.path) != NULL);
    setup(&r);
    build(&r, keys, &add_ns, &cpu_ns, &commit_ms);
    for (size_t rep = 0; rep <= bench_reps(); rep++) {
        double fresh = look(&r, keys, false, LOOKS);
        double known = look(&r, keys, true, FINDS);

        if (rep > 0) {
            bench_add(&new_ns, fresh);
            bench_add(&old_ns, known);
        }
    }
    disk = property(&r, "rocksdb.total-sst-files-size") +
           property(&r, "rocksdb.cur-size-all-mem-tables");
    (void)getrusage(RUSAGE_SELF, &use);
    rocksdb_close(r.db);
    before = bench_now_ns();
    open_db(&r);
    printf("RocksDB with %" PRIu64 " million keys on disk, commits of %d, durable\n\n"
           "| add, ns | of that processor | longest commit, ms | new: get, ns | old: get, ns | "
           "disk, bytes | most memory, bytes | open, ms |\n|---|---|---|---|---|---|---|---|\n"
           "| %.0f | %.0f | %.1f | %s | %s | %.1f | %.1f | %.0f |\n",
           millions, COMMIT_KEYS, add_ns, cpu_ns, commit_ms, bench_span(&new_ns, 0).s,
           bench_span(&old_ns, 0).s, disk / (double)keys,
           (double)use.ru_maxrss * 1024 / (double)keys, (double)(bench_now_ns() - before) / 1e6);
    rocksdb_close(r.db);
    rocksdb_destroy_db(r.options, r.path, &error);
    must(error);
    bench_noise_print(noise);
    return 0;
}
