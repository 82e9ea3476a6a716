/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_deadline.c - any bytes as the value of Request-Timeout.
 *
 * Oracle: a text that is read has only the bytes of the grammar, a second reader agrees on whether
 * it is one, and its number written out again reads as the same; a refused one leaves the result
 * untouched. */
#include <stdint.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/guard/deadline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The grammar once more, by counting. */
static bool is_number(const char *text, size_t len)
{
    size_t whole = 0;
    size_t part = 0;

    while (whole < len && strchr("0123456789", text[whole]) != NULL && text[whole] != '\0') {
        whole++;
    }
    if (len > RON_TIMEOUT_TEXT_MAX || whole == 0 || (whole > 1 && text[0] == '0')) {
        return false;
    }
    if (whole == len) {
        return true;
    }
    for (size_t i = whole + 1; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        part++;
    }
    return text[whole] == '.' && part >= 1 && part <= 9;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = size > 0 ? (const char *)data : "";
    uint64_t ns = 77;
    bool is_timeout = ron_request_timeout_parse(text, size, &ns, NULL) == RON_OK;

    RON_ASSERT(is_timeout == is_number(text, size));
    RON_ASSERT(is_timeout || ns == 77);
    if (is_timeout && ns < UINT64_MAX - 5000) {
        char back[RON_TIMEOUT_FORMAT_SIZE];
        uint64_t back_ns = 0;
        size_t len = ron_request_timeout_format(ron_deadline_after_ns(5000, ns), 5000, back);

        RON_ASSERT(ron_request_timeout_parse(back, len, &back_ns, NULL) == RON_OK);
        RON_ASSERT(back_ns == ns / RON_NS_PER_MS * RON_NS_PER_MS);
    }
    return 0;
}
