/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - a strict JSON scanner driven by tables, and an append writer.
 *
 * Reading. A request shape is a table of fields; one pass over the text fills a C struct. Nothing
 * is allocated: strings are slices of the text, which is therefore changed in place where an escape
 * has to be resolved (a resolved string is never longer). Refused, each with the name of the field
 * and the place: anything that is not JSON by RFC 8259, bytes that are not UTF-8, a lone surrogate,
 * a member twice, an unknown member, a missing one, a wrong type, a number out of range, a fraction
 * where a whole number is meant, a JSON number for money, bytes after the value, nesting deeper
 * than RON_JSON_DEPTH_MAX.
 *
 *     struct req { struct ron_str to; struct ron_money amount; uint64_t nonce; uint64_t present; };
 *     static const struct ron_json_field fields[] = {
 *         RON_JSON_FIELD(struct req, to, STRING, .required = true, .max = 128),
 *         RON_JSON_FIELD(struct req, amount, MONEY, .required = true),
 *         RON_JSON_FIELD(struct req, nonce, U64, .required = false),
 *     };
 *     static const struct ron_json_shape shape = RON_JSON_SHAPE(struct req, fields, present);
 *     rc = ron_json_scan(text, len, &shape, NULL, &req, &err);
 *
 * Bit i of `present` tells whether fields[i] was there. A nullable field that is null counts as
 * absent.
 *
 * Writing. Members are appended to a ron_buf in the order of the calls; commas are placed by the
 * writer. A writer over a full buffer does nothing more: look at ron_buf_error once at the end.
 *
 * Threads: none of this has state of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/arena.h"
#include "ron/base/buf.h"
#include "ron/base/money.h"
#include "ron/base/rc.h"
#include "ron/base/str.h"

enum {
    RON_JSON_DEPTH_MAX = 64,  /* deeper than any request of ours; guards the stack */
    RON_JSON_FIELDS_MAX = 64, /* one bit each in `present` */
};

enum ron_json_type {
    RON_JSON_STRING,  /* struct ron_str; `max` bytes, 0 = any */
    RON_JSON_MONEY,   /* struct ron_money from a canonical decimal string */
    RON_JSON_U64,     /* uint64_t; at most `max`, 0 = any */
    RON_JSON_I64,     /* int64_t */
    RON_JSON_BOOL,    /* bool */
    RON_JSON_OBJECT,  /* a struct described by `shape` */
    RON_JSON_ARRAY,   /* struct ron_json_items of structs described by `shape`; at most `max` */
    RON_JSON_STRINGS, /* struct ron_json_items of struct ron_str; at most `max` */
    RON_JSON_RAW,     /* struct ron_str: any value, checked and kept as text */
};

struct ron_json_shape;

struct ron_json_field {
    const char *name;
    uint32_t name_len;
    enum ron_json_type type;
    size_t offset;
    size_t item_size; /* ARRAY: size of one struct */
    uint64_t max;
    bool required;
    bool nullable;
    const struct ron_json_shape *shape; /* OBJECT, ARRAY */
};

struct ron_json_shape {
    const struct ron_json_field *fields;
    size_t count;
    size_t present_offset; /* of a uint64_t */
    bool allow_unknown;    /* for documents of others: unknown members are checked and skipped */
};

struct ron_json_items {
    void *items; /* from the arena */
    size_t count;
};

#define RON_JSON_FIELD(type_, member_, kind_, ...)                                                 \
    {                                                                                              \
        .name = #member_, .name_len = sizeof #member_ - 1, .type = RON_JSON_##kind_,               \
        .offset = offsetof(type_, member_), __VA_ARGS__                                            \
    }
#define RON_JSON_SHAPE(type_, fields_, present_)                                                   \
    {                                                                                              \
        .fields = (fields_), .count = sizeof(fields_) / sizeof((fields_)[0]),                      \
        .present_offset = offsetof(type_, present_)                                                \
    }

/* Why a text was refused. `field` is a path such as "entries[3].amount". */
struct ron_json_error {
    char field[96];
    char reason[96];
    size_t at; /* byte offset */
};

/* Fills `out`, which the caller has zeroed. `arena` holds arrays; NULL when the shape has none.
 * RON_INVALID with `err` filled, or RON_LIMIT when an array does not fit its `max` or the arena.
 * `text` is changed in place and must outlive `out`. */
RON_MUST_USE enum ron_rc ron_json_scan(char *text, size_t len, const struct ron_json_shape *shape,
                                       struct ron_arena *arena, void *out,
                                       struct ron_json_error *err);

/* Whether the text is one JSON value by the rules above (any value, any members but none twice is
 * not checked here). */
RON_MUST_USE enum ron_rc ron_json_check(const char *text, size_t len, struct ron_json_error *err);

/* ---- writing --------------------------------------------------------------------------------- */

struct ron_json_writer {
    struct ron_buf *out;
    bool comma; /* a comma is due before the next member or item */
};

void ron_json_begin(struct ron_json_writer *w, struct ron_buf *out);
/* `name` NULL: an item of an array, or the outermost value. Names are plain and need no
 * escaping. */
void ron_json_open(struct ron_json_writer *w, const char *name, char bracket); /* '{' or '[' */
void ron_json_close(struct ron_json_writer *w, char bracket);                  /* '}' or ']' */
void ron_json_str(struct ron_json_writer *w, const char *name, struct ron_str value);
void ron_json_text(struct ron_json_writer *w, const char *name,
                   const char *value); /* NULL gives null */
void ron_json_u64(struct ron_json_writer *w, const char *name, uint64_t value);
void ron_json_i64(struct ron_json_writer *w, const char *name, int64_t value);
void ron_json_bool(struct ron_json_writer *w, const char *name, bool value);
void ron_json_null(struct ron_json_writer *w, const char *name);
void ron_json_money(struct ron_json_writer *w, const char *name, struct ron_money value);
/* A value that is JSON already. */
void ron_json_raw(struct ron_json_writer *w, const char *name, struct ron_str json);

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* Length of the well-formed sequence at p (1-4), or 0. */
size_t ron_utf8_len(const char *p, const char *end);
