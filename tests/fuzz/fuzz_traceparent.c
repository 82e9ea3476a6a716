/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_traceparent.c - any bytes as the header traceparent.
 *
 * Oracle: what is read has valid ids and, written again, is the input with version 00 and no flag
 * but the first; what is refused leaves the result untouched.
 */
#include <stdint.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/obs/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_trace_ctx ctx;
    struct ron_trace_ctx before;
    char back[RON_TRACEPARENT_LEN + 1];

    memset(&ctx, 1, sizeof ctx);
    before = ctx;
    if (ron_traceparent_parse((struct ron_str){(const char *)data, size}, &ctx) != RON_OK) {
        RON_ASSERT(memcmp(&ctx, &before, sizeof ctx) == 0);
        return 0;
    }
    RON_ASSERT(ron_trace_ctx_valid(&ctx));
    RON_ASSERT(size >= RON_TRACEPARENT_LEN);
    RON_ASSERT(size == RON_TRACEPARENT_LEN || memcmp(data, "00", 2) != 0);
    ron_traceparent_format(&ctx, back);
    RON_ASSERT(memcmp(back + 2, data + 2, RON_TRACEPARENT_LEN - 4) == 0);
    RON_ASSERT(ctx.sampled == (back[54] == '1'));
    RON_ASSERT(ron_traceparent_parse((struct ron_str){back, RON_TRACEPARENT_LEN}, &before) ==
               RON_OK);
    RON_ASSERT(memcmp(before.trace_id, ctx.trace_id, sizeof ctx.trace_id) == 0);
    return 0;
}
