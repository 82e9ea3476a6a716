/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: frames, records, links and heads of segments read back as they were built, and nothing else
 * reads as one.
 * Method: random frames through both directions; every bit of a frame and of a segment's head
 * flipped; every sector of a frame missing; numbers in forms that no writer makes. */
#include "base/rand_priv.h"
#include "unit/ledger/logkit.h"

static struct kit kit;

static int setup(void **state)
{
    (void)state;
    kit_init(&kit);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

static struct led_log_head any_head(struct ron_rand *rand)
{
    struct led_log_head head = {
        .epoch = support_rand_edgy_u64(rand),
        .last_seq = support_rand_edgy_u64(rand) >> 2,
    };

    ron_rand_bytes(rand, head.uuid, sizeof head.uuid);
    ron_rand_bytes(rand, head.root.bytes, sizeof head.root.bytes);
    return head;
}

/* Builds the content of a frame again from what was read, and compares all bytes. */
static void check_round_trip(const uint8_t *bytes, size_t len)
{
    struct led_frame frame;
    struct led_cursor records;
    struct led_record record;
    struct ron_buf again;
    size_t size = 0;
    bool bad = true;
    uint64_t seq;

    assert_int_equal(led_frame_read(bytes, len, &frame, &size), LED_FRAME_GOOD);
    assert_int_equal(size, len);
    seq = frame.seq_first;
    ron_buf_init(&again, LED_FRAME_MAX);
    assert_int_equal(led_frame_begin(&again), RON_OK);
    led_records(&frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        struct led_cursor entries;
        struct led_stored stored;
        size_t at = ron_buf_len(&again);

        assert_int_equal(record.seq_first, seq);
        assert_int_equal(led_frame_add_record(&again, &record), RON_OK);
        led_entries(&record, &entries);
        while (led_entries_next(&entries, &stored, &bad)) {
            assert_int_equal(stored.seq, seq++);
            assert_int_equal(led_frame_add_entry(&again, stored.leaf, &stored.links), RON_OK);
        }
        assert_false(bad);
        led_frame_end_record(&again, at);
    }
    assert_false(bad);
    assert_int_equal(seq, frame.seq_first + frame.entries);
    assert_int_equal(led_frame_end(&again, &frame), RON_OK);
    assert_int_equal(ron_buf_len(&again), len);
    assert_memory_equal(ron_buf_data(&again), bytes, len);
    ron_buf_done(&again);
}

static void test_frame__random_content__reads_back_the_same(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct led_log_head head = any_head(&rand);
        struct led_frame frame;
        size_t size;

        kit_build(&kit, &head, ron_rand_u64(&rand), 40);
        check_round_trip(ron_buf_data(&kit.buf), ron_buf_len(&kit.buf));
        assert_int_equal(ron_buf_len(&kit.buf) % LED_SECTOR, 0);
        assert_true(led_frame_peek(ron_buf_data(&kit.buf), &frame, &size));
        assert_int_equal(frame.epoch, kit.frame.epoch);
        assert_int_equal(frame.time_ms, kit.frame.time_ms);
        assert_memory_equal(&frame.new_root, &kit.frame.new_root, sizeof frame.new_root);
        assert_memory_equal(frame.uuid, head.uuid, sizeof frame.uuid);
    }
}

static void test_frame__no_sector__is_all_zero(void **state)
{
    static const uint8_t zeros[LED_SECTOR];
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct led_log_head head = {.last_seq = 0};

        kit_build(&kit, &head, ron_rand_u64(&rand), 60);
        for (size_t at = 0; at < ron_buf_len(&kit.buf); at += LED_SECTOR) {
            assert_memory_not_equal(ron_buf_data(&kit.buf) + at, zeros, LED_SECTOR);
        }
    }
}

static void test_frame__any_bit_flipped__does_not_check(void **state)
{
    struct led_log_head head = {.epoch = 1};
    size_t len;
    uint8_t *bytes;

    (void)state;
    kit_build(&kit, &head, 7, 8);
    len = ron_buf_len(&kit.buf);
    assert_in_range(len, 2 * LED_SECTOR, 8 * LED_SECTOR);
    bytes = malloc(len);
    memcpy(bytes, ron_buf_data(&kit.buf), len);
    for (size_t i = 0; i < len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct led_frame frame;
            size_t size = 0;

            bytes[i] ^= (uint8_t)(1u << bit);
            assert_int_equal(led_frame_read(bytes, len, &frame, &size), LED_FRAME_BAD);
            assert_int_equal(size, i < LED_FRAME_HEAD ? LED_SECTOR : len);
            bytes[i] ^= (uint8_t)(1u << bit);
        }
    }
    free(bytes);
}

static void test_frame__sectors_missing__torn_or_none(void **state)
{
    struct ron_rand rand = support_rand();
    struct led_log_head head = {.epoch = 1};
    size_t len;
    uint8_t *bytes;

    (void)state;
    kit_build(&kit, &head, 3, 60);
    len = ron_buf_len(&kit.buf);
    assert_in_range(len, 5 * LED_SECTOR, 1 << 20);
    bytes = malloc(len);
    for (int i = 0; i < 500; i++) {
        enum led_frame_state state_expected = LED_FRAME_GOOD;
        struct led_frame frame;
        size_t size = 0;

        memcpy(bytes, ron_buf_data(&kit.buf), len);
        for (size_t at = len; at > 0;) {
            at -= LED_SECTOR;
            if (ron_rand_chance(&rand, 1, 4)) {
                memset(bytes + at, 0, LED_SECTOR);
                state_expected = at == 0 ? LED_FRAME_NONE : LED_FRAME_TORN;
            }
        }
        assert_int_equal(led_frame_read(bytes, len, &frame, &size), state_expected);
        assert_int_equal(size, state_expected == LED_FRAME_NONE ? LED_SECTOR : len);
    }
    memcpy(bytes, ron_buf_data(&kit.buf), len);
    for (size_t have = LED_SECTOR; have < len; have += LED_SECTOR) {
        struct led_frame frame;
        size_t size = 0;

        assert_int_equal(led_frame_read(bytes, have, &frame, &size), LED_FRAME_MORE);
        assert_int_equal(size, len);
    }
    free(bytes);
}

static void test_frame__cut_at_any_byte__torn_never_bad(void **state)
{
    (void)state;
    for (uint32_t entries = 0; entries <= 8; entries += 8) {
        struct led_log_head head = {.epoch = 1};
        size_t len;
        uint8_t *bytes;

        kit_build(&kit, &head, 7, entries);
        len = ron_buf_len(&kit.buf);
        bytes = calloc(1, len);
        for (size_t cut = 0; cut < len; cut++) {
            struct led_frame frame;
            size_t size = 0;
            enum led_frame_state got;

            memcpy(bytes, ron_buf_data(&kit.buf), cut);
            got = led_frame_read(bytes, len, &frame, &size);
            assert_int_equal(got, cut == 0 ? LED_FRAME_NONE : LED_FRAME_TORN);
        }
        free(bytes);
    }
}

/* A record of one entry with these bytes as links, in a GOOD frame. */
static bool links_accepted(const uint8_t *links, size_t len)
{
    uint8_t record[LED_RECORD_HEAD + 2 + LED_ENTRY_BYTES_MAX + 256];
    uint8_t leaf[LED_ENTRY_BYTES_MAX];
    struct ron_rand rand = support_rand();
    size_t leaf_len = kit_leaf(&rand, leaf);
    struct led_record r = {.count = 1, .seq_first = 1, .entries = record};
    struct led_cursor cursor;
    struct led_stored stored;
    bool bad = false;

    record[0] = (uint8_t)(leaf_len >> 8);
    record[1] = (uint8_t)leaf_len;
    memcpy(record + 2, leaf, leaf_len);
    memcpy(record + 2 + leaf_len, links, len);
    r.entries_len = 2 + leaf_len + len;
    led_entries(&r, &cursor);
    if (!led_entries_next(&cursor, &stored, &bad)) {
        assert_true(bad);
        return false;
    }
    return !led_entries_next(&cursor, &stored, &bad) && !bad;
}

#define LINKS(...) links_accepted((const uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}))
#define FF9 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff

static void test_frame__links_in_another_form__refused(void **state)
{
    (void)state;
    assert_true(LINKS(0, 0, 0));
    assert_true(LINKS(0, 0x80, 1, 0x7f));
    assert_true(LINKS(2, 0, 0, 1));
    assert_true(LINKS(1, 0, 0, 0, 0));
    assert_true(LINKS(5, 0, 0, 0, 0, 1));
    assert_true(LINKS(0, FF9, 1, 0));                /* 2^64 - 1 */
    assert_true(LINKS(0, 0, FF9, FF9, 3));           /* 2^128 - 1 */
    assert_false(LINKS(0));                          /* cut */
    assert_false(LINKS(0, 0));                       /* cut */
    assert_false(LINKS(0, 0, 0x80));                 /* cut */
    assert_false(LINKS(0, 0, 0, 0));                 /* a byte too many */
    assert_false(LINKS(0, 0x80, 0, 0));              /* 0 in two bytes */
    assert_false(LINKS(0, 0, 0xff, 0));              /* 127 in two bytes */
    assert_false(LINKS(2, 0, 0, 0));                 /* held that is nothing */
    assert_false(LINKS(4, 0, 0, 1));                 /* held of no `to` */
    assert_false(LINKS(8, 0, 0));                    /* unknown flag */
    assert_false(LINKS(0, FF9, 2, 0));               /* above 2^64 - 1 */
    assert_false(LINKS(0, FF9, 0x81, 0, 0));         /* longer still */
    assert_false(LINKS(0, 0, FF9, FF9, 4));          /* above 2^128 - 1 */
    assert_false(LINKS(0, 0, FF9, FF9, 0x83, 0x00)); /* longer still */
}

static void test_frame__records_that_no_writer_makes__refused(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{0, 0}, {0, 3}, {0, 2}, {1, 200}, {2, 1}, {3, 4}, {7, 2}, {19, 0xff}, {20, 1}};
    struct led_log_head head = {.epoch = 1};
    struct led_record record = {.kind = LED_RECORD_BATCH, .count = 1};
    struct led_links links = {0};
    uint8_t leaf[LED_ENTRY_BYTES_MAX];
    struct ron_rand rand = support_rand();
    size_t leaf_len = kit_leaf(&rand, leaf);

    (void)state;
    (void)head;
    for (size_t i = 0; i <= RON_ARRAY_LEN(changes); i++) {
        struct ron_buf buf;
        struct led_frame frame = {.seq_first = 1, .records = 1, .entries = 1};
        struct led_cursor cursor;
        struct led_record got;
        struct led_stored stored;
        bool bad = false;
        bool sound;

        ron_buf_init(&buf, LED_FRAME_MAX);
        assert_int_equal(led_frame_begin(&buf), RON_OK);
        assert_int_equal(led_frame_add_record(&buf, &record), RON_OK);
        assert_int_equal(
            led_frame_add_entry(&buf, (struct ron_str){(const char *)leaf, leaf_len}, &links),
            RON_OK);
        led_frame_end_record(&buf, LED_FRAME_HEAD);
        frame.payload = ron_buf_data(&buf) + LED_FRAME_HEAD;
        frame.payload_len = ron_buf_len(&buf) - LED_FRAME_HEAD;
        if (i < RON_ARRAY_LEN(changes)) {
            buf.memory[buf.head + LED_FRAME_HEAD + changes[i].at] = changes[i].value;
        }
        led_records(&frame, &cursor);
        sound = led_records_next(&cursor, &got, &bad);
        if (sound) {
            struct led_cursor entries;
            struct led_record end;

            led_entries(&got, &entries);
            sound = led_entries_next(&entries, &stored, &bad) &&
                    !led_entries_next(&entries, &stored, &bad) && !bad &&
                    !led_records_next(&cursor, &end, &bad) && !bad;
        }
        assert_int_equal(sound, i == RON_ARRAY_LEN(changes));
        assert_int_equal(bad, !sound);
        ron_buf_done(&buf);
    }
}

static void test_frame__too_long__is_a_limit(void **state)
{
    struct led_frame frame = {.seq_first = 1};
    uint8_t *room;

    (void)state;
    ron_buf_clear(&kit.buf);
    assert_int_equal(led_frame_begin(&kit.buf), RON_OK);
    assert_int_equal(ron_buf_reserve(&kit.buf, LED_FRAME_MAX - LED_FRAME_HEAD - 7, &room), RON_OK);
    memset(room, 'x', LED_FRAME_MAX - LED_FRAME_HEAD - 7);
    ron_buf_commit(&kit.buf, LED_FRAME_MAX - LED_FRAME_HEAD - 8);
    assert_int_equal(led_frame_end(&kit.buf, &frame), RON_OK);
    assert_int_equal(ron_buf_len(&kit.buf), LED_FRAME_MAX);
    ron_buf_clear(&kit.buf);
    assert_int_equal(led_frame_begin(&kit.buf), RON_OK);
    assert_int_equal(ron_buf_reserve(&kit.buf, LED_FRAME_MAX - LED_FRAME_HEAD - 7, &room), RON_OK);
    ron_buf_commit(&kit.buf, LED_FRAME_MAX - LED_FRAME_HEAD - 7);
    assert_int_equal(led_frame_end(&kit.buf, &frame), RON_LIMIT);
}

static void test_segment__head__reads_back_and_any_flip_is_seen(void **state)
{
    struct ron_rand rand = support_rand();
    struct led_segment_head head = {
        .number = 3, .seq_first = 1 << 20, .created_ms = 1700000000000, .segment_bytes = 1 << 26};
    struct led_segment_head got;
    uint8_t bytes[LED_SEGMENT_HEAD];

    (void)state;
    ron_rand_bytes(&rand, head.uuid, sizeof head.uuid);
    ron_rand_bytes(&rand, head.prev_root.bytes, sizeof head.prev_root.bytes);
    led_segment_head_write(&head, bytes);
    assert_true(led_segment_head_read(bytes, &got));
    assert_memory_equal(&got, &head, sizeof head);
    for (size_t i = 0; i < sizeof bytes; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1u << bit);
            assert_false(led_segment_head_read(bytes, &got));
            bytes[i] ^= (uint8_t)(1u << bit);
        }
    }
}

/* The examples of docs/formats/ledger-log.md. */
static void test_frame__example_of_the_format__has_those_bytes(void **state)
{
    static const uint8_t head[] = {
        0x52, 0x4f, 0x4e, 0x46, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
        0x00, 0x00, 0x82, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x46, 0x17, 0x98, 0x19,
        0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x01,
        0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x02,
    };
    static const uint8_t record[] = {
        0xcd, 0x6b, 0x50, 0x9e, 0xd0, 0x84, 0x63, 0xce, 0x01, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x01, 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x01, 0x00, 0x00, 0x00, 0x6a, 0x00, 0x00,
        0x00, 0x00, 0x69, 0x2d, 0x31, 0x00, 0x5d, 0x00, 0x01, 0x05, 0x01, 0x00, 0x00, 0x01,
    };
    static const uint8_t links[] = {0x63, 0x31, 0x03, 0x02, 0xe3, 0x07, 0xac, 0x02, 0x00, 0x05, 0};
    static const uint8_t tail[] = {0, 0xd0, 0x84, 0x63, 0xce, 0x52, 0x4f, 0x4e, 0x65};
    struct led_entry e = {
        .v = LED_VERSION,
        .kind = LED_KIND_TRANSFER,
        .ts_ms = 1700000000000,
        .amount = ron_money_of(5),
        .id = {"tx-1", 4},
        .account = {"t:demo/u:alice/w", 16},
        .to = {"t:demo/u:bob/w", 14},
        .asset = {"roc", 3},
        .kid = {"k1", 2},
        .capability_ref = {"c1", 2},
    };
    const struct led_record r = {
        .kind = LED_RECORD_BATCH, .count = 1, .now_ms = 1700000000001, .idem_id = {"i-1", 3}};
    const struct led_links l = {
        .has_to = true,
        .account = {.prev_seq = 2, .available.v = 995, .held.v = 300},
        .to = {.available.v = 5},
    };
    struct led_frame f = {
        .epoch = 1, .seq_first = 3, .entries = 1, .records = 1, .time_ms = 1700000000002};
    uint8_t leaf[LED_ENTRY_BYTES_MAX];
    size_t len;

    (void)state;
    for (uint8_t i = 0; i < 16; i++) {
        e.nonce[i] = i;
        f.uuid[i] = (uint8_t)(0x10 + i);
    }
    f.uuid[6] = 0x46;
    f.uuid[8] = 0x98;
    memset(&f.prev_root, 0xaa, sizeof f.prev_root);
    memset(&f.new_root, 0xbb, sizeof f.new_root);
    len = (size_t)(led_entry_encode(&e, leaf) - leaf);
    ron_buf_clear(&kit.buf);
    assert_int_equal(led_frame_begin(&kit.buf), RON_OK);
    assert_int_equal(led_frame_add_record(&kit.buf, &r), RON_OK);
    assert_int_equal(led_frame_add_entry(&kit.buf, (struct ron_str){(const char *)leaf, len}, &l),
                     RON_OK);
    led_frame_end_record(&kit.buf, LED_FRAME_HEAD);
    assert_int_equal(led_frame_end(&kit.buf, &f), RON_OK);
    assert_int_equal(ron_buf_len(&kit.buf), 512);
    assert_memory_equal(ron_buf_data(&kit.buf), head, sizeof head);
    assert_memory_equal(ron_buf_data(&kit.buf) + 128, record, sizeof record);
    assert_memory_equal(ron_buf_data(&kit.buf) + 256, links, sizeof links);
    assert_memory_equal(ron_buf_data(&kit.buf) + 503, tail, sizeof tail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame__random_content__reads_back_the_same),
        cmocka_unit_test(test_frame__no_sector__is_all_zero),
        cmocka_unit_test(test_frame__any_bit_flipped__does_not_check),
        cmocka_unit_test(test_frame__sectors_missing__torn_or_none),
        cmocka_unit_test(test_frame__cut_at_any_byte__torn_never_bad),
        cmocka_unit_test(test_frame__links_in_another_form__refused),
        cmocka_unit_test(test_frame__records_that_no_writer_makes__refused),
        cmocka_unit_test(test_frame__too_long__is_a_limit),
        cmocka_unit_test(test_frame__example_of_the_format__has_those_bytes),
        cmocka_unit_test(test_segment__head__reads_back_and_any_flip_is_seen),
    };

    return cmocka_run_group_tests_name("ledger.led_frame", tests, setup, teardown);
}
