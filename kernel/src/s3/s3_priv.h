/* SPDX-License-Identifier: Apache-2.0 */
/* s3_priv.h - records of the S3 client; private to the module.
 *
 *     call.c     one request: path, headers, signature, the wait, what its end means
 *     client.c   options, life, metrics, and the plain operations
 *     upload.c   objects of any size
 *     xml.c      one text out of an answer
 *     tier*.c    the second tier behind a content store */
#pragma once

#include "ron/s3/s3.h"
#include "s3/sign.h"

enum {
    RON__S3_MAGIC = 0x53335352,
    RON__S3_HEADERS_MAX = 4,        /* that an operation adds */
    RON__S3_ANSWER_MAX = 64 * 1024, /* of an answer that is not an object */
    RON__S3_PATH_MAX = 6144,        /* bucket, prefix and key, each byte as three */
    RON__S3_UPLOAD_ID_MAX = 1024,
};

struct ron_s3 {
    uint32_t magic;
    const struct ron_env *env;
    struct ron_http_client *client;
    struct ron_http_target *target;
    char *endpoint; /* without a slash at its end */
    char *host;     /* as Host says it */
    char *bucket;
    char *region;
    char *prefix;
    char *access_key;
    struct ron_secret secret;
    uint32_t timeout_ms;
    uint32_t part_bytes;
    void (*ended)(void *arg, enum ron_s3_outcome outcome);
    void *ended_arg;
    struct ron_watch *shutdown;  /* of the supervisor; NULL before attach */
    struct ron_metric *requests; /* NULL: nothing is counted */
    struct ron_metric *bytes;
    struct ron_metric *seconds;
};

struct ron__s3_call {
    enum ron_s3_op op;
    enum ron_http_method method;
    const char *key;
    const char *query; /* "" or sorted and encoded */
    /* Signed as well; sorted by name, none of them host or x-amz-*. All sort before x-amz-. */
    struct ron_s3_signed headers[RON__S3_HEADERS_MAX];
    size_t header_count;
    const char *content_type; /* of a body; NULL: none */
    struct ron_str body;
    uint64_t response_max;
    struct ron_deadline deadline;
    uint64_t _begun_ns;
};

/* Runs it and says how it ended by status and framing. `*ret_fetch` is the caller's to release when
 * it is not NULL. Followed by one ron__s3_end. */
enum ron_s3_outcome ron__s3_run(struct ron_s3 *s, struct ron__s3_call *call,
                                struct ron_http_fetch **ret_fetch, struct ron_err *err);
/* Counts the request under its outcome, which may have become worse after a look at the answer, and
 * gives its code; `err` tells what was not told yet. */
RON_MUST_USE enum ron_rc ron__s3_end(struct ron_s3 *s, const struct ron__s3_call *call,
                                     enum ron_s3_outcome outcome, struct ron_err *err);
/* Whether the service drains: no new request of a longer work. */
bool ron__s3_stopping(const struct ron_s3 *s);
const char *ron__s3_op_label(enum ron_s3_op op);
void ron__s3_count_bytes(struct ron_s3 *s, const char *direction, uint64_t bytes);

const char *ron_s3_outcome_label(enum ron_s3_outcome outcome);

/* Whether texts and endpoint are sound; RON_INVALID says which is not. Reads no file. */
RON_MUST_USE enum ron_rc ron_s3_check(const struct ron_s3_opts *opts, struct ron_err *err);

/* RON_INVALID, RON_NOMEM, or what reading the CA file gave. */
RON_MUST_USE enum ron_rc ron_s3_new(const struct ron_s3_opts *opts, struct ron_s3 **ret_s3,
                                    struct ron_err *err);
RON_MUST_USE enum ron_rc ron_s3_attach(struct ron_s3 *s, struct ron_sup *sup, struct ron_err *err);

/* After the supervisor; nobody calls any more. NULL does nothing. */
void ron_s3_free(struct ron_s3 *s);
uint32_t ron_s3_part_bytes(const struct ron_s3 *s);

RON_MUST_USE enum ron_rc ron_s3_head(struct ron_s3 *s, const char *key,
                                     struct ron_deadline deadline, uint64_t *ret_size,
                                     struct ron_err *err);

/* Of any size: one put, or a multipart upload in parts of the setting (larger ones when there would
 * be too many). `deadline` is that of the whole; each request has the timeout of the settings. */
RON_MUST_USE enum ron_rc ron_s3_put_object(struct ron_s3 *s, const char *key, uint64_t size,
                                           ron_s3_read_fn *read, void *arg, uint32_t flags,
                                           struct ron_deadline deadline, struct ron_err *err);

/* The text of the first element of that name, entities decoded: RON_NOTFOUND; RON_CORRUPT when it
 * is malformed, holds elements, or is longer than `size` - 1 bytes. */
RON_MUST_USE enum ron_rc ron_s3_xml_text(const char *xml, size_t len, const char *name,
                                         char *ret_text, size_t size);
