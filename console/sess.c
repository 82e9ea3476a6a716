/* SPDX-License-Identifier: Apache-2.0 */
/* console/sess.c - tickets in two small tables, looked at whole. */
#include "console/sess.h"

#include <sodium.h>
#include <string.h>

#include "ron/base/clock.h"
#include "ron/base/hex.h"
#include "ron/base/secret.h"
#include "ron/obs/trace.h"

void con_sess_init(struct con_sess *s, const struct ron_env *env, uint64_t link_ttl_ms,
                   uint64_t session_ttl_ms)
{
    *s =
        (struct con_sess){.env = env, .link_ttl_ms = link_ttl_ms, .session_ttl_ms = session_ttl_ms};
    ron_mutex_init(&s->mu, RON_RANK_LEAF, "console.sessions");
}

void con_sess_done(struct con_sess *s)
{
    ron_wipe(s->links, sizeof s->links);
    ron_wipe(s->sessions, sizeof s->sessions);
    ron_mutex_done(&s->mu);
}

/* ---- tickets --------------------------------------------------------------------------------- */

static void make_secret(const struct ron_env *env, char ret_secret[CON_SECRET_SIZE],
                        struct ron_b3 *ret_hash)
{
    uint8_t bytes[CON_SECRET_LEN / 2];

    for (size_t i = 0; i < sizeof bytes; i += sizeof(uint64_t)) {
        uint64_t random = env->rand_u64(env);

        memcpy(bytes + i, &random, sizeof random);
    }
    ron_hex(bytes, sizeof bytes, ret_secret);
    ron_wipe(bytes, sizeof bytes);
    ron_b3_hash(ret_secret, CON_SECRET_LEN, ret_hash);
}

/* A free or expired place, else that of the oldest (S4). */
static struct con_ticket *place(struct con_ticket *table, size_t count, uint64_t now_ms)
{
    struct con_ticket *oldest = &table[0];

    for (size_t i = 0; i < count; i++) {
        if (table[i].until_ms <= now_ms) {
            return &table[i];
        }
        if (table[i].made_ms < oldest->made_ms) {
            oldest = &table[i];
        }
    }
    return oldest;
}

/* Looks at every ticket, so that the time taken does not tell which one it was. */
static struct con_ticket *find(struct con_ticket *table, size_t count, struct ron_str secret,
                               uint64_t now_ms)
{
    struct con_ticket *found = NULL;
    struct ron_b3 hash;

    if (secret.len != CON_SECRET_LEN) {
        return NULL;
    }
    ron_b3_hash(secret.ptr, secret.len, &hash);
    for (size_t i = 0; i < count; i++) {
        bool same = sodium_memcmp(table[i].hash.bytes, hash.bytes, sizeof hash.bytes) == 0;

        if (same && table[i].until_ms > now_ms) {
            found = &table[i];
        }
    }
    return found;
}

/* ---- links and sessions ---------------------------------------------------------------------- */

void con_link_new(struct con_sess *s, enum con_role role, uint64_t cap_until_ms, uint64_t now_ms,
                  char ret_secret[CON_SECRET_SIZE])
{
    struct con_ticket t = {.role = role,
                           .made_ms = now_ms,
                           .cap_until_ms = cap_until_ms,
                           .until_ms =
                               RON_MIN(cap_until_ms, ron_sat_add_u64(now_ms, s->link_ttl_ms))};

    make_secret(s->env, ret_secret, &t.hash);
    ron_mutex_lock(&s->mu);
    *place(s->links, CON_LINKS_MAX, now_ms) = t;
    ron_mutex_unlock(&s->mu);
}

enum ron_rc con_link_use(struct con_sess *s, struct ron_str secret, uint64_t now_ms,
                         char ret_session[CON_SECRET_SIZE], uint64_t *ret_until_ms)
{
    struct con_ticket session = {.made_ms = now_ms};
    char text[CON_SECRET_SIZE];
    struct con_ticket *link;
    enum ron_rc rc = RON_NOTFOUND;

    make_secret(s->env, text, &session.hash);
    ron_mutex_lock(&s->mu);
    link = find(s->links, CON_LINKS_MAX, secret, now_ms);
    if (link != NULL) {
        session.role = link->role;
        session.until_ms = RON_MIN(link->cap_until_ms, ron_sat_add_u64(now_ms, s->session_ttl_ms));
        *link = (struct con_ticket){0};
        *place(s->sessions, CON_SESSIONS_MAX, now_ms) = session;
        rc = RON_OK;
    }
    ron_mutex_unlock(&s->mu);
    if (rc == RON_OK) {
        memcpy(ret_session, text, sizeof text);
        *ret_until_ms = session.until_ms;
    }
    ron_wipe(text, sizeof text);
    return rc;
}

enum ron_rc con_sess_find(struct con_sess *s, struct ron_str session, uint64_t now_ms,
                          enum con_role *ret_role, uint64_t *ret_until_ms)
{
    const struct con_ticket *t;
    enum ron_rc rc = RON_NOTFOUND;

    ron_mutex_lock(&s->mu);
    t = find(s->sessions, CON_SESSIONS_MAX, session, now_ms);
    if (t != NULL) {
        *ret_role = t->role;
        *ret_until_ms = t->until_ms;
        rc = RON_OK;
    }
    ron_mutex_unlock(&s->mu);
    return rc;
}

void con_sess_end(struct con_sess *s, struct ron_str session)
{
    struct con_ticket *t;

    ron_mutex_lock(&s->mu);
    t = find(s->sessions, CON_SESSIONS_MAX, session, 0);
    if (t != NULL) {
        *t = (struct con_ticket){0};
    }
    ron_mutex_unlock(&s->mu);
}

uint32_t con_sess_count(struct con_sess *s, uint64_t now_ms)
{
    uint32_t count = 0;

    ron_mutex_lock(&s->mu);
    for (size_t i = 0; i < CON_SESSIONS_MAX; i++) {
        count += s->sessions[i].until_ms > now_ms;
    }
    ron_mutex_unlock(&s->mu);
    return count;
}

/* ---- cookies --------------------------------------------------------------------------------- */

struct ron_str con_cookie(struct ron_str header, struct ron_str name)
{
    struct ron_str value = {0};
    size_t at = 0;

    while (at < header.len) {
        const char *end = memchr(header.ptr + at, ';', header.len - at);
        size_t stop = end != NULL ? (size_t)(end - header.ptr) : header.len;

        while (at < stop && header.ptr[at] == ' ') {
            at++;
        }
        if (stop - at > name.len && header.ptr[at + name.len] == '=' &&
            memcmp(header.ptr + at, name.ptr, name.len) == 0) {
            if (value.ptr != NULL) {
                return (struct ron_str){0};
            }
            at += name.len + 1;
            value = (struct ron_str){header.ptr + at, stop - at};
        }
        at = stop + 1;
    }
    return value;
}
