/* SPDX-License-Identifier: Apache-2.0 */
/* edge/pack/verify_priv.h - what the two halves of the verification share. */
#pragma once

#include "edge/pack/verify.h"

struct edg__check {
    const struct edg_verify_opts *opts;
    struct edg_verify_report *report;
    struct ron_err *err;
};

void edg__found(struct edg_findings *f, const char *fmt, ...) RON_PRINTF(2, 3);
/* RON_CANCELLED when the one who looks on says so. */
RON_MUST_USE enum ron_rc edg__check_step(struct edg__check *c, const char *phase, uint64_t done,
                                         uint64_t total);
/* RON_OK also when faults were found; then what follows has no sense and is left out. */
RON_MUST_USE enum ron_rc edg__verify_pmt(struct edg__check *c, int fd, uint64_t file_bytes);
RON_MUST_USE enum ron_rc edg__verify_mbt(struct edg__check *c);
