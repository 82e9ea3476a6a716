/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/image.c - a consistent image of the committed state, made step by step while batches
 * are applied and committed. Byte layout: docs/formats/ledger-image.md; loading: load.c.
 *
 * The image is the state at the seq S that was committed when it began. A walk copies the records
 * in the order of their stores. The committed value of a record changes only when a batch is
 * committed, and then the ring still holds the value from before; so the commit copies out, ahead
 * of the walk, each record that it changes and that the walk has not reached. A bit per record says
 * "copied, or born after S". Used nonces are no part of an image: there is one for each entry, and
 * the log tells them faster than they could be copied over and over (recover/recall.h).
 *
 * Invariants:
 *   I1. A record of S is written exactly once, with its value at S; others never.
 *   I2. What an image lacks (memory, room) ends the image, never the batch: `failed` says why.
 *   I3. Chunks wait in a queue of at most WAITING_MAX; the walk goes on only when it is empty. */
#include <blake3.h>

#include "ledger/book/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/bytes.h"

enum {
    WALK_SKIPS = 8,     /* records that are passed over for the cost of a copied one */
    WAITING_MAX = 1024, /* chunks: 64 MiB that a caller who never steps can make us hold */
    RECORD_MAX = 512,   /* bytes of the longest record: id, account, numbers */
};

/* Which records of a store are copied or were born after S. */
struct done {
    uint64_t *bits;
    uint32_t limit; /* records of the store when the image began */
    uint32_t at;    /* the walk: all records before it are copied */
};

struct waiting {
    uint8_t *bytes;
    size_t len;
};

struct led_image {
    uint64_t seq;
    uint32_t number; /* of the next chunk */
    uint8_t prev[LED_IMAGE_SUM];
    uint8_t *filling; /* a chunk, its head left free */
    size_t fill_len;
    struct waiting waiting[WAITING_MAX];
    uint32_t waiting_first;
    uint32_t waiting_count;
    struct done accounts;
    struct done lines; /* walked through their accounts: `at` is not used */
    struct done holds;
    struct done reversals;
    uint64_t counts[LED_IMAGE_KINDS];
    uint64_t records; /* written */
    bool ended;       /* the last record is written */
    enum ron_rc failed;
};

/* ---- room ------------------------------------------------------------------------------------ */

static void fail(struct led_image *im, enum ron_rc rc)
{
    im->failed = rc;
}

/* Room for a record of at most `len` bytes in the chunk that is being filled; NULL: I2. */
static uint8_t *room(struct led_image *im, size_t len)
{
    if (im->failed != RON_OK) {
        return NULL;
    }
    if (im->filling != NULL && im->fill_len + len > LED_IMAGE_CHUNK_MAX) {
        uint32_t at = (im->waiting_first + im->waiting_count) % WAITING_MAX;

        if (im->waiting_count == WAITING_MAX) {
            fail(im, RON_FULL);
            return NULL;
        }
        im->waiting[at] = (struct waiting){im->filling, im->fill_len};
        im->waiting_count++;
        im->filling = NULL;
    }
    if (im->filling == NULL) {
        im->filling = ron_alloc(LED_IMAGE_CHUNK_MAX);
        im->fill_len = LED_IMAGE_HEAD;
        if (im->filling == NULL) {
            fail(im, RON_NOMEM);
            return NULL;
        }
    }
    return im->filling + im->fill_len;
}

static void written(struct led_image *im, enum led_image_kind kind, const uint8_t *end)
{
    im->fill_len = (size_t)(end - im->filling);
    im->counts[kind]++;
    im->records++;
    RON_ASSERT(im->fill_len <= LED_IMAGE_CHUNK_MAX);
}

static enum ron_rc done_init(struct done *d, uint32_t count)
{
    d->limit = count;
    d->bits = ron_alloc_array((size_t)count / 64 + 1, sizeof *d->bits);
    return d->bits != NULL ? RON_OK : RON_NOMEM;
}

static bool is_done(const struct done *d, uint32_t i)
{
    return i < d->at || i >= d->limit || (d->bits[i / 64] >> (i % 64) & 1) != 0;
}

static void mark(struct done *d, uint32_t i)
{
    d->bits[i / 64] |= UINT64_C(1) << (i % 64);
}

/* ---- records --------------------------------------------------------------------------------- */

/* The committed values of a record: its own, or those that its first change has kept. */
static struct led_change committed(const struct led_book *b, const struct led_pend *pend,
                                   const struct led_change *own)
{
    const struct led_change *first = led__first_change(b, pend);

    return first != NULL ? *first : *own;
}

static struct ron_str asset_name(const struct led_book *b, uint32_t asset)
{
    const struct led_asset *a = led__asset(b, asset);

    return (struct ron_str){a->name, a->len};
}

static void put_account(struct led_book *b, uint32_t index, const struct led_change *v)
{
    const struct led_acct *acct = led__acct(b, index);
    uint8_t *to;

    /* Neither born nor touched at S: a new one, or one that was only frozen. */
    if (v->created || v->d == 0) {
        return;
    }
    to = room(b->image, RECORD_MAX);
    if (to == NULL) {
        return;
    }
    *to++ = LED_IMAGE_ACCOUNT;
    to = ron_put_text16(to, led__name(b, acct));
    to = ron_put_be64(to, led__committed_nonce(b, acct));
    to = ron_put_be64(to, v->d);
    if (v->asset == 0) {
        *to++ = 0;
    } else {
        to = ron_put_text8(to, asset_name(b, v->asset - 1u));
        to = ron_put_be128(ron_put_be128(to, v->a), v->b);
    }
    written(b->image, LED_IMAGE_ACCOUNT, to);
}

static void put_line(struct led_book *b, uint32_t account, uint32_t index,
                     const struct led_change *v)
{
    uint8_t *to;

    if (v->created || (v->a == 0 && v->b == 0)) {
        return;
    }
    to = room(b->image, RECORD_MAX);
    if (to == NULL) {
        return;
    }
    *to++ = LED_IMAGE_BALANCE;
    to = ron_put_text16(to, led__name(b, led__acct(b, account)));
    to = ron_put_text8(to, asset_name(b, led__line(b, index)->asset - 1u));
    to = ron_put_be128(ron_put_be128(to, v->a), v->b);
    written(b->image, LED_IMAGE_BALANCE, to);
}

static void put_hold(struct led_book *b, uint32_t index, const struct led_change *v)
{
    const struct led_hold *hold = led__hold(b, index);
    uint8_t *to;

    if (v->created || v->a == 0) {
        return;
    }
    to = room(b->image, RECORD_MAX);
    if (to == NULL) {
        return;
    }
    *to++ = LED_IMAGE_HOLD;
    to = ron_put_text8(to, (struct ron_str){hold->id, hold->id_len});
    to = ron_put_text16(to, led__name(b, led__acct(b, hold->account)));
    to = ron_put_text8(to, asset_name(b, hold->asset));
    to = ron_put_be128(to, v->a);
    to = ron_put_be64(ron_put_be64(to, hold->expires_ms), hold->seq);
    written(b->image, LED_IMAGE_HOLD, to);
}

static void put_reversal(struct led_book *b, uint32_t index, const struct led_change *v)
{
    const struct led_reversal *r = led__reversal(b, index);
    uint8_t *to;

    if (v->created) {
        return;
    }
    to = room(b->image, RECORD_MAX);
    if (to == NULL) {
        return;
    }
    *to++ = LED_IMAGE_REVERSAL;
    to = ron_put_bytes(to, r->name, sizeof r->name);
    to = ron_put_be64(ron_put_be64(to, r->key.a), r->key.b);
    to = ron_put_be128(to, v->a);
    written(b->image, LED_IMAGE_REVERSAL, to);
}

/* There are few assets: all of them are written at the beginning, before anything names one. */
static void put_assets(struct led_book *b)
{
    for (uint32_t i = 0; i < b->assets.count; i++) {
        const struct led_asset *asset = led__asset(b, i);
        struct led_change v = committed(b, &asset->pend, &(struct led_change){.a = asset->supply});
        uint8_t *to = v.created ? NULL : room(b->image, RECORD_MAX);

        if (to == NULL) {
            continue;
        }
        *to++ = LED_IMAGE_ASSET;
        to = ron_put_text8(to, asset_name(b, i));
        to = ron_put_be128(to, v.a);
        written(b->image, LED_IMAGE_ASSET, to);
    }
}

static void put_start(struct led_book *b)
{
    uint8_t *to = room(b->image, RECORD_MAX);

    if (to != NULL) {
        *to++ = LED_IMAGE_START;
        written(b->image, LED_IMAGE_START, ron_put_be64(to, b->slices.now_ms));
    }
}

static void put_end(struct led_image *im)
{
    uint8_t *to = room(im, RECORD_MAX);

    if (to == NULL) {
        return;
    }
    *to++ = LED_IMAGE_END;
    for (int kind = LED_IMAGE_ASSET; kind < LED_IMAGE_END; kind++) {
        to = ron_put_be64(to, im->counts[kind]);
    }
    written(im, LED_IMAGE_END, to);
    im->ended = true;
}

/* ---- ahead of the walk ----------------------------------------------------------------------- */

void led__image_ask(const struct led_book *b, const struct led_change *change)
{
    if (change->kind == LED_CHANGE_ACCOUNT && !is_done(&b->image->accounts, change->index)) {
        const struct led_acct *acct = led__acct(b, change->index);

        __builtin_prefetch(&acct->line.pend);
        __builtin_prefetch(&acct->nonce);
    }
}

/* The change is about to leave the ring: from then on the committed value is a later one. */
void led__image_keep(struct led_book *b, const struct led_change *change)
{
    struct led_image *im = b->image;
    uint32_t index = change->index;

    if (im->failed != RON_OK) {
        return;
    }
    switch ((enum led_change_kind)change->kind) {
    case LED_CHANGE_ACCOUNT:
        if (!is_done(&im->accounts, index)) {
            put_account(b, index, change);
            mark(&im->accounts, index);
        }
        return;
    case LED_CHANGE_LINE:
        if ((uint32_t)change->c >= im->accounts.at && !is_done(&im->lines, index)) {
            put_line(b, (uint32_t)change->c, index, change);
            mark(&im->lines, index);
        }
        return;
    case LED_CHANGE_HOLD:
        if (!is_done(&im->holds, index)) {
            put_hold(b, index, change);
            mark(&im->holds, index);
        }
        return;
    case LED_CHANGE_REVERSAL:
        if (!is_done(&im->reversals, index)) {
            put_reversal(b, index, change);
            mark(&im->reversals, index);
        }
        return;
    case LED_CHANGE_ASSET:
    case LED_CHANGE_END:
        return;
    }
    RON_UNREACHABLE();
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* An account and its further balances. */
static void walk_account(struct led_book *b, uint32_t index)
{
    struct led_image *im = b->image;
    const struct led_acct *acct = led__acct(b, index);
    struct led_change own = {.a = acct->line.available,
                             .b = acct->line.held,
                             .d = acct->last_seq,
                             .asset = acct->line.asset};

    if (!is_done(&im->accounts, index)) {
        own = committed(b, &acct->line.pend, &own);
        put_account(b, index, &own);
    }
    for (uint32_t next = acct->line.next; next != 0;) {
        const struct led_line *line = led__line(b, next - 1);

        if (!is_done(&im->lines, next - 1)) {
            own = (struct led_change){.a = line->available, .b = line->held};
            own = committed(b, &line->pend, &own);
            put_line(b, index, next - 1, &own);
        }
        next = line->next;
    }
}

static void walk_hold(struct led_book *b, uint32_t index)
{
    const struct led_hold *hold = led__hold(b, index);
    struct led_change v = committed(b, &hold->pend, &(struct led_change){.a = hold->remaining});

    if (!is_done(&b->image->holds, index)) {
        put_hold(b, index, &v);
    }
}

static void walk_reversal(struct led_book *b, uint32_t index)
{
    const struct led_reversal *r = led__reversal(b, index);
    struct led_change v = committed(b, &r->pend, &(struct led_change){.a = r->reversed});

    if (!is_done(&b->image->reversals, index)) {
        put_reversal(b, index, &v);
    }
}

/* True when the store is walked through. */
static bool walk_store(struct led_book *b, struct done *d, const struct led_store *store,
                       void (*walk)(struct led_book *, uint32_t))
{
    struct led_image *im = b->image;
    uint32_t end = RON_MIN(d->limit, store->count);
    uint64_t left = (uint64_t)b->opts.image_walk * WALK_SKIPS;

    while (d->at < end && left > 0 && im->waiting_count == 0) {
        uint64_t before = im->records;

        walk(b, d->at);
        d->at++;
        left -= RON_MIN(left, (uint64_t)(im->records != before ? WALK_SKIPS : 1));
    }
    return d->at >= end;
}

static void walk(struct led_book *b)
{
    struct led_image *im = b->image;

    if (walk_store(b, &im->accounts, &b->accounts, walk_account) &&
        walk_store(b, &im->holds, &b->holds, walk_hold) &&
        walk_store(b, &im->reversals, &b->reversals, walk_reversal)) {
        put_end(im);
    }
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The check that head and content belong together, and the chunk to the one before it. */
void led__image_sum(const uint8_t *chunk, size_t len, uint8_t ret_sum[LED_IMAGE_SUM])
{
    static const uint8_t zeros[LED_IMAGE_SUM];
    blake3_hasher hasher;

    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, chunk, LED_IMAGE_HEAD - LED_IMAGE_SUM);
    blake3_hasher_update(&hasher, zeros, sizeof zeros);
    blake3_hasher_update(&hasher, chunk + LED_IMAGE_HEAD, len - LED_IMAGE_HEAD);
    blake3_hasher_finalize(&hasher, ret_sum, LED_IMAGE_SUM);
}

struct led_key led__image_key(const struct led_book *b)
{
    static const char text[] = "ron-ledger image";

    return led__key(b->opts.hash_key, (struct ron_str){text, sizeof text - 1});
}

static void seal(struct led_book *b, uint8_t *chunk, size_t len, bool last)
{
    struct led_image *im = b->image;
    struct led_key key = led__image_key(b);
    uint8_t *to = ron_put_bytes(chunk, LED_IMAGE_MAGIC, sizeof LED_IMAGE_MAGIC - 1);

    to = ron_put_be16(to, LED_IMAGE_VERSION);
    *to++ = last;
    *to++ = 0;
    to = ron_put_be32(to, im->number);
    to = ron_put_be64(to, im->seq);
    to = ron_put_be32(to, (uint32_t)(len - LED_IMAGE_HEAD));
    to = ron_put_be32(to, 0);
    to = ron_put_be64(ron_put_be64(to, key.a), key.b);
    to = ron_put_bytes(to, im->prev, sizeof im->prev);
    RON_ASSERT(to == chunk + LED_IMAGE_HEAD - LED_IMAGE_SUM);
    led__image_sum(chunk, len, im->prev);
    memcpy(to, im->prev, sizeof im->prev);
}

enum ron_rc led_book_image_step(struct led_book *b, struct led_image_chunk *ret_chunk)
{
    struct led_image *im = b->image;
    struct waiting next = {0};
    bool last = false;

    RON_ASSERT_MSG(im != NULL, "no image was begun");
    if (im->waiting_count == 0 && !im->ended) {
        walk(b);
    }
    if (im->failed != RON_OK) {
        return im->failed;
    }
    if (im->waiting_count > 0) {
        next = im->waiting[im->waiting_first];
        im->waiting_first = (im->waiting_first + 1) % WAITING_MAX;
        im->waiting_count--;
    } else if (im->ended) {
        RON_ASSERT_MSG(im->filling != NULL, "the last chunk was given out");
        next = (struct waiting){im->filling, im->fill_len};
        im->filling = NULL;
        last = true;
    }
    if (next.bytes != NULL) {
        seal(b, next.bytes, next.len, last);
    }
    *ret_chunk = (struct led_image_chunk){.seq = im->seq,
                                          .number = next.bytes != NULL ? im->number++ : 0,
                                          .take_bytes = next.bytes,
                                          .len = next.len,
                                          .last = last};
    return RON_OK;
}

size_t led_book_image_waiting(const struct led_book *b)
{
    return b->image != NULL ? b->image->waiting_count : 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void image_free(struct led_image *im)
{
    for (uint32_t i = 0; i < im->waiting_count; i++) {
        ron_free(im->waiting[(im->waiting_first + i) % WAITING_MAX].bytes);
    }
    ron_free(im->filling);
    ron_free(im->accounts.bits);
    ron_free(im->lines.bits);
    ron_free(im->holds.bits);
    ron_free(im->reversals.bits);
    ron_free(im);
}

enum ron_rc led_book_image_begin(struct led_book *b, uint64_t *ret_seq)
{
    struct led_image *im;
    enum ron_rc rc;

    if (b->image != NULL) {
        return RON_AGAIN;
    }
    im = ron_alloc_zero(sizeof *im);
    if (im == NULL) {
        return RON_NOMEM;
    }
    im->seq = b->committed_seq;
    RON_GOTO(done_init(&im->accounts, b->accounts.count), fail);
    RON_GOTO(done_init(&im->lines, b->lines.count), fail);
    RON_GOTO(done_init(&im->holds, b->holds.count), fail);
    RON_GOTO(done_init(&im->reversals, b->reversals.count), fail);
    b->image = im;
    put_start(b);
    put_assets(b);
    rc = im->failed;
    if (rc != RON_OK) {
        goto fail;
    }
    *ret_seq = im->seq;
    return RON_OK;
fail:
    b->image = NULL;
    image_free(im);
    return rc;
}

void led_book_image_end(struct led_book *b)
{
    if (b->image != NULL) {
        image_free(b->image);
        b->image = NULL;
    }
}
