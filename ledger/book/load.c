/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/load.c - an image back into a book. Byte layout: docs/formats/ledger-image.md.
 *
 * Records come in any order but for assets, which come first: a commit that ran ahead of the walk
 * may have written a balance or hold before its account. So whoever is named first makes the
 * account, and its own record fills it in; at the end no account may be left without.
 *
 * What is read is believed only as far as it was checked: chunks are chained by checksums, texts
 * obey the rules of entries, nothing comes twice, the counts agree, and the invariants of the book
 * hold (led_book_audit). */
#include "ledger/book/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/bytes.h"

struct led_loading {
    uint64_t seq;
    uint32_t number; /* of the next chunk */
    uint8_t prev[LED_IMAGE_SUM];
    uint64_t counts[LED_IMAGE_KINDS];
    bool ended;
    bool failed;
};

struct ctx {
    struct led_book *b;
    struct led_loading *l;
    struct ron_reader r;
    struct ron_err *err;
};

static enum ron_rc damaged(struct ctx *c, const char *what)
{
    return ron_err_set(c->err, RON_CORRUPT, "image of the book, chunk %u: %s", c->l->number, what);
}

/* A store that is full says so; lack of memory is lack of memory. */
static enum ron_rc full(struct ctx *c, enum ron_rc rc, const char *what)
{
    return rc == RON_FULL ? ron_err_set(c->err, RON_LIMIT, "more %s than the book may hold", what)
                          : ron_err_set(c->err, rc, "loading %s", what);
}

/* ---- what records name ----------------------------------------------------------------------- */

static enum ron_rc open_account(struct ctx *c, uint32_t *ret_index)
{
    struct ron_str name = ron_read_text16(&c->r);
    struct led_key key;
    uint32_t index;
    enum ron_rc rc;

    if (!led_account_valid(name)) {
        return damaged(c, "not the name of an account");
    }
    key = led__key(c->b->opts.hash_key, name);
    index = led__find_account(c->b, key);
    if (index == LED_TABLE_NONE) {
        rc = led__new_account(c->b, key, name, &index);
        if (rc != RON_OK) {
            return full(c, rc, "accounts");
        }
    }
    *ret_index = index;
    return RON_OK;
}

/* An asset of an earlier record. */
static enum ron_rc find_asset(struct ctx *c, struct ron_str name, uint32_t *ret_index)
{
    uint32_t index = led__find_asset(c->b, name);

    if (index == LED_TABLE_NONE) {
        return damaged(c, "an asset that was not told before");
    }
    c->b->asset_last = index;
    *ret_index = index;
    return RON_OK;
}

/* Whether the account has that asset in a further line. */
static bool has_line(const struct led_book *b, const struct led_acct *acct, uint32_t asset)
{
    for (uint32_t next = acct->line.next; next != 0; next = led__line(b, next - 1)->next) {
        if (led__line(b, next - 1)->asset == asset + 1) {
            return true;
        }
    }
    return false;
}

/* ---- records --------------------------------------------------------------------------------- */

static enum ron_rc load_start(struct ctx *c)
{
    uint64_t now_ms = ron_read_be64(&c->r);

    if (c->l->counts[LED_IMAGE_START] != 1 || now_ms > LED_TIME_MAX_MS) {
        return damaged(c, "a second beginning, or of no time");
    }
    led__advance(c->b, now_ms);
    return RON_OK;
}

static enum ron_rc load_asset(struct ctx *c)
{
    struct ron_str name = ron_read_text8(&c->r);
    ron_u128 supply = ron_read_be128(&c->r);
    struct led_asset *asset;
    uint32_t index;
    enum ron_rc rc;

    if (c->r.failed || !led_asset_valid(name) || led__find_asset(c->b, name) != LED_TABLE_NONE) {
        return damaged(c, "not the name of a new asset");
    }
    rc = led_store_push(&c->b->assets, &index);
    if (rc != RON_OK) {
        return full(c, rc, "assets");
    }
    asset = led__asset(c->b, index);
    asset->supply = supply;
    asset->len = (uint8_t)name.len;
    memcpy(asset->name, name.ptr, name.len);
    return RON_OK;
}

static enum ron_rc load_account(struct ctx *c)
{
    struct led_acct *acct;
    struct ron_str asset;
    uint32_t index = 0;
    uint32_t asset_index = 0;

    RON_TRY(open_account(c, &index));
    acct = led__acct(c->b, index);
    if (acct->last_seq != 0) {
        return damaged(c, "an account twice");
    }
    acct->nonce = ron_read_be64(&c->r);
    acct->last_seq = ron_read_be64(&c->r);
    if (acct->last_seq == 0 || acct->last_seq > c->l->seq) {
        return damaged(c, "an account of another time");
    }
    asset = ron_read_text8(&c->r);
    if (asset.len == 0) {
        return acct->line.next == 0 ? RON_OK : damaged(c, "a further balance without a first");
    }
    RON_TRY(find_asset(c, asset, &asset_index));
    if (has_line(c->b, acct, asset_index)) {
        return damaged(c, "a balance twice");
    }
    acct->line.asset = (uint16_t)(asset_index + 1);
    acct->line.available = ron_read_be128(&c->r);
    acct->line.held = ron_read_be128(&c->r);
    return RON_OK;
}

static enum ron_rc load_balance(struct ctx *c)
{
    struct led_book *b = c->b;
    struct led_acct *acct;
    struct led_line *line;
    uint32_t account = 0;
    uint32_t asset = 0;
    uint32_t index;
    enum ron_rc rc;

    RON_TRY(open_account(c, &account));
    RON_TRY(find_asset(c, ron_read_text8(&c->r), &asset));
    acct = led__acct(b, account);
    if (acct->line.asset == asset + 1 || has_line(b, acct, asset)) {
        return damaged(c, "a balance twice");
    }
    if (acct->last_seq != 0 && acct->line.asset == 0) {
        return damaged(c, "a further balance without a first");
    }
    rc = led_store_push(&b->lines, &index);
    if (rc != RON_OK) {
        return full(c, rc, "balances");
    }
    line = led__line(b, index);
    line->asset = (uint16_t)(asset + 1);
    line->available = ron_read_be128(&c->r);
    line->held = ron_read_be128(&c->r);
    line->next = acct->line.next;
    acct->line.next = index + 1;
    return RON_OK;
}

static enum ron_rc load_hold(struct ctx *c)
{
    struct led_book *b = c->b;
    struct ron_str id = ron_read_text8(&c->r);
    struct led_key key = led__key(b->opts.hash_key, id);
    struct led_hold *hold;
    uint32_t account = 0;
    uint32_t asset = 0;
    uint32_t index;
    enum ron_rc rc;

    if (!led_token_valid(id) || led__find_hold(b, key) != LED_TABLE_NONE) {
        return damaged(c, "not the id of a new hold");
    }
    RON_TRY(open_account(c, &account));
    RON_TRY(find_asset(c, ron_read_text8(&c->r), &asset));
    rc = led__new_hold(b, key, account, &index);
    if (rc != RON_OK) {
        return full(c, rc, "holds");
    }
    hold = led__hold(b, index);
    hold->remaining = ron_read_be128(&c->r);
    hold->expires_ms = ron_read_be64(&c->r);
    hold->seq = ron_read_be64(&c->r);
    hold->asset = (uint16_t)asset;
    hold->id_len = (uint8_t)id.len;
    memcpy(hold->id, id.ptr, id.len);
    if (hold->remaining == 0 || hold->seq == 0 || hold->seq > c->l->seq) {
        return damaged(c, "a hold of nothing or of another time");
    }
    rc = led__heap_add(b, index);
    return rc == RON_OK ? RON_OK : full(c, rc, "holds");
}

static enum ron_rc load_reversal(struct ctx *c)
{
    struct led_book *b = c->b;
    const uint8_t *name = ron_read_bytes(&c->r, sizeof((struct led_reversal *)0)->name);
    struct led_key key;
    struct led_reversal *r;
    uint32_t index;
    enum ron_rc rc;

    key.a = ron_read_be64(&c->r);
    key.b = ron_read_be64(&c->r);
    if (name == NULL || led__find_reversal(b, key) != LED_TABLE_NONE) {
        return damaged(c, "a reversal twice");
    }
    rc = led_store_push(&b->reversals, &index);
    if (rc == RON_OK) {
        rc = led_table_add(&b->reversals_by_key, led__hash(key), index);
    }
    if (rc != RON_OK) {
        return full(c, rc, "reversals");
    }
    r = led__reversal(b, index);
    r->key = key;
    memcpy(r->name, name, sizeof r->name);
    r->reversed = ron_read_be128(&c->r);
    return r->reversed != 0 ? RON_OK : damaged(c, "a reversal of nothing");
}

/* They go to the slice of time in which theirs ended, so that none is forgotten too early; with an
 * unchanged horizon that is the same slice. */
static enum ron_rc load_end(struct ctx *c)
{
    const char *fault;

    for (int kind = LED_IMAGE_ASSET; kind < LED_IMAGE_END; kind++) {
        if (ron_read_be64(&c->r) != c->l->counts[kind]) {
            return damaged(c, "the counts do not agree");
        }
    }
    if (c->l->counts[LED_IMAGE_ACCOUNT] != c->b->accounts.count) {
        return damaged(c, "an account is missing");
    }
    fault = led_book_audit(c->b);
    if (fault != NULL) {
        return damaged(c, fault);
    }
    c->l->ended = true;
    return RON_OK;
}

static enum ron_rc load_record(struct ctx *c)
{
    uint8_t kind = ron_read_u8(&c->r);

    if (kind >= LED_IMAGE_KINDS ||
        (kind != LED_IMAGE_START && c->l->counts[LED_IMAGE_START] == 0) || c->l->ended) {
        return damaged(c, "a record that must not stand here");
    }
    c->l->counts[kind]++;
    switch ((enum led_image_kind)kind) {
    case LED_IMAGE_START:
        return load_start(c);
    case LED_IMAGE_ASSET:
        return load_asset(c);
    case LED_IMAGE_ACCOUNT:
        return load_account(c);
    case LED_IMAGE_BALANCE:
        return load_balance(c);
    case LED_IMAGE_HOLD:
        return load_hold(c);
    case LED_IMAGE_REVERSAL:
        return load_reversal(c);
    case LED_IMAGE_END:
        return load_end(c);
    case LED_IMAGE_KINDS:
        break;
    }
    return damaged(c, "a record of no kind");
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static enum ron_rc check_sum(struct ctx *c, const uint8_t *bytes, size_t len)
{
    uint8_t sum[LED_IMAGE_SUM];

    if (len < LED_IMAGE_HEAD || len > LED_IMAGE_CHUNK_MAX ||
        memcmp(bytes, LED_IMAGE_MAGIC, sizeof LED_IMAGE_MAGIC - 1) != 0) {
        return damaged(c, "not a chunk of an image");
    }
    led__image_sum(bytes, len, sum);
    if (memcmp(sum, bytes + LED_IMAGE_HEAD - LED_IMAGE_SUM, sizeof sum) != 0) {
        return damaged(c, "the checksum is wrong");
    }
    return RON_OK;
}

static enum ron_rc load_head(struct ctx *c, const uint8_t *bytes, size_t len, bool *ret_last)
{
    struct led_key ours = led__image_key(c->b);
    uint16_t version;
    uint32_t number;
    uint64_t seq;
    struct led_key key;
    const uint8_t *prev;

    RON_TRY(check_sum(c, bytes, len));
    c->r = (struct ron_reader){bytes + sizeof LED_IMAGE_MAGIC - 1, bytes + len, false};
    version = ron_read_be16(&c->r);
    if (version != LED_IMAGE_VERSION) {
        return ron_err_set(c->err, RON_UNSUPPORTED, "image of the book: version %u", version);
    }
    *ret_last = ron_read_u8(&c->r) != 0;
    (void)ron_read_u8(&c->r);
    number = ron_read_be32(&c->r);
    seq = ron_read_be64(&c->r);
    if (ron_read_be32(&c->r) != len - LED_IMAGE_HEAD) {
        return damaged(c, "the length is wrong");
    }
    (void)ron_read_be32(&c->r);
    key.a = ron_read_be64(&c->r);
    key.b = ron_read_be64(&c->r);
    if (key.a != ours.a || key.b != ours.b) {
        return ron_err_set(c->err, RON_INVALID, "the image was made under another hash key");
    }
    prev = ron_read_bytes(&c->r, LED_IMAGE_SUM);
    if (number != c->l->number || (number > 0 && seq != c->l->seq) || prev == NULL ||
        memcmp(prev, c->l->prev, LED_IMAGE_SUM) != 0) {
        return damaged(c, "not the chunk that comes next");
    }
    c->l->seq = seq;
    memcpy(c->l->prev, bytes + LED_IMAGE_HEAD - LED_IMAGE_SUM, LED_IMAGE_SUM);
    c->r.at = bytes + LED_IMAGE_HEAD;
    return RON_OK;
}

static enum ron_rc load_chunk(struct ctx *c, const uint8_t *bytes, size_t len, bool *ret_last)
{
    bool last = false;

    RON_TRY(load_head(c, bytes, len, &last));
    while (c->r.at < c->r.end) {
        RON_TRY(load_record(c));
        if (c->r.failed) {
            return damaged(c, "a record is cut off");
        }
    }
    if (last != c->l->ended) {
        return damaged(c, "the end is not where it should be");
    }
    c->l->number++;
    *ret_last = last;
    return RON_OK;
}

enum ron_rc led_book_load(struct led_book *b, const void *bytes, size_t len, bool *ret_done,
                          struct ron_err *err)
{
    struct ctx c = {.b = b, .err = err};
    bool last = false;
    enum ron_rc rc;

    if (b->loading == NULL) {
        if (b->accounts.count != 0 || b->assets.count != 0 || b->committed_seq != 0 ||
            b->ring.pending != 0) {
            return ron_err_set(err, RON_INVALID, "an image is loaded into an empty book only");
        }
        b->loading = ron_alloc_zero(sizeof *b->loading);
        if (b->loading == NULL) {
            return ron_err_set(err, RON_NOMEM, "loading an image");
        }
    }
    c.l = b->loading;
    if (c.l->failed) {
        return ron_err_set(err, RON_CORRUPT, "an image that failed before");
    }
    rc = load_chunk(&c, bytes, len, &last);
    if (rc != RON_OK) {
        c.l->failed = true;
        return rc;
    }
    if (last) {
        b->committed_seq = c.l->seq;
        ron_free(b->loading);
        b->loading = NULL;
    }
    *ret_done = last;
    return RON_OK;
}
