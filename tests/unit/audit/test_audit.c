/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a journal that the ledger's own code made is found good, with the ledger's balances and
 * root; damage of files is told apart from a torn tail; checkpoints bind the journal.
 * Method: a scripted journal with every kind of entry; random journals through the ledger's book;
 * every byte of a small journal changed once. Rules of entries are in test_rules.c. */
#include "script.h"

#include "merkle/note_priv.h"
#include "ron/base/rand.h"

/* ---- good journals --------------------------------------------------------------------------- */

static void test_audit__script__is_good(void **state)
{
    struct journal *j = *state;
    struct aud_result *r;

    journal_write(j);
    good(j);
    r = journal_judge(j);
    assert_int_equal(r->readings, 3); /* a Reverse: gathered, and read again */
    assert_int_equal(r->cancels, 1);
    assert_int_equal(r->open_holds, 1);
    assert_int_equal(r->book.accounts.live, 3);
    assert_int_equal(r->torn_bytes, 0);
    assert_int_equal(r->first_ms, JOURNAL_NOW + 1);
    assert_int_equal(r->bytes, j->frames_bytes);
    journal_judged(r);
}

static void test_audit__empty_journal__is_good(void **state)
{
    struct journal *j = *state;
    struct aud_result *r;
    struct ron_tree_hash empty;

    j->record_count = 0;
    journal_write(j);
    r = journal_judge(j);
    assert_int_equal(r->findings.total, 0);
    ron_tree_hash_empty(&empty);
    assert_memory_equal(r->root.bytes, empty.bytes, sizeof empty.bytes);
    journal_judged(r);
}

static void random_entry(struct journal *j, struct ron_rand *rand, size_t n)
{
    static const char *const accounts[] = {"a", "b/1", "c:2", "d-3", "e_4", "t:x/u:f/w"};
    static const char *const assets[] = {"roc", "gold", "x.1", "roc2"};
    enum led_kind kind = (enum led_kind)(1 + ron_rand_below(rand, 9));
    uint64_t account = ron_rand_below(rand, 6);
    struct led_entry *e;
    char id[32];

    (void)snprintf(id, sizeof id, "id-%zu", n);
    e = journal_add(j, kind, id, accounts[account], 1 + ron_rand_below(rand, 50));
    e->asset = str(assets[ron_rand_below(rand, ron_rand_chance(rand, 1, 4) ? 4 : 1)]);
    if (led_kind_takes_to(e->kind)) {
        e->to = str(accounts[(account + 1 + ron_rand_below(rand, 5)) % 6]);
    }
    if (led_kind_takes_ref(e->kind)) {
        /* An entry of before, and most of what it must agree with. */
        const struct led_entry *o = &j->entries[ron_rand_below(rand, j->entry_count)];

        e->ref = o->id;
        e->account = o->account;
        e->asset = o->asset;
        if (e->to.len == e->account.len && memcmp(e->to.ptr, e->account.ptr, e->to.len) == 0) {
            e->to = str("z");
        }
    }
    if (kind == LED_KIND_HOLD && ron_rand_chance(rand, 1, 2)) {
        e->expires_ms = j->now_ms + 1 + ron_rand_below(rand, 3000);
    }
    if (kind == LED_KIND_CREDIT || kind == LED_KIND_DEBIT) {
        struct led_entry *back =
            journal_add(j, kind == LED_KIND_CREDIT ? LED_KIND_DEBIT : LED_KIND_CREDIT, "",
                        accounts[ron_rand_below(rand, 6)], ron_u128_lo(e->amount.v));

        back->id = journal_text(j, "back-%zu", n);
        back->asset = e->asset;
    }
}

static void test_audit__random_journals_of_the_book__are_good(void **state)
{
    struct ron_rand rand = support_rand();
    size_t kinds[LED_KIND_EXPIRE + 1] = {0};

    (void)state;
    for (int round = 0; round < 12; round++) {
        struct journal *j = ron_alloc(sizeof *j);

        assert_non_null(j);
        journal_init(j);
        one(j, LED_KIND_MINT, "start", "a", "", "", 100000);
        for (size_t i = 0; i < 1500; i++) {
            if (j->entry_count == j->open_from) {
                j->now_ms += ron_rand_below(&rand, 200);
                journal_expire(j);
            }
            random_entry(j, &rand, i);
            if (ron_rand_chance(&rand, 1, 4)) {
                continue; /* into one record with the next */
            }
            if (journal_end(j, 0, "")) {
                j->records[j->record_count - 1].ends_frame = ron_rand_chance(&rand, 1, 3);
            }
        }
        j->entry_count = j->open_from;
        assert_true(j->entry_count > 300);
        journal_write(j);
        good(j);
        for (size_t i = 0; i < j->entry_count; i++) {
            kinds[j->entries[i].kind]++;
        }
        journal_done(j);
        ron_free(j);
    }
    for (size_t kind = LED_KIND_MINT; kind <= LED_KIND_EXPIRE; kind++) {
        assert_true(kinds[kind] > 0);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static void test_audit__every_byte_changed_once__never_good(void **state)
{
    struct journal *j = *state;

    j->record_count = 3;
    journal_write(j);
    for (uint64_t off = 0; off < j->frames_bytes + 2 * LED_SECTOR; off++) {
        uint8_t byte = journal_peek(j, off);
        uint8_t flipped = (uint8_t)(byte ^ (1u << (off % 8)));
        struct aud_result *r;

        journal_poke(j, off, &flipped, 1);
        r = journal_judge(j);
        /* Behind the end a stray byte may be what is left of a torn write. */
        if (r->findings.total == 0 && (r->torn_bytes == 0 || off < j->frames_bytes)) {
            fail_msg("byte %" PRIu64 " of %" PRIu64 " was changed, and nothing found", off,
                     j->frames_bytes);
        }
        journal_judged(r);
        journal_poke(j, off, &byte, 1);
    }
    assert_int_equal(journal_peek(j, 0), 'R');
}

static void test_audit__torn_tail__is_told_and_good(void **state)
{
    static const uint8_t zeros[LED_SECTOR];
    struct journal *j = *state;
    struct aud_result *r;
    uint64_t whole;

    journal_add(j, LED_KIND_MINT, "long", "a", 1)->memo = journal_text(j, "%0200d", 1);
    for (int i = 0; i < 9; i++) {
        char id[8];

        (void)snprintf(id, sizeof id, "x%d", i);
        journal_add(j, LED_KIND_MINT, id, "a", 1)->memo = journal_text(j, "%0200d", 1);
    }
    assert_true(journal_end(j, 0, ""));
    journal_write(j);
    whole = j->frames_bytes - j->last_frame_at;
    assert_true(whole > 3 * LED_SECTOR);
    /* A sector in the middle, the last one, or the first one was never written. */
    for (uint64_t at = 0; at < whole; at += LED_SECTOR) {
        journal_write(j);
        journal_poke(j, j->last_frame_at + at, zeros, sizeof zeros);
        r = journal_judge(j);
        journal_print(&r->findings);
        assert_int_equal(r->findings.total, 0);
        assert_int_equal(r->last_seq, LAST);
        assert_true(r->torn_bytes > 0 && r->torn_bytes <= whole);
        journal_judged(r);
    }
    /* The write was cut inside of its last bytes, or inside of the head. */
    for (uint64_t left = 1; left <= LED_FRAME_TAIL; left++) {
        journal_write(j);
        journal_poke(j, j->frames_bytes - left, zeros, left);
        r = journal_judge(j);
        journal_print(&r->findings);
        assert_int_equal(r->findings.total, 0);
        assert_int_equal(r->torn_bytes, whole);
        journal_judged(r);
    }
    for (uint64_t at = 0; at < whole; at += LED_SECTOR) {
        journal_poke(j, j->last_frame_at + at + (at == 0 ? 60 : 0), zeros,
                     LED_SECTOR - (at == 0 ? 60 : 0));
    }
    r = journal_judge(j);
    assert_int_equal(r->findings.total, 0);
    assert_int_equal(r->torn_bytes, LED_SECTOR);
    journal_judged(r);
}

static void test_audit__frame_lost_in_the_middle__found(void **state)
{
    static const uint8_t zeros[LED_SECTOR];
    struct journal *j = *state;
    struct aud_result *r;

    journal_write(j);
    journal_poke(j, j->last_frame_at - LED_SECTOR, zeros, sizeof zeros);
    r = journal_judge(j);
    assert_int_equal(r->findings.items[0].rule, AUD_RULE_TAIL);
    assert_true(r->damaged);
    journal_judged(r);
}

static void test_audit__segment_missing__found(void **state)
{
    struct journal *j = *state;
    struct aud_result *r;

    journal_write(j);
    assert_int_equal(j->env->disk->rename(j->env, JOURNAL_FILE,
                                          "/d/log/00000002-00000000000000000001.seg", NULL),
                     RON_OK);
    r = journal_judge(j);
    assert_int_equal(r->findings.items[0].rule, AUD_RULE_SEGMENT);
    journal_judged(r);
}

static void test_audit__no_journal__cannot_be_read(void **state)
{
    struct journal *j = *state;
    struct aud_options opts = journal_options(j);
    struct aud_result *r = ron_alloc_zero(sizeof *r);
    struct ron_err err = {0};

    assert_non_null(r);
    assert_int_equal(aud_run(&opts, r, &err), RON_NOTFOUND);
    assert_true(err.msg[0] != '\0');
    journal_judged(r);
}

/* ---- checkpoints, from, to ------------------------------------------------------------------- */

static void signed_checkpoint(struct journal *j, uint64_t size, const char *path,
                              struct aud_vkey *ret_key)
{
    static const uint8_t seed[32] = {9, 8, 7};
    struct ron_note_signer signer;
    struct led_checkpoint c = {.origin = str("ledger.example/main"), .size = size};
    struct ron_tree tree;
    struct ron_buf out;

    ron_tree_init(&tree);
    for (uint64_t i = 0; i < size && i < j->entry_count; i++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        struct ron_tree_hash hash;

        ron_tree_hash_leaf(leaf, (size_t)(led_entry_encode(&j->entries[i], leaf) - leaf), &hash);
        assert_int_equal(ron_tree_extend(&tree, &hash, 1, NULL), RON_OK);
    }
    ron_tree_root(&tree, &c.root);
    assert_int_equal(ron_note_signer_make(c.origin, RON_NOTE_ED25519, seed, &signer, NULL), RON_OK);
    ron_buf_init(&out, LED_NOTE_BYTES_MAX);
    assert_int_equal(led_checkpoint_sign(&c, &signer, &out, NULL), RON_OK);
    journal_put_file(j, path, ron_buf_data(&out), ron_buf_len(&out));
    ron_buf_clear(&out);
    assert_int_equal(ron_note_key_write(&signer.key, &out), RON_OK);
    assert_null(aud_vkey_read((struct ron_str){ron_buf_text(&out), ron_buf_len(&out)}, ret_key));
    ron_buf_done(&out);
    ron_note_signer_done(&signer);
}

static void test_audit__checkpoints_in_the_journal__are_good(void **state)
{
    struct journal *j = *state;
    struct aud_options opts = journal_options(j);
    struct aud_result *r;
    struct aud_vkey key;

    journal_write(j);
    signed_checkpoint(j, 5, "/d/checkpoint", &key);
    signed_checkpoint(j, 0, "/kept-0", &key);
    signed_checkpoint(j, LAST, "/kept-all", &key);
    opts.key = &key;
    opts.checkpoints[0] = "/kept-0";
    opts.checkpoints[1] = "/kept-all";
    opts.checkpoint_count = 2;
    r = journal_judge_with(&opts);
    journal_print(&r->findings);
    assert_int_equal(r->findings.total, 0);
    assert_int_equal(r->checkpoint_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(r->checkpoints[i].met && r->checkpoints[i].signed_);
    }
    journal_judged(r);
}

static void test_audit__checkpoint_of_another_history__found(void **state)
{
    struct journal *j = *state;
    struct aud_options opts = journal_options(j);
    struct aud_result *r;
    struct aud_vkey key;

    journal_write(j);
    signed_checkpoint(j, 5, "/d/checkpoint", &key);
    entry(j, MINT)->memo = str("rewritten");
    journal_write(j);
    opts.key = &key;
    r = journal_judge_with(&opts);
    assert_int_equal(r->findings.total, 1);
    assert_int_equal(r->findings.items[0].rule, AUD_RULE_CHECKPOINT);
    assert_false(r->checkpoints[0].met);
    journal_judged(r);
}

static void test_audit__journal_cut_behind_a_checkpoint__found(void **state)
{
    struct journal *j = *state;
    struct aud_result *r;
    struct aud_vkey key;

    signed_checkpoint(j, LAST, "/d/checkpoint", &key);
    j->record_count--;
    journal_write(j);
    r = journal_judge(j);
    assert_int_equal(r->findings.total, 1);
    assert_int_equal(r->findings.items[0].rule, AUD_RULE_CHECKPOINT);
    journal_judged(r);
}

static void test_audit__checkpoint_of_another_key__found(void **state)
{
    struct journal *j = *state;
    struct aud_options opts = journal_options(j);
    struct aud_result *r;
    struct aud_vkey key;

    journal_write(j);
    signed_checkpoint(j, 5, "/d/checkpoint", &key);
    assert_null(aud_vkey_read(
        str("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"), &key));
    opts.key = &key;
    r = journal_judge_with(&opts);
    assert_true(journal_found(&r->findings, AUD_RULE_SIGNATURE));
    journal_judged(r);
}

static void test_audit__up_to_a_seq__balances_of_then(void **state)
{
    struct journal *j = *state;
    struct aud_options opts = journal_options(j);
    struct aud_result *r;

    links(j, CREDIT)->account.available.v++; /* behind the end that is asked for */
    journal_write(j);
    opts.to_seq = DEBIT; /* in the middle of a batch, which is left out whole */
    r = journal_judge_with(&opts);
    assert_int_equal(r->findings.total, 0);
    assert_int_equal(r->entries, CAPTURE);
    assert_int_equal(r->last_seq, CAPTURE);
    support_assert_u128_equal(r->book.assets[0].held, 30);
    journal_judged(r);
}

static void test_audit__from_a_seq__earlier_findings_do_not_count(void **state)
{
    struct journal *j = *state;
    struct aud_options opts = journal_options(j);
    struct aud_result *r;

    links(j, TRANSFER)->account.prev_seq = 9;
    links(j, BURN)->account.prev_seq = 9;
    journal_write(j);
    opts.from_seq = HOLD;
    r = journal_judge_with(&opts);
    assert_int_equal(r->findings.total, 1);
    assert_int_equal(r->findings.items[0].seq, BURN);
    journal_judged(r);
}

static void test_audit__many_findings__first_hundred_kept_all_counted(void **state)
{
    struct journal *j = *state;
    struct aud_result *r;

    for (int i = 0; i < 150; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "many-%d", i);
        one(j, LED_KIND_MINT, id, "a", "", "", 1);
        links(j, j->entry_count)->account.prev_seq = 0;
    }
    journal_write(j);
    r = journal_judge(j);
    assert_int_equal(r->findings.kept, AUD_FINDINGS_MAX);
    assert_int_equal(r->findings.total, 150);
    journal_judged(r);
}

#define CASE(name_) cmocka_unit_test_setup_teardown(test_audit__##name_, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(script__is_good),
        CASE(empty_journal__is_good),
        cmocka_unit_test(test_audit__random_journals_of_the_book__are_good),
        CASE(every_byte_changed_once__never_good),
        CASE(torn_tail__is_told_and_good),
        CASE(frame_lost_in_the_middle__found),
        CASE(segment_missing__found),
        CASE(no_journal__cannot_be_read),
        CASE(checkpoints_in_the_journal__are_good),
        CASE(checkpoint_of_another_history__found),
        CASE(journal_cut_behind_a_checkpoint__found),
        CASE(checkpoint_of_another_key__found),
        CASE(up_to_a_seq__balances_of_then),
        CASE(from_a_seq__earlier_findings_do_not_count),
        CASE(many_findings__first_hundred_kept_all_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
