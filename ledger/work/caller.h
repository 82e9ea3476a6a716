/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/work/caller.h - who sends a request: its token and its peer, before anything is verified.
 *
 * Place: ledger; data only. A front fills it in, guard/guard.h verifies it. */
#pragma once

#include <stdint.h>

#include "ron/cap/caveat.h"

/* X(NAME, "label of auth_failures_total") */
#define LED_PEER_TABLE(X)                                                                          \
    X(TCP, "tcp")                                                                                  \
    X(MTLS, "mtls")                                                                                \
    X(UDS, "uds")

enum led_peer {
#define X(name, label) LED_PEER_##name,
    LED_PEER_TABLE(X)
#undef X
        LED_PEER_COUNT
};

/* Who sends a request; small, so that it travels with the work. */
struct led_caller {
    struct ron_str token; /* lives as long as the request; empty: none */
    enum ron_cap_why why; /* when there is no token: what ron_cap_bearer said */
    uint32_t peer_scopes; /* of led_guard_peer_scopes */
    uint8_t peer;         /* enum led_peer */
};
