/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/core.c - helpers that several tasks share.
 *
 * Threads: any that may block. */
#include <stdio.h>

#include "rewarder/core/core.h"

enum ron_rc rwd_join(char *ret, size_t size, const char *dir, const char *name, struct ron_err *err)
{
    int len = snprintf(ret, size, "%s/%s", dir, name);

    return len > 0 && (size_t)len < size
               ? RON_OK
               : ron_err_set(err, RON_LIMIT, "the path %s/%s is too long", dir, name);
}

bool rwd_to_wallet(const struct ron_conf_snap *conf)
{
    return ron_conf_choice(conf, RWD_TARGET) == 1;
}

enum ron_rc rwd_manifest_text(const struct rwd_svc *s, struct ron_str epoch, bool quarantined,
                              struct ron_buf *out, struct ron_err *err)
{
    char found[RON_FILE_PATH_SIZE];
    char path[RON_FILE_PATH_SIZE + sizeof RWD_FILE_MANIFEST];

    RON_TRY(rwd_run_path(s->artifact_dir, epoch, quarantined, found, err));
    (void)snprintf(path, sizeof path, quarantined ? "%s" : "%s/" RWD_FILE_MANIFEST, found);
    return ron_file_read_all(s->disk_env, path, out, err);
}

void rwd_pause(struct rwd_svc *s, uint64_t ms)
{
    struct ron_watch *shutdown = ron_sup_shutdown(ron_app_sup(s->app));
    uint64_t seen = 0;
    uint64_t value = ron_watch_get(shutdown, &seen);

    if (value < RON_SUP_DRAINING) {
        RON_IGNORE(ron_watch_wait(shutdown, seen, ron_deadline_after_ms(ron_env_now_ns(s->env), ms),
                                  &value, &seen));
    }
}
