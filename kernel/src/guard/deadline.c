/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.c - reading and writing the deadline headers.
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

enum ron_rc ron_request_deadline_parse(const char *text, size_t len, uint64_t *ret_unix_ms,
                                       struct ron_err *err)
{
    uint64_t unix_ms = 0;

    if (len == 0 || len > RON_TIMEOUT_TEXT_MAX || read_integer(text, len, &unix_ms) != len) {
        return ron_err_set(err, RON_INVALID, "Deadline is not a time in milliseconds since 1970");
    }
    *ret_unix_ms = unix_ms;
    return RON_OK;
}

enum ron_rc ron_request_deadline(const struct ron_clock *clock, uint64_t server_ms,
                                 struct ron_header_value request_timeout,
                                 struct ron_header_value deadline,
                                 struct ron_deadline *ret_deadline, struct ron_err *err)
{
    uint64_t now_ns = ron_clock_mono_ns(clock);
    struct ron_deadline at =
        server_ms == 0 ? ron_deadline_never() : ron_deadline_after_ms(now_ns, server_ms);

    if (request_timeout.text != NULL) {
        uint64_t wish_ns = 0;

        RON_TRY(
            ron_request_timeout_parse(request_timeout.text, request_timeout.len, &wish_ns, err));
        at = ron_deadline_min(at, ron_deadline_after_ns(now_ns, wish_ns));
    }
    if (deadline.text != NULL) {
        uint64_t unix_ms = 0;
        uint64_t wall_ms;

        RON_TRY(ron_request_deadline_parse(deadline.text, deadline.len, &unix_ms, err));
        wall_ms = ron_clock_wall_ms(clock);
        at = ron_deadline_min(
            at, ron_deadline_after_ms(now_ns, unix_ms > wall_ms ? unix_ms - wall_ms : 0));
    }
    *ret_deadline = at;
    return RON_OK;
}

struct ron_deadline ron_call_deadline(struct ron_deadline request, uint64_t now_ns,
                                      uint64_t call_ms)
{
    if (call_ms == 0) {
        return request;
    }
    return ron_deadline_min(request, ron_deadline_after_ms(now_ns, call_ms));
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
