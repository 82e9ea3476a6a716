/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a receipt proves its entry and nothing else, offline.
 * Method: receipts of every leaf of a small tree are written, read and verified; every bit of one
 * is flipped, and what still verifies must say the same; malformed texts from a table. */
#include "support/support.h"

#include "ledger/proof/receipt.h"
#include "merkle/note_priv.h"

enum { LEAVES = 37 };

static struct ron_tree_hash stored[2 * LEAVES];
static struct ron_note_signer log_signer;
static struct ron_note_signer witness_signer;
static struct led_trust trust;
static struct ron_buf checkpoint; /* signed, cosigned */

static enum ron_rc stored_read(void *ctx, const uint64_t *places, size_t count,
                               struct ron_tree_hash *ret_hashes, struct ron_err *err)
{
    (void)ctx;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        ret_hashes[i] = stored[places[i]];
    }
    return RON_OK;
}

static const struct ron_tree_store store = {.read = stored_read};

static struct ron_str str(const char *text)
{
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

static struct ron_str content(const struct ron_buf *buf)
{
    return (struct ron_str){.ptr = (const char *)ron_buf_data(buf), .len = ron_buf_len(buf)};
}

static struct ron_str leaf(size_t i, char text[24])
{
    return (struct ron_str){.ptr = text, .len = (size_t)snprintf(text, 24, "entry %zu", i)};
}

static int setup(void **state)
{
    static const uint8_t seed[32] = {9};
    struct ron_tree tree;
    struct led_checkpoint c = {.origin = str("ledger.example"), .size = LEAVES};
    struct led_note note;
    struct ron_buf line;
    char text[24];

    (void)state;
    ron_tree_init(&tree);
    for (size_t i = 0; i < LEAVES; i++) {
        struct ron_tree_hash hash;
        struct ron_str s = leaf(i, text);

        ron_tree_hash_leaf(s.ptr, s.len, &hash);
        assert_int_equal(ron_tree_extend(&tree, &hash, 1, stored + ron_tree_stored_count(i)),
                         RON_OK);
    }
    ron_tree_root(&tree, &c.root);
    assert_int_equal(
        ron_note_signer_make(str("ledger.example"), RON_NOTE_ED25519, seed, &log_signer, NULL),
        RON_OK);
    assert_int_equal(ron_note_signer_make(str("witness.example"), RON_NOTE_COSIGNATURE, seed,
                                          &witness_signer, NULL),
                     RON_OK);
    ron_buf_init(&checkpoint, LED_NOTE_BYTES_MAX);
    ron_buf_init(&line, 4096);
    assert_int_equal(led_checkpoint_sign(&c, &log_signer, &checkpoint, NULL), RON_OK);
    assert_int_equal(led_note_read(content(&checkpoint), &note, NULL), RON_OK);
    assert_int_equal(led_note_sign_line(note.text, &witness_signer, 1700000000, &line, NULL),
                     RON_OK);
    assert_int_equal(led_note_attach(&checkpoint, content(&line), &witness_signer.key, 1, NULL),
                     RON_OK);
    ron_buf_done(&line);
    trust = (struct led_trust){.origin = str("ledger.example"),
                               .log_keys = &log_signer.key,
                               .log_key_count = 1,
                               .witness_keys = &witness_signer.key,
                               .witness_key_count = 1,
                               .witnesses_needed = 1};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ron_buf_done(&checkpoint);
    return 0;
}

static void write_receipt(size_t index, struct ron_buf *out)
{
    struct ron_proof proof;
    char text[24];

    assert_int_equal(ron_proof_inclusion(&store, index, LEAVES, &proof, NULL), RON_OK);
    ron_buf_init(out, LED_RECEIPT_BYTES_MAX);
    assert_int_equal(
        led_receipt_write(leaf(index, text), index, &proof, content(&checkpoint), out, NULL),
        RON_OK);
}

static void test_receipt__of_every_leaf__proves_it_and_no_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEAVES; i++) {
        struct led_receipt r;
        struct led_checkpoint c;
        struct ron_buf out;
        struct ron_buf extra;
        char text[24];

        write_receipt(i, &out);
        assert_int_equal(led_receipt_read(content(&out), &r, NULL), RON_OK);
        assert_int_equal(r.index, i);
        ron_buf_init(&extra, 64);
        assert_int_equal(led_receipt_extra(&r, &extra, NULL), RON_OK);
        assert_int_equal(led_receipt_verify(&r, content(&extra), &trust, &c, NULL), RON_OK);
        assert_int_equal(c.size, LEAVES);
        assert_int_equal(led_receipt_verify(&r, leaf(i + 1, text), &trust, &c, NULL), RON_DENIED);
        r.index ^= 1;
        assert_int_equal(led_receipt_verify(&r, content(&extra), &trust, &c, NULL), RON_DENIED);
        r.index ^= 1;
        r.proof.count--;
        assert_int_equal(led_receipt_verify(&r, content(&extra), &trust, &c, NULL), RON_DENIED);
        ron_buf_done(&out);
        ron_buf_done(&extra);
    }
}

static void test_receipt__written__the_lines_of_the_document(void **state)
{
    struct ron_proof proof = {.count = 1};
    struct ron_buf out;
    const char *text;

    (void)state;
    ron_buf_init(&out, LED_RECEIPT_BYTES_MAX);
    assert_int_equal(
        led_receipt_write(str("ab"), 5, &proof, str("a\n\n\xe2\x80\x94 a AAAAAAA=\n"), &out, NULL),
        RON_OK);
    text = ron_buf_text(&out);
    assert_string_equal(text, "c2sp.org/tlog-proof@v1\nextra YWI=\nindex 5\n"
                              "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n"
                              "a\n\n\xe2\x80\x94 a AAAAAAA=\n");
    ron_buf_clear(&out);
    proof.count = 0;
    assert_int_equal(
        led_receipt_write(str(""), 0, &proof, str("a\n\n\xe2\x80\x94 a AAAAAAA=\n"), &out, NULL),
        RON_OK);
    assert_string_equal(ron_buf_text(&out),
                        "c2sp.org/tlog-proof@v1\nindex 0\n\na\n\n\xe2\x80\x94 a AAAAAAA=\n");
    ron_buf_clear(&out);
    assert_int_equal(led_receipt_write(str(""), 0, &proof, str("a\n"), &out, NULL), RON_INVALID);
    assert_int_equal(ron_buf_len(&out), 0);
    ron_buf_done(&out);
}

/* Whatever bit is flipped, what still verifies speaks of the same leaf at the same place: only the
 * unauthenticated extra line may differ, and then no longer carries the entry. */
static void test_receipt__any_bit_flipped__never_proves_anything_else(void **state)
{
    struct ron_buf out;
    uint8_t *bytes;
    char text[24];
    const char *extra_line;
    size_t extra_first;

    (void)state;
    write_receipt(20, &out);
    extra_line = strstr(ron_buf_text(&out), "extra ");
    assert_non_null(extra_line);
    extra_first = (size_t)(extra_line - ron_buf_text(&out));
    bytes = (uint8_t *)(uintptr_t)ron_buf_data(&out);
    for (size_t i = 0; i < ron_buf_len(&out); i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct led_receipt r;

            bytes[i] ^= (uint8_t)(1U << bit);
            if (led_receipt_read(content(&out), &r, NULL) == RON_OK &&
                led_receipt_verify(&r, leaf(20, text), &trust, NULL, NULL) == RON_OK) {
                assert_true(i >= extra_first + 6 && i < extra_first + 6 + r.extra.len);
                assert_int_equal(r.index, 20);
            }
            bytes[i] ^= (uint8_t)(1U << bit);
        }
    }
    ron_buf_done(&out);
}

static void test_receipt__malformed__refused(void **state)
{
#define HEAD "c2sp.org/tlog-proof@v1\n"
#define HASH "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define NOTE "a\n1\n" HASH "\n\n\xe2\x80\x94 a AAAAAAA=\n"
    static const struct {
        const char *text;
        enum ron_rc rc;
    } rows[] = {
        {HEAD "index 0\n\n" NOTE, RON_OK},
        {HEAD "extra YQ==\nindex 0\n" HASH "\n\n" NOTE, RON_OK},
        {"", RON_CORRUPT},
        {HEAD, RON_CORRUPT},
        {"c2sp.org/tlog-proof@v2\nindex 0\n\n" NOTE, RON_CORRUPT},
        {HEAD "\n" NOTE, RON_CORRUPT},
        {HEAD "extra YQ==\n", RON_CORRUPT},
        {HEAD "extra \nindex 0\n\n" NOTE, RON_CORRUPT},
        {HEAD "extra YQ=\nindex 0\n\n" NOTE, RON_CORRUPT},
        {HEAD "extra YR==\nindex 0\n\n" NOTE, RON_CORRUPT},
        {HEAD "extra Y Q=\nindex 0\n\n" NOTE, RON_CORRUPT},
        {HEAD "index 0\nextra YQ==\n\n" NOTE, RON_CORRUPT},
        {HEAD "extra YQ==\nextra YQ==\nindex 0\n\n" NOTE, RON_CORRUPT},
        {HEAD "index 00\n\n" NOTE, RON_CORRUPT},
        {HEAD "index\n\n" NOTE, RON_CORRUPT},
        {HEAD "index -1\n\n" NOTE, RON_CORRUPT},
        {HEAD "index 9223372036854775807\n\n" NOTE, RON_CORRUPT},
        {HEAD "index 0\r\n\n" NOTE, RON_CORRUPT},
        {HEAD "index 0\n" HASH "\n", RON_CORRUPT},
        {HEAD "index 0\nAAAA\n\n" NOTE, RON_CORRUPT},
        {HEAD "index 0\n\n", RON_CORRUPT},
        {HEAD "index 0\n\n\n" NOTE, RON_CORRUPT},
        {HEAD "index 0\n\na\n1\n\n\xe2\x80\x94 a AAAAAAA=\n", RON_CORRUPT},
    };
    struct led_receipt r;
    struct ron_buf many;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        if (led_receipt_read(str(rows[i].text), &r, NULL) != rows[i].rc) {
            fail_msg("row %zu: %s", i, rows[i].text);
        }
    }
    ron_buf_init(&many, LED_RECEIPT_BYTES_MAX + 10);
    assert_int_equal(ron_buf_append_text(&many, HEAD "index 0\n"), RON_OK);
    for (int i = 0; i < RON_PROOF_MAX + 1; i++) {
        assert_int_equal(ron_buf_append_text(&many, HASH "\n"), RON_OK);
    }
    assert_int_equal(ron_buf_append_text(&many, "\n" NOTE), RON_OK);
    assert_int_equal(led_receipt_read(content(&many), &r, NULL), RON_LIMIT);
    while (ron_buf_append_byte(&many, 'a') == RON_OK) {
    }
    assert_int_equal(led_receipt_read(content(&many), &r, NULL), RON_LIMIT);
    ron_buf_done(&many);
#undef HEAD
#undef HASH
#undef NOTE
}

/* Extra data of every length around the pieces in which it is looked at. */
static void test_receipt__extra_of_any_length__comes_back(void **state)
{
    static uint8_t bytes[LED_RECEIPT_EXTRA_MAX + 1];
    static const size_t lengths[] = {1, 2, 3, 4, 767, 768, 769, 770, 1536, 1537, 65534, 65535};
    struct ron_rand rand = support_rand();
    struct ron_proof proof = {0};
    struct led_receipt r;
    struct ron_buf out;
    struct ron_buf extra;

    (void)state;
    ron_rand_bytes(&rand, bytes, sizeof bytes);
    ron_buf_init(&out, LED_RECEIPT_BYTES_MAX);
    ron_buf_init(&extra, LED_RECEIPT_BYTES_MAX);
    for (size_t i = 0; i < RON_ARRAY_LEN(lengths); i++) {
        struct ron_str data = {.ptr = (const char *)bytes, .len = lengths[i]};

        ron_buf_clear(&out);
        ron_buf_clear(&extra);
        assert_int_equal(led_receipt_write(data, 1, &proof, content(&checkpoint), &out, NULL),
                         RON_OK);
        assert_int_equal(led_receipt_read(content(&out), &r, NULL), RON_OK);
        assert_int_equal(led_receipt_extra(&r, &extra, NULL), RON_OK);
        assert_int_equal(ron_buf_len(&extra), data.len);
        assert_memory_equal(ron_buf_data(&extra), bytes, data.len);
    }
    ron_buf_clear(&out);
    assert_int_equal(
        led_receipt_write((struct ron_str){.ptr = (const char *)bytes, .len = sizeof bytes}, 1,
                          &proof, content(&checkpoint), &out, NULL),
        RON_LIMIT);
    ron_buf_done(&out);
    ron_buf_done(&extra);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_receipt__of_every_leaf__proves_it_and_no_other),
        cmocka_unit_test(test_receipt__written__the_lines_of_the_document),
        cmocka_unit_test(test_receipt__any_bit_flipped__never_proves_anything_else),
        cmocka_unit_test(test_receipt__malformed__refused),
        cmocka_unit_test(test_receipt__extra_of_any_length__comes_back),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
