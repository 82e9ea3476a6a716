/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/outbox.h - the journal of actions: what an accepted delivery still has to bring
 * about.
 *
 * An action (forward a delivery, move money in the wallet) is a message in a topic of its own
 * inside the mailbox, written in the same transaction as the key of the delivery (M1, M3). A worker
 * receives it under a lease, acts, and acknowledges; after a crash it is received again, and the
 * idempotency key of the action makes a second act have no second effect. So: at least one act,
 * exactly one effect.
 *
 * What follows from an attempt is decided here, by numbers alone:
 *
 *     2xx                          DONE     acknowledge
 *     410                          DISABLE  the target is switched off, the action dies
 *     408 425 429 5xx, no answer   RETRY    at the schedule's time, or Retry-After if later
 *     any other                    DEAD     it would be answered the same again
 *     schedule used up             DEAD
 *
 * Schedules:
 *   forward   5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h after the first attempt, each
 *             plus up to 20 % at random (Standard Webhooks' recommendation): ten attempts
 *   wallet    1 s doubling to 5 min, plus up to 50 %: for as long as a day, because a payment that
 *             was taken is not given up lightly
 *
 * Pure; any thread. */
#pragma once

#include "interop/mailbox/box.h"
#include "ron/base/rand.h"

#define IOP_TOPIC_FORWARD ".forward"
#define IOP_TOPIC_WALLET ".wallet"

enum iop_schedule { IOP_SCHEDULE_FORWARD, IOP_SCHEDULE_WALLET, IOP_SCHEDULE_COUNT };

enum iop_next_kind { IOP_NEXT_DONE, IOP_NEXT_RETRY, IOP_NEXT_DEAD, IOP_NEXT_DISABLE };
struct iop_next {
    enum iop_next_kind kind;
    uint64_t delay_ms;  /* RETRY */
    const char *reason; /* static text; "" for DONE */
};

/* How an attempt ended. */
struct iop_attempt {
    enum ron_rc rc;          /* not RON_OK: no answer */
    int status;              /* of the answer */
    uint64_t retry_after_ms; /* 0: none; longer than a day counts as a day */
};

enum { IOP_RETRY_AFTER_MAX_MS = 24 * 60 * 60 * 1000 };

/* `delivery` is the number of the attempt that ended, from 1: the receipt's. */
struct iop_next iop_outbox_next(enum iop_schedule schedule, uint32_t delivery,
                                const struct iop_attempt *attempt, struct ron_rand *rand);
/* How many attempts a schedule has: deliveries_max of its topic. */
uint32_t iop_outbox_attempts(enum iop_schedule schedule);
/* Fills a NACK (RETRY, DEAD, DISABLE) or an ACK (DONE) of one receipt. */
void iop_outbox_answer(struct iop_op *op, struct ron_str topic, const struct iop_receipt *receipt,
                       const struct iop_next *next);
