/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/call/call.c - operations and their grammar: from the body of a request to a call; the
 * contract is in call.h.
 *
 * Reading is one pass of the scanner into `struct raw`, whose first part is the operation itself; a
 * second look finds which members the operation may have and checks each. The first rule that is
 * broken ends it: its fault names the member, in a batch with the index of the operation. */
#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "wallet/call/priv.h"

/* ---- operations ------------------------------------------------------------------------------ */

static const struct wlt_op_info ops[WLT_OP_COUNT] = {
#define X(name_, text, kind_, scope_, subject, to, hold, nonce, debit)                             \
    [WLT_##name_] = {text, kind_, scope_, subject, to, hold, nonce, debit},
    WLT_OPS(X)
#undef X
};

const struct wlt_op_info *wlt_op_info(enum wlt_op op)
{
    RON_ASSERT((unsigned)op < WLT_OP_COUNT);
    return &ops[op];
}

enum wlt_op wlt_op_parse(struct ron_str name)
{
    unsigned op = 0;

    while (op < WLT_OP_COUNT && !ron_str_is(name, ops[op].name)) {
        op++;
    }
    return (enum wlt_op)op;
}

struct ron_str wlt_operation_subject(const struct wlt_operation *o)
{
    return wlt_op_info(o->op)->subject_is_to ? o->to : o->from;
}

/* ---- grammar --------------------------------------------------------------------------------- */

/* Sets of ASCII characters, a bit each; a row has 32 characters. What is not ASCII is in none. */
enum {
    IN_ACCOUNT = 1, /* [A-Za-z0-9:/_-] */
    IN_ASSET = 2,   /* [a-z0-9._-] */
    IN_KEY = 4,     /* [A-Za-z0-9._:-] */
    PRINTABLE = 8,  /* ' '..'~' */
};

/* clang-format off */
static const uint8_t sets[256] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
    0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
    8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  8,  15, 14, 9,
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 13, 8,  8,  8,  8,  8,
    8,  13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13,
    13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 8,  8,  8,  8,  15,
    8,  15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 8,  8,  8,  8,  0,
};
/* clang-format on */

static bool all_in(struct ron_str s, size_t max, uint8_t set)
{
    uint8_t in = set;

    if (s.len == 0 || s.len > max) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        in &= sets[(uint8_t)s.ptr[i]];
    }
    return in != 0;
}

bool wlt_key_valid(struct ron_str key)
{
    return all_in(key, WLT_KEY_MAX, IN_KEY);
}

bool wlt_account_valid(struct ron_str account)
{
    return all_in(account, WLT_ACCOUNT_MAX, IN_ACCOUNT);
}

bool wlt_asset_valid(struct ron_str asset)
{
    return all_in(asset, WLT_ASSET_MAX, IN_ASSET) && asset.ptr[0] >= 'a' && asset.ptr[0] <= 'z';
}

/* Up to 256 bytes without control characters; the scanner has seen that it is UTF-8. */
static bool memo_valid(struct ron_str memo)
{
    for (size_t i = 0; i < memo.len; i++) {
        if ((uint8_t)memo.ptr[i] < 0x20 || memo.ptr[i] == 0x7f) {
            return false;
        }
    }
    return memo.len <= WLT_MEMO_MAX;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

struct raw {
    struct wlt_operation o;
    struct ron_str key; /* of a single operation */
    struct ron_str op;  /* of an operation in a batch */
    uint64_t present;
};

/* All members may be null, which is absent: clients that write whole structs are welcome. */
#define MEMBER(name_, member_, kind_, ...)                                                         \
    {                                                                                              \
        .name = (name_), .name_len = sizeof(name_) - 1, .type = RON_JSON_##kind_,                  \
        .offset = offsetof(struct raw, member_), .nullable = true, __VA_ARGS__                     \
    }

enum { AT_FROM, AT_TO, AT_ASSET, AT_AMOUNT, AT_NONCE, AT_MEMO, AT_HOLD, AT_EXPIRES, AT_LAST };
#define MEMBERS                                                                                    \
    [AT_FROM] = MEMBER("from", o.from, STRING, .max = WLT_ACCOUNT_MAX),                            \
    [AT_TO] = MEMBER("to", o.to, STRING, .max = WLT_ACCOUNT_MAX),                                  \
    [AT_ASSET] = MEMBER("asset", o.asset, STRING, .max = WLT_ASSET_MAX),                           \
    [AT_AMOUNT] = MEMBER("amount_minor", o.amount, MONEY, .required = true),                       \
    [AT_NONCE] = MEMBER("nonce", o.nonce, U64, .max = WLT_NONCE_MAX),                              \
    [AT_MEMO] = MEMBER("memo", o.memo, STRING, .max = WLT_MEMO_MAX),                               \
    [AT_HOLD] = MEMBER("hold", o.hold, STRING, .max = WLT_HOLD_MAX),                               \
    [AT_EXPIRES] = MEMBER("expires_at", o.expires_ms, U64, .max = WLT_TIME_MAX_MS)

static const struct ron_json_field single_fields[] = {
    MEMBERS, [AT_LAST] = MEMBER("idempotency_key", key, STRING, .required = false)};
static const struct ron_json_shape single_shape =
    RON_JSON_SHAPE(struct raw, single_fields, present);

static const struct ron_json_field item_fields[] = {
    MEMBERS, [AT_LAST] = MEMBER("op", op, STRING, .required = true)};
static const struct ron_json_shape item_shape = RON_JSON_SHAPE(struct raw, item_fields, present);

struct batch {
    struct ron_json_items operations;
    struct ron_str idempotency_key;
    uint64_t present;
};
static const struct ron_json_field batch_fields[] = {
    RON_JSON_FIELD(struct batch, operations, ARRAY, .required = true,
                   .item_size = sizeof(struct raw), .max = WLT_BATCH_MAX, .shape = &item_shape),
    RON_JSON_FIELD(struct batch, idempotency_key, STRING, .nullable = true),
};
static const struct ron_json_shape batch_shape =
    RON_JSON_SHAPE(struct batch, batch_fields, present);

/* The least text of an operation that passes the scanner; the one that fails has taken its room. */
#define ITEM_TEXT_MIN (sizeof("{\"op\":\"\",\"amount_minor\":\"0\"},") - 1)

size_t wlt_call_arena_size(size_t body_len, bool batch)
{
    size_t items = batch ? RON_MIN(body_len / ITEM_TEXT_MIN + 1, (size_t)WLT_BATCH_MAX) : 1;

    return items * sizeof(struct raw) + WLT_KEY_MAX + 1 + 2 * _Alignof(max_align_t);
}

/* ---- rules ----------------------------------------------------------------------------------- */

struct parse {
    const struct wlt_call_rules *rules;
    struct ron_arena *arena;
    struct wlt_fault *fault;
    bool in_batch;  /* faults are those of */
    uint32_t index; /* this operation */
};

__attribute__((cold)) static bool refuse(const struct parse *p, enum wlt_reason reason,
                                         const char *member, const char *detail)
{
    char path[64];

    (void)snprintf(path, sizeof path, "operations[%u].%s", p->index, member);
    wlt_fault_set(p->fault, reason, p->in_batch ? path : member, detail);
    return false;
}

static bool no(const struct parse *p, const char *member, const char *detail)
{
    return refuse(p, WLT_REASON_BAD_REQUEST, member, detail);
}

/* Which members this operation has: the required ones are there, others are not. */
static bool check_presence(const struct parse *p, const struct raw *r)
{
    const struct wlt_op_info *info = wlt_op_info(r->o.op);
    const struct {
        const char *name;
        uint8_t at;
        bool may;
        bool must;
    } rows[] = {
        {"from", AT_FROM, !info->subject_is_to, !info->subject_is_to},
        {"to", AT_TO, info->takes_to, info->takes_to},
        {"hold", AT_HOLD, info->takes_hold, info->takes_hold},
        {"nonce", AT_NONCE, info->takes_nonce, false},
        {"expires_at", AT_EXPIRES, r->o.op == WLT_HOLD, false},
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        bool there = (r->present >> rows[i].at & 1) != 0;

        if (rows[i].must && !there) {
            return no(p, rows[i].name, "missing member");
        }
        if (there && !rows[i].may) {
            return no(p, rows[i].name, "unknown member for this operation");
        }
    }
    return true;
}

static bool check_grammar(const struct parse *p, const struct raw *r)
{
    static const char account_rule[] = "expected 1-256 of A-Z, a-z, 0-9, ':', '/', '-', '_'";
    const struct wlt_operation *o = &r->o;

    if ((r->present >> AT_FROM & 1) != 0 && !wlt_account_valid(o->from)) {
        return no(p, "from", account_rule);
    }
    if ((r->present >> AT_TO & 1) != 0 && !wlt_account_valid(o->to)) {
        return no(p, "to", account_rule);
    }
    if (o->from.len == o->to.len && memcmp(o->from.ptr, o->to.ptr, o->to.len) == 0) {
        return no(p, "to", "must differ from `from`");
    }
    if (!wlt_asset_valid(o->asset)) {
        return no(p, "asset", "expected 1-32 of a-z, 0-9, '.', '_', '-', starting with a letter");
    }
    if (ron_money_is_zero(o->amount)) {
        return no(p, "amount_minor", "must be greater than 0");
    }
    if ((r->present >> AT_NONCE & 1) != 0 && o->nonce == 0) {
        return no(p, "nonce", "nonces start at 1; omit the member to send none");
    }
    if (!memo_valid(o->memo)) {
        return no(p, "memo", "expected at most 256 bytes without control characters");
    }
    if ((r->present >> AT_HOLD & 1) != 0 && !all_in(o->hold, WLT_HOLD_MAX, PRINTABLE)) {
        return no(p, "hold", "expected the txid of the hold: 1-128 printable ASCII characters");
    }
    if ((r->present >> AT_EXPIRES & 1) != 0 && o->expires_ms == 0) {
        return no(p, "expires_at", "expected milliseconds since 1970, greater than 0");
    }
    return true;
}

static bool asset_allowed(const struct wlt_call_rules *rules, struct ron_str asset)
{
    for (size_t i = 0; i < rules->asset_count; i++) {
        if (rules->assets[i].len == asset.len &&
            memcmp(rules->assets[i].ptr, asset.ptr, asset.len) == 0) {
            return true;
        }
    }
    return rules->asset_count == 0;
}

/* Fills in what may be left out and checks the operation (A1). */
static bool finish_operation(const struct parse *p, struct raw *r)
{
    if (r->o.asset.ptr == NULL) {
        r->o.asset = ron_str_of("roc");
    }
    if (!check_presence(p, r) || !check_grammar(p, r)) {
        return false;
    }
    if (!asset_allowed(p->rules, r->o.asset)) {
        return refuse(p, WLT_REASON_POLICY, "asset", "asset not allowed by wallet.assets");
    }
    if (ron_money_cmp(r->o.amount, p->rules->amount_max) > 0) {
        return refuse(p, WLT_REASON_LIMITS, "amount_minor", "exceeds wallet.max_amount_per_op");
    }
    return true;
}

/* ---- the key --------------------------------------------------------------------------------- */

static const char header_name[] = "Idempotency-Key";

static struct ron_str unquoted(struct ron_str s)
{
    if (s.len >= 2 && s.ptr[0] == '"' && s.ptr[s.len - 1] == '"') {
        return (struct ron_str){s.ptr + 1, s.len - 2};
    }
    return s;
}

/* Both where both are, else the one there is. A key that stands in the header alone is copied, so
 * that the call does not hang on the head of the request. */
static bool find_key(const struct parse *p, struct ron_str header, bool in_body,
                     struct ron_str body, struct ron_str *ret)
{
    static const char rule[] = "expected 1-64 of A-Z, a-z, 0-9, '.', '_', ':', '-'";
    struct ron_str bare = unquoted(header);
    char *copy;

    if (header.len == 0 && !in_body) {
        return no(p, header_name, "missing; send this header or the member `idempotency_key`");
    }
    if (header.len != 0 && !wlt_key_valid(bare)) {
        return no(p, header_name, rule);
    }
    if (in_body && !wlt_key_valid(body)) {
        return no(p, "idempotency_key", rule);
    }
    if (in_body) {
        *ret = body;
        return header.len == 0 ||
               (bare.len == body.len && memcmp(bare.ptr, body.ptr, body.len) == 0) ||
               no(p, "idempotency_key", "differs from the Idempotency-Key header");
    }
    copy = ron_arena_dup(p->arena, bare.ptr, bare.len);
    if (copy == NULL) {
        return refuse(p, WLT_REASON_INTERNAL, header_name, "request too large");
    }
    *ret = (struct ron_str){copy, bare.len};
    return true;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static bool refuse_text(const struct parse *p, const struct ron_json_error *err)
{
    wlt_fault_set(p->fault, WLT_REASON_BAD_REQUEST, err->field[0] != '\0' ? err->field : "body",
                  err->reason);
    return false;
}

static bool parse_single(struct parse *p, char *text, size_t len, enum wlt_op op,
                         struct ron_str header_key, struct wlt_call *ret)
{
    struct ron_json_error err = {0};
    struct raw r = {0};

    if (ron_json_scan(text, len, &single_shape, NULL, &r, &err) != RON_OK) {
        return refuse_text(p, &err);
    }
    r.o.op = op;
    if (!finish_operation(p, &r) ||
        !find_key(p, header_key, (r.present >> AT_LAST & 1) != 0, r.key, &ret->key)) {
        return false;
    }
    ret->ops = RON_ARENA_NEW(p->arena, struct wlt_operation);
    if (ret->ops == NULL) {
        return refuse(p, WLT_REASON_INTERNAL, "body", "request too large");
    }
    *ret->ops = r.o;
    ret->count = 1;
    return true;
}

static bool parse_batch(struct parse *p, char *text, size_t len, struct ron_str header_key,
                        struct wlt_call *ret)
{
    struct ron_json_error err = {0};
    struct batch b = {0};
    enum ron_rc rc = ron_json_scan(text, len, &batch_shape, p->arena, &b, &err);
    char *items = b.operations.items;

    if (rc == RON_LIMIT && ron_arena_overflowed(p->arena)) {
        return refuse(p, WLT_REASON_INTERNAL, "operations", "request too large");
    }
    if (rc == RON_LIMIT || (rc == RON_OK && b.operations.count == 0)) {
        return no(p, "operations", "expected 1 to 1024 operations");
    }
    if (rc != RON_OK) {
        return refuse_text(p, &err);
    }
    p->in_batch = true;
    for (size_t i = 0; i < b.operations.count; i++) {
        struct raw *r = (struct raw *)(void *)(items + i * sizeof(struct raw));

        p->index = (uint32_t)i;
        r->o.op = wlt_op_parse(r->op);
        if (r->o.op == WLT_OP_COUNT) {
            return no(p, "op", "expected issue, transfer, burn, hold, capture or release");
        }
        if (!finish_operation(p, r)) {
            return false;
        }
        /* Moves down to its place in the plain array, over operations already moved. */
        memmove(items + i * sizeof r->o, &r->o, sizeof r->o);
    }
    p->in_batch = false;
    ret->ops = (struct wlt_operation *)(void *)items;
    ret->count = (uint32_t)b.operations.count;
    if (wlt_call_encoded_max(ret) > WLT_ENCODED_MAX) { /* keeps A6 */
        return no(p, "operations",
                  "too large for one ledger batch; send fewer operations at a time");
    }
    return find_key(p, header_key, (b.present & 2) != 0, b.idempotency_key, &ret->key);
}

bool wlt_call_parse(char *text, size_t len, enum wlt_op op, struct ron_str header_key,
                    const struct wlt_call_rules *rules, struct ron_arena *arena,
                    struct wlt_call *ret_call, struct wlt_fault *ret_fault)
{
    struct parse p = {.rules = rules, .arena = arena, .fault = ret_fault};
    struct wlt_call call = {.batch = op == WLT_OP_COUNT};

    if (call.batch ? !parse_batch(&p, text, len, header_key, &call)
                   : !parse_single(&p, text, len, op, header_key, &call)) {
        return false;
    }
    wlt__call_name(&call);
    *ret_call = call;
    return true;
}
