/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: bytes of a log, whatever they are, are read within their bounds, and what is read has one
 * form.
 * Method: the input as a frame, as the payload of a good frame, as records, and as the head of a
 * segment. A frame that is good and sound is built again from what was read: the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/log/frame.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1 << 16 };

static uint8_t sectors[INPUT_MAX + LED_SECTOR];

/* Takes the frame apart and builds it again. False when a record or entry is no such thing. */
static bool rebuild(const struct led_frame *frame, struct ron_buf *out)
{
    struct led_cursor records;
    struct led_record record;
    uint64_t seq = frame->seq_first;
    bool bad = false;

    ron_buf_clear(out);
    RON_ASSERT(led_frame_begin(out) == RON_OK);
    led_records(frame, &records);
    while (led_records_next(&records, &record, &bad)) {
        struct led_cursor entries;
        struct led_stored stored;
        size_t at = ron_buf_len(out);

        RON_ASSERT(record.entries >= frame->payload);
        RON_ASSERT(record.entries + record.entries_len <= frame->payload + frame->payload_len);
        RON_ASSERT(record.seq_first == seq);
        RON_ASSERT(led_frame_add_record(out, &record) == RON_OK);
        led_entries(&record, &entries);
        while (led_entries_next(&entries, &stored, &bad)) {
            RON_ASSERT(stored.seq == seq);
            seq++;
            RON_ASSERT(led_frame_add_entry(out, stored.leaf, &stored.links) == RON_OK);
        }
        if (bad) {
            return false;
        }
        led_frame_end_record(out, at);
    }
    RON_ASSERT(bad || led_frame_end(out, frame) == RON_OK);
    return !bad;
}

/* Whatever state it is in. */
static void read_frame(const uint8_t *bytes, size_t len, struct ron_buf *out)
{
    struct led_frame frame;
    size_t whole = 0;
    enum led_frame_state state = led_frame_read(bytes, len, &frame, &whole);

    RON_ASSERT(whole >= LED_SECTOR);
    RON_ASSERT(whole % LED_SECTOR == 0);
    RON_ASSERT(state == LED_FRAME_MORE ? whole > len : whole <= len);
    if (state == LED_FRAME_GOOD && rebuild(&frame, out)) {
        RON_ASSERT(ron_buf_len(out) == whole);
        RON_ASSERT(memcmp(ron_buf_data(out), bytes, whole) == 0);
    }
}

/* The input as records of a frame whose checksums are right. */
static void in_good_frame(const uint8_t *data, size_t size, struct ron_buf *frame_buf,
                          struct ron_buf *out)
{
    struct led_frame frame = {.seq_first = 1, .epoch = 1};

    if (size < 2) {
        return;
    }
    frame.records = data[0];
    frame.entries = data[1];
    ron_buf_clear(frame_buf);
    RON_ASSERT(led_frame_begin(frame_buf) == RON_OK);
    RON_ASSERT(ron_buf_append(frame_buf, data + 2, size - 2) == RON_OK);
    RON_ASSERT(led_frame_end(frame_buf, &frame) == RON_OK);
    read_frame(ron_buf_data(frame_buf), ron_buf_len(frame_buf), out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_buf frame_buf;
    struct ron_buf out;
    struct led_segment_head head;

    if (size > INPUT_MAX) {
        return 0;
    }
    ron_buf_init(&frame_buf, LED_FRAME_MAX);
    ron_buf_init(&out, LED_FRAME_MAX);
    in_good_frame(data, size, &frame_buf, &out);
    memset(sectors, 0, sizeof sectors);
    if (size > 0) {
        memcpy(sectors, data, size);
    }
    read_frame(sectors, (size / LED_SECTOR + 1) * LED_SECTOR, &out);
    if (led_segment_head_read(sectors, &head)) {
        uint8_t again[LED_SEGMENT_HEAD];

        led_segment_head_write(&head, again);
        RON_ASSERT(memcmp(again, sectors, sizeof again) == 0);
    }
    ron_buf_done(&frame_buf);
    ron_buf_done(&out);
    return 0;
}
