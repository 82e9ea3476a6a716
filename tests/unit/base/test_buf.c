/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a buffer holds exactly what was appended and not consumed, never more than its maximum, and
 * its first failure sticks.
 * Method: a random driver beside a plain array as the model, over heap and over caller memory. */
#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/base/buf.h"

#define MODEL_SIZE 2048

static bool fail_next;

static bool failing_hook(enum ron_fault_kind kind, const char *site)
{
    (void)kind;
    (void)site;
    return fail_next;
}

static void test_buf__fresh__is_empty_text(void **state)
{
    (void)state;
    struct ron_buf buf;

    ron_buf_init(&buf, 10);
    assert_int_equal(ron_buf_len(&buf), 0);
    assert_string_equal(ron_buf_text(&buf), "");
    assert_non_null(ron_buf_data(&buf));
    assert_int_equal(ron_buf_append(&buf, NULL, 0), RON_OK);
    assert_int_equal(ron_buf_append_text(&buf, ""), RON_OK);
    assert_int_equal(ron_buf_append_fmt(&buf, "%s", ""), RON_OK);
    assert_string_equal(ron_buf_text(&buf), "");
    ron_buf_done(&buf);
    ron_buf_done(&buf);
}

static void test_buf__aligned__begins_on_a_multiple_whenever_it_grows(void **state)
{
    enum { ALIGN = 4096 };
    struct ron_buf buf;

    (void)state;
    ron_buf_init_aligned(&buf, 1 << 20, ALIGN);
    for (int i = 0; i < 1 << 15; i++) {
        assert_int_equal(ron_buf_append(&buf, "0123456789abcdef", 16), RON_OK);
        assert_int_equal((uintptr_t)ron_buf_data(&buf) % ALIGN, 0);
    }
    assert_memory_equal(ron_buf_data(&buf) + (1 << 19) - 16, "0123456789abcdef", 16);
    ron_buf_done(&buf);
}

static void test_buf__maximum__is_reached_and_not_passed(void **state)
{
    (void)state;
    struct ron_buf buf;
    char memory[9];

    for (int fixed = 0; fixed < 2; fixed++) {
        if (fixed == 1) {
            ron_buf_init_over(&buf, memory, sizeof(memory));
        } else {
            ron_buf_init(&buf, 8);
        }
        assert_int_equal(ron_buf_append_text(&buf, "12345"), RON_OK);
        assert_int_equal(ron_buf_append_fmt(&buf, "%d", 678), RON_OK);
        assert_string_equal(ron_buf_text(&buf), "12345678");
        assert_int_equal(ron_buf_append_byte(&buf, '9'), RON_LIMIT);
        assert_string_equal(ron_buf_text(&buf), "12345678");
        ron_buf_done(&buf);
    }
}

static void test_buf__failure__sticks_and_leaves_the_content(void **state)
{
    (void)state;
    struct ron_buf buf;
    uint8_t *room = NULL;

    ron_buf_init(&buf, 4);
    assert_int_equal(ron_buf_append_text(&buf, "ab"), RON_OK);
    assert_int_equal(ron_buf_append_fmt(&buf, "%s", "too long"), RON_LIMIT);
    assert_int_equal(ron_buf_append_byte(&buf, 'c'), RON_LIMIT); /* it would fit, but B2 */
    assert_int_equal(ron_buf_append_fmt(&buf, "c"), RON_LIMIT);
    assert_int_equal(ron_buf_reserve(&buf, 1, &room), RON_LIMIT);
    assert_null(room);
    assert_int_equal(ron_buf_error(&buf), RON_LIMIT);
    assert_string_equal(ron_buf_text(&buf), "ab");
    ron_buf_clear(&buf);
    assert_int_equal(ron_buf_error(&buf), RON_OK);
    assert_int_equal(ron_buf_append_text(&buf, "cdef"), RON_OK);
    assert_string_equal(ron_buf_text(&buf), "cdef");
    ron_buf_done(&buf);
}

static void test_buf__no_memory__is_reported_unless_moving_helps(void **state)
{
    (void)state;
    struct ron_buf buf;
    char line[301];

    memset(line, 'x', 300);
    line[300] = '\0';
    ron_buf_init(&buf, 10000);
    ron_fault_hook = failing_hook;
    fail_next = true;
    assert_int_equal(ron_buf_append_text(&buf, "a"), RON_NOMEM);
    fail_next = false;
    ron_buf_clear(&buf);
    assert_int_equal(ron_buf_append(&buf, line, 250), RON_OK); /* 256 bytes of memory */
    fail_next = true;
    assert_int_equal(ron_buf_append_fmt(&buf, "%s", line), RON_NOMEM);
    assert_int_equal(ron_buf_len(&buf), 250);
    ron_buf_clear(&buf);
    assert_int_equal(ron_buf_append(&buf, line, 250), RON_OK);
    ron_buf_consume(&buf, 20);
    /* Growing would be preferred, but moving 230 bytes to the front is enough. */
    assert_int_equal(ron_buf_append(&buf, line, 20), RON_OK);
    assert_int_equal(ron_buf_len(&buf), 250);
    ron_fault_hook = NULL;
    ron_buf_done(&buf);
}

static void test_buf__reserve_and_commit__add_what_was_written(void **state)
{
    (void)state;
    struct ron_buf buf;
    uint8_t *room = NULL;

    ron_buf_init(&buf, 1000);
    assert_int_equal(ron_buf_append_text(&buf, "head "), RON_OK);
    assert_int_equal(ron_buf_reserve(&buf, 500, &room), RON_OK);
    memset(room, 'z', 500);
    assert_int_equal(ron_buf_len(&buf), 5);
    ron_buf_commit(&buf, 3);
    assert_string_equal(ron_buf_text(&buf), "head zzz");
    ron_buf_consume(&buf, 5);
    assert_string_equal(ron_buf_text(&buf), "zzz");
    assert_int_equal(ron_buf_reserve(&buf, 997, &room), RON_OK);
    assert_int_equal(ron_buf_reserve(&buf, 998, &room), RON_LIMIT);
    ron_buf_done(&buf);
}

static void append_somehow(struct ron_buf *buf, struct ron_rand *rand, const char *text, size_t len,
                           enum ron_rc *ret_rc)
{
    uint8_t *room = NULL;

    switch (ron_rand_below(rand, 4)) {
    case 0:
        *ret_rc = ron_buf_append(buf, text, len);
        break;
    case 1:
        *ret_rc = ron_buf_append_text(buf, text);
        break;
    case 2:
        *ret_rc = ron_buf_append_fmt(buf, "%.*s%s", (int)(len / 2), text, text + len / 2);
        break;
    default:
        *ret_rc = len == 0 ? RON_OK : ron_buf_reserve(buf, len, &room);
        if (*ret_rc == RON_OK && len > 0) {
            memcpy(room, text, len);
            ron_buf_commit(buf, len);
        }
        break;
    }
}

static void drive(struct ron_buf *buf, size_t max, struct ron_rand *rand)
{
    char model[MODEL_SIZE + 1] = "";
    size_t len = 0;

    for (int step = 0; step < 2000; step++) {
        if (ron_rand_chance(rand, 1, 2)) {
            size_t consumed = (size_t)ron_rand_below(rand, len + 1);

            ron_buf_consume(buf, consumed);
            memmove(model, model + consumed, len - consumed);
            len -= consumed;
        } else {
            char text[400];
            size_t text_len = (size_t)ron_rand_below(rand, sizeof(text));
            enum ron_rc rc = RON_OK;

            for (size_t i = 0; i < text_len; i++) {
                text[i] = (char)('a' + ron_rand_below(rand, 26));
            }
            text[text_len] = '\0';
            append_somehow(buf, rand, text, text_len, &rc);
            assert_int_equal(rc, len + text_len > max ? RON_LIMIT : RON_OK);
            if (rc == RON_OK) {
                memcpy(model + len, text, text_len);
                len += text_len;
            } else {
                assert_int_equal(ron_buf_error(buf), RON_LIMIT);
                buf->rc = RON_OK; /* go on with the content, which ron_buf_clear would drop */
            }
        }
        model[len] = '\0';
        assert_int_equal(ron_buf_len(buf), len);
        assert_string_equal(ron_buf_text(buf), model);
        assert_memory_equal(ron_buf_data(buf), model, len);
        assert_true(buf->cap <= max);
    }
}

static void test_buf__random_use__matches_an_array(void **state)
{
    (void)state;
    struct ron_rand rand = support_rand();

    for (int round = 0; round < 20; round++) {
        size_t max = (size_t)ron_rand_range(&rand, 1, MODEL_SIZE);
        struct ron_buf buf;
        uint8_t *memory = ron_alloc(max + 1); /* exact, so that a sanitizer sees one byte more */

        ron_buf_init(&buf, max);
        drive(&buf, max, &rand);
        ron_buf_done(&buf);
        assert_non_null(memory);
        ron_buf_init_over(&buf, memory, max + 1);
        drive(&buf, max, &rand);
        ron_buf_done(&buf);
        ron_free(memory);
    }
}

/* A stream of small appends and consumes must not copy the content over and over. */
static void test_buf__long_stream__stays_small(void **state)
{
    (void)state;
    struct ron_buf buf;
    char line[100] = {0};

    ron_buf_init(&buf, 1 << 20);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(ron_buf_append(&buf, line, sizeof(line)), RON_OK);
        assert_int_equal(ron_buf_append(&buf, line, sizeof(line)), RON_OK);
        ron_buf_consume(&buf, 150);
        if (ron_buf_len(&buf) > 1000) {
            ron_buf_consume(&buf, 900);
        }
    }
    assert_true(buf.cap <= 4096);
    ron_buf_done(&buf);
}

static void consume_too_much(void *arg)
{
    ron_buf_consume(arg, 3);
}

static void commit_too_much(void *arg)
{
    ron_buf_commit(arg, 1000000);
}

static void no_maximum(void *arg)
{
    ron_buf_init(arg, 0);
}

static void no_memory(void *arg)
{
    char byte[1];

    ron_buf_init_over(arg, byte, 1);
}

static void test_buf__wrong_use__is_caught(void **state)
{
    (void)state;
    struct ron_buf buf;

    ron_buf_init(&buf, 100);
    assert_int_equal(ron_buf_append_text(&buf, "ab"), RON_OK);
    support_death(consume_too_much, &buf, "consume of more than there is");
    support_death(commit_too_much, &buf, "commit of more than was reserved");
    support_death(no_maximum, &buf, "max > 0");
    support_death(no_memory, &buf, "one byte of content and its NUL");
    ron_buf_done(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf__fresh__is_empty_text),
        cmocka_unit_test(test_buf__maximum__is_reached_and_not_passed),
        cmocka_unit_test(test_buf__failure__sticks_and_leaves_the_content),
        cmocka_unit_test(test_buf__no_memory__is_reported_unless_moving_helps),
        cmocka_unit_test(test_buf__reserve_and_commit__add_what_was_written),
        cmocka_unit_test(test_buf__random_use__matches_an_array),
        cmocka_unit_test(test_buf__aligned__begins_on_a_multiple_whenever_it_grows),
        cmocka_unit_test(test_buf__long_stream__stays_small),
        cmocka_unit_test(test_buf__wrong_use__is_caught),
    };

    return cmocka_run_group_tests_name("base.buf", tests, NULL, NULL);
}
