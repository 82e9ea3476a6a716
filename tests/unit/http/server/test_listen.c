/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: one server listens on several addresses; each serves what it is for; a Unix socket lets in
 * only those who are on its list, by what the system says, and its files are closed to others.
 * Method: real sockets, TCP and Unix, in a directory of the test. */
#include "unit/http/fixture.h"

#include <sys/stat.h>
#include <sys/un.h>

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct ron_http_route admin_route = {
    RON_HTTP_POST, "/admin", web_hi, NULL, RON_HTTP_ADMIN | RON_HTTP_INLINE, 0};
#define ADMIN "POST /admin HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"

struct place {
    char dir[64];
    char file[96];
    char addr[112];
};

static void make_place(struct place *p)
{
    (void)snprintf(p->dir, sizeof p->dir, "/tmp/ron-listen-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    (void)snprintf(p->file, sizeof p->file, "%s/d/s.sock", p->dir);
    (void)snprintf(p->addr, sizeof p->addr, "unix:%s", p->file);
}

static void remove_place(const struct place *p)
{
    char dir[96];

    (void)snprintf(dir, sizeof dir, "%s/d", p->dir);
    (void)unlink(p->file);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(rmdir(p->dir), 0);
}

static void unix_open(struct cli *c, const struct place *p)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = FX_WAIT_MS / 1000};

    (void)snprintf(sun.sun_path, sizeof sun.sun_path, "%s", p->file);
    *c = (struct cli){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&sun, sizeof sun), 0);
}

static void tcp_open(struct cli *c, const struct web *web, size_t listener)
{
    struct web other = *web;
    const char *colon = strrchr(ron_http_server_listener_addr(web->server, listener), ':');

    other.addr.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    cli_open(c, &other);
}

static void test_listen__several__each_serves_what_it_is_for(void **state)
{
    struct place p;
    struct web *web;
    struct cli c;

    (void)state;
    make_place(&p);
    const struct ron_http_listener listeners[] = {
        {.addr = "127.0.0.1:0"},
        {.addr = "127.0.0.1:0", .flags = RON_HTTP_LISTEN_OPS},
        {.addr = p.addr, .flags = RON_HTTP_LISTEN_ADMIN},
    };
    web = web_open(2, (struct ron_http_opts){.routes = &admin_route,
                                             .route_count = 1,
                                             .listeners = listeners,
                                             .listener_count = RON_ARRAY_LEN(listeners)});
    assert_string_equal(ron_http_server_listener_addr(web->server, 2), p.addr);
    tcp_open(&c, web, 0);
    cli_say(&c, GET("/hi") GET("/healthz") ADMIN GET("/admin"));
    cli_expect(&c, 200, "hi");
    cli_expect(&c, 200, "hi");
    cli_expect(&c, 404, "not_found"); /* not even 405: nobody learns that it exists */
    cli_expect(&c, 404, "not_found");
    cli_close(&c);
    tcp_open(&c, web, 1);
    cli_say(&c, GET("/hi") GET("/healthz") ADMIN);
    cli_expect(&c, 404, "not_found");
    cli_expect(&c, 200, "hi");
    cli_expect(&c, 404, "not_found");
    cli_close(&c);
    unix_open(&c, &p);
    cli_say(&c, GET("/hi") GET("/healthz") ADMIN GET("/admin"));
    cli_expect(&c, 200, "hi");
    cli_expect(&c, 200, "hi");
    cli_expect(&c, 200, "hi");
    cli_expect(&c, 405, "not_allowed");
    cli_close(&c);
    web_close(web);
    remove_place(&p);
}

static void test_listen__unix_socket__closed_to_others(void **state)
{
    struct place p;
    struct stat st;
    char dir[96];
    struct web *web;

    (void)state;
    make_place(&p);
    const struct ron_http_listener listeners[] = {{.addr = "127.0.0.1:0"}, {.addr = p.addr}};
    web = web_open(1, (struct ron_http_opts){.listeners = listeners, .listener_count = 2});
    (void)snprintf(dir, sizeof dir, "%s/d", p.dir);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(p.file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    web_close(web);
    remove_place(&p);
}

static void test_listen__allow_list__others_are_answered_403(void **state)
{
    uint32_t other_uid = (uint32_t)geteuid() + 1;
    uint32_t ids[][2] = {{other_uid, (uint32_t)getegid() + 1}, /* neither */
                         {(uint32_t)geteuid(), (uint32_t)getegid() + 1},
                         {other_uid, (uint32_t)getegid()}};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(ids); i++) {
        struct place p;
        struct web *web;
        struct cli c;

        make_place(&p);
        const struct ron_http_listener listeners[] = {
            {.addr = "127.0.0.1:0"},
            {.addr = p.addr,
             .uids = &ids[i][0],
             .uid_count = 1,
             .gids = &ids[i][1],
             .gid_count = 1},
        };
        web = web_open(1, (struct ron_http_opts){.listeners = listeners, .listener_count = 2});
        unix_open(&c, &p);
        if (i == 0) {
            cli_expect(&c, 403, "peer_denied"); /* before it has said anything */
            cli_expect_end(&c);
        } else {
            cli_say(&c, GET("/hi"));
            cli_expect(&c, 200, "hi");
        }
        assert_int_equal(web_counters(web).rejected[RON_HTTP_PEER], i == 0);
        cli_close(&c);
        web_close(web);
        remove_place(&p);
    }
}

static void on_uid(struct ron_http_call *call, void *arg)
{
    uint32_t uid = 0;
    bool known = ron_http_peer_uid(call, &uid);

    (void)arg;
    ron_http_answer(call, 200, "text/plain", known && uid == geteuid() ? "ours" : "none", 4);
}

static void test_listen__peer_uid__of_unix_peers_only(void **state)
{
    static const struct ron_http_route routes[] = {
        {RON_HTTP_GET, "/uid", on_uid, NULL, RON_HTTP_INLINE, 0}};
    struct place p;
    struct web *web;
    struct cli c;

    (void)state;
    make_place(&p);
    const struct ron_http_listener listeners[] = {{.addr = "127.0.0.1:0"}, {.addr = p.addr}};
    web = web_open(
        1, (struct ron_http_opts){
               .listeners = listeners, .listener_count = 2, .routes = routes, .route_count = 1});
    unix_open(&c, &p);
    cli_say(&c, GET("/uid"));
    cli_expect(&c, 200, "ours");
    cli_close(&c);
    cli_open(&c, web);
    cli_say(&c, GET("/uid"));
    cli_expect(&c, 200, "none");
    cli_close(&c);
    web_close(web);
    remove_place(&p);
}

static void test_listen__default_list__root_and_own_user(void **state)
{
    const struct ron_http_listener def = {.addr = "unix:/x"};

    (void)state;
    assert_true(ron__http_peer_allowed(&def, &(struct ron_peer){.addr = "10.0.0.1:5"}));
    assert_true(ron__http_peer_allowed(&def, &(struct ron_peer){.has_cred = true, .uid = 0}));
    assert_true(ron__http_peer_allowed(
        &def, &(struct ron_peer){.has_cred = true, .uid = 7, .same_user = true}));
    assert_false(ron__http_peer_allowed(&def, &(struct ron_peer){.has_cred = true, .uid = 7}));
}

static void test_listen__bad_options__refused(void **state)
{
    static const struct ron_http_route route = {RON_HTTP_GET, "/", web_hi, NULL, 0, 0};
    const struct ron_http_listener listeners[RON_HTTP_LISTENERS_MAX + 1] = {{.addr = "127.0.0.1:0"},
                                                                            {.addr = NULL}};
    struct ron_registry *reg = NULL;
    struct ron_http_server *s = NULL;
    struct ron_http_opts o = {
        .name = "http", .env = ron_env_linux(), .workers = 1, .routes = &route, .route_count = 1};

    (void)state;
    assert_int_equal(ron_registry_new(&reg, NULL), RON_OK);
    o.registry = reg;
    assert_int_equal(ron_http_server_new(&o, &s, NULL), RON_INVALID); /* nothing */
    o.listeners = listeners;
    o.listener_count = 2;
    assert_int_equal(ron_http_server_new(&o, &s, NULL), RON_INVALID); /* one without address */
    o.listener_count = RON_HTTP_LISTENERS_MAX + 1;
    assert_int_equal(ron_http_server_new(&o, &s, NULL), RON_INVALID); /* too many */
    o.listener_count = 1;
    o.addr = "127.0.0.1:0";
    assert_int_equal(ron_http_server_new(&o, &s, NULL), RON_INVALID); /* both */
    o.addr = NULL;
    assert_int_equal(ron_http_server_new(&o, &s, NULL), RON_OK);
    assert_true(ron_http_server_free(s));
    ron_registry_free(reg);
}

/* ---- moving ---------------------------------------------------------------------------------- */

static bool can_connect(struct sockaddr_in addr)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = connect(fd, (const struct sockaddr *)&addr, sizeof addr) == 0;

    (void)close(fd);
    return good;
}

static void expect_hi(struct web *web)
{
    struct cli c;

    tcp_open(&c, web, 0);
    cli_say(&c, GET("/hi"));
    cli_expect(&c, 200, "hi");
    cli_close(&c);
}

static void test_listen__moved__the_new_address_answers_and_connections_stay(void **state)
{
    struct web *web = web_open(2, (struct ron_http_opts){0});
    struct ron_err err = {0};
    struct cli old;

    (void)state;
    cli_open(&old, web);
    cli_say(&old, GET("/hi"));
    cli_expect(&old, 200, "hi");
    for (int i = 0; i < 3; i++) {
        struct sockaddr_in left = web->addr;
        const char *colon;

        assert_int_equal(ron_http_server_move(web->server, 0, "127.0.0.1:0", &err), RON_OK);
        colon = strrchr(ron_http_server_addr(web->server), ':');
        web->addr.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
        assert_int_not_equal(left.sin_port, web->addr.sin_port);
        expect_hi(web);
        fx_until(!can_connect(left));
    }
    cli_say(&old, GET("/hi"));
    cli_expect(&old, 200, "hi");
    cli_close(&old);
    web_close(web);
}

static void test_listen__moved_to_a_taken_port__stays_where_it_is(void **state)
{
    struct web *web = web_open(2, (struct ron_http_opts){0});
    struct sockaddr_in taken = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof taken;
    struct ron_err err = {0};
    char addr[32];
    char before[RON_ADDR_MAX];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&taken, sizeof taken), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&taken, &len), 0);
    (void)snprintf(addr, sizeof addr, "127.0.0.1:%u", ntohs(taken.sin_port));
    (void)snprintf(before, sizeof before, "%s", ron_http_server_addr(web->server));
    assert_int_equal(ron_http_server_move(web->server, 0, addr, &err), RON_EXISTS);
    assert_int_equal(ron_http_server_move(web->server, 0, "no address", &err), RON_INVALID);
    assert_int_equal(ron_http_server_move(web->server, 0, "unix:/x/y", &err), RON_UNSUPPORTED);
    assert_string_equal(ron_http_server_addr(web->server), before);
    expect_hi(web);
    (void)close(fd);
    web_close(web);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listen__several__each_serves_what_it_is_for),
        cmocka_unit_test(test_listen__unix_socket__closed_to_others),
        cmocka_unit_test(test_listen__allow_list__others_are_answered_403),
        cmocka_unit_test(test_listen__peer_uid__of_unix_peers_only),
        cmocka_unit_test(test_listen__default_list__root_and_own_user),
        cmocka_unit_test(test_listen__bad_options__refused),
        cmocka_unit_test(test_listen__moved__the_new_address_answers_and_connections_stay),
        cmocka_unit_test(test_listen__moved_to_a_taken_port__stays_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
