/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/bench.c - `ron bench`: how fast the running system takes transfers.
 *
 * A load from one process on the same machine, bounded in time and in calls under way. It moves
 * units of the asset `bench` between accounts of its own, so it leaves the books of people alone.
 * What it measures includes this client; docs/performance.md has measurements by other tools. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/money.h"
#include "cli/base/net.h"
#include "ron/base/alloc.h"
#include "ron/base/macros.h"
#include "ron/io/linux_env.h"
#include "ron/io/progress.h"

enum { ACCOUNTS = 64, BODY_SIZE = 192, SAMPLES_MAX = 1 << 20, KEY_SIZE = 64 };

struct slot {
    struct cli_pending *pending;
    uint64_t begin_ns;
    char body[BODY_SIZE];
    char key[KEY_SIZE];
};

struct bench {
    struct cli_client c;
    uint64_t seconds;
    uint64_t width;
    char run[CLI_KEY_SIZE]; /* makes the keys of this run its own */
    struct slot *slots;
    uint32_t *took_us;
    size_t samples;
    uint64_t sent;
    uint64_t good;
    uint64_t busy;
    uint64_t bad;
};

static int fund(struct bench *b)
{
    for (int i = 0; i < ACCOUNTS; i++) {
        struct cli_answer a = {0};
        char body[BODY_SIZE];
        char key[KEY_SIZE];
        int code;

        (void)snprintf(body, sizeof body,
                       "{\"to\":\"bench/%d\",\"amount_minor\":\"1000000000\",\"asset\":\"bench\"}",
                       i);
        (void)snprintf(key, sizeof key, "%s-fund-%d", b->run, i);
        code = cli_call(&b->c,
                        &(struct cli_call){.service = "wallet",
                                           .path = "/v1/issue",
                                           .method = RON_HTTP_POST,
                                           .body = {body, strlen(body)},
                                           .idem = key},
                        &a);
        cli_answer_done(&a);
        if (code != CLI_OK) {
            return code;
        }
    }
    return CLI_OK;
}

static bool send_one(struct bench *b, struct slot *s)
{
    uint64_t n = b->sent++;
    int len = snprintf(s->body, sizeof s->body,
                       "{\"from\":\"bench/%" PRIu64 "\",\"to\":\"bench/%" PRIu64
                       "\",\"amount_minor\":\"1\",\"asset\":\"bench\"}",
                       n % ACCOUNTS, (n + 1) % ACCOUNTS);

    (void)snprintf(s->key, sizeof s->key, "%s-%" PRIu64, b->run, n);
    s->begin_ns = ron_env_now_ns(ron_env_linux());
    s->pending = cli_call_start(&b->c, &(struct cli_call){.service = "wallet",
                                                          .path = "/v1/transfer",
                                                          .method = RON_HTTP_POST,
                                                          .body = {s->body, (size_t)len},
                                                          .idem = s->key});
    return s->pending != NULL;
}

static void take_one(struct bench *b, struct slot *s)
{
    struct cli_answer a;
    int code = cli_call_wait(&b->c, s->pending, &a);

    s->pending = NULL;
    if (code == CLI_OK) {
        uint64_t took = (ron_env_now_ns(ron_env_linux()) - s->begin_ns) / 1000;

        b->good++;
        if (b->samples < SAMPLES_MAX) {
            b->took_us[b->samples++] = (uint32_t)RON_MIN(took, (uint64_t)UINT32_MAX);
        }
    } else if (code == CLI_RETRY) {
        b->busy++;
    } else {
        b->bad++;
    }
    cli_answer_done(&a);
}

static int by_value(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x;
    uint32_t b = *(const uint32_t *)y;

    return a < b ? -1 : a > b;
}

static uint32_t at_share(const struct bench *b, size_t num, size_t den)
{
    return b->samples == 0 ? 0 : b->took_us[RON_MIN(b->samples * num / den, b->samples - 1)];
}

static void report(struct bench *b, uint64_t took_ms)
{
    uint64_t rate = took_ms == 0 ? 0 : b->good * RON_MS_PER_S / took_ms;

    qsort(b->took_us, b->samples, sizeof *b->took_us, by_value);
    if (b->c.json) {
        printf("{\"transfers\":%" PRIu64 ",\"busy\":%" PRIu64 ",\"failed\":%" PRIu64
               ",\"took_ms\":%" PRIu64 ",\"per_second\":%" PRIu64 ",\"p50_us\":%" PRIu32
               ",\"p99_us\":%" PRIu32 "}\n",
               b->good, b->busy, b->bad, took_ms, rate, at_share(b, 1, 2), at_share(b, 99, 100));
        return;
    }
    printf("transfers  %" PRIu64 " in %" PRIu64 " ms, %" PRIu64 " per second\n"
           "latency    p50 %" PRIu32 " us, p99 %" PRIu32 " us, %" PRIu64 " at once\n"
           "refused    %" PRIu64 " busy, %" PRIu64 " failed\n",
           b->good, took_ms, rate, at_share(b, 1, 2), at_share(b, 99, 100), b->width, b->busy,
           b->bad);
}

/* Calls go round: the oldest is waited for, and another takes its place. */
static int drive(struct bench *b)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_progress bar;
    uint64_t begin_ns;
    uint64_t end_ns;
    size_t at = 0;

    ron_progress_begin(&bar, env, "bench", "transfers");
    begin_ns = bar.begin_ns;
    end_ns = begin_ns + b->seconds * RON_NS_PER_S;
    bar.end_ns = end_ns;
    for (size_t i = 0; i < b->width; i++) {
        if (!send_one(b, &b->slots[i])) {
            break;
        }
    }
    while (ron_env_now_ns(env) < end_ns && b->slots[at].pending != NULL) {
        take_one(b, &b->slots[at]);
        if (!send_one(b, &b->slots[at])) {
            break;
        }
        at = (at + 1) % b->width;
        ron_progress_at(&bar, b->good, 0);
    }
    for (size_t i = 0; i < b->width; i++) {
        if (b->slots[i].pending != NULL) {
            take_one(b, &b->slots[i]);
        }
    }
    ron_progress_end(&bar);
    report(b, (ron_env_now_ns(env) - begin_ns) / RON_NS_PER_MS);
    return b->good > 0 && b->bad == 0 ? CLI_OK : CLI_FAILED;
}

int cli_bench(int argc, char **argv)
{
    struct bench b = {.seconds = 5, .width = 32};
    bool done = false;
    const struct cli_option options[] = {
        CLI_NUMBER("seconds", "N", "duration", &b.seconds, 1, 600),
        CLI_NUMBER("at-once", "N", "concurrent calls", &b.width, 1, CLI_CALLS_MAX),
        CLI_CLIENT_OPTIONS(&b.c),
    };
    int code =
        cli_parse("bench",
                  "Sends transfers to the running wallet and prints how many per second were\n"
                  "committed. Uses only accounts and an asset of its own, `bench`.\n\nexample:\n  "
                  "ron bench --seconds 10 --at-once 64",
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    b.slots = ron_alloc_array(b.width, sizeof *b.slots);
    b.took_us = ron_alloc_array(SAMPLES_MAX, sizeof *b.took_us);
    code = b.slots == NULL || b.took_us == NULL ? CLI_FAILED : cli_client_open(&b.c, "bench");
    cli_new_key(b.run);
    if (code == CLI_OK) {
        code = fund(&b);
    }
    if (code == CLI_OK) {
        code = drive(&b);
    }
    cli_client_done(&b.c);
    ron_free(b.slots);
    ron_free(b.took_us);
    return code;
}
