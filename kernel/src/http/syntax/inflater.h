/* SPDX-License-Identifier: Apache-2.0 */
/* inflater.h - what only the server asks of a decoder. */
#pragma once

#include "ron/http/inflate.h"

/* The memory that such a decoder holds from its birth on. */
size_t ron_inflate_memory(enum ron_inflate_coding coding, const struct ron_inflate_opts *opts);

/* Ready for the next body, with the same coding and limits. */
void ron_inflate_reset(struct ron_inflate *z);
