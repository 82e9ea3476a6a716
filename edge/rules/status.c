/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/status.c - a member of Cache-Status as a structured field (RFC 8941). */
#include "edge/rules/status.h"

#include "ron/base/assert.h"

#include <inttypes.h>

enum { KEY_MAX = 128 };

static const char *const fwd_tokens[EDG_FWD_COUNT] = {
#define X(name, token) [EDG_FWD_##name] = (token),
    EDG_FWD_REASONS(X)
#undef X
};

const char *edg_fwd_token(enum edg_fwd fwd)
{
    RON_ASSERT((size_t)fwd < RON_ARRAY_LEN(fwd_tokens));
    return fwd_tokens[fwd];
}

/* sf-string: printable ASCII, with quotes and backslashes escaped. */
static void append_string(struct ron_buf *out, struct ron_str text)
{
    RON_IGNORE(ron_buf_append_byte(out, '"'));
    for (size_t i = 0; i < text.len && i < KEY_MAX; i++) {
        char c = text.ptr[i];

        if (c == '"' || c == '\\') {
            RON_IGNORE(ron_buf_append_byte(out, '\\'));
        }
        RON_IGNORE(ron_buf_append_byte(out, (uint8_t)(c < ' ' || c > '~' ? '?' : c)));
    }
    RON_IGNORE(ron_buf_append_byte(out, '"'));
}

enum ron_rc edg_status_write(const struct edg_status *status, struct ron_buf *out)
{
    char memory[EDG_STATUS_MAX + 1];
    struct ron_buf text;

    RON_ASSERT((size_t)status->fwd < RON_ARRAY_LEN(fwd_tokens));
    ron_buf_init_over(&text, memory, sizeof memory);
    RON_IGNORE(ron_buf_append_text(&text, "ron-edge"));
    if (status->fwd == EDG_FWD_NONE) {
        RON_IGNORE(ron_buf_append_text(&text, "; hit"));
    } else {
        RON_IGNORE(ron_buf_append_fmt(&text, "; fwd=%s", fwd_tokens[status->fwd]));
        if (status->fwd_status > 0) {
            RON_IGNORE(ron_buf_append_fmt(&text, "; fwd-status=%d", status->fwd_status));
        }
        RON_IGNORE(ron_buf_append_text(&text, status->stored ? "; stored" : ""));
        RON_IGNORE(ron_buf_append_text(&text, status->collapsed ? "; collapsed" : ""));
    }
    if (status->has_ttl) {
        RON_IGNORE(ron_buf_append_fmt(&text, "; ttl=%" PRId64, status->ttl_s));
    }
    if (status->key.len > 0) {
        RON_IGNORE(ron_buf_append_text(&text, "; key="));
        append_string(&text, status->key);
    }
    if (status->detail != NULL) {
        RON_IGNORE(ron_buf_append_fmt(&text, "; detail=%s", status->detail));
    }
    RON_TRY(ron_buf_error(&text));
    return ron_buf_append(out, ron_buf_data(&text), ron_buf_len(&text));
}
