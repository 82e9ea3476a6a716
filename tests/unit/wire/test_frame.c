/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the codec is byte-exact with the two published vectors, refuses every malformed header for
 * its own reason, and gives the same verdict however the bytes are cut.
 * Method: vectors as hex; one good frame with one field spoiled at a time; random frames encoded,
 * cut at every place and decoded. */
#include "support/support.h"

#include "ron/base/alloc.h"
#include "ron/wire/frame.h"
#include "support/oap.h"
#include "wire/frame.h"

static const char vector_hello[] =
    "000000360001000100000000000000000000000000000000000000aa0000000000000000002a7b227561223a227364"
    "6b2f302e31227d";
static const char vector_cap[] =
    "000000290001000900000064000000000000000000000000000000cc00030000000000000063636170";

static size_t unhex(const char *hex, uint8_t *out, size_t max)
{
    size_t len = strlen(hex) / 2;

    assert_true(len <= max);
    for (size_t i = 0; i < len; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + i * 2, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return len;
}

static void expect_encodes(const struct ron_oap_head *head, const char *cap, const char *payload,
                           const char *vector)
{
    uint8_t want[128];
    size_t len = unhex(vector, want, sizeof want);
    struct ron_buf out;

    ron_buf_init(&out, 1024);
    assert_int_equal(ron_oap_encode(&out, head, cap, payload, strlen(payload), RON_OAP_FRAME_MAX),
                     RON_OK);
    assert_int_equal(ron_buf_len(&out), len);
    assert_memory_equal(ron_buf_data(&out), want, len);
    ron_buf_done(&out);
}

static void test_frame__published_vectors__written_byte_for_byte(void **state)
{
    (void)state;
    expect_encodes(&(struct ron_oap_head){.flags = RON_OAP_REQ, .tenant = 0xaa, .corr_id = 42}, "",
                   "{\"ua\":\"sdk/0.1\"}", vector_hello);
    expect_encodes(&(struct ron_oap_head){.flags = RON_OAP_REQ | RON_OAP_START,
                                          .app = 100,
                                          .tenant = 0xcc,
                                          .corr_id = 99,
                                          .cap_len = 3},
                   "cap", "", vector_cap);
}

static void test_frame__published_vectors__read_field_by_field(void **state)
{
    uint8_t bytes[128];
    struct ron_oap_frame f;
    size_t need = 0;
    enum ron_oap_reason reason = RON_OAP_NONE;
    size_t len = unhex(vector_hello, bytes, sizeof bytes);

    (void)state;
    assert_int_equal(ron_oap_decode(bytes, len, RON_OAP_FRAME_MAX, &f, &need, &reason),
                     RON_OAP_STEP_FRAME);
    assert_int_equal(f.head.flags, RON_OAP_REQ);
    assert_int_equal(f.head.code, 0);
    assert_int_equal(f.head.app, 0);
    assert_int_equal(f.head.corr_id, 42);
    support_assert_u128_equal(f.head.tenant, (ron_u128)0xaa);
    assert_int_equal(f.frame_len, 54);
    assert_int_equal(f.payload_len, 16);
    assert_memory_equal(f.payload, "{\"ua\":\"sdk/0.1\"}", 16);
    assert_ptr_equal(f.payload, bytes + 38); /* F2 */

    len = unhex(vector_cap, bytes, sizeof bytes);
    assert_int_equal(ron_oap_decode(bytes, len, RON_OAP_FRAME_MAX, &f, &need, &reason),
                     RON_OAP_STEP_FRAME);
    assert_int_equal(f.head.flags, RON_OAP_REQ | RON_OAP_START);
    assert_int_equal(f.head.app, 100);
    assert_int_equal(f.head.corr_id, 99);
    assert_int_equal(f.head.cap_len, 3);
    assert_memory_equal(f.cap, "cap", 3);
    assert_int_equal(f.payload_len, 0);
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct spoil {
    size_t at;
    const char *hex;
    enum ron_oap_reason reason;
    size_t seen_at; /* bytes after which the verdict is known */
};

static void test_frame__one_field_spoiled__its_own_reason_as_soon_as_it_is_there(void **state)
{
    static const struct spoil spoils[] = {
        {0, "00100001", RON_OAP_TOO_LARGE, 4}, /* 1 MiB and one byte */
        {0, "ffffffff", RON_OAP_TOO_LARGE, 4},
        {0, "00000025", RON_OAP_LENGTH, 4}, /* 37 */
        {0, "00000000", RON_OAP_LENGTH, 4},
        {0, "00000028", RON_OAP_LENGTH, 30}, /* 40: less than 38 + cap_len */
        {4, "0000", RON_OAP_BAD_VERSION, 6},
        {4, "0002", RON_OAP_BAD_VERSION, 6},
        {4, "0100", RON_OAP_BAD_VERSION, 6}, /* the other byte order */
        {6, "0109", RON_OAP_BAD_FLAGS, 8},
        {6, "8009", RON_OAP_BAD_FLAGS, 8},
        {6, "0008", RON_OAP_KIND, 8}, /* none */
        {6, "000b", RON_OAP_KIND, 8}, /* request and response */
        {6, "000d", RON_OAP_KIND, 8},
        {6, "0001", RON_OAP_CAP, 30}, /* a capability without START */
        {6, "0011", RON_OAP_CAP, 30},
        {28, "0004", RON_OAP_LENGTH, 30}, /* cap_len lies */
        {28, "ffff", RON_OAP_LENGTH, 30},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(spoils); i++) {
        uint8_t bytes[128];
        size_t len = unhex(vector_cap, bytes, sizeof bytes);

        (void)unhex(spoils[i].hex, bytes + spoils[i].at, 4);
        for (size_t n = 0; n <= len; n++) {
            struct ron_oap_frame f;
            size_t need = 0;
            enum ron_oap_reason reason = RON_OAP_NONE;
            enum ron_oap_step step =
                ron_oap_decode(bytes, n, RON_OAP_FRAME_MAX, &f, &need, &reason);

            assert_int_equal(step,
                             n < spoils[i].seen_at ? RON_OAP_STEP_MORE : RON_OAP_STEP_REFUSED);
            assert_int_equal(reason, n < spoils[i].seen_at ? RON_OAP_NONE : spoils[i].reason);
        }
    }
}

static void test_frame__exactly_the_limit__taken_and_one_more_refused(void **state)
{
    uint8_t *bytes = ron_alloc_zero(RON_OAP_FRAME_MAX);
    struct ron_oap_head head = {.flags = RON_OAP_EVENT, .app = 7};
    struct ron_oap_frame f;
    size_t need = 0;
    enum ron_oap_reason reason = RON_OAP_NONE;
    struct ron_buf out;

    (void)state;
    assert_non_null(bytes);
    ron_oap_write_head(&head, RON_OAP_FRAME_MAX - RON_OAP_HEADER_BYTES, bytes);
    assert_int_equal(
        ron_oap_decode(bytes, RON_OAP_FRAME_MAX - 1, RON_OAP_FRAME_MAX, &f, &need, &reason),
        RON_OAP_STEP_MORE);
    assert_int_equal(need, RON_OAP_FRAME_MAX);
    assert_int_equal(
        ron_oap_decode(bytes, RON_OAP_FRAME_MAX, RON_OAP_FRAME_MAX, &f, &need, &reason),
        RON_OAP_STEP_FRAME);
    assert_int_equal(ron_oap_decode(bytes, 4, RON_OAP_FRAME_MAX - 1, &f, &need, &reason),
                     RON_OAP_STEP_REFUSED);
    assert_int_equal(reason, RON_OAP_TOO_LARGE);
    ron_buf_init(&out, RON_OAP_FRAME_MAX + 1);
    assert_int_equal(ron_oap_encode(&out, &head, NULL, bytes,
                                    RON_OAP_FRAME_MAX - RON_OAP_HEADER_BYTES + 1,
                                    RON_OAP_FRAME_MAX),
                     RON_LIMIT);
    assert_int_equal(ron_buf_len(&out), 0);
    ron_buf_done(&out);
    ron_free(bytes);
}

/* ---- round trips ----------------------------------------------------------------------------- */

static void test_frame__random_frames_cut_anywhere__come_back_the_same(void **state)
{
    struct ron_rand rand = support_rand();
    uint8_t blob[600];
    struct ron_buf out;

    (void)state;
    ron_buf_init(&out, 4096);
    for (int round = 0; round < 2000; round++) {
        static const uint16_t kinds[] = {RON_OAP_REQ, RON_OAP_RESP, RON_OAP_EVENT};
        size_t len = ron_rand_below(&rand, sizeof blob);
        struct ron_oap_head head = {
            .flags = (uint16_t)(kinds[ron_rand_below(&rand, 3)] | (ron_rand_below(&rand, 32) << 3)),
            .code = (uint16_t)ron_rand_u64(&rand),
            .app = (uint16_t)ron_rand_u64(&rand),
            .corr_id = support_rand_edgy_u64(&rand),
            .tenant = support_rand_edgy_u128(&rand)};
        struct ron_oap_frame f;
        size_t need = 0;
        enum ron_oap_reason reason = RON_OAP_NONE;
        size_t total;

        head.cap_len = (head.flags & RON_OAP_START) != 0 ? (uint16_t)ron_rand_below(&rand, 200) : 0;
        ron_rand_bytes(&rand, blob, sizeof blob);
        ron_buf_clear(&out);
        assert_int_equal(ron_oap_encode(&out, &head, blob, blob + 1, len, 4096), RON_OK);
        total = ron_buf_len(&out);
        for (size_t n = 0; n < total; n++) {
            assert_int_equal(ron_oap_decode(ron_buf_data(&out), n, 4096, &f, &need, &reason),
                             RON_OAP_STEP_MORE);
            assert_true(need > n);
            assert_true(need <= total);
        }
        assert_int_equal(ron_oap_decode(ron_buf_data(&out), total, 4096, &f, &need, &reason),
                         RON_OAP_STEP_FRAME);
        assert_int_equal(f.head.flags, head.flags);
        assert_int_equal(f.head.code, head.code);
        assert_int_equal(f.head.app, head.app);
        assert_int_equal(f.head.corr_id, head.corr_id);
        support_assert_u128_equal(f.head.tenant, head.tenant);
        assert_int_equal(f.head.cap_len, head.cap_len);
        assert_memory_equal(f.cap, blob, head.cap_len);
        assert_int_equal(f.payload_len, len);
        assert_memory_equal(f.payload, blob + 1, len);
    }
    ron_buf_done(&out);
}

static void expect_cut(size_t len, size_t cap_len, size_t frame_max, const char *pieces)
{
    struct ron_oap_cut cut;
    uint16_t flags = 0;
    size_t at = 0;
    size_t n = 0;
    size_t sum = 0;
    char text[256] = "";

    ron_oap_cut_init(&cut, len, cap_len, frame_max);
    while (ron_oap_cut_next(&cut, &flags, &at, &n)) {
        size_t used = strlen(text);
        assert_int_equal(at, sum);
        sum += n;
        assert_true(used < sizeof text - 32);
        (void)snprintf(text + used, sizeof text - used, "%s%zu%s ",
                       (flags & RON_OAP_START) != 0 ? "S" : "", n,
                       (flags & RON_OAP_END) != 0 ? "E" : "");
    }
    assert_int_equal(sum, len);
    assert_string_equal(text, pieces);
}

static void test_frame__messages_cut__one_frame_or_pieces_with_start_and_end(void **state)
{
    (void)state;
    expect_cut(0, 0, 1 << 20, "0 ");
    expect_cut(10, 0, 1 << 20, "10 ");
    expect_cut(0, 3, 1 << 20, "S0E ");
    expect_cut(10, 3, 1 << 20, "S10E ");
    expect_cut((1 << 20) - 38, 0, 1 << 20, "1048538 ");
    expect_cut(100000, 0, 70000, "S65536 34464E ");
    expect_cut(65536 * 2, 0, 70000, "S65536 65536E ");
    expect_cut(9000, 100, 4096, "S3958 4058 984E ");
}

/* ---- reasons --------------------------------------------------------------------------------- */

static void test_reason__every_envelope__names_its_reason(void **state)
{
    (void)state;
    for (int r = RON_OAP_NONE + 1; r < RON_OAP_REASON_COUNT; r++) {
        struct ron_oap_error e = ron_oap_error_of((enum ron_oap_reason)r);
        char room[512];
        struct ron_buf out;

        ron_buf_init_over(&out, room, sizeof room);
        ron_oap_envelope(&out, &e, UINT64_MAX);
        assert_int_equal(ron_buf_error(&out), RON_OK);
        assert_int_equal(ron_oap_envelope_reason(ron_buf_data(&out), ron_buf_len(&out)), r);
        assert_non_null(strstr(ron_buf_text(&out), "\"corr_id\":\"18446744073709551615\""));
        assert_int_not_equal(ron_oap_reason_rc((enum ron_oap_reason)r), RON_OK);
    }
    /* What is no envelope of ours is read the careful way. */
    assert_int_equal(ron_oap_envelope_reason("{\"reason\":\"surprise\"}", 21), RON_OAP_INTERNAL);
    assert_int_equal(ron_oap_envelope_reason("", 0), RON_OAP_INTERNAL);
    assert_int_equal(ron_oap_envelope_reason("{", 1), RON_OAP_INTERNAL);
    assert_int_equal(ron_oap_reason_done(RON_OAP_INTERNAL), RON_OAP_DONE_MAYBE);
    assert_int_equal(ron_oap_reason_done(RON_OAP_TIMEOUT), RON_OAP_DONE_MAYBE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame__published_vectors__written_byte_for_byte),
        cmocka_unit_test(test_frame__published_vectors__read_field_by_field),
        cmocka_unit_test(test_frame__one_field_spoiled__its_own_reason_as_soon_as_it_is_there),
        cmocka_unit_test(test_frame__exactly_the_limit__taken_and_one_more_refused),
        cmocka_unit_test(test_frame__random_frames_cut_anywhere__come_back_the_same),
        cmocka_unit_test(test_frame__messages_cut__one_frame_or_pieces_with_start_and_end),
        cmocka_unit_test(test_reason__every_envelope__names_its_reason),
    };
    return cmocka_run_group_tests_name("unit.wire.frame", tests, NULL, NULL);
}
