/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_rwd_proof.c - any bytes as a payee's proof, and as one line of payouts.
 *
 * Oracle: a proof that is believed names a place below the count of a good run, and a signature in
 * it is good; a line that is read is written again as the same bytes. */
#include <stdint.h>
#include <string.h>

#include "rewarder/run/manifest.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const uint8_t *data, size_t size)
{
    struct ron_str line = {.ptr = (const char *)data, .len = size};
    char again[RWD_LINE_MAX];
    struct rwd_payout payout;

    if (rwd_payout_line_read(line, &payout, NULL) == RON_OK) {
        RON_ASSERT(rwd_payout_line(&payout, again) == size && memcmp(again, data, size) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[RWD_PROOF_TEXT_MAX + 1];
    struct rwd_proof_word word;

    check_line(data, size);
    if (size > sizeof text) {
        return 0;
    }
    memcpy(text, data, size);
    if (rwd_proof_check(text, size, NULL, &word, NULL) == RON_OK) {
        RON_ASSERT(word.index < word.manifest.payouts.count);
        RON_ASSERT(word.manifest.status == RWD_STATUS_OK);
        RON_ASSERT(rwd_account_ok(word.payout.account));
        RON_ASSERT(word.manifest.key_id[0] == '\0' || rwd_manifest_attested(&word.manifest, NULL));
    }
    return 0;
}
