/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c - edit distance over short words (optimal string alignment), three rows of memory. */
#include "ron/base/nearest.h"

#include <string.h>

#include "ron/base/macros.h"

enum { ROW = RON_NEAREST_WORD_MAX + 1 };

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;

    return m < c ? m : c;
}

static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][ROW];

    for (size_t j = 0; j <= b_len; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        size_t *now = rows[i % 3];
        const size_t *last = rows[(i + 2) % 3];
        const size_t *before = rows[(i + 1) % 3]; /* of i - 2 */

        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);

            now[j] = min3(last[j] + 1, now[j - 1] + 1, change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < now[j]) {
                now[j] = before[j - 2] + 1;
            }
        }
    }
    return rows[a_len % 3][b_len];
}

const char *ron_nearest(const char *word, const char *const *words, size_t count)
{
    size_t len = strlen(word);
    size_t allowed = len / 3 > 2 ? len / 3 : 2;
    size_t best = allowed + 1;
    const char *found = NULL;

    if (len == 0 || len > RON_NEAREST_WORD_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(words[i]);
        size_t edits;

        if (other > RON_NEAREST_WORD_MAX) {
            continue;
        }
        edits = distance(word, len, words[i], other);
        /* All letters changed is no likeness. */
        if (edits < best && edits < len) {
            best = edits;
            found = words[i];
        }
    }
    return found;
}
