/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/base.c - encodings, signed forms, and the pieces of a base string. */
#include <string.h>

#include "interop/provider/priv.h"
#include "ron/base/assert.h"

/* ---- encodings ------------------------------------------------------------------------------- */

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* -1 for what is no digit. These values are compared with a secret, but are the sender's own. */
static int hex_digit(char c, bool upper)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (upper) {
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_read(struct ron_str text, bool upper, uint8_t *out, size_t len)
{
    if (text.len != 2 * len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(text.ptr[2 * i], upper);
        int low = hex_digit(text.ptr[2 * i + 1], upper);

        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Without padding; the bits that are left over must be zero, so that each value has one text. */
static bool base64_bare(struct ron_str text, uint8_t *out, size_t size, size_t *ret_len)
{
    uint32_t bits = 0;
    uint32_t count = 0;
    size_t len = 0;

    if (text.len % 4 == 1) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        int digit = base64_digit(text.ptr[i]);

        if (digit < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)digit;
        count += 6;
        if (count >= 8) {
            if (len == size) {
                return false;
            }
            count -= 8;
            out[len++] = (uint8_t)(bits >> count);
        }
    }
    *ret_len = len;
    return (bits & ((1u << count) - 1)) == 0;
}

bool iop__base64_read(struct ron_str text, uint8_t *out, size_t size, size_t *ret_len)
{
    if (text.len > 0 && text.len % 4 == 0) {
        text.len -= text.ptr[text.len - 1] == '=';
        text.len -= text.len % 4 == 3 && text.ptr[text.len - 1] == '=';
    }
    return base64_bare(text, out, size, ret_len);
}

bool iop__decode_exact(enum iop_encoding encoding, struct ron_str text, uint8_t *out, size_t len)
{
    size_t got = 0;

    switch (encoding) {
    case IOP_HEX:
        return hex_read(text, false, out, len);
    case IOP_HEX_UPPER:
        return hex_read(text, true, out, len);
    case IOP_BASE64:
        return text.len == (len + 2) / 3 * 4 && iop__base64_read(text, out, len, &got) &&
               got == len;
    }
    RON_UNREACHABLE();
}

size_t iop__encode(enum iop_encoding encoding, const uint8_t *bytes, size_t len, char *out,
                   size_t size)
{
    const char *digits = encoding == IOP_HEX ? "0123456789abcdef" : "0123456789ABCDEF";
    size_t n = 0;

    RON_ASSERT(size > (encoding == IOP_BASE64 ? (len + 2) / 3 * 4 : 2 * len));
    if (encoding != IOP_BASE64) {
        for (size_t i = 0; i < len; i++) {
            out[n++] = digits[bytes[i] >> 4];
            out[n++] = digits[bytes[i] & 15];
        }
        out[n] = '\0';
        return n;
    }
    for (size_t i = 0; i < len; i += 3) {
        uint32_t left = (uint32_t)RON_MIN(len - i, (size_t)3);
        uint32_t v = (uint32_t)bytes[i] << 16;

        v |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        v |= left > 2 ? bytes[i + 2] : 0;
        out[n++] = base64_digits[v >> 18];
        out[n++] = base64_digits[v >> 12 & 63];
        out[n++] = (char)(left > 1 ? base64_digits[v >> 6 & 63] : '=');
        out[n++] = (char)(left > 2 ? base64_digits[v & 63] : '=');
    }
    out[n] = '\0';
    return n;
}

bool iop__is_visible(struct ron_str text, size_t max)
{
    if (text.len == 0 || text.len > max) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~') {
            return false;
        }
    }
    return true;
}

/* ---- forms ----------------------------------------------------------------------------------- */

static int compare_str(struct ron_str a, struct ron_str b)
{
    int c = memcmp(a.ptr, b.ptr, RON_MIN(a.len, b.len));

    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

static int compare_fields(const struct iop_form_field *a, const struct iop_form_field *b)
{
    int c = compare_str(a->name, b->name);

    return c != 0 ? c : compare_str(a->value, b->value);
}

/* Heap sort: no memory of its own, and no order of fields makes it slow. */
static void sift(struct iop_form_field *f, size_t at, size_t count)
{
    for (;;) {
        size_t child = 2 * at + 1;
        struct iop_form_field swap;

        if (child >= count) {
            return;
        }
        child += child + 1 < count && compare_fields(&f[child], &f[child + 1]) < 0;
        if (compare_fields(&f[at], &f[child]) >= 0) {
            return;
        }
        swap = f[at];
        f[at] = f[child];
        f[child] = swap;
        at = child;
    }
}

static void sort_fields(struct iop_form_field *f, size_t count)
{
    for (size_t i = count / 2; i > 0; i--) {
        sift(f, i - 1, count);
    }
    for (size_t i = count; i > 1; i--) {
        struct iop_form_field swap = f[0];

        f[0] = f[i - 1];
        f[i - 1] = swap;
        sift(f, 0, i - 1);
    }
}

/* application/x-www-form-urlencoded; unlike a query of ours a value may hold any byte. */
static bool form_decode(struct ron_str in, char **to, struct ron_str *ret)
{
    char *out = *to;

    for (size_t i = 0; i < in.len; i++) {
        char c = in.ptr[i];

        if (c == '%') {
            uint8_t byte;
            char pair[2];

            if (in.len - i < 3) {
                return false;
            }
            for (size_t k = 0; k < 2; k++) {
                pair[k] = in.ptr[i + 1 + k];
                if (pair[k] >= 'A' && pair[k] <= 'F') {
                    pair[k] = (char)(pair[k] | 0x20);
                }
            }
            if (!hex_read((struct ron_str){pair, 2}, false, &byte, 1)) {
                return false;
            }
            c = (char)byte;
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        *out++ = c;
    }
    *ret = (struct ron_str){*to, (size_t)(out - *to)};
    *to = out;
    return true;
}

bool iop__form_read(struct ron_str body, void *scratch, size_t size, struct iop_form *ret_form)
{
    const size_t table = IOP_FORM_FIELDS * sizeof(struct iop_form_field);
    struct iop_form_field *fields = scratch;
    char *text = (char *)scratch + table;
    struct ron_str name;
    struct ron_str value;
    size_t count = 0;
    size_t kept = 0;

    RON_ASSERT(size >= table + body.len && (uintptr_t)scratch % _Alignof(void *) == 0);
    while (ron_http_query_next(&body, &name, &value)) {
        if (count == IOP_FORM_FIELDS || !form_decode(name, &text, &fields[count].name) ||
            !form_decode(value, &text, &fields[count].value)) {
            return false;
        }
        count++;
    }
    sort_fields(fields, count);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_fields(&fields[kept - 1], &fields[i]) != 0) {
            fields[kept++] = fields[i];
        }
    }
    *ret_form = (struct iop_form){kept, fields};
    return true;
}

_Static_assert(IOP_FORM_FIELDS * sizeof(struct iop_form_field) <= IOP_SCRATCH_EXTRA,
               "scratch holds the table of a form");

/* ---- base strings ---------------------------------------------------------------------------- */

void iop__base_walk(const struct iop_provider *p, const struct iop_base_values *values,
                    iop_base_fn *fn, void *arg)
{
    for (size_t i = 0; i < p->base_count; i++) {
        switch (p->base[i].kind) {
        case IOP_BASE_TEXT:
            fn(arg, p->base[i].text.ptr, p->base[i].text.len);
            break;
        case IOP_BASE_BODY:
            fn(arg, values->body.ptr, values->body.len);
            break;
        case IOP_BASE_TIMESTAMP:
            fn(arg, values->timestamp.ptr, values->timestamp.len);
            break;
        case IOP_BASE_ID:
            fn(arg, values->id.ptr, values->id.len);
            break;
        case IOP_BASE_URL:
            fn(arg, values->url[0].ptr, values->url[0].len);
            fn(arg, values->url[1].ptr, values->url[1].len);
            break;
        case IOP_BASE_FORM:
            for (size_t k = 0; k < values->form.count; k++) {
                fn(arg, values->form.fields[k].name.ptr, values->form.fields[k].name.len);
                fn(arg, values->form.fields[k].value.ptr, values->form.fields[k].value.len);
            }
            break;
        }
    }
}

bool iop__base_has(const struct iop_provider *p, enum iop_base_kind kind)
{
    for (size_t i = 0; i < p->base_count; i++) {
        if (p->base[i].kind == kind) {
            return true;
        }
    }
    return false;
}

static void add_mac(void *arg, const void *bytes, size_t len)
{
    iop_mac_add(arg, bytes, len);
}

void iop__base_mac(const struct iop_provider *p, const struct iop_base_values *values,
                   const struct iop_mac_key *key, uint8_t ret_bytes[IOP_MAC_BYTES_MAX])
{
    struct iop_mac mac;

    iop_mac_begin(&mac, key);
    iop__base_walk(p, values, add_mac, &mac);
    (void)iop_mac_end(&mac, ret_bytes);
    ron_wipe(&mac, sizeof mac);
}

struct flat {
    char *at;
    size_t left;
};

static void add_flat(void *arg, const void *bytes, size_t len)
{
    struct flat *f = arg;

    RON_ASSERT(len <= f->left);
    if (len > 0) {
        memcpy(f->at, bytes, len);
    }
    f->at += len;
    f->left -= len;
}

struct ron_str iop__base_flat(const struct iop_provider *p, const struct iop_base_values *values,
                              void *scratch, size_t size)
{
    struct flat f = {scratch, size};

    iop__base_walk(p, values, add_flat, &f);
    return (struct ron_str){scratch, size - f.left};
}
