/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - the filter that keeps a clock from going backwards. The rules are in the header. */
#include "ron/base/clock.h"

uint64_t ron_clock_guard_ns(struct ron_clock_guard *guard, uint64_t reading_ns)
{
    if (reading_ns < guard->last_ns) {
        guard->backwards_count++;
        guard->backwards_max_ns = RON_MAX(guard->backwards_max_ns, guard->last_ns - reading_ns);
        return guard->last_ns;
    }
    guard->last_ns = reading_ns;
    return reading_ns;
}
