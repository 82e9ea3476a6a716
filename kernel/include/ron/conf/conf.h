/* SPDX-License-Identifier: Apache-2.0 */
/* conf.h - typed configuration: one table per service, read from four sources, kept in snapshots.
 *
 * A service lists its keys once, and gets from that list the reader, the checks, --print-config,
 * the Markdown reference and the man page section:
 *
 *     #define WALLET_CONF(X)                                                                 \
 *         X(WALLET_DRAIN, "drain_deadline", DURATION, "", RON_CONF_S(1), RON_CONF_S(5), "3s", \
 *           RON_CONF_RELOAD, "How long a shutdown may drain.")                               \
 *         X(WALLET_TOKEN, "auth.token", STRING, "", 0, 256, "", RON_CONF_SECRET, "...")
 *     enum { WALLET_CONF(RON_CONF_ID) WALLET_CONF_COUNT };
 *     static const struct ron_conf_key wallet_keys[] = {WALLET_CONF(RON_CONF_ROW)};
 *     const struct ron_conf_table wallet_conf = {
 *         .service = "wallet", .keys = wallet_keys, .key_count = WALLET_CONF_COUNT};
 *
 * Sources, the later ones win: default < TOML file < environment < flags. A mistake in any of them
 * is an error even where a later source would win.
 *     file          [limits] max_body = "1MiB"
 *     environment   RON_WALLET__LIMITS__MAX_BODY=1MiB
 *     flag          --limits.max_body=1MiB
 *
 * A part of a name that is "*" stands for names the operator chooses (named sections): the row
 * "origins.*.url" allows [origins.osm] url = "...". All keys of such a group are reloadable or none
 * is.
 *
 * What a caller may count on:
 *   C1. A snapshot never changes. It lives as long as somebody holds a reference.
 *   C2. A failed load or reload leaves everything as it was.
 *   C3. After a reload a reader sees the old snapshot or the new one, whole, never a mixture.
 *   C4. The value of a secret key appears in no message, diff or printed configuration, and its
 *       memory is wiped before it is released.
 *   C5. An unknown key is an error that gives its place and the nearest known key.
 *
 * Threads: a table is constant; load, reload and the writers may run anywhere that may block; a
 * `struct ron_conf_box` may be used from all threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/env.h"
#include "ron/base/rc.h"
#include "ron/sync/sync.h"

/* ---- the table ------------------------------------------------------------------------------- */

enum {
    RON_CONF_FILE_MAX = 1 << 20,  /* bytes; as much as the TOML reader takes */
    RON_CONF_KEYS_MAX = 256,      /* rows of a table: five times the largest service */
    RON_CONF_SECTIONS_MAX = 256,  /* named sections of all groups together */
    RON_CONF_NAME_MAX = 128,      /* characters of a whole key */
    RON_CONF_PART_MAX = 64,       /* characters of one part of it */
    RON_CONF_STRING_MAX = 65536,  /* bytes of one string or list item: a PEM chain fits */
    RON_CONF_LIST_MAX = 1024,     /* items of one list */
    RON_CONF_PRINT_MAX = 4 << 20, /* bytes that the writers below produce at most */
};

/* X(NAME, "name in the reference", "example"). */
#define RON_CONF_TYPES(X)                                                                          \
    X(BOOL, "boolean", "true")                                                                     \
    X(INT, "integer", "42")                                                                        \
    X(DURATION, "duration", "\"250ms\"")                                                           \
    X(SIZE, "size", "\"64KiB\"")                                                                   \
    X(STRING, "string", "\"text\"")                                                                \
    X(LIST, "list of strings", "[\"a\", \"b\"]")                                                   \
    X(ENUM, "choice", "\"word\"")

enum ron_conf_type {
#define X(name, text, example) RON_CONF_##name,
    RON_CONF_TYPES(X)
#undef X
};

enum ron_conf_flags {
    RON_CONF_FIXED = 0,       /* needs a restart */
    RON_CONF_RELOAD = 1 << 0, /* a reload may change it */
    RON_CONF_SECRET = 1 << 1, /* C4; strings and lists only */
};

struct ron_conf_key {
    const char *name; /* "limits.max_body": parts of [a-z0-9_], one of them may be "*" */
    enum ron_conf_type type;
    const char *unit; /* shown behind a range, such as "requests/s"; of a choice "json|text" */
    int64_t min;      /* INT; DURATION in ms; SIZE in bytes; STRING bytes; LIST items */
    int64_t max;
    const char *value; /* default as an environment variable would say it; NULL = must be given */
    uint32_t flags;
    const char *doc; /* one sentence */
};

/* A second name of a key, such as the one that a specification gives it. All sources take either;
 * both in one source are an error, because nobody could say which one counts. */
struct ron_conf_alias {
    const char *name; /* "ingress.timeout_secs"; no "*" */
    const char *key;  /* "timeouts.request"; no "*" */
    const char *unit; /* "s": the value is a whole number of them; "": it is as the key's */
};

struct ron_conf_snap;

struct ron_conf_table {
    const char *service; /* "wallet": RON_WALLET__... */
    const struct ron_conf_key *keys;
    size_t key_count;
    const struct ron_conf_alias *aliases; /* may be NULL */
    size_t alias_count;
    /* Optional: rules between keys. A refusal fails the load or reload. */
    enum ron_rc (*check)(const struct ron_conf_snap *snap, struct ron_err *err);
};

#define RON_CONF_ID(id, name, type, unit, min, max, value, flags, doc) id,
#define RON_CONF_ROW(id, name, type, unit, min, max, value, flags, doc)                            \
    {name, RON_CONF_##type, unit, min, max, value, flags, doc},

/* Limits in base units. */
#define RON_CONF_S(n) ((int64_t)(n)*1000)
#define RON_CONF_M(n) RON_CONF_S((n)*60)
#define RON_CONF_H(n) RON_CONF_M((n)*60)
#define RON_CONF_KIB(n) ((int64_t)(n) << 10)
#define RON_CONF_MIB(n) ((int64_t)(n) << 20)
#define RON_CONF_GIB(n) ((int64_t)(n) << 30)

/* Place of the row with exactly this name, or SIZE_MAX: for code that serves many tables. */
size_t ron_conf_find_key(const struct ron_conf_table *table, const char *name);

/* ---- loading --------------------------------------------------------------------------------- */

struct ron_conf_sources {
    const char *path;           /* TOML file; NULL for none. A file that is named must exist. */
    const char *text;           /* TOML text instead of a file, for tests; `path` then names it */
    const char *const *environ; /* "NAME=value", ended by NULL; NULL for none */
    const char *const *flags;   /* "limits.max_body=1MiB", with or without "--" */
    size_t flag_count;
};

/* A snapshot with one reference, which is the caller's. RON_INVALID names the place and the reason;
 * RON_NOTFOUND, RON_DENIED and so on come from reading the file; RON_LIMIT; RON_NOMEM. Blocks on
 * the file. `env` may be NULL when no file is read. */
enum ron_rc ron_conf_load(const struct ron_env *env, const struct ron_conf_table *table,
                          const struct ron_conf_sources *sources, struct ron_conf_snap **ret_snap,
                          struct ron_err *err) RON_MUST_USE;

struct ron_conf_changes {
    size_t changed;       /* keys and named sections taken over */
    size_t needs_restart; /* changes refused because a key is not reloadable */
};

/* Loads anew and compares with `old`. Reloadable keys get their new values; the others keep those
 * of `old` and are reported as needing a restart. Afterwards `diff` holds a line per difference,
 * secrets redacted, as many as fit (RON_CONF_PRINT_MAX is plenty), and nothing after a failure.
 * `old` stays the caller's and is untouched (C2). */
enum ron_rc ron_conf_reload(const struct ron_env *env, const struct ron_conf_sources *sources,
                            const struct ron_conf_snap *old, struct ron_conf_snap **ret_snap,
                            struct ron_conf_changes *ret_changes, struct ron_buf *diff,
                            struct ron_err *err) RON_MUST_USE;

/* ---- reading a snapshot ---------------------------------------------------------------------- */

struct ron_conf_str {
    const char *text; /* ends in NUL, which is not counted; no NUL inside */
    size_t len;
};

struct ron_conf_list {
    const struct ron_conf_str *items;
    size_t count;
};

/* X(NAME, "name in messages"); the later ones win. */
#define RON_CONF_SOURCES(X)                                                                        \
    X(DEFAULT, "default")                                                                          \
    X(FILE, "file")                                                                                \
    X(ENV, "environment")                                                                          \
    X(FLAG, "flag")

enum ron_conf_source {
#define X(name, text) RON_CONF_FROM_##name,
    RON_CONF_SOURCES(X)
#undef X
};

struct ron_conf_value {
    enum ron_conf_source source;
    bool set; /* false only while loading */
    union {
        bool boolean;
        int64_t number; /* INT, DURATION in ms, SIZE in bytes, ENUM as position in its words */
        struct ron_conf_str string;
        struct ron_conf_list list;
    };
};

/* Typed reading; another type than the row's is a programmer's mistake, and so is a secret string
 * read with anything but ron_conf_secret. The variants with _in read a named section. */
bool ron_conf_bool_in(const struct ron_conf_snap *snap, uint32_t section, size_t key);
int64_t ron_conf_int_in(const struct ron_conf_snap *snap, uint32_t section, size_t key);
int64_t ron_conf_ms_in(const struct ron_conf_snap *snap, uint32_t section, size_t key);
int64_t ron_conf_bytes_in(const struct ron_conf_snap *snap, uint32_t section, size_t key);
size_t ron_conf_choice_in(const struct ron_conf_snap *snap, uint32_t section, size_t key);
struct ron_conf_str ron_conf_str_in(const struct ron_conf_snap *snap, uint32_t section, size_t key);
struct ron_conf_str ron_conf_secret_in(const struct ron_conf_snap *snap, uint32_t section,
                                       size_t key);
struct ron_conf_list ron_conf_list_in(const struct ron_conf_snap *snap, uint32_t section,
                                      size_t key);

#define ron_conf_bool(snap, key) ron_conf_bool_in((snap), 0, (key))
#define ron_conf_int(snap, key) ron_conf_int_in((snap), 0, (key))
#define ron_conf_ms(snap, key) ron_conf_ms_in((snap), 0, (key))
#define ron_conf_bytes(snap, key) ron_conf_bytes_in((snap), 0, (key))
#define ron_conf_choice(snap, key) ron_conf_choice_in((snap), 0, (key))
#define ron_conf_str(snap, key) ron_conf_str_in((snap), 0, (key))
#define ron_conf_secret(snap, key) ron_conf_secret_in((snap), 0, (key))
#define ron_conf_list(snap, key) ron_conf_list_in((snap), 0, (key))

/* Named sections of a group ("origins"), in the order in which they were first given. */
size_t ron_conf_section_count(const struct ron_conf_snap *snap, const char *group);
/* The section at `index` below the count. */
uint32_t ron_conf_section(const struct ron_conf_snap *snap, const char *group, size_t index);
/* The section of that name, or 0. */
uint32_t ron_conf_section_find(const struct ron_conf_snap *snap, const char *group,
                               const char *name);
const char *ron_conf_section_name(const struct ron_conf_snap *snap, uint32_t section);

const struct ron_conf_table *ron_conf_table_of(const struct ron_conf_snap *snap);

/* ---- sharing --------------------------------------------------------------------------------- */

/* References. The last one wipes and releases. */
struct ron_conf_snap *ron_conf_ref(struct ron_conf_snap *snap);
void ron_conf_unref(struct ron_conf_snap *snap);

/* Where the current snapshot is found (C3). A reader takes a reference for one piece of work and
 * gives it back afterwards. */
struct ron_conf_box {
    struct ron_mutex lock; /* held for a pointer and a count, never for more */
    struct ron_conf_snap *current;
    struct ron_au64 version; /* rises by one with every put */
};

/* The box takes over the caller's reference. */
void ron_conf_box_init(struct ron_conf_box *box, struct ron_conf_snap *take_snap);
void ron_conf_box_done(struct ron_conf_box *box);
/* The current snapshot with a reference for the caller. */
struct ron_conf_snap *ron_conf_box_get(struct ron_conf_box *box);
void ron_conf_box_put(struct ron_conf_box *box, struct ron_conf_snap *take_snap);

/* ---- writing --------------------------------------------------------------------------------- */

/* The snapshot as a TOML file with a comment per key; loading it gives the same snapshot, except
 * for secrets, which only a comment mentions (C4). */
enum ron_rc ron_conf_print(const struct ron_conf_snap *snap, struct ron_buf *out);
/* The reference of all keys as a Markdown table. */
enum ron_rc ron_conf_write_markdown(const struct ron_conf_table *table, struct ron_buf *out);
/* The same as the section CONFIGURATION of a man page (man(7) macros). */
enum ron_rc ron_conf_write_man(const struct ron_conf_table *table, struct ron_buf *out);
