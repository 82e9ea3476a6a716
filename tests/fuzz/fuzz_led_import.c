/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_led_import - an import survives any file, however it is cut into pieces, and what it makes
 * of a line is what the ledger would write.
 *
 * The first byte chooses the pieces. Checked for each work: as many leaves, hashes and preps as
 * entries, every leaf decodes to an entry of the same bytes; at the end: the numbers add up. */
#include <stdlib.h>
#include <string.h>

#include "ledger/offline/import.h"
#include "ron/base/assert.h"

static void check_work(const struct led_work *w)
{
    for (size_t i = 0; i < w->batch.count; i++) {
        uint8_t again[LED_ENTRY_BYTES_MAX];
        struct led_refusal refusal;
        struct led_entry entry;
        struct ron_tree_hash hash;

        RON_ASSERT(led_entry_decode((const uint8_t *)w->leaves[i].ptr, w->leaves[i].len,
                                    LED_ORIGIN_LEDGER, &entry, &refusal));
        RON_ASSERT(led_entry_size(&entry) == w->leaves[i].len);
        RON_IGNORE(led_entry_encode(&entry, again));
        RON_ASSERT(memcmp(again, w->leaves[i].ptr, w->leaves[i].len) == 0);
        ron_tree_hash_leaf(again, w->leaves[i].len, &hash);
        RON_ASSERT(ron_tree_hash_equal(&hash, &w->hashes[i]));
    }
    RON_ASSERT(w->kind == LED_WORK_CANCEL ? w->batch.count == 0 && w->batch.idem_id.len > 0
                                          : w->batch.count > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[16];
    struct led_import *imp = NULL;
    struct led_import_end end;
    enum led_import_step step = LED_IMPORT_MORE;
    uint64_t entries = 0;
    size_t piece;

    if (size == 0 || led_import_new(key, &imp) != RON_OK) {
        return 0;
    }
    piece = (size_t)data[0] * data[0] + 1;
    for (size_t at = 1; at < size; at += piece) {
        if (led_import_push(imp, data + at, RON_MIN(piece, size - at), NULL) != RON_OK) {
            break;
        }
        while (led_import_arena_size(imp) > 0) {
            struct led_work w = {0};
            enum ron_rc rc;

            if (ron_arena_init(&w.arena, led_import_arena_size(imp)) != RON_OK) {
                break;
            }
            rc = led_import_next(imp, &w, &step, NULL);
            if (rc == RON_OK && step == LED_IMPORT_WORK) {
                check_work(&w);
                entries += w.batch.count;
            }
            RON_ASSERT(rc != RON_OK || !ron_arena_overflowed(&w.arena));
            ron_arena_done(&w.arena);
            if (rc != RON_OK) {
                led_import_free(imp);
                return 0;
            }
        }
    }
    if (led_import_end(imp, &end, NULL) == RON_OK) {
        RON_ASSERT(end.entries == entries && end.seq_last == entries);
    }
    led_import_free(imp);
    return 0;
}
