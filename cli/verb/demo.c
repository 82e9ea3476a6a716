/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/demo.c - `ron demo`: fills a believable economy at a visible pace.
 *
 * The demo is a list of steps, each made from its number alone, so it is the same every time: first
 * units for everybody, then payments, holds, captures, a burn now and then, maps looked at,
 * webhooks of two providers, and an epoch of rewards every EPOCH_EVERY steps. DATA/demo.json keeps
 * the number of the next step, and the idempotency keys are made of the number too: a demo that was
 * stopped goes on where it was, and nothing happens twice. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli.h"
#include "cli/base/hook.h"
#include "cli/base/net.h"
#include "cli/verb/reward_live.h"
#include "rewarder/offline/tool.h"
#include "ron/base/assert.h"
#include "ron/base/macros.h"
#include "ron/base/rand.h"
#include "ron/io/linux_env.h"
#include "ron/io/progress.h"
#include "ron/sync/sync.h"

enum {
    STEPS_MAX = 1000000,
    EPOCH_EVERY = 50,
    HOOK_EVERY = 5, /* webhooks: one every N steps, */
    CREDIT_EVERY =
        25, /* payments among them: one every N steps, well before the epoch is computed, */
    CREDIT_AT = 15,
    PARTS = 3, /* of the archive of the map, read in one step */
    PART_BYTES = 512,
    FORGED_AT = 20, /* and one with a forged signature */
    FIRST_UNITS = 10000,
    BODY_MAX = 1024,
    POLICY_MAX = 1 << 16,
    SNAPSHOT_MAX = 1 << 16,
};

static const char *const people[] = {"alice", "bob",   "carol", "dave", "erin",    "frank",
                                     "grace", "heidi", "ivan",  "judy", "mallory", "niaj"};
static const char *const shops[] = {"cafe", "bakery", "cinema", "bookshop", "hotel"};
static const char *const memos[] = {"coffee", "lunch", "tickets", "a book", "rent", "thanks"};

#define PEOPLE RON_ARRAY_LEN(people)
#define SHOPS RON_ARRAY_LEN(shops)

struct demo {
    struct cli_client c;
    uint64_t steps;
    uint64_t pace;
    bool quiet;
    uint64_t next;
    uint64_t done;
    uint64_t declined;
    char github[CLI_SECRET_SIZE]; /* empty: this system takes no webhooks of the demo */
    size_t github_len;
    char stripe[CLI_SECRET_SIZE];
    size_t stripe_len;
    char board[96];
    struct ron_progress bar;
};

/* ---- where it is ----------------------------------------------------------------------------- */

struct place {
    uint64_t next;
    uint64_t present;
};

static void load_place(struct demo *d)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct place, next, U64, .required = true, .max = STEPS_MAX),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct place, fields, present);
    struct place p = {0};
    char path[RON_FILE_PATH_SIZE + 16];
    struct ron_json_error bad;
    struct ron_err err = {0};
    struct ron_buf text;

    (void)snprintf(path, sizeof path, "%s/demo.json", d->c.sys.data);
    ron_buf_init(&text, BODY_MAX);
    if (ron_file_read_all(ron_env_linux(), path, &text, &err) == RON_OK &&
        ron_json_scan((char *)(uintptr_t)ron_buf_text(&text), ron_buf_len(&text), &shape, NULL, &p,
                      &bad) == RON_OK) {
        d->next = p.next;
    }
    ron_buf_done(&text);
}

static int save_place(const struct demo *d)
{
    char path[RON_FILE_PATH_SIZE + 16];
    char text[64];
    struct ron_err err = {0};
    int n = snprintf(text, sizeof text, "{\"next\":%" PRIu64 "}\n", d->next);

    (void)snprintf(path, sizeof path, "%s/demo.json", d->c.sys.data);
    if (ron_file_replace(ron_env_linux(), path, text, (size_t)n, 0600, &err) != RON_OK) {
        fprintf(stderr, "ron demo: %s\n", err.msg);
        return CLI_FAILED;
    }
    return CLI_OK;
}

static void tell(struct demo *d, const char *fmt, ...) RON_PRINTF(2, 3);

static void tell(struct demo *d, const char *fmt, ...)
{
    va_list args;

    if (d->quiet || d->c.json) {
        return;
    }
    ron_progress_end(&d->bar);
    printf("%5" PRIu64 "  ", d->next);
    va_start(args, fmt);
    (void)vprintf(fmt, args);
    va_end(args);
    printf("\n");
    (void)fflush(stdout);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A write of the wallet. A refusal for lack of funds is life; any other ends the demo. */
static int wallet(struct demo *d, const char *op, const char *key, const char *body, char *ret_txid)
{
    struct receipt {
        struct ron_str txid;
        uint64_t present;
    } r = {0};
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct receipt, txid, STRING, .required = true, .max = 63),
    };
    struct ron_json_shape shape = RON_JSON_SHAPE(struct receipt, fields, present);
    struct ron_json_error bad;
    struct cli_answer a = {0};
    char path[32];
    const struct cli_call call = {.service = "wallet",
                                  .path = path,
                                  .method = RON_HTTP_POST,
                                  .body = {body, strlen(body)},
                                  .idem = key};
    int code;

    shape.allow_unknown = true;
    (void)snprintf(path, sizeof path, "/v1/%s", op);
    code = cli_call_quiet(&d->c, &call, &a);
    if (code == CLI_OK && ret_txid != NULL &&
        ron_json_scan((char *)(uintptr_t)ron_buf_text(&a.body), ron_buf_len(&a.body), &shape, NULL,
                      &r, &bad) == RON_OK) {
        (void)snprintf(ret_txid, 64, "%.*s", (int)r.txid.len, r.txid.ptr);
    }
    if (a.status == 409) {
        d->declined++;
        tell(d, "%s declined: insufficient funds", op);
        code = CLI_OK;
    } else if (code != CLI_OK) {
        code = cli_tell_refusal(&d->c, &call, &a);
    }
    cli_answer_done(&a);
    return code;
}

static int first_units(struct demo *d, const char *key)
{
    const char *who = people[d->next % PEOPLE];
    char body[BODY_MAX];

    (void)snprintf(body, sizeof body,
                   "{\"to\":\"%s\",\"amount_minor\":\"%d\",\"memo\":\"welcome\"}", who,
                   FIRST_UNITS);
    tell(d, "issue %d roc to %s", FIRST_UNITS, who);
    return wallet(d, "issue", key, body, NULL);
}

static int payment(struct demo *d, const char *key, struct ron_rand *rand)
{
    size_t from = ron_rand_below(rand, PEOPLE);
    bool shop = ron_rand_chance(rand, 2, 3);
    const char *to = shop ? shops[ron_rand_below(rand, SHOPS)]
                          : people[(from + 1 + ron_rand_below(rand, PEOPLE - 1)) % PEOPLE];
    uint64_t amount = ron_rand_range(rand, 5, 400);
    const char *memo = memos[ron_rand_below(rand, RON_ARRAY_LEN(memos))];
    char body[BODY_MAX];

    (void)snprintf(body, sizeof body,
                   "{\"from\":\"%s\",\"to\":\"%s\",\"amount_minor\":\"%" PRIu64
                   "\",\"memo\":\"%s\"}",
                   people[from], to, amount, memo);
    tell(d, "%s pays %s %" PRIu64 " roc (%s)", people[from], to, amount, memo);
    return wallet(d, "transfer", key, body, NULL);
}

/* A hold, and some of it captured by the hotel at once: both have keys of this step. */
static int stay(struct demo *d, const char *key, struct ron_rand *rand)
{
    const char *who = people[ron_rand_below(rand, PEOPLE)];
    uint64_t amount = ron_rand_range(rand, 100, 600);
    char txid[64] = "";
    char second[64];
    char body[BODY_MAX];
    int code;

    (void)snprintf(body, sizeof body, "{\"from\":\"%s\",\"amount_minor\":\"%" PRIu64 "\"}", who,
                   amount);
    tell(d, "the hotel holds %" PRIu64 " roc of %s and takes %" PRIu64, amount, who,
         amount * 3 / 4);
    code = wallet(d, "hold", key, body, txid);
    if (code != CLI_OK || txid[0] == '\0') {
        return code;
    }
    (void)snprintf(second, sizeof second, "%s-pay", key);
    (void)snprintf(body, sizeof body,
                   "{\"hold\":\"%s\",\"from\":\"%s\",\"to\":\"hotel\",\"amount_minor\":\"%" PRIu64
                   "\"}",
                   txid, who, amount * 3 / 4);
    return wallet(d, "capture", second, body, NULL);
}

static int burn(struct demo *d, const char *key, struct ron_rand *rand)
{
    const char *who = shops[ron_rand_below(rand, SHOPS)];
    char body[BODY_MAX];

    (void)snprintf(body, sizeof body, "{\"from\":\"%s\",\"amount_minor\":\"1\",\"memo\":\"fee\"}",
                   who);
    tell(d, "%s burns 1 roc as a fee", who);
    return wallet(d, "burn", key, body, NULL);
}

/* A map that is not there is no reason to stop. */
static void get_map(struct demo *d, const char *path, const struct ron_http_fetch_header *range)
{
    struct cli_answer a = {0};

    (void)cli_call_quiet(&d->c,
                         &(struct cli_call){.service = "edge",
                                            .path = path,
                                            .method = RON_HTTP_GET,
                                            .no_token = true,
                                            .more = range,
                                            .more_count = range != NULL},
                         &a);
    cli_answer_done(&a);
}

/* Map requests to the sample pack: a tile, and parts of the archive as map libraries
 * read it. */
static void look_at_map(struct demo *d, struct ron_rand *rand)
{
    uint64_t z = ron_rand_below(rand, 4);
    uint64_t side = UINT64_C(1) << z;
    char path[96];
    char text[48];

    if (cli_service_url(&d->c.sys, "edge") == NULL) {
        return;
    }
    (void)snprintf(path, sizeof path, "/edge/assets/world/%" PRIu64 "/%" PRIu64 "/%" PRIu64 ".mvt",
                   z, ron_rand_below(rand, side), ron_rand_below(rand, side));
    get_map(d, path, NULL);
    for (uint64_t i = 0; i < PARTS; i++) {
        int n = snprintf(text, sizeof text, "bytes=%" PRIu64 "-%" PRIu64, i * PART_BYTES,
                         i * PART_BYTES + PART_BYTES - 1);

        get_map(d, "/edge/assets/world.pmtiles",
                &(struct ron_http_fetch_header){"Range", {text, (size_t)n}});
    }
}

/* ---- webhooks -------------------------------------------------------------------------------- */

/* A push, a card payment, or a forged webhook. */
static int webhook(struct demo *d, struct ron_rand *rand)
{
    uint64_t at = d->next % CREDIT_EVERY;
    const char *who = people[ron_rand_below(rand, PEOPLE)];
    uint64_t amount = ron_rand_range(rand, 100, 2000);
    bool pays = at == CREDIT_AT;
    char memory[BODY_MAX];
    char id[48];
    struct cli_answer a = {0};
    struct ron_buf body;
    struct cli_hook h = {.provider = pays ? CLI_HOOK_STRIPE : CLI_HOOK_GITHUB,
                         .secret = pays ? d->stripe : d->github,
                         .secret_len = pays ? d->stripe_len : d->github_len,
                         .id = id,
                         .event = pays ? "payment_intent.succeeded" : "push",
                         .type = "application/json",
                         .body = &body,
                         .broken = at == FORGED_AT,
                         .quiet = true};
    int code;

    if (d->next % HOOK_EVERY != 0 || h.secret_len == 0) {
        return CLI_OK;
    }
    h.kind = cli_hook_kind(h.provider);
    (void)snprintf(id, sizeof id, "evt_demo_%" PRIu64, d->next);
    ron_buf_init_over(&body, memory, sizeof memory);
    if (pays) {
        ron_buf_append_fmt(
            &body,
            "{\"id\":\"%s\",\"object\":\"event\",\"type\":\"%s\",\"data\":{\"object\":"
            "{\"object\":\"payment_intent\",\"amount_received\":%" PRIu64
            ",\"currency\":\"usd\",\"metadata\":{\"user\":\"%s\"}}}}",
            id, h.event, amount, who);
        tell(d, "%s pays by card: %" PRIu64 " roc arrive by webhook", who, amount);
    } else {
        ron_buf_append_fmt(&body,
                           "{\"ref\":\"refs/heads/main\",\"after\":\"%s\",\"repository\":"
                           "{\"full_name\":\"demo/shop\"},\"pusher\":{\"name\":\"%s\"}}",
                           id, who);
        tell(d, "%s", h.broken ? "a forged webhook is refused" : "a push arrives by webhook");
    }
    code = cli_hook_send(&d->c, &h, &a);
    cli_answer_done(&a);
    return h.broken && code == CLI_DENIED ? CLI_OK : code;
}

/* ---- an epoch -------------------------------------------------------------------------------- */

#define READER_MAGIC 0x43445452u /* "CDTR" */

struct text_reader {
    uint32_t magic;
    const char *text;
    size_t at;
};

static enum ron_rc read_text(void *arg, void *bytes, size_t size, size_t *ret_len,
                             struct ron_err *err)
{
    struct text_reader *r = RON_OBJ(arg, struct text_reader, READER_MAGIC);
    size_t n = RON_MIN(size, strlen(r->text) - r->at);

    (void)err;
    memcpy(bytes, r->text + r->at, n);
    r->at += n;
    *ret_len = n;
    return RON_OK;
}

static const char policy_text[] =
    "{\"v\":1,\"id\":\"demo\",\"version\":1,\"funding_source\":\"protocol_pool\",\"asset\":\"roc\","
    "\"max_payout_minor_units\":\"1000000\",\"min_payout_minor_units\":\"1\",\"weight_bps\":10000,"
    "\"rounding\":\"floor\",\"residual\":\"unissued\",\"weights\":{\"bytes_stored\":\"1\","
    "\"bytes_served\":\"1/4\",\"uptime_seconds\":\"1\"}}";

static void make_snapshot(uint64_t epoch, struct ron_rand *rand, struct ron_buf *out)
{
    ron_buf_append_fmt(out,
                       "{\"produced_at_millis\":%" PRIu64 ",\"pool_minor_units\":\"5000\","
                       "\"contributions\":[",
                       epoch);
    for (size_t i = 0; i < PEOPLE; i++) {
        ron_buf_append_fmt(out,
                           "%s{\"account\":\"%s\",\"bytes_stored\":%" PRIu64
                           ",\"bytes_served\":%" PRIu64 ",\"uptime_seconds\":%" PRIu64 "}",
                           i > 0 ? "," : "", people[i], ron_rand_range(rand, 0, 100000),
                           ron_rand_range(rand, 0, 400000), ron_rand_range(rand, 0, 3600));
    }
    ron_buf_append_text(out, "]}");
}

static int epoch(struct demo *d, struct ron_rand *rand)
{
    struct text_reader reader = {.magic = READER_MAGIC, .text = policy_text};
    const struct rwd_tool_in in = {.name = "policy", .read = read_text, .arg = &reader};
    char key[RON_FILE_PATH_SIZE + 32];
    char name[48];
    struct ron_buf policy;
    struct ron_buf snapshot;
    struct cli_answer a = {0};
    struct ron_err err = {0};
    int code = CLI_FAILED;

    if (cli_service_url(&d->c.sys, "rewarder") == NULL) {
        return CLI_OK;
    }
    (void)snprintf(name, sizeof name, "demo-%" PRIu64, d->next / EPOCH_EVERY);
    (void)snprintf(key, sizeof key, "%s/keys/board.key", d->c.sys.data);
    ron_buf_init(&policy, POLICY_MAX);
    ron_buf_init(&snapshot, SNAPSHOT_MAX);
    make_snapshot(d->next / EPOCH_EVERY, rand, &snapshot);
    if (rwd_tool_policy_sign(&in, key, NULL, &policy, &err) != RON_OK) {
        fprintf(stderr, "ron demo: %s\n", err.msg);
    } else {
        size_t len = ron_buf_len(&policy);

        while (len > 0 && ron_buf_data(&policy)[len - 1] == '\n') {
            len--;
        }
        tell(d, "epoch %s: 5000 roc are split among %zu people", name, PEOPLE);
        code = cli_reward_run(&d->c, name,
                              (struct ron_str){ron_buf_text(&snapshot), ron_buf_len(&snapshot)},
                              (struct ron_str){ron_buf_text(&policy), len}, d->board, &a);
    }
    cli_answer_done(&a);
    ron_buf_done(&snapshot);
    ron_buf_done(&policy);
    return code;
}

/* ---- the demo -------------------------------------------------------------------------------- */

static int step(struct demo *d)
{
    struct ron_rand rand;
    struct ron_rand other;
    char key[48];
    uint64_t kind;
    int code;

    ron_rand_seed(&rand, d->next + 1);
    (void)snprintf(key, sizeof key, "demo-%" PRIu64, d->next);
    if (d->next < PEOPLE) {
        return first_units(d, key);
    }
    look_at_map(d, &rand);
    ron_rand_seed(&other, d->next + 1); /* what follows is the same with and without a bridge */
    code = webhook(d, &other);
    if (code != CLI_OK) {
        return code;
    }
    if (d->next % EPOCH_EVERY == EPOCH_EVERY - 1) {
        return epoch(d, &rand);
    }
    kind = ron_rand_below(&rand, 20);
    return kind < 15   ? payment(d, key, &rand)
           : kind < 19 ? stay(d, key, &rand)
                       : burn(d, key, &rand);
}

static bool read_board(struct demo *d)
{
    char path[RON_FILE_PATH_SIZE + 32];
    struct ron_err err = {0};
    struct ron_buf out;
    const char *at;

    (void)snprintf(path, sizeof path, "%s/keys/board.key", d->c.sys.data);
    ron_buf_init(&out, 4096);
    if (rwd_tool_key_show(path, &out, &err) != RON_OK) {
        fprintf(stderr, "ron demo: %s\n", err.msg);
        ron_buf_done(&out);
        return false;
    }
    at = strstr(ron_buf_text(&out), "public key");
    if (at != NULL) {
        at += strlen("public key");
        at += strspn(at, " ");
        (void)snprintf(d->board, sizeof d->board, "board=%.*s", (int)strspn(at, "0123456789abcdef"),
                       at);
    }
    ron_buf_done(&out);
    return d->board[0] != '\0';
}

/* Systems of older programs have no secrets, and --only may leave the bridge out. */
static void read_secrets(struct demo *d)
{
    if (cli_service_url(&d->c.sys, "interop") == NULL ||
        cli_hook_secret("demo", &d->c.sys, NULL, CLI_HOOK_GITHUB, d->github, &d->github_len) !=
            CLI_OK ||
        cli_hook_secret("demo", &d->c.sys, NULL, CLI_HOOK_STRIPE, d->stripe, &d->stripe_len) !=
            CLI_OK) {
        d->github_len = 0;
        d->stripe_len = 0;
    }
}

static int play(struct demo *d)
{
    const struct ron_env *env = ron_env_linux();
    uint64_t begin_ns = ron_env_now_ns(env);
    int code = CLI_OK;

    ron_progress_begin(&d->bar, env, "demo", "steps");
    for (d->done = 0; code == CLI_OK && d->done < d->steps && d->next < STEPS_MAX; d->done++) {
        uint64_t due_ns = begin_ns + d->done * (RON_NS_PER_S / d->pace);

        while (ron_env_now_ns(env) < due_ns) {
            (void)ron_park_until((struct ron_deadline){.at_ns = due_ns}, "pace");
        }
        code = step(d);
        if (code == CLI_OK) {
            d->next++;
            code = save_place(d);
        }
        ron_progress_at(&d->bar, d->done, d->steps);
    }
    ron_progress_end(&d->bar);
    return code;
}

int cli_demo(int argc, char **argv)
{
    struct demo d = {.steps = 100, .pace = 5};
    bool done = false;
    const struct cli_option options[] = {
        CLI_NUMBER("steps", "N", "stop after N steps", &d.steps, 1, STEPS_MAX),
        CLI_NUMBER("pace", "N", "steps per second", &d.pace, 1, 1000),
        CLI_FLAG("quiet", "do not print each step", &d.quiet),
        CLI_CLIENT_OPTIONS(&d.c),
    };
    int code =
        cli_parse("demo",
                  "Generates sample traffic: accounts, payments, holds, map requests, webhooks\n"
                  "and a reward epoch every 50 steps. The steps are numbered; a demo that was\n"
                  "stopped resumes at its next step.\n"
                  "\nexamples:\n  ron demo\n  ron demo --steps 1000 --pace 20",
                  options, RON_ARRAY_LEN(options), argc, argv, &done);

    if (code != CLI_OK || done) {
        return code;
    }
    code = cli_client_open(&d.c, "demo");
    if (code == CLI_OK && (d.c.sys.pid == 0 || !read_board(&d))) {
        fprintf(stderr, "ron demo: only works on an instance started by `ron up`\n");
        code = CLI_FAILED;
    }
    if (code == CLI_OK) {
        load_place(&d);
        read_secrets(&d);
        code = play(&d);
    }
    if (code == CLI_OK && d.c.json) {
        printf("{\"steps\":%" PRIu64 ",\"declined\":%" PRIu64 ",\"next\":%" PRIu64 "}\n", d.done,
               d.declined, d.next);
    } else if (code == CLI_OK) {
        printf("%" PRIu64 " steps, %" PRIu64 " declined; `ron demo` resumes at step %" PRIu64 "\n",
               d.done, d.declined, d.next);
    }
    cli_client_done(&d.c);
    return code;
}
