/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what is not sound is never taken for content: a torn tail is cut and counted, everything
 * else is damage, named, and stops the writer; nothing is repaired.
 * Method: a small log of two segments in memory. Every byte of it flipped once; sectors of the last
 * frame left out; frames that no writer makes put behind it; segments cut, removed and swapped;
 * writes and syncs that fail. */
#include "unit/ledger/logkit.h"

#include <inttypes.h>

#include "ron/base/alloc.h"
#include "ron/io/linux_env.h"

/* The thread sanitizer has nothing to find here and is slow: it sees one byte in seven. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { STRIDE = 7 };
#else
enum { STRIDE = 1 };
#endif
#else
enum { STRIDE = 1 };
#endif

enum { FRAMES = 18, SEGMENTS = 2, FILE_BYTES = KIT_SEGMENT };

/* The log as it should be. */
struct world {
    struct ron_memdisk *disk;
    const struct ron_env *env;
    struct led_log_opts opts;
    struct led_log_head head;
    struct kit kit;
    char name[SEGMENTS][64];
    uint64_t used[SEGMENTS];       /* where the frames end */
    uint64_t frame_at[FRAMES + 1]; /* offset of each and, last, the end */
    unsigned frame_in[FRAMES];     /* segment of each */
    struct led_frame frame[FRAMES];
    uint8_t payload[FRAMES][FILE_BYTES];
};

static struct world w;

static void path_of(unsigned segment, char ret_path[96])
{
    (void)snprintf(ret_path, 96, "/log/%s", w.name[segment]);
}

static int open_segment(unsigned segment)
{
    char path[96];
    int fd = -1;

    path_of(segment, path);
    assert_int_equal(w.env->disk->open(w.env, path, RON_OPEN_READ | RON_OPEN_WRITE, 0, &fd, NULL),
                     RON_OK);
    return fd;
}

static void peek(unsigned segment, uint64_t off, void *ret_bytes, size_t len)
{
    int fd = open_segment(segment);
    size_t got = 0;

    assert_int_equal(w.env->disk->pread(w.env, fd, ret_bytes, len, off, &got), RON_OK);
    assert_int_equal(got, len);
    w.env->disk->close(w.env, fd);
}

static void poke(unsigned segment, uint64_t off, const void *bytes, size_t len)
{
    int fd = open_segment(segment);

    assert_int_equal(w.env->disk->pwrite(w.env, fd, bytes, len, off, NULL), RON_OK);
    w.env->disk->close(w.env, fd);
}

static void flip(unsigned segment, uint64_t off)
{
    uint8_t byte;

    peek(segment, off, &byte, 1);
    byte ^= (uint8_t)(1u << off % 8);
    poke(segment, off, &byte, 1);
}

/* ---- the world ------------------------------------------------------------------------------- */

/* Frame by frame the same as in the beginning. */
struct check {
    uint64_t frames;
    bool strange;
};

static bool same(const struct led_frame *a, const struct led_frame *b)
{
    return a->seq_first == b->seq_first && a->entries == b->entries && a->records == b->records &&
           a->time_ms == b->time_ms && ron_tree_hash_equal(&a->new_root, &b->new_root) &&
           a->payload_len == b->payload_len && memcmp(a->payload, b->payload, a->payload_len) == 0;
}

static enum ron_rc see(void *arg, const struct led_frame *frame, const char *where,
                       struct ron_err *err)
{
    struct check *c = arg;

    (void)where;
    (void)err;
    c->strange = c->strange || c->frames >= FRAMES || !same(frame, &w.frame[c->frames]);
    c->frames++;
    return RON_OK;
}

static enum ron_rc learn(void *arg, const struct led_frame *frame, const char *where,
                         struct ron_err *err)
{
    size_t *n = arg;

    (void)err;
    w.frame[*n] = *frame;
    memcpy(w.payload[*n], frame->payload, frame->payload_len);
    w.frame[*n].payload = w.payload[*n];
    w.frame_in[*n] = (unsigned)(where[7] - '1');
    w.frame_at[*n] = strtoull(strstr(where, " at ") + 4, NULL, 10);
    (*n)++;
    return RON_OK;
}

static enum ron_rc learn_name(void *arg, const char *name, bool sealed, uint64_t used_bytes)
{
    size_t *n = arg;

    (void)snprintf(w.name[*n], sizeof w.name[*n], "%s", name);
    assert_int_equal(sealed, *n == 0);
    w.used[(*n)++] = used_bytes;
    return RON_OK;
}

static int setup(void **state)
{
    struct led_log_report report;
    struct led_log *log;
    size_t n = 0;

    (void)state;
    memset(&w, 0, sizeof w);
    assert_int_equal(ron_memdisk_new(ron_env_linux(), 64 << 20, &w.disk, NULL), RON_OK);
    w.env = ron_memdisk_env(w.disk);
    w.opts = (struct led_log_opts){.env = w.env, .dir = "/log", .segment_bytes = KIT_SEGMENT};
    kit_init(&w.kit);
    log = kit_open(&w.opts, 1, NULL, NULL, &report);
    for (uint64_t i = 1; i <= FRAMES; i++) {
        assert_int_equal(kit_append(&w.kit, log, i, 50), RON_OK);
    }
    led_log_head(log, &w.head);
    assert_int_equal(w.head.segments, SEGMENTS);
    assert_int_equal(led_log_each_segment(log, learn_name, &n), RON_OK);
    n = 0;
    assert_int_equal(led_log_scan(log, 1, UINT64_MAX, learn, &n, NULL), RON_OK);
    assert_int_equal(n, FRAMES);
    w.frame_at[FRAMES] = w.used[1];
    for (n = 0; n < FRAMES; n++) { /* of the sealed one the end is told by its last frame */
        if (w.frame_in[n] == 0) {
            uint8_t head[LED_FRAME_HEAD];
            struct led_frame frame;
            size_t size = 0;

            peek(0, w.frame_at[n], head, sizeof head);
            assert_true(led_frame_peek(head, &frame, &size));
            w.used[0] = w.frame_at[n] + size;
        }
    }
    assert_in_range(w.used[0], FILE_BYTES / 2, FILE_BYTES - LED_SECTOR);
    assert_in_range(w.used[1], LED_SEGMENT_HEAD + 3 * LED_SECTOR, FILE_BYTES - 32 * LED_SECTOR);
    led_log_close(log);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&w.kit);
    ron_memdisk_free(w.disk);
    return 0;
}

/* Opens and checks that what is told is a beginning of what was written. */
static struct led_log *open_checked(struct led_log_report *ret_report)
{
    struct check c = {0};
    struct led_log *log = kit_open(&w.opts, 1, see, &c, ret_report);
    struct led_log_head head;

    led_log_head(log, &head);
    assert_false(c.strange);
    assert_int_equal(c.frames, ret_report->frames);
    assert_true(head.last_seq <= w.head.last_seq);
    if (ret_report->damage != LED_DAMAGE_NONE) {
        assert_int_equal(kit_append(&w.kit, log, 99, 5), RON_CLOSED);
        assert_non_null(strstr(ret_report->where, ".seg at "));
        assert_true(ret_report->what[0] != '\0');
    } else {
        assert_int_equal(c.frames, FRAMES);
    }
    return log;
}

static void expect_damage(enum led_damage damage)
{
    struct led_log_report report;
    struct led_log *log = open_checked(&report);
    struct led_log_head head;

    assert_string_equal(led_damage_name(report.damage), led_damage_name(damage));
    led_log_head(log, &head);
    kit_check_reads(log, head.first_seq, head.last_seq);
    led_log_close(log);
}

/* The log goes on after a cut tail, and is whole. */
static void expect_writable(uint64_t frames_before)
{
    struct led_log_report report;
    struct led_log_head head;
    struct led_log *log = kit_open(&w.opts, 1, NULL, NULL, &report);

    assert_int_equal(report.damage, LED_DAMAGE_NONE);
    assert_int_equal(report.torn_bytes, 0);
    assert_int_equal(report.frames, frames_before);
    assert_int_equal(kit_append(&w.kit, log, 77, 20), RON_OK);
    led_log_head(log, &head);
    led_log_close(log);
    log = kit_open(&w.opts, 1, NULL, NULL, &report);
    assert_int_equal(report.damage, LED_DAMAGE_NONE);
    assert_int_equal(report.frames, frames_before + 1);
    kit_check_reads(log, 1, head.last_seq);
    led_log_close(log);
}

/* ---- flips ----------------------------------------------------------------------------------- */

static void test_log__any_byte_flipped__detected_and_never_served(void **state)
{
    uint64_t cut = 0;

    (void)state;
    w.opts.read_only = true; /* nothing is repaired between two flips */
    for (unsigned segment = 0; segment < SEGMENTS; segment++) {
        for (uint64_t off = 0; off < FILE_BYTES; off += STRIDE) {
            struct led_log_report report;
            bool rest = segment + 1 == SEGMENTS && off >= w.used[segment];

            flip(segment, off);
            led_log_close(open_checked(&report));
            /* Only behind the end a flip may be taken for the rest of a torn write: it is told, and
             * no content. */
            if (report.damage == LED_DAMAGE_NONE) {
                assert_true(rest);
                assert_true(report.torn_bytes > 0);
                cut++;
            } else {
                assert_false(rest && off - w.used[segment] >= LED_SECTOR);
            }
            flip(segment, off);
        }
    }
    assert_true(cut > 0);
}

static void test_log__any_byte_of_a_frame_flipped_beside_a_reader__not_read(void **state)
{
    struct led_log_report report;
    struct led_log *log;
    struct ron_buf room;

    (void)state;
    w.opts.read_only = true;
    log = kit_open(&w.opts, 1, NULL, NULL, &report);
    ron_buf_init(&room, LED_FRAME_MAX);
    for (unsigned n = 0; n < FRAMES; n += 7) {
        uint64_t end =
            w.frame_in[n] == w.frame_in[n + 1] ? w.frame_at[n + 1] : w.used[w.frame_in[n]];
        struct led_frame good;
        uint8_t head[LED_FRAME_HEAD];
        size_t size;

        peek(w.frame_in[n], w.frame_at[n], head, sizeof head);
        assert_true(led_frame_peek(head, &good, &size));
        if (good.entries == 0) {
            continue;
        }
        for (uint64_t off = w.frame_at[n]; off < end; off += STRIDE) {
            struct led_frame frame;

            flip(w.frame_in[n], off);
            assert_int_equal(led_log_read(log, good.seq_first, &room, &frame, NULL), RON_CORRUPT);
            flip(w.frame_in[n], off);
        }
        assert_int_equal(led_log_read(log, good.seq_first, &room, &good, NULL), RON_OK);
    }
    ron_buf_done(&room);
    led_log_close(log);
}

/* ---- torn tails ------------------------------------------------------------------------------ */

static void zero_sectors(unsigned segment, uint64_t off, uint64_t end, uint64_t mask)
{
    static const uint8_t zeros[LED_SECTOR];

    for (uint64_t i = 0; off < end; off += LED_SECTOR, i++) {
        if ((mask >> i % 64 & 1) != 0) {
            poke(segment, off, zeros, sizeof zeros);
        }
    }
}

static void test_log__sectors_of_the_last_frame_missing__cut_and_counted(void **state)
{
    const uint64_t at = w.frame_at[FRAMES - 1];
    const uint64_t end = w.frame_at[FRAMES];
    const uint64_t sectors = (end - at) / LED_SECTOR;
    struct ron_rand rand = support_rand();
    uint8_t *frame = malloc((size_t)(end - at));

    (void)state;
    assert_in_range(sectors, 3, 63);
    peek(1, at, frame, (size_t)(end - at));
    for (int i = 0; i < 200; i++) {
        uint64_t all = (UINT64_C(1) << sectors) - 1;
        uint64_t mask = i < (int)sectors       ? UINT64_C(1) << i
                        : i < 2 * (int)sectors ? all & ~(UINT64_C(1) << (i - (int)sectors))
                                               : 1 + ron_rand_below(&rand, all);
        struct led_log_report report;
        struct check c = {0};
        struct led_log *log;

        poke(1, at, frame, (size_t)(end - at));
        zero_sectors(1, at, end, mask);
        w.opts.torn_is_damage = true;
        log = kit_open(&w.opts, 1, NULL, NULL, &report);
        assert_int_equal(report.damage, mask == all ? LED_DAMAGE_NONE : LED_DAMAGE_FRAME);
        led_log_close(log);
        w.opts.torn_is_damage = false;
        w.opts.read_only = true;
        log = kit_open(&w.opts, 1, see, &c, &report);
        assert_int_equal(report.damage, LED_DAMAGE_NONE);
        assert_int_equal(report.torn_bytes == 0, mask == all);
        led_log_close(log);
        w.opts.read_only = false;
        c.frames = 0;
        log = kit_open(&w.opts, 1, see, &c, &report);
        assert_int_equal(report.damage, LED_DAMAGE_NONE);
        assert_int_equal(report.frames, FRAMES - 1);
        assert_int_equal(report.torn_bytes == 0, mask == all);
        assert_false(c.strange);
        led_log_close(log);
    }
    free(frame);
    expect_writable(FRAMES - 1);
}

static void test_log__torn_frame_with_a_frame_behind_it__is_damage(void **state)
{
    const uint64_t at = w.frame_at[FRAMES - 2];
    const uint64_t end = w.frame_at[FRAMES - 1];

    (void)state;
    assert_int_equal(w.frame_in[FRAMES - 2], 1);
    zero_sectors(1, at, end, 2);
    expect_damage(LED_DAMAGE_MISSING);
    zero_sectors(1, at, end, UINT64_MAX); /* all of it: a hole before the last frame */
    expect_damage(LED_DAMAGE_MISSING);
}

static void test_log__torn_frame_before_the_last_segment__is_damage(void **state)
{
    unsigned last = 0;

    (void)state;
    while (w.frame_in[last + 1] == 0) {
        last++;
    }
    zero_sectors(0, w.frame_at[last], w.used[0], 2);
    expect_damage(LED_DAMAGE_FRAME);
    zero_sectors(0, w.frame_at[last], w.used[0], 1);
    expect_damage(LED_DAMAGE_MISSING);
    zero_sectors(0, w.frame_at[last], w.used[0], UINT64_MAX);
    expect_damage(LED_DAMAGE_CHAIN);
}

static void test_log__last_frame_wrong_but_all_there__is_damage(void **state)
{
    (void)state;
    flip(1, w.frame_at[FRAMES - 1] + 200);
    expect_damage(LED_DAMAGE_FRAME);
}

/* ---- what no writer makes -------------------------------------------------------------------- */

/* Puts the frame in w.kit behind the end. */
static void put_behind(void)
{
    poke(1, w.used[1], ron_buf_data(&w.kit.buf), ron_buf_len(&w.kit.buf));
}

static void clear_behind(void)
{
    zero_sectors(1, w.used[1], FILE_BYTES, UINT64_MAX);
}

static void test_log__frame_that_does_not_follow__is_damage(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct led_log_head head = w.head;

        head.last_seq += i == 0;
        head.last_seq -= i == 1;
        head.root.bytes[5] ^= i == 2;
        head.uuid[5] ^= i == 3;
        head.epoch -= i == 4;
        kit_build(&w.kit, &head, 200, 5);
        put_behind();
        expect_damage(LED_DAMAGE_CHAIN);
        clear_behind();
    }
    expect_writable(FRAMES);
}

static void test_log__content_that_no_writer_makes__is_damage(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct led_frame frame;

        /* Checksums and chain are right; the number of entries or records is not. */
        kit_build(&w.kit, &w.head, 202, 5);
        assert_true(w.kit.frame.entries > 1);
        frame = w.kit.frame;
        frame.entries += i == 0;
        frame.records += i == 1;
        frame.records -= i == 2;
        {
            size_t payload = 0;
            struct led_frame seen;
            size_t size;

            assert_true(led_frame_peek(ron_buf_data(&w.kit.buf), &seen, &size));
            payload = seen.payload_len;
            w.kit.buf.len = LED_FRAME_HEAD + payload; /* take padding and tail off again */
            assert_int_equal(led_frame_end(&w.kit.buf, &frame), RON_OK);
        }
        put_behind();
        expect_damage(LED_DAMAGE_CONTENT);
        clear_behind();
    }
    expect_writable(FRAMES);
}

static void test_log__root_changed_without_an_entry__is_damage(void **state)
{
    (void)state;
    kit_build(&w.kit, &w.head, 1, 0);
    assert_int_equal(w.kit.frame.entries, 0);
    w.kit.frame.new_root.bytes[0] ^= 1;
    {
        struct led_frame seen;
        size_t size;

        assert_true(led_frame_peek(ron_buf_data(&w.kit.buf), &seen, &size));
        w.kit.buf.len = LED_FRAME_HEAD + seen.payload_len;
        assert_int_equal(led_frame_end(&w.kit.buf, &w.kit.frame), RON_OK);
    }
    put_behind();
    expect_damage(LED_DAMAGE_CHAIN);
}

static enum ron_rc refuse_tenth(void *arg, const struct led_frame *frame, const char *where,
                                struct ron_err *err)
{
    int *n = arg;

    (void)frame;
    (void)where;
    return ++*n == 10 ? ron_err_set(err, RON_CORRUPT, "the root is another one") : RON_OK;
}

static void test_log__visitor_disagrees__damage_with_its_words(void **state)
{
    struct led_log_report report;
    struct led_log *log;
    int n = 0;

    (void)state;
    log = kit_open(&w.opts, 1, refuse_tenth, &n, &report);
    assert_int_equal(report.damage, LED_DAMAGE_REPLAY);
    assert_string_equal(report.what, "the root is another one");
    assert_int_equal(report.frames, 9);
    led_log_close(log);
    expect_writable(FRAMES); /* nothing was changed */
}

/* ---- segments -------------------------------------------------------------------------------- */

static void move(const char *from, const char *to)
{
    char a[96];
    char b[96];

    (void)snprintf(a, sizeof a, "/log/%s", from);
    (void)snprintf(b, sizeof b, "/log/%s", to);
    assert_int_equal(w.env->disk->rename(w.env, a, b, NULL), RON_OK);
}

static void test_log__segments_bent__named_as_damage(void **state)
{
    char wrong[64];
    int fd;

    (void)state;
    (void)snprintf(wrong, sizeof wrong, "00000003%.25s", w.name[1] + 8);
    move(w.name[1], wrong); /* 1, 3 */
    expect_damage(LED_DAMAGE_MISSING);
    move(wrong, w.name[1]);
    (void)snprintf(wrong, sizeof wrong, "%.28s9.seg", w.name[1]);
    move(w.name[1], wrong); /* another seq than in its head */
    expect_damage(LED_DAMAGE_SEGMENT);
    move(wrong, w.name[1]);
    (void)snprintf(wrong, sizeof wrong, "%.9s%020d.seg", w.name[1], 0);
    move(w.name[1], wrong);
    expect_damage(LED_DAMAGE_CHAIN);
    move(wrong, w.name[1]);
    fd = open_segment(1);
    assert_int_equal(w.env->disk->truncate(w.env, fd, FILE_BYTES + LED_SECTOR, NULL), RON_OK);
    expect_damage(LED_DAMAGE_SEGMENT);
    assert_int_equal(w.env->disk->truncate(w.env, fd, FILE_BYTES - LED_SECTOR, NULL), RON_OK);
    expect_damage(LED_DAMAGE_SEGMENT);
    assert_int_equal(w.env->disk->truncate(w.env, fd, 100, NULL), RON_OK);
    expect_damage(LED_DAMAGE_SEGMENT);
    assert_int_equal(w.env->disk->truncate(w.env, fd, 0, NULL), RON_OK);
    expect_damage(LED_DAMAGE_SEGMENT);
    w.env->disk->close(w.env, fd);
}

static void test_log__segment_of_another_ledger__is_damage(void **state)
{
    struct led_segment_head head;
    uint8_t bytes[LED_SEGMENT_HEAD];

    (void)state;
    peek(1, 0, bytes, sizeof bytes);
    assert_true(led_segment_head_read(bytes, &head));
    head.uuid[0] ^= 1;
    led_segment_head_write(&head, bytes);
    poke(1, 0, bytes, sizeof bytes);
    expect_damage(LED_DAMAGE_SEGMENT);
    head.uuid[0] ^= 1;
    head.prev_root.bytes[0] ^= 1;
    led_segment_head_write(&head, bytes);
    poke(1, 0, bytes, sizeof bytes);
    expect_damage(LED_DAMAGE_CHAIN);
}

static void test_log__first_segment_removed__begins_later(void **state)
{
    struct led_log_report report;
    struct led_log_head head;
    struct led_log *log;
    char path[96];

    (void)state;
    path_of(0, path);
    assert_int_equal(w.env->disk->remove(w.env, path, NULL), RON_OK);
    log = kit_open(&w.opts, 1, NULL, NULL, &report);
    assert_int_equal(report.damage, LED_DAMAGE_NONE);
    led_log_head(log, &head);
    assert_true(head.first_seq > 1);
    assert_int_equal(head.last_seq, w.head.last_seq);
    kit_check_reads(log, head.first_seq, head.last_seq);
    led_log_close(log);
}

static void test_log__stray_files__are_no_segments(void **state)
{
    static const char *const names[] = {"next.tmp",
                                        "roll.tmp",
                                        "notes.txt",
                                        "1-1.seg",
                                        "00000009-0000000000000000x001.seg",
                                        "00000009-99999999999999999999.seg",
                                        "00000009-00000000000000000001.seg.bak"};
    struct ron_file_stat st;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        char path[96];
        int fd = -1;

        (void)snprintf(path, sizeof path, "/log/%s", names[i]);
        assert_int_equal(
            w.env->disk->open(w.env, path, RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &fd, NULL),
            RON_OK);
        w.env->disk->close(w.env, fd);
    }
    expect_writable(FRAMES);
    assert_int_equal(w.env->disk->stat(w.env, "/log/next.tmp", &st), RON_NOTFOUND);
    assert_int_equal(w.env->disk->stat(w.env, "/log/roll.tmp", &st), RON_NOTFOUND);
    assert_int_equal(w.env->disk->stat(w.env, "/log/notes.txt", &st), RON_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(test_log__any_byte_flipped__detected_and_never_served),
        CASE(test_log__any_byte_of_a_frame_flipped_beside_a_reader__not_read),
        CASE(test_log__sectors_of_the_last_frame_missing__cut_and_counted),
        CASE(test_log__torn_frame_with_a_frame_behind_it__is_damage),
        CASE(test_log__torn_frame_before_the_last_segment__is_damage),
        CASE(test_log__last_frame_wrong_but_all_there__is_damage),
        CASE(test_log__frame_that_does_not_follow__is_damage),
        CASE(test_log__content_that_no_writer_makes__is_damage),
        CASE(test_log__root_changed_without_an_entry__is_damage),
        CASE(test_log__visitor_disagrees__damage_with_its_words),
        CASE(test_log__segments_bent__named_as_damage),
        CASE(test_log__segment_of_another_ledger__is_damage),
        CASE(test_log__first_segment_removed__begins_later),
        CASE(test_log__stray_files__are_no_segments),
#undef CASE
    };

    return cmocka_run_group_tests_name("ledger.led_log_damage", tests, NULL, NULL);
}
