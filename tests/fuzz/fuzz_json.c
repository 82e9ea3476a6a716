/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the scanner and jansson agree on what is JSON, and no input breaks the scanner.
 * Method: both read the same bytes. They may differ only where the house rules say so: nesting
 * deeper than ours allows, numbers jansson cannot hold, and U+0000, which jansson refuses. What we
 * accept is also scanned by a shape, written again and read again: nothing may change. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct document {
    struct ron_str text;
    struct ron_str raw;
    uint64_t number;
    uint64_t present;
};

static const struct ron_json_field fields[] = {
    RON_JSON_FIELD(struct document, text, STRING, .required = false),
    RON_JSON_FIELD(struct document, raw, RAW, .required = false),
    RON_JSON_FIELD(struct document, number, U64, .nullable = true),
};
static const struct ron_json_shape shape = {.fields = fields,
                                            .count = RON_ARRAY_LEN(fields),
                                            .present_offset = offsetof(struct document, present),
                                            .allow_unknown = true};

static void compare_verdicts(const char *text, size_t size)
{
    struct ron_json_error ours_err = {0};
    json_error_t theirs_err;
    enum ron_rc ours = ron_json_check(text, size, &ours_err);
    json_t *theirs = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &theirs_err);

    RON_ASSERT(ours == RON_OK || ours == RON_INVALID);
    RON_ASSERT(ours_err.at <= size);
    if (theirs != NULL && ours != RON_OK) {
        /* jansson takes a NUL byte for the end of the text. */
        RON_ASSERT(strcmp(ours_err.reason, "nested too deep") == 0 ||
                   memchr(text, 0, size) != NULL);
    }
    if (theirs == NULL && ours == RON_OK) {
        enum json_error_code code = json_error_code(&theirs_err);
        /* A number of any size is JSON; only a table says which sizes are wanted. */
        RON_ASSERT(code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
                   code == json_error_null_character);
    }
    json_decref(theirs);
}

static void round_trip(const char *text, size_t size)
{
    char *copy = malloc(size + 1);
    struct document d = {0};
    struct document again = {0};
    struct ron_json_writer w;
    struct ron_buf out;
    enum ron_rc rc;

    RON_ASSERT(copy != NULL);
    memcpy(copy, text, size);
    rc = ron_json_scan(copy, size, &shape, NULL, &d, NULL);
    if (rc == RON_OK) {
        ron_buf_init(&out, 16 * size + 256);
        ron_json_begin(&w, &out);
        ron_json_open(&w, NULL, '{');
        ron_json_str(&w, "text", d.text);
        if ((d.present & 2) != 0) {
            ron_json_raw(&w, "raw", d.raw);
        }
        ron_json_u64(&w, "number", d.number);
        ron_json_close(&w, '}');
        RON_ASSERT(ron_buf_error(&out) == RON_OK);
        rc = ron_json_scan((char *)out.memory + out.head, ron_buf_len(&out), &shape, NULL, &again,
                           NULL);
        RON_ASSERT(rc == RON_OK);
        RON_ASSERT(again.number == d.number);
        RON_ASSERT(again.text.len == d.text.len);
        RON_ASSERT(d.text.len == 0 || memcmp(again.text.ptr, d.text.ptr, d.text.len) == 0);
        RON_ASSERT(again.raw.len == d.raw.len);
        ron_buf_done(&out);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    compare_verdicts((const char *)data, size);
    round_trip((const char *)data, size);
    return 0;
}
