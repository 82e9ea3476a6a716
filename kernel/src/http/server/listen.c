/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/server/listen.c - the addresses of a server: who may connect, and what is served
 * where.
 *
 * Place: http, between server.c, which owns the tasks, and conn.c; sockets and accepting are those
 * of ron/front/intake.h.
 *
 * Invariant: a Unix peer is let in only by what the system says of it, never by what it says
 * itself. */
#include "http/server/priv.h"
#include "ron/base/assert.h"

_Static_assert((int)RON_HTTP_LISTENERS_MAX <= (int)RON_INTAKE_ADDRS_MAX, "one address each");

bool ron__http_peer_allowed(const struct ron_http_listener *def, const struct ron_peer *peer)
{
    struct ron_peer_list list = {def->uids, def->uid_count, def->gids, def->gid_count};

    if (!peer->has_cred) {
        return true; /* An address: a Unix socket always has credentials. */
    }
    if (ron_peer_list_empty(&list)) {
        return peer->uid == 0 || peer->same_user;
    }
    return ron_peer_listed(&list, peer);
}

void ron__http_listen_init(struct ron_http_server *s)
{
    const struct ron_http_opts *o = &s->opts;

    s->listener_count = o->addr != NULL ? 1 : o->listener_count;
    for (size_t i = 0; i < s->listener_count; i++) {
        struct http_listener *l = &s->listeners[i];

        l->def = o->addr != NULL ? (struct ron_http_listener){.addr = o->addr} : o->listeners[i];
        l->places = (l->def.flags & RON_HTTP_LISTEN_OPS) != 0 ? HTTP_PLACE_OPS : HTTP_PLACE_MAIN;
        l->places |= (l->def.flags & RON_HTTP_LISTEN_ADMIN) != 0 ? HTTP_PLACE_ADMIN : 0;
    }
}

enum ron_rc ron__http_listen_open(struct ron_http_server *s, const struct ron_intake_ops *ops,
                                  struct ron_err *err)
{
    struct ron_intake_opts o = {.env = s->opts.env,
                                .ops = ops,
                                .name = s->opts.name,
                                .addr_count = s->listener_count,
                                .workers = s->workers,
                                .worker_bytes = sizeof s->workers[0],
                                .worker_count = s->worker_count};

    for (size_t i = 0; i < s->listener_count; i++) {
        o.addrs[i] = s->listeners[i].def.addr;
    }
    return ron_intake_new(&o, &s->intake, err);
}

const char *ron_http_server_addr(const struct ron_http_server *s)
{
    return ron_intake_addr(s->intake, 0);
}

const char *ron_http_server_listener_addr(const struct ron_http_server *s, size_t index)
{
    return ron_intake_addr(s->intake, index);
}

enum ron_rc ron_http_server_move(struct ron_http_server *s, size_t listener, const char *addr,
                                 struct ron_err *err)
{
    return ron_intake_move(s->intake, listener, addr, err);
}
