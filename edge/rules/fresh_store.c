/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/fresh_store.c - which answers a shared cache stores (RFC 9111 3). */
#include "edge/rules/fresh.h"
#include "edge/rules/fresh_priv.h"
#include "edge/rules/vary.h"

static const char *const labels[EDG_STORE_COUNT] = {
#define X(name, label) [EDG_STORE_##name] = (label),
    EDG_STORE_VERDICTS(X)
#undef X
};

const char *edg_store_label(enum edg_storing verdict)
{
    return labels[verdict];
}

bool edg__status_negative(int status)
{
    return status == 404 || status == 405 || status == 410 || status == 414 || status == 501;
}

bool edg__status_heuristic(int status)
{
    return status == 200 || status == 203 || status == 204 || status == 300 || status == 301 ||
           status == 308 || edg__status_negative(status);
}

/* A final status whose meaning for caches is known here: those of RFC 9110, RFC 6585 and 451. */
static bool understood(int status)
{
    return (status >= 200 && status <= 205) || (status >= 300 && status <= 303) || status == 307 ||
           status == 308 || (status >= 400 && status <= 417) || status == 421 || status == 422 ||
           status == 426 || status == 428 || status == 429 || status == 431 || status == 451 ||
           (status >= 500 && status <= 505) || status == 511;
}

/* What such an answer says depends on more of its request than the key of a store holds (L5). */
static bool of_one_request(int status)
{
    return status < 200 || status == 206 || status == 304 || status == 412 || status == 416;
}

static bool is_explicit(const struct edg_exchange *ex, const struct edg_cc *cc)
{
    return cc->max_age_s != EDG_SECONDS_NONE || cc->s_maxage_s != EDG_SECONDS_NONE ||
           edg_fields_has(ex->response, "Expires");
}

static bool method_stores(const struct edg_exchange *ex, bool explicit_freshness)
{
    return ex->method == RON_HTTP_GET || (ex->method == RON_HTTP_POST && ex->self_located &&
                                          explicit_freshness && ex->status == 200);
}

/* no-store of either side; must-understand lifts that of the origin where it is fulfilled. */
static bool no_store(const struct edg_exchange *ex, const struct edg_cc *cc)
{
    struct edg_cc asked;

    edg_cc_request(ex->request, &asked);
    return (asked.flags & EDG_CC_NO_STORE) != 0 ||
           ((cc->flags & EDG_CC_NO_STORE) != 0 && (cc->flags & EDG_CC_MUST_UNDERSTAND) == 0);
}

static bool allowed_for_all(const struct edg_exchange *ex, const struct edg_cc *cc)
{
    return !edg_fields_has(ex->request, "Authorization") || cc->s_maxage_s != EDG_SECONDS_NONE ||
           (cc->flags & (EDG_CC_PUBLIC | EDG_CC_MUST_REVALIDATE)) != 0;
}

/* Whether it could ever be given to anybody. */
static bool useful(const struct edg_exchange *ex, const struct edg_policy *policy)
{
    struct edg_life life;

    edg_life_read(ex, policy, &life);
    if (life.validator) {
        return true;
    }
    return !life.no_cache && (edg_life_ttl_s(&life, ex->response_ms) > 0 ||
                              life.stale_while_revalidate_s > 0 || life.stale_if_error_s > 0);
}

enum edg_storing edg_store_judge(const struct edg_exchange *ex, const struct edg_policy *policy)
{
    struct edg_vary vary;
    struct edg_cc cc;
    bool explicit_freshness;

    edg_cc_response(ex->response, &cc);
    explicit_freshness = is_explicit(ex, &cc);
    if (!method_stores(ex, explicit_freshness)) {
        return EDG_STORE_METHOD;
    }
    if (of_one_request(ex->status) ||
        ((cc.flags & EDG_CC_MUST_UNDERSTAND) != 0 && !understood(ex->status)) ||
        (!explicit_freshness && (cc.flags & EDG_CC_PUBLIC) == 0 &&
         !edg__status_heuristic(ex->status))) {
        return EDG_STORE_STATUS;
    }
    if (no_store(ex, &cc)) {
        return EDG_STORE_NO_STORE;
    }
    if ((cc.flags & EDG_CC_PRIVATE) != 0) {
        return EDG_STORE_PRIVATE;
    }
    if (!allowed_for_all(ex, &cc)) {
        return EDG_STORE_AUTHORIZATION;
    }
    edg_vary_parse(ex->response, &vary);
    if (vary.any) {
        return EDG_STORE_VARY;
    }
    return useful(ex, policy) ? EDG_STORE_OK : EDG_STORE_USELESS;
}
