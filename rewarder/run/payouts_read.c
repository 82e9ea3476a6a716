/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/payouts_read.c - lines, and the files of payouts read again: by place, by account,
 * with proofs.
 *
 * What stands in the files is believed no further than it fits together: places grow, lines have
 * their one spelling. That they are the payouts of the run is what a proof or rwd_verify shows.
 *
 * Threads: an open set of files is never changed; every call has memory of its own. */
#include <inttypes.h>

#include "rewarder/run/manifest_priv.h"
#include "rewarder/run/payouts_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

/* ---- lines ----------------------------------------------------------------------------------- */

#define WORD_ACCOUNT "{\"account\":\""
#define WORD_AMOUNT "\",\"amount_minor_units\":\""
#define WORD_SCORE "\",\"score\":\""
#define WORD_END "\"}"

_Static_assert(RWD_LINE_MAX > sizeof WORD_ACCOUNT WORD_AMOUNT WORD_SCORE WORD_END +
                                  RWD_ACCOUNT_MAX + (size_t)2 * RON_MONEY_DIGITS_MAX + 1,
               "the longest line with its end fits");

static char *put(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

size_t rwd_payout_line(const struct rwd_payout *payout, char ret_line[RWD_LINE_MAX])
{
    char number[RON_MONEY_TEXT_SIZE];
    char *at = ret_line;

    RON_ASSERT(payout->account.len <= RWD_ACCOUNT_MAX);
    at = put(at, WORD_ACCOUNT, sizeof WORD_ACCOUNT - 1);
    at = put(at, payout->account.ptr, payout->account.len);
    at = put(at, WORD_AMOUNT, sizeof WORD_AMOUNT - 1);
    at = put(at, number, ron_money_format(payout->amount, number));
    at = put(at, WORD_SCORE, sizeof WORD_SCORE - 1);
    at = put(at, number, ron_money_format((struct ron_money){.v = payout->score}, number));
    at = put(at, WORD_END, sizeof WORD_END - 1);
    return (size_t)(at - ret_line);
}

static bool skip(struct ron_str *s, const char *word, size_t len)
{
    if (s->len < len || memcmp(s->ptr, word, len) != 0) {
        return false;
    }
    s->ptr += len;
    s->len -= len;
    return true;
}

/* Takes what stands before the next quotation mark. */
static bool take_quoted(struct ron_str *s, struct ron_str *ret_text)
{
    const char *end = s->len == 0 ? NULL : memchr(s->ptr, '"', s->len);

    if (end == NULL) {
        return false;
    }
    *ret_text = (struct ron_str){.ptr = s->ptr, .len = (size_t)(end - s->ptr)};
    s->ptr = end;
    s->len -= ret_text->len;
    return true;
}

enum ron_rc rwd_payout_line_read(struct ron_str line, struct rwd_payout *ret_payout,
                                 struct ron_err *err)
{
    struct ron_str account = {0};
    struct ron_str amount_text = {0};
    struct ron_str score_text = {0};
    struct ron_money amount = RON_MONEY_ZERO;
    struct ron_money score = RON_MONEY_ZERO;

    if (!skip(&line, WORD_ACCOUNT, sizeof WORD_ACCOUNT - 1) || !take_quoted(&line, &account) ||
        !skip(&line, WORD_AMOUNT, sizeof WORD_AMOUNT - 1) || !take_quoted(&line, &amount_text) ||
        !skip(&line, WORD_SCORE, sizeof WORD_SCORE - 1) || !take_quoted(&line, &score_text) ||
        !skip(&line, WORD_END, sizeof WORD_END - 1) || line.len != 0 || !rwd_account_ok(account) ||
        ron_money_parse(amount_text.ptr, amount_text.len, &amount, NULL) != RON_OK ||
        ron_money_parse(score_text.ptr, score_text.len, &score, NULL) != RON_OK ||
        ron_money_is_zero(amount)) {
        return ron_err_set(err, RON_CORRUPT, "the line is no payout");
    }
    *ret_payout = (struct rwd_payout){.account = account, .amount = amount, .score = score.v};
    return RON_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

struct rwd_payouts {
    const struct ron_env *env;
    int fds[RWD__PAYOUTS_FILES];
    uint64_t sizes[RWD__PAYOUTS_FILES];
    uint64_t count;
};

static enum ron_rc read_exact(const struct rwd_payouts *p, enum rwd__payouts_file file, void *bytes,
                              size_t len, uint64_t off, struct ron_err *err)
{
    size_t got = 0;

    if (p->env->disk->pread(p->env, p->fds[file], bytes, len, off, &got) != RON_OK) {
        return ron_err_set(err, RON_IO, "%s cannot be read at byte %" PRIu64,
                           rwd__payouts_files[file], off);
    }
    return got == len
               ? RON_OK
               : ron_err_set(err, RON_CORRUPT, "%s has become shorter", rwd__payouts_files[file]);
}

static enum ron_rc read_place(const struct rwd_payouts *p, uint64_t index, uint64_t *ret_place,
                              struct ron_err *err)
{
    uint8_t bytes[RWD__PLACE_BYTES];

    RON_TRY(read_exact(p, RWD__INDEX, bytes, sizeof bytes, index * RWD__PLACE_BYTES, err));
    *ret_place = rwd__place_get(bytes);
    return RON_OK;
}

static enum ron_rc sizes_fit(struct rwd_payouts *p, struct ron_err *err)
{
    uint64_t end = 0;
    uint64_t places = p->sizes[RWD__INDEX] / RWD__PLACE_BYTES;

    if (places == 0 || p->sizes[RWD__INDEX] % RWD__PLACE_BYTES != 0) {
        return ron_err_set(err, RON_CORRUPT, "payouts.index has a size of %" PRIu64 " bytes",
                           p->sizes[RWD__INDEX]);
    }
    p->count = places - 1;
    if (p->sizes[RWD__TREE] != ron_tree_stored_count(p->count) * RON_TREE_HASH_BYTES) {
        return ron_err_set(err, RON_CORRUPT, "payouts.tree is not that of %" PRIu64 " payouts",
                           p->count);
    }
    RON_TRY(read_place(p, p->count, &end, err));
    if (end != p->sizes[RWD__LINES]) {
        return ron_err_set(err, RON_CORRUPT, "payouts.ndjson does not end where the index says");
    }
    return RON_OK;
}

enum ron_rc rwd_payouts_open(const struct ron_env *env, const char *dir,
                             struct rwd_payouts **ret_payouts, struct ron_err *err)
{
    struct rwd_payouts *p = ron_alloc_zero(sizeof *p);
    enum ron_rc rc = RON_OK;

    if (p == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to open payouts");
    }
    p->env = env;
    for (size_t i = 0; i < RWD__PAYOUTS_FILES; i++) {
        p->fds[i] = -1;
    }
    for (size_t i = 0; rc == RON_OK && i < RWD__PAYOUTS_FILES; i++) {
        char path[RON_FILE_PATH_SIZE];

        rc = rwd__path(path, dir, rwd__payouts_files[i], err);
        if (rc == RON_OK) {
            rc = env->disk->open(env, path, RON_OPEN_READ | RON_OPEN_PLAIN, 0, &p->fds[i], err);
        }
        if (rc == RON_OK && env->disk->size(env, p->fds[i], &p->sizes[i]) != RON_OK) {
            rc = ron_err_set(err, RON_IO, "%s cannot be read", path);
        }
    }
    if (rc == RON_OK) {
        rc = sizes_fit(p, err);
    }
    if (rc != RON_OK) {
        rwd_payouts_close(p);
        return rc;
    }
    *ret_payouts = p;
    return RON_OK;
}

void rwd_payouts_close(struct rwd_payouts *p)
{
    if (p == NULL) {
        return;
    }
    for (size_t i = 0; i < RWD__PAYOUTS_FILES; i++) {
        if (p->fds[i] >= 0) {
            p->env->disk->close(p->env, p->fds[i]);
        }
    }
    ron_free(p);
}

uint64_t rwd_payouts_count(const struct rwd_payouts *p)
{
    return p->count;
}

/* ---- rounds of lines ------------------------------------------------------------------------- */

struct reader {
    uint8_t places[(RWD__ROUND + 1) * RWD__PLACE_BYTES];
    char text[RWD__ROUND * RWD_LINE_MAX];
};

static enum ron_rc bad_line(uint64_t index, struct ron_err *err)
{
    return ron_err_set(err, RON_CORRUPT, "payouts.ndjson: line %" PRIu64 " is no payout",
                       index + 1);
}

/* Line i of a round that begins in the text at place `begin`. */
static enum ron_rc line_of(const struct reader *r, size_t i, uint64_t begin, uint64_t index,
                           struct rwd_payout *ret_payout, struct ron_err *err)
{
    uint64_t from = rwd__place_get(r->places + i * RWD__PLACE_BYTES);
    uint64_t to = rwd__place_get(r->places + (i + 1) * RWD__PLACE_BYTES);
    struct ron_str line = {.ptr = r->text + (from - begin), .len = (size_t)(to - from - 1)};

    if (r->text[to - begin - 1] != '\n' || rwd_payout_line_read(line, ret_payout, NULL) != RON_OK) {
        return bad_line(index, err);
    }
    return RON_OK;
}

static enum ron_rc read_round(const struct rwd_payouts *p, struct reader *r, uint64_t first,
                              size_t count, uint64_t *ret_begin, struct ron_err *err)
{
    uint64_t begin;
    uint64_t last;

    RON_TRY(read_exact(p, RWD__INDEX, r->places, (count + 1) * RWD__PLACE_BYTES,
                       first * RWD__PLACE_BYTES, err));
    begin = rwd__place_get(r->places);
    last = begin;
    for (size_t i = 1; i <= count; i++) {
        uint64_t place = rwd__place_get(r->places + i * RWD__PLACE_BYTES);

        if (place <= last || place - last > RWD_LINE_MAX || place > p->sizes[RWD__LINES]) {
            return bad_line(first + i - 1, err);
        }
        last = place;
    }
    RON_TRY(read_exact(p, RWD__LINES, r->text, (size_t)(last - begin), begin, err));
    *ret_begin = begin;
    return RON_OK;
}

enum ron_rc rwd_payouts_each(struct rwd_payouts *p, uint64_t first, uint64_t count,
                             rwd_payout_fn *each, void *arg, struct ron_err *err)
{
    uint64_t end = first + RON_MIN(count, p->count - RON_MIN(first, p->count));
    struct reader *r;
    enum ron_rc rc = RON_OK;
    bool more = true;

    if (first >= end) {
        return RON_OK;
    }
    r = ron_alloc(sizeof *r);
    if (r == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory to read payouts");
    }
    while (rc == RON_OK && more && first < end) {
        size_t n = (size_t)RON_MIN(end - first, (uint64_t)RWD__ROUND);
        uint64_t begin = 0;

        rc = read_round(p, r, first, n, &begin, err);
        for (size_t i = 0; rc == RON_OK && more && i < n; i++) {
            struct rwd_payout payout;

            rc = line_of(r, i, begin, first + i, &payout, err);
            more = rc == RON_OK && each(arg, first + i, &payout);
        }
        first += n;
    }
    ron_free(r);
    return rc;
}

/* One line, its text in memory of the caller. */
static enum ron_rc read_one(const struct rwd_payouts *p, uint64_t index, char text[RWD_LINE_MAX],
                            struct ron_str *ret_line, struct rwd_payout *ret_payout,
                            struct ron_err *err)
{
    uint8_t places[2 * RWD__PLACE_BYTES];
    uint64_t from;
    uint64_t to;

    RON_TRY(read_exact(p, RWD__INDEX, places, sizeof places, index * RWD__PLACE_BYTES, err));
    from = rwd__place_get(places);
    to = rwd__place_get(places + RWD__PLACE_BYTES);
    if (to <= from || to - from > RWD_LINE_MAX || to > p->sizes[RWD__LINES]) {
        return bad_line(index, err);
    }
    RON_TRY(read_exact(p, RWD__LINES, text, (size_t)(to - from), from, err));
    *ret_line = (struct ron_str){.ptr = text, .len = (size_t)(to - from - 1)};
    if (text[to - from - 1] != '\n' ||
        rwd_payout_line_read(*ret_line, ret_payout, NULL) != RON_OK) {
        return bad_line(index, err);
    }
    return RON_OK;
}

static int compare(struct ron_str a, struct ron_str b)
{
    size_t len = RON_MIN(a.len, b.len);
    int order = len == 0 ? 0 : memcmp(a.ptr, b.ptr, len);

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

enum ron_rc rwd_payouts_find(struct rwd_payouts *p, struct ron_str account, uint64_t *ret_index,
                             struct ron_err *err)
{
    uint64_t low = 0;
    uint64_t high = p->count;

    if (!rwd_account_ok(account)) {
        return ron_err_set(err, RON_NOTFOUND, "that is no account");
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        char text[RWD_LINE_MAX];
        struct ron_str line;
        struct rwd_payout payout = {0};
        int order;

        RON_TRY(read_one(p, middle, text, &line, &payout, err));
        order = compare(payout.account, account);
        if (order == 0) {
            *ret_index = middle;
            return RON_OK;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return ron_err_set(err, RON_NOTFOUND, "%.*s is not paid in this run", (int)account.len,
                       account.ptr);
}

/* ---- proofs ---------------------------------------------------------------------------------- */

static enum ron_rc read_hashes(void *ctx, const uint64_t *places, size_t count,
                               struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    const struct rwd_payouts *p = ctx;

    for (size_t i = 0; i < count; i++) {
        RON_TRY(read_exact(p, RWD__TREE, &ret_hashes[i], RON_TREE_HASH_BYTES,
                           places[i] * RON_TREE_HASH_BYTES, err));
    }
    return RON_OK;
}

enum ron_rc rwd_payouts_prove(struct rwd_payouts *p, uint64_t index, struct ron_str manifest,
                              struct ron_buf *out, struct ron_err *err)
{
    const struct ron_tree_store store = {.ctx = p, .read = read_hashes};
    char line_text[RWD_LINE_MAX];
    char text[RWD_MANIFEST_MAX];
    struct ron_str line = {0};
    struct ron_tree_hash leaf;
    struct rwd_proof_word word = {.index = index};
    struct ron_proof proof;

    if (index >= p->count || manifest.len > sizeof text) {
        return ron_err_set(err, RON_INVALID, "there is no payout %" PRIu64, index);
    }
    RON_TRY(read_one(p, index, line_text, &line, &word.payout, err));
    memcpy(text, manifest.ptr, manifest.len);
    RON_TRY(rwd_manifest_read(text, manifest.len, &word.manifest, err));
    RON_TRY(ron_proof_inclusion(&store, index, p->count, &proof, err));
    ron_tree_hash_leaf(line.ptr, line.len, &leaf);
    if (word.manifest.payouts.count != p->count ||
        !ron_proof_includes(proof.hashes, proof.count, index, p->count, &leaf,
                            &word.manifest.payouts.root)) {
        return ron_err_set(err, RON_CORRUPT, "the payouts are not those of the manifest");
    }
    return rwd__proof_write(&word, &proof, manifest, out);
}
