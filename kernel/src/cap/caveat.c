/* SPDX-License-Identifier: Apache-2.0 */
/* caveat.c - grammar and meaning of caveats; the contract is in ron/cap/caveat.h.
 *
 * Place: cap. Values are compared as bytes; only `max` and `exp` are numbers.
 *
 * Invariant: what ron__cap_allows answers for a compiled token is OK exactly when
 * ron_cap_caveat_holds is OK for each of its caveats (and must_carry is met). */
#include <string.h>

#include "cap/cap_priv.h"
#include "cap/cap_testing.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"

struct why_row {
    const char *label;
    const char *doc;
    int http;
};

static const struct why_row why_rows[] = {
#define X(name, http_, label_, doc_) {.label = (label_), .doc = (doc_), .http = (http_)},
    RON_CAP_WHY_TABLE(X)
#undef X
};

struct kind_row {
    const char *name;
    enum ron_cap_why why;
};

static const struct kind_row kind_rows[] = {
#define X(name_, text, why_, value, doc) {.name = (text), .why = RON_CAP_##why_},
    RON_CAP_KIND_TABLE(X)
#undef X
};

const char *ron_cap_why_label(enum ron_cap_why why)
{
    return (unsigned)why < RON_CAP_WHY_COUNT ? why_rows[why].label : "?";
}

const char *ron_cap_why_doc(enum ron_cap_why why)
{
    return (unsigned)why < RON_CAP_WHY_COUNT ? why_rows[why].doc : "?";
}

int ron_cap_why_http(enum ron_cap_why why)
{
    return (unsigned)why < RON_CAP_WHY_COUNT ? why_rows[why].http : 500;
}

const char *ron_cap_kind_name(enum ron_cap_kind kind)
{
    return (unsigned)kind < RON_CAP_KIND_COUNT ? kind_rows[kind].name : "?";
}

/* ---- grammar --------------------------------------------------------------------------------- */

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return is_lower(c) || is_digit(c) || (c >= 'A' && c <= 'Z');
}

/* Unlike strchr, this does not find the NUL. */
static bool is_one_of(char c, const char *marks)
{
    return c != '\0' && strchr(marks, c) != NULL;
}

/* [a-z][a-z0-9_-]* */
static bool audience_valid(struct ron_str s)
{
    if (s.len == 0 || s.len > RON_CAP_NAME_MAX || !is_lower(s.ptr[0])) {
        return false;
    }
    for (size_t i = 1; i < s.len; i++) {
        if (!is_lower(s.ptr[i]) && !is_digit(s.ptr[i]) && s.ptr[i] != '_' && s.ptr[i] != '-') {
            return false;
        }
    }
    return true;
}

/* [A-Za-z0-9][A-Za-z0-9._:-]*, for assets and tenants. */
static bool name_valid(struct ron_str s)
{
    if (s.len == 0 || s.len > RON_CAP_NAME_MAX || !is_alnum(s.ptr[0])) {
        return false;
    }
    for (size_t i = 1; i < s.len; i++) {
        if (!is_alnum(s.ptr[i]) && !is_one_of(s.ptr[i], "._:-")) {
            return false;
        }
    }
    return true;
}

/* The text up to `mark` or the end; moves *rest behind the mark, to NULL when there was none. */
static struct ron_str cut(struct ron_str *rest, char mark)
{
    const char *at = memchr(rest->ptr, mark, rest->len);
    struct ron_str head = *rest;

    if (at == NULL) {
        *rest = (struct ron_str){0};
        return head;
    }
    head.len = (size_t)(at - rest->ptr);
    *rest = (struct ron_str){.ptr = at + 1, .len = rest->len - head.len - 1};
    return head;
}

bool ron_cap_scope_valid(struct ron_str scope)
{
    struct ron_str rest = scope;

    if (scope.len == 0 || scope.len > RON_CAP_NAME_MAX) {
        return false;
    }
    while (rest.ptr != NULL) {
        if (!audience_valid(cut(&rest, '.'))) {
            return false;
        }
    }
    return true;
}

bool ron_cap_scopes_valid(struct ron_str list)
{
    struct ron_str seen[RON_CAP_SCOPES_MAX];
    size_t count = 0;
    struct ron_str rest = list;

    if (list.len == 0 || list.len > RON_CAP_SCOPES_LEN) {
        return false;
    }
    while (rest.ptr != NULL) {
        struct ron_str scope = cut(&rest, ',');

        if (!ron_cap_scope_valid(scope) || count == RON_CAP_SCOPES_MAX) {
            return false;
        }
        for (size_t i = 0; i < count; i++) {
            if (ron_str_equal(seen[i], scope)) {
                return false;
            }
        }
        seen[count++] = scope;
    }
    return true;
}

/* C4 for names whose levels are parted by one of `marks`. */
static bool covers(struct ron_str above, struct ron_str below, char mark, char other_mark)
{
    if (above.len > below.len || memcmp(above.ptr, below.ptr, above.len) != 0) {
        return false;
    }
    return above.len == below.len || below.ptr[above.len] == mark ||
           below.ptr[above.len] == other_mark;
}

bool ron_cap_scopes_cover(struct ron_str list, struct ron_str wanted)
{
    struct ron_str rest = list;

    while (rest.ptr != NULL) {
        if (covers(cut(&rest, ','), wanted, '.', '.')) {
            return true;
        }
    }
    return false;
}

bool ron_cap_prefix_valid(struct ron_str prefix)
{
    size_t len = prefix.len;

    if (len > 0 && prefix.ptr[len - 1] == '*') {
        len--;
    }
    if (len == 0 || len > RON_CAP_ACCOUNT_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_alnum(prefix.ptr[i]) && !is_one_of(prefix.ptr[i], ":/_.@-")) {
            return false;
        }
    }
    return true;
}

bool ron_cap_prefix_covers(struct ron_str prefix, struct ron_str account)
{
    char last;

    if (prefix.len == 0 || account.len == 0) {
        return false;
    }
    last = prefix.ptr[prefix.len - 1];
    if (last == '*' || last == ':' || last == '/') {
        size_t len = prefix.len - (last == '*');

        return account.len >= len && memcmp(prefix.ptr, account.ptr, len) == 0;
    }
    return covers(prefix, account, ':', '/');
}

/* ---- caveats --------------------------------------------------------------------------------- */

/* A canonical number of at most 19 digits. */
static bool parse_seconds(struct ron_str s, uint64_t *ret_seconds)
{
    uint64_t n = 0;

    if (s.len == 0 || s.len > 19 || (s.ptr[0] == '0' && s.len > 1)) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.ptr[i])) {
            return false;
        }
        n = n * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    *ret_seconds = n;
    return true;
}

static bool value_valid(struct ron_cap_caveat *c)
{
    switch (c->kind) {
    case RON_CAP_KIND_AUD:
        return audience_valid(c->value);
    case RON_CAP_KIND_SCOPE:
        return ron_cap_scopes_valid(c->value);
    case RON_CAP_KIND_ACCOUNT:
        return ron_cap_prefix_valid(c->value);
    case RON_CAP_KIND_ASSET:
    case RON_CAP_KIND_TENANT:
        return name_valid(c->value);
    case RON_CAP_KIND_MAX:
        return ron_money_parse(c->value.ptr, c->value.len, &c->max, NULL) == RON_OK;
    case RON_CAP_KIND_EXP:
        return parse_seconds(c->value, &c->exp_s);
    case RON_CAP_KIND_AMNESIA:
        return ron_str_is(c->value, "true");
    case RON_CAP_KIND_COUNT:
        break;
    }
    RON_UNREACHABLE();
}

enum ron_cap_why ron_cap_caveat_parse(const char *text, size_t len,
                                      struct ron_cap_caveat *ret_caveat)
{
    struct ron_cap_caveat c = {0};
    const char *blank = len == 0 ? NULL : memchr(text, ' ', len);
    struct ron_str name = {.ptr = text, .len = blank == NULL ? len : (size_t)(blank - text)};
    size_t kind = 0;

    while (kind < RON_CAP_KIND_COUNT && !ron_str_is(name, kind_rows[kind].name)) {
        kind++;
    }
    if (kind == RON_CAP_KIND_COUNT) {
        return RON_CAP_UNKNOWN_CAVEAT;
    }
    c.kind = (enum ron_cap_kind)kind;
    if (blank == NULL || len > RON_CAP_CAVEAT_MAX || len < name.len + 3 ||
        memcmp(blank, " = ", 3) != 0) {
        return RON_CAP_BAD_CAVEAT;
    }
    c.value = (struct ron_str){.ptr = blank + 3, .len = len - name.len - 3};
    if (!value_valid(&c)) {
        return RON_CAP_BAD_CAVEAT;
    }
    *ret_caveat = c;
    return RON_CAP_OK;
}

static bool accounts_covered(struct ron_str prefix, const struct ron_cap_request *r)
{
    for (size_t i = 0; i < r->account_count; i++) {
        if (!ron_cap_prefix_covers(prefix, r->accounts[i])) {
            return false;
        }
    }
    return r->account_count > 0; /* C3 */
}

bool ron__cap_unexpired(uint64_t exp_s, uint64_t now_ms)
{
    return now_ms / RON_MS_PER_S < ron_sat_add_u64(exp_s, RON_CAP_SKEW_S);
}

/* The kinds whose values are compared as text. */
static bool value_holds(enum ron_cap_kind kind, struct ron_str value,
                        const struct ron_cap_request *r)
{
    switch (kind) {
    case RON_CAP_KIND_AUD:
        return ron_str_equal(value, r->audience);
    case RON_CAP_KIND_SCOPE:
        return ron_cap_scopes_cover(value, r->scope);
    case RON_CAP_KIND_ACCOUNT:
        return accounts_covered(value, r);
    case RON_CAP_KIND_ASSET:
        return ron_str_equal(value, r->asset);
    case RON_CAP_KIND_TENANT:
        return ron_str_equal(value, r->tenant);
    case RON_CAP_KIND_MAX:
    case RON_CAP_KIND_EXP:
    case RON_CAP_KIND_AMNESIA:
    case RON_CAP_KIND_COUNT:
        break;
    }
    RON_UNREACHABLE();
}

enum ron_cap_why ron_cap_caveat_holds(const struct ron_cap_caveat *caveat,
                                      const struct ron_cap_request *request)
{
    bool holds;

    if (caveat->kind == RON_CAP_KIND_MAX) {
        holds = ron_money_cmp(request->amount, caveat->max) <= 0;
    } else if (caveat->kind == RON_CAP_KIND_EXP) {
        holds = ron__cap_unexpired(caveat->exp_s, request->now_ms);
    } else if (caveat->kind == RON_CAP_KIND_AMNESIA) {
        holds = request->amnesia;
    } else {
        holds = value_holds(caveat->kind, caveat->value, request);
    }
    return holds ? RON_CAP_OK : kind_rows[caveat->kind].why;
}

/* ---- compiled -------------------------------------------------------------------------------- */

enum ron_cap_why ron__cap_compile(const struct ron_cap_token *token, struct ron_cap_item *items,
                                  struct ron_cap_grant *ret_grant)
{
    struct ron_cap_grant g = {.bytes = (const char *)token->raw,
                              .items = items,
                              .exp_s = UINT64_MAX,
                              .max = RON_MONEY_MAX};

    for (size_t i = 0; i < token->caveat_count; i++) {
        struct ron_str text = ron_cap_str(token, token->caveats[i]);
        struct ron_cap_caveat c;
        enum ron_cap_why why = ron_cap_caveat_parse(text.ptr, text.len, &c);

        if (why != RON_CAP_OK) {
            return why;
        }
        g.kinds |= RON_CAP_KIND_BIT(c.kind);
        if (c.kind == RON_CAP_KIND_MAX) {
            g.max = ron_money_cmp(c.max, g.max) < 0 ? c.max : g.max;
        } else if (c.kind == RON_CAP_KIND_EXP) {
            g.exp_s = RON_MIN(g.exp_s, c.exp_s);
        } else if (c.kind != RON_CAP_KIND_AMNESIA) {
            items[g.item_count++] = (struct ron_cap_item){.kind = (uint8_t)c.kind,
                                                          .at = (uint16_t)(c.value.ptr - g.bytes),
                                                          .len = (uint16_t)c.value.len};
        }
    }
    *ret_grant = g;
    return RON_CAP_OK;
}

enum ron_cap_why ron_cap_grant_allows(const struct ron_cap_grant *grant, uint32_t kinds,
                                      const struct ron_cap_request *request)
{
    if ((kinds & RON_CAP_KIND_BIT(RON_CAP_KIND_EXP)) != 0 &&
        !ron__cap_unexpired(grant->exp_s, request->now_ms)) {
        return RON_CAP_EXPIRED;
    }
    for (size_t i = 0; i < grant->item_count; i++) {
        const struct ron_cap_item *item = &grant->items[i];
        struct ron_str value = {.ptr = grant->bytes + item->at, .len = item->len};

        if ((kinds & RON_CAP_KIND_BIT(item->kind)) != 0 &&
            !value_holds((enum ron_cap_kind)item->kind, value, request)) {
            return kind_rows[item->kind].why;
        }
    }
    if ((kinds & RON_CAP_KIND_BIT(RON_CAP_KIND_MAX)) != 0 &&
        ron_money_cmp(request->amount, grant->max) > 0) {
        return RON_CAP_AMOUNT;
    }
    if ((kinds & grant->kinds & RON_CAP_KIND_BIT(RON_CAP_KIND_AMNESIA)) != 0 && !request->amnesia) {
        return RON_CAP_AMNESIA;
    }
    return (request->must_carry & ~grant->kinds) != 0 ? RON_CAP_REQUIRED : RON_CAP_OK;
}

enum ron_cap_why ron__cap_grant_copy(const struct ron_cap_grant *from, struct ron_arena *arena,
                                     struct ron_cap_grant *ret_grant)
{
    struct ron_cap_item *items =
        ron_arena_alloc(arena, from->item_count * sizeof *items, _Alignof(struct ron_cap_item));
    size_t bytes = 0;
    size_t at = 0;
    char *values;

    for (size_t i = 0; i < from->item_count; i++) {
        bytes += from->items[i].len;
    }
    values = ron_arena_alloc(arena, bytes, 1);
    if (items == NULL || values == NULL) {
        return RON_CAP_TOO_LARGE; /* not when the caller left RON_CAP_GRANT_BYTES */
    }
    for (size_t i = 0; i < from->item_count; i++) {
        items[i] = from->items[i];
        memcpy(values + at, from->bytes + items[i].at, items[i].len);
        items[i].at = (uint16_t)at;
        at += items[i].len;
    }
    *ret_grant = *from;
    ret_grant->items = items;
    ret_grant->bytes = values;
    return RON_CAP_OK;
}
