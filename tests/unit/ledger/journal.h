/* SPDX-License-Identifier: Apache-2.0 */
/* journal.h - random journals for the tests of reading, export and import: a real log in a folder
 * of its own, written frame by frame, the index and stored hashes that belong to it, and a plain
 * model of what every account had after every entry.
 *
 * The book decides which random batches are accepted and gives the links. The model folds the
 * accepted entries by itself: it shares no code with book, log or reader. */
#pragma once

#include "unit/io/fixture.h"

#include <fcntl.h>

#include "ledger/index/index.h"
#include "ledger/log/log.h"
#include "ledger/read/reader.h"
#include "ron/base/alloc.h"
#include "ron/merkle/tree.h"

enum {
    J_ACCOUNTS = 9,
    J_ASSETS = 4,
    J_MAX = 6000, /* entries */
    J_BATCH = 6,
    J_TEXT = 64,
};

#define J_NOW UINT64_C(1700000000000)

/* Names that are hard for somebody: empty parts, both separators, what looks like ours. */
static const char *const j_accounts[J_ACCOUNTS] = {
    "a", "a:b", "a::b", ":x", "x:", "t:demo/u:alice/w", "a:held", "A-b_c/", "Held:9--",
};
static const char *const j_assets[J_ASSETS] = {"roc", "x", "usd.",
                                               "a-long-name-of-an-asset-0123456"};

/* One entry of the journal as the test knows it. */
struct j_entry {
    struct led_entry e;
    char id[J_TEXT];
    char ref[J_TEXT];
    int account;
    int to; /* also of the original of a Reverse; -1 = none */
    int asset;
    uint8_t undone_kind; /* of the original of a Reverse */
    ron_u128 left;       /* what can be reversed or captured */
    size_t batch;        /* number of its record */
};

struct j_state {
    ron_u128 available[J_ACCOUNTS][J_ASSETS];
    ron_u128 held[J_ACCOUNTS][J_ASSETS];
};

/* A record: a batch or a tombstone. */
struct j_record {
    uint64_t seq_first;
    uint32_t count; /* 0 = cancelled */
    uint64_t now_ms;
    char idem_id[J_TEXT];
    uint64_t frame_last; /* last seq of its frame */
};

struct journal {
    struct ron_rand rand;
    const struct ron_env *env;
    const char *dir;
    struct led_log *log;
    struct led_book *book;
    struct led_index *index;
    struct led_index_state index_state;
    struct ron_tree tree;
    struct ron_tree_hash *stored;
    struct ron_tree_store store; /* over `stored` */
    uint64_t now_ms;
    uint64_t seq; /* last */
    struct j_entry *entries;
    struct j_state *states; /* [seq]: after that entry */
    struct j_record records[J_MAX];
    size_t record_count;
    struct ron_tree_hash roots[J_MAX]; /* of frames */
    uint64_t root_seqs[J_MAX];
    uint64_t root_times[J_MAX];
    size_t root_count;
    uint64_t indexed_seq; /* of `index`; it stops there when index_stopped */
    bool index_stopped;
    uint64_t amount_max; /* in units of amount_scale */
    uint64_t amount_scale;
};

static inline struct ron_str j_str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

/* ---- stored hashes --------------------------------------------------------------------------- */

static inline enum ron_rc j_hash_append(void *ctx, uint64_t first,
                                        const struct ron_tree_hash *hashes, size_t count,
                                        struct ron_err *err)
{
    struct journal *j = ctx;

    (void)err;
    memcpy(j->stored + first, hashes, count * sizeof *hashes);
    return RON_OK;
}

static inline enum ron_rc j_hash_read(void *ctx, const uint64_t *places, size_t count,
                                      struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    const struct journal *j = ctx;

    (void)err;
    for (size_t i = 0; i < count; i++) {
        ret_hashes[i] = j->stored[places[i]];
    }
    return RON_OK;
}

static inline struct led_key j_key(const struct journal *j, const char *text)
{
    struct led_prep prep;
    const struct led_entry e = {.account = j_str(text)};

    led_book_prepare(j->index_state.hash_key, &e, &prep);
    return prep.account;
}

/* ---- random entries -------------------------------------------------------------------------- */

static inline struct j_entry *j_at(struct journal *j, uint64_t seq)
{
    assert_true(seq < J_MAX);
    return &j->entries[seq];
}

static inline void j_fill(struct journal *j, uint64_t seq, uint8_t kind, int account, int asset,
                          ron_u128 amount)
{
    static const char *const memos[] = {
        "", "lunch \"50%\" [2020/01/01] ; a:b: k\xc3\xa4se \\ , x:y", "plain", "[9"};
    struct j_entry *n = j_at(j, seq);
    bool odd = ron_rand_chance(&j->rand, 1, 4);

    *n = (struct j_entry){.account = account, .to = -1, .asset = asset, .left = amount};
    (void)snprintf(n->id, sizeof n->id, "%s%llu%s", odd ? "t \"" : "tx-", (unsigned long long)seq,
                   odd ? "\";[9,%\\: *(x)" : "");
    n->e = (struct led_entry){.id = j_str(n->id),
                              .account = j_str(j_accounts[account]),
                              .asset = j_str(j_assets[asset]),
                              .kid = j_str("k1"),
                              .capability_ref = j_str("c1"),
                              .memo = j_str(memos[ron_rand_below(&j->rand, 4)]),
                              .amount = {amount},
                              .ts_ms = j->now_ms - ron_rand_below(&j->rand, 1000),
                              .v = LED_VERSION,
                              .kind = kind};
    ron_rand_bytes(&j->rand, n->e.nonce, sizeof n->e.nonce);
}

static inline void j_set_to(struct j_entry *n, int to)
{
    n->to = to;
    n->e.to = j_str(j_accounts[to]);
}

static inline void j_set_ref(struct j_entry *n, const struct j_entry *original)
{
    memcpy(n->ref, original->id, sizeof n->ref);
    n->e.ref = j_str(n->ref);
}

static inline ron_u128 j_amount(struct journal *j)
{
    return 1 + (ron_u128)ron_rand_below(&j->rand, j->amount_max) * j->amount_scale;
}

/* An earlier entry of one of the kinds (a mask) that has something left, or NULL. */
static inline struct j_entry *j_earlier(struct journal *j, uint32_t kinds)
{
    for (int tries = 0; j->seq > 0 && tries < 30; tries++) {
        struct j_entry *n = j_at(j, 1 + ron_rand_below(&j->rand, j->seq));

        if ((kinds >> n->e.kind & 1) != 0 && n->left > 0) {
            return n;
        }
    }
    return NULL;
}

/* Part of an entry: Capture or Release of a hold, Reverse of a movement. */
static inline bool j_fill_part(struct journal *j, uint64_t seq, uint8_t kind)
{
    uint32_t kinds = kind == LED_KIND_REVERSE ? 1u << LED_KIND_MINT | 1u << LED_KIND_BURN |
                                                    1u << LED_KIND_TRANSFER | 1u << LED_KIND_CAPTURE
                                              : 1u << LED_KIND_HOLD;
    struct j_entry *original = j_earlier(j, kinds);
    ron_u128 amount;

    if (original == NULL) {
        return false;
    }
    amount = ron_rand_chance(&j->rand, 1, 2) ? original->left : 1 + original->left / 2;
    j_fill(j, seq, kind, original->account, original->asset, amount);
    j_set_ref(j_at(j, seq), original);
    if (kind == LED_KIND_CAPTURE) {
        j_set_to(j_at(j, seq), (original->account + 1) % J_ACCOUNTS);
    }
    if (kind == LED_KIND_REVERSE) {
        j_at(j, seq)->undone_kind = original->e.kind;
        j_at(j, seq)->to = original->to;
    }
    return true;
}

/* One random entry, or two that balance; how many, 0 for none. */
static inline size_t j_fill_random(struct journal *j, uint64_t seq)
{
    static const uint8_t kinds[] = {
        LED_KIND_MINT,     LED_KIND_MINT,     LED_KIND_BURN,   LED_KIND_TRANSFER,
        LED_KIND_TRANSFER, LED_KIND_TRANSFER, LED_KIND_HOLD,   LED_KIND_CAPTURE,
        LED_KIND_RELEASE,  LED_KIND_REVERSE,  LED_KIND_CREDIT,
    };
    uint8_t kind = kinds[ron_rand_below(&j->rand, sizeof kinds)];
    int account = (int)ron_rand_below(&j->rand, J_ACCOUNTS);
    int other = (account + 1 + (int)ron_rand_below(&j->rand, J_ACCOUNTS - 1)) % J_ACCOUNTS;
    int asset = (int)ron_rand_below(&j->rand, J_ASSETS);
    ron_u128 amount = j_amount(j);

    if (kind == LED_KIND_CAPTURE || kind == LED_KIND_RELEASE || kind == LED_KIND_REVERSE) {
        return j_fill_part(j, seq, kind) ? 1 : 0;
    }
    j_fill(j, seq, kind, account, asset, kind == LED_KIND_MINT ? 3 * amount : amount);
    if (kind == LED_KIND_HOLD && ron_rand_chance(&j->rand, 1, 3)) {
        j_at(j, seq)->e.expires_ms = j->now_ms + 1 + ron_rand_below(&j->rand, 60000000);
    }
    if (kind == LED_KIND_TRANSFER) {
        j_set_to(j_at(j, seq), other);
    }
    if (kind == LED_KIND_CREDIT) {
        j_fill(j, seq + 1, LED_KIND_DEBIT, other, asset, amount);
        return 2;
    }
    return 1;
}

/* ---- the model ------------------------------------------------------------------------------- */

static inline struct j_entry *j_original(struct journal *j, const struct j_entry *n)
{
    for (uint64_t s = j->seq + J_BATCH + 2; s > 0; s--) {
        if (s < J_MAX && strcmp(j_at(j, s)->id, n->ref) == 0) {
            return j_at(j, s);
        }
    }
    fail();
    return NULL;
}

static inline void j_fold_reverse(struct j_state *s, const struct j_entry *n)
{
    ron_u128 v = n->e.amount.v;

    if (n->undone_kind == LED_KIND_MINT) {
        s->available[n->account][n->asset] -= v;
    } else {
        s->available[n->account][n->asset] += v;
        if (n->to >= 0) {
            s->available[n->to][n->asset] -= v;
        }
    }
}

static inline void j_fold(struct j_state *s, const struct j_entry *n)
{
    ron_u128 v = n->e.amount.v;
    ron_u128 *available = &s->available[n->account][n->asset];
    ron_u128 *held = &s->held[n->account][n->asset];

    switch (n->e.kind) {
    case LED_KIND_MINT:
    case LED_KIND_CREDIT:
        *available += v;
        break;
    case LED_KIND_BURN:
    case LED_KIND_DEBIT:
        *available -= v;
        break;
    case LED_KIND_TRANSFER:
        *available -= v;
        s->available[n->to][n->asset] += v;
        break;
    case LED_KIND_HOLD:
        *available -= v;
        *held += v;
        break;
    case LED_KIND_CAPTURE:
        *held -= v;
        s->available[n->to][n->asset] += v;
        break;
    case LED_KIND_REVERSE:
        j_fold_reverse(s, n);
        break;
    default:
        *held -= v;
        *available += v;
        break;
    }
}

/* ---- growing --------------------------------------------------------------------------------- */

/* The expiry of a hold, if one is due: the ledger's own batch. */
static inline size_t j_fill_expiry(struct journal *j, uint64_t seq)
{
    struct led_expiry x;
    struct j_entry *n = j_at(j, seq);

    if (!led_book_next_expiry(j->book, j->now_ms, &x)) {
        return 0;
    }
    *n = (struct j_entry){.e = x.entry, .to = -1};
    memcpy(n->id, x.entry.id.ptr, x.entry.id.len);
    memcpy(n->ref, x.entry.ref.ptr, x.entry.ref.len);
    n->e.id = j_str(n->id);
    n->e.ref = j_str(n->ref);
    n->account = j_original(j, n)->account;
    n->asset = j_original(j, n)->asset;
    n->e.account = j_str(j_accounts[n->account]);
    n->e.asset = j_str(j_assets[n->asset]);
    return 1;
}

/* Makes a batch that the book accepts behind `seq`; its length. */
static inline size_t j_batch(struct journal *j, uint64_t seq, struct led_links *links,
                             bool *ret_own)
{
    for (;;) {
        struct led_entry entries[J_BATCH + 2];
        const struct led_entry *originals[J_BATCH + 2] = {0};
        size_t want = 1 + ron_rand_below(&j->rand, J_BATCH);
        struct led_outcome outcome;
        size_t count = j_fill_expiry(j, seq);

        *ret_own = count > 0;
        while (!*ret_own && count < want) {
            count += j_fill_random(j, seq + count);
        }
        for (size_t i = 0; i < count; i++) {
            struct j_entry *n = j_at(j, seq + i);

            entries[i] = n->e;
            n->batch = j->record_count;
            if (n->e.kind == LED_KIND_REVERSE) {
                originals[i] = &j_original(j, n)->e;
            }
        }
        assert_int_equal(led_book_apply(j->book,
                                        &(struct led_apply){.entries = entries,
                                                            .count = count,
                                                            .originals = originals,
                                                            .now_ms = j->now_ms,
                                                            .seq_first = seq,
                                                            .flags = LED_APPLY_REVERSIBLE,
                                                            .ret_links = links},
                                        &outcome),
                         RON_OK);
        if (outcome.accepted) {
            RON_IGNORE(led_book_commit(j->book));
            return count;
        }
    }
}

/* Folds an accepted entry into model, tree and index. */
static inline void j_accept(struct journal *j, uint64_t seq)
{
    struct j_entry *n = j_at(j, seq);
    uint8_t leaf[LED_ENTRY_BYTES_MAX];
    struct ron_tree_hash hash;

    j->states[seq] = j->states[seq - 1];
    j_fold(&j->states[seq], n);
    if (n->e.ref.len != 0) {
        j_original(j, n)->left -= n->e.amount.v;
    }
    j->seq = seq;
    RON_IGNORE(led_entry_encode(&n->e, leaf));
    ron_tree_hash_leaf(leaf, led_entry_size(&n->e), &hash);
    assert_int_equal(ron_tree_append(&j->tree, &j->store, &hash, 1, NULL), RON_OK);
    if (j->index == NULL || j->index_stopped) {
        return;
    }
    assert_int_equal(led_index_add(j->index, LED_INDEX_ID, j_key(j, n->id), n->e.id, seq, NULL),
                     RON_OK);
    if (seq % 4 == 0) {
        assert_int_equal(led_index_add_skip(j->index, j_key(j, j_accounts[n->account]), seq, NULL),
                         RON_OK);
        if (n->to >= 0) {
            assert_int_equal(led_index_add_skip(j->index, j_key(j, j_accounts[n->to]), seq, NULL),
                             RON_OK);
        }
    }
}

static inline void j_add_record(struct journal *j, struct ron_buf *out, uint32_t *entries)
{
    struct led_links links[J_BATCH + 2];
    struct j_record *record = &j->records[j->record_count];
    uint64_t seq = j->seq + 1;
    size_t at = ron_buf_len(out);
    bool cancel = ron_rand_chance(&j->rand, 1, 8);
    bool own = false;
    size_t count = cancel ? 0 : j_batch(j, seq, links, &own);

    *record = (struct j_record){.seq_first = seq, .count = (uint32_t)count, .now_ms = j->now_ms};
    if (cancel || (!own && ron_rand_chance(&j->rand, 1, 2))) {
        (void)snprintf(record->idem_id, sizeof record->idem_id, "idem-%zu", j->record_count);
    }
    assert_int_equal(
        led_frame_add_record(
            out, &(struct led_record){.kind = cancel ? LED_RECORD_CANCEL : LED_RECORD_BATCH,
                                      .flags = own ? LED_RECORD_OWN : 0,
                                      .count = (uint32_t)count,
                                      .now_ms = j->now_ms,
                                      .idem_id = j_str(record->idem_id)}),
        RON_OK);
    for (size_t i = 0; i < count; i++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        const struct led_entry *e = &j_at(j, seq + i)->e;

        RON_IGNORE(led_entry_encode(e, leaf));
        assert_int_equal(
            led_frame_add_entry(out, (struct ron_str){(char *)leaf, led_entry_size(e)}, &links[i]),
            RON_OK);
        j_accept(j, seq + i);
    }
    led_frame_end_record(out, at);
    if (record->idem_id[0] != '\0' && j->index != NULL && !j->index_stopped) {
        assert_int_equal(led_index_add(j->index, LED_INDEX_IDEM, j_key(j, record->idem_id),
                                       j_str(record->idem_id), seq, NULL),
                         RON_OK);
    }
    j->record_count++;
    *entries += (uint32_t)count;
}

/* One frame of up to four records. */
static inline void j_frame(struct journal *j)
{
    uint32_t records = 1 + (uint32_t)ron_rand_below(&j->rand, 4);
    size_t record_first = j->record_count;
    struct led_frame frame = {.seq_first = j->seq + 1, .records = records};
    struct led_log_head head;
    struct ron_buf out;

    led_log_head(j->log, &head);
    memcpy(frame.uuid, head.uuid, sizeof frame.uuid);
    frame.epoch = head.epoch;
    frame.prev_root = head.root;
    ron_buf_init(&out, LED_FRAME_MAX);
    assert_int_equal(led_frame_begin(&out), RON_OK);
    for (uint32_t i = 0; i < records; i++) {
        j->now_ms += ron_rand_below(&j->rand, 20000000);
        j_add_record(j, &out, &frame.entries);
    }
    frame.time_ms = j->now_ms + 1;
    ron_tree_root(&j->tree, &frame.new_root);
    assert_int_equal(led_frame_end(&out, &frame), RON_OK);
    assert_int_equal(led_log_append(j->log, &frame, ron_buf_data(&out), ron_buf_len(&out), NULL),
                     RON_OK);
    ron_buf_done(&out);
    for (size_t i = record_first; i < j->record_count; i++) {
        j->records[i].frame_last = j->seq;
    }
    if (frame.entries > 0) {
        j->roots[j->root_count] = frame.new_root;
        j->root_times[j->root_count] = frame.time_ms;
        j->root_seqs[j->root_count++] = j->seq;
    }
    if (j->index != NULL && !j->index_stopped) {
        assert_int_equal(led_index_commit(j->index, j->seq, &frame.new_root, NULL), RON_OK);
        j->indexed_seq = j->seq;
    }
}

static inline void j_grow(struct journal *j, uint64_t seq)
{
    while (j->seq < seq) {
        j_frame(j);
    }
}

/* ---- lives ----------------------------------------------------------------------------------- */

static inline void j_open_log(struct journal *j)
{
    struct led_log_report report;
    struct ron_err err = {0};

    assert_int_equal(
        led_log_open(
            &(struct led_log_opts){.env = j->env, .dir = j->dir, .segment_bytes = 256 << 10}, 0,
            NULL, NULL, &j->log, &report, &err),
        RON_OK);
}

static inline struct journal *j_new(const char *dir, struct ron_rand rand)
{
    struct journal *j = ron_alloc_zero(sizeof *j);
    struct led_index_opts index = {.run_entries = 64};

    assert_non_null(j);
    j->rand = rand;
    j->env = ron_env_linux();
    j->dir = dir;
    j->now_ms = J_NOW;
    j->amount_max = 1000;
    j->amount_scale = 1;
    j->entries = ron_alloc_array(J_MAX, sizeof *j->entries);
    j->states = ron_alloc_array(J_MAX, sizeof *j->states);
    j->stored = ron_alloc_array((size_t)2 * J_MAX, sizeof *j->stored);
    assert_true(j->entries != NULL && j->states != NULL && j->stored != NULL);
    j->store = (struct ron_tree_store){.ctx = j, .append = j_hash_append, .read = j_hash_read};
    ron_tree_init(&j->tree);
    j_open_log(j);
    index.env = j->env;
    assert_int_equal(led_index_open(&index, &j->index, &j->index_state, NULL), RON_OK);
    assert_int_equal(led_book_new(&(struct led_book_opts){.horizon_ms = 1000000}, &j->book),
                     RON_OK);
    return j;
}

static inline void j_free(struct journal *j)
{
    led_log_close(j->log);
    led_index_close(j->index);
    led_book_free(j->book);
    ron_free(j->entries);
    ron_free(j->states);
    ron_free(j->stored);
    ron_free(j);
}

/* A journal of so many entries, in the folder of a test; j_teardown ends both. */
static inline int j_setup(void **state, uint64_t entries, struct journal **ret_j)
{
    if (fixture_setup(state) != 0) {
        return -1;
    }
    *ret_j = j_new(fixture_path(*state, "log"), support_rand());
    j_grow(*ret_j, entries);
    return 0;
}

static inline int j_teardown(void **state, struct journal *j)
{
    j_free(j);
    return fixture_teardown(state);
}

/* The last entry at or before `seq` that touched the account; 0 for none. */
static inline uint64_t j_last(struct journal *j, int account, uint64_t seq)
{
    while (seq > 0 && j_at(j, seq)->account != account && j_at(j, seq)->to != account) {
        seq--;
    }
    return seq;
}

static inline struct ron_tree_hash j_root(const struct journal *j)
{
    struct ron_tree_hash root;

    ron_tree_root(&j->tree, &root);
    return root;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct j_damage {
    size_t told;
    enum ron_rc rc;
};

static inline void j_damaged(void *arg, enum ron_rc rc, const struct ron_err *err)
{
    struct j_damage *damage = arg;

    assert_non_null(err);
    assert_true(err->msg[0] != '\0');
    damage->told++;
    damage->rc = rc;
}

/* A reader at the journal's head. */
static inline struct led_reader *j_reader(struct journal *j, bool with_index, uint32_t steps_max,
                                          struct j_damage *damage)
{
    struct led_reader_opts opts = {.log = j->log,
                                   .index = with_index ? j->index : NULL,
                                   .hashes = &j->store,
                                   .steps_max = steps_max,
                                   .damaged = damage != NULL ? j_damaged : NULL,
                                   .arg = damage};
    struct led_reader *r = NULL;
    struct ron_tree_hash root = j_root(j);

    memcpy(opts.hash_key, j->index_state.hash_key, sizeof opts.hash_key);
    assert_int_equal(led_reader_new(&opts, &r), RON_OK);
    led_reader_set_head(r, j->seq, &root);
    return r;
}

/* Scans an answer and empties the buffer. Slices are valid until the next answer. */
static inline void j_scan(struct ron_buf *out, const struct ron_json_shape *shape,
                          struct ron_arena *arena, void *ret)
{
    static char text[4 << 20];
    struct ron_json_error err = {0};
    size_t len = ron_buf_len(out);

    assert_true(len > 0 && len < sizeof text);
    memcpy(text, ron_buf_data(out), len);
    ron_buf_clear(out);
    ron_arena_clear(arena);
    if (ron_json_scan(text, len, shape, arena, ret, &err) != RON_OK) {
        fail_msg("%s: %s at %zu", err.field, err.reason, err.at);
    }
}

static inline void j_check_str(struct ron_str got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.ptr, want, got.len);
}

static inline struct ron_tree_hash j_hash(struct ron_str hex)
{
    struct ron_tree_hash hash;

    assert_int_equal(hex.len, 64);
    for (size_t i = 0; i < 32; i++) {
        char digits[3] = {hex.ptr[2 * i], hex.ptr[2 * i + 1], '\0'};
        char *end = NULL;

        hash.bytes[i] = (uint8_t)strtoul(digits, &end, 16);
        assert_ptr_equal(end, digits + 2);
    }
    return hash;
}

static inline void j_check_hash(struct ron_str hex, const struct ron_tree_hash *want)
{
    struct ron_tree_hash got = j_hash(hex);

    assert_memory_equal(got.bytes, want->bytes, sizeof got.bytes);
}
