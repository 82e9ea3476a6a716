/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_money.c - any bytes as the text of an amount.
 *
 * Oracle: a byte-wise reading of `0|[1-9][0-9]*` decides whether the text is canonical; a canonical
 * text of at most 39 digits that is not above the largest amount, compared as text, must be read,
 * and must come back byte for byte. Everything else must be refused with a reason and an untouched
 * result.
 */
#include <stdint.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/money.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char max_text[] = "340282366920938463463374607431768211455";

static bool is_canonical(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
    }
    return len == 1 || (len > 1 && text[0] != '0');
}

static bool fits(const char *text, size_t len)
{
    size_t max_len = sizeof(max_text) - 1;

    return len < max_len || (len == max_len && memcmp(text, max_text, len) <= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct ron_money money = {.v = 77};
    struct ron_err err = {0};
    char back[RON_MONEY_TEXT_SIZE];
    enum ron_rc rc = ron_money_parse(text, size, &money, &err);

    RON_ASSERT((rc == RON_OK) == (is_canonical(text, size) && fits(text, size)));
    if (rc == RON_OK) {
        RON_ASSERT(ron_money_format(money, back) == size);
        RON_ASSERT(memcmp(back, text, size) == 0);
        RON_ASSERT(back[size] == '\0');
        RON_ASSERT(err.rc == RON_OK);
    } else {
        RON_ASSERT(rc == RON_INVALID || rc == RON_LIMIT);
        RON_ASSERT(rc == err.rc);
        RON_ASSERT(err.msg[0] != '\0');
        RON_ASSERT(money.v == 77);
    }
    return 0;
}
