/* SPDX-License-Identifier: Apache-2.0 */
/* cli/base/money.h - small things that several verbs print or make. */
#pragma once

#include <stdint.h>

enum { CLI_KEY_SIZE = 40, CLI_TIME_SIZE = 32 };

/* A new idempotency key: "cli-" and a ULID. */
void cli_new_key(char ret_key[CLI_KEY_SIZE]);
/* Unix milliseconds as 2026-11-17T04:05:06Z. */
void cli_format_time(uint64_t ms, char ret_text[CLI_TIME_SIZE]);
