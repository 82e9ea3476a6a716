/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever allocation or system call fails while a configuration is read, reloaded or
 * printed, the caller gets a code, no memory leaks, and the old snapshot stays whole.
 * Method: the fault sweep over whole lives, one with a real file. */
#include "unit/conf/sample.h"

#include "unit/io/fixture.h"

#include "ron/base/assert.h"
#include "ron/conf/toml.h"
#include "support/conf_box.h"

static struct fixture fix;

static const char text_old[] = "limits.rate = 3\nlog.hosts = ['a', 'b']\norigins.o.url = 'x'\n";
static const char text_new[] = "limits.rate = 4\nlog.hosts = ['c']\norigins.p.url = 'y'\n"
                               "peers.q.addr = 'z'\nhttp.listen = 'other'\n";

static enum ron_rc toml_case(void *arg)
{
    static const char text[] = "a = [1, 'x', {b.c = \"\"\"y\"\"\"}]\n[t.u]\nv = 1.5\n[[w]]\n";
    struct ron_toml *doc = NULL;
    enum ron_rc rc = ron_toml_parse("t", text, strlen(text), &doc, NULL);

    (void)arg;
    RON_ASSERT(rc == RON_OK || doc == NULL);
    ron_toml_free(doc);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_conf__each_call_of_the_toml_reader_fails__is_reported, toml_case)

static enum ron_rc file_case(void *arg)
{
    struct ron_conf_sources sources = {.path = arg};
    struct ron_conf_snap *snap = NULL;
    size_t fds = fixture_open_fds();
    enum ron_rc rc = ron_conf_load(fix.env, &sample_table, &sources, &snap, NULL);

    RON_ASSERT(fixture_open_fds() == fds);
    RON_ASSERT((rc == RON_OK) == (snap != NULL));
    ron_conf_unref(snap);
    return rc;
}

static void test_conf__each_call_of_a_load_fails__is_reported(void **state)
{
    (void)state;
    const char *path = fixture_path(&fix, "ron.toml");
    char kept[FIXTURE_PATH_SIZE];
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text_old, file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(kept, sizeof(kept), "%s", path);
    support_sweep_expect_clean(
        &(struct support_sweep){.name = "load", .run = file_case, .arg = kept});
}

static enum ron_rc reload_life(struct ron_conf_box *box, struct ron_buf *out)
{
    struct ron_conf_sources sources = {.path = "w.toml", .text = text_new};
    struct ron_conf_changes changes = {0};
    enum ron_rc rc = ron_conf_box_reload(box, NULL, &sources, &changes, out, NULL);
    struct ron_conf_snap *snap = ron_conf_box_get(box);
    bool new = ron_conf_int(snap, SAMPLE_RATE) == 4;

    RON_ASSERT(new == (rc == RON_OK));
    RON_ASSERT(ron_conf_section_find(snap, "origins", new ? "p" : "o") != 0);
    RON_ASSERT(ron_conf_list(snap, SAMPLE_HOSTS).count == (new ? 1 : 2));
    if (rc == RON_OK) {
        rc = ron_conf_print(snap, out);
    }
    if (rc == RON_OK) {
        rc = ron_conf_write_markdown(&sample_table, out);
    }
    if (rc == RON_OK) {
        rc = ron_conf_write_man(&sample_table, out);
    }
    ron_conf_unref(snap);
    return rc;
}

static enum ron_rc reload_case(void *arg)
{
    struct ron_conf_sources sources = {.path = "w.toml", .text = text_old};
    struct ron_conf_snap *snap = NULL;
    struct ron_conf_box box;
    struct ron_buf out;

    (void)arg;
    RON_TRY(ron_conf_load(NULL, &sample_table, &sources, &snap, NULL));
    ron_conf_box_init(&box, snap);
    ron_buf_init(&out, RON_CONF_PRINT_MAX);
    enum ron_rc rc = reload_life(&box, &out);

    ron_buf_done(&out);
    ron_conf_box_done(&box);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_conf__each_call_of_a_reload_fails__keeps_the_old, reload_case)

static int setup(void **state)
{
    struct fixture *f = NULL;
    int rc = fixture_setup((void **)&f);

    (void)state;
    if (rc == 0) {
        fix = *f;
        free(f);
    }
    return rc;
}

static int teardown(void **state)
{
    (void)state;
    return nftw(fix.dir, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conf__each_call_of_the_toml_reader_fails__is_reported),
        cmocka_unit_test(test_conf__each_call_of_a_load_fails__is_reported),
        cmocka_unit_test(test_conf__each_call_of_a_reload_fails__keeps_the_old),
    };

    return cmocka_run_group_tests_name("conf_faults", tests, setup, teardown);
}
