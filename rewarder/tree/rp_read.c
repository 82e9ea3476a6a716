/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/rp_read.c - reading a rewards file of Rocket Pool, and checking it.
 *
 * The nodes are members of an object whose names are addresses, so they are walked through here;
 * each one alone is for the kernel's scanner. Twice: the first pass takes the rewards and builds
 * the tree, the second compares the file's proofs with the tree's. */
#include <string.h>

#include "rewarder/tree/rp.h"
#include "ron/base/alloc.h"

struct node {
    uint64_t rewardNetwork;
    struct ron_str collateralRpl;
    struct ron_str oracleDaoRpl;
    struct ron_str smoothingPoolEth;
    struct ron_str voterShareEth;
    struct ron_json_items merkleProof;
    uint64_t present;
};
enum { FIELD_VOTER = 4 };
static const struct ron_json_field node_fields[] = {
    RON_JSON_FIELD(struct node, rewardNetwork, U64, .required = true),
    RON_JSON_FIELD(struct node, collateralRpl, STRING, .required = true, .max = RWD_U256_TEXT),
    RON_JSON_FIELD(struct node, oracleDaoRpl, STRING, .required = true, .max = RWD_U256_TEXT),
    RON_JSON_FIELD(struct node, smoothingPoolEth, STRING, .required = true, .max = RWD_U256_TEXT),
    RON_JSON_FIELD(struct node, voterShareEth, STRING, .required = false, .max = RWD_U256_TEXT),
    RON_JSON_FIELD(struct node, merkleProof, STRINGS, .required = false, .nullable = true,
                   .max = RWD_TREE_PROOF_MAX),
};
static const struct ron_json_shape node_shape = {.fields = node_fields,
                                                 .count = RON_ARRAY_LEN(node_fields),
                                                 .present_offset = offsetof(struct node, present),
                                                 .allow_unknown = true};

struct file {
    struct ron_str merkleRoot;
    struct ron_str nodeRewards;
    uint64_t present;
};
static const struct ron_json_field file_fields[] = {
    RON_JSON_FIELD(struct file, merkleRoot, STRING, .required = true, .max = RWD_HASH_TEXT),
    RON_JSON_FIELD(struct file, nodeRewards, RAW, .required = true),
};
static const struct ron_json_shape file_shape = {.fields = file_fields,
                                                 .count = RON_ARRAY_LEN(file_fields),
                                                 .present_offset = offsetof(struct file, present),
                                                 .allow_unknown = true};

/* The next node with its address. *ret_more is false at the end. */
struct walk {
    struct ron_str nodes;
    size_t at;
    struct ron_arena arena; /* for one proof */
};

static enum ron_rc walk_next(struct walk *walk, bool *ret_more, uint8_t *ret_address,
                             struct node *ret_node, struct ron_err *err)
{
    struct ron_json_error json = {0};
    struct ron_str name;
    struct ron_str value;
    enum ron_rc rc;

    *ret_more = rwd_json_next(walk->nodes, &walk->at, &name, &value);
    if (!*ret_more) {
        return RON_OK;
    }
    if (!rwd_hex_get(name, ret_address, RWD_ADDRESS_BYTES)) {
        return ron_err_set(err, RON_INVALID, "nodeRewards: '%.*s' is no address",
                           (int)RON_MIN(name.len, (size_t)64), name.ptr);
    }
    ron_arena_reset(&walk->arena, (struct ron_arena_mark){0});
    *ret_node = (struct node){0};
    /* The text is the caller's, who lets it be changed; nothing in it is escaped, so nothing is. */
    rc = ron_json_scan((char *)(uintptr_t)value.ptr, value.len, &node_shape, &walk->arena, ret_node,
                       &json);
    return rc == RON_OK ? RON_OK
                        : ron_err_set(err, rc, "nodeRewards.%.*s%s%s: %s", (int)name.len, name.ptr,
                                      json.field[0] != '\0' ? "." : "", json.field, json.reason);
}

static enum ron_rc reward_of(const struct node *node, struct rwd_rp_reward *r, struct ron_err *err)
{
    bool good = rwd_u256_get(node->collateralRpl, r->collateral_rpl) &&
                rwd_u256_get(node->oracleDaoRpl, r->oracle_rpl) &&
                rwd_u256_get(node->smoothingPoolEth, r->pool_eth);

    if (good && (node->present >> FIELD_VOTER & 1) != 0) {
        good = rwd_u256_get(node->voterShareEth, r->voter_eth);
    }
    r->network = node->rewardNetwork;
    return good ? RON_OK : ron_err_set(err, RON_INVALID, "an amount is no whole number");
}

/* A node that is paid nothing and proves nothing has no leaf (P1). */
static bool has_leaf(const struct rwd_rp_reward *r, const struct node *node)
{
    return rwd_rp_pays(r) || node->merkleProof.count > 0;
}

static enum ron_rc take_rewards(struct walk *walk, struct rwd_rp **ret_rp, struct ron_err *err)
{
    struct rwd_rp *rp = NULL;
    bool has_voter_share = false;
    enum ron_rc rc;

    walk->at = 1;
    for (bool more = true;;) {
        struct rwd_rp_reward reward = {0};
        struct node node = {0};

        rc = walk_next(walk, &more, reward.address, &node, err);
        if (rc != RON_OK || !more) {
            break;
        }
        if (rp == NULL) {
            has_voter_share = (node.present >> FIELD_VOTER & 1) != 0;
            rc = rwd_rp_new(has_voter_share, &rp, err);
        }
        if (rc == RON_OK && has_voter_share != ((node.present >> FIELD_VOTER & 1) != 0)) {
            rc = ron_err_set(err, RON_INVALID, "voterShareEth: some nodes have it, some have not");
        }
        if (rc == RON_OK) {
            rc = reward_of(&node, &reward, err);
        }
        if (rc == RON_OK && has_leaf(&reward, &node)) {
            rc = rwd_rp_add(rp, &reward, err);
        }
        if (rc != RON_OK) {
            break;
        }
    }
    if (rc == RON_OK && rp == NULL) {
        rc = ron_err_set(err, RON_INVALID, "nodeRewards is empty");
    }
    if (rc == RON_OK) {
        rc = rwd_rp_build(rp, err);
    }
    if (rc != RON_OK) {
        rwd_rp_free(rp);
        return rc;
    }
    *ret_rp = rp;
    return RON_OK;
}

static bool same_proof(const struct rwd_tree_proof *proof, const struct ron_json_items *said)
{
    const struct ron_str *texts = said->items;
    bool same = proof->count == said->count;

    for (size_t i = 0; same && i < proof->count; i++) {
        struct rwd_keccak hash;

        same = rwd_hash_get(texts[i], &hash) && rwd_keccak_cmp(&hash, &proof->hashes[i]) == 0;
    }
    return same;
}

static enum ron_rc compare_proofs(struct walk *walk, const struct rwd_rp *rp, struct ron_err *err)
{
    walk->at = 1;
    for (bool more = true;;) {
        struct rwd_tree_proof proof;
        uint8_t address[RWD_ADDRESS_BYTES];
        struct node node = {0};
        size_t index;

        RON_TRY(walk_next(walk, &more, address, &node, err));
        if (!more) {
            return RON_OK;
        }
        if (!rwd_rp_find(rp, address, &index)) {
            continue; /* Without a leaf. */
        }
        rwd_rp_prove(rp, index, &proof);
        if (!same_proof(&proof, &node.merkleProof)) {
            char text[RWD_ADDRESS_TEXT];

            rwd_hex_put(address, RWD_ADDRESS_BYTES, text);
            return ron_err_set(err, RON_CONFLICT, "the proof of %.*s does not lead to the root",
                               RWD_ADDRESS_TEXT, text);
        }
    }
}

static enum ron_rc read_file(const struct file *file, struct rwd_rp **ret_rp, struct ron_err *err)
{
    _Alignas(16) uint8_t memory[RWD_TREE_PROOF_MAX * sizeof(struct ron_str) + 64];
    struct walk walk = {.nodes = file->nodeRewards};
    struct rwd_keccak root;
    struct rwd_rp *rp = NULL;
    enum ron_rc rc;

    if (!rwd_hash_get(file->merkleRoot, &root)) {
        return ron_err_set(err, RON_INVALID, "merkleRoot is no hash");
    }
    if (walk.nodes.ptr[0] != '{' || memchr(walk.nodes.ptr, '\\', walk.nodes.len) != NULL) {
        return ron_err_set(err, RON_INVALID, "nodeRewards is no object without escapes");
    }
    ron_arena_init_over(&walk.arena, memory, sizeof memory);
    rc = take_rewards(&walk, &rp, err);
    if (rc == RON_OK && rwd_keccak_cmp(&root, rwd_rp_root(rp)) != 0) {
        char text[RWD_HASH_TEXT];

        rwd_hex_put(rwd_rp_root(rp)->bytes, RWD_KECCAK_BYTES, text);
        rc = ron_err_set(err, RON_CONFLICT, "merkleRoot is not the root of the rewards: %.*s",
                         RWD_HASH_TEXT, text);
    }
    if (rc == RON_OK) {
        rc = compare_proofs(&walk, rp, err);
    }
    ron_arena_done(&walk.arena);
    if (rc != RON_OK) {
        rwd_rp_free(rp);
        return rc;
    }
    *ret_rp = rp;
    return RON_OK;
}

enum ron_rc rwd_rp_read(char *text, size_t len, struct rwd_rp **ret_rp, struct ron_err *err)
{
    struct ron_json_error json = {0};
    struct file file = {0};
    enum ron_rc rc = ron_json_scan(text, len, &file_shape, NULL, &file, &json);

    if (rc != RON_OK) {
        return ron_err_set(err, rc, "%s%s%s at byte %zu", json.field,
                           json.field[0] != '\0' ? ": " : "", json.reason, json.at);
    }
    return read_file(&file, ret_rp, err);
}
