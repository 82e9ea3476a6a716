/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/sign_file.c - the files of a signer: the key (one line, PRIVATE+KEY+...) and the
 * checkpoint that was published last (a signed note).
 *
 * Files are replaced whole, so each holds the old or the new content. Nothing is retried. */
#include <string.h>

#include "ledger/publish/sign_priv.h"
#include "ron/io/file.h"

/* The key of the file, which must be that of the origin. */
static enum ron_rc read_key(const struct led_signer_opts *o, struct ron_note_signer *ret_key,
                            struct ron_err *err)
{
    struct ron_note_signer key = {0};
    enum ron_rc rc = ron_note_signer_load(o->env, o->key_path, &key, err);

    RON_TRY(rc);
    if (o->origin.len > 0 &&
        !ron_str_equal(o->origin, (struct ron_str){.ptr = key.key.name, .len = key.key.name_len})) {
        rc = ron_err_set(err, RON_CONFLICT, "%s is the key of %.100s, not of the origin %.*s",
                         o->key_path, key.key.name, (int)RON_MIN(o->origin.len, (size_t)100),
                         o->origin.ptr);
    } else {
        *ret_key = key;
    }
    ron_note_signer_done(&key);
    return rc;
}

enum ron_rc led__sign_key_open(const struct led_signer_opts *o, bool published,
                               struct ron_note_signer *ret_key, struct ron_err *err)
{
    struct ron_note_signer key = {0};
    struct ron_err absent = {0};
    enum ron_rc rc;

    if (o->key_path == NULL) {
        return ron_note_signer_new(o->env, o->origin, ret_key, err);
    }
    rc = read_key(o, ret_key, &absent);
    if (rc != RON_NOTFOUND || o->key_must_exist) {
        return rc == RON_OK ? rc : ron_err_set(err, rc, "%s", absent.msg);
    }
    if (published) { /* G5 */
        return ron_err_set(err, RON_CONFLICT, "%s is missing, and %s was signed with it",
                           o->key_path, o->checkpoint_path);
    }
    RON_TRY(ron_note_signer_new(o->env, o->origin, &key, err));
    rc = ron_note_signer_save(o->env, o->key_path, &key, err);
    if (rc == RON_OK) {
        *ret_key = key;
    }
    ron_note_signer_done(&key);
    return rc;
}

enum ron_rc led__sign_note_load(const struct ron_env *env, const char *path,
                                struct led_sign_note *ret_note, struct ron_err *err)
{
    char memory[LED_SIGN_NOTE_SIZE];
    struct led_checkpoint c = {0};
    struct led_note note = {0};
    struct ron_str bytes;
    struct ron_buf buf;
    enum ron_rc rc;

    ron_buf_init_over(&buf, memory, sizeof memory);
    RON_TRY(ron_file_read_all(env, path, &buf, err));
    bytes =
        (struct ron_str){.ptr = (const char *)ron_buf_data(&buf), .len = (size_t)ron_buf_len(&buf)};
    rc = led_note_read(bytes, &note, err);
    if (rc == RON_OK) {
        rc = led_checkpoint_read(note.text, &c, err);
    }
    if (rc != RON_OK) {
        if (err != NULL) {
            ron_err_prefix(err, "%s", path);
        }
        return rc;
    }
    ret_note->size = c.size;
    ret_note->root = c.root;
    ret_note->witnesses = 0;
    ret_note->len = (uint32_t)bytes.len;
    memcpy(ret_note->bytes, bytes.ptr, bytes.len);
    return RON_OK;
}

enum ron_rc led_checkpoint_file_read(const struct ron_env *env, const char *path,
                                     uint64_t *ret_size, struct ron_tree_hash *ret_root,
                                     struct ron_err *err)
{
    struct led_sign_note note;

    RON_TRY(led__sign_note_load(env, path, &note, err));
    *ret_size = note.size;
    *ret_root = note.root;
    return RON_OK;
}
