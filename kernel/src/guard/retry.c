/* SPDX-License-Identifier: Apache-2.0 */
/* retry.c - curves and the verdict after each try.
 *
 * Place: guard. Pure but for the generator and the counters that the caller passes in. */
#include "ron/guard/retry.h"

#include "ron/base/assert.h"

enum { WAIT_MAX_MS = 3600 * 1000 }; /* An hour: whoever waits longer wants a queue, not a retry. */

static const struct {
    const char *name;
    struct ron_retry_curve curve;
} curves[RON_RETRY_CURVE_COUNT] = {
#define X(id, text, tries, first, mul, base_max, jitter, pct, wait_max, all_5xx, doc)              \
    [RON_RETRY_##id] = {text,                                                                      \
                        {.tries_max = (tries),                                                     \
                         .first_ms = (first),                                                      \
                         .factor = (mul),                                                          \
                         .base_max_ms = (base_max),                                                \
                         .jitter_ms = (jitter),                                                    \
                         .jitter_pct = (pct),                                                      \
                         .wait_max_ms = (wait_max),                                                \
                         .any_5xx = (all_5xx)}},
    RON_RETRY_CURVES(X)
#undef X
};

const struct ron_retry_curve *ron_retry_curve(enum ron_retry_curve_id id)
{
    RON_ASSERT((unsigned)id < RON_RETRY_CURVE_COUNT);
    return &curves[id].curve;
}

const char *ron_retry_verdict_label(enum ron_retry_verdict verdict)
{
    static const char *const labels[RON_VERDICT_COUNT] = {
#define X(name, label, doc) [RON_VERDICT_##name] = (label),
        RON_RETRY_VERDICTS(X)
#undef X
    };

    RON_ASSERT((unsigned)verdict < RON_VERDICT_COUNT);
    return labels[verdict];
}

bool ron_retry_curve_valid(const struct ron_retry_curve *curve)
{
    return curve->tries_max >= 1 && curve->factor >= 1 && curve->jitter_pct <= 100 &&
           curve->first_ms <= WAIT_MAX_MS && curve->base_max_ms <= WAIT_MAX_MS &&
           curve->jitter_ms <= WAIT_MAX_MS && curve->wait_max_ms <= WAIT_MAX_MS;
}

static uint64_t base_ms(const struct ron_retry_curve *curve, uint32_t n)
{
    uint64_t base = RON_MIN(curve->first_ms, curve->base_max_ms);

    /* At the cap, or with a wait that does not grow, further steps change nothing. */
    for (uint32_t i = 0; i < n && curve->factor > 1 && base > 0 && base < curve->base_max_ms; i++) {
        base = RON_MIN(ron_sat_mul_u64(base, curve->factor), (uint64_t)curve->base_max_ms);
    }
    return base;
}

uint64_t ron_retry_wait_ns(const struct ron_retry_curve *curve, uint32_t n, struct ron_rand *rand)
{
    uint64_t base_ns = base_ms(curve, n) * RON_NS_PER_MS;
    uint64_t spread_ns = curve->jitter_ms * RON_NS_PER_MS + base_ns / 100 * curve->jitter_pct;
    uint64_t wait_ns;

    RON_ASSERT(ron_retry_curve_valid(curve));
    wait_ns = base_ns + ron_rand_range(rand, 0, spread_ns);
    if (curve->wait_max_ms != 0) {
        wait_ns = RON_MIN(wait_ns, curve->wait_max_ms * RON_NS_PER_MS);
    }
    return wait_ns;
}

/* No answer came. Codes that say "the caller or this process is at fault" stay final, and so does
 * a cancel: nobody waits for the next try. */
static bool transient_rc(enum ron_rc rc)
{
    return rc == RON_AGAIN || rc == RON_CLOSED || rc == RON_TIMEOUT || rc == RON_IO ||
           rc == RON_NOMEM;
}

/* Whether another try could end otherwise (Y2); not whether it is allowed. */
static bool is_transient(const struct ron_retry_curve *curve, const struct ron_attempt *attempt)
{
    if (attempt->rc != RON_OK) {
        return transient_rc(attempt->rc);
    }
    if (attempt->status == 503 || attempt->status == 504) {
        return true;
    }
    return curve->any_5xx && attempt->status >= 500 && attempt->status <= 599;
}

static enum ron_retry_verdict judge(struct ron_retry *r, const struct ron_attempt *attempt,
                                    uint64_t now_ns, uint64_t *ret_wait_ns)
{
    uint64_t wait_ns;

    if (attempt->rc == RON_OK && attempt->status < 400) {
        return RON_VERDICT_DONE;
    }
    if (!is_transient(r->curve, attempt)) {
        return RON_VERDICT_FINAL; /* Y2 */
    }
    if (!r->idempotent) {
        return RON_VERDICT_UNSAFE; /* Y1 */
    }
    if (r->tries >= r->curve->tries_max) {
        return RON_VERDICT_SPENT; /* Y4 */
    }
    wait_ns = ron_retry_wait_ns(r->curve, r->tries - 1, r->rand);
    wait_ns = RON_MAX(wait_ns, ron_sat_mul_u64(attempt->retry_after_ms, RON_NS_PER_MS));
    if (ron_deadline_left_ns(r->deadline, now_ns) <= wait_ns) {
        return RON_VERDICT_LATE; /* Y3 */
    }
    *ret_wait_ns = wait_ns;
    return RON_VERDICT_AGAIN;
}

enum ron_retry_verdict ron_retry_next(struct ron_retry *r, const struct ron_attempt *attempt,
                                      uint64_t now_ns, uint64_t *ret_wait_ns)
{
    enum ron_retry_verdict verdict;

    r->tries++;
    verdict = judge(r, attempt, now_ns, ret_wait_ns);
    if (r->stats != NULL) {
        ron_stat_add(&r->stats->backoff_retries_total[verdict], 1);
    }
    return verdict;
}
