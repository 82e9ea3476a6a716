/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/book/undo.c - the ring of changes: how a batch is taken back or becomes final.
 * priv.h draws the ring. Taking back goes from the newest change to the oldest, so records
 * that were created last are the last of their store and can be popped. */
#include "ledger/book/priv.h"
#include "ron/base/assert.h"

enum { AHEAD = 64 }; /* changes: a miss of the cache takes as long as passing over so many */

static struct led_change *change_at(const struct led_book *b, uint64_t position)
{
    return &b->ring.changes[position & (b->opts.undo_max - 1)];
}

static struct led_pend *pend_of(const struct led_book *b, const struct led_change *change)
{
    switch ((enum led_change_kind)change->kind) {
    case LED_CHANGE_ACCOUNT:
        return &led__acct(b, change->index)->line.pend;
    case LED_CHANGE_LINE:
        return &led__line(b, change->index)->pend;
    case LED_CHANGE_ASSET:
        return &led__asset(b, change->index)->pend;
    case LED_CHANGE_HOLD:
        return &led__hold(b, change->index)->pend;
    case LED_CHANGE_REVERSAL:
        return &led__reversal(b, change->index)->pend;
    case LED_CHANGE_END:
        return NULL;
    }
    RON_UNREACHABLE();
}

/* The change that a link of this record names, NULL when that has left the ring: its place is free
 * or taken by a change of another record. */
static struct led_change *alive(const struct led_book *b, const struct led_pend *pend,
                                uint32_t link)
{
    struct led_change *change = change_at(b, link);

    return link - (uint32_t)b->ring.tail < b->ring.head - b->ring.tail && pend_of(b, change) == pend
               ? change
               : NULL;
}

const struct led_change *led__first_change(const struct led_book *b, const struct led_pend *pend)
{
    return alive(b, pend, pend->first);
}

struct led_change *led__last_change(const struct led_book *b, const struct led_pend *pend)
{
    return alive(b, pend, pend->last);
}

static struct led_change *push(struct led_book *b, enum led_change_kind kind, uint32_t index)
{
    struct led_change *change = change_at(b, b->ring.head);

    RON_ASSERT(b->ring.head - b->ring.tail < b->opts.undo_max);
    *change = (struct led_change){.kind = (uint8_t)kind, .index = index};
    b->ring.head++;
    return change;
}

/* The change to fill with the values of now, or NULL when this batch has kept them already. */
struct led_change *led__save(struct led_book *b, struct led_pend *pend, enum led_change_kind kind,
                             uint32_t index)
{
    struct led_change *last = led__last_change(b, pend);
    struct led_change *change;
    uint32_t link = (uint32_t)b->ring.head;

    if (last != NULL && pend->last - (uint32_t)b->ring.mark < b->ring.head - b->ring.mark) {
        return NULL;
    }
    change = push(b, kind, index);
    change->next = link;
    if (last != NULL) {
        change->prev = pend->last;
        last->next = link;
    } else {
        change->prev = link;
        pend->first = link;
    }
    pend->last = link;
    return change;
}

void led__created(struct led_book *b, struct led_pend *pend, enum led_change_kind kind,
                  uint32_t index)
{
    struct led_change *change = led__save(b, pend, kind, index);

    RON_ASSERT(change != NULL);
    change->created = true;
}

/* Before the nonce of an account changes that this batch has saved: its change keeps it too. */
void led__save_nonce(struct led_book *b, struct led_acct *acct)
{
    struct led_change *change = led__last_change(b, &acct->line.pend);

    RON_ASSERT(change != NULL);
    if (!change->keeps_nonce) {
        change->c = acct->nonce;
        change->keeps_nonce = true;
    }
}

bool led__is_uncommitted(const struct led_book *b, const struct led_acct *acct)
{
    const struct led_change *first = led__first_change(b, &acct->line.pend);

    return first != NULL && first->created;
}

/* The one from before the first batch in the ring that changed it. */
uint64_t led__committed_nonce(const struct led_book *b, const struct led_acct *acct)
{
    const struct led_change *change = led__first_change(b, &acct->line.pend);

    while (change != NULL && !change->keeps_nonce) {
        const struct led_change *next = change_at(b, change->next);

        change = next != change ? next : NULL;
    }
    return change != NULL ? change->c : acct->nonce;
}

void led__end_batch(struct led_book *b, uint64_t seq_last, uint64_t prints)
{
    struct led_change *end = push(b, LED_CHANGE_END, 0);

    end->c = seq_last;
    end->d = prints;
    b->ring.pending++;
}

/* ---- taking back ----------------------------------------------------------------------------- */

static void unlink_newest(struct led_book *b, struct led_pend *pend,
                          const struct led_change *change)
{
    struct led_change *prev = alive(b, pend, change->prev);

    if (prev != NULL) {
        prev->next = change->prev;
        pend->last = change->prev;
    } /* else its links lie beyond the head now, so they are stale */
}

static void undo_account(struct led_book *b, const struct led_change *change)
{
    struct led_acct *acct = led__acct(b, change->index);

    if (change->created) {
        RON_ASSERT(change->index == b->accounts.count - 1);
        led_table_remove(&b->accounts_by_key, (uint32_t)(acct->key_a >> 32), change->index);
        led__pop_account(b);
        return;
    }
    unlink_newest(b, &acct->line.pend, change);
    acct->line.available = change->a;
    acct->line.held = change->b;
    acct->line.asset = change->asset;
    if (change->keeps_nonce) {
        acct->nonce = change->c;
    }
    acct->last_seq = change->d;
}

static void undo_line(struct led_book *b, const struct led_change *change)
{
    struct led_line *line = led__line(b, change->index);

    if (change->created) {
        RON_ASSERT(change->index == b->lines.count - 1);
        led__acct(b, (uint32_t)change->c)->line.next = line->next;
        led_store_pop(&b->lines);
        return;
    }
    unlink_newest(b, &line->pend, change);
    line->available = change->a;
    line->held = change->b;
}

static void undo_asset(struct led_book *b, const struct led_change *change)
{
    struct led_asset *asset = led__asset(b, change->index);

    if (change->created) {
        RON_ASSERT(change->index == b->assets.count - 1);
        led_store_pop(&b->assets);
        return;
    }
    unlink_newest(b, &asset->pend, change);
    asset->supply = change->a;
}

static void undo_hold(struct led_book *b, const struct led_change *change)
{
    struct led_hold *hold = led__hold(b, change->index);

    if (change->created) {
        led__free_hold(b, change->index);
        return;
    }
    unlink_newest(b, &hold->pend, change);
    if (hold->remaining == 0 && change->a != 0) {
        enum ron_rc rc = led__heap_add(b, change->index);

        RON_ASSERT(rc == RON_OK); /* Its place in the heap was not given to memory. */
    }
    hold->remaining = change->a;
}

static void undo_reversal(struct led_book *b, const struct led_change *change)
{
    struct led_reversal *r = led__reversal(b, change->index);

    if (change->created) {
        RON_ASSERT(change->index == b->reversals.count - 1);
        led_table_remove(&b->reversals_by_key, led__hash(r->key), change->index);
        led_store_pop(&b->reversals);
        return;
    }
    unlink_newest(b, &r->pend, change);
    r->reversed = change->a;
}

static void undo_change(struct led_book *b, const struct led_change *change)
{
    switch ((enum led_change_kind)change->kind) {
    case LED_CHANGE_ACCOUNT:
        undo_account(b, change);
        return;
    case LED_CHANGE_LINE:
        undo_line(b, change);
        return;
    case LED_CHANGE_ASSET:
        undo_asset(b, change);
        return;
    case LED_CHANGE_HOLD:
        undo_hold(b, change);
        return;
    case LED_CHANGE_REVERSAL:
        undo_reversal(b, change);
        return;
    case LED_CHANGE_END:
        b->ring.pending--;
        return;
    }
    RON_UNREACHABLE();
}

void led__roll_back(struct led_book *b, uint64_t undo_mark, uint64_t prints_mark)
{
    while (b->ring.head > undo_mark) {
        b->ring.head--;
        undo_change(b, change_at(b, b->ring.head));
    }
    while (b->ring.prints_head > prints_mark) {
        uint64_t print = b->ring.prints[--b->ring.prints_head & (b->opts.undo_max - 1)];

        if (print != 0) {
            led__print_forget(b, print);
        }
    }
    b->asset_last = 0;
}

void led_book_abort(struct led_book *b)
{
    led__roll_back(b, b->ring.tail, b->ring.prints_tail);
    RON_ASSERT(b->ring.pending == 0);
}

/* ---- becoming final -------------------------------------------------------------------------- */

/* The oldest change of its record leaves the ring. The record is not touched unless it has more:
 * for a transfer among many accounts that would be two more misses of the cache. */
static void finish_change(struct led_book *b, const struct led_change *change)
{
    if (change_at(b, change->next) != change) {
        pend_of(b, change)->first = change->next;
    } else if (change->kind == LED_CHANGE_HOLD && led__hold(b, change->index)->remaining == 0) {
        led__free_hold(b, change->index);
    }
}

uint64_t led_book_commit(struct led_book *b)
{
    const struct led_change *change;

    RON_ASSERT(b->ring.pending > 0);
    for (;; b->ring.tail++) {
        change = change_at(b, b->ring.tail);
        if (change->kind == LED_CHANGE_END) {
            break;
        }
        if (RON_UNLIKELY(b->image != NULL)) {
            if (b->ring.tail + AHEAD < b->ring.head) {
                led__image_ask(b, change_at(b, b->ring.tail + AHEAD));
            }
            led__image_keep(b, change);
        }
        finish_change(b, change);
    }
    b->ring.tail++;
    b->committed_seq = change->c;
    b->ring.prints_tail += change->d;
    b->ring.pending--;
    if (b->ring.pending == 0) {
        /* Start again at the front, so that a lightly loaded ring stays in the cache. */
        RON_ASSERT(b->ring.tail == b->ring.head);
        b->ring.head = (b->ring.head + b->opts.undo_max - 1) & ~((uint64_t)b->opts.undo_max - 1);
        b->ring.tail = b->ring.head;
        b->ring.prints_tail = b->ring.prints_head = 0;
    }
    return change->c;
}
