/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_led_note.c - any bytes as a signed note, a checkpoint, a key, or the path of a tile.
 *
 * The first byte chooses the door: n note, c text of a checkpoint, k verifier key, s signer key,
 * p path of a tile, b bundle of entries.
 * Oracle: what is read is written again as the same bytes (upper-case hex digits of a key's id
 * apart); the parts of a note cover it; a note of a stranger is believed by no key of ours, and a
 * line of ours can be attached to it when it has room. */
#include <stdint.h>
#include <string.h>

#include "ledger/proof/checkpoint.h"
#include "ledger/proof/tile.h"
#include "merkle/note_priv.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const struct ron_buf *buf, struct ron_str s)
{
    return ron_str_equal(
        (struct ron_str){.ptr = (const char *)ron_buf_data(buf), .len = ron_buf_len(buf)}, s);
}

static void try_attach(struct ron_str bytes, const struct led_note *note)
{
    static const uint8_t seed[RON_NOTE_SEED_BYTES] = {7};
    struct ron_note_signer signer;
    struct led_note more;
    struct ron_buf copy;
    struct ron_buf line;
    uint64_t time_s = 0;

    RON_ASSERT(ron_note_signer_make(RON_STR_LIT("fuzz.example"), RON_NOTE_COSIGNATURE, seed,
                                    &signer, NULL) == RON_OK);
    RON_ASSERT(led_note_verify(note, &signer.key, &time_s) != LED_NOTE_GOOD);
    ron_buf_init(&copy, LED_NOTE_BYTES_MAX * 2);
    ron_buf_init(&line, LED_NOTE_BYTES_MAX);
    RON_ASSERT(ron_buf_append(&copy, bytes.ptr, bytes.len) == RON_OK);
    RON_ASSERT(led_note_sign_line(note->text, &signer, 12345, &line, NULL) == RON_OK);
    if (note->sig_count < LED_NOTE_SIGS_MAX && bytes.len < LED_NOTE_BYTES_MAX - 1000) {
        struct ron_str text = {.ptr = ron_buf_text(&line), .len = ron_buf_len(&line)};

        RON_ASSERT(led_note_attach(&copy, text, &signer.key, 1, NULL) == RON_OK);
        RON_ASSERT(
            led_note_read((struct ron_str){.ptr = ron_buf_text(&copy), .len = ron_buf_len(&copy)},
                          &more, NULL) == RON_OK);
        RON_ASSERT(ron_str_equal(more.text, note->text));
        RON_ASSERT(led_note_verify(&more, &signer.key, &time_s) == LED_NOTE_GOOD);
        RON_ASSERT(time_s == 12345);
    }
    ron_buf_done(&copy);
    ron_buf_done(&line);
}

static void try_note(struct ron_str bytes)
{
    struct led_note note;
    struct ron_buf again;

    if (led_note_read(bytes, &note, NULL) != RON_OK) {
        return;
    }
    ron_buf_init(&again, LED_NOTE_BYTES_MAX);
    RON_IGNORE(ron_buf_append(&again, note.text.ptr, note.text.len));
    RON_IGNORE(ron_buf_append_byte(&again, '\n'));
    for (size_t i = 0; i < note.sig_count; i++) {
        RON_ASSERT(ron_note_name_valid(note.sigs[i].name));
        RON_IGNORE(ron_buf_append_text(&again, "\xe2\x80\x94 "));
        RON_IGNORE(ron_buf_append(&again, note.sigs[i].name.ptr, note.sigs[i].name.len));
        RON_IGNORE(ron_buf_append_byte(&again, ' '));
        RON_IGNORE(ron_buf_append(&again, note.sigs[i].base64.ptr, note.sigs[i].base64.len));
        RON_IGNORE(ron_buf_append_byte(&again, '\n'));
    }
    RON_ASSERT(same(&again, bytes));
    ron_buf_done(&again);
    try_attach(bytes, &note);
}

static void try_checkpoint(struct ron_str text)
{
    struct led_checkpoint c;
    struct ron_buf again;

    if (led_checkpoint_read(text, &c, NULL) == RON_OK) {
        ron_buf_init(&again, text.len + 1);
        RON_ASSERT(led_checkpoint_write(&c, &again, NULL) == RON_OK);
        RON_ASSERT(same(&again, text));
        ron_buf_done(&again);
    }
}

static void try_key(struct ron_str text)
{
    struct ron_note_key key;
    struct ron_note_key back;
    struct ron_buf again;

    if (ron_note_key_read(text, &key, NULL) == RON_OK) {
        ron_buf_init(&again, text.len + 1);
        RON_ASSERT(ron_note_key_write(&key, &again) == RON_OK);
        RON_ASSERT(ron_buf_len(&again) == text.len);
        RON_ASSERT(ron_note_key_read((struct ron_str){.ptr = ron_buf_text(&again), .len = text.len},
                                     &back, NULL) == RON_OK);
        RON_ASSERT(back.id == key.id);
        ron_buf_done(&again);
    }
}

static void try_signer(struct ron_str text)
{
    struct ron_note_signer signer;

    if (ron_note_signer_read(text, &signer, NULL) == RON_OK) {
        ron_note_signer_done(&signer);
    }
}

static void try_path(struct ron_str path)
{
    struct led_tile tile;
    char again[LED_TILE_PATH_SIZE];

    if (led_tile_parse(path, &tile, NULL) == RON_OK) {
        led_tile_path(&tile, again);
        RON_ASSERT(ron_str_is(path, again));
    }
}

static void try_bundle(struct ron_str rest)
{
    struct ron_str entry;

    while (rest.len > 0 && led_bundle_next(&rest, &entry, NULL) == RON_OK) {
        RON_ASSERT(entry.ptr + entry.len == rest.ptr);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ron_str rest = {.ptr = (const char *)data + 1, .len = size - 1};

    if (size < 1) {
        return 0;
    }
    switch (data[0]) {
    case 'n':
        try_note(rest);
        break;
    case 'c':
        try_checkpoint(rest);
        break;
    case 'k':
        try_key(rest);
        break;
    case 's':
        try_signer(rest);
        break;
    case 'p':
        try_path(rest);
        break;
    case 'b':
        try_bundle(rest);
        break;
    default:
        break;
    }
    return 0;
}
