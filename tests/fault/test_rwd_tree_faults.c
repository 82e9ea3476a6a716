/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: public trees survive every single failed allocation, and all later ones: a clean refusal,
 *   nothing leaked, no file left behind.
 * Method: whole lives of a tree (claims, tree, dump, read again) and of its file under the sweep,
 *   which fails each allocation and each call of the system in turn. */
#include "support/support.h"

#include <unistd.h>

#include "rewarder/tree/claims.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"

enum { LEAVES = 70, OUT_MAX = 1 << 20 };

static enum ron_rc gather(void *arg, const void *bytes, size_t len, struct ron_err *err)
{
    (void)err;
    return ron_buf_append(arg, bytes, len);
}

static enum ron_rc some_claims(struct rwd_claims *claims)
{
    for (unsigned i = 0; i < LEAVES; i++) {
        char account[64];
        int len = snprintf(account, sizeof account, "eth:0x%040x", i / 2 * 7919);

        RON_TRY(rwd_claims_add(claims, (struct ron_str){account, (size_t)len}, ron_money_of(i + 1),
                               NULL));
    }
    return rwd_claims_seal(claims, NULL);
}

static enum ron_rc oz_life(void *arg)
{
    struct rwd_claims claims = {0};
    struct rwd_oz *oz = NULL;
    struct rwd_oz *again = NULL;
    struct ron_buf out;
    struct rwd_sink sink = {gather, &out};
    enum ron_rc rc;

    (void)arg;
    ron_buf_init(&out, OUT_MAX);
    RON_GOTO(some_claims(&claims), end);
    RON_GOTO(rwd_claims_oz(&claims, &oz, NULL), end);
    RON_GOTO(rwd_oz_dump(oz, &sink, NULL), end);
    RON_GOTO(rwd_oz_read((char *)out.memory + out.head, ron_buf_len(&out), &again, NULL), end);
    RON_ASSERT(rwd_keccak_cmp(rwd_oz_root(oz), rwd_oz_root(again)) == 0);
end:
    rwd_oz_free(oz);
    rwd_oz_free(again);
    rwd_claims_done(&claims);
    ron_buf_done(&out);
    return rc;
}

static enum ron_rc rp_life(void *arg)
{
    struct rwd_claims claims = {0};
    struct rwd_rp *rp = NULL;
    struct rwd_rp *again = NULL;
    struct ron_buf out;
    struct rwd_sink sink = {gather, &out};
    enum ron_rc rc;

    (void)arg;
    ron_buf_init(&out, OUT_MAX);
    RON_GOTO(some_claims(&claims), end);
    RON_GOTO(rwd_claims_rp(&claims, 0, false, &rp, NULL), end);
    RON_GOTO(rwd_rp_write(rp, &sink, NULL), end);
    RON_GOTO(rwd_rp_read((char *)out.memory + out.head, ron_buf_len(&out), &again, NULL), end);
    RON_ASSERT(rwd_keccak_cmp(rwd_rp_root(rp), rwd_rp_root(again)) == 0);
end:
    rwd_rp_free(rp);
    rwd_rp_free(again);
    rwd_claims_done(&claims);
    ron_buf_done(&out);
    return rc;
}

/* The file is there whole or not at all. */
static enum ron_rc file_life(void *arg)
{
    const char *path = arg;
    const struct ron_env *env = ron_env_linux();
    struct rwd_tree_file file;
    struct rwd_sink sink;
    enum ron_rc rc = rwd_tree_file_open(env, path, &file, NULL);

    if (rc == RON_OK) {
        sink = rwd_tree_file_sink(&file);
        rc = sink.put(sink.arg, "whole", 5, NULL);
        rc = rwd_tree_file_close(&file, rc, NULL);
    }
    RON_ASSERT(rc != RON_OK || access(path, F_OK) == 0);
    RON_ASSERT(rc == RON_OK || access(path, F_OK) != 0);
    (void)unlink(path);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_rwd_tree_faults__openzeppelin__clean_refusals, oz_life)
SUPPORT_FAULT_SWEEP(test_rwd_tree_faults__rocket_pool__clean_refusals, rp_life)

static void test_rwd_tree_faults__file__whole_or_not_there(void **state)
{
    char dir[] = "/tmp/rew-tree-XXXXXX";
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/tree.json", dir);
    support_sweep_expect_clean(
        &(struct support_sweep){.name = "file", .run = file_life, .arg = path});
    (void)snprintf(path, sizeof path, "%s/tree.json.tmp", dir);
    (void)unlink(path); /* where removing it failed too */
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rwd_tree_faults__openzeppelin__clean_refusals),
        cmocka_unit_test(test_rwd_tree_faults__rocket_pool__clean_refusals),
        cmocka_unit_test(test_rwd_tree_faults__file__whole_or_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
