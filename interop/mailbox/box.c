/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/box.c - names, receipts, and waiting for an answer; contract in box.h. */
#include "interop/mailbox/box.h"

#include <stdio.h>
#include <string.h>

#include "ron/sync/sync.h"

const char *iop_op_name(enum iop_op_kind kind)
{
    static const char *const names[] = {
#define X(name, text) [IOP_OP_##name] = (text),
        IOP_OPS(X)
#undef X
    };

    return (unsigned)kind < IOP_OP_COUNT ? names[kind] : "?";
}

static bool topic_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (!first && (c == '.' || c == '_' || c == '-'));
}

bool iop_topic_valid(struct ron_str name)
{
    if (name.len == 0 || name.len > IOP_TOPIC_MAX) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        if (!topic_char(name.ptr[i], i == 0)) {
            return false;
        }
    }
    return true;
}

bool iop_topic_internal(struct ron_str name)
{
    return name.len > 1 && name.len <= IOP_TOPIC_MAX && name.ptr[0] == '.' &&
           iop_topic_valid((struct ron_str){name.ptr + 1, name.len - 1});
}

void iop_receipt_format(struct iop_receipt receipt, char ret_text[IOP_RECEIPT_SIZE])
{
    (void)snprintf(ret_text, IOP_RECEIPT_SIZE, "%llu-%u", (unsigned long long)receipt.id,
                   receipt.delivery);
}

/* Digits without a leading zero, up to `end`; false when there are none or too many. */
static bool take_number(const char **at, const char *end, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;
    const char *p = *at;

    if (p == end || *p < '1' || *p > '9') {
        return false;
    }
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *at = p;
    *ret = value;
    return true;
}

bool iop_receipt_parse(struct ron_str text, struct iop_receipt *ret_receipt)
{
    const char *p = text.len > 0 ? text.ptr : ""; /* one that is not there has no pointer */
    const char *end = p + text.len;
    uint64_t id = 0;
    uint64_t delivery = 0;

    if (!take_number(&p, end, INT64_MAX, &id) || p == end || *p++ != '-' ||
        !take_number(&p, end, UINT32_MAX, &delivery) || p != end) {
        return false;
    }
    *ret_receipt = (struct iop_receipt){.id = id, .delivery = (uint32_t)delivery};
    return true;
}

void iop_op_done(struct iop_op *op)
{
    ron_buf_done(&op->room);
    op->room = (struct ron_buf){0};
}

/* ---- waiting --------------------------------------------------------------------------------- */

#define CALL_MAGIC 0x4943414cu /* "ICAL" */

struct call {
    uint32_t magic;
    struct ron_mutex lock;
    struct ron_cond cond;
    bool answered;
};

static void answered(struct iop_op *op)
{
    struct call *c = RON_OBJ(op->arg, struct call, CALL_MAGIC);

    ron_mutex_lock(&c->lock);
    RON_ASSERT_MSG(!c->answered, "an operation is answered once");
    c->answered = true;
    ron_cond_signal(&c->cond);
    ron_mutex_unlock(&c->lock);
}

enum ron_rc iop_box_call(struct iop_box *box, struct iop_op *op)
{
    struct call c = {.magic = CALL_MAGIC};
    enum ron_rc rc;

    ron_blocking_point("iop_box_call");
    ron_mutex_init(&c.lock, RON_RANK_LEAF, "iop_call");
    ron_cond_init(&c.cond);
    op->done = answered;
    op->arg = &c;
    rc = iop_box_submit(box, op);
    if (rc == RON_OK) {
        ron_mutex_lock(&c.lock);
        while (!c.answered) {
            /* Each operation is answered, at the latest by the drain. */
            (void)ron_cond_wait_until(&c.cond, &c.lock, ron_deadline_never());
        }
        ron_mutex_unlock(&c.lock);
        rc = op->rc;
    }
    ron_cond_done(&c.cond);
    ron_mutex_done(&c.lock);
    return rc;
}
