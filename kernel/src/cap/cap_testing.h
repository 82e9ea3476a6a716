/* SPDX-License-Identifier: Apache-2.0 */
/* cap_testing.h - what tests ask of capabilities; the product calls none of it. */
#pragma once

#include "ron/cap/caveat.h"
#include "ron/cap/keys.h"
#include "ron/cap/verifier.h"

/* RON_CAP_OK or the kind's reason. */
RON_MUST_USE enum ron_cap_why ron_cap_caveat_holds(const struct ron_cap_caveat *caveat,
                                                   const struct ron_cap_request *request);

/* The same from a file's content. */
RON_MUST_USE enum ron_rc ron_cap_keys_parse(const char *text, size_t len,
                                            struct ron_cap_keys **ret_keys, struct ron_err *err);

/* As ron_cap_verify. */
RON_MUST_USE enum ron_cap_why ron_cap_verifier_check(struct ron_cap_verifier *v,
                                                     struct ron_str token,
                                                     const struct ron_cap_request *request,
                                                     struct ron_cap_info *ret_info);
