/* SPDX-License-Identifier: Apache-2.0 */
/* box_script.h - a script of steps on a mailbox in a file, and its whole durable state as text. */
#pragma once

#include "ron/base/assert.h"
#include "unit/interop/box_fixture.h"

enum { BOX_STEPS = 10, BOX_TEXT = 2048, BOX_IDS = 40 };

static inline enum ron_rc box_script_put_two(struct box *b)
{
    struct iop_msg msgs[2] = {
        {.topic = box_str("b"), .head = box_str("{}"), .body = box_str("two")},
        {.topic = box_str("a"), .body = box_str("three")}};
    struct iop_op op = {.kind = IOP_OP_PUT, .put = {.msgs = msgs, .count = 2, .has_key = true}};

    iop_seen_key(b->store.seen, box_str("github"), box_str("k2"), NULL, &op.put.key);
    return box_apply(b, &op);
}

/* Receives one of the topic and answers it. */
static inline enum ron_rc box_script_answer(struct box *b, const char *topic, enum iop_op_kind kind,
                                            uint64_t delay_ms, bool dead)
{
    struct iop_op recv = {
        .kind = IOP_OP_RECV,
        .recv = {.topic = box_str(topic), .max = 1, .max_bytes = 1000, .visibility_ms = 1000}};
    struct iop_op op = {.kind = kind};
    struct iop_receipt receipt;
    enum ron_rc one = RON_OK;
    enum ron_rc rc = box_apply(b, &recv);

    if (rc != RON_OK || recv.recv.count == 0) {
        iop_op_done(&recv);
        return rc != RON_OK ? rc : RON_NOTFOUND;
    }
    receipt = recv.recv.got[0].receipt;
    iop_op_done(&recv);
    if (kind == IOP_OP_RECV) {
        return RON_OK;
    }
    op.ack.topic = box_str(topic);
    op.ack.receipts = &receipt;
    op.ack.count = 1;
    op.ack.rcs = &one;
    op.ack.delay_ms = delay_ms;
    op.ack.dead = dead;
    op.ack.reason = box_str("why");
    rc = box_apply(b, &op);
    return rc != RON_OK ? rc : one;
}

static inline enum ron_rc box_script_dead(struct box *b, enum iop_op_kind kind)
{
    struct iop_op op = {.kind = kind, .dead = {.topic = box_str("a")}};

    return box_apply(b, &op);
}

/* Step n of the script. Each changes the file with at most one transaction. */
static inline enum ron_rc box_script(struct box *b, int n)
{
    struct iop_op target = {.kind = IOP_OP_TARGET,
                            .target = {.name = box_str("t"), .set = true, .off = true}};
    bool duplicate = false;

    switch (n) {
    case 0:
        return box_put_key(b, "a", "one", "k1", &duplicate);
    case 1:
        return box_script_put_two(b);
    case 2:
        return box_script_answer(b, "a", IOP_OP_ACK, 0, false);
    case 3:
        return box_script_answer(b, "a", IOP_OP_NACK, 0, false);
    case 4:
        return box_script_answer(b, "a", IOP_OP_NACK, 0, true);
    case 5:
        return box_script_dead(b, IOP_OP_REPLAY);
    case 6:
        return box_apply(b, &target);
    case 7:
        return box_script_answer(b, "a", IOP_OP_NACK, 0, true);
    case 8:
        return box_script_dead(b, IOP_OP_PURGE);
    case 9:
        return box_put_key(b, "c", "last", "k3", &duplicate);
    default:
        RON_UNREACHABLE();
    }
}

/* Everything that survives, of a store that was just opened. Without ids: a failed step loses
 * some. */
static inline void box_text(struct box *b, char text[BOX_TEXT])
{
    static const char *const keys[] = {"k1", "k2", "k3"};
    struct iop_op target = {.kind = IOP_OP_TARGET, .target = {.name = box_str("t")}};
    size_t len = 0;

    for (uint64_t id = 1; id <= BOX_IDS; id++) {
        const struct iop_q_msg *m = iop_queue_find(&b->store.queue, id);

        if (m != NULL) {
            len += (size_t)snprintf(text + len, BOX_TEXT - len, "%s:%d:%u:%u;", m->topic->name,
                                    (int)m->state, m->deliveries, m->bytes);
        }
    }
    for (size_t i = 0; i < RON_ARRAY_LEN(keys); i++) {
        struct iop_key key;

        iop_seen_key(b->store.seen, box_str("github"), box_str(keys[i]), NULL, &key);
        len += (size_t)snprintf(text + len, BOX_TEXT - len, "%s=%d;", keys[i],
                                iop_seen_has(b->store.seen, &key, b->clock.wall_ms));
    }
    RON_ASSERT(box_apply(b, &target) == RON_OK);
    (void)snprintf(text + len, BOX_TEXT - len, "off=%d", target.target.off);
    iop_op_done(&target);
}

/* texts[n]: the state after n steps. */
static inline void box_golden(char texts[BOX_STEPS + 1][BOX_TEXT])
{
    for (int steps = 0; steps <= BOX_STEPS; steps++) {
        struct box b;

        box_init(&b, true);
        RON_ASSERT(box_open(&b) == RON_OK);
        for (int n = 0; n < steps; n++) {
            RON_ASSERT(box_script(&b, n) == RON_OK);
        }
        box_reopen(&b);
        box_text(&b, texts[steps]);
        box_close(&b);
    }
}
