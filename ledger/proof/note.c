/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/proof/note.c - signing, reading and verifying notes.
 *
 * The message that is signed is the text itself for type 1; for a cosignature it has two lines in
 * front. libsodium can sign in pieces only in another scheme (Ed25519ph), so the message of a
 * cosignature is put together in a bounded buffer: the text of a checkpoint is short. */
#include "ledger/proof/note.h"

#include <sodium.h>

#include "ron/base/assert.h"
#include "ron/base/bytes.h"
#include "ron/base/hex.h"
#include "ron/merkle/lines.h"

#define EM_DASH "\xe2\x80\x94 "

enum {
    ID_BYTES = 4,
    TIME_BYTES = 8,
    COSIGNED_HEAD_MAX = 48, /* "cosignature/v1\ntime 9223372036854775807\n" */
    RAW_MAX = ID_BYTES + TIME_BYTES + crypto_sign_BYTES,
};

/* ---- Signing --------------------------------------------------------------------------------- */

/* The message of a cosignature, in a buffer of its own. */
static enum ron_rc cosigned(struct ron_str text, uint64_t time_s, struct ron_buf *out)
{
    ron_buf_init(out, LED_NOTE_BYTES_MAX + COSIGNED_HEAD_MAX);
    RON_IGNORE(ron_buf_append_fmt(out, "cosignature/v1\ntime %llu\n", (unsigned long long)time_s));
    return ron_buf_append(out, text.ptr, text.len); /* the first failure sticks */
}

static enum ron_rc sign_raw(struct ron_str text, const struct ron_note_signer *signer,
                            uint64_t time_s, uint8_t raw[RAW_MAX], size_t *ret_len)
{
    size_t at = ID_BYTES;
    struct ron_buf message = {0};
    enum ron_rc rc = RON_OK;

    (void)ron_put_be32(raw, signer->key.id);
    if (signer->key.type == RON_NOTE_COSIGNATURE) {
        rc = cosigned(text, time_s, &message);
        (void)ron_put_be64(raw + at, time_s);
        at += TIME_BYTES;
        text = (struct ron_str){.ptr = (const char *)ron_buf_data(&message),
                                .len = ron_buf_len(&message)};
    }
    if (rc == RON_OK) {
        (void)crypto_sign_detached(raw + at, NULL, (const uint8_t *)text.ptr, text.len,
                                   signer->secret_key);
        *ret_len = at + crypto_sign_BYTES;
    }
    ron_buf_done(&message);
    return rc;
}

enum ron_rc led_note_sign_line(struct ron_str text, const struct ron_note_signer *signer,
                               uint64_t time_s, struct ron_buf *out, struct ron_err *err)
{
    uint8_t raw[RAW_MAX];
    size_t raw_len = 0;

    if (text.len == 0 || text.ptr[text.len - 1] != '\n' || !ron_text_valid(text)) {
        return ron_err_set(err, RON_INVALID, "the text of a note is lines of UTF-8");
    }
    if (text.len > LED_NOTE_BYTES_MAX || time_s > (uint64_t)INT64_MAX) {
        return ron_err_set(err, RON_LIMIT, "the text or time of a note is too large");
    }
    if (sign_raw(text, signer, time_s, raw, &raw_len) != RON_OK) {
        return ron_err_set(err, RON_NOMEM, "no memory for the message of a cosignature");
    }
    RON_IGNORE(ron_buf_append_text(out, EM_DASH));
    RON_IGNORE(ron_buf_append(out, signer->key.name, signer->key.name_len));
    RON_IGNORE(ron_buf_append_byte(out, ' '));
    RON_IGNORE(ron_base64_write(out, raw, raw_len));
    if (ron_buf_append_byte(out, '\n') != RON_OK) { /* the first failure sticks */
        return ron_err_set(err, ron_buf_error(out), "no room for a signature");
    }
    return RON_OK;
}

enum ron_rc led_note_sign(struct ron_str text, const struct ron_note_signer *signer,
                          uint64_t time_s, struct ron_buf *out, struct ron_err *err)
{
    RON_IGNORE(ron_buf_append(out, text.ptr, text.len));
    if (ron_buf_append_byte(out, '\n') != RON_OK) {
        return ron_err_set(err, ron_buf_error(out), "no room for a note");
    }
    return led_note_sign_line(text, signer, time_s, out, err);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static enum ron_rc read_sig(struct ron_str line, struct led_note_sig *ret_sig, struct ron_err *err)
{
    uint8_t raw[LED_NOTE_SIG_BYTES_MAX];
    struct led_note_sig sig;
    size_t len = 0;

    if (!ron_str_skip(&line, RON_STR_LIT(EM_DASH)) ||
        !ron_str_cut(line, ' ', &sig.name, &sig.base64) || !ron_note_name_valid(sig.name)) {
        return ron_err_set(err, RON_CORRUPT, "a signature line is: em dash, name, base64");
    }
    if (sig.base64.len > sodium_base64_ENCODED_LEN(sizeof raw, sodium_base64_VARIANT_ORIGINAL)) {
        return ron_err_set(err, RON_LIMIT, "a signature has at most %d bytes",
                           LED_NOTE_SIG_BYTES_MAX);
    }
    if (!ron_base64_read(sig.base64, RON_BASE64_PADDED, raw, sizeof raw, &len) || len <= ID_BYTES) {
        return ron_err_set(err, RON_CORRUPT, "a signature is base64 of more than 4 bytes");
    }
    sig.id = ron_get_be32(raw);
    *ret_sig = sig;
    return RON_OK;
}

/* The offset behind the last empty line, or 0: a text is not empty. */
static size_t find_sigs(struct ron_str bytes)
{
    for (size_t i = bytes.len; i-- > 2;) {
        if (bytes.ptr[i - 1] == '\n' && bytes.ptr[i - 2] == '\n') {
            return i;
        }
    }
    return 0;
}

enum ron_rc led_note_read(struct ron_str bytes, struct led_note *ret_note, struct ron_err *err)
{
    struct led_note note = {0};
    size_t at;
    struct ron_str rest;
    struct ron_str line;

    if (bytes.len > LED_NOTE_BYTES_MAX) {
        return ron_err_set(err, RON_LIMIT, "a note has at most %d bytes", LED_NOTE_BYTES_MAX);
    }
    at = find_sigs(bytes);
    if (at == 0 || bytes.ptr[bytes.len - 1] != '\n' || !ron_text_valid(bytes)) {
        return ron_err_set(err, RON_CORRUPT,
                           "a note is lines of UTF-8, an empty line, and signature lines");
    }
    rest = (struct ron_str){.ptr = bytes.ptr + at, .len = bytes.len - at};
    while (ron_str_line(&rest, &line)) {
        if (note.sig_count == LED_NOTE_SIGS_MAX) {
            return ron_err_set(err, RON_LIMIT, "a note has at most %d signatures",
                               LED_NOTE_SIGS_MAX);
        }
        RON_TRY(read_sig(line, &note.sigs[note.sig_count], err));
        note.sig_count++;
    }
    RON_ASSERT(note.sig_count > 0); /* something follows the empty line, and ends in a newline */
    note.text = (struct ron_str){.ptr = bytes.ptr, .len = at - 1};
    *ret_note = note;
    return RON_OK;
}

/* ---- Verifying ------------------------------------------------------------------------------- */

static bool by_key(const struct led_note_sig *sig, const struct ron_note_key *key)
{
    return sig->id == key->id &&
           ron_str_equal(sig->name, (struct ron_str){.ptr = key->name, .len = key->name_len});
}

static bool verify_message(struct ron_str message, const uint8_t *signature,
                           const struct ron_note_key *key)
{
    return crypto_sign_verify_detached(signature, (const uint8_t *)message.ptr, message.len,
                                       key->public_key) == 0;
}

static bool verify_sig(struct ron_str text, const struct led_note_sig *sig,
                       const struct ron_note_key *key, uint64_t *ret_time_s)
{
    uint8_t raw[RAW_MAX];
    size_t len = 0;
    size_t head = key->type == RON_NOTE_COSIGNATURE ? ID_BYTES + TIME_BYTES : ID_BYTES;
    uint64_t time_s = 0;
    struct ron_buf message = {0};
    bool good;

    if (!ron_base64_read(sig->base64, RON_BASE64_PADDED, raw, sizeof raw, &len) ||
        len != head + crypto_sign_BYTES) {
        return false;
    }
    if (key->type == RON_NOTE_COSIGNATURE) {
        time_s = ron_get_be64(raw + ID_BYTES);
        /* Without memory it counts as not verified: closed, not open. */
        if (time_s > (uint64_t)INT64_MAX || cosigned(text, time_s, &message) != RON_OK) {
            ron_buf_done(&message);
            return false;
        }
        text = (struct ron_str){.ptr = (const char *)ron_buf_data(&message),
                                .len = ron_buf_len(&message)};
    }
    good = verify_message(text, raw + head, key);
    ron_buf_done(&message);
    if (good) {
        *ret_time_s = time_s;
    }
    return good;
}

enum led_note_verdict led_note_verify(const struct led_note *note, const struct ron_note_key *key,
                                      uint64_t *ret_time_s)
{
    enum led_note_verdict verdict = LED_NOTE_ABSENT;
    uint64_t time_s = 0;

    for (size_t i = 0; i < note->sig_count; i++) {
        if (!by_key(&note->sigs[i], key)) {
            continue;
        }
        if (verdict != LED_NOTE_ABSENT || !verify_sig(note->text, &note->sigs[i], key, &time_s)) {
            return LED_NOTE_BAD;
        }
        verdict = LED_NOTE_GOOD;
    }
    if (verdict == LED_NOTE_GOOD && ret_time_s != NULL) {
        *ret_time_s = time_s;
    }
    return verdict;
}

enum ron_rc led_note_check(const struct led_note *note, const struct ron_note_key *keys,
                           size_t key_count, size_t needed, struct ron_err *err)
{
    size_t good = 0;

    for (size_t i = 0; i < key_count; i++) {
        switch (led_note_verify(note, &keys[i], NULL)) {
        case LED_NOTE_GOOD:
            good++;
            break;
        case LED_NOTE_BAD:
            return ron_err_set(err, RON_DENIED, "the signature by %.100s is wrong", keys[i].name);
        case LED_NOTE_ABSENT:
            break;
        }
    }
    if (good < needed) {
        return ron_err_set(err, RON_DENIED, "%zu of the known keys signed, %zu are needed", good,
                           needed);
    }
    return RON_OK;
}

/* ---- Adding what a witness signed ------------------------------------------------------------ */

static enum ron_rc check_new(const struct led_note *note, const struct led_note_sig *sig,
                             const struct ron_note_key *keys, size_t key_count, struct ron_err *err)
{
    const struct ron_note_key *key = NULL;
    uint64_t time_s;

    for (size_t i = 0; i < key_count && key == NULL; i++) {
        key = by_key(sig, &keys[i]) ? &keys[i] : NULL;
    }
    if (key == NULL) {
        return ron_err_set(err, RON_NOTFOUND, "the signature is by an unknown key");
    }
    for (size_t i = 0; i < note->sig_count; i++) {
        if (by_key(&note->sigs[i], key)) {
            return ron_err_set(err, RON_EXISTS, "%.100s has signed already", key->name);
        }
    }
    if (!verify_sig(note->text, sig, key, &time_s)) {
        return ron_err_set(err, RON_DENIED, "the signature by %.100s is wrong", key->name);
    }
    return RON_OK;
}

enum ron_rc led_note_attach(struct ron_buf *bytes, struct ron_str line,
                            const struct ron_note_key *keys, size_t key_count, struct ron_err *err)
{
    struct led_note note = {0};
    struct led_note_sig sig = {0};
    uint8_t *room;

    if (line.len > 0 && line.ptr[line.len - 1] == '\n') {
        line.len--;
    }
    RON_TRY(led_note_read(
        (struct ron_str){.ptr = (const char *)ron_buf_data(bytes), .len = ron_buf_len(bytes)},
        &note, err));
    if (note.sig_count == LED_NOTE_SIGS_MAX) {
        return ron_err_set(err, RON_LIMIT, "a note has at most %d signatures", LED_NOTE_SIGS_MAX);
    }
    RON_TRY(read_sig(line, &sig, err));
    RON_TRY(check_new(&note, &sig, keys, key_count, err));
    if (ron_buf_reserve(bytes, line.len + 1, &room) != RON_OK) {
        return ron_err_set(err, ron_buf_error(bytes), "no room for a signature");
    }
    memcpy(room, line.ptr, line.len);
    room[line.len] = '\n';
    ron_buf_commit(bytes, line.len + 1);
    return RON_OK;
}
