/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - snapshots of root keys and the ring; the contract is in ron/cap/keys.h.
 *
 * Place: cap.
 *
 * Invariants
 *   I1 nothing in a snapshot is written after it was handed out, except `refs`.
 *   I2 `refs` counts the holders; the ring is one of them, so under its lock taking one more is
 *      safe. Whoever takes the last one away wipes the block (K3).
 *   I3 generation and keys change together under the lock. A reader that loads the generation
 *      without the lock sees, by acquire and release, at least what was put before; it compares it
 *      with what it remembered, and an older value only means that its question came first.
 *
 * Locks: the ring's own, rank LEAF. Wiping and freeing happen outside. */
#include <sodium.h>
#include <string.h>

#include "cap/cap_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

bool ron_cap_key_id_valid(struct ron_str id)
{
    if (id.len == 0 || id.len > RON_CAP_KEY_ID_MAX) {
        return false;
    }
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-') {
            return false;
        }
    }
    return true;
}

void ron__cap_random(const struct ron_env *env, void *ret_bytes, size_t len)
{
    uint8_t *bytes = ret_bytes;

    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        uint64_t word = env->rand_u64(env);

        memcpy(bytes + i, &word, RON_MIN(len - i, sizeof word));
        sodium_memzero(&word, sizeof word);
    }
}

/* ---- snapshot -------------------------------------------------------------------------------- */

struct ron_cap_keys *ron__cap_keys_new(struct ron_err *err)
{
    struct ron_cap_keys *keys = ron_alloc_zero(sizeof *keys);

    if (keys == NULL) {
        ron_err_set(err, RON_NOMEM, "no memory for the keys");
        return NULL;
    }
    keys->magic = CAP_KEYS_MAGIC;
    ron_au32_store(&keys->refs, 1);
    return keys;
}

struct ron_cap_keys *ron_cap_keys_ref(struct ron_cap_keys *keys)
{
    RON_CHECK_MAGIC(keys, CAP_KEYS_MAGIC);
    uint32_t before = ron_au32_add(&keys->refs, 1);

    RON_ASSERT_MSG(before > 0, "I2: a reference to released keys");
    return keys;
}

void ron_cap_keys_unref(struct ron_cap_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    RON_CHECK_MAGIC(keys, CAP_KEYS_MAGIC);
    uint32_t before = ron_au32_add(&keys->refs, UINT32_MAX); /* minus one */

    RON_ASSERT_MSG(before > 0, "I2: released more often than taken");
    if (before == 1) {
        sodium_memzero(keys, sizeof *keys);
        ron_free(keys);
    }
}

size_t ron_cap_keys_count(const struct ron_cap_keys *keys)
{
    RON_CHECK_MAGIC(keys, CAP_KEYS_MAGIC);
    return keys->count;
}

struct ron_cap_key_info ron_cap_keys_info(const struct ron_cap_keys *keys, size_t index)
{
    RON_CHECK_MAGIC(keys, CAP_KEYS_MAGIC);
    RON_ASSERT(index < keys->count);
    return keys->keys[index].info;
}

const struct cap_key *ron__cap_keys_find(const struct ron_cap_keys *keys, struct ron_str id)
{
    RON_CHECK_MAGIC(keys, CAP_KEYS_MAGIC);
    for (size_t i = 0; i < keys->count; i++) {
        if (ron_str_is(id, keys->keys[i].info.id)) {
            return &keys->keys[i];
        }
    }
    return NULL;
}

static bool same_keys(const struct ron_cap_keys *a, const struct ron_cap_keys *b)
{
    bool same = a->count == b->count;

    for (size_t i = 0; same && i < a->count; i++) {
        same = strcmp(a->keys[i].info.id, b->keys[i].info.id) == 0 &&
               sodium_memcmp(a->keys[i].root, b->keys[i].root, RON_CAP_SIG_BYTES) == 0;
    }
    return same;
}

/* ---- ring ------------------------------------------------------------------------------------ */

void ron_cap_ring_init(struct ron_cap_ring *ring, struct ron_cap_keys *take_keys)
{
    RON_CHECK_MAGIC(take_keys, CAP_KEYS_MAGIC);
    ron_mutex_init(&ring->lock, RON_RANK_LEAF, "cap.ring");
    ring->keys = take_keys;
    ron_au64_store(&ring->generation, 1);
}

void ron_cap_ring_done(struct ron_cap_ring *ring)
{
    ron_cap_keys_unref(ring->keys);
    ring->keys = NULL;
    ron_mutex_done(&ring->lock);
}

struct ron_cap_keys *ron_cap_ring_get(struct ron_cap_ring *ring, uint64_t *ret_generation)
{
    struct ron_cap_keys *keys;

    ron_mutex_lock(&ring->lock);
    keys = ron_cap_keys_ref(ring->keys);
    if (ret_generation != NULL) {
        *ret_generation = ron_au64_load(&ring->generation);
    }
    ron_mutex_unlock(&ring->lock);
    return keys;
}

bool ron_cap_ring_put(struct ron_cap_ring *ring, struct ron_cap_keys *take_keys)
{
    struct ron_cap_keys *old;
    bool changed;

    RON_CHECK_MAGIC(take_keys, CAP_KEYS_MAGIC);
    ron_mutex_lock(&ring->lock);
    old = ring->keys;
    changed = !same_keys(old, take_keys);
    ring->keys = take_keys;
    if (changed) {
        (void)ron_au64_add(&ring->generation, 1); /* I3 */
    }
    ron_mutex_unlock(&ring->lock);
    ron_cap_keys_unref(old);
    return changed;
}

enum ron_rc ron_cap_ring_reload(struct ron_cap_ring *ring, const struct ron_env *env,
                                const char *path, bool *ret_changed, struct ron_err *err)
{
    struct ron_cap_keys *keys = NULL;
    bool changed;

    RON_TRY(ron_cap_keyfile_load(env, path, &keys, err));
    changed = ron_cap_ring_put(ring, keys);
    if (ret_changed != NULL) {
        *ret_changed = changed;
    }
    return RON_OK;
}
