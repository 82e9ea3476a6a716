/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/challenge.c - the questions by which providers find out that an address is ours.
 *
 * A challenge is answered after the signature was right, like any delivery; Meta's comes with a GET
 * and has a token instead.
 *
 * Zoom's answer is an HMAC, under the very key that signs deliveries, of a text that the asker
 * chose. Were any text taken, whoever can ask could have a delivery "v0:TIME:BODY" signed. So a
 * token has no colon: no answer is ever a signature. */
#include <stdio.h>
#include <string.h>

#include "interop/provider/priv.h"
#include "ron/base/assert.h"

enum { TOKEN_MAX = 256 };

/* Letters, digits and a few marks: nothing that has to be escaped anywhere. */
static bool is_plain(struct ron_str text)
{
    if (text.len == 0 || text.len > TOKEN_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_' || c == '.' || c == '=' || c == '+' || c == '/';

        if (!good) {
            return false;
        }
    }
    return true;
}

static bool value_is(const struct iop_doc *doc, const char *pointer, const char *text)
{
    struct iop_value value;

    return iop_pointer_find(doc, pointer, &value) == IOP_FOUND &&
           iop_value_is(&value, (struct ron_str){text, strlen(text)});
}

/* A plain string at a pointer, with a NUL. */
static bool read_token(const struct iop_doc *doc, const char *pointer, char out[TOKEN_MAX + 1])
{
    struct iop_value value;
    size_t len = 0;

    if (iop_pointer_find(doc, pointer, &value) != IOP_FOUND || value.kind != IOP_STRING ||
        iop_value_text(&value, out, TOKEN_MAX, &len) != RON_OK ||
        !is_plain((struct ron_str){out, len})) {
        return false;
    }
    out[len] = '\0';
    return true;
}

__attribute__((format(printf, 4, 5))) static enum iop_refusal say(struct iop_answer *a, int status,
                                                                  const char *content_type,
                                                                  const char *fmt, ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(a->body, sizeof a->body, fmt, args);
    va_end(args);
    RON_ASSERT(len >= 0 && (size_t)len < sizeof a->body);
    a->status = status;
    a->content_type = content_type;
    a->len = (size_t)len;
    return IOP_REFUSE_NONE;
}

static enum iop_refusal slack(const struct iop_doc *doc, struct iop_answer *a)
{
    char token[TOKEN_MAX + 1];

    if (!value_is(doc, "/type", "url_verification")) {
        return IOP_REFUSE_NONE;
    }
    return read_token(doc, "/challenge", token)
               ? say(a, 200, "application/json", "{\"challenge\":\"%s\"}", token)
               : IOP_REFUSE_CHALLENGE_FORM;
}

/* An interaction of type 1 is a PING, and so is a webhook event of type 0. */
static enum iop_refusal discord(const struct iop_doc *doc, struct iop_answer *a)
{
    struct iop_value value;

    if (value_is(doc, "/type", "0")) {
        return say(a, 204, "application/json", "%s", "");
    }
    if (value_is(doc, "/type", "1") && iop_pointer_find(doc, "/event", &value) == IOP_MISSING) {
        return say(a, 200, "application/json", "{\"type\":1}");
    }
    return IOP_REFUSE_NONE;
}

static enum iop_refusal zoom(const struct iop_live_key *key, const struct iop_doc *doc,
                             struct iop_answer *a)
{
    char token[TOKEN_MAX + 1];
    uint8_t bytes[IOP_MAC_BYTES_MAX];
    char hex[2 * IOP_MAC_BYTES_MAX + 1];
    struct iop_mac mac;
    size_t len;

    if (!value_is(doc, "/event", "endpoint.url_validation")) {
        return IOP_REFUSE_NONE;
    }
    if (!read_token(doc, "/payload/plainToken", token)) {
        return IOP_REFUSE_CHALLENGE_FORM;
    }
    iop_mac_begin(&mac, &key->mac);
    iop_mac_add(&mac, token, strlen(token));
    len = iop_mac_end(&mac, bytes);
    (void)iop__encode(IOP_HEX, bytes, len, hex, sizeof hex);
    return say(a, 200, "application/json", "{\"plainToken\":\"%s\",\"encryptedToken\":\"%s\"}",
               token, hex);
}

enum iop_refusal iop__challenge(const struct iop_provider *p, const struct iop_live_key *key,
                                const struct iop_doc *doc, struct iop_answer *answer)
{
    switch (p->scheme.challenge) {
    case IOP_CHALLENGE_NONE:
    case IOP_CHALLENGE_META: /* asks with a GET */
        return IOP_REFUSE_NONE;
    case IOP_CHALLENGE_SLACK:
        return slack(doc, answer);
    case IOP_CHALLENGE_DISCORD:
        return discord(doc, answer);
    case IOP_CHALLENGE_ZOOM:
        return zoom(key, doc, answer);
    }
    RON_UNREACHABLE();
}

enum iop_refusal iop_check_get(const struct iop_provider *p, struct ron_str query,
                               struct iop_answer *ret_answer)
{
    char mode[16];
    char token[TOKEN_MAX + 1];
    char challenge[TOKEN_MAX + 1];
    struct ron_str mode_text = {NULL, 0};
    struct ron_str token_text = {NULL, 0};
    struct ron_str challenge_text = {NULL, 0};
    bool right;

    memset(ret_answer, 0, sizeof *ret_answer);
    if (!p->enabled) {
        return IOP_REFUSE_DISABLED;
    }
    if (p->scheme.challenge != IOP_CHALLENGE_META) {
        return IOP_REFUSE_CHALLENGE_FORM;
    }
    if (ron_secret_len(&p->verify_token) == 0) {
        return IOP_REFUSE_NO_SECRET;
    }
    if (query.ptr == NULL ||
        ron_http_query_get(query, "hub.mode", mode, sizeof mode, &mode_text) != RON_OK ||
        !ron_str_is(mode_text, "subscribe") ||
        ron_http_query_get(query, "hub.verify_token", token, sizeof token, &token_text) != RON_OK ||
        ron_http_query_get(query, "hub.challenge", challenge, TOKEN_MAX, &challenge_text) !=
            RON_OK ||
        !is_plain(challenge_text)) {
        return IOP_REFUSE_CHALLENGE_FORM;
    }
    right = ron_secret_equal(&p->verify_token, token_text.ptr, token_text.len);
    ron_wipe(token, sizeof token);
    return right ? say(ret_answer, 200, "text/plain", "%.*s", (int)challenge_text.len,
                       challenge_text.ptr)
                 : IOP_REFUSE_TOKEN_WRONG;
}
