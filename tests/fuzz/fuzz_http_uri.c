/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: percent-escapes and queries. The first byte is the room for decoded text.
 *
 * Properties of any input: decoding never writes past its room, never gives controls, and undoes
 * the encoding of its own result; pairs of a query lie inside it, in order, without '&', and a
 * value is found exactly when its name stands there once. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/http/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 512 };

static void check_decode(struct ron_str in, bool plus, size_t room)
{
    char out[MAX];
    char encoded[3 * MAX];
    char again[MAX];
    size_t len = SIZE_MAX;
    size_t len_again = 0;
    size_t n = 0;
    enum ron_rc rc = ron_http_percent_decode(in, plus, out, room, &len);

    if (rc != RON_OK) {
        RON_ASSERT(len == SIZE_MAX);
        RON_ASSERT(rc == RON_INVALID || rc == RON_LIMIT);
        return;
    }
    RON_ASSERT(len <= room && len <= in.len);
    for (size_t i = 0; i < len; i++) {
        RON_ASSERT((uint8_t)out[i] >= 0x20 && out[i] != 0x7f);
        n += (size_t)snprintf(encoded + n, sizeof encoded - n, "%%%02x", (uint8_t)out[i]);
    }
    RON_ASSERT(ron_http_percent_decode((struct ron_str){encoded, n}, plus, again, sizeof again,
                                       &len_again) == RON_OK);
    RON_ASSERT(len_again == len);
    RON_ASSERT(memcmp(again, out, len) == 0);
}

static void check_query(struct ron_str query, size_t room)
{
    char out[MAX];
    struct ron_str rest = query;
    struct ron_str name;
    struct ron_str value;
    const char *at = query.ptr;
    size_t named_a = 0;
    struct ron_str found = {0};
    enum ron_rc rc;

    while (ron_http_query_next(&rest, &name, &value)) {
        RON_ASSERT(name.ptr >= at && value.ptr >= name.ptr + name.len);
        RON_ASSERT(value.ptr + value.len <= query.ptr + query.len);
        RON_ASSERT(name.len + value.len > 0 || value.ptr > name.ptr);
        RON_ASSERT(memchr(name.ptr, '&', (size_t)(value.ptr - name.ptr) + value.len) == NULL);
        at = value.ptr + value.len;
        named_a += ron_str_is(name, "a");
    }
    RON_ASSERT(rest.len == 0);
    rc = ron_http_query_get(query, "a", out, room, &found);
    RON_ASSERT((rc == RON_NOTFOUND) == (named_a == 0));
    RON_ASSERT((rc == RON_CONFLICT) == (named_a > 1));
    RON_ASSERT(rc != RON_OK || found.len <= room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_str in;

    if (size < 1 || size > MAX) {
        return 0;
    }
    in = (struct ron_str){(const char *)data + 1, size - 1};
    check_decode(in, false, MAX);
    check_decode(in, true, data[0]);
    check_query(in, data[0]);
    return 0;
}
