/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/mail.h - the mailbox that is in use: embedded, or kept by another service.
 *
 * Ownership: svc.c opens and frees it. Threads: any. */
#pragma once

#include "interop/mailbox/box.h"
#include "interop/mailbox/local.h"
#include "interop/mailbox/remote.h"
#include "ron/obs/health.h"
#include "ron/obs/metrics.h"

#define IOP_MAIL_MAGIC 0x494d4149u /* "IMAI" */

struct iop_mail {
    uint32_t magic;
    struct iop_box *box;
    struct iop_box_local *local; /* NULL: another service keeps it */
    struct iop_seen *seen;       /* of the embedded one */
    struct ron_app_tokens token; /* for another service */
    struct iop_op probe;         /* asks a mailbox elsewhere that failed */
    struct ron_stat probing;     /* 1: `probe` is on its way */
    struct ron_need *need;
};

/* The key that identifies a delivery, or what a client sends under a key: the same for all who
 * share the mailbox. */
void iop_key_make(const struct iop_mail *m, struct ron_str name, struct ron_str id,
                  const struct ron_b3 *body, struct iop_key *ret_key);
