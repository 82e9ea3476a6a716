/* SPDX-License-Identifier: Apache-2.0 */
/* toml_priv.h - what the parts of the TOML reader share. Private to conf.
 *
 * toml.c       the grammar of lines, tables and values, and the tree
 * toml_text.c  characters, comments, keys, strings, places in the text
 * toml_num.c   numbers, booleans and dates */
#pragma once

#include "ron/base/arena.h"
#include "ron/conf/toml.h"

/* A text and the name it has in messages. */
struct conf_text {
    const char *name;
    const char *bytes;
    size_t len;
};

struct toml_parser {
    struct conf_text src;
    const char *at;
    const char *end;
    struct ron_arena *arena;
    char *scratch; /* as long as the text, so nothing decoded from it can be longer */
    uint32_t values;
    struct ron_err *err;
};

struct toml_key {
    const char *text;
    size_t len;
    const char *at; /* in the source */
};

/* Records RON_INVALID with the place of `at` in front, and returns it. */
enum ron_rc conf_fail_at(const struct conf_text *src, const char *at, struct ron_err *err,
                         const char *fmt, ...) RON_PRINTF(4, 5);
#define toml_fail(p, at, ...) conf_fail_at(&(p)->src, (at), (p)->err, __VA_ARGS__)

/* The arena has room for every document within the limits, so a refusal is a lack of memory. */
enum ron_rc toml_nomem(struct toml_parser *p);

/* Room for "U+10FFFF" and for words such as "end of line". */
enum { TOML_SHOWN_SIZE = 24 };
/* What stands at p->at, for messages. */
const char *toml_shown(const struct toml_parser *p, char out[TOML_SHOWN_SIZE]);

static inline bool toml_at(const struct toml_parser *p, char c)
{
    return p->at < p->end && *p->at == c;
}

static inline bool toml_take(struct toml_parser *p, char c)
{
    bool there = toml_at(p, c);

    p->at += there;
    return there;
}

static inline bool toml_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

void toml_skip_blank(struct toml_parser *p);
/* Blanks, comments and line ends. */
enum ron_rc toml_skip_lines(struct toml_parser *p) RON_MUST_USE;
/* Blanks and a comment, then a line end or the end of the text; refuses anything else. */
enum ron_rc toml_end_line(struct toml_parser *p) RON_MUST_USE;
enum ron_rc toml_read_key(struct toml_parser *p, struct toml_key *ret_key) RON_MUST_USE;
enum ron_rc toml_read_string(struct toml_parser *p, struct ron_toml_value *v) RON_MUST_USE;
/* Everything that has no opening mark: numbers, booleans, dates. */
enum ron_rc toml_read_scalar(struct toml_parser *p, struct ron_toml_value *v) RON_MUST_USE;

/* A whole text or key is UTF-8: the offset of the first byte that is not, or len. */
size_t ron_toml_utf8_prefix(const char *text, size_t len);
