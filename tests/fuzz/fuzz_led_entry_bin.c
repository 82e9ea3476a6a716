/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: an entry and a batch have exactly one binary form, and JSON says the same.
 * Method: whatever the decoders accept must encode to the very same bytes; each accepted entry is
 * written as JSON, read again and encoded: the same bytes once more. */
#include <stdint.h>
#include <string.h>

#include "ledger/entry/entry.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char json[1 << 14];
static char arena_memory[1 << 20];
static char batch_memory[1 << 20];

static void through_json(const struct led_entry *e, const uint8_t *bytes, size_t len)
{
    struct ron_json_writer w;
    struct ron_buf out;
    struct ron_arena arena;
    struct led_batch batch;
    struct led_refusals refusals;
    uint8_t again[LED_ENTRY_BYTES_MAX];

    ron_buf_init_over(&out, json, sizeof json);
    ron_json_begin(&w, &out);
    ron_json_open(&w, NULL, '{');
    ron_json_open(&w, "batch", '[');
    led_entry_to_json(&w, NULL, e, 0);
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    RON_ASSERT(ron_buf_error(&out) == RON_OK);
    ron_arena_init_over(&arena, arena_memory, sizeof arena_memory);
    RON_ASSERT(
        led_batch_from_json(json, ron_buf_len(&out), LED_ORIGIN_LEDGER, &arena, &batch, &refusals));
    RON_ASSERT(led_entry_size(&batch.entries[0]) == len);
    (void)led_entry_encode(&batch.entries[0], again);
    RON_ASSERT(memcmp(again, bytes, len) == 0);
}

static void one_entry(const uint8_t *data, size_t size)
{
    struct led_entry e;
    struct led_refusal refusal;
    uint8_t again[LED_ENTRY_BYTES_MAX];

    if (!led_entry_decode(data, size, LED_ORIGIN_LEDGER, &e, &refusal)) {
        RON_ASSERT(refusal.reason != LED_REASON_OK);
        RON_ASSERT(refusal.detail[0] != '\0');
        return;
    }
    RON_ASSERT(size <= LED_ENTRY_BYTES_MAX);
    RON_ASSERT(led_entry_size(&e) == size);
    (void)led_entry_encode(&e, again);
    RON_ASSERT(memcmp(again, data, size) == 0);
    through_json(&e, data, size);
}

static void one_batch(const uint8_t *data, size_t size)
{
    struct led_batch batch;
    struct led_refusals refusals;
    struct ron_arena arena;
    struct ron_str *leaves;
    struct ron_buf out;

    ron_arena_init_over(&arena, batch_memory, sizeof batch_memory);
    if (!led_batch_decode(data, size, LED_ORIGIN_CALLER, &arena, &batch, &leaves, &refusals)) {
        RON_ASSERT(refusals.count > 0);
        return;
    }
    ron_buf_init(&out, size + 256);
    RON_ASSERT(led_batch_encode(&batch, &out) == RON_OK);
    RON_ASSERT(ron_buf_len(&out) == size);
    RON_ASSERT(memcmp(ron_buf_data(&out), data, size) == 0);
    for (size_t i = 0; i < batch.count; i++) {
        one_entry((const uint8_t *)leaves[i].ptr, leaves[i].len);
    }
    ron_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    one_entry(data, size);
    one_batch(data, size);
    return 0;
}
