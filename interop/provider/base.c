/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/base.c - encodings, signed forms, and the pieces of a base string. */
#include <string.h>

#include "interop/provider/priv.h"
#include "ron/base/assert.h"
#include "ron/base/hex.h"

/* ---- encodings ------------------------------------------------------------------------------- */

/* These values are compared with a secret, but are the sender's own: no constant time. */
bool iop__base64_read(struct ron_str text, uint8_t *out, size_t size, size_t *ret_len)
{
    bool padded = text.len > 0 && text.ptr[text.len - 1] == '=';

    return ron_base64_read(text, padded ? RON_BASE64_PADDED : RON_BASE64_BARE, out, size, ret_len);
}

bool iop__decode_exact(enum iop_encoding encoding, struct ron_str text, uint8_t *out, size_t len)
{
    size_t got = 0;

    switch (encoding) {
    case IOP_HEX:
        return ron_unhex(text, RON_HEX_LOWER, out, len);
    case IOP_HEX_UPPER:
        return ron_unhex(text, RON_HEX_UPPER, out, len);
    case IOP_BASE64:
        return ron_base64_read(text, RON_BASE64_PADDED, out, len, &got) && got == len;
    }
    RON_UNREACHABLE();
}

size_t iop__encode(enum iop_encoding encoding, const uint8_t *bytes, size_t len, char *out,
                   size_t size)
{
    size_t n = encoding == IOP_BASE64 ? ron_base64_size(len, RON_BASE64_PADDED) : 2 * len;

    RON_ASSERT(size > n);
    if (encoding == IOP_BASE64) {
        ron_base64(bytes, len, RON_BASE64_PADDED, out);
        out[n] = '\0';
    } else {
        (encoding == IOP_HEX ? ron_hex : ron_hex_upper)(bytes, len, out);
    }
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

            if (in.len - i < 3 ||
                !ron_unhex((struct ron_str){in.ptr + i + 1, 2}, RON_HEX_ANY, &byte, 1)) {
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
