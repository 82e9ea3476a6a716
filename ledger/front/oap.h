/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/front/oap.h - codes and payloads of the ledger over OAP/1 (docs/formats/ledger-oap.md). */
#pragma once

enum {
    LED_OAP_APP = 0x4c45,         /* "LE" */
    LED_OAP_INGEST = 1,           /* request: a binary batch */
    LED_OAP_READ = 2,             /* request: a target of HTTP GET */
    LED_OAP_CANCEL = 3,           /* request: an idem_id */
    LED_OAP_COMMIT = 1,           /* event: a group is durable */
    LED_OAP_CHANGES_APP = 0x4c43, /* "LC": events alone */
    LED_OAP_CHANGES = 1,          /* event: accounts that a group changed (publish/changes.h) */
    LED_OAP_DONE_BYTES = 58,      /* state, replayed, seq_first, seq_last, root, commit_ms */
    LED_OAP_COMMITTED = 1,
    LED_OAP_DRY_RUN = 2,
};
