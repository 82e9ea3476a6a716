/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/accept.c - Accept-Encoding against the variants that exist. */
#include "edge/rules/accept.h"

static const char *const tokens[EDG_ACCEPT_COUNT] = {
#define X(name, token) [EDG_ACCEPT_##name] = (token),
    EDG_ACCEPTS(X)
#undef X
};

const char *edg_accept_token(enum edg_accept coding)
{
    return tokens[coding];
}

enum ron_rc edg_accept_parse(struct ron_str token, enum edg_accept *ret_coding)
{
    if (ron_str_is_nocase(token, "x-gzip")) {
        *ret_coding = EDG_ACCEPT_GZIP;
        return RON_OK;
    }
    for (uint32_t i = 0; i < EDG_ACCEPT_COUNT; i++) {
        if (ron_str_is_nocase(token, tokens[i])) {
            *ret_coding = (enum edg_accept)i;
            return RON_OK;
        }
    }
    return RON_NOTFOUND;
}

enum edg_accept edg_accept_pick(struct edg_fields request, uint32_t available)
{
    struct edg_list list = edg_list_of(request, "Accept-Encoding");
    uint32_t weights[EDG_ACCEPT_COUNT] = {0};
    uint32_t named = 0;  /* bits of the codings that have a weight of their own */
    uint32_t others = 0; /* of "*" */
    enum edg_accept best = EDG_ACCEPT_IDENTITY;
    uint32_t best_weight = 0;
    struct ron_str item;

    while (edg_list_next(&list, &item)) {
        struct ron_str token;
        enum edg_accept coding;
        uint32_t weight;

        if (edg_weighted(item, &token, &weight) != RON_OK) {
            continue;
        }
        if (ron_str_is(token, "*")) {
            others = weight;
        } else if (edg_accept_parse(token, &coding) == RON_OK) {
            weights[coding] = weight;
            named |= edg_accept_bit(coding);
        }
    }
    for (uint32_t i = 0; i < EDG_ACCEPT_COUNT; i++) {
        uint32_t bit = edg_accept_bit((enum edg_accept)i);
        uint32_t weight = (named & bit) != 0 ? weights[i] : others;

        if ((available & bit) != 0 && weight > best_weight) {
            best = (enum edg_accept)i;
            best_weight = weight;
        }
    }
    return best;
}
