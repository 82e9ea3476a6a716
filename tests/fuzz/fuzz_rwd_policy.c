/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_rwd_policy.c - any bytes as a policy document.
 *
 * Oracle: a refusal has a sentence and leaves nothing; what was read keeps the rules P2 and P3, its
 * canonical bytes are read again as the same bytes under the same hash, and once signed it is read
 * with that key and with no other. The calculus must be able to use it: a run over a few rows
 * passes its check. */
#include <stdint.h>
#include <string.h>

#include "rewarder/calc/calc.h"
#include "ron/base/assert.h"
#include "ron/base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The public key of the seed {1, 2, 3, 0, ...}, and another one. */
static const struct rwd_policy_key right = {"k", {0x22, 0x1f, 0xe5, 0xf6, 0x85, 0x9a, 0x1a, 0x4f,
                                                  0xec, 0x79, 0x05, 0x7c, 0x9d, 0x32, 0xc8, 0xd3,
                                                  0xfc, 0x35, 0x6e, 0x14, 0x4b, 0x1d, 0xa3, 0xb0,
                                                  0xf9, 0x01, 0x6e, 0xf6, 0xf2, 0x98, 0x88, 0xda}};
static const struct rwd_policy_key other = {"k", {1}};
static const uint8_t seed[RWD_SIGN_KEY_BYTES] = {1, 2, 3};

static void check_rules(const struct rwd_policy *p)
{
    RON_ASSERT(rwd_policy_id_ok(p->id));
    RON_ASSERT(p->version > 0 && p->min.v <= p->max.v);
    RON_ASSERT(p->weight_bps >= 1 && p->weight_bps <= 100000);
    RON_ASSERT(p->stored.num + p->served.num + p->uptime.num > 0);
    RON_ASSERT(p->stored.den > 0 && p->served.den > 0 && p->uptime.den > 0);
    RON_ASSERT(p->residual != RWD_RESIDUAL_SINK || rwd_account_ok(p->sink));
    RON_ASSERT(p->category_count <= RWD_CATEGORIES_MAX);
    for (uint32_t i = 1; i < p->category_count; i++) {
        struct ron_str a = p->categories[i - 1].prefix;
        struct ron_str b = p->categories[i].prefix;

        RON_ASSERT(memcmp(a.ptr, b.ptr, RON_MIN(a.len, b.len)) < 0);
    }
    RON_ASSERT(p->emission != RWD_EMIT_HALVING ||
               (p->emission_epoch_ms > 0 && p->emission_period > 0));
}

static void check_again(const struct rwd_policy_doc *doc)
{
    struct ron_str bytes = rwd_policy_bytes(doc);
    struct rwd_policy_doc *again = NULL;

    RON_ASSERT(rwd_policy_draft(bytes.ptr, bytes.len, &again, NULL) == RON_OK);
    RON_ASSERT(rwd_policy_bytes(again).len == bytes.len);
    RON_ASSERT(memcmp(rwd_policy_bytes(again).ptr, bytes.ptr, bytes.len) == 0);
    RON_ASSERT(ron_b3_equal(&rwd_policy_of(again)->hash, &rwd_policy_of(doc)->hash));
    rwd_policy_free(again);
}

static void check_signature(struct rwd_policy_doc *doc)
{
    struct rwd_policy_doc *again = NULL;
    struct ron_buf text;

    ron_buf_init(&text, 2 * RWD_POLICY_TEXT_MAX);
    RON_ASSERT(rwd_policy_sign(doc, "k", seed, NULL) == RON_OK);
    RON_ASSERT(rwd_policy_write(doc, &text) == RON_OK);
    if (ron_buf_len(&text) <= RWD_POLICY_TEXT_MAX) {
        RON_ASSERT(rwd_policy_read(ron_buf_data(&text), ron_buf_len(&text), &other, 1, &again,
                                   NULL) == RON_DENIED);
        RON_ASSERT(rwd_policy_read(ron_buf_data(&text), ron_buf_len(&text), &right, 1, &again,
                                   NULL) == RON_OK);
        RON_ASSERT(rwd_policy_of(again)->is_signed);
        RON_ASSERT(ron_b3_equal(&rwd_policy_of(again)->hash, &rwd_policy_of(doc)->hash));
        rwd_policy_free(again);
    }
    ron_buf_done(&text);
}

static void check_use(const struct rwd_policy *p)
{
    static const char *const accounts[] = {"a", "b/1", "t:1/x", "t:1/y", "z"};
    struct rwd_calc_input input = {.policy = p, .pool = {1000003}, .produced_at_ms = 12345678};
    struct rwd_rows *rows = NULL;
    struct rwd_result *r = NULL;

    RON_ASSERT(rwd_rows_new(NULL, &rows, NULL) == RON_OK);
    for (uint64_t i = 0; i < RON_ARRAY_LEN(accounts); i++) {
        struct rwd_counters c = {i * i * 1000, UINT64_MAX >> i * 13, 3600 - i};

        RON_ASSERT(rwd_rows_add(rows, (struct ron_str){accounts[i], strlen(accounts[i])}, &c,
                                NULL) == RON_OK);
    }
    RON_ASSERT(rwd_rows_seal(rows, NULL) == RON_OK);
    input.rows = rows;
    RON_ASSERT(rwd_calc(&input, &r, NULL) == RON_OK);
    RON_ASSERT(rwd_calc_check(&input, r, NULL) == rwd_result_breach(r));
    rwd_result_free(r);
    rwd_rows_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rwd_policy_doc *doc = NULL;
    struct ron_err err = {0};
    enum ron_rc rc = rwd_policy_read(data, size, &right, 1, &doc, &err);

    if (rc == RON_OK) {
        const struct rwd_policy *p = rwd_policy_of(doc);

        RON_ASSERT(p->is_signed || (p->funding != RWD_FUND_PROTOCOL_POOL &&
                                    p->funding != RWD_FUND_GOVERNANCE_BUDGET));
        rwd_policy_free(doc);
        doc = NULL;
    } else {
        RON_ASSERT(rc == RON_INVALID || rc == RON_LIMIT || rc == RON_DENIED);
        RON_ASSERT(doc == NULL && err.msg[0] != '\0');
    }
    if (rwd_policy_draft(data, size, &doc, NULL) != RON_OK) {
        return 0;
    }
    check_rules(rwd_policy_of(doc));
    check_again(doc);
    check_use(rwd_policy_of(doc));
    check_signature(doc);
    rwd_policy_free(doc);
    return 0;
}
