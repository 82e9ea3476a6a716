/* SPDX-License-Identifier: Apache-2.0 */
/* log_line.c - a log line as text or as JSON, never more than RON_LOG_LINE_MAX bytes.
 *
 * Method: members are appended one by one to a buffer that is a little smaller than the line. The
 * first that does not fit is taken back whole and the line is closed with the mark "cut", for which
 * the rest of the room is kept; so a line is always well-formed (L4). Redaction (L3) happens here,
 * where every value passes. */
#include "obs/log_priv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <blake3.h>

#include "ron/base/hex.h"
#include "ron/base/str.h"
#include "ron/obs/trace.h"

enum {
    TAIL = 32, /* the mark, the bracket and the newline */
    TIME_SIZE = 32,
    HASH_SHOWN_BYTES = 4,
};

static const char redacted[] = "[redacted]";

/* ---- values ---------------------------------------------------------------------------------- */

/* Civil date of a day number, after Howard Hinnant's days-from-civil algorithms. */
static void put_time(uint64_t wall_ms, char out[TIME_SIZE])
{
    uint64_t days = wall_ms / 86400000 + 719468; /* since 0000-03-01 */
    unsigned ms = (unsigned)(wall_ms % 86400000);
    uint64_t era = days / 146097;
    unsigned doe = (unsigned)(days % 146097);
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    unsigned mp = (5 * doy + 2) / 153;
    unsigned day = doy - (153 * mp + 2) / 5 + 1;
    unsigned month = mp < 10 ? mp + 3 : mp - 9;
    unsigned year = (unsigned)(era * 400) + yoe + (month <= 2);

    (void)snprintf(out, TIME_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year % 10000, month, day,
                   ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
}

/* Keys under which nobody should log a value as text. */
static bool key_is_secret(const char *key)
{
    static const char *const words[] = {"password", "passwd",  "passphrase",    "secret",
                                        "token",    "bearer",  "authorization", "cookie",
                                        "macaroon", "api_key", "private_key",   "signature"};

    /* By hand: strcasestr for each word costs more than the rest of a line. */
    for (const char *p = key; *p != '\0'; p++) {
        for (size_t i = 0; i < RON_ARRAY_LEN(words); i++) {
            if ((*p | 0x20) == words[i][0] && strncasecmp(p, words[i], strlen(words[i])) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* A URL with user information: "://", then '@' before the path. */
static bool has_userinfo(struct ron_str rest)
{
    size_t end = 3;

    if (rest.len < 3 || memcmp(rest.ptr, "://", 3) != 0) {
        return false;
    }
    while (end < rest.len && strchr("/?# ", rest.ptr[end]) == NULL) {
        if (rest.ptr[end++] == '@') {
            return true;
        }
    }
    return false;
}

/* Values that hold a secret whatever their key is: headers, query parameters, URLs as they come. */
static bool value_is_secret(struct ron_str value)
{
    static const char *const words[] = {
        "bearer ", "authorization:", "cookie:", "token=", "secret=", "password=", "api_key="};

    if (value.len >= 6 && strncasecmp(value.ptr, "basic ", 6) == 0) {
        return true; /* only in front: elsewhere it is a word like any other */
    }
    for (size_t at = 0; at < value.len; at++) {
        struct ron_str rest = {value.ptr + at, value.len - at};

        if (rest.ptr[0] == ':' && has_userinfo(rest)) {
            return true;
        }
        for (size_t i = 0; i < RON_ARRAY_LEN(words); i++) {
            if ((rest.ptr[0] | 0x20) == words[i][0] && rest.len >= strlen(words[i]) &&
                strncasecmp(rest.ptr, words[i], strlen(words[i])) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The text that may be shown for a text field: redacted (L3) or cut at a character (L4). */
static struct ron_str shown(const char *key, struct ron_str value)
{
    if (key_is_secret(key) || value_is_secret(value)) {
        return (struct ron_str){redacted, sizeof redacted - 1};
    }
    if (value.len > RON_LOG_VALUE_MAX) {
        value.len = RON_LOG_VALUE_MAX;
        while (value.len > 0 && ((unsigned char)value.ptr[value.len] & 0xc0) == 0x80) {
            value.len--;
        }
    }
    return value;
}

static struct ron_str secret_text(const struct ron_log_field *f, char room[16])
{
    uint8_t hash[BLAKE3_OUT_LEN];
    blake3_hasher hasher;

    if (f->type == RON_LOG_TYPE_SECRET || ron_secret_len(f->v.secret) == 0) {
        return (struct ron_str){redacted, sizeof redacted - 1};
    }
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, ron_secret_reveal(f->v.secret), ron_secret_len(f->v.secret));
    blake3_hasher_finalize(&hasher, hash, sizeof hash);
    memcpy(room, "b3:", sizeof "b3:");
    ron_hex(hash, HASH_SHOWN_BYTES, room + 3);
    ron_wipe(&hasher, sizeof hasher);
    ron_wipe(hash, sizeof hash);
    return ron_str_of(room);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_err(struct ron_json_writer *w, const struct ron_log_field *f)
{
    const struct ron_err *err = f->v.err;

    ron_json_text(w, "rc", ron_rc_name(err->rc));
    ron_json_str(w, f->key, shown(f->key, ron_str_of(err->msg)));
    if (err->where != NULL) {
        ron_json_text(w, "where", err->where);
    }
}

static void json_trace(struct ron_json_writer *w, const struct ron_trace_ctx *ctx)
{
    char hex[2 * RON_TRACE_ID_BYTES + 1];

    if (ctx != NULL && ron_trace_ctx_valid(ctx)) {
        ron_hex(ctx->trace_id, RON_TRACE_ID_BYTES, hex);
        ron_json_text(w, "trace_id", hex);
        ron_hex(ctx->span_id, RON_SPAN_ID_BYTES, hex);
        ron_json_text(w, "span_id", hex);
    }
}

static void json_field(struct ron_json_writer *w, const struct ron_log_field *f)
{
    char room[16];

    switch (f->type) {
    case RON_LOG_TYPE_STR:
        if (f->v.str == NULL) {
            ron_json_null(w, f->key);
        } else {
            ron_json_str(w, f->key, shown(f->key, ron_str_of(f->v.str)));
        }
        break;
    case RON_LOG_TYPE_SLICE:
        ron_json_str(w, f->key, shown(f->key, f->v.slice));
        break;
    case RON_LOG_TYPE_U64:
        ron_json_u64(w, f->key, f->v.u64);
        break;
    case RON_LOG_TYPE_I64:
        ron_json_i64(w, f->key, f->v.i64);
        break;
    case RON_LOG_TYPE_BOOL:
        ron_json_bool(w, f->key, f->v.boolean);
        break;
    case RON_LOG_TYPE_ERR:
        json_err(w, f);
        break;
    case RON_LOG_TYPE_TRACE:
        json_trace(w, f->v.trace);
        break;
    case RON_LOG_TYPE_SECRET:
    case RON_LOG_TYPE_SECRET_HASH:
        ron_json_str(w, f->key, secret_text(f, room));
        break;
    }
}

static void json_head(struct ron_json_writer *w, const struct log_line *line)
{
    char time[TIME_SIZE];

    put_time(line->wall_ms, time);
    ron_json_open(w, NULL, '{');
    ron_json_text(w, "ts", time);
    ron_json_text(w, "level", ron_log_level_name(line->level));
    ron_json_text(w, "service", line->service);
    if (line->task != NULL) {
        ron_json_text(w, "task", line->task);
    }
    ron_json_str(w, "msg", shown("msg", ron_str_of(line->message)));
    if (line->repeated > 0) {
        ron_json_u64(w, "repeated", line->repeated);
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool is_plain(struct ron_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=') {
            return false;
        }
    }
    return s.len > 0;
}

/* A control, in ASCII or as the two bytes of U+0080 to U+009F, which terminals obey too. */
static bool is_control(const char *p, size_t n)
{
    unsigned char c = (unsigned char)p[0];

    return n == 0 || c < 0x20 || c == 0x7f || (n == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0);
}

static void put_escaped(struct ron_buf *out, struct ron_str s)
{
    const char *end = s.ptr + s.len;

    for (const char *p = s.ptr; p < end;) {
        size_t n = ron_utf8_len(p, end);

        if (*p == '"' || *p == '\\') {
            (void)ron_buf_append_byte(out, '\\');
            (void)ron_buf_append(out, p, 1);
        } else if (*p == '\n') {
            (void)ron_buf_append_text(out, "\\n");
        } else if (is_control(p, n)) {
            n = n == 0 ? 1 : n;
            for (size_t i = 0; i < n; i++) {
                (void)ron_buf_append_fmt(out, "\\x%02x", (unsigned char)p[i]);
            }
        } else {
            (void)ron_buf_append(out, p, n);
        }
        p += n == 0 ? 1 : n;
    }
}

static void put_pair(struct ron_buf *out, const char *key, struct ron_str value)
{
    (void)ron_buf_append_fmt(out, " %s=", key); /* failures are looked at after each member */
    if (is_plain(value)) {
        (void)ron_buf_append(out, value.ptr, value.len);
    } else {
        (void)ron_buf_append_byte(out, '"');
        put_escaped(out, value);
        (void)ron_buf_append_byte(out, '"');
    }
}

static void text_trace(struct ron_buf *out, const struct ron_trace_ctx *ctx)
{
    char hex[2 * RON_TRACE_ID_BYTES + 1];

    if (ctx != NULL && ron_trace_ctx_valid(ctx)) {
        ron_hex(ctx->trace_id, RON_TRACE_ID_BYTES, hex);
        put_pair(out, "trace_id", ron_str_of(hex));
        ron_hex(ctx->span_id, RON_SPAN_ID_BYTES, hex);
        put_pair(out, "span_id", ron_str_of(hex));
    }
}

static void text_field(struct ron_buf *out, const struct ron_log_field *f)
{
    char room[16];

    switch (f->type) {
    case RON_LOG_TYPE_STR:
        put_pair(out, f->key,
                 f->v.str == NULL ? ron_str_of("null") : shown(f->key, ron_str_of(f->v.str)));
        break;
    case RON_LOG_TYPE_SLICE:
        put_pair(out, f->key, shown(f->key, f->v.slice));
        break;
    case RON_LOG_TYPE_U64:
        (void)ron_buf_append_fmt(out, " %s=%llu", f->key, (unsigned long long)f->v.u64);
        break;
    case RON_LOG_TYPE_I64:
        (void)ron_buf_append_fmt(out, " %s=%lld", f->key, (long long)f->v.i64);
        break;
    case RON_LOG_TYPE_BOOL:
        put_pair(out, f->key, ron_str_of(f->v.boolean ? "true" : "false"));
        break;
    case RON_LOG_TYPE_ERR:
        put_pair(out, "rc", ron_str_of(ron_rc_name(f->v.err->rc)));
        put_pair(out, f->key, shown(f->key, ron_str_of(f->v.err->msg)));
        break;
    case RON_LOG_TYPE_TRACE:
        text_trace(out, f->v.trace);
        break;
    case RON_LOG_TYPE_SECRET:
    case RON_LOG_TYPE_SECRET_HASH:
        put_pair(out, f->key, secret_text(f, room));
        break;
    }
}

static void text_head(struct ron_buf *out, const struct log_line *line)
{
    static const char *const names[] = {"ERROR", "WARN ", "INFO ", "DEBUG"};
    char time[TIME_SIZE];

    put_time(line->wall_ms, time);
    (void)ron_buf_append_fmt(out, "%s %s %s", time, names[line->level], line->service);
    if (line->task != NULL) {
        (void)ron_buf_append_fmt(out, "/%s", line->task);
    }
    (void)ron_buf_append_text(out, ": ");
    put_escaped(out, shown("msg", ron_str_of(line->message)));
    if (line->repeated > 0) {
        (void)ron_buf_append_fmt(out, " (repeated %llu times)", (unsigned long long)line->repeated);
    }
}

/* ---- a line ---------------------------------------------------------------------------------- */

size_t ron__log_line(const struct log_line *line, char *out)
{
    bool json = line->format == RON_LOG_AS_JSON;
    struct ron_str tail = ron_str_of(json ? "}\n" : "\n");
    struct ron_json_writer w;
    struct ron_buf buf;
    size_t len;

    ron_buf_init_over(&buf, out, RON_LOG_LINE_MAX - TAIL);
    ron_json_begin(&w, &buf);
    if (json) {
        json_head(&w, line);
    } else {
        text_head(&buf, line);
    }
    len = ron_buf_len(&buf); /* the head always fits: its parts are short or cut */
    for (size_t i = 0; i < line->count; i++) {
        if (json) {
            json_field(&w, &line->fields[i]);
        } else {
            text_field(&buf, &line->fields[i]);
        }
        if (ron_buf_error(&buf) != RON_OK) {
            tail = ron_str_of(json ? ",\"cut\":true}\n" : " cut=true\n");
            break;
        }
        len = ron_buf_len(&buf);
    }
    memcpy(out + len, tail.ptr, tail.len);
    return len + tail.len;
}
