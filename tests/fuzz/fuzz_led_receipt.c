/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_led_receipt.c - any bytes as a receipt.
 *
 * Oracle: a receipt that is read is written again as the same bytes; with a key that the input
 * cannot have been signed with it is never believed; its proof is computed without harm for any
 * index. */
#include <stdint.h>
#include <string.h>

#include "ledger/proof/receipt.h"
#include "merkle/note_priv.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_trust(const struct led_receipt *r, struct ron_str leaf)
{
    static const uint8_t seed[RON_NOTE_SEED_BYTES] = {0x33};
    struct ron_note_signer signer;
    struct led_note note;
    struct led_checkpoint c;
    struct ron_tree_hash hash;
    struct led_trust trust = {.log_keys = &signer.key, .log_key_count = 1};

    RON_ASSERT(led_note_read(r->checkpoint, &note, NULL) == RON_OK);
    RON_ASSERT(led_checkpoint_read(note.text, &c, NULL) == RON_OK);
    RON_ASSERT(ron_note_signer_make(RON_STR_LIT("fuzz.example"), RON_NOTE_ED25519, seed, &signer,
                                    NULL) == RON_OK);
    trust.origin = c.origin;
    RON_ASSERT(led_receipt_verify(r, leaf, &trust, NULL, NULL) == RON_DENIED);
    ron_tree_hash_leaf(leaf.ptr, leaf.len, &hash);
    (void)ron_proof_includes(r->proof.hashes, r->proof.count, r->index, c.size, &hash, &c.root);
    (void)ron_proof_joins(r->proof.hashes, r->proof.count, r->index, c.size, &hash, &c.root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_str bytes = {.ptr = (const char *)data, .len = size};
    struct ron_str leaf = {.ptr = "", .len = 0};
    struct led_receipt r;
    struct ron_buf extra;
    struct ron_buf again;

    if (led_receipt_read(bytes, &r, NULL) != RON_OK) {
        return 0;
    }
    ron_buf_init(&extra, LED_RECEIPT_BYTES_MAX);
    ron_buf_init(&again, LED_RECEIPT_BYTES_MAX);
    if (led_receipt_extra(&r, &extra, NULL) == RON_OK) {
        leaf = (struct ron_str){.ptr = ron_buf_text(&extra), .len = ron_buf_len(&extra)};
    }
    RON_ASSERT(led_receipt_write(leaf, r.index, &r.proof, r.checkpoint, &again, NULL) == RON_OK);
    RON_ASSERT(ron_buf_len(&again) == size);
    RON_ASSERT(memcmp(ron_buf_data(&again), data, size) == 0);
    check_trust(&r, leaf);
    ron_buf_done(&extra);
    ron_buf_done(&again);
    return 0;
}
