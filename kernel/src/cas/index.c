/* SPDX-License-Identifier: Apache-2.0 */
/* index.c - which objects there are, who is changing which, and which are open.
 *
 * Place: cas, under everything but the paths. Entries live in pages that never move; a shard is a
 * chained hash table over slot numbers. Invariants and states: cas_priv.h.
 *
 * Threads: each function takes the shard's lock itself unless it says otherwise. Nothing here calls
 * the disk, except that freeing an open object closes its file, after the lock was released.
 * Failure: only the making of an entry can fail.
 *
 * Why not ron_map: an entry is 64 bytes, linked by slot numbers, and an index holds millions of
 * them; with a map node it would be 104 bytes. */
#include <string.h>

#include "cas/cas_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/wide.h"

/* ---- table ----------------------------------------------------------------------------------- */

static enum ron_rc shard_init(struct ron__cas_shard *sh, uint32_t slots_max)
{
    uint32_t buckets = 1;

    while (buckets < slots_max) {
        buckets <<= 1;
    }
    ron_mutex_init(&sh->mu, RON_RANK_CAS, "cas");
    ron_cond_init(&sh->freed);
    ron_list_init(&sh->idle);
    ron_list_init(&sh->grave);
    sh->slots_max = slots_max;
    sh->bucket_mask = buckets - 1;
    /* Zeroed memory of this size costs nothing until it is used. */
    sh->buckets = ron_alloc_array(buckets, sizeof *sh->buckets);
    sh->pages = ron_alloc_array((slots_max + RON__CAS_PAGE - 1) / RON__CAS_PAGE,
                                sizeof(struct ron__cas_entry *));
    return sh->buckets == NULL || sh->pages == NULL ? RON_NOMEM : RON_OK;
}

enum ron_rc ron__cas_index_init(struct ron_cas *s)
{
    uint32_t slots = s->opts.objects_max / s->shard_count;
    enum ron_rc rc = RON_OK;

    for (uint32_t i = 0; i < s->shard_count; i++) {
        enum ron_rc one = shard_init(&s->shards[i], RON_MAX(slots, 1u));

        rc = rc == RON_OK ? one : rc; /* all are initialised, so that done can undo all */
    }
    return rc;
}

static void shard_done(struct ron__cas_shard *sh)
{
    for (uint32_t slot = 0; slot < sh->slots_used; slot++) {
        struct ron__cas_entry *e = ron__cas_at(sh, slot);

        if (e->obj != NULL) {
            if (ron_list_linked(&e->obj->link)) {
                ron_list_remove(&e->obj->link);
            }
            ron__cas_obj_free(e->obj);
        }
    }
    for (uint32_t page = 0; page * RON__CAS_PAGE < sh->slots_used; page++) {
        ron_free(sh->pages[page]);
    }
    ron_free(sh->pages);
    ron_free(sh->buckets);
    ron_cond_done(&sh->freed);
    ron_mutex_done(&sh->mu);
}

void ron__cas_index_done(struct ron_cas *s)
{
    for (uint32_t i = 0; i < s->shard_count; i++) {
        shard_done(&s->shards[i]);
    }
}

/* An id is already a hash, but its writer may have chosen it; the keys make the place secret. */
static uint64_t place_of(const struct ron_cas *s, const struct ron_b3 *id)
{
    uint64_t a;
    uint64_t b;
    ron_u128 product;

    memcpy(&a, id->bytes, sizeof a);
    memcpy(&b, id->bytes + sizeof a, sizeof b);
    product = (ron_u128)(a ^ s->hash_key[0]) * (b ^ s->hash_key[1]);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

struct ron__cas_shard *ron__cas_shard_of(struct ron_cas *s, const struct ron_b3 *id)
{
    return &s->shards[place_of(s, id) & (s->shard_count - 1)];
}

static uint32_t *bucket_of(const struct ron_cas *s, struct ron__cas_shard *sh,
                           const struct ron_b3 *id)
{
    return &sh->buckets[(place_of(s, id) >> 32) & sh->bucket_mask];
}

struct ron__cas_entry *ron__cas_at(const struct ron__cas_shard *sh, uint32_t slot)
{
    return &sh->pages[slot / RON__CAS_PAGE][slot % RON__CAS_PAGE];
}

struct ron__cas_entry *ron__cas_find(struct ron_cas *s, struct ron__cas_shard *sh,
                                     const struct ron_b3 *id)
{
    uint32_t next = *bucket_of(s, sh, id);

    while (next != 0) {
        struct ron__cas_entry *e = ron__cas_at(sh, next - 1);

        if (ron_b3_equal(&e->id, id)) {
            return e;
        }
        next = e->next;
    }
    return NULL;
}

/* A slot that is in no chain. RON_FULL, RON_NOMEM. */
static enum ron_rc slot_take(struct ron__cas_shard *sh, struct ron__cas_entry **ret_entry)
{
    uint32_t slot = sh->slots_used;

    if (sh->free_slot != 0) {
        *ret_entry = ron__cas_at(sh, sh->free_slot - 1);
        sh->free_slot = (*ret_entry)->next;
        return RON_OK;
    }
    if (slot == sh->slots_max) {
        return RON_FULL;
    }
    if (slot % RON__CAS_PAGE == 0) {
        struct ron__cas_entry *page = ron_alloc_array(RON__CAS_PAGE, sizeof *page);

        if (page == NULL) {
            return RON_NOMEM;
        }
        sh->pages[slot / RON__CAS_PAGE] = page;
    }
    sh->slots_used++;
    *ret_entry = ron__cas_at(sh, slot);
    (*ret_entry)->slot = slot;
    return RON_OK;
}

static enum ron_rc insert(struct ron_cas *s, struct ron__cas_shard *sh, const struct ron_b3 *id,
                          struct ron__cas_entry **ret_entry)
{
    uint32_t *bucket = bucket_of(s, sh, id);
    struct ron__cas_entry *e = NULL;

    RON_TRY(slot_take(sh, &e));
    *e = (struct ron__cas_entry){.id = *id, .slot = e->slot, .next = *bucket};
    *bucket = e->slot + 1;
    sh->objects++;
    *ret_entry = e;
    return RON_OK;
}

static void erase(struct ron_cas *s, struct ron__cas_shard *sh, struct ron__cas_entry *e)
{
    uint32_t *at = bucket_of(s, sh, &e->id);

    while (*at != e->slot + 1) {
        RON_ASSERT(*at != 0);
        at = &ron__cas_at(sh, *at - 1)->next;
    }
    *at = e->next;
    e->flags = 0;
    e->next = sh->free_slot;
    sh->free_slot = e->slot + 1;
    sh->objects--;
}

/* ---- claims ---------------------------------------------------------------------------------- */

enum ron_rc ron__cas_claim(struct ron_cas *s, const struct ron_b3 *id, bool create,
                           struct ron__cas_claim *ret_claim, struct ron_err *err)
{
    struct ron__cas_shard *sh = ron__cas_shard_of(s, id);
    struct ron_deadline deadline = {0};
    struct ron__cas_entry *e;
    bool fresh = false;
    bool late = false;
    enum ron_rc rc = RON_OK;

    ron_mutex_lock(&sh->mu);
    while ((e = ron__cas_find(s, sh, id)) != NULL && (e->flags & RON__CAS_BUSY) != 0 && !late) {
        if (deadline.at_ns == 0) {
            deadline = ron_deadline_after_ms(ron_mono_ns(), RON_CAS_WAIT_MS);
        }
        sh->waiters++;
        late = !ron_cond_wait_until(&sh->freed, &sh->mu, deadline);
        sh->waiters--;
    }
    if (e == NULL) {
        fresh = create;
        rc = create ? insert(s, sh, id, &e) : RON_NOTFOUND;
    } else if ((e->flags & RON__CAS_BUSY) != 0) {
        rc = RON_TIMEOUT;
    }
    if (rc == RON_OK) {
        e->flags |= RON__CAS_BUSY; /* keeps I1 */
        *ret_claim =
            (struct ron__cas_claim){.shard = sh, .entry = e, .fresh = fresh, .flags = e->flags};
    }
    ron_mutex_unlock(&sh->mu);
    return rc == RON_OK ? rc : ron_err_set(err, rc, "content store: %s", ron_rc_doc(rc));
}

/* Under the lock: the claim is over. */
static void let_go(struct ron__cas_shard *sh, struct ron__cas_entry *e)
{
    e->flags &= (uint16_t)~RON__CAS_BUSY;
    if (sh->waiters > 0) {
        ron_cond_broadcast(&sh->freed);
    }
}

/* ---- open objects ---------------------------------------------------------------------------- */

static bool is_small(const struct ron_cas_obj *obj)
{
    return obj->size <= RON_CAS_SMALL_MAX;
}

/* Under the lock: parts an object from its entry. Returns it when the caller must free it. */
static struct ron_cas_obj *detach(struct ron__cas_shard *sh, struct ron__cas_entry *e)
{
    struct ron_cas_obj *obj = e->obj;

    if (obj == NULL) {
        return NULL;
    }
    e->obj = NULL;
    obj->entry = NULL;
    if (obj->fd >= 0) {
        sh->open_files--;
    } else if (obj->store->on_disk) {
        sh->cache_bytes -= obj->size;
    }
    if (ron_list_linked(&obj->link)) {
        ron_list_remove(&obj->link);
    }
    return obj->refs == 0 ? obj : NULL;
}

/* Under the lock: takes idle objects out of the cache until it is within its bounds; `take` gets
 * them. */
static void trim(struct ron_cas *s, struct ron__cas_shard *sh, struct ron_list *take)
{
    while (sh->open_files > s->open_max || sh->cache_bytes > s->cache_bytes_max) {
        struct ron_list_node *node = ron_list_front(&sh->idle);
        struct ron_cas_obj *obj;

        if (node == NULL) {
            return; /* all are in use; their release trims again */
        }
        obj = RON_LIST_ENTRY(node, struct ron_cas_obj, link);
        RON_ASSERT(detach(sh, obj->entry) == obj);
        ron_list_push_back(take, &obj->link);
    }
}

static void free_all(struct ron_list *list)
{
    struct ron_list_node *node;

    while ((node = ron_list_pop_front(list)) != NULL) {
        ron__cas_obj_free(RON_LIST_ENTRY(node, struct ron_cas_obj, link));
    }
}

void ron__cas_unclaim(struct ron__cas_claim *c, uint16_t set, uint16_t clear)
{
    struct ron_cas_obj *gone = NULL;

    ron_mutex_lock(&c->shard->mu);
    c->entry->flags = (uint16_t)((c->entry->flags & ~clear) | set);
    if ((c->entry->flags & RON__CAS_READY) == 0) {
        gone = detach(c->shard, c->entry);
    }
    let_go(c->shard, c->entry);
    ron_mutex_unlock(&c->shard->mu);
    c->entry = NULL;
    if (gone != NULL) {
        ron__cas_obj_free(gone);
    }
}

void ron__cas_drop(struct ron_cas *s, struct ron__cas_claim *c, bool counted)
{
    ron_mutex_lock(&c->shard->mu);
    ron__cas_drop_unlock(s, c, counted);
}

void ron__cas_drop_unlock(struct ron_cas *s, struct ron__cas_claim *c, bool counted)
{
    struct ron__cas_shard *sh = c->shard;
    uint64_t size = c->entry->size;
    struct ron_cas_obj *gone = detach(sh, c->entry);

    let_go(sh, c->entry);
    erase(s, sh, c->entry);
    ron_mutex_unlock(&sh->mu);
    c->entry = NULL;
    if (gone != NULL) {
        ron__cas_obj_free(gone);
    }
    if (counted) {
        ron__cas_unreserve(s, size);
    }
}

/* Under the lock: one handle more. */
static void hold(struct ron__cas_shard *sh, struct ron_cas_obj *obj)
{
    if (obj->refs++ == 0) {
        sh->held++;
        if (ron_list_linked(&obj->link)) {
            ron_list_remove(&obj->link);
        }
    }
}

struct ron_cas_obj *ron__cas_hold_open(const struct ron__cas_claim *c)
{
    struct ron_cas_obj *obj;

    ron_mutex_lock(&c->shard->mu);
    obj = c->entry->obj;
    if (obj != NULL) {
        hold(c->shard, obj);
        ron_stat_bump(&c->shard->hits, 1);
    }
    ron_mutex_unlock(&c->shard->mu);
    return obj;
}

void ron__cas_settle(struct ron_cas *s, struct ron__cas_claim *c, struct ron_cas_obj *take_obj,
                     const struct ron__cas_news *news)
{
    struct ron__cas_shard *sh = c->shard;
    struct ron__cas_entry *e = c->entry;
    struct ron_list surplus;

    ron_list_init(&surplus);
    ron_mutex_lock(&sh->mu);
    if (news->replaced) {
        struct ron_cas_obj *old = detach(sh, e);

        if (old != NULL) {
            ron_list_push_back(&surplus, &old->link);
        }
    }
    e->size = news->size;
    e->stamp_s = news->stamp_s;
    e->flags =
        (uint16_t)((e->flags & ~(RON__CAS_BAD | news->clear)) | news->flags | RON__CAS_READY);
    e->pins = (uint16_t)(e->pins + (news->pin && e->pins < RON_CAS_PINS_MAX));
    if (take_obj != NULL) {
        RON_ASSERT(e->obj == NULL);
        e->obj = take_obj;
        take_obj->entry = e;
        hold(sh, take_obj);
        if (take_obj->fd >= 0) {
            sh->open_files++;
        } else if (s->on_disk) {
            sh->cache_bytes += news->size;
        }
        trim(s, sh, &surplus);
    }
    let_go(sh, e);
    ron_mutex_unlock(&sh->mu);
    c->entry = NULL;
    free_all(&surplus);
}

enum ron_rc ron__cas_memory_add(struct ron_cas *s, struct ron_cas_obj *take_obj,
                                const struct ron__cas_news *news)
{
    struct ron__cas_shard *sh = take_obj->shard;
    struct ron__cas_entry *e;
    enum ron_rc rc = RON_EXISTS;

    ron_mutex_lock(&sh->mu);
    e = ron__cas_find(s, sh, &take_obj->id);
    if (e == NULL) {
        rc = insert(s, sh, &take_obj->id, &e);
        if (rc == RON_OK) {
            e->size = news->size;
            e->obj = take_obj;
            take_obj->entry = e;
        }
    }
    if (e != NULL) {
        e->stamp_s = news->stamp_s;
        e->flags |= (uint16_t)(news->flags | RON__CAS_READY | (rc == RON_OK ? 0 : RON__CAS_WARM));
        e->pins = (uint16_t)(e->pins + (news->pin && e->pins < RON_CAS_PINS_MAX));
    }
    ron_mutex_unlock(&sh->mu);
    return rc;
}

void ron_cas_suspect(const struct ron_cas_obj *obj)
{
    struct ron__cas_shard *sh = obj->shard;

    RON_CHECK_MAGIC(obj, RON__CAS_OBJ_MAGIC);
    ron_mutex_lock(&sh->mu);
    RON_ASSERT(obj->refs > 0);
    if (obj->entry != NULL && obj->fd >= 0) {
        obj->entry->flags &= (uint16_t)~RON__CAS_VERIFIED;
        RON_ASSERT(detach(sh, obj->entry) == NULL); /* the caller holds it */
    }
    ron_mutex_unlock(&sh->mu);
}

enum ron_rc ron_cas_get(struct ron_cas *s, const struct ron_b3 *id, struct ron_cas_obj **ret_obj)
{
    struct ron__cas_shard *sh = ron__cas_shard_of(s, id);
    struct ron__cas_entry *e;
    enum ron_rc rc = RON_NOTFOUND;

    ron_mutex_lock(&sh->mu);
    e = ron__cas_find(s, sh, id);
    if (e != NULL && e->obj != NULL && (e->flags & RON__CAS_READY) != 0) {
        hold(sh, e->obj);
        e->stamp_s = (uint32_t)ron_stat_get(&s->now_s);
        e->flags |= RON__CAS_WARM;
        ron_stat_bump(&sh->hits, 1);
        *ret_obj = e->obj;
        rc = RON_OK;
    } else if (e != NULL && (e->flags & (RON__CAS_READY | RON__CAS_BAD)) != 0) {
        rc = RON_AGAIN;
    }
    ron_mutex_unlock(&sh->mu);
    if (rc == RON_NOTFOUND && !ron_cas_loaded(s)) {
        return RON_AGAIN;
    }
    if (rc == RON_NOTFOUND) {
        ron_stat_add(&s->counts.misses, 1);
    }
    return rc;
}

void ron_cas_release(struct ron_cas_obj *obj)
{
    struct ron_list surplus;
    struct ron__cas_shard *sh;

    if (obj == NULL) {
        return;
    }
    RON_CHECK_MAGIC(obj, RON__CAS_OBJ_MAGIC);
    sh = obj->shard;
    ron_list_init(&surplus);
    ron_mutex_lock(&sh->mu);
    RON_ASSERT(obj->refs > 0);
    if (--obj->refs == 0) {
        sh->held--;
        if (obj->entry == NULL && is_small(obj)) {
            ron_list_push_back(&surplus, &obj->link);
        } else if (obj->entry == NULL) {
            /* The last close frees the blocks of a removed file; that and wiping take time. */
            ron_list_push_back(&sh->grave, &obj->link);
            (void)ron_au32_add(&obj->store->graves, 1);
        } else if (obj->store->on_disk) {
            ron_list_push_back(&sh->idle, &obj->link); /* keeps I4 */
            trim(obj->store, sh, &surplus);
        }
    }
    ron_mutex_unlock(&sh->mu);
    free_all(&surplus);
}

void ron__cas_bury(struct ron_cas *s)
{
    if (ron_au32_load(&s->graves) == 0) {
        return;
    }
    for (uint32_t i = 0; i < s->shard_count; i++) {
        struct ron__cas_shard *sh = &s->shards[i];
        struct ron_list dead;

        ron_list_init(&dead);
        ron_mutex_lock(&sh->mu);
        RON_LIST_FOREACH(node, &sh->grave)
        {
            (void)ron_au32_add(&s->graves, UINT32_MAX); /* one less */
        }
        ron_list_splice_back(&dead, &sh->grave);
        ron_mutex_unlock(&sh->mu);
        free_all(&dead);
    }
}

uint32_t ron__cas_now_s(struct ron_cas *s)
{
    uint64_t now_s = ron_env_wall_ms(s->env) / RON_MS_PER_S;

    ron_stat_set(&s->now_s, now_s);
    return (uint32_t)now_s;
}
