/* SPDX-License-Identifier: Apache-2.0 */
/* server_testing.h - what tests and the fixture program ask of the server, and no service does. */
#pragma once

#include "ron/http/server.h"

/* As ron_http_param; asserts that it is a number. */
uint64_t ron_http_param_u64(const struct ron_http_call *call, size_t index);

/* An answer of unknown length, built inside the handler. */
void ron_http_begin(struct ron_http_call *call, int status, const char *content_type);
void ron_http_chunk(struct ron_http_call *call, const void *bytes, size_t len);
void ron_http_end(struct ron_http_call *call);
