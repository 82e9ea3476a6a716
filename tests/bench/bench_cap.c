/* SPDX-License-Identifier: Apache-2.0 */
/* bench_cap.c - what a capability costs: minted, verified the long way, and found in the table.
 *
 * Per repetition each variant runs ROUNDS times on one thread; figures are nanoseconds per call,
 * median (min..max). Two tokens: a plain one of two caveats, and one with a caveat of each kind
 * that a service asks for. `bench_cap hit N` runs N hits of the latter and nothing else, for a
 * counter of instructions. */
#include <inttypes.h>

#include "bench/bench.h"
#include "cap/cap_priv.h"
#include "cap/cap_testing.h"
#include "ron/cap/verifier.h"
#include "ron/io/linux_env.h"
#include "support/cap_keys.h"

enum { ROUNDS = 20000, CHAIN_ROUNDS = 2000 };

struct rig {
    struct ron_cap_keys *keys;
    struct ron_cap_ring ring;
    struct ron_cap_verifier *verifier;
};

static struct ron_str str(const char *text)
{
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

static const char *const few[] = {"aud = wallet", "exp = 1999999999"};
static const char *const many[] = {"aud = wallet",
                                   "scope = wallet.transfer,wallet.read",
                                   "account = t:demo/u:alice",
                                   "asset = roc",
                                   "max = 100000",
                                   "exp = 1999999999",
                                   "tenant = demo"};

struct variant {
    const char *name;
    const char *const *caveats;
    size_t count;
    char token[RON_CAP_TEXT_MAX + 1];
    struct bench_series mint, verify, hit;
};

static void mint(const struct rig *rig, struct variant *v)
{
    struct ron_str list[8];
    struct ron_buf out;

    for (size_t i = 0; i < v->count; i++) {
        list[i] = str(v->caveats[i]);
    }
    ron_buf_init_over(&out, v->token, sizeof v->token);
    BENCH_OK(ron_cap_mint(rig->keys, ron_env_linux(),
                          &(struct ron_cap_mint_opts){.caveats = list, .caveat_count = v->count},
                          &out, NULL));
    (void)ron_buf_text(&out);
}

static struct ron_cap_request request(const struct ron_str *account)
{
    return (struct ron_cap_request){.audience = str("wallet"),
                                    .scope = str("wallet.transfer"),
                                    .accounts = account,
                                    .account_count = 1,
                                    .asset = str("roc"),
                                    .amount = ron_money_of(500),
                                    .tenant = str("demo"),
                                    .now_ms = UINT64_C(1800000000000)};
}

static double hits(struct rig *rig, const struct variant *v, uint64_t rounds)
{
    struct ron_str account = str("t:demo/u:alice/w");
    struct ron_cap_request q = request(&account);
    struct ron_str token = str(v->token);
    struct ron_cap_info info;
    uint64_t before = bench_now_ns();

    for (uint64_t i = 0; i < rounds; i++) {
        BENCH_TRUE(ron_cap_verifier_check(rig->verifier, token, &q, &info) == RON_CAP_OK);
    }
    return (double)(bench_now_ns() - before) / (double)rounds;
}

static void measure(struct rig *rig, struct variant *v, bool keep)
{
    struct ron_str account = str("t:demo/u:alice/w");
    struct ron_cap_request q = request(&account);
    uint64_t start = bench_now_ns();
    double mint_ns;
    double verify_ns;
    double hit_ns;

    for (int i = 0; i < CHAIN_ROUNDS; i++) {
        mint(rig, v);
    }
    mint_ns = (double)(bench_now_ns() - start) / CHAIN_ROUNDS;
    start = bench_now_ns();
    for (int i = 0; i < CHAIN_ROUNDS; i++) {
        BENCH_TRUE(ron_cap_verify(rig->keys, str(v->token), &q, NULL) == RON_CAP_OK);
    }
    verify_ns = (double)(bench_now_ns() - start) / CHAIN_ROUNDS;
    hit_ns = hits(rig, v, ROUNDS);
    if (keep) {
        bench_add(&v->mint, mint_ns);
        bench_add(&v->verify, verify_ns);
        bench_add(&v->hit, hit_ns);
    }
}

int main(int argc, char **argv)
{
    static struct variant variants[] = {
        {.name = "2 caveats", .caveats = few, .count = RON_ARRAY_LEN(few)},
        {.name = "7 caveats", .caveats = many, .count = RON_ARRAY_LEN(many)},
    };
    struct bench_noise noise = bench_noise_now();
    struct rig rig = {0};

    BENCH_OK(ron_cap_keys_ephemeral(ron_env_linux(), &rig.keys, NULL));
    ron_cap_ring_init(&rig.ring, ron_cap_keys_ref(rig.keys));
    BENCH_OK(ron_cap_verifier_new(
        &(struct ron_cap_verifier_opts){.env = ron_env_linux(), .ring = &rig.ring}, &rig.verifier,
        NULL));
    if (argc == 3 && strcmp(argv[1], "hit") == 0) {
        mint(&rig, &variants[1]);
        (void)hits(&rig, &variants[1], strtoull(argv[2], NULL, 10));
    } else {
        for (size_t rep = 0; rep <= bench_reps(); rep++) {
            for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
                measure(&rig, &variants[i], rep > 0);
            }
        }
        printf("| token | characters | mint ns | verify ns | hit ns |\n|---|---|---|---|---|\n");
        for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
            const struct variant *v = &variants[i];

            printf("| %s | %zu | %s | %s | %s |\n", v->name, strlen(v->token),
                   bench_span(&v->mint, 0).s, bench_span(&v->verify, 0).s,
                   bench_span(&v->hit, 0).s);
        }
        printf("\n");
        bench_noise_print(noise);
    }
    ron_cap_verifier_free(rig.verifier);
    ron_cap_ring_done(&rig.ring);
    ron_cap_keys_unref(rig.keys);
    return 0;
}
