/* SPDX-License-Identifier: Apache-2.0 */
/* chan_ops.h - bytes as a history of channel operations, checked against a plain model.
 *
 * One interpreter serves two tests: the fuzz target, which lets a fuzzer write the history, and the
 * property test of unit/chan, which draws it at random. Every byte string is a valid history.
 *
 * The model is an array, a few counters and two lists of waiters: slow and obvious. After each
 * operation the result, its outputs, every counter of the channel and every call of a waker are
 * compared; a difference is a failed assertion that names the step and the operation.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* X(NAME, "name"): what a byte can mean. */
#define CHAN_OPS(X)                                                                                \
    X(TRY_SEND, "try_send")                                                                        \
    X(SEND, "send")                                                                                \
    X(TRY_SEND_MANY, "try_send_many")                                                              \
    X(SEND_POLL, "send_poll")                                                                      \
    X(SEND_RETRY, "send_retry")                                                                    \
    X(SEND_FORGET, "send_forget")                                                                  \
    X(RESERVE, "reserve")                                                                          \
    X(SEND_RESERVED, "send_reserved")                                                              \
    X(UNRESERVE, "unreserve")                                                                      \
    X(RECV_MANY, "recv_many")                                                                      \
    X(TRY_RECV_MANY, "try_recv_many")                                                              \
    X(RECV_POLL, "recv_poll")                                                                      \
    X(RECV_OR_CHANGED, "recv_or_changed")                                                          \
    X(RECV_FORGET, "recv_forget")                                                                  \
    X(CLOSE, "close")

enum chan_op {
#define X(name, text) CHAN_OP_##name,
    CHAN_OPS(X)
#undef X
        CHAN_OP_COUNT
};

/* What histories have met so far: bit -rc of results[op] for each result code of each operation. */
struct chan_ops_seen {
    uint32_t results[CHAN_OP_COUNT];
    uint64_t steps;
};

const char *chan_op_name(enum chan_op op);

/* Byte 0 chooses the policy, byte 1 the capacity (1..8), byte 2 the wake batch (0..4); then each
 * operation takes two bytes: what, and with which number. `seen` may be NULL. */
void chan_ops_run(const uint8_t *bytes, size_t size, struct chan_ops_seen *seen);
