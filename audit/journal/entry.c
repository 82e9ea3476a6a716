/* SPDX-License-Identifier: Apache-2.0 */
/* audit/journal/entry.c - reading the canonical bytes of an entry; the contract is in entry.h. */
#include "audit/journal/entry.h"

#include <string.h>

#include "audit/base/bytes.h"
#include "ron/base/macros.h"

enum {
    HAS_TO = 1,
    HAS_REF = 2,
    HAS_ACCOUNT_NONCE = 4,
    HAS_EXPIRES = 8,
    HAS_MEMO = 16,
    HAS_ANY = 31,
    VERSION = 1,
};

/* Milliseconds: what a JSON reader with doubles still tells apart. */
#define TIME_MAX_MS UINT64_C(9007199254740991)

static const struct {
    const char *name;
    bool has_to;
    bool has_ref;
} kinds[] = {
#define X(name, byte, text, to, ref) [byte] = {text, to, ref},
    AUD_KIND_TABLE(X)
#undef X
};

const char *aud_kind_name(uint8_t kind)
{
    return kind < RON_ARRAY_LEN(kinds) ? kinds[kind].name : NULL;
}

/* What a byte may be part of: ' '..'~', [A-Za-z0-9:/_-], [a-z0-9._-]. The unit test spells them out
 * again. */
enum { IN_TOKEN = 1, IN_ACCOUNT = 2, IN_ASSET = 4 };

static const uint8_t classes[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 7, 5, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 3, 1, 1, 1, 1, 1,
    1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 7,
    1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1, 1, 1, 1, 0,
};

static bool all_of(struct ron_str s, size_t max, uint8_t wanted)
{
    uint8_t all = 0xff;

    for (size_t i = 0; i < s.len; i++) {
        all &= classes[(uint8_t)s.ptr[i]];
    }
    return s.len >= 1 && s.len <= max && (all & wanted) != 0;
}

bool aud_token_valid(struct ron_str text)
{
    return all_of(text, AUD_ID_MAX, IN_TOKEN);
}

static bool memo_valid(struct ron_str memo)
{
    const char *end = memo.ptr + memo.len;
    size_t n;

    if (memo.len > AUD_MEMO_MAX) {
        return false;
    }
    for (const char *p = memo.ptr; p < end; p += n) {
        n = ron_utf8_len(p, end);
        if (n == 0 || (uint8_t)*p < ' ' || *p == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Rules of members that only some kinds have. */
static const char *check_kind(const struct aud_entry *e, uint8_t has)
{
    if (((has & HAS_TO) != 0) != kinds[e->kind].has_to) {
        return kinds[e->kind].has_to ? "`to` is missing" : "the kind has no `to`";
    }
    if (((has & HAS_REF) != 0) != kinds[e->kind].has_ref) {
        return kinds[e->kind].has_ref ? "`ref` is missing" : "the kind has no `ref`";
    }
    if (kinds[e->kind].has_to && !all_of(e->to, AUD_ACCOUNT_MAX, IN_ACCOUNT)) {
        return "`to` is no account";
    }
    if (kinds[e->kind].has_to && aud_str_equal(e->to, e->account)) {
        return "`to` is the account itself";
    }
    if (kinds[e->kind].has_ref && !aud_token_valid(e->ref)) {
        return "`ref` is no id";
    }
    if ((has & HAS_EXPIRES) != 0 &&
        (e->kind != AUD_HOLD || e->expires_ms <= e->ts_ms || e->expires_ms > TIME_MAX_MS)) {
        return e->kind != AUD_HOLD ? "only a Hold expires" : "`expires` does not lie after `ts`";
    }
    return NULL;
}

static const char *check(const struct aud_entry *e, uint8_t has)
{
    if ((has & ~HAS_ANY) != 0) {
        return "unknown presence bits";
    }
    if ((has & HAS_ACCOUNT_NONCE) != 0 && e->account_nonce == 0) {
        return "account_nonce is present and 0";
    }
    if ((has & HAS_MEMO) != 0 && (e->memo.len == 0 || !memo_valid(e->memo))) {
        return "memo is empty, too long or no text";
    }
    if (e->ts_ms == 0 || e->ts_ms > TIME_MAX_MS) {
        return "ts is out of range";
    }
    if (e->amount == 0) {
        return "amount is 0";
    }
    if (!aud_token_valid(e->id)) {
        return "id is not 1-128 printable characters";
    }
    if (!all_of(e->account, AUD_ACCOUNT_MAX, IN_ACCOUNT)) {
        return "account is malformed";
    }
    if (!all_of(e->asset, AUD_ASSET_MAX, IN_ASSET) || e->asset.ptr[0] < 'a' ||
        e->asset.ptr[0] > 'z') {
        return "asset is malformed";
    }
    if (!aud_token_valid(e->kid) || !aud_token_valid(e->capability_ref)) {
        return "kid or capability_ref is malformed";
    }
    return check_kind(e, has);
}

const char *aud_entry_read(const uint8_t *bytes, size_t len, struct aud_entry *ret_entry)
{
    struct aud_reader r = {.at = bytes, .end = bytes + len, .ok = true};
    struct aud_entry e = {0};
    uint16_t version = aud_take_u16(&r);
    uint64_t high;
    uint8_t has;
    const char *fault;

    e.kind = aud_take_u8(&r);
    has = aud_take_u8(&r);
    e.ts_ms = aud_take_u64(&r);
    high = aud_take_u64(&r);
    e.amount = ron_u128_make(high, aud_take_u64(&r));
    e.nonce = aud_take(&r, AUD_NONCE_SIZE);
    e.account_nonce = (has & HAS_ACCOUNT_NONCE) != 0 ? aud_take_u64(&r) : 0;
    e.expires_ms = (has & HAS_EXPIRES) != 0 ? aud_take_u64(&r) : 0;
    e.id = aud_take_text(&r, aud_take_u8(&r));
    e.account = aud_take_text(&r, aud_take_u16(&r));
    if ((has & HAS_TO) != 0) {
        e.to = aud_take_text(&r, aud_take_u16(&r));
    }
    e.asset = aud_take_text(&r, aud_take_u8(&r));
    if ((has & HAS_REF) != 0) {
        e.ref = aud_take_text(&r, aud_take_u8(&r));
    }
    e.kid = aud_take_text(&r, aud_take_u8(&r));
    e.capability_ref = aud_take_text(&r, aud_take_u8(&r));
    if ((has & HAS_MEMO) != 0) {
        e.memo = aud_take_text(&r, aud_take_u16(&r));
    }
    if (!r.ok || r.at != r.end) {
        return r.ok ? "bytes follow the entry" : "the entry ends too early";
    }
    if (version != VERSION) {
        return "unknown version";
    }
    if (aud_kind_name(e.kind) == NULL) {
        return "unknown kind";
    }
    fault = check(&e, has);
    if (fault == NULL) {
        *ret_entry = e;
    }
    return fault;
}
