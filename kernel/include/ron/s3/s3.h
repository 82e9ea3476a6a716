/* SPDX-License-Identifier: Apache-2.0 */
/* s3.h - objects in a bucket of an S3 server: get, head, put, multipart upload, delete.
 *
 * Place: s3, on the HTTP client (ron/http/client.h), whose rules H1-H5 hold: one host, no
 * redirects, bounded answers, deadlines, retries with jitter, a breaker. Requests are signed here
 * (s3/sign.h), each with the hash of its payload, so the server refuses a body that changed on
 * its way. Addressing is by path: ENDPOINT/BUCKET/PREFIX+KEY.
 *
 * Rules a caller may count on:
 *   B1. Every call ends by its deadline, by the timeout of the settings, or when the client's task
 *       ends, and says what is known: RON_OK only after an answer that says so, whole.
 *   B2. Bytes of a get are those the answer framed: a cut, over-long or mislabelled answer is an
 *       error. Whether they are the right ones is for who knows the content id (ron/s3/tier.h).
 *   B3. RON_S3_IF_ABSENT never replaces an object that is there: RON_EXISTS.
 *   B4. A multipart upload is whole or not there; one that failed is aborted, as far as the server
 *       can be reached. (A lifecycle rule for unfinished uploads catches the rest.)
 *   B5. The secret is never printed, and a body of an answer is never believed: of an error only
 *       the code is shown, if it is a plain word.
 *
 * Codes: RON_NOTFOUND, RON_EXISTS, RON_DENIED, RON_TIMEOUT, RON_CLOSED (no connection), RON_AGAIN
 * (breaker open, 503), RON_FULL (too many calls), RON_CORRUPT (an answer that makes no sense),
 * RON_LIMIT, RON_IO (other refusals), RON_CANCELLED, RON_NOMEM.
 *
 * Threads: all calls block; from any thread that may. Ownership: a `got` holds its bytes until
 * ron_s3_got_done. */
#pragma once

#include "ron/base/secret.h"
#include "ron/http/client.h"
#include "ron/obs/log.h"

enum {
    RON_S3_KEY_MAX = 512, /* behind the prefix; S3 allows 1024 bytes in all */
    RON_S3_PREFIX_MAX = 200,
    RON_S3_ETAG_MAX = 128,
    RON_S3_PART_MIN = 5 << 20,  /* what S3 asks of every part but the last */
    RON_S3_PART_MAX = 64 << 20, /* a body of the HTTP client */
    RON_S3_PARTS_MAX = 10000,
};

/* X(NAME, "label"): the operations, label `op`. */
#define RON_S3_OPS(X)                                                                              \
    X(GET, "get")                                                                                  \
    X(HEAD, "head")                                                                                \
    X(PUT, "put")                                                                                  \
    X(DELETE, "delete")                                                                            \
    X(CREATE, "multipart_create")                                                                  \
    X(PART, "multipart_part")                                                                      \
    X(COMPLETE, "multipart_complete")                                                              \
    X(ABORT, "multipart_abort")

enum ron_s3_op {
#define X(name, label) RON_S3_##name,
    RON_S3_OPS(X)
#undef X
        RON_S3_OP_COUNT
};

/* X(NAME, "label", rc): how a request ended, label `outcome`. */
#define RON_S3_OUTCOMES(X)                                                                         \
    X(OK, "ok", RON_OK)                                                                            \
    X(ABSENT, "absent", RON_NOTFOUND)      /* 404, or an upload that is gone */                    \
    X(EXISTS, "exists", RON_EXISTS)        /* 412 */                                               \
    X(DENIED, "denied", RON_DENIED)        /* 401, 403: keys, clock or policy */                   \
    X(THROTTLED, "throttled", RON_AGAIN)   /* 409, 429, 503 */                                     \
    X(FAILED, "failed", RON_IO)            /* other 5xx */                                         \
    X(REFUSED, "refused", RON_IO)          /* other 4xx */                                         \
    X(REDIRECT, "redirect", RON_CORRUPT)   /* 3xx: wrong endpoint or region; never followed */     \
    X(MALFORMED, "malformed", RON_CORRUPT) /* an answer that makes no sense */                     \
    X(TOO_LARGE, "too_large", RON_CORRUPT) /* an answer beyond its limit */                        \
    X(TIMEOUT, "timeout", RON_TIMEOUT)                                                             \
    X(UNREACHABLE, "unreachable", RON_CLOSED) /* name, connection, TLS, or broken off */           \
    X(BREAKER, "breaker_open", RON_AGAIN)                                                          \
    X(FULL, "full", RON_FULL)                                                                      \
    X(CANCELLED, "cancelled", RON_CANCELLED)                                                       \
    X(MEMORY, "memory", RON_NOMEM)

enum ron_s3_outcome {
#define X(name, label, rc) RON_S3_IS_##name,
    RON_S3_OUTCOMES(X)
#undef X
        RON_S3_OUTCOME_COUNT
};

struct ron_s3;

/* Texts are copied. */
struct ron_s3_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    struct ron_metrics *metrics; /* NULL: nothing is counted */
    const char *endpoint;        /* "https://s3.example.org" or "http://10.0.0.7:7480" */
    const char *bucket;
    const char *region;
    const char *prefix; /* of every key; "" for none */
    const char *access_key;
    const struct ron_secret *secret; /* copied */
    const char *ca_file;             /* NULL: the system's */
    bool allow_http;
    uint32_t timeout_ms; /* of one request, its tries together; 0 = 30 s */
    uint32_t part_bytes; /* 0 = 8 MiB; larger objects are uploaded in parts of it */
    uint32_t stage;      /* of the client's task: behind all who call */
    /* Told of every request that ended; on the caller's thread. May be NULL. */
    void (*ended)(void *arg, enum ron_s3_outcome outcome);
    void *ended_arg;
};

/* ---- reading --------------------------------------------------------------------------------- */

struct ron_s3_got {
    struct ron_http_fetch *_fetch;
    struct ron_str bytes;
    uint64_t total; /* size of the whole object */
    char etag[RON_S3_ETAG_MAX + 1];
};

/* Bytes [off, off + len), or fewer where the object ends; `len` at most the size of a part.
 * `if_match` (an etag of an earlier piece, or NULL): RON_EXISTS when the object is another one by
 * now. `off` at or beyond the end: no bytes, and `total` only if the server tells. */
RON_MUST_USE enum ron_rc ron_s3_get(struct ron_s3 *s, const char *key, uint64_t off, uint64_t len,
                                    const char *if_match, struct ron_deadline deadline,
                                    struct ron_s3_got *ret_got, struct ron_err *err);
void ron_s3_got_done(struct ron_s3_got *got);

/* ---- writing --------------------------------------------------------------------------------- */

enum ron_s3_put_flags { RON_S3_IF_ABSENT = 1u << 0 };

/* One request; at most RON_S3_PART_MAX bytes. */
RON_MUST_USE enum ron_rc ron_s3_put(struct ron_s3 *s, const char *key, const void *bytes,
                                    size_t len, uint32_t flags, struct ron_deadline deadline,
                                    struct ron_err *err);

/* Fills exactly `len` bytes of the object from `off` on. */
typedef enum ron_rc ron_s3_read_fn(void *arg, uint64_t off, void *buf, size_t len,
                                   struct ron_err *err);

/* RON_OK, too, when it was not there. */
RON_MUST_USE enum ron_rc ron_s3_delete(struct ron_s3 *s, const char *key,
                                       struct ron_deadline deadline, struct ron_err *err);

/* ---- for tests ------------------------------------------------------------------------------- */
