/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/entry/entry.c - kinds, reasons and the rules of an entry; the contract is in entry.h.
 *
 * Every rule has one place here, and both parsers end in led_entry_check, so that JSON and bytes
 * accept the same entries. */
#include "ledger/entry/entry.h"

#include <string.h>

#include "ron/base/assert.h"

/* ---- tables ---------------------------------------------------------------------------------- */

struct kind_row {
    const char *wire;
    bool takes_to;
    bool takes_ref;
};

static const struct kind_row kinds[] = {
#define X(name, byte, wire, to, ref, doc) [byte] = {wire, to, ref},
    LED_KIND_TABLE(X)
#undef X
};

struct reason_row {
    const char *wire;
    const char *doc;
    int http;
    bool retry;
};

static const struct reason_row reasons[] = {
#define X(name, wire, http, retry, doc) {wire, doc, http, retry},
    LED_REASON_TABLE(X)
#undef X
};

const char *led_kind_name(uint8_t kind)
{
    return kind < RON_ARRAY_LEN(kinds) ? kinds[kind].wire : NULL;
}

uint8_t led_kind_parse(struct ron_str name)
{
    for (size_t i = 1; i < RON_ARRAY_LEN(kinds); i++) {
        if (ron_str_is(name, kinds[i].wire)) {
            return (uint8_t)i;
        }
    }
    return 0;
}

bool led_kind_takes_to(uint8_t kind)
{
    return kind < RON_ARRAY_LEN(kinds) && kinds[kind].takes_to;
}

bool led_kind_takes_ref(uint8_t kind)
{
    return kind < RON_ARRAY_LEN(kinds) && kinds[kind].takes_ref;
}

static const struct reason_row *reason_row(enum led_reason reason)
{
    RON_ASSERT((unsigned)reason < LED_REASON_COUNT);
    return &reasons[reason];
}

const char *led_reason_name(enum led_reason reason)
{
    return reason_row(reason)->wire;
}

const char *led_reason_doc(enum led_reason reason)
{
    return reason_row(reason)->doc;
}

int led_reason_http_status(enum led_reason reason)
{
    return reason_row(reason)->http;
}

bool led_reason_retryable(enum led_reason reason)
{
    return reason_row(reason)->retry;
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void copy_printable(char *to, size_t size, const char *from)
{
    size_t len = RON_MIN(strlen(from), size - 1);

    for (size_t i = 0; i < len; i++) {
        to[i] = from[i];
        if ((uint8_t)to[i] < ' ' || (uint8_t)to[i] > '~') {
            to[i] = '?';
        }
    }
    to[len] = '\0';
}

void led_refuse(struct led_refusal *ret, enum led_reason reason, const char *member,
                const char *detail)
{
    ret->reason = reason;
    ret->idx = 0;
    copy_printable(ret->member, sizeof ret->member, member);
    copy_printable(ret->detail, sizeof ret->detail, detail);
}

void led_refusals_add(struct led_refusals *list, const struct led_refusal *refusal, uint32_t idx)
{
    if (list->count < LED_REFUSALS_MAX) {
        list->items[list->count] = *refusal;
        list->items[list->count].idx = idx;
        list->count++;
    }
}

/* ---- grammar --------------------------------------------------------------------------------- */

/* Sets of ASCII characters, a bit each: one load tells, and no byte needs a branch. A row has 32
 * characters; what is not ASCII is in no set. The unit test spells the sets out again. */
enum {
    IN_ACCOUNT = 1, /* [A-Za-z0-9:/_-] */
    IN_ASSET = 2,   /* [a-z0-9._-] */
    PRINTABLE = 4,  /* ' '..'~' */
};

/* clang-format off */
static const uint8_t sets[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 7, 6, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 5, 4, 4, 4, 4, 4,
    4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 4, 4, 4, 4, 7,
    4, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 4, 4, 4, 4, 0,
};
/* clang-format on */

static bool all_in(struct ron_str s, size_t max, uint8_t set)
{
    const uint8_t *p = (const uint8_t *)s.ptr;
    uint8_t in = set;
    size_t i = 0;

    if (s.len == 0 || s.len > max) {
        return false;
    }
    for (; i + 4 <= s.len; i += 4) {
        in &= sets[p[i]] & sets[p[i + 1]] & sets[p[i + 2]] & sets[p[i + 3]];
    }
    for (; i < s.len; i++) {
        in &= sets[p[i]];
    }
    return in != 0;
}

bool led_account_valid(struct ron_str account)
{
    return all_in(account, LED_ACCOUNT_MAX, IN_ACCOUNT);
}

bool led_asset_valid(struct ron_str asset)
{
    return all_in(asset, LED_ASSET_MAX, IN_ASSET) && asset.ptr[0] >= 'a' && asset.ptr[0] <= 'z';
}

bool led_token_valid(struct ron_str text)
{
    return all_in(text, LED_ID_MAX, PRINTABLE);
}

/* UTF-8 without control characters, so that a journal line stays a line. */
static bool memo_valid(struct ron_str memo)
{
    const char *end;

    if (memo.len == 0 || memo.len > LED_MEMO_MAX) {
        return memo.len == 0;
    }
    end = memo.ptr + memo.len;
    for (const char *p = memo.ptr; p < end;) {
        size_t n = ron_utf8_len(p, end);

        if (n == 0 || (uint8_t)*p < 0x20 || *p == 0x7f) {
            return false;
        }
        p += n;
    }
    return true;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool no(struct led_refusal *ret, const char *member, const char *detail)
{
    led_refuse(ret, LED_REASON_INVALID, member, detail);
    return false;
}

static const char account_rule[] = "1-256 letters, digits, ':', '/', '-' or '_'";
static const char token_rule[] = "1-128 printable ASCII characters";

/* Members that only some kinds have. */
static bool check_links(const struct led_entry *e, struct led_refusal *ret)
{
    if (!led_kind_takes_to(e->kind)) {
        if (e->to.len != 0) {
            return no(ret, "to", "this kind has no `to`");
        }
    } else if (!led_account_valid(e->to)) {
        return no(ret, "to", e->to.len == 0 ? "this kind needs `to`" : account_rule);
    } else if (e->to.len == e->account.len && memcmp(e->to.ptr, e->account.ptr, e->to.len) == 0) {
        return no(ret, "to", "`to` must be another account");
    }
    if (!led_kind_takes_ref(e->kind)) {
        if (e->ref.len != 0) {
            return no(ret, "ref", "this kind has no `ref`");
        }
    } else if (!led_token_valid(e->ref)) {
        return no(ret, "ref", e->ref.len == 0 ? "this kind needs `ref`" : token_rule);
    }
    if (e->expires_ms != 0) {
        if (e->kind != LED_KIND_HOLD) {
            return no(ret, "expires", "only a Hold expires");
        }
        if (e->expires_ms <= e->ts_ms || e->expires_ms > LED_TIME_MAX_MS) {
            return no(ret, "expires", "must lie after `ts`");
        }
    }
    return true;
}

static bool begins(const void *bytes, size_t len, const char *with, size_t with_len)
{
    return len >= with_len && memcmp(bytes, with, with_len) == 0;
}

static bool check_own_names(const struct led_entry *e, struct led_refusal *ret)
{
    if (begins(e->id.ptr, e->id.len, LED_OWN_ID, sizeof LED_OWN_ID - 1)) {
        return no(ret, "id", "ids that begin with \"expire:\" are the ledger's own");
    }
    if (begins(e->nonce, LED_NONCE_SIZE, LED_OWN_NONCE, sizeof LED_OWN_NONCE)) {
        return no(ret, "nonce", "nonces that begin so are the ledger's own");
    }
    return true;
}

bool led_entry_check(const struct led_entry *e, enum led_origin origin, struct led_refusal *ret)
{
    if (led_kind_name(e->kind) == NULL ||
        (e->kind == LED_KIND_EXPIRE && origin != LED_ORIGIN_LEDGER)) {
        led_refuse(ret, LED_REASON_UNKNOWN_KIND, "kind", "no such kind");
        return false;
    }
    if (e->v != LED_VERSION) {
        return no(ret, "v", "must be 1");
    }
    if (!led_token_valid(e->id)) {
        return no(ret, "id", token_rule);
    }
    if (e->ts_ms == 0 || e->ts_ms > LED_TIME_MAX_MS) {
        return no(ret, "ts", "milliseconds since 1970, 1 to 2^53 - 1");
    }
    if (!led_account_valid(e->account)) {
        return no(ret, "account", account_rule);
    }
    if (!led_asset_valid(e->asset)) {
        return no(ret, "asset", "1-32 of a-z, 0-9, '.', '_', '-', beginning with a letter");
    }
    if (ron_money_is_zero(e->amount)) {
        return no(ret, "amount", "must be above 0");
    }
    if (!led_token_valid(e->kid)) {
        return no(ret, "kid", token_rule);
    }
    if (!led_token_valid(e->capability_ref)) {
        return no(ret, "capability_ref", token_rule);
    }
    if (!memo_valid(e->memo)) {
        return no(ret, "memo", "up to 256 bytes without control characters");
    }
    if (origin == LED_ORIGIN_CALLER && !check_own_names(e, ret)) {
        return false;
    }
    return check_links(e, ret);
}
