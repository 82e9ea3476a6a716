/* SPDX-License-Identifier: Apache-2.0 */
/* counters.h - what the server counts, for its metrics and for tests. */
#pragma once

#include "ron/http/server.h"

void ron_http_server_counters(const struct ron_http_server *s, struct ron_http_counters *ret);
