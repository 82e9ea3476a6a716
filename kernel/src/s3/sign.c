/* SPDX-License-Identifier: Apache-2.0 */
/* sign.c - AWS Signature Version 4.
 *
 *     canonical request = method \n path \n query \n headers \n signed names \n payload hash
 *     text              = "AWS4-HMAC-SHA256" \n date \n scope \n SHA256(canonical request)
 *     key               = HMAC chain over day, region, "s3", "aws4_request", begun with the secret
 *     signature         = HMAC(key, text)
 *
 * Checked against the examples that AWS publishes (tests/unit/s3/test_sign.c) and by every server
 * it talks to. */
#include "s3/sign.h"
#include "s3/s3_priv.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ron/base/hex.h"

enum {
    DAY_LEN = 8,
    SCOPE_MAX = 256,
    CANONICAL_MAX = 32 * 1024, /* path and query of 8 KiB each, and the headers */
    SECRET_MAX = 256,          /* those of AWS have 40 bytes */
};

static const char algorithm[] = "AWS4-HMAC-SHA256";

bool ron_s3_payload_hash(const void *bytes, size_t len, char ret_hex[RON_S3_HASH_SIZE])
{
    uint8_t hash[SHA256_DIGEST_LENGTH];

    if (SHA256(bytes != NULL ? bytes : (const void *)"", len, hash) == NULL) {
        return false;
    }
    ron_hex(hash, sizeof hash, ret_hex);
    return true;
}

void ron_s3_date(uint64_t unix_ms, char ret_text[RON_S3_DATE_SIZE])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm = {0};

    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(ret_text, RON_S3_DATE_SIZE, "%Y%m%dT%H%M%SZ", &tm) != RON_S3_DATE_SIZE - 1) {
        (void)snprintf(ret_text, RON_S3_DATE_SIZE, "19700101T000000Z"); /* year 10000 */
    }
}

enum ron_rc ron_s3_encode(struct ron_buf *out, const char *text, size_t len, bool path)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_' || c == '.' || c == '~' || (path && c == '/');

        if (plain) {
            (void)ron_buf_append_byte(out, c);
        } else {
            (void)ron_buf_append_fmt(out, "%%%02X", c);
        }
    }
    return ron_buf_error(out);
}

/* ---- canonical request ----------------------------------------------------------------------- */

static enum ron_rc check(const struct ron_s3_signing *s, struct ron_err *err)
{
    if (s->header_count == 0 || s->header_count > RON_S3_SIGNED_MAX || s->path[0] != '/' ||
        strlen(s->date) != RON_S3_DATE_SIZE - 1 || ron_secret_len(s->secret) == 0 ||
        ron_secret_len(s->secret) > SECRET_MAX) {
        return ron_err_set(err, RON_INVALID, "s3: a request that cannot be signed");
    }
    for (size_t i = 1; i < s->header_count; i++) {
        if (strcmp(s->headers[i - 1].name, s->headers[i].name) >= 0) {
            return ron_err_set(err, RON_INVALID, "s3: headers to sign are not sorted");
        }
    }
    return RON_OK;
}

static void put_names(const struct ron_s3_signing *s, struct ron_buf *out)
{
    for (size_t i = 0; i < s->header_count; i++) {
        (void)ron_buf_append_fmt(out, "%s%s", i > 0 ? ";" : "", s->headers[i].name);
    }
}

static void put_canonical(const struct ron_s3_signing *s, struct ron_buf *out)
{
    (void)ron_buf_append_fmt(out, "%s\n%s\n%s\n", s->method, s->path, s->query);
    for (size_t i = 0; i < s->header_count; i++) {
        (void)ron_buf_append_fmt(out, "%s:", s->headers[i].name);
        (void)ron_buf_append(out, s->headers[i].value.ptr, s->headers[i].value.len);
        (void)ron_buf_append_byte(out, '\n');
    }
    (void)ron_buf_append_byte(out, '\n');
    put_names(s, out);
    (void)ron_buf_append_fmt(out, "\n%s", s->payload_hash);
}

/* ---- key and signature ----------------------------------------------------------------------- */

static bool mac(const void *key, size_t key_len, const char *text, size_t len,
                uint8_t ret[SHA256_DIGEST_LENGTH])
{
    unsigned int got = SHA256_DIGEST_LENGTH;

    return HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, len, ret, &got) !=
               NULL &&
           got == SHA256_DIGEST_LENGTH;
}

static bool derive(const struct ron_s3_signing *s, uint8_t ret_key[SHA256_DIGEST_LENGTH])
{
    const char *const steps[] = {s->region, "s3", "aws4_request"};
    size_t len = ron_secret_len(s->secret);
    static const char salt[4] = {'A', 'W', 'S', '4'};
    char first[sizeof salt + SECRET_MAX];
    bool good;

    memcpy(first, salt, sizeof salt);
    memcpy(first + sizeof salt, ron_secret_reveal(s->secret), len);
    good = mac(first, sizeof salt + len, s->date, DAY_LEN, ret_key);
    ron_wipe(first, sizeof first);
    for (size_t i = 0; good && i < RON_ARRAY_LEN(steps); i++) {
        uint8_t next[SHA256_DIGEST_LENGTH];

        good = mac(ret_key, SHA256_DIGEST_LENGTH, steps[i], strlen(steps[i]), next);
        memcpy(ret_key, next, sizeof next);
        ron_wipe(next, sizeof next);
    }
    return good;
}

static bool signature(const struct ron_s3_signing *s, const char *scope, const char *canonical,
                      size_t canonical_len, char ret_hex[RON_S3_HASH_SIZE])
{
    char text[sizeof algorithm + RON_S3_DATE_SIZE + SCOPE_MAX + RON_S3_HASH_SIZE + 4];
    uint8_t key[SHA256_DIGEST_LENGTH];
    uint8_t code[SHA256_DIGEST_LENGTH];
    char hash[RON_S3_HASH_SIZE];
    bool good = ron_s3_payload_hash(canonical, canonical_len, hash) && derive(s, key);
    int len =
        snprintf(text, sizeof text, "%s\n%s\n%s\n%s", algorithm, s->date, scope, good ? hash : "");

    good = good && mac(key, sizeof key, text, (size_t)len, code);
    ron_wipe(key, sizeof key);
    if (good) {
        ron_hex(code, sizeof code, ret_hex);
    }
    return good;
}

enum ron_rc ron_s3_sign(const struct ron_s3_signing *s, struct ron_buf *out, struct ron_err *err)
{
    char hex[RON_S3_HASH_SIZE];
    char scope[SCOPE_MAX];
    struct ron_buf canonical;
    enum ron_rc rc;
    int len;

    RON_TRY(check(s, err));
    len =
        snprintf(scope, sizeof scope, "%.*s/%s/s3/aws4_request", (int)DAY_LEN, s->date, s->region);
    if (len <= 0 || (size_t)len >= sizeof scope) {
        return ron_err_set(err, RON_INVALID, "s3: the name of the region is too long");
    }
    ron_buf_init(&canonical, CANONICAL_MAX);
    put_canonical(s, &canonical);
    rc = ron_buf_error(&canonical);
    if (rc == RON_OK && !signature(s, scope, (const char *)ron_buf_data(&canonical),
                                   ron_buf_len(&canonical), hex)) {
        rc = RON_NOMEM;
    }
    ron_buf_done(&canonical);
    if (rc == RON_OK) {
        (void)ron_buf_append_fmt(out, "%s Credential=%s/%s,SignedHeaders=", algorithm,
                                 s->access_key, scope);
        put_names(s, out);
        (void)ron_buf_append_fmt(out, ",Signature=%s", hex);
        rc = ron_buf_error(out);
    }
    return rc == RON_OK ? RON_OK : ron_err_set(err, rc, "s3: no room to sign a request");
}
