/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: every allocation of base may fail, alone or with all later ones, and the caller gets a
 * clean code and no leak.
 * Method: the fault sweep over one whole life of each thing that allocates. What must hold inside a
 * case is stated with RON_ASSERT. */
#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/base/arena.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "ron/base/hex.h"
#include "ron/base/map.h"
#include "ron/base/pool.h"

static enum ron_rc use_alloc(void *arg)
{
    enum ron_rc rc = RON_NOMEM;
    RON_AUTO_FREE char *text = ron_strdup("text");
    RON_AUTO_FREE void *aligned = ron_alloc_aligned(64, 100);
    RON_AUTO_FREE void *zero = ron_alloc_zero(10);
    RON_AUTO_FREE uint32_t *numbers = ron_alloc_array(10, sizeof(*numbers));

    (void)arg;
    if (text != NULL && aligned != NULL && zero != NULL && numbers != NULL) {
        numbers[9] = 7;
        uint32_t *grown = ron_realloc_array(numbers, 1000, sizeof(*numbers));

        if (grown != NULL) {
            RON_ASSERT(grown[9] == 7);
            numbers = grown;
            rc = RON_OK;
        } else {
            RON_ASSERT(numbers[9] == 7); /* the old block is still there */
        }
    }
    return rc;
}

static enum ron_rc use_arena(void *arg)
{
    struct ron_arena arena = {0};
    enum ron_rc rc = RON_OK;

    (void)arg;
    RON_TRY(ron_arena_init(&arena, 1000));
    struct ron_arena_mark mark = ron_arena_mark(&arena);
    bool complete = ron_arena_dup(&arena, "abc", 3) != NULL &&
                    ron_arena_alloc_array(&arena, 10, 4, 4) != NULL &&
                    RON_ARENA_NEW(&arena, uint64_t) != NULL;

    RON_ASSERT(complete == !ron_arena_overflowed(&arena));
    rc = complete ? RON_OK : RON_NOMEM;
    ron_arena_reset(&arena, mark);
    RON_ASSERT(!ron_arena_overflowed(&arena));
    ron_arena_done(&arena);
    return rc;
}

static enum ron_rc use_pool(void *arg)
{
    struct ron_pool pool = {0};
    void *objects[3];
    enum ron_rc rc = RON_OK;

    (void)arg;
    RON_TRY(ron_pool_init(&pool, "swept", 40, 8, 3));
    for (size_t i = 0; i < RON_ARRAY_LEN(objects); i++) {
        objects[i] = ron_pool_get(&pool);
        rc = objects[i] != NULL ? rc : RON_FULL;
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(objects); i++) {
        ron_pool_put(&pool, objects[i]);
    }
    RON_ASSERT(ron_pool_live(&pool) == 0);
    ron_pool_done(&pool);
    return rc;
}

static enum ron_rc use_buf(void *arg)
{
    struct ron_buf buf;
    uint8_t *room = NULL;
    size_t len = 0;

    (void)arg;
    ron_buf_init(&buf, 5000);
    while (ron_buf_error(&buf) == RON_OK && len < 4000) {
        len = ron_buf_len(&buf);
        (void)ron_buf_append_fmt(&buf, "%200d", 7); /* the error sticks and is read below */
        (void)ron_buf_append_text(&buf, "some more text");
        if (ron_buf_reserve(&buf, 50, &room) == RON_OK) {
            memset(room, 'r', 50);
            ron_buf_commit(&buf, 50);
        }
    }
    RON_ASSERT(ron_buf_len(&buf) >= len); /* a failure takes nothing away */
    RON_ASSERT(strlen(ron_buf_text(&buf)) == ron_buf_len(&buf));
    enum ron_rc rc = ron_buf_error(&buf);

    ron_buf_done(&buf);
    return rc;
}

/* Additions never fail for memory: without room for more chains the chains become longer. */
static enum ron_rc use_map(void *arg)
{
    enum { NODES = 200 };
    struct ron_map_node nodes[NODES] = {{0}};
    struct ron_map_opts opts = {.entries_max = NODES};
    struct ron_map map;

    (void)arg;
    RON_TRY(ron_map_init(&map, &opts, NULL));
    for (uint64_t i = 0; i < NODES; i++) {
        struct ron_map_key key = ron_map_key((struct ron_hash_key){3, 4}, &i, sizeof i);
        enum ron_rc rc = ron_map_add(&map, &nodes[i], &key, i);

        RON_ASSERT(rc == RON_OK);
    }
    for (uint64_t i = 0; i < NODES; i++) {
        struct ron_map_key key = ron_map_key((struct ron_hash_key){3, 4}, &i, sizeof i);

        RON_ASSERT(ron_map_find(&map, &key) == &nodes[i]);
        ron_map_remove(&map, &nodes[i]);
    }
    RON_ASSERT(ron_map_any(&map) == NULL);
    ron_map_done(&map);
    return RON_OK;
}

static enum ron_rc use_base64(void *arg)
{
    uint8_t bytes[300] = {0};
    struct ron_buf out;
    enum ron_rc rc;

    (void)arg;
    ron_buf_init(&out, 1000);
    rc = ron_base64_write(&out, bytes, sizeof bytes);
    RON_ASSERT(ron_buf_len(&out) == (rc == RON_OK ? 400u : 0u));
    ron_buf_done(&out);
    return rc;
}

SUPPORT_FAULT_SWEEP_TOLERANT(test_base_faults__map__grows_later_or_fails_cleanly, use_map)
SUPPORT_FAULT_SWEEP(test_base_faults__base64__fails_cleanly, use_base64)
SUPPORT_FAULT_SWEEP(test_base_faults__alloc__fails_cleanly, use_alloc)
SUPPORT_FAULT_SWEEP(test_base_faults__arena__fails_cleanly, use_arena)
SUPPORT_FAULT_SWEEP(test_base_faults__pool__fails_cleanly, use_pool)
SUPPORT_FAULT_SWEEP(test_base_faults__buf__fails_cleanly, use_buf)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_faults__alloc__fails_cleanly),
        cmocka_unit_test(test_base_faults__arena__fails_cleanly),
        cmocka_unit_test(test_base_faults__pool__fails_cleanly),
        cmocka_unit_test(test_base_faults__buf__fails_cleanly),
        cmocka_unit_test(test_base_faults__base64__fails_cleanly),
        cmocka_unit_test(test_base_faults__map__grows_later_or_fails_cleanly),
    };

    return cmocka_run_group_tests_name("fault.base", tests, NULL, NULL);
}
