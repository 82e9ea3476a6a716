/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/cache.c - two tables of blocks and one of tags, in shards with a short lock each.
 *
 * Blocks are in a ron_map per shard. Tags are in a fixed array of 4-way sets instead: a tag is 56
 * bytes without node, pointer or list, and any tag may be forgotten at any time. As map nodes the
 * default 65,536 tags would take 6.5 MiB instead of 3.5 MiB. */
#include "edge/pack/cache.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    SHARDS = 8,           /* a few times the workers of the machines we run on */
    RESERVE = 1024,       /* blocks of a shard: 16 MiB of 2 KiB tiles before a map grows */
    CHANCES_MAX = 64,     /* blocks that the hand may pass at once, so that a lock stays short */
    WAYS = 4,             /* tags that share a set */
    TAG_LOCKS = 16,       /* sets are spread over them */
    TAGS_DEFAULT = 65536, /* 3.5 MiB when all are used */
    TAGS_MAX = 1 << 24,   /* 900 MiB; more would be a mistake */
    /* Above it sendfile costs us no more than copying, and the receiver less: it reads pages that
     * were not written since, not a fresh copy in another core's cache. As for files of http. */
    TILE_ONE_DEFAULT = 16 * 1024,
    BYTES_DEFAULT = 16 << 20,
};

struct shard {
    struct ron_mutex lock;
    struct ron_map map;
};

struct table {
    uint64_t bytes_max;
    struct ron_au64 bytes;
    struct ron_au32 hand; /* the shard whose turn it is to give something up */
    struct ron_stat hits;
    struct shard shards[SHARDS];
};

struct tag_slot {
    struct edg__name name; /* serial 0: free */
    struct ron_b3 tag;
};

struct edg_pack_cache {
    struct table tables[EDG__TABLES];
    uint32_t tile_one_max;
    uint32_t tag_sets; /* a power of two */
    struct tag_slot *tags;
    uint32_t *tag_next; /* of each set: the way that is overwritten next */
    struct ron_mutex tag_locks[TAG_LOCKS];
    struct ron_au64 serials;
    struct ron_stat tag_hits;
    struct ron_stat misses;
    struct ron_stat evicted;
};

/* ---- blocks ---------------------------------------------------------------------------------- */

static uint64_t mix(const struct edg__name *name)
{
    uint64_t h = name->serial * 0x9e3779b97f4a7c15u ^ name->key ^ name->key_len << 40;

    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static struct edg__block *block_of(const struct ron_map_node *node)
{
    return RON_CONTAINER_OF((struct ron_map_node *)(uintptr_t)node, struct edg__block, node);
}

static bool block_equal(const struct ron_map_node *node, const struct ron_map_key *key)
{
    const struct edg__block *b = block_of(node);
    const struct edg__name *name = key->bytes;

    return b->key == name->key && b->serial == name->serial && b->key_len == name->key_len;
}

/* `name` outlives the key. */
static struct ron_map_key key_of(const struct edg__name *name)
{
    return (struct ron_map_key){mix(name), name, sizeof *name};
}

static uint64_t cost(const struct edg__block *b)
{
    return sizeof *b + b->len;
}

struct edg__block *edg__block_new(const struct edg__name *name, size_t len)
{
    struct edg__block *b = ron_alloc(sizeof *b + len);

    if (b != NULL) {
        *b = (struct edg__block){.magic = EDG__BLOCK_MAGIC,
                                 .serial = name->serial,
                                 .key = name->key,
                                 .key_len = name->key_len,
                                 .len = len};
        ron_au32_store(&b->refs, 1);
    }
    return b;
}

void edg__block_unref(struct edg__block *b)
{
    uint32_t had;

    if (b == NULL) {
        return;
    }
    RON_CHECK_MAGIC(b, EDG__BLOCK_MAGIC);
    had = ron_au32_add(&b->refs, UINT32_MAX); /* minus one */
    RON_ASSERT_MSG(had > 0, "C1: a block lives until its last holder");
    if (had == 1) {
        b->magic = 0;
        ron_free(b);
    }
}

/* The map takes the low bits of the hash. */
static struct shard *shard_of(struct table *t, const struct ron_map_key *key)
{
    return &t->shards[(key->hash >> 32) % SHARDS];
}

struct edg__block *edg__cache_get(struct edg_pack_cache *c, enum edg__table table,
                                  const struct edg__name *name)
{
    struct table *t = &c->tables[table];
    struct ron_map_key key = key_of(name);
    struct shard *s = shard_of(t, &key);
    struct ron_map_node *node;
    struct edg__block *b = NULL;

    ron_mutex_lock(&s->lock);
    node = ron_map_find(&s->map, &key);
    if (node != NULL) {
        b = block_of(node);
        b->found = true;
        (void)ron_au32_add(&b->refs, 1);
    }
    ron_mutex_unlock(&s->lock);
    if (b != NULL) {
        ron_stat_add(&t->hits, 1);
    }
    return b;
}

/* Takes the block of which it is the turn out of a shard; NULL when that is empty. */
static struct edg__block *give_up(struct shard *s)
{
    struct edg__block *b = NULL;
    struct ron_map_node *node;

    ron_mutex_lock(&s->lock);
    for (int i = 0; b == NULL && (node = ron_map_oldest(&s->map)) != NULL; i++) {
        if (!block_of(node)->found || i + 1 == CHANCES_MAX) {
            b = block_of(node);
            ron_map_remove(&s->map, node);
        } else {
            block_of(node)->found = false;
            ron_map_touch(&s->map, node, 0);
        }
    }
    ron_mutex_unlock(&s->lock);
    return b;
}

static void shrink(struct edg_pack_cache *c, struct table *t)
{
    uint32_t empty = 0;

    while (ron_au64_load(&t->bytes) > t->bytes_max && empty < SHARDS) {
        struct edg__block *b = give_up(&t->shards[ron_au32_add(&t->hand, 1) % SHARDS]);

        if (b == NULL) {
            empty++; /* the rest is being inserted by others, who shrink it themselves */
            continue;
        }
        empty = 0;
        RON_ASSERT_MSG(ron_au64_load(&t->bytes) >= cost(b), "C2: bytes are counted in and out");
        (void)ron_au64_add(&t->bytes, 0 - cost(b));
        ron_stat_add(&c->evicted, 1);
        edg__block_unref(b);
    }
}

void edg__cache_put(struct edg_pack_cache *c, enum edg__table table, struct edg__block *b)
{
    struct table *t = &c->tables[table];
    struct edg__name name = {.serial = b->serial, .key = b->key, .key_len = b->key_len};
    struct ron_map_key key = key_of(&name);
    struct shard *s = shard_of(t, &key);

    RON_ASSERT(table < EDG__TABLES);
    RON_CHECK_MAGIC(b, EDG__BLOCK_MAGIC);
    if (cost(b) > t->bytes_max / 2) {
        return;
    }
    ron_mutex_lock(&s->lock);
    if (ron_map_find(&s->map, &key) == NULL && ron_map_add(&s->map, &b->node, &key, 0) == RON_OK) {
        (void)ron_au32_add(&b->refs, 1);
        (void)ron_au64_add(&t->bytes, cost(b));
    }
    ron_mutex_unlock(&s->lock);
    shrink(c, t);
}

/* ---- tags ------------------------------------------------------------------------------------ */

bool edg__cache_tag(struct edg_pack_cache *c, const struct edg__name *name, struct ron_b3 *ret_tag)
{
    uint32_t set = (uint32_t)mix(name) & (c->tag_sets - 1);
    const struct tag_slot *slots = &c->tags[(size_t)set * WAYS];
    bool found = false;

    ron_mutex_lock(&c->tag_locks[set % TAG_LOCKS]);
    for (int i = 0; i < WAYS && !found; i++) {
        if (slots[i].name.key == name->key && slots[i].name.serial == name->serial &&
            slots[i].name.key_len == name->key_len) {
            *ret_tag = slots[i].tag;
            found = true;
        }
    }
    ron_mutex_unlock(&c->tag_locks[set % TAG_LOCKS]);
    if (found) {
        ron_stat_add(&c->tag_hits, 1);
    }
    return found;
}

void edg__cache_put_tag(struct edg_pack_cache *c, const struct edg__name *name,
                        const struct ron_b3 *tag)
{
    uint32_t set = (uint32_t)mix(name) & (c->tag_sets - 1);
    struct tag_slot *slots = &c->tags[(size_t)set * WAYS];

    RON_ASSERT_MSG(name->serial != 0, "serial 0 marks a free slot");
    /* The same name twice is harmless: it has the same tag. */
    ron_mutex_lock(&c->tag_locks[set % TAG_LOCKS]);
    slots[c->tag_next[set]++ % WAYS] = (struct tag_slot){.name = *name, .tag = *tag};
    ron_mutex_unlock(&c->tag_locks[set % TAG_LOCKS]);
}

/* ---- the whole ------------------------------------------------------------------------------- */

uint64_t edg__cache_serial(struct edg_pack_cache *c)
{
    return ron_au64_add(&c->serials, 1) + 1;
}

bool edg__cache_takes(const struct edg_pack_cache *c, uint64_t len)
{
    return len <= c->tile_one_max;
}

void edg__cache_missed(struct edg_pack_cache *c)
{
    ron_stat_add(&c->misses, 1);
}

static enum ron_rc table_init(struct table *t, uint64_t bytes_max, const char *name)
{
    /* Bytes bound the blocks of all shards together, so a shard's map has no bound of its own. */
    struct ron_map_opts opts = {
        .entries_max = RON_MAP_ENTRIES_MAX, .reserve = RESERVE, .equal = block_equal};
    enum ron_rc rc = RON_OK;

    t->bytes_max = bytes_max != 0 ? bytes_max : BYTES_DEFAULT;
    for (size_t i = 0; i < SHARDS; i++) {
        ron_mutex_init(&t->shards[i].lock, RON_RANK_LEAF, name);
        rc = rc == RON_OK ? ron_map_init(&t->shards[i].map, &opts, NULL) : rc;
    }
    return rc;
}

static void table_done(struct table *t)
{
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *s = &t->shards[i];

        RON_MAP_FOREACH_SAFE(node, &s->map)
        {
            ron_map_remove(&s->map, node);
            edg__block_unref(block_of(node));
        }
        ron_map_done(&s->map);
        ron_mutex_done(&s->lock);
    }
}

enum ron_rc edg_pack_cache_new(const struct edg_pack_cache_opts *opts,
                               struct edg_pack_cache **ret_cache, struct ron_err *err)
{
    struct edg_pack_cache_opts o = opts != NULL ? *opts : (struct edg_pack_cache_opts){0};
    uint32_t tags = o.tags_max != 0 ? RON_MIN(o.tags_max, (uint32_t)TAGS_MAX) : TAGS_DEFAULT;
    struct edg_pack_cache *c = ron_alloc_zero(sizeof *c);
    enum ron_rc leaves;
    enum ron_rc tiles;

    if (c == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the pack cache");
    }
    c->tag_sets = 1;
    while (c->tag_sets * 2 * WAYS <= tags) {
        c->tag_sets *= 2;
    }
    RON_ASSERT((c->tag_sets & (c->tag_sets - 1)) == 0);
    c->tile_one_max = o.tile_one_max != 0 ? o.tile_one_max : TILE_ONE_DEFAULT;
    c->tags = ron_alloc_array((size_t)c->tag_sets * WAYS, sizeof *c->tags);
    c->tag_next = ron_alloc_array(c->tag_sets, sizeof *c->tag_next);
    leaves = table_init(&c->tables[EDG__LEAVES], o.leaf_bytes_max, "edge leaves");
    tiles = table_init(&c->tables[EDG__TILES], o.tile_bytes_max, "edge tiles");
    for (size_t i = 0; i < TAG_LOCKS; i++) {
        ron_mutex_init(&c->tag_locks[i], RON_RANK_LEAF, "edge tags");
    }
    if (c->tags == NULL || c->tag_next == NULL || leaves != RON_OK || tiles != RON_OK) {
        edg_pack_cache_free(c);
        return ron_err_set(err, RON_NOMEM, "no memory for the pack cache");
    }
    *ret_cache = c;
    return RON_OK;
}

void edg_pack_cache_free(struct edg_pack_cache *c)
{
    if (c == NULL) {
        return;
    }
    table_done(&c->tables[EDG__LEAVES]);
    table_done(&c->tables[EDG__TILES]);
    for (size_t i = 0; i < TAG_LOCKS; i++) {
        ron_mutex_done(&c->tag_locks[i]);
    }
    ron_free(c->tags);
    ron_free(c->tag_next);
    ron_free(c);
}

void edg_pack_cache_counters(const struct edg_pack_cache *c, struct edg_pack_cache_counters *ret)
{
    *ret = (struct edg_pack_cache_counters){
        .tile_hits = ron_stat_get(&c->tables[EDG__TILES].hits),
        .leaf_hits = ron_stat_get(&c->tables[EDG__LEAVES].hits),
        .tag_hits = ron_stat_get(&c->tag_hits),
        .misses = ron_stat_get(&c->misses),
        .evicted = ron_stat_get(&c->evicted),
        .leaf_bytes = ron_au64_load(&c->tables[EDG__LEAVES].bytes),
        .tile_bytes = ron_au64_load(&c->tables[EDG__TILES].bytes),
    };
}
