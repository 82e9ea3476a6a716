/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_led_preval.c - any bytes as a request: token, body in both forms, policy.
 *
 * The first byte chooses the form (bit 0), the token (bits 1-3) and whether it is an import
 * (bit 4); the rest is the body.
 * Oracle: the arena that led_preval_arena_size asks for is enough, so no refusal is for its sake; a
 * refusal is of the taxonomy, names an entry that can be there, and can be told as JSON; without a
 * token nothing of the body matters; what passes has canonical leaves and their hashes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/guard/guard.h"
#include "ledger/pipeline/preval.h"
#include "ron/base/assert.h"
#include "ron/io/linux_env.h"
#include "support/cap_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TOKENS = 8, BODY_MAX = 1 << 17 };

#define NOW UINT64_C(1800000000000)

static const uint8_t key[16] = "0123456789abcde";
static struct led_guard *guard;
static struct led_preval preval;
static char tokens[TOKENS][RON_CAP_TEXT_MAX + 1];

static void mint(const struct ron_cap_keys *keys, size_t at, const char *caveat)
{
    struct ron_str one = {caveat, strlen(caveat)};
    struct ron_buf out;

    ron_buf_init_over(&out, tokens[at], sizeof tokens[at]);
    RON_ASSERT(ron_cap_mint(keys, ron_env_linux(),
                            &(struct ron_cap_mint_opts){.caveats = &one, .caveat_count = 1}, &out,
                            NULL) == RON_OK);
    (void)ron_buf_text(&out);
}

/* Token 0 is none, 1 is no token. */
static void set_up(void)
{
    static const char policy_text[] =
        "v = 1\nfreeze = [\"t:bad\"]\n[[limit]]\naccount = \"t:demo\"\n"
        "max_amount = \"100\"\n[[residency]]\naccount = \"t:eu\"\n"
        "tag = \"eu\"\n";
    static const char *const caveats[TOKENS] = {
        NULL,           NULL,
        "aud = ledger", "scope = ledger.transfer,ledger.hold",
        "aud = wallet", "account = t:demo",
        "max = 5",      "scope = ledger.import,ledger.transfer"};
    static struct ron_cap_ring ring;
    struct ron_cap_verifier *verifier = NULL;
    struct ron_cap_keys *keys = NULL;
    struct led_policy *policy = NULL;

    RON_ASSERT(ron_cap_keys_ephemeral(ron_env_linux(), &keys, NULL) == RON_OK);
    memcpy(tokens[1], "abc", 4);
    for (size_t i = 2; i < TOKENS; i++) {
        mint(keys, i, caveats[i]);
    }
    ron_cap_ring_init(&ring, keys);
    RON_ASSERT(
        ron_cap_verifier_new(&(struct ron_cap_verifier_opts){.env = ron_env_linux(), .ring = &ring},
                             &verifier, NULL) == RON_OK);
    RON_ASSERT(led_policy_parse("p", policy_text, strlen(policy_text), &policy, NULL) == RON_OK);
    RON_ASSERT(led_guard_new(&(struct led_guard_opts){.env = ron_env_linux(),
                                                      .verifier = verifier,
                                                      .take_policy = policy,
                                                      .bridges = LED_BRIDGES_REQUIRE_CAP},
                             &guard, NULL) == RON_OK);
    preval = (struct led_preval){.guard = guard, .hash_key = key};
}

static void expect_refusal(const struct led_work *w, size_t token)
{
    static const uint8_t root[32];
    struct ron_buf out;

    RON_ASSERT(w->result == LED_RESULT_REFUSED);
    RON_ASSERT(w->refusals.count > 0 && w->refusals.count <= LED_REFUSALS_MAX);
    for (size_t i = 0; i < w->refusals.count; i++) {
        const struct led_refusal *r = &w->refusals.items[i];

        RON_ASSERT(r->reason == LED_REASON_UNAUTH || r->reason == LED_REASON_CAP_INVALID ||
                   r->reason == LED_REASON_UNKNOWN_KIND || r->reason == LED_REASON_POLICY_DENIED ||
                   r->reason == LED_REASON_TOO_LARGE || r->reason == LED_REASON_INVALID);
        RON_ASSERT((r->reason == LED_REASON_UNAUTH) == (token < 2));
        RON_ASSERT(r->idx < LED_BATCH_BIN_MAX && r->detail[0] != '\0');
        RON_ASSERT(led_reason_http_status(r->reason) / 100 == 4);
    }
    ron_buf_init(&out, (size_t)1 << 16);
    led_response_to_json(&out, &(struct led_response){.new_root = root, .refusals = &w->refusals});
    RON_ASSERT(ron_json_check(ron_buf_text(&out), ron_buf_len(&out), NULL) == RON_OK);
    ron_buf_done(&out);
}

static void expect_whole(const struct led_work *w)
{
    RON_ASSERT(w->batch.count > 0 && w->batch.count <= LED_BATCH_BIN_MAX);
    for (size_t i = 0; i < w->batch.count; i++) {
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        size_t len = (size_t)(led_entry_encode(&w->batch.entries[i], leaf) - leaf);
        struct ron_tree_hash hash;

        RON_ASSERT(w->leaves[i].len == len && memcmp(w->leaves[i].ptr, leaf, len) == 0);
        ron_tree_hash_leaf(leaf, len, &hash);
        RON_ASSERT(ron_tree_hash_equal(&hash, &w->hashes[i]));
        RON_ASSERT(w->batch.entries[i].kind != LED_KIND_EXPIRE);
        w->links[i] = (struct led_links){0};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char body[BODY_MAX];
    struct led_work w = {.magic = LED_WORK_MAGIC};
    size_t token;
    enum led_next next;

    if (guard == NULL) {
        set_up();
    }
    if (size == 0 || size > BODY_MAX) {
        return 0;
    }
    token = data[0] >> 1 & 7;
    memcpy(body, data + 1, size - 1);
    w.form = (data[0] & 1) != 0 ? LED_FORM_BINARY : LED_FORM_JSON;
    w.flags = (data[0] >> 4 & 1) != 0 ? LED_APPLY_IMPORT : 0;
    w.in = (struct ron_str){body, size - 1};
    w.caller = (struct led_caller){.token = {tokens[token], strlen(tokens[token])},
                                   .peer_scopes = led_guard_peer_scopes(guard, NULL, NULL)};
    RON_ASSERT(ron_arena_init(&w.arena, led_preval_arena_size(w.form, w.in)) == RON_OK);
    next = led_preval_step(&preval, &w, NOW);
    RON_ASSERT(!ron_arena_overflowed(&w.arena));
    if (next == LED_NEXT_ANSWER) {
        expect_refusal(&w, token);
    } else {
        RON_ASSERT(next == (w.look_up != 0 ? LED_NEXT_READERS : LED_NEXT_SEQUENCER));
        expect_whole(&w);
    }
    ron_arena_done(&w.arena);
    return 0;
}
