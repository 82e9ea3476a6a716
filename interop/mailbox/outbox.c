/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/outbox.c - what follows from an attempt; contract in outbox.h. */
#include "interop/mailbox/outbox.h"

#include "ron/base/assert.h"

enum {
    S = 1000,
    MINUTE = 60 * S,
    HOUR = 60 * MINUTE,
    FORWARD_JITTER_PCT = 20,
    WALLET_FIRST_MS = S,
    WALLET_MAX_MS = 5 * MINUTE,
    WALLET_JITTER_PCT = 50,
    /* 1 + 2 + ... + 256 s, then 5 min each: a day without jitter. */
    WALLET_ATTEMPTS = 296,
};

/* When attempt n + 2 is due after the first: the differences are the waits. */
static const uint32_t forward_at_ms[] = {5 * S,     5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR,
                                         10 * HOUR, 14 * HOUR,  20 * HOUR,   24 * HOUR};

uint32_t iop_outbox_attempts(enum iop_schedule schedule)
{
    return schedule == IOP_SCHEDULE_FORWARD ? (uint32_t)RON_ARRAY_LEN(forward_at_ms) + 1
                                            : (uint32_t)WALLET_ATTEMPTS;
}

/* The wait after attempt `delivery`, which is not the last. */
static uint64_t wait_ms(enum iop_schedule schedule, uint32_t delivery, struct ron_rand *rand)
{
    uint32_t n = delivery - 1;
    uint64_t base;
    uint64_t pct;

    RON_ASSERT_MSG(delivery < iop_outbox_attempts(schedule), "the last attempt has no wait");
    if (schedule == IOP_SCHEDULE_FORWARD) {
        base = forward_at_ms[n] - (n > 0 ? forward_at_ms[n - 1] : 0);
        pct = FORWARD_JITTER_PCT;
    } else {
        base = n < 16 ? (uint64_t)WALLET_FIRST_MS << n : (uint64_t)WALLET_MAX_MS;
        base = RON_MIN(base, (uint64_t)WALLET_MAX_MS);
        pct = WALLET_JITTER_PCT;
    }
    return base + ron_rand_below(rand, base * pct / 100 + 1);
}

static bool worth_another(const struct iop_attempt *a)
{
    return a->rc != RON_OK || a->status == 408 || a->status == 425 || a->status == 429 ||
           (a->status >= 500 && a->status <= 599);
}

struct iop_next iop_outbox_next(enum iop_schedule schedule, uint32_t delivery,
                                const struct iop_attempt *attempt, struct ron_rand *rand)
{
    uint64_t after = RON_MIN(attempt->retry_after_ms, (uint64_t)IOP_RETRY_AFTER_MAX_MS);
    uint64_t wait;

    RON_ASSERT(delivery >= 1);
    if (attempt->rc == RON_OK && attempt->status >= 200 && attempt->status <= 299) {
        return (struct iop_next){.kind = IOP_NEXT_DONE, .reason = ""};
    }
    if (attempt->rc == RON_OK && attempt->status == 410) {
        return (struct iop_next){.kind = IOP_NEXT_DISABLE, .reason = "410: target is gone"};
    }
    if (!worth_another(attempt)) {
        return (struct iop_next){.kind = IOP_NEXT_DEAD, .reason = "permanent failure"};
    }
    if (delivery >= iop_outbox_attempts(schedule)) {
        return (struct iop_next){.kind = IOP_NEXT_DEAD, .reason = "all attempts used"};
    }
    wait = wait_ms(schedule, delivery, rand);
    return (struct iop_next){.kind = IOP_NEXT_RETRY,
                             .delay_ms = RON_MAX(wait, after),
                             .reason = attempt->rc != RON_OK ? "no answer" : "temporary failure"};
}

void iop_outbox_answer(struct iop_op *op, struct ron_str topic, const struct iop_receipt *receipt,
                       const struct iop_next *next)
{
    RON_ASSERT_MSG(receipt->delivery >= 1, "an action was delivered before it is settled");
    RON_ASSERT(next->reason != NULL);
    op->kind = next->kind == IOP_NEXT_DONE ? IOP_OP_ACK : IOP_OP_NACK;
    op->ack.topic = topic;
    op->ack.receipts = receipt;
    op->ack.count = 1;
    op->ack.rcs = NULL;
    op->ack.ret_done = 0;
    op->ack.delay_ms = next->delay_ms;
    op->ack.dead = next->kind == IOP_NEXT_DEAD || next->kind == IOP_NEXT_DISABLE;
    op->ack.reason = (struct ron_str){next->reason, __builtin_strlen(next->reason)};
}
