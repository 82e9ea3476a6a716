/* SPDX-License-Identifier: Apache-2.0 */
/* client/changes.c - events that name the accounts of a commit (docs/formats/ledger-oap.md). */
#include "client/bytes.h"
#include "client/client.h"

enum { HEAD = 8 + 1 + 2 };

bool lc_changes_next(struct lc_changes *c, struct ron_str *ret_account)
{
    size_t len;

    if (c->_at == c->_end) {
        return false;
    }
    len = (size_t)lc__get(c->_at, 2);
    *ret_account = (struct ron_str){(const char *)c->_at + 2, len};
    c->_at += 2 + len;
    return true;
}

enum ron_rc lc_changes_read(const void *payload, size_t len, struct lc_changes *ret)
{
    const uint8_t *p = payload;
    const uint8_t *at = p + HEAD;
    const uint8_t *end = p + len;
    struct lc_changes c;

    if (len < HEAD || p[8] > 1) {
        return RON_CORRUPT;
    }
    c = (struct lc_changes){.seq = lc__get(p, 8),
                            .last = p[8] == 1,
                            .count = (uint16_t)lc__get(p + 9, 2),
                            ._at = at,
                            ._end = end};
    if (c.seq == 0) {
        return RON_CORRUPT;
    }
    for (uint16_t i = 0; i < c.count; i++) {
        size_t name;

        if (end - at < 2) {
            return RON_CORRUPT;
        }
        name = (size_t)lc__get(at, 2);
        at += 2;
        if (name == 0 || name > LC_ACCOUNT_MAX || (size_t)(end - at) < name) {
            return RON_CORRUPT;
        }
        at += name;
    }
    if (at != end) {
        return RON_CORRUPT;
    }
    *ret = c;
    return RON_OK;
}
