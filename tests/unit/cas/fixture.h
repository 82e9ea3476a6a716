/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - what the tests of the content store share: a folder of their own, a clock that the
 * test sets, and objects whose bytes follow from their number. */
#pragma once

#include "unit/io/fixture.h"

#include <fcntl.h>

#include "cas/cas_priv.h"
#include "ron/cas/cas.h"
#include "support/cas_put.h"

static uint64_t cas_wall_ms = UINT64_C(1700000000000);

static inline uint64_t cas_fake_wall_ms(void *ctx)
{
    (void)ctx;
    return cas_wall_ms;
}

/* Without a system call, which a fault sweep would make fail: no randomness ends the program. */
static inline uint64_t cas_fake_rand(const struct ron_env *env)
{
    (void)env;
    return UINT64_C(0x9e3779b97f4a7c15);
}

/* Linux with a wall clock that stands still until the test moves it. */
static inline const struct ron_env *cas_env(void)
{
    static struct ron_env env;

    env = *ron_env_linux();
    env.clock.wall_ms = cas_fake_wall_ms;
    env.rand_u64 = cas_fake_rand;
    return &env;
}

static inline void cas_fill(uint8_t *bytes, size_t len, uint64_t number)
{
    struct ron_rand rand;

    ron_rand_seed(&rand, number);
    ron_rand_bytes(&rand, bytes, len);
}

static inline uint8_t *cas_bytes(size_t len, uint64_t number)
{
    uint8_t *bytes = malloc(len + 1);

    assert_non_null(bytes);
    cas_fill(bytes, len, number);
    return bytes;
}

static inline struct ron_b3 cas_id_of(size_t len, uint64_t number)
{
    uint8_t *bytes = cas_bytes(len, number);
    struct ron_b3 id;

    ron_b3_hash(bytes, len, &id);
    free(bytes);
    return id;
}

static inline struct ron_b3 cas_put_numbered(struct ron_cas *s, size_t len, uint64_t number)
{
    uint8_t *bytes = cas_bytes(len, number);
    struct ron_b3 id;
    struct ron_err err = {0};

    if (ron_cas_put(s, bytes, len, &id, &err) != RON_OK) {
        fail_msg("put: %s", err.msg);
    }
    free(bytes);
    return id;
}

/* Opens, compares every byte by slices and by reads, and releases. */
static inline void cas_expect_numbered(struct ron_cas *s, size_t len, uint64_t number)
{
    struct ron_b3 id = cas_id_of(len, number);
    uint8_t *want = cas_bytes(len, number);
    uint8_t *got = malloc(len + 1);
    struct ron_cas_obj *obj = NULL;
    size_t n = 0;

    assert_int_equal(ron_cas_open(s, &id, &obj, NULL), RON_OK);
    assert_int_equal(ron_cas_obj_size(obj), len);
    assert_true(ron_b3_equal(ron_cas_obj_id(obj), &id));
    assert_int_equal(ron_cas_read(obj, 0, got, len + 1, &n), RON_OK);
    assert_int_equal(n, len);
    assert_memory_equal(got, want, len);
    for (uint64_t at = 0; at < len;) {
        struct ron_cas_slice slice = ron_cas_slice(obj, at, len - at);

        assert_true(slice.len > 0);
        assert_int_equal(slice.off, at);
        assert_true((slice.bytes != NULL) != (slice.fd >= 0));
        if (slice.bytes != NULL) {
            assert_memory_equal(slice.bytes, want + at, slice.len);
        } else {
            assert_int_equal(pread(slice.fd, got, slice.len, (off_t)slice.off), (ssize_t)slice.len);
            assert_memory_equal(got, want + at, slice.len);
        }
        at += slice.len;
    }
    assert_int_equal(ron_cas_slice(obj, len, 1).len, 0);
    ron_cas_release(obj);
    free(want);
    free(got);
}

static inline struct ron_cas_stats cas_stats(struct ron_cas *s)
{
    struct ron_cas_stats stats;

    ron_cas_get_stats(s, &stats);
    return stats;
}

static inline struct ron_cas *cas_open_with(const struct ron_cas_opts *opts, bool load)
{
    struct ron_cas *s = NULL;
    struct ron_err err = {0};

    if (ron_cas_new(opts, &s, &err) != RON_OK) {
        fail_msg("new: %s", err.msg);
    }
    if (load) {
        assert_int_equal(ron_cas_load(s, NULL, NULL, NULL), RON_OK);
    }
    return s;
}

/* "objects/ab/cd/<hex>" or "quarantine/<hex>" below the folder of the store. */
static inline const char *cas_file(const struct fixture *f, const struct ron_b3 *id, bool good)
{
    char hex[RON_B3_HEX_LEN];
    char name[100];

    ron_b3_format_hex(id, hex);
    if (good) {
        (void)snprintf(name, sizeof name, "objects/%.2s/%.2s/%.64s", hex, hex + 2, hex);
    } else {
        (void)snprintf(name, sizeof name, "quarantine/%.64s", hex);
    }
    return fixture_path(f, name);
}

/* Flips one bit of a file. */
static inline void cas_damage(const char *path, off_t off)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte = 0;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, off), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, off), 1);
    (void)close(fd);
}

static inline size_t cas_count_files(const char *path)
{
    DIR *dir = opendir(path);
    size_t count = 0;

    assert_non_null(dir);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        count += e->d_name[0] != '.';
    }
    (void)closedir(dir);
    return count;
}
