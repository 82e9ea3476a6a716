/* SPDX-License-Identifier: Apache-2.0 */
/* bench_iop_verify.c - what it costs to verify a webhook, beside the bare hash of its body.
 *
 * Per repetition each variant runs ROUNDS times on one thread; figures are nanoseconds of CPU per
 * delivery of 4 KiB, median (min..max). "hash" is SHA-256 of the body and nothing else; a head has
 * the headers that GitHub sends. */
#include "bench/bench.h"
#include "interop/provider/sign.h"

enum { ROUNDS = 20000, BODY = 4096 };
#define NOW_MS INT64_C(1700000000000)
#define SECRET "It's a Secret to Everybody"

static char body[BODY];
static struct ron_http_head head;
static struct iop_signed fields;

static void add(const char *name, const char *value)
{
    head.fields[head.field_count++] =
        (struct ron_http_field){{name, strlen(name)}, {value, strlen(value)}};
}

static void make(enum iop_kind kind, struct iop_provider *p)
{
    struct iop_signer s;

    memset(body, 'x', sizeof body);
    memcpy(body, "{\"id\":\"evt_1\",\"type\":\"a.b\",\"text\":\"", 36);
    memcpy(body + sizeof body - 2, "\"}", 2);
    BENCH_OK(iop_provider_init(p, "x", iop_scheme_of(kind), NULL));
    BENCH_OK(iop_provider_add_key(p, SECRET, strlen(SECRET), NULL));
    p->enabled = true;
    BENCH_OK(iop_signer_init(&s, iop_scheme_of(kind), SECRET, strlen(SECRET), NULL));
    BENCH_OK(iop_sign(&s,
                      &(struct iop_to_sign){.id = {"id-1", 4},
                                            .event = {"push", 4},
                                            .now_unix_ms = NOW_MS,
                                            .body = body,
                                            .len = sizeof body},
                      &fields, NULL));
    iop_signer_done(&s);
    memset(&head, 0, sizeof head);
    add("Host", "hooks.example.org");
    add("User-Agent", "GitHub-Hookshot/044aadd");
    add("Accept", "*/*");
    add("Content-Type", "application/json");
    add("Content-Length", "4096");
    add("X-GitHub-Hook-ID", "292430182");
    add("X-GitHub-Hook-Installation-Target-ID", "79929171");
    add("X-GitHub-Hook-Installation-Target-Type", "repository");
    for (size_t i = 0; i < fields.count; i++) {
        add(fields.fields[i].name, fields.fields[i].value);
    }
}

static double hashes(void)
{
    uint64_t began = bench_cpu_ns();
    uint8_t digest[32];

    for (size_t i = 0; i < ROUNDS; i++) {
        iop_sha256(body, sizeof body, digest);
        BENCH_KEEP(digest[0]);
    }
    return (double)(bench_cpu_ns() - began) / ROUNDS;
}

static double verifies(const struct iop_provider *p, enum iop_refusal want)
{
    static struct iop_delivery d;
    struct iop_message m = {
        .target = {"/x", 2}, .body = body, .len = sizeof body, .now_unix_ms = NOW_MS};
    uint64_t began = bench_cpu_ns();

    for (size_t i = 0; i < ROUNDS; i++) {
        enum iop_refusal refusal = iop_check_head(p, &head, NOW_MS, &d);

        if (refusal == IOP_REFUSE_NONE) {
            refusal = iop_check_body(p, &m, &d);
        }
        BENCH_TRUE(refusal == want);
    }
    return (double)(bench_cpu_ns() - began) / ROUNDS;
}

int main(void)
{
    static struct bench_series hash, github, stripe, wrong;
    struct bench_noise noise = bench_noise_now();
    struct iop_provider p;

    for (size_t rep = 0; rep <= bench_reps(); rep++) {
        double figures[4];

        make(IOP_KIND_GITHUB, &p);
        figures[0] = hashes();
        figures[1] = verifies(&p, IOP_REFUSE_NONE);
        body[100] ^= 1;
        figures[3] = verifies(&p, IOP_REFUSE_SIG_WRONG);
        make(IOP_KIND_STRIPE, &p);
        figures[2] = verifies(&p, IOP_REFUSE_NONE);
        if (rep > 0) {
            bench_add(&hash, figures[0]);
            bench_add(&github, figures[1]);
            bench_add(&stripe, figures[2]);
            bench_add(&wrong, figures[3]);
        }
    }
    printf("| 4 KiB | ns | beside the hash |\n|---|---|---|\n");
    printf("| SHA-256 alone | %s | |\n", bench_span(&hash, 0).s);
    printf("| github, verified | %s | %.2f |\n", bench_span(&github, 0).s,
           bench_ratio(&github, &hash));
    printf("| github, refused | %s | %.2f |\n", bench_span(&wrong, 0).s,
           bench_ratio(&wrong, &hash));
    printf("| stripe, verified, with id and event out of the body | %s | %.2f |\n\n",
           bench_span(&stripe, 0).s, bench_ratio(&stripe, &hash));
    bench_noise_print(noise);
    return 0;
}
