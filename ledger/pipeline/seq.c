/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/seq.c - the sequencer's decisions; the contract is in seq.h.
 *
 *     new works ─sort─► decide ─► COMMIT ─► flight (until durable)
 *                       ▲   │
 *        waiting ───────┤   ├──► DONE, LOOK_UP
 *        (no room)      │   │
 *        behind ────────┘   └──► waiting, behind
 *        (a key in flight)
 *
 * `waiting` is a queue: nobody overtakes its first. `behind` holds works until all that was in
 * flight when they came is durable; a little longer than needed, but a plain queue too. */
#include "ledger/pipeline/seq.h"

#include <string.h>

#include "ledger/pipeline/recent.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    KEPT_DEFAULT = 4096, /* twice what the queue before the sequencer holds */
    KEPT_LIMIT = 1 << 20,
    LOOK_AHEAD = 16, /* keys whose slots are on their way from memory at a time */
};

/* A work that was given to the committer. */
struct flight {
    uint64_t seq_last;
    uint64_t cancel; /* key of a tombstone */
    bool is_cancel;
};

struct behind {
    struct led_work *work;
    uint64_t awaits; /* number of works given out that must be durable */
};

/* What Q2 sorts by; the first bytes of the id spare most comparisons of texts. */
struct order {
    uint64_t ts_ms;
    uint64_t prefix;
    struct ron_str id;
    struct led_work *work;
};

struct led_seq {
    struct led_book *book;
    struct led_seq_opts opts;
    uint64_t last_seq;
    uint64_t durable_seq;
    struct led_recent recent;

    struct flight *flight; /* ring of LED_FLIGHT_MAX; numbers never wrap */
    uint64_t given;
    uint64_t durable;

    struct led_work **waiting; /* ring of kept_cap */
    uint64_t waiting_head;
    uint64_t waiting_tail;
    struct behind *behind; /* ring of kept_cap */
    uint64_t behind_head;
    uint64_t behind_tail;
    uint32_t kept_cap; /* a power of two, at least kept_max */

    struct order order[LED_WINDOW_MAX];
    uint32_t room;
    uint64_t now_ms;
};

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc led_seq_new(const struct led_seq_opts *opts, struct led_seq **ret_seq)
{
    struct led_seq *s = ron_alloc_zero(sizeof *s);
    enum ron_rc rc;

    if (s == NULL) {
        return RON_NOMEM;
    }
    s->opts = *opts;
    s->opts.kept_max = opts->kept_max != 0 ? opts->kept_max : KEPT_DEFAULT;
    s->last_seq = opts->last_seq;
    s->durable_seq = opts->last_seq;
    RON_ASSERT(s->opts.kept_max <= KEPT_LIMIT);
    for (s->kept_cap = 1; s->kept_cap < s->opts.kept_max;) {
        s->kept_cap *= 2;
    }
    s->flight = ron_alloc_array(LED_FLIGHT_MAX, sizeof *s->flight);
    s->waiting = ron_alloc_array(s->kept_cap, sizeof(void *));
    s->behind = ron_alloc_array(s->kept_cap, sizeof *s->behind);
    rc = led_recent_init(&s->recent, opts->indexed_seq, opts->recent_keys);
    if (rc != RON_OK || s->flight == NULL || s->waiting == NULL || s->behind == NULL) {
        led_seq_free(s);
        return RON_NOMEM;
    }
    s->book = opts->take_book;
    *ret_seq = s;
    return RON_OK;
}

static size_t kept(const struct led_seq *s)
{
    return (size_t)(s->waiting_head - s->waiting_tail + s->behind_head - s->behind_tail);
}

static struct led_work *pop_waiting(struct led_seq *s)
{
    return s->waiting[s->waiting_tail++ & (s->kept_cap - 1)];
}

static struct led_work *pop_behind(struct led_seq *s)
{
    return s->behind[s->behind_tail++ & (s->kept_cap - 1)].work;
}

static void refuse_kept(struct led_seq *s, enum led_reason reason, const char *detail)
{
    while (kept(s) > 0) {
        struct led_work *w = s->behind_head != s->behind_tail ? pop_behind(s) : pop_waiting(s);

        w->fate = LED_FATE_DONE;
        led_work_refuse(w, reason, "", detail);
        led_work_done(w);
    }
}

void led_seq_free(struct led_seq *s)
{
    if (s == NULL) {
        return;
    }
    if (s->waiting != NULL && s->behind != NULL) {
        led_seq_end(s);
    }
    led_recent_done(&s->recent);
    led_book_free(s->book);
    ron_free(s->flight);
    ron_free(s->waiting);
    ron_free(s->behind);
    ron_free(s);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void note_order(struct led_work *w, struct order *ret)
{
    struct ron_str id = w->batch.count > 0 ? w->batch.entries[0].id : w->batch.idem_id;
    uint8_t first[8] = {0};

    memcpy(first, id.ptr, RON_MIN(id.len, sizeof first));
    /* A tombstone has no time: it stands before the entries of its window. */
    ret->ts_ms = w->batch.count > 0 ? w->batch.entries[0].ts_ms : 0;
    ret->prefix = 0;
    for (size_t i = 0; i < sizeof first; i++) {
        ret->prefix = ret->prefix << 8 | first[i];
    }
    ret->id = id;
    ret->work = w;
}

static bool is_before(const struct order *x, const struct order *y)
{
    int texts;

    if (x->ts_ms != y->ts_ms) {
        return x->ts_ms < y->ts_ms;
    }
    if (x->prefix != y->prefix) {
        return x->prefix < y->prefix;
    }
    texts = memcmp(x->id.ptr, y->id.ptr, RON_MIN(x->id.len, y->id.len));
    return texts != 0 ? texts < 0 : x->id.len < y->id.len;
}

/* By insertion: stable, and works come nearly in order of time. 256 in reverse take 0.1 ms. */
static void sort_window(struct led_seq *s, struct led_work **works, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct order key;
        size_t at = i;

        note_order(works[i], &key);
        while (at > 0 && is_before(&key, &s->order[at - 1])) {
            s->order[at] = s->order[at - 1];
            at--;
        }
        s->order[at] = key;
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool has_idem(const struct led_work *w)
{
    return w->batch.idem_id.len != 0;
}

static bool cancel_in_flight(const struct led_seq *s, uint64_t key)
{
    for (uint64_t i = s->durable; i != s->given; i++) {
        const struct flight *f = &s->flight[i % LED_FLIGHT_MAX];

        if (f->is_cancel && f->cancel == key) {
            return true;
        }
    }
    return false;
}

/* The seq of a tombstone is that of the next entry, so it does not tell whether it is durable. */
static bool in_flight(const struct led_seq *s, uint64_t key, struct led_hit hit)
{
    return hit.seq > s->durable_seq && (!hit.tombstone || cancel_in_flight(s, key));
}

static void take_smaller(struct led_hit hit, uint64_t key, struct led_hit *best, uint64_t *best_key)
{
    if (hit.seq != 0 && (best->seq == 0 || hit.seq < best->seq)) {
        *best = hit;
        *best_key = key;
    }
}

/* The smallest seq above checked_seq at which one of the work's keys was added. */
static struct led_hit find_keys(const struct led_seq *s, const struct led_work *w,
                                uint64_t *ret_key)
{
    struct led_hit best = {0};
    size_t count = w->batch.count;

    if (has_idem(w)) {
        take_smaller(led_recent_find(&s->recent, w->idem.a, w->checked_seq), w->idem.a, &best,
                     ret_key);
    }
    for (size_t from = 0; from < count; from += LOOK_AHEAD) {
        size_t to = RON_MIN(from + LOOK_AHEAD, count);

        for (size_t i = to; i < RON_MIN(to + LOOK_AHEAD, count); i++) {
            led_recent_prefetch(&s->recent, w->preps[i].id.a, w->checked_seq);
        }
        for (size_t i = from; i < to; i++) {
            uint64_t key = w->preps[i].id.a;

            take_smaller(led_recent_find_id(&s->recent, key, w->checked_seq), key, &best, ret_key);
        }
    }
    return best;
}

static void remember_keys(struct led_seq *s, const struct led_work *w)
{
    bool tombstone = w->kind == LED_WORK_CANCEL;

    if (has_idem(w)) {
        led_recent_add(&s->recent, w->idem.a, w->seq_first, tombstone);
    }
    for (size_t i = 0; i < w->batch.count; i++) {
        led_recent_add(&s->recent, w->preps[i].id.a, w->seq_first + i, false);
    }
}

enum ron_rc led_seq_remember(struct led_seq *s, struct led_key key, uint64_t seq, bool tombstone)
{
    RON_TRY(led_recent_reserve(&s->recent, 1, seq));
    led_recent_add(&s->recent, key.a, seq, tombstone);
    return RON_OK;
}

void led_seq_forget_oldest(struct led_seq *s)
{
    led_recent_forget_oldest(&s->recent);
}

void led_seq_replayed(struct led_seq *s, uint64_t seq, uint64_t now_ms)
{
    RON_ASSERT(s->given == s->durable && seq >= s->last_seq);
    s->last_seq = seq;
    s->durable_seq = seq;
    s->now_ms = RON_MAX(s->now_ms, now_ms);
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* What became of a work; the fates, and why it is kept. */
enum verdict { DECIDED, NO_ROOM, BEHIND };

static enum verdict end_work(struct led_work *w, enum led_result result)
{
    w->result = (uint8_t)result;
    w->fate = LED_FATE_DONE;
    return DECIDED;
}

static enum verdict refuse(struct led_work *w, enum led_reason reason, const char *member,
                           const char *detail)
{
    led_work_refuse(w, reason, member, detail);
    return end_work(w, LED_RESULT_REFUSED);
}

static void give_out(struct led_seq *s, struct led_work *w)
{
    w->seq_last = w->seq_first + w->batch.count - 1;
    s->last_seq = w->seq_last;
    s->flight[s->given++ % LED_FLIGHT_MAX] = (struct flight){
        .seq_last = w->seq_last,
        .cancel = w->idem.a,
        .is_cancel = w->kind == LED_WORK_CANCEL,
    };
    s->room--;
    remember_keys(s, w);
    w->fate = LED_FATE_COMMIT;
}

static enum verdict apply_work(struct led_seq *s, struct led_work *w)
{
    struct led_outcome outcome;
    enum ron_rc rc = led_book_apply(s->book,
                                    &(struct led_apply){
                                        .entries = w->batch.entries,
                                        .preps = w->preps,
                                        .count = w->batch.count,
                                        .originals = w->originals,
                                        .now_ms = s->now_ms,
                                        .seq_first = w->seq_first,
                                        .flags = w->flags,
                                        .ret_links = w->links,
                                    },
                                    &outcome);

    if (rc == RON_FULL && led_book_pending(s->book) > 0) {
        return NO_ROOM;
    }
    if (rc == RON_LIMIT || rc == RON_FULL) {
        return refuse(w, LED_REASON_TOO_LARGE, "batch", "no such number of entries");
    }
    if (rc != RON_OK) {
        return refuse(w, LED_REASON_BUSY, "", "memory could not be obtained");
    }
    if (!outcome.accepted) {
        led_work_refuse_with(w, &outcome.refusal);
        return end_work(w, LED_RESULT_REFUSED);
    }
    if ((w->flags & LED_APPLY_DRY_RUN) != 0) {
        w->seq_first = 0;
        return end_work(w, LED_RESULT_DRY_RUN);
    }
    give_out(s, w);
    return DECIDED;
}

/* A work whose keys are new. */
static enum verdict decide_new(struct led_seq *s, struct led_work *w)
{
    bool dry_run = (w->flags & LED_APPLY_DRY_RUN) != 0;
    enum ron_rc rc;

    w->seq_first = s->last_seq + 1;
    w->now_ms = s->now_ms;
    if (w->kind == LED_WORK_CANCEL && dry_run) {
        return end_work(w, LED_RESULT_DRY_RUN);
    }
    if (!dry_run) {
        if (s->room == 0 || s->given - s->durable == LED_FLIGHT_MAX) {
            return NO_ROOM;
        }
        if (w->batch.count >= LED_RECENT_RESERVE_MAX) {
            return refuse(w, LED_REASON_TOO_LARGE, "batch", "no such number of entries");
        }
        rc = led_recent_reserve(&s->recent, w->batch.count + 1, w->seq_first + w->batch.count);
        if (rc == RON_FULL) {
            return NO_ROOM;
        }
        if (rc != RON_OK) {
            return refuse(w, LED_REASON_BUSY, "", "memory could not be obtained");
        }
    }
    if (w->kind == LED_WORK_CANCEL) {
        give_out(s, w);
        return DECIDED;
    }
    return apply_work(s, w);
}

static enum verdict decide(struct led_seq *s, struct led_work *w)
{
    struct led_hit hit = {0};
    uint64_t key = 0;

    RON_CHECK_MAGIC(w, LED_WORK_MAGIC);
    w->found_seq = 0;
    if (w->checked_seq < led_recent_floor(&s->recent)) {
        w->fate = LED_FATE_LOOK_UP;
        return DECIDED;
    }
    hit = find_keys(s, w, &key);
    if (hit.seq == 0) {
        return decide_new(s, w);
    }
    if (in_flight(s, key, hit)) {
        return BEHIND;
    }
    w->found_seq = hit.seq;
    w->fate = LED_FATE_LOOK_UP;
    return DECIDED;
}

/* Keeps the work, or ends it when there is no place for it. */
static enum verdict keep(struct led_seq *s, struct led_work *w, enum verdict why)
{
    if (kept(s) >= s->opts.kept_max) {
        w->no_room = why == NO_ROOM;
        return refuse(w, LED_REASON_BUSY, "", "too many works are waiting");
    }
    w->fate = LED_FATE_KEPT;
    if (why == NO_ROOM) {
        s->waiting[s->waiting_head++ & (s->kept_cap - 1)] = w;
    } else {
        s->behind[s->behind_head++ & (s->kept_cap - 1)] =
            (struct behind){.work = w, .awaits = s->given};
    }
    return why;
}

/* ---- the ledger's own entries ---------------------------------------------------------------- */

static struct ron_str copy_text(struct ron_arena *arena, struct ron_str text)
{
    return (struct ron_str){ron_arena_dup(arena, text.ptr, text.len), text.len};
}

/* Everything that the later stages read lies in the work: the book is the sequencer's alone. */
static bool fill_expiry(const struct led_seq *s, struct led_work *w, const struct led_expiry *x)
{
    struct led_entry *e = RON_ARENA_NEW(&w->arena, struct led_entry);
    size_t size = led_entry_size(&x->entry);
    uint8_t *leaf = ron_arena_alloc(&w->arena, size, 1);

    w->leaves = RON_ARENA_NEW(&w->arena, struct ron_str);
    w->hashes = RON_ARENA_NEW(&w->arena, struct ron_tree_hash);
    w->preps = RON_ARENA_NEW(&w->arena, struct led_prep);
    w->links = RON_ARENA_NEW(&w->arena, struct led_links);
    if (ron_arena_overflowed(&w->arena)) {
        return false;
    }
    *e = x->entry;
    e->id = copy_text(&w->arena, x->entry.id);
    e->account = copy_text(&w->arena, x->entry.account);
    e->asset = copy_text(&w->arena, x->entry.asset);
    e->ref = copy_text(&w->arena, x->entry.ref);
    if (ron_arena_overflowed(&w->arena)) {
        return false;
    }
    (void)led_entry_encode(e, leaf);
    *w->leaves = (struct ron_str){(const char *)leaf, size};
    ron_tree_hash_leaf(leaf, size, w->hashes);
    *w->preps = (struct led_prep){0};
    led_book_prepare(s->opts.hash_key, e, w->preps);
    w->kind = LED_WORK_EXPIRE;
    w->batch = (struct led_batch){.entries = e, .count = 1};
    w->checked_seq = s->last_seq;
    return true;
}

/* Makes the expiries that are due; how many came out. */
static size_t expire(struct led_seq *s, struct led_work **ret_works)
{
    struct led_expiry x;
    size_t made = 0;

    while (made < LED_EXPIRE_MAX && s->room > 0 && s->opts.own_work != NULL &&
           led_book_next_expiry(s->book, s->now_ms, &x)) {
        struct led_work *w = s->opts.own_work(s->opts.arg);

        if (w == NULL) {
            break;
        }
        if (!fill_expiry(s, w, &x)) {
            (void)refuse(w, LED_REASON_INTERNAL, "", "the arena of an own work is too small");
        } else if (decide_new(s, w) == NO_ROOM) {
            (void)refuse(w, LED_REASON_BUSY, "", "no room for an expiry");
        }
        ret_works[made++] = w;
        if (w->fate == LED_FATE_COMMIT) {
            continue;
        }
        if (w->refusals.items[0].reason == LED_REASON_BUSY) {
            break; /* The hold is still the next one; the next window tries again. */
        }
        /* Its own fault, such as an entry of an old import that has its nonce. Others do not wait
         * for it. */
        led_book_put_off_expiry(s->book, s->now_ms + LED_EXPIRE_AGAIN_MS);
    }
    return made;
}

/* ---- the window ------------------------------------------------------------------------------ */

/* Works of before: those whose predecessor is durable, then those that had no room. */
static size_t take_kept(struct led_seq *s, struct led_work **ret_works, size_t max)
{
    size_t made = 0;

    while (made < max && s->behind_tail != s->behind_head &&
           s->behind[s->behind_tail & (s->kept_cap - 1)].awaits <= s->durable) {
        struct led_work *w = pop_behind(s);
        enum verdict verdict = decide(s, w);

        if (verdict == DECIDED || keep(s, w, verdict) == DECIDED) {
            ret_works[made++] = w;
        }
    }
    while (made < max && s->room > 0 && s->waiting_tail != s->waiting_head) {
        struct led_work *w = s->waiting[s->waiting_tail & (s->kept_cap - 1)];
        enum verdict verdict = decide(s, w);

        if (verdict == NO_ROOM) {
            break;
        }
        (void)pop_waiting(s);
        if (verdict == DECIDED || keep(s, w, verdict) == DECIDED) {
            ret_works[made++] = w;
        }
    }
    return made;
}

size_t led_seq_window(struct led_seq *s, struct led_work **works, size_t count, uint64_t now_ms,
                      uint32_t room, struct led_work *ret_works[2 * LED_WINDOW_MAX])
{
    size_t made;

    RON_ASSERT(count <= LED_WINDOW_MAX);
    s->room = room;
    s->now_ms = RON_MAX(s->now_ms, now_ms);
    sort_window(s, works, count);
    for (size_t i = 0; i < count; i++) {
        const struct led_work *w = s->order[i].work;

        if (w->batch.count > 0) {
            led_recent_prefetch(&s->recent, w->preps[0].id.a, w->checked_seq);
        }
    }
    made = expire(s, ret_works);
    made += take_kept(s, ret_works + made, 2 * (size_t)LED_WINDOW_MAX - count - made);
    for (size_t i = 0; i < count; i++) {
        struct led_work *w = s->order[i].work;
        bool overtakes = s->waiting_tail != s->waiting_head;
        enum verdict verdict = overtakes ? NO_ROOM : decide(s, w);

        if (verdict == DECIDED || keep(s, w, verdict) == DECIDED) {
            ret_works[made++] = w;
        }
    }
    return made;
}

size_t led_seq_waiting(const struct led_seq *s)
{
    return kept(s);
}

size_t led_seq_in_flight(const struct led_seq *s)
{
    return (size_t)(s->given - s->durable);
}

void led_seq_end(struct led_seq *s)
{
    refuse_kept(s, LED_REASON_DRAINING, "the ledger is shutting down");
}

uint64_t led_seq_next_expiry_ms(const struct led_seq *s)
{
    return led_book_next_expiry_ms(s->book);
}

/* ---- what became of the works in flight ------------------------------------------------------ */

void led_seq_committed(struct led_seq *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct flight *f = &s->flight[s->durable % LED_FLIGHT_MAX];

        RON_ASSERT_MSG(s->durable != s->given, "more works are durable than were given out");
        if (!f->is_cancel) {
            uint64_t seq = led_book_commit(s->book);

            RON_ASSERT_MSG(seq == f->seq_last, "the book commits another batch");
        }
        s->durable_seq = f->seq_last;
        s->durable++;
    }
}

void led_seq_abort(struct led_seq *s)
{
    led_book_abort(s->book);
    led_recent_cut(&s->recent, s->durable_seq);
    while (s->durable != s->given) {
        const struct flight *f = &s->flight[s->durable++ % LED_FLIGHT_MAX];

        if (f->is_cancel) {
            led_recent_forget_tombstone(&s->recent, f->cancel, s->durable_seq + 1);
        }
    }
    s->last_seq = s->durable_seq;
    refuse_kept(s, LED_REASON_SAFE_MODE, "writes are stopped");
}

void led_seq_indexed(struct led_seq *s, uint64_t seq)
{
    led_recent_indexed(&s->recent, seq);
}

/* ---- reading --------------------------------------------------------------------------------- */

const struct led_book *led_seq_book(const struct led_seq *s)
{
    return s->book;
}

struct led_book *led_seq_book_mut(struct led_seq *s)
{
    return s->book;
}

uint64_t led_seq_last(const struct led_seq *s)
{
    return s->last_seq;
}

uint64_t led_seq_durable(const struct led_seq *s)
{
    return s->durable_seq;
}

enum led_known led_seq_find(const struct led_seq *s, struct led_key key, uint64_t *ret_seq)
{
    struct led_hit hit = led_recent_find(&s->recent, key.a, 0);

    if (hit.seq == 0) {
        return LED_KNOWN_NOT;
    }
    if (in_flight(s, key.a, hit)) {
        return LED_KNOWN_IN_FLIGHT;
    }
    *ret_seq = hit.seq;
    return LED_KNOWN_COMMITTED;
}

size_t led_seq_candidates(const struct led_seq *s, struct led_key key, uint64_t *ret_seqs,
                          size_t max)
{
    size_t count = 0;
    struct led_hit hit = led_recent_find(&s->recent, key.a, 0);

    while (hit.seq != 0 && count < max) {
        if (!in_flight(s, key.a, hit)) {
            ret_seqs[count++] = hit.seq;
        }
        hit = led_recent_find(&s->recent, key.a, hit.seq);
    }
    return count;
}

bool led_seq_key_in_flight(const struct led_seq *s, struct led_key key)
{
    struct led_hit hit = led_recent_find(&s->recent, key.a, 0);

    while (hit.seq != 0 && !in_flight(s, key.a, hit)) {
        hit = led_recent_find(&s->recent, key.a, hit.seq);
    }
    return hit.seq != 0;
}

enum ron_rc led_seq_find_refs(const struct led_seq *s, struct led_work *w)
{
    size_t count = w->batch.count;
    struct led_candidates *refs =
        ron_arena_alloc_array(&w->arena, count, sizeof *refs, _Alignof(struct led_candidates));

    if (refs == NULL) {
        return RON_LIMIT;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t seqs[LED_SEQ_CANDIDATES_MAX];
        uint64_t *copy;
        size_t found;

        if (w->batch.entries[i].kind != LED_KIND_REVERSE) {
            continue;
        }
        found = led_seq_candidates(s, w->preps[i].ref, seqs, LED_SEQ_CANDIDATES_MAX);
        copy = ron_arena_alloc(&w->arena, found * sizeof seqs[0], _Alignof(uint64_t));
        if (copy == NULL) {
            return RON_LIMIT;
        }
        memcpy(copy, seqs, found * sizeof seqs[0]);
        refs[i] = (struct led_candidates){copy, found};
    }
    w->refs = refs;
    return RON_OK;
}
