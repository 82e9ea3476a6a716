/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: no bytes from the wire make the ledger's client read beyond them or tell what cannot be.
 * Method: the first byte chooses the reader; what it accepts keeps the rules of the header. */
#include <stdint.h>
#include <string.h>

#include "client/client.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one_done(const void *p, size_t len)
{
    struct lc_done d;

    if (lc_done_read(p, len, &d) == RON_OK) {
        RON_ASSERT(len == LC_DONE_BYTES && d.seq_first <= d.seq_last);
        RON_ASSERT(d.dry_run == (d.seq_first == 0));
    }
}

static void one_refusal(char *p, size_t len)
{
    struct lc_refusal r;

    if (lc_refusal_read(p, len, &r) == RON_OK) {
        RON_ASSERT(r.reason < LC_REASON_COUNT);
        RON_ASSERT(memchr(r.message, '\0', sizeof r.message) != NULL);
        for (const char *c = r.message; *c != '\0'; c++) {
            RON_ASSERT(*c >= ' ' && *c <= '~');
        }
    }
}

static void one_outcome(char *p, size_t len)
{
    struct lc_outcome_of_key k;

    if (lc_outcome_read(p, len, &k) == RON_OK) {
        RON_ASSERT(k.outcome != LC_COMMITTED ||
                   (k.done.seq_first > 0 && k.done.seq_first <= k.done.seq_last));
    }
}

static void one_place(char *p, size_t len)
{
    struct lc_place at;

    if (lc_place_read(p, len, &at) == RON_OK) {
        RON_ASSERT(at.batch_first <= at.seq && at.seq <= at.batch_last);
        RON_ASSERT(at.idem_id.len == 0 || (at.idem_id.ptr >= p && at.idem_id.ptr < p + len));
    }
}

static void one_changes(const char *p, size_t len)
{
    struct lc_changes c;
    struct ron_str name;
    uint16_t count = 0;

    if (lc_changes_read(p, len, &c) != RON_OK) {
        return;
    }
    while (lc_changes_next(&c, &name)) {
        RON_ASSERT(name.len > 0 && name.ptr > p && name.ptr + name.len <= p + len);
        count++;
    }
    RON_ASSERT(count == c.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lc_account account;
    struct lc_debits debits;
    struct lc_head head;
    size_t len = size - 1;
    char *copy;

    if (size == 0) {
        return 0;
    }
    copy = ron_alloc(len > 0 ? len
                             : 1); /* exactly as long, so that the sanitizer sees a step beyond */
    RON_ASSERT(copy != NULL);
    memcpy(copy, data + 1, len);
    switch (data[0] % 8) {
    case 0:
        one_done(copy, len);
        break;
    case 1:
        one_refusal(copy, len);
        break;
    case 2:
        RON_IGNORE(lc_account_read(copy, len, (struct ron_str){"roc", 3}, &account));
        break;
    case 3:
        RON_IGNORE(lc_debits_read(copy, len, &debits));
        break;
    case 4:
        one_outcome(copy, len);
        break;
    case 5:
        one_place(copy, len);
        break;
    case 6:
        RON_IGNORE(lc_head_read(copy, len, &head));
        break;
    default:
        one_changes(copy, len);
        break;
    }
    ron_free(copy);
    return 0;
}
