/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: no request text breaks the ingest parser, and JSON and bytes mean the same entries.
 * Method: what is accepted goes JSON -> entry -> bytes -> entry -> JSON -> entry -> bytes; both
 * byte forms must be equal. What is refused names a reason, and an answer that tells it is JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/entry/entry.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char memory[3][1 << 20];
static uint8_t root[32];

static void tell(const struct led_refusals *refusals)
{
    struct ron_buf out;

    RON_ASSERT(refusals->count > 0);
    ron_buf_init(&out, (size_t)1 << 16);
    led_response_to_json(&out, &(struct led_response){.new_root = root, .refusals = refusals});
    RON_ASSERT(ron_buf_error(&out) == RON_OK);
    RON_ASSERT(ron_json_check(ron_buf_text(&out), ron_buf_len(&out), NULL) == RON_OK);
    ron_buf_done(&out);
}

static void write_json(const struct led_batch *batch, struct ron_buf *out)
{
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_open(&w, "batch", '[');
    for (size_t i = 0; i < batch->count; i++) {
        led_entry_to_json(&w, NULL, &batch->entries[i], 0);
    }
    ron_json_close(&w, ']');
    if (batch->idem_id.len != 0) {
        ron_json_str(&w, "idem_id", batch->idem_id);
    }
    ron_json_close(&w, '}');
    RON_ASSERT(ron_buf_error(out) == RON_OK);
}

static void round_trip(const struct led_batch *first, size_t size)
{
    struct ron_buf bytes;
    struct ron_buf text;
    struct ron_buf again;
    struct ron_arena arena;
    struct led_batch batch;
    struct led_refusals refusals;

    /* A short text can hold many entries, each with a default asset and more escapes when written
     * again. */
    ron_buf_init(&bytes, 4 * size + 4096);
    ron_buf_init(&text, 16 * size + 4096);
    ron_buf_init(&again, 4 * size + 4096);
    RON_ASSERT(led_batch_encode(first, &bytes) == RON_OK);
    ron_arena_init_over(&arena, memory[1], sizeof memory[1]);
    RON_ASSERT(led_batch_decode(ron_buf_data(&bytes), ron_buf_len(&bytes), LED_ORIGIN_CALLER,
                                &arena, &batch, NULL, &refusals));
    write_json(&batch, &text);
    ron_arena_init_over(&arena, memory[2], sizeof memory[2]);
    RON_ASSERT(led_batch_from_json((char *)text.memory + text.head, ron_buf_len(&text),
                                   LED_ORIGIN_CALLER, &arena, &batch, &refusals));
    RON_ASSERT(led_batch_encode(&batch, &again) == RON_OK);
    RON_ASSERT(ron_buf_len(&again) == ron_buf_len(&bytes));
    RON_ASSERT(memcmp(ron_buf_data(&again), ron_buf_data(&bytes), ron_buf_len(&bytes)) == 0);
    ron_buf_done(&bytes);
    ron_buf_done(&text);
    ron_buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    struct ron_arena arena;
    struct led_batch batch;
    struct led_refusals refusals;

    RON_ASSERT(copy != NULL);
    memcpy(copy, data, size);
    ron_arena_init_over(&arena, memory[0], sizeof memory[0]);
    if (led_batch_from_json(copy, size, LED_ORIGIN_CALLER, &arena, &batch, &refusals)) {
        round_trip(&batch, size);
    } else {
        tell(&refusals);
    }
    free(copy);
    return 0;
}
