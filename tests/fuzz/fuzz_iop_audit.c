/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: lines of the audit trail, read and written.
 *
 * The input is a line as a file might hold it, and then the texts of an event. Properties: what is
 * accepted as a line moves the chain to its hash; a line that was written is accepted, has no byte
 * of a redacted attribute, and is refused with any byte changed. */
#include <stdint.h>
#include <string.h>

#include "interop/audit/audit.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const redact[] = {"token", NULL};

static void check_written(const uint8_t *data, size_t size)
{
    char action[33];
    size_t cut = size < 32 ? size : 32;
    struct iop_audit_chain chain = {.seq = size};
    struct iop_audit_chain before = chain;
    struct iop_audit_event e = {
        .action = action,
        .delivery = {(const char *)data, size},
        .attrs = {{"a_token", {"hunter2", 7}}, {"size", {(const char *)data, size}}}};
    struct ron_buf out;
    struct ron_str line;
    char copy[IOP_AUDIT_LINE_MAX];

    memcpy(action, data, cut);
    action[cut] = '\0';
    ron_buf_init(&out, 1 << 16);
    RON_ASSERT(iop_audit_line(&chain, 1, size, &e, redact, &out) == RON_OK);
    line = (struct ron_str){ron_buf_text(&out), ron_buf_len(&out) - 1};
    RON_ASSERT(memmem(line.ptr, line.len, "hunter2", 7) == NULL ||
               (size >= 7 && memmem(data, size, "hunter2", 7) != NULL));
    RON_ASSERT(memchr(line.ptr, '\n', line.len) == NULL);
    RON_ASSERT(iop_audit_check(&before, line, false, NULL) == RON_OK);
    RON_ASSERT(before.seq == chain.seq && ron_b3_equal(&before.hash, &chain.hash));
    before = (struct iop_audit_chain){.seq = size};
    memcpy(copy, line.ptr, line.len);
    copy[size % line.len] ^= 1;
    RON_ASSERT(iop_audit_check(&before, (struct ron_str){copy, line.len}, false, NULL) ==
               RON_CORRUPT);
    ron_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iop_audit_chain chain = {0};
    struct ron_str line = {(const char *)data, size};
    struct ron_b3 hash;

    if (iop_audit_check(&chain, line, true, NULL) == RON_OK) {
        /* It covers all but its own end. */
        ron_b3_hash(data, size - (9 + RON_B3_ID_LEN + 2), &hash);
        RON_ASSERT(ron_b3_equal(&hash, &chain.hash) && chain.seq > 0);
    }
    check_written(data, size);
    return 0;
}
