/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: notes, keys, checkpoints and cosignatures are those of the C2SP documents: bytes that
 * others made are read, bytes of ours are exactly theirs, and nothing else passes.
 * Method: the published note and keys of Go's package note; round trips; every byte of a signed
 * checkpoint changed once; a table of malformed inputs. Go itself reads our notes in the system
 * test of the ledger's proofs. */
#include "ron/merkle/lines.h"
#include "support/support.h"

#include "ledger/proof/checkpoint.h"
#include "merkle/note_priv.h"

/* The example of golang.org/x/mod/sumdb/note. */
static const char go_vkey[] = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
static const char go_skey[] =
    "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
static const char go_text[] = "If you think cryptography is the answer to your problem,\n"
                              "then you don't know what your problem is.\n";
static const char go_note[] =
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\xe2\x80\x94 PeterNeumann "
    "x08go/ZJkuBS9UG/"
    "SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

static const uint8_t log_seed[32] = {1, 2, 3};
static const uint8_t witness_seed[32] = {4, 5, 6};

static struct ron_str str(const char *text)
{
    return (struct ron_str){.ptr = text, .len = strlen(text)};
}

static struct ron_str content(const struct ron_buf *buf)
{
    return (struct ron_str){.ptr = (const char *)ron_buf_data(buf), .len = ron_buf_len(buf)};
}

static struct ron_note_signer log_signer(void)
{
    struct ron_note_signer signer;

    assert_int_equal(
        ron_note_signer_make(str("ledger.example/main"), RON_NOTE_ED25519, log_seed, &signer, NULL),
        RON_OK);
    return signer;
}

static struct ron_note_signer witness_signer(void)
{
    struct ron_note_signer signer;

    assert_int_equal(ron_note_signer_make(str("witness.example/w1"), RON_NOTE_COSIGNATURE,
                                          witness_seed, &signer, NULL),
                     RON_OK);
    return signer;
}

static void sign_checkpoint(struct ron_buf *out)
{
    struct ron_note_signer signer = log_signer();
    struct led_checkpoint c = {.origin = str("ledger.example/main"), .size = 20852163};

    memset(&c.root, 0x5a, sizeof c.root);
    ron_buf_init(out, LED_NOTE_BYTES_MAX);
    assert_int_equal(led_checkpoint_sign(&c, &signer, out, NULL), RON_OK);
}

static void test_note__published_example__read_verified_and_written_alike(void **state)
{
    struct ron_note_key key;
    struct ron_note_signer signer;
    struct led_note note;
    struct ron_buf out;
    uint64_t time_s = 7;

    (void)state;
    assert_int_equal(ron_note_key_read(str(go_vkey), &key, NULL), RON_OK);
    assert_string_equal(key.name, "PeterNeumann");
    assert_int_equal(key.id, 0xc74f20a3);
    assert_int_equal(led_note_read(str(go_note), &note, NULL), RON_OK);
    assert_int_equal(note.sig_count, 1);
    assert_int_equal(note.text.len, strlen(go_text));
    assert_int_equal(led_note_verify(&note, &key, &time_s), LED_NOTE_GOOD);
    assert_int_equal(time_s, 0);

    assert_int_equal(ron_note_signer_read(str(go_skey), &signer, NULL), RON_OK);
    ron_buf_init(&out, 4096);
    assert_int_equal(led_note_sign(str(go_text), &signer, 0, &out, NULL), RON_OK);
    assert_string_equal(ron_buf_text(&out), go_note);
    ron_buf_clear(&out);
    assert_int_equal(ron_note_signer_write(&signer, &out), RON_OK);
    assert_string_equal(ron_buf_text(&out), go_skey);
    ron_buf_clear(&out);
    assert_int_equal(ron_note_key_write(&signer.key, &out), RON_OK);
    assert_string_equal(ron_buf_text(&out), go_vkey);
    ron_buf_done(&out);
    ron_note_signer_done(&signer);
}

static void test_note__bad_keys__refused_untouched(void **state)
{
    static const struct {
        const char *text;
        enum ron_rc rc;
    } bad[] = {
        {"", RON_CORRUPT},
        {"PeterNeumann", RON_CORRUPT},
        {"PeterNeumann+c74f20a3", RON_CORRUPT},
        {"+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", RON_CORRUPT},
        {"Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", RON_CORRUPT},
        {"Peter\xc2\xa0Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", RON_CORRUPT},
        {"Peter\xffNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", RON_CORRUPT},
        {"PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", RON_CORRUPT},
        {"PeterNeumann+c74f20a+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", RON_CORRUPT},
        {"PeterNeumann+c74f20ag+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", RON_CORRUPT},
        {"PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10T", RON_CORRUPT},
        {"PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW ", RON_CORRUPT},
        {"PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy", RON_CORRUPT},
        {"PeterNeumann+c74f20a3+Ahpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", RON_UNSUPPORTED},
        {"PeterNeumann+c74f20a3+", RON_CORRUPT},
    };
    struct ron_note_key key = {.id = 77};
    struct ron_note_signer signer = {.key.id = 77};
    char long_name[RON_NOTE_NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_int_equal(ron_note_key_read(str(bad[i].text), &key, NULL), bad[i].rc);
        assert_int_equal(key.id, 77);
    }
    assert_int_equal(ron_note_signer_read(str(go_vkey), &signer, NULL), RON_CORRUPT);
    /* The id of the public half belongs to the name. */
    assert_int_equal(
        ron_note_signer_read(
            str("PRIVATE+KEY+PeterNeuman+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"),
            &signer, NULL),
        RON_CORRUPT);
    assert_int_equal(signer.key.id, 77);
    memset(long_name, 'a', sizeof long_name);
    assert_int_equal(ron_note_signer_make((struct ron_str){.ptr = long_name, .len = 256},
                                          RON_NOTE_ED25519, log_seed, &signer, NULL),
                     RON_INVALID);
    assert_int_equal(ron_note_signer_make(str("a+b"), RON_NOTE_ED25519, log_seed, &signer, NULL),
                     RON_INVALID);
    assert_int_equal(ron_note_signer_make((struct ron_str){.ptr = long_name, .len = 255},
                                          RON_NOTE_ED25519, log_seed, &signer, NULL),
                     RON_OK);
}

static void test_note__malformed__refused(void **state)
{
#define SIG "\xe2\x80\x94 a AAAAAAA=\n"
    static const struct {
        const char *text;
        size_t len;
        enum ron_rc rc;
    } rows[] = {
#define ROW(text, rc) {text, sizeof(text) - 1, rc}
        ROW("a\n\n" SIG, RON_OK),
        ROW("a\n\nb\n\n" SIG, RON_OK),
        ROW("\n\n" SIG, RON_OK),
        ROW("a\xc3\xa8\n\n" SIG SIG, RON_OK),
        ROW("", RON_CORRUPT),
        ROW("\n", RON_CORRUPT),
        ROW("\n\n", RON_CORRUPT),
        ROW("\n" SIG, RON_CORRUPT),
        ROW("a\n", RON_CORRUPT),
        ROW("a\n\n", RON_CORRUPT),
        ROW("a\n" SIG, RON_CORRUPT),
        ROW("a\n\n" SIG "\n", RON_CORRUPT),
        ROW("a\n\n" SIG "x\n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94 a AAAAAAA=", RON_CORRUPT),
        ROW("a\r\n\n" SIG, RON_CORRUPT),
        ROW("a\t\n\n" SIG, RON_CORRUPT),
        ROW("a\0\n\n" SIG, RON_CORRUPT),
        ROW("a\xff\n\n" SIG, RON_CORRUPT),
        ROW("a\n\n- a AAAAAAA=\n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94 a\n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94  AAAAAAA=\n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94 a  AAAAAAA=\n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94 a AAAAAAA= \n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94 a+b AAAAAAA=\n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94 a AAAAAA==\n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94 a AAAAAAA\n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94 a AAAAAAB=\n", RON_CORRUPT),
        ROW("a\n\n\xe2\x80\x94 a AAAA-AA=\n", RON_CORRUPT),
#undef ROW
    };
    struct led_note note;
    struct ron_buf many;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_str bytes = {.ptr = rows[i].text, .len = rows[i].len};

        if (led_note_read(bytes, &note, NULL) != rows[i].rc) {
            fail_msg("row %zu: %s", i, rows[i].text);
        }
    }
    ron_buf_init(&many, LED_NOTE_BYTES_MAX + 10);
    assert_int_equal(ron_buf_append_text(&many, "a\n\n"), RON_OK);
    for (int i = 0; i < LED_NOTE_SIGS_MAX; i++) {
        assert_int_equal(ron_buf_append_text(&many, SIG), RON_OK);
    }
    assert_int_equal(led_note_read(content(&many), &note, NULL), RON_OK);
    assert_int_equal(note.sig_count, LED_NOTE_SIGS_MAX);
    assert_int_equal(ron_buf_append_text(&many, SIG), RON_OK);
    assert_int_equal(led_note_read(content(&many), &note, NULL), RON_LIMIT);
    while (ron_buf_append_byte(&many, 'a') == RON_OK) {
    }
    assert_int_equal(led_note_read(content(&many), &note, NULL), RON_LIMIT);
    ron_buf_done(&many);
#undef SIG
}

static void test_note__texts_that_cannot_be_signed__invalid(void **state)
{
    struct ron_note_signer signer = log_signer();
    struct ron_note_signer witness = witness_signer();
    struct ron_buf out;

    (void)state;
    ron_buf_init(&out, 4096);
    assert_int_equal(led_note_sign_line(str(""), &signer, 0, &out, NULL), RON_INVALID);
    assert_int_equal(led_note_sign_line(str("a"), &signer, 0, &out, NULL), RON_INVALID);
    assert_int_equal(led_note_sign_line(str("a\t\n"), &signer, 0, &out, NULL), RON_INVALID);
    assert_int_equal(led_note_sign_line(str("a\n"), &witness, UINT64_MAX, &out, NULL), RON_LIMIT);
    assert_int_equal(ron_buf_len(&out), 0);
    ron_buf_done(&out);
}

static void test_checkpoint__written__the_lines_of_the_document(void **state)
{
    struct led_checkpoint c = {.origin = str("example.com/behind-the-sofa"), .size = 20852163};
    struct led_checkpoint back;
    struct ron_buf out;

    (void)state;
    assert_true(ron_tree_hash_read(str("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="), &c.root));
    ron_buf_init(&out, 4096);
    assert_int_equal(led_checkpoint_write(&c, &out, NULL), RON_OK);
    assert_string_equal(ron_buf_text(&out), "example.com/behind-the-sofa\n20852163\n"
                                            "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n");
    assert_int_equal(led_checkpoint_read(content(&out), &back, NULL), RON_OK);
    assert_int_equal(back.size, c.size);
    assert_true(ron_tree_hash_equal(&back.root, &c.root));
    assert_int_equal(back.extensions.len, 0);
    ron_buf_clear(&out);
    c.extensions = str("one\ntwo\n");
    assert_int_equal(led_checkpoint_write(&c, &out, NULL), RON_OK);
    assert_int_equal(led_checkpoint_read(content(&out), &back, NULL), RON_OK);
    assert_int_equal(back.extensions.len, 8);
    c.extensions = str("one\n\n");
    assert_int_equal(led_checkpoint_write(&c, &out, NULL), RON_INVALID);
    c.extensions = str("one");
    assert_int_equal(led_checkpoint_write(&c, &out, NULL), RON_INVALID);
    c.extensions = str("");
    c.origin = str("a\nb");
    assert_int_equal(led_checkpoint_write(&c, &out, NULL), RON_INVALID);
    c.origin = str("a");
    c.size = 0; /* with the root of something */
    assert_int_equal(led_checkpoint_write(&c, &out, NULL), RON_INVALID);
    ron_buf_done(&out);
}

static void test_checkpoint__malformed__refused(void **state)
{
#define ROOT "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
    static const char *const bad[] = {
        "",
        "a\n",
        "a\n1\n",
        "a\n1\n" ROOT,
        "\n1\n" ROOT "\n",
        "a\n01\n" ROOT "\n",
        "a\n+1\n" ROOT "\n",
        "a\n-1\n" ROOT "\n",
        "a\n\n" ROOT "\n",
        "a\n1 \n" ROOT "\n",
        "a\n9223372036854775808\n" ROOT "\n",
        "a\n18446744073709551617\n" ROOT "\n",
        "a\n0\n" ROOT "\n",
        "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2=\n",
        "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I\n",
        "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=\n",
        "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2Jh\n",
        "a\n1\n" ROOT "\n\n",
        "a\n1\n" ROOT "\nx",
        "a\n1\n" ROOT "\nx\n\ny\n",
    };
    struct led_checkpoint c;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        if (led_checkpoint_read(str(bad[i]), &c, NULL) != RON_CORRUPT) {
            fail_msg("row %zu: %s", i, bad[i]);
        }
    }
    assert_int_equal(
        led_checkpoint_read(str("a\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"), &c, NULL),
        RON_OK);
    assert_int_equal(led_checkpoint_read(str("a\n9223372036854775807\n" ROOT "\n"), &c, NULL),
                     RON_OK);
#undef ROOT
}

static void test_checkpoint__any_byte_changed__never_believed(void **state)
{
    struct ron_note_signer signer = log_signer();
    struct led_trust trust = {
        .origin = str("ledger.example/main"), .log_keys = &signer.key, .log_key_count = 1};
    struct led_checkpoint c;
    struct ron_buf out;
    uint8_t *bytes;

    (void)state;
    sign_checkpoint(&out);
    assert_int_equal(led_checkpoint_open(content(&out), &trust, &c, NULL), RON_OK);
    assert_int_equal(c.size, 20852163);
    bytes = (uint8_t *)(uintptr_t)ron_buf_data(&out);
    for (size_t i = 0; i < ron_buf_len(&out); i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1U << bit);
            assert_int_not_equal(led_checkpoint_open(content(&out), &trust, &c, NULL), RON_OK);
            bytes[i] ^= (uint8_t)(1U << bit);
        }
    }
    assert_int_equal(led_checkpoint_open(content(&out), &trust, &c, NULL), RON_OK);
    trust.origin = str("ledger.example/other");
    assert_int_equal(led_checkpoint_open(content(&out), &trust, &c, NULL), RON_DENIED);
    ron_buf_done(&out);
}

static void test_cosignature__of_a_witness__attached_and_counted(void **state)
{
    struct ron_note_signer log = log_signer();
    struct ron_note_signer witness = witness_signer();
    struct led_trust trust = {.origin = str("ledger.example/main"),
                              .log_keys = &log.key,
                              .log_key_count = 1,
                              .witness_keys = &witness.key,
                              .witness_key_count = 1,
                              .witnesses_needed = 1};
    struct led_checkpoint c;
    struct led_note note;
    struct ron_buf bytes;
    struct ron_buf line;
    uint64_t time_s = 0;

    (void)state;
    sign_checkpoint(&bytes);
    assert_int_equal(led_checkpoint_open(content(&bytes), &trust, &c, NULL), RON_DENIED);
    assert_int_equal(led_note_read(content(&bytes), &note, NULL), RON_OK);
    assert_int_equal(led_note_verify(&note, &witness.key, NULL), LED_NOTE_ABSENT);
    ron_buf_init(&line, 4096);
    assert_int_equal(led_note_sign_line(note.text, &witness, 1679315147, &line, NULL), RON_OK);

    assert_int_equal(led_note_attach(&bytes, content(&line), &log.key, 1, NULL), RON_NOTFOUND);
    assert_int_equal(led_note_attach(&bytes, str("x"), &witness.key, 1, NULL), RON_CORRUPT);
    assert_int_equal(led_note_attach(&bytes, str(""), &witness.key, 1, NULL), RON_CORRUPT);
    assert_int_equal(led_note_attach(&bytes, content(&line), &witness.key, 1, NULL), RON_OK);
    assert_int_equal(led_note_attach(&bytes, content(&line), &witness.key, 1, NULL), RON_EXISTS);
    assert_int_equal(led_checkpoint_open(content(&bytes), &trust, &c, NULL), RON_OK);
    assert_int_equal(led_note_read(content(&bytes), &note, NULL), RON_OK);
    assert_int_equal(note.sig_count, 2);
    assert_int_equal(led_note_verify(&note, &witness.key, &time_s), LED_NOTE_GOOD);
    assert_int_equal(time_s, 1679315147);
    trust.witnesses_needed = 2;
    assert_int_equal(led_checkpoint_open(content(&bytes), &trust, &c, NULL), RON_DENIED);
    ron_buf_done(&bytes);
    ron_buf_done(&line);
}

/* The same key bytes and name as log and as witness: two ids, and neither stands for the other. */
static void test_cosignature__of_another_message_or_time__refused(void **state)
{
    struct ron_note_signer witness = witness_signer();
    struct ron_note_signer plain;
    struct led_note note;
    struct ron_buf bytes;
    struct ron_buf line;
    char *at;

    (void)state;
    assert_int_equal(ron_note_signer_make(str("witness.example/w1"), RON_NOTE_ED25519, witness_seed,
                                          &plain, NULL),
                     RON_OK);
    assert_int_not_equal(plain.key.id, witness.key.id);
    sign_checkpoint(&bytes);
    ron_buf_init(&line, 4096);
    assert_int_equal(led_note_sign_line(str("other\n"), &witness, 5, &line, NULL), RON_OK);
    assert_int_equal(led_note_attach(&bytes, content(&line), &witness.key, 1, NULL), RON_DENIED);
    ron_buf_clear(&line);
    assert_int_equal(led_note_read(content(&bytes), &note, NULL), RON_OK);
    assert_int_equal(led_note_sign_line(note.text, &plain, 0, &line, NULL), RON_OK);
    assert_int_equal(led_note_attach(&bytes, content(&line), &witness.key, 1, NULL), RON_NOTFOUND);
    /* The time is signed too: its lowest bits stand in the 16th character behind the name. */
    ron_buf_clear(&line);
    assert_int_equal(led_note_sign_line(note.text, &witness, 5, &line, NULL), RON_OK);
    at = strchr(strstr(ron_buf_text(&line), "w1"), ' ') + 1;
    at[15] = at[15] == 'F' ? 'G' : 'F';
    assert_int_equal(led_note_attach(&bytes, content(&line), &witness.key, 1, NULL), RON_DENIED);
    ron_buf_done(&bytes);
    ron_buf_done(&line);
}

static void test_note__second_line_of_a_key__bad(void **state)
{
    struct ron_note_key key;
    struct led_note note;
    struct ron_buf out;

    (void)state;
    assert_int_equal(ron_note_key_read(str(go_vkey), &key, NULL), RON_OK);
    ron_buf_init(&out, 4096);
    assert_int_equal(ron_buf_append_text(&out, go_note), RON_OK);
    assert_int_equal(ron_buf_append_text(&out, strstr(go_note, "\n\n") + 2), RON_OK);
    assert_int_equal(led_note_read(content(&out), &note, NULL), RON_OK);
    assert_int_equal(note.sig_count, 2);
    assert_int_equal(led_note_verify(&note, &key, NULL), LED_NOTE_BAD);
    assert_int_equal(led_note_check(&note, &key, 1, 1, NULL), RON_DENIED);
    /* A key that shares the name alone, or the id alone, is another key. */
    assert_int_equal(led_note_read(str(go_note), &note, NULL), RON_OK);
    assert_int_equal(led_note_check(&note, &key, 1, 1, NULL), RON_OK);
    key.id ^= 1;
    assert_int_equal(led_note_verify(&note, &key, NULL), LED_NOTE_ABSENT);
    key.id ^= 1;
    key.name[0] = 'p';
    assert_int_equal(led_note_verify(&note, &key, NULL), LED_NOTE_ABSENT);
    key.name[0] = 'P';
    key.public_key[0] ^= 1;
    assert_int_equal(led_note_verify(&note, &key, NULL), LED_NOTE_BAD);
    ron_buf_done(&out);
}

static enum ron_rc attach_life(void *arg)
{
    struct ron_note_signer log;
    struct ron_note_signer witness;
    struct led_checkpoint c = {.origin = str("o"), .size = 1};
    struct ron_buf bytes;
    struct ron_buf line;
    enum ron_rc rc;

    (void)arg;
    ron_buf_init(&bytes, LED_NOTE_BYTES_MAX);
    ron_buf_init(&line, 4096);
    RON_GOTO(ron_note_signer_make(str("o"), RON_NOTE_ED25519, log_seed, &log, NULL), out);
    RON_GOTO(ron_note_signer_make(str("w"), RON_NOTE_COSIGNATURE, witness_seed, &witness, NULL),
             out);
    RON_GOTO(led_checkpoint_sign(&c, &log, &bytes, NULL), out);
    RON_GOTO(led_note_sign_line(str("o\n1\n"), &witness, 1, &line, NULL), out);
out:
    ron_buf_done(&bytes);
    ron_buf_done(&line);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_note__no_memory__clean_error, attach_life)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_note__published_example__read_verified_and_written_alike),
        cmocka_unit_test(test_note__bad_keys__refused_untouched),
        cmocka_unit_test(test_note__malformed__refused),
        cmocka_unit_test(test_note__texts_that_cannot_be_signed__invalid),
        cmocka_unit_test(test_checkpoint__written__the_lines_of_the_document),
        cmocka_unit_test(test_checkpoint__malformed__refused),
        cmocka_unit_test(test_checkpoint__any_byte_changed__never_believed),
        cmocka_unit_test(test_cosignature__of_a_witness__attached_and_counted),
        cmocka_unit_test(test_cosignature__of_another_message_or_time__refused),
        cmocka_unit_test(test_note__second_line_of_a_key__bad),
        cmocka_unit_test(test_note__no_memory__clean_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
