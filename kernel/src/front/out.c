/* SPDX-License-Identifier: Apache-2.0 */
/* out.c - what a socket did not take; contract and invariants in ron/front/out.h. */
#include "ron/front/out.h"

#include "ron/base/assert.h"

bool ron_out_keep(struct ron_out *o, struct ron_out_memory *memory, const void *bytes, size_t len)
{
    uint64_t more;

    if (ron_buf_append(&o->kept, bytes, len) != RON_OK) {
        return false;
    }
    more = o->kept.cap - o->charged;
    o->charged += more;
    return ron_au64_add(&memory->used, more) + more <= memory->max; /* O1 */
}

void ron_out_release(struct ron_out *o, struct ron_out_memory *memory)
{
    size_t max = o->kept.max;

    (void)ron_au64_add(&memory->used, 0 - o->charged); /* minus */
    o->charged = 0;
    ron_buf_done(&o->kept);
    ron_buf_init(&o->kept, max);
}

void ron_out_taken(struct ron_out *o, struct ron_out_memory *memory, size_t len, uint64_t now_ms)
{
    RON_ASSERT(len <= ron_out_len(o));
    if (len == 0) {
        return;
    }
    ron_out_progress(o, len, now_ms);
    ron_buf_consume(&o->kept, len);
    if (ron_out_len(o) == 0) {
        ron_out_release(o, memory); /* O2 */
    }
}
