/* SPDX-License-Identifier: Apache-2.0 */
/* auth.c - the key file of a service, checks of its callers, and its own token. */
#include "ron/app/auth.h"

#include <string.h>

#include "app/app_priv.h"
#include "ron/base/alloc.h"
#include "ron/base/secret.h"
#include "ron/io/file.h"

enum { TOKENS_REMEMBERED = 1024 }; /* callers at once whose signature is checked once */

struct ron_app_auth {
    const struct ron_env *env;
    struct ron_log *log;
    struct ron_str audience;
    bool amnesia;
    struct ron_cap_ring ring;
    bool has_ring;
    struct ron_cap_verifier *verifier;
};

/* ---- callers --------------------------------------------------------------------------------- */

static enum ron_cap_why bearer(const struct ron_http_head *head, struct ron_str *ret_token)
{
    struct ron_str value = {0};

    RON_IGNORE(ron_http_field_get(head, "authorization", &value));
    return ron_cap_bearer(value, ret_token);
}

/* Whose requests the rate counts: those of a capability that was seen to be good. */
static struct ron_str client_key(void *arg, const struct ron_http_head *head)
{
    struct ron_app_auth *a = arg;
    struct ron_str token = {0};
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant grant;

    ron_arena_init_over(&arena, room, sizeof room);
    if (bearer(head, &token) != RON_CAP_OK ||
        ron_cap_verifier_open(a->verifier, token, ron_env_wall_ms(a->env), &arena, &grant, NULL) !=
            RON_CAP_OK) {
        return (struct ron_str){0};
    }
    return token;
}

static enum ron_rc open_keys(struct ron_app_auth *a, const char *key_file, struct ron_err *err)
{
    struct ron_cap_keys *found = NULL;
    enum ron_rc rc = ron_cap_keyfile_load(a->env, key_file, &found, err);

    if (rc != RON_OK) {
        ron_err_prefix(err, "auth.key_file");
        return rc;
    }
    ron_cap_ring_init(&a->ring, found);
    a->has_ring = true;
    return ron_cap_verifier_new(&(struct ron_cap_verifier_opts){.env = a->env,
                                                                .ring = &a->ring,
                                                                .entries = TOKENS_REMEMBERED},
                                &a->verifier, err);
}

enum ron_rc ron_app_auth_new(struct ron_app *app, const char *key_file, const char *audience,
                             struct ron_app_auth **ret_auth, struct ron_err *err)
{
    const struct ron_conf_snap *conf = ron_app_conf(app);
    struct ron_app_auth *a = ron_alloc_zero(sizeof *a);
    enum ron_rc rc;

    if (a == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the keys");
    }
    a->env = ron_app_env(app);
    a->log = ron_app_log(app);
    a->audience = (struct ron_str){audience, strlen(audience)};
    a->amnesia = ron_conf_bool(conf, ron_conf_find_key(ron_conf_table_of(conf), "amnesia.enabled"));
    rc = open_keys(a, key_file, err);
    if (rc == RON_OK) {
        rc = ron_collect_cap(ron_app_metrics(app), a->verifier, err);
    }
    if (rc != RON_OK) {
        ron_app_auth_free(a);
        return rc;
    }
    ron_app_set_client_key(app, client_key, a);
    *ret_auth = a;
    return RON_OK;
}

void ron_app_auth_free(struct ron_app_auth *a)
{
    if (a == NULL) {
        return;
    }
    ron_cap_verifier_free(a->verifier);
    if (a->has_ring) {
        ron_cap_ring_done(&a->ring);
    }
    ron_free(a);
}

void ron_app_auth_reload(struct ron_app_auth *a, const char *key_file)
{
    struct ron_err err = {0};
    bool changed = false;

    if (ron_cap_verifier_reload(a->verifier, a->env, key_file, &changed, &err) != RON_OK) {
        RON_LOG(a->log, ERROR, "the key file was not reloaded", RON_LOG_ERR(&err));
    }
}

struct ron_cap_verifier *ron_app_auth_verifier(const struct ron_app_auth *a)
{
    return a->verifier;
}

enum ron_cap_why ron_app_auth_check(struct ron_app_auth *a, struct ron_http_call *call,
                                    const char *scope, struct ron_str account,
                                    struct ron_cap_info *ret_info, uint64_t *ret_until_ms)
{
    uint64_t now_ms = ron_env_wall_ms(a->env);
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_str token = {0};
    struct ron_arena arena;
    struct ron_cap_grant grant = {0};
    enum ron_cap_why why = bearer(ron_http_head(call), &token);

    ron_arena_init_over(&arena, room, sizeof room);
    if (why == RON_CAP_OK) {
        why = ron_cap_verifier_open(a->verifier, token, now_ms, &arena, &grant, ret_info);
    }
    if (why == RON_CAP_OK) {
        why = ron_cap_grant_allows(&grant, RON_CAP_KINDS_ALL,
                                   &(struct ron_cap_request){.audience = a->audience,
                                                             .scope = {scope, strlen(scope)},
                                                             .accounts = &account,
                                                             .account_count = account.len > 0,
                                                             .now_ms = now_ms,
                                                             .amnesia = a->amnesia});
    }
    if (why == RON_CAP_OK && ret_until_ms != NULL) {
        *ret_until_ms = grant.exp_s > UINT64_MAX / 1000 ? UINT64_MAX : grant.exp_s * 1000;
    }
    return why;
}

/* ---- this service's own token ---------------------------------------------------------------- */

void ron_app_tokens_init(struct ron_app_tokens *b, const struct ron_env *env, const char *key)
{
    *b = (struct ron_app_tokens){.env = env, .key = key};
}

void ron_app_tokens_done(struct ron_app_tokens *b)
{
    while (b->_all != NULL) {
        struct ron_app_token *t = b->_all;

        b->_all = t->_next;
        ron_wipe(t->_bytes, t->text.len);
        ron_free(t);
    }
}

const struct ron_app_token *ron_app_tokens_get(const struct ron_app_tokens *b)
{
    return ron_aptr_load(&b->_newest);
}

/* A new one takes the place of the old for calls to come. */
static enum ron_rc keep(struct ron_app_tokens *b, const char *path, const char *text, size_t len,
                        struct ron_err *err)
{
    const struct ron_app_token *now = ron_app_tokens_get(b);
    uint8_t room[RON_CAP_GRANT_BYTES];
    struct ron_arena arena;
    struct ron_cap_grant grant;
    struct ron_cap_info info = {0};
    struct ron_app_token *t;

    if (now != NULL && now->text.len == len && memcmp(now->text.ptr, text, len) == 0) {
        return RON_OK; /* a reload for something else */
    }
    ron_arena_init_over(&arena, room, sizeof room);
    if (ron_cap_grant_read((struct ron_str){text, len}, &arena, &grant, &info) != RON_CAP_OK) {
        return ron_err_set(err, RON_INVALID, "%s: %s holds no capability", b->key, path);
    }
    if (b->_count >= RON_APP_TOKENS_MAX) {
        return ron_err_set(err, RON_LIMIT, "%s: too many tokens were loaded; restart the service",
                           b->key);
    }
    t = ron_alloc(sizeof *t + len);
    if (t == NULL) {
        return ron_err_set(err, RON_NOMEM, "no memory for the token");
    }
    memcpy(t->_bytes, text, len);
    t->text = (struct ron_str){t->_bytes, len};
    memcpy(t->kid, info.key_id, sizeof t->kid);
    t->_next = b->_all;
    b->_all = t;
    b->_count++;
    ron_aptr_store(&b->_newest, t);
    return RON_OK;
}

static bool token_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '=';
}

enum ron_rc ron_app_tokens_load(struct ron_app_tokens *b, const char *path, struct ron_err *err)
{
    char text[RON_CAP_TEXT_MAX + 2];
    size_t len = 0;
    enum ron_rc rc = ron_file_read_private(b->env, path, text, sizeof text, &len, err);

    if (rc != RON_OK) {
        ron_err_prefix(err, "%s", b->key);
    } else {
        while (len > 0 && !token_char(text[len - 1])) {
            len--; /* the end of a line */
        }
        rc = keep(b, path, text, len, err);
    }
    ron_wipe(text, sizeof text);
    return rc;
}
