/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/text.c - bytes, numbers, escapes and queries; and the table of reasons.
 *
 * Place: http; pure functions of ron/http/parse.h and ron/http/reason.h. */
#include <string.h>

#include "http/syntax/chars.h"
#include "http/syntax/syntax.h"
#include "ron/base/hex.h"
#include "ron/http/parse.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

#define ALNUM_FLAGS (CH_TOKEN | CH_URI | CH_HOST | CH_CORR | CH_QUOTED)
#define FIVE(c, f) [c] = (f), [(c) + 1] = (f), [(c) + 2] = (f), [(c) + 3] = (f), [(c) + 4] = (f)
#define DIGITS(f) FIVE('0', f), FIVE('5', f)
#define LETTERS(c, f)                                                                              \
    FIVE(c, f), FIVE((c) + 5, f), FIVE((c) + 10, f), FIVE((c) + 15, f), FIVE((c) + 20, f),         \
        [(c) + 25] = (f)

const uint8_t ron__http_char[256] = {
    DIGITS(ALNUM_FLAGS),
    LETTERS('A', ALNUM_FLAGS),
    LETTERS('a', ALNUM_FLAGS),
    ['\t'] = CH_QUOTED,
    [' '] = CH_QUOTED,
    ['-'] = ALNUM_FLAGS,
    ['.'] = ALNUM_FLAGS,
    ['_'] = ALNUM_FLAGS,
    ['~'] = CH_TOKEN | CH_URI | CH_HOST | CH_QUOTED,
    ['!'] = CH_TOKEN | CH_URI | CH_HOST | CH_QUOTED,
    ['$'] = CH_TOKEN | CH_URI | CH_HOST | CH_QUOTED,
    ['&'] = CH_TOKEN | CH_URI | CH_HOST | CH_QUOTED,
    ['\''] = CH_TOKEN | CH_URI | CH_HOST | CH_QUOTED,
    ['*'] = CH_TOKEN | CH_URI | CH_HOST | CH_QUOTED,
    ['+'] = CH_TOKEN | CH_URI | CH_HOST | CH_QUOTED,
    ['('] = CH_URI | CH_HOST | CH_QUOTED,
    [')'] = CH_URI | CH_HOST | CH_QUOTED,
    [','] = CH_URI | CH_QUOTED,
    [';'] = CH_URI | CH_HOST | CH_QUOTED,
    ['='] = CH_URI | CH_HOST | CH_QUOTED,
    [':'] = CH_URI | CH_QUOTED,
    ['@'] = CH_URI | CH_QUOTED,
    ['/'] = CH_URI | CH_QUOTED,
    ['?'] = CH_URI | CH_QUOTED,
    ['%'] = CH_TOKEN | CH_URI | CH_QUOTED,
    ['#'] = CH_TOKEN | CH_QUOTED,
    ['^'] = CH_TOKEN | CH_QUOTED,
    ['`'] = CH_TOKEN | CH_QUOTED,
    ['|'] = CH_TOKEN | CH_QUOTED,
    ['<'] = CH_QUOTED,
    ['>'] = CH_QUOTED,
    ['['] = CH_QUOTED,
    [']'] = CH_QUOTED,
    ['{'] = CH_QUOTED,
    ['}'] = CH_QUOTED,
};

static bool all_of(struct ron_str text, uint8_t flag)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((ron__http_char[(uint8_t)text.ptr[i]] & flag) == 0) {
            return false;
        }
    }
    return true;
}

bool ron_http_is_token(struct ron_str text)
{
    return text.len > 0 && all_of(text, CH_TOKEN);
}

bool ron_http_is_corr_id(struct ron_str text)
{
    return text.len > 0 && text.len <= RON_HTTP_CORR_ID_MAX && all_of(text, CH_CORR);
}

/* Visible bytes, blanks, tabs and obs-text. Values are most of what is parsed, so eight bytes are
 * judged at a time; where one of them may be wrong, byte by byte. */
bool ron_http_is_value(struct ron_str text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t i = 0;

    for (; text.len - i >= 8; i += 8) {
        uint64_t x;
        memcpy(&x, text.ptr + i, sizeof x);
        uint64_t low = (x - ones * 0x20) & ~x;                          /* below 0x20 */
        uint64_t del = ((x ^ ones * 0x7f) - ones) & ~(x ^ ones * 0x7f); /* 0x7f */
        if (((low | del) & (ones * 0x80)) != 0) {
            break;
        }
    }
    for (; i < text.len; i++) {
        uint8_t c = (uint8_t)text.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

enum ron_rc ron_http_parse_u64(struct ron_str text, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (text.len == 0) {
        return RON_INVALID;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' ||
            __builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.ptr[i] - '0'), &value)) {
            return RON_INVALID;
        }
    }
    *ret_value = value;
    return RON_OK;
}

/* ---- escapes and queries --------------------------------------------------------------------- */

enum ron_rc ron_http_percent_decode(struct ron_str in, bool plus_is_space, char *out, size_t size,
                                    size_t *ret_len)
{
    size_t n = 0;

    for (size_t i = 0; i < in.len; i++) {
        uint8_t c = (uint8_t)in.ptr[i];

        if (c == '%') {
            if (in.len - i < 3 ||
                !ron_unhex((struct ron_str){in.ptr + i + 1, 2}, RON_HEX_ANY, &c, 1)) {
                return RON_INVALID;
            }
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c < 0x20 || c == 0x7f) {
            return RON_INVALID;
        }
        if (n == size) {
            return RON_LIMIT;
        }
        out[n++] = (char)c;
    }
    *ret_len = n;
    return RON_OK;
}

bool ron_http_query_next(struct ron_str *rest, struct ron_str *ret_name, struct ron_str *ret_value)
{
    while (rest->len > 0) {
        const char *amp = memchr(rest->ptr, '&', rest->len);
        struct ron_str pair = {rest->ptr, amp == NULL ? rest->len : (size_t)(amp - rest->ptr)};
        size_t step = pair.len + (amp != NULL);
        const char *eq;

        rest->ptr += step;
        rest->len -= step;
        if (pair.len == 0) {
            continue;
        }
        eq = memchr(pair.ptr, '=', pair.len);
        *ret_name = (struct ron_str){pair.ptr, eq == NULL ? pair.len : (size_t)(eq - pair.ptr)};
        *ret_value = eq == NULL ? (struct ron_str){pair.ptr + pair.len, 0}
                                : (struct ron_str){eq + 1, pair.len - ret_name->len - 1};
        return true;
    }
    return false;
}

enum ron_rc ron_http_query_get(struct ron_str query, const char *name, char *out, size_t size,
                               struct ron_str *ret_value)
{
    struct ron_str rest = query;
    struct ron_str n;
    struct ron_str v;
    struct ron_str found = {0};
    size_t len = 0;

    while (ron_http_query_next(&rest, &n, &v)) {
        if (ron_str_is(n, name)) {
            if (found.ptr != NULL) {
                return RON_CONFLICT;
            }
            found = v;
        }
    }
    if (found.ptr == NULL) {
        return RON_NOTFOUND;
    }
    RON_TRY(ron_http_percent_decode(found, true, out, size, &len));
    *ret_value = (struct ron_str){out, len};
    return RON_OK;
}

/* ---- reasons and statuses -------------------------------------------------------------------- */

static const struct ron_http_error reasons[] = {
#define X(name, status_, code_, label, retryable_, message_)                                       \
    [RON_HTTP_##name] = {.status = (status_),                                                      \
                         .code = (code_),                                                          \
                         .message = (message_),                                                    \
                         .reason = (label),                                                        \
                         .retryable = (retryable_)},
    RON_HTTP_REASONS(X)
#undef X
};

struct ron_http_error ron_http_error_of(enum ron_http_reason reason)
{
    return reasons[(size_t)reason < RON_ARRAY_LEN(reasons) ? reason : RON_HTTP_INTERNAL];
}

const char *ron_http_reason_label(enum ron_http_reason reason)
{
    return ron_http_error_of(reason).reason;
}

const char *ron_http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } rows[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {203, "Non-Authoritative Information"},
        {204, "No Content"},
        {205, "Reset Content"},
        {206, "Partial Content"},
        {300, "Multiple Choices"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {451, "Unavailable For Legal Reasons"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
        {508, "Loop Detected"},
    };
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        if (rows[i].status == status) {
            return rows[i].text;
        }
    }
    return "Unknown";
}
