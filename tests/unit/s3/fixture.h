/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - an S3 client in this process, and a small bucket on raw sockets that misbehaves on
 * request.
 *
 * Place: tests of s3 only. It checks no signatures (tests/unit/s3/test_sign.c has AWS's own, and
 * tests/system/160-s3.py checks each one), but keeps to the rest: conditions, ranges, parts. A
 * thread for each connection; the lock guards everything. */
#pragma once

#include "unit/front/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "ron/cas/b3.h"
#include "ron/s3/s3.h"

enum { PAIL_OBJECTS = 64, PAIL_HEAD = 8192, PAIL_BODY = 16 << 20, PAIL_CONNS = 64 };

struct pail_object {
    char key[256];
    char upload[32]; /* of a part */
    unsigned part;   /* 0: an object */
    uint8_t *bytes;
    size_t len;
};

struct pail;
/* Answers a request itself, or returns false. With the lock held. */
typedef bool pail_fault(struct pail *p, int fd, const char *head);

struct pail_conn {
    struct pail *pail;
    pthread_t thread;
    int fd;
};

struct pail {
    pthread_mutex_t mu;
    int listener;
    uint16_t port;
    pthread_t thread;
    size_t conn_count;
    struct pail_conn conns[PAIL_CONNS];
    struct pail_object objects[PAIL_OBJECTS];
    pail_fault *fault;
    uint64_t faults_left; /* so many requests meet the fault */
    uint64_t requests;
    uint64_t aborts;
    char last[PAIL_HEAD]; /* the last head */
};

static inline void pail_send(int fd, const char *head, const void *body, size_t len)
{
    (void)!send(fd, head, strlen(head), MSG_NOSIGNAL | (len > 0 ? MSG_MORE : 0));
    for (size_t off = 0; off < len;) {
        ssize_t n = send(fd, (const char *)body + off, len - off, MSG_NOSIGNAL);

        if (n <= 0) {
            return;
        }
        off += (size_t)n;
    }
}

static inline void pail_say(int fd, int status, const char *extra, const char *body)
{
    char head[1024];

    (void)snprintf(head, sizeof head, "HTTP/1.1 %d X\r\n%sContent-Length: %zu\r\n\r\n", status,
                   extra, strlen(body));
    pail_send(fd, head, body, strlen(body));
}

static inline struct pail_object *pail_find(struct pail *p, const char *key, unsigned part)
{
    for (size_t i = 0; i < PAIL_OBJECTS; i++) {
        struct pail_object *o = &p->objects[i];

        if (o->bytes != NULL && o->part == part && strcmp(o->key, key) == 0) {
            return o;
        }
    }
    return NULL;
}

static inline void pail_drop(struct pail *p, const char *key, bool parts)
{
    for (size_t i = 0; i < PAIL_OBJECTS; i++) {
        struct pail_object *o = &p->objects[i];

        if (o->bytes != NULL && strcmp(o->key, key) == 0 && (o->part > 0) == parts) {
            free(o->bytes);
            o->bytes = NULL;
        }
    }
}

static inline void pail_put(struct pail *p, const char *key, unsigned part, const void *bytes,
                            size_t len)
{
    struct pail_object *o = pail_find(p, key, part);

    for (size_t i = 0; i < PAIL_OBJECTS && o == NULL; i++) {
        o = p->objects[i].bytes == NULL ? &p->objects[i] : NULL;
    }
    RON_ASSERT(o != NULL);
    free(o->bytes);
    RON_ASSERT(strlen(key) < sizeof o->key);
    memcpy(o->key, key, strlen(key) + 1);
    o->part = part;
    o->len = len;
    o->bytes = malloc(len + 1);
    RON_ASSERT(o->bytes != NULL);
    memcpy(o->bytes, bytes, len);
}

static inline void pail_get(int fd, const struct pail_object *o, const char *head, bool body)
{
    const char *range = strstr(head, "range: bytes=");
    unsigned long long first = 0;
    unsigned long long last = 0;
    char text[512];

    if (range == NULL) {
        (void)snprintf(text, sizeof text,
                       "HTTP/1.1 200 X\r\nETag: \"e%zu\"\r\nContent-Length: %zu\r\n\r\n", o->len,
                       o->len);
        pail_send(fd, text, o->bytes, body ? o->len : 0);
        return;
    }
    RON_ASSERT(sscanf(range, "range: bytes=%llu-%llu", &first, &last) == 2);
    if (first >= o->len) {
        pail_say(fd, 416, "", "<Error><Code>InvalidRange</Code></Error>");
        return;
    }
    last = last >= o->len ? o->len - 1 : last;
    (void)snprintf(text, sizeof text,
                   "HTTP/1.1 206 X\r\nETag: \"e%zu\"\r\nContent-Range: bytes %llu-%llu/%zu\r\n"
                   "Content-Length: %llu\r\n\r\n",
                   o->len, first, last, o->len, last - first + 1);
    pail_send(fd, text, o->bytes + first, body ? (size_t)(last - first + 1) : 0);
}

static inline void pail_complete(struct pail *p, int fd, const char *key)
{
    static uint8_t whole[PAIL_BODY];
    struct pail_object *o;
    size_t len = 0;

    for (unsigned n = 1; (o = pail_find(p, key, n)) != NULL; n++) {
        memcpy(whole + len, o->bytes, o->len);
        len += o->len;
    }
    pail_put(p, key, 0, whole, len);
    pail_drop(p, key, true);
    pail_say(fd, 200, "", "<R><ETag>&quot;whole-2&quot;</ETag></R>");
}

static inline void pail_answer(struct pail *p, int fd, const char *head, const uint8_t *body,
                               size_t len)
{
    char method[8];
    char target[512];
    char *query;
    unsigned part = 0;
    struct pail_object *o;

    RON_ASSERT(sscanf(head, "%7s %511s", method, target) == 2);
    query = strchr(target, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    o = pail_find(p, target, 0);
    if (query != NULL && sscanf(query, "partNumber=%u", &part) == 1) {
        pail_put(p, target, part, body, len);
        pail_say(fd, 200, "ETag: \"p\"\r\n", "");
    } else if (strcmp(method, "POST") == 0 && strcmp(query != NULL ? query : "", "uploads=") == 0) {
        pail_say(fd, 200, "", "<R><UploadId>u/1+</UploadId></R>");
    } else if (strcmp(method, "POST") == 0) {
        pail_complete(p, fd, target);
    } else if (strcmp(method, "DELETE") == 0) {
        p->aborts += query != NULL;
        pail_drop(p, target, query != NULL);
        pail_say(fd, 204, "", "");
    } else if (strcmp(method, "PUT") == 0 && o != NULL &&
               strstr(head, "if-none-match: *") != NULL) {
        pail_say(fd, 412, "", "<Error><Code>PreconditionFailed</Code></Error>");
    } else if (strcmp(method, "PUT") == 0) {
        pail_put(p, target, 0, body, len);
        pail_say(fd, 200, "ETag: \"x\"\r\n", "");
    } else if (o == NULL) {
        pail_say(fd, 404, "", strcmp(method, "HEAD") == 0 ? "" : "<Error><Code>NoSuchKey</Code>");
    } else {
        pail_get(fd, o, head, strcmp(method, "GET") == 0);
    }
}

/* One request; false: the connection has ended. */
static inline bool pail_turn(struct pail *p, int fd)
{
    char head[PAIL_HEAD];
    size_t have = 0;
    const char *length;
    size_t len;
    uint8_t *body;
    bool open = true;

    while (have < 4 || memcmp(head + have - 4, "\r\n\r\n", 4) != 0) {
        if (have == sizeof head - 1 || recv(fd, head + have, 1, 0) != 1) {
            return false;
        }
        have++;
    }
    head[have] = '\0';
    length = strstr(head, "Content-Length: ");
    len = length != NULL ? strtoul(length + 16, NULL, 10) : 0;
    body = malloc(len + 1);
    RON_ASSERT(body != NULL);
    for (size_t off = 0; off < len;) {
        ssize_t n = recv(fd, body + off, len - off, 0);

        if (n <= 0) {
            free(body);
            return false;
        }
        off += (size_t)n;
    }
    (void)pthread_mutex_lock(&p->mu);
    p->requests++;
    memcpy(p->last, head, have + 1);
    if (p->fault != NULL && p->faults_left > 0 && p->fault(p, fd, head)) {
        p->faults_left--;
        open = false;
    } else {
        pail_answer(p, fd, head, body, len);
    }
    (void)pthread_mutex_unlock(&p->mu);
    free(body);
    return open;
}

static inline void *pail_conn_main(void *arg)
{
    struct pail_conn *c = arg;

    while (pail_turn(c->pail, c->fd)) {
    }
    (void)shutdown(c->fd, SHUT_RDWR);
    return NULL;
}

static inline void *pail_main(void *arg)
{
    struct pail *p = arg;
    int fd;

    while ((fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct pail_conn *c = &p->conns[p->conn_count];

        RON_ASSERT(p->conn_count < PAIL_CONNS);
        *c = (struct pail_conn){.pail = p, .fd = fd};
        RON_ASSERT(pthread_create(&c->thread, NULL, pail_conn_main, c) == 0);
        p->conn_count++;
    }
    return NULL;
}

static inline struct pail *pail_open(void)
{
    struct pail *p = calloc(1, sizeof *p);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;

    RON_ASSERT(p != NULL);
    (void)pthread_mutex_init(&p->mu, NULL);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    RON_ASSERT(bind(p->listener, (struct sockaddr *)&addr, sizeof addr) == 0);
    RON_ASSERT(listen(p->listener, 64) == 0);
    RON_ASSERT(getsockname(p->listener, (struct sockaddr *)&addr, &len) == 0);
    p->port = ntohs(addr.sin_port);
    RON_ASSERT(pthread_create(&p->thread, NULL, pail_main, p) == 0);
    return p;
}

static inline void pail_close(struct pail *p)
{
    (void)shutdown(p->listener, SHUT_RDWR);
    (void)pthread_join(p->thread, NULL);
    for (size_t i = 0; i < p->conn_count; i++) {
        (void)shutdown(p->conns[i].fd, SHUT_RDWR);
        (void)pthread_join(p->conns[i].thread, NULL);
        (void)close(p->conns[i].fd);
    }
    for (size_t i = 0; i < PAIL_OBJECTS; i++) {
        free(p->objects[i].bytes);
    }
    (void)close(p->listener);
    (void)pthread_mutex_destroy(&p->mu);
    free(p);
}

static inline void pail_misbehave(struct pail *p, pail_fault *fault, uint64_t times)
{
    (void)pthread_mutex_lock(&p->mu);
    p->fault = fault;
    p->faults_left = times;
    (void)pthread_mutex_unlock(&p->mu);
}

static inline uint64_t pail_requests(struct pail *p)
{
    uint64_t n;

    (void)pthread_mutex_lock(&p->mu);
    n = p->requests;
    (void)pthread_mutex_unlock(&p->mu);
    return n;
}

/* Whether an object lies there with these bytes; by its key behind bucket and prefix. */
static inline bool pail_has(struct pail *p, const char *key, const void *bytes, size_t len)
{
    struct pail_object *o;
    char path[300];
    bool has;

    (void)snprintf(path, sizeof path, "/bucket/pre/%s", key);
    (void)pthread_mutex_lock(&p->mu);
    o = pail_find(p, path, 0);
    has = o != NULL && o->len == len && memcmp(o->bytes, bytes, len) == 0;
    (void)pthread_mutex_unlock(&p->mu);
    return has;
}

static inline void pail_place(struct pail *p, const char *key, const void *bytes, size_t len)
{
    char path[300];

    (void)snprintf(path, sizeof path, "/bucket/pre/%s", key);
    (void)pthread_mutex_lock(&p->mu);
    pail_put(p, path, 0, bytes, len);
    (void)pthread_mutex_unlock(&p->mu);
}
