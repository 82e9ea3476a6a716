/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: cosignatures are taken when they are right, refused with the code that says why otherwise,
 * and passed over when nobody here knows who made them.
 * Method: a signer on real files, and witnesses made by led_note. */
#include "unit/ledger/sign_fixture.h"

#include "ron/io/file.h"

static void test_led_sign__cosignatures__attached_counted_and_saved(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    char memory[NOTE];
    char lines[2 * NOTE];
    char other[NOTE];
    size_t count = 0;
    struct ron_buf out;

    (void)state;
    publish(s, 6);
    published(s, 0, memory);
    assert_int_equal(cosign(s, line_of(&witnesses[0], STR(memory), lines), LED_SIGN_NEWEST),
                     RON_OK);
    expect_good(s, published(s, 1, memory), 6, 1);
    expect_good(s, checkpoint(s, 6, memory), 6, 1); /* also who asks for the head gets it */
    ron_buf_init_over(&out, other, sizeof other);
    assert_int_equal(led_signer_published(s, 2, &out, NULL), RON_NOTFOUND);
    /* Two at once, as a whole note that has the first one too, without the last newline. */
    (void)snprintf(lines, sizeof lines, "%s%s", memory,
                   line_of(&witnesses[1], STR(memory), other).ptr);
    (void)strncat(lines, line_of(&witnesses[2], STR(memory), other).ptr,
                  sizeof lines - strlen(lines) - 1);
    assert_int_equal(led_signer_cosign(s, STR(lines), 999, &count, NULL), RON_OK);
    assert_int_equal(count, 2);
    expect_good(s, published(s, 3, memory), 6, 3);
    assert_int_equal(stats_of(s).cosignatures, 3);
    assert_int_equal(led_signer_save(s, NULL), RON_OK); /* nothing but them is new */
    assert_int_equal(stats_of(s).published, 1);
    led_signer_free(s);
    s = open_signer(&o);
    expect_good(s, published(s, 3, memory), 6, 3);
    assert_int_equal(cosign(s, line_of(&witnesses[0], STR(memory), lines), 6), RON_EXISTS);
    led_signer_free(s);
}

static void test_led_sign__cosignature_late__kept_for_some_intervals(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    char memory[NOTE];
    char line[NOTE];
    char old_line[NOTE];

    (void)state;
    publish(s, 1);
    line_of(&witnesses[0], published(s, 0, memory), old_line);
    publish(s, 2);
    line_of(&witnesses[0], published(s, 0, memory), line);
    for (uint64_t size = 3; size <= LED_SIGN_KEPT + 1; size++) {
        publish(s, size);
    }
    assert_int_equal(cosign(s, STR(old_line), 1), RON_CONFLICT); /* one too many */
    assert_int_equal(cosign(s, STR(line), LED_SIGN_NEWEST), RON_DENIED);
    assert_int_equal(cosign(s, STR(line), 2), RON_OK);
    expect_good(s, published(s, 1, memory), 2, 1);
    expect_good(s, published(s, 0, memory), LED_SIGN_KEPT + 1, 0);
    led_signer_free(s);
}

static void test_led_sign__cosignature_wrong__refused_by_kind_and_nothing_taken(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    struct ron_note_signer stranger = witness_make("witness.example/w9", 99);
    struct ron_note_signer liar = witness_make("witness.example/w0", 98); /* another id */
    char memory[NOTE];
    char before[NOTE];
    char good[NOTE];
    char line[NOTE];
    char body[2 * NOTE];

    (void)state;
    assert_int_equal(cosign(s, STR("\xe2\x80\x94 a AAAAAAA="), LED_SIGN_NEWEST), RON_CONFLICT);
    publish(s, 6);
    published(s, 0, before);
    line_of(&witnesses[0], STR(before), good);
    assert_int_equal(cosign(s, line_of(&stranger, STR(before), line), LED_SIGN_NEWEST),
                     RON_NOTFOUND);
    assert_int_equal(cosign(s, line_of(&liar, STR(before), line), LED_SIGN_NEWEST), RON_NOTFOUND);
    assert_int_equal(cosign(s, STR(good), 7), RON_CONFLICT);
    assert_int_equal(cosign(s, line_of(&witnesses[0], checkpoint(s, 7, memory), line), 6),
                     RON_DENIED); /* of a checkpoint that was not published */
    (void)snprintf(body, sizeof body, "%s%s", memory, line);
    assert_int_equal(cosign(s, STR(body), 6), RON_CONFLICT); /* the whole note says so */
    assert_int_equal(cosign(s, STR(""), 6), RON_CORRUPT);
    assert_int_equal(cosign(s, STR("hello\n"), 6), RON_CORRUPT);
    assert_int_equal(cosign(s, STR(before), 6), RON_EXISTS); /* nothing but our own line */
    memset(body, 'x', LED_SIGN_NOTE_SIZE);
    body[LED_SIGN_NOTE_SIZE] = '\0';
    assert_int_equal(cosign(s, STR(body), 6), RON_LIMIT);
    /* One bad line of a known witness among good ones: none is taken. */
    line_of(&witnesses[1], STR(before), line);
    line[strlen(line) - 10] = line[strlen(line) - 10] == 'A' ? 'B' : 'A';
    (void)snprintf(body, sizeof body, "%s%s", good, line);
    assert_int_equal(cosign(s, STR(body), 6), RON_DENIED);
    (void)snprintf(body, sizeof body, "%s%s", before, line_of(&stranger, STR(before), line).ptr);
    assert_int_equal(cosign(s, STR(body), 6), RON_NOTFOUND); /* beside our own line alone */
    (void)snprintf(body, sizeof body, "%s\n%s", good, good);
    assert_int_equal(cosign(s, STR(body), 6), RON_CORRUPT); /* an empty line */
    (void)snprintf(body, sizeof body, "%s6\n", good);
    assert_int_equal(cosign(s, STR(body), 6), RON_CORRUPT); /* a line of the text is none of ours */
    for (size_t i = strlen(good) - 20; i < strlen(good) - 4; i++) {
        (void)snprintf(body, sizeof body, "%s", good);
        body[i] = body[i] == 'A' ? 'B' : 'A';
        assert_int_equal(cosign(s, STR(body), 6), RON_DENIED);
    }
    assert_string_equal(published(s, 0, memory).ptr, before);
    assert_int_equal(stats_of(s).cosignatures, 0);
    assert_int_equal(cosign(s, STR(good), 6), RON_OK);
    assert_int_equal(cosign(s, STR(good), 6), RON_EXISTS);
    led_signer_free(s);
}

static void test_led_sign__cosignatures_of_strangers__passed_over(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    struct ron_note_signer stranger = witness_make("witness.example/w9", 99);
    char memory[NOTE];
    char strange[NOTE];
    char good[NOTE];
    char body[3 * NOTE];
    size_t count = 0;

    (void)state;
    publish(s, 6);
    published(s, 0, memory);
    line_of(&stranger, STR(memory), strange);
    line_of(&witnesses[0], STR(memory), good);
    (void)snprintf(body, sizeof body, "%s%s%s", memory, strange, good); /* whole, stranger first */
    assert_int_equal(led_signer_cosign(s, STR(body), LED_SIGN_NEWEST, &count, NULL), RON_OK);
    assert_int_equal(count, 1);
    (void)snprintf(body, sizeof body, "%s%s", strange,
                   line_of(&witnesses[1], STR(memory), good).ptr);
    assert_int_equal(cosign(s, STR(body), 6), RON_OK);
    expect_good(s, published(s, 2, memory), 6, 2);
    assert_null(strstr(memory, stranger.key.name)); /* G3 */
    (void)snprintf(body, sizeof body, "%s%s", memory, strange);
    assert_int_equal(cosign(s, STR(body), 6), RON_EXISTS); /* the known ones are there already */
    led_signer_free(s);
}

/* ---- what witnesses signed is kept ----------------------------------------------------------- */

static enum ron_rc covering(struct led_signer *s, size_t needed, uint64_t from, uint64_t to,
                            char *memory)
{
    struct ron_buf out;
    enum ron_rc rc;

    ron_buf_init_over(&out, memory, NOTE);
    rc = led_signer_covering(s, needed, from, to, &out, NULL);
    (void)ron_buf_text(&out);
    return rc;
}

static void cosign_by(struct led_signer *s, size_t witness, uint64_t size)
{
    char memory[NOTE];
    char line[NOTE];

    assert_int_equal(
        cosign(s, line_of(&witnesses[witness], checkpoint(s, size, memory), line), size), RON_OK);
}

static void test_led_sign__covering__newest_of_that_size_that_enough_have_signed(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    char memory[NOTE];

    (void)state;
    assert_int_equal(covering(s, 0, 0, UINT64_MAX, memory), RON_NOTFOUND);
    publish(s, 3);
    publish(s, 6);
    publish(s, 9);
    cosign_by(s, 0, 3);
    cosign_by(s, 1, 3);
    cosign_by(s, 0, 6);
    assert_int_equal(covering(s, 1, 2, 9, memory), RON_OK);
    expect_good(s, STR(memory), 6, 1);
    assert_int_equal(covering(s, 2, 2, 9, memory), RON_OK);
    expect_good(s, STR(memory), 3, 2);
    assert_int_equal(covering(s, 1, 2, 5, memory), RON_OK); /* the caller knows no more than 5 */
    expect_good(s, STR(memory), 3, 2);
    assert_int_equal(covering(s, 1, 7, 9, memory), RON_NOTFOUND);
    assert_int_equal(covering(s, 2, 4, 9, memory), RON_NOTFOUND);
    assert_int_equal(covering(s, 0, 7, 9, memory), RON_OK);
    led_signer_free(s);
}

static void test_led_sign__cosigned__kept_beside_the_checkpoint(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    char memory[NOTE];
    char path[300];

    (void)state;
    (void)snprintf(path, sizeof path, "%s.cosigned", note_path);
    publish(s, 3);
    assert_int_not_equal(access(path, F_OK), 0);
    cosign_by(s, 0, 3);
    cosign_by(s, 1, 3);
    publish(s, 4);
    cosign_by(s, 0, 4); /* fewer than the one before, which witnesses may still sign */
    for (uint64_t size = 5; size <= LED_SIGN_KEPT + 2; size++) {
        publish(s, size);
    }
    assert_int_equal(covering(s, 2, 1, 99, memory), RON_OK);
    led_signer_free(s);
    s = open_signer(&o);
    assert_int_equal(covering(s, 2, 1, 99, memory), RON_OK); /* from the disk */
    expect_good(s, STR(memory), 3, 2);
    led_signer_free(s);

    s = open_signer(&o);
    publish(s, 100);
    cosign_by(s, 2, 100); /* alone among the kept ones */
    assert_int_equal(led_signer_save(s, NULL), RON_OK);
    publish(s, 101);
    led_signer_free(s);
    s = open_signer(&o);
    assert_int_equal(covering(s, 1, 1, 999, memory), RON_OK);
    expect_good(s, STR(memory), 100, 1);
    led_signer_free(s);
}

static void test_led_sign__cosigned_file_wrong__start_refused(void **state)
{
    struct led_signer_opts o = on_disk();
    struct led_signer *s = open_signer(&o);
    struct led_signer *none = NULL;
    struct ron_err err = {0};
    char memory[NOTE];
    char path[300];

    (void)state;
    (void)snprintf(path, sizeof path, "%s.cosigned", note_path);
    publish(s, 3);
    checkpoint(s, 7, memory); /* signed, and never published */
    led_signer_free(s);
    assert_int_equal(ron_file_replace(&env, path, "x\n", 2, 0600, NULL), RON_OK);
    assert_int_equal(led_signer_new(&o, &none, &err), RON_CORRUPT);
    assert_non_null(strstr(err.msg, "checkpoint.cosigned"));
    assert_int_equal(ron_file_replace(&env, path, memory, strlen(memory), 0600, NULL), RON_OK);
    assert_int_equal(led_signer_new(&o, &none, &err), RON_CONFLICT);
    assert_non_null(strstr(err.msg, "contradicts"));
    assert_int_equal(unlink(note_path), 0);
    assert_int_equal(led_signer_new(&o, &none, &err), RON_CONFLICT);
    assert_non_null(strstr(err.msg, "is missing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_led_sign__cosignatures__attached_counted_and_saved),
        CASE(test_led_sign__cosignature_late__kept_for_some_intervals),
        CASE(test_led_sign__cosignature_wrong__refused_by_kind_and_nothing_taken),
        CASE(test_led_sign__cosignatures_of_strangers__passed_over),
        CASE(test_led_sign__covering__newest_of_that_size_that_enough_have_signed),
        CASE(test_led_sign__cosigned__kept_beside_the_checkpoint),
        CASE(test_led_sign__cosigned_file_wrong__start_refused),
    };

    return cmocka_run_group_tests(tests, group_setup, NULL);
}
