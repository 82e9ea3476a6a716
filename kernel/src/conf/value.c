/* SPDX-License-Identifier: Apache-2.0 */
/* value.c - one value: from text, from TOML, back to text, and equality.
 *
 * Place: conf. Pure; the only memory taken is the array of a list's items, from the given arena.
 * Failure: the message is a bare reason. Numbers and words of choices may be shown, the content of
 * strings and lists never, because those types may be secret (C4). */
#include "conf/conf_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/toml_priv.h"
#include "ron/base/assert.h"
#include "ron/base/str.h"
#include "ron/conf/value.h"

/* ---- numbers with units ---------------------------------------------------------------------- */

struct unit {
    const char *name;
    int64_t scale;
};

/* Largest first, powers of two before powers of ten: the first that divides is the one printed. */
static const struct unit durations[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit sizes[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"MB", 1000000},
                                    {"KiB", 1 << 10}, {"KB", 1000},     {"B", 1}};

/* Fractions beyond nanounits say nothing about bytes or milliseconds. */
enum { FRACTION_DIGITS_MAX = 9 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits and a fraction: the number is whole / 10^digits. Returns where it ends, 0 on failure. */
static size_t read_decimal(const char *text, size_t len, int64_t *ret_number, int64_t *ret_divisor)
{
    int64_t number = 0;
    int64_t divisor = 1;
    size_t point = 0;
    size_t i = 0;

    for (; i < len && (is_digit(text[i]) || (text[i] == '.' && point == 0 && i > 0)); i++) {
        if (text[i] == '.') {
            point = i;
            continue;
        }
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text[i] - '0', &number) ||
            (point != 0 && i - point > FRACTION_DIGITS_MAX)) {
            return 0;
        }
        divisor *= point != 0 ? 10 : 1;
    }
    if (i == 0 || text[i - 1] == '.') {
        return 0;
    }
    *ret_number = number;
    *ret_divisor = divisor;
    return i;
}

static enum ron_rc parse_scaled(const char *text, size_t len, const struct unit *units,
                                size_t unit_count, const char *known, int64_t *ret_number,
                                struct ron_err *err)
{
    int64_t number = 0;
    int64_t divisor = 1;
    size_t end = read_decimal(text, len, &number, &divisor);

    if (end == 0) {
        return ron_err_set(err, RON_INVALID, "needs a number and a unit (%s)", known);
    }
    end += end < len && text[end] == ' ' ? 1 : 0;
    for (size_t i = 0; i < unit_count; i++) {
        if (strlen(units[i].name) != len - end ||
            memcmp(units[i].name, text + end, len - end) != 0) {
            continue;
        }
        if (__builtin_mul_overflow(number, units[i].scale, &number)) {
            return ron_err_set(err, RON_INVALID, "the number is too large");
        }
        if (number % divisor != 0) {
            return ron_err_set(err, RON_INVALID, "is no whole number of %s",
                               units[unit_count - 1].name);
        }
        *ret_number = number / divisor;
        return RON_OK;
    }
    return ron_err_set(err, RON_INVALID, "%s; known units: %s",
                       end == len ? "a unit is missing" : "unknown unit", known);
}

enum ron_rc ron_conf_parse_duration(const char *text, size_t len, int64_t *ret_ms,
                                    struct ron_err *err)
{
    return parse_scaled(text, len, durations, RON_ARRAY_LEN(durations), "ms s m h", ret_ms, err);
}

enum ron_rc ron_conf_parse_size(const char *text, size_t len, int64_t *ret_bytes,
                                struct ron_err *err)
{
    return parse_scaled(text, len, sizes, RON_ARRAY_LEN(sizes), "B KiB MiB GiB KB MB", ret_bytes,
                        err);
}

enum ron_rc ron_conf_parse_int(const char *text, size_t len, int64_t *ret_number,
                               struct ron_err *err)
{
    bool negative = len > 0 && text[0] == '-';
    int64_t number = 0;

    if (len == (size_t)negative) {
        return ron_err_set(err, RON_INVALID, "needs a whole number");
    }
    for (size_t i = negative; i < len; i++) {
        int digit = text[i] - '0';

        if (!is_digit(text[i])) {
            return ron_err_set(err, RON_INVALID, "needs a whole number");
        }
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, negative ? -digit : digit, &number)) {
            return ron_err_set(err, RON_INVALID, "the number is too large");
        }
    }
    *ret_number = number;
    return RON_OK;
}

enum ron_rc ron_conf_parse_bool(const char *text, size_t len, bool *ret_value, struct ron_err *err)
{
    if (len == 4 && memcmp(text, "true", 4) == 0) {
        *ret_value = true;
    } else if (len == 5 && memcmp(text, "false", 5) == 0) {
        *ret_value = false;
    } else {
        return ron_err_set(err, RON_INVALID, "needs true or false");
    }
    return RON_OK;
}

static const char *format_scaled(int64_t number, const struct unit *units, const char *zero,
                                 char out[RON_CONF_NUMBER_SIZE])
{
    RON_ASSERT(number >= 0);
    if (number == 0) {
        (void)snprintf(out, RON_CONF_NUMBER_SIZE, "%s", zero);
        return out;
    }
    while (number % units->scale != 0) {
        units++; /* the last one divides everything */
    }
    (void)snprintf(out, RON_CONF_NUMBER_SIZE, "%" PRId64 "%s", number / units->scale, units->name);
    return out;
}

const char *ron_conf_format_duration(int64_t ms, char out[RON_CONF_NUMBER_SIZE])
{
    return format_scaled(ms, durations, "0s", out);
}

const char *ron_conf_format_size(int64_t bytes, char out[RON_CONF_NUMBER_SIZE])
{
    return format_scaled(bytes, sizes, "0B", out);
}

/* A number of the key's type as text, without quotes. */
static const char *format_number(const struct ron_conf_key *key, int64_t number,
                                 char out[RON_CONF_NUMBER_SIZE])
{
    if (key->type == RON_CONF_DURATION) {
        return ron_conf_format_duration(number, out);
    }
    if (key->type == RON_CONF_SIZE) {
        return ron_conf_format_size(number, out);
    }
    (void)snprintf(out, RON_CONF_NUMBER_SIZE, "%" PRId64, number);
    return out;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct ron_conf_str conf_choice_word(const struct ron_conf_key *key, size_t index)
{
    const char *at = key->unit;

    for (; index > 0 && *at != '\0'; index--) {
        at += strcspn(at, "|");
        at += *at == '|' ? 1 : 0;
    }
    return (struct ron_conf_str){.text = at, .len = strcspn(at, "|")};
}

static enum ron_rc read_choice(const struct ron_conf_key *key, const char *text, size_t len,
                               int64_t *ret_index, struct ron_err *err)
{
    for (size_t i = 0;; i++) {
        struct ron_conf_str word = conf_choice_word(key, i);

        if (word.len == 0) {
            return ron_err_set(err, RON_INVALID, "must be one of %s", key->unit);
        }
        if (word.len == len && memcmp(word.text, text, len) == 0) {
            *ret_index = (int64_t)i;
            return RON_OK;
        }
    }
}

static enum ron_rc check_range(const struct ron_conf_key *key, int64_t number, struct ron_err *err)
{
    char shown[RON_CONF_NUMBER_SIZE];
    char min[RON_CONF_NUMBER_SIZE];
    char max[RON_CONF_NUMBER_SIZE];

    if (number >= key->min && number <= key->max) {
        return RON_OK;
    }
    return ron_err_set(err, RON_INVALID, "%s is out of range %s..%s%s%s",
                       format_number(key, number, shown), format_number(key, key->min, min),
                       format_number(key, key->max, max), key->unit[0] == '\0' ? "" : " ",
                       key->unit);
}

/* Strings and list items: text that C can hold. */
static enum ron_rc check_text(const char *text, size_t len, int64_t max, struct ron_err *err)
{
    if ((int64_t)len > max) {
        return ron_err_set(err, RON_INVALID, "%zu bytes, %" PRId64 " at most", len, max);
    }
    if (memchr(text, '\0', len) != NULL || ron_toml_utf8_prefix(text, len) != len) {
        return ron_err_set(err, RON_INVALID, "must be UTF-8 without NUL");
    }
    return RON_OK;
}

static enum ron_rc check_count(const struct ron_conf_key *key, size_t count, struct ron_err *err)
{
    if ((int64_t)count < key->min || (int64_t)count > key->max) {
        return ron_err_set(err, RON_INVALID, "%zu items, %" PRId64 " to %" PRId64 " allowed", count,
                           key->min, key->max);
    }
    return RON_OK;
}

/* Everything that is one text: all types but booleans and integers of TOML, and lists. */
static enum ron_rc read_text(const struct ron_conf_key *key, const char *text, size_t len,
                             struct ron_conf_value *value, struct ron_err *err)
{
    switch (key->type) {
    case RON_CONF_BOOL:
        return ron_conf_parse_bool(text, len, &value->boolean, err);
    case RON_CONF_INT:
        RON_TRY(ron_conf_parse_int(text, len, &value->number, err));
        return check_range(key, value->number, err);
    case RON_CONF_DURATION:
        RON_TRY(ron_conf_parse_duration(text, len, &value->number, err));
        return check_range(key, value->number, err);
    case RON_CONF_SIZE:
        RON_TRY(ron_conf_parse_size(text, len, &value->number, err));
        return check_range(key, value->number, err);
    case RON_CONF_ENUM:
        return read_choice(key, text, len, &value->number, err);
    case RON_CONF_STRING:
        if ((int64_t)len < key->min) {
            return ron_err_set(err, RON_INVALID, "%zu bytes, at least %" PRId64 " needed", len,
                               key->min);
        }
        value->string = (struct ron_conf_str){.text = text, .len = len};
        return check_text(text, len, key->max, err);
    case RON_CONF_LIST:
        break;
    }
    RON_UNREACHABLE();
}

static enum ron_rc new_items(struct ron_arena *arena, size_t count, struct ron_conf_str **ret_items,
                             struct ron_err *err)
{
    struct ron_conf_str *items =
        ron_arena_alloc_array(arena, count, sizeof(*items), _Alignof(struct ron_conf_str));

    if (items == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for a list");
    }
    *ret_items = items;
    return RON_OK;
}

/* "a, b": items between commas, blanks around them dropped. An empty text is an empty list. */
static enum ron_rc split_list(const struct ron_conf_key *key, const char *text,
                              struct ron_arena *arena, struct ron_conf_value *value,
                              struct ron_err *err)
{
    struct ron_conf_str *items = NULL;
    size_t count = text[0] == '\0' ? 0 : 1;

    for (const char *c = text; *c != '\0'; c++) {
        count += *c == ',';
    }
    RON_TRY(check_count(key, count, err));
    RON_TRY(new_items(arena, count, &items, err));
    RON_ASSERT(items != NULL);
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(text, ",");
        const char *next = text + len + 1;

        for (; len > 0 && *text == ' '; len--) {
            text++;
        }
        for (; len > 0 && text[len - 1] == ' '; len--) {
        }
        if (len == 0) {
            return ron_err_set(err, RON_INVALID, "item %zu is empty", i + 1);
        }
        RON_TRY(check_text(text, len, RON_CONF_STRING_MAX, err));
        items[i] = (struct ron_conf_str){.text = text, .len = len};
        text = next;
    }
    value->list = (struct ron_conf_list){.items = items, .count = count};
    return RON_OK;
}

enum ron_rc conf_value_from_text(const struct ron_conf_key *key, const char *text,
                                 struct ron_arena *arena, struct ron_conf_value *ret_value,
                                 struct ron_err *err)
{
    struct ron_conf_value value = {.set = true};

    if (key->type == RON_CONF_LIST) {
        RON_TRY(split_list(key, text, arena, &value, err));
    } else {
        RON_TRY(read_text(key, text, strlen(text), &value, err));
    }
    *ret_value = value;
    return RON_OK;
}

static enum ron_rc fail_type(const struct ron_conf_key *key, const struct ron_toml_value *from,
                             struct ron_err *err)
{
    return ron_err_set(err, RON_INVALID, "must be a %s such as %s, not a value of type %s",
                       conf_type_name(key->type), conf_type_example(key->type),
                       ron_toml_type_name(from->type));
}

static enum ron_rc toml_list(const struct ron_conf_key *key, const struct ron_toml_value *from,
                             struct ron_arena *arena, struct ron_conf_value *value,
                             struct ron_err *err)
{
    struct ron_conf_str *items = NULL;
    size_t i = 0;

    if (from->type != RON_TOML_ARRAY) {
        return fail_type(key, from, err);
    }
    RON_TRY(check_count(key, from->count, err));
    RON_TRY(new_items(arena, from->count, &items, err));
    RON_ASSERT(items != NULL);
    for (const struct ron_toml_value *e = from->first; e != NULL; e = e->next) {
        if (e->type != RON_TOML_STRING) {
            return fail_type(key, e, err);
        }
        RON_TRY(check_text(e->string.text, e->string.len, RON_CONF_STRING_MAX, err));
        items[i++] = (struct ron_conf_str){.text = e->string.text, .len = e->string.len};
    }
    value->list = (struct ron_conf_list){.items = items, .count = i};
    return RON_OK;
}

enum ron_rc conf_value_from_toml(const struct ron_conf_key *key, const struct ron_toml_value *from,
                                 struct ron_arena *arena, struct ron_conf_value *ret_value,
                                 struct ron_err *err)
{
    struct ron_conf_value value = {.set = true};

    if (key->type == RON_CONF_LIST) {
        RON_TRY(toml_list(key, from, arena, &value, err));
    } else if (key->type == RON_CONF_BOOL && from->type == RON_TOML_BOOL) {
        value.boolean = from->boolean;
    } else if (key->type == RON_CONF_INT && from->type == RON_TOML_INTEGER) {
        value.number = from->integer;
        RON_TRY(check_range(key, value.number, err));
    } else if (key->type != RON_CONF_BOOL && key->type != RON_CONF_INT &&
               from->type == RON_TOML_STRING) {
        RON_TRY(read_text(key, from->string.text, from->string.len, &value, err));
    } else {
        return fail_type(key, from, err);
    }
    *ret_value = value;
    return RON_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool same_str(const struct ron_conf_str *a, const struct ron_conf_str *b)
{
    return ron_str_equal((struct ron_str){a->text, a->len}, (struct ron_str){b->text, b->len});
}

bool conf_value_equal(const struct ron_conf_key *key, const struct ron_conf_value *a,
                      const struct ron_conf_value *b)
{
    switch (key->type) {
    case RON_CONF_BOOL:
        return a->boolean == b->boolean;
    case RON_CONF_INT:
    case RON_CONF_DURATION:
    case RON_CONF_SIZE:
    case RON_CONF_ENUM:
        return a->number == b->number;
    case RON_CONF_STRING:
        return same_str(&a->string, &b->string);
    case RON_CONF_LIST:
        if (a->list.count != b->list.count) {
            return false;
        }
        for (size_t i = 0; i < a->list.count; i++) {
            if (!same_str(&a->list.items[i], &b->list.items[i])) {
                return false;
            }
        }
        return true;
    }
    RON_UNREACHABLE();
}

/* A basic string of TOML. */
static void write_quoted(const struct ron_conf_str *s, struct ron_buf *out)
{
    ron_buf_append_byte(out, '"');
    for (size_t i = 0; i < s->len; i++) {
        uint8_t c = (uint8_t)s->text[i];

        if (c == '"' || c == '\\') {
            ron_buf_append_byte(out, '\\');
        }
        if (c < 0x20 || c == 0x7f) {
            ron_buf_append_fmt(out, "\\u%04X", c);
        } else {
            ron_buf_append_byte(out, c);
        }
    }
    ron_buf_append_byte(out, '"');
}

void conf_value_write(const struct ron_conf_key *key, const struct ron_conf_value *value,
                      struct ron_buf *out)
{
    char number[RON_CONF_NUMBER_SIZE];
    struct ron_conf_str word;

    if ((key->flags & RON_CONF_SECRET) != 0) {
        ron_buf_append_text(out, "<redacted>");
        return;
    }
    switch (key->type) {
    case RON_CONF_BOOL:
        ron_buf_append_text(out, value->boolean ? "true" : "false");
        break;
    case RON_CONF_INT:
        ron_buf_append_text(out, format_number(key, value->number, number));
        break;
    case RON_CONF_DURATION:
    case RON_CONF_SIZE:
        ron_buf_append_fmt(out, "\"%s\"", format_number(key, value->number, number));
        break;
    case RON_CONF_STRING:
        write_quoted(&value->string, out);
        break;
    case RON_CONF_LIST:
        ron_buf_append_byte(out, '[');
        for (size_t i = 0; i < value->list.count; i++) {
            ron_buf_append_text(out, i == 0 ? "" : ", ");
            write_quoted(&value->list.items[i], out);
        }
        ron_buf_append_byte(out, ']');
        break;
    case RON_CONF_ENUM:
        word = conf_choice_word(key, (size_t)value->number);
        write_quoted(&word, out);
        break;
    }
}

void conf_range_write(const struct ron_conf_key *key, struct ron_buf *out)
{
    char min[RON_CONF_NUMBER_SIZE];
    char max[RON_CONF_NUMBER_SIZE];
    const char *unit = key->type == RON_CONF_STRING ? "bytes"
                       : key->type == RON_CONF_LIST ? "items"
                                                    : key->unit;

    if (key->type == RON_CONF_ENUM) {
        ron_buf_append_text(out, key->unit);
    } else if (key->type != RON_CONF_BOOL) {
        ron_buf_append_fmt(out, "%s..%s%s%s", format_number(key, key->min, min),
                           format_number(key, key->max, max), unit[0] == '\0' ? "" : " ", unit);
    }
}
