/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/fresh_priv.h - what the caching rules know of statuses; private to edg_fresh*.c. */
#pragma once

#include <stdbool.h>

/* Cacheable without a word of the origin (RFC 9110 15.1); 206 is not ours to store. */
bool edg__status_heuristic(int status);
/* Of these, the errors. */
bool edg__status_negative(int status);
