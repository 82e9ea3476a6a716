/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/names.c - names of client certificates that privileged scopes are bound to.
 *
 * A name says of which kind it is, because kinds do not mean the same: whoever may choose a common
 * name need not own the DNS name of the same letters. Names are compared whole; letters of DNS
 * names without regard to case, as DNS does. */
#include <string.h>
#include <strings.h>

#include "ledger/guard/priv.h"
#include "ron/base/hex.h"

struct kind_row {
    const char *prefix;
    enum guard_name_kind kind;
};

static const struct kind_row kinds[] = {
    {"cn:", GUARD_NAME_CN},   {"dns:", GUARD_NAME_DNS}, {"email:", GUARD_NAME_EMAIL},
    {"uri:", GUARD_NAME_URI}, {"ip:", GUARD_NAME_IP},   {"sha256:", GUARD_NAME_SHA256},
};

static bool is_fingerprint(const char *text)
{
    struct ron_str s = ron_str_of(text);

    return s.len == (size_t)2 * RON_TLS_FINGERPRINT_BYTES && ron_hex_valid(s, RON_HEX_LOWER);
}

enum ron_rc led__guard_name_parse(const char *text, struct guard_name *ret_name,
                                  struct ron_err *err)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(kinds); i++) {
        size_t len = strlen(kinds[i].prefix);
        const char *value = text + len;

        if (strncmp(text, kinds[i].prefix, len) != 0) {
            continue;
        }
        if (value[0] == '\0' || strlen(value) > RON_TLS_TEXT_MAX) {
            return ron_err_set(err, RON_INVALID, "'%.64s': a name of 1 to %d bytes follows", text,
                               (int)RON_TLS_TEXT_MAX);
        }
        if (kinds[i].kind == GUARD_NAME_SHA256 && !is_fingerprint(value)) {
            return ron_err_set(err, RON_INVALID, "'%.80s': 64 lower-case hex digits follow", text);
        }
        ret_name->kind = kinds[i].kind;
        memcpy(ret_name->text, value, strlen(value) + 1);
        return RON_OK;
    }
    return ron_err_set(err, RON_INVALID,
                       "'%.64s': begins with cn:, dns:, email:, uri:, ip: or sha256:", text);
}

static bool fingerprint_is(const char *hex, const uint8_t bytes[RON_TLS_FINGERPRINT_BYTES])
{
    char text[2 * RON_TLS_FINGERPRINT_BYTES + 1];

    ron_hex(bytes, RON_TLS_FINGERPRINT_BYTES, text);
    return strcmp(hex, text) == 0;
}

bool led__guard_name_matches(const struct guard_name *name, const struct ron_tls_peer *peer)
{
    if (name->kind == GUARD_NAME_CN) {
        return strcmp(name->text, peer->common_name) == 0; /* a name is never empty */
    }
    if (name->kind == GUARD_NAME_SHA256) {
        return fingerprint_is(name->text, peer->fingerprint);
    }
    for (size_t i = 0; i < peer->name_count; i++) {
        if ((int)peer->names[i].kind == (int)name->kind &&
            (name->kind == GUARD_NAME_DNS ? strcasecmp(name->text, peer->names[i].text)
                                          : strcmp(name->text, peer->names[i].text)) == 0) {
            return true;
        }
    }
    return false;
}
