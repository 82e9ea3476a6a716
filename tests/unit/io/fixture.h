/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - what the tests of io share: a directory of their own, and waiting for a
 * descriptor. */
#pragma once

#include "support/support.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ron/io/linux_env.h"

/* Long enough for a loaded machine; a test that waits that long has failed. */
enum { FIXTURE_WAIT_MS = 20000, FIXTURE_PATH_SIZE = 512 };

struct fixture {
    const struct ron_env *env;
    char dir[64]; /* mode 0700, empty at the start */
};

/* A path below the fixture's directory; valid until the next call but three. */
static inline const char *fixture_path(const struct fixture *f, const char *name)
{
    static char buf[4][FIXTURE_PATH_SIZE];
    static unsigned turn;
    char *path = buf[turn++ % 4];

    (void)snprintf(path, FIXTURE_PATH_SIZE, "%s/%s", f->dir, name);
    return path;
}

static inline int fixture_remove_one(const char *path, const struct stat *st, int kind,
                                     struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    if (f == NULL) {
        return -1;
    }
    f->env = ron_env_linux();
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/ron-io-XXXXXX");
    *state = f;
    return mkdtemp(f->dir) == NULL ? -1 : 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    (void)nftw(f->dir, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

static inline struct ron_deadline fixture_soon(const struct fixture *f)
{
    return ron_deadline_after_ms(ron_env_now_ns(f->env), FIXTURE_WAIT_MS);
}

/* Waits until one of the asked events holds for fd, and returns those that do. */
static inline uint32_t fixture_await(const struct fixture *f, int fd, uint32_t events)
{
    struct ron_poller *p = NULL;
    struct ron_ready ready = {0};
    struct ron_deadline soon = fixture_soon(f);
    size_t count = 0;

    assert_int_equal(f->env->poller->open(f->env, &p, NULL), RON_OK);
    assert_int_equal(f->env->poller->set(p, fd, events, &ready), RON_OK);
    while (count == 0 && !ron_deadline_expired(soon, ron_env_now_ns(f->env))) {
        count = f->env->poller->wait(p, &ready, 1, soon);
    }
    f->env->poller->close(p);
    assert_int_equal(count, 1);
    return ready.events;
}

static inline size_t fixture_open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count;
}

struct fixture_pair {
    int listener;
    int client;
    int server;
    struct ron_peer peer;
    char addr[RON_ADDR_MAX]; /* of the listener, as the system tells it */
};

/* A connected pair over `addr`. */
static inline struct fixture_pair fixture_connect(const struct fixture *f, const char *addr)
{
    const struct ron_net_ops *net = f->env->net;
    struct fixture_pair pair = {-1, -1, -1, {{0}, false, 0, 0, 0, false}, ""};
    struct ron_err err = {0};

    if (net->listen(f->env, addr, NULL, &pair.listener, &err) != RON_OK) {
        fail_msg("listen %s: %s", addr, err.msg);
    }
    assert_int_equal(net->local_addr(f->env, pair.listener, pair.addr, sizeof pair.addr), RON_OK);
    assert_int_equal(net->connect(f->env, pair.addr, &pair.client, &err), RON_OK);
    assert_true(fixture_await(f, pair.listener, RON_IO_READ) & RON_IO_READ);
    assert_int_equal(net->accept(f->env, pair.listener, &pair.server, &pair.peer), RON_OK);
    assert_true(fixture_await(f, pair.client, RON_IO_WRITE) & RON_IO_WRITE);
    assert_int_equal(net->connect_result(f->env, pair.client), RON_OK);
    return pair;
}

static inline void fixture_disconnect(const struct fixture *f, const struct fixture_pair *pair)
{
    f->env->net->close(f->env, pair->client);
    f->env->net->close(f->env, pair->server);
    f->env->net->close(f->env, pair->listener);
}
