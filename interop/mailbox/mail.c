/* SPDX-License-Identifier: Apache-2.0 */
/* interop/mailbox/mail.c - keys of the mailbox in use; contract in mail.h. */
#include "interop/mailbox/mail.h"

void iop_key_make(const struct iop_mail *m, struct ron_str name, struct ron_str id,
                  const struct ron_b3 *body, struct iop_key *ret_key)
{
    if (m->seen != NULL) {
        iop_seen_key(m->seen, name, id, body, ret_key);
    } else {
        iop_box_http_key(name, id, body, ret_key);
    }
}
