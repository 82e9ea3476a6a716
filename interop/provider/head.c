/* SPDX-License-Identifier: Apache-2.0 */
/* interop/provider/head.c - the half of a verification that needs the head alone: cheap refusals
 * before a body is hashed (V3, V5). */
#include <string.h>

#include "interop/provider/priv.h"
#include "ron/base/assert.h"

/* A header by its name or its other name; NONE with `ret->ptr` NULL when it is absent. */
static enum iop_refusal get(const struct ron_http_head *head, const char *name, const char *alias,
                            struct ron_str *ret)
{
    const char *names[] = {name, alias};

    *ret = (struct ron_str){NULL, 0};
    for (size_t i = 0; i < RON_ARRAY_LEN(names); i++) {
        struct ron_str value = {NULL, 0};
        enum ron_rc rc =
            names[i] == NULL ? RON_NOTFOUND : ron_http_field_get(head, names[i], &value);

        if (rc == RON_NOTFOUND) {
            continue;
        }
        if (rc != RON_OK || (ret->ptr != NULL && (ret->len != value.len ||
                                                  memcmp(ret->ptr, value.ptr, value.len) != 0))) {
            return IOP_REFUSE_HEADER_TWICE;
        }
        *ret = (struct ron_str){value.ptr == NULL ? "" : value.ptr, value.len};
    }
    return IOP_REFUSE_NONE;
}

/* Cuts `rest` at the first `mark`; false when there was nothing left. */
static bool cut(struct ron_str *rest, char mark, struct ron_str *ret_part)
{
    const char *at;

    if (rest->ptr == NULL) {
        return false;
    }
    at = memchr(rest->ptr, mark, rest->len);
    if (at == NULL) {
        *ret_part = *rest;
        *rest = (struct ron_str){NULL, 0};
        return true;
    }
    *ret_part = (struct ron_str){rest->ptr, (size_t)(at - rest->ptr)};
    *rest = (struct ron_str){at + 1, rest->len - ret_part->len - 1};
    return true;
}

/* ---- signatures ------------------------------------------------------------------------------ */

static enum iop_refusal add_sig(const struct iop_provider *p, enum iop_alg alg, struct ron_str text,
                                struct iop_delivery *d)
{
    size_t len = alg == IOP_ALG_ED25519 ? 64 : iop_hash_bytes(p->scheme.hash);
    struct iop_sig *sig = &d->sigs[d->sig_count];

    if (d->sig_count == IOP_SIGS_MAX) {
        return IOP_REFUSE_SIG_MANY;
    }
    RON_ASSERT_MSG(d->sig_count < IOP_SIGS_MAX, "the table of signatures is bounded");
    RON_ASSERT(len <= sizeof sig->bytes);
    sig->alg = alg;
    if (!iop__decode_exact(p->scheme.encoding, text, sig->bytes, len)) {
        return IOP_REFUSE_SIG_FORM;
    }
    d->sig_count++;
    return IOP_REFUSE_NONE;
}

static enum iop_refusal read_one(const struct iop_provider *p, struct ron_str value,
                                 struct iop_delivery *d)
{
    const char *prefix = p->scheme.prefix == NULL ? "" : p->scheme.prefix;
    size_t len = strlen(prefix);

    if (value.len < len || memcmp(value.ptr, prefix, len) != 0) {
        return IOP_REFUSE_SIG_SCHEME;
    }
    return add_sig(p, p->scheme.alg, (struct ron_str){value.ptr + len, value.len - len}, d);
}

/* "name=value" pairs. Names that are not ours are other schemes and are passed over (V1). */
static enum iop_refusal read_pairs(const struct iop_provider *p, struct ron_str value,
                                   struct iop_delivery *d, struct ron_str *ret_ts)
{
    struct ron_str item;

    while (cut(&value, ',', &item)) {
        struct ron_str rest = item;
        struct ron_str name;

        if (!cut(&rest, '=', &name) || rest.ptr == NULL || name.len == 0) {
            return IOP_REFUSE_SIG_FORM;
        }
        if (ron_str_is(name, p->scheme.prefix)) {
            enum iop_refusal refusal = add_sig(p, p->scheme.alg, rest, d);

            if (refusal != IOP_REFUSE_NONE) {
                return refusal;
            }
        } else if (p->scheme.ts_name != NULL && ron_str_is(name, p->scheme.ts_name)) {
            if (ret_ts->ptr != NULL) {
                return IOP_REFUSE_HEADER_TWICE;
            }
            *ret_ts = rest;
        }
    }
    return IOP_REFUSE_NONE;
}

static bool has_key(const struct iop_provider *p, enum iop_alg alg)
{
    for (size_t i = 0; i < p->key_count; i++) {
        if (p->keys[i].alg == alg) {
            return true;
        }
    }
    return false;
}

/* "v1,..." and "v1a,..." with one blank between them. A word for which there is no key is passed
 * over like an unknown one. */
static enum iop_refusal read_words(const struct iop_provider *p, struct ron_str value,
                                   struct iop_delivery *d)
{
    struct ron_str item;

    while (cut(&value, ' ', &item)) {
        struct ron_str rest = item;
        struct ron_str name;
        enum iop_alg alg;
        enum iop_refusal refusal;

        if (!cut(&rest, ',', &name) || rest.ptr == NULL || name.len == 0) {
            return IOP_REFUSE_SIG_FORM;
        }
        if (!ron_str_is(name, "v1") && !ron_str_is(name, "v1a")) {
            continue;
        }
        alg = ron_str_is(name, "v1") ? IOP_ALG_HMAC : IOP_ALG_ED25519;
        if (!has_key(p, alg)) {
            continue;
        }
        refusal = add_sig(p, alg, rest, d);
        if (refusal != IOP_REFUSE_NONE) {
            return refusal;
        }
    }
    return IOP_REFUSE_NONE;
}

static enum iop_refusal read_sigs(const struct iop_provider *p, const struct ron_http_head *head,
                                  struct iop_delivery *d, struct ron_str *ret_ts)
{
    struct ron_str value;
    enum iop_refusal refusal = get(head, p->scheme.sig_header, p->scheme.sig_alias, &value);

    if (refusal != IOP_REFUSE_NONE) {
        return refusal;
    }
    if (value.ptr == NULL) {
        return IOP_REFUSE_SIG_MISSING;
    }
    if (value.len == 0 || value.len > IOP_SIG_HEADER_MAX) {
        return IOP_REFUSE_SIG_FORM;
    }
    switch (p->scheme.form) {
    case IOP_FORM_ONE:
        refusal = read_one(p, value, d);
        break;
    case IOP_FORM_PAIRS:
        refusal = read_pairs(p, value, d, ret_ts);
        break;
    case IOP_FORM_WORDS:
        refusal = read_words(p, value, d);
        break;
    }
    return refusal != IOP_REFUSE_NONE ? refusal
           : d->sig_count == 0        ? IOP_REFUSE_SIG_SCHEME
                                      : IOP_REFUSE_NONE;
}

/* ---- time, id, event ------------------------------------------------------------------------- */

enum iop_refusal iop__check_time(const struct iop_provider *p, struct ron_str text, int64_t now_ms,
                                 int64_t *ret_ms)
{
    uint64_t value = 0;
    int64_t ms;

    /* 15 digits of milliseconds reach beyond the year 30000, and nothing overflows. */
    if (text.len == 0 || text.len > 15 || (text.ptr[0] == '0' && text.len > 1) ||
        ron_http_parse_u64(text, &value) != RON_OK) {
        return IOP_REFUSE_TIME_FORM;
    }
    ms = (int64_t)value * (p->scheme.ts_ms ? 1 : 1000);
    if (ms < now_ms - p->window_ms || ms > now_ms + p->window_ms) {
        return IOP_REFUSE_CLOCK_SKEW;
    }
    *ret_ms = ms;
    return IOP_REFUSE_NONE;
}

static enum iop_refusal read_time(const struct iop_provider *p, const struct ron_http_head *head,
                                  struct ron_str in_pairs, int64_t now_ms, struct iop_delivery *d)
{
    struct ron_str value = in_pairs;

    if (p->scheme.ts_header != NULL) {
        enum iop_refusal refusal = get(head, p->scheme.ts_header, p->scheme.ts_alias, &value);

        if (refusal != IOP_REFUSE_NONE) {
            return refusal;
        }
    } else if (p->scheme.ts_name == NULL) {
        return IOP_REFUSE_NONE;
    }
    if (value.ptr == NULL) {
        return IOP_REFUSE_TIME_MISSING;
    }
    if (value.len > sizeof d->ts) {
        return IOP_REFUSE_TIME_FORM;
    }
    memcpy(d->ts, value.ptr, value.len);
    d->ts_len = value.len;
    return iop__check_time(p, value, now_ms, &d->ts_unix_ms);
}

static enum iop_refusal read_id(const struct iop_provider *p, const struct ron_http_head *head,
                                struct iop_delivery *d)
{
    bool is_signed = iop__base_has(p, IOP_BASE_ID);
    struct ron_str value;
    enum iop_refusal refusal;

    if (p->scheme.id_header == NULL) {
        return IOP_REFUSE_NONE;
    }
    refusal = get(head, p->scheme.id_header, p->scheme.id_alias, &value);
    if (refusal != IOP_REFUSE_NONE) {
        return refusal;
    }
    if (value.ptr == NULL) {
        return is_signed ? IOP_REFUSE_ID_MISSING : IOP_REFUSE_NONE;
    }
    /* "a.1" + "." + "2" and "a" + "." + "1.2" would be one base string. */
    if (!iop__is_visible(value, IOP_ID_MAX) ||
        (is_signed && memchr(value.ptr, '.', value.len) != NULL)) {
        return IOP_REFUSE_ID_FORM;
    }
    memcpy(d->id, value.ptr, value.len);
    d->id_len = value.len;
    d->id_signed = is_signed;
    return IOP_REFUSE_NONE;
}

static enum iop_refusal read_event(const struct iop_provider *p, const struct ron_http_head *head,
                                   struct iop_delivery *d)
{
    struct ron_str value;
    enum iop_refusal refusal = p->scheme.event_header == NULL ? IOP_REFUSE_NONE
                                                              : get(head, p->scheme.event_header,
                                                                    p->scheme.event_alias, &value);

    if (p->scheme.event_header == NULL || refusal != IOP_REFUSE_NONE || value.ptr == NULL) {
        return refusal;
    }
    if (!iop__is_visible(value, IOP_EVENT_MAX)) {
        return IOP_REFUSE_EVENT_FORM;
    }
    memcpy(d->event, value.ptr, value.len);
    d->event_len = value.len;
    return IOP_REFUSE_NONE;
}

/* ---- the head -------------------------------------------------------------------------------- */

static bool begins_with_type(struct ron_str value, const char *type)
{
    size_t len = strlen(type);

    return value.len >= len && strncasecmp(value.ptr, type, len) == 0 &&
           (value.len == len || value.ptr[len] == ';' || value.ptr[len] == ' ');
}

static enum iop_refusal read_content(const struct ron_http_head *head, struct iop_delivery *d)
{
    struct ron_str value;
    enum iop_refusal refusal = get(head, "Content-Encoding", NULL, &value);

    if (refusal != IOP_REFUSE_NONE) {
        return refusal;
    }
    if (value.ptr != NULL && !(value.len == 8 && strncasecmp(value.ptr, "identity", 8) == 0)) {
        return IOP_REFUSE_ENCODED;
    }
    refusal = get(head, "Content-Type", NULL, &value);
    d->form = value.ptr != NULL && begins_with_type(value, "application/x-www-form-urlencoded");
    return refusal;
}

enum iop_refusal iop_check_head(const struct iop_provider *p, const struct ron_http_head *head,
                                int64_t now_unix_ms, struct iop_delivery *ret)
{
    struct ron_str ts = {NULL, 0};
    enum iop_refusal refusal;

    RON_ASSERT(p->base_count <= RON_ARRAY_LEN(p->base));
    memset(ret, 0, sizeof *ret);
    if (!p->enabled) {
        return IOP_REFUSE_DISABLED;
    }
    if (p->key_count == 0) {
        return IOP_REFUSE_NO_SECRET; /* V2 */
    }
    refusal = read_content(head, ret);
    if (refusal == IOP_REFUSE_NONE) {
        refusal = read_sigs(p, head, ret, &ts);
    }
    if (refusal == IOP_REFUSE_NONE) {
        refusal = read_time(p, head, ts, now_unix_ms, ret);
    }
    if (refusal == IOP_REFUSE_NONE) {
        refusal = read_id(p, head, ret);
    }
    if (refusal == IOP_REFUSE_NONE) {
        refusal = read_event(p, head, ret);
    }
    return refusal;
}
