/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/fresh.c - how long a stored answer lives, and what a request may have of it. */
#include "edge/rules/fresh.h"

#include "edge/rules/fresh_priv.h"
#include "ron/base/assert.h"
#include "ron/http/etag.h"

enum { MS = 1000, HEURISTIC_PART = 10 };

/* What may allow this answer to be served stale, strictest first. */
enum stale_rule { STALE_NEVER, STALE_BY_ORIGIN, STALE_BY_ANYONE };

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t heuristic_s(const struct edg_exchange *ex, const struct edg_policy *policy,
                            uint64_t date_s)
{
    uint64_t modified_s;

    if (edg_date(ex->response, "Last-Modified", date_s, &modified_s) != RON_OK) {
        return 0;
    }
    return RON_MIN(minus(date_s, modified_s) / HEURISTIC_PART, policy->heuristic_max_s);
}

/* Without explicit freshness (L3), or what the configuration says of errors. */
static void implied_lifetime(const struct edg_exchange *ex, const struct edg_policy *policy,
                             const struct edg_cc *cc, uint64_t date_s, struct edg_life *life)
{
    if (edg__status_heuristic(ex->status) || (cc->flags & EDG_CC_PUBLIC) != 0) {
        life->lifetime_s = heuristic_s(ex, policy, date_s);
        life->heuristic = true;
    }
    if (life->lifetime_s == 0 && edg__status_negative(ex->status)) {
        life->lifetime_s = policy->negative_ttl_s;
    }
}

static void set_lifetime(const struct edg_exchange *ex, const struct edg_policy *policy,
                         const struct edg_cc *cc, uint64_t date_s, struct edg_life *life)
{
    uint64_t expires_s;
    enum ron_rc rc;

    if (cc->s_maxage_s != EDG_SECONDS_NONE) {
        life->lifetime_s = cc->s_maxage_s;
        return;
    }
    if (cc->max_age_s != EDG_SECONDS_NONE) {
        life->lifetime_s = cc->max_age_s;
        return;
    }
    rc = edg_date(ex->response, "Expires", ex->response_ms / MS, &expires_s);
    if (rc == RON_OK) {
        life->lifetime_s = RON_MIN(minus(expires_s, date_s), EDG_SECONDS_MAX);
    } else if (rc == RON_NOTFOUND) {
        implied_lifetime(ex, policy, cc, date_s, life);
    }
}

static uint64_t window(uint64_t said_s, uint64_t policy_s, enum stale_rule rule)
{
    if (rule == STALE_NEVER) {
        return 0;
    }
    if (said_s != EDG_SECONDS_NONE) {
        return said_s;
    }
    return rule == STALE_BY_ANYONE ? policy_s : 0;
}

static bool has_validator(struct edg_fields response)
{
    struct edg_conditions c;

    edg_conditions(response, &c);
    return c.if_none_match.len > 0 || c.if_modified_since.len > 0;
}

void edg_life_read(const struct edg_exchange *ex, const struct edg_policy *policy,
                   struct edg_life *ret_life)
{
    struct edg_life life = {.response_ms = ex->response_ms};
    uint64_t now_s = ex->response_ms / MS;
    uint64_t age_s = 0;
    bool age_known = edg_age(ex->response, &age_s) == RON_OK;
    uint64_t date_s = now_s;
    enum stale_rule rule = STALE_BY_ANYONE;
    struct edg_cc cc;

    edg_cc_response(ex->response, &cc);
    if (edg_date(ex->response, "Date", now_s, &date_s) != RON_OK) {
        date_s = now_s;
    }
    age_s += minus(ex->response_ms, ex->request_ms) / MS;
    life.initial_age_s = RON_MAX(age_s, minus(now_s, date_s));
    set_lifetime(ex, policy, &cc, date_s, &life);
    life.no_cache = !age_known || (cc.flags & EDG_CC_NO_CACHE) != 0;
    if (life.no_cache || (cc.flags & (EDG_CC_MUST_REVALIDATE | EDG_CC_PROXY_REVALIDATE)) != 0) {
        rule = STALE_NEVER;
    } else if (cc.s_maxage_s != EDG_SECONDS_NONE) {
        rule = STALE_BY_ORIGIN;
    }
    life.stale_while_revalidate_s =
        window(cc.stale_while_revalidate_s, policy->stale_while_revalidate_s, rule);
    life.stale_if_error_s = window(cc.stale_if_error_s, policy->stale_if_error_s, rule);
    life.max_stale_s = rule == STALE_BY_ANYONE ? EDG_SECONDS_MAX : 0;
    RON_ASSERT_MSG(RON_IMPLIES(life.no_cache, life.stale_while_revalidate_s == 0),
                   "L4: no-cache forbids stale answers");
    RON_ASSERT_MSG(RON_IMPLIES(life.no_cache, life.stale_if_error_s == 0),
                   "L4: no-cache forbids stale answers, also on errors");
    life.validator = has_validator(ex->response);
    *ret_life = life;
}

uint64_t edg_life_age_s(const struct edg_life *life, uint64_t now_ms)
{
    return RON_MIN(life->initial_age_s + minus(now_ms, life->response_ms) / MS, EDG_SECONDS_MAX);
}

int64_t edg_life_ttl_s(const struct edg_life *life, uint64_t now_ms)
{
    return (int64_t)life->lifetime_s - (int64_t)edg_life_age_s(life, now_ms);
}

void edg_ask_read(enum ron_http_method method, struct edg_fields request, struct edg_ask *ret_ask)
{
    struct edg_cc cc;

    edg_cc_request(request, &cc);
    *ret_ask = (struct edg_ask){
        .method = method,
        /* What a browser's reload sends; that an answer is not a second old does not help it. */
        .no_cache = (cc.flags & EDG_CC_NO_CACHE) != 0 || cc.max_age_s == 0,
        .only_if_cached = (cc.flags & EDG_CC_ONLY_IF_CACHED) != 0,
        .max_age_s = cc.max_age_s,
        .min_fresh_s = cc.min_fresh_s == EDG_SECONDS_NONE ? 0 : cc.min_fresh_s,
        .max_stale_s = cc.max_stale_s == EDG_SECONDS_NONE ? 0 : cc.max_stale_s,
        .stale_if_error_s = cc.stale_if_error_s == EDG_SECONDS_NONE ? 0 : cc.stale_if_error_s,
    };
}

/* Whether an answer that is `ttl_s` from its end may still be used within a window behind it. */
static bool within(int64_t ttl_s, uint64_t window_s)
{
    return window_s > 0 && -ttl_s <= (int64_t)window_s;
}

static void from_store(struct edg_use *use, enum edg_verdict verdict, bool refresh)
{
    use->verdict = verdict;
    use->refresh = refresh;
}

static void from_origin(struct edg_use *use, const struct edg_ask *ask, enum edg_verdict verdict,
                        enum edg_fwd fwd)
{
    use->verdict = ask->only_if_cached ? EDG_TIMEOUT_504 : verdict;
    use->fwd = fwd;
}

static void use_stored(const struct edg_life *life, const struct edg_ask *ask, struct edg_use *use)
{
    bool young = ask->max_age_s == EDG_SECONDS_NONE || use->age_s <= ask->max_age_s;
    bool fresh = use->ttl_s > 0;

    bool refused = ask->no_cache || (fresh && (!young || use->ttl_s < (int64_t)ask->min_fresh_s));

    if (life->no_cache || refused) {
        from_origin(use, ask, EDG_REVALIDATE, life->no_cache ? EDG_FWD_STALE : EDG_FWD_REQUEST);
    } else if (fresh) {
        from_store(use, EDG_FRESH, false);
    } else if (within(use->ttl_s, RON_MIN(ask->max_stale_s, life->max_stale_s))) {
        from_store(use, EDG_STALE_OK, false);
    } else if (young && ask->min_fresh_s == 0 &&
               within(use->ttl_s, life->stale_while_revalidate_s)) {
        from_store(use, EDG_STALE_OK, true);
    } else {
        from_origin(use, ask, EDG_REVALIDATE, EDG_FWD_STALE);
    }
}

void edg_use(const struct edg_life *life, const struct edg_ask *ask, uint64_t now_ms,
             struct edg_use *ret_use)
{
    bool reads = ask->method == RON_HTTP_GET || ask->method == RON_HTTP_HEAD;
    struct edg_use use = {.fwd = EDG_FWD_NONE};

    if (life != NULL) {
        use.age_s = edg_life_age_s(life, now_ms);
        use.ttl_s = edg_life_ttl_s(life, now_ms);
    }
    if (!reads) {
        use.verdict = EDG_MISS;
        use.fwd = EDG_FWD_METHOD;
    } else if (life == NULL) {
        from_origin(&use, ask, EDG_MISS, EDG_FWD_URI_MISS);
    } else {
        use_stored(life, ask, &use);
    }
    RON_ASSERT_MSG(
        RON_IMPLIES(life == NULL, use.verdict == EDG_MISS || use.verdict == EDG_TIMEOUT_504),
        "nothing is served that is not stored");
    RON_ASSERT_MSG(RON_IMPLIES(use.refresh, use.verdict == EDG_STALE_OK),
                   "only a stale answer is refreshed");
    *ret_use = use;
}

bool edg_use_on_error(const struct edg_life *life, const struct edg_ask *ask, int status,
                      uint64_t now_ms)
{
    bool failed = status == 0 || status == 500 || (status >= 502 && status <= 504);
    uint64_t asked_s = RON_MIN(ask->stale_if_error_s, life->max_stale_s);

    return failed && !life->no_cache && !ask->no_cache &&
           within(edg_life_ttl_s(life, now_ms), RON_MAX(life->stale_if_error_s, asked_s));
}

void edg_conditions(struct edg_fields stored, struct edg_conditions *ret_conditions)
{
    struct edg_conditions c = {.if_none_match = {NULL, 0}};
    struct ron_http_etag etag;
    struct ron_str value;
    uint64_t modified_s;

    if (edg_fields_get(stored, "ETag", &value) == 1 &&
        ron_http_etag_parse(value, &etag) == RON_OK) {
        c.if_none_match = value;
    }
    if (edg_date(stored, "Last-Modified", 0, &modified_s) == RON_OK &&
        edg_fields_get(stored, "Last-Modified", &value) == 1) {
        c.if_modified_since = value;
    }
    *ret_conditions = c;
}
