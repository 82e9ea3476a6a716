/* SPDX-License-Identifier: Apache-2.0 */
/* bench_led_preval.c - what prevalidation costs: a batch of 1,000 transfers from its bytes and a
 * token to a work that can be ordered.
 *
 * Binary and JSON; a token with audience, scope, expiry and account, which is in the verifier's
 * table; no policy, and one with 1,000 limits and 1,000 frozen accounts. Each repetition runs
 * ROUNDS batches of each variant on one thread. Figures are nanoseconds of processor time per
 * transfer, median (min..max). `bench_led_preval NAME N` runs one variant N times and nothing else,
 * for a counter of instructions. */
#include <inttypes.h>

#include "bench/bench.h"
#include "ledger/guard/guard.h"
#include "ledger/pipeline/preval.h"
#include "ron/base/alloc.h"
#include "ron/io/linux_env.h"
#include "support/cap_keys.h"

enum { BATCH = 1000, ROUNDS = 200, AIM_NS = 400 };

#define NOW UINT64_C(1700000000000)

static const uint8_t key[16] = "0123456789abcde";
static struct ron_cap_ring ring;
static struct ron_cap_verifier *verifier;
static char token[RON_CAP_TEXT_MAX + 1];
static struct ron_arena arena;
static struct ron_buf binary;
static struct ron_buf json;
static char *json_copy; /* JSON is changed in place */

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static void make_token(void)
{
    static const char *const texts[] = {"aud = ledger", "scope = ledger.transfer",
                                        "exp = 1800000000", "account = t:demo"};
    struct ron_str caveats[RON_ARRAY_LEN(texts)];
    struct ron_cap_keys *keys = NULL;
    struct ron_buf out;

    for (size_t i = 0; i < RON_ARRAY_LEN(texts); i++) {
        caveats[i] = str(texts[i]);
    }
    BENCH_OK(ron_cap_keys_ephemeral(ron_env_linux(), &keys, NULL));
    ron_cap_ring_init(&ring, keys);
    BENCH_OK(ron_cap_verifier_new(
        &(struct ron_cap_verifier_opts){.env = ron_env_linux(), .ring = &ring}, &verifier, NULL));
    ron_buf_init_over(&out, token, sizeof token);
    BENCH_OK(ron_cap_mint(
        keys, ron_env_linux(),
        &(struct ron_cap_mint_opts){.caveats = caveats, .caveat_count = RON_ARRAY_LEN(caveats)},
        &out, NULL));
    (void)ron_buf_text(&out);
}

static void make_bodies(void)
{
    static struct led_entry entries[BATCH];
    static char ids[BATCH][32];
    static char names[2 * BATCH][24];
    struct led_batch batch = {.entries = entries, .count = BATCH, .idem_id = str("idem-1")};
    struct ron_json_writer w;

    ron_buf_init(&binary, 1 << 20);
    ron_buf_init(&json, 1 << 20);
    ron_json_begin(&w, &json);
    ron_json_open(&w, NULL, '{');
    ron_json_open(&w, "batch", '[');
    for (uint64_t i = 0; i < BATCH; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "01HF%022" PRIu64, i);
        (void)snprintf(names[i], sizeof names[i], "t:demo/u:%07" PRIu64 "/w", i * 997 % 1000000);
        (void)snprintf(names[BATCH + i], sizeof names[i], "t:demo/u:%07" PRIu64 "/w",
                       i * 991 % 1000000 + 7);
        entries[i] = (struct led_entry){.id = {ids[i], 26},
                                        .account = str(names[i]),
                                        .to = str(names[BATCH + i]),
                                        .asset = {"roc", 3},
                                        .kid = {"k1", 2},
                                        .capability_ref = {"c1", 2},
                                        .amount = ron_money_of(i + 1),
                                        .ts_ms = NOW,
                                        .kind = LED_KIND_TRANSFER,
                                        .v = 1};
        memcpy(entries[i].nonce, &i, sizeof i);
        led_entry_to_json(&w, NULL, &entries[i], 0);
    }
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    BENCH_OK(ron_buf_error(&json));
    BENCH_OK(led_batch_encode(&batch, &binary));
    json_copy = ron_alloc(ron_buf_len(&json));
    BENCH_TRUE(json_copy != NULL);
    BENCH_OK(ron_arena_init(&arena, (size_t)4 << 20));
}

static struct led_guard *make_guard(bool with_policy)
{
    struct led_policy *policy = NULL;
    struct led_guard *guard = NULL;
    struct ron_buf text;

    if (with_policy) {
        ron_buf_init(&text, 1 << 20);
        BENCH_OK(ron_buf_append_text(&text, "v = 1\nfreeze = ["));
        for (int i = 0; i < 1000; i++) {
            BENCH_OK(ron_buf_append_fmt(&text, "\"t:demo/u:9%06d\",\n", i));
        }
        BENCH_OK(ron_buf_append_text(&text, "]\n"));
        for (int i = 0; i < 1000; i++) {
            BENCH_OK(ron_buf_append_fmt(
                &text, "[[limit]]\naccount = \"t:demo/u:%07d\"\nmax_amount = \"1000000\"\n",
                i * 1000));
        }
        BENCH_OK(led_policy_parse("bench", (const char *)ron_buf_data(&text), ron_buf_len(&text),
                                  &policy, NULL));
        ron_buf_done(&text);
    }
    BENCH_OK(led_guard_new(&(struct led_guard_opts){.env = ron_env_linux(),
                                                    .verifier = verifier,
                                                    .take_policy = policy},
                           &guard, NULL));
    return guard;
}

struct variant {
    const char *name;
    bool json;
    bool policy;
    struct led_guard *guard;
    struct bench_series ns, parse_ns, guard_ns;
};

/* One batch; adds what it took to spent[parse, guards]. */
static void run_one(const struct variant *v, uint64_t spent[2])
{
    struct led_work w = {.magic = LED_WORK_MAGIC,
                         .form = v->json ? LED_FORM_JSON : LED_FORM_BINARY};
    const struct ron_buf *body = v->json ? &json : &binary;
    uint64_t t[4];

    w.in = (struct ron_str){(const char *)ron_buf_data(body), ron_buf_len(body)};
    if (v->json) {
        memcpy(json_copy, w.in.ptr, w.in.len);
        w.in.ptr = json_copy;
    }
    ron_arena_clear(&arena);
    w.arena = arena;
    w.caller = (struct led_caller){.token = str(token),
                                   .peer_scopes = led_guard_peer_scopes(v->guard, NULL, NULL)};
    t[0] = bench_cpu_ns();
    BENCH_TRUE(led_guard_admit(v->guard, &w, NOW) == LED_VERDICT_OK);
    t[1] = bench_cpu_ns();
    BENCH_TRUE(led_preval_parse(key, &w));
    t[2] = bench_cpu_ns();
    BENCH_TRUE(led_guard_check(v->guard, &w) == LED_VERDICT_OK);
    t[3] = bench_cpu_ns();
    spent[0] += t[2] - t[1];
    spent[1] += t[3] - t[2] + t[1] - t[0];
}

static void run(struct variant *v, bool keep)
{
    uint64_t spent[2] = {0};

    for (int i = 0; i < ROUNDS; i++) {
        run_one(v, spent);
    }
    if (keep) {
        bench_add(&v->parse_ns, (double)spent[0] / (ROUNDS * BATCH));
        bench_add(&v->guard_ns, (double)spent[1] / (ROUNDS * BATCH));
        bench_add(&v->ns, (double)(spent[0] + spent[1]) / (ROUNDS * BATCH));
    }
}

int main(int argc, char **argv)
{
    static struct variant variants[] = {{.name = "binary"},
                                        {.name = "binary-policy", .policy = true},
                                        {.name = "json", .json = true}};
    uint64_t spent[2] = {0};
    struct bench_noise noise = bench_noise_now();
    size_t reps = bench_reps();

    make_token();
    make_bodies();
    for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
        struct variant *v = &variants[i];

        v->guard = make_guard(v->policy);
        if (argc == 3 && strcmp(argv[1], v->name) == 0) {
            for (unsigned long n = strtoul(argv[2], NULL, 10); n > 0; n--) {
                run_one(v, spent);
            }
            return 0;
        }
    }
    for (size_t rep = 0; rep <= reps; rep++) {
        for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
            run(&variants[i], rep > 0);
        }
    }
    printf("Prevalidation of batches of %d transfers, ns per transfer\n\n", BATCH);
    printf("| | all | parse and hash | guards |\n|---|---|---|---|\n");
    for (size_t i = 0; i < RON_ARRAY_LEN(variants); i++) {
        printf("| %s | %s | %s | %s |\n", variants[i].name, bench_span(&variants[i].ns, 0).s,
               bench_span(&variants[i].parse_ns, 0).s, bench_span(&variants[i].guard_ns, 0).s);
    }
    printf("\nBinary, aim at most %d ns: %s\n", AIM_NS,
           bench_verdict(bench_median(&variants[0].ns) <= AIM_NS));
    bench_noise_print(noise);
    return 0;
}
