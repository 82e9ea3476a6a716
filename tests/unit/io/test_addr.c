/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: addresses are read strictly and written so that they read back as the same value.
 * Method: tables of good and bad texts, random bytes, random values through format and parse. */
#include "support/support.h"

#include "io/io_priv.h"
#include "ron/io/addr.h"

static void test_addr__good_text__is_parsed_and_formatted(void **state)
{
    static const struct {
        const char *text;
        enum ron_addr_kind kind;
        uint16_t port;
        const char *canonical;
        bool loopback;
    } good[] = {
        {"127.0.0.1:7200", RON_ADDR_IPV4, 7200, "127.0.0.1:7200", true},
        {"0.0.0.0:0", RON_ADDR_IPV4, 0, "0.0.0.0:0", false},
        {"255.255.255.255:65535", RON_ADDR_IPV4, 65535, "255.255.255.255:65535", false},
        {"[::1]:80", RON_ADDR_IPV6, 80, "[::1]:80", true},
        {"[::]:0", RON_ADDR_IPV6, 0, "[::]:0", false},
        {"[2001:DB8:0:0:0:0:0:1]:443", RON_ADDR_IPV6, 443, "[2001:db8::1]:443", false},
        {"localhost:1", RON_ADDR_NAME, 1, "localhost:1", true},
        {"node-1.example.org:7100", RON_ADDR_NAME, 7100, "node-1.example.org:7100", false},
        {"1and1.com:5", RON_ADDR_NAME, 5, "1and1.com:5", false},
        {"unix:/run/ron/x.sock", RON_ADDR_UNIX, 0, "unix:/run/ron/x.sock", true},
        {"unix:/a", RON_ADDR_UNIX, 0, "unix:/a", true},
        {"unix:/with:colon/...", RON_ADDR_UNIX, 0, "unix:/with:colon/...", true},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        struct ron_addr addr;
        struct ron_err err = {0};
        char text[RON_ADDR_MAX];

        if (ron_addr_parse(good[i].text, &addr, &err) != RON_OK) {
            fail_msg("%s: %s", good[i].text, err.msg);
        }
        assert_int_equal(addr.kind, good[i].kind);
        assert_int_equal(addr.port, good[i].port);
        assert_int_equal(ron_addr_is_loopback(&addr), good[i].loopback);
        assert_int_equal(ron_addr_format(&addr, text, sizeof text), RON_OK);
        assert_string_equal(text, good[i].canonical);
        assert_int_equal(ron_addr_format(&addr, text, strlen(good[i].canonical)), RON_LIMIT);
    }
}

static void test_addr__bad_text__is_refused_with_a_reason(void **state)
{
    static const char *const bad[] = {
        "",
        ":",
        ":80",
        "7200",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:+1",
        "127.0.0.1:-1",
        "127.0.0.1: 1",
        "127.0.0.1:1 ",
        " 127.0.0.1:1",
        "127.0.0.1:01",
        "127.0.0.1:65536",
        "127.0.0.1:99999",
        "127.0.0.1:100000",
        "127.0.0.1:0x50",
        "127.0.0.1:80:90",
        "127.1:80",
        "0127.0.0.1:80",
        "1.2.3.4.5:80",
        "256.0.0.1:80",
        "1.2.3:80",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[::1:80",
        "[]:80",
        "[127.0.0.1]:80",
        "[::1%lo]:80",
        "[::1]]:80",
        "[:80",
        "fe80::1:80",
        "-a.com:1",
        "a-.com:1",
        "a..b:1",
        ".a:1",
        "a.:1",
        "a_b:1",
        "a b:1",
        "host/x:1",
        "unix:",
        "unix:x",
        "unix:./x",
        "unix:/",
        "unix:/a/",
        "unix://a",
        "unix:/a/../b",
        "unix:/./a",
        "unix:/a\n",
        "UNIX:/a",
        "http://a:80",
        "host:http",
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        struct ron_addr addr = {.port = 4711};
        struct ron_err err = {0};

        if (ron_addr_parse(bad[i], &addr, &err) != RON_INVALID) {
            fail_msg("'%s' was not refused as malformed", bad[i]);
        }
        assert_int_equal(addr.port, 4711);
        assert_true(err.msg[0] != '\0');
    }
}

static void test_addr__too_long__is_a_limit(void **state)
{
    char text[400];
    struct ron_addr addr;

    (void)state;
    memset(text, 'a', sizeof text);
    memcpy(text, "unix:/", 6);
    text[5 + 108] = '\0';
    assert_int_equal(ron_addr_parse(text, &addr, NULL), RON_LIMIT);
    text[5 + 107] = '\0';
    assert_int_equal(ron_addr_parse(text, &addr, NULL), RON_OK);

    memset(text, 'a', sizeof text);
    memcpy(text + 200, ":80", 4);
    assert_int_equal(ron_addr_parse(text, &addr, NULL), RON_LIMIT);
    memcpy(text + 64, ":80", 4);
    assert_int_equal(ron_addr_parse(text, &addr, NULL), RON_INVALID); /* a label of 64 */
    memcpy(text + 63, ":80", 4);
    assert_int_equal(ron_addr_parse(text, &addr, NULL), RON_OK);
}

static void test_addr__random_value__survives_format_and_parse(void **state)
{
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct ron_addr addr = {0};
        struct ron_addr back;
        char text[RON_ADDR_MAX];
        bool v6 = ron_rand_chance(&rand, 1, 2);

        addr.kind = v6 ? RON_ADDR_IPV6 : RON_ADDR_IPV4;
        addr.port = (uint16_t)support_rand_edgy_u64(&rand);
        for (size_t b = 0; b < (v6 ? 16u : 4u); b++) {
            /* Runs of zeros, because their shortening is what could go wrong. */
            addr.ip[b] = ron_rand_chance(&rand, 1, 2) ? 0 : (uint8_t)ron_rand_u64(&rand);
        }
        assert_int_equal(ron_addr_format(&addr, text, sizeof text), RON_OK);
        assert_int_equal(ron_addr_parse(text, &back, NULL), RON_OK);
        assert_memory_equal(&addr, &back, sizeof addr);
    }
}

static void test_addr__random_text__is_refused_or_reads_back(void **state)
{
    static const char alphabet[] = "0123456789.:[]abfx-/unix";
    struct ron_rand rand = support_rand();

    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct ron_addr addr;
        struct ron_addr back;
        char text[24];
        char again[RON_ADDR_MAX];
        size_t len = (size_t)ron_rand_below(&rand, sizeof text);

        for (size_t c = 0; c < len; c++) {
            text[c] = alphabet[ron_rand_below(&rand, sizeof alphabet - 1)];
        }
        text[len] = '\0';
        if (ron_addr_parse(text, &addr, NULL) == RON_OK) {
            assert_int_equal(ron_addr_format(&addr, again, sizeof again), RON_OK);
            assert_int_equal(ron_addr_parse(again, &back, NULL), RON_OK);
            assert_memory_equal(&addr, &back, sizeof addr);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addr__good_text__is_parsed_and_formatted),
        cmocka_unit_test(test_addr__bad_text__is_refused_with_a_reason),
        cmocka_unit_test(test_addr__too_long__is_a_limit),
        cmocka_unit_test(test_addr__random_value__survives_format_and_parse),
        cmocka_unit_test(test_addr__random_text__is_refused_or_reads_back),
    };

    return cmocka_run_group_tests_name("io.addr", tests, NULL, NULL);
}
