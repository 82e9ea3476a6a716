/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_rwd_request.c - any bytes as the body of a compute.
 *
 * Oracle: a refusal is a bad request with a printable sentence; what was taken names a policy by
 * its grammar, an epoch to carry from by its own or none, and its raw members are whole JSON
 * values inside the text. */
#include <stdint.h>
#include <string.h>

#include "rewarder/front/front.h"
#include "ron/base/alloc.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_raw(struct ron_str raw, const char *text, size_t len)
{
    struct ron_json_error why;

    if (raw.len > 0) {
        RON_ASSERT(raw.ptr >= text && raw.ptr + raw.len <= text + len);
        RON_ASSERT(ron_json_check(raw.ptr, raw.len, &why) == RON_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rwd_work_req w = {0};
    struct rwd_fault fault = {0};
    char *text = ron_alloc(size + 1);

    if (text == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    if (rwd_request_read(text, size, &w, &fault)) {
        RON_ASSERT(rwd_policy_id_ok(w.policy_id));
        RON_ASSERT(w.carry_epoch.len == 0 || rwd_epoch_ok(w.carry_epoch));
        check_raw(w.snapshot, text, size);
        check_raw(w.policy, text, size);
    } else {
        RON_ASSERT(fault.error == RWD_ERROR_SCHEMA && fault.detail[0] != '\0');
        for (const char *p = fault.detail; *p != '\0'; p++) {
            RON_ASSERT(*p >= ' ' && *p <= '~');
        }
    }
    ron_free(text);
    return 0;
}
