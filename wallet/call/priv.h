/* SPDX-License-Identifier: Apache-2.0 */
/* wallet/call/priv.h - what the files of wlt_call share. */
#pragma once

#include <string.h>

#include "wallet/call/call.h"

/* ---- texts whose longest form is known -------------------------------------------------------
 *
 * They are written with a pointer that moves on: the room was measured before, and who wrote looks
 * once at the end. Accounts, assets, keys and digits have nothing that JSON escapes. */

static inline char *wlt__put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}
#define WLT__PUT(at, literal) wlt__put(at, literal, sizeof(literal) - 1)

/* NULL and 0 bytes are fine. */
static inline char *wlt__put_str(char *at, struct ron_str text)
{
    return text.len > 0 ? wlt__put(at, text.ptr, text.len) : at;
}

static inline char *wlt__put_digits(char *at, uint64_t number)
{
    char digits[20];
    size_t first = sizeof digits;

    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return wlt__put(at, digits + first, sizeof digits - first);
}

static inline char *wlt__put_amount(char *at, struct ron_money amount)
{
    return at + ron_money_format(amount, at); /* with a NUL, over which the next text is written */
}

/* null for what is absent: an empty text, a 0. */
static inline char *wlt__put_text(char *at, struct ron_str text)
{
    if (text.len == 0) {
        return WLT__PUT(at, "null");
    }
    *at++ = '"';
    at = wlt__put(at, text.ptr, text.len);
    *at++ = '"';
    return at;
}

static inline char *wlt__put_number(char *at, uint64_t number)
{
    return number == 0 ? WLT__PUT(at, "null") : wlt__put_digits(at, number);
}

/* Operation, key and subject are known: fills fingerprint, idem_id, txids and entry nonces. */
void wlt__call_name(struct wlt_call *call);
