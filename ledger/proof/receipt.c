/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/proof/receipt.c - receipts: text and verification. */
#include "ledger/proof/receipt.h"

#include "ron/base/hex.h"
#include "ron/merkle/lines.h"

#define HEADER "c2sp.org/tlog-proof@v1"

enum { EXTRA_TEXT_MAX = (LED_RECEIPT_EXTRA_MAX + 2) / 3 * 4 };

enum ron_rc led_receipt_write(struct ron_str extra, uint64_t index, const struct ron_proof *proof,
                              struct ron_str checkpoint, struct ron_buf *out, struct ron_err *err)
{
    struct led_note note;

    if (extra.len > LED_RECEIPT_EXTRA_MAX) {
        return ron_err_set(err, RON_LIMIT, "extra data of a receipt has at most 65535 bytes");
    }
    if (index >= RON_TREE_SIZE_MAX || led_note_read(checkpoint, &note, NULL) != RON_OK) {
        return ron_err_set(err, RON_INVALID, "a receipt holds an index and a signed checkpoint");
    }
    RON_IGNORE(ron_buf_append_text(out, HEADER "\n"));
    if (extra.len > 0) {
        RON_IGNORE(ron_buf_append_text(out, "extra "));
        RON_IGNORE(ron_base64_write(out, extra.ptr, extra.len));
        RON_IGNORE(ron_buf_append_byte(out, '\n'));
    }
    RON_IGNORE(ron_buf_append_fmt(out, "index %llu\n", (unsigned long long)index));
    for (size_t i = 0; i < proof->count; i++) {
        RON_IGNORE(ron_tree_hash_write(out, &proof->hashes[i]));
        RON_IGNORE(ron_buf_append_byte(out, '\n'));
    }
    RON_IGNORE(ron_buf_append_byte(out, '\n'));
    if (ron_buf_append(out, checkpoint.ptr, checkpoint.len) != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "no room for a receipt");
    }
    return RON_OK;
}

/* Whether the text is base64 in its only spelling. Looked at in pieces: nothing is kept. */
static bool base64_valid(struct ron_str s)
{
    enum { PIECE = 1024 };
    uint8_t bytes[PIECE / 4 * 3];
    size_t len = 0;

    if (s.len == 0) {
        return false;
    }
    while (s.len > 0) {
        struct ron_str piece = {.ptr = s.ptr, .len = RON_MIN(s.len, (size_t)PIECE)};

        /* Padding stands at the very end only: a piece before the last one is full. */
        if (!ron_base64_read(piece, RON_BASE64_PADDED, bytes, sizeof bytes, &len) ||
            (piece.len < s.len && len != sizeof bytes)) {
            return false;
        }
        s.ptr += piece.len;
        s.len -= piece.len;
    }
    return true;
}

static enum ron_rc read_proof(struct ron_str *rest, struct ron_proof *proof, struct ron_err *err)
{
    struct ron_str line;

    proof->count = 0;
    for (;;) {
        if (!ron_str_line(rest, &line)) {
            return ron_err_set(err, RON_CORRUPT, "the receipt ends inside its proof");
        }
        if (line.len == 0) {
            return RON_OK;
        }
        if (proof->count == RON_PROOF_MAX) {
            return ron_err_set(err, RON_LIMIT, "a proof has at most %d hashes", RON_PROOF_MAX);
        }
        if (!ron_tree_hash_read(line, &proof->hashes[proof->count])) {
            return ron_err_set(err, RON_CORRUPT, "a line of the proof is no hash in base64");
        }
        proof->count++;
    }
}

enum ron_rc led_receipt_read(struct ron_str bytes, struct led_receipt *ret_receipt,
                             struct ron_err *err)
{
    struct led_receipt r = {0};
    struct led_note note;
    struct led_checkpoint checkpoint;
    struct ron_str line;

    if (bytes.len > LED_RECEIPT_BYTES_MAX) {
        return ron_err_set(err, RON_LIMIT, "a receipt has at most %d bytes", LED_RECEIPT_BYTES_MAX);
    }
    if (!ron_str_line(&bytes, &line) || !ron_str_is(line, HEADER)) {
        return ron_err_set(err, RON_CORRUPT, "a receipt begins with " HEADER);
    }
    if (!ron_str_line(&bytes, &line)) {
        return ron_err_set(err, RON_CORRUPT, "a receipt has an index");
    }
    if (ron_str_skip(&line, RON_STR_LIT("extra "))) {
        if (line.len > EXTRA_TEXT_MAX) {
            return ron_err_set(err, RON_LIMIT, "extra data of a receipt has at most 65535 bytes");
        }
        if (!base64_valid(line)) {
            return ron_err_set(err, RON_CORRUPT, "the extra data is not base64");
        }
        r.extra = line;
        if (!ron_str_line(&bytes, &line)) {
            return ron_err_set(err, RON_CORRUPT, "a receipt has an index");
        }
    }
    if (!ron_str_skip(&line, RON_STR_LIT("index ")) ||
        !ron_str_u64(line, RON_TREE_SIZE_MAX - 1, &r.index)) {
        return ron_err_set(err, RON_CORRUPT, "the index of a receipt is a decimal");
    }
    RON_TRY(read_proof(&bytes, &r.proof, err));
    r.checkpoint = bytes;
    RON_TRY(led_note_read(bytes, &note, err));
    RON_TRY(led_checkpoint_read(note.text, &checkpoint, err));
    *ret_receipt = r;
    return RON_OK;
}

enum ron_rc led_receipt_extra(const struct led_receipt *receipt, struct ron_buf *out,
                              struct ron_err *err)
{
    uint8_t *room;
    size_t size = receipt->extra.len / 4 * 3;
    size_t len = 0;

    if (receipt->extra.len == 0) {
        return ron_err_set(err, RON_NOTFOUND, "the receipt has no extra data");
    }
    if (ron_buf_reserve(out, size, &room) != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "no room for the extra data");
    }
    if (!ron_base64_read(receipt->extra, RON_BASE64_PADDED, room, size, &len)) {
        return ron_err_set(err, RON_CORRUPT, "the extra data is not base64");
    }
    ron_buf_commit(out, len);
    return RON_OK;
}

enum ron_rc led_receipt_verify(const struct led_receipt *receipt, struct ron_str leaf,
                               const struct led_trust *trust, struct led_checkpoint *ret_checkpoint,
                               struct ron_err *err)
{
    struct led_checkpoint checkpoint = {0};
    struct ron_tree_hash hash;

    RON_TRY(led_checkpoint_open(receipt->checkpoint, trust, &checkpoint, err));
    ron_tree_hash_leaf(leaf.ptr, leaf.len, &hash);
    if (!ron_proof_includes(receipt->proof.hashes, receipt->proof.count, receipt->index,
                            checkpoint.size, &hash, &checkpoint.root)) {
        return ron_err_set(err, RON_DENIED, "the proof does not lead from the entry to the root");
    }
    if (ret_checkpoint != NULL) {
        *ret_checkpoint = checkpoint;
    }
    return RON_OK;
}
