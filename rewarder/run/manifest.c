/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/manifest.c - writing run.json, its commitment and its attestation. The order of the
 * calls here is the order of the members (docs/formats/rewarder.md). */
#include <sodium.h>
#include <string.h>

#include "rewarder/run/manifest_priv.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/base/secret.h"
#include "ron/base/str.h"

#define COMMIT_PREFIX "ron-reward-run/1\n"
#define ATTEST_PREFIX "ron-reward-commitment/1\n"

_Static_assert(RWD_SIGN_KEY_BYTES == crypto_sign_SEEDBYTES, "an Ed25519 seed");
_Static_assert(RWD_SIGN_KEY_BYTES == crypto_sign_PUBLICKEYBYTES, "an Ed25519 public key");
_Static_assert(RWD_SIG_BYTES == crypto_sign_BYTES, "an Ed25519 signature");

static void put_id(struct ron_json_writer *w, const char *name, const struct ron_b3 *id)
{
    char text[RON_B3_ID_SIZE];

    ron_b3_format(id, text);
    ron_json_text(w, name, text);
}

static void put_hex(struct ron_json_writer *w, const char *name, const uint8_t *bytes, size_t size)
{
    char text[RWD__SIG_HEX_SIZE];

    RON_ASSERT(2 * size < sizeof text);
    ron_hex(bytes, size, text);
    ron_json_text(w, name, text);
}

static void put_policy(struct ron_json_writer *w, const struct rwd_manifest *m)
{
    ron_json_open(w, "policy", '{');
    ron_json_str(w, "id", m->policy_id);
    ron_json_u64(w, "version", m->policy_version);
    put_id(w, "hash", &m->policy_hash);
    ron_json_bool(w, "signed", m->policy_signed);
    ron_json_text(w, "funding_source", rwd_funding_name(m->funding));
    ron_json_close(w, '}');
}

static void put_origins(struct ron_json_writer *w, const struct rwd_manifest *m)
{
    if (m->has_ledger) {
        ron_json_open(w, "ledger", '{');
        put_hex(w, "root", m->ledger_root.bytes, RON_TREE_HASH_BYTES);
        ron_json_u64(w, "seq", m->ledger_seq);
        ron_json_close(w, '}');
    } else {
        ron_json_null(w, "ledger");
    }
    if (m->carry_epoch.len > 0) {
        ron_json_open(w, "carry", '{');
        ron_json_str(w, "epoch_id", m->carry_epoch);
        put_id(w, "commitment", &m->carry_commitment);
        ron_json_money(w, "minor_units", m->carry_in);
        ron_json_close(w, '}');
    } else {
        ron_json_null(w, "carry");
    }
}

static void put_totals(struct ron_json_writer *w, const struct rwd_totals *t)
{
    ron_json_open(w, "totals", '{');
    ron_json_money(w, "offered_minor_units", t->offered);
    ron_json_money(w, "cut_minor_units", t->cut);
    ron_json_money(w, "pool_minor_units", t->pool);
    ron_json_money(w, "payout_minor_units", t->paid);
    ron_json_money(w, "residual_minor_units", t->residual);
    ron_json_money(w, "dust_minor_units", t->dust);
    ron_json_money(w, "capped_minor_units", t->capped);
    ron_json_u64(w, "accounts", t->paid_accounts);
    ron_json_u64(w, "idle", t->idle_accounts);
    ron_json_close(w, '}');
}

/* Conservation in the wide sense: what is paid, to whom and in which order is what the rules say.
 * `overflow` and `negative` tell whether that happened. */
static void put_invariants(struct ron_json_writer *w, enum rwd_breach b)
{
    bool shared_wrongly = b == RWD_BREACH_CONSERVATION || b == RWD_BREACH_DUST_POLICY ||
                          b == RWD_BREACH_CAP || b == RWD_BREACH_ORDER;

    ron_json_open(w, "invariants", '{');
    ron_json_bool(w, "conservation", !shared_wrongly);
    ron_json_bool(w, "overflow", b == RWD_BREACH_OVERFLOW);
    ron_json_bool(w, "negative", b == RWD_BREACH_NEGATIVE);
    ron_json_bool(w, "idempotent", b != RWD_BREACH_IDEMPOTENCY);
    ron_json_close(w, '}');
}

static void put_outcome(struct ron_json_writer *w, const struct rwd_manifest *m)
{
    put_totals(w, &m->totals);
    ron_json_open(w, "residual", '{');
    ron_json_text(w, "rule", rwd_residual_name(m->residual));
    if (m->sink.len > 0) {
        ron_json_str(w, "to", m->sink);
    } else {
        ron_json_null(w, "to");
    }
    ron_json_close(w, '}');
    if (m->status == RWD_STATUS_OK) {
        ron_json_open(w, "payouts", '{');
        ron_json_u64(w, "count", m->payouts.count);
        put_id(w, "cid", &m->payouts.cid);
        put_hex(w, "root", m->payouts.root.bytes, RON_TREE_HASH_BYTES);
        ron_json_close(w, '}');
    } else {
        ron_json_null(w, "payouts");
    }
    put_invariants(w, m->breach);
}

static void put_attestation(struct ron_json_writer *w, const struct rwd_manifest *m)
{
    if (m->proof.len > 0) {
        ron_json_raw(w, "proof", m->proof);
    } else {
        ron_json_null(w, "proof");
    }
    if (m->key_id[0] == '\0') {
        ron_json_null(w, "attestation");
        return;
    }
    ron_json_open(w, "attestation", '{');
    ron_json_text(w, "key_id", m->key_id);
    put_hex(w, "sig_ed25519", m->sig, sizeof m->sig);
    put_hex(w, "public_key", m->public_key, sizeof m->public_key);
    ron_json_close(w, '}');
}

/* `whole` false: what is committed (M1). */
static enum ron_rc put_manifest(const struct rwd_manifest *m, bool whole, struct ron_buf *out)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "version", 1);
    ron_json_str(&w, "epoch_id", m->epoch);
    put_id(&w, "run_key", &m->run_key);
    if (whole) {
        put_id(&w, "commitment", &m->commitment);
    }
    ron_json_text(&w, "status", m->status == RWD_STATUS_OK ? "ok" : "quarantined");
    ron_json_text(&w, "reason", m->breach == RWD_BREACH_NONE ? NULL : rwd_breach_label(m->breach));
    put_id(&w, "inputs_cid", &m->inputs_cid);
    put_policy(&w, m);
    put_origins(&w, m);
    put_outcome(&w, m);
    if (whole) {
        put_attestation(&w, m);
    }
    ron_json_close(&w, '}');
    return ron_buf_error(out);
}

enum ron_rc rwd_manifest_write(const struct rwd_manifest *m, struct ron_buf *out)
{
    RON_ASSERT(m->proof.len == 0 || rwd__proof_slot_ok(m->proof));
    return put_manifest(m, true, out);
}

enum ron_rc rwd_manifest_commit(struct rwd_manifest *m, struct ron_err *err)
{
    char memory[sizeof COMMIT_PREFIX + RWD_MANIFEST_MAX];
    struct ron_buf out;

    ron_buf_init_over(&out, memory, sizeof memory);
    ron_buf_append_text(&out, COMMIT_PREFIX);
    if (put_manifest(m, false, &out) != RON_OK) {
        return ron_err_set(err, RON_LIMIT, "the manifest is longer than %d bytes",
                           (int)RWD_MANIFEST_MAX);
    }
    ron_b3_hash(ron_buf_data(&out), ron_buf_len(&out), &m->commitment);
    return RON_OK;
}

/* ---- attestation (M2) ------------------------------------------------------------------------ */

enum { ATTEST_TEXT_SIZE = sizeof ATTEST_PREFIX + RWD_KEY_ID_MAX + 1 + RON_B3_ID_SIZE };

static size_t attest_text(const struct rwd_manifest *m, char text[ATTEST_TEXT_SIZE])
{
    char id[RON_B3_ID_SIZE];
    struct ron_buf out;

    ron_b3_format(&m->commitment, id);
    ron_buf_init_over(&out, text, ATTEST_TEXT_SIZE);
    ron_buf_append_text(&out, ATTEST_PREFIX);
    ron_buf_append_text(&out, m->key_id);
    ron_buf_append_byte(&out, '\n');
    ron_buf_append_text(&out, id);
    RON_ASSERT(ron_buf_error(&out) == RON_OK);
    return ron_buf_len(&out);
}

enum ron_rc rwd_manifest_attest(struct rwd_manifest *m, const char *key_id,
                                const uint8_t seed[RWD_SIGN_KEY_BYTES], struct ron_err *err)
{
    uint8_t secret[crypto_sign_SECRETKEYBYTES];
    char text[ATTEST_TEXT_SIZE];
    size_t len;

    if (strlen(key_id) > RWD_KEY_ID_MAX || !rwd_policy_id_ok(ron_str_of(key_id))) {
        return ron_err_set(err, RON_INVALID, "a key id has 1 to %d of A-Z a-z 0-9 _ . : -",
                           (int)RWD_KEY_ID_MAX);
    }
    RON_ASSERT(sodium_init() >= 0); /* fails only without randomness; later calls return at once */
    memcpy(m->key_id, key_id, strlen(key_id) + 1);
    (void)crypto_sign_seed_keypair(m->public_key, secret, seed);
    len = attest_text(m, text);
    (void)crypto_sign_detached(m->sig, NULL, (const unsigned char *)text, len, secret);
    ron_wipe(secret, sizeof secret);
    return RON_OK;
}

bool rwd_manifest_attested(const struct rwd_manifest *m,
                           const uint8_t public_key[RWD_SIGN_KEY_BYTES])
{
    char text[ATTEST_TEXT_SIZE];
    size_t len;

    if (m->key_id[0] == '\0' ||
        (public_key != NULL && memcmp(public_key, m->public_key, RWD_SIGN_KEY_BYTES) != 0)) {
        return false;
    }
    RON_ASSERT(sodium_init() >= 0);
    len = attest_text(m, text);
    return crypto_sign_verify_detached(m->sig, (const unsigned char *)text, len, m->public_key) ==
           0;
}
