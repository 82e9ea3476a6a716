/* SPDX-License-Identifier: Apache-2.0 */
/* sim_link.c - how bytes travel between two sockets, and what can happen to them on the way.
 *
 * Place: under the network ports.
 *
 * Invariants:
 *   L1 segments of one direction of a connection arrive in the order sent; those of different
 *   connections in
 *      any order.
 *   L2 loss is delay: a stream either delivers a byte or breaks. A segment that cannot be delivered
 *   (cut link,
 *      machine off, backlog full) is tried again, at growing distances, until net_timeout_ns is
 *      over; then the sender's side breaks with RON_TIMEOUT and the other side learns nothing.
 *   L3 a segment for a socket that is closed or gone is answered by a reset, if the machine is on.
 *   L4 within one machine (loopback, Unix sockets) nothing is lost, cut or clogged. */
#include <string.h>

#include "ron/base/assert.h"
#include "sim_sock.h"

/* As Linux: the least retransmission time, doubling up to a maximum. */
static const uint64_t retry_first_ns = 200 * RON_NS_PER_MS;
static const uint64_t retry_max_ns = 2000 * RON_NS_PER_MS;
/* The most a loopback segment takes. */
static const uint64_t local_delay_max_ns = 10000;

struct sim_sock *sim__sock_new(struct sim_env *se, enum sim_sock_state state)
{
    struct sim *sim = se->host->sim;
    struct sim_sock *sock = sim__alloc(sizeof *sock);

    sock->id = ++sim->sock_seq;
    sock->state = state;
    sock->env = se;
    sock->host = se->host;
    sock->err = RON_OK;
    ron_list_push_back(&sim->socks, &sock->node);
    return sock;
}

static struct sim_link *link_of(struct sim *sim, const struct sim_host *from,
                                const struct sim_host *to)
{
    return &sim->link[from->id][to->id];
}

static struct sim_host *target_of(const struct sim_sock *from)
{
    return from->peer != NULL ? from->peer->host : from->place.host;
}

static void drop_tx(struct sim_sock *sock)
{
    while (sock->tx_first != NULL) {
        struct sim_seg *seg = sock->tx_first;
        sock->tx_first = seg->next;
        sim__free(seg);
    }
    sock->tx_last = NULL;
    sock->stuck_at_ns = 0;
}

/* A closed socket with nothing left to send only stays as memory (S3). */
static void bury_if_done(struct sim *sim, struct sim_sock *sock)
{
    if (sock->state == SIM_SOCK_CLOSED && sock->tx_first == NULL && sock->rx.at != NULL) {
        sim__bytes_done(&sock->rx);
        sock->rx_head = 0;
    }
    if (sock->state == SIM_SOCK_CLOSED && sock->tx_first == NULL && sock->backlog == NULL) {
        ron_list_remove(&sock->node);
        ron_list_push_back(&sim->graves, &sock->node);
    }
}

void sim__break(struct sim *sim, struct sim_sock *sock, enum ron_rc err)
{
    drop_tx(sock);
    if (sock->state != SIM_SOCK_CLOSED) {
        sock->state = SIM_SOCK_FAILED;
        sock->err = err;
        sock->edge++;
    }
    bury_if_done(sim, sock);
}

/* Faults that a segment meets when it leaves; the time at which it arrives if it can. */
static uint64_t travel_ns(struct sim *sim, const struct sim_host *from, const struct sim_host *to)
{
    struct ron_rand *rand = &sim->rand_net;
    const struct sim_opts *o = &sim->opts;
    struct sim_link *link = link_of(sim, from, to);
    uint64_t now_ns = sim_now_ns(sim);
    uint64_t delay_ns;

    if (from == to) {
        return now_ns + ron_rand_range(rand, 1, local_delay_max_ns); /* keeps L4 */
    }
    delay_ns = ron_rand_range(rand, o->net_delay_min_ns,
                              RON_MAX(o->net_delay_min_ns, o->net_delay_max_ns));
    if (sim__chance(rand, o->net_slow_ppm)) {
        delay_ns *= ron_rand_range(rand, 10, 100);
        sim__event(sim, SIM_EV_SLOW, from, to->id, delay_ns);
    }
    if (sim__chance(rand, o->net_loss_ppm)) {
        delay_ns += retry_first_ns << ron_rand_below(rand, 3);
        sim__event(sim, SIM_EV_LOSS, from, to->id, delay_ns);
    }
    if (sim__chance(rand, o->net_clog_ppm)) {
        uint64_t until_ns = now_ns + 1 + ron_rand_below(rand, o->net_clog_max_ns + 1);
        link->clog_until_ns = RON_MAX(link->clog_until_ns, until_ns);
        sim__event(sim, SIM_EV_CLOG, from, to->id, until_ns);
    }
    if (sim__chance(rand, o->net_cut_ppm)) {
        uint64_t until_ns = now_ns + 1 + ron_rand_below(rand, o->net_cut_max_ns + 1);
        bool both = ron_rand_chance(rand, 1, 2);
        struct sim_link *back = link_of(sim, to, from);
        link->cut_until_ns = RON_MAX(link->cut_until_ns, until_ns);
        if (both) {
            back->cut_until_ns = RON_MAX(back->cut_until_ns, until_ns);
        }
        sim__event(sim, SIM_EV_CUT, from, to->id, both ? 2 : 1);
    }
    return RON_MAX(now_ns + delay_ns, link->clog_until_ns);
}

static sim_fire_fn arrive;

static void arm(struct sim *sim, struct sim_sock *from)
{
    if (!from->tx_armed && from->tx_first != NULL) {
        from->tx_armed = true;
        sim__timer(sim, from->tx_first->at_ns, arrive, from, 0);
    }
}

void sim__send(struct sim *sim, struct sim_sock *from, enum sim_seg_kind kind, const void *data,
               size_t len)
{
    struct sim_seg *seg = from->tx_last;
    bool carries = kind == SIM_SEG_DATA;

    RON_ASSERT(target_of(from) != NULL);
    if (kind == SIM_SEG_ROOM && seg != NULL && seg->kind == SIM_SEG_ROOM) {
        seg->len += len; /* acknowledgements gather */
        return;
    }
    seg = sim__alloc(sizeof *seg + (carries ? len : 0));
    seg->kind = kind;
    seg->len = len;
    if (carries) {
        memcpy(seg->data, data, len);
    }
    seg->at_ns = travel_ns(sim, from->host, target_of(from));
    seg->at_ns = RON_MAX(seg->at_ns, from->tx_last_at_ns); /* keeps L1 */
    from->tx_last_at_ns = seg->at_ns;
    if (from->tx_last == NULL) {
        from->tx_first = seg;
    } else {
        from->tx_last->next = seg;
    }
    from->tx_last = seg;
    if (kind != SIM_SEG_ROOM) {
        sim__event(sim, SIM_EV_SEND, from->host, ((uint64_t)from->id << 8) | kind,
                   carries ? sim__hash_bytes(data, len) : 0);
    }
    arm(sim, from);
}

/* ---- connects ---- */

static bool listener_matches(const struct sim_sock *l, const struct sim_place *place, bool local)
{
    if (l->state != SIM_SOCK_LISTENING || l->host != place->host ||
        l->place.is_unix != place->is_unix) {
        return false;
    }
    if (place->is_unix) {
        return strcmp(l->place.path, place->path) == 0;
    }
    return l->place.port == place->port && (l->place.any_address || local);
}

struct sim_sock *sim__find_listener(struct sim *sim, const struct sim_place *place, bool local)
{
    struct sim_sock *found = NULL;
    uint64_t matches = 0;

    /* Among listeners that share a port, each is as likely. */
    RON_LIST_FOREACH(node, &sim->socks)
    {
        struct sim_sock *sock = RON_LIST_ENTRY(node, struct sim_sock, node);
        if (listener_matches(sock, place, local)) {
            matches++;
            if (ron_rand_below(&sim->rand_net, matches) == 0) {
                found = sock;
            }
        }
    }
    return found;
}

static void refused(struct sim *sim, void *obj, uint64_t arg)
{
    struct sim_sock *sock = obj;
    const struct sim_link *back = link_of(sim, sock->place.host, sock->host);

    (void)arg;
    /* A refusal that gets lost is not sent again: the connect then times out. */
    if (sock->state == SIM_SOCK_CONNECTING && back->cut_until_ns <= sim_now_ns(sim)) {
        sim__event(sim, SIM_EV_REFUSE, sock->host, sock->id, 0);
        sim__break(sim, sock, RON_IO);
    }
}

static void connect_timeout(struct sim *sim, void *obj, uint64_t arg)
{
    struct sim_sock *sock = obj;

    (void)arg;
    if (sock->state == SIM_SOCK_CONNECTING) {
        sim__event(sim, SIM_EV_GIVE_UP, sock->host, sock->id, 0);
        sim__break(sim, sock, RON_TIMEOUT);
    }
}

void sim__arm_connect_timeout(struct sim *sim, struct sim_sock *sock)
{
    sim__timer(sim, ron_sat_add_u64(sim_now_ns(sim), sim->opts.net_timeout_ns), connect_timeout,
               sock, 0);
}

static void double_dies(struct sim *sim, void *obj, uint64_t arg)
{
    (void)arg;
    sim__break(sim, obj, RON_CLOSED);
}

static struct sim_sock *queue_at(struct sim_sock *listener, const struct sim_sock *client)
{
    struct sim_sock *server = sim__sock_new(listener->env, SIM_SOCK_OPEN);

    server->place = listener->place;
    server->local = listener->local;
    server->remote = client->local;
    listener->backlog[listener->backlog_count++] = server;
    listener->edge++;
    return server;
}

/* A connect has arrived. False: the backlog is full, let it come again. */
static bool accept_connect(struct sim *sim, struct sim_sock *client)
{
    bool local = client->host == client->place.host;
    struct sim_sock *listener = sim__find_listener(sim, &client->place, local);
    struct sim_sock *server;

    if (listener == NULL) {
        sim__timer(sim, travel_ns(sim, client->place.host, client->host), refused, client, 0);
        return true;
    }
    if (listener->backlog_count == listener->backlog_max) {
        sim__event(sim, SIM_EV_BACKLOG_FULL, listener->host, client->id, 0);
        return false;
    }
    server = queue_at(listener, client);
    server->peer = client;
    client->peer = server;
    sim__send(sim, server, SIM_SEG_ACCEPT, NULL, 0);
    if (!local && listener->backlog_count < listener->backlog_max &&
        sim__chance(&sim->rand_net, sim->opts.net_dup_connect_ppm)) {
        struct sim_sock *twin = queue_at(listener, client);
        sim__event(sim, SIM_EV_DUP_CONNECT, listener->host, client->id, twin->id);
        sim__timer(sim, travel_ns(sim, client->host, listener->host), double_dies, twin, 0);
    }
    return true;
}

/* ---- arrival ---- */

static void reset_arrives(struct sim *sim, struct sim_sock *to)
{
    sim__event(sim, SIM_EV_RESET, to->host, to->id, 0);
    if (ron_rand_chance(&sim->rand_net, 1, 2)) {
        to->rx_head = to->rx.len; /* unread bytes may be lost too */
    }
    sim__break(sim, to, RON_CLOSED);
}

static void deliver(struct sim *sim, struct sim_sock *to, const struct sim_seg *seg)
{
    bool gone = to->state == SIM_SOCK_CLOSED || to->env->dead;

    if (seg->kind != SIM_SEG_ROOM) {
        sim__event(sim, SIM_EV_DELIVER, to->host, ((uint64_t)to->id << 8) | seg->kind, seg->len);
    }
    if (gone || to->state == SIM_SOCK_FAILED) {
        if (seg->kind == SIM_SEG_DATA || seg->kind == SIM_SEG_ACCEPT) {
            sim__send(sim, to, SIM_SEG_RESET, NULL, 0); /* keeps L3 */
        }
        return;
    }
    switch (seg->kind) {
    case SIM_SEG_ACCEPT:
        to->state = SIM_SOCK_OPEN;
        to->edge++;
        break;
    case SIM_SEG_DATA:
        sim__bytes_put(&to->rx, to->rx.len, seg->data, seg->len);
        to->edge++;
        break;
    case SIM_SEG_ROOM:
        RON_ASSERT(to->unread >= seg->len);
        to->unread -= seg->len;
        if (to->wants_room) {
            to->wants_room = false;
            to->edge++;
        }
        break;
    case SIM_SEG_END:
        to->rx_end = true;
        to->edge++;
        break;
    case SIM_SEG_RESET:
        reset_arrives(sim, to);
        break;
    case SIM_SEG_CONNECT:
        RON_UNREACHABLE();
    }
}

/* The head of the queue did not get through: again later, or give up (L2). */
static void stuck(struct sim *sim, struct sim_sock *from)
{
    uint64_t now_ns = sim_now_ns(sim);

    if (from->silent) {
        drop_tx(from);
        return;
    }
    if (from->stuck_at_ns == 0) {
        from->stuck_at_ns = now_ns;
        from->retry_ns = retry_first_ns;
    } else if (now_ns - from->stuck_at_ns >= sim->opts.net_timeout_ns) {
        sim__event(sim, SIM_EV_GIVE_UP, from->host, from->id, 0);
        sim__break(sim, from, RON_TIMEOUT);
        return;
    }
    sim__event(sim, SIM_EV_RETRY, from->host, from->id, from->retry_ns);
    from->tx_first->at_ns = now_ns + from->retry_ns;
    from->tx_last_at_ns = RON_MAX(from->tx_last_at_ns, from->tx_first->at_ns);
    from->retry_ns = RON_MIN(from->retry_ns * 2, retry_max_ns);
    arm(sim, from);
}

static void arrive(struct sim *sim, void *obj, uint64_t arg)
{
    struct sim_sock *from = obj;

    (void)arg;
    from->tx_armed = false;
    while (from->tx_first != NULL && from->tx_first->at_ns <= sim_now_ns(sim)) {
        struct sim_seg *seg = from->tx_first;
        const struct sim_host *to = target_of(from);
        bool passes = to->up && link_of(sim, from->host, to)->cut_until_ns <= sim_now_ns(sim);

        if (passes && seg->kind == SIM_SEG_CONNECT) {
            passes = accept_connect(sim, from);
        }
        if (!passes) {
            stuck(sim, from);
            break;
        }
        from->tx_first = seg->next;
        if (from->tx_first == NULL) {
            from->tx_last = NULL;
        }
        from->stuck_at_ns = 0;
        if (seg->kind != SIM_SEG_CONNECT && from->peer != NULL) {
            deliver(sim, from->peer, seg);
        }
        sim__free(seg);
    }
    arm(sim, from);
    bury_if_done(sim, from);
}

/* ---- ends and faults on demand ---- */

void sim__sock_close(struct sim *sim, struct sim_sock *sock, bool at_once)
{
    bool reset = at_once || sim__rx_len(sock) > 0;
    bool tells = sock->state == SIM_SOCK_OPEN || sock->state == SIM_SOCK_CONNECTING;

    sim__event(sim, SIM_EV_CLOSE, sock->host, sock->id, sock->silent ? 1 : 0);
    for (size_t i = 0; i < sock->backlog_count; i++) {
        /* Connections that nobody accepted are reset, as the system does. */
        struct sim_sock *waiting = sock->backlog[i];
        waiting->silent = sock->silent;
        if (waiting->state == SIM_SOCK_OPEN) {
            if (waiting->peer != NULL && !waiting->silent) {
                sim__send(sim, waiting, SIM_SEG_RESET, NULL, 0);
            }
        }
        waiting->state = SIM_SOCK_CLOSED;
        bury_if_done(sim, waiting);
    }
    sim__free(sock->backlog);
    sock->backlog = NULL;
    sock->backlog_count = 0;
    sock->state = SIM_SOCK_CLOSED;
    if (tells && !sock->silent && target_of(sock) != NULL) {
        if (reset) {
            drop_tx(sock);
        }
        sim__send(sim, sock, reset ? SIM_SEG_RESET : SIM_SEG_END, NULL, 0);
    }
    bury_if_done(sim, sock);
}

void sim_cut(struct sim_host *from, struct sim_host *to)
{
    link_of(from->sim, from, to)->cut_until_ns = UINT64_MAX;
    sim__event(from->sim, SIM_EV_CUT, from, to->id, 1);
}

void sim_heal(struct sim_host *from, struct sim_host *to)
{
    *link_of(from->sim, from, to) = (struct sim_link){0};
    sim__event(from->sim, SIM_EV_HEAL, from, to->id, 0);
}

void sim_heal_all(struct sim *sim)
{
    memset(sim->link, 0, sizeof sim->link);
    sim__event(sim, SIM_EV_HEAL, NULL, 0, 0);
}

void sim_clog(struct sim_host *from, struct sim_host *to, uint64_t until_ns)
{
    link_of(from->sim, from, to)->clog_until_ns = until_ns;
    sim__event(from->sim, SIM_EV_CLOG, from, to->id, until_ns);
}

static void reset_later(struct sim *sim, void *obj, uint64_t arg)
{
    struct sim_sock *sock = obj;

    (void)arg;
    if (sock->state == SIM_SOCK_OPEN) {
        reset_arrives(sim, sock);
    }
}

void sim_reset(struct sim_host *a, struct sim_host *b)
{
    struct sim *sim = a->sim;

    RON_LIST_FOREACH(node, &sim->socks)
    {
        struct sim_sock *sock = RON_LIST_ENTRY(node, struct sim_sock, node);
        const struct sim_host *to = sock->peer == NULL ? NULL : sock->peer->host;
        if (sock->state == SIM_SOCK_OPEN &&
            ((sock->host == a && to == b) || (sock->host == b && to == a))) {
            sim__timer(sim, sim_now_ns(sim), reset_later, sock, 0); /* keeps S2 */
        }
    }
    sim__leave(sim);
}
