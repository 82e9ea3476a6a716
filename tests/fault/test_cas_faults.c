/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever system call or allocation of the content store fails, the caller gets a code, no
 * descriptor and no memory leaks, and a file that stands in objects/ has the bytes of its name.
 * Method: the fault sweep over whole lives of a store on disk, its load and scrub, and of a store
 * in memory. What is on disk afterwards is looked at with plain system calls. */
#include "unit/cas/fixture.h"

#include "cas/cas_priv.h"
#include "ron/base/assert.h"
#include "support/cas_put.h"

enum { LARGE = RON_CAS_SMALL_MAX + 100 };

static struct fixture *fix;
static char dir[128];
static unsigned lives;
static uint8_t bytes[LARGE];

static void fresh_dir(void)
{
    (void)snprintf(dir, sizeof dir, "%s/%u", fix->dir, lives++);
    RON_ASSERT(mkdir(dir, 0700) == 0);
}

static size_t object_files;

/* A visible object is whole, at all times. */
static int check_file(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    static uint8_t content[LARGE + 1];
    struct ron_b3 want;
    struct ron_b3 got;
    int fd;
    ssize_t len;

    (void)st;
    if (kind != FTW_F || strstr(path, "/objects/") == NULL) {
        return 0;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    RON_ASSERT(fd >= 0);
    len = read(fd, content, sizeof content);
    (void)close(fd);
    RON_ASSERT(len >= 0);
    ron_b3_hash(content, (size_t)len, &got);
    RON_ASSERT(ron_b3_parse_hex(path + where->base, strlen(path + where->base), &want));
    RON_ASSERT(ron_b3_equal(&want, &got));
    object_files++;
    return 0;
}

static void look_and_clear(size_t fds)
{
    object_files = 0;
    RON_ASSERT(nftw(dir, check_file, 16, FTW_PHYS) == 0);
    RON_ASSERT(nftw(dir, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
    RON_ASSERT(fixture_open_fds() == fds);
}

static enum ron_rc open_and_read(struct ron_cas *s, const struct ron_b3 *id, size_t len)
{
    static uint8_t got[LARGE];
    struct ron_cas_obj *obj = NULL;
    enum ron_rc rc = ron_cas_open(s, id, &obj, NULL);
    size_t n = 0;

    if (rc == RON_OK) {
        rc = ron_cas_read(obj, 0, got, len, &n);
        RON_ASSERT(rc != RON_OK || (n == len && memcmp(got, bytes, len) == 0));
        ron_cas_release(obj);
    }
    return rc;
}

static enum ron_rc write_read_remove(struct ron_cas *s)
{
    struct ron_b3 small;
    struct ron_b3 large;
    struct ron_err err = {0};

    RON_TRY(ron_cas_put(s, bytes, 1000, &small, &err));
    RON_TRY(ron_cas_put(s, bytes, LARGE, &large, &err));
    RON_TRY(ron_cas_put(s, bytes, LARGE, &large, &err)); /* again */
    RON_TRY(open_and_read(s, &small, 1000));
    RON_TRY(open_and_read(s, &large, LARGE));
    RON_TRY(ron_cas_remove(s, &large, &err));
    RON_ASSERT(err.where == NULL); /* success leaves it untouched */
    return RON_OK;
}

static enum ron_rc disk_life(void *arg)
{
    const struct ron_cas_opts opts = {.env = cas_env(), .dir = dir, .objects_max = 16};
    struct ron_cas *s = NULL;
    size_t fds = fixture_open_fds();
    enum ron_rc rc;

    (void)arg;
    fresh_dir();
    rc = ron_cas_new(&opts, &s, NULL);
    if (rc == RON_OK) {
        rc = write_read_remove(s);
        RON_ASSERT(cas_stats(s).writers == 0);
        ron_cas_free(s);
    } else {
        RON_ASSERT(s == NULL);
    }
    look_and_clear(fds);
    return rc;
}

static enum ron_rc memory_life(void *arg)
{
    const struct ron_cas_opts opts = {.env = cas_env(), .objects_max = 16};
    struct ron_cas *s = NULL;
    enum ron_rc rc = ron_cas_new(&opts, &s, NULL);

    (void)arg;
    if (rc == RON_OK) {
        rc = write_read_remove(s);
        RON_ASSERT(cas_stats(s).bytes == 0 || rc != RON_OK || cas_stats(s).bytes == 1000);
        ron_cas_free(s);
    }
    return rc;
}

/* Room for one object: the second put evicts the first. */
static enum ron_rc evict_life(void *arg)
{
    const struct ron_cas_opts opts = {
        .env = cas_env(), .dir = dir, .objects_max = 16, .bytes_max = 1000};
    struct ron_cas *s = NULL;
    size_t fds = fixture_open_fds();
    struct ron_b3 id;
    enum ron_rc rc;

    (void)arg;
    fresh_dir();
    rc = ron_cas_new(&opts, &s, NULL);
    if (rc == RON_OK) {
        rc = ron_cas_put(s, bytes, 600, &id, NULL);
        rc = rc == RON_OK ? ron_cas_put(s, bytes, 700, &id, NULL) : rc;
        RON_ASSERT(cas_stats(s).bytes <= 1000);
        ron_cas_free(s);
    }
    look_and_clear(fds);
    return rc;
}

/* A start on the folder that setup has filled. */
static enum ron_rc load_life(void *arg)
{
    const struct ron_cas_opts opts = {.env = cas_env(), .dir = fix->dir, .objects_max = 16};
    struct ron_cas *s = NULL;
    size_t fds = fixture_open_fds();
    enum ron_rc rc = ron_cas_new(&opts, &s, NULL);

    (void)arg;
    if (rc == RON_OK) {
        rc = ron_cas_load(s, NULL, NULL, NULL);
        RON_ASSERT(rc != RON_OK || cas_stats(s).objects == 1);
        (void)ron_cas_scrub(s, 1);
        RON_ASSERT(cas_stats(s).quarantined == 0);
        ron_cas_free(s);
    }
    RON_ASSERT(fixture_open_fds() == fds);
    return rc;
}

SUPPORT_FAULT_SWEEP_TOLERANT(test_cas_faults__disk_store__clean_error_and_whole_files, disk_life)
SUPPORT_FAULT_SWEEP_TOLERANT(test_cas_faults__memory_store__clean_error_and_no_leak, memory_life)
SUPPORT_FAULT_SWEEP_TOLERANT(test_cas_faults__eviction__clean_error_and_whole_files, evict_life)
SUPPORT_FAULT_SWEEP_TOLERANT(test_cas_faults__load_and_scrub__clean_error_and_no_leak, load_life)

static int setup(void **state)
{
    int ret = fixture_setup(state);

    struct ron_cas *s = NULL;

    fix = *state;
    cas_fill(bytes, sizeof bytes, 1);
    s = cas_open_with(&(struct ron_cas_opts){.env = cas_env(), .dir = fix->dir}, true);
    (void)cas_put_numbered(s, 1000, 7);
    ron_cas_free(s);
    return ret;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cas_faults__disk_store__clean_error_and_whole_files),
        cmocka_unit_test(test_cas_faults__memory_store__clean_error_and_no_leak),
        cmocka_unit_test(test_cas_faults__eviction__clean_error_and_whole_files),
        cmocka_unit_test(test_cas_faults__load_and_scrub__clean_error_and_no_leak),
    };

    return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
