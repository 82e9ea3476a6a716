/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/rp.c - building, proving and writing a Rocket Pool rewards tree. */
#include "rewarder/tree/rp.h"

#include <inttypes.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum {
    CAP_FIRST = 1024,
    STAGE = 64, /* leaves hashed at once */
    WORDS_MAX = 4,
    LEAF_MAX = RWD_ADDRESS_BYTES + WORDS_MAX * RWD_U256_BYTES,
    OUT_ROUND = 1 << 16,             /* bytes handed to the sink at once */
    OUT_MAX = OUT_ROUND + (1 << 13), /* and one node: its proof has 25 hashes of 69 bytes */
};

struct rwd_rp {
    bool has_voter_share;
    struct rwd_rp_reward *rewards; /* in the order of addresses once built */
    uint32_t *places;              /* of each leaf in tree.nodes */
    size_t count;
    size_t cap;
    struct rwd_tree tree;
};

bool rwd_rp_pays(const struct rwd_rp_reward *reward)
{
    uint8_t any = 0;

    for (size_t i = 0; i < RWD_U256_BYTES; i++) {
        any |= (uint8_t)(reward->collateral_rpl[i] | reward->oracle_rpl[i] | reward->pool_eth[i] |
                         reward->voter_eth[i]);
    }
    return any != 0;
}

enum ron_rc rwd_rp_new(bool has_voter_share, struct rwd_rp **ret_rp, struct ron_err *err)
{
    struct rwd_rp *rp = ron_alloc_zero(sizeof *rp);

    if (rp == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a tree");
    }
    rp->has_voter_share = has_voter_share;
    *ret_rp = rp;
    return RON_OK;
}

void rwd_rp_free(struct rwd_rp *rp)
{
    if (rp == NULL) {
        return;
    }
    ron_free(rp->rewards);
    ron_free(rp->places);
    rwd_tree_done(&rp->tree);
    ron_free(rp);
}

enum ron_rc rwd_rp_add(struct rwd_rp *rp, const struct rwd_rp_reward *reward, struct ron_err *err)
{
    uint8_t rpl[RWD_U256_BYTES];

    RON_ASSERT(rp->tree.nodes == NULL);
    if (!rwd_u256_add(reward->collateral_rpl, reward->oracle_rpl, rpl)) {
        return ron_err_set(err, RON_INVALID, "the RPL of a node is above 2^256 - 1");
    }
    if (rp->count == RWD_TREE_LEAVES_MAX) {
        return ron_err_set(err, RON_LIMIT, "a tree has at most %d leaves", RWD_TREE_LEAVES_MAX);
    }
    if (rp->count == rp->cap) {
        size_t cap = rp->cap == 0 ? CAP_FIRST : 2 * rp->cap;
        struct rwd_rp_reward *rewards = ron_realloc_array(rp->rewards, cap, sizeof *rewards);

        if (rewards == NULL) {
            return ron_err_set(err, RON_NOMEM, "no memory for %zu nodes", cap);
        }
        rp->rewards = rewards;
        rp->cap = cap;
    }
    rp->rewards[rp->count++] = *reward;
    return RON_OK;
}

/* ---- building -------------------------------------------------------------------------------- */

/* Sorts the rewards by address; they take the place of hashes for once, with zeros behind. */
static enum ron_rc sort_addresses(struct rwd_rp *rp, struct ron_err *err)
{
    RON_AUTO_FREE struct rwd_keccak *keys = ron_alloc_array(rp->count, sizeof *keys);
    struct rwd_rp_reward *sorted = ron_alloc_array(rp->count, sizeof *sorted);
    RON_AUTO_FREE uint32_t *order = NULL;
    enum ron_rc rc = RON_OK;

    if (keys == NULL || sorted == NULL) {
        ron_free(sorted);
        return ron_err_set(err, RON_NOMEM, "no memory for %zu nodes", rp->count);
    }
    for (size_t i = 0; i < rp->count; i++) {
        memcpy(keys[i].bytes, rp->rewards[i].address, RWD_ADDRESS_BYTES);
    }
    rc = rwd_tree_order(keys, rp->count, &order, err);
    for (size_t i = 0; rc == RON_OK && i < rp->count; i++) {
        sorted[i] = rp->rewards[order[i]];
        if (i > 0 && memcmp(sorted[i].address, sorted[i - 1].address, RWD_ADDRESS_BYTES) == 0) {
            char text[RWD_ADDRESS_TEXT];

            rwd_hex_put(sorted[i].address, RWD_ADDRESS_BYTES, text);
            rc = ron_err_set(err, RON_INVALID, "%.*s stands twice", RWD_ADDRESS_TEXT, text);
        }
    }
    if (rc != RON_OK) {
        ron_free(sorted);
        return rc;
    }
    ron_free(rp->rewards);
    rp->rewards = sorted;
    rp->cap = rp->count;
    return RON_OK;
}

static void encode(const struct rwd_rp_reward *r, uint8_t leaf[LEAF_MAX])
{
    uint8_t *word = leaf + RWD_ADDRESS_BYTES;
    bool fits;

    memcpy(leaf, r->address, RWD_ADDRESS_BYTES);
    memset(word, 0, RWD_U256_BYTES);
    for (size_t i = 0; i < sizeof r->network; i++) {
        word[RWD_U256_BYTES - 1 - i] = (uint8_t)(r->network >> (8 * i));
    }
    fits = rwd_u256_add(r->collateral_rpl, r->oracle_rpl, word + RWD_U256_BYTES);
    RON_ASSERT(fits); /* looked at when it was added */
    memcpy(word + (size_t)2 * RWD_U256_BYTES, r->pool_eth, RWD_U256_BYTES);
    memcpy(word + (size_t)3 * RWD_U256_BYTES, r->voter_eth, RWD_U256_BYTES);
}

static void hash_leaves(const struct rwd_rp *rp, struct rwd_keccak *hashes)
{
    size_t len = LEAF_MAX - (rp->has_voter_share ? 0 : RWD_U256_BYTES);
    uint8_t stage[STAGE * LEAF_MAX];

    for (size_t done = 0; done < rp->count;) {
        size_t n = RON_MIN(rp->count - done, (size_t)STAGE);

        for (size_t i = 0; i < n; i++) {
            encode(&rp->rewards[done + i], stage + i * LEAF_MAX);
        }
        rwd_keccak256_many(stage, LEAF_MAX, len, n, hashes + done);
        done += n;
    }
}

enum ron_rc rwd_rp_build(struct rwd_rp *rp, struct ron_err *err)
{
    RON_AUTO_FREE struct rwd_keccak *hashes = NULL;
    RON_AUTO_FREE uint32_t *order = NULL;
    size_t leaves = 1;

    RON_ASSERT(rp->tree.nodes == NULL);
    if (rp->count == 0) {
        return ron_err_set(err, RON_INVALID, "a tree has at least one leaf");
    }
    RON_TRY(sort_addresses(rp, err));
    hashes = ron_alloc_array(rp->count, sizeof *hashes);
    rp->places = ron_alloc_array(rp->count, sizeof *rp->places);
    if (hashes == NULL || rp->places == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for %zu nodes", rp->count);
    }
    hash_leaves(rp, hashes);
    RON_TRY(rwd_tree_order(hashes, rp->count, &order, err));
    while (leaves < rp->count) {
        leaves *= 2;
    }
    RON_TRY(rwd_tree_init(&rp->tree, leaves, err));
    for (size_t i = 0; i < rp->count; i++) {
        rp->tree.nodes[leaves + i] = hashes[order[i]];
        rp->places[order[i]] = (uint32_t)(leaves + i);
    }
    rwd_tree_build(&rp->tree);
    return RON_OK;
}

/* ---- looking --------------------------------------------------------------------------------- */

size_t rwd_rp_count(const struct rwd_rp *rp)
{
    return rp->count;
}

const struct rwd_keccak *rwd_rp_root(const struct rwd_rp *rp)
{
    return &rp->tree.nodes[1];
}

const struct rwd_rp_reward *rwd_rp_reward(const struct rwd_rp *rp, size_t index)
{
    RON_ASSERT(index < rp->count);
    return &rp->rewards[index];
}

void rwd_rp_prove(const struct rwd_rp *rp, size_t index, struct rwd_tree_proof *ret_proof)
{
    RON_ASSERT(index < rp->count);
    rwd_tree_prove(&rp->tree, rp->places[index], ret_proof);
}

bool rwd_rp_find(const struct rwd_rp *rp, const uint8_t address[RWD_ADDRESS_BYTES],
                 size_t *ret_index)
{
    size_t low = 0;
    size_t high = rp->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int cmp = memcmp(rp->rewards[middle].address, address, RWD_ADDRESS_BYTES);

        if (cmp == 0) {
            *ret_index = middle;
            return true;
        }
        low = cmp < 0 ? middle + 1 : low;
        high = cmp < 0 ? high : middle;
    }
    return false;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_amount(struct ron_json_writer *w, const char *name, const uint8_t *number)
{
    char digits[RWD_U256_TEXT];
    size_t len = rwd_u256_put(number, digits);

    ron_json_str(w, name, (struct ron_str){digits, len});
}

static void put_hash(struct ron_json_writer *w, const char *name, const struct rwd_keccak *hash)
{
    char text[RWD_HASH_TEXT];

    rwd_hex_put(hash->bytes, RWD_KECCAK_BYTES, text);
    ron_json_str(w, name, (struct ron_str){text, sizeof text});
}

void rwd_rp_put(const struct rwd_rp *rp, size_t index, struct ron_json_writer *w, const char *name)
{
    const struct rwd_rp_reward *r = rwd_rp_reward(rp, index);
    struct rwd_tree_proof proof;

    rwd_rp_prove(rp, index, &proof);
    ron_json_open(w, name, '{');
    ron_json_u64(w, "rewardNetwork", r->network);
    put_amount(w, "collateralRpl", r->collateral_rpl);
    put_amount(w, "oracleDaoRpl", r->oracle_rpl);
    put_amount(w, "smoothingPoolEth", r->pool_eth);
    if (rp->has_voter_share) {
        put_amount(w, "voterShareEth", r->voter_eth);
    }
    ron_json_open(w, "merkleProof", '[');
    for (size_t i = 0; i < proof.count; i++) {
        put_hash(w, NULL, &proof.hashes[i]);
    }
    ron_json_close(w, ']');
    ron_json_close(w, '}');
}

enum ron_rc rwd_rp_write(const struct rwd_rp *rp, const struct rwd_sink *sink, struct ron_err *err)
{
    struct ron_json_writer w;
    struct ron_buf out;
    enum ron_rc rc = RON_OK;

    ron_buf_init(&out, OUT_MAX);
    ron_json_begin(&w, &out);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "rewardsFileVersion", rp->has_voter_share ? 4 : 3);
    put_hash(&w, "merkleRoot", rwd_rp_root(rp));
    ron_json_open(&w, "nodeRewards", '{');
    for (size_t i = 0; rc == RON_OK && i <= rp->count; i++) {
        char name[RWD_ADDRESS_TEXT + 1] = {0};

        if (i < rp->count) {
            rwd_hex_put(rp->rewards[i].address, RWD_ADDRESS_BYTES, name);
            rwd_rp_put(rp, i, &w, name);
        } else {
            ron_json_close(&w, '}');
            ron_json_close(&w, '}');
        }
        if (ron_buf_error(&out) != RON_OK) {
            rc = ron_err_set(err, ron_buf_error(&out), "no memory to write a tree");
        } else if (ron_buf_len(&out) >= OUT_ROUND || i == rp->count) {
            rc = sink->put(sink->arg, ron_buf_data(&out), ron_buf_len(&out), err);
            ron_buf_clear(&out);
        }
    }
    ron_buf_done(&out);
    return rc;
}
