/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/vary.h - the secondary key: which request headers chose a stored answer (RFC 9111
 * 4.1).
 *
 * Place: edge, between the primary key (method and URI) and the stored variants of it. Pure.
 *
 * A Vary is kept as its canonical text: the names in lower case, sorted, each once, with commas.
 * The key of a request under it is a text of one line a name, "name:value\n", or "name\n" where the
 * request has no such header, so that an absent header and an empty one differ. Two requests choose
 * the same variant if and only if their keys are the same bytes.
 *
 * Normalised are, for every header: lines of one name joined, blanks around commas outside quotes
 * removed, empty elements dropped. For Accept, Accept-Charset, Accept-Encoding and Accept-Language
 * also: the order of elements (weights say what is preferred, order does not), the spelling of
 * weights (1.0 is none, 0.50 is 0.5), and, but for Accept with its parameters, the case of letters.
 * Everything else stays as sent: a variant too many costs a fetch, one too few serves wrong bytes.
 *
 * Threads: any. */
#pragma once

#include "edge/rules/fields.h"

enum {
    EDG_VARY_NAMES_MAX = 16, /* real ones have one to five */
    EDG_VARY_TEXT_MAX = 512, /* canonical, without NUL */
    EDG_VARY_KEY_MAX = 8192, /* half of the longest request head; longer keys are not kept */
    EDG_VARY_ITEMS_MAX = 64, /* elements that are sorted; longer lists keep their order */
};

struct edg_vary {
    bool any; /* "*", malformed, or beyond the limits: no later request ever matches */
    size_t len;
    char text[EDG_VARY_TEXT_MAX + 1]; /* empty: the answer does not vary */
};

/* The Vary of an answer. */
void edg_vary_parse(struct edg_fields response, struct edg_vary *ret_vary);

/* Appends the key of a request under a canonical text. RON_LIMIT: longer than EDG_VARY_KEY_MAX or
 * than the buffer allows; such a request is not answered from, nor kept in, a store. */
RON_MUST_USE enum ron_rc edg_vary_key(struct ron_str text, struct edg_fields request,
                                      struct ron_buf *out);
