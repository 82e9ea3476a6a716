/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/offline/docs.c - the tools for one document at a time: proofs, keys, policies,
 * snapshots. */
#include <inttypes.h>

#include "rewarder/offline/priv.h"
#include "rewarder/run/manifest.h"
#include "ron/base/hex.h"
#include "ron/base/secret.h"
#include "ron/io/linux_env.h"
#include "ron/merkle/note_key.h"

/* ---- proofs ---------------------------------------------------------------------------------- */

enum ron_rc rwd_tool_prove(const char *run_dir, const char *account, struct ron_buf *out,
                           struct ron_err *err)
{
    const struct ron_env *env = ron_env_linux();
    struct rwd_payouts *payouts = NULL;
    struct rwd_manifest m;
    struct ron_buf text;
    uint64_t index = 0;
    enum ron_rc rc;

    ron_buf_init(&text, RWD_MANIFEST_MAX);
    rc = rwd_run_load(env, run_dir, &text, &m, err);
    if (rc == RON_OK) {
        rc = rwd_payouts_open(env, run_dir, &payouts, err);
    }
    if (rc == RON_OK) {
        rc = rwd_payouts_find(payouts, ron_str_of(account), &index, err);
    }
    if (rc == RON_OK) {
        rc = rwd_payouts_prove(
            payouts, index,
            (struct ron_str){.ptr = (const char *)ron_buf_data(&text), .len = ron_buf_len(&text)},
            out, err);
    }
    if (rc == RON_OK) {
        rc = ron_buf_append_byte(out, '\n');
    }
    rwd_payouts_close(payouts);
    ron_buf_done(&text);
    return rc;
}

static enum ron_rc check_text(struct ron_buf *text, const char *name, const uint8_t *public_key,
                              struct ron_buf *out, struct ron_err *err)
{
    char *bytes = (char *)(uintptr_t)ron_buf_data(text);
    size_t len = ron_buf_len(text);
    char amount[RON_MONEY_TEXT_SIZE];
    struct rwd_proof_word word;
    enum ron_rc rc;

    len -= len > 0 && bytes[len - 1] == '\n';
    rc = rwd_proof_check(bytes, len, public_key, &word, err);
    if (rc != RON_OK) {
        if (err != NULL) {
            ron_err_prefix(err, "%s", name);
        }
        return rc;
    }
    (void)ron_money_format(word.payout.amount, amount);
    ron_buf_append_fmt(out, "%-11s %.*s\n%-11s %s\n%-11s %" PRIu64 " of %" PRIu64 "\n", "account",
                       (int)word.payout.account.len, word.payout.account.ptr, "amount", amount,
                       "payout", word.index + 1, word.manifest.payouts.count);
    rwd__tool_tell(&word.manifest, out);
    return ron_buf_error(out);
}

enum ron_rc rwd_tool_check_proof(const struct rwd_tool_in *in, const char *public_key,
                                 struct ron_buf *out, struct ron_err *err)
{
    uint8_t key[RWD_SIGN_KEY_BYTES];
    struct ron_buf text;
    enum ron_rc rc;

    if (public_key != NULL) {
        RON_TRY(rwd__tool_hex(public_key, "--public-key", key, err));
    }
    ron_buf_init(&text, RWD_PROOF_TEXT_MAX + 1);
    rc = rwd__tool_text(in, &text, err);
    if (rc == RON_OK) {
        rc = check_text(&text, in->name, public_key == NULL ? NULL : key, out, err);
    }
    ron_buf_done(&text);
    return rc;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static enum ron_rc tell_key(const struct ron_note_signer *signer, struct ron_buf *out)
{
    char hex[RWD__HEX_SIZE];

    ron_hex(signer->key.public_key, sizeof signer->key.public_key, hex);
    return ron_buf_append_fmt(out, "%-11s %s\n%-11s %s\n", "key id", signer->key.name, "public key",
                              hex);
}

enum ron_rc rwd_tool_key_new(const char *path, const char *key_id, struct ron_buf *out,
                             struct ron_err *err)
{
    const struct ron_env *env = ron_env_linux();
    struct ron_note_signer signer = {0};
    struct ron_file_stat st;
    enum ron_rc rc;

    if (strlen(key_id) > RWD_KEY_ID_MAX || !rwd_policy_id_ok(ron_str_of(key_id))) {
        return ron_err_set(err, RON_INVALID, "a key id has 1 to %d of A-Z a-z 0-9 _ . : -",
                           (int)RWD_KEY_ID_MAX);
    }
    /* A key that is lost is lost for good: what stands there is somebody's. */
    if (env->disk->stat_link(env, path, &st) != RON_NOTFOUND) {
        return ron_err_set(err, RON_EXISTS, "%s is there already", path);
    }
    RON_TRY(ron_note_signer_new(env, ron_str_of(key_id), &signer, err));
    rc = ron_note_signer_save(env, path, &signer, err);
    if (rc == RON_OK) {
        rc = tell_key(&signer, out);
    }
    ron_note_signer_done(&signer);
    return rc;
}

enum ron_rc rwd_tool_key_show(const char *path, struct ron_buf *out, struct ron_err *err)
{
    struct ron_note_signer signer = {0};
    enum ron_rc rc = ron_note_signer_load(ron_env_linux(), path, &signer, err);

    if (rc == RON_OK) {
        rc = tell_key(&signer, out);
    }
    ron_note_signer_done(&signer);
    return rc;
}

/* ---- policies -------------------------------------------------------------------------------- */

static enum ron_rc sign_text(const struct ron_buf *text, const struct rwd_attester *key,
                             struct ron_buf *out, struct ron_err *err)
{
    struct rwd_policy_doc *doc = NULL;
    enum ron_rc rc = rwd_policy_draft(ron_buf_data(text), ron_buf_len(text), &doc, err);

    if (rc == RON_OK) {
        rc = rwd_policy_sign(doc, key->key_id, key->seed, err);
    }
    if (rc == RON_OK) {
        rc = rwd_policy_write(doc, out);
    }
    if (rc == RON_OK) {
        rc = ron_buf_append_byte(out, '\n');
    }
    rwd_policy_free(doc);
    return rc;
}

enum ron_rc rwd_tool_policy_sign(const struct rwd_tool_in *in, const char *key_file,
                                 const char *key_id, struct ron_buf *out, struct ron_err *err)
{
    struct rwd_attester key = {.key_id = ""};
    struct ron_buf text;
    enum ron_rc rc;

    if (key_id != NULL && strlen(key_id) > RWD_KEY_ID_MAX) {
        return ron_err_set(err, RON_INVALID, "a key id has at most %d bytes", (int)RWD_KEY_ID_MAX);
    }
    RON_TRY(rwd__tool_attester(key_file, &key, err));
    if (key_id != NULL) {
        memcpy(key.key_id, key_id, strlen(key_id) + 1);
    }
    ron_buf_init(&text, RWD_POLICY_TEXT_MAX);
    rc = rwd__tool_text(in, &text, err);
    if (rc == RON_OK) {
        rc = sign_text(&text, &key, out, err);
        if (rc != RON_OK && err != NULL) {
            ron_err_prefix(err, "%s", in->name);
        }
    }
    ron_wipe(&key, sizeof key);
    ron_buf_done(&text);
    return rc;
}

static void tell_text(struct ron_buf *out, const char *name, struct ron_str text)
{
    if (text.len > 0) {
        ron_buf_append_fmt(out, "%-16s %.*s\n", name, (int)text.len, text.ptr);
    }
}

static void tell_money(struct ron_buf *out, const char *name, struct ron_money money)
{
    char text[RON_MONEY_TEXT_SIZE];

    (void)ron_money_format(money, text);
    ron_buf_append_fmt(out, "%-16s %s\n", name, text);
}

static void tell_fraction(struct ron_buf *out, const char *name, struct rwd_fraction f)
{
    ron_buf_append_fmt(out, "%-16s %" PRIu64 "/%" PRIu64 "\n", name, f.num, f.den);
}

static void tell_emission(struct ron_buf *out, const struct rwd_policy *p)
{
    if (p->emission == RWD_EMIT_NONE) {
        return;
    }
    tell_money(out, p->emission == RWD_EMIT_HALVING ? "emission halving" : "emission",
               p->emission_base);
    ron_buf_append_fmt(out, "%-16s %" PRIu64 " ms\n%-16s %" PRIu64 " ms\n", "  from",
                       p->emission_start_ms, "  epoch", p->emission_epoch_ms);
    if (p->emission == RWD_EMIT_HALVING) {
        ron_buf_append_fmt(out, "%-16s %" PRIu64 " epochs\n", "  period", p->emission_period);
    }
}

static void tell_policy(struct ron_buf *out, const struct rwd_policy *p)
{
    char hash[RON_B3_ID_SIZE];

    ron_b3_format(&p->hash, hash);
    ron_buf_append_fmt(out, "%-16s %s\n", "hash", hash);
    tell_text(out, "id", p->id);
    ron_buf_append_fmt(out, "%-16s %" PRIu64 "\n", "version", p->version);
    ron_buf_append_fmt(out, "%-16s %s\n", "funding source", rwd_funding_name(p->funding));
    tell_text(out, "funding account", p->funding_account);
    tell_text(out, "asset", p->asset);
    tell_money(out, "max", p->max);
    tell_money(out, "min", p->min);
    ron_buf_append_fmt(out, "%-16s %u\n", "weight bps", (unsigned)p->weight_bps);
    tell_fraction(out, "bytes stored", p->stored);
    tell_fraction(out, "bytes served", p->served);
    tell_fraction(out, "uptime seconds", p->uptime);
    ron_buf_append_fmt(out, "%-16s %s\n", "rounding",
                       p->rounding == RWD_ROUND_FLOOR ? "floor" : "largest_remainder");
    ron_buf_append_fmt(out, "%-16s %s\n", "residual", rwd_residual_name(p->residual));
    tell_text(out, "sink", p->sink);
    if (p->has_actor_cap) {
        tell_money(out, "actor cap", p->actor_cap);
    }
    for (uint32_t i = 0; i < p->category_count; i++) {
        char cap[RON_MONEY_TEXT_SIZE];

        (void)ron_money_format(p->categories[i].cap, cap);
        ron_buf_append_fmt(out, "%-16s %.*s at most %s\n", "category",
                           (int)p->categories[i].prefix.len, p->categories[i].prefix.ptr, cap);
    }
    tell_emission(out, p);
}

/* A signed document without its signature. */
struct outer {
    struct ron_str policy;
    struct ron_str key_id;
    struct ron_str sig_ed25519;
    uint64_t present;
};
static const struct ron_json_field outer_fields[] = {
    RON_JSON_FIELD(struct outer, policy, RAW, .required = true),
    RON_JSON_FIELD(struct outer, key_id, STRING, .required = true, .max = RWD_KEY_ID_MAX),
    RON_JSON_FIELD(struct outer, sig_ed25519, STRING, .required = true),
};
static const struct ron_json_shape outer_shape =
    RON_JSON_SHAPE(struct outer, outer_fields, present);

static enum ron_rc show_text(struct ron_buf *text, const struct rwd_policy_key *key,
                             struct ron_buf *out, struct ron_err *err)
{
    char *bytes = (char *)(uintptr_t)ron_buf_data(text);
    size_t len = ron_buf_len(text);
    struct rwd_policy_doc *doc = NULL;
    struct ron_json_error why;
    struct outer outer = {0};
    const struct rwd_policy *p;

    if (key != NULL) {
        RON_TRY(rwd_policy_read(bytes, len, key, 1, &doc, err));
    } else if (rwd_policy_draft(bytes, len, &doc, err) != RON_OK) {
        struct ron_err as_bare = err == NULL ? (struct ron_err){0} : *err;

        if (ron_json_scan(bytes, len, &outer_shape, NULL, &outer, &why) != RON_OK) {
            return ron_err_set(err, RON_INVALID, "%s", as_bare.msg);
        }
        RON_TRY(rwd_policy_draft(outer.policy.ptr, outer.policy.len, &doc, err));
    }
    p = rwd_policy_of(doc);
    tell_policy(out, p);
    if (outer.present != 0) {
        ron_buf_append_fmt(out, "%-16s %.*s, not checked: --policy-key was not given\n",
                           "signed by", (int)outer.key_id.len, outer.key_id.ptr);
    } else {
        ron_buf_append_fmt(out, "%-16s %s\n", "signed by", p->is_signed ? p->key_id : "nobody");
    }
    rwd_policy_free(doc);
    return ron_buf_error(out);
}

enum ron_rc rwd_tool_policy_show(const struct rwd_tool_in *in, const char *policy_key,
                                 struct ron_buf *out, struct ron_err *err)
{
    struct rwd_policy_key key;
    struct ron_buf text;
    enum ron_rc rc;

    if (policy_key != NULL) {
        RON_TRY(rwd__tool_policy_key(policy_key, &key, err));
    }
    ron_buf_init(&text, RWD_POLICY_TEXT_MAX);
    rc = rwd__tool_text(in, &text, err);
    if (rc == RON_OK) {
        rc = show_text(&text, policy_key == NULL ? NULL : &key, out, err);
        if (rc != RON_OK && err != NULL) {
            ron_err_prefix(err, "%s", in->name);
        }
    }
    ron_buf_done(&text);
    return rc;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

enum ron_rc rwd_tool_snapshot(const struct rwd_tool_in *in, rwd_tool_write_fn *write, void *arg,
                              struct ron_buf *out, struct ron_err *err)
{
    struct rwd_snapshot snapshot;
    char cid[RON_B3_ID_SIZE];
    enum ron_rc rc;

    RON_TRY(rwd__tool_snapshot(in, NULL, &snapshot, err));
    rc = rwd_snapshot_write(&snapshot, write, arg, err);
    if (rc == RON_OK) {
        ron_b3_format(&snapshot.cid, cid);
        rc = ron_buf_append_fmt(out, "%s, %" PRIu64 " rows\n", cid, rwd_rows_count(snapshot.rows));
    }
    rwd_snapshot_done(&snapshot);
    return rc;
}
