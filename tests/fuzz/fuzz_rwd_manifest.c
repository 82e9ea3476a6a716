/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_rwd_manifest.c - any bytes as a manifest of a run.
 *
 * Oracle: what is read is written again as the same bytes, with a commitment that fits; a signature
 * of a key that the input cannot have been signed with is never believed. */
#include <stdint.h>
#include <string.h>

#include "rewarder/run/manifest.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The public key of no seed that anybody knows. */
    static const uint8_t key[RWD_SIGN_KEY_BYTES] = {0x33, 0x01};
    char text[RWD_MANIFEST_MAX + 1];
    char memory[RWD_MANIFEST_MAX + 1];
    struct rwd_manifest m;
    struct ron_b3 commitment;
    struct ron_buf again;

    if (size > sizeof text) {
        return 0;
    }
    memcpy(text, data, size);
    if (rwd_manifest_read(text, size, &m, NULL) != RON_OK) {
        return 0;
    }
    ron_buf_init_over(&again, memory, sizeof memory);
    RON_ASSERT(rwd_manifest_write(&m, &again) == RON_OK);
    RON_ASSERT(ron_buf_len(&again) == size && memcmp(ron_buf_data(&again), data, size) == 0);
    commitment = m.commitment;
    RON_ASSERT(rwd_manifest_commit(&m, NULL) == RON_OK);
    RON_ASSERT(ron_b3_equal(&commitment, &m.commitment));
    RON_ASSERT(!rwd_manifest_attested(&m, key));
    RON_ASSERT(m.epoch.len > 0 && (m.status == RWD_STATUS_OK) == (m.breach == RWD_BREACH_NONE));
    return 0;
}
