/* SPDX-License-Identifier: Apache-2.0 */
/* interop/audit/record.c - one line of the audit trail, written and checked; contract in audit.h,
 * bytes in docs/formats/interop-audit.md. Pure. */
#include <string.h>

#include "interop/audit/audit.h"
#include "ron/base/assert.h"

/* A line ends with these; everything before the hash is what it covers. */
enum {
    HASH_LEN = 9 + RON_B3_ID_LEN + 2, /* ,"hash":"b3:..."} */
    PREV_LEN = 9 + RON_B3_ID_LEN + 1, /* ,"prev":"b3:..." */
};
static const char begins[] = "{\"v\":1,\"seq\":";
static const char redacted[] = "[redacted]";

const char *iop_audit_sink_name(enum iop_audit_sink sink)
{
    static const char *const names[] = {
#define X(name, text) [IOP_AUDIT_##name] = (text),
        IOP_AUDIT_SINKS(X)
#undef X
    };

    return (unsigned)sink < IOP_AUDIT_SINK_COUNT ? names[sink] : "?";
}

/* ---- redaction ------------------------------------------------------------------------------- */

static char lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    return c;
}

/* Whether `name` contains `word`, whatever the case. */
static bool contains(const char *name, const char *word)
{
    for (; *name != '\0'; name++) {
        size_t i = 0;

        while (word[i] != '\0' && lower(name[i]) == lower(word[i])) {
            i++;
        }
        if (word[i] == '\0') {
            return true;
        }
    }
    return false;
}

static bool is_secret(const char *name, const char *const *redact)
{
    for (size_t i = 0; redact[i] != NULL; i++) {
        if (contains(name, redact[i])) {
            return true;
        }
    }
    return false;
}

/* The network of an address, not the host: 192.0.2.7:80 gives 192.0.2.x, [2001:db8::1]:80 gives
 * [2001:db8:x]; what is no address gives "x". */
static void mask_addr(const char *addr, char ret[IOP_AUDIT_TEXT])
{
    size_t len = strnlen(addr, IOP_AUDIT_TEXT - 4);
    size_t cut = 0;
    unsigned parts = 0;
    char mark = addr[0] == '[' ? ':' : '.';
    unsigned keep = addr[0] == '[' ? 2 : 3;

    for (size_t i = 0; i < len && parts < keep; i++) {
        if (addr[i] == mark) {
            parts++;
            cut = i + 1;
        }
    }
    if (parts < keep) {
        cut = 0;
    }
    memcpy(ret, addr, cut);
    ret[cut] = 'x';
    ret[cut + 1] = mark == ':' && cut > 0 ? ']' : '\0';
    ret[cut + 2] = '\0';
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Cut between characters, and without what is no UTF-8. */
static struct ron_str tame(struct ron_str text)
{
    const char *end = text.ptr + RON_MIN(text.len, (size_t)IOP_AUDIT_TEXT);
    const char *p = text.ptr;

    while (p < end) {
        size_t n = ron_utf8_len(p, end);

        if (n == 0) {
            break;
        }
        p += n;
    }
    return (struct ron_str){text.ptr, (size_t)(p - text.ptr)};
}

static void put(struct ron_json_writer *j, const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        ron_json_str(j, name, tame((struct ron_str){value, strlen(value)}));
    }
}

static void put_event(struct ron_json_writer *j, const struct iop_audit_event *e,
                      const char *const *redact)
{
    char text[RON_B3_ID_SIZE];
    char addr[IOP_AUDIT_TEXT];

    put(j, "action", e->action);
    ron_json_text(j, "decision", e->allow ? "allow" : "deny");
    put(j, "reason", e->reason);
    put(j, "provider", e->provider);
    put(j, "corr_id", e->corr_id);
    if (e->delivery.len > 0) {
        ron_json_str(j, "delivery", tame(e->delivery));
    }
    if (e->b3 != NULL) {
        ron_b3_format(e->b3, text);
        ron_json_text(j, "b3", text);
    }
    ron_json_bool(j, "verified", e->verified);
    put(j, "sig_alg", e->sig_alg);
    put(j, "cap_id", e->cap_id);
    if (e->addr != NULL && e->addr[0] != '\0') {
        mask_addr(e->addr, addr);
        ron_json_text(j, "addr", addr);
    }
    ron_json_u64(j, "took_us", e->took_us);
    for (size_t i = 0; i < IOP_AUDIT_ATTRS && e->attrs[i].name != NULL; i++) {
        ron_json_str(j, e->attrs[i].name,
                     is_secret(e->attrs[i].name, redact)
                         ? (struct ron_str){redacted, sizeof redacted - 1}
                         : tame(e->attrs[i].value));
    }
}

enum ron_rc iop_audit_line(struct iop_audit_chain *chain, uint64_t ts_ms, uint64_t dropped,
                           const struct iop_audit_event *event, const char *const *redact,
                           struct ron_buf *out)
{
    char memory[IOP_AUDIT_LINE_MAX];
    char text[RON_B3_ID_SIZE];
    struct iop_audit_chain next = {.seq = chain->seq + 1};
    struct ron_json_writer j;
    struct ron_buf line;

    ron_buf_init_over(&line, memory, sizeof memory);
    ron_json_begin(&j, &line);
    ron_json_open(&j, NULL, '{');
    ron_json_u64(&j, "v", 1);
    ron_json_u64(&j, "seq", next.seq);
    ron_json_u64(&j, "ts_ms", ts_ms);
    put_event(&j, event, redact);
    if (dropped > 0) {
        ron_json_u64(&j, "dropped", dropped);
    }
    ron_b3_format(&chain->hash, text);
    ron_json_text(&j, "prev", text);
    RON_TRY(ron_buf_error(&line));
    ron_b3_hash(ron_buf_data(&line), ron_buf_len(&line), &next.hash);
    ron_b3_format(&next.hash, text);
    ron_json_text(&j, "hash", text);
    ron_json_close(&j, '}');
    RON_TRY(ron_buf_append(&line, "\n", 1));
    RON_TRY(ron_buf_append(out, ron_buf_data(&line), ron_buf_len(&line)));
    *chain = next;
    return RON_OK;
}

/* ---- checking -------------------------------------------------------------------------------- */

/* `,"name":"b3:...` at `at`. */
static bool read_hash(const char *at, const char *name, struct ron_b3 *ret)
{
    return memcmp(at, ",\"", 2) == 0 && memcmp(at + 2, name, 4) == 0 &&
           memcmp(at + 6, "\":\"", 3) == 0 &&
           ron_b3_parse(at + 9, RON_B3_ID_LEN, ret, NULL) == RON_OK && at[9 + RON_B3_ID_LEN] == '"';
}

static bool read_seq(struct ron_str line, uint64_t *ret)
{
    const char *p = line.ptr + sizeof begins - 1;
    const char *end = line.ptr + line.len;
    uint64_t seq = 0;

    if (memcmp(line.ptr, begins, sizeof begins - 1) != 0 || *p < '1' || *p > '9') {
        return false;
    }
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        if (seq > (UINT64_MAX - 9) / 10) {
            return false;
        }
        seq = seq * 10 + (uint64_t)(*p - '0');
    }
    *ret = seq;
    return p < end && *p == ',';
}

enum ron_rc iop_audit_check(struct iop_audit_chain *chain, struct ron_str line, bool first,
                            struct ron_err *err)
{
    struct ron_json_error bad;
    struct ron_b3 prev;
    struct ron_b3 told;
    struct ron_b3 hash;
    uint64_t seq = 0;

    if (line.len < sizeof begins + PREV_LEN + HASH_LEN || line.len >= IOP_AUDIT_LINE_MAX ||
        line.ptr[line.len - 1] != '}' ||
        !read_hash(line.ptr + line.len - HASH_LEN, "hash", &told) ||
        !read_hash(line.ptr + line.len - HASH_LEN - PREV_LEN, "prev", &prev) ||
        !read_seq(line, &seq) || ron_json_check(line.ptr, line.len, &bad) != RON_OK) {
        return ron_err_set(err, RON_CORRUPT, "not an audit record");
    }
    ron_b3_hash(line.ptr, line.len - HASH_LEN, &hash);
    if (!ron_b3_equal(&hash, &told)) {
        return ron_err_set(err, RON_CORRUPT, "record %llu was modified", (unsigned long long)seq);
    }
    if (!first && (seq != chain->seq + 1 || !ron_b3_equal(&prev, &chain->hash))) {
        return ron_err_set(err, RON_CORRUPT, "record %llu does not follow record %llu",
                           (unsigned long long)seq, (unsigned long long)chain->seq);
    }
    *chain = (struct iop_audit_chain){.seq = seq, .hash = hash};
    return RON_OK;
}
