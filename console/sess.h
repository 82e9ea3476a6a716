/* SPDX-License-Identifier: Apache-2.0 */
/* console/sess.h - one-time links and the sessions that they open.
 *
 * Place: console; plain data behind one lock, no I/O. A holder of a capability asks for a link; a
 * browser opens it and gets a session, whose text is its cookie.
 *
 *     (capability) --link_new--> link --link_use, once, before it expires--> session --> end
 *
 * Rules:
 *   S1. A link opens one session. Used, expired and unknown links look alike.
 *   S2. A session has the role of its link and ends no later than the capability that asked for it.
 *   S3. A secret is 256 random bits as 64 hexadecimal digits. Only its hash is kept, and hashes are
 *       compared in constant time: neither memory nor timing gives one away.
 *   S4. Both tables are bounded. The one that is oldest gives way to a new one.
 *   S5. Nothing is on disk: a restart ends all links and sessions.
 *
 * Threads: any. Times are the wall clock in ms, given by the caller. */
#pragma once

#include "ron/base/env.h"
#include "ron/base/json.h"
#include "ron/cas/b3.h"
#include "ron/sync/sync.h"

enum con_role { CON_ROLE_READ, CON_ROLE_OPERATE };

enum {
    CON_LINKS_MAX = 32,     /* asked for and not opened yet: people, not programs */
    CON_SESSIONS_MAX = 128, /* browsers at once */
    CON_SECRET_LEN = 64,
    CON_SECRET_SIZE = CON_SECRET_LEN + 1,
};

struct con_ticket {
    struct ron_b3 hash;
    enum con_role role;
    uint64_t until_ms; /* 0: the place is free */
    uint64_t made_ms;
    uint64_t cap_until_ms; /* links: when the capability ends */
};

struct con_sess {
    const struct ron_env *env;
    uint64_t link_ttl_ms;
    uint64_t session_ttl_ms;
    struct ron_mutex mu; /* guards both tables */
    struct con_ticket links[CON_LINKS_MAX];
    struct con_ticket sessions[CON_SESSIONS_MAX];
};

void con_sess_init(struct con_sess *s, const struct ron_env *env, uint64_t link_ttl_ms,
                   uint64_t session_ttl_ms);
void con_sess_done(struct con_sess *s);

/* A link for a holder of a capability that ends at `cap_until_ms`. */
void con_link_new(struct con_sess *s, enum con_role role, uint64_t cap_until_ms, uint64_t now_ms,
                  char ret_secret[CON_SECRET_SIZE]);
/* Opens it. RON_NOTFOUND (S1). `ret_until_ms` is when the session ends. */
RON_MUST_USE enum ron_rc con_link_use(struct con_sess *s, struct ron_str secret, uint64_t now_ms,
                                      char ret_session[CON_SECRET_SIZE], uint64_t *ret_until_ms);
/* RON_NOTFOUND: none, or it has ended. */
RON_MUST_USE enum ron_rc con_sess_find(struct con_sess *s, struct ron_str session, uint64_t now_ms,
                                       enum con_role *ret_role, uint64_t *ret_until_ms);
void con_sess_end(struct con_sess *s, struct ron_str session);
/* How many are open. */
uint32_t con_sess_count(struct con_sess *s, uint64_t now_ms);

/* The value of a cookie in a Cookie header; empty when it is not there, or there twice. */
struct ron_str con_cookie(struct ron_str header, struct ron_str name);
