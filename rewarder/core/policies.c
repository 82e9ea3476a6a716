/* SPDX-License-Identifier: Apache-2.0 */
/* rewarder/core/policies.c - known policies: loaded from rewarder.policy_dir, found in the book.
 *
 * Threads: any that may block. */
#include <string.h>

#include "rewarder/core/store.h"
#include "ron/io/file.h"

static void load_policy(struct rwd_store *st, const char *path)
{
    struct rwd_policy_doc *doc = NULL;
    struct ron_err err = {0};
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init(&text, RWD_POLICY_TEXT_MAX);
    rc = ron_file_read_all(st->core->env, path, &text, &err);
    if (rc == RON_OK) {
        rc = rwd_policy_read(ron_buf_data(&text), ron_buf_len(&text), st->policy_keys,
                             st->policy_key_count, &doc, &err);
    }
    if (rc == RON_OK) {
        rc = rwd_book_policy_put(st->book, doc, ron_env_wall_ms(st->core->env), &err);
    }
    if (rc != RON_OK) {
        RON_LOG(st->core->log, ERROR, "a policy was not loaded", RON_LOG_STR("path", path),
                RON_LOG_ERR(&err));
    }
    rwd_policy_free(doc);
    ron_buf_done(&text);
}

struct policy_names {
    struct rwd_store *st;
    const char *dir;
};

static bool each_policy(void *arg, const char *name, bool is_dir)
{
    const struct policy_names *n = arg;
    size_t len = strlen(name);
    char path[1024];
    struct ron_err err = {0};

    if (!is_dir && len > 5 && strcmp(name + len - 5, ".json") == 0 &&
        rwd_join(path, sizeof path, n->dir, name, &err) == RON_OK) {
        load_policy(n->st, path);
    }
    return true;
}

void rwd_policies_load(struct rwd_store *st)
{
    struct policy_names names = {st, ron_conf_str(st->core->conf, RWD_POLICY_DIR).text};
    struct ron_err err = {0};

    if (*names.dir != '\0' &&
        st->core->env->disk->list(st->core->env, names.dir, each_policy, &names, &err) != RON_OK) {
        RON_LOG(st->core->log, ERROR, "the folder of policies cannot be read",
                RON_LOG_STR("path", names.dir), RON_LOG_ERR(&err));
    }
}

enum ron_rc rwd_policy_known(struct rwd_store *st, struct ron_str id, const struct ron_b3 *hash,
                             struct rwd_policy_doc **ret_doc, struct ron_err *err)
{
    struct ron_buf text;
    enum ron_rc rc;

    ron_buf_init(&text, RWD_POLICY_TEXT_MAX);
    rc = rwd_book_policy_get(st->book, id, hash, &text, err);
    if (rc == RON_OK) {
        rc = rwd_policy_read(ron_buf_data(&text), ron_buf_len(&text), st->policy_keys,
                             st->policy_key_count, ret_doc, err);
    }
    ron_buf_done(&text);
    return rc;
}
