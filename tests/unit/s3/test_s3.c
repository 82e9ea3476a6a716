/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: each operation does what it says against a bucket that keeps to the rules, and ends in its
 * own error, within its time, against one that does not. Method: a bucket on raw sockets in this
 * process. */
#include "base/rand_priv.h"
#include "s3/s3_priv.h"
#include "unit/s3/fixture.h"

struct s3x {
    struct fx *fx;
    struct pail *pail;
    struct ron_s3 *s3;
    struct ron_err err;
    enum ron_s3_outcome last;
};

static void on_ended(void *arg, enum ron_s3_outcome outcome)
{
    ((struct s3x *)arg)->last = outcome;
}

static struct s3x *s3x_open(void)
{
    struct s3x *x = calloc(1, sizeof *x);
    struct ron_secret secret = {0};
    char url[64];

    assert_non_null(x);
    x->fx = fx_open(1);
    x->pail = pail_open();
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/", x->pail->port);
    assert_int_equal(ron_secret_set(&secret, "secret", 6), RON_OK);
    assert_int_equal(ron_s3_new(&(struct ron_s3_opts){.env = &x->fx->env,
                                                      .registry = x->fx->reg,
                                                      .endpoint = url,
                                                      .bucket = "bucket",
                                                      .region = "r",
                                                      .prefix = "pre/",
                                                      .access_key = "key",
                                                      .secret = &secret,
                                                      .allow_http = true,
                                                      .timeout_ms = 2000,
                                                      .part_bytes = RON_S3_PART_MIN,
                                                      .ended = on_ended,
                                                      .ended_arg = x},
                                &x->s3, &x->err),
                     RON_OK);
    ron_secret_done(&secret);
    assert_int_equal(ron_s3_attach(x->s3, x->fx->sup, &x->err), RON_OK);
    fx_start(x->fx);
    return x;
}

static void s3x_close(struct s3x *x)
{
    assert_int_equal(fx_stop(x->fx), RON_EXIT_DRAINED);
    fx_end(x->fx);
    ron_s3_free(x->s3);
    pail_close(x->pail);
    fx_done(x->fx);
    free(x);
}

#define NEVER ron_deadline_never()

static void test_s3__put_get_head_delete__as_they_say(void **state)
{
    struct s3x *x = s3x_open();
    struct ron_s3_got got;
    uint64_t size = 0;

    (void)state;
    assert_int_equal(ron_s3_put(x->s3, "a/b", "hello", 5, RON_S3_IF_ABSENT, NEVER, &x->err),
                     RON_OK);
    assert_true(pail_has(x->pail, "a/b", "hello", 5));
    assert_non_null(strstr(x->pail->last, "PUT /bucket/pre/a/b HTTP/1.1\r\n"));
    assert_non_null(strstr(x->pail->last, "SignedHeaders=host;if-none-match;"
                                          "x-amz-content-sha256;x-amz-date,"));
    assert_null(strstr(x->pail->last, "secret"));
    assert_int_equal(ron_s3_put(x->s3, "a/b", "other", 5, RON_S3_IF_ABSENT, NEVER, &x->err),
                     RON_EXISTS);
    assert_true(pail_has(x->pail, "a/b", "hello", 5)); /* B3 */
    assert_int_equal(ron_s3_put(x->s3, "a/b", "other", 5, 0, NEVER, &x->err), RON_OK);
    assert_int_equal(ron_s3_get(x->s3, "a/b", 0, 100, NULL, NEVER, &got, &x->err), RON_OK);
    assert_true(ron_str_is(got.bytes, "other"));
    assert_int_equal(got.total, 5);
    assert_string_equal(got.etag, "\"e5\"");
    ron_s3_got_done(&got);
    assert_int_equal(ron_s3_get(x->s3, "a/b", 1, 3, NULL, NEVER, &got, &x->err), RON_OK);
    assert_true(ron_str_is(got.bytes, "the"));
    ron_s3_got_done(&got);
    assert_int_equal(ron_s3_get(x->s3, "a/b", 5, 3, NULL, NEVER, &got, &x->err), RON_OK);
    assert_int_equal(got.bytes.len, 0);
    ron_s3_got_done(&got);
    assert_int_equal(ron_s3_head(x->s3, "a/b", NEVER, &size, &x->err), RON_OK);
    assert_int_equal(size, 5);
    assert_int_equal(ron_s3_head(x->s3, "none", NEVER, &size, &x->err), RON_NOTFOUND);
    assert_int_equal(ron_s3_get(x->s3, "none", 0, 1, NULL, NEVER, &got, &x->err), RON_NOTFOUND);
    assert_string_equal(x->err.msg, "s3 get: absent (status 404 NoSuchKey)");
    assert_int_equal(ron_s3_delete(x->s3, "a/b", NEVER, &x->err), RON_OK);
    assert_int_equal(ron_s3_delete(x->s3, "a/b", NEVER, &x->err), RON_OK);
    assert_int_equal(ron_s3_head(x->s3, "a/b", NEVER, &size, &x->err), RON_NOTFOUND);
    s3x_close(x);
}

/* ---- objects of any size --------------------------------------------------------------------- */

struct source {
    const uint8_t *bytes;
    enum ron_rc rc;
    uint64_t fail_at;
};

static enum ron_rc read_source(void *arg, uint64_t off, void *buf, size_t len, struct ron_err *err)
{
    struct source *s = arg;

    if (s->rc != RON_OK && off >= s->fail_at) {
        return ron_err_set(err, s->rc, "the source fails");
    }
    memcpy(buf, s->bytes + off, len);
    return RON_OK;
}

static uint8_t *some_bytes(size_t len)
{
    uint8_t *bytes = malloc(len);
    struct ron_rand rand = support_rand();

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)ron_rand_u64(&rand);
    }
    return bytes;
}

static void test_s3__objects_of_any_size__arrive_whole(void **state)
{
    static const size_t sizes[] = {0, 1, RON_S3_PART_MIN, RON_S3_PART_MIN + 1,
                                   2 * RON_S3_PART_MIN + 7};
    struct s3x *x = s3x_open();
    uint8_t *bytes = some_bytes(sizes[4]);

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(sizes); i++) {
        struct source source = {.bytes = bytes};
        char key[16];

        (void)snprintf(key, sizeof key, "size-%zu", i);
        assert_int_equal(ron_s3_put_object(x->s3, key, sizes[i], read_source, &source,
                                           RON_S3_IF_ABSENT, NEVER, &x->err),
                         RON_OK);
        assert_true(pail_has(x->pail, key, bytes, sizes[i]));
        assert_int_equal(ron_s3_put_object(x->s3, key, sizes[i], read_source, &source,
                                           RON_S3_IF_ABSENT, NEVER, &x->err),
                         RON_EXISTS);
    }
    assert_int_equal(x->pail->aborts, 0);
    assert_int_equal(ron_s3_put_object(x->s3, "far too large",
                                       (uint64_t)RON_S3_PART_MAX * RON_S3_PARTS_MAX + 1,
                                       read_source, NULL, 0, NEVER, &x->err),
                     RON_LIMIT);
    free(bytes);
    s3x_close(x);
}

static bool fail_parts(struct pail *p, int fd, const char *head)
{
    (void)p;
    if (strstr(head, "partNumber=2") == NULL) {
        return false;
    }
    pail_say(fd, 500, "Connection: close\r\n", "<Error><Code>InternalError</Code></Error>");
    return true;
}

static bool part_without_tag(struct pail *p, int fd, const char *head)
{
    (void)p;
    if (strstr(head, "partNumber=1") == NULL) {
        return false;
    }
    pail_say(fd, 200, "ETag: \"<x>\"\r\nConnection: close\r\n", "");
    return true;
}

static bool create_without_id(struct pail *p, int fd, const char *head)
{
    (void)p;
    if (strstr(head, "uploads=") == NULL) {
        return false;
    }
    pail_say(fd, 200, "Connection: close\r\n", "<R><UploadId></UploadId></R>");
    return true;
}

static bool complete_with_error(struct pail *p, int fd, const char *head)
{
    (void)p;
    if (strncmp(head, "POST", 4) != 0 || strstr(head, "uploadId") == NULL) {
        return false;
    }
    pail_say(fd, 200, "Connection: close\r\n", "<Error><Code>InternalError</Code></Error>");
    return true;
}

static void test_s3__multipart_that_fails__is_aborted(void **state)
{
    static const struct {
        pail_fault *fault;
        enum ron_rc rc;
        bool aborted;
    } rows[] = {{fail_parts, RON_IO, true},
                {part_without_tag, RON_CORRUPT, true},
                {create_without_id, RON_CORRUPT, false},
                {complete_with_error, RON_CORRUPT, true}};
    size_t len = RON_S3_PART_MIN + 100;
    uint8_t *bytes = some_bytes(len);

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct s3x *x = s3x_open();
        struct source source = {.bytes = bytes};

        pail_misbehave(x->pail, rows[i].fault, 100);
        assert_int_equal(
            ron_s3_put_object(x->s3, "k", len, read_source, &source, 0, NEVER, &x->err),
            rows[i].rc);
        assert_int_equal(x->pail->aborts, rows[i].aborted);
        assert_null(pail_find(x->pail, "/bucket/pre/k", 0));
        assert_null(pail_find(x->pail, "/bucket/pre/k", 1));
        pail_misbehave(x->pail, NULL, 0);
        source = (struct source){.bytes = bytes, .rc = RON_IO, .fail_at = RON_S3_PART_MIN};
        assert_int_equal(
            ron_s3_put_object(x->s3, "k", len, read_source, &source, 0, NEVER, &x->err), RON_IO);
        assert_int_equal(x->pail->aborts, (uint64_t)rows[i].aborted + 1);
        s3x_close(x);
    }
    free(bytes);
}

/* ---- answers that are wrong ------------------------------------------------------------------ */

static char wrong_head[512];
static char wrong_body[64];

static bool say_wrong(struct pail *p, int fd, const char *head)
{
    (void)p;
    (void)head;
    pail_send(fd, wrong_head, wrong_body, strlen(wrong_body));
    return true;
}

static void test_s3__wrong_answers__each_ends_as_what_it_is(void **state)
{
    static const struct {
        const char *head;
        const char *body;
        enum ron_s3_outcome outcome;
    } rows[] = {
        {"HTTP/1.1 206 X\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 5\r\n\r\n", "abc",
         RON_S3_IS_UNREACHABLE},
        {"HTTP/1.1 206 X\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 3\r\n\r\n", "abc",
         RON_S3_IS_MALFORMED},
        {"HTTP/1.1 206 X\r\nContent-Range: bytes 1-5/6\r\nContent-Length: 5\r\n\r\n", "abcde",
         RON_S3_IS_MALFORMED},
        {"HTTP/1.1 206 X\r\nContent-Range: bytes 0-4\r\nContent-Length: 5\r\n\r\n", "abcde",
         RON_S3_IS_MALFORMED},
        {"HTTP/1.1 206 X\r\nContent-Range: bytes 0-4/0\r\nContent-Length: 5\r\n\r\n", "abcde",
         RON_S3_IS_MALFORMED},
        {"HTTP/1.1 206 X\r\nContent-Range: bytes -/-\r\nContent-Length: 5\r\n\r\n", "abcde",
         RON_S3_IS_MALFORMED},
        {"HTTP/1.1 206 X\r\nContent-Length: 5\r\n\r\n", "abcde", RON_S3_IS_MALFORMED},
        {"HTTP/1.1 204 X\r\n\r\n", "", RON_S3_IS_MALFORMED},
        {"HTTP/1.1 307 X\r\nLocation: /bucket/pre/k\r\nContent-Length: 0\r\n\r\n", "",
         RON_S3_IS_REDIRECT},
        {"HTTP/1.1 403 X\r\nContent-Length: 26\r\n\r\n", "<Code>AccessDenied</Code>\n",
         RON_S3_IS_DENIED},
        {"HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n", "", RON_S3_IS_REFUSED},
        {"HTTP/1.1 409 X\r\nContent-Length: 0\r\n\r\n", "", RON_S3_IS_THROTTLED},
        {"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", "", RON_S3_IS_THROTTLED},
        {"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n", "", RON_S3_IS_FAILED},
        {"HTTP/1.1 200 X\r\nContent-Length: 99999999\r\n\r\n", "abc", RON_S3_IS_TOO_LARGE},
        {"220 mail.example ESMTP\r\n", "", RON_S3_IS_MALFORMED},
        {"", "", RON_S3_IS_UNREACHABLE},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct s3x *x = s3x_open();
        struct ron_s3_got got;

        (void)snprintf(wrong_head, sizeof wrong_head, "%s", rows[i].head);
        (void)snprintf(wrong_body, sizeof wrong_body, "%s", rows[i].body);
        pail_misbehave(x->pail, say_wrong, 100);
        assert_int_not_equal(ron_s3_get(x->s3, "k", 0, 5, NULL, NEVER, &got, &x->err), RON_OK);
        if (x->last != rows[i].outcome) {
            fail_msg("%s: %s: %s", rows[i].head, ron_s3_outcome_label(x->last), x->err.msg);
        }
        assert_null(got._fetch);
        assert_int_equal(got.bytes.len, 0);
        assert_true(x->err.msg[0] != '\0');
        s3x_close(x);
    }
}

static bool say_503(struct pail *p, int fd, const char *head)
{
    (void)p;
    (void)head;
    pail_say(fd, 503, "Connection: close\r\n", "<Error><Code>SlowDown</Code></Error>");
    return true;
}

static bool say_nothing(struct pail *p, int fd, const char *head)
{
    (void)p;
    (void)fd;
    return strstr(head, "GET") != NULL; /* and the connection ends */
}

static void test_s3__failures_that_pass__are_tried_again(void **state)
{
    struct s3x *x = s3x_open();
    uint64_t before;

    (void)state;
    pail_misbehave(x->pail, say_503, 2);
    assert_int_equal(ron_s3_put(x->s3, "k", "v", 1, 0, NEVER, &x->err), RON_OK);
    assert_true(pail_has(x->pail, "k", "v", 1));
    pail_misbehave(x->pail, say_503, 1000);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ron_s3_put(x->s3, "k", "v", 1, 0, NEVER, &x->err), RON_AGAIN);
    }
    assert_int_equal(x->last, RON_S3_IS_BREAKER);
    before = pail_requests(x->pail);
    assert_int_equal(ron_s3_put(x->s3, "k", "v", 1, 0, NEVER, &x->err), RON_AGAIN);
    assert_int_equal(pail_requests(x->pail),
                     before); /* nobody is asked while the breaker is open */
    s3x_close(x);
}

static void test_s3__past_deadline__ends_at_once(void **state)
{
    struct s3x *x = s3x_open();
    struct ron_deadline past = {1};
    struct ron_s3_got got;

    (void)state;
    pail_misbehave(x->pail, say_nothing, 1000);
    assert_int_not_equal(ron_s3_get(x->s3, "k", 0, 5, NULL, past, &got, &x->err), RON_OK);
    assert_int_equal(x->last, RON_S3_IS_TIMEOUT);
    s3x_close(x);
}

static void test_s3__settings__that_cannot_be_meant_are_refused(void **state)
{
    const struct ron_s3_opts good = {.endpoint = "https://s3.example.org",
                                     .bucket = "bucket",
                                     .region = "us-east-1",
                                     .prefix = "a/b_",
                                     .access_key = "KEY"};
    struct ron_s3_opts o = good;
    struct ron_err err = {0};

    (void)state;
    assert_int_equal(ron_s3_check(&o, &err), RON_OK);
#define BAD(field, value, text)                                                                    \
    o = good;                                                                                      \
    o.field = (value);                                                                             \
    assert_int_equal(ron_s3_check(&o, &err), RON_INVALID);                                         \
    assert_non_null(strstr(err.msg, (text)))
    BAD(endpoint, "http://s3.example.org", "s3.allow_http");
    BAD(endpoint, "ftp://s3.example.org", "s3.endpoint");
    BAD(endpoint, "https://s3.example.org/path", "s3.endpoint");
    BAD(endpoint, "https://S3.example.org", "small letters");
    BAD(endpoint, "https://user@s3.example.org", "s3.endpoint");
    BAD(bucket, "ab", "s3.bucket");
    BAD(bucket, "with/slash", "s3.bucket");
    BAD(region, "", "s3.region");
    BAD(prefix, "/x", "s3.prefix");
    BAD(prefix, "a//b", "s3.prefix");
    BAD(prefix, "a/../b", "s3.prefix");
    BAD(access_key, "", "s3.access_key");
    BAD(access_key, "a\nb", "s3.access_key");
    BAD(part_bytes, 1, "s3.part_bytes");
#undef BAD
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s3__put_get_head_delete__as_they_say),
        cmocka_unit_test(test_s3__objects_of_any_size__arrive_whole),
        cmocka_unit_test(test_s3__multipart_that_fails__is_aborted),
        cmocka_unit_test(test_s3__wrong_answers__each_ends_as_what_it_is),
        cmocka_unit_test(test_s3__failures_that_pass__are_tried_again),
        cmocka_unit_test(test_s3__past_deadline__ends_at_once),
        cmocka_unit_test(test_s3__settings__that_cannot_be_meant_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
