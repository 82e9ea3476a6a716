/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - "did you mean ...?": the known word closest to a mistyped one. */
#pragma once

#include <stddef.h>

/* Words longer than this are not compared. */
enum { RON_NEAREST_WORD_MAX = 64 };

/* The word with the fewest single-letter edits, swaps of neighbours counted as one; NULL when even
 * the best differs in more than a third of its letters (at least two edits are always allowed). */
const char *ron_nearest(const char *word, const char *const *words, size_t count);
