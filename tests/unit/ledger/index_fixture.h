/* SPDX-License-Identifier: Apache-2.0 */
/* index_fixture.h - what the tests of the index share: a folder of their own, and keys that follow
 * from their number. */
#pragma once

#include "unit/io/fixture.h"

#include <dirent.h>

#include "ledger/index/index.h"
#include "ron/base/assert.h"

/* Without a system call, which a fault sweep would make fail. */
static inline uint64_t index_rand(const struct ron_env *env)
{
    (void)env;
    return UINT64_C(0x9e3779b97f4a7c15);
}

static inline const struct ron_env *index_env(void)
{
    static struct ron_env env;

    env = *ron_env_linux();
    env.rand_u64 = index_rand;
    return &env;
}

/* Removes the files of an index and its folder, without the ports, whose calls may fail. */
static inline void index_erase(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)rmdir(path);
}

struct index_key {
    struct led_key key;
    char text[32];
    struct ron_str str;
};

/* Key `n`: its text grows with n when `ordered`, else it is as random as its hash. */
static inline void index_key_of(uint64_t n, bool ordered, struct index_key *ret_key)
{
    enum { DIGITS = 20 };
    uint64_t state = n * 2 + 1;
    uint64_t left;

    ret_key->key.a = ron_splitmix64(&state);
    ret_key->key.b = ron_splitmix64(&state);
    left = ordered ? n : ret_key->key.a;
    for (size_t i = DIGITS; i > 0; i--, left /= 10) {
        ret_key->text[i - 1] = (char)('0' + left % 10);
    }
    ret_key->str = (struct ron_str){ret_key->text, DIGITS};
}

static inline enum ron_rc index_add(struct led_index *ix, uint64_t n, bool ordered, uint64_t seq,
                                    struct ron_err *err)
{
    struct index_key k;

    index_key_of(n, ordered, &k);
    return led_index_add(ix, LED_INDEX_ID, k.key, k.str, seq, err);
}

static inline bool index_maybe(const struct led_index *ix, uint64_t n, bool ordered)
{
    struct index_key k;

    index_key_of(n, ordered, &k);
    return led_index_maybe(ix, LED_INDEX_ID, k.key, k.str);
}

/* Whether led_index_find has the seq among its answers for key n. */
static inline bool index_has(struct led_index *ix, uint64_t n, uint64_t seq)
{
    uint64_t seqs[LED_INDEX_FOUND_MAX];
    struct ron_err err = {0};
    struct index_key k;
    size_t count = 0;
    bool has = false;

    index_key_of(n, true, &k);
    RON_ASSERT(led_index_find(ix, LED_INDEX_ID, k.key, seqs, &count, &err) == RON_OK);
    for (size_t i = 0; i < count; i++) {
        RON_ASSERT(i == 0 || seqs[i - 1] < seqs[i]);
        has = has || seqs[i] == seq;
    }
    return has;
}

static inline size_t index_count(struct led_index *ix, enum led_index_kind kind, uint64_t n)
{
    uint64_t seqs[LED_INDEX_FOUND_MAX];
    struct ron_err err = {0};
    struct index_key k;
    size_t count = 0;

    index_key_of(n, true, &k);
    RON_ASSERT(led_index_find(ix, kind, k.key, seqs, &count, &err) == RON_OK);
    return count;
}

static inline struct ron_tree_hash index_root(uint64_t seq)
{
    struct ron_tree_hash root;

    ron_tree_hash_leaf(&seq, sizeof seq, &root);
    return root;
}

static inline enum ron_rc index_commit(struct led_index *ix, uint64_t seq, struct ron_err *err)
{
    struct ron_tree_hash root = index_root(seq);

    return led_index_commit(ix, seq, &root, err);
}
