/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/table/nonce.c - sets of slots, each a key and one word that changes by compare-and-set.
 *
 * Place: wallet. A word: nonce (44 bits), count (18 bits), state (2 bits).
 *
 *     VACANT --learn: key, then the word--> IDLE --reserve--> RESERVED --settle--> IDLE or VACANT
 *     IDLE --forget, or learn for another account--> VACANT
 *
 * Invariants:
 *   I1. A key is in at most one slot that is not VACANT: only who has the turn of a set writes
 *       keys, after it has seen that the key is not there, and into a slot that it holds VACANT.
 *   I2. RESERVED is changed by the holder of its ticket alone; VACANT by who has the turn alone;
 *       IDLE by anybody.
 *   I3. The count grows with each reservation and each time that IDLE is vacated. So a word
 *       that is the same before and after a look at the key belonged to that key all the time,
 *       and a ticket fits one reservation only. (It would take 2^18 changes during one look to be
 *       deceived, and the nonce would have to come out the same.)
 *   I4. `turn` is odd while somebody has it.
 *
 * Why not ron_map: a reservation takes no lock; it is one compare-and-set of a word. */
#include "wallet/table/nonce.h"

#include "ron/sync/sync.h"
#include "wallet/table/table.h"

enum {
    WAYS = 8, /* slots of a set: 100,000 accounts in 131,072 slots then push out 5 of 100 */
    STATE_BITS = 2,
    COUNT_BITS = 18,
};

enum state { VACANT, IDLE, RESERVED };

struct slot {
    struct ron_au64 word;
    struct ron_au64 a; /* key */
    struct ron_au64 b;
};

struct set {
    struct ron_au64 turn; /* twice the number of turns that are over, plus one during a turn */
    struct slot slots[WAYS];
} RON_ALIGNED_CACHELINE;

_Static_assert(sizeof(struct set) == (size_t)WAYS * 32, "32 bytes a slot");
_Static_assert(WLT_NONCE_TRACKED_MAX == UINT64_MAX >> (STATE_BITS + COUNT_BITS), "nonces fit");

struct wlt_nonces {
    struct set *sets; /* of shard 0, then of shard 1 ... */
    void *raw;
    uint32_t shards;
    uint32_t shard_sets; /* a power of two */
};

static enum state state_of(uint64_t word)
{
    return (enum state)(word & ((1u << STATE_BITS) - 1));
}

static uint64_t nonce_of(uint64_t word)
{
    return word >> (STATE_BITS + COUNT_BITS);
}

/* The count of `word` plus `more`, with another state and nonce. */
static uint64_t word_after(uint64_t word, uint64_t more, enum state state, uint64_t nonce)
{
    uint64_t count = ((word >> STATE_BITS) + more) & ((1u << COUNT_BITS) - 1);

    return nonce << (STATE_BITS + COUNT_BITS) | count << STATE_BITS | (uint64_t)state;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum ron_rc wlt_nonces_new(uint32_t shards, uint32_t slots, struct wlt_nonces **ret,
                           struct ron_err *err)
{
    struct wlt_nonces *n;

    if (shards < 1 || shards > WLT_SHARDS_MAX || slots > WLT_NONCE_SLOTS_MAX) {
        return ron_err_set(err, RON_INVALID, "nonces: %u slots in %u shards", (unsigned)slots,
                           (unsigned)shards);
    }
    n = ron_alloc_zero(sizeof *n);
    if (n == NULL) {
        return ron_err_set(err, RON_NOMEM, "nonces: out of memory");
    }
    n->shards = shards;
    n->shard_sets = wlt__power_of_two((wlt__per_shard(slots, shards) + WAYS - 1) / WAYS);
    n->sets = wlt__lines((size_t)n->shards * n->shard_sets, sizeof *n->sets, &n->raw);
    if (n->sets == NULL) {
        ron_free(n);
        return ron_err_set(err, RON_NOMEM, "nonces: out of memory for %u slots", (unsigned)slots);
    }
    *ret = n;
    return RON_OK;
}

void wlt_nonces_free(struct wlt_nonces *n)
{
    if (n != NULL) {
        ron_free(n->raw);
        ron_free(n);
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

static struct set *set_of(const struct wlt_nonces *n, struct wlt_key key)
{
    size_t shard = wlt__shard_of(key, n->shards);

    return &n->sets[shard * n->shard_sets + (key.b & (n->shard_sets - 1))];
}

/* Whether the slot was the key's at one moment, with *ret_word. */
static bool slot_is(const struct slot *slot, struct wlt_key key, uint64_t *ret_word)
{
    uint64_t word = ron_au64_load(&slot->word);

    while (state_of(word) != VACANT && ron_au64_load(&slot->a) == key.a &&
           ron_au64_load(&slot->b) == key.b) {
        uint64_t again = ron_au64_load(&slot->word);

        if (again == word) { /* I3 */
            *ret_word = word;
            return true;
        }
        word = again;
    }
    return false;
}

static struct slot *find(struct set *set, struct wlt_key key, uint64_t *ret_word)
{
    for (uint32_t i = 0; i < WAYS; i++) {
        if (slot_is(&set->slots[i], key, ret_word)) {
            return &set->slots[i];
        }
    }
    return NULL;
}

/* Whether a newcomer could have a slot. */
static bool has_room(const struct set *set)
{
    for (uint32_t i = 0; i < WAYS; i++) {
        if (state_of(ron_au64_load(&set->slots[i].word)) != RESERVED) {
            return true;
        }
    }
    return false;
}

/* ---- reservations ---------------------------------------------------------------------------- */

enum wlt_nonce_verdict wlt_nonce_reserve(struct wlt_nonces *n, struct wlt_key account,
                                         uint64_t nonce, struct wlt_nonce_ticket *ret_ticket,
                                         uint64_t *ret_expected)
{
    struct set *set = set_of(n, account);
    uint64_t word = 0;
    uint64_t reserved;
    struct slot *slot;

    do {
        slot = nonce <= WLT_NONCE_TRACKED_MAX ? find(set, account, &word) : NULL;
        if (slot == NULL) {
            if (nonce <= WLT_NONCE_TRACKED_MAX && has_room(set)) {
                return WLT_NONCE_ASK;
            }
            *ret_ticket = (struct wlt_nonce_ticket){0};
            return WLT_NONCE_UNTRACKED;
        }
        if (state_of(word) == RESERVED) {
            return WLT_NONCE_PENDING;
        }
        if (nonce != nonce_of(word) + 1) {
            *ret_expected = nonce_of(word) + 1;
            return WLT_NONCE_WRONG;
        }
        reserved = word_after(word, 1, RESERVED, nonce);
    } while (!ron_au64_cas(&slot->word, &word, reserved)); /* lost to another one: look again */
    *ret_ticket = (struct wlt_nonce_ticket){.slot = slot, .word = reserved};
    return WLT_NONCE_RESERVED;
}

void wlt_nonce_settle(struct wlt_nonces *n, struct wlt_nonce_ticket ticket, enum wlt_settle how)
{
    struct slot *slot = ticket.slot;
    uint64_t last = nonce_of(ticket.word) - (how == WLT_REFUSED ? 1 : 0);
    uint64_t settled = word_after(ticket.word, 0, how == WLT_UNKNOWN ? VACANT : IDLE, last);

    (void)n;
    if (slot != NULL) {
        (void)ron_au64_cas(&slot->word, &ticket.word, settled); /* N4 */
    }
}

void wlt_nonce_forget(struct wlt_nonces *n, struct wlt_key account)
{
    struct set *set = set_of(n, account);
    uint64_t word = 0;
    struct slot *slot;

    do {
        slot = find(set, account, &word);
    } while (slot != NULL && state_of(word) == IDLE &&
             !ron_au64_cas(&slot->word, &word, word_after(word, 1, VACANT, 0)));
}

void wlt_nonce_forget_all(struct wlt_nonces *n)
{
    size_t sets = (size_t)n->shards * n->shard_sets;

    for (size_t i = 0; i < sets * WAYS; i++) {
        struct slot *slot = &n->sets[i / WAYS].slots[i % WAYS];
        uint64_t word = ron_au64_load(&slot->word);

        while (state_of(word) == IDLE &&
               !ron_au64_cas(&slot->word, &word, word_after(word, 1, VACANT, 0))) {
        }
    }
}

/* ---- newcomers ------------------------------------------------------------------------------- */

/* A slot for a newcomer, VACANT and ours: one that is vacant, else one that is not reserved, from
 * number `hand` on, so that each is spared in its turn. NULL: all are reserved. */
static struct slot *make_room(struct set *set, uint64_t hand)
{
    for (uint32_t i = 0; i < WAYS; i++) {
        if (state_of(ron_au64_load(&set->slots[i].word)) == VACANT) {
            return &set->slots[i];
        }
    }
    for (uint32_t i = 0; i < WAYS; i++) {
        struct slot *slot = &set->slots[(hand + i) % WAYS];
        uint64_t word = ron_au64_load(&slot->word);

        while (state_of(word) == IDLE) {
            if (ron_au64_cas(&slot->word, &word, word_after(word, 1, VACANT, 0))) {
                return slot;
            }
        }
        if (state_of(word) == VACANT) { /* meanwhile */
            return slot;
        }
    }
    return NULL;
}

void wlt_nonce_learn(struct wlt_nonces *n, struct wlt_key account, uint64_t last)
{
    struct set *set = set_of(n, account);
    uint64_t turn = ron_au64_load(&set->turn);
    uint64_t word;
    struct slot *slot;

    if (turn % 2 != 0 || !ron_au64_cas(&set->turn, &turn, turn + 1)) {
        return; /* the other one may learn the same; if not, the account is asked for again */
    }
    if (find(set, account, &word) == NULL) {
        slot = make_room(set, turn / 2);
        if (slot != NULL) {
            ron_au64_store(&slot->a, account.a);
            ron_au64_store(&slot->b, account.b);
            /* What is larger can only be refused or untracked, so the largest stands for all. */
            last = RON_MIN(last, WLT_NONCE_TRACKED_MAX);
            ron_au64_store(&slot->word, word_after(ron_au64_load(&slot->word), 0, IDLE, last));
        }
    }
    ron_au64_store(&set->turn, turn + 2);
}
