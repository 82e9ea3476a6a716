/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: no bytes break the reader of tokens, what it takes is what libmacaroons takes, and caveats,
 * headers and key files of strangers are judged without harm.
 * Method: the first byte of an input chooses the door.
 *   t  the rest is a token's text. Accepted: it is written and read again unchanged, in both forms;
 *      libmacaroons must read the v1 text, and show the same location, identifier and signature. A
 *      caveat added by both gives the same signature.
 *   r  the same for raw bytes, which are put into base64 first.
 *   c  the rest is a caveat; h a header value; k a key file. */
#include <macaroons.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cap/cap_priv.h"
#include "cap/cap_testing.h"
#include "ron/base/assert.h"
#include "ron/cap/cap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_bytes(struct ron_str ours, const unsigned char *theirs, size_t len)
{
    RON_ASSERT(ours.len == len);
    RON_ASSERT(len == 0 || memcmp(ours.ptr, theirs, len) == 0);
}

static void same_signature(const struct ron_cap_token *t, const struct macaroon *m)
{
    const unsigned char *bytes = NULL;
    size_t len = 0;

    macaroon_signature(m, &bytes, &len);
    same_bytes((struct ron_str){.ptr = (const char *)t->signature, .len = RON_CAP_SIG_BYTES}, bytes,
               len);
}

/* `text` is the canonical v1 text of `t`. */
static void compare_with_theirs(const struct ron_cap_token *t, const char *text)
{
    static const char caveat[] = "aud = wallet";
    enum macaroon_returncode code;
    struct macaroon *m = macaroon_deserialize(text, &code);
    struct macaroon *more;
    struct ron_cap_token wider = *t;
    const unsigned char *bytes = NULL;
    size_t len = 0;

    RON_ASSERT(m != NULL);
    RON_ASSERT(macaroon_num_third_party_caveats(m) == 0);
    macaroon_location(m, &bytes, &len);
    same_bytes(ron_cap_str(t, t->location), bytes, len);
    macaroon_identifier(m, &bytes, &len);
    same_bytes(ron_cap_str(t, t->identifier), bytes, len);
    same_signature(t, m);
    if (ron_cap_token_add(&wider, (struct ron_str){.ptr = caveat, .len = sizeof caveat - 1}) ==
        RON_CAP_OK) {
        more = macaroon_add_first_party_caveat(m, (const unsigned char *)caveat, sizeof caveat - 1,
                                               &code);
        RON_ASSERT(more != NULL);
        same_signature(&wider, more);
        macaroon_destroy(more);
    }
    macaroon_destroy(m);
}

static void same_tokens(const struct ron_cap_token *a, const struct ron_cap_token *b)
{
    RON_ASSERT(a->caveat_count == b->caveat_count);
    for (size_t i = 0; i < a->caveat_count; i++) {
        struct ron_str s = ron_cap_str(b, b->caveats[i]);

        same_bytes(ron_cap_str(a, a->caveats[i]), (const unsigned char *)s.ptr, s.len);
    }
    RON_ASSERT(memcmp(a->signature, b->signature, RON_CAP_SIG_BYTES) == 0);
}

static void write_and_read(struct ron_cap_token *t, enum ron_cap_form form)
{
    char memory[RON_CAP_TEXT_MAX + 2];
    struct ron_cap_token again;
    struct ron_buf out;
    enum ron_cap_why why;

    ron_buf_init_over(&out, memory, sizeof memory);
    t->form = form;
    if (ron_cap_token_write(t, &out) != RON_OK) {
        RON_ASSERT(ron_buf_error(&out) ==
                   RON_OK); /* the form is too long, the buffer is not full */
        return;
    }
    why = ron_cap_token_read(ron_buf_text(&out), ron_buf_len(&out), &again);
    RON_ASSERT(why == RON_CAP_OK);
    same_tokens(t, &again);
    if (form == RON_CAP_V1) {
        compare_with_theirs(&again, ron_buf_text(&out));
    }
}

static void try_token(const char *text, size_t len)
{
    static const uint8_t root[RON_CAP_SIG_BYTES] = {1};
    struct ron_cap_token t;
    struct ron_buf listing;

    if (ron_cap_token_read(text, len, &t) != RON_CAP_OK) {
        return;
    }
    RON_ASSERT(!ron_cap_token_signed_by(&t, root));
    ron_buf_init(&listing, 1 << 20);
    RON_ASSERT(ron_cap_inspect_text(&t, &listing) == RON_OK);
    ron_buf_clear(&listing);
    RON_ASSERT(ron_cap_inspect_json(&t, &listing) == RON_OK);
    RON_ASSERT(ron_json_check(ron_buf_text(&listing), ron_buf_len(&listing), NULL) == RON_OK);
    ron_buf_done(&listing);
    write_and_read(&t, t.form);
    write_and_read(&t, t.form == RON_CAP_V1 ? RON_CAP_V2 : RON_CAP_V1);
}

static void try_raw(const uint8_t *bytes, size_t len)
{
    char text[RON_CAP_TEXT_MAX + 1];

    if (len <= RON_CAP_RAW_MAX) {
        (void)sodium_bin2base64(text, sizeof text, bytes, len,
                                sodium_base64_VARIANT_URLSAFE_NO_PADDING);
        try_token(text, strlen(text));
    }
}

static void try_caveat(const char *text, size_t len)
{
    const struct ron_str account = {.ptr = text, .len = len};
    const struct ron_cap_request request = {.audience = {.ptr = "wallet", .len = 6},
                                            .scope = {.ptr = "wallet.transfer", .len = 15},
                                            .accounts = &account,
                                            .account_count = 1};
    struct ron_cap_caveat c;
    enum ron_cap_why why = ron_cap_caveat_parse(text, len, &c);

    if (why == RON_CAP_OK) {
        (void)!ron_cap_caveat_holds(&c, &request);
        RON_ASSERT(c.value.ptr + c.value.len == text + len);
    } else {
        RON_ASSERT(why == RON_CAP_UNKNOWN_CAVEAT || why == RON_CAP_BAD_CAVEAT);
    }
    /* A list that is well formed covers each name in it. */
    if (ron_cap_scopes_valid(account)) {
        const char *comma = memchr(text, ',', len);

        RON_ASSERT(ron_cap_scopes_cover(
            account,
            (struct ron_str){.ptr = text, .len = comma == NULL ? len : (size_t)(comma - text)}));
    }
    if (ron_cap_prefix_valid(account) && text[len - 1] != '*') {
        RON_ASSERT(ron_cap_prefix_covers(account, account));
    }
}

static void try_keys(const char *text, size_t len)
{
    struct ron_cap_keys *keys = NULL;

    if (ron_cap_keys_parse(text, len, &keys, NULL) == RON_OK) {
        RON_ASSERT(ron_cap_keys_count(keys) >= 1);
        ron_cap_keys_unref(keys);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;
    struct ron_str token;

    if (size < 1) {
        return 0;
    }
    switch (data[0]) {
    case 't':
        try_token(text, size - 1);
        break;
    case 'r':
        try_raw(data + 1, size - 1);
        break;
    case 'c':
        try_caveat(text, size - 1);
        break;
    case 'h':
        if (ron_cap_bearer((struct ron_str){.ptr = text, .len = size - 1}, &token) == RON_CAP_OK) {
            RON_ASSERT(token.ptr + token.len == text + size - 1);
        }
        break;
    case 'k':
        try_keys(text, size - 1);
        break;
    default:
        break;
    }
    return 0;
}
