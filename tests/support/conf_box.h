/* SPDX-License-Identifier: Apache-2.0 */
/* conf_box.h - reload and put in one, as a SIGHUP does. One caller at a time. */
#pragma once

#include "ron/conf/conf.h"

static inline enum ron_rc ron_conf_box_reload(struct ron_conf_box *box, const struct ron_env *env,
                                              const struct ron_conf_sources *sources,
                                              struct ron_conf_changes *ret_changes,
                                              struct ron_buf *diff, struct ron_err *err)
{
    struct ron_conf_snap *old = ron_conf_box_get(box);
    struct ron_conf_snap *new = NULL;
    enum ron_rc rc = ron_conf_reload(env, sources, old, &new, ret_changes, diff, err);

    ron_conf_unref(old);
    if (rc == RON_OK) {
        ron_conf_box_put(box, new);
    }
    return rc;
}
