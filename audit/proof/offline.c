/* SPDX-License-Identifier: Apache-2.0 */
/* audit/proof/offline.c - checking a receipt; the contract is in offline.h. */
#include "audit/proof/offline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/alloc.h"
#include "ron/io/file.h"

enum { JSON_MAX = 65536 }; /* an entry in JSON with its surroundings */

/* ---- JSON ------------------------------------------------------------------------------------ */

struct members {
    struct ron_str id;
    struct ron_str kind;
    struct ron_str account;
    struct ron_str to;
    struct ron_str asset;
    struct ron_str nonce;
    struct ron_str ref;
    struct ron_str kid;
    struct ron_str capability_ref;
    struct ron_str memo;
    struct ron_money amount;
    uint64_t ts;
    uint64_t account_nonce;
    uint64_t expires;
    uint64_t v;
    uint64_t present;
};

#define MEMBERS(type_)                                                                             \
    RON_JSON_FIELD(type_, id, STRING, .max = AUD_ID_MAX),                                          \
        RON_JSON_FIELD(type_, kind, STRING, .max = 16),                                            \
        RON_JSON_FIELD(type_, account, STRING, .max = AUD_ACCOUNT_MAX),                            \
        RON_JSON_FIELD(type_, to, STRING, .max = AUD_ACCOUNT_MAX),                                 \
        RON_JSON_FIELD(type_, asset, STRING, .max = AUD_ASSET_MAX),                                \
        RON_JSON_FIELD(type_, nonce, STRING, .max = 24),                                           \
        RON_JSON_FIELD(type_, ref, STRING, .max = AUD_ID_MAX),                                     \
        RON_JSON_FIELD(type_, kid, STRING, .max = AUD_ID_MAX),                                     \
        RON_JSON_FIELD(type_, capability_ref, STRING, .max = AUD_ID_MAX),                          \
        RON_JSON_FIELD(type_, memo, STRING, .max = AUD_MEMO_MAX),                                  \
        RON_JSON_FIELD(type_, amount, MONEY, .required = false),                                   \
        RON_JSON_FIELD(type_, ts, U64, .required = false),                                         \
        RON_JSON_FIELD(type_, account_nonce, U64, .required = false),                              \
        RON_JSON_FIELD(type_, expires, U64, .required = false),                                    \
        RON_JSON_FIELD(type_, v, U64, .max = UINT16_MAX)

static const struct ron_json_field member_fields[] = {MEMBERS(struct members)};
static const struct ron_json_shape member_shape = {
    .fields = member_fields,
    .count = RON_ARRAY_LEN(member_fields),
    .present_offset = offsetof(struct members, present),
    .allow_unknown = true,
};

/* The entry may be a member of what the ledger answered. */
struct answer {
    struct members entry;
    uint64_t present;
};

static const struct ron_json_field answer_fields[] = {
    {.name = "entry",
     .name_len = 5,
     .type = RON_JSON_OBJECT,
     .offset = offsetof(struct answer, entry),
     .shape = &member_shape},
};
static const struct ron_json_shape answer_shape = {
    .fields = answer_fields,
    .count = RON_ARRAY_LEN(answer_fields),
    .present_offset = offsetof(struct answer, present),
    .allow_unknown = true,
};

static void put_number(struct ron_buf *out, uint64_t v, unsigned bytes)
{
    while (bytes-- > 0) {
        RON_IGNORE(ron_buf_append_byte(out, (uint8_t)(v >> (8 * bytes)))); /* sticks */
    }
}

static void put_text(struct ron_buf *out, struct ron_str s, unsigned prefix)
{
    put_number(out, s.len, prefix);
    RON_IGNORE(ron_buf_append(out, s.ptr, s.len)); /* sticks */
}

static uint8_t kind_of(struct ron_str name)
{
    for (unsigned kind = AUD_MINT; kind <= AUD_EXPIRE; kind++) {
        if (ron_str_is(name, aud_kind_name((uint8_t)kind))) {
            return (uint8_t)kind;
        }
    }
    return 0;
}

static enum ron_rc encode(const struct members *m, struct ron_buf *out, struct ron_err *err)
{
    uint8_t nonce[AUD_NONCE_SIZE];
    struct ron_str asset = m->asset.len > 0 ? m->asset : (struct ron_str){"roc", 3};
    unsigned has = (m->to.len > 0 ? 1u : 0) | (m->ref.len > 0 ? 2u : 0) |
                   (m->account_nonce > 0 ? 4u : 0) | (m->expires > 0 ? 8u : 0) |
                   (m->memo.len > 0 ? 16u : 0);

    if (aud_base64(m->nonce, nonce, sizeof nonce) != sizeof nonce) {
        return ron_err_set(err, RON_INVALID, "nonce is not 16 bytes of base64");
    }
    put_number(out, m->v, 2);
    put_number(out, kind_of(m->kind), 1);
    put_number(out, has, 1);
    put_number(out, m->ts, 8);
    put_number(out, ron_u128_hi(m->amount.v), 8);
    put_number(out, ron_u128_lo(m->amount.v), 8);
    RON_IGNORE(ron_buf_append(out, nonce, sizeof nonce)); /* sticks */
    if (m->account_nonce > 0) {
        put_number(out, m->account_nonce, 8);
    }
    if (m->expires > 0) {
        put_number(out, m->expires, 8);
    }
    put_text(out, m->id, 1);
    put_text(out, m->account, 2);
    if (m->to.len > 0) {
        put_text(out, m->to, 2);
    }
    put_text(out, asset, 1);
    if (m->ref.len > 0) {
        put_text(out, m->ref, 1);
    }
    put_text(out, m->kid, 1);
    put_text(out, m->capability_ref, 1);
    if (m->memo.len > 0) {
        put_text(out, m->memo, 2);
    }
    return ron_buf_error(out);
}

enum ron_rc aud_entry_from_json(char *text, size_t len, struct ron_buf *out, struct ron_err *err)
{
    /* Scanning resolves escapes in place, and the text may have to be scanned twice. */
    char *copy RON_AUTO_FREE = ron_alloc(len + 1);
    struct ron_json_error wrong = {0};
    struct answer answer = {0};
    enum ron_rc rc;

    if (copy == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for an entry");
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    rc = ron_json_scan(text, len, &answer_shape, NULL, &answer, &wrong);
    if (rc == RON_OK && answer.present == 0) {
        answer.entry = (struct members){0};
        rc = ron_json_scan(copy, len, &member_shape, NULL, &answer.entry, &wrong);
    }
    if (rc != RON_OK) {
        return ron_err_set(err, RON_INVALID, "no entry: %s %s", wrong.field, wrong.reason);
    }
    return encode(&answer.entry, out, err);
}

/* ---- the receipt ----------------------------------------------------------------------------- */

static struct ron_str content(const struct ron_buf *buf)
{
    return (struct ron_str){(const char *)ron_buf_data(buf), ron_buf_len(buf)};
}

static void fault(struct aud_offline *o, const char *file, enum aud_rule rule, const char *expected,
                  const char *found)
{
    struct aud_place place = {.file = file};
    struct aud_finding *f = aud_find(&o->findings, rule, &place);

    aud_say(f->expected, "%s", expected);
    aud_say(f->found, "%s", found);
}

static enum ron_rc load_entry(const struct aud_offline_options *opts, struct aud_offline *o,
                              struct ron_err *err)
{
    struct ron_buf file;
    enum ron_rc rc;

    ron_buf_init(&file, JSON_MAX);
    rc = ron_file_read_all(opts->env, opts->entry, &file, err);
    if (rc == RON_OK && ron_buf_len(&file) > 0 && ron_buf_data(&file)[0] == '{') {
        (void)ron_buf_text(&file);
        rc =
            aud_entry_from_json((char *)file.memory + file.head, ron_buf_len(&file), &o->leaf, err);
    } else if (rc == RON_OK) {
        rc = ron_buf_append(&o->leaf, ron_buf_data(&file), ron_buf_len(&file));
    }
    ron_buf_done(&file);
    return rc;
}

/* The entry's bytes, from the file, from the receipt, or from both, which are the same then. */
static enum ron_rc take_leaf(const struct aud_offline_options *opts, struct aud_offline *o,
                             const struct aud_receipt *receipt, struct ron_err *err)
{
    struct ron_buf extra;
    enum ron_rc rc = RON_OK;
    uint8_t *room;
    size_t len;

    if (opts->entry != NULL) {
        RON_TRY(load_entry(opts, o, err));
    }
    if (receipt->extra.len == 0) {
        return RON_OK;
    }
    ron_buf_init(&extra, AUD_EXTRA_MAX);
    RON_TRY(ron_buf_reserve(&extra, AUD_EXTRA_MAX, &room));
    len = aud_base64(receipt->extra, room, AUD_EXTRA_MAX);
    if (len == SIZE_MAX) {
        fault(o, opts->receipt, AUD_RULE_RECEIPT, "extra in base64", "something else");
    } else if (opts->entry == NULL) {
        rc = ron_buf_append(&o->leaf, room, len);
    } else if (!aud_str_equal((struct ron_str){(const char *)room, len}, content(&o->leaf))) {
        fault(o, opts->receipt, AUD_RULE_RECEIPT, "the entry that was given", "another one");
    }
    ron_buf_done(&extra);
    return rc;
}

static void check_signatures(const struct aud_offline_options *opts, struct aud_offline *o,
                             const struct aud_note *note)
{
    enum aud_verdict verdict;

    if (opts->key != NULL) {
        verdict = aud_note_verify(note, opts->key, NULL);
        o->signed_ = verdict == AUD_SIGNED;
        if (!o->signed_) {
            fault(o, opts->receipt, AUD_RULE_SIGNATURE, "a signature of the key that was given",
                  verdict == AUD_FORGED ? "one that does not verify" : "none");
        }
        if (strcmp(opts->key->name, o->origin) != 0) {
            fault(o, opts->receipt, AUD_RULE_RECEIPT, "the key's name as origin", o->origin);
        }
    } else if (!opts->unsigned_) {
        /* Anybody can make a tree with the entry he likes and sign it with a key of his own. */
        fault(o, opts->receipt, AUD_RULE_SIGNATURE,
              "the ledger's key, by --key (--unsigned checks the arithmetic alone)", "none");
    }
    for (size_t i = 0; i < opts->witness_count; i++) {
        verdict = aud_note_verify(note, &opts->witnesses[i], &o->cosigned_s[i]);
        if (verdict != AUD_SIGNED) {
            struct aud_place place = {.file = opts->receipt};
            struct aud_finding *f = aud_find(&o->findings, AUD_RULE_SIGNATURE, &place);

            aud_say(f->expected, "a cosignature of %s", opts->witnesses[i].name);
            aud_say(f->found, verdict == AUD_FORGED ? "one that does not verify" : "none");
        }
    }
}

static void check_entry(const struct aud_offline_options *opts, struct aud_offline *o,
                        const struct aud_receipt *receipt)
{
    struct ron_str leaf = content(&o->leaf);
    const char *wrong;
    struct aud_hash hash;

    if (leaf.len == 0) {
        fault(o, opts->receipt, AUD_RULE_RECEIPT, "an entry, in the receipt or given by --entry",
              "none");
        return;
    }
    wrong = aud_entry_read((const uint8_t *)leaf.ptr, leaf.len, &o->entry);
    o->has_entry = wrong == NULL;
    if (wrong != NULL) {
        fault(o, opts->entry != NULL ? opts->entry : opts->receipt, AUD_RULE_ENTRY,
              "the canonical bytes of an entry", wrong);
    }
    aud_hash_leaf(leaf.ptr, leaf.len, &hash);
    if (!aud_inclusion(&hash, receipt->index, o->size, receipt->proof, receipt->proof_count,
                       &o->root)) {
        fault(o, opts->receipt, AUD_RULE_RECEIPT,
              "a proof that leads from the entry to the checkpoint's root", "it does not");
    }
}

static enum ron_rc check(const struct aud_offline_options *opts, struct aud_offline *o,
                         struct aud_receipt *receipt, struct ron_err *err)
{
    struct aud_checkpoint c;
    struct aud_note note;
    const char *wrong = aud_receipt_read(content(&o->receipt_bytes), receipt);

    wrong = wrong != NULL ? wrong : aud_note_read(receipt->note, &note);
    wrong = wrong != NULL ? wrong : aud_checkpoint_read(note.text, &c);
    if (wrong == NULL && c.origin.len >= sizeof o->origin) {
        wrong = "an origin of more than 255 bytes";
    }
    if (wrong != NULL) {
        fault(o, opts->receipt, AUD_RULE_RECEIPT, "a receipt (c2sp.org/tlog-proof@v1)", wrong);
        return RON_OK;
    }
    o->seq = receipt->index + 1;
    o->size = c.size;
    o->root = c.root;
    memcpy(o->origin, c.origin.ptr, c.origin.len);
    RON_TRY(take_leaf(opts, o, receipt, err));
    check_signatures(opts, o, &note);
    check_entry(opts, o, receipt);
    return RON_OK;
}

enum ron_rc aud_offline_check(const struct aud_offline_options *opts, struct aud_offline *o,
                              struct ron_err *err)
{
    struct aud_receipt receipt;

    ron_buf_init(&o->receipt_bytes, AUD_RECEIPT_MAX);
    ron_buf_init(&o->leaf, JSON_MAX);
    RON_TRY(ron_file_read_all(opts->env, opts->receipt, &o->receipt_bytes, err));
    return check(opts, o, &receipt, err);
}

void aud_offline_done(struct aud_offline *o)
{
    ron_buf_done(&o->receipt_bytes);
    ron_buf_done(&o->leaf);
}
