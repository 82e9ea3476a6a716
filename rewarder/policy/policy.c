/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/policy/policy.c - policy documents: their canonical bytes, their signatures, the
 * emission curve. How a text is read stands in policy_read.c.
 *
 * Place: rewarder, over base, cas (hashes) and libsodium (Ed25519).
 *
 * Invariant: the canonical bytes are written once, when the document is read, from the values
 * alone; so two texts that mean the same have one hash. Every text in a policy is of characters
 * that JSON does not escape. */
#include "rewarder/policy/policy.h"

#include <sodium.h>
#include <string.h>

#include "rewarder/policy/priv.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/base/secret.h"

#define SIGNED_CONTEXT "ron-reward-policy/1\n"

enum { MESSAGE_LEN = sizeof SIGNED_CONTEXT - 1 + RON_B3_ID_LEN, SIG_HEX_LEN = 2 * RWD_SIG_BYTES };

_Static_assert(RWD_SIG_BYTES == crypto_sign_BYTES, "an Ed25519 signature");
_Static_assert(RWD_SIGN_KEY_BYTES == crypto_sign_SEEDBYTES, "an Ed25519 seed");
_Static_assert(RWD_SIGN_KEY_BYTES == crypto_sign_PUBLICKEYBYTES, "an Ed25519 public key");

static const char *const funding_names[RWD_FUND_COUNT] = {
    [RWD_FUND_PROTOCOL_POOL] = "protocol_pool",
    [RWD_FUND_ADVERTISER_BUDGET] = "advertiser_budget",
    [RWD_FUND_CREATOR_POOL] = "creator_pool",
    [RWD_FUND_SPONSOR_BUDGET] = "sponsor_budget",
    [RWD_FUND_GOVERNANCE_BUDGET] = "governance_budget",
};
static const char *const rounding_names[RWD_ROUNDING_COUNT] = {
    [RWD_ROUND_FLOOR] = "floor",
    [RWD_ROUND_LARGEST_REMAINDER] = "largest_remainder",
};
static const char *const residual_names[RWD_RESIDUAL_COUNT] = {
    [RWD_RESIDUAL_UNISSUED] = "unissued",
    [RWD_RESIDUAL_SINK] = "sink",
    [RWD_RESIDUAL_CARRY] = "carry",
};
static const char *const emission_names[RWD_EMISSION_COUNT] = {
    [RWD_EMIT_NONE] = "none",
    [RWD_EMIT_CONSTANT] = "constant",
    [RWD_EMIT_HALVING] = "halving",
};

const char *rwd_funding_name(enum rwd_funding funding)
{
    RON_ASSERT(funding < RWD_FUND_COUNT);
    return funding_names[funding];
}

const char *rwd_rounding_name(enum rwd_rounding rounding)
{
    RON_ASSERT((uint32_t)rounding < RWD_ROUNDING_COUNT);
    return rounding_names[rounding];
}

const char *rwd_residual_name(enum rwd_residual residual)
{
    RON_ASSERT((uint32_t)residual < RWD_RESIDUAL_COUNT);
    return residual_names[residual];
}

const char *rwd_emission_name(enum rwd_emission emission)
{
    RON_ASSERT((uint32_t)emission < RWD_EMISSION_COUNT);
    return emission_names[emission];
}

/* ---- canonical bytes ------------------------------------------------------------------------- */

static void write_weight(struct ron_json_writer *w, const char *name, struct rwd_fraction weight)
{
    char text[2 * RON_MONEY_TEXT_SIZE];
    size_t len = ron_money_format(ron_money_of(weight.num), text);

    if (weight.den != 1) {
        text[len++] = '/';
        len += ron_money_format(ron_money_of(weight.den), text + len);
    }
    ron_json_str(w, name, (struct ron_str){text, len});
}

static void write_optional(struct ron_json_writer *w, const struct rwd_policy *p)
{
    if (p->funding_account.len != 0) {
        ron_json_str(w, "funding_account", p->funding_account);
    }
    if (p->sink.len != 0) {
        ron_json_str(w, "remainder_sink", p->sink);
    }
    if (p->has_actor_cap) {
        ron_json_money(w, "actor_cap_minor_units", p->actor_cap);
    }
    if (p->category_count != 0) {
        ron_json_open(w, "categories", '[');
        for (uint32_t i = 0; i < p->category_count; i++) {
            ron_json_open(w, NULL, '{');
            ron_json_str(w, "prefix", p->categories[i].prefix);
            ron_json_money(w, "cap_minor_units", p->categories[i].cap);
            ron_json_close(w, '}');
        }
        ron_json_close(w, ']');
    }
    if (p->emission != RWD_EMIT_NONE) {
        ron_json_open(w, "emission", '{');
        ron_json_text(w, "kind", emission_names[p->emission]);
        ron_json_money(w, "base_minor_units", p->emission_base);
        ron_json_u64(w, "start_millis", p->emission_start_ms);
        if (p->emission == RWD_EMIT_HALVING) {
            ron_json_u64(w, "epoch_millis", p->emission_epoch_ms);
            ron_json_u64(w, "period_epochs", p->emission_period);
        }
        ron_json_close(w, '}');
    }
}

enum ron_rc rwd__policy_seal(struct rwd_policy_doc *doc)
{
    struct rwd_policy *p = &doc->policy;
    struct ron_json_writer w;

    ron_json_begin(&w, &doc->bytes);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "v", RWD_POLICY_V);
    ron_json_str(&w, "id", p->id);
    ron_json_u64(&w, "version", p->version);
    ron_json_text(&w, "funding_source", funding_names[p->funding]);
    ron_json_str(&w, "asset", p->asset);
    ron_json_money(&w, "max_payout_minor_units", p->max);
    ron_json_money(&w, "min_payout_minor_units", p->min);
    ron_json_u64(&w, "weight_bps", p->weight_bps);
    ron_json_text(&w, "rounding", rounding_names[p->rounding]);
    ron_json_text(&w, "residual", residual_names[p->residual]);
    ron_json_open(&w, "weights", '{');
    write_weight(&w, "bytes_stored", p->stored);
    write_weight(&w, "bytes_served", p->served);
    write_weight(&w, "uptime_seconds", p->uptime);
    ron_json_close(&w, '}');
    write_optional(&w, p);
    ron_json_close(&w, '}');
    RON_TRY(ron_buf_error(&doc->bytes));
    ron_b3_hash(ron_buf_data(&doc->bytes), ron_buf_len(&doc->bytes), &p->hash);
    return RON_OK;
}

struct ron_str rwd_policy_bytes(const struct rwd_policy_doc *doc)
{
    return (struct ron_str){(const char *)ron_buf_data(&doc->bytes), ron_buf_len(&doc->bytes)};
}

enum ron_rc rwd_policy_write(const struct rwd_policy_doc *doc, struct ron_buf *out)
{
    char hex[SIG_HEX_LEN + 1];
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    if (!doc->policy.is_signed) {
        ron_json_raw(&w, NULL, rwd_policy_bytes(doc));
        return ron_buf_error(out);
    }
    (void)sodium_bin2hex(hex, sizeof hex, doc->sig, sizeof doc->sig);
    ron_json_open(&w, NULL, '{');
    ron_json_raw(&w, "policy", rwd_policy_bytes(doc));
    ron_json_text(&w, "key_id", doc->policy.key_id);
    ron_json_text(&w, "sig_ed25519", hex);
    ron_json_close(&w, '}');
    return ron_buf_error(out);
}

const struct rwd_policy *rwd_policy_of(const struct rwd_policy_doc *doc)
{
    return &doc->policy;
}

void rwd_policy_free(struct rwd_policy_doc *doc)
{
    if (doc != NULL) {
        ron_buf_done(&doc->bytes);
        ron_free(doc->text);
        ron_free(doc);
    }
}

/* ---- signatures ------------------------------------------------------------------------------ */

static void init_sodium(void)
{
    /* Picks the fastest code once; later calls return at once. Fails only without randomness. */
    RON_ASSERT(sodium_init() >= 0);
}

static void signed_message(const struct ron_b3 *hash, uint8_t ret_message[MESSAGE_LEN])
{
    char id[RON_B3_ID_SIZE];

    ron_b3_format(hash, id);
    memcpy(ret_message, SIGNED_CONTEXT, sizeof SIGNED_CONTEXT - 1);
    memcpy(ret_message + sizeof SIGNED_CONTEXT - 1, id, RON_B3_ID_LEN);
}

bool rwd__key_id_ok(struct ron_str id)
{
    if (id.len == 0 || id.len > RWD_KEY_ID_MAX) {
        return false;
    }
    /* The characters of a policy's id. */
    return rwd_policy_id_ok(id);
}

/* Digits in lower case alone: a document has one spelling. */
static bool read_sig(struct ron_str hex, uint8_t ret_sig[RWD_SIG_BYTES])
{
    size_t len = 0;

    if (hex.len != SIG_HEX_LEN) {
        return false;
    }
    for (size_t i = 0; i < hex.len; i++) {
        if (hex.ptr[i] >= 'A' && hex.ptr[i] <= 'F') {
            return false;
        }
    }
    return sodium_hex2bin(ret_sig, RWD_SIG_BYTES, hex.ptr, hex.len, NULL, &len, NULL) == 0 &&
           len == RWD_SIG_BYTES;
}

enum ron_rc rwd_policy_key_read(struct ron_str text, struct rwd_policy_key *ret_key,
                                struct ron_err *err)
{
    const char *mark = memchr(text.ptr, '=', text.len);
    struct ron_str id = {text.ptr, mark == NULL ? 0 : (size_t)(mark - text.ptr)};
    struct ron_b3 bytes; /* as many as a key has */

    _Static_assert(sizeof bytes.bytes == RWD_SIGN_KEY_BYTES, "32 bytes in 64 digits");
    if (!rwd__key_id_ok(id) ||
        !ron_b3_parse_hex(text.ptr + id.len + 1, text.len - id.len - 1, &bytes)) {
        return ron_err_set(err, RON_INVALID,
                           "not ID=HEX: 1 to %d of A-Z a-z 0-9 _ . : - and 64 lowercase digits",
                           (int)RWD_KEY_ID_MAX);
    }
    *ret_key = (struct rwd_policy_key){.id = ""};
    memcpy(ret_key->id, id.ptr, id.len);
    memcpy(ret_key->public_key, bytes.bytes, sizeof ret_key->public_key);
    return RON_OK;
}

enum ron_rc rwd__policy_verify(struct rwd_policy_doc *doc, struct ron_str key_id,
                               struct ron_str sig_hex, const struct rwd_policy_key *keys,
                               size_t key_count, struct ron_err *err)
{
    uint8_t message[MESSAGE_LEN];
    bool known = false;

    if (!rwd__key_id_ok(key_id)) {
        return ron_err_set(err, RON_INVALID, "key_id: must be 1 to %d of A-Z a-z 0-9 _ . : -",
                           (int)RWD_KEY_ID_MAX);
    }
    if (!read_sig(sig_hex, doc->sig)) {
        return ron_err_set(err, RON_INVALID, "sig_ed25519: must be %d lowercase hex digits",
                           (int)SIG_HEX_LEN);
    }
    init_sodium();
    signed_message(&doc->policy.hash, message);
    for (size_t i = 0; i < key_count; i++) {
        if (!ron_str_is(key_id, keys[i].id)) {
            continue;
        }
        known = true;
        if (crypto_sign_verify_detached(doc->sig, message, sizeof message, keys[i].public_key) ==
            0) {
            memcpy(doc->policy.key_id, key_id.ptr, key_id.len);
            doc->policy.key_id[key_id.len] = '\0';
            doc->policy.is_signed = true;
            return RON_OK;
        }
    }
    return ron_err_set(err, RON_DENIED,
                       known ? "the policy's signature is not good"
                             : "the policy is signed with a key that is not known here");
}

enum ron_rc rwd_policy_sign(struct rwd_policy_doc *doc, const char *key_id,
                            const uint8_t seed[RWD_SIGN_KEY_BYTES], struct ron_err *err)
{
    uint8_t message[MESSAGE_LEN];
    uint8_t public_key[crypto_sign_PUBLICKEYBYTES];
    uint8_t secret_key[crypto_sign_SECRETKEYBYTES];
    struct ron_str id = {key_id, strlen(key_id)};

    if (doc->policy.is_signed) {
        return ron_err_set(err, RON_EXISTS, "the policy is signed already");
    }
    if (!rwd__key_id_ok(id)) {
        return ron_err_set(err, RON_INVALID, "key_id: must be 1 to %d of A-Z a-z 0-9 _ . : -",
                           (int)RWD_KEY_ID_MAX);
    }
    init_sodium();
    signed_message(&doc->policy.hash, message);
    (void)crypto_sign_seed_keypair(public_key, secret_key, seed);
    (void)crypto_sign_detached(doc->sig, NULL, message, sizeof message, secret_key);
    ron_wipe(secret_key, sizeof secret_key);
    memcpy(doc->policy.key_id, id.ptr, id.len + 1);
    doc->policy.is_signed = true;
    return RON_OK;
}

/* ---- use ------------------------------------------------------------------------------------- */

static ron_u128 curve(const struct rwd_policy *p, uint64_t produced_at_ms)
{
    uint64_t halvings;

    if (p->emission == RWD_EMIT_NONE) {
        return RON_U128_MAX;
    }
    if (produced_at_ms < p->emission_start_ms) {
        return 0;
    }
    if (p->emission == RWD_EMIT_CONSTANT) {
        return p->emission_base.v;
    }
    halvings = (produced_at_ms - p->emission_start_ms) / p->emission_epoch_ms / p->emission_period;
    return halvings >= 128 ? 0 : p->emission_base.v >> halvings;
}

struct ron_money rwd_policy_pool_max(const struct rwd_policy *policy, uint64_t produced_at_ms)
{
    ron_u128 most = curve(policy, produced_at_ms);

    return (struct ron_money){RON_MIN(most, policy->max.v)};
}

void rwd_policy_default(struct rwd_policy *ret_policy)
{
    *ret_policy = (struct rwd_policy){
        .id = {"policy:v1", 9},
        .version = 1,
        .funding = RWD_FUND_PROTOCOL_POOL,
        .asset = {"roc", 3},
        .max = RON_MONEY_MAX,
        .min = {1},
        .weight_bps = 10000,
        .rounding = RWD_ROUND_FLOOR,
        .residual = RWD_RESIDUAL_UNISSUED,
        .stored = {1, 1},
        .served = {1, 4},
        .uptime = {1, 1},
        .is_signed = true,
        .key_id = "default",
    };
    memset(&ret_policy->hash, 0xbb, sizeof ret_policy->hash);
}
