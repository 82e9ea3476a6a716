/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/run/proof.c - a payee's proof as text: written, and checked with nothing else in hand.
 *
 * What is proven: the line of the payee is a leaf of the tree whose root stands in the manifest;
 * the manifest has the commitment it names; the attestation, where there is one, signs that
 * commitment. As with the manifest, a proof has one spelling, and anything else is refused. */
#include <string.h>

#include "rewarder/run/manifest_priv.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"

struct proof_text {
    uint64_t v;
    struct ron_str epoch_id;
    struct ron_str run_key;
    struct ron_str commitment;
    struct ron_str account;
    struct ron_money amount_minor_units;
    struct ron_money score;
    uint64_t index;
    uint64_t count;
    struct ron_str root;
    struct ron_json_items hashes;
    struct ron_str manifest;
    uint64_t present;
};
static const struct ron_json_field fields[] = {
    RON_JSON_FIELD(struct proof_text, v, U64, .required = true, .max = 1),
    RON_JSON_FIELD(struct proof_text, epoch_id, STRING, .required = true, .max = RWD_EPOCH_MAX),
    RON_JSON_FIELD(struct proof_text, run_key, STRING, .required = true),
    RON_JSON_FIELD(struct proof_text, commitment, STRING, .required = true),
    RON_JSON_FIELD(struct proof_text, account, STRING, .required = true, .max = RWD_ACCOUNT_MAX),
    RON_JSON_FIELD(struct proof_text, amount_minor_units, MONEY, .required = true),
    RON_JSON_FIELD(struct proof_text, score, MONEY, .required = true),
    RON_JSON_FIELD(struct proof_text, index, U64, .required = true),
    RON_JSON_FIELD(struct proof_text, count, U64, .required = true),
    RON_JSON_FIELD(struct proof_text, root, STRING, .required = true),
    RON_JSON_FIELD(struct proof_text, hashes, STRINGS, .required = true, .max = RON_PROOF_MAX),
    RON_JSON_FIELD(struct proof_text, manifest, RAW, .required = true),
};
static const struct ron_json_shape shape = RON_JSON_SHAPE(struct proof_text, fields, present);

static void put_id(struct ron_json_writer *w, const char *name, const struct ron_b3 *id)
{
    char text[RON_B3_ID_SIZE];

    ron_b3_format(id, text);
    ron_json_text(w, name, text);
}

static void put_hash(struct ron_json_writer *w, const char *name, const struct ron_tree_hash *hash)
{
    char text[RWD__HEX_SIZE];

    ron_hex(hash->bytes, sizeof hash->bytes, text);
    ron_json_text(w, name, text);
}

enum ron_rc rwd__proof_write(const struct rwd_proof_word *word, const struct ron_proof *proof,
                             struct ron_str manifest, struct ron_buf *out)
{
    const struct rwd_manifest *m = &word->manifest;
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_u64(&w, "v", 1);
    ron_json_str(&w, "epoch_id", m->epoch);
    put_id(&w, "run_key", &m->run_key);
    put_id(&w, "commitment", &m->commitment);
    ron_json_str(&w, "account", word->payout.account);
    ron_json_money(&w, "amount_minor_units", word->payout.amount);
    ron_json_money(&w, "score", (struct ron_money){.v = word->payout.score});
    ron_json_u64(&w, "index", word->index);
    ron_json_u64(&w, "count", m->payouts.count);
    put_hash(&w, "root", &m->payouts.root);
    ron_json_open(&w, "hashes", '[');
    for (size_t i = 0; i < proof->count; i++) {
        put_hash(&w, NULL, &proof->hashes[i]);
    }
    ron_json_close(&w, ']');
    ron_json_raw(&w, "manifest", manifest);
    ron_json_close(&w, '}');
    return ron_buf_error(out);
}

static enum ron_rc take_hashes(const struct proof_text *t, struct ron_proof *ret_proof,
                               struct ron_err *err)
{
    const struct ron_str *texts = t->hashes.items;

    ret_proof->count = t->hashes.count;
    for (size_t i = 0; i < t->hashes.count; i++) {
        if (!ron_unhex(texts[i], RON_HEX_LOWER, ret_proof->hashes[i].bytes, RON_TREE_HASH_BYTES)) {
            return ron_err_set(err, RON_INVALID, "hashes[%zu] is not 64 lowercase digits", i);
        }
    }
    return RON_OK;
}

/* Epoch, run key, commitment, count and root are said twice, for who looks; both must agree, and
 * the whole must be in its one spelling. Writing the proof from its manifest shows both. */
static enum ron_rc same_again(const struct rwd_proof_word *word, const struct ron_proof *proof,
                              struct ron_str manifest, const struct ron_b3 *was,
                              struct ron_err *err)
{
    char memory[RWD_PROOF_TEXT_MAX + 1];
    struct ron_b3 is;
    struct ron_buf out;

    ron_buf_init_over(&out, memory, sizeof memory);
    if (rwd__proof_write(word, proof, manifest, &out) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "the proof is too long");
    }
    ron_b3_hash(ron_buf_data(&out), ron_buf_len(&out), &is);
    return ron_b3_equal(&is, was) ? RON_OK
                                  : ron_err_set(err, RON_CORRUPT,
                                                "the proof differs from its manifest, or is not in "
                                                "its one spelling");
}

static enum ron_rc check_leaf(const struct rwd_proof_word *word, const struct ron_proof *proof,
                              struct ron_err *err)
{
    const struct rwd_manifest *m = &word->manifest;
    char line[RWD_LINE_MAX];
    struct ron_tree_hash leaf;

    ron_tree_hash_leaf(line, rwd_payout_line(&word->payout, line), &leaf);
    if (m->status != RWD_STATUS_OK ||
        !ron_proof_includes(proof->hashes, proof->count, word->index, m->payouts.count, &leaf,
                            &m->payouts.root)) {
        return ron_err_set(err, RON_CORRUPT, "the hashes do not lead from the payout to the root");
    }
    return RON_OK;
}

static enum ron_rc check_attestation(const struct rwd_manifest *m, const uint8_t *public_key,
                                     struct ron_err *err)
{
    if (m->key_id[0] == '\0') {
        return public_key == NULL ? RON_OK
                                  : ron_err_set(err, RON_DENIED, "the manifest has no attestation");
    }
    return rwd_manifest_attested(m, public_key)
               ? RON_OK
               : ron_err_set(err, RON_DENIED, "the attestation is not good%s",
                             public_key == NULL ? "" : ", or of another key");
}

enum ron_rc rwd_proof_check(char *text, size_t len, const uint8_t public_key[RWD_SIGN_KEY_BYTES],
                            struct rwd_proof_word *ret_word, struct ron_err *err)
{
    _Alignas(16) uint8_t memory[(RON_PROOF_MAX + 1) * sizeof(struct ron_str)]; /* of hashes */
    struct proof_text t = {0};
    struct rwd_proof_word word = {0};
    struct ron_proof proof = {0};
    struct ron_json_error why;
    struct ron_arena arena;
    struct ron_b3 was;

    if (len > RWD_PROOF_TEXT_MAX) {
        return ron_err_set(err, RON_INVALID, "a proof has at most %d bytes",
                           (int)RWD_PROOF_TEXT_MAX);
    }
    ron_b3_hash(text, len, &was);
    ron_arena_init_over(&arena, memory, sizeof memory);
    if (ron_json_scan(text, len, &shape, &arena, &t, &why) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "the proof: %s: %s", why.field, why.reason);
    }
    if (t.v != 1 || !rwd_account_ok(t.account)) {
        return ron_err_set(err, RON_INVALID, "the proof: %s is not well formed",
                           t.v != 1 ? "v" : "account");
    }
    RON_TRY(take_hashes(&t, &proof, err));
    RON_TRY(
        rwd_manifest_read((char *)(uintptr_t)t.manifest.ptr, t.manifest.len, &word.manifest, err));
    word.payout = (struct rwd_payout){
        .account = t.account, .amount = t.amount_minor_units, .score = t.score.v};
    word.index = t.index;
    RON_TRY(same_again(&word, &proof, t.manifest, &was, err));
    RON_TRY(check_leaf(&word, &proof, err));
    RON_TRY(check_attestation(&word.manifest, public_key, err));
    *ret_word = word;
    return RON_OK;
}
