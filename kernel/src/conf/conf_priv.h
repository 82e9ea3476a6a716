/* SPDX-License-Identifier: Apache-2.0 */
/* conf_priv.h - what the parts of conf share above the TOML reader. Private to conf.
 *
 * table.c     the table of keys: checks, names, nearest
 * value.c     text to value and back
 * draft.c     values collected from the sources, borrowed
 * load.c      the four sources
 * snap.c      snapshots and the box
 * reload.c    comparison and merge
 * print.c     writers
 *
 * Path of a value: source text -> draft (borrows from texts and document) -> snapshot (owns). */
#pragma once

#include "conf/toml_priv.h"
#include "ron/base/arena.h"
#include "ron/conf/conf.h"
#include "ron/conf/value.h"

/* Row 0 holds the keys without "*"; every other row is one named section. Of `values` only those
 * are used that belong to the row. */
struct conf_row {
    const char *group; /* "origins"; NULL for row 0 */
    const char *name;  /* "osm"; NULL for row 0 */
    struct ron_conf_value *values;
};

struct ron_conf_snap {
    uint32_t magic;
    struct ron_au32 refs;
    const struct ron_conf_table *table;
    size_t bytes; /* of the whole block */
    uint32_t row_count;
    struct conf_row *rows;
};

#define CONF_SNAP_MAGIC 0x434f4e46u /* "CONF" */

struct conf_draft {
    const struct ron_conf_table *table;
    void *memory; /* of the arena */
    struct ron_arena arena;
    /* By key: one more than the source that gave it by its second name; 0 for none. */
    uint8_t aliased[RON_CONF_KEYS_MAX];
    uint32_t row_count;
    struct conf_row rows[RON_CONF_SECTIONS_MAX + 1];
};

/* ---- table.c --------------------------------------------------------------------------------- */

/* A path as given by a source: parts joined by points. */
struct conf_path {
    char text[RON_CONF_NAME_MAX + 1];
};

/* Name of an environment variable: each point doubles, and the service stands in front. */
struct conf_env {
    char text[2 * RON_CONF_NAME_MAX + RON_CONF_PART_MAX];
};

/* Where "*" matched in a path; len 0 when the name has none. */
struct conf_star {
    size_t at;
    size_t len;
};

/* Length of the part in front of ".*", which names a group; 0 when the name has no star. */
size_t conf_group_len(const char *name);
/* Length of everything in front of the last point; 0 for a key without a section. */
size_t conf_section_len(const char *name);
/* Whether a key belongs to a row: same group, or neither has one. */
bool conf_row_has(const struct conf_row *row, const struct ron_conf_key *key);
/* The row of the table that a path means, or -1. */
int conf_table_find(const struct ron_conf_table *table, const char *path,
                    struct conf_star *ret_star);
/* A row that lies below a path, or -1 when the path is no section. */
int conf_table_find_section(const struct ron_conf_table *table, const char *path,
                            struct conf_star *ret_star);
/* The second name that a path is, or NULL. */
const struct ron_conf_alias *conf_alias_find(const struct ron_conf_table *table, const char *path);
/* Whether a path is a section above one. */
bool conf_alias_section(const struct ron_conf_table *table, const char *path);
/* The known key, or section, closest to a path; false when nothing is close. */
bool conf_table_nearest(const struct ron_conf_table *table, const char *path, bool section,
                        struct conf_path *ret_near);
/* Puts the name of a section in the place of the star. */
void conf_name_with(const char *name, const char *star, struct conf_path *ret_path);
/* "RON_WALLET__LIMITS__MAX_BODY"; with an empty name what all of the service begin with. */
void conf_env_name(const struct ron_conf_table *table, const char *name, struct conf_env *ret_env);
const char *conf_type_name(enum ron_conf_type type);
const char *conf_type_example(enum ron_conf_type type);

/* ---- value.c --------------------------------------------------------------------------------- */

/* Reads a value from an environment variable, flag or default. The value borrows from `text`; list
 * items lie in the arena. Messages are a reason only, without key or place. */
enum ron_rc conf_value_from_text(const struct ron_conf_key *key, const char *text,
                                 struct ron_arena *arena, struct ron_conf_value *ret_value,
                                 struct ron_err *err) RON_MUST_USE;
enum ron_rc conf_value_from_toml(const struct ron_conf_key *key, const struct ron_toml_value *from,
                                 struct ron_arena *arena, struct ron_conf_value *ret_value,
                                 struct ron_err *err) RON_MUST_USE;
bool conf_value_equal(const struct ron_conf_key *key, const struct ron_conf_value *a,
                      const struct ron_conf_value *b);
/* As TOML; for a secret "<redacted>", without quotes so that no reader takes it for a value. */
void conf_value_write(const struct ron_conf_key *key, const struct ron_conf_value *value,
                      struct ron_buf *out);
/* The range as text: "1s..5s", "json|text". Empty for booleans. */
void conf_range_write(const struct ron_conf_key *key, struct ron_buf *out);
/* The word of a choice at a position, not ended by NUL; empty behind the last. */
struct ron_conf_str conf_choice_word(const struct ron_conf_key *key, size_t index);

/* ---- draft.c --------------------------------------------------------------------------------- */

/* A draft of the defaults, with room for whatever `source_bytes` bytes of sources may add. */
enum ron_rc conf_draft_new(const struct ron_conf_table *table, size_t source_bytes,
                           struct conf_draft **ret_draft, struct ron_err *err) RON_MUST_USE;
void conf_draft_free(struct conf_draft *draft);
/* The slot of a key, making its named section when it is new. */
enum ron_rc conf_draft_slot(struct conf_draft *draft, size_t key, const char *star, size_t star_len,
                            struct ron_conf_value **ret_slot, struct ron_err *err) RON_MUST_USE;
/* A source is about to give the key; RON_INVALID when it gave it under its other name, too. */
enum ron_rc conf_draft_claim(struct conf_draft *draft, size_t key,
                             const struct ron_conf_alias *alias, const struct ron_conf_value *slot,
                             enum ron_conf_source source, struct ron_err *err) RON_MUST_USE;
/* A whole number with the unit of a second name behind it, as text of the arena. */
enum ron_rc conf_draft_number(struct conf_draft *draft, const struct ron_conf_alias *alias,
                              const char *digits, const char **ret_text,
                              struct ron_err *err) RON_MUST_USE;
/* Every key that must be given was. */
enum ron_rc conf_draft_complete(const struct conf_draft *draft, struct ron_err *err) RON_MUST_USE;

/* ---- load.c ---------------------------------------------------------------------------------- */

/* What borrowed values borrow from; lives until the snapshot is made. */
struct conf_inputs {
    struct ron_buf file;
    struct ron_toml *doc;
    struct conf_text src; /* the TOML text; bytes is NULL without one */
    size_t source_bytes;  /* of all sources together */
};

/* Reads the file and measures the other sources. On failure too, conf_inputs_done comes after. */
enum ron_rc conf_inputs_open(const struct ron_env *env, const struct ron_conf_table *table,
                             const struct ron_conf_sources *sources, struct conf_inputs *inputs,
                             struct ron_err *err) RON_MUST_USE;
/* Lets every source set what it names. */
enum ron_rc conf_collect(const struct ron_conf_sources *sources, struct conf_inputs *inputs,
                         struct conf_draft *draft, struct ron_err *err) RON_MUST_USE;
void conf_inputs_done(struct conf_inputs *inputs);

/* ---- snap.c ---------------------------------------------------------------------------------- */

/* Copies rows into a snapshot that owns everything, and runs the table's own check on it. */
enum ron_rc conf_freeze(const struct ron_conf_table *table, const struct conf_row *rows,
                        uint32_t row_count, struct ron_conf_snap **ret_snap,
                        struct ron_err *err) RON_MUST_USE;
/* The row of a named section, or 0. */
uint32_t conf_find_row(const struct conf_row *rows, uint32_t row_count, const char *group,
                       size_t group_len, const char *name, size_t name_len);

/* Whether the table itself is sound: names, order (keys without a section first, keys of a section
 * together), defaults inside their ranges, a doc line each. ron_conf_load asserts it; a service
 * tests it to learn which row is wrong. */
enum ron_rc ron_conf_table_check(const struct ron_conf_table *table,
                                 struct ron_err *err) RON_MUST_USE;

/* The value of a key; `section` is 0 for keys without "*", else from ron_conf_section. */
const struct ron_conf_value *ron_conf_get(const struct ron_conf_snap *snap, uint32_t section,
                                          size_t key);

enum ron_rc ron_conf_parse_size(const char *text, size_t len, int64_t *ret_bytes,
                                struct ron_err *err) RON_MUST_USE;

/* An optional minus and decimal digits, nothing else. */
enum ron_rc ron_conf_parse_int(const char *text, size_t len, int64_t *ret_number,
                               struct ron_err *err) RON_MUST_USE;

/* "true" or "false". */
enum ron_rc ron_conf_parse_bool(const char *text, size_t len, bool *ret_value,
                                struct ron_err *err) RON_MUST_USE;

/* The shortest exact form: 90000 ms is "90s", 5400000 ms "90m", 1048576 bytes "1MiB". The number
 * must not be negative. Return `out`. */
const char *ron_conf_format_duration(int64_t ms, char out[RON_CONF_NUMBER_SIZE]);
const char *ron_conf_format_size(int64_t bytes, char out[RON_CONF_NUMBER_SIZE]);
