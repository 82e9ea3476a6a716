/* SPDX-License-Identifier: Apache-2.0 */
/* audit/proof/note.c - reading and verifying notes, checkpoints and receipts; see note.h. */
#include "audit/proof/note.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/macros.h"

enum { TYPE_ED25519 = 1, TYPE_COSIGNATURE = 4, SIG_BYTES = 64, ID_BYTES = 4, TIME_BYTES = 8 };

/* ---- pieces ---------------------------------------------------------------------------------- */

static int sextet(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

size_t aud_base64(struct ron_str text, uint8_t *to, size_t max)
{
    size_t pad = 0;
    size_t count = 0;

    if (text.len == 0 || text.len % 4 != 0) {
        return SIZE_MAX;
    }
    while (pad < 2 && text.ptr[text.len - 1 - pad] == '=') {
        pad++;
    }
    for (size_t i = 0; i < text.len; i += 4) {
        size_t last = i + 4 == text.len ? pad : 0;
        uint32_t bits = 0;

        for (size_t k = 0; k < 4; k++) {
            int v = k >= 4 - last ? 0 : sextet(text.ptr[i + k]);

            if (v < 0) {
                return SIZE_MAX;
            }
            bits = bits << 6 | (uint32_t)v;
        }
        /* The bits that padding leaves over are 0. */
        if ((last == 1 && (bits & 0xff) != 0) || (last == 2 && (bits & 0xffff) != 0) ||
            max - count < 3 - last) {
            return SIZE_MAX;
        }
        for (size_t k = 0; k < 3 - last; k++) {
            to[count++] = (uint8_t)(bits >> (16 - 8 * k));
        }
    }
    return count;
}

/* Cuts the first line, without its newline, off `rest`. False when there is none. */
static bool next_line(struct ron_str *rest, struct ron_str *ret_line)
{
    const char *end = rest->len > 0 ? memchr(rest->ptr, '\n', rest->len) : NULL;

    if (end == NULL) {
        return false;
    }
    *ret_line = (struct ron_str){rest->ptr, (size_t)(end - rest->ptr)};
    *rest = (struct ron_str){end + 1, rest->len - ret_line->len - 1};
    return true;
}

/* `0|[1-9][0-9]*`, below 2^63. */
static bool read_number(struct ron_str text, uint64_t *ret)
{
    uint64_t v = 0;

    if (text.len == 0 || text.len > 19 || (text.len > 1 && text.ptr[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        v = v * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *ret = v;
    return v <= INT64_MAX;
}

static bool read_hash(struct ron_str text, struct aud_hash *ret)
{
    struct aud_hash h;

    if (aud_base64(text, h.bytes, sizeof h.bytes) != sizeof h.bytes) {
        return false;
    }
    *ret = h;
    return true;
}

static bool is_space(const char *p, size_t len)
{
    /* What Unicode calls White_Space, beyond ASCII. */
    static const char *const spaces[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
        "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
        "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80",
    };

    for (size_t i = 0; i < RON_ARRAY_LEN(spaces); i++) {
        if (strlen(spaces[i]) == len && memcmp(spaces[i], p, len) == 0) {
            return true;
        }
    }
    return len == 1 && (uint8_t)*p <= ' ';
}

static bool name_valid(struct ron_str name)
{
    size_t n;

    if (name.len == 0 || name.len > AUD_VKEY_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.len; i += n) {
        n = ron_utf8_len(name.ptr + i, name.ptr + name.len);
        if (n == 0 || name.ptr[i] == '+' || name.ptr[i] == 0x7f || is_space(name.ptr + i, n)) {
            return false;
        }
    }
    return true;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void key_id(const struct aud_vkey *k, uint8_t ret_id[ID_BYTES])
{
    uint8_t typed[2 + sizeof k->key] = {'\n', k->type};
    struct aud_hash h;

    memcpy(typed + 2, k->key, sizeof k->key);
    aud_hash_two(k->name, k->name_len, typed, sizeof typed, &h);
    memcpy(ret_id, h.bytes, ID_BYTES);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

const char *aud_vkey_read(struct ron_str text, struct aud_vkey *ret_key)
{
    struct aud_vkey k = {0};
    const char *plus = text.len > 0 ? memchr(text.ptr, '+', text.len) : NULL;
    size_t name_len = plus != NULL ? (size_t)(plus - text.ptr) : 0;
    uint8_t typed[1 + sizeof k.key];
    uint8_t id[ID_BYTES];

    if (plus == NULL || !name_valid((struct ron_str){text.ptr, name_len}) ||
        text.len < name_len + 10 || plus[9] != '+') {
        return "no verifier key: it is NAME+ID+BASE64";
    }
    for (size_t i = 0; i < ID_BYTES; i++) {
        int high = hex_digit(plus[1 + 2 * i]);
        int low = hex_digit(plus[2 + 2 * i]);

        if (high < 0 || low < 0) {
            return "the key's id is not 8 hex digits";
        }
        k.id[i] = (uint8_t)(high << 4 | low);
    }
    if (aud_base64((struct ron_str){plus + 10, text.len - name_len - 10}, typed, sizeof typed) !=
        sizeof typed) {
        return "the key is not 33 bytes of base64";
    }
    k.name_len = (uint8_t)name_len;
    memcpy(k.name, text.ptr, name_len);
    k.type = typed[0];
    memcpy(k.key, typed + 1, sizeof k.key);
    if (k.type != TYPE_ED25519 && k.type != TYPE_COSIGNATURE) {
        return "a key of an unknown type";
    }
    key_id(&k, id);
    if (memcmp(id, k.id, ID_BYTES) != 0) {
        return "the key's id is not that of its name and bytes";
    }
    *ret_key = k;
    return NULL;
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* U+2014, name, base64. */
static bool read_sig(struct ron_str line, struct ron_str *ret_name, struct ron_str *ret_base64)
{
    static const char dash[] = "\xe2\x80\x94 ";
    const char *space;

    if (line.len < 5 || memcmp(line.ptr, dash, 4) != 0) {
        return false;
    }
    line = (struct ron_str){line.ptr + 4, line.len - 4};
    space = memchr(line.ptr, ' ', line.len);
    if (space == NULL) {
        return false;
    }
    *ret_name = (struct ron_str){line.ptr, (size_t)(space - line.ptr)};
    *ret_base64 = (struct ron_str){space + 1, line.len - ret_name->len - 1};
    return name_valid(*ret_name);
}

const char *aud_note_read(struct ron_str bytes, struct aud_note *ret_note)
{
    struct aud_note note = {0};
    struct ron_str rest;
    struct ron_str line;
    struct ron_str name;
    struct ron_str base64;
    size_t count = 0;
    size_t n;

    if (bytes.len > AUD_NOTE_MAX) {
        return "a note has at most 262144 bytes";
    }
    for (size_t i = 0; i < bytes.len; i += n) {
        n = ron_utf8_len(bytes.ptr + i, bytes.ptr + bytes.len);
        if (n == 0 || ((uint8_t)bytes.ptr[i] < ' ' && bytes.ptr[i] != '\n')) {
            return "a note is UTF-8 without control characters";
        }
    }
    /* The text ends before the last empty line. */
    for (size_t i = bytes.len; i > 1; i--) {
        if (bytes.ptr[i - 1] == '\n' && bytes.ptr[i - 2] == '\n') {
            note.text = (struct ron_str){bytes.ptr, i - 1};
            note.sigs = (struct ron_str){bytes.ptr + i, bytes.len - i};
            break;
        }
    }
    if (note.sigs.len == 0 || note.sigs.ptr[note.sigs.len - 1] != '\n') {
        return "a note ends with an empty line and signature lines";
    }
    for (rest = note.sigs; next_line(&rest, &line); count++) {
        uint8_t sig[AUD_SIG_BYTES_MAX];
        size_t len;

        if (!read_sig(line, &name, &base64) || count == AUD_SIGS_MAX) {
            return "a malformed signature line, or more than 64";
        }
        len = aud_base64(base64, sig, sizeof sig);
        if (len == SIZE_MAX || len <= ID_BYTES) {
            return "a signature that is not base64 of a key id and bytes";
        }
    }
    *ret_note = note;
    return NULL;
}

static bool verify_sig(const struct aud_note *note, const struct aud_vkey *key, const uint8_t *sig,
                       size_t len, uint64_t *ret_time_s)
{
    /* A head that is signed before the text; the text follows in a buffer of its own size. */
    static const char cosign[] = "cosignature/v1\ntime ";
    uint8_t message[sizeof cosign + 24 + AUD_NOTE_MAX];
    size_t head = 0;

    if (key->type == TYPE_COSIGNATURE) {
        if (len != ID_BYTES + TIME_BYTES + SIG_BYTES) {
            return false;
        }
        *ret_time_s = aud_u64(sig + ID_BYTES);
        head = (size_t)snprintf((char *)message, sizeof message, "%s%llu\n", cosign,
                                (unsigned long long)*ret_time_s);
        sig += TIME_BYTES;
    } else if (len != ID_BYTES + SIG_BYTES) {
        return false;
    }
    if (note->text.len > AUD_NOTE_MAX) {
        return false;
    }
    memcpy(message + head, note->text.ptr, note->text.len);
    return crypto_sign_verify_detached(sig + ID_BYTES, message, head + note->text.len, key->key) ==
           0;
}

enum aud_verdict aud_note_verify(const struct aud_note *note, const struct aud_vkey *key,
                                 uint64_t *ret_time_s)
{
    enum aud_verdict verdict = AUD_NOT_SIGNED;
    struct ron_str rest = note->sigs;
    struct ron_str line;
    uint64_t time_s = 0;

    while (next_line(&rest, &line)) {
        uint8_t sig[AUD_SIG_BYTES_MAX];
        struct ron_str name;
        struct ron_str base64;
        size_t len;

        if (!read_sig(line, &name, &base64)) {
            return AUD_FORGED;
        }
        len = aud_base64(base64, sig, sizeof sig);
        if (len == SIZE_MAX || len <= ID_BYTES ||
            !aud_str_equal(name, (struct ron_str){key->name, key->name_len}) ||
            memcmp(sig, key->id, ID_BYTES) != 0) {
            continue;
        }
        if (verdict != AUD_NOT_SIGNED || !verify_sig(note, key, sig, len, &time_s)) {
            return AUD_FORGED;
        }
        verdict = AUD_SIGNED;
    }
    if (verdict == AUD_SIGNED && ret_time_s != NULL) {
        *ret_time_s = time_s;
    }
    return verdict;
}

/* ---- checkpoints and receipts ---------------------------------------------------------------- */

const char *aud_checkpoint_read(struct ron_str text, struct aud_checkpoint *ret_checkpoint)
{
    struct aud_checkpoint c;
    struct ron_str rest = text;
    struct ron_str line;

    if (!next_line(&rest, &c.origin) || c.origin.len == 0) {
        return "the first line of a checkpoint is its origin";
    }
    if (!next_line(&rest, &line) || !read_number(line, &c.size)) {
        return "the second line of a checkpoint is the size";
    }
    if (!next_line(&rest, &line) || !read_hash(line, &c.root)) {
        return "the third line of a checkpoint is base64 of the root";
    }
    while (rest.len > 0) {
        if (!next_line(&rest, &line) || line.len == 0) {
            return "an empty or unfinished line in a checkpoint";
        }
    }
    *ret_checkpoint = c;
    return NULL;
}

static bool starts(struct ron_str *line, const char *with)
{
    size_t len = strlen(with);

    if (line->len < len || memcmp(line->ptr, with, len) != 0) {
        return false;
    }
    *line = (struct ron_str){line->ptr + len, line->len - len};
    return true;
}

const char *aud_receipt_read(struct ron_str bytes, struct aud_receipt *ret_receipt)
{
    struct aud_receipt r = {0};
    struct ron_str rest = bytes;
    struct ron_str line;

    if (bytes.len > AUD_RECEIPT_MAX) {
        return "more than 524288 bytes";
    }
    if (!next_line(&rest, &line) || !ron_str_is(line, "c2sp.org/tlog-proof@v1")) {
        return "another first line than c2sp.org/tlog-proof@v1";
    }
    if (!next_line(&rest, &line)) {
        return "the receipt ends too early";
    }
    if (starts(&line, "extra ")) {
        r.extra = line;
        if (!next_line(&rest, &line)) {
            return "the receipt ends too early";
        }
    }
    if (!starts(&line, "index ") || !read_number(line, &r.index)) {
        return "no line `index N`";
    }
    for (;;) {
        if (!next_line(&rest, &line)) {
            return "the receipt ends before its checkpoint";
        }
        if (line.len == 0) {
            break;
        }
        if (r.proof_count == AUD_PROOF_MAX || !read_hash(line, &r.proof[r.proof_count])) {
            return "a line that is no hash, or more than 64";
        }
        r.proof_count++;
    }
    r.note = rest;
    *ret_receipt = r;
    return NULL;
}
