/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/tree/claims.c - payouts become claims, claims a tree, a tree a file. */
#include "rewarder/tree/claims.h"

#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/base/assert.h"

enum { CAP_FIRST = 1024, FILE_MODE = 0644 /* made to be shown */ };

bool rwd_account_address(struct ron_str account, uint8_t ret_address[RWD_ADDRESS_BYTES])
{
    struct ron_str tail;

    if (account.len < RWD_ADDRESS_TEXT ||
        (account.len > RWD_ADDRESS_TEXT &&
         account.ptr[account.len - RWD_ADDRESS_TEXT - 1] != ':')) {
        return false;
    }
    tail = (struct ron_str){account.ptr + account.len - RWD_ADDRESS_TEXT, RWD_ADDRESS_TEXT};
    return rwd_hex_get(tail, ret_address, RWD_ADDRESS_BYTES);
}

/* ---- claims ---------------------------------------------------------------------------------- */

enum ron_rc rwd_claims_add(struct rwd_claims *c, struct ron_str account, struct ron_money amount,
                           struct ron_err *err)
{
    struct rwd_claim claim = {.amount = amount};

    if (!rwd_account_address(account, claim.address)) {
        c->left_out++;
        return RON_OK;
    }
    if (c->count == RWD_TREE_LEAVES_MAX) {
        return ron_err_set(err, RON_LIMIT, "a tree has at most %d leaves", RWD_TREE_LEAVES_MAX);
    }
    if (c->count == c->cap) {
        size_t cap = c->cap == 0 ? CAP_FIRST : 2 * c->cap;
        struct rwd_claim *claims = ron_realloc_array(c->claims, cap, sizeof *claims);

        if (claims == NULL) {
            return ron_err_set(err, RON_NOMEM, "no memory for %zu claims", cap);
        }
        c->claims = claims;
        c->cap = cap;
    }
    c->claims[c->count++] = claim;
    return RON_OK;
}

void rwd_claims_done(struct rwd_claims *c)
{
    ron_free(c->claims);
    *c = (struct rwd_claims){0};
}

static enum ron_rc merge(struct rwd_claims *c, const uint32_t *order, struct rwd_claim *sorted,
                         struct ron_err *err)
{
    size_t count = 0;

    for (size_t i = 0; i < c->count; i++) {
        const struct rwd_claim *claim = &c->claims[order[i]];
        struct rwd_claim *last = count == 0 ? NULL : &sorted[count - 1];

        if (last == NULL || memcmp(last->address, claim->address, RWD_ADDRESS_BYTES) != 0) {
            sorted[count++] = *claim;
        } else if (ron_money_add(last->amount, claim->amount, &last->amount) != RON_MONEY_OK) {
            return ron_err_set(err, RON_INVALID, "the claims of an address are above 2^128 - 1");
        }
    }
    c->merged += c->count - count;
    c->count = count;
    return RON_OK;
}

enum ron_rc rwd_claims_seal(struct rwd_claims *c, struct ron_err *err)
{
    /* Addresses are sorted as hashes with zeros behind. */
    RON_AUTO_FREE struct rwd_keccak *keys = ron_alloc_array(c->count, sizeof *keys);
    struct rwd_claim *sorted = ron_alloc_array(c->count, sizeof *sorted);
    RON_AUTO_FREE uint32_t *order = NULL;
    enum ron_rc rc;

    if (keys == NULL || sorted == NULL) {
        ron_free(sorted);
        return ron_err_set(err, RON_NOMEM, "no memory for %zu claims", c->count);
    }
    for (size_t i = 0; i < c->count; i++) {
        memcpy(keys[i].bytes, c->claims[i].address, RWD_ADDRESS_BYTES);
    }
    rc = rwd_tree_order(keys, c->count, &order, err);
    if (rc == RON_OK) {
        rc = merge(c, order, sorted, err);
    }
    if (rc != RON_OK) {
        ron_free(sorted);
        return rc;
    }
    ron_free(c->claims);
    c->claims = sorted;
    c->cap = c->count;
    return RON_OK;
}

enum ron_rc rwd_claims_oz(const struct rwd_claims *c, struct rwd_oz **ret_oz, struct ron_err *err)
{
    static const struct ron_str types[] = {{"address", 7}, {"uint256", 7}};
    struct rwd_oz *oz = NULL;
    enum ron_rc rc = rwd_oz_new(types, RON_ARRAY_LEN(types), &oz, err);

    for (size_t i = 0; rc == RON_OK && i < c->count; i++) {
        char address[RWD_ADDRESS_TEXT];
        char amount[RON_MONEY_TEXT_SIZE];
        struct ron_str texts[] = {{address, sizeof address},
                                  {amount, ron_money_format(c->claims[i].amount, amount)}};

        rwd_hex_put(c->claims[i].address, RWD_ADDRESS_BYTES, address);
        rc = rwd_oz_add(oz, texts, err);
    }
    if (rc == RON_OK) {
        rc = rwd_oz_build(oz, err);
    }
    if (rc != RON_OK) {
        rwd_oz_free(oz);
        return rc;
    }
    *ret_oz = oz;
    return RON_OK;
}

enum ron_rc rwd_claims_rp(const struct rwd_claims *c, uint64_t network, bool as_eth,
                          struct rwd_rp **ret_rp, struct ron_err *err)
{
    struct rwd_rp *rp = NULL;
    enum ron_rc rc = rwd_rp_new(false, &rp, err);

    for (size_t i = 0; rc == RON_OK && i < c->count; i++) {
        struct rwd_rp_reward reward = {.network = network};
        uint8_t *amount = as_eth ? reward.pool_eth : reward.collateral_rpl;

        memcpy(reward.address, c->claims[i].address, RWD_ADDRESS_BYTES);
        for (size_t k = 0; k < sizeof c->claims[i].amount.v; k++) {
            amount[RWD_U256_BYTES - 1 - k] = (uint8_t)(c->claims[i].amount.v >> (8 * k));
        }
        rc = rwd_rp_add(rp, &reward, err);
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

/* ---- files ----------------------------------------------------------------------------------- */

enum ron_rc rwd_tree_file_open(const struct ron_env *env, const char *path,
                               struct rwd_tree_file *ret_file, struct ron_err *err)
{
    struct rwd_tree_file file = {.env = env, .fd = -1};
    int len = snprintf(file.temporary, sizeof file.temporary, "%s.tmp", path);

    if (len < 0 || (size_t)len >= sizeof file.temporary) {
        return ron_err_set(err, RON_LIMIT, "a path of %zu bytes is too long", strlen(path));
    }
    memcpy(file.path, path, strlen(path) + 1);
    RON_TRY(env->disk->open(env, file.temporary, RON_OPEN_WRITE | RON_OPEN_CREATE | RON_OPEN_TRUNC,
                            FILE_MODE, &file.fd, err));
    *ret_file = file;
    return RON_OK;
}

static enum ron_rc file_put(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    struct rwd_tree_file *file = arg;

    RON_TRY(file->env->disk->pwrite(file->env, file->fd, bytes, len, file->size, err));
    file->size += len;
    return RON_OK;
}

struct rwd_sink rwd_tree_file_sink(struct rwd_tree_file *file)
{
    return (struct rwd_sink){file_put, file};
}

enum ron_rc rwd_tree_file_close(struct rwd_tree_file *file, enum ron_rc rc, struct ron_err *err)
{
    const struct ron_disk_ops *disk = file->env->disk;

    if (rc == RON_OK) {
        rc = disk->sync(file->env, file->fd, false, err);
    }
    disk->close(file->env, file->fd);
    if (rc == RON_OK) {
        rc = disk->rename(file->env, file->temporary, file->path, err);
    }
    if (rc != RON_OK) {
        RON_IGNORE(disk->remove(file->env, file->temporary, NULL)); /* The failure is told. */
    }
    return rc;
}

enum ron_rc rwd_public_tree_more(void *env, const struct rwd_run *run, const char *dir,
                                 struct ron_err *err)
{
    uint64_t count = rwd_result_totals(run->result)->paid_accounts;
    struct rwd_claims claims = {0};
    struct rwd_tree_file file;
    struct rwd_oz *oz = NULL;
    char path[RON_FILE_PATH_SIZE];
    enum ron_rc rc = RON_OK;
    int len = snprintf(path, sizeof path, "%s/%s", dir, RWD_FILE_OPENZEPPELIN);

    if (len < 0 || (size_t)len >= sizeof path) {
        return ron_err_set(err, RON_LIMIT, "a path of %zu bytes is too long", strlen(dir));
    }
    for (uint64_t i = 0; rc == RON_OK && i < count; i++) {
        struct rwd_payout payout;

        rwd_result_payout(run->result, i, &payout);
        rc = rwd_claims_add(&claims, payout.account, payout.amount, err);
    }
    if (rc == RON_OK && claims.count > 0) {
        rc = rwd_claims_seal(&claims, err);
        if (rc == RON_OK) {
            rc = rwd_claims_oz(&claims, &oz, err);
        }
        if (rc == RON_OK) {
            rc = rwd_tree_file_open(env, path, &file, err);
        }
        if (rc == RON_OK) {
            struct rwd_sink sink = rwd_tree_file_sink(&file);

            rc = rwd_tree_file_close(&file, rwd_oz_dump(oz, &sink, err), err);
        }
    }
    rwd_oz_free(oz);
    rwd_claims_done(&claims);
    return rc;
}
