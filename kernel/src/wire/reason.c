/* SPDX-License-Identifier: Apache-2.0 */
/* reason.c - the table of refusals and the error envelope. */
#include "ron/wire/reason.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ron/base/assert.h"
#include "ron/base/json.h"
#include "wire/frame.h"

struct row {
    struct ron_oap_error error;
    enum ron_rc rc;
    enum ron_oap_done done;
    bool fatal;
};

static const struct row rows[RON_OAP_REASON_COUNT] = {
#define X(name, status_, code_, label, rc_, done_, fatal_, text)                                   \
    [RON_OAP_##name] = {                                                                           \
        .error = {.status = (status_), .code = (code_), .message = (text), .reason = (label)},     \
        .rc = (rc_),                                                                               \
        .done = RON_OAP_DONE_##done_,                                                              \
        .fatal = (fatal_)},
    RON_OAP_REASONS(X)
#undef X
};

static const struct row *row_of(enum ron_oap_reason reason)
{
    RON_ASSERT((unsigned)reason < RON_OAP_REASON_COUNT);
    return &rows[reason];
}

const char *ron_oap_reason_label(enum ron_oap_reason reason)
{
    return row_of(reason)->error.reason;
}

struct ron_oap_error ron_oap_error_of(enum ron_oap_reason reason)
{
    return row_of(reason)->error;
}

bool ron_oap_reason_fatal(enum ron_oap_reason reason)
{
    return row_of(reason)->fatal;
}

enum ron_oap_done ron_oap_reason_done(enum ron_oap_reason reason)
{
    return row_of(reason)->done;
}

enum ron_rc ron_oap_reason_rc(enum ron_oap_reason reason)
{
    return row_of(reason)->rc;
}

void ron_oap_envelope(struct ron_buf *out, const struct ron_oap_error *error, uint64_t corr_id)
{
    struct ron_json_writer w;
    char corr[24];
    int len = snprintf(corr, sizeof corr, "%" PRIu64, corr_id);

    ron_json_begin(&w, out);
    ron_json_open(&w, NULL, '{');
    ron_json_text(&w, "code", error->code);
    ron_json_text(&w, "message", error->message);
    ron_json_bool(&w, "retryable",
                  error->status == 421 || error->status == 429 || error->status == 503);
    ron_json_str(&w, "corr_id", (struct ron_str){corr, (size_t)len});
    ron_json_text(&w, "reason", error->reason);
    ron_json_close(&w, '}');
}

struct envelope {
    uint64_t present;
    struct ron_str reason;
};

enum ron_oap_reason ron_oap_envelope_reason(const void *json, size_t len)
{
    static const struct ron_json_field fields[] = {
        RON_JSON_FIELD(struct envelope, reason, STRING, .required = true)};
    static const struct ron_json_shape shape = {.fields = fields,
                                                .count = 1,
                                                .present_offset =
                                                    offsetof(struct envelope, present),
                                                .allow_unknown = true};
    struct envelope e = {0};
    struct ron_json_error err;
    char text[1024]; /* an envelope of ours is below half of this */

    if (len == 0 || len >= sizeof text) {
        return RON_OAP_INTERNAL;
    }
    memcpy(text, json, len);
    text[len] = '\0';
    if (ron_json_scan(text, len, &shape, NULL, &e, &err) == RON_OK) {
        for (int r = RON_OAP_NONE + 1; r < RON_OAP_REASON_COUNT; r++) {
            if (ron_str_is(e.reason, rows[r].error.reason)) {
                return (enum ron_oap_reason)r;
            }
        }
    }
    return RON_OAP_INTERNAL;
}
