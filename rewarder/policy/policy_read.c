/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/policy/policy_read.c - a text as a policy: every member known, every rule of P2 and P3
 * kept.
 *
 * The text is copied and scanned in place. What it says is checked member by member; a refusal
 * names the member. Nobody sees a document before all of it was accepted. */
#include <string.h>

#include "rewarder/policy/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/arena.h"
#include "ron/base/assert.h"

/* The largest whole number that every JSON reader keeps. */
#define NUMBER_MAX ((UINT64_C(1) << 53) - 1)
#define WEIGHT_MAX (UINT64_C(1) << 32)

enum { BPS_MAX = 100000, ASSET_MAX = 32, NAME_MAX_LEN = 32 };

/* ---- shapes ---------------------------------------------------------------------------------- */

struct weights_text {
    struct ron_str bytes_stored;
    struct ron_str bytes_served;
    struct ron_str uptime_seconds;
    uint64_t present;
};
static const struct ron_json_field weights_fields[] = {
    RON_JSON_FIELD(struct weights_text, bytes_stored, STRING, .required = true),
    RON_JSON_FIELD(struct weights_text, bytes_served, STRING, .required = true),
    RON_JSON_FIELD(struct weights_text, uptime_seconds, STRING, .required = true),
};
static const struct ron_json_shape weights_shape =
    RON_JSON_SHAPE(struct weights_text, weights_fields, present);

struct category_text {
    struct ron_str prefix;
    struct ron_money cap_minor_units;
    uint64_t present;
};
static const struct ron_json_field category_fields[] = {
    RON_JSON_FIELD(struct category_text, prefix, STRING, .required = true, .max = RWD_ACCOUNT_MAX),
    RON_JSON_FIELD(struct category_text, cap_minor_units, MONEY, .required = true),
};
static const struct ron_json_shape category_shape =
    RON_JSON_SHAPE(struct category_text, category_fields, present);

enum { EMISSION_EPOCH = 3, EMISSION_PERIOD = 4 }; /* bits of `present` */
struct emission_text {
    struct ron_str kind;
    struct ron_money base_minor_units;
    uint64_t start_millis;
    uint64_t epoch_millis;
    uint64_t period_epochs;
    uint64_t present;
};
static const struct ron_json_field emission_fields[] = {
    RON_JSON_FIELD(struct emission_text, kind, STRING, .required = true, .max = NAME_MAX_LEN),
    RON_JSON_FIELD(struct emission_text, base_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct emission_text, start_millis, U64, .required = true, .max = NUMBER_MAX),
    [EMISSION_EPOCH] = RON_JSON_FIELD(struct emission_text, epoch_millis, U64, .max = NUMBER_MAX),
    [EMISSION_PERIOD] = RON_JSON_FIELD(struct emission_text, period_epochs, U64, .max = NUMBER_MAX),
};
static const struct ron_json_shape emission_shape =
    RON_JSON_SHAPE(struct emission_text, emission_fields, present);

enum { OPT_ACCOUNT = 11, OPT_SINK, OPT_ACTOR_CAP, OPT_CATEGORIES, OPT_EMISSION };
struct policy_text {
    uint64_t v;
    struct ron_str id;
    uint64_t version;
    struct ron_str funding_source;
    struct ron_str asset;
    struct ron_money max_payout_minor_units;
    struct ron_money min_payout_minor_units;
    uint64_t weight_bps;
    struct ron_str rounding;
    struct ron_str residual;
    struct weights_text weights;
    struct ron_str funding_account;
    struct ron_str remainder_sink;
    struct ron_money actor_cap_minor_units;
    struct ron_json_items categories;
    struct emission_text emission;
    uint64_t present;
};
static const struct ron_json_field policy_fields[] = {
    RON_JSON_FIELD(struct policy_text, v, U64, .required = true),
    RON_JSON_FIELD(struct policy_text, id, STRING, .required = true),
    RON_JSON_FIELD(struct policy_text, version, U64, .required = true, .max = NUMBER_MAX),
    RON_JSON_FIELD(struct policy_text, funding_source, STRING, .required = true),
    RON_JSON_FIELD(struct policy_text, asset, STRING, .required = true),
    RON_JSON_FIELD(struct policy_text, max_payout_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct policy_text, min_payout_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct policy_text, weight_bps, U64, .required = true),
    RON_JSON_FIELD(struct policy_text, rounding, STRING, .required = true),
    RON_JSON_FIELD(struct policy_text, residual, STRING, .required = true),
    RON_JSON_FIELD(struct policy_text, weights, OBJECT, .required = true, .shape = &weights_shape),
    [OPT_ACCOUNT] = RON_JSON_FIELD(struct policy_text, funding_account, STRING, .required = false),
    [OPT_SINK] = RON_JSON_FIELD(struct policy_text, remainder_sink, STRING, .required = false),
    [OPT_ACTOR_CAP] =
        RON_JSON_FIELD(struct policy_text, actor_cap_minor_units, MONEY, .required = false),
    [OPT_CATEGORIES] =
        RON_JSON_FIELD(struct policy_text, categories, ARRAY, .max = RWD_CATEGORIES_MAX,
                       .item_size = sizeof(struct category_text), .shape = &category_shape),
    [OPT_EMISSION] = RON_JSON_FIELD(struct policy_text, emission, OBJECT, .shape = &emission_shape),
};
static const struct ron_json_shape policy_shape =
    RON_JSON_SHAPE(struct policy_text, policy_fields, present);

struct signed_text {
    struct policy_text policy;
    struct ron_str key_id;
    struct ron_str sig_ed25519;
    uint64_t present;
};
static const struct ron_json_field signed_fields[] = {
    RON_JSON_FIELD(struct signed_text, policy, OBJECT, .required = true, .shape = &policy_shape),
    RON_JSON_FIELD(struct signed_text, key_id, STRING, .required = true),
    RON_JSON_FIELD(struct signed_text, sig_ed25519, STRING, .required = true),
};
static const struct ron_json_shape signed_shape =
    RON_JSON_SHAPE(struct signed_text, signed_fields, present);

/* Which of the two forms a text has. */
struct form_text {
    struct ron_str policy;
    uint64_t present;
};
static const struct ron_json_field form_fields[] = {
    RON_JSON_FIELD(struct form_text, policy, RAW, .required = false),
};
static const struct ron_json_shape form_shape = {.fields = form_fields,
                                                 .count = 1,
                                                 .present_offset =
                                                     offsetof(struct form_text, present),
                                                 .allow_unknown = true};

/* ---- rules ----------------------------------------------------------------------------------- */

/* The place of a text among names; `count` when it is none of them. */
static uint32_t find_name(struct ron_str text, const char *(*name_of)(uint32_t), uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ron_str_is(text, name_of(i))) {
            return i;
        }
    }
    return count;
}

static const char *funding_name(uint32_t i)
{
    return rwd_funding_name((enum rwd_funding)i);
}

static const char *rounding_name(uint32_t i)
{
    return rwd_rounding_name((enum rwd_rounding)i);
}

static const char *residual_name(uint32_t i)
{
    return rwd_residual_name((enum rwd_residual)i);
}

/* As the ledger has them. */
static bool asset_ok(struct ron_str s)
{
    if (s.len == 0 || s.len > ASSET_MAX || s.ptr[0] < 'a' || s.ptr[0] > 'z') {
        return false;
    }
    for (size_t i = 1; i < s.len; i++) {
        char c = s.ptr[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
              c == '-')) {
            return false;
        }
    }
    return true;
}

static bool read_weight_number(const char *text, size_t len, uint64_t *ret_number)
{
    struct ron_money number;

    if (ron_money_parse(text, len, &number, NULL) != RON_OK || number.v > WEIGHT_MAX) {
        return false;
    }
    *ret_number = (uint64_t)number.v;
    return true;
}

/* N or N/D, each without leading zeros; in lowest terms from here on. */
static enum ron_rc read_weight(struct ron_str text, const char *name,
                               struct rwd_fraction *ret_weight, struct ron_err *err)
{
    const char *slash = memchr(text.ptr, '/', text.len);
    size_t num_len = slash == NULL ? text.len : (size_t)(slash - text.ptr);
    struct rwd_fraction w = {.den = 1};
    uint64_t a;
    uint64_t b;

    if (!read_weight_number(text.ptr, num_len, &w.num) ||
        (slash != NULL &&
         (!read_weight_number(slash + 1, text.len - num_len - 1, &w.den) || w.den == 0))) {
        return ron_err_set(err, RON_INVALID,
                           "weights.%s: must be \"N\" or \"N/D\", N from 0 and D from 1 to 2^32",
                           name);
    }
    a = w.num;
    b = w.den;
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    *ret_weight = (struct rwd_fraction){w.num / a, w.den / a};
    return RON_OK;
}

static enum ron_rc take_names(const struct policy_text *t, struct rwd_policy *p,
                              struct ron_err *err)
{
    uint32_t funding = find_name(t->funding_source, funding_name, RWD_FUND_COUNT);
    uint32_t rounding = find_name(t->rounding, rounding_name, RWD_ROUNDING_COUNT);
    uint32_t residual = find_name(t->residual, residual_name, RWD_RESIDUAL_COUNT);

    if (t->v != RWD_POLICY_V) {
        return ron_err_set(err, RON_INVALID, "v: must be %d", (int)RWD_POLICY_V);
    }
    if (!rwd_policy_id_ok(t->id)) {
        return ron_err_set(err, RON_INVALID, "id: must be 1 to %d of A-Z a-z 0-9 _ . : -",
                           (int)RWD_POLICY_ID_MAX);
    }
    if (t->version == 0) {
        return ron_err_set(err, RON_INVALID, "version: must be above 0");
    }
    if (funding == RWD_FUND_COUNT) {
        return ron_err_set(err, RON_INVALID, "funding_source: no such source");
    }
    if (!asset_ok(t->asset)) {
        return ron_err_set(err, RON_INVALID,
                           "asset: must be 1 to %d of a-z 0-9 . _ -, first a letter",
                           (int)ASSET_MAX);
    }
    if (rounding == RWD_ROUNDING_COUNT) {
        return ron_err_set(err, RON_INVALID,
                           "rounding: must be \"floor\" or \"largest_remainder\"");
    }
    if (residual == RWD_RESIDUAL_COUNT) {
        return ron_err_set(err, RON_INVALID,
                           "residual: must be \"unissued\", \"sink\" or \"carry\"");
    }
    p->id = t->id;
    p->version = t->version;
    p->funding = (enum rwd_funding)funding;
    p->asset = t->asset;
    p->rounding = (enum rwd_rounding)rounding;
    p->residual = (enum rwd_residual)residual;
    return RON_OK;
}

static enum ron_rc take_numbers(const struct policy_text *t, struct rwd_policy *p,
                                struct ron_err *err)
{
    if (t->max_payout_minor_units.v < t->min_payout_minor_units.v) {
        return ron_err_set(err, RON_INVALID,
                           "max_payout_minor_units: is below min_payout_minor_units");
    }
    if (t->weight_bps == 0 || t->weight_bps > BPS_MAX) {
        return ron_err_set(err, RON_INVALID, "weight_bps: must be 1 to %d", (int)BPS_MAX);
    }
    RON_TRY(read_weight(t->weights.bytes_stored, "bytes_stored", &p->stored, err));
    RON_TRY(read_weight(t->weights.bytes_served, "bytes_served", &p->served, err));
    RON_TRY(read_weight(t->weights.uptime_seconds, "uptime_seconds", &p->uptime, err));
    if (p->stored.num == 0 && p->served.num == 0 && p->uptime.num == 0) {
        return ron_err_set(err, RON_INVALID, "weights: at least one must be above 0");
    }
    p->max = t->max_payout_minor_units;
    p->min = t->min_payout_minor_units;
    p->weight_bps = (uint32_t)t->weight_bps;
    p->has_actor_cap = (t->present >> OPT_ACTOR_CAP & 1) != 0;
    p->actor_cap = t->actor_cap_minor_units;
    return RON_OK;
}

static enum ron_rc take_accounts(const struct policy_text *t, struct rwd_policy *p,
                                 struct ron_err *err)
{
    if ((t->present >> OPT_ACCOUNT & 1) != 0 && !rwd_account_ok(t->funding_account)) {
        return ron_err_set(err, RON_INVALID, "funding_account: is no account");
    }
    if ((t->present >> OPT_SINK & 1) != 0 && !rwd_account_ok(t->remainder_sink)) {
        return ron_err_set(err, RON_INVALID, "remainder_sink: is no account");
    }
    if (p->residual == RWD_RESIDUAL_SINK && t->remainder_sink.len == 0) {
        return ron_err_set(err, RON_INVALID, "remainder_sink: is needed when residual is \"sink\"");
    }
    p->funding_account = t->funding_account;
    p->sink = t->remainder_sink;
    return RON_OK;
}

static int compare(struct ron_str a, struct ron_str b)
{
    int order = memcmp(a.ptr, b.ptr, RON_MIN(a.len, b.len));

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Sorted by insertion (they are few), then looked through: where one begins with another, so does
 * its neighbour. */
static enum ron_rc take_categories(const struct policy_text *t, struct rwd_policy *p,
                                   struct ron_err *err)
{
    const struct category_text *items = t->categories.items;

    for (size_t i = 0; i < t->categories.count; i++) {
        struct rwd_category c = {items[i].prefix, items[i].cap_minor_units};
        uint32_t at = p->category_count;

        if (!rwd_account_ok(c.prefix)) {
            return ron_err_set(err, RON_INVALID, "categories[%zu].prefix: no account begins so", i);
        }
        while (at > 0 && compare(p->categories[at - 1].prefix, c.prefix) > 0) {
            p->categories[at] = p->categories[at - 1];
            at--;
        }
        p->categories[at] = c;
        p->category_count++;
    }
    for (uint32_t i = 1; i < p->category_count; i++) {
        struct ron_str shorter = p->categories[i - 1].prefix;
        struct ron_str longer = p->categories[i].prefix;

        if (longer.len >= shorter.len && memcmp(longer.ptr, shorter.ptr, shorter.len) == 0) {
            return ron_err_set(err, RON_INVALID, "categories: \"%.*s\" begins with \"%.*s\"",
                               (int)RON_MIN(longer.len, (size_t)64), longer.ptr,
                               (int)RON_MIN(shorter.len, (size_t)64), shorter.ptr);
        }
    }
    return RON_OK;
}

static enum ron_rc take_emission(const struct policy_text *t, struct rwd_policy *p,
                                 struct ron_err *err)
{
    const struct emission_text *e = &t->emission;
    bool has_epoch = (e->present >> EMISSION_EPOCH & 1) != 0;
    bool has_period = (e->present >> EMISSION_PERIOD & 1) != 0;

    if ((t->present >> OPT_EMISSION & 1) == 0) {
        return RON_OK;
    }
    if (ron_str_is(e->kind, rwd_emission_name(RWD_EMIT_CONSTANT))) {
        p->emission = RWD_EMIT_CONSTANT;
        if (has_epoch || has_period) {
            return ron_err_set(err, RON_INVALID,
                               "emission: a constant one has no epoch_millis and period_epochs");
        }
    } else if (ron_str_is(e->kind, rwd_emission_name(RWD_EMIT_HALVING))) {
        p->emission = RWD_EMIT_HALVING;
        if (e->epoch_millis == 0 || e->period_epochs == 0) {
            return ron_err_set(err, RON_INVALID, "emission.%s: must be there and above 0",
                               e->epoch_millis == 0 ? "epoch_millis" : "period_epochs");
        }
    } else {
        return ron_err_set(err, RON_INVALID, "emission.kind: must be \"constant\" or \"halving\"");
    }
    p->emission_base = e->base_minor_units;
    p->emission_start_ms = e->start_millis;
    p->emission_epoch_ms = e->epoch_millis;
    p->emission_period = e->period_epochs;
    return RON_OK;
}

static enum ron_rc take_policy(const struct policy_text *t, struct rwd_policy_doc *doc,
                               struct ron_err *err)
{
    struct rwd_policy *p = &doc->policy;

    RON_TRY(take_names(t, p, err));
    RON_TRY(take_numbers(t, p, err));
    RON_TRY(take_accounts(t, p, err));
    RON_TRY(take_categories(t, p, err));
    RON_TRY(take_emission(t, p, err));
    if (rwd__policy_seal(doc) != RON_OK) {
        return ron_err_set(err, RON_NOMEM, "no memory for a policy");
    }
    return RON_OK;
}

/* ---- documents ------------------------------------------------------------------------------- */

static enum ron_rc refused(enum ron_rc rc, const struct ron_json_error *why, struct ron_err *err)
{
    return ron_err_set(err, rc, "%s%s%s", why->field, why->field[0] == '\0' ? "" : ": ",
                       why->reason);
}

/* Fills doc->text again from the original before each scan, which changes it. */
static enum ron_rc scan(struct rwd_policy_doc *doc, struct ron_str text,
                        const struct ron_json_shape *shape, struct ron_arena *arena, void *out,
                        struct ron_err *err)
{
    struct ron_json_error why = {0};
    enum ron_rc rc;

    memcpy(doc->text, text.ptr, text.len);
    rc = ron_json_scan(doc->text, text.len, shape, arena, out, &why);
    return rc == RON_OK ? RON_OK : refused(rc, &why, err);
}

struct reading {
    const struct rwd_policy_key *keys;
    size_t key_count;
    bool draft;
};

static enum ron_rc read_into(struct rwd_policy_doc *doc, struct ron_str text,
                             const struct reading *how, struct ron_err *err)
{
    _Alignas(struct category_text)
        uint8_t memory[(RWD_CATEGORIES_MAX + 1) * sizeof(struct category_text)];
    struct ron_arena arena;
    struct form_text form = {0};
    struct signed_text t = {0};

    ron_arena_init_over(&arena, memory, sizeof memory);
    RON_TRY(scan(doc, text, &form_shape, NULL, &form, err));
    if (form.present == 0) {
        RON_TRY(scan(doc, text, &policy_shape, &arena, &t.policy, err));
        RON_TRY(take_policy(&t.policy, doc, err));
        if (!how->draft && (doc->policy.funding == RWD_FUND_PROTOCOL_POOL ||
                            doc->policy.funding == RWD_FUND_GOVERNANCE_BUDGET)) {
            return ron_err_set(err, RON_DENIED, "a policy of %s needs a signature",
                               rwd_funding_name(doc->policy.funding));
        }
        return RON_OK;
    }
    if (how->draft) {
        return ron_err_set(err, RON_INVALID, "policy: the document is signed already");
    }
    RON_TRY(scan(doc, text, &signed_shape, &arena, &t, err));
    RON_TRY(take_policy(&t.policy, doc, err));
    return rwd__policy_verify(doc, t.key_id, t.sig_ed25519, how->keys, how->key_count, err);
}

static enum ron_rc read_doc(struct ron_str text, const struct reading *how,
                            struct rwd_policy_doc **ret_doc, struct ron_err *err)
{
    struct rwd_policy_doc *doc;
    enum ron_rc rc;

    if (text.len > RWD_POLICY_TEXT_MAX) {
        return ron_err_set(err, RON_LIMIT, "a policy has at most %d bytes",
                           (int)RWD_POLICY_TEXT_MAX);
    }
    doc = ron_alloc_zero(sizeof *doc);
    if (doc == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a policy");
    }
    /* Values are never longer than they were in the text, but for fractions in lowest terms, which
     * are shorter, and names, which are the same. */
    ron_buf_init(&doc->bytes, RWD_POLICY_TEXT_MAX);
    doc->text = ron_alloc(text.len + 1);
    rc = doc->text == NULL ? ron_err_set(err, RON_NOMEM, "no memory for a policy")
                           : read_into(doc, text, how, err);
    if (rc != RON_OK) {
        rwd_policy_free(doc);
        return rc;
    }
    *ret_doc = doc;
    return RON_OK;
}

enum ron_rc rwd_policy_read(const void *text, size_t len, const struct rwd_policy_key *keys,
                            size_t key_count, struct rwd_policy_doc **ret_doc, struct ron_err *err)
{
    const struct reading how = {.keys = keys, .key_count = key_count};

    return read_doc((struct ron_str){text, len}, &how, ret_doc, err);
}

enum ron_rc rwd_policy_draft(const void *text, size_t len, struct rwd_policy_doc **ret_doc,
                             struct ron_err *err)
{
    const struct reading how = {.draft = true};

    return read_doc((struct ron_str){text, len}, &how, ret_doc, err);
}
