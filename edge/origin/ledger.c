/* SPDX-License-Identifier: Apache-2.0 */
/* edge/origin/ledger.c - the paths of a log. */
#include "edge/origin/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool take(struct ron_str *text, const char *word)
{
    size_t len = strlen(word);

    if (text->len < len || memcmp(text->ptr, word, len) != 0) {
        return false;
    }
    text->ptr += len;
    text->len -= len;
    return true;
}

/* A decimal number without leading zeros, of at most three digits. */
static bool take_small(struct ron_str *text, uint32_t *ret)
{
    uint32_t n = 0;
    size_t i = 0;

    while (i < text->len && i < 3 && text->ptr[i] >= '0' && text->ptr[i] <= '9') {
        n = n * 10 + (uint32_t)(text->ptr[i] - '0');
        i++;
    }
    if (i == 0 || (i > 1 && text->ptr[0] == '0')) {
        return false;
    }
    *ret = n;
    text->ptr += i;
    text->len -= i;
    return true;
}

static bool three_digits(const char *at)
{
    return at[0] >= '0' && at[0] <= '9' && at[1] >= '0' && at[1] <= '9' && at[2] >= '0' &&
           at[2] <= '9';
}

/* The number of a tile: groups of three digits, all but the last behind an x, the first not 000
 * unless it is the only one; x001/x234/067. */
static bool take_index(struct ron_str *text)
{
    for (int groups = 0; groups < 7; groups++) { /* 10^21 is beyond all trees */
        bool more = take(text, "x");

        if (text->len < 3 || !three_digits(text->ptr) ||
            (groups == 0 && more && memcmp(text->ptr, "000", 3) == 0)) {
            return false;
        }
        text->ptr += 3;
        text->len -= 3;
        if (!more) {
            return true;
        }
        if (!take(text, "/")) {
            return false;
        }
    }
    return false;
}

static bool is_checkpoint(struct ron_str rest)
{
    uint32_t witnesses;

    return rest.len == 0 ||
           (take(&rest, "?witnesses=") && take_small(&rest, &witnesses) && rest.len == 0);
}

enum edg_ledger_kind edg_ledger_kind(struct ron_str target)
{
    enum edg_ledger_kind kind = EDG_LEDGER_TILE;
    struct ron_str rest = target;
    uint32_t number;

    if (take(&rest, "/checkpoint")) {
        return is_checkpoint(rest) ? EDG_LEDGER_CHECKPOINT : EDG_LEDGER_OTHER;
    }
    if (!take(&rest, "/tile/")) {
        return EDG_LEDGER_OTHER;
    }
    if (take(&rest, "entries/")) {
        kind = EDG_LEDGER_ENTRIES;
    } else if (!take_small(&rest, &number) || number > EDG_LEDGER_LEVEL_MAX || !take(&rest, "/")) {
        return EDG_LEDGER_OTHER;
    }
    if (!take_index(&rest)) {
        return EDG_LEDGER_OTHER;
    }
    if (rest.len == 0) {
        return kind;
    }
    return take(&rest, ".p/") && take_small(&rest, &number) && number >= 1 && number <= 255 &&
                   rest.len == 0
               ? kind
               : EDG_LEDGER_OTHER;
}

struct ron_str edg_ledger_control(enum edg_ledger_kind kind, uint64_t checkpoint_s,
                                  char room[EDG_LEDGER_CONTROL_SIZE])
{
    int len = 0;

    if (kind == EDG_LEDGER_CHECKPOINT) {
        len = snprintf(room, EDG_LEDGER_CONTROL_SIZE, "public, max-age=%" PRIu64, checkpoint_s);
    } else if (kind != EDG_LEDGER_OTHER) {
        len = snprintf(room, EDG_LEDGER_CONTROL_SIZE, "public, max-age=31536000, immutable");
    }
    return (struct ron_str){room, len > 0 ? (size_t)len : 0};
}
