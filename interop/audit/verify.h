/* SPDX-License-Identifier: Apache-2.0 */
/* interop/audit/verify.h - checks an audit file of svc-interop offline, for the command line.
 *
 * Reads the whole file once, in pieces; needs neither the service nor its keys. Blocks. */
#pragma once

#include "ron/base/env.h"

struct ron_interop_audit_report {
    uint64_t records;
    uint64_t first_seq;
    uint64_t last_seq;
    uint64_t dropped;  /* told by records: never written */
    uint64_t bad_line; /* from 1; 0: none */
    bool torn;         /* half a line at the end */
    char last_hash[68];
    char why[192]; /* of the bad line */
};

/* RON_OK: the chain holds (look at `torn`); RON_CORRUPT: it does not, and the report says where.
 * Others: the file could not be read. ret_report is written with RON_OK and RON_CORRUPT. */
RON_MUST_USE enum ron_rc ron_interop_audit_verify(const struct ron_env *env, const char *path,
                                                  struct ron_interop_audit_report *ret_report,
                                                  struct ron_err *err);
