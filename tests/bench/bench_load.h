/* SPDX-License-Identifier: Apache-2.0 */
/* bench_load.h - what the load generators share: connections, texts, answers, waiting.
 *
 * Place: included by bench_ledger.c and bench_wallet.c. A generator shares the cores with the
 * server that it measures, so what it spends on a request is taken from the figure: requests are
 * put together without printf, an answer is not searched for what stands where it stood last time,
 * and a clock is read once for an answer and the request after it. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "bench/bench.h"
#include "ron/io/addr.h"

static inline uint64_t load_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- texts: each returns the place behind what it wrote, and sets no zero there -------------- */

static inline char *load_bytes(char *to, const void *from, size_t len)
{
    memcpy(to, from, len);
    return to + len;
}

static inline char *load_text(char *to, const char *from)
{
    return load_bytes(to, from, strlen(from));
}

static inline char *load_hex(char *to, uint64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--) {
        to[i] = "0123456789abcdef"[value & 15];
        value >>= 4;
    }
    return to + digits;
}

static inline char *load_decimal(char *to, uint64_t value)
{
    char digits[20];
    size_t n = sizeof digits;

    do {
        digits[--n] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    return load_bytes(to, digits + n, sizeof digits - n);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* "HOST:PORT" (IPv4) or "unix:PATH". */
static inline int load_connect(const char *addr)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct ron_addr parsed;
    int one = 1;
    int fd;

    if (strncmp(addr, "unix:", 5) == 0) {
        BENCH_TRUE(strlen(addr + 5) < sizeof un.sun_path);
        memcpy(un.sun_path, addr + 5, strlen(addr + 5));
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        BENCH_TRUE(connect(fd, (struct sockaddr *)&un, sizeof un) == 0);
    } else {
        BENCH_OK(ron_addr_parse(addr, &parsed, NULL));
        in.sin_port = htons(parsed.port);
        memcpy(&in.sin_addr, parsed.ip, 4);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        BENCH_TRUE(connect(fd, (struct sockaddr *)&in, sizeof in) == 0);
        BENCH_TRUE(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    }
    BENCH_TRUE(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

static inline void load_watch(int ep, int op, int fd, uint32_t events, void *user)
{
    struct epoll_event ev = {.events = events, .data.ptr = user};

    BENCH_TRUE(epoll_ctl(ep, op, fd, &ev) == 0);
}

/* Sends what is left behind *sent; asks the poller for room when the socket has none. */
static inline void load_push(int ep, int fd, void *user, const void *bytes, size_t len,
                             size_t *sent)
{
    while (*sent < len) {
        ssize_t n = send(fd, (const char *)bytes + *sent, len - *sent, MSG_NOSIGNAL);

        if (n < 0) {
            BENCH_TRUE(errno == EAGAIN);
            load_watch(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, user);
            return;
        }
        *sent += (size_t)n;
    }
}

/* Bytes that came, 0: none yet. A server that hangs up ends the program. */
static inline size_t load_take(int fd, void *room, size_t len)
{
    ssize_t n = recv(fd, room, len, 0);

    if (n < 0 && errno == EAGAIN) {
        return 0;
    }
    BENCH_TRUE(n > 0);
    return (size_t)n;
}

/* Waits for events, at most so long. Without slack, because a rate is kept by these waits. */
static inline int load_wait(int ep, struct epoll_event *events, int max, uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000u),
                          .tv_nsec = (long)(ns % 1000000000u)};
    int n = epoll_pwait2(ep, events, max, &ts, NULL);

    BENCH_TRUE(n >= 0);
    return n;
}

static inline void load_begin(void)
{
    BENCH_TRUE(prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0);
}

/* ---- answers over HTTP ----------------------------------------------------------------------- */

/* Where the last answer had these: the next one most likely has them there too. */
struct load_shape {
    size_t field; /* "Content-Length: " */
    size_t head;  /* length of the whole head */
};

static inline bool load_fits(const struct load_shape *s, const char *in, size_t got)
{
    return s->head != 0 && got >= s->head && memcmp(in + s->head - 4, "\r\n\r\n", 4) == 0 &&
           memcmp(in + s->field - 2, "\r\nContent-Length: ", 18) == 0;
}

/* Length of the whole answer that lies in `in`, or 0. */
static inline size_t load_answer_length(struct load_shape *s, const char *in, size_t got)
{
    size_t body = 0;

    if (!load_fits(s, in, got)) {
        const char *end = memmem(in, got, "\r\n\r\n", 4);
        const char *field;

        if (end == NULL) {
            return 0;
        }
        field = memmem(in, (size_t)(end - in), "\r\nContent-Length: ", 18);
        BENCH_TRUE(field != NULL);
        *s = (struct load_shape){.field = (size_t)(field + 2 - in), .head = (size_t)(end + 4 - in)};
    }
    for (const char *p = in + s->field + 16; *p >= '0' && *p <= '9'; p++) {
        body = body * 10 + (size_t)(*p - '0');
    }
    return got >= s->head + body ? s->head + body : 0;
}
