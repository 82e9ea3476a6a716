/* SPDX-License-Identifier: Apache-2.0 */
/* interop/offline/tool.h - what `ron webhook` does without a service: a sample event of a provider,
 * signed as the provider would sign it.
 *
 * Place: interop, for the program. Pure, but for memory of the request. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/rc.h"

enum {
    IOP_TOOL_FIELDS_MAX = 8,
    IOP_TOOL_NAME_SIZE = 72,
    IOP_TOOL_VALUE_SIZE = 512,
    IOP_TOOL_BODY_MAX = 1 << 20,
};

/* The kinds that can be sent: "github", "stripe", ... NULL behind the last. */
const char *const *iop_tool_kinds(void);

/* An example body of this kind and event (NULL: the usual one), with `id` where the kind has one in
 * its body. `ret_type` is its Content-Type, `ret_event` the event it is of. RON_NOTFOUND: no
 * such kind. */
RON_MUST_USE enum ron_rc iop_tool_sample(const char *kind, const char *event, const char *id,
                                         int64_t now_unix_ms, struct ron_buf *body,
                                         const char **ret_type, const char **ret_event,
                                         struct ron_err *err);

struct iop_tool_request {
    const char *kind;
    const char *secret; /* as the provider shows it; Ed25519: the secret half */
    size_t secret_len;
    const char *id;    /* of the delivery */
    const char *event; /* where the kind has it in a header */
    const char *url;   /* whole, as the receiver is called from outside */
    const char *content_type;
    const void *body;
    size_t len; /* at most IOP_TOOL_BODY_MAX */
    int64_t now_unix_ms;
};

struct iop_tool_headers {
    size_t count;
    struct {
        char name[IOP_TOOL_NAME_SIZE];
        char value[IOP_TOOL_VALUE_SIZE];
    } at[IOP_TOOL_FIELDS_MAX];
};

/* The headers to send besides Content-Type. No message quotes the secret. */
RON_MUST_USE enum ron_rc iop_tool_sign(const struct iop_tool_request *r,
                                       struct iop_tool_headers *ret_headers, struct ron_err *err);
