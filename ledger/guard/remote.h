/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/remote.h - guards that are asked over HTTP: KMS, policy guard, double-spend guard.
 *
 * Place: ledger, on top of ron/http's client, which is one loop task. Nobody waits: asking starts a
 * call, and its end comes back as a callback on the client's task. Local guards are the default; a
 * service is asked only when it has a URL. The bytes are in docs/formats/ledger-guards.md.
 *
 *     service   asked for                           one try   more tries   longest wait before
 *     kms       the signature of a token            1 s       2            250 ms
 *     policy    every entry, after local policy     800 ms    1            150 ms
 *     wallet    every entry, against double spend   1 s       1            150 ms
 *
 * Rules:
 *   R1. Fail closed: no answer, an answer that cannot be read, an open breaker and a full client
 *       are refusals. A 4xx is never tried again. 401 and 403, and 409 of the wallet, are a no of
 *       that guard's own reason; 408 and 429 are `busy`; any other says that the guard is not
 *       what we take it for: `internal`, and logged.
 *   R2. 5xx and timeouts are tried again after a wait that starts at 50 ms, doubles and is
 *       jittered, and they open the breaker; it lets one call through after 5 s, whose success
 *       closes it.
 *   R3. A call ends by its deadline, or that of the request when it is earlier.
 *   R4. Tokens go to the KMS alone, over TLS or inside the machine; spans and logs get the log id.
 *
 * Threads: asking from any thread. Ownership: a work that is asked for belongs to the client until
 * its callback. */
#pragma once

#include "ledger/guard/guard.h"
#include "ledger/work/work.h"
#include "ron/http/client.h"
#include "ron/obs/log.h"
#include "ron/obs/trace.h"

/* X(NAME, "svc label", "op label", ms of a try, retry curve) */
#define LED_REMOTE_TABLE(X)                                                                        \
    X(KMS, "kms", "kms_verify", 1000, LEDGER_KMS)                                                  \
    X(POLICY, "policy", "policy_guard", 800, LEDGER_POLICY)                                        \
    X(WALLET, "wallet", "double_spend", 1000, LEDGER_WALLET)

enum led_remote_service {
#define X(name, svc, op, ms, curve) LED_REMOTE_##name,
    LED_REMOTE_TABLE(X)
#undef X
        LED_REMOTE_COUNT
};
const char *led_remote_name(enum led_remote_service service);

enum {
    LED_REMOTE_BODY_MAX = 2 << 20, /* of a question: some 6,000 entries */
    LED_REMOTE_ANSWER_MAX = 16384, /* of an answer: LED_REFUSALS_MAX long refusals, four times */
    LED_REMOTE_INFLIGHT = 64,      /* [calls of one service] at 2 MiB, 128 MiB at the worst */
};

/* Zero means the default in brackets. */
struct led_remote_target {
    const char *url;                         /* [not asked] https, or http to this machine */
    const char *unix_path;                   /* [none] a Unix socket instead of the URL's address */
    const char *bearer;                      /* [none] what we show to the service */
    uint32_t try_ms;                         /* [the table's] timeouts.{kms,policy,wallet}_ms */
    uint32_t tries_max;                      /* [the table's] retries.*.max_retries + 1 */
    uint32_t backoff_max_ms;                 /* [the table's] retries.*.max_backoff */
    uint32_t inflight_max;                   /* [LED_REMOTE_INFLIGHT] */
    const struct ron_breaker_rules *breaker; /* [RON_BREAKER_LEDGER: R2] copied */
    const char *ca_file;                     /* [the system's] */
    const char *cert_file; /* [none] with key_file, for services that ask for one */
    const char *key_file;
};

struct led_remote_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    struct led_guard *guard;   /* borrowed: told whom the KMS vouched for */
    struct ron_tracer *tracer; /* [none] */
    struct ron_log *log;       /* [none] */
    const char *name;          /* ["guards"] of the task */
    uint32_t worker;           /* of the executor */
    uint32_t stage;            /* drain order: behind the prevalidators */
    struct led_remote_target targets[LED_REMOTE_COUNT];
};

struct led_remote;

/* RON_INVALID names what is wrong with a target; else as ron_http_client_new and _add. Blocks: it
 * reads certificate files. */
RON_MUST_USE enum ron_rc led_remote_new(const struct led_remote_opts *opts,
                                        struct led_remote **ret_remote, struct ron_err *err);
RON_MUST_USE enum ron_rc led_remote_attach(struct led_remote *r, struct ron_sup *sup,
                                           struct ron_err *err);
/* io_timeouts_total, backoff_retries_total, breaker_* of the services. */
RON_MUST_USE enum ron_rc led_remote_collect(struct led_remote *r, struct ron_metrics *m,
                                            struct ron_err *err);
/* After the supervisor; false when calls are still held: then they are left behind. */
bool led_remote_free(struct led_remote *r);

bool led_remote_asks(const struct led_remote *r, enum led_remote_service service);
/* For /readyz: not asked, or its breaker is not open. */
bool led_remote_ready(const struct led_remote *r, enum led_remote_service service);
/* Of a service that is asked. */
const struct ron_http_target *led_remote_http(const struct led_remote *r,
                                              enum led_remote_service service);

/* ---- asking ---------------------------------------------------------------------------------- */

/* Bytes of the arena that one question takes at most. */
enum { LED_REMOTE_BYTES = 2048 };

/* Asks what w->step stands at (KMS, POLICY or WALLET). When it returns LED_VERDICT_ASK, `done` gets
 * the work back on the client's task: refused, or to be given to led_preval_step again. When it
 * returns LED_VERDICT_REFUSED the work is refused already and `done` is not called. */
typedef void led_remote_done(struct led_work *w, void *arg);
RON_MUST_USE enum led_verdict led_remote_ask(struct led_remote *r, struct led_work *w,
                                             struct ron_deadline deadline, led_remote_done *done,
                                             void *arg);

/* For routes without a work: asks the KMS for the token of led_guard_open's LED_VERDICT_ASK. Both
 * live until `done`, which is told NULL when the KMS vouched. The same results as above; the
 * refusal is written when REFUSED. */
typedef void led_remote_vouched(void *arg, const struct led_refusal *refusal);
struct led_remote_vouch {
    const struct led_caller *caller;
    struct led_auth *auth;
    struct ron_arena *arena; /* with LED_REMOTE_BYTES left; lives until done */
    struct ron_str corr_id;
    struct ron_trace_ctx trace;
    struct ron_deadline deadline;
    led_remote_vouched *done;
    void *arg;
};
RON_MUST_USE enum led_verdict led_remote_vouch(struct led_remote *r,
                                               const struct led_remote_vouch *in,
                                               struct led_refusal *ret_refusal);
