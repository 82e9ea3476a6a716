/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.c - reading and writing Request-Timeout.
 *
 * Place: guard. Pure functions over borrowed bytes; nothing is allocated or kept. */
#include "ron/guard/deadline.h"

#include <stdio.h>

#include "ron/base/assert.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads an integer of the grammar at the start of text; saturates. Returns the bytes used, 0 when
 * there is none or it has a leading zero. */
static size_t read_integer(const char *text, size_t len, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t at = 0;

    while (at < len && is_digit(text[at])) {
        value = ron_sat_add_u64(ron_sat_mul_u64(value, 10), (uint64_t)(text[at] - '0'));
        at++;
    }
    if (at > 1 && text[0] == '0') {
        return 0;
    }
    *ret_value = value;
    return at;
}

/* Reads ".5" as 500000000 billionths. Returns the bytes used, 0 when malformed. */
static size_t read_fraction(const char *text, size_t len, uint64_t *ret_ns)
{
    uint64_t unit = RON_NS_PER_S;
    uint64_t ns = 0;
    size_t at = 1;

    while (at < len && is_digit(text[at]) && at <= 9) {
        unit /= 10;
        ns += unit * (uint64_t)(text[at] - '0');
        at++;
    }
    if (text[0] != '.' || at == 1) {
        return 0;
    }
    *ret_ns = ns;
    return at;
}

enum ron_rc ron_request_timeout_parse(const char *text, size_t len, uint64_t *ret_ns,
                                      struct ron_err *err)
{
    uint64_t whole_s = 0;
    uint64_t part_ns = 0;
    size_t used = len <= RON_TIMEOUT_TEXT_MAX ? read_integer(text, len, &whole_s) : 0;

    if (used > 0 && used < len) {
        size_t more = read_fraction(text + used, len - used, &part_ns);

        used = more > 0 ? used + more : 0;
    }
    if (used == 0 || used != len) {
        return ron_err_set(err, RON_INVALID, "Request-Timeout is not a number of seconds");
    }
    *ret_ns = ron_sat_add_u64(ron_sat_mul_u64(whole_s, RON_NS_PER_S), part_ns);
    return RON_OK;
}

size_t ron_request_timeout_format(struct ron_deadline deadline, uint64_t now_ns,
                                  char ret_text[RON_TIMEOUT_FORMAT_SIZE])
{
    uint64_t left_ms = ron_deadline_left_ns(deadline, now_ns) / RON_NS_PER_MS;
    int len;

    if (ron_deadline_is_never(deadline)) {
        ret_text[0] = '\0';
        return 0;
    }
    len =
        snprintf(ret_text, RON_TIMEOUT_FORMAT_SIZE, "%llu.%03u",
                 (unsigned long long)(left_ms / RON_MS_PER_S), (unsigned)(left_ms % RON_MS_PER_S));
    RON_ASSERT(len > 0);
    RON_ASSERT(len < RON_TIMEOUT_FORMAT_SIZE);
    return (size_t)len;
}
