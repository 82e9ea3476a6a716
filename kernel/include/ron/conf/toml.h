/* SPDX-License-Identifier: Apache-2.0 */
/* toml.h - a strict reader of TOML 1.0: a text becomes a tree, or a refusal with its place.
 *
 * Place: conf, its lowest part; pure text work without files, threads or time. conf.h builds typed
 * configuration on it. Our own because Debian has no C library for TOML 1.0.
 *
 * What a caller may count on:
 *   T1. Every valid TOML 1.0 document within the limits is accepted, everything else is refused
 *       (the public toml-test corpus is a test). What only TOML 1.1 allows is refused.
 *   T2. A refusal is RON_INVALID and its message reads "name:line:column: reason". Lines and
 *       columns count from 1, columns in characters, not bytes.
 *   T3. Messages never quote a value, because it may be a secret that lacks its quotes.
 *   T4. Strings are valid UTF-8 and end in a NUL that is not counted; \u0000 may stand inside. In
 *       strings of several lines CRLF becomes LF, so that a file means the same on every system.
 *   T5. Members of a table and elements of an array keep the order of the text.
 *
 * Codes: RON_INVALID (T2), RON_LIMIT (larger than the limits below), RON_NOMEM.
 * Ownership: the tree belongs to the document and lives until ron_toml_free, which wipes it. The
 * text is only read during the call, but offsets point into it, so keep it to report places.
 * Threads: none of its own; a finished document may be read from everywhere. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/macros.h"
#include "ron/base/rc.h"

enum {
    /* A hundred times the longest configuration in this project. */
    RON_TOML_BYTES_MAX = 1 << 20,
    /* Keys, array elements and tables together. A lookup walks its table, so this also bounds the
     * work for a hostile file to 8192 squared comparisons, a fraction of a second. */
    RON_TOML_VALUES_MAX = 8192,
    /* Tables and arrays inside each other, dotted keys counted by part. Recursion follows it. */
    RON_TOML_DEPTH_MAX = 32,
};

/* X(NAME, "name in messages"). */
#define RON_TOML_TYPES(X)                                                                          \
    X(TABLE, "table")                                                                              \
    X(ARRAY, "array")                                                                              \
    X(STRING, "string")                                                                            \
    X(INTEGER, "integer")                                                                          \
    X(FLOAT, "float")                                                                              \
    X(BOOL, "boolean")                                                                             \
    X(DATETIME, "date and time with offset")                                                       \
    X(LOCAL_DATETIME, "local date and time")                                                       \
    X(LOCAL_DATE, "local date")                                                                    \
    X(LOCAL_TIME, "local time")

enum ron_toml_type {
#define X(name, text) RON_TOML_##name,
    RON_TOML_TYPES(X)
#undef X
};

/* What a kind of date does not have is 0. */
struct ron_toml_time {
    int16_t year;
    int8_t month;
    int8_t day;
    int8_t hour;
    int8_t minute;
    int8_t second; /* 60 is a leap second */
    int16_t offset_min;
    int32_t nanos; /* further digits are cut */
};

struct ron_toml_value {
    enum ron_toml_type type;
    uint8_t flags;       /* private to the reader */
    uint8_t depth;       /* of the root 0 */
    uint32_t offset;     /* of the value's first byte in the text; of a table, of its header */
    uint32_t key_offset; /* of the last part of the key; of an element, of the element */
    uint32_t count;      /* members or elements */
    const char *key;     /* NULL for elements and the root */
    size_t key_len;
    struct ron_toml_value *next;  /* sibling */
    struct ron_toml_value *first; /* member or element */
    struct ron_toml_value *last;
    union {
        struct {
            const char *text;
            size_t len;
        } string;
        int64_t integer;
        double real;
        bool boolean;
        struct ron_toml_time time;
    };
};

struct ron_toml;

/* Reads len bytes; `name` stands in messages, usually the path. */
enum ron_rc ron_toml_parse(const char *name, const char *text, size_t len,
                           struct ron_toml **ret_doc, struct ron_err *err) RON_MUST_USE;

/* Wipes and releases. NULL is fine. */
void ron_toml_free(struct ron_toml *doc);

/* The root table. */
const struct ron_toml_value *ron_toml_root(const struct ron_toml *doc);

/* The member of that name, or NULL. */
const struct ron_toml_value *ron_toml_find(const struct ron_toml_value *table, const char *key);

/* "table", "integer" and so on. */
const char *ron_toml_type_name(enum ron_toml_type type);

/* Line and column (T2) of an offset into a text. Reads the text up to there. */
void ron_toml_position(const char *text, size_t len, size_t offset, uint32_t *ret_line,
                       uint32_t *ret_column);
