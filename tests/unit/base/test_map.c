/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the map keeps M1 to M5 of map.h. Method: 100,000 random operations against an array that is
 * searched from end to end, with a good hash, a constant one and hashes that differ in their high
 * bits alone; then the bounds, the millisecond of expiry, and the mistakes it catches. */
#include "support/support.h"

#include <sodium.h>

#include "ron/base/macros.h"
#include "ron/base/map.h"

enum { KEYS = 600, OPERATIONS = 100000 };

struct item {
    struct ron_map_node node;
    uint32_t key;
    bool present;
    bool pinned;
    uint64_t order; /* of its addition or last touch */
    uint64_t at_ms;
};

enum hash_kind { GOOD, CONSTANT, HIGH_BITS, HASH_KINDS };

static bool item_equal(const struct ron_map_node *node, const struct ron_map_key *key)
{
    const struct item *it =
        RON_CONTAINER_OF((struct ron_map_node *)(uintptr_t)node, struct item, node);

    return key->len == sizeof it->key && memcmp(key->bytes, &it->key, sizeof it->key) == 0;
}

static struct ron_map_key key_of(enum hash_kind kind, const uint32_t *number)
{
    struct ron_map_key key = ron_map_key((struct ron_hash_key){1, 2}, number, sizeof *number);

    if (kind == CONSTANT) {
        key.hash = 7;
    } else if (kind == HIGH_BITS) {
        key.hash = (uint64_t)*number << 40;
    }
    return key;
}

/* ---- the model ------------------------------------------------------------------------------- */

struct world {
    struct ron_map map;
    struct ron_map_opts opts;
    enum hash_kind kind;
    struct item items[KEYS];
    uint32_t count;
    uint64_t bytes;
    uint64_t order;
    uint64_t now_ms;
};

static struct item *model_oldest(struct world *w)
{
    struct item *oldest = NULL;

    for (size_t i = 0; i < KEYS; i++) {
        struct item *it = &w->items[i];

        if (it->present && !it->pinned && (oldest == NULL || it->order < oldest->order)) {
            oldest = it;
        }
    }
    return oldest;
}

static void do_add(struct world *w, struct item *it, uint32_t bytes)
{
    struct ron_map_key key = key_of(w->kind, &it->key);
    bool fits = w->count < w->opts.entries_max &&
                (w->opts.bytes_max == 0 || w->bytes + bytes <= w->opts.bytes_max);

    it->node.bytes = bytes;
    assert_int_equal(ron_map_add(&w->map, &it->node, &key, w->now_ms), fits ? RON_OK : RON_FULL);
    if (fits) {
        it->present = true;
        it->order = ++w->order;
        it->at_ms = w->now_ms;
        w->count++;
        w->bytes += bytes;
    }
}

static void do_remove(struct world *w, struct item *it)
{
    ron_map_remove(&w->map, &it->node);
    it->present = false;
    it->pinned = false;
    w->count--;
    w->bytes -= it->node.bytes;
}

static void do_age(struct world *w, struct item *it, uint64_t what)
{
    if (what == 0 && !it->pinned) {
        ron_map_pin(&w->map, &it->node);
        it->pinned = true;
        return;
    }
    if (what == 1 && it->pinned) {
        ron_map_unpin(&w->map, &it->node, w->now_ms);
        it->pinned = false;
    } else {
        ron_map_touch(&w->map, &it->node, w->now_ms);
    }
    it->order = ++w->order;
    it->at_ms = w->now_ms;
}

static void check_ends(struct world *w)
{
    struct item *oldest = model_oldest(w);
    struct ron_map_node *expired = ron_map_expired(&w->map, w->now_ms);
    bool is_expired =
        oldest != NULL && w->opts.ttl_ms != 0 && w->now_ms >= oldest->at_ms + w->opts.ttl_ms;

    assert_ptr_equal(ron_map_oldest(&w->map), oldest != NULL ? &oldest->node : NULL);
    assert_ptr_equal(expired, is_expired ? &oldest->node : NULL);
    assert_int_equal(ron_map_count(&w->map), w->count);
    assert_true(ron_map_bytes(&w->map) == w->bytes);
    assert_int_equal(ron_map_any(&w->map) != NULL, w->count > 0);
}

static void check_all(struct world *w)
{
    uint64_t order = 0;
    uint32_t seen = 0;
    uint32_t unpinned = 0;

    for (size_t i = 0; i < KEYS; i++) {
        struct ron_map_key key = key_of(w->kind, &w->items[i].key);

        assert_ptr_equal(ron_map_find(&w->map, &key),
                         w->items[i].present ? &w->items[i].node : NULL);
        unpinned += w->items[i].present && !w->items[i].pinned;
    }
    RON_MAP_FOREACH_SAFE(node, &w->map)
    {
        const struct item *it = RON_CONTAINER_OF(node, struct item, node);

        assert_true(it->present && !it->pinned && it->order > order);
        order = it->order;
        seen++;
    }
    assert_int_equal(seen, unpinned);
}

static void step(struct world *w, struct ron_rand *rand)
{
    struct item *it = &w->items[ron_rand_below(rand, KEYS)];
    struct ron_map_key key = key_of(w->kind, &it->key);
    uint64_t what = ron_rand_below(rand, 8);

    w->now_ms += ron_rand_chance(rand, 1, 4);
    assert_ptr_equal(ron_map_find(&w->map, &key), it->present ? &it->node : NULL);
    if (!it->present) {
        do_add(w, it, (uint32_t)ron_rand_below(rand, 100));
    } else if (what < 3) {
        do_age(w, it, what);
    } else if (what == 3) {
        uint32_t bytes = (uint32_t)ron_rand_below(rand, 100);

        w->bytes = w->bytes - it->node.bytes + bytes;
        ron_map_resize(&w->map, &it->node, bytes);
    } else {
        do_remove(w, it);
    }
}

static void run_world(const struct ron_map_opts *opts, enum hash_kind kind, uint32_t operations)
{
    struct ron_rand rand = support_rand();
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->opts = *opts;
    w->kind = kind;
    assert_int_equal(ron_map_init(&w->map, opts, NULL), RON_OK);
    for (uint32_t i = 0; i < KEYS; i++) {
        w->items[i].key = i;
    }
    for (uint32_t i = 0; i < operations; i++) {
        step(w, &rand);
        if (i % 16 == 0) {
            check_ends(w);
        }
        if (i % 1024 == 0) {
            check_all(w);
        }
    }
    check_all(w);
    for (struct ron_map_node *n = NULL; (n = ron_map_any(&w->map)) != NULL;) {
        do_remove(w, RON_CONTAINER_OF(n, struct item, node));
    }
    check_ends(w);
    assert_int_equal(w->count, 0);
    ron_map_done(&w->map);
    free(w);
}

static void test_map__random_operations__match_an_array(void **state)
{
    const struct ron_map_opts rows[] = {
        {.entries_max = KEYS, .equal = item_equal},
        {.entries_max = KEYS, .reserve = KEYS, .ttl_ms = 20, .equal = item_equal},
        {.entries_max = 90, .bytes_max = 3000, .ttl_ms = 5, .equal = item_equal},
        {.entries_max = KEYS}, /* no `equal`: hashes of the numbers differ */
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        run_world(&rows[i], GOOD, OPERATIONS);
    }
}

static void test_map__constant_hash__still_finds_by_key(void **state)
{
    (void)state;
    run_world(&(struct ron_map_opts){.entries_max = KEYS, .equal = item_equal}, CONSTANT,
              OPERATIONS / 4);
    run_world(&(struct ron_map_opts){.entries_max = KEYS, .equal = item_equal}, HIGH_BITS,
              OPERATIONS / 4);
}

/* ---- growth ---------------------------------------------------------------------------------- */

static void test_map__growth__keeps_every_node(void **state)
{
    enum { MANY = 70000 };
    struct item *items = calloc(MANY, sizeof *items);
    struct ron_map map;

    (void)state;
    assert_non_null(items);
    assert_int_equal(
        ron_map_init(&map, &(struct ron_map_opts){.entries_max = MANY, .equal = item_equal}, NULL),
        RON_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        struct ron_map_key key;

        items[i].key = i;
        key = key_of(GOOD, &items[i].key);
        assert_int_equal(ron_map_add(&map, &items[i].node, &key, i), RON_OK);
        if ((i & (i - 1)) == 0 || (i & (i + 1)) == 0 || i % 9973 == 0) {
            for (uint32_t j = 0; j <= i; j++) {
                key = key_of(GOOD, &j);
                assert_ptr_equal(ron_map_find(&map, &key), &items[j].node);
            }
        }
    }
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ptr_equal(ron_map_oldest(&map), &items[i].node);
        ron_map_remove(&map, &items[i].node);
    }
    ron_map_done(&map);
    free(items);
}

/* ---- bounds and time ------------------------------------------------------------------------- */

static void test_map__full__refuses_and_changes_nothing(void **state)
{
    struct item a = {.key = 1, .node.bytes = 10};
    struct item b = {.key = 2, .node.bytes = 11};
    struct ron_map_key key_a = key_of(GOOD, &a.key);
    struct ron_map_key key_b = key_of(GOOD, &b.key);
    struct ron_map_opts opts = {.entries_max = 1, .equal = item_equal};
    struct ron_map map;

    (void)state;
    assert_int_equal(ron_map_init(&map, &opts, NULL), RON_OK);
    assert_int_equal(ron_map_add(&map, &a.node, &key_a, 0), RON_OK);
    assert_int_equal(ron_map_add(&map, &b.node, &key_b, 0), RON_FULL);
    assert_null(ron_map_find(&map, &key_b));
    ron_map_remove(&map, &a.node);
    assert_int_equal(ron_map_add(&map, &b.node, &key_b, 0), RON_OK);
    ron_map_remove(&map, &b.node);
    ron_map_done(&map);

    opts = (struct ron_map_opts){.entries_max = 9, .bytes_max = 20, .equal = item_equal};
    assert_int_equal(ron_map_init(&map, &opts, NULL), RON_OK);
    assert_int_equal(ron_map_add(&map, &a.node, &key_a, 0), RON_OK);
    assert_int_equal(ron_map_add(&map, &b.node, &key_b, 0), RON_FULL); /* 21 of 20 */
    b.node.bytes = 10;
    assert_int_equal(ron_map_add(&map, &b.node, &key_b, 0), RON_OK);
    ron_map_resize(&map, &b.node, 1000); /* may pass the bound; then nothing more is added */
    assert_true(ron_map_bytes(&map) == 1010);
    ron_map_remove(&map, &a.node);
    a.node.bytes = 0;
    assert_int_equal(ron_map_add(&map, &a.node, &key_a, 0), RON_FULL);
    ron_map_remove(&map, &b.node);
    assert_true(ron_map_bytes(&map) == 0);
    ron_map_done(&map);
    ron_map_done(&map); /* zeros */

    opts.entries_max = 0;
    assert_int_equal(ron_map_init(&map, &opts, NULL), RON_INVALID);
    opts.entries_max = (uint32_t)RON_MAP_ENTRIES_MAX + 1;
    assert_int_equal(ron_map_init(&map, &opts, NULL), RON_INVALID);
    ron_map_done(&map);
}

static void test_map__expiry__is_exact_to_the_millisecond(void **state)
{
    struct item a = {.key = 1};
    struct item b = {.key = 2};
    struct ron_map_key key_a = key_of(GOOD, &a.key);
    struct ron_map_key key_b = key_of(GOOD, &b.key);
    struct ron_map_opts opts = {.entries_max = 4, .ttl_ms = 100, .equal = item_equal};
    struct ron_map map;

    (void)state;
    assert_int_equal(ron_map_init(&map, &opts, NULL), RON_OK);
    assert_null(ron_map_expired(&map, UINT64_MAX));
    assert_int_equal(ron_map_add(&map, &a.node, &key_a, 1000), RON_OK);
    assert_int_equal(ron_map_add(&map, &b.node, &key_b, 1001), RON_OK);
    assert_null(ron_map_expired(&map, 1099));
    assert_ptr_equal(ron_map_expired(&map, 1100), &a.node);
    assert_ptr_equal(ron_map_find(&map, &key_a), &a.node); /* M4: until it is removed */
    assert_null(ron_map_expired(&map, 0));                 /* a clock that went back */
    ron_map_touch(&map, &a.node, 1100);
    assert_null(ron_map_expired(&map, 1100));
    assert_ptr_equal(ron_map_expired(&map, 1101), &b.node);
    ron_map_pin(&map, &b.node);
    assert_null(ron_map_expired(&map, 1199));
    assert_ptr_equal(ron_map_expired(&map, 1200), &a.node);
    ron_map_remove(&map, &a.node);
    assert_null(ron_map_expired(&map, UINT64_MAX)); /* the pinned one has no age */
    ron_map_unpin(&map, &b.node, 2000);
    assert_null(ron_map_expired(&map, 2099));
    assert_ptr_equal(ron_map_expired(&map, 2100), &b.node);
    ron_map_remove(&map, &b.node);
    ron_map_done(&map);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void add_node_twice(void *arg)
{
    struct item a = {.key = 1};
    struct ron_map_key key = key_of(GOOD, &a.key);
    struct ron_map map;

    (void)arg;
    (void)ron_map_init(&map, &(struct ron_map_opts){.entries_max = 4, .equal = item_equal}, NULL);
    RON_IGNORE(ron_map_add(&map, &a.node, &key, 0));
    key.hash++;
    RON_IGNORE(ron_map_add(&map, &a.node, &key, 0));
}

static void remove_stranger(void *arg)
{
    struct item a = {.key = 1};
    struct ron_map map;

    (void)arg;
    (void)ron_map_init(&map, &(struct ron_map_opts){.entries_max = 4, .equal = item_equal}, NULL);
    ron_map_remove(&map, &a.node);
}

static void test_map__mistakes__are_caught(void **state)
{
    (void)state;
    support_death(add_node_twice, NULL, "the node is in a map");
    support_death(remove_stranger, NULL, "the node is not in this map");
}

/* ---- the hash -------------------------------------------------------------------------------- */

static uint64_t rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static void rounds(uint64_t v[4], int count)
{
    while (count-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32) + v[3];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

/* Oracle: SipHash-c-d from the paper, a byte at a time; libsodium has the one with 2 and 4. */
static uint64_t sip(int c, int d, const uint64_t key[2], const uint8_t *in, size_t len)
{
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word = 0;

    for (size_t i = 0; i <= (len | 7); i++) {
        uint64_t byte = i < len ? in[i] : i == (len | 7) ? (uint8_t)len : 0;

        word |= byte << i % 8 * 8;
        if (i % 8 == 7) {
            v[3] ^= word;
            rounds(v, c);
            v[0] ^= word;
            word = 0;
        }
    }
    v[2] ^= 0xff;
    rounds(v, d);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void test_hash__random_inputs__match_siphash_1_3(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 2000; i++) {
        uint64_t key[2] = {ron_rand_u64(&rand), ron_rand_u64(&rand)};
        uint64_t theirs = 0;
        uint8_t in[70];
        size_t len = (size_t)ron_rand_below(&rand, sizeof in + 1);

        ron_rand_bytes(&rand, in, sizeof in);
        (void)crypto_shorthash((uint8_t *)&theirs, in, len, (const uint8_t *)key);
        assert_true(sip(2, 4, key, in, len) == theirs);
        assert_true(ron_hash((struct ron_hash_key){key[0], key[1]}, in, len) ==
                    sip(1, 3, key, in, len));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map__random_operations__match_an_array),
        cmocka_unit_test(test_map__constant_hash__still_finds_by_key),
        cmocka_unit_test(test_map__growth__keeps_every_node),
        cmocka_unit_test(test_map__full__refuses_and_changes_nothing),
        cmocka_unit_test(test_map__expiry__is_exact_to_the_millisecond),
        cmocka_unit_test(test_map__mistakes__are_caught),
        cmocka_unit_test(test_hash__random_inputs__match_siphash_1_3),
    };

    return cmocka_run_group_tests_name("unit.base.map", tests, NULL, NULL);
}
