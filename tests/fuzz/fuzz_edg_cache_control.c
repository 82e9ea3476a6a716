/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the caching rules. Two bytes are the status and how much time passes; then the
 * lines of an answer, an empty line, and the lines of a request.
 *
 * Properties of any input: a header said twice, or in lines of another order, means the same;
 * no-store keeps an answer out; nothing comes from the store that is older than what its windows
 * allow, and never by time alone does a stale answer become fresh; a 304 that repeats the stored
 * fields changes nothing. */
#include "edg_lines.h"

#include "edge/rules/fresh.h"
#include "edge/rules/fresh_update.h"
#include "ron/base/assert.h"

#define NOW_MS UINT64_C(1700000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct edg_policy policy = {.stale_while_revalidate_s = 3,
                                         .stale_if_error_s = 5,
                                         .heuristic_max_s = 100,
                                         .negative_ttl_s = 2};

static bool same_cc(const struct edg_cc *a, const struct edg_cc *b)
{
    bool same = a->flags == b->flags;

#define X(member, text) same = same && a->member == b->member;
    EDG_CC_NUMBERS(X)
#undef X
    return same;
}

static void check_twice(struct edg_fields fields)
{
    struct ron_http_field twice[2 * LINES_MAX];
    struct edg_fields both = {.at = twice, .count = 2 * fields.count};
    struct edg_cc a;
    struct edg_cc b;

    for (size_t i = 0; i < fields.count; i++) {
        twice[i] = fields.at[i];
        twice[both.count - 1 - i] = fields.at[i];
    }
    edg_cc_response(fields, &a);
    edg_cc_response(both, &b);
    RON_ASSERT(same_cc(&a, &b));
    edg_cc_request(fields, &a);
    edg_cc_request(both, &b);
    RON_ASSERT(same_cc(&a, &b));
}

static void check_store(const struct edg_exchange *ex)
{
    struct ron_http_field more[LINES_MAX + 1];
    struct edg_exchange forbidden = *ex;
    enum edg_storing verdict = edg_store_judge(ex, &policy);

    memcpy(more, ex->request.at, ex->request.count * sizeof more[0]);
    more[ex->request.count] =
        (struct ron_http_field){ron_str_of("cache-control"), ron_str_of("no-store")};
    forbidden.request = (struct edg_fields){.at = more, .count = ex->request.count + 1};
    RON_ASSERT(edg_store_judge(&forbidden, &policy) != EDG_STORE_OK);
    RON_ASSERT(edg_store_label(verdict) != NULL);
}

static void check_use(const struct edg_exchange *ex, uint64_t after_ms)
{
    struct edg_life life;
    struct edg_ask ask;
    struct edg_use now;
    struct edg_use later;

    edg_life_read(ex, &policy, &life);
    edg_ask_read(RON_HTTP_GET, ex->request, &ask);
    edg_use(&life, &ask, NOW_MS, &now);
    edg_use(&life, &ask, NOW_MS + after_ms, &later);
    RON_ASSERT(later.verdict != EDG_FRESH || now.verdict == EDG_FRESH || ask.max_stale_s > 0);
    RON_ASSERT(later.age_s >= now.age_s && later.ttl_s <= now.ttl_s);
    if (later.verdict == EDG_FRESH) {
        RON_ASSERT(later.ttl_s > 0 && later.fwd == EDG_FWD_NONE && !life.no_cache && !ask.no_cache);
        RON_ASSERT(ask.max_age_s == EDG_SECONDS_NONE || later.age_s <= ask.max_age_s);
    }
    if (later.verdict == EDG_STALE_OK) {
        uint64_t stale_s = (uint64_t)-later.ttl_s;

        RON_ASSERT(later.ttl_s <= 0 && !life.no_cache && !ask.no_cache);
        RON_ASSERT(stale_s <= life.stale_while_revalidate_s ||
                   (stale_s <= ask.max_stale_s && stale_s <= life.max_stale_s));
    }
    if (edg_use_on_error(&life, &ask, 503, NOW_MS + after_ms)) {
        RON_ASSERT(!life.no_cache && !ask.no_cache);
    }
    RON_ASSERT(!edg_use_on_error(&life, &ask, 404, NOW_MS));
}

static void check_update(struct edg_fields response)
{
    struct ron_http_field kept[LINES_MAX];
    struct ron_http_field merged[2 * LINES_MAX];
    size_t count = 0;
    size_t again = 0;

    RON_ASSERT(edg_update_keep(response, kept, LINES_MAX, &count) == RON_OK);
    RON_ASSERT(edg_update_merge((struct edg_fields){kept, count}, response, merged,
                                RON_ARRAY_LEN(merged), &again) == RON_OK);
    RON_ASSERT(again == count);
    for (size_t i = 0; i < count; i++) {
        RON_ASSERT(!edg_cc_withheld(response, kept[i].name));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lines response;
    struct lines request;
    struct edg_exchange ex;
    struct ron_str rest;

    if (size < 2) {
        return 0;
    }
    rest = lines_read(&response, (struct ron_str){(const char *)data + 2, size - 2});
    RON_IGNORE(lines_read(&request, rest));
    ex = (struct edg_exchange){.method = RON_HTTP_GET,
                               .request = lines_view(&request),
                               .status = 100 + 2 * data[0],
                               .response = lines_view(&response),
                               .request_ms = NOW_MS - 1500,
                               .response_ms = NOW_MS};
    check_twice(lines_view(&response));
    check_twice(lines_view(&request));
    check_store(&ex);
    check_use(&ex, (uint64_t)data[1] * 500);
    check_update(lines_view(&response));
    return 0;
}
