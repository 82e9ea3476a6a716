/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: a server that cannot be made leaves nothing behind; one that runs survives failing reads,
 * writes, accepts and allocations, and still answers afterwards.
 * Method: a sweep over making and freeing a server; and a running server whose system calls fail at
 * random while clients come and go. */
#include "unit/http/fixture.h"

static void handler(struct ron_http_call *call, void *arg)
{
    (void)arg;
    ron_http_answer(call, 200, "text/plain", "hi", 2);
}

static enum ron_rc make_and_free(void *arg)
{
    static const struct ron_http_route route = {RON_HTTP_GET, "/", handler, NULL, 0, 0};
    struct ron_registry *reg = NULL;
    struct ron_http_server *s = NULL;
    enum ron_rc rc;

    (void)arg;
    RON_TRY(ron_registry_new(&reg, NULL));
    rc = ron_http_server_new(&(struct ron_http_opts){.name = "http",
                                                     .env = ron_env_linux(),
                                                     .registry = reg,
                                                     .workers = 2,
                                                     .addr = "127.0.0.1:0",
                                                     .rate_per_s = 10,
                                                     .routes = &route,
                                                     .route_count = 1},
                             &s, NULL);
    RON_ASSERT(rc == RON_OK || s == NULL);
    RON_ASSERT(ron_http_server_free(s));
    RON_ASSERT(ron_registry_count(reg) == 0);
    ron_registry_free(reg);
    return rc;
}

SUPPORT_FAULT_SWEEP(test_http__each_step_of_making_a_server_fails__nothing_left, make_and_free)

/* Fails one call in eight, on the workers only: their thread is none that may block. Which one is
 * spread by a hash: a fixed step would fall in step with the calls of a request and hit the same
 * one each time. */
static struct ron_au64 calls;

static bool fail_some(enum ron_fault_kind kind, const char *site)
{
    (void)kind;
    return strncmp(ron_thread_name(ron_thread_self()), "loop-", 5) == 0 &&
           strcmp(site, "epoll_wait") != 0 &&
           (ron_au64_add(&calls, 1) * UINT64_C(0x9e3779b97f4a7c15)) >> 61 == 0;
}

static bool try_once(const struct web *web, const char *request)
{
    struct sockaddr_in addr = web->addr;
    char in[4096];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = FX_WAIT_MS / 1000};
    bool good;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    good = connect(fd, (const struct sockaddr *)&addr, sizeof addr) == 0 &&
           send(fd, request, strlen(request), MSG_NOSIGNAL) > 0 && recv(fd, in, sizeof in, 0) > 0 &&
           strncmp(in, "HTTP/1.1 200", 12) == 0;
    (void)close(fd);
    return good;
}

static void test_http__calls_fail_at_random__others_served(void **state)
{
    struct web *web = web_open(2, (struct ron_http_opts){.body_max = 100000});
    static char post[30000];
    int good = 0;

    (void)state;
    memset(post, 'x', sizeof post - 1);
    memcpy(post, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 29940\r\n\r\n", 55);
    assert_true(try_once(web, "GET /hi HTTP/1.1\r\nHost: a\r\n\r\n"));
    ron_fault_hook = fail_some;
    for (int i = 0; i < 400; i++) {
        good += try_once(web, i % 2 ? post : "GET /hi HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    ron_fault_hook = NULL;
    assert_true(good > 50);
    assert_true(good < 400);
    assert_true(try_once(web, "GET /hi HTTP/1.1\r\nHost: a\r\n\r\n"));
    web_close(web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http__each_step_of_making_a_server_fails__nothing_left),
        cmocka_unit_test(test_http__calls_fail_at_random__others_served),
    };
    return cmocka_run_group_tests_name("fault.http", tests, NULL, NULL);
}
