/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the path check of passed calls, the origin check of writes, and the embedded files.
 * Method: tables of paths and request heads; the folder console/static compared with the table. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "console/svc.h"
#include "http/syntax/syntax.h"

static struct ron_str str(const char *text)
{
    return (struct ron_str){text, strlen(text)};
}

static void test_con_front__paths__no_way_up(void **state)
{
    static const char *const good[] = {"/api/ledger/head", "/a/...",   "/a/.b", "/a/b..", "/a/%2Fx",
                                       "/a/%2e%2e%2e",     "/a/u:x/y", "/",     ""};
    static const char *const bad[] = {"/a/..",     "/a/.",    "/../a",       "/a/%2e%2E/b",
                                      "/a/.%2e/b", "/a/%2e",  "/a%2f..%2fb", "/a%2F%2e%2e",
                                      "/a\\..\\b", "/a%5c..", "..",          "/a/b/../c",
                                      "/x/%2f./y"};

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(good); i++) {
        assert_true(con_path_plain(str(good[i])));
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(bad); i++) {
        assert_false(con_path_plain(str(bad[i])));
    }
}

static void test_con_front__writes__only_from_our_pages(void **state)
{
    static const struct {
        const char *lines;
        bool tls;
        bool good;
    } rows[] = {
        {"X-Ron-Console: 1", false, true},
        {"", false, false},
        {"X-Ron-Console: 0", false, false},
        {"X-Ron-Console: 1\r\nX-Ron-Console: 1", false, false},
        {"X-Ron-Console: 1\r\nOrigin: http://console.test:7000", false, true},
        {"X-Ron-Console: 1\r\nOrigin: https://console.test:7000", false, false},
        {"X-Ron-Console: 1\r\nOrigin: https://console.test:7000", true, true},
        {"X-Ron-Console: 1\r\nOrigin: http://console.test:7001", false, false},
        {"X-Ron-Console: 1\r\nOrigin: http://console.test:70001", false, false},
        {"X-Ron-Console: 1\r\nOrigin: null", false, false},
        {"X-Ron-Console: 1\r\nOrigin: http://console.test:7000\r\nOrigin: http://evil.test", false,
         false},
        {"X-Ron-Console: 1\r\nSec-Fetch-Site: same-origin", false, true},
        {"X-Ron-Console: 1\r\nSec-Fetch-Site: same-site", false, false},
        {"X-Ron-Console: 1\r\nSec-Fetch-Site: cross-site", false, false},
        {"X-Ron-Console: 1\r\nSec-Fetch-Site: none", false, false},
    };
    const struct ron_http_limits limits = {.uri_max = 4096, .head_max = 16384, .headers_max = 100};
    static struct ron_http_parser p;

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        char text[512];
        int len = snprintf(text, sizeof text,
                           "POST /api/wallet/v1/issue HTTP/1.1\r\nHost: console.test:7000\r\n%s%s"
                           "\r\n",
                           rows[i].lines, rows[i].lines[0] != '\0' ? "\r\n" : "");

        ron_http_parser_init(&p, &limits);
        assert_int_equal(ron_http_parse(&p, text, (size_t)len), RON_HTTP_DONE);
        if (con_same_origin(&p.head, rows[i].tls) != rows[i].good) {
            fail_msg("row %zu: %s", i, rows[i].lines);
        }
    }
}

static void test_con_assets__files__all_of_the_folder(void **state)
{
    static struct con_assets a;
    struct ron_err err = {0};
    const char *source = getenv("RON_SOURCE_DIR");
    char path[1024];
    struct dirent *e;
    size_t total = 0;
    size_t count = 0;
    DIR *dir;

    (void)state;
    assert_int_equal(con_assets_open(&a, &err), RON_OK);
    for (size_t i = 0; i < CON_ASSET_COUNT; i++) {
        assert_true(a.at[i].plain.len > 20);
        assert_true(a.at[i].packed.len == 0 || a.at[i].packed.len < a.at[i].plain.len);
        assert_int_equal(strlen(a.at[i].tag), 66);
        assert_true(strcmp(a.at[i].tag, a.at[i].packed_tag) != 0);
        total += a.at[i].plain.len;
    }
    assert_true(total < 150 * 1024);
    assert_null(con_assets_find(&a, str("../con_svc.c")));
    if (source != NULL) {
        (void)snprintf(path, sizeof path, "%s/console/static", source);
        dir = opendir(path);
        assert_non_null(dir);
        while ((e = readdir(dir)) != NULL) {
            if (e->d_name[0] != '.' && strcmp(e->d_name, "README.md") != 0) {
                if (con_assets_find(&a, str(e->d_name)) == NULL) {
                    fail_msg("%s has no row in console/assets.h", e->d_name);
                }
                count++;
            }
        }
        closedir(dir);
        assert_int_equal(count, CON_ASSET_COUNT);
    }
    con_assets_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_con_front__paths__no_way_up),
        cmocka_unit_test(test_con_front__writes__only_from_our_pages),
        cmocka_unit_test(test_con_assets__files__all_of_the_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
