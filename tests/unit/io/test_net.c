/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: sockets of the Linux binding keep the promises of env.h and linux_env.h.
 * Method: real sockets on loopback with ports chosen by the system, Unix sockets in a temporary
 * directory. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static void check_exchange(const struct fixture *f, const struct fixture_pair *pair)
{
    const struct ron_net_ops *net = f->env->net;
    char buf[64];
    size_t len = 0;

    assert_int_equal(net->read(f->env, pair->server, buf, sizeof buf, &len), RON_AGAIN);
    assert_int_equal(net->write(f->env, pair->client, "hello", 5, &len), RON_OK);
    assert_int_equal(len, 5);
    (void)fixture_await(f, pair->server, RON_IO_READ);
    assert_int_equal(net->read(f->env, pair->server, buf, sizeof buf, &len), RON_OK);
    assert_int_equal(len, 5);
    assert_memory_equal(buf, "hello", 5);

    const struct iovec iov[] = {{(void *)(uintptr_t) "wor", 3}, {(void *)(uintptr_t) "ld", 2}};
    assert_int_equal(net->writev(f->env, pair->server, iov, 2, &len), RON_OK);
    assert_int_equal(len, 5);
    (void)fixture_await(f, pair->client, RON_IO_READ);
    assert_int_equal(net->read(f->env, pair->client, buf, sizeof buf, &len), RON_OK);
    assert_memory_equal(buf, "world", 5);
}

static void test_net__loopback_pair__carries_bytes_and_closes_half(void **state)
{
    static const char *const addrs[] = {"127.0.0.1:0", "localhost:0", "[::1]:0"};
    const struct fixture *f = *state;
    const struct ron_net_ops *net = f->env->net;
    char buf[8];
    size_t len = 0;
    int probe = -1;

    for (size_t i = 0; i < RON_ARRAY_LEN(addrs); i++) {
        struct fixture_pair pair;
        if (addrs[i][0] == '[' && net->listen(f->env, addrs[i], NULL, &probe, NULL) != RON_OK) {
            print_message("no IPv6 on this machine, left out\n");
            continue;
        } else if (addrs[i][0] == '[') {
            net->close(f->env, probe);
        }
        pair = fixture_connect(f, addrs[i]);
        assert_false(pair.peer.has_cred);
        assert_true(strchr(pair.peer.addr, ':') != NULL);
        check_exchange(f, &pair);
        assert_int_equal(net->shutdown_write(f->env, pair.client), RON_OK);
        assert_true(fixture_await(f, pair.server, RON_IO_READ) & RON_IO_HUP);
        assert_int_equal(net->read(f->env, pair.server, buf, sizeof buf, &len), RON_CLOSED);
        assert_int_equal(net->write(f->env, pair.server, "late", 4, &len), RON_OK);
        (void)fixture_await(f, pair.client, RON_IO_READ);
        assert_int_equal(net->read(f->env, pair.client, buf, sizeof buf, &len), RON_OK);
        assert_memory_equal(buf, "late", 4);
        fixture_disconnect(f, &pair);
    }
}

static void test_net__every_socket__is_nonblocking_and_closed_on_exec(void **state)
{
    const struct fixture *f = *state;
    struct fixture_pair pair = fixture_connect(f, "127.0.0.1:0");
    const int fds[] = {pair.listener, pair.client, pair.server};

    for (size_t i = 0; i < RON_ARRAY_LEN(fds); i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
    }
    fixture_disconnect(f, &pair);
}

static void test_net__peer_gone__is_closed_without_a_signal(void **state)
{
    const struct fixture *f = *state;
    const struct ron_net_ops *net = f->env->net;
    struct fixture_pair pair = fixture_connect(f, "127.0.0.1:0");
    enum ron_rc rc = RON_OK;
    size_t len = 0;
    struct ron_deadline soon = fixture_soon(f);

    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    net->close(f->env, pair.server);
    while (rc == RON_OK && !ron_deadline_expired(soon, ron_env_now_ns(f->env))) {
        rc = net->write(f->env, pair.client, "x", 1, &len);
    }
    assert_int_equal(rc, RON_CLOSED);
    assert_int_equal(net->writev(f->env, pair.client, &(struct iovec){(void *)&len, 1}, 1, &len),
                     RON_CLOSED);
    net->close(f->env, pair.client);
    net->close(f->env, pair.listener);
}

static void test_net__sendfile__sends_a_range_and_sees_a_short_file(void **state)
{
    const struct fixture *f = *state;
    const struct ron_net_ops *net = f->env->net;
    struct fixture_pair pair = fixture_connect(f, "127.0.0.1:0");
    FILE *file = tmpfile();
    struct ron_deadline soon = fixture_soon(f);
    enum ron_rc rc = RON_OK;
    char buf[64] = {0};
    size_t len = 0;

    assert_non_null(file);
    assert_true(fputs("0123456789", file) >= 0);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(net->sendfile(f->env, pair.server, fileno(file), 3, 4, &len), RON_OK);
    assert_int_equal(len, 4);
    (void)fixture_await(f, pair.client, RON_IO_READ);
    assert_int_equal(net->read(f->env, pair.client, buf, sizeof buf, &len), RON_OK);
    assert_memory_equal(buf, "3456", 4);
    assert_int_equal(net->sendfile(f->env, pair.server, fileno(file), 10, 1, &len), RON_IO);
    /* A peer that is gone is a code and no signal. */
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    net->close(f->env, pair.client);
    while (rc == RON_OK && !ron_deadline_expired(soon, ron_env_now_ns(f->env))) {
        rc = net->sendfile(f->env, pair.server, fileno(file), 0, 10, &len);
    }
    assert_int_equal(rc, RON_CLOSED);
    net->close(f->env, pair.server);
    net->close(f->env, pair.listener);
    (void)fclose(file);
}

static void test_net__full_buffer__says_again_and_recovers(void **state)
{
    const struct fixture *f = *state;
    const struct ron_net_ops *net = f->env->net;
    struct fixture_pair pair = fixture_connect(f, "127.0.0.1:0");
    static char chunk[65536];
    enum ron_rc rc = RON_OK;
    size_t sent = 0;
    size_t got = 0;
    size_t len = 0;

    while ((rc = net->write(f->env, pair.client, chunk, sizeof chunk, &len)) == RON_OK) {
        sent += len;
        assert_true(sent < (size_t)1 << 30);
    }
    assert_int_equal(rc, RON_AGAIN);
    while (got < sent) {
        (void)fixture_await(f, pair.server, RON_IO_READ);
        assert_int_equal(net->read(f->env, pair.server, chunk, sizeof chunk, &len), RON_OK);
        got += len;
    }
    assert_true(fixture_await(f, pair.client, RON_IO_WRITE) & RON_IO_WRITE);
    assert_int_equal(net->write(f->env, pair.client, chunk, 1, &len), RON_OK);
    fixture_disconnect(f, &pair);
}

static void test_net__reset__reaches_the_peer_and_frees_what_was_unsent(void **state)
{
    const struct fixture *f = *state;
    const struct ron_net_ops *net = f->env->net;
    struct fixture_pair pair = fixture_connect(f, "127.0.0.1:0");
    static char chunk[65536];
    enum ron_rc rc = RON_OK;
    size_t sent = 0;
    size_t len = 0;

    while ((rc = net->write(f->env, pair.server, chunk, sizeof chunk, &len)) == RON_OK) {
        sent += len;
        assert_true(sent < (size_t)1 << 30);
    }
    assert_int_equal(rc, RON_AGAIN);
    net->reset(f->env, pair.server);
    assert_true(fixture_await(f, pair.client, RON_IO_READ) & RON_IO_HUP);
    while ((rc = net->read(f->env, pair.client, chunk, sizeof chunk, &len)) == RON_OK) {
        sent -= len;
    }
    assert_int_equal(rc, RON_CLOSED);
    assert_true(sent > 0); /* an orderly end would have brought all of it */
    net->close(f->env, pair.client);
    net->close(f->env, pair.listener);
}

static void test_net__nobody_listens__connect_fails_with_a_code(void **state)
{
    const struct fixture *f = *state;
    const struct ron_net_ops *net = f->env->net;
    struct ron_err err = {0};
    char addr[RON_ADDR_MAX];
    int fd = -1;

    assert_int_equal(net->listen(f->env, "127.0.0.1:0", NULL, &fd, NULL), RON_OK);
    assert_int_equal(net->local_addr(f->env, fd, addr, sizeof addr), RON_OK);
    net->close(f->env, fd);
    if (net->connect(f->env, addr, &fd, &err) == RON_OK) {
        (void)fixture_await(f, fd, RON_IO_WRITE);
        assert_int_equal(net->connect_result(f->env, fd), RON_IO);
        net->close(f->env, fd);
    } else {
        assert_int_equal(err.sys_errno, ECONNREFUSED);
    }
    (void)snprintf(addr, sizeof addr, "unix:%s", fixture_path(f, "absent"));
    assert_int_equal(net->connect(f->env, addr, &fd, &err), RON_NOTFOUND);
    assert_int_equal(net->connect(f->env, "example.org:80", &fd, &err), RON_UNSUPPORTED);
    assert_int_equal(net->connect(f->env, "nonsense", &fd, &err), RON_INVALID);
}

static void test_net__port_in_use__is_exists_unless_shared(void **state)
{
    const struct fixture *f = *state;
    const struct ron_net_ops *net = f->env->net;
    const struct ron_listen_opts shared = {.reuse_port = true, .backlog = 4};
    char addr[RON_ADDR_MAX];
    char small[8];
    int first = -1;
    int second = -1;

    assert_int_equal(net->listen(f->env, "127.0.0.1:0", NULL, &first, NULL), RON_OK);
    assert_int_equal(net->local_addr(f->env, first, addr, sizeof addr), RON_OK);
    assert_int_equal(net->local_addr(f->env, first, small, sizeof small), RON_LIMIT);
    assert_int_equal(net->listen(f->env, addr, NULL, &second, NULL), RON_EXISTS);
    net->close(f->env, first);

    assert_int_equal(net->listen(f->env, "127.0.0.1:0", &shared, &first, NULL), RON_OK);
    assert_int_equal(net->local_addr(f->env, first, addr, sizeof addr), RON_OK);
    assert_int_equal(net->listen(f->env, addr, &shared, &second, NULL), RON_OK);
    net->close(f->env, first);
    net->close(f->env, second);
}

static void test_net__unix_socket__is_private_and_knows_its_peer(void **state)
{
    const struct fixture *f = *state;
    struct stat st;
    char addr[RON_ADDR_MAX];

    (void)snprintf(addr, sizeof addr, "unix:%s", fixture_path(f, "made/x.sock"));
    struct fixture_pair pair = fixture_connect(f, addr);
    assert_string_equal(pair.addr, addr);
    assert_string_equal(pair.peer.addr, "unix:");
    assert_true(pair.peer.has_cred);
    assert_int_equal(pair.peer.uid, geteuid());
    assert_int_equal(pair.peer.gid, getegid());
    assert_int_equal(pair.peer.pid, getpid());
    assert_int_equal(stat(fixture_path(f, "made"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(fixture_path(f, "made/x.sock"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    check_exchange(f, &pair);
    fixture_disconnect(f, &pair);
}

static void test_net__unix_directory_open_to_others__is_denied(void **state)
{
    const struct fixture *f = *state;
    static const mode_t wide[] = {0755, 0750, 0701, 0777};
    struct ron_err err = {0};
    char addr[RON_ADDR_MAX];
    int fd = -1;

    assert_int_equal(mkdir(fixture_path(f, "wide"), 0700), 0);
    (void)snprintf(addr, sizeof addr, "unix:%s", fixture_path(f, "wide/x.sock"));
    for (size_t i = 0; i < RON_ARRAY_LEN(wide); i++) {
        assert_int_equal(chmod(fixture_path(f, "wide"), wide[i]), 0);
        assert_int_equal(f->env->net->listen(f->env, addr, NULL, &fd, &err), RON_DENIED);
        assert_non_null(strstr(err.msg, "chmod 0700"));
    }
    assert_int_equal(access(fixture_path(f, "wide/x.sock"), F_OK), -1);
}

/* A socket file whose listener is gone, as a killed process leaves it. */
static void leave_stale(const char *path)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    (void)snprintf(sun.sun_path, sizeof sun.sun_path, "%s", path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&sun, sizeof sun), 0);
    assert_int_equal(listen(fd, 1), 0);
    (void)close(fd);
}

static void test_net__unix_path_taken__is_replaced_only_when_stale(void **state)
{
    const struct fixture *f = *state;
    const struct ron_net_ops *net = f->env->net;
    struct ron_err err = {0};
    char addr[RON_ADDR_MAX];
    int first = -1;
    int second = -1;
    FILE *file = NULL;

    (void)snprintf(addr, sizeof addr, "unix:%s", fixture_path(f, "x.sock"));
    leave_stale(fixture_path(f, "x.sock"));
    assert_int_equal(net->listen(f->env, addr, NULL, &first, &err), RON_OK);
    assert_int_equal(net->listen(f->env, addr, NULL, &second, &err), RON_EXISTS);
    assert_non_null(strstr(err.msg, "already listens"));
    net->close(f->env, first);
    assert_int_equal(net->listen(f->env, addr, NULL, &first, &err), RON_OK);
    net->close(f->env, first);

    file = fopen(fixture_path(f, "precious"), "w");
    assert_non_null(file);
    (void)fclose(file);
    (void)snprintf(addr, sizeof addr, "unix:%s", fixture_path(f, "precious"));
    assert_int_equal(net->listen(f->env, addr, NULL, &first, &err), RON_EXISTS);
    assert_int_equal(access(fixture_path(f, "precious"), F_OK), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_net__loopback_pair__carries_bytes_and_closes_half),
        CASE(test_net__every_socket__is_nonblocking_and_closed_on_exec),
        CASE(test_net__peer_gone__is_closed_without_a_signal),
        CASE(test_net__sendfile__sends_a_range_and_sees_a_short_file),
        CASE(test_net__full_buffer__says_again_and_recovers),
        CASE(test_net__reset__reaches_the_peer_and_frees_what_was_unsent),
        CASE(test_net__nobody_listens__connect_fails_with_a_code),
        CASE(test_net__port_in_use__is_exists_unless_shared),
        CASE(test_net__unix_socket__is_private_and_knows_its_peer),
        CASE(test_net__unix_directory_open_to_others__is_denied),
        CASE(test_net__unix_path_taken__is_replaced_only_when_stale),
    };

    return cmocka_run_group_tests_name("io.net", tests, NULL, NULL);
}
