/* SPDX-License-Identifier: Apache-2.0 */
/* auth.h - who may: the keys that a service believes, and its own token for another service.
 *
 * Place: app, over ron/cap. Both are files that an operator replaces and a reload reads anew.
 *
 * Threads: checks from anywhere; open, reload and free as in ron/app/app.h. */
#pragma once

#include "ron/app/app.h"
#include "ron/cap/verifier.h"

/* ---- callers --------------------------------------------------------------------------------- */

struct ron_app_auth;

/* Loads the key file and makes the rate limit count by capability (ron_app_set_client_key).
 * `audience` is kept. In build. */
RON_MUST_USE enum ron_rc ron_app_auth_new(struct ron_app *app, const char *key_file,
                                          const char *audience, struct ron_app_auth **ret_auth,
                                          struct ron_err *err);
void ron_app_auth_free(struct ron_app_auth *a); /* NULL is fine */
/* Reads the file anew; a mistake is logged and changes nothing. */
void ron_app_auth_reload(struct ron_app_auth *a, const char *key_file);

/* For a service that judges by more than scope and account. */
struct ron_cap_verifier *ron_app_auth_verifier(const struct ron_app_auth *a);
/* Whether the call's token allows `scope` (and `account`, unless empty). `ret_info` and
 * `ret_until_ms` (wall clock; UINT64_MAX: no end) may be NULL. */
RON_MUST_USE enum ron_cap_why ron_app_auth_check(struct ron_app_auth *a, struct ron_http_call *call,
                                                 const char *scope, struct ron_str account,
                                                 struct ron_cap_info *ret_info,
                                                 uint64_t *ret_until_ms);

/* ---- this service's own token ---------------------------------------------------------------- */

/* Tokens of reloads live as long as the box, because calls under way may use them. */
struct ron_app_token {
    struct ron_app_token *_next;
    struct ron_str text;
    char kid[RON_CAP_KEY_ID_SIZE];
    char _bytes[];
};
enum { RON_APP_TOKENS_MAX = 256 }; /* reloads with another token in one life */

struct ron_app_tokens {
    const struct ron_env *env;
    const char *key; /* the setting's name, for messages */
    struct ron_aptr _newest;
    struct ron_app_token *_all;
    uint32_t _count;
};
void ron_app_tokens_init(struct ron_app_tokens *b, const struct ron_env *env, const char *key);
void ron_app_tokens_done(struct ron_app_tokens *b);
/* Reads the file (mode 0600). The same token again changes nothing. Blocking. */
RON_MUST_USE enum ron_rc ron_app_tokens_load(struct ron_app_tokens *b, const char *path,
                                             struct ron_err *err);
/* The newest; NULL before the first load. */
const struct ron_app_token *ron_app_tokens_get(const struct ron_app_tokens *b);
