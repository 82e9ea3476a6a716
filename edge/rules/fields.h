/* SPDX-License-Identifier: Apache-2.0 */
/* edge/rules/fields.h - header fields of a request or an answer as a plain list, and what all rules
 * of HTTP share about them: names in any case, lists with commas, whole seconds.
 *
 * Place: edge, below every rule (edg_cc, edg_fresh, edg_vary, edg_hop). Pure: no I/O, no
 * allocation, no clock, no state.
 *
 * Invariants:
 *   F1. Nothing is copied: names and values borrow the text that they were read from.
 *   F2. Lines of one name mean one list, in their order (RFC 9110 5.3). A comma inside a quoted
 *       string separates nothing; empty elements are skipped.
 *   F3. Input is never trusted to be well formed; a string whose quotes do not close reaches to the
 *       end of its line, and edg_str_closed tells so.
 *
 * Threads: any. */
#pragma once

#include "ron/base/str.h"
#include "ron/http/parse.h"

struct edg_fields {
    const struct ron_http_field *at;
    size_t count;
};

/* Larger numbers of seconds mean this one (RFC 9111 1.2.2): 68 years. */
#define EDG_SECONDS_MAX UINT64_C(2147483648)
/* No such number was given. */
#define EDG_SECONDS_NONE UINT64_MAX

static inline struct edg_fields edg_fields_of(const struct ron_http_head *head)
{
    return (struct edg_fields){.at = head->fields, .count = head->field_count};
}

/* Whether every quoted string in it has its end. */
bool edg_str_closed(struct ron_str text);

/* How many lines have this name; the value of the first of them in *ret_first, if there is one. */
size_t edg_fields_get(struct edg_fields fields, const char *name, struct ron_str *ret_first);
bool edg_fields_has(struct edg_fields fields, const char *name);

/* Walks the elements of one list: struct edg_list l = edg_list_of(fields, "Vary"). */
struct edg_list {
    struct edg_fields fields;
    const char *name;
    size_t next;         /* the line after this one */
    struct ron_str rest; /* of this line */
};

static inline struct edg_list edg_list_of(struct edg_fields fields, const char *name)
{
    return (struct edg_list){.fields = fields, .name = name};
}

/* The same over one value. */
static inline struct edg_list edg_list_in(struct ron_str value)
{
    return (struct edg_list){.rest = value};
}

/* The next element, without blanks around it, never empty. False at the end. */
bool edg_list_next(struct edg_list *list, struct ron_str *ret_item);
/* Whether a list has this word, in any case. */
bool edg_list_has(struct edg_fields fields, const char *name, struct ron_str word);

/* Weights (RFC 9110 12.4.2) in thousandths. */
enum { EDG_WEIGHT_MAX = 1000 };

/* An element `name [ OWS ";" OWS "q=" weight ]`, the weight 1 without one. RON_INVALID for anything
 * else, other parameters included. */
RON_MUST_USE enum ron_rc edg_weighted(struct ron_str item, struct ron_str *ret_name,
                                      uint32_t *ret_weight);

/* Digits only; more than EDG_SECONDS_MAX is that. RON_INVALID. */
RON_MUST_USE enum ron_rc edg_seconds(struct ron_str text, uint64_t *ret_s);
