/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: answers of a mailbox elsewhere. The first byte says what was asked, the rest is the
 * text of the answer.
 *
 * Properties: whatever is accepted lies inside the operation's own room, has no more rows than were
 * asked for, and names ids and receipts that have one spelling. */
#include <stdint.h>
#include <string.h>

#include "interop/mailbox/remote.h"
#include "ron/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ASKED = 4 };

static void check_inside(const struct iop_op *op, struct ron_str s)
{
    const char *room = (const char *)op->room.memory;

    RON_ASSERT(s.len == 0 || (s.ptr >= room && s.ptr + s.len <= room + op->room.cap));
}

static void check_got(const struct iop_op *op, const struct iop_got *got, uint32_t count,
                      bool receipt)
{
    char text[IOP_RECEIPT_SIZE];
    struct iop_receipt again;

    for (uint32_t i = 0; i < count; i++) {
        check_inside(op, got[i].head);
        check_inside(op, got[i].body);
        check_inside(op, got[i].reason);
        RON_ASSERT(got[i].receipt.id > 0);
        if (receipt) {
            iop_receipt_format(got[i].receipt, text);
            RON_ASSERT(iop_receipt_parse((struct ron_str){text, strlen(text)}, &again));
            RON_ASSERT(again.id == got[i].receipt.id && again.delivery == got[i].receipt.delivery);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct iop_receipt receipts[ASKED] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}};
    enum ron_rc rcs[ASKED];
    struct iop_op op = {0};
    enum ron_rc rc;

    if (size == 0) {
        return 0;
    }
    op.kind = (enum iop_op_kind)(data[0] % IOP_OP_COUNT);
    if (op.kind == IOP_OP_RECV) {
        op.recv.max = ASKED;
    } else if (op.kind == IOP_OP_ACK || op.kind == IOP_OP_NACK) {
        op.ack.receipts = receipts;
        op.ack.rcs = rcs;
        op.ack.count = ASKED;
    }
    rc = iop_box_http_read(&op, (struct ron_str){(const char *)data + 1, size - 1});
    RON_ASSERT(rc == RON_OK || rc == RON_CORRUPT);
    if (rc == RON_OK && op.kind == IOP_OP_RECV) {
        RON_ASSERT(op.recv.count <= ASKED);
        check_got(&op, op.recv.got, op.recv.count, true);
    } else if (rc == RON_OK && op.kind == IOP_OP_DEAD) {
        check_got(&op, op.dead.got, op.dead.count, false);
    } else if (rc == RON_OK && op.kind == IOP_OP_PUT) {
        RON_ASSERT(op.put.duplicate || op.put.first_id > 0);
    } else if (rc == RON_OK && op.kind == IOP_OP_STATS) {
        for (uint32_t i = 0; i < op.stats.count; i++) {
            RON_ASSERT(strnlen(op.stats.rows[i].name, IOP_TOPIC_MAX + 1) <= IOP_TOPIC_MAX);
        }
    }
    iop_op_done(&op);
    return 0;
}
