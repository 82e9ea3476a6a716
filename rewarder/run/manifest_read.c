/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/manifest_read.c - reading run.json strictly.
 *
 * The members are scanned by tables; then the manifest is written again, and unless that gives the
 * very bytes that were read it is refused (M4). So order, blanks, escapes and spellings need no
 * rules of their own. At the end the commitment is computed anew (M3). */
#include <string.h>

#include "rewarder/run/manifest_priv.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"

struct policy_text {
    struct ron_str id;
    uint64_t version;
    struct ron_str hash;
    bool signed_; /* a word of C */
    struct ron_str funding_source;
    uint64_t present;
};
static const struct ron_json_field policy_fields[] = {
    RON_JSON_FIELD(struct policy_text, id, STRING, .required = true, .max = RWD_POLICY_ID_MAX),
    RON_JSON_FIELD(struct policy_text, version, U64, .required = true),
    RON_JSON_FIELD(struct policy_text, hash, STRING, .required = true),
    {.name = "signed",
     .name_len = sizeof "signed" - 1,
     .type = RON_JSON_BOOL,
     .offset = offsetof(struct policy_text, signed_),
     .required = true},
    RON_JSON_FIELD(struct policy_text, funding_source, STRING, .required = true),
};
static const struct ron_json_shape policy_shape =
    RON_JSON_SHAPE(struct policy_text, policy_fields, present);

struct ledger_text {
    struct ron_str root;
    uint64_t seq;
    uint64_t present;
};
static const struct ron_json_field ledger_fields[] = {
    RON_JSON_FIELD(struct ledger_text, root, STRING, .required = true),
    RON_JSON_FIELD(struct ledger_text, seq, U64, .required = true),
};
static const struct ron_json_shape ledger_shape =
    RON_JSON_SHAPE(struct ledger_text, ledger_fields, present);

struct carry_text {
    struct ron_str epoch_id;
    struct ron_str commitment;
    struct ron_money minor_units;
    uint64_t present;
};
static const struct ron_json_field carry_fields[] = {
    RON_JSON_FIELD(struct carry_text, epoch_id, STRING, .required = true, .max = RWD_EPOCH_MAX),
    RON_JSON_FIELD(struct carry_text, commitment, STRING, .required = true),
    RON_JSON_FIELD(struct carry_text, minor_units, MONEY, .required = true),
};
static const struct ron_json_shape carry_shape =
    RON_JSON_SHAPE(struct carry_text, carry_fields, present);

struct totals_text {
    struct ron_money offered_minor_units;
    struct ron_money cut_minor_units;
    struct ron_money pool_minor_units;
    struct ron_money payout_minor_units;
    struct ron_money residual_minor_units;
    struct ron_money dust_minor_units;
    struct ron_money capped_minor_units;
    uint64_t accounts;
    uint64_t idle;
    uint64_t present;
};
static const struct ron_json_field totals_fields[] = {
    RON_JSON_FIELD(struct totals_text, offered_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct totals_text, cut_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct totals_text, pool_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct totals_text, payout_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct totals_text, residual_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct totals_text, dust_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct totals_text, capped_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct totals_text, accounts, U64, .required = true),
    RON_JSON_FIELD(struct totals_text, idle, U64, .required = true),
};
static const struct ron_json_shape totals_shape =
    RON_JSON_SHAPE(struct totals_text, totals_fields, present);

struct residual_text {
    struct ron_str rule;
    struct ron_str to;
    uint64_t present;
};
static const struct ron_json_field residual_fields[] = {
    RON_JSON_FIELD(struct residual_text, rule, STRING, .required = true),
    RON_JSON_FIELD(struct residual_text, to, STRING, .nullable = true, .max = RWD_ACCOUNT_MAX),
};
static const struct ron_json_shape residual_shape =
    RON_JSON_SHAPE(struct residual_text, residual_fields, present);

struct payouts_text {
    uint64_t count;
    struct ron_str cid;
    struct ron_str root;
    uint64_t present;
};
static const struct ron_json_field payouts_fields[] = {
    RON_JSON_FIELD(struct payouts_text, count, U64, .required = true, .max = UINT32_MAX),
    RON_JSON_FIELD(struct payouts_text, cid, STRING, .required = true),
    RON_JSON_FIELD(struct payouts_text, root, STRING, .required = true),
};
static const struct ron_json_shape payouts_shape =
    RON_JSON_SHAPE(struct payouts_text, payouts_fields, present);

struct attestation_text {
    struct ron_str key_id;
    struct ron_str sig_ed25519;
    struct ron_str public_key;
    uint64_t present;
};
static const struct ron_json_field attestation_fields[] = {
    RON_JSON_FIELD(struct attestation_text, key_id, STRING, .required = true,
                   .max = RWD_KEY_ID_MAX),
    RON_JSON_FIELD(struct attestation_text, sig_ed25519, STRING, .required = true),
    RON_JSON_FIELD(struct attestation_text, public_key, STRING, .required = true),
};
static const struct ron_json_shape attestation_shape =
    RON_JSON_SHAPE(struct attestation_text, attestation_fields, present);

struct manifest_text {
    uint64_t version;
    struct ron_str epoch_id;
    struct ron_str run_key;
    struct ron_str commitment;
    struct ron_str status;
    struct ron_str reason;
    struct ron_str inputs_cid;
    struct policy_text policy;
    struct ledger_text ledger;
    struct carry_text carry;
    struct totals_text totals;
    struct residual_text residual;
    struct payouts_text payouts;
    struct ron_str invariants; /* follow from the reason, so that writing again compares them */
    struct ron_str proof;
    struct attestation_text attestation;
    uint64_t present;
};
enum { LEDGER = 8, CARRY = 9, PAYOUTS = 12, ATTESTATION = 15 }; /* places in the table below */
static const struct ron_json_field manifest_fields[] = {
    RON_JSON_FIELD(struct manifest_text, version, U64, .required = true, .max = 1),
    RON_JSON_FIELD(struct manifest_text, epoch_id, STRING, .required = true, .max = RWD_EPOCH_MAX),
    RON_JSON_FIELD(struct manifest_text, run_key, STRING, .required = true),
    RON_JSON_FIELD(struct manifest_text, commitment, STRING, .required = true),
    RON_JSON_FIELD(struct manifest_text, status, STRING, .required = true),
    RON_JSON_FIELD(struct manifest_text, reason, STRING, .nullable = true),
    RON_JSON_FIELD(struct manifest_text, inputs_cid, STRING, .required = true),
    RON_JSON_FIELD(struct manifest_text, policy, OBJECT, .required = true, .shape = &policy_shape),
    [LEDGER] = RON_JSON_FIELD(struct manifest_text, ledger, OBJECT, .nullable = true,
                              .shape = &ledger_shape),
    [CARRY] = RON_JSON_FIELD(struct manifest_text, carry, OBJECT, .nullable = true,
                             .shape = &carry_shape),
    RON_JSON_FIELD(struct manifest_text, totals, OBJECT, .required = true, .shape = &totals_shape),
    RON_JSON_FIELD(struct manifest_text, residual, OBJECT, .required = true,
                   .shape = &residual_shape),
    [PAYOUTS] = RON_JSON_FIELD(struct manifest_text, payouts, OBJECT, .nullable = true,
                               .shape = &payouts_shape),
    RON_JSON_FIELD(struct manifest_text, invariants, RAW, .required = true),
    RON_JSON_FIELD(struct manifest_text, proof, RAW, .nullable = true),
    [ATTESTATION] = RON_JSON_FIELD(struct manifest_text, attestation, OBJECT, .nullable = true,
                                   .shape = &attestation_shape),
};
static const struct ron_json_shape manifest_shape =
    RON_JSON_SHAPE(struct manifest_text, manifest_fields, present);

struct slot_text {
    struct ron_str type;
    struct ron_str cid;
    struct ron_str scheme;
    uint64_t present;
};
static const struct ron_json_field slot_fields[] = {
    RON_JSON_FIELD(struct slot_text, type, STRING, .required = true, .max = 64),
    RON_JSON_FIELD(struct slot_text, cid, STRING, .required = true),
    RON_JSON_FIELD(struct slot_text, scheme, STRING, .required = true, .max = 64),
};
static const struct ron_json_shape slot_shape =
    RON_JSON_SHAPE(struct slot_text, slot_fields, present);

/* ---- values ---------------------------------------------------------------------------------- */

bool rwd__proof_slot_ok(struct ron_str json)
{
    char text[RWD_PROOF_SLOT_MAX];
    struct ron_json_error why;
    struct slot_text slot = {0};
    struct ron_b3 cid;

    if (json.len > sizeof text) {
        return false;
    }
    memcpy(text, json.ptr, json.len);
    return ron_json_scan(text, json.len, &slot_shape, NULL, &slot, &why) == RON_OK &&
           ron_b3_parse(slot.cid.ptr, slot.cid.len, &cid, NULL) == RON_OK;
}

static bool read_id(struct ron_str text, struct ron_b3 *ret_id)
{
    return ron_b3_parse(text.ptr, text.len, ret_id, NULL) == RON_OK;
}

static bool read_breach(struct ron_str label, enum rwd_breach *ret_breach)
{
    for (unsigned i = 0; i < RWD_BREACH_COUNT; i++) {
        if (ron_str_is(label, rwd_breach_label((enum rwd_breach)i))) {
            *ret_breach = (enum rwd_breach)i;
            return true;
        }
    }
    return false;
}

static bool read_funding(struct ron_str name, enum rwd_funding *ret_funding)
{
    for (unsigned i = 0; i < RWD_FUND_COUNT; i++) {
        if (ron_str_is(name, rwd_funding_name((enum rwd_funding)i))) {
            *ret_funding = (enum rwd_funding)i;
            return true;
        }
    }
    return false;
}

static bool read_residual(struct ron_str name, enum rwd_residual *ret_residual)
{
    for (unsigned i = 0; i <= RWD_RESIDUAL_CARRY; i++) {
        if (ron_str_is(name, rwd_residual_name((enum rwd_residual)i))) {
            *ret_residual = (enum rwd_residual)i;
            return true;
        }
    }
    return false;
}

static bool is_there(const struct manifest_text *t, unsigned field)
{
    return (t->present >> field & 1) != 0;
}

/* ---- parts: the name of the first one that is wrong, or NULL --------------------------------- */

static const char *take_names(const struct manifest_text *t, struct rwd_manifest *m)
{
    m->epoch = t->epoch_id;
    m->policy_id = t->policy.id;
    m->policy_version = t->policy.version;
    m->policy_signed = t->policy.signed_;
    m->status = ron_str_is(t->status, "ok") ? RWD_STATUS_OK : RWD_STATUS_QUARANTINED;
    return t->version != 1                                                  ? "version"
           : !rwd_epoch_ok(t->epoch_id)                                     ? "epoch_id"
           : !read_id(t->run_key, &m->run_key)                              ? "run_key"
           : !read_id(t->commitment, &m->commitment)                        ? "commitment"
           : !read_breach(t->reason, &m->breach)                            ? "reason"
           : (m->status == RWD_STATUS_OK) != (m->breach == RWD_BREACH_NONE) ? "status"
           : !read_id(t->inputs_cid, &m->inputs_cid)                        ? "inputs_cid"
           : !rwd_policy_id_ok(t->policy.id)                                ? "policy.id"
           : !read_id(t->policy.hash, &m->policy_hash)                      ? "policy.hash"
           : !read_funding(t->policy.funding_source, &m->funding) ? "policy.funding_source"
                                                                  : NULL;
}

static const char *take_origins(const struct manifest_text *t, struct rwd_manifest *m)
{
    m->has_ledger = is_there(t, LEDGER);
    if (m->has_ledger) {
        m->ledger_seq = t->ledger.seq;
        if (!ron_unhex(t->ledger.root, RON_HEX_LOWER, m->ledger_root.bytes, RON_TREE_HASH_BYTES)) {
            return "ledger.root";
        }
    }
    if (is_there(t, CARRY)) {
        m->carry_epoch = t->carry.epoch_id;
        m->carry_in = t->carry.minor_units;
        if (!rwd_epoch_ok(t->carry.epoch_id)) {
            return "carry.epoch_id";
        }
        if (!read_id(t->carry.commitment, &m->carry_commitment)) {
            return "carry.commitment";
        }
    }
    return NULL;
}

static const char *take_outcome(const struct manifest_text *t, struct rwd_manifest *m)
{
    const struct totals_text *n = &t->totals;

    m->totals = (struct rwd_totals){.offered = n->offered_minor_units,
                                    .cut = n->cut_minor_units,
                                    .pool = n->pool_minor_units,
                                    .paid = n->payout_minor_units,
                                    .residual = n->residual_minor_units,
                                    .dust = n->dust_minor_units,
                                    .capped = n->capped_minor_units,
                                    .paid_accounts = n->accounts,
                                    .idle_accounts = n->idle};
    m->sink = t->residual.to;
    if (!read_residual(t->residual.rule, &m->residual)) {
        return "residual.rule";
    }
    if (m->sink.len > 0 && !rwd_account_ok(m->sink)) {
        return "residual.to";
    }
    if (is_there(t, PAYOUTS) != (m->status == RWD_STATUS_OK)) {
        return "payouts";
    }
    if (m->status == RWD_STATUS_OK) {
        m->payouts.count = t->payouts.count;
        m->payouts.total = m->totals.paid;
        if (!read_id(t->payouts.cid, &m->payouts.cid)) {
            return "payouts.cid";
        }
        if (!ron_unhex(t->payouts.root, RON_HEX_LOWER, m->payouts.root.bytes,
                       RON_TREE_HASH_BYTES)) {
            return "payouts.root";
        }
    }
    return NULL;
}

static const char *take_attestation(const struct manifest_text *t, struct rwd_manifest *m)
{
    const struct attestation_text *a = &t->attestation;

    m->proof = t->proof;
    if (m->proof.len > 0 && !rwd__proof_slot_ok(m->proof)) {
        return "proof";
    }
    if (!is_there(t, ATTESTATION)) {
        return NULL;
    }
    if (!rwd_policy_id_ok(a->key_id)) {
        return "attestation.key_id";
    }
    memcpy(m->key_id, a->key_id.ptr, a->key_id.len);
    return !ron_unhex(a->sig_ed25519, RON_HEX_LOWER, m->sig, sizeof m->sig)
               ? "attestation.sig_ed25519"
           : !ron_unhex(a->public_key, RON_HEX_LOWER, m->public_key, sizeof m->public_key)
               ? "attestation.public_key"
               : NULL;
}

/* M4: by hash, as scanning may have changed the text. */
static enum ron_rc same_again(const struct rwd_manifest *m, const struct ron_b3 *was,
                              struct ron_err *err)
{
    char memory[RWD_MANIFEST_MAX + 1];
    struct ron_b3 is = {0};
    struct ron_buf out;

    ron_buf_init_over(&out, memory, sizeof memory);
    RON_IGNORE(rwd_manifest_write(m, &out)); /* cut short, it has another hash */
    ron_b3_hash(ron_buf_data(&out), ron_buf_len(&out), &is);
    return ron_b3_equal(&is, was)
               ? RON_OK
               : ron_err_set(err, RON_INVALID, "the manifest is not in its one spelling");
}

enum ron_rc rwd_manifest_read(char *text, size_t len, struct rwd_manifest *ret_m,
                              struct ron_err *err)
{
    struct manifest_text t = {0};
    struct rwd_manifest m = {0};
    struct ron_json_error why;
    struct ron_b3 was;
    struct ron_b3 said;
    const char *wrong;

    if (len > RWD_MANIFEST_MAX) {
        return ron_err_set(err, RON_INVALID, "a manifest has at most %d bytes",
                           (int)RWD_MANIFEST_MAX);
    }
    ron_b3_hash(text, len, &was);
    if (ron_json_scan(text, len, &manifest_shape, NULL, &t, &why) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "the manifest: %s: %s", why.field, why.reason);
    }
    wrong = take_names(&t, &m);
    wrong = wrong != NULL ? wrong : take_origins(&t, &m);
    wrong = wrong != NULL ? wrong : take_outcome(&t, &m);
    wrong = wrong != NULL ? wrong : take_attestation(&t, &m);
    if (wrong != NULL) {
        return ron_err_set(err, RON_INVALID, "the manifest: %s is not well formed", wrong);
    }
    RON_TRY(same_again(&m, &was, err));
    said = m.commitment;
    RON_TRY(rwd_manifest_commit(&m, err));
    if (!ron_b3_equal(&said, &m.commitment)) {
        return ron_err_set(err, RON_CORRUPT, "the commitment is not that of the manifest");
    }
    *ret_m = m;
    return RON_OK;
}
