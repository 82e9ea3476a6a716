/* SPDX-License-Identifier: Apache-2.0 */
/* audit/report.h - what an audit found, for a person or as one JSON object.
 *
 * Place: audit. Writes to the given stream and nowhere else; the caller looks at its error once.
 * The members of the JSON object are listed in docs/man/ron-audit.1. */
#pragma once

#include <stdio.h>

#include "audit/proof/offline.h"
#include "audit/run.h"

struct aud_report {
    FILE *out;
    bool json;
    bool quiet;    /* findings and nothing else; not with json */
    bool balances; /* all of them, sorted */
    bool key;      /* signatures were checked */
};

RON_MUST_USE enum ron_rc aud_report_run(const struct aud_report *report,
                                        const struct aud_result *r);
RON_MUST_USE enum ron_rc aud_report_offline(const struct aud_report *report,
                                            const struct aud_offline *o,
                                            const struct aud_vkey *witnesses, size_t witness_count);
