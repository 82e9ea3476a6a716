/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: HTTP dates. The first eight bytes are the time of reading, the rest is the text.
 *
 * Properties of any input: an accepted date, written anew, reads back as the same moment, and the C
 * library's calendar agrees with it; the eight bytes as a moment survive writing and reading. */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "ron/base/assert.h"
#include "ron/http/date.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(uint64_t at_s, uint64_t now_s)
{
    char text[RON_HTTP_DATE_SIZE];
    char theirs[64];
    uint64_t back = 0;
    time_t t = (time_t)at_s;
    struct tm tm;

    ron_http_date_format(at_s, text);
    RON_ASSERT(text[RON_HTTP_DATE_LEN] == '\0');
    RON_ASSERT(ron_http_date_parse((struct ron_str){text, RON_HTTP_DATE_LEN}, now_s, &back) ==
               RON_OK);
    RON_ASSERT(back == at_s);
    RON_ASSERT(gmtime_r(&t, &tm) != NULL);
    RON_ASSERT(strftime(theirs, sizeof theirs, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
    RON_ASSERT(strcmp(text, theirs) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t now_s;
    uint64_t at_s = 0;

    if (size < 8) {
        return 0;
    }
    memcpy(&now_s, data, sizeof now_s);
    now_s %= RON_HTTP_DATE_MAX_S + 1;
    check(now_s, 0);
    if (ron_http_date_parse((struct ron_str){(const char *)data + 8, size - 8}, now_s, &at_s) ==
        RON_OK) {
        RON_ASSERT(size - 8 >= 24);
        if (at_s <= RON_HTTP_DATE_MAX_S) { /* the leap second of 9999 is one more */
            check(at_s, now_s);
        }
    }
    return 0;
}
