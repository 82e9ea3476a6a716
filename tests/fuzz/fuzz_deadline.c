/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_deadline.c - any bytes as the values of Request-Timeout and Deadline.
 *
 * Oracle: a text that is read has only the bytes of the grammar, a second reader agrees on whether
 * it is one, and its number written out again reads as the same; a refused one leaves the result
 * untouched; a request's deadline is never later than the server's. */
#include <stdint.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/guard/deadline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The grammar once more, by counting. */
static bool is_number(const char *text, size_t len, bool fraction)
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
    return fraction && text[whole] == '.' && part >= 1 && part <= 9;
}

static uint64_t mono_ns(void *ctx)
{
    (void)ctx;
    return 5000;
}

static uint64_t wall_ms(void *ctx)
{
    (void)ctx;
    return UINT64_C(1700000000000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ron_clock clock = {mono_ns, wall_ms, NULL};
    const char *text = (const char *)data;
    struct ron_header_value value = {text, size};
    struct ron_header_value absent = {NULL, 0};
    struct ron_deadline at = {77};
    uint64_t ns = 77;
    uint64_t ms = 77;
    bool is_timeout;
    bool is_deadline;

    if (size == 0) {
        text = "";
        value.text = text;
    }
    is_timeout = ron_request_timeout_parse(text, size, &ns, NULL) == RON_OK;
    is_deadline = ron_request_deadline_parse(text, size, &ms, NULL) == RON_OK;
    RON_ASSERT(is_timeout == is_number(text, size, true));
    RON_ASSERT(is_deadline == is_number(text, size, false));
    RON_ASSERT(is_timeout || ns == 77);
    RON_ASSERT(is_deadline || ms == 77);
    if (ron_request_deadline(&clock, 1000, value, absent, &at, NULL) == RON_OK) {
        RON_ASSERT(at.at_ns <= 5000 + RON_NS_PER_S);
        RON_ASSERT(at.at_ns == ron_deadline_min(ron_deadline_after_ns(5000, RON_NS_PER_S),
                                                ron_deadline_after_ns(5000, ns))
                                   .at_ns);
    } else {
        RON_ASSERT(at.at_ns == 77);
    }
    if (is_timeout && ns < UINT64_MAX - 5000) {
        char back[RON_TIMEOUT_FORMAT_SIZE];
        uint64_t back_ns = 0;
        size_t len = ron_request_timeout_format(ron_deadline_after_ns(5000, ns), 5000, back);

        RON_ASSERT(ron_request_timeout_parse(back, len, &back_ns, NULL) == RON_OK);
        RON_ASSERT(back_ns == ns / RON_NS_PER_MS * RON_NS_PER_MS);
    }
    return 0;
}
