/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what the feed hands over makes the same index as reading the log would; what does not fit
 * is left out whole. */
#include "unit/ledger/works.h"

#include "ledger/core/feed.h"
#include "ledger/pipeline/preval.h"
#include "ron/io/linux_env.h"

static struct led_index *open_index(void)
{
    struct led_index_opts opts = {.env = ron_env_linux()};
    struct led_index_state state;
    struct led_index *ix = NULL;

    assert_int_equal(led_index_open(&opts, &ix, &state, NULL), RON_OK);
    return ix;
}

static bool has(struct led_index *ix, enum led_index_kind kind, struct led_key key,
                const char *text, uint64_t seq)
{
    uint64_t seqs[LED_INDEX_FOUND_MAX];
    size_t count = 0;

    if (!led_index_maybe(ix, kind, key, works_str(text)) ||
        led_index_find(ix, kind, key, seqs, &count, NULL) != RON_OK) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (seqs[i] == seq) {
            return true;
        }
    }
    return false;
}

static void test_feed__group__ids_and_keys_are_found(void **state)
{
    static const char long_id[] = "an-id-that-is-longer-than-what-the-index-looks-at-0001";
    struct led_entry e[2];
    struct led_index *ix = open_index();
    struct ron_tree_hash root = {{7}};
    struct ron_registry *registry = NULL;
    struct led_feed *feed = NULL;
    struct led_feed_block *blocks;
    struct led_work *list[2];

    (void)state;
    works_begin();
    e[0] = works_entry(LED_KIND_MINT, "a", "", 5);
    e[1] = works_entry(LED_KIND_TRANSFER, "a", "b", 1);
    e[0].id = works_str(long_id);
    list[0] = works_batch("order-1", e, 2);
    list[0]->seq_first = 10;
    list[1] = works_cancel("never");
    list[1]->seq_first = 12;
    assert_int_equal(ron_registry_new(&registry, NULL), RON_OK);
    assert_int_equal(led_feed_new(registry, &feed, NULL), RON_OK);
    assert_null(led_feed_take(feed));
    led_feed_put(feed, list, 2, 10, 11, &root);
    blocks = led_feed_take(feed);
    assert_non_null(blocks);
    assert_null(led_feed_take(feed));
    assert_int_equal(blocks->seq_first, 10);
    assert_int_equal(blocks->seq_last, 11);
    assert_int_equal(led_feed_index(blocks, ix, NULL), RON_OK);
    assert_int_equal(led_index_commit(ix, 11, &root, NULL), RON_OK);
    assert_true(has(ix, LED_INDEX_ID, list[0]->preps[0].id, long_id, 10));
    assert_true(has(ix, LED_INDEX_IDEM, list[0]->idem, "order-1", 10));
    assert_true(has(ix, LED_INDEX_IDEM, list[1]->idem, "never", 12));
    assert_false(has(ix, LED_INDEX_ID, list[0]->preps[0].id, long_id, 11));
    led_feed_drop(blocks);
    led_feed_free(feed);
    ron_registry_free(registry);
    led_index_close(ix);
    works_drop();
}

static uint64_t sample(const struct ron_reg_row *row, const char *metric)
{
    for (size_t i = 0; i < row->sample_count; i++) {
        if (strcmp(row->samples[i].metric, metric) == 0) {
            return row->samples[i].value;
        }
    }
    fail_msg("no sample %s", metric);
    return 0;
}

static void test_feed__too_much_waits__left_out_and_goes_on(void **state)
{
    struct ron_tree_hash root = {{0}};
    struct ron_registry *registry = NULL;
    struct led_feed *feed = NULL;
    struct led_feed_block *blocks;
    struct led_entry e[64];
    struct led_work *w;
    uint64_t put = 0;
    struct ron_reg_row row;
    uint64_t taken = 0;

    (void)state;
    works_begin();
    for (size_t i = 0; i < RON_ARRAY_LEN(e); i++) {
        e[i] = works_entry(LED_KIND_MINT, "a", "", 1);
    }
    w = works_batch(NULL, e, RON_ARRAY_LEN(e));
    assert_int_equal(ron_registry_new(&registry, NULL), RON_OK);
    assert_int_equal(led_feed_new(registry, &feed, NULL), RON_OK);
    while (put < 20000) {
        w->seq_first = 1 + 64 * put;
        led_feed_put(feed, &w, 1, w->seq_first, w->seq_first + 63, &root);
        put++;
    }
    assert_int_equal(ron_registry_rows(registry, 0, &row, 1), 1);
    assert_string_equal(row.name, "index_feed");
    assert_int_equal(row.capacity, LED_FEED_BYTES_MAX);
    assert_in_range(row.depth, LED_FEED_BYTES_MAX / 2, LED_FEED_BYTES_MAX);
    blocks = led_feed_take(feed);
    for (const struct led_feed_block *b = blocks; b != NULL; b = b->next) {
        assert_int_equal(b->seq_first, 1 + 64 * taken); /* the oldest stay: a gap is at the end */
        taken++;
    }
    assert_in_range(taken, 1000, put - 1);
    led_feed_drop(blocks);
    assert_int_equal(ron_registry_rows(registry, 0, &row, 1), 1);
    assert_int_equal(row.depth, 0);
    assert_int_equal(sample(&row, "queue_sent_total"), taken);
    assert_int_equal(sample(&row, "queue_received_total"), taken);
    assert_int_equal(sample(&row, "queue_dropped_total"), put - taken);
    led_feed_put(feed, &w, 1, 1, 64, &root);
    blocks = led_feed_take(feed);
    assert_non_null(blocks);
    led_feed_drop(blocks);
    led_feed_free(feed);
    ron_registry_free(registry);
    works_drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feed__group__ids_and_keys_are_found),
        cmocka_unit_test(test_feed__too_much_waits__left_out_and_goes_on),
    };

    return cmocka_run_group_tests_name("ledger.led_feed", tests, NULL, NULL);
}
