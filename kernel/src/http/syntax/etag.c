/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/etag.c - entity tags, lists of them, and what conditional headers decide.
 *
 * entity-tag = [ %s"W/" ] DQUOTE *( %x21 / %x23-7E / %x80-FF ) DQUOTE. A comma may stand inside. */
#include "ron/http/etag.h"

#include <string.h>

#include "http/syntax/chars.h"
#include "http/syntax/syntax.h"
#include "ron/base/str.h"
#include "ron/http/date.h"

/* The tag at the start of *text, which is moved behind it. */
static bool take_tag(struct ron_str *text, struct ron_http_etag *ret)
{
    struct ron_str s = *text;
    bool weak = s.len >= 2 && s.ptr[0] == 'W' && s.ptr[1] == '/';
    size_t n = weak ? 2 : 0;
    size_t from = n + 1;

    if (s.len <= n || s.ptr[n] != '"') {
        return false;
    }
    for (n = from; n < s.len && s.ptr[n] != '"'; n++) {
        uint8_t c = (uint8_t)s.ptr[n];

        if (c <= 0x20 || c == 0x7f) {
            return false;
        }
    }
    if (n == s.len) {
        return false;
    }
    *ret = (struct ron_http_etag){.opaque = {s.ptr + from, n - from}, .weak = weak};
    *text = (struct ron_str){s.ptr + n + 1, s.len - n - 1};
    return true;
}

enum ron_rc ron_http_etag_parse(struct ron_str text, struct ron_http_etag *ret_etag)
{
    struct ron_http_etag etag;

    if (!take_tag(&text, &etag) || text.len > 0) {
        return RON_INVALID;
    }
    *ret_etag = etag;
    return RON_OK;
}

bool ron_http_etag_equal(const struct ron_http_etag *a, const struct ron_http_etag *b, bool strong)
{
    return !(strong && (a->weak || b->weak)) && a->opaque.len == b->opaque.len &&
           (a->opaque.len == 0 || memcmp(a->opaque.ptr, b->opaque.ptr, a->opaque.len) == 0);
}

static void skip_blanks(struct ron_str *s)
{
    while (s->len > 0 && (s->ptr[0] == ' ' || s->ptr[0] == '\t')) {
        s->ptr++;
        s->len--;
    }
}

enum ron_rc ron_http_etag_in(struct ron_str list, const struct ron_http_etag *etag, bool strong,
                             bool *ret_in)
{
    bool in = false;
    bool any = false;

    if (ron_str_is(list, "*")) {
        *ret_in = etag != NULL;
        return RON_OK;
    }
    for (;;) {
        struct ron_http_etag one;

        skip_blanks(&list);
        if (list.len == 0) {
            break;
        }
        if (list.ptr[0] != ',') {
            if (!take_tag(&list, &one)) {
                return RON_INVALID;
            }
            any = true;
            in = in || (etag != NULL && ron_http_etag_equal(&one, etag, strong));
            skip_blanks(&list);
        }
        if (list.len > 0) {
            if (list.ptr[0] != ',') {
                return RON_INVALID;
            }
            list.ptr++;
            list.len--;
        }
    }
    if (!any) {
        return RON_INVALID;
    }
    *ret_in = in;
    return RON_OK;
}

enum listed { ABSENT, BROKEN, NOT_IN, IN };

/* What there is to compare with: a tag, a date, either or none. */
struct current {
    const struct ron_http_etag *etag;
    uint64_t mtime_s;
};

/* A list header may stand in several lines, which mean one list; "*" is no part of any. */
static enum listed listed(const struct ron_http_head *head, const char *name,
                          const struct current *now, bool strong)
{
    struct ron_str wanted = {name, strlen(name)};
    enum listed found = ABSENT;
    bool star = false;

    for (uint32_t i = 0; i < head->field_count; i++) {
        const struct ron_http_field *f = &head->fields[i];
        bool in = false;

        if (!ron_str_equal_nocase(f->name, wanted)) {
            continue;
        }
        if (star || (found != ABSENT && ron_str_is(f->value, "*")) ||
            ron_http_etag_in(f->value, now->etag, strong, &in) != RON_OK) {
            return BROKEN;
        }
        star = ron_str_is(f->value, "*");
        in = in || (star && now->mtime_s != RON_HTTP_NO_MTIME);
        found = in || found == IN ? IN : NOT_IN;
    }
    return found;
}

static bool date_field(const struct ron_http_head *head, const char *name, uint64_t now_s,
                       uint64_t *ret_s)
{
    struct ron_str value;

    return ron_http_field_get(head, name, &value) == RON_OK &&
           ron_http_date_parse(value, now_s, ret_s) == RON_OK;
}

enum ron_http_precond ron_http_precondition(const struct ron_http_head *head,
                                            const struct ron_http_etag *etag, uint64_t mtime_s,
                                            uint64_t now_s)
{
    const struct current now = {.etag = etag, .mtime_s = mtime_s};
    bool reads = head->method == RON_HTTP_GET || head->method == RON_HTTP_HEAD;
    enum listed l;
    uint64_t since;

    if (head->method == RON_HTTP_OPTIONS) {
        return RON_HTTP_PROCEED;
    }
    l = listed(head, "If-Match", &now, true);
    if (l == NOT_IN || l == BROKEN) {
        return RON_HTTP_PRECONDITION_FAILED;
    }
    if (l == ABSENT && mtime_s != RON_HTTP_NO_MTIME &&
        date_field(head, "If-Unmodified-Since", now_s, &since) && mtime_s > since) {
        return RON_HTTP_PRECONDITION_FAILED;
    }
    l = listed(head, "If-None-Match", &now, false);
    if (l == IN || (l == BROKEN && !reads)) {
        return reads ? RON_HTTP_NOT_MODIFIED : RON_HTTP_PRECONDITION_FAILED;
    }
    if (l == ABSENT && reads && mtime_s != RON_HTTP_NO_MTIME &&
        date_field(head, "If-Modified-Since", now_s, &since) && mtime_s <= since) {
        return RON_HTTP_NOT_MODIFIED;
    }
    return RON_HTTP_PROCEED;
}

bool ron_http_if_range(const struct ron_http_head *head, const struct ron_http_etag *etag,
                       uint64_t mtime_s, uint64_t now_s)
{
    struct ron_str value;
    struct ron_http_etag asked;
    uint64_t date_s;
    enum ron_rc rc = ron_http_field_get(head, "If-Range", &value);

    if (rc != RON_OK) {
        return rc == RON_NOTFOUND;
    }
    if (ron_http_etag_parse(value, &asked) == RON_OK) {
        return etag != NULL && ron_http_etag_equal(&asked, etag, true);
    }
    return mtime_s != RON_HTTP_NO_MTIME && mtime_s < now_s &&
           ron_http_date_parse(value, now_s, &date_s) == RON_OK && date_s == mtime_s;
}
