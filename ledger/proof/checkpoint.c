/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/proof/checkpoint.c - checkpoints: text, signature, trust. */
#include "ledger/proof/checkpoint.h"

#include "ron/merkle/lines.h"
#include "ron/merkle/tree.h"

/* Lines that are not empty and carry no control character. */
static bool extensions_valid(struct ron_str rest)
{
    struct ron_str line;

    if (!ron_text_valid(rest)) {
        return false;
    }
    while (rest.len > 0) {
        if (!ron_str_line(&rest, &line) || line.len == 0) {
            return false;
        }
    }
    return true;
}

static bool origin_valid(struct ron_str origin)
{
    return origin.len > 0 && origin.len <= RON_NOTE_NAME_MAX && ron_text_valid(origin) &&
           memchr(origin.ptr, '\n', origin.len) == NULL;
}

static bool root_valid(uint64_t size, const struct ron_tree_hash *root)
{
    struct ron_tree_hash empty;

    ron_tree_hash_empty(&empty);
    return size > 0 || ron_tree_hash_equal(root, &empty);
}

enum ron_rc led_checkpoint_write(const struct led_checkpoint *c, struct ron_buf *out,
                                 struct ron_err *err)
{
    if (!origin_valid(c->origin) || c->size > RON_TREE_SIZE_MAX || !root_valid(c->size, &c->root) ||
        (c->extensions.len > 0 && !extensions_valid(c->extensions))) {
        return ron_err_set(err, RON_INVALID,
                           "a checkpoint has an origin, a size, a root and lines");
    }
    RON_IGNORE(ron_buf_append(out, c->origin.ptr, c->origin.len));
    RON_IGNORE(ron_buf_append_fmt(out, "\n%llu\n", (unsigned long long)c->size));
    RON_IGNORE(ron_tree_hash_write(out, &c->root));
    RON_IGNORE(ron_buf_append_byte(out, '\n'));
    if (ron_buf_append(out, c->extensions.ptr, c->extensions.len) != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "no room for a checkpoint");
    }
    return RON_OK;
}

enum ron_rc led_checkpoint_read(struct ron_str text, struct led_checkpoint *ret_checkpoint,
                                struct ron_err *err)
{
    struct led_checkpoint c;
    struct ron_str size;
    struct ron_str root;

    if (!ron_str_line(&text, &c.origin) || !origin_valid(c.origin)) {
        return ron_err_set(err, RON_CORRUPT, "line 1 of a checkpoint is its origin");
    }
    if (!ron_str_line(&text, &size) || !ron_str_u64(size, RON_TREE_SIZE_MAX, &c.size)) {
        return ron_err_set(err, RON_CORRUPT, "line 2 of a checkpoint is the size of the tree");
    }
    if (!ron_str_line(&text, &root) || !ron_tree_hash_read(root, &c.root) ||
        !root_valid(c.size, &c.root)) {
        return ron_err_set(err, RON_CORRUPT, "line 3 of a checkpoint is the root in base64");
    }
    if (!extensions_valid(text)) {
        return ron_err_set(err, RON_CORRUPT, "an extension line of a checkpoint is empty or bad");
    }
    c.extensions = text;
    *ret_checkpoint = c;
    return RON_OK;
}

enum ron_rc led_checkpoint_sign(const struct led_checkpoint *checkpoint,
                                const struct ron_note_signer *signer, struct ron_buf *out,
                                struct ron_err *err)
{
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init(&text, LED_NOTE_BYTES_MAX);
    rc = led_checkpoint_write(checkpoint, &text, err);
    if (rc == RON_OK) {
        rc = led_note_sign(
            (struct ron_str){.ptr = (const char *)ron_buf_data(&text), .len = ron_buf_len(&text)},
            signer, 0, out, err);
    }
    ron_buf_done(&text);
    return rc;
}

enum ron_rc led_checkpoint_open(struct ron_str bytes, const struct led_trust *trust,
                                struct led_checkpoint *ret_checkpoint, struct ron_err *err)
{
    struct led_checkpoint c = {0};
    struct led_note note = {0};

    RON_TRY(led_note_read(bytes, &note, err));
    RON_TRY(led_checkpoint_read(note.text, &c, err));
    if (!ron_str_equal(c.origin, trust->origin)) {
        return ron_err_set(err, RON_DENIED, "the checkpoint is of another log");
    }
    RON_TRY(led_note_check(&note, trust->log_keys, trust->log_key_count, 1, err));
    RON_TRY(led_note_check(&note, trust->witness_keys, trust->witness_key_count,
                           trust->witnesses_needed, err));
    *ret_checkpoint = c;
    return RON_OK;
}
