/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever system call or allocation under the ledger's log, its stored hashes or the disk
 * in memory fails, the caller gets a code, nothing leaks, and what was acknowledged is there.
 * Method: the fault sweep over whole lives: open, append over the end of a segment, make one ahead,
 * read, scan, close. After each life the log is opened without faults and looked at. */
#include "unit/io/fixture.h"
#include "unit/ledger/logkit.h"

#include "ledger/index/hashes.h"

enum { ENTRIES = 300 };

static struct fixture *fix;
static unsigned lives;
static uint64_t acked;

static enum ron_rc see(void *arg, const struct led_frame *frame, const char *where,
                       struct ron_err *err)
{
    uint64_t *frames = arg;

    (void)where;
    (void)err;
    RON_ASSERT(frame->time_ms == *frames + 1);
    ++*frames;
    return RON_OK;
}

static enum ron_rc use_log(struct led_log *log, struct kit *kit)
{
    struct led_log_head head;
    struct led_frame frame;
    struct ron_buf room;
    uint64_t frames = 0;
    enum ron_rc rc = RON_OK;

    for (uint64_t i = 1; i <= 4 && rc == RON_OK; i++) { /* the last ones need a new segment each */
        struct ron_err err = {0};

        led_log_head(log, &head);
        kit_build(kit, &head, i, ENTRIES);
        rc =
            led_log_append(log, &kit->frame, ron_buf_data(&kit->buf), ron_buf_len(&kit->buf), &err);
        RON_ASSERT(rc == RON_OK || (err.rc == rc && err.msg[0] != '\0'));
        acked += rc == RON_OK;
        if (rc == RON_OK && i == 2) {
            rc = led_log_prepare(log, NULL);
        }
    }
    ron_buf_init(&room, LED_FRAME_MAX);
    led_log_head(log, &head);
    if (rc == RON_OK) {
        rc = led_log_read(log, head.last_seq, &room, &frame, NULL);
    }
    if (rc == RON_OK) {
        rc = led_log_scan(log, 1, UINT64_MAX, see, &frames, NULL);
        RON_ASSERT(rc != RON_OK || frames == acked);
    }
    ron_buf_done(&room);
    return rc;
}

static enum ron_rc log_life(const struct ron_env *env, const char *dir)
{
    bool (*hook)(enum ron_fault_kind kind, const char *site);
    struct led_log_opts opts = {.env = env, .dir = dir, .segment_bytes = KIT_SEGMENT};
    struct led_log_report report = {0};
    struct led_log *log = NULL;
    struct kit kit;
    uint64_t frames = 0;
    enum ron_rc rc;

    /* The kit is the test's own: its memory comes before the faults. */
    hook = ron_fault_hook;
    ron_fault_hook = NULL;
    kit_init(&kit);
    kit_build(&kit, &(struct led_log_head){0}, 1, ENTRIES);
    RON_ASSERT(ron_buf_append(&kit.buf, (uint8_t[1 << 16]){0}, 1 << 16) == RON_OK);
    ron_fault_hook = hook;
    acked = 0;
    rc = led_log_open(&opts, 1, NULL, NULL, &log, &report, NULL);
    if (rc == RON_OK && report.damage != LED_DAMAGE_NONE) {
        rc = RON_CORRUPT; /* the disk could not read */
    }
    if (rc == RON_OK) {
        rc = use_log(log, &kit);
    }
    led_log_close(log);
    hook = ron_fault_hook;
    ron_fault_hook = NULL;
    RON_ASSERT(led_log_open(&opts, 1, see, &frames, &log, &report, NULL) == RON_OK);
    RON_ASSERT(report.damage == LED_DAMAGE_NONE);
    RON_ASSERT(frames == acked || frames == acked + 1);
    led_log_close(log);
    kit_done(&kit);
    ron_fault_hook = hook;
    return rc;
}

static enum ron_rc log_on_disk(void *arg)
{
    char dir[128];
    enum ron_rc rc;

    (void)arg;
    (void)snprintf(dir, sizeof dir, "%s/%u", fix->dir, lives++);
    rc = log_life(fix->env, dir);
    (void)nftw(dir, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return rc;
}

static enum ron_rc log_in_memory(void *arg)
{
    struct ron_memdisk *disk = NULL;
    enum ron_rc rc = ron_memdisk_new(fix->env, 64 << 20, &disk, NULL);

    (void)arg;
    if (rc == RON_OK) {
        rc = log_life(ron_memdisk_env(disk), "/log");
    }
    ron_memdisk_free(disk);
    return rc;
}

static enum ron_rc hashes_life(void *arg)
{
    struct ron_tree_hash hashes[100] = {{{1}}};
    struct ron_tree_hash got[2];
    const uint64_t places[] = {0, 50};
    struct led_hashes *h = NULL;
    char dir[128];
    enum ron_rc rc;

    (void)arg;
    (void)snprintf(dir, sizeof dir, "%s/%u", fix->dir, lives++);
    rc = led_hashes_open(fix->env, dir, false, &h, NULL);
    if (rc == RON_OK) {
        const struct ron_tree_store *s = led_hashes_store(h);

        rc = s->append(s->ctx, 0, hashes, 100, NULL);
        RON_ASSERT(led_hashes_count(h) == (rc == RON_OK ? 100 : 0));
        rc = rc == RON_OK ? s->read(s->ctx, places, 2, got, NULL) : rc;
        rc = rc == RON_OK ? led_hashes_sync(h, NULL) : rc;
        rc = rc == RON_OK ? led_hashes_cut(h, 10, NULL) : rc;
    }
    led_hashes_close(h);
    (void)nftw(dir, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return rc;
}

/* Some calls may fail without harm: removing a temporary file, a second try of a read. */
SUPPORT_FAULT_SWEEP_TOLERANT(test_led_log__any_fault_on_disk__acknowledged_is_there, log_on_disk)
SUPPORT_FAULT_SWEEP(test_led_log__any_fault_in_memory__acknowledged_is_there, log_in_memory)
SUPPORT_FAULT_SWEEP(test_led_hashes__any_fault__is_told, hashes_life)

static int setup(void **state)
{
    void *f = NULL;
    int rc = fixture_setup(&f);

    fix = f;
    *state = f;
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_led_log__any_fault_on_disk__acknowledged_is_there),
        cmocka_unit_test(test_led_log__any_fault_in_memory__acknowledged_is_there),
        cmocka_unit_test(test_led_hashes__any_fault__is_told),
    };

    return cmocka_run_group_tests_name("fault.led_log_faults", tests, setup, fixture_teardown);
}
