/* SPDX-License-Identifier: Apache-2.0 */
/* iop_box_faults.h - one life of a mailbox for the fault sweep, on either kind of storage.
 *
 * After a failed step the rest of the script of box_script.h is run without faults and must end
 * where it always ends. In PostgreSQL an answer can be lost on its way: a mailbox that finds it
 * again succeeds, and one that says RON_TIMEOUT may have written. */
#pragma once

#include "unit/interop/box_script.h"

static char golden[BOX_STEPS + 1][BOX_TEXT];

static inline enum ron_rc live(void *arg)
{
    bool (*hook)(enum ron_fault_kind, const char *) = ron_fault_hook;
    struct box b;
    char text[BOX_TEXT];
    enum ron_rc rc;
    int n = 0;

    (void)arg;
    ron_fault_hook = NULL;
    box_init(&b, true);
    b.opts.tries = 3; /* a server that never answers is not waited for */
    ron_fault_hook = hook;
    rc = box_open(&b);
    while (rc == RON_OK && n < BOX_STEPS) {
        rc = box_script(&b, n);
        n += rc == RON_OK;
    }
    ron_fault_hook = NULL;
    if (b.store.file == NULL) { /* it could not be opened */
        RON_ASSERT(rc != RON_OK && box_open(&b) == RON_OK);
    } else {
        iop_store_stop(&b.store);
        iop_store_close(&b.store);
        RON_ASSERT(box_open(&b) == RON_OK);
    }
    box_text(&b, text);
    if (box_on_pg && rc == RON_TIMEOUT && strcmp(text, golden[n]) != 0) {
        n++;
    }
    RON_ASSERT(strcmp(text, golden[n]) == 0);
    for (; n < BOX_STEPS; n++) {
        RON_ASSERT(box_script(&b, n) == RON_OK);
    }
    box_reopen(&b);
    box_text(&b, text);
    RON_ASSERT(strcmp(text, golden[BOX_STEPS]) == 0);
    box_close(&b);
    ron_fault_hook = hook;
    return rc;
}
