/* SPDX-License-Identifier: Apache-2.0 */
/* interop/audit/audit.h - the audit trail: one record for every decision at the bridge, chained by
 * hashes.
 *
 *     everybody --iop_audit_emit--> audit (512, drop oldest) --> audit_sink (blocking task)
 *                                                                   |-> ring in memory, always
 *                                                                   |-> stdout, or a file
 *
 * A record is a line of JSON (docs/formats/interop-audit.md) whose `hash` covers the line before it
 * and whose `prev` is the hash of the line before: taking out, changing, or reordering lines shows.
 * What was dropped shows too: the next record says how many are missing before it.
 *
 * Rules:
 *   A1. Emitting never blocks and never fails the business: a full channel drops its oldest record
 *       and counts it (audit_drop_total).
 *   A2. Nothing secret gets in: no header value, no signature, no digest of SHA, no token. An
 *       attribute whose name is on the list of redaction is written as "[redacted]"; an address
 *       loses its last part.
 *   A3. The file is synced each second or each 64 KiB. It is 0600, appended to, and goes on with
 *       the chain that it ends with; half a line at its end (a crash) is cut off and told.
 *   A4. Amnesia: no file (RON_DENIED), and the ring is wiped at the end.
 *
 * Threads: emit from any; the sink belongs to its task. */
#pragma once

#include "interop/mailbox/box.h"
#include "ron/base/env.h"
#include "ron/chan/registry.h"
#include "ron/sync/sync.h"
#include "ron/task/supervisor.h"

enum {
    IOP_AUDIT_LINE_MAX = 4096,
    IOP_AUDIT_CAPACITY = 512,
    IOP_AUDIT_RING = 1024, /* lines kept in memory */
    IOP_AUDIT_ATTRS = 4,
    IOP_AUDIT_TEXT = 96,
    IOP_AUDIT_SYNC_BYTES = 64 * 1024,
    IOP_AUDIT_SYNC_MS = 1000,
    IOP_AUDIT_REDACT_MAX = 16,
};

/* X(NAME, "name") */
#define IOP_AUDIT_SINKS(X)                                                                         \
    X(MEMORY, "memory")                                                                            \
    X(STDOUT, "stdout")                                                                            \
    X(FILE, "file")
enum iop_audit_sink {
#define X(name, text) IOP_AUDIT_##name,
    IOP_AUDIT_SINKS(X)
#undef X
        IOP_AUDIT_SINK_COUNT
};
const char *iop_audit_sink_name(enum iop_audit_sink sink);

/* One decision. Texts are copied and cut to IOP_AUDIT_TEXT; NULL or "" is left out. */
struct iop_audit_event {
    const char *action; /* "webhook", "put", "forward", "wallet", "mailbox", "brownout", ... */
    bool allow;
    const char *reason; /* code of a refusal, or "" */
    const char *provider;
    const char *corr_id;
    struct ron_str delivery; /* the provider's id of the delivery */
    const struct ron_b3 *b3; /* of the body; NULL: none */
    bool verified;
    const char *sig_alg;
    const char *cap_id; /* redacted id of a capability */
    const char *addr;   /* of the peer; A2 */
    uint64_t took_us;
    struct {
        const char *name; /* a constant */
        struct ron_str value;
    } attrs[IOP_AUDIT_ATTRS]; /* name NULL ends */
};

struct iop_audit_opts {
    const struct ron_env *env;
    struct ron_registry *registry;
    enum iop_audit_sink sink;
    const char *path; /* FILE */
    bool amnesia;
    const char *redact[IOP_AUDIT_REDACT_MAX]; /* NULL ends; none: token, authorization, signature,
                                                 secret, key, cookie, password */
};

struct iop_audit_counts {
    struct ron_stat emitted; /* written to the sink */
    struct ron_stat dropped; /* audit_drop_total */
    struct ron_stat failed;  /* could not be written */
    struct ron_stat syncs;
};

struct iop_audit;
/* Opens the sink and finds the end of its chain. RON_DENIED: A4. RON_CORRUPT: the file ends with a
 * line that is no record of ours. */
RON_MUST_USE enum ron_rc iop_audit_new(const struct iop_audit_opts *opts,
                                       struct iop_audit **ret_audit, struct ron_err *err);
RON_MUST_USE enum ron_rc iop_audit_add(struct iop_audit *a, struct ron_sup *sup, uint32_t stage,
                                       struct ron_err *err);
void iop_audit_free(struct iop_audit *a);

/* A1. */
void iop_audit_emit(struct iop_audit *a, const struct iop_audit_event *event);
const struct iop_audit_counts *iop_audit_get_counts(const struct iop_audit *a);
/* The last lines of the ring, oldest first, at most `max`, each with its line end. */
RON_MUST_USE enum ron_rc iop_audit_tail(struct iop_audit *a, uint32_t max, struct ron_buf *out);

/* ---- records (pure) -------------------------------------------------------------------------- */

struct iop_audit_chain {
    uint64_t seq; /* of the last record; 0: none */
    struct ron_b3 hash;
};

/* Appends the next line to `out` and moves the chain. RON_LIMIT leaves both as they were. */
RON_MUST_USE enum ron_rc iop_audit_line(struct iop_audit_chain *chain, uint64_t ts_ms,
                                        uint64_t dropped, const struct iop_audit_event *event,
                                        const char *const *redact, struct ron_buf *out);
/* Whether the line (without its line end) follows the chain; moves the chain when so. RON_CORRUPT
 * says what is wrong. With `first` any chain may begin here. */
RON_MUST_USE enum ron_rc iop_audit_check(struct iop_audit_chain *chain, struct ron_str line,
                                         bool first, struct ron_err *err);
