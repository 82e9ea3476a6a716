/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: signatures are those of AWS. Method: the examples that AWS publishes for S3 ("Signature
 * Calculations for the Authorization Header"), their inputs and results copied from there. */
#include "support/support.h"

#include "s3/s3_priv.h"
#include "s3/sign.h"

static const char access_key[] = "AKIAIOSFODNN7EXAMPLE";
static const char secret_key[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
static const char empty_hash[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char date[] = "20130524T000000Z";
static const char host[] = "examplebucket.s3.amazonaws.com";

#define V(text)                                                                                    \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

static void expect(const char *method, const char *path, const char *query,
                   const struct ron_s3_signed *headers, size_t count, const char *hash,
                   const char *names, const char *signature)
{
    struct ron_secret secret = {0};
    struct ron_err err = {0};
    struct ron_buf out;
    char wanted[512];

    ron_buf_init(&out, 1024);
    assert_int_equal(ron_secret_set(&secret, secret_key, strlen(secret_key)), RON_OK);
    assert_int_equal(ron_s3_sign(&(struct ron_s3_signing){.method = method,
                                                          .path = path,
                                                          .query = query,
                                                          .headers = headers,
                                                          .header_count = count,
                                                          .payload_hash = hash,
                                                          .date = date,
                                                          .region = "us-east-1",
                                                          .access_key = access_key,
                                                          .secret = &secret},
                                 &out, &err),
                     RON_OK);
    (void)snprintf(wanted, sizeof wanted,
                   "AWS4-HMAC-SHA256 Credential=%s/20130524/us-east-1/s3/aws4_request,"
                   "SignedHeaders=%s,Signature=%s",
                   access_key, names, signature);
    assert_string_equal(ron_buf_text(&out), wanted);
    assert_null(strstr(ron_buf_text(&out), secret_key));
    ron_buf_done(&out);
    ron_secret_done(&secret);
}

static void test_sign__get_object__as_published(void **state)
{
    const struct ron_s3_signed headers[] = {{"host", V(host)},
                                            {"range", V("bytes=0-9")},
                                            {"x-amz-content-sha256", V(empty_hash)},
                                            {"x-amz-date", V(date)}};

    (void)state;
    expect("GET", "/test.txt", "", headers, 4, empty_hash,
           "host;range;x-amz-content-sha256;x-amz-date",
           "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void test_sign__put_object__as_published(void **state)
{
    char hash[RON_S3_HASH_SIZE];
    struct ron_buf path;

    (void)state;
    assert_true(ron_s3_payload_hash("Welcome to Amazon S3.", 21, hash));
    assert_string_equal(hash, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
    ron_buf_init(&path, 64);
    assert_int_equal(ron_s3_encode(&path, "/test$file.text", 15, true), RON_OK);

    const struct ron_s3_signed headers[] = {{"date", V("Fri, 24 May 2013 00:00:00 GMT")},
                                            {"host", V(host)},
                                            {"x-amz-content-sha256", {hash, RON_S3_HASH_HEX}},
                                            {"x-amz-date", V(date)},
                                            {"x-amz-storage-class", V("REDUCED_REDUNDANCY")}};

    expect("PUT", ron_buf_text(&path), "", headers, 5, hash,
           "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
           "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
    ron_buf_done(&path);
}

static void test_sign__queries__as_published(void **state)
{
    const struct ron_s3_signed headers[] = {
        {"host", V(host)}, {"x-amz-content-sha256", V(empty_hash)}, {"x-amz-date", V(date)}};
    static const char names[] = "host;x-amz-content-sha256;x-amz-date";

    (void)state;
    expect("GET", "/", "lifecycle=", headers, 3, empty_hash, names,
           "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    expect("GET", "/", "max-keys=2&prefix=J", headers, 3, empty_hash, names,
           "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void test_sign__what_cannot_be_signed__is_refused(void **state)
{
    const struct ron_s3_signed unsorted[] = {{"x-amz-date", V(date)}, {"host", V(host)}};
    const struct ron_s3_signed twice[] = {{"host", V(host)}, {"host", V(host)}};
    const struct ron_s3_signed good[] = {{"host", V(host)}};
    struct ron_secret secret = {0};
    struct ron_secret none = {0};
    struct ron_secret large = {0};
    char text[300];
    struct ron_s3_signing s = {.method = "GET",
                               .path = "/",
                               .query = "",
                               .headers = good,
                               .header_count = 1,
                               .payload_hash = empty_hash,
                               .date = date,
                               .region = "r",
                               .access_key = "a",
                               .secret = &secret};
    struct ron_s3_signing bad;
    struct ron_buf out;
    char tiny[8];

    (void)state;
    memset(text, 'x', sizeof text);
    assert_int_equal(ron_secret_set(&secret, "k", 1), RON_OK);
    assert_int_equal(ron_secret_set(&large, text, sizeof text), RON_OK);
    ron_buf_init(&out, 1024);
    assert_int_equal(ron_s3_sign(&s, &out, NULL), RON_OK);
    bad = s;
    bad.headers = unsorted;
    bad.header_count = 2;
    assert_int_equal(ron_s3_sign(&bad, &out, NULL), RON_INVALID);
    bad.headers = twice;
    assert_int_equal(ron_s3_sign(&bad, &out, NULL), RON_INVALID);
    bad.header_count = RON_S3_SIGNED_MAX + 1;
    assert_int_equal(ron_s3_sign(&bad, &out, NULL), RON_INVALID);
    bad = s;
    bad.path = "x";
    assert_int_equal(ron_s3_sign(&bad, &out, NULL), RON_INVALID);
    bad = s;
    bad.date = "20130524";
    assert_int_equal(ron_s3_sign(&bad, &out, NULL), RON_INVALID);
    bad = s;
    bad.secret = &none;
    assert_int_equal(ron_s3_sign(&bad, &out, NULL), RON_INVALID);
    bad.secret = &large;
    assert_int_equal(ron_s3_sign(&bad, &out, NULL), RON_INVALID);
    bad = s;
    text[sizeof text - 1] = '\0';
    bad.region = text;
    assert_int_equal(ron_s3_sign(&bad, &out, NULL), RON_INVALID);
    ron_buf_done(&out);
    ron_buf_init_over(&out, tiny, sizeof tiny);
    assert_int_equal(ron_s3_sign(&s, &out, NULL), RON_LIMIT);
    ron_secret_done(&secret);
    ron_secret_done(&large);
}

static void test_sign__dates_and_encoding(void **state)
{
    static const struct {
        const char *text;
        bool path;
        const char *wanted;
    } rows[] = {{"aZ09-_.~", false, "aZ09-_.~"},
                {"a/b c+d", true, "a/b%20c%2Bd"},
                {"a/b", false, "a%2Fb"},
                {"\xc3\xa9=&?%", false, "%C3%A9%3D%26%3F%25"},
                {"", true, ""}};
    char text[RON_S3_DATE_SIZE];

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        struct ron_buf out;

        ron_buf_init(&out, 64);
        assert_int_equal(ron_s3_encode(&out, rows[i].text, strlen(rows[i].text), rows[i].path),
                         RON_OK);
        assert_string_equal(ron_buf_text(&out), rows[i].wanted);
        ron_buf_done(&out);
    }
    ron_s3_date(UINT64_C(1369353600000), text);
    assert_string_equal(text, date);
    ron_s3_date(UINT64_C(1709210096999), text); /* a leap day */
    assert_string_equal(text, "20240229T123456Z");
    ron_s3_date(0, text);
    assert_string_equal(text, "19700101T000000Z");
    ron_s3_date(UINT64_MAX, text);
    assert_int_equal(strlen(text), RON_S3_DATE_SIZE - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sign__get_object__as_published),
        cmocka_unit_test(test_sign__put_object__as_published),
        cmocka_unit_test(test_sign__queries__as_published),
        cmocka_unit_test(test_sign__what_cannot_be_signed__is_refused),
        cmocka_unit_test(test_sign__dates_and_encoding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
