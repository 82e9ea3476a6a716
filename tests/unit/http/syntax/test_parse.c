/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the parser accepts what the grammar allows and refuses every known smuggling shape with its
 * own reason, however the bytes arrive.
 * Method: the fuzz corpora are the table: a file `accept.NAME` must be accepted, `more.NAME` is a
 * beginning, and `refuse.REASON.NAME` must be refused for that reason; each is given whole, byte by
 * byte, and in random pieces. Then values of single fields. */
#include "support/support.h"

#include <dirent.h>

#include "http/syntax/syntax.h"
#include "ron/http/parse.h"

static const struct ron_http_limits limits = {
    .uri_max = 4096, .head_max = 16384, .headers_max = 100};

enum { FILE_MAX = 40000, CHUNK_BODY_MAX = 0x10000 };

static struct ron_http_parser parser;

/* `pieces`: 0 whole, 1 byte by byte, else at random. */
static enum ron_http_step feed(const char *buf, size_t len, int pieces, struct ron_rand *rand)
{
    enum ron_http_step step = RON_HTTP_MORE;
    size_t n = 0;

    ron_http_parser_init(&parser, &limits);
    while (n < len && step == RON_HTTP_MORE) {
        size_t add = pieces == 0 ? len : pieces == 1 ? 1 : ron_rand_range(rand, 1, 40);
        n = n + add < len ? n + add : len;
        step = ron_http_parse(&parser, buf, n);
    }
    return step;
}

static enum ron_http_step feed_chunked(const char *in, size_t len, int pieces,
                                       struct ron_rand *rand, enum ron_http_reason *ret_reason)
{
    struct ron_http_chunked d;
    enum ron_http_step step = RON_HTTP_MORE;
    size_t at = 0;

    ron_http_chunked_init(&d, CHUNK_BODY_MAX);
    while (at < len && step == RON_HTTP_MORE) {
        size_t n = pieces == 0 ? len - at : pieces == 1 ? 1 : ron_rand_range(rand, 1, 9);
        size_t used = 0;
        size_t from = 0;
        size_t data = 0;

        n = n < len - at ? n : len - at;
        step = ron_http_chunked_feed(&d, in + at, n, &used, &from, &data);
        at += used;
    }
    *ret_reason = d.reason;
    return step;
}

static void judge(const char *name, enum ron_http_step step, enum ron_http_reason reason)
{
    char label[64] = "";
    const char *dot = strchr(name, '.');

    assert_non_null(dot);
    if (strncmp(name, "accept.", 7) == 0) {
        if (step != RON_HTTP_DONE) {
            fail_msg("%s: step %d, reason %s", name, (int)step, ron_http_reason_label(reason));
        }
        return;
    }
    if (strncmp(name, "more.", 5) == 0) {
        assert_int_equal(step, RON_HTTP_MORE);
        return;
    }
    (void)snprintf(label, sizeof label, "%.*s", (int)strcspn(dot + 1, "."), dot + 1);
    if (step != RON_HTTP_REFUSED || strcmp(ron_http_reason_label(reason), label) != 0) {
        fail_msg("%s: step %d, reason %s", name, (int)step, ron_http_reason_label(reason));
    }
}

/* Calls `each` for every file of a corpus; returns how many there were. */
static size_t walk_corpus(const char *corpus,
                          void (*each)(const char *name, const char *bytes, size_t len))
{
    static char bytes[FILE_MAX];
    const char *root = getenv("RON_SOURCE_DIR");
    char path[512];
    struct dirent *entry;
    size_t count = 0;
    DIR *dir;

    if (root == NULL) {
        print_message("RON_SOURCE_DIR is not set\n");
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", root, corpus);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        FILE *f;
        size_t len;

        if (strncmp(entry->d_name, "accept.", 7) != 0 && strncmp(entry->d_name, "more.", 5) != 0 &&
            strncmp(entry->d_name, "refuse.", 7) != 0) {
            continue; /* found by the fuzzer: replayed by its target */
        }
        (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s/%s", root, corpus,
                       entry->d_name);
        f = fopen(path, "rb");
        assert_non_null(f);
        len = fread(bytes, 1, sizeof bytes, f);
        (void)fclose(f);
        each(entry->d_name, bytes, len);
        count++;
    }
    (void)closedir(dir);
    return count;
}

static void each_request(const char *name, const char *bytes, size_t len)
{
    struct ron_rand rand = support_rand();

    for (int pieces = 0; pieces < 8; pieces++) {
        /* A copy of the exact size, so that a sanitizer sees a byte too far. */
        char *copy = malloc(len);
        enum ron_http_step step;

        assert_non_null(copy);
        memcpy(copy, bytes, len);
        step = feed(copy, len, pieces, &rand);
        judge(name, step, parser.reason);
        free(copy);
    }
}

static void each_chunked(const char *name, const char *bytes, size_t len)
{
    struct ron_rand rand = support_rand();

    for (int pieces = 0; pieces < 8; pieces++) {
        enum ron_http_reason reason;
        enum ron_http_step step = feed_chunked(bytes + 1, len - 1, pieces, &rand, &reason);

        judge(name, step, reason);
    }
}

static void test_parse__request_corpus__verdict_by_name(void **state)
{
    (void)state;
    assert_true(walk_corpus("http_request", each_request) > 100);
}

static void test_parse__chunked_corpus__verdict_by_name(void **state)
{
    (void)state;
    assert_true(walk_corpus("http_chunked", each_chunked) > 40);
}

static enum ron_http_step parse_text(const char *text)
{
    return feed(text, strlen(text), 0, NULL);
}

#define assert_str(slice, text)                                                                    \
    do {                                                                                           \
        struct ron_str s_ = (slice);                                                               \
        assert_int_equal(s_.len, strlen(text));                                                    \
        assert_memory_equal(s_.ptr, text, s_.len);                                                 \
    } while (0)

static void test_parse__good_head__parts(void **state)
{
    static const char text[] =
        "POST /a/b%20c?x=1&y HTTP/1.1\r\nhOST: example.org:80\r\n"
        "Content-Length:  12\t\r\nX-Corr-ID: q.1-A_\r\nRequest-Timeout: 2.5\r\n"
        "Deadline: 99\r\nConnection: Keep-Alive\r\n\r\nbody";
    const struct ron_http_head *h = &parser.head;
    struct ron_str value;

    (void)state;
    assert_int_equal(parse_text(text), RON_HTTP_DONE);
    assert_int_equal(h->method, RON_HTTP_POST);
    assert_int_equal(h->minor, 1);
    assert_str(h->target, "/a/b%20c?x=1&y");
    assert_str(h->path, "/a/b%20c");
    assert_str(h->query, "x=1&y");
    assert_str(h->host, "example.org:80");
    assert_str(h->corr_id, "q.1-A_");
    assert_true(h->has_length);
    assert_int_equal(h->content_length, 12);
    assert_int_equal(h->timeout_ms, 2500);
    assert_int_equal(h->deadline_unix_ms, 99);
    assert_true(h->keep_alive);
    assert_int_equal(h->bytes, sizeof text - 1 - 4);
    assert_int_equal(h->field_count, 6);
    assert_int_equal(ron_http_field_get(h, "CONTENT-length", &value), RON_OK);
    assert_str(value, "12");
    assert_int_equal(ron_http_field_get(h, "Accept", &value), RON_NOTFOUND);
}

static void test_parse__repeated_field__conflict(void **state)
{
    struct ron_str value;

    (void)state;
    assert_int_equal(parse_text("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\n\r\n"),
                     RON_HTTP_DONE);
    assert_int_equal(ron_http_field_get(&parser.head, "X", &value), RON_CONFLICT);
}

static void test_parse__content_type__json_or_not(void **state)
{
    static const struct {
        const char *line;
        bool json;
    } cases[] = {
        {"Content-Type: application/json\r\n", true},
        {"Content-Type: Application/JSON; charset=utf-8\r\n", true},
        {"Content-Type: application/json ;x=1\r\n", true},
        {"Content-Type: application/jsonl\r\n", false},
        {"Content-Type: application/jso\r\n", false},
        {"Content-Type: text/plain\r\n", false},
        {"Content-Type: application/json\r\nContent-Type: application/json\r\n", false},
        {"", false},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(cases); i++) {
        char text[160];

        (void)snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n", cases[i].line);
        assert_int_equal(parse_text(text), RON_HTTP_DONE);
        assert_int_equal(ron_http_is_json(&parser.head), cases[i].json);
    }
}

static void test_parse__versions_and_connection__keep_alive(void **state)
{
    (void)state;
    assert_int_equal(parse_text("GET / HTTP/1.0\r\n\r\n"), RON_HTTP_DONE);
    assert_false(parser.head.keep_alive);
    assert_int_equal(parse_text("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), RON_HTTP_DONE);
    assert_true(parser.head.keep_alive);
    assert_int_equal(parse_text("GET / HTTP/1.1\r\nHost: a\r\nConnection: x , CLOSE\r\n\r\n"),
                     RON_HTTP_DONE);
    assert_false(parser.head.keep_alive);
}

static void test_parse__bad_corr_id__ignored(void **state)
{
    (void)state;
    assert_int_equal(parse_text("GET / HTTP/1.1\r\nHost: a\r\nX-Corr-ID: a b\r\n\r\n"),
                     RON_HTTP_DONE);
    assert_int_equal(parser.head.corr_id.len, 0);
    assert_int_equal(parse_text("GET / HTTP/1.1\r\nHost: a\r\nX-Corr-ID: "
                                "1234567890123456789012345678901234567890123456789012345678901234"
                                "5\r\n\r\n"),
                     RON_HTTP_DONE);
    assert_int_equal(parser.head.corr_id.len, 0);
}

static void test_parse__value_bytes__eight_at_a_time_agree_with_one(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        bool good = (c >= 0x20 && c != 0x7f) || c == '\t';

        for (size_t at = 0; at < 17; at++) {
            char text[17];
            memset(text, 'a', sizeof text);
            text[at] = (char)c;
            assert_int_equal(ron_http_is_value((struct ron_str){text, sizeof text}), good);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse__request_corpus__verdict_by_name),
        cmocka_unit_test(test_parse__chunked_corpus__verdict_by_name),
        cmocka_unit_test(test_parse__good_head__parts),
        cmocka_unit_test(test_parse__content_type__json_or_not),
        cmocka_unit_test(test_parse__repeated_field__conflict),
        cmocka_unit_test(test_parse__versions_and_connection__keep_alive),
        cmocka_unit_test(test_parse__bad_corr_id__ignored),
        cmocka_unit_test(test_parse__value_bytes__eight_at_a_time_agree_with_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
