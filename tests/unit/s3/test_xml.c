/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: one text out of an answer, or nothing. Method: a table of answers as servers send them and
 * as nobody should. */
#include "support/support.h"

#include "ron/s3/s3.h"
#include "s3/s3_priv.h"

static void test_xml__answers__give_their_text_or_nothing(void **state)
{
    static const struct {
        const char *xml;
        const char *name;
        enum ron_rc rc;
        const char *wanted;
    } rows[] = {
        {"<?xml version=\"1.0\"?><R><UploadId>2~a/b+=</UploadId></R>", "UploadId", RON_OK,
         "2~a/b+="},
        {"<R><ETag>&quot;abc-3&quot;</ETag></R>", "ETag", RON_OK, "\"abc-3\""},
        {"<R><ETag>&#34;abc&#34;</ETag></R>", "ETag", RON_OK, "\"abc\""},
        {"<R><X>&amp;&lt;&gt;&apos;</X></R>", "X", RON_OK, "&<>'"},
        {"<R><X></X></R>", "X", RON_OK, ""},
        {"<R><XX>no</XX><X>yes</X></R>", "X", RON_OK, "yes"},
        {"<R>X><X>yes</X></R>", "X", RON_OK, "yes"},
        {"<R><X>1</X><X>2</X></R>", "X", RON_OK, "1"},
        {"<R></R>", "X", RON_NOTFOUND, NULL},
        {"", "X", RON_NOTFOUND, NULL},
        {"X>", "X", RON_NOTFOUND, NULL},
        {"<X", "X", RON_NOTFOUND, NULL},
        {"<X a='1'>y</X>", "X", RON_NOTFOUND, NULL},
        {"<X>", "X", RON_CORRUPT, NULL},
        {"<X>abc", "X", RON_CORRUPT, NULL},
        {"<X>abc</", "X", RON_CORRUPT, NULL},
        {"<X>abc</X", "X", RON_CORRUPT, NULL},
        {"<X>abc</Y>", "X", RON_CORRUPT, NULL},
        {"<X>a<b>c</b></X>", "X", RON_CORRUPT, NULL},
        {"<X>a>b</X>", "X", RON_CORRUPT, NULL},
        {"<X>&nbsp;</X>", "X", RON_CORRUPT, NULL},
        {"<X>&qu", "X", RON_CORRUPT, NULL},
        {"<X>12345678901234567</X>", "X", RON_CORRUPT, NULL},
    };

    (void)state;
    for (size_t i = 0; i < RON_ARRAY_LEN(rows); i++) {
        char text[17] = "untouched";
        size_t len = strlen(rows[i].xml);
        char *exact = malloc(len + 1); /* so that a sanitizer sees a byte too far */

        assert_non_null(exact);
        memcpy(exact, rows[i].xml, len);
        if (ron_s3_xml_text(exact, len, rows[i].name, text, sizeof text) != rows[i].rc) {
            fail_msg("%s", rows[i].xml);
        }
        if (rows[i].rc == RON_OK) {
            assert_string_equal(text, rows[i].wanted);
        }
        free(exact);
    }
    assert_int_equal(ron_s3_xml_text("<X>a\0b</X>", 10, "X", (char[8]){0}, 8), RON_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xml__answers__give_their_text_or_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
