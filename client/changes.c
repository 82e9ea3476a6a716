/* SPDX-License-Identifier: Apache-2.0 */
/* client/changes.c - events that name the accounts of a commit (docs/formats/ledger-oap.md). */
#include "client/client.h"
#include "ron/base/bytes.h"

enum { HEAD = 8 + 1 + 2 };

bool lc_changes_next(struct lc_changes *c, struct ron_str *ret_account)
{
    size_t len;

    if (c->_at == c->_end) {
        return false;
    }
    len = ron_get_be16(c->_at);
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
    c = (struct lc_changes){.seq = ron_get_be64(p),
                            .last = p[8] == 1,
                            .count = ron_get_be16(p + 9),
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
        name = ron_get_be16(at);
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
