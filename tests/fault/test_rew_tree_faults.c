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

static enum ron_rc some_claims(struct rew_claims *claims)
{
    for (unsigned i = 0; i < LEAVES; i++) {
        char account[64];
        int len = snprintf(account, sizeof account, "eth:0x%040x", i / 2 * 7919);

        RON_TRY(rew_claims_add(claims, (struct ron_str){account, (size_t)len}, ron_money_of(i + 1),
                               NULL));
    }
    return rew_claims_seal(claims, NULL);
}

static enum ron_rc oz_life(void *arg)
{
    struct rew_claims claims = {0};
    struct rew_oz *oz = NULL;
    struct rew_oz *again = NULL;
    struct ron_buf out;
    struct rew_sink sink = {gather, &out};
    enum ron_rc rc;

    (void)arg;
    ron_buf_init(&out, OUT_MAX);
    RON_GOTO(some_claims(&claims), end);
    RON_GOTO(rew_claims_oz(&claims, &oz, NULL), end);
    RON_GOTO(rew_oz_dump(oz, &sink, NULL), end);
    RON_GOTO(rew_oz_read((char *)out.memory + out.head, ron_buf_len(&out), &again, NULL), end);
    RON_ASSERT(rew_keccak_cmp(rew_oz_root(oz), rew_oz_root(again)) == 0);
end:
    rew_oz_free(oz);
    rew_oz_free(again);
    rew_claims_done(&claims);
    ron_buf_done(&out);
    return rc;
}

static enum ron_rc rp_life(void *arg)
{
    struct rew_claims claims = {0};
    struct rew_rp *rp = NULL;
    struct rew_rp *again = NULL;
    struct ron_buf out;
    struct rew_sink sink = {gather, &out};
    enum ron_rc rc;

    (void)arg;
    ron_buf_init(&out, OUT_MAX);
    RON_GOTO(some_claims(&claims), end);
    RON_GOTO(rew_claims_rp(&claims, 0, false, &rp, NULL), end);
    RON_GOTO(rew_rp_write(rp, &sink, NULL), end);
    RON_GOTO(rew_rp_read((char *)out.memory + out.head, ron_buf_len(&out), &again, NULL), end);
    RON_ASSERT(rew_keccak_cmp(rew_rp_root(rp), rew_rp_root(again)) == 0);
end:
    rew_rp_free(rp);
    rew_rp_free(again);
    rew_claims_done(&claims);
    ron_buf_done(&out);
    return rc;
}

/* The file is there whole or not at all. */
static enum ron_rc file_life(void *arg)
{
    const char *path = arg;
    const struct ron_env *env = ron_env_linux();
    struct rew_tree_file file;
    struct rew_sink sink;
    enum ron_rc rc = rew_tree_file_open(env, path, &file, NULL);

    if (rc == RON_OK) {
        sink = rew_tree_file_sink(&file);
        rc = sink.put(sink.arg, "whole", 5, NULL);
        rc = rew_tree_file_close(&file, rc, NULL);
    }
    RON_ASSERT(rc != RON_OK || access(path, F_OK) == 0);
    RON_ASSERT(rc == RON_OK || access(path, F_OK) != 0);
    (void)unlink(path);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_rew_tree_faults__openzeppelin__clean_refusals, oz_life)
SUPPORT_FAULT_SWEEP(test_rew_tree_faults__rocket_pool__clean_refusals, rp_life)

static void test_rew_tree_faults__file__whole_or_not_there(void **state)
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
        cmocka_unit_test(test_rew_tree_faults__openzeppelin__clean_refusals),
        cmocka_unit_test(test_rew_tree_faults__rocket_pool__clean_refusals),
        cmocka_unit_test(test_rew_tree_faults__file__whole_or_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
