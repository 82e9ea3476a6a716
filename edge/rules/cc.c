/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/cc.c - Cache-Control, Age and date fields. */
#include "edge/rules/cc.h"

#include <string.h>

#include "ron/http/date.h"

/* An element of the list: name [ "=" ( token / quoted-string ) ]. */
struct directive {
    struct ron_str name;
    struct ron_str arg; /* without quotes; escapes stay, no argument that we read has any */
    bool bare;          /* no argument, and nothing else behind the name */
    bool well_formed;   /* the argument is what the grammar allows */
    bool quoted;
};

/* Fields without which stored bytes would be read as something else (C4). */
static const char *const needed_fields[] = {
    "Cache-Control", "Content-Encoding",  "Content-Length", "Content-Range",
    "Content-Type",  "Transfer-Encoding", "Vary",
};

static const char *const flag_names[EDG_CC_FLAG_COUNT] = {
#define X(name, text) [EDG_CC_##name##_AT] = (text),
    EDG_CC_FLAGS(X)
#undef X
};

static struct ron_str behind(struct ron_str text, size_t n)
{
    return (struct ron_str){text.ptr + n, text.len - n};
}

static struct directive read_directive(struct ron_str item)
{
    struct directive d = {.name = item, .bare = true, .well_formed = true};
    size_t n = 0;

    while (n < item.len && ron_http_is_token((struct ron_str){item.ptr + n, 1})) {
        n++;
    }
    if (n == item.len) {
        return d;
    }
    d.name.len = n;
    d.bare = false;
    d.well_formed = false;
    if (item.ptr[n] != '=') {
        return d;
    }
    d.arg = behind(item, n + 1);
    d.quoted = d.arg.len >= 2 && d.arg.ptr[0] == '"' && d.arg.ptr[d.arg.len - 1] == '"';
    if (d.quoted) {
        d.arg = (struct ron_str){d.arg.ptr + 1, d.arg.len - 2};
        d.well_formed = memchr(d.arg.ptr, '"', d.arg.len) == NULL;
    } else {
        d.well_formed = ron_http_is_token(d.arg);
    }
    return d;
}

static bool needed(struct ron_str name)
{
    for (size_t i = 0; i < RON_ARRAY_LEN(needed_fields); i++) {
        if (ron_str_is_nocase(name, needed_fields[i])) {
            return true;
        }
    }
    return false;
}

/* Whether no-cache or private speaks of some fields only. */
static bool of_fields(const struct directive *d)
{
    struct edg_list list = edg_list_in(d->arg);
    struct ron_str name;
    bool any = false;

    if (!d->quoted || !d->well_formed) {
        return false;
    }
    while (edg_list_next(&list, &name)) {
        if (!ron_http_is_token(name) || needed(name)) {
            return false;
        }
        any = true;
    }
    return any;
}

static bool permits(uint32_t flag)
{
    return (flag & (EDG_CC_PUBLIC | EDG_CC_MUST_UNDERSTAND | EDG_CC_IMMUTABLE)) != 0;
}

static void set_flag(struct edg_cc *cc, const struct directive *d, uint32_t flag)
{
    bool partly = (flag == EDG_CC_NO_CACHE || flag == EDG_CC_PRIVATE) && of_fields(d);

    if (!partly && (d->bare || !permits(flag))) {
        cc->flags |= flag;
    }
}

/* `longer`: the larger number is the stricter one. */
static void set_number(uint64_t *number, const struct directive *d, bool longer)
{
    uint64_t s = 0;

    if (!d->well_formed || edg_seconds(d->arg, &s) != RON_OK) {
        s = longer ? EDG_SECONDS_MAX : 0;
    }
    if (*number == EDG_SECONDS_NONE || (longer ? s > *number : s < *number)) {
        *number = s;
    }
}

static void take(struct edg_cc *cc, const struct directive *d)
{
    for (uint32_t i = 0; i < EDG_CC_FLAG_COUNT; i++) {
        if (ron_str_is_nocase(d->name, flag_names[i])) {
            set_flag(cc, d, 1u << i);
            return;
        }
    }
    if (d->bare && ron_str_is_nocase(d->name, "max-stale")) {
        const struct directive any = {.arg = ron_str_of("2147483648"), .well_formed = true};

        set_number(&cc->max_stale_s, &any, false);
        return;
    }
#define X(member, text)                                                                            \
    if (ron_str_is_nocase(d->name, text)) {                                                        \
        set_number(&cc->member, d, &cc->member == &cc->min_fresh_s);                               \
        return;                                                                                    \
    }
    EDG_CC_NUMBERS(X)
#undef X
}

static void read_all(struct edg_fields fields, struct edg_cc *ret_cc)
{
    struct edg_list list = edg_list_of(fields, "Cache-Control");
    struct ron_str item;
    struct edg_cc cc = {
#define X(member, text) .member = EDG_SECONDS_NONE,
        EDG_CC_NUMBERS(X)
#undef X
    };

    while (edg_list_next(&list, &item)) {
        struct directive d = read_directive(item);

        take(&cc, &d);
        if (!edg_str_closed(item)) {
            cc.flags |= EDG_CC_NO_STORE;
        }
    }
    *ret_cc = cc;
}

void edg_cc_request(struct edg_fields request, struct edg_cc *ret_cc)
{
    read_all(request, ret_cc);
    if (!edg_fields_has(request, "Cache-Control") &&
        edg_list_has(request, "Pragma", ron_str_of("no-cache"))) {
        ret_cc->flags |= EDG_CC_NO_CACHE;
    }
}

void edg_cc_response(struct edg_fields response, struct edg_cc *ret_cc)
{
    read_all(response, ret_cc);
}

bool edg_cc_withheld(struct edg_fields response, struct ron_str name)
{
    struct edg_list list = edg_list_of(response, "Cache-Control");
    struct ron_str item;

    while (edg_list_next(&list, &item)) {
        struct directive d = read_directive(item);
        struct edg_list names = edg_list_in(d.arg);
        struct ron_str one;

        if ((ron_str_is_nocase(d.name, "no-cache") || ron_str_is_nocase(d.name, "private")) &&
            of_fields(&d)) {
            while (edg_list_next(&names, &one)) {
                if (ron_str_equal_nocase(one, name)) {
                    return true;
                }
            }
        }
    }
    return false;
}

enum ron_rc edg_age(struct edg_fields response, uint64_t *ret_age_s)
{
    struct ron_str value;
    size_t lines = edg_fields_get(response, "Age", &value);

    if (lines == 0) {
        *ret_age_s = 0;
        return RON_OK;
    }
    return lines == 1 ? edg_seconds(value, ret_age_s) : RON_INVALID;
}

enum ron_rc edg_date(struct edg_fields fields, const char *name, uint64_t now_s,
                     uint64_t *ret_unix_s)
{
    struct ron_str value;
    size_t lines = edg_fields_get(fields, name, &value);

    if (lines == 0) {
        return RON_NOTFOUND;
    }
    return lines == 1 ? ron_http_date_parse(value, now_s, ret_unix_s) : RON_INVALID;
}
