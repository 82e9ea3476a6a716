/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/seq.h - the sequencer: orders a window of works, decides on each, gives out seqs.
 *
 * Place: ledger; plain code, owned by the sequencer task (service) or by the simulator. No thread,
 * no clock, no file: it owns the book and the table of recent ids.
 *
 * Invariants:
 *   Q1. Seqs are given out without a gap and only to works that go to the committer. If the
 *       committer fails, led_seq_abort takes all of them back.
 *   Q2. Within a window works are taken in the order (ts, id) of their first entries.
 *   Q3. For every id and idem_id in the journal: it is in `recent`, or its seq is at most
 *       checked_seq of every work that may still be decided. So nothing is applied twice, although
 *       the index runs behind.
 *   Q4. A work that shares an id or its idem_id with one in flight waits until that one is
 *       durable. Then, as for every key that is found, the readers compare it with the journal: the
 *       same body gets the same answer, another one idem_mismatch. Nothing is decided by a hash.
 *   Q5. The same works in the same windows with the same times give the same seqs, links and
 *       refusals.
 *
 * A tombstone (LED_WORK_CANCEL) has no seq of its own. It is remembered at the seq of the entry
 * that will follow it: a work that was checked for all entries before it was not checked for the
 * tombstone. Only an idem_id is held against it: an entry may have the id of a cancelled key, and
 * then stands at the same seq.
 *
 * Order under pressure: when a work has to be kept for lack of room (in the commit queue, in the
 * book's ring or in the table of recent ids), all that come behind it are kept too.
 *
 * Time of windows never goes back, so that a replay, which sees only the times of accepted works,
 * forgets nonces when we did. Hold expiries are works of the sequencer's own (LED_WORK_EXPIRE),
 * made at the start of a window, before the callers' works. */
#pragma once

#include "ledger/work/work.h"

struct led_seq;

enum {
    LED_WINDOW_MAX = 256,  /* new works of a window */
    LED_EXPIRE_MAX = 64,   /* expiries of a window: callers wait no longer than for these */
    LED_FLIGHT_MAX = 4096, /* works given to the committer and not yet durable: its queue and two
                            * groups fit */
    LED_OWN_ARENA = 4096,
    LED_EXPIRE_AGAIN_MS = 60000, /* an expiry that was refused is tried again so much later */
};

struct led_seq_opts {
    struct led_book *take_book;
    uint64_t last_seq;    /* of the journal */
    uint64_t indexed_seq; /* ids up to here are in the index; the caller adds the later ones with
                           * led_seq_remember */
    uint32_t kept_max;    /* works kept for lack of room or behind others; beyond it a work is
                           * refused `busy`. 0: 4096 */
    uint32_t recent_keys; /* of a generation of recent keys; 0: LED_RECENT_KEYS. Tests have less */
    uint8_t hash_key[16]; /* the book's, for the preps of the ledger's own entries */
    /* A work for the ledger's own entries: all zero but for magic, done and an empty arena of
     * LED_OWN_ARENA bytes. NULL when there is none now. */
    struct led_work *(*own_work)(void *arg);
    void *arg;
};

RON_MUST_USE enum ron_rc led_seq_new(const struct led_seq_opts *opts, struct led_seq **ret_seq);
void led_seq_free(struct led_seq *s); /* works it keeps are refused `draining` */

/* Recovery: an id or idem_id of the journal, in the order of the log; all of a batch carry the seq
 * of their entry, its idem_id that of the first. RON_FULL: the index lags too far. */
RON_MUST_USE enum ron_rc led_seq_remember(struct led_seq *s, struct led_key key, uint64_t seq,
                                          bool tombstone);
/* Recovery, after RON_FULL, when nobody will write: the oldest keys make room for others. */
void led_seq_forget_oldest(struct led_seq *s);
/* Recovery: the journal, and the book, reach up to `seq`, whose window had that time. */
void led_seq_replayed(struct led_seq *s, uint64_t seq, uint64_t now_ms);

/* Decides on up to LED_WINDOW_MAX works; `room` is what the committer's queue has reserved. Returns
 * the works in ret_works (kept ones of before included, LED_FATE_KEPT ones not), each with its
 * fate. Never more than `room` of them are LED_FATE_COMMIT. */
size_t led_seq_window(struct led_seq *s, struct led_work **works, size_t count, uint64_t now_ms,
                      uint32_t room, struct led_work *ret_works[2 * LED_WINDOW_MAX]);
/* Works kept: call led_seq_window again, also without new ones, after a commit or when the index
 * has moved on. */
size_t led_seq_waiting(const struct led_seq *s);
/* Works given to the committer, of which is not known what became. */
size_t led_seq_in_flight(const struct led_seq *s);
/* No window comes any more: works that are kept are refused `draining`. Those in flight may still
 * become durable. */
void led_seq_end(struct led_seq *s);
/* When the next hold expires; UINT64_MAX: none. */
uint64_t led_seq_next_expiry_ms(const struct led_seq *s);

/* `count` more works, oldest first, are durable. */
void led_seq_committed(struct led_seq *s, size_t count);
/* None of the works in flight was made durable as far as we know: the book goes back to what is
 * committed, their ids are forgotten, and the works that are kept end as refused `safe_mode`. The
 * works in flight are ended by who holds them. */
void led_seq_abort(struct led_seq *s);
/* The index holds every id and tombstone up to here. */
void led_seq_indexed(struct led_seq *s, uint64_t seq);

const struct led_book *led_seq_book(const struct led_seq *s); /* for reading, LED_COMMITTED */
struct led_book *led_seq_book_mut(struct led_seq *s);         /* freezing, images */
uint64_t led_seq_last(const struct led_seq *s);               /* given out */
uint64_t led_seq_durable(const struct led_seq *s);
/* What is known of a key: in flight, or committed at *ret_seq and still recent; else not known
 * here. */
enum led_known { LED_KNOWN_NOT, LED_KNOWN_IN_FLIGHT, LED_KNOWN_COMMITTED };
enum led_known led_seq_find(const struct led_seq *s, struct led_key key, uint64_t *ret_seq);
/* Durable seqs, smallest first, at which the key was seen lately; how many, at most `max`. An id
 * and an idem_id of the same text give two; more only where hashes are equal. */
size_t led_seq_candidates(const struct led_seq *s, struct led_key key, uint64_t *ret_seqs,
                          size_t max);
/* Whether the key is in flight, also one that was seen at durable seqs before. */
bool led_seq_key_in_flight(const struct led_seq *s, struct led_key key);
/* Notes the candidates for every Reverse of the work, in its arena. RON_LIMIT: it is full. */
RON_MUST_USE enum ron_rc led_seq_find_refs(const struct led_seq *s, struct led_work *w);
