/* SPDX-License-Identifier: Apache-2.0 */
/* bench_cas.c - the content store: streaming 64 MiB, small objects, hits.
 *
 *   bench_cas                 the table of figures; the folder is RON_BENCH_DATA or /var/tmp
 *   bench_cas --count NAME N  one operation N times, for counting instructions (cas.sh)
 *
 * Beside the store run, in the same repetition: hashing the same bytes alone, `b3sum` on a file of
 * them when it is installed (one thread, and as it comes), and plain write + fsync of the same
 * pieces, which is what the disk itself allows. */
#include "bench/bench.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "cas/cas_priv.h"
#include "ron/cas/cas.h"
#include "ron/io/linux_env.h"
#include "support/cas_put.h"

enum { BIG = 64 << 20, PIECE = 64 << 10, SMALL = 4096, SMALL_COUNT = 200, HITS = 200000 };

static uint8_t *big;
static char root[256];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static void clear(void)
{
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    BENCH_TRUE(mkdir(root, 0700) == 0);
}

static struct ron_cas *store_new(bool on_disk)
{
    struct ron_cas_opts opts = {
        .env = ron_env_linux(), .dir = on_disk ? root : NULL, .bytes_max = UINT64_C(1) << 30};
    struct ron_cas *s = NULL;

    BENCH_OK(ron_cas_new(&opts, &s, NULL));
    BENCH_OK(ron_cas_load(s, NULL, NULL, NULL));
    return s;
}

static double mb_per_s(uint64_t begin_ns, uint64_t bytes)
{
    return (double)bytes * 1000.0 / (double)(bench_now_ns() - begin_ns);
}

static double store_big(bool on_disk)
{
    struct ron_cas *s = store_new(on_disk);
    struct ron_cas_writer *w = NULL;
    uint64_t begin_ns = bench_now_ns();
    struct ron_b3 id;
    double rate;

    BENCH_OK(ron_cas_begin(s, &(struct ron_cas_write_opts){.size_hint = BIG}, &w, NULL));
    for (size_t at = 0; at < BIG; at += PIECE) {
        BENCH_OK(ron_cas_append(w, big + at, PIECE, NULL));
    }
    BENCH_OK(ron_cas_commit(w, &id, NULL));
    rate = mb_per_s(begin_ns, BIG);
    ron_cas_free(s);
    return rate;
}

/* What the disk allows: the same calls without store and hash. */
static double plain_big(bool sync)
{
    char path[300];
    uint64_t begin_ns = bench_now_ns();
    double rate;
    int fd;

    (void)snprintf(path, sizeof path, "%s/plain", root);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    BENCH_TRUE(fd >= 0);
    for (size_t at = 0; at < BIG; at += PIECE) {
        BENCH_TRUE(pwrite(fd, big + at, PIECE, (off_t)at) == PIECE);
    }
    BENCH_TRUE(!sync || fsync(fd) == 0);
    rate = mb_per_s(begin_ns, BIG);
    BENCH_TRUE(fsync(fd) == 0); /* or the next sync of anybody would wait for these pages */
    (void)close(fd);
    return rate;
}

static double hash_big(void)
{
    uint64_t begin_ns = bench_now_ns();
    struct ron_b3_hasher h;
    struct ron_b3 id;

    ron_b3_init(&h);
    for (size_t at = 0; at < BIG; at += PIECE) {
        ron_b3_update(&h, big + at, PIECE);
    }
    ron_b3_final(&h, &id);
    BENCH_KEEP(id.bytes[0]);
    return mb_per_s(begin_ns, BIG);
}

/* 0 when there is no b3sum. The start of a process is part of what its users see. */
static double b3sum_big(const char *threads)
{
    char command[400];
    uint64_t begin_ns;

    (void)snprintf(command, sizeof command, "b3sum %s '%s/plain' >/dev/null 2>&1", threads, root);
    begin_ns = bench_now_ns();
    return system(command) == 0 ? mb_per_s(begin_ns, BIG) : 0; /* NOLINT(cert-env33-c) */
}

/* The same per second of processor time, which others on the machine disturb less. */
static double per_cpu(double (*run)(bool), bool arg)
{
    uint64_t begin_ns = bench_cpu_ns();

    (void)run(arg);
    return (double)BIG * 1000.0 / (double)(bench_cpu_ns() - begin_ns);
}

static double hash_big_cpu(bool unused)
{
    (void)unused;
    return hash_big();
}

static void table_cpu(void)
{
    static struct bench_series disk;
    static struct bench_series plain;
    static struct bench_series hash;
    size_t reps = bench_reps();

    for (size_t rep = 0; rep <= reps; rep++) {
        double v[3];

        clear();
        v[0] = per_cpu(plain_big, true);
        v[1] = per_cpu(hash_big_cpu, false);
        v[2] = per_cpu(store_big, true);
        if (rep > 0) {
            bench_add(&plain, v[0]);
            bench_add(&hash, v[1]);
            bench_add(&disk, v[2]);
        }
    }
    printf("### The same per second of processor time\n\n| what | MB per processor second |\n"
           "|---|---|\n");
    printf("| store on disk, start and load of the store included | %s |\n",
           bench_span(&disk, 0).s);
    printf("| plain write + fsync | %s |\n", bench_span(&plain, 0).s);
    printf("| hash alone | %s |\n\n", bench_span(&hash, 0).s);
}

static void table_big(void)
{
    static struct bench_series disk;
    static struct bench_series memory;
    static struct bench_series hash;
    static struct bench_series plain;
    static struct bench_series cached;
    static struct bench_series sum_one;
    static struct bench_series sum_all;
    size_t reps = bench_reps();

    for (size_t rep = 0; rep <= reps; rep++) {
        double v[7];

        clear();
        v[0] = plain_big(true);
        v[1] = plain_big(false);
        v[2] = b3sum_big("--num-threads 1");
        v[3] = b3sum_big("");
        v[4] = hash_big();
        v[5] = store_big(false);
        v[6] = store_big(true);
        if (rep > 0) {
            struct bench_series *all[] = {&plain, &cached, &sum_one, &sum_all,
                                          &hash,  &memory, &disk};

            for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
                bench_add(all[i], v[i]);
            }
        }
    }
    printf("### 64 MiB in pieces of 64 KiB, MB/s\n\n| what | MB/s |\n|---|---|\n");
    printf("| store on disk: hash, write, sync, rename, sync | %s |\n", bench_span(&disk, 0).s);
    printf("| plain write + fsync of the same pieces | %s |\n", bench_span(&plain, 0).s);
    printf("| plain write, page cache only | %s |\n", bench_span(&cached, 0).s);
    printf("| store in memory | %s |\n", bench_span(&memory, 0).s);
    printf("| hash alone, one thread | %s |\n", bench_span(&hash, 0).s);
    if (sum_one.v[0] > 0) {
        printf("| b3sum, one thread | %s |\n", bench_span(&sum_one, 0).s);
        printf("| b3sum as it comes | %s |\n\n", bench_span(&sum_all, 0).s);
        printf("Store on disk / b3sum: %.2f of one thread, %.2f as it comes (aim 0.60: %s).\n",
               bench_ratio(&disk, &sum_one), bench_ratio(&disk, &sum_all),
               bench_verdict(bench_ratio(&disk, &sum_all) >= 0.60));
    } else {
        printf("\nNo b3sum here; store on disk / hash alone: %.2f (aim 0.60: %s).\n",
               bench_ratio(&disk, &hash), bench_verdict(bench_ratio(&disk, &hash) >= 0.60));
    }
    printf("Store on disk / plain write + fsync: %.2f.\n\n", bench_ratio(&disk, &plain));
}

/* ---- small objects --------------------------------------------------------------------------- */

static struct ron_b3 put_small(struct ron_cas *s, uint64_t number)
{
    uint8_t bytes[SMALL] = {0};
    struct ron_b3 id;

    memcpy(bytes, &number, sizeof number);
    BENCH_OK(ron_cas_put(s, bytes, sizeof bytes, &id, NULL));
    return id;
}

static double puts_small(bool on_disk, uint64_t count)
{
    struct ron_cas *s = store_new(on_disk);
    uint64_t begin_ns = bench_now_ns();
    double us;

    for (uint64_t i = 0; i < count; i++) {
        (void)put_small(s, i);
    }
    us = (double)(bench_now_ns() - begin_ns) / 1000.0 / (double)count;
    ron_cas_free(s);
    return us;
}

static void run_put(uint64_t count)
{
    (void)puts_small(false, count);
}

static void run_hit(uint64_t count)
{
    struct ron_cas *s = store_new(false);
    struct ron_b3 id = put_small(s, 1);

    for (uint64_t i = 0; i < count; i++) {
        struct ron_cas_obj *obj = NULL;

        BENCH_OK(ron_cas_get(s, &id, &obj));
        BENCH_TRUE(ron_cas_slice(obj, 0, SMALL).len == SMALL);
        ron_cas_release(obj);
    }
    ron_cas_free(s);
}

static void run_miss(uint64_t count)
{
    struct ron_cas *s = store_new(false);
    struct ron_b3 id = {{1}};
    struct ron_cas_obj *obj = NULL;

    for (uint64_t i = 0; i < count; i++) {
        BENCH_TRUE(ron_cas_get(s, &id, &obj) == RON_NOTFOUND);
    }
    ron_cas_free(s);
}

static void run_hash64(uint64_t count)
{
    uint8_t bytes[64] = {0};
    struct ron_b3 hash;

    for (uint64_t i = 0; i < count; i++) {
        memcpy(bytes, &i, sizeof i);
        ron_b3_hash(bytes, sizeof bytes, &hash);
        BENCH_KEEP(hash.bytes[0]);
    }
}

static const struct {
    const char *name;
    const char *text;
    void (*run)(uint64_t count);
} operations[] = {
    {"hit", "get, slice and release of an open object", run_hit},
    {"miss", "get of an absent object", run_miss},
    {"put", "put of 4 KiB in memory", run_put},
    {"hash64", "hash of 64 bytes", run_hash64},
};

static void table_small(void)
{
    static struct bench_series put;
    static struct bench_series timed[RON_ARRAY_LEN(operations)];
    size_t reps = bench_reps();

    for (size_t rep = 0; rep <= reps; rep++) {
        double us;

        clear();
        us = puts_small(true, SMALL_COUNT);
        if (rep > 0) {
            bench_add(&put, us);
        }
        for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
            uint64_t count = strcmp(operations[i].name, "put") == 0 ? 2000 : HITS;
            uint64_t begin_ns = bench_cpu_ns();

            operations[i].run(count);
            if (rep > 0) {
                bench_add(&timed[i], (double)(bench_cpu_ns() - begin_ns) / (double)count);
            }
        }
    }
    printf("### Small objects\n\nPut of 4 KiB on disk, durable, one thread: %s us each "
           "(%d into fresh folders).\n\n| operation | processor ns |\n|---|---|\n",
           bench_span(&put, 0).s, (int)SMALL_COUNT);
    for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
        printf("| %s | %s |\n", operations[i].text, bench_span(&timed[i], 1).s);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    const char *data = getenv("RON_BENCH_DATA");
    struct bench_noise noise = bench_noise_now();

    if (argc == 4 && strcmp(argv[1], "--count") == 0) {
        for (size_t i = 0; i < RON_ARRAY_LEN(operations); i++) {
            if (strcmp(argv[2], operations[i].name) == 0) {
                operations[i].run(strtoull(argv[3], NULL, 10));
                return 0;
            }
        }
    }
    if (argc != 1) {
        (void)fprintf(stderr, "usage: %s [--count NAME N]\n", argv[0]);
        return 2;
    }
    (void)snprintf(root, sizeof root, "%s/ron-bench-cas-%d", data == NULL ? "/var/tmp" : data,
                   (int)getpid());
    big = malloc(BIG);
    BENCH_TRUE(big != NULL);
    for (size_t i = 0; i < BIG; i++) {
        big[i] = (uint8_t)(i * 131 + (i >> 9));
    }
    table_big();
    table_cpu();
    table_small();
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(big);
    bench_noise_print(noise);
    return 0;
}
