/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/front/ask.c - from the target of a GET to a question; the contract is in ask.h.
 *
 * The table below has every target that both fronts serve. Path and query are still
 * percent-encoded; an account or id may hold '/', so names are cut out before they are decoded. */
#include "ledger/front/ask.h"

#include <string.h>

#include "ledger/read/reader.h"
#include "ron/base/hex.h"

enum { PAGE_DEFAULT = 100 };

/* ---- pieces ---------------------------------------------------------------------------------- */

static bool no(struct ron_http_error *ret, const char *detail)
{
    *ret = led_http_error(LED_REASON_INVALID, detail);
    return false;
}

static bool no_as_http(struct ron_http_error *ret, enum ron_http_reason reason)
{
    *ret = ron_http_error_of(reason);
    return false;
}

bool led_ask_number(struct ron_str query, const char *name, uint64_t absent, uint64_t *ret,
                    struct ron_http_error *ret_error)
{
    char room[24];
    struct ron_str value = {0};
    enum ron_rc rc = ron_http_query_get(query, name, room, sizeof room, &value);

    *ret = absent;
    if (rc == RON_NOTFOUND || (rc == RON_OK && ron_http_parse_u64(value, ret) == RON_OK)) {
        return true;
    }
    return no(ret_error, "a number in the query is not one");
}

bool led_ask_ends_with(struct ron_str *path, const char *suffix)
{
    size_t len = strlen(suffix);

    if (path->len <= len || memcmp(path->ptr + path->len - len, suffix, len) != 0) {
        return false;
    }
    path->len -= len;
    return true;
}

bool led_ask_name(struct ron_str in, char *out, size_t size, uint16_t *ret_len,
                  struct ron_http_error *ret_error)
{
    size_t len = 0;

    if (ron_http_percent_decode(in, false, out, size, &len) != RON_OK || len == 0) {
        return no(ret_error, "the name in the path is malformed");
    }
    *ret_len = (uint16_t)len;
    return true;
}

bool led_ask_account(struct ron_str in, struct led_query *q, struct ron_http_error *ret_error)
{
    if (!led_ask_name(in, q->account, sizeof q->account, &q->account_len, ret_error)) {
        return false;
    }
    if (!led_account_valid((struct ron_str){q->account, q->account_len})) {
        return no(ret_error, "not the name of an account");
    }
    return true;
}

/* ---- targets --------------------------------------------------------------------------------- */

/* What stands behind the prefix of the row, and the query. */
struct target {
    struct ron_str rest;
    struct ron_str query;
};

static bool account_ask(struct ron_str *path, enum led_ask *ret)
{
    static const struct {
        const char *suffix;
        enum led_ask ask;
    } rows[] = {{"/balances", LED_ASK_BALANCES},
                {"/entries", LED_ASK_HISTORY},
                {"/holds", LED_ASK_HOLDS},
                {"/debits", LED_ASK_DEBITS}};

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        if (led_ask_ends_with(path, rows[i].suffix)) {
            *ret = rows[i].ask;
            return true;
        }
    }
    return false;
}

/* The asset of which debits are summed up. */
static bool read_asset(struct ron_str query, struct led_query *q, struct ron_http_error *ret_error)
{
    char room[LED_ASSET_MAX + 1];
    struct ron_str value = {"roc", 3};
    enum ron_rc rc = ron_http_query_get(query, "asset", room, sizeof room, &value);

    if ((rc != RON_OK && rc != RON_NOTFOUND) || !led_asset_valid(value)) {
        return no(ret_error, "not the name of an asset");
    }
    memcpy(q->text, value.ptr, value.len);
    q->text_len = (uint16_t)value.len;
    return true;
}

static bool parse_account(const struct target *t, struct led_query *q, struct ron_http_error *e)
{
    struct ron_str path = t->rest;
    uint64_t limit = 0;

    if (!account_ask(&path, &q->ask)) {
        return no_as_http(e, RON_HTTP_NOT_FOUND);
    }
    if (!led_ask_account(path, q, e) ||
        !led_ask_number(t->query, q->ask == LED_ASK_BALANCES ? "at_seq" : "before", 0, &q->a, e) ||
        !led_ask_number(t->query, "limit", PAGE_DEFAULT, &limit, e)) {
        return false;
    }
    if (limit == 0 || limit > LED_PAGE_MAX) {
        return no(e, "limit is 1 to 1000");
    }
    q->limit = (uint32_t)limit;
    return q->ask != LED_ASK_DEBITS ||
           (led_ask_number(t->query, "since", 0, &q->b, e) && read_asset(t->query, q, e));
}

/* A seq that ends the path. */
static bool parse_seq(const struct target *t, struct led_query *q, struct ron_http_error *e)
{
    if (memchr(t->rest.ptr, '/', t->rest.len) != NULL) {
        return no_as_http(e, RON_HTTP_NOT_FOUND);
    }
    return ron_http_parse_u64(t->rest, &q->a) == RON_OK || no_as_http(e, RON_HTTP_PARAM);
}

/* b = how many witnesses must have signed the checkpoint; 0: it is that of the head. */
static bool parse_receipt(const struct target *t, struct led_query *q, struct ron_http_error *e)
{
    return parse_seq(t, q, e) && led_ask_number(t->query, "witnesses", 0, &q->b, e);
}

static bool parse_name(const struct target *t, struct led_query *q, struct ron_http_error *e)
{
    return led_ask_name(t->rest, q->text, LED_ID_MAX + 1, &q->text_len, e);
}

static bool parse_tile(const struct target *t, struct led_query *q, struct ron_http_error *e)
{
    if (t->rest.len > sizeof q->text - 5) {
        return no_as_http(e, RON_HTTP_NOT_FOUND);
    }
    memcpy(q->text, "tile/", 5);
    memcpy(q->text + 5, t->rest.ptr, t->rest.len);
    q->text_len = (uint16_t)(5 + t->rest.len);
    return true;
}

static bool parse_inclusion(const struct target *t, struct led_query *q, struct ron_http_error *e)
{
    return led_ask_number(t->query, "seq", 0, &q->a, e) &&
           led_ask_number(t->query, "size", 0, &q->b, e);
}

static bool parse_consistency(const struct target *t, struct led_query *q, struct ron_http_error *e)
{
    return led_ask_number(t->query, "from", 0, &q->a, e) &&
           led_ask_number(t->query, "to", 0, &q->b, e);
}

/* A prefix that ends in '/' has something behind it; any other is the whole path. The longer of two
 * stands first. */
static const struct {
    const char *prefix;
    enum led_ask ask;
    bool (*parse)(const struct target *t, struct led_query *q, struct ron_http_error *e);
} rows[] = {
    {"/accounts/", LED_ASK_BALANCES, parse_account},
    {"/entries/by-id/", LED_ASK_BY_ID, parse_name},
    {"/entries/", LED_ASK_ENTRY, parse_seq},
    {"/outcome/", LED_ASK_OUTCOME, parse_name},
    {"/receipt/", LED_ASK_RECEIPT, parse_receipt},
    {"/tile/", LED_ASK_TILE, parse_tile},
    {"/proof/inclusion", LED_ASK_INCLUSION, parse_inclusion},
    {"/proof/consistency", LED_ASK_CONSISTENCY, parse_consistency},
    {"/supply", LED_ASK_SUPPLY, NULL},
    {"/head", LED_ASK_HEAD, NULL},
    {"/checkpoint", LED_ASK_CHECKPOINT, NULL},
};

bool led_ask_parse(struct ron_str path, struct ron_str query, struct led_query *ret,
                   struct ron_http_error *ret_error)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].prefix);
        struct target t = {.query = query};

        if (path.len < len || memcmp(path.ptr, rows[i].prefix, len) != 0) {
            continue;
        }
        t.rest = (struct ron_str){path.ptr + len, path.len - len};
        if (rows[i].prefix[len - 1] != '/' && t.rest.len > 0) {
            continue;
        }
        if (rows[i].prefix[len - 1] == '/' && t.rest.len == 0) {
            return no_as_http(ret_error, RON_HTTP_PARAM);
        }
        *ret = (struct led_query){.ask = rows[i].ask};
        return rows[i].parse == NULL || rows[i].parse(&t, ret, ret_error);
    }
    return no_as_http(ret_error, RON_HTTP_NOT_FOUND);
}

void led_ask_write_head(struct ron_json_writer *j, uint64_t seq, const struct ron_tree_hash *root,
                        uint64_t ts_ms)
{
    char hex[2 * RON_TREE_HASH_BYTES + 1];

    ron_hex(root->bytes, RON_TREE_HASH_BYTES, hex);
    ron_json_u64(j, "seq", seq);
    ron_json_text(j, "root", hex);
    ron_json_u64(j, "ts", ts_ms);
}
