/* SPDX-License-Identifier: Apache-2.0 */
/* cap.h - capabilities: mint, attenuate, verify, inspect.
 *
 * Place: cap, on top of token.h, caveat.h and keys.h. A service verifies through verifier.h, which
 * remembers what it has seen; the functions here have no state.
 *
 * An identifier names its key: `ron1.KEY-ID.NONCE`. Whoever shares a root key may mint with another
 * library, as long as the identifier has that form.
 *
 * Threads: any. No allocation but for the growth of a caller's ron_buf. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ron/base/buf.h"
#include "ron/base/env.h"
#include "ron/cap/caveat.h"
#include "ron/cap/keys.h"
#include "ron/cap/token.h"

enum {
    RON_CAP_NONCE_MAX = 64,
    /* "ron1." KEY-ID "." NONCE */
    RON_CAP_ID_MAX = 5 + RON_CAP_KEY_ID_MAX + 1 + RON_CAP_NONCE_MAX,
    RON_CAP_LOCATION_MAX = 255,
};

/* What may be told about a verified token: in logs, spans and as a ledger's capability_ref. */
struct ron_cap_info {
    char log_id[RON_CAP_LOG_ID_SIZE];
    char id[RON_CAP_ID_MAX + 1];
    char key_id[RON_CAP_KEY_ID_SIZE];
    uint64_t exp_s; /* UINT64_MAX when it does not expire */
};

struct ron_cap_mint_opts {
    struct ron_str location; /* empty = "ron" */
    enum ron_cap_form form;  /* 0 = v1 */
    const struct ron_str *caveats;
    size_t caveat_count;
};

/* Appends the text of a new token under the newest key. RON_INVALID names a caveat that is unknown
 * or not well formed: what would be denied everywhere is not minted. RON_LIMIT when too large. */
RON_MUST_USE enum ron_rc ron_cap_mint(const struct ron_cap_keys *keys, const struct ron_env *env,
                                      const struct ron_cap_mint_opts *opts, struct ron_buf *out,
                                      struct ron_err *err);

/* Appends the text of the same token with more caveats, in the form it came in (0) or another. No
 * key is needed and the token is not verified. Codes as for mint. */
RON_MUST_USE enum ron_rc ron_cap_attenuate(struct ron_str token, enum ron_cap_form form,
                                           const struct ron_str *caveats, size_t caveat_count,
                                           struct ron_buf *out, struct ron_err *err);

/* Whether a token allows a request under these keys. `ret_info` may be NULL; it is filled when the
 * signature is good, whatever the caveats say. */
RON_MUST_USE enum ron_cap_why ron_cap_verify(const struct ron_cap_keys *keys, struct ron_str token,
                                             const struct ron_cap_request *request,
                                             struct ron_cap_info *ret_info);

/* The signature alone: OK, UNKNOWN_KEY, SIGNATURE or why the text is no token. */
RON_MUST_USE enum ron_cap_why ron_cap_verify_signature(const struct ron_cap_keys *keys,
                                                       struct ron_str token);

/* The token in the value of an Authorization header: `Bearer`, in any case, one blank, and the
 * characters of base64url. OK, MISSING (no or an empty value), SCHEME, TOO_LARGE or MALFORMED. */
RON_MUST_USE enum ron_cap_why ron_cap_bearer(struct ron_str value, struct ron_str *ret_token);

/* A listing for people, and the same as JSON: form, location, identifier, key id, caveats with
 * whether they are known. The signature is in neither. Bytes that are not printable are escaped. */
RON_MUST_USE enum ron_rc ron_cap_inspect_text(const struct ron_cap_token *token,
                                              struct ron_buf *out);
RON_MUST_USE enum ron_rc ron_cap_inspect_json(const struct ron_cap_token *token,
                                              struct ron_buf *out);
