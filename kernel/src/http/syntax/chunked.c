/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/chunked.c - the chunked transfer coding of RFC 9112 7.1, incremental.
 *
 *     SIZE --CR--> SIZE_LF --LF--> DATA --all--> DATA_CR --> DATA_LF --> SIZE
 *       |  \--';'--> EXT* --CR--> SIZE_LF
 *     size 0: SIZE_LF --LF--> LINE --CR--> END_LF --LF--> END
 *                             LINE --token--> NAME --':'--> VALUE --CR--> VALUE_LF --LF--> LINE
 *
 * Extensions are *( ";" token [ "=" ( token / quoted-string ) ] ) without blanks: RFC 9112 calls
 * blanks there bad, and parsers that skip them differently were the way of several attacks.
 *
 * Invariants:
 *   I1 data is delivered exactly as announced; CR LF stands behind each chunk, or it is refused.
 *   I2 total counts what was announced and never passes body_max. */
#include <string.h>

#include "http/syntax/chars.h"
#include "http/syntax/syntax.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"
#include "ron/http/parse.h"

enum {
    SIZE,
    EXT_NAME,  /* behind ';' */
    EXT_VALUE, /* behind '=' */
    EXT_TOKEN, /* inside a token value */
    EXT_QUOTED,
    EXT_ESCAPE,
    EXT_QUOTED_END,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    LINE, /* start of a trailer line, or the end */
    NAME,
    VALUE,
    VALUE_LF,
    END_LF,
    END,
    SIZE_DIGITS_MAX = 15, /* 60 bits: no overflow, and more than any limit */
};

void ron_http_chunked_init(struct ron_http_chunked *d, uint64_t body_max)
{
    *d = (struct ron_http_chunked){.state = SIZE, .body_max = body_max};
}

static enum ron_http_reason on_size(struct ron_http_chunked *d, char c)
{
    int digit = ron_hex_digit(c);

    if (digit >= 0) {
        d->left = d->left << 4 | (uint64_t)digit;
        d->digits++;
        return d->digits > SIZE_DIGITS_MAX ? RON_HTTP_CHUNK_SIZE : RON_HTTP_NONE;
    }
    if (d->digits == 0 || (c != '\r' && c != ';')) {
        return RON_HTTP_CHUNK_SIZE;
    }
    d->state = c == '\r' ? SIZE_LF : EXT_NAME;
    d->digits = 0; /* From here on: characters of the extension's name or value. */
    return RON_HTTP_NONE;
}

static enum ron_http_reason on_ext(struct ron_http_chunked *d, char c)
{
    uint8_t flags = ron__http_char[(uint8_t)c];

    if (++d->ext_bytes > RON_HTTP_CHUNK_EXT_MAX) {
        return RON_HTTP_CHUNK_EXT;
    }
    switch (d->state) {
    case EXT_QUOTED:
        if (c == '"' || c == '\\') {
            d->state = c == '"' ? EXT_QUOTED_END : EXT_ESCAPE;
            return RON_HTTP_NONE;
        }
        return (flags & CH_QUOTED) != 0 ? RON_HTTP_NONE : RON_HTTP_CHUNK_EXT;
    case EXT_ESCAPE:
        d->state = EXT_QUOTED;
        return (flags & CH_QUOTED) != 0 || c == '"' || c == '\\' ? RON_HTTP_NONE
                                                                 : RON_HTTP_CHUNK_EXT;
    default:
        break;
    }
    if (d->state != EXT_QUOTED_END && (flags & CH_TOKEN) != 0) {
        d->state = d->state == EXT_VALUE ? (uint32_t)EXT_TOKEN : d->state;
        d->digits = 1;
        return RON_HTTP_NONE;
    }
    if (d->state == EXT_VALUE && c == '"') {
        d->state = EXT_QUOTED;
        d->digits = 1;
        return RON_HTTP_NONE;
    }
    if (d->digits == 0 || d->state == EXT_VALUE) {
        return RON_HTTP_CHUNK_EXT; /* a name or value that is empty */
    }
    if (c == '=' && d->state == EXT_NAME) {
        d->state = EXT_VALUE;
    } else if (c == ';') {
        d->state = EXT_NAME;
        d->digits = 0;
    } else if (c == '\r') {
        d->state = SIZE_LF;
    } else {
        return RON_HTTP_CHUNK_EXT;
    }
    return RON_HTTP_NONE;
}

static enum ron_http_reason on_size_end(struct ron_http_chunked *d, char c)
{
    if (c != '\n') {
        return RON_HTTP_BARE_CR;
    }
    d->digits = 0;
    if (d->left == 0) {
        d->state = LINE;
        return RON_HTTP_NONE;
    }
    if (d->left > d->body_max - d->total) {
        return RON_HTTP_BODY_LARGE; /* I2 */
    }
    d->total += d->left;
    d->state = DATA;
    return RON_HTTP_NONE;
}

static enum ron_http_reason on_trailer(struct ron_http_chunked *d, char c)
{
    uint8_t byte = (uint8_t)c;

    if (++d->trailer_bytes > RON_HTTP_TRAILER_MAX) {
        return RON_HTTP_TRAILER;
    }
    switch (d->state) {
    case LINE:
    case NAME:
        if ((ron__http_char[byte] & CH_TOKEN) != 0) {
            d->state = NAME;
        } else if (d->state == NAME && c == ':') {
            d->state = VALUE;
        } else if (d->state == LINE && c == '\r') {
            d->state = END_LF;
        } else {
            return RON_HTTP_TRAILER;
        }
        return RON_HTTP_NONE;
    case VALUE:
        if (c == '\r') {
            d->state = VALUE_LF;
            return RON_HTTP_NONE;
        }
        return (byte >= 0x20 && byte != 0x7f) || c == '\t' ? RON_HTTP_NONE : RON_HTTP_TRAILER;
    default: /* VALUE_LF, END_LF */
        if (c != '\n') {
            return RON_HTTP_BARE_CR;
        }
        d->state = d->state == END_LF ? END : LINE;
        return RON_HTTP_NONE;
    }
}

static enum ron_http_reason on_byte(struct ron_http_chunked *d, char c)
{
    if (d->state == SIZE) {
        return on_size(d, c);
    }
    if (d->state < SIZE_LF) {
        return on_ext(d, c);
    }
    if (d->state == SIZE_LF) {
        return on_size_end(d, c);
    }
    if (d->state == DATA_CR || d->state == DATA_LF) {
        bool fits = c == (d->state == DATA_CR ? '\r' : '\n'); /* I1 */

        d->state = d->state == DATA_CR ? DATA_LF : SIZE;
        return fits ? RON_HTTP_NONE : RON_HTTP_CHUNK_DATA;
    }
    return on_trailer(d, c);
}

enum ron_http_step ron_http_chunked_feed(struct ron_http_chunked *d, const char *in, size_t len,
                                         size_t *ret_used, size_t *ret_at, size_t *ret_len)
{
    size_t i = 0;

    *ret_used = 0;
    *ret_at = 0;
    *ret_len = 0;
    if (d->reason != RON_HTTP_NONE) {
        return RON_HTTP_REFUSED;
    }
    while (i < len && d->state != END) {
        if (d->state == DATA) {
            size_t n = d->left < len - i ? (size_t)d->left : len - i;

            d->left -= n;
            d->state = d->left == 0 ? DATA_CR : DATA;
            *ret_used = i + n;
            *ret_at = i;
            *ret_len = n;
            return RON_HTTP_MORE;
        }
        d->reason = on_byte(d, in[i]);
        if (d->reason != RON_HTTP_NONE) {
            return RON_HTTP_REFUSED;
        }
        i++;
    }
    *ret_used = i;
    return d->state == END ? RON_HTTP_DONE : RON_HTTP_MORE;
}
