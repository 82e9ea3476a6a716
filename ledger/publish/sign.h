/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/publish/sign.h - the signer: the ledger's key, its signed checkpoints, and the
 * cosignatures of witnesses.
 *
 *     set_head(size, root) --save_due, each interval--> published: on disk, then kept for witnesses
 *     checkpoint(size, root): signed now, or as it was published, with its cosignatures
 *
 * Why there are published ones: a busy ledger has a new root many times a second, and a witness
 * needs longer than that to answer. So each interval one checkpoint is published; it stays for
 * LED_SIGN_KEPT intervals, and cosignatures are taken for it as long.
 *
 * Invariants:
 *   G1. Never two roots for one size. What was published before a restart is read again at the
 *       start; a smaller size, or that size with another root, is refused for ever after.
 *   G2. What is published was written to the disk and synced before (engines with a disk).
 *   G3. A kept checkpoint carries one line of ours and at most one of each witness, each verified.
 *   G4. The secret key is in this object alone: in memory, and in its file with mode 0600, which
 *       nobody else may read. It is wiped when the object is freed. Without a path it never touches
 *       the disk.
 *   G5. A key is made only where nothing was published before: a lost key file is an error, not a
 *       new identity.
 *   G6. Beside the checkpoint, in the file with .cosigned behind its name, lies what witnesses
 *       signed: of the kept checkpoints the one with the most cosignatures, the newest of those;
 *       when none has any, the last that had. The newest checkpoint has none most of the time, so
 *       who asks for the word of witnesses reads this one.
 *
 * Threads: any; one short lock of rank `shared` guards what is cached and kept. It is not held
 * while something is signed, verified or written. new, save and save_due block; save and save_due
 * are called by one thread at a time. Everything of fixed size is there from the start. */
#pragma once

#include "ledger/proof/checkpoint.h"
#include "ron/base/env.h"

struct led_signer;

enum {
    LED_SIGN_WITNESSES_MAX = 16, /* a verifier asks for a handful */
    LED_SIGN_KEPT = 16,          /* 80 s at the default interval: witnesses answer in seconds */
    /* Text (4 lines), our line, and a line of 370 bytes at most for each witness. */
    LED_SIGN_NOTE_SIZE = 8192,
    LED_SIGN_INTERVAL_DEFAULT_MS = 5000,
};

/* Size that stands for the checkpoint published last. */
#define LED_SIGN_NEWEST UINT64_MAX

struct led_signer_opts {
    const struct ron_env *env;
    const char *key_path;        /* made when absent; NULL: a new key, in memory only */
    bool key_must_exist;         /* RON_NOTFOUND when it is absent instead: nothing is made */
    const char *checkpoint_path; /* NULL: nothing is written */
    /* Of the checkpoints, and name of the key. May be empty when there is a key file: its name. */
    struct ron_str origin;
    const struct ron_str *witnesses; /* verifier keys of type 4, as texts; read, not kept */
    size_t witness_count;
    uint64_t interval_ms; /* 0: LED_SIGN_INTERVAL_DEFAULT_MS */
};

/* RON_DENIED for a key file that others may read, RON_CORRUPT for one that is no key, RON_CONFLICT
 * for a key of another origin, a missing key beside a checkpoint (G5), one by another key, or a
 * cosigned one that does not go with it (G6); RON_INVALID for a witness key that cannot be used or
 * stands twice; RON_LIMIT, RON_NOMEM, RON_IO. */
RON_MUST_USE enum ron_rc led_signer_new(const struct led_signer_opts *opts,
                                        struct led_signer **ret_signer, struct ron_err *err);
void led_signer_free(struct led_signer *s);

/* The public key; its text is what verifiers are given. Lives as long as the signer. */
const struct ron_note_key *led_signer_key(const struct led_signer *s);

/* What the checkpoint file held at the start: the log must contain it. False without one. */
bool led_signer_loaded(const struct led_signer *s, uint64_t *ret_size,
                       struct ron_tree_hash *ret_root);

/* The same from the file alone, for who has no key: the form is checked, not the signature.
 * RON_NOTFOUND without a file. Blocks. */
RON_MUST_USE enum ron_rc led_checkpoint_file_read(const struct ron_env *env, const char *path,
                                                  uint64_t *ret_size,
                                                  struct ron_tree_hash *ret_root,
                                                  struct ron_err *err);

/* ---- signing --------------------------------------------------------------------------------- */

/* The newest committed state; what is not newer is ignored. Cheap: nothing is signed. */
void led_signer_set_head(struct led_signer *s, uint64_t size, const struct ron_tree_hash *root);

/* Appends the signed checkpoint of a committed state. RON_CONFLICT by G1, RON_NOMEM. */
RON_MUST_USE enum ron_rc led_signer_checkpoint(struct led_signer *s, uint64_t size,
                                               const struct ron_tree_hash *root,
                                               struct ron_buf *out, struct ron_err *err);

/* Appends the newest published checkpoint that at least so many witnesses have signed; with 0 the
 * one that waits for witnesses. RON_NOTFOUND when there is none, RON_NOMEM. */
RON_MUST_USE enum ron_rc led_signer_published(struct led_signer *s, size_t witnesses,
                                              struct ron_buf *out, struct ron_err *err);

/* The same for one that covers an entry: of a size from `from` to `to`. */
RON_MUST_USE enum ron_rc led_signer_covering(struct led_signer *s, size_t witnesses, uint64_t from,
                                             uint64_t to, struct ron_buf *out, struct ron_err *err);

/* ---- witnesses ------------------------------------------------------------------------------- */

/* Takes the cosignatures in `body`: either signature lines alone, for the published checkpoint of
 * that size, or a whole note whose text says which (then `size` is not looked at). Lines that the
 * checkpoint has already, ours among them, and lines of unknown keys are passed over; of the others
 * all are taken or none:
 *   RON_CORRUPT   no signature lines, or no note
 *   RON_LIMIT     longer than LED_SIGN_NOTE_SIZE
 *   RON_NOTFOUND  none is by one of the configured witnesses
 *   RON_DENIED    a signature that does not verify
 *   RON_CONFLICT  not a checkpoint that is kept: too old, of another size, or never published
 *   RON_EXISTS    nothing new, or a second signature of a witness */
RON_MUST_USE enum ron_rc led_signer_cosign(struct led_signer *s, struct ron_str body, uint64_t size,
                                           size_t *ret_count, struct ron_err *err);

/* ---- publishing ------------------------------------------------------------------------------ */

/* Publishes the head when it is new and the interval has passed since the last one, and writes new
 * cosignatures. To be called now and then by a task that may block; usually does nothing. After a
 * failure nothing is published; it is tried again an interval later. */
RON_MUST_USE enum ron_rc led_signer_save_due(struct led_signer *s, struct ron_err *err);
/* The same at once: the last word of a drain. */
RON_MUST_USE enum ron_rc led_signer_save(struct led_signer *s, struct ron_err *err);
/* For a reload. */
void led_signer_set_interval(struct led_signer *s, uint64_t interval_ms);

struct led_signer_stats {
    uint64_t signatures;    /* made */
    uint64_t published;     /* checkpoints */
    uint64_t cosignatures;  /* taken */
    uint64_t refused;       /* bodies with cosignatures that were not taken */
    uint64_t save_failures; /* of the file */
};
void led_signer_get_stats(const struct led_signer *s, struct led_signer_stats *ret_stats);

/* ---- over HTTP (docs/formats/ledger-proofs.md) ----------------------------------------------- */

struct ron_http_call;
struct ron_http_error;

/* The note that GET /checkpoint answers for this query. False: `ret_error`, whose message may be
 * that of `err`. */
RON_MUST_USE bool led_signer_get(struct led_signer *s, struct ron_str query, uint64_t size,
                                 const struct ron_tree_hash *root, struct ron_buf *out,
                                 struct ron_http_error *ret_error, struct ron_err *err);
/* GET /checkpoint[?witnesses=n]: the checkpoint of the state given, or a published one. */
void led_signer_http_get(struct led_signer *s, struct ron_http_call *call, uint64_t size,
                         const struct ron_tree_hash *root);
/* POST /checkpoint/cosignatures[?size=n]. */
void led_signer_http_cosign(struct led_signer *s, struct ron_http_call *call);
