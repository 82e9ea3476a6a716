/* SPDX-License-Identifier: Apache-2.0 */
/* guard_fixture.h - a guard over keys in memory, tokens under them, and one work at a time, for the
 * tests of prevalidation and guards. */
#pragma once

#include "support/support.h"

#include "cap/cap_priv.h"
#include "ledger/guard/guard.h"
#include "ledger/pipeline/preval.h"
#include "ledger/work/work.h"
#include "obs/metrics_priv.h"
#include "ron/io/linux_env.h"
#include "unit/cap/fixture.h"

#define GF_NOW_MS ((uint64_t)CAP_NOW_S * 1000)
#define GF_TS "1800000000000"

static const uint8_t gf_hash_key[16] = "0123456789abcdef";

struct gf {
    struct ron_cap_ring ring;
    struct ron_cap_verifier *verifier;
    struct ron_metrics *metrics;
    struct led_guard *guard;
    struct cap_text token;
    struct led_work w;
    char body[1 << 21];
};

/* `o` says what matters for the test; verifier and metrics are set here unless it has a KMS. */
static inline struct gf *gf_open(struct led_guard_opts o, bool kms)
{
    struct gf *f = calloc(1, sizeof *f);
    struct ron_err err = {0};

    assert_non_null(f);
    ron_cap_ring_init(&f->ring, cap_keys());
    assert_int_equal(ron_cap_verifier_new(&(struct ron_cap_verifier_opts){.env = ron_env_linux(),
                                                                          .ring = &f->ring,
                                                                          .entries = 64},
                                          &f->verifier, NULL),
                     RON_OK);
    assert_int_equal(ron_metrics_new(NULL, &f->metrics, NULL), RON_OK);
    o.env = ron_env_linux();
    o.verifier = kms ? NULL : f->verifier;
    o.metrics = f->metrics;
    if (led_guard_new(&o, &f->guard, &err) != RON_OK) {
        fail_msg("guard: %s", err.msg);
    }
    return f;
}

static inline void gf_close(struct gf *f)
{
    led_guard_free(f->guard);
    ron_metrics_free(f->metrics);
    ron_cap_verifier_free(f->verifier);
    ron_cap_ring_done(&f->ring);
    ron_arena_done(&f->w.arena);
    free(f);
}

/* The token of the next work. */
static inline void gf_token(struct gf *f, const char *const *caveats, size_t count)
{
    struct ron_cap_keys *keys = ron_cap_ring_get(&f->ring, NULL);

    f->token = cap_minted(keys, caveats, count);
    ron_cap_keys_unref(keys);
}
#define GF_TOKEN(f, ...)                                                                           \
    gf_token((f), (const char *const[]){__VA_ARGS__},                                              \
             sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* A fresh work with these bytes, from a peer that no scope is closed to but by the guard. */
static inline struct led_work *gf_work(struct gf *f, enum led_form form, const void *bytes,
                                       size_t len)
{
    struct led_work *w = &f->w;

    assert_true(len < sizeof f->body);
    memcpy(f->body, bytes, len);
    ron_arena_done(&w->arena);
    *w = (struct led_work){.magic = LED_WORK_MAGIC, .form = (uint8_t)form};
    w->in = (struct ron_str){f->body, len};
    w->caller = (struct led_caller){.token = STR(f->token.s),
                                    .peer_scopes = led_guard_peer_scopes(f->guard, NULL, NULL)};
    assert_int_equal(ron_arena_init(&w->arena, led_preval_arena_size(form, w->in)), RON_OK);
    return w;
}

static inline struct led_work *gf_json(struct gf *f, const char *json)
{
    return gf_work(f, LED_FORM_JSON, json, strlen(json));
}

/* An entry as JSON; `more` is text like ",\"to\":\"b\"". */
static inline const char *gf_entry(const char *kind, const char *account, const char *amount,
                                   const char *more)
{
    static char rooms[32][2048];
    static unsigned at;
    char *room = rooms[at++ % RON_ARRAY_LEN(rooms)];

    (void)snprintf(room, sizeof rooms[0],
                   "{\"id\":\"tx-%u\",\"ts\":" GF_TS ",\"kind\":\"%s\",\"account\":\"%s\","
                   "\"amount\":\"%s\"%s,\"nonce\":\"AAECAwQFBgcICQoLDA0ODw==\",\"v\":1,"
                   "\"kid\":\"k1\",\"capability_ref\":\"c1\"}",
                   at, kind, account, amount, more);
    return room;
}

/* A batch of up to three such entries. */
static inline struct led_work *gf_batch(struct gf *f, const char *a, const char *b, const char *c)
{
    static char json[8192];

    (void)snprintf(json, sizeof json, "{\"batch\":[%s%s%s%s%s]}", a, b == NULL ? "" : ",",
                   b == NULL ? "" : b, c == NULL ? "" : ",", c == NULL ? "" : c);
    return gf_json(f, json);
}

/* Admission, parsing and the check of entries, as led_preval_step does without remote services. */
static inline bool gf_passes(struct gf *f)
{
    struct led_work *w = &f->w;

    if (led_guard_admit(f->guard, w, GF_NOW_MS) != LED_VERDICT_OK ||
        !led_preval_parse(gf_hash_key, w)) {
        return false;
    }
    return led_guard_check(f->guard, w) == LED_VERDICT_OK;
}

static inline void gf_expect(struct gf *f, enum led_reason reason, uint32_t idx, const char *member)
{
    const struct led_refusal *r = &f->w.refusals.items[0];

    if (gf_passes(f)) {
        fail_msg("passed");
    }
    assert_int_equal(f->w.result, LED_RESULT_REFUSED);
    assert_true(f->w.refusals.count > 0);
    if (r->reason != reason || r->idx != idx || strcmp(r->member, member) != 0) {
        fail_msg("gave %s for entry %u, member '%s': %s", led_reason_name(r->reason), r->idx,
                 r->member, r->detail);
    }
    assert_true(r->detail[0] != '\0');
}

static inline void gf_expect_ok(struct gf *f)
{
    if (!gf_passes(f)) {
        fail_msg("refused: %s for entry %u, member '%s': %s",
                 led_reason_name(f->w.refusals.items[0].reason), f->w.refusals.items[0].idx,
                 f->w.refusals.items[0].member, f->w.refusals.items[0].detail);
    }
    assert_int_equal(f->w.result, LED_RESULT_NONE);
}

/* The value of a counter with one label. */
static inline uint64_t gf_count(struct gf *f, const char *metric, const char *label)
{
    return ron_series_value(ron_metric_series(ron_metrics_find(f->metrics, metric), label));
}
