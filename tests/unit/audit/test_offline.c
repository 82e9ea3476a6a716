/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a receipt that the ledger's code made verifies offline, with its entry as bytes, as JSON or
 * from the receipt; anything else about it is refused. Keys and notes are read like Go reads them.
 * Method: trees of every size up to 70; every byte of a receipt changed once; the ledger's own
 * JSON; the published note and key of Go's package note. */
#include "journal.h"

#include "audit/proof/offline.h"
#include "ledger/proof/receipt.h"
#include "merkle/note_priv.h"

enum { LEAVES = 70 };

struct fixture {
    struct journal j;
    struct ron_tree_hash hashes[2 * LEAVES + 64]; /* stored hashes of the tree */
    struct ron_note_signer signer;
    struct ron_note_signer witness;
    struct aud_vkey key;
    struct aud_vkey witness_key;
};

static struct ron_str str(const char *text)
{
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

static enum ron_rc keep_hashes(void *ctx, uint64_t first, const struct ron_tree_hash *hashes,
                               size_t count, struct ron_err *err)
{
    struct fixture *x = ctx;

    (void)err;
    RON_ASSERT(first + count <= RON_ARRAY_LEN(x->hashes));
    memcpy(x->hashes + first, hashes, count * sizeof *hashes);
    return RON_OK;
}

static enum ron_rc give_hashes(void *ctx, const uint64_t *places, size_t count,
                               struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    const struct fixture *x = ctx;

    (void)err;
    for (size_t i = 0; i < count; i++) {
        ret_hashes[i] = x->hashes[places[i]];
    }
    return RON_OK;
}

static struct ron_tree_store store_of(struct fixture *x)
{
    return (struct ron_tree_store){.ctx = x, .append = keep_hashes, .read = give_hashes};
}

static void make_key(const char *name, enum ron_note_type type, uint8_t seed_byte,
                     struct ron_note_signer *signer, struct aud_vkey *ret)
{
    const uint8_t seed[32] = {seed_byte};
    struct ron_buf text;

    assert_int_equal(ron_note_signer_make(str(name), type, seed, signer, NULL), RON_OK);
    ron_buf_init(&text, 1024);
    assert_int_equal(ron_note_key_write(&signer->key, &text), RON_OK);
    assert_null(aud_vkey_read((struct ron_str){ron_buf_text(&text), ron_buf_len(&text)}, ret));
    ron_buf_done(&text);
}

static size_t leaf_of(const struct fixture *x, size_t i, uint8_t leaf[LED_ENTRY_BYTES_MAX])
{
    return (size_t)(led_entry_encode(&x->j.entries[i], leaf) - leaf);
}

static int setup(void **state)
{
    struct fixture *x = ron_alloc_zero(sizeof *x);
    struct ron_tree_store store = store_of(x);

    assert_non_null(x);
    journal_init(&x->j);
    make_key("ledger.example/main", RON_NOTE_ED25519, 1, &x->signer, &x->key);
    make_key("witness.example/w1", RON_NOTE_COSIGNATURE, 2, &x->witness, &x->witness_key);
    for (size_t i = 0; i < LEAVES; i++) {
        struct led_entry *e = journal_add(&x->j, LED_KIND_TRANSFER, "", "a", i + 1);
        uint8_t leaf[LED_ENTRY_BYTES_MAX];
        struct ron_tree_hash hash;

        e->id = journal_text(&x->j, "tx-%zu", i);
        e->to = str("b");
        e->memo = str("say \"hi\" \\ \xe2\x82\xac");
        ron_tree_hash_leaf(leaf, leaf_of(x, i, leaf), &hash);
        assert_int_equal(ron_tree_append(&x->j.tree, &store, &hash, 1, NULL), RON_OK);
    }
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *x = *state;

    ron_note_signer_done(&x->signer);
    ron_note_signer_done(&x->witness);
    journal_done(&x->j);
    ron_free(x);
    return 0;
}

/* The receipt of entry `index` in a tree of `size`, as a file. */
static void put_receipt(struct fixture *x, uint64_t index, uint64_t size, bool with_extra,
                        struct ron_buf *receipt)
{
    struct led_checkpoint c = {.origin = str("ledger.example/main"), .size = size};
    struct ron_tree_store store = store_of(x);
    uint8_t leaf[LED_ENTRY_BYTES_MAX];
    struct ron_str extra = {(const char *)leaf, leaf_of(x, index, leaf)};
    struct ron_proof proof;
    struct ron_buf note;
    struct ron_buf line;

    ron_buf_init(&note, LED_NOTE_BYTES_MAX);
    ron_buf_init(&line, LED_NOTE_BYTES_MAX);
    ron_buf_clear(receipt);
    assert_int_equal(ron_tree_root_at(&store, size, &c.root, NULL), RON_OK);
    assert_int_equal(led_checkpoint_sign(&c, &x->signer, &note, NULL), RON_OK);
    if (with_extra) {
        struct led_note read;

        assert_int_equal(
            led_note_read((struct ron_str){ron_buf_text(&note), ron_buf_len(&note)}, &read, NULL),
            RON_OK);
        assert_int_equal(led_note_sign_line(read.text, &x->witness, 1700000001, &line, NULL),
                         RON_OK);
        assert_int_equal(led_note_attach(&note,
                                         (struct ron_str){ron_buf_text(&line), ron_buf_len(&line)},
                                         &x->witness.key, 1, NULL),
                         RON_OK);
    }
    assert_int_equal(ron_proof_inclusion(&store, index, size, &proof, NULL), RON_OK);
    assert_int_equal(led_receipt_write(with_extra ? extra : str(""), index, &proof,
                                       (struct ron_str){ron_buf_text(&note), ron_buf_len(&note)},
                                       receipt, NULL),
                     RON_OK);
    journal_put_file(&x->j, "/receipt", ron_buf_data(receipt), ron_buf_len(receipt));
    journal_put_file(&x->j, "/entry", leaf, extra.len);
    ron_buf_done(&note);
    ron_buf_done(&line);
}

static struct aud_offline_options options(struct fixture *x)
{
    return (struct aud_offline_options){
        .env = x->j.env, .receipt = "/receipt", .entry = "/entry", .key = &x->key};
}

/* How many findings; the first one's rule in *ret_rule. */
static uint64_t judge(const struct aud_offline_options *opts, enum aud_rule *ret_rule)
{
    struct aud_offline *o = ron_alloc_zero(sizeof *o);
    struct ron_err err = {0};
    uint64_t total;

    assert_non_null(o);
    if (aud_offline_check(opts, o, &err) != RON_OK) {
        fail_msg("%s", err.msg);
    }
    total = o->findings.total;
    *ret_rule = o->findings.items[0].rule;
    if (total == 0) {
        assert_true(o->has_entry);
        assert_true(opts->key == NULL || o->signed_);
        assert_string_equal(o->origin, "ledger.example/main");
    }
    aud_offline_done(o);
    ron_free(o);
    return total;
}

static void test_offline__receipts_of_all_places__are_good(void **state)
{
    struct fixture *x = *state;
    struct aud_offline_options opts = options(x);
    struct ron_buf receipt;
    enum aud_rule rule;

    ron_buf_init(&receipt, LED_RECEIPT_BYTES_MAX);
    for (uint64_t size = 1; size <= LEAVES; size += size < 10 ? 1 : 7) {
        for (uint64_t index = 0; index < size; index++) {
            put_receipt(x, index, size, false, &receipt);
            assert_int_equal(judge(&opts, &rule), 0);
        }
    }
    /* The entry in the receipt, a witness, and no key. */
    put_receipt(x, 5, LEAVES, true, &receipt);
    opts.witnesses = &x->witness_key;
    opts.witness_count = 1;
    assert_int_equal(judge(&opts, &rule), 0);
    opts.entry = NULL;
    assert_int_equal(judge(&opts, &rule), 0);
    opts.key = NULL;
    opts.unsigned_ = true;
    assert_int_equal(judge(&opts, &rule), 0);
    ron_buf_done(&receipt);
}

static void test_offline__every_byte_of_a_receipt_changed__never_good(void **state)
{
    struct fixture *x = *state;
    struct aud_offline_options opts = options(x);
    struct ron_buf receipt;
    enum aud_rule rule;

    ron_buf_init(&receipt, LED_RECEIPT_BYTES_MAX);
    put_receipt(x, 20, 37, true, &receipt);
    opts.witnesses = &x->witness_key;
    opts.witness_count = 1;
    for (size_t i = 0; i < ron_buf_len(&receipt); i++) {
        uint8_t *byte = receipt.memory + receipt.head + i;

        *byte ^= (uint8_t)(1u << (i % 8));
        journal_put_file(&x->j, "/receipt", ron_buf_data(&receipt), ron_buf_len(&receipt));
        if (judge(&opts, &rule) == 0) {
            fail_msg("byte %zu was changed, and nothing found", i);
        }
        *byte ^= (uint8_t)(1u << (i % 8));
    }
    ron_buf_done(&receipt);
}

static void test_offline__not_what_was_asked__found_by_rule(void **state)
{
    struct fixture *x = *state;
    struct aud_offline_options opts = options(x);
    struct aud_vkey other;
    struct ron_buf receipt;
    uint8_t leaf[LED_ENTRY_BYTES_MAX];
    enum aud_rule rule;

    ron_buf_init(&receipt, LED_RECEIPT_BYTES_MAX);
    put_receipt(x, 20, 37, false, &receipt);
    journal_put_file(&x->j, "/entry", leaf, leaf_of(x, 21, leaf)); /* its neighbour */
    assert_int_equal(judge(&opts, &rule), 1);
    assert_int_equal(rule, AUD_RULE_RECEIPT);
    opts.entry = NULL; /* nowhere */
    assert_int_equal(judge(&opts, &rule), 1);
    assert_int_equal(rule, AUD_RULE_RECEIPT);
    opts = options(x);
    put_receipt(x, 20, 37, false, &receipt);
    opts.witnesses = &x->witness_key; /* who did not sign */
    opts.witness_count = 1;
    assert_int_equal(judge(&opts, &rule), 1);
    assert_int_equal(rule, AUD_RULE_SIGNATURE);
    opts = options(x);
    other = x->key; /* the same name and id, another key: a forgery */
    other.key[0] ^= 1;
    opts.key = &other;
    assert_int_equal(judge(&opts, &rule), 1);
    assert_int_equal(rule, AUD_RULE_SIGNATURE);
    opts.key = NULL; /* nobody's word was checked, and nobody said that this is meant */
    assert_int_equal(judge(&opts, &rule), 1);
    assert_int_equal(rule, AUD_RULE_SIGNATURE);
    ron_buf_done(&receipt);
}

static void test_offline__entry_as_the_ledgers_json__is_the_same(void **state)
{
    struct fixture *x = *state;
    struct aud_offline_options opts = options(x);
    struct ron_json_writer w;
    struct ron_buf receipt;
    struct ron_buf json;
    enum aud_rule rule;

    ron_buf_init(&receipt, LED_RECEIPT_BYTES_MAX);
    ron_buf_init(&json, 65536);
    put_receipt(x, 20, 37, false, &receipt);
    ron_json_begin(&w, &json);
    led_entry_to_json(&w, NULL, &x->j.entries[20], 21);
    journal_put_file(&x->j, "/entry", ron_buf_data(&json), ron_buf_len(&json));
    assert_int_equal(judge(&opts, &rule), 0);
    ron_buf_clear(&json); /* and inside of an answer */
    ron_json_begin(&w, &json);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "root", "\xe2\x82\xac\"");
    led_entry_to_json(&w, "entry", &x->j.entries[20], 21);
    ron_json_close(&w, '}');
    journal_put_file(&x->j, "/entry", ron_buf_data(&json), ron_buf_len(&json));
    assert_int_equal(judge(&opts, &rule), 0);
    journal_put_file(&x->j, "/entry", "{\"id\":7}", 8);
    {
        struct aud_offline *o = ron_alloc_zero(sizeof *o);

        assert_non_null(o);
        assert_int_equal(aud_offline_check(&opts, o, NULL), RON_INVALID);
        aud_offline_done(o);
        ron_free(o);
    }
    ron_buf_done(&receipt);
    ron_buf_done(&json);
}

/* The example of golang.org/x/mod/sumdb/note. */
static void test_offline__note_of_go__is_verified(void **state)
{
    static const char vkey[] = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    static const char bytes[] =
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n"
        "\n"
        "\xe2\x80\x94 PeterNeumann "
        "x08go/ZJkuBS9UG/"
        "SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
    struct aud_vkey key;
    struct aud_note note;

    (void)state;
    assert_null(aud_vkey_read(str(vkey), &key));
    assert_null(aud_note_read(str(bytes), &note));
    assert_int_equal(aud_note_verify(&note, &key, NULL), AUD_SIGNED);
    note.text.len--;
    assert_int_equal(aud_note_verify(&note, &key, NULL), AUD_FORGED);
    note.text.len++;
    key.name[0] = 'p';
    assert_int_equal(aud_note_verify(&note, &key, NULL), AUD_NOT_SIGNED);
}

static void test_offline__malformed_keys__are_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "PeterNeumann",
        "+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", /* other id */
        "PeterNeuman+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10T",
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW\n",
        "Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    };
    struct aud_vkey key;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(texts); i++) {
        if (aud_vkey_read(str(texts[i]), &key) == NULL) {
            fail_msg("accepted: %s", texts[i]);
        }
    }
}

int main(void)
{
#define CASE(name_) cmocka_unit_test_setup_teardown(test_offline__##name_, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(receipts_of_all_places__are_good),
        CASE(every_byte_of_a_receipt_changed__never_good),
        CASE(not_what_was_asked__found_by_rule),
        CASE(entry_as_the_ledgers_json__is_the_same),
        cmocka_unit_test(test_offline__note_of_go__is_verified),
        cmocka_unit_test(test_offline__malformed_keys__are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
