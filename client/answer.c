/* SPDX-License-Identifier: Apache-2.0 */
/* client/answer.c - what the ledger answers (docs/formats/ledger-oap.md, ledger-reads.md).
 *
 * Members that are not known here are skipped, so that a newer ledger may tell more; those that are
 * known must be there, of their type and possible. Lists are walked as text, item by item: an
 * account may hold more assets than any array here, and nothing is allocated. */
#include <string.h>

#include "client/client.h"
#include "ron/base/bytes.h"
#include "ron/base/hex.h"
#include "ron/base/str.h"

#define SHAPE(type_, fields_)                                                                      \
    {                                                                                              \
        .fields = (fields_), .count = sizeof(fields_) / sizeof((fields_)[0]),                      \
        .present_offset = offsetof(type_, present), .allow_unknown = true                          \
    }

static enum ron_rc scan(char *json, size_t len, const struct ron_json_shape *shape, void *out)
{
    struct ron_json_error error;

    return ron_json_scan(json, len, shape, NULL, out, &error) == RON_OK ? RON_OK : RON_CORRUPT;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool read_hash(struct ron_str text, uint8_t ret[LC_HASH_BYTES])
{
    uint8_t hash[LC_HASH_BYTES];

    if (!ron_unhex(text, RON_HEX_LOWER, hash, sizeof hash)) {
        return false;
    }
    memcpy(ret, hash, sizeof hash);
    return true;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static const char *skip(const char *p, const char *end, char also)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r' || *p == also)) {
        p++;
    }
    return p;
}

/* Where the value at p ends. The text was checked as JSON, so brackets match and strings close. */
static const char *value_end(const char *p, const char *end)
{
    size_t depth = 0;
    bool in_string = false;

    for (; p < end; p++) {
        if (in_string) {
            if (*p == '\\') {
                p++;
            } else if (*p == '"') {
                in_string = false;
            }
        } else if (*p == '"') {
            in_string = true;
        } else if (*p == '{' || *p == '[') {
            depth++;
        } else if (*p == '}' || *p == ']') {
            if (depth == 0) {
                break;
            }
            depth--;
        } else if (*p == ',' && depth == 0) {
            break;
        }
    }
    return p;
}

/* Takes a checked array apart. False at its end. */
static bool next_item(struct ron_str *list, struct ron_str *ret_item)
{
    const char *end = list->ptr + list->len;
    const char *from = skip(list->ptr, end, ',');
    const char *to = value_end(from, end);

    if (from == end || *from == ']') {
        return false;
    }
    *ret_item = (struct ron_str){from, (size_t)(to - from)};
    *list = (struct ron_str){to, (size_t)(end - to)};
    return true;
}

/* The inside of an array that was kept as text; false when it is none. */
static bool open_list(struct ron_str raw, struct ron_str *ret_list)
{
    if (raw.len < 2 || raw.ptr[0] != '[') {
        return false;
    }
    *ret_list = (struct ron_str){raw.ptr + 1, raw.len - 1};
    return true;
}

/* The text is the caller's, who lets it be changed. */
static enum ron_rc scan_item(struct ron_str item, const struct ron_json_shape *shape, void *out)
{
    return scan((char *)(uintptr_t)item.ptr, item.len, shape, out);
}

/* ---- ingest ---------------------------------------------------------------------------------- */

enum ron_rc lc_done_read(const void *bytes, size_t len, struct lc_done *ret)
{
    const uint8_t *p = bytes;
    struct lc_done d;

    if (len != LC_DONE_BYTES || p[0] < 1 || p[0] > 2 || p[1] > 1) {
        return RON_CORRUPT;
    }
    d = (struct lc_done){.dry_run = p[0] == 2,
                         .replayed = p[1] == 1,
                         .seq_first = ron_get_be64(p + 2),
                         .seq_last = ron_get_be64(p + 10),
                         .commit_ms = ron_get_be64(p + 50)};
    memcpy(d.root, p + 18, sizeof d.root);
    if (d.seq_first > d.seq_last || (d.seq_first == 0) != d.dry_run ||
        (d.dry_run && (d.seq_last != 0 || d.commit_ms != 0))) {
        return RON_CORRUPT;
    }
    *ret = d;
    return RON_OK;
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct envelope {
    struct ron_str message;
    struct ron_str reason;
    struct ron_str reasons;
    struct ron_str leader;
    bool retryable;
    uint64_t present;
};

static const struct ron_json_field envelope_fields[] = {
    RON_JSON_FIELD(struct envelope, message, STRING, .required = true),
    RON_JSON_FIELD(struct envelope, retryable, BOOL, .required = true),
    RON_JSON_FIELD(struct envelope, reason, STRING, .required = true),
    RON_JSON_FIELD(struct envelope, reasons, RAW, .required = false),
    RON_JSON_FIELD(struct envelope, leader, STRING, .required = false, .max = LC_ADDR_MAX),
};
static const struct ron_json_shape envelope_shape = SHAPE(struct envelope, envelope_fields);

struct fault {
    uint64_t idx;
    uint64_t present;
};

static const struct ron_json_field fault_fields[] = {
    RON_JSON_FIELD(struct fault, idx, U64, .required = true, .max = UINT32_MAX),
};
static const struct ron_json_shape fault_shape = SHAPE(struct fault, fault_fields);

static enum lc_reason reason_of(struct ron_str text)
{
    static const char *const names[LC_REASON_COUNT] = {
#define X(name, wire) wire,
        LC_REASONS(X)
#undef X
    };

    for (int i = 1; i < LC_REASON_COUNT; i++) {
        if (ron_str_is(text, names[i])) {
            return (enum lc_reason)i;
        }
    }
    return LC_REASON_OTHER;
}

static void copy_message(struct ron_str from, char *to, size_t size)
{
    size_t len = from.len < size - 1 ? from.len : size - 1;

    for (size_t i = 0; i < len; i++) {
        to[i] = (char)(from.ptr[i] >= ' ' && from.ptr[i] <= '~' ? from.ptr[i] : '?');
    }
    to[len] = '\0';
}

enum ron_rc lc_refusal_read(char *json, size_t len, struct lc_refusal *ret)
{
    struct envelope e = {0};
    struct fault first = {0};
    struct lc_refusal r = {0};
    struct ron_str list;
    struct ron_str item;

    RON_TRY(scan(json, len, &envelope_shape, &e));
    if (e.reasons.len > 0) {
        if (!open_list(e.reasons, &list)) {
            return RON_CORRUPT;
        }
        if (next_item(&list, &item)) {
            RON_TRY(scan_item(item, &fault_shape, &first));
        }
    }
    r.reason = reason_of(e.reason);
    r.retryable = e.retryable;
    r.idx = (uint32_t)first.idx;
    copy_message(e.message, r.message, sizeof r.message);
    copy_message(e.leader, r.leader, sizeof r.leader);
    *ret = r;
    return RON_OK;
}

/* ---- accounts -------------------------------------------------------------------------------- */

struct balances {
    uint64_t seq;
    uint64_t last_seq;
    uint64_t account_nonce;
    bool frozen;
    struct ron_str balances;
    uint64_t present;
};

static const struct ron_json_field balances_fields[] = {
    RON_JSON_FIELD(struct balances, seq, U64, .required = true),
    RON_JSON_FIELD(struct balances, last_seq, U64, .required = true),
    RON_JSON_FIELD(struct balances, account_nonce, U64, .required = true),
    RON_JSON_FIELD(struct balances, frozen, BOOL, .required = true),
    RON_JSON_FIELD(struct balances, balances, RAW, .required = true),
};
static const struct ron_json_shape balances_shape = SHAPE(struct balances, balances_fields);

struct balance {
    struct ron_str asset;
    struct ron_money available;
    struct ron_money held;
    uint64_t present;
};

static const struct ron_json_field balance_fields[] = {
    RON_JSON_FIELD(struct balance, asset, STRING, .required = true),
    RON_JSON_FIELD(struct balance, available, MONEY, .required = true),
    RON_JSON_FIELD(struct balance, held, MONEY, .required = true),
};
static const struct ron_json_shape balance_shape = SHAPE(struct balance, balance_fields);

enum ron_rc lc_account_read(char *json, size_t len, struct ron_str asset, struct lc_account *ret)
{
    struct balances b = {0};
    struct lc_account a;
    struct ron_str list;
    struct ron_str item;
    bool found = false;

    RON_TRY(scan(json, len, &balances_shape, &b));
    if (!open_list(b.balances, &list)) {
        return RON_CORRUPT;
    }
    a = (struct lc_account){
        .seq = b.seq, .last_seq = b.last_seq, .nonce = b.account_nonce, .frozen = b.frozen};
    while (next_item(&list, &item)) {
        struct balance one = {0};

        RON_TRY(scan_item(item, &balance_shape, &one));
        if (ron_str_equal(one.asset, asset)) {
            if (found) {
                return RON_CORRUPT;
            }
            found = true;
            a.available = one.available;
            a.held = one.held;
        }
    }
    *ret = a;
    return RON_OK;
}

struct debits {
    struct ron_money debited;
    struct ron_str next; /* as text: null and absent are not the same here */
    uint64_t present;
};

static const struct ron_json_field debits_fields[] = {
    RON_JSON_FIELD(struct debits, debited, MONEY, .required = true),
    RON_JSON_FIELD(struct debits, next, RAW, .required = true),
};
static const struct ron_json_shape debits_shape = SHAPE(struct debits, debits_fields);

/* A seq above 0. */
static bool read_seq(struct ron_str text, uint64_t *ret)
{
    uint64_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        uint64_t digit = (uint64_t)(text.ptr[i] - '0');

        if (text.ptr[i] < '0' || text.ptr[i] > '9' || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = 10 * value + digit;
    }
    *ret = value;
    return value > 0;
}

enum ron_rc lc_debits_read(char *json, size_t len, struct lc_debits *ret)
{
    struct debits d = {0};
    uint64_t next = 0;

    RON_TRY(scan(json, len, &debits_shape, &d));
    if (!ron_str_is(d.next, "null") && !read_seq(d.next, &next)) {
        return RON_CORRUPT;
    }
    *ret = (struct lc_debits){.debited = d.debited, .next = next};
    return RON_OK;
}

/* ---- keys and places ------------------------------------------------------------------------- */

struct outcome {
    struct ron_str outcome;
    uint64_t seq_start;
    uint64_t seq_end;
    struct ron_str new_root;
    uint64_t ts;
    uint64_t present;
};

static const struct ron_json_field outcome_fields[] = {
    RON_JSON_FIELD(struct outcome, outcome, STRING, .required = true),
    RON_JSON_FIELD(struct outcome, seq_start, U64, .required = false),
    RON_JSON_FIELD(struct outcome, seq_end, U64, .required = false),
    RON_JSON_FIELD(struct outcome, new_root, STRING, .required = false),
    RON_JSON_FIELD(struct outcome, ts, U64, .required = false),
};
static const struct ron_json_shape outcome_shape = SHAPE(struct outcome, outcome_fields);

static bool outcome_of(struct ron_str text, enum lc_outcome *ret)
{
    static const char *const names[] = {[LC_COMMITTED] = "committed",
                                        [LC_CANCELLED] = "cancelled",
                                        [LC_IN_FLIGHT] = "in_flight",
                                        [LC_NEVER_SEEN] = "unknown"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (ron_str_is(text, names[i])) {
            *ret = (enum lc_outcome)i;
            return true;
        }
    }
    return false;
}

enum ron_rc lc_outcome_read(char *json, size_t len, struct lc_outcome_of_key *ret)
{
    struct outcome o = {0};
    struct lc_outcome_of_key k = {0};

    RON_TRY(scan(json, len, &outcome_shape, &o));
    if (!outcome_of(o.outcome, &k.outcome)) {
        return RON_CORRUPT;
    }
    if (k.outcome == LC_COMMITTED) {
        if (o.present != 31 || o.seq_start == 0 || o.seq_start > o.seq_end ||
            !read_hash(o.new_root, k.done.root)) {
            return RON_CORRUPT;
        }
        k.done.replayed = true;
        k.done.seq_first = o.seq_start;
        k.done.seq_last = o.seq_end;
        k.done.commit_ms = o.ts;
    }
    *ret = k;
    return RON_OK;
}

struct place {
    struct {
        uint64_t seq;
        uint64_t present;
    } entry;
    struct {
        uint64_t seq_start;
        uint64_t seq_end;
        struct ron_str idem_id;
        uint64_t present;
    } batch;
    uint64_t present;
};

#define PART_SHAPE(part_, fields_)                                                                 \
    {                                                                                              \
        .fields = (fields_), .count = sizeof(fields_) / sizeof((fields_)[0]),                      \
        .present_offset = offsetof(struct place, part_.present) - offsetof(struct place, part_),   \
        .allow_unknown = true                                                                      \
    }
#define PART_FIELD(part_, name_, kind_, ...)                                                       \
    {                                                                                              \
        .name = #name_, .name_len = sizeof #name_ - 1, .type = RON_JSON_##kind_,                   \
        .offset = offsetof(struct place, part_.name_) - offsetof(struct place, part_), __VA_ARGS__ \
    }

static const struct ron_json_field place_entry_fields[] = {
    PART_FIELD(entry, seq, U64, .required = true),
};
static const struct ron_json_shape place_entry_shape = PART_SHAPE(entry, place_entry_fields);
static const struct ron_json_field place_batch_fields[] = {
    PART_FIELD(batch, seq_start, U64, .required = true),
    PART_FIELD(batch, seq_end, U64, .required = true),
    PART_FIELD(batch, idem_id, STRING, .required = false, .max = LC_IDEM_ID_MAX),
};
static const struct ron_json_shape place_batch_shape = PART_SHAPE(batch, place_batch_fields);
static const struct ron_json_field place_fields[] = {
    RON_JSON_FIELD(struct place, entry, OBJECT, .required = true, .shape = &place_entry_shape),
    RON_JSON_FIELD(struct place, batch, OBJECT, .required = true, .shape = &place_batch_shape),
};
static const struct ron_json_shape place_shape = SHAPE(struct place, place_fields);

enum ron_rc lc_place_read(char *json, size_t len, struct lc_place *ret)
{
    struct place p = {0};

    RON_TRY(scan(json, len, &place_shape, &p));
    if (p.batch.seq_start == 0 || p.entry.seq < p.batch.seq_start ||
        p.entry.seq > p.batch.seq_end) {
        return RON_CORRUPT;
    }
    *ret = (struct lc_place){.seq = p.entry.seq,
                             .batch_first = p.batch.seq_start,
                             .batch_last = p.batch.seq_end,
                             .idem_id = p.batch.idem_id};
    return RON_OK;
}

struct found_entry {
    struct lc_found said;
    uint64_t present;
};
struct found {
    struct found_entry entry;
    struct {
        struct ron_str idem_id;
        uint64_t present;
    } batch;
    uint64_t present;
};

#define SAID_FIELD(name_, kind_, ...)                                                              \
    {                                                                                              \
        .name = #name_, .name_len = sizeof #name_ - 1, .type = RON_JSON_##kind_,                   \
        .offset = offsetof(struct lc_found, name_), __VA_ARGS__                                    \
    }

_Static_assert(offsetof(struct found_entry, said) == 0, "offsets of SAID_FIELD hold in both");

static const struct ron_json_field found_entry_fields[] = {
    SAID_FIELD(seq, U64, .required = true),      SAID_FIELD(id, STRING, .required = true),
    SAID_FIELD(kind, STRING, .required = true),  SAID_FIELD(account, STRING, .required = true),
    SAID_FIELD(to, STRING, .required = false),   SAID_FIELD(asset, STRING, .required = true),
    SAID_FIELD(amount, MONEY, .required = true), SAID_FIELD(account_nonce, U64, .required = false),
};
static const struct ron_json_shape found_entry_shape =
    SHAPE(struct found_entry, found_entry_fields);
static const struct ron_json_field found_batch_fields[] = {
    {.name = "idem_id", .name_len = 7, .type = RON_JSON_STRING, .max = LC_IDEM_ID_MAX},
};
static const struct ron_json_shape found_batch_shape = {
    .fields = found_batch_fields,
    .count = 1,
    .present_offset = offsetof(struct found, batch.present) - offsetof(struct found, batch),
    .allow_unknown = true};
static const struct ron_json_field found_fields[] = {
    RON_JSON_FIELD(struct found, entry, OBJECT, .required = true, .shape = &found_entry_shape),
    RON_JSON_FIELD(struct found, batch, OBJECT, .required = true, .shape = &found_batch_shape),
};
static const struct ron_json_shape found_shape = SHAPE(struct found, found_fields);

enum ron_rc lc_found_read(char *json, size_t len, struct lc_found *ret)
{
    struct found f = {0};

    RON_TRY(scan(json, len, &found_shape, &f));
    *ret = f.entry.said;
    ret->idem_id = f.batch.idem_id;
    return RON_OK;
}

struct head {
    uint64_t seq;
    uint64_t ts;
    uint64_t epoch;
    struct ron_str leader;
    bool leads;
    uint64_t present;
};

static const struct ron_json_field head_fields[] = {
    RON_JSON_FIELD(struct head, seq, U64, .required = true),
    RON_JSON_FIELD(struct head, ts, U64, .required = true),
    RON_JSON_FIELD(struct head, leads, BOOL, .required = false),
    RON_JSON_FIELD(struct head, epoch, U64, .required = false),
    RON_JSON_FIELD(struct head, leader, STRING, .required = false, .max = LC_ADDR_MAX),
};
static const struct ron_json_shape head_shape = SHAPE(struct head, head_fields);

enum ron_rc lc_head_read(char *json, size_t len, struct lc_head *ret)
{
    struct head h = {.leads = true};

    RON_TRY(scan(json, len, &head_shape, &h));
    *ret = (struct lc_head){.seq = h.seq, .commit_ms = h.ts, .leads = h.leads, .epoch = h.epoch};
    copy_message(h.leader, ret->leader, sizeof ret->leader);
    return RON_OK;
}
