/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/file.h - what the mailbox stands on: rows in, rows out. Private to the
 * files of this room and tests. A store of ron/sql/sql.h: a SQLite file, or PostgreSQL tables. The
 * layouts are in docs/formats/interop-mailbox.md.
 *
 * Rules:
 *   F1. What iop_file_commit has answered RON_OK survives a crash of process and machine
 *       (SQLite: write-ahead log, synchronous=FULL; PostgreSQL: a commit without a warning), unless
 *       the file is in memory.
 *   F2. After a failed call inside a transaction the caller rolls back; nothing of it remains.
 *       RON_TIMEOUT of a commit is the exception: the answer of the database was lost. Nothing is
 *       read or written until it is known; when it was committed after all, iop_file_look says that
 *       what memory knows is stale.
 *   F3. The body and head of a message carry a checksum (BLAKE3, 8 bytes), looked at when it is
 *       read: RON_CORRUPT, never other bytes.
 *   F4. Ids are never given out twice: the highest is written in the transaction that uses it.
 *   F5. One process at a time: RON_CONFLICT when it is opened. In PostgreSQL another one may take
 *       over from a process that has lost its connection; the old one then writes nothing more.
 *
 * Every call may wait for disk or database. Failure: RON_IO, RON_FULL (disk full), RON_NOMEM,
 * RON_CORRUPT, and of a database RON_AGAIN: it is away, or another's. Threads: one. */
#pragma once

#include "interop/mailbox/queue.h"

struct iop_file;

/* What was found when the file was opened; each is called for all rows, in the order of ids. */
struct iop_file_load {
    void *arg;
    enum ron_rc (*topic)(void *arg, uint32_t row, struct ron_str name);
    enum ron_rc (*message)(void *arg, uint64_t id, uint32_t topic, bool dead, uint32_t deliveries,
                           uint64_t due_ms, uint64_t sent_ms, uint32_t bytes);
    enum ron_rc (*seen)(void *arg, const struct iop_key *key, uint64_t at_ms);
};

struct iop_file_opts {
    const struct ron_env *env;
    const char *path; /* of the SQLite file, made (0600) when it is missing; NULL: in memory */
    const char *dsn;  /* not NULL: PostgreSQL, by this connection string */
    uint32_t tries;   /* to open it there, 100 ms apart; 0: 30 */
};
/* RON_CORRUPT: no mailbox; RON_UNSUPPORTED: of a newer program; RON_AGAIN: no database. */
RON_MUST_USE enum ron_rc iop_file_open(const struct iop_file_opts *opts, struct iop_file **ret_file,
                                       struct ron_err *err);
void iop_file_close(struct iop_file *f);                  /* NULL is fine */
const uint8_t *iop_file_secret(const struct iop_file *f); /* RON_B3_BYTES, of iop_seen */
uint64_t iop_file_last_id(const struct iop_file *f);
/* Whether it can be used now; connects anew and settles what is open. *ret_stale: it holds what
 * the last answers did not say, and must be loaded again before anything else. */
RON_MUST_USE enum ron_rc iop_file_look(struct iop_file *f, bool *ret_stale, struct ron_err *err);
RON_MUST_USE enum ron_rc iop_file_load(struct iop_file *f, const struct iop_file_load *load,
                                       struct ron_err *err);

RON_MUST_USE enum ron_rc iop_file_begin(struct iop_file *f, struct ron_err *err);
/* last_id: F4. A failed commit is rolled back. */
RON_MUST_USE enum ron_rc iop_file_commit(struct iop_file *f, uint64_t last_id, struct ron_err *err);
void iop_file_rollback(struct iop_file *f);

RON_MUST_USE enum ron_rc iop_file_add_topic(struct iop_file *f, uint32_t row, struct ron_str name,
                                            struct ron_err *err);
/* One without messages. */
RON_MUST_USE enum ron_rc iop_file_drop_topic(struct iop_file *f, uint32_t row, struct ron_err *err);
RON_MUST_USE enum ron_rc iop_file_add(struct iop_file *f, uint64_t id, uint32_t topic,
                                      uint64_t due_ms, uint64_t sent_ms, const struct iop_msg *msg,
                                      struct ron_err *err);
RON_MUST_USE enum ron_rc iop_file_drop(struct iop_file *f, uint64_t id, struct ron_err *err);
RON_MUST_USE enum ron_rc iop_file_move(struct iop_file *f, uint64_t id, bool dead,
                                       uint32_t deliveries, uint64_t due_ms, struct ron_str reason,
                                       struct ron_err *err);
RON_MUST_USE enum ron_rc iop_file_add_seen(struct iop_file *f, const struct iop_key *key,
                                           uint64_t at_ms, struct ron_err *err);
/* Forgets keys taken before a time, the oldest first, at most `max`. */
RON_MUST_USE enum ron_rc iop_file_drop_seen(struct iop_file *f, uint64_t before_ms, uint32_t max,
                                            struct ron_err *err);
/* How many the last of these dropped. */
uint64_t iop_file_swept(const struct iop_file *f);
RON_MUST_USE enum ron_rc iop_file_target(struct iop_file *f, struct ron_str name, bool off,
                                         uint64_t at_ms, struct ron_str reason,
                                         struct ron_err *err);
/* Ids of dead letters of a topic after an id, rising; at most `max`. */
RON_MUST_USE enum ron_rc iop_file_dead(struct iop_file *f, uint32_t topic, uint64_t after_id,
                                       uint64_t *ret_ids, uint32_t max, uint32_t *ret_count,
                                       struct ron_err *err);
/* Whether a target is off; its reason is appended to `reason`, which may be NULL. */
RON_MUST_USE enum ron_rc iop_file_target_off(struct iop_file *f, struct ron_str name, bool *ret_off,
                                             struct ron_buf *reason, struct ron_err *err);

/* The content of a message; slices live until the next call. RON_CORRUPT: F3, or it is missing. */
struct iop_row {
    uint64_t sent_ms;
    struct ron_str head;
    struct ron_str body;
    struct ron_str reason;
};
/* These will be asked for next, one by one: a database gives them at once. */
RON_MUST_USE enum ron_rc iop_file_fetch(struct iop_file *f, const uint64_t *ids, uint32_t count,
                                        struct ron_err *err);
RON_MUST_USE enum ron_rc iop_file_get(struct iop_file *f, uint64_t id, uint32_t topic,
                                      struct iop_row *ret_row, struct ron_err *err);
