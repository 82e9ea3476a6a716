/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/priv.h - what store.c, reads.c and open.c share. */
#pragma once

#include "interop/mailbox/store.h"

/* One transaction on its way. */
struct iop_group {
    uint64_t wall_ms;
    uint64_t now_ms; /* monotonic */
    uint64_t bytes;  /* of messages so far */
    bool began;
    enum ron_rc fatal; /* the transaction cannot go on */
    struct ron_err err;
};

void iop__group_init(struct iop_store *s, struct iop_group *ret_group);
void iop__answer(struct iop_op *op, enum ron_rc rc, const char *why);
/* Answers an operation that only reads; a RECV may have to wait. */
void iop__read(struct iop_store *s, struct iop_op *op);
/* Gives what is ready to those who wait for it. */
void iop__serve_waiters(struct iop_store *s);
/* Long polls whose time is up; with `all` every one. */
void iop__end_waiters(struct iop_store *s, uint64_t now_ns, bool all);
uint64_t iop__next_waiter_ns(const struct iop_store *s);
/* Notes the deliveries whose lease ended, and lets them be received again or die. */
void iop__settle_expired(struct iop_store *s);
/* The gauges. */
void iop__publish(struct iop_store *s);
