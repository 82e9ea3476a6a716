/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the text of /metrics as the console reads it. The first byte chooses the service,
 * the rest is the text.
 *
 * Properties of any input: samples lie inside the text, in its order; a count holds no value that
 * is not finite, and its names are such as JSON takes as they are; points are bounded; labels lie
 * inside their sample. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "console/sample.h"
#include "console/sess.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name)
{
    RON_ASSERT(strlen(name) <= CON_NAME_MAX);
    RON_ASSERT(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == strlen(name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct con_count none;
    static struct con_count count;
    struct con_prom_sample s;
    struct ron_str text;
    struct ron_str rest;
    const char *before;

    if (size < 1) {
        return 0;
    }
    text = (struct ron_str){(const char *)data + 1, size - 1};
    rest = text;
    before = text.ptr;
    while (con_prom_next(&rest, &s)) {
        struct ron_str value = {0};

        RON_ASSERT(s.name.ptr >= before && s.name.ptr + s.name.len <= text.ptr + text.len);
        RON_ASSERT(isfinite(s.value));
        if (con_prom_label(s.labels, "le", &value)) {
            RON_ASSERT(value.ptr >= s.labels.ptr &&
                       value.ptr + value.len <= s.labels.ptr + s.labels.len);
        }
        before = s.name.ptr + s.name.len;
    }
    con_count_read((enum con_service)(data[0] % CON_SERVICE_COUNT), text, &count);
    check_name(count.fullest);
    for (uint32_t i = 0; i < count.breaker_count; i++) {
        check_name(count.breakers[i].name);
        RON_ASSERT(count.breakers[i].state <= 2);
    }
    for (uint32_t i = 1; i < count.bucket_count; i++) {
        RON_ASSERT(count.bounds[i - 1] < count.bounds[i]);
    }
    (void)con_point_of(&none, &count, 1000);
    (void)con_point_of(&count, &count, 1);
    (void)con_cookie(text, (struct ron_str){"ron_console", 11});
    return 0;
}
