/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/input/row_text.c - the text of one contribution; contract in row_text.h.
 *
 * Blanks around an account are those of ASCII (space, tab, line feed, vertical tab, form feed,
 * carriage return); any other character outside the grammar is refused, not trimmed.
 *
 * Failure: a refused text and its reason. */
#include "rewarder/input/row_text.h"

#include <string.h>

enum ron_rc rwd__json_failed(const struct ron_json_error *json_err, struct ron_err *err)
{
    bool named = json_err->field[0] != '\0';

    return ron_err_set(err, RON_INVALID, "%s%s%s", json_err->field, named ? ": " : "",
                       json_err->reason);
}

/* ---- quick ----------------------------------------------------------------------------------- */

/* Behind the literal, or NULL. Inlined with a literal of known length, which becomes a comparison
 * of one or two words. */
static inline const char *skip_literal(const char *p, const char *literal, size_t len)
{
    return __builtin_memcmp(p, literal, len) == 0 ? p + len : NULL;
}

/* Behind `"name":` and at most one space on either side of it. */
#define SKIP_NAME(p, name) skip_name((p), "\"" name "\":", sizeof name + 2)
static inline const char *skip_name(const char *p, const char *literal, size_t len)
{
    p = skip_literal(*p == ' ' ? p + 1 : p, literal, len);
    return p != NULL && *p == ' ' ? p + 1 : p;
}

/* 1..19 digits without leading zero, which always fit. */
static inline const char *quick_number(const char *p, uint64_t *ret_number)
{
    const char *begin = p;
    uint64_t v = 0;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (p - begin == 19) {
            return NULL;
        }
        v = v * 10 + (uint64_t)(*p - '0');
    }
    if (p == begin || (*begin == '0' && p - begin > 1)) {
        return NULL;
    }
    *ret_number = v;
    return p;
}

static inline const char *quick_account(const char *p, struct ron_str *ret_account)
{
    const char *begin = p + 1;

    if (*p != '"') {
        return NULL;
    }
    for (p = begin; rwd_account_char(*p); p++) {
        if (p - begin == RWD_ACCOUNT_MAX) {
            return NULL;
        }
    }
    if (p == begin || *p != '"') {
        return NULL;
    }
    *ret_account = (struct ron_str){begin, (size_t)(p - begin)};
    return p + 1;
}

const char *rwd__row_quick(const char *text, struct rwd__share *ret_row)
{
    const char *p = SKIP_NAME(text + 1, "account");

    if (p == NULL || (p = quick_account(p, &ret_row->account)) == NULL || *p != ',' ||
        (p = SKIP_NAME(p + 1, "bytes_stored")) == NULL ||
        (p = quick_number(p, &ret_row->counters.bytes_stored)) == NULL || *p != ',' ||
        (p = SKIP_NAME(p + 1, "bytes_served")) == NULL ||
        (p = quick_number(p, &ret_row->counters.bytes_served)) == NULL || *p != ',' ||
        (p = SKIP_NAME(p + 1, "uptime_seconds")) == NULL ||
        (p = quick_number(p, &ret_row->counters.uptime_seconds)) == NULL || *p != '}') {
        return NULL;
    }
    return p + 1;
}

/* ---- strict ---------------------------------------------------------------------------------- */

struct document {
    struct ron_str account;
    uint64_t bytes_stored;
    uint64_t bytes_served;
    uint64_t uptime_seconds;
    uint64_t present;
};

static const struct ron_json_field fields[] = {
    RON_JSON_FIELD(struct document, account, STRING, .required = true),
    RON_JSON_FIELD(struct document, bytes_stored, U64, .required = true),
    RON_JSON_FIELD(struct document, bytes_served, U64, .required = true),
    RON_JSON_FIELD(struct document, uptime_seconds, U64, .required = true),
};
static const struct ron_json_shape shape = RON_JSON_SHAPE(struct document, fields, present);

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct ron_str trim(struct ron_str s)
{
    while (s.len > 0 && is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

enum ron_rc rwd__row_strict(char *text, size_t len, struct rwd__share *ret_row, struct ron_err *err)
{
    struct ron_json_error json_err = {0};
    struct document d = {0};
    struct ron_str account;

    if (ron_json_scan(text, len, &shape, NULL, &d, &json_err) != RON_OK) {
        return rwd__json_failed(&json_err, err);
    }
    account = trim(d.account);
    if (!rwd_account_ok(account)) {
        return ron_err_set(err, RON_INVALID,
                           "account: 1 to %d of A-Z a-z 0-9 _ . : / - are expected",
                           (int)RWD_ACCOUNT_MAX);
    }
    *ret_row = (struct rwd__share){account, {d.bytes_stored, d.bytes_served, d.uptime_seconds}};
    return RON_OK;
}
