/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a group becomes one frame with the right roots, what the second look finds wrong is never
 * written, and after a failure nothing more is.
 * Method: works from the sequencer into a committer over a log in a folder; the disk ports fail
 * when the test says so; works are bent by hand between the two stages. */
#include "unit/io/fixture.h"
#include "unit/ledger/works.h"

#include "ledger/pipeline/commit.h"

enum { SMALL = 64 << 10, HASHES_MAX = 4096 };

struct hashes {
    struct ron_tree_hash list[HASHES_MAX];
    uint64_t count;
    bool fail;
};

static struct led_seq *seq;
static struct led_log *log_;
static struct led_commit *committer;
static struct hashes hashes;
static struct led_work *out[2 * LED_WINDOW_MAX];

/* ---- ports ----------------------------------------------------------------------------------- */

static struct ron_env env;
static struct ron_disk_ops disk;
static bool fail_sync;
static bool no_space;

static enum ron_rc sync_or_fail(const struct ron_env *e, int fd, bool data_only,
                                struct ron_err *err)
{
    if (fail_sync) {
        return ron_err_set(err, RON_IO, "the disk is gone");
    }
    return ron_env_linux()->disk->sync(e, fd, data_only, err);
}

static enum ron_rc free_or_none(const struct ron_env *e, const char *path, uint64_t *ret_bytes)
{
    *ret_bytes = 0;
    return no_space ? RON_OK : ron_env_linux()->disk->free_bytes(e, path, ret_bytes);
}

static enum ron_rc hashes_append(void *ctx, uint64_t first, const struct ron_tree_hash *list,
                                 size_t count, struct ron_err *err)
{
    (void)ctx;
    (void)err;
    assert_true(first == hashes.count && first + count <= HASHES_MAX);
    if (hashes.fail) {
        return RON_IO;
    }
    memcpy(hashes.list + first, list, count * sizeof *list);
    hashes.count += count;
    return RON_OK;
}

static enum ron_rc hashes_read(void *ctx, const uint64_t *places, size_t count,
                               struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    (void)ctx;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        assert_true(places[i] < hashes.count);
        ret_hashes[i] = hashes.list[places[i]];
    }
    return RON_OK;
}

static const struct ron_tree_store store = {.append = hashes_append, .read = hashes_read};

/* ---- setting up ------------------------------------------------------------------------------ */

static int setup(void **state)
{
    struct led_book_opts book_opts = {.batch_max = 64, .undo_max = 4096};
    struct led_seq_opts seq_opts = {.own_work = works_new};
    struct led_log_opts log_opts = {.env = &env, .segment_bytes = SMALL, .free_floor_bytes = 1};
    struct led_log_report report;
    struct ron_tree tree;

    assert_int_equal(fixture_setup(state), 0);
    works_begin();
    hashes.count = 0;
    hashes.fail = fail_sync = no_space = false;
    env = *ron_env_linux();
    disk = *env.disk;
    disk.sync = sync_or_fail;
    disk.free_bytes = free_or_none;
    env.disk = &disk;
    memcpy(book_opts.hash_key, works.hash_key, sizeof works.hash_key);
    memcpy(seq_opts.hash_key, works.hash_key, sizeof works.hash_key);
    assert_int_equal(led_book_new(&book_opts, &seq_opts.take_book), RON_OK);
    assert_int_equal(led_seq_new(&seq_opts, &seq), RON_OK);
    log_opts.dir = fixture_path(*state, "log");
    assert_int_equal(led_log_open(&log_opts, 0, NULL, NULL, &log_, &report, NULL), RON_OK);
    ron_tree_init(&tree);
    assert_int_equal(
        led_commit_new(
            &(struct led_commit_opts){.env = &env, .log = log_, .hashes = &store, .tree = &tree},
            &committer, NULL),
        RON_OK);
    return 0;
}

static int teardown(void **state)
{
    led_commit_free(committer);
    led_log_close(log_);
    led_seq_free(seq);
    works_drop();
    return fixture_teardown(state);
}

/* The works of one window that go to the committer. */
static size_t window(struct led_work **list, size_t count)
{
    size_t made = led_seq_window(seq, list, count, works.now_ms, 1000, out);
    size_t given = 0;

    for (size_t i = 0; i < made; i++) {
        if (out[i]->fate == LED_FATE_COMMIT) {
            out[given++] = out[i];
        }
    }
    return given;
}

static enum ron_rc commit_works(size_t count, struct led_commit_done *done)
{
    struct led_commit_done own;
    enum ron_rc rc = led_commit_group(committer, out, count, done == NULL ? &own : done, NULL);

    if (rc == RON_OK) {
        led_seq_committed(seq, count);
    }
    return rc;
}

static void commit_one(struct led_work *w)
{
    assert_int_equal(window(&w, 1), 1);
    assert_int_equal(commit_works(1, NULL), RON_OK);
    assert_int_equal(w->result, LED_RESULT_COMMITTED);
}

static uint64_t last_seq(void)
{
    struct led_log_head head;

    led_log_head(log_, &head);
    return head.last_seq;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void check_record(struct led_cursor *records, const struct led_work *w, uint8_t kind)
{
    struct led_record record = {0};
    struct led_cursor entries;
    struct led_stored stored;
    bool bad = false;
    size_t i = 0;

    assert_true(led_records_next(records, &record, &bad));
    assert_int_equal(record.kind, kind);
    assert_int_equal(record.seq_first, w->seq_first);
    assert_int_equal(record.now_ms, w->now_ms);
    assert_int_equal(record.count, w->batch.count);
    assert_int_equal(record.idem_id.len, w->batch.idem_id.len);
    led_entries(&record, &entries);
    while (led_entries_next(&entries, &stored, &bad)) {
        assert_int_equal(stored.seq, w->seq_first + i);
        assert_int_equal(stored.leaf.len, w->leaves[i].len);
        assert_memory_equal(stored.leaf.ptr, w->leaves[i].ptr, stored.leaf.len);
        assert_true(stored.links.account.available.v == w->links[i].account.available.v);
        assert_int_equal(stored.links.account.prev_seq, w->links[i].account.prev_seq);
        i++;
    }
    assert_false(bad);
    assert_int_equal(i, w->batch.count);
}

static void test_led_commit__group__one_frame_with_the_root_of_every_work(void **state)
{
    struct led_entry pair[2];
    struct led_work *list[3];
    struct led_commit_done done;
    struct ron_tree tree;
    struct ron_tree_hash root;
    struct led_frame frame = {0};
    struct led_cursor records;
    struct ron_buf room;

    (void)state;
    commit_one(works_mint("a", 100));
    pair[0] = works_entry(LED_KIND_TRANSFER, "a", "b", 1);
    pair[1] = works_entry(LED_KIND_TRANSFER, "b", "c", 1);
    list[0] = works_cancel("dead");
    list[1] = works_batch("k", pair, 2);
    works.now_ms++;
    list[2] = works_transfer("a", "c", 2);
    assert_int_equal(window(list, 3), 3);
    assert_int_equal(commit_works(3, &done), RON_OK);
    assert_int_equal(list[0]->result, LED_RESULT_CANCELLED);
    assert_int_equal(list[1]->result, LED_RESULT_COMMITTED);
    assert_int_equal(done.seq_first, 2);
    assert_int_equal(done.seq_last, 4);
    assert_int_equal(done.entries, 3);
    assert_int_not_equal(done.time_ms, 0);
    assert_int_equal(list[0]->commit_ms, done.time_ms);
    assert_int_equal(list[2]->commit_ms, done.time_ms);
    assert_false(done.hashes_lost);
    ron_tree_init(&tree);
    assert_int_equal(ron_tree_extend(&tree, works.all[0]->hashes, 1, NULL), RON_OK);
    ron_tree_root(&tree, &root);
    assert_true(ron_tree_hash_equal(&list[0]->root, &root)); /* a tombstone leaves the root */
    assert_int_equal(ron_tree_extend(&tree, list[1]->hashes, 2, NULL), RON_OK);
    ron_tree_root(&tree, &root);
    assert_true(ron_tree_hash_equal(&list[1]->root, &root));
    assert_int_equal(ron_tree_extend(&tree, list[2]->hashes, 1, NULL), RON_OK);
    ron_tree_root(&tree, &root);
    assert_true(ron_tree_hash_equal(&list[2]->root, &root));
    assert_true(ron_tree_hash_equal(&done.root, &root));
    assert_int_equal(hashes.count, ron_tree_stored_count(4));
    assert_int_equal(ron_tree_root_at(&store, 4, &root, NULL), RON_OK);
    assert_true(ron_tree_hash_equal(&done.root, &root));
    ron_buf_init(&room, LED_FRAME_MAX);
    assert_int_equal(led_log_read(log_, 3, &room, &frame, NULL), RON_OK);
    assert_int_equal(frame.records, 3);
    assert_int_equal(frame.time_ms, done.time_ms);
    led_records(&frame, &records);
    check_record(&records, list[0], LED_RECORD_CANCEL);
    check_record(&records, list[1], LED_RECORD_BATCH);
    check_record(&records, list[2], LED_RECORD_BATCH);
    ron_buf_done(&room);
}

static void test_led_commit__tombstone_alone__frame_without_entries(void **state)
{
    struct led_work *w = works_cancel("dead");
    struct led_commit_done done;

    (void)state;
    assert_int_equal(window(&w, 1), 1);
    assert_int_equal(commit_works(1, &done), RON_OK);
    assert_int_equal(done.entries, 0);
    assert_int_equal(done.seq_last, 0);
    assert_int_equal(hashes.count, 0);
    commit_one(works_mint("a", 1));
    assert_int_equal(last_seq(), 1);
}

static void test_led_commit__many_works__groups_are_bounded(void **state)
{
    static struct led_work *list[LED_GROUP_MAX + 1];
    static struct ron_str leaf;

    (void)state;
    for (size_t i = 0; i < LED_GROUP_MAX + 1; i++) {
        list[i] = works_mint("a", 1);
    }
    assert_int_equal(led_commit_gather(committer, list, 1), 1);
    assert_int_equal(led_commit_gather(committer, list, LED_GROUP_MAX + 1), LED_GROUP_MAX);
    leaf = list[0]->leaves[0];
    list[1]->leaves[0].len = LED_GROUP_BYTES; /* looked at, not read */
    assert_int_equal(led_commit_gather(committer, list, 5), 2);
    list[0]->leaves[0].len = 2 * LED_GROUP_BYTES;
    assert_int_equal(led_commit_gather(committer, list, 5), 1);
    list[0]->leaves[0] = leaf;
}

/* What the second look must find: how to bend a good group of two works. */
enum bend {
    BEND_NOTHING,
    BEND_SEQ,
    BEND_COUNT,
    BEND_BALANCE,
    BEND_BALANCE_OF_TO,
    BEND_BELOW_ZERO,
    BEND_HELD,
    BEND_FORWARD,
    BEND_OTHER_ACCOUNT,
    BEND_SIDES,
    BEND_CREDIT,
    BEND_END,
};

static const char *const bend_says[] = {
    [BEND_SEQ] = "seqs do not follow",
    [BEND_COUNT] = "not as many entries",
    [BEND_BALANCE] = "does not follow from the one before",
    [BEND_BALANCE_OF_TO] = "does not follow from the one before",
    [BEND_BELOW_ZERO] = "cannot have come from",
    [BEND_HELD] = "does not follow from the one before",
    [BEND_FORWARD] = "leads forward",
    [BEND_OTHER_ACCOUNT] = "of another account",
    [BEND_SIDES] = "not the sides",
    [BEND_CREDIT] = "credits and debits",
};

static void bend(enum bend how, struct led_work *first, struct led_work *second)
{
    switch (how) {
    case BEND_SEQ:
        second->seq_first++;
        second->seq_last++;
        break;
    case BEND_COUNT:
        second->seq_last++;
        break;
    case BEND_BALANCE:
        second->links[0].account.available.v++;
        break;
    case BEND_BALANCE_OF_TO:
        second->links[0].to.available.v++;
        break;
    case BEND_BELOW_ZERO:
        first->links[1].account.available.v = 0; /* a credit of 5 */
        break;
    case BEND_HELD:
        second->links[0].account.held.v++;
        break;
    case BEND_FORWARD:
        first->links[0].account.prev_seq = first->seq_first;
        break;
    case BEND_OTHER_ACCOUNT:
        second->links[0].account.prev_seq = first->seq_first + 1;
        break;
    case BEND_SIDES:
        second->links[0].has_to = false;
        break;
    case BEND_CREDIT:
        first->batch.entries[1].amount.v--;
        first->links[1].account.available.v--;
        second->links[0].to.available.v--;
        break;
    case BEND_NOTHING:
    case BEND_END:
        break;
    }
}

static void try_bent(void **state, enum bend how)
{
    struct led_work *list[2];
    struct led_entry pair[2];
    struct led_commit_done done;
    struct ron_err err = {0};

    (void)state;
    commit_one(works_mint("a", 100));
    pair[0] = works_entry(LED_KIND_DEBIT, "a", "", 5);
    pair[1] = works_entry(LED_KIND_CREDIT, "b", "", 5);
    list[0] = works_batch(NULL, pair, 2);
    works.now_ms++;
    list[1] = works_transfer("a", "b", 1);
    assert_int_equal(window(list, 2), 2);
    bend(how, list[0], list[1]);
    if (how == BEND_NOTHING) {
        assert_int_equal(led_commit_group(committer, out, 2, &done, &err), RON_OK);
        assert_int_equal(last_seq(), 4);
        return;
    }
    assert_int_equal(led_commit_group(committer, out, 2, &done, &err), RON_CORRUPT);
    if (strstr(err.msg, bend_says[how]) == NULL) {
        fail_msg("bend %d: %s", (int)how, err.msg);
    }
    assert_int_equal(list[0]->result, LED_RESULT_NONE);
    assert_int_equal(last_seq(), 1);
    assert_int_equal(led_commit_group(committer, out, 1, &done, &err), RON_CLOSED);
}

static void test_led_commit__group_that_does_not_add_up__is_not_written(void **state)
{
    for (int how = BEND_NOTHING; how < BEND_END; how++) {
        if (how != BEND_NOTHING) {
            assert_int_equal(teardown(state), 0);
            assert_int_equal(setup(state), 0);
        }
        try_bent(state, (enum bend)how);
    }
}

static void test_led_commit__all_kinds__pass_the_second_look(void **state)
{
    struct led_entry e;
    struct led_work *w;
    const struct led_entry *originals[1];

    (void)state;
    commit_one(works_mint("a", 100));
    commit_one(works_one(NULL, LED_KIND_BURN, "a", "", 10));
    e = works_entry(LED_KIND_HOLD, "a", "", 50);
    e.id = works_str("hold");
    e.expires_ms = works.now_ms + 10;
    commit_one(works_batch(NULL, &e, 1));
    e = works_entry(LED_KIND_CAPTURE, "a", "b", 20);
    e.ref = works_str("hold");
    e.id = works_str("capture");
    w = works_batch(NULL, &e, 1);
    commit_one(w);
    originals[0] = &w->batch.entries[0];
    e = works_entry(LED_KIND_RELEASE, "a", "", 5);
    e.ref = works_str("hold");
    commit_one(works_batch(NULL, &e, 1));
    e = works_entry(LED_KIND_REVERSE, "a", "", 7);
    e.ref = works_str("capture");
    w = works_batch(NULL, &e, 1);
    w->originals = originals;
    commit_one(w);
    originals[0] = &works.all[1]->batch.entries[0]; /* the burn */
    e = works_entry(LED_KIND_REVERSE, "a", "", 3);
    e.ref = works.all[1]->batch.entries[0].id;
    w = works_batch(NULL, &e, 1);
    w->originals = originals;
    commit_one(w);
    originals[0] = &works.all[0]->batch.entries[0]; /* the mint */
    e = works_entry(LED_KIND_REVERSE, "a", "", 2);
    e.ref = works.all[0]->batch.entries[0].id;
    w = works_batch(NULL, &e, 1);
    w->originals = originals;
    commit_one(w);
    works.now_ms += 10;
    assert_int_equal(window(NULL, 0), 1); /* the expiry of what is left */
    assert_int_equal(out[0]->kind, LED_WORK_EXPIRE);
    assert_int_equal(commit_works(1, NULL), RON_OK);
    assert_int_equal(last_seq(), 9);
    assert_null(led_book_audit(led_seq_book(seq)));
}

static void test_led_commit__failed_sync__refuses_everything_after(void **state)
{
    struct led_work *w = works_mint("a", 5);
    struct led_commit_done done;
    struct ron_tree before;

    (void)state;
    commit_one(works_mint("a", 1));
    before = *led_commit_tree(committer);
    assert_int_equal(window(&w, 1), 1);
    fail_sync = true;
    assert_int_equal(led_commit_group(committer, out, 1, &done, NULL), RON_IO);
    fail_sync = false;
    assert_int_equal(w->result, LED_RESULT_NONE);
    assert_int_equal(led_commit_group(committer, out, 1, &done, NULL), RON_CLOSED);
    assert_int_equal(led_commit_tree(committer)->size, before.size);
    assert_int_equal(hashes.count, ron_tree_stored_count(1));
    led_seq_abort(seq);
    assert_int_equal(led_seq_last(seq), 1);
}

static void test_led_commit__no_space_for_a_segment__stays_good(void **state)
{
    struct led_entry list[64];
    struct led_work *w;
    struct led_commit_done done;
    enum ron_rc rc = RON_OK;

    (void)state;
    no_space = true;
    for (int group = 0; rc == RON_OK && group < 100; group++) {
        for (size_t i = 0; i < 64; i++) {
            list[i] = works_entry(LED_KIND_MINT, "a", "", 1);
        }
        w = works_batch(NULL, list, 64);
        assert_int_equal(window(&w, 1), 1);
        rc = led_commit_group(committer, out, 1, &done, NULL);
        if (rc == RON_OK) {
            led_seq_committed(seq, 1);
        }
    }
    assert_int_equal(rc, RON_LIMIT);
    no_space = false;
    assert_int_equal(commit_works(1, &done), RON_OK);
    assert_int_equal(done.seq_last, led_seq_durable(seq));
    assert_int_equal(last_seq(), done.seq_last);
}

static void test_led_commit__hashes_cannot_be_stored__durable_and_closed(void **state)
{
    struct led_work *w = works_mint("a", 5);
    struct led_commit_done done;

    (void)state;
    assert_int_equal(window(&w, 1), 1);
    hashes.fail = true;
    assert_int_equal(commit_works(1, &done), RON_OK);
    assert_true(done.hashes_lost);
    assert_int_equal(w->result, LED_RESULT_COMMITTED);
    assert_int_equal(last_seq(), 1);
    w = works_mint("a", 5);
    assert_int_equal(window(&w, 1), 1);
    assert_int_equal(commit_works(1, &done), RON_CLOSED);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_commit__group__one_frame_with_the_root_of_every_work),
        CASE(test_led_commit__tombstone_alone__frame_without_entries),
        CASE(test_led_commit__many_works__groups_are_bounded),
        CASE(test_led_commit__group_that_does_not_add_up__is_not_written),
        CASE(test_led_commit__all_kinds__pass_the_second_look),
        CASE(test_led_commit__failed_sync__refuses_everything_after),
        CASE(test_led_commit__no_space_for_a_segment__stays_good),
        CASE(test_led_commit__hashes_cannot_be_stored__durable_and_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
