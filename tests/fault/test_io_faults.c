/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: whichever system call or allocation of io fails, the caller gets a code, no descriptor and
 * no memory leaks, and a replaced file is old or new, never half.
 * Method: the fault sweep over whole lives of a file, a directory, a poller and connections. What
 * is checked afterwards is looked at with plain system calls, which have no fault points. */
#include "unit/io/fixture.h"

#include <fcntl.h>

#include "ron/base/assert.h"
#include "ron/io/file.h"

static struct fixture fix;

/* Set around the code under test: also remembers whether a removal was made to fail. */
static bool (*swept_hook)(enum ron_fault_kind kind, const char *site);
static bool unlink_failed;

static bool watching_hook(enum ron_fault_kind kind, const char *site)
{
    bool fails = swept_hook(kind, site);

    unlink_failed = unlink_failed || (fails && strcmp(site, "unlink") == 0);
    return fails;
}

static void watch_begin(void)
{
    unlink_failed = false;
    swept_hook = ron_fault_hook;
    ron_fault_hook = swept_hook == NULL ? NULL : watching_hook;
}

static void watch_end(void)
{
    ron_fault_hook = swept_hook;
}

static void plain_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    RON_ASSERT(fd >= 0);
    RON_ASSERT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
}

static bool plain_equals(const char *path, const char *text)
{
    char buf[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, buf, sizeof buf);

    if (fd >= 0) {
        (void)close(fd);
    }
    return len == (ssize_t)strlen(text) && memcmp(buf, text, (size_t)len) == 0;
}

static enum ron_rc replace_case(void *arg)
{
    static const char old[] = "the old content";
    static const char new[] = "the content that replaces it, longer";
    const char *path = fixture_path(&fix, "state");
    const char *temp = fixture_path(&fix, "state.tmp");
    size_t fds = fixture_open_fds();
    enum ron_rc rc;

    (void)arg;
    plain_write(path, old);
    watch_begin();
    rc = ron_file_replace(fix.env, path, new, strlen(new), 0600, NULL);
    watch_end();
    RON_ASSERT(plain_equals(path, new) || (rc != RON_OK && plain_equals(path, old)));
    RON_ASSERT(access(temp, F_OK) != 0 || unlink_failed);
    RON_ASSERT(fixture_open_fds() == fds);
    return rc;
}

static void test_io__each_call_of_replace_fails__leaves_old_or_new(void **state)
{
    (void)state;
    support_sweep_expect_clean(&(struct support_sweep){.name = "replace", .run = replace_case});
}

static enum ron_rc first_time_case(void *arg)
{
    const char *path = fixture_path(&fix, "fresh");
    enum ron_rc rc;

    (void)arg;
    (void)unlink(path);
    rc = ron_file_replace(fix.env, path, "whole", 5, 0600, NULL);
    RON_ASSERT(plain_equals(path, "whole") || (rc != RON_OK && access(path, F_OK) != 0));
    return rc;
}

static void test_io__each_call_of_first_replace_fails__leaves_nothing_or_all(void **state)
{
    (void)state;
    support_sweep_expect_clean(&(struct support_sweep){.name = "create", .run = first_time_case});
}

static bool count_entry(void *arg, const char *name, bool is_dir)
{
    size_t *count = arg;

    (void)name;
    (void)is_dir;
    (*count)++;
    return true;
}

/* Every port of the disk once, stopping at the first failure. */
static enum ron_rc disk_life(const char *dir, const char *file, const char *other)
{
    const struct ron_disk_ops *disk = fix.env->disk;
    struct ron_file_stat st;
    struct ron_buf buf;
    uint64_t bytes = 0;
    size_t entries = 0;
    int fd = -1;
    enum ron_rc rc = RON_OK;

    ron_buf_init(&buf, 64);
    RON_GOTO(ron_mkdirs(fix.env, dir, 0700, NULL), out);
    RON_GOTO(disk->open(fix.env, file, RON_OPEN_WRITE | RON_OPEN_CREATE, 0600, &fd, NULL), out);
    RON_GOTO(disk->pwrite(fix.env, fd, "0123456789", 10, 0, NULL), out);
    RON_GOTO(disk->truncate(fix.env, fd, 4, NULL), out);
    RON_GOTO(disk->sync(fix.env, fd, true, NULL), out);
    RON_GOTO(disk->size(fix.env, fd, &bytes), out);
    RON_ASSERT(bytes == 4);
    RON_GOTO(disk->link(fix.env, file, other, NULL), out);
    RON_GOTO(disk->stat(fix.env, other, &st), out);
    RON_ASSERT(st.size_bytes == 4);
    RON_GOTO(disk->list(fix.env, dir, count_entry, &entries, NULL), out);
    RON_ASSERT(entries == 2);
    RON_GOTO(ron_file_read_all(fix.env, other, &buf, NULL), out);
    RON_ASSERT(strcmp(ron_buf_text(&buf), "0123") == 0);
    RON_GOTO(disk->remove(fix.env, other, NULL), out);
    RON_GOTO(disk->remove(fix.env, file, NULL), out);
    RON_GOTO(disk->rmdir(fix.env, dir, NULL), out);
    RON_GOTO(disk->sync_dir(fix.env, fix.dir, NULL), out);
    RON_GOTO(disk->free_bytes(fix.env, fix.dir, &bytes), out);
out:
    if (fd >= 0) {
        disk->close(fix.env, fd);
    }
    ron_buf_done(&buf);
    return rc;
}

static enum ron_rc disk_case(void *arg)
{
    const char *dir = fixture_path(&fix, "d");
    const char *file = fixture_path(&fix, "d/one");
    const char *other = fixture_path(&fix, "d/two");
    size_t fds = fixture_open_fds();
    enum ron_rc rc = disk_life(dir, file, other);

    (void)arg;
    (void)unlink(other);
    (void)unlink(file);
    (void)rmdir(dir);
    RON_ASSERT(fixture_open_fds() == fds);
    return rc;
}

static void test_io__each_call_of_a_file_life_fails__is_reported(void **state)
{
    (void)state;
    support_sweep_expect_clean(&(struct support_sweep){.name = "disk", .run = disk_case});
}

/* Waits for fd on the given poller. A wait that reports nothing is repeated a bounded number of
 * times, because the sweep may make every wait report nothing. */
static enum ron_rc await(struct ron_poller *p, int fd, uint32_t events)
{
    struct ron_ready ready = {0};

    RON_TRY(fix.env->poller->set(p, fd, events, &ready));
    for (int i = 0; i < 100; i++) {
        if (fix.env->poller->wait(p, &ready, 1,
                                  ron_deadline_after_ms(ron_env_now_ns(fix.env), 2000)) > 0) {
            return fix.env->poller->set(p, fd, 0, NULL);
        }
    }
    return RON_TIMEOUT;
}

struct conns {
    struct ron_poller *p;
    int listener;
    int client;
    int server;
};

static enum ron_rc net_life(struct conns *c, const char *addr)
{
    const struct ron_net_ops *net = fix.env->net;
    struct ron_peer peer;
    char text[RON_ADDR_MAX];
    char buf[8];
    size_t len = 0;

    RON_TRY(fix.env->poller->open(fix.env, &c->p, NULL));
    RON_TRY(net->listen(fix.env, addr, &(struct ron_listen_opts){.reuse_port = addr[0] != 'u'},
                        &c->listener, NULL));
    RON_TRY(net->local_addr(fix.env, c->listener, text, sizeof text));
    RON_TRY(net->connect(fix.env, text, &c->client, NULL));
    RON_TRY(await(c->p, c->listener, RON_IO_READ));
    RON_TRY(net->accept(fix.env, c->listener, &c->server, &peer));
    RON_ASSERT(RON_IMPLIES(addr[0] == 'u', peer.has_cred));
    RON_TRY(await(c->p, c->client, RON_IO_WRITE));
    RON_TRY(net->connect_result(fix.env, c->client));
    RON_TRY(net->write(fix.env, c->client, "ping", 4, &len));
    RON_TRY(await(c->p, c->server, RON_IO_READ));
    RON_TRY(net->read(fix.env, c->server, buf, sizeof buf, &len));
    return net->shutdown_write(fix.env, c->server);
}

static enum ron_rc net_case(void *arg)
{
    const char *addr = arg;
    struct conns c = {.listener = -1, .client = -1, .server = -1};
    const int *all[] = {&c.listener, &c.client, &c.server};
    size_t fds = fixture_open_fds();
    enum ron_rc rc = net_life(&c, addr);

    for (size_t i = 0; i < RON_ARRAY_LEN(all); i++) {
        if (*all[i] >= 0) {
            fix.env->net->close(fix.env, *all[i]);
        }
    }
    if (c.p != NULL) {
        fix.env->poller->close(c.p);
    }
    RON_ASSERT(fixture_open_fds() == fds);
    return rc;
}

static void test_io__each_call_of_a_tcp_life_fails__is_reported(void **state)
{
    char addr[] = "127.0.0.1:0";

    (void)state;
    /* TCP_NODELAY is not missed, and a wait may report nothing. */
    support_sweep_expect_clean(
        &(struct support_sweep){.name = "tcp", .run = net_case, .arg = addr, .may_succeed = true});
}

static void test_io__each_call_of_a_unix_life_fails__is_reported(void **state)
{
    char addr[RON_ADDR_MAX];

    (void)state;
    (void)snprintf(addr, sizeof addr, "unix:%s", fixture_path(&fix, "run/x.sock"));
    support_sweep_expect_clean(
        &(struct support_sweep){.name = "unix", .run = net_case, .arg = addr, .may_succeed = true});
}

static int setup(void **state)
{
    void *made = NULL;
    int ret = fixture_setup(&made);

    if (ret == 0) {
        fix = *(struct fixture *)made;
        *state = made;
    }
    return ret;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_io__each_call_of_replace_fails__leaves_old_or_new),
        cmocka_unit_test(test_io__each_call_of_first_replace_fails__leaves_nothing_or_all),
        cmocka_unit_test(test_io__each_call_of_a_file_life_fails__is_reported),
        cmocka_unit_test(test_io__each_call_of_a_tcp_life_fails__is_reported),
        cmocka_unit_test(test_io__each_call_of_a_unix_life_fails__is_reported),
    };

    return cmocka_run_group_tests_name("fault.io", tests, setup, fixture_teardown);
}
