/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c - a token for human eyes, as text and as JSON.
 *
 * Place: cap. Invariant: neither the signature nor anything derived from it is written, so that a
 * listing cannot be used as a token. Bytes of the token reach a terminal only when they are
 * printable ASCII; others become \xNN, and a backslash becomes \x5c. */
#include <string.h>

#include "cap/cap_priv.h"

/* Four characters for each byte, and its NUL. */
enum { SHOWN_SIZE = 4 * RON_CAP_RAW_MAX + 2 };

static const char *verdict_of(struct ron_str caveat)
{
    struct ron_cap_caveat c;
    enum ron_cap_why why = ron_cap_caveat_parse(caveat.ptr, caveat.len, &c);

    if (why == RON_CAP_OK) {
        return "known";
    }
    return why == RON_CAP_UNKNOWN_CAVEAT ? "unknown" : "malformed";
}

static void put_shown(struct ron_buf *out, struct ron_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if (c < 0x20 || c > 0x7e || c == '\\') {
            ron_buf_append_fmt(out, "\\x%02x", c);
        } else {
            ron_buf_append_byte(out, c);
        }
    }
}

static void put_line(struct ron_buf *out, const char *name, struct ron_str value)
{
    ron_buf_append_fmt(out, "%-11s ", name);
    put_shown(out, value);
    ron_buf_append_byte(out, '\n');
}

enum ron_rc ron_cap_inspect_text(const struct ron_cap_token *token, struct ron_buf *out)
{
    struct ron_str id = ron_cap_str(token, token->identifier);
    struct ron_str key_id;
    struct ron_str nonce;

    ron_buf_append_fmt(out, "%-11s v%d\n", "form", (int)token->form);
    put_line(out, "location", ron_cap_str(token, token->location));
    put_line(out, "identifier", id);
    if (ron_cap_id_split(id, &key_id, &nonce)) {
        put_line(out, "key", key_id);
    }
    for (size_t i = 0; i < token->caveat_count; i++) {
        struct ron_str caveat = ron_cap_str(token, token->caveats[i]);
        const char *verdict = verdict_of(caveat);

        ron_buf_append_fmt(out, "%-11s ", "caveat");
        put_shown(out, caveat);
        if (strcmp(verdict, "known") != 0) {
            ron_buf_append_fmt(out, "   (%s: denies)", verdict);
        }
        ron_buf_append_byte(out, '\n');
    }
    return ron_buf_error(out);
}

static void json_shown(struct ron_json_writer *w, const char *name, struct ron_str value)
{
    char memory[SHOWN_SIZE];
    struct ron_buf shown;

    ron_buf_init_over(&shown, memory, sizeof memory);
    put_shown(&shown, value);
    ron_json_str(
        w, name,
        (struct ron_str){.ptr = (const char *)ron_buf_data(&shown), .len = ron_buf_len(&shown)});
}

enum ron_rc ron_cap_inspect_json(const struct ron_cap_token *token, struct ron_buf *out)
{
    struct ron_str id = ron_cap_str(token, token->identifier);
    struct ron_str key_id;
    struct ron_str nonce;
    struct ron_json_writer w;

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "form", token->form == RON_CAP_V2 ? "v2" : "v1");
    json_shown(&w, "location", ron_cap_str(token, token->location));
    json_shown(&w, "identifier", id);
    if (ron_cap_id_split(id, &key_id, &nonce)) {
        json_shown(&w, "key", key_id);
    } else {
        ron_json_null(&w, "key");
    }
    ron_json_open(&w, "caveats", '[');
    for (size_t i = 0; i < token->caveat_count; i++) {
        struct ron_str caveat = ron_cap_str(token, token->caveats[i]);

        ron_json_open(&w, NULL, '{');
        json_shown(&w, "text", caveat);
        ron_json_text(&w, "is", verdict_of(caveat));
        ron_json_close(&w, '}');
    }
    ron_json_close(&w, ']');
    ron_json_close(&w, '}');
    return ron_buf_error(out);
}
