/* SPDX-License-Identifier: Apache-2.0 */
/* simtest.h - what the tests of the simulator share: a world of two machines and a connection
 * between them.
 *
 * Everything here is for plain mode: one thread, the simulator owns the clock. */
#pragma once

#include "support/support.h"

#include "sim/sim.h"

struct pair {
    struct sim *sim;
    struct sim_host *a; /* the client's machine */
    struct sim_host *b; /* the server's */
    const struct ron_env *client_env;
    const struct ron_env *server_env;
    struct ron_poller *client_poller;
    struct ron_poller *server_poller;
    char addr[RON_ADDR_MAX];
    int listener;
    int client;
    int server;
};

static inline struct ron_deadline in_ms(const struct pair *p, uint64_t ms)
{
    return ron_deadline_after_ms(sim_now_ns(p->sim), ms);
}

/* Two machines and a listener on the second. */
static inline struct pair pair_new(uint64_t seed, const struct sim_opts *opts)
{
    struct pair p = {.client = -1, .server = -1};
    enum ron_rc rc;

    p.sim = sim_new(seed, opts);
    p.a = sim_host_new(p.sim, "a");
    p.b = sim_host_new(p.sim, "b");
    p.client_env = sim_host_env(p.a);
    p.server_env = sim_host_env(p.b);
    assert_int_equal(p.client_env->poller->open(p.client_env, &p.client_poller, NULL), RON_OK);
    assert_int_equal(p.server_env->poller->open(p.server_env, &p.server_poller, NULL), RON_OK);
    (void)sim_host_addr(p.b, 7200, p.addr);
    do { /* descriptors may have run out by chance */
        rc = p.server_env->net->listen(p.server_env, p.addr, NULL, &p.listener, NULL);
    } while (rc == RON_LIMIT);
    assert_int_equal(rc, RON_OK);
    return p;
}

static inline void pair_free(struct pair *p)
{
    sim_free(p->sim);
}

/* Waits for one of the events on a descriptor; 0 when it does not come in that time. */
static inline uint32_t await(const struct ron_env *env, struct ron_poller *poller, int fd,
                             uint32_t events, struct ron_deadline deadline)
{
    struct ron_ready ready = {0};
    size_t count = 0;

    assert_int_equal(env->poller->set(poller, fd, events, &ready), RON_OK);
    while (count == 0 && !ron_deadline_expired(deadline, ron_env_now_ns(env))) {
        count = env->poller->wait(poller, &ready, 1, deadline);
    }
    assert_int_equal(env->poller->set(poller, fd, 0, NULL), RON_OK);
    return count == 0 ? 0 : ready.events;
}

static inline uint32_t await_client(const struct pair *p, uint32_t events)
{
    return await(p->client_env, p->client_poller, p->client, events, in_ms(p, 60000));
}

static inline uint32_t await_server(const struct pair *p, uint32_t events)
{
    return await(p->server_env, p->server_poller, p->server, events, in_ms(p, 60000));
}

/* Connects the two; the result is what the client sees. */
static inline enum ron_rc pair_connect(struct pair *p)
{
    enum ron_rc rc = p->client_env->net->connect(p->client_env, p->addr, &p->client, NULL);

    if (rc != RON_OK || await_client(p, RON_IO_WRITE) == 0) {
        return rc == RON_OK ? RON_TIMEOUT : rc;
    }
    rc = p->client_env->net->connect_result(p->client_env, p->client);
    if (rc == RON_OK) {
        assert_true(
            await(p->server_env, p->server_poller, p->listener, RON_IO_READ, in_ms(p, 60000)) != 0);
        rc = p->server_env->net->accept(p->server_env, p->listener, &p->server, NULL);
    }
    return rc;
}

/* A connected pair in a calm world. */
static inline struct pair pair_calm(void)
{
    const struct sim_opts calm = sim_opts_calm();
    struct pair p = pair_new(support_seed(), &calm);

    assert_int_equal(pair_connect(&p), RON_OK);
    return p;
}

/* Sends all from one end to the other and returns how many bytes arrived, in order, before an end
 * or a failure. Byte i of the stream is stream_byte(i). */
static inline uint8_t stream_byte(size_t i)
{
    return (uint8_t)(i * 131 + (i >> 8) * 7);
}

struct stream_result {
    size_t sent;
    size_t received;
    enum ron_rc send_rc;
    enum ron_rc recv_rc;
    uint64_t took_ns;
};

static inline enum ron_rc stream_send(const struct pair *p, size_t total, size_t *sent)
{
    uint8_t buf[4096];
    size_t want = RON_MIN(total - *sent, sizeof buf);
    size_t len = 0;
    enum ron_rc rc;

    for (size_t i = 0; i < want; i++) {
        buf[i] = stream_byte(*sent + i);
    }
    rc = p->client_env->net->write(p->client_env, p->client, buf, want, &len);
    *sent += rc == RON_OK ? len : 0;
    return rc;
}

static inline enum ron_rc stream_recv(const struct pair *p, size_t *received)
{
    uint8_t buf[4096];
    size_t len = 0;
    enum ron_rc rc = p->server_env->net->read(p->server_env, p->server, buf, sizeof buf, &len);

    for (size_t i = 0; rc == RON_OK && i < len; i++) {
        SIM_CHECK(p->sim, buf[i] == stream_byte(*received + i));
    }
    *received += rc == RON_OK ? len : 0;
    return rc;
}

/* Level-triggered: each end does what it can, then time passes. Stops when nothing moves for a
 * minute. */
static inline struct stream_result stream(const struct pair *p, size_t total)
{
    struct stream_result r = {.send_rc = RON_OK, .recv_rc = RON_OK};
    uint64_t start_ns = sim_now_ns(p->sim);
    uint64_t moved_ns = start_ns;

    while (r.received < total && sim_now_ns(p->sim) - moved_ns < 60 * RON_NS_PER_S) {
        size_t before = r.sent + r.received;
        r.send_rc = r.sent < total ? stream_send(p, total, &r.sent) : RON_OK;
        r.recv_rc = stream_recv(p, &r.received);
        if (r.sent + r.received > before) {
            moved_ns = sim_now_ns(p->sim);
        } else if ((r.send_rc != RON_OK && r.send_rc != RON_AGAIN) || r.recv_rc != RON_AGAIN) {
            break;
        } else {
            sim_advance(p->sim, 10000);
        }
    }
    r.took_ns = sim_now_ns(p->sim) - start_ns;
    return r;
}
