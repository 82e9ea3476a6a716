/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a stream of OAP/1 frames. The first byte says how it is cut into reads.
 *
 * Properties of any input: frames, verdict, reason and the place where it ends do not depend on the
 * cutting; each frame lies inside the input; an accepted frame, encoded anew from its fields, gives
 * the same bytes; a decoder written a second time from the table in docs/formats/oap.md agrees; and
 * whatever stands for an envelope is read without harm. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/buf.h"
#include "ron/wire/frame.h"
#include "support/oap.h"
#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    enum ron_oap_step step;
    enum ron_oap_reason reason;
    size_t end;
    size_t frames;
};

/* The table once more, as plainly as can be: whether a whole frame of `len` bytes is good. */
static bool good(const uint8_t *p, size_t len)
{
    size_t total = 0;
    size_t cap = (size_t)p[28] * 256 + p[29];
    int kinds = (p[7] & 1) + (p[7] >> 1 & 1) + (p[7] >> 2 & 1);

    for (int i = 0; i < 4; i++) {
        total = total * 256 + p[i];
    }
    return total == len && total <= 1048576 && total >= 38 + cap && p[4] == 0 && p[5] == 1 &&
           p[6] == 0 && kinds == 1 && (cap == 0 || (p[7] & 8) != 0);
}

static void check_frame(const uint8_t *p, const struct ron_oap_frame *f)
{
    struct ron_buf out;

    RON_ASSERT(good(p, f->frame_len));
    RON_ASSERT(f->cap == p + RON_OAP_HEADER_BYTES);
    RON_ASSERT(f->payload + f->payload_len == p + f->frame_len);
    ron_buf_init(&out, RON_OAP_FRAME_MAX);
    RON_ASSERT(ron_oap_encode(&out, &f->head, f->cap, f->payload, f->payload_len,
                              RON_OAP_FRAME_MAX) == RON_OK);
    RON_ASSERT(ron_buf_len(&out) == f->frame_len);
    RON_ASSERT(memcmp(ron_buf_data(&out), p, f->frame_len) == 0);
    ron_buf_done(&out);
    (void)ron_oap_envelope_reason(f->payload, f->payload_len);
}

/* Shows the decoder `piece` bytes more each time it wants more. */
static struct result decode(const uint8_t *in, size_t len, size_t piece)
{
    struct result r = {.step = RON_OAP_STEP_MORE};
    size_t shown = 0;

    for (;;) {
        struct ron_oap_frame f;
        size_t need = 0;

        r.step = ron_oap_decode(in + r.end, shown - r.end, RON_OAP_FRAME_MAX, &f, &need, &r.reason);
        if (r.step == RON_OAP_STEP_REFUSED) {
            return r;
        }
        if (r.step == RON_OAP_STEP_FRAME) {
            RON_ASSERT(f.frame_len <= shown - r.end);
            check_frame(in + r.end, &f);
            r.end += f.frame_len;
            r.frames++;
            continue;
        }
        RON_ASSERT(need > shown - r.end);
        if (shown == len) {
            return r;
        }
        shown = len - shown < piece ? len : shown + piece;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct result whole;
    struct result cut;

    if (size < 2) {
        return 0;
    }
    whole = decode(data + 1, size - 1, size);
    cut = decode(data + 1, size - 1, (size_t)data[0] + 1);
    RON_ASSERT(whole.step == cut.step);
    RON_ASSERT(whole.reason == cut.reason);
    RON_ASSERT(whole.end == cut.end);
    RON_ASSERT(whole.frames == cut.frames);
    if (whole.step == RON_OAP_STEP_REFUSED && size - 1 - whole.end >= RON_OAP_HEADER_BYTES) {
        size_t left = size - 1 - whole.end;

        for (size_t n = RON_OAP_HEADER_BYTES; n <= left; n++) {
            RON_ASSERT(!good(data + 1 + whole.end, n)); /* Nothing good was refused. */
        }
    }
    return 0;
}
