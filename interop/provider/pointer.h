/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/pointer.h - JSON pointers (RFC 6901) over the bytes of a document.
 *
 * Place: interop, below providers and rules; pure. The document is neither changed nor copied and
 * no tree is made of it: a value is a slice of it. Numbers stay text, because they may be money.
 *
 * P1. A document is looked at only after ron_json_check accepted it (iop_doc_init), so a walk never
 *     meets anything but JSON and may be short.
 * P2. A member that stands twice in an object on the way is an answer of its own (TWICE): two
 *     readers may have chosen different ones, so nobody may act on either.
 * P3. Strings are compared and copied with their escapes resolved.
 *
 * Cost: one walk over the objects on the way. Threads: no state. */
#pragma once

#include "ron/base/json.h"

enum {
    IOP_POINTER_MAX = 256,  /* bytes of a pointer's text */
    IOP_POINTER_DEPTH = 16, /* steps; providers nest five or six deep */
};

struct iop_doc {
    struct ron_str text; /* one JSON value (P1); empty when there is none */
};

/* Whether the bytes are one JSON value by the kernel's rules; otherwise nothing is found in it. */
bool iop_doc_init(struct iop_doc *doc, const void *bytes, size_t len);

enum iop_value_kind { IOP_NULL, IOP_BOOL, IOP_NUMBER, IOP_STRING, IOP_OBJECT, IOP_ARRAY };

struct iop_value {
    enum iop_value_kind kind;
    struct ron_str raw; /* as it stands; of a string without its quotes, escapes not resolved */
};

/* Whether `text` is a pointer: empty, or steps that begin with '/', "~" only as "~0" and "~1". */
RON_MUST_USE enum ron_rc iop_pointer_check(const char *text, struct ron_err *err);

enum iop_found { IOP_FOUND, IOP_MISSING, IOP_TWICE };

/* `pointer` has passed iop_pointer_check. */
enum iop_found iop_pointer_find(const struct iop_doc *doc, const char *pointer,
                                struct iop_value *ret_value);

/* ---- scalars --------------------------------------------------------------------------------- */

/* The text of a scalar: a string resolved, a number or word as it stands. RON_LIMIT when it does
 * not fit, RON_INVALID for an object or array. No NUL is added. */
RON_MUST_USE enum ron_rc iop_value_text(const struct iop_value *value, char *out, size_t size,
                                        size_t *ret_len);
/* Whether the text of a scalar is exactly this, or begins with it. */
bool iop_value_is(const struct iop_value *value, struct ron_str text);
bool iop_value_begins(const struct iop_value *value, struct ron_str text);

/* ---- decimals -------------------------------------------------------------------------------- */

/* A decimal number without exponent, "-12.340": exact, of any length, never a float. */
struct iop_decimal {
    bool negative;        /* not for zero */
    struct ron_str whole; /* without leading zeros; empty for 0 */
    struct ron_str part;  /* behind the point, without trailing zeros */
};

bool iop_decimal_parse(struct ron_str text, struct iop_decimal *ret_decimal);
/* -1, 0, 1. */
int iop_decimal_compare(const struct iop_decimal *a, const struct iop_decimal *b);
/* value * 10^scale as whole minor units. RON_INVALID when it is negative or a fraction would be
 * left, RON_LIMIT above the largest amount. */
RON_MUST_USE enum ron_rc iop_decimal_money(const struct iop_decimal *d, uint32_t scale,
                                           struct ron_money *ret_money);
