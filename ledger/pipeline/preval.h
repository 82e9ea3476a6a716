/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/pipeline/preval.h - prevalidation: from the bytes of a request to a work that can be
 * ordered.
 *
 * Place: ledger; plain code, called by the prevalidator tasks (service) and by the simulator. It
 * never blocks and never waits: what needs a remote service, a disk or the sequencer is told by
 * the step's result, and the work comes back for its next step.
 *
 *     led_preval_step:  ADMIT ──► PARSE ──► CHECK ──► LOOK UP ──► to the sequencer
 *                         │                   │          └──────► to the readers first
 *                         └──── ask remote ◄──┘                   (an id may be in the journal, or
 *                               (led_remote), then step again      a Reverse needs its original)
 *
 * Invariants:
 *   V1. Size was checked by ingress; then the capability, then the body: in this order.
 *   V2. A work that passed has entries, canonical leaves, their hashes, preps, links (room for
 *       them), idem, body_print and checked_seq; all in its arena or slices of its request.
 *   V3. checked_seq was read before the index was asked, so an id that is committed in between is
 *       found by the sequencer.
 *   V4. The same bytes give the same leaves, hashes and body_print everywhere.
 *
 * Failure: refusals are in w->refusals, w->result is LED_RESULT_REFUSED; the caller ends the work.
 * Threads: any number at once; a work belongs to one. */
#pragma once

#include "ledger/work/work.h"

struct led_guard;
struct led_index;

struct led_preval {
    struct led_guard *guard;
    const struct led_index *index; /* NULL: nothing is looked up (no journal yet, tests) */
    const uint8_t *hash_key;       /* 16 bytes: of the index, also the book's */
    uint32_t json_max;             /* entries of a batch in JSON; 0: LED_BATCH_JSON_MAX */
};

/* What the caller of a step does next. */
enum led_next {
    LED_NEXT_SEQUENCER,
    LED_NEXT_READERS, /* w->look_up says what for; then the sequencer */
    LED_NEXT_REMOTE,  /* led_remote_ask, then step again */
    LED_NEXT_ANSWER,  /* refused */
};

/* Runs the work as far as it comes. A new work has step 0. */
enum led_next led_preval_step(const struct led_preval *p, struct led_work *w, uint64_t now_ms);

/* ---- its parts ------------------------------------------------------------------------------- */

/* Bytes of arena that admitting and parsing these bytes need at most. */
size_t led_preval_arena_size(enum led_form form, struct ron_str body);

/* Parses w->in by w->form and makes V2 true but for checked_seq. False when refused. JSON is
 * changed in place. */
RON_MUST_USE bool led_preval_parse(const uint8_t hash_key[16], struct led_work *w);

/* The index: sets checked_seq (V3) and w->look_up. */
void led_preval_look_up(const struct led_index *index, struct led_work *w);
