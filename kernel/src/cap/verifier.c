/* SPDX-License-Identifier: Apache-2.0 */
/* verifier.c - the table of tokens whose signature was good; the contract is in ron/cap/verifier.h.
 *
 * Place: cap. Sixteen shards, each a table of sets of four entries. A keyed hash of the text's end
 * chooses shard and set; within the set the whole text is compared. Every token ends in its
 * signature, so the end tells tokens apart, and whoever presents the end of another's token knows
 * its signature already: a comparison that stops early tells nothing new. A digest of the whole
 * text instead of the text would cost more than all the rest of a hit (docs/decisions.md).
 *
 * Invariants (per shard, guarded by its lock)
 *   I1 an entry with generation 0 is free; one with another generation than the ring's is as good
 *      as free.
 *   I2 an entry holds the compiled caveats of its text, whose signature was good under the keys of
 *      its generation.
 *   I3 the generation of an entry is the one that was read together with the keys that verified it.
 *      A put in between makes it an old one, so it is never believed (V2).
 *   I4 no text of an old generation enters a set after forget has been there: who remembers looks
 *      at the ring's generation under the shard's lock, and if it takes that lock after forget, it
 *      sees at least the generation that forget saw.
 *
 * Locks: shard, rank LEAF; never together with the ring's. Nothing is called with one held but
 * pure functions.
 *
 * Why not ron_map: a hit reads one set of four entries without following a pointer, and any entry
 * may be forgotten at any time. */
#include "ron/cap/verifier.h"

#include <sodium.h>
#include <string.h>

#include "cap/cap_priv.h"
#include "cap/cap_testing.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"

enum {
    VERIFIER_MAGIC = 0x63617076,
    SHARDS = 16, /* more than workers; the top four bits of the hash */
    WAYS = 4,
    TAIL_BYTES = 48, /* the signature's 44 characters and what stands before */
    /* What an entry keeps. Tokens of ours have 4-8 caveats of 5-60 bytes; larger ones are verified
     * each time. */
    ITEMS_MAX = 16,
    VALUES_MAX = 512,
    TEXT_MAX = 768,
};

struct entry {
    uint64_t hash;
    uint64_t generation; /* I1 */
    uint64_t used;       /* the shard's clock at the last look */
    uint64_t exp_s;
    struct ron_money max;
    uint32_t kinds;
    uint32_t item_count;
    struct ron_cap_item items[ITEMS_MAX];
    struct ron_cap_info info;
    uint32_t text_len;
    char text[TEXT_MAX];
    char values[VALUES_MAX];
};

struct shard {
    struct ron_mutex mu;
    struct entry *entries; /* WAYS for each set */
    uint64_t clock;
    struct ron_stat hits;
    struct ron_stat misses;
    struct ron_stat evicted;
    struct ron_stat dropped;
    struct ron_stat bypassed;
    struct ron_stat live;
} RON_ALIGNED_CACHELINE;

struct ron_cap_verifier {
    uint32_t magic;
    uint32_t set_mask; /* sets per shard, a power of two, minus one */
    struct ron_cap_ring *ring;
    uint8_t hash_key[crypto_shorthash_KEYBYTES];
    size_t entry_count;
    struct entry *entries;
    struct ron_stat reloads; /* by the one thread that reloads */
    struct ron_stat reload_fails;
    struct shard shards[SHARDS];
};

enum ron_rc ron_cap_verifier_new(const struct ron_cap_verifier_opts *opts,
                                 struct ron_cap_verifier **ret_verifier, struct ron_err *err)
{
    uint32_t wanted = opts->entries == 0 ? RON_CAP_CACHE_DEFAULT : opts->entries;
    uint32_t sets = 1;
    struct ron_cap_verifier *v;

    if (wanted > RON_CAP_CACHE_MAX) {
        return ron_err_set(err, RON_LIMIT, "a cache of %u tokens; at most %d", (unsigned)wanted,
                           (int)RON_CAP_CACHE_MAX);
    }
    while (sets * WAYS * SHARDS < wanted) {
        sets <<= 1;
    }
    v = ron_alloc_aligned(RON_CACHELINE, sizeof *v);
    if (v == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the verifier");
    }
    *v = (struct ron_cap_verifier){
        .magic = VERIFIER_MAGIC, .set_mask = sets - 1, .ring = opts->ring};
    v->entry_count = (size_t)sets * WAYS * SHARDS;
    v->entries = ron_alloc_array(v->entry_count, sizeof *v->entries);
    if (v->entries == NULL) {
        ron_free(v);
        return ron_err_set(err, RON_NOMEM, "no memory for a cache of %u tokens", (unsigned)wanted);
    }
    ron__cap_random(opts->env, v->hash_key, sizeof v->hash_key);
    for (size_t i = 0; i < SHARDS; i++) {
        ron_mutex_init(&v->shards[i].mu, RON_RANK_LEAF, "cap.verifier");
        v->shards[i].entries = v->entries + i * sets * WAYS;
    }
    *ret_verifier = v;
    return RON_OK;
}

void ron_cap_verifier_free(struct ron_cap_verifier *v)
{
    if (v == NULL) {
        return;
    }
    RON_CHECK_MAGIC(v, VERIFIER_MAGIC);
    for (size_t i = 0; i < SHARDS; i++) {
        ron_mutex_done(&v->shards[i].mu);
    }
    sodium_memzero(v->entries, v->entry_count * sizeof *v->entries);
    ron_free(v->entries);
    sodium_memzero(v, sizeof *v);
    ron_free(v);
}

/* ---- looking --------------------------------------------------------------------------------- */

struct place {
    struct ron_str text;
    uint64_t hash;
    struct shard *shard;
    struct entry *set; /* of WAYS entries */
};

static void find_place(struct ron_cap_verifier *v, struct ron_str text, struct place *ret_place)
{
    size_t tail = RON_MIN(text.len, (size_t)TAIL_BYTES);
    uint64_t hash;

    _Static_assert(sizeof hash == crypto_shorthash_BYTES, "the hash fills the number");
    /* Fails for no input. */
    (void)crypto_shorthash((uint8_t *)&hash, (const uint8_t *)text.ptr + text.len - tail, tail,
                           v->hash_key);
    ret_place->text = text;
    ret_place->hash = hash;
    ret_place->shard = &v->shards[hash >> 60];
    ret_place->set = ret_place->shard->entries + (size_t)(hash & v->set_mask) * WAYS;
}

static bool is_of(const struct entry *e, const struct place *p, uint64_t generation)
{
    return e->hash == p->hash && e->generation == generation && e->text_len == p->text.len &&
           memcmp(e->text, p->text.ptr, e->text_len) == 0;
}

/* All of it: an entry may be filled by a shorter text next. */
static void wipe(struct entry *e)
{
    sodium_memzero(e, sizeof *e); /* generation 0: free (I1) */
}

static void drop(struct shard *s, struct entry *e)
{
    wipe(e);
    ron_stat_bump(&s->dropped, 1);
    ron_stat_set(&s->live, ron_stat_get(&s->live) - 1);
}

/* What somebody wants to know of a token. */
struct ask {
    const struct ron_cap_request *request;
    uint32_t kinds;                  /* of caveats that are judged here */
    struct ron_cap_info *ret_info;   /* may be NULL */
    struct ron_arena *arena;         /* of the grant; NULL: none is asked for */
    struct ron_cap_grant *ret_grant; /* written when the answer is OK */
};

static enum ron_cap_why judge(const struct ron_cap_grant *grant, const struct ask *ask)
{
    enum ron_cap_why why = ron_cap_grant_allows(grant, ask->kinds, ask->request);

    if (why == RON_CAP_OK && ask->arena != NULL) {
        why = ron__cap_grant_copy(grant, ask->arena, ask->ret_grant);
    }
    return why;
}

/* Judges by the entry of this text, if there is one. */
static bool judge_known(struct place *p, uint64_t generation, const struct ask *ask,
                        enum ron_cap_why *ret_why)
{
    struct shard *s = p->shard;
    bool known = false;

    ron_mutex_lock(&s->mu);
    for (struct entry *e = p->set; e < p->set + WAYS && !known; e++) {
        if (is_of(e, p, generation)) {
            struct ron_cap_grant grant = {.bytes = e->values,
                                          .items = e->items,
                                          .item_count = e->item_count,
                                          .kinds = e->kinds,
                                          .exp_s = e->exp_s,
                                          .max = e->max};

            known = true;
            e->used = ++s->clock;
            if (ask->ret_info != NULL) {
                *ask->ret_info = e->info;
            }
            *ret_why = judge(&grant, ask);
            if (*ret_why == RON_CAP_EXPIRED) {
                drop(s, e);
            }
        }
    }
    ron_stat_bump(known ? &s->hits : &s->misses, 1);
    ron_mutex_unlock(&s->mu);
    return known;
}

/* ---- remembering ----------------------------------------------------------------------------- */

/* A free entry, one of an older generation, or the one that was not used for longest. An entry of
 * the same text (two threads missed together) is written again. */
static struct entry *choose(struct place *p, uint64_t generation)
{
    struct entry *best = p->set;

    for (struct entry *e = p->set; e < p->set + WAYS; e++) {
        if (is_of(e, p, generation)) {
            return e;
        }
    }
    for (struct entry *e = p->set; e < p->set + WAYS; e++) {
        if (e->generation != generation) {
            return e;
        }
        best = e->used < best->used ? e : best;
    }
    return best;
}

static void fill(struct entry *e, const struct ron_cap_grant *grant)
{
    size_t at = 0;

    for (size_t i = 0; i < grant->item_count; i++) {
        struct ron_cap_item item = grant->items[i];

        memcpy(e->values + at, grant->bytes + item.at, item.len);
        item.at = (uint16_t)at;
        e->items[i] = item;
        at += item.len;
    }
    e->item_count = grant->item_count;
    e->kinds = grant->kinds;
    e->exp_s = grant->exp_s;
    e->max = grant->max;
}

static bool fits(const struct ron_cap_grant *grant, struct ron_str text)
{
    size_t bytes = 0;

    for (size_t i = 0; i < grant->item_count; i++) {
        bytes += grant->items[i].len;
    }
    return grant->item_count <= ITEMS_MAX && bytes <= VALUES_MAX && text.len <= TEXT_MAX;
}

static void remember(const struct ron_cap_verifier *v, struct place *p, uint64_t generation,
                     const struct ron_cap_grant *grant, const struct ron_cap_info *info)
{
    struct shard *s = p->shard;
    bool fit = fits(grant, p->text);
    struct entry *e;

    ron_mutex_lock(&s->mu);
    if (!fit) {
        ron_stat_bump(&s->bypassed, 1);
    }
    if (!fit || ron_au64_load(&v->ring->generation) != generation) { /* I4 */
        ron_mutex_unlock(&s->mu);
        return;
    }
    e = choose(p, generation);
    if (e->generation == 0) {
        ron_stat_bump(&s->live, 1);
    } else if (!is_of(e, p, generation)) {
        ron_stat_bump(e->generation == generation ? &s->evicted : &s->dropped, 1);
    }
    wipe(e);
    e->hash = p->hash;
    e->text_len = (uint32_t)p->text.len;
    memcpy(e->text, p->text.ptr, p->text.len);
    e->generation = generation;
    e->used = ++s->clock;
    e->info = *info;
    fill(e, grant);
    ron_mutex_unlock(&s->mu);
}

/* The long way: reads the token, checks its chain, remembers it. */
static enum ron_cap_why judge_unknown(struct ron_cap_verifier *v, struct place *p,
                                      struct ron_str text, const struct ask *ask)
{
    struct ron_cap_token t;
    struct ron_cap_item items[RON_CAP_CAVEATS_MAX];
    struct ron_cap_grant grant;
    struct ron_cap_info info;
    struct ron_cap_keys *keys;
    uint64_t generation = 0;
    enum ron_cap_why why = ron_cap_token_read(text.ptr, text.len, &t);

    if (why != RON_CAP_OK) {
        return why;
    }
    keys = ron_cap_ring_get(v->ring, &generation); /* I3 */
    why = ron__cap_check_chain(keys, &t);
    ron_cap_keys_unref(keys);
    if (why != RON_CAP_OK) {
        return why;
    }
    ron__cap_fill_info(&t, text, &info);
    why = ron__cap_compile(&t, items, &grant);
    if (why == RON_CAP_OK) {
        info.exp_s = grant.exp_s;
        why = judge(&grant, ask);
        if (why != RON_CAP_EXPIRED) {
            remember(v, p, generation, &grant, &info);
        }
    }
    if (ask->ret_info != NULL) {
        *ask->ret_info = info;
    }
    return why;
}

static enum ron_cap_why answer(struct ron_cap_verifier *v, struct ron_str token,
                               const struct ask *ask)
{
    struct place p;
    enum ron_cap_why why = RON_CAP_OK;

    RON_CHECK_MAGIC(v, VERIFIER_MAGIC);
    if (token.len == 0 || token.len > RON_CAP_TEXT_MAX) {
        return token.len == 0 ? RON_CAP_MISSING : RON_CAP_TOO_LARGE;
    }
    find_place(v, token, &p);
    if (judge_known(&p, ron_au64_load(&v->ring->generation), ask, &why)) {
        return why;
    }
    return judge_unknown(v, &p, token, ask);
}

enum ron_cap_why ron_cap_verifier_check(struct ron_cap_verifier *v, struct ron_str token,
                                        const struct ron_cap_request *request,
                                        struct ron_cap_info *ret_info)
{
    return answer(
        v, token,
        &(struct ask){.request = request, .kinds = RON_CAP_KINDS_ALL, .ret_info = ret_info});
}

enum ron_cap_why ron_cap_verifier_open(struct ron_cap_verifier *v, struct ron_str token,
                                       uint64_t now_ms, struct ron_arena *arena,
                                       struct ron_cap_grant *ret_grant,
                                       struct ron_cap_info *ret_info)
{
    struct ron_cap_request when = {.now_ms = now_ms};

    return answer(v, token,
                  &(struct ask){.request = &when,
                                .kinds = RON_CAP_KIND_BIT(RON_CAP_KIND_EXP),
                                .ret_info = ret_info,
                                .arena = arena,
                                .ret_grant = ret_grant});
}

/* ---- forgetting ------------------------------------------------------------------------------ */

static size_t forget_set(struct shard *s, struct entry *set, uint64_t generation, uint64_t now_ms)
{
    size_t count = 0;

    ron_mutex_lock(&s->mu);
    for (struct entry *e = set; e < set + WAYS; e++) {
        /* A newer one may be there: the keys changed again meanwhile. */
        if (e->generation != 0 &&
            (e->generation < generation || !ron__cap_unexpired(e->exp_s, now_ms))) {
            drop(s, e);
            count++;
        }
    }
    ron_mutex_unlock(&s->mu);
    return count;
}

size_t ron_cap_verifier_forget(struct ron_cap_verifier *v, uint64_t now_ms)
{
    uint64_t generation;
    size_t count = 0;

    RON_CHECK_MAGIC(v, VERIFIER_MAGIC);
    generation = ron_au64_load(&v->ring->generation);
    for (size_t i = 0; i < SHARDS; i++) {
        for (size_t set = 0; set <= v->set_mask; set++) {
            count +=
                forget_set(&v->shards[i], v->shards[i].entries + set * WAYS, generation, now_ms);
        }
    }
    return count;
}

enum ron_rc ron_cap_verifier_reload(struct ron_cap_verifier *v, const struct ron_env *env,
                                    const char *path, bool *ret_changed, struct ron_err *err)
{
    bool changed = false;
    enum ron_rc rc;

    RON_CHECK_MAGIC(v, VERIFIER_MAGIC);
    rc = ron_cap_ring_reload(v->ring, env, path, &changed, err);
    ron_stat_bump(rc == RON_OK ? &v->reloads : &v->reload_fails, 1);
    RON_TRY(rc);
    if (changed) {
        (void)ron_cap_verifier_forget(v, ron_env_wall_ms(env));
    }
    if (ret_changed != NULL) {
        *ret_changed = changed;
    }
    return RON_OK;
}

const void *ron__cap_verifier_memory(const struct ron_cap_verifier *v, size_t *ret_size)
{
    RON_CHECK_MAGIC(v, VERIFIER_MAGIC);
    *ret_size = v->entry_count * sizeof *v->entries;
    return v->entries;
}

struct ron_cap_verifier_stats ron_cap_verifier_stats(const struct ron_cap_verifier *v)
{
    struct ron_cap_verifier_stats sum = {0};
    struct ron_cap_keys *keys;

    RON_CHECK_MAGIC(v, VERIFIER_MAGIC);
    keys = ron_cap_ring_get(v->ring, &sum.generation);
    sum.keys = ron_cap_keys_count(keys);
    ron_cap_keys_unref(keys);
    sum.reloads_total = ron_stat_get(&v->reloads);
    sum.reload_fails_total = ron_stat_get(&v->reload_fails);
    for (size_t i = 0; i < SHARDS; i++) {
        const struct shard *s = &v->shards[i];

        sum.hits_total += ron_stat_get(&s->hits);
        sum.misses_total += ron_stat_get(&s->misses);
        sum.evicted_total += ron_stat_get(&s->evicted);
        sum.dropped_total += ron_stat_get(&s->dropped);
        sum.bypassed_total += ron_stat_get(&s->bypassed);
        sum.entries += ron_stat_get(&s->live);
    }
    return sum;
}
