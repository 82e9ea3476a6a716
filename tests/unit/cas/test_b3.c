/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: hashes are BLAKE3 by the official vectors, however the bytes are cut into pieces or lie
 * side by side; content ids have one spelling.
 * Method: three vectors are kept here; the public file with all of them is read when it lies beside
 * the tree (its case reports itself as skipped otherwise). Lanes are compared with single hashes.
 */
#include "support/support.h"

#include "ron/cas/b3.h"

enum { INPUT_MAX = 102400, VECTOR_HEX = 262, VECTORS_MIN = 30, FILE_MAX = 1 << 20 };

static uint8_t input[INPUT_MAX];

static int fill_input(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof input; i++) {
        input[i] = (uint8_t)(i % 251);
    }
    return 0;
}

static void expect_hex(const struct ron_b3 *hash, const char *hex)
{
    char text[RON_B3_HEX_LEN];

    ron_b3_format_hex(hash, text);
    assert_memory_equal(text, hex, RON_B3_HEX_LEN);
}

static void test_b3__known_inputs__known_hashes(void **state)
{
    static const struct {
        size_t len;
        const char *hex;
    } known[] = {
        {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
        {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
        {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
    };
    struct ron_b3 hash;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(known); i++) {
        ron_b3_hash(input, known[i].len, &hash);
        expect_hex(&hash, known[i].hex);
    }
    ron_b3_hash(NULL, 0, &hash);
    expect_hex(&hash, known[0].hex);
}

static void test_b3__any_pieces__same_hash(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t len = (size_t)ron_rand_below(&rand, sizeof input + 1);
        struct ron_b3_hasher h;
        struct ron_b3 whole;
        struct ron_b3 pieces;

        ron_b3_hash(input, len, &whole);
        ron_b3_init(&h);
        for (size_t at = 0; at < len;) {
            size_t piece = (size_t)ron_rand_range(&rand, 1, 1u << ron_rand_below(&rand, 17));

            piece = RON_MIN(piece, len - at);
            ron_b3_update(&h, input + at, piece);
            at += piece;
        }
        ron_b3_final(&h, &pieces);
        assert_true(ron_b3_equal(&whole, &pieces));
        ron_b3_final(&h, &pieces); /* asking does not change it */
        assert_true(ron_b3_equal(&whole, &pieces));
    }
}

/* Lengths at random around the edges of blocks and of a chunk, so that neighbours agree in their
 * blocks or do not. */
static void test_b3__side_by_side_of_any_lengths__same_as_alone(void **state)
{
    static const size_t around[] = {0, 64, 128, 448, 1024, 2048};
    struct ron_rand rand = support_rand();

    (void)state;
    for (int round = 0; round < 2000; round++) {
        size_t count = ron_rand_below(&rand, 41);
        const uint8_t *inputs[40];
        size_t lens[40];
        struct ron_b3 each[40];

        for (size_t i = 0; i < count; i++) {
            lens[i] = i > 0 && ron_rand_below(&rand, 4) != 0
                          ? lens[i - 1]
                          : around[ron_rand_below(&rand, RON_ARRAY_LEN(around))] +
                                ron_rand_below(&rand, 66);
            inputs[i] = input + ron_rand_below(&rand, sizeof input - lens[i]);
        }
        ron_b3_hash_each(inputs, lens, count, each);
        for (size_t i = 0; i < count; i++) {
            struct ron_b3 alone;

            ron_b3_hash(inputs[i], lens[i], &alone);
            assert_true(ron_b3_equal(&alone, &each[i]));
        }
    }
}

/* ---- the official vectors -------------------------------------------------------------------- */

/* The text after `"name": ` at or after *at; moves *at behind the name. */
static const char *next_value(const char **at, const char *name)
{
    const char *found = strstr(*at, name);

    if (found != NULL) {
        *at = found + strlen(name);
    }
    return found == NULL ? NULL : *at;
}

static void expect_vector(struct ron_b3_hasher *h, size_t len, const char *hex)
{
    uint8_t out[VECTOR_HEX / 2];

    ron_b3_update(h, input, len);
    ron_b3_final_long(h, out, sizeof out);
    for (size_t i = 0; i < sizeof out; i++) {
        char pair[3];

        (void)snprintf(pair, sizeof pair, "%02x", out[i]);
        assert_memory_equal(pair, hex + 2 * i, 2);
    }
}

static void check_vectors(const char *text)
{
    static const char key[] = "whats the Elvish word for friend";
    const char *at = strstr(text, "\"cases\"");
    const char *value;
    size_t count = 0;

    assert_non_null(at);
    while ((value = next_value(&at, "\"input_len\": ")) != NULL) {
        size_t len = (size_t)strtoul(value, NULL, 10);
        struct ron_b3_hasher h;

        assert_true(len <= sizeof input);
        ron_b3_init(&h);
        expect_vector(&h, len, next_value(&at, "\"hash\": \""));
        ron_b3_init_keyed(&h, (const uint8_t *)key);
        expect_vector(&h, len, next_value(&at, "\"keyed_hash\": \""));
        count++;
    }
    print_message("%zu official vectors agree\n", count);
    assert_true(count >= VECTORS_MIN);
}

static void test_b3__official_vectors__all_agree(void **state)
{
    char path[1024];
    FILE *file = NULL;
    char *text = NULL;
    size_t len = 0;

    (void)state;
    support_corpus("blake3/test_vectors.json", path, sizeof path);
    file = fopen(path, "rb");
    if (file == NULL) {
        print_message("skipped: %s is absent\n", path);
        skip();
    }
    text = calloc(1, FILE_MAX);
    assert_non_null(text);
    len = fread(text, 1, FILE_MAX - 1, file);
    (void)fclose(file);
    assert_true(len > 0);
    check_vectors(text);
    free(text);
}

/* ---- content ids ----------------------------------------------------------------------------- */

#define EMPTY_HEX "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"

static void test_b3__id__survives_the_way_through_text(void **state)
{
    struct ron_b3 id;
    struct ron_b3 back;
    char text[RON_B3_ID_SIZE];

    (void)state;
    ron_b3_hash("", 0, &id);
    ron_b3_format(&id, text);
    assert_string_equal(text, "b3:" EMPTY_HEX);
    assert_int_equal(ron_b3_parse(text, strlen(text), &back, NULL), RON_OK);
    assert_true(ron_b3_equal(&id, &back));
    assert_true(ron_b3_parse_hex(text + 3, RON_B3_HEX_LEN, &back));
}

static void test_b3__other_spellings__refused_and_output_untouched(void **state)
{
    static const char *const bad[] = {
        "",
        "b3:",
        EMPTY_HEX,
        "B3:" EMPTY_HEX,
        "b3-" EMPTY_HEX,
        " b3:" EMPTY_HEX,
        "b3:" EMPTY_HEX " ",
        "b3:" EMPTY_HEX "\n",
        "b3:" EMPTY_HEX "0",
        "b3:Af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        "b3:gf1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f326",
        "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f326/",
        "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f326:",
        "b3:../../../../../../../../../../../../../../../../../../etc/passwd",
        "\"b3:" EMPTY_HEX "\"",
        "b3:b3:" EMPTY_HEX,
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct ron_b3 id;
        struct ron_b3 before;
        struct ron_err err = {0};

        memset(&id, 0x5a, sizeof id);
        before = id;
        assert_int_equal(ron_b3_parse(bad[i], strlen(bad[i]), &id, &err), RON_INVALID);
        assert_true(ron_b3_equal(&id, &before));
        assert_true(err.msg[0] != '\0');
    }
    /* A NUL inside or at the end is a character like any other. */
    struct ron_b3 id;

    assert_int_equal(ron_b3_parse("b3:" EMPTY_HEX, RON_B3_ID_LEN + 1, &id, NULL), RON_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b3__known_inputs__known_hashes),
        cmocka_unit_test(test_b3__any_pieces__same_hash),
        cmocka_unit_test(test_b3__side_by_side_of_any_lengths__same_as_alone),
        cmocka_unit_test(test_b3__official_vectors__all_agree),
        cmocka_unit_test(test_b3__id__survives_the_way_through_text),
        cmocka_unit_test(test_b3__other_spellings__refused_and_output_untouched),
    };

    return cmocka_run_group_tests(tests, fill_input, NULL);
}
