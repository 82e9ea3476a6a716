/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what the reader says of entries, histories and past balances is what the journal holds.
 * Method: random journals in a real log (journal.h); every answer is scanned strictly and compared
 * with a plain model that folded the same entries. Damage is made by changing bytes of the files.
 * RON_SEED repeats a run. */
#include "client/client.h"
#include "unit/ledger/journal.h"

enum { ENTRIES = 1200 };

static struct journal *j;
static struct ron_arena arena;
static struct ron_buf out;

static int setup(void **state)
{
    if (j_setup(state, ENTRIES, &j) != 0 || ron_arena_init(&arena, 1 << 20) != RON_OK) {
        return -1;
    }
    ron_buf_init(&out, 4 << 20);
    return 0;
}

static int teardown(void **state)
{
    ron_buf_done(&out);
    ron_arena_done(&arena);
    return j_teardown(state, j);
}

/* ---- shapes of answers ----------------------------------------------------------------------- */

struct brief {
    uint64_t seq;
    struct ron_str id;
    struct ron_money amount;
    uint64_t present;
};

static const struct ron_json_field brief_fields[] = {
    RON_JSON_FIELD(struct brief, seq, U64, .required = true),
    RON_JSON_FIELD(struct brief, id, STRING, .required = true),
    RON_JSON_FIELD(struct brief, amount, MONEY, .required = true),
};
static const struct ron_json_shape brief_shape = {.fields = brief_fields,
                                                  .count = 3,
                                                  .present_offset = offsetof(struct brief, present),
                                                  .allow_unknown = true};

struct side {
    uint64_t prev_seq;
    struct ron_money available, held;
    uint64_t present;
};

static const struct ron_json_field side_fields[] = {
    RON_JSON_FIELD(struct side, prev_seq, U64, .required = true),
    RON_JSON_FIELD(struct side, available, MONEY, .required = true),
    RON_JSON_FIELD(struct side, held, MONEY, .required = true),
};
static const struct ron_json_shape side_shape = RON_JSON_SHAPE(struct side, side_fields, present);

struct links {
    struct side account, to;
    uint64_t present;
};

static const struct ron_json_field links_fields[] = {
    RON_JSON_FIELD(struct links, account, OBJECT, .required = true, .shape = &side_shape),
    RON_JSON_FIELD(struct links, to, OBJECT, .shape = &side_shape),
};
static const struct ron_json_shape links_shape =
    RON_JSON_SHAPE(struct links, links_fields, present);

struct batch {
    uint64_t seq_start, seq_end, ts;
    struct ron_str idem_id;
    bool imported;
    uint64_t present;
};

static const struct ron_json_field batch_fields[] = {
    RON_JSON_FIELD(struct batch, seq_start, U64, .required = true),
    RON_JSON_FIELD(struct batch, seq_end, U64, .required = true),
    RON_JSON_FIELD(struct batch, ts, U64, .required = true),
    RON_JSON_FIELD(struct batch, idem_id, STRING, .required = false),
    RON_JSON_FIELD(struct batch, imported, BOOL, .required = true),
};
static const struct ron_json_shape batch_shape =
    RON_JSON_SHAPE(struct batch, batch_fields, present);

struct commit {
    uint64_t seq_start, seq_end, ts;
    struct ron_str root;
    uint64_t present;
};

static const struct ron_json_field commit_fields[] = {
    RON_JSON_FIELD(struct commit, seq_start, U64, .required = true),
    RON_JSON_FIELD(struct commit, seq_end, U64, .required = true),
    RON_JSON_FIELD(struct commit, ts, U64, .required = true),
    RON_JSON_FIELD(struct commit, root, STRING, .required = true),
};
static const struct ron_json_shape commit_shape =
    RON_JSON_SHAPE(struct commit, commit_fields, present);

struct whole {
    struct brief entry;
    struct links links;
    struct batch batch;
    struct commit commit;
    uint64_t present;
};

static const struct ron_json_field whole_fields[] = {
    RON_JSON_FIELD(struct whole, entry, OBJECT, .required = true, .shape = &brief_shape),
    RON_JSON_FIELD(struct whole, links, OBJECT, .required = true, .shape = &links_shape),
    RON_JSON_FIELD(struct whole, batch, OBJECT, .required = true, .shape = &batch_shape),
    RON_JSON_FIELD(struct whole, commit, OBJECT, .required = true, .shape = &commit_shape),
};
static const struct ron_json_shape whole_shape =
    RON_JSON_SHAPE(struct whole, whole_fields, present);

struct item {
    struct brief entry;
    struct ron_str side;
    struct ron_money available, held;
    uint64_t prev_seq, commit_ts;
    uint64_t present;
};

static const struct ron_json_field item_fields[] = {
    RON_JSON_FIELD(struct item, entry, OBJECT, .required = true, .shape = &brief_shape),
    RON_JSON_FIELD(struct item, side, STRING, .required = true),
    RON_JSON_FIELD(struct item, available, MONEY, .required = true),
    RON_JSON_FIELD(struct item, held, MONEY, .required = true),
    RON_JSON_FIELD(struct item, prev_seq, U64, .required = true),
    RON_JSON_FIELD(struct item, commit_ts, U64, .required = true),
};
static const struct ron_json_shape item_shape = RON_JSON_SHAPE(struct item, item_fields, present);

struct page {
    struct ron_str account;
    struct ron_json_items entries;
    uint64_t next;
    uint64_t present;
};

static const struct ron_json_field page_fields[] = {
    RON_JSON_FIELD(struct page, account, STRING, .required = true),
    RON_JSON_FIELD(struct page, entries, ARRAY, .required = true, .item_size = sizeof(struct item),
                   .max = LED_PAGE_MAX, .shape = &item_shape),
    RON_JSON_FIELD(struct page, next, U64, .nullable = true),
};
static const struct ron_json_shape page_shape = RON_JSON_SHAPE(struct page, page_fields, present);

struct balance {
    struct ron_str asset;
    struct ron_money available, held;
    uint64_t seq;
    uint64_t present;
};

static const struct ron_json_field balance_fields[] = {
    RON_JSON_FIELD(struct balance, asset, STRING, .required = true),
    RON_JSON_FIELD(struct balance, available, MONEY, .required = true),
    RON_JSON_FIELD(struct balance, held, MONEY, .required = true),
    RON_JSON_FIELD(struct balance, seq, U64, .required = true),
};
static const struct ron_json_shape balance_shape =
    RON_JSON_SHAPE(struct balance, balance_fields, present);

struct balances {
    struct ron_str account;
    uint64_t at_seq;
    struct ron_json_items balances;
    bool complete;
    uint64_t next_at_seq;
    uint64_t present;
};

static const struct ron_json_field balances_fields[] = {
    RON_JSON_FIELD(struct balances, account, STRING, .required = true),
    RON_JSON_FIELD(struct balances, at_seq, U64, .required = true),
    RON_JSON_FIELD(struct balances, balances, ARRAY, .required = true,
                   .item_size = sizeof(struct balance), .max = 300, .shape = &balance_shape),
    RON_JSON_FIELD(struct balances, complete, BOOL, .required = true),
    RON_JSON_FIELD(struct balances, next_at_seq, U64, .nullable = true),
};
static const struct ron_json_shape balances_shape =
    RON_JSON_SHAPE(struct balances, balances_fields, present);

/* ---- entries --------------------------------------------------------------------------------- */

static void check_side(const struct side *side, int account, int asset, uint64_t seq)
{
    assert_int_equal(side->prev_seq, j_last(j, account, seq - 1));
    support_assert_u128_equal(side->available.v, j->states[seq].available[account][asset]);
    support_assert_u128_equal(side->held.v, j->states[seq].held[account][asset]);
}

static void check_whole(uint64_t seq)
{
    struct j_entry *n = j_at(j, seq);
    const struct j_record *record = &j->records[n->batch];
    struct whole got = {0};
    size_t root = 0;

    j_scan(&out, &whole_shape, &arena, &got);
    assert_int_equal(got.entry.seq, seq);
    j_check_str(got.entry.id, n->id);
    support_assert_u128_equal(got.entry.amount.v, n->e.amount.v);
    check_side(&got.links.account, n->account, n->asset, seq);
    assert_int_equal(got.links.present >> 1 & 1, n->to >= 0);
    if (n->to >= 0) {
        check_side(&got.links.to, n->to, n->asset, seq);
    }
    assert_int_equal(got.batch.seq_start, record->seq_first);
    assert_int_equal(got.batch.seq_end, record->seq_first + record->count - 1);
    assert_int_equal(got.batch.ts, record->now_ms);
    j_check_str(got.batch.idem_id, record->idem_id);
    while (j->root_seqs[root] < seq) {
        root++;
    }
    assert_int_equal(got.commit.seq_end, j->root_seqs[root]);
    assert_int_equal(got.commit.seq_start, root == 0 ? 1 : j->root_seqs[root - 1] + 1);
    assert_int_equal(got.commit.ts, j->root_times[root]);
    j_check_hash(got.commit.root, &j->roots[root]);
}

static void test_led_read__entry_by_seq_and_id__as_journal_has_it(void **state)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    const struct led_candidates none = {0};

    (void)state;
    for (uint64_t seq = 1; seq <= j->seq; seq++) {
        assert_int_equal(led_read_entry(r, seq, &out, NULL), RON_OK);
        check_whole(seq);
        assert_int_equal(led_read_entry_by_id(r, j_str(j_at(j, seq)->id), none, &out, NULL),
                         RON_OK);
        check_whole(seq);
    }
    led_reader_free(r);
}

static void test_led_read__what_is_not_there__typed_error(void **state)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    const struct led_candidates none = {0};
    struct ron_tree_hash root = j_root(j);

    (void)state;
    assert_int_equal(led_read_entry(r, 0, &out, NULL), RON_INVALID);
    assert_int_equal(led_read_entry(r, j->seq + 1, &out, NULL), RON_NOTFOUND);
    assert_int_equal(led_read_entry(r, UINT64_MAX, &out, NULL), RON_NOTFOUND);
    assert_int_equal(led_read_entry_by_id(r, j_str("nobody"), none, &out, NULL), RON_NOTFOUND);
    assert_int_equal(led_read_entry_by_id(r, j_str(""), none, &out, NULL), RON_INVALID);
    /* Beyond the head nothing is there, whatever log and index hold. */
    led_reader_set_head(r, j->seq - 1, &root);
    assert_int_equal(led_read_entry(r, j->seq, &out, NULL), RON_NOTFOUND);
    assert_int_equal(led_read_entry_by_id(r, j_at(j, j->seq)->e.id, none, &out, NULL),
                     RON_NOTFOUND);
    assert_int_equal(ron_buf_len(&out), 0);
    led_reader_free(r);
}

static void test_led_read__id_above_index__found_through_candidate(void **state)
{
    uint64_t seqs[] = {j->seq - 1, j->seq, 0, j->seq + 7};
    struct led_candidates candidates = {seqs, 4};
    struct led_reader *r = j_reader(j, false, 0, NULL);

    (void)state;
    assert_int_equal(led_read_entry_by_id(r, j_at(j, j->seq)->e.id, candidates, &out, NULL),
                     RON_OK);
    check_whole(j->seq);
    assert_int_equal(led_read_entry_by_id(r, j_at(j, 1)->e.id, candidates, &out, NULL),
                     RON_NOTFOUND);
    led_reader_free(r);
}

static void test_led_read__small_buffer__limit_and_nothing_left_behind(void **state)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    struct led_account_query q = {.limit = 100};
    struct ron_buf small;
    int account = j_at(j, j->seq)->account;

    (void)state;
    q.account = j_str(j_accounts[account]);
    q.last_seq = j_last(j, account, j->seq);
    q.at_seq = j->seq;
    for (size_t room = 1; room < 300; room += 7) {
        ron_buf_init(&small, room);
        assert_int_equal(led_read_entry(r, 1, &small, NULL), RON_LIMIT);
        assert_int_equal(ron_buf_len(&small), 0);
        ron_buf_clear(&small);
        assert_int_equal(led_read_history(r, &q, &small, NULL), RON_LIMIT);
        assert_int_equal(ron_buf_len(&small), 0);
        ron_buf_clear(&small);
        assert_int_equal(led_read_roots(r, 0, 100, &small, NULL), RON_LIMIT);
        assert_int_equal(ron_buf_len(&small), 0);
        ron_buf_done(&small);
    }
    led_reader_free(r);
}

/* ---- history --------------------------------------------------------------------------------- */

/* Compares a page with the model; returns where the next one begins, 0 at the end. */
static uint64_t check_page(int account, uint64_t before, uint32_t limit)
{
    uint64_t seq = j_last(j, account, before == 0 ? j->seq : RON_MIN(before - 1, j->seq));
    struct page got = {0};
    const struct item *items;

    j_scan(&out, &page_shape, &arena, &got);
    items = got.entries.items;
    j_check_str(got.account, j_accounts[account]);
    for (size_t i = 0; i < got.entries.count; i++) {
        const struct j_entry *n = j_at(j, seq);

        assert_int_equal(items[i].entry.seq, seq);
        j_check_str(items[i].entry.id, n->id);
        j_check_str(items[i].side, n->account == account ? "account" : "to");
        support_assert_u128_equal(items[i].available.v,
                                  j->states[seq].available[account][n->asset]);
        support_assert_u128_equal(items[i].held.v, j->states[seq].held[account][n->asset]);
        seq = j_last(j, account, seq - 1);
        assert_int_equal(items[i].prev_seq, seq);
    }
    assert_true(got.entries.count == limit || seq == 0);
    assert_int_equal(got.next, seq == 0 ? 0 : seq + 1);
    return got.next;
}

static void page_through(struct led_reader *r, int account, uint32_t limit)
{
    struct led_account_query q = {.account = j_str(j_accounts[account]),
                                  .last_seq = j_last(j, account, j->seq),
                                  .limit = limit};

    do {
        assert_int_equal(led_read_history(r, &q, &out, NULL), RON_OK);
        q.before = check_page(account, q.before, limit);
    } while (q.before != 0);
}

static void test_led_read__history_page_by_page__every_entry_once_newest_first(void **state)
{
    static const uint32_t limits[] = {1, 7, 100, LED_PAGE_MAX};

    (void)state;
    for (int with_index = 0; with_index < 2; with_index++) {
        struct led_reader *r = j_reader(j, with_index == 1, 0, NULL);

        for (int account = 0; account < J_ACCOUNTS; account++) {
            for (size_t i = 0; i < RON_ARRAY_LEN(limits); i++) {
                page_through(r, account, limits[i]);
            }
        }
        led_reader_free(r);
    }
}

static void test_led_read__history_before_any_seq__begins_there(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int with_index = 0; with_index < 2; with_index++) {
        struct led_reader *r = j_reader(j, with_index == 1, 0, NULL);

        for (int i = 0; i < 300; i++) {
            int account = (int)ron_rand_below(&rand, J_ACCOUNTS);
            struct led_account_query q = {.account = j_str(j_accounts[account]),
                                          .last_seq = j_last(j, account, j->seq),
                                          .before = 1 + ron_rand_below(&rand, j->seq + 5),
                                          .limit = 3};

            assert_int_equal(led_read_history(r, &q, &out, NULL), RON_OK);
            RON_IGNORE(check_page(account, q.before, 3));
        }
        led_reader_free(r);
    }
}

static void test_led_read__history_wrong_questions__typed_error(void **state)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    struct led_account_query q = {.account = j_str("a"), .last_seq = j_last(j, 0, j->seq)};

    (void)state;
    assert_int_equal(led_read_history(r, &q, &out, NULL), RON_INVALID);
    q.limit = LED_PAGE_MAX + 1;
    assert_int_equal(led_read_history(r, &q, &out, NULL), RON_INVALID);
    q.limit = 1;
    q.account = j_str("no spaces");
    assert_int_equal(led_read_history(r, &q, &out, NULL), RON_INVALID);
    q.account = j_str("nobody");
    q.last_seq = 0;
    assert_int_equal(led_read_history(r, &q, &out, NULL), RON_NOTFOUND);
    assert_int_equal(ron_buf_len(&out), 0);
    led_reader_free(r);
}

static void test_led_read__book_ahead_of_head__walk_begins_there_and_shows_less(void **state)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    int account = j_at(j, j->seq)->account;
    struct led_account_query q = {
        .account = j_str(j_accounts[account]), .last_seq = j->seq, .limit = 5};
    struct page got = {0};

    (void)state;
    led_reader_set_head(r, j->seq - 1, &(const struct ron_tree_hash){0});
    assert_int_equal(led_read_history(r, &q, &out, NULL), RON_OK);
    j_scan(&out, &page_shape, &arena, &got);
    assert_int_equal(((const struct item *)got.entries.items)[0].entry.seq,
                     j_last(j, account, j->seq - 1));
    led_reader_free(r);
}

static void test_led_read__far_back_without_skip_points__bounded(void **state)
{
    struct led_reader *r = j_reader(j, false, 5, NULL);
    struct led_account_query q = {.before = 2, .limit = 1, .at_seq = 1};
    int account = 0;

    (void)state;
    while (j_last(j, account, 1) != 0) {
        account++;
    }
    q.account = j_str(j_accounts[account]);
    q.last_seq = j_last(j, account, j->seq);
    assert_int_equal(led_read_history(r, &q, &out, NULL), RON_LIMIT);
    assert_int_equal(led_read_balances(r, &q, &out, NULL), RON_LIMIT);
    assert_int_equal(ron_buf_len(&out), 0);
    led_reader_free(r);
}

/* ---- balances -------------------------------------------------------------------------------- */

/* What was told of each asset, over one or more answers: the first counts. */
struct told {
    bool is[J_ASSETS];
    ron_u128 available[J_ASSETS], held[J_ASSETS];
};

static void take_balances(const struct balances *got, struct told *told)
{
    const struct balance *list = got->balances.items;

    for (size_t i = 0; i < got->balances.count; i++) {
        int asset = 0;

        while (!ron_str_is(list[i].asset, j_assets[asset])) {
            assert_true(++asset < J_ASSETS);
        }
        if (!told->is[asset]) {
            told->is[asset] = true;
            told->available[asset] = list[i].available.v;
            told->held[asset] = list[i].held.v;
        }
    }
}

static void ask_balances(struct led_reader *r, struct led_account_query *q, struct told *told,
                         unsigned *answers)
{
    struct balances got;

    do {
        got = (struct balances){0};
        assert_int_equal(led_read_balances(r, q, &out, NULL), RON_OK);
        j_scan(&out, &balances_shape, &arena, &got);
        assert_int_equal(got.at_seq, q->at_seq);
        assert_true(got.complete == (got.next_at_seq == 0));
        assert_true(got.next_at_seq <= q->at_seq);
        take_balances(&got, told);
        q->at_seq = got.next_at_seq;
        ++*answers;
    } while (!got.complete);
}

static void check_balances(struct led_reader *r, struct ron_rand *rand, unsigned *answers)
{
    int account = (int)ron_rand_below(rand, J_ACCOUNTS);
    int named = (int)ron_rand_below(rand, J_ASSETS + 1) - 1;
    uint64_t seq = 1 + ron_rand_below(rand, j->seq);
    struct led_account_query q = {.account = j_str(j_accounts[account]),
                                  .last_seq = j_last(j, account, j->seq),
                                  .at_seq = seq};
    struct told told = {0};

    if (named >= 0) {
        q.asset = j_str(j_assets[named]);
    }
    ask_balances(r, &q, &told, answers);
    for (int asset = 0; asset < J_ASSETS; asset++) {
        ron_u128 available = j->states[seq].available[account][asset];
        ron_u128 held = j->states[seq].held[account][asset];

        if (named >= 0 && named != asset) {
            assert_false(told.is[asset]);
            continue;
        }
        assert_true(told.is[asset] || (available == 0 && held == 0));
        support_assert_u128_equal(told.available[asset], available);
        support_assert_u128_equal(told.held[asset], held);
    }
}

static void test_led_read__balances_at_any_seq__those_of_the_model(void **state)
{
    struct ron_rand rand = support_rand();
    unsigned answers = 0;

    (void)state;
    for (int with_index = 0; with_index < 2; with_index++) {
        struct led_reader *r = j_reader(j, with_index == 1, 0, NULL);

        for (int i = 0; i < 300; i++) {
            check_balances(r, &rand, &answers);
        }
        led_reader_free(r);
    }
    assert_int_equal(answers, 600);
}

static void test_led_read__balances_in_short_walks__rest_is_asked_for(void **state)
{
    struct ron_rand rand = support_rand();
    struct led_reader *r = j_reader(j, true, 60, NULL);
    unsigned answers = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        check_balances(r, &rand, &answers);
    }
    assert_true(answers > 103);
    led_reader_free(r);
}

static void test_led_read__balances_wrong_questions__typed_error(void **state)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    struct led_account_query q = {.account = j_str("a"), .last_seq = j_last(j, 0, j->seq)};

    (void)state;
    assert_int_equal(led_read_balances(r, &q, &out, NULL), RON_INVALID);
    q.at_seq = j->seq + 1;
    assert_int_equal(led_read_balances(r, &q, &out, NULL), RON_NOTFOUND);
    q.at_seq = 1;
    q.asset = j_str("ROC");
    assert_int_equal(led_read_balances(r, &q, &out, NULL), RON_INVALID);
    led_reader_free(r);
}

/* ---- debits ---------------------------------------------------------------------------------- */

static uint64_t commit_time(uint64_t seq)
{
    size_t low = 0;
    size_t high = j->root_count - 1;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (j->root_seqs[middle] < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return j->root_times[low];
}

/* What the model says was taken from the account below `before`. */
static ron_u128 debited(int account, int asset, uint64_t since_ms, uint64_t before)
{
    ron_u128 sum = 0;

    for (uint64_t seq = 1; seq <= j->seq && (before == 0 || seq < before); seq++) {
        const struct j_entry *n = j_at(j, seq);
        uint8_t kind = n->e.kind;

        if (n->account == account && n->asset == asset && commit_time(seq) >= since_ms &&
            (kind == LED_KIND_TRANSFER || kind == LED_KIND_BURN || kind == LED_KIND_DEBIT ||
             kind == LED_KIND_CAPTURE)) {
            sum += n->e.amount.v;
        }
    }
    return sum;
}

/* All pages of one question, added up. */
static void check_debits(struct led_reader *r, int account, int asset, uint64_t since_ms,
                         uint64_t before)
{
    struct led_account_query q = {.account = j_str(j_accounts[account]),
                                  .last_seq = j_last(j, account, j->seq),
                                  .asset = j_str(j_assets[asset]),
                                  .before = before,
                                  .since_ms = since_ms};
    ron_u128 sum = 0;

    do {
        struct lc_debits got;

        ron_buf_clear(&out);
        assert_int_equal(led_read_debits(r, &q, &out, NULL), RON_OK);
        assert_int_equal(
            lc_debits_read((char *)(uintptr_t)ron_buf_text(&out), ron_buf_len(&out), &got), RON_OK);
        assert_true(got.next == 0 || q.before == 0 || got.next < q.before);
        sum += got.debited.v;
        q.before = got.next;
    } while (q.before != 0);
    support_assert_u128_equal(sum, debited(account, asset, since_ms, before));
    ron_buf_clear(&out);
}

static void test_led_read__debits_since_any_time__those_of_the_model(void **state)
{
    /* Two pages for an account: a third might begin at a Reverse that does not name it, further
     * from the next skip point than such a short walk goes. */
    static const uint32_t steps[] = {200, 0};
    struct ron_rand rand = support_rand();

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(steps); i++) {
        struct led_reader *r = j_reader(j, true, steps[i], NULL);

        for (uint64_t n = 0; n < 200; n++) {
            int account = (int)ron_rand_below(&rand, J_ACCOUNTS);
            uint64_t since = n == 0 ? 0 : commit_time(1 + ron_rand_below(&rand, j->seq)) + n % 2;
            uint64_t before = 1 + ron_rand_below(&rand, j->seq);

            /* With short walks only a `next` leads into the middle. */
            check_debits(r, account, (int)ron_rand_below(&rand, J_ASSETS), since,
                         steps[i] == 0 && n % 3 == 0 ? before : 0);
        }
        led_reader_free(r);
    }
}

static void test_led_read__debits_wrong_questions__typed_error(void **state)
{
    struct led_reader *r = j_reader(j, true, 0, NULL);
    struct led_account_query q = {.account = j_str("a"), .last_seq = j_last(j, 0, j->seq)};

    (void)state;
    assert_int_equal(led_read_debits(r, &q, &out, NULL), RON_INVALID);
    q.asset = j_str("No");
    assert_int_equal(led_read_debits(r, &q, &out, NULL), RON_INVALID);
    q.asset = j_str("roc");
    q.last_seq = 0;
    assert_int_equal(led_read_debits(r, &q, &out, NULL), RON_NOTFOUND);
    assert_int_equal(ron_buf_len(&out), 0);
    led_reader_free(r);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static enum ron_rc see_segment(void *arg, const char *name, bool sealed, uint64_t used_bytes)
{
    char *path = arg;

    (void)sealed;
    assert_true(used_bytes > 0);
    if (path[0] == '\0') {
        (void)snprintf(path, 600, "%s/%s", j->dir, name);
    }
    return RON_OK;
}

/* Changes one byte of the first segment. */
static void flip(uint64_t off)
{
    char path[600] = "";
    uint8_t byte;
    int fd;

    assert_int_equal(led_log_each_segment(j->log, see_segment, path), RON_OK);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)off), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)off), 1);
    (void)close(fd);
}

static void test_led_read__damaged_frame__never_served_and_told(void **state)
{
    struct j_damage damage = {0};
    struct led_reader *r = j_reader(j, true, 0, &damage);
    size_t refused = 0;

    (void)state;
    flip(LED_SEGMENT_HEAD + 20 * LED_SECTOR + 200);
    for (uint64_t seq = 1; seq <= j->seq; seq++) {
        enum ron_rc rc = led_read_entry(r, seq, &out, NULL);

        if (rc == RON_OK) {
            check_whole(seq);
        } else {
            assert_int_equal(rc, RON_CORRUPT);
            refused++;
        }
    }
    assert_true(refused > 0 && refused < 100);
    assert_int_equal(damage.told, refused);
    assert_int_equal(damage.rc, RON_CORRUPT);
    /* The page of roots goes over it too. */
    assert_int_equal(led_read_roots(r, 0, LED_PAGE_MAX, &out, NULL), RON_CORRUPT);
    assert_int_equal(ron_buf_len(&out), 0);
    assert_int_equal(damage.told, refused + 1);
    led_reader_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_read__entry_by_seq_and_id__as_journal_has_it),
        cmocka_unit_test(test_led_read__what_is_not_there__typed_error),
        cmocka_unit_test(test_led_read__id_above_index__found_through_candidate),
        cmocka_unit_test(test_led_read__small_buffer__limit_and_nothing_left_behind),
        cmocka_unit_test(test_led_read__history_page_by_page__every_entry_once_newest_first),
        cmocka_unit_test(test_led_read__history_before_any_seq__begins_there),
        cmocka_unit_test(test_led_read__history_wrong_questions__typed_error),
        cmocka_unit_test(test_led_read__book_ahead_of_head__walk_begins_there_and_shows_less),
        cmocka_unit_test(test_led_read__far_back_without_skip_points__bounded),
        cmocka_unit_test(test_led_read__balances_at_any_seq__those_of_the_model),
        cmocka_unit_test(test_led_read__balances_in_short_walks__rest_is_asked_for),
        cmocka_unit_test(test_led_read__balances_wrong_questions__typed_error),
        cmocka_unit_test(test_led_read__debits_since_any_time__those_of_the_model),
        cmocka_unit_test(test_led_read__debits_wrong_questions__typed_error),
        cmocka_unit_test(test_led_read__damaged_frame__never_served_and_told),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
