/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/entry/json.c - entries and answers as JSON; the contract is in entry.h.
 *
 * Reading is one pass of the scanner (ron/base/json.h) into an array of `struct raw`, whose first
 * part is the entry itself; a second pass resolves kind and nonce, checks the rules and closes the
 * gaps, so that the caller gets a plain array of entries. */
#include <string.h>

#include "ledger/entry/entry.h"
#include "ron/base/assert.h"

struct raw {
    struct led_entry e;
    struct ron_str kind;
    struct ron_str nonce;
    uint64_t v;
    uint64_t present;
};

#define MEMBER(name_, member_, kind_, ...)                                                         \
    {                                                                                              \
        .name = (name_), .name_len = sizeof(name_) - 1, .type = RON_JSON_##kind_,                  \
        .offset = offsetof(struct raw, member_), __VA_ARGS__                                       \
    }

enum { AT_ASSET = 6, AT_TO = 5, AT_ACCOUNT_NONCE = 9, AT_REF = 10, AT_EXPIRES = 11 };

/* In the order in which led_entry_to_json writes them, which is the order that scans fastest. */
static const struct ron_json_field entry_fields[] = {
    MEMBER("id", e.id, STRING, .required = true, .max = LED_ID_MAX),
    MEMBER("ts", e.ts_ms, U64, .required = true, .max = LED_TIME_MAX_MS),
    MEMBER("kind", kind, STRING, .required = true),
    MEMBER("account", e.account, STRING, .required = true, .max = LED_ACCOUNT_MAX),
    MEMBER("amount", e.amount, MONEY, .required = true),
    [AT_TO] = MEMBER("to", e.to, STRING, .max = LED_ACCOUNT_MAX),
    [AT_ASSET] = MEMBER("asset", e.asset, STRING, .max = LED_ASSET_MAX),
    MEMBER("nonce", nonce, STRING, .required = true),
    MEMBER("v", v, U64, .required = true),
    [AT_ACCOUNT_NONCE] = MEMBER("account_nonce", e.account_nonce, U64, .max = 0),
    [AT_REF] = MEMBER("ref", e.ref, STRING, .max = LED_ID_MAX),
    [AT_EXPIRES] = MEMBER("expires", e.expires_ms, U64, .max = LED_TIME_MAX_MS),
    MEMBER("kid", e.kid, STRING, .required = true, .max = LED_ID_MAX),
    MEMBER("capability_ref", e.capability_ref, STRING, .required = true, .max = LED_ID_MAX),
    MEMBER("memo", e.memo, STRING, .max = LED_MEMO_MAX),
};
static const struct ron_json_shape entry_shape = RON_JSON_SHAPE(struct raw, entry_fields, present);

struct request {
    struct ron_json_items batch;
    struct ron_str idem_id;
    uint64_t present;
};

static const struct ron_json_field request_fields[] = {
    RON_JSON_FIELD(struct request, batch, ARRAY, .required = true, .item_size = sizeof(struct raw),
                   .max = LED_BATCH_JSON_MAX, .shape = &entry_shape),
    RON_JSON_FIELD(struct request, idem_id, STRING, .nullable = true, .max = LED_ID_MAX),
};
static const struct ron_json_shape request_shape =
    RON_JSON_SHAPE(struct request, request_fields, present);

/* The same for a batch that came in binary and was exported: it may be longer. */
static const struct ron_json_field long_fields[] = {
    RON_JSON_FIELD(struct request, batch, ARRAY, .required = true, .item_size = sizeof(struct raw),
                   .max = LED_BATCH_BIN_MAX, .shape = &entry_shape),
};
static const struct ron_json_shape long_shape =
    RON_JSON_SHAPE(struct request, long_fields, present);

/* ---- base64 ---------------------------------------------------------------------------------- */

enum { NONCE_TEXT = 24 };

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Values of the alphabet plus one; 0 is no character of it. */
static const uint8_t values[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64,
};

/* Standard alphabet, padded, unused bits zero: one text per nonce. */
static bool nonce_parse(struct ron_str text, uint8_t ret[LED_NONCE_SIZE])
{
    uint8_t out[NONCE_TEXT / 4 * 3];
    uint32_t last = 0;

    if (text.len != NONCE_TEXT || text.ptr[22] != '=' || text.ptr[23] != '=') {
        return false;
    }
    for (size_t i = 0, o = 0; i < NONCE_TEXT; i += 4) {
        uint32_t word = 0;

        for (size_t k = i; k < i + 4; k++) {
            uint8_t v = k < 22 ? values[(uint8_t)text.ptr[k]] : 1;

            if (v == 0) {
                return false;
            }
            word = word << 6 | (uint32_t)(v - 1);
        }
        out[o++] = (uint8_t)(word >> 16);
        out[o++] = (uint8_t)(word >> 8);
        out[o++] = (uint8_t)word;
        last = word;
    }
    if ((last & 0xffff) != 0) {
        return false;
    }
    memcpy(ret, out, LED_NONCE_SIZE);
    return true;
}

static void nonce_format(const uint8_t nonce[LED_NONCE_SIZE], char ret[NONCE_TEXT])
{
    uint8_t in[NONCE_TEXT / 4 * 3] = {0};

    memcpy(in, nonce, LED_NONCE_SIZE);
    for (size_t i = 0, o = 0; i < sizeof in; i += 3) {
        uint32_t word = (uint32_t)in[i] << 16 | (uint32_t)in[i + 1] << 8 | in[i + 2];

        for (int shift = 18; shift >= 0; shift -= 6) {
            ret[o++] = alphabet[word >> shift & 63];
        }
    }
    ret[22] = '=';
    ret[23] = '=';
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool no(struct led_refusal *ret, const char *member, const char *detail)
{
    led_refuse(ret, LED_REASON_INVALID, member, detail);
    return false;
}

/* Resolves what the scanner left as text and checks the rules. */
static bool finish_entry(struct raw *raw, enum led_origin origin, struct led_refusal *ret)
{
    struct led_entry *e = &raw->e;

    e->kind = led_kind_parse(raw->kind);
    if (e->kind == 0) {
        led_refuse(ret, LED_REASON_UNKNOWN_KIND, "kind", "no such kind");
        return false;
    }
    if (!nonce_parse(raw->nonce, e->nonce)) {
        return no(ret, "nonce", "16 bytes in base64 with padding");
    }
    if (raw->v != LED_VERSION) {
        return no(ret, "v", "must be 1");
    }
    e->v = (uint16_t)raw->v;
    if ((raw->present >> AT_ASSET & 1) == 0) {
        e->asset = (struct ron_str){"roc", 3};
    }
    if ((raw->present >> AT_ACCOUNT_NONCE & 1) != 0 && e->account_nonce == 0) {
        return no(ret, "account_nonce", "the first is 1");
    }
    if ((raw->present >> AT_EXPIRES & 1) != 0 && e->expires_ms == 0) {
        return no(ret, "expires", "must lie after `ts`");
    }
    if ((raw->present >> AT_TO & 1) != 0 && e->to.len == 0) {
        return no(ret, "to", "must not be empty");
    }
    if ((raw->present >> AT_REF & 1) != 0 && e->ref.len == 0) {
        return no(ret, "ref", "must not be empty");
    }
    return led_entry_check(e, origin, ret);
}

/* The scanner's path, `batch[7].amount`, gives index and member. Where a stranger gave a member
 * such a name, and no entry has that index, the index is 0 and the member all of it. */
static uint32_t split_path(const char *path, const char **ret_member)
{
    static const char prefix[] = "batch[";
    const char *at = path + sizeof prefix - 1;
    uint32_t idx = 0;

    *ret_member = path;
    if (strncmp(path, prefix, sizeof prefix - 1) != 0) {
        return 0;
    }
    for (; *at >= '0' && *at <= '9' && idx < LED_BATCH_BIN_MAX; at++) {
        idx = idx * 10 + (uint32_t)(*at - '0');
    }
    if (*at != ']' || idx >= LED_BATCH_BIN_MAX) {
        return 0;
    }
    at++;
    at += *at == '.';
    *ret_member = at;
    return idx;
}

static void refuse_text(const struct ron_json_error *err, enum ron_rc rc, bool is_long,
                        struct led_refusals *ret)
{
    struct led_refusal refusal;
    const char *member = err->field;
    uint32_t idx;

    if (rc == RON_LIMIT) {
        led_refuse(&refusal, LED_REASON_TOO_LARGE, "batch",
                   is_long ? "at most 16384 entries" : "at most 1024 entries");
        led_refusals_add(ret, &refusal, 0);
        return;
    }
    idx = split_path(err->field, &member);
    led_refuse(&refusal, LED_REASON_INVALID, member, err->reason);
    led_refusals_add(ret, &refusal, idx);
}

size_t led_batch_json_arena_size(void)
{
    return LED_BATCH_JSON_MAX * sizeof(struct raw) + _Alignof(max_align_t);
}

size_t led_batch_json_long_arena_size(size_t entries)
{
    return entries * sizeof(struct raw) + _Alignof(max_align_t);
}

static bool read_batch(char *text, size_t len, bool is_long, enum led_origin origin,
                       struct ron_arena *arena, struct led_batch *ret_batch,
                       struct led_refusals *ret_refusals)
{
    struct request request = {0};
    struct ron_json_error err = {0};
    struct led_refusal refusal;
    enum ron_rc rc;
    char *items;

    ret_refusals->count = 0;
    rc = ron_json_scan(text, len, is_long ? &long_shape : &request_shape, arena, &request, &err);
    if (rc != RON_OK) {
        refuse_text(&err, rc, is_long, ret_refusals);
        return false;
    }
    if ((request.present & 2) != 0 && !led_token_valid(request.idem_id)) {
        (void)no(&refusal, "idem_id", "1-128 printable ASCII characters");
        led_refusals_add(ret_refusals, &refusal, 0);
        return false;
    }
    if (request.batch.count == 0) {
        (void)no(&refusal, "batch", "at least one entry");
        led_refusals_add(ret_refusals, &refusal, 0);
        return false;
    }
    items = request.batch.items;
    for (size_t i = 0; i < request.batch.count; i++) {
        struct raw *raw = (struct raw *)(void *)(items + i * sizeof(struct raw));

        if (!finish_entry(raw, origin, &refusal)) {
            led_refusals_add(ret_refusals, &refusal, (uint32_t)i);
        }
        /* The entry moves down to its place in the plain array, over entries already moved. */
        memmove(items + i * sizeof(struct led_entry), &raw->e, sizeof raw->e);
    }
    if (ret_refusals->count > 0) {
        return false;
    }
    *ret_batch = (struct led_batch){.entries = (struct led_entry *)(void *)items,
                                    .count = request.batch.count,
                                    .idem_id = request.idem_id};
    return true;
}

bool led_batch_from_json(char *text, size_t len, enum led_origin origin, struct ron_arena *arena,
                         struct led_batch *ret_batch, struct led_refusals *ret_refusals)
{
    return read_batch(text, len, false, origin, arena, ret_batch, ret_refusals);
}

bool led_batch_from_json_long(char *text, size_t len, enum led_origin origin,
                              struct ron_arena *arena, struct led_batch *ret_batch,
                              struct led_refusals *ret_refusals)
{
    return read_batch(text, len, true, origin, arena, ret_batch, ret_refusals);
}

/* ---- writing --------------------------------------------------------------------------------- */

void led_entry_to_json(struct ron_json_writer *w, const char *name, const struct led_entry *e,
                       uint64_t seq)
{
    char nonce[NONCE_TEXT];

    nonce_format(e->nonce, nonce);
    ron_json_open(w, name, '{');
    if (seq != 0) {
        ron_json_u64(w, "seq", seq);
    }
    ron_json_str(w, "id", e->id);
    ron_json_u64(w, "ts", e->ts_ms);
    ron_json_text(w, "kind", led_kind_name(e->kind));
    ron_json_str(w, "account", e->account);
    ron_json_money(w, "amount", e->amount);
    if (e->to.len != 0) {
        ron_json_str(w, "to", e->to);
    }
    ron_json_str(w, "asset", e->asset);
    ron_json_str(w, "nonce", (struct ron_str){nonce, sizeof nonce});
    ron_json_u64(w, "v", e->v);
    if (e->account_nonce != 0) {
        ron_json_u64(w, "account_nonce", e->account_nonce);
    }
    if (e->ref.len != 0) {
        ron_json_str(w, "ref", e->ref);
    }
    if (e->expires_ms != 0) {
        ron_json_u64(w, "expires", e->expires_ms);
    }
    ron_json_str(w, "kid", e->kid);
    ron_json_str(w, "capability_ref", e->capability_ref);
    if (e->memo.len != 0) {
        ron_json_str(w, "memo", e->memo);
    }
    ron_json_close(w, '}');
}

static void write_refusals(struct ron_json_writer *w, const struct led_refusals *list)
{
    ron_json_open(w, "reasons", '[');
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct led_refusal *r = &list->items[i];
        char details[112];
        int n = snprintf(details, sizeof details, "%s%s%s", r->member,
                         r->member[0] != '\0' ? ": " : "", r->detail);

        ron_json_open(w, NULL, '{');
        ron_json_u64(w, "idx", r->idx);
        ron_json_text(w, "reason", led_reason_name(r->reason));
        ron_json_str(w, "details",
                     (struct ron_str){details, RON_MIN((size_t)n, sizeof details - 1)});
        ron_json_close(w, '}');
    }
    ron_json_close(w, ']');
}

void led_response_members(struct ron_json_writer *w, const struct led_response *response)
{
    static const char digits[] = "0123456789abcdef";
    char root[66];

    root[0] = root[65] = '"';
    for (size_t i = 0; i < 32; i++) {
        root[2 * i + 1] = digits[response->new_root[i] >> 4];
        root[2 * i + 2] = digits[response->new_root[i] & 15];
    }
    ron_json_bool(w, "accepted", response->accepted);
    if (response->accepted) {
        ron_json_u64(w, "seq_start", response->seq_start);
        ron_json_u64(w, "seq_end", response->seq_end);
    } else {
        ron_json_null(w, "seq_start");
        ron_json_null(w, "seq_end");
    }
    ron_json_raw(w, "new_root", (struct ron_str){root, sizeof root}); /* hex needs no escapes */
    write_refusals(w, response->refusals);
}

void led_response_to_json(struct ron_buf *out, const struct led_response *response)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    led_response_members(&w, response);
    ron_json_close(&w, '}');
}
