/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the least a durable HTTP service can do, as a yardstick for the ledger.
 *
 * usage: server PORT FILE
 *
 * One thread serves all connections with epoll. Requests that are complete after a round go to the
 * writer with one lock. The writer takes all queued requests (GROUP_MAX at most), parses each body,
 * appends RECORD_BYTES of each to FILE with one write and one fdatasync, and returns the answers
 * with one wake-up. When the queue is full the answer is 503. FILE is filled with zeros first and
 * reused from its start when it is full; nothing is ever read back.
 *
 * A connection has one request at a time; a peer that sends a longer one than IN_BYTES is cut off.
 *
 * Ownership: a connection belongs to the loop, but while `busy` to the writer. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <llhttp/llhttp.h>
#define JSMN_STATIC
#include <jsmn.h>

enum {
    IN_BYTES = 4096,
    BODY_BYTES = 2048,
    OUT_BYTES = 512,
    QUEUE_MAX = 1024,
    GROUP_MAX = 256,
    RECORD_BYTES = 128,
    FILE_BYTES = 512 << 20,
    EVENTS = 128,
    TOKENS = 32,
};

struct conn {
    int fd;
    struct conn *next; /* in the list of answered ones */
    llhttp_t parser;
    bool busy, closed, keep, waits_to_write;
    size_t in_len, in_at;
    size_t body_len;
    size_t out_len, out_at;
    char in[IN_BYTES];
    char body[BODY_BYTES];
    char out[OUT_BYTES];
};

static struct {
    pthread_mutex_t mu;
    pthread_cond_t filled;
    struct conn *items[QUEUE_MAX];
    size_t first, count;
    struct conn *answered; /* guarded by mu */
} queue = {.mu = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

static llhttp_settings_t settings;
static struct conn *round_items[QUEUE_MAX]; /* complete after this round of the loop */
static size_t round_count;
static struct conn *dead; /* to be freed after this round */
static int poller, wake_fd, file_fd;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- what a request means -------------------------------------------------------------------- */

static bool member(const char *text, const jsmntok_t *t, int count, const char *name,
                   const jsmntok_t **ret)
{
    for (int i = 1; i + 1 < count; i += 2) {
        size_t len = (size_t)(t[i].end - t[i].start);

        if (len == strlen(name) && memcmp(text + t[i].start, name, len) == 0) {
            *ret = &t[i + 1];
            return true;
        }
    }
    return false;
}

/* Reads the transfer and writes the answer, both of some 200 bytes. */
static void answer(struct conn *c)
{
    static const char *const names[] = {"idempotency_key", "debit_account", "credit_account",
                                        "amount",          "currency",      "memo"};
    const jsmntok_t *found[6] = {NULL};
    jsmntok_t tokens[TOKENS];
    jsmn_parser p;
    int count;
    bool good;
    char text[256];
    int len;

    jsmn_init(&p);
    count = jsmn_parse(&p, c->body, c->body_len, tokens, TOKENS);
    good = count > 0 && tokens[0].type == JSMN_OBJECT;
    for (size_t i = 0; good && i < 6; i++) {
        good = member(c->body, tokens, count, names[i], &found[i]);
    }
    for (int i = good ? found[3]->start : 0; good && i < found[3]->end; i++) {
        good = c->body[i] >= '0' && c->body[i] <= '9';
    }
    len = good ? snprintf(text, sizeof text,
                          "{\"id\":\"%.*s\",\"status\":\"committed\",\"amount\":\"%.*s\","
                          "\"debit\":\"%.*s\",\"credit\":\"%.*s\"}",
                          found[0]->end - found[0]->start, c->body + found[0]->start,
                          found[3]->end - found[3]->start, c->body + found[3]->start,
                          found[1]->end - found[1]->start, c->body + found[1]->start,
                          found[2]->end - found[2]->start, c->body + found[2]->start)
               : snprintf(text, sizeof text, "{}");
    if (len >= (int)sizeof text) {
        good = false;
        len = snprintf(text, sizeof text, "{}");
    }
    c->out_at = 0;
    c->out_len = (size_t)snprintf(c->out, sizeof c->out,
                                  "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
                                  "Content-Length: %d\r\n%s\r\n%s",
                                  good ? "200 OK" : "400 Bad Request", len,
                                  c->keep ? "" : "Connection: close\r\n", text);
}

static void answer_busy(struct conn *c)
{
    c->busy = false;
    c->out_at = 0;
    c->out_len = (size_t)snprintf(c->out, sizeof c->out,
                                  "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
}

/* ---- the writer ------------------------------------------------------------------------------ */

static void append(struct conn *const *items, size_t count)
{
    static char records[GROUP_MAX * RECORD_BYTES];
    static size_t at;
    size_t len = count * RECORD_BYTES;

    for (size_t i = 0; i < count; i++) {
        memcpy(records + i * RECORD_BYTES, items[i]->body, RECORD_BYTES);
    }
    if (at + len > FILE_BYTES) {
        at = 0;
    }
    if (pwrite(file_fd, records, len, (off_t)at) != (ssize_t)len || fdatasync(file_fd) != 0) {
        fail("append");
    }
    at += len;
}

static void *write_all(void *unused)
{
    struct conn *items[GROUP_MAX];
    uint64_t one = 1;

    (void)unused;
    for (;;) {
        size_t count = 0;
        bool sleeps;

        pthread_mutex_lock(&queue.mu);
        while (queue.count == 0) {
            pthread_cond_wait(&queue.filled, &queue.mu);
        }
        while (count < GROUP_MAX && queue.count > 0) {
            items[count++] = queue.items[queue.first];
            queue.first = (queue.first + 1) % QUEUE_MAX;
            queue.count--;
        }
        pthread_mutex_unlock(&queue.mu);
        for (size_t i = 0; i < count; i++) {
            answer(items[i]);
        }
        append(items, count);
        pthread_mutex_lock(&queue.mu);
        sleeps = queue.answered == NULL;
        for (size_t i = 0; i < count; i++) {
            items[i]->next = queue.answered;
            queue.answered = items[i];
        }
        pthread_mutex_unlock(&queue.mu);
        if (sleeps && write(wake_fd, &one, sizeof one) != sizeof one) {
            fail("wake");
        }
    }
    return NULL;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Closed at once, but freed after the round, which may still hold an event for it; one that the
 * writer has is freed when it comes back. */
static void close_conn(struct conn *c)
{
    if (!c->closed) {
        (void)close(c->fd);
        c->closed = true;
    }
    if (!c->busy) {
        c->next = dead;
        dead = c;
    }
}

static void free_dead(void)
{
    while (dead != NULL) {
        struct conn *next = dead->next;

        free(dead);
        dead = next;
    }
}

static void watch(struct conn *c, bool to_write)
{
    struct epoll_event e = {.events = EPOLLIN | (to_write ? (uint32_t)EPOLLOUT : 0), .data.ptr = c};

    if (c->waits_to_write != to_write) {
        c->waits_to_write = to_write;
        (void)epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
    }
}

/* Writes what is left. False when the connection is at its end. */
static bool flush(struct conn *c)
{
    while (c->out_at < c->out_len) {
        ssize_t n = write(c->fd, c->out + c->out_at, c->out_len - c->out_at);

        if (n < 0) {
            watch(c, true);
            return errno == EAGAIN;
        }
        c->out_at += (size_t)n;
    }
    c->out_len = 0;
    watch(c, false);
    return c->keep;
}

/* Parses what was read until a request is complete. False when the connection is at its end. */
static bool advance(struct conn *c)
{
    while (c->in_at < c->in_len && !c->busy && c->out_len == 0) {
        enum llhttp_errno e = llhttp_execute(&c->parser, c->in + c->in_at, c->in_len - c->in_at);

        if (e != HPE_OK && e != HPE_PAUSED) {
            return false;
        }
        if (e == HPE_OK) {
            c->in_at = c->in_len;
            continue;
        }
        c->in_at = (size_t)(llhttp_get_error_pos(&c->parser) - c->in);
        c->keep = llhttp_should_keep_alive(&c->parser) != 0;
        llhttp_resume(&c->parser);
        c->busy = true;
        if (round_count == QUEUE_MAX) {
            answer_busy(c);
            if (!flush(c)) {
                return false;
            }
        } else {
            round_items[round_count++] = c;
        }
    }
    if (c->in_at == c->in_len) {
        c->in_at = c->in_len = 0;
    }
    return true;
}

static void on_readable(struct conn *c)
{
    ssize_t n;

    if (c->in_len == IN_BYTES) {
        close_conn(c);
        return;
    }
    n = read(c->fd, c->in + c->in_len, IN_BYTES - c->in_len);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        close_conn(c);
        return;
    }
    c->in_len += (size_t)n;
    if (!advance(c)) {
        close_conn(c);
    }
}

static void take_answers(void)
{
    struct conn *c;
    uint64_t count;

    if (read(wake_fd, &count, sizeof count) != sizeof count) {
        return;
    }
    pthread_mutex_lock(&queue.mu);
    c = queue.answered;
    queue.answered = NULL;
    pthread_mutex_unlock(&queue.mu);
    while (c != NULL) {
        struct conn *next = c->next;

        c->busy = false;
        if (c->closed || !flush(c) || !advance(c)) {
            close_conn(c);
        }
        c = next;
    }
}

static void hand_over(void)
{
    size_t taken = 0;

    pthread_mutex_lock(&queue.mu);
    for (; taken < round_count && queue.count < QUEUE_MAX; taken++) {
        queue.items[(queue.first + queue.count++) % QUEUE_MAX] = round_items[taken];
    }
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.mu);
    for (; taken < round_count; taken++) {
        struct conn *c = round_items[taken];

        answer_busy(c);
        if (c->closed || !flush(c)) {
            close_conn(c);
        }
    }
    round_count = 0;
}

static void accept_all(int listener)
{
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        int one = 1;

        if (c == NULL) {
            fail("memory");
        }
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c->fd = fd;
        llhttp_init(&c->parser, HTTP_REQUEST, &settings);
        c->parser.data = c;
        (void)epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    }
}

static int on_begin(llhttp_t *p)
{
    ((struct conn *)p->data)->body_len = 0;
    return 0;
}

static int on_body(llhttp_t *p, const char *bytes, size_t len)
{
    struct conn *c = p->data;

    if (len > BODY_BYTES - c->body_len) {
        return -1;
    }
    memcpy(c->body + c->body_len, bytes, len);
    c->body_len += len;
    return 0;
}

static int on_complete(llhttp_t *p)
{
    (void)p;
    return HPE_PAUSED;
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int one = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 512) != 0) {
        fail("listen");
    }
    return fd;
}

static void open_file(const char *path)
{
    static char zeros[1 << 20];

    file_fd = open(path, O_RDWR | O_CREAT, 0600);
    if (file_fd < 0) {
        fail(path);
    }
    for (size_t at = 0; at < FILE_BYTES; at += sizeof zeros) {
        if (pwrite(file_fd, zeros, sizeof zeros, (off_t)at) != sizeof zeros) {
            fail("fill");
        }
    }
    if (fsync(file_fd) != 0) {
        fail("fsync");
    }
}

static void serve(int listener)
{
    struct epoll_event events[EVENTS];

    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, -1);

        for (int i = 0; i < count; i++) {
            struct conn *c = events[i].data.ptr;

            if (events[i].data.ptr == &poller) {
                accept_all(listener);
            } else if (events[i].data.ptr == &wake_fd) {
                take_answers();
            } else if (c->closed) {
                continue;
            } else if (c->out_len > 0) {
                if (!flush(c) || !advance(c)) {
                    close_conn(c);
                }
            } else {
                on_readable(c);
            }
        }
        if (round_count > 0) {
            hand_over();
        }
        free_dead();
    }
}

int main(int argc, char **argv)
{
    struct epoll_event on_accept = {.events = EPOLLIN, .data.ptr = &poller};
    struct epoll_event on_wake = {.events = EPOLLIN, .data.ptr = &wake_fd};
    unsigned long port = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    pthread_t writer;
    int listener;

    if (port == 0 || port > UINT16_MAX) {
        fprintf(stderr, "usage: server PORT FILE\n");
        return 2;
    }
    llhttp_settings_init(&settings);
    settings.on_message_begin = on_begin;
    settings.on_body = on_body;
    settings.on_message_complete = on_complete;
    open_file(argv[2]);
    poller = epoll_create1(0);
    wake_fd = eventfd(0, EFD_NONBLOCK);
    if (poller < 0 || wake_fd < 0 || pthread_create(&writer, NULL, write_all, NULL) != 0) {
        fail("start");
    }
    listener = listen_on((uint16_t)port);
    (void)epoll_ctl(poller, EPOLL_CTL_ADD, listener, &on_accept);
    (void)epoll_ctl(poller, EPOLL_CTL_ADD, wake_fd, &on_wake);
    serve(listener);
}
