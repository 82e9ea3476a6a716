/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_chan_ops.c - lets a fuzzer write histories of channel operations.
 *
 * Property: after every operation a channel's results, contents, counters and wake-ups equal those
 * of a plain model (tests/support/chan_ops.h tells the encoding and what is compared). Every input
 * is a valid history, so nothing is rejected; one of more than 1,000 operations is cut.
 */
#include <stddef.h>
#include <stdint.h>

#include "support/chan_ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEAD = 3, OPS_MAX = 1000 };

    chan_ops_run(data, size < HEAD + 2 * OPS_MAX ? size : HEAD + 2 * OPS_MAX, NULL);
    return 0;
}
