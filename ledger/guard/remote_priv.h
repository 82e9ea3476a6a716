/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/guard/remote_priv.h - questions and answers of remote guards, shared by led_remote*.c
 * alone. */
#pragma once

#include "ledger/guard/remote.h"

/* What a service is asked. With a token it is the KMS's question, else one about entries. */
struct led__question {
    const char *op;
    struct ron_str corr_id;
    uint64_t now_ms;
    struct ron_str token;
    const struct led_auth *auth;
    const struct led_batch *batch;
    bool dry_run;
};

/* Appends the JSON; the error of `out` sticks. */
void led__remote_write(const struct led__question *q, struct ron_buf *out);

/* Reads an answer, which is changed in place: false when it is none. No refusals: yes. `fallback`
 * is the reason of a "no" that names none of its own. */
RON_MUST_USE bool led__remote_read(char *text, size_t len, enum led_reason fallback,
                                   size_t entry_count, struct led_refusals *ret_refusals);
