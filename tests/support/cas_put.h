/* SPDX-License-Identifier: Apache-2.0 */
/* cas_put.h - begin, append and commit an object in one call. */
#pragma once

#include "ron/cas/cas.h"

static inline enum ron_rc ron_cas_put(struct ron_cas *s, const void *bytes, size_t len,
                                      struct ron_b3 *ret_id, struct ron_err *err)
{
    const struct ron_cas_write_opts opts = {.size_hint = len};
    struct ron_cas_writer *w = NULL;
    enum ron_rc rc;

    RON_TRY(ron_cas_begin(s, &opts, &w, err));
    rc = ron_cas_append(w, bytes, len, err);
    if (rc != RON_OK) {
        ron_cas_abort(w);
        return rc;
    }
    return ron_cas_commit(w, ret_id, err);
}
