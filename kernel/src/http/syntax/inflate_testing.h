/* SPDX-License-Identifier: Apache-2.0 */
/* inflate_testing.h - what tests ask of a decoder; the product calls none of it. */
#pragma once

#include "ron/http/inflate.h"

uint64_t ron_inflate_in_bytes(const struct ron_inflate *z);
uint64_t ron_inflate_out_bytes(const struct ron_inflate *z);
