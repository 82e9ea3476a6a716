/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/syntax/select.c - conditions, then ranges. */
#include "ron/http/select.h"

#include <string.h>

#include "http/syntax/syntax.h"
#include "ron/base/assert.h"

/* What of the representation itself an answer tells. */
static uint32_t described(const struct ron_http_repr *repr)
{
    return RON_HTTP_WITH_CACHE | (repr->etag != NULL ? RON_HTTP_WITH_ETAG : 0) |
           (repr->mtime_s != RON_HTTP_NO_MTIME ? RON_HTTP_WITH_LAST_MODIFIED : 0);
}

static void whole(const struct ron_http_repr *repr, struct ron_http_selection *a)
{
    a->status = 200;
    a->with = described(repr) | RON_HTTP_WITH_CONTENT | RON_HTTP_WITH_ACCEPT_RANGES;
    a->length = repr->size;
}

static void not_modified(const struct ron_http_repr *repr, struct ron_http_selection *a)
{
    a->status = 304;
    a->with = described(repr);
    if (repr->etag != NULL) { /* the tag says it all (RFC 9110 15.4.5) */
        a->with &= ~(uint32_t)RON_HTTP_WITH_LAST_MODIFIED;
    }
}

static void content_range(const struct ron_http_repr *repr, const struct ron_http_range *range,
                          struct ron_http_selection *a)
{
    a->with |= RON_HTTP_WITH_CONTENT_RANGE;
    a->content_range_len = ron_http_content_range(range, repr->size, a->content_range);
}

static void unsatisfiable(const struct ron_http_repr *repr, struct ron_http_selection *a)
{
    a->status = 416;
    a->with = RON_HTTP_WITH_ACCEPT_RANGES;
    content_range(repr, NULL, a);
}

static bool meet(const struct ron_http_range *a, const struct ron_http_range *b)
{
    return a->first <= b->last + 1 && b->first <= a->last + 1;
}

/* Joins ranges that meet, until none do; last + 1 cannot overflow, since last < size. At most
 * RON_HTTP_RANGES_MAX joins of so many comparisons. */
static size_t coalesce(struct ron_http_range *r, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            if (!meet(&r[i], &r[j])) {
                continue;
            }
            r[i].first = RON_MIN(r[i].first, r[j].first);
            r[i].last = RON_MAX(r[i].last, r[j].last);
            memmove(&r[j], &r[j + 1], (count - j - 1) * sizeof r[0]);
            count--;
            j = i; /* what grew may meet those passed by */
        }
    }
    return count;
}

static void partial(const struct ron_http_repr *repr, struct ron_http_selection *a)
{
    a->range_count = coalesce(a->ranges, a->range_count);
    if (a->range_count > 1 && !repr->multipart) {
        a->range_count = 0;
        whole(repr, a);
        return;
    }
    a->status = 206;
    a->with = described(repr) | RON_HTTP_WITH_CONTENT | RON_HTTP_WITH_ACCEPT_RANGES;
    if (a->range_count == 1) {
        a->length = a->ranges[0].last - a->ranges[0].first + 1;
        content_range(repr, &a->ranges[0], a);
    }
}

void ron_http_select(const struct ron_http_head *head, const struct ron_http_repr *repr,
                     uint64_t now_s, struct ron_http_selection *ret_answer)
{
    struct ron_http_selection *a = ret_answer;
    struct ron_str value;
    enum ron_rc rc;

    a->status = 0;
    a->with = 0;
    a->length = 0;
    a->range_count = 0;
    a->content_range_len = 0;
    switch (ron_http_precondition(head, repr->etag, repr->mtime_s, now_s)) {
    case RON_HTTP_NOT_MODIFIED:
        not_modified(repr, a);
        return;
    case RON_HTTP_PRECONDITION_FAILED:
        a->status = 412;
        return;
    case RON_HTTP_PROCEED:
        break;
    }
    rc = head->method == RON_HTTP_GET ? ron_http_field_get(head, "Range", &value) : RON_NOTFOUND;
    if (rc == RON_OK && !ron_http_if_range(head, repr->etag, repr->mtime_s, now_s)) {
        rc = RON_NOTFOUND;
    }
    if (rc == RON_OK) {
        rc = ron_http_range_parse(value, repr->size, a->ranges, RON_HTTP_RANGES_MAX,
                                  &a->range_count);
    }
    if (rc == RON_OK) {
        partial(repr, a);
    } else if (rc == RON_NOTFOUND) {
        whole(repr, a);
    } else {
        unsatisfiable(repr, a);
    }
}
