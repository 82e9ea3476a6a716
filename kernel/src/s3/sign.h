/* SPDX-License-Identifier: Apache-2.0 */
/* sign.h - AWS Signature Version 4 of one request, as S3 and its kin (Ceph RGW, MinIO) check it.
 *
 * Place: s3, its lower half: texts in, one header out. Pure: no clock, no network.
 *
 * Why not libcurl's own: docs/decisions.md. In short: it neither sorts nor encodes the query,
 * cannot hash a body that comes from a callback, signs no header but its own, and would have to be
 * given the secret, which lives here in a ron_secret and nowhere else.
 *
 * The caller writes path and query the way they are signed and sent: ron_s3_encode, and parameters
 * sorted by name. So there is one spelling, and nothing between here and the server changes it.
 *
 * Threads: any. */
#pragma once

#include "ron/base/buf.h"
#include "ron/base/json.h"
#include "ron/base/secret.h"

enum {
    RON_S3_HASH_HEX = 64,
    RON_S3_HASH_SIZE = RON_S3_HASH_HEX + 1,
    RON_S3_DATE_SIZE = 17,  /* "20130524T000000Z" and NUL */
    RON_S3_SIGNED_MAX = 16, /* headers of one request */
};

/* The hash of a body in lowercase digits, with its NUL: the value of x-amz-content-sha256. False
 * when OpenSSL cannot (memory). */
RON_MUST_USE bool ron_s3_payload_hash(const void *bytes, size_t len,
                                      char ret_hex[RON_S3_HASH_SIZE]);
/* A moment of the wall clock as the value of x-amz-date. */
void ron_s3_date(uint64_t unix_ms, char ret_text[RON_S3_DATE_SIZE]);
/* Percent-encodes all but unreserved characters, capital digits; with `path` slashes stand. */
enum ron_rc ron_s3_encode(struct ron_buf *out, const char *text, size_t len, bool path);

struct ron_s3_signed {
    const char *name; /* lowercase */
    struct ron_str value;
};

struct ron_s3_signing {
    const char *method;
    const char *path;                    /* begins with a slash; encoded */
    const char *query;                   /* without "?"; sorted, encoded; "" for none */
    const struct ron_s3_signed *headers; /* sorted by name, host among them; all are signed */
    size_t header_count;
    const char *payload_hash;
    const char *date; /* as x-amz-date says */
    const char *region;
    const char *access_key;
    const struct ron_secret *secret;
};

/* Appends the value of Authorization. RON_INVALID: headers unsorted or too many; RON_NOMEM;
 * RON_LIMIT: `out` is full. What was derived from the secret is wiped. */
RON_MUST_USE enum ron_rc ron_s3_sign(const struct ron_s3_signing *s, struct ron_buf *out,
                                     struct ron_err *err);
