/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a reload takes what it may, keeps the rest, says so without secrets, and readers see the
 * old or the new snapshot, never a mixture.
 * Method: diffs compared as whole texts; then threads that read while snapshots are swapped. */
#include "unit/conf/sample.h"

#include "conf/conf_testing.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"
#include "ron/sync/sync.h"
#include "support/conf_box.h"

struct outcome {
    enum ron_rc rc;
    struct ron_conf_changes changes;
    struct ron_conf_snap *snap;
    char diff[2048];
    struct ron_err err;
};

static struct outcome reload(const struct ron_conf_snap *old, const char *text)
{
    struct ron_conf_sources sources = {.path = "w.toml", .text = text};
    struct outcome o = {.rc = RON_OK};
    struct ron_buf diff;

    ron_buf_init_over(&diff, o.diff, sizeof(o.diff));
    o.rc = ron_conf_reload(NULL, &sources, old, &o.snap, &o.changes, &diff, &o.err);
    (void)ron_buf_text(&diff);
    return o;
}

static void test_reload__nothing_changed__says_nothing(void **state)
{
    (void)state;
    struct ron_conf_snap *old = sample_good("limits.rate = 3\norigins.a.url = 'x'");
    struct outcome o = reload(old, "origins.a.url = 'x'\n[limits]\nrate = 3");

    assert_int_equal(o.rc, RON_OK);
    assert_string_equal(o.diff, "");
    assert_int_equal(o.changes.changed + o.changes.needs_restart, 0);
    ron_conf_unref(old);
    ron_conf_unref(o.snap);
}

static void test_reload__changes__taken_or_kept_by_their_rows(void **state)
{
    (void)state;
    struct ron_conf_snap *old =
        sample_good("auth.token = 'hunter2'\nlimits.balance = 1\nhttp.listen = 'here'\n");
    struct outcome o = reload(old, "auth.token = 'hunter3'\nlimits.rate = 9\nlimits.balance = 2\n"
                                   "http.listen = 'there'\nlog.hosts = []\nlog.format = 'text'\n"
                                   "drain_deadline = '2s'\nlimits.max_body = '1GiB'\n");

    assert_int_equal(o.rc, RON_OK);
    assert_string_equal(o.diff, "drain_deadline: \"3s\" -> \"2s\"\n"
                                "http.listen: \"here\" -> \"there\" (needs restart, kept)\n"
                                "limits.rate: 500 -> 9\n"
                                "limits.max_body: \"1MiB\" -> \"1GiB\"\n"
                                "limits.balance: 1 -> 2 (needs restart, kept)\n"
                                "log.format: \"json\" -> \"text\"\n"
                                "log.hosts: [\"a\", \"b\"] -> []\n"
                                "auth.token: <redacted>, changed\n");
    assert_int_equal(o.changes.changed, 6);
    assert_int_equal(o.changes.needs_restart, 2);
    assert_string_equal(ron_conf_str(o.snap, SAMPLE_LISTEN).text, "here");
    assert_int_equal(ron_conf_int(o.snap, SAMPLE_BALANCE), 1);
    assert_int_equal(ron_conf_int(o.snap, SAMPLE_RATE), 9);
    assert_string_equal(ron_conf_secret(o.snap, SAMPLE_TOKEN).text, "hunter3");
    /* C1: the old one is as it was, and what the new one kept of it is its own. */
    assert_int_equal(ron_conf_int(old, SAMPLE_RATE), 500);
    ron_conf_unref(old);
    assert_string_equal(ron_conf_str(o.snap, SAMPLE_LISTEN).text, "here");
    ron_conf_unref(o.snap);
}

static void test_reload__named_sections__come_and_go_where_allowed(void **state)
{
    (void)state;
    struct ron_conf_snap *old = sample_good("origins.a.url = '1'\norigins.b.url = '2'\n"
                                            "peers.p.addr = 'old'\npeers.q.addr = 'gone'\n");
    struct outcome o = reload(old, "origins.c.url = '3'\norigins.b.url = '4'\n"
                                   "peers.p.addr = 'new'\npeers.r.addr = 'more'\n");

    assert_int_equal(o.rc, RON_OK);
    assert_string_equal(o.diff, "origins.a: removed\n"
                                "origins.b.url: \"2\" -> \"4\"\n"
                                "peers.p.addr: \"old\" -> \"new\" (needs restart, kept)\n"
                                "peers.q: removed (needs restart, kept)\n"
                                "origins.c: added\n"
                                "peers.r: added (needs restart, kept)\n");
    assert_int_equal(ron_conf_section_count(o.snap, "origins"), 2);
    assert_int_equal(ron_conf_section_count(o.snap, "peers"), 2);
    assert_int_equal(ron_conf_section_find(o.snap, "origins", "a"), 0);
    assert_int_equal(ron_conf_section_find(o.snap, "peers", "r"), 0);
    uint32_t p = ron_conf_section_find(o.snap, "peers", "p");

    assert_string_equal(ron_conf_str_in(o.snap, p, SAMPLE_PEER_ADDR).text, "old");
    ron_conf_unref(old);
    ron_conf_unref(o.snap);
}

static void test_reload__mistake__keeps_the_old(void **state)
{
    (void)state;
    static const char *const bad[] = {"limits.rate = ", "limits.rat = 1", "limits.rate = -1",
                                      "[origins.x]", "amnesia.enabled = 3"};

    struct ron_conf_sources sources = {.path = "w.toml"};
    struct ron_conf_changes changes = {77, 77};
    struct ron_conf_box box;
    struct ron_buf diff;
    struct ron_conf_snap *held = NULL;
    uint64_t seen = 0;

    ron_conf_box_init(&box, sample_good("limits.rate = 3"));
    ron_buf_init(&diff, RON_CONF_PRINT_MAX);
    assert_true(ron_conf_box_refresh(&box, &held, &seen));
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct ron_err err = {0};

        sources.text = bad[i];
        assert_int_equal(ron_conf_box_reload(&box, NULL, &sources, &changes, &diff, &err),
                         RON_INVALID);
        assert_non_null(strstr(err.msg, i == 3 ? "origins.x.url" : "w.toml:1:"));
        assert_false(ron_conf_box_refresh(&box, &held, &seen));
    }
    /* The rule between keys refuses after the comparison was made. */
    sources.text = "limits.rate = 66666";
    assert_int_equal(ron_conf_box_reload(&box, NULL, &sources, &changes, &diff, NULL),
                     RON_CONFLICT);
    assert_int_equal(ron_buf_len(&diff), 0);
    assert_int_equal(changes.changed, 77);
    sources.text = "limits.rate = 4";
    assert_int_equal(ron_conf_box_reload(&box, NULL, &sources, &changes, &diff, NULL), RON_OK);
    assert_int_equal(changes.changed, 1);
    assert_int_equal(ron_conf_int(held, SAMPLE_RATE), 3);
    assert_true(ron_conf_box_refresh(&box, &held, &seen));
    assert_int_equal(ron_conf_int(held, SAMPLE_RATE), 4);
    ron_conf_unref(held);
    ron_buf_done(&diff);
    ron_conf_box_done(&box);
}

/* Secrets must not stay behind in freed memory: the block is looked at right before it goes. */
static const uint8_t *watched;
static bool was_wiped;

static void look(int delta, const char *site)
{
    (void)site;
    if (delta < 0 && watched != NULL) {
        was_wiped = watched[0] == 0;
        watched = NULL;
    }
}

static void test_reload__last_reference_gone__secret_is_wiped(void **state)
{
    (void)state;
    struct ron_conf_snap *snap = sample_good("auth.token = 'hunter2'");

    watched = (const uint8_t *)ron_conf_secret(snap, SAMPLE_TOKEN).text;
    assert_int_equal(watched[0], 'h');
    (void)ron_conf_ref(snap);
    ron_alloc_watch = look;
    ron_conf_unref(snap);
    assert_non_null(watched);
    ron_conf_unref(snap);
    ron_alloc_watch = NULL;
    assert_null(watched);
    assert_true(was_wiped);
}

/* At least SWAPS, and more until every reader could see some, as a busy machine may hold them. */
enum { READERS = 3, SWAPS = 2000, SWAPS_MAX = 90000, SEEN_MIN = 150 };

struct shared {
    struct ron_conf_box box;
    struct ron_au32 stop;
    struct ron_stat reads;
    struct ron_stat changes;
};

/* rate, tries and the number of origins always agree in one snapshot. */
static void read_always(void *arg)
{
    struct shared *s = arg;
    struct ron_conf_snap *mine = NULL;
    uint64_t seen = 0;

    while (ron_au32_load(&s->stop) == 0) {
        struct ron_conf_snap *snap = ron_conf_box_get(&s->box);
        int64_t rate = ron_conf_int(snap, SAMPLE_RATE);

        RON_ASSERT(ron_conf_section_count(snap, "origins") == (size_t)(1 + rate % 2));
        RON_ASSERT(ron_conf_int_in(snap, 1, SAMPLE_ORIGIN_TRIES) == 1 + rate % 9);
        RON_ASSERT(ron_conf_bytes(snap, SAMPLE_BODY) == rate + 1);
        ron_conf_unref(snap);
        ron_stat_add(&s->changes, ron_conf_box_refresh(&s->box, &mine, &seen));
        RON_ASSERT(ron_conf_bytes(mine, SAMPLE_BODY) == ron_conf_int(mine, SAMPLE_RATE) + 1);
        ron_stat_add(&s->reads, 1);
    }
    ron_conf_unref(mine);
}

static const char *numbered(int n, char text[256])
{
    (void)snprintf(text, 256,
                   "limits = {rate = %d, max_body = '%dB'}\norigins.a = {url = 'x', "
                   "tries = %d}\n%s",
                   n, n + 1, 1 + n % 9, n % 2 == 0 ? "" : "origins.b.url = 'y'\n");
    return text;
}

static void test_reload__under_read_load__old_or_new_never_mixed(void **state)
{
    (void)state;
    struct shared s = {0};
    struct ron_thread *threads[READERS];
    struct ron_thread_opts opts = {
        .name = "reader", .may_block = true, .main = read_always, .arg = &s};
    struct ron_buf diff;
    char text[256];

    ron_conf_box_init(&s.box, sample_good(numbered(0, text)));
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(ron_thread_start(&opts, &threads[i], NULL), RON_OK);
    }
    ron_buf_init(&diff, RON_CONF_PRINT_MAX);
    for (int n = 1; n <= SWAPS_MAX && (n <= SWAPS || ron_stat_get(&s.changes) < SEEN_MIN); n++) {
        struct ron_conf_sources sources = {.path = "w.toml", .text = numbered(n, text)};
        struct ron_conf_changes changes;
        struct ron_err err = {0};

        if (ron_conf_box_reload(&s.box, NULL, &sources, &changes, &diff, &err) != RON_OK) {
            fail_msg("%s", err.msg);
        }
        ron_buf_clear(&diff);
    }
    ron_au32_store(&s.stop, 1);
    for (int i = 0; i < READERS; i++) {
        ron_thread_join(threads[i]);
    }
    print_message("%llu reads, %llu changes seen\n", (unsigned long long)ron_stat_get(&s.reads),
                  (unsigned long long)ron_stat_get(&s.changes));
    assert_true(ron_stat_get(&s.changes) >= SEEN_MIN);
    ron_buf_done(&diff);
    ron_conf_box_done(&s.box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reload__nothing_changed__says_nothing),
        cmocka_unit_test(test_reload__changes__taken_or_kept_by_their_rows),
        cmocka_unit_test(test_reload__named_sections__come_and_go_where_allowed),
        cmocka_unit_test(test_reload__mistake__keeps_the_old),
        cmocka_unit_test(test_reload__last_reference_gone__secret_is_wiped),
        cmocka_unit_test(test_reload__under_read_load__old_or_new_never_mixed),
    };

    return cmocka_run_group_tests_name("conf.reload", tests, NULL, NULL);
}
