/* SPDX-License-Identifier: Apache-2.0 */
/* bench_map.c - ron_map compared with the tables of the wallet, with a million records each.
 *
 * A record is found by a random 128-bit key, as in the wallet: 64 bytes in the wallet's table, 96
 * in the map, whose node has pointers and times. A figure is processor time, so that a busy machine
 * does not decide, and the median over the repetitions. */
#include "bench/bench.h"

#include "ron/base/alloc.h"
#include "ron/base/map.h"
#include "ron/base/rand.h"
#include "wallet/table/table.h"

enum { RECORDS = 1000000, LOOKUPS = 1000000 };

struct map_record {
    struct ron_map_node node;
    struct wlt_key key;
    uint8_t payload[32];
};

struct table_record {
    struct wlt__node node;
    uint8_t payload[32];
};

static struct map_record *map_records;
static struct table_record *table_records;
static struct wlt_key *keys;
static uint32_t *order;
static struct ron_map map;
static struct wlt__table table;
static uint64_t sink;

static bool equal(const struct ron_map_node *node, const struct ron_map_key *key)
{
    const struct map_record *r =
        RON_CONTAINER_OF((struct ron_map_node *)(uintptr_t)node, struct map_record, node);

    return wlt_key_eq(r->key, *(const struct wlt_key *)key->bytes);
}

static struct ron_map_key key_of(const struct wlt_key *key)
{
    return (struct ron_map_key){key->b, key, sizeof *key}; /* random already */
}

static void make(void)
{
    struct ron_rand rand;

    ron_rand_seed(&rand, 7);
    map_records = ron_alloc_array(RECORDS, sizeof *map_records);
    table_records = ron_alloc_array(RECORDS, sizeof *table_records);
    keys = ron_alloc_array(RECORDS, sizeof *keys);
    order = ron_alloc_array(LOOKUPS, sizeof *order);
    table.chains = ron_alloc_array(1 << 20, sizeof *table.chains);
    BENCH_TRUE(map_records != NULL && table_records != NULL && keys != NULL && order != NULL &&
               table.chains != NULL);
    table.first = (uint8_t *)table_records;
    table.stride = sizeof *table_records;
    table.mask = (1 << 20) - 1;
    BENCH_OK(
        ron_map_init(&map, &(struct ron_map_opts){.entries_max = RECORDS, .equal = equal}, NULL));
    for (uint32_t i = 0; i < RECORDS; i++) {
        keys[i] = (struct wlt_key){ron_rand_u64(&rand), ron_rand_u64(&rand)};
    }
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        order[i] = (uint32_t)ron_rand_below(&rand, RECORDS);
    }
}

static uint64_t add_map(void)
{
    uint64_t longest = 0;

    for (uint32_t i = 0; i < RECORDS; i++) {
        struct ron_map_key key = key_of(&keys[i]);
        uint64_t begin = bench_cpu_ns();
        uint64_t took;

        map_records[i].key = keys[i];
        BENCH_OK(ron_map_add(&map, &map_records[i].node, &key, 0));
        took = bench_cpu_ns() - begin;
        longest = took > longest ? took : longest;
    }
    return longest;
}

static void add_table(void)
{
    for (uint32_t i = 0; i < RECORDS; i++) {
        wlt__add(&table, i + 1, keys[i]);
        wlt__list_push(&table, i + 1);
    }
}

static uint64_t use_map(void)
{
    uint64_t begin = bench_cpu_ns();

    for (uint32_t i = 0; i < LOOKUPS; i++) {
        struct ron_map_key key = key_of(&keys[order[i]]);
        struct ron_map_node *node = ron_map_find(&map, &key);

        BENCH_TRUE(node != NULL);
        ron_map_touch(&map, node, 0);
        sink += RON_CONTAINER_OF(node, struct map_record, node)->payload[0];
    }
    return bench_cpu_ns() - begin;
}

static uint64_t use_table(void)
{
    uint64_t begin = bench_cpu_ns();

    for (uint32_t i = 0; i < LOOKUPS; i++) {
        uint32_t number = wlt__find(&table, keys[order[i]]);

        BENCH_TRUE(number != 0);
        wlt__list_remove(&table, number);
        wlt__list_push(&table, number);
        sink += table_records[number - 1].payload[0];
    }
    return bench_cpu_ns() - begin;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

int main(void)
{
    enum { REPS = BENCH_REPS_DEFAULT };
    uint64_t in_map[REPS];
    uint64_t in_table[REPS];
    uint64_t longest;

    make();
    longest = add_map();
    add_table();
    for (int i = 0; i < REPS; i++) {
        in_map[i] = use_map();
        in_table[i] = use_table();
    }
    qsort(in_map, REPS, sizeof *in_map, compare);
    qsort(in_table, REPS, sizeof *in_table, compare);
    printf("ron_map\tfind and touch, 1,000,000 records\t%.1f ns\n",
           (double)in_map[REPS / 2] / LOOKUPS);
    printf("wallet table\tfind and touch, 1,000,000 records\t%.1f ns\n",
           (double)in_table[REPS / 2] / LOOKUPS);
    printf("ron_map\tlongest of 1,000,000 additions\t%.1f us\n", (double)longest / 1000);
    printf("bytes per record with its chain\t%zu and %zu\n",
           sizeof *map_records + sizeof(struct ron_map_node *),
           sizeof *table_records + sizeof *table.chains);
    ron_map_done(&map);
    ron_free(map_records);
    ron_free(table_records);
    ron_free(table.chains);
    ron_free(keys);
    ron_free(order);
    return sink == 1; /* keeps the reads */
}
