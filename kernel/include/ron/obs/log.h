/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - structured log lines that never hold up whoever writes them.
 *
 *     RON_LOG(log, WARN, "ledger call failed", RON_LOG_STR("svc", "ledger"), RON_LOG_ERR(&err),
 *             RON_LOG_CORR(corr_id));
 *     RON_LOG_TEXT(log, INFO, "configuration reloaded");
 *
 * A line is a message (a string constant: values go into fields), typed fields, and what the log
 * adds: time, level, service, task. It is put together on the calling thread and handed over a
 * bounded queue to the thread "log", which writes one line with one write; when the queue is full
 * the oldest line makes room and is counted (queue_dropped_total{queue="log"}). Before
 * ron_log_start and after ron_log_stop, and for a fatal line, the caller writes itself.
 *
 * Rules:
 *   L1. Logging never blocks a worker, never fails and returns nothing.
 *   L2. A message is written at most RON_LOG_BURST times a second; what is left out is counted and
 *       told by "repeated" in the next line of that message, at the latest a second or so later.
 *   L3. A secret cannot be printed: struct ron_secret shows as "[redacted]", or where allowed by
 *       the first 8 hex digits of its BLAKE3 hash. A text field whose key names a secret
 *       (password, token, authorization, ...) or whose value looks like one (a bearer token,
 *       ?token=, user:password@ in a URL) is redacted too.
 *   L4. A line is one line: control characters and bytes that are not UTF-8 are escaped. It is at
 *       most RON_LOG_LINE_MAX bytes; long values are cut, fields beyond are left out, and the line
 *       says "cut".
 *   L5. Why a thread and no supervised task: the log tells of the supervisor's own end too.
 *
 * Threads: any; not with a lock held of rank chan or above. docs/formats/logs.md has the format. */
#pragma once

#include "ron/base/env.h"
#include "ron/base/json.h"
#include "ron/base/secret.h"
#include "ron/chan/registry.h"
#include "ron/obs/metrics.h"
#include "ron/task/supervisor.h"

/* X(NAME, "name"), the gravest first. */
#define RON_LOG_LEVELS(X)                                                                          \
    X(ERROR, "error")                                                                              \
    X(WARN, "warn")                                                                                \
    X(INFO, "info")                                                                                \
    X(DEBUG, "debug")

enum ron_log_level {
#define X(name, text) RON_LOG_##name,
    RON_LOG_LEVELS(X)
#undef X
        RON_LOG_LEVEL_COUNT
};

enum ron_log_format { RON_LOG_AS_TEXT, RON_LOG_AS_JSON };

enum {
    RON_LOG_LINE_MAX = 4096, /* below PIPE_BUF: a write of one line to a pipe is not torn */
    RON_LOG_VALUE_MAX = 512, /* bytes of one value */
    RON_LOG_QUEUE_DEFAULT = 1024,
    RON_LOG_BURST = 10,
};

struct ron_trace_ctx;

enum ron_log_type {
    RON_LOG_TYPE_STR,
    RON_LOG_TYPE_SLICE,
    RON_LOG_TYPE_U64,
    RON_LOG_TYPE_I64,
    RON_LOG_TYPE_BOOL,
    RON_LOG_TYPE_ERR,
    RON_LOG_TYPE_TRACE,
    RON_LOG_TYPE_SECRET,
    RON_LOG_TYPE_SECRET_HASH,
};

struct ron_log_field {
    const char *key; /* plain text that needs no escape */
    enum ron_log_type type;
    union {
        const char *str;
        struct ron_str slice;
        uint64_t u64;
        int64_t i64;
        bool boolean;
        const struct ron_err *err;
        const struct ron_trace_ctx *trace;
        const struct ron_secret *secret;
    } v;
};

#define RON_LOG_FIELD_(key_, type_, member_, value_)                                               \
    ((struct ron_log_field){.key = (key_), .type = RON_LOG_TYPE_##type_, .v.member_ = (value_)})
#define RON_LOG_STR(key, text) RON_LOG_FIELD_(key, STR, str, text) /* NULL gives null */
#define RON_LOG_SLICE(key, s) RON_LOG_FIELD_(key, SLICE, slice, s)
#define RON_LOG_U64(key, n) RON_LOG_FIELD_(key, U64, u64, n)
#define RON_LOG_I64(key, n) RON_LOG_FIELD_(key, I64, i64, n)
#define RON_LOG_BOOL(key, b) RON_LOG_FIELD_(key, BOOL, boolean, b)
#define RON_LOG_CORR(s) RON_LOG_FIELD_("corr_id", SLICE, slice, s)
/* rc and error. */
#define RON_LOG_ERR(err_) RON_LOG_FIELD_("error", ERR, err, err_)
/* trace_id and span_id; nothing for a context that is not valid. */
#define RON_LOG_TRACE(ctx) RON_LOG_FIELD_("trace_id", TRACE, trace, ctx)
#define RON_LOG_SECRET(key, s) RON_LOG_FIELD_(key, SECRET, secret, s)
/* For tokens alone (decisions: the first 8 hex of b3(token) may be logged), never for keys. */
#define RON_LOG_SECRET_HASH(key, s) RON_LOG_FIELD_(key, SECRET_HASH, secret, s)

/* Writes a whole line, its newline included. */
typedef enum ron_rc ron_log_write_fn(void *arg, const char *line, size_t len);
/* To standard error; arg is not used. Not in the model build. */
ron_log_write_fn ron_log_stderr;

struct ron_log_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    const char *service;
    enum ron_log_format format;
    enum ron_log_level level;
    ron_log_write_fn *write;
    void *write_arg;
    uint32_t queue_capacity; /* 0 = RON_LOG_QUEUE_DEFAULT */
};

struct ron_log;

/* RON_INVALID, RON_NOMEM. Lines may be written from here on. */
RON_MUST_USE enum ron_rc ron_log_new(const struct ron_log_opts *opts, struct ron_log **ret_log,
                                     struct ron_err *err);
/* After ron_log_stop, or without a start. */
void ron_log_free(struct ron_log *log);
/* Starts the thread. RON_LIMIT, RON_NOMEM. */
RON_MUST_USE enum ron_rc ron_log_start(struct ron_log *log, struct ron_err *err);
/* Writes what is queued and joins the thread. Blocking point. */
void ron_log_stop(struct ron_log *log);

/* For a reload, from any thread. */
void ron_log_set_level(struct ron_log *log, enum ron_log_level level);
bool ron_log_enabled(const struct ron_log *log, enum ron_log_level level);

/* Use the macros. `message` is a string constant: it is the key of L2. `log` may be NULL: nobody
 * listens. */
void ron_log_write(struct ron_log *log, enum ron_log_level level, const char *message,
                   const struct ron_log_field *fields, size_t count);
#define RON_LOG(log, level, message, ...)                                                          \
    do {                                                                                           \
        struct ron_log *ron_log_ = (log);                                                          \
        if (ron_log_enabled(ron_log_, RON_LOG_##level)) {                                          \
            const struct ron_log_field ron_fields_[] = {__VA_ARGS__};                              \
            ron_log_write(ron_log_, RON_LOG_##level, "" message, ron_fields_,                      \
                          sizeof ron_fields_ / sizeof ron_fields_[0]);                             \
        }                                                                                          \
    } while (0)
#define RON_LOG_TEXT(log, level, message)                                                          \
    do {                                                                                           \
        struct ron_log *ron_log_ = (log);                                                          \
        if (ron_log_enabled(ron_log_, RON_LOG_##level)) {                                          \
            ron_log_write(ron_log_, RON_LOG_##level, "" message, NULL, 0);                         \
        }                                                                                          \
    } while (0)

/* For ron_sup_opts.on_event, with the log as its argument. */
void ron_log_sup_event(void *log, const struct ron_sup_event *event);

/* log_lines_total{level}, log_suppressed_total, log_write_errors_total. */
RON_MUST_USE enum ron_rc ron_collect_log(struct ron_metrics *m, const struct ron_log *log,
                                         struct ron_err *err);
