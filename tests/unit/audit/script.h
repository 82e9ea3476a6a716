/* SPDX-License-Identifier: Apache-2.0 */
/* script.h - a journal with every kind of entry, by which the tests know what stands where, and
 * what a good journal is. */
#pragma once

#include "journal.h"

static inline struct ron_str str(const char *text)
{
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

/* ---- the script ------------------------------------------------------------------------------ */

static inline void one(struct journal *j, enum led_kind kind, const char *id, const char *account,
                       const char *to, const char *ref, uint64_t amount)
{
    struct led_entry *e = journal_add(j, kind, id, account, amount);

    e->to = str(to);
    e->ref = str(ref);
    assert_true(journal_end(j, 0, ""));
}

/* Seqs of the script, by what a test looks for. */
enum {
    MINT = 1,
    TRANSFER = 2,
    HOLD = 3,
    CAPTURE = 4,
    DEBIT = 5,
    CREDIT = 6,
    PAID = 7,
    REVERSE = 8,
    SHORT_HOLD = 9,
    RELEASE = 10,
    EXPIRE = 11,
    BURN = 12,
    SECOND = 13,
    LAST = 14,
};

static inline void script(struct journal *j)
{
    struct led_entry *e;

    one(j, LED_KIND_MINT, "m1", "a", "", "", 1000);
    e = journal_add(j, LED_KIND_TRANSFER, "t2", "a", 100);
    e->to = str("b");
    e->account_nonce = 1;
    assert_true(journal_end(j, 0, "idem-1"));
    e = journal_add(j, LED_KIND_HOLD, "h1", "a", 50);
    e->expires_ms = j->now_ms + 60000;
    assert_true(journal_end(j, 0, ""));
    one(j, LED_KIND_CAPTURE, "c4", "a", "b", "h1", 20);
    journal_add(j, LED_KIND_DEBIT, "d5", "a", 10);
    journal_add(j, LED_KIND_CREDIT, "d6", "b", 10);
    assert_true(journal_end(j, 0, "idem-2"));
    one(j, LED_KIND_TRANSFER, "t7", "b", "c", "", 30);
    one(j, LED_KIND_REVERSE, "r8", "b", "", "t7", 10);
    e = journal_add(j, LED_KIND_HOLD, "h2", "b", 5);
    e->expires_ms = j->now_ms + 10000;
    assert_true(journal_end(j, 0, ""));
    one(j, LED_KIND_RELEASE, "l10", "a", "", "h1", 10);
    journal_cancel(j, "idem-3");
    j->now_ms += 20000;
    journal_expire(j);
    one(j, LED_KIND_BURN, "b12", "c", "", "", 5);
    e = journal_add(j, LED_KIND_TRANSFER, "t13", "a", 7);
    e->to = str("c");
    e->account_nonce = 2;
    assert_true(journal_end(j, 0, ""));
    e = journal_add(j, LED_KIND_MINT, "m14", "a", 3);
    e->asset = str("gold");
    assert_true(journal_end(j, 0, ""));
    assert_int_equal(j->entry_count, LAST);
}

static inline int setup(void **state)
{
    struct journal *j = ron_alloc(sizeof *j);

    assert_non_null(j);
    journal_init(j);
    script(j);
    *state = j;
    return 0;
}

static inline int teardown(void **state)
{
    journal_done(*state);
    ron_free(*state);
    return 0;
}

static inline struct led_entry *entry(struct journal *j, size_t seq)
{
    return &j->entries[seq - 1];
}

static inline struct led_links *links(struct journal *j, size_t seq)
{
    return &j->links[seq - 1];
}

static inline struct journal_record *record_of(struct journal *j, size_t seq)
{
    for (size_t i = 0; i < j->record_count; i++) {
        struct journal_record *r = &j->records[i];

        if (seq - 1 >= r->first && seq - 1 < r->first + r->r.count) {
            return r;
        }
    }
    fail_msg("no record of seq %zu", seq);
    return NULL;
}

/* ---- good ------------------------------------------------------------------------------------ */

struct wanted {
    const struct journal *j;
    size_t seen;
};

static inline void same_as_book(void *arg, struct ron_str account, struct ron_str asset,
                                const struct aud_line *line)
{
    struct wanted *w = arg;
    struct led_balance balance;

    assert_true(led_book_balance(w->j->book, account, asset, LED_COMMITTED, &balance));
    support_assert_u128_equal(balance.available.v, line->available);
    support_assert_u128_equal(balance.held.v, line->held);
    w->seen++;
}

static inline void good(struct journal *j)
{
    struct aud_result *r = journal_judge(j);
    struct wanted w = {.j = j};
    struct ron_tree_hash root;

    journal_print(&r->findings);
    assert_int_equal(r->findings.total, 0);
    ron_tree_root(&j->tree, &root);
    assert_true(r->root_known);
    assert_memory_equal(root.bytes, r->root.bytes, sizeof root.bytes);
    assert_int_equal(r->entries, j->entry_count);
    assert_int_equal(r->last_seq, j->entry_count);
    assert_int_equal(r->records, j->record_count);
    assert_false(r->damaged);
    assert_int_equal(aud_book_each(&r->book, same_as_book, &w), RON_OK);
    assert_true(w.seen > 0);
    for (uint32_t i = 0; i < r->book.asset_count; i++) {
        const struct aud_asset *a = &r->book.assets[i];
        struct ron_str name = {a->name, a->name_len};

        support_assert_u128_equal(led_book_supply(j->book, name, LED_COMMITTED).v, a->supply);
    }
    journal_judged(r);
}
