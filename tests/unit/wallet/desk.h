/* SPDX-License-Identifier: Apache-2.0 */
/* desk.h - a wallet without sockets for the tests of wlt_job: tables, breaker, a clock that stands
 * still, requests out of texts, and answers as the ledger would give them. Header only. */
#pragma once

#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "wallet/job/job.h"

#define DESK_DAY_MS (UINT64_C(24) * 3600 * 1000)
#define DESK_WALL_MS (UINT64_C(19676) * DESK_DAY_MS + 3600 * 1000) /* an hour after midnight */

enum { DESK_BODY_MAX = 1 << 16, DESK_OUT_MAX = 1 << 17 };

struct desk {
    uint64_t now_ns;
    uint64_t wall_ms;
    struct ron_env env;
    struct ron_rand rand;
    struct lc_ledgers ledgers; /* two, of which the first is asked until it says something else */
    struct wlt_core core;
};

static struct desk desk;

static inline uint64_t desk_mono(void *ctx)
{
    return ((struct desk *)ctx)->now_ns;
}

static inline uint64_t desk_wall(void *ctx)
{
    return ((struct desk *)ctx)->wall_ms;
}

/* New tables, as after a start of the wallet. */
static inline void desk_open_tables(void)
{
    struct wlt_idem_opts io = {
        .shards = 2, .bytes_max = 1 << 20, .pending_max = 64, .ttl_ms = DESK_DAY_MS};
    struct wlt_core *c = &desk.core;

    ron_rand_bytes(&desk.rand, c->secret.bytes, sizeof c->secret.bytes);
    RON_ASSERT(wlt_nonces_new(2, 64, &c->nonces, NULL) == RON_OK);
    RON_ASSERT(wlt_daily_new(2, 64, &c->daily, NULL) == RON_OK);
    RON_ASSERT(wlt_idem_new(&io, &c->idem, NULL) == RON_OK);
    RON_ASSERT(wlt_cache_new(2, 64, &c->cache, NULL) == RON_OK);
    RON_ASSERT(lc_ledgers_init(&desk.ledgers, "unix:/a,unix:/b",
                               ron_breaker_preset(RON_BREAKER_WALLET), &desk.env.clock,
                               NULL) == RON_OK);
}

static inline void desk_close_tables(void)
{
    wlt_nonces_free(desk.core.nonces);
    wlt_daily_free(desk.core.daily);
    wlt_idem_free(desk.core.idem);
    wlt_cache_free(desk.core.cache);
    lc_ledgers_done(&desk.ledgers);
}

static inline void desk_open(uint64_t seed)
{
    desk = (struct desk){.now_ns = 1000 * RON_NS_PER_S, .wall_ms = DESK_WALL_MS};
    desk.env = (struct ron_env){.clock = {desk_mono, desk_wall, &desk}};
    ron_rand_seed(&desk.rand, seed);
    desk.core = (struct wlt_core){.env = &desk.env,
                                  .ledgers = &desk.ledgers,
                                  .curve = *ron_retry_curve(RON_RETRY_WALLET),
                                  .daily_ceiling = RON_MONEY_MAX,
                                  .total_max = RON_MONEY_MAX,
                                  .rpc_ms = 1000};
    desk_open_tables();
}

static inline void desk_close(void)
{
    desk_close_tables();
}

static inline void desk_pass_ms(uint64_t ms)
{
    desk.now_ns += ms * RON_NS_PER_MS;
    desk.wall_ms += ms;
}

static inline struct ron_str desk_str(const char *s)
{
    return (struct ron_str){s, strlen(s)};
}

static inline struct wlt_key desk_account(const char *name)
{
    return wlt_key_of(&desk.core.secret, WLT_KEY_ACCOUNT, desk_str(name), desk_str(""));
}

/* ---- orders: a request and its job ----------------------------------------------------------- */

struct order {
    char *text;
    void *memory;
    struct ron_arena arena;
    struct wlt_call call;
    struct wlt_job job;
    struct ron_buf out;
    enum wlt_step step;
};

static inline void order_init(struct order *o, enum wlt_op op, const char *body, const char *key)
{
    static const struct wlt_call_rules rules = {.amount_max = {.v = RON_U128_MAX}};
    size_t len = strlen(body);
    size_t size = wlt_call_arena_size(len, op == WLT_OP_COUNT);
    struct wlt_fault fault;

    *o = (struct order){.text = ron_alloc(len + 1), .memory = ron_alloc(size)};
    RON_ASSERT(o->text != NULL && o->memory != NULL);
    memcpy(o->text, body, len + 1);
    ron_arena_init_over(&o->arena, o->memory, size);
    RON_ASSERT_MSG(
        wlt_call_parse(o->text, len, op, desk_str(key), &rules, &o->arena, &o->call, &fault),
        "%s: %s", body, fault.detail);
    wlt_job_init(&o->job);
    ron_buf_init(&o->out, DESK_OUT_MAX);
}

static inline void order_done(struct order *o)
{
    wlt_job_done(&o->job);
    ron_buf_done(&o->out);
    ron_free(o->memory);
    ron_free(o->text);
    *o = (struct order){0};
}

static inline enum wlt_step order_begin(struct order *o, uint64_t deadline_ms)
{
    ron_buf_clear(&o->out);
    o->job.call = &o->call;
    o->job.deadline_ns = desk.now_ns + deadline_ms * RON_NS_PER_MS;
    o->job.kid = desk_str("k1");
    o->job.capability_ref = desk_str("c1");
    o->job.out = &o->out;
    o->job.rand = &desk.rand;
    o->step = wlt_job_begin(&desk.core, &o->job, desk.now_ns);
    return o->step;
}

static inline enum wlt_step order_reply(struct order *o, enum wlt_reply_kind kind, uint16_t status,
                                        const void *bytes, size_t len)
{
    static char copy[1 << 17];
    struct wlt_reply reply = {.kind = kind, .status = status, .bytes = copy, .len = len};

    RON_ASSERT(len < sizeof copy && o->step == WLT_STEP_SEND);
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    o->step = wlt_job_answered(&desk.core, &o->job, &reply, desk.now_ns);
    return o->step;
}

static inline enum wlt_step order_wait(struct order *o)
{
    RON_ASSERT(o->step == WLT_STEP_WAIT && o->job.until_ns >= desk.now_ns);
    desk.wall_ms += (o->job.until_ns - desk.now_ns) / RON_NS_PER_MS;
    desk.now_ns = o->job.until_ns;
    o->step = wlt_job_waited(&desk.core, &o->job, desk.now_ns);
    return o->step;
}

/* ---- what a ledger says ---------------------------------------------------------------------- */

static inline void desk_put(uint8_t *to, uint64_t value)
{
    for (int i = 7; i >= 0; i--) {
        to[i] = (uint8_t)value;
        value >>= 8;
    }
}

/* Root of a model's tree: each size has its own. */
static inline void desk_root(uint64_t seq, uint8_t ret[LC_HASH_BYTES])
{
    memset(ret, 0xab, LC_HASH_BYTES);
    desk_put(ret, seq);
}

static inline void desk_done_bytes(uint64_t first, uint64_t last, uint64_t ts, bool replayed,
                                   bool dry_run, uint8_t ret[LC_DONE_BYTES])
{
    memset(ret, 0, LC_DONE_BYTES);
    ret[0] = dry_run ? 2 : 1;
    ret[1] = replayed;
    desk_put(ret + 2, dry_run ? 0 : first);
    desk_put(ret + 10, dry_run ? 0 : last);
    desk_root(last, ret + 18);
    desk_put(ret + 50, dry_run ? 0 : ts);
}

static inline enum wlt_step order_done_word(struct order *o, uint64_t first, uint64_t last,
                                            bool replayed)
{
    uint8_t bytes[LC_DONE_BYTES];

    desk_done_bytes(first, last, DESK_WALL_MS + first, replayed, o->call.dry_run, bytes);
    return order_reply(o, WLT_REPLY_ANSWERED, 200, bytes, sizeof bytes);
}

static inline enum wlt_step order_json(struct order *o, uint16_t status, const char *json)
{
    return order_reply(o, WLT_REPLY_ANSWERED, status, json, strlen(json));
}

static inline int desk_refusal_text(char *ret, size_t size, const char *reason, const char *message,
                                    uint32_t idx)
{
    return snprintf(ret, size,
                    "{\"code\":\"X\",\"message\":\"%s\",\"retryable\":false,\"corr_id\":\"c\","
                    "\"reason\":\"%s\",\"accepted\":false,"
                    "\"reasons\":[{\"idx\":%u,\"reason\":\"%s\"}]}",
                    message, reason, idx, reason);
}

static inline enum wlt_step order_refusal(struct order *o, uint16_t status, const char *reason,
                                          const char *message, uint32_t idx)
{
    char text[512];

    (void)desk_refusal_text(text, sizeof text, reason, message, idx);
    return order_json(o, status, text);
}

static inline enum wlt_step order_account(struct order *o, uint64_t seq, uint64_t nonce,
                                          uint64_t available, uint64_t held)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"account\":\"x\",\"balances\":[{\"asset\":\"roc\",\"available\":\"%llu\","
                   "\"held\":\"%llu\"}],\"account_nonce\":%llu,\"frozen\":false,\"last_seq\":%llu,"
                   "\"seq\":%llu}",
                   (unsigned long long)available, (unsigned long long)held,
                   (unsigned long long)nonce, (unsigned long long)seq, (unsigned long long)seq);
    return order_json(o, 200, text);
}

static inline int desk_outcome_text(char *ret, size_t size, uint64_t first, uint64_t last,
                                    uint64_t ts)
{
    uint8_t root[LC_HASH_BYTES];
    char hex[2 * LC_HASH_BYTES + 1];

    desk_root(last, root);
    for (size_t i = 0; i < sizeof root; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", root[i]);
    }
    return snprintf(ret, size,
                    "{\"idem_id\":\"x\",\"outcome\":\"committed\",\"seq_start\":%llu,"
                    "\"seq_end\":%llu,\"new_root\":\"%s\",\"ts\":%llu}",
                    (unsigned long long)first, (unsigned long long)last, hex,
                    (unsigned long long)ts);
}

static inline enum wlt_step order_committed(struct order *o, uint64_t first, uint64_t last)
{
    char text[512];

    (void)desk_outcome_text(text, sizeof text, first, last, DESK_WALL_MS + first);
    return order_json(o, 200, text);
}

static inline enum wlt_step order_place(struct order *o, uint64_t seq, uint64_t first,
                                        uint64_t last, const char *idem_id)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"entry\":{\"seq\":%llu,\"id\":\"x\"},\"links\":{},\"batch\":{\"seq_start\":"
                   "%llu,\"seq_end\":%llu,\"ts\":1,\"idem_id\":\"%s\",\"imported\":false},"
                   "\"commit\":{\"seq_start\":%llu,\"seq_end\":%llu,\"ts\":1,\"root\":\"%064d\"}}",
                   (unsigned long long)seq, (unsigned long long)first, (unsigned long long)last,
                   idem_id, (unsigned long long)first, (unsigned long long)last, 0);
    return order_json(o, 200, text);
}
