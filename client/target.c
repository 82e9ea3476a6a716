/* SPDX-License-Identifier: Apache-2.0 */
/* client/target.c - what LC_CODE_READ asks for: targets as of HTTP GET, names percent-encoded. */
#include <inttypes.h>

#include "client/client.h"

/* Everything but letters, digits, '-' and '_' is escaped: '.' too, so that no name is a dot segment
 * and '/' stays part of the name. */
static void put_name(struct ron_buf *out, struct ron_str name)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = (uint8_t)name.ptr[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '_') {
            (void)ron_buf_append_byte(out, c);
        } else {
            char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};

            (void)ron_buf_append(out, escaped, sizeof escaped);
        }
    }
}

static void put_account(struct ron_buf *out, struct ron_str account, const char *what)
{
    (void)ron_buf_append_text(out, "/accounts/");
    put_name(out, account);
    (void)ron_buf_append_text(out, what);
}

void lc_target_account(struct ron_buf *out, struct ron_str account)
{
    put_account(out, account, "/balances");
}

void lc_target_debits(struct ron_buf *out, struct ron_str account, struct ron_str asset,
                      uint64_t since_ms, uint64_t before)
{
    put_account(out, account, "/debits?asset=");
    put_name(out, asset);
    (void)ron_buf_append_fmt(out, "&since=%" PRIu64, since_ms);
    if (before != 0) {
        (void)ron_buf_append_fmt(out, "&before=%" PRIu64, before);
    }
}

void lc_target_outcome(struct ron_buf *out, struct ron_str idem_id)
{
    (void)ron_buf_append_text(out, "/outcome/");
    put_name(out, idem_id);
}

void lc_target_by_id(struct ron_buf *out, struct ron_str id)
{
    (void)ron_buf_append_text(out, "/entries/by-id/");
    put_name(out, id);
}

void lc_target_head(struct ron_buf *out)
{
    (void)ron_buf_append_text(out, "/head");
}

void lc_target_history(struct ron_buf *out, struct ron_str account, struct ron_str query)
{
    put_account(out, account, query.len > 0 ? "/entries?" : "/entries");
    (void)ron_buf_append(out, query.ptr, query.len);
}

void lc_target_receipt(struct ron_buf *out, uint64_t seq)
{
    (void)ron_buf_append_fmt(out, "/receipt/%" PRIu64, seq);
}
