/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what was told durable comes back after every recovery with the same book and root, whatever
 * became of the derived files; repetitions get the same answer; damage is found and named.
 * Method: the stages without threads over a folder (core.h); derived files are removed, cut, or
 * replaced by older ones between two lives; the log is bent by hand. */
#include "unit/ledger/core.h"

#include <fcntl.h>

#include "ledger/proof/checkpoint.h"
#include "ledger/publish/sign.h"
#include "merkle/note_priv.h"
#include "ron/io/memdisk.h"

static struct ron_env env;
static struct ron_disk_ops disk;
static bool fail_sync;

static enum ron_rc sync_or_fail(const struct ron_env *e, int fd, bool data_only,
                                struct ron_err *err)
{
    if (fail_sync) {
        return ron_err_set(err, RON_IO, "the disk is gone");
    }
    return ron_env_linux()->disk->sync(e, fd, data_only, err);
}

static uint64_t same_random(const struct ron_env *e)
{
    (void)e;
    return UINT64_C(0x1234567890abcdef);
}

static int setup(void **state)
{
    fail_sync = false;
    env = *ron_env_linux();
    disk = *env.disk;
    disk.sync = sync_or_fail;
    env.disk = &disk;
    return core_setup_on(state, &env);
}

static const char *in_dir(const char *name)
{
    static char path[2][FIXTURE_PATH_SIZE + 64];
    static unsigned turn;
    char *to = path[turn++ % 2];

    (void)snprintf(to, sizeof path[0], "%s/%s", core.dir, name);
    return to;
}

/* In the data directory. */
static void shell(const char *what)
{
    char command[4 * FIXTURE_PATH_SIZE];

    (void)snprintf(command, sizeof command, "cd %s && %s", core.dir, what);
    assert_int_equal(system(command), 0);
}

static void reopen(void)
{
    core_close();
    core_open();
}

/* ---- answers --------------------------------------------------------------------------------- */

static void test_core__repetition__same_answer_and_no_effect(void **state)
{
    struct led_entry pair[2] = {works_entry(LED_KIND_MINT, "a", "", 5),
                                works_entry(LED_KIND_TRANSFER, "a", "b", 2)};
    struct led_work *first = core_commit(works_batch("k", pair, 2));
    struct core_state before;
    struct led_work *again;

    (void)state;
    core_commit(works_mint("z", 1));
    core_state(&before);
    for (int life = 0; life < 2; life++) {
        again = works_again(first, "k");
        again->checked_seq = 0; /* as if the index lagged */
        if (life == 1) {
            /* After a restart all is indexed: the index names the seq. */
            uint64_t seqs[LED_INDEX_FOUND_MAX];
            size_t count = 0;

            assert_int_equal(
                led_index_find(core.r.index, LED_INDEX_IDEM, again->idem, seqs, &count, NULL),
                RON_OK);
            assert_int_equal(count, 1);
            core_look_up(again, seqs[0]);
        } else {
            core_run(again);
        }
        assert_int_equal(again->result, LED_RESULT_COMMITTED);
        assert_true(again->replayed);
        assert_int_equal(again->seq_first, first->seq_first);
        assert_int_equal(again->seq_last, first->seq_last);
        assert_memory_equal(&again->root, &first->root, sizeof again->root);
        core_expect(&before);
        reopen();
    }
}

static void test_core__same_key_other_body__idem_mismatch(void **state)
{
    struct led_entry e = works_entry(LED_KIND_MINT, "a", "", 5);
    struct core_state before;
    struct led_work *w;

    (void)state;
    core_commit(works_batch("k", &e, 1));
    core_state(&before);
    e = works_entry(LED_KIND_MINT, "a", "", 6);
    w = core_run(works_batch("k", &e, 1));
    assert_int_equal(w->result, LED_RESULT_REFUSED);
    assert_int_equal(w->refusals.items[0].reason, LED_REASON_IDEM_MISMATCH);
    core_expect(&before);
}

static void test_core__cancelled_key__conflict_now_and_after_a_restart(void **state)
{
    struct led_entry e;
    struct core_state before;
    struct led_work *w;

    (void)state;
    core_commit(works_mint("a", 1));
    assert_int_equal(core_run(works_cancel("k"))->result, LED_RESULT_CANCELLED);
    core_state(&before);
    for (int life = 0; life < 3; life++) {
        e = works_entry(LED_KIND_MINT, "a", "", 5);
        w = works_batch("k", &e, 1);
        if (life < 2) {
            core_run(w);
        } else {
            uint64_t seqs[LED_INDEX_FOUND_MAX];
            size_t count = 0;

            assert_int_equal(
                led_index_find(core.r.index, LED_INDEX_IDEM, w->idem, seqs, &count, NULL), RON_OK);
            assert_int_equal(count, 1);
            core_look_up(w, seqs[0]);
        }
        assert_int_equal(w->result, LED_RESULT_REFUSED);
        assert_int_equal(w->refusals.items[0].reason, LED_REASON_CONFLICT);
        core_expect(&before);
        reopen();
    }
    w = core_run(works_cancel("k"));
    assert_int_equal(w->result, LED_RESULT_CANCELLED);
    assert_true(w->replayed);
}

static void test_core__refused_and_dry_run__change_nothing(void **state)
{
    struct core_state before;
    struct led_work *w;

    (void)state;
    core_commit(works_mint("a", 10));
    core_state(&before);
    w = core_run(works_transfer("a", "new-account", 11));
    assert_int_equal(w->result, LED_RESULT_REFUSED);
    core_expect(&before);
    w = works_transfer("a", "new-account", 10);
    w->flags |= LED_APPLY_DRY_RUN;
    assert_int_equal(core_run(w)->result, LED_RESULT_DRY_RUN);
    core_expect(&before);
    reopen();
    core_expect(&before);
}

static void test_core__hold_that_expires__logged_and_replayed(void **state)
{
    struct led_entry e;
    struct core_state after;

    (void)state;
    core_commit(works_mint("a", 10));
    e = works_entry(LED_KIND_HOLD, "a", "", 10);
    e.expires_ms = works.now_ms + 5;
    core_commit(works_batch(NULL, &e, 1));
    reopen();
    assert_int_equal(led_seq_next_expiry_ms(core.r.seq), e.expires_ms);
    works.now_ms += 5;
    assert_int_equal(core_window(NULL, 0), RON_OK);
    core_state(&after);
    assert_int_equal(after.last_seq, 3);
    reopen();
    core_expect(&after);
    core_commit(works_transfer("a", "b", 10));
}

static void test_core__failed_append__aborted_then_recovered_whole(void **state)
{
    struct core_state before;
    struct core_state after;
    struct core_state now;
    struct led_work *w;

    (void)state;
    core_commit(works_mint("a", 10));
    core_state(&before);
    w = works_transfer("a", "b", 4);
    fail_sync = true;
    assert_int_equal(core_window(&w, 1), RON_IO);
    fail_sync = false;
    led_seq_abort(core.r.seq);
    core_state(&now);
    assert_memory_equal(now.digest, before.digest, sizeof now.digest);
    led_work_refuse(w, LED_REASON_SAFE_MODE, "", "writes are stopped");
    led_work_done(w);
    reopen();
    /* Nobody was told: it may be there or not, but whole. */
    core_state(&now);
    assert_in_range(now.last_seq, 1, 2);
    if (now.last_seq == 1) {
        core_expect(&before);
    }
    core_commit(works_transfer("a", "b", 6));
    core_state(&after);
    reopen();
    core_expect(&after);
}

/* ---- derived files --------------------------------------------------------------------------- */

static uint64_t random_journal(struct ron_rand *rand, struct core_state *ret)
{
    core_random(rand, 40);
    core_state(ret);
    return ret->last_seq;
}

static void test_core__recovery_with_image__replays_only_the_rest(void **state)
{
    struct ron_rand rand = support_rand();
    struct core_state end;
    uint64_t at_image;

    (void)state;
    at_image = random_journal(&rand, &end);
    core_index(true);
    core_random(&rand, 10);
    core_state(&end);
    for (int i = 0; i < 2; i++) {
        core.opts.parallel = i == 1;
        core.opts.verify_all = false;
        reopen();
        core_expect(&end);
        assert_int_equal(core.r.image_seq, at_image);
        assert_int_equal(core.r.replayed, end.last_seq - at_image);
        assert_int_equal(core.r.indexed_seq, end.last_seq);
        assert_false(core.r.rebuilt);
        core.opts.verify_all = true;
        reopen();
        core_expect(&end);
        assert_int_equal(core.r.replayed, end.last_seq);
    }
    /* And it goes on from there. */
    core_random(&rand, 10);
    core_state(&end);
    reopen();
    core_expect(&end);
}

static void test_core__index_lags_behind_the_image__keys_are_remembered(void **state)
{
    struct ron_rand rand = support_rand();
    struct core_state end;

    (void)state;
    random_journal(&rand, &end);
    core_index(false);
    core_random(&rand, 10);
    core_state(&end);
    reopen();
    core_expect(&end);
    assert_int_equal(core.r.image_seq, 0);
    assert_int_equal(core.r.indexed_seq, end.last_seq);
}

/* What happens to the derived files between two lives. */
static const struct {
    const char *command;
    bool rebuilt;
} losses[] = {
    {"true", false},
    {"rm -rf index", false},
    {"rm -rf tree", true},
    {"rm -rf index tree", false},
    {"truncate -s 0 tree/000000.hash", true},
    {"truncate -s -4096 tree/000000.hash", false}, /* behind the image: replayed anyway */
    {"tr '\\001-\\377' '\\000' < tree/000000.hash > t && mv t tree/000000.hash", true},
    {"rm -r index && cp -r old index", false},
    {"for f in index/journal-*; do printf garbage > $f; done", false},
    {"rm index/journal-*", false},
    {"rm index/image-*", false},
    {"rm -r index && touch index.mdb index.mdb-lock", false},
};

static void lose_and_recover(void **state, size_t i, bool parallel)
{
    struct ron_rand rand = support_rand();
    struct core_state end;

    (void)state;
    random_journal(&rand, &end);
    core_index(true);
    core_close();
    shell("cp -r index old");
    core_open();
    core_random(&rand, 30);
    core_index(true);
    core_random(&rand, 30);
    core_index(false); /* beyond the image */
    core_random(&rand, 5);
    core_state(&end);
    core_close();
    shell(losses[i].command);
    core.opts.parallel = parallel;
    core_open();
    core_expect(&end);
    assert_int_equal(core.r.report.damage, LED_DAMAGE_NONE);
    assert_int_equal(core.r.indexed_seq, end.last_seq);
    if (core.r.rebuilt != losses[i].rebuilt) {
        fail_msg("%s: rebuilt %d", losses[i].command, core.r.rebuilt);
    }
    core_random(&rand, 5);
    core_state(&end);
    reopen();
    core_expect(&end);
}

static void test_core__derived_files_lost_or_old__same_digest_and_root(void **state)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(losses); i++) {
        for (int parallel = 0; parallel < 2; parallel++) {
            assert_int_equal(core_teardown(state), 0);
            assert_int_equal(setup(state), 0);
            lose_and_recover(state, i, parallel == 1);
        }
    }
}

static void test_core__index_of_a_longer_journal__is_made_anew(void **state)
{
    struct ron_rand rand = support_rand();
    struct core_state end;

    (void)state;
    random_journal(&rand, &end);
    core_close();
    shell("cp -r log log.old");
    core_open();
    core_random(&rand, 10);
    core_index(true);
    core_close();
    shell("rm -r log && mv log.old log");
    core_open();
    assert_true(core.r.rebuilt);
    core_expect(&end);
    assert_int_equal(core.r.report.damage, LED_DAMAGE_NONE);
}

static void recover_with_foreign_index(bool with_image)
{
    struct core_state end;

    core_commit(works_mint("a", 10));
    core_close();
    shell("cp -r log log.old");
    core_open();
    core_commit(works_mint("a", 20));
    core_index(with_image);
    core_close();
    shell("rm -r log && mv log.old log && mv index keep");
    core_open();
    core_commit(works_mint("b", 30));
    core_commit(works_mint("b", 30));
    core_state(&end);
    core_close();
    shell("rm -rf index && mv keep index");
    core_open();
    assert_true(core.r.rebuilt);
    assert_int_equal(core.r.report.damage, LED_DAMAGE_NONE);
    core_expect(&end);
}

static void test_core__index_of_another_history__is_made_anew(void **state)
{
    recover_with_foreign_index(false);
    assert_int_equal(core_teardown(state), 0);
    assert_int_equal(setup(state), 0);
    recover_with_foreign_index(true);
}

/* An image that is sound in itself but of another book, as only a mistake of ours could make. */
static void test_core__image_that_the_log_contradicts__is_left_alone(void **state)
{
    struct led_image_chunk chunk = {0};
    struct led_image_chunk wrong;
    struct core_state end;
    uint64_t seq;

    env.rand_u64 = same_random; /* so that both ledgers have one hash key */
    core_close();
    core_begin(&env, fixture_path(*state, "other"));
    core_open();
    core_commit(works_mint("a", 10));
    assert_int_equal(led_book_image_begin(led_seq_book_mut(core.r.seq), &seq), RON_OK);
    do {
        assert_null(chunk.take_bytes); /* one chunk is enough for one account */
        assert_int_equal(led_book_image_step(led_seq_book_mut(core.r.seq), &chunk), RON_OK);
    } while (chunk.take_bytes == NULL);
    wrong = chunk;
    assert_true(wrong.last);
    core_close();
    core_begin(&env, fixture_path(*state, "third"));
    core_open();
    core_commit(works_mint("a", 20));
    assert_int_equal(led_index_put_image(core.r.index, wrong.seq, wrong.number, wrong.take_bytes,
                                         wrong.len, true, NULL),
                     RON_OK);
    ron_free(wrong.take_bytes);
    core_index(false);
    core_commit(works_transfer("a", "b", 15));
    core_state(&end);
    for (int parallel = 0; parallel < 2; parallel++) {
        core.opts.parallel = parallel == 1;
        reopen();
        core_expect(&end);
        assert_int_equal(core.r.report.damage, LED_DAMAGE_NONE);
        assert_int_equal(core.r.replayed, 2);
        assert_int_equal(core.r.image_seq, 0);
    }
}

static void test_core__rebuild__makes_all_derived_files_anew(void **state)
{
    struct ron_rand rand = support_rand();
    struct core_state end;

    (void)state;
    random_journal(&rand, &end);
    core_index(true);
    core.opts.rebuild = true;
    reopen();
    core_expect(&end);
    assert_true(core.r.rebuilt);
    assert_int_equal(core.r.image_seq, 0);
    assert_int_equal(core.r.indexed_seq, end.last_seq);
    assert_int_equal(led_hashes_count(core.r.hashes), ron_tree_stored_count(end.last_seq));
}

static void test_core__read_only__same_state_and_nothing_written(void **state)
{
    struct ron_rand rand = support_rand();
    struct core_state end;

    (void)state;
    random_journal(&rand, &end);
    core_index(true);
    core_random(&rand, 5);
    core_state(&end);
    core_close();
    shell("find . -type f -exec sha256sum {} + | sort > ../before");
    core.opts.read_only = true;
    for (int i = 0; i < 2; i++) {
        core.opts.parallel = i == 1;
        core_open();
        core_expect(&end);
        assert_int_equal(core.r.replayed, end.last_seq);
        assert_null(core.r.commit);
        core_close();
    }
    shell("find . -type f -exec sha256sum {} + | sort | cmp - ../before");
    shell("rm -rf log");
    assert_int_equal(led_recover(&core.opts, &core.r, NULL), RON_NOTFOUND);
}

/* L-10 and L-13: the same works in the same windows, on a disk and without one. */
static void test_core__same_works_on_disk_and_in_memory__same_seqs_book_and_root(void **state)
{
    struct ron_memdisk *memory = NULL;
    struct core_state ends[2];

    (void)state;
    assert_int_equal(ron_memdisk_new(ron_env_linux(), 64 << 20, &memory, NULL), RON_OK);
    for (int i = 0; i < 2; i++) {
        struct ron_rand rand = support_rand();

        core_close();
        works_drop();
        works_begin();
        core_past = (struct core_past){0};
        if (i == 1) {
            core_begin(ron_memdisk_env(memory), "");
            core.opts.index_in_memory = true;
        }
        core_open();
        core_random(&rand, 60);
        core_state(&ends[i]);
        assert_true(ends[i].last_seq > 50);
        reopen();
        core_expect(&ends[i]);
    }
    assert_memory_equal(&ends[0], &ends[1], sizeof ends[0]);
    core_close();
    ron_memdisk_free(memory);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void test_core__a_byte_of_the_log_flipped__state_of_the_last_good_frame(void **state)
{
    struct core_state good;
    struct led_work *w;

    for (int parallel = 0; parallel < 2; parallel++) {
        assert_int_equal(core_teardown(state), 0);
        assert_int_equal(setup(state), 0);
        core_commit(works_mint("a", 10));
        core_commit(works_transfer("a", "b", 1));
        core_state(&good);
        core_commit(works_one("flip-this-entry", LED_KIND_TRANSFER, "a", "b", 1));
        core_commit(works_transfer("a", "b", 1));
        core_close();
        shell("sed -i s/flip-this-entry/flip-that-entry/ log/*.seg");
        core.opts.parallel = parallel == 1;
        core_open();
        assert_int_equal(core.r.report.damage, LED_DAMAGE_FRAME);
        core_expect(&good);
        w = works_transfer("a", "b", 1);
        assert_int_equal(core_window(&w, 1), RON_CLOSED);
        led_seq_abort(core.r.seq);
        led_work_refuse(w, LED_REASON_SAFE_MODE, "", "");
    }
}

/* A frame that is sound in itself but says what the book does not: wrong links, or an entry that
 * was never possible. */
static void append_lie(bool overdraw)
{
    struct led_work *w = works_transfer("a", "b", overdraw ? 5000 : 1);
    struct led_log_head head;
    struct led_frame frame = {.records = 1, .entries = 1};
    struct ron_tree tree = *led_commit_tree(core.r.commit);
    struct ron_buf out;

    led_log_head(core.r.log, &head);
    memcpy(frame.uuid, head.uuid, sizeof frame.uuid);
    frame.epoch = head.epoch;
    frame.seq_first = head.last_seq + 1;
    frame.time_ms = works.now_ms;
    frame.prev_root = head.root;
    assert_int_equal(ron_tree_extend(&tree, w->hashes, 1, NULL), RON_OK);
    ron_tree_root(&tree, &frame.new_root);
    ron_buf_init(&out, LED_FRAME_MAX);
    (void)led_frame_begin(&out);
    w->links[0].has_to = true;
    w->links[0].account.available.v = 3;
    (void)led_frame_add_record(
        &out, &(struct led_record){.kind = LED_RECORD_BATCH, .count = 1, .now_ms = works.now_ms});
    (void)led_frame_add_entry(&out, w->leaves[0], w->links);
    led_frame_end_record(&out, LED_FRAME_HEAD);
    assert_int_equal(led_frame_end(&out, &frame), RON_OK);
    assert_int_equal(
        led_log_append(core.r.log, &frame, ron_buf_data(&out), ron_buf_len(&out), NULL), RON_OK);
    ron_buf_done(&out);
}

static void test_core__oldest_segment_gone__damage_though_an_image_hides_it(void **state)
{
    struct ron_rand rand = support_rand();
    struct led_log_head head;

    (void)state;
    do {
        core_random(&rand, 20);
        led_log_head(core.r.log, &head);
    } while (head.segments < 3);
    core_index(true);
    core_close();
    shell("rm log/00000001-*.seg");
    core_open();
    assert_int_equal(core.r.report.damage, LED_DAMAGE_MISSING);
}

static void test_core__frame_that_the_book_contradicts__damage_at_its_place(void **state)
{
    struct core_state good;

    for (int i = 0; i < 4; i++) {
        assert_int_equal(core_teardown(state), 0);
        assert_int_equal(setup(state), 0);
        core_commit(works_mint("a", 10));
        core_commit(works_transfer("a", "b", 1));
        core_state(&good);
        append_lie((i & 1) != 0);
        core.opts.parallel = (i & 2) != 0;
        reopen();
        assert_int_equal(core.r.report.damage, LED_DAMAGE_REPLAY);
        assert_non_null(strstr(core.r.report.what, (i & 1) != 0
                                                       ? "refuses entry 3: insufficient_funds"
                                                       : "links of entry 3"));
        core_expect(&good);
        assert_int_equal(led_hashes_count(core.r.hashes), ron_tree_stored_count(2));
        /* The same again: nothing was made worse by looking. */
        reopen();
        assert_int_equal(core.r.report.damage, LED_DAMAGE_REPLAY);
        core_expect(&good);
    }
}

static void write_checkpoint(uint64_t size, const struct ron_tree_hash *root)
{
    uint8_t seed[RON_NOTE_SEED_BYTES] = {1};
    struct led_checkpoint c = {.origin = works_str("ledger.example"), .size = size, .root = *root};
    struct ron_note_signer signer;
    struct ron_buf out;

    assert_int_equal(ron_note_signer_make(c.origin, RON_NOTE_ED25519, seed, &signer, NULL), RON_OK);
    ron_buf_init(&out, LED_NOTE_BYTES_MAX);
    assert_int_equal(led_checkpoint_sign(&c, &signer, &out, NULL), RON_OK);
    assert_int_equal(ron_env_linux()->disk->mkdir(&env, core.dir, 0700, NULL), RON_EXISTS);
    {
        int fd = open(in_dir("checkpoint"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, ron_buf_data(&out), ron_buf_len(&out)), ron_buf_len(&out));
        (void)close(fd);
    }
    ron_buf_done(&out);
    ron_note_signer_done(&signer);
}

static void test_core__published_checkpoint__must_be_in_the_log(void **state)
{
    struct core_state early;
    struct core_state end;

    (void)state;
    core_commit(works_mint("a", 10));
    core_commit(works_mint("a", 11));
    core_state(&early);
    core_commit(works_mint("a", 12));
    core_state(&end);
    write_checkpoint(early.last_seq, &early.root);
    reopen();
    assert_int_equal(core.r.report.damage, LED_DAMAGE_NONE);
    write_checkpoint(end.last_seq, &early.root);
    reopen();
    assert_int_equal(core.r.report.damage, LED_DAMAGE_CHAIN);
    write_checkpoint(end.last_seq + 1, &early.root);
    reopen();
    assert_int_equal(core.r.report.damage, LED_DAMAGE_CHAIN);
    shell("printf garbage > checkpoint");
    reopen();
    assert_int_equal(core.r.report.damage, LED_DAMAGE_CHAIN);
    core_expect(&end);
}

/* Whoever only reads cannot make the stored hashes anew, and says which of the two is wrong. */
static void test_core__bad_tree_beside_a_good_log__the_tree_is_named(void **state)
{
    struct led_recover_opts o = {.env = &env, .dir = core.dir, .read_only = true};
    struct led_recovered r = {0};
    struct core_state end;

    (void)state;
    core_commit(works_mint("a", 10));
    core_commit(works_mint("a", 11));
    core_state(&end);
    write_checkpoint(end.last_seq, &end.root);
    reopen();
    shell("printf XXXX | dd of=tree/000000.hash bs=1 seek=70 conv=notrunc status=none");
    assert_int_equal(led_recover(&o, &r, NULL), RON_OK);
    assert_string_equal(led_damage_name(r.report.damage), "derived");
    assert_string_equal(r.report.where, "tree");
    led_recovered_done(&r);
    write_checkpoint(end.last_seq, &(struct ron_tree_hash){{1}});
    assert_int_equal(led_recover(&o, &r, NULL), RON_OK);
    assert_string_equal(r.report.where, "checkpoint");
    led_recovered_done(&r);
    shell("rm -r tree"); /* the log alone tells, too */
    assert_int_equal(led_recover(&o, &r, NULL), RON_OK);
    assert_string_equal(r.report.where, "checkpoint");
    led_recovered_done(&r);
    write_checkpoint(end.last_seq, &end.root);
    reopen();
    assert_int_equal(core.r.report.damage, LED_DAMAGE_NONE);
    core_expect(&end);
}

/* ---- the marker ------------------------------------------------------------------------------ */

static void test_core__marker_of_safe_mode__survives_until_removed(void **state)
{
    struct led_mark mark;

    (void)state;
    assert_false(core.r.mark.set);
    assert_int_equal(led_mark_write(&env, core.dir, "append failed:\nthe disk", NULL), RON_OK);
    reopen();
    assert_true(core.r.mark.set);
    assert_string_equal(core.r.mark.why, "append failed:?the disk");
    assert_true(core.r.mark.since_ms > 0);
    shell("printf half > safe-mode");
    assert_int_equal(led_mark_read(&env, core.dir, &mark, NULL), RON_OK);
    assert_true(mark.set);
    assert_int_equal(mark.since_ms, 0);
    assert_int_equal(led_mark_remove(&env, core.dir, NULL), RON_OK);
    assert_int_equal(led_mark_remove(&env, core.dir, NULL), RON_OK);
    reopen();
    assert_false(core.r.mark.set);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, core_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_core__repetition__same_answer_and_no_effect),
        CASE(test_core__same_key_other_body__idem_mismatch),
        CASE(test_core__cancelled_key__conflict_now_and_after_a_restart),
        CASE(test_core__refused_and_dry_run__change_nothing),
        CASE(test_core__hold_that_expires__logged_and_replayed),
        CASE(test_core__failed_append__aborted_then_recovered_whole),
        CASE(test_core__recovery_with_image__replays_only_the_rest),
        CASE(test_core__index_lags_behind_the_image__keys_are_remembered),
        CASE(test_core__derived_files_lost_or_old__same_digest_and_root),
        CASE(test_core__index_of_a_longer_journal__is_made_anew),
        CASE(test_core__index_of_another_history__is_made_anew),
        CASE(test_core__image_that_the_log_contradicts__is_left_alone),
        CASE(test_core__rebuild__makes_all_derived_files_anew),
        CASE(test_core__read_only__same_state_and_nothing_written),
        CASE(test_core__same_works_on_disk_and_in_memory__same_seqs_book_and_root),
        CASE(test_core__a_byte_of_the_log_flipped__state_of_the_last_good_frame),
        CASE(test_core__oldest_segment_gone__damage_though_an_image_hides_it),
        CASE(test_core__frame_that_the_book_contradicts__damage_at_its_place),
        CASE(test_core__published_checkpoint__must_be_in_the_log),
        CASE(test_core__bad_tree_beside_a_good_log__the_tree_is_named),
        CASE(test_core__marker_of_safe_mode__survives_until_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
