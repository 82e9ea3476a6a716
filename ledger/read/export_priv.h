/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/read/export_priv.h - what led_export*.c share, and nobody else. */
#pragma once

#include "ledger/read/export.h"
#include "ledger/read/priv.h"

enum {
    LED_EXPORT_FRAMES = 1024,       /* frames that are taken off the log at once */
    LED_EXPORT_GATHER = 256 << 10,  /* ... or bytes of them, plus one frame */
    LED_EXPORT_PENDING = 256 << 10, /* text: a piece, and what one entry adds to it */
};

struct led_export {
    struct led_export_opts opts;
    struct led_reader *r;
    enum {
        LED_EXPORT_BEGIN,
        LED_EXPORT_RECORDS,
        LED_EXPORT_ENTRIES, /* inside a record */
        LED_EXPORT_OVER,
    } state;
    enum ron_rc rc; /* of the failure that ended it */
    struct ron_err err;

    /* Frames that were taken off the log. Payloads lie in `bytes`, at frames[i].payload_at. */
    struct ron_buf bytes;
    struct {
        struct led_frame frame;
        size_t payload_at;
    } frames[LED_EXPORT_FRAMES];
    size_t frame_count;
    size_t frame_next;
    uint64_t next_seq; /* of the next frame to take */
    uint64_t empties;  /* frames without entries at next_seq that were taken already */

    struct led_frame frame; /* the present one */
    struct led_cursor records;
    struct led_record record;
    struct led_cursor entries;

    struct ron_buf out; /* text that waits for a piece */
    struct ron_json_writer w;
    uint64_t batch_count;
    uint64_t cancel_count;
    uint64_t entry_count;
    uint64_t last_seq;
    uint64_t day; /* since 1970; never goes back */
};

/* export_text.c: journals of the others. */
void led__export_text_begin(struct led_export *ex);
RON_MUST_USE enum ron_rc led__export_text_entry(struct led_export *ex, uint64_t seq,
                                                const struct led_entry *entry,
                                                const struct led_links *links, struct ron_err *err);
