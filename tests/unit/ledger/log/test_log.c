/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: what was appended is there after every way of opening the log anew, and is found by seq,
 * also beside the writer.
 * Method: logs of small segments and frames from numbers (logkit.h), on a directory of a real disk,
 * on a disk in memory, or on both. What is not sound is the matter of test_log_damage.c. */
#include "unit/io/fixture.h"
#include "unit/ledger/logkit.h"

#include "ron/sync/sync.h"

enum { SMALL = KIT_SEGMENT, ENTRIES = 30 };

struct place {
    struct fixture *fix;
    struct ron_memdisk *disk; /* NULL on a real one */
    const struct ron_env *env;
    char dir[128];
};

static int on_disk(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    void *fix = NULL;

    if (p == NULL || fixture_setup(&fix) != 0) {
        return -1;
    }
    p->fix = fix;
    p->env = p->fix->env;
    (void)snprintf(p->dir, sizeof p->dir, "%s/log", p->fix->dir);
    *state = p;
    return 0;
}

static int in_memory(void **state)
{
    struct place *p;

    if (on_disk(state) != 0) {
        return -1;
    }
    p = *state;
    if (ron_memdisk_new(p->env, 256 << 20, &p->disk, NULL) != RON_OK) {
        return -1;
    }
    p->env = ron_memdisk_env(p->disk);
    (void)snprintf(p->dir, sizeof p->dir, "/log");
    return 0;
}

static int leave(void **state)
{
    struct place *p = *state;
    void *fix = p->fix;

    ron_memdisk_free(p->disk);
    free(p);
    return fixture_teardown(&fix);
}

static bool there(const struct place *p, const char *name, struct ron_file_stat *ret_stat)
{
    char path[192];

    (void)snprintf(path, sizeof path, "%s/%s", p->dir, name);
    return p->env->disk->stat(p->env, path, ret_stat) == RON_OK;
}

struct seen {
    uint64_t next; /* seq */
    uint64_t frames;
    uint64_t stop_at; /* frame to refuse, 0 = none */
};

static enum ron_rc see(void *arg, const struct led_frame *frame, const char *where,
                       struct ron_err *err)
{
    struct seen *seen = arg;

    assert_non_null(strstr(where, ".seg at "));
    if (++seen->frames == seen->stop_at) {
        return ron_err_set(err, RON_CORRUPT, "not like this");
    }
    assert_true(seen->next == 0 || seen->next == frame->seq_first);
    seen->next = frame->seq_first + frame->entries;
    return RON_OK;
}

static struct led_log_opts opts_of(const struct place *p)
{
    return (struct led_log_opts){.env = p->env, .dir = p->dir, .segment_bytes = SMALL};
}

static struct led_log *open_with(const struct led_log_opts *opts, uint64_t from, struct seen *seen,
                                 struct led_log_report *report)
{
    struct led_log *log = NULL;
    struct led_log_report own;
    struct ron_err err = {0};

    assert_int_equal(led_log_open(opts, from, seen == NULL ? NULL : see, seen, &log,
                                  report == NULL ? &own : report, &err),
                     RON_OK);
    if (report == NULL) {
        assert_string_equal(own.what, "");
    }
    return log;
}

static struct led_log *open_log(const struct place *p)
{
    struct led_log_opts opts = opts_of(p);

    return open_with(&opts, 1, NULL, NULL);
}

/* A log of `frames` frames, closed again. */
static void fill(const struct place *p, uint64_t frames, struct led_log_head *ret_head)
{
    struct led_log *log = open_log(p);
    struct kit kit;

    kit_init(&kit);
    for (uint64_t i = 1; i <= frames; i++) {
        assert_int_equal(kit_append(&kit, log, i, ENTRIES), RON_OK);
    }
    led_log_head(log, ret_head);
    led_log_close(log);
    kit_done(&kit);
}

static void test_log__new__is_empty_and_named(void **state)
{
    const struct place *p = *state;
    struct led_log *log = open_log(p);
    struct led_log_head head;
    struct ron_tree_hash empty;
    struct ron_file_stat st;

    led_log_head(log, &head);
    ron_tree_hash_empty(&empty);
    assert_int_equal(head.last_seq, 0);
    assert_int_equal(head.first_seq, 1);
    assert_int_equal(head.epoch, 1);
    assert_int_equal(head.segments, 1);
    assert_int_equal(head.bytes, SMALL);
    assert_memory_equal(&head.root, &empty, sizeof empty);
    assert_int_equal(head.uuid[6] >> 4, 4);
    assert_true(there(p, "", &st));
    assert_int_equal(st.mode, 0700);
    assert_true(there(p, "00000001-00000000000000000001.seg", &st));
    assert_int_equal(st.mode, 0600);
    assert_int_equal(st.size_bytes, SMALL);
    kit_check_reads(log, 1, 0);
    led_log_close(log);
}

static void test_log__appended__is_there_from_every_seq(void **state)
{
    const struct place *p = *state;
    struct led_log_opts opts = opts_of(p);
    struct led_log_head head;

    fill(p, 300, &head);
    assert_true(head.segments > 3);
    for (uint64_t from = 0; from <= head.last_seq + 2; from += from < 20 ? 1 : 197) {
        struct seen seen = {0};
        struct led_log_report report;
        struct led_log *log = open_with(&opts, from, &seen, &report);
        struct led_log_head again;

        assert_int_equal(report.damage, LED_DAMAGE_NONE);
        assert_int_equal(report.torn_bytes, 0);
        led_log_head(log, &again);
        assert_int_equal(again.last_seq, head.last_seq);
        assert_memory_equal(&again.root, &head.root, sizeof head.root);
        assert_memory_equal(again.uuid, head.uuid, sizeof head.uuid);
        assert_int_equal(again.time_ms, 300);
        assert_int_equal(again.epoch, 2); /* no frame was written since */
        assert_int_equal(again.bytes, head.bytes);
        assert_int_equal(seen.next, from > head.last_seq + 1 ? 0 : head.last_seq + 1);
        if (from <= 1) {
            assert_int_equal(seen.frames, 300);
            assert_int_equal(report.frames, 300);
            assert_int_equal(report.entries, head.last_seq);
            kit_check_reads(log, 1, head.last_seq);
        }
        led_log_close(log);
    }
}

static void test_log__scan__gives_the_frames_of_the_range(void **state)
{
    const struct place *p = *state;
    struct led_log_head head;
    struct led_log *log;

    fill(p, 80, &head);
    log = open_log(p);
    for (uint64_t from = 1; from <= head.last_seq + 1; from += 41) {
        struct seen all = {0};
        struct seen one = {0};

        assert_int_equal(led_log_scan(log, from, UINT64_MAX, see, &all, NULL), RON_OK);
        assert_int_equal(all.next, head.last_seq + 1);
        assert_int_equal(led_log_scan(log, from, from, see, &one, NULL), RON_OK);
        assert_true(from > head.last_seq || one.next > from);
        assert_true(one.frames <= all.frames);
    }
    {
        struct seen stopped = {.stop_at = 5};
        struct ron_err err = {0};

        assert_int_equal(led_log_scan(log, 1, UINT64_MAX, see, &stopped, &err), RON_CORRUPT);
        assert_string_equal(err.msg, "not like this");
        assert_int_equal(stopped.frames, 5);
    }
    led_log_close(log);
}

static void test_log__open_twice__second_is_told_to_wait(void **state)
{
    const struct place *p = *state;
    struct led_log_opts opts = opts_of(p);
    struct led_log *log = open_log(p);
    struct led_log *other = NULL;
    struct led_log_report report;

    assert_int_equal(led_log_open(&opts, 1, NULL, NULL, &other, &report, NULL), RON_AGAIN);
    opts.read_only = true;
    assert_int_equal(led_log_open(&opts, 1, NULL, NULL, &other, &report, NULL), RON_OK);
    led_log_close(other);
    /* Released, it can be opened for writing beside the old one, which still reads. */
    led_log_release(log);
    assert_false(led_log_wants_segment(log));
    opts.read_only = false;
    assert_int_equal(led_log_open(&opts, 1, NULL, NULL, &other, &report, NULL), RON_OK);
    led_log_close(other);
    led_log_close(log);
}

static void test_log__read_only__creates_and_changes_nothing(void **state)
{
    const struct place *p = *state;
    struct led_log_opts opts = opts_of(p);
    struct led_log_report report;
    struct led_log_head head;
    struct led_log *log = NULL;
    struct ron_file_stat st;
    struct kit kit;

    opts.read_only = true;
    assert_int_equal(led_log_open(&opts, 1, NULL, NULL, &log, &report, NULL), RON_NOTFOUND);
    assert_false(there(p, "", &st));
    fill(p, 20, &head);
    log = open_with(&opts, 1, NULL, NULL);
    kit_check_reads(log, 1, head.last_seq);
    assert_false(led_log_wants_segment(log));
    kit_init(&kit);
    assert_int_equal(kit_append(&kit, log, 21, ENTRIES), RON_CLOSED);
    kit_done(&kit);
    led_log_close(log);
}

static void test_log__frame_that_does_not_follow__refused_and_log_is_good(void **state)
{
    const struct place *p = *state;
    struct led_log *log = open_log(p);
    struct led_log_head head;
    struct kit kit;

    kit_init(&kit);
    assert_int_equal(kit_append(&kit, log, 1, ENTRIES), RON_OK);
    led_log_head(log, &head);
    for (int i = 0; i < 4; i++) {
        struct led_log_head wrong = head;

        wrong.last_seq += i == 0;
        wrong.root.bytes[0] ^= i == 1;
        wrong.epoch += i == 2;
        wrong.uuid[3] ^= i == 3;
        kit_build(&kit, &wrong, 2, ENTRIES);
        assert_int_equal(
            led_log_append(log, &kit.frame, ron_buf_data(&kit.buf), ron_buf_len(&kit.buf), NULL),
            RON_INVALID);
    }
    assert_int_equal(kit_append(&kit, log, 2, ENTRIES), RON_OK);
    kit_done(&kit);
    led_log_close(log);
}

static void test_log__frame_larger_than_a_segment__gets_its_own(void **state)
{
    const struct place *p = *state;
    struct led_log *log = open_log(p);
    struct led_log_head head;
    struct kit kit;

    kit_init(&kit);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(kit_append(&kit, log, i, i % 4 == 0 ? 5000 : ENTRIES), RON_OK);
    }
    led_log_head(log, &head);
    assert_true(head.bytes > head.segments * SMALL);
    kit_check_reads(log, 1, head.last_seq);
    led_log_close(log);
    log = open_log(p);
    kit_check_reads(log, 1, head.last_seq);
    led_log_close(log);
    kit_done(&kit);
}

static void test_log__frames_without_entries__fill_segments_too(void **state)
{
    const struct place *p = *state;
    struct led_log *log = open_log(p);
    struct led_log_head head;
    struct seen seen = {0};
    struct kit kit;

    kit_init(&kit);
    for (uint64_t i = 1; i <= 600; i++) {
        assert_int_equal(kit_append(&kit, log, i, i % 300 == 10 ? 3 : 0), RON_OK);
    }
    led_log_head(log, &head);
    assert_true(head.segments > 3);
    assert_in_range(head.last_seq, 1, 6);
    kit_check_reads(log, 1, head.last_seq);
    assert_int_equal(led_log_scan(log, head.last_seq + 1, UINT64_MAX, see, &seen, NULL), RON_OK);
    assert_true(seen.frames > 200);
    led_log_close(log);
    log = open_log(p);
    kit_check_reads(log, 1, head.last_seq);
    led_log_close(log);
    kit_done(&kit);
}

static void test_log__segment_made_ahead__is_used(void **state)
{
    const struct place *p = *state;
    struct led_log *log = open_log(p);
    struct led_log_head head;
    struct ron_file_stat st;
    struct kit kit;
    uint64_t i = 1;

    kit_init(&kit);
    assert_false(led_log_wants_segment(log));
    for (; !led_log_wants_segment(log); i++) {
        assert_int_equal(kit_append(&kit, log, i, ENTRIES), RON_OK);
    }
    assert_int_equal(led_log_prepare(log, NULL), RON_OK);
    assert_int_equal(led_log_prepare(log, NULL), RON_OK); /* again is nothing */
    assert_true(there(p, "next.tmp", &st));
    assert_false(led_log_wants_segment(log));
    do {
        assert_int_equal(kit_append(&kit, log, i++, ENTRIES), RON_OK);
        led_log_head(log, &head);
    } while (head.segments == 1);
    assert_false(there(p, "next.tmp", &st));
    assert_int_equal(led_log_prepare(log, NULL), RON_OK);
    led_log_close(log);
    assert_false(there(p, "next.tmp", &st));
    log = open_log(p);
    kit_check_reads(log, 1, head.last_seq);
    led_log_close(log);
    kit_done(&kit);
}

/* Appends until a new segment is begun; its size. */
static uint64_t fill_segment(struct kit *kit, struct led_log *log, uint64_t *i)
{
    struct led_log_head before;
    struct led_log_head after;

    led_log_head(log, &before);
    do {
        assert_int_equal(kit_append(kit, log, (*i)++, ENTRIES), RON_OK);
        led_log_head(log, &after);
    } while (after.segments == before.segments);
    return after.bytes - before.bytes;
}

/* Goal: nobody waits for the zeros of a large segment. */
static void test_log__segment_not_ready__a_small_one_bridges_the_time(void **state)
{
    const struct place *p = *state;
    struct led_log_opts opts = opts_of(p);
    struct led_log_head head;
    struct led_log *log;
    struct kit kit;
    uint64_t i = 1;

    kit_init(&kit);
    opts.segment_bytes = 5 << 20;
    log = open_with(&opts, 1, NULL, NULL);
    assert_int_equal(fill_segment(&kit, log, &i), 4 << 20);
    led_log_head(log, &head);
    assert_int_equal(head.late, 1);
    assert_int_equal(led_log_prepare(log, NULL), RON_OK); /* meanwhile it got ready */
    assert_int_equal(fill_segment(&kit, log, &i), 5 << 20);
    led_log_head(log, &head);
    assert_int_equal(head.late, 1);
    led_log_close(log);
    log = open_with(&opts, 1, NULL, NULL);
    kit_check_reads(log, head.last_seq - 2 * ENTRIES, head.last_seq);
    led_log_close(log);
    kit_done(&kit);
}

/* ---- space ----------------------------------------------------------------------------------- */

static uint64_t free_now;

static enum ron_rc told_free(const struct ron_env *env, const char *path, uint64_t *ret_bytes)
{
    (void)env;
    (void)path;
    *ret_bytes = free_now;
    return RON_OK;
}

/* The ports of a disk in memory want their own environment, so this one is for a real disk. */
static void test_log__below_the_floor__refused_and_good_again_with_space(void **state)
{
    const struct place *p = *state;
    struct ron_disk_ops disk = *p->env->disk;
    struct ron_env env = *p->env;
    struct led_log_opts opts = opts_of(p);
    struct led_log *log = NULL;
    struct led_log_report report;
    struct led_log_head head;
    struct kit kit;
    enum ron_rc rc = RON_OK;
    uint64_t i;

    disk.free_bytes = told_free;
    env.disk = &disk;
    opts.env = &env;
    opts.free_floor_bytes = 1000;
    free_now = SMALL + 999;
    assert_int_equal(led_log_open(&opts, 1, NULL, NULL, &log, &report, NULL), RON_LIMIT);
    free_now = SMALL + 1000;
    log = open_with(&opts, 1, NULL, NULL);
    free_now = SMALL;
    assert_int_equal(led_log_prepare(log, NULL), RON_LIMIT);
    kit_init(&kit);
    for (i = 1; rc == RON_OK; i++) {
        rc = kit_append(&kit, log, i, ENTRIES);
    }
    assert_int_equal(rc, RON_LIMIT);
    led_log_head(log, &head);
    assert_int_equal(head.segments, 1);
    kit_check_reads(log, 1, head.last_seq);
    free_now = UINT64_MAX;
    assert_int_equal(kit_append(&kit, log, i - 1, ENTRIES), RON_OK); /* the one refused before */
    led_log_head(log, &head);
    assert_int_equal(head.segments, 2);
    led_log_close(log);
    log = open_log(p);
    kit_check_reads(log, 1, head.last_seq);
    led_log_close(log);
    kit_done(&kit);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { FRAMES = 120 }; /* some ten segments: enough to roll over beside readers */

struct beside {
    struct led_log *log;
    struct ron_au64 done;
    struct ron_au64 reads;
    struct ron_au64 wrong; /* line */
};

static enum ron_rc follow(void *arg, const struct led_frame *frame, const char *where,
                          struct ron_err *err)
{
    uint64_t *next = arg;

    (void)where;
    (void)err;
    if (*next != 0 && frame->seq_first != *next) {
        return RON_CORRUPT;
    }
    *next = frame->seq_first + frame->entries;
    return RON_OK;
}

static void read_beside(void *arg)
{
    struct beside *b = arg;
    struct ron_buf room;
    struct ron_rand rand;
    bool last;

    ron_rand_seed(&rand, 1);
    ron_buf_init(&room, LED_FRAME_MAX);
    do {
        struct led_log_head head;
        struct led_frame frame;
        uint64_t next = 0;
        uint64_t seq;

        last = ron_au64_load(&b->done) != 0;
        led_log_head(b->log, &head);
        if (head.last_seq == 0) {
            continue;
        }
        seq =
            ron_rand_chance(&rand, 1, 2) ? head.last_seq : ron_rand_range(&rand, 1, head.last_seq);
        if (led_log_read(b->log, seq, &room, &frame, NULL) != RON_OK || frame.seq_first > seq ||
            seq - frame.seq_first >= frame.entries) {
            ron_au64_store(&b->wrong, __LINE__);
        }
        if (led_log_scan(b->log, seq, UINT64_MAX, follow, &next, NULL) != RON_OK ||
            next <= head.last_seq) {
            ron_au64_store(&b->wrong, __LINE__);
        }
        (void)ron_au64_add(&b->reads, 1);
    } while (!last && ron_au64_load(&b->wrong) == 0);
    ron_buf_done(&room);
}

static void prepare_beside(void *arg)
{
    struct beside *b = arg;

    while (ron_au64_load(&b->done) == 0) {
        if (led_log_wants_segment(b->log) && led_log_prepare(b->log, NULL) != RON_OK) {
            ron_au64_store(&b->wrong, __LINE__);
        }
    }
}

static void test_log__readers_and_preparer_beside_the_writer__see_whole_frames(void **state)
{
    const struct place *p = *state;
    struct beside b = {.log = open_log(p)};
    struct ron_thread *thread[3];
    enum ron_rc rc = RON_OK;
    struct kit kit;

    kit_init(&kit);
    for (size_t i = 0; i < RON_ARRAY_LEN(thread); i++) {
        const struct ron_thread_opts opts = {.name = "log",
                                             .may_block = true,
                                             .main = i == 0 ? prepare_beside : read_beside,
                                             .arg = &b};

        assert_int_equal(ron_thread_start(&opts, &thread[i], NULL), RON_OK);
    }
    for (uint64_t i = 1; i <= FRAMES && rc == RON_OK; i++) {
        rc = kit_append(&kit, b.log, i, ENTRIES);
    }
    ron_au64_store(&b.done, 1);
    for (size_t i = 0; i < RON_ARRAY_LEN(thread); i++) {
        ron_thread_join(thread[i]);
    }
    assert_int_equal(rc, RON_OK);
    assert_int_equal(ron_au64_load(&b.wrong), 0);
    assert_true(ron_au64_load(&b.reads) > 1);
    led_log_close(b.log);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define DISK(name) cmocka_unit_test_setup_teardown(name, on_disk, leave)
#define MEMORY(name) cmocka_unit_test_setup_teardown(name, in_memory, leave)
        DISK(test_log__new__is_empty_and_named),
        MEMORY(test_log__new__is_empty_and_named),
        MEMORY(test_log__appended__is_there_from_every_seq),
        DISK(test_log__scan__gives_the_frames_of_the_range),
        MEMORY(test_log__scan__gives_the_frames_of_the_range),
        DISK(test_log__open_twice__second_is_told_to_wait),
        MEMORY(test_log__open_twice__second_is_told_to_wait),
        DISK(test_log__read_only__creates_and_changes_nothing),
        MEMORY(test_log__read_only__creates_and_changes_nothing),
        MEMORY(test_log__frame_that_does_not_follow__refused_and_log_is_good),
        MEMORY(test_log__frame_larger_than_a_segment__gets_its_own),
        MEMORY(test_log__frames_without_entries__fill_segments_too),
        DISK(test_log__segment_made_ahead__is_used),
        MEMORY(test_log__segment_made_ahead__is_used),
        DISK(test_log__readers_and_preparer_beside_the_writer__see_whole_frames),
        MEMORY(test_log__segment_not_ready__a_small_one_bridges_the_time),
        MEMORY(test_log__readers_and_preparer_beside_the_writer__see_whole_frames),
        DISK(test_log__below_the_floor__refused_and_good_again_with_space),
#undef DISK
#undef MEMORY
    };

    return cmocka_run_group_tests_name("ledger.led_log", tests, NULL, NULL);
}
