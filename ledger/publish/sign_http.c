/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/sign_http.c - checkpoints and cosignatures over HTTP; forms in
 * docs/formats/ledger-proofs.md.
 *
 * Both answer at once, on the worker: a signature takes some tens of microseconds, and a body has
 * at most one signature of each witness that gets as far as being verified. */
#include "ledger/publish/sign.h"
#include "ron/http/server.h"

#define NOTE_TYPE "text/plain; charset=utf-8"

static const struct {
    enum ron_rc rc;
    struct ron_http_error error;
} errors[] = {
    {RON_INVALID, {.status = 400, .code = "MALFORMED", .reason = "invalid"}},
    {RON_CORRUPT, {.status = 400, .code = "MALFORMED", .reason = "invalid"}},
    {RON_LIMIT, {.status = 413, .code = "BODY_LIMIT", .reason = "too_large"}},
    {RON_NOTFOUND, {.status = 404, .code = "NOT_FOUND", .reason = "not_found"}},
    {RON_DENIED, {.status = 403, .code = "BAD_SIGNATURE", .reason = "bad_signature"}},
    {RON_CONFLICT, {.status = 409, .code = "STALE_CHECKPOINT", .reason = "stale_checkpoint"}},
    {RON_EXISTS, {.status = 409, .code = "ALREADY_SIGNED", .reason = "already_signed"}},
    {RON_NOMEM, {.status = 503, .code = "BACKPRESSURE", .reason = "memory", .retryable = true}},
};

static struct ron_http_error error_of(enum ron_rc rc, const struct ron_err *err)
{
    struct ron_http_error error = ron_http_error_of(RON_HTTP_INTERNAL);

    for (size_t i = 0; i < RON_ARRAY_LEN(errors); i++) {
        if (errors[i].rc == rc) {
            error = errors[i].error;
            error.message = err->msg;
        }
    }
    return error;
}

static void fail(struct ron_http_call *call, enum ron_rc rc, const struct ron_err *err)
{
    struct ron_http_error error = error_of(rc, err);

    ron_http_fail_with(call, &error);
}

/* A number in the query. RON_NOTFOUND without it. */
static enum ron_rc query_u64(struct ron_str query, const char *name, uint64_t *ret_value,
                             struct ron_err *err)
{
    char room[24];
    struct ron_str text;
    enum ron_rc rc = ron_http_query_get(query, name, room, sizeof room, &text);

    if (rc == RON_OK) {
        rc = ron_http_parse_u64(text, ret_value);
    }
    if (rc == RON_OK || rc == RON_NOTFOUND) {
        return rc;
    }
    return ron_err_set(err, RON_INVALID, "%s is one number", name);
}

bool led_signer_get(struct led_signer *s, struct ron_str query, uint64_t size,
                    const struct ron_tree_hash *root, struct ron_buf *out,
                    struct ron_http_error *ret_error, struct ron_err *err)
{
    uint64_t witnesses = 0;
    enum ron_rc rc = query_u64(query, "witnesses", &witnesses, err);

    if (rc == RON_OK) {
        rc = led_signer_published(s, witnesses, out, err);
    } else if (rc == RON_NOTFOUND) {
        rc = led_signer_checkpoint(s, size, root, out, err);
    }
    if (rc != RON_OK) {
        *ret_error = error_of(rc, err);
    }
    return rc == RON_OK;
}

void led_signer_http_get(struct led_signer *s, struct ron_http_call *call, uint64_t size,
                         const struct ron_tree_hash *root)
{
    char memory[LED_SIGN_NOTE_SIZE];
    struct ron_err err = {0};
    struct ron_http_error error;
    struct ron_buf note;

    ron_buf_init_over(&note, memory, sizeof memory);
    if (!led_signer_get(s, ron_http_head(call)->query, size, root, &note, &error, &err)) {
        ron_http_fail_with(call, &error);
        return;
    }
    ron_http_add_header(call, "Cache-Control", RON_STR_LIT("no-cache"));
    ron_http_answer(call, 200, NOTE_TYPE, ron_buf_data(&note), ron_buf_len(&note));
}

void led_signer_http_cosign(struct led_signer *s, struct ron_http_call *call)
{
    char memory[48];
    struct ron_err err = {0};
    struct ron_json_writer json;
    struct ron_buf out;
    uint64_t size = LED_SIGN_NEWEST;
    size_t count = 0;
    enum ron_rc rc = query_u64(ron_http_head(call)->query, "size", &size, &err);

    if (rc == RON_OK || rc == RON_NOTFOUND) {
        rc = led_signer_cosign(s, ron_http_body(call), size, &count, &err);
        if (rc == RON_NOTFOUND) {
            ron_http_fail_with(call, &(struct ron_http_error){.status = 403,
                                                              .code = "UNKNOWN_WITNESS",
                                                              .message = err.msg,
                                                              .reason = "unknown_witness"});
            return;
        }
    }
    if (rc != RON_OK) {
        fail(call, rc, &err);
        return;
    }
    ron_buf_init_over(&out, memory, sizeof memory);
    ron_json_begin(&json, &out);
    ron_json_open(&json, NULL, '{');
    ron_json_u64(&json, "taken", count);
    ron_json_close(&json, '}');
    ron_http_answer(call, 200, "application/json", ron_buf_data(&out), ron_buf_len(&out));
}
