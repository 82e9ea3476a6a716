/* SPDX-License-Identifier: Apache-2.0 */
/* wire_testing.h - what tests, simulator and fixture program ask, and no service does. */
#pragma once

#include "ron/wire/client.h"
#include "ron/wire/server.h"

/* Asks for an early end: RON_CANCELLED, NOT_SENT or UNKNOWN, unless the answer comes first. From
 * any thread, while the ask is known not to be done. The server is told that nobody waits. */
void ron_oap_ask_cancel(struct ron_oap_ask *ask);

/* With the port that was given for 0. */
const char *ron_oap_server_addr(const struct ron_oap_server *s);

/* As ron_oap_refuse. */
void ron_oap_reply_refuse(struct ron_oap_reply *take_r, enum ron_oap_reason reason);
